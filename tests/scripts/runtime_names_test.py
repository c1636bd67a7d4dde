"""runtime_names.py: what is said of a toolkit that was installed in parts."""

import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Toolkit(unittest.TestCase):
    def test_without_a_runtime_or_a_header_it_is_one_sentence(self):
        here = str(ROOT / "Makefile")  # a file that is there
        for cudart, header, said in (
            ("", "/cuda.h", "The toolkit has no libcudart.so.NN, which the PTX machine is "),
            ("/nonexistent/libcudart.so.13", here, "no libcudart.so.NN at /nonexistent/libcudart"),
            (here, "/nonexistent/cuda.h", "The toolkit has no cuda.h at /nonexistent/cuda.h, which"),
        ):  # fmt: skip
            ended = subprocess.run(
                [sys.executable, "scripts/runtime_names.py", "errors", "--cudart", cudart,
                 "--header", header], cwd=ROOT, capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual((ended.returncode, ended.stdout), (2, ""))
            self.assertIn(said, ended.stderr)
            self.assertIn("install the package cuda-cudart-dev", ended.stderr)
            self.assertEqual(len(ended.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
