"""limits.py: what ROWS selects, what a kernel's PTX says of its tile, and runs against a stand-in for
build/limits that finishes, is interrupted, fails, crashes or hangs. Then build/limits itself, on the
PTX machine, and whether the published limits are of this tree's kernels."""

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).parent)]
import limits  # noqa: E402
from lib.tables.limits import ROW_KEYS  # noqa: E402
from lib import cli  # noqa: E402
from lib.tools import toolkit  # noqa: E402
from listing import listing  # noqa: E402

ENTRIES = [
    {"name": "wide", "group": "tensor", "data": "normal", "what": "a wide one", "kernel": "k_wide"},
    {"name": "narrow", "group": "tensor", "data": "normal", "what": "a narrow one", "kernel": "k_narrow"},
    {"name": "ram", "group": "dram", "data": "normal", "what": "x", "kernel": "k_ram"},
]
ENV = {"gpu": "NVIDIA H200", "driver": "1.2", "toolkit": "13.0.88", "sms": 132, "l2_bytes": 62914560}

# Obeys plan.json: {"hang"/"crash"/"wrong": row text, "rc": exit code of a measurement}. Appends the
# rows that it was given to given.txt.
FAKE = """#!{python}
import json, sys
from pathlib import Path
here = Path({here!r})
plan = json.loads((here / "plan.json").read_text())
if sys.argv[1] == "--list":
    sys.stdout.write((here / "list.txt").read_text())
    sys.exit(0)
if plan.get("rc"):
    print("No NVIDIA driver was found.", file=sys.stderr)
    sys.exit(plan["rc"])
say = lambda event: print(json.dumps(event), flush=True)
say({{"env": plan["env"]}})
if sys.argv[1] == "--env":
    sys.exit(0)
rc = 0
for row in sys.argv[1:]:
    with (here / "given.txt").open("a") as file:
        file.write(row + "\\n")
    say({{"running": row}})
    if row == plan.get("crash"):
        print("FAIL: an illegal address", file=sys.stderr)
        sys.exit(1)
    if row == plan.get("hang"):
        print("HANG: " + row, file=sys.stderr)
        sys.exit(4)
    name, regime = row.split("/")
    bad = row == plan.get("wrong")
    rc |= bad
    say({{"name": name, "regime": regime, "what": "x", "group": "tensor", "data": "normal",
         "unit": "TFLOPS", "per_clock_unit": "FLOP/clk/SM", "value": None if bad else plan["value"],
         "per_clock": None if bad else 4096.0, "sm_mhz": None if bad else 1600.0,
         "verified": not bad, **({{"error": "3 wrong"}} if bad else {{}})}})
sys.exit(rc)
"""
KERNEL = ".visible .entry k_{0}()\n{{\n  {1}\n}}\n"
# The variant `one`; a chooser, which has no tile of its own; and a configuration.
LADDER_LIST = listing([
    {"stage": 5, "variant": "one", "result": 1, "cluster_m": 2, "kernel": "k_one"},
    {"stage": 6, "variant": "auto", "result": 1, "kernel": None, "chooses": 1},
    {"stage": 6, "variant": "small", "bm": 64, "bn": 32, "cluster_n": 2, "kernel": "k_one",
     "configuration": 1},
])  # fmt: skip


class Select(unittest.TestCase):
    def texts(self, rows):
        return [limits.row_text(row) for row in limits.select(rows, ENTRIES)]

    def test_all_burst_first_in_the_order_of_the_list(self):
        every = [f"{name}/{regime}" for regime in ("burst", "sustained")
                 for name in ("wide", "narrow", "ram")]  # fmt: skip
        self.assertEqual(self.texts(""), every)
        self.assertEqual(self.texts("*"), every)
        self.assertEqual(self.texts("ram,wide,narrow,ram/burst"), every)

    def test_some(self):
        self.assertEqual(self.texts("ram"), ["ram/burst", "ram/sustained"])
        self.assertEqual(self.texts("*w*/sustained"), ["wide/sustained", "narrow/sustained"])
        self.assertEqual(self.texts("ram/burst narrow/burst"), ["narrow/burst", "ram/burst"])

    def test_refusals_say_what_there_is(self):
        for rows, said in {
            "rum": "there is no limit 'rum', only wide, narrow, ram; did you mean ram?",
            "ram/brst": "the regime 'brst' of 'ram/brst' must be burst or sustained; did you mean burst?",
            "ram,": "there is no limit ''",
        }.items():
            with self.assertRaises(cli.Problem) as refused:
                limits.select(rows, ENTRIES)
            self.assertIn(said, str(refused.exception))
            self.assertEqual(refused.exception.code, 2)


class Instruction(unittest.TestCase):
    WGMMA = "wgmma.mma_async.sync.aligned.m64n{0}k16.f32.bf16.bf16 {{%f1, %f2}}, {1}, %rd2, p, 1, 1;\n"

    def test_wgmma_reads_both_operands_or_only_b(self):
        name, read = limits.instruction(self.WGMMA.format(256, "%rd1") * 4)
        self.assertEqual((name, read), ("wgmma n256", (2048 + 8192) / (2 * 64 * 256 * 16)))
        name, read = limits.instruction(self.WGMMA.format(64, "{%r1, %r2, %r3, %r4}"))
        self.assertEqual((name, read), ("wgmma n64", 2048 / (2 * 64 * 64 * 16)))

    def test_mma_sync_reads_what_ldmatrix_does(self):
        ptx = (limits.LDMATRIX + ".shared.b16 {};\n") * 8 + (limits.WARP_MMA + ".row.col;\n") * 32
        self.assertEqual(limits.instruction(ptx), ("mma.sync", 1 / 32))

    def test_otherwise_it_is_fma(self):
        self.assertEqual(limits.instruction("fma.rn.f32 %f1, %f2, %f3, %f1;"), ("fma", None))


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = Path(folder.name)
        (self.here / "list.txt").write_text(json.dumps(ENTRIES))
        for name in ("ptx", "stages", "results"):
            (self.here / name).mkdir()
        for name in ("wide", "narrow", "ram"):
            self.kernel(name, "ret;")
        self.stage("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p;")
        self.script("limits", FAKE.format(python=sys.executable, here=str(self.here)))
        self.script("ladder", f"#!/bin/sh\nprintf '%s' '{LADDER_LIST}'\n")
        self.plan()

    def script(self, name, text):
        path = self.here / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def kernel(self, name, body):
        (self.here / f"ptx/{name}.ptx").write_text(KERNEL.format(name, body))

    def stage(self, body):
        ptx = KERNEL.format("one", body)
        (self.here / "stages/05_rung.ptx").write_text(ptx)
        hashes = limits.kernel_hashes(ptx)
        (self.here / "stages/hashes.json").write_text(json.dumps(hashes))

    def plan(self, **plan):
        (self.here / "plan.json").write_text(json.dumps({"env": ENV, "value": 800.0, **plan}))

    def main(self, *arguments):
        """(exit code, what was printed)"""
        paths = {"program": "limits", "ptx": "ptx", "ladder": "ladder",
                 "hashes": "stages/hashes.json", "results": "results", "partial": "partial"}  # fmt: skip
        options = [f"--{name}={self.here / path}" for name, path in paths.items()]
        out = StringIO()
        with mock.patch.object(sys, "argv", ["limits.py", *options, *arguments]):
            with redirect_stdout(out), redirect_stderr(out):
                code = limits.main()
        return code, out.getvalue()

    def given(self):
        path = self.here / "given.txt"
        rows = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return rows

    def published(self):
        return json.loads((self.here / "results/h200.limits.json").read_text())

    def values(self):
        return {limits.row_text(limits.row_of(r)): r["value"] for r in self.published()["limits"]}

    def test_all_is_published_with_the_rungs_tiles(self):
        code, printed = self.main()
        self.assertEqual(code, 0, printed)
        self.assertEqual(len(self.given()), 6)
        document = self.published()
        self.assertEqual([document[key] for key in ENV], list(ENV.values()))
        self.assertEqual(len(document["limits"]), 6)
        names = [(tile["stage"], tile["variant"]) for tile in document["tiles"]]
        self.assertEqual(names, [(5, "one"), (6, "small")])  # a chooser has no tile
        tile = document["tiles"][0]
        self.assertEqual([tile[key] for key in ("bm", "bn", "cluster_m")], [128, 256, 2])
        self.assertEqual(tile["instruction"], "wgmma n256")
        self.assertIn("[6/6] ram/sustained", printed)
        self.assertIn("about 0:00 left", printed)
        self.assertFalse((self.here / "partial/h200.partial.jsonl").exists())

    def test_a_selection_keeps_the_other_rows(self):
        self.main()
        self.plan(value=900.0)
        self.given()
        self.assertEqual(self.main("--rows=ram/burst")[0], 0)
        self.assertEqual(self.given(), ["ram/burst"])
        values = self.values()
        self.assertEqual((values.pop("ram/burst"), set(values.values())), (900.0, {800.0}))

    def test_rows_of_another_machine_are_dropped(self):
        self.main()
        self.plan(env={**ENV, "driver": "1.3"})
        code, printed = self.main("--rows=ram/burst")
        self.assertEqual(code, 0)
        self.assertIn("with another machine or versions; its rows are dropped", printed)
        self.assertEqual(list(self.values()), ["ram/burst"])

    def test_only_rows_whose_kernel_has_changed_are_dropped(self):
        self.main()
        self.kernel("narrow", "trap;")
        self.plan(value=900.0)
        code, printed = self.main("--rows=ram/burst")
        self.assertEqual(code, 0)
        self.assertIn("0 failed, 2 earlier ones dropped. Next", printed)
        self.assertIn("their kernel is another today: narrow/burst, narrow/sustained.", printed)
        kept = {"wide/burst": 800.0, "ram/burst": 900.0, "wide/sustained": 800.0,
                "ram/sustained": 800.0}  # fmt: skip
        self.assertEqual(self.values(), kept)

    def test_a_kernel_that_changed_while_a_run_was_stopped_is_measured_again(self):
        real = limits.Limits.take

        def stop(self, result):
            real(self, result)
            raise KeyboardInterrupt

        with mock.patch.object(limits.Limits, "take", stop):
            self.assertEqual(self.main()[0], 130)
        self.kernel("wide", "trap;")
        self.given()
        self.main()
        self.assertIn("wide/burst", self.given())

    def test_a_list_whose_kernels_are_not_built_is_refused(self):
        (self.here / "ptx/ram.ptx").unlink()
        code, printed = self.main()
        self.assertEqual(code, 2)
        self.assertIn("has no kernel k_ram; make limits builds it.", printed)
        self.assertEqual(self.given(), [])

    def test_a_stopped_run_goes_on_where_it_was(self):
        real = limits.Limits.take

        def stop_after_two(self, result):
            real(self, result)
            if len(self.results) == 2:
                raise KeyboardInterrupt

        with mock.patch.object(limits.Limits, "take", stop_after_two):
            code, printed = self.main()
        self.assertEqual(code, 130)
        self.assertIn("Stopped. 2 rows are kept", printed)
        self.assertFalse((self.here / "results/h200.limits.json").exists())
        with (self.here / "partial/h200.partial.jsonl").open("a") as file:
            file.write('{"key": {"gp')  # a line that was cut off
        self.given()
        code, printed = self.main()
        self.assertEqual(code, 0)
        self.assertIn("4 rows, about", printed)
        self.assertIn("2 more are there", printed)
        self.assertEqual(len(self.given()), 4)
        self.assertEqual(len(self.values()), 6)

    def test_a_wrong_kernel_has_no_number_and_is_1(self):
        self.plan(wrong="narrow/burst")
        code, printed = self.main()
        self.assertEqual(code, 1)
        self.assertIn("FAIL narrow/burst: 3 wrong", printed)
        self.assertIsNone(self.values()["narrow/burst"])
        self.assertEqual(len(self.values()), 6)

    def test_a_crash_or_hang_is_the_row_s_and_the_others_are_measured(self):
        for how, expected, said in (("crash", 1, "an illegal address"), ("hang", 4, "HANG")):
            self.plan(**{how: "narrow/burst"})
            code, printed = self.main()
            self.assertEqual(code, expected, printed)
            self.assertIn("FAIL narrow/burst", printed)
            self.assertIn(said, printed)
            values = self.values()
            self.assertIsNone(values.pop("narrow/burst"))
            self.assertEqual(set(values.values()), {800.0})
            wrong = [row for row in self.published()["limits"] if not row["verified"]]
            self.assertTrue(set(ROW_KEYS) <= set(wrong[0]))  # make tables reads it

    def test_no_device_is_3_in_the_program_s_words(self):
        self.plan(rc=3)
        code, printed = self.main()
        self.assertEqual((code, printed), (3, "No NVIDIA driver was found.\n"))

    def test_a_broken_file_is_refused_before_anything_is_measured(self):
        (self.here / "results/h200.limits.json").write_text('{"limits": 3}')
        code, printed = self.main()
        self.assertEqual(code, 2)
        self.assertIn("is not a file of limits", printed)
        self.assertEqual(self.given(), [])

    def test_tiles_alone_need_no_gpu_and_keep_the_rows(self):
        self.assertEqual(self.main("--tiles")[0], 2)  # no file yet
        self.main()
        before = self.published()
        self.stage("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p;")
        self.plan(rc=3)
        self.assertEqual(self.main("--tiles")[0], 0)
        after = self.published()
        self.assertEqual(after["tiles"][0]["instruction"], "wgmma n128")
        self.assertNotEqual(after["tiles"][0]["kernel_hash"], before["tiles"][0]["kernel_hash"])
        self.assertEqual(after["limits"], before["limits"])


@unittest.skipUnless((ROOT / "build/limits").exists(), "build/limits is not built")
class Program(unittest.TestCase):
    def run_limits(self, *arguments, **env):
        return subprocess.run(
            [ROOT / "build/limits", *arguments], env={**os.environ, **env}, cwd=ROOT,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip

    @unittest.skipUnless((ROOT / "build/machine").exists(), "the PTX machine is not built")
    def test_every_kernel_is_right_and_clean_on_the_machine(self):
        names = [entry["name"] for entry in json.loads(self.run_limits("--list").stdout)]
        self.assertGreater(len(names), 20)
        for policy in ("eager", "lazy", "random"):
            ended = self.run_limits("--check-only", LADDER_DEVICE="machine", MACHINE_POLICY=policy)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            said = [json.loads(line) for line in ended.stdout.splitlines()]
            right = [event["name"] for event in said if event.get("verified")]
            self.assertEqual(right, names)

    @unittest.skipUnless((ROOT / "build/machine").exists(), "the PTX machine is not built")
    def test_places_of_plain_and_cluster_launches(self):
        ended = self.run_limits("--places", LADDER_DEVICE="machine", MACHINE_SMS="6")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("  A, 6 SMs: 0 1 2 3 4 5\n", ended.stdout)
        self.assertRegex(ended.stdout, r"plain launch, .*\n  A{6}\n  neighbours in one GPC: 1.00;")
        self.assertEqual(len(re.findall(r"^clusters of \d", ended.stdout, re.MULTILINE)), 3)

    def test_nothing_is_timed_on_the_machine(self):
        ended = self.run_limits("fma", LADDER_DEVICE="machine")
        self.assertEqual((ended.returncode, ended.stdout), (3, ""))
        self.assertIn("--check-only", ended.stderr)

    def test_refusals(self):
        for arguments, said in {
            ("fmma",): "There is no limit 'fmma', only .*; did you mean fma",
            ("fma/brst",): "the regime 'brst' .* did you mean burst",
            ("--chek-only",): "There is no option '--chek-only', .* did you mean --check-only",
            ("--list", "--env"): "--env stands beside another",
        }.items():
            ended = self.run_limits(*arguments)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""))
            self.assertRegex(ended.stderr, said)
            self.assertEqual(len(ended.stderr.splitlines()), 1)


class Published(unittest.TestCase):
    def test_they_are_of_the_kernels_of_this_tree(self):
        paths = [p for p in (ROOT / "docs/results").glob("*.limits.json") if "-" not in p.name]
        built = [ROOT / "build/limits", ROOT / "build/ladder", ROOT / "build/ptx/hashes.json"]
        if not paths or not all(path.exists() for path in built):
            self.skipTest("docs/results has no limits, or build/limits or build/ladder is not built")
        for path in paths:
            document = limits.read_file(path)
            if document["toolkit"] != toolkit():
                self.skipTest(f"nvcc here is not {document['toolkit']}, which {path.name} is from")
            listed = subprocess.run([built[0], "--list"], stdout=subprocess.PIPE, text=True, check=True)
            entries = json.loads(listed.stdout)
            hashes = limits.hashes_of(entries, ROOT / "build/obj/common/limits")
            others = [row for row in document["limits"] if not limits.holds(row, hashes)]
            self.assertEqual([limits.row_text(limits.row_of(row)) for row in others], [],
                             "run make limits with these ROWS")  # fmt: skip
            tiles = limits.tiles(str(built[1]), built[2])
            self.assertEqual(document["tiles"], tiles, "run python3 scripts/limits.py --tiles")


if __name__ == "__main__":
    unittest.main()
