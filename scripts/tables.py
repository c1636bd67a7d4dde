#!/usr/bin/env python3
"""Regenerates every measured number in README.md, CONTRIBUTING.md and docs/*.md, and the
plots, from the JSON files in docs/results. Python standard library only.

  tables.py           rewrite what has changed
  tables.py --check   change nothing; exit 1 and name each file and table that would change

A table stands between two lines of its own:

  <!-- table: KIND -->  ...  <!-- end -->

  ladder [PROBLEM]  one row a rung that solves it (bf16), its result variant at 8192^3
  chips CHIP     the same rungs on another chip beside those here, such as chips h100
  problems [N]   the result of each rung that solves another problem than the ladder's (of rung N
                 alone), a row for each of the types, layouts, … that were measured; problems h100:
                 of another chip
  rung N         every variant of rung N, below the result of the rung that it grew from
  short N [CHIP] the same in few columns, and which ceiling is closest: what the rung's page has
  counters N     what Nsight Compute counted of each, at the largest of the usual cubes
  environment    the machine and the versions behind the numbers
  baseline       which cuBLASLt algorithm won for each of the usual cubes
  submitted      runs that others have sent, one row a file
  shapes N       rung N, which chooses, at the tuning and the held-out shapes
  list N         the choice of rung N, for a problem of its own, at every shape that was measured
  means N        means of these, by rows of D; means N h100: of another chip
  ways N         rung N, whose configurations share K in different ways, at shapes of few rows
  sweep          the best configuration and the pick of stage 0 at the tuning and held-out shapes
  limits [CHIP]  what the GPU can do at most, by make limits; another chip beside it
  ceilings [N]   what the result of each rung, or each variant of rung N, takes of that
  best           stage 0, the choice among all rungs, by list of shapes; with a regime behind it,
                 and perhaps _no_workspace (best burst_no_workspace), a line a shape; best h100: of
                 another chip
  energy NAME    what make energy found: an experiment, environment, or rungs, from make bench

A number in prose stands inside one line, never at its start (Markdown would take the line as HTML):

  <!-- value: EXPRESSION [: FORMAT] -->785<!-- end -->

EXPRESSION is operands joined by + - * /, read left to right, each a number or
rung.variant.size.regime.key, such as 6.result.8192.burst.tflops; `result` is the rung's result
variant, size that of a cube or MxNxK, and a key is any of a row's keys; result(type=fp16,layout=NT)
is it with these args. FORMAT is a Python format specification.

  <!-- counter: EXPRESSION [: FORMAT] -->8.29<!-- end -->

is the same for what Nsight Compute counted, with operands rung.variant.key, such as
7.group16.l2_read_bytes or 14.result(type=s8).cycles, at the shape of the rung's table of counters.

  <!-- energy: EXPRESSION [: FORMAT] -->0.913<!-- end -->

is the same for what make energy found, with operands experiment.label.chip.key, such as
data.zeros.whole.watts, chip being part or whole, and label also best or worst; or a key of the
file's head, such as idle_watts.

  <!-- shapes: EXPRESSION [: FORMAT] -->1.031<!-- end -->
  <!-- sweep: EXPRESSION [: FORMAT] -->1.20 %<!-- end -->

are the same for the table shapes N, with operands rung.list.regime.key such as
11.tuning.burst.geomean (or geomean_large, lowest, below), and for what make sweep found, with
operands [list.]regime.key such as burst.mean (or worst, shapes).

  <!-- limit: EXPRESSION [: FORMAT] -->4096<!-- end -->

is the same for what make limits found, with operands name.regime.key, such as
wgmma_n256.burst.per_clock.

  <!-- exercise: EXPRESSION [: FORMAT] -->0.45<!-- end -->

is the same for what make times found, with operands exercise.variant.size.key, such as
1.1.64x64.2048.factor (or tflops, changed_tflops, sm_mhz, changed_sm_mhz).

The numbers come from h200.json, or the first file whose name has no '-'; the tables and values that
name another chip, such as best h100 and <!-- limit h100: EXPRESSION -->, come from that chip's file. <gpu>-<who>.json are runs sent by
others. Counters and energy come from the files beside it (h200.counters.json, h200.energy.json). A
row that was not measured shows as a dash, one whose result was wrong as FAIL.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lib.cli import ROOT, Problem, command, parser_of, project
from lib.markdown import DASH, END, cell, files, percent, rewritten, tflops
from lib.results import COUNTER_KEYS, MAIN, PROBLEM, Results, load_all, load_chip, solving, value_of
from lib.store import outdated_files, write_atomically
from lib.tables import best, energy, exercises, ladder, limits, lists, plot, roofline, sums, sweep, ways

TABLE = re.compile(r"^<!-- table: ([a-z]+)(?: (\w+(?: \w+)?))? -->$")
CHIP = re.compile(r"[a-z]+\d+")
MARKER = re.compile(rf"<!-- (value|counter|energy|shapes|sweep|limit|exercise)(?: ({CHIP.pattern}))?:")
VALUE = re.compile(MARKER.pattern + r" ([^>]+?) -->(.*?)<!-- end -->")
PLOT = Path("docs/img/ladder.svg")
ROOFLINE = Path("docs/img/roofline.svg")


class Asked(NamedTuple):
    """For a table: of what, and where it is to stand. `name` are the words behind its kind."""

    root: Path
    results: Results | None
    others: list[Results]  # sent by others
    where: Path
    name: str

    @property
    def number(self) -> int:
        return int(self.name.split()[0])

    @property
    def chip(self) -> str:
        """The chip that the last word names, or none."""
        last = self.name.split(" ")[-1]
        return last if CHIP.fullmatch(last) else ""

    @property
    def of_chip(self) -> Results | None:
        return load_chip(self.root, self.chip) if self.chip else self.results

    @property
    def link(self) -> str:
        """From there into docs/."""
        return "" if self.where.parent.name == "docs" else "docs/"


# What a table is called: (what may stand behind its name, how that is written, who makes it).
TABLES: dict[str, tuple[str, str, Callable[[Asked], list[str]]]] = {
    "ladder": (r"\w*", " [PROBLEM]", lambda a: ladder.ladder(a.root, a.results, a.link, a.name or PROBLEM)),
    "chips": (r"[a-z]+\d+", " CHIP", lambda a: ladder.chips(a.root, a.results, a.of_chip)),
    "problems": (r"\d*|[a-z]+\d+", " [N | CHIP]",
                 lambda a: ladder.problems(a.root, a.results, a.number) if a.name.isdigit()
                 else lists.problems_table(a.root, a.of_chip, a.link)),
    "rung": (r"\d+", " N", lambda a: ladder.rung(a.root, a.results, a.number)),
    "short": (r"\d+(?: [a-z]+\d+)?", " N [CHIP]",
              lambda a: ladder.short(a.root, a.of_chip, a.number, bool(a.chip))),
    "counters": (r"\d+", " N", lambda a: ladder.counters(a.root, a.results, a.number)),
    "environment": ("", "", lambda a: ladder.environment(a.results)),
    "baseline": ("", "", lambda a: ladder.baseline(a.results)),
    "submitted": ("", "", lambda a: ladder.submitted(a.root, a.others)),
    "energy": (r"\w+", " NAME", lambda a: energy.table(a.results, a.name)),
    "shapes": (r"\d+", " N", lambda a: sweep.shapes_table(a.results, a.number)),
    "list": (r"\d+", " N", lambda a: lists.table(a.results, a.number)),
    "means": (r"\d+( [a-z]+\d+)?", " N [CHIP]", lambda a: lists.means_table(a.of_chip, a.number)),
    "ways": (r"\d+", " N", lambda a: ways.table(a.results, a.number)),
    "sums": ("", "", lambda a: sums.table(sums.load(a.root / f"docs/results/{MAIN}{sums.SUFFIX}"))),
    "sweep": ("", "", lambda a: sweep.sweep_table(a.results)),
    "limits": (r"([a-z]+\d+)?", " [CHIP]",
               lambda a: limits.chips_table(a.results, a.of_chip) if a.chip
               else limits.limits_table(a.results)),
    "ceilings": (r"\d*", " [N]",
                 lambda a: limits.ceilings_table(a.results, a.number) if a.name
                 else limits.rungs_table(a.results, solving(a.root, a.results))),
    "traces": ("", "", lambda a: ladder.traces(a.results)),
    "best": (r"\w*", " [REGIME | CHIP]",
             lambda a: best.summary_table(a.of_chip, of_another_chip=True) if a.chip
             else best.table(a.results, a.name or None)),
}  # fmt: skip


def table(kind: str, asked: Asked) -> list[str]:
    if kind not in TABLES or not re.fullmatch(TABLES[kind][0], asked.name):
        known = ", ".join(name + words for name, (_, words, _) in TABLES.items())
        name = f"{kind} {asked.name}".strip()
        raise Problem(f'{asked.where}: no table is called "{name}"; there are {known}')
    try:
        return TABLES[kind][2](asked)
    except Problem as problem:
        raise Problem(f"{asked.where}: {problem}")


# --- numbers in prose ----------------------------------------------------------------------------

NUMBER = re.compile(r"\d+(\.\d+)?(e\d+)?")
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
FORMATS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("tflops", "p10", "p90", "baseline_tflops"), tflops),
    **dict.fromkeys(("ratio", "tensor_share"), percent),
    "sm_mhz": lambda v: cell(v, ".0f"),
    "host_us": lambda v: cell(v, ".1f"),
    **energy.FORMATS,
    **sweep.FORMATS,
    **limits.FORMATS,
    **exercises.FORMATS,
}


def check_variant(results: Results | None, stage: int, variant: str, text: str) -> None:
    known = results.variants(stage) if results else []
    if known and variant not in (*known, "result"):
        raise Problem(f'"{text}": rung {stage} has no variant "{variant}"')


def operand(results: Results | None, text: str) -> tuple[Any, str]:
    """(value, key) of an operand that is not a number; no value if the row was not measured. A
    limit may stand among them, so that a page can divide what a rung reaches by what there is."""
    if limits.NAMED.fullmatch(text):
        return limits.operand(results, text)
    if not re.fullmatch(r"\d+\.[^.]+\.\d+(x\d+x\d+)?\.(burst|sustained)\.\w+", text):
        raise Problem(
            f'"{text}" is neither a number nor rung.variant.size.regime.key nor limit.regime.key'
        )
    number, name, size, regime, key = text.split(".")
    stage, (variant, _, args) = int(number), name.rstrip(")").partition("(")
    check_variant(results, stage, variant, text)
    sizes = [int(one) for one in size.split("x")]
    m, n, k = sizes if len(sizes) == 3 else sizes * 3
    row = results.find_shape(stage, variant, (m, n, k), regime, args) if results else None
    return value_of(row, key, text)


def counter_operand(results: Results | None, text: str) -> tuple[Any, str]:
    """The same for what was counted."""
    if not re.fullmatch(r"\d+\.[^.]+\.\w+", text):
        raise Problem(f'"{text}" is neither a number nor rung.variant.key')
    number, name, key = text.split(".")
    stage, (variant, _, args) = int(number), name.rstrip(")").partition("(")
    if key not in COUNTER_KEYS:
        raise Problem(f'"{text}": there is no counter "{key}", only {", ".join(COUNTER_KEYS)}')
    check_variant(results, stage, variant, text)
    counters = results.counters if results else None
    size = counters.detail_size(stage) if counters else None
    row = counters.find(stage, variant, size, args=args) if counters and size else None
    return value_of(row, key, text)


OPERANDS = {
    "value": operand,
    "counter": counter_operand,
    "energy": energy.operand,
    "shapes": sweep.shapes_operand,
    "sweep": sweep.sweep_operand,
    "limit": limits.operand,
    "exercise": exercises.operand,
}


def value(results: Results | None, expression: str, kind: str = "value") -> str:
    """The text of one inline marker of that kind."""
    text, _, spec = (part.strip() for part in expression.partition(" : "))
    tokens = text.split()
    if len(tokens) % 2 == 0:
        raise Problem(f'"{expression}": operands must be joined by + - * /')
    values: list[tuple[Any, str]] = [
        (float(token), "") if NUMBER.fullmatch(token) else OPERANDS[kind](results, token)
        for token in tokens[0::2]
    ]
    for found, _ in values:
        if found is None or found == "FAIL":
            return found or DASH
    total, key = values[0]
    for sign, (right, _) in zip(tokens[1::2], values[1:]):
        if sign not in OPERATORS:
            raise Problem(f'"{expression}": "{sign}" is none of + - * /')
        total = OPERATORS[sign](total, right)
    if spec:
        return format(total, spec)
    if len(values) == 1 and key in FORMATS:
        return FORMATS[key](total)
    return str(total).replace("->", "→") if len(values) == 1 else format(total, ".1f")


# --- regenerating --------------------------------------------------------------------------------


def regenerate(
    root: Path, results: Results | None, others: list[Results], where: Path, text: str
) -> tuple[str, list[str]]:
    """(new text, names of the tables and values that differ) of one Markdown file."""
    changed: list[str] = []

    def body(match: re.Match[str], old: list[str]) -> list[str]:
        kind, name = match.groups()
        new = table(kind, Asked(root, results, others, where, name or ""))
        if new != old:
            changed.append(f"table {kind} {name or ''}".rstrip())
        return new

    def line_of(number: int, line: str) -> str:
        return regenerate_values(root, results, f"{where}:{number}", line, changed)

    return rewritten(text, TABLE, body, where, line_of), changed


def regenerate_values(
    root: Path, results: Results | None, where: str, line: str, changed: list[str]
) -> str:
    if MARKER.match(line):
        raise Problem(
            f"{where}: a value marker starts the line, so Markdown would take the line as "
            "HTML; put a word before it"
        )
    if len(MARKER.findall(line)) != len(VALUE.findall(line)):
        raise Problem(f"{where}: a value marker is not closed by {END} on its line")

    def replace(match: re.Match[str]) -> str:
        kind, chip, expression, old = match.groups()
        try:
            new = value(load_chip(root, chip) if chip else results, expression, kind)
        except (Problem, TypeError, ValueError, ZeroDivisionError) as error:
            raise Problem(f"{where}: {error}")
        if new != old:
            changed.append(f"{kind} {expression}")
        return f"{match.group(0)[: match.start(4) - match.start()]}{new}{END}"

    return VALUE.sub(replace, line)


def outdated(root: Path) -> list[tuple[Path, str, list[str]]]:
    """[(path, new text, what differs)] of every file that regenerating would change."""
    results, others = load_all(root)
    found = []
    for path in files(root):
        old = path.read_text(encoding="utf-8")
        new, changed = regenerate(root, results, others, path.relative_to(root), old)
        if new != old:
            found.append((path, new, changed))
    points = roofline.roofline(results, solving(root, results))
    plots = {PLOT: plot.ladder(root, results).svg(), ROOFLINE: points.svg()}
    return found + [(root / path, new, ["plot"]) for path, new in outdated_files(root, plots)]


@command("tables")
def main(arguments: list[str] | None = None) -> int:
    parser = parser_of("Regenerate what docs/results says.")
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if something would")
    parser.add_argument("--root", type=project, default=ROOT, help="the project's folder")
    options = parser.parse_args(arguments)
    found = outdated(options.root)
    for path, new, changed in found:
        name = path.relative_to(options.root)
        if not options.check:
            write_atomically(path, new)
        advice = " differs from docs/results; run make tables" if options.check else ""
        print(f"tables: {name}: {', '.join(changed)}{advice}")
    if not found:
        print("tables: everything is up to date")
    return 1 if options.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
