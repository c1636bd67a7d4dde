"""Clock stamps in a kernel's PTX, from which trace.py makes a timeline, and sleeps, which make
events come in another order."""

from __future__ import annotations

import bisect
import collections
import fnmatch
import re
from typing import Any

from lib.cli import Problem
from lib.closure import closure
from lib.ptx import Instruction, Kernel, Module

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


def add_sleeps(kernel: Kernel, seed: int) -> int:
    """A sleep before each wait, copy, arrival, fence and wgmma; returns how many."""
    sites = [
        i for i in kernel.instructions
        if any(fnmatch.fnmatchcase(i.opcode, pattern) for pattern in SLEEP_BEFORE)
    ]
    if sites:
        state = SLEEP_STATE.replace("SEED", str(seed * 2654435761 % 2**32))
        kernel.insert_at(kernel.body, state)
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
Held = tuple[int, Instruction]  # a site number, and where it is
ADDRESS = re.compile(r"\[\s*(%?[\w$]+)\s*(?:\+\s*(-?\w+))?\s*\]")
STORES = "cp.async.bulk.tensor.*.global.shared::cta.*"
PRODUCT = re.compile(r"wgmma\.mma_async\..*\.m64n(\d+)k\d+\.")


def constant(value: object) -> str:
    """PTX that sets trace_x to SITE with a constant argument."""
    return f"mov.u32 trace_x, SITE + {value};"


def address_of(operand: str) -> str:
    """PTX that sets trace_x to SITE with the 32-bit shared address in an operand "[%r1+8]"."""
    match = ADDRESS.fullmatch(operand)
    if match is None:
        return constant(0)
    base, offset = match.group(1), match.group(2) or "0"
    move = f"cvt.u32.u64 trace_x, {base}" if base.startswith("%rd") else f"mov.u32 trace_x, {base}"
    return f"{move}; add.u32 trace_x, trace_x, SITE + {offset};"


def filled(stamp: str, number: int, argument: str, done: str) -> str:
    """STAMP or HOLD for a site; only if `done`, a predicate, is true."""
    text = stamp.replace("ARGUMENT", argument).replace("SITE", str(number << TRACE_ARGUMENT_BITS))
    text = text.replace("GUARD", f"@{done} " if done else "").replace("NUMBER", str(number))
    return text.replace("WHEN", f"and.pred traced, traced, {done};" if done else "")


def reaches(kernel: Kernel, targets: list[Instruction]) -> list[Instruction]:
    """The instructions from which control can come to one of `targets`, without these."""
    order = {id(i): n for n, i in enumerate(kernel.instructions)}
    starts = [i.start for i in kernel.instructions]  # in order
    before: dict[int, list[int]] = collections.defaultdict(list)
    for n, i in enumerate(kernel.instructions):
        jumps = i.opcode.startswith("bra")
        if not (i.opcode in ("ret", "exit") or jumps and not i.guard):
            before[n + 1].append(n)
        if jumps:
            before[bisect.bisect_left(starts, kernel.labels[i.operands[0]])].append(n)
    last = [n for i in targets for n in before[order[id(i)]]]
    return [kernel.instructions[n] for n in sorted(closure(last, before.__getitem__))]


class Stamps:
    """Hands out site numbers; what each is goes into comments at the end of the module, one a line:
    // trace first CTA: NUMBER
    // trace site: NUMBER|KERNEL|EVENT|CLOCKS|SOURCE LINE
    CLOCKS, of a wait in front of wgmma groups: how long the tensor cores need at their peak for
    each of them, such as 512,512."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.sites: list[dict[str, Any]] = []

    def new_site(self, kernel: Kernel, event: str, instruction: Instruction) -> int:
        place = instruction.places[0] if instruction.places else None
        source = self.module.sources.line(*place) if place else ""
        self.sites.append({"kernel": kernel.name, "event": event, "clocks": [], "source": source})
        if len(self.sites) > TRACE_SITES:
            raise Problem(f"{kernel.name} needs more than {TRACE_SITES} stamps: name one kernel")
        return len(self.sites)

    def stamp(self, kernel: Kernel, event: str, instruction: Instruction) -> str:
        """A record where it stands."""
        return filled(STAMP, self.new_site(kernel, event, instruction), constant(0), "")

    def add(self, kernel: Kernel, first_cta: int = 0) -> int:
        """Stamps for what scripts/trace.py draws; returns how many."""
        before = len(self.sites)
        products = kernel.find("wgmma.commit_group*")
        multiplies = {id(i) for i in reaches(kernel, products)}
        held: list[Held] = []
        flushes = []
        clocks = 0  # of the group that is being put together
        last_wait: dict[str, Any] | None = None  # the site that a group begins with

        def put(
            i: Instruction, event: str, behind: bool, argument: str = constant(0), done: str = ""
        ) -> None:
            """A stamp beside an instruction, if `done`, a predicate, is true."""
            number = self.new_site(kernel, event, i)
            if id(i) in multiplies:
                held.append((number, i))
            text = filled(HOLD if id(i) in multiplies else STAMP, number, argument, done)
            (kernel.insert_after if behind else kernel.insert_before)(i, text)

        for i in kernel.instructions:

            def around(name: str, argument: str = constant(0), done: str = "") -> None:
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
        kernel.insert_at(kernel.body, state)
        return len(self.sites) - before

    def add_epilogue(self, kernel: Kernel, is_async: bool, held: list[Held]) -> None:
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


def held_near(kernel: Kernel, instruction: Instruction, held: list[Held]) -> list[Held]:
    """Of the stamps that are held, those of the innermost of two or more loops around an
    instruction; else all: outside of the loop over K there is time."""
    spans = [(kernel.labels[i.operands[0]], i.end) for i in kernel.find("bra*")]
    loops = [(begin, end) for begin, end in spans if begin <= instruction.start < end]
    if len(loops) < 2:
        return held
    begin, end = min(loops, key=lambda loop: loop[1] - loop[0])
    return [one for one in held if begin <= one[1].start < end]


def flush(held: list[Held]) -> str:
    return "\n\t".join(FLUSH.replace("NUMBER", str(number)) for number, _ in held)


def add_stamps(module: Module, kernels: list[Kernel], first_cta: int = 0) -> int:
    stamps = Stamps(module)
    module.add_global(f".visible .global .align 32 .b8 {TRACE_VARIABLE}[{TRACE_BYTES}];")
    counts = [stamps.add(kernel, first_cta) for kernel in kernels]
    listed = f"\n// trace first CTA: {first_cta}\n"
    for number, site in enumerate(stamps.sites, 1):
        clocks = ",".join(map(str, site["clocks"]))
        parts = (str(number), site["kernel"], site["event"], clocks, site["source"])
        listed += f"// trace site: {'|'.join(parts)}\n"
    end = len(module.text)
    module.edit(end, end, listed)
    return sum(counts)
