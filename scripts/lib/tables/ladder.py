"""The tables of the ladder: rungs, variants, counters, what was measured with, and timelines."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path

from lib.cli import Problem
from lib.markdown import DASH, cell, not_measured, percent, row_cells, table, tflops
from lib.results import (
    ELSEWHERE, Results, Row, grown_from, is_cube, is_of_ladder, load_chip, read_rows, rungs, solving,
)  # fmt: skip
from lib.rows import REGIMES, SIZES, shape_of
from lib.tables import limits as ceilings

TRACES = ".traces.json"
PEAK_FLOP = 4096  # a clock and SM
NOT_MEASURED = not_measured("make bench")
IN_BRACKETS = (
    "TFLOPS, in brackets the share of the best cuBLASLt algorithm timed in turns with it; bold:"
)


def measured(row: Row | None, show: Callable[[Row], str]) -> str:
    """show(row), a dash for a row that is not there, FAIL for a wrong result."""
    return row_cells(row, 1, lambda right: [show(right)])[0]


def with_share(row: Row | None) -> str:
    return measured(row, lambda r: f"{tflops(r['tflops'])} ({percent(r.get('ratio'))})")


def spread(row: Row | None) -> str:
    def show(r: Row) -> str:
        return DASH if r.get("p10") is None else f"{tflops(r['p10'])}–{tflops(r.get('p90'))}"

    return measured(row, show)


def registers(row: Row | None) -> str:
    return DASH if row is None else str(row.get("registers") or DASH).replace("->", "→")


def shared_memory(row: Row | None) -> str:
    smem = row.get("smem_bytes") if row else None
    return DASH if smem is None else f"{smem / 1024:.0f} KiB"


def both(burst: Row | None, sustained: Row | None, show: Callable[[Row], str]) -> str:
    cells = [measured(row, show) for row in (burst, sustained)]
    return DASH if cells == [DASH, DASH] else " / ".join(cells)


def in_regimes(results: Results, stage: int, variant: str, size: int) -> list[Row | None]:
    return [results.find(stage, variant, size, regime) for regime in REGIMES]


def ladder(root: Path, results: Results | None, link: str, problem: str) -> list[str]:
    header = ["rung", "its one idea", "TFLOPS, burst", "share"]
    header += ["TFLOPS, sustained", "share", "registers"]
    rows = []
    stems = rungs(root)
    elsewhere = load_chip(root, ELSEWHERE)  # for a rung that was not measured here
    for number in solving(root, results, problem):
        stem, idea = stems[number]
        cells = [DASH] * 5
        if results:
            size = results.detail_size(number) or 8192
            rows_at = in_regimes(results, number, "result", size)
            note = "" if size == 8192 else f" at {size}³"
            if elsewhere and not results.any_row(number, "result"):
                rows_at = in_regimes(elsewhere, number, "result", size)
                note += f" on an {elsewhere.path.stem.upper()}"
            cells = []
            for row in rows_at:
                speed = measured(row, lambda r: tflops(r["tflops"]))
                share = measured(row, lambda r: percent(r.get("ratio")))
                cells += [speed + (note if row else ""), share]
            cells += [registers(rows_at[0] or results.any_row(number, "result"))]
        rows.append([f"[{stem}]({link}{stem}.md)", idea, *cells])
    if results is None:
        return table(header, rows, NOT_MEASURED[0])
    head = results.head
    caption = (
        f"8192³ unless a cell says otherwise, {problem}, {head['data']} data, on one {head['gpu']}. "
        "Share: of the fastest cuBLASLt algorithm, timed in turns with the rung. Registers: of a "
        "thread, at the launch → of the producer / of a consumer."
    )
    return table(header, rows, caption)


def chips(root: Path, results: Results | None, other: Results | None) -> list[str]:
    """The rungs on another chip beside those on the tables' own."""
    if results is None or other is None:
        return NOT_MEASURED
    header, rows = ["rung"], []
    for of_one in (other, results):
        header += [f"{of_one.path.stem.upper()}, {regime}" for regime in REGIMES]
    for number in solving(root, results):
        size = results.detail_size(number) or 8192
        at = [row for one in (other, results) for row in in_regimes(one, number, "result", size)]
        rows.append([rungs(root)[number][0], *map(with_share, at)])
    caption = (
        "TFLOPS at 8192³ (rung 1: 2048³), in brackets the share of the best cuBLASLt algorithm timed "
        f"in turns with it. {other.head['gpu']}, last run {other.head['date']}, revision {other.head['revision'][:7]}."
    )
    return table(header, rows, caption)


def of_variants(
    root: Path, results: Results, stage: int, line: Callable[[str, int, str], list[str]]
) -> list[list[str]]:
    """line(label, rung, variant) of the rung that a rung grew from, then of each variant."""
    lines = []
    earlier = grown_from(root, stage)
    before = results.any_row(earlier, "result") if earlier > 0 else None
    if before:
        lines.append(line(f"*rung {earlier}, {before['variant']}*", earlier, "result"))
    for variant in results.variants(stage):
        rows = results.of_variant(stage, variant)
        if any(map(is_cube, rows)):  # else a configuration that was measured at other shapes
            lines.append(line(f"**{variant}**" if rows[0]["result"] else variant, stage, variant))
    return lines


def rung(root: Path, results: Results | None, stage: int) -> list[str]:
    if results is None or not results.variants(stage):
        return NOT_MEASURED
    size = results.detail_size(stage) or 8192
    header = ["variant", *(f"{s}³ burst" for s in SIZES), f"{size}³ sustained",
              f"p10–p90 at {size}³ burst", "registers", "shared memory",
              "tensor share, burst / sustained", "SM MHz, burst / sustained", "CPU µs a call"]  # fmt: skip

    def line(label: str, number: int, variant: str) -> list[str]:
        burst, sustained = in_regimes(results, number, variant, size)
        at_any = burst or results.any_row(number, variant)
        return [
            label,
            *(with_share(results.find(number, variant, s, "burst")) for s in SIZES),
            with_share(sustained),
            spread(burst),
            registers(at_any),
            shared_memory(at_any),
            both(burst, sustained, lambda r: percent(r.get("tensor_share"))),
            both(burst, sustained, lambda r: cell(r.get("sm_mhz"), ".0f")),
            measured(burst, lambda r: cell(r.get("host_us"), ".1f")),
        ]

    opponent = ["*best cuBLASLt*", *(tflops(results.baseline(s, "burst", stage)) for s in SIZES)]
    opponent += [tflops(results.baseline(size, "sustained", stage)), *[DASH] * 6]
    rows = [*of_variants(root, results, stage, line), opponent]
    caption = f"{IN_BRACKETS} the variant that stands for the rung.{results.changes(stage)}"
    return table(header, rows, caption)


def short(
    root: Path, results: Results | None, stage: int, of_another_chip: bool = False
) -> list[str]:
    """What a page needs of rung(): one size, and which limit is closest."""
    if results is None or not results.variants(stage):
        return NOT_MEASURED
    size = results.detail_size(stage) or 8192
    limits = ceilings.load(results)

    def line(label: str, number: int, variant: str) -> list[str]:
        burst, sustained = in_regimes(results, number, variant, size)
        use = limits and ceilings.use_of(limits, results, number, variant, size, "burst")
        return [
            label,
            with_share(burst),
            with_share(sustained),
            measured(burst, lambda r: percent(r.get("tensor_share"))),
            registers(burst or results.any_row(number, variant)),
            use.binding_cell() if use and use.tile else DASH,
        ]

    opponent = [tflops(results.baseline(size, regime, stage)) for regime in REGIMES]
    header = ["variant", f"{size}³ burst", f"{size}³ sustained", "tensor share", "registers",
              "closest ceiling"]  # fmt: skip
    rows = [*of_variants(root, results, stage, line), ["*best cuBLASLt*", *opponent, *[DASH] * 3]]
    caption = (
        f"{IN_BRACKETS} the variant that stands for the rung. "
        "[Tensor share](glossary.md#the-ladder), of the tensor cores' clocks, and "
        "[closest ceiling](limits.md#where-the-rungs-are), the limit that it is nearest to: burst. "
        + (
            f"One {results.head['gpu']}."
            if of_another_chip
            else f"Other sizes, clocks, counters: [results](results.md#rung-{stage})."
        )
        + results.changes(stage)
    )
    return table(header, rows, caption)


def problems(root: Path, results: Results | None, stage: int) -> list[str]:
    """Of a rung that solves a problem of its own, the result by its problem's parameters."""
    if results is None:
        return NOT_MEASURED
    name = rungs(root)[stage][0]
    rows = []
    columns = ((4096, "burst"), (8192, "burst"), (8192, "sustained"))
    for args in results.args(stage):
        at = [results.find(stage, "result", *column, args) for column in columns]
        if any(at):
            cells = [with_share(row) for row in at]
            library = DASH if at[1] is None else tflops(at[1].get("baseline_tflops"))
            rows.append(
                [name, args.replace(",", ", ") or "default", *cells, library, registers(at[1])]
            )
    if not rows:
        return NOT_MEASURED
    header = ["rung", "what", "4096³ burst", "8192³ burst", "8192³ sustained", "cuBLASLt, 8192³ burst",
              "registers"]  # fmt: skip
    caption = (
        "TFLOPS, in brackets the share of the fastest cuBLASLt algorithm for the same types and layouts, "
        f"timed in turns with the rung; {results.head['data']} data, on one {results.head['gpu']}."
        + results.changes(stage)
    )
    return table(header, rows, caption)


def counters(root: Path, results: Results | None, stage: int) -> list[str]:
    counted = results.counters if results else None
    size = counted.detail_size(stage) if counted else None
    if results is None or counted is None or size is None:
        return not_measured("make counters")
    sms = results.head.get("sms")

    def cells(label: str, row: Row | None) -> list[str]:
        if row is None:
            return [label] + [DASH] * 9
        giga = ("l2_read_bytes", "l2_to_sm_bytes", "dram_read_bytes", "dram_write_bytes")
        mega = ("smem_wavefronts", "smem_conflicts", "instructions")
        return [
            label,
            f"{row['cycles'] / 1e6:.2f}",
            *(f"{row[key] / 1e9:.2f}" for key in giga),
            *(f"{row[key] / 1e6:.1f}" for key in mega),
            f"{row['l2_to_sm_bytes'] / (row['cycles'] * sms):.1f}" if sms else DASH,
        ]

    def line(label: str, number: int, variant: str) -> list[str]:
        return cells(label, counted.find(number, variant, size))

    lines = of_variants(root, counted, stage, line)
    for row in counted.rows:
        if row["stage"] == stage and row.get("args") and shape_of(row) == (size,) * 3:
            lines.append(cells(f"{row['variant']}, {row['args']}", row))
    header = ["variant", "cycles, M", "L2 reads, GB", "delivered to SMs, GB", "DRAM read, GB",
              "DRAM written, GB", "smem wavefronts, M", "conflicts, M", "instructions, M",
              "L2→SM, B/clk/SM"]  # fmt: skip
    caption = (
        f"One launch at {size}³ under Nsight Compute, caches empty before it. M: 10⁶, GB: 10⁹ bytes. "
        "L2→SM is derived: bytes delivered / (cycles · SMs)." + counted.changes(stage)
    )
    return table(header, lines, caption)


# --- what was measured with ----------------------------------------------------------------------


def environment(results: Results | None) -> list[str]:
    if results is None:
        return NOT_MEASURED
    head = results.head
    named = {"GPU": "gpu", "driver": "driver", "CUDA toolkit": "toolkit", "cuBLASLt": "cublas",
             "date": "date", "revision": "revision"}  # fmt: skip
    rows = [[name, str(head[key])] for name, key in named.items()]
    rows += [["data, seed", f"{head['data']}, {head['seed']}"]]
    rows += [[f"rung {rung}: changed since", what] for rung, what in results.changed_since().items()]
    return table(["", f"`docs/results/{results.path.name}`"], rows)


def baseline(results: Results | None) -> list[str]:
    if results is None:
        return NOT_MEASURED
    by_shape: dict[tuple[int, str], list[Row]] = {}
    for row in results.rows:
        usual = is_cube(row) and row["m"] in SIZES
        if usual and is_of_ladder(row) and row.get("baseline_tflops") is not None:
            by_shape.setdefault((row["m"], row["regime"]), []).append(row)
    lines = []
    for (size, regime), rows in sorted(by_shape.items()):
        names = [str(row.get("baseline_algo") or DASH) for row in rows]
        best = max(sorted(set(names)), key=names.count)
        won = f"{names.count(best)} of {len(names)}"
        median = statistics.median(row["baseline_tflops"] for row in rows)
        lines.append([f"{size}³", regime, tflops(median), best, won])
    header = ["M, N, K", "regime", "TFLOPS, median", "algorithm that won most often", "rows"]
    return table(header, lines)


def submitted(root: Path, others: list[Results]) -> list[str]:
    if not others:
        return ["*None yet.*"]
    numbers = solving(root, others[0])
    header = ["file", "GPU", "cuBLASLt", "date", *(f"rung {number}" for number in numbers)]
    rows = []
    for other in others:
        cells = [f"`{other.path.name}`"]
        cells += [str(other.head[key]) for key in ("gpu", "cublas", "date")]
        cells += [with_share(other.find(number, "result", 8192, "burst")) for number in numbers]
        rows.append(cells)
    caption = "TFLOPS at 8192³, burst; in brackets the share of the best cuBLASLt algorithm."
    return table(header, rows, caption)


def traces(results: Results | None) -> list[str]:
    """What recorded timelines say of the tensor cores, beside what make bench does."""
    keys = ("stage", "variant", "m", "n", "k")
    recorded = read_rows(results, TRACES, "rows", keys, ("need", "span", "under", "us", "plain_us"))
    if results is None or recorded is None:
        how = "`make trace-N` on a Hopper GPU, then `scripts/trace.py --keep`"
        return [f"*Not recorded yet: {how}.*"]
    header = ["rung", "variant", "some wgmma in flight", "products at peak", "of the whole launch", "`make bench`",
              "a launch with stamps, µs", "without"]  # fmt: skip
    lines, sms = [], results.head.get("sms")
    if sms is None:
        raise Problem(f'{results.path}: key "sms" is missing')
    for row in recorded:
        ctas = 2 * row["m"] * row["n"] * row["k"] / PEAK_FLOP / row["need"]
        working = ctas / (math.ceil(ctas / sms) * sms)  # of the SMs, in all rounds
        at_peak = row["need"] / row["span"]
        bench = results.find_shape(row["stage"], row["variant"], shape_of(row), "burst")
        lines.append([
            str(row["stage"]), row["variant"], percent(row["under"] / row["span"]), percent(at_peak),
            percent(at_peak * working), measured(bench, lambda b: percent(b.get("tensor_share"))),
            f"{row['us']:,.1f}", f"{row['plain_us']:,.1f}",
        ])  # fmt: skip
    return table(header, lines)
