// Is D right? Two references: cuBLASLt's result and a naive kernel that accumulates in double. The
// templates are defined in verify_cpu.h and verify_gpu.cuh and instantiated in gemm_bf16.cu for bf16;
// another kind of problem instantiates its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/host/data.h"
#include "common/host/gemm.h"

namespace ladder {

// The results next to the first wrong one, so that a pattern shows.
struct Around {
  static constexpr int ROWS = 4, COLS = 6;
  struct Cell {
    double got = 0, want = 0;
    bool right = true;
  };

  Around() = default;
  // Where the window lies in an m x n matrix: the element is in its second row and column, or
  // nearer to the matrix's edge.
  Around(long long row, long long col, int m, int n);
  // cell(row, col) for each place of the matrix that the window covers.
  template <class CellOf>
  void fill(const CellOf& cell_of) {
    for (long long row = row0; row < row0 + rows; ++row) {
      for (long long col = col0; col < col0 + cols; ++col) cells.push_back(cell_of(row, col));
    }
  }
  // Two grids, got and want, with * at what is wrong. With `places`, numbers are those of
  // Data::index and stand as row,column of B; what is no such number stands as it is.
  std::string text(bool places) const;

  long long row0 = 0, col0 = 0;
  int rows = 0, cols = 0;
  std::vector<Cell> cells;  // [rows][cols]
};

// A cell for an element and its reference; `rounded` is r in D's type.
Around::Cell compared(double got, double r, double s, bool exact, double rounded, int bits);

// What a comparison found. Indices are of the first wrong element in row-major order.
struct Verdict {
  long long wrong = 0;  // elements outside the tolerance (or, for exact, not bit-equal)
  double worst = 0;     // largest |d - r| / bound over all elements; NaN counts as infinity
  long long first_row = -1, first_col = -1;
  double first_got = 0, first_want = 0;
  bool first_unwritten = false;  // it has all bits set, as results begin
  bool padding = false;          // all that is wrong lies behind the last column of D
  bool ok() const { return wrong == 0; }
  bool exact = false;  // bit for bit was asked for
  Around around;       // of the first wrong element, if there is one
  // "ok, within rounding (0.43 of it at most)" or which element is how wrong.
  std::string describe() const;
};

// Whether all bits are set: no kernel rounds a sum to that, and results begin so.
template <class T>
bool has_all_bits(const T& value) {
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  return std::ranges::all_of(bytes, [](unsigned char byte) { return byte == 0xff; });
}

// CPU: D against r and s (both [m][n], dense), exact = compare the rounded r bit for bit.
template <class Out>
Verdict verify_cpu(const Out* d, long long ldd, int m, int n, const double* r, const double* s,
                   bool exact);

// CPU: r = A·B^T and s = |A|·|B|^T in double, dense [m][n]. For small shapes.
template <class In>
void reference_cpu(int m, int n, int k, const In* a, long long lda, const In* b, long long ldb,
                   double* r, double* s);

// Device memory that frees itself. No copies.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes = 0);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// GPU: fills the matrix base[rows][cols] (ld apart) with data_value(data, seed, row*cols + col).
// Padding between rows is left alone.
template <class T>
void fill_gpu(T* base, int rows, int cols, long long ld, Data data, uint64_t seed,
              cudaStream_t stream);

// GPU reference of one problem by a naive kernel that adds in double: r (rounded to float) and s (float),
// dense [m][n]. Where D has 8 bits, s stands for what a chain of that many sums may lose (tolerance.h).
struct Reference {
  DeviceBuffer r, s;
};
template <class In, class Out>
Reference reference_gpu(const MatmulArgs<In, Out>& args, int chain);
template <class In, class Out>
Reference reference_gpu(const MatmulArgs<In, Out>& args) {
  return reference_gpu(args, args.k);
}

// GPU: args.d against the reference. Synchronises args.stream.
template <class In, class Out>
Verdict verify_gpu(const MatmulArgs<In, Out>& args, const Reference& reference, bool exact);

// The same without a kernel, for the PTX machine, which is not to be judged by itself: the host
// fills and verifies, and copies. args.stream is waited for.
template <class T>
void fill_from_host(T* base, int rows, int cols, long long ld, Data data, uint64_t seed,
                    cudaStream_t stream);
struct HostReference {
  std::vector<double> r, s;  // dense [m][n]
};
template <class In, class Out>
HostReference reference_on_host(const MatmulArgs<In, Out>& args);
template <class In, class Out>
Verdict verify_on_host(const MatmulArgs<In, Out>& args, const HostReference& reference, bool exact);

}  // namespace ladder
