"""build/ptx-machine and what it says to programs; docs/machine_ci.md: the workflow works as written."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import runtime_test
from runtime_test import PROGRAMS, ROOT, RUN, clean_environment, run

PAGE = (ROOT / "docs" / "machine_ci.md").read_text("utf-8")
RACES = PROGRAMS / "out_of_bounds"


def fenced(name: str) -> str:
    """The block behind the page's comment with this name."""
    found = re.search(rf"<!-- {re.escape(name)} -->\n```\w+\n(.*?)```\n", PAGE, re.S)
    assert found is not None, name
    return found[1]


def steps() -> dict[str, str]:
    """Of the workflow: {name: the command that it runs}; folded lines are joined, as YAML does."""
    found: dict[str, str] = {}
    text = fenced("kernels.yml")
    for part in text.split("      - ")[1:]:
        name = re.match(r"name: (.*)\n", part)
        command = re.search(r"^        run: (?:>\n)?(.*?)\Z", part, re.S | re.M)
        if name and command:
            found[name[1]] = " ".join(line.strip() for line in command[1].strip().splitlines())
    return found


class Json(unittest.TestCase):
    def lines(self, *options: str, what: str = "races") -> tuple[int, list[dict], str]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "reports.jsonl")
            ended = run(RUN, *options, f"--json={file}", RACES, what)
            text = file.read_text("utf-8") if file.exists() else ""
        return ended.returncode, [json.loads(line) for line in text.splitlines()], ended.stderr

    def test_a_report_is_an_object_with_its_place(self):
        code, reports, text = self.lines("--reports=all")
        self.assertEqual(code, 1)
        self.assertEqual([report["line"] for report in reports], [39, 40])
        first = reports[0]
        self.assertEqual(
            {name: first[name] for name in ("rule", "severity", "file", "earlier_file",
                                            "earlier_line", "kernel", "cta", "warp", "policy")},
            {"rule": "shared-race", "severity": "race", "kernel": "races", "cta": [0, 0, 0],
             "file": "tests/machine/programs/out_of_bounds.cu", "warp": 1, "policy": "eager",
             "earlier_file": "tests/machine/programs/out_of_bounds.cu", "earlier_line": 40},
        )  # fmt: skip
        self.assertTrue(first["message"].startswith("Race in kernel races: st.shared.u32 writes"))
        self.assertTrue(first["advice"].startswith("bar.sync between the two"))
        self.assertIn(first["text"], text)

    def test_the_advice_for_a_counter_is_an_atomic(self):
        for what, rule in (("count lanes", "lane-race"), ("count warps", "shared-race")):
            _, reports, _ = self.lines(what=what)
            self.assertEqual(reports[0]["rule"], rule)
            self.assertTrue(reports[0]["advice"].startswith("an atomic in place of the two"), what)

    def test_every_kind_of_end_is_one(self):
        for what, rule, severity in (
            ("bounds", "out-of-bounds", "fatal"), ("trap", "trap", "fatal"),
            ("assert", "assert", "fatal"), ("misaligned", "misaligned", "fatal"),
            ("never", "never-written", "race"),
        ):  # fmt: skip
            code, reports, _ = self.lines(what=what)
            self.assertEqual((code, len(reports)), (1, 1), what)
            self.assertEqual((reports[0]["rule"], reports[0]["severity"]), (rule, severity))
            self.assertGreater(reports[0]["line"], 0, what)
        code, reports, _ = self.lines(what="refused")
        self.assertEqual((code, reports[0]["rule"], reports[0]["line"]), (1, "refused", 34))
        self.assertEqual(reports[0]["kernel"], "strange")

    def test_without_a_file_it_takes_the_place_of_the_text(self):
        for option in ("--json", "--json=-"):
            ended = run(RUN, "--reports=all", option, RACES, "races")
            self.assertEqual(ended.returncode, 1)
            lines = [json.loads(line)["line"] for line in ended.stderr.splitlines()]
            self.assertEqual(lines, [39, 40], option)

    def test_a_file_that_cannot_be_written_is_said(self):
        below_a_file = f"{RACES}/reports"
        ended = run(RUN, f"--json={below_a_file}", PROGRAMS / "hello")  # which has no report
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        self.assertIn(f"--json: {below_a_file} cannot be written: Not a directory.", ended.stderr)
        ended = run(RUN, RACES, "races", MACHINE_JSON=below_a_file)
        self.assertIn(f"MACHINE_JSON is {below_a_file}, which cannot be written", ended.stderr)


class Options(unittest.TestCase):
    def test_rules_can_be_left_out(self):
        self.assertEqual(run(RUN, "--ignore=shared-race", RACES, "races").returncode, 0)
        self.assertEqual(run(RUN, "--no-check", RACES, "races").returncode, 0)
        self.assertEqual(run(RUN, "--no-poison", RACES, "never").returncode, 0)
        self.assertIn("shared-race\n", run(RUN, "--rules").stdout)

    def test_what_cannot_be_printed_is_said(self):
        for option in ("--rules", "--help"):
            with open("/dev/full", "w", encoding="utf-8") as full:
                ended = subprocess.run([RUN, option], stdout=full, stderr=subprocess.PIPE,
                                       text=True, check=False)  # fmt: skip
            self.assertEqual(ended.returncode, 2)
            self.assertIn("what it prints cannot be written", ended.stderr)

    def test_a_program_runs_once_under_each_policy(self):
        ended = run(RUN, "--policy=eager,lazy,random", "--seed=2", PROGRAMS / "hello")
        self.assertEqual((ended.returncode, ended.stdout), (0, "cudaSuccess 42\n" * 3))
        for policy in ("eager", "lazy", "random"):
            self.assertIn(f"policy {policy}: exit code 0\n", ended.stderr)
        ended = run(RUN, "--policy=eager,lazy", "sh", "-c", "exit 7")
        self.assertEqual(ended.returncode, 7)

    def test_a_hang_is_4_and_a_signal_is_named(self):
        ended = run(RUN, "--policy=eager,lazy", "sh", "-c", "kill -9 $$")
        self.assertEqual(ended.returncode, 128 + 9)

    def test_what_makes_no_sense_is_2_and_one_sentence(self):
        for options, said in (
            (["--policy=late"], "--policy has 'late' but there are eager, lazy and random."),
            (["--policy=eager,"], "--policy has '' but there are eager, lazy and random."),
            (["--policy=lazy,eager,lazy"], "--policy has lazy twice."),
            (["--ignore="], "--ignore names no rule; there are shared-race, "),
            (["--reports=some"], "--reports is 'some' but must be first or all."),
            (["--ignore=nothing"], "--ignore: there is no rule 'nothing'; there are shared-race, "),
            (["--seed=x"], "--seed is 'x' but must be a whole number"),
            (["--json="], "--json= needs a file"),
            (["--seed=1", "--seed=2"],
             "--seed is given more than once, as --seed=2 too; give it once."),
            (["--fast"], "there is no option --fast; --help lists them."),
        ):  # fmt: skip
            ended = run(RUN, *options, PROGRAMS / "hello")
            self.assertEqual(ended.returncode, 2, options)
            self.assertIn(said, ended.stderr)
            self.assertEqual(len(ended.stderr.splitlines()), 1)

    def test_help_names_every_option_and_exit_code(self):
        text = run(RUN, "--help").stdout
        for word in ("--policy=", "--reports=", "--ignore=", "--json", "--seed=", "Exit code"):
            self.assertIn(word, text)


class Installed(unittest.TestCase):
    def test_the_page_works_as_written(self):
        """Its program, with and without the barrier, by the workflow's own commands."""
        commands = steps()
        self.assertEqual(list(commands), [
            "Tools", "Build the PTX machine", "Build the program", "Run it on the PTX machine",
            "Annotate"])  # fmt: skip
        tools = commands["Tools"].split()
        for tool in ("git", "make", "g++", "python3", "jq"):
            self.assertIn(tool, tools)
        home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
        variables = {**clean_environment(), "PATH": f"{home}/bin:{os.environ['PATH']}"}
        variables.pop("MAKEFLAGS", None)

        with tempfile.TemporaryDirectory() as folder:
            def step(name: str) -> subprocess.CompletedProcess:
                return subprocess.run(
                    ["sh", "-e", "-c", commands[name]], env=variables, cwd=folder, text=True,
                    capture_output=True, check=False, timeout=900,
                )  # fmt: skip

            Path(folder, "ladder").symlink_to(ROOT)
            source = Path(folder, "reverse.cu")
            source.write_text(fenced("reverse.cu"), "utf-8")
            for name in ("Build the PTX machine", "Build the program"):
                ended = step(name)
                self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            installed = Path(folder, "machine")
            files = {str(p.relative_to(installed)) for p in installed.rglob("*") if not p.is_dir()}
            library = next((ROOT / "build" / "machine").glob("libcudart.so.*")).name
            self.assertEqual(files, {"bin/ptx-machine"} | {
                f"lib/ptx-machine/{n}" for n in (library, "libcuda.so.1", "libcuda.so")})
            ended = step("Run it on the PTX machine")
            self.assertEqual((ended.returncode, ended.stdout), (0, "ok\n" * 3), ended.stderr)

            line = source.read_text("utf-8").splitlines().index("  __syncthreads();") + 1
            source.write_text(
                source.read_text("utf-8").replace("  __syncthreads();", "  // no barrier"), "utf-8")
            self.assertEqual(step("Build the program").returncode, 0)
            ended = step("Run it on the PTX machine")
            self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
            self.assertEqual(ended.stderr.count("exit code 1"), 3, ended.stderr)
            notes = step("Annotate")
            self.assertEqual(notes.returncode, 0, notes.stderr)
            self.assertRegex(
                notes.stdout,
                rf"(?m)^::error file=reverse.cu,line={line - 1},title=shared-race::Race in kernel "
                r"reverse: .* bar\.sync between the two")


class Page(unittest.TestCase):
    def test_its_table_is_of_what_is_reported(self):
        code, reports, _ = Json().lines()
        self.assertEqual(code, 1)
        members = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.M)
        named = [name for row in members for name in re.findall(r"`(\w+)`", row)]
        self.assertEqual(sorted(named), sorted(reports[0]))

    def test_the_defects_are_bugs_that_can_be_tried(self):
        mutations = runtime_test.mutations.MUTATIONS
        rows = re.findall(r"\| `([\w-]+)` \| `([\w-]+)` \|$", PAGE, re.M)
        self.assertEqual(len(rows), 5)
        rules = run(RUN, "--rules").stdout.split()
        for rule, name in rows:
            self.assertIn(rule, rules)
            self.assertIn(name, mutations)


if __name__ == "__main__":
    sys.exit(unittest.main())
