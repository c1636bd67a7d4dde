// The seam between rungs and everything that the host does with them. A kind of problem says what a
// call's arguments are, which of them are refused, what a right result is and what it is compared
// with; command line, benchmark and C API know no more of a rung than that. Adding a kind touches
// no other: arguments derived from Call, a ProblemKind, a Problem.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/host/cublas_lt.h"
#include "common/host/device.h"
#include "common/host/gemm.h"
#include "common/host/verify.h"
#include "common/host/workload.h"

namespace ladder {

// Anything that computes a problem's result with one call, asynchronously on call.stream. The call
// is of the problem's kind.
struct Contestant {
  std::string name;
  std::function<void(const Call&)> launch;
};

// A library's way to do it.
struct LibraryCandidate {
  Contestant contestant;
  std::string algorithm;  // for people
  bool writes_d = true;   // false: its result is another, which candidates() has checked
};

// What programs take from, or give to, every call that they make.
struct CallLimits {
  int max_ctas = 0;       // Call::max_ctas
  bool workspace = true;  // whether Call::workspace is set
};

// The operands of one shape on the device, in as many sets as operand_sets() says, so that launches
// that rotate over them find nothing in the cache that a caller would not, or little of it where one
// set is so large that it is alone. On the PTX machine, which has no cache, there is one set, and the
// host computes the reference.
class Problem {
 public:
  Problem(const Shape& shape, const DeviceInfo& device);
  virtual ~Problem();
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  const Shape& shape() const { return shape_; }
  const DeviceInfo& device() const { return device_; }
  cudaStream_t stream() const { return stream_; }

  // What the tensor cores of an SM do in a clock, at most, with operands of this type.
  virtual double tensor_flop() const { return 4096; }  // of 16 bits, dense

  virtual int sets() const = 0;
  virtual const Call& call(int set) const = 0;       // 0 <= set < sets()
  virtual void limit(const CallLimits& limits) = 0;  // every call from now on

  virtual void poison_outputs() = 0;  // nothing of the result is right any more; on stream()

  // For kernels that need one; null if no linked rung does. The sets share it, since they run on one
  // stream.
  void* workspace() const { return workspace_.data(); }

  // How many bytes of its counters a kernel has left other than 0; they are 0 then. Waits for
  // stream().
  long long restore_counters() const;

  // Every set's result against the reference, which is computed on the first call. `wrong` counts
  // over all sets.
  virtual Verdict verify() = 0;

  // Keeps set 0's result, and the share of a later one's elements that are bit for bit the same.
  virtual void keep_output() = 0;
  virtual double share_equal_to_kept() const = 0;

  // What cuBLASLt offers for this problem, best guess first.
  virtual std::vector<LibraryCandidate> candidates(CublasLt& cublas) const = 0;

 private:
  Shape shape_;
  DeviceInfo device_;
  DeviceBuffer workspace_;
  cudaStream_t stream_ = nullptr;
};

// How many sets of operands of so many bytes a problem has on this device: between two calls of one
// set, those of the others bring at least three times what L2 holds. Only one, where it
// is 32 times what L2 holds or more: little of it can be left, and memory may have no room for two.
int operand_sets(size_t bytes, const DeviceInfo& device);

// What a kernel's grid asks of a call.
struct GridRules {
  const char* name;     // of the variant
  int bn;               // columns of a tile
  bool persistent;      // honours Call::max_ctas
  int cluster;          // CTAs that are launched together
  bool grid_y = false;  // a CTA for each tile, N along it: at most 65535 tiles
};

// What a problem may be beside its sizes. A program takes it as --NAME=VALUE, make as the name in
// capitals.
struct Parameter {
  std::string name;
  std::vector<std::string> values;  // the first is the default
};

class ProblemKind {
 public:
  virtual ~ProblemKind() = default;

  virtual const char* name() const = 0;     // "bf16"; no spaces: a result's "problem"
  virtual const char* formula() const = 0;  // "D[M,N] = A[M,K] * B[N,K]^T, bf16"

  // Of the C API; "" if there is none.
  virtual const char* c_function() const { return ""; }

  // At most as many as Shape has room for.
  virtual std::vector<Parameter> parameters() const { return {}; }

  // Every rule that the call breaks, one sentence a line, each with the actual value, the rule and
  // the nearest value that works; "" if the call is fine. Following every suggestion makes it fine.
  // An operand that the call does not touch may be anything.
  virtual std::string violations(const GridRules& rules, const Call& call) const = 0;

  // Whether a kernel is needed for a call that breaks no rule, and what is done where it is not.
  virtual bool needs_kernel(const Call& call) const = 0;
  virtual void run_without_kernel(const Call& call) const = 0;

  // A call of that shape as a chooser sees it: sizes, the smallest leading dimensions, no matrices,
  // no limits.
  virtual std::shared_ptr<Call> sizes_of(const Shape& shape) const = 0;

  // All that a chooser may look at beside m, n, k, max_ctas and whether there is a workspace, such as
  // leading dimensions; what is left over is 0.
  using Traits = std::array<long long, 8>;
  virtual Traits traits(const Call& call) const = 0;

  // Throws Refused if the device has too little free memory for operands and references.
  virtual std::unique_ptr<Problem> problem(const Shape& shape, Data data, uint64_t seed,
                                           const DeviceInfo& device) const = 0;
};

// "type=bf16,layout=NT": the shape's values of the kind's parameters, all of them or, as in the "args"
// of results, those that are not the default; "" if there are none.
std::string parameters_text(const ProblemKind& kind, const Shape& shape, bool defaults = true);

}  // namespace ladder
