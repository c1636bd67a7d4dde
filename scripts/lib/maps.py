"""What build/maps says: where the kernels put each element, by common/tile as they use it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from lib.cli import Problem

CHUNK, BANKS, BANK = 16, 32, 4  # bytes of a chunk; banks of shared memory, and bytes of each


def ask(root: Path, name: str, options: dict[str, object]) -> Any:
    program = root / "build/maps"
    if not program.exists():
        raise Problem("build/maps is not there: make build/maps builds it.")
    words = [f"{key}={value}" for key, value in options.items()]
    ended = subprocess.run([program, name, *words], capture_output=True, text=True)
    if ended.returncode != 0:
        raise Problem(f"build/maps {name} {' '.join(words)}: {ended.stderr.strip()}.")
    return json.loads(ended.stdout)


def chunks_at(offsets: list[list[int]]) -> dict[int, tuple[int, int]]:
    """{offset: (row, chunk)} of a swizzle, which gives offsets by row and chunk."""
    return {o: (row, c) for row, chunks in enumerate(offsets) for c, o in enumerate(chunks)}


def fields(bits: int | str) -> dict[str, int]:
    """What a matrix descriptor says, in bytes: the bits as the PTX ISA lists them."""
    value = int(bits, 16) if isinstance(bits, str) else bits
    return {
        "start": (value & 0x3FFF) << 4,
        "lbo": (value >> 16 & 0x3FFF) << 4,
        "sbo": (value >> 32 & 0x3FFF) << 4,
        "base": value >> 49 & 7,
        "swizzle": value >> 62,
    }
