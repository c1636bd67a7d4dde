"""The tables of a rung that solves a problem of its own, over many shapes: shape by shape, and
means by how many rows D has."""

from __future__ import annotations

import statistics
from pathlib import Path

from lib.markdown import DASH, cell, not_measured, shape_text, tflops
from lib.markdown import table as table_of
from lib.results import PROBLEM, Results, Row, problem_of, rungs
from lib.rows import shape_of
from lib.tables.best import us

# By the least M and K, in this order: each row is in the first that it reaches.
CLASSES = (
    ("M ≥ 1024, K ≥ 2048", 1024, 2048),
    ("M ≥ 1024, K < 2048", 1024, 0),
    ("128 < M < 1024", 129, 0),
    ("64 ≤ M ≤ 128", 64, 0),
    ("M < 64", 0, 0),
)


def rows_of(results: Results | None, stage: int) -> list[Row]:
    """A rung's own choices in burst, by arguments and shape."""
    own = [row for row in (results.rows if results else []) if row["stage"] == stage]
    rows = [row for row in own if row["result"] and row["regime"] == "burst"]
    return sorted(rows, key=lambda row: (row.get("args") or "", shape_of(row)))


def args_text(args: str | None) -> str:
    return (args or "default").replace(",", ", ")


def table(results: Results | None, stage: int) -> list[str]:
    rows = rows_of(results, stage)
    if not rows:
        return not_measured(f"make bench ROWS={stage}:result@tuning")
    header = ["M, N, K", "which", "kernel", "µs", "TFLOPS", "cuBLASLt", "ratio"]
    lines = []
    for row in rows:
        start = [shape_text(shape_of(row)), args_text(row.get("args"))]
        if not row["verified"]:
            lines.append(start + ["FAIL"] * 5)
            continue
        kernel = row.get("configuration") or DASH
        lines.append(start + [kernel, f"{us(row):,.1f}", tflops(row["tflops"]), tflops(row.get("baseline_tflops")),
                              cell(row.get("ratio"), ".3f")])  # fmt: skip
    caption = (
        "Burst. Ratio: to the fastest cuBLASLt algorithm for the same problem, timed in turns; "
        f"{DASH}: cuBLASLt takes no such shape."
    )
    return table_of(header, lines, caption)


def means_table(results: Results | None, stage: int) -> list[str]:
    rows = [row for row in rows_of(results, stage) if row["verified"] and row.get("ratio")]
    if not rows:
        return not_measured(f"make bench ROWS={stage}:result@tuning")
    lines = []
    found: dict[tuple[str, int], list[float]] = {}  # (arguments, number of a class) -> ratios
    for row in rows:
        m, k = row["m"], row["k"]
        first = next(i for i, (_, m0, k0) in enumerate(CLASSES) if m >= m0 and k >= k0)
        found.setdefault((row.get("args") or "", first), []).append(row["ratio"])
    for (args, number), ratios in sorted(found.items()):
        mean, below = statistics.geometric_mean(ratios), sum(ratio < 1 for ratio in ratios)
        lines.append([args_text(args), CLASSES[number][0], str(len(ratios)), f"{mean:.3f}",
                      f"{min(ratios):.3f}", str(below)])  # fmt: skip
    header = ["which", "shapes", "how many", "speed / cuBLASLt's, mean", "lowest", "below 1"]
    caption = (
        "Burst. Speed over that of the fastest way to the same result that cuBLASLt or cuBLAS has, timed in "
        "turns; mean: geometric."
    )
    return table_of(header, lines, caption)

# What a rung multiplies where its arguments name neither a type nor bits.
DEFAULTS = {13: "bf16", 14: "e4m3", 15: "int8 weights, bf16", 16: "bf16", 17: "bf16"}
TYPES = {"type": "{}", "bits": "int{} weights, bf16"}


def operands(stage: int, args: str | None) -> str:
    for key, _, value in (arg.partition("=") for arg in (args or "").split(",")):
        if key in TYPES:
            return TYPES[key].format(value)
    return DEFAULTS.get(stage, "default")


def share_cell(rows: list[Row]) -> str:
    """What cuBLASLt takes over what the rung takes, as a mean and its range."""
    if not all(row["verified"] for row in rows):
        return "FAIL"
    ratios = [row["ratio"] for row in rows if row.get("ratio")]
    if not ratios:
        return DASH
    if len(ratios) == 1:
        return f"{ratios[0]:.2f}"
    return f"**{statistics.geometric_mean(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"


def problems_table(root: Path, results: Results | None, link: str) -> list[str]:
    """A line for each rung that solves a problem of its own and each type of its operands."""
    if results is None:
        return not_measured("make bench")
    stems = rungs(root)
    heights = {"M ≥ 1024": 1024, "128 < M < 1024": 129, "64 ≤ M ≤ 128": 64, "M < 64": 1}
    lines = []
    for stage in sorted(stems):
        if problem_of(root, results, stage) == PROBLEM:
            continue
        of_stage = rows_of(results, stage)
        for what in dict.fromkeys(operands(stage, row.get("args")) for row in of_stage):
            rows = [row for row in of_stage if operands(stage, row.get("args")) == what]
            at: dict[str, list[Row]] = {name: [] for name in heights}
            for row in rows:
                at[next(name for name, least in heights.items() if row["m"] >= least)].append(row)
            best = max((row for row in rows if row["verified"]), key=lambda row: row["tflops"], default=None)
            fastest = f"{tflops(best['tflops'])} at {shape_text(shape_of(best))}" if best else DASH
            name = stems[stage][0]
            lines.append([f"[{name}]({link}{name}.md)", what, str(len(rows)), fastest,
                          *(share_cell(rows) if rows else DASH for rows in at.values())])  # fmt: skip
    if not lines:
        return not_measured("make bench")
    caption = (
        "Speed as a multiple of the fastest way to the same result that cuBLASLt or cuBLAS has, timed in turns, "
        "burst: geometric mean, and from lowest to highest. For rung 15 that is bf16 on decoded weights. A problem "
        "is a shape with its layout, groups or activation; one that cuBLASLt refuses has no part in a mean. All of "
        f"them: [results]({link}results.md); one {results.head['gpu']}.{results.changes()}"
    )
    return table_of(["rung", "operands", "problems", "TFLOPS at most", *heights], lines, caption)
