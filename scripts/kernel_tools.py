#!/usr/bin/env python3
"""Looks at a rung's kernels, or runs them under a tool.

    kernel_tools.py ptx PROGRAM NN_name.ptx [OPTIONS]      the PTX that was assembled
    kernel_tools.py sass PROGRAM NN_name.cubin [OPTIONS]   what ptxas made of it
    kernel_tools.py ncu PROGRAM [OPTIONS]                  Nsight Compute
    kernel_tools.py sanitize PROGRAM [OPTIONS]             compute-sanitizer

PTX and SASS come with source lines. OPTIONS are the program's; without --variant=NAME, sanitize
takes every variant and the others the one that stands for the rung.
"""

import glob
import json
import os
import re
import shutil
import site
import subprocess
import sys

import registry

GET = {
    "nvdisasm": "it comes with the CUDA toolkit (package cuda-nvdisasm-<version>), or by "
    "pip install nvidia-cuda-nvdisasm",
    "ncu": "it comes with the CUDA toolkit (package cuda-nsight-compute-<version>) or from "
    "https://developer.nvidia.com/nsight-compute",
    "compute-sanitizer": "it comes with the CUDA toolkit (package cuda-sanitizer-<version>)",
}

FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
NOISE = re.compile(r"^\s*(\$L__(tmp|func_)\w+:|\.loc\b|\.file\b|//\s*(begin|end) inline asm|//\s*\.globl)")
ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)?\.entry\s+([\w$]+)", re.MULTILINE)
SASS_SECTION = re.compile(r"//-+ \.text\.(\S+) -+")
SASS_LINE = re.compile(r'//## File "([^"]+)", line (\d+)')

# A small shape, ragged in all three dimensions: a tool makes a kernel slower a hundredfold.
SMALL = {"--m": "200", "--n": "264", "--k": "136"}
DEFAULT_SIZE = "8192"  # of the programs, on a GPU


def pip_folders():
    """Where packages of pip, nvidia-cuda-nvdisasm for one, have their programs: nvidia/*/bin."""
    roots = site.getsitepackages() + [site.getusersitepackages()] + sys.path
    return [path for root in dict.fromkeys(roots)
            for path in sorted(glob.glob(os.path.join(glob.escape(root), "nvidia", "*", "bin")))]


def find_tool(name):
    """Path of a tool of the toolkit, on PATH, in CUDA_HOME or from pip; or None."""
    home = os.environ.get("CUDA_HOME", "")
    inside = [os.path.join(home, part) for part in ("bin", "compute-sanitizer") if home]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(inside + pip_folders()))


def need(name):
    tool = find_tool(name)
    if tool is None:
        print(f"{name} is neither on PATH nor in CUDA_HOME nor from pip: {GET[name]}.", file=sys.stderr)
        sys.exit(2)
    return tool


class Sources:
    """Lines of source files by path and number."""

    def __init__(self):
        self.files = {}

    def line(self, path, number):
        if path not in self.files:
            try:
                with open(path, encoding="utf-8") as file:
                    self.files[path] = file.read().splitlines()
            except OSError:
                self.files[path] = []
        lines = self.files[path]
        text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return f"{os.path.relpath(path)}:{number}  {text}"


class Locations:
    """Where the instructions of a PTX module come from, told by its .loc lines in order."""

    def __init__(self, text):
        self.names = {number: path for number, path in FILE.findall(text)}
        self.caller = {}

    def chain(self, line):
        """After a .loc line: every place on the way from the outermost to the innermost, which code
        of the first was inlined from, each (path, line number). None for other lines and for
        compiler-made code."""
        loc = LOC.search(line)
        if not loc or loc.group(2) == "0":
            return None
        place, outer = loc.groups()[:3], loc.groups()[3:]
        self.caller[place] = outer if outer[0] else None
        chain = [place]
        while self.caller.get(chain[-1]) and self.caller[chain[-1]] not in chain:
            chain.append(self.caller[chain[-1]])
        return [(self.names[file], int(number)) for file, number, _ in reversed(chain)]

    def step(self, line):
        """After a .loc line: the outermost place, then the innermost if code was inlined there.
        None as for chain()."""
        chain = self.chain(line)
        return chain and chain[:1] + chain[1:][-1:]


def source_line(ptx, number):
    """"path:line" that line `number` of a PTX module comes from; "" if it does not say."""
    locations, place = Locations(ptx), None
    for line in ptx.splitlines()[:number]:
        place = locations.step(line) or place
    return f"{os.path.relpath(place[0][0])}:{place[0][1]}" if place else ""


def annotate_ptx(text):
    """The module's PTX with the source line above its instructions: the line of the stage file, and
    below it the wrapper's, in place of line numbers and debug sections."""
    sources, locations, out, shown = Sources(), Locations(text), [], [None]
    in_section = False
    for line in text.splitlines():
        if re.match(r"\s*\.section\b", line):
            in_section = True
        if in_section:
            in_section = not line.strip().startswith("}")
            continue
        places = locations.step(line)
        if places and places != shown:
            if places[0] != shown[0]:
                out.append(f"// {sources.line(*places[0])}")
            if len(places) > 1:
                out.append(f"//     {sources.line(*places[1])}")
            shown = places
        elif not NOISE.match(line) and (line.strip() or (out and out[-1].strip())):
            out.append(line)
            if line.startswith("}"):
                shown = [None]
    return "\n".join(out)


def only_entry(text, kernel):
    """A PTX module without the other entries."""
    keep, out = True, []
    if kernel not in ENTRY.findall(text):
        sys.exit(f"The PTX has no kernel {kernel}: the program and the PTX are of two builds.")
    for line in text.splitlines():
        head = ENTRY.match(line)
        if head:
            keep = head.group(1) == kernel
        if keep:
            out.append(line)
        if line.startswith("}"):
            keep = True
    return "\n".join(out)


def show_ptx(program, path, options):
    kernel = chosen(program, options)["kernel"]
    with open(path, encoding="utf-8") as file:
        print(annotate_ptx(only_entry(file.read(), kernel)))
    return 0


def show_sass(program, path, options):
    kernel = chosen(program, options)["kernel"]
    run = subprocess.run(
        [need("nvdisasm"), "--print-code", "--print-line-info-inline", path],
        stdout=subprocess.PIPE, text=True, check=False,
    )
    sources, places, keep = Sources(), [], False
    for line in run.stdout.splitlines():
        section = SASS_SECTION.match(line)
        if section:
            keep, places = section.group(1) == kernel, []
        place = SASS_LINE.search(line)
        if place:  # innermost first, one line a level of inlining
            places.append((place.group(1), int(place.group(2))))
        elif keep:
            for indent, (path, number) in zip(("", "    "), places[-1:] + places[:-1][:1]):
                print(f"// {indent}{sources.line(path, number)}")
            places = []
            print(line)
    return run.returncode


def given(options, name):
    return next((o.split("=", 1)[1] for o in options if o.startswith(name + "=")), None)


def with_defaults(options, defaults):
    return options + [f"{k}={v}" for k, v in defaults.items() if given(options, k) is None]


def tool_environment():
    return dict(os.environ, LADDER_TIMEOUT="0")


def chosen(program, options):
    """The variant that OPTIONS name, or the one that stands for the rung."""
    name = given(options, "--variant")
    rows = registry.read(program)
    for row in rows:
        if row["variant"] == name or (name is None and row["result"]):
            return as_chosen(program, row, options) if row["chooses"] else row
    sys.exit(f"There is no variant {name}; the rung has {', '.join(row['variant'] for row in rows)}.")


def as_chosen(program, row, options):
    """A chooser's row with the kernel that it would run at the options' shape."""
    sizes = [given(options, f"--{letter}") or DEFAULT_SIZE for letter in "mnk"]
    parameters = ("--type=", "--layout=", "--scales=", "--bits=", "--act=", "--add=")
    args = [o[2:] for o in options if o.startswith(parameters)]
    line = " ".join([str(row["stage"]), row["variant"], *sizes, "burst", ",".join(args)])
    command = [program, "--choices"]
    command += [o for o in options if o.startswith(("--grid=", "--workspace="))]
    said = subprocess.run(command, input=line, stdout=subprocess.PIPE, text=True, check=True)
    return {**row, "kernel": json.loads(said.stdout)["kernel"]}


def ncu_command(ncu, kernel):
    """ncu on the first launch of that kernel, at the clocks of every other run."""
    command = [ncu, "--clock-control", "none", "--launch-count", "1"]
    return command + ["--kernel-name-base", "mangled", "--kernel-name", kernel]


def profile(program, options):
    ncu = need("ncu")
    variant = chosen(program, options)
    options = with_defaults(options + ["--check"], {"--variant": variant["variant"]})
    command = ncu_command(ncu, variant["kernel"]) + ["--kill", "yes"]
    for section in ("SpeedOfLight", "LaunchStats", "Occupancy", "WarpStateStats",
                    "MemoryWorkloadAnalysis"):
        command += ["--section", section]
    return subprocess.run(
        command + [program] + options, env=tool_environment(), check=False
    ).returncode


def sanitize(program, options):
    tool = need("compute-sanitizer")
    options = with_defaults(options + ["--check"], SMALL)
    worst = 0
    for check in ("memcheck", "racecheck", "synccheck"):
        command = [tool, "--tool", check, "--error-exitcode", "1"]
        for kernel in sorted({v["kernel"] for v in registry.read(program) if v["kernel"]}):
            command += ["--kernel-name", f"kernel_name={kernel}"]
        print(f"{check}: {program} {' '.join(options)}", flush=True)
        run = subprocess.run(command + [program] + options, env=tool_environment(), check=False)
        worst = worst or run.returncode
    return worst


def main():
    looks = {"ptx": show_ptx, "sass": show_sass}
    runs = {"ncu": profile, "sanitize": sanitize}
    verb, rest = sys.argv[1:2], sys.argv[2:]
    if verb and verb[0] in looks and len(rest) >= 2:
        return looks[verb[0]](rest[0], rest[1], rest[2:])
    if verb and verb[0] in runs and rest:
        return runs[verb[0]](rest[0], rest[1:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
