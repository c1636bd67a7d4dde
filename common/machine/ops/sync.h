// What copies and the scheduler ask of barriers, and how both read shared addresses.
#pragma once

#include <string>
#include <string_view>

#include "common/machine/code/isa.h"
#include "common/machine/run/state.h"

namespace machine {

// ---- Operands -----------------------------------------------------------------------------------

inline uint64_t value_of(Warp& warp, const Slot& slot, uint32_t lane) {
  return slot.width == Width::w64 ? warp.row<uint64_t>(slot.row)[lane]
                                  : warp.row<uint32_t>(slot.row)[lane];
}

inline uint32_t first_lane(uint32_t mask) {
  return static_cast<uint32_t>(std::countr_zero(mask));
}

// Those lanes of the mask that have the first one's value.
uint32_t lanes_that_agree(Warp& warp, const Slot& slot, uint32_t mask);

// How an instruction names shared memory.
enum class SharedSpace : uint8_t {
  cta,      // .shared, .shared::cta: of the CTA that executes
  cluster,  // .shared::cluster
  generic,  // no state space
};

// Of an opcode with one address; .shared may stand anywhere in it.
SharedSpace shared_space(const Opcode& opcode);

// The shared::cluster address in a lane; ends in a fault if it is not one of this space.
uint32_t shared_address(Warp& warp, const Slot& slot, uint32_t lane, SharedSpace space,
                        const char* what);

std::string hex(uint64_t value);  // "0x30400"

// fault() with a sentence made of texts and numbers.
template <class... Parts>
[[noreturn]] void stop_as(const Rule& rule, Warp& warp, uint32_t mask, const Parts&... parts) {
  std::string text;
  const auto add = [&text](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  fault(warp, mask, text, rule);
}
template <class... Parts>
[[noreturn]] void stop(Warp& warp, uint32_t mask, const Parts&... parts) {
  stop_as(rule::ILLEGAL, warp, mask, parts...);
}

// ---- mbarriers; addresses are shared::cluster ones ----------------------------------------------

// An asynchronous copy has brought `bytes` bytes. `issuer` is named if it is no mbarrier.
void complete_tx(Warp& issuer, uint32_t address, uint32_t bytes);

// cp.async.mbarrier.arrive: `count` more arrivals are pending, and then one by one made.
void expect_arrivals(Warp& warp, uint32_t lanes, uint32_t address, uint32_t count);
void arrive_async(Warp& warp, uint32_t lanes, uint32_t address, uint32_t count);

// The tx-count: less than 0 if more bytes have come than were expected.
int64_t bytes_to_come(const Mbarrier& mbarrier);
uint32_t arrivals_expected(const Mbarrier& mbarrier);  // in a phase

// ---- For the scheduler --------------------------------------------------------------------------

// The lanes have left Warp::live: barriers that waited for nobody else complete.
void threads_exited(Warp& warp, uint32_t mask);

// "the mbarrier at shared 0x30400 (CTA rank 0): phase 3, …"
std::string mbarrier_text(Cluster& cluster, uint32_t address, uint32_t parity);
// "240 registers a thread: it has 168, and of the CTA's 64512 (168 for each of 384 threads) …"
std::string registers_text(const Warp& warp, uint32_t count);
// "barrier 1: 96 of 128 threads have arrived"
std::string barrier_text(Cta& cta, uint32_t id);

}  // namespace machine
