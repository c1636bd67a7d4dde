"""counters.py: what ROWS selects, and runs against stand-ins for build/ladder and ncu that count,
fail, or are not there."""

import json
import os
import stat
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "scripts"), str(Path(__file__).parent)]
import counters  # noqa: E402
from lib import cli  # noqa: E402
from listing import listing  # noqa: E402

# Rung 1: large*; rung 5: bn128, bn256*; rung 6: one*.
VARIANTS = [(1, "large", 1), (5, "bn128", 0), (5, "bn256", 1), (6, "one", 1)]
ENV = {
    "gpu": "NVIDIA H200", "driver": "1.2", "toolkit": "13.0.88", "cublas": "13.1.0", "sms": 132,
    "l2_bytes": 62914560, "data": "normal", "seed": 1,
}  # fmt: skip

LADDER = """#!{python}
import sys
from pathlib import Path
here = Path({here!r})
if sys.argv[1] == "--list":
    sys.stdout.write((here / "list.txt").read_text())
elif sys.argv[1] == "--choices":
    print((here / "choice.json").read_text())
elif not (here / "env.json").exists():
    print("No driver.", file=sys.stderr)
    sys.exit(3)
else:
    print((here / "env.json").read_text())
"""

# Prints the table between lines of the program, as ncu does. plan.json: {"fail"/"short": variant},
# and "print": what replaces a text of the table.
NCU = """#!{python}
import json, os, sys
from pathlib import Path
here = Path({here!r})
arguments = sys.argv[1:]
with (here / "ncu.txt").open("a") as file:
    file.write(json.dumps([os.environ.get("LADDER_TIMEOUT")] + arguments) + "\\n")
plan = json.loads((here / "plan.json").read_text())
variant = next(a for a in arguments if a.startswith("--variant=")).split("=")[1]
print("==PROF== Connected to process 1 (stage-05)")
if variant == plan.get("fail"):
    print("==ERROR== ERR_NVGPUCTRPERM - no permission for counters.")
    print("==PROF== Disconnected from process 1")
    sys.exit(1)
print("variant  check\\n" + variant + "    ok, within rounding (0.99 of it at most)")
if variant == plan.get("short"):
    print("==WARNING== No kernels were profiled.")
    sys.exit(0)
table = (here / "table.csv").read_text()
for old, new in plan.get("print", {{}}).items():
    table = table.replace(old, new)
sys.stdout.write(table)
"""

TABLE = {
    "dram__bytes_read.sum": ("byte", "4,482,658,816"),
    "dram__bytes_write.sum": ("byte", "132,568,064"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("", "1,000"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": ("", "168,357,888"),
    "l1tex__m_xbar2l1tex_read_bytes.sum": ("byte", "21,474,836,480"),
    "lts__t_sectors_op_write.sum": ("sector", "6,295,038"),
    "lts__t_sectors_srcunit_tex_op_read.sum": ("sector", "509,807,904"),
    "sm__cycles_elapsed.max": ("cycle", "3,070,273"),
    "smsp__inst_executed.sum": ("inst", "159,436,800"),
}
COUNTS = {
    "cycles": 3070273,
    "l2_read_bytes": 509807904 * 32,
    "l2_to_sm_bytes": 21474836480,
    "l2_write_bytes": 6295038 * 32,
    "dram_read_bytes": 4482658816,
    "dram_write_bytes": 132568064,
    "smem_wavefronts": 168357888,
    "smem_conflicts": 1000,
    "instructions": 159436800,
}


def table_text():
    rows = ['"ID","Kernel Name","Block Size","Metric Name","Metric Unit","Metric Value"']
    for metric, (unit, value) in TABLE.items():
        rows.append(f'"0","gemm<1, 0>(int, int)","(256, 1, 1)","{metric}","{unit}","{value}"')
    return "\n".join(rows) + "\n"


def selected(rows):
    variants = [
        {"stage": s, "variant": v, "result": bool(r), "configuration": False, "simt": s == 1}
        for s, v, r in VARIANTS
    ]
    return [counters.launch_name(launch) for launch in counters.select(rows, variants)]


class Select(unittest.TestCase):
    def test_every_variant_at_one_shape_by_default(self):
        everything = ["1:large@2048", "5:bn128@8192", "5:bn256@8192", "6:one@8192"]
        self.assertEqual(selected(""), everything)
        self.assertEqual(selected("*"), everything)

    def test_selectors(self):
        self.assertEqual(selected("6,5:result"), ["5:bn256@8192", "6:one@8192"])
        self.assertEqual(selected("5:bn128@4096 5:bn128"), ["5:bn128@4096", "5:bn128@8192"])
        self.assertEqual(selected("6@4096x7168x2048"), ["6:one@4096x7168x2048"])
        self.assertEqual(selected("1@4096"), ["1:large@4096"])

    def test_what_selects_nothing_is_refused(self):
        for rows, hint in {
            "6/burst": "say 6.",
            "/burst": "say *.",
            "7": "the rungs are 1, 5, 6",
            "5:bn265": "did you mean bn256?",
            "5,,6": "RUNG[:VARIANT]",
            "5@big": "MxNxK",
        }.items():
            with self.subTest(rows), self.assertRaises(cli.Problem) as raised:
                selected(rows)
            self.assertIn(hint, str(raised.exception))


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.script("build/ladder", LADDER)
        self.script("tools/ncu", NCU)
        self.register()
        self.write("env.json", json.dumps({"env": ENV}))
        self.write("table.csv", table_text())
        self.hashes = {f"k_{s}_{v}": f"hash {s} {v}" for s, v, _ in VARIANTS}
        self.plan()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def register(self, *more):
        variants = [{"stage": s, "variant": v, "result": r, "kernel": f"k_{s}_{v}", "simt": s == 1}
                    for s, v, r in VARIANTS]  # fmt: skip
        self.write("list.txt", listing(variants + list(more)))

    def script(self, name, text):
        path = self.write(name, text.format(python=sys.executable, here=str(self.root)))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def plan(self, **plan):
        self.write("plan.json", json.dumps(plan))

    def count(self, rows="", *more):
        """(exit code, stdout, stderr)."""
        self.write("ncu.txt", "")
        self.write("build/ptx/hashes.json", json.dumps(self.hashes))
        arguments = ["counters.py", f"--rows={rows}", f"--build={self.root}/build", *more]
        arguments.append(f"--results={self.root}/results")
        environment = {"REVISION": "abc", "PATH": f"{self.root}/tools", "CUDA_HOME": ""}
        out, err = StringIO(), StringIO()
        with mock.patch.object(sys, "argv", arguments), mock.patch.dict(
            os.environ, environment
        ), redirect_stdout(out), redirect_stderr(err):
            try:
                code = counters.main()
            except SystemExit as end:
                code = end.code
        return code, out.getvalue(), err.getvalue()

    def launched(self):
        """Arguments of every run of ncu, LADDER_TIMEOUT first."""
        return [json.loads(line) for line in (self.root / "ncu.txt").read_text().splitlines()]

    def launched_variants(self):
        return [run[-4].split("=")[1] for run in self.launched()]

    def text(self):
        return (self.root / "results/h200.counters.json").read_text()

    def counted(self):
        rows = json.loads(self.text())["rows"]
        return {counters.launch_name(counters.launch_of(row)): row for row in rows}

    def test_a_full_run(self):
        code, out, _ = self.count()
        self.assertEqual(code, 0, out)
        document = json.loads(self.text())
        rows = document.pop("rows")
        self.assertRegex(document.pop("date"), r"^\d{4}-\d\d-\d\d$")
        self.assertEqual(document, {"gpu": "NVIDIA H200", "driver": "1.2", "toolkit": "13.0.88",
                                    "revision": "abc", "seed": 1})  # fmt: skip
        expected = {"stage": 1, "name": "01_rung", "variant": "large", "result": True, "m": 2048,
                    "n": 2048, "k": 2048, **COUNTS, "kernel_hash": "hash 1 large"}  # fmt: skip
        self.assertEqual(rows[0], expected)
        self.assertEqual(
            list(self.counted()), ["1:large@2048", "5:bn128@8192", "5:bn256@8192", "6:one@8192"]
        )
        self.assertEqual(sum('"stage"' in line for line in self.text().splitlines()), 4)
        self.assertIn("[4/4] 6:one@8192", out)
        self.assertIn("left", out)

    def test_a_chooser_is_counted_in_the_kernel_that_it_chooses(self):
        self.register({"stage": 11, "variant": "auto", "result": 1, "kernel": None, "chooses": 1})
        for kernel, runs in (("k_6_one", 1), ("k_6_one", 0), ("k_5_bn256", 1)):
            choice = {"configuration": kernel[4:], "kernel": kernel}
            self.write("choice.json", json.dumps(choice))
            self.assertEqual(self.count("11")[0], 0)
            self.assertEqual(len(self.launched()), runs)
            row = self.counted()["11:auto@8192"]
            self.assertEqual((row["configuration"], row["kernel"]), (kernel[4:], kernel))
            self.assertEqual(row["kernel_hash"], self.hashes[kernel])
        self.assertIn("--kernel-name k_5_bn256", " ".join(self.launched()[0][1:]))

    def test_how_ncu_is_called(self):
        self.assertEqual(self.count("5:bn128@512x256x64")[0], 0)
        (run,) = self.launched()
        self.assertEqual(run[0], "0")
        command = " ".join(run[1:])
        self.assertTrue(command.startswith("--clock-control none --launch-count 1 "))
        self.assertIn("--kernel-name-base mangled --kernel-name k_5_bn128 --csv", command)
        self.assertIn("--print-units base", command)
        metrics = run[run.index("--metrics") + 1].split(",")
        self.assertEqual(sorted(metrics), sorted(TABLE))
        program = f"{self.root}/build/stage-05"
        self.assertTrue(
            command.endswith(f"{program} --check --variant=bn128 --m=512 --n=256 --k=64"), command
        )

    def test_a_variant_that_takes_other_calls_is_counted_at_one_of_them(self):
        self.register({"stage": 14, "variant": "tensor", "kernel": "k_6_one", "args": "scales=tensor"})
        self.assertEqual(self.count("14,6")[0], 0)
        self.assertEqual(self.launched()[1][-5], "--variant=tensor")
        self.assertEqual(self.launched()[1][-1], "--scales=tensor")
        row = self.counted()["14:tensor(scales=tensor)@8192"]
        self.assertEqual(row["args"], "scales=tensor")
        self.count("14:tensor(scales=tensor+type=s8)")
        self.assertEqual(self.launched()[0][-2:], ["--scales=tensor", "--type=s8"])
        self.assertEqual(len(self.counted()), 3)
        self.count("14")
        self.assertEqual(self.launched(), [])

    def test_rows_that_still_hold_are_kept_and_not_counted_again(self):
        self.count("5")
        self.hashes["k_5_bn256"] = "changed"
        code, out, _ = self.count("5,6")
        self.assertEqual(code, 0)
        self.assertEqual(self.launched_variants(), ["bn256", "one"])
        self.assertIn("2 rows; 1 more are there already", out)
        self.assertEqual(self.counted()["5:bn256@8192"]["kernel_hash"], "changed")
        self.count("6@4096")
        self.assertEqual(len(self.counted()), 4)
        self.plan(print={'"1,000"': '"7"'})
        self.count("6@4096", "--force")
        self.assertEqual(self.counted()["6:one@4096"]["smem_conflicts"], 7)
        self.assertEqual(self.counted()["6:one@8192"]["smem_conflicts"], 1000)

    def test_rows_of_another_machine_are_dropped(self):
        self.count("5")
        self.write("env.json", json.dumps({"env": {**ENV, "driver": "2.0"}}))
        _, out, _ = self.count("6")
        self.assertIn("another machine or versions", out)
        self.assertEqual(list(self.counted()), ["6:one@8192"])

    def test_a_row_that_fails_is_named_and_the_rest_is_kept(self):
        self.plan(fail="bn128", short="one")
        code, out, _ = self.count()
        self.assertEqual(code, cli.WRONG)
        self.assertEqual(list(self.counted()), ["1:large@2048", "5:bn256@8192"])
        self.assertIn(
            "FAIL 5:bn128@8192: ==ERROR== ERR_NVGPUCTRPERM - no permission for counters.\n", out
        )
        self.assertIn("FAIL 6:one@8192: ncu printed no sm__cycles_elapsed.max: ==WARNING== No", out)
        self.plan()
        self.assertEqual(self.count()[0], 0)
        self.assertEqual(self.launched_variants(), ["bn128", "one"])

    def test_a_count_that_cannot_be_read_is_no_count(self):
        for old, new, why in (
            ('"byte","4,482,658,816"', '"Gbyte","4.48"', "in 'Gbyte', not in 'byte'"),
            ('"3,070,273"', '"n/a"', "printed 'n/a' for sm__cycles_elapsed.max"),
        ):
            self.plan(print={old: new})
            code, out, _ = self.count("6")
            self.assertEqual(code, cli.WRONG)
            self.assertIn(why, out)
            self.assertFalse((self.root / "results").exists())

    def test_a_stopped_run_keeps_what_it_has(self):
        count = counters.count

        def stop(ncu, program, kernel, launch):
            if launch.variant == "bn256":
                raise KeyboardInterrupt
            return count(ncu, program, kernel, launch)

        with mock.patch.object(counters, "count", stop):
            code, out, _ = self.count()
        self.assertEqual(code, cli.STOPPED)
        self.assertIn("Stopped.", out)
        self.assertEqual(list(self.counted()), ["1:large@2048", "5:bn128@8192"])

    def test_no_ncu_and_no_gpu_are_one_sentence_each(self):
        (self.root / "env.json").unlink()
        code, _, err = self.count()
        self.assertEqual((code, err), (cli.NO_DEVICE, "No driver.\n"))
        (self.root / "tools/ncu").unlink()
        code, _, err = self.count()
        self.assertEqual(code, cli.REFUSED)
        self.assertTrue(err.startswith("ncu is neither on PATH nor in CUDA_HOME nor from pip: "), err)
        self.assertEqual(err.count("\n"), 1)

    def test_a_file_that_is_none_is_refused_not_replaced(self):
        path = self.write("results/h200.counters.json", "{")
        code, _, err = self.count()
        self.assertEqual(code, cli.REFUSED)
        self.assertIn("is not a file of counters", err)
        self.assertEqual(path.read_text(), "{")


if __name__ == "__main__":
    unittest.main()
