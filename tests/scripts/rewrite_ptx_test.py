"""rewrite_ptx.py: instructions are found where the source says, edits land there, every rung's PTX
is read, stamped and slowed down."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from lib import registry  # noqa: E402
from lib import replace, stamps  # noqa: E402
from lib.cli import Problem  # noqa: E402
from lib.ptx import Module, load_module  # noqa: E402
from lib.tools import find_tool  # noqa: E402

STAGE = """first line
  wait(bar);  // until it is full
  multiply(acc);
void multiply() { commit(); }
"""
PTX = """.version 9.0
.target sm_90a
.visible .entry k_one(
	.param .u32 k_one_param_0
)
.maxntid 128, 1, 1
{{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<9>;
	.loc	1 1 1
	mov.u32 	%r1, %tid.x;

$L_1:
	.loc	1 2 3
	.loc	2 1 1, function_name $L__info_string0, inlined_at 1 2 3
	// begin inline asm
	{{ .reg .pred p;
  mbarrier.try_wait.parity.shared::cta.b64 p, [%r2+8], %r3;
  selp.u32 %r4, 1, 0, p; }}
	// end inline asm
	@!%p1 bra 	$L_1;

	.loc	1 4 20, function_name $L__info_string1, inlined_at 1 3 3
	wgmma.commit_group.sync.aligned;
	ld.shared.v2.b32 {{%r5, %r6}}, [%r2];
	@%p1 bra 	$L_2;

	bar.sync 0;

$L_2:
	st.global.b32 [%rd1], %r5;

$L_3:
	ret;

}}
.visible .entry k_two()
{{
	bar.sync 0;
	ret;
}}
	.file	1 "{0}/stage.cu"
	.file	2 "{0}/wrapper.cuh"
	.section	.debug_str
{{
$L__info_string0:
.b8 95,90
}}
"""


def rungs():
    stages = sorted((ROOT / "stages").glob("[0-9]*_*.cu"))
    built = [ROOT / "build" / "ptx" / (path.stem + ".ptx") for path in stages]
    return [path for path in built if path.exists()]


class Reading(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        (Path(scratch.name) / "stage.cu").write_text(STAGE, encoding="utf-8")
        (Path(scratch.name) / "wrapper.cuh").write_text("try_wait\n", encoding="utf-8")
        self.module = Module(PTX.format(scratch.name))
        self.kernel = self.module.kernel("k_one")

    def test_instructions_have_guard_opcode_and_operands(self):
        listed = [(i.guard.strip(), i.opcode, i.operands) for i in self.kernel.instructions]
        self.assertEqual(listed[1:5], [
            ("", "mbarrier.try_wait.parity.shared::cta.b64", ["p", "[%r2+8]", "%r3"]),
            ("", "selp.u32", ["%r4", "1", "0", "p"]),
            ("@!%p1", "bra", ["$L_1"]),
            ("", "wgmma.commit_group.sync.aligned", []),
        ])
        self.assertEqual(listed[5][2], ["{%r5, %r6}", "[%r2]"])
        self.assertEqual(len(listed), 10)
        self.assertEqual(len(self.module.kernel("k_two").instructions), 2)

    def test_any_line_that_an_instruction_was_inlined_through_finds_it(self):
        for anchor in ("until it is full", "try_wait"):
            self.assertEqual(self.kernel.find("selp.*", at=anchor), self.kernel.find("selp.*"))
        commit = self.kernel.one("wgmma.commit_group.*")
        for anchor in ("multiply(acc)", "commit()"):
            self.assertEqual(self.kernel.one("wgmma.*", at=anchor), commit)
        self.assertEqual(self.kernel.find("wgmma.*", at="until it is full"), [])

    def test_what_is_not_there_once_is_refused_with_the_count(self):
        with self.assertRaisesRegex(Problem, 'k_one has 2 instructions bra, where exactly one'):
            self.kernel.one("bra")
        with self.assertRaisesRegex(Problem, 'has 0 instructions ldmatrix.\\* from "x"'):
            self.kernel.one("ldmatrix.*", at="x")
        self.assertEqual(self.kernel.find("bra")[1].operands, ["$L_2"])
        with self.assertRaisesRegex(Problem, "no kernel k_three, only k_one, k_two"):
            self.module.kernel("k_three")

    def test_edits_land_and_nothing_else_changes(self):
        kernel = self.kernel
        self.assertEqual(self.module.rewritten(), self.module.text)
        load = kernel.one("ld.shared.*")
        kernel.replace(load, opcode="ld.shared.v2.u32", operands={1: "[%r2+4]"})
        kernel.delete(kernel.one("bar.sync"))
        kernel.move_after(kernel.one("wgmma.commit_group.*"), kernel.one("st.global.*"))
        kernel.insert_at(kernel.next_label(kernel.one("st.global.*")), "// behind label 3")
        kernel.insert_before(kernel.one("mbarrier.*"), "// first")
        kernel.insert_before(kernel.one("mbarrier.*"), "// second")
        text = self.module.rewritten()
        self.assertIn("ld.shared.v2.u32 {%r5, %r6}, [%r2+4];", text)
        self.assertEqual(text.count("bar.sync 0;"), 1)
        self.assertIn("st.global.b32 [%rd1], %r5;\n\twgmma.commit_group.sync.aligned;", text)
        self.assertIn("$L_3:\n\t// behind label 3", text)
        self.assertIn("// first\n\t// second\n\tmbarrier.try_wait", text)
        self.assertEqual(len(Module(text).kernel("k_one").instructions), 9)

    def test_two_edits_of_one_instruction_are_refused(self):
        self.kernel.delete(self.kernel.one("bar.sync"))
        self.kernel.replace(self.kernel.one("bar.sync"), operands=["1"])
        with self.assertRaisesRegex(Problem, "two edits of one instruction"):
            self.module.rewritten()

    def test_sleeps_differ_by_seed_only_in_the_seed(self):
        texts = []
        for seed in (1, 2):
            module = Module(self.module.text)
            self.assertEqual(stamps.add_sleeps(module.kernel("k_one"), seed), 2)
            texts.append(module.rewritten())
        different = [a for a, b in zip(*(t.splitlines() for t in texts)) if a != b]
        self.assertEqual(len(different), 1)
        self.assertIn("mad.lo.u32 %sleep_state", different[0])
        self.assertEqual(texts[0].count("nanosleep.u32"), 2)

    def test_stamps_come_with_a_list_of_what_they_are(self):
        module = self.module
        self.assertEqual(stamps.add_stamps(module, [module.kernel("k_one")], 8), 3)
        text = module.rewritten()
        sites = [line.split("|") for line in text.splitlines() if "trace site: " in line]
        self.assertEqual([site[2] for site in sites], ["wait end", "bar end", "epilogue end"])
        self.assertEqual([site[3] for site in sites], ["0", "", ""])  # a group without products
        self.assertIn("stage.cu:2  wait(bar);", sites[0][4])
        self.assertIn("// trace first CTA: 8\n", text)
        self.assertIn("sub.u32 trace_a, trace_a, 8;", text)
        self.assertEqual(len(Module(text).names), 2)

    def test_in_front_of_wgmma_a_stamp_only_reads_the_clock(self):
        module = self.module
        stamps.add_stamps(module, [module.kernel("k_one")])
        text = module.rewritten()
        held = text[text.index("mbarrier.try_wait"):text.index("selp.u32 %r4")]
        site = 1 << stamps.TRACE_ARGUMENT_BITS
        self.assertIn(f"mov.u32 trace_x, %r2; add.u32 trace_x, trace_x, {site} + 8;", held)
        self.assertIn("@p mov.u32 %trace_c1, %clock;", held)
        self.assertNotIn("st.global", held)
        behind = text[text.index("bar.sync 0;"):text.index("ret;")]
        self.assertEqual(behind.count("mov.u32 trace_c, %clock;"), 2)
        self.assertEqual(behind.count("mov.u32 trace_c, %trace_c1;"), 2)  # behind the epilogue, at the end
        self.assertEqual(behind.count("st.global.v2.u32 [%trace_next]"), 4)

    def test_a_kernel_without_wgmma_has_stamps_at_beginnings_too(self):
        module = Module(self.module.text.replace("wgmma.commit_group.sync.aligned", "bar.sync 1"))
        stamps.add_stamps(module, [module.kernel("k_one")])
        sites = [line.split("|") for line in module.rewritten().splitlines() if "trace site: " in line]
        self.assertEqual([site[2] for site in sites], [
            "wait begin", "wait end", "bar begin", "bar end", "bar begin", "bar end", "epilogue begin",
            "epilogue end",
        ])

    def test_what_control_can_come_to_wgmma_from(self):
        kernel = self.kernel
        found = stamps.reaches(kernel, kernel.find("wgmma.commit_group*"))
        self.assertEqual([i.opcode.split(".")[0] for i in found], ["mov", "mbarrier", "selp", "bra"])
        self.assertEqual(len(stamps.reaches(kernel, kernel.find("ret"))), 9)


@unittest.skipUnless(rungs(), "no PTX in build/ptx: run make")
class CommandLine(unittest.TestCase):
    def test_a_file_that_is_no_text_is_refused_with_the_place(self):
        with tempfile.TemporaryDirectory() as folder:
            image = Path(folder, "image.ptx")
            image.write_bytes(b".version\xff")
            ended = subprocess.run(
                [sys.executable, ROOT / "scripts/rewrite_ptx.py", "--sleep=1", image, image],
                capture_output=True, text=True,
            )  # fmt: skip
        self.assertEqual(ended.returncode, 2, ended.stderr)
        self.assertRegex(ended.stderr, r"^rewrite_ptx: \S+ is no PTX: byte 8 is not .*\.\n$")


class Rungs(unittest.TestCase):
    def test_every_rung_is_read_and_every_instruction_has_a_place(self):
        for path in rungs():
            module = load_module(path)
            for name in module.names:
                kernel = module.kernel(name)
                self.assertGreater(len(kernel.instructions), 20, name)
                placed = [i for i in kernel.instructions if i.places]
                self.assertGreater(len(placed), 0.9 * len(kernel.instructions), name)

    def test_every_rung_takes_sleeps_and_stamps(self):
        tool = find_tool("ptxas")
        with tempfile.TemporaryDirectory() as folder:
            for path in rungs():
                stamped = load_module(path)
                kernel = stamped.kernel(stamped.names[0])
                self.assertGreaterEqual(stamps.add_stamps(stamped, [kernel]), 4, path)
                both = Module(stamped.rewritten())
                kernel = both.kernel(stamped.names[0])
                self.assertGreaterEqual(stamps.add_sleeps(kernel, 1), 2, path)
                if tool and path.name.startswith("08"):
                    out = os.path.join(folder, "out.ptx")
                    Path(out).write_text(both.rewritten(), encoding="utf-8")
                    said = replace.assemble(out, os.path.join(folder, "out.cubin"))
                    self.assertNotIn("C75", said)

    @unittest.skipUnless(
        list((ROOT / "build/machine").glob("libcudart.so.*")), "no PTX machine: run make machine"
    )
    def test_a_stamped_rung_is_as_right_and_as_free_of_races_as_it_was(self):
        environment = dict(os.environ, LADDER_DEVICE="machine", MACHINE_POLICY="lazy")
        with tempfile.TemporaryDirectory() as folder:
            for path in rungs():
                program = ROOT / "build" / f"stage-{path.name[:2]}"
                if not program.exists() or path.name[:2] > "10":  # then a rung chooses
                    continue
                row = next(r for r in registry.read(program) if r["result"])
                module = load_module(path)
                stamps.add_stamps(module, [module.kernel(row["kernel"])])
                stamped = os.path.join(folder, path.name)
                Path(stamped).write_text(module.rewritten(), encoding="utf-8")
                options = [f"--variant={row['variant']}", "--m=256", "--n=512", "--k=192", "--check"]
                command, more = replace.machine_run([str(program), *options], stamped)
                ended = subprocess.run(
                    command, env={**environment, **more}, capture_output=True, text=True, check=False
                )
                self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)


if __name__ == "__main__":
    unittest.main()
