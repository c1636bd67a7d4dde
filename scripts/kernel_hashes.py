#!/usr/bin/env python3
"""Fingerprints kernels by their PTX: {mangled kernel name: hash}. scripts/lib/fingerprints.py says
what a hash covers.

    kernel_hashes.py build/ptx/*.ptx > build/ptx/hashes.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lib.cli import WRONG, Problem, command
from lib.fingerprints import kernel_hashes


@command()
def main() -> int:
    hashes: dict[str, str] = {}
    for path in sys.argv[1:]:
        for name, value in kernel_hashes(Path(path).read_text(encoding="utf-8")).items():
            if name in hashes:
                raise Problem(f"{path}: a second kernel is named {name}.", WRONG)
            hashes[name] = value
    json.dump(hashes, sys.stdout, indent=1, sort_keys=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
