"""The plot of every rung below the ceilings of what the GPU can do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from lib.results import Results
from lib.rows import REGIMES
from lib.svg import Drawing, text_width
from lib.tables.limits import Limits, Use, load, use_of

Box = tuple[float, float, float, float]  # left, top, right, bottom

PANELS = {"smem": "shared memory", "l2": "L2 to the SMs", "dram": "DRAM"}
WIDTH, HEIGHT, TOP, BOTTOM, LEFT = 860, 420, 62, 44, 44
PANEL, GAP = 250, 22  # width of a panel, and between two
MULTIPLIERS = {"wgmma n256": "wgmma", "mma.sync": "mma.sync", "fma": "fma"}
SAME_PLACE = 9  # points that are closer share their label


def slopes(limits: Limits, panel: str, clocks: float) -> list[tuple[str, float]]:
    """[(label, bytes a clock and SM)] of what memory can do, the largest last. L2 and DRAM have
    clocks of their own: their bytes a second are divided by `clocks`, those of all SMs in a
    second."""
    regime = REGIMES[0]
    if panel == "smem":
        value = limits.highest(panel, regime, "per_clock")
        return [(f"{value:.0f} B", value)] if value else []
    keys = {"value": ""}
    if panel == "l2":
        keys = {"l2_read_value": ", distinct", "value": ", shared"}
    found = [(which, limits.highest(panel, regime, key)) for key, which in keys.items()]
    return [(f"{speed:.1f} TB/s{which}", speed * 1e12 / clocks) for which, speed in found if speed]


def number_list(numbers: Iterable[int]) -> str:
    """ "1, 3, 4, 6–8" of these numbers in any order."""
    texts: list[str] = []
    # Numbers of one run are as far from their places as each other.
    for _, run in itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        found = [number for _, number in run]
        texts += [f"{found[0]}–{found[-1]}"] if len(found) > 2 else map(str, found)
    return ", ".join(texts)


class Panel:
    def __init__(
        self, index: int, name: str, limits: Limits, uses: dict[int, Use], low: float, high: float
    ) -> None:
        self.index, self.name, self.limits = index, name, limits
        self.points = [
            (number, use.flop_per_byte[name], use.flop_per_clock)
            for number, use in uses.items()
            if name in use.flop_per_byte
        ]
        self.clocks = list(uses.values())[-1].row["sm_mhz"] * 1e6 * limits.head["sms"]
        self.low, self.high = low, high  # of the axis
        self.left = LEFT + index * (PANEL + GAP)
        places = [place for _, place, _ in self.points]
        self.first = min(places, default=20) / 4
        self.last = max(places, default=80) * 4

    def x(self, place: float) -> float:
        share = math.log(place / self.first) / math.log(self.last / self.first)
        return self.left + PANEL * share

    def y(self, speed: float) -> float:
        share = math.log(speed / self.low) / math.log(self.high / self.low)
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)

    def axes(self, drawing: Drawing) -> None:
        right, floor = self.left + PANEL, HEIGHT - BOTTOM
        drawing.text(PANELS[self.name], self.left + PANEL / 2, TOP - 14, "middle", "title")
        for tick in (2**power for power in range(4, 14)):
            if self.low <= tick <= self.high:
                drawing.line("line-gray thin faint", self.left, self.y(tick), right, self.y(tick))
                if self.index == 0:
                    drawing.text(tick, self.left - 5, self.y(tick) + 3, "end")
        for power in range(0, 17):
            if self.first <= 2**power <= self.last:
                drawing.line("line-gray thin faint", self.x(2**power), TOP, self.x(2**power), floor)
                drawing.text(2**power, self.x(2**power), floor + 13, "middle")
        drawing.line("line-gray", self.left, floor, right, floor)
        drawing.text("FLOP a byte", self.left + PANEL / 2, floor + 28, "middle")

    def ceilings(self, drawing: Drawing) -> None:
        right = self.left + PANEL
        memory = slopes(self.limits, self.name, self.clocks)
        fastest = max((value for _, value in memory), default=None)
        roofs = [(label, self.limits.multiplier(one, REGIMES[0])) for one, label in
                 MULTIPLIERS.items()]  # fmt: skip
        self.roofs = [(label, row["per_clock"]) for label, row in roofs if row]
        top = max((value for _, value in self.roofs), default=self.high)
        for label, value in self.roofs:
            begin = max(self.first, value / fastest if fastest else 0)
            if begin < self.last:
                drawing.line("line-muted", self.x(begin), self.y(value), right, self.y(value))
                drawing.text(f"{label} {value:.0f}", right - 2, self.y(value) - 4, "end")
        for label, value in memory:
            begin = max(self.first, self.low / value)
            end = min(self.last, top / value)
            if begin < end:
                ends = [(self.x(place), self.y(place * value)) for place in (begin, end)]
                drawing.line("line-orange", *ends[0], *ends[1])
                # Words along the slope, at its lower end.
                (x1, y1), (x2, y2) = ends
                x, y = x1 + (x2 - x1) * 0.06, y1 + (y2 - y1) * 0.06
                angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
                drawing.text(label, x, y + (11 if label.endswith("distinct") else -4), turn=angle)

    def marks(self, drawing: Drawing) -> None:
        """A point a rung, the number beside it; points in one place share their numbers."""
        points = [(n, self.x(place), self.y(speed)) for n, place, speed in self.points]
        taken = [(x - 4, y - 4, x + 4, y + 4) for _, x, y in points]
        # Below a roof, its line; above it stands its label.
        taken += [
            (self.left, self.y(v) - 1, self.left + PANEL, self.y(v) + 1) for _, v in self.roofs
        ]
        places: list[tuple[list[int], float, float]] = []  # numbers, x, y
        for number, x, y in sorted(points, key=lambda point: point[2]):
            drawing.circle("blue", x, y, 3.5)
            near = [p for p in places if abs(p[1] - x) < SAME_PLACE and abs(p[2] - y) < SAME_PLACE]
            if near:
                near[0][0].append(number)
            else:
                places.append(([number], x, y))
        for numbers, x, y in sorted(places, key=lambda place: place[1]):
            self.label(drawing, number_list(numbers), x, y, taken)

    def label(self, drawing: Drawing, words: str, x: float, y: float, taken: list[Box]) -> None:
        """Words beside a point, or with a line to it where nothing is in their way."""
        wide = text_width(words, 10)
        beside = [(x + 9, y + 3.5), (x - 9 - wide, y + 3.5)]
        shifts = (0, 24, -24, 48, -48)
        above = [(x + shift - wide / 2, y - 10 - 12 * row) for row in (0, 1) for shift in shifts]
        below = [(x + shift - wide / 2, y + 18 + 13 * row) for row in range(8) for shift in shifts]
        for left, base in beside + above + below:
            box = (left - 4, base - 8, left + wide + 4, base + 2)
            texts = [text[1:] for text in drawing.texts]
            if left < self.left or left + wide > self.left + PANEL:
                continue
            if not any(box[0] < o[2] and o[0] < box[2] and box[1] < o[3] and o[1] < box[3]
                       for o in taken + texts):  # fmt: skip
                break
        if (left, base) not in beside:
            end = base + 2 if base < y else base - 9
            drawing.line("line-gray thin", x, y, left + wide / 2, end)
        drawing.text(words, left, base)


def roofline(results: Results | None, numbers: list[int]) -> Drawing:
    """Each rung's result variant below the ceilings, as a Drawing: a panel for each memory."""
    drawing = Drawing(
        WIDTH, HEIGHT,
        "FLOP a clock and SM of every rung's result variant over its FLOP for each byte of shared "
        "memory, of L2 and of DRAM, with the measured ceilings",
    )  # fmt: skip
    limits = load(results)
    uses: dict[int, Use] = {}
    if results and limits:
        for number in numbers:
            size = results.detail_size(number) or 0
            use = use_of(limits, results, number, "result", size, REGIMES[0])
            if use and use.flop_per_byte:
                uses[number] = use
    if not limits or not uses:
        drawing.text("not measured yet", WIDTH // 2, HEIGHT // 2, "middle", "")
        return drawing
    roofs = [limits.multiplier(one, REGIMES[0]) for one in MULTIPLIERS]
    speeds = [use.flop_per_clock for use in uses.values()]
    low, high = min(speeds) / 1.6, max(speeds + [row["per_clock"] for row in roofs if row]) * 1.5
    for index, name in enumerate(PANELS):
        panel = Panel(index, name, limits, uses, low, high)
        panel.axes(drawing)
        panel.ceilings(drawing)
        panel.marks(drawing)
    drawing.text(f"FLOP a clock and SM, each rung at 8192³ (rung 1: 2048³), burst, {limits.head['gpu']}",
                 LEFT, 22, kind="")  # fmt: skip
    return drawing
