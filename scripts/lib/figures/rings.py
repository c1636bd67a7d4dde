"""Figures of tiles, fragments, banks, and rings of slots."""

from __future__ import annotations

from lib.figures.code import WIDTH, Code, colour
from lib.figures.layouts import accumulator
from lib.maps import CHUNK, chunks_at
from lib.svg import Drawing


def reuse(code: Code) -> Drawing:
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
    d.note("K runs down", left - 10, b_top + 26, "end")
    d.note("K runs to the right", a_left, top - 8)
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


def mma_fragments(code: Code) -> Drawing:
    fragment = code.map("fragment")
    d = Drawing(WIDTH, 400, "Which lane holds or points at what, for mma.sync.m16n8k16")
    top, high = 64, 18
    # lanes that give the addresses of ldmatrix.x4
    for x, title, what, which, lanes in (
        (40, "A, 16 x 16", "ldmatrix.x4: the lane that", "points at these 16 bytes", "ldmatrix_a"),
        (240, "B, two of 8 x 16", "the same: rows 0 to 7 feed one", "mma.sync, rows 8 to 15 the next",
         "ldmatrix_b"),
    ):  # fmt: skip
        d.heading(x, title, what, which, first=40, step=13)
        for lane, (row, chunk) in enumerate(fragment[lanes]):
            d.cell(colour(lane // 8), x + chunk * 70, top + row * high, 69, high - 1, f"lane {lane}")
        for row in range(16):
            d.note(row, x - 6, top + row * high + 12, "end")
        d.note("k 0–7", x + 35, top + 16 * high + 13, "middle")
        d.note("k 8–15", x + 105, top + 16 * high + 13, "middle")
    # accumulator
    x = 456
    d.heading(x, "Accumulator, 16 x 8", "lane, and which of its four registers", "has this element",
              first=40, step=13)  # fmt: skip
    accumulator(d, fragment["acc"], x, top, 46, high, "c")
    d.note("Colours: left and middle the four 8 x 8 matrices, of which each goes to one register;"
           " right the lane in its group of four, above and below.", 40, 388)  # fmt: skip
    return d


def banks(code: Code) -> Drawing:
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
        for place in range(8):
            d.note(place * 4, left + place * wide + wide / 2, top - 6, "middle")
        for offset, (row, chunk) in sorted(chunks_at(offsets).items()):
            line, place = divmod(offset // CHUNK, 8)
            x, y = left + place * wide, top + line * high
            kind = colour(row) if chunk == chosen else "none"
            d.cell(kind, x, y, wide - 1, high - 1, f"{row}·{chunk}")
        used = [chunks[chosen] // CHUNK % 8 for chunks in offsets]
        passes = max(map(used.count, used))
        words = f"the coloured column: {passes} {'pass' if passes == 1 else 'passes'}"
        d.text(words, left, top + 9 * high + 16, kind="")
    d.note(
        "Above: the first of four banks. In a cell: row·chunk, 16 bytes. ldmatrix reads eight rows"
        " of one chunk column at a time (coloured), and a bank gives 4 bytes a pass.",
        30, 44,
    )  # fmt: skip
    return d


def ring(code: Code) -> Drawing:
    depth = code.rung(3)["depth"]
    steps = 10
    states = code.map("ring", depth=depth, steps=steps)
    d = Drawing(
        WIDTH, 116 + 58 * depth, f"Which k tile lies in which of {depth} slots, step by step"
    )
    left, wide, top, high = 92, 74, 64, 46
    for step in range(steps):
        d.note(f"step {step}", left + step * wide + wide / 2, top - 10, "middle")
    d.text(f"depth {depth}: while a step multiplies its tile, copies of the next {depth - 1} are"
           " under way", left, 24, kind="title")  # fmt: skip
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
    d.note("A slot is written again in the step after it was multiplied: that is what the bar.sync"
           " between them is for.", left, top + depth * (high + 8) + 16)  # fmt: skip
    return d


def phases(code: Code, number: int, with_empty: bool) -> Drawing:
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
            d.note(f"lap {lap}", x + depth * wide / 2, top - 8, "middle")
        shade = colour(state["slot"])
        parity = state["parity"]
        values = [step, state["slot"], lap, parity]
        if with_empty:
            before, when = (lap - 1, f"after {step - depth}") if lap else ("before 0", "at once")
            values += [before, parity ^ 1, when]
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
    d.note(words, 14, bottom)
    return d
