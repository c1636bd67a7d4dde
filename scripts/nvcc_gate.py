#!/usr/bin/env python3
"""Compiles one .cu file and lets the object through only if ptxas had nothing to say about it.

ptxas reports that it serialised wgmma or dropped setmaxnreg as a note, and no flag turns those
notes into errors. So the compile goes to a directory of its own, and only if its log is clean are
OBJECT, its dependency file (.d) and PREFIX.ptx, .cubin and .log moved into place: the PTX that
ptxas assembled, what it made of it, and what it said.

    nvcc_gate.py SOURCE OBJECT PREFIX -- nvcc FLAGS...
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from lib.cli import command
from lib.ptx import entries, source_line

# What ptxas' codes mean to the author of a kernel. Other C75xx codes are refused as well. C7602 is
# an error of its own, which ends the compile.
MEANING = {
    "C7507": "setmaxnreg is dropped, since some code needs more registers than it leaves there: a larger "
    "number, or a smaller tile for each warpgroup.",
    "C7508": "setmaxnreg is dropped, so no registers move between warps: give the kernel "
    "__launch_bounds__(THREADS, 1).",
    "C7510": "a function call stands between a wgmma and its wait, so every wgmma is waited for at "
    "once: no printf, assert or call that is not inlined in the pipeline.",
    "C7511": "wgmma is serialised because its accumulators do not stay in place: something moves or "
    "changes them in flight, or the tile needs more registers than there are.",
    "C7514": "an accumulator is read before wgmma.wait_group, so every wgmma is waited for at once: "
    "wait first.",
    "C7515": "something other than wgmma writes an accumulator in flight, so every wgmma is waited for "
    "at once: wait first.",
    "C7517": "ptxas put a wgmma.wait_group where the code uses an accumulator in flight: wait before "
    "touching it.",
    "C7519": "ptxas put in a wgmma.fence that the code lacks: fence before the first wgmma and "
    "whenever registers it reads or accumulates into were written.",
    "C7520": "wgmma is serialised because ptxas had to put a wgmma.fence on a path that not every "
    "thread takes: fence on the common path.",
}
MEANING["C7602"] = (
    "an instruction needs more registers than a thread can have, 65,536 / (threads of the CTA * CTAs "
    "an SM) by __launch_bounds__: fewer threads, or a smaller tile for each warpgroup. More rows need "
    "more warpgroups, whose threads have fewer registers each (docs/ptxas.md)."
)
UNKNOWN = "ptxas rewrote or serialised something that the kernel spells out."
SPILL = "registers are spilled to local memory: a smaller tile per thread, or fewer live values."
STACK = (
    "an array lives in local memory: index it by constants only (unroll the loop), and take no "
    "address of it. If it is a parameter, such as a CUtensorMap: const __grid_constant__."
)

CODE = re.compile(r"\((C75\d\d|C7602)\)")
PTX_LINE = re.compile(r"around line (\d+)")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
PROPERTIES = re.compile(r"Function properties for (\S+)")


def findings(log: str, ptx: str, compiled: bool = True) -> list[tuple[str, str]]:
    """What is wrong with a compile: pairs of what the log says and its meaning; [] if clean. Of one
    that failed nothing more is asked than what its errors mean."""
    found = []
    function = "?"
    seen = set()
    for line in log.splitlines():
        named = PROPERTIES.search(line)
        if named:
            function = named.group(1)
        code = CODE.search(line)
        if code:
            place = PTX_LINE.search(line)
            where = source_line(ptx, int(place.group(1))) if place else ""
            said = line.strip() + (f" [{where}]" if where else "")
            found.append((said, MEANING.get(code.group(1), UNKNOWN)))
        frame = FRAME.search(line)
        if frame:
            seen.add(function)
            stack, stores, loads = map(int, frame.groups())
            if stack or stores or loads:
                meaning = SPILL if stores or loads else STACK
                found.append((f"{function}: {line.strip()}", meaning))
    for entry in entries(ptx):
        if compiled and entry not in seen:
            found.append((f"{entry}: the log says nothing about it", "nvcc needs -Xptxas -v."))
    return found


def dependencies(text: str) -> list[str]:
    """Prerequisites in a dependency file of nvcc that belong to this tree, not to the toolkit."""
    rule = text.replace("\\\n", " ").split("\n\n", 1)[0].split(" : ", 1)
    names = rule[1].split() if len(rule) == 2 else []
    return [name for name in names if not os.path.isabs(name)]


def compile_into(folder: Path, source: str, compiler: list[str]) -> tuple[int, str, str]:
    """Compiles with every intermediate file kept. Returns nvcc's exit status, the log, the PTX."""
    command = [*compiler, "--keep", "--keep-dir", str(folder), "-c", source]
    command += ["-o", str(folder / "object.o"), "-MMD", "-MF", str(folder / "object.d")]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ptx = folder / f"{Path(source).stem}.ptx"
    text = ptx.read_text(encoding="utf-8") if ptx.exists() else ""
    return run.returncode, run.stdout, text


@command()
def main() -> int:
    if sys.argv[4:5] != ["--"] or len(sys.argv) < 6:
        print("usage: nvcc_gate.py SOURCE OBJECT PREFIX -- nvcc FLAGS...", file=sys.stderr)
        return 2
    source, made_object, prefix = sys.argv[1:4]
    for path in (made_object, prefix):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gate-", dir=Path(made_object).parent) as scratch:
        folder = Path(scratch)
        status, log, ptx = compile_into(folder, source, sys.argv[5:])
        bad = findings(log, ptx, compiled=status == 0)
        if status != 0:
            sys.stderr.write(log)
        if bad:
            message = f"{source}: refused, because ptxas reports\n"
            for meaning in dict.fromkeys(meaning for _, meaning in bad):
                message += "".join(f"  {said}\n" for said, why in bad if why == meaning)
                message += f"    {meaning}\n"
            sys.stderr.write(message)
        if status != 0 or bad:
            return 1

        needed = dependencies((folder / "object.d").read_text(encoding="utf-8"))
        rules = [f"{made_object}: {' '.join(needed)}\n", *(f"{name}:\n" for name in needed)]
        (folder / "object.d").write_text("".join(rules), encoding="utf-8")
        (folder / "object.log").write_text(log, encoding="utf-8")
        stem = Path(source).stem
        for name, place in (
            ("object.log", prefix + ".log"), (f"{stem}.ptx", prefix + ".ptx"),
            (f"{stem}.sm_90a.cubin", prefix + ".cubin"),
            ("object.d", Path(made_object).with_suffix(".d")),
            ("object.o", made_object),  # last: its date is what make looks at
        ):  # fmt: skip
            os.replace(folder / name, place)
        return 0


if __name__ == "__main__":
    sys.exit(main())
