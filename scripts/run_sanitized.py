#!/usr/bin/env python3
"""Runs the suites of `make test SANITIZE=1` and ends in one line: N passed, N failed, N skipped.

A finding of a sanitizer ends its suite; what it says stands in the suite's log, is printed, and
counts as a failure. Python standard library only.
"""

from __future__ import annotations

import os
import sys

from lib.cli import parser_of
from run_tests import report, run_suite

FOLDER = os.path.join("build", "sanitize")
SETTINGS = ["env", "UBSAN_OPTIONS=print_stacktrace=1"]
# The machine stands in for the GPU in `golden` alone.
MACHINE = f"LD_LIBRARY_PATH={FOLDER}/machine"
SUITES = {
    "host": [*SETTINGS, f"{FOLDER}/host"],
    "machine_test": [*SETTINGS, f"{FOLDER}/machine_test"],
    "golden": [
        *SETTINGS, MACHINE, f"{FOLDER}/golden", "check", "build/golden", "tests/golden/recorded"
    ],  # fmt: skip
}


def main() -> int:
    parser_of(__doc__).parse_args()
    results = ((name, run_suite(name, command, FOLDER)) for name, command in SUITES.items())
    return report(results, FOLDER)


if __name__ == "__main__":
    sys.exit(main())
