// Loads, stores, atomics and address conversion, for all state spaces. A warp's addresses become
// host addresses at once where all lie in one allocation, or in the CTA's own shared memory.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "common/machine/check/checker.h"
#include "common/machine/code/isa.h"
#include "common/machine/code/shared_layout.h"
#include "common/machine/ops/number.h"
#include "common/machine/ops/sync.h"
#include "common/machine/run/trace.h"

namespace machine {
namespace {

// ---- What an access does ------------------------------------------------------------------------

enum class Where : uint8_t { generic, global, shared_cta, shared_cluster, local, param };

// Inst::mods: Where in bits 0 to 3, Order, Scope, the number of elements, then an atomic's operation.
constexpr uint32_t ORDER_SHIFT = 4, SCOPE_SHIFT = 8, COUNT_SHIFT = 12, OPERATION_SHIFT = 16;

Order order_of(const Inst& inst) {
  return static_cast<Order>(inst.mods >> ORDER_SHIFT & 15);
}
uint32_t count_of(const Inst& inst) {
  return inst.mods >> COUNT_SHIFT & 15;
}

Where where(const Opcode& opcode) {
  if (opcode.has(".global") || opcode.has(".const")) return Where::global;
  if (opcode.has(".shared") || opcode.has(".shared::cta")) return Where::shared_cta;
  if (opcode.has(".shared::cluster")) return Where::shared_cluster;
  if (opcode.has(".local")) return Where::local;
  const bool param =
      opcode.has(".param") || opcode.has(".param::entry") || opcode.has(".param::func");
  return param ? Where::param : Where::generic;
}

// `unsaid`: the order that it has if none is given.
uint32_t access_mods(const Opcode& opcode, Order unsaid) {
  const Order order = opcode.has(".relaxed") || opcode.has(".volatile") ? Order::relaxed
                      : opcode.has(".acquire")                          ? Order::acquire
                      : opcode.has(".release")                          ? Order::release
                      : opcode.has(".acq_rel")                          ? Order::acq_rel
                                                                        : unsaid;
  const Scope scope = opcode.has(".cta")       ? Scope::cta
                      : opcode.has(".cluster") ? Scope::cluster
                                               : Scope::gpu;
  const uint32_t count = opcode.has(".v2") ? 2 : opcode.has(".v4") ? 4 : opcode.has(".v8") ? 8 : 1;
  return static_cast<uint32_t>(where(opcode)) | static_cast<uint32_t>(order) << ORDER_SHIFT |
         static_cast<uint32_t>(scope) << SCOPE_SHIFT | count << COUNT_SHIFT;
}

// ---- Addresses ----------------------------------------------------------------------------------

// Of 32 lanes; lanes that do not take part have the address of one that does.
struct Addresses {
  uint64_t at[LANES];
  uint64_t low, high, all_bits;

  template <class F>
  void fill(uint32_t mask, F&& address) {
    if (mask == FULL) {
      for (uint32_t lane = 0; lane < LANES; ++lane) at[lane] = address(lane);
    } else {
      std::fill(at, at + LANES, address(static_cast<uint32_t>(std::countr_zero(mask))));
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

struct Use {
  uint32_t bytes;  // of a lane
  Access access;
  Order order;
  Scope scope;
  const char* what;
  uint16_t variable = 0;           // Inst::variable
  SameValue* same = nullptr;       // of a plain store
  uint64_t* host_delta = nullptr;  // for it: what is added to an address
};

// Allocations that this thread has found lately.
struct AllocationCache {
  Allocation ranges[8];
  uint32_t next = 0;
  uint64_t generation = 0;
};

// Whether `bytes` bytes at each address from low to high are in one living allocation.
bool is_allocated(uint64_t low, uint64_t high, uint64_t bytes) {
  thread_local AllocationCache cache;
  const uint64_t generation = allocation_generation();
  if (cache.generation != generation) cache = AllocationCache{{}, 0, generation};
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

// ": the 4 bytes at 0x7f… are …", of memory that must not be accessed.
std::string where_it_is(uint64_t address, uint64_t bytes) {
  const std::string text = ": the " + std::to_string(bytes) + " bytes at " + hex(address);
  const auto range = [](const Allocation& a) {
    return std::to_string(a.bytes) + " bytes from " + a.what + " at " + hex(a.base);
  };
  if ((address & WINDOW_MASK) == SHARED_WINDOW) return text + " are in shared memory.";
  if ((address & WINDOW_MASK) == LOCAL_WINDOW) return text + " are in local memory.";
  if ((address & WINDOW_MASK) == PARAM_WINDOW) return text + " are in the kernel's parameters.";
  Allocation a;
  if (find_allocation(address, &a) && a.freed) return text + " have been freed: " + range(a) + ".";
  if (!nearest_allocation(address, &a)) return text + " are in no allocation, and there is none.";
  const uint64_t end = a.base + a.bytes;
  if (address >= a.base && address < end) {
    return text + " begin " + std::to_string(end - address) + " bytes before the end of " +
           range(a) + ".";
  }
  const bool behind = address >= end;
  return text + " are in no allocation; they begin " +
         std::to_string(behind ? address - end : a.base - address) + " bytes " +
         (behind ? "behind the end" : "before the start") + " of the nearest: " + range(a) + ".";
}

void to_global(Warp& warp, uint32_t mask, const Use& use, Addresses& a) {
  Cluster& cluster = *warp.cta->cluster;
  if (!is_allocated(a.low, a.high, use.bytes)) {
    for_lanes(mask,
              [&](uint32_t lane) { check_global(warp, lane, a.at[lane], use.bytes, use.what); });
  }
  if (cluster.checker) {
    cluster.checker->global_access(warp, mask, a.at, use.bytes, use.access, use.order, use.scope,
                                   use.same);
  }
  if (use.access != Access::write && use.order != Order::weak) cluster.polled_global = true;
  if (use.access != Access::read && cluster.trace) cluster.trace->store(warp);
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
void check_shared_variable(Warp& warp, uint32_t mask, uint32_t address, uint32_t bytes,
                           const char* what) {
  const Cta& cta = *cta_of(*warp.cta->cluster, address);
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
  const SharedVariable& variable =
      warp.cta->cluster->grid->program->shared_variables[use.variable - 1];
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
      if (where == Where::shared_cta && address >> RANK_SHIFT != cta.rank) {
        stop(warp, 1u << lane, use.what, ": shared ", hex(address),
             " is not in the executing CTA (rank ", cta.rank,
             "), and .shared::cta names only its memory.");
      }
      bytes[lane] = shared_bytes(warp, 1u << lane, address, use.bytes, use.what);
    });
  }
  if (Checker* const checker = cta.cluster->checker.get()) {
    uint32_t addresses[LANES];
    for (uint32_t lane = 0; lane < LANES; ++lane)
      addresses[lane] = static_cast<uint32_t>(a.at[lane]);
    if (use.order == Order::weak) {
      if (use.host_delta != nullptr) *use.host_delta = reinterpret_cast<uint64_t>(cta.smem) - first;
      checker->shared_access(warp, mask, addresses, use.bytes, use.access,
                             own ? use.same : nullptr);
    } else {
      checker->shared_strong(warp, mask, addresses, use.bytes, use.access, use.order, use.scope);
    }
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
    stop_as(rule::OUT_OF_BOUNDS, warp, 1u << lane, use.what, ": offset ", a.at[lane],
            " is outside the ", limit, " bytes of ", of, ".");
  });
}

void to_local(Warp& warp, uint32_t mask, const Use& use, Addresses& a) {
  const uint64_t bytes = warp.cta->cluster->grid->program->local_bytes;
  to_offsets(warp, mask, use, a, bytes, "the thread's local memory");
  const auto base = reinterpret_cast<uint64_t>(warp.local);
  for (uint32_t lane = 0; lane < LANES; ++lane) a.at[lane] += base + lane * bytes;
}

void to_param(Warp& warp, uint32_t mask, const Use& use, Addresses& a) {
  const Grid& grid = *warp.cta->cluster->grid;
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
  while (mask != 0) {  // a part for each window
    const uint64_t first = a.at[std::countr_zero(mask)];
    uint32_t same = 0;
    for_lanes(mask, [&](uint32_t lane) {
      same |= uint32_t{((a.at[lane] ^ first) & WINDOW_MASK) == 0} << lane;
    });
    Addresses part;
    part.fill(same, [&a](uint32_t lane) { return a.at[lane]; });
    to_host(warp, same, where, use, part);
    for_lanes(same, [&](uint32_t lane) { a.at[lane] = part.at[lane]; });
    mask &= ~same;
  }
}

// Host addresses of an access of `bytes` bytes a lane at the address in a slot.
void resolve(Warp& warp, const Inst& inst, const Slot& slot, uint32_t mask, uint32_t bytes,
             Access access, const char* what, Addresses& a, SameValue* same = nullptr,
             uint64_t* host_delta = nullptr) {
  const Use use{
      bytes, access,        order_of(inst), static_cast<Scope>(inst.mods >> SCOPE_SHIFT & 15),
      what,  inst.variable, same,           host_delta};
  const uint64_t offset = static_cast<uint64_t>(int64_t{slot.offset});
  if (slot.width == Width::w64) {
    const auto* const base = warp.row<const uint64_t>(slot.row);
    a.fill(mask, [=](uint32_t lane) { return base[lane] + offset; });
  } else {
    const auto* const base = warp.row<const uint32_t>(slot.row);
    a.fill(mask,
           [=](uint32_t lane) { return uint64_t{base[lane] + static_cast<uint32_t>(offset)}; });
  }
  if ((a.all_bits & (bytes - 1)) != 0) {
    for_lanes(mask, [&](uint32_t lane) {
      if ((a.at[lane] & (bytes - 1)) == 0) return;
      stop_as(rule::MISALIGNED, warp, 1u << lane, what, ": the address ", hex(a.at[lane]),
              " is not a multiple of ", bytes, ", as an access of ", bytes, " bytes needs.");
    });
  }
  to_host(warp, mask, static_cast<Where>(inst.mods & 15), use, a);
}

// ---- What was never written -----------------------------------------------------------------------

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

// `a`: host addresses of an access of `bytes` bytes a lane to global or shared memory.
void look_for_poison(Warp& warp, const Inst& inst, uint32_t mask, const Addresses& a,
                     uint32_t bytes) {
  Checker* const checker = warp.cta->cluster->checker.get();
  if (checker == nullptr || !checker->looks_for_poison) return;
  const Where where = static_cast<Where>(inst.mods & 15);
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
  const auto lane = static_cast<uint32_t>(std::countr_zero(found));
  checker->never_written(warp, found, generic_address(warp, a.at[lane]));
}

// ---- Loads and stores ---------------------------------------------------------------------------

// T: of memory; signed ones are extended to the register.
template <class T>
Step load(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t count = count_of(inst);
  Addresses a;
  resolve(warp, inst, inst.slots[count], mask, count * sizeof(T), Access::read, "ld", a);
  look_for_poison(warp, inst, mask, a, count * sizeof(T));
  const auto copy = [&]<class R>(R* d, uint64_t offset) {
    for_lanes(mask, [&a, d, offset](uint32_t lane) {
      d[lane] = static_cast<R>(*reinterpret_cast<const T*>(a.at[lane] + offset));
    });
  };
  for (uint32_t i = 0; i < count; ++i) {
    const Slot& d = inst.slots[i];
    if (d.width == Width::w64) {
      copy(warp.row<uint64_t>(d.row), i * sizeof(T));
    } else {
      copy(warp.row<uint32_t>(d.row), i * sizeof(T));
    }
  }
  if (order_of(inst) == Order::acquire) std::atomic_thread_fence(std::memory_order_acquire);
  return Step::next;
}

template <class T>
class StoresSame final : public SameValue {
 public:
  StoresSame(Warp& warp, const Inst& inst, const Addresses& a) : warp_(warp), inst_(inst), a_(a) {}

  bool operator()(uint32_t lane) const override {
    const auto* const there = reinterpret_cast<const T*>(a_.at[lane] + host_delta);
    for (uint32_t i = 0; i < count_of(inst_); ++i) {
      if (static_cast<T>(value_of(warp_, inst_.slots[1 + i], lane)) != there[i]) return false;
    }
    return true;
  }

  uint64_t host_delta = 0;  // from an address to the host's

 private:
  Warp& warp_;
  const Inst& inst_;
  const Addresses& a_;
};

template <class T>
Step store(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t count = count_of(inst);
  Addresses a;
  StoresSame<T> same(warp, inst, a);
  resolve(warp, inst, inst.slots[0], mask, count * sizeof(T), Access::write, "st", a, &same,
          &same.host_delta);
  if (order_of(inst) == Order::release) std::atomic_thread_fence(std::memory_order_release);
  const auto copy = [&]<class R>(const R* b, uint64_t offset) {
    for_lanes(mask, [&a, b, offset](uint32_t lane) {
      *reinterpret_cast<T*>(a.at[lane] + offset) = static_cast<T>(b[lane]);
    });
  };
  for (uint32_t i = 0; i < count; ++i) {
    const Slot& b = inst.slots[1 + i];
    if (b.width == Width::w64) {
      copy(warp.row<const uint64_t>(b.row), i * sizeof(T));
    } else {
      copy(warp.row<const uint32_t>(b.row), i * sizeof(T));
    }
  }
  return Step::next;
}

// Vectors have 16 bytes at the most.
bool is_vector_allowed(const Opcode& opcode, uint32_t count) {
  return count * bytes_of(opcode.type()) <= 16;
}

Handler pick_load(Opcode& opcode) {
  opcode.mods = access_mods(opcode, Order::weak);
  if (!is_vector_allowed(opcode, opcode.mods >> COUNT_SHIFT)) return nullptr;
  switch (opcode.type()) {
    case Type::s8:
      return load<int8_t>;
    case Type::s16:
      return load<int16_t>;
    case Type::s32:
      return load<int32_t>;
    default:
      break;
  }
  switch (bytes_of(opcode.type())) {
    case 1:
      return load<uint8_t>;
    case 2:
      return load<uint16_t>;
    case 4:
      return load<uint32_t>;
    default:
      return load<uint64_t>;
  }
}
Handler pick_store(Opcode& opcode) {
  opcode.mods = access_mods(opcode, Order::weak);
  if (!is_vector_allowed(opcode, opcode.mods >> COUNT_SHIFT)) return nullptr;
  switch (bytes_of(opcode.type())) {
    case 1:
      return store<uint8_t>;
    case 2:
      return store<uint16_t>;
    case 4:
      return store<uint32_t>;
    default:
      return store<uint64_t>;
  }
}

// ---- Atomics ------------------------------------------------------------------------------------

enum class Operation : uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor, exch, cas };
constexpr std::string_view OPERATIONS[] = {".add", ".min", ".max", ".inc",  ".dec",
                                           ".and", ".or",  ".xor", ".exch", ".cas"};

// Sums and extremes of two numbers of a type, as bits. Global memory has adders of its own: they
// flush f32 and pass on a NaN of f64 as it is.
template <Type T, class Word>
Word combine(Operation operation, Word a, Word b, bool global) {
  const auto pick = [operation](auto x, auto y) {
    if (operation == Operation::add) return static_cast<decltype(x)>(x + y);
    if (x != x) return y;
    return (operation == Operation::min) == (y < x) ? y : x;
  };
  if constexpr (T == Type::f32) {
    const auto tiny = [global](uint32_t x) {
      return global && (x & 0x7f800000) == 0 ? x >> 31 << 31 : x;
    };
    const float sum = pick(std::bit_cast<float>(tiny(a)), std::bit_cast<float>(tiny(b)));
    return sum != sum ? F32_NAN : tiny(std::bit_cast<uint32_t>(sum));
  } else if constexpr (T == Type::f64) {
    const double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b);
    constexpr uint64_t QUIET = 1ull << 51;
    if (x == x && y == y) return std::bit_cast<uint64_t>(x + y);
    if (global) return y != y ? b : a;
    return (x != x ? a : b) | QUIET;
  } else if constexpr (T == Type::f16) {
    return static_cast<Word>(f16_from_f32(pick(f32_from_f16(a), f32_from_f16(b))));
  } else if constexpr (T == Type::bf16) {
    return static_cast<Word>(bf16_from_f32(pick(f32_from_bf16(a), f32_from_bf16(b))));
  } else if constexpr (T == Type::f16x2 || T == Type::bf16x2) {
    constexpr Type HALF = T == Type::f16x2 ? Type::f16 : Type::bf16;
    return pack_x2(combine<HALF>(operation, upper_half(a), upper_half(b), global),
                   combine<HALF>(operation, lower_half(a), lower_half(b), global));
  } else {
    using Value =
        std::conditional_t<T == Type::s32 || T == Type::s64, std::make_signed_t<Word>, Word>;
    if (operation == Operation::add) return a + b;
    return static_cast<Word>(pick(static_cast<Value>(a), static_cast<Value>(b)));
  }
}

// What takes the place of `old`.
template <Type T, class Word>
Word updated(Operation operation, Word old, Word b, Word c, bool global) {
  switch (operation) {
    case Operation::inc:
      return old >= b ? Word{0} : static_cast<Word>(old + 1);
    case Operation::dec:
      return old == 0 || old > b ? b : static_cast<Word>(old - 1);
    case Operation::bit_and:
      return old & b;
    case Operation::bit_or:
      return old | b;
    case Operation::bit_xor:
      return old ^ b;
    case Operation::exch:
      return b;
    case Operation::cas:
      return old == b ? c : old;
    default:
      return combine<T>(operation, old, b, global);
  }
}

// atom: d, [a], b, c; red, without d: [a], b. Vectors element by element.
template <Type T, class Word, bool RETURNS>
Step atomic(Warp& warp, const Inst& inst, uint32_t mask) {
  using Row = std::conditional_t<sizeof(Word) == 8, uint64_t, uint32_t>;
  const uint32_t count = count_of(inst);
  const uint32_t address = RETURNS ? count : 0, b = address + 1;
  const auto operation = static_cast<Operation>(inst.mods >> OPERATION_SHIFT);
  Addresses a;
  resolve(warp, inst, inst.slots[address], mask, count * sizeof(Word), Access::atomic,
          RETURNS ? "atom" : "red", a);
  if (operation != Operation::exch) look_for_poison(warp, inst, mask, a, count * sizeof(Word));
  const auto& memory = warp.cta->cluster->memory;  // with all shared memory of the cluster
  bool changed = false;
  for_lanes(mask, [&](uint32_t lane) {
    for (uint32_t i = 0; i < count; ++i) {
      Word* const at = reinterpret_cast<Word*>(a.at[lane]) + i;
      const auto* const byte = reinterpret_cast<const std::byte*>(at);
      const bool global = byte < memory.data() || byte >= memory.data() + memory.size();
      const auto x = static_cast<Word>(warp.row<Row>(inst.slots[b + i].row)[lane]);
      const auto y = operation == Operation::cas
                         ? static_cast<Word>(warp.row<Row>(inst.slots[b + 1].row)[lane])
                         : Word{0};
      std::atomic_ref<Word> cell(*at);
      Word old = cell.load(), made;
      do {
        made = updated<T>(operation, old, x, y, global);
      } while (!cell.compare_exchange_weak(old, made));
      changed = changed || made != old;
      if (RETURNS) warp.row<Row>(inst.slots[i].row)[lane] = old;
    }
  });
  if (changed) ++warp.cta->cluster->changes;
  return Step::next;
}

template <Type T, class Word>
Handler choose_atomic(const Opcode& opcode) {
  return opcode.text.starts_with("atom") ? atomic<T, Word, true> : atomic<T, Word, false>;
}

Handler pick_atomic(Opcode& opcode) {
  constexpr size_t OPERATION_GROUP = 5;  // of all rows' patterns
  const auto* const found =
      std::find(std::begin(OPERATIONS), std::end(OPERATIONS), opcode.group[OPERATION_GROUP]);
  const auto operation = static_cast<Operation>(found - std::begin(OPERATIONS));
  opcode.mods = access_mods(opcode, Order::relaxed);
  const uint32_t count = opcode.mods >> COUNT_SHIFT;
  opcode.mods |= static_cast<uint32_t>(operation) << OPERATION_SHIFT;
  const bool arithmetic = operation <= Operation::max,
             counts = operation == Operation::inc || operation == Operation::dec;
  const Type type = opcode.type();
  const bool vector_allowed =
      count == 1 || (is_float(type) && type != Type::f64 && is_vector_allowed(opcode, count));
  if (!vector_allowed) return nullptr;
  if (is_float(type) && !arithmetic) return nullptr;
  if (is_float(type) && operation != Operation::add && count == 1) return nullptr;
  if (counts && type != Type::u32) return nullptr;
  switch (type) {
    case Type::s32:
      return operation <= Operation::max ? choose_atomic<Type::s32, uint32_t>(opcode) : nullptr;
    case Type::s64:
      return operation <= Operation::max ? choose_atomic<Type::s64, uint64_t>(opcode) : nullptr;
    case Type::u32:
      return arithmetic || counts ? choose_atomic<Type::u32, uint32_t>(opcode) : nullptr;
    case Type::u64:
      return arithmetic ? choose_atomic<Type::u64, uint64_t>(opcode) : nullptr;
    case Type::b16:
      return arithmetic ? nullptr : choose_atomic<Type::u16, uint16_t>(opcode);
    case Type::b32:
      return arithmetic ? nullptr : choose_atomic<Type::u32, uint32_t>(opcode);
    case Type::b64:
      return arithmetic ? nullptr : choose_atomic<Type::u64, uint64_t>(opcode);
    case Type::f16:
      return choose_atomic<Type::f16, uint16_t>(opcode);
    case Type::bf16:
      return choose_atomic<Type::bf16, uint16_t>(opcode);
    case Type::f16x2:
      return choose_atomic<Type::f16x2, uint32_t>(opcode);
    case Type::bf16x2:
      return choose_atomic<Type::bf16x2, uint32_t>(opcode);
    case Type::f32:
      return choose_atomic<Type::f32, uint32_t>(opcode);
    case Type::f64:
      return choose_atomic<Type::f64, uint64_t>(opcode);
    default:
      return nullptr;
  }
}

// ---- Conversion of addresses --------------------------------------------------------------------

constexpr uint32_t TO_SPACE = 1 << 4;  // of cvta, beside Where

Step convert_address(Warp& warp, const Inst& inst, uint32_t mask) {
  const Where space = static_cast<Where>(inst.mods & 15);
  const bool shared = space == Where::shared_cta || space == Where::shared_cluster;
  const uint64_t window = shared ? SHARED_WINDOW : space == Where::local ? LOCAL_WINDOW : 0;
  const uint64_t kept = window == 0 ? ~0ull : shared ? 0xffffffff : ~WINDOW_MASK;
  const uint64_t added = inst.mods & TO_SPACE ? 0 : window;
  uint64_t* const d = warp.row<uint64_t>(inst.op[0]);
  const uint64_t* const a = warp.row<uint64_t>(inst.op[1]);
  for_lanes(mask, [=](uint32_t lane) { d[lane] = (a[lane] & kept) | added; });
  return Step::next;
}
Handler pick_cvta(Opcode& opcode) {
  opcode.mods = static_cast<uint32_t>(where(opcode)) | (opcode.has(".to") ? TO_SPACE : 0);
  return convert_address;
}

Step is_in_space(Warp& warp, const Inst& inst, uint32_t mask) {
  const Where space = static_cast<Where>(inst.mods);
  const Slot& a = inst.slots[1];
  uint32_t result = 0;
  for_lanes(mask, [&](uint32_t lane) {
    const uint64_t address = value_of(warp, a, lane), window = address & WINDOW_MASK;
    const bool own = static_cast<uint32_t>(address) >> RANK_SHIFT == warp.cta->rank;
    const bool is_in = space == Where::global           ? window == 0
                       : space == Where::local          ? window == LOCAL_WINDOW
                       : space == Where::param          ? window == PARAM_WINDOW
                       : space == Where::shared_cluster ? window == SHARED_WINDOW
                                                        : window == SHARED_WINDOW && own;
    result |= uint32_t{is_in} << lane;
  });
  uint32_t& p = warp.pred(inst.op[0]);
  p = (p & ~mask) | result;
  return Step::next;
}
// A .const variable is known by the name of its allocation.
Step is_in_const(Warp& warp, const Inst& inst, uint32_t mask) {
  uint32_t result = 0;
  for_lanes(mask, [&](uint32_t lane) {
    Allocation at;
    const bool found = find_allocation(value_of(warp, inst.slots[1], lane), &at);
    result |= uint32_t{found && at.what.starts_with("constant ")} << lane;
  });
  uint32_t& p = warp.pred(inst.op[0]);
  p = (p & ~mask) | result;
  return Step::next;
}
Handler pick_isspacep(Opcode& opcode) {
  if (opcode.has(".const")) return is_in_const;
  opcode.mods = static_cast<uint32_t>(where(opcode));
  return is_in_space;
}

// ---- Hints --------------------------------------------------------------------------------------

Step nothing(Warp&, const Inst&, uint32_t) {
  return Step::next;
}
Handler pick_nothing(Opcode&) {
  return nothing;
}
Step create_policy(Warp& warp, const Inst& inst, uint32_t mask) {
  uint64_t* const d = warp.row<uint64_t>(inst.op[0]);
  for_lanes(mask, [d](uint32_t lane) { d[lane] = 0; });
  return Step::next;
}
Handler pick_policy(Opcode&) {
  return create_policy;
}

// ---- The table ----------------------------------------------------------------------------------

#define SCOPES "{.cta,.cluster,.gpu,.sys,}"
#define SPACES                                                                  \
  "{.global,.shared,.shared::cta,.shared::cluster,.local,.param,.param::entry," \
  ".param::func,.const,}"
#define HINTS                                                                                   \
  "{.ca,.cg,.cs,.lu,.cv,.wb,.wt,}{.nc,}"                                                        \
  "{.L1::evict_normal,.L1::evict_unchanged,.L1::evict_first,.L1::evict_last,.L1::no_allocate,}" \
  "{.L2::evict_normal,.L2::evict_first,.L2::evict_last,}{.L2::cache_hint,}"                     \
  "{.L2::64B,.L2::128B,.L2::256B,}"
#define MEMORY_TYPES "{.b8,.u8,.s8,.b16,.u16,.s16,.b32,.u32,.s32,.f32,.b64,.u64,.s64,.f64}"
#define LOAD_ORDERS "{.weak,.volatile,.relaxed,.acquire,.mmio.relaxed,}"
#define STORE_ORDERS "{.weak,.volatile,.relaxed,.release,.mmio.relaxed,}"
#define ATOMIC_ORDERS "{.relaxed,.acquire,.release,.acq_rel,}"
#define ATOMIC_SPACES "{.global,.shared,.shared::cta,.shared::cluster,}"
// The order's place before or behind the space is a matter of taste.
#define LOAD LOAD_ORDERS SCOPES SPACES LOAD_ORDERS SCOPES HINTS
#define STORE "st" STORE_ORDERS SCOPES SPACES STORE_ORDERS SCOPES HINTS
#define ATOMIC(OPERATIONS)                                                         \
  ATOMIC_ORDERS SCOPES ATOMIC_SPACES ATOMIC_ORDERS SCOPES OPERATIONS ATOMIC_ORDERS \
      SCOPES ATOMIC_SPACES "{.noftz,}{.L2::cache_hint,}"
#define UPDATES "{.add,.min,.max,.inc,.dec,.and,.or,.xor,.exch}"
#define ATOMIC_TYPES "{.b16,.b32,.u32,.s32,.b64,.u64,.s64,.f16,.bf16,.f16x2,.bf16x2,.f32,.f64}"

// As in the examples of the PTX ISA: atom.global.v2.f32.add.
#define OLD_ATOMIC                                    \
  ATOMIC_ORDERS SCOPES ATOMIC_SPACES                  \
      "{.v2,.v4,.v8}{.f32,.f16,.bf16,.f16x2,.bf16x2}" \
      "{.add,.min,.max}{.noftz,}{.L2::cache_hint,}"

const Row ROWS[] = {
    {"ld" LOAD MEMORY_TYPES, "d:x, [a], policy:64?", pick_load, "d = memory at a"},
    {"ld" LOAD "{.v2,.v4}" MEMORY_TYPES, "{d:x}, [a], policy:64?", pick_load,
     "d = 2 or 4 elements, 16 bytes at the most"},
    {"ldu{.global,}" MEMORY_TYPES, "d:x, [a]", pick_load, "d = memory at a"},
    {"ldu{.global,}{.v2,.v4}" MEMORY_TYPES, "{d:x}, [a]", pick_load, "as ld"},
    {STORE MEMORY_TYPES, "[a], b:x, policy:64?", pick_store, "memory at a = b"},
    {STORE "{.v2,.v4}" MEMORY_TYPES, "[a], {b:x}, policy:64?", pick_store,
     "memory at a = 2 or 4 elements, 16 bytes at the most"},
    {"atom" ATOMIC(UPDATES) ATOMIC_TYPES, "d:t, [a], b:t, policy:64?", pick_atomic,
     "d = memory at a, which becomes (d op b)"},
    {"atom" ATOMIC("{.cas}") "{.b16,.b32,.b64}", "d:t, [a], b:t, c:t, policy:64?", pick_atomic,
     "d = memory at a, which becomes c if it is b"},
    {"atom" ATOMIC(UPDATES) "{.v2,.v4,.v8}" ATOMIC_TYPES, "{d:t}, [a], {b:t}, policy:64?",
     pick_atomic, "as above, element by element"},
    {"atom" OLD_ATOMIC, "{d:t}, [a], {b:t}, policy:64?", pick_atomic, "as above"},
    {"red" ATOMIC(UPDATES) ATOMIC_TYPES, "[a], b:t, policy:64?", pick_atomic,
     "memory at a becomes (it op b)"},
    {"red" ATOMIC(UPDATES) "{.v2,.v4,.v8}" ATOMIC_TYPES, "[a], {b:t}, policy:64?", pick_atomic,
     "as above, element by element"},
    {"red" OLD_ATOMIC, "[a], {b:t}, policy:64?", pick_atomic, "as above"},
    {"cvta{.to,}{.global,.shared,.shared::cta,.shared::cluster,.local,.param,.param::entry,.const}"
     ".u64",
     "d:t, a:t", pick_cvta, "d = the generic address of a, or back"},
    {"isspacep{.global,.shared,.shared::cta,.shared::cluster,.local,.const,.param,.param::entry}",
     "p:p, a:x", pick_isspacep, "p = whether the generic address a is in the space"},
    {"prefetch{.global,.local,}{.L1,.L2,.L2::evict_last,.L2::evict_normal}", "[a]", pick_nothing,
     "nothing"},
    {"prefetchu.L1", "[a]", pick_nothing, "nothing"},
    {"applypriority{.global,}.L2::evict_normal", "[a], *", pick_nothing, "nothing"},
    {"discard{.global,}.L2", "[a], *", pick_nothing, "nothing"},
    {"createpolicy{.fractional,.range,}{.global,}{.cvt.L2,.L2::evict_last,.L2::evict_normal,"
     ".L2::evict_first,.L2::evict_unchanged}{.L2::evict_first,.L2::evict_unchanged,}.b64",
     "d:t, *", pick_policy, "d = a policy, which is ignored"},
};

}  // namespace

Section memory_section() {
  return {"Loads, stores, atomics and addresses", ROWS, std::size(ROWS)};
}

void check_global(Warp& warp, uint32_t lane, uint64_t address, uint64_t bytes, const char* what) {
  if (is_allocated(address, address, bytes)) return;
  stop_as(rule::OUT_OF_BOUNDS, warp, 1u << lane, what, where_it_is(address, bytes));
}

Cta* cta_of(Cluster& cluster, uint32_t shared_address) {
  const uint32_t rank = shared_address >> RANK_SHIFT;
  return rank < cluster.ctas.size() ? &cluster.ctas[rank] : nullptr;
}

std::byte* shared_bytes(Warp& warp, uint32_t mask, uint32_t address, uint32_t bytes,
                        const char* what) {
  Cta* const cta = cta_of(*warp.cta->cluster, address);
  if (cta == nullptr) {
    stop_as(rule::OUT_OF_BOUNDS, warp, mask, what, ": shared ", hex(address),
            " is in a CTA of rank ", address >> RANK_SHIFT, ", and the cluster has ",
            warp.cta->cluster->ctas.size(), ".");
  }
  const uint64_t offset = address & ((1u << RANK_SHIFT) - 1), end = offset + bytes;
  if (offset < SMEM_BASE || end > SMEM_BASE + uint64_t{cta->smem_bytes}) {
    stop_as(rule::OUT_OF_BOUNDS, warp, mask, what, ": the ", bytes, " bytes at shared ",
            hex(address), " are not all in the CTA's shared memory, ", cta->smem_bytes,
            " bytes from ", hex(SMEM_BASE | cta->rank << RANK_SHIFT), ".");
  }
  check_shared_variable(warp, mask, address, bytes, what);
  return cta->smem + (offset - SMEM_BASE);
}

}  // namespace machine
