"""The tables and numbers of what chooses: what a rung's chooser reaches at many shapes, and how far
stage 0's picks are from the best of a sweep. For tables.py."""

import json
import statistics

from lib import shape_lists
from lib.rows import REGIMES
from cells import DASH, cell, markdown, percent, tflops

SWEEP = ".sweep.json"
CHOOSER = (0, "best")  # whose picks a sweep judges
NOTES = ".notes.json"
LIST_NAMES = {"tuning": "tuning shapes", "heldout": "held-out shapes"}
LARGE_M = 1024
TARGETS = {True: 1.00, False: 0.95}  # of the ratio, by whether M is at least LARGE_M
NOT_SWEPT = "*Not measured yet: `make sweep` on a Hopper GPU fills this in.*"


def load(path, suffix, key):
    """What stands under `key` in the file beside the results; None if there is no such file."""
    path = path.with_suffix(suffix)
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))[key]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f'{path}: must be a JSON object with the key "{key}"')


def shape_text(shape):
    return f"{shape[0]}³" if len(set(shape)) == 1 else ", ".join(map(str, shape))


# --- at many shapes ------------------------------------------------------------------------------


class Shapes:
    """Rows of a rung's chooser, and of the variant that chooses as it does and launches plainly."""

    def __init__(self, results, stage):
        self.rows = {}  # (shape, regime, whether plain) -> row
        for row in results.rows if results else []:
            if row["stage"] == stage and row.get("configuration"):
                shape = (row["m"], row["n"], row["k"])
                self.rows[shape, row["regime"], not row["result"]] = row

    def row(self, shape, regime, plain=False):
        return self.rows.get((shape, regime, plain))

    def there(self, list_name):
        """The shapes of a list that were measured."""
        return [
            shape
            for shape in shape_lists.LISTS[list_name]
            if any(self.row(shape, regime) for regime in REGIMES)
        ]

    def right(self, list_name, regime, large_only=False, plain=False):
        rows = (self.row(shape, regime, plain) for shape in shape_lists.LISTS[list_name])
        return [
            row for row in rows
            if row and row["verified"] and (row["m"] >= LARGE_M or not large_only)
        ]  # fmt: skip


def is_below(row):
    return row["ratio"] < TARGETS[row["m"] >= LARGE_M]


def geomean(rows):
    ratios = [row["ratio"] for row in rows]
    return statistics.geometric_mean(ratios) if ratios else None


def regime_cells(shapes, shape, regime):
    row, plain = shapes.row(shape, regime), shapes.row(shape, regime, plain=True)
    if row is None:
        cells = [DASH] * 3
    elif not row["verified"]:
        cells = ["FAIL"] * 3
    else:
        ratio = f"{row['ratio']:.3f}"
        cells = [
            tflops(row["tflops"]),
            tflops(row["baseline_tflops"]),
            f"**{ratio}** ↓" if is_below(row) else ratio,
        ]
    return cells + [tflops(plain["tflops"]) if plain and plain["verified"] else DASH]


def shapes_table(results, stage):
    shapes = Shapes(results, stage)
    if not shapes.rows:
        command = f"make bench ROWS={stage}@tuning,{stage}@heldout"
        return [f"*Not measured yet: `{command}` on a Hopper GPU fills this in.*"]
    notes = load(results.path, NOTES, "shapes") or {}
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
            cells = sum((regime_cells(shapes, shape, regime) for regime in REGIMES), [])
            short = any(row["verified"] and is_below(row) for row in rows)
            why = notes.get("x".join(map(str, shape)), DASH) if short else ""
            lines.append([shape_text(shape), rows[0]["configuration"], *cells, why])
    caption = (
        "Ratio: to the fastest cuBLASLt algorithm, timed in turns; ↓: below "
        f"{TARGETS[True]:.2f}, or {TARGETS[False]:.2f} where M is below {LARGE_M}. Plain launch: TFLOPS of the same "
        "configuration without programmatic dependent launch."
    )
    return markdown(header, lines) + ["", caption, ""] + means_table(shapes)


def means_table(shapes):
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
    return markdown(header, lines)


def shapes_operand(results, text):
    """(value, key) of rung.list.regime.key: key is geomean, geomean_large, lowest or below."""
    parts = text.split(".")
    keys = ("geomean", "geomean_large", "lowest", "below")
    if len(parts) != 4 or not parts[0].isdigit() or parts[3] not in keys:
        names = ", ".join(keys)
        raise ValueError(f'"{text}" is neither a number nor rung.list.regime.key ({names})')
    stage, name, regime, key = parts
    if name not in LIST_NAMES or regime not in REGIMES:
        raise ValueError(f'"{text}": the list is tuning or heldout, the regime burst or sustained')
    rows = Shapes(results, int(stage)).right(name, regime, large_only=key == "geomean_large")
    if not rows:
        return None, key
    if key == "lowest":
        return min(row["ratio"] for row in rows), key
    return (sum(map(is_below, rows)) if key == "below" else geomean(rows)), key


# --- the sweep -----------------------------------------------------------------------------------


def lists_of(entry):
    shape = (entry["m"], entry["n"], entry["k"])
    return [name for name, of_list in shape_lists.LISTS.items() if shape in of_list]


def judged(entries, regime, list_name=None):
    return [
        entry for entry in entries or []
        if entry["regime"] == regime
        and entry["distance"] is not None
        and (list_name is None or list_name in lists_of(entry))
    ]  # fmt: skip


def sweep_line(entry):
    configurations = entry["configurations"]
    best, pick = (configurations.get(entry[key], {}) for key in ("best", "pick"))
    times = [cell(pick.get("predicted_us"), ".1f"), cell(pick.get("us"), ".1f")]
    return [
        shape_text((entry["m"], entry["n"], entry["k"])), entry["regime"],
        entry["best"] or "FAIL", tflops(best.get("tflops")), entry["pick"],
        tflops(pick.get("tflops")), percent(entry["distance"]), " / ".join(times),
        str(entry["left_out"]),
    ]  # fmt: skip


def sweep_table(results):
    entries = load(results.path, SWEEP, "shapes") if results else None
    if not entries:
        return [NOT_SWEPT]
    header = ["M, N, K", "regime", "best configuration", "TFLOPS", "pick", "TFLOPS", "off",
              "predicted / measured µs", "left out"]  # fmt: skip
    lines = []
    for name, title in LIST_NAMES.items():
        of_list = [sweep_line(entry) for entry in entries if name in lists_of(entry)]
        if of_list:
            lines += [[f"*{title}*"] + [""] * (len(header) - 1), *of_list]
    return markdown(header, lines) + ["", *distances_table(entries)]


def distances_table(entries):
    header = ["how far the pick is off", "shapes", "mean", "worst", "at"]
    lines = []
    for regime in REGIMES:
        for name, title in [*LIST_NAMES.items(), (None, "all")]:
            found = judged(entries, regime, name)
            if not found:
                continue
            worst = max(found, key=lambda entry: entry["distance"])
            at = shape_text((worst["m"], worst["n"], worst["k"]))
            mean = statistics.mean(entry["distance"] for entry in found)
            lines.append([f"{title}, {regime}", str(len(found)), f"{100 * mean:.2f} %",
                          percent(worst["distance"]), at])  # fmt: skip
    return markdown(header, lines)


def sweep_operand(results, text):
    """(value, key) of regime.key or list.regime.key: key is mean, worst or shapes."""
    parts = text.split(".")
    name = parts.pop(0) if len(parts) == 3 else None
    known = name is None or name in LIST_NAMES
    if len(parts) != 2 or not known or parts[0] not in REGIMES:
        raise ValueError(f'"{text}" is neither a number nor [list.]regime.key')
    regime, key = parts
    entries = load(results.path, SWEEP, "shapes") if results else None
    found = [entry["distance"] for entry in judged(entries, regime, name)]
    values = {"mean": statistics.mean, "worst": max, "shapes": len}
    if key not in values:
        raise ValueError(f'"{text}": the key must be one of {", ".join(values)}')
    return (values[key](found) if found else None), f"sweep_{key}"


FORMATS = {
    "geomean": lambda v: f"{v:.3f}",
    "geomean_large": lambda v: f"{v:.3f}",
    "lowest": lambda v: f"{v:.3f}",
    "below": str,
    "sweep_mean": lambda v: f"{100 * v:.2f} %",
    "sweep_worst": percent,
    "sweep_shapes": str,
}
