// build/serve: the projections of a model, as a server calls them, one weight matrix at several
// batch sizes: bf16, e4m3 and weights of 4 bits through the C API, and cuBLASLt's bf16 and
// block-scaled e4m3 beside them, all in turns. scripts/serve_table.py runs it.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/host/bench.h"
#include "common/host/cublas_lt.h"
#include "common/host/error.h"
#include "common/host/ladder.h"
#include "common/host/stats.h"
#include "common/host/text.h"
#include "common/host/tolerance.h"
#include "common/host/verify.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"

namespace serve {
namespace {

using namespace ladder;

const char USAGE[] =
    "usage: build/serve [--check] <SHAPES\n"
    "  reads lines 'N K M M M ...': weights [N][K], and the batch sizes M to multiply by them\n"
    "  --check    runs the calls of this library and checks them, and times nothing; without a\n"
    "             GPU on the PTX machine\n"
    "One JSON line for the machine, then one for each M, N, K. Exit codes: 0 ok, 1 wrong result,\n"
    "2 usage, 3 no usable device, 4 hang.\n";

constexpr int ROUNDS = 5;
constexpr double GRAPH_MS = 3;      // of launches in a timed graph, at least 3 of them
constexpr double SCREENING_MS = 1;  // the same of cuBLASLt's algorithms, of which the best two stay
constexpr double REST_MS = 15;
constexpr size_t FINALISTS = 2;
constexpr double L2_TURNS = 3;     // operand sets have so many times the bytes of L2
constexpr int SAMPLES = 16;        // rows and columns of D that are checked
constexpr int BLOCK = 128;         // of K, that have a scale
constexpr int MAX_SIZE = 1 << 30;  // that the calls take

struct Size {
  int m, n, k;
};

int blocks(int size) {
  return (size + BLOCK - 1) / BLOCK;
}
int round_up(int size, int multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// --- operands ------------------------------------------------------------------------------------

// One kind of product: what lies in memory once for each set, and how it is multiplied.
struct Operands {
  DeviceBuffer a, scale_a, w, scale_w, d;
};

void check_call(int status, const char* what) {
  if (status != LADDER_OK) throw CudaError(std::string(what) + ": " + ladder_last_error());
}

// [rows][cols] of normal data in bf16.
DeviceBuffer normal(int rows, int cols, uint64_t seed, cudaStream_t stream) {
  DeviceBuffer x(static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(bf16));
  const auto fill = on_machine() ? fill_from_host<bf16> : fill_gpu<bf16>;
  fill(x.as<bf16>(), rows, cols, cols, Data::normal, seed, stream);
  return x;
}

// Rows of A that a batch of `m` has in memory: cuBLASLt's e4m3 wants a multiple of 4.
int rows_in_memory(int m) {
  return round_up(m, 4);
}

enum class Kind { bf16, fp8, int4 };
constexpr Kind KINDS[] = {Kind::bf16, Kind::fp8, Kind::int4};
const char* name_of(Kind kind) {
  return kind == Kind::bf16 ? "bf16" : kind == Kind::fp8 ? "fp8" : "int4";
}

Operands make_operands(Kind kind, const Size& size, uint64_t seed, cudaStream_t stream) {
  const int m = rows_in_memory(size.m), n = size.n, k = size.k;
  Operands made;
  made.a = normal(m, k, seed, stream);
  made.w = normal(n, k, seed + 1, stream);
  made.d = DeviceBuffer(static_cast<size_t>(m) * static_cast<size_t>(n) * sizeof(bf16));
  if (kind == Kind::fp8) {
    const size_t bytes_a = static_cast<size_t>(m) * static_cast<size_t>(k);
    DeviceBuffer a(bytes_a), w(static_cast<size_t>(n) * static_cast<size_t>(k));
    made.scale_a = DeviceBuffer(sizeof(float) * static_cast<size_t>(blocks(k)) * m);
    made.scale_w =
        DeviceBuffer(sizeof(float) * static_cast<size_t>(blocks(n)) * round_up(blocks(k), 4));
    check_call(ladder_quantize(LADDER_E4M3, 1, m, k, made.a.data(), k, a.data(), k,
                               made.scale_a.as<float>(), m, stream),
               "ladder_quantize");
    check_call(ladder_quantize(LADDER_E4M3, BLOCK, n, k, made.w.data(), k, w.data(), k,
                               made.scale_w.as<float>(), round_up(blocks(k), 4), stream),
               "ladder_quantize");
    check_cuda(cudaStreamSynchronize(stream), "ladder_quantize");  // before their source is freed
    made.a = std::move(a);
    made.w = std::move(w);
  }
  check_cuda(cudaStreamSynchronize(stream), "filling the operands");  // copies do not wait for it
  return made;
}

// What int4's weights are before they are packed, kept of one set for its check.
struct Unpacked {
  DeviceBuffer q;
};

void pack(Operands* made, const Size& size, Unpacked* unpacked, cudaStream_t stream) {
  const int n = size.n, k = size.k;
  DeviceBuffer q(static_cast<size_t>(n) * static_cast<size_t>(k) / 2);
  DeviceBuffer packed(ladder_packed_bytes(4, n, k));
  made->scale_w = DeviceBuffer(sizeof(bf16) * static_cast<size_t>(blocks(k)) * n);
  check_call(ladder_quantize_weights(4, n, k, made->w.data(), k, q.data(), k, made->scale_w.data(),
                                     n, stream),
             "ladder_quantize_weights");
  check_call(ladder_pack_weights(4, n, k, q.data(), k, packed.data(), stream),
             "ladder_pack_weights");
  check_cuda(cudaStreamSynchronize(stream), "ladder_pack_weights");
  made->w = std::move(packed);
  unpacked->q = std::move(q);
}

// --- the calls -----------------------------------------------------------------------------------

void call_ladder(Kind kind, const Size& size, const Operands& on, cudaStream_t stream) {
  const int m = size.m, n = size.n, k = size.k;
  if (kind == Kind::bf16) {
    check_call(ladder_gemm_bf16(0, m, n, k, on.a.data(), k, on.w.data(), k, on.d.data(), n, stream),
               "ladder_gemm_bf16");
  } else if (kind == Kind::fp8) {
    check_call(
        ladder_gemm_block_scaled(0, LADDER_E4M3, m, n, k, on.a.data(), k, on.scale_a.as<float>(),
                                 rows_in_memory(m), on.w.data(), k, on.scale_w.as<float>(),
                                 round_up(blocks(k), 4), on.d.data(), n, stream),
        "ladder_gemm_block_scaled");
  } else {
    check_call(ladder_gemm_mixed(0, 4, m, n, k, on.a.data(), k, on.w.data(), on.scale_w.data(), n,
                                 on.d.data(), n, stream),
               "ladder_gemm_mixed");
  }
}

LibraryCall library_call_of(Kind kind, const Size& size, const Operands& on, cudaStream_t stream) {
  LibraryCall call{};
  call.m = kind == Kind::fp8 ? rows_in_memory(size.m) : size.m;
  call.n = size.n;
  call.k = size.k;
  call.type_in = kind == Kind::fp8 ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
  call.type_out = CUDA_R_16BF;
  call.a = on.a.data();
  call.b = on.w.data();
  call.d = on.d.data();
  call.lda = call.ldb = size.k;
  call.ldd = size.n;
  call.stream = stream;
  if (kind == Kind::fp8) {
    call.scales = LibraryScales::blocks;
    call.scale_a = on.scale_a.as<float>();
    call.scale_b = on.scale_w.as<float>();
  }
  return call;
}

// --- checking ------------------------------------------------------------------------------------

template <class T>
std::vector<T> copied(const void* from, size_t count) {
  std::vector<T> to(count);
  check_cuda(cudaMemcpy(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return to;
}

template <class T>
std::vector<double> row_of(const DeviceBuffer& matrix, int row, int cols) {
  std::vector<double> values;
  for (const T& x : copied<T>(matrix.as<T>() + static_cast<size_t>(row) * cols, cols)) {
    values.push_back(static_cast<double>(static_cast<float>(x)));
  }
  return values;
}

// Row of weights of 4 bits, two a byte, the lower half first.
std::vector<double> row_of_int4(const DeviceBuffer& q, int row, int cols) {
  std::vector<double> values;
  const auto* from = q.as<unsigned char>() + static_cast<size_t>(row) * cols / 2;
  for (const unsigned char byte : copied<unsigned char>(from, cols / 2)) {
    values.push_back(((byte & 15) ^ 8) - 8);
    values.push_back(((byte >> 4) ^ 8) - 8);
  }
  return values;
}

// The scale of each block of K of one row: `first`, then every `step`-th.
template <class T>
std::vector<double> scales(const DeviceBuffer& from, size_t first, size_t step, int count) {
  std::vector<T> found(static_cast<size_t>(count));
  check_cuda(cudaMemcpy2D(found.data(), sizeof(T), from.as<T>() + first, step * sizeof(T),
                          sizeof(T), found.size(), cudaMemcpyDeviceToHost),
             "cudaMemcpy2D");
  std::vector<double> values;
  for (const T& x : found) values.push_back(static_cast<double>(static_cast<float>(x)));
  return values;
}

// A row of A or of the weights in double, with what each of its blocks is multiplied by.
struct Row {
  std::vector<double> x, scale;
};

struct Sum {
  double r, s;  // of tolerance()
};

Sum dot(Kind kind, const Row& a, const Row& w) {
  Sum sum{0, 0};
  E4m3Loss loss;
  for (size_t begin = 0; begin < a.x.size(); begin += BLOCK) {
    const double scale = a.scale[begin / BLOCK] * w.scale[begin / BLOCK];
    const size_t end = std::min(begin + BLOCK, a.x.size());
    double block = 0;
    for (size_t k = begin; k < end; k += E4M3_SUM_K) {
      double before = block, largest = 0;
      int signs = 0;
      for (size_t i = k; i < std::min(k + E4M3_SUM_K, end); ++i) {
        const double product = a.x[i] * w.x[i];
        block += product;
        sum.s += std::abs(scale * product);
        largest = std::max(largest, std::abs(product));
        signs += (product > 0) - (product < 0);
      }
      if (kind == Kind::fp8) loss.add(scale, largest, signs, before, block);
    }
    sum.r += scale * block;
  }
  sum.s = s_with_loss(sum.s, loss.bound());
  return sum;
}

// SAMPLES rows and columns of the first set's D, the outermost among them, against sums in double.
class Checker {
 public:
  Checker(Kind kind, const Size& size, const Operands& on, const Unpacked& unpacked)
      : size_(size), on_(on) {
    const int k_blocks = blocks(size.k);
    const std::vector<double> ones(static_cast<size_t>(k_blocks), 1.0);
    std::vector<Row> a, w;
    for (int i = 0; i < SAMPLES; ++i) {
      rows_.push_back(static_cast<int>((size.m - 1LL) * i / (SAMPLES - 1)));
      cols_.push_back(static_cast<int>((size.n - 1LL) * i / (SAMPLES - 1)));
      const int row = rows_.back(), col = cols_.back();
      if (kind == Kind::fp8) {
        const auto ld_a = static_cast<size_t>(rows_in_memory(size.m));
        const auto ld_w = static_cast<size_t>(round_up(k_blocks, 4));
        a.push_back({row_of<__nv_fp8_e4m3>(on.a, row, size.k),
                     scales<float>(on.scale_a, row, ld_a, k_blocks)});
        w.push_back({row_of<__nv_fp8_e4m3>(on.w, col, size.k),
                     scales<float>(on.scale_w, col / BLOCK * ld_w, 1, k_blocks)});
      } else {
        a.push_back({row_of<bf16>(on.a, row, size.k), ones});
        w.push_back(kind == Kind::bf16 ? Row{row_of<bf16>(on.w, col, size.k), ones}
                                       : Row{row_of_int4(unpacked.q, col, size.k),
                                             scales<bf16>(on.scale_w, col, size.n, k_blocks)});
      }
    }
    for (const Row& row : a) {
      for (const Row& col : w) sums_.push_back(dot(kind, row, col));
    }
  }

  // Poisons D, launches and compares; "" or what is wrong.
  std::string failure(const std::function<void()>& launch, cudaStream_t stream) const {
    check_cuda(cudaMemsetAsync(on_.d.data(), 0xff, on_.d.bytes(), stream), "cudaMemsetAsync");
    launch();
    check_cuda(cudaStreamSynchronize(stream), "the product");
    for (int i = 0; i < SAMPLES; ++i) {
      const std::vector<double> d = row_of<bf16>(on_.d, rows_[i], size_.n);
      for (int j = 0; j < SAMPLES; ++j) {
        const Sum& sum = sums_[static_cast<size_t>(i * SAMPLES + j)];
        if (within_tolerance(d[cols_[j]], sum.r, sum.s, 8)) continue;
        return format("D[%d][%d] is %g but should be %g", rows_[i], cols_[j], d[cols_[j]], sum.r);
      }
    }
    return "";
  }

 private:
  Size size_;
  const Operands& on_;
  std::vector<int> rows_, cols_;
  std::vector<Sum> sums_;  // [SAMPLES][SAMPLES]
};

// --- timing --------------------------------------------------------------------------------------

using Launch = std::function<void(size_t set)>;

// Launches on set after set, captured.
class Graph {
 public:
  Graph(const Launch& launch, size_t sets, int launches, cudaStream_t stream)
      : launches_(launches), stream_(stream) {
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
    try {
      for (int i = 0; i < launches; ++i) launch(static_cast<size_t>(i) % sets);
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream, &graph), "end capture");
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "cudaGraphInstantiate");
    check_cuda(cudaEventCreate(&start_), "cudaEventCreate");
    check_cuda(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  ~Graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Microseconds of a launch; `lead_in` replays before are not timed.
  double us(int lead_in) const {
    for (int i = 0; i < lead_in; ++i) check_cuda(cudaGraphLaunch(executable_, stream_), "a graph");
    check_cuda(cudaEventRecord(start_, stream_), "cudaEventRecord");
    check_cuda(cudaGraphLaunch(executable_, stream_), "a graph");
    check_cuda(cudaEventRecord(stop_, stream_), "cudaEventRecord");
    check_cuda(cudaStreamSynchronize(stream_), "a graph");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start_, stop_), "cudaEventElapsedTime");
    return 1e3 * ms / launches_;
  }

 private:
  int launches_;
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

std::unique_ptr<Graph> graph_for(double ms, double launch_us, const Launch& launch, size_t sets,
                                 cudaStream_t stream) {
  const int launches =
      std::max({3, static_cast<int>(std::ceil(1e3 * ms / launch_us)), static_cast<int>(sets)});
  return std::make_unique<Graph>(launch, sets, launches, stream);
}

struct Contestant {
  std::string name, what;  // "bf16", "bf16_cublas"; the kernel or the algorithm
  Launch launch;
  size_t sets;
  std::unique_ptr<Graph> graph;
  std::vector<double> us;  // of each round
};

void time_in_turns(std::vector<Contestant>* all) {
  for (int round = 0; round < ROUNDS; ++round) {
    for (const int i : order_of_round(static_cast<int>(all->size()), round)) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(REST_MS));
      Contestant& one = (*all)[static_cast<size_t>(i)];
      one.us.push_back(one.graph->us(1));
    }
  }
}

// The algorithms of cuBLASLt that were fastest in one look at each.
std::vector<Contestant> best_of_library(CublasLt& cublas, Kind kind, const Size& size,
                                        const std::vector<Operands>& sets, const Checker& checker,
                                        cudaStream_t stream) {
  std::vector<std::pair<double, std::shared_ptr<CublasLt::Algorithm>>> found;
  const auto launcher = [&, kind](const std::shared_ptr<CublasLt::Algorithm>& algorithm) -> Launch {
    return [&cublas, &sets, algorithm, kind, size, stream](size_t set) {
      cublas.run(*algorithm, library_call_of(kind, size, sets[set], stream));
    };
  };
  for (const auto& each : cublas.candidates(library_call_of(kind, size, sets[0], stream))) {
    try {
      const Launch launch = launcher(each);
      if (!checker.failure([&] { launch(0); }, stream).empty()) continue;
      const double first_us = Graph(launch, sets.size(), 3, stream).us(1);
      found.emplace_back(graph_for(SCREENING_MS, first_us, launch, sets.size(), stream)->us(0),
                         each);
    } catch (const CudaError&) {
      cudaGetLastError();  // the heuristics offer what does not always run
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& x, const auto& y) { return x.first < y.first; });
  found.resize(std::min(found.size(), FINALISTS));
  std::vector<Contestant> best;
  for (const auto& [us, algorithm] : found) {
    const Launch launch = launcher(algorithm);
    best.push_back({std::string(name_of(kind)) + "_cublas",
                    CublasLt::describe(*algorithm),
                    launch,
                    sets.size(),
                    graph_for(GRAPH_MS, us, launch, sets.size(), stream),
                    {}});
  }
  return best;
}

// --- one shape -----------------------------------------------------------------------------------

size_t bytes_of(const Operands& set) {
  return set.a.bytes() + set.scale_a.bytes() + set.w.bytes() + set.scale_w.bytes() + set.d.bytes();
}

// Returns whether everything was right.
bool run_shape(const Size& size, const DeviceInfo& device, CublasLt* cublas, cudaStream_t stream) {
  const Watchdog watchdog(format("m = %d, n = %d, k = %d", size.m, size.n, size.k));
  JsonObject line;
  line.add("m", size.m).add("n", size.n).add("k", size.k);
  std::vector<std::vector<Operands>> sets(std::size(KINDS));
  std::vector<Contestant> contestants;
  std::string wrong;
  for (const Kind kind : KINDS) {
    auto& of_kind = sets[static_cast<size_t>(kind)];
    Unpacked unpacked;
    double bytes = 0;
    do {
      of_kind.push_back(make_operands(kind, size, 2 * of_kind.size() + 1, stream));
      Unpacked latest;
      if (kind == Kind::int4) pack(&of_kind.back(), size, &latest, stream);
      if (of_kind.size() == 1) unpacked = std::move(latest);
      bytes += static_cast<double>(bytes_of(of_kind.back()));
    } while (cublas != nullptr && bytes < L2_TURNS * static_cast<double>(device.l2_bytes));

    const Launch launch = [&of_kind, kind, size, stream](size_t set) {
      call_ladder(kind, size, of_kind[set], stream);
    };
    const Checker checker(kind, size, of_kind[0], unpacked);
    const std::string failure = checker.failure([&] { launch(0); }, stream);
    if (!failure.empty()) wrong = std::string(name_of(kind)) + ": " + failure;
    line.add(std::string(name_of(kind)) + "_kernel", ladder_last_kernel());
    if (cublas == nullptr) continue;
    const double first_us = Graph(launch, of_kind.size(), 3, stream).us(1);
    contestants.push_back({name_of(kind),
                           "",
                           launch,
                           of_kind.size(),
                           graph_for(GRAPH_MS, first_us, launch, of_kind.size(), stream),
                           {}});
    if (kind == Kind::int4) continue;
    for (auto& each : best_of_library(*cublas, kind, size, of_kind, checker, stream)) {
      contestants.push_back(std::move(each));
    }
  }
  if (cublas != nullptr && wrong.empty()) {
    time_in_turns(&contestants);
    std::sort(contestants.begin(), contestants.end(), [](const Contestant& x, const Contestant& y) {
      return x.name != y.name ? x.name < y.name : median(x.us) < median(y.us);
    });
    std::string last;
    for (const Contestant& each : contestants) {
      if (each.name == last) continue;  // slower than another algorithm
      last = each.name;
      line.add(each.name + "_us", median(each.us))
          .add(each.name + "_p10", quantile(each.us, 0.1))
          .add(each.name + "_p90", quantile(each.us, 0.9));
      if (!each.what.empty()) line.add(each.name + "_algo", each.what);
    }
  }
  line.add("verified", wrong.empty());
  if (!wrong.empty()) line.add("error", wrong);
  std::printf("%s\n", line.line().c_str());
  std::fflush(stdout);
  return wrong.empty();
}

std::vector<Size> read_sizes(std::istream& input) {
  std::vector<Size> sizes;
  for (std::string text; std::getline(input, text);) {
    std::istringstream words(text);
    Size size{};
    const auto in_range = [](int one, int least) { return one >= least && one <= MAX_SIZE; };
    if (!(words >> size.n >> size.k) || !in_range(size.n, 16) || size.n % 16 != 0 ||
        !in_range(size.k, 128) || size.k % 128 != 0) {
      throw Refused(
          "The line '" + text +
          "' must be N K M M ..., N a multiple of 16 and K of 128, of at most 2^30, such as "
          "4096 7168 1 16.");
    }
    const size_t before = sizes.size();
    while (words >> size.m && in_range(size.m, 1)) sizes.push_back(size);
    if (!words.eof() || sizes.size() == before) {
      throw Refused("The line '" + text + "' must end in batch sizes from 1 to 2^30.");
    }
  }
  return sizes;
}

// What a product of bf16 occupies at the least.
void check_memory(const Size& size) {
  const double m = size.m, n = size.n, k = size.k, needed = 2 * (m * k + n * k + m * n);
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (needed <= static_cast<double>(free)) return;
  const int cube = static_cast<int>(std::sqrt(static_cast<double>(free) / 6)) / 128 * 128;
  throw Refused(format(
      "N %d, K %d and M %d need more than %.1f GiB of device memory but %.1f GiB are free; "
      "the largest cube that fits is less than %d.",
      size.n, size.k, size.m, needed / (1 << 30), static_cast<double>(free) / (1 << 30), cube));
}

int run_shapes(bool check_only) {
  const std::vector<Size> sizes = read_sizes(std::cin);
  if (std::ferror(stdin) != 0) {
    throw Refused("The shapes on standard input cannot be read: is it a folder?");
  }
  if (!check_only && on_machine()) {
    throw NoDevice(
        "build/serve measures, and the PTX machine says nothing about time; --check runs "
        "there.");
  }
  const DeviceInfo& device = query_device();
  for (const Size& size : sizes) check_memory(size);
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  const DeviceBuffer workspace(ladder_workspace_bytes());
  check_call(ladder_set_workspace(workspace.data(), workspace.bytes(), stream), "a workspace");
  std::unique_ptr<CublasLt> cublas;
  if (!check_only) {
    cublas = std::make_unique<CublasLt>();
    const Environment environment = query_environment(device);
    JsonObject head;
    head.add("gpu", environment.gpu)
        .add("driver", environment.driver)
        .add("toolkit", environment.toolkit)
        .add("cublas", environment.cublas);
    std::printf("%s\n", head.line().c_str());
  }
  bool right = true;
  for (const Size& size : sizes) right = run_shape(size, device, cublas.get(), stream) && right;
  return right ? 0 : 1;
}

int run(const std::string& program, const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"--help"}) {
    std::fputs(USAGE, stdout);
    return 0;
  }
  const bool check_only = arguments == std::vector<std::string>{"--check"};
  if (!arguments.empty() && !check_only) {
    throw Refused("'" + join(arguments, " ") +
                  "': build/serve takes --check or --help, and shapes on its input.");
  }
  check_settings();
  choose_device(program, arguments);
  return run_shapes(check_only);
}

}  // namespace
}  // namespace serve

int main(int argc, char** argv) {
  try {
    const int code = serve::run(argv[0], std::vector<std::string>(argv + 1, argv + argc));
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    throw ladder::Refused("What the program prints cannot be written: is the disk full?");
  } catch (const ladder::Refused& refused) {
    std::fprintf(stderr, "%s\n", refused.what());
    return 2;
  } catch (const ladder::NoDevice& none) {
    std::fprintf(stderr, "%s\n", none.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FAIL: %s\n", error.what());
    return 1;
  }
}
