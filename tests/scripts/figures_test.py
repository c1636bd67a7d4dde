"""figures.py and build/maps: what is drawn is what the code says, and what the PTX ISA says of it."""

import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import figures  # noqa: E402
from lib.cli import Problem  # noqa: E402
from lib.maps import fields  # noqa: E402

MAPS = ROOT / "build/maps"
BUILT = MAPS.exists() and (ROOT / "build/ladder").exists()


@unittest.skipUnless(MAPS.exists(), "build/maps is not built: make build/maps")
class Maps(unittest.TestCase):
    def setUp(self):
        self.map = figures.Code(ROOT).map

    def test_a_swizzle_is_a_permutation_without_conflicts(self):
        for span in (128, 64, 32):
            offsets = self.map("swizzle", span=span, rows=16)["offsets"]
            self.assertEqual(sorted(sum(offsets, [])), list(range(0, 16 * span, 16)))
            for chunk in range(span // 16):
                self.assertEqual(len({offsets[row][chunk] % 128 for row in range(8)}), 8)

    def test_descriptors_say_what_the_isa_s_bits_mean(self):
        said = self.map("operand", major="K", span=128, mn=128, bk=64, start=0x8400)
        first = fields(said["steps"][0]["bits"])
        self.assertEqual(first, {"start": 0x8400, "lbo": 0, "sbo": 1024, "base": 0, "swizzle": 1})
        self.assertEqual(
            [fields(s["bits"])["start"] - 0x8400 for s in said["steps"]], [0, 32, 64, 96]
        )
        said = self.map("operand", major="MN", span=64, mn=128, bk=64, start=1024)
        first, second = (fields(said["steps"][i]["bits"]) for i in (0, 1))
        self.assertEqual((first["lbo"], first["sbo"], first["swizzle"]), (64 * 64, 512, 2))
        self.assertEqual(second["start"] - first["start"], 16 * 64)

    def test_fragments_cover_a_block_once(self):
        said = self.map("fragment")
        held = [(row, col + i) for halves in said["acc"] for row, col in halves for i in (0, 1)]
        self.assertEqual(sorted(held), [(row, col) for row in range(16) for col in range(8)])
        for name in ("ldmatrix_a", "ldmatrix_b"):
            self.assertEqual(
                sorted(map(tuple, said[name])), [(r, c) for r in range(16) for c in range(2)]
            )

    def test_what_stmatrix_stores_is_where_tma_looks_for_it(self):
        """Lane l of a warp gives, in register i, the elements 2(l % 4) and the next of row l / 4 of
        matrix i, whose rows lanes 8i to 8i + 7 point at."""
        acc = self.map("fragment")["acc"]
        swizzled = self.map("swizzle", span=128, rows=64)["offsets"]
        for warp in range(4):
            lanes = self.map("box", warp=warp)["lanes"]
            stored = {}
            for store in range(4):
                for lane in range(32):
                    for matrix in range(4):
                        register = lanes[lane][store]["registers"][matrix]
                        to = lanes[8 * matrix + lane // 4][store]["offset"] + lane % 4 * 4
                        stored[to] = (lane, register)
            for to, (lane, register) in stored.items():
                row, col = acc[lane][register // 2 % 2]
                row, col = row + 16 * warp, col + register // 4 * 8
                self.assertEqual(to, swizzled[row][col // 8] + col % 8 * 2)
            self.assertEqual(len(stored), 16 * 32)

    def test_shares_cover_every_step_once(self):
        for share in ("none", "last", "all", "cut"):
            clusters = self.map("shares", share=share, tiles=7, k_tiles=9, clusters=4)["clusters"]
            steps = [
                (t, k)
                for pieces in clusters
                for t, first, n in pieces
                for k in range(first, first + n)
            ]
            self.assertEqual(sorted(steps), [(t, k) for t in range(7) for k in range(9)])

    def test_packed_weights_lie_each_in_a_place_of_its_own(self):
        for bits in (4, 8):
            places = self.map("packed", bits=bits)["places"]
            held = [(place["word"], place["shift"]) for row in places for place in row]
            self.assertEqual(len(set(held)), 16 * 64)
            self.assertEqual({shift for _, shift in held}, set(range(0, 32, bits)))
            words = {word for word, _ in held}  # those of the warp's 32 lanes, in each piece
            pieces = range(0, bits // 4 * 512, 512)
            self.assertEqual(words, {piece + i for piece in pieces for i in range(128)})

    def test_what_it_does_not_know_is_refused(self):
        for words in (["nothing"], ["swizzle", "span=100"], ["swizzle", "rows"], ["ring", "depth=17"], ["packed", "bits=6"],
                      ["operand", "major=MN", "bytes=4"], ["ring", "lane=3"], ["ring", "steps=x"]):  # fmt: skip
            ended = subprocess.run([MAPS, *words], capture_output=True, text=True, check=False)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), words)
            self.assertTrue(ended.stderr.startswith("maps: "), words)


@unittest.skipUnless(BUILT, "build/maps or build/ladder is not built: make test")
class Figures(unittest.TestCase):
    def setUp(self):
        self.code = figures.Code(ROOT)

    def test_each_is_drawn_the_same_twice_and_no_words_collide(self):
        for name, draw in figures.FIGURES.items():
            drawing = draw(self.code)
            self.assertEqual(drawing.problems(), [], name)
            self.assertEqual(drawing.svg(), draw(figures.Code(ROOT)).svg(), name)

    def test_a_wrong_formula_shows(self):
        before = figures.swizzle_atom(self.code).svg()
        real = self.code.map

        def swapped(name, **options):
            said = real(name, **options)
            if name == "swizzle":
                said["offsets"][3][0], said["offsets"][3][1] = (
                    said["offsets"][3][1],
                    said["offsets"][3][0],
                )
            return said

        with mock.patch.object(self.code, "map", swapped):
            self.assertNotEqual(figures.swizzle_atom(self.code).svg(), before)

    def test_barriers_are_those_of_the_stage_file(self):
        self.assertEqual(self.code.barriers(6), {"full": 1, "empty": 8})
        self.assertEqual(self.code.barriers(8), {"full": 1, "empty": 16})
        with mock.patch.object(self.code, "barriers", lambda number: {"full": 1, "other": 2}):
            with self.assertRaisesRegex(
                Problem, "rung 6 has the barriers full, other; the figure"
            ):
                figures.barriers_06(self.code)

    def test_every_page_of_a_rung_shows_one(self):
        for stage in sorted((ROOT / "stages").glob("[0-9]*_*.cu")):
            text = (ROOT / f"docs/{stage.stem}.md").read_text(encoding="utf-8")
            shown = [name for name in figures.FIGURES if f"](img/{name}.svg)" in text]
            self.assertTrue(shown, stage.stem)

    def test_every_figure_is_shown_somewhere(self):
        pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs").glob("*.md"))
        for name in figures.FIGURES:
            self.assertIn(f"](img/{name}.svg)", pages)


if __name__ == "__main__":
    unittest.main()
