"""SASS: the second kernel of rung 12's cut tiles has its loads on the way before it adds.

ptxas chooses the order. Where it works out an address for each load, it may add the first part before
it asks for the second, and each load then waits for the one before it (docs/sums.md).
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hazard_test import ROOT, disassembled, listing  # noqa: E402

from lib.tools import find_tool  # noqa: E402

LOADS = 8


def loads_before_an_addition(code):
    """Loads of global memory up to the first addition of floats."""
    loads = 0
    for each in code:
        if each.text.startswith("FADD"):
            break
        loads += each.text.startswith("LDG")
    return loads


class AddUp(unittest.TestCase):
    def test_loads_are_counted(self):
        load, add = "LDG.E.128 R4, desc[UR6][R36.64]", "FADD R3, R1, R4"
        self.assertEqual(loads_before_an_addition(listing(load, load, add, load, add, "EXIT")), 2)

    def test_all_but_one_stand_before_the_first_addition(self):
        path = os.path.join(ROOT, "build", "ptx", "12_stream_k.cubin")
        if find_tool("nvdisasm") is None or not os.path.exists(path):
            self.skipTest("nvdisasm is neither on PATH nor in CUDA_HOME nor from pip")
        found = {
            name: loads_before_an_addition(code)
            for name, code in disassembled(path).items()
            if "add_up" in name
        }
        self.assertGreater(len(found), 10)
        self.assertEqual({name: n for name, n in found.items() if n < LOADS - 1}, {})


if __name__ == "__main__":
    unittest.main()
