#include "common/host/ladder.h"

#include <atomic>
#include <exception>
#include <string>

#include "common/host/error.h"
#include "common/host/run.h"

namespace {

using ladder::GemmArgs;
using ladder::Stage;
using ladder::Variant;

thread_local std::string last_error, last_kernel;
std::atomic<int> sm_limit{0};

int fail(int code, const char* message) noexcept {
  try {
    last_error = message;
  } catch (const std::exception&) {  // no memory for the sentence: the code still tells
    last_error.clear();
  }
  return code;
}

// Runs `body`; its exceptions become a return code and the last error.
template <class Body>
int guarded(const Body& body) noexcept {
  last_error.clear();
  try {
    body();
    return LADDER_OK;
  } catch (const ladder::Refused& error) {
    return fail(LADDER_REFUSED, error.what());
  } catch (const ladder::NoDevice& error) {
    return fail(LADDER_NO_DEVICE, error.what());
  } catch (const std::exception& error) {
    return fail(LADDER_CUDA_ERROR, error.what());
  } catch (...) {
    return fail(LADDER_CUDA_ERROR, "an unknown failure");
  }
}

const Stage* find_stage(int number) {
  for (const Stage& stage : ladder::stages()) {
    if (stage.number == number) return &stage;
  }
  return nullptr;
}

// The rung that a call names, which must solve the call's kind of problem.
template <class Args>
const Stage& stage_for_call(int number) {
  const Stage* stage = find_stage(number);
  if (stage == nullptr) {
    const int last = ladder_stage_count();
    throw ladder::Refused("stage is " + std::to_string(number) +
                          ": it must be from 0, the best, to " + std::to_string(last) +
                          "; the nearest that works is " + std::to_string(number < 0 ? 0 : last) +
                          ".");
  }
  if (&stage->kind() != &Args::kind()) {
    throw ladder::Refused("stage is " + std::to_string(number) + ": " + stage->stem + " computes " +
                          stage->kind().formula() + ", and this function " +
                          Args::kind().formula() + "; stage 0 is the best rung that does.");
  }
  return *stage;
}

// What runs a call, and the rung it belongs to.
struct Pick {
  const Stage* stage;
  const Variant* variant;
};

// Of all kernels for this kind of problem that have a prediction, the one with the least.
template <class Args>
Pick best_for_call(const Args& args) {
  Pick best{nullptr, nullptr};
  double best_us = 0;
  for (const Stage& stage : ladder::stages()) {
    if (&stage.kind() != &Args::kind()) continue;
    const Variant* variant = ladder::least_predicted(stage.variants, args);
    if (variant == nullptr) continue;
    const double us = variant->predicted_us(args);
    if (best.variant != nullptr && us >= best_us) continue;
    best = {&stage, variant};
    best_us = us;
  }
  if (best.variant == nullptr) {
    throw ladder::Refused("stage is 0, but no rung here predicts a time; name a rung.");
  }
  return best;
}

// Why a rung cannot keep the limit that ladder_set_sm_limit() has set; "" if it can.
std::string limit_violation(const Stage& stage, int limit) {
  const ladder::GridRules rules = stage.result().rules();
  if (limit == 0 || (rules.persistent && rules.cluster <= limit)) return "";
  return "The limit of SMs is " + std::to_string(limit) + ": " + stage.stem +
         (rules.persistent ? " launches clusters of " + std::to_string(rules.cluster) +
                                 " CTAs, one an SM; the nearest that works is " +
                                 std::to_string(rules.cluster) + "."
                           : " launches a CTA for every tile and takes no limit; stage 0 does, or "
                             "ladder_set_sm_limit(0).");
}

// The call on rung `number`, or, for 0, on the best.
template <class Args>
void run_stage(int number, Args args) {
  const Stage* const stage = number == 0 ? nullptr : &stage_for_call<Args>(number);
  const int limit = sm_limit;
  // A wrong call is refused before a model judges it, by what every kernel asks if none is named.
  const ladder::GridRules any{"the library", 1 << 20, true, 1};
  std::string wrong = Args::kind().violations(stage ? stage->result().rules() : any, args);
  const std::string limited = stage == nullptr ? "" : limit_violation(*stage, limit);
  if (!wrong.empty() && !limited.empty()) wrong += '\n';
  wrong += limited;
  if (!wrong.empty()) throw ladder::Refused(wrong);
  const ladder::DeviceInfo& device = ladder::query_device();
  args.max_ctas = limit < device.sm_count ? limit : 0;
  if (!Args::kind().needs_kernel(args)) return Args::kind().run_without_kernel(args);
  const Pick pick = stage == nullptr ? best_for_call(args) : Pick{stage, &stage->result()};
  const Variant* const ran = ladder::run(*pick.variant, args);
  last_kernel = pick.stage->stem + "/" + ran->name;
}

}  // namespace

int ladder_stage_count(void) {
  const auto& all = ladder::stages();
  return all.empty() ? 0 : all.back().number;
}

const char* ladder_stage_name(int stage) {
  const Stage* found = find_stage(stage);
  return found == nullptr ? "" : found->stem.c_str();
}

int ladder_gemm_bf16(int stage, int m, int n, int k, const void* a, long long lda, const void* b,
                     long long ldb, void* d, long long ldd, void* stream) {
  last_kernel.clear();
  return guarded([&] {
    GemmArgs args;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a = static_cast<const ladder::bf16*>(a);
    args.lda = lda;
    args.b = static_cast<const ladder::bf16*>(b);
    args.ldb = ldb;
    args.d = static_cast<ladder::bf16*>(d);
    args.ldd = ldd;
    args.stream = static_cast<cudaStream_t>(stream);
    run_stage(stage, args);
  });
}

int ladder_set_sm_limit(int sms) {
  return guarded([sms] {
    if (sms < 0) {
      throw ladder::Refused(
          "sms is " + std::to_string(sms) +
          ": a limit must not be negative; the nearest that works is 0, all SMs.");
    }
    sm_limit = sms;
  });
}

const char* ladder_last_kernel(void) {
  return last_kernel.c_str();
}

const char* ladder_last_error(void) {
  return last_error.c_str();
}
