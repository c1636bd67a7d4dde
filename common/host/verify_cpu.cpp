#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/host/tolerance.h"
#include "common/host/verify.h"

namespace ladder {

std::string Verdict::describe() const {
  char text[256];
  if (ok()) {
    std::snprintf(text, sizeof text, "ok, worst error %.2f of the bound", worst);
  } else {
    std::snprintf(text, sizeof text,
                  "%lld wrong elements, the first at row %lld, column %lld: got %.9g, want %.9g; "
                  "worst error %.3g of the bound",
                  wrong, first_row, first_col, first_got, first_want, worst);
  }
  return text;
}

Verdict verify_cpu(const bf16* d, long long ldd, int m, int n, const double* r, const double* s,
                   bool exact) {
  Verdict verdict;
  for (long long row = 0; row < m; ++row) {
    for (long long col = 0; col < n; ++col) {
      const double got = __bfloat162float(d[row * ldd + col]);
      const double want = r[row * n + col];
      const double abs_sum = s[row * n + col];
      // Comparing values takes -0 for +0, and NaN for nothing.
      const bool right = exact
                             ? got == static_cast<double>(__bfloat162float(__double2bfloat16(want)))
                             : within_tolerance(got, want, abs_sum);
      verdict.worst = std::max(verdict.worst, error_of_bound(got, want, abs_sum));
      if (right) continue;
      if (verdict.wrong++ == 0) {
        verdict.first_row = row;
        verdict.first_col = col;
        verdict.first_got = got;
        verdict.first_want = want;
      }
    }
  }
  return verdict;
}

void reference_cpu(int m, int n, int k, const bf16* a, long long lda, const bf16* b, long long ldb,
                   double* r, double* s) {
  for (long long row = 0; row < m; ++row) {
    for (long long col = 0; col < n; ++col) {
      double sum = 0, abs_sum = 0;
      for (long long i = 0; i < k; ++i) {
        const double product = static_cast<double>(__bfloat162float(a[row * lda + i])) *
                               static_cast<double>(__bfloat162float(b[col * ldb + i]));
        sum += product;
        abs_sum += std::abs(product);
      }
      r[row * n + col] = sum;
      s[row * n + col] = abs_sum;
    }
  }
}

}  // namespace ladder
