"""lib/tables/sweep.py: which ratios fall short, and which rows have a part in a mean."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from lib import shape_lists  # noqa: E402
from lib.results import Results  # noqa: E402
from lib.tables import sweep  # noqa: E402


def row(shape, ratio):
    """Of a ratio of None the result was wrong."""
    m, n, k = shape
    return {
        "stage": 11, "configuration": "a", "result": True, "m": m, "n": n, "k": k,
        "regime": "burst", "verified": ratio is not None, "ratio": ratio,
    }  # fmt: skip


class Ratios(unittest.TestCase):
    def test_the_target_is_lower_where_d_has_few_rows(self):
        for m, ratio, below in (
            (1024, 1.0, False), (1024, 0.999, True), (1023, 0.95, False), (1023, 0.949, True),
        ):  # fmt: skip
            self.assertEqual(sweep.is_below(row((m, 64, 64), ratio)), below, (m, ratio))

    def test_a_wrong_row_has_no_part_in_a_mean(self):
        shapes = shape_lists.LISTS["tuning"]
        rows = [row(shape, ratio) for shape, ratio in zip(shapes, (0.5, 2.0, None))]
        results = Results(Path("h999.json"), {"rows": rows})
        for key, value in (("geomean", 1.0), ("lowest", 0.5)):
            self.assertEqual(sweep.shapes_operand(results, f"11.tuning.burst.{key}"), (value, key))

    def test_distances_have_a_line_for_each_list_and_one_for_all(self):
        far = {"tuning": 0.01, "heldout": None, "decode": 0.03}
        entries = []
        for name, distance in far.items():
            m, n, k = shape_lists.LISTS[name][0]
            entries.append({"m": m, "n": n, "k": k, "regime": "burst", "distance": distance})
        lines = sweep.distances_table(entries)[2:]
        found = [[cell.strip() for cell in line.strip("|").split("|")][:3] for line in lines]
        self.assertEqual(found, [
            ["tuning shapes, burst", "1", "1.00 %"],
            ["`decode`, burst", "1", "3.00 %"],
            ["all, burst", "2", "2.00 %"],
        ])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
