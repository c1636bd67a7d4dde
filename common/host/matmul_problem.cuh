// The kind of problem that is D[m,n] = A[m,k] · B[n,k]^T, all three row-major, for element types that
// have an Element. A .cu file that instantiates MatmulArgs<In, Out>::kind() makes one of it.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/host/problem.h"
#include "common/host/text.h"
#include "common/host/validate.h"
#include "common/host/verify_cpu.h"
#include "common/host/verify_gpu.cuh"
#include "common/host/where.h"

namespace ladder {

// Elements from row to row: the columns, rounded up to what the rungs accept.
template <class T>
long long smallest_ld(int cols) {
  constexpr int MULTIPLE = 16 / int{sizeof(T)};
  return (cols + MULTIPLE - 1LL) / MULTIPLE * MULTIPLE;
}

template <class T>
size_t dense_bytes(long long rows, long long ld) {
  return static_cast<size_t>(rows) * static_cast<size_t>(ld) * sizeof(T);
}

namespace on_gpu {

// Adds to *equal how many elements of d [m][ldd] and kept [m][n] have the same bits.
template <class Bits>
__global__ void count_equal(const Bits* d, long long ldd, const Bits* kept, int n, long long elems,
                            unsigned long long* equal) {
  unsigned long long mine = 0;
  for (long long i = first_index(); i < elems; i += index_stride()) {
    mine += d[i / n * ldd + i % n] == kept[i] ? 1 : 0;
  }
  atomicAdd(equal, mine);
}

}  // namespace on_gpu

// Padding is NaN.
template <class In, class Out>
class MatmulProblem : public Problem {
 public:
  using Args = MatmulArgs<In, Out>;

  MatmulProblem(const Shape& shape, Data data, uint64_t seed, const DeviceInfo& device)
      : MatmulProblem(shape, data, seed, device,
                      static_cast<const Args&>(*Args::kind().sizes_of(shape)), as_it_is) {}

 protected:
  // For calls of another kind: its sizes and layouts, and what it is as Args. `sets`: of operands; 0: as
  // many as these ask for.
  using ToArgs = Args (*)(const Call&);
  MatmulProblem(const Shape& shape, Data data, uint64_t seed, const DeviceInfo& device,
                const Args& sizes, ToArgs to_args, int sets = 0)
      : Problem(shape, device), data_(data), to_args_(to_args) {
    const int a_rows = sizes.mn_major_a ? shape.k : shape.m, a_cols = shape.m + shape.k - a_rows;
    const int b_rows = sizes.mn_major_b ? shape.k : shape.n, b_cols = shape.n + shape.k - b_rows;
    const size_t a_bytes = dense_bytes<In>(a_rows, sizes.lda);
    const size_t b_bytes = dense_bytes<In>(b_rows, sizes.ldb);
    const size_t d_bytes = dense_bytes<Out>(shape.m, sizes.ldd);
    const int count = sets > 0 ? sets : operand_sets(a_bytes + b_bytes + d_bytes, device);
    refuse_if_too_large(static_cast<size_t>(count), a_bytes + b_bytes + d_bytes);
    const auto fill = on_machine() ? fill_from_host<In> : fill_gpu<In>;
    for (int i = 0; i < count; ++i) {
      Set set{DeviceBuffer(a_bytes), DeviceBuffer(b_bytes), DeviceBuffer(d_bytes), sizes};
      for (const DeviceBuffer* buffer : {&set.a, &set.b}) {
        check_cuda(cudaMemsetAsync(buffer->data(), 0xff, buffer->bytes(), stream()),  // NaN
                   "cudaMemsetAsync");
      }
      const Data of_a = data == Data::index ? Data::identity : data;
      const Data of_b = data == Data::index ? Data::places : data;
      fill(set.a.template as<In>(), a_rows, a_cols, sizes.lda, of_a, seed + 2 * i, stream());
      fill(set.b.template as<In>(), b_rows, b_cols, sizes.ldb, of_b, seed + 2 * i + 1, stream());
      set.args.a = set.a.template as<In>();
      set.args.b = set.b.template as<In>();
      set.args.d = set.d.template as<Out>();
      set.args.stream = stream();
      set.args.workspace = workspace();
      sets_.push_back(std::move(set));
    }
    MatmulProblem::poison_outputs();
    check_cuda(cudaStreamSynchronize(stream()), "filling of the operands");
  }

 public:
  double tensor_flop() const override { return 8192.0 / sizeof(In); }
  int sets() const override { return static_cast<int>(sets_.size()); }
  const Call& call(int set) const override { return sets_.at(static_cast<size_t>(set)).args; }

  void limit(const CallLimits& limits) override {
    for (Set& set : sets_) {
      set.args.max_ctas = limits.max_ctas;
      set.args.workspace = limits.workspace ? workspace() : nullptr;
    }
  }

  void poison_outputs() override {
    for (const Set& set : sets_) {
      check_cuda(cudaMemsetAsync(set.d.data(), 0xff, set.d.bytes(), stream()), "cudaMemsetAsync");
    }
  }

  // For Data::ints and Data::index bit for bit.
  Verdict verify() override {
    Verdict all;
    for (size_t set = 0; set < sets_.size(); ++set) {
      const Verdict one = verify_set(set);
      const double worst = std::max(all.worst, one.worst);
      if (all.ok() || (all.padding && !one.ok() && !one.padding)) {
        all = one;  // what D has wrong goes before what lies behind it
      } else if (all.padding == one.padding) {
        all.wrong += one.wrong;
      }
      all.worst = worst;
    }
    return all;
  }

  void keep_output() override {
    const Args& args = sets_[0].args;
    const size_t row_bytes = static_cast<size_t>(args.n) * sizeof(Out);
    kept_ = DeviceBuffer(row_bytes * static_cast<size_t>(args.m));
    check_cuda(cudaMemcpy2DAsync(kept_.data(), row_bytes, args.d,
                                 static_cast<size_t>(args.ldd) * sizeof(Out), row_bytes,
                                 static_cast<size_t>(args.m), cudaMemcpyDeviceToDevice, stream()),
               "cudaMemcpy2DAsync");
    check_cuda(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
  }

  double share_equal_to_kept() const override {
    using Bits = std::conditional_t<sizeof(Out) == 2, uint16_t, uint32_t>;
    static_assert(sizeof(Bits) == sizeof(Out), "results are of 16 or 32 bits");
    const Args& args = sets_[0].args;
    const long long elems = static_cast<long long>(args.m) * args.n;
    DeviceBuffer equal(sizeof(unsigned long long));
    unsigned long long count = 0;
    check_cuda(cudaMemsetAsync(equal.data(), 0, equal.bytes(), stream()), "cudaMemsetAsync");
    on_gpu::count_equal<<<on_gpu::grid_for(elems), on_gpu::THREADS, 0, stream()>>>(
        reinterpret_cast<const Bits*>(args.d), args.ldd, kept_.template as<Bits>(), args.n, elems,
        equal.as<unsigned long long>());
    check_cuda(cudaGetLastError(), "launch of count_equal");
    check_cuda(
        cudaMemcpyAsync(&count, equal.data(), sizeof count, cudaMemcpyDeviceToHost, stream()),
        "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(stream()), "count_equal");
    return static_cast<double>(count) / static_cast<double>(elems);
  }

  std::vector<LibraryCandidate> candidates(CublasLt& cublas) const override {
    std::vector<LibraryCandidate> all;
    for (const auto& algorithm : cublas.candidates(library_call(sets_[0].args))) {
      const auto launch = [&cublas, algorithm, to_args = to_args_](const Call& call) {
        cublas.run(*algorithm, library_call(to_args(call)));
      };
      all.push_back({{"cuBLASLt", launch}, CublasLt::describe(*algorithm)});
    }
    return all;
  }

 protected:
  const Args& args(int set) const { return sets_.at(static_cast<size_t>(set)).args; }

  // Sets come in order: at most one reference is added.
  virtual Verdict verify_set(size_t set) {
    const Args& args = sets_[set].args;
    const bool exact = data_ == Data::ints || data_ == Data::index;
    if (on_machine()) {
      if (host_references_.size() == set) host_references_.push_back(reference_on_host(args));
      return with_padding(args, verify_on_host(args, host_references_[set], exact));
    }
    if (references_.size() == set) references_.push_back(reference_gpu(args));
    return with_padding(args, verify_gpu(args, references_[set], exact));
  }

 private:
  struct Set {
    DeviceBuffer a, b, d;
    Args args;
  };

  // If D is right, whether what lies behind its last column still is as poison_outputs() left it.
  static Verdict with_padding(const Args& args, Verdict verdict) {
    const size_t cols = static_cast<size_t>(args.ldd - args.n);
    if (!verdict.ok() || cols == 0) return verdict;
    std::vector<Out> padding(cols * static_cast<size_t>(args.m));
    check_cuda(cudaMemcpy2DAsync(padding.data(), cols * sizeof(Out), args.d + args.n,
                                 static_cast<size_t>(args.ldd) * sizeof(Out), cols * sizeof(Out),
                                 static_cast<size_t>(args.m), cudaMemcpyDeviceToHost, args.stream),
               "copying the padding of D");
    check_cuda(cudaStreamSynchronize(args.stream), "copying the padding of D");
    for (size_t i = 0; i < padding.size(); ++i) {
      if (has_all_bits(padding[i]) || verdict.wrong++ > 0) continue;
      verdict.padding = true;
      verdict.first_row = static_cast<long long>(i / cols);
      verdict.first_col = args.n + static_cast<long long>(i % cols);
    }
    return verdict;
  }

  static Args as_it_is(const Call& call) { return static_cast<const Args&>(call); }

  void refuse_if_too_large(size_t sets, size_t set_bytes) const {
    // Two floats an element are a reference, the kept output is one Out. Of 2^30 each way more than an
    // integer holds.
    const double elements = 1.0 * shape().m * shape().n;
    const double needed = static_cast<double>(sets) *
                              (static_cast<double>(set_bytes) + elements * 2 * sizeof(float)) +
                          elements * sizeof(Out);
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (needed <= static_cast<double>(free)) return;
    constexpr double BYTES_PER_SQUARE =
        2.0 * sizeof(In) + sizeof(Out) + 2.0 * sizeof(float) + sizeof(Out);
    const int largest =
        static_cast<int>(std::sqrt(static_cast<double>(free) / BYTES_PER_SQUARE)) / 128 * 128;
    throw Refused(
        format("%s needs %.1f GiB of device memory for operands and references but "
               "%.1f GiB are free; the largest cube that fits is about %d.",
               to_string(shape()).c_str(), needed / (1 << 30),
               static_cast<double>(free) / (1 << 30), largest));
  }

  Data data_;
  ToArgs to_args_;
  std::vector<Set> sets_;
  std::vector<Reference> references_;           // one a set
  std::vector<HostReference> host_references_;  // the same, on the PTX machine
  DeviceBuffer kept_;
};

// What a call of k == 0 does to D; m == 0 or n == 0 does nothing.
inline void write_zeros(const Call& call, void* d, long long ldd, int element_bytes) {
  if (call.m == 0 || call.n == 0) return;
  const auto row_bytes = static_cast<size_t>(call.n) * element_bytes;
  const auto pitch_bytes = static_cast<size_t>(ldd) * element_bytes;
  if (pitch_bytes <= INT_MAX) {  // cudaDeviceProp::memPitch
    check_cuda(
        cudaMemset2DAsync(d, pitch_bytes, 0, row_bytes, static_cast<size_t>(call.m), call.stream),
        "cudaMemset2DAsync");
    return;
  }
  for (long long row = 0; row < call.m; ++row) {
    check_cuda(
        cudaMemsetAsync(static_cast<char*>(d) + row * pitch_bytes, 0, row_bytes, call.stream),
        "cudaMemsetAsync");
  }
}

template <class In, class Out>
class MatmulKind : public ProblemKind {
 public:
  using Args = MatmulArgs<In, Out>;

  const char* name() const override { return name_.c_str(); }
  const char* formula() const override { return formula_.c_str(); }
  const char* c_function() const override {
    return std::is_same_v<Args, GemmArgs> ? "ladder_gemm_bf16" : "";
  }

  std::string violations(const GridRules& rules, const Call& call) const override {
    const Args& args = static_cast<const Args&>(call);
    return matmul_violations(rules, args, {args.a, args.lda, sizeof(In)},
                             {args.b, args.ldb, sizeof(In)}, {args.d, args.ldd, sizeof(Out)});
  }

  bool needs_kernel(const Call& call) const override {
    return call.m > 0 && call.n > 0 && call.k > 0;
  }

  void run_without_kernel(const Call& call) const override {
    const Args& args = static_cast<const Args&>(call);
    write_zeros(call, args.d, args.ldd, sizeof(Out));
  }

  std::shared_ptr<Call> sizes_of(const Shape& shape) const override {
    const auto args = std::make_shared<Args>();
    args->m = shape.m;
    args->n = shape.n;
    args->k = shape.k;
    args->lda = args->ldb = smallest_ld<In>(shape.k);
    args->ldd = smallest_ld<Out>(shape.n);
    return args;
  }

  Traits traits(const Call& call) const override {
    const Args& args = static_cast<const Args&>(call);
    return {args.lda, args.ldb, args.ldd};
  }

  std::unique_ptr<Problem> problem(const Shape& shape, Data data, uint64_t seed,
                                   const DeviceInfo& device) const override {
    return std::make_unique<MatmulProblem<In, Out>>(shape, data, seed, device);
  }

 private:
  static std::string types(const char* between) {
    const std::string in = Element<In>::NAME, out = Element<Out>::NAME;
    return in == out ? in : in + between + out;
  }
  std::string name_ = types("_");
  std::string formula_ = "D[M,N] = A[M,K] * B[N,K]^T, " + types(" to ");
};

template <class In, class Out>
const ProblemKind& MatmulArgs<In, Out>::kind() {
  static const MatmulKind<In, Out> kind;
  return kind;
}

}  // namespace ladder
