// mbarrier: a barrier object in shared memory that counts arrivals and bytes.
//
// A phase completes when `count` arrivals have come and the transaction count is back at zero; the
// next phase begins at once. Phases have parity 0, 1, 0, 1, ...: waiting on parity P returns when
// the current phase is not of parity P, that is, when a phase with parity P has just completed.
#pragma once

#include <cstdint>

#include "common/ptx/memory.cuh"

namespace ptx {

// mbarrier.init.shared::cta.b64  [bar], count;
//   issued by : one thread; bar 8-byte aligned, not in use
//   orders    : nothing: a barrier must follow, and before it, for TMA and peers, the fence below
//   ISA       : #parallel-synchronization-and-communication-instructions-mbarrier-init
__device__ inline void mbarrier_init(uint64_t* bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(cvta_to_shared(bar)), "r"(count)
               : "memory");
}

// fence.mbarrier_init.release.cluster;
//   issued by : the thread that initialised the mbarriers
//   orders    : its mbarrier.init before use by the cluster and, as older PTX manuals ask, by TMA
//   ISA       : #parallel-synchronization-and-communication-instructions-membar-fence
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// mbarrier.arrive.shared::cta.b64  _, [bar];
//   issued by : any thread of the CTA; one arrival
//   orders    : release.cta: what this thread did before it, for whoever waits
//   ISA       : #parallel-synchronization-and-communication-instructions-mbarrier-arrive
__device__ inline void mbarrier_arrive(uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(cvta_to_shared(bar)) : "memory");
}

// mbarrier.arrive.expect_tx.shared::cta.b64  _, [bar], tx_bytes;
//   issued by : the thread that starts the copies; one arrival, and tx_bytes more to wait for
//   orders    : release.cta
//   ISA       : #parallel-synchronization-and-communication-instructions-mbarrier-arrive
__device__ inline void mbarrier_arrive_expect_tx(uint64_t* bar, uint32_t tx_bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(cvta_to_shared(bar)),
               "r"(tx_bytes)
               : "memory");
}

// mbarrier.try_wait.parity.shared::cta.b64  done, [bar], parity;
//   issued by : any thread; may suspend it for a while     returns: has that phase completed?
//   orders    : acquire.cta, if true
//   ISA       :
//   #parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait
__device__ inline bool mbarrier_try_wait_parity(uint64_t* bar, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{ .reg .pred p;\n"
      "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "  selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(cvta_to_shared(bar)), "r"(parity)
      : "memory");
  return done;
}

// mbarrier.test_wait.parity.shared::cta.b64  done, [bar], parity;
//   issued by : any thread; never suspends it     returns: has that phase completed?
//   orders    : acquire.cta, if true
//   ISA       :
//   #parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait
__device__ inline bool mbarrier_test_wait_parity(uint64_t* bar, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{ .reg .pred p;\n"
      "  mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "  selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(cvta_to_shared(bar)), "r"(parity)
      : "memory");
  return done;
}

// --- Composites (more than one PTX instruction) --------------------------------------------------

// Returns once the phase with this parity has completed.
__device__ inline void mbarrier_wait(uint64_t* bar, uint32_t parity) {
  while (!mbarrier_try_wait_parity(bar, parity)) {
  }
}

}  // namespace ptx
