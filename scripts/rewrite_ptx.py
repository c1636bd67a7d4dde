#!/usr/bin/env python3
"""Rewrites the PTX of a rung, so that its source stays untouched. Python standard library only.

    rewrite_ptx.py --sleep SEED [--kernel NAME] IN.ptx OUT.ptx   seeded sleeps, so that events come
                                                                 in another order
    rewrite_ptx.py --stamp [--kernel NAME] [--first-cta C] IN.ptx OUT.ptx
                                                                 clock stamps, for scripts/trace.py
    rewrite_ptx.py --mutate NAME IN.ptx OUT.ptx                  a bug from scripts/mutations.py
    rewrite_ptx.py --fatbin OUT.fatbin IN.ptx                    assembles, for a run on a GPU
    rewrite_ptx.py --sleep SEED IN.ptx OUT.ptx --run PROGRAM ... runs a program with it

IN.ptx is what `nvcc -lineinfo` wrote: its .loc lines lead from an instruction to the stage file, so
that a place is found by what the source says there, not by a number that the next edit changes.
--run, last on the line, takes the GPU if there is one and LADDER_DEVICE does not say machine, else
the PTX machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from lib.cli import command, parser_of
from lib.mutations.core import find_mutation
from lib.ptx import load_module
from lib.replace import gpu_run, has_gpu, machine_run, make_fatbin
from lib.stamps import TRACE_CTAS, add_sleeps, add_stamps


def run_with(words: list[str], ptx: str) -> int:
    words, environment = gpu_run(words, ptx) if has_gpu() else machine_run(words, ptx)
    sys.stdout.flush()
    return subprocess.run(words, env=dict(os.environ, **environment), check=False).returncode


def rewrite(options: Any) -> None:
    module = load_module(options.input)
    names = [options.kernel] if options.kernel else module.names
    if options.mutate:
        mutation = find_mutation(options.mutate)
        mutation.apply(module)
        done = mutation.what
    elif options.stamp:
        kernels = [module.kernel(name) for name in names]
        done = f"{add_stamps(module, kernels, options.first_cta)} clock stamps"
    else:
        kernels = [module.kernel(name) for name in names]
        done = f"{sum(add_sleeps(kernel, options.sleep) for kernel in kernels)} sleeps"
    output = Path(options.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(module.rewritten(), encoding="utf-8")
    print(f"{options.output}: {done}")


@command("rewrite_ptx")
def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument("--sleep", type=int, metavar="SEED")
    verb.add_argument("--stamp", action="store_true")
    verb.add_argument("--mutate", metavar="NAME")
    verb.add_argument("--fatbin", metavar="OUT")
    parser.add_argument("--kernel", metavar="NAME", help="mangled; all kernels without it")
    parser.add_argument("--first-cta", type=int, default=0, metavar="C",
                        help=f"{TRACE_CTAS} CTAs from this one on leave stamps")
    parser.add_argument("input", metavar="IN.ptx")
    parser.add_argument("output", metavar="OUT.ptx", nargs="?")
    parser.add_argument("--run", nargs=argparse.REMAINDER, metavar="PROGRAM")
    options = parser.parse_args(arguments)
    if (options.output is None) != (options.fatbin is not None):
        parser.error("OUT.ptx is missing" if options.output is None else "--fatbin takes one file")
    if options.fatbin:
        sys.stdout.write(make_fatbin(options.input, options.fatbin))
        return 0
    rewrite(options)
    return run_with(options.run, options.output) if options.run else 0


if __name__ == "__main__":
    sys.exit(main())
