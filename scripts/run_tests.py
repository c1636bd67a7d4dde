#!/usr/bin/env python3
"""Runs every suite that was built, or those named, and ends in one line: N passed, N failed, N
skipped.

A suite is a program whose last line is "name: N passed, N failed, N skipped". Its whole output goes
to build/test-logs/. One that crashes, runs nothing, prints no such line, or exits non-zero without
a failure counts as one failure more. REQUIRE_GPU=1 makes every skipped GPU test a failure.

Suites run side by side, as many as there are CPUs, and are reported in the order of suites(). What
runs on a GPU comes last, one after the other. There the cases of the suite gpu are processes of
their own, side by side: half as many as there are CPUs, and eight at most.
"""

from __future__ import annotations

import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import time
import unittest
from collections.abc import Iterable, Iterator

from lib.cli import OK, Problem, command, parser_of, suggestion

Suite = tuple[str, list[str]]  # name and command
Ended = tuple[int, str, float]  # exit code, output and seconds
LOGS, SANITIZED = os.path.join("build", "test-logs"), os.path.join("build", "sanitize")
GOLDEN = ("check", "build/golden", "tests/golden/recorded")
TIMEOUT_S = 1800  # of a suite that is stuck; a hung kernel is the business of its own watchdog
LINE = re.compile(r"^(\w+): (\d+) passed, (\d+) failed, (\d+) skipped$")
SKIPPED = re.compile(r"^(?:\w+: )?SKIPPED .*: (.*)$", re.MULTILINE)


def on_machine(*command: str, **settings: object) -> list[str]:
    """The command with the PTX machine in place of the CUDA runtime."""
    variables = {"LD_LIBRARY_PATH": os.path.join("build", "machine"), **settings}
    return ["env"] + [f"{name}={value}" for name, value in variables.items()] + list(command)


def rungs(policy: str, seed: int = 1) -> list[str]:
    # Two clusters of four CTAs, the largest that share a tile's K with other clusters.
    return on_machine("build/tests/rungs", MACHINE_POLICY=policy, MACHINE_SEED=seed, MACHINE_SMS=8)


def sanitized() -> list[Suite]:
    """Those of `make test SANITIZE=1`. A finding of a sanitizer ends its suite, and counts as a
    failure."""
    settings = ["env", "UBSAN_OPTIONS=print_stacktrace=1"]
    # The machine stands in for the GPU in `golden` alone.
    golden = [f"LD_LIBRARY_PATH={SANITIZED}/machine", f"{SANITIZED}/golden", *GOLDEN]
    return [
        ("host", [*settings, f"{SANITIZED}/host"]),
        ("machine", [*settings, f"{SANITIZED}/machine_test"]),
        ("golden", [*settings, *golden]),
    ]


DEVICE = "--test-case=device: what these tests run on"  # passes on a GPU, and is skipped elsewhere
ALONE = ("seam", "called", "gpu")  # what needs a GPU, in part or all of it


def suites() -> list[Suite]:
    """(name, command) of every suite: a few quick ones, then those that take longest."""
    me = [sys.executable, os.path.abspath(__file__), "--unittest"]
    return [
        ("host", ["build/tests/host"]),
        ("scripts", me + ["scripts", "tests/scripts"]),
        ("codegen", ["build/tests/codegen"]),
        ("tree", me + ["tree", "tests/codegen"]),
        ("docs", [sys.executable, "scripts/check_docs.py"]),
        ("lazy", rungs("lazy")),
        ("random", rungs("random")),
        ("random_2", rungs("random", 2)),
        ("eager", rungs("eager")),
        ("calls", on_machine("build/tests/calls", MACHINE_SMS=6)),
        ("machine", ["build/tests/machine"]),
        ("programs", me + ["programs", "tests/machine"]),
        ("golden", on_machine("build/golden/golden", *GOLDEN)),
        ("seam", me + ["seam", "tests/seam"]),
        ("called", me + ["called", "tests/programs"]),
        ("gpu", ["build/tests/gpu"]),
    ]


def run_unittests(name: str, folder: str) -> int:
    """Runs the *_test.py of a folder; prints the line of a suite."""
    tests = unittest.defaultTestLoader.discover(folder, pattern="*_test.py")
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0).run(tests)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    for test, why in result.skipped:
        print(f"SKIPPED {test}: {why}")
    passed = max(0, result.testsRun - failed - skipped)
    print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def verdict(name: str, status: int, output: str, require_gpu: bool) -> tuple[int, int, int, str]:
    """(passed, failed, skipped, why) of a suite that ended with exit code `status`."""
    lines = output.strip().splitlines()
    counts = LINE.match(lines[-1]) if lines else None
    if counts is None:
        how = f"died of signal {-status}" if status < 0 else f"exited {status}"
        return 0, 1, 0, f"{how} without its last line"
    passed, failed, skipped = map(int, counts.groups()[1:])
    why = ""
    if status != 0 and failed == 0:
        failed, why = 1, f"exited {status} with no failed test"
    if passed + failed + skipped == 0:
        failed, why = 1, "ran nothing"
    if name in ALONE and require_gpu and skipped:
        failed, skipped, why = failed + skipped, 0, "REQUIRE_GPU=1: a skipped test is a failure"
    return passed, failed, skipped, why


def run(command: list[str]) -> tuple[int, str]:
    """(exit code, output) of a command."""
    try:
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_S,
            check=False,
        )
        return ended.returncode, ended.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace")
    except OSError as error:
        return 127, str(error)


def run_cases(name: str, command: list[str]) -> tuple[int, str]:
    """The same of a suite on a GPU, each case a process; without a GPU all are one. The cases of
    tests/rungs, which are last, take longest and begin first. Eight of the largest fit into 80 GB,
    and none looks at the clock or at what memory is free."""
    workers = min(8, len(os.sched_getaffinity(0)) // 2)
    if workers < 2 or not run([*command, DEVICE])[1].endswith("1 passed, 0 failed, 0 skipped\n"):
        return run(command)
    listed = run([*command, "--list-test-cases"])[1].splitlines()
    cases = [line for line in listed if not line.startswith(("[doctest]", "====="))]
    numbers = range(len(cases), 0, -1)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        ends = list(pool.map(lambda n: run([*command, f"--first={n}", f"--last={n}"]), numbers))
    total, said = [0, 0, 0], []
    for case, (status, output) in zip(cases, reversed(ends)):
        *counts, why = verdict(name, status, output, False)
        total = [a + b for a, b in zip(total, counts)]
        said += [line for line in output.splitlines() if not LINE.match(line)]
        said += [f"FAILED {case}: {why}"] if why else []
    said.append(f"{name}: {total[0]} passed, {total[1]} failed, {total[2]} skipped\n")
    return 1 if total[1] else 0, "\n".join(said)


def run_suite(name: str, command: list[str], logs: str = "") -> Ended:
    """Runs one suite into its log. Returns its exit code, output and seconds."""
    start = time.monotonic()
    status, output = run_cases(name, command) if name == "gpu" else run(command)
    with open(os.path.join(logs or LOGS, name + ".log"), "w", encoding="utf-8") as file:
        file.write(output)
    return status, output, time.monotonic() - start


def run_all(
    chosen: list[Suite], workers: int, logs: str = ""
) -> Iterator[tuple[str, Ended]]:
    """Runs the suites, those in ALONE last. Yields (name, run_suite's result) in order."""
    beside = [suite for suite in chosen if suite[0] not in ALONE]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        running = [(name, pool.submit(run_suite, name, command, logs)) for name, command in beside]
        try:
            for name, run in running:
                yield name, run.result()
        finally:
            pool.shutdown(cancel_futures=True)  # of a run that is interrupted
    for name, command in chosen:
        if name in ALONE:
            yield name, run_suite(name, command, logs)


def report(results: Iterable[tuple[str, Ended]], logs: str, require_gpu: bool = False) -> int:
    """Prints a line a suite, all that a failed one said, and the sum; returns the exit code."""
    total = [0, 0, 0]
    for name, (status, output, seconds) in results:
        passed, failed, skipped, why = verdict(name, status, output, require_gpu)
        if failed:
            print(output.rstrip())
        note = f"  ({why})" if why else ""
        print(f"  {name:8} {passed:4} passed, {failed:3} failed, {skipped:3} skipped"
              f"  {seconds:5.1f} s  {logs}/{name}.log{note}", flush=True)  # fmt: skip
        for reason, count in collections.Counter(SKIPPED.findall(output)).items():
            print(f"    {count} skipped: {reason}")
        total = [a + b for a, b in zip(total, (passed, failed, skipped))]
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] else 0


def named(names: list[str], there: list[Suite], kind: str = "suite") -> list[Suite]:
    """Those of these names, or all where there are none, in their order."""
    known = [name for name, _ in there]
    for name in names:
        if name not in known:
            close = suggestion(name, known)
            raise Problem(f"there is no {kind} {name}; there are {', '.join(known)}{close}")
    return [suite for suite in there if not names or suite[0] in names]


@command("run_tests")
def main(arguments: list[str]) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    parser.add_argument("--unittest", nargs=2, metavar=("NAME", "FOLDER"),
                        help="run the *_test.py of a folder as a suite of that name")  # fmt: skip
    parser.add_argument("--sanitized", action="store_true", help="those of make test SANITIZE=1")
    parser.add_argument("--known", action="store_true", help="run nothing; refuse unknown names")
    asked = parser.parse_args(arguments)
    if asked.unittest:
        return run_unittests(*asked.unittest)
    there = (sanitized(), "sanitized suite") if asked.sanitized else (suites(),)
    chosen = named(asked.suites, *there)
    if asked.known:
        return OK
    if asked.sanitized:
        return report(run_all(chosen, 1, SANITIZED), SANITIZED)
    os.makedirs(LOGS, exist_ok=True)
    require_gpu = os.environ.get("REQUIRE_GPU") == "1"
    return report(run_all(chosen, len(os.sched_getaffinity(0))), LOGS, require_gpu)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
