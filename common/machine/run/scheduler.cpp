#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "common/machine/check/checker.h"
#include "common/machine/code/isa.h"
#include "common/machine/ops/sync.h"
#include "common/machine/run/module.h"
#include "common/machine/run/settings.h"
#include "common/machine/run/trace.h"

namespace machine {

// ---- Control instructions -----------------------------------------------------------------------

namespace {

// Parts the fragment: `mask` goes on at pc. The current fragment is no more known afterwards.
void go(Warp& warp, uint32_t mask, uint32_t pc) {
  Fragment& fragment = *warp.current;
  if (mask == fragment.mask) {
    fragment.pc = pc;
    return;
  }
  fragment.mask &= ~mask;
  Fragment part;
  part.pc = pc;
  part.mask = mask;
  warp.fragments.push_back(part);
  warp.current = nullptr;
}

Step branch(Warp& warp, const Inst& inst, uint32_t mask) {
  if (mask != warp.current->mask) ++warp.current->pc;  // of the lanes that do not take it
  go(warp, mask, inst.target);
  return Step::jump;
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
  while (mask != 0) {
    const uint32_t target = targets[std::countr_zero(mask)];
    uint32_t same = 0;
    for_lanes(mask, [&](uint32_t lane) { same |= uint32_t{targets[lane] == target} << lane; });
    add(target, same);
    mask &= ~same;
  }
}

// brx.idx: slots behind the index are the targets.
Step branch_table(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t* const index = warp.row<uint32_t>(inst.op[0]);
  uint32_t targets[LANES] = {};
  for_lanes(mask, [&](uint32_t lane) {
    if (index[lane] + 1 >= inst.slot_count) {
      fault(warp, 1u << lane, "brx.idx has no target " + std::to_string(index[lane]) + ".");
    }
    targets[lane] = inst.slots[1 + index[lane]].row;
  });
  go_by_lane(warp, mask, targets);
  return Step::jump;
}

Step leave_warp(Warp& warp, const Inst&, uint32_t mask) {
  warp.live &= ~mask;
  threads_exited(warp, mask);
  warp.current->mask &= ~mask;
  ++warp.current->pc;
  if (warp.current->mask == 0) {
    warp.fragments.erase(warp.fragments.begin() + (warp.current - warp.fragments.data()));
  }
  warp.current = nullptr;
  return Step::jump;
}

Step trap(Warp& warp, const Inst&, uint32_t mask) {
  fault(warp, mask, "The kernel ran into a trap instruction.", rule::TRAP);
}

Step nothing(Warp&, const Inst&, uint32_t) {
  return Step::next;
}

std::byte* local_of(Warp& warp, uint32_t lane, uint32_t offset) {
  return warp.local + size_t{lane} * warp.cta->cluster->grid->program->local_bytes + offset;
}

const Program& program_of(const Warp& warp) {
  return *warp.cta->cluster->grid->program;
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
  for (const Variable& variable : callee.function->variables) {
    if (variable.space != Space::local) continue;
    refuse(warp, "'" + callee.function->name +
                     "' calls itself and has variables in local memory (" + variable.name +
                     "), which the machine has once a thread.");
  }
  if (stack.size() > MOST_WORDS) {
    fault(warp, 1u << lane,
          "'" + callee.function->name +
              "' calls itself without end: a thread's stack has 1 MiB here.");
  }
  for (const Slot& slot : callee.registers) {
    if (slot.width == Width::pred) {
      stack.push_back(warp.pred(slot.row) >> lane & 1);
    } else {
      stack.push_back(slot.width == Width::w64 ? warp.row<uint64_t>(slot.row)[lane]
                                               : warp.row<uint32_t>(slot.row)[lane]);
    }
  }
  const std::byte* const locals = local_of(warp, lane, callee.locals.from);
  stack.resize(stack.size() + callee.locals.bytes / 8);
  std::memcpy(stack.data() + stack.size() - callee.locals.bytes / 8, locals, callee.locals.bytes);
  stack.push_back(warp.row<uint32_t>(callee.return_row)[lane]);
  stack.push_back(callee.start);
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
  std::memcpy(local_of(warp, lane, callee.locals.from), stack.data() + stack.size() - words,
              callee.locals.bytes);
  stack.resize(stack.size() - words);
  for (size_t i = callee.registers.size(); i-- > 0; stack.pop_back()) {
    const Slot& slot = callee.registers[i];
    if (slot.width == Width::pred) {
      uint32_t& row = warp.pred(slot.row);
      row = (row & ~(1u << lane)) | static_cast<uint32_t>(stack.back()) << lane;
    } else if (slot.width == Width::w64) {
      warp.row<uint64_t>(slot.row)[lane] = stack.back();
    } else {
      warp.row<uint32_t>(slot.row)[lane] = static_cast<uint32_t>(stack.back());
    }
  }
}

// What a call does but for the jump; its arguments are copied from `first` of the copies on.
void enter(Warp& warp, uint32_t lanes, const Callable& callee, uint32_t first, uint32_t count) {
  uint32_t* const back = warp.row<uint32_t>(callee.return_row);
  const uint32_t pc = warp.current->pc + 1;
  for_lanes(lanes, [&](uint32_t lane) {
    if (back[lane] != 0) save(warp, lane, callee);
  });
  copy_params(warp, first, count, lanes);
  for_lanes(lanes, [&](uint32_t lane) { back[lane] = pc; });
}

// Calls f(lanes, index of the function, first of its copies) for the lanes of each function that is
// pointed to.
template <class F>
void for_pointers(Warp& warp, const Inst& inst, uint32_t mask, F&& f) {
  const uint64_t* const pointers = warp.row<uint64_t>(inst.op[0]);
  const auto& copies = program_of(warp).indirect_copies[inst.target];
  while (mask != 0) {
    const uint64_t pointer = pointers[std::countr_zero(mask)];
    uint32_t lanes = 0;
    for_lanes(mask, [&](uint32_t lane) { lanes |= uint32_t{pointers[lane] == pointer} << lane; });
    const auto index = static_cast<uint32_t>(pointer & ~WINDOW_MASK) - 1;
    const auto found = copies.find(index);
    if ((pointer & WINDOW_MASK) != FUNCTION_WINDOW || found == copies.end()) {
      fault(warp, lanes,
            "call: " + hex(pointer) + " points to no function with these parameters and results.");
    }
    f(lanes, index, found->second);
    mask &= ~lanes;
  }
}

template <class T>
T argument(Warp& warp, const Inst& inst, uint32_t lane, uint32_t i) {
  const Program& program = *warp.cta->cluster->grid->program;
  T value{};
  std::memcpy(&value, local_of(warp, lane, program.param_copies[inst.mods + i].from), sizeof value);
  return value;
}

const char* text_at(Warp& warp, uint32_t lane, uint64_t address) {
  check_global(warp, lane, address, 1, "the text of printf or assert");
  return reinterpret_cast<const char*>(address);
}

template <Handler F>
Handler always(Opcode&) {
  return F;
}

template <Handler F>
Handler together(Opcode& opcode) {
  opcode.convergent = opcode.has(".aligned");
  return F;
}

const Row ROWS[] = {
    {"bra{.uni,}", "*", always<branch>, "go to a label"},
    {"brx.idx{.uni,}", "*", always<branch_table>, "go to the label that the index picks"},
    {"exit", "", always<leave_warp>, "end the thread"},
    {"ret{.uni,}", "", always<leave_warp>, "return; of an entry: end the thread"},
    {"call{.uni,}", "*", always<nothing>, "call a function, or what a register points to"},
    {"trap", "", always<trap>, "end the launch in a fault"},
    {"brkpt", "", always<nothing>, "nothing: no debugger is attached"},
    {"pmevent{.mask,}", "*", always<nothing>, "nothing: no counters"},
};

}  // namespace

Section control_section() {
  return {"Control", ROWS, std::size(ROWS)};
}

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
  for_lanes(mask, [&](uint32_t lane) { restore(warp, lane, callee); });
  go_by_lane(warp, mask, targets);
  return Step::jump;
}

// vprintf(format, values): each value is aligned to its size; a float comes as a double.
Step Control::printf(Warp& warp, const Inst& inst, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) {
    const char* at = text_at(warp, lane, argument<uint64_t>(warp, inst, lane, 0));
    uint64_t values = argument<uint64_t>(warp, inst, lane, 1) & ~WINDOW_MASK;
    std::string text;
    while (*at != '\0') {
      if (*at != '%' || at[1] == '%') {
        text += *at;
        at += *at == '%' ? 2 : 1;
        continue;
      }
      const size_t length = std::strcspn(at, "diouxXeEfFgGaAcsp") + 1;
      std::string spec(at, std::min(length, std::strlen(at)));
      at += spec.size();
      const char kind = spec.back();
      const bool is_double = std::strchr("eEfFgGaA", kind) != nullptr;
      const bool wide = is_double || kind == 's' || kind == 'p' ||
                        spec.find('l') != std::string::npos || spec.find('z') != std::string::npos;
      const uint32_t bytes = wide ? 8 : 4;
      values = (values + bytes - 1) / bytes * bytes;
      uint64_t bits = 0;
      std::memcpy(&bits, local_of(warp, lane, static_cast<uint32_t>(values)), bytes);
      values += bytes;
      char buffer[512];
      if (is_double) {
        std::snprintf(buffer, sizeof buffer, spec.c_str(), std::bit_cast<double>(bits));
      } else if (kind == 's') {
        std::snprintf(buffer, sizeof buffer, spec.c_str(), text_at(warp, lane, bits));
      } else if (wide) {
        std::snprintf(buffer, sizeof buffer, spec.c_str(), bits);
      } else {
        std::snprintf(buffer, sizeof buffer, spec.c_str(), static_cast<uint32_t>(bits));
      }
      text += buffer;
    }
    std::fputs(text.c_str(), stdout);
  });
  return Step::next;
}

// __assertfail(message, file, line, function, char size)
Step Control::assert_failed(Warp& warp, const Inst& inst, uint32_t mask) {
  const uint32_t lane = std::countr_zero(mask);
  fault(warp, mask,
        std::string("assert(") + text_at(warp, lane, argument<uint64_t>(warp, inst, lane, 0)) +
            ") failed, " + text_at(warp, lane, argument<uint64_t>(warp, inst, lane, 1)) + ":" +
            std::to_string(argument<uint32_t>(warp, inst, lane, 2)) + ".",
        rule::ASSERT);
}

// A clock that moves with the warp's instructions: loops with time limits end, runs repeat.
Step Control::read_clock(Warp& warp, const Inst& inst, uint32_t mask) {
  const Clock which = static_cast<Clock>(inst.mods);
  uint64_t now = warp.executed;
  if (which == Clock::globaltimer_hi) now >>= 32;
  if (which == Clock::clock64 || which == Clock::globaltimer) {
    uint64_t* const d = warp.row<uint64_t>(inst.op[0]);
    for_lanes(mask, [&](uint32_t lane) { d[lane] = now; });
  } else {
    uint32_t* const d = warp.row<uint32_t>(inst.op[0]);
    for_lanes(mask, [&](uint32_t lane) { d[lane] = static_cast<uint32_t>(now); });
  }
  return Step::next;
}

// ---- One cluster --------------------------------------------------------------------------------

void start_copy(Cluster& cluster, const AsyncCopyPtr& copy) {
  if (cluster.grid->policy == Policy::eager) {
    copy->finish();
  } else {
    while (!cluster.in_flight.empty() && cluster.in_flight.front()->done) {
      cluster.in_flight.pop_front();
    }
    cluster.in_flight.push_back(copy);
  }
}

namespace {

constexpr uint64_t QUANTUM = 4096;          // instructions of a warp in turn
constexpr uint64_t SLICE = 1 << 20;         // of a cluster that polls global memory,
constexpr uint64_t IDLE_SLICE = 1 << 13;    // and of one that meanwhile changes nothing
constexpr uint64_t IDLE_TURNS = 1 << 12;    // of all such clusters, with no change in between
constexpr uint64_t LAND_AFTER = 1 << 16;    // without a change: someone may probe for a copy
constexpr uint64_t IDLE_LIMIT = 200 << 20;  // of a cluster without a change: a livelock
constexpr uint64_t ROUNDS_LIMIT = 1 << 15;  // of probes that all return false

constexpr uint64_t CYCLE_AFTER =
    1 << 16;  // without a change: registers may come back to what they were

enum class Outcome { done, stuck, turn };

// Whether a cluster that changes nothing comes back to a state that it had. Warps that run in turns
// then do so for ever; of those that run at random another may still be chosen.
struct Cycle {
  uint64_t saved = 0, rounds = 0, met = 0, changes = 0;

  bool closes(uint64_t state, uint64_t changes_now, bool random) {
    if (changes != changes_now) *this = {0, 0, 0, changes_now};
    constexpr uint64_t OFTEN = 1 << 12;
    if (rounds != 0 && state == saved && ++met >= (random ? OFTEN : 1)) return true;
    if (std::has_single_bit(++rounds) && met == 0) saved = state;
    return false;
  }
};

bool may_run(const Warp& warp, const Fragment& fragment, uint64_t events) {
  if (fragment.give_up) return true;
  switch (fragment.wait) {
    case WaitFor::nothing:
      return true;
    case WaitFor::other_lanes:
      return fragment.mask == warp.live || fragment.seen_events != events;
    default:
      return fragment.seen_events != events;
  }
}

// Runs one cluster. What a warp does between two looks at the others is at most a quantum.
class Runner {
 public:
  Runner(Cluster& cluster, Cycle& cycle, const std::atomic<bool>& stop)
      : cluster_(cluster),
        cycle_(cycle),
        grid_(*cluster.grid),
        code_(grid_.program->code.data()),
        stop_(stop) {}

  Outcome run() {
    uint64_t executed = 0, idle = 0, rounds = 0, changes = cluster_.changes, fingerprint = 0;
    for (;;) {
      if (stop_.load(std::memory_order_relaxed)) return Outcome::done;
      const uint64_t ran = run_warps();
      executed += ran;
      if (cluster_.live_threads == 0) {
        drain();
        return Outcome::done;
      }
      if (cluster_.changes != changes) {
        changes = cluster_.changes;
        idle = rounds = 0;
      } else {
        idle += ran;
      }
      if (grid_.policy == Policy::random) land_some();
      if (ran > 0) {
        if (idle > LAND_AFTER && land_one()) continue;
        if (idle > IDLE_LIMIT) return Outcome::stuck;
        const bool lands = cluster_.in_flight.empty();
        const bool waits = idle > IDLE_SLICE && lands;
        if (cluster_.polled_global && executed > SLICE) return Outcome::turn;
        if (cluster_.polled_global && waits) return comes_back() ? Outcome::stuck : Outcome::turn;
        if (idle > CYCLE_AFTER && lands && comes_back()) return Outcome::stuck;
        continue;
      }
      if (land_one()) continue;
      // Nothing runs and nothing is in flight: probes that may time out do so, once a round. A round
      // that changes neither memory nor a register is followed by others like it.
      if (!time_out_probes()) return Outcome::stuck;
      if (++rounds > ROUNDS_LIMIT) return Outcome::stuck;
      if (std::has_single_bit(rounds)) {
        fingerprint = hash_registers();
      } else if (std::has_single_bit(rounds - 1) && hash_registers() == fingerprint) {
        return Outcome::stuck;
      }
    }
  }

 private:
  uint64_t run_warps() {
    uint64_t ran = 0;
    if (grid_.policy != Policy::random) {
      for (Cta& cta : cluster_.ctas) {
        for (Warp& warp : cta.warps) ran += run_warp(warp, QUANTUM);
      }
      return ran;
    }
    // Any warp, for any while: sometimes one instruction, sometimes far ahead of the others.
    const size_t warps = cluster_.ctas.size() * grid_.warps_per_cta;
    const size_t first = cluster_.random() % warps;
    for (size_t i = 0; i < warps; ++i) {
      const size_t at = (first + i) % warps;
      Warp& warp = cluster_.ctas[at / grid_.warps_per_cta].warps[at % grid_.warps_per_cta];
      ran += run_warp(warp, 1ull << cluster_.random() % 12);
      if (ran > 0) break;
    }
    return ran;
  }

  // Instructions that it executed; 0 if no fragment can run.
  uint64_t run_warp(Warp& warp, uint64_t quantum) {
    uint64_t ran = 0;
    while (ran < quantum) {
      Fragment* const fragment = pick(warp);
      if (fragment == nullptr) break;
      ran += run_fragment(warp, *fragment, quantum - ran);
    }
    warp.executed += ran;
    return ran;
  }

  // Fragments at the same pc become one; then the lowest pc that can run, so that those ahead wait
  // for those behind. One that runs for a whole quantum lets another have its turn: it may wait for
  // what that one writes.
  Fragment* pick(Warp& warp) {
    std::vector<Fragment>& all = warp.fragments;
    if (all.size() == 1) {
      return may_run(warp, all[0], cluster_.events) ? &all[0] : nullptr;
    }
    const auto mergeable = [](const Fragment& fragment) {
      return fragment.wait == WaitFor::nothing || fragment.wait == WaitFor::other_lanes;
    };
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t j = all.size() - 1; j > i; --j) {
        if (all[i].pc != all[j].pc || !mergeable(all[i]) || !mergeable(all[j])) continue;
        all[i].mask |= all[j].mask;
        all[i].wait = WaitFor::nothing;
        all.erase(all.begin() + static_cast<long>(j));
      }
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      Fragment* best = nullptr;
      for (Fragment& fragment : all) {
        if (fragment.had_turn || !may_run(warp, fragment, cluster_.events)) continue;
        if (best == nullptr || fragment.pc < best->pc) best = &fragment;
      }
      if (best != nullptr) return best;
      for (Fragment& fragment : all) fragment.had_turn = false;
    }
    return nullptr;
  }

  uint64_t run_fragment(Warp& warp, Fragment& fragment, uint64_t budget) {
    // Until it meets or overtakes another that could go on with it.
    uint32_t limit = UINT32_MAX;
    for (const Fragment& other : warp.fragments) {
      if (&other != &fragment && other.pc > fragment.pc) limit = std::min(limit, other.pc);
    }
    warp.current = &fragment;
    uint64_t ran = 0;
    while (ran < budget) {
      const Inst& inst = code_[fragment.pc];
      uint32_t mask = fragment.mask;
      ++ran;
      if (inst.guard != 0) {
        const uint32_t taken = warp.pred(inst.guard);
        mask &= inst.guard_not ? ~taken : taken;
        if (mask == 0) {
          if (++fragment.pc >= limit) return ran;
          continue;
        }
      }
      if (inst.convergent && mask != warp.live) {
        fragment.wait = WaitFor::other_lanes;
        fragment.seen_events = cluster_.events;
        return ran - 1;
      }
      if (inst.touches_async && cluster_.checker) {
        cluster_.checker->touch_registers(warp, inst, mask);
      }
      const Step step = inst.run(warp, inst, mask);
      if (warp.current == nullptr) return ran;  // the fragments are others now
      fragment.give_up = false;
      if (step == Step::wait) {
        fragment.seen_events = cluster_.events;
        return ran - 1;
      }
      fragment.wait = WaitFor::nothing;
      if (cluster_.trace) warp.clock += Model::INSTRUCTION;
      if (step == Step::next) ++fragment.pc;
      if (fragment.pc >= limit) return ran;
    }
    if (warp.fragments.size() > 1) fragment.had_turn = true;
    return ran;
  }

  // ---- Asynchronous copies ----
  // Lazily: the one that was started last, so that nothing lands in the order of the program.
  bool land_one() {
    while (!cluster_.in_flight.empty()) {
      size_t at = cluster_.in_flight.size() - 1;
      if (grid_.policy == Policy::random) at = cluster_.random() % cluster_.in_flight.size();
      const AsyncCopyPtr copy = cluster_.in_flight[at];
      cluster_.in_flight.erase(cluster_.in_flight.begin() + static_cast<long>(at));
      if (copy->done) continue;
      copy->finish();
      signal(cluster_);
      return true;
    }
    return false;
  }

  void land_some() {
    while (!cluster_.in_flight.empty() && cluster_.random() % 2 == 0) land_one();
    for (Cta& cta : cluster_.ctas) {
      if (cluster_.random() % 2 == 0) finish_next_wgmma(cta);
    }
  }

  void drain() {
    while (land_one()) {
    }
  }

  // ---- When nothing changes ----
  bool comes_back() {
    return cycle_.closes(hash_registers(), cluster_.changes, grid_.policy == Policy::random);
  }

  bool time_out_probes() {
    bool any = false;
    for (Cta& cta : cluster_.ctas) {
      for (Warp& warp : cta.warps) {
        for (Fragment& fragment : warp.fragments) {
          if (fragment.wait != WaitFor::mbarrier) continue;
          fragment.give_up = true;
          any = true;
        }
      }
    }
    return any;
  }

  uint64_t hash_registers() const {
    uint64_t hash = 14695981039346656037u;  // FNV-1a over words
    const auto add = [&hash](uint64_t word) { hash = (hash ^ word) * 1099511628211u; };
    const size_t first = grid_.program->image.size() / 8;
    for (const Cta& cta : cluster_.ctas) {
      for (const Warp& warp : cta.warps) {
        for (const Fragment& fragment : warp.fragments)
          add(fragment.pc ^ uint64_t{fragment.mask} << 32);
        if (warp.fragments.empty()) continue;
        const auto* words = reinterpret_cast<const uint64_t*>(warp.rows);
        for (size_t i = first; i < grid_.program->rows_bytes / 8; ++i) add(words[i]);
      }
    }
    return hash;
  }

  Cluster& cluster_;
  Cycle& cycle_;
  const Grid& grid_;
  const Inst* const code_;
  const std::atomic<bool>& stop_;
};

// ---- Setting up a cluster -----------------------------------------------------------------------

Dim3 unravel(uint64_t index, const Dim3& size) {
  return {static_cast<uint32_t>(index % size.x), static_cast<uint32_t>(index / size.x % size.y),
          static_cast<uint32_t>(index / size.x / size.y)};
}

const Grid& grid_of(const Warp& warp) {
  return *warp.cta->cluster->grid;
}

Dim3 thread_at(const Warp& warp, uint32_t lane) {
  return unravel(warp.index * LANES + lane, grid_of(warp).config.block);
}
Dim3 cluster_at(const Warp& warp) {
  return unravel(warp.cta->cluster->id, grid_of(warp).clusters);
}
Dim3 in_cluster(const Warp& warp) {
  return unravel(warp.cta->rank, grid_of(warp).config.cluster);
}

#define EACH_AXIS(name, by_lane, dim3)                                                 \
  {name ".x", by_lane,                                                                 \
   [](const Warp& w, uint32_t lane) -> uint64_t { return (void)lane, (dim3).x; }},     \
      {name ".y", by_lane,                                                             \
       [](const Warp& w, uint32_t lane) -> uint64_t { return (void)lane, (dim3).y; }}, \
  {                                                                                    \
    name ".z", by_lane,                                                                \
        [](const Warp& w, uint32_t lane) -> uint64_t { return (void)lane, (dim3).z; }  \
  }
#define UNIFORM(name, expression) \
  {name, false, [](const Warp& w, uint32_t) -> uint64_t { return (void)w, (expression); }}
#define BY_LANE(name, expression) \
  {name, true,                    \
   [](const Warp&, uint32_t lane) -> uint64_t { return static_cast<uint32_t>(expression); }}

const SpecialRegister SPECIALS[] = {
    EACH_AXIS("%tid", true, thread_at(w, lane)),
    EACH_AXIS("%ntid", false, grid_of(w).config.block),
    EACH_AXIS("%ctaid", false, w.cta->id),
    EACH_AXIS("%nctaid", false, grid_of(w).config.grid),
    EACH_AXIS("%clusterid", false, cluster_at(w)),
    EACH_AXIS("%nclusterid", false, grid_of(w).clusters),
    EACH_AXIS("%cluster_ctaid", false, in_cluster(w)),
    EACH_AXIS("%cluster_nctaid", false, grid_of(w).config.cluster),
    UNIFORM("%cluster_ctarank", w.cta->rank),
    UNIFORM("%cluster_nctarank", grid_of(w).ctas_per_cluster),
    UNIFORM("%is_explicit_cluster",
            grid_of(w).kernel->explicit_cluster || grid_of(w).config.explicit_cluster),
    BY_LANE("%laneid", lane),
    BY_LANE("%lanemask_eq", 1u << lane),
    BY_LANE("%lanemask_lt", (1u << lane) - 1),
    BY_LANE("%lanemask_le", (2u << lane) - 1),
    BY_LANE("%lanemask_gt", ~((2u << lane) - 1)),
    BY_LANE("%lanemask_ge", ~((1u << lane) - 1)),
    UNIFORM("%warpid", w.index),
    UNIFORM("%nwarpid", 64),
    UNIFORM("%smid",
            (w.cta->cluster->id * grid_of(w).ctas_per_cluster + w.cta->rank) % settings().sms),
    UNIFORM("%nsmid", settings().sms),
    UNIFORM("%gridid", grid_of(w).launch_index),
    // Where cooperative groups find what grid.sync works with (its driver_abi.h).
    UNIFORM("%envreg1", reinterpret_cast<uint64_t>(grid_of(w).workspace) >> 32),
    UNIFORM("%envreg2", static_cast<uint32_t>(reinterpret_cast<uint64_t>(grid_of(w).workspace))),
    UNIFORM("%dynamic_smem_size", grid_of(w).config.dynamic_smem_bytes),
    UNIFORM("%total_smem_size", (w.cta->smem_bytes + 127) / 128 * 128),
    UNIFORM("%aggr_smem_size", w.cta->smem_bytes + SMEM_BASE),
    UNIFORM("%reserved_smem_offset_begin", 0),
    UNIFORM("%reserved_smem_offset_end", 0x120),
    UNIFORM("%reserved_smem_offset_cap", SMEM_BASE),
    // A mov reads these afresh (Control::read_clock); elsewhere they stand still.
    UNIFORM("%clock", 0),
    UNIFORM("%clock_hi", 0),
    UNIFORM("%clock64", 0),
    UNIFORM("%globaltimer", 0),
    UNIFORM("%globaltimer_lo", 0),
    UNIFORM("%globaltimer_hi", 0),
};

void fill_row(Warp& warp, uint32_t row, Width width, uint32_t lane, uint64_t value) {
  if (width == Width::w64) {
    warp.row<uint64_t>(row)[lane] = value;
  } else {
    warp.row<uint32_t>(row)[lane] = static_cast<uint32_t>(value);
  }
}

void set_up_warp(Warp& warp) {
  const Program& program = *warp.cta->cluster->grid->program;
  const Grid& grid = *warp.cta->cluster->grid;
  const uint32_t first = warp.index * LANES;
  const uint32_t threads = std::min(LANES, grid.threads_per_cta - first);
  warp.live = threads == LANES ? FULL : (1u << threads) - 1;
  warp.fragments.emplace_back().mask = warp.live;
  std::memcpy(warp.rows, program.image.data(), program.image.size());
  for (const Callable& callable : program.callables) {
    if (callable.function != nullptr) std::memset(warp.rows + callable.return_row, 0, LANES * 4);
  }
  for (const Program::Special& special : program.specials) {
    uint64_t value = special.what->value(warp, 0);
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      if (special.what->by_lane) value = special.what->value(warp, lane);
      fill_row(warp, special.row, special.width, lane, value);
    }
  }
  for (const Program::SharedSymbol& symbol : program.shared_symbols) {
    const uint32_t address = symbol.address | warp.cta->rank << RANK_SHIFT;
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      fill_row(warp, symbol.row, symbol.width, lane, address);
    }
  }
}

size_t round_up(size_t bytes) {
  return (bytes + 1023) / 1024 * 1024;
}

// Rows, local and shared memory of a cluster; reused by the next one of the same launch.
std::unique_ptr<Cluster> make_cluster(Grid& grid, uint64_t id, std::vector<std::byte> memory,
                                      const std::shared_ptr<GlobalShadow>& shadow) {
  auto cluster = std::make_unique<Cluster>();
  cluster->grid = &grid;
  cluster->id = id;
  cluster->random.seed(grid.seed * 1000003 + id);
  cluster->live_threads = grid.ctas_per_cluster * grid.threads_per_cta;
  const Program& program = *grid.program;
  const uint32_t smem_bytes = grid.kernel->static_smem_bytes + grid.config.dynamic_smem_bytes;
  const size_t rows = round_up(program.rows_bytes);
  const size_t locals = round_up(size_t{LANES} * program.local_bytes);
  const size_t cta_bytes = (rows + locals) * grid.warps_per_cta + round_up(smem_bytes);
  memory.resize(cta_bytes * grid.ctas_per_cluster + 1024);
  cluster->memory = std::move(memory);
  auto* at =
      reinterpret_cast<std::byte*>(round_up(reinterpret_cast<size_t>(cluster->memory.data())));
  const Dim3 origin = unravel(id, grid.clusters);
  cluster->ctas.resize(grid.ctas_per_cluster);
  for (uint32_t rank = 0; rank < grid.ctas_per_cluster; ++rank) {
    Cta& cta = cluster->ctas[rank];
    cta.cluster = cluster.get();
    cta.rank = rank;
    const Dim3 inside = unravel(rank, grid.config.cluster);
    cta.id = {origin.x * grid.config.cluster.x + inside.x,
              origin.y * grid.config.cluster.y + inside.y,
              origin.z * grid.config.cluster.z + inside.z};
    cta.smem_bytes = smem_bytes;
    cta.dynamic_smem = SMEM_BASE + grid.kernel->static_smem_bytes;
    cta.smem = at;
    std::memset(at, 0xff, smem_bytes);  // NaN in every format: what was never written shows
    at += round_up(smem_bytes);
    cta.live_threads = grid.threads_per_cta;
    cta.warps.resize(grid.warps_per_cta);
    cta.warpgroups.resize((grid.warps_per_cta + 3) / 4);
    for (uint32_t i = 0; i < grid.warps_per_cta; ++i) {
      Warp& warp = cta.warps[i];
      warp.cta = &cta;
      warp.index = i;
      warp.in_cluster = rank * grid.warps_per_cta + i;
      warp.registers = grid.registers;
      warp.rows = at;
      warp.local = at + rows;
      at += rows + locals;
      set_up_warp(warp);
    }
  }
  if (grid.check) cluster->checker = make_checker(*cluster, shadow);
  return cluster;
}

// ---- Reports of hangs ---------------------------------------------------------------------------

std::string waits_for(Warp& warp, const Fragment& fragment) {
  switch (fragment.wait) {
    case WaitFor::mbarrier:
      return "for " +
             mbarrier_text(*warp.cta->cluster, fragment.wait_address, fragment.wait_parity);
    case WaitFor::named_barrier:
      return "at " + barrier_text(*warp.cta, fragment.wait_address);
    case WaitFor::cluster_barrier:
      return "at the cluster's barrier, which " +
             std::to_string(warp.cta->cluster->barrier_arrived) + " of " +
             std::to_string(warp.cta->cluster->live_threads) + " threads have reached";
    case WaitFor::other_lanes:
      return "for the other lanes of the warp, which are elsewhere, at an instruction that all "
             "must execute together";
    case WaitFor::wgmma:
      return "for wgmma operations that other warps of its warpgroup have not issued";
    case WaitFor::cp_async:
      return "for its copies";
    case WaitFor::registers:
      return "for " + registers_text(warp, fragment.wait_address);
    case WaitFor::nothing:
      return "for nothing, but runs in a loop that changes nothing";
  }
  return "";
}

// `spins` gets whether some threads run all the same.
std::string hang_report(const std::vector<Cluster*>& stuck, bool* is_livelock) {
  Cluster& cluster = *stuck.front();
  const Program& program = *cluster.grid->program;
  std::string lines;
  bool& spins = *is_livelock = false;
  for (Cta& cta : cluster.ctas) {
    struct Waiting {
      std::vector<const Warp*> warps;
      uint32_t lanes = 0;
    };
    std::map<std::pair<std::string, uint32_t>, Waiting> waiting;  // by what for, and where: a pc
    for (Warp& warp : cta.warps) {
      for (const Fragment& fragment : warp.fragments) {
        spins = spins || fragment.wait == WaitFor::nothing;
        Waiting& same = waiting[{waits_for(warp, fragment), fragment.pc}];
        if (same.warps.empty() || same.warps.back() != &warp) same.warps.push_back(&warp);
        same.lanes += static_cast<uint32_t>(std::popcount(fragment.mask));
      }
    }
    for (const auto& [what, who] : waiting) {
      lines += "\n  " + describe_roles(who.warps) +
               (who.lanes == who.warps.size() * LANES
                    ? ""
                    : ", " + std::to_string(who.lanes) + (who.lanes == 1 ? " lane" : " lanes")) +
               "\n    " + (who.warps.size() == 1 ? "waits " : "wait ") + what.first +
               program.where(what.second, "\n    ") + "\n    PTX " + program.text(what.second);
    }
  }
  const std::string others =
      stuck.size() > 1 ? ", in this cluster and " + std::to_string(stuck.size() - 1) + " more" : "";
  return (spins ? "Livelock in kernel " : "Deadlock in kernel ") +
         kernel_text(*cluster.grid->kernel) +
         (spins ? ": threads run, but nothing that they do changes memory or a barrier"
                : ": no thread can go on") +
         others + "." + lines;
}

// ---- The grid -----------------------------------------------------------------------------------

// Worker threads take clusters in turn. Those that wait for other CTAs through global memory take
// turns too; as many are begun as would be resident on the chip.
class Launch {
 public:
  Launch(Grid& grid, uint64_t clusters, uint64_t resident)
      : grid_(grid), clusters_(clusters), resident_(std::max<uint64_t>(resident, 1)) {
    if (grid.check) shadow_ = make_global_shadow();
  }

  void run() {
    const bool traced = !settings().trace.empty() && grid_.policy == Policy::eager;
    const uint64_t threads = traced ? 1 : std::min<uint64_t>(settings().threads, clusters_);
    if (traced) traces_.resize(clusters_);
    std::vector<std::thread> workers;
    for (uint64_t i = 1; i < threads; ++i) workers.emplace_back([this] { work(); });
    work();
    for (std::thread& worker : workers) worker.join();
    if (error_) std::rethrow_exception(error_);
    if (shadow_) report_suspects(*shadow_, *grid_.program);
    if (traced) write_trace(grid_, events_, settings().trace);
  }

 private:
  using Owned = std::unique_ptr<Cluster>;

  void work() {
    try {
      while (Owned cluster = take()) {
        const uint64_t before = cluster->changes;
        const Outcome outcome = Runner(*cluster, cycle_of(*cluster), stop_).run();
        give_back(std::move(cluster), outcome, before);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stop_ = true;
      changed_.notify_all();
    }
  }

  Cycle& cycle_of(const Cluster& cluster) {
    const std::lock_guard lock(mutex_);
    taken_at_[cluster.id] = generation_;
    return cycles_[cluster.id];
  }

  // The next cluster to run; null when there is none left. A new one comes before those that poll.
  Owned take() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (stop_) return nullptr;
      if (next_ < clusters_ && alive_ < resident_) {
        ++alive_;
        ++running_;
        const uint64_t id = next_++;
        std::vector<std::byte> memory;
        if (!spare_.empty()) {
          memory = std::move(spare_.back());
          spare_.pop_back();
        }
        lock.unlock();
        Owned cluster = make_cluster(grid_, id, std::move(memory), shadow_);
        if (!traces_.empty()) {
          traces_[id] = std::make_unique<Trace>(*cluster);
          cluster->trace = traces_[id].get();
        }
        return cluster;
      }
      if (!ready_.empty()) {
        Owned cluster = std::move(ready_.front());
        ready_.pop_front();
        ++running_;
        return cluster;
      }
      if (alive_ == 0) return nullptr;
      if (running_ == 0) report_hang();
      changed_.wait(lock);
    }
  }

  void give_back(Owned cluster, Outcome outcome, uint64_t changes_before) {
    const std::lock_guard lock(mutex_);
    --running_;
    const bool changed = cluster->changes != changes_before;
    if (changed || outcome == Outcome::done) {  // what others wait for may be there now
      idle_turns_ = 0;
      ++generation_;
      while (!stuck_.empty()) {
        ready_.push_back(std::move(stuck_.front()));
        stuck_.pop_front();
      }
    }
    if (outcome == Outcome::done) {
      --alive_;
      for (const Cta& cta : cluster->ctas) {
        for (const Warp& warp : cta.warps) grid_.executed += warp.executed;
      }
      grid_.products += cluster->products;
      if (cluster->trace) {
        const std::vector<Trace::Event>& events = cluster->trace->events();
        events_.insert(events_.end(), events.begin(), events.end());
        traces_[cluster->id].reset();
      }
      cycles_.erase(cluster->id);
      taken_at_.erase(cluster->id);
      spare_.push_back(std::move(cluster->memory));
    } else if (taken_at_[cluster->id] != generation_ && !changed) {  // it has not seen what changed
      ready_.push_back(std::move(cluster));
    } else if (outcome == Outcome::turn && (changed || ++idle_turns_ <= IDLE_TURNS)) {
      ready_.push_back(std::move(cluster));
    } else {
      stuck_.push_back(std::move(cluster));
    }
    changed_.notify_all();
  }

  [[noreturn]] void report_hang() {
    std::vector<Cluster*> stuck;
    for (const Owned& cluster : stuck_) stuck.push_back(cluster.get());
    bool is_livelock = false;
    std::string report = hang_report(stuck, &is_livelock);
    if (next_ < clusters_) {
      report += "\n  " + std::to_string(clusters_ - next_) +
                " clusters have not begun: no more than " + std::to_string(resident_) +
                " are resident together.";
    }
    const Rule& rule = is_livelock ? rule::LIVELOCK : rule::DEADLOCK;
    throw Error(Error::Kind::hang, report + report_end(*grid_.program, rule), rule);
  }

  Grid& grid_;
  const uint64_t clusters_, resident_;
  std::shared_ptr<GlobalShadow> shadow_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Owned> ready_, stuck_;
  std::vector<std::vector<std::byte>> spare_;
  std::vector<std::unique_ptr<Trace>> traces_;  // of the clusters, if there is a timeline
  std::vector<Trace::Event> events_;            // of those that are done
  std::map<uint64_t, Cycle> cycles_;            // of clusters that are not done
  std::map<uint64_t, uint64_t> taken_at_;       // generation_ when they last began to run
  uint64_t generation_ = 0;                     // how often a cluster has changed something
  uint64_t next_ = 0, alive_ = 0, running_ = 0;
  uint64_t idle_turns_ = 0;  // turns in which clusters polled, since one changed something
  std::atomic<bool> stop_{false};
  std::exception_ptr error_;
};

// How many CTAs an SM holds, as far as threads and shared memory decide.
uint64_t ctas_per_sm(const Grid& grid) {
  constexpr uint64_t SM_THREADS = 2048, SM_CTAS = 32, SM_SMEM_BYTES = 233472, CTA_RESERVED = 1024;
  const uint64_t smem =
      grid.kernel->static_smem_bytes + grid.config.dynamic_smem_bytes + CTA_RESERVED;
  return std::min(
      {SM_CTAS, SM_THREADS / (uint64_t{grid.warps_per_cta} * LANES), SM_SMEM_BYTES / smem});
}

}  // namespace

const SpecialRegister* find_special(const std::string& name) {
  for (const SpecialRegister& special : SPECIALS) {
    if (name == special.name) return &special;
  }
  return nullptr;
}

void launch(const Module& module, const Kernel& kernel, const LaunchConfig& config,
            const void* param_block) {
  static std::atomic<uint32_t> launches{0};
  const std::shared_ptr<const Program> program = module.program(kernel);
  Grid grid;
  grid.program = program.get();
  grid.kernel = &kernel;
  grid.config = config;
  grid.ctas_per_cluster = static_cast<uint32_t>(config.cluster.count());
  grid.clusters = {config.grid.x / config.cluster.x, config.grid.y / config.cluster.y,
                   config.grid.z / config.cluster.z};
  grid.threads_per_cta = static_cast<uint32_t>(config.block.count());
  grid.warps_per_cta = (grid.threads_per_cta + LANES - 1) / LANES;
  const auto* params = static_cast<const uint8_t*>(param_block);
  grid.params.assign(params, params + kernel.param_bytes);
  grid.registers = (config.registers != 0 ? config.registers : kernel.registers) / 8 * 8;
  grid.policy = settings().policy;
  grid.check = settings().check;
  grid.seed = settings().seed;
  grid.launch_index = ++launches;
  constexpr size_t WORKSPACE_BYTES = 8;  // its size and the barrier
  const std::unique_ptr<void, bool (*)(void*)> workspace(
      config.cooperative ? allocate(WORKSPACE_BYTES, "a cooperative launch") : nullptr, release);
  if (workspace) std::memset(workspace.get(), 0, WORKSPACE_BYTES);
  grid.workspace = workspace.get();
  const auto start = std::chrono::steady_clock::now();
  Launch(grid, grid.clusters.count(), settings().sms * ctas_per_sm(grid) / grid.ctas_per_cluster)
      .run();
  if (!settings().stats) return;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "machine: %s: %llu warp instructions, %llu products of wgmma, %.6f s\n",
               kernel.name.c_str(), static_cast<unsigned long long>(grid.executed),
               static_cast<unsigned long long>(grid.products), seconds.count());
}

}  // namespace machine
