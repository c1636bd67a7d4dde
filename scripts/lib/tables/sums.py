"""The table of what e4m3 sums lose over long K, with and without promotion. The numbers are
those that `build/golden/sums errors` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lib.markdown import DASH, not_measured
from lib.markdown import table as table_of
from lib.results import Row, read

SUFFIX = ".sums.json"
KEYS = ("gpu", "data", "m", "n", "rows")
ROW_KEYS = ("k", "promoted_every", "rms", "largest", "towards_zero", "rms_of_bf16_rounding")
EVERY = {0: "none", 128: "every 128", 32: "every 32"}  # columns, in this order
NOT_MEASURED = not_measured("build/golden/sums errors", "a Hopper GPU makes the file")


def load(path: Path) -> dict[str, Any] | None:
    """The file's contents; None if there is none."""
    return read(path, KEYS, ROW_KEYS, numbers=ROW_KEYS) if path.exists() else None


def percent(value: float) -> str:
    return f"{100 * value:.2g} %"


def of(row: Row | None) -> str:
    if row is None:
        return DASH
    return f"{percent(row['rms'])}, {percent(row['largest'])}"


def table(document: dict[str, Any] | None) -> list[str]:
    if document is None:
        return NOT_MEASURED
    rows = {(row["k"], row["promoted_every"]): row for row in document["rows"]}
    lines = []
    for k in sorted({k for k, _ in rows}):
        without = rows.get((k, 0))
        share = DASH if without is None else f"{without['rms_of_bf16_rounding']:.2f}"
        lines.append([f"{k:,}", *(of(rows.get((k, every))) for every in EVERY), share])
    header = ["K", *(f"promotion {name}" for name in EVERY.values()),
              "without promotion, in errors of rounding to bf16"]  # fmt: skip
    caption = (
        f"Error of e4m3 sums before they are rounded, root mean square and largest, as a share of the "
        f"results' root mean square: {document['m']} x {document['n']} results, {document['data']} data, "
        f"one {document['gpu']}."
    )
    return table_of(header, lines, caption)
