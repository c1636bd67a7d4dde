"""mutations.py: every mutation still applies to the kernel it is for, the verdict asks for the
right reason, and a missing bug, report or program does not pass for a caught one."""

import contextlib
import io
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import mutations  # noqa: E402
from lib.cli import Problem  # noqa: E402
from lib.ptx import Module, load_module  # noqa: E402
from mutations import MUTATIONS, Ended  # noqa: E402

# The classes of the list; some have several mutations.
CLASSES = """init-fence init-count expect-bytes-more expect-bytes-less parity empty-wait-skipped
full-wait-skipped released-before-wait-group wait-group-too-lax fence-missing-before-tma-store
fence-missing-after-ldmatrix wait-group-read-dropped barrier-after-wait-group-read-dropped
descriptor-sbo descriptor-swizzle slot-misaligned cluster-exit-unsynchronised
remote-arrive-wrong-rank multicast-mask scope-cta elected-arrive-without-syncwarp
accumulator-in-flight tma-store-past-d stale-parity-second-tile raster-skips-a-tile
grid-wait-dropped share-overlaps-the-one-before last-share-lost counters-not-reset
barrier-before-arrival-dropped arrival-relaxed counter-read-relaxed sums-read-too-early
partial-sums-unsynchronised scales-of-another-block scales-not-counted scales-read-after-release
scales-fence-missing scales-of-other-lanes promoted-too-early sums-not-begun-anew boundary-too-early
no-taken-for-yes turn-not-passed-on first-turn-missing""".split()

RACE = ("Race in kernel gemm: wgmma.mma_async.sync reads shared 0x400, which "
        "cp.async.bulk.tensor.2d has written, and nothing orders the two.\n")  # fmt: skip


class Table(unittest.TestCase):
    def test_every_class_is_there(self):
        self.assertEqual([name for name in CLASSES if name not in MUTATIONS], [])

    def test_every_mutation_applies_to_the_kernel_as_it_is_now(self):
        modules = {}
        for each in MUTATIONS.values():
            path = ROOT / each.subject.ptx
            if not path.exists():
                self.skipTest(f"{path} is not built: run make")
            if path not in modules:
                modules[path] = load_module(path)
            module = modules[path]
            module.edits.clear()
            each.apply(module)
            rewritten = Module(module.rewritten())
            self.assertNotEqual(rewritten.text, module.text, each.name)
            self.assertEqual(rewritten.names, module.names, each.name)
            each.subject.find_kernel(rewritten)
            shown = mutations.source_of(each, module)
            # The PTX names the folder that it was compiled in, which may be another checkout.
            self.assertRegex(shown, r"(^|/)(stages|tests/machine/kernels)/\w+\.cu:\d+  ", each.name)
            self.assertTrue(mutations.changed_lines(module), each.name)

    def test_what_is_said_is_for_readers(self):
        for each in MUTATIONS.values():
            self.assertRegex(each.name, r"^[a-z-]+$")
            self.assertRegex(each.lesson, r"\.$", each.name)
            kinds = {"race", "undefined", "hang", "fault", "wrong result"}
            self.assertLessEqual(set(each.caught), kinds)
            for words in each.caught.values():
                for word in words:
                    re.compile(word)

    def test_what_an_h200_did_is_recorded_for_mutations_that_exist_and_is_as_it_must_be(self):
        recorded = mutations.recorded()
        self.assertLessEqual(set(recorded), set(MUTATIONS))
        for name, (plain, runs, slept, slept_runs) in recorded.items():
            self.assertIn(MUTATIONS[name].gpu, (None, plain), name)
            unseen = plain == mutations.UNSEEN
            self.assertEqual(bool(slept), unseen, name)
            self.assertEqual(unseen, runs == "3" and bool(slept_runs), name)
            for kind in {plain, slept} - {"", mutations.UNSEEN}:
                self.assertIn(kind, ("hang", "fault", "wrong result"), name)

    def test_the_page_has_the_table(self):
        page = Path(mutations.PAGE).read_text(encoding="utf-8")
        self.assertTrue(page == mutations.page_with_tables(page),
                        "docs/failures.md: run python3 scripts/mutations.py --page")  # fmt: skip
        for each in MUTATIONS.values():
            self.assertEqual(page.count(f"| `{each.name}` |"), 1, each.name)

    def test_a_page_without_a_place_for_the_table_is_refused(self):
        with self.assertRaisesRegex(Problem, "needs one line <!-- failures -->"):
            mutations.page_with_tables("# Failures\n")

    def test_an_unknown_name_gets_the_nearest_and_the_place_of_the_list(self):
        with self.assertRaisesRegex(Problem, "is called initfence; did you mean init-fence. docs/f"):
            mutations.find_mutation("initfence")
        with self.assertRaisesRegex(Problem, "is called wait. docs/failures.md has all of them.$"):
            mutations.find_mutation("wait")


class CommandLine(unittest.TestCase):
    def test_options_that_contradict_each_other_or_lead_nowhere_are_refused(self):
        for given, why in ((["--list", "--page"], "--page: not allowed with argument --list"),
                           (["--gpu=-", "--show=parity"], "--show: not allowed with argument --gpu"),
                           (["--only=parity", "--show=parity"], "--only=parity is for runs of all"),
                           (["--only=", "--list"], "--only= is for runs of all"),
                           (["--only="], "no mutation is called ''. docs/failures.md has all"),
                           (["--show="], "no mutation is called ''. docs/failures.md has all"),
                           (["--gpu=/tmp"], "--gpu is '/tmp', a folder: name a file in it, or -"),
                           (["--gpu="], "--gpu is '', a folder"),
                           (["--gpu=/nonexistent/x.csv"], "whose folder /nonexistent is not there")):  # fmt: skip
            err = io.StringIO()
            with self.subTest(given), contextlib.redirect_stderr(err), \
                    mock.patch.object(mutations, "show", lambda mutation: 0), \
                    mock.patch.object(mutations, "page_with_tables", lambda page: page), \
                    contextlib.redirect_stdout(io.StringIO()):  # fmt: skip
                try:
                    code = mutations.main(given)
                except SystemExit as ended:
                    code = ended.code
                self.assertEqual(code, 2)
                self.assertIn(why, err.getvalue())


    def test_without_a_gpu_nothing_runs_and_the_file_stays(self):
        err = io.StringIO()
        with tempfile.NamedTemporaryFile("w+", encoding="utf-8") as csv, \
                mock.patch.object(mutations, "no_gpu", lambda: "no driver"), \
                mock.patch.object(mutations, "assemble", None), \
                contextlib.redirect_stderr(err):  # fmt: skip
            csv.write("measured")
            csv.flush()
            self.assertEqual(mutations.main([f"--gpu={csv.name}"]), 3)
            self.assertEqual(Path(csv.name).read_text(encoding="utf-8"), "measured")
        self.assertIn("there is none: no driver.", err.getvalue())


class Verdicts(unittest.TestCase):
    def test_kinds_of_endings(self):
        for status, report, kind in (
            (0, "ok", "clean"), (1, "a row\nRace in kernel x: y", "race"),
            (1, "Race in kernel x: y\nFAIL: cudaErrorLaunchFailure", "race"),
            (1, "Undefined in kernel x: y", "undefined"),
            (4, "Deadlock in kernel x: y", "hang"), (4, "Livelock in kernel x: y", "hang"),
            (1, "Fault in kernel x: y", "fault"), (1, "Refused in kernel x: y", "refused"),
            (4, "HANG: rung 6 has not finished", "hang"),
            (1, "row  FAIL: D[0][0] is 1", "wrong result"),
            (1, "FAIL: cudaErrorMisalignedAddress", "fault"), (3, "no driver", "exit code 3"),
            (-11, "", "exit code -11"),
        ):  # fmt: skip
            self.assertEqual(Ended(status, report).kind, kind, report)

    def test_the_reason_must_be_right(self):
        parity = MUTATIONS["parity"]
        self.assertTrue(mutations.judge(parity, ("eager", 1), Ended(1, RACE)).caught)
        for status, report, why in (
            (4, "Deadlock in kernel x: y", "hang, not race"),
            (1, "Race in kernel x: wgmma reads", "the report lacks"),
            (3, "no driver", "exit code 3, not race"),
        ):  # fmt: skip
            verdict = mutations.judge(parity, ("eager", 1), Ended(status, report))
            self.assertFalse(verdict.caught)
            self.assertIn(why, verdict.text)

    def run_all(self, answer):
        """Output and exit code of all of it, on a machine that is played by `answer`."""
        chosen = [MUTATIONS["parity"], MUTATIONS["raster-skips-a-tile"]]
        out = io.StringIO()
        with mock.patch.object(mutations, "run_on_machine", answer), \
                mock.patch.object(mutations, "write_mutated", lambda m, folder: m.name), \
                contextlib.redirect_stdout(out):  # fmt: skip
            status = mutations.run_all(chosen)
        return out.getvalue(), status

    @staticmethod
    def perfect(subject, policy, seed, ptx=None):
        if ptx == "parity":
            return Ended(1, RACE) if policy == "lazy" else Ended(0, "ok")
        return Ended(1, "FAIL: D") if ptx else Ended(0, "ok")

    def test_a_row_each_and_the_policy_that_shows_it(self):
        out, status = self.run_all(self.perfect)
        self.assertEqual(status, 0, out)
        lines = out.splitlines()
        self.assertRegex(lines[1], r"^parity .* race +lazy$")
        self.assertRegex(lines[2], r"^raster-skips-a-tile .* wrong result +eager$")
        self.assertEqual(lines[-1], "caught 2 of 2")
        self.assertRegex(lines[-2], r"^clean without a bug: 10 of 10 runs$")

    def test_what_no_policy_shows_is_not_caught(self):
        out, status = self.run_all(lambda *args: Ended(0, "ok"))
        self.assertEqual(status, 1)
        self.assertIn("NOT CAUGHT: nothing", out)
        self.assertIn("caught 0 of 2", out)

    def test_a_report_on_the_kernel_without_the_bug_spoils_it(self):
        def nervous(subject, policy, seed, ptx=None):
            return self.perfect(subject, policy, seed, ptx) if ptx else Ended(1, RACE)

        out, status = self.run_all(nervous)
        self.assertEqual(status, 1)
        self.assertIn("FALSE REPORT without a bug: race, build/stage-07 group16, eager", out)
        self.assertIn("clean without a bug: 0 of 10 runs", out)

    def test_show_has_line_change_lesson_and_report(self):
        if not (ROOT / MUTATIONS["parity"].subject.ptx).exists():
            self.skipTest("no PTX in build/ptx: run make")
        out = io.StringIO()
        with mock.patch.object(mutations, "run_on_machine", self.perfect), \
                mock.patch.object(mutations, "write_mutated", lambda m, folder: m.name), \
                contextlib.redirect_stdout(out):  # fmt: skip
            self.assertEqual(mutations.show(MUTATIONS["parity"]), 0)
        for words in ("stages/05_wgmma.cu:", "smem.full[use.slot]", "the other parity",
                      "- mbarrier.try_wait", "On an H200  fault", "policy lazy",
                      RACE.strip()):  # fmt: skip
            self.assertIn(words, out.getvalue())


class OnAGpu(unittest.TestCase):
    """A GPU that is played: which mutations pass unseen, and what runs next."""

    def run_all(self, answer):
        chosen = [MUTATIONS["parity"], MUTATIONS["init-fence"], MUTATIONS["raster-skips-a-tile"]]
        out, csv = io.StringIO(), tempfile.NamedTemporaryFile("r", encoding="utf-8")
        with csv, mock.patch.object(mutations, "assemble", lambda subject, path, edit, sleep:
                                    ([Path(path).name.split(".")[0], str(sleep)], {})), \
                mock.patch.object(mutations, "run", lambda words, environment, limit:
                                  answer(*words)), \
                mock.patch.object(mutations, "no_gpu", lambda: ""), \
                contextlib.redirect_stdout(out):  # fmt: skip
            status = mutations.run_all_on_gpu(chosen, csv.name)
            return out.getvalue(), csv.read().splitlines(), status

    @staticmethod
    def hides(name, sleep):
        if name == "parity":
            return Ended(4, "HANG")
        if name == "raster-skips-a-tile":
            return Ended(1, "FAIL: D")
        return Ended(1, "FAIL: D") if name == "init-fence" and sleep == "2" else Ended(0, "ok")

    def test_what_passes_unseen_runs_again_with_sleeps(self):
        out, rows, status = self.run_all(self.hides)
        self.assertEqual(status, 0, out)
        self.assertEqual(rows, ["parity,hang,1,,", "init-fence,passes unseen,3,wrong result,2",
                                "raster-skips-a-tile,wrong result,1,,"])  # fmt: skip
        self.assertTrue(out.endswith("passed unseen 1 of 3; not as it must be: 0\n"), out)

    def test_another_end_than_the_one_that_is_certain_is_a_failure(self):
        out, rows, status = self.run_all(
            lambda name, sleep: Ended(0, "ok") if name[0] == "r" else self.hides(name, sleep))  # fmt: skip
        self.assertEqual(status, 1)
        self.assertIn("raster-skips-a-tile: clean, not wrong result", out)
        self.assertEqual(rows[2], "raster-skips-a-tile,passes unseen,3,passes unseen,3")

    def test_a_program_that_does_not_run_there_ends_it(self):
        with self.assertRaisesRegex(Problem, "The driver is too old") as raised:
            self.run_all(lambda name, sleep: Ended(3, "The driver is too old.\n"))
        self.assertEqual(raised.exception.code, 3)

    def test_a_kernel_without_a_bug_must_pass_with_sleeps(self):
        out, _, status = self.run_all(
            lambda name, sleep: Ended(4, "HANG") if name[:5] == "sound" else self.hides(name, sleep))  # fmt: skip
        self.assertEqual(status, 1)
        self.assertIn("rung 6, 2consumers without a bug: hang", out)


class OnTheMachine(unittest.TestCase):
    def test_every_mutation_is_caught_and_every_kernel_without_one_clean(self):
        if not list((ROOT / "build/machine").glob("libcudart.so.*")):
            self.skipTest("the PTX machine is not built: run make machine")
        programs = {ROOT / each.subject.program for each in MUTATIONS.values()}
        missing = [program for program in programs if not program.exists()]
        if missing:
            self.skipTest(f"{missing[0]} is not built: run make")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = mutations.run_all(list(MUTATIONS.values()))
        count = len(MUTATIONS)
        self.assertEqual(status, 0, out.getvalue())
        self.assertTrue(out.getvalue().endswith(f"caught {count} of {count}\n"), out.getvalue())


if __name__ == "__main__":
    unittest.main()
