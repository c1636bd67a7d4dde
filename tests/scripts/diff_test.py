"""diff.py on two small rungs."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import diff  # noqa: E402

WRAPPERS = """// st.shared in a comment
__device__ inline void bar_sync() { asm volatile("bar.sync 0;" ::: "memory"); }
__device__ inline bool try_wait(uint64_t* bar) {
  asm volatile(
      "{ .reg .pred p;\\n"
      "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\\n"
      "  selp.u32 %0, 1, 0, p; }"
      : "=r"(done) : "r"(bar) : "memory");
  return done;
}
__device__ inline void copy(void* dst) {
  asm volatile("cp.async.bulk.tensor.2d.tile"
               ".multicast::cluster [%0];" ::"r"(dst) : "memory");
}
__device__ inline void wait(uint64_t* bar) {
  while (!try_wait(bar)) {
  }
}
"""
FIRST = '#include "common/ptx/all.cuh"\nvoid gemm() {\n  ptx::bar_sync();\n  multiply();\n}\n'
SECOND = (
    '#include "common/ptx/all.cuh"\n#include "common/tile/ring.h"\nvoid gemm() {\n'
    "  if (producer) {\n    ptx::bar_sync();\n    ptx::copy(smem);\n  }\n  ptx::wait(bar);\n"
    "  divide();\n}\n"
)
MULTIPLY = """// Multiplies one slot.
template <class T>
__device__ void multiply(float* acc) {
  ptx::bar_sync();
}
"""
STAGE = """// Stages the results.
template <class T>
__device__ void stage(float* acc) {
  ptx::copy(acc);
}
"""
KERNEL = "template <class T>\n__global__ void gemm() {\n  %s<T>(acc);\n}\n"


def header(function):
    return f'#pragma once\n#include "common/ptx/all.cuh"\nnamespace block {{\n\n{function}\n}}\n'


class Diff(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = Path(self.scratch.name)
        for name, text in {
            "common/ptx/all.cuh": WRAPPERS, "common/tile/ring.h": "struct Ring {};\n",
            "stages/01_one.cu": FIRST, "stages/02_two.cu": SECOND,
        }.items():  # fmt: skip
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.one, self.two = (str(self.root / "stages" / n) for n in ("01_one.cu", "02_two.cu"))

    def run_diff(self, name, **env):
        return subprocess.run(
            [sys.executable, str(SCRIPTS / "diff.py"), f"stages/{name}"], cwd=self.root,
            env=dict(os.environ, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            check=False,
        )

    def test_the_rung_before(self):
        self.assertEqual(diff.before(self.two), self.one)
        self.assertIsNone(diff.before(self.one))
        three = self.root / "stages/03_three.cu"
        three.write_text(FIRST, encoding="utf-8")
        self.assertEqual(diff.before(str(three)), self.two)
        three.write_text("// A rung.\n// Grown from stages/01_one.cu\n" + FIRST, encoding="utf-8")
        self.assertEqual(diff.before(str(three)), self.one)

    def test_changed_lines_ignore_white_space_and_count_a_replaced_line_once(self):
        # Added: the include, "if", "copy", "}", "wait"; replaced: "multiply" by "divide".
        self.assertEqual(diff.Change(self.one, self.two).lines(), (6, 1, 6))

    def test_instructions_are_found_through_helpers_and_split_literals(self):
        known = diff.instructions(self.one, str(self.root))
        self.assertEqual(known, {"bar.sync": "bar_sync"})
        found = diff.instructions(self.two, str(self.root))
        self.assertEqual(
            sorted(found),
            ["bar.sync", "cp.async.bulk.tensor.2d.tile.multicast::cluster",
             "mbarrier.try_wait.parity.shared::cta.b64"],
        )  # fmt: skip

    def test_a_branch_in_a_wrapper_is_no_function(self):
        (self.root / "common/ptx/all.cuh").write_text(WRAPPERS + """
__device__ inline void store_four(void* dst) { asm volatile("st.global.v2.b32 [%0];" ::"l"(dst)); }
__device__ inline void store(void* dst, int count) {
  if (count >= 4) {
    store_four(dst);
  }
}
""", encoding="utf-8")  # fmt: skip
        self.assertNotIn("st.global.v2.b32", diff.instructions(self.two, str(self.root)))
        Path(self.two).write_text(SECOND.replace("divide()", "ptx::store(d, 4)"), encoding="utf-8")
        self.assertIn("st.global.v2.b32", diff.instructions(self.two, str(self.root)))

    def test_an_instruction_of_any_width_that_a_macro_makes_is_found_once(self):
        (self.root / "common/ptx/all.cuh").write_text(
            WRAPPERS
            + """#define PRODUCT(N, D, ...)                             \\
  __device__ inline void product_m64n##N##k16(float* d) {  \\
    asm volatile("wgmma.mma_async.m64n" #N "k16.f32 " #D ";" : __VA_ARGS__); \\
  }
PRODUCT(8, 4, "f"(d[0]))
PRODUCT(16, 8, "f"(d[0]), "f"(d[1]))
template <int N>
__device__ inline void copy_and_multiply(float* d) {
  if constexpr (N == 8) product_m64n8k16(d);
  if constexpr (N == 16) product_m64n16k16(d);
}
""", encoding="utf-8")  # fmt: skip
        Path(self.two).write_text(SECOND.replace("ptx::copy(smem)", "ptx::copy_and_multiply<8>(d)"),
                                  encoding="utf-8")  # fmt: skip
        self.assertEqual(
            sorted(diff.instructions(self.two, str(self.root))),
            ["bar.sync", "mbarrier.try_wait.parity.shared::cta.b64",
             "wgmma.mma_async.m64nNk16.f32"],
        )  # fmt: skip

    def test_what_the_rungs_multiply_with(self):
        rungs = {
            "13_layouts": ["operands     m64nNk16.f32.bf16.bf16  (wgmma_m64nNk16_f32_bf16_bf16)",
                           "instruction  m64nNk16.f32.f16.f16  (wgmma_m64nNk16_f32_f16_f16)",
                           "instruction  m64nNk8.f32.tf32.tf32  (wgmma_m64nNk8_f32_tf32_tf32)"],
            "14_block_scaled": ["instruction  m64nNk32.f32.e4m3.e4m3  (wgmma_m64nNk32_f32_e4m3_e4m3)",
                                "instruction  m64nNk32.s32.s8.s8  (wgmma_m64nNk32_s32_s8_s8)"],
            "15_mixed_input": ["operands     m64nNk16.f32.bf16.bf16  (wgmma_rs_m64nNk16)"],
        }  # fmt: skip
        for rung, expected in rungs.items():
            printed = subprocess.run(
                [sys.executable, "scripts/diff.py", f"stages/{rung}.cu"], cwd=SCRIPTS.parent,
                stdout=subprocess.PIPE, text=True, check=True,
            ).stdout  # fmt: skip
            lines = [line for line in printed.splitlines() if "wgmma.mma_async.sync" in line]
            said = [line.replace("wgmma.mma_async.sync.aligned.", "") for line in lines]
            self.assertEqual([line for line in said if line.startswith("new ")],
                             [f"new {line}" for line in expected])  # fmt: skip

    def test_summary_and_diff(self):
        ended = self.run_diff("02_two.cu")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        lines = ended.stdout.splitlines()
        self.assertEqual(lines[0], "stages/01_one.cu -> stages/02_two.cu")
        self.assertIn("6 lines added, 1 removed", lines[1])
        self.assertIn("new include      common/tile/ring.h", lines)
        self.assertIn("+  divide();", lines)
        self.assertNotIn("-  ptx::bar_sync();", lines)

    def test_without_git(self):
        ended = self.run_diff("02_two.cu", PATH="")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("+divide();", ended.stdout.splitlines())

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def rungs_with_blocks(self):
        """Rung 2 has multiply() in its file, rung 3 both functions from common/block, rung 4 too."""
        self.write("common/block/multiply.cuh", header(MULTIPLY))
        self.write("common/block/stage.cuh", header(STAGE))
        wrappers = '#include "common/ptx/all.cuh"\n'
        blocks = '#include "common/block/multiply.cuh"\n#include "common/block/stage.cuh"\n'
        both = KERNEL % "block::multiply<T>(acc);\n  block::stage"
        two = self.write("stages/02_two.cu", wrappers + MULTIPLY + "\n" + KERNEL % "multiply")
        three = self.write("stages/03_three.cu", blocks + wrappers + both)
        four = self.write("stages/04_four.cu", blocks + wrappers + both.replace("acc", "sum"))
        return two, three, four

    def test_what_moved_to_common_block_unchanged_is_no_change_and_what_is_new_there_is(self):
        two, three, four = self.rungs_with_blocks()
        change = diff.Change(two, three, str(self.root))
        self.assertEqual(change.moved, {"multiply": "common/block/multiply.cuh"})
        self.assertEqual(list(change.added), ["common/block/stage.cuh"])
        # One call became two; two includes and the five lines of stage() are new.
        self.assertEqual(change.lines(), (9, 1, 9))
        self.assertEqual(diff.Change(three, four, str(self.root)).lines(), (2, 2, 2))
        self.write("common/block/multiply.cuh", header(MULTIPLY.replace("bar_sync", "copy")))
        change = diff.Change(two, three, str(self.root))
        self.assertEqual(change.moved, {})
        self.assertEqual(len(change.added), 2)
        self.assertEqual(change.lines()[:2], (14, 6))

    def test_a_header_of_common_block_is_shown_where_it_is_first_included(self):
        self.rungs_with_blocks()
        for env in ({}, {"PATH": ""}):
            ended = self.run_diff("03_three.cu", **env)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            lines = ["".join(line.split()) for line in ended.stdout.splitlines()]
            self.assertIn("movedunchangedmultiply,nowincommon/block/multiply.cuh", lines)
            self.assertIn("newinstructioncp.async.bulk.tensor.2d.tile.multicast::cluster(copy)", lines)
            self.assertIn("+__device__voidstage(float*acc){", lines)
            self.assertNotIn("-__device__voidmultiply(float*acc){", lines)
            self.assertNotIn("+__device__voidmultiply(float*acc){", lines)
            self.assertIn("+block::multiply<T>(acc);", lines)
            ended = self.run_diff("04_four.cu", **env)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertNotIn("__device__", ended.stdout)
            self.assertNotIn("moved unchanged", ended.stdout)

    def test_the_first_rung_has_nothing_before_it(self):
        ended = self.run_diff("01_one.cu")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("first rung", ended.stderr)

    def test_help_and_a_file_that_there_is_not(self):
        ended = subprocess.run([sys.executable, str(SCRIPTS / "diff.py"), "--help"],
                               stdout=subprocess.PIPE, text=True, check=True)  # fmt: skip
        self.assertIn(diff.__doc__.split("\n")[0], ended.stdout)
        ended = self.run_diff("03_three.cu")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("There is no file stages/03_three.cu", ended.stderr)
        ended = self.run_diff("../common/tile/ring.h")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("stages/../common/tile/ring.h is no file of a rung", ended.stderr)


if __name__ == "__main__":
    unittest.main()
