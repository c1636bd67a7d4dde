#!/usr/bin/env python3
"""Measures every configuration of the last rung that has some, at many shapes, into
docs/results/<gpu>.sweep.json, and says how far what the cost model picks is from the fastest.
Python standard library only.

  sweep.py                    the tuning shapes and the held-out ones, burst
  sweep.py --shapes=SHAPES    only these; others of the file stay if their kernels are the same
  sweep.py --regime=REGIME    burst or sustained
  sweep.py --force            measures again what is there already
  sweep.py --picks            measures nothing: what the model of today would pick from what the
                              file has. Needs no GPU, but then the PTX machine (make machine)

SHAPES is one or more of these, joined by commas: tuning, heldout, another list of
scripts/shape_lists.py, 4096 for a cube, MxNxK.

A shape is one resumable unit: all configurations, and the chooser beside them, are timed in turns,
and kept in build/sweep/ when the shape is done. A configuration's time holds as long as its kernel
does. The picks are asked for anew every time, so that a change of the model alone measures nothing.

Exit codes: 0 ok, 1 wrong result, 2 usage, 3 no usable device, 4 hang, 130 stopped.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
from pathlib import Path

import bench
import registry
from bench import Problem, Row
from tables import PROBLEM

LISTS = ("tuning", "heldout")
# Seconds, for the time left: a contestant's rounds and checks, and what a shape costs beside them.
ROW_S = {"burst": 0.06, "sustained": 0.4}
SHAPE_S = {"burst": 0.4, "sustained": 1.4}
FAR, VERY_FAR = 0.03, 0.10  # from the fastest
SUFFIX = ".sweep.json"


class Contestants:
    """The configurations of the rung that is swept, and the variant that chooses among them."""

    def __init__(self, variants):
        rungs = [v["stage"] for v in variants
                 if v["configuration"] and v.get("problem", PROBLEM) == PROBLEM]  # fmt: skip
        if not rungs:
            raise Problem("No rung here has configurations, so that there is nothing to sweep.")
        self.stage = max(rungs)
        of_rung = [v for v in variants if v["stage"] == self.stage]
        self.configurations = [v["variant"] for v in of_rung if v["configuration"]]
        self.kernels = {v["variant"]: v["kernel"] for v in of_rung}
        choosers = [v["variant"] for v in of_rung if v["chooses"]]
        results = [v["variant"] for v in of_rung if v["chooses"] and v["result"]]
        if not choosers:
            raise Problem(f"Rung {self.stage} has no variant that chooses a configuration.")
        self.chooser = (results or choosers)[0]

    def rows(self, shape, regime):
        names = [*self.configurations, self.chooser]
        return [Row(self.stage, name, *shape, regime) for name in names]


# --- shapes --------------------------------------------------------------------------------------


def select(shapes_text):
    """The shapes of --shapes, smaller products first."""
    shapes = set()
    for text in (shapes_text or ",".join(LISTS)).replace(" ", ",").split(","):
        shapes.update(bench.parse_shapes(text, "--shapes"))
    return sorted(shapes, key=lambda shape: (shape[0] * shape[1] * shape[2], shape))


def shape_name(shape):
    return str(shape[0]) if len(set(shape)) == 1 else "x".join(map(str, shape))


# --- one shape -----------------------------------------------------------------------------------


def entry_of(contestants, shape, regime, results):
    """What the file keeps of a shape: `results` are its rows' by variant."""
    configurations = {}
    for name in contestants.configurations:
        result = results[name]
        configurations[name] = {
            key: result.get(key) for key in ("tflops", "us", "sm_mhz", "kernel_hash")
        }
        if not result["verified"]:
            configurations[name]["error"] = result.get("error", "wrong result")
    chooser = results[contestants.chooser]
    m, n, k = shape
    return {
        "stage": contestants.stage, "m": m, "n": n, "k": k, "regime": regime,
        "chooser": contestants.chooser, "chooser_tflops": chooser.get("tflops"),
        "chooser_ran": chooser.get("configuration"), "configurations": configurations,
    }  # fmt: skip


def judge(entry, said):
    """Adds what the model of today makes of the shape: `said` is --choices', by variant."""
    configurations = entry["configurations"]
    for name, of_one in configurations.items():
        of_one["predicted_us"] = said[name]["predicted_us"]
    right = {n: c["tflops"] for n, c in configurations.items() if c["tflops"] is not None}
    pick = said[entry["chooser"]]["configuration"]
    best = max(right, key=right.get) if right else None
    far = 1 - right[pick] / right[best] if pick in right else None
    entry.update({"best": best, "pick": pick, "distance": None if far is None else round(far, 5)})


def key_of(entry):
    return (entry["m"], entry["n"], entry["k"]), entry["regime"]


def verdict(entry):
    if entry["best"] is None:
        return "FAIL: no configuration is right"
    best = entry["configurations"][entry["best"]]["tflops"]
    if entry["distance"] is None:
        return f"best {entry['best']} {best:.1f} TFLOPS; the pick {entry['pick']} has no time"
    if entry["pick"] == entry["best"]:
        return f"{entry['best']} {best:.1f} TFLOPS is the pick and the best"
    picked = entry["configurations"][entry["pick"]]["tflops"]
    return (
        f"best {entry['best']} {best:.1f} TFLOPS, pick {entry['pick']} {picked:.1f}, "
        f"{100 * entry['distance']:.1f} % off"
    )


def summary(entries):
    """A line a regime: mean and worst distance."""
    lines = []
    for regime in bench.REGIMES:
        judged = [e for e in entries if e["regime"] == regime and e["distance"] is not None]
        if not judged:
            continue
        far = [entry["distance"] for entry in judged]
        worst = max(judged, key=lambda entry: entry["distance"])
        lines.append(
            f"{regime}: over {len(far)} shapes the pick is {100 * statistics.mean(far):.2f} % off "
            f"on average, {100 * worst['distance']:.1f} % at worst, at "
            f"{shape_name(key_of(worst)[0])}; "
            f"{sum(d > FAR for d in far)} shapes above {100 * FAR:.0f} %, "
            f"{sum(d > VERY_FAR for d in far)} above {100 * VERY_FAR:.0f} %"
        )
    return lines


# --- the file ------------------------------------------------------------------------------------


def read_entries(path):
    """(head, entries) of the file; nothing if there is none."""
    if not path.exists():
        return {}, []
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return document, document["shapes"]
    except (ValueError, KeyError, TypeError):
        raise Problem(f"{path} is not a file of a sweep; remove it and run make sweep.")


def holds(entry, contestants, hashes):
    """Whether an entry is of today's kernels, all of them, and right."""
    today = {name: hashes[contestants.kernels[name]] for name in contestants.configurations}
    there = {name: one["kernel_hash"] for name, one in entry["configurations"].items()}
    right = all(one["tflops"] is not None for one in entry["configurations"].values())
    same = (entry["stage"], entry["chooser"]) == (contestants.stage, contestants.chooser)
    return same and there == today and right


def ask_model(today, entries):
    """Judges every entry by the choices of the program as it is."""
    rows = {
        id(entry): [
            Row(entry["stage"], name, *key_of(entry)[0], entry["regime"])
            for name in [*entry["configurations"], entry["chooser"]]
        ]
        for entry in entries
    }
    said = today.choices(list(itertools.chain(*rows.values())))
    for entry in entries:
        judge(entry, {row.variant: said[row] for row in rows[id(entry)]})


def write(path, head_lines, entries):
    order = sorted(
        entries,
        key=lambda e: (bench.REGIMES.index(e["regime"]), e["m"] * e["n"] * e["k"], key_of(e)),
    )
    body = ",\n".join("  " + json.dumps(entry) for entry in order)
    text = "{\n" + "\n".join(head_lines) + '\n "shapes": [\n' + body + "\n ]\n}\n"
    bench.write_atomically(path, text)


# --- measuring -----------------------------------------------------------------------------------


class Sweep(bench.Bench):
    """Runs the program over all contestants of a shape, shape by shape."""

    MODE = "--sweep-rows"
    BLANK = ("configuration", "us", "tflops", "sm_mhz")

    def __init__(self, today, partial, contestants):
        super().__init__(today, partial)
        self.contestants = contestants

    @staticmethod
    def expected_s(rows):
        shapes = {(row.m, row.n, row.k, row.regime) for row in rows}
        of_shapes = sum(SHAPE_S[regime] for *_, regime in shapes)
        return of_shapes + sum(ROW_S[row.regime] for row in rows)

    def show_result(self, row, result):
        """One line a shape, when its last row is there."""
        shape, regime = (row.m, row.n, row.k), row.regime
        rows = self.contestants.rows(shape, regime)
        if any(one in self.pending for one in rows):
            return
        results = {one.variant: self.results[one] for one in rows}
        entry = entry_of(self.contestants, shape, regime, results)
        pick = results[self.contestants.chooser].get("configuration")
        said = dict.fromkeys(results, {"predicted_us": None, "configuration": pick})
        judge(entry, said)
        left = len({one[2:] for one in self.pending})
        total = self.total // len(rows)
        count = f"[{total - left:{len(str(total))}}/{total}]"
        clear = "\r\x1b[K" if sys.stdout.isatty() else ""
        name = f"{shape_name(shape)}/{regime}"
        print(f"{clear}{count} {name:28} {verdict(entry)}; about {self.left()} left", flush=True)


def timed_in_turns(rows, contestants):
    """{(shape, regime): {variant: result}} of the shapes of which every configuration is there."""
    found = {}
    for shape, regime in dict.fromkeys(((r.m, r.n, r.k), r.regime) for r in rows):
        of_shape = contestants.rows(shape, regime)
        if all(row in rows for row in of_shape if row.variant != contestants.chooser):
            # A chooser's row is dropped when it would choose otherwise today.
            found[shape, regime] = {row.variant: rows.get(row, {}) for row in of_shape}
    return found


def measure(options, today, contestants):
    env = json.loads(bench.ask(today.program, "--sweep-rows").splitlines()[0])["env"]
    stem = bench.file_stem(env["gpu"])
    path = options.results / f"{stem}{SUFFIX}"
    head, old = read_entries(path)
    if head and any(head.get(key) != env[key] for key in bench.ENV_KEYS):
        print(f"{path} was measured with another machine or versions; its shapes are dropped.")
        old = []
    entries = {key_of(e): e for e in old if holds(e, contestants, today.hashes)}
    partial = bench.Partial(options.partial / f"{stem}.partial.jsonl", env, today)
    whole = timed_in_turns(partial.rows, contestants)

    wanted = [(shape, options.regime) for shape in select(options.shapes)]
    to_do = [key for key in wanted if key not in whole and (options.force or key not in entries)]
    rows = [row for key in to_do for row in contestants.rows(*key)]
    kept = len(wanted) - len(to_do)
    print(
        f"{env['gpu']}, driver {env['driver']}, nvcc {env['toolkit']}; {env['data']} data, seed "
        f"{env['seed']}\n{len(contestants.configurations)} configurations of rung "
        f"{contestants.stage} and {contestants.chooser} at {len(to_do)} shapes, {options.regime}, "
        f"about {bench.duration(Sweep.expected_s(rows))}"
        + (f"; {kept} more shapes are there already" if kept else ""),
        flush=True,
    )
    sweep = Sweep(today, partial, contestants)
    try:
        sweep.run(rows)
    except KeyboardInterrupt:
        kept = len(timed_in_turns(partial.rows, contestants))
        print(f"\nStopped. {kept} shapes are kept; make sweep goes on from there.")
        return bench.STOPPED
    known = timed_in_turns({**partial.rows, **sweep.results}, contestants)
    for (shape, regime), results in known.items():
        entries[shape, regime] = entry_of(contestants, shape, regime, results)
    ask_model(today, entries.values())
    write(path, bench.head_lines(env), entries.values())
    partial.drop(list(partial.rows))

    wrong = [row for row, result in sweep.results.items() if not result["verified"]]
    print("\n".join(summary([entries[key] for key in wanted])))
    print(f"{path}: {len(to_do)} shapes measured, {len(wanted)} in all. Next: make tables.")
    for row in wrong:
        print(f"FAIL {bench.row_name(row)}: {sweep.results[row].get('error', 'wrong result')}")
    return bench.HANG if sweep.hung else bench.WRONG if wrong else bench.OK


def pick_again(options, today, contestants):
    """Judges the file's shapes by today's model; keeps that if the kernels are the same."""
    paths = [p for p in sorted(options.results.glob("*" + SUFFIX)) if "-" not in p.name]
    if not paths:
        raise Problem(f"{options.results} has no file of a sweep; make sweep on a GPU writes one.")
    path = paths[0]
    head, entries = read_entries(path)
    os.environ.setdefault("MACHINE_SMS", str(head["sms"]))  # in case it is the PTX machine
    names = {*contestants.configurations, contestants.chooser}
    known = [e for e in entries if {*e["configurations"], e["chooser"]} <= names]
    ask_model(today, known)
    for entry in known:
        shape, regime = key_of(entry)
        print(f"{shape_name(shape) + '/' + regime:28} {verdict(entry)}")
    print("\n".join(summary(known)))
    if len(known) == len(entries) and all(holds(e, contestants, today.hashes) for e in entries):
        lines = [f" {json.dumps(k)}: {json.dumps(v)}," for k, v in head.items() if k != "shapes"]
        write(path, lines, entries)
        print(f"{path}: picks of today's model. Next: make tables.")
    else:
        print(f"{path} stays as it is: kernels have changed since; make sweep measures them.")
    return bench.OK


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", default="", help="see above; default tuning,heldout")
    parser.add_argument("--regime", default="burst", help="burst (default) or sustained")
    parser.add_argument("--force", action="store_true", help="measure again what is there already")
    parser.add_argument("--picks", action="store_true", help="measure nothing; ask the model again")
    parser.add_argument("--program", default="build/ladder")
    parser.add_argument("--hashes", type=Path, default=Path("build/ptx/hashes.json"))
    parser.add_argument("--results", type=Path, default=Path("docs/results"), metavar="DIR")
    parser.add_argument("--partial", type=Path, default=Path("build/sweep"), metavar="DIR")
    options = parser.parse_args()
    try:
        select(options.shapes)  # refuses what is no shape before anything runs
        if options.regime not in bench.REGIMES:
            raise Problem(f"--regime is '{options.regime}' but must be burst or sustained.")
        variants = registry.parse(bench.ask(options.program, "--list"))
        hashes = bench.read_hashes(options.hashes, variants)
        today = bench.Today(options.program, variants, hashes)
        run = pick_again if options.picks else measure
        return run(options, today, Contestants(variants))
    except Problem as problem:
        print(problem, file=sys.stderr)
        return problem.code


if __name__ == "__main__":
    sys.exit(main())
