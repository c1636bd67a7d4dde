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
"""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from lib import registry, store
from lib.cli import OK, Problem, command, measuring_parser, suggestion
from lib.fingerprints import kernel_hashes, kernel_texts
from lib.measure import Runner
from lib.results import PROBLEM
from lib.rows import REGIMES, selectors
from lib.store import Document, Journal

ENV_KEYS = ("gpu", "driver", "toolkit", "sms", "l2_bytes")
ROW_S = {"burst": 1.3, "sustained": 2.9}  # about; the pace of the run itself corrects it
SUFFIX = ".limits.json"
Result = dict[str, Any]


class Row(NamedTuple):
    name: str
    regime: str


def select(rows_text: str, entries: list[Result]) -> list[Row]:
    """The rows that --rows selects (all by default), burst first, while the chip is cool."""
    names = [entry["name"] for entry in entries]
    chosen = set()
    for selector in selectors(rows_text):
        name, slash, regime = selector.partition("/")
        found = fnmatch.filter(names, name)
        if not found:
            close = suggestion(name, names)
            raise Problem(f"--rows: there is no limit '{name}', only {', '.join(names)}{close}")
        if slash and regime not in REGIMES:
            raise Problem(
                f"--rows: the regime '{regime}' of '{selector}' must be burst or sustained"
                + suggestion(regime, REGIMES)
            )
        chosen |= {Row(one, each) for one in found for each in ([regime] if slash else REGIMES)}
    return in_order(chosen, entries)


def in_order(rows: Iterable[Row], entries: list[Result]) -> list[Row]:
    place = {entry["name"]: i for i, entry in enumerate(entries)}
    return sorted(rows, key=lambda row: (REGIMES.index(row.regime), place[row.name]))


def row_of(result: Result) -> Row:
    return Row(result["name"], result["regime"])


def row_text(row: Row) -> str:
    return "/".join(row)


def hashes_of(entries: list[Result], folder: Path) -> dict[str, str]:
    """{name of a limit: fingerprint of its kernel}"""
    paths = sorted(folder.glob("*.ptx"))
    if not paths:
        raise Problem(f"{folder} has no PTX; make limits builds it.")
    found = of_files(paths, kernel_hashes)
    for entry in entries:
        if entry["kernel"] not in found:
            raise Problem(f"{folder} has no kernel {entry['kernel']}; make limits builds it.")
    return {entry["name"]: found[entry["kernel"]] for entry in entries}


def of_files(paths: list[Path], read: Callable[[str], dict[str, str]]) -> dict[str, str]:
    """What is read of each, in one."""
    texts = (path.read_text(encoding="utf-8") for path in paths)
    return {kernel: found for text in texts for kernel, found in read(text).items()}


# --- the rungs' tiles ----------------------------------------------------------------------------

WGMMA = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.bf16\.bf16\s*\{[^}]*\}\s*,\s*(\{?)"
)
WARP_MMA = "mma.sync.aligned.m16n8k16"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4"


def instruction(ptx: str) -> tuple[str, float | None]:
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


def tiles(program: str, hashes_path: Path) -> list[Result]:
    """One dictionary a variant of the ladder's own problem that is no chooser: its tile, and what
    its kernel reads."""
    variants, ptx_folder = registry.read(program), hashes_path.parent
    hashes = registry.read_hashes(hashes_path, variants)
    texts = of_files(sorted(ptx_folder.glob("[0-9]*_*.ptx")), kernel_texts)
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


def holds(row: Result, hashes: dict[str, str]) -> bool:
    """Whether a row was measured with the kernel that its limit has now."""
    return row["name"] in hashes and row.get("kernel_hash") == hashes[row["name"]]


def read_file(path: Path) -> Document:
    return store.read_document(path, "limits", "limits", "limits")


class Limits(Runner):
    """build/limits over rows."""

    MAKE = "limits"
    SHOWN = 28

    def __init__(
        self, program: str, entries: list[Result], hashes: dict[str, str], journal: Journal
    ) -> None:
        super().__init__(program, journal)
        self.hashes = hashes
        self.entries = {entry["name"]: entry for entry in entries}

    def command(self) -> list[str]:
        return [self.program, *map(row_text, self.pending)]

    def rows_at(self, said: str) -> list[Row]:
        return [Row(*said.split("/"))]

    def complete(self, result: Result) -> Result:
        return {**result, "kernel_hash": self.hashes[result["name"]]}

    def failed(self, row: Row) -> Result:
        entry = self.entries[row.name]
        known = {name: entry[name] for name in ("name", "group", "data", "what")}
        unit = "TFLOPS" if entry["group"] == "tensor" else "TB/s"
        return {**known, "regime": row.regime, "unit": unit, "value": None}

    @staticmethod
    def expected_s(rows: Iterable[Row]) -> float:
        return sum(ROW_S[row.regime] for row in rows)

    def name(self, row: Row) -> str:
        return row_text(row)

    def numbers(self, result: Result) -> str:
        return (
            f"{result['value']:8.2f} {result['unit']}, {result['per_clock']:7.1f} "
            f"{result['per_clock_unit']} at {result['sm_mhz']:.0f} MHz"
        )


def only_tiles(options: Any) -> int:
    paths = store.own_files(options.results, SUFFIX)
    if not paths:
        raise Problem(f"{options.results} has no file of limits; make limits measures one.")
    for path in paths:
        document = read_file(path)
        head = {k: value for k, value in document.items() if k not in ("tiles", "limits")}
        anew = tiles(options.ladder, options.hashes)
        store.write_document(path, head, tiles=anew, limits=document["limits"])
        print(f"{path}: tiles written anew. Next: make tables.")
    return OK


def measure(options: Any) -> int:
    entries = registry.listed(registry.ask(options.program, "--list"))
    rows = select(options.rows, entries)
    said = registry.environment(options.program, "--env")
    env = {name: said[name] for name in ENV_KEYS}
    hashes = hashes_of(entries, options.ptx)
    stem = store.file_stem(env["gpu"])
    path = options.results / (stem + SUFFIX)
    tiles_now = tiles(options.ladder, options.hashes)
    read_file(path)  # refused before anything is measured, not after
    journal = Journal(
        options.partial / f"{stem}.partial.jsonl", env, row_of,
        lambda found: [row for row in found if row["verified"] and holds(row, hashes)],
    )  # fmt: skip

    def publish(results: list[Result]) -> list[str]:
        """These and the rows of an earlier run that still hold: same machine, versions, kernel."""
        old = store.rows_of_machine(path, env, ENV_KEYS, "limits", "limits", key="limits")
        there = {row_of(result): result for result in old}
        measured = {row: result for row, result in there.items() if holds(result, hashes)}
        measured.update((row_of(result), result) for result in results)
        head = store.head_of(env, ENV_KEYS)
        ordered = [measured[row] for row in in_order(measured, entries)]
        store.write_document(path, head, tiles=tiles_now, limits=ordered)
        return [row_text(row) for row in there if row not in measured]

    runner = Limits(options.program, entries, hashes, journal)
    return runner.measure(rows, store.machine_text(env), path, publish)


@command(stopped="Stopped before the first row.")
def main() -> int:
    parser = measuring_parser(__doc__, "build/limits-partial", "build/limits")
    parser.add_argument("--rows", default="", help="selectors, see above; default all")
    parser.add_argument("--tiles", action="store_true", help="only the rungs' tiles; no GPU")
    parser.add_argument("--ptx", type=Path, default=Path("build/obj/common/limits"), metavar="DIR")
    parser.add_argument("--ladder", default="build/ladder")
    options = parser.parse_args()
    return only_tiles(options) if options.tiles else measure(options)


if __name__ == "__main__":
    sys.exit(main())
