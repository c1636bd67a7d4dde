#!/usr/bin/env python3
"""Checks README.md, CONTRIBUTING.md and docs/*.md against sources and results.

  check_docs.py [--root DIR]

Prints a line for each failed or skipped check; the last line is "docs: N passed, N failed,
N skipped". Exit code 1 if anything failed. Python standard library only.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import exercises
import explore
import figures
import mutations
import tables
from lib import registry
from lib.cli import Problem
from lib.markdown import END, files
from lib.results import load_all, load_chips, read_rows
from lib.rows import row_name, row_of
from lib.tables import sweep
from lib.tools import toolkit

FENCE = re.compile(r"^\s*(```|~~~)")
FROM = re.compile(r"^<!-- from (\S+) -->$")
REPORT = re.compile(r"^<!-- report of (\S+) -->$")  # NAME of make failure-NAME
EXPLORED = re.compile(r"^<!-- make explore (.+) -->$")  # what stands in the fence behind it
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
ISA = "https://docs.nvidia.com/cuda/parallel-thread-execution/"
ISA_LINK = re.compile(re.escape(ISA) + r"#[a-z0-9-]+")
ELISION = "…"
SPEED = re.compile(r"\d[\d.,]*\s*(?:TFLOPS|TFLOP/s|GFLOPS|GFLOP/s)")
MAKE = re.compile(r"\bmake ([a-z]+(?:-[a-z]+)*)(-(?:NN?|\d+))?(?![\w-])(?!\.[M\d])")
EXERCISE = re.compile(r"\bmake exercise-(\w+\.\d+)")
FAILURE = "failure-"  # make failure-NAME
COMMAND_FILES = re.compile(r"(?<![\w/.-])(?:scripts|common|docs|stages|tests)/[\w./-]*\w")
GENERATED = re.compile(r"<!-- (?:value|counter|energy|shapes|sweep|limit): [^>]+? -->.*?<!-- end -->")

# Numbers that several pages use: each comes from docs/results where it stands, so that no page can
# say another one. A link's words, and words that a number follows.
MEASURED_PAGES = re.compile(r"\[([^\]]*)\]\((?:docs/)?(?:hopper_numbers|limits)\.md[^)]*\)")
NAMED_NUMBERS = (
    ("what mma.sync reaches", re.compile(r"`mma\.sync`,? (?:(?:works|does|needs|at|about) )*(\d[\d.]*)")),
    ("what mma.sync takes", re.compile(r"^\| `mma\.sync`[^|]*\|.*\| *(\d[\d.]*) *\|$")),
    ("what a ceiling allows", re.compile(r"\bat most (\d[\d.]* %)(?= of the (?:rate|tensor))")),
)

# Terms that have to be looked up, with the pages' own that are easily taken for everyday words.
GLOSSARY = """GPC SBO LBO scale-d acquire release relaxed scope proxy swizzle atom chunk descriptor rung
variant warpgroup producer consumer cluster raster slot parity epilogue policy race deadlock""".split()
GLOSSARY += """GEMM SM TMA lane warp grid CTA phase wave panel box fence barrier bank sector epilogue
tile slot ring workspace mbarrier""".split()
GLOSSARY += """multicast persistent fragment spill""".split()
GLOSSARY += [
    "core matrix", "tensor map", "tensor memory", "tensor core", "CTA pair", "block scaling",
    "stream-K", "ping-pong", "dependent launch", "register trading", "pending count", "tx-count",
    "proxy fence", "generic proxy", "async proxy", "K-major", "MN-major",
]  # fmt: skip

SECTIONS = "The idea,New instructions,Measured,Pitfalls,Break it,How others do it".split(",")
EXCERPTS = 4  # at least, of a page

# What no text of the project may contain, each with the reason.
FORBIDDEN = (
    (re.compile(r"(?<![\w.])/(?:home|root|tmp|work|Users|mnt)/\w"), "a path of one machine"),
    (re.compile(r"\b(?:TODO|FIXME|XXX)\b"), "a note of something unfinished"),
    (
        re.compile(
            r"\b(?:blazing|cutting-edge|state-of-the-art|game-chang\w+|effortless\w*|seamless\w*"
            r"|revolutionary|supercharge\w*|unleash\w*)\b",
            re.IGNORECASE,
        ),
        "advertising",
    ),
)


class Skipped(Exception):
    """A check that cannot be made here; the message says what is missing."""


# --- reading Markdown ----------------------------------------------------------------------------


def prose(text):
    """[(line number, line)] outside code fences."""
    found, fenced = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            found.append((number, line))
    return found


def slugs(text):
    """The anchors that headings get on GitHub."""
    found = set()
    for _, line in prose(text):
        match = re.match(r"#+\s+(.*)", line)
        if match:
            kept = re.sub(r"[^\w\- ]", "", match.group(1).strip().lower())
            found.add(kept.replace(" ", "-"))
    return found


def excerpts(text, marker=FROM):
    """[(line number, source file, lines)] of the fences that follow a line <!-- from FILE -->, or
    another marker."""
    found, lines, index = [], text.split("\n"), 0
    while index < len(lines):
        match = marker.match(lines[index])
        index += 1
        if not match:
            continue
        start = index
        if index == len(lines) or not FENCE.match(lines[index]):
            found.append((start, match.group(1), None))
            continue
        index += 1
        body = []
        while index < len(lines) and not FENCE.match(lines[index]):
            body.append(" ".join(lines[index].split()))
            index += 1
        found.append((start, match.group(1), body))
    return found


def instruction_rows(text):
    """[(line number, wrapper names, ISA anchors)] of the table with columns PTX and wrapper."""
    found, column = [], None
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


def wrappers(root):
    """{name: (ISA anchor or None, body)} of the functions in common/ptx/*.cuh."""
    found = {}
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


def used_by(stage_text, known):
    """Names of wrappers that the stage calls, itself or through a composite."""
    reached = set()
    pending = [stage_text]
    while pending:
        for name in re.findall(r"\w+", pending.pop()):
            if name in known and name not in reached:
                reached.add(name)
                pending.append(known[name][1])
    return reached


def with_blocks(stage, root):
    """A stage's text and that of the headers of common/block that it includes."""
    text = stage.read_text(encoding="utf-8")
    for name in re.findall(r'^#include "(common/block/[^"]+)"', text, re.MULTILINE):
        text += (root / name).read_text(encoding="utf-8")
    return text


def contains(source, body):
    """Whether an excerpt's lines stand in the source, in this order and next to each other but for
    a line '…', which stands for any number of lines. White space is squeezed on both sides."""
    lines = [" ".join(line.split()) for line in source.split("\n")]
    position = 0
    parts = [[]]
    for line in body:
        if line in (ELISION, f"// {ELISION}"):
            parts.append([])
        else:
            parts[-1].append(line)
    for part in filter(None, parts):
        starts = range(position, len(lines) - len(part) + 1)
        start = next((i for i in starts if lines[i : i + len(part)] == part), None)
        if start is None:
            return False
        position = start + len(part)
    return any(parts)


# --- checks: each yields problems, or raises Skipped ---------------------------------------------


def check_tables(root):
    try:
        for path, _, changed in tables.outdated(root):
            yield f"{path.relative_to(root)}: {', '.join(changed)} differs from docs/results"
    except Problem as problem:
        yield str(problem)


def check_links(root):
    for path in files(root):
        for number, line in prose(path.read_text(encoding="utf-8")):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                where, _, anchor = target.partition("#")
                found = (path.parent / where).resolve() if where else path
                if not found.exists():
                    yield f"{path.relative_to(root)}:{number}: {target} does not exist"
                elif anchor and found.suffix == ".md":
                    if anchor not in slugs(found.read_text(encoding="utf-8")):
                        yield f"{path.relative_to(root)}:{number}: {target}: no such heading"


def check_reachable(root):
    """Who starts at README.md gets to every page."""
    pages = {path.resolve() for path in files(root)}
    reached, pending = set(), [(root / "README.md").resolve()]
    while pending:
        path = pending.pop()
        if path in pages and path not in reached:
            reached.add(path)
            for _, line in prose(path.read_text(encoding="utf-8")):
                targets = [target.partition("#")[0] for target in LINK.findall(line)]
                pending += [(path.parent / target).resolve() for target in targets]
    for path in sorted(pages - reached):
        yield f"{path.relative_to(root.resolve())}: no link leads from README.md to this page"


def check_isa_links(root):
    for path in files(root):
        for number, line in prose(path.read_text(encoding="utf-8")):
            for target in LINK.findall(line):
                if "parallel-thread-execution" in target and not ISA_LINK.fullmatch(target):
                    yield f"{path.relative_to(root)}:{number}: {target} is not {ISA}#anchor"


def check_excerpts(root):
    for path in files(root):
        for number, name, body in excerpts(path.read_text(encoding="utf-8")):
            where = f"{path.relative_to(root)}:{number}"
            if body is None:
                yield f"{where}: no code fence follows"
            elif not (root / name).is_file():
                yield f"{where}: {name} does not exist"
            elif not contains((root / name).read_text(encoding="utf-8"), body):
                yield f"{where}: the excerpt does not stand in {name}"


def check_reports(root):
    """Reports of the PTX machine on a page are what it says; lines may end elsewhere."""
    shown = [
        (f"{path.relative_to(root)}:{number}", name, body)
        for path in files(root)
        for number, name, body in excerpts(path.read_text(encoding="utf-8"), REPORT)
    ]
    if shown and not list((root / "build/machine").glob("libcudart.so.*")):
        raise Skipped("the PTX machine is not built (make machine builds it)")
    for where, name, body in shown:
        command = [sys.executable, root / "scripts/mutations.py", "--show", name]
        said = " ".join(subprocess.run(command, capture_output=True, text=True).stdout.split())
        parts = [part.strip() for part in " ".join(body or []).split(ELISION)]
        if not body or not re.search(".*".join(map(re.escape, parts)), said):
            yield f"{where}: make failure-{name} does not say so"


def check_figures(root):
    """Figures are what the code computes today, and no text in one lies on another."""
    machine = next((root / "build/machine").glob("libcudart.so.*"), Path("build/machine/libcudart.so"))
    for name in ("build/maps", "build/ladder", f"build/stage-{figures.MODELLED:02}", machine):
        if not (root / name).exists():
            raise Skipped(f"{name} is not built (make figures builds it)")
    try:
        drawn = figures.drawings(root)
    except (figures.Problem, figures.trace.Problem) as problem:
        yield str(problem)
        return
    for path, drawing in drawn.items():
        yield from (f"{path}: {problem}" for problem in drawing.problems())
    for path, _ in figures.outdated(root, drawn):
        yield f"{path} is not what the code says; run make figures"


def explored(text):
    """[(line number, words of make explore, lines)] of the fences that show what it prints."""
    found, lines = [], text.split("\n")
    for index, line in enumerate(lines):
        match = EXPLORED.match(line)
        if match and index + 1 < len(lines) and FENCE.match(lines[index + 1]):
            end = next(i for i in range(index + 2, len(lines)) if FENCE.match(lines[i]))
            found.append((index + 1, match.group(1), lines[index + 2:end]))
        elif match:
            found.append((index + 1, match.group(1), None))
    return found


def check_explored(root):
    """What make explore prints on a page is what it prints."""
    for path in files(root):
        for number, words, shown in explored(path.read_text(encoding="utf-8")):
            where = f"{path.relative_to(root)}:{number}: make explore {words}"
            if not (root / "build/maps").exists():
                raise Skipped("build/maps is not built (make build/maps builds it)")
            try:
                printed = explore.explore(words.split())
            except explore.Refused as refused:
                printed = [f"explore: {refused}."]
            if shown != printed:
                yield f"{where} prints something else"


def check_pages(root):
    stages = {path.stem for path in (root / "stages").glob("[0-9]*_*.cu")}
    pages = {path.stem for path in (root / "docs").glob("[0-9]*_*.md")} - {"00_reading_guide"}
    for stem in sorted(stages - pages):
        yield f"stages/{stem}.cu has no page docs/{stem}.md"
    for stem in sorted(pages - stages):
        yield f"docs/{stem}.md has no rung stages/{stem}.cu"


def check_shapes(root):
    """A rung's page has the sections of the others, excerpts to walk through, and exercises."""
    for path in sorted((root / "stages").glob("[0-9]*_*.cu")):
        page = root / f"docs/{path.stem}.md"
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        heads = [line[3:] for _, line in prose(text) if line.startswith("## ")]
        for head in SECTIONS if text else ():
            if head not in heads:
                yield f"docs/{page.name} has no section \"{head}\""
        if text and len(excerpts(text)) < EXCERPTS:
            yield f"docs/{page.name} walks through fewer than {EXCERPTS} excerpts"
        if text and len(exercises.of_page(page)) < 2:
            yield f"docs/{page.name} has fewer than two exercises"


def check_instruction_tables(root):
    known = wrappers(root)
    for path in sorted((root / "stages").glob("[0-9]*_*.cu")):
        page = root / f"docs/{path.stem}.md"
        if not page.exists():
            continue
        rows = instruction_rows(page.read_text(encoding="utf-8"))
        if not rows:
            yield f"docs/{page.name}: no table with columns PTX and wrapper"
        used = used_by(with_blocks(path, root), known)
        for number, names, anchors in rows:
            where = f"docs/{page.name}:{number}"
            if not anchors:
                yield f"{where}: no ISA link"
            for name in names:
                if name not in known:
                    yield f"{where}: {name} is not in common/ptx"
                elif name not in used:
                    yield f"{where}: {name} is not used in stages/{path.name}"
                elif known[name][0] and known[name][0] not in anchors:
                    yield f"{where}: common/ptx gives {name} the anchor #{known[name][0]}"


def check_words(root):
    for path in files(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            for pattern, reason in FORBIDDEN:
                match = pattern.search(line)
                if match:
                    yield f"{path.relative_to(root)}:{number}: \"{match.group()}\": {reason}"


def check_speeds(root):
    """A number of TFLOPS is generated, or its line links to the source that claims it."""
    for path in files(root):
        inside = False
        for number, line in prose(path.read_text(encoding="utf-8")):
            if tables.TABLE.match(line):
                inside = True
            elif line == END:
                inside = False
            match = SPEED.search(GENERATED.sub("·", line))
            if match and not inside and "](http" not in line:
                yield f"{path.relative_to(root)}:{number}: \"{match.group()}\" comes from no run"


def check_named_numbers(root):
    """A number that has a name on another page is generated, not typed."""
    for path in files(root):
        inside = False
        for number, line in prose(path.read_text(encoding="utf-8")):
            inside = bool(tables.TABLE.match(line)) or inside and line != END
            if inside:
                continue
            typed = GENERATED.sub("·", line)
            where = f"{path.relative_to(root)}:{number}"
            for words in MEASURED_PAGES.findall(typed):
                if re.search(r"(?<!\w)\d", words):
                    yield f"{where}: \"{words}\" is typed, and links to a page of measured numbers"
            for name, pattern in NAMED_NUMBERS:
                match = pattern.search(typed)
                if match:
                    yield f"{where}: {match.group(1)}, {name}, is typed"


def check_glossary(root):
    """Words that a newcomer meets on the pages have a row in the glossary."""
    page = root / "docs/glossary.md"
    rows = page.read_text(encoding="utf-8") if page.exists() else ""
    heads = [line.split("|")[1] for line in rows.split("\n") if line.startswith("| ")]
    defined = {word.strip(" `") for head in heads for word in head.split(",")}
    for path in files(root):
        text = "\n".join(line for _, line in prose(path.read_text(encoding="utf-8")))
        text = re.sub(r"`[^`\n]*`", "", text)
        for word in GLOSSARY:
            if word not in defined and re.search(rf"\b{re.escape(word)}\b", text):
                yield f"{path.relative_to(root)}: \"{word}\" has no row in docs/glossary.md"


def check_make_targets(root):
    """Every `make X` in code is a target, and every `make failure-NAME` a mutation."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for included in re.findall(r"^include (\S+)$", makefile, re.MULTILINE):
        makefile += (root / included).read_text(encoding="utf-8")
    single = set(" ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)).split())
    single |= {FAILURE + name for name in mutations.MUTATIONS}
    per_stage = set(" ".join(re.findall(r"^PER_STAGE := (.*)$", makefile, re.MULTILINE)).split())
    for path in files(root):
        language = None  # of the fence that the line is in
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if FENCE.match(line):
                language = line.strip("`~ ") if language is None else None
            code = line if language == "sh" else " ".join(re.findall(r"`([^`]*)`", line))
            for name, rung in MAKE.findall(code):
                if name not in (per_stage if rung else single):
                    yield f"{path.relative_to(root)}:{number}: make {name}{rung} is no target"


def check_commands(root):
    """Commands in ```sh fences are bash, and name files that exist. What they print is compared by
    make test-docs, where a page says it."""
    for path in files(root):
        for number, lines in commands(path.read_text(encoding="utf-8")):
            where = f"{path.relative_to(root)}:{number}"
            text = "\n".join(lines)
            parsed = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
            if parsed.returncode:
                yield f"{where}: bash does not take it: {parsed.stderr.strip()}"
            for name in COMMAND_FILES.findall(text):
                if not (root / name).exists():
                    yield f"{where}: {name} does not exist"


def commands(text):
    """[(line number, lines)] of the ```sh fences."""
    found, body, language = [], [], None
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            if language == "sh":
                found.append((number - len(body), body))
            language, body = (line.strip("`~ ") if language is None else None), []
        elif language == "sh":
            body.append(line.strip())
    return found


def check_exercises(root):
    """Each says whether it needs a GPU and has a folded answer; each `make exercise-N.M` is one.
    What the answers say is the business of make test-docs."""
    known = exercises.all_exercises(root)
    for exercise in known:
        for problem in exercise.form():
            yield f"docs/{exercise.page}: exercise {exercise.name} {problem}"
    names = [exercise.name for exercise in known]
    for path in files(root):
        for name in EXERCISE.findall(path.read_text(encoding="utf-8")):
            if name not in names:
                yield f"{path.relative_to(root)}: there is no exercise {name}"


def check_isa(root):
    """docs/isa.md is what the program prints that `make isa` runs."""
    program = root / "build/machine/isa"
    if not program.exists():
        raise Skipped("build/machine/isa is not built (make isa builds it)")
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    page = root / "docs/isa.md"
    if not page.exists() or page.read_text(encoding="utf-8") != printed:
        yield "docs/isa.md is not what the decode table says; run make isa"


def check_hashes(root):
    """The kernels behind the published rows are the kernels of this tree."""
    results, _ = load_all(root)
    if results is None:
        raise Skipped("docs/results has no results yet")
    files = [results, *load_chips(root)] + ([results.counters] if results.counters else [])
    here = toolkit()
    for file in files + ([results.energy] if results.energy else []):
        if here != file.head["toolkit"]:
            raise Skipped(
                f"nvcc here is {here or 'missing'}, {file.path.name} is from {file.head['toolkit']}"
            )
    if not (root / "build/ptx/hashes.json").exists() or not (root / "build/ladder").exists():
        raise Skipped("build/ladder or build/ptx/hashes.json is not built (make test builds them)")
    hashes = json.loads((root / "build/ptx/hashes.json").read_text(encoding="utf-8"))
    kernels = listed_kernels(root)
    for file in files:
        again = "counters" if file is results.counters else "bench"
        for stage, variant in dict.fromkeys((row["stage"], row["variant"]) for row in file.rows):
            rows = file.of_variant(stage, variant)
            ran = [kernels.get(registry.ran(row)) for row in rows]
            recorded = [row.get("kernel_hash") for row in rows]
            if (stage, variant) not in kernels:
                yield f"{file.path.name}: rung {stage} has no variant {variant} any more"
            elif None in recorded or recorded != [hashes.get(one) for one in ran]:
                yield (
                    f"{file.path.name}: rung {stage}, {variant}: the kernel has changed since it "
                    f"was measured; run make {again}"
                )
    for row in traces(root):
        if here == row["toolkit"] and hashes.get(row["kernel"]) != row["kernel_hash"]:
            yield (
                f"{figures.TRACES.name}: rung {row['stage']}, {row['variant']}: the kernel has changed since "
                "it was recorded; run make trace-N on a Hopper GPU, then scripts/trace.py --keep"
            )
    energy = results.energy.rows if results.energy else []
    stale = [r for r in energy if hashes.get(r.get("kernel")) != r.get("kernel_hash")]
    for name, label in dict.fromkeys((row["experiment"], row["label"]) for row in stale):
        yield (
            f"{results.energy.path.name}: {name}, {label}: the kernel has changed since it was "
            "measured; run make energy"
        )
    for entry in read_rows(results, sweep.SWEEP, "shapes") or []:
        for name, one in entry["configurations"].items():
            if hashes.get(kernels.get(registry.ran({"configuration": name}))) != one["kernel_hash"]:
                shape = "x".join(str(entry[key]) for key in "mnk")
                yield f"the sweep: {name} at {shape}: the kernel has changed; run make sweep"


def traces(root):
    """The rows of timelines that were recorded on a GPU."""
    path = root / figures.TRACES
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def check_choices(root):
    """The configurations that published rows say were chosen are those of today's cost model."""
    results, _ = load_all(root)
    said = {}  # row -> what was published as chosen for it
    for row in results.rows if results else []:
        if row.get("configuration"):
            said[row_of(row)] = row["configuration"]
    swept = read_rows(results, sweep.SWEEP, "shapes")
    for entry in swept or []:
        stage, variant = sweep.CHOOSER
        of_chooser = {**entry, "stage": stage, "variant": variant}
        said.setdefault(row_of(of_chooser), entry["pick"])
        if entry["pick"] not in entry["configurations"]:
            shape = "x".join(str(entry[key]) for key in "mnk")
            yield f"the sweep: at {shape} the pick {entry['pick']} was not timed; run make sweep"
    if not said:
        return
    if not (root / "build/ladder").exists() or not (root / "build/machine").exists():
        raise Skipped("build/ladder or the PTX machine is not built (make test builds them)")
    try:
        today = ask_choices(root, results, list(said))
        others = {row: published for row, published in said.items() if today[row]["configuration"] != published}
        by_name = {row: configuration_row(row, published) for row, published in others.items()}
        of_published = ask_choices(root, results, list(by_name.values()))
    except Problem as problem:
        yield f"build/ladder --choices: {problem}"
        return
    for row, published in others.items():
        least, its = today[row]["predicted_us"], of_published[by_name[row]]["predicted_us"]
        if its > NEAR_TIE * least:
            yield (
                f"{row_name(row)}: the model chooses {today[row]['configuration']}, {published} is "
                "published; run make bench and make sweep PICKS=1"
            )


# The model takes clocks and DRAM from the device. On an H200 it expected up to 1.6 % more where DRAM
# bounds than on the PTX machine, so that of two configurations that it thinks as fast as each other
# the one may choose this and the other that.
NEAR_TIE = 1.02


def ask_choices(root, results, rows):
    """{row: what build/ladder --choices says} on a chip with as many SMs as the results'."""
    environment = {"LADDER_DEVICE": "machine", "MACHINE_SMS": str(results.head["sms"])}
    program = str(root / "build/ladder")
    lines = registry.ask(program, "--choices", rows=rows, environment=environment) if rows else ""
    return {row: json.loads(line) for row, line in zip(rows, lines.splitlines())}


def configuration_row(row, published):
    """The row of what a chooser is published to have chosen: a variant of its own rung, or stage 0's
    stem/variant."""
    stem, _, variant = published.rpartition("/")
    stage = int(stem.split("_")[0]) if stem else row.stage
    return row._replace(stage=stage, variant=variant)


def listed_kernels(root):
    """{(rung, variant): mangled kernel name, None of a chooser} of build/ladder."""
    return {(v["stage"], v["variant"]): v["kernel"] for v in registry.read(root / "build/ladder", stage_0=True)}


CHECKS = {
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
}


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Check the documentation.")
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=Path, default=here, help="the project's folder")
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
