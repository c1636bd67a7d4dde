"""The tables, numbers and plot of what the GPU can do at most, and where the rungs are below it. For
tables.py."""

import json
import math
import re

from cells import DASH, markdown, percent, tflops
from lib.svg import Drawing, text_width

SUFFIX = ".limits.json"
HEAD_KEYS = ("gpu", "driver", "toolkit", "sms", "revision", "date", "tiles", "limits")
ROW_KEYS = ("name", "what", "group", "data", "regime", "unit", "verified")
REGIMES = ("burst", "sustained")
NOT_MEASURED = "*Not measured yet: `make limits` on a Hopper GPU fills this in.*"
NOT_BENCHED = "*Not measured yet: `make bench` on a Hopper GPU fills this in.*"


class Limits:
    """A file of limits."""

    def __init__(self, path, document):
        self.path = path
        self.head = document
        self.rows = document["limits"]

    def find(self, name, regime):
        """The row; None if it was not measured or is wrong."""
        for row in self.rows:
            if (row["name"], row["regime"]) == (name, regime) and row["verified"]:
                return row
        return None

    def highest(self, group, regime, key):
        """The largest of a group's values; None if there is none."""
        found = [
            row[key] for row in self.rows
            if (row["group"], row["regime"]) == (group, regime) and row.get(key) is not None
        ]  # fmt: skip
        return max(found, default=None)

    def multiplier(self, instruction, regime):
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

    def tile(self, row):
        """What is known of the kernel that gave a row of results; None if it has changed since."""
        variant = row.get("configuration") or row["variant"]
        for tile in self.head["tiles"]:
            if (tile["stage"], tile["variant"]) == (row["stage"], variant):
                return tile if tile["kernel_hash"] == row.get("kernel_hash") else None
        return None


def load(results):
    """The limits beside the results; None if there are none."""
    path = results.path.with_suffix(SUFFIX) if results else None
    if path is None or not path.exists():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}")
    for key in HEAD_KEYS:
        if not isinstance(document, dict) or key not in document:
            raise ValueError(f'{path}: key "{key}" is missing')
    for index, row in enumerate(document["limits"]):
        for key in ROW_KEYS + (("value", "per_clock", "sm_mhz") if row.get("verified") else ()):
            if key not in row:
                raise ValueError(f'{path}: limit {index}: key "{key}" is missing')
    return Limits(path, document)


# --- the ceilings --------------------------------------------------------------------------------


def rate(row):
    return tflops(row["value"]) if row["unit"] == "TFLOPS" else f"{row['value']:.2f}"


def per_clock(row):
    return format(row["per_clock"], ".0f" if row["unit"] == "TFLOPS" else ".1f")


def limits_table(results):
    limits = load(results)
    if limits is None:
        return [NOT_MEASURED]
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
            row = of_name.get(regime)
            if row is None:
                cells += [DASH] * 3
            elif not row["verified"]:
                cells += ["FAIL"] * 3
            else:
                cells += [rate(row), per_clock(row), f"{row['sm_mhz']:.0f}"]
        lines.append(cells)
    head = limits.head
    caption = (
        f"On one {head['gpu']}, driver {head['driver']}, CUDA {head['toolkit']}, {head['date']}, "
        f"revision {head['revision'][:7]}. Medians of five rounds. Bytes are those that arrive."
    )
    return markdown(header, lines) + ["", caption]


NAMED = re.compile(rf"[a-z]\w*\.(?:{'|'.join(REGIMES)})\.\w+")


def operand(results, text):
    """(value, key) of NAME.REGIME.KEY."""
    parts = text.split(".")
    if len(parts) != 3 or parts[1] not in REGIMES:
        raise ValueError(f'"{text}" is neither a number nor limit.regime.key')
    name, regime, key = parts
    limits = load(results)
    if limits is None:
        return None, key
    rows = [row for row in limits.rows if row["name"] == name]
    if not rows:
        names = dict.fromkeys(row["name"] for row in limits.rows)
        raise ValueError(f'"{text}": there is no limit "{name}", only {", ".join(names)}')
    row = next((row for row in rows if row["regime"] == regime), None)
    if row is None:
        return None, key
    if not row["verified"]:
        return "FAIL", key
    if key not in row:
        raise ValueError(f'"{text}": a limit has no key "{key}"')
    is_flop = row["unit"] == "TFLOPS"
    return row[key], {"value": "tflops" if is_flop else "tbps"}.get(key, key)


FORMATS = {
    "tbps": lambda v: f"{v:.2f}",
    "per_clock": lambda v: format(v, ".0f" if v >= 1000 else ".1f"),
    "l2_read_per_clock": lambda v: f"{v:.1f}",
}


# --- where a rung is below them ------------------------------------------------------------------

RESOURCES = {  # name: (its column, format of a value)
    "multiply": ("FLOP", ".0f"),
    "smem": ("shared memory, B", ".1f"),
    "l2": ("L2→SM, TB/s", ".1f"),
    "l2_read": ("L2 reads, TB/s", ".1f"),
    "dram": ("DRAM, TB/s", ".2f"),
}
NAMES = {
    "multiply": None,  # the instruction
    "smem": "shared memory",
    "l2": "L2→SM",
    "l2_read": "L2 reads",
    "dram": "DRAM",
}


class Use:
    """What a row of results takes of each resource, and what there is of it."""

    def __init__(self, limits, counters, row):
        regime, sms = row["regime"], limits.head["sms"]
        flop = 2 * row["m"] * row["n"] * row["k"]
        clocks = row["sm_mhz"] * 1e6 * flop / (row["tflops"] * 1e12)  # of each SM
        self.row, self.tile = row, limits.tile(row)
        self.alone = None  # the limit of what it multiplies with
        self.flop_per_byte = {}  # of smem, l2 and dram
        self.flop_per_clock = flop / (clocks * sms)  # a clock and SM
        self.of = {}  # resource -> (use, ceiling)
        counted = counters.find(row["stage"], row["variant"], row["m"]) if counters else None
        if counted and counted["kernel_hash"] != row.get("kernel_hash"):
            counted = None

        def take(resource, bytes_, ceiling, a_second=False):
            if bytes_ is None or not ceiling:
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

    def share(self, resource):
        use, ceiling = self.of[resource]
        return use / ceiling

    def binding(self):
        """The resource of which the largest share is used; None if nothing is known."""
        return max(self.of, key=self.share, default=None)

    def cell(self, resource):
        if resource not in self.of:
            return DASH
        spec = RESOURCES[resource][1]
        use, ceiling = self.of[resource]
        text = f"{use:{spec}} of {ceiling:{spec}}"
        return f"**{text}**" if resource == self.binding() else text

    def binding_cell(self):
        resource = self.binding()
        if resource is None:
            return DASH
        name = NAMES[resource] or f"`{self.tile['instruction'].replace(' n', ', N = ')}`"
        return f"{name}, {percent(self.share(resource))}"

    def alone_cell(self):
        """The share of what the instruction does alone, with the clock that it has alone."""
        return percent(self.row["tflops"] / self.alone["value"]) if self.alone else DASH


def use_of(limits, results, stage, variant, size, regime):
    row = results.find(stage, variant, size, regime)
    if row is None or not row["verified"] or row.get("sm_mhz") is None:
        return None
    return Use(limits, results.counters, row)


def ceilings_table(results, stage):
    """Every variant of a rung, at the size of its details."""
    limits = load(results)
    if limits is None:
        return [NOT_MEASURED]
    named = [
        (f"**{variant}**" if results.any_row(stage, variant)["result"] else variant, stage, variant)
        for variant in results.variants(stage)
    ]
    return table_of_uses(limits, results, "variant", named)


def rungs_table(results, numbers):
    """The result variant of every rung, likewise."""
    limits = load(results)
    if limits is None:
        return [NOT_MEASURED]
    named = []
    for number in numbers:
        row = results.any_row(number, "result")
        if row:
            named.append((f"{number} `{row['variant']}`", number, "result"))
    return table_of_uses(limits, results, "rung", named)


def table_of_uses(limits, results, what, named):
    """named: [(label, rung, variant)]"""
    header = [what] + [title for title, _ in RESOURCES.values()]
    header += ["closest ceiling", "of the instruction alone, burst / sustained"]
    lines, sizes, changed = [], {}, False
    for label, stage, variant in named:
        size = results.detail_size(stage)
        uses = [use_of(limits, results, stage, variant, size, regime) for regime in REGIMES]
        if uses == [None, None]:
            continue
        burst = uses[0]
        cells = [burst.cell(one) if burst else DASH for one in RESOURCES]
        cells += [burst.binding_cell() if burst else DASH]
        cells += [" / ".join(use.alone_cell() if use else DASH for use in uses)]
        lines.append([label] + cells)
        sizes[label] = size
        changed |= any(use and use.tile is None for use in uses)
    if not lines:
        return [NOT_BENCHED]
    usual = max(sizes.values())
    others = [f"{label} at {size}³" for label, size in sizes.items() if size != usual]
    caption = (
        f"At {', '.join([f'{usual}³'] + others)}, burst. *X of Y*: what it takes of what there is, a "
        "clock and SM at its own clock, of L2 and DRAM a second; bold: the largest share. FLOP, shared "
        "memory and L2→SM are derived from the tile, L2 reads and DRAM are counted."
    )
    if changed:
        caption += (
            " A kernel has changed since its tile was written down: `python3 scripts/limits.py "
            "--tiles`."
        )
    return markdown(header, lines) + ["", caption]


# --- the plot ------------------------------------------------------------------------------------

PANELS = {"smem": "shared memory", "l2": "L2 to the SMs", "dram": "DRAM"}
WIDTH, HEIGHT, TOP, BOTTOM, LEFT = 860, 420, 62, 44, 44
PANEL, GAP = 250, 22  # width of a panel, and between two
MULTIPLIERS = {"wgmma n256": "wgmma", "mma.sync": "mma.sync", "fma": "fma"}
SAME_PLACE = 9  # points that are closer share their label


def slopes(limits, panel, clocks):
    """[(label, bytes a clock and SM)] of what memory can do, the largest last. L2 and DRAM have clocks
    of their own: their bytes a second are divided by `clocks`, those of all SMs in a second."""
    regime = REGIMES[0]
    if panel == "smem":
        value = limits.highest(panel, regime, "per_clock")
        return [(f"{value:.0f} B", value)] if value else []
    keys = {"value": ""}
    if panel == "l2":
        keys = {"l2_read_value": ", distinct", "value": ", shared"}
    found = [(which, limits.highest(panel, regime, key)) for key, which in keys.items()]
    return [(f"{speed:.1f} TB/s{which}", speed * 1e12 / clocks) for which, speed in found if speed]


def number_list(numbers):
    """ "1, 3, 4, 6–8" of these numbers in any order."""
    runs = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = []
    for first, last in runs:
        is_long = last - first > 1
        texts += [f"{first}–{last}"] if is_long else map(str, range(first, last + 1))
    return ", ".join(texts)


class Panel:
    def __init__(self, index, name, limits, uses, low, high):
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

    def x(self, place):
        share = math.log(place / self.first) / math.log(self.last / self.first)
        return self.left + PANEL * share

    def y(self, speed):
        share = math.log(speed / self.low) / math.log(self.high / self.low)
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)

    def axes(self, drawing):
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

    def ceilings(self, drawing):
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
                self.tilted(drawing, label, *ends, below=label.endswith("distinct"))

    def tilted(self, drawing, words, start, end, below):
        """Words along a slope, at its lower end."""
        (x1, y1), (x2, y2) = start, end
        angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
        share = 0.06
        x, y = x1 + (x2 - x1) * share, y1 + (y2 - y1) * share
        drawing.text(words, x, y + (11 if below else -4), turn=angle)

    def marks(self, drawing):
        """A point a rung, the number beside it; points in one place share their numbers."""
        points = [(n, self.x(place), self.y(speed)) for n, place, speed in self.points]
        taken = [(x - 4, y - 4, x + 4, y + 4) for _, x, y in points]
        # Below a roof, its line; above it stands its label.
        taken += [(self.left, self.y(v) - 1, self.left + PANEL, self.y(v) + 1) for _, v in self.roofs]
        places = []  # [numbers, x, y]
        for number, x, y in sorted(points, key=lambda point: point[2]):
            drawing.circle("blue", x, y, 3.5)
            near = [p for p in places if abs(p[1] - x) < SAME_PLACE and abs(p[2] - y) < SAME_PLACE]
            if near:
                near[0][0].append(number)
            else:
                places.append([[number], x, y])
        for numbers, x, y in sorted(places, key=lambda place: place[1]):
            self.label(drawing, number_list(numbers), x, y, taken)

    def label(self, drawing, words, x, y, taken):
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


def roofline(results, numbers):
    """Each rung's result variant below the ceilings, as a Drawing: a panel for each memory."""
    drawing = Drawing(
        WIDTH, HEIGHT,
        "FLOP a clock and SM of every rung's result variant over its FLOP for each byte of shared "
        "memory, of L2 and of DRAM, with the measured ceilings",
    )  # fmt: skip
    limits, uses = load(results), {}
    for number in numbers if limits else []:
        size = results.detail_size(number)
        use = use_of(limits, results, number, "result", size, REGIMES[0]) if size else None
        if use and use.flop_per_byte:
            uses[number] = use
    if not uses:
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
