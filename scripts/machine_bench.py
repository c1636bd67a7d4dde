#!/usr/bin/env python3
"""How fast the PTX machine is on this machine; a benchmark, not a test.

    machine_bench.py

Runs rungs with and without the checker, on one thread and on all, and prints warp instructions and
multiply-adds of wgmma a second. Python standard library only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from lib.cli import OK, WRONG, Problem, command, parser_of

LINE = re.compile(
    r"^machine: (\S*gemm\S*): (\d+) warp instructions, (\d+) products of wgmma, ([\d.]+) s$", re.M
)
# (what it stands for, program, variant, shape)
LOADS = (
    ("SIMT: fma and shared memory", "build/stage-01", "128x128", (512, 512, 512)),
    ("ldmatrix and mma.sync", "build/stage-03", "depth3", (1024, 1024, 1024)),
    ("TMA and wgmma n64", "build/stage-05", "bn64", (2048, 1024, 1024)),
    ("TMA and wgmma n256", "build/stage-05", "bn256", (2048, 2048, 1024)),
    ("the same, specialised and persistent", "build/stage-07", "group16", (2048, 2048, 1024)),
)
ROUNDS = 3


def measure(
    program: str, variant: str, shape: tuple[int, int, int], check: int, threads: int
) -> tuple[float, float]:
    """(warp instructions a second, products a second) of the fastest of some runs."""
    environment = {
        **os.environ, "LADDER_DEVICE": "machine", "MACHINE_STATS": "1", "MACHINE_POLICY": "eager",
        "MACHINE_CHECK": str(check), "MACHINE_THREADS": str(threads),
    }  # fmt: skip
    words = [program, "--check", f"--variant={variant}", "--data=zeros"]
    words += [f"--{name}={size}" for name, size in zip("mnk", shape)]
    runs = []
    for _ in range(ROUNDS):
        run = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        found = LINE.search(run.stderr)
        if run.returncode != 0 or found is None:
            raise Problem(f"{' '.join(words)} failed:\n{run.stdout}{run.stderr}", WRONG)
        runs.append((float(found[4]), int(found[2]), int(found[3])))
    seconds, instructions, products = min(runs)
    return instructions / seconds, products / seconds


@command()
def main() -> int:
    parser_of(__doc__).parse_args()
    cores = os.cpu_count() or 1
    heads = f"{'M warp instructions/s':>24} {'GMAC/s of wgmma':>18}"
    print(f"{'':38} {heads}   checker   {cores} threads")
    for what, program, variant, shape in LOADS:
        instructions, products = measure(program, variant, shape, 0, 1)
        checked, _ = measure(program, variant, shape, 1, 1)
        together, _ = measure(program, variant, shape, 0, cores)
        print(
            f"{what:38} {instructions / 1e6:24.1f} {products / 1e9:18.2f}"
            f"   x {instructions / checked:5.2f}   x {together / instructions:.2f}",
            flush=True,
        )
    print("one thread, checker off; then what the checker costs, and what all threads gain")
    return OK


if __name__ == "__main__":
    sys.exit(main())
