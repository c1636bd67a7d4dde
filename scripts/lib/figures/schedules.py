"""Figures of which CTA does what: rasters, clusters, rounds, shares, groups."""

from __future__ import annotations

import re

from lib.cli import Problem
from lib.figures.barriers import arrivals
from lib.figures.code import MB, WIDTH, Code, colour
from lib.svg import Drawing


def raster(code: Code) -> Drawing:
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
                kind = {0: "blue", 1: "orange"}.get(turn.get((m, n), -1), "none")
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

        def megabytes(some_rows: set[int], some_cols: set[int]) -> str:
            return f"{(len(some_rows) * bm + len(some_cols) * bn) * size * 2 / MB:.0f} MB"

        d.text(f"first round: {len(rows)} rows of tiles of A, {len(cols)} columns of B:",
               left - 40, 44)  # fmt: skip
        d.text(f"({len(rows)} x {bm} + {len(cols)} x {bn}) x {size:,} x 2 bytes ="
               f" {megabytes(rows, cols)}", left - 40, 60)  # fmt: skip
        again = megabytes(rows & next_rows, cols & next_cols)
        d.text(
            f"of these the next round reads {again} again; L2 holds {gpu['l2_bytes'] / MB:.0f} MB",
            left - 40, 76,
        )  # fmt: skip
    d.note(
        f"D of {size:,} x {size:,} in tiles of {bm} x {bn}. Blue: the first {gpu['sms']} tiles, one"
        " an SM, and what they read of A and B. Orange: the next.",
        30, 446,
    )  # fmt: skip
    return d


def multicast(code: Code) -> Drawing:
    row = code.rung(8)
    bm, bn, bk = row["bm"], row["bn"], row["bk"]
    cluster_m, cluster_n = row["cluster_m"], row["cluster_n"]
    if (cluster_m, cluster_n) != (2, 1):
        raise Problem(
            f"rung 8's result is a cluster of {cluster_m}x{cluster_n}, the figure shows 2x1"
        )
    cluster = dict(tiles_m=cluster_m, tiles_n=cluster_n, cluster_m=cluster_m, cluster_n=cluster_n)
    ctas = code.map("raster", clusters=1, **cluster)["ctas"]
    count = len(ctas)
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
        d.note(f"slot of CTA {rank}", 750, y - 6, "middle")
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
    d.text(f"A CTA asks L2 for {shared // 1024} KB a step instead of {alone // 1024} KB, and still"
           f" gets {alone // 1024} KB: what its full barrier counts.", x0, 308)  # fmt: skip
    return d


def rounds(code: Code) -> Drawing:
    sms = code.map("gpu")["sms"]
    m, n = 4096, 2112  # the worked example of page 11
    d = Drawing(WIDTH, 470, "How full the rounds of tiles are, by the size of the tile")
    d.text(f"D of {m:,} x {n:,} on {sms} SMs: rounds of tiles, by the tile's size", 20, 24,
           kind="title")  # fmt: skip
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
            d.rect("c1", left + full * unit, y + (high - 3) * (1 - rest / sms), unit - 1,
                   (high - 3) * rest / sms)  # fmt: skip
        share = m * n / (count * sms * bm * bn)
        end = left + count * unit
        d.text(f"{count} rounds, {100 * share:.0f} % of what {sms} SMs could do", end + 8, y + 13)
    least = left + m * n / sms / (128 * 256) * scale
    bottom = top + len(chosen) * high
    d.line("line-red dashed", least, top - 6, least, bottom + 4)
    d.text("if nothing were lost", least, top - 12, "middle")
    d.note(
        "A bar is one round of tiles, as wide as its tile is large. Orange: the last round, as high"
        " as SMs have a tile.",
        20, bottom + 24,
    )  # fmt: skip
    d.note(
        "Larger tiles read less for each FLOP, smaller ones waste less in the last round: the cost"
        " model weighs both.",
        20, bottom + 40,
    )  # fmt: skip
    d.height = bottom + 52
    return d


def shares(code: Code) -> Drawing:
    panels = [
        ("none", 6, "whole tiles"),
        ("last", 6, "the last round shared"),
        ("all", 6, "stream-K: all tiles shared"),
        ("cut", 2, "few tiles, each cut"),
    ]
    d = Drawing(WIDTH, 372, "Which K steps of which tile each cluster takes")
    step, high, k_tiles = 17, 24, 8
    for index, (share, tiles, name) in enumerate(panels):
        left, top = 78 + index % 2 * 410, 70 + index // 2 * 164
        said = code.map("shares", share=share, tiles=tiles, k_tiles=k_tiles, clusters=4)
        found = said["clusters"]
        longest = max(sum(piece[2] for piece in pieces) for pieces in found)
        d.text(f"{name}: {tiles} tiles of {k_tiles} steps", left - 66, top - 26, kind="title")
        d.note(f"{longest} steps long", left - 66, top - 10)
        for cluster, pieces in enumerate(found):
            y, x = top + cluster * high, left
            d.text(f"cluster {cluster}", left - 8, y + 15, "end")
            for tile, first, steps in pieces:
                is_whole = steps == k_tiles
                words = f"tile {tile}" if is_whole else f"{tile}: {first}–{first + steps - 1}"
                d.cell(colour(tile), x, y, steps * step - 1, high - 3, words)
                x += steps * step
    d.note(
        "A bar is as long as its K steps. Who adds up the parts of a tile: the cluster that comes"
        " last; of cut tiles a second kernel.",
        12, 364,
    )  # fmt: skip
    return d


# --- rung 16: rows that end where a group does ---------------------------------------------------


def rows_of_a_group(code: Code) -> Drawing:
    box = code.rung(16, "bf16_128x128")["bm"] // 2  # rows of a block, which has a box of its own
    row, count, next_rows, step = 100, 23, 48, 2
    d = Drawing(WIDTH, 404, "How a box is cut off where a group ends")
    top = 90
    first = row + count - box  # of D, in the matrix that ends with the group

    def rows(kind: str, x: float, start: int, how_many: int, words: str, wide: float = 150) -> None:
        d.cell(kind, x, top + (start - first) * step, wide, how_many * step - 1, words)

    d.text("D", 60, 28, kind="title")
    d.text("the group's rows, then the next group's", 60, 46)
    rows("none", 60, first, row - first, "")
    rows("c0", 60, row, count, f"{count} rows of the tile")
    rows("c2", 60, row + count, next_rows, "the next group")
    d.note(f"row {row}", 54, top + (row - first) * step + 6, "end")
    d.note(f"row {row + count}", 54, top + (row + count - first) * step + 6, "end")
    d.text("The map", 320, 28, kind="title")
    d.text(f"matrix {row + count} of all runs of {box} rows:", 320, 46)
    d.text(f"the one that ends before row {row + count}", 320, 60)
    rows("c5", 320, first, box, f"{box} rows")
    d.note("0", 314, top + 6, "end")
    d.note(box - count, 314, top + (row - first) * step + 13, "end")  # below the dashed line
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
    d.note("TMA clips a box where its matrix ends; the map makes that the end of the group.",
           20, 380)  # fmt: skip
    return d


# --- rung 17: where C and D meet ------------------------------------------------------------------


def barriers_17(code: Code) -> Drawing:
    text = (code.root / "stages/17_fused_epilogue.cu").read_text(encoding="utf-8")
    header = (code.root / "common/block/init_barriers.cuh").read_text(encoding="utf-8")
    counts = re.findall(r"mbarrier_init\(&(?:staged|stored)\[[^;]*\], (\d+)\)", header)
    names = re.search(r"init_barriers<T>\([^;]*smem\.(staged),\s+smem\.(ready)\);", text)
    found = dict(zip(names.groups() if names else (), map(int, counts)))
    if len(counts) != 2 or len(found) != 2:
        raise Problem("rung 17 has no barriers staged and ready, which the figure shows")
    d = Drawing(WIDTH, 330, "The way of C and D through one box, rung 17")
    d.box(30, 50, 130, 70, ["C, bias", "global memory"])
    d.box(300, 50, 150, 70, ["box of 64 rows", "C, then D"])
    d.box(640, 50, 150, 70, ["consumer i", "sums in registers"])
    d.box(300, 210, 150, 70, ["storer i", "warp 1 + i"])
    d.box(30, 210, 130, 70, ["D", "global memory"])
    d.arrow("blue", [(160, 85), (300, 85)])
    d.text("1 TMA load", 230, 78, "middle")
    d.note("while the products run", 230, 100, "middle")
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
    d.note("once the store has read the box", 428, 176)
    d.note("Blue: data. Green, orange: mbarriers. The box is always of one of the three: TMA that loads,"
           " the consumer, TMA that stores.", 30, 318)  # fmt: skip
    return d
