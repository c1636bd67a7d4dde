"""The programs of docs/programs do what docs/your_program.md says: on the PTX machine, and on a GPU
of compute capability 9.0 where there is one."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path("build/programs")
PAGE = (ROOT / "docs/your_program.md").read_text(encoding="utf-8")
PYTHON_PROGRAM = (sys.executable, "docs/programs/call.py")
NO_DEVICE = 3


def run(*command, **variables):
    settings = ("MACHINE_", "LADDER_")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(settings)}
    return subprocess.run(
        [str(word) for word in command], env={**clean, **variables}, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=600,
    )  # fmt: skip


def on_machine(*command, **variables):
    return run("build/ptx-machine", *command, **{"MACHINE_SMS": "8", **variables})


def gpu_is_here():
    return run(PROGRAMS / "call").returncode != NO_DEVICE


def agreeing(text):
    """[(stage, M, letters of any weights, of nearly cancelling ones, kernel)] of row_bits."""
    found, stage = [], ""
    for line in text.splitlines():
        row = re.fullmatch(r"  M = (\d+) +([A-Z]{3}) +\d+ +([A-Z]{3}) +\d+ +(\S+)", line)
        if row:
            found.append((stage, int(row[1]), row[2], row[3], row[4]))
        elif "any weights" in line:
            stage = line.split("  ")[0]
    return found


def shown_behind(words):
    """The ```text fence that follows these words on the page."""
    return re.search(re.escape(words) + r".*?```text\n(.*?)```", PAGE, re.S)[1]


class Programs:
    """What holds wherever they run; launch(*command) runs one."""

    def succeeds(self, *command, **variables):
        ended = self.launch(*command, **variables)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""), ended.stdout)
        return ended.stdout

    def test_a_call_from_c(self):
        self.assertRegex(self.succeeds(PROGRAMS / "call"), r"^\d\d_\w+/\S+: D is right\n$")

    def test_a_call_from_python(self):
        self.assertRegex(self.succeeds(*PYTHON_PROGRAM), r"^\d\d_\w+/\S+: D is right\n$")

    def test_a_graph_replays_with_new_data(self):
        lines = self.succeeds(PROGRAMS / "graph").splitlines()
        self.assertEqual(len(lines), 3)
        line = re.compile(r"replay \d: D\[0\]\[0\] .* (0x\w+); as by calls")
        results = list(map(line.fullmatch, lines))
        self.assertTrue(all(results), lines)
        self.assertEqual(len({match[1] for match in results}), 3)

    def test_bits_of_a_row_go_with_the_cut_of_k_alone(self):
        rows = agreeing(self.succeeds(PROGRAMS / "row_bits", 256, 4096, 0, 9, 11))
        self.assertEqual(len(rows), 15)
        whole = {letters for stage, *_, letters, _ in rows if stage != "stage 0"}
        self.assertEqual(len(whole), 1, rows)
        self.assertEqual(len(set(*whole)), 1, rows)
        cut = {letters for *_, letters, kernel in rows if re.search(r"_k\d$", kernel)}
        self.assertTrue(cut and not cut & whole, rows)

    def test_a_refused_call_ends_with_its_sentence(self):
        ended = self.launch(PROGRAMS / "row_bits", 256, 2048, 14)
        self.assertEqual(ended.returncode, 2)
        self.assertRegex(ended.stderr, r"^the call: stage is 14: .* computes\.\n$")

    def test_gate_and_up_are_quantized_in_turns(self):
        text = self.succeeds(PROGRAMS / "swiglu")
        percent = [float(number) for number in re.findall(r"([\d.]+) % error", text)]
        self.assertEqual(len(percent), 5, text)
        bf16, fused, in_order, too_late, int4 = percent
        self.assertTrue(max(bf16, fused) < 1 < in_order < 8 < int4 < 25 < 50 < too_late, text)

    def test_a_layer_of_experts(self):
        for sizes in ((1, 128, 128), (100, 384, 256)):
            lines = self.succeeds(PROGRAMS / "moe_layer", *sizes).splitlines()
            *ways, tight = [line for line in lines if not line.startswith("{")]
            self.assertEqual(tight, "too little memory: the others' results are right")
            self.assertGreaterEqual(len(ways), 2)
            for line in ways:
                found = re.fullmatch(r"\w+ +.*: every step is right, error ([\d.]+) %", line)
                self.assertTrue(found and float(found[1]) < 10, line)


class OnTheMachine(Programs, unittest.TestCase):
    launch = staticmethod(on_machine)

    def test_the_page_shows_what_they_print(self):
        for words, command in (
            ("row_bits 256 4096 0 9", (PROGRAMS / "row_bits", 256, 4096, 0, 9)),
            ("[swiglu.c](programs/swiglu.c) does it", (PROGRAMS / "swiglu",)),
        ):
            self.assertEqual(shown_behind(words), self.succeeds(*command))
        on_gpu = (ROOT / "docs/results/h200.row_bits.txt").read_text(encoding="utf-8")
        self.assertEqual(shown_behind("row_bits 7168 16384 0 9 12"), on_gpu)

    def test_the_page_links_as_it_says(self):
        include = "/usr/local/cuda/include"
        command = re.search(r"^cc .*?(?=^```)", PAGE, re.S | re.M)[0]
        if not Path(include, "cuda_runtime_api.h").exists():
            self.skipTest(f"no toolkit in {include}, which the page names")
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("-o build/call ", command)
            command = command.replace("-o build/call ", f"-o {folder}/call ")
            self.assertEqual(run("sh", "-c", command).returncode, 0)
            self.assertIn("D is right", self.succeeds(f"{folder}/call"))

    def test_a_missing_library_is_told_in_a_sentence(self):
        ended = run(*PYTHON_PROGRAM, "/nonexistent.so")
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stderr, r"^The library cannot be loaded \(/nonexistent.so: .*\.\n$")

    def test_under_other_policies(self):
        for policy in ("lazy", "random"):
            for command in ([PROGRAMS / "call"], [PROGRAMS / "graph"], PYTHON_PROGRAM,
                            [PROGRAMS / "moe_layer"]):  # fmt: skip
                self.succeeds(*command, MACHINE_POLICY=policy)

    def test_a_usage_that_makes_no_sense_is_2(self):
        for words in (["256"], ["250", "64"], ["256", "0"], ["256x", "64"], ["256", "64", "x"]):
            ended = on_machine(PROGRAMS / "row_bits", *words)
            self.assertEqual(ended.returncode, 2, words)
            self.assertEqual(len(ended.stderr.splitlines()), 1)
        for program in ("call", "graph", "swiglu"):
            ended = on_machine(PROGRAMS / program, "x")
            self.assertEqual(ended.returncode, 2)
            self.assertEqual(ended.stderr, f"{program} takes no arguments, such as x.\n")
        for words in (["20", "256"], ["0"], ["20x"], ["20", "250", "128"], ["20", "256", "0"],
                      ["20", "256x", "128"]):  # fmt: skip
            ended = on_machine(PROGRAMS / "moe_layer", *words)
            self.assertEqual(ended.returncode, 2, words)
            self.assertEqual(len(ended.stderr.splitlines()), 1)
        ended = on_machine(PROGRAMS / "row_bits", 256, 512, 14)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("ladder_gemm_block_scaled", ended.stderr)


class OnTheGpu(Programs, unittest.TestCase):
    launch = staticmethod(run)

    def setUp(self):
        if not gpu_is_here():
            self.skipTest("no GPU of compute capability 9.0 to run on")


if __name__ == "__main__":
    unittest.main()
