// Where a program runs: on a GPU, or on the PTX machine that is built beside it.
#pragma once

#include <string>
#include <vector>

#include "common/host/registry.h"
#include "common/host/workload.h"

namespace ladder {

// Before anything runs: throws Refused for a LADDER_ variable that no program reads, and for an
// unusable LADDER_TIMEOUT.
void check_settings();

// Whether this process has the PTX machine for its CUDA runtime.
bool on_machine();

// Whether it has it, or LADDER_DEVICE asks for it.
bool machine_is_wanted();

// Why device 0 cannot run the ladder, in a few words: no driver, one that is too old, no device, or
// one that is not of compute capability 9.0. "" if it can. Asks the driver, without the runtime.
std::string why_no_gpu();

// Starts the program again on the PTX machine if LADDER_DEVICE is "machine", or if it is not set
// and there is no usable GPU; does not return then. Returns if the program is to stay where it is: on
// the machine already, on a GPU, with LADDER_DEVICE=gpu, or if the machine was not built, so that
// the first call of CUDA says what is missing. Throws Refused for another LADDER_DEVICE, NoDevice
// if the machine is asked for and cannot be had.
void choose_device(const std::string& program, const std::vector<std::string>& arguments);

// The shape of a run on the machine whose options give none: several tiles each way for every
// rung, several for a CTA of a persistent one, and nothing that is a multiple of anything.
inline constexpr Shape MACHINE_SHAPE{301, 557, 331};
// Columns where they come by 16, as SwiGLU has them.
inline constexpr int MACHINE_COLUMNS_BY_16 = 560;

// The machine's policies that a run goes through, one after the other: the one that MACHINE_POLICY
// names, or else all. On a GPU one that is called "".
std::vector<std::string> policies();

// One of policies(), from the next launch on.
void use_policy(const std::string& policy);

// What a program prints first on the machine.
std::string machine_line();

// How long one variant of the rung takes there at this shape, under all policies(), or so many of
// them; "" if that is not worth a word.
std::string duration_line(const Stage& stage, const Shape& shape, size_t variants);

// What to add to a sentence that says that there is no GPU; "" if there is nothing to add.
std::string machine_advice();

}  // namespace ladder
