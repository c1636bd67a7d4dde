#include "common/host/ladder.h"

#include <atomic>
#include <exception>
#include <string>

#include "common/host/best.h"
#include "common/host/block_scaled.h"
#include "common/host/error.h"
#include "common/host/fused.h"
#include "common/host/grouped.h"
#include "common/host/mixed.h"
#include "common/host/mixed_rules.h"
#include "common/host/quantize.h"
#include "common/host/run.h"
#include "common/host/typed.h"
#include "common/host/workspace.h"
#include "common/tile/packed_weights.h"

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

// What stands for all rungs of a kind: what chooses among those that predict a time, or, if none
// does, the last of them.
const Stage* best_of_kind(const ladder::ProblemKind& kind) {
  const Stage* best = ladder::best_stage(kind);
  if (best != nullptr) return best;
  for (const Stage& stage : ladder::stages()) {
    if (&stage.kind() == &kind) best = &stage;
  }
  return best;
}

// The rung that a call names, which must solve the call's kind of problem; of 0, what stands for all
// of them.
template <class Args>
const Stage& stage_for_call(int number) {
  const Stage* stage = number == 0 ? best_of_kind(Args::kind()) : find_stage(number);
  if (stage == nullptr && number == 0) {
    throw ladder::Refused("stage is 0, but no rung here computes " +
                          std::string(Args::kind().formula()) + ".");
  }
  if (stage == nullptr) {
    const int last = ladder_stage_count();
    int nearest = number < 0 ? 0 : last;  // of those that compute this
    const auto computes_this = [](const Stage* each) {
      return each != nullptr && &each->kind() == &Args::kind();
    };
    while (nearest > 0 && !computes_this(find_stage(nearest))) --nearest;
    throw ladder::Refused("stage is " + std::to_string(number) +
                          ": it must be from 0, the best, to " + std::to_string(last) +
                          "; the nearest that works is " + std::to_string(nearest) + ".");
  }
  if (&stage->kind() != &Args::kind()) {
    const char* const function = stage->kind().c_function();
    throw ladder::Refused(
        "stage is " + std::to_string(number) + ": " + stage->stem + " computes " +
        stage->kind().formula() + ", and this function " + Args::kind().formula() +
        "; stage 0 is the best rung that does" +
        (function[0] == 0 ? "."
                          : std::string(", ") + function + "() is for what the rung computes."));
  }
  return *stage;
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
  const Stage& stage = stage_for_call<Args>(number);
  const int limit = sm_limit;
  const ladder::Workspace workspace = ladder::workspace_of(args.stream);
  args.workspace = workspace.data;
  args.workspace_bytes = workspace.bytes;
  // A wrong call is refused before a model judges it.
  std::string wrong = ladder::argument_violations(stage.result(), args);
  const bool launches = Args::kind().needs_kernel(args);
  const std::string limited = launches ? limit_violation(stage, limit) : "";
  if (!wrong.empty() && !limited.empty()) wrong += '\n';
  wrong += limited;
  if (!wrong.empty()) throw ladder::Refused(wrong);
  args.max_ctas = launches && limit < ladder::query_device().sm_count ? limit : 0;
  args.leaves_sms = args.max_ctas > 0;
  const Variant* const ran = ladder::run(stage.result(), args);
  if (ran == nullptr) return;  // a call that needs no kernel
  const Stage& rung = stage.number == 0 ? ladder::rung_of(*ran) : stage;
  last_kernel.append(rung.stem).append("/").append(ran->name);
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

int ladder_gemm_typed(int stage, int type, int type_d, int mn_major_a, int mn_major_b, int m, int n,
                      int k, const void* a, long long lda, const void* b, long long ldb, void* d,
                      long long ldd, void* stream) {
  last_kernel.clear();
  return guarded([&] {
    ladder::TypedArgs args;
    args.type = type;
    args.type_d = type_d;
    args.mn_major_a = mn_major_a;
    args.mn_major_b = mn_major_b;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a = a;
    args.lda = lda;
    args.b = b;
    args.ldb = ldb;
    args.d = d;
    args.ldd = ldd;
    args.stream = static_cast<cudaStream_t>(stream);
    run_stage(stage, args);
  });
}

int ladder_gemm_block_scaled(int stage, int type, int m, int n, int k, const void* a, long long lda,
                             const float* scale_a, long long ld_scale_a, const void* b,
                             long long ldb, const float* scale_b, long long ld_scale_b, void* d,
                             long long ldd, void* stream) {
  last_kernel.clear();
  return guarded([&] {
    ladder::BlockScaledArgs args;
    args.type = type;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a = a;
    args.lda = lda;
    args.scale_a = scale_a;
    args.ld_scale_a = ld_scale_a;
    args.b = b;
    args.ldb = ldb;
    args.scale_b = scale_b;
    args.ld_scale_b = ld_scale_b;
    args.d = static_cast<ladder::bf16*>(d);
    args.ldd = ldd;
    args.stream = static_cast<cudaStream_t>(stream);
    run_stage(stage, args);
  });
}

size_t ladder_packed_bytes(int bits, int n, int k) {
  size_t bytes = 0;
  guarded([&] {
    const std::string wrong = ladder::packed_size_violations(bits, n, k);
    if (!wrong.empty()) throw ladder::Refused(wrong);
    bytes = tile::packed_bytes(bits, n, k);
  });
  return bytes;
}

int ladder_quantize_weights(int bits, int n, int k, const void* w, long long ldw, void* q,
                            long long ldq, void* scale, long long ld_scale, void* stream) {
  return guarded([&] {
    ladder::WeightsArgs args;
    args.bits = bits;
    args.n = n;
    args.k = k;
    args.w = static_cast<const ladder::bf16*>(w);
    args.ldw = ldw;
    args.q = q;
    args.ldq = ldq;
    args.scale = static_cast<ladder::bf16*>(scale);
    args.ld_scale = ld_scale;
    args.stream = static_cast<cudaStream_t>(stream);
    const std::string wrong = ladder::quantize_violations(args);
    if (!wrong.empty()) throw ladder::Refused(wrong);
    ladder::query_device();  // throws where there is none
    ladder::quantize_weights(args);
  });
}

int ladder_pack_weights(int bits, int n, int k, const void* q, long long ldq, void* packed,
                        void* stream) {
  return guarded([&] {
    ladder::WeightsArgs args;
    args.bits = bits;
    args.n = n;
    args.k = k;
    args.q = const_cast<void*>(q);  // only read
    args.ldq = ldq;
    args.packed = packed;
    args.stream = static_cast<cudaStream_t>(stream);
    const std::string wrong = ladder::pack_violations(args);
    if (!wrong.empty()) throw ladder::Refused(wrong);
    ladder::query_device();
    ladder::pack_weights(args);
  });
}

int ladder_gemm_mixed(int stage, int bits, int m, int n, int k, const void* a, long long lda,
                      const void* packed, const void* scale, long long ld_scale, void* d,
                      long long ldd, void* stream) {
  last_kernel.clear();
  return guarded([&] {
    ladder::MixedArgs args;
    args.bits = bits;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a = static_cast<const ladder::bf16*>(a);
    args.lda = lda;
    args.packed = packed;
    args.scale = static_cast<const ladder::bf16*>(scale);
    args.ld_scale = ld_scale;
    args.d = static_cast<ladder::bf16*>(d);
    args.ldd = ldd;
    args.stream = static_cast<cudaStream_t>(stream);
    run_stage(stage, args);
  });
}

int ladder_gemm_grouped(int stage, int type, int masked, int groups, int m, int n, int k,
                        const void* a, long long lda, const float* scale_a, long long ld_scale_a,
                        const void* b, long long ldb, const float* scale_b, long long ld_scale_b,
                        void* d, long long ldd, const int* offsets_or_rows, int* error_flag,
                        void* stream) {
  last_kernel.clear();
  return guarded([&] {
    ladder::GroupedArgs args;
    args.type = type;
    args.masked = masked;
    args.groups = groups;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a = a;
    args.lda = lda;
    args.scale_a = scale_a;
    args.ld_scale_a = ld_scale_a;
    args.b = b;
    args.ldb = ldb;
    args.scale_b = scale_b;
    args.ld_scale_b = ld_scale_b;
    args.d = static_cast<ladder::bf16*>(d);
    args.ldd = ldd;
    args.sizes = offsets_or_rows;
    args.error_flag = error_flag;
    args.stream = static_cast<cudaStream_t>(stream);
    run_stage(stage, args);
  });
}

int ladder_gemm_fused(int stage, int activation, int type_d, int m, int n, int k, float alpha,
                      const void* a, long long lda, const void* b, long long ldb, float beta,
                      const void* c, long long ldc, const void* bias, void* d, long long ldd,
                      void* stream) {
  last_kernel.clear();
  return guarded([&] {
    ladder::FusedArgs args;
    args.activation = activation;
    args.type_d = type_d;
    args.m = m;
    args.n = n;
    args.k = k;
    args.alpha = alpha;
    args.a = static_cast<const ladder::bf16*>(a);
    args.lda = lda;
    args.b = static_cast<const ladder::bf16*>(b);
    args.ldb = ldb;
    args.beta = beta;
    args.c = c;
    args.ldc = ldc;
    args.bias = bias;
    args.d = d;
    args.ldd = ldd;
    args.stream = static_cast<cudaStream_t>(stream);
    run_stage(stage, args);
  });
}

int ladder_quantize(int type, int block_rows, int rows, int cols, const void* x, long long ldx,
                    void* q, long long ldq, float* scale, long long ld_scale, void* stream) {
  return guarded([&] {
    ladder::quantize({type, block_rows, rows, cols, static_cast<const ladder::bf16*>(x), ldx, q,
                      ldq, scale, ld_scale, static_cast<cudaStream_t>(stream)});
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

size_t ladder_workspace_bytes(void) {
  size_t bytes = 0;
  guarded([&bytes] { bytes = ladder::workspace_bytes(ladder::query_device().sm_count); });
  return bytes;
}

int ladder_set_workspace(void* p, size_t bytes, void* stream) {
  return guarded([&] { ladder::set_workspace(p, bytes, static_cast<cudaStream_t>(stream)); });
}

const char* ladder_last_kernel(void) {
  return last_kernel.c_str();
}

const char* ladder_last_error(void) {
  return last_error.c_str();
}
