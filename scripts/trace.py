#!/usr/bin/env python3
"""A timeline of who waited on what. Python standard library only.

    trace.py PROGRAM NN_name.ptx OUT [OPTIONS]   runs one variant and writes OUT.json, for
                                                 https://ui.perfetto.dev, and OUT.svg
    trace.py --draw OUT.json FILE.svg [--cta C] [--until T]

On a GPU the kernel's PTX is rewritten with clock stamps (scripts/rewrite_ptx.py), so that its
source stays untouched; the stamps themselves cost some cycles each. Without one, or with
LADDER_DEVICE=machine, the kernel runs on the PTX machine, whose clock is an illustrative model.
OPTIONS are the program's; without them a small shape is taken, of the variant that stands for the
rung. T is in the file's unit, nanoseconds or cycles of the model.

THE EVENTS

The PTX machine writes this when MACHINE_TRACE=FILE is set; a run on a GPU is brought into the same
form. It is Chrome's trace-event JSON: {"traceEvents": [...], "otherData": {...}}.

  otherData  "clock": "model" or "gpu", "device": "PTX machine" or the GPU's name, "kernel": mangled
             name, "grid", "block", "cluster": three numbers each
  events     {"ph": "X", "name", "ts", "dur", "pid", "tid", "args"}, and "ph": "i" without "dur"
             pid: the CTA, x + y * gridDim.x; tid: the warp in the CTA that executed it, for a copy
             and for wgmma the one that started it (of a warpgroup, its first)
             ts, dur: microseconds on a GPU; a cycle of the model counts as 0.001

  name             what the interval is                                  args, all optional but *
  wait mbarrier    from the first try_wait to the one that returned true  *mbarrier, parity
  wait wgmma       in wgmma.wait_group                                    pending
  wait cp.async    in cp.async.wait_group                                 pending
  wait bulk        in cp.async.bulk.wait_group                            pending
  bar              in bar.sync or barrier.cluster.wait                    barrier
  TMA load         from its issue until its bytes are counted             *smem, mbarrier, bytes
  TMA store        from its issue until it has read shared memory         *smem, bytes
  cp.async         from the commit of a group until it has landed
  wgmma            from the first mma_async of a group until it is done
  epilogue         stores to global memory, or stmatrix, of one tile
  arrive           instant: mbarrier.arrive in any form                   *mbarrier, tx (bytes)

mbarrier and smem are shared addresses, as numbers or "0x..."; every event may have args.place, the
line of the stage file. A barrier that gets an arrive with tx is a full barrier, any other an empty
one; they are numbered as slots by their addresses.
"""

import argparse
import collections
import html
import json
import os
import struct
import subprocess
import sys

import rewrite_ptx
from kernel_tools import chosen, given
from rewrite_ptx import Problem

SMALL = {"--m": "256", "--n": "512", "--k": "640"}
PERSISTENT_GRID = "--grid=2"  # CTAs, so that each has more than one tile, and a cluster fits
UNITS = {"model": "cycles", "gpu": "ns"}

Event = collections.namedtuple("Event", "name cta warp begin end args")  # begin, end: ns or cycles


# --- clock stamps of a GPU -----------------------------------------------------------------------

RECORD = struct.Struct("<QQIIII")  # clock64, globaltimer, site, argument, smid, 0
SITE = "// trace site: "


def read_sites(ptx):
    """{number: (event, source line, ptx)} for what the stamps of a rewritten module mean."""
    sites = {}
    for line in ptx.splitlines():
        if line.startswith(SITE):
            number, _, event, place, shown = (line[len(SITE):].split("|") + ["", ""])[:5]
            sites[int(number)] = (event, place, shown)
    return sites


def read_records(dump):
    """{(cta, warp): [(ns, site, argument)]}. Within a CTA the cycle counter orders and spaces the
    stamps; %globaltimer, which ticks more coarsely, gives its rate and its start. Times count from
    the first stamp: a float of the timer itself, nanoseconds since 1970, is a multiple of 256."""
    lists = {}
    stride = rewrite_ptx.TRACE_RECORDS * RECORD.size
    for index in range(len(dump) // stride):
        records = []
        for at in range(index * stride, (index + 1) * stride, RECORD.size):
            clock, timer, site, argument, _, _ = RECORD.unpack_from(dump, at)
            if site == 0:
                break
            records.append((clock, timer, site, argument))
        if records:
            lists[divmod(index, rewrite_ptx.TRACE_WARPS)] = records
    timed = {}
    origin = min((r[1] for records in lists.values() for r in records), default=0)
    for cta in {key[0] for key in lists}:
        own = {key: records for key, records in lists.items() if key[0] == cta}
        clocks = [(r[0], r[1]) for records in own.values() for r in records]
        first, last = min(clocks), max(clocks)
        rate = (last[1] - first[1]) / (last[0] - first[0]) if last[0] > first[0] else 1.0
        for key, records in own.items():
            start = first[1] - origin
            timed[key] = [(start + (r[0] - first[0]) * rate, r[2], r[3]) for r in records]
    return timed


class WarpReader:
    """Turns one warp's stamps into events."""

    def __init__(self, cta, warp, sites):
        self.cta, self.warp, self.sites = cta, warp, sites
        self.events, self.open, self.groups = [], {}, collections.defaultdict(collections.deque)
        self.expecting = None  # the full barrier of the copies that follow

    def add(self, name, begin, end, **args):
        self.events.append(Event(name, self.cta, self.warp, begin, end, args))

    def read(self, records):
        for time, site, argument in records:
            event, place, ptx = self.sites[site]
            name, _, edge = event.rpartition(" ")
            if edge == "begin":
                self.open[name] = time
            elif event == "wgmma commit":
                self.groups["wgmma"].append(self.open.pop("wgmma", time))
            elif event == "cp.async commit":
                self.groups["cp.async"].append(time)
            elif edge == "end":
                self.close(name, self.open.pop(name, time), time, argument, place)
            else:
                self.instant(event, time, argument, place, ptx)
        return self.events

    def close(self, name, begin, end, argument, place):
        if name == "wait":
            self.add("wait mbarrier", begin, end, mbarrier=argument, place=place)
        elif name.endswith(" wait"):
            of = name[:-len(" wait")]
            self.add(f"wait {of}", begin, end, pending=argument, place=place)
            while len(self.groups[of]) > argument:
                self.add(of, self.groups[of].popleft(), end)
        else:
            self.add(name, begin, end, place=place)

    def instant(self, event, time, argument, place, ptx):
        args = {"place": place}
        if event == "arrive":
            args["mbarrier"] = argument
            if "expect_tx" in ptx or "noinc" in ptx:
                args["tx"] = 0
                self.expecting = argument
        else:
            args.update(smem=argument, mbarrier=self.expecting)
        self.add(event, time, time, **args)


def land_loads(events):
    """A GPU does not say when a copy has landed: a flight ends with the first wait on its barrier
    that ends after it began."""
    waits = collections.defaultdict(list)
    for event in events:
        if event.name == "wait mbarrier":
            waits[event.cta, event.args["mbarrier"]].append(event.end)
    out = []
    for event in events:
        if event.name == "TMA load":
            seen = [end for end in waits[event.cta, event.args["mbarrier"]] if end > event.begin]
            event = event._replace(end=min(seen, default=event.begin))
        out.append(event)
    return out


def read_gpu(ptx, dump):
    sites = read_sites(ptx)
    events = []
    for (cta, warp), records in sorted(read_records(dump).items()):
        events += WarpReader(cta, warp, sites).read(records)
    if not events:
        raise Problem("the kernel left no clock stamps")
    start = min(event.begin for event in events)
    return land_loads([e._replace(begin=e.begin - start, end=e.end - start) for e in events])


# --- the file ------------------------------------------------------------------------------------

PER_TS = 1000  # ns, or cycles of the model, in one unit of ts
FIRST_SLOT_TID = 1000  # rows of flights in Perfetto; a warp's wgmma: FIRST_WGMMA_TID + warp
FIRST_WGMMA_TID = 2000


def number(value):
    return int(value, 0) if isinstance(value, str) else value


def read_document(document):
    """Events of a file in the form above, times in ns or cycles."""
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
        full, other = collections.defaultdict(set), collections.defaultdict(set)
        for event in events:
            barrier = event.args.get("mbarrier")
            if barrier is not None:
                filled = event.name == "TMA load" or "tx" in event.args
                (full if filled else other)[event.cta].add(barrier)
        self.names = {}
        for cta in set(full) | set(other):
            for word, barriers in (("full", full[cta]), ("empty", other[cta] - full[cta])):
                for index, barrier in enumerate(sorted(barriers)):
                    self.names[cta, barrier] = (word, index)

    def of(self, event):
        """("full" or "empty", slot) of an event's mbarrier."""
        return self.names.get((event.cta, event.args.get("mbarrier")), ("", 0))


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

WIDTH, LEFT, RIGHT, TOP, ROW, GAP = 860, 132, 16, 44, 16, 6
COLORS = {
    "wait full": "wait", "wait empty": "stall", "wait wgmma": "drain", "wait cp.async": "wait",
    "wait bulk": "drain", "bar": "bar", "TMA load": "load", "TMA store": "store",
    "cp.async": "load", "wgmma": "mma", "epilogue": "store",
}  # fmt: skip
LEGEND = [("load", "copy"), ("mma", "wgmma"), ("store", "epilogue, store"),
          ("wait", "waits for full slot"), ("stall", "waits for empty slot"),
          ("drain", "waits for own groups"), ("bar", "barrier")]  # fmt: skip
LEGEND_WIDTH = {"load": 56, "mma": 66, "store": 102, "wait": 118, "stall": 124, "drain": 130}
STYLE = """\
  <style>
    text { font: 12px system-ui, sans-serif; fill: #57606a; }
    .small { font-size: 10px; }
    .axis { stroke: #8c959f; stroke-width: 1; }
    .grid { stroke: #8c959f; stroke-width: 0.5; stroke-opacity: 0.4; }
    .tick { stroke: #8c959f; stroke-width: 1.5; }
    .row { fill: #8c959f; fill-opacity: 0.1; }
    .load { fill: #2f81c7; }
    .mma { fill: #3f9c5a; }
    .store { fill: #d0863c; }
    .wait { fill: #8c959f; }
    .stall { fill: #c75b5b; }
    .drain { fill: #8d6cc2; }
    .bar { fill: #57606a; }
    @media (prefers-color-scheme: dark) { text { fill: #9da7b3; } .bar { fill: #d0d7de; } }
  </style>"""


def color(event, slots):
    word, _ = slots.of(event)
    name = f"wait {word or 'full'}" if event.name == "wait mbarrier" else event.name
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
        key = (group, warp in idle, bool(done[warp] & {"TMA load", "TMA store"}))
        if found and found[-1]["key"] == key and found[-1]["last"] == warp - 1:
            found[-1]["last"] = warp
        else:
            found.append({"key": key, "first": warp, "last": warp})
    return [(role_name(r, done), r["first"]) for r in found if r["first"] not in idle]


def role_name(role, done):
    first, last = role["first"], role["last"]
    warps = f"warp {first}" if first == last else f"warps {first}–{last}"
    names = done[first]
    if "TMA load" in names and "wgmma" not in names and "epilogue" not in names:
        return warps + ", producer"
    return warps + (", consumer" if "TMA load" not in names and "arrive" in names else "")


def layers(intervals):
    """Overlapping intervals spread over as few layers as need be: [(event, layer)]."""
    ends, placed = [], []
    for event in sorted(intervals, key=lambda e: e.begin):
        layer = next((i for i, end in enumerate(ends) if end <= event.begin), len(ends))
        ends[layer:layer + 1] = [event.end]
        placed.append((event, layer))
    return placed


def rows_to_draw(events, slots):
    """[(label, [(event, layer)])]: the warps, each with its wgmma groups, and the slots."""
    rows = []
    for label, warp in roles(events):
        own = [e for e in events if e.warp == warp]
        does = [e for e in own if e.name.startswith("wait") or e.name in ("bar", "epilogue")]
        rows.append((label, [(e, 0) for e in does] + [(e, 0) for e in own if e.name == "arrive"]))
        groups = [e for e in own if e.name in ("wgmma", "cp.async")]
        if groups:
            rows.append(("its wgmma" if groups[0].name == "wgmma" else "its copies",
                         layers(groups)))  # fmt: skip
    flights = [e for e in events if e.name in ("TMA load", "TMA store")]
    by_slot = collections.defaultdict(list)
    for event in flights:
        stores = event.name == "TMA store"
        by_slot["stores" if stores else f"slot {slots.of(event)[1]}"].append(event)
    return rows + [(label, layers(by_slot[label])) for label in sorted(by_slot)]


def ticks(span):
    """Step between grid lines: 1, 2 or 5 times a power of ten, at most 15 of them."""
    steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    return next(step for step in steps if span / step <= 15)


def draw(events, head, cta, until=None):
    """One CTA as SVG text."""
    events = sorted((e for e in events if e.cta == cta), key=lambda e: (e.begin, e.end, e.warp))
    if not events:
        raise Problem(f"CTA {cta} is not in the trace")
    slots = Slots(events)
    start = min(e.begin for e in events)
    end = min(until + start if until else float("inf"), max(e.end for e in events))
    span = max(end - start, 1)
    rows = rows_to_draw([e for e in events if e.begin < end], slots)
    height = TOP + len(rows) * (ROW + GAP) + 46
    unit = UNITS[head["clock"]]

    def x(time):
        return LEFT + (WIDTH - LEFT - RIGHT) * (min(max(time, start), end) - start) / span

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
           f"  <title>Who waited on what in CTA {cta} of {html.escape(head['kernel'])}</title>",
           STYLE]  # fmt: skip
    bottom = TOP + len(rows) * (ROW + GAP)
    step = ticks(span)
    for tick in range(0, int(span) + 1, step):
        at = f"{x(start + tick):.1f}"
        out.append(f'  <line class="grid" x1="{at}" x2="{at}" y1="{TOP - 4}" y2="{bottom}"/>')
        out.append(f'  <text class="small" x="{at}" y="{bottom + 14}" text-anchor="middle">'
                   f"{tick:,}</text>")
    for index, (label, placed) in enumerate(rows):
        y = TOP + index * (ROW + GAP)
        out.append(f'  <text class="small" x="{LEFT - 6}" y="{y + 11}" text-anchor="end">'
                   f"{label}</text>")
        out.append(f'  <rect class="row" x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" '
                   f'height="{ROW}"/>')
        count = 1 + max((layer for _, layer in placed), default=0)
        for event, layer in placed:
            out.append(mark(event, slots, x, y + ROW * layer / count, ROW / count, unit))
    out += legend(rows, slots)
    caption = f"{head.get('what', head['kernel'])}, CTA {cta}: {clock_words(head)}"
    out.append(f'  <text class="small" x="{LEFT}" y="{bottom + 34}">{html.escape(caption)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def clock_words(head):
    if head["clock"] == "model":
        return f"cycles of an illustrative model clock, {head['device']}; no measurement"
    return (f"nanoseconds, clock stamps on one {head['device']}; a copy ends "
            "where it was waited for")


def mark(event, slots, x, y, height, unit):
    begin, end = x(event.begin), x(event.end)
    tip = f"{title(event, slots)}: {event.end - event.begin:,.0f} {unit}"
    tip += f", {event.args['place'].split('  ')[0]}" if event.args.get("place") else ""
    tip = f"<title>{html.escape(tip)}</title>"
    if event.name == "arrive":
        return (f'  <line class="tick" x1="{begin:.1f}" x2="{begin:.1f}" y1="{y:.1f}" '
                f'y2="{y + height / 3:.1f}">{tip}</line>')
    return (f'  <rect class="{color(event, slots)}" x="{begin:.1f}" y="{y:.1f}" '
            f'width="{max(end - begin, 0.6):.1f}" height="{height - 0.5:.1f}">{tip}</rect>')


def legend(rows, slots):
    used = {color(event, slots) for _, placed in rows for event, _ in placed}
    out, at = [], LEFT
    for kind, words in LEGEND:
        if kind in used:
            out.append(f'  <rect class="{kind}" x="{at}" y="14" width="10" height="10"/>')
            out.append(f'  <text class="small" x="{at + 14}" y="23">{words}</text>')
            at += LEGEND_WIDTH.get(kind, 0)
    return out


# --- runs ----------------------------------------------------------------------------------------


def traced_options(program, options):
    """The program's options with one variant and a shape, and what they say in words."""
    variant = chosen(program, options)
    for name, value in list(SMALL.items()) + [("--variant", variant["variant"])]:
        if given(options, name) is None:
            options = options + [f"{name}={value}"]
    if variant["persistent"] and given(options, "--grid") is None:
        options = options + [PERSISTENT_GRID]
    variant = chosen(program, options)  # again: what a chooser runs depends on the shape
    shape = "×".join(given(options, f"--{letter}") for letter in "mnk")
    return variant, options + ["--check"], f"{variant['name']} {variant['variant']}, {shape}"


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
    command, environment = rewrite_ptx.machine_run([program] + options, None)
    environment["MACHINE_TRACE"] = os.path.abspath(events)
    environment["MACHINE_POLICY"] = "eager"  # the one that is traced
    run(command, environment)
    with open(events, encoding="utf-8") as file:
        document = json.load(file)
    os.remove(events)
    return read_document(document), document["otherData"]


def trace_on_gpu(program, ptx, variant, options, out):
    module = rewrite_ptx.load(ptx)
    rewrite_ptx.add_stamps(module, [module.kernel(variant["kernel"])])
    stamped = out + ".stamped.ptx"
    text = module.rewritten()
    with open(stamped, "w", encoding="utf-8") as file:
        file.write(text)
    command, environment = rewrite_ptx.gpu_run([program] + options, stamped)
    dump = out + ".stamps"
    environment["REPLACE_TRACE"] = os.path.abspath(dump)
    device = run(command, environment).split(",")[0].strip()
    with open(dump, "rb") as file:
        events = read_gpu(text, file.read())
    os.remove(dump)
    return events, {"clock": "gpu", "device": device, "kernel": variant["kernel"]}


def trace(program, ptx, out, options):
    variant, options, what = traced_options(program, options)
    os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
    if rewrite_ptx.has_gpu():
        events, head = trace_on_gpu(program, ptx, variant, options, out)
    else:
        events, head = trace_on_machine(program, options, out)
    head["what"] = what
    with open(out + ".json", "w", encoding="utf-8") as file:
        json.dump(write_document(events, head), file)
    with open(out + ".svg", "w", encoding="utf-8") as file:
        file.write(draw(events, head, min(e.cta for e in events)))
    print(f"{what}: {len(events)} events; {clock_words(head)}")
    print(f"{out}.svg is one CTA; open {out}.json in https://ui.perfetto.dev for all")


def redraw(arguments):
    parser = argparse.ArgumentParser(description="Draws a trace again.")
    parser.add_argument("json")
    parser.add_argument("svg")
    parser.add_argument("--cta", type=int, default=0)
    parser.add_argument("--until", type=float)
    options = parser.parse_args(arguments)
    with open(options.json, encoding="utf-8") as file:
        document = json.load(file)
    text = draw(read_written(document), document["otherData"], options.cta, options.until)
    with open(options.svg, "w", encoding="utf-8") as file:
        file.write(text)


def main(arguments):
    try:
        if arguments[:1] == ["--draw"]:
            redraw(arguments[1:])
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
