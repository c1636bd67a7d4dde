"""The tables of rungs that solve a problem of their own, over many shapes."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from lib.results import Results  # noqa: E402
from lib.tables import lists  # noqa: E402


def row(m, n, k, ratio, **more):
    made = {"stage": 14, "variant": "auto", "result": True, "m": m, "n": n, "k": k, "regime": "burst",
            "tflops": 100.0, "baseline_tflops": 100.0 / ratio if ratio else None, "ratio": ratio,
            "configuration": "e4m3_64x16", "verified": True, "args": "", "problem": "block_scaled"}
    return {**made, **more}


def results(*rows):
    return Results(Path("gpu.json"), {"gpu": "Some GPU", "rows": list(rows)})


class Tables(unittest.TestCase):
    def test_nothing_measured(self):
        for table in (lists.table, lists.means_table):
            self.assertIn("ROWS=14:result@tuning", table(None, 14)[0])
            self.assertIn("ROWS=15:result@tuning", table(results(row(64, 64, 128, 1.0)), 15)[0])

    def test_a_line_a_shape(self):
        lines = lists.table(
            results(
                row(4096, 4096, 4096, 1.25, args="type=s8"),
                row(64, 576, 7168, 1.5),
                row(1, 64, 128, None),
                row(64, 64, 64, 0.5, verified=False),
                row(64, 64, 64, 0.5, result=False),
                row(64, 64, 64, 0.5, regime="sustained"),
            ),
            14,
        )
        shapes = [line.split(" | ")[0].strip("| ") for line in lines[2:6]]
        self.assertEqual(shapes, ["1, 64, 128", "64³", "64, 576, 7168", "4096³"])
        self.assertEqual(lines[2].count("–"), 2)  # no cuBLASLt, no ratio
        self.assertEqual(lines[3].count("FAIL"), 5)
        self.assertIn("| 1.500 |", lines[4])
        self.assertIn("| type=s8 | e4m3_64x16 | 1,374.4 |", lines[5])  # 2 * 4096^3 / 100 TFLOPS

    def test_means_by_rows_of_d(self):
        lines = lists.means_table(
            results(
                row(1024, 64, 2048, 2.0),
                row(4096, 64, 4096, 0.5),
                row(1024, 64, 2047, 1.5),
                row(1023, 64, 4096, 0.9),
                row(129, 64, 4096, 0.4),
                row(128, 64, 4096, 3.0),
                row(63, 64, 4096, 4.0),
                row(63, 64, 4096, None),
                row(64, 64, 4096, 9.0, verified=False),
                row(64, 64, 4096, 5.0, args="bits=4"),
            ),
            14,
        )
        cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines[2:-2]]
        self.assertEqual(
            cells,
            [
                ["default", "M ≥ 1024, K ≥ 2048", "2", "1.000", "0.500", "1"],
                ["default", "M ≥ 1024, K < 2048", "1", "1.500", "1.500", "0"],
                ["default", "128 < M < 1024", "2", "0.600", "0.400", "2"],
                ["default", "64 ≤ M ≤ 128", "1", "3.000", "3.000", "0"],
                ["default", "M < 64", "1", "4.000", "4.000", "0"],
                ["bits=4", "64 ≤ M ≤ 128", "1", "5.000", "5.000", "0"],
            ],
        )

    def test_a_line_for_each_type_of_operands(self):
        with tempfile.TemporaryDirectory() as root:
            stage = Path(root) / "stages/14_block_scaled.cu"
            stage.parent.mkdir()
            stage.write_text("void launch(const BlockScaledArgs& g) {")
            measured = results(
                row(1024, 64, 128, 2.0, tflops=7.0),
                row(1023, 64, 128, 0.5, tflops=200.0),
                row(129, 64, 128, 0.125, tflops=0.5),
                row(128, 64, 128, 1.5),
                row(64, 64, 128, None),
                row(63, 64, 128, 3.0, verified=False, tflops=1000.0),
                row(4096, 64, 128, 1.25, args="layout=NT,type=s8", tflops=300.0),
            )
            lines = lists.problems_table(Path(root), measured, "docs/")
            self.assertTrue(lines[-1].endswith("; one Some GPU."), lines[-1])
            measured.head["changed_since"] = {"14": "how it stores"}
            said = lists.problems_table(Path(root), measured, "docs/")[-1]
            self.assertTrue(said.endswith(" Of rung 14 this has changed since: how it stores."), said)
        name = "[14_block_scaled](docs/14_block_scaled.md)"
        self.assertEqual(lines[2:4], [
            f"| {name} | e4m3 | 6 | 200 at 1023, 64, 128 | 2.00 | **0.25** (0.12 to 0.50) | 1.50 | FAIL |",
            f"| {name} | s8 | 1 | 300 at 4096, 64, 128 | 1.25 | – | – | – |",
        ])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
