#!/usr/bin/env python3
"""Times the projections of five models as a server calls them, into docs/results/<gpu>.serve.json,
and writes docs/serving.md's tables and its plot from there. Python standard library only.

  serve_table.py               measures, by build/serve; needs a GPU, and about three minutes
  serve_table.py --take FILE…  takes what build/serve printed elsewhere; of a shape that is there
                               twice the last
  serve_table.py --shapes      prints what build/serve reads
  serve_table.py --tables      writes the page and the plot

Exit codes: 0 ok, 1 wrong result, 2 usage, 3 no usable device, 4 hang.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lib import registry
from lib.cli import OK, REFUSED, ROOT, WRONG, Problem, command, parser_of
from lib.markdown import DASH, cell, rewritten
from lib.markdown import table as markdown
from lib.measure import Process
from lib.results import read
from lib.store import (
    file_stem, outdated_files, revision, update_files, write_document,
)  # fmt: skip
from lib.svg import Drawing

BATCHES = (1, 16, 128, 1024, 4096)
PAGE, PLOT = Path("docs/serving.md"), Path("docs/img/serving.svg")
SUFFIX = ".serve.json"
KINDS = ("bf16", "fp8", "int4")
BASELINES = {"bf16": "bf16_cublas", "fp8": "fp8_cublas", "int4": "bf16_cublas"}
Result = dict[str, Any]  # of one object of JSON
# What of a GPU's results, by the stem of their file: <!-- served: model h100 DeepSeek-V3 -->
MARKER = re.compile(r"^<!-- served: (\w+)(?: (\w+))?(?: (.+))? -->$")
PLOTTED = "h100"

# name: what its config.json says, by the names of its fields.
CONFIGURATIONS: dict[str, dict[str, int]] = {
    "Llama 3.1 8B": dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
                         num_key_value_heads=8, head_dim=128),
    "Llama 3.1 70B": dict(hidden_size=8192, intermediate_size=28672, num_attention_heads=64,
                          num_key_value_heads=8, head_dim=128),
    "Qwen3 32B": dict(hidden_size=5120, intermediate_size=25600, num_attention_heads=64,
                      num_key_value_heads=8, head_dim=128),
    "Mixtral 8x7B": dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
                         num_key_value_heads=8, head_dim=128),
    "DeepSeek-V3": dict(hidden_size=7168, moe_intermediate_size=2048, num_attention_heads=128,
                        q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128,
                        qk_rope_head_dim=64, v_head_dim=128),
}  # fmt: skip


def grouped_query(c: dict[str, int]) -> dict[str, tuple[int, int]]:
    """{projection: (N, K)} of attention whose heads share keys and values, and an MLP beside it."""
    heads, shared = c["num_attention_heads"], c["num_key_value_heads"]
    return {
        "q, k, v": ((heads + 2 * shared) * c["head_dim"], c["hidden_size"]),
        "o": (c["hidden_size"], heads * c["head_dim"]),
        "gate, up": (2 * c["intermediate_size"], c["hidden_size"]),
        "down": (c["hidden_size"], c["intermediate_size"]),
    }


def latent(c: dict[str, int]) -> dict[str, tuple[int, int]]:
    """The same of attention by low ranks, and of one routed expert."""
    heads, nope, rope = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
    return {
        "q_a, kv_a": (c["q_lora_rank"] + c["kv_lora_rank"] + rope, c["hidden_size"]),
        "q_b": (heads * (nope + rope), c["q_lora_rank"]),
        "kv_b": (heads * (nope + c["v_head_dim"]), c["kv_lora_rank"]),
        "o": (c["hidden_size"], heads * c["v_head_dim"]),
        "an expert's gate, up": (2 * c["moe_intermediate_size"], c["hidden_size"]),
        "an expert's down": (c["hidden_size"], c["moe_intermediate_size"]),
    }


MODELS = {
    name: latent(fields) if "q_lora_rank" in fields else grouped_query(fields)
    for name, fields in CONFIGURATIONS.items()
}


def weights() -> list[tuple[int, int]]:
    """Every (N, K) once."""
    return list(dict.fromkeys(size for sizes in MODELS.values() for size in sizes.values()))


def shape_lines() -> str:
    batches = " ".join(map(str, BATCHES))
    return "".join(f"{n} {k} {batches}\n" for n, k in weights())


# --- results -------------------------------------------------------------------------------------


def hashes_of_kernels(root: Path) -> dict[str, str | None]:
    """{stem/variant: the kernel's hash} of the library as it is built."""
    variants = registry.read(root / "build/ladder")
    hashes = registry.read_hashes(root / "build/ptx/hashes.json", variants)
    return {f"{v['name']}/{v['variant']}": hashes.get(v["kernel"]) for v in variants}


def objects_of(lines: list[str], program: str) -> list[Result]:
    """What a program printed, an object of JSON a line, first the machine it ran on."""
    found = list(registry.objects(lines, program, REFUSED))
    if not found or not isinstance(found[0].get("gpu"), str):
        raise Problem(f"The first line does not say which GPU it was; take all of what {program} printed.")
    return found


def check_positive(row: Result, keys: Iterable[str], program: str) -> None:
    for key in keys:
        value = row.get(key)
        if value is None or type(value) not in (int, float) or value <= 0:
            raise Problem(f"{key} is {value!r} in a line of {program}, which prints a number above 0.")


def publish(root: Path, printed: str) -> int:
    """Writes the results file from what build/serve printed."""
    head: dict[str, str] = {}
    found: dict[tuple[int, int, int], Result] = {}
    for line in objects_of(printed.splitlines(), "build/serve"):
        if "m" in line:
            timed = {f"{kind}_us" for kind in KINDS} | {key for key in line if key.endswith("_us")}
            check_positive(line, ["m", "n", "k", *sorted(timed)], "build/serve")
            found[line["m"], line["n"], line["k"]] = line
        elif head not in ({}, line):
            raise Problem(f"Two machines or versions: {head} and {line}.")
        else:
            head = line
    shapes = [(m, n, k) for n, k in weights() for m in BATCHES]
    missing = [shape for shape in shapes if shape not in found]
    if missing:
        raise Problem(f"{len(missing)} shapes are missing, such as {missing[0]}.")
    rows = [found[shape] for shape in shapes]
    wrong = [row for row in rows if row.get("verified") is not True]
    if wrong:
        raise Problem(f"FAIL {wrong[0]}", WRONG)
    hashes = hashes_of_kernels(root)
    for row in rows:
        for kind in KINDS:
            kernel = row.get(f"{kind}_kernel")
            if kernel not in hashes:
                raise Problem(f"{kind}_kernel is {kernel!r}, which is no kernel of build/ladder.")
            row[f"{kind}_hash"] = hashes[kernel]
    print(f"{write(root, head, rows, SUFFIX)}: {len(rows)} shapes. Next: make tables.")
    return OK


def write(root: Path, head: Result, rows: list[Result], suffix: str) -> Path:
    """The file that is written."""
    path = root / "docs/results" / (file_stem(head["gpu"]) + suffix)
    write_document(path, {**head, "revision": revision()}, rows=rows)
    return path


def measure(root: Path) -> int:
    program = Process([str(root / "build/serve")], "serve-table", echo=True)
    program.send(shape_lines(), last=True)
    total, rows = len(weights()) * len(BATCHES), []
    for row in program.events():
        rows.append(row)
        if "m" in row:
            print(f"[{len(rows) - 1:2}/{total}] M = {row['m']}, N = {row['n']}, K = {row['k']}",
                  flush=True)  # fmt: skip
    code = program.end()
    return publish(root, "\n".join(map(json.dumps, rows))) if code == 0 else code


HEAD_KEYS = ("gpu", "driver", "toolkit", "cublas", "revision")
ROW_KEYS = ("m", "n", "k", *(f"{kind}_us" for kind in KINDS))


def load(
    root: Path, gpu: str, suffix: str = SUFFIX, head_keys: Iterable[str] = HEAD_KEYS,
    numbers: Iterable[str] = ROW_KEYS,
) -> Result | None:  # fmt: skip
    """The results of a GPU, if there are some. numbers: that each row has."""
    path = root / "docs/results" / (gpu + suffix)
    return read(path, head_keys, numbers, numbers=numbers) if path.exists() else None


def ratio(row: Result, kind: str) -> float | None:
    """How many times as fast as cuBLASLt's product that stands beside it."""
    baseline = row.get(BASELINES[kind] + "_us")
    return baseline / row[kind + "_us"] if baseline else None


# --- the page ------------------------------------------------------------------------------------


def us(value: float | None) -> str:
    return DASH if value is None else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


NOT_MEASURED = ["*Not measured yet: `make serve-table` on a Hopper GPU fills this in.*"]


def model_table(results: Result, name: str) -> list[str]:
    rows = {(row["m"], row["n"], row["k"]): row for row in results["rows"]}
    header = ["projection", "N, K", "batch", "bf16", "cuBLASLt bf16", "ratio", "fp8",
              "cuBLASLt fp8", "ratio", "int4", "ratio to bf16"]  # fmt: skip
    lines = []
    for projection, (n, k) in MODELS[name].items():
        for m in BATCHES:
            row, first = rows.get((m, n, k)), m == BATCHES[0]
            line = [projection if first else "", f"{n}, {k}" if first else "", str(m)]
            if row is None:
                lines.append(line + [DASH] * 8)
                continue
            for kind in ("bf16", "fp8"):
                line += [us(row[kind + "_us"]), us(row.get(kind + "_cublas_us"))]
                line += [cell(ratio(row, kind), ".2f")]
            lines.append(line + [us(row["int4_us"]), cell(ratio(row, "int4"), ".2f")])
    return markdown(header, lines)


def means_table(results: Result) -> list[str]:
    """Geometric means over the distinct projections, the lowest, and how many are below 1; and at how
    many of them each kind takes the least time of the three."""
    lines = []
    for m in BATCHES:
        rows, line = [row for row in results["rows"] if row["m"] == m], [str(m)]
        for kind in KINDS:
            ratios = [each for row in rows if (each := ratio(row, kind)) is not None]
            mean = statistics.geometric_mean(ratios) if ratios else None
            below = sum(each < 1 for each in ratios)
            line += [cell(mean, ".2f"), f"{cell(min(ratios, default=None), '.2f')}, {below}"]
        fastest = [min(KINDS, key=lambda kind: row[kind + "_us"]) for row in rows]
        named = [f"{kind} {fastest.count(kind)}" for kind in KINDS if kind in fastest]
        lines.append(line + [", ".join(named)])
    return markdown(["batch", "bf16", "lowest, below 1", "fp8", "lowest, below 1", "int4 to bf16",
                     "lowest, below 1", "fastest of the three"], lines)  # fmt: skip


def changes(results: Result) -> list[str]:
    """What of the kernels has changed since."""
    return [
        f"Of rung {rung} this has changed since: {what}."
        for rung, what in results.get("changed_since", {}).items()
    ]


def environment(results: Result) -> list[str]:
    lines = [f"{results['gpu']}, driver {results['driver']}, CUDA {results['toolkit']}, cuBLASLt "
             f"{results['cublas']}, revision {results['revision']}."]  # fmt: skip
    return [*lines, *changes(results)]


def written(results: Result | None, kind: str, name: str | None) -> list[str]:
    if kind == "sizes":
        lines = [
            [name, ", ".join(f"`{field}` {value}" for field, value in fields.items())]
            for name, fields in CONFIGURATIONS.items()
        ]
        return markdown(["model", "fields of its config.json"], lines)
    if results is None:
        return NOT_MEASURED
    if kind == "model":
        return model_table(results, name or "")
    return means_table(results) if kind == "means" else environment(results)

MARKS = {"bf16": "blue", "fp8": "orange", "int4": "green"}
LABELS = {kind: f"{kind} / cuBLASLt {BASELINES[kind].split('_')[0]}" for kind in KINDS}


def plot(results: Result | None) -> Drawing:
    """A panel for each batch size, a column for each projection: three dots, how many times as fast
    as cuBLASLt's, on a scale of logarithms."""
    width, height, left, top, bottom = 900, 330, 40, 44, 40
    drawing = Drawing(width, height, "Projections of five models, by batch: times cuBLASLt's speed")
    if results is None:
        drawing.text("not measured yet", width // 2, height // 2, "middle", "")
        return drawing
    ticks = (0.5, 0.7, 1, 1.5, 2, 3, 4)
    low, high = math.log(ticks[0]), math.log(ticks[-1])

    def y(value: float) -> float:
        share = (min(max(math.log(value), low), high) - low) / (high - low)
        return top + (height - top - bottom) * (1 - share)

    for tick in ticks:
        kind = "line-ink" if tick == 1 else "line-gray thin faint"
        drawing.line(kind, left, y(tick), width - 10, y(tick))
        drawing.text(f"{tick:g}", left - 6, y(tick) + 4, "end")
    panel = (width - 10 - left) / len(BATCHES)
    for index, m in enumerate(BATCHES):
        start = left + index * panel
        drawing.text(f"batch {m}", start + panel / 2, height - bottom + 20, "middle", "")
        if index:
            drawing.line("line-gray dashed", start, top, start, height - bottom)
        rows = [row for row in results["rows"] if row["m"] == m]
        step = (panel - 16) / max(1, len(rows))
        for place, row in enumerate(rows):
            for kind in KINDS:
                value = ratio(row, kind)
                if value is not None:
                    drawing.circle(MARKS[kind], start + 8 + step * (place + 0.5), y(value), 3)
    for index, kind in enumerate(KINDS):
        drawing.circle(MARKS[kind], left + 6 + 180 * index, 18, 4)
        drawing.text(LABELS[kind], left + 16 + 180 * index, 22, kind="")
    return drawing


def outdated(root: Path) -> list[tuple[Path, str]]:
    """(path, new text) of what is not what the results say."""
    old = (root / PAGE).read_text(encoding="utf-8")
    page = rewritten(
        old, MARKER, lambda m, _: written(load(root, m[2] or PLOTTED), m[1], m[3]), PAGE)
    return outdated_files(root, {PLOT: plot(load(root, PLOTTED)).svg(), PAGE: page})


@command()
def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--take", type=Path, nargs="+", metavar="FILE",
                        help="publish what build/serve printed")  # fmt: skip
    parser.add_argument("--shapes", action="store_true", help="print what build/serve reads")
    parser.add_argument("--tables", action="store_true", help="write the page and the plot")
    options = parser.parse_args()
    if options.shapes:
        print(shape_lines(), end="")
        return OK
    if options.tables:
        update_files(ROOT, outdated(ROOT), "serve_table")
        return OK
    if options.take:
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in options.take]
        return publish(ROOT, "".join(texts))
    return measure(ROOT)


if __name__ == "__main__":
    sys.exit(main())
