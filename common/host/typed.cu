// The kind of problem of rung 13: any type, any layout.
#include "common/host/typed.h"

#include "common/host/matmul_problem.cuh"

namespace ladder {
namespace {

template <class In, class Out>
class TypedProblem : public MatmulProblem<In, Out> {
 public:
  TypedProblem(const Shape& shape, Data data, uint64_t seed, const DeviceInfo& device,
               const TypedArgs& sizes)
      : MatmulProblem<In, Out>(shape, data, seed, device, as_matmul<In, Out>(sizes),
                               as_matmul<In, Out>),
        calls_(static_cast<size_t>(this->sets()), sizes) {
    update();
  }

  const Call& call(int set) const override { return calls_.at(static_cast<size_t>(set)); }

  void limit(const CallLimits& limits) override {
    MatmulProblem<In, Out>::limit(limits);
    update();
  }

 private:
  void update() {
    for (size_t set = 0; set < calls_.size(); ++set) {
      const MatmulArgs<In, Out>& from = this->args(static_cast<int>(set));
      static_cast<Call&>(calls_[set]) = from;
      calls_[set].a = from.a;
      calls_[set].b = from.b;
      calls_[set].d = from.d;
    }
  }

  std::vector<TypedArgs> calls_;
};

// No lambda: clang instantiates what one in a function calls at once, kernels before nvcc's part of
// the file, which must come first.
struct MakeProblem {
  const Shape& shape;
  Data data;
  uint64_t seed;
  const DeviceInfo& device;
  const TypedArgs& sizes;

  template <class In, class Out>
  std::unique_ptr<Problem> operator()() const {
    return std::make_unique<TypedProblem<In, Out>>(shape, data, seed, device, sizes);
  }
};

class TypedKind : public ProblemKind {
 public:
  const char* name() const override { return "typed"; }
  const char* formula() const override { return "D[M,N] = op(A)[M,K] * op(B)[K,N]"; }

  const char* c_function() const override { return "ladder_gemm_typed"; }

  std::vector<Parameter> parameters() const override {
    Parameter type{"type", {}}, layout{"layout", {}};
    for (const TypePair& pair : TYPE_PAIRS) type.values.push_back(pair.name);
    for (const Layout& each : LAYOUTS) layout.values.push_back(each.name);
    return {type, layout};
  }

  std::string violations(const GridRules& rules, const Call& call) const override {
    const auto& args = static_cast<const TypedArgs&>(call);
    std::vector<std::string> wrong;
    const int type =
        check_choice(&wrong, "type", args.type, {LADDER_BF16, LADDER_FP16, LADDER_TF32},
                     "0 (bf16), 1 (fp16) or 2 (tf32)");
    const int type_d =
        check_choice(&wrong, "type_d", args.type_d, {LADDER_BF16, LADDER_FP16, LADDER_FP32},
                     "0 (bf16), 1 (fp16) or 5 (fp32)");
    const int mn_a = check_major(&wrong, "mn_major_a", args.mn_major_a, type);
    const int mn_b = check_major(&wrong, "mn_major_b", args.mn_major_b, type);
    return matmul_violations(rules, args, {args.a, args.lda, bytes_of_type(type), mn_a != 0},
                             {args.b, args.ldb, bytes_of_type(type), mn_b != 0},
                             {args.d, args.ldd, bytes_of_type(type_d)}, wrong);
  }

  bool needs_kernel(const Call& call) const override {
    return call.m > 0 && call.n > 0 && call.k > 0;
  }

  void run_without_kernel(const Call& call) const override {
    const auto& args = static_cast<const TypedArgs&>(call);
    write_zeros(call, args.d, args.ldd, bytes_of_type(args.type_d));
  }

  std::shared_ptr<Call> sizes_of(const Shape& shape) const override {
    const auto args = std::make_shared<TypedArgs>();
    args->m = shape.m;
    args->n = shape.n;
    args->k = shape.k;
    const TypePair& types = TYPE_PAIRS[shape.parameters[0]];
    const Layout& layout = LAYOUTS[shape.parameters[1]];
    args->type = types.type;
    args->type_d = types.type_d;
    args->mn_major_a = layout.mn_major_a;
    args->mn_major_b = layout.mn_major_b;
    const auto ld = [](int cols, int type) {
      return bytes_of_type(type) == 2 ? smallest_ld<bf16>(cols) : smallest_ld<float>(cols);
    };
    args->lda = ld(layout.mn_major_a ? shape.m : shape.k, types.type);
    args->ldb = ld(layout.mn_major_b ? shape.n : shape.k, types.type);
    args->ldd = ld(shape.n, types.type_d);
    return args;
  }

  Traits traits(const Call& call) const override {
    const auto& args = static_cast<const TypedArgs&>(call);
    return {args.lda, args.ldb, args.ldd, args.type, args.type_d, args.mn_major_a, args.mn_major_b};
  }

  std::unique_ptr<Problem> problem(const Shape& shape, Data data, uint64_t seed,
                                   const DeviceInfo& device) const override {
    const auto sizes = std::static_pointer_cast<const TypedArgs>(sizes_of(shape));
    return with_types(*sizes, MakeProblem{shape, data, seed, device, *sizes});
  }

 private:
  // wgmma has no imm-trans for operands of 32 bits.
  static int check_major(std::vector<std::string>* wrong, const char* name, int value, int type) {
    if (type == LADDER_TF32) {
      return check_choice(wrong, name, value, {0},
                          "0, K-major, for tf32, which wgmma multiplies in layout TN alone");
    }
    return check_choice(wrong, name, value, {0, 1}, "0 (K-major) or 1 (MN-major)");
  }
};

}  // namespace

const ProblemKind& TypedArgs::kind() {
  static const TypedKind kind;
  return kind;
}

}  // namespace ladder
