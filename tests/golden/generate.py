#!/usr/bin/env python3
"""Writes the golden tests' PTX modules and cases.txt into a folder: generate.py FOLDER"""

import sys

from cases import alu, barrier, encode, mma, sync, tma, warp, wgmma
from suite import Suite


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: generate.py FOLDER")
    suite = Suite()
    for family in (alu, warp, mma, wgmma, tma, sync, encode, barrier):
        family.add(suite)
    suite.write(sys.argv[1])
    kernels = sum(len(k) for k in suite.modules.values())
    print(f"{len(suite.cases)} cases, {kernels} kernels, {len(suite.modules)} modules")


main()
