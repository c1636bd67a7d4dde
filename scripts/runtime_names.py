#!/usr/bin/env python3
"""What the PTX machine's stand-in for the CUDA runtime takes from the toolkit when it is built.

errors  writes the table of error codes, names and texts, as the toolkit's libcudart says them.
stubs   writes, for every name that the toolkit's libcudart and libcuda export and the stand-in's
        objects do not define, a function that refuses by name; aliases for the _ptsz and _ptds
        forms of what they do define; which names cuda.h renames; and the version script that gives
        all of them the version node of the toolkit's libcudart.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import subprocess
import sys
from pathlib import Path

from lib.cli import OK, Problem, command, parser_of
from lib.store import write_atomically

MAX_ERROR = 10000
ALIAS = re.compile(r"_(ptsz|ptds)$")


def c_string(text: str | None) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if text else "nullptr"


def errors(args: argparse.Namespace) -> None:
    """Lines {status, runtime's name, text, driver's name}."""
    library = ctypes.CDLL(args.cudart)
    for call in (library.cudaGetErrorName, library.cudaGetErrorString):
        call.restype = ctypes.c_char_p
    header = Path(args.header).read_text(encoding="utf-8")
    found = re.findall(r"\b(CUDA_SUCCESS|CUDA_ERROR_\w+)\s*=\s*(\d+)", header)
    driver = {int(status): name for name, status in found}
    unknown = library.cudaGetErrorName(MAX_ERROR + 1)
    for status in range(MAX_ERROR + 1):
        name = library.cudaGetErrorName(status)
        if name == unknown and status not in driver:
            continue
        if name == unknown:  # the driver's alone
            runtime_name, text = None, driver[status]
        else:
            runtime_name, text = name.decode(), library.cudaGetErrorString(status).decode()
        names = map(c_string, (runtime_name, text, driver.get(status)))
        print("{%d, %s}," % (status, ", ".join(names)))


def rows_of(nm: str, *arguments: str) -> list[list[str]]:
    """The words of each line that nm prints of what is defined."""
    command = [nm, "--defined-only", *arguments]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [line.split() for line in ended.stdout.splitlines()]


def exported(nm: str, path: str) -> tuple[set[str], str | None]:
    """(names of functions and data, version node or None) of a shared library."""
    rows = [words[-2:] for words in rows_of(nm, "-D", path)]
    nodes = [name.split("@")[0] for kind, name in rows if kind == "A"]
    names = {name.split("@")[0] for kind, name in rows if kind != "A"}
    return names, nodes[0] if nodes else None


def defined(nm: str, paths: list[str]) -> set[str]:
    return {words[-1] for words in rows_of(nm, "-g", *paths) if len(words) == 3}


def renames(header: str) -> list[tuple[str, ...]]:
    """(documented name, exported name) of each `#define cuMemAlloc cuMemAlloc_v2` of cuda.h.

    Those that differ by the default stream are __CUDA_API_PTDS(cuMemcpyHtoD_v2) there.
    """
    text = Path(header).read_text(encoding="utf-8")
    define = r"^#define (cu[A-Z]\w*)\s+(?:__CUDA_API_PT(?:DS|SZ)\()?(cu[A-Z]\w*)\)?$"
    return sorted({pair for pair in re.findall(define, text, re.M) if pair[0] != pair[1]})


def stubs(args: argparse.Namespace) -> None:
    names, node = exported(args.nm, args.cudart)
    if args.cuda:
        names |= exported(args.nm, args.cuda)[0]
    have = defined(args.nm, args.objects)
    refused, aliases = [], []
    for name in sorted(names - have):
        plain = ALIAS.sub("", name)
        if plain != name and plain in have:
            aliases.append(f"-Wl,--defsym={name}={plain}")
        else:
            refused.append(name)
    lines = ["int ptx_machine_refuse(const char* name);"]
    for name in refused:
        lines.append(f"int {name}(void);")
        lines.append(f'int {name}(void) {{ return ptx_machine_refuse("{name}"); }}')
    lines.append("extern const char* const ptx_machine_renamed[];")
    lines.append("const char* const ptx_machine_renamed[] = {")
    found = [(name, renamed) for name, renamed in renames(args.header) if renamed in names]
    lines += [f'    "{name}", "{renamed}",' for name, renamed in found] + ["    0};"]
    kept = "cuda*; __cuda*; cu[A-Z]*; ptx_machine; ptx_machine_set_policy"
    write_atomically(args.out / "stubs.c", "\n".join(lines) + "\n")
    write_atomically(args.out / "aliases.rsp", "\n".join(aliases) + "\n")
    write_atomically(args.out / "exports.map", f"{node} {{ global: {kept}; local: *; }};\n")


def check_toolkit(args: argparse.Namespace) -> None:
    """A toolkit that was installed in parts can have nvcc and lack these."""
    for path, what in ((args.cudart, "libcudart.so.NN"), (args.header, "cuda.h")):
        if not Path(path).is_file():
            where = f" at {path}" if path else ""
            raise Problem(
                f"The toolkit has no {what}{where}, which the PTX machine is built from: install "
                "the package cuda-cudart-dev-<version>, or say make CUDA_HOME=..."
            )


@command()
def main() -> int:
    parser = parser_of(__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for run in (errors, stubs):
        one = commands.add_parser(run.__name__)
        one.set_defaults(run=run)
        one.add_argument("--cudart", required=True, help="the toolkit's libcudart")
        one.add_argument("--header", required=True, help="the toolkit's cuda.h")
    one.add_argument("--cuda", help="the toolkit's stub of libcuda; without it none of its names")
    one.add_argument("--nm", default="nm")
    one.add_argument("--out", required=True, type=Path,
                     help="folder for stubs.c, aliases.rsp, exports.map")  # fmt: skip
    one.add_argument("objects", nargs="+", help="the stand-in's objects")
    args = parser.parse_args()
    check_toolkit(args)
    args.run(args)
    return OK


if __name__ == "__main__":
    sys.exit(main())
