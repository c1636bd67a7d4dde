#!/usr/bin/env python3
"""Runs rungs on the PTX machine without one of their fences, barriers, arrivals and waits, each in
turn, and says what is noticed.

    leave_out.py N [OPTIONS]   rung N, as build/ptx-machine --leave-out=each prints it; OPTIONS are
                               the program's, without them those of RUNS
    leave_out.py --page        all of RUNS; writes the table and the list of docs/leave_out.md
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from lib import tools
from lib.cli import OK, ROOT, Problem, command, parser_of
from lib.markdown import rewritten, table
from lib.store import write_atomically

PAGE = ROOT / "docs/leave_out.md"
MARKER = re.compile("^<!-- leave-out: (table|list) -->$", re.MULTILINE)


class Run(NamedTuple):
    """A variant and a problem that executes all of its ordering instructions, and needs them: rings
    come round, boxes are used again, rows and columns end inside of tiles, grids start early."""

    rung: int
    variant: str
    shape: tuple[int, int, int]
    options: str = ""
    sms: int = 4

    def arguments(self) -> list[str]:
        sizes = [f"--{name}={size}" for name, size in zip("mnk", self.shape)]
        return [f"--variant={self.variant}", *sizes, *self.options.split()]


RUNS = [
    Run(1, "128x128", (128, 128, 136)),
    Run(2, "swizzled", (128, 128, 192)),
    Run(3, "depth3", (128, 128, 448)),
    Run(3, "depth3_mbarrier", (128, 128, 576)),
    Run(4, "depth3", (128, 128, 448)),
    Run(5, "bn256_ahead", (128, 256, 640)),
    Run(6, "2consumers", (128, 256, 640)),
    Run(7, "group16", (256, 512, 320), "--grid=1"),
    Run(8, "2x1", (256, 512, 320), "--grid=2"),
    Run(9, "overlapped", (768, 508, 256), "--grid=2"),
    Run(10, "128x128_early", (512, 508, 640), sms=2),
    Run(11, "128x256", (384, 252, 640), "--grid=1"),
    Run(11, "128x128_2x2", (524, 252, 640), "--grid=4"),
    Run(12, "64x8_x2_all", (5, 444, 1536), "--grid=3"),
    Run(13, "bf16_NT", (768, 508, 328), "--grid=2 --layout=NT"),
    Run(14, "e4m3_128x192", (256, 380, 640), "--grid=1"),
    Run(14, "s8_128x192", (256, 380, 640), "--grid=1 --type=s8"),
    Run(15, "w4_64x8_s4_k4", (5, 252, 4736), "--grid=4 --bits=4"),
    Run(16, "e4m3_128x128", (300, 252, 640), "--grid=1 --groups=3 --rows=unequal --type=e4m3"),
    Run(16, "bf16_128x256_replace", (300, 508, 640), "--grid=1 --groups=3 --rows=unequal"),
    Run(17, "none_128x256", (256, 764, 256), "--grid=1 --add=bias_c"),
]

class Reason(NamedTuple):
    """Why nothing is noticed without these of a rung: of an instruction, on lines that have such a
    text."""

    rung: int
    instruction: str
    source: str
    why: str


FENCES_ALL = ("`fence.proxy.async`, which all threads execute behind it before they meet, shows the "
              "async proxy what they have initialised, too.")  # fmt: skip
MEETS = ("The warp's lanes come together, for what follows; no memory of theirs is handed on by one "
         "of them here.")  # fmt: skip
INITIALISED = ("All that peers may touch behind this barrier are mbarriers, and "
               "`fence.mbarrier_init.release.cluster` has released those.")  # fmt: skip
REASONS = [
    Reason(3, "mbarrier.try_wait.parity.shared::cta.b64", "ptx::mbarrier_wait(&smem.empty",
           "The call that fills the ring for the first time, when every slot is empty; the other one needs "
           "the wait."),
    Reason(11, "cp.async.bulk.wait_group.read", "block::store_block(",
           "It is there for speed, box by box: another one behind the last box waits for all."),
    Reason(11, "fence.release.sync_restrict::shared::cta.cluster",
           "ptx::barrier_cluster_sync_shared()", INITIALISED),
    Reason(11, "fence.acquire.sync_restrict::shared::cluster.cluster",
           "block::wait_slot<T::CLUSTER>(&smem.empty",
           "Of those waits, at the end, after which a CTA exits: it accesses nothing any more."),
    Reason(12, "fence.mbarrier_init.release.cluster", "ptx::fence_mbarrier_init()", FENCES_ALL),
    Reason(12, "bar.warp.sync", "ptx::bar_warp_sync()", MEETS),
    Reason(12, "barrier.red.or.pred", "block::comes_last<T>(",
           "The second of two votes: of CTAs that run one after the other, the last finds out in "
           "the first one that all others have come."),
    Reason(14, "cp.async.bulk.wait_group.read", "block::store_block(", "As in rung 11."),
    Reason(14, "barrier.sync", "if (T::TURNS)", "It is there for speed: who takes turns at `wgmma`."),
    Reason(15, "fence.mbarrier_init.release.cluster", "ptx::fence_mbarrier_init()",
           "As in rung 12: the one of `clear_missing_rows_of_x`."),
    Reason(15, "bar.warp.sync", "block::clear_missing_rows_of_x<T>(", MEETS),
    Reason(15, "fence.proxy.async.shared::cta", "block::clear_missing_rows_of_x<T>(",
           "`finish` has one, too, which consumers execute before their first product."),
    Reason(15, "wgmma.wait_group", "fragments.multiply_block(",
           "In this tile a slot's two units have a set of registers each, and `finish` waits for "
           "both. Where units share a set, as in `w8_128x128`, it is needed."),
    Reason(15, "wgmma.commit_group", "fragments.multiply_block(",
           "The first unit's: without it both are one group, which `finish` waits for."),
    Reason(15, "bar.warp.sync", "block::add_slices<T>(", MEETS),
    Reason(16, "bar.warp.sync", "ptx::bar_warp_sync();  // as wgmma would", "The machine's lanes of a "
           "warp part at branches only, and so none is a lap ahead; PTX lets them."),
    *(Reason(16, instruction, "block::multiply_blocks<T>(",
             "Of a consumer with more blocks than a group has rows for; this one has one block.")
      for instruction in ("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group")),
]


class Ordering(NamedTuple):
    """One of the objects of ptx-machine --json --leave-out=each."""

    executed: bool
    noticed: str  # a rule, "exit code N" or "does not end"; "": nothing
    policy: str
    instruction: str
    file: str
    line: int
    source: str
    place: str

    def reason(self, rung: int) -> Reason | None:
        return next((one for one in REASONS if (one.rung, one.instruction) ==
                     (rung, self.instruction) and one.source in self.source), None)  # fmt: skip


def program(rung: int) -> str:
    return str(ROOT / f"build/stage-{rung:02}")


def words(rung: int, arguments: list[str], sms: int, *options: str) -> list[str]:
    check = [] if "--check" in arguments else ["--check"]
    data = [] if any(each.startswith("--data") for each in arguments) else ["--data=ints"]
    return [str(ROOT / "build/ptx-machine"), f"--sms={sms}", "--leave-out=each", *options,
            program(rung), *arguments, *check, *data]  # fmt: skip


def orderings(run: Run) -> list[Ordering]:
    ended = tools.run(words(run.rung, run.arguments(), run.sms, "--json"), cwd=ROOT)
    if ended.returncode != OK:
        raise Problem(f"rung {run.rung}, {run.variant}: {ended.stdout.strip()}")
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    return [Ordering(**json.loads(line)) for line in lines]


def all_orderings(runs: Iterable[Run]) -> list[tuple[Run, list[Ordering]]]:
    runs = list(runs)
    return list(zip(runs, map(orderings, runs)))


# --- docs/leave_out.md ---------------------------------------------------------------------------


def counted(names: Iterable[str]) -> str:
    """"shared-race 7, deadlock 2"."""
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common())


def table_of(found: list[tuple[Run, list[Ordering]]]) -> list[str]:
    rows, total, noticed = [], 0, 0
    for run, all_of_run in found:
        executed = [one for one in all_of_run if one.executed]
        rules = [one.noticed for one in executed if one.noticed]
        others = len(all_of_run) - len(executed)
        rows.append([str(run.rung), f"`{run.variant}`", str(len(executed)), counted(rules),
                     str(len(executed) - len(rules)), str(others)])  # fmt: skip
        total, noticed = total + len(executed), noticed + len(rules)
    header = ["rung", "variant", "executed", "noticed first, without one", "nothing", "not executed"]
    return [*table(header, rows), "", f"In all, {noticed} of {total} are noticed."]


def list_of(found: list[tuple[Run, list[Ordering]]]) -> list[str]:
    lines: list[str] = []
    for run, all_of_run in found:
        for one in all_of_run:
            if one.noticed:
                continue
            reason = one.reason(run.rung)
            if reason is None:
                raise Problem(f"rung {run.rung}, {run.variant}: nothing is noticed without "
                              f"{one.place}: \"{one.source}\"; REASONS has no line that says why.")  # fmt: skip
            source = reason.source + ("" if reason.source.endswith(")") else " …")
            line = f"- Rung {run.rung}, `{one.instruction}` of `{source}`: {reason.why}"
            if line not in lines:
                lines.append(line)
    return lines


def page_with_blocks(page: str, found: list[tuple[Run, list[Ordering]]]) -> str:
    bodies = {"table": table_of(found), "list": list_of(found)}
    return rewritten(page, MARKER, lambda match, _: bodies[match.group(1)], "docs/leave_out.md")


@command("leave_out")
def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("rung", nargs="?", type=int)
    parser.add_argument("--page", action="store_true")
    options, others = parser.parse_known_args(arguments)
    if options.page:
        text = PAGE.read_text(encoding="utf-8")
        write_atomically(PAGE, page_with_blocks(text, all_orderings(RUNS)))
        return OK
    runs = [run for run in RUNS if run.rung == options.rung]
    if not runs:
        raise Problem(f"there is no rung {options.rung}: name one from 1 to {RUNS[-1].rung}.")
    commands = [words(options.rung, others, 4)] if others else [
        words(run.rung, run.arguments(), run.sms) for run in runs]  # fmt: skip
    for each in commands:
        print(" ".join(os.path.relpath(word) if "/" in word else word for word in each), flush=True)
        if code := subprocess.run(each, check=False).returncode:
            return code
    return OK


if __name__ == "__main__":
    sys.exit(main())
