"""What build/ladder says: every rung and variant that is linked in, stage 0, which chooses among
them, and what it would choose."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lib.cli import WRONG, Problem
from lib.rows import Row, row_of, row_text

Variant = dict[str, Any]  # an object of --list
Result = dict[str, Any]  # a row of docs/results


def parse(text: str, stage_0: bool = False) -> list[Variant]:
    """The variants of the rungs, or of stage 0 too. A chooser has no kernel: None."""
    return [variant for variant in listed(text) if variant["stage"] > 0 or stage_0]


def listed(text: str) -> list[dict[str, Any]]:
    """The objects that a program of this project prints with --list."""
    try:
        return json.loads(text)
    except ValueError:
        raise Problem(f"What the program prints with --list is no JSON, but {text[:60]!r}.")


def objects(
    lines: Iterable[str], program: str | Path, code: int = WRONG
) -> Iterator[dict[str, Any]]:
    """What a program of this project prints, an object of JSON a line; code: of another line."""

    def no_number(text: str) -> None:
        raise ValueError(f"{text} is no number")

    for line in filter(str.strip, lines):
        try:
            said = json.loads(line, parse_constant=no_number)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            word = repr(line.strip()[:60])
            raise Problem(f"{word} is no line of {program}, which prints JSON.", code)
        yield said


def read(program: str | Path, stage_0: bool = False) -> list[Variant]:
    """The same of a program."""
    return parse(ask(program, "--list"), stage_0)


def ran(row: Mapping[str, Any]) -> tuple[int, str]:
    """(rung, variant) of what a row of docs/results was measured with: what its variant chose, if
    it chooses. Stage 0's configuration names the rung too: 11_autotuned/128x256."""
    rung, _, variant = (row.get("configuration") or row["variant"]).rpartition("/")
    return (int(rung.split("_")[0]) if rung else row["stage"]), variant


def ask(
    program: str | Path, *arguments: str, rows: Iterable[Row] = (),
    environment: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """stdout of a short run of the program over rows; its exit code, if not 0, is passed on."""
    lines = "".join(row_text(row) + "\n" for row in rows)
    variables = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(
            (program, *arguments), input=lines, capture_output=True, text=True, env=variables
        )
    except OSError as error:
        raise Problem(f"{program} cannot be run ({error.strerror}); make build/{Path(program).name} builds it.")
    if done.returncode != 0:
        wrong = [line for line in done.stdout.splitlines() if " FAIL: " in line]
        why = "\n".join([*wrong, done.stderr.strip()]).strip()
        why = why or f"{program} ended with {done.returncode}."
        raise Problem(why, done.returncode if done.returncode > 0 else WRONG)
    return done.stdout


def environment(program: str | Path, mode: str) -> dict[str, Any]:
    """GPU, versions and data of a measuring program, which it says before it reads rows."""
    for said in objects(ask(program, mode).splitlines(), program):
        if "env" in said:
            return said["env"]
    raise Problem(f"{program} {mode} does not say what it runs on.", WRONG)


def read_hashes(path: Path, variants: list[Variant]) -> dict[str, str]:
    """{kernel: fingerprint} of build/ptx/hashes.json, which has every kernel of the variants."""
    try:
        hashes = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        hashes = None
    if not isinstance(hashes, dict):
        raise Problem(f"{path} cannot be read; make bench writes it.")
    for variant in variants:
        if variant["kernel"] and variant["kernel"] not in hashes:
            raise Problem(f"{path} has no kernel {variant['kernel']}; make clean, then make bench.")
    return hashes


def choices(
    program: str | Path, rows: Iterable[Row], environment: Mapping[str, str] | None = None
) -> dict[Row, dict[str, Any]]:
    """{Row: what the program says of it}: configuration, kernel, predicted_us."""
    asked = list(rows)
    said = ask(program, "--choices", rows=asked, environment=environment) if asked else ""
    return dict(zip(asked, objects(said.splitlines(), program)))


class Today:
    """What the program is now, to judge earlier results by. hashes: {kernel: fingerprint}"""

    def __init__(self, program: str | Path, hashes: Path, stage_0: bool = False) -> None:
        self.program = program
        self.listed = read(program, stage_0)
        self.variants = {(v["stage"], v["variant"]): v for v in self.listed}
        self.hashes = read_hashes(hashes, self.listed)

    def kernel_hash(self, result: Result) -> str | None:
        """Of the kernel that stands today for what made that result; None if nothing does."""
        of_result = self.variants.get(ran(result))
        return self.hashes.get(of_result["kernel"]) if of_result else None

    def choices(self, rows: list[Row]) -> dict[Row, dict[str, Any]]:
        return choices(self.program, rows)

    def still(self, results: Iterable[Result]) -> list[Result]:
        """Those whose kernel is the same, and whose variant would choose the same again."""
        same = {
            row_of(result): result
            for result in results
            if (result["stage"], result["variant"]) in self.variants
            and result["kernel_hash"] is not None
            and self.kernel_hash(result) == result["kernel_hash"]
        }
        chosen = self.choices([row for row in same if self.variants[row[:2]]["chooses"]])
        return [
            result
            for row, result in same.items()
            if row not in chosen or chosen[row]["configuration"] == result.get("configuration")
        ]
