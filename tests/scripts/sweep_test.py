"""sweep.py against a stand-in for build/ladder: which shapes, how far the pick is, what is measured
again; and the tables and numbers that lib/tables/sweep.py makes of it."""

import json
import os
import stat
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "scripts"), str(Path(__file__).parent)]
import sweep  # noqa: E402
from lib import cli, shape_lists  # noqa: E402
from lib.rows import Row  # noqa: E402
from listing import listing  # noqa: E402
import tables  # noqa: E402

# plan.json: "tflops" and "predicted_us" by variant, "pick": a variant that is predicted to take 9 us at
# some M, which makes it stage 0's choice, "wrong"/"crash": row text, "rc": exit code of --sweep-rows.
# Appends the rows that it was given to given.txt.
FAKE = """#!{python}
import itertools, json, os, sys
from pathlib import Path
here = Path({here!r})
plan = json.loads((here / "plan.json").read_text())
if sys.argv[1] == "--list":
    sys.stdout.write((here / "list.txt").read_text())
    sys.exit(0)
say = lambda event: print(json.dumps(event), flush=True)
listed = (here / "list.txt").read_text()
names = [name for name in plan["predicted_us"] if "k_" + name in listed]
predicted = lambda name, m: 9.0 if plan["pick"].get(m) == name else plan["predicted_us"][name]
lines = sys.stdin.read().splitlines()
if sys.argv[1] == "--choices":
    (here / "sms.txt").write_text(os.environ.get("MACHINE_SMS", ""))
    for line in lines:
        _, variant, m, n, k, _ = line.split()
        chooses = variant == "best"
        ran = min(names, key=lambda name: predicted(name, m)) if chooses else variant
        say({{"row": line, "configuration": plan["rungs"][ran] + "/" + ran if chooses else None,
             "kernel": "k_" + ran, "predicted_us": predicted(ran, m)}})
    sys.exit(0)
assert sys.argv[1] == "--sweep-rows", sys.argv
if plan.get("rc"):
    print("No NVIDIA driver was found.", file=sys.stderr)
    sys.exit(plan["rc"])
say({{"env": plan["env"]}})
rc = 0
with (here / "given.txt").open("a") as file:
    file.write("".join(line + "\\n" for line in lines if line))
for _, group in itertools.groupby((line for line in lines if line), lambda row: row.split()[2:]):
    rows = list(group)
    say({{"running": []}})
    for row in rows:
        say({{"running": [row]}})
        if row == plan.get("crash"):
            print("FAIL: an illegal address", file=sys.stderr)
            sys.exit(1)
    say({{"running": rows}})
    for row in rows:
        stage, variant, m, n, k, regime = row.split()
        bad = row == plan.get("wrong")
        rc |= bad
        say({{"stage": int(stage), "variant": variant, "m": int(m), "n": int(n), "k": int(k),
             "configuration": None, "regime": regime, "us": 12.5,
             "tflops": None if bad else plan["tflops"][variant], "sm_mhz": 1500.0,
             "verified": not bad, "kernel": "k_" + variant, **({{"error": "3 wrong"}} if bad else {{}})}})
sys.exit(rc)
"""
ENV = {
    "gpu": "NVIDIA H200", "driver": "1.2", "toolkit": "13.0.88", "cublas": "13.1.0", "sms": 132,
    "l2_bytes": 62914560, "data": "normal", "seed": 1,
}  # fmt: skip
TFLOPS = {"tall": 700.0, "wide": 800.0, "slow": 900.0}
PREDICTED_US = {"tall": 10.0, "wide": 15.0, "slow": 15.1}  # 15 is 1.5 times the least
RUNGS = {"tall": "11_rung", "wide": "12_rung", "slow": "12_rung"}
TALL, WIDE, SLOW = "11_rung/tall", "12_rung/wide", "12_rung/slow"
BEST = {"stage": 0, "name": "best", "variant": "best", "result": 1, "kernel": "k_tall", "chooses": 1}


class Select(unittest.TestCase):
    def test_the_lists_by_default_smaller_products_first(self):
        shapes = sweep.select("")
        self.assertEqual(set(shapes), {*shape_lists.TUNING_SHAPES, *shape_lists.HELDOUT_SHAPES})
        products = [m * n * k for m, n, k in shapes]
        self.assertEqual(products, sorted(products))
        self.assertEqual(sweep.select("heldout,4096x64x8,512")[0], (4096, 64, 8))
        self.assertEqual(len(sweep.select("4096,4096")), 1)

    def test_the_default_sweep_of_26_times_a_shape_takes_less_than_two_minutes(self):
        rows = [
            Row(11, str(one), *shape, "burst")
            for shape in sweep.select("") for one in range(26)
        ]  # fmt: skip
        self.assertLess(sweep.Sweep.expected_s(rows), 2 * 60)

    def test_at_most_1_5_times_the_least_prediction_is_timed(self):
        said = sweep.Said("b", {"a": 15.0, "b": 10.0, "c": 15.1, "d": 11.0})
        self.assertEqual(sweep.worth_timing(said), ["a", "b", "d"])


class WithProgram(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.program = self.root / "ladder"
        self.program.write_text(FAKE.format(python=sys.executable, here=str(self.root)))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self.hashes = {f"k_{name}": f"hash {name}" for name in RUNGS}
        self.register(RUNGS)
        self.plan()

    def register(self, configurations, chooser=True):
        rows = [
            {"stage": int(RUNGS[name][:2]), "variant": name, "kernel": f"k_{name}", "configuration": 1}
            for name in configurations
        ]  # fmt: skip
        plain = {"stage": 10, "variant": "plain", "kernel": "k_tall"}
        (self.root / "list.txt").write_text(listing([BEST] * chooser + [plain] + rows))

    def plan(self, **plan):
        plan = {
            "env": ENV, "tflops": TFLOPS, "predicted_us": PREDICTED_US, "rungs": RUNGS, "pick": {}, **plan
        }  # fmt: skip
        (self.root / "plan.json").write_text(json.dumps(plan))

    def sweep(self, *arguments):
        """(exit code, stdout, stderr)."""
        (self.root / "given.txt").write_text("")
        (self.root / "hashes.json").write_text(json.dumps(self.hashes))
        command = ["sweep.py", f"--program={self.program}", f"--hashes={self.root}/hashes.json"]
        command += [f"--results={self.root}/results", f"--partial={self.root}/partial", *arguments]
        out, err = StringIO(), StringIO()
        with mock.patch.object(sys, "argv", command), mock.patch.dict(
            os.environ, {"REVISION": "abc"}
        ), redirect_stdout(out), redirect_stderr(err):
            code = sweep.main()
        return code, out.getvalue(), err.getvalue()

    def given(self):
        return (self.root / "given.txt").read_text().splitlines()

    def document(self):
        return json.loads((self.root / "results/h200.sweep.json").read_text())

    def entries(self):
        return {entry["m"]: entry for entry in self.document()["shapes"]}


class Run(WithProgram):
    def test_configurations_of_all_rungs_at_every_shape(self):
        self.plan(pick={"64": "wide"})
        code, out, _ = self.sweep("--shapes=64x8x8,128x8x8")
        self.assertEqual(code, 0)
        self.assertEqual(
            self.given(),
            ["11 tall 64 8 8 burst", "12 wide 64 8 8 burst",
             "11 tall 128 8 8 burst", "12 wide 128 8 8 burst"],
        )  # fmt: skip
        document = self.document()
        self.assertEqual({key: document[key] for key in ENV}, ENV)
        self.assertEqual(document["revision"], "abc")
        right, off = self.entries()[64], self.entries()[128]
        self.assertEqual((right["best"], right["pick"], right["distance"]), (WIDE, WIDE, 0))
        self.assertEqual((off["best"], off["pick"], off["distance"]), (WIDE, TALL, 0.125))
        self.assertEqual(
            off["configurations"][WIDE],
            {"tflops": 800.0, "us": 12.5, "sm_mhz": 1500.0, "kernel_hash": "hash wide",
             "predicted_us": 15.0},
        )  # fmt: skip
        self.assertIn("3 configurations of rungs 11, 12; 4 times at 2 shapes, burst", out)
        self.assertIn("[1/2] 64x8x8/burst", out)
        self.assertIn(f"{WIDE} 800.0 TFLOPS is the pick and the best", out)
        self.assertIn("[2/2] 128x8x8/burst", out)
        self.assertIn(f"best {WIDE} 800.0 TFLOPS, pick {TALL} 700.0, 12.5 % off; about", out)
        self.assertIn("over 2 shapes the pick is 6.25 % off on average, 12.5 % at worst, at 128x8x8",
                      out)  # fmt: skip
        self.assertIn("1 shapes above 3 %, 1 above 10 %", out)

    def test_what_is_predicted_to_be_slow_is_left_out_and_counted_and_the_pick_never(self):
        for pick, timed in {"tall": {TALL}, "wide": {TALL, WIDE}, "slow": {TALL, SLOW}}.items():
            with self.subTest(pick):
                predicted_us = {"tall": 10.0, "wide": 14.0, "slow": 20.0, pick: 9.0}
                self.plan(predicted_us=predicted_us)
                self.sweep("--shapes=64x8x8", "--force")
                entry = self.entries()[64]
                self.assertIn(entry["pick"], entry["configurations"])
                self.assertEqual(set(entry["configurations"]), timed)
                self.assertEqual(entry["left_out"], 3 - len(timed))

    def test_a_stopped_sweep_goes_on_with_the_next_shape(self):
        shown = []

        def stop(self_, row, result):
            shown.append(row)
            if len(shown) == 3:  # the first row of the second shape
                raise KeyboardInterrupt

        with mock.patch.object(sweep.Sweep, "show_result", stop):
            code, out, _ = self.sweep("--shapes=64x8x8,128x8x8")
        self.assertEqual(code, cli.STOPPED)
        self.assertIn("Stopped. 1 shapes are kept", out)
        self.assertEqual(self.sweep("--shapes=64x8x8,128x8x8")[0], 0)
        self.assertEqual([line.split()[2] for line in self.given()], ["128"] * 2)
        self.assertEqual(set(self.entries()), {64, 128})
        self.assertFalse((self.root / "partial/h200.partial.jsonl").exists())

    def test_another_model_measures_nothing_and_judges_anew(self):
        self.sweep("--shapes=64x8x8")
        self.plan(pick={"64": "wide"})
        code, out, _ = self.sweep("--shapes=64x8x8")
        self.assertEqual((code, self.given()), (0, []))
        self.assertIn("1 more shapes are there already", out)
        entry = self.entries()[64]
        self.assertEqual((entry["pick"], entry["distance"]), (WIDE, 0))
        self.assertEqual(entry["configurations"][WIDE]["predicted_us"], 9.0)

    def test_another_model_measures_where_it_adds_to_what_is_timed(self):
        self.sweep("--shapes=64x8x8,128x8x8")
        self.plan(pick={"64": "slow"})
        self.sweep("--shapes=128x8x8")
        self.assertEqual(self.given(), [])
        entry = self.entries()[64]  # not asked for: it stays, and the pick has no time
        self.assertEqual((entry["pick"], entry["distance"], entry["left_out"]), (SLOW, None, 1))
        self.sweep("--shapes=64x8x8,128x8x8")
        self.assertEqual(self.given(), ["11 tall 64 8 8 burst", "12 slow 64 8 8 burst"])
        self.assertEqual(self.entries()[64]["distance"], 0)

    def test_another_kernel_or_other_configurations_measure_the_shape_again(self):
        self.sweep("--shapes=64x8x8")
        self.hashes["k_slow"] = "changed"  # which was left out
        self.sweep("--shapes=64x8x8")
        self.assertEqual(len(self.given()), 0)
        self.hashes["k_wide"] = "changed"
        self.sweep("--shapes=64x8x8")
        self.assertEqual(len(self.given()), 2)
        self.register(["tall"])
        self.sweep("--shapes=64x8x8")
        self.assertEqual(len(self.given()), 1)
        self.sweep("--shapes=64x8x8")
        self.assertEqual(len(self.given()), 0)
        self.sweep("--shapes=64x8x8", "--force")
        self.assertEqual(len(self.given()), 1)
        self.register(RUNGS)
        self.sweep("--shapes=64x8x8")
        self.assertEqual(len(self.given()), 2)
        self.plan(env={**ENV, "driver": "2"})
        _, out, _ = self.sweep("--shapes=128x8x8")
        self.assertIn("another machine or versions", out)
        self.assertEqual(set(self.entries()), {128})

    def test_other_shapes_and_regimes_stay(self):
        self.sweep("--shapes=64x8x8")
        self.sweep("--shapes=128x8x8", "--regime=sustained")
        regimes = [(entry["m"], entry["regime"]) for entry in self.document()["shapes"]]
        self.assertEqual(regimes, [(64, "burst"), (128, "sustained")])

    def test_a_wrong_configuration_has_no_time_and_exits_1(self):
        self.plan(wrong="12 wide 64 8 8 burst")
        code, out, _ = self.sweep("--shapes=64x8x8")
        self.assertEqual(code, cli.WRONG)
        self.assertIn("FAIL 12:wide@64x8x8/burst: 3 wrong", out)
        entry = self.entries()[64]
        self.assertEqual((entry["best"], entry["distance"]), (TALL, 0))
        self.assertIsNone(entry["configurations"][WIDE]["tflops"])
        self.plan()
        self.assertEqual(self.sweep("--shapes=64x8x8")[0], 0)
        self.assertEqual(len(self.given()), 2)

    def test_a_crash_costs_one_configuration(self):
        self.plan(crash="12 wide 64 8 8 burst")
        code, out, _ = self.sweep("--shapes=64x8x8,128x8x8")
        self.assertEqual(code, cli.WRONG)
        self.assertIn("FAIL 12:wide@64x8x8/burst: an illegal address", out)
        self.assertEqual(self.entries()[128]["best"], WIDE)

    def test_picks_measures_nothing_and_keeps_the_file_if_the_kernels_are_the_same(self):
        self.sweep("--shapes=64x8x8")
        before = self.document()
        self.plan(pick={"64": "wide"}, rc=3)
        with mock.patch.dict(os.environ):
            os.environ.pop("MACHINE_SMS", None)
            code, out, _ = self.sweep("--picks")
        self.assertEqual(code, 0)
        self.assertEqual((self.root / "sms.txt").read_text(), "132")
        self.assertIn("64x8x8/burst", out)
        self.assertIn("0.00 % off on average", out)
        after = self.document()
        self.assertEqual(after["shapes"][0]["pick"], WIDE)
        self.assertEqual({k: after[k] for k in ("date", "revision")},
                         {k: before[k] for k in ("date", "revision")})  # fmt: skip
        self.hashes["k_tall"] = "changed"
        self.plan(rc=3)
        code, out, _ = self.sweep("--picks")
        self.assertIn(f"pick {TALL} 700.0, 12.5 % off", out)
        self.assertIn("stays as it is", out)
        self.assertEqual(self.document(), after)

    def test_what_is_refused(self):
        for arguments, sentence in {
            ("--shapes=big",): "--shapes: the shape 'big' must be a size such as 4096, MxNxK",
            ("--regime=cold",): "--regime is 'cold' but must be burst or sustained",
            ("--picks",): "has no file of a sweep",
            ("--picks", "--shapes=64"): "--shapes is for measuring, which --picks does not",
            ("--picks", "--regime=burst"): "--regime is for measuring",
            ("--picks", "--force"): "--force is for measuring",
        }.items():
            with self.subTest(arguments):
                code, _, err = self.sweep(*arguments)
                self.assertEqual(code, cli.REFUSED)
                self.assertIn(sentence, err)
        self.register([])
        self.assertIn("nothing to sweep", self.sweep()[2])
        self.register(RUNGS, chooser=False)
        self.assertIn("nothing to sweep", self.sweep()[2])

    def test_no_device_is_passed_on_with_its_sentence(self):
        self.plan(rc=3)
        code, _, err = self.sweep()
        self.assertEqual(code, cli.NO_DEVICE)
        self.assertEqual(err, "No NVIDIA driver was found.\n")


def row(shape, regime, ratio, variant="auto", **more):
    m, n, k = shape
    base = {
        "stage": 11, "name": "11_rung", "problem": "bf16", "variant": variant, "result": variant == "auto", "m": m,
        "n": n, "k": k, "regime": regime, "tflops": 800.0 * ratio, "baseline_tflops": 800.0,
        "ratio": ratio, "configuration": "wide", "verified": True, "kernel_hash": "0",
    }  # fmt: skip
    return {**base, **more}


LARGE, SMALL, OTHER = (4096, 2112, 7168), (64, 2112, 7168), (1, 6144, 4096)
RESULTS = {
    "gpu": "Some GPU", "driver": "1.2", "toolkit": "13.0", "cublas": "13.1.0", "revision": "abc",
    "date": "2025-01-01", "data": "normal", "seed": 1,
    "rows": [
        row(LARGE, "burst", 1.1), row(LARGE, "burst", 1.05, "auto_plain"),
        row(SMALL, "burst", 0.9), row(SMALL, "sustained", 0.96),
        row(OTHER, "burst", 1.0), row((8, 8, 8), "burst", 0.1),
        row(LARGE, "sustained", 0.5, verified=False),
    ],
}  # fmt: skip


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "stages").mkdir()
        self.write("docs/results/gpu.json", RESULTS)

    def write(self, name, document):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document), encoding="utf-8")

    def page(self, text):
        """The lines of a page with that text after `make tables`, or the sentence of a refusal."""
        path = self.root / "docs/page.md"
        path.write_text(text + "\n", encoding="utf-8")
        err = StringIO()
        with redirect_stdout(StringIO()), redirect_stderr(err):
            tables.main(["--root", str(self.root)])
        return err.getvalue() or path.read_text(encoding="utf-8")

    def shapes(self):
        return self.page("<!-- table: shapes 11 -->\n<!-- end -->")

    def test_each_shape_is_beside_cublas_and_marked_where_it_falls_short(self):
        text = self.shapes()
        self.assertIn(
            "| 4096, 2112, 7168 | wide | 880 | 800 | 1.100 | 840 | FAIL | FAIL | FAIL | – |  |", text
        )
        self.assertIn(
            "| 64, 2112, 7168 | wide | 720 | 800 | **0.900** ↓ | – | 768 | 800 | 0.960 | – | – |", text
        )
        self.assertIn("| 1, 6144, 4096 | wide | 800 | 800 | 1.000 |", text)
        self.assertNotIn("8³", text)  # of no list
        self.assertLess(text.index("*tuning shapes*"), text.index("*held-out shapes*"))
        self.write("docs/results/gpu.notes.json", {"shapes": {"64x2112x7168": "one wave"}})
        self.assertIn("0.960 | – | one wave |", self.shapes())

    def test_means_are_geometric_and_of_right_results_only(self):
        text = self.shapes()
        self.assertIn("| tuning shapes | 0.995 | 2 | 1 | 1.050 | 0.960 | 1 | 0 | – |", text)
        self.assertIn("| tuning shapes with M ≥ 1024 | 1.100 | 1 | 0 | 1.050 | – | 0 | – | – |", text)
        self.assertIn("| held-out shapes | 1.000 | 1 | 0 | – | – | 0 | – | – |", text)

    def sweep(self):
        one = {"tflops": 500.0, "us": 2.0, "predicted_us": 2.5, "kernel_hash": "0"}
        entries = [
            {"m": m, "n": n, "k": k, "regime": "burst", "left_out": 3,
             "best": WIDE, "pick": pick, "distance": far,
             "configurations": {WIDE: one, TALL: {**one, "tflops": 480.0}}}
            for (m, n, k), pick, far in (
                (LARGE, TALL, 0.04), (SMALL, WIDE, 0.0), (OTHER, SLOW, None), ((8, 8, 8), TALL, 0.1)
            )
        ]  # fmt: skip
        self.write("docs/results/gpu.sweep.json", {"shapes": entries})

    def test_the_sweep(self):
        marker = "<!-- table: sweep -->\n<!-- end -->"
        self.assertIn("make sweep", self.page(marker))
        self.sweep()
        text = self.page(marker)
        self.assertIn(
            f"| 4096, 2112, 7168 | burst | {WIDE} | 500 | {TALL} | 480 | 4.0 % | 2.5 / 2.0 | 3 |", text
        )
        self.assertIn(f"| 1, 6144, 4096 | burst | {WIDE} | 500 | {SLOW} | – | – | – / – | 3 |", text)
        self.assertLess(text.index("| *tuning shapes* |"), text.index("| 64, 2112, 7168 |"))
        self.assertLess(text.index("| *held-out shapes* |"), text.index("| 1, 6144, 4096 |"))
        self.assertNotIn("| 8³ | burst", text)  # of neither list
        self.assertIn("| tuning shapes, burst | 2 | 2.00 % | 4.0 % | 4096, 2112, 7168 |", text)
        self.assertIn("| all, burst | 3 | 4.67 % | 10.0 % | 8³ |", text)

    def test_numbers_in_prose(self):
        self.sweep()
        for marker, number in {
            "shapes: 11.tuning.burst.geomean": "0.995",
            "shapes: 11.tuning.burst.geomean_large": "1.100",
            "shapes: 11.tuning.burst.lowest": "0.900",
            "shapes: 11.tuning.burst.below": "1",
            "shapes: 11.heldout.sustained.geomean": "–",
            "sweep: burst.mean": "4.67 %",
            "sweep: tuning.burst.worst": "4.0 %",
            "sweep: burst.shapes": "3",
            "sweep: sustained.mean": "–",
        }.items():
            with self.subTest(marker):
                text = self.page(f"It is <!-- {marker} --><!-- end -->.")
                self.assertEqual(text, f"It is <!-- {marker} -->{number}<!-- end -->.\n")

    def test_wrong_markers_and_files_are_refused(self):
        for marker, sentence in {
            "shapes: 11.tuning.burst.speed": "neither a number nor rung.list.regime.key",
            "shapes: 11.other.burst.geomean": "the list is tuning or heldout",
            "sweep: burst.speed": "the key must be one of mean, worst, shapes",
            "sweep: mean": "neither a number nor [list.]regime.key",
        }.items():
            with self.subTest(marker):
                self.assertIn(sentence, self.page(f"It is <!-- {marker} --><!-- end -->."))
        self.write("docs/results/gpu.notes.json", [])
        self.assertIn('the top level must be an object', self.shapes())

    def test_nothing_measured_is_said_in_a_line(self):
        self.write("docs/results/gpu.json", {**RESULTS, "rows": []})
        self.assertIn("`make bench ROWS=11@tuning,11@heldout`", self.shapes())


if __name__ == "__main__":
    unittest.main()
