"""Makes events of a timeline out of the clock stamps that a rewritten kernel left on a GPU."""

from __future__ import annotations

import bisect
import collections
import struct
from typing import Any, NamedTuple

from lib import stamps
from lib.cli import Problem
from lib.timeline import Event

HEAD = struct.Struct("<QQQQII")  # clock64, globaltimer; both at the end; records, smid
RECORD = struct.Struct("<II")  # clock, site << TRACE_ARGUMENT_BITS | argument
SITE, FIRST_CTA = "// trace site: ", "// trace first CTA: "


class Site(NamedTuple):
    event: str
    clocks: list[int]
    place: str


class Stamps(NamedTuple):
    begin: int
    end: int
    records: list[tuple[int, int, int]]  # clock, site, argument


def read_sites(ptx: str) -> dict[int, Site]:
    """{number: Site} for what the stamps of a rewritten module mean."""
    sites = {}
    for line in ptx.splitlines():
        if line.startswith(SITE):
            number, _, event, clocks, place = line[len(SITE):].split("|", 4)
            sites[int(number)] = Site(event, [int(c) for c in clocks.split(",") if c], place)
    return sites


def read_records(dump: bytes) -> tuple[dict[tuple[int, int], Stamps], float]:
    """{(cta, warp): Stamps} and the clocks of a microsecond. Clocks count from the first CTA's
    entry; %globaltimer says how much later another SM's CTA began."""
    lists, stride = {}, stamps.TRACE_LIST_BYTES
    for index in range(len(dump) // stride):
        head = HEAD.unpack_from(dump, index * stride)
        at = index * stride + stamps.TRACE_HEAD_BYTES
        if head[0]:
            records = list(RECORD.iter_unpack(dump[at:at + head[4] * RECORD.size]))
            lists[divmod(index, stamps.TRACE_WARPS)] = (head, records)
    if not lists:
        raise Problem("the kernel left no clock stamps")
    first: dict[int, tuple[int, int]] = {}  # of a CTA: (globaltimer, clock64)
    for (cta, _), (head, _) in lists.items():
        first[cta] = min(first.get(cta, (head[1], head[0])), (head[1], head[0]))
    longest = max((head for head, _ in lists.values()), key=lambda head: head[3] - head[1])
    rate = (longest[2] - longest[0]) / max(1, longest[3] - longest[1])  # clocks a nanosecond
    origin = min(timer for timer, _ in first.values())
    timed = {}
    for key, (head, records) in lists.items():
        timer, clock = first[key[0]]
        shift = round((timer - origin) * rate) - clock
        begin, bits = head[0], stamps.TRACE_ARGUMENT_BITS
        timed[key] = Stamps(begin + shift, head[2] + shift, sorted(
            (begin + shift + (low - begin) % 2**32, (word >> bits) % (stamps.TRACE_SITES + 1),
             word % 2**bits) for low, word in records
        ))  # fmt: skip
    return timed, rate * 1000


class WarpReader:
    """Turns one warp's stamps into events. An interval whose beginning has no stamp begins with the
    stamp before it."""

    def __init__(self, cta: int, warp: int, sites: dict[int, Site]) -> None:
        self.cta, self.warp, self.sites = cta, warp, sites
        self.events: list[Event] = []
        self.open: dict[str, float] = {}
        self.groups: dict[str, collections.deque[Any]] = collections.defaultdict(collections.deque)
        # A producer comes past the end of an epilogue, but only who multiplied had one.
        self.no_epilogue = any(site.clocks for site in sites.values())

    def add(self, name: str, begin: float, end: float, **args: Any) -> None:
        self.events.append(Event(name, self.cta, self.warp, begin, end, args))

    def read(self, stamps: Stamps) -> list[Event]:
        last = stamps.begin
        for time, number, argument in stamps.records:
            site = self.sites[number]
            name, _, edge = site.event.rpartition(" ")
            if edge == "begin":
                self.open[name] = time
            elif edge == "end":
                self.close(name, self.open.pop(name, last), time, argument, site.place)
                self.groups["wgmma"] += [(time, {"clocks": clocks}) for clocks in site.clocks]
                self.no_epilogue &= not site.clocks
            elif edge == "commit":
                self.groups[name].append((last, {}))
            elif site.event == "TMA store":
                self.groups["bulk"].append((time, {"smem": argument}))
            else:
                self.add(site.event, time, time, mbarrier=argument, place=site.place)
            last = time
        return self.events

    def close(self, name: str, begin: float, end: float, argument: int, place: str) -> None:
        if name == "wait":
            self.add("wait mbarrier", begin, end, mbarrier=argument, place=place)
        elif name.endswith(" wait"):
            of = name[:-len(" wait")]
            self.add(f"wait {of}", begin, end, pending=argument, place=place)
            while len(self.groups[of]) > argument:
                started, args = self.groups[of].popleft()
                self.add("TMA store" if of == "bulk" else of, started, end, **args)
        elif name != "epilogue" or not self.no_epilogue:
            self.add(name, begin, end, place=place)


def land_loads(events: list[Event]) -> list[Event]:
    """A GPU does not say when a copy has landed: a flight ends with the first wait on its barrier
    that ends after it began."""
    waits = collections.defaultdict(list)
    for event in events:
        if event.name == "wait mbarrier":
            waits[event.cta, event.args["mbarrier"]].append(event.end)
    for ends in waits.values():
        ends.sort()
    out = []
    for event in events:
        if event.name == "TMA load":
            ends = waits[event.cta, event.args["mbarrier"]]
            at = bisect.bisect_right(ends, event.begin)
            event = event._replace(end=ends[at] if at < len(ends) else event.begin)
        out.append(event)
    return out


def meet(events: list[Event]) -> list[Event]:
    """A warp reads the clock behind a bar.sync before the barrier holds it up. So the n-th barrier
    of a CTA ends when the last of its warps has come, and what follows there begins then; if its
    warps do not all have as many, the stamps stand."""
    bars: dict[int, dict[int, list[int]]] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    following: dict[tuple[int, int, float], int] = {}
    for index, event in enumerate(events):
        if event.name == "bar":
            bars[event.cta][event.warp].append(index)
        elif (event.cta, event.warp, event.begin) not in following:
            following[event.cta, event.warp, event.begin] = index
    out = list(events)
    for warps in bars.values():
        if len({len(indices) for indices in warps.values()}) > 1:
            continue
        for together in zip(*warps.values()):
            last = max(events[index].begin for index in together)
            for index in together:
                event = events[index]
                if event.end < last:
                    out[index] = event._replace(end=last)
                    after = following.get((event.cta, event.warp, event.end))
                    if after is not None:
                        begin = min(last, events[after].end)
                        out[after] = events[after]._replace(begin=begin)
    return out


def read_gpu(ptx: str, dump: bytes) -> tuple[list[Event], float]:
    """Events in SM clocks, and the clocks of a microsecond."""
    sites = read_sites(ptx)
    [first] = (line[len(FIRST_CTA):] for line in ptx.splitlines() if line.startswith(FIRST_CTA))
    lists, mhz = read_records(dump)
    events: list[Event] = []
    for (cta, warp), of_warp in sorted(lists.items()):
        events += WarpReader(int(first) + cta, warp, sites).read(of_warp)
    return land_loads(meet(events)), mhz
