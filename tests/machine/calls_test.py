"""Programs that run today run tomorrow: each call in calls.txt is there, and none of them refuses.
What the ladder does without stands apart, in runtime/foreign."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MACHINE = ROOT / "build" / "machine"


def names(*arguments: object) -> set[str]:
    """Those that nm lists, without their versions."""
    listing = subprocess.run(
        ["nm", *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {row[-1].split("@")[0] for row in rows if len(row) > 1}


def objects(folder: str) -> list[Path]:
    """Those of the sources in a folder of the machine."""
    sources = (ROOT / "common" / "machine" / folder).glob("*.cpp")
    return [ROOT / "build" / "obj" / p.relative_to(ROOT).with_suffix(".o") for p in sources]


class Calls(unittest.TestCase):
    def test_each_call_is_there_and_does_something(self) -> None:
        calls = (ROOT / "tests" / "machine" / "calls.txt").read_text(encoding="utf-8").split()
        stubs = ROOT / "build" / "obj" / "common" / "machine" / "names" / "stubs.c"
        refused = set(re.findall(r"^int (\w+)\(void\);", stubs.read_text(encoding="utf-8"), re.M))
        there = names("-D", "--defined-only", next(MACHINE.glob("libcudart.so.*")))
        self.assertGreater(len(calls), 200)
        self.assertEqual([], [call for call in calls if call not in there])
        self.assertEqual([], [call for call in calls if call in refused])

    def test_neither_the_ladder_nor_its_runtime_needs_what_is_foreign(self) -> None:
        foreign = names("-g", "--defined-only", *objects("runtime/foreign"))
        foreign -= names("-g", "--defined-only", *objects("runtime"))  # inline functions
        self.assertIn("cuLaunchKernel", foreign)
        needed = {path: names("-u", path) for path in objects("runtime")}
        for program in ("ladder", "libladder.so", "serve"):
            needed[program] = names("-D", "-u", ROOT / "build" / program)
            self.assertIn("cudaLaunchKernelExC", needed[program])
        sources = (ROOT / "common/host").glob("*.c*")
        fetched = "\n".join(path.read_text(encoding="utf-8") for path in sources)
        needed["by name"] = set(re.findall(r'"(cu[A-Z]\w+)"', fetched))
        self.assertIn("cuTensorMapEncodeTiled", needed["by name"])
        found = {str(path): wanted & foreign for path, wanted in needed.items() if wanted & foreign}
        self.assertEqual({}, found)


if __name__ == "__main__":
    unittest.main()
