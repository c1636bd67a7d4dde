"""The tables of stage 0, over rows that are made up."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from lib import cli, shape_lists  # noqa: E402
from lib.tables import best  # noqa: E402


class Results:
    def __init__(self, rows):
        self.rows = rows


def row(shape, ratio, regime="burst", variant="best", **more):
    """Of a ratio of None the result was wrong."""
    m, n, k = shape
    return {
        "stage": 0, "name": "best", "problem": "bf16", "variant": variant, "m": m, "n": n, "k": k,
        "regime": regime, "tflops": ratio and 500 * ratio, "baseline_tflops": 500.0, "ratio": ratio,
        "configuration": "11_autotuned/128x256", "verified": ratio is not None, **more,
    }  # fmt: skip


DECODE = shape_lists.LISTS["decode"]
LONG_K = shape_lists.LISTS["long_k"]


def lines(rows, name=None):
    return best.table(Results(rows), name)


def line(rows, begin, name=None):
    """The one line that begins so."""
    (found,) = [text for text in lines(rows, name) if text.startswith(begin)]
    return found


class Summary(unittest.TestCase):
    def test_a_ratio_counts_as_1_25_at_most(self):
        rows = [row(DECODE[0], 5.0), row(DECODE[1], 0.8)]
        self.assertIn("| 1.000 | 0.800 | 1 | 1 |", line(rows, "| decode | yes |"))  # sqrt(1.25 * 0.8)
        self.assertIn("| 1.250 | 1.250 | 0 | 0 |", line([row(DECODE[0], 1.25)], "| decode | yes |"))

    def test_below_counts_each_limit_strictly(self):
        rows = [row(s, r) for s, r in zip(DECODE, (0.95, 0.949, 0.9, 0.899, 1.0))]
        self.assertIn("| 5 of 12 | 0.939 | 0.899 | 3 | 1 |", line(rows, "| decode | yes |"))

    def test_regimes_workspaces_and_lists_are_apart(self):
        rows = [
            row(DECODE[0], 0.5),
            row(DECODE[0], 0.6, "sustained"),
            row(DECODE[0], 0.7, variant="best_no_workspace"),
            row(LONG_K[0], 0.8),
            row((8192,) * 3, 1.0),
        ]
        decode = line(rows, "| decode | yes |")
        self.assertIn("| 1 of 12 | 0.500 | 0.500 | 1 | 1 | 1 of 12 | 0.600 | 0.600 | 1 | 1 |", decode)
        without = line(rows, "| decode | no |")
        self.assertIn("| 1 of 12 | 0.700 | 0.700 | 1 | 1 | 0 | – | – | – | – |", without)
        self.assertIn("| 0.800 |", line(rows, "| long_k | yes |"))
        self.assertIn("| 1.000 |", line(rows, "| tuning | yes |"))
        self.assertIn("| 3 of 112 | 0.737 | 0.500 | 2 | 2 |", line(rows, "| all | yes |"))
        self.assertFalse([text for text in lines(rows) if text.startswith("| between |")])

    def test_a_whole_list_is_a_plain_number(self):
        self.assertIn("| 12 | 1.100 |", line([row(s, 1.1) for s in DECODE], "| decode | yes |"))

    def test_a_wrong_result_leaves_no_number(self):
        rows = [row(DECODE[0], 1.0), row(DECODE[1], None)]
        self.assertIn("| 2 of 12 | FAIL | FAIL | FAIL | FAIL |", line(rows, "| decode | yes |"))

    def test_other_rungs_and_problems_are_not_shown(self):
        for other in ({"stage": 11}, {"problem": "fp16"}):
            self.assertEqual(lines([row(DECODE[0], 1.0, **other)]), best.NOT_MEASURED)
        self.assertEqual(best.table(None, None), best.NOT_MEASURED)


class Shapes(unittest.TestCase):
    ROWS = [
        row((8192,) * 3, 0.94),
        row(DECODE[0], 0.95),
        row(DECODE[1], None),
        row(DECODE[0], 0.5, variant="best_no_workspace"),
        row(LONG_K[0], 0.6, "sustained"),
    ]

    def test_a_line_a_shape(self):
        m, n, k = DECODE[0]
        # 2 * 14 * 13696 * 8576 FLOP at 475 TFLOPS are 6.9 us.
        self.assertEqual(
            line(self.ROWS, f"| {m}, {n}, {k} |", "burst"),
            f"| {m}, {n}, {k} | decode | 11_autotuned/128x256 | 6.9 | 475 | 500 | 0.950 |",
        )
        self.assertIn("| tuning | 11_autotuned/128x256 | 2339.4 | 470 | 500 | **0.940** ↓ |",
                      line(self.ROWS, "| 8192³ |", "burst"))  # fmt: skip

    def test_a_wrong_result_is_fail(self):
        m, n, k = DECODE[1]
        self.assertIn("| FAIL | FAIL | 500 | FAIL |",
                      line(self.ROWS, f"| {m}, {n}, {k} |", "burst"))  # fmt: skip

    def test_each_regime_and_workspace_has_its_table(self):
        shown = {
            name: sum("11_autotuned" in text for text in lines(self.ROWS, name))
            for name in ("burst", "burst_no_workspace", "sustained", "sustained_no_workspace")
        }
        self.assertEqual(list(shown.values()), [3, 1, 1, 0])
        self.assertIn("**0.500** ↓", "".join(lines(self.ROWS, "burst_no_workspace")))
        self.assertIn("Sustained, with a workspace", lines(self.ROWS, "sustained")[-1])

    def test_another_name_is_refused(self):
        with self.assertRaises(cli.Problem) as raised:
            lines(self.ROWS, "bursts")
        self.assertIn("best burst", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
