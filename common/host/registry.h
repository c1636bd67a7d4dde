// The registry: every file in stages/ registers itself, and nothing else names a rung.
#pragma once

#include <string>
#include <vector>

#include "common/host/gemm.h"

namespace ladder {

// One kernel instantiation of a rung. All strings are literals of the stage file.
struct Variant {
  const char* name;                  // unique within its rung, no spaces: "depth3"
  const char* what;                  // the knob in a few words: "ring of 3 slots"
  void (*launch)(const GemmArgs&);   // asynchronous on args.stream; throws CudaError
  const void* kernel;                // the __global__ function, for cudaFuncGetAttributes
  int bm, bn, bk;                    // tile of one CTA, elements
  int depth;                         // slots in the ring of shared-memory buffers; 1: no ring
  int threads;                       // per CTA
  int smem_bytes;                    // dynamic shared memory per CTA
  int cluster_m = 1, cluster_n = 1;  // CTAs per cluster along M and along N
  bool persistent = false;           // honours GemmArgs::max_ctas
  int regs_dec = 0, regs_inc = 0;    // setmaxnreg of producer and consumers; 0: not used
  bool result = false;               // the variant that stands for the rung; exactly one a rung
  bool configuration = false;        // one of many that `make sweep` compares

  // Of a variant that stands for others, a chooser: which of them runs this call, in which no size
  // is 0. It may ask for the device, and what it returns must live as long as the program. The
  // chooser's own fields are rules that hold for all (bn: the smallest) and, for lists, the kernel
  // of any; its launch is not called.
  const Variant& (*choose)(const GemmArgs&) = nullptr;
  // What a cost model on the host expects of such a call; null: there is none.
  double (*predicted_us)(const GemmArgs&) = nullptr;

  Variant as_result() const {
    Variant copy = *this;
    copy.result = true;
    return copy;
  }
};

// The variant that runs this call: `variant` itself, or what it chooses.
const Variant& chosen(const Variant& variant, const GemmArgs& args);

// Of configurations that have predicted_us, the one with the least that this call can use: a grid
// that is limited excludes those that take no limit or whose clusters are larger than it.
const Variant& least_predicted(const std::vector<Variant>& configurations, const GemmArgs& args);

// A chooser among configurations, of which one is usable in every call.
Variant chooser_among(const char* name, const char* what,
                      const std::vector<Variant>& configurations,
                      const Variant& (*choose)(const GemmArgs&));

struct Stage {
  int number;        // 1-based, from the stem
  std::string stem;  // "05_wgmma"
  const char* idea;  // one line
  std::vector<Variant> variants;
  const Variant& result() const;  // the variant marked `result`
};

// Every linked rung, by number.
const std::vector<Stage>& stages();

// Static objects of this type put a rung into the registry. `file` is the stage file's __FILE__;
// its name without directory and extension is the rung's stem, the digits before '_' its number.
struct Registrar {
  Registrar(const char* file, const char* idea, std::vector<Variant> variants);
};

}  // namespace ladder
