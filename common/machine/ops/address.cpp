// A warp's addresses become host addresses at once where all lie in one allocation, or in the CTA's
// own shared memory; else lane by lane, and the lane that is outside is named.
#include "common/machine/ops/address.h"

#include <bit>
#include <iterator>

#include "common/machine/code/shared_layout.h"
#include "common/machine/run/observer.h"

namespace machine {

Where where(const Opcode& opcode) {
  if (opcode.has(".global") || opcode.has(".const")) return Where::global;
  if (opcode.has(".shared") || opcode.has(".shared::cta")) return Where::shared_cta;
  if (opcode.has(".shared::cluster")) return Where::shared_cluster;
  if (opcode.has(".local")) return Where::local;
  const bool param =
      opcode.has(".param") || opcode.has(".param::entry") || opcode.has(".param::func");
  return param ? Where::param : Where::generic;
}

Scope scope_of(const Opcode& opcode) {
  constexpr Scope FOUND[] = {Scope::gpu, Scope::cta, Scope::cluster};
  return FOUND[which(opcode, {".cta", ".cluster"})];
}

bool is_vector_allowed(const Opcode& opcode, uint32_t count) {
  for (const Operand& operand : *opcode.operands) {
    if (operand.kind == Operand::Kind::vector && operand.parts.size() != count) return false;
  }
  return count * bytes_of(opcode.type()) <= 16;
}

AccessQualifiers access_qualifiers(const Opcode& opcode, Order unsaid) {
  AccessQualifiers made{};
  made.where = where(opcode);
  made.order = opcode.has(".relaxed") || opcode.has(".volatile") ? Order::relaxed
               : opcode.has(".acquire")                          ? Order::acquire
               : opcode.has(".release")                          ? Order::release
               : opcode.has(".acq_rel")                          ? Order::acq_rel
                                                                 : unsaid;
  made.scope = scope_of(opcode);
  made.count = (1u << which(opcode, {".v2", ".v4", ".v8"})) & 15;
  return made;
}

bool is_allocated(uint64_t low, uint64_t high, uint64_t bytes) {
  struct Cache {  // of allocations that this thread has found lately
    Allocation ranges[8];
    uint32_t next = 0;
    uint64_t generation = 0;
  };
  thread_local Cache cache;
  const uint64_t generation = allocation_generation();
  if (cache.generation != generation) cache = {{}, 0, generation};
  for (const Allocation& range : cache.ranges) {
    if (range.contains(low, bytes) && range.contains(high, bytes)) return true;
  }
  Allocation found;
  if (!find_allocation(low, &found) || found.freed) return false;
  const bool inside = found.contains(low, bytes) && found.contains(high, bytes);
  found.what.clear();
  cache.ranges[cache.next++ % std::size(cache.ranges)] = found;
  return inside;
}

namespace {

struct Use {
  uint32_t bytes;  // of a lane
  Access access;
  Order order;
  Scope scope;
  const char* what;
  uint16_t variable = 0;           // Inst::variable
  Store* store = nullptr;          // of a plain store
  uint64_t* host_delta = nullptr;  // for it: what is added to an address
  bool is_early = false;           // Inst::is_early
};

// ": the 4 bytes at 0x7f… are …", of memory that must not be accessed.
std::string where_it_is(uint64_t address, uint64_t bytes) {
  const std::string text = joined(": the ", bytes, " bytes at ", hex(address));
  const auto range = [](const Allocation& a) {
    return joined(a.bytes, " bytes from ", a.what, " at ", hex(a.base));
  };
  if ((address & WINDOW_MASK) == SHARED_WINDOW) return text + " are in shared memory.";
  if ((address & WINDOW_MASK) == LOCAL_WINDOW) return text + " are in local memory.";
  if ((address & WINDOW_MASK) == PARAM_WINDOW) return text + " are in the kernel's parameters.";
  Allocation a;
  if (find_allocation(address, &a) && a.freed) return text + " have been freed: " + range(a) + ".";
  if (!nearest_allocation(address, &a)) return text + " are in no allocation, and there is none.";
  const uint64_t end = a.base + a.bytes;
  if (address >= a.base && address < end) {
    return joined(text, " begin ", end - address, " bytes before the end of ", range(a), ".");
  }
  const bool behind = address >= end;
  constexpr uint64_t FAR = 1ull << 37;
  if ((behind ? address - end : a.base - address) > FAR) {
    return text + " are in no allocation, nor near one: a pointer of the host?";
  }
  return joined(text, " are in no allocation; they begin ",
                behind ? address - end : a.base - address, " bytes ",
                behind ? "behind the end" : "before the start", " of the nearest: ", range(a), ".");
}

void to_global(Warp& warp, uint32_t mask, const Use& use, Addresses& a) {
  Cluster& cluster = *warp.cta->cluster;
  if (!is_allocated(a.low, a.high, use.bytes)) {
    for_lanes(mask,
              [&](uint32_t lane) { check_global(warp, lane, a.at[lane], use.bytes, use.what); });
  }
  if (!use.is_early) {
    observer_of(cluster).tell(&Checker::global_access, warp, mask, a.at, use.bytes, use.access,
                              use.order, use.scope, use.store);
  }
  if (use.access != Access::write && use.order != Order::weak) cluster.polled_global = true;
  if (use.access != Access::read) observer_of(cluster).store(warp);
  if (use.access == Access::write) ++cluster.changes;
}

// Whether all bytes at offsets from low to high are dynamic, or in one static variable.
bool in_shared_variable(const Cta& cta, uint64_t low, uint64_t end) {
  if (low >= cta.dynamic_smem) return true;
  const auto& variables = cta.cluster->grid->program->shared_variables;
  for (const SharedVariable& variable : variables) {
    if (low >= variable.address && end <= variable.address + uint64_t{variable.bytes}) return true;
  }
  return variables.empty();  // of a test that laid out nothing
}

[[noreturn]] void outside_variable(Warp& warp, uint32_t mask, uint32_t address, uint32_t bytes,
                                   const SharedVariable& variable, const char* what) {
  const uint32_t offset = address & OFFSET_MASK, end = variable.address + variable.bytes;
  const bool behind = offset >= end, before = offset < variable.address;
  stop_as(rule::OUT_OF_BOUNDS, warp, mask, what, ": the ", bytes, " bytes at shared ", hex(address),
          " begin ",
          behind   ? offset - end
          : before ? variable.address - offset
                   : end - offset,
          behind   ? " bytes behind the end of "
          : before ? " bytes before the start of "
                   : " bytes before the end of ",
          source_name(variable), ", which has ", variable.bytes, " bytes from ",
          hex(variable.address), ".");
}

// Static memory is in whole KiB, but what no variable has is nobody's.
void check_shared_variable(Warp& warp, uint32_t mask, const Cta& cta, uint32_t address,
                           uint32_t bytes, const char* what) {
  const uint32_t offset = address & OFFSET_MASK;
  if (in_shared_variable(cta, offset, uint64_t{offset} + bytes)) return;
  const auto& variables = cta.cluster->grid->program->shared_variables;
  const SharedVariable* nearest = &variables[0];
  for (const SharedVariable& variable : variables) {
    if (variable.address <= offset) nearest = &variable;
  }
  outside_variable(warp, mask, address, bytes, *nearest, what);
}

// An address that was made from a static variable's must stay inside of it.
void check_own_variable(Warp& warp, uint32_t mask, const Use& use, const Addresses& a) {
  const SharedVariable& variable = program_of(warp).shared_variables[use.variable - 1];
  const uint64_t start = variable.address | uint64_t{warp.cta->rank} << RANK_SHIFT;
  if (a.low >= start && a.high + use.bytes <= start + variable.bytes) return;
  for_lanes(mask, [&](uint32_t lane) {
    if (a.at[lane] >= start && a.at[lane] + use.bytes <= start + variable.bytes) return;
    outside_variable(warp, 1u << lane, static_cast<uint32_t>(a.at[lane]), use.bytes, variable,
                     use.what);
  });
}

void to_shared(Warp& warp, uint32_t mask, Where where, const Use& use, Addresses& a) {
  Cta& cta = *warp.cta;
  if (a.high >> 32 != 0) {  // of a generic address the lower half counts
    for (uint64_t& address : a.at) address &= 0xffffffff;
    a.measure();
  }
  const uint64_t first = SMEM_BASE | uint64_t{cta.rank} << RANK_SHIFT;
  const bool own = a.low >= first && a.high + use.bytes <= first + cta.smem_bytes &&
                   in_shared_variable(cta, a.low & OFFSET_MASK, (a.high & OFFSET_MASK) + use.bytes);
  if (use.variable != 0) check_own_variable(warp, mask, use, a);
  std::byte* bytes[LANES];
  if (!own) {
    for_lanes(mask, [&](uint32_t lane) {
      const auto address = static_cast<uint32_t>(a.at[lane]);
      if (where == Where::shared_cta) check_names_own(warp, lane, address, use.what);
      bytes[lane] = shared_bytes(warp, 1u << lane, address, use.bytes, use.what);
    });
  }
  if (Checker* const checker = cta.cluster->checker.get(); checker && !use.is_early) {
    uint32_t addresses[LANES];
    for (uint32_t lane = 0; lane < LANES; ++lane)
      addresses[lane] = static_cast<uint32_t>(a.at[lane]);
    if (use.host_delta != nullptr) *use.host_delta = reinterpret_cast<uint64_t>(cta.smem) - first;
    checker->shared_access(warp, mask, addresses, use.bytes, use.access, use.order, use.scope,
                           own && use.order == Order::weak ? use.store : nullptr);
  }
  if (use.access == Access::write) ++cta.cluster->changes;
  if (own) {
    a.add(reinterpret_cast<uint64_t>(cta.smem) - first);
  } else {
    for_lanes(mask, [&](uint32_t lane) { a.at[lane] = reinterpret_cast<uint64_t>(bytes[lane]); });
  }
}

// Leaves offsets. `limit`: bytes of a thread's local memory, or of the parameters.
void to_offsets(Warp& warp, uint32_t mask, const Use& use, Addresses& a, uint64_t limit,
                const char* of) {
  for (uint64_t& address : a.at) address &= ~WINDOW_MASK;
  a.measure();
  if (a.high + use.bytes <= limit) return;
  for_lanes(mask, [&](uint32_t lane) {
    if (a.at[lane] + use.bytes <= limit) return;
    constexpr int WINDOW_BITS = std::popcount(WINDOW_MASK);
    const int64_t offset = static_cast<int64_t>(a.at[lane] << WINDOW_BITS) >> WINDOW_BITS;
    stop_as(rule::OUT_OF_BOUNDS, warp, 1u << lane, use.what, ": offset ", offset,
            " is outside the ", limit, " bytes of ", of, ".");
  });
}

void to_local(Warp& warp, uint32_t mask, const Use& use, Addresses& a) {
  const uint64_t bytes = program_of(warp).local_bytes;
  to_offsets(warp, mask, use, a, bytes, "the thread's local memory");
  const auto base = reinterpret_cast<uint64_t>(warp.local);
  for (uint32_t lane = 0; lane < LANES; ++lane) a.at[lane] += base + lane * bytes;
}

void to_param(Warp& warp, uint32_t mask, const Use& use, Addresses& a) {
  const Grid& grid = grid_of(warp);
  if (use.access != Access::read) {
    stop(warp, mask, use.what, " to the kernel's parameters, which are read-only.");
  }
  to_offsets(warp, mask, use, a, grid.params.size(), "the kernel's parameters");
  a.add(reinterpret_cast<uint64_t>(grid.params.data()));
}

// Turns addresses of a space into host addresses.
void to_host(Warp& warp, uint32_t mask, Where where, const Use& use, Addresses& a) {
  switch (where) {
    case Where::global:
      return to_global(warp, mask, use, a);
    case Where::shared_cta:
    case Where::shared_cluster:
      return to_shared(warp, mask, where, use, a);
    case Where::local:
      return to_local(warp, mask, use, a);
    case Where::param:  // a call's parameters are in local memory
    case Where::generic:
      break;
  }
  const uint64_t window = a.low & WINDOW_MASK;
  if (window == (a.high & WINDOW_MASK)) {
    if (window == SHARED_WINDOW) return to_shared(warp, mask, Where::shared_cluster, use, a);
    if (window == LOCAL_WINDOW) return to_local(warp, mask, use, a);
    if (window == PARAM_WINDOW) return to_param(warp, mask, use, a);
    return to_global(warp, mask, use, a);
  }
  const auto window_of = [&a](uint32_t lane) { return a.at[lane] & WINDOW_MASK; };
  Use of_part = use;
  of_part.store = nullptr;  // its addresses are not the part's
  for_groups(mask, window_of, [&](uint64_t, uint32_t lanes) {
    Addresses part;
    part.fill(lanes, [&a](uint32_t lane) { return a.at[lane]; });
    to_host(warp, lanes, where, of_part, part);
    for_lanes(lanes, [&](uint32_t lane) { a.at[lane] = part.at[lane]; });
  });
}

// Where the checker names host memory of an access.
uint64_t generic_address(const Warp& warp, uint64_t host) {
  for (const Cta& cta : warp.cta->cluster->ctas) {
    const uint64_t offset = host - reinterpret_cast<uint64_t>(cta.smem);
    if (offset < cta.smem_bytes) {
      return SHARED_WINDOW | (cta.rank << RANK_SHIFT) | (SMEM_BASE + offset);
    }
  }
  return host;
}

void check_alignment(Warp& warp, uint32_t mask, const Addresses& a, uint32_t bytes,
                     const char* what) {
  if ((a.all_bits & (bytes - 1)) == 0) return;
  for_lanes(mask, [&](uint32_t lane) {
    if ((a.at[lane] & (bytes - 1)) == 0) return;
    stop_as(rule::MISALIGNED, warp, 1u << lane, what, ": the address ", hex(a.at[lane]),
            " is not a multiple of ", bytes, ", as an access of ", bytes, " bytes needs.");
  });
}

}  // namespace

void resolve_computed(Warp& warp, Where where, uint32_t mask, uint32_t bytes, Access access,
                      const char* what, Addresses& a) {
  check_alignment(warp, mask, a, bytes, what);
  to_host(warp, mask, where, {bytes, access, Order::weak, Scope::gpu, what}, a);
}

void resolve(Warp& warp, const Inst& inst, const Slot& slot, uint32_t mask, uint32_t bytes,
             Access access, const char* what, Addresses& a, Store* store, uint64_t* host_delta) {
  const auto qualifiers = inst.as<AccessQualifiers>();
  const Use use{bytes,         access, qualifiers.order, qualifiers.scope, what,
                inst.variable, store,  host_delta,       inst.is_early};
  const uint64_t offset = static_cast<uint64_t>(int64_t{slot.offset});
  if (slot.width == Width::w64) {
    const auto* const base = warp.row<const uint64_t>(slot.row);
    a.fill(mask, [=](uint32_t lane) { return base[lane] + offset; });
  } else {
    const auto* const base = warp.row<const uint32_t>(slot.row);
    a.fill(mask,
           [=](uint32_t lane) { return uint64_t{base[lane] + static_cast<uint32_t>(offset)}; });
  }
  check_alignment(warp, mask, a, bytes, what);
  to_host(warp, mask, qualifiers.where, use, a);
}

void look_for_poison(Warp& warp, Where where, uint32_t mask, const Addresses& a, uint32_t bytes) {
  Checker* const checker = warp.cta->cluster->checker.get();
  if (checker == nullptr || !checker->looks_for_poison) return;
  if (where == Where::local || where == Where::param) return;
  const bool shared = where == Where::shared_cta || where == Where::shared_cluster;
  if (shared && !checker->poison_in_shared) return;
  uint32_t found = 0;
  const auto look = [&](uint64_t offset) {
    for_lanes(mask, [&](uint32_t lane) {
      const auto* const cell = reinterpret_cast<const uint64_t*>((a.at[lane] + offset) & ~7ull);
      found |= uint32_t{*cell == POISON} << lane;
    });
  };
  look(0);
  if (bytes > 8) look(8);
  if (found == 0) return;
  checker->never_written(warp, found, generic_address(warp, a.at[first_lane(found)]));
}

void check_global(Warp& warp, uint32_t lane, uint64_t address, uint64_t bytes, const char* what) {
  if (is_allocated(address, address, bytes)) return;
  stop_as(rule::OUT_OF_BOUNDS, warp, 1u << lane, what, where_it_is(address, bytes));
}

Cta* cta_of(Cluster& cluster, uint32_t shared_address) {
  const uint32_t rank = shared_address >> RANK_SHIFT;
  return rank < cluster.ctas.size() ? &cluster.ctas[rank] : nullptr;
}

// `cta`: of the address; there is none where it is null.
[[noreturn, gnu::cold]] static void outside_shared(Warp& warp, uint32_t mask, const Cta* cta,
                                                   uint32_t address, uint32_t bytes,
                                                   const char* what) {
  if (cta == nullptr) {
    stop_as(rule::OUT_OF_BOUNDS, warp, mask, what, ": shared ", hex(address),
            " is in a CTA of rank ", address >> RANK_SHIFT, ", and the cluster has ",
            warp.cta->cluster->ctas.size(), ".");
  }
  stop_as(rule::OUT_OF_BOUNDS, warp, mask, what, ": the ", bytes, " bytes at shared ", hex(address),
          " are not all in the CTA's shared memory, ", cta->smem_bytes, " bytes from ",
          hex(SMEM_BASE | cta->rank << RANK_SHIFT), ".");
}

std::byte* shared_bytes(Warp& warp, uint32_t mask, uint32_t address, uint32_t bytes,
                        const char* what) {
  Cta* const cta = cta_of(*warp.cta->cluster, address);
  const uint64_t offset = address & OFFSET_MASK, end = offset + bytes;
  if (cta == nullptr || offset < SMEM_BASE || end > SMEM_BASE + uint64_t{cta->smem_bytes}) {
    outside_shared(warp, mask, cta, address, bytes, what);
  }
  check_shared_variable(warp, mask, *cta, address, bytes, what);
  return cta->smem + (offset - SMEM_BASE);
}

}  // namespace machine
