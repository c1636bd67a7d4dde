#include "common/host/ladder.h"

#include <exception>
#include <string>

#include "common/host/error.h"
#include "common/host/run.h"

namespace {

thread_local std::string last_error;

int fail(int code, const char* message) noexcept {
  try {
    last_error = message;
  } catch (const std::exception&) {  // no memory for the sentence: the code still tells
    last_error.clear();
  }
  return code;
}

const ladder::Stage* find_stage(int number) {
  for (const ladder::Stage& stage : ladder::stages()) {
    if (stage.number == number) return &stage;
  }
  return nullptr;
}

const ladder::Stage& stage_for_call(int number) {
  const auto& all = ladder::stages();
  const ladder::Stage* stage = number == 0 && !all.empty() ? &all.back() : find_stage(number);
  if (stage == nullptr) {
    const int last = ladder_stage_count();
    throw ladder::Refused("stage is " + std::to_string(number) +
                          ": it must be from 0, the best, to " + std::to_string(last) +
                          "; the nearest that works is " + std::to_string(number < 0 ? 0 : last) +
                          ".");
  }
  return *stage;
}

}  // namespace

int ladder_stage_count(void) {
  const auto& all = ladder::stages();
  return all.empty() ? 0 : all.back().number;
}

const char* ladder_stage_name(int stage) {
  const ladder::Stage* found = find_stage(stage);
  return found == nullptr ? "" : found->stem.c_str();
}

int ladder_gemm_bf16(int stage, int m, int n, int k, const void* a, long long lda, const void* b,
                     long long ldb, void* d, long long ldd, void* stream) {
  last_error.clear();
  try {
    ladder::GemmArgs args;
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
    ladder::run(stage_for_call(stage).result(), args);
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

const char* ladder_last_error(void) {
  return last_error.c_str();
}
