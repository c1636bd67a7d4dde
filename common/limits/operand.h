// Matrices of bf16 on the device whose elements the host knows.
#pragma once

#include <vector>

#include "common/host/error.h"
#include "common/host/gemm.h"
#include "common/host/verify.h"
#include "common/host/where.h"

namespace limits {

// [rows][cols], dense: element (r, c) is data_value(data, seed, r * cols + c), rounded.
class Operand {
 public:
  Operand(int rows, int cols, ladder::Data data, uint64_t seed, cudaStream_t stream)
      : cols_(cols),
        data_(data),
        seed_(seed),
        buffer_(static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(ladder::bf16)) {
    const auto fill = ladder::on_machine() ? ladder::fill_from_host<ladder::bf16>
                                           : ladder::fill_gpu<ladder::bf16>;
    fill(get(), rows, cols, cols, data, seed, stream);
  }

  ladder::bf16* get() const { return buffer_.as<ladder::bf16>(); }

  ladder::bf16 element(long long row, int col) const {
    const auto index = static_cast<uint64_t>(row * cols_ + col);
    return __float2bfloat16(ladder::data_value(data_, seed_, index));
  }
  // Two neighbours as one 32-bit word, the left one in the lower half; col is even.
  uint32_t word(long long row, int col) const {
    const auto bits = [&](int c) {
      return static_cast<uint32_t>(__bfloat16_as_ushort(element(row, c)));
    };
    return bits(col) | bits(col + 1) << 16;
  }

 private:
  int cols_;
  ladder::Data data_;
  uint64_t seed_;
  ladder::DeviceBuffer buffer_;
};

// Copies what a kernel left to the host and waits for it.
template <class T>
std::vector<T> download(const void* from, size_t count, cudaStream_t stream) {
  std::vector<T> values(count);
  ladder::check_cuda(
      cudaMemcpyAsync(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost, stream),
      "copying of a limit's results");
  ladder::check_cuda(cudaStreamSynchronize(stream), "the kernel of a limit");
  return values;
}

template <class T>
std::vector<T> download(const ladder::DeviceBuffer& buffer, cudaStream_t stream) {
  return download<T>(buffer.data(), buffer.bytes() / sizeof(T), stream);
}

// So that a result that was not written is seen.
inline void poison(const ladder::DeviceBuffer& buffer, cudaStream_t stream) {
  ladder::check_cuda(cudaMemsetAsync(buffer.data(), 0xff, buffer.bytes(), stream),
                     "cudaMemsetAsync");
}

}  // namespace limits
