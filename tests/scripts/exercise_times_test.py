"""exercise_times.py and the numbers that pages take from it, with a stand-in for build/ladder."""

import contextlib
import io
import json
import stat
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import exercise_times  # noqa: E402
import exercises  # noqa: E402
from lib import cli  # noqa: E402
from lib.results import Results  # noqa: E402
from lib.tables import exercises as table  # noqa: E402
from listing import listing  # noqa: E402

ENV = {"gpu": "NVIDIA Test", "driver": "1", "toolkit": "13.0", "cublas": "13.1", "sms": 132,
       "l2_bytes": 1, "data": "normal", "seed": 1}  # fmt: skip
STAND_IN = """#!{python}
import json, sys
if "--list" in sys.argv:
    sys.stdout.write({listing!r})
    sys.exit(0)
print(json.dumps({{"env": {env!r}}}))
for line in sys.stdin:
    stage, variant, m, n, k, regime = line.split()
    print(json.dumps({{"running": [line.strip()]}}))
    tflops = {tflops} / (2 if "--grid=66" in sys.argv else 1)
    print(json.dumps({{"stage": int(stage), "variant": variant, "m": int(m), "n": int(n), "k": int(k),
                       "regime": regime, "args": "", "tflops": tflops, "ratio": tflops / 64,
                       "tensor_share": 0.5, "sm_mhz": 1600, "verified": {verified}, "kernel": variant}}))
"""


class Times(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "hashes.json").write_text(json.dumps({"a": "1234", "wide": "5678"}))

    def program(self, name, tflops, variants=("a",), verified=True):
        listed = listing([{"stage": 7, "variant": v, "kernel": v} for v in variants])
        path = self.root / name
        path.write_text(STAND_IN.format(python=sys.executable, listing=listed, env=ENV, tflops=tflops,
                                        verified=verified))  # fmt: skip
        path.chmod(stat.S_IRWXU)
        return str(path)

    def run_main(self, *arguments, timed, built=None):
        command = ["exercise_times.py", f"--program={self.root / 'ladder'}", *arguments,
                   f"--hashes={self.root / 'hashes.json'}", f"--results={self.root}"]  # fmt: skip
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), \
                mock.patch.object(sys, "argv", command), \
                mock.patch.object(exercise_times, "TIMED", timed), \
                mock.patch.object(exercise_times, "build", lambda one, hashes: built):  # fmt: skip
            code = exercise_times.main()
        return code, out.getvalue() + err.getvalue()

    def rows(self):
        return json.loads((self.root / "test.exercises.json").read_text())["rows"]

    def test_a_change_and_options_beside_the_rung_as_it_is(self):
        self.program("ladder", 80)
        changed = self.program("changed", 60, ("a", "wide"))
        timed = {"7.4": exercise_times.Timed("7@8192/burst"),
                 "7.3": exercise_times.Timed("7:a@4096/burst", ("--grid=66",))}  # fmt: skip
        code, said = self.run_main(timed=timed, built=changed)
        self.assertEqual(code, 0, said)
        told = [(r["exercise"], r["variant"], r["tflops"], r["changed_tflops"], r["factor"],
                 r["kernel_hash"]) for r in self.rows()]  # fmt: skip
        self.assertEqual(told, [("7.4", "a", 80, 60, 0.75, "1234"), ("7.4", "wide", None, 60, None, None),
                                ("7.3", "a", 80, 40, 0.5, "1234")])  # fmt: skip
        known = {one.name: exercises.digest(one.change()) for one in exercises.all_exercises()}
        self.assertEqual([r["change"] for r in self.rows()], [known["7.4"]] * 2 + [known["7.3"]])
        self.assertEqual([r["options"] for r in self.rows()], ["", "", "--grid=66"])
        self.assertIn("0.750 times as fast", said)

        self.program("ladder", 120)  # one by name: the others stay
        self.assertEqual(self.run_main("7.3", timed=timed, built=changed)[0], 0)
        self.assertEqual([r["tflops"] for r in self.rows()], [80, None, 120])

    def test_a_wrong_result_is_no_time(self):
        self.program("ladder", 80)
        timed = {"7.4": exercise_times.Timed("7@8192/burst")}
        code, said = self.run_main(timed=timed, built=self.program("changed", 60, verified=False))
        self.assertEqual(code, 1)
        self.assertIn("7:a@8192/burst", said)
        self.assertFalse((self.root / "test.exercises.json").exists())

    def test_an_exercise_that_is_not_timed_is_refused(self):
        code, said = self.run_main("7.1", timed={"7.4": exercise_times.Timed("7@8192/burst")})
        self.assertEqual(code, 2)
        self.assertIn("Exercise 7.1 is none that is timed; these are: 7.4.", said)

    def test_what_is_timed_is_an_exercise_with_a_change_or_options(self):
        known = {one.name: one for one in exercises.all_exercises()}
        for name, timed in exercise_times.TIMED.items():
            self.assertEqual(bool(known[name].change()), not timed.options, name)

    def test_numbers_for_pages(self):
        row = {"exercise": "7.4", "change": "x", "options": "", "stage": 7, "variant": "a", "m": 8192, "n": 8192, "k": 512,
               "regime": "burst", "changed_tflops": 60, "factor": 0.75, "verified": True, "kernel": "a",
               "kernel_hash": "1234"}  # fmt: skip
        results = Results(self.root / "test.json", {"rows": []})
        self.assertEqual(table.operand(results, "7.4.a.8192.factor"), (None, "factor"))  # not measured
        (self.root / "test.exercises.json").write_text(json.dumps({"gpu": "x", "rows": [row]}))
        self.assertEqual(table.operand(results, "7.4.a.8192x8192x512.factor"), (0.75, "factor"))
        with self.assertRaisesRegex(cli.Problem, "was not timed with this variant at this size"):
            table.operand(results, "7.4.a.8192.factor")
        with self.assertRaisesRegex(cli.Problem, "neither a number nor exercise.variant.size.key"):
            table.operand(results, "7.a.8192.factor")
        with self.assertRaisesRegex(cli.Problem, 'no key "speed"'):
            table.operand(results, "7.4.a.8192x8192x512.speed")


if __name__ == "__main__":
    unittest.main()
