"""Bugs in scales, in dependent launches and in the order of tiles."""

from __future__ import annotations

import re

from lib.cli import Problem
from lib.mutations.core import (
    EMPTY, GROUPS, POLICIES, RANDOM, READS_TOO_EARLY, at_once, coordinate_moved, delete, mutation,
    operands, operands_of_all, parts, with_register,
)  # fmt: skip
from lib.mutations.subjects import (
    AUTOTUNED, BLOCK_SCALED, EVEN_ROWS, FUSED, GROUPED, GROUPED_SCALED, IN_TURNS, PERSISTENT,
    REPLACED, TILES_OF_50,
)  # fmt: skip
from lib.ptx import Kernel

GROUPS.append("Block scales")

mutation(
    "scales-of-another-block", BLOCK_SCALED, "the box of A's scales is that of the next 128 of K",
    "The bytes come, the barrier completes, nothing races: only a check with scales that differ "
    "from block to block finds that these belong to other products.",
    {"wrong result": []}, gpu="wrong result",
    edit=coordinate_moved("cp.async.bulk.tensor.*", "&map_scale", r"(\[.*, \{.*, )(%\w+)(\}\])", 1),
)  # fmt: skip

mutation(
    "scales-not-counted", BLOCK_SCALED,
    "the producer expects A's and B's 40,960 bytes, without the scales' 512",
    "Every copy that signals a barrier is counted, the smallest too: the slot may seem full while "
    "one of the three is on its way.",
    {"race": ["ld.shared|wgmma", "cp.async.bulk.tensor", "too few bytes were expected"],
     "hang": ["512 bytes more than expected", "expect_tx asks for fewer bytes"]},
    edit=operands({2: "40960"}, "mbarrier.arrive.expect_tx.*"),
)  # fmt: skip


@mutation(
    "scales-read-after-release", BLOCK_SCALED,
    "the scales are read behind the arrive on the empty mbarrier",
    "Releasing a slot gives all of it away: its scales must be in registers by then, not only its "
    "products.",
    {"race": [r"ld\.shared\.f32", r"cp\.async\.bulk\.tensor",
              r"an mbarrier\.arrive behind ld\.shared\.f32"]},
)  # fmt: skip
def scales_read_after_release(kernel: Kernel) -> None:
    arrive = kernel.one("mbarrier.arrive.shared::cta.b64", at=EMPTY)
    for load in kernel.find("ld.shared.f32", at="block::load_scales"):
        kernel.delete(load)
        kernel.insert_at(kernel.next_label(arrive), load.text())


mutation(
    "scales-fence-missing", BLOCK_SCALED,
    "fence.proxy.async behind the reads of the scales deleted",
    "wgmma reads through the async proxy, as TMA writes; ld.shared does not. The scales make a "
    "slot need the fence that it did without.",
    {"undefined": [r"ld\.shared\.f32", r"cp\.async\.bulk\.tensor", "fence.proxy.async",
                   "Rule: proxy-war"]},
    edit=delete("fence.proxy.async.*", at="TMA will overwrite what was read"),
)  # fmt: skip

mutation(
    "scales-of-other-lanes", BLOCK_SCALED, "bar.warp.sync behind the reads of the scales deleted",
    "wgmma.wait_group tells a lane that the warp's products are done, not that the other lanes "
    "have read their scales: lane 0 releases the slot for itself alone.",
    {"race": [r"ld\.shared\.f32", r"cp\.async\.bulk\.tensor", "bar.warp.sync|__syncwarp"]},
    edit=delete("bar.warp.sync", at="lane 0 releases the slot for all"),
)  # fmt: skip


@mutation(
    "promoted-too-early", BLOCK_SCALED, "wgmma.wait_group moved behind the promotion",
    "The sums of 128 of K belong to the tensor cores until wait_group: CUDA cores that promote "
    "them sooner add what is half summed.",
    {"race": ["accumulator|register", "wgmma", "wait_group"]},
)  # fmt: skip
def promoted_too_early(kernel: Kernel) -> None:
    promotions = kernel.find("fma.rn.f32", at="block::promote")
    kernel.move_after(kernel.one("wgmma.wait_group.*"), promotions[-1])


@mutation(
    "sums-not-begun-anew", BLOCK_SCALED,
    "the first wgmma of a slot adds to the sums of the slot before",
    "What was promoted has been added already: each 128 of K must begin with a wgmma that "
    "overwrites.",
    {"race": ["adds to accumulators that nothing has written", "Rule: never-written"]},
    gpu="wrong result",
)  # fmt: skip
def sums_not_begun_anew(kernel: Kernel) -> None:
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
def boundary_too_early(kernel: Kernel) -> None:
    choices = kernel.find("selp.f32", at="scale_b[1] : scale_b[0]")
    predicates = {choice.operands[3] for choice in choices}
    comparisons = [i for i in kernel.find("setp.gt.s32") if i.operands[0] in predicates]
    if {i.operands[2] for i in comparisons} != {"0", "64", "128"}:
        raise Problem(f"{kernel.name} does not compare the boundary with 0, 64 and 128")
    # boundary > the group's first column: the first scale. What a reader is shown comes first.
    for each in sorted(comparisons, key=lambda i: not kernel.comes_from(i, "block::promote")):
        kernel.replace(each, operands={2: str(int(each.operands[2]) + 64)})


mutation(
    "no-taken-for-yes", BLOCK_SCALED, "the answer of mbarrier.test_wait is taken for yes",
    "test_wait never waits, and no is an answer: whoever gets it has to wait after all.",
    READS_TOO_EARLY,
    edit=at_once(opcode="mbarrier.test_wait.*"),
)  # fmt: skip

mutation(
    "rows-of-a-full-tile", EVEN_ROWS, "the second consumer begins at row 64, as if all rows were there",
    "Where a tile has fewer rows than it has room for, they are dealt out to the consumers anew, and "
    "everybody must reckon with as many: boxes, products, scales and stores.",
    {"wrong result": []}, gpu="wrong result",
    edit=operands({1: "64"}, "selp.b32", at="group * own_rows"),
)  # fmt: skip

mutation(
    "turn-not-passed-on", IN_TURNS, "barrier.arrive behind wgmma deleted",
    "Who takes turns must hand them on: the other consumer waits at its barrier for 128 threads "
    "that never arrive.",
    {"hang": ["barrier.sync", "128 of 256 threads have arrived"]}, gpu="hang",
    edit=delete("barrier.arrive", at="(group + 1) % T::CONSUMERS"),
)  # fmt: skip

mutation(
    "first-turn-missing", IN_TURNS, "nobody arrives for the first turn",
    "A ring of turns must be started: each consumer waits for the one before it.",
    {"hang": ["barrier.sync", "128 of 256 threads have arrived"]}, gpu="hang",
    edit=delete("barrier.arrive", at="the first turn"),
)  # fmt: skip


GROUPS.append("Epilogues")

mutation(
    "c-read-before-it-landed", FUSED, "the consumers do not wait for C and the bias",
    "C comes while the products run, which is no reason for it to be there when they end.",
    {"race": [r"ld\.shared|ldmatrix", r"cp\.async\.bulk\.tensor", "too early|mbarrier"]},
    edit=at_once("C and the bias have landed"),
)  # fmt: skip

mutation(
    "c-overwrites-d", FUSED, "wait_group.read before C is asked for deleted",
    "The box that D leaves from is the one that C comes into: TMA may still read the one when it writes "
    "the other.",
    {"race": [r"s2g\(&map_d", r"g2s\(boxes", r"cp\.async\.bulk\.wait_group\.read"]},
    edit=delete("cp.async.bulk.wait_group.read"),
)  # fmt: skip

mutation(
    "c-fence-missing", FUSED, "the storer's fence.proxy.async deleted",
    "D's last columns, which TMA cannot store, are read by ld.shared, the generic proxy; C overwrites "
    "them through the async one.",
    {"undefined": [r"ld\.shared", r"cp\.async\.bulk\.tensor", "fence.proxy.async",
                   "Rule: proxy-war"]},
    edit=delete("fence.proxy.async.*", at="TMA will write C where"),
)  # fmt: skip

mutation(
    "c-not-counted", FUSED, "the storer expects the bias' 512 bytes, without C's 32,768",
    "One barrier tells of the bias and of C: it must count both.",
    {"race": [r"ldmatrix", r"cp\.async\.bulk\.tensor"],
     "hang": ["bytes more than expected", "expect_tx asks for fewer bytes"]},
    edit=operands_of_all({2: "512"}, "mbarrier.arrive.expect_tx.*", at="offer(smem, ahead"),
)  # fmt: skip


mutation(
    "bias-of-the-next-tile", FUSED, "the bias is loaded 256 columns further on",
    "What lies behind the last column arrives as zeros, so that the last tile has no bias, and the others "
    "another one's: nothing races, and sums are about as large.",
    {"wrong result": []}, gpu="wrong result",
    edit=coordinate_moved("cp.async.bulk.tensor.2d.shared*", "map_bias, col",
                          r"(\[.*, \{)(%\w+)(, .*\}\])", 256),
)  # fmt: skip


@mutation(
    "rows-of-the-tile-below", TILES_OF_50, "the last columns are stored as far as the box has rows",
    "Where rows are shared out evenly a box has more rows than its tile. TMA stores as many as its map "
    "says; who stores the rest must know where the tile ends, and not only where D does.",
    {"race": [r"earlier: .*CTA \(0,0,0\)", r"later: .*CTA \(1,0,0\)", "store_last_elements"]},
)  # fmt: skip
def rows_of_the_tile_below(kernel: Kernel) -> None:
    end = kernel.one("min.s32", at="min(m, row + rows)")
    kernel.replace(end, operands={1: end.operands[2]})


GROUPS.append("Dependent launches")

mutation(
    "grid-wait-dropped", AUTOTUNED, "griddepcontrol.wait deleted",
    "A kernel that may start early must wait before it touches global memory: the kernel before "
    "may still write A, or read D.",
    {"race": ["the grid before may still be running", "order them: griddepcontrol.wait"]},
    edit=delete("griddepcontrol.wait"),
)  # fmt: skip


GROUPS.append("Tiles")


@mutation(
    "raster-skips-a-tile", PERSISTENT, "producer and consumers step one tile too far",
    "Nothing hangs and nothing races: only a check of all of D finds tiles that nobody wrote.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def raster_skips_a_tile(kernel: Kernel) -> None:
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
def store_not_cut_off(kernel: Kernel) -> None:
    store = kernel.one("cp.async.bulk.tensor.3d.global.*")
    at = parts(r"(\[.*, \{%\w+, )(%\w+), (%\w+)(\}\])", store.operands[0])
    whole = f"add.s32 whole, {at[2]}, {at[3]}"
    with_register(kernel, store, ".b32 whole", whole, {0: f"{at[1]}0, whole{at[4]}"})


@mutation(
    "tile-given-to-two-groups", GROUPED, "each group's tiles begin one too early",
    "The list of first tiles is the whole schedule: off by one, two groups claim a tile, and one of "
    "them gets it.",
    {"wrong result": [], "race": ["cp.async.bulk.tensor"]}, gpu="wrong result",
)  # fmt: skip
def tile_given_to_two_groups(kernel: Kernel) -> None:
    for store in kernel.find("st.shared.*", at="table.group[at++]"):
        tile = parts(r"\{(%\w+), (%\w+), (%\w+), (%\w+)\}", store.operands[1])
        early, listed = f"sub.s32 early, {tile[3]}, 1", f"{tile[1]}, {tile[2]}, early, {tile[4]}"
        with_register(kernel, store, ".b32 early", early, {1: f"{{{listed}}}"})


mutation(
    "groups-read-too-early", GROUPED, "bar.sync behind the list of groups deleted",
    "One warp writes the list and all warps walk it: shared memory is nobody's until a barrier says "
    "so.",
    {"race": ["shared", "bar"]},
    edit=delete("bar.sync", at="or looks for its tiles"),
)  # fmt: skip

mutation(
    "sizes-read-too-early", GROUPED, "griddepcontrol.wait deleted",
    "The kernel before decides how many rows a group has, and may still be at it; so may the one "
    "that wrote this error flag.",
    {"race": ["the grid before may still be running", "order them: griddepcontrol.wait"]},
    edit=delete("griddepcontrol.wait"),
)  # fmt: skip

mutation(
    "whole-tiles-counted", GROUPED, "the producer expects a whole tile's bytes of short ones too",
    "Blocks of rows that a group does not have are not copied: their bytes never come.",
    {"hang": ["mbarrier.try_wait", "expect_tx asks for more bytes|more than"]}, gpu="hang",
    edit=operands({2: "32768"}, "mbarrier.arrive.expect_tx.*"),
)  # fmt: skip

mutation(
    "idle-lanes-apart", GROUPED, "bar.warp.sync of a consumer without rows deleted",
    "wgmma keeps a warp's lanes together; where nothing is multiplied, lane 0 may release slots for "
    "lanes that have not looked at them yet, and these wait for a parity that is gone.",
    {"hang": ["mbarrier.try_wait", "31 lanes|lanes"]}, policies=RANDOM + POLICIES[:2],
    edit=delete("bar.warp.sync", at="no lane is a lap behind lane 0"),
)  # fmt: skip


@mutation(
    "weights-of-the-first-group", GROUPED, "B is the first group's for all",
    "A group is three numbers, of A, of B and of D, and the code is right for one group without any "
    "of them.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def weights_of_the_first_group(kernel: Kernel) -> None:
    copy = kernel.one("cp.async.bulk.tensor.3d.shared*", at="&map_b")
    copied = re.sub(r", %\w+\}\]$", ", 0}]", copy.operands[1])
    kernel.replace(copy, operands={1: copied})


mutation(
    "scales-of-aligned-rows", GROUPED_SCALED, "a tile's scales come from four rows further on",
    "TMA copies from a multiple of 16 bytes on, and a group begins at any row: up to three scales of "
    "the group before come first.",
    {"wrong result": []}, gpu="wrong result",
    edit=coordinate_moved("cp.async.bulk.tensor.2d.shared*", "&map_scale",
                          r"(\[.*, \{)(%\w+)(, .*)", 4),
)  # fmt: skip

mutation(
    "map-used-without-its-fence", REPLACED, "fence.proxy.tensormap deleted",
    "TMA reads tensor maps through a proxy and a cache of its own: behind a new one at an old address "
    "the fence is what makes it look again.",
    {"race": ["cp.async.bulk.tensor.* reads its tensor map", "tensormap.cp_fenceproxy.* has written",
              "order them: fence.proxy.tensormap::generic.acquire.gpu"]},
    edit=delete("fence.proxy.tensormap*"),
)  # fmt: skip


@mutation(
    "map-copied-without-a-release", REPLACED, "lane 0 copies the map by ordinary stores",
    "A new map is two steps, a copy and a release to TMA: tensormap.cp_fenceproxy does both, an "
    "ordinary store the first alone.",
    {"race": ["cp.async.bulk.tensor.* reads its tensor map", "st.global.* has written",
              "order them: tensormap.cp_fenceproxy in place of st.global"]},
)  # fmt: skip
def map_copied_without_a_release(kernel: Kernel) -> None:
    copy = kernel.one("tensormap.cp_fenceproxy.*")
    to, source = (operand.strip("[]") for operand in copy.operands[:2])
    lines = ["{ .reg .b64 part<2>; .reg .b32 lane; .reg .pred others;",
             "mov.u32 lane, %laneid; setp.ne.u32 others, lane, 0; @others bra COPIED;"]  # fmt: skip
    for at in range(0, 128, 16):
        lines += [f"ld.shared.v2.b64 {{part0, part1}}, [{source}+{at}];",
                  f"st.global.v2.b64 [{to}+{at}], {{part0, part1}};"]  # fmt: skip
    kernel.replace_with(copy, "\n\t  ".join(lines + ["COPIED: }"]))


mutation(
    "map-replaced-while-read", REPLACED, "cp.async.bulk.wait_group.read deleted",
    "A store reads two things after it is started, its boxes and its tensor map: neither may change "
    "before the wait.",
    {"race": ["tensormap.cp_fenceproxy.* writes global", "cp.async.bulk.tensor.* reads, maybe later",
              "order them: cp.async.bulk.wait_group.read"]},
    edit=delete("cp.async.bulk.wait_group.read"),
)  # fmt: skip
