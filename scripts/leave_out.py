#!/usr/bin/env python3
"""Runs rungs on the PTX machine without one of their fences, barriers, arrivals and waits, each in
turn, and says what is noticed.

    leave_out.py N [OPTIONS]   rung N, as build/ptx-machine --leave-out=each prints it; OPTIONS are
                               the program's, without them those of RUNS
    leave_out.py --page        all of RUNS; writes FOUND, and the tables and the list of
                               docs/leave_out.md
    leave_out.py --gpu CSV     the same kernels on a GPU, without each that FOUND has a report for
                               which is neither of a hang nor of a fault: up to three runs of each,
                               until one shows it; CSV gets a row each
"""

from __future__ import annotations

import concurrent.futures
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from doctor import no_gpu
from lib import left_out, tools
from lib.cli import NO_DEVICE, OK, ROOT, Problem, command, parser_of
from lib.markdown import rewritten, table
from lib.ptx import Module, load_module
from lib.replace import assemble, gpu_run
from lib.store import write_atomically
from mutations import GPU_TIMEOUT_S, UNSEEN, Ended
from mutations import run as run_watched

PAGE = ROOT / "docs/leave_out.md"
FOUND = ROOT / "docs/results/leave_out.jsonl"  # what was noticed on the PTX machine, by run
RECORDED = ROOT / "docs/results/h200.leave_out.csv"
MARKER = re.compile("^<!-- leave-out: (table|list|h200) -->$", re.MULTILINE)


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

    def on_gpu(self) -> Run:
        """The same with many tiles, for all SMs."""
        m, n, k = LARGE
        shape = (min(self.shape[0], m) if self.shape[0] < SMALL_M else m, n, k)
        others = [each for each in self.options.split() if not each.startswith("--grid")]
        return self._replace(shape=shape, options=" ".join(others))


LARGE, SMALL_M = (2000, 4092, 4096), 64
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
    Reason(14, "cp.async.bulk.wait_group.read", "block::store_block(", "As in rung 11."),
    Reason(14, "barrier.sync", "if (T::TURNS)", "It is there for speed: who takes turns at `wgmma`."),
    Reason(15, "fence.mbarrier_init.release.cluster", "ptx::fence_mbarrier_init()",
           "As in rung 12: the one of `clear_missing_rows_of_x`."),
    Reason(15, "bar.warp.sync", "block::clear_missing_rows_of_x<T>(", MEETS),
    Reason(15, "fence.proxy.async.shared::cta", "block::clear_missing_rows_of_x<T>(",
           "`finish` has one, too, which consumers execute before their first product."),
    Reason(15, "wgmma.wait_group", "fragments.multiply_block(",
           "In this tile a block is decoded when all of the one before is multiplied, and `finish` "
           "waits for that. Where it is decoded earlier, as in `w8_128x128`, it is needed."),
    Reason(15, "wgmma.commit_group", "fragments.multiply_block(",
           "The first half's: without it both are one group, which `finish` waits for."),
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


Found = list[tuple[Run, list[Ordering]]]


def all_orderings() -> Found:
    return [(run, orderings(run)) for run in RUNS]


# --- what is on record ---------------------------------------------------------------------------


def text_of(found: Found) -> str:
    """FOUND: a JSON object for each, on a line."""
    rows = [{"rung": run.rung, "variant": run.variant, **one._asdict()}
            for run, all_of_run in found for one in all_of_run]  # fmt: skip
    return "".join(json.dumps(row) + "\n" for row in rows)


CERTAIN = {"deadlock", "livelock", "illegal", "out-of-bounds", "misaligned"}  # tried on no GPU


def to_try(found: Found) -> list[tuple[Run, Ordering]]:
    return [(run, one) for run, all_of_run in found for one in all_of_run
            if one.noticed and one.noticed not in CERTAIN]  # fmt: skip


def read_found() -> Found:
    rows: dict[tuple[int, str], list[Ordering]] = {}
    for row in map(json.loads, FOUND.read_text(encoding="utf-8").splitlines()):
        rows.setdefault((row.pop("rung"), row.pop("variant")), []).append(Ordering(**row))
    return [(run, rows[run.rung, run.variant]) for run in RUNS]


class Recorded(NamedTuple):
    """What a GPU did in `runs` runs; ptxas: the codes of what ptxas said of the kernel."""

    rung: str
    variant: str
    instruction: str
    source: str
    ended: str
    runs: str
    ptxas: str


def recorded(found: Found) -> list[Recorded]:
    """What an H200 did, of those that are there today."""
    there = Counter((str(run.rung), run.variant, one.instruction, one.source)
                    for run, one in to_try(found))  # fmt: skip
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    rows = [Recorded(*row) for row in csv.reader(line for line in lines if line[:1] != "#")]
    kept = []
    for row in rows:
        if there[row[:4]] > 0:
            there[row[:4]] -= 1
            kept.append(row)
    return kept


# --- on a GPU ------------------------------------------------------------------------------------

GPU_RUNS, AT_ONCE = 3, 4


def edited(run: Run, one: Ordering | None, folder: str, name: str) -> str:
    """The path of the kernel's PTX without one; the module's other kernels do nothing."""
    stem = next((ROOT / "stages").glob(f"{run.rung:02}_*.cu")).stem
    module: Module = load_module(ROOT / f"build/ptx/{stem}.ptx")
    kernel = module.kernel(kernels_of(run.rung)[run.variant])
    if one is not None:
        copies = [i for i in kernel.instructions
                  if left_out.comes_from(i, one.instruction, one.place)]  # fmt: skip
        if not copies:
            raise Problem(f"rung {run.rung}, {run.variant}: the PTX has no {one.place}")
        for copy in copies:
            left_out.leave_out(kernel, copy)
    left_out.alone(module, kernel)
    path = Path(folder) / f"{name}.ptx"
    path.write_text(module.rewritten(), encoding="utf-8")
    return str(path)


def kernels_of(rung: int) -> dict[str, str]:
    """{variant: mangled name}"""
    listed = tools.run([program(rung), "--list"], cwd=ROOT)
    return {row["variant"]: row["kernel"] for row in json.loads(listed.stdout)}


def codes_of(path: str) -> str:
    """Of ptxas' messages about wgmma, "C7517 C7519"."""
    with tempfile.TemporaryDirectory() as scratch:
        said = assemble(path, f"{scratch}/module.cubin")
    return " ".join(sorted(set(re.findall(r"\bC75\d\d\b", said))))


def try_on_gpu(run: Run, one: Ordering | None, folder: str, name: str) -> tuple[str, int, str]:
    """How the first run that showed something ended, else UNSEEN; how many ran; and codes_of()."""
    path = edited(run, one, folder, name)
    codes, count = codes_of(path), 0
    for each in [run] * GPU_RUNS + [run.on_gpu()] * GPU_RUNS:
        command_line, environment = gpu_run(
            [program(run.rung), *each.arguments(), "--check", "--data=ints"], path)
        count += 1
        ended: Ended = run_watched(command_line,
                                   {**environment, "LADDER_TIMEOUT": str(GPU_TIMEOUT_S)},
                                   10 * GPU_TIMEOUT_S)  # fmt: skip
        if ended.kind != "clean":
            return ended.kind, count, codes
    return UNSEEN, count, codes


def run_all_on_gpu(path: Path) -> int:
    if why := no_gpu():
        why = f"--gpu runs on a GPU of compute capability 9.0; there is none: {why}."
        raise Problem(why, NO_DEVICE)
    tries: list[tuple[Run, Ordering | None]] = [(run, None) for run in RUNS]
    tries += to_try(read_found())
    text = io.StringIO()
    wrong = []
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:  # fmt: skip
        made = [pool.submit(try_on_gpu, run, one, folder, str(i))
                for i, (run, one) in enumerate(tries)]  # fmt: skip
        for (run, one), future in zip(tries, made):
            ended, count, codes = future.result()
            if one is not None:
                row = [run.rung, run.variant, one.instruction, one.source, ended, count, codes]
                csv.writer(text, lineterminator="\n").writerow(row)
                print(*row[:3], ended, count, flush=True)
            elif ended != UNSEEN:
                wrong.append(f"rung {run.rung}, {run.variant}, with nothing left out: {ended}")
    write_atomically(path, text.getvalue())
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


# --- docs/leave_out.md ---------------------------------------------------------------------------


def counted(names: Iterable[str]) -> str:
    """"shared-race 7, deadlock 2"."""
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common())


def table_of(found: Found) -> list[str]:
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


ENDS = ["wrong result", "fault", "hang", UNSEEN]


def gpu_table_of(found: Found) -> list[str]:
    """By instruction, those that pass unseen most often first."""
    did: dict[str, Counter[str]] = {}
    said: dict[str, Counter[str]] = {}
    for row in recorded(found):
        name = re.sub(r"\.shared::\w+\.b64|\.global\.u32|\.sync_restrict\S+", "", row.instruction)
        did.setdefault(name, Counter())[row.ended] += 1
        said.setdefault(name, Counter()).update(row.ptxas.split())
    total = sum(did.values(), Counter())
    rows = [[f"`{name}`", str(sum(ended.values())), *(str(ended[end]) for end in ENDS),
             ", ".join(f"{code} {count}" for code, count in said[name].most_common())]
            for name, ended in sorted(did.items(), key=lambda each: -each[1][UNSEEN])]  # fmt: skip
    tried, all_of_them = sum(total.values()), len(to_try(found))
    return [f"{total[UNSEEN]} of {tried} pass unseen, in six runs of six."
            + (f" {all_of_them - tried} have not run." if tried < all_of_them else ""), "",
            *table(["left out", "times", *ENDS, "ptxas says"], rows)]  # fmt: skip


def list_of(found: Found) -> list[str]:
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


def page_with_blocks(page: str, found: Found) -> str:
    bodies = {"table": table_of(found), "list": list_of(found), "h200": gpu_table_of(found)}
    return rewritten(page, MARKER, lambda match, _: bodies[match.group(1)], "docs/leave_out.md")


@command("leave_out")
def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("rung", nargs="?", type=int)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--gpu", metavar="CSV")
    options, others = parser.parse_known_args(arguments)
    if options.page:
        text = PAGE.read_text(encoding="utf-8")
        found = all_orderings()
        write_atomically(FOUND, text_of(found))
        write_atomically(PAGE, page_with_blocks(text, found))
        return OK
    if options.gpu is not None:
        return run_all_on_gpu(Path(options.gpu))
    runs = [run for run in RUNS if run.rung == options.rung]
    if options.rung is None:
        raise Problem(f"name a rung from 1 to {RUNS[-1].rung}, or --page, or --gpu CSV.")
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
