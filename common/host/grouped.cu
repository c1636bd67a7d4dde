// The kind of problem of rung 16: groups of rows, each with a matrix B of its own.
#include "common/host/grouped.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/host/grouped_library.h"
#include "common/host/matmul_problem.cuh"

namespace ladder {
namespace {

constexpr const char* TYPE_NAMES[] = {"bf16", "e4m3"};
constexpr int TYPES[] = {LADDER_BF16, LADDER_E4M3};
constexpr const char* KIND_NAMES[] = {"contiguous", "masked"};
template <class T>
void upload(const DeviceBuffer& to, const std::vector<T>& from, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to.data(), from.data(), from.size() * sizeof(T),
                             cudaMemcpyHostToDevice, stream),
             "copying to the device");
  check_cuda(cudaStreamSynchronize(stream), "copying to the device");
}

// --- a call without products ---------------------------------------------------------------------

// What a call does whose k is 0: rows of good groups become zeros. Of any such call: the flag. A
// CTA a group, and at least one.
__global__ void zero_groups(GroupedArgs g) {
  const tile::Grouping of = g.grouping();
  const auto rows_of = [&of](int group) {
    return tile::rows_of_group(of, group, of.sizes[group], of.masked ? 0 : of.sizes[group + 1]);
  };
  const int mine = static_cast<int>(blockIdx.x);
  int bad = 0;
  while (bad < g.groups && rows_of(bad).count >= 0) ++bad;
  if (mine == 0 && threadIdx.x == 0 && g.error_flag != nullptr) {
    *g.error_flag = bad < g.groups ? bad + 1 : 0;
  }
  if (mine >= (of.masked ? g.groups : bad)) return;
  const tile::GroupRows rows = rows_of(mine);
  for (long long i = threadIdx.x; i < 1LL * rows.count * g.n; i += blockDim.x) {
    g.d[(rows.begin + i / g.n) * g.ldd + i % g.n] = __float2bfloat16_rn(0);
  }
}

// --- the problem ---------------------------------------------------------------------------------

// Padding, and rows that are no group's, are NaN.
template <class In>
class GroupedProblem : public Problem {
 public:
  GroupedProblem(const Shape& shape, Data data, uint64_t seed, const DeviceInfo& device,
                 const GroupedArgs& sizes)
      : Problem(shape, device), data_(data), sizes_(sizes_of_problem(shape)) {
    rows_ = good_rows({sizes_.data(), sizes.groups, sizes.m, sizes.masked != 0}).rows;
    const GroupBuffers needs = bytes_of(sizes);
    const int count = operand_sets(needs.operands(), device);
    refuse_if_too_large(count, sizes);
    for (int i = 0; i < count; ++i) sets_.push_back(make_set(sizes, needs, seed + 2 * i));
    poison_outputs();
    check_cuda(cudaStreamSynchronize(stream()), "filling of the operands");
  }

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
      for (const DeviceBuffer* buffer : {&set.d, &set.flag}) {
        check_cuda(cudaMemsetAsync(buffer->data(), 0xff, buffer->bytes(), stream()),
                   "cudaMemsetAsync");
      }
    }
  }

  Verdict verify() override {
    Verdict all;
    for (Set& set : sets_) {
      if (on_gpu::copy_to_host(set.args.error_flag, stream()) > 0) {  // a library leaves it alone
        throw CudaError("The error flag says that a group is bad, and none is.");
      }
      if (set.references.empty()) set.references = references_of(set.args);
      for (const GroupReference& one : set.references) merge(&all, verify_group(one));
    }
    return all;
  }

  void keep_output() override {
    const GroupedArgs& args = sets_[0].args;
    const size_t row_bytes = static_cast<size_t>(args.n) * sizeof(bf16);
    kept_ = DeviceBuffer(row_bytes * static_cast<size_t>(args.all_rows()));
    check_cuda(
        cudaMemcpy2DAsync(kept_.data(), row_bytes, args.d,
                          static_cast<size_t>(args.ldd) * sizeof(bf16), row_bytes,
                          static_cast<size_t>(args.all_rows()), cudaMemcpyDeviceToDevice, stream()),
        "cudaMemcpy2DAsync");
    check_cuda(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
  }

  double share_equal_to_kept() const override {
    const GroupedArgs& args = sets_[0].args;
    const long long elems = args.all_rows() * args.n;
    const DeviceBuffer equal(sizeof(unsigned long long));
    check_cuda(cudaMemsetAsync(equal.data(), 0, equal.bytes(), stream()), "cudaMemsetAsync");
    on_gpu::count_equal<<<on_gpu::grid_for(elems), on_gpu::THREADS, 0, stream()>>>(
        reinterpret_cast<const uint16_t*>(args.d), args.ldd, kept_.template as<uint16_t>(), args.n,
        elems, equal.as<unsigned long long>());
    check_cuda(cudaGetLastError(), "launch of count_equal");
    return static_cast<double>(on_gpu::copy_to_host(equal.as<unsigned long long>(), stream())) /
           static_cast<double>(elems);
  }

  std::vector<LibraryCandidate> candidates(CublasLt&) const override {
    std::vector<GroupedArgs> calls;
    for (const Set& set : sets_) calls.push_back(set.args);
    return grouped_library_candidates(calls, rows_);
  }

 private:
  static constexpr bool SCALED = std::is_same_v<In, e4m3>;

  // Of one group, what D is to be.
  struct GroupReference {
    BlockScaledArgs scaled;  // SCALED
    GemmArgs product;        // else
    HostReference on_host;   // on the machine
    Reference on_gpu;        // else
    long long begin = 0;     // its first row
  };
  struct Set {
    DeviceBuffer a, b, scale_a, scale_b, d, sizes, flag;
    GroupedArgs args;
    std::vector<GroupReference> references;
  };
  struct GroupBuffers {
    size_t a, b, scale_a, scale_b, d;
    size_t operands() const { return a + b + scale_a + scale_b + d; }
  };

  static GroupBuffers bytes_of(const GroupedArgs& g) {
    return {dense_bytes<In>(g.all_rows(), g.lda), dense_bytes<In>(1LL * g.groups * g.n, g.ldb),
            SCALED ? dense_bytes<float>(scale_blocks(g.k), g.ld_scale_a) : 0,
            SCALED ? dense_bytes<float>(g.groups * scale_blocks(g.n), g.ld_scale_b) : 0,
            dense_bytes<bf16>(g.all_rows(), g.ldd)};
  }

  static double bytes_needed(int sets, const GroupedArgs& g) {
    const double elements = 1.0 * g.all_rows() * g.n;
    return sets * (1.0 * bytes_of(g).operands() + elements * 2 * sizeof(float)) +
           elements * sizeof(bf16) + (SCALED ? 0 : 2.0 * g.k * g.n);
  }

  static void refuse_if_too_large(int sets, const GroupedArgs& g) {
    const double needed = bytes_needed(sets, g);
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (needed <= static_cast<double>(free)) return;
    GroupedArgs fits = g;  // the largest size halved until it does
    while (bytes_needed(1, fits) > static_cast<double>(free)) {
      int& wider = fits.n > fits.k ? fits.n : fits.k;
      int& largest = fits.m > wider ? fits.m : wider;
      if (largest <= 1) break;
      largest /= 2;
      fits.lda = fits.ldb = smallest_ld<In>(fits.k);
      fits.ld_scale_a = smallest_ld<float>(static_cast<int>(fits.all_rows()));
      fits.ldd = smallest_ld<bf16>(fits.n);
    }
    throw Refused(format(
        "%d groups of %d x %d weights and %lld rows need %.1f GiB of device memory but %.1f GiB "
        "are free; %d x %d weights and %lld rows would fit.",
        g.groups, g.n, g.k, g.all_rows(), needed / (1 << 30), static_cast<double>(free) / (1 << 30),
        fits.n, fits.k, fits.all_rows()));
  }

  Set make_set(const GroupedArgs& sizes, const GroupBuffers& needs, uint64_t seed) const {
    Set set{DeviceBuffer(needs.a),
            DeviceBuffer(needs.b),
            DeviceBuffer(needs.scale_a),
            DeviceBuffer(needs.scale_b),
            DeviceBuffer(needs.d),
            DeviceBuffer(sizes_.size() * sizeof(int)),
            DeviceBuffer(sizeof(int)),
            sizes,
            {}};
    GroupedArgs& args = set.args;
    args.a = set.a.data();
    args.b = set.b.data();
    args.scale_a = set.scale_a.template as<float>();
    args.scale_b = set.scale_b.template as<float>();
    args.d = set.d.template as<bf16>();
    args.sizes = set.sizes.template as<int>();
    args.error_flag = set.flag.template as<int>();
    args.stream = stream();
    args.workspace = workspace();
    for (const DeviceBuffer* buffer : {&set.a, &set.b, &set.scale_a, &set.scale_b}) {
      check_cuda(cudaMemsetAsync(buffer->data(), 0xff, buffer->bytes(), stream()),
                 "cudaMemsetAsync");  // NaN
    }
    upload(set.sizes, sizes_, stream());
    for (int g = 0; g < args.groups; ++g) {
      const auto [begin, rows] = rows_[static_cast<size_t>(g)];
      fill(set.a.template as<In>() + begin * args.lda, rows, args.lda, 1,
           set.scale_a.template as<float>() + begin, args.ld_scale_a, args.k, hash64(seed) + g);
      fill(set.b.template as<In>() + 1LL * g * args.n * args.ldb, args.n, args.ldb, SCALE_BLOCK,
           set.scale_b.template as<float>() + g * scale_blocks(args.n) * args.ld_scale_b,
           args.ld_scale_b, args.k, hash64(seed + 1) + g);
    }
    return set;
  }

  // A matrix [rows][ld] of the problem's data, and, of e4m3, its scales.
  void fill(In* to, int rows, long long ld, int block_rows, float* scale, long long ld_scale, int k,
            uint64_t seed) const {
    if (rows == 0) return;
    if (!SCALED || data_ == Data::ints || data_ == Data::zeros) {
      (on_machine() ? fill_from_host<In> : fill_gpu<In>)(to, rows, k, ld, data_, seed, stream());
    }
    if constexpr (SCALED) {
      const bool by_rows = block_rows == 1;
      const long long scale_rows = by_rows ? scale_blocks(k) : scale_blocks(rows);
      const long long scale_cols = by_rows ? rows : scale_blocks(k);
      std::vector<float> scales(static_cast<size_t>(scale_rows * scale_cols), 1.0f);  // dense
      if (data_ == Data::ints) {
        for (size_t i = 0; i < scales.size(); ++i) scales[i] = power_of_two(seed, i);
      } else if (data_ != Data::zeros && !on_machine()) {
        const long long ldx = smallest_ld<bf16>(k);
        const DeviceBuffer x(dense_bytes<bf16>(rows, ldx));
        fill_gpu(x.template as<bf16>(), rows, k, ldx, data_, seed, stream());
        quantize({LADDER_E4M3, block_rows, rows, k, x.template as<bf16>(), ldx, to, ld, scale,
                  ld_scale, stream()});
        check_cuda(cudaStreamSynchronize(stream()), "quantizing an operand");
        return;
      } else if (data_ != Data::zeros) {
        std::vector<bf16> x(static_cast<size_t>(rows) * static_cast<size_t>(k));
        std::vector<In> quantized(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
          x[i] = Element<bf16>::from_float(element_value(data_, seed, static_cast<long long>(i) / k,
                                                         static_cast<long long>(i) % k, k));
        }
        quantize_on_host({LADDER_E4M3, block_rows, rows, k, x.data(), k, quantized.data(), k,
                          scales.data(), scale_cols, nullptr});
        copy_rows(to, ld, quantized.data(), rows, k);
      }
      copy_rows(scale, ld_scale, scales.data(), scale_rows, scale_cols);
    }
  }

  // From a dense matrix of the host; waits.
  template <class T>
  void copy_rows(T* to, long long ld, const T* from, long long rows, long long cols) const {
    const size_t row_bytes = static_cast<size_t>(cols) * sizeof(T);
    check_cuda(
        cudaMemcpy2DAsync(to, static_cast<size_t>(ld) * sizeof(T), from, row_bytes, row_bytes,
                          static_cast<size_t>(rows), cudaMemcpyHostToDevice, stream()),
        "cudaMemcpy2DAsync");
    check_cuda(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
  }

  // Of every group that has rows.
  std::vector<GroupReference> references_of(const GroupedArgs& args) const {
    std::vector<GroupReference> all;
    for (const GroupCall& group : calls_of_groups(args, rows_)) {
      GroupReference one;
      one.begin = group.begin;
      if constexpr (SCALED) {
        one.scaled = group.scaled;
        if (on_machine()) {
          one.on_host = block_scaled_reference_on_host(one.scaled);
        } else {
          one.on_gpu = block_scaled_reference_on_gpu(one.scaled);
        }
      } else {
        one.product = group.product;
        if (on_machine()) {
          one.on_host = reference_on_host(one.product);
        } else {
          one.on_gpu = reference_gpu(one.product);
        }
      }
      all.push_back(std::move(one));
    }
    return all;
  }

  Verdict verify_group(const GroupReference& one) const {
    const bool exact = data_ == Data::ints;
    Verdict verdict;
    if constexpr (SCALED) {
      verdict = on_machine() ? verify_block_scaled(one.scaled, one.on_host, exact)
                             : verify_block_scaled(one.scaled, one.on_gpu, exact);
    } else {
      verdict = on_machine() ? verify_on_host(one.product, one.on_host, exact)
                             : verify_gpu(one.product, one.on_gpu, exact);
    }
    if (!verdict.ok()) {
      verdict.first_row += one.begin;
      verdict.around.row0 += one.begin;
    }
    return verdict;
  }

  static void merge(Verdict* all, const Verdict& one) {
    const long long wrong = all->wrong + one.wrong;
    const double worst = std::max(all->worst, one.worst);
    if (all->ok()) *all = one;
    all->wrong = wrong;
    all->worst = worst;
  }

  const Data data_;
  const std::vector<int> sizes_;       // as the device has them
  std::vector<tile::GroupRows> rows_;  // of each group
  std::vector<Set> sets_;
  DeviceBuffer kept_;
};

class GroupedKind : public ProblemKind {
 public:
  const char* name() const override { return "grouped"; }
  const char* formula() const override {
    return "D[M,N] = A[M,K] * B[N,K]^T of groups of rows, each with a B of its own";
  }
  const char* c_function() const override { return "ladder_gemm_grouped"; }

  std::vector<Parameter> parameters() const override {
    std::vector<std::string> groups;
    for (const int each : GROUPS_OF_PROBLEMS) groups.push_back(std::to_string(each));
    return {{"type", {std::begin(TYPE_NAMES), std::end(TYPE_NAMES)}},
            {"groups", groups},
            {"rows", {std::begin(ROWS_OF_PROBLEMS), std::end(ROWS_OF_PROBLEMS)}},
            {"kind", {std::begin(KIND_NAMES), std::end(KIND_NAMES)}}};
  }

  std::string violations(const GridRules& rules, const Call& call) const override {
    return grouped_violations(rules, static_cast<const GroupedArgs&>(call));
  }

  bool needs_kernel(const Call& call) const override {
    const auto& args = static_cast<const GroupedArgs&>(call);
    return call.m > 0 && call.n > 0 && call.k > 0 && args.groups > 0;
  }

  void run_without_kernel(const Call& call) const override {
    const auto& args = static_cast<const GroupedArgs&>(call);
    const bool writes_d = args.groups > 0 && args.m > 0 && args.n > 0;
    if (!writes_d && args.error_flag == nullptr) return;
    zero_groups<<<std::max(1, args.groups), 256, 0, args.stream>>>(args);
    check_cuda(cudaGetLastError(), "launch of zero_groups");
  }

  // As large as a problem's: masked, there is room for the longest group's rows.
  std::shared_ptr<Call> sizes_of(const Shape& shape) const override {
    const auto args = std::make_shared<GroupedArgs>();
    args->type = TYPES[shape.parameters[0]];
    args->groups = GROUPS_OF_PROBLEMS[shape.parameters[1]];
    args->masked = shape.parameters[3];
    args->m = shape.m;
    args->n = shape.n;
    args->k = shape.k;
    if (args->masked != 0) {
      const std::vector<int> rows = sizes_of_problem(shape);
      args->m = (*std::max_element(rows.begin(), rows.end()) + 63) / 64 * 64;
    }
    const bool scaled = args->type == LADDER_E4M3;
    args->lda = args->ldb = scaled ? smallest_ld<e4m3>(shape.k) : smallest_ld<bf16>(shape.k);
    args->ld_scale_a = smallest_ld<float>(static_cast<int>(args->all_rows()));
    args->ld_scale_b = smallest_ld<float>(static_cast<int>(scale_blocks(shape.k)));  // cuBLASLt's
    args->ldd = smallest_ld<bf16>(shape.n);
    return args;
  }

  Traits traits(const Call& call) const override {
    const auto& args = static_cast<const GroupedArgs&>(call);
    return {args.type, args.masked, args.groups};
  }

  std::unique_ptr<Problem> problem(const Shape& shape, Data data, uint64_t seed,
                                   const DeviceInfo& device) const override {
    if (data == Data::index) {
      throw Refused(
          "The data are index, which number the elements of one matrix, and here are many; the "
          "nearest that works is ints.");
    }
    const auto sizes = std::static_pointer_cast<const GroupedArgs>(sizes_of(shape));
    if (sizes->type == LADDER_E4M3) {
      return std::make_unique<GroupedProblem<e4m3>>(shape, data, seed, device, *sizes);
    }
    return std::make_unique<GroupedProblem<bf16>>(shape, data, seed, device, *sizes);
  }
};

}  // namespace

const ProblemKind& GroupedArgs::kind() {
  static const GroupedKind kind;
  return kind;
}

}  // namespace ladder
