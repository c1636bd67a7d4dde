"""explore.py: what it says follows from build/maps, and what it refuses has what works beside it."""

import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import explore  # noqa: E402
from lib.cli import Problem  # noqa: E402


def said(*words):
    return "\n".join(explore.explore(words))


@unittest.skipUnless((ROOT / "build/maps").exists(), "build/maps is not built: make build/maps")
class Explore(unittest.TestCase):
    def test_passes_are_counted_from_banks(self):
        self.assertEqual(explore.passes([128 * row for row in range(8)]), 8)
        self.assertEqual(explore.passes([144 * row for row in range(8)]), 1)
        self.assertEqual(explore.passes([0, 0, 0]), 1)  # the same word for all is one pass
        self.assertIn("1 pass; without a swizzle 8 passes", said("WHAT=swizzle"))
        self.assertIn("1 pass; without a swizzle 4 passes", said("WHAT=swizzle", "SPAN=64"))
        self.assertIn("1 pass at most", said("WHAT=box"))

    def test_descriptors_are_decoded(self):
        text = said("WHAT=descriptor", "MAJOR=MN", "MN=256", "START=2048")
        self.assertIn("4 panels of 64 rows", text)
        self.assertIn("128 = 2,048 bytes", text)
        self.assertIn("512 = 8,192 bytes", text)
        text = said("WHAT=descriptor", "BITS=0x4000004000000042")
        self.assertIn("32 bytes behind a multiple of 1,024", text)
        self.assertIn("beyond", said("WHAT=descriptor", "BITS=0x4000004000003fff"))

    def test_a_fragment_by_lane_and_as_a_whole(self):
        self.assertIn("c0 1,2  c1 1,3  c2 9,2  c3 9,3", said("WHAT=fragment", "LANE=5"))
        lines = explore.explore(["WHAT=fragment"])
        self.assertEqual(
            lines[2 + 9].split(), ["9", *(f"{4 + i // 2}:c{2 + i % 2}" for i in range(8))]
        )

    def test_a_raster_shows_each_tile_once(self):
        lines = explore.explore(
            ["WHAT=raster", "M=1024", "N=1024", "CTAS=6", "GROUP=2", "CLUSTER=2x1"]
        )
        cells = [
            cell for line in lines if "/" in line and line[0].isdigit() for cell in line.split()[1:]
        ]
        self.assertEqual(len(cells), 8 * 4)
        self.assertEqual(len(set(cells)), 8 * 4)

    def test_masks_of_a_cluster_cover_each_row_once(self):
        lines = explore.explore(["WHAT=multicast", "CLUSTER=2x2"])
        table = [
            line.split() for line in lines[2:6]
        ]  # CTA, tile, rows of A, two sharers, mask; of B
        self.assertEqual([row[5] for row in table], ["0x3", "0x3", "0xc", "0xc"])
        self.assertEqual([row[9] for row in table], ["0x5", "0xa", "0x5", "0xa"])
        for column, most in ((2, 256), (6, 512)):
            covered = [n for row in table for n in range(*map(int, row[column].split("-")))]
            self.assertEqual(len(set(covered)), most - 4)  # range leaves out the last row of each
        self.assertIn("asks L2 for 192 rows a step instead of 384", lines[-1])
        of_eight = explore.explore(["WHAT=multicast", "CLUSTER=4x2", "BM=64", "BN=64"])
        self.assertEqual([line.split()[-1] for line in of_eight[2:10]], ["0x55", "0xaa"] * 4)

    def test_refusals_name_the_value_the_rule_and_what_works(self):
        for words, sentence in {
            (): "Say what to explore",
            ("WHAT=foo",): "WHAT=foo: there is no such map; there are swizzle, descriptor",
            ("WHAT=ring", "LANE=3"): "make explore WHAT=ring takes DEPTH, STEPS",
            ("WHAT=swizzle", "SPAN=100"): "one of 128, 64, 32 or 16; try SPAN=128",
            ("WHAT=swizzle", "ROWS=0"): "from 1 to 64; the nearest is 1",
            ("WHAT=swizzle", "ROWS=many"): "ROWS=many is no whole number: try ROWS=8",
            ("WHAT=swizzle", "SPAN=²"): "SPAN=²: it is one of 128, 64, 32 or 16; try SPAN=128",
            ("WHAT=swizzle", "SPAN=64", "SPAN=32"): "SPAN is given more than once, as 32 too",
            ("WHAT=fragment", "LANE=x"): "LANE=x is no whole number: try LANE=0",
            ("WHAT=ring", "DEPTH=1_0"): "DEPTH=1_0 is no whole number: try DEPTH=4",
            ("WHAT=ring", "DEPTH=٤"): "DEPTH=٤ is no whole number: try DEPTH=4",
            ("WHAT=descriptor", "START=1000"): "multiple of 1024 bytes; the nearest is 1024",
            ("WHAT=descriptor", "MAJOR=MN", "BYTES=4"): "of 2 bytes an element only; try BYTES=2",
            ("WHAT=descriptor", "BK=32"): "a row of 64; try SPAN=64",
            ("WHAT=descriptor", "BITS=hello"): "no 64-bit number in hexadecimal",
            ("WHAT=raster", "CLUSTER=3x1"): "4x1, 1x4, 4x2 or 2x4; try CLUSTER=1x1",
            ("WHAT=raster", "CLUSTER=2x2", "CTAS=3"): "a cluster of 2x2 has 4; the fewest is CTAS=4",
            ("WHAT=multicast", "BN=72"): "multiples of 8; try BM=128 BN=256",
        }.items():  # fmt: skip
            with self.assertRaises(Problem, msg=words) as refused:
                explore.explore(words)
            self.assertIn(sentence, str(refused.exception))

    def test_each_says_something_with_nothing_but_its_name(self):
        for what in explore.WHATS:
            self.assertGreater(len(explore.explore([f"WHAT={what}"])), 3, what)

    def test_the_program_exits_2_with_one_sentence(self):
        program = [sys.executable, str(ROOT / "scripts/explore.py")]
        ended = subprocess.run([*program, "--WHAT=x"], capture_output=True, text=True, check=False)
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr.count("\n")), (2, "", 1))
        ended = subprocess.run(
            [*program, "--WHAT=ring", "--DEPTH=2"], capture_output=True, text=True, check=True
        )
        self.assertIn("after 0 is released", ended.stdout)


if __name__ == "__main__":
    unittest.main()
