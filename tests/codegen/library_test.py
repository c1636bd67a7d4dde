"""The library as others get it: what it exports, what `make install` installs, a program in C."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "libladder.so"
HEADER = ROOT / "common" / "host" / "ladder.h"

PROGRAM = r"""
#include <ladder.h>
#include <stdio.h>

int main(void) {
  printf("%d stages, the first is %s\n", ladder_stage_count(), ladder_stage_name(1));
  const int code = ladder_gemm_bf16(-1, 1, 1, 1, 0, 8, 0, 8, 0, 8, 0);
  printf("%d: %s\n", code == LADDER_REFUSED, ladder_last_error());
  return 0;
}
"""

# Ones times ones: every element is K.
GEMM = r"""
#include <ladder.h>
#include <stdio.h>

int cudaMalloc(void**, size_t);
int cudaMemcpy(void*, const void*, size_t, int);
int cudaDeviceSynchronize(void);

int main(void) {
  static unsigned short ones[64 * 64], result[64 * 64];
  void *a, *b, *d;
  int wrong = 0;
  for (int i = 0; i < 64 * 64; ++i) ones[i] = 0x3f80;
  if (cudaMalloc(&a, sizeof ones) || cudaMalloc(&b, sizeof ones) || cudaMalloc(&d, sizeof ones)) return 9;
  if (cudaMemcpy(a, ones, sizeof ones, 1) || cudaMemcpy(b, ones, sizeof ones, 1)) return 9;
  if (ladder_gemm_bf16(0, 64, 64, 64, a, 64, b, 64, d, 64, 0)) puts(ladder_last_error());
  if (cudaDeviceSynchronize() || cudaMemcpy(result, d, sizeof result, 2)) return 9;
  for (int i = 0; i < 64 * 64; ++i) wrong += result[i] != 0x4280;
  printf("%d wrong by %s\n", wrong, ladder_last_kernel());
  return 0;
}
"""


def declared():
    """Functions that the header declares."""
    code = re.sub(r"//.*", "", HEADER.read_text(encoding="utf-8"))
    return set(re.findall(r"\b(ladder_\w+)\(", code))


def run(*command, **variables):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        [str(word) for word in command], env={**clean, **variables}, cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300,
    )  # fmt: skip


class Library(unittest.TestCase):
    def test_it_exports_the_c_api_and_nothing_else(self):
        listed = run("nm", "-D", "--defined-only", LIBRARY).stdout
        names = {line.split()[-1] for line in listed.splitlines()}
        self.assertEqual(names, declared())

    def test_a_program_in_c_is_built_against_what_is_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            # -o: library and machine are taken as they are, whatever flags they were built with.
            ended = run("make", "-o", "build/libladder.so", "-o", "machine", "install", "PREFIX=/opt",
                        f"DESTDIR={folder}")  # fmt: skip
            self.assertEqual(ended.returncode, 0, ended.stdout)
            installed = Path(folder, "opt")
            files = {str(p.relative_to(installed)) for p in installed.rglob("*") if p.is_file()}
            ours = {name for name in files if "ptx-machine" not in name}
            self.assertEqual(ours, {"lib/libladder.so", "include/ladder.h"})

            source = Path(folder, "program.c")
            source.write_text(PROGRAM, encoding="utf-8")
            program = Path(folder, "program")
            ended = run("cc", "-std=c99", "-pedantic", "-Wall", "-Werror", source, "-o", program,
                        f"-I{installed}/include", f"-L{installed}/lib", "-lladder",
                        f"-Wl,-rpath,{installed}/lib")  # fmt: skip
            self.assertEqual(ended.returncode, 0, ended.stdout)
            ended = run(program)
        stems = sorted(path.stem for path in (ROOT / "stages").glob("*.cu"))
        first, second = ended.stdout.splitlines()
        self.assertEqual(first, f"{int(stems[-1][:2])} stages, the first is {stems[0]}")
        self.assertRegex(second, "^1: stage is -1: ")
        self.assertEqual(ended.returncode, 0)

    def test_its_kernels_run(self):
        runtime = next((ROOT / "build/machine").glob("libcudart.so.*"))
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder, "gemm.c"), Path(folder, "gemm")
            source.write_text(GEMM, encoding="utf-8")
            ended = run("cc", "-std=c99", source, "-o", program, f"-I{HEADER.parent}", LIBRARY, runtime,
                        f"-Wl,-rpath,{LIBRARY.parent}")  # fmt: skip
            self.assertEqual(ended.returncode, 0, ended.stdout)
            ended = run(program, LD_LIBRARY_PATH=str(runtime.parent), MACHINE_SMS="6")
        self.assertRegex(ended.stdout, "^0 wrong by (11_autotuned|12_stream_k)/\\w+$")
        self.assertEqual(ended.returncode, 0, ended.stdout)

    def test_the_header_alone_is_c_and_cpp(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(HEADER, folder)
            for language in ("c", "c++"):
                ended = run("cc", "-x", language, "-fsyntax-only", "-pedantic", "-Wall", "-Wextra",
                            "-Werror", "-include", Path(folder, HEADER.name), "/dev/null")
                self.assertEqual(ended.returncode, 0, ended.stdout)


if __name__ == "__main__":
    unittest.main()
