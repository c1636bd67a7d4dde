"""lib/cli.py: what all scripts refuse on their command lines."""

import contextlib
import io
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from lib.cli import OK, REFUSED, command, parser_of  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
