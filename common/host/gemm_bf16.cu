// The problem of rungs 1 to 12, and what tests use of its references.
#include "common/host/matmul_problem.cuh"

namespace ladder {

template const ProblemKind& GemmArgs::kind();

template void fill_gpu(bf16* base, int rows, int cols, long long ld, Data data, uint64_t seed,
                       cudaStream_t stream);
template Reference reference_gpu(const GemmArgs& args, int chain);
template Verdict verify_gpu(const GemmArgs& args, const Reference& reference, bool exact);

template void fill_from_host(bf16* base, int rows, int cols, long long ld, Data data, uint64_t seed,
                             cudaStream_t stream);
template HostReference reference_on_host(const GemmArgs& args);
template Verdict verify_on_host(const GemmArgs& args, const HostReference& reference, bool exact);

}  // namespace ladder
