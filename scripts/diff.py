#!/usr/bin/env python3
"""What a rung changed against the rung before it: a summary, then the diff without white space.

    diff.py stages/05_wgmma.cu
"""

import difflib
import glob
import os
import re
import shutil
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#include\s+["<]([^">]+)[">]', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CALL = re.compile(r"\b([a-z]\w*)\s*(?:<[^;(){}]*>)?\s*\(")
ASM = re.compile(r'\basm(?:\s+volatile)?\s*\(\s*((?:"(?:[^"\\]|\\.)*"|\s|\w)*)')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
MNEMONIC = re.compile(r"^[\s{]*([a-z]\w*(?:\.\w+(?:::\w+)*)+)")
GLUE = ("setp.", "selp.")  # predicates in and out of an asm statement


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def before(path):
    """The rung's file before `path`, or None for the first."""
    files = sorted(glob.glob(os.path.join(os.path.dirname(path) or ".", "[0-9]*_*.cu")))
    files = [os.path.normpath(file) for file in files]
    place = files.index(os.path.normpath(path))
    return files[place - 1] if place else None


def squeezed(path):
    """The file's lines without white space, blank ones left out: what counts as a change."""
    lines = ("".join(line.split()) for line in read(path).splitlines())
    return [line for line in lines if line]


def changed_lines(old, new):
    """Lines (added, removed, changed) between two files. A line replaced by another is one added
    and one removed, and counts as one changed."""
    matcher = difflib.SequenceMatcher(None, squeezed(old), squeezed(new), autojunk=False)
    added = removed = changed = 0
    for tag, i, j, k, l in matcher.get_opcodes():
        if tag != "equal":
            added += l - k
            removed += j - i
            changed += max(j - i, l - k)
    return added, removed, changed


def reachable(path, root="."):
    """Headers under `root` that a file includes, directly or not, by their path in the tree."""
    found, todo = set(), [path]
    while todo:
        for name in INCLUDE.findall(read(todo.pop())):
            full = os.path.join(root, name)
            if name not in found and os.path.isfile(full):
                found.add(name)
                todo.append(full)
    return found


def functions(text):
    """{name: body} of the functions defined in a header, overloads taken together."""
    bodies = {}
    for head in re.finditer(r"\b(\w+)\s*\([^;{}]*\)\s*(?:const\s*)?\{", text):
        depth, i = 1, head.end()
        while depth and i < len(text):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            i += 1
        bodies[head.group(1)] = bodies.get(head.group(1), "") + text[head.end() : i]
    return bodies


def mnemonics(body):
    """PTX mnemonics of the asm statements in a function's body."""
    found = []
    for statement in ASM.findall(body):
        text = "".join(STRING.findall(statement)).replace("\\n", " ")
        for part in text.split(";"):
            mnemonic = MNEMONIC.match(part)
            if mnemonic and not mnemonic.group(1).startswith(GLUE):
                found.append(mnemonic.group(1))
    return found


def instructions(path, root="."):
    """{PTX mnemonic: wrapper} of what a stage file calls in common/ptx, directly or through the
    helpers of common/."""
    bodies = {}
    for header in sorted(reachable(path, root)):
        text = COMMENT.sub("", read(os.path.join(root, header)))
        for name, body in functions(text).items():
            bodies[name] = bodies.get(name, "") + body
    found, seen = {}, set()
    todo = set(CALL.findall(COMMENT.sub("", read(path)))) & set(bodies)
    while todo:
        name = todo.pop()
        seen.add(name)
        body = bodies[name]
        for mnemonic in mnemonics(body):
            found.setdefault(mnemonic, name)
        todo |= (set(CALL.findall(body)) & set(bodies)) - seen
    return found


def show_diff(old, new):
    color = sys.stdout.isatty()
    sys.stdout.flush()
    if shutil.which("git"):
        when = "always" if color else "never"
        command = ["git", "--no-pager", "diff", "--no-index", "-w", "--ignore-blank-lines"]
        subprocess.run(command + ["--patience", f"--color={when}", old, new], check=False)
        return
    lines = [
        [" ".join(line.split()) for line in read(path).splitlines() if line.strip()]
        for path in (old, new)
    ]
    for line in difflib.unified_diff(*lines, old, new, lineterm=""):
        print(line)


def main():
    if len(sys.argv) != 2 or not os.path.isfile(sys.argv[1]):
        print("diff.py takes one file of stages/.", file=sys.stderr)
        return 2
    new = sys.argv[1]
    old = before(new)
    if old is None:
        print(f"{new} is the first rung, with nothing before it to compare: read it whole.",
              file=sys.stderr)
        return 2
    added, removed, changed = changed_lines(old, new)
    print(f"{old} -> {new}")
    print(f"{added} lines added, {removed} removed ({changed} changed), white space ignored")
    old_includes = INCLUDE.findall(read(old))
    for name in INCLUDE.findall(read(new)):
        if name not in old_includes:
            print(f"new include      {name}")
    known = instructions(old)
    for mnemonic, wrapper in sorted(instructions(new).items()):
        if mnemonic not in known:
            print(f"new instruction  {mnemonic}  ({wrapper})")
    print()
    show_diff(old, new)
    return 0


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
