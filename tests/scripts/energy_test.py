"""energy.py against a stand-in for build/ladder: turns, the grid that keeps the clock, what is
derived, runs that are interrupted, fail, crash or hang."""

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
import energy  # noqa: E402
from lib import cli, registry  # noqa: E402
from listing import listing  # noqa: E402

# (rung, variant, result, persistent, configuration, chooses)
VARIANTS = [
    (5, "bn64", 0, 0, 0, 0), (5, "bn128", 0, 0, 0, 0), (5, "bn256", 1, 0, 0, 0),
    (5, "ahead", 0, 0, 0, 0),
    (7, "row_major", 0, 1, 0, 0), (7, "group16", 1, 1, 0, 0),
    (8, "1x1", 0, 1, 0, 0), (8, "2x1", 1, 1, 0, 0),
    (11, "auto", 1, 1, 0, 1), (11, "128x256", 0, 1, 1, 0), (11, "256x192", 0, 1, 1, 0),
    (13, "swizzle128", 1, 1, 0, 0), (16, "auto", 1, 1, 0, 1),
]  # fmt: skip

# Answers each row by plan.json: {"watts", "mhz": {"<variant> <data> <grid>" or a part of it:
# number}, "hang"/"crash"/"wrong": row text, "rc": exit code}. Appends the rows to given.txt.
FAKE = """#!{python}
import json, sys
from pathlib import Path
here = Path({here!r})
plan = json.loads((here / "plan.json").read_text())
if sys.argv[1] == "--list":
    sys.stdout.write((here / "list.txt").read_text())
    sys.exit(0)
if plan.get("rc"):
    print("No counter of joules.", file=sys.stderr)
    sys.exit(plan["rc"])
say = lambda event: print(json.dumps(event), flush=True)
if sys.stdin.readline() != "\\n":
    sys.exit("A row comes before the GPU is known.")
say({{"env": plan["env"]}})
def planned(key, row, otherwise):
    for part, value in plan.get(key, {{}}).items():
        if set(part.split()) <= set(row.split()):
            return value
    return otherwise
for line in iter(sys.stdin.readline, ""):
    row = line.strip()
    with (here / "given.txt").open("a") as file:
        file.write(row + "\\n")
    if row == plan.get("hang"):
        print("HANG: " + row, file=sys.stderr)
        sys.exit(4)
    if row == plan.get("crash"):
        print("FAIL: an illegal address", file=sys.stderr)
        sys.exit(1)
    stage, variant = row.split()[:2]
    kernel = "k_" + stage + "_" + variant
    if row == plan.get("wrong"):
        say({{"row": row, "kernel": kernel, "error": "3 wrong"}})
        continue
    say({{"row": row, "kernel": kernel, "watts": planned("watts", row, 600.0), "tflops": 500.0,
         "sm_mhz": planned("mhz", row, 1980.0)}})
"""
ENV = {
    "gpu": "NVIDIA H200", "driver": "1.2", "toolkit": "13.0.88", "sms": 132, "seed": 1,
    "max_mhz": 1980, "power_limit_watts": 700.0, "refresh_ms": 20.0, "idle_watts": 100.0,
}  # fmt: skip


def listing_text(variants):
    return listing([
        {"stage": s, "variant": v, "result": r, "persistent": p, "kernel": f"k_{s}_{v}",
         "configuration": configuration, "chooses": chooses}
        for s, v, r, p, configuration, chooses in variants
    ])  # fmt: skip


def listed(variants=VARIANTS):
    return registry.parse(listing_text(variants))


class Select(unittest.TestCase):
    def labels(self, text=""):
        found = energy.select(text, listed())
        return {name: [one.label for one in those] for name, those in found.items()}

    def test_what_each_experiment_compares(self):
        self.assertEqual(
            self.labels(),
            {
                "data": ["normal", "uniform", "ints", "zeros"],
                "tile": ["5:bn64", "5:bn128", "5:bn256", "11:128x256", "11:256x192"],
                "multicast": ["8:1x1", "8:2x1"],
                "raster": ["7:row_major", "7:group16"],
            },  # no rung 9: no epilogue
        )

    def test_one_kernel_runs_on_all_data_whatever_rungs_there_are(self):
        found = energy.select("data", listed())["data"]
        self.assertEqual({(one.stage, one.variant) for one in found}, {(13, "swizzle128")})
        self.assertEqual([one.data for one in found], ["normal", "uniform", "ints", "zeros"])
        without = energy.select("", listed([v for v in VARIANTS if v[0] < 9]))
        self.assertNotIn("data", without)
        self.assertEqual(len(without["tile"]), 3)

    def test_some_experiments(self):
        self.assertEqual(list(self.labels("raster,data")), ["raster", "data"])

    def test_what_is_none_is_refused(self):
        for text, hint in {"rasters": "did you mean raster?", "epilogue": "not here"}.items():
            with self.subTest(text), self.assertRaises(cli.Problem) as raised:
                self.labels(text)
            self.assertIn(hint, str(raised.exception))
            self.assertEqual(raised.exception.code, cli.REFUSED)

    def test_rounds(self):
        self.assertEqual(energy.parse_rounds("2"), 2)
        for text in ("0", "-1", "x", "", "1_0", "٤", "1001", "9" * 5000):
            with self.subTest(text), self.assertRaises(cli.Problem) as raised:
                energy.parse_rounds(text)
            self.assertIn(f"'{text}'", str(raised.exception))

    def test_a_part_of_the_chip_is_a_power_of_two(self):
        self.assertEqual(energy.part_grids(132), [64, 32, 16])
        self.assertEqual(energy.part_grids(114), [32, 16, 8])


class Derived(unittest.TestCase):
    def test_medians_and_spread(self):
        reading = {"tflops": 500.0, "sm_mhz": 1300.0, "kernel": "k", "kernel_hash": "h"}
        readings = [
            {**reading, "watts": watts, "idle_watts": 100.0} for watts in (700.0, 690.0, 650.0)
        ]
        row = energy.summarize(readings)
        self.assertAlmostEqual(row["pj_per_flop"], 690 / 500)
        self.assertAlmostEqual(row["pj_above_idle"], 590 / 500)
        self.assertAlmostEqual(row["pj_min"], 1.3)
        self.assertAlmostEqual(row["pj_max"], 1.4)
        self.assertAlmostEqual(row["above_min"], 1.1)
        self.assertEqual(row["rounds"], 3)

    def test_a_clock_more_than_a_percent_off_is_marked(self):
        rows = [{"sm_mhz": mhz, "verified": True} for mhz in (1980, 1979, 1955)]
        energy.mark_clocks(rows)
        self.assertEqual([row["equal_clock"] for row in rows], [True, True, False])


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.program = self.root / "ladder"
        self.program.write_text(FAKE.format(python=sys.executable, here=str(self.root)))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        (self.root / "list.txt").write_text(
            listing_text(VARIANTS)
        )
        self.hashes = {f"k_{v[0]}_{v[1]}": f"hash {v[1]}" for v in VARIANTS}
        self.plan()

    def plan(self, **plan):
        (self.root / "plan.json").write_text(json.dumps({"env": ENV, **plan}))

    def energy(self, experiment="raster", rounds="2"):
        """(exit code, stdout, stderr)."""
        (self.root / "given.txt").write_text("")
        (self.root / "hashes.json").write_text(json.dumps(self.hashes))
        arguments = ["energy.py", f"--experiment={experiment}", f"--rounds={rounds}"]
        arguments += [f"--program={self.program}", f"--hashes={self.root}/hashes.json"]
        arguments += [f"--results={self.root}/results", f"--partial={self.root}/partial"]
        out, err = StringIO(), StringIO()
        with mock.patch.object(sys, "argv", arguments), mock.patch.dict(
            os.environ, {"REVISION": "abc"}
        ), redirect_stdout(out), redirect_stderr(err):
            code = energy.main()
        return code, out.getvalue(), err.getvalue()

    def given(self):
        """(variant, grid) of each row that the program was given."""
        lines = (self.root / "given.txt").read_text().splitlines()
        return [(line.split()[1], int(line.split()[6])) for line in lines]

    def document(self):
        return json.loads((self.root / "results/h200.energy.json").read_text())

    def rows(self):
        return {(r["experiment"], r["label"], r["chip"]): r for r in self.document()["rows"]}

    def partial(self):
        path = self.root / "partial/h200.partial.jsonl"
        return path.read_text().splitlines() if path.exists() else []

    def test_contestants_take_turns_and_the_order_is_reversed(self):
        self.plan(watts={"row_major": 650.0})
        code, out, _ = self.energy()
        self.assertEqual(code, 0)
        there_and_back = ["row_major", "group16", "group16", "row_major"]
        self.assertEqual(
            self.given(), [(name, grid) for grid in (64, 0) for name in there_and_back]
        )
        rows = self.rows()
        self.assertEqual(len(rows), 4)
        row = rows["raster", "7:row_major", "part"]
        self.assertEqual((row["grid"], row["rounds"], row["watts"]), (64, 2, 650.0))
        self.assertAlmostEqual(row["pj_per_flop"], 1.3)
        self.assertAlmostEqual(row["pj_above_idle"], 1.1)
        self.assertEqual(row["kernel_hash"], "hash row_major")
        self.assertTrue(row["equal_clock"])
        document = self.document()
        self.assertEqual({key: document[key] for key in ENV}, ENV)
        self.assertEqual(document["revision"], "abc")
        self.assertIn("[8/8]", out)
        self.assertIn("left", out)
        self.assertEqual(self.partial(), [])

    def test_a_clock_below_the_highest_gets_fewer_sms_and_all_others_too(self):
        self.plan(mhz={"group16 64": 1900.0})
        self.assertEqual(self.energy("raster,multicast", "1")[0], 0)
        grids = [grid for _, grid in self.given()]
        self.assertEqual(grids, [64, 64, 32, 32, 0, 0, 32, 32, 0, 0])
        self.assertEqual({r["grid"] for r in self.document()["rows"]}, {32, 0})

    def test_the_smallest_part_is_taken_at_any_clock_and_marked(self):
        self.plan(mhz={"group16": 1900.0, "row_major": 1980.0})
        self.assertEqual(self.energy("raster", "1")[0], 0)
        self.assertEqual([g for _, g in self.given()], [64, 64, 32, 32, 16, 16, 0, 0])
        self.assertFalse(self.rows()["raster", "7:group16", "part"]["equal_clock"])

    def test_what_is_not_persistent_runs_on_the_whole_chip_only(self):
        self.assertEqual(self.energy("tile", "1")[0], 0)
        chips = [(label, chip) for _, label, chip in self.rows()]
        self.assertIn(("5:bn64", "whole"), chips)
        self.assertNotIn(("5:bn64", "part"), chips)
        self.assertIn(("11:256x192", "part"), chips)

    def test_an_interrupted_run_goes_on_where_it_was(self):
        show, shown = energy.Run.show, []

        def stop(self_, what, result):
            shown.append(what)
            if len(shown) == 3:
                raise KeyboardInterrupt
            show(self_, what, result)

        with mock.patch.object(energy.Run, "show", stop):
            code, out, _ = self.energy()
        self.assertEqual(code, cli.STOPPED)
        self.assertIn("Stopped. 3 readings are kept", out)
        with (self.root / "partial/h200.partial.jsonl").open("a") as file:
            file.write('{"env": {"gp')
        code, out, _ = self.energy()
        self.assertEqual(code, 0)
        self.assertIn("3 more are there", out)
        self.assertEqual(len(self.given()), 8 - 3)
        self.assertEqual(len(self.rows()), 4)

    def test_readings_of_old_kernels_are_taken_again(self):
        with mock.patch.object(energy, "publish", side_effect=KeyboardInterrupt):
            self.energy()
        self.hashes["k_7_group16"] = "changed"
        self.assertEqual(self.energy()[0], 0)
        self.assertEqual({name for name, _ in self.given()}, {"group16"})

    def test_other_experiments_stay_while_their_kernels_and_the_machine_do(self):
        self.energy("raster,multicast", "1")
        self.hashes["k_7_group16"] = "changed"
        self.plan(watts={"8": 400.0})
        self.energy("multicast", "1")
        rows = self.rows()
        self.assertEqual(rows["multicast", "8:2x1", "whole"]["watts"], 400.0)
        self.assertEqual(rows["raster", "7:row_major", "whole"]["watts"], 600.0)
        self.assertNotIn(("raster", "7:group16", "whole"), rows)
        order = [row["experiment"] for row in self.document()["rows"]]
        self.assertEqual(order, ["multicast"] * 4 + ["raster"] * 2)
        self.plan(env={**ENV, "driver": "2"})
        _, out, _ = self.energy("multicast", "1")
        self.assertIn("another machine or versions", out)
        self.assertEqual({key[0] for key in self.rows()}, {"multicast"})

    def failing(self, kind, expected):
        self.plan(**{kind: "7 group16 8192 8192 8192 normal 64"})
        code, out, _ = self.energy()
        self.assertEqual(code, expected)
        rows = self.rows()
        for chip in energy.CHIPS:
            row = rows["raster", "7:group16", chip]
            self.assertFalse(row["verified"])
            self.assertNotIn("watts", row)
            self.assertEqual(rows["raster", "7:row_major", chip]["rounds"], 2)
        self.assertIn("FAIL raster 7:group16: ", out)
        return rows["raster", "7:group16", "whole"]["error"]

    def test_a_wrong_result_has_no_number(self):
        self.assertEqual(self.failing("wrong", cli.WRONG), "3 wrong")

    def test_a_crash_costs_one_contestant(self):
        self.assertEqual(self.failing("crash", cli.WRONG), "an illegal address")

    def test_a_hang_costs_one_contestant_and_is_the_exit_code(self):
        self.assertIn("HANG", self.failing("hang", cli.HANG))

    def test_a_failed_contestant_of_another_experiment_is_dropped(self):
        self.failing("wrong", cli.WRONG)
        self.plan()
        self.assertEqual(self.energy("multicast", "1")[0], 0)
        kept = {key for key in self.rows() if key[0] == "raster"}
        self.assertEqual(kept, {("raster", "7:row_major", chip) for chip in energy.CHIPS})

    def test_no_counter_is_passed_on_with_its_sentence(self):
        self.plan(rc=3)
        code, _, err = self.energy()
        self.assertEqual(code, cli.NO_DEVICE)
        self.assertEqual(err, "No counter of joules.\n")

    def test_what_is_not_built_is_said(self):
        self.program.unlink()
        code, _, err = self.energy()
        self.assertEqual(code, cli.REFUSED)
        self.assertIn("builds it", err)



if __name__ == "__main__":
    unittest.main()
