"""Bugs in what CTAs share: clusters, and the sum of a tile over K."""

from __future__ import annotations

from lib.mutations.core import (
    EMPTY, FULL, GROUPS, RACE_WGMMA_TMA, always_true, at_once, delete, delete_all, each, mutation,
    opcode, operands, operands_of_all, with_register,
)  # fmt: skip
from lib.mutations.subjects import (
    ADD_UP, BOTH_WAYS, CLUSTER, EIGHT, MIXED_SPLIT, SPLIT_K, STREAM_K,
)  # fmt: skip
from lib.ptx import Instruction, Kernel

GROUPS.append("Clusters")

mutation(
    "cluster-exit-unsynchronised", CLUSTER, "the last barrier.cluster deleted",
    "A CTA's shared memory goes when it exits: its peer must not arrive or multicast there later.",
    {"race": ["exit"], "fault": ["exit"]},
    edit=delete_all("barrier.cluster.*", at="no CTA exits"),
)  # fmt: skip

mutation(
    "remote-arrive-wrong-rank", CLUSTER, "consumer warps arrive twice at CTA 0, never at CTA 1",
    "mapa decides whose barrier is meant: CTA 1's producer waits for arrivals that CTA 0 got.",
    {"hang": ["mbarrier.try_wait", "arrival"], "fault": ["more than are expected"],
     "race": ["wgmma", "cp.async.bulk.tensor"]},
    edit=operands({2: "0"}, "mapa.*", at=EMPTY),
)  # fmt: skip


@mutation(
    "multicast-mask", CLUSTER, "each CTA's slice of B goes to CTA 0 only",
    "The mask says in which CTAs data and bytes arrive: CTA 1 expects bytes that never come.",
    {"hang": ["mbarrier.try_wait", "bytes"], "fault": ["bytes"],
     "race": ["wgmma", "cp.async.bulk.tensor"]}, gpu="hang",
)  # fmt: skip
def multicast_mask(kernel: Kernel) -> None:
    copy = kernel.one("cp.async.bulk.tensor.*multicast*")
    masked = [*copy.operands[:-1], "mask"]
    with_register(kernel, copy, ".b16 mask", "mov.u16 mask, 1", masked)


@mutation(
    "columns-mask-of-the-rows", BOTH_WAYS, "slices of the columns go to the CTAs that share the rows",
    "In a cluster that shares both operands each has a mask of its own: here as many bytes come as "
    "are expected, but half of a CTA's columns come twice, and the others never.",
    {"race": [r"cp.async.bulk.tensor\S* writes shared .*, which cp.async.bulk.tensor\S* has written"]},
)  # fmt: skip
def columns_mask_of_the_rows(kernel: Kernel) -> None:
    rows = kernel.one("cp.async.bulk.tensor.*multicast*", at="load<T, T::CLUSTER_N>")
    columns = kernel.one("cp.async.bulk.tensor.*multicast*", at="load<T, T::CLUSTER_M>")
    mask = len(columns.operands) - 2  # in front of the policy
    kernel.replace(columns, operands={mask: rows.operands[mask]})


@mutation(
    "scope-cta", CLUSTER, "the remote arrive releases at scope cta in place of cluster",
    "A release orders for its scope only: another CTA's producer is outside of cta.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "cluster"]},
)  # fmt: skip
def scope_cta(kernel: Kernel) -> None:
    kernel.delete(kernel.one("fence.release.*"))
    arrive = kernel.one("mbarrier.arrive.relaxed.cluster.*")
    kernel.replace(arrive, opcode="mbarrier.arrive.release.cta.shared::cluster.b64")


mutation(
    "relaxed-arrive-without-fence", CLUSTER, "fence.release before the remote arrive deleted",
    "A relaxed arrive counts, and orders nothing: the fence before it does.",
    {"race": ["wgmma", "cp.async.bulk.tensor", "release|fence"]},
    edit=delete("fence.release.*"),
)  # fmt: skip

mutation(
    "cluster-empty-count", CLUSTER, "empty mbarriers expect 8 arrivals, not the cluster's 16",
    "A multicast lands in both CTAs: the consumers of both must have released the slot.",
    RACE_WGMMA_TMA | {"fault": ["more than are expected"]},
    edit=operands_of_all({1: "8"}, "mbarrier.init.*", at=EMPTY),
)  # fmt: skip


@mutation(
    "exit-without-the-tail", EIGHT, "the producer does not wait for the last slots to be released",
    "Where no barrier.cluster ends a cluster, a CTA stays until all that come to it have come: the "
    "arrivals that release the last slots are the last, and nothing else needs them.",
    {"race": [r"exits, but mbarrier.arrive\S* may still write", "a wait for that phase of the mbarrier"],
     "fault": ["all threads of whose CTA have exited"]},
)  # fmt: skip
def exit_without_the_tail(kernel: Kernel) -> None:
    for instruction in kernel.after(kernel.one("griddepcontrol.launch_dependents")):
        if instruction.opcode.startswith("mbarrier.try_wait") and kernel.comes_from(instruction, EMPTY):
            always_true(kernel, instruction)


@mutation(
    "passed-on-unread", EIGHT, "warp 3 releases a slot when its bytes are there, not when it is read",
    "Who releases a slot for others must have heard from them: the arrivals count all the same, and "
    "TMA overwrites what wgmma still reads.",
    RACE_WGMMA_TMA,
)  # fmt: skip
def passed_on_unread(kernel: Kernel) -> None:
    def address(wait: Instruction) -> Instruction:
        register = wait.operands[1].strip("[]")
        return next(i for i in kernel.before(wait) if i.operands[:1] == [register])

    wait = kernel.one("mbarrier.try_wait.*", at="smem.done[")
    done, full = address(wait), address(kernel.one("mbarrier.try_wait.*", at=FULL))
    bytes_between = int(done.operands[2]) - int(full.operands[2])
    with_register(kernel, wait, ".b32 landed", f"sub.u32 landed, {done.operands[0]}, {bytes_between}",
                  {1: "[landed]"})  # fmt: skip


GROUPS.append("Shared K")


@mutation(
    "share-overlaps-the-one-before", STREAM_K, "every share but the first begins a K step early",
    "Nothing hangs and nothing races: only a check of D finds a step of K that two clusters have "
    "multiplied.",
    {"wrong result": []}, gpu="wrong result",
)  # fmt: skip
def share_overlaps_the_one_before(kernel: Kernel) -> None:
    begin = kernel.find("mad.lo.s32", at="step_ = schedule.begin(cluster)")[-1]
    step = begin.operands[0]
    kernel.insert_after(begin, f"sub.s32 {step}, {step}, 1; max.s32 {step}, {step}, 0;")


mutation(
    "last-share-lost", STREAM_K, "the last to come looks for one arrival more than there are",
    "Nobody waits, so nobody hangs: each leaves its part to a cluster that never comes, and the "
    "tile is not stored.",
    {"wrong result": []}, gpu="wrong result",
    edit=each(lambda kernel, i: kernel.insert_after(i, "add.s32 {0}, {0}, 1;".format(*i.operands)),
              "sub.s32", at="others = by.end - by.first - 1"),
)  # fmt: skip

mutation(
    "counters-not-reset", STREAM_K, "the last to come leaves the counter as it is",
    "The product is right this time. The next launch counts on, and nobody is last: whoever counts "
    "must leave the counters as they were, and whoever tests must look at them.",
    {"wrong result": ["counters"]}, gpu="wrong result",
    edit=delete("st.relaxed.gpu.*"),
)  # fmt: skip

mutation(
    "barrier-before-arrival-dropped", STREAM_K,
    "one thread arrives for its warpgroup before the others have left their sums",
    "A release speaks for what its own thread has seen: the barrier in front of it makes that the "
    "whole warpgroup's.",
    {"race": [r"ld\.global", r"st\.global", "order them: bar.sync .* between st.global"]},
    edit=delete("barrier.sync", at="before one speaks for all"),
)  # fmt: skip

mutation(
    "arrival-relaxed", STREAM_K, "the atom that arrives is relaxed in place of acq_rel",
    "A relaxed atom counts, and orders nothing: the sums that others left may not be there yet.",
    {"race": [r"ld\.global", r"st\.global", "order them: fence.acq_rel.gpu .* the writer's"]},
    edit=opcode("atom.add.relaxed.gpu.global.u32", "atom.add.acq_rel.gpu.*"),
)  # fmt: skip

mutation(
    "counter-read-relaxed", STREAM_K, "the load of the counter is relaxed in place of acquire",
    "Whoever comes last by far reads the count and goes on: without acquire it knows that the sums "
    "were left, and need not see them.",
    {"race": [r"ld\.global", r"st\.global", "order them: fence.acq_rel.gpu .* behind the atomic or "
                                            "load that saw the counter"]},
    edit=opcode("ld.relaxed.gpu.global.u32", "ld.acquire.gpu.*"),
)  # fmt: skip

mutation(
    "sums-read-too-early", ADD_UP, "griddepcontrol.wait of the second kernel deleted",
    "The second kernel starts while the first still multiplies: the partial sums are there when its "
    "wait says so.",
    {"race": ["the grid before may still be running", "order them: griddepcontrol.wait"]},
    edit=delete("griddepcontrol.wait"),
)  # fmt: skip

mutation(
    "partial-sums-unsynchronised", SPLIT_K, "nobody waits for the bytes of the partial sums",
    "st.async returns long before its bytes are there, wherever they go: only the mbarrier that "
    "counts them says when a sum may begin.",
    {"race": [r"ld\.shared", r"st\.async"]},
    edit=at_once("mbarrier_wait_cluster(summands"),
)  # fmt: skip

mutation(
    "sums-sent-before-read", MIXED_SPLIT, "nobody waits until the sums of the tile before are read",
    "The buffer for partial sums is one: a peer that is a tile ahead overwrites what is still to be "
    "added, unless who reads it has said so.",
    {"race": [r"st\.async", r"ld\.shared"]},
    edit=at_once("mbarrier_wait_cluster(drained"),
)  # fmt: skip

mutation(
    "barrier-of-two-warpgroups", STREAM_K, "barrier.sync expects 256 threads, and has 128",
    "A named barrier's count is of threads that come, not of threads that there are.",
    {"hang": ["128 of 256 threads have arrived, of warps"]}, gpu="hang",
    edit=operands({1: "256"}, "barrier.sync", at="before one speaks for all"),
)  # fmt: skip
