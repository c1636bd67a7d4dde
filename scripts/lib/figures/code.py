"""What figures ask of a tree: index maps, variants, barriers and constants."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path
from typing import Any

from lib import maps, registry
from lib.cli import Problem

WIDTH = 860
MB = 10**6


class Code:
    """Index maps, variants and barriers of a tree."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @functools.lru_cache(maxsize=None)
    def map(self, name: str, **options: object) -> Any:
        return maps.ask(self.root, name, options)

    @functools.lru_cache(maxsize=None)
    def rung(self, number: int, variant: str | None = None) -> dict[str, Any]:
        """The row of a rung's variant, or of the one that stands for it."""
        rows = [row for row in self.rows() if row["stage"] == number]
        return next(r for r in rows if (r["variant"] == variant if variant else r["result"]))

    @functools.lru_cache(maxsize=None)
    def rows(self) -> list[dict[str, Any]]:
        return registry.read(self.root / "build/ladder")

    @functools.lru_cache(maxsize=None)
    def barriers(self, number: int) -> dict[str, int]:
        """{name: arrivals that it waits for} of the mbarriers of a rung's result."""
        [path] = (self.root / "stages").glob(f"{number:02}_*.cu")
        row = self.rung(number)
        known = {
            "T::CONSUMERS": (row["threads"] - 128) // 128,
            "T::CLUSTER": row["cluster_m"] * row["cluster_n"],
        }
        found = {}
        inits = r"ptx::mbarrier_init\(&smem\.(\w+)(?:\[\w+\])+, ([^)]+)\)"
        for name, count in re.findall(inits, path.read_text(encoding="utf-8")):
            factors = count.split(" * ")
            found[name] = math.prod(known[f] if f in known else int(f) for f in factors)
        return found

    def constant(self, path: str, name: str) -> int:
        """A constant that a file gives as a number."""
        text = (self.root / path).read_text(encoding="utf-8")
        found = re.search(rf"constexpr int {name} = (\d+);", text)
        if found is None:
            raise Problem(f"{path} has no constant {name}, or it is no number")
        return int(found.group(1))


def colour(index: int) -> str:
    return f"c{index % 8}"
