"""The tables and numbers of what the GPU can do at most, and where the rungs are below it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lib.cli import Problem
from lib.markdown import DASH, not_measured, percent, row_cells, table, tflops
from lib.results import Results, Row, check_rows, read, value_of
from lib.rows import REGIMES

SUFFIX = ".limits.json"
HEAD_KEYS = ("gpu", "driver", "toolkit", "sms", "revision", "date", "tiles", "limits")
ROW_KEYS = ("name", "what", "group", "data", "regime", "unit", "verified")
TILE_KEYS = ("stage", "variant", "bm", "bn", "instruction", "smem_read_per_flop", "kernel_hash")
NOT_MEASURED = not_measured("make limits")


class Limits:
    """A file of limits."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self.head = document
        self.rows: list[Row] = document["limits"]

    def find(self, name: str, regime: str) -> Row | None:
        """The row; None if it was not measured or is wrong."""
        rows = (row for row in self.rows if row["verified"])
        return next((r for r in rows if (r["name"], r["regime"]) == (name, regime)), None)

    def highest(self, group: str, regime: str, key: str) -> float | None:
        """The largest of a group's values; None if there is none."""
        rows = [row for row in self.rows if (row["group"], row["regime"]) == (group, regime)]
        return max((row[key] for row in rows if row.get(key) is not None), default=None)

    def multiplier(self, instruction: str, regime: str) -> Row | None:
        """The row of what multiplies: of a wgmma whose N was not measured, the next smaller one."""
        match = re.fullmatch(r"wgmma n(\d+)", instruction)
        if not match:
            return self.find(instruction.replace(".", "_"), regime)
        widths = {}
        for row in self.rows:
            width = re.fullmatch(r"wgmma_n(\d+)", row["name"])
            if width and row["regime"] == regime and row["verified"]:
                widths[int(width.group(1))] = row
        smaller = [n for n in widths if n <= int(match.group(1))]
        return widths[max(smaller) if smaller else min(widths)] if widths else None

    def tile(self, row: Row) -> dict[str, Any] | None:
        """What is known of the kernel that gave a row of results; None if it has changed since."""
        variant = row.get("configuration") or row["variant"]
        for tile in self.head["tiles"]:
            if (tile["stage"], tile["variant"]) == (row["stage"], variant):
                return tile if tile["kernel_hash"] == row.get("kernel_hash") else None
        return None


def load(results: Results | None) -> Limits | None:
    """The limits beside the results; None if there are none."""
    path = results.beside(SUFFIX) if results else None
    if path is None or not path.exists():
        return None
    document = read(path, HEAD_KEYS, ROW_KEYS, "limits", ("value", "per_clock", "sm_mhz"))
    check_rows(path, document, TILE_KEYS, "tiles")
    return Limits(path, document)


# --- the ceilings --------------------------------------------------------------------------------


def rate(row: Row) -> str:
    return tflops(row["value"]) if row["unit"] == "TFLOPS" else f"{row['value']:.2f}"


def per_clock(row: Row) -> str:
    return format(row["per_clock"], ".0f" if row["unit"] == "TFLOPS" else ".1f")


def limits_table(results: Results | None) -> list[str]:
    limits = load(results)
    if limits is None:
        return NOT_MEASURED
    header = ["limit", "what", "data", "unit"]
    for regime in REGIMES:
        header += [regime, "a clock and SM", "SM MHz"]
    lines = []
    for name in dict.fromkeys(row["name"] for row in limits.rows):
        of_name = {row["regime"]: row for row in limits.rows if row["name"] == name}
        one = next(iter(of_name.values()))
        unit = "TFLOPS, FLOP" if one["unit"] == "TFLOPS" else "TB/s, bytes"
        cells = [f"`{name}`", one["what"], one["data"], unit]
        for regime in REGIMES:
            cells += row_cells(of_name.get(regime), 3, lambda row: [
                rate(row), per_clock(row), f"{row['sm_mhz']:.0f}"])  # fmt: skip
        lines.append(cells)
    head = limits.head
    caption = (
        f"On one {head['gpu']}, driver {head['driver']}, CUDA {head['toolkit']}, {head['date']}, "
        f"revision {head['revision'][:7]}. Medians of five rounds. Bytes are those that arrive."
    )
    return table(header, lines, caption)


def chips_table(results: Results | None, other: Results | None) -> list[str]:
    """The ceilings of another chip beside those of the tables' own, in burst."""
    here, there = load(results), load(other)
    if here is None or there is None:
        return NOT_MEASURED
    header = ["limit", "unit"]
    for limits in (there, here):
        header += [limits.path.name.removesuffix(SUFFIX).upper(), "a clock and SM"]
    lines = []
    for row in there.rows:
        mine = here.find(row["name"], "burst")
        if row["regime"] != "burst" or not row["verified"]:
            continue
        cells = [f"`{row['name']}`", "TFLOPS, FLOP" if row["unit"] == "TFLOPS" else "TB/s, bytes"]
        for one in (row, mine):
            cells += [rate(one), per_clock(one)] if one else [DASH] * 2
        lines.append([*cells, f"{row['per_clock'] / mine['per_clock']:.2f}" if mine else DASH])
    head = there.head
    caption = (
        f"Burst. {head['gpu']}: {head['date']}, revision {head['revision'][:7]}. The last column is the "
        "ratio of the two a clock and SM."
    )
    return table([*header, "ratio"], lines, caption)


NAMED = re.compile(rf"[a-z]\w*\.(?:{'|'.join(REGIMES)})\.\w+")


def operand(results: Results | None, text: str) -> tuple[Any, str]:
    """(value, key) of NAME.REGIME.KEY."""
    parts = text.split(".")
    if len(parts) != 3 or parts[1] not in REGIMES:
        raise Problem(f'"{text}" is neither a number nor limit.regime.key')
    name, regime, key = parts
    limits = load(results)
    if limits is None:
        return None, key
    rows = [row for row in limits.rows if row["name"] == name]
    if not rows:
        names = dict.fromkeys(row["name"] for row in limits.rows)
        raise Problem(f'"{text}": there is no limit "{name}", only {", ".join(names)}')
    row = next((row for row in rows if row["regime"] == regime), None)
    if row and key == "value":
        return value_of(row, key, text)[0], "tflops" if row["unit"] == "TFLOPS" else "tbps"
    return value_of(row, key, text)


FORMATS: dict[str, Callable[[float], str]] = {
    "tbps": lambda v: f"{v:.2f}",
    "per_clock": lambda v: format(v, ".0f" if v >= 1000 else ".1f"),
    "l2_read_per_clock": lambda v: f"{v:.1f}",
}


# --- where a rung is below them ------------------------------------------------------------------

RESOURCES = {  # name: (in a cell, its column, format of a value)
    "multiply": ("", "FLOP", ".0f"),  # in a cell the instruction
    "smem": ("shared memory", "shared memory, B", ".1f"),
    "l2": ("L2→SM", "L2→SM, TB/s", ".1f"),
    "l2_read": ("L2 reads", "L2 reads, TB/s", ".1f"),
    "dram": ("DRAM", "DRAM, TB/s", ".2f"),
}


class Use:
    """What a row of results takes of each resource, and what there is of it."""

    def __init__(self, limits: Limits, counters: Results | None, row: Row) -> None:
        regime, sms = row["regime"], limits.head["sms"]
        flop = 2 * row["m"] * row["n"] * row["k"]
        clocks = row["sm_mhz"] * 1e6 * flop / (row["tflops"] * 1e12)  # of each SM
        self.row, self.tile = row, limits.tile(row)
        self.alone = None  # the limit of what it multiplies with
        self.flop_per_byte: dict[str, float] = {}  # of smem, l2 and dram
        self.flop_per_clock = flop / (clocks * sms)  # a clock and SM
        self.of: dict[str, tuple[float, float]] = {}  # resource -> (use, ceiling)
        counted = counters.find(row["stage"], row["variant"], row["m"]) if counters else None
        if counted and counted.get("kernel_hash") != row.get("kernel_hash"):
            counted = None

        def take(
            resource: str, bytes_: float, ceiling: float | None, a_second: bool = False
        ) -> None:
            if not ceiling:
                return
            seconds = flop / (row["tflops"] * 1e12)
            use = bytes_ * 1e-12 / seconds if a_second else bytes_ / (clocks * sms)
            self.of[resource] = (use, ceiling)
            self.flop_per_byte[resource] = flop / bytes_

        if self.tile:
            tile = self.tile
            self.alone = limits.multiplier(tile["instruction"], regime)
            if self.alone:
                self.of["multiply"] = (self.flop_per_clock, self.alone["per_clock"])
            # (BM + BN) · BK elements of 2 bytes for 2 · BM · BN · BK FLOP
            arriving = flop * (tile["bm"] + tile["bn"]) / (tile["bm"] * tile["bn"])
            if tile["smem_read_per_flop"] is not None:
                moved = arriving + flop * tile["smem_read_per_flop"]
                take("smem", moved, limits.highest("smem", regime, "per_clock"))
            take("l2", arriving, limits.highest("l2", regime, "value"), a_second=True)
        if counted:
            read = limits.highest("l2", regime, "l2_read_value")
            take("l2_read", counted["l2_read_bytes"], read, a_second=True)
            moved = counted["dram_read_bytes"] + counted["dram_write_bytes"]
            take("dram", moved, limits.highest("dram", regime, "value"), a_second=True)

    def share(self, resource: str) -> float:
        use, ceiling = self.of[resource]
        return use / ceiling

    def binding(self) -> str | None:
        """The resource of which the largest share is used; None if nothing is known."""
        return max(self.of, key=self.share, default=None)

    def cell(self, resource: str) -> str:
        if resource not in self.of:
            return DASH
        _, _, spec = RESOURCES[resource]
        use, ceiling = self.of[resource]
        text = f"{use:{spec}} of {ceiling:{spec}}"
        return f"**{text}**" if resource == self.binding() else text

    def binding_cell(self) -> str:
        resource = self.binding()
        if resource is None:
            return DASH
        name, _, _ = RESOURCES[resource]
        if resource == "multiply" and self.tile:
            name = f"`{self.tile['instruction'].replace(' n', ', N = ')}`"
        return f"{name}, {percent(self.share(resource))}"


def use_of(
    limits: Limits, results: Results, stage: int, variant: str, size: int, regime: str
) -> Use | None:
    row = results.find(stage, variant, size, regime)
    if row is None or not row["verified"] or row.get("sm_mhz") is None:
        return None
    return Use(limits, results.counters, row)


def ceilings_table(results: Results | None, stage: int) -> list[str]:
    """Every variant of a rung, at the size of its details."""
    named = []
    for variant in results.variants(stage) if results else []:
        is_result = results.of_variant(stage, variant)[0]["result"]
        named.append((f"**{variant}**" if is_result else variant, stage, variant))
    return table_of_uses(results, "variant", named)


def rungs_table(results: Results | None, numbers: list[int]) -> list[str]:
    """The result variant of every rung, likewise."""
    rows = {number: results.any_row(number, "result") for number in numbers} if results else {}
    named = [(f"{n} `{row['variant']}`", n, "result") for n, row in rows.items() if row]
    return table_of_uses(results, "rung", named)


def table_of_uses(
    results: Results | None, what: str, named: list[tuple[str, int, str]]
) -> list[str]:
    """named: [(label, rung, variant)]"""
    limits = load(results)
    if results is None or limits is None:
        return NOT_MEASURED
    header = [what, *(title for _, title, _ in RESOURCES.values())]
    header += ["closest ceiling", "of the instruction alone, burst / sustained"]
    lines: list[list[str]] = []
    sizes: dict[str, int] = {}
    changed = False
    not_alone: set[str] = set()  # such instructions as were not measured by themselves
    for label, stage, variant in named:
        size = results.detail_size(stage) or 0
        uses = [use_of(limits, results, stage, variant, size, regime) for regime in REGIMES]
        if uses == [None, None]:
            continue
        burst = uses[0]
        cells = [burst.cell(one) if burst else DASH for one in RESOURCES]
        cells += [burst.binding_cell() if burst else DASH]
        # The share of what the instruction does alone, with the clock that it has alone.
        shares = [u.row["tflops"] / u.alone["value"] if u and u.alone else None for u in uses]
        cells += [" / ".join(map(percent, shares))]
        lines.append([label] + cells)
        sizes[label] = size
        changed |= any(use and use.tile is None for use in uses)
        for use in uses:
            if use and use.tile and use.alone and use.tile["instruction"].startswith("wgmma n"):
                if use.alone["name"] != use.tile["instruction"].replace(" ", "_"):
                    not_alone.add(f"`{use.tile['instruction'].replace(' n', ', N = ')}`")
    if not lines:
        return not_measured("make bench")
    usual = max(sizes.values())
    others = [f"{label} at {size}³" for label, size in sizes.items() if size != usual]
    caption = (
        f"At {', '.join([f'{usual}³'] + others)}, burst. *X of Y*: what it takes of what there is, a "
        "clock and SM at its own clock, of L2 and DRAM a second; bold: the largest share. FLOP, shared "
        "memory and L2→SM are derived from the tile, L2 reads and DRAM are counted."
    )
    if not_alone:
        caption += f" Not measured alone: {', '.join(sorted(not_alone))}; there the FLOP ceiling is "
        caption += "that of the next narrower one that was."
    if changed:
        caption += " A kernel has changed since its tile was written down: "
        caption += "`python3 scripts/limits.py --tiles`."
    return table(header, lines, caption)
