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

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from lib import store
from lib.cli import ROOT, Problem, command, number, parser_of
from lib.ptx import load_module
from lib.registry import Variant, ask
from lib.replace import gpu_run, has_gpu, machine_run
from lib.stamped import read_gpu
from lib.stamps import add_stamps
from lib.timeline import Document, Event, busy, read_document, write_document
from lib.timeline_svg import PUBLISHED_SPAN, captions, cut, draw, window
from lib.tools import DEFAULT_SIZE, chosen, given, toolkit, with_defaults

SMALL = {"--m": "256", "--n": "512", "--k": "640"}
MOST = 10**12  # of clocks, and of CTAs
PERSISTENT_GRID = "--grid=2"  # CTAs, so that each has more than one tile, and a cluster fits


def kernel_hash(kernel: str) -> str | None:
    """That of the kernel's PTX as it was built, None if it was not; `make test` builds all."""
    path = ROOT / "build/ptx/hashes.json"
    return json.loads(path.read_text(encoding="utf-8")).get(kernel) if path.exists() else None


def read_trace(path: str | Path) -> tuple[list[Event], Document]:
    """Events and head of a file that this script, or the PTX machine, wrote."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        return read_document(document), document["otherData"]
    except (ValueError, KeyError, TypeError):
        raise Problem(f"{path} is no trace; make trace-N writes build/trace/NN.json.")


def keep(path: str, results: str) -> None:
    """Puts the piece of a written trace into the results, in place of one of the same variant."""
    events, head = read_trace(path)
    if head["clock"] != "gpu":
        raise Problem(f"{path} is of the PTX machine: only what a GPU did is kept")
    row = cut(events, head)
    row["kernel_hash"] = kernel_hash(row["kernel"])
    row["toolkit"] = toolkit()
    kept = Path(results)
    rows = store.read_document(kept, "rows", "timelines", "trace-N").get("rows", [])
    rows = [r for r in rows if (r["stage"], r["variant"]) != (row["stage"], row["variant"])] + [row]
    rows.sort(key=lambda r: (r["stage"], r["variant"]))
    listed = ",\n".join(map(json.dumps, rows))
    store.write_atomically(kept, f'{{"rows": [\n{listed}\n]}}\n')
    print(f"{results}: {row['what']}, {len(row['events'])} events; make figures draws it")


def traced_options(
    program: str, options: list[str], on_gpu: bool
) -> tuple[Variant, list[str], Document]:
    """The program's options with one variant and a shape, and what they say in words."""
    variant = chosen(program, options)
    sizes = dict.fromkeys(SMALL, DEFAULT_SIZE) if on_gpu else SMALL
    options = with_defaults(options, {**sizes, "--variant": variant["variant"]})
    if variant["persistent"] and given(options, "--grid") is None and not on_gpu:
        options = options + [PERSISTENT_GRID]
    variant = chosen(program, options)  # again: what a chooser runs depends on the shape
    shape = {letter: int(given(options, f"--{letter}") or 0) for letter in "mnk"}
    size = "×".join(map(str, shape.values()))
    head = {"kernel": variant["kernel"], "stage": variant["stage"], "variant": variant["variant"],
            "what": f"{variant['name']} {variant['variant']}, {size}", **shape}  # fmt: skip
    return variant, options if on_gpu else options + ["--check"], head


def trace_on_machine(program: str, options: list[str], out: str) -> tuple[list[Event], Document]:
    events = out + ".events.json"
    words, environment = machine_run([program] + options, None)
    environment["MACHINE_TRACE"] = os.path.abspath(events)
    environment["MACHINE_POLICY"] = "eager"  # the one that is traced
    ask(*words, environment=environment)
    found = read_trace(events)
    os.remove(events)
    return found


def first_cta(variant: Variant, head: Document) -> int:
    """A persistent kernel's first, or one in the middle of the grid: the first find L2 empty."""
    if variant["persistent"]:
        return 0
    ctas = -(-head["m"] // variant["bm"]) * -(-head["n"] // variant["bn"])
    return ctas // 2 // 8 * 8


def microseconds(table: str) -> float | None:
    """Of the only row of what a program printed; None if it has no such column."""
    lines = table.splitlines()
    for index, line in enumerate(lines):
        if " us " in line and "TFLOPS" in line and index + 2 < len(lines):
            end = line.index(" us ") + len(" us")
            return float(lines[index + 2][:end].split()[-1])
    return None


def trace_on_gpu(
    program: str, ptx: str, variant: Variant, options: list[str], out: str, head: Document
) -> tuple[list[Event], Document]:
    module = load_module(ptx)
    add_stamps(module, [module.kernel(variant["kernel"])], first_cta(variant, head))
    stamped = out + ".stamped.ptx"
    text = module.rewritten()
    Path(stamped).write_text(text, encoding="utf-8")
    plain = ask(program, *options, environment={"LADDER_DEVICE": "gpu"})
    words, environment = gpu_run([program] + options, stamped)
    dump = out + ".stamps"
    environment["REPLACE_TRACE"] = os.path.abspath(dump)
    said = ask(*words, environment=environment)
    events, _ = read_gpu(text, Path(dump).read_bytes())
    os.remove(dump)
    return events, dict(gpu_head(events), device=said.split(",")[0].strip(),
                        us=microseconds(said), plain_us=microseconds(plain))  # fmt: skip


def gpu_head(events: list[Event]) -> Document:
    span, under, need = busy(events, min(e.cta for e in events))
    return {"clock": "gpu", "span": round(span), "under": round(under), "need": need}


def trace(program: str, ptx: str, out: str, options: list[str]) -> None:
    on_gpu = has_gpu()
    variant, options, head = traced_options(program, options, on_gpu)
    os.makedirs(os.path.dirname(out) or ".", exist_ok=True)
    if on_gpu:
        events, more = trace_on_gpu(program, ptx, variant, options, out, head)
    else:
        events, more = trace_on_machine(program, options, out)
    head = {**more, **head}
    Path(out + ".json").write_text(json.dumps(write_document(events, head)), encoding="utf-8")
    cta = min(e.cta for e in events)
    piece = (window(events, cta), PUBLISHED_SPAN) if head["clock"] == "gpu" else ()
    Path(out + ".svg").write_text(draw(events, head, cta, *piece).svg(), encoding="utf-8")
    print(f"{head['what']}: {len(events)} events")
    for line in captions(head, cta):
        print(line)
    print(f"{out}.svg is one CTA; open {out}.json in https://ui.perfetto.dev for all")


def redraw(arguments: list[str]) -> None:
    parser = parser_of("Draws a trace again.")
    parser.add_argument("json", type=Path)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--cta", type=number("--cta", 0, MOST, 0), default=0)
    parser.add_argument("--start", type=number("--start", 0, MOST, 0))
    parser.add_argument("--span", type=number("--span", 1, MOST, PUBLISHED_SPAN))
    options = parser.parse_args(arguments)
    events, head = read_trace(options.json)
    drawing = draw(events, head, options.cta, options.start, options.span)
    options.svg.write_text(drawing.svg(), encoding="utf-8")


@command("trace")
def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--draw"]:
        redraw(arguments[1:])
    elif arguments[:1] == ["--keep"] and len(arguments) == 3:
        keep(*arguments[1:])
    elif len(arguments) >= 3:
        trace(arguments[0], arguments[1], arguments[2], arguments[3:])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
