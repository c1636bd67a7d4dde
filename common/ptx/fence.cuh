// fence.proxy: order between the generic proxy (ld, st, ldmatrix) and the async one (TMA, wgmma).
#pragma once

namespace ptx {

// fence.proxy.async.shared::cta;
//   issued by : each thread whose ordinary shared-memory accesses TMA or wgmma must come after
//   orders    : its generic-proxy accesses to shared memory before async-proxy accesses that are
//               started after a synchronisation that follows the fence, and the other way round
//   ISA       : #parallel-synchronization-and-communication-instructions-membar-fence
__device__ inline void fence_proxy_async_shared_cta() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace ptx
