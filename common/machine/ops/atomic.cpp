// atom of integers of 32 and 64 bits. It knows nothing of how lanes take turns (atomic.h).
#include "common/machine/ops/atomic.h"

namespace machine {
namespace {

Handler pick_atomic(Opcode& opcode) {
  using enum Type;
  AccessQualifiers qualifiers = access_qualifiers(opcode, Order::relaxed);
  qualifiers.reduction = reduction_of(opcode);
  opcode.set(qualifiers);
  const Type type = opcode.type();
  if (!updates_integers(qualifiers.reduction, type)) return nullptr;
  return elementwise::for_type<s32, s64, u32, u64>(
      is_signed(type) ? type : elementwise::unsigned_of(type), []<Type T>() -> Handler {
        using Value = elementwise::Value<T>;
        using Word = std::make_unsigned_t<Value>;
        return atomic<updated_integer<Value, Word>, Word, true>;
      });
}

const Row ROWS[] = {
    {"atom" ATOMIC(UPDATES) "{.b32,.u32,.s32,.b64,.u64,.s64}", "d:t, [a], b:t, policy:64?",
     pick_atomic, "d = memory at a, which becomes (d op b)"},
};

}  // namespace

const Section sections::ATOMIC{"Atomics", ROWS};

}  // namespace machine
