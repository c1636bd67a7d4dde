"""Runs a program with other PTX in place of its own, on the PTX machine or on a GPU."""

from __future__ import annotations

import os
import re
import tempfile

from lib import tools
from lib.cli import ROOT, Problem

TOOLKIT = "it comes with the CUDA toolkit; put its bin folder on PATH or set CUDA_HOME"
Run = tuple[list[str], dict[str, str]]  # a command, and what its environment has more


def run_tool(name: str, ptx: str, *arguments: str) -> str:
    """What a tool of the toolkit says about a file; raises Problem if it refuses it."""
    tool = tools.find_tool(name)
    if tool is None:
        raise Problem(f"{name} is neither on PATH nor in CUDA_HOME: {TOOLKIT}")
    run = tools.run([tool, *arguments])
    if run.returncode != 0:
        raise Problem(f"{name} refused {ptx}: {run.stdout.strip()}")
    return run.stdout


def assemble(ptx: str, cubin: str) -> str:
    """ptxas on a file. Returns what it said."""
    return run_tool("ptxas", ptx, "-arch=sm_90a", ptx, "-o", cubin)


def make_fatbin(ptx: str, out: str) -> str:
    """A fat binary with the module's machine code and its PTX."""
    with tempfile.TemporaryDirectory() as scratch:
        cubin = os.path.join(scratch, "module.cubin")
        said = assemble(ptx, cubin)
        images = [f"--image3=kind={kind},sm=90a,file={file}"
                  for kind, file in (("elf", cubin), ("ptx", ptx))]  # fmt: skip
        run_tool("fatbinary", ptx, "-64", "--compress=false", f"--create={out}", *images)
    return said


def has_gpu() -> bool:
    """Whether programs are to run on a GPU: LADDER_DEVICE decides, else whether there is one."""
    wish = os.environ.get("LADDER_DEVICE")
    if wish not in (None, "", "gpu", "machine"):
        raise Problem(f"LADDER_DEVICE is '{wish}': it must be gpu or machine; without it a GPU is "
                      "used if there is one, else the PTX machine.")  # fmt: skip
    if wish:
        return wish == "gpu"
    found = tools.query_driver()
    return not isinstance(found, str) and bool(found[1])


def machine_run(command: list[str], ptx: str | None) -> Run:
    """(command, environment) of a program on the PTX machine, with these kernels in place of its
    own unless `ptx` is None. The ladder's programs go there themselves, others are started on
    it."""
    environment = {"LADDER_DEVICE": "machine"}
    if ptx is not None:
        environment["REPLACE_PTX"] = os.path.abspath(ptx)
    own = re.fullmatch(r"stage-\d+|ladder", os.path.basename(command[0]))
    launcher = [] if own else [str(ROOT / "build/ptx-machine")]
    return launcher + command, environment


def gpu_run(command: list[str], ptx: str) -> Run:
    """The same on a GPU, for a program linked with --cudart shared; assembles beside the PTX."""
    library = ROOT / "build/machine/libreplace_ptx.so"
    if not library.exists():
        raise Problem(f"{library} is not there: run make build/machine/libreplace_ptx.so")
    fatbin = os.path.splitext(os.path.abspath(ptx))[0] + ".fatbin"
    make_fatbin(ptx, fatbin)
    return command, {"LADDER_DEVICE": "gpu", "LD_PRELOAD": str(library),
                     "REPLACE_PTX": os.path.abspath(ptx), "REPLACE_FATBIN": fatbin}  # fmt: skip
