#!/usr/bin/env python3
"""Measures the ceilings of this machine's GPU into docs/results/<gpu>.limits.json: what tensor
cores, shared memory, L2 and DRAM can do at most (docs/limits.md). Python standard library only.

  limits.py               every limit, burst and then sustained
  limits.py --rows=ROWS   only these; other rows of the file stay if their kernel is the same
  limits.py --tiles       measures nothing and needs no GPU: writes anew what the file says of the
                          rungs' tiles, after a rung has changed

ROWS is one or more selectors NAME[/REGIME], joined by commas. NAME may have * for any letters:

  wgmma_n256    l2_*/burst    */sustained

A row is written to build/limits-partial/ as soon as it is measured, so that a run that was stopped
goes on from there. When all are there, docs/results/<gpu>.limits.json is replaced.

Exit codes: 0 ok, 1 wrong result, 2 usage, 3 no usable device, 4 hang, 130 stopped.
"""

import argparse
import collections
import datetime
import fnmatch
import hashlib
import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import bench
import kernel_hashes
import registry
from bench import HANG, OK, REGIMES, STOPPED, WRONG, Problem
from tables import PROBLEM

ENV_KEYS = ("gpu", "driver", "toolkit", "sms", "l2_bytes")
ROW_S = {"burst": 1.3, "sustained": 2.9}  # about; the pace of the run itself corrects it
SUFFIX = ".limits.json"

Row = collections.namedtuple("Row", "name regime")


# --- what to measure -----------------------------------------------------------------------------


def select(rows_text, entries):
    """The rows that --rows selects (all by default), burst first, while the chip is cool."""
    names = [entry["name"] for entry in entries]
    chosen = set()
    for selector in (rows_text or "*").replace(" ", ",").split(","):
        name, slash, regime = selector.partition("/")
        found = fnmatch.filter(names, name)
        if not found:
            raise Problem(
                f"--rows: there is no limit '{name}', only {', '.join(names)}"
                + bench.suggestion(name, names)
            )
        if slash and regime not in REGIMES:
            raise Problem(
                f"--rows: the regime '{regime}' of '{selector}' must be burst or sustained"
                + bench.suggestion(regime, REGIMES)
            )
        chosen |= {Row(one, each) for one in found for each in ([regime] if slash else REGIMES)}
    return in_order(chosen, entries)


def in_order(rows, entries):
    place = {entry["name"]: i for i, entry in enumerate(entries)}
    return sorted(rows, key=lambda row: (REGIMES.index(row.regime), place[row.name]))


def row_of(result):
    return Row(result["name"], result["regime"])


def row_text(row):
    return "/".join(row)


def expected_s(rows):
    return sum(ROW_S[row.regime] for row in rows)


def hashes_of(entries, folder):
    """{name of a limit: fingerprint of its kernel}"""
    paths = sorted(folder.glob("*.ptx"))
    if not paths:
        raise Problem(f"{folder} has no PTX; make limits builds it.")
    found = {}
    for path in paths:
        found.update(kernel_hashes.kernel_hashes(path.read_text(encoding="utf-8")))
    for entry in entries:
        if entry["kernel"] not in found:
            raise Problem(f"{folder} has no kernel {entry['kernel']}; make limits builds it.")
    return {entry["name"]: found[entry["kernel"]] for entry in entries}


# --- the rungs' tiles ----------------------------------------------------------------------------

WGMMA = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.bf16\.bf16\s*\{[^}]*\}\s*,\s*(\{?)"
)
WARP_MMA = "mma.sync.aligned.m16n8k16"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4"


def instruction(ptx):
    """(what multiplies, bytes that it reads from shared memory a FLOP, or None) of a kernel's PTX.
    The bytes are derived: counted in the loop as it is unrolled, so that each product and each load
    stands there once."""
    products = WGMMA.findall(ptx)
    if products:
        flop = sum(2 * 64 * int(n) * 16 for n, _ in products)
        # A is 64x16 and B Nx16, 2 bytes an element; a brace opens A's registers.
        read = sum((0 if brace else 64 * 32) + int(n) * 32 for n, brace in products)
        return f"wgmma n{max(int(n) for n, _ in products)}", read / flop
    if WARP_MMA in ptx:
        flop = ptx.count(WARP_MMA) * 2 * 16 * 8 * 16
        return "mma.sync", ptx.count(LDMATRIX) * 512 / flop
    return "fma", None


def tiles(program, hashes_path, ptx_folder):
    """One dictionary a variant of the ladder's own problem that is no chooser: its tile, and what its
    kernel reads."""
    variants = registry.parse(bench.ask(program, "--list"))
    hashes = bench.read_hashes(hashes_path, variants)
    texts = {}
    for path in sorted(ptx_folder.glob("[0-9]*_*.ptx")):
        texts.update(kernel_hashes.kernel_texts(path.read_text(encoding="utf-8")))
    found = []
    for v in variants:
        if v["chooses"] or v.get("problem", PROBLEM) != PROBLEM:
            continue
        if v["kernel"] not in texts:
            raise Problem(f"{ptx_folder} has no kernel {v['kernel']}; make limits writes it.")
        name, read = instruction(texts[v["kernel"]])
        sizes = {key: v[key] for key in ("bm", "bn", "bk", "cluster_m", "cluster_n")}
        found.append({
            "stage": v["stage"], "variant": v["variant"], **sizes, "instruction": name,
            "smem_read_per_flop": read, "kernel_hash": hashes[v["kernel"]],
        })  # fmt: skip
    return found


# --- files ---------------------------------------------------------------------------------------


def holds(row, hashes):
    """Whether a row was measured with the kernel that its limit has now."""
    return row["name"] in hashes and row.get("kernel_hash") == hashes[row["name"]]


class Partial:
    """The rows measured so far, one JSON object a line, kept through an interruption."""

    def __init__(self, path, key, hashes):
        self.path = path
        self.key = key  # machine and versions
        self.rows = {}
        for entry in bench.journal_entries(path):
            row = entry["row"]
            if entry["key"] == key and row["verified"] and holds(row, hashes):
                self.rows[row_of(row)] = row

    def _entry(self, result):
        return {"key": self.key, "row": result}

    def add(self, result):
        self.rows[row_of(result)] = result
        bench.append_journal(self.path, self._entry(result))

    def drop(self, rows):
        """Forgets rows that have been published."""
        for row in rows:
            self.rows.pop(row, None)
        bench.rewrite_journal(self.path, [self._entry(row) for row in self.rows.values()])


def read_file(path):
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document["limits"], list):
            return document
        raise KeyError("limits")
    except (ValueError, KeyError, TypeError):
        raise Problem(f"{path} is not a file of limits; remove it and run make limits.")


def kept_rows(path, key, measured, hashes):
    """Rows of an earlier run that still hold: same machine and versions, same kernel."""
    if not path.exists():
        return []
    old = read_file(path)
    if any(old.get(name) != value for name, value in key.items()):
        print(f"{path} was measured with another machine or versions; its rows are dropped.")
        return []
    others = [row for row in old["limits"] if row_of(row) not in measured]
    gone = [row_text(row_of(row)) for row in others if not holds(row, hashes)]
    if gone:
        print(f"{path}: dropped, since their kernels have changed: {', '.join(gone)}")
    return [row for row in others if holds(row, hashes)]


def write(path, head, of_tiles, rows):
    lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    lists = [
        f' "{name}": [\n' + ",\n".join("  " + json.dumps(one) for one in those) + "\n ]"
        for name, those in (("tiles", of_tiles), ("limits", rows))
    ]
    bench.write_atomically(path, "{\n" + "\n".join(lines) + "\n" + ",\n".join(lists) + "\n}\n")


def publish(path, key, results, of_tiles, entries, hashes):
    """Replaces the file: these results and what still holds of its earlier rows."""
    measured = {row_of(result): result for result in results}
    for result in kept_rows(path, key, measured, hashes):
        measured[row_of(result)] = result
    head = dict(key)
    head["revision"] = bench.revision()
    head["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    write(path, head, of_tiles, [measured[row] for row in in_order(measured, entries)])


# --- the program ---------------------------------------------------------------------------------


class Limits:
    """Runs the program over rows, again if it dies, until each has a result."""

    def __init__(self, program, entries, hashes, partial):
        self.program = program
        self.hashes = hashes
        self.entries = {entry["name"]: entry for entry in entries}
        self.partial = partial
        self.results = {}  # of this run, right or not
        self.hung = False
        self.start_s = time.monotonic()

    def run(self, rows):
        self.pending = list(rows)
        self.total, self.total_s = len(rows), expected_s(rows)
        while self.pending:
            code, running, last_words = self.run_process()
            if not self.pending:
                break
            if code in (bench.REFUSED, bench.NO_DEVICE) or running is None:
                how = last_words or f"{self.program} ended with {code}."
                raise Problem(how, code if code > 0 else WRONG)
            self.hung |= code == HANG
            how = last_words.removeprefix("FAIL: ") or f"{self.program} ended with {code}."
            entry = self.entries[running.name]
            known = {name: entry[name] for name in ("name", "group", "data", "what")}
            unit = "TFLOPS" if entry["group"] == "tensor" else "TB/s"
            self.take({**known, "regime": running.regime, "unit": unit, "value": None,
                       "verified": False, "error": how})  # fmt: skip

    def run_process(self):
        """(exit code, the row it was at or None, last line on stderr) of one process."""
        process = subprocess.Popen(
            [self.program, *map(row_text, self.pending)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        words = []

        def listen():
            for line in process.stderr:
                words.append(line.strip())

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        running = None
        try:
            for line in process.stdout:
                event = json.loads(line)
                if "running" in event:
                    running = Row(*event["running"].split("/"))
                    self.show_running(running)
                elif "env" not in event:
                    self.take(event)
                    running = None
            code = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        listener.join(timeout=5)
        return code, running, next((word for word in reversed(words) if word), "")

    def take(self, result):
        row = row_of(result)
        result["kernel_hash"] = self.hashes[row.name]
        self.results[row] = result
        self.pending.remove(row)
        if result["verified"]:
            self.partial.add(result)
        self.show_result(row, result)

    def left(self):
        """About how long the pending rows take, by the pace of those that are done."""
        pending_s = expected_s(self.pending)
        done_s = self.total_s - pending_s
        pace = (time.monotonic() - self.start_s) / done_s if done_s > 5 else 1
        return bench.duration(pending_s * pace)

    def show_running(self, row):
        if sys.stdout.isatty():
            text = f"on {row_text(row)}, about {self.left()} left"
            print(f"\r\x1b[K  {text}", end="", flush=True)

    def show_result(self, row, result):
        count = f"[{self.total - len(self.pending):{len(str(self.total))}}/{self.total}]"
        what = "FAIL: " + result.get("error", "wrong result")
        if result["verified"]:
            what = (
                f"{result['value']:8.2f} {result['unit']}, {result['per_clock']:7.1f} "
                f"{result['per_clock_unit']} at {result['sm_mhz']:.0f} MHz"
            )
        clear = "\r\x1b[K" if sys.stdout.isatty() else ""
        print(f"{clear}{count} {row_text(row):28} {what}; about {self.left()} left", flush=True)


# --- main ----------------------------------------------------------------------------------------


def of_tiles(options):
    return tiles(options.ladder, options.hashes, options.hashes.parent)


def only_tiles(options):
    paths = sorted(options.results.glob("*" + SUFFIX))
    paths = [path for path in paths if "-" not in path.name]
    if not paths:
        raise Problem(f"{options.results} has no file of limits; make limits measures one.")
    for path in paths:
        document = read_file(path)
        head = {k: value for k, value in document.items() if k not in ("tiles", "limits")}
        write(path, head, of_tiles(options), document["limits"])
        print(f"{path}: tiles written anew. Next: make tables.")
    return OK


def measure(options):
    entries = json.loads(bench.ask(options.program, "--list"))
    rows = select(options.rows, entries)
    env = json.loads(bench.ask(options.program, "--env"))["env"]
    key = {name: env[name] for name in ENV_KEYS}
    hashes = hashes_of(entries, options.ptx)
    stem = bench.file_stem(env["gpu"])
    path = options.results / (stem + SUFFIX)
    tiles_now = of_tiles(options)
    if path.exists():
        read_file(path)  # refused before anything is measured, not after
    partial = Partial(options.partial / f"{stem}.jsonl", key, hashes)

    before = {row: partial.rows[row] for row in rows if row in partial.rows}
    to_do = [row for row in rows if row not in before]
    print(
        f"{env['gpu']}, driver {env['driver']}, nvcc {env['toolkit']}\n"
        f"{len(to_do)} rows, about {bench.duration(expected_s(to_do))}"
        + (f"; {len(before)} more are there from a run that was stopped" if before else ""),
        flush=True,
    )
    limits = Limits(options.program, entries, hashes, partial)
    try:
        limits.run(to_do)
    except KeyboardInterrupt:
        print(f"\nStopped. {len(partial.rows)} rows are kept; make limits goes on from there.")
        return STOPPED
    results = list(before.values()) + list(limits.results.values())
    publish(path, key, results, tiles_now, entries, hashes)
    partial.drop(rows)
    wrong = [row for row, result in limits.results.items() if not result["verified"]]
    print(f"{path}: {len(results)} rows measured, {len(wrong)} failed. Next: make tables.")
    for row in wrong:
        print(f"FAIL {row_text(row)}: {limits.results[row].get('error', 'wrong result')}")
    return HANG if limits.hung else WRONG if wrong else OK


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="", help="selectors, see above; default all")
    parser.add_argument("--tiles", action="store_true", help="only the rungs' tiles; no GPU")
    parser.add_argument("--program", default="build/limits")
    parser.add_argument("--ptx", type=Path, default=Path("build/obj/common/limits"), metavar="DIR")
    parser.add_argument("--ladder", default="build/ladder")
    parser.add_argument("--hashes", type=Path, default=Path("build/ptx/hashes.json"))
    parser.add_argument("--results", type=Path, default=Path("docs/results"), metavar="DIR")
    parser.add_argument("--partial", type=Path, default=Path("build/limits-partial"), metavar="DIR")
    options = parser.parse_args()
    try:
        return only_tiles(options) if options.tiles else measure(options)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return problem.code
    except KeyboardInterrupt:
        print("\nStopped before the first row.")
        return STOPPED


if __name__ == "__main__":
    sys.exit(main())
