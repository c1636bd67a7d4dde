"""docs/serving.md: its sizes, its table, and build/serve, which measures it."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import moe_table  # noqa: E402
import serve_table  # noqa: E402
from lib.cli import Problem  # noqa: E402


def serve(shapes, *options, **variables):
    return subprocess.run(
        ["build/serve", *options], input=shapes, cwd=ROOT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, check=False, timeout=600,
        env={**os.environ, "LADDER_DEVICE": "machine", "MACHINE_SMS": "8", **variables},
    )  # fmt: skip


class Sizes(unittest.TestCase):
    def test_of_two_models_by_hand(self):
        self.assertEqual(
            serve_table.MODELS["Llama 3.1 70B"],
            {"q, k, v": (10240, 8192), "o": (8192, 8192), "gate, up": (57344, 8192),
             "down": (8192, 28672)},
        )  # fmt: skip
        self.assertEqual(
            [size for size in serve_table.MODELS["DeepSeek-V3"].values()],
            [(2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)],
        )

    def test_each_is_measured_once(self):
        lines = serve_table.shape_lines().splitlines()
        self.assertEqual(len(lines), len(set(lines)))
        of_models = {size for sizes in serve_table.MODELS.values() for size in sizes.values()}
        self.assertEqual({tuple(map(int, line.split()[:2])) for line in lines}, of_models)


class Missing(unittest.TestCase):
    def test_a_shape_that_was_not_measured_shows_dashes(self):
        lines = serve_table.model_table({"rows": []}, "Llama 3.1 8B")
        self.assertEqual(lines[2], "| q, k, v | 6144, 4096 | 1 |" + " – |" * 8)
        self.assertIn("batch 16", serve_table.plot({"rows": []}).svg())


class Program(unittest.TestCase):
    def test_its_calls_are_right_on_the_machine(self):
        ended = serve("272 384 1 20\n16 128 5\n", "--check")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        rows = [json.loads(line) for line in ended.stdout.splitlines()]
        shapes = [(row["m"], row["n"], row["k"]) for row in rows]
        self.assertEqual(shapes, [(1, 272, 384), (20, 272, 384), (5, 16, 128)])
        for row in rows:
            self.assertTrue(row["verified"], row)
            self.assertTrue(row["fp8_kernel"].startswith("14_block_scaled/"), row)
            self.assertTrue(row["int4_kernel"].startswith("15_mixed_input/w4"), row)

    def test_it_measures_on_a_gpu_only(self):
        ended = serve("272 384 1\n")
        self.assertEqual((ended.returncode, ended.stdout), (3, ""))
        self.assertEqual(len(ended.stderr.splitlines()), 1)

    def test_help_is_0_and_an_option_that_there_is_not_is_named(self):
        self.assertRegex(serve("", "--help").stdout, "^usage: build/serve .--check. <SHAPES")
        ended = serve("16 128 5\n", "--chek")
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        self.assertIn("'--chek': build/serve takes --check or --help", ended.stderr)

    def test_what_cannot_be_printed_is_2(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            ended = subprocess.run(
                ["build/serve", "--help"], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True,
                check=False,
            )  # fmt: skip
        said = "What the program prints cannot be written: is the disk full?\n"
        self.assertEqual((ended.returncode, ended.stderr), (2, said))

    def test_a_line_that_makes_no_sense_is_2(self):
        for line in ("272 384", "270 384 1", "272 100 1", "272 384 0", "272 384 x"):
            ended = serve(line + "\n", "--check")
            self.assertEqual(ended.returncode, 2, line)
            self.assertIn(line, ended.stderr)

    def test_shapes_that_no_memory_holds_are_refused_before_any_is_run(self):
        ended = serve(f"16 128 5\n{2**30} {2**30} 8\n", "--check")
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        said = (r"^N 1073741824, K 1073741824 and M 8 need more than 2147483\d+\.\d GiB of device "
                r"memory but \d+\.\d GiB are free; the largest cube that fits is less than \d+\.$")
        self.assertRegex(ended.stderr, said)

    def test_shapes_that_cannot_be_read_are_refused(self):
        folder = os.open(ROOT, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        ended = subprocess.run(
            ["build/serve", "--check"], stdin=folder, cwd=ROOT, text=True, capture_output=True,
            env={**os.environ, "LADDER_DEVICE": "machine"}, check=False, timeout=600,
        )  # fmt: skip
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        self.assertIn("The shapes on standard input cannot be read", ended.stderr)


HEAD = '{"gpu": "NVIDIA H999", "cublas": "1"}\n'
MEASURED = HEAD + "grouped   1 tokens, 1 rows: every step is right, error 5.17 %\n"


class Taken(unittest.TestCase):
    """What --take is given that no program printed is refused in a sentence; nothing is written."""

    def refused(self, script, text, says, code):
        path = ROOT / "docs/results"
        before = sorted(path.iterdir())
        with tempfile.TemporaryDirectory() as folder:
            taken = Path(folder, "printed")
            if text is not None:
                taken.write_text(text, encoding="utf-8")
            ended = subprocess.run(
                [sys.executable, f"scripts/{script}.py", "--take", str(taken)], cwd=ROOT, text=True,
                capture_output=True, check=False,
            )  # fmt: skip
        self.assertEqual((ended.returncode, ended.stdout), (code, ""), ended.stderr)
        self.assertRegex(ended.stderr, says)
        self.assertEqual(len(ended.stderr.splitlines()), 1)
        self.assertEqual(sorted(path.iterdir()), before)

    def test_of_both_scripts(self):
        for script in ("serve_table", "moe_table"):
            self.refused(script, None, "No such file", 2)
            self.refused(script, "", "The first line does not say which GPU it was", 2)
            self.refused(script, '{"gpu": "NVIDIA H999"\n', "is no line of build/", 2)
            self.refused(script, '{"m": 1}\n{"gpu": "NVIDIA H999"}\n', "The first line does not say", 2)
        self.refused("serve_table", "# no JSON\n", "'# no JSON' is no line of build/serve", 2)

    def test_a_layer_that_was_wrong_or_not_measured(self):
        self.refused("moe_table", MEASURED, "No number of tokens was measured", 2)
        failed = MEASURED + "calls     1 tokens, 1 rows: place: wrong rows, error 5.17 %\n"
        self.refused("moe_table", failed, "^FAIL calls .*place: wrong rows", 1)

    def test_a_value_that_no_program_prints(self):
        def text(head, rows):
            return "".join(json.dumps(each) + "\n" for each in [head, *rows])

        results = serve_table.load(ROOT, "h200")
        head, rows = {"gpu": "NVIDIA H999"}, results["rows"]
        for key, value, says in (
            ("bf16_us", math.nan, "is no line of build/serve"), ("bf16_us", -1, "bf16_us is -1"),
            ("fp8_cublas_us", "x", "fp8_cublas_us is 'x'"), ("n", None, "n is None"),
            ("int4_kernel", "12_stream_k/999", "int4_kernel is '12_stream_k/999'"),
        ):  # fmt: skip
            self.refused("serve_table", text(head, [*rows[1:], {**rows[0], key: value}]), says, 2)
        self.refused("serve_table", text({"gpu": 5}, rows), "does not say which GPU", 2)
        row = moe_table.load(ROOT)["rows"][0]
        for key, value, says in (
            ("grouped_us", 0, "grouped_us is 0"), ("cublas_8_error", None, "cublas_8_error is None"),
            ("calls_trace", "0 1 2", "calls_trace must be 7 times"),
            ("grouped_trace", "0 1 2 3 5 4 6", "grouped_trace must be 7 times"),
        ):  # fmt: skip
            self.refused("moe_table", text(head, [{**row, key: value}]), says, 2)
        self.refused("moe_table", text(head, [row, row]), "comes twice", 2)
        self.refused("moe_table", text(head, [head, row]), "tokens is None", 2)


class Page(unittest.TestCase):
    def test_it_is_what_the_results_say(self):
        for script in (serve_table, moe_table):
            self.assertEqual([str(path) for path, _ in script.outdated(ROOT)], [])

    def test_a_broken_file_of_results_is_refused(self):
        for script, suffix in ((serve_table, ".serve.json"), (moe_table, ".moe.json")):
            for text, says in (
                ("{", "not JSON"), ("{}", 'key "gpu" is missing'), ("[]", "must be an object"),
                ('{"gpu": "", "driver": "", "toolkit": "", "cublas": "", "revision": "", "rows": [{}]}',
                 "row 0: key .* is missing"),
            ):  # fmt: skip
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder, "docs/results/h999" + suffix)
                    path.parent.mkdir(parents=True)
                    path.write_text(text, encoding="utf-8")
                    with self.assertRaisesRegex(Problem, says):
                        script.load(Path(folder), "h999")

    def test_no_words_of_a_plot_lie_on_each_other(self):
        results = serve_table.load(ROOT, serve_table.PLOTTED)
        self.assertEqual(list(serve_table.plot(results).problems()), [])
        self.assertEqual(list(moe_table.timeline(moe_table.load(ROOT)).problems()), [])

    def test_what_has_changed_since_is_said(self):
        head = {"gpu": "a", "driver": "1", "toolkit": "2", "cublas": "3", "revision": "4"}
        said = serve_table.environment({**head, "changed_since": {"11": "how it stores"}})
        self.assertEqual(said[1:], ["Of rung 11 this has changed since: how it stores."])

    def test_the_kernels_are_those_that_were_measured(self):
        now = serve_table.hashes_of_kernels(ROOT)
        for gpu in ("h100", "h200"):
            results = serve_table.load(ROOT, gpu)
            for row in results["rows"]:
                for kind in serve_table.KINDS:
                    if row[kind + "_kernel"].split("_")[0] in results.get("changed_since", {}):
                        continue  # the page says what has changed
                    self.assertEqual(row[kind + "_hash"], now.get(row[kind + "_kernel"]), row)


if __name__ == "__main__":
    unittest.main()
