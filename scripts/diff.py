#!/usr/bin/env python3
"""What a rung changed against the rung before it: a summary, then the diff without white space.

    diff.py stages/05_wgmma.cu

A header of common/block that the rung before did not include belongs to the change. A function in
it that the rung before had in its own file has moved there: it is named, and is no part of the
diff. Any other is new, and the header's text follows the diff.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lib.cli import Problem, command, parser_of
from lib.closure import closure
from lib.ptx import body_end

INCLUDE = re.compile(r'^\s*#include\s+["<]([^">]+)[">]', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CALL = re.compile(r"\b([a-z]\w*)\s*(?:<[^;(){}]*>)?\s*\(")
ASM = re.compile(r'\basm(?:\s+volatile)?\s*\(\s*((?:"(?:[^"\\]|\\.)*"|\s|\w)*)')
INSTANCE = re.compile(r"^[A-Z][A-Z_0-9]*\(.*\)$", re.MULTILINE)  # a macro that makes a function
DEFINE = re.compile(r"^#define \w+\([^)]*\)|\\$", re.MULTILINE)
HEAD = re.compile(r"\b(?!(?:if|for|while|switch)\b)(\w+)\s*\([^;{}]*\)\s*(?:const\s*)?\{")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
MNEMONIC = re.compile(r"^[\s{]*([a-z]\w*(?:\.\w+(?:::\w+)*)+)")
WGMMA = re.compile(r"wgmma_(m64nNk\d+_\w+)")
FUNCTION = re.compile(
    r"^(?://[^\n]*\n)*template[^\n]*\n__device__ \w+ (\w+)\(.*?^\}\n", re.MULTILINE | re.DOTALL)
GROWN = re.compile(r"^// Grown from stages/(\w+\.cu)$", re.MULTILINE)
BLOCK = "common/block/"
GLUE = ("setp.", "selp.")  # predicates in and out of an asm statement


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def before(path: str) -> str | None:
    """The file of the rung that `path` has grown from, else the one before it; None for the first."""
    said = GROWN.search(read(path))
    if said:
        return os.path.normpath(os.path.join(os.path.dirname(path), said.group(1)))
    files = sorted(glob.glob(os.path.join(os.path.dirname(path) or ".", "[0-9]*_*.cu")))
    files = [os.path.normpath(file) for file in files]
    if os.path.normpath(path) not in files:
        raise Problem(f"{path} is no file of a rung; make diff-N takes the number of one.")
    place = files.index(os.path.normpath(path))
    return files[place - 1] if place else None


def squeezed(text: str) -> list[str]:
    """A text's lines without white space, blank ones left out: what counts as a change."""
    lines = ("".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line]


def parts(text: str) -> dict[str, str]:
    """{name: text} of the functions that stand at the left margin, with the comment above each."""
    return {found.group(1): found.group() for found in FUNCTION.finditer(text)}


def block_headers(path: str) -> list[str]:
    """Headers of common/block that a stage file includes."""
    return [name for name in INCLUDE.findall(read(path)) if name.startswith(BLOCK)]


class Change:
    """What is to be compared: `old` and `new` text of the rungs' files, without what has `moved`
    ({function: header}), and {header: lines} of what common/block has `added`."""

    def __init__(self, old: str, new: str, root: str = ".") -> None:
        self.old, self.new = read(old), read(new)
        self.moved: dict[str, str] = {}
        self.added: dict[str, list[str]] = {}
        for header in block_headers(new):
            if header in block_headers(old):
                continue
            own = parts(self.old)
            for name, text in parts(read(os.path.join(root, header))).items():
                if squeezed(own.get(name, "")) == squeezed(text):
                    self.moved[name] = header
                    self.old = self.old.replace(own[name], "")
                else:
                    self.added.setdefault(header, []).extend(squeezed(text))

    def lines(self) -> tuple[int, int, int]:
        """Lines (added, removed, changed). A line replaced by another is one added and one removed,
        and counts as one changed."""
        old, new = squeezed(self.old), squeezed(self.new)
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        in_headers = sum(map(len, self.added.values()))
        edits = [(l - k, j - i) for tag, i, j, k, l in matcher.get_opcodes() if tag != "equal"]
        edits.append((in_headers, 0))
        return sum(new for new, _ in edits), sum(old for _, old in edits), sum(map(max, edits))


def reachable(path: str, root: str = ".") -> set[str]:
    """Headers under `root` that a file includes, directly or not, by their path in the tree."""

    def included(path: str) -> list[str]:
        names = INCLUDE.findall(read(path))
        return [name for name in names if os.path.isfile(os.path.join(root, name))]

    return closure(included(path), lambda name: included(os.path.join(root, name)))


def of_any_width(text: str) -> str:
    """A header in which what macros make stands as functions, and in which wgmma has N columns."""
    text = DEFINE.sub("", INSTANCE.sub("", text))
    text = re.sub(r'##(\w+)##|"\s*#(\w+)\s*"', lambda found: found[1] or found[2], text)
    return re.sub(r"m64n\d+k", "m64nNk", text)


def functions(text: str) -> dict[str, str]:
    """{name: body} of the functions defined in a header, overloads taken together."""
    bodies: dict[str, str] = {}
    text = of_any_width(text)
    for head in HEAD.finditer(text):
        body = text[head.end() : body_end(text, head.end() - 1)]
        bodies[head.group(1)] = bodies.get(head.group(1), "") + body
    return bodies


def mnemonics(body: str) -> list[str]:
    """PTX mnemonics of the asm statements in a function's body."""
    found = []
    for statement in ASM.findall(body):
        text = "".join(STRING.findall(statement)).replace("\\n", " ")
        for part in text.split(";"):
            mnemonic = MNEMONIC.match(part)
            if mnemonic and not mnemonic.group(1).startswith(GLUE):
                found.append(mnemonic.group(1))
    return found


def of_macro(name: str) -> list[str]:
    """The mnemonic of a wgmma that a macro of macros makes: the wrapper is named as its mnemonic."""
    made = WGMMA.fullmatch(name)
    return ["wgmma.mma_async.sync.aligned." + made.group(1).replace("_", ".")] if made else []


def instructions(path: str, root: str = ".") -> dict[str, str]:
    """{PTX mnemonic: wrapper} of what a stage file calls in common/ptx, directly or through the
    helpers of common/."""
    bodies: dict[str, str] = {}
    for header in sorted(reachable(path, root)):
        text = COMMENT.sub("", read(os.path.join(root, header)))
        for name, body in functions(text).items():
            bodies[name] = bodies.get(name, "") + body

    def called(text: str) -> set[str]:
        return set(CALL.findall(text)) & set(bodies)

    own = called(of_any_width(COMMENT.sub("", read(path))))
    found: dict[str, str] = {}
    for name in sorted(closure(own, lambda name: called(bodies[name]))):
        for mnemonic in mnemonics(bodies[name]) or of_macro(name):
            found.setdefault(mnemonic, name)
    return found


def show_diff(old: str, new: str, change: Change) -> None:
    """Prints the diff: with git, from copies without what has moved."""
    color = sys.stdout.isatty()
    sys.stdout.flush()
    if shutil.which("git"):
        when = "always" if color else "never"
        command = ["git", "--no-pager", "diff", "--no-index", "-w", "--ignore-blank-lines"]
        command += ["--patience", f"--color={when}"]
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join("stages", os.path.basename(path)) for path in (old, new)]
            os.mkdir(os.path.join(folder, "stages"))
            for name, text in zip(names, (change.old, change.new)):
                Path(folder, name).write_text(text, encoding="utf-8")
            subprocess.run(command + names, check=False, cwd=folder)
        for header in change.added:
            sys.stdout.flush()
            subprocess.run(command + ["/dev/null", header], check=False)
        return
    pairs = [(old, change.old, new, change.new)]
    pairs += [("/dev/null", "", header, read(header)) for header in change.added]
    for old_name, old_text, new_name, new_text in pairs:
        before, after = ([" ".join(line.split()) for line in text.splitlines() if line.strip()]
                         for text in (old_text, new_text))  # fmt: skip
        for line in difflib.unified_diff(before, after, old_name, new_name, lineterm=""):
            print(line)


@command()
def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("file", help="a rung's, of stages/")
    new = parser.parse_args().file
    if not os.path.isfile(new):
        raise Problem(f"There is no file {new}; make diff-N takes the number of a rung.")
    old = before(new)
    if old is None:
        raise Problem(f"{new} is the first rung, with nothing before it to compare: read it whole.")
    change = Change(old, new)
    added, removed, changed = change.lines()
    print(f"{old} -> {new}")
    print(f"{added} lines added, {removed} removed ({changed} changed), white space ignored")
    old_includes = INCLUDE.findall(read(old))
    for name in INCLUDE.findall(read(new)):
        if name not in old_includes:
            print(f"new include      {name}")
    known = instructions(old)
    for mnemonic, wrapper in sorted(instructions(new).items()):
        if known.get(mnemonic) != wrapper:
            kind = "operands   " if mnemonic in known else "instruction"
            print(f"new {kind}  {mnemonic}  ({wrapper})")
    for name, header in change.moved.items():
        print(f"moved unchanged  {name}, now in {header}")
    print()
    show_diff(old, new, change)
    return 0


if __name__ == "__main__":
    sys.exit(main())
