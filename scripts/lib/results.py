"""What docs/results says: rows of measurements by rung, variant, shape and regime, the files beside
them, and what stages/ says of the rungs."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lib.cli import Problem
from lib.markdown import DASH
from lib.rows import REGIMES, SIZES, shape_of
from lib.shape_lists import Shape

Row = dict[str, Any]

MAIN = "h200"  # the chip whose file is behind the tables
ELSEWHERE = "h100"  # where a rung was measured that the main one has not
PROBLEM = "bf16"  # of the ladder
# Of rungs that were not measured, by the type of a call; else PROBLEM.
PROBLEMS = {
    "TypedArgs": "typed", "BlockScaledArgs": "block_scaled", "MixedArgs": "mixed",
    "GroupedArgs": "grouped", "FusedArgs": "fused",
}  # fmt: skip
HEAD_KEYS = ("gpu", "driver", "toolkit", "cublas", "revision", "date", "data", "seed", "rows")
ROW_KEYS = (
    "stage", "name", "problem", "variant", "result", "m", "n", "k", "regime", "tflops", "verified",
)  # fmt: skip
COUNTERS = ".counters.json"
COUNTER_HEAD_KEYS = ("gpu", "driver", "toolkit", "revision", "date", "seed", "rows")
COUNTER_KEYS = (
    "cycles", "l2_read_bytes", "l2_to_sm_bytes", "l2_write_bytes", "dram_read_bytes",
    "dram_write_bytes", "smem_wavefronts", "smem_conflicts", "instructions",
)  # fmt: skip
ENERGY = ".energy.json"
ENERGY_HEAD_KEYS = (
    "gpu", "driver", "toolkit", "sms", "max_mhz", "power_limit_watts", "refresh_ms", "idle_watts",
    "revision", "date", "rows",
)  # fmt: skip
ENERGY_ROW_KEYS = ("experiment", "label", "chip", "stage", "variant", "verified")
ENERGY_NUMBERS = (  # of a right row
    "watts", "tflops", "sm_mhz", "pj_per_flop", "pj_above_idle", "pj_min", "pj_max", "above_min",
    "above_max", "grid",
)  # fmt: skip
# What stands by a key, in whichever of the files. A number or a text is null where there is none;
# the ones of PLACES are always there.
PLACES = ("stage", "m", "n", "k", "sms", "refresh_ms", "grid", "bm", "bn", "promoted_every",
          *COUNTER_KEYS)  # fmt: skip
ABOVE_0 = ("m", "n", "k", "sms", "need", "span")  # what is divided by
NUMBERS = {
    *PLACES, *ENERGY_NUMBERS, "p10", "p90", "rounds", "baseline_tflops", "baseline_sm_mhz",
    "baseline_tensor_share", "ratio", "tensor_share", "host_us", "baseline_watts",
    "baseline_pj_per_flop", "idle_watts", "smem_bytes", "max_mhz", "power_limit_watts", "value",
    "per_clock", "l2_read_value", "l2_read_per_clock", "smem_read_per_flop", "us", "predicted_us",
    "distance", "left_out",
}  # fmt: skip
NAMES = ("gpu", "toolkit", "revision", "date", "name", "problem", "variant", "regime", "experiment",
         "label", "chip", "what", "group", "unit", "instruction", "pick")  # fmt: skip
TEXTS = {*NAMES, "args", "configuration", "best"}


class Results:
    """One file of docs/results: rows of measurements, or of counters, which have no regime."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self.head = document
        self.rows: list[Row] = document["rows"]
        self.counters: Results | None = None
        self.energy: Results | None = None

    def find(
        self, stage: int, variant: str, size: int, regime: str | None = None, args: str = ""
    ) -> Row | None:
        """The row of a cube; variant 'result' is the marked one; None if it was not measured."""
        return self.find_shape(stage, variant, (size, size, size), regime, args)

    def find_shape(
        self, stage: int, variant: str, shape: Shape, regime: str | None = None, args: str = ""
    ) -> Row | None:
        """The same for any shape, (M, N, K)."""
        rows = (row for row in self.of_variant(stage, variant, args) if shape_of(row) == shape)
        return next((row for row in rows if row.get("regime") == regime), None)

    def of_variant(self, stage: int, variant: str, args: str = "") -> list[Row]:
        """Every row of that variant; 'result' is the marked one. args: of a rung whose problem has
        parameters those that are not the default."""
        return [
            row
            for row in self.rows
            if row["stage"] == stage
            and (row.get("args") or "") == args
            and (row["variant"] == variant or (variant == "result" and row["result"]))
        ]

    def changed_since(self) -> dict[str, str]:
        """By rung, what of its kernels has changed since: its rows are of those at the time."""
        return self.head.get("changed_since", {})

    def changes(self, *stages: int) -> str:
        """The same in sentences of a caption, of these rungs or of all."""
        return "".join(
            f" Of rung {rung} this has changed since: {what}."
            for rung, what in self.changed_since().items()
            if not stages or int(rung) in stages
        )

    def detail_size(self, stage: int) -> int | None:
        """Where details are shown: the largest of SIZES that was measured; None for none."""
        rows = (row for row in self.rows if row["stage"] == stage)
        return max((row["m"] for row in rows if is_cube(row) and row["m"] in SIZES), default=None)

    def problem(self, stage: int) -> str | None:
        """What the rung solves; None if it was not measured."""
        return next((r["problem"] for r in self.rows if r["stage"] == stage), None)

    def args(self, stage: int) -> list[str]:
        """What the rung's result was measured with, as in of_variant(), the default first."""
        found = {r.get("args") or "" for r in self.rows if r["stage"] == stage and r["result"]}
        return sorted(found, key=lambda args: (args.count("="), args))

    def variants(self, stage: int) -> list[str]:
        """Names in the order of the file, which is the order of registration."""
        return list(dict.fromkeys(r["variant"] for r in self.rows if r["stage"] == stage))

    def any_row(self, stage: int, variant: str) -> Row | None:
        """Any row of that variant, for what does not depend on the shape."""
        return next(iter(self.of_variant(stage, variant)), None)

    def baseline(self, size: int, regime: str, stage: int | None = None) -> float | None:
        """Median cuBLASLt TFLOPS over the rows of a cube, of one rung or of all of the ladder."""
        found = [
            r["baseline_tflops"]
            for r in self.rows
            if shape_of(r) == (size,) * 3
            and r["regime"] == regime
            and not r.get("args")
            and r.get("baseline_tflops") is not None
            and (is_of_ladder(r) if stage is None else stage == r["stage"])
        ]
        return statistics.median(found) if found else None

    def beside(self, suffix: str) -> Path:
        """Another file of the same GPU, as <gpu>.limits.json is beside <gpu>.json."""
        return self.path.with_suffix(suffix)


def is_cube(row: Row) -> bool:
    return row["m"] == row["n"] == row["k"]


def is_of_ladder(row: Row) -> bool:
    """Whether the ladder shows it: stage 0 is one of its rungs once more."""
    return row["problem"] == PROBLEM and row["stage"] > 0


def read(
    path: Path, head_keys: Iterable[str] = (), row_keys: Iterable[str] = (), rows: str = "rows",
    numbers: Iterable[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """A file of docs/results as it stands there, with all these keys, and these numbers in each row
    that is right."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Problem(f"{path}: not JSON: {error}")
    if not isinstance(document, dict):
        raise Problem(f"{path}: the top level must be an object")
    for key in (*head_keys, rows):
        if key not in document:
            raise Problem(f'{path}: key "{key}" is missing')
    check_types(f"{path}: ", document)
    if row_keys:
        check_rows(path, document, row_keys, rows, numbers)
    return document


def check_rows(
    path: Path, document: dict[str, Any], keys: Iterable[str], rows: str,
    numbers: Iterable[str] = (),
) -> None:  # fmt: skip
    """Refuses a list of rows that has not what read() says."""
    if not isinstance(document[rows], list):
        raise Problem(f'{path}: "{rows}" must be a list')
    for index, row in enumerate(document[rows]):
        where = f"{path}: {rows[:-1]} {index}"
        if not isinstance(row, dict):
            raise Problem(f"{where} must be an object")
        for key in (*keys, *(numbers if row.get("verified", True) else ())):
            if key not in row:
                raise Problem(f'{where}: key "{key}" is missing')
        check_types(f"{where}: ", row)
        for key in numbers if row.get("verified", True) else ():
            check(where + ": ", row, key, is_number(row[key]), "a number")


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


def check(where: str, row: Row, key: str, holds: bool, kind: str) -> None:
    if not holds:
        raise Problem(f'{where}"{key}" is {row[key]!r} but must be {kind}')


def check_types(where: str, row: Row) -> None:
    """Refuses an object that has another kind of thing by a key than it must."""
    for key, value in row.items():
        is_null = value is None and key not in PLACES and key not in NAMES
        if key in NUMBERS or key.endswith(("_us", "_error")):
            check(where, row, key, is_null or is_number(value), "a number")
        if key in ABOVE_0:
            check(where, row, key, is_number(value) and value > 0, "a number above 0")
        elif key in TEXTS:
            check(where, row, key, is_null or isinstance(value, str), "a text")
        elif key == "changed_since":
            right = isinstance(value, dict) and all(isinstance(of, str) for of in value.values())
            check(where, row, key, right, "an object of texts")
        elif key == "configurations":
            right = isinstance(value, dict) and all(isinstance(of, dict) for of in value.values())
            check(where, row, key, right, "an object of objects")
            for name, of in value.items():
                check_types(f"{where}{name}: ", of)


def read_rows(
    results: Results | None, suffix: str, key: str, row_keys: Iterable[str] = (),
    numbers: Iterable[str] = (),
) -> Any:  # fmt: skip
    """What stands by a key in a file beside the results, as read() checks it; None if there is no
    such file."""
    path = results.beside(suffix) if results else None
    return read(path, (), row_keys, key, numbers)[key] if path and path.exists() else None


def load(path: Path) -> Results:
    """With what stands beside it, as <gpu>.counters.json does."""
    document = read(path, HEAD_KEYS, ROW_KEYS, numbers=("tflops",))
    for index, row in enumerate(document["rows"]):
        if row["regime"] not in REGIMES:
            raise Problem(f"{path}: row {index}: regime must be burst or sustained")
    results = Results(path, document)
    counters, energy = results.beside(COUNTERS), results.beside(ENERGY)
    if counters.exists():
        row_keys = ("stage", "name", "variant", "result", "m", "n", "k", *COUNTER_KEYS)
        results.counters = Results(counters, read(counters, COUNTER_HEAD_KEYS, row_keys))
    if energy.exists():
        results.energy = Results(energy, read(
            energy, ENERGY_HEAD_KEYS, ENERGY_ROW_KEYS, numbers=ENERGY_NUMBERS))  # fmt: skip
    return results


def paths(root: Path) -> tuple[list[Path], list[Path]]:
    """(the files of our own, that behind the tables first; the files sent by others)."""
    files = sorted((root / "docs/results").glob("*.json"))
    found = [path for path in files if "." not in path.stem]
    own = sorted((p for p in found if "-" not in p.stem), key=lambda path: path.stem != MAIN)
    return own, [path for path in found if "-" in path.stem]


def load_all(root: Path) -> tuple[Results | None, list[Results]]:
    """(the file behind the tables or None, the files sent by others)."""
    own, others = paths(root)
    return (load(own[0]) if own else None), [load(path) for path in others]


def load_chip(root: Path, name: str) -> Results | None:
    """What was measured on a chip, such as h100; None if nothing was."""
    return next((load(path) for path in paths(root)[0] if path.stem == name), None)


def value_of(row: Row | None, key: str, text: str) -> tuple[Any, str]:
    """(what the row has by the key of an operand `text`, the key): None if there is no row, FAIL if
    it is wrong."""
    if row is None:
        return None, key
    if not row.get("verified", True):
        return "FAIL", key
    if key not in row:
        raise Problem(f'"{text}": a row has no key "{key}"')
    return row[key], key

REGISTRAR = re.compile(r'Registrar\s+\w+\s*[({]\s*__FILE__\s*,\s*((?:"[^"]*"\s*)+),')
LAUNCH = re.compile(r"void launch\(const (?:\w+::)*(\w+)& ")
GROWN = re.compile(r"^// Grown from stages/((\d+)_\w+\.cu)$", re.MULTILINE)


def rungs(root: Path) -> dict[int, tuple[str, str]]:
    """{number: (stem, idea)} of stages/; the idea is the second argument of the Registrar."""
    found = {}
    for path in sorted((root / "stages").glob("[0-9]*_*.cu")):
        match = REGISTRAR.search(path.read_text(encoding="utf-8"))
        idea = "".join(re.findall(r'"([^"]*)"', match.group(1))) if match else DASH
        found[int(path.stem.split("_")[0])] = (path.stem, idea)
    return found


def stage_text(root: Path, number: int) -> str:
    return (root / f"stages/{rungs(root)[number][0]}.cu").read_text(encoding="utf-8")


def problem_of(root: Path, results: Results | None, number: int) -> str:
    """What a rung solves, by its results or, of one that was not measured, by its launch()."""
    measured_as = results.problem(number) if results else None
    if measured_as:
        return measured_as
    arguments = LAUNCH.search(stage_text(root, number))
    return PROBLEMS.get(arguments.group(1), PROBLEM) if arguments else PROBLEM


def solving(root: Path, results: Results | None, problem: str = PROBLEM) -> list[int]:
    """The numbers of the rungs of stages/ that solve a problem, in order."""
    return [n for n in sorted(rungs(root)) if problem_of(root, results, n) == problem]


def grown_from(root: Path, number: int) -> int:
    """The rung that a rung has grown from: the one it names, or the one before it."""
    said = GROWN.search(stage_text(root, number))
    return int(said.group(2)) if said else number - 1
