// Instructions that lanes of a warp, warps of a warpgroup or CTAs of a cluster execute together, but
// for barriers. It knows nothing of memory.
#include "common/machine/ops/warp.h"

#include <algorithm>

#include "common/machine/run/observer.h"

namespace machine {
namespace {

Step warp_sync(Warp& warp, const Inst& inst, uint32_t mask) {
  return for_members(warp, inst, mask, [&](const Inst&, uint32_t lanes) {
    observer_of(warp).tell(&Checker::warp_sync, warp, lanes);
  });
}

// d|p, members
Step elect(Warp& warp, const Inst& one, uint32_t mask) {
  return for_members(warp, one, mask, [&](const Inst& inst, uint32_t lanes) {
    set_value(warp, inst.slots[0], lanes, first_lane(lanes));
    if (inst.slot_count > 2) set_pred(warp, inst.slots[1].row, lanes, lanes & -lanes);
  });
}

enum class Shuffle : uint8_t { up, down, bfly, idx };

// Of a lane that is not there, or not in the member mask: a NaN, that whoever uses it may see.
constexpr uint32_t UNDEFINED = 0xffff7fff;

// d|p, a, b, c, members. c: clamp in bits 0-4, mask of the lane's segment in bits 8-12.
template <Shuffle MODE>
Step shuffle(Warp& warp, const Inst& one, uint32_t mask) {
  return for_members(warp, one, mask, [&](const Inst& inst, uint32_t lanes) {
    const Slot* const last = inst.slots + inst.slot_count - 1;
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
Step vote(Warp& warp, const Inst& one, uint32_t mask) {
  return for_members(warp, one, mask, [&](const Inst& inst, uint32_t lanes) {
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

// The member mask that all these lanes have, or 0.
uint32_t members_of(Warp& warp, const Inst& inst, uint32_t lanes) {
  const Slot& members = inst.slots[inst.slot_count - 1];
  const bool agree = lanes_that_agree(warp, members, lanes) == lanes;
  return agree ? immediate(warp, members, lanes) : 0;
}

// The same opcode, but for what its operands are.
bool is_of_a_kind(const Inst& one, const Inst& other) {
  const auto of_same_width = [](const Slot& a, const Slot& b) { return a.width == b.width; };
  return one.run == other.run && one.mods == other.mods &&
         std::equal(one.slots, one.slots + one.slot_count, other.slots,
                    other.slots + other.slot_count, of_same_width);
}

// Of an operand as it is in the instruction, from or to a row where a predicate is not negated.
void copy_lanes(const std::byte* from, std::byte* to, const Slot& slot, uint32_t lanes) {
  if (slot.width == Width::pred) {
    uint32_t word, other;
    std::memcpy(&word, to, sizeof word);
    std::memcpy(&other, from, sizeof other);
    word = (word & ~lanes) | ((slot.negated ? ~other : other) & lanes);
    std::memcpy(to, &word, sizeof word);
    return;
  }
  const size_t size = slot.width == Width::w64 ? 8 : 4;
  for_lanes(lanes, [=](uint32_t lane) { std::memcpy(to + lane * size, from + lane * size, size); });
}

}  // namespace

bool meet_elsewhere(Warp& warp, const Inst& inst, uint32_t mask, const OfMembers& f) {
  const uint32_t members = members_of(warp, inst, mask);
  std::vector<Fragment*> elsewhere;
  uint32_t here = warp.current->mask;  // with those that the guard keeps out
  for (Fragment& fragment : warp.fragments) {
    const Inst& at = program_of(warp).code[fragment.pc];
    if (&fragment == warp.current || fragment.wait != WaitFor::other_lanes || at.guard != 0 ||
        !is_of_a_kind(at, inst) || members_of(warp, at, fragment.mask) != members) {
      continue;
    }
    elsewhere.push_back(&fragment);
    here |= fragment.mask;
  }
  if (elsewhere.empty() || (here & ~members) != 0 || (members & warp.live & ~here) != 0)
    return false;
  // The operands of all come to rows that are made for them, and what is there then goes back. Results
  // are first among operands, and so the last to go.
  constexpr uint32_t ROW_BYTES = LANES * sizeof(uint64_t);
  std::vector<uint64_t> rows(size_t{inst.slot_count} * LANES);
  std::vector<Slot> slots(inst.slots, inst.slots + inst.slot_count);
  for (uint32_t i = 0; i < inst.slot_count; ++i) slots[i] = {i * ROW_BYTES, 0, slots[i].width};
  auto* made = reinterpret_cast<std::byte*>(rows.data());
  const auto move = [&](bool back, const Inst& at, uint32_t lanes) {
    for (uint32_t i = inst.slot_count; i-- > 0;) {
      std::byte *from = warp.rows + at.slots[i].row, *to = made + slots[i].row;
      if (back) std::swap(from, to);
      copy_lanes(from, to, at.slots[i], lanes);
    }
  };
  const auto move_all = [&](bool back) {
    move(back, inst, mask);
    for (const Fragment* fragment : elsewhere) {
      move(back, program_of(warp).code[fragment->pc], fragment->mask);
    }
  };
  move_all(false);
  Inst together = inst;
  together.slots = slots.data();
  uint32_t lanes = mask;
  for (const Fragment* fragment : elsewhere) lanes |= fragment->mask;
  std::swap(warp.rows, made);
  f(together, lanes);
  std::swap(warp.rows, made);
  move_all(true);
  for (Fragment* fragment : elsewhere) {
    ++fragment->pc;
    fragment->wait = WaitFor::nothing;
  }
  return true;
}

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
