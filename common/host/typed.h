// The product of two matrices of any type and layout that wgmma multiplies in 16 bits or tf32.
#pragma once

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "common/host/element.h"
#include "common/host/error.h"
#include "common/host/gemm.h"
#include "common/host/ladder.h"
#include "common/host/registry.h"

namespace ladder {

//   D[m,n] = op(A)[m,k] · op(B)[k,n]     fp32 accumulation, D row-major
//
// Types and layouts are those of ladder_gemm_typed() (common/host/ladder.h), and may be anything: the
// kind of problem refuses what is not one.
struct TypedArgs : Call {
  int type = LADDER_BF16;    // of A and B
  int type_d = LADDER_BF16;  // of D
  int mn_major_a = 0;        // 0: A is [m][lda], lda >= k; 1: [k][lda], lda >= m
  int mn_major_b = 0;        // 0: B is [n][ldb], ldb >= k; 1: [k][ldb], ldb >= n
  const void* a = nullptr;   // device, as b and d are
  long long lda = 0;
  const void* b = nullptr;
  long long ldb = 0;
  void* d = nullptr;  // [m][ldd]; columns n..ldd-1 are never written
  long long ldd = 0;  // >= n

  static const ProblemKind& kind();
};

// The code of an element type.
template <class T>
inline constexpr int TYPE_CODE = LADDER_BF16;
template <>
inline constexpr int TYPE_CODE<fp16> = LADDER_FP16;
template <>
inline constexpr int TYPE_CODE<tf32> = LADDER_TF32;
template <>
inline constexpr int TYPE_CODE<float> = LADDER_FP32;

constexpr int bytes_of_type(int type) {
  return type == LADDER_TF32 || type == LADDER_FP32 ? 4 : 2;
}

// Calls function.operator()<In, Out>() for the types of a call that has such.
template <class In, class Function>
auto with_type_of_d(int type_d, const Function& function) {
  if (type_d == LADDER_FP16) return function.template operator()<In, fp16>();
  if (type_d == LADDER_FP32) return function.template operator()<In, float>();
  return function.template operator()<In, bf16>();
}
template <class Function>
auto with_types(const TypedArgs& args, const Function& function) {
  if (args.type == LADDER_FP16) return with_type_of_d<fp16>(args.type_d, function);
  if (args.type == LADDER_TF32) return with_type_of_d<tf32>(args.type_d, function);
  return with_type_of_d<bf16>(args.type_d, function);
}

// The call, which is of these types, as a product of two matrices.
template <class In, class Out>
MatmulArgs<In, Out> as_matmul(const Call& call) {
  const auto& from = static_cast<const TypedArgs&>(call);
  MatmulArgs<In, Out> to;
  static_cast<Call&>(to) = from;
  to.a = static_cast<const In*>(from.a);
  to.lda = from.lda;
  to.b = static_cast<const In*>(from.b);
  to.ldb = from.ldb;
  to.d = static_cast<Out*>(from.d);
  to.ldd = from.ldd;
  to.mn_major_a = from.mn_major_a != 0;
  to.mn_major_b = from.mn_major_b != 0;
  return to;
}

// What `type` of a command line may be: names of operands' and, if that is another one, D's type.
struct TypePair {
  const char* name;
  int type, type_d;
};
inline constexpr TypePair TYPE_PAIRS[] = {
    {"bf16", LADDER_BF16, LADDER_BF16},      {"bf16_fp32", LADDER_BF16, LADDER_FP32},
    {"bf16_fp16", LADDER_BF16, LADDER_FP16}, {"fp16", LADDER_FP16, LADDER_FP16},
    {"fp16_fp32", LADDER_FP16, LADDER_FP32}, {"fp16_bf16", LADDER_FP16, LADDER_BF16},
    {"tf32", LADDER_TF32, LADDER_FP32},      {"tf32_bf16", LADDER_TF32, LADDER_BF16},
    {"tf32_fp16", LADDER_TF32, LADDER_FP16}};

// How operands lie, named as in BLAS, whose matrices are column-major: what it calls transposed is
// K-major of A, MN-major of B.
struct Layout {
  const char* name;
  bool mn_major_a, mn_major_b;
};
inline constexpr Layout LAYOUTS[] = {
    {"TN", false, false}, {"NN", true, false}, {"NT", true, true}, {"TT", false, true}};

// A kernel's variant: what `make` returns for types and layout, for these alone.
template <class In, class Out, bool MN_A, bool MN_B, class Make>
Variant variant_of_layout(const std::string& end, const Make& make) {
  static std::list<std::string> names;  // which variants point to
  std::string name;
  for (const TypePair& pair : TYPE_PAIRS) {
    if (pair.type == TYPE_CODE<In> && pair.type_d == TYPE_CODE<Out>) name = pair.name;
  }
  for (const Layout& layout : LAYOUTS) {
    if (layout.mn_major_a == MN_A && layout.mn_major_b == MN_B)
      name += std::string("_") + layout.name;
  }
  names.push_back(name + end);
  Variant variant = make.template operator()<In, Out, MN_A, MN_B>(names.back().c_str());
  variant.configuration = true;
  variant.takes = +[](const TypedArgs& g) {
    return g.type == TYPE_CODE<In> && g.type_d == TYPE_CODE<Out> && g.mn_major_a == MN_A &&
           g.mn_major_b == MN_B;
  };
  return variant;
}

template <class In, class Out, class Make>
void add_layouts(std::vector<Variant>* all, const std::string& end, const Make& make) {
  all->push_back(variant_of_layout<In, Out, false, false>(end, make));
  if constexpr (sizeof(In) == 2) {
    all->push_back(variant_of_layout<In, Out, true, false>(end, make));
    all->push_back(variant_of_layout<In, Out, true, true>(end, make));
    all->push_back(variant_of_layout<In, Out, false, true>(end, make));
  }
}

// Of every layout, and of bf16 alone or of all types: make.operator()<In, Out, MN_A, MN_B>(name), names
// being such as "fp16_NT" and `end`.
template <bool ALL_TYPES, class Make>
std::vector<Variant> variants_of_types(const std::string& end, const Make& make) {
  std::vector<Variant> all;
  add_layouts<bf16, bf16>(&all, end, make);
  if constexpr (ALL_TYPES) {
    add_layouts<bf16, float>(&all, end, make);
    add_layouts<bf16, fp16>(&all, end, make);
    add_layouts<fp16, fp16>(&all, end, make);
    add_layouts<fp16, float>(&all, end, make);
    add_layouts<fp16, bf16>(&all, end, make);
    add_layouts<tf32, float>(&all, end, make);
    add_layouts<tf32, bf16>(&all, end, make);
    add_layouts<tf32, fp16>(&all, end, make);
  }
  return all;
}

// The same of 16-bit types, D's being the operands': of every layout; and where A is K-major or where
// it is MN-major.
template <class Make>
std::vector<Variant> variants_of_same_types(const std::string& end, const Make& make) {
  std::vector<Variant> all;
  add_layouts<bf16, bf16>(&all, end, make);
  add_layouts<fp16, fp16>(&all, end, make);
  return all;
}
template <bool MN_A, class Make>
std::vector<Variant> variants_of_major_a(const std::string& end, const Make& make) {
  return {variant_of_layout<bf16, bf16, MN_A, false>(end, make),
          variant_of_layout<bf16, bf16, MN_A, true>(end, make),
          variant_of_layout<fp16, fp16, MN_A, false>(end, make),
          variant_of_layout<fp16, fp16, MN_A, true>(end, make)};
}

// A variant for whatever one of KERNELS() takes, by the one with the least predicted time, or, if none
// predicts any, the first; the others it refuses.
template <const std::vector<Variant>& (*KERNELS)()>
Variant whichever_takes(const char* name, const char* what) {
  Variant variant = chooser_among(
      name, what, KERNELS(), +[](const TypedArgs& g) -> const Variant& {
        const Variant* kernel = least_predicted(KERNELS(), g);
        if (kernel == nullptr) kernel = first_that_takes(KERNELS(), g);
        if (kernel != nullptr) return *kernel;
        throw Refused("No kernel of this variant takes such types and layouts.");
      });
  variant.takes = +[](const TypedArgs& g) { return first_that_takes(KERNELS(), g) != nullptr; };
  return variant;
}

}  // namespace ladder
