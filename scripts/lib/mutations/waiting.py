"""Bugs in waiting: mbarriers, groups, registers, barriers of a CTA."""

from __future__ import annotations

from lib.mutations.core import (
    EMPTY, FULL, GROUPS, POLICIES, RACE_WGMMA_TMA, RANDOM, READS_TOO_EARLY, at_once, delete,
    delete_all, each, mutation, operands, operands_of_all,
)  # fmt: skip
from lib.mutations.subjects import (
    CP_ASYNC, CP_ASYNC_MBARRIER, LEAVES_OUT, MIXED, PERSISTENT, PINGPONG,
    SIDE_BY_SIDE, SMEM_TILED, SPECIALIZED, TMA, WGMMA,
)  # fmt: skip
from lib.ptx import Kernel

GROUPS.append("Mbarriers")

mutation(
    "init-fence", SPECIALIZED, "fence.mbarrier_init deleted",
    "bar.sync makes the mbarrier known to the threads. By newer PTX manuals TMA then knows it, too; "
    "older ones do not say so, and the fence is right by both.",
    {"undefined": ["mbarrier.init", "fence.mbarrier_init|fence.proxy.async", "Rule: mbarrier-init"]},
    edit=delete("fence.mbarrier_init.*"),
)  # fmt: skip

mutation(
    "init-count", SPECIALIZED, "empty mbarriers expect 9 arrivals, but 8 warps arrive",
    "A barrier whose count is too high never completes: the ring stops when it first comes round.",
    {"hang": ["mbarrier.try_wait", "pending arrivals 1 of 9"]}, gpu="hang",
    edit=operands_of_all({1: "9"}, "mbarrier.init.*", at=EMPTY),
)  # fmt: skip

mutation(
    "init-count-low", SPECIALIZED, "empty mbarriers expect 4 arrivals, one warpgroup's",
    "A barrier whose count is too low frees the slot while another warpgroup still multiplies it; "
    "and as eight arrivals complete two phases of four, its parity may be the old one again.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "waited:  warp 0", "whose count is 4", "is not among them"],
     "hang": ["pending arrivals 4 of 4"]}, policies=RANDOM + POLICIES[:2],
    edit=operands_of_all({1: "4"}, "mbarrier.init.*", at=EMPTY),
)  # fmt: skip

mutation(
    "expect-bytes-more", SPECIALIZED, "the producer expects 16 bytes more than TMA brings",
    "Expected bytes that nobody sends keep the phase open for ever; boxes count in full even where "
    "they hang over the edge.",
    {"hang": ["mbarrier.try_wait", "16 bytes"]}, gpu="hang",
    edit=operands({2: "49168"}, "mbarrier.arrive.expect_tx.*"),
)  # fmt: skip

mutation(
    "expect-bytes-less", SPECIALIZED, "the producer expects only A's 16,384 bytes of 49,152",
    "The phase completes when as many bytes have come as were expected, wherever they landed: B "
    "may still be on its way.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "too few bytes were expected"],
     "hang": ["bytes more than expected", "expect_tx asks for fewer bytes"]}, gpu="hang",
    edit=operands({2: "16384"}, "mbarrier.arrive.expect_tx.*"),
)  # fmt: skip

mutation(
    "expect-bytes-left-out", LEAVES_OUT, "a slice that is left out, outside of A, is expected all the same",
    "What nobody asks for does not come: where a slice is left out, its bytes are no part of what is "
    "expected, in no CTA that it would have gone to.",
    {"hang": ["mbarrier.try_wait", "8192 bytes"]}, gpu="hang",
    edit=operands({2: "32768"}, "mbarrier.arrive.expect_tx.*", at="of all CTAs' copies"),
)  # fmt: skip


@mutation(
    "parity", WGMMA, "the wait for a full slot asks for the other parity",
    "Waiting for the parity of the phase before returns at once: the tile has not landed yet.",
    READS_TOO_EARLY,
)  # fmt: skip
def parity(kernel: Kernel) -> None:
    wait = kernel.one("mbarrier.try_wait.*", at=FULL)
    done, address, value = wait.operands
    kernel.replace_with(wait, f".reg .b32 other_parity; xor.b32 other_parity, {value}, 1;\n"
                              f"  {wait.opcode} {done}, {address}, other_parity;")  # fmt: skip


mutation(
    "empty-wait-skipped", SPECIALIZED, "the producer does not wait for an empty slot",
    "Nothing but the empty barrier tells TMA that wgmma has read a slot.",
    {"race": [r"cp.async.bulk.tensor\S* writes shared"],
     "fault": ["expect_tx makes 1 arrival, more than are expected"]},
    policies=[("random", 20)] + POLICIES,
    edit=at_once(EMPTY),
)  # fmt: skip

mutation(
    "full-wait-skipped", SPECIALIZED, "the consumers do not wait for a full slot",
    "Nothing but the full barrier tells the consumers that TMA has written a slot.",
    READS_TOO_EARLY,
    edit=at_once(FULL),
)  # fmt: skip

mutation(
    "never-released", SPECIALIZED, "the consumers do not arrive on the empty barrier",
    "A slot that nobody hands back stops the producer on its second lap.",
    {"hang": ["mbarrier.try_wait", "pending arrivals 8 of 8"]}, gpu="hang",
    edit=delete("mbarrier.arrive.shared::cta.b64", at=EMPTY),
)  # fmt: skip

mutation(
    "copy-arrives-early", CP_ASYNC_MBARRIER,
    "mbarrier.arrive in place of cp.async.mbarrier.arrive.noinc",
    "An ordinary arrive speaks for what the thread has done, not for copies that it has started.",
    {"race": ["cp.async", "ldmatrix"]},
    edit=each(lambda kernel, i: kernel.replace(
        i, "mbarrier.arrive.shared::cta.b64", ["_", *i.operands]), "cp.async.mbarrier.arrive.noinc.*"),
)  # fmt: skip

mutation(
    "elected-arrive-without-syncwarp", CP_ASYNC_MBARRIER, "bar.warp.sync before the arrive deleted",
    "One lane's arrive speaks for that lane's reads; bar.warp.sync makes it speak for the warp.",
    {"race": ["ldmatrix", "cp.async", "bar.warp.sync|__syncwarp"]},
    edit=delete("bar.warp.sync"),
)  # fmt: skip


@mutation(
    "stale-parity-second-tile", PERSISTENT, "the consumers begin every tile at parity 0",
    "Ring state lives longer than a tile: five k tiles leave the ring in the middle of a lap.",
    {"race": ["wgmma", "cp.async.bulk.tensor"], "hang": ["mbarrier.try_wait"]},
)  # fmt: skip
def stale_parity_second_tile(kernel: Kernel) -> None:
    wait = kernel.one("mbarrier.try_wait.*", at=FULL)
    step = next(i for i in kernel.after(wait)
                if i.opcode == "add.s32" and i.operands[0] == i.operands[1]
                and kernel.comes_from(i, "t += gridDim.x"))  # fmt: skip
    kernel.insert_after(step, f"mov.u32 {wait.operands[2]}, 0;")


mutation(
    "turn-wait-skipped", PINGPONG, "a consumer does not wait for its turn",
    "A parity tells one phase from the next, not from the one after that: who is a lap early takes "
    "the other consumer's tile for its own.",
    {"race": ["wgmma", "cp.async.bulk.tensor"], "fault": ["more than are expected"],
     "hang": ["mbarrier.try_wait"]},
    edit=at_once("smem.turn["),
)  # fmt: skip

mutation(
    "full-count", SPECIALIZED, "full mbarriers expect 2 arrivals, but only the producer's thread arrives",
    "The bytes are there, and an arrival is still missing: the count is of arrivals alone, and TMA "
    "makes none.",
    {"hang": ["pending arrivals 1 of 2", "Arrived: 1, by warp 0", "count of mbarrier.init"]}, gpu="hang",
    edit=operands_of_all({1: "2"}, "mbarrier.init.*", at=FULL),
)  # fmt: skip

mutation(
    "full-count-of-fewer", MIXED, "full mbarriers expect 3 arrivals, but four producers arrive",
    "A phase ends with the arrivals that were counted: the bytes of who comes last belong to the "
    "next one.",
    {"race": ["a count of mbarrier.init that is less than arrive"]},
    edit=operands_of_all({1: "3"}, "mbarrier.init.*", at="block::PACKED_PRODUCERS"),
)  # fmt: skip

mutation(
    "arrives-twice", SPECIALIZED, "the consumers arrive twice on the empty barrier",
    "An arrival too many completes a phase before its time, or is one that the phase has no room "
    "for.",
    {"fault": ["more than are expected", "Likely: the count of mbarrier.init is too low"]}
    | RACE_WGMMA_TMA | {"hang": ["mbarrier.try_wait"]},
    edit=each(lambda kernel, i: kernel.insert_after(i, i.text()),
              "mbarrier.arrive.shared::cta.b64", at=EMPTY),
)  # fmt: skip

mutation(
    "init-without-barrier", SPECIALIZED, "bar.sync behind mbarrier.init deleted",
    "The other threads may be at an mbarrier before thread 0 has made it.",
    {"race": ["mbarrier.init"], "fault": ["no mbarrier.init was executed"]},
    edit=delete("bar.sync", at="before the other threads wait on them"),
)  # fmt: skip


GROUPS.append("Groups of wgmma and cp.async")


@mutation(
    "released-before-wait-group", SPECIALIZED, "wgmma.wait_group moved behind the arrive",
    "Committing is not completing: until wait_group returns, wgmma may still read the slot.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "wait_group"]},
)  # fmt: skip
def released_before_wait_group(kernel: Kernel) -> None:
    wait = kernel.one("wgmma.wait_group.*")
    arrive = kernel.one("mbarrier.arrive.shared::cta.b64", at=EMPTY)
    kernel.delete(wait)
    kernel.insert_at(kernel.next_label(arrive), wait.text())


mutation(
    "half-still-reads", SIDE_BY_SIDE, "wgmma.wait_group leaves one of two groups in flight",
    "Each half of a block is a group of its own. Behind the wait the left one is done; the right one still "
    "reads the slot that is released.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "wait_group"]},
    edit=operands_of_all({0: "1"}, "wgmma.wait_group.*"),
)  # fmt: skip

mutation(
    "wait-group-too-lax", WGMMA, "wgmma.wait_group 1 in place of 0 in the main loop",
    "wait_group N leaves the latest N groups running: the slot that is refilled must be older.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "wait_group"]},
    edit=operands(["1"], "wgmma.wait_group.*", at="T::AHEAD"),
)  # fmt: skip

mutation(
    "commit-missing", WGMMA, "wgmma.commit_group deleted",
    "wait_group counts committed groups: products that were never committed are not waited for.",
    {"race": ["wgmma", "order them: wgmma.commit_group"]},
    edit=delete("wgmma.commit_group.*"),
)  # fmt: skip


@mutation(
    "accumulator-in-flight", WGMMA, "an accumulator is multiplied by 1 before wgmma.wait_group",
    "From mma_async to wait_group the accumulators belong to the tensor cores, even to be read.",
    {"race": ["accumulator|register", "wait_group"]},
)  # fmt: skip
def accumulator_in_flight(kernel: Kernel) -> None:
    commit = kernel.one("wgmma.commit_group.*")
    mma = next(i for i in kernel.before(commit) if i.opcode.startswith("wgmma.mma_async"))
    register = mma.operands[0].strip("{}").split(",")[0].strip()
    kernel.insert_after(commit, f"mul.f32 {register}, {register}, 0f3F800000;")


mutation(
    "wgmma-fence-missing", PERSISTENT, "wgmma.fence deleted",
    "A warp's first wgmma needs wgmma.fence, and any behind instructions that touched its "
    "registers: here the epilogue has read the accumulators of the next tile.",
    {"race": ["wgmma.fence"]},
    edit=delete("wgmma.fence.*"),
)  # fmt: skip

mutation(
    "cp-async-wait-too-lax", CP_ASYNC, "cp.async.wait_group 2 in place of 1",
    "With three slots two groups are in flight: waiting for all but two waits for none of them.",
    {"race": ["cp.async", "ldmatrix", "wait_group"]},
    edit=operands(["2"], "cp.async.wait_group"),
)  # fmt: skip

mutation(
    "cp-async-commit-missing", CP_ASYNC, "cp.async.commit_group in the main loop deleted",
    "wait_group counts committed groups: copies that were never committed are not waited for.",
    {"race": ["cp.async", "ldmatrix", "order them: cp.async.commit_group"]},
    edit=delete_all("cp.async.commit_group"),
)  # fmt: skip


GROUPS.append("Registers")


@mutation(
    "rs-registers-in-flight", MIXED, "a register of A is written before wgmma.wait_group",
    "wgmma that has A in registers reads them until its group has ended: the next fragments go "
    "elsewhere, or wait.",
    {"race": ["register", "wgmma", "wait_group"]},
)  # fmt: skip
def rs_registers_in_flight(kernel: Kernel) -> None:
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
def part_added_too_early(kernel: Kernel) -> None:
    for wait in kernel.find("wgmma.wait_group.*"):
        if wait.operands == ["0"]:
            kernel.replace(wait, operands=["1"])


mutation(
    "slices-added-too-early", MIXED,
    "who adds up the slices of K arrives where it should wait for the others",
    "Warpgroups that share a tile's K each have a part of its sums: one may read the others' when a "
    "barrier says that all are there.",
    {"race": ["ld.shared", "st.shared"]},
    edit=delete("barrier.sync*", at="the others have left theirs"),
)  # fmt: skip

mutation(
    "more-registers-than-there-are", SPECIALIZED, "the consumers ask for 256 registers a thread, not 232",
    "setmaxnreg.inc waits until the CTA has as many: what all warps ask for together must not be "
    "more than it was launched with.",
    {"hang": ["for 256 registers a thread", "of the CTA's 64512", "setmaxnreg"]}, gpu="hang",
    edit=operands(["256"], "setmaxnreg.inc.*"),
)  # fmt: skip


@mutation(
    "registers-of-two-warps", SPECIALIZED, "only two of the producer's four warps execute setmaxnreg.dec",
    "setmaxnreg is for a whole warpgroup, even if three of its warps have nothing to do.",
    {"fault": ["setmaxnreg by a part of a warpgroup"], "hang": ["registers a thread"]},
)  # fmt: skip
def registers_of_two_warps(kernel: Kernel) -> None:
    give = kernel.one("setmaxnreg.dec.*")
    kernel.replace_with(give, "{ .reg .pred some; .reg .b32 thread; mov.u32 thread, %tid.x;\n"
                              "  and.b32 thread, thread, 127; setp.lt.u32 some, thread, 64;\n"
                              f"  @some {give.text()} }}")  # fmt: skip


GROUPS.append("Barriers of a CTA")

mutation(
    "bar-sync-before-reading", SMEM_TILED, "bar.sync between st.shared and ld.shared deleted",
    "A thread reads what other threads store: without the barrier they may not have stored it yet.",
    {"race": [r"ld.shared\S* reads .*, which (nothing has|st.shared\S* has) written|"
              r"ld.shared\S* reads .* before st.shared\S* writes it|"
              r"st.shared\S* writes .*, which ld.shared\S* reads", "order them: bar.sync"]},
    edit=lambda kernel: kernel.delete(kernel.find("bar.sync")[0]),
)  # fmt: skip

mutation(
    "bar-sync-before-refilling", TMA, "bar.sync at the end of the main loop deleted",
    "Thread 0 asks TMA to overwrite the slot while other warps still read it.",
    {"race": ["ldmatrix", "cp.async.bulk.tensor", r"warp 0 \(copies and multiplies\)",
              "order them: bar.sync"]},
    edit=delete("bar.sync", at="everyone has read the slot"),
)  # fmt: skip
