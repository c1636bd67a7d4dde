"""Files of the project that scripts write: whether they are what the scripts would write."""

from __future__ import annotations

from pathlib import Path

from lib.cli import OK, WRONG


def outdated(root: Path, texts: dict[Path, str]) -> list[tuple[Path, str]]:
    """[(path, text)] of the files below root that are not there or have another text."""
    found = []
    for path, text in texts.items():
        there = root / path
        if not there.exists() or there.read_text(encoding="utf-8") != text:
            found.append((path, text))
    return found


def update(tool: str, root: Path, found: list[tuple[Path, str]], check: bool, advice: str) -> int:
    """Writes them, or, to check, says of each what is to be done. The exit code."""
    for path, text in found:
        if check:
            print(f"{tool}: {path} {advice}")
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
            print(f"{tool}: {path}")
    return WRONG if check and found else OK
