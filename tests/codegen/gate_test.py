"""The ptxas gate refuses each known miscompile for its own reason, and lets a clean kernel through.

Each file of bad/ says on its first line what it must be refused for; good/ must pass.
"""

import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
GATE = os.path.join(ROOT, "scripts", "nvcc_gate.py")
FLAGS = os.path.join(ROOT, "build", "flags")  # line 3: the build's nvcc command
REFUSED_FOR = re.compile(r"^// Refused for ([^:]+):")


def compile_through_gate(source, folder):
    """(exit code, message, names of the files left in folder) of one run of the gate."""
    with open(FLAGS, encoding="utf-8") as file:
        compiler = shlex.split(file.read().splitlines()[2])
    outputs = [os.path.join(folder, "k.o"), os.path.join(folder, "k")]
    run = subprocess.run(
        [sys.executable, GATE, source, *outputs, "--", *compiler], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )
    return run.returncode, run.stdout, sorted(os.listdir(folder))


class Gate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sources = sorted(glob.glob(os.path.join(HERE, "bad", "*.cu")))
        cls.good = sorted(glob.glob(os.path.join(HERE, "good", "*.cu")))
        with tempfile.TemporaryDirectory() as scratch:
            folders = [tempfile.mkdtemp(dir=scratch) for _ in cls.sources + cls.good]
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                runs = pool.map(compile_through_gate, cls.sources + cls.good, folders)
                cls.runs = dict(zip(cls.sources + cls.good, runs))

    def test_each_miscompile_is_refused_for_its_reason(self):
        self.assertGreaterEqual(len(self.sources), 8)
        for source in self.sources:
            with self.subTest(os.path.basename(source)):
                with open(source, encoding="utf-8") as file:
                    reason = REFUSED_FOR.match(file.readline())
                self.assertIsNotNone(reason, "the first line must be // Refused for REASON: ...")
                status, message, left = self.runs[source]
                self.assertEqual(status, 1, message)
                self.assertIn("refused, because ptxas reports", message)
                said = message[message.index("refused, because"):]
                want = reason.group(1)
                self.assertIn({"spill": "registers are spilled", "stack frame":
                               "an array lives in local memory"}.get(want, f"({want})"), said)
                self.assertEqual(left, [], "a refused compile must leave nothing behind")

    def test_a_clean_kernel_passes(self):
        self.assertTrue(self.good)
        for source in self.good:
            status, message, left = self.runs[source]
            self.assertEqual(status, 0, message)
            self.assertEqual(left, ["k.cubin", "k.d", "k.log", "k.o", "k.ptx"])


if __name__ == "__main__":
    unittest.main()
