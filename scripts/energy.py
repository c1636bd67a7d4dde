#!/usr/bin/env python3
"""Measures where the joules go, by small experiments on this machine's GPU, into
docs/results/<gpu>.energy.json. Python standard library only.

  energy.py                     every experiment
  energy.py --experiment=NAMES  only these, joined by commas; the others of the file stay if their
                                kernels are still the same
  energy.py --rounds=N          each contestant N times, default 3

  data       rung 13's swizzle128 on normal, uniform, small integer and zero operands
  tile       wgmma with N of 64, 128 and 256, and the large tiles of rung 11
  multicast  clusters without and with multicast: rung 8
  raster     the order of the tiles: rung 7
  epilogue   the store of D: rung 8's result and rung 9

All at 8192 cubed. Contestants of an experiment take turns, and the order is reversed every round,
so that what the chip's temperature does cancels. Each is measured twice over:

  part   on a part of the SMs, where the power limit is far: about half of them, or a quarter, if no
         contestant's clock is more than 1 % below the chip's highest; else an eighth, at any clock,
         as in all recorded runs. Only a persistent kernel can be told so.
  whole  on all SMs, where the power limit decides on the clock

A reading is written to build/energy/ as soon as it is taken, so that a run that was stopped goes on
from there. docs/results/<gpu>.energy.json is replaced after each experiment. A GPU without a
counter of joules counts as no usable device.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lib import store
from lib.cli import (
    HANG, NO_DEVICE, REFUSED, STOPPED, WRONG, Problem, command, measuring_parser, number,
    suggestion,
)  # fmt: skip
from lib.measure import Process, duration, exit_code, show_failures, show_result, show_running
from lib.registry import Today, Variant
from lib.store import Document, Journal
from lib.tables.energy import CHIPS

SIZE = 8192
DATA = ("normal", "uniform", "ints", "zeros")
ROUNDS = 3
parse_rounds = number("--rounds", 1, 1000, ROUNDS)
READING = ("kernel", "watts", "tflops", "sm_mhz", "kernel_hash", "idle_watts")
SAME_CLOCK = 0.01  # by how much clocks may differ and still be called equal
# Of a reading, beside the window of 20 refresh periods or half a second: lead-in, checks, and how
# much longer the first use of an operand takes. The pace of the run itself corrects them.
READING_S, MIN_WINDOW_S, PERIODS = 1.0, 0.5, 20
ENV_KEYS = ("gpu", "driver", "toolkit", "sms", "seed")

Reading = dict[str, Any]  # what one contestant took once; and the row that is made of some


class Contestant(NamedTuple):
    """One thing that is compared. The label is unique within its experiment."""

    label: str
    stage: int
    variant: str
    data: str
    persistent: bool


def contestant(variant: Variant, data: str = "normal", label: str | None = None) -> Contestant:
    name = label or f"{variant['stage']}:{variant['variant']}"
    return Contestant(name, variant["stage"], variant["variant"], data, variant["persistent"])


def of_rung(variants: list[Variant], rung: int, *names: str) -> list[Contestant]:
    """Its variants of these names, `result` being the one that stands for it, or all."""
    return [
        contestant(v)
        for v in variants
        if v["stage"] == rung
        and (not names or v["variant"] in names or v["result"] and "result" in names)
    ]


BY_N = ("bn64", "bn128", "bn256")
LARGE = ("128x128", "128x256", "192x192", "256x192", "256x192_1x2")
EXPERIMENTS: dict[str, Callable[[list[Variant]], list[Contestant]]] = {
    "data": lambda variants: [
        contestant(v, data, data)
        for v in variants
        if (v["stage"], v["variant"]) == (13, "swizzle128")
        for data in DATA
    ],
    "tile": lambda variants: of_rung(variants, 5, *BY_N) + of_rung(variants, 11, *LARGE),
    "multicast": lambda variants: of_rung(variants, 8),
    "raster": lambda variants: of_rung(variants, 7),
    "epilogue": lambda variants: of_rung(variants, 8, "result") + of_rung(variants, 9),
}


def select(text: str, variants: list[Variant]) -> dict[str, list[Contestant]]:
    """{name: contestants} of the experiments that --experiment selects, all by default."""
    chosen = {}
    for name in text.split(",") if text else EXPERIMENTS:
        if name not in EXPERIMENTS:
            listed = ", ".join(EXPERIMENTS) + suggestion(name, EXPERIMENTS)
            raise Problem(f"--experiment: there is no '{name}'; the experiments are {listed}")
        contestants = EXPERIMENTS[name](variants)
        if len(contestants) > 1:
            chosen[name] = contestants
        elif text:
            raise Problem(
                f"--experiment: {name} compares variants of rungs that are not here; "
                "energy.py --help says which."
            )
    return chosen


def part_grids(sms: int) -> list[int]:
    """Numbers of CTAs for a part of the chip, largest first: powers of two, so that the tiles of
    8192 cubed divide evenly, from about half of the SMs down to an eighth."""
    half = 1 << (sms // 2).bit_length() - 1
    return [half, half // 2, half // 4]


class Meter:
    """build/ladder --energy-rows, started again if it dies."""

    def __init__(self, program: str) -> None:
        self.command = [program, "--energy-rows"]
        self.start()

    def start(self) -> None:
        self.process = Process(self.command, "energy")
        self.events = self.process.events()
        self.process.send("\n")  # no rows yet: they depend on the GPU
        said, code = self.answer()
        if code is not None:
            raise Problem(said["error"], code if code > 0 else WRONG)
        self.env = said["env"]

    def answer(self) -> tuple[Document, int | None]:
        """What the program says next; if it has ended, its last words as an error, and its code."""
        for event in self.events:
            return event, None
        code = self.process.end()
        return {"error": self.process.why(code)}, code

    def read(self, one: Contestant, grid: int) -> tuple[Document, int | None]:
        """What it says to one row."""
        self.process.send(f"{one.stage} {one.variant} {SIZE} {SIZE} {SIZE} {one.data} {grid}\n")
        return self.answer()


def summarize(readings: list[Reading]) -> Reading:
    """The medians of one contestant's readings, and how far its pJ/FLOP spread."""
    pj = [r["watts"] / r["tflops"] for r in readings]
    above = [(r["watts"] - r["idle_watts"]) / r["tflops"] for r in readings]
    keys = ("watts", "idle_watts", "tflops", "sm_mhz")
    return {
        **{key: statistics.median(r[key] for r in readings) for key in keys},
        "pj_per_flop": statistics.median(pj), "pj_min": min(pj), "pj_max": max(pj),
        "pj_above_idle": statistics.median(above), "above_min": min(above), "above_max": max(above),
        "rounds": len(readings), "verified": True,
        "kernel": readings[0]["kernel"], "kernel_hash": readings[0]["kernel_hash"],
    }  # fmt: skip


def mark_clocks(rows: list[Reading]) -> None:
    """Whether each row's clock is that of the others, those of one experiment and chip."""
    right = [row for row in rows if row["verified"]]
    for row in right:
        usual = statistics.median(each["sm_mhz"] for each in right)
        row["equal_clock"] = abs(row["sm_mhz"] / usual - 1) <= SAME_CLOCK


def publish(
    path: Path, env: Document, hashes: dict[str, str], experiment: str, rows: list[Reading]
) -> None:
    """Replaces an experiment's rows in the results file; keeps what still holds of the others: of
    the same machine and versions, and the same kernels."""
    old = store.rows_of_machine(path, env, ENV_KEYS, "readings", "energy")
    others = [row for row in old if row["experiment"] != experiment and row["verified"]]
    kept = [row for row in others if hashes.get(row["kernel"]) == row["kernel_hash"]]
    order = list(EXPERIMENTS)  # stable: contestants stay in order
    rows = sorted(kept + rows, key=lambda row: order.index(row["experiment"]))
    head_keys = (*ENV_KEYS, "max_mhz", "power_limit_watts", "refresh_ms", "idle_watts")
    store.write_document(path, store.head_of(env, head_keys), rows=rows)


class Run:
    """Takes the readings of experiments, in turns."""

    def __init__(
        self, meter: Meter, journal: Journal, hashes: dict[str, str], rounds: int, planned: int
    ) -> None:
        self.meter = meter
        self.journal, self.hashes = journal, hashes
        self.rounds = rounds
        self.grids = part_grids(meter.env["sms"])
        self.failed: dict[tuple[str, str], str] = {}  # (experiment, label) -> why
        self.hung = False
        self.planned = planned  # readings, cached or not
        self.done = 0
        self.taken, self.taken_s = 0, 0.0

    def reading_s(self) -> float:
        """About how long one takes, at first by what is known of the counter."""
        window = max(PERIODS * self.meter.env["refresh_ms"] * 1e-3, MIN_WINDOW_S)
        return self.taken_s / self.taken if self.taken > 5 else READING_S + window

    def left(self) -> str:
        return duration(self.reading_s() * max(0, self.planned - self.done))

    def take(self, experiment: str, one: Contestant, grid: int, number: int) -> Reading | None:
        """The reading of one contestant in one round; None if it failed."""
        key = (experiment, one.label, grid, number)
        if (experiment, one.label) in self.failed:
            return None
        if key in self.journal.rows:
            return self.journal.rows[key]
        what = f"{experiment} {one.label}, " + (f"{grid} SMs" if grid else "whole chip")
        show_running(what, self.left())
        start_s = time.monotonic()
        answer, code = self.meter.read(one, grid)
        if code in (REFUSED, NO_DEVICE):
            raise Problem(answer["error"], code)
        if code is not None:
            self.hung |= code == HANG
            self.meter.start()
        self.taken += 1
        self.taken_s += time.monotonic() - start_s
        if "error" in answer:
            self.failed[experiment, one.label] = answer["error"]
            self.show(what, "FAIL: " + answer["error"])
            return None
        reading = {name: answer[name] for name in READING[:4]}
        reading["kernel_hash"] = self.hashes[reading["kernel"]]
        reading["idle_watts"] = self.meter.env["idle_watts"]
        self.journal.add({"key": key, **reading})
        watts, tflops, mhz = answer["watts"], answer["tflops"], answer["sm_mhz"]
        pj = watts / tflops
        self.show(what, f"{watts:4.0f} W, {tflops:5.1f} TFLOPS, {pj:.3f} pJ/FLOP, {mhz:.0f} MHz")
        return self.journal.rows[key]

    def show(self, what: str, result: str) -> None:
        number = min(self.done + 1, self.planned)
        show_result(number, self.planned, f"{what:44}", result, self.left())

    def rounds_at(
        self, experiment: str, contestants: list[Contestant], grid: int, slowest_mhz: float
    ) -> list[list[Reading]] | None:
        """[readings of each contestant], or None as soon as a clock is below slowest_mhz."""
        found: list[list[Reading]] = [[] for _ in contestants]
        before = self.done
        for number in range(self.rounds):
            turn = list(enumerate(contestants))
            for index, one in reversed(turn) if number % 2 else turn:
                reading = self.take(experiment, one, grid, number)
                self.done += 1
                if reading and reading["sm_mhz"] < slowest_mhz:
                    self.done = before
                    return None
                found[index] += [reading] if reading else []
        return found

    def experiment(self, name: str, contestants: list[Contestant]) -> list[Reading]:
        """Its rows, contestants in order, part and whole. The part is the largest on which all have
        the highest clock, or the smallest; what is tried once is left out of later experiments."""
        rows = []
        for chip in CHIPS:
            those = [one for one in contestants if one.persistent or chip == "whole"]
            for grid in list(self.grids) if chip == "part" else [0]:
                is_last = grid in (0, self.grids[-1])
                least = 0 if is_last else (1 - SAME_CLOCK) * self.meter.env["max_mhz"]
                found = self.rounds_at(name, those, grid, least)
                if found is not None:
                    break
                self.grids.remove(grid)
                print(f"{grid} SMs: a clock is below {least:.0f} MHz; on {self.grids[0]} now.")
            of_chip = []
            for one, readings in zip(those, found or []):
                row = {
                    "experiment": name, "label": one.label, "chip": chip, "grid": grid,
                    "stage": one.stage, "variant": one.variant, "data": one.data,
                    "m": SIZE, "n": SIZE, "k": SIZE,
                }  # fmt: skip
                why = self.failed.get((name, one.label))
                row.update({"verified": False, "error": why} if why else summarize(readings))
                of_chip.append(row)
            mark_clocks(of_chip)
            rows += of_chip
        place = [one.label for one in contestants]
        return sorted(rows, key=lambda row: (place.index(row["label"]), CHIPS.index(row["chip"])))


@command(stopped="Stopped before the first reading.")
def main() -> int:
    parser = measuring_parser(__doc__, "build/energy")
    parser.add_argument("--experiment", default="", help="names, see above; default all")
    parser.add_argument("--rounds", type=parse_rounds, default=ROUNDS, help="default %(default)s")
    options = parser.parse_args()
    today = Today(options.program, options.hashes)
    experiments = select(options.experiment, today.listed)
    meter = Meter(options.program)
    try:
        return take_all(meter, options, options.rounds, experiments, today.hashes)
    finally:
        meter.process.stop()


def take_all(
    meter: Meter, options: Any, rounds: int, experiments: dict[str, list[Contestant]],
    hashes: dict[str, str],
) -> int:  # fmt: skip
    env = meter.env
    stem = store.file_stem(env["gpu"])
    path = options.results / f"{stem}.energy.json"
    journal = Journal(
        options.partial / f"{stem}.partial.jsonl", {key: env[key] for key in ENV_KEYS},
        lambda reading: tuple(reading["key"]),  # experiment, label, grid, round
        lambda found: [one for one in found if hashes.get(one["kernel"]) == one["kernel_hash"]],
        READING,
    )  # fmt: skip
    # A persistent kernel runs on a part of the chip and on all of it.
    planned = rounds * sum(1 + one.persistent for those in experiments.values() for one in those)
    run = Run(meter, journal, hashes, rounds, planned)
    kept = sum(key[0] in experiments and key[3] < rounds for key in journal.rows)
    to_do = max(0, run.planned - kept)
    print(
        f"{store.machine_text(env)}; seed {env['seed']}; "
        f"{env['idle_watts']:.0f} W at rest, counter refreshed every {env['refresh_ms']:.0f} ms\n"
        f"{', '.join(experiments)}: {to_do} readings, about {duration(run.reading_s() * to_do)}"
        + (f"; {kept} more are there from a run that was stopped" if kept else ""),
        flush=True,
    )
    try:
        for name, contestants in experiments.items():
            rows = run.experiment(name, contestants)
            publish(path, env, hashes, name, rows)
            journal.drop([key for key in journal.rows if key[0] == name])
    except KeyboardInterrupt:
        kept = len(journal.rows)
        print(f"\nStopped. {kept} readings are kept; make energy goes on from there.")
        return STOPPED
    print(f"{path}: {len(experiments)} experiments, {len(run.failed)} contestants failed. "
          "Next: make tables.")
    show_failures({" ".join(who): why for who, why in run.failed.items()})
    return exit_code(run.failed, run.hung)


if __name__ == "__main__":
    sys.exit(main())
