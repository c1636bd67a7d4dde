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

STAGE = """#include <x>
static const ladder::Registrar registrar(__FILE__,
    "tiles in "
    "shared memory", {ladder::Variant{"a"}});
"""


def row(stage, variant, size, regime, tflops, **more):
    base = {
        "stage": stage, "name": f"{stage:02}_name", "variant": variant, "result": variant == "deep",
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
        self.assertEqual(first.count('<rect class="burst"'), 3)  # two rungs and the legend
        self.assertEqual(first.count('<rect class="sustained"'), 2)
        self.assertIn("cuBLASLt 800", first)

    def test_says_when_nothing_was_measured(self):
        self.assertEqual(self.main()[0], 0)
        self.assertIn("not measured yet", self.read("docs/img/ladder.svg"))


if __name__ == "__main__":
    unittest.main()
