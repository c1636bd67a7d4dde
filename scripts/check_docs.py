#!/usr/bin/env python3
"""Checks README.md, CONTRIBUTING.md and docs/*.md against sources and results.

  check_docs.py [--root DIR]

Prints a line for each failed or skipped check; the last line is "docs: N passed, N failed,
N skipped". Exit code 1 if anything failed. Python standard library only.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import exercises
import explore
import figures
import mutations
import tables
from lib.cli import ROOT, Problem, command, parser_of, project
from lib.closure import closure
from lib.markdown import END, LINK, fences, files, marked, prose, slug, squeezed
from lib.published import Skipped, check_baselines, check_choices, check_hashes
from lib.results import load_all
from lib.tables.exercises import rows as timed_rows
from lib.tools import has_machine

FROM = re.compile(r"^<!-- from (\S+) -->$")
REPORT = re.compile(r"^<!-- report of (\S+) -->$")  # NAME of make failure-NAME
EXPLORED = re.compile(r"^<!-- make explore (.+) -->$")  # what stands in the fence behind it
ISA = "https://docs.nvidia.com/cuda/parallel-thread-execution/"
ISA_LINK = re.compile(re.escape(ISA) + r"#[a-z0-9-]+")
SPEED = re.compile(r"\d[\d.,]*\s*(?:TFLOPS|TFLOP/s|GFLOPS|GFLOP/s)")
MAKE = re.compile(r"\bmake ([a-z]+(?:-[a-z]+)*)(-(?:NN?|\d+))?(?![\w/-])(?!\.[M\d])")
MAKE_FILE = re.compile(r"\bmake (?:-s )?(build/[\w./-]*\w)")
EXERCISE = re.compile(r"\bmake exercise-(\w+\.\d+)")
FAILURE = "failure-"  # make failure-NAME
COMMAND_FILES = re.compile(r"(?<![\w/.-])(?:scripts|common|docs|stages|tests)/[\w./-]*\w")

# Numbers that several pages use: each comes from docs/results where it stands, so that no page can
# say another one. A link's words, and words that a number follows.
MEASURED_PAGES = re.compile(r"\[([^\]]*)\]\((?:docs/)?(?:hopper_numbers|limits)\.md[^)]*\)")
NAMED_NUMBERS = {
    "what mma.sync reaches": r"`mma\.sync`,? (?:(?:works|does|needs|at|about) )*(\d[\d.]*)",
    "what mma.sync takes": r"^\| `mma\.sync`[^|]*\|.*\| *(\d[\d.]*) *\|$",
    "what a ceiling allows": r"\bat most (\d[\d.]* %)(?= of the (?:rate|tensor))",
}

# Terms that have to be looked up, with the pages' own that are easily taken for everyday words.
GLOSSARY = """GPC SBO LBO scale-d acquire release relaxed scope proxy swizzle atom chunk descriptor rung
variant warpgroup producer consumer cluster raster slot parity epilogue policy race deadlock GEMM SM
TMA lane warp grid CTA phase wave panel box fence barrier bank sector tile ring workspace mbarrier
multicast persistent fragment spill""".split()
GLOSSARY += [
    "core matrix", "tensor map", "tensor memory", "tensor core", "CTA pair", "block scaling",
    "stream-K", "ping-pong", "dependent launch", "register trading", "pending count", "tx-count",
    "proxy fence", "generic proxy", "async proxy", "K-major", "MN-major",
]  # fmt: skip

SECTIONS = "The idea,New instructions,Measured,Pitfalls,Break it,How others do it".split(",")
EXCERPTS = 4  # at least, of a page

# What no text of the project may contain, each with the reason.
FORBIDDEN = {
    r"(?<![\w.])/(?:home|root|tmp|work|Users|mnt)/\w": "a path of one machine",
    r"\b(?:TODO|FIXME|XXX)\b": "a note of something unfinished",
    r"(?i)\b(?:blazing|cutting-edge|state-of-the-art|game-chang\w+|effortless\w*|seamless\w*"
    r"|revolutionary|supercharge\w*|unleash\w*)\b": "advertising",
}


Problems = Iterator[str]  # that a check finds, one sentence each

# --- reading Markdown ----------------------------------------------------------------------------


def need(root: Path, *names: str, make: str) -> None:
    for name in names:
        if not (root / name).exists():
            raise Skipped(f"{name} is not built (make {make} builds it)")


def pages(root: Path) -> Iterator[tuple[Path, str, str]]:
    """(path, its name for a reader, text) of every page."""
    for path in files(root):
        yield path, str(path.relative_to(root)), path.read_text(encoding="utf-8")


def lines(root: Path) -> Iterator[tuple[Path, str, str]]:
    """(path, page:line, line) of all prose."""
    for path, name, text in pages(root):
        for number, line in prose(text):
            yield path, f"{name}:{number}", line


def links(root: Path) -> Iterator[tuple[Path, str, str]]:
    """(path, page:line, target) of all links."""
    for path, where, line in lines(root):
        for _, target in LINK.findall(line):
            yield path, where, target


def shown(root: Path, marker: re.Pattern[str]) -> Iterator[tuple[str, str, list[str] | None]]:
    """(page:line, what the marker names, lines of the fence right behind it or None)"""
    for _, page, text in pages(root):
        for number, name, body in marked(text, marker):
            yield f"{page}:{number}", name, body


def rungs(root: Path) -> Iterator[tuple[Path, str, str]]:
    """(stage, name of its page, the page's text) of the rungs that have a page."""
    for stage in sorted((root / "stages").glob("[0-9]*_*.cu")):
        page = root / f"docs/{stage.stem}.md"
        if page.exists():
            yield stage, f"docs/{page.name}", page.read_text(encoding="utf-8")


def typed_lines(root: Path) -> Iterator[tuple[str, str]]:
    """(page:line, line) of the prose that nobody generated: no tables, numbers in it left out."""
    for _, name, text in pages(root):
        inside = False
        for number, line in prose(text):
            inside = bool(tables.TABLE.match(line)) or inside and line != END
            if not inside:
                yield f"{name}:{number}", tables.VALUE.sub("·", line)


def slugs(text: str) -> set[str]:
    """The anchors that headings get on GitHub."""
    heads = (re.match(r"#+\s+(.*)", line) for _, line in prose(text))
    return {slug(head.group(1)) for head in heads if head}


def instruction_rows(text: str) -> list[tuple[int, list[str], list[str]]]:
    """[(line number, wrapper names, ISA anchors)] of the table with columns PTX and wrapper."""
    found: list[tuple[int, list[str], list[str]]] = []
    column = None
    for number, line in prose(text):
        cells = [cell.strip() for cell in line.split("|")[1:-1]] if line.startswith("|") else []
        if not cells:
            column = None
        elif "PTX" in cells and "wrapper" in cells:
            column = cells.index("wrapper")
        elif column is not None and not set(line) <= set("|-: "):
            names = re.findall(r"`(\w+)(?:<[^`]*>)?`", cells[column])
            found.append((number, names, re.findall(r"\(" + re.escape(ISA) + r"#([^)]+)\)", line)))
    return found


# --- reading sources -----------------------------------------------------------------------------


def wrappers(root: Path) -> dict[str, tuple[str | None, str]]:
    """{name: (ISA anchor or None, body)} of the functions in common/ptx/*.cuh."""
    found: dict[str, tuple[str | None, str]] = {}
    for path in sorted((root / "common/ptx").glob("*.cuh")):
        anchor, name = None, None
        for line in path.read_text(encoding="utf-8").split("\n"):
            isa = re.match(r"//\s+(?:ISA\s*:\s*)?#([a-z0-9-]+)$", line)
            head = re.match(r"(?:template.*>\s*)?__device__ .*?(\w+)\(", line)
            if isa:
                anchor = isa.group(1)
            if line.startswith("// ---"):
                anchor = None  # composites have no page of their own
            if head:
                name = head.group(1)
                found[name] = (anchor, "")
            elif name:
                found[name] = (found[name][0], found[name][1] + line + "\n")
            if line.startswith("}") or re.match(r"__device__.*}\s*$", line):
                name = None
    return found


def used_by(stage: Path, root: Path, known: dict[str, tuple[str | None, str]]) -> set[str]:
    """Names of wrappers that the stage and what it includes of common/block call, themselves or
    through a composite."""

    def named(text: str) -> set[str]:
        return set(re.findall(r"\w+", text)) & known.keys()

    text = stage.read_text(encoding="utf-8")
    for name in re.findall(r'^#include "(common/block/[^"]+)"', text, re.MULTILINE):
        text += (root / name).read_text(encoding="utf-8")
    return closure(named(text), lambda name: named(known[name][1]))


def contains(source: str, body: list[str]) -> bool:
    """Whether an excerpt's lines stand in the source, in this order and next to each other but for
    a line '…', which stands for any number of lines. White space is squeezed on both sides."""
    left_out = (exercises.ELISION, f"// {exercises.ELISION}")
    by_kind = itertools.groupby(map(squeezed, body), lambda line: line in left_out)
    parts = ["\n".join(map(re.escape, part)) for is_left_out, part in by_kind if not is_left_out]
    pattern = re.compile("^" + r"\n(?:.*\n)*?".join(parts) + "$", re.MULTILINE)
    text = "\n".join(map(squeezed, source.split("\n")))
    return bool(parts) and pattern.search(text) is not None


# --- checks: each yields problems, or raises Skipped ---------------------------------------------


def check_tables(root: Path) -> Problems:
    try:
        for path, _, changed in tables.outdated(root):
            yield f"{path.relative_to(root)}: {', '.join(changed)} differs from docs/results"
    except Problem as problem:
        yield str(problem)


def check_links(root: Path) -> Problems:
    for path, where, target in links(root):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        found = (path.parent / name).resolve() if name else path
        if not found.exists():
            yield f"{where}: {target} does not exist"
        elif anchor and found.suffix == ".md":
            if anchor not in slugs(found.read_text(encoding="utf-8")):
                yield f"{where}: {target}: no such heading"


def check_reachable(root: Path) -> Problems:
    """Who starts at README.md gets to every page."""
    to_see = {path.resolve() for path in files(root)}

    found: dict[Path, set[Path]] = {path: set() for path in to_see}
    for path, _, target in links(root):
        found[path.resolve()].add((path.parent / target.partition("#")[0]).resolve())

    start = to_see & {(root / "README.md").resolve()}
    reached = closure(start, lambda page: found[page] & to_see)
    for path in sorted(to_see - reached):
        yield f"{path.relative_to(root.resolve())}: no link leads from README.md to this page"


def check_isa_links(root: Path) -> Problems:
    for _, where, target in links(root):
        if "parallel-thread-execution" in target and not ISA_LINK.fullmatch(target):
            yield f"{where}: {target} is not {ISA}#anchor"


def check_excerpts(root: Path) -> Problems:
    for where, source, body in shown(root, FROM):
        if body is None:
            yield f"{where}: no code fence follows"
        elif not (root / source).is_file():
            yield f"{where}: {source} does not exist"
        elif not contains((root / source).read_text(encoding="utf-8"), body):
            yield f"{where}: the excerpt does not stand in {source}"


def check_reports(root: Path) -> Problems:
    """Reports of the PTX machine on a page are what it says; lines may end elsewhere."""
    for where, name, body in shown(root, REPORT):
        if not has_machine(root):
            raise Skipped("the PTX machine is not built (make machine builds it)")
        words = [sys.executable, str(root / "scripts/mutations.py"), "--show", name]
        said = subprocess.run(words, capture_output=True, text=True).stdout
        if not any(body or []) or not exercises.says(said, body or []):
            yield f"{where}: make failure-{name} does not say so"


def check_figures(root: Path) -> Problems:
    """Figures are what the code computes today, and no text in one lies on another."""
    stage = f"build/stage-{figures.MODELLED:02}"
    need(root, "build/maps", "build/ladder", stage, "build/machine", make="figures")
    try:
        drawn = figures.drawings(root)
    except Problem as problem:
        yield str(problem)
        return
    for path, drawing in drawn.items():
        yield from (f"{path}: {problem}" for problem in drawing.problems())
    for path, _ in figures.outdated(root, drawn):
        yield f"{path} is not what the code says; run make figures"


def check_explored(root: Path) -> Problems:
    """What make explore prints on a page is what it prints."""
    for where, words, body in shown(root, EXPLORED):
        need(root, "build/maps", make="build/maps")
        try:
            printed = explore.explore(words.split())
        except Problem as refused:
            printed = [f"explore: {refused}"]
        if body != printed:
            yield f"{where}: make explore {words} prints something else"


def check_pages(root: Path) -> Problems:
    stages = {path.stem for path in (root / "stages").glob("[0-9]*_*.cu")}
    pages = {path.stem for path in (root / "docs").glob("[0-9]*_*.md")}
    for stem in sorted(stages - pages):
        yield f"stages/{stem}.cu has no page docs/{stem}.md"
    for stem in sorted(pages - stages):
        yield f"docs/{stem}.md has no rung stages/{stem}.cu"


def check_shapes(root: Path) -> Problems:
    """A rung's page has the sections of the others, excerpts to walk through, and exercises."""
    for _, page, text in rungs(root):
        heads = [line[3:] for _, line in prose(text) if line.startswith("## ")]
        for head in SECTIONS:
            if head not in heads:
                yield f"{page} has no section \"{head}\""
        if len(marked(text, FROM)) < EXCERPTS:
            yield f"{page} walks through fewer than {EXCERPTS} excerpts"
        if len(exercises.of_page(root / page)) < 2:
            yield f"{page} has fewer than two exercises"


def check_instruction_tables(root: Path) -> Problems:
    known = wrappers(root)
    for stage, page, text in rungs(root):
        rows = instruction_rows(text)
        if not rows:
            yield f"{page}: no table with columns PTX and wrapper"
        used = used_by(stage, root, known)
        for number, names, anchors in rows:
            where = f"{page}:{number}"
            if not anchors:
                yield f"{where}: no ISA link"
            for name in names:
                if name not in known:
                    yield f"{where}: {name} is not in common/ptx"
                elif name not in used:
                    yield f"{where}: {name} is not used in stages/{stage.name}"
                elif known[name][0] and known[name][0] not in anchors:
                    yield f"{where}: common/ptx gives {name} the anchor #{known[name][0]}"


def check_words(root: Path) -> Problems:
    for _, name, text in pages(root):
        for number, line in enumerate(text.split("\n"), 1):
            for pattern, reason in FORBIDDEN.items():
                match = re.search(pattern, line)
                if match:
                    yield f"{name}:{number}: \"{match.group()}\": {reason}"


def check_speeds(root: Path) -> Problems:
    """A number of TFLOPS is generated, or its line links to the source that claims it."""
    for where, line in typed_lines(root):
        match = SPEED.search(line)
        if match and "](http" not in line:
            yield f"{where}: \"{match.group()}\" comes from no run"


def check_named_numbers(root: Path) -> Problems:
    """A number that has a name on another page is generated, not typed."""
    for where, line in typed_lines(root):
        for words in MEASURED_PAGES.findall(line):
            if re.search(r"(?<!\w)\d", words):
                yield f"{where}: \"{words}\" is typed, and links to a page of measured numbers"
        for name, pattern in NAMED_NUMBERS.items():
            match = re.search(pattern, line)
            if match:
                yield f"{where}: {match.group(1)}, {name}, is typed"


def check_glossary(root: Path) -> Problems:
    """Words that a newcomer meets on the pages have a row in the glossary."""
    page = root / "docs/glossary.md"
    rows = page.read_text(encoding="utf-8") if page.exists() else ""
    heads = [line.split("|")[1] for line in rows.split("\n") if line.startswith("| ")]
    defined = {word.strip(" `") for head in heads for word in head.split(",")}
    for _, name, text in pages(root):
        text = re.sub(r"`[^`\n]*`", "", "\n".join(line for _, line in prose(text)))
        for word in GLOSSARY:
            if word not in defined and re.search(rf"\b{re.escape(word)}\b", text):
                yield f"{name}: \"{word}\" has no row in docs/glossary.md"


def check_make_targets(root: Path) -> Problems:
    """Every `make X` in code is a target, and every `make failure-NAME` a mutation."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for included in re.findall(r"^include (\S+)$", makefile, re.MULTILINE):
        makefile += (root / included).read_text(encoding="utf-8")
    single = set(" ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)).split())
    single |= {FAILURE + name for name in mutations.MUTATIONS}
    per_stage = set(" ".join(re.findall(r"^PER_STAGE := (.*)$", makefile, re.MULTILINE)).split())
    for _, page, text in pages(root):
        shell = {fence.number + i for fence in fences(text) if fence.language == "sh"
                 for i, _ in enumerate(fence.lines, 1)}  # fmt: skip
        for number, line in enumerate(text.split("\n"), 1):
            code = line if number in shell else " ".join(re.findall(r"`([^`]*)`", line))
            for name, rung in MAKE.findall(code):
                if name not in (per_stage if rung else single):
                    yield f"{page}:{number}: make {name}{rung} is no target"
            for built in MAKE_FILE.findall(code):
                rule = re.sub(r"(?<=stage-)\d+$", "$(2)", built)  # of any rung
                if not re.search(rf"{re.escape(rule)}[ :)]", makefile):
                    yield f"{page}:{number}: make {built} is no target"


def check_commands(root: Path) -> Problems:
    """Commands in ```sh fences are bash, and name files that exist. What they print is compared by
    make test-docs, where a page says it."""
    for _, page, text in pages(root):
        for fence in fences(text):
            if fence.language != "sh":
                continue
            where, commands = f"{page}:{fence.number + 1}", "\n".join(fence.lines)
            parsed = subprocess.run(["bash", "-n"], input=commands, capture_output=True, text=True)
            if parsed.returncode:
                yield f"{where}: bash does not take it: {parsed.stderr.strip()}"
            for name in COMMAND_FILES.findall(commands):
                if not (root / name).exists():
                    yield f"{where}: {name} does not exist"


def check_exercises(root: Path) -> Problems:
    """Each says whether it needs a GPU and has a folded answer; each `make exercise-N.M` is one, and
    a rung's page names those that stand elsewhere. What the answers say is the business of make
    test-docs."""
    known = exercises.all_exercises(root)
    for exercise in known:
        for problem in exercise.form():
            yield f"docs/{exercise.page}: exercise {exercise.name} {problem}"
    names = [exercise.name for exercise in known]
    for _, page, text in pages(root):
        for name in EXERCISE.findall(text):
            if name not in names:
                yield f"{page}: there is no exercise {name}"
    for stage, page, text in rungs(root):
        number, named = int(stage.stem.split("_")[0]), EXERCISE.findall(text)
        for one in known:
            elsewhere = one.page == exercises.MORE and one.name.split(".")[0] == str(number)
            if elsewhere and one.name not in named:
                yield f"{page} does not name exercise {one.name} of docs/{exercises.MORE}"
    changes = {one.name: exercises.digest(one.change()) for one in known}
    for name, change in dict.fromkeys((r["exercise"], r["change"]) for r in timed_rows(load_all(root)[0])):
        if changes.get(name) != change:
            yield f"exercise {name}: its change is not the one that was timed; run make times"


def check_isa(root: Path) -> Problems:
    """docs/isa.md is what the program prints that `make isa` runs."""
    program = root / "build/machine/isa"
    need(root, "build/machine/isa", make="isa")
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    page = root / "docs/isa.md"
    if not page.exists() or page.read_text(encoding="utf-8") != printed:
        yield "docs/isa.md is not what the decode table says; run make isa"


CHECKS: dict[str, Callable[[Path], Problems]] = {
    "tables and plot match docs/results": check_tables,
    "relative links resolve": check_links,
    "every page can be reached": check_reachable,
    "ISA links have anchors": check_isa_links,
    "excerpts stand in their files": check_excerpts,
    "reports are the PTX machine's": check_reports,
    "figures are what the code computes": check_figures,
    "make explore prints what pages show": check_explored,
    "every rung has a page": check_pages,
    "pages of rungs have what the others have": check_shapes,
    "instruction tables match common/ptx": check_instruction_tables,
    "words": check_words,
    "no speed without a source": check_speeds,
    "numbers of one name come from one source": check_named_numbers,
    "words are in the glossary": check_glossary,
    "make targets exist": check_make_targets,
    "commands can be typed": check_commands,
    "exercises have a mark and an answer": check_exercises,
    "docs/isa.md is the decode table": check_isa,
    "published kernels are unchanged": check_hashes,
    "published choices are the model's": check_choices,
    "published baselines are right": check_baselines,
}


@command()
def main(arguments: list[str] | None = None) -> int:
    parser = parser_of("Check the documentation.")
    parser.add_argument("--root", type=project, default=ROOT, help="the project's folder")
    root = parser.parse_args(arguments).root
    passed = failed = skipped = 0
    for name, check in CHECKS.items():
        try:
            problems = list(check(root))
        except Skipped as reason:
            print(f"docs: SKIPPED {name}: {reason}")
            skipped += 1
            continue
        for problem in problems:
            print(f"docs: {name}: {problem}")
        failed += bool(problems)
        passed += not problems
    print(f"docs: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
