"""What stands in a page of the project: lines outside and inside of fences, the fence behind a
marker, generated blocks and numbers, and the tables that are written into them.

    <!-- from FILE -->  and others      say what the fence behind them shows
    <!-- KIND -->  ...  <!-- end -->    a block that a script writes, on lines of their own
    <!-- KIND: X -->5<!-- end -->       a number that a script writes, inside a line
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lib.cli import Problem
from lib.shape_lists import Shape

FENCE = re.compile(r"^\s*(?:```|~~~)(.*)$")
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
END = "<!-- end -->"


class Fence(NamedTuple):
    number: int  # of the line that opens it
    language: str
    lines: list[str]
    follows: bool  # only empty lines are between it and the fence before it


def files(root: Path) -> list[Path]:
    """The pages of a tree."""
    names = [root / "README.md", root / "CONTRIBUTING.md"]
    return [path for path in names if path.exists()] + sorted((root / "docs").glob("*.md"))


def numbered(text: str) -> Iterator[tuple[int, str, bool]]:
    """(line number, line, whether it belongs to a fence)"""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        is_fence = bool(FENCE.match(line))
        yield number, line, fenced or is_fence
        fenced ^= is_fence


def prose(text: str) -> list[tuple[int, str]]:
    """[(line number, line)] outside of fences."""
    return [(number, line) for number, line, fenced in numbered(text) if not fenced]


def fences(text: str) -> list[Fence]:
    """Of a list item, its lines are without its indentation."""
    found: list[Fence] = []
    body: list[str] = []
    opened, indent, follows = None, 0, False
    for number, line in enumerate(text.split("\n"), 1):
        match = FENCE.match(line)
        if match and opened is None:
            opened, body = (number, match.group(1).strip()), []
            indent = len(line) - len(line.lstrip())
        elif match and opened:
            found.append(Fence(*opened, body, follows))
            opened, follows = None, True
        elif opened:
            body.append(line[indent:])
        elif line.strip():
            follows = False
    return found


def marked(text: str, marker: re.Pattern[str]) -> list[tuple[int, str, list[str] | None]]:
    """[(line number, what the marker names, lines of the fence right behind it or None)]"""
    behind = {fence.number: fence.lines for fence in fences(text)}
    found = ((number, marker.match(line)) for number, line in prose(text))
    return [(number, m.group(1), behind.get(number + 1)) for number, m in found if m]


def squeezed(text: str) -> str:
    """White space counts once."""
    return " ".join(text.split())


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub has it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def rewritten(
    text: str, marker: re.Pattern[str], body: Callable[[re.Match[str], list[str]], list[str]],
    page: object, line_of: Callable[[int, str], str] = lambda number, line: line,
) -> str:  # fmt: skip
    """The text with another body between each line that is a marker and the next line END, made by
    body(match, old body); line_of(number, line) makes the other lines outside of fences."""
    out, lines, end = [], text.split("\n"), 0
    for number, line, fenced in numbered(text):
        match = None if fenced else marker.match(line)
        if number <= end:
            continue
        out.append(line if fenced or match else line_of(number, line))
        if match:
            if END not in lines[number:]:
                raise Problem(f'{page}:{number}: "{line}" has no line {END} after it')
            end = lines.index(END, number)
            out += ["", *body(match, lines[number + 1 : end - 1]), ""]
    return "\n".join(out)


# --- tables --------------------------------------------------------------------------------------

DASH = "–"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return lines + (["", caption] if caption else [])


def cell(value: float | None, spec: str) -> str:
    return DASH if value is None else format(value, spec)


def row_cells(
    row: dict[str, Any] | None, count: int, show: Callable[[dict[str, Any]], list[str]]
) -> list[str]:
    """The cells of a row of docs/results: dashes if it is not there, FAIL if it is wrong."""
    if row is None:
        return [DASH] * count
    return show(row) if row["verified"] else ["FAIL"] * count


def percent(value: float | None) -> str:
    return DASH if value is None else f"{100 * value:.1f} %"


def tflops(value: float | None) -> str:
    """Three significant digits are more than the spread of a measurement leaves."""
    return DASH if value is None else format(value, ".1f" if value < 100 else ".0f")


def ratio_cell(ratio: float, is_below: bool) -> str:
    """One that falls short stands out."""
    return f"**{ratio:.3f}** ↓" if is_below else f"{ratio:.3f}"


def shape_text(shape: Shape) -> str:
    return f"{shape[0]}³" if len(set(shape)) == 1 else ", ".join(map(str, shape))


def not_measured(command: str, gpu: str = "a Hopper GPU fills this in") -> list[str]:
    return [f"*Not measured yet: `{command}` on {gpu}.*"]
