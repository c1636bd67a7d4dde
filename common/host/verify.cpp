#include "common/host/verify.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/host/error.h"
#include "common/host/text.h"
#include "common/host/tolerance.h"

namespace ladder {

std::string Verdict::describe() const {
  char text[256];
  char got[64];
  if (first_unwritten) {
    std::snprintf(got, sizeof got, "nobody has written it (it is NaN, as D began)");
  } else {
    std::snprintf(got, sizeof got, "got %.9g", first_got);
  }
  if (padding) {
    std::snprintf(text, sizeof text,
                  "%lld elements behind the last column of D were written, the first at row %lld, "
                  "column %lld: they are the caller's",
                  wrong, first_row, first_col);
  } else if (ok() && exact) {
    std::snprintf(text, sizeof text, "ok, bit for bit");
  } else if (ok()) {
    std::snprintf(text, sizeof text, "ok, within rounding (%.2f of it at most)", worst);
  } else {
    std::snprintf(text, sizeof text,
                  "%lld wrong elements, the first at row %lld, column %lld: %s, want %.9g; "
                  "the largest error is %.3g times what rounding allows",
                  wrong, first_row, first_col, got, first_want, worst);
  }
  return text;
}

namespace {

// "12,5" for the number that stands in row 12 and column 5 (mod 64 and 128), "" if it is none.
std::string place_of(double value) {
  if (!(value > 0)) return "";
  int exponent = 0;
  const double column = (2 * std::frexp(value, &exponent) - 1) * PLACE_COLS;
  const int row = exponent - 1 + PLACE_ROWS / 2;
  if (row < 0 || row >= PLACE_ROWS || column != std::floor(column)) return "";
  return format("%d,%.0f", row, column);
}

std::string cell_text(double value, bool places) {
  const std::string place = places ? place_of(value) : "";
  return place.empty() ? format("%.4g", value) : place;
}

}  // namespace

Around::Around(long long row, long long col, int m, int n)
    : row0(std::clamp(row - 1, 0LL, std::max(0LL, static_cast<long long>(m) - ROWS))),
      col0(std::clamp(col - 1, 0LL, std::max(0LL, static_cast<long long>(n) - COLS))),
      rows(std::min(ROWS, m)),
      cols(std::min(COLS, n)) {}

Around::Cell compared(double got, double r, double s, bool exact, double rounded, int bits) {
  return {got, r, exact ? got == rounded : within_tolerance(got, r, s, bits)};
}

std::string Around::text(bool places) const {
  const std::string columns = format("columns %lld to %lld", col0, col0 + cols - 1);
  std::string lines = format("%-10s %-*s | %s\n", "", cols * 11 - 1, ("got, " + columns).c_str(),
                             places ? "want, as row,column of B" : "want");
  for (int row = 0; row < rows; ++row) {
    std::string got, want;
    for (int col = 0; col < cols; ++col) {
      const Cell& cell = cells[static_cast<size_t>(row * cols + col)];
      got += format(" %10s", ((cell.right ? "" : "*") + cell_text(cell.got, places)).c_str());
      want += format(" %10s", cell_text(cell.want, places).c_str());
    }
    lines += format("row %-6lld", row0 + row) + got + " |" + want + "\n";
  }
  return lines;
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
