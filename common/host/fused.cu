// The kind of problem of rung 17: a product with an epilogue.
#include "common/host/fused.h"

#include <bit>
#include <memory>

#include "common/block/activation.cuh"
#include "common/host/fused_verify.cuh"
#include "common/host/matmul_problem.cuh"

namespace ladder {
namespace {

constexpr const char* TYPE_NAMES[] = {"bf16", "bf16_fp32"};
constexpr const char* ADD_NAMES[] = {"bias", "bias_c", "c", "nothing"};
constexpr float BETA = 0.5f;  // of a program's problems

// The call's product, into memory of its own or D.
template <class Out>
MatmulArgs<bf16, Out> product_of(const FusedArgs& args, Out* d, long long ldd) {
  MatmulArgs<bf16, Out> product;
  static_cast<Call&>(product) = args;
  product.a = args.a;
  product.lda = args.lda;
  product.b = args.b;
  product.ldb = args.ldb;
  product.d = d;
  product.ldd = ldd;
  return product;
}

// D, as what is compared.
template <class Out>
MatmulArgs<bf16, Out> result_of(const FusedArgs& args) {
  MatmulArgs<bf16, Out> result = product_of<Out>(args, static_cast<Out*>(args.d), args.ldd);
  result.n = args.columns();
  return result;
}

template <class Out>
MatmulArgs<bf16, Out> as_product(const Call& call) {
  const auto& args = static_cast<const FusedArgs&>(call);
  return product_of<Out>(args, static_cast<Out*>(args.d), args.ldd);
}

// --- references ----------------------------------------------------------------------------------

// What fp32 sums lose of their magnitudes, by D's type: tolerance() has it.
template <class Out>
constexpr double UNIT = tolerance(0, 1, Element<Out>::SIGNIFICAND_BITS);
// What is lost where a sum is stored in D's type before the activation.
template <class Out>
constexpr double ROUNDED = 1.0 / (1 << Element<Out>::SIGNIFICAND_BITS);

// Element [row][col] of D, of dense sums [m][n].
template <class Out, class Number>
LADDER_HOST_DEVICE Bounded finished_element(const FusedArgs& args, const Number* r, const Number* s,
                                            const Out* c, const Out* bias, long long row,
                                            long long col, double rounded) {
  const auto sum_at = [&](long long at) {
    FusedSum of;
    of.sum = static_cast<double>(r[row * args.n + at]);
    of.magnitude = static_cast<double>(s[row * args.n + at]);
    if (args.reads_c()) of.c = static_cast<double>(Element<Out>::to_float(c[row * args.ldc + at]));
    if (bias != nullptr) of.bias = static_cast<double>(Element<Out>::to_float(bias[at]));
    return of;
  };
  const long long first = args.gated() ? gate_column(col) : col;
  return finished(args, sum_at(first), args.gated() ? sum_at(first + 8) : FusedSum(), UNIT<Out>,
                  rounded);
}

template <class Out>
__global__ void finish_reference(FusedArgs args, const float* r, const float* s, double rounded,
                                 float* r_of_d, float* s_of_d) {
  const long long columns = args.columns(), elems = args.m * columns;
  for (long long i = on_gpu::first_index(); i < elems; i += on_gpu::index_stride()) {
    const Bounded d =
        finished_element(args, r, s, static_cast<const Out*>(args.c),
                         static_cast<const Out*>(args.bias), i / columns, i % columns, rounded);
    r_of_d[i] = static_cast<float>(d.value);
    s_of_d[i] = static_cast<float>(d.error / UNIT<Out>);
  }
}

template <class Out>
Reference reference_on_gpu(const FusedArgs& args, double rounded) {
  const Reference sums = reference_gpu(as_product<Out>(args));
  const long long elems = static_cast<long long>(args.m) * args.columns();
  Reference reference{DeviceBuffer(elems * sizeof(float)), DeviceBuffer(elems * sizeof(float))};
  if (elems == 0) return reference;
  finish_reference<Out><<<on_gpu::grid_for(elems), on_gpu::THREADS, 0, args.stream>>>(
      args, sums.r.as<float>(), sums.s.as<float>(), rounded, reference.r.as<float>(),
      reference.s.as<float>());
  check_cuda(cudaGetLastError(), "launch of finish_reference");
  check_cuda(cudaStreamSynchronize(args.stream), "finish_reference");  // sums go
  return reference;
}

template <class Out>
HostReference reference_on_host(const FusedArgs& args) {
  const HostReference sums = reference_on_host(as_product<Out>(args));
  std::vector<Out> c, bias;
  if (args.reads_c()) {
    c = download(static_cast<const Out*>(args.c), args.m, args.n, args.ldc, args.stream);
  }
  if (args.bias != nullptr) {
    bias = download(static_cast<const Out*>(args.bias), 1, args.n, args.n, args.stream);
  }
  HostReference reference;
  for (long long row = 0; row < args.m; ++row) {
    for (long long col = 0; col < args.columns(); ++col) {
      const Bounded d = finished_element(args, sums.r.data(), sums.s.data(), c.data(),
                                         args.bias == nullptr ? nullptr : bias.data(), row, col, 0);
      reference.r.push_back(d.value);
      reference.s.push_back(d.error / UNIT<Out>);
    }
  }
  return reference;
}

// --- kernels of the host -------------------------------------------------------------------------

// By the rungs' own functors, so that f is the same with a product and without.
template <class F>
__device__ float applied(float x, float up) {
  float z[F::INPUTS][4], y[4];
  for (int i = 0; i < F::INPUTS; ++i) {
    for (int j = 0; j < 4; ++j) z[i][j] = i == 0 ? x : up;
  }
  F::apply(y, z);
  return y[0];
}

__device__ float applied(int activation, float x, float up) {
  switch (activation) {
    case LADDER_RELU:
      return applied<block::Relu>(x, up);
    case LADDER_GELU:
      return applied<block::Gelu>(x, up);
    case LADDER_GELU_TANH:
      return applied<block::GeluTanh>(x, up);
    case LADDER_SILU:
      return applied<block::Silu>(x, up);
    case LADDER_SWIGLU:
      return applied<block::SwiGlu>(x, up);
    default:
      return x;
  }
}

// D = f(beta * C + bias): of a call without a product.
template <class Out>
__global__ void without_product(FusedArgs args) {
  const auto* const c = static_cast<const Out*>(args.c);
  const auto* const bias = static_cast<const Out*>(args.bias);
  const long long columns = args.columns(), elems = args.m * columns;
  const auto added = [&](long long row, long long col) {
    float sum = bias == nullptr ? 0.0f : Element<Out>::to_float(bias[col]);
    if (args.reads_c()) sum += args.beta * Element<Out>::to_float(c[row * args.ldc + col]);
    return sum;
  };
  for (long long i = on_gpu::first_index(); i < elems; i += on_gpu::index_stride()) {
    const long long row = i / columns, col = i % columns;
    const long long first = args.gated() ? gate_column(col) : col;
    const float up = args.gated() ? added(row, first + 8) : 0;
    static_cast<Out*>(args.d)[row * args.ldd + col] =
        Element<Out>::from_float(applied(args.activation, added(row, first), up));
  }
}

// Behind a library, as fast as it can be had: within what sums lose that have been rounded to D's type.
template <int ACTIVATION>
__device__ float activated_fast(float x) {
  if (ACTIVATION == LADDER_RELU) return x > 0 ? x : x == x ? 0 : x;
  if (ACTIVATION == LADDER_GELU) return 0.5f * x * (1 + erff(0.70710678f * x));
  if (ACTIVATION == LADDER_SILU || ACTIVATION == LADDER_SWIGLU) {
    return __fdividef(x, 1 + __expf(-x));
  }
  if (ACTIVATION == LADDER_GELU_TANH) {
    return x / (1 + expf(-1.5957691f * (x + 0.044715f * x * x * x)));
  }
  return x;
}

// D = f(Z), Z [m][ldz] being the sums: what stands behind a library that has no such epilogue. A CTA
// takes a row, a thread 16 bytes of it at a time, and the last columns one by one.
template <int ACTIVATION, class Out>
__global__ void activate(const Out* z, long long ldz, Out* d, long long ldd, int columns) {
  constexpr int EACH = 16 / int{sizeof(Out)};
  constexpr bool GATED = ACTIVATION == LADDER_SWIGLU;
  struct alignas(16) Chunk {
    Out of[EACH];
  };
  const long long row = blockIdx.x;
  const auto result = [](Out x, Out up) {
    const float value = activated_fast<ACTIVATION>(Element<Out>::to_float(x));
    return Element<Out>::from_float(GATED ? value * Element<Out>::to_float(up) : value);
  };
  for (int col = static_cast<int>(threadIdx.x) * EACH; col < columns;
       col += on_gpu::THREADS * EACH) {
    const Out* const from = z + row * ldz + (GATED ? gate_column(col) : col);
    Out* const to = d + row * ldd + col;
    if (col + EACH <= columns) {
      const Chunk x = *reinterpret_cast<const Chunk*>(from);
      const Chunk up = GATED ? *reinterpret_cast<const Chunk*>(from + 8) : x;
      Chunk y;
#pragma unroll
      for (int i = 0; i < EACH; ++i) y.of[i] = result(x.of[i], up.of[i]);
      *reinterpret_cast<Chunk*>(to) = y;
    } else {
      for (int i = 0; i < columns - col; ++i)
        to[i] = result(from[i], GATED ? from[i + 8] : from[i]);
    }
  }
}

// Of the activations that cuBLASLt has not.
template <class Out>
void launch_activate(const FusedArgs& args, const Out* z, long long ldz) {
  const auto launch = [&]<int ACTIVATION>() {
    activate<ACTIVATION><<<static_cast<unsigned>(args.m), on_gpu::THREADS, 0, args.stream>>>(
        z, ldz, static_cast<Out*>(args.d), args.ldd, args.columns());
  };
  if (args.activation == LADDER_GELU) launch.template operator()<LADDER_GELU>();
  if (args.activation == LADDER_SILU) launch.template operator()<LADDER_SILU>();
  if (args.activation == LADDER_SWIGLU) launch.template operator()<LADDER_SWIGLU>();
  check_cuda(cudaGetLastError(), "launch of activate");
}

// --- the problem ---------------------------------------------------------------------------------

// Sums of A·B^T are scaled by the power of two next to 1 / sqrt(k), so that activations get numbers
// of about 1, as in a network. Padding is NaN. Of Data::index nothing is scaled or added.
template <class Out>
class FusedProblem : public MatmulProblem<bf16, Out> {
 public:
  FusedProblem(const Shape& shape, Data data, uint64_t seed, const DeviceInfo& device,
               const FusedArgs& sizes)
      : MatmulProblem<bf16, Out>(shape, data, seed, device, sizes_of_product(sizes),
                                 as_product<Out>, operand_sets(bytes_of(sizes), device)),
        data_(data) {
    const int add = shape.parameters[2];
    const bool bias = add <= 1, c = add == 1 || add == 2;
    const auto fill = on_machine() ? fill_from_host<Out> : fill_gpu<Out>;
    const Data added = data == Data::index ? Data::zeros : data;
    for (int i = 0; i < this->sets(); ++i) {
      Added one{DeviceBuffer(c ? dense_bytes<Out>(shape.m, sizes.ldc) : 0),
                DeviceBuffer(bias ? dense_bytes<Out>(1, shape.n) : 0)};
      FusedArgs call = sizes;
      if (data == Data::index) call.alpha = 1;
      if (c) {
        check_cuda(cudaMemsetAsync(one.c.data(), 0xff, one.c.bytes(), this->stream()),
                   "cudaMemsetAsync");
        fill(one.c.template as<Out>(), shape.m, shape.n, sizes.ldc, added, seed + 1000 + 2 * i,
             this->stream());
        call.c = one.c.data();
      }
      if (bias) {
        fill(one.bias.template as<Out>(), 1, shape.n, shape.n, added, seed + 1001 + 2 * i,
             this->stream());
        call.bias = one.bias.data();
      }
      added_.push_back(std::move(one));
      calls_.push_back(call);
    }
    update();
    check_cuda(cudaStreamSynchronize(this->stream()), "filling of C and bias");
  }

  const Call& call(int set) const override { return calls_.at(static_cast<size_t>(set)); }

  void limit(const CallLimits& limits) override {
    MatmulProblem<bf16, Out>::limit(limits);
    update();
  }

  // By its own epilogue where it has one, else by one more kernel, into memory that outlives the
  // problem.
  std::vector<LibraryCandidate> candidates(CublasLt& cublas) const override {
    std::vector<LibraryCandidate> all;
    const FusedArgs& first = calls_[0];
    if (has_epilogue(first.activation)) {
      for (const auto& algorithm : cublas.candidates(library_call_of(first))) {
        const auto launch = [&cublas, algorithm](const Call& call) {
          cublas.run(*algorithm, library_call_of(static_cast<const FusedArgs&>(call)));
        };
        all.push_back({{"cuBLASLt", launch}, CublasLt::describe(*algorithm)});
      }
      return all;
    }
    const auto sums =
        std::make_shared<DeviceBuffer>(dense_bytes<Out>(first.m, smallest_ld<Out>(first.n)));
    for (const auto& algorithm : cublas.candidates(library_call_of(sums_of(first, *sums)))) {
      const auto launch = [&cublas, algorithm, sums](const Call& call) {
        const auto& args = static_cast<const FusedArgs&>(call);
        cublas.run(*algorithm, library_call_of(sums_of(args, *sums)));
        launch_activate(args, sums->template as<Out>(), smallest_ld<Out>(args.n));
      };
      const LibraryCandidate candidate{
          {"cuBLASLt", launch}, CublasLt::describe(*algorithm) + " + activation", false};
      if (is_right(candidate)) all.push_back(candidate);
    }
    return all;
  }

 protected:
  Verdict verify_set(size_t set) override {  // sets come in order: at most one reference is added
    const FusedArgs& args = calls_[set];
    const bool exact = (data_ == Data::ints || data_ == Data::index) && is_exact(args.activation);
    if (on_machine()) {
      if (host_references_.size() == set) host_references_.push_back(fused_reference_on_host(args));
      return verify_fused(args, host_references_[set], exact);
    }
    if (references_.size() == set) references_.push_back(fused_reference_on_gpu(args));
    return verify_fused(args, references_[set], exact);
  }

 private:
  struct Added {
    DeviceBuffer c, bias;
  };

  static MatmulArgs<bf16, Out> sizes_of_product(const FusedArgs& sizes) {
    return product_of<Out>(sizes, nullptr, smallest_ld<Out>(sizes.n));
  }
  static size_t bytes_of(const FusedArgs& sizes) {
    return dense_bytes<bf16>(sizes.m, sizes.lda) + dense_bytes<bf16>(sizes.n, sizes.ldb) +
           dense_bytes<Out>(sizes.m, sizes.ldd + (sizes.reads_c() ? sizes.ldc : 0));
  }

  void update() {
    for (size_t set = 0; set < calls_.size(); ++set) {
      const auto& from = this->args(static_cast<int>(set));
      static_cast<Call&>(calls_[set]) = from;
      calls_[set].a = from.a;
      calls_[set].b = from.b;
      calls_[set].d = from.d;
    }
  }

  // --- cuBLASLt ---

  static bool has_epilogue(int activation) {
    return is_exact(activation) || activation == LADDER_GELU_TANH;
  }

  static LibraryCall library_call_of(const FusedArgs& args) {
    LibraryCall call = library_call(as_product<Out>(args));
    call.alpha = args.alpha;
    call.beta = args.beta;
    call.c = args.reads_c() ? args.c : nullptr;
    call.ldc = args.ldc;
    call.bias = args.bias;
    if (args.activation == LADDER_RELU) call.activation = LibraryActivation::relu;
    if (args.activation == LADDER_GELU_TANH) call.activation = LibraryActivation::gelu;
    return call;
  }

  // The call without its activation, into `sums`.
  static FusedArgs sums_of(const FusedArgs& args, const DeviceBuffer& sums) {
    FusedArgs product = args;
    product.activation = LADDER_NONE;
    product.d = sums.data();
    product.ldd = smallest_ld<Out>(args.n);
    return product;
  }

  // Of the first set, whose sums are rounded once more than the kernel's.
  bool is_right(const LibraryCandidate& candidate) const {
    const FusedArgs& args = calls_[0];
    if (twice_rounded_.empty()) {
      twice_rounded_.push_back(reference_on_gpu<Out>(args, ROUNDED<Out>));
    }
    check_cuda(cudaMemsetAsync(args.d, 0xff, dense_bytes<Out>(args.m, args.ldd), args.stream),
               "cudaMemsetAsync");
    try {
      candidate.contestant.launch(args);
      check_cuda(cudaStreamSynchronize(args.stream), candidate.algorithm.c_str());
    } catch (const CudaError&) {
      cudaGetLastError();
      return false;  // the heuristics offer what does not always run
    }
    return verify_fused(args, twice_rounded_[0], false).ok();
  }

  const Data data_;
  std::vector<Added> added_;  // one a set, as the others
  std::vector<FusedArgs> calls_;
  std::vector<Reference> references_;
  std::vector<HostReference> host_references_;
  mutable std::vector<Reference> twice_rounded_;  // of the first set, once it is asked for
};

class FusedKind : public ProblemKind {
 public:
  const char* name() const override { return "fused"; }
  const char* formula() const override {
    return "D[M,N] = f(alpha * A[M,K] * B[N,K]^T + beta * C + bias)";
  }
  const char* c_function() const override { return "ladder_gemm_fused"; }

  std::vector<Parameter> parameters() const override {
    return {{"act", {std::begin(ACTIVATION_NAMES), std::end(ACTIVATION_NAMES)}},
            {"type", {std::begin(TYPE_NAMES), std::end(TYPE_NAMES)}},
            {"add", {std::begin(ADD_NAMES), std::end(ADD_NAMES)}}};
  }

  std::string violations(const GridRules& rules, const Call& call) const override {
    return fused_violations(rules, static_cast<const FusedArgs&>(call));
  }

  bool needs_kernel(const Call& call) const override {
    return call.m > 0 && call.n > 0 && static_cast<const FusedArgs&>(call).multiplies();
  }

  void run_without_kernel(const Call& call) const override {
    const auto& args = static_cast<const FusedArgs&>(call);
    const long long elems = static_cast<long long>(args.m) * args.columns();
    if (elems == 0) return;
    const unsigned grid = on_gpu::grid_for(elems);
    if (args.type_d == LADDER_FP32) {
      without_product<float><<<grid, on_gpu::THREADS, 0, args.stream>>>(args);
    } else {
      without_product<bf16><<<grid, on_gpu::THREADS, 0, args.stream>>>(args);
    }
    check_cuda(cudaGetLastError(), "launch of without_product");
  }

  std::shared_ptr<Call> sizes_of(const Shape& shape) const override {
    const auto args = std::make_shared<FusedArgs>();
    args->activation = shape.parameters[0];
    args->type_d = shape.parameters[1] == 0 ? LADDER_BF16 : LADDER_FP32;
    const bool reads_c = shape.parameters[2] == 1 || shape.parameters[2] == 2;
    args->beta = reads_c ? BETA : 0;
    args->m = shape.m;
    args->n = shape.n;
    args->k = shape.k;
    while (args->alpha * args->alpha * static_cast<float>(shape.k) > 2) args->alpha /= 2;
    args->lda = args->ldb = smallest_ld<bf16>(shape.k);
    with_fused_type(args->type_d, [&]<class Out>() {
      args->ldc = smallest_ld<Out>(shape.n);
      args->ldd = smallest_ld<Out>(args->columns());
    });
    return args;
  }

  Traits traits(const Call& call) const override {
    const auto& args = static_cast<const FusedArgs&>(call);
    return {args.lda, args.ldb, args.ldd, args.activation, args.type_d, args.reads_c()};
  }

  std::unique_ptr<Problem> problem(const Shape& shape, Data data, uint64_t seed,
                                   const DeviceInfo& device) const override {
    const auto sizes = std::static_pointer_cast<const FusedArgs>(sizes_of(shape));
    const std::string wrong = fused_violations({"", 1, true, 1}, without_memory(*sizes));
    if (!wrong.empty()) throw Refused(wrong);
    // No lambda: as in typed.cu.
    if (sizes->type_d == LADDER_FP32) {
      return std::make_unique<FusedProblem<float>>(shape, data, seed, device, *sizes);
    }
    return std::make_unique<FusedProblem<bf16>>(shape, data, seed, device, *sizes);
  }

 private:
  // What can be wrong of a call that has no matrices yet.
  static FusedArgs without_memory(FusedArgs sizes) {
    sizes.m = 0;
    return sizes;
  }
};

}  // namespace

const ProblemKind& FusedArgs::kind() {
  static const FusedKind kind;
  return kind;
}

HostReference fused_reference_on_host(const FusedArgs& args) {
  return args.type_d == LADDER_FP32 ? reference_on_host<float>(args)
                                    : reference_on_host<bf16>(args);
}

Reference fused_reference_on_gpu(const FusedArgs& args) {
  return args.type_d == LADDER_FP32 ? reference_on_gpu<float>(args, 0)
                                    : reference_on_gpu<bf16>(args, 0);
}

Verdict verify_fused(const FusedArgs& args, const HostReference& reference, bool exact) {
  return args.type_d == LADDER_FP32 ? verify_on_host(result_of<float>(args), reference, exact)
                                    : verify_on_host(result_of<bf16>(args), reference, exact);
}

Verdict verify_fused(const FusedArgs& args, const Reference& reference, bool exact) {
  return args.type_d == LADDER_FP32 ? verify_gpu(result_of<float>(args), reference, exact)
                                    : verify_gpu(result_of<bf16>(args), reference, exact);
}

}  // namespace ladder
