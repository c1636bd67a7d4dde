"""The table of a rung whose configurations differ in what becomes of a tile's K: the fastest of each
way, for shapes of few rows. For tables.py."""

import re
import statistics

import limits_tables
from lib import shape_lists
from best_tables import us
from cells import DASH, cell, markdown

MOST_M = 128
# By the end of a configuration's name; the first that fits.
WAYS = {
    "split in a cluster": re.compile(r"_k\d+$"),
    "cut": re.compile(r"_cut$"),
    "stream-K": re.compile(r"_(all|last)$"),
    "whole tiles": re.compile(r""),
}
ORDER = ("whole tiles", "split in a cluster", "cut", "stream-K")


def way_of(variant):
    return next(way for way, end in WAYS.items() if end.search(variant))


def dram_us(results, m, n, k):
    """What A, B and D alone take of DRAM, read at its ceiling; None if that was not measured."""
    tbps, _ = limits_tables.operand(results, "dram_read.burst.value")
    return 2 * (m * k + n * k + m * n) / tbps * 1e-6 if isinstance(tbps, float) else None


def configuration_of(row, stage):
    """The rung's configuration that a row ran, by its name or by the choice of the rung or of stage 0;
    None if it is another rung's."""
    chosen = row.get("configuration")
    if row["stage"] == stage:
        return chosen or row["variant"]
    rung, _, name = (chosen or "").partition("/")
    return name if row["stage"] == 0 and rung.startswith(f"{stage}_") else None


def of_shape(results, stage, shape):
    """{way: right rows, the fastest first} of a shape's configurations, in burst."""
    found = {}
    for row in results.rows:
        at = ((row["m"], row["n"], row["k"]), row["regime"])
        name = configuration_of(row, stage)
        if at == (shape, "burst") and row["verified"] and name:
            found.setdefault(way_of(name), []).append({**row, "variant": name})
    return {way: sorted(rows, key=us) for way, rows in found.items()}


def shape_line(results, shape, ways):
    least = min(us(rows[0]) for rows in ways.values())
    cells = []
    for way in ORDER:
        row = ways.get(way, [None])[0]
        time = f"{us(row):.1f}" if row else DASH
        bold = row is not None and us(row) == least
        cells.append((f"**{time}** " if bold else f"{time} ") + f"`{row['variant']}`" if row else DASH)
    baselines = [
        us({**row, "tflops": row["baseline_tflops"]})
        for rows in ways.values() for row in rows if row.get("baseline_tflops")
    ]  # fmt: skip
    median = statistics.median(baselines) if baselines else None
    dram = dram_us(results, *shape)
    return [", ".join(map(str, shape)), cell(dram, ".1f"), *cells, cell(median, ".1f")]


def table(results, stage):
    shapes = dict.fromkeys(shape for shapes in shape_lists.LISTS.values() for shape in shapes)
    lines = []
    for shape in sorted(shape for shape in shapes if shape[0] <= MOST_M):
        ways = of_shape(results, stage, shape) if results else {}
        if len(ways) > 1:
            lines.append(shape_line(results, shape, ways))
    if not lines:
        return [
            f"*Not measured yet: `make bench ROWS={stage}:*@1x6144x4096/burst` on a Hopper GPU, and the "
            "like, fill this in.*"
        ]
    header = ["M, N, K", "DRAM alone", *ORDER, "cuBLASLt"]
    caption = (
        "Microseconds, burst; bold: the least of the rung's. DRAM alone is derived: bytes of A, B and D "
        "at the ceiling of reading."
    )
    return markdown(header, lines) + ["", caption]
