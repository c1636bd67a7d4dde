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
  ARGS     of a rung that takes several types, layouts, …, those that are not the default, joined by +:
           13:result(type=fp16+layout=NT)
  SHAPE    4096 for a cube, MxNxK, `tuning` for the tuning shapes, `heldout` for shapes that nobody
           tunes for, `rounds`, `between`, `long_k`, `decode` or `ragged` for a class of drawn shapes
           (scripts/shape_lists.py), `classes` for all five, `all` for all of these; default 2048, 4096
           and 8192. Rung 1 runs at 2048 only, unless a selector has both its number and a shape
  REGIME   burst or sustained; default both, but burst only for drawn shapes

  8    5:bn256    *:result    5,6    7-8:result@4096/burst    8@4096x7168x2048    @8192/sustained
  11@heldout    0@all    0:best_no_workspace@decode

A row is written to build/bench/ as soon as it is measured, so that a run that was stopped goes on
from there: rows whose kernel, choice of a configuration and machine are still the same are not
measured again. When all rows are there, docs/results/<gpu>.json is replaced.

Exit codes: 0 ok, 1 wrong result, 2 usage, 3 no usable device, 4 hang, 130 stopped.
"""

import argparse
import collections
import datetime
import difflib
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import registry
import shape_lists

OK, WRONG, REFUSED, NO_DEVICE, HANG, STOPPED = 0, 1, 2, 3, 4, 130
REGIMES = ("burst", "sustained")
SIZES = (2048, 4096, 8192)
SMALL_SIZE = 2048  # the one size at which a rung without tensor cores runs
SELECTOR = re.compile(
    r"(?P<rung>[^:@/(]*)(?::(?P<variant>[^:@/(]+))?(?:\((?P<args>[\w=+]+)\))?"
    r"(?:@(?P<shape>[^:@/(]+))?(?:/(?P<regime>[^:@/(]+))?"
)
# Seconds, for the time left: a variant's rounds, those of cuBLASLt beside each group of variants,
# operands and references of a shape, and choosing among cuBLASLt's algorithms, once a shape. The
# pace of the run itself corrects them.
ROW_S = {"burst": 0.7, "sustained": 1.6}
GROUP_S = {"burst": 0.7, "sustained": 2.7}
SHAPE_S = 0.3
BASELINE_S = 2.5
ENV_KEYS = ("gpu", "driver", "toolkit", "cublas", "sms", "l2_bytes", "data", "seed")

# args: of a rung whose kind of problem has parameters those that are not the default.
Row = collections.namedtuple("Row", "stage variant m n k regime args", defaults=("",))


class Problem(Exception):
    """Why the run ends; the message is one sentence, code the exit code."""

    def __init__(self, message, code=REFUSED):
        super().__init__(message)
        self.code = code


# --- what to measure -----------------------------------------------------------------------------


def suggestion(word, candidates):
    close = difflib.get_close_matches(word, candidates, 1, 0)
    return f"; did you mean {close[0]}?" if close else "."


def parse_rungs(text, known):
    """(rung numbers, whether they were named) of a selector's RUNG."""
    if text in ("", "*"):
        return [rung for rung in known if rung > 0], False
    numbers = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    chosen = []
    if numbers:
        first, last = int(numbers.group(1)), int(numbers.group(2) or numbers.group(1))
        chosen = [rung for rung in known if first <= rung <= last]
    if not chosen:
        raise Problem(
            f"--rows: there is no rung '{text}'; the rungs are {', '.join(map(str, known))}."
        )
    return chosen, True


def parse_shapes(text, option="--rows"):
    if text is None:
        return [(size,) * 3 for size in SIZES]
    if text in shape_lists.NAMED:
        return shape_lists.NAMED[text]
    sizes = [int(size) for size in text.split("x")] if re.fullmatch(r"\d+(x\d+x\d+)?", text) else []
    if not sizes or min(sizes) < 1:
        hint = suggestion(text, shape_lists.NAMED) if text[:1].isalpha() else "."
        raise Problem(
            f"{option}: the shape '{text}' must be a size such as 4096, MxNxK, "
            f"{', '.join([*shape_lists.NAMED][:-1])} or {[*shape_lists.NAMED][-1]}{hint}"
        )
    return [tuple(sizes) if len(sizes) == 3 else (sizes[0],) * 3]


def regimes_at(shape, named):
    """The regimes of a row, of which its selector has named one or none."""
    if named:
        return [named]
    return REGIMES[:1] if shape in shape_lists.DRAWN else REGIMES


def select_one(selector, variants):
    """The rows of one selector, in no particular order."""
    parts = SELECTOR.fullmatch(selector)
    if not selector or not parts:
        raise Problem(
            f"--rows: '{selector}' is not of the form RUNG[:VARIANT][(ARGS)][@SHAPE][/REGIME], such as "
            "8, 5:result@4096/burst or 13:result(type=fp16+layout=NT)."
        )
    rungs, named = parse_rungs(parts["rung"], sorted({v["stage"] for v in variants}))
    wanted, regime = parts["variant"], parts["regime"]
    of_rungs = [v for v in variants if v["stage"] in rungs]
    chosen = [
        v
        for v in of_rungs
        if wanted in ("*", v["variant"])
        or (wanted == "result" and v["result"])
        or (wanted is None and not v["configuration"])
    ]
    if not chosen:
        names = [v["variant"] for v in of_rungs]
        raise Problem(f"--rows: '{selector}' names no variant{suggestion(wanted, names)}")
    if regime not in (None, *REGIMES):
        raise Problem(f"--rows: the regime '{regime}' must be burst or sustained.")
    shape_named = named and parts["shape"] is not None
    return {
        Row(v["stage"], v["variant"], *shape, each, (parts["args"] or "").replace("+", ","))
        for v in chosen
        for shape in parse_shapes(parts["shape"])
        for each in regimes_at(shape, regime)
        if not v["simt"] or shape == (SMALL_SIZE,) * 3 or shape_named
    }


def in_order(rows, variants):
    """Rows as they are measured: burst first, while the chip is cool, then shape by shape."""
    place = {(v["stage"], v["variant"]): i for i, v in enumerate(variants)}
    return sorted(
        rows,
        key=lambda row: (
            REGIMES.index(row.regime),
            row.m * row.n * row.k,
            (row.m, row.n, row.k),
            row.args,
            place[row.stage, row.variant],
        ),
    )


def select(rows_text, variants):
    """The rows that --rows selects (all by default), in the order of measuring."""
    rows = set()
    for selector in (rows_text or "*").replace(" ", ",").split(","):
        rows |= select_one(selector, variants)
    if not rows:
        raise Problem(
            f"--rows: '{rows_text}' leaves nothing: a rung without tensor cores runs at {SMALL_SIZE} "
            "only, unless it is named with a shape, as in 1@4096."
        )
    return in_order(rows, variants)


def groups(rows):
    """Neighbours that one process measures in turns, as build/ladder groups them."""
    key = lambda row: (row.regime, row.m, row.n, row.k, row.stage, row.args)  # noqa: E731
    return [list(group) for _, group in itertools.groupby(rows, key)]


def expected_s(rows):
    """About how long these rows take."""
    shapes = {(row.m, row.n, row.k, row.regime) for row in rows}
    per_group = sum(
        GROUP_S[group[0].regime] + ROW_S[group[0].regime] * len(group) for group in groups(rows)
    )
    return per_group + SHAPE_S * len(shapes) + BASELINE_S * len({shape[:3] for shape in shapes})


def row_text(row):
    return " ".join(map(str, row)).strip()


def row_name(row):
    shape = str(row.m) if row.m == row.n == row.k else f"{row.m}x{row.n}x{row.k}"
    args = f"({row.args.replace(',', '+')})" if row.args else ""
    return f"{row.stage}:{row.variant}{args}@{shape}/{row.regime}"


def row_of(result):
    return Row(*(result[key] for key in Row._fields[:-1]), result.get("args") or "")


def duration(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


# --- files ---------------------------------------------------------------------------------------


def file_stem(gpu):
    """h200 for NVIDIA H200; no '-', which marks runs that others have sent."""
    return re.sub(r"[^a-z0-9]+", "_", gpu.lower().replace("nvidia", "")).strip("_")


def write_atomically(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


class Today:
    """What the program is now, to judge earlier results by."""

    def __init__(self, program, variants, hashes):
        self.program = program
        self.variants = {(v["stage"], v["variant"]): v for v in variants}
        self.hashes = hashes

    def variant(self, row):
        return self.variants.get((row.stage, row.variant))

    def kernel_hash(self, result):
        """Of the kernel that stands today for what made that result; None if nothing does."""
        ran = self.variants.get(registry.ran(result))
        return self.hashes.get(ran["kernel"]) if ran else None

    def choices(self, rows):
        """{Row: what the program says of it}: configuration, kernel, predicted_us."""
        said = ask(self.program, "--choices", rows=rows).splitlines() if rows else []
        return dict(zip(rows, map(json.loads, said)))

    def still(self, results):
        """Those whose kernel is the same, and whose variant would choose the same again."""
        results = [
            result
            for result in results
            if self.variant(row_of(result))
            and result["kernel_hash"] is not None
            and self.kernel_hash(result) == result["kernel_hash"]
        ]
        chosen = self.choices(
            [row for row in map(row_of, results) if self.variant(row)["chooses"]]
        )
        return [
            result
            for result in results
            if row_of(result) not in chosen
            or chosen[row_of(result)]["configuration"] == result.get("configuration")
        ]


def journal_entries(path):
    """The JSON objects that append_journal() wrote, one a line; none if there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the line that was being written when the run was stopped


def append_journal(path, entry):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
        file.flush()
        os.fsync(file.fileno())


def rewrite_journal(path, entries):
    """Only these from now on; no file if there are none."""
    if entries:
        write_atomically(path, "".join(json.dumps(entry) + "\n" for entry in entries))
    elif path.exists():
        path.unlink()


class Partial:
    """The rows measured so far, one JSON object a line, kept through an interruption."""

    def __init__(self, path, env, today):
        self.path = path
        self.env = env
        results = {}
        for entry in journal_entries(path):
            if entry["env"] == env and entry["row"]["verified"]:
                results[row_of(entry["row"])] = entry["row"]
        # Row -> result; right ones of this machine and of today's kernels
        self.rows = {row_of(result): result for result in today.still(results.values())}

    def _entry(self, result):
        return {"env": self.env, "row": result}

    def add(self, result):
        self.rows[row_of(result)] = result
        append_journal(self.path, self._entry(result))

    def drop(self, rows):
        """Forgets rows that have been published."""
        for row in rows:
            self.rows.pop(row, None)
        rewrite_journal(self.path, [self._entry(result) for result in self.rows.values()])


def revision():
    """REVISION, or git's, marked if the sources differ from it."""
    if os.environ.get("REVISION"):
        return os.environ["REVISION"]

    def git(*arguments):
        return subprocess.run(
            ("git",) + arguments, check=True, capture_output=True, text=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--", "stages", "common", "Makefile")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + ("-dirty" if changed else "")


def kept_rows(path, env, measured, today):
    """Rows of an earlier run that still hold: same machine and versions, same kernel and choice."""
    if not path.exists():
        return []
    old = json.loads(path.read_text(encoding="utf-8"))
    if any(old.get(key) != env[key] for key in ENV_KEYS):
        print(f"{path} was measured with another machine or versions; its rows are dropped.")
        return []
    return today.still([result for result in old["rows"] if row_of(result) not in measured])


def head_lines(env):
    """The first lines of a results file, as JSON without the brace: machine, versions, date."""
    head = {key: env[key] for key in ENV_KEYS}
    head["revision"] = revision()
    head["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]


def publish(path, env, results, today):
    """Replaces the results file: these results and what still holds of its earlier rows."""
    measured = {row_of(result): result for result in results}
    for result in kept_rows(path, env, measured, today):
        measured[row_of(result)] = result
    place = {name: i for i, name in enumerate(today.variants)}
    order = sorted(
        measured,
        key=lambda row: (
            place[row.stage, row.variant],
            REGIMES.index(row.regime),
            row.m * row.n * row.k,
            row,
        ),
    )
    rows = ",\n".join("  " + json.dumps(measured[row]) for row in order)
    head = "\n".join(head_lines(env))
    write_atomically(path, "{\n" + head + '\n "rows": [\n' + rows + "\n ]\n}\n")


# --- the program ---------------------------------------------------------------------------------


def ask(program, *arguments, rows=(), environment=None):
    """stdout of a short run of the program over rows; its exit code, if not 0, is passed on."""
    lines = "".join(row_text(row) + "\n" for row in rows)
    variables = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(
            (program,) + arguments, input=lines, capture_output=True, text=True, env=variables
        )
    except OSError as error:
        raise Problem(f"{program} cannot be run ({error.strerror}); make bench builds it.")
    if done.returncode != 0:
        why = done.stderr.strip() or f"{program} ended with {done.returncode}."
        raise Problem(why, done.returncode if done.returncode > 0 else WRONG)
    return done.stdout


class Bench:
    """Runs the program over rows, again and again if it dies, until each has a result."""

    MODE = "--bench-rows"
    # What a row has none of whose process died.
    BLANK = ("configuration", "tflops", "p10", "p90", "baseline_tflops", "baseline_algo", "ratio",
             "sm_mhz", "tensor_share", "host_us", "watts", "pj_per_flop", "registers")  # fmt: skip
    expected_s = staticmethod(expected_s)

    def __init__(self, today, partial):
        self.program = today.program
        self.today = today
        self.partial = partial
        self.results = {}  # of this run, right or not
        self.hung = False
        self.pending = []
        self.alone = set()  # rows that get a process group of their own, to find which one hangs
        self.start_s = time.monotonic()

    def run(self, rows):
        self.pending = list(rows)
        self.total, self.total_s = len(rows), self.expected_s(rows)
        while self.pending:
            code, running, last_words = self.run_process()
            if not self.pending:
                break
            if code in (REFUSED, NO_DEVICE):
                raise Problem(last_words, code)
            self.hung |= code == HANG
            self.blame(code, running, last_words)

    def blame(self, code, running, last_words):
        """The process died over these rows: one is to blame; of several, each gets another try."""
        how = last_words.removeprefix("FAIL: ") or f"{self.program} ended with {code}."
        if not running:
            raise Problem(how, code if code > 0 else WRONG)
        if len(running) > 1:
            print(f"{how} Trying its rows one by one.", flush=True)
            self.alone.update(running)
            return
        row = running[0]
        variant = self.today.variant(row)
        known = {
            key: variant[key] for key in ("name", "problem", "result", "smem_bytes", "kernel")
        }
        self.take(
            {
                **row._asdict(),
                **known,
                **dict.fromkeys(self.BLANK),
                "rounds": 0,
                "verified": False,
                "error": how,
            }
        )

    def input_lines(self):
        lines = []
        for row in self.pending:
            lines += ["", row_text(row), ""] if row in self.alone else [row_text(row)]
        return "\n".join(lines) + "\n"

    def run_process(self):
        """(exit code, rows it was running, last line on stderr) of one process over the pending."""
        process = subprocess.Popen(
            [self.program, self.MODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        words = []

        def listen():
            for line in process.stderr:
                words.append(line.strip())
                print(line, end="", file=sys.stderr, flush=True)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            running = self.read_process(process)
            code = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        listener.join(timeout=5)
        return code, running, next((word for word in reversed(words) if word), "")

    def read_process(self, process):
        running = []
        try:
            process.stdin.write(self.input_lines())
            process.stdin.close()
        except BrokenPipeError:
            pass  # it ended early; its exit code and last words say why
        for line in process.stdout:
            event = json.loads(line)
            if "running" in event:
                running = [self.parse_row(text) for text in event["running"]]
                self.show_running(running)
            elif "env" not in event:
                self.take(event)
        return running

    @staticmethod
    def parse_row(text):
        stage, variant, m, n, k, regime, *args = text.split()
        return Row(int(stage), variant, int(m), int(n), int(k), regime, *args)

    def take(self, result):
        row = row_of(result)
        result["kernel_hash"] = self.today.hashes.get(result["kernel"])
        self.results[row] = result
        self.pending.remove(row)
        if result["verified"]:
            self.partial.add(result)
        self.show_result(row, result)

    def left(self):
        """About how long the pending rows take, by the pace of those that are done."""
        pending_s = self.expected_s(self.pending)
        done_s = self.total_s - pending_s
        pace = (time.monotonic() - self.start_s) / done_s if done_s > 20 else 1
        return duration(pending_s * pace)

    def show_running(self, running):
        if running and sys.stdout.isatty():
            names = row_name(running[0]) + (f" and {len(running) - 1} more" * (len(running) > 1))
            print(f"\r\x1b[K  on {names}, about {self.left()} left", end="", flush=True)

    def show_result(self, row, result):
        count = f"[{self.total - len(self.pending):{len(str(self.total))}}/{self.total}]"
        if result["verified"]:
            ratio = result.get("ratio")
            share = f"{100 * ratio:5.1f} % of cuBLASLt" if ratio else "cuBLASLt refuses the shape"
            what = f"{result['tflops']:7.1f} TFLOPS, {share}"
            if result.get("configuration"):
                what += f", {result['configuration']}"
        else:
            what = "FAIL: " + result.get("error", "wrong result")
        clear = "\r\x1b[K" if sys.stdout.isatty() else ""
        print(f"{clear}{count} {row_name(row):40} {what}; about {self.left()} left", flush=True)


# --- main ----------------------------------------------------------------------------------------


def read_hashes(path, variants):
    try:
        hashes = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise Problem(f"{path} cannot be read; make bench writes it.")
    for variant in variants:
        if variant["kernel"] and variant["kernel"] not in hashes:
            raise Problem(f"{path} has no kernel {variant['kernel']}; make clean, then make bench.")
    return hashes


def measure(options):
    variants = registry.parse(ask(options.program, "--list"), stage_0=True)
    hashes = read_hashes(options.hashes, variants)
    rows = select(options.rows, variants)
    env = json.loads(ask(options.program, "--bench-rows").splitlines()[0])["env"]
    stem = file_stem(env["gpu"])
    today = Today(options.program, variants, hashes)
    partial = Partial(options.partial / f"{stem}.partial.jsonl", env, today)
    path = options.results / f"{stem}.json"

    before = {row: partial.rows[row] for row in rows if row in partial.rows}
    to_do = [row for row in rows if row not in before]
    print(
        f"{env['gpu']}, driver {env['driver']}, nvcc {env['toolkit']}, cuBLASLt {env['cublas']}; "
        f"{env['data']} data, seed {env['seed']}\n"
        f"{len(to_do)} rows, about {duration(expected_s(to_do))}"
        + (f"; {len(before)} more are there from a run that was stopped" if before else ""),
        flush=True,
    )
    bench = Bench(today, partial)
    try:
        bench.run(to_do)
    except KeyboardInterrupt:
        print(f"\nStopped. {len(partial.rows)} rows are kept; make bench goes on from there.")
        return STOPPED
    results = list(before.values()) + list(bench.results.values())
    publish(path, env, results, today)
    partial.drop(rows)
    wrong = [row for row, result in bench.results.items() if not result["verified"]]
    print(f"{path}: {len(results)} rows measured, {len(wrong)} failed. Next: make tables.")
    for row in wrong:
        print(f"FAIL {row_name(row)}: {bench.results[row].get('error', 'wrong result')}")
    return HANG if bench.hung else WRONG if wrong else OK


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="", help="selectors, see above; default all")
    parser.add_argument("--program", default="build/ladder")
    parser.add_argument("--hashes", type=Path, default=Path("build/ptx/hashes.json"))
    parser.add_argument("--results", type=Path, default=Path("docs/results"), metavar="DIR")
    parser.add_argument("--partial", type=Path, default=Path("build/bench"), metavar="DIR")
    try:
        return measure(parser.parse_args())
    except Problem as problem:
        print(problem, file=sys.stderr)
        return problem.code


if __name__ == "__main__":
    sys.exit(main())
