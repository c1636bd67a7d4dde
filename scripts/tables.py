#!/usr/bin/env python3
"""Regenerates every measured number in README.md, CONTRIBUTING.md and docs/*.md, and the
plots, from the JSON files in docs/results. Python standard library only.

  tables.py           rewrite what has changed
  tables.py --check   change nothing; exit 1 and name each file and table that would change

A table stands between two lines of its own:

  <!-- table: KIND -->  ...  <!-- end -->

  ladder [PROBLEM]  one row a rung that solves it (bf16), its result variant at 8192^3
  problems [N]   the result of each rung that solves another problem than the ladder's (of rung N
                 alone), a row for each of the types, layouts, … that were measured
  rung N         every variant of rung N, below the result of the rung that it grew from
  short N        the same in few columns, and which ceiling is closest: what the rung's page has
  counters N     what Nsight Compute counted of each, at the largest of the usual cubes
  environment    the machine and the versions behind the numbers
  baseline       which cuBLASLt algorithm won for each of the usual cubes
  submitted      runs that others have sent, one row a file
  shapes N       rung N, which chooses, at the tuning and the held-out shapes
  list N         the choice of rung N, for a problem of its own, at every shape that was measured
  means N        means of these, by rows of D
  ways N         rung N, whose configurations share K in different ways, at shapes of few rows
  sweep          the best configuration and the pick of stage 0 at the tuning and held-out shapes
  limits         what the GPU can do at most, by make limits
  ceilings [N]   what the result of each rung, or each variant of rung N, takes of that
  best           stage 0, the choice among all rungs, by list of shapes; with a regime behind it, and
                 perhaps _no_workspace (best burst_no_workspace), a line a shape; best h100: of another
                 chip
  energy NAME    what make energy found: an experiment, environment, or rungs, from make bench

A number in prose stands inside one line, never at its start (Markdown would take the line as HTML):

  <!-- value: EXPRESSION [: FORMAT] -->785<!-- end -->

EXPRESSION is operands joined by + - * /, read left to right, each a number or
rung.variant.size.regime.key, such as 6.result.8192.burst.tflops; `result` is the rung's result
variant, size that of a cube or MxNxK, and a key is any of a row's keys; result(type=fp16,layout=NT)
is it with these args. FORMAT is a Python format specification.

  <!-- counter: EXPRESSION [: FORMAT] -->8.29<!-- end -->

is the same for what Nsight Compute counted, with operands rung.variant.key, such as
7.group16.l2_read_bytes, at the shape of the rung's table of counters.

  <!-- energy: EXPRESSION [: FORMAT] -->0.913<!-- end -->

is the same for what make energy found, with operands experiment.label.chip.key, such as
data.zeros.whole.watts, chip being part or whole, and label also best or worst; or a key of the
file's head, such as idle_watts.

  <!-- shapes: EXPRESSION [: FORMAT] -->1.031<!-- end -->
  <!-- sweep: EXPRESSION [: FORMAT] -->1.20 %<!-- end -->

are the same for the table shapes N, with operands rung.list.regime.key such as
11.tuning.burst.geomean (or geomean_large, lowest, below), and for what make sweep found, with
operands [list.]regime.key such as burst.mean (or worst, shapes).

  <!-- limit: EXPRESSION [: FORMAT] -->4096<!-- end -->

is the same for what make limits found, with operands name.regime.key, such as
wgmma_n256.burst.per_clock.

The numbers come from h200.json, or the first file whose name has no '-'; the tables that name another
chip, such as best h100, come from that chip's file. <gpu>-<who>.json are runs sent by others. Counters
and energy come from the files beside it (h200.counters.json, h200.energy.json). A row that was not measured shows as a dash, one whose result was wrong as FAIL.
"""

import argparse
import json
import math
import operator
import re
import statistics
import sys
from pathlib import Path

import best_tables
import energy_tables
import limits_tables
import list_tables
import sums_tables
import sweep_tables
import ways_tables
from cells import DASH, cell, markdown, percent, tflops
from svg import Drawing

SIZES = (2048, 4096, 8192)
REGIMES = ("burst", "sustained")
TABLE = re.compile(r"^<!-- table: ([a-z]+)(?: (\w+))? -->$")
VALUE = re.compile(r"<!-- (value|counter|energy|shapes|sweep|limit): ([^>]+?) -->(.*?)<!-- end -->")
END = "<!-- end -->"
REGISTRAR = re.compile(r'Registrar\s+\w+\s*[({]\s*__FILE__\s*,\s*((?:"[^"]*"\s*)+),')
LAUNCH = re.compile(r"void launch\(const (?:\w+::)*(\w+)& ")
GROWN = re.compile(r"^// Grown from stages/(\d+)_\w+\.cu$", re.MULTILINE)
FENCE = re.compile(r"^\s*(```|~~~)")
MAIN = "h200"  # the chip whose file is behind the tables
CHIP = re.compile(r"[a-z]+\d+")
PLOT = Path("docs/img/ladder.svg")
ROOFLINE = Path("docs/img/roofline.svg")
HEAD_KEYS = ("gpu", "driver", "toolkit", "cublas", "revision", "date", "data", "seed", "rows")
ROW_KEYS = ("stage", "name", "problem", "variant", "result", "m", "n", "k", "regime", "tflops", "verified")
COUNTERS = ".counters.json"
TRACES = ".traces.json"
PEAK_FLOP = 4096  # a clock and SM
PROBLEM = "bf16"  # of the ladder
# Of rungs that were not measured, by the type of a call; else PROBLEM.
PROBLEMS = {"TypedArgs": "typed", "BlockScaledArgs": "block_scaled", "MixedArgs": "mixed",
            "FusedArgs": "fused"}  # fmt: skip
COUNTER_HEAD_KEYS = ("gpu", "driver", "toolkit", "revision", "date", "seed", "rows")
COUNTER_KEYS = (
    "cycles", "l2_read_bytes", "l2_to_sm_bytes", "l2_write_bytes", "dram_read_bytes",
    "dram_write_bytes", "smem_wavefronts", "smem_conflicts", "instructions",
)  # fmt: skip


class Problem(Exception):
    """Something the user must mend; the message is one sentence."""


# --- results -------------------------------------------------------------------------------------


class Results:
    """One file of docs/results: rows of measurements, or of counters, which have no regime."""

    def __init__(self, path, document, counters=None):
        self.path = path
        self.counters = counters
        self.energy = None
        self.head = document
        self.rows = document["rows"]

    def find(self, stage, variant, size, regime=None, args=""):
        """The row of a cube; variant 'result' is the marked one; None if it was not measured."""
        return self.find_shape(stage, variant, (size, size, size), regime, args)

    def find_shape(self, stage, variant, shape, regime=None, args=""):
        """The same for any shape, (M, N, K)."""
        for row in self.of_variant(stage, variant, args):
            if row.get("regime") == regime and (row["m"], row["n"], row["k"]) == shape:
                return row
        return None

    def of_variant(self, stage, variant, args=""):
        """Every row of that variant; 'result' is the marked one. args: of a rung whose problem has
        parameters those that are not the default."""
        return [
            row
            for row in self.rows
            if row["stage"] == stage
            and (row.get("args") or "") == args
            and (row["variant"] == variant or (variant == "result" and row["result"]))
        ]

    def sizes(self, stage):
        """The cubes at which any variant of that rung was measured."""
        rows = [row for row in self.rows if row["stage"] == stage]
        return sorted({row["m"] for row in rows if row["m"] == row["n"] == row["k"]})

    def detail_size(self, stage):
        """Where details are shown: the largest of SIZES that was measured; None for none."""
        measured = [size for size in self.sizes(stage) if size in SIZES]
        return measured[-1] if measured else None

    def problem(self, stage):
        """What the rung solves; None if it was not measured."""
        return next((r["problem"] for r in self.rows if r["stage"] == stage), None)

    def args(self, stage):
        """What the rung's result was measured with, as in of_variant(), the default first."""
        found = {r.get("args") or "" for r in self.rows if r["stage"] == stage and r["result"]}
        return sorted(found, key=lambda args: (args.count("="), args))

    def variants(self, stage):
        """Names in the order of the file, which is the order of registration."""
        return list(dict.fromkeys(r["variant"] for r in self.rows if r["stage"] == stage))

    def any_row(self, stage, variant):
        """Any row of that variant, for what does not depend on the shape."""
        return next(iter(self.of_variant(stage, variant)), None)

    def baseline(self, size, regime, stage=None):
        """Median cuBLASLt TFLOPS over the rows of a cube, of one rung or of all of the ladder."""
        found = [
            r["baseline_tflops"]
            for r in self.rows
            if r["m"] == r["n"] == r["k"] == size
            and r["regime"] == regime
            and not r.get("args")
            and r.get("baseline_tflops") is not None
            and (is_of_ladder(r) if stage is None else stage == r["stage"])
        ]
        return statistics.median(found) if found else None


def is_of_ladder(row):
    """Whether the ladder shows it: stage 0 is one of its rungs once more."""
    return row["problem"] == PROBLEM and row["stage"] > 0


def read(path, head_keys, row_keys):
    """A file of results as it stands there, with all these keys."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Problem(f"{path}: not JSON: {error}")
    if not isinstance(document, dict):
        raise Problem(f"{path}: the top level must be an object")
    for key in head_keys:
        if key not in document:
            raise Problem(f'{path}: key "{key}" is missing')
    for index, row in enumerate(document["rows"]):
        for key in row_keys:
            if key not in row:
                raise Problem(f'{path}: row {index}: key "{key}" is missing')
    return document


def load(path):
    document = read(path, HEAD_KEYS, ROW_KEYS)
    for index, row in enumerate(document["rows"]):
        if row["regime"] not in REGIMES:
            raise Problem(f'{path}: row {index}: regime must be burst or sustained')
    results = Results(path, document, load_counters(path.with_suffix(COUNTERS)))
    results.energy = load_energy(path.with_suffix(energy_tables.SUFFIX))
    return results


def load_counters(path):
    if not path.exists():
        return None
    row_keys = ("stage", "name", "variant", "result", "m", "n", "k", *COUNTER_KEYS)
    return Results(path, read(path, COUNTER_HEAD_KEYS, row_keys))


def load_energy(path):
    if not path.exists():
        return None
    return Results(path, read(path, energy_tables.HEAD_KEYS, energy_tables.ROW_KEYS))


def results_paths(root):
    """(the files of our own, that behind the tables first; the files sent by others)."""
    paths = sorted((root / "docs/results").glob("*.json"))
    paths = [path for path in paths if "." not in path.stem]
    own = sorted((p for p in paths if "-" not in p.stem), key=lambda path: path.stem != MAIN)
    return own, [path for path in paths if "-" in path.stem]


def load_all(root):
    """(the file behind the tables or None, the files sent by others), each with what stands beside
    it, as <gpu>.counters.json does."""
    own, others = results_paths(root)
    return (load(own[0]) if own else None), [load(path) for path in others]


def load_chips(root):
    """The files of other chips that we measured on."""
    return [load(path) for path in results_paths(root)[0][1:]]


def load_chip(root, name):
    """What was measured on a chip, such as h100; None if nothing was."""
    return next((load(path) for path in results_paths(root)[0] if path.stem == name), None)


# --- rungs ---------------------------------------------------------------------------------------


def rungs(root):
    """{number: (stem, idea)} of stages/; the idea is the second argument of the Registrar."""
    found = {}
    for path in sorted((root / "stages").glob("[0-9]*_*.cu")):
        text = path.read_text(encoding="utf-8")
        match = REGISTRAR.search(text)
        idea = "".join(re.findall(r'"([^"]*)"', match.group(1))) if match else DASH
        found[int(path.stem.split("_")[0])] = (path.stem, idea)
    return found


def problem_of(root, results, number):
    """What a rung solves, by its results or, of one that was not measured, by its launch()."""
    measured_as = results.problem(number) if results else None
    if measured_as:
        return measured_as
    text = (root / f"stages/{rungs(root)[number][0]}.cu").read_text(encoding="utf-8")
    arguments = LAUNCH.search(text)
    return PROBLEMS.get(arguments.group(1) if arguments else None, PROBLEM)


def solving(root, results, problem=PROBLEM):
    """The numbers of the rungs of stages/ that solve a problem, in order."""
    return [n for n in sorted(rungs(root)) if problem_of(root, results, n) == problem]


def grown_from(root, number):
    """The rung that a rung has grown from: the one it names, or the one before it."""
    text = (root / f"stages/{rungs(root)[number][0]}.cu").read_text(encoding="utf-8")
    said = GROWN.search(text)
    return int(said.group(1)) if said else number - 1


# --- formatting ----------------------------------------------------------------------------------


def measured(row, show):
    """show(row), a dash for a row that is not there, FAIL for a wrong result."""
    if row is None:
        return DASH
    return show(row) if row["verified"] else "FAIL"


def with_share(row):
    return measured(row, lambda r: f"{tflops(r['tflops'])} ({percent(r.get('ratio'))})")


def spread(row):
    def show(r):
        return DASH if r.get("p10") is None else f"{tflops(r['p10'])}–{tflops(r.get('p90'))}"

    return measured(row, show)


def registers(row):
    return DASH if row is None else str(row.get("registers") or DASH).replace("->", "→")


def shared_memory(row):
    if row is None or row.get("smem_bytes") is None:
        return DASH
    return f"{row['smem_bytes'] / 1024:.0f} KiB"


def both(burst, sustained, show):
    cells = [measured(row, show) for row in (burst, sustained)]
    return DASH if cells == [DASH, DASH] else " / ".join(cells)


NOT_MEASURED = "*Not measured yet: `make bench` on a Hopper GPU fills this in.*"
NO_ENERGY = "*Not measured yet: `make energy` on a Hopper GPU fills this in.*"
NOT_COUNTED = "*Not measured yet: `make counters` on a Hopper GPU fills this in.*"


# --- tables --------------------------------------------------------------------------------------


def ladder_table(root, results, others, link, problem):
    header = ["rung", "its one idea", "TFLOPS, burst", "share"]
    header += ["TFLOPS, sustained", "share", "registers"]
    rows = []
    stems = rungs(root)
    for number in solving(root, results, problem):
        stem, idea = stems[number]
        cells = [DASH] * 5
        if results:
            size = results.detail_size(number) or 8192
            rows_at = [results.find(number, "result", size, regime) for regime in REGIMES]
            note = "" if size == 8192 else f" at {size}³"
            cells = []
            for row in rows_at:
                speed = measured(row, lambda r: tflops(r["tflops"]))
                share = measured(row, lambda r: percent(r.get("ratio")))
                cells += [speed + (note if row else ""), share]
            cells += [registers(rows_at[0] or results.any_row(number, "result"))]
        rows.append([f"[{stem}]({link}{stem}.md)", idea] + cells)
    lines = markdown(header, rows)
    if results:
        head = results.head
        return lines + [
            "",
            f"8192³ unless a cell says otherwise, {problem}, {head['data']} data, on one {head['gpu']}. "
            "Share: of the fastest cuBLASLt algorithm, timed in turns with the rung.",
        ]
    return lines + ["", NOT_MEASURED]


def variant_row(results, label, stage, variant, size):
    burst, sustained = (results.find(stage, variant, size, regime) for regime in REGIMES)
    cells = [with_share(results.find(stage, variant, s, "burst")) for s in SIZES]
    return [label] + cells + [
        with_share(sustained),
        spread(burst),
        registers(burst or results.any_row(stage, variant)),
        shared_memory(burst or results.any_row(stage, variant)),
        both(burst, sustained, lambda r: percent(r.get("tensor_share"))),
        both(burst, sustained, lambda r: cell(r.get("sm_mhz"), ".0f")),
        measured(burst, lambda r: cell(r.get("host_us"), ".1f")),
    ]


def rung_table(root, results, others, stage):
    if results is None or not results.variants(stage):
        return [NOT_MEASURED]
    size = results.detail_size(stage) or 8192
    header = ["variant"] + [f"{s}³ burst" for s in SIZES] + [
        f"{size}³ sustained",
        f"p10–p90 at {size}³ burst",
        "registers",
        "shared memory",
        "tensor share, burst / sustained",
        "SM MHz, burst / sustained",
        "CPU µs a call",
    ]
    rows = []
    earlier = grown_from(root, stage)
    before = results.any_row(earlier, "result") if earlier > 0 else None
    if before:
        label = f"*rung {earlier}, {before['variant']}*"
        rows.append(variant_row(results, label, earlier, "result", size))
    for variant in results.variants(stage):
        if not any(row["m"] == row["n"] == row["k"] for row in results.of_variant(stage, variant)):
            continue  # a configuration that was measured at other shapes
        is_result = results.any_row(stage, variant)["result"]
        label = f"**{variant}**" if is_result else variant
        rows.append(variant_row(results, label, stage, variant, size))
    opponent = ["*best cuBLASLt*"] + [tflops(results.baseline(s, "burst", stage)) for s in SIZES]
    opponent += [tflops(results.baseline(size, "sustained", stage))] + [DASH] * 6
    rows.append(opponent)
    return markdown(header, rows) + [
        "",
        "TFLOPS, in brackets the share of the best cuBLASLt algorithm timed in turns with it; "
        "bold: the variant that stands for the rung.",
    ]


def short_table(root, results, others, stage):
    """What a page needs of rung_table: one size, and which limit is closest."""
    if results is None or not results.variants(stage):
        return [NOT_MEASURED]
    size = results.detail_size(stage) or 8192
    limits = limits_tables.load(results)

    def line(label, number, variant):
        burst, sustained = (results.find(number, variant, size, regime) for regime in REGIMES)
        use = limits and limits_tables.use_of(limits, results, number, variant, size, "burst")
        return [
            label,
            with_share(burst),
            with_share(sustained),
            measured(burst, lambda r: percent(r.get("tensor_share"))),
            registers(burst or results.any_row(number, variant)),
            use.binding_cell() if use and use.tile else DASH,
        ]

    rows = []
    earlier = grown_from(root, stage)
    before = results.any_row(earlier, "result") if earlier > 0 else None
    if before:
        rows.append(line(f"*rung {earlier}, {before['variant']}*", earlier, "result"))
    for variant in results.variants(stage):
        if any(row["m"] == row["n"] == row["k"] for row in results.of_variant(stage, variant)):
            is_result = results.any_row(stage, variant)["result"]
            rows.append(line(f"**{variant}**" if is_result else variant, stage, variant))
    opponent = [tflops(results.baseline(size, regime, stage)) for regime in REGIMES]
    rows.append(["*best cuBLASLt*", *opponent, DASH, DASH, DASH])
    header = ["variant", f"{size}³ burst", f"{size}³ sustained", "tensor share", "registers",
              "closest ceiling"]  # fmt: skip
    link = f"results.md#rung-{stage}"
    return markdown(header, rows) + [
        "",
        "TFLOPS, in brackets the share of the best cuBLASLt algorithm timed in turns with it; bold: "
        "the variant that stands for the rung. Tensor share and closest ceiling: burst. Other sizes, "
        f"clocks, counters: [results]({link}).",
    ]


def problems_table(root, results, others, link, stage):
    """Of every rung that solves another problem, or of one, the result by its problem's parameters."""
    stems = rungs(root)
    numbers = [n for n in sorted(stems) if problem_of(root, results, n) != PROBLEM]
    rows = []
    for number in numbers if stage is None else [stage]:
        for args in results.args(number) if results else []:
            cells = []
            for size, regime in ((4096, "burst"), (8192, "burst"), (8192, "sustained")):
                cells.append(with_share(results.find(number, "result", size, regime, args)))
            at = results.find(number, "result", 8192, "burst", args)
            library = DASH if at is None else tflops(at.get("baseline_tflops"))
            name = stems[number][0]
            name = name if stage is not None else f"[{name}]({link}{name}.md)"
            rows.append([name, args.replace(",", ", ") or "default", *cells, library, registers(at)])
    if not rows:
        return [NOT_MEASURED]
    header = ["rung", "what", "4096³ burst", "8192³ burst", "8192³ sustained", "cuBLASLt, 8192³ burst",
              "registers"]  # fmt: skip
    return markdown(header, rows) + [
        "",
        f"TFLOPS, in brackets the share of the fastest cuBLASLt algorithm for the same types and layouts, "
        f"timed in turns with the rung; {results.head['data']} data, on one {results.head['gpu']}.",
    ]


def counters_table(root, results, others, stage):
    counters = results.counters if results else None
    size = counters.detail_size(stage) if counters else None
    if size is None:
        return [NOT_COUNTED]
    sms = results.head.get("sms")

    def line(label, variant, of=stage):
        row = counters.find(of, variant, size)
        if row is None:
            return [label] + [DASH] * 9
        giga = [f"{row[key] / 1e9:.2f}" for key in (
            "l2_read_bytes", "l2_to_sm_bytes", "dram_read_bytes", "dram_write_bytes"
        )]  # fmt: skip
        mega = [f"{row[key] / 1e6:.1f}" for key in (
            "smem_wavefronts", "smem_conflicts", "instructions"
        )]  # fmt: skip
        rate = f"{row['l2_to_sm_bytes'] / (row['cycles'] * sms):.1f}" if sms else DASH
        return [label, f"{row['cycles'] / 1e6:.2f}", *giga, *mega, rate]

    header = ["variant", "cycles, M", "L2 reads, GB", "delivered to SMs, GB", "DRAM read, GB",
              "DRAM written, GB", "smem wavefronts, M", "conflicts, M", "instructions, M",
              "L2→SM, B/clk/SM"]  # fmt: skip
    rows = []
    earlier = grown_from(root, stage)
    before = counters.any_row(earlier, "result")
    if before:
        rows.append(line(f"*rung {earlier}, {before['variant']}*", "result", earlier))
    for variant in counters.variants(stage):
        is_result = counters.any_row(stage, variant)["result"]
        rows.append(line(f"**{variant}**" if is_result else variant, variant))
    caption = (
        f"One launch at {size}³ under Nsight Compute, caches empty before it. M: 10⁶, GB: 10⁹ bytes. "
        "L2→SM is derived: bytes delivered / (cycles · SMs)."
    )
    return markdown(header, rows) + ["", caption]


def environment_table(root, results, others):
    if results is None:
        return [NOT_MEASURED]
    head = results.head
    rows = [
        ["GPU", head["gpu"]],
        ["driver", head["driver"]],
        ["CUDA toolkit", head["toolkit"]],
        ["cuBLASLt", head["cublas"]],
        ["date", head["date"]],
        ["revision", head["revision"]],
        ["data, seed", f"{head['data']}, {head['seed']}"],
    ]
    header = ["", f"`docs/results/{results.path.name}`"]
    return markdown(header, [[name, str(what)] for name, what in rows])


def baseline_table(root, results, others):
    if results is None:
        return [NOT_MEASURED]
    by_shape = {}
    for row in results.rows:
        usual = row["m"] == row["n"] == row["k"] and row["m"] in SIZES
        if usual and is_of_ladder(row) and row.get("baseline_tflops") is not None:
            by_shape.setdefault((row["m"], row["n"], row["k"], row["regime"]), []).append(row)
    lines = []
    for (m, n, k, regime), rows in sorted(by_shape.items()):
        names = [str(row.get("baseline_algo") or DASH) for row in rows]
        best = max(sorted(set(names)), key=names.count)
        won = f"{names.count(best)} of {len(names)}"
        median = statistics.median(row["baseline_tflops"] for row in rows)
        lines.append([f"{m}³", regime, tflops(median), best, won])
    header = ["M, N, K", "regime", "TFLOPS, median", "algorithm that won most often", "rows"]
    return markdown(header, lines)


def submitted_table(root, results, others):
    if not others:
        return ["*None yet.*"]
    numbers = solving(root, others[0])
    header = ["file", "GPU", "cuBLASLt", "date"] + [f"rung {number}" for number in numbers]
    rows = []
    for other in others:
        cells = [f"`{other.path.name}`"]
        cells += [str(other.head[key]) for key in ("gpu", "cublas", "date")]
        cells += [with_share(other.find(number, "result", 8192, "burst")) for number in numbers]
        rows.append(cells)
    caption = "TFLOPS at 8192³, burst; in brackets the share of the best cuBLASLt algorithm."
    return markdown(header, rows) + ["", caption]


def energy_table(results, name):
    found = energy_tables.table(results, name)
    if found is None:
        return [NOT_MEASURED if name == "rungs" else NO_ENERGY]
    header, rows, caption = found
    return markdown(header, rows) + (["", caption] if caption else [])


def refused_at(where, make, *arguments):
    try:
        return make(*arguments)
    except ValueError as error:
        raise Problem(f"{where}: {error}")


def traces_table(root, results, others):
    """What recorded timelines say of the tensor cores, beside what make bench does."""
    path = results.path.with_suffix(TRACES) if results else None
    if path is None or not path.exists():
        return ["*Not recorded yet: `make trace-N` on a Hopper GPU, then `scripts/trace.py --keep`.*"]
    header = ["rung", "variant", "some wgmma in flight", "products at peak", "of the whole launch", "`make bench`",
              "a launch with stamps, µs", "without"]  # fmt: skip
    lines = []
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        ctas = 2 * row["m"] * row["n"] * row["k"] / PEAK_FLOP / row["need"]
        sms = results.head["sms"]
        working = ctas / (math.ceil(ctas / sms) * sms)  # of the SMs, in all rounds
        at_peak = row["need"] / row["span"]
        bench = results.find_shape(row["stage"], row["variant"], (row["m"], row["n"], row["k"]), "burst")
        lines.append([
            str(row["stage"]), row["variant"], percent(row["under"] / row["span"]), percent(at_peak),
            percent(at_peak * working), measured(bench, lambda b: percent(b["tensor_share"])),
            f"{row['us']:,.1f}", f"{row['plain_us']:,.1f}",
        ])  # fmt: skip
    return markdown(header, lines)


SIMPLE = {
    "environment": environment_table,
    "baseline": baseline_table,
    "submitted": submitted_table,
    "traces": traces_table,
}


def table(root, results, others, kind, number, where):
    if kind == "ladder":
        link = "" if where.parent.name == "docs" else "docs/"
        return ladder_table(root, results, others, link, number or PROBLEM)
    if kind == "problems" and (number is None or number.isdecimal()):
        link = "" if where.parent.name == "docs" else "docs/"
        return problems_table(root, results, others, link, int(number) if number else None)
    if kind == "rung" and number is not None and number.isdecimal():
        return rung_table(root, results, others, int(number))
    if kind == "short" and number is not None and number.isdecimal():
        return refused_at(where, short_table, root, results, others, int(number))
    if kind == "counters" and number is not None and number.isdecimal():
        return counters_table(root, results, others, int(number))
    if kind == "energy" and number is not None:
        return refused_at(where, energy_table, results, number)
    if kind == "shapes" and number is not None and number.isdecimal():
        return refused_at(where, sweep_tables.shapes_table, results, int(number))
    if kind == "list" and number is not None and number.isdecimal():
        return list_tables.table(results, int(number))
    if kind == "means" and number is not None and number.isdecimal():
        return list_tables.means_table(results, int(number))
    if kind == "ways" and number is not None and number.isdecimal():
        return refused_at(where, ways_tables.table, results, int(number))
    if kind == "best":
        if number is not None and CHIP.fullmatch(number):
            return best_tables.summary_table(load_chip(root, number))
        return refused_at(where, best_tables.table, results, number)
    if kind == "sweep" and number is None:
        return refused_at(where, sweep_tables.sweep_table, results)
    if kind == "limits" and number is None:
        return refused_at(where, limits_tables.limits_table, results)
    if kind == "ceilings" and number is None:
        return refused_at(where, limits_tables.rungs_table, results, solving(root, results))
    if kind == "ceilings" and number.isdecimal():
        return refused_at(where, limits_tables.ceilings_table, results, int(number))
    if kind == "sums" and number is None:
        path = root / f"docs/results/{MAIN}{sums_tables.SUFFIX}"
        return refused_at(where, lambda: sums_tables.table(sums_tables.load(path)))
    if kind in SIMPLE and number is None:
        return SIMPLE[kind](root, results, others)
    name = " ".join(filter(None, (kind, number)))
    raise Problem(
        f'{where}: no table is called "{name}"; '
        "there are ladder [PROBLEM], problems [N], rung N, short N, counters N, environment, baseline, "
        "submitted, energy NAME, shapes N, list N, means N, ways N, sums, sweep, limits, ceilings [N], traces, "
        "best [REGIME | CHIP]"
    )


# --- numbers in prose ----------------------------------------------------------------------------

NUMBER = re.compile(r"\d+(\.\d+)?(e\d+)?")
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
FORMATS = {
    "tflops": tflops,
    "p10": tflops,
    "p90": tflops,
    "baseline_tflops": tflops,
    "ratio": percent,
    "tensor_share": percent,
    "sm_mhz": lambda v: cell(v, ".0f"),
    "host_us": lambda v: cell(v, ".1f"),
    **{key: lambda v, s=spec: cell(v, s) for key, spec in energy_tables.FORMATS.items()},
    **sweep_tables.FORMATS,
    **limits_tables.FORMATS,
}


def check_variant(results, stage, variant, text):
    known = results.variants(stage) if results else []
    if known and variant not in (*known, "result"):
        raise Problem(f'"{text}": rung {stage} has no variant "{variant}"')


def operand(results, text):
    """(value, key) of an operand that is not a number; no value if the row was not measured. A limit
    may stand among them, so that a page can divide what a rung reaches by what there is."""
    if limits_tables.NAMED.fullmatch(text):
        return limits_tables.operand(results, text)
    parts = text.split(".")
    if not re.fullmatch(r"\d+\.[^.]+\.\d+(x\d+x\d+)?\.(burst|sustained)\.\w+", text):
        raise Problem(
            f'"{text}" is neither a number nor rung.variant.size.regime.key nor limit.regime.key'
        )
    stage, (variant, _, args) = int(parts[0]), parts[1].rstrip(")").partition("(")
    check_variant(results, stage, variant, text)
    shape = tuple(int(size) for size in parts[2].split("x"))
    shape = shape if len(shape) == 3 else shape * 3
    row = results.find_shape(stage, variant, shape, parts[3], args) if results else None
    if row is None:
        return None, parts[4]
    if not row["verified"]:
        return "FAIL", parts[4]
    if parts[4] not in row:
        raise Problem(f'"{text}": a row has no key "{parts[4]}"')
    return row[parts[4]], parts[4]


def counter_operand(results, text):
    """The same for what was counted."""
    if not re.fullmatch(r"\d+\.[^.]+\.\w+", text):
        raise Problem(f'"{text}" is neither a number nor rung.variant.key')
    stage, variant, key = text.split(".")
    if key not in COUNTER_KEYS:
        raise Problem(f'"{text}": there is no counter "{key}", only {", ".join(COUNTER_KEYS)}')
    check_variant(results, int(stage), variant, text)
    counters = results.counters if results else None
    size = counters.detail_size(int(stage)) if counters else None
    row = counters.find(int(stage), variant, size) if size else None
    return (row[key] if row else None), key


OPERANDS = {
    "value": operand,
    "counter": counter_operand,
    "energy": energy_tables.operand,
    "shapes": sweep_tables.shapes_operand,
    "sweep": sweep_tables.sweep_operand,
    "limit": limits_tables.operand,
}
MARKERS = tuple(f"<!-- {kind}:" for kind in OPERANDS)


def value(results, expression, kind="value"):
    """The text of one inline marker of that kind."""
    text, _, spec = (part.strip() for part in expression.partition(" : "))
    tokens = text.split()
    if len(tokens) % 2 == 0:
        raise Problem(f'"{expression}": operands must be joined by + - * /')
    values = [
        (float(token), None) if NUMBER.fullmatch(token) else OPERANDS[kind](results, token)
        for token in tokens[0::2]
    ]
    for found, _ in values:
        if found is None or found == "FAIL":
            return found or DASH
    total, key = values[0]
    for sign, (right, _) in zip(tokens[1::2], values[1:]):
        if sign not in OPERATORS:
            raise Problem(f'"{expression}": "{sign}" is none of + - * /')
        total = OPERATORS[sign](total, right)
    if spec:
        return format(total, spec)
    if len(values) == 1 and key in FORMATS:
        return FORMATS[key](total)
    return str(total).replace("->", "→") if len(values) == 1 else format(total, ".1f")


# --- the plot ------------------------------------------------------------------------------------

BARS = {"burst": "blue", "sustained": "orange"}


def plot(root, results):
    """The ladder as SVG text: two bars a rung, cuBLASLt as a dashed line for each regime."""
    return ladder_drawing(root, results).svg()


def two_lines(name):
    """Words of a name in two lines, about as long as each other if it does not fit into one."""
    words = name.split(" ")
    if len(name) <= 11:
        return name, ""
    cuts = range(1, len(words) + 1)
    best = min(cuts, key=lambda cut: max(len(" ".join(words[:cut])), len(" ".join(words[cut:]))))
    return " ".join(words[:best]), " ".join(words[best:])


def ladder_drawing(root, results):
    width, height, left, right, top, bottom = 860, 412, 48, 90, 40, 68
    numbers = solving(root, results)
    bars, lines = [], []
    if results:
        for number in numbers:
            size = results.detail_size(number) or 8192
            for regime in REGIMES:
                row = results.find(number, "result", size, regime)
                if row is not None and row["verified"] and row["tflops"] is not None:
                    bars.append((number, regime, row["tflops"], size))
        lines = [(r, b) for r in REGIMES for b in [results.baseline(8192, r)] if b is not None]
    drawing = Drawing(width, height, "TFLOPS of every rung's result variant at 8192 cubed")
    if not bars:
        drawing.text("not measured yet", width // 2, height // 2, "middle", "")
        return drawing

    highest = max([b[2] for b in bars] + [line[1] for line in lines])
    ceiling = 100 * (int(highest) // 100 + 1)
    plot_width, plot_height = width - left - right, height - top - bottom

    def y(value):
        return top + plot_height * (1 - value / ceiling)

    for tick in range(0, ceiling + 1, 100):
        kind = "line-gray" if tick == 0 else "line-gray thin faint"
        drawing.line(kind, left, y(tick), width - right, y(tick))
        drawing.text(tick, left - 6, y(tick) + 4, "end", "")
    slot = plot_width / len(numbers)
    bar = slot * 0.36
    stems = rungs(root)
    for index, number in enumerate(numbers):
        center = left + slot * (index + 0.5)
        name = two_lines(stems[number][0].split("_", 1)[1].replace("_", " "))
        note = next((f"at {b[3]}³" for b in bars if b[0] == number and b[3] != 8192), "")
        drawing.text(number, center, height - bottom + 16, "middle", "")
        for line, words in enumerate((*filter(None, name), note)):
            if words:
                drawing.text(words, center, height - bottom + 30 + 12 * line, "middle")
    for number, regime, amount, _ in bars:
        center = left + slot * (numbers.index(number) + 0.5)
        x = center - bar if regime == "burst" else center
        tall = plot_height * amount / ceiling
        drawing.rect(BARS[regime], x, y(amount), bar - 1, tall)
        inside = tall > 16  # above a tall bar, the number would cross cuBLASLt's line
        drawing.text(tflops(amount), x + bar / 2, y(amount) + (12 if inside else -4), "middle",
                     "inside" if inside else "small")  # fmt: skip
    for regime, amount in lines:
        drawing.line(f"line-{BARS[regime]} dashed", left, y(amount), width - right, y(amount))
        drawing.text(f"cuBLASLt {tflops(amount)}", width - right + 4, y(amount) + 4)
    for index, regime in enumerate(REGIMES):
        x = left + 110 * index
        drawing.rect(BARS[regime], x, 12, 12, 12)
        drawing.text(regime, x + 18, 22, kind="")
    drawing.text(f"TFLOPS, 8192³, bf16, {results.head['gpu']}", left + 230, 22, kind="")
    return drawing


# --- regenerating --------------------------------------------------------------------------------


def regenerate(root, results, others, where, text):
    """(new text, names of the tables and values that differ) of one Markdown file."""
    out, changed, fenced = [], [], False
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        fenced ^= bool(FENCE.match(line))
        match = TABLE.match(line)
        if fenced or not match:
            if not fenced:
                line = regenerate_values(results, where, index + 1, line, changed)
            out.append(line)
            index += 1
            continue
        if END not in lines[index:]:
            raise Problem(f'{where}:{index + 1}: "{line}" has no line {END} after it')
        end = lines.index(END, index)
        body = [""] + table(root, results, others, match.group(1), match.group(2), where) + [""]
        if body != lines[index + 1:end]:
            changed.append("table " + " ".join(filter(None, match.groups())))
        out += [line] + body + [END]
        index = end + 1
    return "\n".join(out), changed


def regenerate_values(results, where, number, line, changed):
    if line.startswith(MARKERS):
        raise Problem(
            f"{where}:{number}: a value marker starts the line, so Markdown would take the line as "
            "HTML; put a word before it"
        )
    if sum(map(line.count, MARKERS)) != len(VALUE.findall(line)):
        raise Problem(f"{where}:{number}: a value marker is not closed by {END} on its line")

    def replace(match):
        kind, expression, old = match.groups()
        try:
            new = value(results, expression, kind)
        except (Problem, TypeError, ValueError, ZeroDivisionError) as error:
            raise Problem(f"{where}:{number}: {error}")
        if new != old:
            changed.append(f"{kind} {expression}")
        return f"<!-- {kind}: {expression} -->{new}{END}"

    return VALUE.sub(replace, line)


def markdown_files(root):
    names = [root / "README.md", root / "CONTRIBUTING.md"]
    return [path for path in names if path.exists()] + sorted((root / "docs").glob("*.md"))


def outdated(root):
    """[(path, new text, what differs)] of every file that regenerating would change."""
    results, others = load_all(root)
    found = []
    for path in markdown_files(root):
        old = path.read_text(encoding="utf-8")
        new, changed = regenerate(root, results, others, path.relative_to(root), old)
        if new != old:
            found.append((path, new, changed))
    roofline = refused_at(
        ROOFLINE, limits_tables.roofline, results, solving(root, results)
    ).svg()
    for name, new in ((PLOT, plot(root, results)), (ROOFLINE, roofline)):
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != new:
            found.append((path, new, ["plot"]))
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Regenerate what docs/results says.")
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if something would")
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=Path, default=here, help="the project's folder")
    options = parser.parse_args(arguments)
    try:
        found = outdated(options.root)
    except Problem as problem:
        print(f"tables: {problem}", file=sys.stderr)
        return 2
    for path, new, changed in found:
        name = path.relative_to(options.root)
        if options.check:
            what = ", ".join(changed)
            print(f"tables: {name}: {what} differs from docs/results; run make tables")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(new, encoding="utf-8")
            print(f"tables: {name}: {', '.join(changed)}")
    if not found:
        print("tables: everything is up to date")
    return 1 if options.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
