#!/usr/bin/env python3
"""Counts what kernels do on this machine's GPU into docs/results/<gpu>.counters.json, by Nsight
Compute on one launch of every rung and variant. Python standard library only.

  counters.py              every rung and variant at 8192 cubed (rung 1: 2048 cubed)
  counters.py --rows=ROWS  only these; other rows of the file stay if their kernel is still the same

ROWS is one or more selectors RUNG[:VARIANT][(ARGS)][@SHAPE], joined by commas, as those of bench.py
but without a regime; without a shape, a selector means 8192 cubed (rung 1: 2048 cubed).

The file is replaced after every row, so that a run that was stopped goes on from there. Rows whose
kernel and machine are still the same are not counted again, unless --force is given.

Exit codes: 0 ok, 1 a row failed, 2 usage or no ncu, 3 no usable device, 130 stopped.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from lib import registry, rows, store, tools
from lib.cli import Problem, command, parser_of
from lib.measure import duration, exit_code, show_failures, show_result, show_running
from lib.registry import Today
from lib.rows import Row
from lib.store import Document
from lib.tools import ncu_command, need, tool_environment

# Key of a row: (what ncu calls it, unit it is printed in, what that unit counts).
METRICS = {
    "cycles": ("sm__cycles_elapsed.max", "cycle", 1),
    "l2_read_bytes": ("lts__t_sectors_srcunit_tex_op_read.sum", "sector", 32),
    "l2_to_sm_bytes": ("l1tex__m_xbar2l1tex_read_bytes.sum", "byte", 1),
    "l2_write_bytes": ("lts__t_sectors_op_write.sum", "sector", 32),
    "dram_read_bytes": ("dram__bytes_read.sum", "byte", 1),
    "dram_write_bytes": ("dram__bytes_write.sum", "byte", 1),
    "smem_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "", 1),
    "smem_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "", 1),
    "instructions": ("smsp__inst_executed.sum", "inst", 1),
}
SIZE = 8192
REGIME = rows.REGIMES[0]  # of a launch as a Row; counters have none
ROW_KEYS = {"kernel_hash", *METRICS}
ENV_KEYS = ("gpu", "driver", "toolkit", "seed")
FIRST_ROW_S = 15  # a guess, until there is a row to tell by

Counts = dict[str, Any]  # a row of the file


class Failed(Exception):
    """Why a row has no counts, in one line."""


def select(rows_text: str, variants: list[dict[str, Any]]) -> list[Row]:
    """The launches that --rows selects (all by default), in order of registration."""
    for selector in rows.selectors(rows_text):
        if "/" in selector:
            raise Problem(
                f"--rows: '{selector}' names a regime, which counters do not have; "
                f"say {selector.split('/')[0] or '*'}."
            )
    selected = rows.select(rows_text, variants, (SIZE,))
    return in_order({row._replace(regime=REGIME) for row in selected}, variants)


def in_order(launches: Iterable[Row], variants: list[dict[str, Any]]) -> list[Row]:
    place = rows.places(variants)

    def order(one: Row) -> Any:
        return place[one[:2]], one.args, rows.by_size(rows.shape_of(one))

    return sorted(launches, key=order)


def launch_of(row: Counts) -> Row:
    return rows.row_of({**row, "regime": REGIME})


def launch_name(launch: Row) -> str:
    return rows.row_name(launch).removesuffix("/" + REGIME)


def parse_counts(output: str) -> dict[str, int]:
    """{key: count} of METRICS. The program's lines stand between ncu's; those of the table begin
    with a quote, and its numbers have commas."""

    def refuse(why: str) -> NoReturn:
        raise Failed(f"ncu printed {why}: {last_words(output)}")

    table = csv.DictReader(line for line in output.splitlines() if line.startswith('"'))
    found = {row["Metric Name"]: row for row in table}
    counts = {}
    for key, (metric, unit, scale) in METRICS.items():
        if metric not in found:
            refuse(f"no {metric}")
        value, printed_unit = found[metric]["Metric Value"], found[metric]["Metric Unit"]
        try:
            counts[key] = round(float(value.replace(",", "")) * scale)
        except ValueError:
            refuse(f"'{value}' for {metric}")
        if printed_unit != unit:
            refuse(f"{metric} in '{printed_unit}', not in '{unit}'")
    return counts


def last_words(output: str) -> str:
    """ncu's last error, or the last line if it named none."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("==ERROR==")]
    return (errors or lines or ["ncu printed nothing"])[-1]


def count(ncu: str, program: str, kernel: str, launch: Row) -> dict[str, int]:
    """{key: count} of the kernel's first launch, in a run that also checks the result."""
    command = ncu_command(ncu, kernel)
    command += ["--csv", "--print-units", "base"]
    command += ["--metrics", ",".join(metric for metric, _, _ in METRICS.values())]
    command += [program, "--check", f"--variant={launch.variant}"]
    command += [f"--{name}={getattr(launch, name)}" for name in "mnk"]
    command += [f"--{arg}" for arg in launch.args.split(",") if arg]
    run = tools.run(command, tool_environment(), errors="replace")
    if run.returncode != 0:
        raise Failed(last_words(run.stdout))
    return parse_counts(run.stdout)


def what_runs(today: Today, launches: Iterable[Row]) -> dict[Row, dict[str, Any]]:
    """Of each its kernel, and the configuration if it is a chooser that chose one."""
    of_launch = {one: today.variants[one[:2]] for one in launches}
    chosen = today.choices([one for one, variant in of_launch.items() if variant["chooses"]])
    return {
        one: {
            "configuration": chosen.get(one, {}).get("configuration"),
            "kernel": chosen.get(one, variant)["kernel"],
        }
        for one, variant in of_launch.items()
    }


def read_rows(path: Path, env: Document, today: Today) -> dict[Row, Counts]:
    """Rows of an earlier run that still hold: same machine and versions, same kernel."""
    old = store.rows_of_machine(path, env, ENV_KEYS, "counters", "counters")
    complete = {launch_of(row): row for row in old if row.keys() >= ROW_KEYS}
    known = {launch: row for launch, row in complete.items() if launch[:2] in today.variants}
    runs = what_runs(today, known)
    return {
        launch: row
        for launch, row in known.items()
        if today.hashes[runs[launch]["kernel"]] == row["kernel_hash"]
    }


@command(stopped="Stopped. What was counted is kept; make counters goes on from there.")
def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", default="", help="selectors, see above; default all")
    parser.add_argument("--force", action="store_true", help="count again what is there already")
    parser.add_argument("--build", type=Path, default=Path("build"), metavar="DIR")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), metavar="DIR")
    options = parser.parse_args()
    program = str(options.build / "ladder")
    today = Today(program, options.build / "ptx/hashes.json")
    selected = select(options.rows, today.listed)
    ncu = need("ncu")
    env = registry.environment(program, "--bench-rows")
    path = options.results / f"{store.file_stem(env['gpu'])}.counters.json"

    found = read_rows(path, env, today)
    to_do = [one for one in selected if options.force or one not in found]
    runs = what_runs(today, to_do)
    kept = len(selected) - len(to_do)
    print(
        f"{store.machine_text(env)}; seed {env['seed']}\n"
        f"{len(to_do)} rows" + (f"; {kept} more are there already" if kept else ""),
        flush=True,
    )
    failures, start_s, pace_s = {}, time.monotonic(), float(FIRST_ROW_S)
    for number, launch in enumerate(to_do, 1):
        name = launch_name(launch)
        show_running(name, duration(pace_s * (len(to_do) - number + 1)))
        variant = today.variants[launch[:2]]
        stage_program = str(options.build / f"stage-{variant['name'].split('_')[0]}")
        try:
            kernel = runs[launch]["kernel"]
            counts = count(ncu, stage_program, kernel, launch)
            found[launch] = {
                "stage": launch.stage, "name": variant["name"], "variant": launch.variant,
                "result": variant["result"], "m": launch.m, "n": launch.n, "k": launch.k,
                **({"args": launch.args} if launch.args else {}),
                **(runs[launch] if runs[launch]["configuration"] else {}), **counts,
                "kernel_hash": today.hashes[kernel],
            }  # fmt: skip
            ordered = [found[one] for one in in_order(found, today.listed)]
            store.write_document(path, store.head_of(env, ENV_KEYS), rows=ordered)
            what = f"{counts['cycles'] / 1e6:8.3f} million cycles"
        except Failed as why:
            failures[name] = str(why)
            what = f"FAIL: {why}"
        pace_s = (time.monotonic() - start_s) / number
        left = duration(pace_s * (len(to_do) - number))
        show_result(number, len(to_do), f"{name:30}", what, left)
    counted = len(to_do) - len(failures)
    print(f"{path}: {counted} rows counted, {len(failures)} failed. Next: make tables.")
    show_failures(failures)
    return exit_code(failures, hung=False)


if __name__ == "__main__":
    sys.exit(main())
