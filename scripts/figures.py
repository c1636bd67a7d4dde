#!/usr/bin/env python3
"""Draws the figures of the pages into docs/img. Python standard library only.

    figures.py          draws them
    figures.py --check  draws nothing; 1 if a figure is not what would be drawn

Where an element goes is asked of build/maps, which computes it with common/tile as the kernels do;
how many arrivals a barrier waits for is read from the stage file; tiles and depths come from
build/ladder --list; timelines from docs/results. So a figure that no longer is what the code does
is found by drawing it again.
"""

import argparse
import functools
import json
import re
import subprocess
import sys
import tempfile
import trace
from pathlib import Path

from lib import maps, registry
from lib.cli import Problem
from lib.maps import BANK, CHUNK, fields
from lib.svg import Drawing
from lib.timeline_svg import cut, draw_row

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("docs/img")
WIDTH = 860
MB = 1 << 20


# --- what the code says --------------------------------------------------------------------------


class Code:
    """Index maps, variants and barriers of a tree."""

    def __init__(self, root):
        self.root = root

    @functools.lru_cache(maxsize=None)
    def read_map(self, name, options):
        return maps.ask(self.root, name, dict(options))

    def map(self, name, **options):
        return self.read_map(name, tuple(options.items()))

    @functools.lru_cache(maxsize=None)
    def rung(self, number, variant=None):
        """The row of a rung's variant, or of the one that stands for it."""
        rows = [row for row in self.rows() if row["stage"] == number]
        return next(r for r in rows if (r["variant"] == variant if variant else r["result"]))

    @functools.lru_cache(maxsize=None)
    def rows(self):
        return registry.read(self.root / "build/ladder")

    @functools.lru_cache(maxsize=None)
    def barriers(self, number):
        """{name: arrivals that it waits for} of a rung's mbarriers, by its variant that stands for
        it."""
        [path] = (self.root / "stages").glob(f"{number:02}_*.cu")
        row = self.rung(number)
        known = {
            "T::CONSUMERS": (row["threads"] - 128) // 128,
            "T::CLUSTER": row["cluster_m"] * row["cluster_n"],
        }
        found = {}
        for name, count in re.findall(
            r"ptx::mbarrier_init\(&smem\.(\w+)\[\w+\], ([^)]+)\)", path.read_text(encoding="utf-8")
        ):
            total = 1
            for factor in count.split(" * "):
                total *= known[factor] if factor in known else int(factor)
            found[name] = total
        return found

    def constant(self, path, name):
        """A constant that a file gives as a number."""
        text = (self.root / path).read_text(encoding="utf-8")
        found = re.search(rf"constexpr int {name} = (\d+);", text)
        if found is None:
            raise Problem(f"{path} has no constant {name}, or it is no number")
        return int(found.group(1))


def colour(index):
    return f"c{index % 8}"


# --- rung 1: reuse -------------------------------------------------------------------------------


def reuse(code):
    row = code.rung(1)
    bm, bn, bk = row["bm"], row["bn"], row["bk"]
    d = Drawing(WIDTH, 372, "Which rows of A and B one tile of D needs")
    scale, m_tiles, n_tiles, k_steps = 52, 4, 5, 6
    left, top = 290, 134
    chosen_m, chosen_n = 1, 3
    a_left = left - 24 - k_steps * 22
    for i in range(m_tiles):
        for j in range(n_tiles):
            kind = "c0" if (i, j) == (chosen_m, chosen_n) else "none"
            d.cell(kind, left + j * scale, top + i * scale, scale - 2, scale - 2)
    y, x = top + chosen_m * scale, left + chosen_n * scale
    d.text(f"{bm} x {bn}", x + scale / 2 - 1, y + scale / 2 + 3, "middle")
    for i in range(m_tiles):
        for k in range(k_steps):
            kind = ("c2" if k == 2 else "c5") if i == chosen_m else "none"
            d.cell(kind, a_left + k * 22, top + i * scale, 20, scale - 2)
    b_top = top - 20 - k_steps * 16
    for j in range(n_tiles):
        for k in range(k_steps):
            kind = ("c2" if k == 2 else "c5") if j == chosen_n else "none"
            d.cell(kind, left + j * scale, b_top + k * 16, scale - 2, 14)
    d.text("A, M x K", a_left, top + m_tiles * scale + 14, kind="")
    d.text("D, M x N", left, top + m_tiles * scale + 14, kind="")
    d.text("B, its rows drawn as columns", left - 10, b_top + 10, "end", "")
    d.text("K runs down", left - 10, b_top + 26, "end", "small muted")
    d.text("K runs to the right", a_left, top - 8, kind="small muted")
    side = left + n_tiles * scale + 26
    lines = [
        ("One CTA has one tile of D.", ""),
        (f"A step takes {bk} of K: the green slices,", "small"),
        (f"{bm} x {bk} of A and {bn} x {bk} of B.", "small"),
        ("They lie in shared memory, so that a value of", "small"),
        (f"A is loaded once and used {bn} times, by all", "small"),
        (f"columns of the tile, and one of B {bm} times.", "small"),
        (f"FLOP a step: 2 x {bm} x {bn} x {bk} = {2 * bm * bn * bk:,}", "small"),
        (f"bytes of bf16: ({bm} + {bn}) x {bk} x 2 = {(bm + bn) * bk * 2:,}", "small"),
        (f"{2 * bm * bn * bk / ((bm + bn) * bk * 2):.0f} FLOP a byte of global memory", "small"),
    ]
    for index, (words, kind) in enumerate(lines):
        d.text(words, side, top + 14 + 18 * index, kind=kind)
    return d


# --- rung 2: fragments and banks -----------------------------------------------------------------


def mma_fragments(code):
    fragment = code.map("fragment")
    d = Drawing(WIDTH, 400, "Which lane holds or points at what, for mma.sync.m16n8k16")
    top, high = 64, 18
    # A: lanes that give the addresses of ldmatrix.x4
    x = 40
    d.text("A, 16 x 16", x, 24, kind="title")
    d.text("ldmatrix.x4: the lane that", x, 40)
    d.text("points at these 16 bytes", x, 53)
    for lane, (row, chunk) in enumerate(fragment["ldmatrix_a"]):
        d.cell(colour(lane // 8), x + chunk * 70, top + row * high, 69, high - 1, f"lane {lane}")
    for row in range(16):
        d.text(row, x - 6, top + row * high + 12, "end", "small muted")
    d.text("k 0–7", x + 35, top + 16 * high + 13, "middle", "small muted")
    d.text("k 8–15", x + 105, top + 16 * high + 13, "middle", "small muted")
    # B
    x = 240
    d.text("B, two of 8 x 16", x, 24, kind="title")
    d.text("the same: rows 0 to 7 feed one", x, 40)
    d.text("mma.sync, rows 8 to 15 the next", x, 53)
    for lane, (row, chunk) in enumerate(fragment["ldmatrix_b"]):
        d.cell(colour(lane // 8), x + chunk * 70, top + row * high, 69, high - 1, f"lane {lane}")
    for row in range(16):
        d.text(row, x - 6, top + row * high + 12, "end", "small muted")
    d.text("k 0–7", x + 35, top + 16 * high + 13, "middle", "small muted")
    d.text("k 8–15", x + 105, top + 16 * high + 13, "middle", "small muted")
    # accumulator
    x = 456
    d.text("Accumulator, 16 x 8", x, 24, kind="title")
    d.text("lane, and which of its four registers", x, 40)
    d.text("has this element", x, 53)
    for lane, halves in enumerate(fragment["acc"]):
        for half, (row, col) in enumerate(halves):
            for next_one in range(2):
                d.cell(
                    colour(lane % 4 + 4 * half),
                    x + (col + next_one) * 46,
                    top + row * high,
                    45,
                    high - 1,
                    f"{lane} c{2 * half + next_one}",
                )
    for row in range(16):
        d.text(row, x - 6, top + row * high + 12, "end", "small muted")
    for col in range(8):
        d.text(col, x + col * 46 + 22, top + 16 * high + 13, "middle", "small muted")
    d.text(
        "Colours: left and middle the four 8 x 8 matrices, of which each goes to one register;"
        " right the lane in its group of four, above and below.",
        40,
        388,
        kind="small muted",
    )
    return d


def banks(code):
    swizzled = code.map("swizzle", span=128, rows=8)["offsets"]
    layouts = [
        ("plain, rows of 128 bytes", [[r * 128 + c * CHUNK for c in range(8)] for r in range(8)]),
        ("padded, rows of 144 bytes", [[r * 144 + c * CHUNK for c in range(8)] for r in range(8)]),
        ("swizzled", swizzled),
    ]
    d = Drawing(WIDTH, 296, "Where eight rows of eight chunks lie in the 32 banks")
    wide, high, top, chosen = 31, 22, 66, 2
    for index, (name, offsets) in enumerate(layouts):
        left = 30 + index * 283
        d.text(name, left, 24, kind="title")
        places = [[None] * 8 for _ in range(9)]
        for row, chunks in enumerate(offsets):
            for chunk, offset in enumerate(chunks):
                line, place = divmod(offset // CHUNK, 8)
                places[line][place] = (row, chunk)
        for place in range(8):
            d.text(place * 4, left + place * wide + wide / 2, top - 6, "middle", "small muted")
        for line, found in enumerate(places):
            for place, element in enumerate(found):
                if element is None:
                    continue
                row, chunk = element
                x, y = left + place * wide, top + line * high
                kind = colour(row) if chunk == chosen else "none"
                d.cell(kind, x, y, wide - 1, high - 1, f"{row}·{chunk}")
        used = {offsets[row][chosen] // CHUNK % 8 for row in range(8)}
        passes = max(
            sum(offsets[row][chosen] // CHUNK % 8 == place for row in range(8)) for place in used
        )
        d.text(
            f"the coloured column: {passes} {'pass' if passes == 1 else 'passes'}",
            left,
            top + 9 * high + 16,
            kind="",
        )
    d.text(
        "Above: the first of four banks. In a cell: row·chunk, 16 bytes. ldmatrix reads eight rows"
        " of one chunk column at a time (coloured), and a bank gives 4 bytes a pass.",
        30,
        44,
        kind="small muted",
    )
    return d


# --- rings and phases ----------------------------------------------------------------------------


def ring(code):
    depth = code.rung(3)["depth"]
    steps = 10
    states = code.map("ring", depth=depth, steps=steps)
    d = Drawing(
        WIDTH, 116 + 58 * depth, f"Which k tile lies in which of {depth} slots, step by step"
    )
    left, wide, top, high = 92, 74, 64, 46
    for step in range(steps):
        d.text(f"step {step}", left + step * wide + wide / 2, top - 10, "middle", "small muted")
    d.text(
        f"depth {depth}: while a step multiplies its tile, copies of the next {depth - 1} are"
        " under way",
        left,
        24,
        kind="title",
    )
    for slot in range(depth):
        y = top + slot * (high + 8)
        d.text(f"slot {slot}", left - 10, y + high / 2 + 4, "end", "")
        d.rect("frame", left, y, steps * wide, high)
    for k_tile, state in enumerate(states):
        y = top + state["slot"] * (high + 8)
        begin = k_tile - (depth - 1)
        for step in range(max(0, begin), k_tile + 1):
            x = left + step * wide
            if step < k_tile:
                d.cell(colour(k_tile), x + 1, y + 4, wide - 2, high - 26, f"copy {k_tile}")
            else:
                d.cell(colour(k_tile), x + 1, y + 20, wide - 2, high - 22, f"multiply {k_tile}")
    d.text(
        "A slot is written again in the step after it was multiplied: that is what the bar.sync"
        " between them is for.",
        left,
        top + depth * (high + 8) + 16,
        kind="small muted",
    )
    return d


def phases(code, number, with_empty):
    row = code.rung(number)
    depth, laps = row["depth"], 3
    steps = depth * laps
    states = code.map("ring", depth=depth, steps=steps)
    lines = 7 if with_empty else 4
    d = Drawing(WIDTH, 92 + 30 * lines + 20, "Slots, phases and parities of a ring, lap by lap")
    left, top, high = 214, 62, 26
    wide = (WIDTH - left - 14) / steps
    d.text(f"{depth} slots, three laps", 14, 24, kind="title")
    labels = ["k tile", "slot", "phase of full[slot] awaited", "parity given to the wait"]
    if with_empty:
        labels += ["phase of empty[slot] awaited", "parity given to the wait", "the wait returns"]
    for index, words in enumerate(labels):
        y = top + index * 30 + (6 if index >= 4 else 0)
        who = "consumer: " if index in (2, 3) else "producer: " if index >= 4 else ""
        d.text(who + words, left - 8, y + 17, "end")
    for step, state in enumerate(states):
        lap, x = step // depth, left + step * wide
        if step % depth == 0:
            d.text(f"lap {lap}", x + depth * wide / 2, top - 8, "middle", "small muted")
        shade = colour(state["slot"])
        parity = state["parity"]
        values = [step, state["slot"], lap, parity]
        if with_empty:
            values += [
                "before 0" if lap == 0 else lap - 1,
                parity ^ 1,
                "at once" if lap == 0 else f"after {step - depth}",
            ]
        for index, value in enumerate(values):
            y = top + index * 30 + (6 if index >= 4 else 0)
            is_parity = index in (3, 5)
            kind = ("c0" if value else "none") if is_parity else shade
            d.cell(kind, x + 1, y, wide - 2, high, value)
    bottom = top + lines * 30 + 22
    words = "The wait for parity p returns once the phase of that parity has completed. "
    words += (
        "A fresh barrier is in phase 0: the phase before it, of parity 1, counts as completed."
        if with_empty
        else "Phase n of a barrier has parity n % 2: it flips once a lap."
    )
    d.text(words, 14, bottom, kind="small muted")
    return d


# --- barriers ------------------------------------------------------------------------------------


def expect(code, number, names):
    """The rung's barriers; refuses if they are not the ones that the figure shows."""
    found = code.barriers(number)
    if set(found) != set(names):
        raise Problem(
            f"rung {number} has the barriers {', '.join(found)}; the figure shows"
            f" {', '.join(names)}"
        )
    return found


def arrivals(count):
    return f"{count} arrival" + ("s" if count != 1 else "")


def barriers_04(code):
    full = expect(code, 4, ["full"])["full"]
    row = code.rung(4)
    d = Drawing(WIDTH, 240, "Barriers of rung 4")
    d.box(30, 70, 170, 80, ["thread 0", "starts the copies", "of the next tile"])
    d.box(345, 70, 170, 80, [f"{row['depth']} slots", "A and B in", "shared memory"])
    d.box(660, 70, 170, 80, [f"all {row['threads'] // 32} warps", "ldmatrix, mma.sync"])
    d.arrow("blue", [(200, 95), (345, 95)])
    d.text("TMA copies", 272, 88, "middle")
    d.arrow("green", [(515, 95), (660, 95)])
    d.text("full[slot]", 587, 88, "middle")
    d.text(f"{arrivals(full)}, and bytes", 587, 112, "middle", "small muted")
    d.arrow("gray", [(745, 150), (745, 200), (115, 200), (115, 150)])
    d.text(
        "fence.proxy.async, then bar.sync: every warp has read the slot, it may be written again",
        430,
        192,
        "middle",
    )
    d.text(
        "Blue: data. Green: an mbarrier. Gray: a barrier of all threads.",
        30,
        228,
        kind="small muted",
    )
    return d


def barriers_06(code):
    found = expect(code, 6, ["full", "empty"])
    row = code.rung(6)
    d = Drawing(WIDTH, 270, "Barriers of rung 6")
    d.box(30, 84, 170, 90, ["producer", "one thread of", "warp 0"])
    d.box(345, 84, 170, 90, [f"{row['depth']} slots", "A and B in", "shared memory"])
    d.box(660, 50, 170, 64, ["consumer 0", "rows 0 to 63"])
    d.box(660, 144, 170, 64, ["consumer 1", "rows 64 to 127"])
    d.arrow("blue", [(200, 129), (345, 129)])
    d.text("TMA copies", 272, 122, "middle")
    d.arrow("green", [(515, 115), (630, 115), (630, 82), (660, 82)])
    d.arrow("green", [(515, 143), (630, 143), (630, 176), (660, 176)])
    d.text("full[slot]", 522, 108)
    d.text(f"{arrivals(found['full'])}, and bytes", 522, 158, kind="small muted")
    d.arrow("orange", [(830, 82), (846, 82), (846, 236), (115, 236), (115, 174)])
    d.path("line-orange", [(830, 176), (846, 176)])
    d.text(
        f"empty[slot]: {arrivals(found['empty'])}, one of each warp of both consumers, when its"
        " wgmma has read the slot",
        430,
        228,
        "middle",
    )
    d.text("Nobody else waits: no bar.sync in the loop.", 30, 262, kind="small muted")
    return d


def barriers_08(code):
    found = expect(code, 8, ["full", "empty"])
    d = Drawing(WIDTH, 330, "Barriers of rung 8, a cluster of two CTAs")
    for rank, top in ((0, 40), (1, 186)):
        d.text(f"CTA {rank}", 18, top - 10, kind="title")
        d.box(30, top, 150, 76, ["producer", "one thread"])
        d.box(370, top, 130, 76, ["slots", f"of CTA {rank}"])
        d.box(690, top, 140, 76, ["consumers", "8 warps"])
        d.arrow("green", [(500, top + 24), (690, top + 24)])
        d.text(f"full: {arrivals(found['full'])}, and bytes", 595, top + 17, "middle")
    d.arrow("blue", [(180, 64), (370, 64)])
    d.arrow("blue", [(180, 210), (370, 210)])
    d.arrow("purple", [(180, 92), (300, 92), (340, 238), (370, 238)])
    d.arrow("purple", [(180, 238), (300, 238), (340, 92), (370, 92)])
    d.text("its rows of A", 188, 57)
    d.text("its rows of A", 188, 203)
    d.text("half of B, to both", 188, 108)
    d.text("half of B, to both", 188, 254)
    d.arrow("orange", [(760, 116), (760, 150), (105, 150), (105, 116)])
    d.arrow("orange", [(760, 262), (760, 292), (105, 292), (105, 262)])
    d.arrow("orange", [(730, 186), (730, 150)])
    d.path("line-orange", [(830, 90), (846, 90), (846, 292), (760, 292)])
    d.text(
        f"empty: {arrivals(found['empty'])}, of the warps of both CTAs, as a copy lands in both",
        372,
        143,
    )
    d.text(f"empty: {arrivals(found['empty'])}, the same", 372, 285)
    d.text(
        "At the end barrier.cluster: no CTA goes while the other can still write or arrive there.",
        30,
        318,
        kind="small muted",
    )
    return d


def barriers_09(code):
    found = expect(code, 9, ["full", "empty", "staged", "stored"])
    d = Drawing(WIDTH, 300, "Barriers of rung 9")
    d.box(30, 50, 130, 70, ["producer", "warp 0"])
    d.box(300, 50, 130, 70, ["slots", "A and B"])
    d.box(600, 50, 130, 70, ["consumer i", "wgmma, stmatrix"])
    d.box(600, 190, 130, 70, ["boxes of D", "shared memory"])
    d.box(300, 190, 130, 70, ["storer i", "warp 1 + i"])
    d.box(30, 190, 130, 70, ["D", "global memory"])
    d.arrow("blue", [(160, 72), (300, 72)])
    d.text("TMA load", 230, 66, "middle")
    d.arrow("green", [(430, 72), (600, 72)])
    d.text(f"full: {arrivals(found['full'])}, bytes", 515, 66, "middle")
    d.arrow("orange", [(600, 104), (515, 104), (515, 136), (95, 136), (95, 120)])
    d.text(f"empty: {arrivals(found['empty'])}, of both CTAs' warps", 290, 130, "middle")
    d.arrow("blue", [(650, 120), (650, 190)])
    d.text("results, rounded", 642, 158, "end")
    d.arrow("orange", [(600, 210), (430, 210)])
    d.text(f"staged: {arrivals(found['staged'])}, of its warps", 515, 204, "middle")
    d.arrow("green", [(430, 242), (500, 242), (500, 282), (786, 282), (786, 85), (730, 85)])
    d.text(f"stored: {arrivals(found['stored'])}", 780, 150, "end")
    d.text("boxes are read", 780, 166, "end", "small muted")
    d.arrow("blue", [(300, 225), (160, 225)])
    d.text("TMA store", 230, 218, "middle")
    d.text("While boxes leave, the consumer multiplies its next tile.", 30, 290, kind="small muted")
    return d


def barriers_10(code):
    found = expect(code, 10, ["full", "empty", "turn", "staged", "stored"])
    d = Drawing(WIDTH, 310, "Barriers of rung 10")
    d.box(30, 110, 130, 76, ["producer", "tile after tile"])
    d.box(250, 110, 110, 76, ["slots", "A and B"])
    d.box(500, 36, 150, 76, ["consumer 0", "tiles 0, 2, 4, …"])
    d.box(500, 186, 150, 76, ["consumer 1", "tiles 1, 3, 5, …"])
    d.arrow("blue", [(160, 148), (250, 148)])
    d.text("TMA load", 205, 141, "middle")
    d.arrow("green", [(360, 130), (420, 130), (420, 74), (500, 74)])
    d.arrow("green", [(360, 166), (420, 166), (420, 224), (500, 224)])
    d.text(f"full: {arrivals(found['full'])}, bytes", 412, 104, "end")
    d.arrow("orange", [(500, 50), (95, 50), (95, 110)])
    d.arrow("orange", [(500, 248), (95, 248), (95, 186)])
    d.text(
        f"empty: {arrivals(found['empty'])}, of the warps of one consumer of each CTA",
        292,
        43,
        "middle",
    )
    d.arrow("red", [(550, 112), (550, 186)])
    d.arrow("red", [(600, 186), (600, 112)])
    for line, words in enumerate(
        (
            f"turn: {arrivals(found['turn'])}, one of each",
            "warp of the other, when its last",
            "products are started",
        )
    ):
        d.text(words, 612, 138 + 14 * line)
    for top in (36, 186):
        d.box(740, top, 100, 76, ["storer", "TMA store"])
        d.arrow("orange", [(650, top + 26), (740, top + 26)])
        d.text(f"staged: {found['staged']}", 695, top + 20, "middle")
        d.arrow("green", [(740, top + 56), (650, top + 56)])
        d.text(f"stored: {found['stored']}", 695, top + 70, "middle")
    d.text(
        "The tensor cores change hands at the turn: one consumer rounds and stages while the other"
        " multiplies.",
        30,
        296,
        kind="small muted",
    )
    return d


# --- rung 5: the atom and the accumulator --------------------------------------------------------


def swizzle_atom(code):
    offsets = code.map("swizzle", span=128, rows=16)["offsets"]
    operand = code.map("operand", major="K", span=128, mn=64, bk=64, start=1024)
    head = fields(operand["steps"][0]["bits"])
    step = fields(operand["steps"][1]["bits"])["start"] - head["start"]
    d = Drawing(WIDTH, 470, "The 128-byte swizzle, and what a descriptor says of it")
    wide, high, top = 36, 17, 84
    where = {}
    for row, chunks in enumerate(offsets):
        for chunk, offset in enumerate(chunks):
            where[offset] = (row, chunk)
    left = 40
    d.text("The matrix: row r, chunk c", left, 24, kind="title")
    d.text("64 elements of K, 16 bytes a chunk", left, 42)
    for row in range(16):
        for chunk in range(8):
            y = top + row * high + (10 if row >= 8 else 0)
            d.cell(colour(chunk), left + chunk * wide, y, wide - 1, high - 1, f"{row}·{chunk}")
        d.text(row, left - 6, top + row * high + 12 + (10 if row >= 8 else 0), "end", "small muted")
    for chunk in range(8):
        d.text(f"c {chunk}", left + chunk * wide + wide / 2, top - 6, "middle", "small muted")
    left = 430
    d.text("Shared memory: where it lies", left, 24, kind="title")
    d.text("banks", left, 42)
    for place in range(8):
        d.text(
            f"{place * 4}–{place * 4 + 3}",
            left + place * wide + wide / 2,
            top - 6,
            "middle",
            "small muted",
        )
    for offset, (row, chunk) in where.items():
        line, place = divmod(offset // CHUNK, 8)
        y = top + line * high + (10 if line >= 8 else 0)
        d.cell(colour(chunk), left + place * wide, y, wide - 1, high - 1, f"{row}·{chunk}")
    for line in range(16):
        y = top + line * high + 12 + (10 if line >= 8 else 0)
        d.text(f"+{line * 128}", left - 5, y, "end", "small muted")
    # the two chunk columns of the first wgmma of a slot
    first = [c for c in range(8) if c * CHUNK < step]
    d.rect("frame", 40 + first[0] * wide - 1, top - 1, len(first) * wide, 8 * high)
    right = left + 8 * wide + 8
    sbo = head["sbo"]
    lines = sbo // 128
    y0, y1 = top + 4, top + lines * high + 14
    d.arrow("ink", [(right, y0), (right + 14, y0), (right + 14, y1), (right, y1)])
    d.text(f"SBO {sbo:,}:", right + 20, (y0 + y1) / 2 - 8)
    d.text("eight rows on", right + 20, (y0 + y1) / 2 + 6)
    d.text(f"start {head['start']:,}", right + 20, y0 + 6)
    d.text("next atom", right + 20, y1 + 4)
    bottom = top + 16 * high + 34
    notes = [
        (
            f"Descriptor {operand['steps'][0]['bits']}: start {head['start']:,}, LBO {head['lbo']},"
            f" SBO {sbo:,}, swizzle {head['swizzle']} (128 bytes), base offset {head['base']}."
        ),
        (
            f"The next 16 of K: start + {step} bytes, {operand['steps'][1]['bits']}. The framed two"
            " columns are the first 16."
        ),
        (
            "wgmma swizzles the address that it computes, bits 4 to 6 with bits 7 to 9, so moving"
            " the start by 32 bytes works although the chunks do not lie in a row."
        ),
        (
            "A chunk column of eight rows, one colour on the left, has all 32 banks on the right:"
            " no conflict."
        ),
        (
            f"A box of TMA with more rows goes on below, {sbo:,} bytes an atom; the next box, 64"
            " further along K, is a tile of its own."
        ),
    ]
    for index, words in enumerate(notes):
        d.text(words, 16, bottom + 18 * index)
    return d


def wgmma_fragment(code):
    fragment = code.map("fragment")
    d = Drawing(WIDTH, 400, "Which thread holds which element of a wgmma accumulator")
    left, top, high = 60, 70, 62
    d.text("64 x N of a warpgroup", left - 40, 24, kind="title")
    d.text("blocks of 16 x 8; in each, the register", left - 40, 42)
    blocks = 4
    for warp in range(4):
        y = top + warp * (high + 4)
        d.text(f"warp {warp}", left - 6, y + high / 2 - 3, "end")
        d.text(f"{16 * warp}–{16 * warp + 15}", left - 6, y + high / 2 + 11, "end", "small muted")
        for block in range(blocks):
            x = left + block * 62
            d.cell(colour(warp), x, y, 60, high, f"{4 * block}–{4 * block + 3}")
    d.text("… N / 8 blocks", left + blocks * 62 + 4, top + high / 2 + 4)
    for block in range(blocks):
        d.text(
            f"{8 * block}–{8 * block + 7}", left + block * 62 + 30, top - 6, "middle", "small muted"
        )
    x0, top2, cell_w, cell_h = 470, 70, 45, 17
    d.text("One block, of warp 0", x0, 24, kind="title")
    d.text("lane, and its register 4j + i of block j: i", x0, 42)
    for lane, halves in enumerate(fragment["acc"]):
        for half, (row, col) in enumerate(halves):
            for next_one in range(2):
                d.cell(
                    colour(lane % 4 + 4 * half),
                    x0 + (col + next_one) * cell_w,
                    top2 + row * cell_h,
                    cell_w - 1,
                    cell_h - 1,
                    f"{lane} +{2 * half + next_one}",
                )
    for row in range(16):
        d.text(row, x0 - 6, top2 + row * cell_h + 12, "end", "small muted")
    for col in range(8):
        d.text(col, x0 + col * cell_w + 22, top2 + 16 * cell_h + 13, "middle", "small muted")
    lane = 5
    (row, col), (row8, _) = fragment["acc"][lane]
    d.text(
        f"Lane {lane} of a warp has rows {row} and {row8} of the warp's 16, and of each block"
        f" columns {col} and {col + 1}: a row of D is spread over four lanes.",
        20,
        384,
    )
    return d


# --- rungs 7, 8: raster and clusters -------------------------------------------------------------


def raster(code):
    gpu = code.map("gpu")
    row = code.rung(7)
    bm, bn, size = row["bm"], row["bn"], 8192
    tiles_m, tiles_n = size // bm, size // bn
    d = Drawing(WIDTH, 454, "Which tiles of D run at the same time, row by row and grouped")
    group16 = 16
    if f"group{group16}" != row["variant"]:
        raise Problem(f"rung 7's result is {row['variant']}, the figure shows group{group16}")
    wide, high, top = 9, 5, 106
    for index, (name, group) in enumerate(
        (("row by row", 1), (f"{group16} tile rows swept together", group16))
    ):
        left = 70 + index * 420
        shape = {"tiles_m": tiles_m, "tiles_n": tiles_n, "clusters": gpu["sms"]}
        ctas = code.map("raster", group=group, **shape)["ctas"]
        rounds = [[cta[i] for cta in ctas if i < len(cta)] for i in range(2)]
        d.text(name, left - 40, 24, kind="title")
        turn = {tuple(t): i for i in (1, 0) for t in rounds[i]}
        for m in range(tiles_m):
            for n in range(tiles_n):
                kind = {0: "blue", 1: "orange"}.get(turn.get((m, n)), "none")
                d.rect(kind, left + n * wide, top + m * high, wide - 1, high - 1)
        (rows, cols), (next_rows, next_cols) = (
            ({m for m, _ in tiles}, {n for _, n in tiles}) for tiles in rounds
        )
        for m in rows:
            d.rect("blue", left - 14, top + m * high, 8, high - 1)
        for n in cols:
            d.rect("blue", left + n * wide, top - 14, wide - 1, 8)
        d.text("A", left - 20, top + 10, "end")
        d.text("B", left - 6, top - 6, "end")

        def megabytes(some_rows, some_cols):
            return f"{(len(some_rows) * bm + len(some_cols) * bn) * size * 2 / MB:.0f} MB"

        d.text(
            f"first round: {len(rows)} rows of tiles of A, {len(cols)} columns of B:", left - 40, 44
        )
        d.text(
            f"({len(rows)} x {bm} + {len(cols)} x {bn}) x {size:,} x 2 bytes ="
            f" {megabytes(rows, cols)}",
            left - 40,
            60,
        )
        again = megabytes(rows & next_rows, cols & next_cols)
        d.text(
            f"of these the next round reads {again} again; L2 holds {gpu['l2_bytes'] / MB:.0f} MB",
            left - 40,
            76,
        )
    d.text(
        f"D of {size:,} x {size:,} in tiles of {bm} x {bn}. Blue: the first {gpu['sms']} tiles, one"
        " an SM, and what they read of A and B. Orange: the next.",
        30,
        446,
        kind="small muted",
    )
    return d


def multicast(code):
    row = code.rung(8)
    bm, bn, bk = row["bm"], row["bn"], row["bk"]
    cluster_m, cluster_n = row["cluster_m"], row["cluster_n"]
    ctas = code.map(
        "raster",
        tiles_m=cluster_m,
        tiles_n=cluster_n,
        clusters=1,
        cluster_m=cluster_m,
        cluster_n=cluster_n,
    )["ctas"]
    count = len(ctas)
    if (cluster_m, cluster_n) != (2, 1):
        raise Problem(
            f"rung 8's result is a cluster of {cluster_m}x{cluster_n}, the figure shows 2x1"
        )
    slice_b = bn // cluster_m
    d = Drawing(WIDTH, 330, "Who loads what in a cluster of two CTAs")
    # D and operands
    left, top, tile_h, tile_w = 110, 120, 70, 150
    d.text("B", left + tile_w / 2, 44, "middle", "title")
    for i in range(count):
        d.cell(("c4", "c5")[i], left + i * tile_w / 2, 54, tile_w / 2 - 2, 50, f"{slice_b} rows")
    for rank, visited in enumerate(ctas):
        ((m, n),) = visited
        y, x = top + m * (tile_h + 4), left + n * tile_w
        d.cell(("c0", "c2")[rank], x, y, tile_w - 2, tile_h, f"tile of CTA {rank}: {bm} x {bn}")
        d.cell(("c0", "c2")[rank], 30, y, 66, tile_h, f"{bm} rows")
    d.text("A", 63, top - 10, "middle", "title")
    d.text("Both tiles need the same rows of B.", 30, top + 2 * tile_h + 34)
    # who loads
    x0 = 350
    d.text("A step of K, by CTA", x0, 24, kind="title")
    for rank in range(count):
        y = 60 + rank * 120
        d.box(x0, y, 120, 80, [f"CTA {rank}", "producer"])
        d.cell(("c0", "c2")[rank], 660, y, 84, 80, "A")
        d.cell("c4", 746, y, 46, 80, "B")
        d.cell("c5", 794, y, 46, 80, "B")
        d.text(f"slot of CTA {rank}", 750, y - 6, "middle", "small muted")
        d.arrow(("blue", "green")[rank], [(x0 + 120, y + 14), (660, y + 14)])
        d.text(f"{bm} x {bk} of A: {bm * bk * 2 // 1024} KB", x0 + 130, y + 8)
    d.arrow("purple", [(470, 120), (612, 120), (612, 106), (660, 106)])
    d.arrow("purple", [(612, 120), (612, 226), (660, 226)])
    d.text(f"{slice_b} x {bk} of B:", 476, 136)
    d.text(f"{slice_b * bk * 2 // 1024} KB, to both", 476, 149)
    d.arrow("orange", [(470, 246), (636, 246), (636, 252), (660, 252)])
    d.arrow("orange", [(636, 246), (636, 132), (660, 132)])
    d.text(f"{slice_b * bk * 2 // 1024} KB of B, to both", 476, 262)
    alone, shared = (bm + bn) * bk * 2, (bm + slice_b) * bk * 2
    d.text(
        f"A CTA asks L2 for {shared // 1024} KB a step instead of {alone // 1024} KB, and still"
        f" gets {alone // 1024} KB: what its full barrier counts.",
        x0,
        308,
    )
    return d


# --- rung 9: the store box -----------------------------------------------------------------------


def store_box(code):
    lanes = code.map("box", warp=0)["lanes"]
    d = Drawing(WIDTH, 420, "Where stmatrix puts a warp's 16 rows in the box that TMA stores")
    wide, high, top = 44, 18, 84
    swizzled = code.map("swizzle", span=128, rows=64)["offsets"]
    where = {
        offset: (row, chunk)
        for row, chunks in enumerate(swizzled)
        for chunk, offset in enumerate(chunks)
    }
    left = 40
    d.text("The warp's rows of D", left, 24, kind="title")
    d.text("64 columns; colour: which stmatrix; number: the lane", left, 42)
    d.text("that points at these 8 columns of the row", left, 56)
    right = 460
    d.text("The box in shared memory", right, 24, kind="title")
    d.text("rows of 128 bytes, swizzled as TMA will read them", right, 42)
    for lane, stores in enumerate(lanes):
        for index, store in enumerate(stores):
            row, chunk = where[store["offset"]]
            d.cell(colour(index), left + chunk * wide, top + row * high, wide - 1, high - 1, lane)
            line, place = divmod(store["offset"] // CHUNK, 8)
            d.cell(colour(index), right + place * wide, top + line * high, wide - 1, high - 1, lane)
    for row in range(16):
        d.text(row, left - 6, top + row * high + 12, "end", "small muted")
        d.text(f"+{row * 128}", right - 6, top + row * high + 12, "end", "small muted")
    for chunk in range(8):
        d.text(
            f"{chunk * 8}–{chunk * 8 + 7}",
            left + chunk * wide + wide / 2,
            top - 6,
            "middle",
            "small muted",
        )
        d.text(
            f"{chunk * 4}–{chunk * 4 + 3}",
            right + chunk * wide + wide / 2,
            top - 6,
            "middle",
            "small muted",
        )
    d.text(
        "Above the box: banks. Eight lanes of one stmatrix, such as 0 to 7 of one colour, lie in"
        " eight places: all 32 banks once, no conflict.",
        16,
        398,
    )
    return d


# --- rungs 11, 12: shapes and shares -------------------------------------------------------------


def rounds(code):
    sms = code.map("gpu")["sms"]
    m, n = 4096, 2112  # the worked example of page 11
    d = Drawing(WIDTH, 470, "How full the rounds of tiles are, by the size of the tile")
    d.text(
        f"D of {m:,} x {n:,} on {sms} SMs: rounds of tiles, by the tile's size",
        20,
        24,
        kind="title",
    )
    chosen = [c for c in code.map("configurations") if c["cluster"] == 1]
    left, top, high, scale = 110, 62, 19, 88
    for index, config in enumerate(chosen):
        bm, bn = config["bm"], config["bn"]
        tiles = -(-m // bm) * -(-n // bn)
        full, rest = divmod(tiles, sms)
        count = full + (rest > 0)
        # A round takes as long as its tile is large: widths are elements of D a round.
        unit = scale * bm * bn / (128 * 256)
        y = top + index * high
        d.text(config["name"], left - 8, y + 13, "end")
        for i in range(full):
            d.rect("c0", left + i * unit, y, unit - 1, high - 3)
        if rest:
            d.rect("none", left + full * unit, y, unit - 1, high - 3)
            d.rect(
                "c1",
                left + full * unit,
                y + (high - 3) * (1 - rest / sms),
                unit - 1,
                (high - 3) * rest / sms,
            )
        share = m * n / (count * sms * bm * bn)
        end = left + count * unit
        d.text(f"{count} rounds, {100 * share:.0f} % of what {sms} SMs could do", end + 8, y + 13)
    least = left + m * n / sms / (128 * 256) * scale
    bottom = top + len(chosen) * high
    d.line("line-red dashed", least, top - 6, least, bottom + 4)
    d.text("if nothing were lost", least, top - 12, "middle")
    d.text(
        "A bar is one round of tiles, as wide as its tile is large. Orange: the last round, as high"
        " as SMs have a tile.",
        20,
        bottom + 24,
        kind="small muted",
    )
    d.text(
        "Larger tiles read less for each FLOP, smaller ones waste less in the last round: the cost"
        " model weighs both.",
        20,
        bottom + 40,
        kind="small muted",
    )
    d.height = bottom + 52
    return d


def shares(code):
    panels = [
        ("none", 6, 8, 4, "whole tiles"),
        ("last", 6, 8, 4, "the last round shared"),
        ("all", 6, 8, 4, "stream-K: all tiles shared"),
        ("cut", 2, 8, 4, "few tiles, each cut"),
    ]
    d = Drawing(WIDTH, 372, "Which K steps of which tile each cluster takes")
    step, high = 17, 24
    for index, (share, tiles, k_tiles, clusters, name) in enumerate(panels):
        left, top = 78 + index % 2 * 410, 70 + index // 2 * 164
        found = code.map("shares", share=share, tiles=tiles, k_tiles=k_tiles, clusters=clusters)[
            "clusters"
        ]
        longest = max(sum(piece[2] for piece in pieces) for pieces in found)
        d.text(f"{name}: {tiles} tiles of {k_tiles} steps", left - 66, top - 26, kind="title")
        d.text(f"{longest} steps long", left - 66, top - 10, kind="small muted")
        for cluster, pieces in enumerate(found):
            y, x = top + cluster * high, left
            d.text(f"cluster {cluster}", left - 8, y + 15, "end")
            for tile, first, steps in pieces:
                words = (
                    f"tile {tile}" if steps == k_tiles else f"{tile}: {first}–{first + steps - 1}"
                )
                d.cell(colour(tile), x, y, steps * step - 1, high - 3, words)
                x += steps * step
    d.text(
        "A bar is a K step. Where clusters have parts of one tile, one of them adds up the others'"
        " partial sums.",
        12,
        364,
        kind="small muted",
    )
    return d


# --- rung 13: majors -----------------------------------------------------------------------------


def majors(code):
    mn, bk = 128, 64
    d = Drawing(WIDTH, 440, "A tile of an operand, K-major and MN-major")
    for index, major in enumerate(("K", "MN")):
        found = code.map("operand", major=major, span=128, bytes=2, mn=mn, bk=bk, start=1024)
        first, second = (fields(found["steps"][i]["bits"]) for i in (0, 1))
        left, top = 60 + index * 420, 110
        panels = found["bytes"] // found["panel_bytes"]
        atoms = found["panel_bytes"] // first["sbo"]
        wide, high = 118, 15
        d.text(f"{major}-major, {mn} x {bk} of bf16", left - 40, 24, kind="title")
        along = "K" if major == "K" else "M or N"
        d.text(
            f"{panels} panel{'s' if panels > 1 else ''} of {found['rows']} rows; a row:"
            f" {found['width']} elements along {along}",
            left - 40,
            44,
        )
        d.text(
            f"LBO {first['lbo']:,}, SBO {first['sbo']:,}, swizzle {first['swizzle']} (128 bytes)",
            left - 40,
            60,
        )
        move = second["start"] - first["start"]
        d.text(f"the next 16 of K: start + {move:,}", left - 40, 76)
        for panel in range(panels):
            x = left + panel * (wide + 26)
            d.text(f"+{panel * found['panel_bytes']:,}", x, top - 6, kind="small muted")
            for atom in range(atoms):
                y = top + atom * (high + 3)
                d.rect("none", x, y, wide, high)
                if major == "K":
                    for k in range(bk // 16):
                        part = wide * found["steps"][k]["offset"] / 128
                        if atom < 8:
                            d.cell(
                                colour(k),
                                x + part,
                                y,
                                wide * move / 128 - 1,
                                high,
                                f"k {k * 16}" if atom == 0 else "",
                            )
                else:
                    k = atom * 8 // 16
                    d.cell(colour(k), x, y, wide, high, f"k {atom * 8}–{atom * 8 + 7}")
                if major == "K" and panel == 0:
                    d.text(atom * 8, x - 6, y + 11, "end", "small muted")
        if major == "K":
            d.text("M, N", left - 6, top - 6, "end", "small muted")
            d.text("64 rows, one wgmma's", left + wide + 14, top + 66)
            d.text("A, are eight atoms", left + wide + 14, top + 80)
            d.line("line-ink", left + wide + 6, top, left + wide + 6, top + 8 * (high + 3) - 3)
        else:
            d.text(
                f"{found['width']} of M or N",
                left + wide / 2,
                top + atoms * (high + 3) + 12,
                "middle",
                "small muted",
            )
            d.text(
                f"the next {found['width']}: + LBO",
                left + wide + 26 + wide / 2,
                top + atoms * (high + 3) + 12,
                "middle",
                "small muted",
            )
    d.text(
        "A block is an atom: eight rows of 128 bytes, 1,024 bytes. Colours: the 16 of K that one"
        " wgmma takes.",
        20,
        430,
        kind="small muted",
    )
    return d


# --- rung 14: scales -----------------------------------------------------------------------------


def scales(code):
    row = code.rung(14, "e4m3_128x192")
    bm, bn, block = row["bm"], row["bn"], code.constant("common/host/quantize.h", "SCALE_BLOCK")
    tiles, k_blocks, step, chosen = 3, 4, 2, 1
    columns, n0 = tiles * bn, chosen * bn
    d = Drawing(WIDTH, 378, "The scales of a tile of D, in one step")
    left, top, cell = 220, 152, 24  # of D; of a block of K
    a_left, b_top = left - 28 - k_blocks * cell, top - 24 - k_blocks * cell
    high, strip = bm, 8
    # B, K down: a scale for each block of columns and of K.
    for b in range(-(-columns // block)):
        wide = min(block, columns - b * block)
        for k in range(k_blocks):
            used = k == step and b * block < n0 + bn and n0 < b * block + wide
            d.cell(colour(b) if used else "none", left + b * block, b_top + k * cell, wide - 1,
                   cell - 1, f"[{b}][{k}]")  # fmt: skip
    d.text(f"scale_b: one for {block} columns and {block} of K", left, b_top - 10)
    # A, K to the right: a scale for each row and block of K.
    for k in range(k_blocks):
        for r in range(high // strip):
            kind = "c5" if k == step else "none"
            d.rect(kind, a_left + k * cell, top + r * strip, cell - 1, strip - 1)
    d.text("scale_a: one for each row", a_left, top + high + 16)
    d.text(f"and {block} of K", a_left, top + high + 30)
    # D: tiles, the chosen one by the scales of B of its columns.
    for t in range(tiles):
        if t != chosen:
            d.cell("none", left + t * bn, top, bn - 1, high - 1, f"tile {t}")
    first, start = n0 // block, n0
    while start < n0 + bn:
        end = min((start // block + 1) * block, n0 + bn)
        d.cell(colour(start // block), left + start, top, end - start - 1, high - 1,
               f"{end - start} columns")  # fmt: skip
        start = end
    boundary = (first + 1) * block - n0
    at = left + n0 + boundary
    d.line("line-ink thick", at - 0.5, top - 8, at - 0.5, top + high + 8)
    d.text(f"boundary: column {boundary} of tile {chosen}", at + 6, top + high + 16)
    d.line("line-ink dashed", a_left, top + 83, left + n0 + bn, top + 83)
    d.text("row m", a_left - 6, top + 87, "end", "small muted")
    d.text(f"Step {step}: of {block} of K the tensor cores have summed A · Bᵀ. A sum in a row m of the"
           " tile,", 20, 334)  # fmt: skip
    d.text(f"left of the boundary, is multiplied by scale_a[{step}][m] · scale_b[{first}][{step}],"
           f" right of it by scale_a[{step}][m] · scale_b[{first + 1}][{step}].", 20, 350)  # fmt: skip
    d.text(f"Tile {chosen} of {row['variant']}, columns {n0} to {n0 + bn - 1}.", 20, 370,
           kind="small muted")  # fmt: skip
    return d


# --- rung 15: packed weights ----------------------------------------------------------------------

PIECE_WORDS, PACKING_THREADS, LANE_SHOWN = 4, 128, 5


def packed(code):
    places = {bits: code.map("packed", bits=bits)["places"] for bits in (4, 8)}
    d = Drawing(WIDTH, 452, "Where the weights of a thread lie")
    # The fragment: which lane wants which weight.
    left, top, wide, high = 40, 68, 23, 18
    d.text("16 rows of W, 16 of K, for one wgmma", left, 24, kind="title")
    d.text("each number is the lane of the warp that has the weight", left, 40)
    shown = {}  # (bits, word of the piece, shift) -> (row, k, colour) of the lane that is shown
    for bits in (4, 8):
        for row in range(16):
            for k in range(len(places[bits][row])):
                place = places[bits][row][k]
                piece, thread = divmod(place["word"] // PIECE_WORDS, PACKING_THREADS)
                ours = thread == LANE_SHOWN and piece == 0
                kind = colour(row // 8 + k % 16 // 8 * 2) if ours else "none"
                if ours:
                    shown[bits, place["word"] % PIECE_WORDS, place["shift"]] = (row, k, kind)
                if bits == 4 and k < 16:
                    d.cell(kind, left + k * wide, top + row * high, wide - 1, high - 1, thread)
    for i in range(16):
        d.text(i, left - 6, top + i * high + 12, "end", "small muted")
        d.text(i, left + i * wide + wide / 2, top + 16 * high + 12, "middle", "small muted")
    # The thread's 16 bytes, in either width.
    left, wide = 474, 45
    for bits, y in ((4, 68), (8, 226)):
        slots = 32 // bits
        covers = 16 * (1 + max(k for (b, _, _), (_, k, _) in shown.items() if b == bits) // 16)
        d.text(f"{bits} bits: the first 16 bytes of lane {LANE_SHOWN}, {covers} of K", left - 44,
               y - 44, kind="title")  # fmt: skip
        d.text("row, k of each weight; bits of the word above", left - 44, y - 28)
        for slot in range(slots):
            d.text(f"{slot * bits}–{(slot + 1) * bits - 1}", left + (slot + 0.5) * wide * 8 / slots,
                   y - 6, "middle", "small muted")  # fmt: skip
        for word in range(PIECE_WORDS):
            d.text(f"word {word}", left - 6, y + word * high + 12, "end", "small muted")
            for slot in range(slots):
                row, k, kind = shown[bits, word, slot * bits]
                size = wide * 8 / slots
                d.cell(kind, left + slot * size, y + word * high, size - 1, high - 1, f"{row}, {k}")
    # Where these 16 bytes lie.
    left, top, wide = 40, 398, 24
    d.text("A piece of a block: 16 bytes of each thread, one behind the other. A warp reads 512 bytes in"
           " a row, without bank conflicts.", left, top - 8)  # fmt: skip
    for lane in range(32):
        d.cell("c5" if lane == LANE_SHOWN else "none", left + lane * wide, top, wide - 1, 18, lane)
    d.text("Colours: the register of the fragment. Its two weights are 16 bits apart, so that one shift"
           " brings both into place.", 20, 442, kind="small muted")  # fmt: skip
    return d


# --- rung 16: rows that end where a group does ---------------------------------------------------


def rows_of_a_group(code):
    box = code.rung(16, "bf16_128x128")["bm"] // 2  # rows of a block, which has a box of its own
    row, count, next_rows, step = 100, 23, 48, 2
    d = Drawing(WIDTH, 404, "How a box is cut off where a group ends")
    top = 90
    first = row + count - box  # of D, in the matrix that ends with the group

    def rows(kind, x, start, how_many, words, wide=150):
        d.cell(kind, x, top + (start - first) * step, wide, how_many * step - 1, words)

    d.text("D", 60, 28, kind="title")
    d.text("the group's rows, then the next group's", 60, 46)
    rows("none", 60, first, row - first, "")
    rows("c0", 60, row, count, f"{count} rows of the tile")
    rows("c2", 60, row + count, next_rows, "the next group")
    d.text(f"row {row}", 54, top + (row - first) * step + 6, "end", "small muted")
    d.text(f"row {row + count}", 54, top + (row + count - first) * step + 6, "end", "small muted")
    d.text("The map", 320, 28, kind="title")
    d.text(f"matrix {row + count} of all runs of {box} rows:", 320, 46)
    d.text(f"the one that ends before row {row + count}", 320, 60)
    rows("c5", 320, first, box, f"{box} rows")
    d.text("0", 314, top + 6, "end", "small muted")
    d.text(box - count, 314, top + (row - first) * step + 6, "end", "small muted")
    d.text("The box in shared memory", 580, 28, kind="title")
    d.text(f"{box} rows, put at row {box - count} of that matrix", 580, 46)
    rows("c0", 580, row, count, f"{count} inside: stored")
    rows("none", 580, row + count, box - count, f"{box - count} outside: not stored")
    for at in (row, row + count):
        y = top + (at - first) * step - 0.5
        d.line("line-ink dashed", 60, y, 740, y)
    d.text(f"cp.async.bulk.tensor.3d [map, {{col, {box} - {count}, {row} + {count}}}]: both outer"
           " strides of the map are ldd, and its base is", 20, 340)  # fmt: skip
    d.text(f"{box} rows before D, so that row r of matrix e is D's row e + r - {box}. A full box has"
           f" {box} rows: row 0 of matrix row + {box}.", 20, 356)  # fmt: skip
    d.text("TMA clips a box where its matrix ends; the map makes that the end of the group.", 20, 380,
           kind="small muted")  # fmt: skip
    return d


# --- rung 17: where C and D meet ------------------------------------------------------------------


def barriers_17(code):
    text = (code.root / "stages/17_fused_epilogue.cu").read_text(encoding="utf-8")
    counts = re.findall(r"mbarrier_init\(&smem\.(staged|ready)\[[^;]*\], (\d+)\)", text)
    found = {name: int(count) for name, count in counts}
    if set(found) != {"staged", "ready"}:
        raise Problem("rung 17 has no barriers staged and ready, which the figure shows")
    d = Drawing(WIDTH, 330, "The way of C and D through one box, rung 17")
    d.box(30, 50, 130, 70, ["C, bias", "global memory"])
    d.box(300, 50, 150, 70, ["box of 64 rows", "C, then D"])
    d.box(640, 50, 150, 70, ["consumer i", "sums in registers"])
    d.box(300, 210, 150, 70, ["storer i", "warp 1 + i"])
    d.box(30, 210, 130, 70, ["D", "global memory"])
    d.arrow("blue", [(160, 85), (300, 85)])
    d.text("1 TMA load", 230, 78, "middle")
    d.text("while the products run", 230, 100, "middle", "small muted")
    d.arrow("blue", [(450, 72), (640, 72)])
    d.text("2 ldmatrix, ld.shared", 545, 66, "middle")
    d.arrow("blue", [(640, 104), (450, 104)])
    d.text("3 stmatrix of f(…)", 545, 98, "middle")
    d.arrow("orange", [(715, 120), (715, 265), (450, 265)])
    d.text(f"staged: {arrivals(found['staged'])}, of its warps", 580, 258, "middle")
    d.arrow("green", [(450, 230), (670, 230), (670, 120)])
    d.text(f"ready: {arrivals(found['ready'])}, and the bytes", 560, 206, "middle")
    d.text("of C and the bias", 560, 221, "middle")
    d.arrow("blue", [(330, 120), (330, 165), (95, 165), (95, 210)])
    d.text("4 TMA store", 215, 159, "middle")
    d.arrow("gray", [(420, 210), (420, 120)])
    d.text("5 asks for the next C", 428, 160)
    d.text("once the store has read the box", 428, 176, kind="small muted")
    d.text("Blue: data. Green, orange: mbarriers. The box is always of one of the three: TMA that loads,"
           " the consumer, TMA that stores.", 30, 318, kind="small muted")  # fmt: skip
    return d


# --- timelines -----------------------------------------------------------------------------------

TRACES = Path("docs/results/h200.traces.json")
# Stamps cost this one too much (docs/traces.md), so the PTX machine's model clock tells it.
MODELLED = 10
MODELLED_OPTIONS = ["--m=512", "--n=1024", "--k=1024", "--grid=2"]


def trace_name(row, is_result):
    return f"trace_{row['stage']:02}" + ("" if is_result else f"_{row['variant']}")


def timelines(code):
    """{name: Drawing} of what was recorded on a GPU, and of the rung that the machine tells."""
    found = {}
    if (code.root / TRACES).exists():
        for row in json.loads((code.root / TRACES).read_text(encoding="utf-8"))["rows"]:
            if row["stage"] == MODELLED:
                continue
            result = code.rung(row["stage"])["variant"] == row["variant"]
            found[trace_name(row, result)] = draw_row(row)
    program = code.root / f"build/stage-{MODELLED:02}"
    if not program.exists() or not list((code.root / "build/machine").glob("libcudart.so.*")):
        raise Problem(
            f"{program.name} or the PTX machine is not built: make build/{program.name} machine"
            " builds them"
        )
    with tempfile.TemporaryDirectory() as folder:
        _, options, head = trace.traced_options(str(program), MODELLED_OPTIONS, on_gpu=False)
        events, more = trace.trace_on_machine(str(program), options, f"{folder}/t")
    found[f"trace_{MODELLED:02}"] = draw_row(cut(events, {**more, **head}))
    return found


FIGURES = {
    "reuse_01": reuse,
    "mma_fragments_02": mma_fragments,
    "banks_02": banks,
    "ring_03": ring,
    "barriers_04": barriers_04,
    "phases_04": lambda code: phases(code, 4, with_empty=False),
    "swizzle_atom_05": swizzle_atom,
    "wgmma_fragment_05": wgmma_fragment,
    "barriers_06": barriers_06,
    "phases_06": lambda code: phases(code, 6, with_empty=True),
    "raster_07": raster,
    "barriers_08": barriers_08,
    "multicast_08": multicast,
    "barriers_09": barriers_09,
    "store_box_09": store_box,
    "barriers_10": barriers_10,
    "rounds_11": rounds,
    "shares_12": shares,
    "majors_13": majors,
    "scales_14": scales,
    "packed_15": packed,
    "rows_16": rows_of_a_group,
    "barriers_17": barriers_17,
}


def drawings(root):
    """{path: Drawing} of all figures."""
    code = Code(root)
    found = {name: draw(code) for name, draw in FIGURES.items()} | timelines(code)
    return {FOLDER / f"{name}.svg": drawing for name, drawing in found.items()}


def outdated(root, drawn):
    """[(path, text)] of figures that are not what was drawn."""
    found = []
    for path, drawing in drawn.items():
        text, there = drawing.svg(), root / path
        if not there.exists() or there.read_text(encoding="utf-8") != text:
            found.append((path, text))
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Draw the figures of the pages.")
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if something would")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    options = parser.parse_args(arguments)
    try:
        found = outdated(options.root, drawings(options.root))
    except (Problem, OSError) as problem:
        print(f"figures: {problem}", file=sys.stderr)
        return 2
    for path, text in found:
        if options.check:
            print(f"figures: {path} is not what the code says; run make figures")
        else:
            (options.root / path).parent.mkdir(parents=True, exist_ok=True)
            (options.root / path).write_text(text, encoding="utf-8")
            print(f"figures: {path}")
    if not found:
        print("figures: everything is up to date")
    return 1 if options.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
