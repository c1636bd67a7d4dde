// Clusters: CTAs that run at the same time and reach each other's shared memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/ptx/memory.cuh"

namespace ptx {

// mov.u32  rank, %cluster_ctarank;
//   issued by : any thread     returns: the CTA's number in its cluster, 0 .. size-1
//   ISA       : #special-registers-cluster-ctarank
__device__ inline uint32_t cluster_ctarank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// barrier.cluster.arrive.release;
//   issued by : all threads of all CTAs of the cluster; not .aligned, so that the lanes of a warp
//               may come one after another
//   orders    : release.cluster
//   ISA       : #parallel-synchronization-and-communication-instructions-barrier-cluster
__device__ inline void barrier_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}

// barrier.cluster.arrive.relaxed;
//   issued by : as above
//   orders    : nothing: a fence comes first
//   ISA       : #parallel-synchronization-and-communication-instructions-barrier-cluster
__device__ inline void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

// barrier.cluster.wait.acquire;
//   issued by : all threads of all CTAs of the cluster, after their arrive
//   orders    : acquire.cluster: what any thread of the cluster did before its arrive
//   ISA       : #parallel-synchronization-and-communication-instructions-barrier-cluster
__device__ inline void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// mapa.shared::cluster.u32  remote, addr, rank;
//   issued by : any thread     returns: the address, in CTA `rank`, of what `local` is in this CTA
//   ISA       : #data-movement-and-conversion-instructions-mapa
__device__ inline uint32_t mapa_shared_cluster(const void* local, uint32_t rank) {
  uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(remote)
      : "r"(cvta_to_shared(local)), "r"(rank));
  return remote;
}

// st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32  [dst], {x, y, z, w}, [bar];
//   issued by : any thread; dst, 16-byte aligned, and bar from mapa_shared_cluster, both in the same
//               CTA, which must have started, and not have exited before it has waited for bar
//   orders    : nothing by itself: complete_tx on bar counts the 16 bytes, release.cluster
//   ISA       : #data-movement-and-conversion-instructions-st-async
__device__ inline void st_async_v4_f32(uint32_t dst, float x, float y, float z, float w,
                                       uint32_t bar) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(dst),
      "f"(x), "f"(y), "f"(z), "f"(w), "r"(bar)
      : "memory");
}

// fence.release.sync_restrict::shared::cta.cluster;
//   issued by : a thread that is about to tell another CTA something with a relaxed operation
//   orders    : release.cluster, but only for what this thread did to its own CTA's shared memory
//               (PTX ISA 8.6). A full release.cluster also waits for global memory: MEMBAR.GPU.
//   ISA       : #parallel-synchronization-and-communication-instructions-membar-fence
__device__ inline void fence_release_shared_cta_cluster() {
  asm volatile("fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");
}

// fence.acquire.sync_restrict::shared::cluster.cluster;
//   issued by : a thread that has just learned something from another CTA by a relaxed operation
//   orders    : acquire.cluster, but only for what follows in shared memory
//   ISA       : #parallel-synchronization-and-communication-instructions-membar-fence
__device__ inline void fence_acquire_shared_cluster_cluster() {
  asm volatile("fence.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
}

// mbarrier.arrive.relaxed.cluster.shared::cluster.b64  _, [remote_bar];
//   issued by : any thread; remote_bar from mapa_shared_cluster. The CTA it is in must not have
//               exited.
//   orders    : nothing: the fence above comes first
//   ISA       : #parallel-synchronization-and-communication-instructions-mbarrier-arrive
__device__ inline void mbarrier_arrive_relaxed_cluster(uint32_t remote_bar) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote_bar)
               : "memory");
}

// mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64  done, [bar], parity;
//   issued by : any thread of the CTA that owns bar     returns: has that phase completed?
//   orders    : nothing: the fence above comes next
//   ISA       : #parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait
__device__ inline bool mbarrier_try_wait_parity_relaxed_cluster(uint64_t* bar, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{ .reg .pred p;\n"
      "  mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 p, [%1], %2;\n"
      "  selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(cvta_to_shared(bar)), "r"(parity)
      : "memory");
  return done;
}

// cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
//     .multicast::cluster  [dst], [map, {col, row}], [bar], cta_mask;
//   issued by : one thread. The box goes to dst's offset in every CTA whose bit is set in cta_mask,
//               and its bytes are counted on the mbarrier at bar's offset there.
//   orders    : as without multicast, in each destination CTA
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk-tensor
__device__ inline void cp_async_bulk_tensor_2d_g2s_multicast(void* dst, const CUtensorMap* map,
                                                             int col, int row, uint64_t* bar,
                                                             uint16_t cta_mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(cvta_to_shared(dst)),
      "l"(map), "r"(col), "r"(row), "r"(cvta_to_shared(bar)), "h"(cta_mask)
      : "memory");
}

// cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
//     .multicast::cluster.L2::cache_hint  [dst], [map, {col, row}], [bar], cta_mask, policy;
//   issued by : one thread     orders : as without the hint
//   ISA       : #data-movement-and-conversion-instructions-cp-async-bulk-tensor
__device__ inline void cp_async_bulk_tensor_2d_g2s_multicast_hint(void* dst, const CUtensorMap* map,
                                                                  int col, int row, uint64_t* bar,
                                                                  uint16_t cta_mask,
                                                                  uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(
          cvta_to_shared(dst)),
      "l"(map), "r"(col), "r"(row), "r"(cvta_to_shared(bar)), "h"(cta_mask), "l"(policy)
      : "memory");
}

// --- Composites (more than one PTX instruction) --------------------------------------------------

// Arrives on the mbarrier that CTA `rank` has where `bar` is in this one. Release.cluster for
// shared memory.
__device__ inline void mbarrier_arrive_cluster(uint64_t* bar, uint32_t rank) {
  fence_release_shared_cta_cluster();
  mbarrier_arrive_relaxed_cluster(mapa_shared_cluster(bar, rank));
}

// Returns once the phase with this parity has completed, whichever CTAs it was that arrived or
// copied. Acquire.cluster for shared memory.
__device__ inline void mbarrier_wait_cluster(uint64_t* bar, uint32_t parity) {
  while (!mbarrier_try_wait_parity_relaxed_cluster(bar, parity)) {
  }
  fence_acquire_shared_cluster_cluster();
}

// All threads of all CTAs of the cluster meet.
__device__ inline void barrier_cluster_sync() {
  barrier_cluster_arrive();
  barrier_cluster_wait();
}

// The same, but each releases only what it did to its own CTA's shared memory.
__device__ inline void barrier_cluster_sync_shared() {
  fence_release_shared_cta_cluster();
  barrier_cluster_arrive_relaxed();
  barrier_cluster_wait();
}

}  // namespace ptx
