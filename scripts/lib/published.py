"""Checks that what docs/results says is of the kernels and the choices of this tree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from lib import registry, rows
from lib.cli import Problem
from lib.results import MAIN, Row, load, load_all, paths, read, read_rows
from lib.tables import exercises, sweep
from lib.tables.ladder import TRACES
from lib.tools import toolkit


class Skipped(Exception):
    """A check that cannot be made here; the message says what is missing."""


def check_hashes(root: Path) -> Iterator[str]:
    """The kernels behind the published rows are the kernels of this tree, unless the file says what
    of a rung has changed since, and with it its tables. Another chip's are those of its revision,
    which its table names."""
    results, _ = load_all(root)
    if results is None:
        raise Skipped("docs/results has no results yet")
    here, hashes_path = toolkit(), root / "build/ptx/hashes.json"
    for file in filter(None, (results, results.counters, results.energy)):
        theirs = file.head["toolkit"]
        if here != theirs:
            raise Skipped(f"nvcc here is {here or 'missing'}, {file.path.name} is from {theirs}")
    if not hashes_path.exists() or not (root / "build/ladder").exists():
        raise Skipped("build/ladder or build/ptx/hashes.json is not built (make test builds them)")
    hashes = json.loads(hashes_path.read_text(encoding="utf-8"))
    listed = registry.read(root / "build/ladder", stage_0=True)
    kernels = {(v["stage"], v["variant"]): v["kernel"] for v in listed}  # None of a chooser
    for file in filter(None, (results, results.counters)):
        again = "counters" if file is results.counters else "bench"
        for stage, variant in dict.fromkeys((row["stage"], row["variant"]) for row in file.rows):
            found = file.of_variant(stage, variant)
            ran = [kernels.get(registry.ran(row)) for row in found]
            recorded = [row.get("kernel_hash") for row in found]
            if (stage, variant) not in kernels:
                yield f"{file.path.name}: rung {stage} has no variant {variant} any more"
            elif str(stage) in file.changed_since():
                continue
            elif None in recorded or recorded != [hashes.get(one) for one in ran]:
                yield (
                    f"{file.path.name}: rung {stage}, {variant}: the kernel has changed since it "
                    f"was measured; run make {again}"
                )
    for file in filter(None, (results, results.counters, results.energy)):
        for rung in file.changed_since():  # nobody looks at its hashes: for older rows only
            of_rung = [row for row in file.rows if str(row["stage"]) == rung]
            if all(hashes.get(r.get("kernel")) == r.get("kernel_hash") for r in of_rung):
                yield (
                    f"{file.path.name}: changed_since names rung {rung}, of which no row is of an older "
                    "kernel: take it out"
                )
    traces = root / f"docs/results/{MAIN}{TRACES}"
    for row in read(traces)["rows"] if traces.exists() else []:
        if here == row["toolkit"] and hashes.get(row["kernel"]) != row["kernel_hash"]:
            yield (
                f"{MAIN}{TRACES}: rung {row['stage']}, {row['variant']}: the kernel has changed since "
                "it was recorded; run make trace-N on a Hopper GPU, then scripts/trace.py --keep"
            )
    if results.energy:
        name = results.energy.path.name
        told = results.energy.changed_since()
        rows_to_judge = [row for row in results.energy.rows if str(row["stage"]) not in told]
        stale = [r for r in rows_to_judge if hashes.get(r.get("kernel")) != r.get("kernel_hash")]
        for what, label in dict.fromkeys((row["experiment"], row["label"]) for row in stale):
            yield (
                f"{name}: {what}, {label}: the kernel has changed since it was measured; "
                "run make energy"
            )
    timed = [row for row in exercises.rows(results) if row["kernel"]]  # not of a new variant
    stale = [row["exercise"] for row in timed if hashes.get(row["kernel"]) != row["kernel_hash"]]
    for exercise in dict.fromkeys(stale):
        yield f"exercise {exercise}: the kernel has changed since it was timed; run make times"
    for entry in read_rows(results, sweep.SWEEP, "shapes", sweep.ENTRY_KEYS) or []:
        for name, one in entry["configurations"].items():
            ran = registry.ran({"configuration": name})
            if hashes.get(kernels.get(ran)) != one.get("kernel_hash"):
                yield f"the sweep: {name} at {shape(entry)}: the kernel has changed; run make sweep"


def check_baselines(root: Path) -> Iterator[str]:
    """Whatever a published ratio compares with is within the tolerance itself."""
    for path in paths(root)[0]:
        for row in load(path).rows:
            if row.get("baseline_tflops") and not row.get("baseline_verified", True):
                yield (
                    f"{path.name}: {rows.row_name(rows.row_of(row))}: cuBLASLt's result was outside of "
                    "the tolerance, so that the ratio says nothing; run make bench"
                )


def shape(entry: Row) -> str:
    return rows.shape_name(rows.shape_of(entry))


def check_choices(root: Path) -> Iterator[str]:
    """The configurations that published rows say were chosen are those of today's cost model."""
    results, _ = load_all(root)
    said: dict[rows.Row, str] = {}  # row -> what was published as chosen for it
    for row in results.rows if results else []:
        if row.get("configuration") and str(row["stage"]) not in results.changed_since():
            said[rows.row_of(row)] = row["configuration"]
    swept = read_rows(results, sweep.SWEEP, "shapes", sweep.ENTRY_KEYS)
    for entry in swept or []:
        stage, variant = sweep.CHOOSER
        of_chooser = {**entry, "stage": stage, "variant": variant}
        said.setdefault(rows.row_of(of_chooser), entry["pick"])
        if entry["pick"] not in entry["configurations"]:
            pick = entry["pick"]
            yield f"the sweep: at {shape(entry)} the pick {pick} was not timed; run make sweep"
    if results is None or not said:
        return
    if not (root / "build/ladder").exists() or not (root / "build/machine").exists():
        raise Skipped("build/ladder or the PTX machine is not built (make test builds them)")
    # On a chip with as many SMs as the results'.
    environment = {"LADDER_DEVICE": "machine", "MACHINE_SMS": str(results.head["sms"])}
    try:
        today = registry.choices(root / "build/ladder", said, environment)
        others = {row: of for row, of in said.items() if today[row]["configuration"] != of}
        by_name = {}  # row -> that of what is published as chosen for it
        for row, published in others.items():
            stage, variant = registry.ran({"stage": row.stage, "configuration": published})
            by_name[row] = row._replace(stage=stage, variant=variant)
        of_published = registry.choices(root / "build/ladder", by_name.values(), environment)
    except Problem as problem:
        yield f"build/ladder --choices: {problem}"
        return
    for one, published in others.items():
        least, its = today[one]["predicted_us"], of_published[by_name[one]]["predicted_us"]
        if its > NEAR_TIE * least:
            yield (
                f"{rows.row_name(one)}: the model chooses {today[one]['configuration']}, {published} is "
                "published; run make bench and make sweep PICKS=1"
            )


# The model takes clocks and DRAM from the device. On an H200 it expected up to 1.6 % more where
# DRAM bounds than on the PTX machine, so that of two configurations that it thinks as fast as each
# other the one may choose this and the other that.
NEAR_TIE = 1.02
