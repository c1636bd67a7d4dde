"""The numbers of what the changes of exercises cost, by make times."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lib.cli import Problem
from lib.markdown import percent, tflops
from lib.results import Results, Row, read, value_of
from lib.rows import shape_name, shape_of

SUFFIX = ".exercises.json"
ROW_KEYS = ("exercise", "change", "options", "stage", "variant", "m", "n", "k", "regime", "changed_tflops",
            "factor", "verified", "kernel", "kernel_hash")  # fmt: skip
FORMATS: dict[str, Callable[[float], str]] = {
    "changed_tflops": tflops,
    "changed_tensor_share": percent,
    "changed_sm_mhz": lambda value: format(value, ".0f"),
    "factor": lambda value: format(value, ".2f"),
}


def rows(results: Results | None) -> list[Row]:
    """Those of the file beside the results; none if there is none."""
    path = results.beside(SUFFIX) if results else None
    return read(path, ("gpu", "rows"), ROW_KEYS)["rows"] if path and path.exists() else []


def operand(results: Results | None, text: str) -> tuple[Any, str]:
    """(value, key) of NAME.variant.size.key, such as 1.1.64x64.2048.factor: how many times as fast the
    change makes it, by the shares of cuBLASLt; tflops and sm_mhz as it is, changed_tflops and
    changed_sm_mhz with the change."""
    match = re.fullmatch(r"(\d+\.\d+)\.([^.]+)\.(\d+(?:x\d+x\d+)?)\.(\w+)", text)
    if not match:
        raise Problem(f'"{text}" is neither a number nor exercise.variant.size.key')
    name, variant, size, key = match.groups()
    found = [row for row in rows(results) if row["exercise"] == name]
    for row in found:
        if row["variant"] == variant and shape_name(shape_of(row)) == size:
            return value_of(row, key, text)
    if found:
        raise Problem(f'"{text}": exercise {name} was not timed with this variant at this size')
    return None, key
