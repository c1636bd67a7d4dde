#!/usr/bin/env python3
"""Measures where the joules go, by small experiments on this machine's GPU, into
docs/results/<gpu>.energy.json. Python standard library only.

  energy.py                     every experiment
  energy.py --experiment=NAMES  only these, joined by commas; the others of the file stay if their
                                kernels are still the same
  energy.py --rounds=N          each contestant N times, default 3

  data       one kernel on normal, uniform, small integer and zero operands
  tile       wgmma with N of 64, 128 and 256, and the large tiles of rung 11
  multicast  clusters without and with multicast: rung 8
  raster     the order of the tiles: rung 7
  epilogue   the store of D: rung 8's result and rung 9

All at 8192 cubed. Contestants of an experiment take turns, and the order is reversed every round,
so that what the chip's temperature does cancels. Each is measured twice over:

  part   on a part of the SMs, so few that the chip stays at its highest clock for every contestant:
         half of them, or fewer if that draws too much. Only a persistent kernel can be told so.
  whole  on all SMs, where the power limit decides on the clock

A reading is written to build/energy/ as soon as it is taken, so that a run that was stopped goes on
from there. docs/results/<gpu>.energy.json is replaced after each experiment.

Exit codes: 0 ok, 1 wrong result, 2 usage, 3 no usable device or no counter of joules, 4 hang, 130
stopped.
"""

import argparse
import collections
import datetime
import json
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import bench
import registry

SIZE = 8192
DATA = ("normal", "uniform", "ints", "zeros")
CHIPS = ("part", "whole")
ROUNDS = 3
SAME_CLOCK = 0.01  # by how much clocks may differ and still be called equal
# Of a reading, beside the window of 20 refresh periods or half a second: lead-in, checks, and how
# much longer the first use of an operand takes. The pace of the run itself corrects them.
READING_S, MIN_WINDOW_S, PERIODS = 1.0, 0.5, 20
ENV_KEYS = ("gpu", "driver", "toolkit", "sms", "seed")

# One thing that is compared. The label is unique within its experiment.
Contestant = collections.namedtuple("Contestant", "label stage variant data persistent")


# --- what to measure -----------------------------------------------------------------------------


def contestant(variant, data="normal", label=None):
    name = label or f"{variant['stage']}:{variant['variant']}"
    return Contestant(name, variant["stage"], variant["variant"], data, variant["persistent"])


def of_rung(variants, rung, accept=lambda variant: True):
    return [contestant(v) for v in variants if v["stage"] == rung and accept(v)]


def data_experiment(variants):
    best = [v for v in variants if v["result"] and v["persistent"]][-1:]
    return [contestant(v, data, data) for v in best for data in DATA]


def tile_experiment(variants):
    by_n = ("bn64", "bn128", "bn256")
    large = ("128x128", "128x256", "192x192", "256x192", "256x192_1x2")
    return of_rung(variants, 5, lambda v: v["variant"] in by_n) + of_rung(
        variants, 11, lambda v: v["variant"] in large
    )


def multicast_experiment(variants):
    return of_rung(variants, 8)


def raster_experiment(variants):
    return of_rung(variants, 7)


def epilogue_experiment(variants):
    return of_rung(variants, 8, lambda v: v["result"]) + of_rung(variants, 9)


EXPERIMENTS = {
    "data": data_experiment,
    "tile": tile_experiment,
    "multicast": multicast_experiment,
    "raster": raster_experiment,
    "epilogue": epilogue_experiment,
}


def select(text, variants):
    """{name: contestants} of the experiments that --experiment selects, all by default."""
    chosen = {}
    for name in text.split(",") if text else EXPERIMENTS:
        if name not in EXPERIMENTS:
            raise bench.Problem(
                f"--experiment: there is no '{name}'; the experiments are {', '.join(EXPERIMENTS)}"
                + bench.suggestion(name, list(EXPERIMENTS))
            )
        contestants = EXPERIMENTS[name](variants)
        if len(contestants) > 1:
            chosen[name] = contestants
        elif text:
            raise bench.Problem(
                f"--experiment: {name} compares variants of rungs that are not here; "
                "energy.py --help says which."
            )
    return chosen


def part_grids(sms):
    """Numbers of CTAs for a part of the chip, largest first: powers of two, so that the tiles of
    8192 cubed divide evenly, from about half of the SMs down to an eighth."""
    half = 1 << (sms // 2).bit_length() - 1
    return [half, half // 2, half // 4]


def parse_rounds(text):
    if not text.isdecimal() or int(text) < 1:
        raise bench.Problem(
            f"--rounds is '{text}' but must be a whole number from 1; try {ROUNDS}."
        )
    return int(text)


# --- readings ------------------------------------------------------------------------------------


class Died(Exception):
    """The program ended before it had answered."""

    def __init__(self, code, last_words):
        super().__init__(last_words.removeprefix("FAIL: ") or f"the program ended with {code}.")
        self.code = code


class Meter:
    """build/ladder --energy-rows, started again if it dies."""

    def __init__(self, program):
        self.program = program
        self.process = None
        self.start()

    def start(self):
        try:
            self.process = subprocess.Popen(
                [self.program, "--energy-rows"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
        except OSError as error:
            raise bench.Problem(
                f"{self.program} cannot be run ({error.strerror}); make energy builds it."
            )
        self.words = []
        self.listener = threading.Thread(target=self.listen, args=(self.process,), daemon=True)
        self.listener.start()
        try:
            self.env = self.answer()["env"]
        except Died as died:
            raise bench.Problem(str(died), died.code if died.code > 0 else bench.WRONG)

    def listen(self, process):
        self.words.extend(line.strip() for line in process.stderr)

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.end()
        raise Died(code, next((word for word in reversed(self.words) if word), ""))

    def read(self, one, grid):
        """What the program says to one row. Dies with it."""
        row = f"{one.stage} {one.variant} {SIZE} {SIZE} {SIZE} {one.data} {grid}"
        try:
            self.process.stdin.write(row + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended early; its exit code and last words say why
        return self.answer()

    def end(self):
        """Waits for the end of the process; returns its exit code."""
        code = self.process.wait()
        self.listener.join(timeout=5)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass  # a row that it did not read
        return code

    def stop(self):
        self.process.kill()
        self.end()


class Readings:
    """What has been read so far, one JSON object a line, kept through an interruption."""

    def __init__(self, path, env, hashes):
        self.path = path
        self.env = {key: env[key] for key in ENV_KEYS}
        self.hashes = hashes
        self.taken = {}  # (experiment, label, grid, round) -> reading, of today's kernels
        for entry in bench.journal_entries(path):
            reading = entry["reading"]
            current = hashes.get(reading["kernel"]) == reading["kernel_hash"]
            if entry["env"] == self.env and current:
                self.taken[tuple(entry["key"])] = reading

    def _entry(self, key):
        return {"env": self.env, "key": key, "reading": self.taken[key]}

    def add(self, key, answer, idle_watts):
        reading = {name: answer[name] for name in ("kernel", "watts", "tflops", "sm_mhz")}
        reading["kernel_hash"] = self.hashes[reading["kernel"]]
        reading["idle_watts"] = idle_watts
        self.taken[key] = reading
        bench.append_journal(self.path, self._entry(key))

    def drop(self, experiment):
        """Forgets an experiment that has been published."""
        self.taken = {key: one for key, one in self.taken.items() if key[0] != experiment}
        bench.rewrite_journal(self.path, [self._entry(key) for key in self.taken])


# --- rows ----------------------------------------------------------------------------------------


def summarize(readings):
    """The medians of one contestant's readings, and how far its pJ/FLOP spread."""
    pj = [r["watts"] / r["tflops"] for r in readings]
    above = [(r["watts"] - r["idle_watts"]) / r["tflops"] for r in readings]
    median = {
        key: statistics.median(r[key] for r in readings)
        for key in ("watts", "idle_watts", "tflops", "sm_mhz")
    }
    return {
        **median,
        "pj_per_flop": statistics.median(pj),
        "pj_min": min(pj),
        "pj_max": max(pj),
        "pj_above_idle": statistics.median(above),
        "above_min": min(above),
        "above_max": max(above),
        "rounds": len(readings),
        "verified": True,
        "kernel": readings[0]["kernel"],
        "kernel_hash": readings[0]["kernel_hash"],
    }


def mark_clocks(rows):
    """Whether each row's clock is that of the others, those of one experiment and chip."""
    clocks = [row["sm_mhz"] for row in rows if row["verified"]]
    for row in rows:
        if row["verified"]:
            off = abs(row["sm_mhz"] / statistics.median(clocks) - 1)
            row["equal_clock"] = off <= SAME_CLOCK


def kept_rows(path, env, hashes, fresh):
    """Rows of an earlier run that still hold: same machine and versions, same kernels."""
    if not path.exists():
        return []
    old = json.loads(path.read_text(encoding="utf-8"))
    if any(old.get(key) != env[key] for key in ENV_KEYS):
        print(f"{path} was measured with another machine or versions; its rows are dropped.")
        return []
    return [
        row
        for row in old["rows"]
        if row["experiment"] != fresh
        and row["verified"]
        and hashes.get(row["kernel"]) == row["kernel_hash"]
    ]


def publish(path, env, hashes, experiment, rows):
    """Replaces an experiment's rows in the results file; keeps what still holds of the others."""
    order = list(EXPERIMENTS)
    rows = kept_rows(path, env, hashes, experiment) + rows
    rows.sort(key=lambda row: order.index(row["experiment"]))  # stable: contestants stay in order
    head = {key: env[key] for key in ENV_KEYS}
    for key in ("max_mhz", "power_limit_watts", "refresh_ms", "idle_watts"):
        head[key] = env[key]
    head["revision"] = bench.revision()
    head["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = ",\n".join("  " + json.dumps(row) for row in rows)
    bench.write_atomically(path, "{\n" + "\n".join(lines) + '\n "rows": [\n' + body + "\n ]\n}\n")


# --- the program ---------------------------------------------------------------------------------


class Run:
    """Takes the readings of experiments, in turns."""

    def __init__(self, meter, readings, rounds, planned):
        self.meter = meter
        self.readings = readings
        self.rounds = rounds
        self.grids = part_grids(meter.env["sms"])
        self.failed = {}  # (experiment, label) -> why
        self.hung = False
        self.planned = planned  # readings, cached or not
        self.done = 0
        self.taken, self.taken_s = 0, 0.0

    def reading_s(self):
        """About how long one takes, at first by what is known of the counter."""
        window = max(PERIODS * self.meter.env["refresh_ms"] * 1e-3, MIN_WINDOW_S)
        return self.taken_s / self.taken if self.taken > 5 else READING_S + window

    def left(self):
        return bench.duration(self.reading_s() * max(0, self.planned - self.done))

    def take(self, experiment, one, grid, number):
        """The reading of one contestant in one round; None if it failed."""
        key = (experiment, one.label, grid, number)
        if (experiment, one.label) in self.failed:
            return None
        if key in self.readings.taken:
            return self.readings.taken[key]
        what = f"{experiment} {one.label}, " + (f"{grid} SMs" if grid else "whole chip")
        if sys.stdout.isatty():
            print(f"\r\x1b[K  on {what}, about {self.left()} left", end="", flush=True)
        start_s = time.monotonic()
        try:
            answer = self.meter.read(one, grid)
        except Died as died:
            if died.code in (bench.REFUSED, bench.NO_DEVICE):
                raise bench.Problem(str(died), died.code)
            self.hung |= died.code == bench.HANG
            answer = {"error": str(died)}
            self.meter.start()
        self.taken += 1
        self.taken_s += time.monotonic() - start_s
        if "error" in answer:
            self.failed[experiment, one.label] = answer["error"]
            self.show(what, "FAIL: " + answer["error"])
            return None
        self.readings.add(key, answer, self.meter.env["idle_watts"])
        self.show(
            what,
            f"{answer['watts']:4.0f} W, {answer['tflops']:5.1f} TFLOPS, "
            f"{answer['watts'] / answer['tflops']:.3f} pJ/FLOP, {answer['sm_mhz']:.0f} MHz",
        )
        return self.readings.taken[key]

    def show(self, what, result):
        clear = "\r\x1b[K" if sys.stdout.isatty() else ""
        place = f"[{min(self.done + 1, self.planned):{len(str(self.planned))}}/{self.planned}]"
        print(f"{clear}{place} {what:44} {result}; about {self.left()} left", flush=True)

    def rounds_at(self, experiment, contestants, grid, slowest_mhz):
        """[readings of each contestant], or None as soon as a clock is below slowest_mhz."""
        found = [[] for _ in contestants]
        before = self.done
        for number in range(self.rounds):
            turn = list(enumerate(contestants))
            for index, one in reversed(turn) if number % 2 else turn:
                reading = self.take(experiment, one, grid, number)
                self.done += 1
                if reading is None:
                    continue
                if reading["sm_mhz"] < slowest_mhz:
                    self.done = before
                    return None
                found[index].append(reading)
        return found

    def on_part(self, experiment, contestants):
        """(grid, readings): the largest part of the chip on which nobody loses clock. A smaller one
        is kept for the experiments that follow."""
        while True:
            smallest = len(self.grids) == 1
            least = 0 if smallest else (1 - SAME_CLOCK) * self.meter.env["max_mhz"]
            found = self.rounds_at(experiment, contestants, self.grids[0], least)
            if found is not None:
                return self.grids[0], found
            print(
                f"{self.grids[0]} SMs draw too much for the highest clock; on {self.grids[1]} now."
            )
            self.grids = self.grids[1:]

    def experiment(self, name, contestants):
        """Its rows, contestants in order, part and whole."""
        persistent = [one for one in contestants if one.persistent]
        rows = []
        for chip in CHIPS:
            those = persistent if chip == "part" else contestants
            grid, found = 0, []
            if chip == "part" and those:
                grid, found = self.on_part(name, those)
            elif chip == "whole":
                found = self.rounds_at(name, those, 0, 0)
            of_chip = [self.row(name, chip, grid, *pair) for pair in zip(those, found)]
            mark_clocks(of_chip)
            rows += of_chip
        place = [one.label for one in contestants]
        return sorted(rows, key=lambda row: (place.index(row["label"]), CHIPS.index(row["chip"])))

    def row(self, experiment, chip, grid, one, readings):
        row = {
            "experiment": experiment, "label": one.label, "chip": chip, "grid": grid,
            "stage": one.stage, "variant": one.variant, "data": one.data,
            "m": SIZE, "n": SIZE, "k": SIZE,
        }  # fmt: skip
        why = self.failed.get((experiment, one.label))
        return {**row, **({"verified": False, "error": why} if why else summarize(readings))}


def count(experiments, rounds):
    return rounds * sum(
        len(those) + sum(one.persistent for one in those) for those in experiments.values()
    )


def measure(options):
    rounds = parse_rounds(options.rounds)
    variants = registry.parse(bench.ask(options.program, "--list"))
    hashes = bench.read_hashes(options.hashes, variants)
    experiments = select(options.experiment, variants)
    meter = Meter(options.program)
    try:
        return measure_with(meter, options, rounds, experiments, hashes)
    finally:
        meter.stop()


def measure_with(meter, options, rounds, experiments, hashes):
    env = meter.env
    stem = bench.file_stem(env["gpu"])
    path = options.results / f"{stem}.energy.json"
    readings = Readings(options.partial / f"{stem}.partial.jsonl", env, hashes)
    run = Run(meter, readings, rounds, count(experiments, rounds))
    kept = sum(key[0] in experiments and key[3] < rounds for key in readings.taken)
    to_do = max(0, run.planned - kept)
    print(
        f"{env['gpu']}, driver {env['driver']}, nvcc {env['toolkit']}; seed {env['seed']}; "
        f"{env['idle_watts']:.0f} W at rest, counter refreshed every {env['refresh_ms']:.0f} ms\n"
        f"{', '.join(experiments)}: {to_do} readings, about "
        f"{bench.duration(run.reading_s() * to_do)}"
        + (f"; {kept} more are there from a run that was stopped" if kept else ""),
        flush=True,
    )
    try:
        for name, contestants in experiments.items():
            rows = run.experiment(name, contestants)
            publish(path, env, hashes, name, rows)
            readings.drop(name)
    except KeyboardInterrupt:
        kept = len(readings.taken)
        print(f"\nStopped. {kept} readings are kept; make energy goes on from there.")
        return bench.STOPPED
    print(f"{path}: {len(experiments)} experiments, {len(run.failed)} contestants failed. "
          "Next: make tables.")
    for (name, label), why in run.failed.items():
        print(f"FAIL {name} {label}: {why}")
    return bench.HANG if run.hung else bench.WRONG if run.failed else bench.OK


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiment", default="", help="names, see above; default all")
    parser.add_argument("--rounds", default=str(ROUNDS), help="default %(default)s")
    parser.add_argument("--program", default="build/ladder")
    parser.add_argument("--hashes", type=Path, default=Path("build/ptx/hashes.json"))
    parser.add_argument("--results", type=Path, default=Path("docs/results"), metavar="DIR")
    parser.add_argument("--partial", type=Path, default=Path("build/energy"), metavar="DIR")
    try:
        return measure(parser.parse_args())
    except bench.Problem as problem:
        print(problem, file=sys.stderr)
        return problem.code
    except KeyboardInterrupt:
        print("\nStopped before the first reading.")
        return bench.STOPPED


if __name__ == "__main__":
    sys.exit(main())
