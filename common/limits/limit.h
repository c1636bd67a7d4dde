// A ceiling of the GPU: a kernel that does one thing as fast as it goes, and the proof that it did.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/host/data.h"

namespace limits {

// When a CTA was at a place, by the clock of its SM and by the GPU's.
struct Stamp {
  long long clock;
  long long ns;
};

// A kernel that is ready to be timed. Its CTAs run one an SM, all at the same time.
class Limit {
 public:
  virtual ~Limit() = default;
  virtual int ctas() const = 0;
  virtual double work(int passes) const = 0;  // FLOP or bytes of one launch, all CTAs together

  // Asynchronous. A pass is a few thousand clocks of work at most; stamps [ctas()][2]: when each
  // CTA began with it, its operands in place, and when it was done. Throws CudaError.
  virtual void launch(int passes, Stamp* stamps, cudaStream_t stream) = 0;

  // Launches the same kernel with as many passes on data whose result is known, compares that with
  // what the host computes, and waits for it. Returns "", or what is wrong.
  virtual std::string check(int passes, Stamp* stamps, cudaStream_t stream) = 0;
};

enum class Group { tensor, smem, l2, dram };

inline const char* to_string(Group group) {
  switch (group) {
    case Group::tensor:
      return "tensor";
    case Group::smem:
      return "smem";
    case Group::l2:
      return "l2";
    default:
      return "dram";
  }
}

// What there is to measure.
struct Entry {
  const char* name;  // no spaces
  const char* what;  // in a few words
  Group group;
  ladder::Data data;
  const void* kernel;
  std::function<std::unique_ptr<Limit>(cudaStream_t)> make;  // allocates and fills
  double l2_share = 0;  // of the bytes of `work`, those that are asked of L2; 0: not known
};

std::vector<Entry> tensor_limits();  // tensor.cu: FLOP, and what wgmma and ldmatrix read
std::vector<Entry> beside_limits();  // beside.cu: FLOP of CUDA cores and tensor cores together
std::vector<Entry> copy_limits();    // copy.cu: L2 and DRAM by TMA

// Prints on which SMs, and in which GPCs, the CTAs of plain and of cluster launches run.
void print_places();

}  // namespace limits
