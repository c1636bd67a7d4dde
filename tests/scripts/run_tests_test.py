"""run_tests.py: how the end of a suite is read."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import run_tests  # noqa: E402


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

    def test_required_gpu_tests_may_not_be_skipped(self):
        line = "gpu: 1 passed, 0 failed, 9 skipped"
        self.assertEqual(self.counts("gpu", 0, line), (1, 0, 9))
        self.assertEqual(self.counts("gpu", 0, line, True), (1, 9, 0))
        self.assertEqual(self.counts("docs", 0, "docs: 1 passed, 0 failed, 1 skipped", True), (1, 0, 1))

    def test_a_program_that_is_not_there_is_a_failure(self):
        with tempfile.TemporaryDirectory() as logs, mock.patch.object(run_tests, "LOGS", logs):
            status, output = run_tests.run_suite("host", ["/nonexistent/program"])
        self.assertNotEqual(status, 0)
        self.assertEqual(self.counts("host", status, output), (0, 1, 0))


if __name__ == "__main__":
    unittest.main()
