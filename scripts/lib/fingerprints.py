"""Fingerprints of kernels by their PTX.

A published number belongs to one kernel. Its hash covers the kernel's PTX, the functions it calls
and the module's variables it names, but no line information, comments, white space, label numbers
or the kernel's own name, so that it changes only when the code does. It also covers the kernels
that are launched behind it: those of its namespace with its template arguments, which no number is
named by.
"""

from __future__ import annotations

import hashlib
import re

from lib.closure import closure
from lib.ptx import functions

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
LINE_INFO = re.compile(r"^\s*\.(?:loc|file)\b.*$|^\s*\$L__(?:tmp|func_\w+)\d+:\s*$", re.MULTILINE)
VARIABLE = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)?\.(?:global|const|shared)\b[^;{]*?"
    r"([\w$]+)\s*(?:\[[^\]]*\])*\s*(?:=[^;]*)?;",
    re.MULTILINE,
)
LABEL = re.compile(r"\$L__\w+")
WORD = re.compile(r"[\w$]+")
GEMM = "gemm"  # what the name of a kernel that has numbers begins with


def canonical(text: str) -> str:
    """One function's text with its labels numbered by appearance and its white space squeezed."""
    labels: dict[str, str] = {}
    text = LABEL.sub(lambda found: labels.setdefault(found.group(), f"$L{len(labels)}"), text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def name_parts(mangled: str) -> tuple[str, str, str] | None:
    """(namespace, function, template arguments) of a function template's name in a namespace; None
    if it is no such name."""
    parts, rest = [], mangled.removeprefix("_ZN")
    while found := re.match(r"\d+", rest):
        end = found.end() + int(found.group())
        parts.append(rest[found.end() : end])
        rest = rest[end:]
    if len(parts) != 2 or not rest.startswith("I") or "Ev" not in rest:
        return None
    return parts[0], parts[1], rest[: rest.index("Ev")]


def launched_behind(kernel: str, entries: list[str]) -> list[str]:
    """The kernels of a module that belong to this one."""
    parts = name_parts(kernel)
    if parts is None or not parts[1].startswith(GEMM):
        return []
    others = [(entry, name_parts(entry)) for entry in entries]
    return sorted(
        entry for entry, of in others
        if of and not of[1].startswith(GEMM) and (of[0], of[2]) == (parts[0], parts[2])
    )  # fmt: skip


def kernel_texts(ptx: str) -> dict[str, str]:
    """{mangled name: the text that is hashed} of every .entry in a PTX module."""
    ptx = LINE_INFO.sub("", COMMENT.sub("", ptx))
    texts: dict[str, str] = {}
    entries, outside, end = [], [], 0
    for one in functions(ptx):
        outside.append(ptx[end : one.start])
        end = one.end
        text = ptx[one.start : end]
        if one.name not in texts or "{" in text:
            texts[one.name] = canonical(text)
        if one.kind == "entry":
            entries.append(one.name)
    outside.append(ptx[end:])
    for variable in VARIABLE.finditer("".join(outside)):
        texts[variable.group(1)] = canonical(variable.group())

    def named(name: str) -> list[str]:
        return [word for word in WORD.findall(texts[name]) if word in texts]

    def text_of(entry: str) -> str:
        names = [entry] + sorted(closure([entry], named) - {entry})
        # KERNEL for its name, also where a parameter's begins with it or that of a variable in it.
        own, inside = re.escape(entry), re.escape(entry.removeprefix("_Z"))
        name = re.compile(rf"(?<![\w$])(?:{own}(?=_param_|[^\w$]|$)|_ZZ{inside}(?=E))")
        return "\n".join(name.sub("KERNEL", texts[one]) for one in names)

    return {
        entry: "\n".join(text_of(name) for name in [entry, *launched_behind(entry, entries)])
        for entry in entries
    }


def kernel_hashes(ptx: str) -> dict[str, str]:
    """{mangled name: 16 hex digits} of every .entry in a PTX module."""
    return {
        name: hashlib.sha256(text.encode()).hexdigest()[:16]
        for name, text in kernel_texts(ptx).items()
    }
