"""bench.py: what ROWS selects, and runs against a stand-in for build/ladder that finishes, is
interrupted, fails, crashes or hangs."""

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

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).parent)]
import bench  # noqa: E402
from lib import cli, shape_lists, store  # noqa: E402
from lib.rows import groups, parse_row, row_name, row_of, row_text, select  # noqa: E402
from listing import listing  # noqa: E402

# Rung 1: small, large*; rung 5: bn128, bn256*; rung 6: one*.
VARIANTS = [(1, "small", 0), (1, "large", 1), (5, "bn128", 0), (5, "bn256", 1), (6, "one", 1)]
# Stage 0: best*, best_no_workspace, which choose among all; only where a test asks for them.
BEST = [(0, "best", 1), (0, "best_no_workspace", 0)]
# Rung 11: auto*, which chooses among tall and wide; only where a test asks for them.
CHOOSING = [(11, "auto", 1), (11, "tall", 0), (11, "wide", 0)]

# Groups rows as build/ladder does and obeys plan.json: {"hang"/"crash"/"wrong": row text, "rc":
# exit code of --bench-rows, "pick": what auto chooses}. Appends the rows that it was given to
# given.txt.
FAKE = """#!{python}
import itertools, json, sys
from pathlib import Path
here = Path({here!r})
plan = json.loads((here / "plan.json").read_text())
if sys.argv[1] == "--list":
    sys.stdout.write((here / "list.txt").read_text())
    sys.exit(0)
chooses = lambda variant: variant == "auto" or variant.startswith("best")
ran = lambda variant: plan["pick"] if chooses(variant) else variant
kernel = lambda stage, variant: "k_" + (
    ran(variant).replace("_rung/", "_") if "/" in ran(variant) else stage + "_" + ran(variant))
if sys.argv[1] == "--choices":
    for line in sys.stdin.read().splitlines():
        stage, variant = line.split()[:2]
        print(json.dumps({{"row": line, "configuration": ran(variant) if chooses(variant) else None,
                          "kernel": kernel(stage, variant)}}))
    sys.exit(0)
if plan.get("rc"):
    print("No NVIDIA driver was found.", file=sys.stderr)
    sys.exit(plan["rc"])
say = lambda event: print(json.dumps(event), flush=True)
say({{"env": plan["env"]}})
groups, apart = [], True
for line in sys.stdin.read().splitlines():
    if not line:
        apart = True
        continue
    with (here / "given.txt").open("a") as file:
        file.write(line + "\\n")
    key = (line.split()[0], line.split()[2:])
    if apart or groups[-1][0] != key:
        groups.append((key, []))
    groups[-1][1].append(line)
    apart = False
rc = 0
for _, rows in groups:
    say({{"running": []}})
    for row in rows:
        say({{"running": [row]}})
        if row == plan.get("crash"):
            print("FAIL: an illegal address", file=sys.stderr)
            sys.exit(1)
    say({{"running": rows}})
    if plan.get("hang") in rows:
        print("HANG: " + rows[0], file=sys.stderr)
        sys.exit(4)
    for row in rows:
        stage, variant, m, n, k, regime, *args = row.split()
        bad = row == plan.get("wrong")
        rc |= bad
        say({{"stage": int(stage), "name": "0" + stage + "_rung", "variant": variant,
             "result": variant in ("large", "bn256", "one", "auto", "best"),
             "configuration": ran(variant) if chooses(variant) else None,
             "m": int(m), "n": int(n), "k": int(k),
             "args": ",".join(sorted(args[0].split(","))) if args else "",
             "regime": regime, "tflops": None if bad else plan.get("tflops", 700.0),
             "ratio": None if bad or plan.get("refused") else 0.9, "verified": not bad,
             "kernel": kernel(stage, variant), **({{"error": "3 wrong"}} if bad else {{}})}})
sys.exit(rc)
"""
ENV = {
    "gpu": "NVIDIA H200", "driver": "1.2", "toolkit": "13.0.88", "cublas": "13.1.0", "sms": 132,
    "l2_bytes": 62914560, "data": "normal", "seed": 1,
}  # fmt: skip


def variants(which=VARIANTS):
    return [
        {"stage": s, "variant": v, "result": bool(r), "configuration": v in ("tall", "wide"),
         "simt": s == 1}
        for s, v, r in which
    ]


def selected(rows, which=VARIANTS):
    return [row_name(row) for row in select(rows, variants(which))]


class Select(unittest.TestCase):
    def test_everything_by_default(self):
        names = selected("")
        # Rung 1: 2 variants at one size; the others: 3 variants at 3 sizes; both regimes.
        self.assertEqual(len(names), 2 * (2 * 1 + 3 * 3))
        self.assertEqual(len(set(names)), len(names))
        self.assertNotIn("1:small@4096/burst", names)

    def test_burst_comes_first_then_smaller_shapes(self):
        names = selected("5:bn256,6")
        self.assertEqual(
            names[:3], ["5:bn256@2048/burst", "6:one@2048/burst", "5:bn256@4096/burst"]
        )
        self.assertEqual(names[6], "5:bn256@2048/sustained")

    def test_selectors(self):
        self.assertEqual(
            selected("*:result@2048/burst"),
            ["1:large@2048/burst", "5:bn256@2048/burst", "6:one@2048/burst"],
        )
        self.assertEqual(
            selected("5-9:result@8192/burst"), selected("5:bn256@8192/burst,6@8192/burst")
        )
        self.assertEqual(selected("6@4096x7168x2048/sustained"), ["6:one@4096x7168x2048/sustained"])
        self.assertEqual(selected("/burst"), [n for n in selected("") if n.endswith("/burst")])
        self.assertEqual(selected("5 6"), selected("5,6"))
        self.assertEqual(len(selected("6@tuning/burst")), 27)
        self.assertEqual(len(selected("6@heldout/burst")), 25)

    def test_arguments_of_a_variant_that_takes_no_others(self):
        listed = [{**v, "args": "scales=tensor"} if v["stage"] == 6 else v for v in variants()]
        self.assertEqual([row_name(row) for row in select("5-6:result@4096/burst", listed)],
                         ["5:bn256@4096/burst", "6:one(scales=tensor)@4096/burst"])  # fmt: skip

    def test_arguments_of_a_rung_that_has_some(self):
        rows = select("6(type=fp16+layout=NT)@4096/burst,6@4096/burst", variants())
        self.assertEqual([row_name(row) for row in rows],
                         ["6:one@4096/burst", "6:one(type=fp16+layout=NT)@4096/burst"])  # fmt: skip
        self.assertEqual([row_text(row) for row in rows],
                         ["6 one 4096 4096 4096 burst",
                          "6 one 4096 4096 4096 burst type=fp16,layout=NT"])  # fmt: skip
        for row in rows:
            self.assertEqual(parse_row(row_text(row)), row)
            self.assertEqual(row_of(row._asdict()), row)
        self.assertEqual(len(groups(rows)), 2)  # another problem, another cuBLASLt
        without = {key: value for key, value in rows[0]._asdict().items() if key != "args"}
        self.assertEqual(row_of(without), rows[0])  # a row from before there were any

    def test_configurations_are_measured_only_where_they_are_named(self):
        many = VARIANTS + CHOOSING
        self.assertEqual([n for n in selected("", many) if ":tall" in n or ":wide" in n], [])
        self.assertEqual(selected("11@4096/burst", many), ["11:auto@4096/burst"])
        self.assertEqual(
            selected("11:*@4096/burst", many),
            ["11:auto@4096/burst", "11:tall@4096/burst", "11:wide@4096/burst"],
        )
        self.assertEqual(selected("11:wide@4096/burst", many), ["11:wide@4096/burst"])

    def test_stage_0_is_measured_only_where_it_is_named(self):
        many = BEST + VARIANTS
        for rows in ("", "*:result", "@4096", "*:*"):
            self.assertFalse([n for n in selected(rows, many) if n.startswith("0:")], rows)
        self.assertEqual(
            selected("0@4096/burst", many), ["0:best@4096/burst", "0:best_no_workspace@4096/burst"]
        )
        self.assertEqual(len(selected("0:best_no_workspace@decode", many)), 12)

    def test_drawn_shapes_run_in_burst_unless_a_regime_is_named(self):
        everything = selected("0:best@all", BEST)
        burst = [name for name in everything if name.endswith("/burst")]
        sustained = [name for name in everything if name.endswith("/sustained")]
        self.assertEqual((len(burst), len(sustained)), (60 + 27 + 25, 27 + 25))
        self.assertEqual(
            set(sustained), set(selected("0:best@tuning/sustained,0:best@heldout/sustained", BEST))
        )
        self.assertEqual(len(selected("0:best@all/sustained", BEST)), 60 + 27 + 25)

    def test_nobody_tunes_for_the_held_out_shapes(self):
        held_out = shape_lists.HELDOUT_SHAPES
        self.assertEqual(len(set(held_out)), len(held_out))
        self.assertEqual(set(held_out) & set(shape_lists.TUNING_SHAPES), set())
        self.assertLessEqual({1, 8, 16, 32, 256, 512, 1024, 2048, 8192}, {m for m, _, _ in held_out})

    def test_rung_1_runs_at_2048_unless_named_with_a_shape(self):
        self.assertEqual(selected("1:large/burst"), ["1:large@2048/burst"])
        self.assertEqual(selected("1:large@4096/burst"), ["1:large@4096/burst"])
        self.assertNotIn("1:large@4096/burst", selected("@4096"))

    def test_what_selects_nothing_is_refused_with_a_hint(self):
        for rows, hint in {
            "7": "the rungs are 1, 5, 6",
            "x": "the rungs are 1, 5, 6",
            "5:bn265": "did you mean bn256?",
            "5@big": "MxNxK, tuning, heldout, rounds, between, long_k, decode, ragged, classes or all",
            "5@long": "did you mean long_k?",
            "5@held": "did you mean heldout?",
            "5@0": "MxNxK",
            "5@٤": "MxNxK",
            "5@" + "9" * 5000: "MxNxK",
            "9" * 5000: "the rungs are 1, 5, 6",
            "٥": "the rungs are 1, 5, 6",
            "5@4096x4096": "MxNxK",
            "5/bursts": "burst or sustained",
            "5,,6": "RUNG[:VARIANT]",
            "5:": "RUNG[:VARIANT]",
        }.items():
            with self.subTest(rows), self.assertRaises(cli.Problem) as raised:
                selected(rows)
            self.assertIn(hint, str(raised.exception), rows)
            self.assertEqual(raised.exception.code, cli.REFUSED)

    def test_time_left_grows_with_the_rows(self):
        rows = select("5", variants())
        self.assertGreater(bench.Bench.expected_s(rows), bench.Bench.expected_s(rows[1:]))
        self.assertEqual(bench.Bench.expected_s([]), 0)

    def test_the_default_run_of_forty_variants_takes_less_than_8_minutes(self):
        many = [
            {"stage": s, "variant": f"{s}{v}", "result": v == 0, "configuration": s == 11 and v > 1,
             "simt": s == 1}
            for s in range(1, 12)
            for v in range(20 if s == 11 else 4)
        ]
        self.assertLess(bench.Bench.expected_s(select("", many)), 8 * 60)


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.program = self.root / "ladder"
        self.program.write_text(FAKE.format(python=sys.executable, here=str(self.root)))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self.register(VARIANTS)
        self.plan()

    def register(self, which):
        variants = [
            {"stage": s, "variant": v, "result": r,
             "kernel": None if v == "auto" or s == 0 else f"k_{s}_{v}",
             "configuration": v in ("tall", "wide"), "chooses": v == "auto" or s == 0, "simt": s == 1}
            for s, v, r in which
        ]  # fmt: skip
        (self.root / "list.txt").write_text(listing(variants))
        self.hashes = {f"k_{s}_{v}": f"hash {s} {v}" for s, v, _ in which}

    def plan(self, **plan):
        (self.root / "plan.json").write_text(json.dumps({"env": ENV, **plan}))

    def bench(self, rows="5,6@2048", **environment):
        """(exit code, stdout, stderr)."""
        (self.root / "given.txt").write_text("")
        (self.root / "hashes.json").write_text(json.dumps(self.hashes))
        arguments = ["bench.py", f"--rows={rows}", f"--program={self.program}"]
        arguments.append(f"--hashes={self.root}/hashes.json")
        arguments += [f"--results={self.root}/results", f"--partial={self.root}/partial"]
        out, err = StringIO(), StringIO()
        with mock.patch.object(sys, "argv", arguments), mock.patch.dict(
            os.environ, {"REVISION": "abc", **environment}
        ), redirect_stdout(out), redirect_stderr(err):
            code = bench.main()
        return code, out.getvalue(), err.getvalue()

    def given(self):
        return (self.root / "given.txt").read_text().splitlines()

    def document(self):
        return json.loads((self.root / "results/h200.json").read_text())

    def published(self):
        return {row_name(row_of(row)): row for row in self.document()["rows"]}

    def partial_lines(self):
        path = self.root / "partial/h200.partial.jsonl"
        return path.read_text().splitlines() if path.exists() else []

    def test_a_full_run_is_published(self):
        code, out, _ = self.bench(rows="")
        self.assertEqual(code, 0)
        document = self.document()
        self.assertEqual(len(document["rows"]), 22)
        self.assertEqual({key: document[key] for key in ENV}, ENV)
        self.assertEqual(document["revision"], "abc")
        self.assertRegex(document["date"], r"^\d{4}-\d\d-\d\d$")
        row = self.published()["5:bn256@8192/sustained"]
        self.assertEqual(row["kernel_hash"], "hash 5 bn256")
        self.assertEqual(self.partial_lines(), [])
        self.assertIn("[22/22]", out)
        self.assertIn("left", out)
        # One row a line, in order of rungs, so that a new run is a readable diff.
        lines = (self.root / "results/h200.json").read_text().splitlines()
        self.assertEqual(sum('"stage"' in line for line in lines), 22)
        stages = [row["stage"] for row in document["rows"]]
        self.assertEqual(stages, sorted(stages))

    def test_parameters_in_another_order_than_the_programs_are_refused(self):
        code, out, _ = self.bench(rows="5:bn256(groups=8+type=e4m3)@2048/burst")
        self.assertEqual((code, "1 rows measured" in out), (0, True))
        code, _, err = self.bench(rows="5:bn256(type=e4m3+groups=8)@4096/burst")
        self.assertEqual(code, 2)
        self.assertEqual(err, "5:bn256(groups=8+type=e4m3)@4096/burst was measured, and not asked for: a row's "
                              "parameters stand in the program's order, which is this one.\n")  # fmt: skip

    def test_an_interrupted_run_goes_on_where_it_was(self):
        taken = []

        def stop(self_, row, result):
            taken.append(row)
            if len(taken) == 3:
                raise KeyboardInterrupt

        with mock.patch.object(bench.Bench, "show_result", stop):
            code, out, _ = self.bench(rows="5@2048")
        self.assertEqual(code, cli.STOPPED)
        self.assertIn("Stopped. 3 rows are kept", out)
        self.assertFalse((self.root / "results").exists())
        code, out, _ = self.bench(rows="5@2048")
        self.assertEqual(code, 0)
        self.assertEqual(self.given(), ["5 bn256 2048 2048 2048 sustained"])
        self.assertEqual(len(self.published()), 4)
        self.assertEqual(self.partial_lines(), [])

    def stopped(self):
        """A run of two rows that have not been published."""
        with mock.patch.object(bench, "publish", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.bench(rows="5@2048/burst")

    def test_rows_of_another_machine_or_versions_are_measured_again(self):
        self.stopped()
        for key, other in (("driver", "1.3"), ("seed", 2), ("sms", 114)):
            self.plan(env={**ENV, key: other})
            self.stopped()
            self.assertEqual(len(self.given()), 2, key)
        self.assertEqual(self.bench(rows="5@2048/burst")[0], 0)
        self.assertEqual(self.given(), [])

    def test_a_row_cut_short_and_rows_of_old_kernels_are_measured_again(self):
        self.stopped()
        path = self.root / "partial/h200.partial.jsonl"
        self.assertEqual(len(self.partial_lines()), 2)
        line = json.loads(path.read_text().splitlines()[0])
        old = [{k: v for k, v in line["row"].items() if k != key}
               for key in ("verified", "kernel_hash")]  # fmt: skip
        for row in ({"stage": 5}, None, 3, *old):
            path.write_text(json.dumps({**line, "row": row}) + "\n" + path.read_text())
        path.write_text("3\n" + path.read_text() + '{"env": {"gpu"')
        self.hashes["k_5_bn128"] = "changed"
        self.assertEqual(self.bench(rows="5@2048/burst")[0], 0)
        self.assertEqual(self.given(), ["5 bn128 2048 2048 2048 burst"])

    def test_other_rows_stay_while_their_kernel_and_machine_do(self):
        self.bench(rows="5,6@2048/burst")
        self.plan(tflops=710.0)
        self.hashes["k_5_bn128"] = "changed"
        self.assertEqual(self.bench(rows="6@2048/burst")[0], 0)
        rows = self.published()
        self.assertEqual(rows["6:one@2048/burst"]["tflops"], 710.0)
        self.assertEqual(rows["5:bn256@2048/burst"]["tflops"], 700.0)
        self.assertNotIn("5:bn128@2048/burst", rows)
        self.plan(env={**ENV, "cublas": "14.0.0"})
        _, out, _ = self.bench(rows="6@2048/burst")
        self.assertEqual(list(self.published()), ["6:one@2048/burst"])
        self.assertIn("another machine or versions", out)

    def test_a_choosers_row_is_that_of_the_kernel_it_chose(self):
        self.register(VARIANTS + CHOOSING)
        self.plan(pick="wide")
        code, out, _ = self.bench(rows="11@2048/burst")
        self.assertEqual(code, 0)
        self.assertIn("% of cuBLASLt, wide;", out)
        (row,) = self.document()["rows"]
        self.assertEqual((row["configuration"], row["kernel_hash"]), ("wide", "hash 11 wide"))


    def test_a_shape_that_cublaslt_refuses(self):
        self.plan(refused=True)
        code, out, _ = self.bench(rows="5:result@2048/burst")
        self.assertEqual(code, 0)
        self.assertIn("700.0 TFLOPS, cuBLASLt refuses the shape;", out)

    def test_a_choosers_row_stays_while_its_choice_does(self):
        self.register(VARIANTS + CHOOSING)
        self.plan(pick="wide")
        self.bench(rows="11@2048/burst")
        self.plan(pick="wide", tflops=710.0)
        self.bench(rows="6@2048/burst")
        self.assertIn("11:auto@2048/burst", self.published())
        self.plan(pick="tall", tflops=710.0)
        _, out, _ = self.bench(rows="6@2048/burst")
        self.assertNotIn("11:auto@2048/burst", self.published())
        self.assertTrue(out.endswith(
            " 1 rows measured, 0 failed, 1 earlier ones dropped. Next: make tables.\n"
            "Dropped, since their kernel is another today: 11:auto@2048/burst.\n"), out)  # fmt: skip
        self.assertNotIn("ropped", self.bench(rows="6@2048/burst")[1])

    def test_a_row_of_stage_0_is_that_of_the_rung_and_variant_it_chose(self):
        self.register(BEST + VARIANTS + CHOOSING)
        self.plan(pick="11_rung/wide")
        code, out, _ = self.bench(rows="0@2048/burst")
        self.assertEqual(code, 0)
        self.assertIn("% of cuBLASLt, 11_rung/wide;", out)
        rows = self.published()
        self.assertEqual(set(rows), {"0:best@2048/burst", "0:best_no_workspace@2048/burst"})
        for row in rows.values():
            self.assertEqual(row["configuration"], "11_rung/wide")
            self.assertEqual(row["kernel_hash"], "hash 11 wide")
        self.bench(rows="6@2048/burst")  # it stays while its choice and kernel do
        self.assertIn("0:best@2048/burst", self.published())
        self.hashes["k_11_wide"] = "changed"
        self.bench(rows="6@2048/burst")
        self.assertNotIn("0:best@2048/burst", self.published())

    def test_rows_of_stage_0_are_dropped_with_their_choice(self):
        self.register(BEST + VARIANTS + CHOOSING)
        self.plan(pick="11_rung/wide")
        self.bench(rows="0@2048/burst")
        self.plan(pick="5_rung/bn128")
        self.bench(rows="6@2048/burst")
        self.assertNotIn("0:best@2048/burst", self.published())

    def test_rows_of_stage_0_go_on_where_they_were(self):
        self.register(BEST + VARIANTS + CHOOSING)
        self.plan(pick="11_rung/wide")
        with mock.patch.object(bench, "publish", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.bench(rows="0@2048/burst")
        self.assertEqual(self.bench(rows="0@2048")[0], 0)
        self.assertEqual(
            self.given(),
            ["0 best 2048 2048 2048 sustained", "0 best_no_workspace 2048 2048 2048 sustained"],
        )

    def test_a_stopped_run_takes_rows_of_another_choice_again(self):
        self.register(VARIANTS + CHOOSING)
        self.plan(pick="wide")
        with mock.patch.object(bench, "publish", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.bench(rows="11:auto@2048,11:tall@2048")
        self.plan(pick="wide")
        with mock.patch.object(bench, "publish", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                self.bench(rows="11:auto@2048,11:tall@2048")
        self.assertEqual(self.given(), [])
        self.plan(pick="tall")
        self.assertEqual(self.bench(rows="11:auto@2048,11:tall@2048")[0], 0)
        self.assertEqual(
            self.given(), ["11 auto 2048 2048 2048 burst", "11 auto 2048 2048 2048 sustained"]
        )

    def test_a_wrong_result_has_no_number_and_exits_1(self):
        self.plan(wrong="5 bn128 2048 2048 2048 burst")
        code, out, _ = self.bench(rows="5@2048/burst")
        self.assertEqual(code, cli.WRONG)
        rows = self.published()
        self.assertFalse(rows["5:bn128@2048/burst"]["verified"])
        self.assertIsNone(rows["5:bn128@2048/burst"]["tflops"])
        self.assertTrue(rows["5:bn256@2048/burst"]["verified"])
        self.assertIn("FAIL 5:bn128@2048/burst: 3 wrong", out)

    def test_a_crash_costs_one_row(self):
        self.plan(crash="5 bn128 2048 2048 2048 burst")
        code, _, _ = self.bench(rows="5,6@2048/burst")
        self.assertEqual(code, cli.WRONG)
        rows = self.published()
        self.assertEqual(rows["5:bn128@2048/burst"]["error"], "an illegal address")
        self.assertEqual(rows["5:bn128@2048/burst"]["kernel_hash"], "hash 5 bn128")
        self.assertEqual(sum(row["verified"] for row in rows.values()), len(rows) - 1)

    def test_a_hang_among_several_rows_is_found_and_the_rest_goes_on(self):
        self.plan(hang="5 bn256 2048 2048 2048 burst")
        code, out, _ = self.bench(rows="5,6@2048/burst")
        self.assertEqual(code, cli.HANG)
        rows = self.published()
        self.assertIn("HANG", rows["5:bn256@2048/burst"]["error"])
        self.assertTrue(rows["5:bn128@2048/burst"]["verified"])
        self.assertTrue(rows["6:one@2048/burst"]["verified"])
        self.assertIn("one by one", out)

    def test_a_line_that_is_no_json_is_quoted_and_a_blank_one_passed_over(self):
        warning = "Warning: " + "x" * 100
        for text, code, said in (("", 0, ""), (warning, cli.WRONG, "'Warning: xxx")):
            self.program.write_text(FAKE.format(python=sys.executable, here=str(self.root)).replace(
                "rc = 0", f"rc = 0\nif groups: print({text!r})"))  # fmt: skip
            ended, _, err = self.bench(rows="5@2048/burst")
            self.assertEqual(ended, code, err)
            self.assertTrue(err.startswith(said), err)
        self.assertIn("is no line of", err)
        self.assertLess(len(err), 200)

    def test_no_device_is_passed_on_with_its_sentence(self):
        self.plan(rc=3)
        code, _, err = self.bench()
        self.assertEqual(code, cli.NO_DEVICE)
        self.assertEqual(err, "No NVIDIA driver was found.\n")

    def test_what_is_not_built_is_said(self):
        self.program.unlink()
        code, _, err = self.bench()
        self.assertEqual(code, cli.REFUSED)
        self.assertIn("builds it", err)

    def test_what_is_no_program_of_the_ladder_is_said(self):
        (self.root / "list.txt").write_text("")
        code, _, err = self.bench()
        self.assertEqual(code, cli.REFUSED)
        self.assertIn("--list is no JSON", err)

    def test_hashes_that_are_none_are_refused(self):
        self.hashes = []
        code, _, err = self.bench()
        self.assertEqual(code, cli.REFUSED)
        self.assertIn("hashes.json cannot be read", err)

    def test_a_kernel_without_a_hash_is_refused(self):
        del self.hashes["k_6_one"]
        code, _, err = self.bench()
        self.assertEqual(code, cli.REFUSED)
        self.assertIn("k_6_one", err)


class Names(unittest.TestCase):
    def test_the_file_is_named_after_the_gpu_without_its_memory_and_without_a_dash(self):
        for gpu, stem in (
            ("NVIDIA H200", "h200"),
            ("NVIDIA H100 80GB HBM3", "h100"),
            ("NVIDIA H100-80GB HBM3", "h100"),
            ("NVIDIA H100 PCIe", "h100_pcie"),
            ("NVIDIA GH200 480GB", "gh200"),
        ):
            self.assertEqual(store.file_stem(gpu), stem)

    def test_a_published_file_is_the_one_that_its_gpu_writes(self):
        for path in sorted((ROOT / "docs/results").glob("*.json")):
            gpu = json.loads(path.read_text(encoding="utf-8")).get("gpu")
            if gpu and "-" not in path.name:
                self.assertEqual(path.name.partition(".")[0], store.file_stem(gpu), path.name)


if __name__ == "__main__":
    unittest.main()
