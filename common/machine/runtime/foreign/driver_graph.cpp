// The driver's calls for graphs that streams capture: those of the runtime by other names. Of those that
// add nodes there are none.
#include "common/machine/runtime/foreign/forward.h"

namespace machine::runtime {
extern "C" {

FORWARD2(cuStreamBeginCapture, cudaStreamBeginCapture, CUstream, CUstreamCaptureMode);
FORWARD2(cuStreamEndCapture, cudaStreamEndCapture, CUstream, CUgraph*);
#if CUDA_VERSION >= 13000
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                CUgraph* graph, const CUgraphNode** nodes,
                                const CUgraphEdgeData** edges, size_t* count) {
  return forward(cudaStreamGetCaptureInfo, stream, status, id, graph, nodes, edges, count);
}
#endif
FORWARD1(cuThreadExchangeStreamCaptureMode, cudaThreadExchangeStreamCaptureMode,
         CUstreamCaptureMode*);
FORWARD2(cuGraphCreate, cudaGraphCreate, CUgraph*, unsigned);
FORWARD2(cuGraphClone, cudaGraphClone, CUgraph*, CUgraph);
FORWARD3(cuGraphGetNodes, cudaGraphGetNodes, CUgraph, CUgraphNode*, size_t*);
FORWARD2(cuGraphNodeGetType, cudaGraphNodeGetType, CUgraphNode, CUgraphNodeType*);
FORWARD3(cuGraphDebugDotPrint, cudaGraphDebugDotPrint, CUgraph, const char*, unsigned);
FORWARD1(cuGraphDestroy, cudaGraphDestroy, CUgraph);
FORWARD3(cuGraphInstantiate, cudaGraphInstantiateWithFlags, CUgraphExec*, CUgraph,
         unsigned long long);
FORWARD3(cuGraphInstantiateWithParams, cudaGraphInstantiateWithParams, CUgraphExec*, CUgraph,
         CUDA_GRAPH_INSTANTIATE_PARAMS*);
FORWARD3(cuGraphExecUpdate, cudaGraphExecUpdate, CUgraphExec, CUgraph,
         CUgraphExecUpdateResultInfo*);
FORWARD2(cuGraphUpload, cudaGraphUpload, CUgraphExec, CUstream);
FORWARD2(cuGraphLaunch, cudaGraphLaunch, CUgraphExec, CUstream);
FORWARD1(cuGraphExecDestroy, cudaGraphExecDestroy, CUgraphExec);

}  // extern "C"
}  // namespace machine::runtime
