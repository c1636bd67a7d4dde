"""mutations.py: every mutation still applies to the kernel it is for, the verdict asks for the
right reason, and a missing bug, report or program does not pass for a caught one."""

import contextlib
import io
import re
import sys
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import mutations  # noqa: E402
import rewrite_ptx  # noqa: E402
from mutations import MUTATIONS, Ended  # noqa: E402

# The classes of the list; some have several mutations.
CLASSES = """init-fence init-count expect-bytes-more expect-bytes-less parity empty-wait-skipped
full-wait-skipped released-before-wait-group wait-group-too-lax fence-missing-before-tma-store
fence-missing-after-ldmatrix wait-group-read-dropped barrier-after-wait-group-read-dropped
descriptor-sbo descriptor-swizzle slot-misaligned cluster-exit-unsynchronised
remote-arrive-wrong-rank multicast-mask scope-cta elected-arrive-without-syncwarp
accumulator-in-flight tma-store-past-d stale-parity-second-tile raster-skips-a-tile""".split()

RACE = "race: wgmma.mma_async reads what cp.async.bulk.tensor writes\n"


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
                modules[path] = rewrite_ptx.load(path)
            module = modules[path]
            module.edits.clear()
            each.apply(module)
            rewritten = rewrite_ptx.Module(module.rewritten())
            self.assertNotEqual(rewritten.text, module.text, each.name)
            self.assertEqual(rewritten.names, module.names, each.name)
            each.subject.find_kernel(rewritten)
            shown = mutations.source_of(each, module)
            self.assertRegex(shown, r"^(stages|tests/machine/kernels)/.*\.cu:\d+  ", each.name)
            self.assertTrue(mutations.changed_lines(module), each.name)

    def test_what_is_said_is_for_readers(self):
        for each in MUTATIONS.values():
            self.assertRegex(each.name, r"^[a-z-]+$")
            self.assertRegex(each.lesson, r"\.$", each.name)
            self.assertLessEqual(set(each.caught), {"race", "hang", "fault", "wrong result"})
            for words in each.caught.values():
                for word in words:
                    re.compile(word)

    def test_an_unknown_name_gets_the_list(self):
        with self.assertRaisesRegex(rewrite_ptx.Problem, "is called bogus; there are\n  init-fence"):
            mutations.find_mutation("bogus")


class Verdicts(unittest.TestCase):
    def test_kinds_of_endings(self):
        for status, report, kind in (
            (0, "ok", "clean"), (1, "Race: x", "race"), (4, "PTX machine: hang: x", "hang"),
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
            (4, "hang: x", "hang, not race"), (1, "race: wgmma reads", "the report lacks"),
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
        self.assertIn("FALSE REPORT without the bug: race", out)

    def test_show_has_line_change_lesson_and_report(self):
        if not (ROOT / MUTATIONS["parity"].subject.ptx).exists():
            self.skipTest("no PTX in build/ptx: run make")
        out = io.StringIO()
        with mock.patch.object(mutations, "run_on_machine", self.perfect), \
                mock.patch.object(mutations, "write_mutated", lambda m, folder: m.name), \
                contextlib.redirect_stdout(out):  # fmt: skip
            self.assertEqual(mutations.show(MUTATIONS["parity"]), 0)
        for words in ("stages/05_wgmma.cu:", "smem.full[use.slot]", "the other parity",
                      "- mbarrier.try_wait", "policy lazy", RACE.strip()):  # fmt: skip
            self.assertIn(words, out.getvalue())


if __name__ == "__main__":
    unittest.main()
