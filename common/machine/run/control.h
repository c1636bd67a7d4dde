// What moves the lanes of a warp to other places of the kernel: for the decoder, and for calls.
#pragma once

#include "common/machine/run/state.h"

namespace machine {

// Parts the fragment: `mask` goes on at pc. The current fragment is no more known afterwards.
void go(Warp& warp, uint32_t mask, uint32_t pc);

// The control instructions, whose operands are labels and functions.
struct Control {
  // Of Program::callables[op[0]]; an indirect one of what each lane's row op[0] points to.
  static Step call(Warp&, const Inst&, uint32_t);
  static Step call_indirect(Warp&, const Inst&, uint32_t);
  static Step results(Warp&, const Inst&, uint32_t);  // behind a call
  static Step results_indirect(Warp&, const Inst&, uint32_t);
  static Step leave(Warp&, const Inst&, uint32_t);  // ret of callables[op[0]]
  // A function that CUDA has for kernels: vprintf, __assertfail, malloc, free; nullptr: another.
  static Handler system_call(const std::string& name);
  // mov d, %clock64 …; mods: 1 of %globaltimer_hi
  static Step read_clock(Warp&, const Inst&, uint32_t);
};

}  // namespace machine
