#!/usr/bin/env python3
"""Fingerprints kernels by their PTX: {mangled kernel name: hash}.

A published number belongs to one kernel. Its hash covers the kernel's PTX, the functions it calls
and the module's variables it names, but no line information, comments, white space, label numbers
or the kernel's own name, so that it changes only when the code does.

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

    return {
        entry: "\n".join(
            nameless(functions[name], entry)
            for name in [entry] + sorted(closure(entry, set()) - {entry})
        )
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
