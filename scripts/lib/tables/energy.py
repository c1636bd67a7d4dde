"""The tables and numbers of docs/energy.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from lib.cli import Problem
from lib.markdown import DASH, not_measured, percent, row_cells
from lib.markdown import table as table_of
from lib.results import ENERGY_HEAD_KEYS, Results, Row, value_of

TENSOR_FLOP = 4096  # dense bf16, a clock and SM
EXPERIMENTS = ("data", "tile", "multicast", "raster", "epilogue")
CHIPS = ("part", "whole")
# What decides: on a part of the chip the clock is the same for all, so that what the board draws at
# rest is the same for all too and can be left out; on the whole chip all of it counts.
PJ = {"part": "pj_above_idle", "whole": "pj_per_flop"}
SPREAD = {"part": ("above_min", "above_max"), "whole": ("pj_min", "pj_max")}
NOT_MEASURED = not_measured("make energy")
WHOLE = ("watts", "idle_watts", "power_limit_watts", "max_mhz", "refresh_ms")
PRECISE = ("pj_per_flop", "pj_above_idle", "pj_min", "pj_max", "above_min", "above_max")
FORMATS: dict[str, Callable[[float], str]] = {
    **dict.fromkeys(WHOLE, lambda value: f"{value:.0f}"),
    **dict.fromkeys(PRECISE, lambda value: f"{value:.3f}"),
}


def rows_of(energy: Results, experiment: str, chip: str) -> list[Row]:
    """Rows of one experiment and chip in the order of the file, right or not."""
    return [row for row in energy.rows if (row["experiment"], row["chip"]) == (experiment, chip)]


def right(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["verified"]]


def table(results: Results | None, name: str) -> list[str]:
    """The table called "energy NAME"."""
    if name == "rungs":
        return rungs(results)
    if name != "environment" and name not in EXPERIMENTS:
        names = ", ".join(("environment", "rungs", *EXPERIMENTS))
        raise Problem(f'no table is called "energy {name}"; of energy there are {names}')
    energy = results.energy if results else None
    if energy is None:
        return NOT_MEASURED
    return environment(energy) if name == "environment" else experiment(energy, name)


def watts(value: float | None) -> str:
    return DASH if value is None else f"{value:.0f} W"


def at_rest(energy: Results) -> str:
    """What the board drew at rest: measured whenever the program was started."""
    found = {row["idle_watts"] for row in energy.rows if row.get("idle_watts") is not None}
    texts = list(dict.fromkeys(map(watts, sorted(found))))
    if len(texts) < 2:
        return texts[0] if texts else watts(energy.head["idle_watts"])
    return f"{texts[0].split()[0]} to {texts[-1]}, by run"


def environment(energy: Results) -> list[str]:
    head = energy.head
    rows = [
        ["GPU", head["gpu"]],
        ["driver, toolkit", f"{head['driver']}, {head['toolkit']}"],
        ["power limit", watts(head["power_limit_watts"])],
        ["at rest", at_rest(energy)],
        ["the counter is refreshed every", f"{head['refresh_ms']:.0f} ms"],
        ["last run", f"{head['date']}, {head['revision']}"],
        *([f"rung {rung}: changed since", what] for rung, what in energy.changed_since().items()),
    ]
    return table_of(["", f"`docs/results/{energy.path.name}`"], rows)


def experiment(energy: Results, name: str) -> list[str]:
    """A line for each contestant: on a part of the chip, then on all of it."""
    of_chip = {chip: rows_of(energy, name, chip) for chip in CHIPS}
    if not of_chip["whole"]:
        return NOT_MEASURED
    first = {chip: next(iter(right(rows)), None) for chip, rows in of_chip.items()}
    by_label = {chip: {row["label"]: row for row in rows} for chip, rows in of_chip.items()}
    sms = next((row.get("grid", 0) for row in of_chip["part"]), 0)
    part = f"{sms} SMs" if sms else "part"
    header = [
        "", f"{part}: MHz", "tensor share", "W", "pJ/FLOP above rest", "min–max", "to the first",
        "whole chip: MHz", "tensor share", "TFLOPS", "W", "pJ/FLOP", "min–max", "to the first",
    ]  # fmt: skip
    lines = []
    for row in of_chip["whole"]:
        line = [row["label"]]
        for chip, count, of_sms in (("part", 6, sms), ("whole", 7, energy.head["sms"])):
            line += row_cells(by_label[chip].get(row["label"]), count,
                              lambda each: cells(each, first[chip], chip, of_sms))  # fmt: skip
        lines.append(line)
    caption = (
        "Medians over the rounds. W: the whole board. Above rest: less what the board draws at "
        "rest. To the first: pJ/FLOP by those of the first line. A clock in italics is more than "
        "1 % off the others of its column. Tensor share: TFLOPS / (4096 FLOP · SMs · clock)."
    )
    return table_of(header, lines, caption)


def cells(row: Row, first: Row, chip: str, sms: int) -> list[str]:
    least, most = SPREAD[chip]
    # At the power limit every contestant has a clock of its own: only equal ones are remarkable.
    odd = chip == "part" and not row.get("equal_clock")
    mhz = f"*{row['sm_mhz']:.0f}*" if odd else f"{row['sm_mhz']:.0f}"
    speed = [f"{row['tflops']:.0f}"] if chip == "whole" else []
    pj = row[PJ[chip]]
    to_first = f"{pj / first[PJ[chip]]:.3f}"
    spread = f"{row[least]:.3f}–{row[most]:.3f}"
    share = percent(row["tflops"] * 1e6 / (TENSOR_FLOP * sms * row["sm_mhz"]))
    return [mhz, share, *speed, f"{row['watts']:.0f}", f"{pj:.3f}", spread, to_first]


def rungs(results: Results | None) -> list[str]:
    """Each rung's result beside cuBLASLt, from the results of make bench."""
    metered = [row for row in (results.rows if results else []) if row.get("watts") is not None]
    if not metered:
        return not_measured("make bench")
    header = [
        "rung", "at", "W", "pJ/FLOP", "cuBLASLt: W", "pJ/FLOP", "rung to cuBLASLt", "at rest, W"
    ]  # fmt: skip
    lines = []
    for row in metered:
        pj, baseline_pj = row["pj_per_flop"], row["baseline_pj_per_flop"]
        lines.append([
            str(row["stage"]), f"{row['m']}³", f"{row['watts']:.0f}", f"{pj:.3f}",
            f"{row['baseline_watts']:.0f}", f"{baseline_pj:.3f}", f"{pj / baseline_pj:.3f}",
            f"{row['idle_watts']:.0f}",
        ])  # fmt: skip
    caption = "Sustained: the best cuBLASLt algorithm, and right after it the rung's result."
    return table_of(header, lines, caption)


def operand(results: Results | None, text: str) -> tuple[Any, str]:
    """(value, key) of experiment.label.chip.key, or of a number of the head such as idle_watts."""
    energy = results.energy if results else None
    if re.fullmatch(r"[a-z_]+", text):
        if text not in ENERGY_HEAD_KEYS or text == "rows":
            raise Problem(f'"{text}": the energy file\'s head has no such key')
        return (energy.head[text] if energy else None), text
    match = re.fullmatch(r"(\w+)\.([^.]+)\.(part|whole)\.(\w+)", text)
    if not match or match.group(1) not in EXPERIMENTS:
        raise Problem(f'"{text}" is neither a number nor experiment.label.part|whole.key')
    name, label, chip, key = match.groups()
    rows = rows_of(energy, name, chip) if energy else []
    if not rows:
        return None, key
    row = find(rows, label, chip)
    if row is None:
        labels = ", ".join(row["label"] for row in rows)
        raise Problem(f'"{text}": {name} has no "{label}", only best, worst, {labels}')
    return value_of(row, key, text)


def find(rows: list[Row], label: str, chip: str) -> Row | None:
    """The row of that label; best and worst are those with the fewest and most pJ/FLOP."""
    if label in ("best", "worst"):
        choose = min if label == "best" else max
        return choose(right(rows), key=lambda row: row[PJ[chip]], default=rows[0])
    return next((row for row in rows if row["label"] == label), None)
