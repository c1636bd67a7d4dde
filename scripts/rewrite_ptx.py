#!/usr/bin/env python3
"""Rewrites the PTX of a rung, so that its source stays untouched. Python standard library only.

    rewrite_ptx.py --sleep SEED IN.ptx OUT.ptx   seeded sleeps, for events in another order
    rewrite_ptx.py --mutate NAME IN.ptx OUT.ptx  a bug from scripts/mutations.py
    rewrite_ptx.py --fatbin OUT.fatbin IN.ptx    assembles, for a run on a GPU

IN.ptx is what `nvcc -lineinfo` wrote: its .loc lines lead from an instruction to the stage file, so
that a place is found by what the source says there, not by a number that the next edit changes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lib.cli import OK, command, number, parser_of
from lib.mutations.core import find_mutation
from lib.ptx import load_module
from lib.replace import make_fatbin
from lib.stamps import add_sleeps


@command("rewrite_ptx")
def main() -> int:
    parser = parser_of(__doc__)
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument("--sleep", type=number("--sleep", 0, 10**9, 1), metavar="SEED")
    verb.add_argument("--mutate", metavar="NAME")
    verb.add_argument("--fatbin", metavar="OUT")
    parser.add_argument("input", metavar="IN.ptx")
    parser.add_argument("output", metavar="OUT.ptx", nargs="?", type=Path)
    options = parser.parse_args()
    if (options.output is None) != (options.fatbin is not None):
        parser.error("OUT.ptx is missing" if options.output is None else "--fatbin takes one file")
    if options.fatbin:
        print(make_fatbin(options.input, options.fatbin), end="")
        return OK
    module = load_module(options.input)
    if options.mutate:
        find_mutation(options.mutate).apply(module)
    else:
        for name in module.names:
            add_sleeps(module.kernel(name), options.sleep)
    options.output.write_text(module.rewritten(), encoding="utf-8")
    return OK


if __name__ == "__main__":
    sys.exit(main())
