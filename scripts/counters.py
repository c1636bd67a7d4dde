#!/usr/bin/env python3
"""Counts what kernels do on this machine's GPU into docs/results/<gpu>.counters.json, by Nsight
Compute on one launch of every rung and variant. Python standard library only.

  counters.py              every rung and variant at 8192 cubed (rung 1: 2048 cubed)
  counters.py --rows=ROWS  only these; other rows of the file stay if their kernel is still the same

ROWS is one or more selectors RUNG[:VARIANT][@SHAPE], joined by commas, as those of bench.py but
without a regime; without a shape, a selector means 8192 cubed (rung 1: 2048 cubed).

The file is replaced after every row, so that a run that was stopped goes on from there. Rows whose
kernel and machine are still the same are not counted again, unless --force is given.

Exit codes: 0 ok, 1 a row failed, 2 usage or no ncu, 3 no usable device, 130 stopped.
"""

import argparse
import collections
import csv
import datetime
import json
import subprocess
import sys
import time
from pathlib import Path

import bench
import kernel_tools
import registry

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
ROW_KEYS = {"kernel_hash", *METRICS}
ENV_KEYS = ("gpu", "driver", "toolkit", "seed")
FIRST_ROW_S = 15  # a guess, until there is a row to tell by

Launch = collections.namedtuple("Launch", "stage variant m n k")


class Failed(Exception):
    """Why a row has no counts, in one line."""


def select(rows_text, variants):
    """The launches that --rows selects (all by default), in order of registration."""
    selectors = (rows_text or "*").replace(" ", ",").split(",")
    for selector in selectors:
        if "/" in selector:
            raise bench.Problem(
                f"--rows: '{selector}' names a regime, which counters do not have; "
                f"say {selector.split('/')[0] or '*'}."
            )
    bench.select(rows_text, variants)  # refuses what selects nothing
    simt = {(v["stage"], v["variant"]): v["simt"] for v in variants}
    launches = set()
    for selector in selectors:
        for row in bench.select_one(selector, variants):
            size = bench.SMALL_SIZE if simt[row.stage, row.variant] else SIZE
            if "@" in selector or (row.m, row.n, row.k) == (size,) * 3:
                launches.add(Launch(*row[:5]))
    return in_order(launches, variants)


def in_order(launches, variants):
    place = {(v["stage"], v["variant"]): i for i, v in enumerate(variants)}
    return sorted(launches, key=lambda one: (place[one[:2]], one.m * one.n * one.k, one))


def launch_of(row):
    return Launch(*(row[key] for key in Launch._fields))


def launch_name(launch):
    cube = launch.m == launch.n == launch.k
    shape = launch.m if cube else f"{launch.m}x{launch.n}x{launch.k}"
    return f"{launch.stage}:{launch.variant}@{shape}"


# --- Nsight Compute ------------------------------------------------------------------------------


def parse_counts(output):
    """{key: count} of METRICS. The program's lines stand between ncu's; those of the table begin
    with a quote, and its numbers have commas."""
    table = csv.DictReader(line for line in output.splitlines() if line.startswith('"'))
    found = {row["Metric Name"]: row for row in table}
    counts = {}
    for key, (metric, unit, scale) in METRICS.items():
        if metric not in found:
            raise Failed(f"ncu printed no {metric}")
        value, printed_unit = found[metric]["Metric Value"], found[metric]["Metric Unit"]
        try:
            counts[key] = round(float(value.replace(",", "")) * scale)
        except ValueError:
            raise Failed(f"ncu printed '{value}' for {metric}")
        if printed_unit != unit:
            raise Failed(f"ncu printed {metric} in '{printed_unit}', not in '{unit}'")
    return counts


def last_words(output):
    """ncu's last error, or the last line if it named none."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("==ERROR==")]
    return (errors or lines or ["ncu printed nothing"])[-1]


def count(ncu, program, kernel, launch):
    """{key: count} of the kernel's first launch, in a run that also checks the result."""
    command = kernel_tools.ncu_command(ncu, kernel)
    command += ["--csv", "--print-units", "base"]
    command += ["--metrics", ",".join(metric for metric, _, _ in METRICS.values())]
    command += [program, "--check", f"--variant={launch.variant}"]
    command += [f"--{name}={getattr(launch, name)}" for name in "mnk"]
    run = subprocess.run(
        command, env=kernel_tools.tool_environment(), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    if run.returncode != 0:
        raise Failed(last_words(run.stdout))
    try:
        return parse_counts(run.stdout)
    except Failed as why:
        raise Failed(f"{why}: {last_words(run.stdout)}")


# --- the file ------------------------------------------------------------------------------------


def what_runs(today, launches):
    """{launch: its kernel, and the configuration if it is a chooser that chose one}."""
    rows = {one: bench.Row(*one, bench.REGIMES[0]) for one in launches}
    chosen = today.choices([row for row in rows.values() if today.variant(row)["chooses"]])
    return {
        one: {
            "configuration": chosen.get(row, {}).get("configuration"),
            "kernel": chosen.get(row, today.variant(row))["kernel"],
        }
        for one, row in rows.items()
    }


def read_rows(path, env, today):
    """{launch: row} of an earlier run that still hold: same machine and versions, same kernel."""
    if not path.exists():
        return {}
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        rows = {launch_of(row): row for row in old["rows"] if row.keys() >= ROW_KEYS}
    except (ValueError, KeyError, TypeError):
        raise bench.Problem(f"{path} is not a file of counters; remove it and run make counters.")
    if any(old.get(key) != env[key] for key in ENV_KEYS):
        print(f"{path} was counted with another machine or versions; its rows are dropped.")
        return {}
    rows = {launch: row for launch, row in rows.items() if launch[:2] in today.variants}
    runs = what_runs(today, rows)
    return {
        launch: row
        for launch, row in rows.items()
        if today.hashes[runs[launch]["kernel"]] == row["kernel_hash"]
    }


def write(path, env, rows, variants):
    head = {key: env[key] for key in ("gpu", "driver", "toolkit")}
    head["revision"] = bench.revision()
    head["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    head["seed"] = env["seed"]
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = ",\n".join("  " + json.dumps(rows[one]) for one in in_order(rows, variants))
    bench.write_atomically(path, "{\n" + "\n".join(lines) + '\n "rows": [\n' + body + "\n ]\n}\n")


# --- main ----------------------------------------------------------------------------------------


def show_running(launch, left_s):
    if sys.stdout.isatty():
        left = f"about {bench.duration(left_s)} left"
        print(f"\r\x1b[K  on {launch_name(launch)}, {left}", end="", flush=True)


def show_result(number, total, launch, what, left_s):
    clear = "\r\x1b[K" if sys.stdout.isatty() else ""
    left = f"about {bench.duration(left_s)} left"
    place = f"[{number:{len(str(total))}}/{total}]"
    print(f"{clear}{place} {launch_name(launch):30} {what}; {left}", flush=True)


def count_all(options):
    program = str(options.build / "ladder")
    variants = registry.parse(bench.ask(program, "--list"))
    hashes = bench.read_hashes(options.build / "ptx/hashes.json", variants)
    selected = select(options.rows, variants)
    ncu = kernel_tools.need("ncu")
    env = json.loads(bench.ask(program, "--bench-rows").splitlines()[0])["env"]
    path = options.results / f"{bench.file_stem(env['gpu'])}.counters.json"

    today = bench.Today(program, variants, hashes)
    rows = read_rows(path, env, today)
    to_do = [one for one in selected if options.force or one not in rows]
    runs = what_runs(today, to_do)
    kept = len(selected) - len(to_do)
    print(
        f"{env['gpu']}, driver {env['driver']}, nvcc {env['toolkit']}; seed {env['seed']}\n"
        f"{len(to_do)} rows" + (f"; {kept} more are there already" if kept else ""),
        flush=True,
    )
    failures, start_s, pace_s = {}, time.monotonic(), FIRST_ROW_S
    for number, launch in enumerate(to_do, 1):
        show_running(launch, pace_s * (len(to_do) - number + 1))
        variant = today.variants[launch[:2]]
        stage_program = str(options.build / f"stage-{variant['name'].split('_')[0]}")
        try:
            kernel = runs[launch]["kernel"]
            counts = count(ncu, stage_program, kernel, launch)
            rows[launch] = {
                "stage": launch.stage, "name": variant["name"], "variant": launch.variant,
                "result": variant["result"], "m": launch.m, "n": launch.n, "k": launch.k,
                **(runs[launch] if runs[launch]["configuration"] else {}), **counts,
                "kernel_hash": hashes[kernel],
            }  # fmt: skip
            write(path, env, rows, variants)
            what = f"{counts['cycles'] / 1e6:8.3f} million cycles"
        except Failed as why:
            failures[launch] = why
            what = f"FAIL: {why}"
        pace_s = (time.monotonic() - start_s) / number
        show_result(number, len(to_do), launch, what, pace_s * (len(to_do) - number))
    counted = len(to_do) - len(failures)
    print(f"{path}: {counted} rows counted, {len(failures)} failed. Next: make tables.")
    for launch, why in failures.items():
        print(f"FAIL {launch_name(launch)}: {why}")
    return bench.WRONG if failures else bench.OK


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="", help="selectors, see above; default all")
    parser.add_argument("--force", action="store_true", help="count again what is there already")
    parser.add_argument("--build", type=Path, default=Path("build"), metavar="DIR")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), metavar="DIR")
    try:
        return count_all(parser.parse_args())
    except bench.Problem as problem:
        print(problem, file=sys.stderr)
        return problem.code
    except KeyboardInterrupt:
        print("\nStopped. What was counted is kept; make counters goes on from there.")
        return bench.STOPPED


if __name__ == "__main__":
    sys.exit(main())
