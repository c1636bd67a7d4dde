#!/usr/bin/env python3
"""What will work on this machine and what will not, each with the fix.

Exit codes: 0 `make ladder` and `make test` work, on a GPU or else on the PTX machine, as the last
line says; 1 the build lacks something.
"""

from __future__ import annotations

import argparse
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from lib import tools
from lib.cli import command, parser_of
from lib.tools import GET, find_tool, query_driver

Version = tuple[int, ...]
OK, NO, NOTE = "ok  ", "NO  ", "note"
MIN_NVCC = (12, 8)
# The oldest driver that runs programs of a toolkit, by the toolkit's major version.
MIN_DRIVER = {12: "525", 13: "580"}


def say(mark: str, what: str, text: str) -> None:
    print(f"{mark} {what:18} {text}")


def output(command: list[str]) -> str | None:
    """A command's output, or None if it cannot be run or fails."""
    try:
        run = tools.run(command, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None


def check_build(args: argparse.Namespace) -> tuple[bool, Version | None]:
    """Compilers, toolkit, make, Python. Returns whether the ladder can be built."""
    needed = []

    def need(found: object, what: str, right: str, wrong: str) -> None:
        say(OK if found else NO, what, right if found else wrong)
        needed.append(bool(found))

    release = re.search(r"release (\d+)\.(\d+)", output([args.nvcc, "--version"]) or "")
    number = (int(release[1]), int(release[2])) if release else None
    name = f"{release[1]}.{release[2]}" if release else ""
    need(number and number >= MIN_NVCC, "nvcc", f"{name}, {args.nvcc}",
         f"{name}: CUDA 12.8 or newer is needed" if number else
         f"none at {args.nvcc}: install CUDA 12.8 or newer, or set CUDA_HOME")  # fmt: skip
    compiler = output([args.cxx, "--version"]) if args.cxx else None
    need(compiler, "host compiler", compiler.splitlines()[0] if compiler else "",
         f"no {args.cxx}: install g++ 11 or newer, or say make CXX=...")  # fmt: skip
    for what, pattern, package in (
        ("CUDA runtime", "libcudart.so*", "cuda-cudart-dev"),
        ("cuBLASLt", "libcublasLt.so*", "libcublas-dev"),
    ):
        found = glob.glob(os.path.join(args.cuda_lib, pattern))
        wrong = f"no {pattern} in {args.cuda_lib}: install {package} of the toolkit"
        need(found, what, min(found, key=len, default=""), wrong)
    say(OK if sys.version_info >= (3, 9) else NO, "Python", platform.python_version())
    if output([args.cxx, "-E", "-x", "c++", "-include", "doctest/doctest.h", os.devnull]) or (
        os.path.exists("build/doctest/doctest/doctest.h")
    ):
        say(OK, "doctest", "found")
    elif shutil.which("apt-get"):
        say(NOTE, "doctest", "make test will unpack the package doctest-dev into build/, no root")
    else:
        say(NO, "doctest", "for make test only: install it, or say make test DOCTEST_DIR=...")
    return all(needed), number


def check_gpu(toolkit: Version | None) -> bool:
    """Driver and devices. Returns whether the ladder can run."""
    found = query_driver()
    if isinstance(found, str):
        say(NO, "GPU", f"{found}: rungs run on the PTX machine, checked but not timed")
        return False
    number, devices = found
    driver = (number // 1000, number % 1000 // 10)
    fits = True
    text = f"supports CUDA {driver[0]}.{driver[1]}"
    if toolkit and driver[0] < toolkit[0]:
        fits = False
        need = MIN_DRIVER.get(toolkit[0], f"one for CUDA {toolkit[0]}")
        text += f", the toolkit is {toolkit[0]}.{toolkit[1]}: install driver {need} or newer, or an"
        text += " older toolkit (12.8 at least) and set CUDA_HOME"
    say(OK if fits else NO, "driver", text)
    usable = [device for device in devices if device[1:3] == (9, 0)]
    for name, major, minor, sms in devices:
        mark = OK if (major, minor) == (9, 0) else NOTE
        say(mark, "GPU", f"{name}, compute capability {major}.{minor}, {sms} SMs")
    if not usable:
        say(NO, "GPU", "none of compute capability 9.0 (H100, H200, GH200), the only one that runs sm_90a"
            " code: rungs run on the PTX machine, checked but not timed")
    elif devices[0] not in usable:
        say(NOTE, "GPU", "device 0 is not the Hopper: set CUDA_VISIBLE_DEVICES to the one that is")
        usable = []
    return fits and bool(usable)


def no_gpu() -> str:
    """Why there is no GPU to measure on, "" if there is one."""
    found = query_driver()
    if isinstance(found, str):
        return found
    if any(device[1:3] == (9, 0) for device in found[1]):
        return ""
    names = ", ".join(f"{name} ({major}.{minor})" for name, major, minor, _ in found[1])
    return f"the driver finds {names or 'no device'}"


def check_machine() -> None:
    if tools.has_machine(Path()):
        say(OK, "PTX machine", "in build/machine; build/ptx-machine PROGRAM runs others on it")
    else:
        say(NOTE, "PTX machine", "not built yet: make machine, make ladder and make stage-N build it")
    wanted = os.environ.get("LADDER_DEVICE")
    if wanted is not None:
        say(NOTE, "LADDER_DEVICE", f"is '{wanted}': gpu and machine override what is found here")


def check_clocks() -> None:
    fields = "clocks.sm,clocks.max.sm,power.limit,power.max_limit,mig.mode.current"
    text = output(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"])
    if text is None:
        say(NOTE, "clocks and power", "no nvidia-smi: not shown; measuring needs neither")
        return
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == 5:
            say(OK, "clocks and power", f"SM clock now {values[0]}, at most {values[1]}; power limit"
                f" {values[2]} of {values[3]}; MIG {values[4]}")
    busy = output(["nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader"])
    if busy:
        say(NOTE, "other programs", f"{len(busy.splitlines())} on the GPU: they will disturb numbers")


def check_tools(gpu: bool) -> None:
    for name, target in (
        ("nvdisasm", "make sass-N"), ("ncu", "make ncu-N"), ("compute-sanitizer", "make sanitize-N")
    ):
        tool = find_tool(name)
        if tool is None:
            say(NO, target, f"no {name}: {GET[name]}")
        elif target != "make sass-N" and not gpu:
            say(NO, target, f"{tool} is here, a GPU is not")
        else:
            say(OK, target, tool)
    path = Path("/proc/driver/nvidia/params")
    if gpu and find_tool("ncu") and path.exists() and os.geteuid() != 0:
        if "RmProfilingAdminOnly: 1" in path.read_text(encoding="utf-8"):
            say(NO, "make ncu-N", "the driver keeps counters for root (RmProfilingAdminOnly: 1): "
                "run as root, or load the module with NVreg_RestrictProfilingToAdminUsers=0")


@command()
def main() -> int:
    if sys.argv[1:] == ["--no-gpu"]:  # for the Makefile
        print(no_gpu())
        return 0
    parser = parser_of(__doc__)
    for name in ("--nvcc", "--cuda-lib", "--cxx"):
        parser.add_argument(name, required=True)
    args = parser.parse_args()
    builds, toolkit = check_build(args)
    gpu = check_gpu(toolkit)
    check_machine()
    check_clocks()
    check_tools(gpu)
    print()
    if not builds:
        print("The ladder cannot be built here: see the lines marked NO.")
        return 1
    if gpu:
        print("Everything that make ladder needs is here.")
    else:
        print("No usable GPU: make ladder runs every rung on the PTX machine, which checks results, races")
        print("and hangs and measures nothing. docs/machine.md says how it works. All that this needs is")
        print("here.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
