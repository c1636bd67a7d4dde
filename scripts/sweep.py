#!/usr/bin/env python3
"""Measures the configurations of all rungs that have some, at many shapes, into
docs/results/<gpu>.sweep.json, and says how far what stage 0 picks is from the fastest.
Python standard library only.

  sweep.py                    the tuning shapes and the held-out ones, burst
  sweep.py --shapes=SHAPES    only these; others of the file stay if their kernels are the same
  sweep.py --regime=REGIME    burst or sustained
  sweep.py --force            measures again what is there already
  sweep.py --picks            measures nothing: what the model of today would pick from what the
                              file has. Needs no GPU, but then the PTX machine (make machine)

SHAPES is one or more of these, joined by commas: tuning, heldout, another list of
scripts/lib/shape_lists.py, 4096 for a cube, MxNxK.

At a shape only those are timed that the cost model expects to take at most 1.5 times as long as the
one that it expects to be the fastest. The file says how many were left out.

A shape is one resumable unit: all that are timed there are timed in turns, and kept in build/sweep/
when the shape is done. A configuration's time holds as long as its kernel does. The picks are asked
for anew every time: a change of the model alone measures only where it adds to what was timed.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import bench
from lib import registry, store
from lib.cli import OK, Problem, command, measuring_parser
from lib.measure import show_result
from lib.registry import Today
from lib.rows import REGIMES, Row, by_size, parse_shapes, shape_name, shape_of
from lib.shape_lists import Shape
from lib.store import Document, Journal
from lib.tables.sweep import CHOOSER, SWEEP

LISTS = ("tuning", "heldout")
FILE = ("a sweep", "sweep")  # what it is of, and what makes it
# Seconds, for the time left: a configuration's rounds and checks, and what a shape costs beside
# them.
ROW_S = {"burst": 0.06, "sustained": 0.22}
SHAPE_S = {"burst": 0.4, "sustained": 1.4}
FAR, VERY_FAR = 0.03, 0.10  # from the fastest
MOST = 1.5  # times the least predicted time; who is expected to take longer is not timed

Key = tuple[Shape, str]  # a shape and a regime
Entry = dict[str, Any]  # what the file has of one


class Said(NamedTuple):
    """What the model of today makes of a shape: the name of stage 0's pick, and the predicted time
    of every configuration by name."""

    pick: str
    predicted_us: dict[str, float]


class Contestants:
    """All configurations that stage 0 chooses among, named as it does: 12_stream_k/64x8_x2."""

    def __init__(self, variants: list[dict[str, Any]], hashes: dict[str, str]) -> None:
        self.variants = {}  # name -> (rung, variant)
        self.hashes = {}  # name -> its kernel's
        problems = [v["problem"] for v in variants if (v["stage"], v["variant"]) == CHOOSER]
        for variant in variants:
            if variant["configuration"] and variant["problem"] in problems:
                name = f"{variant['name']}/{variant['variant']}"
                self.variants[name] = variant["stage"], variant["variant"]
                self.hashes[name] = hashes[variant["kernel"]]
        if not self.variants:
            raise Problem("Stage 0 has no configurations to choose among: nothing to sweep.")

    def rows(self, key: Key, names: Iterable[str]) -> list[Row]:
        shape, regime = key
        return [Row(*self.variants[name], *shape, regime) for name in names]

    def ask(self, today: Today, keys: Iterable[Key]) -> dict[Key, Said]:
        """What the program as it is says."""
        asked = {key: [*self.rows(key, self.variants), Row(*CHOOSER, *key[0], key[1])]
                 for key in keys}  # fmt: skip
        answers = today.choices(list(itertools.chain.from_iterable(asked.values())))
        said = {}
        for key, (*configurations, chooser) in asked.items():
            predicted_us = [answers[row]["predicted_us"] for row in configurations]
            pick = answers[chooser]["configuration"]
            said[key] = Said(pick, dict(zip(self.variants, predicted_us)))
        return said

    def still(self, entry: Entry) -> bool:
        """Whether an entry is of today's kernels, and right."""
        return all(
            one["tflops"] is not None and one["kernel_hash"] == self.hashes.get(name)
            for name, one in entry["configurations"].items()
        )


def worth_timing(said: Said) -> list[str]:
    """The names of those that are timed at a shape, among them the pick, which is the least."""
    limit_us = MOST * min(said.predicted_us.values())
    return [name for name, us in said.predicted_us.items() if us <= limit_us]


def select(shapes_text: str) -> list[Shape]:
    """The shapes of --shapes, smaller products first."""
    shapes: set[Shape] = set()
    for text in (shapes_text or ",".join(LISTS)).replace(" ", ",").split(","):
        shapes.update(parse_shapes(text, "--shapes"))
    return sorted(shapes, key=by_size)


def entry_of(
    contestants: Contestants, key: Key, names: list[str], results: dict[Row, Entry], said: Said
) -> Entry:
    """What the file keeps of a shape: `names` were timed, `results` are by row."""
    configurations = {}
    for name, row in zip(names, contestants.rows(key, names)):
        result = results[row]
        keys = ("tflops", "us", "sm_mhz", "kernel_hash")
        configurations[name] = {key: result.get(key) for key in keys}
        if not result["verified"]:
            configurations[name]["error"] = bench.Bench.why(result)
    (m, n, k), regime = key
    entry = {"m": m, "n": n, "k": k, "regime": regime, "configurations": configurations}
    judge(entry, said)
    return entry


def judge(entry: Entry, said: Said) -> None:
    """Sets what the model of today makes of the shape."""
    configurations = entry["configurations"]
    for name, of_one in configurations.items():
        of_one["predicted_us"] = said.predicted_us[name]
    right = {n: c["tflops"] for n, c in configurations.items() if c["tflops"] is not None}
    best = max(right, key=right.__getitem__) if right else None
    far = 1 - right[said.pick] / right[best] if best and said.pick in right else None
    entry.update({
        "left_out": len(said.predicted_us) - len(configurations),
        "best": best, "pick": said.pick, "distance": None if far is None else round(far, 5),
    })  # fmt: skip


def key_of(of: Entry | Row) -> Key:
    return shape_of(of), of.regime if isinstance(of, Row) else of["regime"]


def verdict(entry: Entry) -> str:
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


def summary(entries: list[Entry]) -> list[str]:
    """A line a regime: mean and worst distance."""
    lines = []
    for regime in REGIMES:
        judged = [e for e in entries if e["regime"] == regime and e["distance"] is not None]
        if not judged:
            continue
        far = [entry["distance"] for entry in judged]
        worst = max(judged, key=lambda entry: entry["distance"])
        lines.append(
            f"{regime}: over {len(far)} shapes the pick is {100 * statistics.mean(far):.2f} % off "
            f"on average, {100 * max(far):.1f} % at worst, at {shape_name(shape_of(worst))}; "
            f"{sum(d > FAR for d in far)} shapes above {100 * FAR:.0f} %, "
            f"{sum(d > VERY_FAR for d in far)} above {100 * VERY_FAR:.0f} %"
        )
    return lines


class Sweep(bench.Bench):
    """Runs the program over what is timed of a shape, shape by shape."""

    MAKE = "sweep"
    MODE = "--sweep-rows"
    BLANK = ("configuration", "us", "tflops", "sm_mhz")

    def __init__(
        self, today: Today, journal: Journal, contestants: Contestants, said: dict[Key, Said]
    ) -> None:
        super().__init__(today, journal)
        self.contestants, self.said = contestants, said

    def timed_in_turns(self) -> dict[Key, Entry]:
        """The entries of the shapes of which all that is timed is there."""
        found, results = {}, {**self.journal.rows, **self.results}
        for key, of_key in self.said.items():
            names = worth_timing(of_key)
            if all(row in results for row in self.contestants.rows(key, names)):
                found[key] = entry_of(self.contestants, key, names, results, of_key)
        return found

    def kept(self) -> str:
        return f"{len(self.timed_in_turns())} shapes"

    @staticmethod
    def expected_s(rows: Iterable[Row]) -> float:
        rows = list(rows)
        of_shapes = sum(SHAPE_S[regime] for _, regime in set(map(key_of, rows)))
        return of_shapes + sum(ROW_S[row.regime] for row in rows)

    def show_result(self, row: Row, result: Entry) -> None:
        """One line a shape, when its last row is there."""
        key = key_of(row)
        left, done = set(map(key_of, self.pending)), set(map(key_of, self.results))
        if key in left:
            return
        name, total = f"{shape_name(key[0])}/{key[1]}", len(left | done)
        what = verdict(self.timed_in_turns()[key])
        show_result(total - len(left), total, f"{name:28}", what, self.left())


def write(path: Path, head: Document, entries: Iterable[Entry]) -> None:
    order = sorted(entries, key=lambda e: (REGIMES.index(e["regime"]), by_size(shape_of(e))))
    store.write_document(path, head, shapes=order)


def measure(options: Any, today: Today, contestants: Contestants) -> int:
    env = registry.environment(today.program, Sweep.MODE)
    stem = store.file_stem(env["gpu"])
    path = options.results / f"{stem}{SWEEP}"
    old = store.rows_of_machine(path, env, bench.ENV_KEYS, *FILE, key="shapes")
    entries = {key_of(e): e for e in old if contestants.still(e)}
    journal = bench.journal_of(options.partial / f"{stem}.partial.jsonl", env, today)
    wanted = [(shape, options.regime) for shape in select(options.shapes)]
    said = contestants.ask(today, {*wanted, *entries, *map(key_of, journal.rows)})
    for key, entry in entries.items():
        judge(entry, said[key])
    sweep = Sweep(today, journal, contestants, said)
    whole = sweep.timed_in_turns()
    journal.drop([row for row in journal.rows if key_of(row) not in whole])

    def is_there(key: Key) -> bool:
        there = entries[key]["configurations"] if key in entries else {}
        return there.keys() >= {*worth_timing(said[key])}

    def publish(results: list[Entry]) -> list[str]:
        entries.update(sweep.timed_in_turns())
        write(path, store.head_of(env, bench.ENV_KEYS), entries.values())
        journal.drop(list(journal.rows))  # of shapes that were not asked for, too
        print("\n".join(summary([entries[key] for key in wanted])))
        gone = [key for key in map(key_of, old) if key not in entries]
        return [f"{shape_name(shape)}/{regime}" for shape, regime in gone]

    to_do = [key for key in wanted if key in whole or options.force or not is_there(key)]
    rows = [row for key in to_do for row in contestants.rows(key, worth_timing(said[key]))]
    kept = len(wanted) - len(to_do)
    stages = sorted({stage for stage, _ in contestants.variants.values()})
    head = (
        f"{store.machine_text(env)}; {env['data']} data, seed {env['seed']}\n"
        f"{len(contestants.variants)} configurations of rungs "
        f"{', '.join(map(str, stages))}; {len(rows)} times at {len(to_do)} shapes, {options.regime}"
        + (f"; {kept} more shapes are there already" if kept else "")
    )
    return sweep.measure(rows, head, path, publish)


def pick_again(options: Any, today: Today, contestants: Contestants) -> int:
    """Judges the file's shapes by today's model; keeps that if the kernels are the same."""
    paths = store.own_files(options.results, SWEEP)
    if not paths:
        raise Problem(f"{options.results} has no file of a sweep; make sweep on a GPU writes one.")
    path = paths[0]
    document = store.read_document(path, "shapes", *FILE)
    os.environ.setdefault("MACHINE_SMS", str(document["sms"]))  # in case it is the PTX machine
    entries = document.pop("shapes")
    known = [e for e in entries if e["configurations"].keys() <= contestants.variants.keys()]
    said = contestants.ask(today, map(key_of, known))
    for entry in known:
        shape, regime = key_of(entry)
        judge(entry, said[shape, regime])
        print(f"{shape_name(shape) + '/' + regime:28} {verdict(entry)}")
    print("\n".join(summary(known)))
    if all(map(contestants.still, entries)):
        write(path, document, entries)
        print(f"{path}: picks of today's model. Next: make tables.")
    else:
        print(f"{path} stays as it is: kernels have changed since; make sweep measures them.")
    return OK


@command()
def main() -> int:
    parser = measuring_parser(__doc__, "build/sweep")
    parser.add_argument("--shapes", default="", help="see above; default tuning,heldout")
    parser.add_argument("--regime", help="burst (default) or sustained")
    parser.add_argument("--force", action="store_true", help="measure again what is there already")
    parser.add_argument("--picks", action="store_true", help="measure nothing; ask the model again")
    options = parser.parse_args()
    for name in ("shapes", "regime", "force"):
        if options.picks and getattr(options, name) not in (None, "", False):
            raise Problem(f"--{name} is for measuring, which --picks does not; leave one out.")
    options.regime = REGIMES[0] if options.regime is None else options.regime
    select(options.shapes)  # refuses what is no shape before anything runs
    if options.regime not in REGIMES:
        raise Problem(f"--regime is '{options.regime}' but must be burst or sustained.")
    today = Today(options.program, options.hashes, stage_0=True)
    run = pick_again if options.picks else measure
    return run(options, today, Contestants(today.listed, today.hashes))


if __name__ == "__main__":
    sys.exit(main())
