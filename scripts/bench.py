#!/usr/bin/env python3
"""Measures rungs on this machine's GPU into docs/results/<gpu>.json. Python standard library only.

  bench.py               every rung and variant at 2048, 4096 and 8192 cubed (rung 1: 2048 cubed),
                         burst and sustained; not the configurations that make sweep compares
  bench.py --rows=ROWS   only these; other rows of the file stay if their kernel is still the same

ROWS is one or more selectors, joined by commas:  RUNG[:VARIANT][(ARGS)][@SHAPE][/REGIME]

  RUNG     a number, a range such as 5-8, or * for all (may be left out: @4096, /burst); 0 is the
           choice among all rungs, which * leaves out: `best`, and `best_no_workspace`, which takes
           no kernel that needs a workspace
  VARIANT  a name, `result` for the variant that stands for the rung, or * for all, configurations
           too
  ARGS     of a rung that takes several types, layouts, …, those that are not the default, by +:
           13:result(type=fp16+layout=NT)
  SHAPE    4096 for a cube, MxNxK, `tuning` for the tuning shapes, `heldout` for the held-out ones,
           `rounds`, `between`, `long_k`, `decode` or `ragged` for a class of drawn shapes
           (scripts/lib/shape_lists.py), `classes` for all five, `all` for all of these;
           default 2048, 4096 and 8192. Rung 1 runs at 2048 only, unless a selector has both its
           number and a shape
  REGIME   burst or sustained; default both, but burst only for drawn shapes

  8    5:bn256    *:result    5,6    7-8:result@4096/burst    8@4096x7168x2048    @8192/sustained
  11@heldout    0@all    0:best_no_workspace@decode

A row is written to build/bench/ as soon as it is measured, so that a run that was stopped goes on
from there: rows whose kernel, choice of a configuration and machine are still the same are not
measured again. When all rows are there, docs/results/<gpu>.json is replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lib import registry, store
from lib.cli import command, measuring_parser
from lib.measure import Runner
from lib.registry import Today
from lib.rows import (
    REGIMES, Row, by_size, groups, parse_row, places, row_name, row_of, row_text, select,
    shape_of,
)  # fmt: skip
from lib.store import Document, Journal

# Seconds, for the time left: a variant's rounds, those of cuBLASLt beside each group of variants,
# operands and references of a shape, and choosing among cuBLASLt's algorithms, once a shape. The
# pace of the run itself corrects them.
ROW_S = {"burst": 0.7, "sustained": 1.6}
GROUP_S = {"burst": 0.7, "sustained": 2.7}
SHAPE_S = 0.3
BASELINE_S = 2.5
ENV_KEYS = ("gpu", "driver", "toolkit", "cublas", "sms", "l2_bytes", "data", "seed")
Result = dict[str, Any]


def journal_of(path: Path, env: Document, today: Today) -> Journal:
    """Right rows of this machine and of today's kernels and choices."""
    return Journal(path, env, row_of, lambda rows: today.still(r for r in rows if r["verified"]))


class Bench(Runner):
    """build/ladder over rows. A row that stands alone has an empty line on both sides."""

    MAKE = "bench"
    MODE = "--bench-rows"
    ECHO = True
    # What a row has none of whose process died.
    BLANK: tuple[str, ...] = ("configuration", "tflops", "p10", "p90", "baseline_tflops", "baseline_algo", "ratio",
             "sm_mhz", "tensor_share", "host_us", "watts", "pj_per_flop", "registers")  # fmt: skip

    def __init__(self, today: Today, journal: Journal) -> None:
        super().__init__(today.program, journal)
        self.today = today

    def command(self) -> list[str]:
        return [self.program, self.MODE]

    def input_text(self) -> str:
        lines = [f"\n{row_text(r)}\n" if r in self.alone else row_text(r) for r in self.pending]
        return "\n".join(lines) + "\n"

    def rows_at(self, said: list[str]) -> list[Row]:
        return [parse_row(text) for text in said]

    def complete(self, result: Result) -> Result:
        return {**result, "kernel_hash": self.today.hashes.get(result["kernel"])}

    def failed(self, row: Row) -> Result:
        variant = self.today.variants[row.stage, row.variant]
        known = {key: variant[key] for key in ("name", "problem", "result", "smem_bytes", "kernel")}
        return {**row._asdict(), **known, **dict.fromkeys(self.BLANK), "rounds": 0}

    @staticmethod
    def expected_s(rows: Iterable[Row]) -> float:
        rows = list(rows)
        shapes = {(shape_of(row), row.regime) for row in rows}
        of_groups = sum(GROUP_S[group[0].regime] for group in groups(rows))
        of_rows = sum(ROW_S[row.regime] for row in rows)
        alone = BASELINE_S * len({shape for shape, _ in shapes})
        return of_groups + of_rows + SHAPE_S * len(shapes) + alone

    def name(self, row: Row) -> str:
        return row_name(row)

    def numbers(self, result: Result) -> str:
        ratio = result.get("ratio")
        share = f"{100 * ratio:5.1f} % of cuBLASLt" if ratio else "cuBLASLt refuses the shape"
        chosen = f", {result['configuration']}" if result.get("configuration") else ""
        return f"{result['tflops']:7.1f} TFLOPS, {share}{chosen}"


def publish(path: Path, env: Document, results: list[Result], today: Today) -> list[str]:
    """Replaces the results file: these results and what still holds of its earlier rows. Returns
    the names of those that do not."""
    measured = {row_of(result): result for result in results}
    old = store.rows_of_machine(path, env, ENV_KEYS, "measurements", "bench")
    others = [result for result in old if row_of(result) not in measured]
    measured.update((row_of(result), result) for result in today.still(others))
    place = places(today.listed)

    def order(row: Row) -> Any:
        return place[row[:2]], REGIMES.index(row.regime), by_size(shape_of(row)), row

    head = store.head_of(env, ENV_KEYS)
    store.write_document(path, head, rows=[measured[row] for row in sorted(measured, key=order)])
    return [row_name(row) for row in map(row_of, others) if row not in measured]


@command()
def main() -> int:
    parser = measuring_parser(__doc__, "build/bench")
    parser.add_argument("--rows", default="", help="selectors, see above; default all")
    options = parser.parse_args()
    today = Today(options.program, options.hashes, stage_0=True)
    rows = select(options.rows, today.listed)
    env = registry.environment(options.program, Bench.MODE)
    stem = store.file_stem(env["gpu"])
    path = options.results / f"{stem}.json"
    bench = Bench(today, journal_of(options.partial / f"{stem}.partial.jsonl", env, today))
    head = (
        f"{store.machine_text(env)}, cuBLASLt {env['cublas']}; {env['data']} data, "
        f"seed {env['seed']}"
    )
    return bench.measure(rows, head, path, lambda results: publish(path, env, results, today))


if __name__ == "__main__":
    sys.exit(main())
