#!/usr/bin/env python3
"""Runs the suites of `make test SANITIZE=1` and ends in one line: N passed, N failed, N skipped.

A finding of a sanitizer ends its suite; what it says stands in the suite's log, is printed, and
counts as a failure. Python standard library only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

FOLDER = os.path.join("build", "sanitize")
GOLDEN = (
    "golden",
    "check",
    os.path.join("build", "golden"),
    os.path.join("tests", "golden", "recorded"),
)
SUITES = (("host",), ("machine_test",), GOLDEN)  # programs in FOLDER, with their arguments
LINE = re.compile(r"^\w+: (\d+) passed, (\d+) failed, (\d+) skipped$")
SETTINGS = {"UBSAN_OPTIONS": "print_stacktrace=1"}


def counts(status: int, output: str) -> list[int]:
    """[passed, failed, skipped] of a suite that ended with exit code `status`."""
    lines = output.strip().splitlines()
    match = LINE.match(lines[-1]) if lines else None
    if match is None:  # it ended before its last line
        return [0, 1, 0]
    passed, failed, skipped = map(int, match.groups())
    return [passed, failed or int(status != 0), skipped]


def main() -> int:
    total = [0, 0, 0]
    settings = {"LD_LIBRARY_PATH": os.path.join(FOLDER, "machine"), **SETTINGS}
    for name, *arguments in SUITES:
        start = time.monotonic()
        # The machine stands in for the GPU in `golden` alone.
        environment = {**os.environ, **settings} if arguments else {**os.environ, **SETTINGS}
        run = subprocess.run(
            [os.path.join(FOLDER, name), *arguments], env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        output = run.stdout.decode(errors="replace")
        log = os.path.join(FOLDER, name + ".log")
        with open(log, "w", encoding="utf-8") as file:
            file.write(output)
        found = counts(run.returncode, output)
        if found[1]:
            print(output.rstrip())
        seconds = time.monotonic() - start
        print(f"  {name:12} {found[0]:4} passed, {found[1]:3} failed, {found[2]:3} skipped"
              f"  {seconds:5.1f} s  {log}", flush=True)  # fmt: skip
        total = [a + b for a, b in zip(total, found)]
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
