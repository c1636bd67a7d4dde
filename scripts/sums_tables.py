"""The table of what e4m3 sums lose over long K, with and without promotion. For tables.py; the numbers
are those that `build/golden/sums errors` writes."""

import json

from cells import DASH, markdown

SUFFIX = ".sums.json"
KEYS = ("gpu", "data", "m", "n", "rows")
ROW_KEYS = ("k", "promoted_every", "rms", "largest", "towards_zero", "rms_of_bf16_rounding")
EVERY = {0: "none", 128: "every 128", 32: "every 32"}  # columns, in this order
NOT_MEASURED = "*Not measured yet: `build/golden/sums errors` on a Hopper GPU makes the file.*"


def load(path):
    """The file's contents; None if there is none. Raises ValueError if a key is missing."""
    if not path.exists():
        return None
    document = json.loads(path.read_text(encoding="utf-8"))
    missing = [key for key in KEYS if key not in document]
    missing += [key for row in document.get("rows", []) for key in ROW_KEYS if key not in row]
    if missing:
        raise ValueError(f"{path}: the key {missing[0]} is missing")
    return document


def percent(value):
    return f"{100 * value:.2g} %"


def of(row):
    if row is None:
        return DASH
    return f"{percent(row['rms'])}, {percent(row['largest'])}"


def table(document):
    if document is None:
        return [NOT_MEASURED]
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
    return markdown(header, lines) + ["", caption]
