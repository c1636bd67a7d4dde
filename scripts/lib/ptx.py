"""Reads the PTX of a module: its functions, where its instructions come from, and the instructions
of a kernel with edits of them.

nvcc -lineinfo writes .loc lines, which lead from an instruction to the stage file: a place is found
by what the source says there, not by a number that the next edit changes.
"""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path
from typing import NamedTuple, Union

from lib.cli import Problem

Place = tuple[str, int]  # path and line number
Operands = Union[list[str], dict[int, str]]  # all of an instruction, or some by their index

# --- functions -----------------------------------------------------------------------------------

FUNCTION = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)?\.(entry|func)\b(?:\s*\([^)]*\))?\s+([\w$]+)",
    re.MULTILINE,
)
# What may open or end a body; comments and strings are passed over whole.
BRACE = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|([{};])', re.DOTALL)


class Function(NamedTuple):
    """text[start:end] is its head and body, or a declaration."""

    kind: str  # entry or func
    name: str  # mangled
    start: int
    end: int


def functions(text: str) -> list[Function]:
    """Those of a module in their order."""
    found: list[Function] = []
    end = 0
    for head in FUNCTION.finditer(text):
        if head.start() >= end:
            end = body_end(text, head.start())
            found.append(Function(head.group(1), head.group(2), head.start(), end))
    return found


def body_end(text: str, start: int) -> int:
    """Index past the function whose head is at start: its brace, or the ';' of a declaration."""
    depth = 0
    for match in BRACE.finditer(text, start):
        mark = match.group(1)
        depth += {"{": 1, "}": -1}.get(mark, 0)
        if depth == 0 and mark in ("}", ";"):
            return match.end()
    return len(text)


def entries(text: str) -> list[str]:
    """Mangled names of a module's kernels."""
    return [one.name for one in functions(text) if one.kind == "entry"]


# --- places --------------------------------------------------------------------------------------

FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")


class Sources:
    """Lines of source files by path and number."""

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = {}

    def line(self, path: str, number: int) -> str:
        if path not in self.files:
            there = os.path.isfile(path)
            text = Path(path).read_text(encoding="utf-8") if there else ""
            self.files[path] = text.splitlines()
        lines = self.files[path]
        text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return f"{os.path.relpath(path)}:{number}  {text}"


class Locations:
    """Where the instructions of a PTX module come from, told by its .loc lines in order."""

    def __init__(self, text: str) -> None:
        self.names: dict[str, str] = dict(FILE.findall(text))
        self.caller: dict[tuple[str, ...], tuple[str, ...] | None] = {}

    def chain(self, line: str) -> list[Place] | None:
        """After a .loc line: every place on the way from the outermost to the innermost, which code
        of the first was inlined from, each (path, line number). None for other lines and for
        compiler-made code."""
        loc = LOC.search(line)
        if not loc or loc.group(2) == "0":
            return None
        place, outer = loc.groups()[:3], loc.groups()[3:]
        self.caller[place] = outer if outer[0] else None
        chain = [place]
        while (caller := self.caller.get(chain[-1])) and caller not in chain:
            chain.append(caller)
        return [(self.names[file], int(number)) for file, number, _ in reversed(chain)]

    def step(self, line: str) -> list[Place] | None:
        """After a .loc line: the outermost place, then the innermost if code was inlined there.
        None as for chain()."""
        chain = self.chain(line)
        return chain and chain[:1] + chain[1:][-1:]


def source_line(ptx: str, number: int) -> str:
    """"path:line" that line `number` of a PTX module comes from; "" if it does not say."""
    locations, place = Locations(ptx), None
    for line in ptx.splitlines()[:number]:
        place = locations.step(line) or place
    return f"{os.path.relpath(place[0][0])}:{place[0][1]}" if place else ""


# --- instructions --------------------------------------------------------------------------------

# In a function's body. A brace that opens a statement is a scope, one inside it a vector.
TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
      | (?P<loc>\.loc\b[^\n]*)
      | (?P<label>[\w$]+\s*:)
      | (?P<scope>[{}])
      | (?P<statement>[^;]+;)""",
    re.VERBOSE,
)
INSTRUCTION = re.compile(r"(@!?[\w$%]+\s+)?([a-z][\w.:]*)\s*(.*);", re.DOTALL)


def split_operands(text: str) -> list[str]:
    """Operands of an instruction: split at the commas outside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "[{(") - (char in "]})")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


class Instruction:
    """One instruction. `start` and `end` are its offsets in the module's text, guard and semicolon
    included; `places` leads from the outermost place, the stage file's, to the innermost, each
    (path, line number)."""

    def __init__(
        self, start: int, end: int, guard: str, opcode: str, operands: list[str],
        places: list[Place],
    ) -> None:  # fmt: skip
        self.start, self.end = start, end
        self.guard, self.opcode, self.operands = guard, opcode, operands
        self.places = places

    def text(self, opcode: str | None = None, operands: Operands | None = None) -> str:
        """The instruction with another opcode or other operands."""
        if isinstance(operands, dict):
            operands = [operands.get(i, old) for i, old in enumerate(self.operands)]
        listed = ", ".join(self.operands if operands is None else operands)
        return f"{self.guard}{opcode or self.opcode} {listed}".rstrip() + ";"


class Kernel:
    """One .entry of a module: its instructions in order, and edits of them."""

    def __init__(self, module: Module, name: str, start: int, end: int) -> None:
        self.module, self.name = module, name
        self.body = start  # offset of the first character after the opening brace
        self.end = end
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}  # label: offset of what follows its colon
        self.scan()

    def scan(self) -> None:
        text, at = self.module.text, self.body
        chain: list[Place] = []
        while at < self.end:
            token = TOKEN.match(text, at, self.end)
            if token is None:
                raise Problem(f"{self.name}: cannot read the PTX at \"{text[at:at + 40]}\"")
            if token.lastgroup == "loc":
                chain = self.module.locations.chain(token.group()) or chain
            elif token.lastgroup == "label":
                self.labels[token.group().rstrip(": \t")] = token.end()
            elif token.lastgroup == "statement" and not token.group().startswith("."):
                parts = INSTRUCTION.fullmatch(token.group())
                if parts is None:
                    raise Problem(f"{self.name}: cannot read \"{token.group()}\"")
                guard, opcode, operands = parts.groups()
                self.instructions.append(Instruction(
                    token.start(), token.end(), guard or "", opcode, split_operands(operands), chain
                ))
            at = token.end()

    def find(self, opcode: str = "*", at: str | None = None) -> list[Instruction]:
        """Instructions whose opcode matches a glob, from a source line that has `at` in it. A call
        that was inlined counts: any line on the way from the stage file to the instruction."""
        return [
            i for i in self.instructions
            if fnmatch.fnmatchcase(i.opcode, opcode) and (at is None or self.comes_from(i, at))
        ]

    def comes_from(self, instruction: Instruction, at: str) -> bool:
        return any(at in self.module.sources.line(*place) for place in instruction.places)

    def one(self, opcode: str = "*", at: str | None = None) -> Instruction:
        """The only such instruction."""
        found = self.find(opcode, at)
        if len(found) == 1:
            return found[0]
        what = opcode + (f' from "{at}"' if at else "")
        raise Problem(
            f"{self.name} has {len(found)} instructions {what}, where exactly one is needed"
        )

    def after(self, instruction: Instruction) -> list[Instruction]:
        """The instructions behind one, in the order of the text."""
        return self.instructions[self.instructions.index(instruction) + 1:]

    def before(self, instruction: Instruction) -> list[Instruction]:
        """The instructions in front of one, the nearest first."""
        return self.instructions[:self.instructions.index(instruction)][::-1]

    def next_label(self, instruction: Instruction) -> int:
        """Offset behind the first label that follows an instruction; its own end if none does."""
        behind = [offset for offset in self.labels.values() if offset > instruction.end]
        return min(behind, default=instruction.end)

    # Edits take effect in Module.rewritten(), all at once.
    def delete(self, instruction: Instruction) -> None:
        self.module.edit(instruction.start, instruction.end, "")

    def replace(
        self, instruction: Instruction, opcode: str | None = None, operands: Operands | None = None
    ) -> None:
        self.replace_with(instruction, instruction.text(opcode, operands))

    def replace_with(self, instruction: Instruction, text: str) -> None:
        self.module.edit(instruction.start, instruction.end, text)

    def insert_before(self, instruction: Instruction, text: str) -> None:
        self.module.edit(instruction.start, instruction.start, text + "\n\t")

    def insert_after(self, instruction: Instruction, text: str) -> None:
        self.insert_at(instruction.end, text)

    def insert_at(self, offset: int, text: str) -> None:
        self.module.edit(offset, offset, "\n\t" + text)

    def move_after(self, instruction: Instruction, other: Instruction) -> None:
        self.delete(instruction)
        self.insert_after(other, instruction.text())


class Module:
    """The PTX of one module. Kernels are read when they are asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.locations = Locations(text)
        self.sources = Sources()
        self.edits: list[tuple[int, int, str]] = []
        self.read: dict[str, Kernel] = {}
        self.entries = {one.name: one for one in functions(text) if one.kind == "entry"}
        self.names = list(self.entries)

    def kernel(self, name: str) -> Kernel:
        """By mangled name."""
        if name not in self.names:
            raise Problem(f"the PTX has no kernel {name}, only {', '.join(self.names)}")
        if name not in self.read:
            entry = self.entries[name]
            start = self.text.index("{", entry.start) + 1
            self.read[name] = Kernel(self, name, start, entry.end - 1)
        return self.read[name]

    def edit(self, start: int, end: int, text: str) -> None:
        self.edits.append((start, end, text))

    def add_global(self, text: str) -> None:
        """A module-scope declaration, before the first kernel."""
        first = next(iter(self.entries.values())).start
        self.edit(first, first, text + "\n\n")

    def rewritten(self) -> str:
        """The text with all edits. Insertions at one place keep the order in which they came."""
        out, at = [], 0
        for start, end, new in sorted(self.edits, key=lambda edit: edit[:2]):
            if start < at:
                raise Problem(f"two edits of one instruction: \"{self.text[start:end]}\"")
            out += [self.text[at:start], new]
            at = end
        return "".join(out + [self.text[at:]])


def read_ptx(path: str | Path) -> str:
    """A file's text; raises Problem if it is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Problem(f"{path} is no PTX: byte {error.start} is not UTF-8; nvcc --keep writes PTX.")


def load_module(path: str | Path) -> Module:
    return Module(read_ptx(path))
