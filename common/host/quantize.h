// bf16 matrices as e4m3 or s8 with a scale a block: what rungs that multiply 8 bits take.
#pragma once

#include <string>

#include "common/host/element.h"
#include "common/host/gemm.h"
#include "common/host/ladder.h"

namespace ladder {

inline constexpr int SCALE_BLOCK = 128;  // elements along K, and rows of a block of B

constexpr long long scale_blocks(long long elements) {
  return (elements + SCALE_BLOCK - 1) / SCALE_BLOCK;
}

// Of ladder_quantize() (common/host/ladder.h).
struct QuantizeArgs {
  int type = LADDER_E4M3;
  int block_rows = 1;      // 1 or 128
  int rows = 0, cols = 0;  // of x and q
  const bf16* x = nullptr;
  long long ldx = 0;
  void* q = nullptr;
  long long ldq = 0;
  float* scale = nullptr;
  long long ld_scale = 0;
  cudaStream_t stream = nullptr;
};

// Every rule that the call breaks, a sentence a line; "" if it breaks none.
std::string quantize_violations(const QuantizeArgs& args);

// Asynchronously on args.stream. Throws Refused, NoDevice, CudaError.
void quantize(const QuantizeArgs& args);

// The same on the host, of matrices in host memory that lie alike. What a kernel must do bit for bit.
void quantize_on_host(const QuantizeArgs& args);

}  // namespace ladder
