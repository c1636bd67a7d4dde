// The product of two matrices of 8-bit elements with a scale for every 128 of K.
#pragma once

#include <type_traits>
#include <vector>

#include "common/host/configurations.h"
#include "common/host/element.h"
#include "common/host/error.h"
#include "common/host/gemm.h"
#include "common/host/ladder.h"
#include "common/host/quantize.h"
#include "common/host/registry.h"
#include "common/host/verify.h"
#include "common/tile/block_scaled.h"

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

// Whether a kernel of type In takes a call. One that does not promote wants one scale an operand.
template <class In, bool PROMOTE>
bool takes_scaled(const BlockScaledArgs& args) {
  return (args.type == LADDER_S8) == std::is_same_v<In, s8> && (PROMOTE || args.tensor_scales);
}

// The variants of the table's rows, or of its row UNPROMOTED alone, for e4m3, then for s8:
// make(std::type_identity<In>, row).
template <bool PROMOTE, class Make>
std::vector<Variant> scaled_variants(const Make& make) {
  constexpr int FIRST = PROMOTE ? 0 : tile::UNPROMOTED;
  constexpr int ROWS = PROMOTE ? std::size(tile::SCALED_CONFIGURATIONS) : 1;
  return variant_of_each<2 * ROWS>([&](auto i) {
    using In = std::conditional_t<(i < ROWS), e4m3, s8>;
    return make(std::type_identity<In>(), std::integral_constant<int, FIRST + i % ROWS>());
  });
}

// What such a rung registers: its kernels behind the variants that choose among them, by the cost
// model among those that promote, and by what they take among the others.
template <const std::vector<Variant>& (*PROMOTED)(), const std::vector<Variant>& (*UNPROMOTED)()>
std::vector<Variant> scaled_choosers() {
  const Variant by_model = least_of<PROMOTED, BlockScaledArgs>("auto", "chosen by the cost model");
  Variant by_type = chooser_among(
      "unpromoted", "tensor-wide scales, no promotion", UNPROMOTED(),
      +[](const BlockScaledArgs& g) -> const Variant& {
        const Variant* const kernel = first_that_takes(UNPROMOTED(), g);
        if (kernel != nullptr) return *kernel;
        throw Refused("Without promotion, all scales of an operand must be one: SCALES=tensor.");
      });
  by_type.args = "scales=tensor";
  by_type.takes =
      +[](const BlockScaledArgs& g) { return first_that_takes(UNPROMOTED(), g) != nullptr; };
  std::vector<Variant> all = {by_model.as_result(), by_type};
  for (const auto* each : {&PROMOTED(), &UNPROMOTED()}) {
    all.insert(all.end(), each->begin(), each->end());
  }
  return all;
}

// A call's reference, from its operands as they lie on the device, and its D against it. As those of
// verify.h.
HostReference block_scaled_reference_on_host(const BlockScaledArgs& args);
Verdict verify_block_scaled(const BlockScaledArgs& args, const HostReference& reference,
                            bool exact);
Reference block_scaled_reference_on_gpu(const BlockScaledArgs& args);
Verdict verify_block_scaled(const BlockScaledArgs& args, const Reference& reference, bool exact);

}  // namespace ladder
