"""kernel_tools.py: annotated PTX, the choice of a kernel, and what it says where a tool is missing."""

import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path[:0] = [str(SCRIPTS), str(Path(__file__).parent)]
from lib import tools  # noqa: E402
from listing import listing  # noqa: E402

LISTING = listing([
    {"stage": 1, "variant": "slow", "kernel": "k_slow"},
    {"stage": 1, "variant": "fast", "kernel": "k_fast", "result": 1},
])  # fmt: skip


class Tools(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        self.program = self.script("stage-01", f"cat <<'END'\n{LISTING}END\n")
        (self.root / "stage.cu").write_text("one\ntwo\n  three();\n", encoding="utf-8")
        (self.root / "wrapper.cuh").write_text("asm\n", encoding="utf-8")
        self.ptx = (
            f'.entry k_slow()\n{{\n\tret;\n}}\n.entry k_fast()\n{{\n\t.loc\t1 3 1\n\tmov.u32 a, b;\n'
            f"\t.loc\t2 1 1, function_name $L__info_string0, inlined_at 1 3 1\n"
            f"\t// begin inline asm\n\tbar.sync 0;\n\t// end inline asm\n\tret;\n}}\n"
            f'\t.file\t1 "{self.root}/stage.cu"\n\t.file\t2 "{self.root}/wrapper.cuh"\n'
            f"\t.section\t.debug_str\n{{\n.b8 95\n}}\n"
        )

    def test_a_tool_that_came_with_pip_is_found(self):
        tool = self.root / "nvidia/cu13/bin/nvdisasm"
        tool.parent.mkdir(parents=True)
        tool.write_text("#!/bin/sh\n", encoding="utf-8")
        asked = "from lib import tools; print(tools.find_tool('nvdisasm'))"
        found = {}
        for mode in (0o644, 0o755):
            tool.chmod(mode)
            found[mode] = subprocess.run(
                [sys.executable, "-c", asked], stdout=subprocess.PIPE, text=True, check=True,
                env={"PATH": "/nonexistent", "PYTHONPATH": f"{self.root}:{SCRIPTS}"},
            ).stdout.strip()  # fmt: skip
        self.assertNotEqual(found[0o644], str(tool))  # not a program
        self.assertEqual(found[0o755], str(tool))

    def script(self, name, body):
        path = self.root / name
        path.write_text("#!/bin/sh\n" + body, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def run_tool(self, *args, path=""):
        return subprocess.run(
            [sys.executable, str(SCRIPTS / "kernel_tools.py"), *args],
            env=dict(os.environ, PATH=path + "/usr/bin:/bin", CUDA_HOME=""), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip

    def test_ptx_is_of_one_kernel_under_its_source_lines(self):
        path = self.root / "01_one.ptx"
        path.write_text(self.ptx, encoding="utf-8")
        ended = self.run_tool("ptx", self.program, str(path))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        lines = ended.stdout.splitlines()
        self.assertEqual(lines[0], ".entry k_fast()")
        self.assertTrue(lines[2].endswith("stage.cu:3  three();"), lines[2])
        self.assertEqual(lines[3], "\tmov.u32 a, b;")
        self.assertTrue(lines[4].endswith("wrapper.cuh:1  asm"), lines[4])
        self.assertEqual(lines[5:], ["\tbar.sync 0;", "\tret;", "}"])
        slow = self.run_tool("ptx", self.program, str(path), "--variant=slow")
        self.assertEqual(slow.stdout.splitlines(), [".entry k_slow()", "{", "\tret;", "}"])

    def test_an_unknown_variant_is_named_with_those_there_are(self):
        ended = self.run_tool("ptx", self.program, "x.ptx", "--variant=bogus")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("no variant bogus; the rung has slow, fast", ended.stderr)

    def test_a_missing_tool_is_named_with_where_to_get_it(self):
        for verb, tool in (("sass", "nvdisasm"), ("ncu", "ncu"), ("sanitize", "compute-sanitizer")):
            with mock.patch.dict(os.environ, {"PATH": "", "CUDA_HOME": ""}):
                if tools.find_tool(tool):
                    self.skipTest(f"{tool} is here")
            ended = self.run_tool(verb, self.program, "x.cubin")
            self.assertEqual(ended.returncode, 2)
            self.assertIn(f"{tool} is neither on PATH nor in CUDA_HOME", ended.stderr)

    def test_ncu_profiles_one_launch_of_the_result_without_a_watchdog(self):
        self.script("ncu", 'echo "$LADDER_TIMEOUT $*"\n')
        ended = self.run_tool("ncu", self.program, "--m=64", path=f"{self.root}:")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertTrue(ended.stdout.startswith("0 --clock-control none --launch-count 1"))
        self.assertIn("--kernel-name k_fast ", ended.stdout)
        self.assertIn(f"{self.program} --m=64 --check --variant=fast", ended.stdout)

    def test_sanitize_runs_each_check_on_every_kernel_and_fails_if_one_does(self):
        self.script("compute-sanitizer", 'echo "$LADDER_TIMEOUT $*"\ntest $2 != racecheck\n')
        ended = self.run_tool("sanitize", self.program, "--k=8", path=f"{self.root}:")
        self.assertEqual(ended.returncode, 1)
        runs = [line for line in ended.stdout.splitlines() if line.startswith("0 --tool ")]
        self.assertEqual([run.split()[2] for run in runs], ["memcheck", "racecheck", "synccheck"])
        for run in runs:
            self.assertIn("kernel_name=k_fast --kernel-name kernel_name=k_slow", run)
            self.assertIn("--k=8 --check --m=200 --n=264", run)
        enough = ["--num-cuda-barriers 1024" in run for run in runs]
        self.assertEqual(enough, [False, False, True])


if __name__ == "__main__":
    unittest.main()
