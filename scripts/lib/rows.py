"""What is measured: a rung's variant at a shape in a regime, and the selectors of --rows:

    RUNG[:VARIANT][(ARGS)][@SHAPE][/REGIME], joined by commas; bench.py --help says what each is
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from lib import shape_lists
from lib.cli import Problem, suggestion, whole
from lib.shape_lists import Shape

REGIMES = ("burst", "sustained")
SIZES = (2048, 4096, 8192)
SMALL_SIZE = 2048  # the one size at which a rung without tensor cores runs
SELECTOR = re.compile(
    r"(?P<rung>[^:@/(]*)(?::(?P<variant>[^:@/(]+))?(?:\((?P<args>[\w=+]+)\))?"
    r"(?:@(?P<shape>[^:@/(]+))?(?:/(?P<regime>[^:@/(]+))?"
)


class Row(NamedTuple):
    """args: of a rung whose kind of problem has parameters those that are not the default."""

    stage: int
    variant: str
    m: int
    n: int
    k: int
    regime: str
    args: str = ""


def row_text(row: Row) -> str:
    """As a program reads it."""
    return " ".join(map(str, row)).strip()


def parse_row(text: str) -> Row:
    stage, variant, m, n, k, regime, *args = text.split()
    return Row(int(stage), variant, int(m), int(n), int(k), regime, *args)


def row_of(result: dict[str, Any]) -> Row:
    return Row(**{key: result[key] for key in Row._fields[:-1]}, args=result.get("args") or "")


def shape_of(row: Any) -> Shape:
    """Of a Row, or of a row of docs/results."""
    return (row["m"], row["n"], row["k"]) if isinstance(row, dict) else (row.m, row.n, row.k)


def shape_name(shape: Shape) -> str:
    """As a selector has it: 4096 or 4096x7168x2048."""
    return str(shape[0]) if len(set(shape)) == 1 else "x".join(map(str, shape))


def row_name(row: Row) -> str:
    args = f"({row.args.replace(',', '+')})" if row.args else ""
    return f"{row.stage}:{row.variant}{args}@{shape_name(shape_of(row))}/{row.regime}"


def by_size(shape: Shape) -> tuple[int, Shape]:
    """To sort by: smaller products first."""
    return shape[0] * shape[1] * shape[2], shape


def selectors(text: str) -> list[str]:
    """Those of an option's value; all if it is empty."""
    return (text or "*").replace(" ", ",").split(",")


def parse_rungs(text: str, known: list[int]) -> tuple[list[int], bool]:
    """(rung numbers, whether they were named) of a selector's RUNG."""
    if text in ("", "*"):
        return [rung for rung in known if rung > 0], False
    ends = [whole(end) for end in text.split("-")]
    chosen = []
    if len(ends) <= 2 and None not in ends:
        chosen = [rung for rung in known if ends[0] <= rung <= ends[-1]]
    if not chosen:
        rungs = ", ".join(map(str, known))
        raise Problem(f"--rows: there is no rung '{text}'; the rungs are {rungs}.")
    return chosen, True


def parse_shapes(text: str, option: str = "--rows") -> list[Shape]:
    if text in shape_lists.NAMED:
        return shape_lists.NAMED[text]
    sizes = [whole(size) or 0 for size in text.split("x")]
    if len(sizes) not in (1, 3) or min(sizes) < 1:
        hint = suggestion(text, shape_lists.NAMED) if text[:1].isalpha() else "."
        *names, last = shape_lists.NAMED
        raise Problem(
            f"{option}: the shape '{text}' must be a size such as 4096, MxNxK, "
            f"{', '.join(names)} or {last}{hint}"
        )
    m, n, k = sizes if len(sizes) == 3 else sizes * 3
    return [(m, n, k)]


def select_one(
    selector: str, variants: list[dict[str, Any]], sizes: Iterable[int] = SIZES
) -> set[Row]:
    """The rows of one selector, in no particular order; sizes: the cubes of one without a shape."""
    parts = SELECTOR.fullmatch(selector)
    if not selector or not parts:
        raise Problem(
            f"--rows: '{selector}' is not of the form RUNG[:VARIANT][(ARGS)][@SHAPE][/REGIME], such as "
            "8, 5:result@4096/burst or 13:result(type=fp16+layout=NT)."
        )
    rungs, named = parse_rungs(parts["rung"], sorted({v["stage"] for v in variants}))
    wanted, regime = parts["variant"], parts["regime"]
    of_rungs = [v for v in variants if v["stage"] in rungs]
    if wanted is None:
        chosen = [v for v in of_rungs if not v["configuration"]]
    elif wanted == "result":
        chosen = [v for v in of_rungs if v["result"] or v["variant"] == wanted]
    else:
        chosen = [v for v in of_rungs if wanted in ("*", v["variant"])]
    if not chosen:
        close = suggestion(wanted or "", [v["variant"] for v in of_rungs])
        raise Problem(f"--rows: '{selector}' names no variant{close}")
    if regime not in (None, *REGIMES):
        raise Problem(f"--rows: the regime '{regime}' must be burst or sustained.")
    args = (parts["args"] or "").replace("+", ",")
    shapes = parse_shapes(parts["shape"]) if parts["shape"] else []
    rows = set()
    for v in chosen:
        usual_sizes = (SMALL_SIZE,) if v["simt"] else sizes
        for shape in shapes or [(size,) * 3 for size in usual_sizes]:
            if v["simt"] and shape != (SMALL_SIZE,) * 3 and not named:
                continue
            usual_regimes = REGIMES[:1] if shape in shape_lists.DRAWN else REGIMES
            for each in (regime,) if regime else usual_regimes:
                rows.add(Row(v["stage"], v["variant"], *shape, each, args or v.get("args", "")))
    return rows


def places(variants: Iterable[dict[str, Any]]) -> dict[tuple[int, str], int]:
    """{(rung, variant): its place in the order of registration}"""
    return {(v["stage"], v["variant"]): i for i, v in enumerate(variants)}


def in_order(rows: Iterable[Row], variants: list[dict[str, Any]]) -> list[Row]:
    """Rows as they are measured: burst first, while the chip is cool, then shape by shape."""
    place = places(variants)

    def order(row: Row) -> Any:
        return REGIMES.index(row.regime), by_size(shape_of(row)), row.args, place[row[:2]]

    return sorted(rows, key=order)


def select(
    rows_text: str, variants: list[dict[str, Any]], sizes: Iterable[int] = SIZES
) -> list[Row]:
    """The rows that --rows selects (all by default), in the order of measuring."""
    rows = set().union(*(select_one(one, variants, sizes) for one in selectors(rows_text)))
    if not rows:
        raise Problem(
            f"--rows: '{rows_text}' leaves nothing: a rung without tensor cores runs at {SMALL_SIZE} "
            "only, unless it is named with a shape, as in 1@4096."
        )
    return in_order(rows, variants)


def groups(rows: Iterable[Row]) -> list[list[Row]]:
    """Neighbours that one process measures in turns, as build/ladder groups them."""
    key = lambda row: (row.regime, shape_of(row), row.stage, row.args)  # noqa: E731
    return [list(group) for _, group in itertools.groupby(rows, key)]
