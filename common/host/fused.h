// The product of two bf16 matrices, finished while it is in registers: scaled, added to a matrix
// and a bias, and put through an activation.
#pragma once

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "common/host/configurations.h"
#include "common/host/element.h"
#include "common/host/gemm.h"
#include "common/host/ladder.h"
#include "common/host/registry.h"
#include "common/host/verify.h"
#include "common/tile/fused_tiles.h"

namespace ladder {

//   D = f(alpha · A[m,k] · B[n,k]^T + beta · C + bias)     fp32 accumulation, all row-major
//
// Of ladder_gemm_fused() (common/host/ladder.h). Codes may be anything: the kind of problem refuses
// what is none. Of LADDER_SWIGLU D has n / 2 columns, of the others n.
struct FusedArgs : Call {
  int activation = LADDER_NONE;
  int type_d = LADDER_BF16;  // of C, bias and D; or LADDER_FP32
  float alpha = 1, beta = 0;
  const bf16* a = nullptr;     // [m][lda], device, as all are
  long long lda = 0;           // >= k
  const bf16* b = nullptr;     // [n][ldb]
  long long ldb = 0;           // >= k
  const void* c = nullptr;     // [m][ldc]; not read if beta is 0
  long long ldc = 0;           // >= n
  const void* bias = nullptr;  // [n], or null: none
  void* d = nullptr;           // [m][ldd]; may be C with ldc; other columns are never written
  long long ldd = 0;           // >= D's columns

  constexpr bool gated() const { return activation == LADDER_SWIGLU; }
  constexpr bool multiplies() const { return k > 0 && alpha != 0; }  // else A, B are not read
  constexpr bool reads_c() const { return beta != 0; }
  constexpr int columns() const { return gated() ? n / 2 : n; }  // of D

  static const ProblemKind& kind();
};

// What `act` and `type` of a command line may be, by code.
inline constexpr const char* ACTIVATION_NAMES[] = {"none",      "relu", "gelu",
                                                   "gelu_tanh", "silu", "swiglu"};

// Calls function.operator()<Out>() for the type of D.
template <class Function>
auto with_fused_type(int type_d, const Function& function) {
  if (type_d == LADDER_FP32) return function.template operator()<float>();
  return function.template operator()<bf16>();
}

// --- kernels -------------------------------------------------------------------------------------

template <int ACTIVATION, class Out>
bool takes_fused(const FusedArgs& args) {
  return args.activation == ACTIVATION && (args.type_d == LADDER_FP32) == (sizeof(Out) == 4);
}

// A kernel of the table: functor, type of D, and tile.
template <class F_, class Out_, int ROW_>
struct FusedRow {
  using F = F_;
  using Out = Out_;
  static constexpr int ROW = ROW_;  // of FUSED_CONFIGURATIONS
};

// make(FusedRow, name) for each of them, for the calls that are of it; names such as
// "relu_fp32_128x256". Functors are in the order of their codes.
template <class... F, class Make>
std::vector<Variant> fused_kernels(const Make& make) {
  static std::list<std::string> names;  // which variants point to
  std::vector<Variant> all;
  const auto add = [&]<int ACTIVATION, class Functor, class Out, int ROW>() {
    constexpr tile::FusedTile C = tile::FUSED_CONFIGURATIONS[ROW];
    static_assert(C.bn % 16 == 0, "stmatrix stages 16 columns");  // else the tile has no kernel
    static_assert(C.cluster_m == 1 && C.slices == 1 && !C.in_turn,
                  "rung 17 has no clusters that share B, no slices of K and no turns");
    if constexpr (tile::has_fused_kernel(C, Functor::INPUTS, sizeof(Out))) {
      names.push_back(ACTIVATION_NAMES[ACTIVATION] +
                      std::string(sizeof(Out) == 4 ? "_fp32_" : "_") + C.name);
      Variant variant = make(FusedRow<Functor, Out, ROW>(), names.back().c_str());
      variant.configuration = true;
      variant.takes = takes_fused<ACTIVATION, Out>;
      all.push_back(variant);
    }
  };
  const auto add_rows = [&]<int ACTIVATION, class Functor, class Out, int... ROW>(
                            std::integer_sequence<int, ROW...>) {
    (add.template operator()<ACTIVATION, Functor, Out, ROW>(), ...);
  };
  using Rows = std::make_integer_sequence<int, std::size(tile::FUSED_CONFIGURATIONS)>;
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (add_rows.template operator()<I, F, bf16>(Rows()), ...);
    (add_rows.template operator()<I, F, float>(Rows()), ...);
  }(std::make_integer_sequence<int, sizeof...(F)>{});
  return all;
}

// --- what is right -------------------------------------------------------------------------------

// A call's reference, from its operands as they lie on the device, and its D against it: as those
// of verify.h. D may be C: the reference is to come first.
HostReference fused_reference_on_host(const FusedArgs& args);
Verdict verify_fused(const FusedArgs& args, const HostReference& reference, bool exact);
Reference fused_reference_on_gpu(const FusedArgs& args);
Verdict verify_fused(const FusedArgs& args, const Reference& reference, bool exact);

// Whether results can be compared bit for bit where sums are integers: activations that are exact.
constexpr bool is_exact(int activation) {
  return activation == LADDER_NONE || activation == LADDER_RELU;
}

// Every rule that the call breaks, for ProblemKind::violations(). Needs no GPU.
std::string fused_violations(const GridRules& rules, const FusedArgs& args);

}  // namespace ladder
