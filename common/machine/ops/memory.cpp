// Loads, stores, and cvta. Addresses are address.h's. It knows nothing of order: what a load acquires
// is told to the checker with its address.
#include <atomic>

#include "common/machine/ops/address.h"
#include "common/machine/ops/elementwise.h"
#include "common/machine/run/observer.h"

namespace machine {
namespace {

// T: of memory; signed ones are extended to the register.
template <class T>
Step load(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t count = element_count(inst);
  Addresses a;
  resolve(warp, inst, inst.slots[count], mask, count * sizeof(T), Access::read, "ld", a);
  if (!inst.is_early) look_for_poison(warp, where_of(inst), mask, a, count * sizeof(T));
  for (uint32_t i = 0; i < count; ++i) {
    const Slot& to = inst.slots[i];
    with_row(warp, to.row, to.width, [&a, mask, offset = i * sizeof(T)]<class R>(R* d) {
      for_lanes(mask, [&a, d, offset](uint32_t lane) {
        d[lane] = static_cast<R>(*reinterpret_cast<const T*>(a.at[lane] + offset));
      });
    });
  }
  if (order_of(inst) == Order::weak) return Step::next;
  if (order_of(inst) == Order::acquire) std::atomic_thread_fence(std::memory_order_acquire);
  observer_of(warp).tell(&Checker::loaded, warp);
  return Step::next;
}

template <class T>
class PlainStore final : public Store {
 public:
  PlainStore(Warp& warp, const Inst& inst, uint32_t mask)
      : warp_(warp), inst_(inst), count_(element_count(inst)), left_(mask) {}

  bool is_same(uint32_t lane) const override {
    const auto* const there = reinterpret_cast<const T*>(a.at[lane] + host_delta);
    for (uint32_t i = 0; i < count_; ++i) {
      if (static_cast<T>(value_of(warp_, inst_.slots[1 + i], lane)) != there[i]) return false;
    }
    return true;
  }
  void store(uint32_t lanes) override {
    lanes &= left_;
    left_ &= ~lanes;
    for (uint32_t i = 0; i < count_; ++i) {
      const Slot& from = inst_.slots[1 + i];
      with_row(warp_, from.row, from.width, [this, lanes, offset = i * sizeof(T)](const auto* b) {
        for_lanes(lanes, [this, b, offset](uint32_t lane) {
          *reinterpret_cast<T*>(a.at[lane] + offset) = static_cast<T>(b[lane]);
        });
      });
    }
  }

  Addresses a;
  uint64_t host_delta = 0;  // from an address to the host's

 private:
  Warp& warp_;
  const Inst& inst_;
  uint32_t count_;
  uint32_t left_;  // lanes that have not stored
};

template <class T>
Step store(Warp& warp, const Inst& inst, uint32_t mask) {
  PlainStore<T> store(warp, inst, mask);
  if (order_of(inst) == Order::release) std::atomic_thread_fence(std::memory_order_release);
  resolve(warp, inst, inst.slots[0], mask, element_count(inst) * sizeof(T), Access::write, "st",
          store.a, &store, &store.host_delta);
  store.store(mask);
  return Step::next;
}

// STORES: else it loads.
template <bool STORES>
Handler pick_access(Opcode& opcode) {
  const AccessQualifiers qualifiers = access_qualifiers(opcode, Order::weak);
  opcode.set(qualifiers);
  if (!is_vector_allowed(opcode, qualifiers.count)) return nullptr;
  using enum Type;
  return elementwise::for_type<s8, u8, s16, u16, s32, u32, u64>(
      opcode.type(), []<Type T>() -> Handler {
        using Element = elementwise::Value<T>;
        return STORES ? store<Element> : load<Element>;
      });
}

struct ConversionQualifiers {
  Where space;
  bool to_space;  // from a generic address
};

Step convert_address(Warp& warp, const Inst& inst, uint32_t mask) {
  const auto [space, to_space] = inst.as<ConversionQualifiers>();
  const bool shared = space == Where::shared_cta || space == Where::shared_cluster;
  const uint64_t window = shared ? SHARED_WINDOW : space == Where::local ? LOCAL_WINDOW : 0;
  const uint64_t kept = window == 0 ? ~0ull : shared ? 0xffffffff : ~WINDOW_MASK;
  const uint64_t added = to_space ? 0 : window;
  uint64_t* const d = warp.row<uint64_t>(inst.op[0]);
  const uint64_t* const a = warp.row<uint64_t>(inst.op[1]);
  for_lanes(mask, [=](uint32_t lane) { d[lane] = (a[lane] & kept) | added; });
  return Step::next;
}
Handler pick_cvta(Opcode& opcode) {
  opcode.set(ConversionQualifiers{where(opcode), opcode.has(".to")});
  return convert_address;
}

Step create_policy(Warp& warp, const Inst& inst, uint32_t mask) {
  set_value(warp, inst.slots[0], mask, 0);
  return Step::next;
}

#define MEMORY_TYPES "{.b8,.u8,.s8,.b16,.u16,.s16,.b32,.u32,.s32,.f32,.b64,.u64,.s64,.f64}"

const Row ROWS[] = {
    {"ld" LOAD MEMORY_TYPES, "d:x, [a], policy:64?", pick_access<false>, "d = memory at a"},
    {"ld" LOAD "{.v2,.v4}" MEMORY_TYPES, "{d:x}, [a], policy:64?", pick_access<false>,
     "d = 2 or 4 elements, 16 bytes at the most"},
    {"ldu{.global,}" MEMORY_TYPES, "d:x, [a]", pick_access<false>, "d = memory at a"},
    {"ldu{.global,}{.v2,.v4}" MEMORY_TYPES, "{d:x}, [a]", pick_access<false>, "as ld"},
    {"st" STORE MEMORY_TYPES, "[a], b:x, policy:64?", pick_access<true>, "memory at a = b"},
    {"st" STORE "{.v2,.v4}" MEMORY_TYPES, "[a], {b:x}, policy:64?", pick_access<true>,
     "memory at a = 2 or 4 elements, 16 bytes at the most"},
    {"cvta{.to,}{.global,.shared,.shared::cta,.shared::cluster,.local,.param,.param::entry,.const}"
     ".u64",
     "d:t, a:t", pick_cvta, "d = the generic address of a, or back"},
    {"createpolicy{.fractional,.range,}{.global,}{.cvt.L2,.L2::evict_last,.L2::evict_normal,"
     ".L2::evict_first,.L2::evict_unchanged}{.L2::evict_first,.L2::evict_unchanged,}.b64",
     "d:t, *", always<create_policy>, "d = a policy, which is ignored"},
};

}  // namespace

const Section sections::MEMORY{"Loads, stores and addresses", ROWS};

}  // namespace machine
