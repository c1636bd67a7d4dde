"""SASS: where rung 14 promotes sums of s8, conversions take turns with multiply-adds.

One conversion takes two clocks of a scheduler in one pipe, while another pipe adds. ptxas chooses the
order, and converts all sums before it adds the first if nothing keeps it from that (docs/14).
"""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hazard_test import ROOT, disassembled, listing  # noqa: E402

from lib.tools import find_tool  # noqa: E402

S8 = re.compile(r"12block_scaled4gemmINS_4TileIaLb1E")  # Tile<s8, PROMOTE = true, ...>
MOST = 6  # conversions with no multiply-add between


def longest_run(code):
    """Conversions behind each other, whatever else stands between, without a multiply-add."""
    longest = run = 0
    for each in code:
        if each.text.startswith("I2FP.F32.S32"):
            run += 1
            longest = max(longest, run)
        elif each.text.startswith("FFMA"):
            run = 0
    return longest


class Promotion(unittest.TestCase):
    def test_runs_are_counted(self):
        turns = ["I2FP.F32.S32 R1, R2", "FFMA R3, R1, R4, R3"] * 3
        self.assertEqual(longest_run(listing(*turns, "EXIT")), 1)
        self.assertEqual(longest_run(listing(*sorted(turns, reverse=True), "EXIT")), 3)

    def test_they_take_turns(self):
        path = os.path.join(ROOT, "build", "ptx", "14_block_scaled.cubin")
        if find_tool("nvdisasm") is None or not os.path.exists(path):
            self.skipTest("nvdisasm is neither on PATH nor in CUDA_HOME nor from pip")
        found = {name: longest_run(code) for name, code in disassembled(path).items() if S8.search(name)}
        self.assertGreater(len(found), 10)
        self.assertEqual({name: run for name, run in found.items() if run > MOST}, {})


if __name__ == "__main__":
    unittest.main()
