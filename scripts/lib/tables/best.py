"""The tables of stage 0, the choice among all rungs, beside cuBLASLt: by list of shapes, and shape
by shape."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from lib import shape_lists
from lib.cli import Problem
from lib.markdown import DASH, not_measured, ratio_cell, shape_text, tflops
from lib.markdown import table as table_of
from lib.results import PROBLEM, Results, Row
from lib.rows import REGIMES, shape_of
from lib.shape_lists import Shape

STAGE = 0
NO_WORKSPACE = "_no_workspace"  # how the variant that takes no kernel with a workspace ends
MOST = 1.25  # what a ratio counts at most in a mean, so that no shape makes up for many
LIMITS = (0.95, 0.90)
NOT_MEASURED = not_measured("make bench ROWS=0@all")


class Choices:
    """Rows of stage 0 by shape, regime, and whether a workspace may be used."""

    def __init__(self, results: Results | None) -> None:
        self.rows: dict[tuple[Shape, str, bool], Row] = {}
        for row in results.rows if results else []:
            if (row["stage"], row["problem"]) == (STAGE, PROBLEM):
                with_workspace = not row["variant"].endswith(NO_WORKSPACE)
                self.rows[shape_of(row), row["regime"], with_workspace] = row

    def of(self, shapes: Iterable[Shape], regime: str, with_workspace: bool) -> list[Row]:
        """Those that were measured, in the order of the shapes."""
        rows = (self.rows.get((shape, regime, with_workspace)) for shape in shapes)
        return [row for row in rows if row]


def summary_cells(rows: list[Row], count: int) -> list[str]:
    """How many of `count` shapes were measured, and what came of them; one that is wrong is in no
    mean, so that there is none."""
    measured = str(len(rows)) if len(rows) in (0, count) else f"{len(rows)} of {count}"
    if not rows:
        return [measured] + [DASH] * (2 + len(LIMITS))
    if not all(row["verified"] for row in rows):
        return [measured] + ["FAIL"] * (2 + len(LIMITS))
    ratios = [row["ratio"] for row in rows]
    mean = statistics.geometric_mean(min(ratio, MOST) for ratio in ratios)
    below = [str(sum(ratio < limit for ratio in ratios)) for limit in LIMITS]
    return [measured, f"{mean:.3f}", f"{min(ratios):.3f}", *below]


def summary_table(results: Results | None, of_another_chip: bool = False) -> list[str]:
    choices = Choices(results)
    if not choices.rows:
        return NOT_MEASURED
    header = ["shapes", "workspace"]
    for regime in REGIMES:
        header += [f"{regime}: shapes", "mean ratio", "lowest"]
        header += [f"below {limit:.2f}" for limit in LIMITS]
    lines = []
    for name, shapes in {**shape_lists.LISTS, "all": shape_lists.UNIONS["all"]}.items():
        for with_workspace in (True, False):
            rows = [choices.of(shapes, regime, with_workspace) for regime in REGIMES]
            if any(rows):
                cells = [c for of_one in rows for c in summary_cells(of_one, len(shapes))]
                lines.append([name, "yes" if with_workspace else "no", *cells])
    caption = (
        "Ratio: to the fastest cuBLASLt algorithm, timed in turns. Mean: geometric, ratios above "
        f"{MOST} counted as {MOST}."
    )
    if of_another_chip and results:  # whose kernels and choices nobody holds to today's
        revision, date = results.head["revision"][:7], results.head["date"]
        caption += f" Last run into the file: {date}, revision {revision}; other rows are of earlier runs."
    return table_of(header, lines, caption)


def us(row: Row) -> float:
    """Of one launch."""
    return 2 * row["m"] * row["n"] * row["k"] / row["tflops"] * 1e-6


def shape_line(name: str, row: Row) -> list[str]:
    line = [shape_text(shape_of(row)), name, row["configuration"] or DASH]
    if not row["verified"]:
        return line + ["FAIL"] * 2 + [tflops(row.get("baseline_tflops")), "FAIL"]
    speed = [f"{us(row):.1f}", tflops(row["tflops"]), tflops(row["baseline_tflops"])]
    return [*line, *speed, ratio_cell(row["ratio"], row["ratio"] < LIMITS[0])]


def shapes_table(results: Results | None, regime: str, with_workspace: bool) -> list[str]:
    choices = Choices(results)
    lines = [
        shape_line(name, row)
        for name, shapes in shape_lists.LISTS.items()
        for row in choices.of(shapes, regime, with_workspace)
    ]
    if not lines:
        return NOT_MEASURED
    header = ["M, N, K", "class", "configuration", "µs", "TFLOPS", "cuBLASLt", "ratio"]
    workspace = "with" if with_workspace else "without"
    caption = f"{regime.capitalize()}, {workspace} a workspace; ↓: a ratio below {LIMITS[0]:.2f}."
    return table_of(header, lines, caption)


def table(results: Results | None, name: str | None) -> list[str]:
    """The lines of table `best NAME`."""
    if name is None:
        return summary_table(results)
    regime = name.removesuffix(NO_WORKSPACE)
    if regime not in REGIMES:
        raise Problem(
            f'no table is called "best {name}"; there are best, best burst and best sustained, '
            f"with or without {NO_WORKSPACE} behind it"
        )
    return shapes_table(results, regime, not name.endswith(NO_WORKSPACE))
