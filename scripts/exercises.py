#!/usr/bin/env python3
"""Runs the exercises of docs/NN_*.md, the proofs of docs/misconceptions.md and the examples of the
guides: applies the change that an answer shows, in a copy of the tree, runs its commands there and
compares what they print with what the answer says.

    exercises.py [NAME...]      all, or those that are named: 5.2 is the second of page 5, m.2 that of
                                docs/misconceptions.md, mbarrier.1 the first example of
                                docs/mbarrier.md
    exercises.py --show NAME    one, for a reader: everything that its commands print
    exercises.py --list         their names
    exercises.py --known NAME   runs nothing; refuses a name that there is not

An exercise is a numbered item of a section "Break it", or "The list", or of "Rung N" of
docs/more_exercises.md. It begins with *(GPU)* or *(no GPU)* and has
a folded answer, <details>, in which fences say what to do, in this order:

    ```diff     --- FILE, then hunks divided by lines @@: what is taken out and put in, and lines that
                stay. The lines of a hunk but those with + stand in FILE next to each other, once.
    ```sh       commands, one a line, run on the PTX machine if a ```text follows
    ```text     what they print; … stands for anything, white space counts once

An example is such a run of fences anywhere on another page: each ```sh with a ```text right behind
it, and the ```diff in front of it, if there is one.

The last line is "exercises: N passed, N failed, N skipped". Python standard library only.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lib.cli import OK, ROOT, Problem, command, parser_of
from lib.markdown import Fence, fences, numbered, squeezed
from lib.tools import has_machine

SECTIONS = ("## Break it", "## The list")
MISCONCEPTIONS = "misconceptions.md"
MORE = "more_exercises.md"
RUNG = re.compile(r"^## Rung (\d+)$")
COPIES = ROOT / "build" / "exercises"  # trees that answers are tried in
ITEM = re.compile(r"^(\d+)\. ")
MARK = re.compile(r"^\d+\. \*\((GPU|no GPU)\)\* ")
ELISION = "…"
SHOWN_LINES = 25  # of what a command prints, where it is not what the answer says
MARKUP = re.compile(r"<!--.*?-->|</?(?:details|summary)>")  # of a page, not for a terminal
TIMEOUT_S = 900  # of one command: a rung is compiled, linked and run
SETTINGS = ("MACHINE_", "LADDER_", "REPLACE_PTX", "MAKE", "MFLAGS")  # of the caller


Step = tuple[str, list[str], list[str]]  # kind, lines, what they print


class Exercise(NamedTuple):
    page: str
    name: str  # "5.2"; of an example, a command and what it prints, "mbarrier.1"
    lines: list[str]
    fences: list[Fence]
    gpu: bool | None  # whether it is marked as one for a GPU; None without a mark
    is_example: bool = False

    def steps(self) -> list[Step]:
        """What is done: ("diff", lines, []) and ("run", commands, expected lines)."""
        found: list[Step] = []
        for fence, behind in zip(self.fences, [*self.fences[1:], None]):
            if fence.language == "diff":
                found.append(("diff", fence.lines, []))
            elif fence.language == "sh" and behind and behind.language == "text":
                found.append(("run", fence.lines, behind.lines))
        return found

    def change(self) -> list[str]:
        """The lines of its ```diff; none of one that only runs commands."""
        return [line for kind, lines, _ in self.steps() if kind == "diff" for line in lines]

    def form(self) -> Iterator[str]:
        """What its text lacks, one sentence each."""
        if self.is_example:
            return
        text = "\n".join(self.lines)
        if self.gpu is None:
            yield "begins with neither *(GPU)* nor *(no GPU)*"
        if text.count("<details>") != 1 or text.count("</details>") != 1:
            yield "has no folded answer"
            return
        if re.search(r"```(diff|text)", text.split("<details>")[0]):
            yield "gives its answer away before <details>"
        if self.gpu is False and not any(kind == "run" for kind, _, _ in self.steps()):
            yield "is for a machine without a GPU, but its answer has no ```sh with a ```text"


def examples(page: Path) -> list[Exercise]:
    """The examples of a page: runs of fences that stand one behind the other and end in ```text."""
    found: list[Exercise] = []
    block: list[Fence] = []
    for fence in fences(page.read_text(encoding="utf-8")):
        block = [*(block if fence.follows else []), fence]
        if fence.language == "text" and len(block) > 1 and block[-2].language == "sh":
            lines = [line for f in block for line in (f"```{f.language}", *f.lines, "```")]
            name = f"{page.stem}.{len(found) + 1}"
            found.append(Exercise(page.name, name, lines, block, False, is_example=True))
            block = []
    return found


def of_page(page: Path) -> list[Exercise]:
    """The exercises of a page."""
    lines = page.read_text(encoding="utf-8").split("\n")
    found: list[Exercise] = []
    for i, line in enumerate(lines):
        rung = RUNG.match(line) if page.name == MORE else None
        if rung:
            found += of_section(page, int(rung.group(1)), lines[i + 1 :])
        elif line in SECTIONS:
            number = "m" if page.name == MISCONCEPTIONS else int(page.name.split("_")[0])
            found += of_section(page, number, lines[i + 1 :])
    return found


def of_section(page: Path, which: int | str, lines: list[str]) -> list[Exercise]:
    """The list of a section, whose heading stands before the lines."""
    end = next((i for i in range(len(lines)) if lines[i].startswith("## ")), len(lines))
    found: list[tuple[str, list[str]]] = []
    for _, line, fenced in numbered("\n".join(lines[:end])):
        item = ITEM.match(line) if not fenced else None
        if item:
            found.append((item.group(1), [line]))
        elif found and (line.startswith(" ") or not line):
            found[-1][1].append(line)
        elif found and line:
            break  # behind the list
    exercises = []
    for number, body in found:
        mark = MARK.match(body[0])
        gpu = mark.group(1) == "GPU" if mark else None
        read = fences("\n".join(body))
        exercises.append(Exercise(page.name, f"{which}.{number}", body, read, gpu))
    return exercises


def all_exercises(root: Path = ROOT) -> list[Exercise]:
    pages = sorted((root / "docs").glob("[0-9]*_*.md"))
    pages += [root / "docs" / name for name in (MORE, MISCONCEPTIONS)]
    pages = [page for page in pages if page.exists()]
    known = [exercise for page in pages for exercise in of_page(page)]
    guides = sorted(set((root / "docs").glob("*.md")) - set(pages))
    return known + [example for page in guides for example in examples(page)]


def digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def apply(lines: list[str], tree: Path) -> None:
    """Makes the change of a ```diff in the tree."""
    path: Path | None = None
    by_kind = itertools.groupby(lines, lambda line: line.startswith(("--- ", "@@")))
    for is_head, some in by_kind:
        if not is_head:
            change(path, list(some))
            continue
        for line in some:
            path = tree / line[4:].strip() if line.startswith("--- ") else path
            if path and not path.is_file():
                raise Problem(f"{line[4:]} does not exist")


def change(path: Path | None, hunk: list[str]) -> None:
    if path is None:
        raise Problem("a diff begins with --- FILE")
    for line in hunk:
        if line[:1] not in ("", " ", "+", "-"):
            raise Problem(f'"{line}" is no line of a diff')
    old = "".join(line[1:] + "\n" for line in hunk if line[:1] != "+")
    new = "".join(line[1:] + "\n" for line in hunk if line[:1] != "-")
    source = path.read_text(encoding="utf-8")
    count = len(re.findall("^" + re.escape(old), source, re.MULTILINE))
    if count != 1 or old == new:
        raise Problem(f"{path.name} has {count} places like\n{old}")
    path.write_text(source.replace(old, new), encoding="utf-8")


def copy_tree(root: Path, tree: Path) -> None:
    """What make needs. Built files are links: make never writes into a file that it has made."""
    leave = shutil.ignore_patterns("__pycache__")
    for name in ("common", "stages", "scripts", "tests"):
        shutil.copytree(root / name, tree / name, ignore=leave)
    shutil.copy2(root / "Makefile", tree / "Makefile")
    (tree / "docs").symlink_to(root / "docs")
    leave = shutil.ignore_patterns(COPIES.name, "test-logs", "clang-format-*", "trace", "tmp*",
                                    "site*")  # fmt: skip
    shutil.copytree(root / "build", tree / "build", copy_function=os.link, ignore=leave)


def run(line: str, tree: Path) -> str:
    """All that the command prints, the make that runs it left out of its environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)}
    settings = {**kept, "LADDER_DEVICE": "machine", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(
            ["bash", "-c", line], cwd=tree, env=settings, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"The command had not ended after {TIMEOUT_S} s.\n"
    return ended.stdout


def says(printed: str, expected: list[str]) -> bool:
    """Whether the parts of `expected` between elisions stand in `printed`, in this order."""
    parts = [squeezed(part) for part in "\n".join(expected).split(ELISION)]
    if not any(parts):
        raise Problem("the answer's ```text is empty")
    return re.search(".*?".join(map(re.escape, parts)), squeezed(printed)) is not None


def try_exercise(
    exercise: Exercise, root: Path = ROOT, folder: str = "", shown: bool = False
) -> str | None:
    """None, or what is wrong. shown: prints each command and what it prints."""
    problems = list(exercise.form())
    if problems:
        return "; ".join(problems)
    steps = exercise.steps()
    if not steps:
        return None
    tree = Path(folder) / exercise.name
    try:
        copy_tree(root, tree)
        for kind, lines, expected in steps:
            if kind == "diff":
                apply(lines, tree)
                continue
            printed = ""
            for line in lines:
                output = run(line, tree)
                if shown:
                    print(f"$ {line}\n{output}", flush=True)
                printed += output
            if not says(printed, expected):
                end = "\n".join(printed.rstrip().split("\n")[-SHOWN_LINES:])
                return f"{'; '.join(lines)} does not print what the answer says, but\n{end}"
    except Problem as problem:
        return str(problem)
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    return None


def copies() -> tempfile.TemporaryDirectory[str]:
    """A folder on the file system of build/, so that links into it can be made."""
    COPIES.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=COPIES)


def show(exercise: Exercise) -> int:
    print(MARKUP.sub("", "\n".join(exercise.lines)).rstrip() + "\n", flush=True)
    with copies() as folder:
        wrong = try_exercise(exercise, ROOT, folder, shown=True)
    if wrong:
        print(f"exercise {exercise.name}: {wrong}", file=sys.stderr)
    return 1 if wrong else 0


def run_all(exercises: list[Exercise], workers: int) -> int:
    failed = 0
    with copies() as folder, \
            concurrent.futures.ThreadPoolExecutor(workers) as pool:  # fmt: skip
        tries = [(e, pool.submit(try_exercise, e, ROOT, folder)) for e in exercises]
        for exercise, future in tries:
            wrong = future.result()
            failed += bool(wrong)
            ran = "its answer runs" if exercise.steps() else "nothing to run"
            print(f"  {exercise.name:5} {wrong or ran}", flush=True)
    print(f"exercises: {len(exercises) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def near(name: str, known: list[str]) -> str:
    """Those of its page, or the pages."""
    page = name.split(".")[0]
    own = sorted((each for each in known if each.split(".")[0] == page),
                 key=lambda each: int(each.split(".")[1]))  # fmt: skip
    if own:
        return f"of {page} there are {', '.join(own)}"
    pages = dict.fromkeys(each.split(".")[0] for each in known)
    return f"there are some of {', '.join(pages)}, such as {known[0]}"


@command()
def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    verb = parser.add_mutually_exclusive_group()
    verb.add_argument("--show", metavar="NAME")
    verb.add_argument("--list", action="store_true")
    verb.add_argument("--known", action="store_true")
    options = parser.parse_args(arguments)
    known = {exercise.name: exercise for exercise in all_exercises()}
    for name in options.names + ([] if options.show is None else [options.show]):
        if name not in known:
            raise Problem(f"There is no exercise {name or repr(name)}; {near(name, list(known))}.")
    if options.list:
        print(textwrap.fill(" ".join(known), 100))
    if options.list or options.known:
        return OK
    if not has_machine(ROOT):
        raise Problem("The PTX machine is not built: make machine builds it.")
    if options.show is not None:
        return show(known[options.show])
    return run_all([known[n] for n in options.names] or list(known.values()), os.cpu_count() or 1)


if __name__ == "__main__":
    sys.exit(main())
