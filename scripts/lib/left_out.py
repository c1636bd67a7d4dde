"""PTX without one of a kernel's instructions that order others, as the PTX machine leaves them out:
common/machine/code/orderings.cpp."""

from __future__ import annotations

import os
import re

from lib.ptx import Instruction, Kernel, Module

# What a report leaves unsaid of an opcode: Program::opcode() of the machine.
UNSAID = re.compile(r"\.(sync\.aligned|shared::cluster\.global|global\.shared::cta|"
                    r"mbarrier::complete_tx::bytes|tile|bulk_group|L2::cache_hint|m8n8)(?=\.|$)")  # fmt: skip
PLACE = re.compile(r"([\w./-]+):(\d+)")
ACCESS = re.compile(r"(?:ld|st|red|atom)\..*?(\.acq_rel|\.acquire|\.release)")


def comes_from(instruction: Instruction, opcode: str, place: str) -> bool:
    """Whether it is what the machine's list calls so: "bar.sync at a.cu:12 (in b.cuh:3)"."""
    places = {(os.path.relpath(path), line) for path, line in instruction.places}
    said = {(path, int(line)) for path, line in PLACE.findall(place)}
    return UNSAID.sub("", instruction.opcode) == opcode and places == said


def leave_out(kernel: Kernel, instruction: Instruction) -> None:
    opcode, operands = instruction.opcode, instruction.operands
    access = ACCESS.match(opcode)
    if access:
        kernel.replace(instruction, opcode.replace(access.group(1), ".relaxed", 1))
    elif opcode.startswith("mbarrier.t"):  # test_wait, try_wait: over
        address = operands[1].strip("[]")
        kernel.replace_with(instruction, f"setp.eq.u32 {operands[0]}, {address}, {address};")
    elif ".red." in opcode:  # of a barrier: each thread's own vote
        kernel.replace_with(instruction, f"and.pred {operands[0]}, {operands[-1]}, {operands[-1]};")
    else:
        kernel.delete(instruction)


def alone(module: Module, kernel: Kernel) -> None:
    """The other kernels do nothing: they are there, and soon assembled."""
    for name, entry in module.entries.items():
        if name != kernel.name:
            start = module.text.index("{", module.text.index(")", entry.start))
            module.edit(start, entry.end, "{ ret; }")
