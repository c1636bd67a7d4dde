// From the addresses of a warp's lanes to host addresses, for all state spaces; every access is
// checked on the way, and told to the checker of order. It knows nothing of what is read or written.
#pragma once

#include <algorithm>

#include "common/machine/check/checker.h"
#include "common/machine/ops/operands.h"
#include "common/machine/ops/reduction.h"

namespace machine {

enum class Where : uint8_t { generic, global, shared_cta, shared_cluster, local, param };

struct AccessQualifiers {
  Where where;
  Order order;
  Scope scope;
  uint8_t count : 4;        // elements
  Reduction reduction : 4;  // of an atomic
};

inline Order order_of(const Inst& inst) {
  return inst.as<AccessQualifiers>().order;
}
inline Where where_of(const Inst& inst) {
  return inst.as<AccessQualifiers>().where;
}
inline uint32_t element_count(const Inst& inst) {
  return inst.as<AccessQualifiers>().count;
}

Where where(const Opcode& opcode);
// .gpu where none is given.
Scope scope_of(const Opcode& opcode);
// Vectors have as many registers as the opcode says, and 16 bytes at the most.
bool is_vector_allowed(const Opcode& opcode, uint32_t count);
// `unsaid`: the order that it has if none is given.
AccessQualifiers access_qualifiers(const Opcode& opcode, Order unsaid);

// Of 32 lanes; lanes that do not take part have the address of one that does.
struct Addresses {
  uint64_t at[LANES];
  uint64_t low, high, all_bits;

  template <class F>
  void fill(uint32_t mask, F&& address) {
    if (mask == FULL) {
      for (uint32_t lane = 0; lane < LANES; ++lane) at[lane] = address(lane);
    } else {
      std::fill(at, at + LANES, address(first_lane(mask)));
      for_lanes(mask, [&](uint32_t lane) { at[lane] = address(lane); });
    }
    measure();
  }
  void measure() {
    uint64_t least = at[0], most = at[0], bits = at[0];
    for (const uint64_t x : at) {
      least = std::min(least, x);
      most = std::max(most, x);
      bits |= x;
    }
    low = least;
    high = most;
    all_bits = bits;
  }
  void add(uint64_t delta) {
    for (uint64_t& address : at) address += delta;
  }
};

// Host addresses of an access of `bytes` bytes a lane at the address in a slot. Of a plain store
// `store` makes it, if the checker asks for that, and `host_delta` is what it adds to an address.
void resolve(Warp& warp, const Inst& inst, const Slot& slot, uint32_t mask, uint32_t bytes,
             Access access, const char* what, Addresses& a, Store* store = nullptr,
             uint64_t* host_delta = nullptr);

// The same of addresses that the instruction has computed: `a` has them, and gets the host's.
void resolve_computed(Warp& warp, Where where, uint32_t mask, uint32_t bytes, Access access,
                      const char* what, Addresses& a);

// `a`: host addresses of an access of `bytes` bytes a lane.
void look_for_poison(Warp& warp, Where where, uint32_t mask, const Addresses& a, uint32_t bytes);

// ---- Patterns of rows ----------------------------------------------------------------------------

#define SCOPES "{.cta,.cluster,.gpu,.sys,}"
#define SPACES                                                                  \
  "{.global,.shared,.shared::cta,.shared::cluster,.local,.param,.param::entry," \
  ".param::func,.const,}"
#define HINTS                                                                                   \
  "{.ca,.cg,.cs,.lu,.cv,.wb,.wt,}{.nc,}"                                                        \
  "{.L1::evict_normal,.L1::evict_unchanged,.L1::evict_first,.L1::evict_last,.L1::no_allocate,}" \
  "{.L2::evict_normal,.L2::evict_first,.L2::evict_last,}{.L2::cache_hint,}"                     \
  "{.L2::64B,.L2::128B,.L2::256B,}"
#define LOAD "{.weak,.volatile,.relaxed,.acquire,.mmio.relaxed,}" SCOPES SPACES HINTS
#define STORE "{.weak,.volatile,.relaxed,.release,.mmio.relaxed,}" SCOPES SPACES HINTS
#define ATOMIC(OPERATIONS)                        \
  "{.relaxed,.acquire,.release,.acq_rel,}" SCOPES \
  "{.global,.shared,.shared::cta,.shared::cluster,}" OPERATIONS "{.noftz,}{.L2::cache_hint,}"

}  // namespace machine
