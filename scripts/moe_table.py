#!/usr/bin/env python3
"""What build/programs/moe_layer measured, in docs/your_program.md: a table and a timeline. Python
standard library only.

  moe_table.py --take FILE  publishes what it printed into docs/results/<gpu>.moe.json
  moe_table.py              writes table and timeline
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import serve_table
from lib.cli import OK, ROOT, WRONG, Problem, command, parser_of
from lib.markdown import rewritten
from lib.markdown import table as markdown
from lib.store import outdated_files, update_files
from lib.svg import Drawing
from serve_table import Result

PAGE, PLOT = Path("docs/your_program.md"), Path("docs/img/moe_layer.svg")
SUFFIX = ".moe.json"
MARKER = re.compile(r"^<!-- layer: (table|steps) (\w+) -->$")  # of the GPU of this file's stem
DRAWN = "h200"  # whose timeline the page has
NOT_MEASURED = ["*Not measured yet: `build/programs/moe_layer` on a Hopper GPU fills this in.*"]
STEPS = ("place", "gather", "gate_up", "swiglu", "down", "combine")
WAYS = {
    "grouped": "ladder_gemm_grouped",
    "calls": "ladder_gemm_block_scaled, a call an expert",
    "cublas": "cuBLASLt, a call an expert",
    "cublas_8": "cuBLASLt, on eight streams",
}
BASELINES = ("cublas", "cublas_8")
RIGHT = re.compile(r": every step is right, error |: the others' results are right$")


def check(row: Result) -> None:
    """That it has what the page shows."""
    keys = [f"{way}_{what}" for way in WAYS for what in ("us", "error")]
    serve_table.check_positive(row, ["tokens", "rows", *keys], "build/programs/moe_layer")
    for way in WAYS:
        try:
            marks = [float(word) for word in row[f"{way}_trace"].split()]
        except (KeyError, AttributeError, ValueError):
            marks = []
        if len(marks) != len(STEPS) + 1 or marks != sorted(marks):
            raise Problem(f"{way}_trace must be {len(STEPS) + 1} times, one after the other, for "
                          f"{row['tokens']} tokens.")  # fmt: skip


def publish(root: Path, printed: str) -> int:
    """Writes the results file from what build/programs/moe_layer printed."""
    lines = printed.splitlines()
    numbers = [line for line in lines if line.startswith("{")]
    wrong = [line for line in lines if line not in numbers and not RIGHT.search(line)]
    if wrong:
        raise Problem(f"FAIL {wrong[0]}", WRONG)
    head, *rows = serve_table.objects_of(numbers, "build/programs/moe_layer")
    if not rows:
        raise Problem("No number of tokens was measured; moe_layer prints a line of JSON for each.")
    for row in rows:
        check(row)
    if len({row["tokens"] for row in rows}) < len(rows):
        raise Problem("A number of tokens comes twice; take what one run of moe_layer printed.")
    print(f"{serve_table.write(root, head, rows, SUFFIX)}: {len(rows)} rows")
    return OK


HEAD_KEYS = ("gpu", "cublas", "revision")
ROW_KEYS = ("tokens", "rows", *(f"{way}_{what}" for way in WAYS for what in ("us", "error")))


def load(root: Path, gpu: str = DRAWN) -> Result | None:
    results = serve_table.load(root, gpu, SUFFIX, HEAD_KEYS, ROW_KEYS)
    for row in results["rows"] if results else []:
        check(row)
    return results


def best_baseline(row: Result) -> str:
    return min(BASELINES, key=lambda way: row[way + "_us"])


def steps_of(row: Result, way: str) -> list[tuple[float, float]]:
    """(begin, end) of each step, in microseconds."""
    marks = [float(word) for word in row[way + "_trace"].split()]
    return list(zip(marks, marks[1:]))


def table(results: Result) -> list[str]:
    header = ["tokens", "rows", *(f"{WAYS[way]}, µs" for way in WAYS), "ratio", "error",
              "cuBLASLt's error"]  # fmt: skip
    lines = []
    for row in results["rows"]:
        least = row[best_baseline(row) + "_us"]
        times = [serve_table.us(row[way + "_us"]) for way in WAYS]
        lines.append(
            [str(row["tokens"]), str(row["rows"]), *times,
             f"{least / row['grouped_us']:.2f}", f"{100 * row['grouped_error']:.2f} %",
             f"{100 * row['cublas_error']:.2f} %"]
        )  # fmt: skip
    caption = (
        f"{results['gpu']}, cuBLASLt {results['cublas']}, revision {results['revision']}. Of graphs of "
        "five layers, the median of 15 rounds in turns. Ratio: to the faster of cuBLASLt's two."
    )
    return [*markdown(header, lines), "", " ".join([caption, *serve_table.changes(results)])]


def steps_table(results: Result) -> list[str]:
    header = ["tokens", "which", *(f"{step}, µs" for step in STEPS), "sum"]
    lines = []
    for row in results["rows"]:
        for way in ("grouped", best_baseline(row)):
            spans = [end - begin for begin, end in steps_of(row, way)]
            times = map(serve_table.us, [*spans, sum(spans)])
            lines.append([str(row["tokens"]), WAYS[way], *times])
    return markdown(header, lines)


COLOURS = dict(zip(STEPS, ("gray", "green", "blue", "orange", "teal", "purple")))


def timeline(results: Result | None) -> Drawing:
    """Two bars for each number of tokens, the steps from left to right."""
    rows = results["rows"] if results else []
    width, left, top, bar, gap = 900, 250, 60, 22, 6
    height = top + max(1, len(rows)) * 2 * (bar + gap) + 50
    drawing = Drawing(width, height, "A layer of experts: when each step runs")
    if not rows:
        drawing.text("not measured yet", width // 2, height // 2, "middle", "")
        return drawing
    for index, step in enumerate(STEPS):
        drawing.rect(COLOURS[step], left + 100 * index, 14, 12, 12)
        drawing.text(step, left + 100 * index + 17, 24, kind="")
    for index, row in enumerate(rows):
        ways = ("grouped", best_baseline(row))
        longest = max(steps_of(row, way)[-1][1] for way in ways)
        scale = (width - left - 80) / longest  # each number of tokens has its own
        for place, way in enumerate(ways):
            y = top + (2 * index + place) * (bar + gap)
            words = f"{row['tokens']} tokens, {'grouped' if way == 'grouped' else 'cuBLASLt'}"
            drawing.text(words, left - 8, y + bar / 2 + 4, "end", "")
            for step, (begin, end) in zip(STEPS, steps_of(row, way)):
                drawing.rect(COLOURS[step], left + begin * scale, y, (end - begin) * scale, bar,
                             f"{step}: {end - begin:.1f} µs")  # fmt: skip
            last = steps_of(row, way)[-1][1]
            drawing.text(f"{last:.0f} µs", left + last * scale + 6, y + bar / 2 + 4, kind="")
    return drawing


def outdated(root: Path) -> list[tuple[Path, str]]:
    """(path, new text) of what is not what the results say."""
    old = (root / PAGE).read_text(encoding="utf-8")
    tables = {"table": table, "steps": steps_table}

    def written(kind: str, gpu: str) -> list[str]:
        results = load(root, gpu)
        return tables[kind](results) if results else NOT_MEASURED

    page = rewritten(old, MARKER, lambda match, _: written(match[1], match[2]), PAGE)
    return outdated_files(root, {PLOT: timeline(load(root)).svg(), PAGE: page})


@command()
def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--take", type=Path, metavar="FILE", help="publish what moe_layer printed")
    taken = parser.parse_args().take
    if taken:
        return publish(ROOT, taken.read_text(encoding="utf-8", errors="replace"))
    update_files(ROOT, outdated(ROOT), "moe_table")
    return OK


if __name__ == "__main__":
    sys.exit(main())
