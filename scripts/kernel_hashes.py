#!/usr/bin/env python3
"""Fingerprints kernels by their PTX: {mangled kernel name: hash}.

A published number belongs to one kernel. Its hash covers the kernel's PTX, the functions it calls
and the module's variables it names, but no line information, comments, white space, label numbers
or the kernel's own name, so that it changes only when the code does. It also covers the kernels that are
launched behind it: those of its namespace with its template arguments, which no number is named by.

    kernel_hashes.py build/ptx/*.ptx > build/ptx/hashes.json
"""

import hashlib
import json
import re
import sys

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
LINE_INFO = re.compile(r"^\s*\.(?:loc|file)\b.*$|^\s*\$L__(?:tmp|func_\w+)\d+:\s*$", re.MULTILINE)
FUNCTION = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)?\.(entry|func)\b(?:\s*\([^)]*\))?\s+([\w$]+)",
    re.MULTILINE,
)
VARIABLE = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)?\.(?:global|const|shared)\b[^;{]*?"
    r"([\w$]+)\s*(?:\[[^\]]*\])*\s*(?:=[^;]*)?;",
    re.MULTILINE,
)
LABEL = re.compile(r"\$L__\w+")
WORD = re.compile(r"[\w$]+")
GEMM = "gemm"  # what the name of a kernel that has numbers begins with


def body_end(text, start):
    """Index past the function whose head is at start: its closing brace, or the ';' of a
    declaration."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] == "{":
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return i + 1
        elif text[i] == ";" and depth == 0:
            return i + 1
    return len(text)


def canonical(text):
    """One function's text with its labels numbered by appearance and its white space squeezed."""
    labels = {}
    text = LABEL.sub(lambda found: labels.setdefault(found.group(), f"$L{len(labels)}"), text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def nameless(text, kernel):
    """The text with KERNEL for the kernel's name, also where a parameter's name begins with it."""
    return re.sub(rf"(?<![\w$]){re.escape(kernel)}(?=_param_|[^\w$]|$)", "KERNEL", text)


def name_parts(mangled):
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


def launched_behind(kernel, entries):
    """The kernels of a module that belong to this one."""
    parts = name_parts(kernel)
    if parts is None or not parts[1].startswith(GEMM):
        return []
    others = [(entry, name_parts(entry)) for entry in entries]
    return sorted(
        entry for entry, of in others
        if of and not of[1].startswith(GEMM) and (of[0], of[2]) == (parts[0], parts[2])
    )  # fmt: skip


def kernel_texts(ptx):
    """{mangled name: the text that is hashed} of every .entry in a PTX module."""
    ptx = LINE_INFO.sub("", COMMENT.sub("", ptx))
    functions, entries, outside, end = {}, [], [], 0
    for head in FUNCTION.finditer(ptx):
        if head.start() < end:
            continue
        outside.append(ptx[end : head.start()])
        end = body_end(ptx, head.start())
        name, text = head.group(2), ptx[head.start() : end]
        if name not in functions or "{" in text:
            functions[name] = canonical(text)
        if head.group(1) == "entry":
            entries.append(name)
    outside.append(ptx[end:])
    for variable in VARIABLE.finditer("".join(outside)):
        functions[variable.group(1)] = canonical(variable.group())

    def closure(name, seen):
        seen.add(name)
        for word in WORD.findall(functions[name]):
            if word in functions and word not in seen:
                closure(word, seen)
        return seen

    def text_of(entry):
        names = [entry] + sorted(closure(entry, set()) - {entry})
        return "\n".join(nameless(functions[name], entry) for name in names)

    return {
        entry: "\n".join(text_of(name) for name in [entry, *launched_behind(entry, entries)])
        for entry in entries
    }


def kernel_hashes(ptx):
    """{mangled name: 16 hex digits} of every .entry in a PTX module."""
    return {
        name: hashlib.sha256(text.encode()).hexdigest()[:16]
        for name, text in kernel_texts(ptx).items()
    }


def main():
    hashes = {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for name, value in kernel_hashes(file.read()).items():
                if name in hashes:
                    print(f"{path}: a second kernel is named {name}.", file=sys.stderr)
                    return 1
                hashes[name] = value
    json.dump(hashes, sys.stdout, indent=1, sort_keys=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
