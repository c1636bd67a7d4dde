"""Figures of where elements lie: atoms, accumulators, store boxes, majors, scales, weights."""

from __future__ import annotations

from lib.figures.code import WIDTH, Code, colour
from lib.maps import CHUNK, chunks_at, fields
from lib.svg import Drawing

Places = list[list[tuple[int, int]]]  # (row, column) of the first elements that each lane holds


def swizzle_atom(code: Code) -> Drawing:
    offsets = code.map("swizzle", span=128, rows=16)["offsets"]
    operand = code.map("operand", major="K", span=128, mn=64, bk=64, start=1024)
    head = fields(operand["steps"][0]["bits"])
    step = fields(operand["steps"][1]["bits"])["start"] - head["start"]
    d = Drawing(WIDTH, 470, "The 128-byte swizzle, and what a descriptor says of it")
    wide, high, top = 36, 17, 84

    def y(line: int) -> int:
        return top + line * high + (10 if line >= 8 else 0)

    left = 40
    d.heading(left, "The matrix: row r, chunk c", "64 elements of K, 16 bytes a chunk")
    for row in range(16):
        for chunk in range(8):
            x = left + chunk * wide
            d.cell(colour(chunk), x, y(row), wide - 1, high - 1, f"{row}·{chunk}")
        d.note(row, left - 6, y(row) + 12, "end")
    for chunk in range(8):
        d.note(f"c {chunk}", left + chunk * wide + wide / 2, top - 6, "middle")
    left = 430
    d.heading(left, "Shared memory: where it lies", "banks")
    for place in range(8):
        d.note(f"{place * 4}–{place * 4 + 3}", left + place * wide + wide / 2, top - 6, "middle")
    for offset, (row, chunk) in chunks_at(offsets).items():
        line, place = divmod(offset // CHUNK, 8)
        x = left + place * wide
        d.cell(colour(chunk), x, y(line), wide - 1, high - 1, f"{row}·{chunk}")
    for line in range(16):
        d.note(f"+{line * 128}", left - 5, y(line) + 12, "end")
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
    notes = (
        f"Descriptor {operand['steps'][0]['bits']}: start {head['start']:,}, LBO {head['lbo']},"
        f" SBO {sbo:,}, swizzle {head['swizzle']} (128 bytes), base offset {head['base']}.",
        f"The next 16 of K: start + {step} bytes, {operand['steps'][1]['bits']}. The framed two"
        " columns are the first 16.",
        "wgmma swizzles the address that it computes, bits 4 to 6 with bits 7 to 9, so moving"
        " the start by 32 bytes works although the chunks do not lie in a row.",
        "A chunk column of eight rows, one colour on the left, has all 32 banks on the right:"
        " no conflict.",
        f"A box of TMA with more rows goes on below, {sbo:,} bytes an atom; the next box, 64"
        " further along K, is a tile of its own.",
    )
    for index, words in enumerate(notes):
        d.text(words, 16, bottom + 18 * index)
    return d


def wgmma_fragment(code: Code) -> Drawing:
    fragment = code.map("fragment")
    d = Drawing(WIDTH, 400, "Which thread holds which element of a wgmma accumulator")
    left, top, high = 60, 70, 62
    d.heading(left - 40, "64 x N of a warpgroup", "blocks of 16 x 8; in each, the register")
    blocks = 4
    for warp in range(4):
        y = top + warp * (high + 4)
        d.text(f"warp {warp}", left - 6, y + high / 2 - 3, "end")
        d.note(f"{16 * warp}–{16 * warp + 15}", left - 6, y + high / 2 + 11, "end")
        for block in range(blocks):
            x = left + block * 62
            d.cell(colour(warp), x, y, 60, high, f"{4 * block}–{4 * block + 3}")
    d.text("… N / 8 blocks", left + blocks * 62 + 4, top + high / 2 + 4)
    for block in range(blocks):
        d.note(f"{8 * block}–{8 * block + 7}", left + block * 62 + 30, top - 6, "middle")
    d.heading(470, "One block, of warp 0", "lane, and its register 4j + i of block j: i")
    accumulator(d, fragment["acc"], 470, top, 45, 17, "+")
    lane = 5
    (row, col), (row8, _) = fragment["acc"][lane]
    d.text(f"Lane {lane} of a warp has rows {row} and {row8} of the warp's 16, and of each block"
           f" columns {col} and {col + 1}: a row of D is spread over four lanes.",
           20, 384)  # fmt: skip
    return d


def accumulator(
    d: Drawing, places: Places, x: int, top: int, wide: int, high: int, register: str
) -> None:
    """A block of 16 x 8: in each cell a lane, and which of its four registers."""
    for lane, halves in enumerate(places):
        for half, (row, col) in enumerate(halves):
            for i in range(2):
                kind, words = colour(lane % 4 + 4 * half), f"{lane} {register}{2 * half + i}"
                d.cell(kind, x + (col + i) * wide, top + row * high, wide - 1, high - 1, words)
    for row in range(16):
        d.note(row, x - 6, top + row * high + 12, "end")
    for col in range(8):
        d.note(col, x + col * wide + 22, top + 16 * high + 13, "middle")


def store_box(code: Code) -> Drawing:
    lanes = code.map("box", warp=0)["lanes"]
    d = Drawing(WIDTH, 420, "Where stmatrix puts a warp's 16 rows in the box that TMA stores")
    wide, high, top = 44, 18, 84
    where = chunks_at(code.map("swizzle", span=128, rows=64)["offsets"])
    left = 40
    d.heading(left, "The warp's rows of D", "64 columns; colour: which stmatrix; number: the lane",
              "that points at these 8 columns of the row")  # fmt: skip
    right = 460
    d.heading(right, "The box in shared memory",
              "rows of 128 bytes, swizzled as TMA will read them")  # fmt: skip
    for lane, stores in enumerate(lanes):
        for index, store in enumerate(stores):
            row, chunk = where[store["offset"]]
            d.cell(colour(index), left + chunk * wide, top + row * high, wide - 1, high - 1, lane)
            line, place = divmod(store["offset"] // CHUNK, 8)
            d.cell(colour(index), right + place * wide, top + line * high, wide - 1, high - 1, lane)
    for row in range(16):
        d.note(row, left - 6, top + row * high + 12, "end")
        d.note(f"+{row * 128}", right - 6, top + row * high + 12, "end")
    for chunk in range(8):
        d.note(f"{chunk * 8}–{chunk * 8 + 7}", left + chunk * wide + wide / 2, top - 6, "middle")
        d.note(f"{chunk * 4}–{chunk * 4 + 3}", right + chunk * wide + wide / 2, top - 6, "middle")
    d.text("Above the box: banks. Eight lanes of one stmatrix, such as 0 to 7 of one colour, lie in"
           " eight places: all 32 banks once, no conflict.", 16, 398)  # fmt: skip
    return d


def majors(code: Code) -> Drawing:
    mn, bk = 128, 64
    d = Drawing(WIDTH, 440, "A tile of an operand, K-major and MN-major")
    for index, major in enumerate(("K", "MN")):
        found = code.map("operand", major=major, span=128, bytes=2, mn=mn, bk=bk, start=1024)
        first, second = (fields(found["steps"][i]["bits"]) for i in (0, 1))
        left, top = 60 + index * 420, 110
        panels = found["bytes"] // found["panel_bytes"]
        atoms = found["panel_bytes"] // first["sbo"]
        wide, high = 118, 15
        along = "K" if major == "K" else "M or N"
        move = second["start"] - first["start"]
        d.heading(
            left - 40, f"{major}-major, {mn} x {bk} of bf16",
            f"{panels} panel{'s' if panels > 1 else ''} of {found['rows']} rows; a row:"
            f" {found['width']} elements along {along}",
            f"LBO {first['lbo']:,}, SBO {first['sbo']:,}, swizzle {first['swizzle']} (128 bytes)",
            f"the next 16 of K: start + {move:,}", first=44, step=16,
        )  # fmt: skip
        for panel in range(panels):
            x = left + panel * (wide + 26)
            d.note(f"+{panel * found['panel_bytes']:,}", x, top - 6)
            for atom in range(atoms):
                y = top + atom * (high + 3)
                d.rect("none", x, y, wide, high)
                if major == "K":
                    for k in range(bk // 16):
                        part = wide * found["steps"][k]["offset"] / 128
                        if atom < 8:
                            d.cell(colour(k), x + part, y, wide * move / 128 - 1, high,
                                   f"k {k * 16}" if atom == 0 else "")  # fmt: skip
                else:
                    k = atom * 8 // 16
                    d.cell(colour(k), x, y, wide, high, f"k {atom * 8}–{atom * 8 + 7}")
                if major == "K" and panel == 0:
                    d.note(atom * 8, x - 6, y + 11, "end")
        if major == "K":
            d.note("M, N", left - 6, top - 6, "end")
            d.text("64 rows, one wgmma's", left + wide + 14, top + 66)
            d.text("A, are eight atoms", left + wide + 14, top + 80)
            d.line("line-ink", left + wide + 6, top, left + wide + 6, top + 8 * (high + 3) - 3)
        else:
            d.note(f"{found['width']} of M or N", left + wide / 2, top + atoms * (high + 3) + 12,
                   "middle")  # fmt: skip
            d.note(f"the next {found['width']}: + LBO", left + wide + 26 + wide / 2,
                   top + atoms * (high + 3) + 12, "middle")  # fmt: skip
    d.note("A block is an atom: eight rows of 128 bytes, 1,024 bytes. Colours: the 16 of K that one"
           " wgmma takes.", 20, 430)  # fmt: skip
    return d


def scales(code: Code) -> Drawing:
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
    d.note("row m", a_left - 6, top + 87, "end")
    d.text(f"Step {step}: of {block} of K the tensor cores have summed A · Bᵀ. A sum in a row m of the"
           " tile,", 20, 334)  # fmt: skip
    d.text(f"left of the boundary, is multiplied by scale_a[{step}][m] · scale_b[{first}][{step}],"
           f" right of it by scale_a[{step}][m] · scale_b[{first + 1}][{step}].", 20, 350)  # fmt: skip
    d.note(f"Tile {chosen} of {row['variant']}, columns {n0} to {n0 + bn - 1}.", 20, 370)
    return d


# --- rung 15: packed weights ----------------------------------------------------------------------

PIECE_WORDS, PACKING_THREADS, LANE_SHOWN = 4, 128, 5


def packed(code: Code) -> Drawing:
    places = {bits: code.map("packed", bits=bits)["places"] for bits in (4, 8)}
    d = Drawing(WIDTH, 452, "Where the weights of a thread lie")
    # The fragment: which lane wants which weight.
    left, top, wide, high = 40, 68, 23, 18
    d.heading(left, "16 rows of W, 16 of K, for one wgmma",
              "each number is the lane of the warp that has the weight", first=40)  # fmt: skip
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
        d.note(i, left - 6, top + i * high + 12, "end")
        d.note(i, left + i * wide + wide / 2, top + 16 * high + 12, "middle")
    # The thread's 16 bytes, in either width.
    left, wide = 474, 45
    for bits, y in ((4, 68), (8, 226)):
        slots = 32 // bits
        covers = 16 * (1 + max(k for (b, _, _), (_, k, _) in shown.items() if b == bits) // 16)
        d.text(f"{bits} bits: the first 16 bytes of lane {LANE_SHOWN}, {covers} of K", left - 44,
               y - 44, kind="title")  # fmt: skip
        d.text("row, k of each weight; bits of the word above", left - 44, y - 28)
        for slot in range(slots):
            d.note(f"{slot * bits}–{(slot + 1) * bits - 1}", left + (slot + 0.5) * wide * 8 / slots,
                   y - 6, "middle")  # fmt: skip
        for word in range(PIECE_WORDS):
            d.note(f"word {word}", left - 6, y + word * high + 12, "end")
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
    d.note("Colours: the register of the fragment. Its two weights are 16 bits apart, so that one shift"
           " brings both into place.", 20, 442)  # fmt: skip
    return d
