#include "tests/seam/fp16.h"

#include "common/host/matmul_problem.cuh"

template const ladder::ProblemKind& seam::Fp16Args::kind();
