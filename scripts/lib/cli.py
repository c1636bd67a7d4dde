"""How a script ends: a Problem is one sentence for whoever runs it, and an exit code."""

from __future__ import annotations

import argparse
import difflib
import errno
import functools
import io
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

OK, WRONG, REFUSED, NO_DEVICE, HANG, STOPPED = 0, 1, 2, 3, 4, 130
ROOT = Path(__file__).resolve().parents[2]

if sys.version_info < (3, 9):
    print(f"{sys.executable} is Python {sys.version.split()[0]}: 3.9 or newer is needed; say make "
          "PYTHON=...", file=sys.stderr)  # fmt: skip
    sys.exit(REFUSED)


class Problem(Exception):
    """Something the user must mend; the message is one sentence, code the exit code."""

    def __init__(self, message: object, code: int = REFUSED) -> None:
        super().__init__(message)
        self.code = code


def command(
    name: str = "", stopped: str = ""
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorates main(): a Problem is printed, with the script's name in front of it if there is
    one. So is `stopped` when it is interrupted; without one nothing is. Who reads no further, as
    head does, ends it."""

    def say(words: object) -> None:
        print(f"{name}: {words}" if name else words, file=sys.stderr)

    def decorate(main: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(main)
        def run(*arguments: object) -> int:
            if sys.stdout is None:
                say("What the script prints cannot be written: its output is closed.")
                return REFUSED
            if isinstance(sys.stdout, io.TextIOWrapper):  # for what a locale lacks, such as ×
                sys.stdout.reconfigure(errors="replace")
            try:
                status = main(*arguments)
                sys.stdout.flush()
                return status
            except Problem as problem:
                say(problem)
                return problem.code
            except BrokenPipeError:
                drop_output()
                return OK
            except OSError as error:
                no_room = error.errno == errno.ENOSPC and error.filename is None
                say("Nothing more can be written: is the disk full?" if no_room else error)
                drop_output()
                return REFUSED
            except KeyboardInterrupt:
                if not stopped:
                    sys.excepthook = lambda *unseen: None  # Python then ends by the signal
                    raise
                print(f"\n{stopped}")
                return STOPPED

        return run

    return decorate


def drop_output() -> None:
    """What is still to be printed cannot be: Python would say so once more when it ends."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Once(argparse.Action):
    """Stores a value, and refuses a second one: argparse would take the last without a word."""

    given = False

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
        option_string: str | None = None,
    ) -> None:  # fmt: skip
        if self.given and option_string:
            last = " ".join(map(str, values)) if isinstance(values, list) else values
            raise Problem(f"{option_string} is given more than once, as {last} too; give it once.")
        self.given = True
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    def print_help(self, file: Any = None) -> None:
        """argparse says nothing where it cannot."""
        print(self.format_help(), end="", file=file, flush=True)


def parser_of(description: str | None) -> argparse.ArgumentParser:
    parser = Parser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.register("action", None, Once)
    return parser


def project(folder: str) -> Path:
    """An argument that names the project's folder, or a copy of it."""
    if not Path(folder, "docs").is_dir():
        raise Problem(f"{folder} is no folder of the project: it has no docs/.")
    return Path(folder)


def measuring_parser(
    description: str | None, partial: str, program: str = "build/ladder"
) -> argparse.ArgumentParser:
    """With the paths that every measurement has; partial is where it keeps what it was stopped at."""
    parser = parser_of(description)
    parser.epilog = "Exit codes: 0 ok, 1 wrong result, 2 usage, 3 no device, 4 hang, 130 stopped."
    parser.add_argument("--program", default=program)
    parser.add_argument("--hashes", type=Path, default=Path("build/ptx/hashes.json"))
    parser.add_argument("--results", type=Path, default=Path("docs/results"), metavar="DIR")
    parser.add_argument("--partial", type=Path, default=Path(partial), metavar="DIR")
    return parser


def whole(text: str, base: int = 10) -> int | None:
    """A number of a command line, as the programs read it; None of anything else, and of 4_0, +4
    and digits of other scripts, which int() takes."""
    try:
        return int(text, base) if text.isascii() and text.isalnum() else None
    except ValueError:
        return None


def number(option: str, least: int, most: int, near: int) -> Callable[[str], int]:
    """Reads the value of an option, for argparse; near: one that works."""

    def read(text: str) -> int:
        value = whole(text)
        if value is None or not least <= value <= most:
            rule = f"a whole number from {least} to {most}"
            raise Problem(f"{option} is '{text}' but must be {rule}; try {near}.")
        return value

    return read


def nearest(word: str, candidates: Iterable[str]) -> str:
    """The one that is most like the word; "" if none is near."""
    return next(iter(difflib.get_close_matches(word, list(candidates), 1, 0.65)), "")


def suggestion(word: str, candidates: Iterable[str]) -> str:
    """The end of a sentence about a word that is not among the candidates."""
    near = nearest(word, candidates)
    return f"; did you mean {near}?" if near else "."
