#!/usr/bin/env python3
"""Bugs, each put into the PTX of a kernel that has none, and what the PTX machine says about it.

    mutations.py                    every mutation on the machine; a row each; `caught N of N`
    mutations.py --show NAME        one, for a reader: the line, the change, the report
    mutations.py --list             names and what they change
    mutations.py --known NAME...    runs nothing; refuses names that there are not
    mutations.py --gpu CSV          the same bugs on a GPU, where many pass unseen: each in up to
                                    three runs, then in up to three with seeded sleeps, until one
                                    shows it; CSV, if it is not -, gets a row each
    mutations.py --page             writes the tables of docs/failures.md
    [--only NAME,NAME]

A mutation is caught if the machine's first report is for the right reason: of an expected kind,
and naming the instructions that it should. The kernels without bugs must be clean under each of
the policies that show one. Kinds: race, undefined, hang, fault, refused (the machine's), wrong
result (the program's check).
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from doctor import no_gpu
from lib import tools
from lib.cli import NO_DEVICE, OK, REFUSED, ROOT, Problem, command, parser_of
from lib.markdown import rewritten, squeezed, table
from lib.mutations.core import GROUPS, MUTATIONS, Mutation, Policy, find_mutation
from lib.mutations.subjects import Subject
from lib.ptx import Module, load_module
from lib.replace import Run, gpu_run, machine_run
from lib.stamps import add_sleeps
from lib.store import write_atomically

TIMEOUT_S = 120  # of one run, which takes a second or two
GPU_TIMEOUT_S = 4  # of the program's own watchdog, for a kernel of some microseconds
GPU_RUNS = 3
UNSEEN = "passes unseen"

# --- runs ----------------------------------------------------------------------------------------

# How the first sentence of a report of the machine begins.
KINDS = {"Race": "race", "Undefined": "undefined", "Unwritten": "race", "Deadlock": "hang",
         "Livelock": "hang", "Fault": "fault", "Refused": "refused"}  # fmt: skip
REPORT = re.compile(rf"^({'|'.join(KINDS)}) in kernel ", re.MULTILINE)


class Ended:
    """How a run ended: `kind` is "clean" or one of the kinds above, `report` what it printed."""

    def __init__(self, status: int, report: str) -> None:
        self.status, self.report = status, report
        said = REPORT.search(report)
        if status == 0:
            self.kind = "clean"
        elif said:
            self.kind = KINDS[said.group(1)]
        elif status == 4:
            self.kind = "hang"
        elif status == 1 and "FAIL" in report:
            self.kind = "fault" if "Error" in report else "wrong result"
        else:
            self.kind = f"exit code {status}"

    def missing(self, words: list[str]) -> list[str]:
        return [word for word in words if not re.search(word, self.report)]

    def show(self) -> None:
        print("    " + self.report.strip().replace("\n", "\n    "), flush=True)


def run(words: list[str], environment: dict[str, str], limit_s: float) -> Ended:
    try:
        ended = tools.run(words, environment, timeout=limit_s, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return Ended(4, f"The program had not ended after {limit_s} s.")
    except OSError as error:
        raise Problem(f"{words[0]} does not start ({error.strerror}): run make first")
    return Ended(ended.returncode, ended.stdout)


def run_on_machine(subject: Subject, policy: str, seed: int, ptx: str | None = None) -> Ended:
    """One thread, since as many runs as there are cores go on side by side."""
    words, environment = machine_run(subject.command(), ptx)
    environment.update({"MACHINE_POLICY": policy, "MACHINE_SEED": str(seed), "MACHINE_SMS": "4",
                        "MACHINE_THREADS": "1"})  # fmt: skip
    return run(words, environment, TIMEOUT_S)


def write_ptx(
    subject: Subject, path: str, edit: Callable[[Module], None], sleep: int | None = None
) -> str:
    """The path of PTX with that edit; with `sleep`, a seed, with sleeps as well."""
    module = load_module(ROOT / subject.ptx)
    edit(module)
    if sleep is not None:
        module = Module(module.rewritten())
        add_sleeps(subject.find_kernel(module), sleep)
    Path(path).write_text(module.rewritten(), encoding="utf-8")
    return path


def write_mutated(mutation: Mutation, folder: str) -> str:
    return write_ptx(mutation.subject, f"{folder}/{mutation.name}.ptx", mutation.apply)


class Verdict(NamedTuple):
    caught: bool
    text: str
    policy: Policy
    ended: Ended


def judge(mutation: Mutation, policy: Policy, ended: Ended) -> Verdict:
    """Verdict on the first run that was not clean."""
    if ended.kind not in mutation.caught:
        return Verdict(False, f"{ended.kind}, not {' or '.join(mutation.caught)}", policy, ended)
    missing = ended.missing(mutation.caught[ended.kind])
    if missing:
        return Verdict(False, f"{ended.kind}, but the report lacks {missing}", policy, ended)
    return Verdict(True, ended.kind, policy, ended)


def try_on_machine(mutation: Mutation, folder: str) -> Verdict:
    """Runs one policy after another until something is reported."""
    path = write_mutated(mutation, folder)
    for policy, seed in mutation.policies:
        ended = run_on_machine(mutation.subject, policy, seed, path)
        if ended.kind != "clean":
            return judge(mutation, (policy, seed), ended)
    return Verdict(False, "nothing", mutation.policies[-1], ended)


def policy_text(policy: str, seed: int) -> str:
    return f"random, seed {seed}" if policy == "random" else policy


def run_all(mutations: list[Mutation]) -> int:
    head = ("mutation", "kernel", "what was changed")
    rows = [head, *((m.name, m.subject.what, m.what) for m in mutations)]
    widths = [max(map(len, column)) for column in zip(*rows)] + [len("wrong result"), 0]

    def print_row(*cells: str) -> None:
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths))
        print(line.rstrip(), flush=True)

    print_row(*head, "caught as", "policy")
    caught = false_reports = 0
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(cores) as pool:  # fmt: skip
        tries = [pool.submit(try_on_machine, mutation, folder) for mutation in mutations]
        subjects = {(m.subject.program, m.subject.variant, *policy): m.subject
                    for m in mutations for policy in m.policies}  # fmt: skip
        clean = {key: pool.submit(run_on_machine, subject, *key[2:])
                 for key, subject in subjects.items()}  # fmt: skip
        for row, future in zip(rows[1:], tries):
            verdict = future.result()
            caught += verdict.caught
            said = verdict.text if verdict.caught else f"NOT CAUGHT: {verdict.text}"
            print_row(*row, said, policy_text(*verdict.policy))
            if not verdict.caught:
                verdict.ended.show()
        for (program, variant, policy, seed), run_of in clean.items():
            ended = run_of.result()
            if ended.kind == "clean":
                continue
            false_reports += 1
            print(f"FALSE REPORT without a bug: {ended.kind}, {program} {variant}, "
                  f"{policy_text(policy, seed)}")  # fmt: skip
            ended.show()
    print(f"clean without a bug: {len(clean) - false_reports} of {len(clean)} runs")
    print(f"caught {caught} of {len(mutations)}")
    return 0 if caught == len(mutations) and false_reports == 0 else 1


# --- on a GPU ------------------------------------------------------------------------------------


def assemble(
    subject: Subject, path: str, edit: Callable[[Module], None], sleep: int | None
) -> Run:
    words, environment = gpu_run(subject.command(), write_ptx(subject, path, edit, sleep))
    return words, {**environment, "LADDER_TIMEOUT": str(GPU_TIMEOUT_S)}


def first_shown(made: list[concurrent.futures.Future[Run]]) -> tuple[Ended, int]:
    """How the first run that showed something ended, or else the last; and how many ran."""
    for i in range(GPU_RUNS):
        ended = run(*made[i % len(made)].result(), 3 * GPU_TIMEOUT_S)
        if ended.status in (REFUSED, NO_DEVICE):  # of the program: no kernel has run
            raise Problem(ended.report.strip(), ended.status)
        if ended.kind != "clean":
            break
    return ended, i + 1


def run_all_on_gpu(mutations: list[Mutation], csv: str) -> int:
    """Each mutation without sleeps; those that pass unseen, and the kernels without a bug, with.
    As many threads assemble as there are cores; a GPU itself runs one program after another."""
    if csv != "-" and not Path(csv).parent.is_dir():  # before anything is measured for it
        raise Problem(f"--gpu is {csv}, whose folder {Path(csv).parent} is not there; make it.")
    if Path(csv).is_dir():
        raise Problem(f"--gpu is '{csv}', a folder: name a file in it, or - for none.")
    if why := no_gpu():
        why = f"--gpu runs on a GPU of compute capability 9.0; there is none: {why}."
        raise Problem(why, NO_DEVICE)
    said: dict[str, list[str]] = {}
    unseen, wrong = [], []
    subjects = {(m.subject.program, m.subject.variant): m.subject for m in mutations}
    seeds = range(1, GPU_RUNS + 1)
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # fmt: skip

        def start(
            name: str, subject: Subject, edit: Callable[[Module], None], seeds: Iterable[int | None]
        ) -> list[concurrent.futures.Future[Run]]:
            """Assembles, for a run without sleeps, None, or with those of a seed."""
            return [pool.submit(assemble, subject, f"{folder}/{name}.{seed}.ptx", edit, seed)
                    for seed in seeds]  # fmt: skip

        plain = [start(m.name, m.subject, m.apply, [None]) for m in mutations]
        for mutation, made in zip(mutations, plain):
            name, (ended, runs) = mutation.name, first_shown(made)
            said[name] = [on_gpu(ended), str(runs), "", ""]
            if mutation.gpu not in (None, ended.kind):
                wrong.append(f"{name}: {ended.kind}, not {mutation.gpu}\n{ended.report}")
            if ended.kind == "clean":
                unseen.append(mutation)
            else:
                print(name, *said[name][:2], sep=",", flush=True)
        slept = [start(m.name, m.subject, m.apply, seeds) for m in unseen]
        sound = [start(f"sound{i}", subject, lambda module: None, seeds)
                 for i, subject in enumerate(subjects.values())]  # fmt: skip
        for mutation, made in zip(unseen, slept):
            ended, runs = first_shown(made)
            said[mutation.name][2:] = [on_gpu(ended), str(runs)]
            print(mutation.name, *said[mutation.name], sep=",", flush=True)
        for subject, made in zip(subjects.values(), sound):
            ended, _ = first_shown(made)
            if ended.kind != "clean":
                wrong.append(f"{subject.what} without a bug: {ended.kind}\n{ended.report}")
    if csv != "-":
        rows = [",".join([name, *cells]) + "\n" for name, cells in said.items()]
        Path(csv).write_text("".join(rows), encoding="utf-8")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"passed unseen {len(unseen)} of {len(mutations)}; not as it must be: {len(wrong)}")
    return 1 if wrong else 0


def on_gpu(ended: Ended) -> str:
    return UNSEEN if ended.kind == "clean" else ended.kind


# --- for a reader --------------------------------------------------------------------------------

SHOWN_EDITS, SHOWN_CHARS = 4, 150


def changed_lines(module: Module) -> list[str]:
    """The edits as "- old" and "+ new" lines. Of what has moved it says behind which line it is now."""
    out: list[str] = []
    taken_out = {squeezed(module.text[start:end]) for start, end, _ in module.edits}
    for start, end, new in sorted(module.edits)[:SHOWN_EDITS]:
        for sign, text in (("-", module.text[start:end]), ("+", new)):
            text = squeezed(text)
            cut = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + " ..."
            if sign == "+" and text in taken_out:
                cut += f"   (behind {line_before(module.text, start)})"
            out += [f"{sign} {cut}"] if text else []
    more = len(module.edits) - SHOWN_EDITS
    return out + ([f"  and {more} more"] if more > 0 else [])


def line_before(text: str, position: int) -> str:
    """The last statement of PTX before a position: no comment, and no line number."""
    lines = (squeezed(line) for line in reversed(text[:position].split("\n")))
    return next(line for line in lines if line and not line.startswith(("//", ".loc", "{", "}")))


def source_of(mutation: Mutation, module: Module) -> str:
    """Line of the stage file, and its text, of the first instruction that is changed."""
    kernel = mutation.subject.find_kernel(module)
    for start, end, _ in module.edits:
        for i in kernel.instructions:
            if i.places and (i.start <= start < i.end or start in (i.start, i.end)):
                stage_file = i.places[0][0]
                return module.sources.line(*[p for p in i.places if p[0] == stage_file][-1])
    return "no line of its own"


def show(mutation: Mutation) -> int:
    module = load_module(ROOT / mutation.subject.ptx)
    mutation.apply(module)
    print(f"{mutation.name} ({mutation.subject.what})\n")
    print(f"The line    {source_of(mutation, module)}")
    print(f"The change  {mutation.what}")
    print("".join(f"            {line}\n" for line in changed_lines(module)), end="")
    print(f"The lesson  {mutation.lesson}")
    print(f"On an H200  {on_h200().get(mutation.name, 'not run')}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        verdict = try_on_machine(mutation, folder)
    print(f"The PTX machine, policy {policy_text(*verdict.policy)}:\n")
    print(verdict.ended.report.strip())
    if not verdict.caught:
        print(f"\nNOT CAUGHT as expected: {verdict.text}")
    return 0 if verdict.caught else 1


# --- docs/failures.md ----------------------------------------------------------------------------

PAGE = ROOT / "docs/failures.md"
MARKER = re.compile("^<!-- failures -->$", re.MULTILINE)
RECORDED = ROOT / "docs/results/h200.mutations.csv"


def recorded() -> dict[str, list[str]]:
    """By name: what an H200 did without sleeps, in how many runs, and the same with sleeps."""
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in lines if not line.startswith("#")]
    return {row[0]: row[1:] for row in rows}


def on_h200() -> dict[str, str]:
    return {
        name: f"{UNSEEN}; with sleeps {slept}" if slept not in ("", UNSEEN) else plain
        for name, (plain, _, slept, _) in recorded().items()
    }


def page_tables() -> list[str]:
    did = on_h200()
    unseen = sum(said.startswith(UNSEEN) for said in did.values())
    slept = [f"`{name}`" for name, said in did.items() if "with sleeps" in said]
    lines = [f"Of the {len(did)} that ran on the H200, {unseen} passed unseen there, each "
             f"{GPU_RUNS} times. Sleeps showed {len(slept)} of these: {', '.join(slept)}. The other "
             f"{unseen - len(slept)} passed unseen with sleeps as well.", ""]  # fmt: skip
    header = ["name", "kernel", "what was changed", "the machine says", "an H200", "the lesson"]
    for group in GROUPS:
        rows = [[f"`{m.name}`", m.subject.what, m.what, " or ".join(m.caught),
                 did.get(m.name, "not run"), m.lesson]
                for m in MUTATIONS.values() if m.group == group]  # fmt: skip
        lines += [f"### {group}", "", *table(header, rows), ""]
    return lines[:-1]


def page_with_tables(page: str) -> str:
    if not MARKER.search(page):
        raise Problem("docs/failures.md needs one line <!-- failures -->")
    return rewritten(page, MARKER, lambda *_: page_tables(), "docs/failures.md")


@command("mutations")
def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    verb = parser.add_mutually_exclusive_group()
    verb.add_argument("--show", metavar="NAME")
    verb.add_argument("--list", action="store_true")
    verb.add_argument("--known", nargs="+", metavar="NAME")
    verb.add_argument("--page", action="store_true")
    verb.add_argument("--gpu", metavar="CSV")
    parser.add_argument("--only", metavar="NAME,NAME")
    options = parser.parse_args(arguments)
    others = options.show is not None or options.list or options.known or options.page
    if options.only is not None and others:
        raise Problem(f"--only={options.only} is for runs of all or with --gpu; leave it out here.")
    for name in options.known or ():
        find_mutation(name)
    if options.list:
        width = max(map(len, MUTATIONS))
        for each in MUTATIONS.values():
            print(f"{each.name:{width}}  {each.subject.what}: {each.what}")
    if options.page:
        write_atomically(PAGE, page_with_tables(PAGE.read_text(encoding="utf-8")))
    if options.list or options.page or options.known:
        return OK
    if options.show is not None:
        return show(find_mutation(options.show))
    names = list(MUTATIONS) if options.only is None else options.only.split(",")
    chosen = [find_mutation(name) for name in names]
    return run_all(chosen) if options.gpu is None else run_all_on_gpu(chosen, options.gpu)


if __name__ == "__main__":
    sys.exit(main())
