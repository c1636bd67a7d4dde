#!/usr/bin/env python3
"""Bugs, each put into the PTX of a kernel that has none, and what the PTX machine says about it.

    mutations.py                    every mutation on the machine; a row each; `caught N of N`
    mutations.py --show NAME        one, for a reader: the line, the change, the report
    mutations.py --list             names and what they change
    mutations.py --gpu [--sleep S]  the same bugs on a GPU, where many pass unseen; --sleep adds
                                    seeded sleeps to them
    mutations.py --page             writes the tables of docs/failures.md
    [--only NAME,NAME]

A mutation is caught if the machine's first report is for the right reason: of an expected kind,
and naming the instructions that it should. The kernels without bugs must be clean under each of
the policies that show one. Kinds: race, hang, fault, refused (the machine's), wrong result (the
program's check).
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

from lib.cli import ROOT, Problem, command, parser_of
from lib.ptx import Module, load_module
from lib.replace import gpu_run, machine_run
from lib.stamps import add_sleeps

TIMEOUT_S = 120  # of one run, which takes a second or two
GPU_TIMEOUT_S = 10  # of the program's own watchdog
RANDOM = [("random", seed) for seed in (1, 2, 3)]
POLICIES = [("eager", 1), ("lazy", 1)] + RANDOM

# --- kernels to put bugs into --------------------------------------------------------------------


class Subject:
    """A program and variant, if it has any, its PTX, and the arguments of a run that is small but
    goes round the ring at least once."""

    def __init__(self, program, ptx, variant, kernel, arguments, what):
        self.program, self.ptx, self.variant = program, ptx, variant
        self.kernel = kernel  # a part of the mangled name that only this variant's has
        self.arguments = ([f"--variant={variant}"] if variant else []) + arguments
        self.what = what  # "rung 6, 2consumers"

    def find_kernel(self, module):
        found = [name for name in module.names if self.kernel in name]
        if len(found) != 1:
            raise Problem(f"{self.ptx} has {len(found)} kernels with {self.kernel} in their names")
        return module.kernel(found[0])

    def command(self):
        return [os.path.join(ROOT, self.program)] + self.arguments


def rung(stem, variant, kernel, shape, grid=None):
    arguments = [f"--{name}={size}" for name, size in zip("mnk", shape)]
    arguments += ["--check", "--data=ints"] + ([f"--grid={grid}"] if grid else [])
    number = stem.split("_")[0]
    return Subject(f"build/stage-{number}", f"build/ptx/{stem}.ptx", variant, kernel, arguments,
                   f"rung {int(number)}, {variant}")  # fmt: skip


SMEM_TILED = rung("01_smem_tiled", "128x128", "Li128ELi128E", (128, 128, 136))
CP_ASYNC = rung("03_cp_async_multistage", "depth3", "4gemmINS_4TileILi3E", (128, 128, 448))
CP_ASYNC_MBARRIER = rung(
    "03_cp_async_multistage", "depth3_mbarrier", "13gemm_mbarrier", (128, 128, 448))
TMA = rung("04_tma_mbarrier", "depth3", "TileILi3E", (128, 128, 448))
WGMMA = rung("05_wgmma", "bn256", "TileILi256ELi0E", (128, 256, 640))
SPECIALIZED = rung("06_warp_specialized", "2consumers", "TileILi2ELb1E", (128, 256, 640))
# Five k tiles, so that the second tile starts in slot 1 and at the other parity.
PERSISTENT = rung("07_persistent", "group16", "TileILi16E", (256, 512, 320), grid=1)
CLUSTER = rung("08_cluster_multicast", "2x1", "TileILi2ELi1E", (256, 256, 640), grid=2)
# Three tiles, so that boxes are used again; D's rows end with half a chunk.
EPILOGUE = rung("09_async_epilogue", "overlapped", "StoreE2E", (256, 764, 256), grid=2)
# Ten k tiles: a consumer's slots are laps behind the other's.
PINGPONG = rung("10_pingpong", "64x256", "TileILi1ELi256E", (256, 512, 640), grid=2)
# Consumers, blocks, columns, cluster_m, cluster_n. Its one CTA fills the grid, so it starts early.
AUTOTUNED = rung("11_autotuned", "128x256", "TileILi2ELi1ELi256ELi1ELi1E", (128, 256, 640), grid=1)
# Consumers, blocks, columns, sharers, split, CTAs of an SM. Three clusters share two tiles of twelve
# k tiles, so that the middle one has a part of both; eight share one of 32, which takes a second
# kernel; and four CTAs of a cluster share a tile.
STREAM_K_TILE = "TileILi1ELi1ELi8ELi1ELi1ELi2E"
STREAM_K = rung("12_stream_k", "64x8_x2_all", "4gemmINS_4" + STREAM_K_TILE, (8, 128, 768), grid=3)
ADD_UP = rung("12_stream_k", "64x8_x2_cut", "6add_upINS_4" + STREAM_K_TILE, (8, 64, 2048), grid=8)
SPLIT_K = rung("12_stream_k", "64x8_x2_k4", "4gemmINS_4TileILi1ELi1ELi8ELi1ELi4ELi2E", (8, 64, 768))
# Operands of bf16, both MN-major and in the 128-byte swizzle; and a D of fp32, which leaves in two
# parts.
MN_MAJOR = rung("13_layouts", "bf16_NT", "TileI13__nv_bfloat16S2_LN4tile5MajorE1ELS4_1ELi128E",
                (256, 256, 320), grid=2)  # fmt: skip
MN_MAJOR.arguments += ["--layout=NT"]
FP32_OUT = rung("13_layouts", "bf16_fp32_TN", "TileI13__nv_bfloat16fLN4tile5MajorE0ELS4_0ELi128E",
                (256, 764, 256), grid=2)  # fmt: skip
FP32_OUT.arguments += ["--type=bf16_fp32"]
# Two tiles of five k tiles: the ring of four comes round in both, and the columns of each tile lie
# in two blocks of 128, of which the second begins with another group.
BLOCK_SCALED = rung("14_block_scaled", "e4m3_128x192", "e4m3ELb1ELi2ELi1ELi192E", (128, 384, 640),
                    grid=1)  # fmt: skip
IN_TURNS = rung("14_block_scaled", "s8_128x192", "TileIaLb1ELi2ELi1ELi192E", (128, 384, 640),
                grid=1)  # fmt: skip
IN_TURNS.arguments += ["--type=s8"]
# One CTA, which goes round its ring of packed weights.
MIXED = rung("15_mixed_input", "w4_64x8_s4", "TileILi4ELi1ELi8ELi1ELi4E", (8, 64, 4736), grid=1)
MIXED.arguments += ["--bits=4"]
# Three groups of 32, 60 and 58 rows, in two CTAs: short groups leave half a tile to nobody, and
# scales begin at rows that are no multiples of four.
GROUPED = rung("16_grouped", "bf16_128x128", "TileI13__nv_bfloat16Li2ELi1ELi128E", (150, 256, 640),
               grid=2)  # fmt: skip
GROUPED.arguments += ["--groups=3", "--rows=unequal"]
GROUPED_SCALED = rung("16_grouped", "e4m3_128x128", "e4m3ELi2ELi1ELi128E", (150, 256, 640),
                      grid=2)  # fmt: skip
GROUPED_SCALED.arguments += ["--groups=3", "--rows=unequal", "--type=e4m3"]
# Its one CTA has six tiles, so that boxes are used again, for D and then for C, those too that have the end
# of D's rows, half a chunk.
FUSED = rung("17_fused_epilogue", "none_128x256", "IdentityE13__nv_bfloat16Li2ELi1ELi256E",
             (256, 764, 256), grid=1)  # fmt: skip
FUSED.arguments += ["--add=bias_c"]
BULK_STORE = Subject(
    "build/tests/kernels/bulk_store", "build/obj/tests/machine/kernels/bulk_store.ptx", "",
    "10store_rowsE", [], "bulk_store")

# --- mutations -----------------------------------------------------------------------------------

MUTATIONS = {}
GROUPS = []  # headings; a mutation belongs to the last one before it


class Mutation:
    """name: as in `make failure-NAME`. subject: the kernel. what: the change. lesson: what a reader
    should take from it. edit(kernel) makes the change. caught: {kind: words}, each kind of report
    that is right for it, with regular expressions that the report must contain. policies: those
    that show it, tried in order. gpu: how a run on a GPU must end, if that is certain: "hang",
    "wrong result" or "fault". group: a heading of docs/failures.md."""

    def __init__(self, name, subject, what, lesson, caught, policies, gpu, edit):
        self.group = GROUPS[-1]
        self.name, self.subject, self.what, self.lesson = name, subject, what, lesson
        self.caught, self.policies, self.gpu, self.edit = caught, policies, gpu, edit

    def on_h200(self):
        """What an H200 did with it, as it was recorded."""
        found = [did for did, names in H200.items() if self.name in names.split()]
        return found[0] if found else "not run"

    def apply(self, module):
        self.edit(self.subject.find_kernel(module))


def mutation(name, subject, what, lesson, caught, policies=POLICIES, gpu=None):
    """Decorates the function that makes the change."""

    def register(edit):
        MUTATIONS[name] = Mutation(name, subject, what, lesson, caught, policies, gpu, edit)
        return edit

    return register


def find_mutation(name):
    if name not in MUTATIONS:
        raise Problem(f"no mutation is called {name}; there are\n  " + "\n  ".join(MUTATIONS))
    return MUTATIONS[name]


RACE_WGMMA_TMA = {"race": ["wgmma", "cp.async.bulk.tensor"]}
READS_TOO_EARLY = {  # in whichever order the two come
    "race": [r"wgmma\S* reads .*, which (nothing has|cp.async.bulk.tensor\S* has) written|"
             r"wgmma\S* reads .* before cp.async.bulk.tensor\S* writes it"],
}  # fmt: skip
FULL = "smem.full["
EMPTY = "smem.empty["


def always_true(kernel, wait):
    """A wait that returns at once."""
    address = wait.operands[1].strip("[]")
    kernel.replace_with(wait, f"setp.eq.u32 {wait.operands[0]}, {address}, {address};")


GROUPS.append("Mbarriers")


@mutation(
    "init-fence", SPECIALIZED, "fence.mbarrier_init deleted",
    "mbarrier.init is an ordinary write: without a fence TMA may count bytes on a barrier that, to "
    "it, does not exist yet.",
    {"race": ["mbarrier.init", "fence.mbarrier_init|fence.proxy.async"]},
)  # fmt: skip
def init_fence(kernel):
    kernel.delete(kernel.one("fence.mbarrier_init.*"))


@mutation(
    "init-count", SPECIALIZED, "empty mbarriers expect 9 arrivals, but 8 warps arrive",
    "A barrier whose count is too high never completes: the ring stops when it first comes round.",
    {"hang": ["mbarrier.try_wait", "pending arrivals 1 of 9"]}, gpu="hang",
)  # fmt: skip
def init_count(kernel):
    for init in kernel.find("mbarrier.init.*", at=EMPTY):
        kernel.replace(init, operands={1: "9"})


@mutation(
    "init-count-low", SPECIALIZED, "empty mbarriers expect 4 arrivals, one warpgroup's",
    "A barrier whose count is too low frees the slot while another warpgroup still multiplies it; "
    "and as eight arrivals complete two phases of four, its parity may be the old one again.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "waited:  warp 0", "whose count is 4", "is not among them"],
     "hang": ["pending arrivals 4 of 4"]}, policies=RANDOM + POLICIES[:2],
)  # fmt: skip
def init_count_low(kernel):
    for init in kernel.find("mbarrier.init.*", at=EMPTY):
        kernel.replace(init, operands={1: "4"})


@mutation(
    "expect-bytes-more", SPECIALIZED, "the producer expects 16 bytes more than TMA brings",
    "Expected bytes that nobody sends keep the phase open for ever; boxes count in full even where "
    "they hang over the edge.",
    {"hang": ["mbarrier.try_wait", "16 bytes"]}, gpu="hang",
)  # fmt: skip
def expect_bytes_more(kernel):
    kernel.replace(kernel.one("mbarrier.arrive.expect_tx.*"), operands={2: "49168"})


@mutation(
    "expect-bytes-less", SPECIALIZED, "the producer expects only A's 16,384 bytes of 49,152",
    "The phase completes when as many bytes have come as were expected, wherever they landed: B "
    "may still be on its way.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "too few bytes were expected"],
     "hang": ["bytes more than expected", "expect_tx asks for fewer bytes"]}, gpu="hang",
)  # fmt: skip
def expect_bytes_less(kernel):
    kernel.replace(kernel.one("mbarrier.arrive.expect_tx.*"), operands={2: "16384"})


@mutation(
    "parity", WGMMA, "the wait for a full slot asks for the other parity",
    "Waiting for the parity of the phase before returns at once: the tile has not landed yet.",
    READS_TOO_EARLY,
)  # fmt: skip
def parity(kernel):
    wait = kernel.one("mbarrier.try_wait.*", at=FULL)
    done, address, value = wait.operands
    kernel.replace_with(wait, f".reg .b32 other_parity; xor.b32 other_parity, {value}, 1;\n"
                              f"  {wait.opcode} {done}, {address}, other_parity;")  # fmt: skip


@mutation(
    "empty-wait-skipped", SPECIALIZED, "the producer does not wait for an empty slot",
    "Nothing but the empty barrier tells TMA that wgmma has read a slot.",
    {"race": [r"cp.async.bulk.tensor\S* writes shared"],
     "fault": ["expect_tx makes 1 arrival, more than are expected"]},
    policies=[("random", 20)] + POLICIES,
)  # fmt: skip
def empty_wait_skipped(kernel):
    always_true(kernel, kernel.one("mbarrier.try_wait.*", at=EMPTY))


@mutation(
    "full-wait-skipped", SPECIALIZED, "the consumers do not wait for a full slot",
    "Nothing but the full barrier tells the consumers that TMA has written a slot.",
    READS_TOO_EARLY,
)  # fmt: skip
def full_wait_skipped(kernel):
    always_true(kernel, kernel.one("mbarrier.try_wait.*", at=FULL))


@mutation(
    "never-released", SPECIALIZED, "the consumers do not arrive on the empty barrier",
    "A slot that nobody hands back stops the producer on its second lap.",
    {"hang": ["mbarrier.try_wait", "pending arrivals 8 of 8"]}, gpu="hang",
)  # fmt: skip
def never_released(kernel):
    kernel.delete(kernel.one("mbarrier.arrive.shared::cta.b64", at=EMPTY))


@mutation(
    "copy-arrives-early", CP_ASYNC_MBARRIER,
    "mbarrier.arrive in place of cp.async.mbarrier.arrive.noinc",
    "An ordinary arrive speaks for what the thread has done, not for copies that it has started.",
    {"race": ["cp.async", "ldmatrix"]},
)  # fmt: skip
def copy_arrives_early(kernel):
    for arrive in kernel.find("cp.async.mbarrier.arrive.noinc.*"):
        kernel.replace_with(arrive, f"mbarrier.arrive.shared::cta.b64 _, {arrive.operands[0]};")


@mutation(
    "elected-arrive-without-syncwarp", CP_ASYNC_MBARRIER, "bar.warp.sync before the arrive deleted",
    "One lane's arrive speaks for that lane's reads; bar.warp.sync makes it speak for the warp.",
    {"race": ["ldmatrix", "cp.async", "bar.warp.sync|__syncwarp"]},
)  # fmt: skip
def elected_arrive_without_syncwarp(kernel):
    kernel.delete(kernel.one("bar.warp.sync"))


@mutation(
    "stale-parity-second-tile", PERSISTENT, "the consumers begin every tile at parity 0",
    "Ring state lives longer than a tile: five k tiles leave the ring in the middle of a lap.",
    {"race": ["wgmma", "cp.async.bulk.tensor"], "hang": ["mbarrier.try_wait"]},
)  # fmt: skip
def stale_parity_second_tile(kernel):
    wait = kernel.one("mbarrier.try_wait.*", at=FULL)
    step = next(i for i in kernel.after(wait)
                if i.opcode == "add.s32" and i.operands[0] == i.operands[1]
                and kernel.comes_from(i, "t += gridDim.x"))  # fmt: skip
    kernel.insert_after(step, f"mov.u32 {wait.operands[2]}, 0;")


@mutation(
    "turn-wait-skipped", PINGPONG, "a consumer does not wait for its turn",
    "A parity tells one phase from the next, not from the one after that: who is a lap early takes "
    "the other consumer's tile for its own.",
    {"race": ["wgmma", "cp.async.bulk.tensor"], "fault": ["more than are expected"],
     "hang": ["mbarrier.try_wait"]},
)  # fmt: skip
def turn_wait_skipped(kernel):
    always_true(kernel, kernel.one("mbarrier.try_wait.*", at="smem.turn["))


@mutation(
    "full-count", SPECIALIZED, "full mbarriers expect 2 arrivals, but only the producer's thread arrives",
    "The bytes are there, and an arrival is still missing: the count is of arrivals alone, and TMA "
    "makes none.",
    {"hang": ["pending arrivals 1 of 2", "Arrived: 1, by warp 0", "count of mbarrier.init"]}, gpu="hang",
)  # fmt: skip
def full_count(kernel):
    for init in kernel.find("mbarrier.init.*", at=FULL):
        kernel.replace(init, operands={1: "2"})


@mutation(
    "arrives-twice", SPECIALIZED, "the consumers arrive twice on the empty barrier",
    "An arrival too many completes a phase before its time, or is one that the phase has no room "
    "for.",
    {"fault": ["more than are expected", "Likely: the count of mbarrier.init is too low"]}
    | RACE_WGMMA_TMA | {"hang": ["mbarrier.try_wait"]},
)  # fmt: skip
def arrives_twice(kernel):
    arrive = kernel.one("mbarrier.arrive.shared::cta.b64", at=EMPTY)
    kernel.insert_after(arrive, arrive.text())


@mutation(
    "init-without-barrier", SPECIALIZED, "bar.sync behind mbarrier.init deleted",
    "The other threads may be at an mbarrier before thread 0 has made it.",
    {"race": ["mbarrier.init"], "fault": ["no mbarrier.init was executed"]},
)  # fmt: skip
def init_without_barrier(kernel):
    kernel.delete(kernel.one("bar.sync", at="before the other threads wait on them"))


GROUPS.append("Groups of wgmma and cp.async")


@mutation(
    "released-before-wait-group", SPECIALIZED, "wgmma.wait_group moved behind the arrive",
    "Committing is not completing: until wait_group returns, wgmma may still read the slot.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "wait_group"]},
)  # fmt: skip
def released_before_wait_group(kernel):
    wait = kernel.one("wgmma.wait_group.*")
    arrive = kernel.one("mbarrier.arrive.shared::cta.b64", at=EMPTY)
    kernel.delete(wait)
    kernel.insert_at(kernel.next_label(arrive), wait.text())


@mutation(
    "wait-group-too-lax", WGMMA, "wgmma.wait_group 1 in place of 0 in the main loop",
    "wait_group N leaves the latest N groups running: the slot that is refilled must be older.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "wait_group"]},
)  # fmt: skip
def wait_group_too_lax(kernel):
    kernel.replace(kernel.one("wgmma.wait_group.*", at="T::AHEAD"), operands=["1"])


@mutation(
    "commit-missing", WGMMA, "wgmma.commit_group deleted",
    "wait_group counts committed groups: products that were never committed are not waited for.",
    {"race": ["wgmma", "order them: wgmma.commit_group"]},
)  # fmt: skip
def commit_missing(kernel):
    kernel.delete(kernel.one("wgmma.commit_group.*"))


@mutation(
    "accumulator-in-flight", WGMMA, "an accumulator is multiplied by 1 before wgmma.wait_group",
    "From mma_async to wait_group the accumulators belong to the tensor cores, even to be read.",
    {"race": ["accumulator|register", "wait_group"]},
)  # fmt: skip
def accumulator_in_flight(kernel):
    commit = kernel.one("wgmma.commit_group.*")
    mma = next(i for i in kernel.before(commit) if i.opcode.startswith("wgmma.mma_async"))
    register = mma.operands[0].strip("{}").split(",")[0].strip()
    kernel.insert_after(commit, f"mul.f32 {register}, {register}, 0f3F800000;")


@mutation(
    "wgmma-fence-missing", PERSISTENT, "wgmma.fence deleted",
    "A warp's first wgmma needs wgmma.fence, and any behind instructions that touched its "
    "registers: here the epilogue has read the accumulators of the next tile.",
    {"race": ["wgmma.fence"]},
)  # fmt: skip
def wgmma_fence_missing(kernel):
    kernel.delete(kernel.one("wgmma.fence.*"))


@mutation(
    "cp-async-wait-too-lax", CP_ASYNC, "cp.async.wait_group 2 in place of 1",
    "With three slots two groups are in flight: waiting for all but two waits for none of them.",
    {"race": ["cp.async", "ldmatrix", "wait_group"]},
)  # fmt: skip
def cp_async_wait_too_lax(kernel):
    kernel.replace(kernel.one("cp.async.wait_group"), operands=["2"])


@mutation(
    "cp-async-commit-missing", CP_ASYNC, "cp.async.commit_group in the main loop deleted",
    "wait_group counts committed groups: copies that were never committed are not waited for.",
    {"race": ["cp.async", "ldmatrix", "order them: cp.async.commit_group"]},
)  # fmt: skip
def cp_async_commit_missing(kernel):
    for commit in kernel.find("cp.async.commit_group"):
        kernel.delete(commit)


GROUPS.append("Registers")


@mutation(
    "rs-registers-in-flight", MIXED, "a register of A is written before wgmma.wait_group",
    "wgmma that has A in registers reads them until its group has ended: the next fragments go "
    "elsewhere, or wait.",
    {"race": ["register", "wgmma", "wait_group"]},
)  # fmt: skip
def rs_registers_in_flight(kernel):
    mma = kernel.find("wgmma.mma_async.*")[-1]
    commit = next(i for i in kernel.after(mma) if i.opcode.startswith("wgmma.commit_group"))
    register = mma.operands[1].strip("{}").split(",")[0].strip()
    kernel.insert_after(commit, f"xor.b32 {register}, {register}, {register};")


@mutation(
    "part-added-too-early", MIXED, "wgmma.wait_group 1 in place of 0 before a block's sums are scaled",
    "The last products of the block are still running: their accumulators are not yet sums, nor is "
    "the slot free.",
    {"race": ["accumulator|register|wgmma", "wait_group"]},
)  # fmt: skip
def part_added_too_early(kernel):
    for wait in kernel.find("wgmma.wait_group.*"):
        if wait.operands == ["0"]:
            kernel.replace(wait, operands=["1"])


@mutation(
    "slices-added-too-early", MIXED,
    "who adds up the slices of K arrives where it should wait for the others",
    "Warpgroups that share a tile's K each have a part of its sums: one may read the others' when a "
    "barrier says that all are there.",
    {"race": ["ld.shared", "st.shared"]},
)  # fmt: skip
def slices_added_too_early(kernel):
    kernel.delete(kernel.one("barrier.sync*", at="the others have left theirs"))


@mutation(
    "more-registers-than-there-are", SPECIALIZED, "the consumers ask for 256 registers a thread, not 232",
    "setmaxnreg.inc waits until the CTA has as many: what all warps ask for together must not be "
    "more than it was launched with.",
    {"hang": ["for 256 registers a thread", "of the CTA's 64512", "setmaxnreg"]}, gpu="hang",
)  # fmt: skip
def more_registers_than_there_are(kernel):
    kernel.replace(kernel.one("setmaxnreg.inc.*"), operands=["256"])


@mutation(
    "registers-of-two-warps", SPECIALIZED, "only two of the producer's four warps execute setmaxnreg.dec",
    "setmaxnreg is for a whole warpgroup, even if three of its warps have nothing to do.",
    {"fault": ["setmaxnreg by a part of a warpgroup"], "hang": ["registers a thread"]},
)  # fmt: skip
def registers_of_two_warps(kernel):
    give = kernel.one("setmaxnreg.dec.*")
    kernel.replace_with(give, "{ .reg .pred some; .reg .b32 thread; mov.u32 thread, %tid.x;\n"
                              "  and.b32 thread, thread, 127; setp.lt.u32 some, thread, 64;\n"
                              f"  @some {give.text()} }}")  # fmt: skip


GROUPS.append("Barriers of a CTA")


@mutation(
    "bar-sync-before-reading", SMEM_TILED, "bar.sync between st.shared and ld.shared deleted",
    "A thread reads what other threads store: without the barrier they may not have stored it yet.",
    {"race": [r"ld.shared\S* reads .*, which (nothing has|st.shared\S* has) written|"
              r"ld.shared\S* reads .* before st.shared\S* writes it|"
              r"st.shared\S* writes .*, which ld.shared\S* reads", "order them: bar.sync"]},
)  # fmt: skip
def bar_sync_before_reading(kernel):
    kernel.delete(kernel.find("bar.sync")[0])


@mutation(
    "bar-sync-before-refilling", TMA, "bar.sync at the end of the main loop deleted",
    "Thread 0 asks TMA to overwrite the slot while other warps still read it.",
    {"race": ["ldmatrix", "cp.async.bulk.tensor", r"warp 0 \(copies and multiplies\)",
              "order them: bar.sync"]},
)  # fmt: skip
def bar_sync_before_refilling(kernel):
    kernel.delete(kernel.one("bar.sync", at="everyone has read the slot"))


GROUPS.append("Proxies")


@mutation(
    "fence-missing-after-ldmatrix", TMA, "fence.proxy.async between ldmatrix and TMA deleted",
    "ldmatrix reads through the generic proxy, TMA writes through the async one: a barrier alone "
    "does not put one before the other.",
    {"race": ["Undefined in kernel", "ldmatrix", "cp.async.bulk.tensor", "fence.proxy.async",
              "Rule: proxy-war"]},
)  # fmt: skip
def fence_missing_after_ldmatrix(kernel):
    kernel.delete(kernel.one("fence.proxy.async.*"))


@mutation(
    "fence-missing-after-decoding", MIXED, "fence.proxy.async between ld.shared and bulk copies deleted",
    "Packed weights are read by ld.shared, the generic proxy, and overwritten by the async one.",
    {"race": ["ld.shared", "cp.async.bulk", "fence.proxy.async", "Rule: proxy-war"]},
)  # fmt: skip
def fence_missing_after_decoding(kernel):
    for fence in kernel.find("fence.proxy.async.*", at="overwrite what ld.shared has read"):
        kernel.delete(fence)


@mutation(
    "fence-missing-before-tma-store", EPILOGUE,
    "fence.proxy.async between stmatrix and TMA store deleted",
    "The TMA store reads through the async proxy, which need not see what stmatrix wrote.",
    {"race": ["stmatrix", "cp.async.bulk.tensor", "fence.proxy.async"]},
)  # fmt: skip
def fence_missing_before_tma_store(kernel):
    kernel.delete(kernel.one("fence.proxy.async.*"))


@mutation(
    "fence-of-one-lane", EPILOGUE, "only lane 0 executes fence.proxy.async",
    "A proxy fence is for what its own thread has written: each lane that stores fences.",
    {"race": ["stmatrix", "cp.async.bulk.tensor", "fence.proxy.async", "Rule: proxy-raw"]},
)  # fmt: skip
def fence_of_one_lane(kernel):
    fence = kernel.one("fence.proxy.async.*")
    kernel.replace_with(fence, "{ .reg .pred first; .reg .b32 lane; mov.u32 lane, %laneid;\n"
                               f"  setp.eq.u32 first, lane, 0; @first {fence.text()} }}")  # fmt: skip


@mutation(
    "fence-of-global-memory", EPILOGUE, "fence.proxy.async.global in place of .shared::cta",
    "The fence names the memory that it orders: shared memory is what TMA reads here.",
    {"race": ["stmatrix", "cp.async.bulk.tensor", "fence.proxy.async.shared::cta", "Rule: proxy-raw"]},
)  # fmt: skip
def fence_of_global_memory(kernel):
    kernel.replace(kernel.one("fence.proxy.async.*"), opcode="fence.proxy.async.global")


GROUPS.append("TMA stores")


@mutation(
    "wait-group-read-dropped", EPILOGUE, "cp.async.bulk.wait_group.read deleted",
    "A TMA store reads shared memory long after it was issued: wait until it has, then reuse it.",
    {"race": ["stmatrix", "cp.async.bulk.tensor", "wait_group"]},
)  # fmt: skip
def wait_group_read_dropped(kernel):
    kernel.delete(kernel.one("cp.async.bulk.wait_group.read"))


@mutation(
    "barrier-after-wait-group-read-dropped", EPILOGUE,
    "the consumers do not wait for the storer, which has waited for wait_group.read",
    "Bulk groups are a thread's own: only the thread that committed can wait, and it must tell the "
    "others.",
    {"race": ["stmatrix", "cp.async.bulk.tensor"]},
)  # fmt: skip
def barrier_after_wait_group_read_dropped(kernel):
    always_true(kernel, kernel.one("mbarrier.try_wait.*", at="smem.stored["))


@mutation(
    "bulk-commit-missing", EPILOGUE, "cp.async.bulk.commit_group deleted",
    "wait_group counts committed groups, of bulk copies as of wgmma: without one it waits for "
    "nothing.",
    {"race": ["stmatrix", "cp.async.bulk.tensor", "order them: cp.async.bulk.(commit|wait)_group"]},
)  # fmt: skip
def bulk_commit_missing(kernel):
    kernel.delete(kernel.one("cp.async.bulk.commit_group"))


@mutation(
    "tma-store-past-d", BULK_STORE, "rows past the end of D are stored too",
    "A bulk copy has no tensor map to clip it: behind the last row it overwrites whatever lies "
    "there, and D itself is right.",
    {"fault": ["cp.async.bulk", "end of .*cudaMalloc"]},
)  # fmt: skip
def tma_store_past_d(kernel):
    bound = kernel.one("setp.ge.s32", at="t * BM + row < m")
    never, row, _ = bound.operands
    kernel.replace_with(bound, f"setp.ne.s32 {never}, {row}, {row};")


GROUPS.append("Layouts")

LEADING_OFFSET_BIT, STRIDE_OFFSET_BIT, SWIZZLE_BIT = 16, 32, 62  # of a matrix descriptor; offsets in units of 16 bytes


def change_a_descriptors(kernel, change):
    """Applies change() to the constant part of A's descriptor and of those advanced from it."""
    first = kernel.find("or.b64", at="a_desc = tile::k_major_128b")[0]
    for i in kernel.find("or.b64"):
        if i.operands[1] == first.operands[1] and i.operands[2].isdigit():
            kernel.replace(i, operands={2: hex(change(int(i.operands[2])))})


@mutation(
    "descriptor-sbo", WGMMA, "A's descriptor has a stride offset of 512 bytes in place of 1024",
    "The stride offset leads from one group of eight rows to the next: half of it reads half the "
    "rows twice.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def descriptor_sbo(kernel):
    change_a_descriptors(kernel, lambda bits: bits - (32 << STRIDE_OFFSET_BIT))


@mutation(
    "descriptor-swizzle", WGMMA, "A's descriptor says 64-byte swizzle, but TMA wrote 128-byte",
    "TMA and wgmma each apply the swizzle that they are told; nothing checks that they agree.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def descriptor_swizzle(kernel):
    change_a_descriptors(kernel, lambda bits: bits + (1 << SWIZZLE_BIT))


# Of an operand whose panel is 8192 bytes and whose groups of eight rows are 1024 apart.
MN_MAJOR_OFFSETS = (8192 >> 4) << LEADING_OFFSET_BIT | (1024 >> 4) << STRIDE_OFFSET_BIT
SWAPPED_OFFSETS = (1024 >> 4) << LEADING_OFFSET_BIT | (8192 >> 4) << STRIDE_OFFSET_BIT


@mutation(
    "mn-major-offsets-swapped", MN_MAJOR, "LBO and SBO of both operands change places",
    "In an MN-major operand the leading offset leads to the next panel along M or N, the stride offset "
    "to the next eight of K: swapped, wgmma also reads what is not of this slot.",
    RACE_WGMMA_TMA, gpu="wrong result",
)  # fmt: skip
def mn_major_offsets_swapped(kernel):
    found = [i for i in kernel.find("or.b64", at="TileA::descriptor(")
             + kernel.find("or.b64", at="TileB::descriptor(") if i.operands[2].isdigit()]  # fmt: skip
    if len(found) != 2:
        raise Problem(f"{kernel.name} makes {len(found)} such descriptors, not 2")
    for i in found:
        bits = int(i.operands[2]) - MN_MAJOR_OFFSETS + SWAPPED_OFFSETS
        kernel.replace(i, operands={2: str(bits)})


@mutation(
    "k-advance-of-k-major", MN_MAJOR, "descriptors advance 32 bytes along K, as K-major ones do",
    "Along K an MN-major operand advances by whole rows: 16 of 128 bytes.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def k_advance_of_k_major(kernel):
    advances = {"128": "2", "256": "4", "384": "6"}  # in units of 16 bytes
    found = [i for i in kernel.find("add.s64", at="tile::advance(") if i.operands[2] in advances]
    if len(found) != 6:
        raise Problem(f"{kernel.name} advances {len(found)} descriptors, not 6")
    for i in found:
        kernel.replace(i, operands={2: advances[i.operands[2]]})


@mutation(
    "scale-of-the-next-block", MIXED, "sums are scaled with what belongs to the next 128 of K",
    "A scale of another block is no race, and is about as large as it should be.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def scale_of_the_next_block(kernel):
    copies = kernel.find("cp.async.bulk.tensor.2d.shared*", at="load_scales<T>(head")
    if not copies:
        raise Problem("nobody loads scales")
    for copy in copies:
        row = copy.operands[1].strip("[]").split(",")[-1].strip(" {}")
        moved = copy.text().replace(f"{row}}}]", "next_block}]")
        kernel.replace_with(copy, f"{{ .reg .b32 next_block; add.s32 next_block, {row}, 1;\n"
                                  f"  {moved} }}")  # fmt: skip


@mutation(
    "part-staged-too-early", FP32_OUT, "the second part of a tile is staged without a wait",
    "Boxes that are used twice a tile are free when TMA has read what was there, not when the "
    "accumulators are.",
    {"race": [r"st\.shared\.v2\.f32", "cp.async.bulk.tensor"]}, policies=RANDOM + POLICIES[:2],
)  # fmt: skip
def part_staged_too_early(kernel):
    wait = kernel.one("mbarrier.try_wait.*", at="mbarrier_wait(&smem.stored[group]", nth=1)
    always_true(kernel, wait)


@mutation(
    "slot-misaligned", TMA, "the ring begins 128 bytes further, off 1024",
    "TMA swizzles absolute addresses, the kernel's ldmatrix offsets in the slot: they agree only "
    "if slots start on a multiple of 1024 bytes.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def slot_misaligned(kernel):
    starts = [i for i in kernel.find("mov.u32") if i.operands[1].endswith("smem_bytesE")]
    if not starts:
        raise Problem(f"{kernel.name} takes the address of no smem_bytes")
    # Slots and mbarriers; behind them are 1000 bytes of padding. 512 bytes would not show: rows of
    # A and B would be permuted alike.
    for start in starts:
        kernel.insert_after(start, f"add.s32 {start.operands[0]}, {start.operands[0]}, 128;")


@mutation(
    "tma-destination-misaligned", TMA, "the copies of A go 64 bytes further",
    "TMA's destination must be 128-byte aligned when it swizzles.",
    {"fault": ["cp.async.bulk.tensor", "not a multiple of 128"]}, gpu="fault",
)  # fmt: skip
def tma_destination_misaligned(kernel):
    for copy in kernel.find("cp.async.bulk.tensor.*", at="smem.a[slot]"):
        address = copy.operands[0].strip("[]")
        moved = [f"[moved]"] + copy.operands[1:]
        kernel.replace_with(copy, f"{{ .reg .b32 moved; add.u32 moved, {address}, 64;\n"
                                  f"\t  {copy.text(operands=moved)} }}")  # fmt: skip


@mutation(
    "descriptor-leaves-slot", WGMMA, "A's descriptor has a stride offset of 4096 bytes in place of 1024",
    "A stride that is too long leads out of the slot, to a tile that is not there yet or there no "
    "more: a wait for it would be the wrong cure.",
    {"race": ["the descriptor of A leaves its slot", "start 0x.*SBO 4096, 128-byte swizzle",
              "spans shared"]},
)  # fmt: skip
def descriptor_leaves_slot(kernel):
    change_a_descriptors(kernel, lambda bits: bits + (192 << STRIDE_OFFSET_BIT))


GROUPS.append("Clusters")


@mutation(
    "cluster-exit-unsynchronised", CLUSTER, "the last barrier.cluster deleted",
    "A CTA's shared memory goes when it exits: its peer must not arrive or multicast there later.",
    {"race": ["exit"], "fault": ["exit"]},
)  # fmt: skip
def cluster_exit_unsynchronised(kernel):
    for half in ("arrive", "wait"):
        kernel.delete(kernel.one(f"barrier.cluster.{half}.*", at="no CTA exits"))


@mutation(
    "remote-arrive-wrong-rank", CLUSTER, "consumer warps arrive twice at CTA 0, never at CTA 1",
    "mapa decides whose barrier is meant: CTA 1's producer waits for arrivals that CTA 0 got.",
    {"hang": ["mbarrier.try_wait", "arrival"], "fault": ["more than are expected"],
     "race": ["wgmma", "cp.async.bulk.tensor"]},
)  # fmt: skip
def remote_arrive_wrong_rank(kernel):
    kernel.replace(kernel.one("mapa.*", at=EMPTY), operands={2: "0"})


@mutation(
    "multicast-mask", CLUSTER, "each CTA's slice of B goes to CTA 0 only",
    "The mask says in which CTAs data and bytes arrive: CTA 1 expects bytes that never come.",
    {"hang": ["mbarrier.try_wait", "bytes"], "fault": ["bytes"],
     "race": ["wgmma", "cp.async.bulk.tensor"]}, gpu="hang",
)  # fmt: skip
def multicast_mask(kernel):
    copy = kernel.one("cp.async.bulk.tensor.*multicast*")
    masked = copy.operands[:-1] + ["mask"]
    kernel.replace_with(copy, f"{{ .reg .b16 mask; mov.u16 mask, 1;\n"
                              f"\t  {copy.text(operands=masked)} }}")  # fmt: skip


@mutation(
    "scope-cta", CLUSTER, "the remote arrive releases at scope cta in place of cluster",
    "A release orders for its scope only: another CTA's producer is outside of cta.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "cluster"]},
)  # fmt: skip
def scope_cta(kernel):
    kernel.delete(kernel.one("fence.release.*"))
    arrive = kernel.one("mbarrier.arrive.relaxed.cluster.*")
    kernel.replace(arrive, opcode="mbarrier.arrive.release.cta.shared::cluster.b64")


@mutation(
    "relaxed-arrive-without-fence", CLUSTER, "fence.release before the remote arrive deleted",
    "A relaxed arrive counts, and orders nothing: the fence before it does.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "release|fence"]},
)  # fmt: skip
def relaxed_arrive_without_fence(kernel):
    kernel.delete(kernel.one("fence.release.*"))


@mutation(
    "cluster-empty-count", CLUSTER, "empty mbarriers expect 8 arrivals, not the cluster's 16",
    "A multicast lands in both CTAs: the consumers of both must have released the slot.",
    RACE_WGMMA_TMA | {"fault": ["more than are expected"]},
)  # fmt: skip
def cluster_empty_count(kernel):
    for init in kernel.find("mbarrier.init.*", at=EMPTY):
        kernel.replace(init, operands={1: "8"})


GROUPS.append("Shared K")


@mutation(
    "share-overlaps-the-one-before", STREAM_K, "every share but the first begins a K step early",
    "Nothing hangs and nothing races: only a check of D finds a step of K that two clusters have "
    "multiplied.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def share_overlaps_the_one_before(kernel):
    begin = kernel.find("mad.lo.s32", at="step_ = schedule.begin(cluster)")[-1]
    step = begin.operands[0]
    kernel.insert_after(begin, f"sub.s32 {step}, {step}, 1; max.s32 {step}, {step}, 0;")


@mutation(
    "last-share-lost", STREAM_K, "the last to come looks for one arrival more than there are",
    "Nobody waits, so nobody hangs: each leaves its part to a cluster that never comes, and the "
    "tile is not stored.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def last_share_lost(kernel):
    for others in kernel.find("sub.s32", at="others = by.end - by.first - 1"):
        kernel.insert_after(others, f"add.s32 {others.operands[0]}, {others.operands[0]}, 1;")


@mutation(
    "counters-not-reset", STREAM_K, "the last to come leaves the counter as it is",
    "The product is right this time. The next launch counts on, and nobody is last: whoever counts "
    "must leave the counters as they were, and whoever tests must look at them.",
    {"wrong result": ["counters"]}, gpu="wrong result",
)  # fmt: skip
def counters_not_reset(kernel):
    kernel.delete(kernel.one("st.relaxed.gpu.*"))


@mutation(
    "barrier-before-arrival-dropped", STREAM_K,
    "one thread arrives for its warpgroup before the others have left their sums",
    "A release speaks for what its own thread has seen: the barrier in front of it makes that the "
    "whole warpgroup's.",
    {"race": [r"ld\.global", r"st\.global", "order them: fence.acq_rel.gpu"]},
)  # fmt: skip
def barrier_before_arrival_dropped(kernel):
    kernel.delete(kernel.one("barrier.sync", at="before one speaks for all"))


@mutation(
    "arrival-relaxed", STREAM_K, "the atom that arrives is relaxed in place of acq_rel",
    "A relaxed atom counts, and orders nothing: the sums that others left may not be there yet.",
    {"race": [r"ld\.global", r"st\.global", "order them: fence.acq_rel.gpu .* the writer's"]},
)  # fmt: skip
def arrival_relaxed(kernel):
    kernel.replace(kernel.one("atom.add.acq_rel.gpu.*"), opcode="atom.add.relaxed.gpu.global.u32")


@mutation(
    "counter-read-relaxed", STREAM_K, "the load of the counter is relaxed in place of acquire",
    "Whoever comes last by far reads the count and goes on: without acquire it knows that the sums "
    "were left, and need not see them.",
    {"race": [r"ld\.global", r"st\.global", "order them: fence.acq_rel.gpu .* behind the atomic or "
                                            "load that saw the counter"]},
)  # fmt: skip
def counter_read_relaxed(kernel):
    kernel.replace(kernel.one("ld.acquire.gpu.*"), opcode="ld.relaxed.gpu.global.u32")


@mutation(
    "sums-read-too-early", ADD_UP, "griddepcontrol.wait of the second kernel deleted",
    "The second kernel starts while the first still multiplies: the partial sums are there when its "
    "wait says so.",
    {"race": ["the grid before may still be running", "order them: griddepcontrol.wait"]},
)  # fmt: skip
def sums_read_too_early(kernel):
    kernel.delete(kernel.one("griddepcontrol.wait"))


@mutation(
    "partial-sums-unsynchronised", SPLIT_K, "nobody waits for the bytes of the partial sums",
    "st.async returns long before its bytes are there, wherever they go: only the mbarrier that "
    "counts them says when a sum may begin.",
    {"race": [r"ld\.shared", r"st\.async"]},
)  # fmt: skip
def partial_sums_unsynchronised(kernel):
    always_true(kernel, kernel.one("mbarrier.try_wait.*", at="mbarrier_wait_cluster(summands"))


@mutation(
    "barrier-of-two-warpgroups", STREAM_K, "barrier.sync expects 256 threads, and has 128",
    "A named barrier's count is of threads that come, not of threads that there are.",
    {"hang": ["128 of 256 threads have arrived, of warps"]}, gpu="hang",
)  # fmt: skip
def barrier_of_two_warpgroups(kernel):
    barrier = kernel.one("barrier.sync", at="before one speaks for all")
    kernel.replace_with(barrier, f"{barrier.opcode} {barrier.operands[0]}, 256;")


GROUPS.append("Block scales")


@mutation(
    "scales-of-another-block", BLOCK_SCALED, "the box of A's scales is that of the next 128 of K",
    "The bytes come, the barrier completes, nothing races: only a check with scales that differ "
    "from block to block finds that these belong to other products.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def scales_of_another_block(kernel):
    copy = kernel.one("cp.async.bulk.tensor.*", at="&map_scale")
    row = re.fullmatch(r"(\[.*, \{.*, )(%\w+)(\}\])", copy.operands[1])
    moved = copy.operands[:1] + [row[1] + "next_row" + row[3]] + copy.operands[2:]
    kernel.replace_with(copy, f"{{ .reg .b32 next_row; add.s32 next_row, {row[2]}, 1;\n"
                              f"\t  {copy.text(operands=moved)} }}")  # fmt: skip


@mutation(
    "scales-not-counted", BLOCK_SCALED,
    "the producer expects A's and B's 40,960 bytes, without the scales' 512",
    "Every copy that signals a barrier is counted, the smallest too: the slot may seem full while "
    "one of the three is on its way.",
    {"race": ["ld.shared|wgmma", "cp.async.bulk.tensor", "too few bytes were expected"],
     "hang": ["512 bytes more than expected", "expect_tx asks for fewer bytes"]},
)  # fmt: skip
def scales_not_counted(kernel):
    kernel.replace(kernel.one("mbarrier.arrive.expect_tx.*"), operands={2: "40960"})


@mutation(
    "scales-read-after-release", BLOCK_SCALED,
    "the scales are read behind the arrive on the empty mbarrier",
    "Releasing a slot gives all of it away: its scales must be in registers by then, not only its "
    "products.",
    {"race": [r"ld\.shared\.f32", r"cp\.async\.bulk\.tensor",
              r"an mbarrier\.arrive behind ld\.shared\.f32"]},
)  # fmt: skip
def scales_read_after_release(kernel):
    arrive = kernel.one("mbarrier.arrive.shared::cta.b64", at=EMPTY)
    for load in kernel.find("ld.shared.f32", at="block::load_scales"):
        kernel.delete(load)
        kernel.insert_at(kernel.next_label(arrive), load.text())


@mutation(
    "scales-fence-missing", BLOCK_SCALED,
    "fence.proxy.async behind the reads of the scales deleted",
    "wgmma reads through the async proxy, as TMA writes; ld.shared does not. The scales make a "
    "slot need the fence that it did without.",
    {"race": ["Undefined in kernel", r"ld\.shared\.f32", r"cp\.async\.bulk\.tensor",
              "fence.proxy.async", "Rule: proxy-war"]},
)  # fmt: skip
def scales_fence_missing(kernel):
    kernel.delete(kernel.one("fence.proxy.async.*", at="TMA will overwrite what was read"))


@mutation(
    "scales-of-other-lanes", BLOCK_SCALED, "bar.warp.sync behind the reads of the scales deleted",
    "wgmma.wait_group tells a lane that the warp's products are done, not that the other lanes "
    "have read their scales: lane 0 releases the slot for itself alone.",
    {"race": [r"ld\.shared\.f32", r"cp\.async\.bulk\.tensor", "bar.warp.sync|__syncwarp"]},
)  # fmt: skip
def scales_of_other_lanes(kernel):
    kernel.delete(kernel.one("bar.warp.sync", at="lane 0 releases the slot for all"))


@mutation(
    "promoted-too-early", BLOCK_SCALED, "wgmma.wait_group moved behind the promotion",
    "The sums of 128 of K belong to the tensor cores until wait_group: CUDA cores that promote "
    "them sooner add what is half summed.",
    {"race": ["accumulator|register", "wgmma", "wait_group"]},
)  # fmt: skip
def promoted_too_early(kernel):
    promotions = kernel.find("fma.rn.f32", at="block::promote")
    kernel.move_after(kernel.one("wgmma.wait_group.*"), promotions[-1])


@mutation(
    "sums-not-begun-anew", BLOCK_SCALED,
    "the first wgmma of a slot adds to the sums of the slot before",
    "What was promoted has been added already: each 128 of K must begin with a wgmma that "
    "overwrites.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def sums_not_begun_anew(kernel):
    first = kernel.find("wgmma.mma_async.*")[0]
    scale_d = kernel.before(first)[0]
    if scale_d.opcode != "setp.ne.b32" or scale_d.operands[0] != first.operands[3]:
        raise Problem(f"{kernel.name}: {scale_d.text()} does not set the scale-d of wgmma")
    kernel.replace(scale_d, operands={1: "1"})


@mutation(
    "boundary-too-early", BLOCK_SCALED, "B's next scale holds from 64 columns too early on",
    "A tile of 192 columns lies in two blocks of 128 that share it unevenly, tile by tile: where "
    "the second begins is worked out, and is as easily off by a group.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def boundary_too_early(kernel):
    choices = kernel.find("selp.f32", at="scale_b[1] : scale_b[0]")
    predicates = {choice.operands[3] for choice in choices}
    comparisons = [i for i in kernel.find("setp.gt.s32") if i.operands[0] in predicates]
    if {i.operands[2] for i in comparisons} != {"0", "64", "128"}:
        raise Problem(f"{kernel.name} does not compare the boundary with 0, 64 and 128")
    # boundary > the group's first column: the first scale. What a reader is shown comes first.
    for each in sorted(comparisons, key=lambda i: not kernel.comes_from(i, "block::promote")):
        kernel.replace(each, operands={2: str(int(each.operands[2]) + 64)})


@mutation(
    "no-taken-for-yes", BLOCK_SCALED, "the answer of mbarrier.test_wait is taken for yes",
    "test_wait never waits, and no is an answer: whoever gets it has to wait after all.",
    READS_TOO_EARLY,
)  # fmt: skip
def no_taken_for_yes(kernel):
    always_true(kernel, kernel.one("mbarrier.test_wait.*"))


@mutation(
    "turn-not-passed-on", IN_TURNS, "barrier.arrive behind wgmma deleted",
    "Who takes turns must hand them on: the other consumer waits at its barrier for 128 threads "
    "that never arrive.",
    {"hang": ["barrier.sync", "128 of 256 threads have arrived"]}, gpu="hang",
)  # fmt: skip
def turn_not_passed_on(kernel):
    kernel.delete(kernel.one("barrier.arrive", at="(group + 1) % T::CONSUMERS"))


@mutation(
    "first-turn-missing", IN_TURNS, "nobody arrives for the first turn",
    "A ring of turns must be started: each consumer waits for the one before it.",
    {"hang": ["barrier.sync", "128 of 256 threads have arrived"]}, gpu="hang",
)  # fmt: skip
def first_turn_missing(kernel):
    kernel.delete(kernel.one("barrier.arrive", at="the first turn"))


GROUPS.append("Epilogues")


@mutation(
    "c-read-before-it-landed", FUSED, "the consumers do not wait for C and the bias",
    "C comes while the products run, which is no reason for it to be there when they end.",
    {"race": [r"ld\.shared|ldmatrix", r"cp\.async\.bulk\.tensor", "too early|mbarrier"]},
)  # fmt: skip
def c_read_before_it_landed(kernel):
    always_true(kernel, kernel.one("mbarrier.try_wait.*", at="C and the bias have landed"))


@mutation(
    "c-overwrites-d", FUSED, "wait_group.read before C is asked for deleted",
    "The box that D leaves from is the one that C comes into: TMA may still read the one when it writes "
    "the other.",
    {"race": [r"s2g\(&map_d", r"offer\(smem, ahead", r"cp\.async\.bulk\.wait_group\.read"]},
)  # fmt: skip
def c_overwrites_d(kernel):
    kernel.delete(kernel.one("cp.async.bulk.wait_group.read"))


@mutation(
    "c-fence-missing", FUSED, "the storer's fence.proxy.async deleted",
    "D's last columns, which TMA cannot store, are read by ld.shared, the generic proxy; C overwrites "
    "them through the async one.",
    {"race": [r"ld\.shared", r"cp\.async\.bulk\.tensor", "fence.proxy.async", "Rule: proxy-war"]},
)  # fmt: skip
def c_fence_missing(kernel):
    kernel.delete(kernel.one("fence.proxy.async.*", at="TMA will write C where"))


@mutation(
    "c-not-counted", FUSED, "the storer expects the bias' 512 bytes, without C's 32,768",
    "One barrier tells of the bias and of C: it must count both.",
    {"race": [r"ldmatrix", r"cp\.async\.bulk\.tensor"],
     "hang": ["bytes more than expected", "expect_tx asks for fewer bytes"]},
)  # fmt: skip
def c_not_counted(kernel):
    for arrive in kernel.find("mbarrier.arrive.expect_tx.*", at="offer(smem, ahead"):
        kernel.replace(arrive, operands={2: "512"})


@mutation(
    "bias-of-the-next-tile", FUSED, "the bias is loaded 256 columns further on",
    "What lies behind the last column arrives as zeros, so that the last tile has no bias, and the others "
    "another one's: nothing races, and sums are about as large.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def bias_of_the_next_tile(kernel):
    for copy in kernel.find("cp.async.bulk.tensor.2d.shared*", at="map_bias, col"):
        column = re.fullmatch(r"(\[.*, \{)(%\w+)(, .*\}\])", copy.operands[1])
        moved = copy.operands[:1] + [column[1] + "next_tile" + column[3]] + copy.operands[2:]
        kernel.replace_with(copy, f"{{ .reg .b32 next_tile; add.s32 next_tile, {column[2]}, 256;\n"
                                  f"\t  {copy.text(operands=moved)} }}")  # fmt: skip


GROUPS.append("Dependent launches")


@mutation(
    "grid-wait-dropped", AUTOTUNED, "griddepcontrol.wait deleted",
    "A kernel that may start early must wait before it touches global memory: the kernel before "
    "may still write A, or read D.",
    {"race": ["the grid before may still be running", "order them: griddepcontrol.wait"]},
)  # fmt: skip
def grid_wait_dropped(kernel):
    kernel.delete(kernel.one("griddepcontrol.wait"))


GROUPS.append("Tiles")


@mutation(
    "raster-skips-a-tile", PERSISTENT, "producer and consumers step one tile too far",
    "Nothing hangs and nothing races: only a check of all of D finds tiles that nobody wrote.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def raster_skips_a_tile(kernel):
    steps = [i for i in kernel.find("add.s32", at="t += gridDim.x")
             if i.operands[0] == i.operands[1]]  # fmt: skip
    if len(steps) != 2:
        raise Problem(f"{kernel.name} has {len(steps)} steps of the tile loops, not 2")
    for step in steps:
        kernel.insert_after(step, f"add.s32 {step.operands[0]}, {step.operands[0]}, 1;")


GROUPS.append("Groups")


@mutation(
    "store-not-cut-off", GROUPED, "D's boxes are stored whole, not up to the group's end",
    "A tensor map knows where the matrix ends, not where a group does: what is behind a short tile's "
    "last row belongs to the next group, and both write it.",
    {"race": ["cp.async.bulk.tensor", "writes global"], "wrong result": [],
     "fault": ["cp.async.bulk.tensor", "allocation"]},
)  # fmt: skip
def store_not_cut_off(kernel):
    store = kernel.one("cp.async.bulk.tensor.3d.global.*")
    parts = re.fullmatch(r"(\[.*, \{%\w+, )(%\w+), (%\w+)(\}\])", store.operands[0])
    moved = [parts[1] + "0, whole" + parts[4]] + store.operands[1:]
    kernel.replace_with(store, f"{{ .reg .b32 whole; add.s32 whole, {parts[2]}, {parts[3]};\n"
                               f"\t  {store.text(operands=moved)} }}")  # fmt: skip


@mutation(
    "tile-given-to-two-groups", GROUPED, "each group's tiles begin one too early",
    "The list of first tiles is the whole schedule: off by one, two groups claim a tile, and one of "
    "them gets it.",
    {"wrong result": [], "race": ["cp.async.bulk.tensor"]}, gpu="wrong result",
)  # fmt: skip
def tile_given_to_two_groups(kernel):
    for store in kernel.find("st.shared.*", at="table.group[at++]"):
        tile = re.fullmatch(r"\{(%\w+), (%\w+), (%\w+), (%\w+)\}", store.operands[1])
        if tile is None:
            raise Problem(f"{kernel.name}: {store.text()} does not write an entry")
        early = [store.operands[0], f"{{{tile[1]}, {tile[2]}, early, {tile[4]}}}"]
        kernel.replace_with(store, f"{{ .reg .b32 early; sub.s32 early, {tile[3]}, 1;\n"
                                   f"\t  {store.text(operands=early)} }}")  # fmt: skip


@mutation(
    "groups-read-too-early", GROUPED, "bar.sync behind the list of groups deleted",
    "One warp writes the list and all warps walk it: shared memory is nobody's until a barrier says "
    "so.",
    {"race": ["shared", "bar"]},
)  # fmt: skip
def groups_read_too_early(kernel):
    kernel.delete(kernel.one("bar.sync", at="or looks for its tiles"))


@mutation(
    "sizes-read-too-early", GROUPED, "griddepcontrol.wait deleted",
    "The kernel before decides how many rows a group has, and may still be at it; so may the one "
    "that wrote this error flag.",
    {"race": ["the grid before may still be running", "order them: griddepcontrol.wait"]},
)  # fmt: skip
def sizes_read_too_early(kernel):
    kernel.delete(kernel.one("griddepcontrol.wait"))


@mutation(
    "whole-tiles-counted", GROUPED, "the producer expects a whole tile's bytes of short ones too",
    "Blocks of rows that a group does not have are not copied: their bytes never come.",
    {"hang": ["mbarrier.try_wait", "expect_tx asks for more bytes|more than"]}, gpu="hang",
)  # fmt: skip
def whole_tiles_counted(kernel):
    kernel.replace(kernel.one("mbarrier.arrive.expect_tx.*"), operands={2: "32768"})


@mutation(
    "idle-lanes-apart", GROUPED, "bar.warp.sync of a consumer without rows deleted",
    "wgmma keeps a warp's lanes together; where nothing is multiplied, lane 0 may release slots for "
    "lanes that have not looked at them yet, and these wait for a parity that is gone.",
    {"hang": ["mbarrier.try_wait", "31 lanes|lanes"]}, policies=RANDOM + POLICIES[:2],
)  # fmt: skip
def idle_lanes_apart(kernel):
    kernel.delete(kernel.one("bar.warp.sync", at="no lane is a lap behind lane 0"))


@mutation(
    "weights-of-the-first-group", GROUPED, "B is the first group's for all",
    "A group is three numbers, of A, of B and of D, and the code is right for one group without any "
    "of them.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def weights_of_the_first_group(kernel):
    copy = kernel.one("cp.async.bulk.tensor.3d.shared*", at="&map_b")
    copied = re.sub(r", %\w+\}\]$", ", 0}]", copy.operands[1])
    kernel.replace(copy, operands={1: copied})


@mutation(
    "scales-of-aligned-rows", GROUPED_SCALED, "a tile's scales come from four rows further on",
    "TMA copies from a multiple of 16 bytes on, and a group begins at any row: up to three scales of "
    "the group before come first.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def scales_of_aligned_rows(kernel):
    for copy in kernel.find("cp.async.bulk.tensor.2d.shared*", at="&map_scale"):
        row = re.fullmatch(r"(\[.*, \{)(%\w+)(, .*)", copy.operands[1])
        moved = copy.operands[:1] + [row[1] + "later" + row[3]] + copy.operands[2:]
        kernel.replace_with(copy, f"{{ .reg .b32 later; add.s32 later, {row[2]}, 4;\n"
                                  f"\t  {copy.text(operands=moved)} }}")  # fmt: skip


# --- what an H200 did ----------------------------------------------------------------------------

# One run of each on 2026-11-21, driver 580.159.04, CUDA 13.0.88 (mutations.py --gpu). What passes
# unseen there, or ends otherwise, may do so differently next time: that is the trouble with races.
H200 = {
    "hang": "init-count expect-bytes-more expect-bytes-less parity never-released "
            "stale-parity-second-tile multicast-mask",
    "fault": "empty-wait-skipped full-wait-skipped tma-destination-misaligned "
             "remote-arrive-wrong-rank cluster-empty-count turn-wait-skipped",
    "wrong result": "init-count-low released-before-wait-group wait-group-too-lax "
                    "bar-sync-before-reading descriptor-sbo descriptor-swizzle "
                    "raster-skips-a-tile slot-misaligned",
    "passes unseen": "init-fence copy-arrives-early elected-arrive-without-syncwarp "
                     "commit-missing accumulator-in-flight wgmma-fence-missing "
                     "cp-async-wait-too-lax bar-sync-before-refilling "
                     "fence-missing-after-ldmatrix cluster-exit-unsynchronised scope-cta "
                     "relaxed-arrive-without-fence fence-missing-before-tma-store "
                     "wait-group-read-dropped barrier-after-wait-group-read-dropped "
                     "bulk-commit-missing tma-store-past-d",
}  # fmt: skip

# --- runs ----------------------------------------------------------------------------------------

# How the first sentence of a report of the machine begins.
KINDS = {"Race": "race", "Undefined": "race", "Deadlock": "hang", "Livelock": "hang", "Fault": "fault",
         "Refused": "refused"}  # fmt: skip
REPORT = re.compile(rf"^({'|'.join(KINDS)}) in kernel ", re.MULTILINE)


class Ended:
    """How a run ended: `kind` is "clean" or one of the kinds above, `report` what it printed."""

    def __init__(self, status, report):
        self.status, self.report = status, report
        said = REPORT.search(report)
        if status == 0:
            self.kind = "clean"
        elif said:
            self.kind = KINDS[said.group(1)]
        elif status == 4:
            self.kind = "hang"
        elif status == 1 and "FAIL" in report:
            self.kind = "fault" if "Error" in report else "wrong result"
        else:
            self.kind = f"exit code {status}"

    def missing(self, words):
        return [word for word in words if not re.search(word, self.report)]


def run(words, environment, limit_s):
    try:
        ended = subprocess.run(
            words, env=dict(os.environ, **environment), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, timeout=limit_s, cwd=ROOT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Ended(4, f"The program had not ended after {limit_s} s.")
    except OSError as error:
        raise Problem(f"{words[0]} does not start ({error.strerror}): run make first")
    return Ended(ended.returncode, ended.stdout)


def run_on_machine(subject, policy, seed, ptx=None):
    """One thread, since as many runs as there are cores go on side by side."""
    words, environment = machine_run(subject.command(), ptx)
    environment.update({"MACHINE_POLICY": policy, "MACHINE_SEED": str(seed), "MACHINE_SMS": "4",
                        "MACHINE_THREADS": "1"})  # fmt: skip
    return run(words, environment, TIMEOUT_S)


class Clean:
    """Runs of the kernels without bugs, each once, by whichever thread is first."""

    def __init__(self, pool):
        self.pool, self.runs = pool, {}

    def start(self, subject, policy, seed):
        key = (subject.program, subject.variant, policy, seed)
        if key not in self.runs:
            self.runs[key] = self.pool.submit(run_on_machine, subject, policy, seed)


def write_mutated(mutation, folder, sleep=None):
    """The path of the mutated PTX; with `sleep`, a seed, with sleeps as well."""
    path = os.path.join(folder, mutation.name + ".ptx")
    module = load_module(os.path.join(ROOT, mutation.subject.ptx))
    mutation.apply(module)
    if sleep is not None:
        module = Module(module.rewritten())
        add_sleeps(mutation.subject.find_kernel(module), sleep)
    with open(path, "w", encoding="utf-8") as file:
        file.write(module.rewritten())
    return path


class Verdict:
    def __init__(self, caught, text, policy, ended):
        self.caught, self.text, self.policy, self.ended = caught, text, policy, ended


def judge(mutation, policy, ended):
    """Verdict on the first run that was not clean."""
    if ended.kind not in mutation.caught:
        return Verdict(False, f"{ended.kind}, not {' or '.join(mutation.caught)}", policy, ended)
    missing = ended.missing(mutation.caught[ended.kind])
    if missing:
        return Verdict(False, f"{ended.kind}, but the report lacks {missing}", policy, ended)
    return Verdict(True, ended.kind, policy, ended)


def try_on_machine(mutation, folder):
    """Runs one policy after another until something is reported."""
    path = write_mutated(mutation, folder)
    for policy, seed in mutation.policies:
        ended = run_on_machine(mutation.subject, policy, seed, path)
        if ended.kind != "clean":
            return judge(mutation, (policy, seed), ended)
    return Verdict(False, "nothing", mutation.policies[-1], ended)


def policy_text(policy, seed):
    return f"random, seed {seed}" if policy == "random" else policy


def print_row(cells, widths):
    line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths))
    print(line.rstrip(), flush=True)


def print_head(mutations, last):
    """Prints the table's head. Returns the widths of its columns but the last."""
    rows = [("mutation", "kernel", "what was changed")]
    rows += [(m.name, m.subject.what, m.what) for m in mutations]
    widths = [max(map(len, column)) for column in zip(*rows)] + [len("wrong result"), 0]
    print_row(list(rows[0]) + last, widths)
    return widths


def run_all(mutations):
    widths = print_head(mutations, ["caught as", "policy"])
    caught = false_reports = 0
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(cores) as pool:  # fmt: skip
        clean = Clean(pool)
        tries = [pool.submit(try_on_machine, mutation, folder) for mutation in mutations]
        for mutation in mutations:
            for policy, seed in mutation.policies:
                clean.start(mutation.subject, policy, seed)
        for mutation, future in zip(mutations, tries):
            verdict = future.result()
            caught += verdict.caught
            said = verdict.text if verdict.caught else f"NOT CAUGHT: {verdict.text}"
            print_row([mutation.name, mutation.subject.what, mutation.what, said,
                       policy_text(*verdict.policy)], widths)  # fmt: skip
            if not verdict.caught:
                print("    " + verdict.ended.report.strip().replace("\n", "\n    "), flush=True)
        for (program, variant, policy, seed), future in clean.runs.items():
            ended = future.result()
            if ended.kind == "clean":
                continue
            false_reports += 1
            print(f"FALSE REPORT without a bug: {ended.kind}, {program} {variant}, "
                  f"{policy_text(policy, seed)}")  # fmt: skip
            print("    " + ended.report.strip().replace("\n", "\n    "), flush=True)
    print(f"clean without a bug: {len(clean.runs) - false_reports} of {len(clean.runs)} runs")
    print(f"caught {caught} of {len(mutations)}")
    return 0 if caught == len(mutations) and false_reports == 0 else 1


# --- on a GPU ------------------------------------------------------------------------------------


def run_on_gpu(subject, ptx):
    words, environment = gpu_run(subject.command(), ptx)
    environment["LADDER_TIMEOUT"] = str(GPU_TIMEOUT_S)
    return run(words, environment, 3 * GPU_TIMEOUT_S)


def run_all_on_gpu(mutations, sleep):
    """One after another: a GPU runs alone."""
    widths = print_head(mutations, ["on the GPU", "must be"])
    good = shown = 0
    with tempfile.TemporaryDirectory() as folder:
        for mutation in mutations:
            ended = run_on_gpu(mutation.subject, write_mutated(mutation, folder, sleep))
            shown += ended.kind != "clean"
            ok = mutation.gpu in (None, ended.kind)
            good += ok
            said = "passes unseen" if ended.kind == "clean" else ended.kind
            print_row([mutation.name, mutation.subject.what, mutation.what, said,
                       (mutation.gpu or "-") + ("" if ok else " FAILED")], widths)  # fmt: skip
            if not ok:
                print("    " + ended.report.strip().replace("\n", "\n    "), flush=True)
    print(f"shown {shown} of {len(mutations)}; as it must be {good} of {len(mutations)}")
    return 0 if good == len(mutations) else 1


# --- for a reader --------------------------------------------------------------------------------

SHOWN_EDITS, SHOWN_CHARS = 4, 150


def shorten(text):
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + " ..."


def changed_lines(module):
    """The edits as "- old" and "+ new" lines."""
    out = []
    for start, end, new in sorted(module.edits)[:SHOWN_EDITS]:
        out += [f"- {shorten(module.text[start:end])}"] if end > start else []
        out += [f"+ {shorten(new)}"] if new.strip() else []
    more = len(module.edits) - SHOWN_EDITS
    return out + ([f"  and {more} more"] if more > 0 else [])


def source_of(mutation, module):
    """Line of the stage file, and its text, of the first instruction that is changed."""
    kernel = mutation.subject.find_kernel(module)
    for start, end, _ in module.edits:
        for i in kernel.instructions:
            if i.places and (i.start <= start < i.end or start in (i.start, i.end)):
                stage_file = i.places[0][0]
                return module.sources.line(*[p for p in i.places if p[0] == stage_file][-1])
    return "no line of its own"


def show(mutation):
    module = load_module(os.path.join(ROOT, mutation.subject.ptx))
    mutation.apply(module)
    print(f"{mutation.name} ({mutation.subject.what})\n")
    print(f"The line    {source_of(mutation, module)}")
    print(f"The change  {mutation.what}")
    print("".join(f"            {line}\n" for line in changed_lines(module)), end="")
    print(f"The lesson  {mutation.lesson}")
    print(f"On an H200  {mutation.on_h200()}\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        verdict = try_on_machine(mutation, folder)
    print(f"The PTX machine, policy {policy_text(*verdict.policy)}:\n")
    print(verdict.ended.report.strip())
    if not verdict.caught:
        print(f"\nNOT CAUGHT as expected: {verdict.text}")
    return 0 if verdict.caught else 1


# --- docs/failures.md ----------------------------------------------------------------------------

PAGE = os.path.join(ROOT, "docs", "failures.md")
PAGE_TABLES = re.compile(r"(?<=<!-- failures -->\n).*?(?=<!-- end -->)", re.DOTALL)


def page_tables():
    recorded = [m.on_h200() for m in MUTATIONS.values() if m.on_h200() != "not run"]
    unseen = recorded.count("passes unseen")
    lines = ["", f"Of the {len(recorded)} that ran on the H200, {unseen} passed unseen there.", ""]
    for group in GROUPS:
        lines += [f"### {group}", ""]
        lines += ["| name | kernel | what was changed | the machine says | an H200 | the lesson |",
                  "|---|---|---|---|---|---|"]
        for m in MUTATIONS.values():
            if m.group == group:
                cells = (f"`{m.name}`", m.subject.what, m.what, " or ".join(m.caught), m.on_h200(),
                         m.lesson)
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines) + "\n"


def page_with_tables(page):
    if len(PAGE_TABLES.findall(page)) != 1:
        raise Problem("docs/failures.md needs one line <!-- failures --> and one <!-- end -->")
    return PAGE_TABLES.sub(lambda _: page_tables(), page)


def write_page():
    with open(PAGE, encoding="utf-8") as file:
        page = page_with_tables(file.read())
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page)
    return 0


def list_mutations():
    width = max(map(len, MUTATIONS))
    for each in MUTATIONS.values():
        print(f"{each.name:{width}}  {each.subject.what}: {each.what}")
    return 0


@command("mutations")
def main(arguments=None):
    parser = parser_of(__doc__)
    parser.add_argument("--show", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--sleep", type=int, metavar="SEED")
    parser.add_argument("--only", metavar="NAME,NAME")
    options = parser.parse_args(arguments)
    if options.list:
        return list_mutations()
    if options.page:
        return write_page()
    if options.show:
        return show(find_mutation(options.show))
    names = options.only.split(",") if options.only else list(MUTATIONS)
    chosen = [find_mutation(name) for name in names]
    return run_all_on_gpu(chosen, options.sleep) if options.gpu else run_all(chosen)


if __name__ == "__main__":
    sys.exit(main())
