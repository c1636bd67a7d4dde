"""lib/store.py: what stands in a file after its writing has failed, the revision that it names, and
which files are one's own."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from lib import store  # noqa: E402


class Written(unittest.TestCase):
    def test_a_file_that_cannot_be_replaced_stays_with_nothing_beside_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "h999.json")
            store.write_document(path, {"gpu": "H999"}, rows=[{"m": 1}])
            before = path.read_text(encoding="utf-8")
            for failure in (OSError(28, "No space left on device"), KeyboardInterrupt()):
                with mock.patch.object(store.os, "replace", side_effect=failure):
                    with self.assertRaises(type(failure)):
                        store.write_document(path, {"gpu": "H999"}, rows=[])
                self.assertEqual([each.name for each in Path(folder).iterdir()], ["h999.json"])
                self.assertEqual(path.read_text(encoding="utf-8"), before)


class Revision(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def git(self, *arguments):
        who = ("-c", "user.name=n", "-c", "user.email=e@x")
        subprocess.run(("git", *who, *arguments), check=True, capture_output=True)

    def test_sources_that_differ_from_the_commit_mark_it(self):
        names = ("stages/a.cu", "common/b.h", "Makefile", "docs/c.md")
        for name in names:
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text("as committed")
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "all")
        with mock.patch.dict(os.environ):
            os.environ.pop("REVISION", None)
            commit = store.revision()
            self.assertRegex(commit, "^[0-9a-f]{40}$")
            for name in names:
                Path(name).write_text("changed")
                mark = "" if name == "docs/c.md" else "-dirty"
                self.assertEqual(store.revision(), commit + mark, name)
                Path(name).write_text("as committed")
                self.assertEqual(store.revision(), commit)


class OwnFiles(unittest.TestCase):
    def test_files_that_others_have_sent_are_not_ones_own(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("h200.sweep.json", "h100-someone.sweep.json", "h200.json"):
                Path(folder, name).write_text("{}")
            found = store.own_files(Path(folder), ".sweep.json")
            self.assertEqual([path.name for path in found], ["h200.sweep.json"])


if __name__ == "__main__":
    unittest.main()
