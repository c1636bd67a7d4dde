"""Tools of the CUDA toolkit, and the options of a stage program that they run."""

from __future__ import annotations

import ctypes
import glob
import json
import os
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lib import registry
from lib.cli import ROOT, Problem
from lib.registry import Variant
from lib.rows import Row

Device = tuple[str, int, int, int]  # name, compute capability, SMs
GET = {
    "nvdisasm": "it comes with the CUDA toolkit (package cuda-nvdisasm-<version>); make nvdisasm "
    "gets it with pip",
    "ncu": "it comes with the CUDA toolkit (package cuda-nsight-compute-<version>) or from "
    "https://developer.nvidia.com/nsight-compute",
    "compute-sanitizer": "it comes with the CUDA toolkit (package cuda-sanitizer-<version>)",
}

# A small shape, ragged in all three dimensions: a tool makes a kernel slower a hundredfold.
SMALL = {"--m": "200", "--n": "264", "--k": "136"}
DEFAULT_SIZE = "8192"  # of the programs, on a GPU
# Of a rung's problem, beside its sizes.
PARAMETERS = (
    "--type=", "--layout=", "--scales=", "--bits=", "--groups=", "--rows=", "--kind=", "--act=", "--add=",
)  # fmt: skip


def find_tool(name: str) -> str | None:
    """Path of a tool of the toolkit, on PATH, in CUDA_HOME or from pip, whose packages have their
    programs in nvidia/*/bin, in build/nvdisasm too; or None."""
    home = os.environ.get("CUDA_HOME", "")
    folders = [os.path.join(home, part) for part in ("bin", "compute-sanitizer") if home]
    roots = site.getsitepackages() + [site.getusersitepackages()] + sys.path
    roots.append(str(ROOT / "build/nvdisasm"))
    for root in dict.fromkeys(roots):
        folders += sorted(glob.glob(os.path.join(glob.escape(root), "nvidia", "*", "bin")))
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))


def need(name: str) -> str:
    tool = find_tool(name)
    if tool is None:
        raise Problem(f"{name} is neither on PATH nor in CUDA_HOME nor from pip: {GET[name]}.")
    return tool


def query_driver() -> str | tuple[int, list[Device]]:
    """(CUDA version of the driver, its devices) or a sentence why there is none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver (libcuda.so.1) on this machine"
    status = cuda.cuInit(0)
    if status != 0:
        return f"the driver is installed, but cuInit fails with error {status}"
    number, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(number))
    cuda.cuDeviceGetCount(ctypes.byref(count))
    devices = []
    sm_count, major, minor = 16, 75, 76  # CUdevice_attribute of cuda.h
    for i in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(128)
        cuda.cuDeviceGet(ctypes.byref(device), i)
        cuda.cuDeviceGetName(name, len(name), device)
        values = []
        for attribute in (major, minor, sm_count):
            value = ctypes.c_int()
            cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            values.append(value.value)
        devices.append((name.value.decode(), values[0], values[1], values[2]))
    return number.value, devices


def has_machine(root: Path) -> bool:
    """Whether the PTX machine is built."""
    return any((root / "build/machine").glob("libcudart.so.*"))


def toolkit() -> str | None:
    """nvcc's version as the results have it, such as 13.0.88; None without nvcc."""
    home = os.environ.get("CUDA_HOME")
    for nvcc in ([f"{home}/bin/nvcc"] if home else []) + ["nvcc", "/usr/local/cuda/bin/nvcc"]:
        try:
            said = subprocess.run([nvcc, "--version"], capture_output=True, text=True)
        except OSError:
            continue
        found = re.search(r"release [\d.]+, V([\d.]+)", said.stdout)
        if found:
            return found.group(1)
    return None


# --- a stage program and what it is told ---------------------------------------------------------


def given(options: list[str], name: str) -> str | None:
    return next((o.split("=", 1)[1] for o in options if o.startswith(name + "=")), None)


def with_defaults(options: list[str], defaults: dict[str, str]) -> list[str]:
    return options + [f"{k}={v}" for k, v in defaults.items() if given(options, k) is None]


def tool_environment() -> dict[str, str]:
    return dict(os.environ, LADDER_TIMEOUT="0")


def run(
    words: Sequence[str | Path], environment: Mapping[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """A program with more in its environment. All that it prints is in stdout."""
    return subprocess.run(
        words, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, **more,
    )  # fmt: skip


def chosen(program: str, options: list[str]) -> Variant:
    """The variant that OPTIONS name, or the one that stands for the rung. The program judges them."""
    name = given(options, "--variant")
    rows = registry.parse(registry.ask(program, "--list", *options))
    for row in rows:
        if row["variant"] == name or (name is None and row["result"]):
            return as_chosen(program, row, options) if row["chooses"] else row
    names = ", ".join(row["variant"] for row in rows)
    raise Problem(f"There is no variant {name}; the rung has {names}.")


def as_chosen(program: str, row: Variant, options: list[str]) -> Variant:
    """A chooser's row with the kernel that it would run at the options' shape."""
    sizes = [given(options, f"--{letter}") or DEFAULT_SIZE for letter in "mnk"]
    args = [o[2:] for o in options if o.startswith(PARAMETERS)]
    m, n, k = map(int, sizes)
    asked = Row(row["stage"], row["variant"], m, n, k, "burst", ",".join(args))
    more = [o for o in options if o.startswith(("--grid=", "--workspace="))]
    said = registry.ask(program, "--choices", *more, rows=[asked])
    return {**row, "kernel": json.loads(said)["kernel"]}


def ncu_command(ncu: str, kernel: str) -> list[str]:
    """ncu on the first launch of that kernel, at the clocks of every other run."""
    command = [ncu, "--clock-control", "none", "--launch-count", "1"]
    return command + ["--kernel-name-base", "mangled", "--kernel-name", kernel]
