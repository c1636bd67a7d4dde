#!/usr/bin/env python3
"""Says where the kernels put each element. Python standard library only.

    explore.py --WHAT=swizzle [--SPAN=128] ...      as `make explore WHAT=swizzle SPAN=128` calls it

What is printed is what build/maps says, which computes it with common/tile as the kernels do.
Banks, and the bits of a descriptor, are read from those numbers.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated as A
from typing import Any, Optional, get_type_hints

from lib import maps
from lib.cli import ROOT, Problem, command, whole
from lib.maps import BANK, BANKS, CHUNK, fields

SWIZZLES = {0: "none", 1: "128 bytes", 2: "64 bytes", 3: "32 bytes"}
SMEM_BYTES = 227 * 1024


class Number:
    def __init__(self, standard: int | None, least: int, most: int) -> None:
        self.standard, self.least, self.most = standard, least, most

    def read(self, name: str, text: str) -> Any:
        value = whole(text, 0)
        if value is None:
            near = self.least if self.standard is None else self.standard
            raise Problem(f"{name}={text} is no whole number: try {name}={near}.")
        if not self.least <= value <= self.most:
            near = min(max(value, self.least), self.most)
            limits = f"from {self.least} to {self.most}"
            raise Problem(f"{name}={text}: it is {limits}; the nearest is {near}.")
        return value


class One:
    """One of a list of words or numbers, the first of them if nothing is said."""

    def __init__(self, *choices: Any) -> None:
        self.choices, self.standard = choices, choices[0]

    def read(self, name: str, text: str) -> Any:
        for choice in self.choices:
            if text.upper() == str(choice).upper():
                return choice
        listed = ", ".join(map(str, self.choices[:-1])) + f" or {self.choices[-1]}"
        near, value = self.standard, whole(text)
        if value is not None and all(isinstance(c, int) for c in self.choices):
            near = min(self.choices, key=lambda choice: abs(choice - value))
        raise Problem(f"{name}={text}: it is one of {listed}; try {name}={near}.")


class Bits:
    standard = None

    def read(self, name: str, text: str) -> Any:
        value = whole(text, 16)
        if value is None or value >= 2**64:
            near = f"{name}=0x4000004000000040"
            raise Problem(f"{name}={text} is no 64-bit number in hexadecimal: try {near}.")
        return value


# --- what build/maps says ------------------------------------------------------------------------


def ask_maps(name: str, **options: object) -> Any:
    return maps.ask(ROOT, name, options)


def passes(offsets: Iterable[int]) -> int:
    """How often shared memory must be asked for these chunks: a bank gives one word a time."""
    words = defaultdict(set)
    for offset in offsets:
        for word in range(offset // BANK, (offset + CHUNK) // BANK):
            words[word % BANKS].add(word)
    return max(len(found) for found in words.values())


def count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "es" if word.endswith("s") else "s")


def table(rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Rows of cells in columns, right-aligned but the first."""
    first, *others = (max(len(str(cell)) for cell in column) for column in zip(*rows))
    for head, *row in rows:
        cells = [str(cell).rjust(width) for cell, width in zip(row, others)]
        yield "  ".join([str(head).ljust(first), *cells]).rstrip()


def numbered(what: str, heads: Iterable[object], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """The same with the number of each row in front."""
    yield from table([[what, *heads], *([i, *row] for i, row in enumerate(rows))])


def swizzle(SPAN: A[int, One(128, 64, 32, 16)], ROWS: A[int, Number(8, 1, 64)]) -> Iterator[str]:
    offsets = ask_maps("swizzle", span=SPAN, rows=ROWS)["offsets"]
    where = {o: f"{row}.{chunk}" for o, (row, chunk) in maps.chunks_at(offsets).items()}
    how = f"swizzled with {SPAN}" if SPAN > 16 else "not swizzled"
    yield f"{ROWS} rows of {SPAN} bytes, {how}; row.chunk, a chunk is {CHUNK} bytes"
    banks = [f"{4 * i}-{4 * i + 3}" for i in range(8)]
    lines = [["offset, banks", *banks]]
    for line in range(0, max(where) // 128 * 128 + 1, 128):
        lines.append([f"+{line}", *(where.get(line + place * CHUNK, "") for place in range(8))])
    yield from table(lines)
    if ROWS >= 8:
        stored = max(map(passes, zip(*offsets[:8])))
        plain = passes([row * SPAN for row in range(8)])
        yield (
            "Eight rows of one chunk column, as ldmatrix and wgmma read them:"
            f" {count(stored, 'pass')}; without a swizzle {count(plain, 'pass')}."
        )


def decoded(bits: int | str) -> Iterator[str]:
    said = fields(bits)
    keys = ("start", "lbo", "sbo")
    start, lbo, sbo = (f"{said[key] // 16:,} = {said[key]:,} bytes" for key in keys)
    for bits_of, field, value in (
        ("bits", "field", "value"),
        ("0-13", "start address / 16", start),
        ("16-29", "leading byte offset / 16", lbo),
        ("32-45", "stride byte offset / 16", sbo),
        ("49-51", "base offset", said["base"]),
        ("62-63", "swizzle", f"{said['swizzle']} = {SWIZZLES[said['swizzle']]}"),
    ):
        yield f"{bits_of:6} {field:25} {value}"
    pattern = 8 * {0: CHUNK, 1: 128, 2: 64, 3: 32}[said["swizzle"]]
    inside = said["start"] % pattern
    if inside and said["swizzle"] and not said["base"]:
        yield (
            f"The start lies {inside:,} bytes behind a multiple of {pattern:,}, where the pattern"
            " begins: right for a step along K, if the tile begins there."
        )
    if said["start"] >= SMEM_BYTES:
        yield f"A CTA has {SMEM_BYTES:,} bytes of shared memory at most: this start lies beyond."


def descriptor(
    BITS: A[Optional[int], Bits()],
    MAJOR: A[str, One("K", "MN")],
    SPAN: A[int, One(128, 64, 32, 16)],
    BYTES: A[int, One(2, 1, 4)],
    MN: A[int, One(128, 256, 192, 64)],
    BK: A[int, One(64, 32, 128)],
    START: A[int, Number(1024, 0, SMEM_BYTES)],
) -> Iterator[str]:
    if BITS is not None:
        yield f"0x{BITS:016x}"
        yield from decoded(BITS)
        return
    if START % 1024:
        near = round(START / 1024) * 1024
        rule = f"a tile begins on a multiple of 1024 bytes; the nearest is {near}"
        raise Problem(f"START={START}: {rule}.")
    if MAJOR == "MN" and BYTES != 2:
        raise Problem(
            f"BYTES={BYTES}: wgmma reads MN-major operands of 2 bytes an element only; try BYTES=2."
        )
    along = BK if MAJOR == "K" else MN
    if along * BYTES < SPAN:
        raise Problem(
            f"SPAN={SPAN}: {along} elements of {BYTES} bytes are a row of {along * BYTES}; "
            f"try SPAN={max(s for s in (16, 32, 64, 128) if s <= along * BYTES)}."
        )
    said = ask_maps("operand", major=MAJOR, span=SPAN, bytes=BYTES, mn=MN, bk=BK, start=START)
    panels = said["bytes"] // said["panel_bytes"]
    side = "K" if MAJOR == "K" else "M or N"
    yield (
        f"{MAJOR}-major operand, {MN} x {BK} of {count(BYTES, 'byte')}: {count(panels, 'panel')} of"
        f" {said['rows']} rows; a row is {SPAN} bytes, {said['width']} elements along {side}"
    )
    yield said["steps"][0]["bits"]
    yield from decoded(said["steps"][0]["bits"])
    yield "one wgmma after the other along K:"
    for step in said["steps"]:
        yield f"  k {step['k']:3}  start + {step['offset']:6,}  {step['bits']}"


def fragment(
    OF: A[str, One("acc", "a", "b")], LANE: A[Optional[int], Number(None, 0, 31)]
) -> Iterator[str]:
    said = ask_maps("fragment")
    if LANE is not None:
        (row, col), (row8, _) = said["acc"][LANE]
        yield f"Lane {LANE} of a warp:"
        yield (
            f"  accumulator, 16 x 8 block: c0 {row},{col}  c1 {row},{col + 1}  c2 {row8},{col}  "
            f"c3 {row8},{col + 1}  (row,column)"
        )
        for of in "AB":
            row, chunk = said[f"ldmatrix_{of.lower()}"][LANE]
            k = 8 * chunk
            yield f"  ldmatrix.x4 of {of}: points at row {row}, k {k} to {k + 7}"
        yield "  wgmma: register 4j + i of the lane is its c_i in the j-th block of 8 columns"
        return
    if OF == "acc":
        grid = [[""] * 8 for _ in range(16)]
        for lane, halves in enumerate(said["acc"]):
            for half, (row, col) in enumerate(halves):
                for i in range(2):
                    grid[row][col + i] = f"{lane}:c{2 * half + i}"
        yield "Accumulator, 16 x 8 of a warp: lane:register"
        yield from numbered("row", range(8), grid)
    else:
        grid = [[""] * 2 for _ in range(16)]
        for lane, (row, chunk) in enumerate(said[f"ldmatrix_{OF}"]):
            grid[row][chunk] = lane
        operands = "two 8 x 16 B operands, rows 0 to 7 and 8 to 15"
        what = "one 16 x 16 A operand" if OF == "a" else operands
        yield f"ldmatrix.x4 for {what}: the lane that points at the 16 bytes"
        yield from numbered("row", ["k 0-7", "k 8-15"], grid)


def raster(
    M: A[int, Number(2048, 1, 1 << 20)],
    N: A[int, Number(2048, 1, 1 << 20)],
    BM: A[int, Number(128, 8, 1024)],
    BN: A[int, Number(256, 8, 1024)],
    GROUP: A[int, Number(1, 1, 1024)],
    CLUSTER: A[str, One("1x1", "2x1", "1x2", "2x2", "4x1", "1x4", "4x2", "2x4")],
    CTAS: A[int, Number(132, 1, 1024)],
) -> Iterator[str]:
    cluster_m, cluster_n = map(int, CLUSTER.split("x"))
    size = cluster_m * cluster_n
    if CTAS < size:
        raise Problem(f"CTAS={CTAS}: a cluster of {CLUSTER} has {size}; the fewest is CTAS={size}.")
    tiles_m, tiles_n = -(-M // BM), -(-N // BN)
    if tiles_m * tiles_n > 20000:
        raise Problem(
            f"M={M}, N={N}: that are {tiles_m * tiles_n:,} tiles of {BM} x {BN}, and at most 20,000"
            " are shown; try M=8192 N=8192."
        )
    of_grid = dict(tiles_m=tiles_m, tiles_n=tiles_n, group=GROUP, clusters=CTAS // size)
    ctas = ask_maps("raster", **of_grid, cluster_m=cluster_m, cluster_n=cluster_n)["ctas"]
    yield (
        f"D of {M:,} x {N:,} in {tiles_m} x {tiles_n} tiles of {BM} x {BN}, on {len(ctas)} CTAs in"
        f" clusters of {CLUSTER}, {count(GROUP, 'row')} of clusters swept together"
    )
    inside = [[t for t in visited if t[0] < tiles_m and t[1] < tiles_n] for visited in ctas]
    if tiles_m <= 24 and tiles_n <= 24:
        grid = [[""] * tiles_n for _ in range(tiles_m)]
        for cta, visited in enumerate(inside):
            for turn, (m, n) in enumerate(visited):
                grid[m][n] = f"{cta}/{turn}"
        yield "CTA/round of each tile:"
        yield from numbered("", range(tiles_n), grid)
    rounds = max(map(len, ctas))
    for turn in range(min(rounds, 2)):
        at_once = [visited[turn] for visited in ctas if turn < len(visited)]
        rows, cols = len({m for m, _ in at_once}), len({n for _, n in at_once})
        yield (
            f"round {turn}: {len(at_once)} tiles read {rows} tile rows of A and {cols} tile columns"
            f" of B: {rows * BM + cols * BN:,} rows of K elements"
        )
    last = sum(len(visited) == rounds for visited in ctas)
    yield f"{count(rounds, 'round')}; in the last one {last} of {len(ctas)} CTAs have a tile"


def multicast(
    CLUSTER: A[str, One("2x1", "1x1", "1x2", "2x2", "4x1", "1x4", "4x2", "2x4")],
    BM: A[int, Number(128, 8, 1024)],
    BN: A[int, Number(256, 8, 1024)],
) -> Iterator[str]:
    cluster_m, cluster_n = map(int, CLUSTER.split("x"))
    cluster = dict(tiles_m=cluster_m, tiles_n=cluster_n, cluster_m=cluster_m, cluster_n=cluster_n)
    ctas = ask_maps("raster", clusters=1, **cluster)["ctas"]
    tiles = [visited[0] for visited in ctas]
    if BM % cluster_n or BN % cluster_m or BM // cluster_n % 8 or BN // cluster_m % 8:
        raise Problem(
            f"CLUSTER={CLUSTER}, BM={BM}, BN={BN}: each CTA loads BM / {cluster_n} rows of A and BN"
            f" / {cluster_m} of B, multiples of 8; try BM=128 BN=256."
        )
    yield f"Cluster of {CLUSTER} CTAs with tiles of {BM} x {BN}: who loads which rows, for whom"
    rows: list[list[object]] = [
        ["CTA", "tile", "rows of A", "for CTAs", "mask", "rows of B", "for CTAs", "mask"]
    ]
    for rank, (m, n) in enumerate(tiles):
        row: list[object] = [rank, f"{m},{n}"]
        for side, size in ((0, BM), (1, BN)):
            mine = (m, n)[side]
            sharers = [r for r, tile in enumerate(tiles) if tile[side] == mine]
            part = size // len(sharers)
            first = mine * size + sharers.index(rank) * part
            mask = sum(1 << r for r in sharers)
            row += [f"{first}-{first + part - 1}", " ".join(map(str, sharers)), f"0x{mask:x}"]
        rows.append(row)
    yield from table(rows)
    alone, shared = BM + BN, BM // cluster_n + BN // cluster_m
    less = f"A CTA asks L2 for {shared} rows a step instead of {alone}"
    yield f"{less}; its full barrier counts the bytes of all {alone}."


def ring(DEPTH: A[int, Number(4, 1, 16)], STEPS: A[int, Number(12, 1, 64)]) -> Iterator[str]:
    states = ask_maps("ring", depth=DEPTH, steps=STEPS)
    rows: list[list[object]] = [
        ["k tile", "slot", "consumer waits full, parity", "producer waits empty, parity", "returns"]
    ]
    for step, state in enumerate(states):
        when = "at once" if step < DEPTH else f"after {step - DEPTH} is released"
        rows.append([step, state["slot"], state["parity"], state["parity"] ^ 1, when])
    yield from table(rows)


def shares(
    TILES: A[int, Number(6, 1, 999)],
    STEPS_EACH: A[int, Number(8, 1, 999)],
    CLUSTERS: A[int, Number(4, 1, 999)],
    SHARE: A[str, One("all", "none", "last", "cut")],
) -> Iterator[str]:
    said = ask_maps("shares", share=SHARE, tiles=TILES, k_tiles=STEPS_EACH, clusters=CLUSTERS)
    tiles = f"{count(TILES, 'tile')} of {count(STEPS_EACH, 'K step')}"
    yield f"{tiles} on {count(CLUSTERS, 'cluster')}; {said['whole']} taken whole"
    for cluster, pieces in enumerate(said["clusters"]):
        words = [f"tile {tile} steps {first}-{first + steps - 1}" for tile, first, steps in pieces]
        yield f"cluster {cluster}: {sum(piece[2] for piece in pieces)} steps: {', '.join(words)}"


def box(WARP: A[int, Number(0, 0, 3)]) -> Iterator[str]:
    lanes = ask_maps("box", warp=WARP)["lanes"]
    what = f"stages 16 rows of 64 columns with {len(lanes[0])} stmatrix.x4"
    yield f"Warp {WARP} of a consumer {what}; byte offsets in the box"
    offsets = [[store["offset"] for store in stores] for stores in lanes]
    yield from numbered("lane", [f"stmatrix {i}" for i in range(len(lanes[0]))], offsets)
    worst = max(
        passes(of_lanes)
        for first in range(0, 32, 8)
        for of_lanes in zip(*offsets[first : first + 8])
    )
    yield f"Eight lanes at a time, as one 8 x 8 matrix: {count(worst, 'pass')} at most."


MAPS: tuple[Callable[..., Iterator[str]], ...] = (
    swizzle, descriptor, fragment, raster, multicast, ring, shares, box,
)  # fmt: skip
WHATS = {function.__name__: function for function in MAPS}


def explore(arguments: list[str]) -> list[str]:
    """Lines for words KEY=VALUE, of which one is WHAT."""
    given: dict[str, str] = {}
    for name, _, value in (word.partition("=") for word in arguments):
        if name in given:
            raise Problem(f"{name} is given more than once, as {value} too; give it once.")
        given[name] = value
    what = given.pop("WHAT", None)
    listed = ", ".join(WHATS)
    if what is None:
        example = "make explore WHAT=swizzle"
        raise Problem(f"Say what to explore, such as {example}; there are {listed}.")
    if what not in WHATS:
        raise Problem(f"WHAT={what}: there is no such map; there are {listed}.")
    hints = get_type_hints(WHATS[what], include_extras=True)
    options = {name: hint.__metadata__[0] for name, hint in hints.items() if name != "return"}
    for name in given:
        if name not in options:
            taken = ", ".join(options)
            raise Problem(f"{name}={given[name]}: make explore WHAT={what} takes {taken}.")
    values = {
        name: option.read(name, given[name]) if name in given else option.standard
        for name, option in options.items()
    }
    return list(WHATS[what](**values))


@command("explore")
def main(arguments: list[str]) -> int:
    if not all(word.startswith("--") and "=" in word for word in arguments):
        raise Problem("Options are --NAME=VALUE, such as --WHAT=swizzle --SPAN=128.")
    print("\n".join(explore([word[2:] for word in arguments])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
