"""check_docs.py against a small project: it passes as written, and each mistake is found."""

import copy
import json
import stat
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "scripts"), str(Path(__file__).parent)]
import check_docs  # noqa: E402
import tables  # noqa: E402
from lib import published  # noqa: E402
from lib.tools import toolkit  # noqa: E402
from lib.results import COUNTER_KEYS, ENERGY_HEAD_KEYS, ENERGY_NUMBERS  # noqa: E402
from listing import listing  # noqa: E402

CHECKS = len(check_docs.CHECKS)
ISA = "https://docs.nvidia.com/cuda/parallel-thread-execution/"

WRAPPERS = """namespace ptx {

// bar.sync 0;
//   ISA       : #bar
__device__ inline void bar_sync() { asm volatile("bar.sync 0;" ::: "memory"); }

// mbarrier.try_wait
//   ISA       : #try-wait
__device__ inline bool mbarrier_try_wait_parity(uint64_t* bar, uint32_t parity) {
  return true;
}

// fma
//   ISA       : #fma
__device__ inline float fma_rn_f32(float a, float b, float c) {
  return a;
}

// --- Composites
__device__ inline void mbarrier_wait(uint64_t* bar, uint32_t parity) {
  while (!mbarrier_try_wait_parity(bar, parity)) {
  }
}

}  // namespace ptx
"""

STAGE = """// Rung 1
__global__ void gemm() {
  ptx::bar_sync();
  for (int i = 0; i < 3; ++i) {
    ptx::mbarrier_wait(bar, 0);
  }
}
"""

PAGE = f"""# 1. A rung

| PTX | wrapper | ISA |
|---|---|---|
| `bar.sync` | `bar_sync` | [bar]({ISA}#bar) |
| `mbarrier.try_wait` | `mbarrier_try_wait_parity`, `mbarrier_wait` | [wait]({ISA}#try-wait) |

<!-- from stages/01_name.cu -->
```cpp
ptx::bar_sync();
…
}}
```

See [the guide](guide.md#how-to-read) and [above](#1-a-rung).
[Others](https://example.com/) report 700 TFLOPS.

## The idea

```sh
make stage-1 && ls stages/01_name.cu
```
""" + """
<!-- from stages/01_name.cu -->
```cpp
ptx::bar_sync();
```
""" * 3 + """
## New instructions

## Measured

## Pitfalls

## Break it

1. *(GPU)* One.

   <details><summary>Answer</summary>

   One.
   </details>
2. *(GPU)* Two.

   <details><summary>Answer</summary>

   Two.
   </details>

## How others do it
"""

GUIDE = """# Guide

## How to read

We got <!-- value: 1.a.8192.burst.tflops -->–<!-- end --> TFLOPS.
"""

RESULTS = {
    "gpu": "G", "driver": "1", "toolkit": "13.0", "cublas": "1", "revision": "r", "date": "d",
    "data": "normal", "seed": 1,
    "rows": [{
        "stage": 1, "name": "01_name", "problem": "bf16", "variant": "a", "result": True, "m": 8192, "n": 8192,
        "k": 8192, "regime": "sustained", "tflops": 5.0, "verified": True, "kernel_hash": "abcd",
    }],
}  # fmt: skip


class Project(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("README.md", "[page](docs/01_name.md), [words](docs/glossary.md), [l](docs/limits.md)\n"
                                "[h](docs/hopper_numbers.md), [i](docs/isa.md)\n")
        for name in ("limits", "hopper_numbers", "isa"):  # pages that some tests replace
            self.write(f"docs/{name}.md", f"# {name}\n")
        self.write("docs/01_name.md", PAGE)
        self.write("docs/guide.md", GUIDE)
        self.write("docs/glossary.md", "| here | means |\n|---|---|\n| rung, stage | a step |\n")
        self.write("stages/01_name.cu", STAGE)
        self.write("common/ptx/all.cuh", WRAPPERS)
        self.write("Makefile", "PER_STAGE := stage diff\n.PHONY: help test\n")
        with redirect_stdout(StringIO()):
            tables.main(["--root", str(self.root)])

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_checks(self):
        out = StringIO()
        with redirect_stdout(out):
            code = check_docs.main(["--root", str(self.root)])
        return code, out.getvalue()

    def fails(self, *messages):
        code, printed = self.run_checks()
        self.assertEqual(code, 1, printed)
        for message in messages:
            self.assertIn(message, printed)

    def page(self, old, new):
        self.assertIn(old, PAGE)
        self.write("docs/01_name.md", PAGE.replace(old, new))


class Checks(Project):
    def test_the_project_as_written_passes(self):
        code, printed = self.run_checks()
        self.assertEqual(code, 0, printed)
        self.assertIn("SKIPPED published kernels are unchanged: docs/results has no", printed)
        self.assertEqual(printed.splitlines()[-1], f"docs: {CHECKS - 3} passed, 0 failed, 3 skipped")

    def test_tables(self):
        self.write("docs/guide.md", GUIDE.replace("–", "9"))
        self.fails("docs/guide.md: value 1.a.8192.burst.tflops differs")

    def test_links(self):
        self.page("guide.md#how-to-read", "guide.md#how-to-write")
        self.fails("guide.md#how-to-write: no such heading")
        self.page("guide.md#how-to-read", "gide.md")
        self.fails("docs/01_name.md:15: gide.md does not exist")

    def test_a_page_that_nothing_leads_to(self):
        self.write("docs/lost.md", "# Lost\n\n[other](lost_too.md)\n")
        self.write("docs/lost_too.md", "# Lost too\n")
        self.fails("docs/lost.md: no link leads", "docs/lost_too.md: no link leads")
        self.page("See", "[Lost](lost.md#lost). See")
        self.assertEqual(self.run_checks()[0], 0)

    def test_isa_links(self):
        self.page(f"{ISA}#bar", f"{ISA}index.html#bar")
        self.fails("is not https://docs.nvidia.com/cuda/parallel-thread-execution/#anchor")

    def test_excerpts(self):
        self.page("…\n", "")
        self.fails("docs/01_name.md:8: the excerpt does not stand in stages/01_name.cu")
        self.page("ptx::bar_sync();\n", "ptx::bar_sync()\n")
        self.fails("the excerpt does not stand in stages/01_name.cu")
        self.page("ptx::bar_sync();\n…\n}\n", "…\n")
        self.fails("the excerpt does not stand in stages/01_name.cu")
        self.page("stages/01_name.cu -->\n", "stages/01_name.cu -->\n\n")
        self.fails("no code fence follows")
        self.page("stages/01_name.cu -->", "stages/02_name.cu -->")
        self.fails("stages/02_name.cu does not exist")

    def test_pages(self):
        self.write("stages/02_other.cu", STAGE)
        self.write("docs/03_third.md", "# x\n")
        self.fails(
            "stages/02_other.cu has no page docs/02_other.md",
            "docs/03_third.md has no rung stages/03_third.cu",
        )

    def test_instruction_tables(self):
        self.page("`bar_sync`", "`bar_synk`")
        self.fails("docs/01_name.md:5: bar_synk is not in common/ptx")
        self.page("`bar_sync`", "`fma_rn_f32`")
        self.fails("docs/01_name.md:5: fma_rn_f32 is not used in stages/01_name.cu")
        block = "#pragma once\nfloat scale(float x) { return ptx::fma_rn_f32(x, 2, 0); }\n"
        self.write("common/block/scale.cuh", block)
        self.write("stages/01_name.cu", '#include "common/block/scale.cuh"\n' + STAGE)
        self.fails("docs/01_name.md:5: common/ptx gives fma_rn_f32 the anchor #fma")
        self.page(f"{ISA}#bar", f"{ISA}#baz")
        self.fails("docs/01_name.md:5: common/ptx gives bar_sync the anchor #bar")
        self.page(f"[bar]({ISA}#bar)", "")
        self.fails("docs/01_name.md:5: no ISA link")
        self.page("wrapper", "function")
        self.fails("docs/01_name.md: no table with columns PTX and wrapper")

    def test_words(self):
        self.page("See", "TO" + "DO: see")
        self.fails("a note of something unfinished")
        self.page("See", "Run /ho" + "me/me/x. See")
        self.fails("a path of one machine")

    def test_speeds(self):
        for nowhere in ("Others", "[Others](guide.md)"):
            self.page("[Others](https://example.com/) report", f"{nowhere} report")
            self.fails('docs/01_name.md:16: "700 TFLOPS" comes from no run')

    def test_numbers_of_one_name(self):
        for typed, why in (
            ("[about 62 %](hopper_numbers.md)", "about 62 %"),
            ("`mma.sync` 826, or", "826, what mma.sync reaches, is typed"),
            ("`mma.sync` works 81 %", "81, what mma.sync reaches, is typed"),
            ("\n\n| `mma.sync` | 512 / x | 826 |\n\n", "826, what mma.sync takes, is typed"),
            ("224: at most 57 % of the rate", "57 %, what a ceiling allows, is typed"),
        ):
            self.page("See", f"Say {typed}. See")
            self.write("docs/hopper_numbers.md", "# Numbers\n")
            self.fails(why)
        self.page("See", "[L2](hopper_numbers.md), `mma.sync` takes and at most 57 % of it. See")
        self.assertEqual(self.run_checks()[0], 0)

    def test_words_are_in_the_glossary(self):
        self.page("See", "The SBO of a core matrix. See")
        self.fails('"SBO" has no row', '"core matrix" has no row')
        self.write("docs/glossary.md", "| rung | 1 |\n| SBO, stride byte offset | 2 |\n"
                                       "| core matrix | 3 |\n")
        self.assertEqual(self.run_checks()[0], 0)

    def test_shapes(self):
        self.page("## Pitfalls", "## Traps")
        self.fails('docs/01_name.md has no section "Pitfalls"')
        self.page("2. *(GPU)* Two.", "   And two.")
        self.fails("docs/01_name.md has fewer than two exercises")
        self.write("docs/01_name.md", PAGE.replace("<!-- from", "<!-- of", 1))
        self.fails("docs/01_name.md walks through fewer than 4 excerpts")

    def test_exercises_that_stand_elsewhere_are_named(self):
        self.write("docs/more_exercises.md", "# More\n\n## Rung 1\n\n3. *(GPU)* Three.\n\n"
                   "   <details><summary>Answer</summary>\n\n   Three.\n   </details>\n")  # fmt: skip
        more = "[Another](more_exercises.md#rung-1)"
        self.page("## How others", f"{more}.\n\n## How others")
        self.fails("docs/01_name.md does not name exercise 1.3 of docs/more_exercises.md")
        self.page("## How others", f"{more}: `make exercise-1.3`.\n\n## How others")
        code, printed = self.run_checks()
        self.assertEqual(code, 0, printed)

    def test_commands(self):
        self.page("make stage-1 &&", "make stage-1 | (")
        self.fails("docs/01_name.md:21: bash does not take it")
        self.page("stages/01_name.cu\n```\n", "stages/02_name.cu\n```\n")
        self.fails("docs/01_name.md:21: stages/02_name.cu does not exist")

    def test_make_targets(self):
        self.page("See", "Say `make test`, `make diff-3` or `make stage-N`. See")
        self.assertEqual(self.run_checks()[0], 0)
        self.page("See", "Say `make tests` or `make help-3`. See")
        self.fails("make tests is no target", "make help-3 is no target")

    def test_targets_of_included_files_and_mutations(self):
        self.write("Makefile", "PER_STAGE := stage\n.PHONY: help\ninclude a/b.mk\n")
        self.write("a/b.mk", ".PHONY: play play-back\n")
        self.page("See", "Say `make play`, `make play-back`, `make failure-parity`. See")
        code, printed = self.run_checks()
        self.assertEqual(code, 0, printed)
        self.page("See", "Say `make play-for`, `make failure-of-nothing`. See")
        self.fails("make play-for is no target", "make failure-of-nothing is no target")

    def test_reports(self):
        report = "<!-- report of a-bug -->\n```text\nRace: a\nand b\n…\nlater: c\n```\nSee"
        self.page("See", report)
        self.assertIn("SKIPPED reports are the PTX machine's", self.run_checks()[1])
        self.write("build/machine/libcudart.so.13", "")
        says = "Race: a and b.\\n  earlier: d\\n  later: c"
        self.write("scripts/mutations.py",
                   f"import sys\nprint('{says}' if sys.argv[2] == 'a-bug' else '')\n")  # fmt: skip
        self.assertEqual(self.run_checks()[0], 0)
        for old, new in (("and b", "and e"), ("later: c", "Race: a"), ("a-bug", "a-bird")):
            self.page("See", report.replace(old, new))
            self.fails("does not say so")
        self.page("See", "<!-- report of a-bug -->\nSee")
        self.fails("make failure-a-bug does not say so")

    def test_isa(self):
        self.write("build/machine/isa", "#!/bin/sh\necho '# ISA'\n")
        (self.root / "build/machine/isa").chmod(stat.S_IRWXU)
        self.fails("docs/isa.md is not what the decode table says; run make isa")
        self.write("docs/isa.md", "# ISA\n")
        self.assertEqual(self.run_checks()[0], 0)
        self.write("docs/isa.md", "# ISA of another day\n")
        self.fails("docs/isa.md is not what the decode table says; run make isa")


class Drawn(Project):
    def setUp(self):
        super().setUp()
        for name in ("build/maps", "build/ladder", "build/stage-10", "build/machine/libcudart.so.13"):
            self.write(name, "")
        self.drawings = {}
        drawn = mock.patch.object(check_docs.figures, "drawings", lambda root: self.drawings)
        drawn.start()
        self.addCleanup(mock.patch.stopall)

    def test_a_figure_that_the_code_no_longer_draws(self):
        drawing = check_docs.figures.Drawing(100, 50, "t")
        self.drawings[Path("docs/img/a.svg")] = drawing
        self.fails("docs/img/a.svg is not what the code says; run make figures")
        self.write("docs/img/a.svg", drawing.svg())
        self.assertEqual(list(check_docs.check_figures(self.root)), [])
        drawing.text("words", 0, 0)
        self.fails('docs/img/a.svg: "words" leaves the drawing')

    def test_what_explore_prints(self):
        right = "\n".join(check_docs.explore.explore(["WHAT=ring", "DEPTH=2", "STEPS=2"]))
        page = f"<!-- make explore WHAT=ring DEPTH=2 STEPS=2 -->\n```text\n{right}\n```\n"
        self.write("docs/guide.md", page)
        self.assertEqual(list(check_docs.check_explored(self.root)), [])
        self.write("docs/guide.md", page.replace("at once", "at last", 1))
        self.fails("docs/guide.md:1: make explore WHAT=ring DEPTH=2 STEPS=2 prints something else")
        refused = "<!-- make explore WHAT=ring DEPTH=99 -->\n```text\nexplore: {}.\n```\n"
        self.write("docs/guide.md", refused.format("DEPTH=99: it is from 1 to 16; the nearest is 16"))
        self.assertEqual(list(check_docs.check_explored(self.root)), [])
        self.write("docs/guide.md", "<!-- make explore WHAT=ring -->\nno fence\n")
        self.fails("docs/guide.md:1: make explore WHAT=ring prints something else")


class Hashes(Project):
    def setUp(self):
        super().setUp()
        self.results(RESULTS)
        self.built("abcd")
        self.version = mock.patch.object(published, "toolkit", lambda: "13.0")
        self.version.start()
        self.addCleanup(mock.patch.stopall)

    def results(self, document, name="gpu.json"):
        self.write(f"docs/results/{name}", json.dumps(document))
        with redirect_stdout(StringIO()):
            tables.main(["--root", str(self.root)])

    def built(self, value):
        self.write("build/ptx/hashes.json", json.dumps({"kernel_name": value}))
        self.listed()

    def listed(self, chooses=False):
        variants = [
            {"stage": 1, "variant": "a", "result": 1, "kernel": None if chooses else "kernel_name",
             "chooses": chooses},
            {"stage": 1, "variant": "wide", "kernel": "wide_kernel", "configuration": 1},
        ]  # fmt: skip
        self.write("build/ladder", f"#!/bin/sh\nprintf '%s' '{listing(variants)}'\n")
        (self.root / "build/ladder").chmod(stat.S_IRWXU)

    def test_same_kernel(self):
        code, printed = self.run_checks()
        self.assertEqual(code, 0, printed)
        self.assertEqual(printed.splitlines()[-1], f"docs: {CHECKS - 2} passed, 0 failed, 2 skipped")

    def test_a_timeline_of_a_kernel_that_has_changed(self):
        row = {"stage": 1, "variant": "a", "kernel": "kernel_name", "kernel_hash": "old", "toolkit": "13.0"}
        self.write("docs/results/h200.traces.json", json.dumps({"rows": [row]}))
        self.fails("h200.traces.json: rung 1, a: the kernel has changed since it was recorded")
        row["kernel_hash"] = "abcd"
        self.write("docs/results/h200.traces.json", json.dumps({"rows": [row]}))
        self.assertEqual(list(published.check_hashes(self.root)), [])

    def test_an_exercise_that_was_timed_with_another_kernel_or_change(self):
        row = {"exercise": "1.9", "change": "x", "options": "", "stage": 1, "variant": "a", "m": 1, "n": 1, "k": 1,
               "regime": "burst", "changed_tflops": 1, "factor": 1, "verified": True,
               "kernel": "kernel_name", "kernel_hash": "abcd"}  # fmt: skip
        self.write("docs/results/gpu.exercises.json", json.dumps({"gpu": "x", "rows": [row]}))
        self.assertEqual(list(published.check_hashes(self.root)), [])
        self.fails("exercise 1.9: its change is not the one that was timed")
        row["kernel_hash"] = "old"
        self.write("docs/results/gpu.exercises.json", json.dumps({"gpu": "x", "rows": [row]}))
        self.fails("exercise 1.9: the kernel has changed since it was timed")

    def test_changed_kernel(self):
        self.built("ffff")
        self.fails("gpu.json: rung 1, a: the kernel has changed since it was measured")

    def test_a_change_that_the_file_names(self):
        self.built("ffff")
        self.results({**RESULTS, "changed_since": {"2": "how it stores"}})
        self.fails("gpu.json: rung 1, a: the kernel has changed since it was measured")
        self.results({**RESULTS, "changed_since": {"1": "how it stores"}})
        self.assertEqual(list(published.check_hashes(self.root)), [])
        anew = [{**row, "kernel": "kernel_name"} for row in RESULTS["rows"]]
        self.results({**RESULTS, "rows": anew, "changed_since": {"1": "how it stores"}})
        self.built("abcd")
        self.fails("gpu.json: changed_since names rung 1, of which no row is of an older kernel")

    def test_a_baseline_that_was_wrong(self):
        beside = {**RESULTS["rows"][0], "baseline_tflops": 1, "baseline_verified": False}
        self.results({**RESULTS, "rows": [beside]})
        self.fails("gpu.json: 1:a@", "cuBLASLt's result was outside of the tolerance")

    def test_removed_variant(self):
        gone = copy.deepcopy(RESULTS)
        gone["rows"][0]["variant"] = "b"
        self.results(gone)
        self.fails("gpu.json: rung 1 has no variant b any more")

    def test_another_chip_may_have_run_kernels_of_its_revision(self):
        self.results(RESULTS, "h200.json")  # whose tables the pages have
        (self.root / "docs/results/gpu.json").unlink()
        gone = {**RESULTS["rows"][0], "configuration": "tall", "kernel": "tall_kernel"}
        changed = {**RESULTS["rows"][0], "configuration": "wide", "kernel_hash": "old"}
        self.write("docs/results/h100.json", json.dumps({**RESULTS, "rows": [gone, changed]}))
        self.assertEqual(list(published.check_hashes(self.root)), [])

    def test_counters_are_of_the_same_kernel(self):
        of_row = ("stage", "name", "variant", "result", "m", "n", "k")
        counted = {key: RESULTS["rows"][0][key] for key in of_row}
        counted.update(dict.fromkeys(COUNTER_KEYS, 1), kernel_hash="abcd")
        document = {**RESULTS, "rows": [counted]}
        self.results(document, "gpu.counters.json")
        self.assertEqual(self.run_checks()[0], 0)
        self.results({**document, "rows": [{**counted, "kernel_hash": "old"}]}, "gpu.counters.json")
        self.fails("gpu.counters.json: rung 1, a: the kernel has changed", "run make counters")

    def test_energy_is_of_the_same_kernel(self):
        row = {"experiment": "raster", "label": "1:a", "chip": "whole", "stage": 1, "variant": "a",
               "verified": True, "kernel": "kernel_name", "kernel_hash": "abcd",
               **dict.fromkeys(ENERGY_NUMBERS, 1)}  # fmt: skip
        document = {**dict.fromkeys(ENERGY_HEAD_KEYS, 1), **RESULTS, "rows": [row]}
        self.results(document, "gpu.energy.json")
        self.assertEqual(self.run_checks()[0], 0)
        self.results({**document, "rows": [{**row, "kernel_hash": "old"}]}, "gpu.energy.json")
        self.fails("gpu.energy.json: raster, 1:a: the kernel has changed", "run make energy")
        old = {**document, "rows": [{**row, "kernel_hash": "old"}]}
        self.results({**old, "changed_since": {"2": "how it stores"}}, "gpu.energy.json")
        self.fails("gpu.energy.json: raster, 1:a: the kernel has changed", "run make energy")
        self.results({**old, "changed_since": {"1": "how it stores"}}, "gpu.energy.json")
        self.assertEqual(self.run_checks()[0], 0)

    def chooser(self, says, value="abcd", wide_us=11.0):
        """A rung whose `a` chose `wide`, in a row, and a program that chooses `says`, which it expects
        to take 10 us."""
        row = {**RESULTS["rows"][0], "configuration": "wide", "kernel": "wide_kernel"}
        self.results({**RESULTS, "sms": 132, "rows": [row]})
        self.write("build/ptx/hashes.json", json.dumps({"kernel_name": "0", "wide_kernel": value}))
        self.listed(chooses=True)
        listed = (self.root / "build/ladder").read_text(encoding="utf-8")
        says = json.dumps({"configuration": says, "predicted_us": 10.0})
        wide = json.dumps({"configuration": None, "predicted_us": wide_us})
        choices = f"{{ while read row; do case $row in *' wide '*) echo '{wide}';; *) echo '{says}';; esac; done; }}"
        check = f'[ $1 = --choices ] && [ "$MACHINE_SMS" = 132 ] && {choices} && exit\n'
        self.write("build/ladder", listed.replace("#!/bin/sh\n", "#!/bin/sh\n" + check))
        (self.root / "build/machine").mkdir()

    def test_a_choosers_row_has_the_kernel_that_it_chose(self):
        self.chooser("wide")
        code, printed = self.run_checks()
        self.assertEqual(code, 0, printed)
        self.assertEqual(printed.splitlines()[-1], f"docs: {CHECKS - 2} passed, 0 failed, 2 skipped")

    def test_a_chosen_kernel_that_has_changed(self):
        self.chooser("wide", "ffff")
        self.fails("gpu.json: rung 1, a: the kernel has changed since it was measured")

    def test_another_choice(self):
        self.chooser("tall")
        self.fails("1:a@8192/sustained: the model chooses tall, wide is published")

    def test_another_choice_that_is_expected_to_be_as_fast(self):
        self.chooser("tall", wide_us=10.2)
        self.assertEqual(self.run_checks()[0], 0)

    def sweep(self, value, pick="01_rung/a"):
        one = {"tflops": 5.0, "us": 2.0, "sm_mhz": 1500, "kernel_hash": value}
        entry = {
            "m": 8, "n": 16, "k": 24, "regime": "burst", "left_out": 0, "best": "01_rung/a",
            "pick": pick, "distance": 0.0, "configurations": {"01_rung/a": one},
        }  # fmt: skip
        self.write("docs/results/gpu.sweep.json", json.dumps({**RESULTS, "shapes": [entry]}))

    def test_the_sweep_is_of_the_same_kernels(self):
        self.results({**RESULTS, "sms": 132})
        self.sweep("old")
        self.fails("the sweep: 01_rung/a at 8x16x24: the kernel has changed; run make sweep")
        self.sweep("abcd")
        self.assertEqual(self.run_checks()[0], 0)

    def test_the_sweep_has_the_time_of_its_pick(self):
        self.chooser("wide")
        self.sweep("abcd", pick="01_rung/b")
        self.fails("the sweep: at 8x16x24 the pick 01_rung/b was not timed; run make sweep")

    def test_nvcc_names_its_version_as_the_results_do(self):
        mock.patch.stopall()
        self.write("home/bin/nvcc", "#!/bin/sh\necho 'Cuda tools, release 13.0, V13.0.88'\n")
        (self.root / "home/bin/nvcc").chmod(stat.S_IRWXU)
        with mock.patch.dict("os.environ", {"CUDA_HOME": str(self.root / "home")}):
            self.assertEqual(toolkit(), "13.0.88")

    def test_another_toolkit_or_no_build_is_skipped_visibly(self):
        with mock.patch.object(published, "toolkit", lambda: "12.9"):
            code, printed = self.run_checks()
        self.assertEqual(code, 0)
        self.assertIn("SKIPPED published kernels are unchanged: nvcc here is 12.9", printed)
        (self.root / "build/ladder").unlink()
        code, printed = self.run_checks()
        self.assertEqual(code, 0)
        self.assertIn("is not built", printed)


if __name__ == "__main__":
    unittest.main()
