"""lib/cli.py: what all scripts refuse on their command lines."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from lib.cli import OK, REFUSED, STOPPED, command, parser_of  # noqa: E402


@command()
def main(arguments):
    parser = parser_of(None)
    parser.add_argument("--rows", default="")
    parser.add_argument("--known", nargs="+")
    parser.add_argument("--count", type=int)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("files", nargs="*")
    print(vars(parser.parse_args(arguments)))
    return OK


class Options(unittest.TestCase):
    def run_main(self, *arguments):
        """(exit code, stdout, stderr)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(arguments))
        return code, out.getvalue(), err.getvalue()

    def test_an_option_with_a_value_that_is_given_twice_is_refused(self):
        for arguments, why in (
            (["--rows=5", "--rows=6"], "--rows is given more than once, as 6 too; give it once."),
            (["--rows=", "--rows", "6"], "--rows is given more than once, as 6 too; give it once."),
            (["--count=0", "--count=0"], "--count is given more than once, as 0 too; give it once."),
            (["--known", "a", "--known", "b", "c"],
             "--known is given more than once, as b c too; give it once."),
        ):  # fmt: skip
            with self.subTest(arguments):
                self.assertEqual(self.run_main(*arguments), (REFUSED, "", why + "\n"))

    def test_once_each_is_as_argparse_has_it(self):
        code, out, _ = self.run_main("a", "b", "--rows=5", "--count", "3", "--force", "--force")
        self.assertEqual(code, OK)
        self.assertEqual(out, "{'rows': '5', 'known': None, 'count': 3, 'force': True, "
                              "'files': ['a', 'b']}\n")  # fmt: skip


def run_script(body, stopped="", before="", **variables):
    """(exit code, stdout, stderr) of a script whose main() has that body."""
    script = (
        f"import os, signal, sys, time\nsys.path.insert(0, {str(ROOT / 'scripts')!r})\n"
        f"from lib.cli import command\n{before}\n@command(stopped={stopped!r})\n"
        f"def main():\n    {body}\n    return 0\nsys.exit(main())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, **variables},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # "&" makes a shell ignore it
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


class Ends(unittest.TestCase):
    """However a script ends, nobody reads a traceback."""

    def test_interrupted(self):
        stop = "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"
        self.assertEqual(run_script(stop), (-signal.SIGINT, "", ""))
        self.assertEqual(run_script(stop, "Stopped."), (STOPPED, "\nStopped.\n", ""))

    def test_under_an_old_python(self):
        old = "sys.version_info, sys.version = (3, 8, 1), '3.8.1 (default)'"
        script = f"import sys; {old}; sys.path.insert(0, 'scripts'); import tables"
        ended = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
        )
        self.assertEqual((ended.returncode, ended.stdout), (REFUSED, ""))
        said = f"{sys.executable} is Python 3.8.1: 3.9 or newer is needed; say make PYTHON=...\n"
        self.assertEqual(ended.stderr, said)

    def test_with_its_output_closed(self):
        self.assertEqual(
            run_script("print(1)", before="sys.stdout = None"),  # as Python has it then
            (REFUSED, "", "What the script prints cannot be written: its output is closed.\n"),
        )

    def test_with_its_output_on_a_full_disk(self):
        for command in (["tables.py", "--help"], ["doctor.py", "--help"], ["goals.py", "--help"],
                        ["explore.py", "--WHAT=swizzle"]):  # fmt: skip
            for unbuffered in ("", "1"):
                with self.subTest(command, unbuffered=unbuffered):
                    with open("/dev/full", "w", encoding="utf-8") as full:
                        ended = subprocess.run(
                            [sys.executable, f"scripts/{command[0]}", *command[1:]], cwd=ROOT,
                            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
                        )  # fmt: skip
                    self.assertEqual(ended.returncode, REFUSED)
                    said = r"(\w+: )?Nothing more can be written: is the disk full\?\n"
                    self.assertRegex(ended.stderr, f"^{said}$")

    def test_where_the_locale_lacks_a_sign(self):
        self.assertEqual(
            run_script("print('2 \\u00d7 3')", PYTHONIOENCODING="ascii"), (OK, "2 ? 3\n", "")
        )


if __name__ == "__main__":
    unittest.main()
