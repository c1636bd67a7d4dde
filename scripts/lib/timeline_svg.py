"""Draws a timeline: one CTA, a row for each role and slot; and the piece of one that the pages
show."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from lib.cli import Problem
from lib.svg import Drawing, text_width
from lib.timeline import Document, Event, Slots, at_peak, title

Placed = tuple[Event, int]  # an event, and its layer in a row

WIDTH, LEFT, RIGHT, TOP, ROW, GAP = 860, 132, 26, 44, 16, 6
COLORS = {
    "wait full": "gray", "wait empty": "red", "wait wgmma": "purple", "wait cp.async": "gray",
    "wait bulk": "purple", "wait other": "ocher", "bar": "teal", "TMA load": "blue",
    "TMA store": "orange", "cp.async": "blue", "wgmma": "green", "epilogue": "orange",
    "peak": "green",
}  # fmt: skip
LEGEND = [("blue", "copy"), ("green", "wgmma"), ("orange", "epilogue, store"),
          ("gray", "waits for full slot"), ("red", "waits for empty slot"),
          ("ocher", "waits for another role"), ("purple", "waits for own groups"),
          ("teal", "barrier")]  # fmt: skip


def color(event: Event, slots: Slots) -> str:
    word, _ = slots.of(event)
    name = f"wait {word or 'other'}" if event.name == "wait mbarrier" else event.name
    return COLORS.get(name, "")


def roles(events: Iterable[Event]) -> list[tuple[str, int]]:
    """[(label, first warp)] of the warps to draw: one of each run of neighbours alike, and each
    storer, since it serves a consumer of its own."""
    done: dict[int, set[str]] = collections.defaultdict(set)
    for event in events:
        done[event.warp].add("wait" if event.name.startswith("wait") else event.name)
    idle = {warp for warp, names in done.items() if names == {"bar"}}

    def alike(place: tuple[int, int]) -> object:
        """The same for neighbours of one role; of a run of them warp - index is the same, too."""
        index, warp = place
        group = warp // 4 if "wgmma" in done[warp - warp % 4] else -1
        copies = done[warp] & {"TMA load", "TMA store"} if group < 0 else ()
        storer = warp if "TMA store" in copies else -1
        return group, warp in idle, sorted(copies), storer, warp - index

    by_role = itertools.groupby(enumerate(sorted(done)), alike)
    runs = [[warp for _, warp in run] for _, run in by_role]
    return [(role_name(run[0], run[-1], done), run[0]) for run in runs if run[0] not in idle]


def role_name(first: int, last: int, done: dict[int, set[str]]) -> str:
    if "wgmma" in done[first]:
        last = max(last, first // 4 * 4 + 3)  # a warpgroup, of which one warp may stand for all
    warps = f"warp {first}" if first == last else f"warps {first}–{last}"

    def only(name: str, names: set[str]) -> bool:
        return name in names and not names & {"wgmma", "epilogue"}

    if only("TMA load", done[first]):
        return warps + ", producer"
    if only("TMA store", done[first]):
        return warps + ", storer"
    is_consumer = any(only("TMA load", names) for names in done.values())
    return warps + (", consumer" if is_consumer else "")


def layers(intervals: Iterable[Event]) -> list[Placed]:
    """Overlapping intervals spread over as few layers as need be: [(event, layer)]."""
    ends: list[float] = []
    placed: list[Placed] = []
    for event in sorted(intervals, key=lambda e: e.begin):
        layer = next((i for i, end in enumerate(ends) if end <= event.begin), len(ends))
        ends[layer:layer + 1] = [event.end]
        placed.append((event, layer))
    return placed


def rows_to_draw(
    events: list[Event], seen: list[Event], slots: Slots, named: list[tuple[str, int]] | None = None
) -> list[tuple[str, list[Placed]]]:
    """[(label, [(event, layer)])] of the events seen: the warps of each role that there is, each
    with its wgmma groups, and the slots. `named`: the roles, where the events do not tell."""
    rows: list[tuple[str, list[Placed]]] = []
    for label, warp in named or roles(events):
        own = [e for e in seen if e.warp == warp]
        does = [e for e in own if e.name.startswith("wait") or e.name in ("bar", "epilogue")]
        rows.append((label, [(e, 0) for e in does] + [(e, 0) for e in own if e.name == "arrive"]))
        groups = [e for e in own if e.name in ("wgmma", "cp.async")]
        if groups:
            rows.append(("its wgmma" if groups[0].name == "wgmma" else "its copies",
                         layers(groups)))  # fmt: skip
    by_slot: dict[str, list[Event]] = collections.defaultdict(list)
    elsewhere = slots.goes_elsewhere(events)
    for event in events:
        if event.name in ("TMA load", "TMA store") and event not in elsewhere:
            stores = event.name == "TMA store"
            by_slot["stores" if stores else f"slot {slots.of(event)[1]}"].append(event)
    for label in sorted(by_slot):
        rows.append((label, layers(e for e in by_slot[label] if e in seen)))
    return rows


def ticks(span: float) -> int:
    """Step between grid lines: 1, 2 or 5 times a power of ten, at most 15 of them."""
    steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    return next(step for step in steps if span / step <= 15)


def draw(
    events: list[Event], head: Document, cta: int, start: float | None = None,
    span: float | None = None,
) -> Drawing:  # fmt: skip
    """One CTA as a Drawing: all of it, or `span` clocks from `start` on."""
    events = sorted((e for e in events if e.cta == cta), key=lambda e: (e.begin, e.end, e.warp))
    if not events:
        raise Problem(f"CTA {cta} is not in the trace")
    slots = Slots(events)
    first = min(e.begin for e in events) if start is None else start
    last = max(e.end for e in events)
    end = last if span is None else first + span
    seen = [e for e in events if e.end >= first and e.begin < end]
    rows = rows_to_draw(events, seen, slots, head.get("roles"))
    at_once = [Event("peak", cta, 0, *times, {}) for times in at_peak(events)]
    peak = [(e, 0) for e in at_once if e.end >= first and e.begin < end]
    if peak:
        rows.append(("tensor cores, at peak", peak))
    lines = captions(head, cta)
    bottom = TOP + len(rows) * (ROW + GAP)
    drawing = Drawing(WIDTH, bottom + 22 + 14 * len(lines),
                      f"Who waited on what in CTA {cta} of {head['kernel']}")  # fmt: skip

    def x(time: float) -> float:
        inside = min(max(time, first), end) - first
        return LEFT + (WIDTH - LEFT - RIGHT) * inside / max(end - first, 1)

    for tick in range(0, int(end - first) + 1, ticks(max(end - first, 1))):
        drawing.line("line-gray thin", x(first + tick), TOP - 4, x(first + tick), bottom)
        drawing.note(f"{tick:,}", x(first + tick), bottom + 10, "middle")
    for index, (label, placed) in enumerate(rows):
        y = TOP + index * (ROW + GAP)
        drawing.text(label, LEFT - 6, y + 11, "end")
        drawing.rect("none faint", LEFT, y, WIDTH - LEFT - RIGHT, ROW)
        count = 1 + max((layer for _, layer in placed), default=0)
        for event, layer in placed:
            mark(drawing, event, slots, x, y + ROW * layer / count, ROW / count)
    legend(drawing, rows, slots)
    for index, words in enumerate(lines):
        drawing.note(words, 12, bottom + 28 + 14 * index)
    return drawing


def captions(head: Document, cta: int) -> list[str]:
    clock = (
        f"cycles of an illustrative model clock, {head['device']}; no measurement"
        if head["clock"] == "model" else
        f"SM clocks, stamps on one {head['device']}; a copy ends where it was waited for"
    )  # fmt: skip
    lines = [f"{head.get('what', head['kernel'])}, CTA {cta}: {clock}"]
    if head.get("span") and head.get("need"):
        under, need = (100 * head[key] / head["span"] for key in ("under", "need"))
        lines.append(
            f"In the whole CTA some wgmma is in flight {under:.0f} % of the clocks; its products "
            f"need {need:.0f} % of them at the tensor cores' peak."
        )
    if head.get("plain_us"):
        us, plain_us = head["us"], head["plain_us"]
        lines.append(f"With stamps a launch took {us:,.1f} µs, without {plain_us:,.1f} µs.")
    return lines


def mark(
    drawing: Drawing, event: Event, slots: Slots, x: Callable[[float], float], y: float,
    height: float,
) -> None:  # fmt: skip
    begin, end = x(event.begin), x(event.end)
    tip = f"{title(event, slots)}: {event.end - event.begin:,.0f} clocks"
    tip += f", {event.args['place'].split('  ')[0]}" if event.args.get("place") else ""
    if event.name == "arrive":
        drawing.line("line-gray", begin, y, begin, y + height / 3, tip)
    else:
        drawing.rect(color(event, slots), begin, y, max(end - begin, 0.6), height - 0.5, tip)


def legend(drawing: Drawing, rows: list[tuple[str, list[Placed]]], slots: Slots) -> None:
    used = {color(event, slots) for _, placed in rows for event, _ in placed}
    at: float = 12
    for kind, words in LEGEND:
        if kind in used:
            drawing.rect(kind, at, 14, 10, 10)
            drawing.text(words, at + 14, 23)
            at += 26 + text_width(words, 10)


# --- what is published ---------------------------------------------------------------------------

PUBLISHED_SPAN = 14000  # clocks, of each timeline on the pages
BEFORE_EPILOGUE = 6000  # of them
HEAD_KEYS = ("kernel", "kernel_hash", "what", "stage", "variant", "m", "n", "k", "device",
             "toolkit", "clock", "cta", "us", "plain_us", "span", "under", "need", "start")  # fmt: skip
EVENT_KEYS = ("mbarrier", "pending", "clocks")


def window(events: list[Event], cta: int) -> int:
    """The start of a piece of a CTA's work with an epilogue in it: of all such pieces the one in
    the middle, by how busy the tensor cores are in it."""
    own = [e for e in events if e.cta == cta]
    last = max(e.end for e in own) - PUBLISHED_SPAN
    begins = [e.begin - BEFORE_EPILOGUE for e in own if e.name == "epilogue"]
    starts = {max(0, round(min(start, last))) for start in begins}
    if not starts:
        raise Problem(f"CTA {cta} has no epilogue in the trace")
    products = at_peak(own)

    def busy_clocks(start: int) -> float:
        end = start + PUBLISHED_SPAN
        return sum(max(0, min(e, end) - max(b, start)) for b, e in products)

    ordered = sorted(starts, key=lambda start: (busy_clocks(start), start))
    return ordered[len(ordered) // 2]


def cut(events: list[Event], head: Document) -> Document:
    """A row of docs/results/<gpu>.traces.json: the piece of one CTA that the pages show."""
    cta = min(e.cta for e in events)
    start = window(events, cta)
    shown: list[list[Any]] = []
    own = [e for e in events if e.cta == cta]
    named = roles(own)  # here, since a storer may store nothing in the piece
    warps = {warp for _, warp in named}
    for e in own:
        if e.warp in warps and e.end >= start and e.begin < start + PUBLISHED_SPAN:
            args = {key: e.args[key] for key in EVENT_KEYS if e.args.get(key) is not None}
            times = [round(time) - start for time in (e.begin, e.end)]
            shown.append([e.name, e.warp, *times, args])
    known = {key: head.get(key) for key in HEAD_KEYS}
    return {**known, "cta": cta, "start": start, "roles": named, "events": shown}


def draw_row(row: Document) -> Drawing:
    """The Drawing of a row of docs/results/<gpu>.traces.json."""
    events = [Event(name, row["cta"], *rest) for name, *rest in row["events"]]
    return draw(events, row, row["cta"], 0, PUBLISHED_SPAN)
