"""Figures of who waits for whom at which mbarrier."""

from __future__ import annotations

from collections.abc import Sequence

from lib.cli import Problem
from lib.figures.code import WIDTH, Code
from lib.svg import Drawing

def expect(code: Code, number: int, names: Sequence[str]) -> dict[str, int]:
    """The rung's barriers; refuses if they are not the ones that the figure shows."""
    found = code.barriers(number)
    if set(found) != set(names):
        there, shown = ", ".join(found), ", ".join(names)
        raise Problem(f"rung {number} has the barriers {there}; the figure shows {shown}")
    return found


def arrivals(count: int) -> str:
    return f"{count} arrival" + ("s" if count != 1 else "")


def barriers_04(code: Code) -> Drawing:
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
    d.note(f"{arrivals(full)}, and bytes", 587, 112, "middle")
    d.arrow("gray", [(745, 150), (745, 200), (115, 200), (115, 150)])
    d.text(
        "fence.proxy.async, then bar.sync: every warp has read the slot, it may be written again",
        430, 192, "middle",
    )  # fmt: skip
    d.note("Blue: data. Green: an mbarrier. Gray: a barrier of all threads.", 30, 228)
    return d


def barriers_06(code: Code) -> Drawing:
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
    d.note(f"{arrivals(found['full'])}, and bytes", 522, 158)
    d.arrow("orange", [(830, 82), (846, 82), (846, 236), (115, 236), (115, 174)])
    d.path("line-orange", [(830, 176), (846, 176)])
    d.text(f"empty[slot]: {arrivals(found['empty'])}, one of each warp of both consumers, when its"
           " wgmma has read the slot", 430, 228, "middle")  # fmt: skip
    d.note("Nobody else waits: no bar.sync in the loop.", 30, 262)
    return d


def barriers_08(code: Code) -> Drawing:
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
    d.text(f"empty: {arrivals(found['empty'])}, of the warps of both CTAs, as a copy lands in both",
           372, 143)  # fmt: skip
    d.text(f"empty: {arrivals(found['empty'])}, the same", 372, 285)
    d.note(
        "At the end barrier.cluster: no CTA goes while the other can still write or arrive there.",
        30, 318,
    )  # fmt: skip
    return d


def barriers_09(code: Code) -> Drawing:
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
    d.note("boxes are read", 780, 166, "end")
    d.arrow("blue", [(300, 225), (160, 225)])
    d.text("TMA store", 230, 218, "middle")
    d.note("While boxes leave, the consumer multiplies its next tile.", 30, 290)
    return d


def barriers_10(code: Code) -> Drawing:
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
    d.text(f"empty: {arrivals(found['empty'])}, of the warps of one consumer",
           292, 43, "middle")  # fmt: skip
    d.arrow("red", [(550, 112), (550, 186)])
    d.arrow("red", [(600, 186), (600, 112)])
    d.text(f"turn: {arrivals(found['turn'])}, one of each", 612, 138)
    d.text("warp of the other, when its last", 612, 152)
    d.text("products are started", 612, 166)
    for top in (36, 186):
        d.box(740, top, 100, 76, ["storer", "TMA store"])
        d.arrow("orange", [(650, top + 26), (740, top + 26)])
        d.text(f"staged: {found['staged']}", 695, top + 20, "middle")
        d.arrow("green", [(740, top + 56), (650, top + 56)])
        d.text(f"stored: {found['stored']}", 695, top + 70, "middle")
    d.note(
        "The tensor cores change hands at the turn: one consumer rounds and stages while the other"
        " multiplies.",
        30, 296,
    )  # fmt: skip
    return d
