// What a GPU looks up in matrices that are too large to copy. Synchronises.
#pragma once

#include <cstdint>

namespace ladder_test {

// Words of buffer[total] other than `poison` that are no elements of the matrix of span words that
// begins at buffer + guard and has cols elements a row, ld apart.
long long count_damage(const uint16_t* buffer, long long total, long long guard, long long span,
                       int cols, long long ld, uint16_t poison);

// Elements of x and y, rows x cols, whose bits differ.
long long count_differences(const uint16_t* x, long long ld_x, const uint16_t* y, long long ld_y,
                            int rows, int cols);

}  // namespace ladder_test
