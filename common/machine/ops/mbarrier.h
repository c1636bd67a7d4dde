// What asynchronous copies, the scheduler and reports ask of mbarriers. Addresses are shared::cluster
// ones.
#pragma once

#include <string>
#include <string_view>

#include "common/machine/run/state.h"

namespace machine {

// An asynchronous copy has brought `bytes` bytes. `issuer` is named if it is no mbarrier.
void complete_tx(Warp& issuer, uint32_t address, uint32_t bytes);

// cp.async.mbarrier.arrive: `count` more arrivals are pending, and then one by one made.
void expect_arrivals(Warp& warp, uint32_t lanes, uint32_t address, uint32_t count);
void arrive_async(Warp& warp, uint32_t lanes, uint32_t address, uint32_t count);

// The tx-count: less than 0 if more bytes have come than were expected.
int64_t bytes_to_come(const Mbarrier& mbarrier);
uint32_t arrivals_expected(const Mbarrier& mbarrier);  // in a phase

// "the mbarrier at shared 0x30400 (CTA rank 0): phase 3, …"
std::string mbarrier_text(Cluster& cluster, uint32_t address, uint32_t parity);
// How it ends where nobody has arrived in the first phase, and how a cause begins elsewhere. Where any
// wait has such a cause, the others only follow from it, and the guess misleads.
inline constexpr std::string_view PARITY_GUESS =
    ".\n    Likely, if this waits for a buffer to be free: its first wait must be for "
    "parity 1, which is over before anybody has arrived; else an arrive is missing";
inline constexpr std::string_view CAUSE = "\n    Likely: ";

}  // namespace machine
