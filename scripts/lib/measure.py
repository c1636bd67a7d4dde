"""Runs a measuring program over rows, again if it dies, until each has a result.

The program prints JSON, one object a line: {"env": ...} first, {"running": ...} with the row or
rows that it is at, and a result a row. What it says on stderr last is why it ended.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lib.cli import HANG, NO_DEVICE, OK, REFUSED, STOPPED, WRONG, Problem
from lib.registry import objects
from lib.store import Journal

Result = dict[str, Any]
SURE_S = 20  # of work done, from which on its pace says how long the rest takes


def duration(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def show_running(what: str, left: str) -> None:
    if sys.stdout.isatty():
        print(f"\r\x1b[K  on {what}, about {left} left", end="", flush=True)


def show_result(number: int, total: int, name: str, what: str, left: str) -> None:
    clear = "\r\x1b[K" if sys.stdout.isatty() else ""
    place = f"[{number:{len(str(total))}}/{total}]"
    print(f"{clear}{place} {name} {what}; about {left} left", flush=True)


def show_failures(failures: dict[str, str]) -> None:
    for name, why in failures.items():
        print(f"FAIL {name}: {why}")


def exit_code(failures: Any, hung: bool) -> int:
    return HANG if hung else WRONG if failures else OK


class Process:
    """A measuring program that runs. echo: what it says on stderr is also said here."""

    def __init__(self, command: list[str], make: str, echo: bool = False) -> None:
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, errors="replace", bufsize=1,
            )  # fmt: skip
        except OSError as error:
            raise Problem(f"{command[0]} cannot be run ({error.strerror}); make {make} builds it.")
        self.name, self.echo, self.words = command[0], echo, [""]
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        for line in self.process.stderr or ():
            self.words.append(line.strip())
            if self.echo:
                print(line, end="", file=sys.stderr, flush=True)

    def send(self, text: str, last: bool = False) -> None:
        assert self.process.stdin
        # If it ended early, its exit code and last words say why.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text)
            self.process.stdin.flush()
            if last:
                self.process.stdin.close()

    def events(self) -> Iterator[Any]:
        """What it prints, until it ends or nobody asks for more."""
        assert self.process.stdout
        yield from objects(iter(self.process.stdout.readline, ""), self.name)

    def end(self) -> int:
        """Waits for its end; returns its exit code."""
        code = self.process.wait()
        self.listener.join(timeout=5)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):  # a row that it did not read
                if stream:
                    stream.close()
        return code

    def stop(self) -> int:
        self.process.kill()
        return self.end()

    def why(self, code: int) -> str:
        """Why it ended, in its own last words."""
        said = next((word for word in reversed(self.words) if word), "")
        return said.removeprefix("FAIL: ") or f"{self.name} ended with {code}."


class Runner:
    """What is measured derives from it. A row is anything that a result can be told by."""

    MAKE = ""  # the target that measures
    SHOWN = 40  # characters of a row's name
    ECHO = False

    def __init__(self, program: str | Path, journal: Journal) -> None:
        self.program = str(program)
        self.journal = journal
        self.results: dict[Any, Result] = {}  # of this run, right or not
        self.hung = False
        self.pending: list[Any] = []
        self.alone: set[Any] = set()  # rows that are to run by themselves, to find which one hangs
        self.start_s = time.monotonic()

    # --- what each says for itself

    def command(self) -> list[str]:
        raise NotImplementedError

    def input_text(self) -> str:
        """What the process reads of the pending rows, if it does not take them as arguments."""
        return ""

    def rows_at(self, said: Any) -> list[Any]:
        """The rows of a {"running": said}."""
        raise NotImplementedError

    def complete(self, result: Result) -> Result:
        """A result with what the program does not know of it."""
        raise NotImplementedError

    def failed(self, row: Any) -> Result:
        """What stands for a row whose process died, without the reason."""
        raise NotImplementedError

    @staticmethod
    def expected_s(rows: Iterable[Any]) -> float:
        raise NotImplementedError

    def name(self, row: Any) -> str:
        raise NotImplementedError

    def numbers(self, result: Result) -> str:
        """What is shown of a right result."""
        raise NotImplementedError

    # --- the same for all

    def run(self, rows: Iterable[Any]) -> None:
        self.pending = list(rows)
        self.total, self.total_s = len(self.pending), self.expected_s(self.pending)
        while self.pending:
            process = Process(self.command(), self.MAKE, self.ECHO)
            try:
                running = self.read(process)
                code = process.end()
            except BaseException:
                process.stop()
                raise
            if self.pending:
                self.blame(code, running, process.why(code))

    def read(self, process: Process) -> list[Any]:
        """Takes results until the process ends; returns the rows that it was at."""
        running: list[Any] = []
        process.send(self.input_text(), last=True)
        for event in process.events():
            if "running" in event:
                running = self.rows_at(event["running"])
                self.show_running(running)
            elif "env" not in event:
                self.take(event)
        return [row for row in running if row in self.pending]

    def blame(self, code: int, running: list[Any], why: str) -> None:
        """The process died over these rows: one is to blame; of several, each gets another try."""
        if code in (REFUSED, NO_DEVICE) or not running:
            raise Problem(why, code if code > 0 else WRONG)
        self.hung |= code == HANG
        if len(running) > 1:
            print(f"{why} Trying its rows one by one.", flush=True)
            self.alone.update(running)
        else:
            self.take({**self.failed(running[0]), "verified": False, "error": why})

    def take(self, result: Result) -> None:
        result = self.complete(result)
        row = self.journal.key_of(result)
        if row not in self.pending:
            raise Problem(
                f"{self.name(row)} was measured, and not asked for: a row's parameters stand in the "
                "program's order, which is this one."
            )
        self.results[row] = result
        self.pending.remove(row)
        if result["verified"]:
            self.journal.add(result)
        self.show_result(row, result)

    def left(self) -> str:
        """About how long the pending rows take, by the pace of those that are done."""
        pending_s = self.expected_s(self.pending)
        done_s = self.total_s - pending_s
        pace = (time.monotonic() - self.start_s) / done_s if done_s > SURE_S else 1
        return duration(pending_s * pace)

    def show_running(self, running: list[Any]) -> None:
        if running:
            more = f" and {len(running) - 1} more" if len(running) > 1 else ""
            show_running(self.name(running[0]) + more, self.left())

    def show_result(self, row: Any, result: Result) -> None:
        what = self.numbers(result) if result["verified"] else "FAIL: " + self.why(result)
        name = f"{self.name(row):{self.SHOWN}}"
        show_result(self.total - len(self.pending), self.total, name, what, self.left())

    @staticmethod
    def why(result: Result) -> str:
        return result.get("error", "wrong result")

    def kept(self) -> str:
        """What a run that is stopped has in its journal."""
        return f"{len(self.journal.rows)} rows"

    def measure(
        self, rows: list[Any], head: str, path: Path, publish: Callable[[list[Result]], list[str]]
    ) -> int:
        """Measures what the journal lacks, and publishes all of it, which returns the names of
        earlier rows that are dropped. Returns the exit code."""
        before = {row: self.journal.rows[row] for row in rows if row in self.journal.rows}
        to_do = [row for row in rows if row not in before]
        print(
            f"{head}\n{len(to_do)} rows, about {duration(self.expected_s(to_do))}"
            + (f"; {len(before)} more are there from a run that was stopped" if before else ""),
            flush=True,
        )
        try:
            self.run(to_do)
        except KeyboardInterrupt:
            print(f"\nStopped. {self.kept()} are kept; make {self.MAKE} goes on from there.")
            return STOPPED
        results = [*before.values(), *self.results.values()]
        dropped = publish(results)
        self.journal.drop(rows)
        failed = {row: result for row, result in self.results.items() if not result["verified"]}
        wrong = {self.name(row): self.why(result) for row, result in failed.items()}
        more = f", {len(dropped)} earlier ones dropped" if dropped else ""
        print(f"{path}: {len(results)} rows measured, {len(wrong)} failed{more}. Next: make tables.")
        if dropped:
            print(f"Dropped, since their kernel is another today: {', '.join(dropped)}.")
        show_failures(wrong)
        return exit_code(wrong, self.hung)
