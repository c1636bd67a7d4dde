"""nvcc_gate.py on logs of ptxas whose verdict is known."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import nvcc_gate  # noqa: E402

PTX = """.visible .entry gemm(
\t.param .u64 gemm_param_0
)
{
\t.loc\t1 7 3
\twgmma.fence.sync.aligned;
}
\t.file\t1 "/somewhere/stages/05_wgmma.cu"
"""
CLEAN = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
"""


class Findings(unittest.TestCase):
    def meanings(self, log, ptx=PTX):
        return [meaning for _, meaning in nvcc_gate.findings(log, ptx)]

    def test_a_clean_log_has_none(self):
        self.assertEqual(self.meanings(CLEAN), [])

    def test_every_code_is_refused_as_note_and_as_warning(self):
        for code, meaning in nvcc_gate.MEANING.items():
            for kind in ("info   ", "warning"):
                said = f"ptxas {kind} : ({code}) Potential Performance Loss: something\n"
                self.assertEqual(self.meanings(said + CLEAN), [meaning])

    def test_a_code_that_nobody_knows_is_refused(self):
        self.assertEqual(
            self.meanings("ptxas info : (C7599) something new\n" + CLEAN), [nvcc_gate.UNKNOWN]
        )

    def test_a_compile_that_failed_is_asked_for_nothing_more(self):
        """BM = 256 in rung 5: ptxas ends at the first kernel, and no log is there for the others."""
        log = ("ptxas fatal   : (C7602) Insufficient registers (128) to compile instruction at line "
               "5319 in function gemm. Try to compile with register target of 154 or higher.\n")
        ((said, meaning),) = nvcc_gate.findings(log, PTX, compiled=False)
        self.assertIn("C7602", said)
        self.assertEqual(meaning, nvcc_gate.MEANING["C7602"])
        self.assertEqual(nvcc_gate.findings("error: expected a ;\n", PTX, compiled=False), [])

    def test_every_code_has_its_place_in_the_documentation(self):
        page = (Path(__file__).resolve().parents[2] / "docs/ptxas.md").read_text(encoding="utf-8")
        for code in nvcc_gate.MEANING:
            self.assertIn(code, page)

    def test_spills_and_stack_frames(self):
        spilled = CLEAN.replace("0 bytes spill loads", "4 bytes spill loads")
        self.assertEqual(self.meanings(spilled), [nvcc_gate.SPILL])
        framed = CLEAN.replace("0 bytes stack", "256 bytes stack")
        self.assertEqual(self.meanings(framed), [nvcc_gate.STACK])
        ((said, _),) = nvcc_gate.findings(framed, PTX)
        self.assertIn("gemm: 256 bytes stack frame", said)

    def test_a_log_that_says_nothing_about_a_kernel_is_refused(self):
        ((said, meaning),) = nvcc_gate.findings("", PTX)
        self.assertIn("gemm", said)
        self.assertIn("-Xptxas -v", meaning)

    def test_a_ptx_line_is_traced_to_its_source_line(self):
        injected = "ptxas info : (C7517) warpgroup.wait is injected in around line 6 by compiler\n"
        ((said, _),) = nvcc_gate.findings(injected + CLEAN, PTX)
        self.assertTrue(said.endswith("stages/05_wgmma.cu:7]"), said)


class Dependencies(unittest.TestCase):
    def test_the_toolkits_headers_are_left_out(self):
        text = (
            "/x/object.o : stages/05_wgmma.cu \\\n    common/ptx/tma.cuh \\\n"
            "    /usr/cuda/include/cuda.h\n\ncommon/ptx/tma.cuh:\n"
        )
        self.assertEqual(
            nvcc_gate.dependencies(text), ["stages/05_wgmma.cu", "common/ptx/tma.cuh"]
        )


class Compiler(unittest.TestCase):
    def test_one_that_is_not_there_or_makes_nothing_is_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            for compiler, said in (("/nonexistent/nvcc", "/nvcc"), ("true", "object.d")):
                ended = subprocess.run(
                    [sys.executable, "scripts/nvcc_gate.py", "stages/01_smem_tiled.cu",
                     f"{folder}/k.o", f"{folder}/k", "--", compiler], cwd=ROOT, text=True,
                    capture_output=True, check=False,
                )  # fmt: skip
                self.assertEqual((ended.returncode, ended.stdout), (2, ""))
                self.assertRegex(ended.stderr, f"^[^\\n]*No such file or directory: .*{said}'\\n$")
                self.assertEqual(list(Path(folder).iterdir()), [])


if __name__ == "__main__":
    unittest.main()
