#!/usr/bin/env python3
"""Looks at a rung's kernels, or runs them under a tool.

    kernel_tools.py ptx PROGRAM NN_name.ptx [OPTIONS]      the PTX that was assembled
    kernel_tools.py sass PROGRAM NN_name.cubin [OPTIONS]   what ptxas made of it
    kernel_tools.py ncu PROGRAM [OPTIONS]                  Nsight Compute
    kernel_tools.py sanitize PROGRAM [OPTIONS]             compute-sanitizer

PTX and SASS come with source lines. OPTIONS are the program's; without --variant=NAME, sanitize
takes every variant and the others the one that stands for the rung.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from lib import registry
from lib.cli import Problem, command
from lib.ptx import Locations, Place, Sources, functions
from lib.tools import SMALL, chosen, ncu_command, need, tool_environment, with_defaults

NOISE = re.compile(
    r"^\s*(\$L__(tmp|func_)\w+:|\.loc\b|\.file\b|//\s*(begin|end) inline asm|//\s*\.globl)"
)
SASS_SECTION = re.compile(r"//-+ \.text\.(\S+) -+")
SASS_LINE = re.compile(r'//## File "([^"]+)", line (\d+)')


def annotate_ptx(text: str) -> str:
    """The module's PTX with the source line above its instructions: the line of the stage file, and
    below it the wrapper's, in place of line numbers and debug sections."""
    sources, locations = Sources(), Locations(text)
    out: list[str] = []
    shown: list[Place] = []
    in_section = False
    for line in text.splitlines():
        if re.match(r"\s*\.section\b", line):
            in_section = True
        if in_section:
            in_section = not line.strip().startswith("}")
            continue
        places = locations.step(line)
        if places and places != shown:
            if places[:1] != shown[:1]:
                out.append(f"// {sources.line(*places[0])}")
            if len(places) > 1:
                out.append(f"//     {sources.line(*places[1])}")
            shown = places
        elif not NOISE.match(line) and (line.strip() or (out and out[-1].strip())):
            out.append(line)
            if line.startswith("}"):
                shown = []
    return "\n".join(out)


def only_entry(text: str, kernel: str) -> str:
    """A PTX module without the other entries."""
    entries = [one for one in functions(text) if one.kind == "entry"]
    if kernel not in [one.name for one in entries]:
        raise Problem(f"The PTX has no kernel {kernel}: the program and the PTX are of two builds.")
    for one in reversed(entries):
        if one.name != kernel:
            text = text[: one.start] + text[one.end :].removeprefix("\n")
    return text


def show_ptx(program: str, path: str, options: list[str]) -> int:
    kernel = chosen(program, options)["kernel"]
    print(annotate_ptx(only_entry(Path(path).read_text(encoding="utf-8"), kernel)))
    return 0


def show_sass(program: str, path: str, options: list[str]) -> int:
    kernel = chosen(program, options)["kernel"]
    run = subprocess.run(
        [need("nvdisasm"), "--print-code", "--print-line-info-inline", path],
        stdout=subprocess.PIPE, text=True, check=False,
    )
    sources, keep = Sources(), False
    places: list[Place] = []
    for line in run.stdout.splitlines():
        section = SASS_SECTION.match(line)
        if section:
            keep, places = section.group(1) == kernel, []
        place = SASS_LINE.search(line)
        if place:  # innermost first, one line a level of inlining
            places.append((place.group(1), int(place.group(2))))
        elif keep:
            for indent, (file, number) in zip(("", "    "), places[-1:] + places[:-1][:1]):
                print(f"// {indent}{sources.line(file, number)}")
            places = []
            print(line)
    return run.returncode


def profile(program: str, options: list[str]) -> int:
    ncu = need("ncu")
    variant = chosen(program, options)
    options = with_defaults(options + ["--check"], {"--variant": variant["variant"]})
    words = ncu_command(ncu, variant["kernel"]) + ["--kill", "yes"]
    for section in ("SpeedOfLight", "LaunchStats", "Occupancy", "WarpStateStats",
                    "MemoryWorkloadAnalysis"):
        words += ["--section", section]
    words += [program, *options]
    return subprocess.run(words, env=tool_environment(), check=False).returncode


def sanitize(program: str, options: list[str]) -> int:
    tool = need("compute-sanitizer")
    options = with_defaults(options + ["--check"], SMALL)
    worst = 0
    for check in ("memcheck", "racecheck", "synccheck"):
        words = [tool, "--tool", check, "--error-exitcode", "1"]
        if check == "synccheck":  # of mbarriers it tracks too few by itself, and then stops the kernel
            words += ["--num-cuda-barriers", "1024"]
        for kernel in sorted({v["kernel"] for v in registry.read(program) if v["kernel"]}):
            words += ["--kernel-name", f"kernel_name={kernel}"]
        print(f"{check}: {program} {' '.join(options)}", flush=True)
        run = subprocess.run([*words, program, *options], env=tool_environment(), check=False)
        worst = worst or run.returncode
    return worst


@command()
def main() -> int:
    looks = {"ptx": show_ptx, "sass": show_sass}
    runs = {"ncu": profile, "sanitize": sanitize}
    verb, rest = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if verb in looks and len(rest) >= 2:
        return looks[verb](rest[0], rest[1], rest[2:])
    if verb in runs and rest:
        return runs[verb](rest[0], rest[1:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
