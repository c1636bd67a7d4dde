// The kind of problem of rung 15: bf16 activations, packed weights of 8 or 4 bits.
#include "common/host/mixed.h"

#include "common/host/matmul_problem.cuh"
#include "common/host/mixed_rules.h"
#include "common/host/weights.h"

namespace ladder {
namespace {

using Product = MatmulArgs<bf16, bf16>;  // by weights that are decoded

// A call that knows its weights, decoded and rounded to bf16, for a library.
struct KnownArgs : MixedArgs {
  Product decoded;
};
Product as_decoded(const Call& call) {
  Product product = static_cast<const KnownArgs&>(call).decoded;
  static_cast<Call&>(product) = call;
  return product;
}

// A weight w of Data::ints, index or zeros, as one of q's with a scale that is a power of two, so
// that products are exact. Of index it is the nearest below that so few bits can say.
struct Exact {
  int q;
  float scale;
};
LADDER_HOST_DEVICE Exact exact_weight(Data data, int bits, float w, long long row, long long col) {
  const long long block = col / tile::PACKED_K;
  if (data != Data::index) {  // scales 1/2, 1 and 2 in turns: a neighbour's is wrong
    const int turn = static_cast<int>((row + block) % 3);
    return {static_cast<int>(w), turn == 0 ? 0.5f : static_cast<float>(turn)};
  }
  float scale = 1;  // w's first bit becomes q's highest, so that it depends on the row alone
  const float end = bits == 8 ? 128.0f : 8.0f;
  while (w / scale >= end) scale *= 2;
  while (w / scale < end / 2) scale /= 2;
  return {static_cast<int>(w / scale), scale};
}

// Byte i of a dense q, and the scale of a group that begins there.
LADDER_HOST_DEVICE void put_exact(Data data, const WeightsArgs& g, long long i) {
  const int each = 8 / g.bits;  // weights a byte
  const long long per_row = (g.k + each - 1) / each, row = i / per_row, col = i % per_row * each;
  int byte = 0;
  for (int half = 0; half < each && col + half < g.k; ++half) {
    const float w = __bfloat162float(g.w[row * g.ldw + col + half]);
    const Exact exact = exact_weight(data, g.bits, w, row, col + half);
    byte |= (exact.q & (g.bits == 8 ? 255 : 15)) << half * 4;
    if ((col + half) % tile::PACKED_K == 0) {
      g.scale[col / tile::PACKED_K * g.ld_scale + row] = __float2bfloat16_rn(exact.scale);
    }
  }
  static_cast<uint8_t*>(g.q)[(row * g.ldq + col) / each] = static_cast<uint8_t>(byte);
}
__global__ void exact_kernel(Data data, WeightsArgs g, long long bytes) {
  for (long long i = on_gpu::first_index(); i < bytes; i += on_gpu::index_stride()) {
    put_exact(data, g, i);
  }
}

// Scale i of [ceil(k / 128)][n] becomes the power of two next to it, so that the weights are bf16
// numbers as well: a library that multiplies those computes the same product.
LADDER_HOST_DEVICE void round_scale(const WeightsArgs& g, long long i) {
  constexpr unsigned FRACTION_BITS = 7, HALF = 1u << (FRACTION_BITS - 1);
  auto* bits = reinterpret_cast<uint16_t*>(g.scale) + i / g.n * g.ld_scale + i % g.n;
  *bits = static_cast<uint16_t>((*bits + HALF) >> FRACTION_BITS << FRACTION_BITS);
}
__global__ void round_kernel(WeightsArgs g, long long scales) {
  for (long long i = on_gpu::first_index(); i < scales; i += on_gpu::index_stride()) {
    round_scale(g, i);
  }
}

// Weight i of W [n][k], decoded: in fp32 exact.
LADDER_HOST_DEVICE float decoded_weight(const WeightsArgs& g, long long i) {
  const long long row = i / g.k, col = i % g.k;
  return __bfloat162float(g.scale[col / tile::PACKED_K * g.ld_scale + row]) *
         static_cast<float>(weight_at(g.bits, g.q, g.ldq, row, col));
}
template <class T>
__global__ void decode_kernel(WeightsArgs g, T* w, long long ldw, long long elems) {
  for (long long i = on_gpu::first_index(); i < elems; i += on_gpu::index_stride()) {
    w[i / g.k * ldw + i % g.k] = Element<T>::from_float(decoded_weight(g, i));
  }
}
__global__ void widen_kernel(const bf16* a, long long lda, int k, float* wide, long long elems) {
  for (long long i = on_gpu::first_index(); i < elems; i += on_gpu::index_stride()) {
    wide[i] = __bfloat162float(a[i / k * lda + i % k]);
  }
}

template <class T>
void upload(T* to, const std::vector<T>& from, cudaStream_t stream) {
  check_cuda(
      cudaMemcpyAsync(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice, stream),
      "copying weights to the device");
  check_cuda(cudaStreamSynchronize(stream), "copying weights to the device");
}

long long scale_elements(const MixedArgs& args) {
  return (tile::ceil_div(args.k, tile::PACKED_K) - 1) * args.ld_scale + args.n;
}

// A product of bf16, whose B is quantised and becomes what was quantised, decoded. Scales are
// powers of two.
class MixedProblem : public MatmulProblem<bf16, bf16> {
 public:
  MixedProblem(const Shape& shape, Data data, uint64_t seed, const DeviceInfo& device,
               const MixedArgs& sizes)
      : MatmulProblem(shape, data, seed, device, product_of(sizes), as_decoded,
                      operand_sets(tile::packed_bytes(sizes.bits, sizes.n, sizes.k) +
                                       dense_bytes<bf16>(sizes.m, sizes.lda + sizes.ldd) +
                                       dense_bytes<bf16>(scale_elements(sizes), 1),
                                   device)),
        data_(data) {
    for (int set = 0; set < sets(); ++set) {
      weights_.push_back(weights_of(set, sizes));
      calls_.emplace_back();
      static_cast<MixedArgs&>(calls_.back()) = sizes;
    }
    update();
    check_cuda(cudaStreamSynchronize(stream()), "packing of the weights");
  }

  const Call& call(int set) const override { return calls_.at(static_cast<size_t>(set)); }

  void limit(const CallLimits& limits) override {
    MatmulProblem::limit(limits);
    update();
  }

 protected:
  Verdict verify_set(size_t set) override {  // sets come in order: at most one reference is added
    const Product& product = args(static_cast<int>(set));
    const bool exact = data_ == Data::ints || data_ == Data::index;
    if (on_machine()) {
      if (host_references_.size() == set) host_references_.push_back(on_host(product, set));
      return verify_on_host(product, host_references_[set], exact);
    }
    if (references_.size() == set) references_.push_back(on_device(product, set));
    return verify_gpu(product, references_[set], exact);
  }

 private:
  struct Weights {
    DeviceBuffer q, scale, packed;
    WeightsArgs args;
  };

  static Product product_of(const MixedArgs& sizes) {
    Product product;
    static_cast<Call&>(product) = sizes;
    product.lda = sizes.lda;
    product.ldb = smallest_ld<bf16>(sizes.k);
    product.ldd = sizes.ldd;
    return product;
  }

  void update() {
    for (size_t set = 0; set < calls_.size(); ++set) {
      KnownArgs& call = calls_[set];
      call.decoded = args(static_cast<int>(set));
      static_cast<Call&>(call) = call.decoded;
      call.a = call.decoded.a;
      call.d = call.decoded.d;
      call.packed = weights_[set].packed.data();
      call.scale = weights_[set].scale.as<bf16>();
    }
  }

  Weights weights_of(int set, const MixedArgs& sizes) const {
    const long long ldq = (sizes.k + 31LL) / 32 * 32;
    Weights weights{DeviceBuffer(weights_bytes(sizes.bits, sizes.n, sizes.k, ldq)),
                    DeviceBuffer(scale_elements(sizes) * sizeof(bf16)),
                    DeviceBuffer(tile::packed_bytes(sizes.bits, sizes.n, sizes.k)),
                    {}};
    const Product& product = args(set);
    bf16* const w = const_cast<bf16*>(product.b);  // this object's
    weights.args = {sizes.bits,
                    sizes.n,
                    sizes.k,
                    w,
                    product.ldb,
                    weights.q.data(),
                    ldq,
                    weights.scale.as<bf16>(),
                    sizes.ld_scale,
                    weights.packed.data(),
                    stream()};
    check_cuda(cudaMemsetAsync(weights.scale.data(), 0xff, weights.scale.bytes(), stream()),
               "cudaMemsetAsync");  // padding is NaN
    if (on_machine()) {
      make_on_host(weights.args);
    } else {
      make_on_device(weights.args);
    }
    return weights;
  }

  void make_on_device(const WeightsArgs& g) const {
    const long long elems = 1LL * g.n * g.k;
    if (data_ == Data::normal || data_ == Data::uniform) {
      quantize_weights(g);
      const long long scales = 1LL * tile::ceil_div(g.k, tile::PACKED_K) * g.n;
      round_kernel<<<on_gpu::grid_for(scales), on_gpu::THREADS, 0, stream()>>>(g, scales);
    } else {
      const long long bytes = (g.k * g.bits + 7LL) / 8 * g.n;
      exact_kernel<<<on_gpu::grid_for(bytes), on_gpu::THREADS, 0, stream()>>>(data_, g, bytes);
    }
    pack_weights(g);
    decode_kernel<<<on_gpu::grid_for(elems), on_gpu::THREADS, 0, stream()>>>(
        g, const_cast<bf16*>(g.w), g.ldw, elems);
    check_cuda(cudaGetLastError(), "launch of decode_kernel");
  }

  void make_on_host(const WeightsArgs& g) const {
    std::vector<bf16> w = download(g.w, g.n, g.k, g.ldw, stream());
    std::vector<uint8_t> q(weights_bytes(g.bits, g.n, g.k, g.ldq));
    std::vector<bf16> scale(
        static_cast<size_t>((tile::ceil_div(g.k, tile::PACKED_K) - 1) * g.ld_scale + g.n),
        __float2bfloat16_rn(NAN));
    WeightsArgs here = g;
    here.w = w.data();
    here.q = q.data();
    here.scale = scale.data();
    if (data_ == Data::normal || data_ == Data::uniform) {
      quantize_weights_cpu(g.bits, g.n, g.k, w.data(), g.ldw, q.data(), g.ldq, scale.data(),
                           g.ld_scale);
      const long long scales = 1LL * tile::ceil_div(g.k, tile::PACKED_K) * g.n;
      for (long long i = 0; i < scales; ++i) round_scale(here, i);
    } else {
      for (long long i = 0; i < (g.k * g.bits + 7LL) / 8 * g.n; ++i) put_exact(data_, here, i);
    }
    for (long long i = 0; i < 1LL * g.n * g.k; ++i) {
      w[i / g.k * g.ldw + i % g.k] = __float2bfloat16_rn(decoded_weight(here, i));
    }
    upload(const_cast<bf16*>(g.w), w, stream());
    upload(static_cast<uint8_t*>(g.q), q, stream());
    upload(g.scale, scale, stream());
    upload(static_cast<uint32_t*>(g.packed), pack_weights_cpu(g.bits, g.n, g.k, q.data(), g.ldq),
           stream());
  }

  // The sum over blocks of scale · (A · W^T) of weights as they are: fp32 has scale · q exactly.
  Reference on_device(const Product& product, size_t set) const {
    const WeightsArgs& g = weights_[set].args;
    const long long a_elems = 1LL * product.m * g.k, w_elems = 1LL * g.n * g.k;
    const DeviceBuffer a(a_elems * sizeof(float)), w(w_elems * sizeof(float));
    widen_kernel<<<on_gpu::grid_for(a_elems), on_gpu::THREADS, 0, stream()>>>(
        product.a, product.lda, g.k, a.as<float>(), a_elems);
    decode_kernel<<<on_gpu::grid_for(w_elems), on_gpu::THREADS, 0, stream()>>>(g, w.as<float>(),
                                                                               g.k, w_elems);
    MatmulArgs<float, bf16> wide;
    static_cast<Call&>(wide) = product;
    wide.a = a.as<float>();
    wide.b = w.as<float>();
    wide.lda = wide.ldb = g.k;
    Reference reference = reference_gpu(wide, tile::PACKED_K);  // then scales promote a sum
    check_cuda(cudaStreamSynchronize(stream()), "the reference");
    return reference;
  }
  HostReference on_host(const Product& product, size_t set) const {
    const WeightsArgs& g = weights_[set].args;
    const std::vector<bf16> narrow = download(product.a, product.m, g.k, product.lda, stream());
    const auto q = download(static_cast<const uint8_t*>(g.q), 1,
                            static_cast<int>(weights_[set].q.bytes()), 0, stream());
    const std::vector<bf16> scale =
        download<bf16>(g.scale, tile::ceil_div(g.k, tile::PACKED_K), g.n, g.ld_scale, stream());
    WeightsArgs here = g;
    here.q = const_cast<uint8_t*>(q.data());
    here.scale = const_cast<bf16*>(scale.data());
    std::vector<float> a(1LL * product.m * g.k), w(1LL * g.n * g.k);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = __bfloat162float(narrow[i / g.k * product.lda + i % g.k]);
    }
    for (size_t i = 0; i < w.size(); ++i) w[i] = decoded_weight(here, static_cast<long long>(i));
    const size_t elements = static_cast<size_t>(product.m) * static_cast<size_t>(product.n);
    HostReference reference{std::vector<double>(elements), std::vector<double>(elements)};
    reference_cpu(product.m, product.n, g.k, a.data(), g.k, w.data(), g.k, reference.r.data(),
                  reference.s.data());
    return reference;
  }

  Data data_;
  std::vector<Weights> weights_;  // one a set, as the others
  std::vector<KnownArgs> calls_;
  std::vector<Reference> references_;
  std::vector<HostReference> host_references_;
};

class MixedKind : public ProblemKind {
 public:
  const char* name() const override { return "mixed"; }
  const char* formula() const override {
    return "D[M,N] = A[M,K] * W[N,K]^T, bf16 by weights of 8 or 4 bits with scales";
  }
  const char* c_function() const override { return "ladder_gemm_mixed"; }
  std::vector<Parameter> parameters() const override { return {{"bits", {"8", "4"}}}; }

  std::string violations(const GridRules& rules, const Call& call) const override {
    return mixed_violations(rules, static_cast<const MixedArgs&>(call));
  }

  bool needs_kernel(const Call& call) const override {
    return call.m > 0 && call.n > 0 && call.k > 0;
  }

  void run_without_kernel(const Call& call) const override {
    const auto& args = static_cast<const MixedArgs&>(call);
    write_zeros(call, args.d, args.ldd, sizeof(bf16));
  }

  std::shared_ptr<Call> sizes_of(const Shape& shape) const override {
    const auto args = std::make_shared<MixedArgs>();
    args->bits = shape.parameters[0] == 0 ? 8 : 4;
    args->m = shape.m;
    args->n = shape.n;
    args->k = shape.k;
    args->lda = smallest_ld<bf16>(shape.k);
    args->ldd = args->ld_scale = smallest_ld<bf16>(shape.n);
    return args;
  }

  Traits traits(const Call& call) const override {
    const auto& args = static_cast<const MixedArgs&>(call);
    return {args.bits, args.lda, args.ldd, args.ld_scale};
  }

  std::unique_ptr<Problem> problem(const Shape& shape, Data data, uint64_t seed,
                                   const DeviceInfo& device) const override {
    return std::make_unique<MixedProblem>(
        shape, data, seed, device, *std::static_pointer_cast<const MixedArgs>(sizes_of(shape)));
  }
};

}  // namespace

const ProblemKind& MixedArgs::kind() {
  static const MixedKind kind;
  return kind;
}

}  // namespace ladder
