"""tables.py against a small results file: tables, numbers in prose, the plot, --check."""

import copy
import json
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import tables  # noqa: E402
from lib.results import ENERGY_HEAD_KEYS, ENERGY_NUMBERS  # noqa: E402
from lib.tables import limits, roofline  # noqa: E402

STAGE = """#include <x>
static const ladder::Registrar registrar(__FILE__,
    "tiles in "
    "shared memory", {ladder::Variant{"a"}});
"""


def row(stage, variant, size, regime, tflops, **more):
    base = {
        "stage": stage, "name": f"{stage:02}_name", "problem": "bf16", "variant": variant, "result": variant == "deep",
        "m": size, "n": size, "k": size, "regime": regime, "tflops": tflops, "p10": tflops - 1,
        "p90": tflops + 1, "rounds": 5, "baseline_tflops": 800.0, "baseline_algo": "#3 128x256",
        "ratio": tflops / 800.0, "sm_mhz": 1700, "tensor_share": 0.5, "watts": None,
        "pj_per_flop": None, "registers": "168 -> 40/232", "smem_bytes": 196608, "verified": True,
        "kernel_hash": "0",
    }  # fmt: skip
    return {**base, **more}


RESULTS = {
    "gpu": "Some GPU", "driver": "1.2", "toolkit": "13.0", "cublas": "13.1.0", "revision": "abc",
    "date": "2025-01-01", "data": "normal", "seed": 1,
    "rows": [
        row(1, "deep", 2048, "burst", 12.34),
        row(2, "shallow", 8192, "burst", 400.0),
        row(2, "deep", 8192, "burst", 440.0),
        row(2, "deep", 8192, "sustained", 396.0, tensor_share=None),
        row(2, "deep", 4096, "burst", 420.0, verified=False),
    ],
}  # fmt: skip


def counted(stage, variant, size=8192, **more):
    base = {
        "stage": stage, "name": f"{stage:02}_name", "variant": variant, "result": variant == "deep",
        "m": size, "n": size, "k": size, "cycles": 2000000, "l2_read_bytes": 8290000000,
        "l2_to_sm_bytes": 13200000000, "l2_write_bytes": 134000000, "dram_read_bytes": 2500000000,
        "dram_write_bytes": 132000000, "smem_wavefronts": 168300000, "smem_conflicts": 0,
        "instructions": 151800000, "kernel_hash": "0",
    }  # fmt: skip
    return {**base, **more}


COUNTERS = {
    "gpu": "Some GPU", "driver": "1.2", "toolkit": "13.0", "revision": "abc", "date": "2025-01-01",
    "seed": 1,
    "rows": [
        counted(1, "deep", 2048),
        counted(2, "shallow", l2_read_bytes=16580000000),
        counted(2, "deep"),
        counted(2, "deep", 4096, cycles=7),
    ],
}  # fmt: skip


class Project(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in ("docs/results", "docs/img", "stages"):
            (self.root / name).mkdir(parents=True)
        for stem in ("01_name", "02_name"):
            (self.root / f"stages/{stem}.cu").write_text(STAGE)

    def write(self, name, text):
        (self.root / name).write_text(text, encoding="utf-8")

    def results(self, document=RESULTS, name="gpu.json"):
        self.write(f"docs/results/{name}", json.dumps(document))

    def read(self, name):
        return (self.root / name).read_text(encoding="utf-8")

    def main(self, *arguments):
        """(exit code, what was printed)"""
        out = StringIO()
        with redirect_stdout(out), redirect_stderr(out):
            code = tables.main(["--root", str(self.root), *arguments])
        return code, out.getvalue()

    def regenerated(self, text, name="README.md"):
        self.write(name, text)
        code, printed = self.main()
        self.assertEqual(code, 0, printed)
        return self.read(name)

    def prose(self, expression):
        text = self.regenerated(f"It is <!-- value: {expression} -->0<!-- end --> here.\n")
        return text.split(" -->")[1].split("<!-- end")[0]


class Tables(Project):
    def test_a_folder_that_is_not_the_project_is_refused(self):
        code, printed = 0, StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            code = tables.main(["--root", str(self.root / "stages")])
        self.assertEqual(code, 2)
        self.assertIn("stages is no folder of the project: it has no docs/", printed.getvalue())
        self.assertEqual(list((self.root / "stages").glob("docs")), [])

    def test_without_results_says_so(self):
        for kind in ("ladder", "rung 2", "environment", "baseline"):
            with self.subTest(kind):
                text = self.regenerated(f"<!-- table: {kind} -->\n| 1 |\n<!-- end -->\n")
                self.assertIn("Not measured yet", text)
                self.assertNotIn("| 1 |", text)

    def test_ladder(self):
        self.results()
        text = self.regenerated("before\n<!-- table: ladder -->\n<!-- end -->\nafter\n")
        first = "| [01_name](docs/01_name.md) | tiles in shared memory | 12.3 at 2048³ |"
        self.assertIn(first, text)
        self.assertIn("| 440 | 55.0 % | 396 | 49.5 % | 168 → 40/232 |", text)
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))

    def test_a_second_chip_has_tables_of_its_own(self):
        shape = {"m": 1, "n": 6144, "k": 4096}  # of the list heldout
        of_chip = {"stage": 0, "name": "best", "variant": "best", "ratio": 0.876, **shape}
        other = {**RESULTS, "gpu": "H100", "rows": [{**RESULTS["rows"][0], **of_chip}]}
        self.results(name="h200.json")
        self.results(other, "h100.json")
        text = self.regenerated("<!-- table: ladder -->\n<!-- end -->\n<!-- table: best h100 -->\n<!-- end -->\n")
        self.assertIn("12.3 at 2048³", text)  # h200.json's
        self.assertIn("| heldout | yes | 1 of 25 | 0.876 | 0.876 | 1 | 1 |", text)
        for kind in ("best", "chips", "means 1", "problems"):
            text = self.regenerated(f"<!-- table: {kind} b200 -->\n<!-- end -->\n")
            self.assertIn("Not measured yet", text)

    def test_a_number_and_means_of_a_second_chip(self):
        own = {"result": True, "regime": "burst", "verified": True, "ratio": 0.876, "tflops": 9.5}
        other = {**RESULTS, "gpu": "H100", "rows": [{**RESULTS["rows"][0], **own}]}
        self.results(name="h200.json")
        self.results(other, "h100.json")
        text = self.regenerated("<!-- table: means 1 h100 -->\n<!-- end -->\n")
        self.assertIn(" | 1 | 0.876 | 0.876 | 1 |", text)
        row = RESULTS["rows"][0]
        which = f"1.{row['variant']}.{row['m']}.burst.tflops"
        line = f"A <!-- value h100: {which} -->{{}}<!-- end -->, B <!-- value: {which} -->{{}}<!-- end -->.\n"
        self.assertEqual(self.regenerated(line.format("", "")), line.format("9.5", "12.3"))
        self.assertEqual(self.regenerated(line.replace("h100", "b200").format("", "")),
                         line.replace("h100", "b200").format("–", "12.3"))  # fmt: skip

    def test_a_rung_that_the_main_chip_has_not_is_shown_of_the_other(self):
        rows = RESULTS["rows"]
        without = [row for row in rows if row["stage"] != 2]
        self.results({**RESULTS, "rows": without}, "h200.json")
        self.results({**RESULTS, "gpu": "NVIDIA H100"}, "h100.json")
        text = self.regenerated("<!-- table: ladder -->\n<!-- end -->\n")
        self.assertIn("| 12.3 at 2048³ |", text)
        self.assertIn("| 440 on an H100 | 55.0 % | 396 on an H100 | 49.5 % | 168 → 40/232 |", text)
        text = self.regenerated("<!-- table: short 2 -->\n<!-- end -->\n")
        self.assertIn("Not measured yet", text)
        text = self.regenerated("<!-- table: short 2 h100 -->\n<!-- end -->\n")
        self.assertIn("| **deep** | 440 (55.0 %) | 396 (49.5 %) | 50.0 % |", text)
        self.assertIn("One NVIDIA H100.", text)
        self.assertNotIn("results.md", text)

    def test_the_rungs_of_two_chips_stand_side_by_side(self):
        other = {**RESULTS, "gpu": "NVIDIA H100", "rows": [{**RESULTS["rows"][0], "tflops": 9.5}]}
        self.results(name="h200.json")
        self.results(other, "h100.json")
        text = self.regenerated("<!-- table: chips h100 -->\n<!-- end -->\n")
        self.assertIn("| rung | H100, burst | H100, sustained | H200, burst | H200, sustained |", text)
        self.assertRegex(text, r"\| 01_name \| 9\.5 \(.*\) \| – \| 12\.3 \(")

    def test_ladder_links_from_docs(self):
        self.results()
        text = self.regenerated("<!-- table: ladder -->\n<!-- end -->\n", "docs/guide.md")
        self.assertIn("[01_name](01_name.md)", text)

    def test_rung_shows_variants_the_rung_before_and_dashes(self):
        self.results()
        text = self.regenerated("<!-- table: rung 2 -->\n<!-- end -->\n")
        lines = [line for line in text.splitlines() if line.startswith("|")]
        self.assertIn("*rung 1, deep* | 12.3 (1.5 %) | – | – | – |", lines[2])
        self.assertIn("shallow | – | – | 400 (50.0 %) | – | 399–401 |", lines[3])
        self.assertIn("**deep**", lines[4])
        self.assertIn("| 192 KiB | 50.0 % / – | 1700 / 1700 | – |", lines[4])
        self.assertIn("*best cuBLASLt* | – | 800 | 800 | 800 |", lines[5])

    def test_the_short_table_has_one_size(self):
        self.results()
        text = self.regenerated("<!-- table: short 2 -->\n<!-- end -->\n")
        lines = [line for line in text.splitlines() if line.startswith("|")]
        self.assertIn("| 8192³ burst | 8192³ sustained | tensor share |", lines[0])
        self.assertEqual(lines[2], "| *rung 1, deep* | – | – | – | 168 → 40/232 | – |")
        self.assertIn("| **deep** | 440 (55.0 %) | 396 (49.5 %) | 50.0 % |", lines[4])
        self.assertIn("| *best cuBLASLt* | 800 | 800 |", lines[5])
        self.assertIn("[results](results.md#rung-2)", text)

    def test_a_rung_of_another_problem_with_arguments(self):
        self.write("stages/03_typed.cu", "// Grown from stages/01_name.cu\n"
                   "void launch(const TypedArgs& g) {\n" + STAGE)  # fmt: skip
        page = ("<!-- table: problems -->\n<!-- end -->\n<!-- table: ladder -->\n<!-- end -->\n"
                "<!-- table: rung 3 -->\n<!-- end -->\n<!-- table: problems 3 -->\n<!-- end -->\n"
                "x <!-- value: 3.result(type=fp16).8192.burst.tflops -->0<!-- end -->\n")  # fmt: skip
        self.results()
        text = self.regenerated(page)
        problems, ladder, rung, _ = text.split("<!-- end -->")[:4]
        self.assertIn("Not measured yet", problems)
        self.assertIn("Not measured yet", rung)
        self.assertNotIn("03_typed", ladder)  # nor before it was measured
        with_args = copy.deepcopy(RESULTS)
        for args, tflops in (("", 504.0), ("type=fp16", 512.0), ("type=fp16,layout=NT", 520.0)):
            with_args["rows"].append(
                row(3, "deep", 8192, "burst", tflops, problem="typed", name="03_typed", args=args))
        self.results(with_args)
        text = self.regenerated(page)
        problems, ladder, rung, by_args = text.split("<!-- end -->")[:4]
        self.assertNotIn("03_typed", ladder)
        for what, tflops in (("default", 504), ("type=fp16", 512), ("type=fp16, layout=NT", 520)):
            share = f"{tflops / 8:.1f} %"
            self.assertIn(f"| 03_typed | {what} | – | {tflops} ({share}) | – | 800 |", by_args)
        name = "[03_typed](docs/03_typed.md)"  # layouts of one type share a line
        self.assertIn(f"| {name} | default | 1 | 504 at 8192³ | 0.63 | – | – | – |", problems)
        self.assertIn(
            f"| {name} | fp16 | 2 | 520 at 8192³ | **0.64** (0.64 to 0.65) | – | – | – |", problems)
        self.assertIn("*rung 1, deep*", rung)  # which it has grown from
        self.assertIn("504 (63.0 %)", rung)
        self.assertNotIn("520", rung)
        self.assertIn("x <!-- value: 3.result(type=fp16).8192.burst.tflops -->512<!-- end -->", text)

    def test_wrong_result_shows_fail_and_no_number(self):
        self.results()
        text = self.regenerated("<!-- table: rung 2 -->\n<!-- end -->\n")
        self.assertIn("| FAIL |", text)
        self.assertNotIn("420", text)

    def test_environment_and_baseline(self):
        self.results()
        text = self.regenerated(
            "<!-- table: environment -->\n<!-- end -->\n<!-- table: baseline -->\n<!-- end -->\n"
        )
        self.assertIn("| GPU | Some GPU |", text)
        self.assertIn("| 8192³ | burst | 800 | #3 128x256 | 2 of 2 |", text)

    def test_stage_0_has_tables_of_its_own(self):
        mine = row(0, "best", 8192, "burst", 500.0, name="best", baseline_tflops=9999.0,
                   configuration="02_name/deep")  # fmt: skip
        self.results({**RESULTS, "rows": [mine] + RESULTS["rows"]})
        text = self.regenerated("<!-- table: best -->\n<!-- end -->\n")
        self.assertIn("| tuning | yes | 1 of 27 | 0.625 |", text)
        text = self.regenerated("<!-- table: best burst -->\n<!-- end -->\n")
        self.assertIn("| 8192³ | tuning | 02_name/deep |", text)
        text = self.regenerated("<!-- table: baseline -->\n<!-- end -->\n<!-- table: rung 2 -->\n<!-- end -->\n")
        self.assertNotIn("9999", text)
        self.assertNotIn("9999", self.read("docs/img/ladder.svg"))
        self.write("README.md", "<!-- table: best bursts -->\n<!-- end -->\n")
        code, printed = self.main()
        self.assertEqual(code, 2)
        self.assertIn("best burst", printed)

    def test_runs_of_others_do_not_become_the_tables(self):
        other = copy.deepcopy(RESULTS)
        other["gpu"] = "Other GPU"
        self.results(other, "a-someone.json")
        text = self.regenerated(
            "<!-- table: rung 2 -->\n<!-- end -->\n<!-- table: submitted -->\n<!-- end -->\n"
        )
        self.assertIn("Not measured yet", text)
        theirs = "| `a-someone.json` | Other GPU | 13.1.0 | 2025-01-01 | – | 440 (55.0 %) |"
        self.assertIn(theirs, text)

    def test_fenced_markers_are_left_alone(self):
        text = "```\n<!-- table: nonsense -->\n```\n"
        self.assertEqual(self.regenerated(text), text)


class Values(Project):
    def test_one_value_in_its_usual_format(self):
        self.results()
        self.assertEqual(self.prose("2.result.8192.burst.tflops"), "440")
        self.assertEqual(self.prose("1.deep.2048.burst.tflops"), "12.3")
        self.assertEqual(self.prose("2.deep.8192.burst.ratio"), "55.0 %")
        self.assertEqual(self.prose("2.deep.8192.burst.registers"), "168 → 40/232")

    def test_a_shape_that_is_no_cube(self):
        longer = {**row(2, "deep", 4096, "burst", 77.0), "k": 512}
        self.results({**RESULTS, "rows": [*RESULTS["rows"], longer]})
        self.assertEqual(self.prose("2.deep.4096x4096x512.burst.tflops"), "77.0")
        self.assertEqual(self.prose("2.deep.4096x4096x1024.burst.tflops"), "–")

    def test_arithmetic_from_left_to_right_and_format(self):
        self.results()
        ratio = "2.deep.8192.burst.tflops / 2.shallow.8192.burst.tflops"
        self.assertEqual(self.prose(ratio + " : .2f"), "1.10")
        self.assertEqual(self.prose(ratio + " - 1 * 100 : .0f"), "10")
        self.assertEqual(self.prose("48 * 2.deep.8192.burst.tensor_share"), "24.0")

    def test_unmeasured_is_a_dash_and_wrong_is_fail(self):
        self.assertEqual(self.prose("2.deep.8192.burst.tflops"), "–")
        self.results()
        self.assertEqual(self.prose("2.deep.2048.burst.tflops"), "–")
        self.assertEqual(self.prose("2.deep.8192.sustained.tensor_share"), "–")
        self.assertEqual(self.prose("2.deep.4096.burst.tflops / 2 : .1f"), "FAIL")

    def test_bad_expressions_are_named(self):
        self.results()
        unknown = ("2.deep.8192.burst.speed", "2.dep.8192.burst.tflops")
        for expression in ("2.deep.8192.burst", *unknown, "1 % 2", "1 2", "1 / 0"):
            with self.subTest(expression):
                self.write("README.md", f"It is <!-- value: {expression} --><!-- end -->\n")
                code, printed = self.main()
                self.assertEqual(code, 2)
                self.assertIn("README.md:1: ", printed)


class Counters(Project):
    MARKER = "<!-- table: counters 2 -->\n<!-- end -->\n"

    def counters(self, document=COUNTERS):
        self.results({**RESULTS, "sms": 132})
        self.results(document, "gpu.counters.json")

    def count(self, expression):
        text = self.regenerated(f"It is <!-- counter: {expression} -->0<!-- end --> here.\n")
        return text.split(" -->")[1].split("<!-- end")[0]

    def test_without_a_file_says_so(self):
        for _ in range(2):  # without measured results, and with
            self.assertIn("Not measured yet: `make counters`", self.regenerated(self.MARKER))
            self.assertEqual(self.count("2.deep.cycles / 1e6 : .2f"), "–")
            self.results()

    def test_table_shows_variants_the_rung_before_and_what_is_derived(self):
        self.counters()
        lines = self.regenerated(self.MARKER).splitlines()
        rows = [line for line in lines if line.startswith("|")]
        self.assertEqual(rows[2], "| *rung 1, deep* |" + " – |" * 9)  # it ran at 2048 only
        same = "13.20 | 2.50 | 0.13 | 168.3 | 0.0 | 151.8 | 50.0 |"
        self.assertEqual(rows[3], "| shallow | 2.00 | 16.58 | " + same)
        self.assertEqual(rows[4], "| **deep** | 2.00 | 8.29 | " + same)
        self.assertEqual(len(rows[0].split("|")), len(rows[3].split("|")))
        self.assertIn("One launch at 8192³ under Nsight Compute", "".join(lines))

    def test_a_row_of_another_call_is_a_line_of_its_own(self):
        document = copy.deepcopy(COUNTERS)
        document["rows"].append({**counted(2, "deep", cycles=3000000), "args": "type=s8"})
        self.counters(document)
        lines = self.regenerated(self.MARKER).splitlines()
        rows = [line for line in lines if line.startswith("|")]
        self.assertTrue(rows[5].startswith("| deep, type=s8 | 3.00 |"), rows)
        self.assertEqual(self.count("2.deep(type=s8).cycles"), "3000000")
        self.assertEqual(self.count("2.deep.cycles"), "2000000")

    def test_a_rung_that_ran_smaller_has_its_own_size(self):
        self.counters()
        text = self.regenerated("<!-- table: counters 1 -->\n<!-- end -->\n")
        self.assertIn("| **deep** | 2.00 |", text)
        self.assertIn("One launch at 2048³", text)

    def test_counters_are_no_results(self):
        self.results(COUNTERS, "a.counters.json")
        text = self.regenerated("<!-- table: rung 2 -->\n<!-- end -->\n" + self.MARKER)
        self.assertEqual(text.count("Not measured yet"), 2)
        self.counters()
        self.results(RESULTS, "gpu-someone.json")
        self.results(COUNTERS, "gpu-someone.counters.json")
        text = self.regenerated("<!-- table: submitted -->\n<!-- end -->\n")
        self.assertEqual(text.count("| `"), 1)

    def test_values(self):
        self.counters()
        self.assertEqual(self.count("2.deep.l2_read_bytes / 1e9 : .2f"), "8.29")
        self.assertEqual(self.count("2.result.cycles"), "2000000")
        ratio = "2.shallow.l2_read_bytes / 2.deep.l2_read_bytes : .2f"
        self.assertEqual(self.count(ratio), "2.00")
        both = "<!-- value: 2.deep.8192.burst.tflops --><!-- end -->"
        text = self.regenerated(f"A {both} <!-- counter: 1.deep.cycles / 1e6 --><!-- end -->\n")
        self.assertIn("-->440<!-- end --> <!-- counter: 1.deep.cycles / 1e6 -->2.0<!--", text)

    def test_bad_values_are_named(self):
        self.counters()
        for expression, why in {
            "2.deep.l2_reads": 'no counter "l2_reads", only cycles',
            "2.dep.cycles": 'rung 2 has no variant "dep"',
            "2.deep.8192.cycles": "neither a number nor rung.variant.key",
        }.items():
            self.write("README.md", f"It is <!-- counter: {expression} --><!-- end -->\n")
            code, printed = self.main()
            self.assertEqual(code, 2)
            self.assertIn("README.md:1: ", printed)
            self.assertIn(why, printed)

    def test_what_differs_is_named(self):
        self.counters()
        self.write("README.md", "It is <!-- counter: 2.deep.cycles -->1<!-- end -->\n")
        code, printed = self.main("--check")
        self.assertEqual(code, 1)
        self.assertIn("README.md: counter 2.deep.cycles differs", printed)

    def test_a_file_without_a_key_is_refused(self):
        broken = copy.deepcopy(COUNTERS)
        del broken["rows"][1]["cycles"]
        self.counters(broken)
        code, printed = self.main()
        self.assertEqual(code, 2)
        self.assertIn('gpu.counters.json: row 1: key "cycles" is missing', printed)


class OddValues(Project):
    """No value of a file ends in a traceback: it is shown, or refused with its place."""

    MARKERS = "".join(f"<!-- table: {kind} -->\n<!-- end -->\n" for kind in
                      ("counters 2", "energy data", "energy environment", "limits", "ceilings 2",
                       "traces", "sweep", "sums", "shapes 2"))  # fmt: skip

    def refused(self, name, document, where, *keys):
        """Each of the keys of the object that `where` finds in a copy is odd in turn."""
        self.results()
        self.results(RESULTS, "h200.json")
        self.write("README.md", self.MARKERS)
        for key in keys:
            for odd in (None, "odd", []) if key != "name" else (None, 5):
                broken = copy.deepcopy(document)
                where(broken)[key] = odd
                self.results(broken, name)
                code, printed = self.main("--check")
                with self.subTest(key, odd=odd):
                    self.assertEqual(code, 2, printed)
                    self.assertRegex(printed, rf'{name}: .*"{key}" is .* but must be ')
        (self.root / "docs/results" / name).unlink()

    def test_they_are_refused_with_their_place(self):
        self.refused("h200.counters.json", COUNTERS, lambda d: d["rows"][1], "cycles", "m", "name")
        self.refused("h200.limits.json", LIMITS, lambda d: d["limits"][0], "per_clock", "name")
        self.refused("h200.limits.json", LIMITS, lambda d: d["tiles"][0], "bm")
        self.refused("h200.limits.json", LIMITS, lambda d: d, "sms")
        traced = {"stage": 2, "variant": "deep", "m": 8, "n": 8, "k": 8, "need": 1, "span": 2,
                  "under": 1, "us": 1.0, "plain_us": 1.0}  # fmt: skip
        self.refused("h200.traces.json", {"rows": [traced]}, lambda d: d["rows"][0], "need", "us")
        for head, m, said in (({}, 8, 'h200.json: key "sms" is missing'),
                              ({"sms": 132}, -1, '"m" is -1 but must be a number above 0')):
            self.results({**RESULTS, **head}, "h200.json")
            self.results({"rows": [{**traced, "m": m}]}, "h200.traces.json")
            code, printed = self.main("--check")
            self.assertEqual(code, 2, printed)
            self.assertIn(said, printed)
        (self.root / "docs/results/h200.traces.json").unlink()
        entry = {"m": 8, "n": 8, "k": 8, "regime": "burst", "best": "a", "pick": "a",
                 "distance": 0.0, "left_out": 0, "configurations": {"a": {"tflops": 1.0}}}  # fmt: skip
        self.refused("h200.sweep.json", {"shapes": [entry]}, lambda d: d["shapes"][0], "m",
                     "configurations")  # fmt: skip
        right = {"experiment": "data", "label": "ints", "chip": "whole", "stage": 2, "variant": "deep",
                 "verified": True, **dict.fromkeys(ENERGY_NUMBERS, 1.0)}  # fmt: skip
        head = {**dict.fromkeys(ENERGY_HEAD_KEYS, 1.0), "gpu": "Some GPU", "toolkit": "13.0",
                "revision": "abc", "date": "2025-01-01", "rows": [right]}  # fmt: skip
        self.refused("h200.energy.json", head, lambda d: d["rows"][0], "watts", "tflops")
        self.refused("h200.energy.json", head, lambda d: d, "refresh_ms")


def limit(name, group, regime, value, per_clock, **more):
    unit = "TFLOPS" if group == "tensor" else "TB/s"
    base = {
        "name": name, "what": f"what {name} is", "group": group, "data": "normal",
        "regime": regime, "unit": unit, "value": value, "per_clock": per_clock,
        "l2_read_value": None, "l2_read_per_clock": None, "sm_mhz": 1600.0, "verified": True,
    }  # fmt: skip
    return {**base, **more}


# 4096 FLOP a clock and SM at 1700 MHz on 100 SMs are 696.32 TFLOPS. `deep` of rung 2 does 440: at
# 1700 MHz 2588.2 a clock and SM.
LIMITS = {
    "gpu": "Some GPU", "driver": "1.2", "toolkit": "13.0", "sms": 100, "revision": "abcdef0123",
    "date": "2025-01-01",
    "tiles": [
        {"stage": 2, "variant": "deep", "bm": 128, "bn": 256, "bk": 64, "cluster_m": 1,
         "cluster_n": 1, "instruction": "wgmma n192", "smem_read_per_flop": 0.02,
         "kernel_hash": "0"},
        {"stage": 2, "variant": "shallow", "bm": 128, "bn": 128, "bk": 64, "cluster_m": 1,
         "cluster_n": 1, "instruction": "mma.sync", "smem_read_per_flop": 0.03125,
         "kernel_hash": "changed"},
    ],
    "limits": [
        limit("wgmma_n256", "tensor", "burst", 880.0, 4096.0),
        limit("wgmma_n128", "tensor", "burst", 800.0, 4000.0),
        limit("wgmma_n128_zeros", "tensor", "burst", 990.0, 4090.0),
        limit("wgmma_n128", "tensor", "sustained", 792.0, 4000.0),
        limit("smem_ldmatrix", "smem", "burst", 20.0, 128.0),
        limit("l2_tma_256", "l2", "burst", 5.5, 36.0, l2_read_value=5.5, l2_read_per_clock=36.0),
        limit("l2_same_16", "l2", "burst", 8.0, 62.5),
        limit("dram_read", "dram", "burst", 4.0, 25.0),
        limit("dram_write", "dram", "burst", None, None, sm_mhz=None, verified=False),
    ],
}  # fmt: skip


class Limits(Project):
    MARKERS = "".join(f"<!-- table: {kind} -->\n<!-- end -->\n" for kind in
                      ("limits", "ceilings", "ceilings 2"))  # fmt: skip

    def limits(self, document=LIMITS):
        self.results()
        self.results(document, "gpu.limits.json")

    def limit(self, expression):
        text = self.regenerated(f"It is <!-- limit: {expression} -->0<!-- end --> here.\n")
        return text.split(" -->")[1].split("<!-- end")[0]

    def test_without_a_file_says_so(self):
        for _ in range(2):  # without measured results, and with
            text = self.regenerated(self.MARKERS)
            self.assertEqual(text.count("Not measured yet: `make limits`"), 3)
            self.assertEqual(self.limit("wgmma_n256.burst.value"), "–")
            self.assertIn("not measured yet", self.read("docs/img/roofline.svg"))
            self.results()

    def test_a_limit_of_a_second_chip_alone_stands_in_its_table(self):
        self.results(name="h200.json")
        self.results(name="h100.json")
        self.results(LIMITS, "h100.limits.json")
        less = [row for row in LIMITS["limits"] if row["name"] != "smem_ldmatrix"]
        self.results({**LIMITS, "limits": less}, "h200.limits.json")
        text = self.regenerated("<!-- table: limits h100 -->\n<!-- end -->\n")
        self.assertIn("| `smem_ldmatrix` | TB/s, bytes | 20.00 | 128.0 | – | – | – |", text)
        self.assertIn("| `dram_read` | TB/s, bytes | 4.00 | 25.0 | 4.00 | 25.0 | 1.00 |", text)

    def test_the_table_has_both_regimes_and_no_number_of_a_wrong_kernel(self):
        self.limits()
        lines = self.regenerated(self.MARKERS).splitlines()
        rows = [line for line in lines if line.startswith("| `")]
        head = "| `wgmma_n128` | what wgmma_n128 is | normal | TFLOPS, FLOP |"
        self.assertIn(head + " 800 | 4000 | 1600 | 792 | 4000 | 1600 |", rows)
        head = "| `l2_tma_256` | what l2_tma_256 is | normal | TB/s, bytes |"
        self.assertIn(head + " 5.50 | 36.0 | 1600 | – | – | – |", rows)
        wrong = next(row for row in rows if "`dram_write`" in row)
        self.assertIn("| FAIL | FAIL | FAIL | – | – | – |", wrong)
        self.assertIn("revision abcdef0. ", "\n".join(lines))

    def test_ceilings_of_a_rung(self):
        self.limits()
        self.results({**COUNTERS, "sms": 100}, "gpu.counters.json")
        lines = self.regenerated("<!-- table: ceilings 2 -->\n<!-- end -->\n").splitlines()
        rows = [line for line in lines if line.startswith("|")][2:]
        # 2 · 8192^3 FLOP at 440 TFLOPS are 2498.9 us, 4,248,102 clocks of 100 SMs. wgmma n192 has no
        # limit of its own: n128's holds. Shared memory: 0.02 + 384 / 32768 bytes a FLOP.
        flop = 440e12 / (100 * 1700e6)
        smem, l2 = flop * (0.02 + 384 / 32768), 440e12 * 384 / 32768 / 1e12
        read = 8.29e9 / 2498.9e-6 / 1e12
        dram = (2.5e9 + 132e6) / 2498.9e-6 / 1e12
        self.assertEqual(
            rows[1],
            f"| **deep** | **{flop:.0f} of 4000** | {smem:.1f} of 128.0 | {l2:.1f} of 8.0 "
            f"| {read:.1f} of 5.5 | {dram:.2f} of 4.00 | `wgmma, N = 192`, 64.7 % | 55.0 % / 50.0 % |",
        )
        self.assertIn(
            " Not measured alone: `wgmma, N = 192`; there the FLOP ceiling is that of the next narrower",
            "".join(lines),
        )
        short = self.regenerated("<!-- table: short 2 -->\n<!-- end -->\n")
        self.assertIn("| `wgmma, N = 192`, 64.7 % |", short)
        # Its kernel is not the one whose tile was written down: what is counted holds all the same.
        self.assertIn("| shallow | – | – | – |", rows[0])
        self.assertIn("| L2 reads, ", rows[0])
        self.assertIn("scripts/limits.py --tiles", "".join(lines))

    def test_what_is_used_most_is_the_closest_ceiling(self):
        small = copy.deepcopy(LIMITS)
        for row in small["limits"]:
            if row["group"] == "smem":
                row["per_clock"] = 90.0
        self.limits(small)
        text = self.regenerated("<!-- table: ceilings 2 -->\n<!-- end -->\n")
        self.assertIn("| **82.1 of 90.0** |", text)
        self.assertIn("| shared memory, 91.2 % |", text)

    def test_ceilings_of_all_rungs_name_other_sizes(self):
        one = copy.deepcopy(LIMITS)
        one["tiles"].append({**one["tiles"][0], "stage": 1})
        self.limits(one)
        text = self.regenerated("<!-- table: ceilings -->\n<!-- end -->\n")
        self.assertIn("| 1 `deep` | **73 of 4000** |", text)
        self.assertIn("| 2 `deep` | **2588 of 4000** |", text)
        self.assertIn("At 8192³, 1 `deep` at 2048³, burst.", text)

    def test_values(self):
        self.limits()
        self.assertEqual(self.limit("wgmma_n256.burst.value"), "880")
        self.assertEqual(self.limit("wgmma_n256.burst.per_clock"), "4096")
        self.assertEqual(self.limit("dram_read.burst.value"), "4.00")
        self.assertEqual(self.limit("dram_read.sustained.value"), "–")
        self.assertEqual(self.limit("dram_write.burst.value / 2"), "FAIL")
        ratio = "wgmma_n256.burst.value / wgmma_n128.burst.value : .2f"
        self.assertEqual(self.limit(ratio), "1.10")

    def test_a_value_may_be_divided_by_a_limit(self):
        self.limits()
        line = "It is <!-- value: 8192 / wgmma_n256.burst.per_clock : .1f -->{}<!-- end -->.\n"
        self.assertEqual(self.regenerated(line.format("")), line.format("2.0"))

    def test_bad_values_are_named(self):
        self.limits()
        for expression, why in {
            "wgmma.burst.value": 'there is no limit "wgmma", only wgmma_n256, wgmma_n128',
            "wgmma_n256.value": "neither a number nor limit.regime.key",
            "wgmma_n256.burst.speed": 'a row has no key "speed"',
        }.items():
            self.write("README.md", f"It is <!-- limit: {expression} --><!-- end -->\n")
            code, printed = self.main()
            self.assertEqual(code, 2)
            self.assertIn("README.md:1: ", printed)
            self.assertIn(why, printed)

    def test_broken_files_are_refused(self):
        without = copy.deepcopy(LIMITS)
        del without["limits"][3]["per_clock"]
        headless = {key: value for key, value in LIMITS.items() if key != "tiles"}
        for document, why in {
            json.dumps(without): 'limit 3: key "per_clock" is missing',
            json.dumps(headless): 'key "tiles" is missing',
            "{": "not JSON",
            "[]": 'the top level must be an object',
        }.items():
            self.results()
            self.write("docs/results/gpu.limits.json", document)
            self.write("README.md", "<!-- table: limits -->\n<!-- end -->\n")
            code, printed = self.main()
            self.assertEqual(code, 2)
            self.assertIn(why, printed)

    def test_the_roofline(self):
        import xml.etree.ElementTree as xml

        self.limits()
        self.results({**COUNTERS, "sms": 100}, "gpu.counters.json")
        self.assertEqual(self.main()[0], 0)
        first = self.read("docs/img/roofline.svg")
        (self.root / "docs/img/roofline.svg").unlink()
        self.main()
        self.assertEqual(self.read("docs/img/roofline.svg"), first)
        xml.fromstring(first)
        # Rung 2 in all three panels; rung 1 has no tile, so that it is where its bytes were counted.
        self.assertEqual(first.count("<circle"), 4)
        self.assertEqual(first.count('<line class="line-muted"'), 3)
        self.assertEqual(first.count('<line class="line-orange"'), 4)
        for words in ("wgmma 4096", "128 B", "5.5 TB/s, distinct", "8.0 TB/s, shared", "4.0 TB/s"):
            self.assertIn(f">{words}<", first)

    def test_a_chooser_s_row_has_the_tile_of_what_it_chose(self):
        known = limits.Limits("gpu.limits.json", LIMITS)
        row = {"stage": 2, "variant": "auto", "configuration": "deep", "kernel_hash": "0"}
        self.assertEqual(known.tile(row)["bn"], 256)
        self.assertEqual(known.tile({**row, "configuration": "shallow", "kernel_hash": "changed"})["bn"],
                         128)  # fmt: skip
        self.assertIsNone(known.tile({**row, "kernel_hash": "1"}))
        self.assertIsNone(known.tile({**row, "configuration": None}))

    def test_numbers_that_share_a_point(self):
        self.assertEqual(roofline.number_list([8, 6, 7, 1]), "1, 6–8")
        self.assertEqual(roofline.number_list([4, 3]), "3, 4")


class Refusals(Project):
    def refused(self, text, message):
        self.write("README.md", text)
        code, printed = self.main()
        self.assertEqual(code, 2)
        self.assertIn(message, printed)

    def test_markers(self):
        self.refused("<!-- table: laddr -->\n<!-- end -->\n", 'no table is called "laddr"')
        self.refused("<!-- table: rung -->\n<!-- end -->\n", 'no table is called "rung"')
        self.refused("<!-- table: ladder -->\n", "README.md:1:")
        self.refused("<!-- value: 1 -->1<!-- end -->\n", "starts the line")
        self.refused("a <!-- value: 1 -->1\n", "not closed")
        self.refused("<!-- counter: 1 -->1<!-- end -->\n", "starts the line")
        self.refused("a <!-- value: 1 -->1<!-- end --> <!-- counter: 1 -->1\n", "not closed")
        self.refused("<!-- table: counters -->\n<!-- end -->\n", 'no table is called "counters"')

    def test_results(self):
        self.results({"gpu": "x"})
        self.refused("", 'key "driver" is missing')
        broken = copy.deepcopy(RESULTS)
        del broken["rows"][1]["tflops"]
        self.results(broken)
        self.refused("", 'row 1: key "tflops" is missing')
        self.results({**RESULTS, "rows": 3})
        self.refused("", '"rows" must be a list')
        self.results({**RESULTS, "rows": [RESULTS["rows"][0], 3]})
        self.refused("", "row 1 must be an object")
        for key in ("tflops", "m"):
            broken = copy.deepcopy(RESULTS)
            broken["rows"][1][key] = "much"
            self.results(broken)
            self.refused("", f"row 1: \"{key}\" is 'much' but must be a number")
        self.write("docs/results/gpu.json", "{")
        self.refused("", "not JSON")


class Check(Project):
    TEXT = (
        "<!-- table: rung 2 -->\n<!-- end -->\n\n"
        "A <!-- value: 2.deep.8192.burst.tflops --><!-- end -->\n"
    )

    def test_names_what_differs_and_changes_nothing(self):
        self.results()
        self.write("README.md", self.TEXT)
        code, printed = self.main("--check")
        self.assertEqual(code, 1)
        self.assertIn("README.md: table rung 2, value 2.deep.8192.burst.tflops differs", printed)
        self.assertIn("docs/img/ladder.svg: plot differs", printed)
        self.assertEqual(self.read("README.md"), self.TEXT)
        self.assertFalse((self.root / "docs/img/ladder.svg").exists())

    def test_passes_after_regenerating_and_fails_after_a_new_result(self):
        self.results()
        self.regenerated(self.TEXT)
        self.assertEqual(self.main("--check")[0], 0)
        changed = copy.deepcopy(RESULTS)
        changed["rows"][2]["tflops"] = 500.0
        self.results(changed)
        self.assertEqual(self.main("--check")[0], 1)


class Plot(Project):
    def test_same_bytes_every_time_and_well_formed(self):
        import xml.etree.ElementTree as xml

        self.results()
        self.assertEqual(self.main()[0], 0)
        first = self.read("docs/img/ladder.svg")
        (self.root / "docs/img/ladder.svg").unlink()
        self.main()
        self.assertEqual(self.read("docs/img/ladder.svg"), first)
        xml.fromstring(first)
        self.assertEqual(first.count('<rect class="blue"'), 3)  # two rungs and the legend
        self.assertEqual(first.count('<rect class="orange"'), 2)
        self.assertIn("cuBLASLt 800", first)

    def test_says_when_nothing_was_measured(self):
        self.assertEqual(self.main()[0], 0)
        self.assertIn("not measured yet", self.read("docs/img/ladder.svg"))


if __name__ == "__main__":
    unittest.main()
