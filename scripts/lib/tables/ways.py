"""The table of a rung whose configurations differ in what becomes of a tile's K: the fastest of
each way, for shapes of few rows."""

from __future__ import annotations

import re
import statistics

from lib import shape_lists
from lib.markdown import DASH, cell, not_measured
from lib.markdown import table as table_of
from lib.registry import ran
from lib.results import Results, Row
from lib.rows import shape_of
from lib.shape_lists import Shape
from lib.tables import limits
from lib.tables.best import us

MOST_M = 128
# By the end of a configuration's name; the first that fits.
WAYS = {
    "split in a cluster": re.compile(r"_k\d+$"),
    "cut": re.compile(r"_cut$"),
    "stream-K": re.compile(r"_(all|last)$"),
    "whole tiles": re.compile(r""),
}
ORDER = ("whole tiles", "split in a cluster", "cut", "stream-K")


def of_shape(results: Results, stage: int, shape: Shape) -> dict[str, list[Row]]:
    """{way: right rows, the fastest first} of a shape's configurations, in burst."""
    found: dict[str, list[Row]] = {}
    for row in results.rows:
        rung, name = ran(row)
        if (rung, shape_of(row), row["regime"]) == (stage, shape, "burst") and row["verified"]:
            way = next(way for way, end in WAYS.items() if end.search(name))
            found.setdefault(way, []).append({**row, "variant": name})
    return {way: sorted(rows, key=us) for way, rows in found.items()}


def shape_line(results: Results, shape: Shape, ways: dict[str, list[Row]]) -> list[str]:
    least = min(us(rows[0]) for rows in ways.values())
    cells = []
    for way in ORDER:
        row = ways.get(way, [None])[0]
        if row is None:
            cells.append(DASH)
            continue
        time = f"**{us(row):.1f}**" if us(row) == least else f"{us(row):.1f}"
        cells.append(f"{time} `{row['variant']}`")
    baselines = [
        us({**row, "tflops": row["baseline_tflops"]})
        for rows in ways.values() for row in rows if row.get("baseline_tflops")
    ]  # fmt: skip
    median = statistics.median(baselines) if baselines else None
    # What A, B and D alone take of DRAM, read at its ceiling.
    (m, n, k), (tbps, _) = shape, limits.operand(results, "dram_read.burst.value")
    dram = 2 * (m * k + n * k + m * n) / tbps * 1e-6 if isinstance(tbps, float) else None
    return [", ".join(map(str, shape)), cell(dram, ".1f"), *cells, cell(median, ".1f")]


def table(results: Results | None, stage: int) -> list[str]:
    shapes = dict.fromkeys(shape for shapes in shape_lists.LISTS.values() for shape in shapes)
    lines = []
    for shape in sorted(shape for shape in shapes if shape[0] <= MOST_M):
        ways = of_shape(results, stage, shape) if results else {}
        if results and len(ways) > 1:
            lines.append(shape_line(results, shape, ways))
    if not lines:
        command = f"make bench ROWS={stage}:*@1x6144x4096/burst"
        return not_measured(command, "a Hopper GPU, and the like, fill this in")
    header = ["M, N, K", "DRAM alone", *ORDER, "cuBLASLt"]
    caption = (
        "Microseconds, burst; bold: the least of the rung's. DRAM alone is derived: bytes of A, B and D "
        "at the ceiling of reading."
    )
    return table_of(header, lines, caption)
