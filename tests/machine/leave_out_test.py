"""ptx-machine --leave-out, and docs/leave_out.md, which has what it finds in the rungs."""

import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

from runtime_test import PROGRAMS, ROOT, RUN, run

sys.path.insert(0, str(ROOT / "scripts"))
import leave_out  # noqa: E402
from lib.cli import Problem  # noqa: E402

RUNG_6 = ["build/stage-06", "--variant=2consumers", "--m=128", "--n=256", "--k=640", "--check",
          "--data=ints"]  # fmt: skip


class Tool(unittest.TestCase):
    def test_each_says_what_is_noticed_and_one_shows_its_report(self):
        ended = run(RUN, "--sms=2", "--leave-out=each", *RUNG_6)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertTrue(ended.stdout.startswith(
            "Instructions that order others and were executed: 9. Without each of them, under eager, "
            "lazy, random, the\nfirst thing that is noticed:\n"), ended.stdout)  # fmt: skip
        self.assertIn("\nNoticed: 9 of 9.\n", ended.stdout)
        self.assertRegex(ended.stdout, r"(?m)^  8  shared-race, eager         ptx::wgmma_wait_group<")
        self.assertNotIn("NOTHING", ended.stdout)
        ended = run(RUN, "--sms=2", "--policy=lazy", "--leave-out=8", *RUNG_6)
        self.assertEqual(ended.returncode, 1)
        self.assertTrue(ended.stderr.startswith("ptx-machine: without wgmma.wait_group at stages/06"))
        for part in ("Race in kernel ", "Rule: shared-race", "policy lazy: exit code 1"):
            self.assertIn(part, ended.stderr)

    def test_the_programs_own_check_notices_too_and_policies_are_those_that_are_given(self):
        ended = run(RUN, "--sms=2", "--no-check", "--policy=lazy", "--leave-out=each", *RUNG_6)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertIn("under lazy, the\n", ended.stdout)
        self.assertRegex(ended.stdout, r"(?m)^  8  exit code 1, lazy          ptx::wgmma_wait_group<")
        # Without the checker nobody sees that no fence follows the init of the mbarriers.
        self.assertRegex(ended.stdout, r"(?m)^  3  NOTHING                    ptx::fence_mbarrier_init")
        self.assertRegex(ended.stdout, r"\nNot noticed: (\d, )*3.*\. This run does not need them, or ")

    def test_the_list_as_json(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "list.jsonl"
            ended = run(RUN, "--sms=2", f"--json={file}", "--leave-out=each", *RUNG_6)
            self.assertIn("\nNoticed: 9 of 9.\n", ended.stdout)
            lines = file.read_text("utf-8").splitlines()
        ended = run(RUN, "--sms=2", "--json", "--leave-out=each", *RUNG_6)
        self.assertEqual(ended.stdout.splitlines(), lines)
        found = [json.loads(line) for line in lines]
        self.assertEqual(len(found), 9)
        self.assertEqual({**found[7], "line": 0, "place": ""}, {
            "executed": True, "noticed": "shared-race", "policy": "eager",
            "instruction": "wgmma.wait_group", "file": "stages/06_warp_specialized.cu", "line": 0,
            "source": "ptx::wgmma_wait_group<0>();  // meanwhile the other warpgroup's products run",
            "place": ""})  # fmt: skip

    def test_what_makes_no_sense_is_2_and_one_sentence(self):
        for options, said in (
            (["--leave-out=all", *RUNG_6], "--leave-out is 'all' but must be each, or a number of "),
            (["--leave-out", *RUNG_6], "--leave-out is '' but must be each, or a number of "),
            (["--leave-out=10", *RUNG_6],
             "--leave-out is 10, but there are 1 to 9; --leave-out=each lists them.\n"),
            (["--leave-out=1", PROGRAMS / "hello"],
             "--leave-out is 1, but nothing that orders others was executed.\n"),
            (["--leave-out=each", "sh", "-c", "echo; exit 7"],
             "with nothing left out the program ends with exit code 7 under policy eager: mend that "),
        ):  # fmt: skip
            ended = run(RUN, *options)
            self.assertEqual(ended.returncode, 2, options)
            self.assertIn(said, ended.stderr)

    def test_of_many_inlined_calls_the_last_have_lines_of_their_own(self):
        name = "meet_all_threads_of_the_block_behind_a_name_that_is_long_"
        calls = "".join(
            f"\n__device__ __forceinline__ void {name}{i}() {{\n  {name}{i - 1}();\n}}\n"
            for i in range(1, 6))  # fmt: skip
        source = (f"__device__ __forceinline__ void {name}0() {{\n  __syncthreads();\n}}\n{calls}"
                  "__global__ void copy(int* to) {\n  __shared__ int all[64];\n"
                  f"  all[threadIdx.x] = threadIdx.x;\n  {name}5();\n"
                  "  to[threadIdx.x] = all[63 - threadIdx.x];\n}\n"
                  "int main() {\n  int* to = nullptr;\n  cudaMalloc(&to, 64 * sizeof *to);\n"
                  "  copy<<<1, 64>>>(to);\n  return cudaDeviceSynchronize();\n}\n")  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="a_folder_whose_name_is_long_") as folder:
            file = Path(folder) / "copy.cu"
            header = Path(folder) / "meet.h"
            header.write_text(source.partition("__global__")[0], encoding="utf-8")
            file.write_text('#include "meet.h"\n__global__' + source.partition("__global__")[2],
                            encoding="utf-8")  # fmt: skip
            made = run("nvcc", "-lineinfo", "--cudart", "shared", "--no-compress", "-gencode",
                       "arch=compute_90a,code=[sm_90a,compute_90a]", file, "-o", f"{folder}/copy")
            self.assertEqual(made.returncode, 0, made.stderr)
            ended = run(RUN, "--policy=eager", "--leave-out=each", f"{folder}/copy")
        self.assertRegex(ended.stdout, r"(?m)^  1  shared-race, eager         " + name + r"5\(\);$")
        lines = [line.strip() for line in ended.stdout.splitlines()]
        at = lines.index("...")
        self.assertTrue(lines[at - 1].startswith("bar.sync at ") and "copy.cu" in lines[at - 1])
        for line, text in zip(lines[at + 1:], (f"{name}1();", f"{name}0();", "__syncthreads();")):
            self.assertTrue(line.startswith("in ") and line.endswith(f": {text}"), line)

    def test_the_variable_by_hand_says_where_there_is_no_such_thing(self):
        ended = run(RUN, *RUNG_6, MACHINE_LEAVE_OUT="bar.sync at nowhere.cu:1", MACHINE_SMS="2")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("PTX machine: MACHINE_LEAVE_OUT is 'bar.sync at nowhere.cu:1', which no kernel "
                      "has that ran.\n", ended.stderr)  # fmt: skip

    def test_it_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            for words in (["--leave-out=3", *RUNG_6], ["--leave-out=each", "sh", "-c", "exit 7"]):
                run(RUN, "--sms=2", *words, TMPDIR=folder)
                self.assertEqual(list(Path(folder).iterdir()), [], words)

    def test_a_program_without_any_has_an_empty_list(self):
        ended = run(RUN, "--leave-out=each", PROGRAMS / "hello")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertTrue(ended.stdout.startswith("Instructions that order others and were executed: 0."))


class Page(unittest.TestCase):
    def test_it_has_what_is_found_in_the_rungs_and_no_reason_is_idle(self):
        found = leave_out.all_orderings()
        page = leave_out.PAGE.read_text(encoding="utf-8")
        self.assertEqual(page, leave_out.page_with_blocks(page, found),
                         "docs/leave_out.md: run python3 scripts/leave_out.py --page")  # fmt: skip
        self.assertEqual(without_lines(leave_out.FOUND.read_text(encoding="utf-8")),
                         without_lines(leave_out.text_of(found)))  # fmt: skip
        used = {one.reason(run.rung) for run, all_of_run in found
                for one in all_of_run if not one.noticed}  # fmt: skip
        self.assertEqual([reason for reason in leave_out.REASONS if reason not in used], [])
        without = {run.rung for run in leave_out.RUNS} - {reason.rung for reason in used if reason}
        said = re.search(r"(?m)^Rungs (.*) have no ordering instruction that nothing is", page)
        self.assertIsNotNone(said)
        self.assertEqual(without, rungs_in(said[1]))

    def test_a_record_of_a_gpu_counts_for_what_is_there(self):
        found = leave_out.read_found()
        rows = leave_out.recorded(found)
        self.assertEqual(len(rows), len(leave_out.to_try(found)))
        self.assertEqual({row.ended for row in rows} - set(leave_out.ENDS), set())
        first = [(run, [one for one in all_of_run if one.instruction == "bar.sync"][:1])
                 for run, all_of_run in found[:1]]  # fmt: skip
        self.assertEqual(len(leave_out.recorded(first)), 1)

    def test_a_rung_that_there_is_not_is_refused(self):
        for words, said in (([], "name a rung from 1 to 17, or --page, or --gpu CSV."),
                            (["18"], "there is no rung 18: name one from 1 to 17.")):  # fmt: skip
            ended = run(sys.executable, ROOT / "scripts/leave_out.py", *words)
            self.assertEqual((ended.returncode, ended.stderr), (2, f"leave_out: {said}\n"))

    def test_what_has_no_reason_is_refused(self):
        one = leave_out.Ordering(True, "", "", "bar.sync", "a.cu", 1, "x();", "bar.sync at a.cu:1")
        run = leave_out.RUNS[0]
        with self.assertRaisesRegex(Problem, "REASONS has no line that says why"):
            leave_out.list_of([(run, [one])])
        self.assertEqual(leave_out.list_of([(run, [one._replace(noticed="shared-race")])]), [])


def without_lines(rows: str) -> str:
    """Edits of a stage file move what is behind them."""
    return re.sub(r":\d+|\"line\": \d+", "", rows)


def rungs_in(words: str) -> set[int]:
    """Of "1, 2 and 4 to 6": 1, 2, 4, 5 and 6."""
    found: set[int] = set()
    for part in re.split(r", | and ", words):
        first, _, last = part.partition(" to ")
        found |= set(range(int(first), int(last or first) + 1))
    return found


if __name__ == "__main__":
    unittest.main()
