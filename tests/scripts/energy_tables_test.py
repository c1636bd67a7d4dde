"""What tables.py and check_docs.py make of a small file of make energy."""

import json
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import tables  # noqa: E402


def bench_row(stage, regime, **more):
    base = {
        "stage": stage, "name": f"{stage:02}_name", "problem": "bf16", "variant": "best", "result": True, "m": 8192,
        "n": 8192, "k": 8192, "regime": regime, "tflops": 600.0, "verified": True, "watts": None,
        "pj_per_flop": None,
    }  # fmt: skip
    return {**base, **more}


RESULTS = {
    "gpu": "Some GPU", "driver": "1.2", "toolkit": "13.0", "cublas": "13.1.0", "revision": "abc",
    "date": "2025-01-01", "data": "normal", "seed": 1,
    "rows": [
        bench_row(2, "burst"),
        bench_row(
            2, "sustained", watts=698.4, pj_per_flop=1.1, baseline_watts=699.0,
            baseline_pj_per_flop=1.0, idle_watts=112.0,
        ),
        bench_row(3, "sustained"),
    ],
}  # fmt: skip


def row(experiment, label, chip, pj, **more):
    base = {
        "experiment": experiment, "label": label, "chip": chip, "grid": 64 if chip == "part" else 0,
        "stage": 7, "variant": label, "watts": 500.0, "tflops": 400.0, "sm_mhz": 1979.6,
        "pj_per_flop": pj, "pj_min": pj - 0.01, "pj_max": pj + 0.01, "pj_above_idle": pj - 0.2,
        "above_min": pj - 0.21, "above_max": pj - 0.19, "equal_clock": True, "verified": True,
        "kernel": "k", "kernel_hash": "h",
    }  # fmt: skip
    return {**base, **more}


ENERGY = {
    "gpu": "Some GPU", "driver": "1.2", "toolkit": "13.0", "sms": 132, "seed": 1, "max_mhz": 1980,
    "power_limit_watts": None, "refresh_ms": 99.7, "idle_watts": 112.3, "revision": "abc",
    "date": "2025-01-01",
    "rows": [
        row("raster", "7:row_major", "part", 1.4, tflops=199.8),
        row("raster", "7:row_major", "whole", 1.5),
        row("raster", "7:group16", "part", 0.8, tflops=199.8, equal_clock=False),
        row("raster", "7:group16", "whole", 1.2, equal_clock=False),
        row("tile", "5:bn64", "whole", 2.0),
        {
            "experiment": "tile", "label": "5:bn256", "chip": "whole", "grid": 0, "stage": 5,
            "variant": "bn256", "verified": False, "error": "3 wrong",
        },
    ],
}  # fmt: skip


class Project(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in ("docs/results", "docs/img", "stages"):
            (self.root / name).mkdir(parents=True)
        self.write("docs/results/gpu.json", json.dumps(RESULTS))

    def write(self, name, text):
        (self.root / name).write_text(text, encoding="utf-8")

    def energy(self, document=ENERGY):
        self.write("docs/results/gpu.energy.json", json.dumps(document))

    def main(self, text):
        """(exit code, README.md as it is then and what was printed)."""
        self.write("README.md", text)
        out = StringIO()
        with redirect_stdout(out), redirect_stderr(out):
            code = tables.main(["--root", str(self.root)])
        return code, (self.root / "README.md").read_text(encoding="utf-8") + out.getvalue()

    def table(self, name):
        code, text = self.main(f"<!-- table: energy {name} -->\n<!-- end -->\n")
        self.assertEqual(code, 0, text)
        return text

    def value(self, expression):
        code, text = self.main(f"It is <!-- energy: {expression} -->0<!-- end --> here.\n")
        self.assertEqual(code, 0, text)
        return text.split(" -->")[1].split("<!-- end")[0]


class Tables(Project):
    def test_without_a_file_says_so(self):
        for name in ("environment", "data", "tile", "multicast", "raster", "epilogue"):
            self.assertIn("Not measured yet: `make energy`", self.table(name))
        (self.root / "docs/results/gpu.json").unlink()
        self.assertIn("Not measured yet: `make energy`", self.table("data"))
        self.assertIn("Not measured yet: `make bench`", self.table("rungs"))

    def test_an_experiment_that_is_not_in_the_file_says_so(self):
        self.energy()
        self.assertIn("Not measured yet", self.table("data"))

    def test_what_has_changed_since_is_said(self):
        self.energy({**ENERGY, "changed_since": {"7": "how it stores"}})
        self.assertIn("| rung 7: changed since | how it stores |", self.table("environment"))

    def test_part_and_whole_stand_side_by_side(self):
        self.energy()
        lines = [line for line in self.table("raster").splitlines() if line.startswith("|")]
        self.assertIn("| 64 SMs: MHz |", lines[0])
        self.assertEqual(
            lines[2],
            "| 7:row_major | 1980 | 38.5 % | 500 | 1.200 | 1.190–1.210 | 1.000 "
            "| 1980 | 37.4 % | 400 | 500 | 1.500 | 1.490–1.510 | 1.000 |",
        )
        # The odd clock is marked where clocks should be equal, and only there.
        self.assertIn("| 7:group16 | *1980* | 38.5 % | 500 | 0.600 | ", lines[3])
        self.assertIn(" | 0.590–0.610 | 0.500 | 1980 | ", lines[3])
        self.assertIn("| 1.200 | 1.190–1.210 | 0.800 |", lines[3])

    def test_what_has_no_part_has_dashes_and_what_is_wrong_no_number(self):
        self.energy()
        lines = [line for line in self.table("tile").splitlines() if line.startswith("|")]
        self.assertTrue(lines[2].startswith("| 5:bn64 |" + " – |" * 6 + " 1980 |"))
        self.assertTrue(lines[3].startswith("| 5:bn256 |" + " – |" * 6 + " FAIL |" * 7))
        self.assertEqual({len(line.split("|")) for line in lines}, {len(lines[0].split("|"))})

    def test_environment(self):
        self.energy()
        text = self.table("environment")
        self.assertIn("| power limit | – |", text)
        self.assertIn("| at rest | 112 W |", text)
        self.assertIn("| the counter is refreshed every | 100 ms |", text)

    def test_what_is_drawn_at_rest_differs_by_run(self):
        def at_rest(*watts):
            rows = [row("raster", str(i), "whole", 1.5, idle_watts=w) for i, w in enumerate(watts)]
            self.energy({**ENERGY, "rows": rows})
            return self.table("environment")

        self.assertIn("| at rest | 122 to 132 W, by run |", at_rest(128.1, 132.1, 121.9))
        self.assertIn("| at rest | 128 W |", at_rest(128.1, 127.9))

    def test_rungs_come_from_make_bench(self):
        text = self.table("rungs")
        self.assertIn("| 2 | 8192³ | 698 | 1.100 | 699 | 1.000 | 1.100 | 112 |", text)
        self.assertNotIn("| 3 |", text)

    def test_the_file_is_no_file_of_results(self):
        self.write("docs/results/a.energy.json", json.dumps(ENERGY))
        self.assertIn("| 2 | 8192³ |", self.table("rungs"))

    def test_a_table_that_is_none_is_refused(self):
        for text in ("energy", "energy rasters"):
            code, printed = self.main(f"<!-- table: {text} -->\n<!-- end -->\n")
            self.assertEqual(code, 2)
            self.assertIn(f'no table is called "{text}"', printed)

    def test_a_file_without_a_key_is_refused(self):
        self.energy({key: value for key, value in ENERGY.items() if key != "idle_watts"})
        code, printed = self.main("")
        self.assertEqual(code, 2)
        self.assertIn('gpu.energy.json: key "idle_watts" is missing', printed)


class Values(Project):
    def test_without_a_file_or_an_experiment_a_dash(self):
        self.assertEqual(self.value("raster.best.part.label"), "–")
        self.energy()
        self.assertEqual(self.value("data.zeros.part.pj_above_idle"), "–")

    def test_values(self):
        self.energy()
        self.assertEqual(self.value("raster.7:group16.whole.pj_per_flop"), "1.200")
        self.assertEqual(self.value("raster.7:group16.part.pj_above_idle / 0.3 : .1f"), "2.0")
        self.assertEqual(self.value("idle_watts"), "112")
        self.assertEqual(self.value("power_limit_watts"), "–")

    def test_best_and_worst(self):
        self.energy()
        self.assertEqual(self.value("raster.best.part.label"), "7:group16")
        self.assertEqual(self.value("raster.worst.whole.label"), "7:row_major")
        self.assertEqual(self.value("raster.worst.whole.pj_per_flop"), "1.500")
        self.assertEqual(self.value("tile.worst.whole.label"), "5:bn64")  # the other one is wrong

    def test_a_wrong_result_has_no_number(self):
        self.energy()
        self.assertEqual(self.value("tile.5:bn256.whole.watts / 2"), "FAIL")

    def test_what_is_none_is_named(self):
        self.energy()
        for expression, why in {
            "raster.7:group8.whole.watts": 'raster has no "7:group8"',
            "raster.7:group16.whole.joules": 'no key "joules"',
            "rasters.7:group16.whole.watts": "experiment.label.part|whole.key",
            "raster.7:group16.half.watts": "experiment.label.part|whole.key",
            "watts": "no such key",
        }.items():
            with self.subTest(expression):
                code, printed = self.main(f"It is <!-- energy: {expression} --><!-- end -->\n")
                self.assertEqual(code, 2)
                self.assertIn("README.md:1: ", printed)
                self.assertIn(why, printed)


if __name__ == "__main__":
    unittest.main()
