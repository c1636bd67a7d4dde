"""The table of what e4m3 sums lose."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from lib import cli  # noqa: E402
from lib.tables import sums  # noqa: E402


def row(k, every, rms):
    return {"k": k, "promoted_every": every, "rms": rms, "largest": 10 * rms, "towards_zero": rms / 4,
            "rms_of_bf16_rounding": 600 * rms}  # fmt: skip


class Table(unittest.TestCase):
    DOCUMENT = {"gpu": "NVIDIA Test", "data": "normal", "m": 64, "n": 2048,
                "rows": [row(1024, 0, 0.0005), row(128, 0, 0.0001), row(1024, 128, 0.0001)]}  # fmt: skip

    def test_rows_by_k_and_what_was_not_measured_is_a_dash(self):
        lines = sums.table(self.DOCUMENT)
        self.assertIn("promotion none", lines[0])
        self.assertEqual(lines[2], "| 128 | 0.01 %, 0.1 % | – | – | 0.06 |")
        self.assertEqual(lines[3], "| 1,024 | 0.05 %, 0.5 % | 0.01 %, 0.1 % | – | 0.30 |")
        self.assertIn("64 x 2048 results, normal data, one NVIDIA Test", lines[-1])

    def test_without_a_file_it_says_how_to_make_one(self):
        self.assertIsNone(sums.load(Path("/nowhere/h200.sums.json")))
        self.assertIn("sums errors", sums.table(None)[0])

    def test_a_file_without_a_key_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "h200.sums.json"
            path.write_text(json.dumps({**self.DOCUMENT, "rows": [{"k": 1}]}))
            with self.assertRaisesRegex(cli.Problem, "\"promoted_every\" is missing"):
                sums.load(path)
            path.write_text(json.dumps(self.DOCUMENT))
            self.assertEqual(len(sums.load(path)["rows"]), 3)


if __name__ == "__main__":
    unittest.main()
