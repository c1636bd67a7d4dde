#include "common/host/verify.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <utility>

#include "common/host/error.h"

namespace ladder {

std::string Verdict::describe() const {
  char text[256];
  if (ok() && exact) {
    std::snprintf(text, sizeof text, "ok, bit for bit");
  } else if (ok()) {
    std::snprintf(text, sizeof text, "ok, within rounding (%.2f of it at most)", worst);
  } else {
    std::snprintf(text, sizeof text,
                  "%lld wrong elements, the first at row %lld, column %lld: got %.9g, want %.9g; "
                  "the largest error is %.3g times what rounding allows",
                  wrong, first_row, first_col, first_got, first_want, worst);
  }
  return text;
}

DeviceBuffer::DeviceBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const std::string what = "allocating " + std::to_string(bytes) + " bytes on the device";
  check_cuda(cudaMalloc(&data_, bytes), what.c_str());
}

DeviceBuffer::~DeviceBuffer() {
  cudaFree(data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
}  // namespace ladder
