#!/usr/bin/env python3
"""Draws the figures of the pages into docs/img. Python standard library only.

Where an element goes is asked of build/maps, which computes it with common/tile as the kernels do;
how many arrivals a barrier waits for is read from the stage file; tiles and depths come from
build/ladder --list; timelines from docs/results. So a figure that no longer is what the code does
is found by drawing it again.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import trace
from lib.cli import OK, ROOT, Problem, command, parser_of
from lib.figures.barriers import barriers_04, barriers_06, barriers_08, barriers_09, barriers_10
from lib.figures.code import Code
from lib.figures.layouts import majors, packed, scales, store_box, swizzle_atom, wgmma_fragment
from lib.figures.rings import banks, mma_fragments, phases, reuse, ring
from lib.figures.schedules import barriers_17, multicast, raster, rounds, rows_of_a_group, shares
from lib.store import outdated_files, update_files
from lib.svg import Drawing
from lib.timeline_svg import cut, draw_row
from lib.tools import has_machine

FOLDER = Path("docs/img")

TRACES = Path("docs/results/h200.traces.json")
# Stamps cost this one too much (docs/traces.md), so the PTX machine's model clock tells it.
MODELLED = 10
MODELLED_OPTIONS = ["--m=512", "--n=1024", "--k=1024", "--grid=2"]


def timelines(code: Code) -> dict[str, Drawing]:
    """{name: Drawing} of what was recorded on a GPU, and of the rung that the machine tells."""
    found: dict[str, Drawing] = {}
    if (code.root / TRACES).exists():
        for row in json.loads((code.root / TRACES).read_text(encoding="utf-8"))["rows"]:
            if row["stage"] == MODELLED:
                continue
            is_result = code.rung(row["stage"])["variant"] == row["variant"]
            name = f"trace_{row['stage']:02}" + ("" if is_result else f"_{row['variant']}")
            found[name] = draw_row(row)
    program = code.root / f"build/stage-{MODELLED:02}"
    if not program.exists() or not has_machine(code.root):
        raise Problem(
            f"{program.name} or the PTX machine is not built: make build/{program.name} machine"
            " builds them"
        )
    with tempfile.TemporaryDirectory() as folder:
        _, options, head = trace.traced_options(str(program), MODELLED_OPTIONS, on_gpu=False)
        events, more = trace.trace_on_machine(str(program), options, f"{folder}/t")
    found[f"trace_{MODELLED:02}"] = draw_row(cut(events, {**more, **head}))
    return found


FIGURES: dict[str, Callable[[Code], Drawing]] = {
    "reuse_01": reuse,
    "mma_fragments_02": mma_fragments,
    "banks_02": banks,
    "ring_03": ring,
    "barriers_04": barriers_04,
    "phases_04": lambda code: phases(code, 4, with_empty=False),
    "swizzle_atom_05": swizzle_atom,
    "wgmma_fragment_05": wgmma_fragment,
    "barriers_06": barriers_06,
    "phases_06": lambda code: phases(code, 6, with_empty=True),
    "raster_07": raster,
    "barriers_08": barriers_08,
    "multicast_08": multicast,
    "barriers_09": barriers_09,
    "store_box_09": store_box,
    "barriers_10": barriers_10,
    "rounds_11": rounds,
    "shares_12": shares,
    "majors_13": majors,
    "scales_14": scales,
    "packed_15": packed,
    "rows_16": rows_of_a_group,
    "barriers_17": barriers_17,
}


def drawings(root: Path) -> dict[Path, Drawing]:
    """{path: Drawing} of all figures."""
    code = Code(root)
    found = {name: draw(code) for name, draw in FIGURES.items()} | timelines(code)
    return {FOLDER / f"{name}.svg": drawing for name, drawing in found.items()}


def outdated(root: Path, drawn: dict[Path, Drawing]) -> list[tuple[Path, str]]:
    """[(path, text)] of figures that are not what was drawn."""
    return outdated_files(root, {path: drawing.svg() for path, drawing in drawn.items()})


@command("figures")
def main() -> int:
    parser_of(__doc__).parse_args()
    found = outdated(ROOT, drawings(ROOT))
    update_files(ROOT, found, "figures")
    if not found:
        print("figures: everything is up to date")
    return OK


if __name__ == "__main__":
    sys.exit(main())
