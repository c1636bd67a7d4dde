// The kind of problem of rung 14: 8-bit operands, a scale for every 128 of K.
#include "common/host/block_scaled.h"

#include <cmath>

#include "common/host/block_scaled_verify.h"
#include "common/host/matmul_problem.cuh"

namespace ladder {
namespace {

constexpr const char* TYPE_NAMES[] = {"e4m3", "s8"};
constexpr int TYPES[] = {LADDER_E4M3, LADDER_S8};
constexpr const char* SCALE_NAMES[] = {"blocks", "tensor"};

template <class In>
MatmulArgs<In, bf16> call_as_matmul(const Call& call) {
  return as_matmul<In>(static_cast<const BlockScaledArgs&>(call));
}

// --- the problem ---------------------------------------------------------------------------------

constexpr float TENSOR_SCALE = 6.0f / 448;  // normal data are from -6 to 6

// Operands are quantized from bf16; those of Data::ints are integers, their scales powers of two. What
// is no element or scale is NaN, or in s8 -1.
template <class In>
class BlockScaledProblem : public MatmulProblem<In, bf16> {
 public:
  BlockScaledProblem(const Shape& shape, Data data, uint64_t seed, const DeviceInfo& device,
                     const BlockScaledArgs& sizes)
      : MatmulProblem<In, bf16>(shape, data, seed, device, as_matmul<In>(sizes),
                                call_as_matmul<In>),
        data_(data) {
    const long long blocks = scale_blocks(shape.k);
    for (int i = 0; i < this->sets(); ++i) {
      Scales scales{DeviceBuffer(dense_bytes<float>(blocks, sizes.ld_scale_a)),
                    DeviceBuffer(dense_bytes<float>(scale_blocks(shape.n), sizes.ld_scale_b))};
      const auto& from = this->args(i);
      fill(const_cast<In*>(from.a), shape.m, from.lda, 1, scales.a, sizes.ld_scale_a, seed + 2 * i);
      fill(const_cast<In*>(from.b), shape.n, from.ldb, SCALE_BLOCK, scales.b, sizes.ld_scale_b,
           seed + 2 * i + 1);
      scales_.push_back(std::move(scales));
      calls_.push_back(sizes);
    }
    update();
  }

  const Call& call(int set) const override { return calls_.at(static_cast<size_t>(set)); }

  void limit(const CallLimits& limits) override {
    MatmulProblem<In, bf16>::limit(limits);
    update();
  }

  // e4m3: with the same scales, if their rows lie as it wants them. s8: the product in s32 alone, into
  // memory of its own, which is checked here. They outlive the problem.
  std::vector<LibraryCandidate> candidates(CublasLt& cublas) const override {
    const BlockScaledArgs& first = calls_[0];
    if (!INTEGERS && !first.tensor_scales && first.ld_scale_a != first.m) return {};
    const auto integers = std::make_shared<Integers>();
    for (int i = 0; INTEGERS && i < this->sets(); ++i) {
      integers->results.emplace_back(dense_bytes<int>(first.m, smallest_ld<int>(first.n)));
    }
    std::vector<LibraryCandidate> all;
    for (const auto& algorithm : cublas.candidates(library_call_of(first, integers.get()))) {
      const auto launch = [&cublas, algorithm, integers](const Call& call) {
        cublas.run(*algorithm,
                   library_call_of(static_cast<const BlockScaledArgs&>(call), integers.get()));
      };
      const LibraryCandidate candidate{
          {"cuBLASLt", launch}, CublasLt::describe(*algorithm), !INTEGERS};
      if (!INTEGERS || is_right(candidate, integers.get())) all.push_back(candidate);
    }
    return all;
  }

 protected:
  Verdict verify_set(size_t set) override {
    const BlockScaledArgs& args = calls_[set];
    const bool exact = data_ == Data::ints;
    if (on_machine()) {
      if (host_references_.size() == set) {
        host_references_.push_back(block_scaled_reference_on_host(args));
      }
      return verify_block_scaled(args, host_references_[set], exact);
    }
    if (references_.size() == set) references_.push_back(block_scaled_reference_on_gpu(args));
    return verify_block_scaled(args, references_[set], exact);
  }

 private:
  static constexpr bool INTEGERS = std::is_same_v<In, s8>;
  static constexpr int TYPE = INTEGERS ? LADDER_S8 : LADDER_E4M3;

  struct Scales {
    DeviceBuffer a, b;
  };

  void update() {
    for (size_t set = 0; set < calls_.size(); ++set) {
      const auto& from = this->args(static_cast<int>(set));
      static_cast<Call&>(calls_[set]) = from;
      calls_[set].a = from.a;
      calls_[set].b = from.b;
      calls_[set].d = from.d;
      calls_[set].scale_a = scales_[set].a.template as<float>();
      calls_[set].scale_b = scales_[set].b.template as<float>();
    }
  }

  // An operand [rows][ld] of the problem's data, and its scales.
  void fill(In* q, int rows, long long ld, int block_rows, const DeviceBuffer& scale,
            long long ld_scale, uint64_t seed) {
    const int k = this->shape().k;
    const bool by_rows = block_rows == 1;
    const long long scale_rows = by_rows ? scale_blocks(k) : scale_blocks(rows);
    const long long scale_cols = by_rows ? rows : scale_blocks(k);
    check_cuda(cudaMemsetAsync(scale.data(), 0xff, scale.bytes(), this->stream()),
               "cudaMemsetAsync");
    std::vector<float> scales(static_cast<size_t>(scale_rows * scale_cols));  // dense
    const bool tensor_scales = this->shape().parameters[1] != 0;
    bool upload = tensor_scales || data_ == Data::ints;
    for (size_t i = 0; i < scales.size(); ++i) {
      scales[i] = tensor_scales ? TENSOR_SCALE : power_of_two(seed, i);
      if (tensor_scales && data_ == Data::ints) scales[i] = 0.5f;
    }
    if (data_ != Data::ints && !on_machine()) {
      const long long ldx = smallest_ld<bf16>(k);
      const DeviceBuffer x(dense_bytes<bf16>(rows, ldx));
      fill_gpu(x.template as<bf16>(), rows, k, ldx, data_, seed, this->stream());
      quantize({TYPE, block_rows, rows, k, x.template as<bf16>(), ldx, q, ld,
                scale.template as<float>(), ld_scale, this->stream()});
      check_cuda(cudaStreamSynchronize(this->stream()), "quantizing an operand");
    } else if (data_ != Data::ints) {
      std::vector<bf16> x(static_cast<size_t>(rows) * static_cast<size_t>(k));
      std::vector<In> quantized(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = Element<bf16>::from_float(element_value(data_, seed, static_cast<long long>(i) / k,
                                                       static_cast<long long>(i) % k, k));
      }
      std::vector<float> found(scales.size());
      quantize_on_host({TYPE, block_rows, rows, k, x.data(), k, quantized.data(), k, found.data(),
                        scale_cols, nullptr});
      copy_rows(q, ld, quantized.data(), rows, k);
      if (!tensor_scales) scales = found;
      upload = true;
    }
    if (upload) {
      copy_rows(scale.template as<float>(), ld_scale, scales.data(), scale_rows, scale_cols);
    }
  }

  // From a dense matrix of the host; waits.
  template <class T>
  void copy_rows(T* to, long long ld, const T* from, long long rows, long long cols) {
    const size_t row_bytes = static_cast<size_t>(cols) * sizeof(T);
    check_cuda(
        cudaMemcpy2DAsync(to, static_cast<size_t>(ld) * sizeof(T), from, row_bytes, row_bytes,
                          static_cast<size_t>(rows), cudaMemcpyHostToDevice, this->stream()),
        "cudaMemcpy2DAsync");
    check_cuda(cudaStreamSynchronize(this->stream()), "cudaStreamSynchronize");
  }

  // --- cuBLASLt ---

  // D in s32, [m][n] with the smallest leading dimension; calls take them in turns.
  struct Integers {
    std::vector<DeviceBuffer> results;
    size_t next = 0;
  };

  static LibraryCall library_call_of(const BlockScaledArgs& args, Integers* integers) {
    LibraryCall call = library_call(as_matmul<In>(args));
    if (INTEGERS) {
      call.type_out = CUDA_R_32I;
      call.d = integers->results[integers->next].data();
      call.ldd = smallest_ld<int>(args.n);
      integers->next = (integers->next + 1) % integers->results.size();
    } else {
      call.scales = args.tensor_scales ? LibraryScales::tensor : LibraryScales::blocks;
      call.scale_a = args.scale_a;
      call.scale_b = args.scale_b;
    }
    return call;
  }

  // Of the first set in s32.
  bool is_right(const LibraryCandidate& candidate, Integers* integers) const {
    const BlockScaledArgs& args = calls_[0];
    const DeviceBuffer& result = integers->results[0];
    check_cuda(cudaMemsetAsync(result.data(), 0xff, result.bytes(), args.stream),
               "cudaMemsetAsync");
    integers->next = 0;
    try {
      candidate.contestant.launch(args);
      check_cuda(cudaStreamSynchronize(args.stream), candidate.algorithm.c_str());
    } catch (const CudaError&) {
      cudaGetLastError();
      return false;  // the heuristics offer what does not always run
    }
    return wrong_integers(args, result.template as<int>(), smallest_ld<int>(args.n)) == 0;
  }

  const Data data_;
  std::vector<Scales> scales_;
  std::vector<BlockScaledArgs> calls_;
  std::vector<Reference> references_;
  std::vector<HostReference> host_references_;
};

class BlockScaledKind : public ProblemKind {
 public:
  const char* name() const override { return "block_scaled"; }
  const char* formula() const override {
    return "D[M,N] = sum over blocks of K of scale_a * scale_b * (A[M,K] * B[N,K]^T), bf16";
  }
  const char* c_function() const override { return "ladder_gemm_block_scaled"; }

  std::vector<Parameter> parameters() const override {
    return {{"type", {std::begin(TYPE_NAMES), std::end(TYPE_NAMES)}},
            {"scales", {std::begin(SCALE_NAMES), std::end(SCALE_NAMES)}}};
  }

  std::string violations(const GridRules& rules, const Call& call) const override {
    const auto& args = static_cast<const BlockScaledArgs&>(call);
    std::vector<std::string> wrong;
    check_choice(&wrong, "type", args.type, {LADDER_E4M3, LADDER_S8}, "3 (e4m3) or 4 (s8)");
    std::vector<SideMatrix> scales;
    if (call.m != 0 && call.n != 0 && call.k != 0) {
      // Sizes as the sentences about sizes and leading dimensions will have them.
      const auto size = [](int given) { return std::clamp<long long>(given, 1, 1 << 30); };
      const long long k = size(call.k), blocks = scale_blocks(k), most = 1LL << 40;  // bytes
      const auto rows = [&](int given, long long ld) {
        const long long nearest = (std::clamp(ld, k, most - 16) + 15) / 16 * 16;
        return std::min(size(given), (most - k) / nearest + 1);
      };
      const long long m = rows(call.m, args.lda), n = rows(call.n, args.ldb);
      scales = {{"scale_a", "ld_scale_a", "ceil(k/128) x m", "m", args.scale_a, blocks, m,
                 args.ld_scale_a, sizeof(float), 16, 4},
                {"scale_b", "ld_scale_b", "ceil(n/128) x ceil(k/128)", "ceil(k/128)", args.scale_b,
                 scale_blocks(n), blocks, args.ld_scale_b, sizeof(float), 4, 1}};
      for (SideMatrix& each : scales) check_side_matrix(&wrong, &each);
    }
    return matmul_violations(rules, args, {args.a, args.lda, 1}, {args.b, args.ldb, 1},
                             {args.d, args.ldd, sizeof(bf16)}, wrong, scales);
  }

  bool needs_kernel(const Call& call) const override {
    return call.m > 0 && call.n > 0 && call.k > 0;
  }

  void run_without_kernel(const Call& call) const override {
    const auto& args = static_cast<const BlockScaledArgs&>(call);
    write_zeros(call, args.d, args.ldd, sizeof(bf16));
  }

  std::shared_ptr<Call> sizes_of(const Shape& shape) const override {
    const auto args = std::make_shared<BlockScaledArgs>();
    args->m = shape.m;
    args->n = shape.n;
    args->k = shape.k;
    args->type = TYPES[shape.parameters[0]];
    args->tensor_scales = shape.parameters[1] != 0;
    args->lda = args->ldb = smallest_ld<e4m3>(shape.k);
    args->ld_scale_a = smallest_ld<float>(shape.m);
    args->ld_scale_b = smallest_ld<float>(static_cast<int>(scale_blocks(shape.k)));  // cuBLASLt's
    args->ldd = smallest_ld<bf16>(shape.n);
    return args;
  }

  Traits traits(const Call& call) const override {
    const auto& args = static_cast<const BlockScaledArgs&>(call);
    return {args.lda,           args.ldb,        args.ldd,       args.type,
            args.tensor_scales, args.ld_scale_a, args.ld_scale_b};
  }

  std::unique_ptr<Problem> problem(const Shape& shape, Data data, uint64_t seed,
                                   const DeviceInfo& device) const override {
    if (data == Data::index) {
      throw Refused(
          "The data are index: operands of 8 bits cannot number the elements of a matrix; the "
          "nearest that works is ints.");
    }
    const auto sizes = std::static_pointer_cast<const BlockScaledArgs>(sizes_of(shape));
    // No lambda: as in typed.cu.
    if (sizes->type == LADDER_S8) {
      return std::make_unique<BlockScaledProblem<s8>>(shape, data, seed, device, *sizes);
    }
    return std::make_unique<BlockScaledProblem<e4m3>>(shape, data, seed, device, *sizes);
  }
};

}  // namespace

const ProblemKind& BlockScaledArgs::kind() {
  static const BlockScaledKind kind;
  return kind;
}

}  // namespace ladder
