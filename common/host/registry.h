// The registry: every file in stages/ registers itself, and nothing else names a rung.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/host/problem.h"

namespace ladder {

// A function of a call, in which the type of the call's arguments is forgotten but for its kind.
template <class Result>
class CallFunction {
 public:
  CallFunction() = default;
  template <class Args>
  CallFunction(Result (*function)(const Args&))  // NOLINT: a stage file writes just the function
      : id_(reinterpret_cast<Id>(function)), invoke_(&invoke<Args>), kind_(&Args::kind) {}

  // For calls of any kind, of which `kind` is this one's.
  CallFunction(Result (*function)(const ProblemKind&, const Call&), const ProblemKind& (*kind)())
      : id_(reinterpret_cast<Id>(function)), invoke_(&invoke_any), kind_(kind) {}

  // `call` is of kind().
  Result operator()(const Call& call) const { return invoke_(*this, call); }
  explicit operator bool() const { return id_ != nullptr; }
  const ProblemKind& kind() const { return kind_(); }
  const ProblemKind& (*kind_function() const)() { return kind_; }

  using Id = void (*)();
  Id id() const { return id_; }  // of the function

 private:
  template <class Args>
  static Result invoke(const CallFunction& self, const Call& call) {
    return reinterpret_cast<Result (*)(const Args&)>(self.id_)(static_cast<const Args&>(call));
  }
  static Result invoke_any(const CallFunction& self, const Call& call) {
    return reinterpret_cast<Result (*)(const ProblemKind&, const Call&)>(self.id_)(self.kind(),
                                                                                   call);
  }
  Id id_ = nullptr;
  Result (*invoke_)(const CallFunction&, const Call&) = nullptr;
  const ProblemKind& (*kind_)() = nullptr;
};

// One instantiation of a __global__ function. What is not 0 by default comes last: nvcc 13.0 with
// clang as host compiler makes a member that is left out between two designators 0.
struct Kernel {
  CallFunction<void> launch = {};    // asynchronous on the call's stream; throws CudaError
  const void* function = nullptr;    // the __global__ function, for cudaFuncGetAttributes
  int bm = 0, bn = 0, bk = 0;        // tile of one CTA, elements
  int depth = 0;                     // slots in the ring of shared-memory buffers; 1: no ring
  int threads = 0;                   // per CTA
  int smem_bytes = 0;                // dynamic shared memory per CTA
  int regs_dec = 0, regs_inc = 0;    // setmaxnreg of producer and consumers; 0: not used
  int workspace_bytes = 0;           // scratch for each SM; 0: no workspace
  bool persistent = false;           // honours Call::max_ctas
  bool grid_y = true;                // unless persistent, N runs on it
  bool simt = false;                 // multiplies without tensor cores: small shapes by default
  int cluster_m = 1, cluster_n = 1;  // CTAs per cluster along M and along N
};

// The facts of a kernel that its tile T names, as rungs from 9 on have it.
template <class T, class Args, class... Parameters>
Kernel kernel_of(void (*launch)(const Args&), void (*function)(Parameters...), int smem_bytes) {
  return {.launch = launch,
          .function = reinterpret_cast<const void*>(function),
          .bm = T::BM,
          .bn = T::BN,
          .bk = T::BK,
          .depth = T::DEPTH,
          .threads = T::THREADS,
          .smem_bytes = smem_bytes,
          .regs_dec = T::PRODUCER_REGS,
          .regs_inc = T::CONSUMER_REGS,
          .grid_y = false};
}

// Of a persistent one, in clusters along M and N. Rows of a tile on its side are columns of D.
template <class T, class Args, class... Parameters>
Kernel persistent_kernel(void (*launch)(const Args&), void (*function)(Parameters...),
                         int smem_bytes) {
  Kernel kernel = kernel_of<T>(launch, function, smem_bytes);
  kernel.persistent = true;
  kernel.cluster_m = T::CLUSTER_M;
  kernel.cluster_n = T::CLUSTER_N;
  if constexpr (requires { T::SIDEWAYS; }) {
    if (T::SIDEWAYS) std::swap(kernel.bm, kernel.bn);
  }
  return kernel;
}

// Of one whose tile T is one of D^T, its rows columns of D, and whose clusters share rows or columns
// or split K: as rungs 12 and 15 have it. Persistent, until told otherwise.
template <class T, class Args, class... Parameters>
Kernel transposed_kernel(void (*launch)(const Args&), void (*function)(Parameters...),
                         int smem_bytes) {
  Kernel kernel = kernel_of<T>(launch, function, smem_bytes);
  std::swap(kernel.bm, kernel.bn);
  kernel.persistent = true;
  kernel.cluster_m = T::CLUSTER_N;
  kernel.cluster_n = T::CLUSTER_M * T::SPLIT;
  return kernel;
}

struct Variant;

// Stands for several kernels: says which of them runs a call, in which no size is 0.
struct Chooser {
  // May ask for the device, and look at what ProblemKind::traits() allows: chosen() asks once for
  // calls that are alike in that. What it returns has a kernel and lives as long as the program.
  CallFunction<const Variant&> choose = {};
  GridRules rules = {};     // that hold for all of them
  int workspace_bytes = 0;  // the most that one of them needs, as in Kernel
};

// What a rung offers to run: one kernel, or a chooser. All strings live as long as the program.
struct Variant {
  const char* name;            // unique within its rung, no spaces: "depth3"
  const char* what;            // the knob in a few words: "ring of 3 slots"
  Kernel kernel = {};          // empty in a chooser
  Chooser chooser = {};        // empty in a kernel
  bool result = false;         // the variant that stands for the rung; exactly one a rung
  bool configuration = false;  // one of many that `make sweep` compares
  CallFunction<double> predicted_us = {};  // what a cost model expects; empty: there is none
  CallFunction<bool> takes =
      {};  // for a part of its kind's calls, whatever their sizes; empty: for all
  // Of a call that it takes, if it takes none without: "scales=tensor".
  const char* args = "";

  bool chooses() const { return static_cast<bool>(chooser.choose); }
  GridRules rules() const;
  const ProblemKind& kind() const;

  Variant as_result() const {
    Variant copy = *this;
    copy.result = true;
    return copy;
  }
};

// The variant whose kernel runs this call: `variant` itself, or what it chooses.
const Variant& chosen(const Variant& variant, const Call& call);

// Of the variants that have predicted_us and take this call, the one with the least that it can use: a grid that
// is limited excludes those that take no limit or whose clusters are larger than it, and a call that
// has no workspace those that need one. Null if none is left.
const Variant* least_predicted(const std::vector<Variant>& variants, const Call& call);

// The same as if the call had a workspace, or had none.
const Variant* least_predicted(const std::vector<Variant>& variants, const Call& call,
                               bool workspace);

// The first that takes the call; null if none does.
const Variant* first_that_takes(const std::vector<Variant>& variants, const Call& call);

// A chooser among configurations, of which one is usable in every call.
Variant chooser_among(const char* name, const char* what,
                      const std::vector<Variant>& configurations,
                      CallFunction<const Variant&> choose);

struct Stage {
  int number;        // 1-based, from the stem
  std::string stem;  // "05_wgmma"
  const char* idea;  // one line
  std::vector<Variant> variants;
  const Variant& result() const;  // the variant marked `result`
  const ProblemKind& kind() const { return variants.front().kind(); }
};

// Every linked rung, by number.
const std::vector<Stage>& stages();

// The rung that registered this very variant.
const Stage& rung_of(const Variant& variant);

// Bytes of a workspace that suits every linked rung on a device of so many SMs, counters included; 0
// if none needs a workspace.
size_t workspace_bytes(int sms);

// Static objects of this type put a rung into the registry. `file` is the stage file's __FILE__;
// its name without directory and extension is the rung's stem, the digits before '_' its number.
// All variants are of one kind.
struct Registrar {
  Registrar(const char* file, const char* idea, std::vector<Variant> variants);
};

}  // namespace ladder
