"""A second kind of problem, fp16, goes through registry, verification, baseline, bench and tables
without a line of its own in any of them: tests/seam/*.cu is all there is."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from lib import fingerprints  # noqa: E402
from lib import registry  # noqa: E402
import tables  # noqa: E402
from lib.markdown import tflops  # noqa: E402

PROGRAM = ROOT / "build/tests/seam"
RIGHT, WRONG = ("8x32", "4x64", "workspace"), ("left", "rounded", "short")
# Of this file's own making.
HEAD = {
    "gpu": "NVIDIA Test", "driver": "1.2", "toolkit": "13.0.88", "cublas": "13.1.0", "sms": 132,
    "revision": "abc", "date": "2025-01-01", "data": "normal", "seed": 1,
}  # fmt: skip
PAGE = """# Tables

<!-- table: ladder -->
<!-- end -->

<!-- table: ladder fp16 -->
<!-- end -->

<!-- table: rung 1 -->
<!-- end -->

Best: <!-- value: 1.result.2048.burst.tflops -->0<!-- end --> TFLOPS.
"""


def run(program, *options, **settings):
    return subprocess.run(
        [program, *options], env={**os.environ, **settings}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip


def on_machine(*options):
    machine = str(ROOT / "build/machine")
    return run(PROGRAM, *options, LD_LIBRARY_PATH=machine, LADDER_DEVICE="machine", MACHINE_SMS="6")


def gpu_is_here():
    """Whether the program can run on a GPU."""
    return run(PROGRAM, "--check", "--m=8", "--n=8", "--k=8", "--variant=8x32",
               LADDER_DEVICE="gpu").returncode == 0  # fmt: skip


class OnTheMachine(unittest.TestCase):
    def test_the_registry_knows_the_problem(self):
        variants = registry.parse(on_machine("--list").stdout)
        self.assertEqual([v["variant"] for v in variants], [*RIGHT, *WRONG])
        self.assertEqual({v["problem"] for v in variants}, {"fp16"})
        self.assertEqual({v["name"] for v in variants}, {"01_fp16"})

    def test_right_variants_pass_its_verification(self):
        for data in ("ints", "normal"):
            for variant in RIGHT:
                with self.subTest(data=data, variant=variant):
                    ended = on_machine("--check", f"--variant={variant}", f"--data={data}",
                                       "--m=57", "--n=75", "--k=203")  # fmt: skip
                    self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                    self.assertIn("D[M,N] = A[M,K] * B[N,K]^T, fp16", ended.stdout)
                    right = "bit for bit" if data == "ints" else "within rounding"
                    self.assertRegex(ended.stdout, rf"{variant}.*\bok, {right}")

    def test_wrong_ones_do_not(self):
        # A result rounded to bf16 would be right under the bound of bf16.
        for variant in WRONG:
            with self.subTest(variant):
                ended = on_machine("--check", f"--variant={variant}", "--m=57", "--n=75", "--k=203")
                self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
                self.assertIn("FAIL", ended.stdout)
                if variant == "left":
                    self.assertIn("leaves 1 bytes of the workspace's counters", ended.stdout)

    def test_stage_0_takes_the_least_predicted_time_of_its_kind(self):
        text = on_machine("--list").stdout
        best = [v for v in registry.parse(text, stage_0=True) if v["stage"] == 0]
        self.assertEqual([v["variant"] for v in best], ["best_fp16", "best_fp16_no_workspace"])
        self.assertEqual({v["name"] for v in best}, {"best"})
        shape = ("--m=57", "--n=75", "--k=203")
        ended = on_machine("--check", "--stage=0", *shape)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertRegex(ended.stdout, r"best_fp16 \(01_fp16/workspace\) \*.*\bok, within rounding")
        self.assertRegex(ended.stdout, r"best_fp16_no_workspace \(01_fp16/8x32\) .*\bok, within rounding")

    def test_without_a_workspace(self):
        shape = ("--check", "--workspace=0", "--m=57", "--n=75", "--k=203")
        ended = on_machine(*shape, "--stage=0")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertRegex(ended.stdout, r"best_fp16 \(01_fp16/8x32\) \*.*\bok, within rounding")
        ended = on_machine(*shape, "--variant=workspace")
        self.assertEqual(ended.returncode, 2, ended.stdout + ended.stderr)
        self.assertIn("workspace is null: workspace needs one with 65536 bytes", ended.stderr)
        ended = on_machine(*shape)
        self.assertIn("Without a workspace: 2 variants that need one are left out", ended.stdout)

    def test_a_choice_says_rung_and_variant(self):
        row = "0 best_fp16 57 75 203 burst\n"
        for options, name in (((), "workspace"), (("--workspace=0",), "8x32")):
            machine = {"LD_LIBRARY_PATH": str(ROOT / "build/machine"), "MACHINE_SMS": "6"}
            said = subprocess.run(
                [PROGRAM, "--choices", *options], input=row, env={**os.environ, **machine},
                stdout=subprocess.PIPE, text=True, check=True,
            )  # fmt: skip
            choice = json.loads(said.stdout)
            self.assertEqual(choice["configuration"], f"01_fp16/{name}")
            self.assertEqual(choice["predicted_us"], 1 if name == "workspace" else 2)

    def test_what_it_cannot_run_is_refused(self):
        ended = on_machine("--check", "--grid=2")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("01_fp16 has variants that start one CTA for each tile", ended.stderr)


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in ("docs/results", "docs/img", "stages"):
            (self.root / name).mkdir(parents=True)
        source = (ROOT / "tests/seam/01_fp16.cu").read_text(encoding="utf-8")
        (self.root / "stages/01_fp16.cu").write_text(source, encoding="utf-8")
        self.page = self.root / "docs/tables.md"
        self.page.write_text(PAGE, encoding="utf-8")

    def check_tables(self, rows):
        """That the page shows these rows, and the ladder of bf16 none of them."""
        document = {**HEAD, "rows": rows}
        (self.root / "docs/results/test.json").write_text(json.dumps(document), encoding="utf-8")
        self.assertEqual(tables.main([f"--root={self.root}"]), 0)
        text = self.page.read_text(encoding="utf-8")
        bf16, fp16, rung = text.split("<!-- end -->")[:3]
        self.assertNotIn("01_fp16", bf16)
        self.assertIn("[01_fp16]", fp16)
        self.assertIn("unless a cell says otherwise, fp16, normal data", fp16)
        for variant in RIGHT:
            self.assertIn(variant, rung)
        best = next(r for r in rows if r["result"] and r["regime"] == "burst" and r["m"] == 2048)
        self.assertIn(f"-->{tflops(best['tflops'])}<!-- end --> TFLOPS.", text)

    def test_rows_become_tables(self):
        self.check_tables([
            {"stage": 1, "name": "01_fp16", "problem": "fp16", "variant": variant,
             "result": variant == RIGHT[0], "m": 2048, "n": 2048, "k": 2048, "regime": regime,
             "tflops": tflops, "ratio": 0.01, "baseline_tflops": 700.0, "verified": True}
            for variant, tflops in zip(RIGHT, (3.5, 3.25, 3.0)) for regime in ("burst", "sustained")
        ])  # fmt: skip

    def test_measured_beside_cublaslt_and_into_tables(self):
        if not gpu_is_here():
            self.skipTest("no GPU of compute capability 9.0 to measure on")
        hashes = self.root / "hashes.json"
        ptx = (ROOT / "build/obj/tests/seam/01_fp16.ptx").read_text(encoding="utf-8")
        hashes.write_text(json.dumps(fingerprints.kernel_hashes(ptx)), encoding="utf-8")
        wrong = ",".join(f"1:{variant}@512/burst" for variant in WRONG)
        right = ",".join(f"1:{variant}@2048" for variant in RIGHT)
        ended = run(
            sys.executable, str(ROOT / "scripts/bench.py"), f"--program={PROGRAM}",
            f"--rows={right},{wrong}", f"--hashes={hashes}", f"--results={self.root}/results",
            f"--partial={self.root}/partial",
        )  # fmt: skip
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)  # the wrong ones
        rows = json.loads(next((self.root / "results").glob("*.json")).read_text())["rows"]
        self.assertEqual({row["problem"] for row in rows}, {"fp16"})
        verified = {row["variant"]: row["verified"] for row in rows}
        self.assertEqual(verified, {**dict.fromkeys(RIGHT, True), **dict.fromkeys(WRONG, False)})
        for row in rows:
            self.assertTrue(row["baseline_verified"], row)
            self.assertGreater(row["baseline_tflops"], 0)
            self.assertIn("tile", row["baseline_algo"])
        self.check_tables([row for row in rows if row["verified"]])


if __name__ == "__main__":
    unittest.main()
