"""The Makefile's answers that need no build."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PER_STAGE = ("stage", "diff", "ptx", "sass", "ncu", "sanitize")


def make(*args, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", *args], cwd=ROOT, env={**clean, **env},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip


class Make(unittest.TestCase):
    def test_help_is_the_default_and_names_every_target_and_rung(self):
        ended = make()
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stdout, make("help").stdout)
        names = [f"{verb}-N" for verb in PER_STAGE]
        names += ["ladder", "bench", "counters", "tables", "doctor", "lib", "test", "clean"]
        for target in names:
            self.assertRegex(ended.stdout, rf"\b{target}\b")
        for stage in (ROOT / "stages").glob("*.cu"):
            self.assertIn(stage.stem, ended.stdout)

    def test_a_wrong_rung_lists_the_rungs_and_is_2(self):
        for verb in PER_STAGE:
            ended = make(f"{verb}-99")
            self.assertEqual(ended.returncode, 2)
            self.assertIn("There is no rung 99", ended.stderr)
            for stage in (ROOT / "stages").glob("*.cu"):
                self.assertIn(stage.stem, ended.stderr)

    def test_both_spellings_of_a_number_are_one_target(self):
        self.assertEqual(make("-n", "diff-02").stdout, make("-n", "diff-2").stdout)
        self.assertIn("stages/02_", make("-n", "diff-2").stdout)

    def test_options_come_from_the_command_line_only(self):
        line = make("-n", "stage-1", "M=128", "VARIANT=x", N="7", DATA="zeros").stdout
        self.assertIn("--m='128' --variant='x'", line)
        self.assertNotRegex(line, r"--n=|--data=")

    def test_a_missing_toolkit_is_one_line(self):
        ended = make("lib", "CUDA_HOME=/nonexistent")
        self.assertEqual(ended.returncode, 2)
        self.assertEqual(len(re.findall(r"No nvcc at /nonexistent/bin/nvcc", ended.stderr)), 1)

    def test_an_old_toolkit_is_refused_with_what_is_needed(self):
        with tempfile.TemporaryDirectory() as home:
            nvcc = Path(home, "bin", "nvcc")
            nvcc.parent.mkdir()
            nvcc.write_text("#!/bin/sh\necho 'Cuda tools, release 12.6, V12.6.1'\n")
            nvcc.chmod(0o755)
            ended = make("lib", f"CUDA_HOME={home}")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("is 12.6: CUDA 12.8 or newer is needed", ended.stderr)

    def test_programs_for_the_gpu_run_one_after_the_other(self):
        lines = make("-n", "-B", "stage-2", "stage-1").stdout.splitlines()
        runs = [line for line in lines if re.match(r"build/stage-\d+\s*$", line)]
        self.assertEqual([run.strip() for run in runs], ["build/stage-02", "build/stage-01"])


class Doctor(unittest.TestCase):
    def test_it_says_what_is_missing(self):
        ended = subprocess.run(
            [sys.executable, str(ROOT / "scripts" / "doctor.py"), "--nvcc", "/nonexistent/nvcc",
             "--cuda-lib", "/nonexistent", "--cxx", "g++"],
            stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stdout, r"NO   nvcc .*none at /nonexistent/nvcc")
        self.assertRegex(ended.stdout, r"NO   cuBLASLt")
        self.assertIn("cannot be built", ended.stdout)


if __name__ == "__main__":
    unittest.main()
