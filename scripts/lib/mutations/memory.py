"""Bugs in memory: proxies, TMA stores, layouts."""

from __future__ import annotations

from lib.cli import Problem
from lib.mutations.core import (
    GROUPS, POLICIES, RACE_WGMMA_TMA, RANDOM, Edit, at_once, at_once_of_several, coordinate_moved,
    delete, delete_all, each, mutation, opcode, with_register,
)  # fmt: skip
from lib.mutations.subjects import (
    AUTOTUNED, BULK_STORE, EPILOGUE, FP32_OUT, MIXED, MN_MAJOR, ON_ITS_SIDE, PINGPONG, TMA, WGMMA,
)  # fmt: skip
from lib.ptx import Kernel

GROUPS.append("Proxies")

mutation(
    "fence-missing-after-ldmatrix", TMA, "fence.proxy.async between ldmatrix and TMA deleted",
    "ldmatrix reads through the generic proxy, TMA writes through the async one: a barrier alone "
    "does not put one before the other.",
    {"undefined": ["ldmatrix", "cp.async.bulk.tensor", "fence.proxy.async", "Rule: proxy-war"]},
    edit=delete("fence.proxy.async.*"),
)  # fmt: skip

mutation(
    "fence-missing-after-decoding", MIXED, "fence.proxy.async between ld.shared and bulk copies deleted",
    "Packed weights are read by ld.shared, the generic proxy, and overwritten by the async one.",
    {"undefined": ["ld.shared", "cp.async.bulk", "fence.proxy.async", "Rule: proxy-war"]},
    edit=delete_all("fence.proxy.async.*", at="overwrite what ld.shared has read"),
)  # fmt: skip

mutation(
    "fence-missing-before-tma-store", EPILOGUE,
    "fence.proxy.async between stmatrix and TMA store deleted",
    "The TMA store reads through the async proxy, which need not see what stmatrix wrote.",
    {"race": ["stmatrix", "cp.async.bulk.tensor", "fence.proxy.async"]},
    edit=delete("fence.proxy.async.*"),
)  # fmt: skip


@mutation(
    "fence-of-one-lane", EPILOGUE, "only lane 0 executes fence.proxy.async",
    "A proxy fence is for what its own thread has written: each lane that stores fences.",
    {"race": ["stmatrix", "cp.async.bulk.tensor", "fence.proxy.async", "Rule: proxy-raw"]},
)  # fmt: skip
def fence_of_one_lane(kernel: Kernel) -> None:
    fence = kernel.one("fence.proxy.async.*")
    kernel.replace_with(fence, "{ .reg .pred first; .reg .b32 lane; mov.u32 lane, %laneid;\n"
                               f"  setp.eq.u32 first, lane, 0; @first {fence.text()} }}")  # fmt: skip


mutation(
    "fence-of-global-memory", EPILOGUE, "fence.proxy.async.global in place of .shared::cta",
    "The fence names the memory that it orders: shared memory is what TMA reads here.",
    {"race": ["stmatrix", "cp.async.bulk.tensor", "fence.proxy.async.shared::cta", "Rule: proxy-raw"]},
    edit=opcode("fence.proxy.async.global", "fence.proxy.async.*"),
)  # fmt: skip


GROUPS.append("TMA stores")

mutation(
    "wait-group-read-dropped", EPILOGUE, "cp.async.bulk.wait_group.read deleted",
    "A TMA store reads shared memory long after it was issued: wait until it has, then reuse it.",
    {"race": ["stmatrix", "cp.async.bulk.tensor", "wait_group"]},
    edit=delete("cp.async.bulk.wait_group.read"),
)  # fmt: skip

mutation(
    "barrier-after-wait-group-read-dropped", EPILOGUE,
    "the consumers do not wait for the storer, which has waited for wait_group.read",
    "Bulk groups are a thread's own: only the thread that committed can wait, and it must tell the "
    "others.",
    {"race": ["stmatrix", "cp.async.bulk.tensor"]},
    edit=at_once("smem.stored["),
)  # fmt: skip

mutation(
    "bulk-commit-missing", EPILOGUE, "cp.async.bulk.commit_group deleted",
    "wait_group counts committed groups, of bulk copies as of wgmma: without one it waits for "
    "nothing.",
    {"race": ["stmatrix", "cp.async.bulk.tensor", "order them: cp.async.bulk.(commit|wait)_group"]},
    edit=delete("cp.async.bulk.commit_group"),
)  # fmt: skip

mutation(
    "exit-under-a-store", AUTOTUNED, "the last cp.async.bulk.wait_group.read deleted",
    "Shared memory is the next CTA's as soon as this one exits: TMA would store what that one has "
    "there.",
    {"race": ["exits", "cp.async.bulk.tensor.* may still read shared",
              "order them: cp.async.bulk.wait_group.read", "Rule: bulk-exit"]},
    edit=delete("cp.async.bulk.wait_group.read", at="% 32 == 0) ptx::cp_async_bulk_wait_group_read"),
)  # fmt: skip


@mutation(
    "tma-store-past-d", BULK_STORE, "rows past the end of D are stored too",
    "A bulk copy has no tensor map to clip it: behind the last row it overwrites whatever lies "
    "there, and D itself is right.",
    {"fault": ["cp.async.bulk", "end of .*cudaMalloc"]},
)  # fmt: skip
def tma_store_past_d(kernel: Kernel) -> None:
    bound = kernel.one("setp.ge.s32", at="t * BM + row < m")
    never, row, _ = bound.operands
    kernel.replace_with(bound, f"setp.ne.s32 {never}, {row}, {row};")


GROUPS.append("Layouts")

LEADING_OFFSET_BIT, STRIDE_OFFSET_BIT, SWIZZLE_BIT = 16, 32, 62  # of a matrix descriptor; offsets in units of 16 bytes


def add_to_a_descriptors(bits: int) -> Edit:
    """To the constant part of A's descriptor and of those advanced from it."""

    def edit(kernel: Kernel) -> None:
        first = kernel.find("or.b64", at="a_desc = tile::k_major_128b")[0]
        for i in kernel.find("or.b64"):
            if i.operands[1] == first.operands[1] and i.operands[2].isdigit():
                kernel.replace(i, operands={2: hex(int(i.operands[2]) + bits)})

    return edit


mutation(
    "descriptor-sbo", WGMMA, "A's descriptor has a stride offset of 512 bytes in place of 1024",
    "The stride offset leads from one group of eight rows to the next: half of it reads half the "
    "rows twice.",
    {"wrong result": []}, gpu="wrong result",
    edit=add_to_a_descriptors(-(32 << STRIDE_OFFSET_BIT)),
)  # fmt: skip

mutation(
    "descriptor-swizzle", WGMMA, "A's descriptor says 64-byte swizzle, but TMA wrote 128-byte",
    "TMA and wgmma each apply the swizzle that they are told; nothing checks that they agree.",
    {"wrong result": []}, gpu="wrong result",
    edit=add_to_a_descriptors(1 << SWIZZLE_BIT),
)  # fmt: skip

# Of an operand whose panel is 8192 bytes and whose groups of eight rows are 1024 apart.
MN_MAJOR_OFFSETS = (8192 >> 4) << LEADING_OFFSET_BIT | (1024 >> 4) << STRIDE_OFFSET_BIT
SWAPPED_OFFSETS = (1024 >> 4) << LEADING_OFFSET_BIT | (8192 >> 4) << STRIDE_OFFSET_BIT


@mutation(
    "mn-major-offsets-swapped", MN_MAJOR, "LBO and SBO of both operands change places",
    "In an MN-major operand the leading offset leads to the next panel along M or N, the stride offset "
    "to the next eight of K: swapped, wgmma also reads what is not of this slot.",
    RACE_WGMMA_TMA, gpu="wrong result",
)  # fmt: skip
def mn_major_offsets_swapped(kernel: Kernel) -> None:
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
def k_advance_of_k_major(kernel: Kernel) -> None:
    advances = {"128": "2", "256": "4", "384": "6"}  # in units of 16 bytes
    found = [i for i in kernel.find("add.s64", at="tile::advance(") if i.operands[2] in advances]
    if len(found) != 6:
        raise Problem(f"{kernel.name} advances {len(found)} descriptors, not 6")
    for i in found:
        kernel.replace(i, operands={2: advances[i.operands[2]]})


mutation(
    "scale-of-the-next-block", MIXED, "sums are scaled with what belongs to the next 128 of K",
    "A scale of another block is no race, and is about as large as it should be.",
    {"wrong result": []}, gpu="wrong result",
    edit=coordinate_moved("cp.async.bulk.tensor.2d.shared*", "load_scales<T>(head",
                          r"(\[.*, )(%\w+)(\}\])", 1),
)  # fmt: skip

mutation(
    "third-box-too-early", PINGPONG, "the third box of a tile is staged without a wait",
    "Two places hold the first two boxes at once. The third is the first that must wait: until TMA "
    "has read what is in its place.",
    {"race": ["stmatrix", "cp.async.bulk.tensor"]}, policies=RANDOM + POLICIES[:2],
    edit=at_once_of_several(2, "mbarrier_wait(&smem.stored[group]"),
)  # fmt: skip


mutation(
    "last-box-too-high", ON_ITS_SIDE, "the last box of a tile has 64 rows, as the others",
    "A tile of 176 rows of D leaves 48 for its last box. The map of the others would write 16 rows of "
    "the tile below, with what was in the box before.",
    {"race": ["cp.async.bulk.tensor", "Rule: global-race"]},
    edit=each(lambda kernel, i: kernel.replace(i, operands={1: i.operands[2]}), "selp.b64"),
)  # fmt: skip

mutation(
    "part-staged-too-early", FP32_OUT, "the second part of a tile is staged without a wait",
    "Boxes that are used twice a tile are free when TMA has read what was there, not when the "
    "accumulators are.",
    {"race": [r"st\.shared\.v2\.f32", "cp.async.bulk.tensor"]}, policies=RANDOM + POLICIES[:2],
    edit=at_once_of_several(1, "mbarrier_wait(&smem.stored[group]"),
)  # fmt: skip


@mutation(
    "slot-misaligned", TMA, "the ring begins 128 bytes further, off 1024",
    "TMA swizzles absolute addresses, the kernel's ldmatrix offsets in the slot: they agree only "
    "if slots start on a multiple of 1024 bytes.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def slot_misaligned(kernel: Kernel) -> None:
    starts = [i for i in kernel.find("mov.u32") if i.operands[1].endswith("smem_bytesE")]
    if not starts:
        raise Problem(f"{kernel.name} takes the address of no smem_bytes")
    # Slots and mbarriers; behind them are 1000 bytes of padding. 512 bytes would not show: rows of
    # A and B would be permuted alike.
    for start in starts:
        kernel.insert_after(start, f"add.s32 {start.operands[0]}, {start.operands[0]}, 128;")


@mutation(
    "tma-destination-misaligned", TMA, "the copies of A go 64 bytes further",
    "The destination of a tensor copy must be 128-byte aligned, swizzled or not.",
    {"fault": ["cp.async.bulk.tensor", "not a multiple of 128"]}, gpu="fault",
)  # fmt: skip
def tma_destination_misaligned(kernel: Kernel) -> None:
    for copy in kernel.find("cp.async.bulk.tensor.*", at="smem.a[slot]"):
        moved = f"add.u32 moved, {copy.operands[0].strip('[]')}, 64"
        with_register(kernel, copy, ".b32 moved", moved, {0: "[moved]"})


mutation(
    "descriptor-leaves-slot", WGMMA, "A's descriptor has a stride offset of 4096 bytes in place of 1024",
    "A stride that is too long leads out of the slot, to a tile that is not there yet or there no "
    "more: a wait for it would be the wrong cure.",
    {"race": ["the descriptor of A leaves its slot", "start 0x.*SBO 4096, 128-byte swizzle",
              "spans shared", "order them: nothing should"]},
    edit=add_to_a_descriptors(192 << STRIDE_OFFSET_BIT),
)  # fmt: skip
