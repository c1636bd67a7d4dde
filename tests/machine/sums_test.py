"""The machine's e4m3 and s8 sums are those that were recorded on an H200, bit for bit."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPLAYED = ("e4m3", "s8")  # bf16, fp16 and tf32 are added in fp32


class Sums(unittest.TestCase):
    def test_they_are_those_of_the_device(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sums.txt"
            subprocess.run(
                [ROOT / "build/golden/sums", "facts", path], check=True,
                env={**os.environ, "LD_LIBRARY_PATH": str(ROOT / "build/machine")},
            )  # fmt: skip
            got = path.read_text().splitlines()
        want = (ROOT / "tests/golden/sums.txt").read_text().splitlines()
        self.assertEqual(len(got), len(want))
        replayed = [line for line in want if line.startswith(REPLAYED)]
        self.assertEqual(len(replayed), 144)
        self.assertEqual([line for line in got if line.startswith(REPLAYED)], replayed)


if __name__ == "__main__":
    unittest.main()
