// Instructions that lanes of a warp, warps of a warpgroup or CTAs of a cluster execute together, but
// for barriers. It knows nothing of memory.
#include "common/machine/ops/warp.h"

#include <algorithm>

#include "common/machine/run/observer.h"

namespace machine {
namespace {

// It need not be the same one for all: those that wait at others, for the same lanes, go on with these.
Step warp_sync(Warp& warp, const Inst& inst, uint32_t mask) {
  const auto members_of = [&warp](const Inst& of, uint32_t lanes) -> uint32_t {  // 0: they differ
    const uint32_t* const masks = warp.row<uint32_t>(of.slots[0].row);
    const uint32_t members = masks[first_lane(lanes)];
    return lanes_where(lanes, [&](uint32_t lane) { return masks[lane] == members; }) == lanes
               ? members
               : 0;
  };
  const uint32_t members = members_of(inst, mask), here = warp.current->mask;
  const auto waits_elsewhere = [&](const Fragment& fragment) {
    const Inst& at = program_of(warp).code[fragment.pc];
    return &fragment != warp.current && fragment.wait == WaitFor::other_lanes &&
           at.run == inst.run && at.guard == 0 && members_of(at, fragment.mask) == members;
  };
  uint32_t elsewhere = 0;
  for (const Fragment& fragment : warp.fragments) {
    if (waits_elsewhere(fragment)) elsewhere |= fragment.mask;
  }
  const uint32_t all = here | elsewhere;
  if (elsewhere != 0 && (all & ~members) == 0 && (members & warp.live & ~all) == 0) {
    for (Fragment& fragment : warp.fragments) {
      if (!waits_elsewhere(fragment)) continue;
      ++fragment.pc;
      fragment.wait = WaitFor::nothing;
    }
    observer_of(warp).tell(&Checker::warp_sync, warp, mask | elsewhere);
    return Step::next;
  }
  return for_members(warp, inst.slots[0], mask, [&](uint32_t lanes) {
    observer_of(warp).tell(&Checker::warp_sync, warp, lanes);
  });
}

// d|p, members
Step elect(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst.slots[inst.slot_count - 1], mask, [&](uint32_t lanes) {
    set_value(warp, inst.slots[0], lanes, first_lane(lanes));
    if (inst.slot_count > 2) set_pred(warp, inst.slots[1].row, lanes, lanes & -lanes);
  });
}

enum class Shuffle : uint8_t { up, down, bfly, idx };

// Of a lane that is not there, or not in the member mask: a NaN, that whoever uses it may see.
constexpr uint32_t UNDEFINED = 0xffff7fff;

// d|p, a, b, c, members. c: clamp in bits 0-4, mask of the lane's segment in bits 8-12.
template <Shuffle MODE>
Step shuffle(Warp& warp, const Inst& inst, uint32_t mask) {
  const Slot* const last = inst.slots + inst.slot_count - 1;
  return for_members(warp, *last, mask, [&](uint32_t lanes) {
    uint32_t* const d = warp.row<uint32_t>(inst.slots[0].row);
    const uint32_t* const b = warp.row<uint32_t>(last[-2].row);
    const uint32_t* const c = warp.row<uint32_t>(last[-1].row);
    uint32_t a[LANES], inside[LANES], moved[LANES];
    std::memcpy(a, warp.row<uint32_t>(last[-3].row), sizeof a);
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      const uint32_t by = b[lane] & 31, clamp = c[lane] & 31, segment = c[lane] >> 8 & 31;
      const int32_t first = static_cast<int32_t>(lane & segment);
      const int32_t bound = first | static_cast<int32_t>(clamp & ~segment);
      int32_t from = 0;
      if constexpr (MODE == Shuffle::up) from = static_cast<int32_t>(lane - by);
      if constexpr (MODE == Shuffle::down) from = static_cast<int32_t>(lane + by);
      if constexpr (MODE == Shuffle::bfly) from = static_cast<int32_t>(lane ^ by);
      if constexpr (MODE == Shuffle::idx) from = first | static_cast<int32_t>(by & ~segment);
      inside[lane] = MODE == Shuffle::up ? from >= bound : from <= bound;
      const uint32_t source = (inside[lane] ? static_cast<uint32_t>(from) : lane) & 31;
      moved[lane] = lanes >> source & 1 ? a[source] : UNDEFINED;
    }
    for_lanes(lanes, [&](uint32_t lane) { d[lane] = moved[lane]; });
    if (inst.slot_count > 5) {
      uint32_t result = 0;
      for (uint32_t lane = 0; lane < LANES; ++lane) result |= inside[lane] << lane;
      set_pred(warp, inst.slots[1].row, lanes, result);
    }
  });
}

enum class Vote : uint8_t { all, any, uni, ballot };

// d, a, members
template <Vote MODE>
Step vote(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst.slots[2], mask, [&](uint32_t lanes) {
    const uint32_t yes = get_pred(warp, inst.slots[1]) & lanes;
    if constexpr (MODE == Vote::ballot) {
      set_value(warp, inst.slots[0], lanes, yes);
    } else {
      const bool result = (MODE != Vote::any && yes == lanes) || (MODE == Vote::any && yes != 0) ||
                          (MODE == Vote::uni && yes == 0);
      set_pred(warp, inst.slots[0].row, lanes, result ? FULL : 0);
    }
  });
}

// n. An increment waits until the CTA's pool has as many: the registers that it was launched with,
// less those that its warps have. Where ptxas does not know how many registers a thread begins with, it
// ignores it.
template <bool INCREASES>
Step set_max_registers(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t count = immediate(warp, inst.slots[0], mask);
  if (count < 24 || count > 256 || count % 8 != 0) {
    stop(warp, mask, "setmaxnreg to ", count,
         " registers: it must be a multiple of 8 from 24 to 256.");
  }
  Cta& cta = *warp.cta;
  if (cta.cluster->grid->kernel->limits_registers) {
    if (INCREASES && count > warp.registers) {
      const uint32_t more = (count - warp.registers) * LANES;
      if (more > cta.free_registers) {
        warp.current->wait = WaitFor::registers;
        warp.current->wait_address = count;
        return Step::wait;
      }
      cta.free_registers -= more;
      warp.registers = count;
    } else if (!INCREASES && count < warp.registers) {
      cta.free_registers += (warp.registers - count) * LANES;
      warp.registers = count;
      signal(*cta.cluster);
    }
  }
  ++warp.set_registers;
  check_warpgroup_sets_registers(warp, mask);
  return Step::next;
}

Handler pick_set_max_registers(Opcode& opcode) {
  opcode.convergent = true;
  return opcode.has(".inc") ? set_max_registers<true> : set_max_registers<false>;
}

// ---- Clusters -----------------------------------------------------------------------------------

// d, a, rank: the same place in another CTA's shared memory. Of a CTA that is not there the address is
// none that can be accessed: nvcc maps what it has not yet compared with the cluster's size.
template <bool GENERIC>
void map_address(Warp& warp, const Inst& inst, uint32_t lane) {
  constexpr uint32_t NO_RANK = 0xff;
  const uint32_t rank = std::min(warp.row<uint32_t>(inst.slots[2].row)[lane], NO_RANK);
  const SharedSpace space = GENERIC ? SharedSpace::generic : SharedSpace::cluster;
  const uint32_t address = shared_address(warp, inst.slots[1], lane, space, "mapa");
  const uint64_t mapped =
      (address & OFFSET_MASK) | rank << RANK_SHIFT | (GENERIC ? SHARED_WINDOW : 0);
  set_value(warp, inst.slots[0], 1u << lane, mapped);
}
const Row ROWS[] = {
    {"bar.warp.sync", "members:32", always<warp_sync>, "wait for the lanes of the mask"},
    {"elect.sync", "d:32|p:p, members:32", always<elect>, "one lane of the mask: its lowest"},
    {"shfl.sync.up.b32", "d:32|p:p, a:32, b:32, c:32, members:32", always<shuffle<Shuffle::up>>,
     "d = a of lane - b, where that is in the segment"},
    {"shfl.sync.down.b32", "d:32|p:p, a:32, b:32, c:32, members:32", always<shuffle<Shuffle::down>>,
     "d = a of lane + b"},
    {"shfl.sync.bfly.b32", "d:32|p:p, a:32, b:32, c:32, members:32", always<shuffle<Shuffle::bfly>>,
     "d = a of lane ^ b"},
    {"shfl.sync.idx.b32", "d:32|p:p, a:32, b:32, c:32, members:32", always<shuffle<Shuffle::idx>>,
     "d = a of lane b of the segment"},
    {"vote.sync.all.pred", "d:p, a:p, members:32", always<vote<Vote::all>>, "whether all are true"},
    {"vote.sync.any.pred", "d:p, a:p, members:32", always<vote<Vote::any>>, "whether any is true"},
    {"vote.sync.uni.pred", "d:p, a:p, members:32", always<vote<Vote::uni>>,
     "whether all are the same"},
    {"vote.sync.ballot.b32", "d:32, a:p, members:32", always<vote<Vote::ballot>>,
     "the lanes that are true"},
    {"setmaxnreg{.inc,.dec}.sync.aligned.u32", "n:32", pick_set_max_registers,
     "take n registers a thread from the CTA's pool, or give back all but n"},
    {"mapa{.u32,.u64}", "d:t, a:t, rank:32", always<each_lane<map_address<true>>>,
     "the generic address a in the CTA of this rank"},
    {"mapa.shared::cluster{.u32,.u64}", "d:t, a:t, rank:32", always<each_lane<map_address<false>>>,
     "the shared address a in the CTA of this rank"},
};

}  // namespace

void check_warpgroup_sets_registers(Warp& warp, uint32_t mask) {
  Cta& cta = *warp.cta;
  const size_t first = warp.index / 4 * 4;
  for (size_t i = first; i < std::min(first + 4, cta.warps.size()); ++i) {
    const Warp& other = cta.warps[i];
    const Warp& fewer = other.set_registers < warp.set_registers ? other : warp;
    if (fewer.live != 0 || other.set_registers == warp.set_registers) continue;
    stop(warp, mask, "setmaxnreg by a part of a warpgroup: ", describe_role(fewer),
         " has exited without it. All four warps of the warpgroup must execute it.");
  }
}

std::string registers_text(const Warp& warp, uint32_t count) {
  const Grid& grid = grid_of(warp);
  const uint32_t all = grid.registers * LANES * grid.warps_per_cta;
  uint32_t given = 0;
  for (const Warp& other : warp.cta->warps) given += other.registers * LANES;
  return joined(count, " registers a thread: it has ", warp.registers, ", and of the CTA's ", all,
                " (", grid.registers, " for each of ", grid.warps_per_cta * LANES, " threads) ",
                all - given, " are free, where a warp needs ", (count - warp.registers) * LANES,
                " more. setmaxnreg.dec in other warps frees some; the sum over all warps must not "
                "be more than the CTA has");
}

const Section sections::WARP{"Lanes, warps and CTAs together", ROWS};

}  // namespace machine
