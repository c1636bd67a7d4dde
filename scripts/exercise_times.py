#!/usr/bin/env python3
"""Times what the changes of exercises do, on this machine's GPU, into
docs/results/<gpu>.exercises.json. Python standard library only.

  exercise_times.py            every exercise of TIMED, below
  exercise_times.py NAME...    only these; the others of the file stay
  exercise_times.py --build    only builds what they change into build/exercise-times, and times nothing

A rung is timed as it is, and then with the change of the exercise's answer, or with its options, each
beside cuBLASLt in turns, as make bench does. Clocks differ from run to run. So what a change costs is
told by the shares of cuBLASLt.

Exit codes: 0 ok, 1 a result is wrong, 2 usage, 3 no usable device, 4 hang, 130 stopped.
"""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import exercises
from bench import ENV_KEYS
from lib import registry, store
from lib.cli import OK, ROOT, WRONG, Problem, command, parser_of
from lib.registry import Today
from lib.rows import Row, parse_row, row_name, row_text, select

BUILT = ROOT / "build" / "exercise-times"


class Timed(NamedTuple):
    rows: str  # selectors, as those of bench.py
    options: tuple[str, ...] = ()  # in place of a change


TIMED = {
    "1.1": Timed("1@2048/burst"),
    "1.3": Timed("1:128x128@2048/burst"),
    "2.1": Timed("2:swizzled@4096/burst"),
    "2.4": Timed("2:swizzled@4096/burst"),
    "3.2": Timed("3:depth2@4096/burst,3:depth4@4096/burst"),
    "3.3": Timed("3:depth3@4096/burst"),
    "5.1": Timed("5@4096/burst"),
    "6.2": Timed("6@4096/burst"),
    "6.5": Timed("6@4096/burst"),
    "7.2": Timed("7:group16@2048/burst,7:group16@8192/burst"),
    "7.3": Timed("7:group16@8192/burst", ("--grid=66",)),
    "7.4": Timed("7@8192/burst"),
    "7.5": Timed("7@8192/burst", ("--data=zeros",)),
    "8.4": Timed("8:2x1@8192/burst"),
    "8.5": Timed("8@8192/burst"),
    "9.1": Timed("9:overlapped@8192x8192x512/burst,9:overlapped@8192/burst"),
    "10.2": Timed(
        "9:overlapped@8192x8192x512/burst,9:overlapped@8192/burst,"
        "10:result@8192x8192x512/burst,10:result@8192/burst", ("--data=zeros",)),
    "10.3": Timed("10:64x256@8192x8192x512/burst,10:64x256@8192/burst"),
    "10.4": Timed("10:64x256@8192/burst"),
    "10.6": Timed("10@8192/burst"),
    "12.4": Timed(
        "12:64x8_x2_cut@8x4096x8192/burst,12:64x8_x2_cut@8x2048x8192/burst,"
        "12:64x8_x2_cut@8x512x8192/burst"),
    "16.3": Timed("16:bf16_128x256@1536x4096x7168/burst,16:bf16_128x256@2048x4096x7168/burst"),
}  # fmt: skip

Result = dict[str, Any]


def build(exercise: exercises.Exercise, hashes: Path) -> Path:
    """Its rung's program with the change, unless it was built of the same kernels before."""
    stage = f"stage-{int(exercise.name.split('.')[0]):02}"
    kernels = exercises.digest([hashes.read_text(encoding="utf-8"), *exercise.change()])
    program = BUILT / f"{exercise.name}-{kernels}"
    if program.exists():
        return program
    with exercises.copies() as folder:
        tree = Path(folder) / exercise.name
        exercises.copy_tree(ROOT, tree)
        exercises.apply(exercise.change(), tree)
        made = subprocess.run(
            ["make", f"build/{stage}"], cwd=tree, capture_output=True, text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith(exercises.SETTINGS)},
        )  # fmt: skip
        if made.returncode:
            raise Problem(f"exercise {exercise.name} does not build: {made.stdout}{made.stderr}")
        BUILT.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / "build" / stage, program)
    return program


def measure(program: str | Path, text: str, options: tuple[str, ...]) -> dict[Row, Result]:
    """The results of the rows that the selectors name. Raises Problem if one is missing or wrong."""
    asked = select(text, registry.read(program))
    done = subprocess.run(
        [program, "--bench-rows", *options], input="\n".join(map(row_text, asked)) + "\n",
        capture_output=True, text=True,
    )  # fmt: skip
    said = registry.objects(done.stdout.splitlines(), program)
    found = {parse_row(row_text(registry.row_of(one))): one for one in said if "tflops" in one}
    for row in asked:
        if row not in found or not found[row]["verified"]:
            words = done.stderr.strip() or f"{program} ended with {done.returncode}."
            raise Problem(f"{row_name(row)}: {words.splitlines()[-1]}", done.returncode or WRONG)
    return found


def entry(
    exercise: exercises.Exercise, row: Row, was: Result | None, now: Result, hashes: Any
) -> Result:
    """A row of the file. was: None of a variant that the change adds."""
    keys = ("tflops", "ratio", "tensor_share", "sm_mhz")
    before = {key: was[key] if was else None for key in keys}
    kernel = was["kernel"] if was else None
    return {
        "exercise": exercise.name, "change": exercises.digest(exercise.change()),
        "options": " ".join(TIMED[exercise.name].options), **row._asdict(), **before,
        **{f"changed_{key}": now[key] for key in keys},
        "factor": now["ratio"] / was["ratio"] if was else None,
        "verified": True, "kernel": kernel, "kernel_hash": hashes.get(kernel),
    }  # fmt: skip


@command(stopped="Stopped; the exercises before it are in the file.")
def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--program", default="build/ladder")
    parser.add_argument("--hashes", type=Path, default=Path("build/ptx/hashes.json"))
    parser.add_argument("--results", type=Path, default=Path("docs/results"), metavar="DIR")
    parser.add_argument("--build", action="store_true")
    options = parser.parse_args()
    known = {one.name: one for one in exercises.all_exercises()}
    for name in options.names:
        if name not in TIMED:
            raise Problem(f"Exercise {name} is none that is timed; these are: {' '.join(TIMED)}.")
    names = options.names or list(TIMED)
    changed = [name for name in names if not TIMED[name].options]
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        programs = dict(zip(changed, pool.map(lambda name: build(known[name], options.hashes), changed)))
    if options.build:
        return OK
    today = Today(options.program, options.hashes)
    env = registry.environment(options.program, "--bench-rows")
    path = options.results / f"{store.file_stem(env['gpu'])}.exercises.json"
    found: dict[str, list[Result]] = {}
    for old in store.rows_of_machine(path, env, ENV_KEYS, "exercises", "exercise-times"):
        found.setdefault(old["exercise"], []).append(old)
    for name in names:
        text, others = TIMED[name]
        now = measure(programs.get(name, options.program), text, others)
        was = measure(options.program, text, ())
        found[name] = [entry(known[name], r, was.get(r), now[r], today.hashes) for r in now]
        for one in found[name]:
            factor = f"{one['factor']:.3f} times as fast" if one["factor"] else "new"
            print(f"{name:5} {row_name(registry.row_of(one)):40} {one['changed_tflops']:7.1f} TFLOPS, {factor}",
                  flush=True)  # fmt: skip
        listed = [one for name in TIMED for one in found.get(name, [])]
        store.write_document(path, store.head_of(env, ENV_KEYS), rows=listed)
    print(f"{path}: {len(names)} exercises timed. Next: make tables.")
    return OK


if __name__ == "__main__":
    sys.exit(main())
