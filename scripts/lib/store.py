"""Files of docs/results, one row a line so that a new run is a readable diff, and journals of what
a run has measured so far."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lib.cli import Problem

Document = dict[str, Any]
Row = dict[str, Any]


def file_stem(gpu: str) -> str:
    """h200 for NVIDIA H200, h100 for NVIDIA H100 80GB HBM3, h100_nvl for NVIDIA H100 NVL; no '-',
    which marks runs that others have sent."""
    name = re.sub(r"nvidia|\d+gb( hbm\w+)?", "", gpu.lower())
    return re.sub(r"[^a-z0-9]+", "_", name).strip("_")


def own_files(folder: Path, suffix: str) -> list[Path]:
    """Of a kind such as .sweep.json those that others have not sent."""
    return [path for path in sorted(folder.glob("*" + suffix)) if "-" not in path.name]


def write_atomically(path: Path, text: str) -> None:
    """Who reads meanwhile, another make perhaps, gets the file before or the file after. Where it
    cannot be written, or is interrupted, the file stays as it was, with nothing beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def outdated_files(root: Path, texts: dict[Path, str]) -> list[tuple[Path, str]]:
    """[(path, text)] of the files below root that are not there or have another text."""
    return [
        (path, text) for path, text in texts.items()
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text
    ]  # fmt: skip


def update_files(root: Path, found: list[tuple[Path, str]], tool: str) -> None:
    for path, text in found:
        write_atomically(root / path, text)
        print(f"{tool}: {path}")


def revision() -> str:
    """REVISION, or git's, marked if the sources differ from it."""
    if os.environ.get("REVISION"):
        return os.environ["REVISION"]

    def git(*arguments: str) -> str:
        ended = subprocess.run(("git", *arguments), check=True, capture_output=True, text=True)
        return ended.stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--", "stages", "common", "Makefile")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + ("-dirty" if changed else "")


def head_of(env: Document, keys: Iterable[str]) -> Document:
    """What a file says before its rows: of machine and versions these keys, revision and date."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return {**{key: env[key] for key in keys}, "revision": revision(), "date": today}


def write_document(path: Path, head: Document, **lists: Iterable[Row]) -> None:
    """Replaces a file: the head, then lists of rows by their keys."""
    members = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, rows in lists.items():
        body = ",\n".join("  " + json.dumps(row) for row in rows)
        members.append(f' "{key}": [\n{body}\n ]')
    write_atomically(path, "{\n" + ",\n".join(members) + "\n}\n")


def read_document(path: Path, key: str, what: str, make: str) -> Document:
    """A file as it stands there, with a list of rows by that key; {} if there is none."""
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document[key], list):
            return document
    except (ValueError, KeyError, TypeError):
        pass
    raise Problem(f"{path} is not a file of {what}; remove it and run make {make}.")


def rows_of_machine(
    path: Path, env: Document, keys: Iterable[str], what: str, make: str, key: str = "rows"
) -> list[Row]:
    """The rows of read_document(). If they are of another machine or versions, it says so: none."""
    document = read_document(path, key, what, make)
    if all(document.get(each) == env[each] for each in keys):
        return document[key]
    if document:
        print(f"{path} was measured with another machine or versions; its rows are dropped.")
    return []


def machine_text(env: Document) -> str:
    return f"{env['gpu']}, driver {env['driver']}, nvcc {env['toolkit']}"


class Journal:
    """Rows measured so far, one JSON object a line, kept through an interruption: those of this
    machine that `still` lets through. It sees none that lacks one of the keys."""

    def __init__(
        self, path: Path, env: Document, key_of: Callable[[Row], Any],
        still: Callable[[list[Row]], Iterable[Row]],
        keys: Iterable[str] = ("verified", "kernel_hash"),
    ) -> None:  # fmt: skip
        self.path, self.env, self.key_of = path, env, key_of
        found = {}
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                if entry["env"] == env and entry["row"].keys() >= set(keys):
                    found[key_of(entry["row"])] = entry["row"]
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # what was being written when the run was stopped, or is no row of today
        self.rows = {key_of(row): row for row in still(list(found.values()))}

    def _line(self, row: Row) -> str:
        return json.dumps({"env": self.env, "row": row}) + "\n"

    def add(self, row: Row) -> None:
        self.rows[self.key_of(row)] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self._line(row))
            file.flush()
            os.fsync(file.fileno())

    def drop(self, keys: Iterable[Any]) -> None:
        """Forgets rows that have been published; no file if none is left."""
        for key in keys:
            self.rows.pop(key, None)
        if self.rows:
            write_atomically(self.path, "".join(map(self._line, self.rows.values())))
        elif self.path.exists():
            self.path.unlink()
