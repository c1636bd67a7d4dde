// For the kind of problem of block_scaled.h alone: what its results are checked by.
#pragma once

#include "common/host/block_scaled.h"

namespace ladder {

// The call, which is of this type, as a product of two matrices without scales.
template <class In>
MatmulArgs<In, bf16> as_matmul(const BlockScaledArgs& from) {
  MatmulArgs<In, bf16> to;
  static_cast<Call&>(to) = from;
  to.a = static_cast<const In*>(from.a);
  to.lda = from.lda;
  to.b = static_cast<const In*>(from.b);
  to.ldb = from.ldb;
  to.d = from.d;
  to.ldd = from.ldd;
  return to;
}

// How many elements of D [m][ldd] in s32 are not A · B^T, in 64 rows or in all. Waits.
long long wrong_integers(const BlockScaledArgs& args, const int* d, long long ldd);

}  // namespace ladder
