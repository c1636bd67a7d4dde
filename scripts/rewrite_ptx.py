#!/usr/bin/env python3
"""Rewrites the PTX of a rung, so that its source stays untouched. Python standard library only.

    rewrite_ptx.py --sleep SEED [--kernel NAME] IN.ptx OUT.ptx   seeded sleeps, so that events come
                                                                 in another order
    rewrite_ptx.py --stamp [--kernel NAME] IN.ptx OUT.ptx        clock stamps, for scripts/trace.py
    rewrite_ptx.py --mutate NAME IN.ptx OUT.ptx                  a bug from scripts/mutations.py
    rewrite_ptx.py --fatbin OUT.fatbin IN.ptx                    assembles, for a run on a GPU
    rewrite_ptx.py --sleep SEED IN.ptx OUT.ptx --run PROGRAM ... runs a program with it

IN.ptx is what `nvcc -lineinfo` wrote: its .loc lines lead from an instruction to the stage file, so
that a place is found by what the source says there, not by a number that the next edit changes.
--run, last on the line, takes the GPU if there is one and LADDER_DEVICE does not say machine, else
the PTX machine.
"""

import argparse
import ctypes
import fnmatch
import os
import re
import subprocess
import sys
import tempfile

from kernel_tools import ENTRY, Locations, Sources, find_tool

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Problem(Exception):
    """Something the user must mend; the message is one sentence."""


# --- reading -------------------------------------------------------------------------------------

# In a function's body. A brace that opens a statement is a scope, one inside it a vector.
TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
      | (?P<loc>\.loc\b[^\n]*)
      | (?P<label>[\w$]+\s*:)
      | (?P<scope>[{}])
      | (?P<statement>[^;]+;)""",
    re.VERBOSE,
)
INSTRUCTION = re.compile(r"(@!?[\w$%]+\s+)?([a-z][\w.:]*)\s*(.*);", re.DOTALL)


def split_operands(text):
    """Operands of an instruction: split at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "[{(") - (char in "]})")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


class Instruction:
    """One instruction. `start` and `end` are its offsets in the module's text, guard and semicolon
    included; `places` leads from the outermost place, the stage file's, to the innermost, each
    (path, line number)."""

    def __init__(self, start, end, guard, opcode, operands, places):
        self.start, self.end = start, end
        self.guard, self.opcode, self.operands = guard, opcode, operands
        self.places = places

    def text(self, opcode=None, operands=None):
        """The instruction with another opcode or other operands."""
        listed = ", ".join(self.operands if operands is None else operands)
        return f"{self.guard}{opcode or self.opcode} {listed}".rstrip() + ";"


class Kernel:
    """One .entry of a module: its instructions in order, and edits of them."""

    def __init__(self, module, name, start, end):
        self.module, self.name = module, name
        self.body = start  # offset of the first character after the opening brace
        self.end = end
        self.instructions, self.labels = [], {}  # label: offset of what follows its colon
        self.scan()

    def scan(self):
        text, at, chain = self.module.text, self.body, []
        while at < self.end:
            token = TOKEN.match(text, at, self.end)
            if token is None:
                raise Problem(f"{self.name}: cannot read the PTX at \"{text[at:at + 40]}\"")
            if token.lastgroup == "loc":
                chain = self.module.locations.chain(token.group()) or chain
            elif token.lastgroup == "label":
                self.labels[token.group().rstrip(": \t")] = token.end()
            elif token.lastgroup == "statement" and not token.group().startswith("."):
                parts = INSTRUCTION.fullmatch(token.group())
                if parts is None:
                    raise Problem(f"{self.name}: cannot read \"{token.group()}\"")
                guard, opcode, operands = parts.groups()
                self.instructions.append(Instruction(
                    token.start(), token.end(), guard or "", opcode, split_operands(operands), chain
                ))
            at = token.end()

    def find(self, opcode="*", at=None):
        """Instructions whose opcode matches a glob, from a source line that has `at` in it. A call
        that was inlined counts: any line on the way from the stage file to the instruction."""
        return [
            i for i in self.instructions
            if fnmatch.fnmatchcase(i.opcode, opcode) and (at is None or self.comes_from(i, at))
        ]

    def comes_from(self, instruction, at):
        return any(at in self.module.sources.line(*place) for place in instruction.places)

    def one(self, opcode="*", at=None, nth=None):
        """The only such instruction, or the n-th, from 0."""
        found = self.find(opcode, at)
        if nth is None and len(found) == 1:
            return found[0]
        if nth is not None and -len(found) <= nth < len(found):
            return found[nth]
        where = f' from "{at}"' if at else ""
        which = "exactly one" if nth is None else f"a number {nth}"
        raise Problem(
            f"{self.name} has {len(found)} instructions {opcode}{where}, where {which} is needed"
        )

    def after(self, instruction):
        """The instructions behind one, in the order of the text."""
        return self.instructions[self.instructions.index(instruction) + 1:]

    def before(self, instruction):
        """The instructions in front of one, the nearest first."""
        return self.instructions[:self.instructions.index(instruction)][::-1]

    def next_label(self, instruction):
        """Offset behind the first label that follows an instruction; its own end if none does."""
        behind = [offset for offset in self.labels.values() if offset > instruction.end]
        return min(behind, default=instruction.end)

    # Edits take effect in Module.rewritten(), all at once.
    def delete(self, instruction):
        self.module.edit(instruction.start, instruction.end, "")

    def replace(self, instruction, opcode=None, operands=None):
        """`operands` is the whole list, or {index: text}."""
        if isinstance(operands, dict):
            operands = [operands.get(i, old) for i, old in enumerate(instruction.operands)]
        self.module.edit(instruction.start, instruction.end, instruction.text(opcode, operands))

    def replace_with(self, instruction, text):
        self.module.edit(instruction.start, instruction.end, text)

    def insert_before(self, instruction, text):
        self.module.edit(instruction.start, instruction.start, text + "\n\t")

    def insert_after(self, instruction, text):
        self.module.edit(instruction.end, instruction.end, "\n\t" + text)

    def insert_at(self, offset, text):
        self.module.edit(offset, offset, "\n\t" + text)

    def insert_at_entry(self, text):
        self.insert_at(self.body, text)

    def move_after(self, instruction, other):
        self.delete(instruction)
        self.insert_after(other, instruction.text())


class Module:
    """The PTX of one module. Kernels are read when they are asked for."""

    def __init__(self, text):
        self.text = text
        self.locations = Locations(text)
        self.sources = Sources()
        self.edits, self.read = [], {}
        self.names = ENTRY.findall(text)

    def kernel(self, name):
        """By mangled name."""
        if name not in self.names:
            raise Problem(f"the PTX has no kernel {name}, only {', '.join(self.names)}")
        if name not in self.read:
            head = next(e for e in ENTRY.finditer(self.text) if e.group(1) == name)
            start = self.text.index("{", head.end()) + 1
            self.read[name] = Kernel(self, name, start, self.text.index("\n}", start) + 1)
        return self.read[name]

    def edit(self, start, end, text):
        self.edits.append((start, end, text))

    def add_global(self, text):
        """A module-scope declaration, before the first kernel."""
        first = ENTRY.search(self.text).start()
        self.edit(first, first, text + "\n\n")

    def rewritten(self):
        """The text with all edits. Insertions at one place keep the order in which they came."""
        out, at = [], 0
        for start, end, new in sorted(self.edits, key=lambda edit: edit[:2]):
            if start < at:
                raise Problem(f"two edits of one instruction: \"{self.text[start:end]}\"")
            out += [self.text[at:start], new]
            at = end
        return "".join(out + [self.text[at:]])


def load(path):
    with open(path, encoding="utf-8") as file:
        return Module(file.read())


def chosen_kernels(module, name):
    return [module.kernel(each) for each in ([name] if name else module.names)]


# --- sleeps --------------------------------------------------------------------------------------

SLEEP_BEFORE = (
    "mbarrier.try_wait.*", "mbarrier.test_wait.*", "mbarrier.arrive.*", "cp.async.*",
    "wgmma.fence.*", "wgmma.mma_async.*", "wgmma.wait_group.*", "bar.sync", "barrier.cluster.*",
    "fence.*", "ldmatrix.*",
)  # fmt: skip
SLEEP_STATE = """\
.reg .b32 %sleep_state;
	{ .reg .b32 sleep_part;
	  mov.u32 sleep_part, %ctaid.x;
	  mad.lo.u32 %sleep_state, sleep_part, 0x9e3779b1, SEED;
	  mov.u32 sleep_part, %ctaid.y;
	  mad.lo.u32 %sleep_state, sleep_part, 0x85ebca6b, %sleep_state;
	  mov.u32 sleep_part, %tid.x;
	  shr.u32 sleep_part, sleep_part, 5;
	  mad.lo.u32 %sleep_state, sleep_part, 0xc2b2ae35, %sleep_state; }"""
# A linear congruential generator a warp; the sleep is the product of 8 and 4 of its bits, so short
# ones are many and long ones, up to 3.8 us, few. Nanoseconds, which the hardware takes as a hint.
SLEEP = """\
{ .reg .b32 sleep_a, sleep_b;
	  mad.lo.u32 %sleep_state, %sleep_state, 1664525, 1013904223;
	  shr.u32 sleep_a, %sleep_state, 24;
	  bfe.u32 sleep_b, %sleep_state, 20, 4;
	  mul.lo.u32 sleep_a, sleep_a, sleep_b;
	  nanosleep.u32 sleep_a; }"""


def add_sleeps(kernel, seed):
    """A sleep before each wait, copy, arrival, fence and wgmma; returns how many."""
    sites = [
        i for i in kernel.instructions
        if any(fnmatch.fnmatchcase(i.opcode, pattern) for pattern in SLEEP_BEFORE)
    ]
    if sites:
        kernel.insert_at_entry(SLEEP_STATE.replace("SEED", str(seed * 2654435761 % 2**32)))
    for site in sites:
        kernel.insert_before(site, SLEEP)
    return len(sites)


# --- clock stamps --------------------------------------------------------------------------------

# The buffer: TRACE_CTAS x TRACE_WARPS lists of TRACE_RECORDS records, little-endian:
#   u64 %clock64, u64 %globaltimer, u32 site, u32 argument, u32 %smid, u32 0
# Lane 0 of a warp writes its list from the start at each launch; site 0 ends it. A list that is
# full takes no more. elect.sync must choose lane 0, as it does.
TRACE_VARIABLE = "ladder_trace"
TRACE_CTAS, TRACE_WARPS, TRACE_RECORDS, TRACE_RECORD_BYTES = 8, 16, 4096, 32
TRACE_BYTES = TRACE_CTAS * TRACE_WARPS * TRACE_RECORDS * TRACE_RECORD_BYTES
TRACE_STATE = f"""\
.reg .b64 %trace_at;
	.reg .b32 %trace_left, %trace_waits;
	{{ .reg .pred traced; .reg .b32 trace_a, trace_b;
	  mov.u32 %trace_waits, 0;
	  mov.u32 trace_a, %ctaid.y;
	  mov.u32 trace_b, %nctaid.x;
	  mul.lo.u32 trace_a, trace_a, trace_b;
	  mov.u32 trace_b, %ctaid.x;
	  add.u32 trace_a, trace_a, trace_b;
	  setp.lt.u32 traced, trace_a, {TRACE_CTAS};
	  mov.u32 trace_b, %tid.x;
	  and.b32 %trace_left, trace_b, 31;
	  setp.eq.and.u32 traced, %trace_left, 0, traced;
	  selp.u32 %trace_left, {TRACE_RECORDS - 1}, 0, traced;
	  shr.u32 trace_b, trace_b, 5;
	  mad.lo.u32 trace_a, trace_a, {TRACE_WARPS}, trace_b;
	  mov.u64 %trace_at, {TRACE_VARIABLE};
	  mad.wide.u32 %trace_at, trace_a, {TRACE_RECORDS * TRACE_RECORD_BYTES}, %trace_at; }}"""
# WHEN is an instruction that narrows `traced`; ARGUMENT one that sets trace_x.
STAMP = f"""\
{{ .reg .pred traced; .reg .b64 trace_c, trace_g; .reg .b32 trace_s, trace_x, trace_z, trace_i;
	  setp.ne.u32 traced, %trace_left, 0;
	  WHEN
	  mov.u64 trace_c, %clock64;
	  mov.u64 trace_g, %globaltimer;
	  mov.u32 trace_s, %smid;
	  ARGUMENT
	  mov.u32 trace_i, SITE;
	  mov.u32 trace_z, 0;
	  @traced st.global.v2.u64 [%trace_at], {{trace_c, trace_g}};
	  @traced st.global.v4.u32 [%trace_at+16], {{trace_i, trace_x, trace_s, trace_z}};
	  @traced st.global.u32 [%trace_at+{TRACE_RECORD_BYTES + 16}], trace_z;
	  @traced add.u64 %trace_at, %trace_at, {TRACE_RECORD_BYTES};
	  @traced sub.u32 %trace_left, %trace_left, 1;
	  AFTER }}"""
STAMP_BEGINS_WAIT = ("setp.eq.and.u32 traced, %trace_waits, 0, traced;", "mov.u32 %trace_waits, 1;")
STAMP_ENDS_WAIT = ("and.pred traced, traced, {done};", "@{done} mov.u32 %trace_waits, 0;")
ADDRESS = re.compile(r"\[\s*(%?[\w$]+)\s*(?:\+\s*(-?\w+))?\s*\]")


def address_of(operand):
    """PTX that sets trace_x to the 32-bit shared address in an operand "[%r1+8]"."""
    match = ADDRESS.fullmatch(operand)
    if match is None:
        return "mov.u32 trace_x, 0;"
    base, offset = match.group(1), match.group(2) or "0"
    if base.startswith("%rd"):
        return f"cvt.u32.u64 trace_x, {base}; add.u32 trace_x, trace_x, {offset};"
    return f"mov.u32 trace_x, {base}; add.u32 trace_x, trace_x, {offset};"


class Stamps:
    """Hands out site numbers; what each is goes into comments at the end of the module, one a line:
    // trace site: NUMBER|EVENT|SOURCE LINE|PTX"""

    def __init__(self, module):
        self.module, self.sites = module, []

    def stamp(self, kernel, event, instruction, argument="mov.u32 trace_x, 0;", when="", after=""):
        shown = ""
        if instruction is not None:
            place = instruction.places[0] if instruction.places else None
            source = self.module.sources.line(*place) if place else ""
            shown = f"{source}|{instruction.opcode} {instruction.operands[-1:]}"
        self.sites.append(f"// trace site: {len(self.sites) + 1}|{kernel.name}|{event}|{shown}")
        text = STAMP.replace("SITE", str(len(self.sites))).replace("ARGUMENT", argument)
        return text.replace("WHEN", when).replace("AFTER", after)

    def add(self, kernel):
        """Stamps around what scripts/trace.py draws; returns how many."""
        first = len(self.sites)
        kernel.insert_at_entry(TRACE_STATE)
        for i in kernel.instructions:
            if fnmatch.fnmatchcase(i.opcode, "mbarrier.t*_wait.*"):
                address = address_of(i.operands[1])
                when, after = STAMP_BEGINS_WAIT
                kernel.insert_before(i, self.stamp(kernel, "wait begin", i, address, when, after))
                done = i.operands[0]
                when, after = (part.format(done=done) for part in STAMP_ENDS_WAIT)
                kernel.insert_after(i, self.stamp(kernel, "wait end", i, address, when, after))
            elif fnmatch.fnmatchcase(i.opcode, "cp.async.bulk.tensor.*.shared::cluster.global.*"):
                kernel.insert_before(
                    i, self.stamp(kernel, "TMA load", i, address_of(i.operands[0])))
            elif fnmatch.fnmatchcase(i.opcode, "cp.async.bulk.tensor.*.global.shared::cta.*"):
                kernel.insert_before(
                    i, self.stamp(kernel, "TMA store", i, address_of(i.operands[1])))
            elif i.opcode.startswith("wgmma.fence"):
                kernel.insert_before(i, self.stamp(kernel, "wgmma begin", i))
            elif i.opcode.startswith("wgmma.commit_group"):
                kernel.insert_after(i, self.stamp(kernel, "wgmma commit", i))
            elif i.opcode.startswith("wgmma.wait_group") or i.opcode.startswith("cp.async.wait_"):
                name = i.opcode.split(".wait_")[0]
                allowed = f"mov.u32 trace_x, {(i.operands or ['0'])[0]};"
                kernel.insert_before(i, self.stamp(kernel, name + " wait begin", i, allowed))
                kernel.insert_after(i, self.stamp(kernel, name + " wait end", i, allowed))
            elif i.opcode.startswith("cp.async.commit_group"):
                kernel.insert_after(i, self.stamp(kernel, "cp.async commit", i))
            elif i.opcode == "bar.sync" or i.opcode.startswith("barrier.cluster.wait"):
                kernel.insert_before(i, self.stamp(kernel, "bar begin", i))
                kernel.insert_after(i, self.stamp(kernel, "bar end", i))
            elif i.opcode.startswith("mbarrier.arrive"):
                kernel.insert_before(i, self.stamp(kernel, "arrive", i, address_of(i.operands[1])))
        self.add_epilogue(kernel)
        return len(self.sites) - first

    def add_epilogue(self, kernel):
        stores = [i for i in kernel.instructions if i.opcode.startswith("st.global")]
        if not stores:
            return
        shuffles = [i for i in kernel.find("shfl.sync.*") if i.start < stores[0].start]
        first = shuffles[-1] if shuffles else stores[0]
        kernel.insert_before(first, self.stamp(kernel, "epilogue begin", first))
        kernel.insert_at(
            kernel.next_label(stores[-1]), self.stamp(kernel, "epilogue end", stores[-1]))


def add_stamps(module, kernels):
    stamps = Stamps(module)
    module.add_global(f".visible .global .align 32 .b8 {TRACE_VARIABLE}[{TRACE_BYTES}];")
    counts = [stamps.add(kernel) for kernel in kernels]
    end = len(module.text)
    module.edit(end, end, "\n" + "\n".join(stamps.sites) + "\n")
    return sum(counts)


# --- runs ----------------------------------------------------------------------------------------

TOOLKIT = "it comes with the CUDA toolkit; put its bin folder on PATH or set CUDA_HOME"


def assemble(ptx, cubin):
    """ptxas on a file. Returns what it said; raises Problem if it refused."""
    tool = find_tool("ptxas")
    if tool is None:
        raise Problem(f"ptxas is neither on PATH nor in CUDA_HOME: {TOOLKIT}")
    run = subprocess.run(
        [tool, "-arch=sm_90a", ptx, "-o", cubin],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )
    if run.returncode != 0:
        raise Problem(f"ptxas refused {ptx}: {run.stdout.strip()}")
    return run.stdout


def make_fatbin(ptx, out):
    """A fat binary with the module's machine code and its PTX."""
    tool = find_tool("fatbinary")
    if tool is None:
        raise Problem(f"fatbinary is neither on PATH nor in CUDA_HOME: {TOOLKIT}")
    with tempfile.TemporaryDirectory() as scratch:
        cubin = os.path.join(scratch, "module.cubin")
        said = assemble(ptx, cubin)
        run = subprocess.run(
            [tool, "-64", "--compress=false", f"--create={out}",
             f"--image3=kind=elf,sm=90a,file={cubin}", f"--image3=kind=ptx,sm=90a,file={ptx}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
    if run.returncode != 0:
        raise Problem(f"fatbinary refused {ptx}: {run.stdout.strip()}")
    return said


def has_gpu():
    """Whether programs are to run on a GPU: LADDER_DEVICE decides, else whether there is one."""
    wish = os.environ.get("LADDER_DEVICE")
    if wish:
        return wish == "gpu"
    try:
        count = ctypes.c_int(0)
        driver = ctypes.CDLL("libcuda.so.1")
        works = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    except OSError:
        return False
    return works and count.value > 0


def machine_run(command, ptx):
    """(command, environment) of a program on the PTX machine, with these kernels in place of its
    own unless `ptx` is None. The ladder's programs go there themselves, others are started on it."""
    environment = {"LADDER_DEVICE": "machine"}
    if ptx is not None:
        environment["REPLACE_PTX"] = os.path.abspath(ptx)
    own = re.fullmatch(r"stage-\d+|ladder", os.path.basename(command[0]))
    launcher = [] if own else [os.path.join(ROOT, "build", "ptx-machine")]
    return launcher + command, environment


def gpu_run(command, ptx):
    """The same on a GPU, for a program linked with --cudart shared; assembles beside the PTX."""
    library = os.path.join(ROOT, "build", "machine", "libreplace_ptx.so")
    if not os.path.exists(library):
        raise Problem(f"{library} is not there: run make build/machine/libreplace_ptx.so")
    fatbin = os.path.splitext(os.path.abspath(ptx))[0] + ".fatbin"
    make_fatbin(ptx, fatbin)
    return command, {"LADDER_DEVICE": "gpu", "LD_PRELOAD": library,
                     "REPLACE_PTX": os.path.abspath(ptx), "REPLACE_FATBIN": fatbin}  # fmt: skip


# --- command line --------------------------------------------------------------------------------


def run_with(command, ptx):
    command, environment = (gpu_run if has_gpu() else machine_run)(command, ptx)
    sys.stdout.flush()
    return subprocess.run(command, env=dict(os.environ, **environment), check=False).returncode


def mutate(module, name):
    from mutations import find_mutation  # which imports this module

    mutation = find_mutation(name)
    mutation.apply(module)
    return mutation.what


def rewrite(options):
    module = load(options.input)
    if options.mutate:
        done = mutate(module, options.mutate)
    elif options.stamp:
        done = f"{add_stamps(module, chosen_kernels(module, options.kernel))} clock stamps"
    else:
        kernels = chosen_kernels(module, options.kernel)
        done = f"{sum(add_sleeps(kernel, options.sleep) for kernel in kernels)} sleeps"
    os.makedirs(os.path.dirname(options.output) or ".", exist_ok=True)
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(module.rewritten())
    print(f"{options.output}: {done}")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument("--sleep", type=int, metavar="SEED")
    verb.add_argument("--stamp", action="store_true")
    verb.add_argument("--mutate", metavar="NAME")
    verb.add_argument("--fatbin", metavar="OUT")
    parser.add_argument("--kernel", metavar="NAME", help="mangled; all kernels without it")
    parser.add_argument("input", metavar="IN.ptx")
    parser.add_argument("output", metavar="OUT.ptx", nargs="?")
    parser.add_argument("--run", nargs=argparse.REMAINDER, metavar="PROGRAM")
    options = parser.parse_args(arguments)
    if (options.output is None) != (options.fatbin is not None):
        parser.error("OUT.ptx is missing" if options.output is None else "--fatbin takes one file")
    try:
        if options.fatbin:
            sys.stdout.write(make_fatbin(options.input, options.fatbin))
        else:
            rewrite(options)
            if options.run:
                return run_with(options.run, options.output)
    except (Problem, OSError) as problem:
        print(f"rewrite_ptx: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
