"""A timeline: its events, the slots of a ring that their mbarriers stand for, its file, and how
busy the tensor cores are in it. trace.py --help says what the events are."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

Document = dict[str, Any]

PER_TS = 1000  # clocks in one unit of ts
RANK = 1 << 24  # in a shared address of the cluster, one CTA behind the other
FIRST_SLOT_TID = 1000  # rows of flights in Perfetto; a warp's wgmma: FIRST_WGMMA_TID + warp
FIRST_WGMMA_TID = 2000


class Event(NamedTuple):
    name: str
    cta: int
    warp: int
    begin: float  # clocks, as end
    end: float
    args: dict[str, Any]


def read_document(document: Document) -> list[Event]:
    """Events of a file that the PTX machine or write_document() made, times in clocks."""
    events = []
    for e in document["traceEvents"]:
        if e["ph"] in "Xi":
            args = dict(e.get("args", {}))
            for key in ("mbarrier", "smem"):
                if isinstance(args.get(key), str):
                    args[key] = int(args[key], 0)
            begin = e["ts"] * PER_TS
            tid = args.pop("warp", e["tid"])
            name = args.pop("event", e["name"])
            end = begin + e.get("dur", 0) * PER_TS
            events.append(Event(name, e["pid"], tid, begin, end, args))
    return events


class Slots:
    """The ring of each CTA: which mbarrier belongs to which slot."""

    def __init__(self, events: list[Event]) -> None:
        full: dict[int, set[int]] = collections.defaultdict(set)
        awaited: dict[int, set[int]] = collections.defaultdict(set)
        loaders = {(e.cta, e.warp) for e in events if e.name == "TMA load"}
        for event in events:
            barrier = self.barrier(event)
            if barrier is None:
                continue
            if event.name == "TMA load" or "tx" in event.args:
                full[event.cta].add(barrier)
            elif event.name == "wait mbarrier" and (event.cta, event.warp) in loaders:
                awaited[event.cta].add(barrier)
        self.names: dict[tuple[int, int | None], tuple[str, int]] = {}
        for cta in set(full) | set(awaited):
            for word, barriers in (("full", full[cta]), ("empty", awaited[cta] - full[cta])):
                for index, barrier in enumerate(sorted(barriers)):
                    self.names[cta, barrier] = (word, index)

    def of(self, event: Event) -> tuple[str, int]:
        """("full" or "empty", slot) of an event's mbarrier; ("", 0) of one of another kind."""
        return self.names.get((event.cta, self.barrier(event)), ("", 0))

    @staticmethod
    def barrier(event: Event) -> int | None:
        """The address without the rank of its CTA in the cluster."""
        address = event.args.get("mbarrier")
        return None if address is None else address % RANK

    @staticmethod
    def goes_elsewhere(events: list[Event]) -> list[Event]:
        """Copies that land in another CTA of the cluster: a CTA waits at its own barriers only."""
        ranks = {e.args["mbarrier"] // RANK for e in events if e.name == "wait mbarrier"}
        loads = [e for e in events if e.name == "TMA load"]
        return [e for e in loads if e.args["mbarrier"] // RANK not in ranks]


def title(event: Event, slots: Slots) -> str:
    word, slot = slots.of(event)
    if event.name in ("wait mbarrier", "arrive") and word:
        return f"{event.name.split()[0]} {word} {slot}"
    return event.name


def row_of(event: Event, slots: Slots) -> int:
    """Perfetto nests what shares a row: flights and wgmma groups, which overlap, get their own."""
    if event.name in ("TMA load", "TMA store", "cp.async"):
        return FIRST_SLOT_TID + slots.of(event)[1]
    return FIRST_WGMMA_TID + event.warp if event.name == "wgmma" else event.warp


def write_document(events: list[Event], head: Document) -> Document:
    slots = Slots(events)
    out: list[Document] = []
    rows: dict[tuple[int, int], Event] = {}
    for e in sorted(events, key=lambda e: (e.cta, e.begin)):
        tid = row_of(e, slots)
        entry = {"name": title(e, slots), "cat": e.name, "ph": "X", "pid": e.cta, "tid": tid,
                 "ts": e.begin / PER_TS, "dur": (e.end - e.begin) / PER_TS,
                 "args": dict(e.args, warp=e.warp, event=e.name)}  # fmt: skip
        if e.name == "arrive":
            entry.update(ph="i", s="t")
            del entry["dur"]
        out.append(entry)
        rows[e.cta, tid] = e
    for (cta, tid), e in sorted(rows.items()):
        name = f"warp {e.warp}"
        if tid >= FIRST_WGMMA_TID:
            name += ", wgmma"
        elif tid >= FIRST_SLOT_TID:
            name = f"slot {tid - FIRST_SLOT_TID}"
        out.append({"ph": "M", "name": "thread_name", "pid": cta, "tid": tid,
                    "args": {"name": name}})  # fmt: skip
    for cta in sorted({e.cta for e in events}):
        out.append({"ph": "M", "name": "process_name", "pid": cta, "args": {"name": f"CTA {cta}"}})
    return {"traceEvents": out, "otherData": head, "displayTimeUnit": "ns"}


def busy(events: list[Event], cta: int) -> tuple[float, float, float]:
    """(clocks from the first wgmma to the end, clocks under some wgmma, clocks that the tensor
    cores need for them at their peak) of a CTA; the last is 0 where the trace does not say."""
    groups = sorted((e.begin, e.end) for e in events if e.cta == cta and e.name == "wgmma")
    if not groups:
        return 0, 0, 0
    under: float = 0
    reached = groups[0][0]
    for begin, end in groups:
        under += max(0, end - max(begin, reached))
        reached = max(reached, end)
    last = max(e.end for e in events if e.cta == cta)
    # All four warps of a warpgroup start a group together.
    need = sum(e.args.get("clocks", 0) for e in events
               if e.cta == cta and e.name == "wgmma" and e.warp % 4 == 0)  # fmt: skip
    return last - groups[0][0], under, need


def at_peak(events: list[Event]) -> list[tuple[float, float]]:
    """When the tensor cores would have been busy at their peak rate: each group's products, as late
    as its end and those of the groups behind it allow. [(begin, end)]"""
    groups = [e for e in events if e.name == "wgmma" and e.warp % 4 == 0 and e.args.get("clocks")]
    found, free = [], float("inf")
    for event in sorted(groups, key=lambda e: -e.end):
        end = min(event.end, free)
        free = end - event.args["clocks"]
        found.append((free, end))
    return found[::-1]
