"""The built programs: what is in their fat binaries, what they link, how they answer without a GPU."""

import glob
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(ROOT, "scripts")]
from lib import registry  # noqa: E402
from lib.rows import row_name, row_text, select  # noqa: E402
from binaries import CUBIN, PTX, dynamic, fat_binaries, sections  # noqa: E402

LADDER = os.path.join(ROOT, "build", "ladder")


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def stage_programs():
    """One for each file in stages/, of which there are some."""
    stems = sorted(os.path.basename(path) for path in glob.glob(os.path.join(ROOT, "stages", "*.cu")))
    assert stems, "stages/ has no rung"
    return [os.path.join(ROOT, "build", "stage-" + stem[:2]) for stem in stems]


def run(*options, program=LADDER, device="gpu", stdin=None, **variables):
    """Runs a program that is to see no GPU, nor the PTX machine unless `device` says so, on whatever
    computer."""
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", LADDER_DEVICE=device, **variables)
    return subprocess.run(
        [program, *options], env=environment, input=stdin, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, check=False, timeout=600,
    )


class Binaries(unittest.TestCase):
    def binaries(self):
        return [LADDER, os.path.join(ROOT, "build", "libladder.so"), *stage_programs()]

    def test_each_module_holds_its_ptx_and_code_for_sm_90a(self):
        kernels = {v["kernel"] for v in registry.parse(run("--list").stdout)} - {None}
        self.assertGreater(len(kernels), 0)
        for path in (LADDER, os.path.join(ROOT, "build", "libladder.so")):
            seen = set()
            for entries in fat_binaries(read_bytes(path)):
                self.assertEqual(sorted(entry[0] for entry in entries), [PTX, CUBIN])
                self.assertFalse(any(entry[2] for entry in entries), "compressed")
                self.assertEqual({entry[1] for entry in entries}, {90})
                ptx = next(entry[3] for entry in entries if entry[0] == PTX).decode().strip("\0")
                cubin = next(entry[3] for entry in entries if entry[0] == CUBIN)
                self.assertIn(".target sm_90a", ptx)
                names = set(re.findall(r"\.entry\s+([\w$]+)", ptx))
                code = {name[6:] for name in sections(cubin) if name.startswith(".text.")}
                self.assertLessEqual(names, code)
                seen |= names
            self.assertLessEqual(kernels, seen, path)

    def test_no_program_needs_a_driver_or_cublas_to_start(self):
        for path in self.binaries():
            needed = dynamic(read_bytes(path))["needed"]
            self.assertTrue(any(name.startswith("libcudart.so") for name in needed), needed)
            for name in needed:
                self.assertNotRegex(name, r"libcuda\.so|libcublas|libnvidia", path)

    def test_library_path_comes_before_the_run_path(self):
        for path in self.binaries():
            self.assertTrue(dynamic(read_bytes(path))["runpath"], f"{path} has no RUNPATH")


class Defaults(unittest.TestCase):
    def test_columns_that_come_by_16_get_such_a_default_on_the_machine(self):
        for options, shape in (((), "301x557x331"), (("--act=swiglu",), "301x560x331")):
            ended = run("--stage=17", *options, device="machine")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertIn(shape, ended.stdout)
        refused = run("--stage=17", "--act=swiglu", "--n=557", device="machine")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("n must be a multiple of 16", refused.stderr)

    def test_an_empty_number_of_sms_is_none(self):
        sizes = ("--m=8", "--n=8", "--k=8")
        ended = run("--stage=2", *sizes, device="machine", MACHINE_SMS="")
        self.assertIn("\n6 SMs (MACHINE_SMS)\n", ended.stdout)

    def test_make_bench_asks_each_variant_for_a_call_that_it_takes(self):
        rows = select("@2048/burst", registry.read(LADDER))
        self.assertIn("14:unpromoted(scales=tensor)@2048/burst", map(row_name, rows))
        asked = "".join(row_text(row) + "\n" for row in rows)
        ended = run("--choices", device="machine", stdin=asked)
        self.assertEqual(ended.returncode, 0, ended.stderr)


class ExitCodes(unittest.TestCase):
    def test_help_and_list_need_no_gpu(self):
        self.assertEqual(run("--help").returncode, 0)
        self.assertEqual(run("--list").returncode, 0)

    def test_wrong_usage_is_2_and_named(self):
        for options, word in (
            (["--bogus"], "bogus"), (["--m=-1"], "-1"), (["--m=many"], "many"),
            (["--variant=bogus"], "bogus"), (["--data=bogus"], "bogus"),
        ):  # fmt: skip
            with self.subTest(options):
                ended = run(*options)
                self.assertEqual(ended.returncode, 2, ended.stderr)
                self.assertIn(word, ended.stderr)

    def test_no_device_is_3_and_says_what_is_missing(self):
        for program in [LADDER, *stage_programs()]:
            ended = run(program=program)
            self.assertEqual(ended.returncode, 3, ended.stderr)
            self.assertRegex(ended.stderr, r"GPU|driver")
            self.assertNotIn("TFLOPS", ended.stdout)


if __name__ == "__main__":
    unittest.main()
