// The product of two matrices of 8-bit elements with a scale for every 128 of K.
#pragma once

#include <vector>

#include "common/host/element.h"
#include "common/host/error.h"
#include "common/host/gemm.h"
#include "common/host/ladder.h"
#include "common/host/quantize.h"
#include "common/host/registry.h"
#include "common/host/verify.h"

namespace ladder {

//   D[m,n] = sum over blocks kb of 128 along k of
//            scale_a[kb][m] * scale_b[n / 128][kb] * (A[m, kb] · B[n, kb]^T)
//
// Of ladder_gemm_block_scaled() (common/host/ladder.h). `type` may be anything: the kind of problem
// refuses what is not one.
struct BlockScaledArgs : Call {
  int type = LADDER_E4M3;  // of A and B; or LADDER_S8
  // All of scale_a are one number, and all of scale_b: a variant may count on it where this is set, as
  // SCALES=tensor of a command line does. Calls of the C API do not set it.
  bool tensor_scales = false;
  const void* a = nullptr;         // [m][lda], device, as all are
  long long lda = 0;               // >= k, a multiple of 16
  const float* scale_a = nullptr;  // [ceil(k / 128)][ld_scale_a]
  long long ld_scale_a = 0;        // >= m, a multiple of 4
  const void* b = nullptr;         // [n][ldb]
  long long ldb = 0;               // >= k, a multiple of 16
  const float* scale_b = nullptr;  // [ceil(n / 128)][ld_scale_b]
  long long ld_scale_b = 0;        // >= ceil(k / 128)
  bf16* d = nullptr;               // [m][ldd]; columns n..ldd-1 are never written
  long long ldd = 0;               // >= n, a multiple of 8

  static const ProblemKind& kind();
};

// Calls function.operator()<In>() for the type of a call that has such.
template <class Function>
auto with_operand_type(int type, const Function& function) {
  if (type == LADDER_S8) return function.template operator()<s8>();
  return function.template operator()<e4m3>();
}

// A variant for whatever one of KERNELS() takes; the others it refuses.
template <const std::vector<Variant>& (*KERNELS)()>
Variant whichever_takes_scaled(const char* name, const char* what) {
  Variant variant = chooser_among(
      name, what, KERNELS(), +[](const BlockScaledArgs& g) -> const Variant& {
        const Variant* const kernel = first_that_takes(KERNELS(), g);
        if (kernel != nullptr) return *kernel;
        throw Refused("No kernel of this variant takes such types and scales.");
      });
  variant.takes =
      +[](const BlockScaledArgs& g) { return first_that_takes(KERNELS(), g) != nullptr; };
  return variant;
}

// A call's reference, from its operands as they lie on the device, and its D against it. As those of
// verify.h.
HostReference block_scaled_reference_on_host(const BlockScaledArgs& args);
Verdict verify_block_scaled(const BlockScaledArgs& args, const HostReference& reference,
                            bool exact);
Reference block_scaled_reference_on_gpu(const BlockScaledArgs& args);
Verdict verify_block_scaled(const BlockScaledArgs& args, const Reference& reference, bool exact);

}  // namespace ladder
