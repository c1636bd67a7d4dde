"""The Makefile's answers that need no build."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PER_STAGE = ("stage", "diff", "ptx", "sass", "ncu", "sanitize")


def make(*args, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", *args], cwd=ROOT, env={**clean, **env},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip


class Make(unittest.TestCase):
    def test_help_is_the_default_and_names_every_target_and_rung(self):
        ended = make()
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stdout, make("help").stdout)
        names = [f"{verb}-N" for verb in PER_STAGE]
        names += ["ladder", "bench", "counters", "tables", "doctor", "lib", "test", "clean"]
        for target in names:
            self.assertRegex(ended.stdout, rf"\b{target}\b")
        for stage in (ROOT / "stages").glob("*.cu"):
            self.assertIn(stage.stem, ended.stdout)

    def test_a_wrong_rung_lists_the_rungs_and_is_2(self):
        for verb in PER_STAGE:
            ended = make(f"{verb}-99")
            self.assertEqual(ended.returncode, 2)
            self.assertIn("There is no rung 99", ended.stderr)
            for stage in (ROOT / "stages").glob("*.cu"):
                self.assertIn(stage.stem, ended.stderr)

    def test_a_goal_that_there_is_not_is_refused_with_the_nearest(self):
        for goal, hint in {
            "stag-3": "; did you mean stage-3? make help",
            "Stage_12": "; did you mean stage-12? make help",
            "diff": "; did you mean diff-N? make help",
            "stage-": "; did you mean stage-N? make help",
            "failures": "; did you mean failure-NAME? make help",
            "exercise5.1": "; did you mean exercise-5.1? make help",
            "tset": "; did you mean test? make help",
            "install-machin": "; did you mean install-machine? make help",
            "xyz'z": "; make help",
        }.items():
            ended = make("-n", goal)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), goal)
            sentence = f"There is no {goal} to make{hint} lists what there is.  Stop."
            self.assertIn(sentence, ended.stderr)
        for goal in ("tables", "compile_commands.json", "golden-sums", "build/ladder", "README.md"):
            self.assertEqual(make("-n", goal).returncode, 0, goal)

    def test_both_spellings_of_a_number_are_one_target(self):
        self.assertEqual(make("-n", "diff-02").stdout, make("-n", "diff-2").stdout)
        self.assertIn("stages/02_", make("-n", "diff-2").stdout)

    def test_options_come_from_the_command_line_only(self):
        line = make("-n", "stage-1", "M=128", "VARIANT=x", N="7", DATA="zeros").stdout
        self.assertIn("--m='128' --variant='x'", line)
        self.assertNotRegex(line, r"--n=|--data=")
        quoted = make("-n", "stage-1", "VARIANT=it's").stdout
        self.assertIn(r"--variant='it'\''s'", quoted)

    def test_stage_0_is_the_program_with_every_rung(self):
        for target in ("stage-0", "stage-00"):
            line = make("-n", target, "M=128", "WORKSPACE=0").stdout
            self.assertIn("build/ladder --stage=0 --m='128' --workspace='0'", line)
        self.assertIn("There is no rung 0", make("diff-0").stderr)

    def test_a_variable_in_lower_case_is_refused(self):
        for name in ("m", "variant", "seed", "layout", "act"):
            ended = make("-n", "stage-1", f"{name}=100")
            self.assertEqual(ended.returncode, 2)
            self.assertIn(f"{name}=100: variables are in upper case here", ended.stderr)
            self.assertIn(f"as in {name.upper()}=100", ended.stderr)

    def test_a_variable_that_nothing_reads_is_refused(self):
        for name in ("GIRD", "VARIANTS", "GPU", "STAGES", "ARCH"):
            ended = make("-n", "stage-1", f"{name}=3")
            self.assertEqual(ended.returncode, 2)
            near = {"GIRD": "did you mean GRID? ", "VARIANTS": "did you mean VARIANT? "}
            said = f"{name}=3: there is no {name} here; {near.get(name, '')}make help lists"
            self.assertIn(said, ended.stderr)
        for known in ("MACHINE_SMS=8", "LADDER_DEVICE=machine", "CFLAGS=-O1", "WERROR=1"):
            self.assertEqual(make("-n", "stage-1", known).returncode, 0, known)

    def test_a_variable_that_no_goal_reads_is_refused_and_so_is_one_without_a_value(self):
        for words, sentence in {
            ("bench", "M=4096"):
                "M=4096: make bench reads no M; it is for make ladder, stage-N, ptx-N, sass-N, ",
            ("tables", "ROWS=3"): "ROWS=3: make tables reads no ROWS; it is for make ladder, ",
            ("stage-1", "SUITES=host"): "make stage-1 reads no SUITES; it is for make test.",
            ("stage-1", "WHAT=box"): "make stage-1 reads no WHAT; it is for make explore.",
            ("stage-1", "GROUP=3"):
                "make stage-1 reads no GROUP; did you mean GROUPS? it is for make explore.",
            ("diff-2", "list", "VARIANT=x"): "VARIANT=x: make diff-2 list reads no VARIANT; it is ",
            ("N=5",): "N=5: make help reads no N; it is for make ladder, ",
            ("test", "SUITES="): "SUITES= is empty: say SUITES=..., or leave it out.",
            ("stage-1", "M="): "M= is empty: say M=..., or leave it out.",
        }.items():
            ended = make("-n", *words)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), words)
            self.assertIn(sentence, ended.stderr)
        for words in (("stage-1", "list", "M=5"), ("explore", "GROUP=3"), ("ptx-2", "VARIANT=x"),
                      ("limits", "ROWS=x"), ("lib", "PREFIX=/usr", "DESTDIR=")):  # fmt: skip
            self.assertEqual(make("-n", *words).returncode, 0, words)

    def test_a_switch_is_0_or_1(self):
        for switch in ("FORCE=yes", "PICKS=2", "SANITIZE=on", "REQUIRE_GPU=true", "V=11"):
            ended = make("-n", "help", switch)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), switch)
            self.assertIn(f"{switch}: it must be 1, or 0 for off.", ended.stderr)
        for words, given in {("FORCE=0", "PICKS=0"): [], ("FORCE=1",): ["--force"],
                             ("FORCE=1", "PICKS=1"): ["--force", "--picks"]}.items():  # fmt: skip
            lines = make("-n", "sweep", *words).stdout
            self.assertIn("scripts/sweep.py", lines)
            self.assertEqual(re.findall("--(?:force|picks)", lines), given)
        self.assertNotIn("--force", make("-n", "counters", "FORCE=0").stdout)

    def test_a_prefix_is_an_absolute_path(self):
        for prefix in ("", "relative", "~/.local"):
            ended = make("-n", "install", f"PREFIX={prefix}")
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), prefix)
            self.assertIn(f"PREFIX={prefix}: it must begin with /, as {ROOT}/", ended.stderr)
        self.assertIn("'/a b/lib'", make("-n", "install", "PREFIX=/a b").stdout)

    def test_another_folder_is_told_how_to_call_this_one(self):
        with tempfile.TemporaryDirectory() as folder:
            ended = make("-C", folder, "-f", str(ROOT / "Makefile"), "help")
        self.assertEqual(ended.returncode, 2)
        said = f"make runs in the folder of this Makefile: say make -C {ROOT}/."
        self.assertIn(said, ended.stderr)

    def test_a_folder_that_ptxas_cannot_take_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            quote = Path(folder, 'a"b')
            Path(quote, "scripts").mkdir(parents=True)
            Path(quote, "scripts/goals.py").touch()
            ended = make("-C", str(quote), "-f", str(ROOT / "Makefile"), "help")
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        said = f'{quote}: ptxas takes no path with a " in it; clone to another'
        self.assertIn(said, ended.stderr)

    def test_root_without_nvcc_on_its_path_finds_the_same_toolkit(self):
        home = Path("/usr/local/cuda")
        if not (home / "bin/nvcc").exists():
            self.skipTest("no toolkit in /usr/local/cuda")
        flags = [make("-n", "build/flags", CUDA_HOME="", PATH=path).stdout
                 for path in (f"{home}/bin:/usr/bin:/bin", "/usr/bin:/bin")]  # fmt: skip
        self.assertEqual(flags[0], flags[1])

    def test_nvcc_gets_the_compiler_without_its_cache(self):
        objects = "build/obj/common/host/text.o", "build/obj/stages/01_smem_tiled.o"
        lines = make("-n", "-B", *objects, "CXX=ccache g++").stdout
        self.assertIn(" -ccbin g++ --cudart", lines)
        self.assertRegex(lines, r"(?m)^ccache g\+\+ .*common/host/text\.cpp")

    def test_a_makefile_that_is_named_by_its_path_has_the_same_goals(self):
        for path in ("./Makefile", str(ROOT / "Makefile")):
            self.assertEqual(make("-f", path, "-n", "diff-2").stdout, make("-n", "diff-2").stdout)
            self.assertIn("stages/02_", make("-f", path, "-n", "list", "diff-2").stdout)

    def test_a_suite_that_there_is_not_is_refused_before_anything_is_compiled(self):
        ended = make("-n", "test", "SUITES=host nonsense")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("there is no suite nonsense", ended.stderr)
        self.assertEqual(ended.stdout, "")

    def test_sanitized_suites_are_those_that_are_named(self):
        self.assertIn("--sanitized host\n", make("-n", "test", "SANITIZE=1", "SUITES=host").stdout)
        for words, why in {("SUITES=lazy",): "there is no sanitized suite lazy; there are host, ",
                           ("REQUIRE_GPU=1",): "no suite of SANITIZE=1 uses"}.items():  # fmt: skip
            ended = make("-n", "test", "SANITIZE=1", *words)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""))
            self.assertIn(why, ended.stderr)

    def test_a_bug_or_an_exercise_that_there_is_not_is_refused_before_anything_is_compiled(self):
        for goals, sentence in {
            ("failure-initfence",): "initfence; did you mean init-fence? docs/failures.md has all",
            ("failure-init-fence", "failure-wait"): "is called wait. docs/failures.md has all of",
            ("exercise-5.99",): "There is no exercise 5.99; of 5 there are 5.1, 5.2",
            ("exercise-5",): "There is no exercise 5; of 5 there are 5.1, 5.2",
        }.items():
            ended = make("-n", "-B", *goals)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""))
            self.assertIn(sentence, ended.stderr)
            self.assertNotIn("..", ended.stderr)
        for goal in ("failure-init-fence", "exercise-5.1"):
            self.assertEqual(make("-n", goal).returncode, 0)

    def test_the_list_has_what_other_targets_take(self):
        ended = make("list")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for name in ("05_wgmma", "init-fence", "5.1", "m.2"):
            self.assertRegex(ended.stdout, rf"(?m)(^|\s){re.escape(name)}(\s|$)")

    def test_the_help_has_every_type_of_rung_13(self):
        pairs = (ROOT / "common/host/typed.h").read_text(encoding="utf-8")
        names = re.findall(r'{"(\w+)", LADDER_', pairs)
        self.assertGreater(len(names), 5)
        types = re.search(r"\[rung 13: TYPE=(.*?) LAYOUT", make("help").stdout, re.DOTALL).group(1)
        self.assertEqual("".join(types.split()).split("|"), names)

    def test_what_measures_is_refused_before_anything_is_compiled(self):
        with tempfile.TemporaryDirectory() as folder:
            doctor = Path(folder, "python")
            doctor.write_text("#!/bin/sh\necho 'the driver is on holiday'\n")
            doctor.chmod(0o755)
            for goal in ("limits", "golden", "bench", "counters", "energy", "times"):
                ended = make(goal, f"PYTHON={doctor}")
                self.assertEqual((ended.returncode, ended.stdout), (2, ""))
                self.assertIn(f"make {goal} runs on a GPU of compute capability 9.0 and there is "
                              "none: the driver is on holiday", ended.stderr)
        self.assertIn("scripts/limits.py", make("-n", "limits").stdout)

    def test_a_missing_toolkit_is_one_line(self):
        ended = make("lib", "CUDA_HOME=/nonexistent")
        self.assertEqual(ended.returncode, 2)
        self.assertEqual(len(re.findall(r"No nvcc at /nonexistent/bin/nvcc", ended.stderr)), 1)

    def test_a_missing_compiler_or_python_is_one_line_and_leaves_the_build_as_it_was(self):
        flags = [ROOT / "build/flags", ROOT / "build/obj/common/machine/flags"]
        before = [path.read_text() if path.exists() else None for path in flags]
        for setting, sentence in {
            "CXX=/nonexistent/g++": "No C++ compiler /nonexistent/g++: install g++ 11 to 14 or clang",
            "PYTHON=/nonexistent/python": "/nonexistent/python is no Python of 3.9 or newer: install",
        }.items():
            ended = make("lib", setting)
            self.assertEqual(ended.returncode, 2)
            self.assertEqual(ended.stderr.count(sentence), 1, ended.stderr)
        self.assertEqual([path.read_text() if path.exists() else None for path in flags], before)

    def test_a_missing_or_an_old_python_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            old = Path(folder, "python3")
            old.write_text("#!/bin/sh\necho False\n")
            old.chmod(0o755)
            for python in (str(old), "/nonexistent/python", "/bin/false"):
                for goal in ("diff-2", "tables", "failure-x", "xyz"):
                    ended = make(goal, f"PYTHON={python}")
                    self.assertEqual((ended.returncode, ended.stdout), (2, ""))
                    self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)
                    said = f"{python} is no Python of 3.9 or newer: install one, or say make PYTHON="
                    self.assertIn(said, ended.stderr)
                self.assertEqual(make("help", f"PYTHON={python}").returncode, 0)

    def test_a_locale_that_is_not_installed_does_no_harm(self):
        with tempfile.TemporaryDirectory() as folder:
            python = Path(folder, "python3")  # as pyenv has it: bash speaks of the locale first
            python.write_text(f'#!/bin/bash\nexec "{sys.executable}" "$@"\n')
            python.chmod(0o755)
            call = {"PYTHON": str(python), "LC_ALL": "xx_XX.UTF-8"}
            ended = make("-n", "diff-2", "failure-bar-sync-before-reading", **call)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            for goal in ("exercise-99.1", "xyz"):
                ended = make("-n", goal, **call)
                self.assertEqual(ended.returncode, 2)
                self.assertRegex(ended.stderr, rf"\*\*\* There is no (exercise 99.1;|{goal} to make;)")

    def test_names_that_other_tools_have_are_answered_with_those_of_here(self):
        for setting, there_is in {"SHAPE=1x2x3": "say M= N= K=",
                                  "POLICY=lazy": "say MACHINE_POLICY=eager, lazy or random",
                                  "STAGE=7": "say make stage-7",
                                  "NVCC=x": "say CUDA_HOME=, the folder that has bin/nvcc.",
                                  "DTYPE=fp16": "say TYPE=, as in make stage-13 TYPE=fp16"}.items():
            ended = make("-n", "stage-1", setting)
            self.assertEqual(ended.returncode, 2)
            self.assertIn(f"{setting}: there is no ", ended.stderr)
            self.assertIn(there_is, ended.stderr)

    def test_an_old_toolkit_is_refused_with_what_is_needed(self):
        with tempfile.TemporaryDirectory() as home:
            nvcc = Path(home, "bin", "nvcc")
            nvcc.parent.mkdir()
            nvcc.write_text("#!/bin/sh\necho 'Cuda tools, release 12.6, V12.6.1'\n")
            nvcc.chmod(0o755)
            ended = make("lib", f"CUDA_HOME={home}")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("is 12.6: CUDA 12.8 or newer is needed", ended.stderr)

    def test_programs_for_the_gpu_run_one_after_the_other(self):
        lines = make("-n", "-B", "stage-2", "stage-1").stdout.splitlines()
        runs = [line for line in lines if re.match(r"build/stage-\d+\s*$", line)]
        self.assertEqual([run.strip() for run in runs], ["build/stage-02", "build/stage-01"])


    def test_steps_are_counted(self):
        lines = make("-n", "-B", "build/ladder").stdout.splitlines()
        steps = [re.match(r"printf '.*' (\d+) (\d+) \w+ \S+$", line) for line in lines]
        steps = [tuple(map(int, step.groups())) for step in steps if step]
        self.assertGreater(len(steps), 20)
        self.assertEqual(steps, [(n, len(steps)) for n in range(1, len(steps) + 1)])

    def test_a_page_that_is_printed_is_replaced_when_it_is_whole(self):
        self.assertRegex(make("-n", "isa").stdout, r">(docs/isa\.md\.\S+) && mv -f \1 docs/isa\.md ")

    def test_warnings_are_errors_on_request_and_those_of_ptxas_always(self):
        compiles = {}
        for word in ("WERROR=", "WERROR=1"):
            lines = make("-n", "-B", "build/ladder", word).stdout.splitlines()
            compiles[word] = [line for line in lines if "-Wall" in line]
            self.assertGreater(len(compiles[word]), 20)
            for line in compiles[word]:
                if "nvcc_gate" in line:
                    self.assertIn("-Xptxas -v,-warn-spills,-warn-lmem-usage,-Werror", line)
        for line in compiles["WERROR="]:
            self.assertNotRegex(line, r" -Werror|-Wextra,-Werror")
        for line in compiles["WERROR=1"]:
            self.assertRegex(line, r"-Wextra[ ,]-Werror")

    def test_the_machine_is_built_for_rungs_unless_a_gpu_is_asked_for(self):
        for goal in ("ladder", "stage-1"):
            for device, built in (("gpu", False), ("machine", True)):
                lines = make("-n", "-B", goal, LADDER_DEVICE=device).stdout
                self.assertEqual("common/machine/ops/alu.cpp" in lines, built, (goal, device))

    def test_each_command_of_the_help_stands_in_the_readme(self):
        table = (ROOT / "README.md").read_text(encoding="utf-8")
        table = table.split("## Commands")[1].split("\n## ")[0]
        commands = re.findall(r"^make (\S+)", make("help").stdout, re.MULTILINE)
        self.assertGreater(len(commands), 20)
        for command in commands:
            self.assertRegex(table, rf"`make {re.escape(command)}[ `]")


class Copy(unittest.TestCase):
    """Builds in a copy of the tree, so that the build here stays as it is."""

    FLAGS = ("build/flags", "build/objects", "build/obj/common/machine/flags")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree = Path(self.folder.name, "tree")
        leave = shutil.ignore_patterns("build", ".git", "docs", "__pycache__")
        shutil.copytree(ROOT, self.tree, ignore=leave)

    def start(self, *args):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        return subprocess.Popen(
            ["make", *args], cwd=self.tree, env=clean, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def test_makes_at_once_do_not_disturb_each_other(self):
        for _ in range(3):
            makes = [self.start(*self.FLAGS, "build/golden/cases.txt") for _ in range(4)]
            for running in makes:
                said = running.communicate()[0]
                self.assertEqual(running.returncode, 0, said)
            left = {path.name for path in (self.tree / "build").rglob("*.[0-9]*")}
            self.assertEqual(left, set())
            shutil.rmtree(self.tree / "build")

    def test_another_cpu_changes_the_flags_of_the_machine(self):
        flags = self.tree / self.FLAGS[-1]
        compiler = Path(self.folder.name, "other-cpu")
        compiler.write_text('#!/bin/sh\nexec g++ "$@" -mno-sse4.2\n')
        compiler.chmod(0o755)
        seen = []
        for settings in ([], [], [f"CXX={compiler}"]):
            running = self.start("-o", "build/flags", self.FLAGS[-1], *settings)
            said = running.communicate()[0]
            self.assertEqual(running.returncode, 0, said)
            seen.append((flags.stat().st_mtime_ns, flags.read_text()))
        self.assertEqual(seen[0], seen[1])  # as it was: nothing is compiled again
        self.assertNotEqual(seen[1][1], seen[2][1])


class Doctor(unittest.TestCase):
    def test_without_a_gpu_all_that_is_promised_can_be_there(self):
        ended = make("doctor", LD_LIBRARY_PATH="")
        if "NO   GPU" not in ended.stdout:
            self.skipTest("there is a GPU")
        if re.search(r"^NO   (nvcc|host compiler|CUDA runtime|cuBLASLt) ", ended.stdout, re.M):
            self.skipTest("the toolkit lacks something")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("All that this needs is\nhere.", ended.stdout)

    def test_it_says_what_is_missing(self):
        ended = subprocess.run(
            [sys.executable, str(ROOT / "scripts" / "doctor.py"), "--nvcc", "/nonexistent/nvcc",
             "--cuda-lib", "/nonexistent", "--cxx", "g++"],
            stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stdout, r"NO   nvcc .*none at /nonexistent/nvcc")
        self.assertRegex(ended.stdout, r"NO   cuBLASLt")
        self.assertIn("cannot be built", ended.stdout)


if __name__ == "__main__":
    unittest.main()
