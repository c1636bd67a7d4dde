"""The tables and numbers of what chooses: what a rung's chooser reaches at many shapes, and how far
stage 0's picks are from the best of a sweep."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from lib import shape_lists
from lib.cli import Problem
from lib.markdown import (
    DASH, cell, not_measured, percent, ratio_cell, row_cells, shape_text, table, tflops,
)  # fmt: skip
from lib.results import Results, Row, read_rows
from lib.rows import REGIMES, shape_of
from lib.shape_lists import Shape

SWEEP = ".sweep.json"
CHOOSER = (0, "best")  # whose picks a sweep judges
ENTRY_KEYS = ("m", "n", "k", "regime", "configurations", "best", "pick", "distance", "left_out")
NOTES = ".notes.json"
LIST_NAMES = {"tuning": "tuning shapes", "heldout": "held-out shapes"}
LARGE_M = 1024
TARGETS = {True: 1.00, False: 0.95}  # of the ratio, by whether M is at least LARGE_M


# --- at many shapes ------------------------------------------------------------------------------


class Shapes:
    """Rows of a rung's chooser, and of the variant that chooses as it does and launches plainly."""

    def __init__(self, results: Results | None, stage: int) -> None:
        self.rows: dict[tuple[Shape, str, bool], Row] = {}  # (shape, regime, whether plain) -> row
        for row in results.rows if results else []:
            if row["stage"] == stage and row.get("configuration"):
                self.rows[shape_of(row), row["regime"], not row["result"]] = row

    def row(self, shape: Shape, regime: str, plain: bool = False) -> Row | None:
        return self.rows.get((shape, regime, plain))

    def there(self, list_name: str) -> list[Shape]:
        """The shapes of a list that were measured."""
        shapes = shape_lists.LISTS[list_name]
        return [shape for shape in shapes if any(self.row(shape, regime) for regime in REGIMES)]

    def right(
        self, list_name: str, regime: str, large_only: bool = False, plain: bool = False
    ) -> list[Row]:
        rows = (self.row(shape, regime, plain) for shape in shape_lists.LISTS[list_name])
        right = [row for row in rows if row and row["verified"]]
        return [row for row in right if row["m"] >= LARGE_M or not large_only]


def is_below(row: Row) -> bool:
    return row["ratio"] < TARGETS[row["m"] >= LARGE_M]


def geomean(rows: Iterable[Row]) -> float | None:
    ratios = [row["ratio"] for row in rows]
    return statistics.geometric_mean(ratios) if ratios else None


def regime_cells(shapes: Shapes, shape: Shape, regime: str) -> list[str]:
    plain = shapes.row(shape, regime, plain=True)
    cells = row_cells(shapes.row(shape, regime), 3, lambda row: [
        tflops(row["tflops"]), tflops(row["baseline_tflops"]),
        ratio_cell(row["ratio"], is_below(row))])  # fmt: skip
    return cells + [tflops(plain["tflops"]) if plain and plain["verified"] else DASH]


def shapes_table(results: Results | None, stage: int) -> list[str]:
    shapes = Shapes(results, stage)
    if not shapes.rows:
        return not_measured(f"make bench ROWS={stage}@tuning,{stage}@heldout")
    notes = read_rows(results, NOTES, "shapes") or {}
    if not (isinstance(notes, dict) and all(isinstance(why, str) for why in notes.values())):
        raise Problem(f'{results.beside(NOTES)}: "shapes" must be an object of texts')
    header = ["M, N, K", "configuration"]
    for regime in REGIMES:
        header += [f"TFLOPS, {regime}", "cuBLASLt", "ratio", "plain launch"]
    header += ["why it falls short"]
    lines = []
    for name, title in LIST_NAMES.items():
        if shapes.there(name):
            lines.append([f"*{title}*"] + [""] * (len(header) - 1))
        for shape in shapes.there(name):
            rows = [row for row in (shapes.row(shape, r) for r in REGIMES) if row]
            cells = [c for regime in REGIMES for c in regime_cells(shapes, shape, regime)]
            short = any(row["verified"] and is_below(row) for row in rows)
            why = notes.get("x".join(map(str, shape)), DASH) if short else ""
            lines.append([shape_text(shape), rows[0]["configuration"], *cells, why])
    caption = (
        "Ratio: to the fastest cuBLASLt algorithm, timed in turns; ↓: below "
        f"{TARGETS[True]:.2f}, or {TARGETS[False]:.2f} where M is below {LARGE_M}. Plain launch: TFLOPS of the same "
        "configuration without programmatic dependent launch."
    )
    return [*table(header, lines, caption), "", *means_table(shapes)]


def means_table(shapes: Shapes) -> list[str]:
    header = ["geometric mean of the ratio"]
    for regime in REGIMES:
        header += [regime, "shapes", "below", f"{regime}, plain launch"]
    lines = []
    for name, title in LIST_NAMES.items():
        for large_only, which in ((False, title), (True, f"{title} with M ≥ {LARGE_M}")):
            cells = [which]
            for regime in REGIMES:
                rows = shapes.right(name, regime, large_only)
                plain = shapes.right(name, regime, large_only, plain=True)
                below = str(sum(map(is_below, rows))) if rows else DASH
                cells += [cell(geomean(rows), ".3f"), str(len(rows)), below]
                cells += [cell(geomean(plain), ".3f")]
            lines.append(cells)
    return table(header, lines)


def shapes_operand(results: Results | None, text: str) -> tuple[Any, str]:
    """(value, key) of rung.list.regime.key: key is geomean, geomean_large, lowest or below."""
    parts = text.split(".")
    keys = ("geomean", "geomean_large", "lowest", "below")
    if len(parts) != 4 or not parts[0].isdigit() or parts[3] not in keys:
        names = ", ".join(keys)
        raise Problem(f'"{text}" is neither a number nor rung.list.regime.key ({names})')
    stage, name, regime, key = parts
    if name not in LIST_NAMES or regime not in REGIMES:
        raise Problem(f'"{text}": the list is tuning or heldout, the regime burst or sustained')
    rows = Shapes(results, int(stage)).right(name, regime, large_only=key == "geomean_large")
    if not rows:
        return None, key
    if key == "lowest":
        return min(row["ratio"] for row in rows), key
    return (sum(map(is_below, rows)) if key == "below" else geomean(rows)), key


# --- the sweep -----------------------------------------------------------------------------------


def lists_of(entry: Row) -> list[str]:
    return [name for name, shapes in shape_lists.LISTS.items() if shape_of(entry) in shapes]


def judged(entries: Iterable[Row] | None, regime: str, list_name: str | None) -> list[Row]:
    """Those with a distance, of one list or of all."""
    of_regime = [entry for entry in entries or [] if entry["regime"] == regime]
    timed = [entry for entry in of_regime if entry["distance"] is not None]
    return [entry for entry in timed if list_name is None or list_name in lists_of(entry)]


def sweep_line(entry: Row) -> list[str]:
    configurations = entry["configurations"]
    best, pick = (configurations.get(entry[key], {}) for key in ("best", "pick"))
    times = [cell(pick.get("predicted_us"), ".1f"), cell(pick.get("us"), ".1f")]
    return [
        shape_text(shape_of(entry)), entry["regime"],
        entry["best"] or "FAIL", tflops(best.get("tflops")), entry["pick"],
        tflops(pick.get("tflops")), percent(entry["distance"]), " / ".join(times),
        str(entry["left_out"]),
    ]  # fmt: skip


def sweep_table(results: Results | None) -> list[str]:
    entries = read_rows(results, SWEEP, "shapes", ENTRY_KEYS)
    if not entries:
        return not_measured("make sweep")
    header = ["M, N, K", "regime", "best configuration", "TFLOPS", "pick", "TFLOPS", "off",
              "predicted / measured µs", "left out"]  # fmt: skip
    lines = []
    for name, title in LIST_NAMES.items():
        of_list = [sweep_line(entry) for entry in entries if name in lists_of(entry)]
        if of_list:
            lines += [[f"*{title}*"] + [""] * (len(header) - 1), *of_list]
    return [*table(header, lines), "", *distances_table(entries)]


def distances_table(entries: list[Row]) -> list[str]:
    header = ["how far the pick is off", "shapes", "mean", "worst", "at"]
    lines = []
    for regime in REGIMES:
        drawn = [(name, f"`{name}`") for name in shape_lists.CLASSES]
        for name, title in [*LIST_NAMES.items(), *drawn, (None, "all")]:
            found = judged(entries, regime, name)
            if not found:
                continue
            worst = max(found, key=lambda entry: entry["distance"])
            at = shape_text(shape_of(worst))
            mean = statistics.mean(entry["distance"] for entry in found)
            lines.append([f"{title}, {regime}", str(len(found)), f"{100 * mean:.2f} %",
                          percent(worst["distance"]), at])  # fmt: skip
    return table(header, lines)


def sweep_operand(results: Results | None, text: str) -> tuple[Any, str]:
    """(value, key) of regime.key or list.regime.key: key is mean, worst or shapes."""
    parts = text.split(".")
    name = parts.pop(0) if len(parts) == 3 else None
    known = name is None or name in LIST_NAMES
    if len(parts) != 2 or not known or parts[0] not in REGIMES:
        raise Problem(f'"{text}" is neither a number nor [list.]regime.key')
    regime, key = parts
    entries = read_rows(results, SWEEP, "shapes", ENTRY_KEYS)
    found = [entry["distance"] for entry in judged(entries, regime, name)]
    values: dict[str, Any] = {"mean": statistics.mean, "worst": max, "shapes": len}
    if key not in values:
        raise Problem(f'"{text}": the key must be one of {", ".join(values)}')
    return (values[key](found) if found else None), f"sweep_{key}"


FORMATS: dict[str, Callable[[float], str]] = {
    **dict.fromkeys(("geomean", "geomean_large", "lowest"), lambda v: f"{v:.3f}"),
    "below": str,
    "sweep_mean": lambda v: f"{100 * v:.2f} %",
    "sweep_worst": percent,
    "sweep_shapes": str,
}
