#!/usr/bin/env python3
"""Fingerprints kernels by their PTX: {mangled kernel name: hash}. scripts/lib/fingerprints.py says
what a hash covers.

    kernel_hashes.py build/ptx/*.ptx > build/ptx/hashes.json
"""

from __future__ import annotations

import json
import sys

from lib.cli import WRONG, Problem, command
from lib.fingerprints import kernel_hashes
from lib.ptx import read_ptx


@command()
def main() -> int:
    hashes: dict[str, str] = {}
    paths = sys.argv[1:]
    if not paths:
        raise Problem("No file of PTX is named; try kernel_hashes.py build/ptx/*.ptx.")
    for path in paths:
        for name, value in kernel_hashes(read_ptx(path)).items():
            if name in hashes:
                raise Problem(f"{path}: a second kernel is named {name}.", WRONG)
            hashes[name] = value
    json.dump(hashes, sys.stdout, indent=1, sort_keys=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
