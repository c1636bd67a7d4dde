#!/usr/bin/env python3
"""A timeline of who waited on what. Python standard library only.

    trace.py PROGRAM NN_name.ptx OUT [OPTIONS]   runs one variant and writes OUT.json, for
                                                 https://ui.perfetto.dev, and OUT.svg
    trace.py --draw OUT.json FILE.svg [--cta C] [--start T] [--span T]
    trace.py --keep OUT.json RESULTS             puts a piece of a GPU's trace into a file such as
                                                 docs/results/h200.traces.json, for `make figures`

On a GPU the kernel's PTX is rewritten with clock stamps (scripts/rewrite_ptx.py), so that its
source stays untouched, and the last of many launches is kept; the stamps themselves cost some
clocks each. Without one, or with LADDER_DEVICE=machine, the kernel runs on the PTX machine, whose
clock is an illustrative model. OPTIONS are the program's; without them the shape is 8192 cubed on a
GPU and a small one on the machine, the variant the one that stands for the rung. T is in clocks, of
an SM or of the model.

THE EVENTS

The PTX machine writes this when MACHINE_TRACE=FILE is set; a run on a GPU is brought into the same
form. It is Chrome's trace-event JSON: {"traceEvents": [...], "otherData": {...}}.

  otherData  "clock": "model" or "gpu", "device": "PTX machine" or the GPU's name, "kernel": mangled
             name, "grid", "block", "cluster": three numbers each
  events     {"ph": "X", "name", "ts", "dur", "pid", "tid", "args"}, and "ph": "i" without "dur"
             pid: the CTA, x + y * gridDim.x; tid: the warp in the CTA that executed it, for a copy
             and for wgmma the one that started it (of a warpgroup, its first)
             ts, dur: a clock, of the SM or of the model, counts as 0.001

  name             what the interval is                                  args, all optional but *
  wait mbarrier    from the first try_wait to the one that returned true  *mbarrier, parity
  wait wgmma       in wgmma.wait_group                                    pending
  wait cp.async    in cp.async.wait_group                                 pending
  wait bulk        in cp.async.bulk.wait_group                            pending
  bar              in bar.sync or barrier.cluster.wait                    barrier
  TMA load         from its issue until its bytes are counted             mbarrier, smem, bytes
  TMA store        from its issue until it has read shared memory         smem, bytes
  cp.async         from the commit of a group until it has landed
  wgmma            from the first mma_async of a group until it is done   clocks, at their peak
  epilogue         stores to global memory, or stmatrix, of one tile
  arrive           instant: mbarrier.arrive in any form                   *mbarrier, tx (bytes)

mbarrier and smem are shared addresses, as numbers or "0x..."; every event may have args.place, the
line of the stage file. A barrier that copies complete is a full barrier, another that their warp
waits for an empty one; they are numbered as slots by their addresses.
"""

import argparse
import bisect
import collections
import json
import os
import re
import struct
import subprocess
import sys

from lib import stamps
from lib.cli import ROOT, Problem
from lib.ptx import load
from lib.replace import gpu_run, has_gpu, machine_run
from lib.svg import Drawing, text_width
from lib.tools import DEFAULT_SIZE, chosen, given, toolkit

SMALL = {"--m": "256", "--n": "512", "--k": "640"}
PERSISTENT_GRID = "--grid=2"  # CTAs, so that each has more than one tile, and a cluster fits

Event = collections.namedtuple("Event", "name cta warp begin end args")  # begin, end: clocks


# --- clock stamps of a GPU -----------------------------------------------------------------------

HEAD = struct.Struct("<QQQQII")  # clock64, globaltimer; both at the end; records, smid
RECORD = struct.Struct("<II")  # clock, site << TRACE_ARGUMENT_BITS | argument
SITE, FIRST_CTA = "// trace site: ", "// trace first CTA: "

Site = collections.namedtuple("Site", "event clocks place")
Stamps = collections.namedtuple("Stamps", "begin end records")  # records: [(clock, site, argument)]


def read_sites(ptx):
    """{number: Site} for what the stamps of a rewritten module mean."""
    sites = {}
    for line in ptx.splitlines():
        if line.startswith(SITE):
            number, _, event, clocks, place = line[len(SITE):].split("|", 4)
            sites[int(number)] = Site(event, [int(c) for c in clocks.split(",") if c], place)
    return sites


def read_records(dump):
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
    first = {}  # of a CTA: (globaltimer, clock64)
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

    def __init__(self, cta, warp, sites):
        self.cta, self.warp, self.sites = cta, warp, sites
        self.events, self.open, self.groups = [], {}, collections.defaultdict(collections.deque)
        # A producer comes past the end of an epilogue, but only who multiplied had one.
        self.no_epilogue = any(site.clocks for site in sites.values())

    def add(self, name, begin, end, **args):
        self.events.append(Event(name, self.cta, self.warp, begin, end, args))

    def read(self, stamps):
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

    def close(self, name, begin, end, argument, place):
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


def land_loads(events):
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


def meet(events):
    """A warp reads the clock behind a bar.sync before the barrier holds it up. So the n-th barrier of
    a CTA ends when the last of its warps has come, and what follows there begins then; if its warps
    do not all have as many, the stamps stand."""
    bars, following = collections.defaultdict(lambda: collections.defaultdict(list)), {}
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


def read_gpu(ptx, dump):
    """Events in SM clocks, and the clocks of a microsecond."""
    sites = read_sites(ptx)
    [first] = (line[len(FIRST_CTA):] for line in ptx.splitlines() if line.startswith(FIRST_CTA))
    lists, mhz = read_records(dump)
    events = []
    for (cta, warp), stamps in sorted(lists.items()):
        events += WarpReader(int(first) + cta, warp, sites).read(stamps)
    return land_loads(meet(events)), mhz


# --- how busy the tensor cores are ---------------------------------------------------------------


def busy(events, cta):
    """(clocks from the first wgmma to the end, clocks under some wgmma, clocks that the tensor
    cores need for them at their peak) of a CTA; the last is 0 where the trace does not say."""
    groups = sorted((e.begin, e.end) for e in events if e.cta == cta and e.name == "wgmma")
    if not groups:
        return 0, 0, 0
    under, reached = 0, groups[0][0]
    for begin, end in groups:
        under += max(0, end - max(begin, reached))
        reached = max(reached, end)
    last = max(e.end for e in events if e.cta == cta)
    # All four warps of a warpgroup start a group together.
    need = sum(e.args.get("clocks", 0) for e in events
               if e.cta == cta and e.name == "wgmma" and e.warp % 4 == 0)  # fmt: skip
    return last - groups[0][0], under, need


# --- the file ------------------------------------------------------------------------------------

PER_TS = 1000  # clocks in one unit of ts
RANK = 1 << 24  # in a shared address of the cluster, one CTA behind the other
FIRST_SLOT_TID = 1000  # rows of flights in Perfetto; a warp's wgmma: FIRST_WGMMA_TID + warp
FIRST_WGMMA_TID = 2000


def number(value):
    return int(value, 0) if isinstance(value, str) else value


def read_document(document):
    """Events of a file in the form above, times in clocks."""
    events = []
    for e in document["traceEvents"]:
        if e["ph"] in "Xi":
            args = dict(e.get("args", {}))
            for key in ("mbarrier", "smem"):
                if args.get(key) is not None:
                    args[key] = number(args[key])
            begin = e["ts"] * PER_TS
            tid = args.pop("warp", e["tid"])
            events.append(
                Event(e["name"], e["pid"], tid, begin, begin + e.get("dur", 0) * PER_TS, args))
    return events


class Slots:
    """The ring of each CTA: which mbarrier belongs to which slot."""

    def __init__(self, events):
        full, awaited = collections.defaultdict(set), collections.defaultdict(set)
        loaders = {(e.cta, e.warp) for e in events if e.name == "TMA load"}
        for event in events:
            barrier = self.barrier(event)
            if barrier is not None and (event.name == "TMA load" or "tx" in event.args):
                full[event.cta].add(barrier)
            elif event.name == "wait mbarrier" and (event.cta, event.warp) in loaders:
                awaited[event.cta].add(barrier)
        self.names = {}
        for cta in set(full) | set(awaited):
            for word, barriers in (("full", full[cta]), ("empty", awaited[cta] - full[cta])):
                for index, barrier in enumerate(sorted(barriers)):
                    self.names[cta, barrier] = (word, index)

    def of(self, event):
        """("full" or "empty", slot) of an event's mbarrier; ("", 0) of one of another kind."""
        return self.names.get((event.cta, self.barrier(event)), ("", 0))

    @staticmethod
    def barrier(event):
        """The address without the rank of its CTA in the cluster."""
        address = event.args.get("mbarrier")
        return None if address is None else address % RANK

    @staticmethod
    def goes_elsewhere(events):
        """Copies that land in another CTA of the cluster: a CTA waits at its own barriers only."""
        ranks = {e.args["mbarrier"] // RANK for e in events if e.name == "wait mbarrier"}
        loads = [e for e in events if e.name == "TMA load"]
        return [e for e in loads if e.args["mbarrier"] // RANK not in ranks]


def title(event, slots):
    word, slot = slots.of(event)
    if event.name in ("wait mbarrier", "arrive") and word:
        return f"{event.name.split()[0]} {word} {slot}"
    return event.name


def row_of(event, slots):
    """Perfetto nests what shares a row: flights and wgmma groups, which overlap, get their own."""
    if event.name in ("TMA load", "TMA store", "cp.async"):
        return FIRST_SLOT_TID + slots.of(event)[1]
    return FIRST_WGMMA_TID + event.warp if event.name == "wgmma" else event.warp


def write_document(events, head):
    slots = Slots(events)
    out, rows = [], {}
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


def read_written(document):
    """Events of a file that write_document() made."""
    for e in document["traceEvents"]:
        if e["ph"] in "Xi":
            e["name"] = e["args"].pop("event")
    return read_document(document)


# --- the drawing ---------------------------------------------------------------------------------

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


def color(event, slots):
    word, _ = slots.of(event)
    name = f"wait {word or 'other'}" if event.name == "wait mbarrier" else event.name
    return COLORS.get(name)


def roles(events):
    """[(label, first warp)] of the warps to draw: one of each run of neighbours alike."""
    done = collections.defaultdict(set)
    for event in events:
        done[event.warp].add("wait" if event.name.startswith("wait") else event.name)
    idle = {warp for warp, names in done.items() if names == {"bar"}}
    found = []
    for warp in sorted(done):
        group = warp // 4 if "wgmma" in done[warp - warp % 4] else -1
        copies = done[warp] & {"TMA load", "TMA store"} if group < 0 else ()
        key = (group, warp in idle, sorted(copies))
        if found and found[-1]["key"] == key and found[-1]["last"] == warp - 1:
            found[-1]["last"] = warp
        else:
            found.append({"key": key, "first": warp, "last": warp})
    return [(role_name(r, done), r["first"]) for r in found if r["first"] not in idle]


def role_name(role, done):
    first, last = role["first"], role["last"]
    if "wgmma" in done[first]:
        last = max(last, first // 4 * 4 + 3)  # a warpgroup, of which one warp may stand for all
    warps = f"warp {first}" if first == last else f"warps {first}–{last}"

    def only(name, names):
        return name in names and not names & {"wgmma", "epilogue"}

    if only("TMA load", done[first]):
        return warps + ", producer"
    if only("TMA store", done[first]):
        return warps + ", storer"
    is_consumer = any(only("TMA load", names) for names in done.values())
    return warps + (", consumer" if is_consumer else "")


def layers(intervals):
    """Overlapping intervals spread over as few layers as need be: [(event, layer)]."""
    ends, placed = [], []
    for event in sorted(intervals, key=lambda e: e.begin):
        layer = next((i for i, end in enumerate(ends) if end <= event.begin), len(ends))
        ends[layer:layer + 1] = [event.end]
        placed.append((event, layer))
    return placed


def rows_to_draw(events, seen, slots):
    """[(label, [(event, layer)])] of the events seen: the warps of each role that there is, each
    with its wgmma groups, and the slots."""
    rows = []
    for label, warp in roles(events):
        own = [e for e in seen if e.warp == warp]
        does = [e for e in own if e.name.startswith("wait") or e.name in ("bar", "epilogue")]
        rows.append((label, [(e, 0) for e in does] + [(e, 0) for e in own if e.name == "arrive"]))
        groups = [e for e in own if e.name in ("wgmma", "cp.async")]
        if groups:
            rows.append(("its wgmma" if groups[0].name == "wgmma" else "its copies",
                         layers(groups)))  # fmt: skip
    by_slot = collections.defaultdict(list)
    elsewhere = slots.goes_elsewhere(events)
    for event in events:
        if event.name in ("TMA load", "TMA store") and event not in elsewhere:
            stores = event.name == "TMA store"
            by_slot["stores" if stores else f"slot {slots.of(event)[1]}"].append(event)
    for label in sorted(by_slot):
        rows.append((label, layers(e for e in by_slot[label] if e in seen)))
    return rows


def at_peak(events):
    """When the tensor cores would have been busy at their peak rate: each group's products, as late
    as its end and those of the groups behind it allow. [(begin, end)]"""
    groups = [e for e in events if e.name == "wgmma" and e.warp % 4 == 0 and e.args.get("clocks")]
    found, free = [], float("inf")
    for event in sorted(groups, key=lambda e: -e.end):
        end = min(event.end, free)
        free = end - event.args["clocks"]
        found.append((free, end))
    return found[::-1]


def ticks(span):
    """Step between grid lines: 1, 2 or 5 times a power of ten, at most 15 of them."""
    steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    return next(step for step in steps if span / step <= 15)


def draw(events, head, cta, start=None, span=None):
    """One CTA as a Drawing: all of it, or `span` clocks from `start` on."""
    events = sorted((e for e in events if e.cta == cta), key=lambda e: (e.begin, e.end, e.warp))
    if not events:
        raise Problem(f"CTA {cta} is not in the trace")
    slots = Slots(events)
    first = min(e.begin for e in events) if start is None else start
    last = max(e.end for e in events)
    end = last if span is None else first + span
    seen = [e for e in events if e.end >= first and e.begin < end]
    rows = rows_to_draw(events, seen, slots)
    peak = [Event("peak", cta, 0, *times, {}) for times in at_peak(events)]
    peak = [(e, 0) for e in peak if e.end >= first and e.begin < end]
    if peak:
        rows.append(("tensor cores, at peak", peak))
    lines = captions(head, cta)
    bottom = TOP + len(rows) * (ROW + GAP)
    drawing = Drawing(WIDTH, bottom + 22 + 14 * len(lines),
                      f"Who waited on what in CTA {cta} of {head['kernel']}")  # fmt: skip

    def x(time):
        inside = min(max(time, first), end) - first
        return LEFT + (WIDTH - LEFT - RIGHT) * inside / max(end - first, 1)

    for tick in range(0, int(end - first) + 1, ticks(max(end - first, 1))):
        drawing.line("line-gray thin", x(first + tick), TOP - 4, x(first + tick), bottom)
        drawing.text(f"{tick:,}", x(first + tick), bottom + 10, "middle", "small muted")
    for index, (label, placed) in enumerate(rows):
        y = TOP + index * (ROW + GAP)
        drawing.text(label, LEFT - 6, y + 11, "end")
        drawing.rect("none faint", LEFT, y, WIDTH - LEFT - RIGHT, ROW)
        count = 1 + max((layer for _, layer in placed), default=0)
        for event, layer in placed:
            mark(drawing, event, slots, x, y + ROW * layer / count, ROW / count)
    legend(drawing, rows, slots)
    for index, words in enumerate(lines):
        drawing.text(words, 12, bottom + 28 + 14 * index, kind="small muted")
    return drawing


def captions(head, cta):
    lines = [f"{head.get('what', head['kernel'])}, CTA {cta}: {clock_words(head)}"]
    if head.get("span") and head.get("need"):
        under, need = (100 * head[key] / head["span"] for key in ("under", "need"))
        lines.append(
            f"In the whole CTA some wgmma is in flight {under:.0f} % of the clocks; its products "
            f"need {need:.0f} % of them at the tensor cores' peak."
        )
    if head.get("plain_us"):
        lines.append(
            f"With stamps a launch took {head['us']:,.1f} µs, without {head['plain_us']:,.1f} µs."
        )
    return lines


def clock_words(head):
    if head["clock"] == "model":
        return f"cycles of an illustrative model clock, {head['device']}; no measurement"
    return (f"SM clocks, stamps on one {head['device']}; a copy ends where it was waited for")


def mark(drawing, event, slots, x, y, height):
    begin, end = x(event.begin), x(event.end)
    tip = f"{title(event, slots)}: {event.end - event.begin:,.0f} clocks"
    tip += f", {event.args['place'].split('  ')[0]}" if event.args.get("place") else ""
    if event.name == "arrive":
        drawing.line("line-gray", begin, y, begin, y + height / 3, tip)
    else:
        drawing.rect(color(event, slots), begin, y, max(end - begin, 0.6), height - 0.5, tip)


def legend(drawing, rows, slots):
    used = {color(event, slots) for _, placed in rows for event, _ in placed}
    at = 12
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


def window(events, cta):
    """The start of a piece of a CTA's work with an epilogue in it: of all such pieces the one in the
    middle, by how busy the tensor cores are in it."""
    own = [e for e in events if e.cta == cta]
    last = max(e.end for e in own) - PUBLISHED_SPAN
    begins = [e.begin - BEFORE_EPILOGUE for e in own if e.name == "epilogue"]
    starts = {max(0, round(min(start, last))) for start in begins}
    if not starts:
        raise Problem(f"CTA {cta} has no epilogue in the trace")
    products = at_peak(own)

    def busy_clocks(start):
        end = start + PUBLISHED_SPAN
        return sum(max(0, min(e, end) - max(b, start)) for b, e in products)

    ordered = sorted(starts, key=lambda start: (busy_clocks(start), start))
    return ordered[len(ordered) // 2]


def cut(events, head):
    """A row of docs/results/<gpu>.traces.json: the piece of one CTA that the pages show."""
    cta = min(e.cta for e in events)
    start = window(events, cta)
    row = {key: head.get(key) for key in HEAD_KEYS}
    row.update(cta=cta, start=start, events=[])
    warps = drawn_warps(events, cta)
    for e in events:
        if e.cta == cta and e.warp in warps and e.end >= start and e.begin < start + PUBLISHED_SPAN:
            args = {key: e.args[key] for key in EVENT_KEYS if e.args.get(key) is not None}
            times = [round(time) - start for time in (e.begin, e.end)]
            row["events"].append([e.name, e.warp, *times, args])
    return row


def drawn_warps(events, cta):
    own = [e for e in events if e.cta == cta]
    return {warp for _, warp in roles(own)}


def draw_row(row):
    """The Drawing of a row of docs/results/<gpu>.traces.json."""
    events = [Event(name, row["cta"], *rest) for name, *rest in row["events"]]
    return draw(events, row, row["cta"], 0, PUBLISHED_SPAN)


def kernel_hash(kernel):
    """That of the kernel's PTX as it was built, None if it was not; `make test` builds all."""
    try:
        path = os.path.join(ROOT, "build", "ptx", "hashes.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file).get(kernel)
    except OSError:
        return None


def keep(path, results):
    """Puts the piece of a written trace into the results, in place of one of the same variant."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    head = document["otherData"]
    if head["clock"] != "gpu":
        raise Problem(f"{path} is of the PTX machine: only what a GPU did is kept")
    row = cut(read_written(document), head)
    row["kernel_hash"] = kernel_hash(row["kernel"])
    row["toolkit"] = toolkit()
    rows = []
    if os.path.exists(results):
        with open(results, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
    rows = [r for r in rows if (r["stage"], r["variant"]) != (row["stage"], row["variant"])] + [row]
    rows.sort(key=lambda r: (r["stage"], r["variant"]))
    with open(results, "w", encoding="utf-8") as file:
        file.write('{"rows": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n")
    print(f"{results}: {row['what']}, {len(row['events'])} events; make figures draws it")


# --- runs ----------------------------------------------------------------------------------------


def traced_options(program, options, on_gpu):
    """The program's options with one variant and a shape, and what they say in words."""
    variant = chosen(program, options)
    defaults = dict.fromkeys(SMALL, DEFAULT_SIZE) if on_gpu else SMALL
    for name, value in list(defaults.items()) + [("--variant", variant["variant"])]:
        if given(options, name) is None:
            options = options + [f"{name}={value}"]
    if variant["persistent"] and given(options, "--grid") is None and not on_gpu:
        options = options + [PERSISTENT_GRID]
    variant = chosen(program, options)  # again: what a chooser runs depends on the shape
    sizes = {letter: int(given(options, f"--{letter}")) for letter in "mnk"}
    shape = "×".join(str(size) for size in sizes.values())
    head = {"kernel": variant["kernel"], "stage": variant["stage"], "variant": variant["variant"],
            "what": f"{variant['name']} {variant['variant']}, {shape}", **sizes}  # fmt: skip
    return variant, options if on_gpu else options + ["--check"], head


def run(command, environment):
    ended = subprocess.run(
        command, env=dict(os.environ, **environment), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if ended.returncode != 0:
        raise Problem(f"{command[0]} ended with exit code {ended.returncode}:\n{ended.stdout}")
    return ended.stdout


def trace_on_machine(program, options, out):
    events = out + ".events.json"
    command, environment = machine_run([program] + options, None)
    environment["MACHINE_TRACE"] = os.path.abspath(events)
    environment["MACHINE_POLICY"] = "eager"  # the one that is traced
    run(command, environment)
    with open(events, encoding="utf-8") as file:
        document = json.load(file)
    os.remove(events)
    return read_document(document), document["otherData"]


def first_cta(variant, head):
    """A persistent kernel's first, or one in the middle of the grid: the first find L2 empty."""
    if variant["persistent"]:
        return 0
    ctas = -(-head["m"] // variant["bm"]) * -(-head["n"] // variant["bn"])
    return ctas // 2 // 8 * 8


def microseconds(table):
    """Of the only row of what a program printed; None if it has no such column."""
    lines = table.splitlines()
    for index, line in enumerate(lines):
        if " us " in line and "TFLOPS" in line and index + 2 < len(lines):
            end = line.index(" us ") + len(" us")
            return float(lines[index + 2][:end].split()[-1])
    return None


def trace_on_gpu(program, ptx, variant, options, out, head):
    module = load(ptx)
    stamps.add_stamps(module, [module.kernel(variant["kernel"])], first_cta(variant, head))
    stamped = out + ".stamped.ptx"
    text = module.rewritten()
    with open(stamped, "w", encoding="utf-8") as file:
        file.write(text)
    plain = run([program] + options, {"LADDER_DEVICE": "gpu"})
    command, environment = gpu_run([program] + options, stamped)
    dump = out + ".stamps"
    environment["REPLACE_TRACE"] = os.path.abspath(dump)
    said = run(command, environment)
    with open(dump, "rb") as file:
        events = read_gpu(text, file.read())
    os.remove(dump)
    return events, dict(gpu_head(events), device=said.split(",")[0].strip(),
                        us=microseconds(said), plain_us=microseconds(plain))  # fmt: skip


def gpu_head(events):
    span, under, need = busy(events, min(e.cta for e in events))
    return {"clock": "gpu", "span": round(span), "under": round(under), "need": need}


def trace(program, ptx, out, options):
    on_gpu = has_gpu()
    variant, options, head = traced_options(program, options, on_gpu)
    os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
    if on_gpu:
        events, more = trace_on_gpu(program, ptx, variant, options, out, head)
    else:
        events, more = trace_on_machine(program, options, out)
    head = {**more, **head}
    write(events, head, out)


def write(events, head, out):
    with open(out + ".json", "w", encoding="utf-8") as file:
        json.dump(write_document(events, head), file)
    cta = min(e.cta for e in events)
    piece = (window(events, cta), PUBLISHED_SPAN) if head["clock"] == "gpu" else ()
    with open(out + ".svg", "w", encoding="utf-8") as file:
        file.write(draw(events, head, cta, *piece).svg())
    print(f"{head['what']}: {len(events)} events")
    for line in captions(head, cta):
        print(line)
    print(f"{out}.svg is one CTA; open {out}.json in https://ui.perfetto.dev for all")


def redraw(arguments):
    parser = argparse.ArgumentParser(description="Draws a trace again.")
    parser.add_argument("json")
    parser.add_argument("svg")
    parser.add_argument("--cta", type=int, default=0)
    parser.add_argument("--start", type=float)
    parser.add_argument("--span", type=float)
    options = parser.parse_args(arguments)
    with open(options.json, encoding="utf-8") as file:
        document = json.load(file)
    events, head = read_written(document), document["otherData"]
    with open(options.svg, "w", encoding="utf-8") as file:
        file.write(draw(events, head, options.cta, options.start, options.span).svg())


def main(arguments):
    try:
        if arguments[:1] == ["--draw"]:
            redraw(arguments[1:])
        elif arguments[:1] == ["--keep"] and len(arguments) == 3:
            keep(*arguments[1:])
        elif len(arguments) >= 3:
            trace(*arguments[:3], arguments[3:])
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except (Problem, OSError) as problem:
        print(f"trace: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
