// fp16 in and out, as a kind of problem.
#pragma once

#include <cuda_fp16.h>

#include "common/host/element.h"
#include "common/host/gemm.h"

namespace seam {
using Fp16Args = ladder::MatmulArgs<__half, __half>;
}  // namespace seam
