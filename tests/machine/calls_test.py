"""Programs that run today run tomorrow: each call in calls.txt is there, and none of them refuses."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MACHINE = ROOT / "build" / "machine"


def defined_names(path: Path) -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", path], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines()}


class Calls(unittest.TestCase):
    def test_each_call_is_there_and_does_something(self) -> None:
        calls = (ROOT / "tests" / "machine" / "calls.txt").read_text(encoding="utf-8").split()
        stubs = ROOT / "build" / "obj" / "common" / "machine" / "names" / "stubs.c"
        refused = set(re.findall(r"^int (\w+)\(void\);", stubs.read_text(encoding="utf-8"), re.M))
        there = defined_names(next(MACHINE.glob("libcudart.so.*")))
        self.assertGreater(len(calls), 200)
        self.assertEqual([], [call for call in calls if call not in there])
        self.assertEqual([], [call for call in calls if call in refused])


if __name__ == "__main__":
    unittest.main()
