#include "tests/support/matrix_kernels.h"

#include "tests/support/counting.cuh"

namespace ladder_test {
namespace {

__global__ void damage_kernel(const uint16_t* words, long long count, long long guard,
                              long long span, int cols, long long ld, uint16_t poison,
                              unsigned long long* damaged) {
  for (long long i = first_index(); i < count; i += index_stride()) {
    const long long at = i - guard;  // from the matrix's first element
    const bool is_element = at >= 0 && at < span && at % ld < cols;
    if (!is_element && words[i] != poison) atomicAdd(damaged, 1ull);
  }
}

__global__ void difference_kernel(const uint16_t* x, const uint16_t* y, int cols, long long ld_x,
                                  long long ld_y, long long elems, unsigned long long* different) {
  for (long long i = first_index(); i < elems; i += index_stride()) {
    if (x[i / cols * ld_x + i % cols] != y[i / cols * ld_y + i % cols]) atomicAdd(different, 1ull);
  }
}

}  // namespace

long long count_damage(const uint16_t* buffer, long long total, long long guard, long long span,
                       int cols, long long ld, uint16_t poison) {
  const Counter damaged;
  damage_kernel<<<CTAS, THREADS>>>(buffer, total, guard, span, cols, ld, poison, damaged.device());
  return damaged.read();
}

long long count_differences(const uint16_t* x, long long ld_x, const uint16_t* y, long long ld_y,
                            int rows, int cols) {
  const Counter different;
  difference_kernel<<<CTAS, THREADS>>>(x, y, cols, ld_x, ld_y, static_cast<long long>(rows) * cols,
                                       different.device());
  return different.read();
}

}  // namespace ladder_test
