// Jumps that each lane picks the target of: functions that kernels call, directly, through pointers or
// by recursion, and tables of labels; printf, assert, malloc and free. It knows nothing of when a warp
// runs.
#include <algorithm>
#include <cstdio>

#include "common/machine/ops/address.h"
#include "common/machine/ops/operands.h"
#include "common/machine/run/control.h"
#include "common/machine/run/settings.h"

namespace machine {
namespace {

std::byte* local_of(Warp& warp, uint32_t lane, uint32_t offset) {
  return warp.local + size_t{lane} * program_of(warp).local_bytes + offset;
}

void copy_params(Warp& warp, uint32_t first, uint32_t count, uint32_t mask) {
  for (uint32_t i = 0; i < count; ++i) {
    const ParamCopy& copy = program_of(warp).param_copies[first + i];
    for_lanes(mask, [&](uint32_t lane) {
      std::memcpy(local_of(warp, lane, copy.to), local_of(warp, lane, copy.from), copy.bytes);
    });
  }
}

// A function that a lane is in already keeps its registers and parameters on the lane's stack: they
// have one place each, which the call is given.
void save(Warp& warp, uint32_t lane, const Callable& callee) {
  constexpr size_t MOST_WORDS = 1 << 17;
  std::vector<uint64_t>& stack = warp.saved[lane];
  if (stack.size() > MOST_WORDS) {
    stop(warp, 1u << lane, "'", callee.function->name,
         "' calls itself without end: a thread's stack has 1 MiB here.");
  }
  for (const Slot& slot : callee.registers) {
    stack.push_back(slot.width == Width::pred ? warp.pred(slot.row) >> lane & 1
                                              : value_of(warp, slot, lane));
  }
  const std::byte* const locals = local_of(warp, lane, callee.locals.from);
  stack.resize(stack.size() + callee.locals.bytes / 8);
  if (callee.locals.bytes != 0) {
    std::memcpy(stack.data() + stack.size() - callee.locals.bytes / 8, locals, callee.locals.bytes);
  }
  stack.push_back(warp.row<uint32_t>(callee.return_row)[lane]);
  stack.push_back(callee.start);
}

// Where a function that calls itself has its variables: in their place, or on the thread's stack.
void place_frame(Warp& warp, uint32_t lane, const Callable& callee, bool again) {
  const size_t first = callee.registers.size() - callee.addresses.size();
  uint32_t& used = warp.row<uint32_t>(callee.used_row)[lane];
  const uint32_t moved = again ? program_of(warp).stack + used - callee.frame.from / 16 * 16 : 0;
  for (size_t i = 0; i < callee.addresses.size(); ++i) {
    set_value(warp, callee.registers[first + i], 1u << lane, callee.addresses[i] + moved);
  }
  if (again) used += (callee.frame.bytes + 30) / 16 * 16;
  if (used <= STACK_BYTES) return;
  stop(warp, 1u << lane, "'", callee.function->name, "' calls itself too deeply: its variables in ",
       "local memory take more than the ", STACK_BYTES, " bytes that a thread has for them here.");
}

// Back to what save() kept, if the function was called by itself; else the lane is no more in it.
void restore(Warp& warp, uint32_t lane, const Callable& callee) {
  std::vector<uint64_t>& stack = warp.saved[lane];
  uint32_t& back = warp.row<uint32_t>(callee.return_row)[lane];
  if (stack.empty() || stack.back() != callee.start) {
    back = 0;
    return;
  }
  stack.pop_back();
  back = static_cast<uint32_t>(stack.back());
  stack.pop_back();
  const size_t words = callee.locals.bytes / 8;
  if (words != 0) {
    std::memcpy(local_of(warp, lane, callee.locals.from), stack.data() + stack.size() - words,
                callee.locals.bytes);
  }
  stack.resize(stack.size() - words);
  for (size_t i = callee.registers.size(); i-- > 0; stack.pop_back()) {
    const Slot& slot = callee.registers[i];
    if (slot.width == Width::pred) {
      set_pred(warp, slot.row, 1u << lane, static_cast<uint32_t>(stack.back()) << lane);
    } else {
      set_value(warp, slot, 1u << lane, stack.back());
    }
  }
}

// Each call multiplies Warp::callers by an odd number, and each return divides by it.
constexpr uint64_t CALL = 6364136223846793005u;
constexpr uint64_t RETURN = 13877824140714322085u;
static_assert(CALL * RETURN == 1);

// What a call does but for the jump; its arguments are copied from `first` of the copies on.
void enter(Warp& warp, uint32_t lanes, const Callable& callee, uint32_t first, uint32_t count) {
  uint32_t* const back = warp.row<uint32_t>(callee.return_row);
  const uint32_t pc = warp.current->pc + 1;
  for_lanes(lanes, [&](uint32_t lane) {
    if (back[lane] != 0) save(warp, lane, callee);
    if (callee.frame.bytes != 0) place_frame(warp, lane, callee, back[lane] != 0);
  });
  copy_params(warp, first, count, lanes);
  for_lanes(lanes, [&](uint32_t lane) {
    back[lane] = pc;
    warp.callers[lane] = warp.callers[lane] * CALL + pc;
  });
}

// Calls f(lanes, index of the function, first of its copies) for the lanes of each function that is
// pointed to.
template <class F>
void for_pointers(Warp& warp, const Inst& inst, uint32_t mask, F&& f) {
  const uint64_t* const pointers = warp.row<uint64_t>(inst.op[0]);
  const auto& copies = program_of(warp).indirect_copies[inst.target];
  const auto at = [pointers](uint32_t lane) { return pointers[lane]; };
  for_groups(mask, at, [&](uint64_t pointer, uint32_t lanes) {
    const auto index = static_cast<uint32_t>(pointer & ~WINDOW_MASK) - 1;
    const auto found = copies.find(index);
    if ((pointer & WINDOW_MASK) != FUNCTION_WINDOW || found == copies.end()) {
      stop(warp, lanes, "call: ", hex(pointer),
           " points to no function with these parameters and results.");
    }
    f(lanes, index, found->second);
  });
}

template <class T>
T argument(Warp& warp, const Inst& inst, uint32_t lane, uint32_t i) {
  T value{};
  std::memcpy(&value, local_of(warp, lane, program_of(warp).param_copies[inst.mods + i].from),
              sizeof value);
  return value;
}

// The result of a call of a function that CUDA has.
template <class T>
void give_result(Warp& warp, const Inst& inst, uint32_t lane, T value) {
  const uint32_t to = program_of(warp).param_copies[inst.mods + inst.slot_count].to;
  std::memcpy(local_of(warp, lane, to), &value, sizeof value);
}

// The text that a generic address points to.
std::string text_at(Warp& warp, uint32_t lane, uint64_t address) {
  for (std::string text;; ++address) {
    Addresses a;
    a.fill(1u << lane, [address](uint32_t) { return address; });
    resolve_computed(warp, Where::generic, 1u << lane, 1, Access::read,
                     "the text of printf or assert", a);
    const char next = *reinterpret_cast<const char*>(a.at[lane]);
    if (next == '\0') return text;
    text += next;
  }
}

template <class T>
std::string formatted(const std::string& spec, T value) {
  std::string text(std::max(std::snprintf(nullptr, 0, spec.c_str(), value), 0), '\0');
  std::snprintf(text.data(), text.size() + 1, spec.c_str(), value);
  return text;
}

// Lanes go where their row says; those that agree stay together.
void go_by_lane(Warp& warp, uint32_t mask, const uint32_t* targets) {
  const Fragment from = *warp.current;
  warp.fragments.erase(warp.fragments.begin() + (warp.current - warp.fragments.data()));
  warp.current = nullptr;
  const auto add = [&warp](uint32_t pc, uint32_t lanes) {
    Fragment& part = warp.fragments.emplace_back();
    part.pc = pc;
    part.mask = lanes;
  };
  if (from.mask != mask) add(from.pc + 1, from.mask & ~mask);
  for_groups(mask, [targets](uint32_t lane) { return targets[lane]; }, add);
}

// brx.idx: slots behind the index are the targets.
Step branch_table(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t* const index = warp.row<uint32_t>(inst.op[0]);
  uint32_t targets[LANES] = {};
  for_lanes(mask, [&](uint32_t lane) {
    if (index[lane] + 1 >= inst.slot_count) {
      stop(warp, 1u << lane, "brx.idx has no target ", index[lane], ".");
    }
    targets[lane] = inst.slots[1 + index[lane]].row;
  });
  go_by_lane(warp, mask, targets);
  return Step::jump;
}

const Row ROWS[] = {
    {"brx.idx{.uni,}", "*", always<branch_table>, "go to the label that the index picks"},
    {"brkpt", "", always<no_operation>, "nothing: no debugger is attached"},
    {"pmevent{.mask,}", "*", always<no_operation>, "nothing: no counters"},
    {"nanosleep.u32", "t:32", always<no_operation>, "nothing"},
};

}  // namespace

const Section sections::RARE_CONTROL{"Rarer: control", ROWS};

Step Control::call(Warp& warp, const Inst& inst, uint32_t mask) {
  const Callable& callee = program_of(warp).callables[inst.op[0]];
  enter(warp, mask, callee, inst.mods, inst.slot_count);
  if (mask != warp.current->mask) ++warp.current->pc;  // of the lanes that do not call
  go(warp, mask, callee.start);
  return Step::jump;
}

Step Control::call_indirect(Warp& warp, const Inst& inst, uint32_t mask) {
  uint32_t targets[LANES] = {};
  for_pointers(warp, inst, mask, [&](uint32_t lanes, uint32_t index, uint32_t first) {
    const Callable& callee = program_of(warp).callables[index];
    enter(warp, lanes, callee, first, inst.slot_count);
    for_lanes(lanes, [&](uint32_t lane) { targets[lane] = callee.start; });
  });
  go_by_lane(warp, mask, targets);
  return Step::jump;
}

Step Control::results(Warp& warp, const Inst& inst, uint32_t mask) {
  copy_params(warp, inst.mods, inst.slot_count, mask);
  return Step::next;
}

Step Control::results_indirect(Warp& warp, const Inst& inst, uint32_t mask) {
  for_pointers(warp, inst, mask, [&](uint32_t lanes, uint32_t, uint32_t first) {
    copy_params(warp, first, inst.slot_count, lanes);
  });
  return Step::next;
}

Step Control::leave(Warp& warp, const Inst& inst, uint32_t mask) {
  const Callable& callee = program_of(warp).callables[inst.op[0]];
  uint32_t targets[LANES];
  std::memcpy(targets, warp.row<uint32_t>(callee.return_row), sizeof targets);
  for_lanes(mask, [&](uint32_t lane) {
    warp.callers[lane] = (warp.callers[lane] - targets[lane]) * RETURN;
    restore(warp, lane, callee);
  });
  go_by_lane(warp, mask, targets);
  return Step::jump;
}

// vprintf(format, values): each value is aligned to its size; a float comes as a double. It returns
// how many values the format has.
static void call_printf(Warp& warp, const Inst& inst, uint32_t lane) {
  const std::string format = text_at(warp, lane, argument<uint64_t>(warp, inst, lane, 0));
  const char* at = format.c_str();
  uint64_t values = argument<uint64_t>(warp, inst, lane, 1) & ~WINDOW_MASK;
  std::string text;
  uint32_t count = 0;
  while (*at != '\0') {
    if (*at != '%' || at[1] == '%') {
      text += *at;
      at += *at == '%' ? 2 : 1;
      continue;
    }
    const size_t length = std::strcspn(at, "diouxXeEfFgGaAcsp") + 1;
    if (length > std::strlen(at)) {  // it converts nothing
      text += at;
      break;
    }
    std::string spec(at, length);
    at += length;
    const auto next = [&](uint32_t bytes) {
      values = (values + bytes - 1) / bytes * bytes;
      uint64_t bits = 0;
      std::memcpy(&bits, local_of(warp, lane, static_cast<uint32_t>(values)), bytes);
      values += bytes;
      ++count;
      return bits;
    };
    for (size_t star; (star = spec.find('*')) != std::string::npos;) {
      spec.replace(star, 1, std::to_string(static_cast<int32_t>(next(4))));
    }
    const char kind = spec.back();
    const bool is_double = std::strchr("eEfFgGaA", kind) != nullptr;
    const bool wide =
        is_double || kind == 's' || kind == 'p' || spec.find_first_of("lzjt") != std::string::npos;
    std::erase(spec, 'L');  // of a long double, which is a double on a GPU
    const uint64_t bits = next(wide ? 8 : 4);
    text += is_double     ? formatted(spec, std::bit_cast<double>(bits))
            : kind == 's' ? formatted(spec, text_at(warp, lane, bits).c_str())
            : wide        ? formatted(spec, bits)
                          : formatted(spec, static_cast<uint32_t>(bits));
  }
  std::fputs(text.c_str(), stdout);
  give_result(warp, inst, lane, count);
}

// __assertfail(message, file, line, function, char size)
static Step call_assert_failed(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t lane = std::countr_zero(mask);
  stop_as(rule::ASSERT, warp, mask, "assert(",
          text_at(warp, lane, argument<uint64_t>(warp, inst, lane, 0)), ") failed, ",
          text_at(warp, lane, argument<uint64_t>(warp, inst, lane, 1)), ":",
          argument<uint32_t>(warp, inst, lane, 2), ".");
}

// The heap of kernels is the device's memory: each block is an allocation, of which accesses are checked.
constexpr char HEAP[] = "malloc by a kernel";

static void call_malloc(Warp& warp, const Inst& inst, uint32_t lane) {
  const auto bytes = argument<uint64_t>(warp, inst, lane, 0);
  give_result(warp, inst, lane, bytes == 0 ? nullptr : allocate(bytes, HEAP, settings().poison));
}

static void call_free(Warp& warp, const Inst& inst, uint32_t lane) {
  const auto base = argument<uint64_t>(warp, inst, lane, 0);
  Allocation block;
  const bool is_known = find_allocation(base, &block) && block.what == HEAP;
  if (base == 0 || (is_known && release(reinterpret_cast<void*>(base)))) return;
  stop(warp, 1u << lane, "free: ", hex(base),
       is_known && block.freed ? " has been freed before." : " is nothing that malloc returned.");
}

Handler Control::system_call(const std::string& name) {
  return name == "vprintf"        ? each_lane<call_printf>
         : name == "__assertfail" ? call_assert_failed
         : name == "malloc"       ? each_lane<call_malloc>
         : name == "free"         ? each_lane<call_free>
                                  : nullptr;
}

}  // namespace machine
