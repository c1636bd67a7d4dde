// griddepcontrol: a kernel that starts before the one in front of it has ended.
#pragma once

namespace ptx {

// griddepcontrol.launch_dependents;
//   issued by : any thread. Once every CTA of the grid has, or has exited, the next kernel of the
//               stream may start, if it was launched with programmatic stream serialization.
//   orders    : nothing
//   ISA       : #parallel-synchronization-and-communication-instructions-griddepcontrol
__device__ inline void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// griddepcontrol.wait;
//   issued by : every thread that will touch global memory, before it does
//   orders    : everything that the kernels before did, which have ended and flushed, before what
//               follows. Returns at once in a kernel that was launched in the ordinary way.
//   ISA       : #parallel-synchronization-and-communication-instructions-griddepcontrol
__device__ inline void griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace ptx
