"""What a mutation is, and edits that many share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from lib.cli import Problem, suggestion
from lib.mutations.subjects import Subject
from lib.ptx import Instruction, Kernel, Module, Operands

Policy = tuple[str, int]  # of the machine, with a seed
Caught = dict[str, list[str]]
Edit = Callable[[Kernel], None]
RANDOM = [("random", seed) for seed in (1, 2, 3)]
POLICIES = [("eager", 1), ("lazy", 1)] + RANDOM

MUTATIONS: dict[str, Mutation] = {}
GROUPS: list[str] = []  # headings; a mutation belongs to the last one before it


class Mutation(NamedTuple):
    name: str  # as in `make failure-NAME`
    subject: Subject  # the kernel
    what: str  # the change
    lesson: str  # what a reader should take from it
    caught: Caught  # kinds of report that are right, with expressions that the report must contain
    policies: list[Policy]  # those that show it, tried in order
    gpu: str | None  # how a run on a GPU must end, if that is certain: a kind of report
    edit: Edit  # makes the change
    group: str  # a heading of docs/failures.md

    def apply(self, module: Module) -> None:
        self.edit(self.subject.find_kernel(module))


def mutation(
    name: str, subject: Subject, what: str, lesson: str, caught: Caught,
    policies: list[Policy] = POLICIES, gpu: str | None = None, edit: Edit | None = None,
) -> Callable[[Edit], Edit]:  # fmt: skip
    """With `edit`, the function that makes the change; without, it decorates that."""

    def register(change: Edit) -> Edit:
        MUTATIONS[name] = Mutation(
            name, subject, what, lesson, caught, policies, gpu, change, GROUPS[-1])
        return change

    if edit:
        register(edit)
    return register


def find_mutation(name: str) -> Mutation:
    if name not in MUTATIONS:
        raise Problem(f"no mutation is called {name or repr(name)}{suggestion(name, MUTATIONS)} "
                      "docs/failures.md has all of them.")  # fmt: skip
    return MUTATIONS[name]


RACE_WGMMA_TMA = {"race": ["wgmma", "cp.async.bulk.tensor"]}
READS_TOO_EARLY = {  # in whichever order the two come
    "race": [r"wgmma\S* reads .*, which (nothing has|cp.async.bulk.tensor\S* has) written|"
             r"wgmma\S* reads .* before cp.async.bulk.tensor\S* writes it"],
}  # fmt: skip
FULL = "smem.full["
EMPTY = "smem.empty["


def always_true(kernel: Kernel, wait: Instruction) -> None:
    """A wait that returns at once."""
    address = wait.operands[1].strip("[]")
    kernel.replace_with(wait, f"setp.eq.u32 {wait.operands[0]}, {address}, {address};")


def parts(pattern: str, operand: str) -> re.Match[str]:
    """An operand taken apart."""
    match = re.fullmatch(pattern, operand)
    if not match:
        raise Problem(f"The operand {operand} does not look like {pattern}.")
    return match


def with_register(
    kernel: Kernel, instruction: Instruction, register: str, value: str, operands: Operands
) -> None:
    """The instruction with a register of its own among its operands, set by `value`."""
    changed = instruction.text(operands=operands)
    kernel.replace_with(instruction, f"{{ .reg {register}; {value};\n\t  {changed} }}")


def delete(opcode: str, at: str | None = None) -> Edit:
    return lambda kernel: kernel.delete(kernel.one(opcode, at))


def each(
    change: Callable[[Kernel, Instruction], None], opcode: str, at: str | None = None
) -> Edit:
    """The same change of all such instructions; there must be some."""

    def edit(kernel: Kernel) -> None:
        found = kernel.find(opcode, at)
        if not found:
            raise Problem(f"{kernel.name} has no {opcode} from {at}")
        for instruction in found:
            change(kernel, instruction)

    return edit


def delete_all(opcode: str, at: str | None = None) -> Edit:
    return each(Kernel.delete, opcode, at)


def operands(new: Operands, opcode: str, at: str | None = None) -> Edit:
    return lambda kernel: kernel.replace(kernel.one(opcode, at), operands=new)


def operands_of_all(new: Operands, opcode: str, at: str | None = None) -> Edit:
    return each(lambda kernel, i: kernel.replace(i, operands=new), opcode, at)


def opcode(new: str, old: str, at: str | None = None) -> Edit:
    return lambda kernel: kernel.replace(kernel.one(old, at), opcode=new)


def at_once(at: str | None = None, opcode: str = "mbarrier.try_wait.*") -> Edit:
    """A wait that returns at once."""
    return lambda kernel: always_true(kernel, kernel.one(opcode, at))


def at_once_of_several(number: int, at: str) -> Edit:
    """The same of one of several waits, numbered from 0."""
    return lambda kernel: always_true(kernel, kernel.find("mbarrier.try_wait.*", at)[number])


def coordinate_moved(opcode: str, at: str, pattern: str, by: int) -> Edit:
    """Copies that begin further on: pattern takes their second operand apart, what stands before a
    coordinate, its register, and what stands behind."""

    def move(kernel: Kernel, copy: Instruction) -> None:
        before, register, behind = parts(pattern, copy.operands[1]).groups()
        value = f"add.s32 moved, {register}, {by}"
        with_register(kernel, copy, ".b32 moved", value, {1: f"{before}moved{behind}"})

    return each(move, opcode, at)

