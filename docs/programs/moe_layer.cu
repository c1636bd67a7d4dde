// The layer of moe_layer.cuh, checked step by step; on a GPU also timed, beside one call for each
// expert: of this library, and of cuBLASLt, for which the host has to know how many rows each has.
//
//   moe_layer [TOKENS [HIDDEN INTERMEDIATE]]    default 512, 1024 and 4096 tokens, 7168, 2048;
//                                               on the PTX machine 20, 256, 128
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "common/host/cublas_lt.h"
#include "common/host/stats.h"
#include "common/host/where.h"
#include "docs/programs/moe_judge.h"

namespace moe {
namespace {

using ladder::format;

// --- a call for each expert ----------------------------------------------------------------------

// An expert's part of a product, whose rows the host knows.
ladder::LibraryCall part_of(const Product& p, const std::vector<int>& offsets, int expert,
                            cudaStream_t stream) {
  const Weights& w = p.weights;
  const int rows = offsets[expert + 1] - offsets[expert];
  const size_t first = offsets[expert], n = w.n, k = w.k;
  ladder::LibraryCall call{};
  call.m = rows;
  call.n = w.n;
  call.k = w.k;
  call.type_in = CUDA_R_8F_E4M3;
  call.type_out = CUDA_R_16BF;
  call.a = p.a.as<e4m3>() + first * k;
  call.b = w.q.as<e4m3>() + expert * n * k;
  call.d = p.d.as<bf16>() + first * n;
  call.lda = call.ldb = w.k;
  call.ldd = w.n;
  call.stream = stream;
  call.scales = ladder::LibraryScales::blocks;
  call.scale_a = p.scale_a.as<float>() + first * (k / BLOCK);
  call.scale_b = w.scale.as<float>() + expert * (n / BLOCK) * w.ld_scale();
  return call;
}

// ladder_gemm_block_scaled() for each expert.
Multiply call_for_each(const std::vector<int>& offsets) {
  return [offsets](const Product& p, cudaStream_t stream) {
    for (int expert = 0; expert < EXPERTS; ++expert) {
      const ladder::LibraryCall c = part_of(p, offsets, expert, stream);
      check_call(ladder_gemm_block_scaled(0, LADDER_E4M3, c.m, c.n, c.k, c.a, c.lda, c.scale_a, c.m,
                                          c.b, c.ldb, c.scale_b, p.weights.ld_scale(), c.d, c.ldd,
                                          stream));
    }
  };
}

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  void record(cudaStream_t stream) const {
    check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  void hold(cudaStream_t stream) const {
    check_cuda(cudaStreamWaitEvent(stream, event_), "cudaStreamWaitEvent");
  }
  double us_since(const Event& start) const {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start.event_, event_), "cudaEventElapsedTime");
    return 1e3 * ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// cuBLASLt for each expert, on one stream or on several that the layer's waits for. Each product
// has the fastest of 24 algorithms, timed when its operands are not in L2.
class Library {
 public:
  Library(const Layer& layer, const std::vector<int>& offsets, int streams)
      : offsets_(offsets), handles_(streams), streams_(streams), joined_(streams) {
    for (cudaStream_t& stream : streams_) {
      check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    for (const Product& product : {gate_up_of(layer), down_of(layer)}) {
      for (int expert = 0; expert < EXPERTS; ++expert) choose(product, expert);
    }
  }
  ~Library() {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  Library(const Library&) = delete;

  Multiply multiply() {
    return [this](const Product& p, cudaStream_t stream) {
      start_.record(stream);
      for (int expert = 0; expert < EXPERTS; ++expert) {
        const size_t i = expert % streams_.size();
        const cudaStream_t on = streams_.size() == 1 ? stream : streams_[i];
        if (on != stream && static_cast<size_t>(expert) == i) start_.hold(on);
        const auto& algorithm = chosen_[&p.weights == first_][expert];
        if (algorithm) handles_[i].run(*algorithm, part_of(p, offsets_, expert, on));
      }
      for (size_t i = 0; streams_.size() > 1 && i < streams_.size(); ++i) {
        joined_[i].record(streams_[i]);
        joined_[i].hold(stream);
      }
    };
  }

 private:
  void choose(const Product& p, int expert) {
    static const DeviceBuffer flushed(size_t{128} << 20);  // twice the L2
    if (first_ == nullptr) first_ = &p.weights;
    const cudaStream_t stream = streams_[0];
    const ladder::LibraryCall call = part_of(p, offsets_, expert, stream);
    double least = 1e30;
    std::string why;
    std::shared_ptr<ladder::CublasLt::Algorithm> best;
    const auto candidates = call.m > 0
                                ? handles_[0].candidates(call)
                                : std::vector<std::shared_ptr<ladder::CublasLt::Algorithm>>();
    for (const auto& each : candidates) {
      for (int time = 0; time < 3; ++time) {
        check_cuda(cudaMemsetAsync(flushed.data(), time, flushed.bytes(), stream), "cudaMemset");
        start_.record(stream);
        try {
          handles_[0].run(*each, call);
        } catch (const ladder::CudaError& error) {
          cudaGetLastError();  // the heuristics offer what does not always run
          why = error.what();
          break;
        }
        stop_.record(stream);
        check_cuda(cudaStreamSynchronize(stream), "cuBLASLt");
        const double us = stop_.us_since(start_);
        if (time > 0 && us < least) {
          least = us;
          best = each;
        }
      }
    }
    if (call.m > 0 && !best) {
      throw ladder::CudaError(
          format("cuBLASLt has no algorithm for %d rows, of %zu that it names: %s", call.m,
                 candidates.size(), why.c_str()));
    }
    chosen_[&p.weights == first_].push_back(best);
  }

  std::vector<int> offsets_;
  std::vector<ladder::CublasLt> handles_;  // one a stream: each has a workspace
  std::vector<cudaStream_t> streams_;
  std::vector<Event> joined_;
  Event start_, stop_;
  const Weights* first_ = nullptr;
  std::vector<std::shared_ptr<ladder::CublasLt::Algorithm>> chosen_[2];  // [is the first][expert]
};

// --- the data ------------------------------------------------------------------------------------

template <class T>
DeviceBuffer on_device(const std::vector<T>& from) {
  DeviceBuffer to(sizeof(T) * from.size());
  check_cuda(cudaMemcpy(to.data(), from.data(), to.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  return to;
}

constexpr uint64_t SEED_X = 1, SEED_GATE_UP = 2, SEED_DOWN = 3, SEED_PICKS = 4;

DeviceBuffer normal(int rows, int cols, uint64_t seed) {
  DeviceBuffer x(sizeof(bf16) * rows * cols);
  const auto fill = ladder::on_machine() ? ladder::fill_from_host<bf16> : ladder::fill_gpu<bf16>;
  fill(x.as<bf16>(), rows, cols, cols, ladder::Data::normal, seed, nullptr);
  return x;
}
// The same element.
double normal_at(uint64_t seed, uint64_t index) {
  return __bfloat162float(__float2bfloat16(ladder::data_value(ladder::Data::normal, seed, index)));
}

// Quantized from normal data that make sums of about 1 of activations of about 1.
Weights make_weights(int n, int k, uint64_t seed) {
  Weights made{n, k, seed, 1, DeviceBuffer(size_t{EXPERTS} * n * k), DeviceBuffer()};
  while (made.spread * made.spread * k > 2) made.spread /= 2;
  std::vector<float> scale(size_t{EXPERTS} * (n / BLOCK) * made.ld_scale());
  made.scale = on_device(scale);
  const DeviceBuffer w = normal(EXPERTS * n, k, seed);
  check_call(ladder_quantize(LADDER_E4M3, BLOCK, EXPERTS * n, k, w.data(), k, made.q.data(), k,
                             made.scale.as<float>(), made.ld_scale(), nullptr));
  scale = on_host<float>(made.scale);
  for (float& s : scale) s *= made.spread;
  made.scale = on_device(scale);
  return made;
}

// Tokens that have picked 8 different experts of 256 at random, of which at least one is here:
// those that are sent to this GPU. Weights of a token's picks are positive and add up to 1.
Input make_input(const Sizes& sizes) {
  Input made{sizes,
             make_weights(2 * sizes.intermediate, sizes.hidden, SEED_GATE_UP),
             make_weights(sizes.hidden, sizes.intermediate, SEED_DOWN),
             normal(sizes.tokens, sizes.hidden, SEED_X),
             DeviceBuffer(),
             DeviceBuffer(),
             {}};
  std::vector<float> weight;
  uint64_t state = SEED_PICKS;
  for (int token = 0; token < sizes.tokens;) {
    std::vector<int> picks;
    while (picks.size() < TOP_K) {
      const int picked = static_cast<int>((state = ladder::hash64(state)) % ALL_EXPERTS);
      if (std::find(picks.begin(), picks.end(), picked) == picks.end()) picks.push_back(picked);
    }
    if (*std::min_element(picks.begin(), picks.end()) >= EXPERTS) continue;
    std::vector<float> parts;
    for (int i = 0; i < TOP_K; ++i) {
      parts.push_back(1.0f + static_cast<float>((state = ladder::hash64(state)) % 1024));
    }
    const float sum = std::accumulate(parts.begin(), parts.end(), 0.0f);
    for (const float part : parts) weight.push_back(part / sum);
    made.picks.insert(made.picks.end(), picks.begin(), picks.end());
    ++token;
  }
  made.expert_of = on_device(made.picks);
  made.weight = on_device(weight);
  return made;
}

// --- the exact result ----------------------------------------------------------------------------

// What a token's experts here add to it, in double precision and with nothing quantized or rounded.
std::vector<double> exact(const Input& in, const std::vector<float>& weight, int token) {
  const size_t hidden = in.sizes.hidden, inner = in.sizes.intermediate;
  std::vector<double> out(hidden), x(hidden), activation(inner);
  for (size_t i = 0; i < hidden; ++i) x[i] = normal_at(SEED_X, token * hidden + i);
  const auto dot = [](const Weights& w, size_t row, const std::vector<double>& v) {
    double sum = 0;
    for (size_t i = 0; i < v.size(); ++i) sum += normal_at(w.seed, row * v.size() + i) * v[i];
    return sum * w.spread;
  };
  for (int pick = token * TOP_K; pick < (token + 1) * TOP_K; ++pick) {
    const size_t expert = in.picks[pick];
    if (expert >= EXPERTS) continue;
    for (size_t i = 0; i < inner; ++i) {
      const double gate = dot(in.gate_up, expert * 2 * inner + i, x);
      activation[i] = silu(gate) * dot(in.gate_up, expert * 2 * inner + inner + i, x);
    }
    for (size_t i = 0; i < hidden; ++i) {
      out[i] += weight[pick] * dot(in.down, expert * hidden + i, activation);
    }
  }
  return out;
}

// The error of some tokens' results, as a share of them.
class Exact {
 public:
  Exact(const Input& in, int tokens) {
    const auto weight = on_host<float>(in.weight);
    for (int token = 0; token < tokens; ++token) right_.push_back(exact(in, weight, token));
  }
  double error(const Layer& layer) const {
    const auto out = on_host<bf16>(layer.out);
    double wrong = 0, all = 0;
    for (size_t token = 0; token < right_.size(); ++token) {
      for (size_t i = 0; i < right_[token].size(); ++i) {
        const double r = right_[token][i];
        const double by = __bfloat162float(out[token * right_[token].size() + i]) - r;
        wrong += by * by;
        all += r * r;
      }
    }
    return std::sqrt(wrong / all);
  }

 private:
  std::vector<std::vector<double>> right_;
};

// --- timing --------------------------------------------------------------------------------------

struct Contestant {
  const char* name;
  const Layer& layer;
  Multiply multiply;
  cudaGraphExec_t graph = nullptr;
  std::vector<double> us = {};
};

constexpr int ROUNDS = 15, LAYERS = 5;  // in a graph
constexpr double REST_MS = 20;

cudaGraphExec_t capture(const Contestant& c, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  for (int i = 0; i < LAYERS; ++i) run(c.layer, c.multiply, stream);
  check_cuda(cudaStreamEndCapture(stream, &graph), "end capture");
  check_cuda(cudaGraphInstantiate(&made, graph, 0), "cudaGraphInstantiate");
  check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return made;
}

// In turns, each after a rest and an untimed replay.
void time_in_turns(std::vector<Contestant>* all, cudaStream_t stream) {
  const Event start, stop;
  for (Contestant& each : *all) each.graph = capture(each, stream);
  for (int round = 0; round < ROUNDS; ++round) {
    for (const int i : ladder::order_of_round(static_cast<int>(all->size()), round)) {
      Contestant& one = (*all)[i];
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(REST_MS));
      check_cuda(cudaGraphLaunch(one.graph, stream), "cudaGraphLaunch");
      start.record(stream);
      check_cuda(cudaGraphLaunch(one.graph, stream), "cudaGraphLaunch");
      stop.record(stream);
      check_cuda(cudaStreamSynchronize(stream), one.name);
      one.us.push_back(stop.us_since(start) / LAYERS);
    }
  }
  for (Contestant& each : *all) cudaGraphExecDestroy(each.graph);
}

__global__ void keep_busy(long long ns) {
  long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

// When each step began, and the last ended, in microseconds; the median of several runs. The stream
// is kept busy until everything is queued, so that the host's pace does not show.
std::string trace(const Contestant& c, cudaStream_t stream) {
  constexpr int RUNS = 21;
  std::vector<Event> marks(STEPS + 1);
  std::vector<std::vector<double>> us(STEPS + 1);
  for (int i = 0; i < RUNS; ++i) {
    keep_busy<<<1, 1, 0, stream>>>(2'000'000);
    run(c.layer, c.multiply, stream, [&](int step) { marks[step].record(stream); });
    check_cuda(cudaStreamSynchronize(stream), c.name);
    for (int step = 0; step <= STEPS; ++step) us[step].push_back(marks[step].us_since(marks[0]));
  }
  std::string text;
  for (const auto& each : us) text += format("%.2f ", ladder::median(each));
  text.pop_back();
  return text;
}

// --- the program ---------------------------------------------------------------------------------

// Returns whether everything was right.
bool run_layer(const Sizes& sizes) {
  const bool machine = ladder::on_machine();
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  const Input in = make_input(sizes);
  const Layer together(in, false), apart(in, true);
  const std::vector<int> offsets = place_on_host(in, CALL_ROWS, apart.capacity).offsets;
  check_cuda(cudaDeviceSynchronize(), "the input");

  std::unique_ptr<Library> one_stream, eight_streams;
  std::vector<Contestant> all = {{"grouped", together, grouped(together)},
                                 {"calls", apart, call_for_each(offsets)}};
  if (!machine) {
    run(apart, all[1].multiply, stream);  // operands to choose cuBLASLt's algorithms by
    check_cuda(cudaStreamSynchronize(stream), "a layer");
    one_stream = std::make_unique<Library>(apart, offsets, 1);
    eight_streams = std::make_unique<Library>(apart, offsets, 8);
    all.push_back({"cublas", apart, one_stream->multiply()});
    all.push_back({"cublas_8", apart, eight_streams->multiply()});
  }

  const int rows = place_on_host(in, 1, together.capacity).rows;
  ladder::JsonObject line;
  line.add("tokens", sizes.tokens)
      .add("hidden", sizes.hidden)
      .add("intermediate", sizes.intermediate);
  line.add("rows", rows);
  const Exact exact(in, machine ? sizes.tokens : std::min(sizes.tokens, 3));
  bool right = true;
  const auto run_once = [stream](const Contestant& each) {
    for (const DeviceBuffer* buffer : {&each.layer.out, &each.layer.y, &each.layer.h}) {
      check_cuda(cudaMemset(buffer->data(), 0xff, buffer->bytes()), "cudaMemset");
    }
    check_cuda(cudaDeviceSynchronize(), "cudaMemset");
    run(each.layer, each.multiply, stream);
    check_cuda(cudaStreamSynchronize(stream), each.name);
  };
  for (const Contestant& each : all) {
    const Layer& layer = each.layer;
    run_once(each);
    const std::string wrong = Judge(layer, !machine).failure();
    std::printf("%-9s %d tokens, %d rows: %s, error %.2f %%\n", each.name, sizes.tokens, rows,
                wrong.empty() ? "every step is right" : wrong.c_str(), 100 * exact.error(layer));
    right = right && wrong.empty();
    line.add(std::string(each.name) + "_error", exact.error(layer));
  }
  const Layer tight(in, false, (rows - 1) / 4 * 4);  // the last expert with rows does not fit
  run_once({"tight", tight, grouped(tight)});
  const std::string wrong = Judge(tight, !machine).failure();
  std::printf("too little memory: %s\n",
              wrong.empty() ? "the others' results are right" : wrong.c_str());
  right = right && wrong.empty();
  if (!machine && right) {
    time_in_turns(&all, stream);
    for (const Contestant& each : all) {
      const std::string name = each.name;
      line.add(name + "_us", ladder::median(each.us))
          .add(name + "_p10", ladder::quantile(each.us, 0.1));
      line.add(name + "_p90", ladder::quantile(each.us, 0.9))
          .add(name + "_trace", trace(each, stream));
    }
    std::printf("%s\n", line.line().c_str());
    std::fflush(stdout);
  }
  return right;
}

// -1 if the text is no number from 0 to 2^30.
int number(const char* text) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end == text || *end != 0 || value < 0 || value > 1 << 30 ? -1 : static_cast<int>(value);
}

int main_of(int argc, char** argv) {
  const ladder::DeviceInfo& device = ladder::query_device();
  const bool machine = ladder::on_machine();
  std::vector<int> tokens = machine ? std::vector<int>{20} : std::vector<int>{512, 1024, 4096};
  Sizes sizes = machine ? Sizes{0, 256, 128} : Sizes{0, 7168, 2048};
  if (argc > 1) tokens = {number(argv[1])};
  if (argc > 3) sizes = {0, number(argv[2]), number(argv[3])};
  if (argc == 3 || argc > 4 || tokens[0] < 1 || sizes.hidden < BLOCK || sizes.hidden % BLOCK != 0 ||
      sizes.intermediate < BLOCK || sizes.intermediate % BLOCK != 0) {
    std::fprintf(stderr,
                 "usage: moe_layer [TOKENS [HIDDEN INTERMEDIATE]], the last two multiples of 128, "
                 "such as 512 7168 2048\n");
    return 2;
  }
  if (!machine) {
    ladder::JsonObject head;
    head.add("gpu", device.name).add("cublas", ladder::CublasLt::version());
    std::printf("%s\n", head.line().c_str());
  }
  bool right = true;
  for (const int count : tokens) {
    sizes.tokens = count;
    right = run_layer(sizes) && right;
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace moe

int main(int argc, char** argv) {
  try {
    return moe::main_of(argc, argv);
  } catch (const ladder::NoDevice& none) {
    std::fprintf(stderr, "%s\n", none.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FAIL: %s\n", error.what());
    return 1;
  }
}
