// The host's half of verify.h, for element types that have an Element.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

#include "common/host/element.h"
#include "common/host/error.h"
#include "common/host/tolerance.h"
#include "common/host/verify.h"

namespace ladder {

// To the host: a matrix whose last row ends at its last column.
template <class T>
std::vector<T> download(const T* base, int rows, int cols, long long ld, cudaStream_t stream) {
  if (rows == 0 || cols == 0) return {};
  std::vector<T> elements(static_cast<size_t>((rows - 1) * ld + cols));
  check_cuda(cudaMemcpyAsync(elements.data(), base, elements.size() * sizeof(T),
                             cudaMemcpyDeviceToHost, stream),
             "copying a matrix to the host");
  check_cuda(cudaStreamSynchronize(stream), "copying a matrix to the host");
  return elements;
}

template <class Out>
Verdict verify_cpu(const Out* d, long long ldd, int m, int n, const double* r, const double* s,
                   bool exact) {
  constexpr int BITS = Element<Out>::SIGNIFICAND_BITS;
  Verdict verdict;
  verdict.exact = exact;
  for (long long row = 0; row < m; ++row) {
    for (long long col = 0; col < n; ++col) {
      const double got = Element<Out>::to_float(d[row * ldd + col]);
      const double want = r[row * n + col];
      const double abs_sum = s[row * n + col];
      // Comparing values takes -0 for +0, and NaN for nothing.
      const bool right =
          exact ? got == double{Element<Out>::to_float(Element<Out>::from_double(want))}
                : within_tolerance(got, want, abs_sum, BITS);
      verdict.worst = std::max(verdict.worst, error_of_bound(got, want, abs_sum, BITS));
      if (right) continue;
      if (verdict.wrong++ == 0) {
        verdict.first_row = row;
        verdict.first_col = col;
        verdict.first_got = got;
        verdict.first_unwritten = has_all_bits(d[row * ldd + col]);
        verdict.first_want = want;
      }
    }
  }
  if (verdict.ok()) return verdict;
  verdict.around = Around(verdict.first_row, verdict.first_col, m, n);
  verdict.around.fill([&](long long row, long long col) {
    const double want = r[row * n + col];
    return compared(Element<Out>::to_float(d[row * ldd + col]), want, s[row * n + col], exact,
                    Element<Out>::to_float(Element<Out>::from_double(want)), BITS);
  });
  return verdict;
}

template <class In>
void reference_cpu(int m, int n, int k, const In* a, long long lda, const In* b, long long ldb,
                   double* r, double* s) {
  // Several columns at a time, so that their sums do not wait for each other.
  constexpr long long COLS = 8;
  for (long long col0 = 0; col0 < n; col0 += COLS) {
    const long long cols = std::min(COLS, n - col0);
    std::vector<double> columns(static_cast<size_t>(k * COLS));  // of B^T, [k][COLS]
    for (long long c = 0; c < cols; ++c) {
      for (long long i = 0; i < k; ++i) {
        columns[i * COLS + c] = double{Element<In>::to_float(b[(col0 + c) * ldb + i])};
      }
    }
    for (long long row = 0; row < m; ++row) {
      double sum[COLS] = {}, abs_sum[COLS] = {};
      for (long long i = 0; i < k; ++i) {
        const double value = double{Element<In>::to_float(a[row * lda + i])};
        for (long long c = 0; c < COLS; ++c) {
          const double product = value * columns[i * COLS + c];
          sum[c] += product;
          abs_sum[c] += std::abs(product);
        }
      }
      std::copy_n(sum, cols, r + row * n + col0);
      std::copy_n(abs_sum, cols, s + row * n + col0);
    }
  }
}

template <class T>
void fill_from_host(T* base, int rows, int cols, long long ld, Data data, uint64_t seed,
                    cudaStream_t stream) {
  std::vector<T> row(static_cast<size_t>(cols));
  for (long long i = 0; i < rows; ++i) {
    for (long long j = 0; j < cols; ++j) {
      row[j] = Element<T>::from_float(element_value(data, seed, i, j, cols));
    }
    check_cuda(cudaMemcpyAsync(base + i * ld, row.data(), row.size() * sizeof(T),
                               cudaMemcpyHostToDevice, stream),
               "copying a row to the device");
  }
}

// To the host: an operand as rows of K, k apart, wherever its rows lie. mn_major: it is [k][ld].
template <class In>
std::vector<In> download_k_major(const In* base, int rows, int k, long long ld, bool mn_major,
                                 cudaStream_t stream) {
  const std::vector<In> stored =
      mn_major ? download(base, k, rows, ld, stream) : download(base, rows, k, ld, stream);
  std::vector<In> elements(static_cast<size_t>(rows) * static_cast<size_t>(k));
  for (long long row = 0; row < rows; ++row) {
    for (long long i = 0; i < k; ++i) {
      elements[row * k + i] = stored[mn_major ? i * ld + row : row * ld + i];
    }
  }
  return elements;
}

template <class In, class Out>
HostReference reference_on_host(const MatmulArgs<In, Out>& args) {
  const size_t elements = static_cast<size_t>(args.m) * static_cast<size_t>(args.n);
  HostReference reference{std::vector<double>(elements), std::vector<double>(elements)};
  const std::vector<In> a =
      download_k_major(args.a, args.m, args.k, args.lda, args.mn_major_a, args.stream);
  const std::vector<In> b =
      download_k_major(args.b, args.n, args.k, args.ldb, args.mn_major_b, args.stream);
  reference_cpu(args.m, args.n, args.k, a.data(), args.k, b.data(), args.k, reference.r.data(),
                reference.s.data());
  return reference;
}

template <class In, class Out>
Verdict verify_on_host(const MatmulArgs<In, Out>& args, const HostReference& reference,
                       bool exact) {
  const std::vector<Out> d = download(args.d, args.m, args.n, args.ldd, args.stream);
  return verify_cpu(d.data(), args.ldd, args.m, args.n, reference.r.data(), reference.s.data(),
                    exact);
}

}  // namespace ladder
