"""run_tests.py: how the end of a suite is read, and in which order suites run and are reported."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import run_tests  # noqa: E402
from lib import cli  # noqa: E402


class Verdict(unittest.TestCase):
    def counts(self, name, status, output, require_gpu=False):
        return run_tests.verdict(name, status, output, require_gpu)[:3]

    def test_the_last_line_counts(self):
        self.assertEqual(self.counts("host", 0, "x\nhost: 5 passed, 0 failed, 2 skipped\n"), (5, 0, 2))
        self.assertEqual(self.counts("host", 1, "host: 5 passed, 3 failed, 2 skipped"), (5, 3, 2))

    def test_a_crash_is_a_failure_and_named(self):
        self.assertEqual(self.counts("host", -11, "half a line"), (0, 1, 0))
        self.assertIn("signal 11", run_tests.verdict("host", -11, "", False)[3])
        self.assertEqual(self.counts("host", 0, ""), (0, 1, 0))
        self.assertEqual(self.counts("host", 4, "host: 5 passed, 0 failed, 0 skipped"), (5, 1, 0))

    def test_a_suite_that_runs_nothing_is_a_failure(self):
        nothing = "host: 0 passed, 0 failed, 0 skipped"
        self.assertEqual(self.counts("host", 0, nothing), (0, 1, 0))
        self.assertEqual(run_tests.verdict("host", 0, nothing, False)[3], "ran nothing")
        self.assertEqual(self.counts("gpu", 0, "gpu: 0 passed, 0 failed, 9 skipped"), (0, 0, 9))

    def test_required_gpu_tests_may_not_be_skipped(self):
        line = "gpu: 1 passed, 0 failed, 9 skipped"
        self.assertEqual(self.counts("gpu", 0, line), (1, 0, 9))
        self.assertEqual(self.counts("gpu", 0, line, True), (1, 9, 0))
        self.assertEqual(self.counts("docs", 0, "docs: 1 passed, 0 failed, 1 skipped", True), (1, 0, 1))

    def test_a_program_that_is_not_there_is_a_failure(self):
        with tempfile.TemporaryDirectory() as logs, mock.patch.object(run_tests, "LOGS", logs):
            status, output, _ = run_tests.run_suite("host", ["/nonexistent/program"])
        self.assertNotEqual(status, 0)
        self.assertEqual(self.counts("host", status, output), (0, 1, 0))


class Named(unittest.TestCase):
    def names(self, *names):
        return [name for name, _ in run_tests.named(list(names), run_tests.suites())]

    def test_some_or_all(self):
        self.assertEqual(self.names("gpu", "host"), ["host", "gpu"])
        self.assertEqual(self.names(), [name for name, _ in run_tests.suites()])

    def test_a_name_that_no_suite_has(self):
        with self.assertRaisesRegex(
            cli.Problem, "no suite mashine; there are host, .*did you mean machine"
        ):
            self.names("host", "mashine")
        with self.assertRaisesRegex(
            cli.Problem, "no sanitized suite lazy; there are host, machine, golden."
        ):
            run_tests.named(["host", "lazy"], run_tests.sanitized(), "sanitized suite")


class Order(unittest.TestCase):
    """Suites that are Python programs. They meet through files, never by the clock."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def suite(self, name, body=""):
        code = (
            "import os, time\n"
            "def wait_for(name):\n"
            "    while not os.path.exists(name): time.sleep(0.01)\n"
            "def mark(name): open(name, 'w').close()\n"
            f"os.chdir({self.folder!r})\nprint('one line of {name}', flush=True)\n{body}\n"
            f"print('more of {name}')\nprint('{name}: 1 passed, 0 failed, 0 skipped')"
        )
        return name, [sys.executable, "-c", code]

    def report(self, *suites, cpus):
        text = io.StringIO()
        with mock.patch.object(run_tests, "LOGS", self.folder), \
             mock.patch.object(run_tests, "suites", lambda: suites), \
             mock.patch.object(run_tests, "TIMEOUT_S", 60), \
             mock.patch.object(os, "sched_getaffinity", lambda _: range(cpus)), \
             contextlib.redirect_stdout(text):
            status = run_tests.main([])
        return status, text.getvalue().splitlines()

    def test_suites_run_side_by_side_and_are_reported_in_order(self):
        first = self.suite("first", "mark('begun'); wait_for('ended')")
        second = self.suite("second", "wait_for('begun'); mark('ended')")
        status, lines = self.report(first, second, cpus=2)
        self.assertEqual(status, 0)
        self.assertEqual([line.split()[0] for line in lines[:2]], ["first", "second"])
        self.assertEqual(lines[2:], ["2 passed, 0 failed, 0 skipped"])

    def test_the_output_of_a_suite_that_fails_is_whole(self):
        first = self.suite("first", "mark('begun'); wait_for('ended'); print('first: nonsense')")
        crash = "wait_for('begun'); mark('ended'); print('FAILED x', flush=True); os._exit(3)"
        second = self.suite("second", crash)
        status, lines = self.report(first, second, cpus=2)
        self.assertEqual(status, 1)
        self.assertTrue(lines[0].startswith("  first"), lines)
        self.assertEqual(lines[1:3], ["one line of second", "FAILED x"])
        self.assertEqual(lines[-1], "1 passed, 1 failed, 0 skipped")

    def test_no_more_run_than_there_are_cpus(self):
        alone = "assert not os.path.exists('x'); mark('x'); time.sleep(0.05); os.remove('x')"
        status, lines = self.report(*[self.suite(f"s{i}", alone) for i in range(4)], cpus=1)
        self.assertEqual(status, 0, lines)

    def test_the_gpu_runs_alone_when_all_others_have_ended(self):
        others = [self.suite(f"s{i}", f"time.sleep(0.05); mark('end{i}')") for i in range(3)]
        gpu = self.suite("gpu", "for i in range(3): assert os.path.exists(f'end{i}')")
        status, lines = self.report(*others, gpu, cpus=8)
        self.assertEqual(status, 0, lines)
        self.assertEqual(lines[3].split()[0], "gpu")


# What doctest says of a suite gpu of five cases. They meet through files, which say who has begun.
FAKE = """#!/usr/bin/env python3
import os, sys, time
names = ["slow", "skips", "crashes", "fails", "hangs"]
arguments = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
def end(passed, failed=0, skipped=0):
    print(f"gpu: {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed)
def wait_for(name):
    while not os.path.exists(name): time.sleep(0.01)
if "--test-case" in arguments:
    end(GPU, 0, 1 - GPU)
if "--list-test-cases" in sys.argv:
    print("[doctest] listing", "=====", *names, "=====", "[doctest] 5", sep="\\n")
    sys.exit()
if not arguments:
    print("all in one")
    end(1, 0, 4)
assert arguments["--first"] == arguments["--last"]
name = names[int(arguments["--first"]) - 1]
print("begin", name, flush=True)
open(name, "w").close()
if name == "skips":
    wait_for("slow")  # which is beside it
    print("SKIPPED skips: for fun")
    end(0, 0, 1)
elif name == "crashes":
    os.abort()
elif name == "fails":
    wait_for("hangs")
    print("FAILED fails")
    end(0, 1)
elif name == "hangs":
    assert not os.path.exists("slow")  # which is listed first, and begins last
    time.sleep(100)
end(1)
"""


class Cases(unittest.TestCase):
    def run_gpu(self, cpus, gpu):
        """run_suite's status and lines of the suite gpu."""
        with tempfile.TemporaryDirectory() as folder:
            fake = Path(folder, "fake")
            fake.write_text(FAKE.replace("GPU", str(gpu)))
            fake.chmod(0o755)
            command = ["env", "-C", folder, "./fake"]
            with mock.patch.object(run_tests, "TIMEOUT_S", 5), \
                 mock.patch.object(os, "sched_getaffinity", lambda _: range(cpus)):
                status, output, _ = run_tests.run_suite("gpu", command, folder)
            self.assertEqual(Path(folder, "gpu.log").read_text(), output)
        return status, output.splitlines()

    def test_on_a_gpu_each_is_a_process_and_all_are_reported_in_their_order(self):
        status, lines = self.run_gpu(cpus=6, gpu=1)
        self.assertEqual(status, 1)
        self.assertEqual(
            lines,
            ["begin slow", "begin skips", "SKIPPED skips: for fun", "begin crashes",
             "FAILED crashes: died of signal 6 without its last line", "begin fails", "FAILED fails",
             "begin hangs", "FAILED hangs: exited 124 without its last line",
             "gpu: 1 passed, 3 failed, 1 skipped"],
        )  # fmt: skip

    def test_without_a_gpu_or_with_few_cpus_all_are_one(self):
        one = (0, ["all in one", "gpu: 1 passed, 0 failed, 4 skipped"])
        self.assertEqual(self.run_gpu(cpus=16, gpu=0), one)
        self.assertEqual(self.run_gpu(cpus=3, gpu=1), one)

    def test_the_case_that_tells_is_there(self):
        source = Path(__file__).resolve().parents[1] / "gpu" / "device_test.cpp"
        name = run_tests.DEVICE.partition("=")[2]
        self.assertIn(f'TEST_CASE("{name}") {{\n  NEEDS_GPU();', source.read_text())


if __name__ == "__main__":
    unittest.main()
