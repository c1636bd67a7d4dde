"""What a mutation is, and edits that many share."""

from __future__ import annotations

import re
from collections.abc import Callable

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


class Mutation:
    """name: as in `make failure-NAME`. subject: the kernel. what: the change. lesson: what a reader
    should take from it. edit(kernel) makes the change. caught: {kind: words}, each kind of report
    that is right for it, with regular expressions that the report must contain. policies: those
    that show it, tried in order. gpu: how a run on a GPU must end, if that is certain: "hang",
    "wrong result" or "fault". group: a heading of docs/failures.md."""

    def __init__(
        self, name: str, subject: Subject, what: str, lesson: str, caught: Caught,
        policies: list[Policy], gpu: str | None, edit: Edit,
    ) -> None:  # fmt: skip
        self.group = GROUPS[-1]
        self.name, self.subject, self.what, self.lesson = name, subject, what, lesson
        self.caught, self.policies, self.gpu, self.edit = caught, policies, gpu, edit

    def apply(self, module: Module) -> None:
        self.edit(self.subject.find_kernel(module))


def mutation(
    name: str, subject: Subject, what: str, lesson: str, caught: Caught,
    policies: list[Policy] = POLICIES, gpu: str | None = None, edit: Edit | None = None,
) -> Callable[[Edit], Edit]:  # fmt: skip
    """With `edit`, the function that makes the change; without, it decorates that."""

    def register(change: Edit) -> Edit:
        MUTATIONS[name] = Mutation(name, subject, what, lesson, caught, policies, gpu, change)
        return change

    if edit:
        register(edit)
    return register


def find_mutation(name: str) -> Mutation:
    if name not in MUTATIONS:
        raise Problem(f"no mutation is called {name}{suggestion(name, MUTATIONS)} "
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


def delete_all(opcode: str, at: str | None = None) -> Edit:
    def edit(kernel: Kernel) -> None:
        for instruction in kernel.find(opcode, at):
            kernel.delete(instruction)

    return edit


def operands(new: Operands, opcode: str, at: str | None = None) -> Edit:
    return lambda kernel: kernel.replace(kernel.one(opcode, at), operands=new)


def operands_of_all(new: Operands, opcode: str, at: str | None = None) -> Edit:
    def edit(kernel: Kernel) -> None:
        for instruction in kernel.find(opcode, at):
            kernel.replace(instruction, operands=new)

    return edit


def opcode(new: str, old: str, at: str | None = None) -> Edit:
    return lambda kernel: kernel.replace(kernel.one(old, at), opcode=new)


def at_once(at: str | None = None, opcode: str = "mbarrier.try_wait.*") -> Edit:
    """A wait that returns at once."""
    return lambda kernel: always_true(kernel, kernel.one(opcode, at))

