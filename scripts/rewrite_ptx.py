#!/usr/bin/env python3
"""Rewrites the PTX of a rung, so that its source stays untouched. Python standard library only.

    rewrite_ptx.py --sleep SEED [--kernel NAME] IN.ptx OUT.ptx   seeded sleeps, so that events come
                                                                 in another order
    rewrite_ptx.py --stamp [--kernel NAME] [--first-cta C] IN.ptx OUT.ptx
                                                                 clock stamps, for scripts/trace.py
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

# The buffer: TRACE_CTAS x TRACE_WARPS lists, little-endian. Lane 0 of a warp writes its list anew
# at each launch, so the last launch stays: a head of
#   u64 %clock64, u64 %globaltimer at entry, u64 %clock64, u64 %globaltimer at the end,
#   u32 records, u32 %smid
# and up to TRACE_RECORDS records of u32 %clock, u32 site << TRACE_ARGUMENT_BITS | argument.
# elect.sync must choose lane 0, as it does.
#
# A record costs a warp some 30 clocks, which a kernel that multiplies asynchronously notices only
# between the end of one group and the start of the next. So there such a stamp only reads the clock
# into a register; the records are written just before the warp waits for wgmma. And there are few:
# where a wait ends, at a copy, once an epilogue. A warp that multiplies asynchronously has nothing
# to do but wait, so a wait begins where the stamp before it was made, and a group where the wait in
# front of it ended. Kernels without wgmma have stamps at the beginnings too.
TRACE_VARIABLE = "ladder_trace"
TRACE_CTAS, TRACE_WARPS, TRACE_RECORDS = 2, 16, 16384
TRACE_HEAD_BYTES, TRACE_RECORD_BYTES = 40, 8
TRACE_LIST_BYTES = TRACE_HEAD_BYTES + TRACE_RECORDS * TRACE_RECORD_BYTES
TRACE_BYTES = TRACE_CTAS * TRACE_WARPS * TRACE_LIST_BYTES
TRACE_ARGUMENT_BITS = 18  # a shared address is less than 2^18
# Sets `traced` in the lanes that have a list, and trace_at to its address; FIRST is the first CTA
# that has some.
TRACE_LIST = f"""\
.reg .pred traced; .reg .b32 trace_a, trace_b; .reg .b64 trace_at, trace_c;
	  mov.u32 trace_a, %ctaid.y;
	  mov.u32 trace_b, %nctaid.x;
	  mul.lo.u32 trace_a, trace_a, trace_b;
	  mov.u32 trace_b, %ctaid.x;
	  add.u32 trace_a, trace_a, trace_b;
	  sub.u32 trace_a, trace_a, FIRST;
	  setp.lt.u32 traced, trace_a, {TRACE_CTAS};
	  mov.u32 trace_b, %laneid;
	  setp.eq.and.u32 traced, trace_b, 0, traced;
	  mov.u32 trace_b, %tid.x;
	  shr.u32 trace_b, trace_b, 5;
	  mad.lo.u32 trace_a, trace_a, {TRACE_WARPS}, trace_b;
	  mov.u64 trace_at, {TRACE_VARIABLE};
	  mad.wide.u32 trace_at, trace_a, {TRACE_LIST_BYTES}, trace_at;"""
TRACE_BEGIN = f"""\
.reg .b64 %trace_next;
	.reg .b32 %trace_left;
	{{ {TRACE_LIST}
	  selp.u32 %trace_left, {TRACE_RECORDS}, 0, traced;
	  add.u64 %trace_next, trace_at, {TRACE_HEAD_BYTES};
	  mov.u64 trace_c, %clock64;
	  @traced st.global.u64 [trace_at], trace_c;
	  mov.u64 trace_c, %globaltimer;
	  @traced st.global.u64 [trace_at+8], trace_c; }}"""
TRACE_END = f"""\
{{ {TRACE_LIST}
	  mov.u64 trace_c, %clock64;
	  @traced st.global.u64 [trace_at+16], trace_c;
	  mov.u64 trace_c, %globaltimer;
	  @traced st.global.u64 [trace_at+24], trace_c;
	  sub.u32 trace_a, {TRACE_RECORDS}, %trace_left;
	  mov.u32 trace_b, %smid;
	  @traced st.global.u32 [trace_at+32], trace_a;
	  @traced st.global.u32 [trace_at+36], trace_b; }}"""
# Writes a record of trace_c and trace_x; WHEN is an instruction that narrows `traced`.
RECORD = f"""\
setp.ne.u32 traced, %trace_left, 0;
	  WHEN
	  @traced st.global.v2.u32 [%trace_next], {{trace_c, trace_x}};
	  @traced add.u64 %trace_next, %trace_next, {TRACE_RECORD_BYTES};
	  @traced sub.u32 %trace_left, %trace_left, 1;"""
# ARGUMENT is PTX that sets trace_x. GUARD is empty or "@p ": a try_wait does not hold up what
# stands behind it until its predicate is needed, so the clock is read under it.
STAMP = f"""\
{{ .reg .pred traced; .reg .b32 trace_c, trace_x;
	  GUARDmov.u32 trace_c, %clock;
	  ARGUMENT
	  {RECORD} }}"""
# The same into registers; NUMBER is the site's. A clock of 0 says that there is nothing to write.
HOLD = """\
{ .reg .b32 trace_x; ARGUMENT
	  GUARDmov.u32 %trace_cNUMBER, %clock;
	  GUARDmov.u32 %trace_xNUMBER, trace_x; }"""
FLUSH = f"""\
{{ .reg .pred traced; .reg .b32 trace_c, trace_x;
	  mov.u32 trace_c, %trace_cNUMBER;
	  mov.u32 trace_x, %trace_xNUMBER;
	  {RECORD.replace("WHEN", "setp.ne.and.u32 traced, trace_c, 0, traced;")}
	  mov.u32 %trace_cNUMBER, 0; }}"""
TRACE_SITES = 63  # their number stands in bits 18 to 23: above, an address has its CTA's rank
ADDRESS = re.compile(r"\[\s*(%?[\w$]+)\s*(?:\+\s*(-?\w+))?\s*\]")
STORES = "cp.async.bulk.tensor.*.global.shared::cta.*"
PRODUCT = re.compile(r"wgmma\.mma_async\..*\.m64n(\d+)k\d+\.")


def constant(value):
    """PTX that sets trace_x to SITE with a constant argument."""
    return f"mov.u32 trace_x, SITE + {value};"


def address_of(operand):
    """PTX that sets trace_x to SITE with the 32-bit shared address in an operand "[%r1+8]"."""
    match = ADDRESS.fullmatch(operand)
    if match is None:
        return constant(0)
    base, offset = match.group(1), match.group(2) or "0"
    move = f"cvt.u32.u64 trace_x, {base}" if base.startswith("%rd") else f"mov.u32 trace_x, {base}"
    return f"{move}; add.u32 trace_x, trace_x, SITE + {offset};"


def reaches(kernel, targets):
    """The instructions from which control can come to one of `targets`, without these."""
    order = {id(i): n for n, i in enumerate(kernel.instructions)}
    starts = sorted((i.start, n) for n, i in enumerate(kernel.instructions))
    at_label = {}
    for label, offset in kernel.labels.items():
        at_label[label] = next((n for start, n in starts if start >= offset), None)
    before = {n: [] for n in order.values()}
    for n, i in enumerate(kernel.instructions):
        leaves = i.opcode in ("ret", "exit") or i.opcode.startswith("bra") and not i.guard
        following = [] if leaves else [n + 1]
        if i.opcode.startswith("bra"):
            following.append(at_label[i.operands[0]])
        for other in following:
            if other in before:
                before[other].append(n)
    found, pending = set(), [order[id(i)] for i in targets]
    while pending:
        for n in before[pending.pop()]:
            if n not in found:
                found.add(n)
                pending.append(n)
    return [kernel.instructions[n] for n in sorted(found)]


class Stamps:
    """Hands out site numbers; what each is goes into comments at the end of the module, one a line:
    // trace first CTA: NUMBER
    // trace site: NUMBER|KERNEL|EVENT|CLOCKS|SOURCE LINE
    CLOCKS, of a wait in front of wgmma groups: how long the tensor cores need at their peak for
    each of them, such as 512,512."""

    def __init__(self, module):
        self.module, self.sites = module, []

    def new_site(self, kernel, event, instruction):
        place = instruction.places[0] if instruction.places else None
        source = self.module.sources.line(*place) if place else ""
        self.sites.append({"kernel": kernel.name, "event": event, "clocks": [], "source": source})
        if len(self.sites) > TRACE_SITES:
            raise Problem(f"{kernel.name} needs more than {TRACE_SITES} stamps: name one kernel")
        return len(self.sites)

    def stamp(self, kernel, event, instruction, argument=constant(0), done=""):
        """A record where it stands, if `done`, a predicate, is true."""
        number = self.new_site(kernel, event, instruction)
        argument = argument.replace("SITE", str(number << TRACE_ARGUMENT_BITS))
        text = STAMP.replace("GUARD", f"@{done} " if done else "").replace("ARGUMENT", argument)
        return text.replace("WHEN", f"and.pred traced, traced, {done};" if done else "")

    def add(self, kernel, first_cta=0):
        """Stamps for what scripts/trace.py draws; returns how many."""
        before = len(self.sites)
        products = kernel.find("wgmma.commit_group*")
        multiplies = {id(i) for i in reaches(kernel, products)}
        held = []  # (site number, instruction)
        flushes = []
        clocks = 0  # of the group that is being put together
        last_wait = None  # the site that a group begins with

        def put(i, event, behind, argument=constant(0), done=""):
            """A stamp beside an instruction, if `done`, a predicate, is true."""
            if id(i) in multiplies:
                number = self.new_site(kernel, event, i)
                held.append((number, i))
                site = str(number << TRACE_ARGUMENT_BITS)
                text = HOLD.replace("ARGUMENT", argument).replace("SITE", site)
                text = text.replace("GUARD", f"@{done} " if done else "")
                text = text.replace("NUMBER", str(number))
            else:
                text = self.stamp(kernel, event, i, argument, done)
            (kernel.insert_after if behind else kernel.insert_before)(i, text)

        for i in kernel.instructions:

            def around(name, argument=constant(0), done=""):
                if not products:
                    put(i, name + " begin", False, argument)
                put(i, name + " end", True, argument, done)

            product = PRODUCT.match(i.opcode)
            if product:
                clocks += int(product.group(1)) // 2
            elif fnmatch.fnmatchcase(i.opcode, "mbarrier.t*_wait.*"):
                around("wait", address_of(i.operands[1]), i.operands[0])
                last_wait = self.sites[-1]
            elif i.opcode.startswith("mbarrier.arrive.expect_tx"):
                put(i, "TMA load", False, address_of(i.operands[1]))
            elif fnmatch.fnmatchcase(i.opcode, STORES):
                put(i, "TMA store", False, address_of(i.operands[1]))
            elif i.opcode.startswith("wgmma.commit_group"):
                if last_wait is not None:
                    last_wait["clocks"].append(clocks)
                clocks = 0
            elif i.opcode.startswith("cp.async.commit_group"):
                put(i, "cp.async commit", True)
            elif re.match(r"(wgmma|cp\.async|cp\.async\.bulk)\.wait_", i.opcode):
                of = i.opcode.split(".wait_")[0].replace("cp.async.bulk", "bulk")
                if of == "wgmma":
                    flushes.append(i)
                around(of + " wait", constant((i.operands or ["0"])[0]))
            elif i.opcode == "bar.sync" or i.opcode.startswith("barrier.cluster.wait"):
                around("bar")
            elif i.opcode == "ret":
                flushes.append(i)
        self.add_epilogue(kernel, bool(products), held)
        for i in flushes:
            kernel.insert_before(i, flush(held_near(kernel, i, held)))
            if i.opcode == "ret":
                kernel.insert_before(i, TRACE_END.replace("FIRST", str(first_cta)))
        state = TRACE_BEGIN.replace("FIRST", str(first_cta))
        state += "".join(f"\n\t.reg .b32 %trace_c{n}, %trace_x{n};\n\tmov.u32 %trace_c{n}, 0;"
                         f"\n\tmov.u32 %trace_x{n}, 0;" for n, _ in held)  # fmt: skip
        kernel.insert_at_entry(state)
        return len(self.sites) - before

    def add_epilogue(self, kernel, is_async, held):
        staged = kernel.find("stmatrix.*")
        stores = staged or kernel.find("st.global*")
        if not stores:
            return
        if not is_async:
            shuffles = [i for i in kernel.find("shfl.sync.*") if i.start < stores[0].start]
            first = shuffles[-1] if shuffles else stores[0]
            kernel.insert_before(first, self.stamp(kernel, "epilogue begin", first))
        end = self.stamp(kernel, "epilogue end", stores[-1]) + "\n\t" + flush(held)
        if staged:
            kernel.insert_after(staged[-1], end)
        else:
            kernel.insert_at(kernel.next_label(stores[-1]), end)

    def listed(self):
        return "".join(
            f"// trace site: {number}|{s['kernel']}|{s['event']}|{','.join(map(str, s['clocks']))}"
            f"|{s['source']}\n"
            for number, s in enumerate(self.sites, 1)
        )  # fmt: skip


def held_near(kernel, instruction, held):
    """Of the stamps that are held, those of the innermost of two or more loops around an
    instruction; else all: outside of the loop over K there is time."""
    loops = []
    for i in kernel.find("bra*"):
        begin = kernel.labels[i.operands[0]]
        if begin <= instruction.start < i.end:
            loops.append((begin, i.end))
    if not loops:
        return held
    begin, end = min(loops, key=lambda loop: loop[1] - loop[0])
    inside = [one for one in held if begin <= one[1].start < end]
    return inside if len(loops) > 1 else held


def flush(held):
    return "\n\t".join(FLUSH.replace("NUMBER", str(number)) for number, _ in held)


def add_stamps(module, kernels, first_cta=0):
    stamps = Stamps(module)
    module.add_global(f".visible .global .align 32 .b8 {TRACE_VARIABLE}[{TRACE_BYTES}];")
    counts = [stamps.add(kernel, first_cta) for kernel in kernels]
    end = len(module.text)
    module.edit(end, end, f"\n// trace first CTA: {first_cta}\n" + stamps.listed())
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
        kernels = chosen_kernels(module, options.kernel)
        done = f"{add_stamps(module, kernels, options.first_cta)} clock stamps"
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
    parser.add_argument("--first-cta", type=int, default=0, metavar="C",
                        help=f"{TRACE_CTAS} CTAs from this one on leave stamps")
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
