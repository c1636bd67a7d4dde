"""TMA and the older asynchronous copies: loads of rank 1 to 5, stores and reductions, multicast, bulk
copies without a tensor, cp.async. What lies in shared memory afterwards is the outcome."""

import itertools

from suite import SIZES, SWIZZLES, packed_strides, tensor_map

THREADS = 128
DATA = 1024  # offset of the tile in shared memory, where swizzle atoms begin

# Waits for phase 0 of the barrier at %smem, but not for ever: %r30 = 1 when it has completed.
WAIT = """mov.u32 %r31, 0;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%smem], 0;
  add.u32 %r31, %r31, 1;
  setp.lt.u32 %p2, %r31, 200;
  not.pred %p3, %p1;
  and.pred %p2, %p2, %p3;
  @%p2 bra WAIT;
  selp.b32 %r30, 1, 0, %p1;
"""

IN_CTA = "mov.u32 %r29, %tid.x;\n"  # the thread within its CTA


def fill(dump):
    """Fills the tile's bytes (word `dump` holds how many) with 0xa5 and initialises the barrier."""
    return IN_CTA + f"""mul.lo.u32 %r4, %r29, 4;
  mov.u32 %r5, 0xa5a5a5a5;
FILL:
  add.u32 %r6, %r4, %smem;
  st.shared.b32 [%r6+{DATA}], %r5;
  add.u32 %r4, %r4, {THREADS * 4};
  setp.lt.u32 %p1, %r4, {dump};
  @%p1 bra FILL;
  setp.ne.u32 %p4, %r29, 0;
  @%p4 bra READY;
  mbarrier.init.shared::cta.b64 [%smem], 1;
  fence.mbarrier_init.release.cluster;
READY:
  fence.proxy.async;
"""


def copy_out(dump, at="%out"):
    """Stores the tile's bytes, then thread 0's %r30 behind them."""
    return f"""bar.sync 0;
  mul.lo.u32 %r4, %r29, 4;
DUMP:
  add.u32 %r6, %r4, %smem;
  ld.shared.b32 %r7, [%r6+{DATA}];
  cvt.u64.u32 %rd4, %r4;
  add.u64 %rd4, {at}, %rd4;
  st.global.b32 [%rd4], %r7;
  add.u32 %r4, %r4, {THREADS * 4};
  setp.lt.u32 %p1, %r4, {dump};
  @%p1 bra DUMP;
  @%p4 bra DONE;
  cvt.u64.u32 %rd4, {dump};
  add.u64 %rd4, {at}, %rd4;
  st.global.b32 [%rd4], %r30;
DONE:
"""


def coordinates(rank, first):
    return "{" + ", ".join(f"%x{first + i}" for i in range(rank)) + "}"


# Thread 0's %r30 is the outcome. If it is 0, %x1 bytes are taken for the ones that never came.
COUNT_OUT = """@%p4 bra COUNTED;
  st.global.b32 [%out], %r30;
  setp.eq.u32 %p1, %r30, 0;
  @%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%smem], %x1;
COUNTED:
  bar.sync 0;
""" + WAIT.replace("WAIT", "REST")


def load_kernel(suite, rank, count=False):
    # Words: bytes to expect, bytes to dump, offset of the tile, coordinates. With `count` the outcome
    # is only whether the expected bytes came, and the second word is what may be lacking.
    body = fill("%x1") + f"""bar.sync 0;
  @%p4 bra ISSUED;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], %x0;
  add.u32 %r8, %smem, %x2;
  add.u32 %r8, %r8, {DATA};
  cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r8], [%m0, {coordinates(rank, 3)}], [%smem];
ISSUED:
""" + WAIT + (COUNT_OUT if count else copy_out("%x1"))
    return suite.kernel("tma", f"tma.{'count' if count else 'load'}.{rank}d", body, words=3 + rank, maps=1, smem=True)


def down(x, size):
    """Coordinate x of dimension 0, down to the nearest where a tile may begin: at whole 16 bytes."""
    return x * size // 16 * 16 // size


def tile_bytes(used, row, swizzle):
    """Bytes of shared memory under a tile of `used` bytes in rows of `row`: swizzled, each row has the
    swizzle's whole span to itself."""
    return used // row * (16 << swizzle) if swizzle else used


def edges(dims, box, size):
    """Where tiles begin that lie inside a tensor or beyond each of its edges, by label."""
    step = 16 // size
    ones = [1] * (len(dims) - 1)
    past_end = [d - b // 2 for d, b in zip(dims, box)]
    return {"inside": [step, *ones], "negative": [-step, *(-i for i in ones)],
            "outside": list(dims), "past_end": [down(past_end[0], size), *past_end[1:]]}


def box_bytes(box, element_strides, size):
    """Bytes of a tile; the element stride of dimension 0 does not count without interleaving."""
    total = size * box[0]
    for extent, step in zip(box[1:], (element_strides or [1] * len(box))[1:]):
        total *= -(-extent // step)
    return total


def tensor_bytes(dims, strides, size):
    """Bytes from a tensor's first to its last, in whole 16 bytes."""
    reach = dims[0] * size + sum(s * (d - 1) for s, d in zip(strides, dims[1:]))
    return (reach + 15) // 16 * 16


def word(values):
    return ",".join(str(v & 0xFFFFFFFFFFFFFFFF) for v in values)


def loads(suite):
    kernels = {rank: load_kernel(suite, rank) for rank in range(1, 6)}

    def load(label, type, dims, box, at, kind="u32", offset=0, element_strides=None, strides=None,
             count=False, **keys):
        rank, size = len(dims), SIZES[type]
        strides = packed_strides(dims, size) if strides is None else strides
        span = tensor_bytes(dims, strides, size)
        used = box_bytes(box, element_strides, size)
        held = tile_bytes(used, size * box[0], keys.get("swizzle", 0))
        # Every thread fills and dumps at least one word.
        dump = max(THREADS * 4, (held + offset + 255) // 128 * 128)
        m = tensor_map("in+0", type, dims, strides, box, element_strides, **keys)
        name, entry, sizes, out = "load", kernels[rank], [used, dump], dump + 4
        if count:  # do the bytes between a tile's rows count?
            entry = load_kernel(suite, rank, count=True)
            name, sizes, out = "count", [held, held - used], 4
        suite.case(f"tma/{name}.{rank}d.{type}.{label}", "tma", entry, block=THREADS,
                   smem=DATA + dump, map=m, w=word([*sizes, offset, *at]), out=out,
                   **{"in": f"{kind}:{span}"})

    # Every rank, inside and beyond each edge.
    shapes = {1: ((100,), (32,)), 2: ((40, 12), (16, 8)), 3: ((20, 7, 5), (8, 4, 2)),
              4: ((12, 5, 4, 3), (8, 2, 2, 2)), 5: ((12, 4, 3, 3, 2), (4, 2, 2, 2, 2))}
    for rank, (dims, box) in shapes.items():
        far = [down(dims[0] - 1, 4), *(d - 1 for d in dims[1:])]
        places = {**edges(dims, box, 4), "origin": [0] * rank, "last": far,
                  "before": [-b for b in box], "far": [1 << 20] * rank,
                  "far_negative": [-(1 << 20)] * rank}
        for i in range(rank):
            places[f"negative{i}"] = [(-1 if j == i else 1) * (1 if j else 4) for j in range(rank)]
            places[f"past_end{i}"] = [d if j == i else 0 for j, d in enumerate(far)]
        for label, at in places.items():
            load(label, "f32", dims, box, at)
        for type in ("u8", "u16", "s32", "u64", "s64", "f16", "bf16", "f64"):
            size = SIZES[type]
            box_of = (max(box[0], 32 // size), *box[1:])
            load("corner", type, dims, box_of, [-16 // size] + far[1:])
            load("end", type, dims, box_of, [down(dims[0] - 1, size)] + far[1:])
        # A last row that ends within 16 bytes.
        load("ragged", "f32", (dims[0] - 3, *dims[1:]), box, [down(dims[0] - 4, 4)] + [0] * (rank - 1))
    # Swizzles: whole atoms, narrower rows, tiles that do not begin at an atom.
    for span in (32, 64, 128):
        for type in ("u8", "bf16", "f32", "u64"):
            row = span // SIZES[type]
            load(f"sw{span}", type, (2 * row, 40), (row, 24), [max(8, 16 // SIZES[type]), 3],
                 swizzle=SWIZZLES[span])
            load(f"sw{span}.edge", type, (2 * row, 40), (row, 24), [row + row // 2, 30],
                 swizzle=SWIZZLES[span])
        for offset in (128, 256, 384, 512, 896):
            load(f"sw{span}.from{offset}", "bf16", (128, 40), (span // 2, 16), [8, 5], offset=offset,
                 swizzle=SWIZZLES[span])
        for count in (False, True):
            load(f"sw{span}.half_row", "bf16", (128, 40), (span // 4, 16), [8, 2],
                 swizzle=SWIZZLES[span], count=count)
        load(f"sw{span}.narrow", "bf16", (128, 40), (8, 16), [8, 2], swizzle=SWIZZLES[span])
        for rank in (3, 4, 5):
            dims = (span, 6, 5, 4, 3)[:rank]
            load(f"sw{span}", "bf16", dims, (span // 2, 3, 2, 2, 2)[:rank], [8, 1, -1, 3, 2][:rank],
                 swizzle=SWIZZLES[span])
        load(f"sw{span}", "bf16", (256,), (span // 2,), [8], swizzle=SWIZZLES[span])
    # Not a multiple of 128 bytes a row without swizzle, rows of 16 bytes, the widest box.
    for box in ((8, 5), (24, 7), (40, 3), (256, 2)):
        load(f"box{box[0]}x{box[1]}", "bf16", (300, 9), box, [8, 1], strides=[640])
    # Out of range: NaN fill by type (zeros above).
    for type in ("f16", "bf16", "f32", "f64", "f32_ftz", "tf32", "tf32_ftz"):
        x = 30 if type == "f64" else 32
        load("nan_fill", type, (40, 12), (16, 8), [x, -3], oob=1)
        load("zero_fill", type, (40, 12), (16, 8), [x, -3])
    for type in ("f32_ftz", "tf32", "tf32_ftz", "f32"):
        load("values", type, (32, 16), (32, 16), [0, 0], kind="f32@only")
    # Element strides: along the rows, along the columns, both; not dividing the box.
    for steps, box in (((1, 2), (16, 8)), ((2, 1), (16, 8)), ((2, 3), (16, 9)), ((1, 8), (16, 8)),
                       ((4, 4), (32, 8)), ((1, 3), (16, 8))):
        for at in ([4, 1], [-4, -2], [32, 9]):
            load(f"steps{steps[0]}x{steps[1]}.at{at[0]}_{at[1]}", "f32", (40, 12), box, at,
                 element_strides=list(steps))
    load("steps2.sw64", "bf16", (128, 40), (32, 16), [8, 3], element_strides=[1, 2], swizzle=2)
    # Strides wider than the row, and a middle dimension of one.
    load("wide_strides", "f32", (20, 7, 5), (8, 4, 2), [16, 5, 3], strides=[96, 1024])
    load("thin", "f32", (20, 1, 5), (8, 2, 2), [16, 0, 3], strides=[96, 96])
    load("overlap", "f32", (20, 7, 5), (8, 4, 2), [4, 2, 1], strides=[16, 32])
    # A tile that does not begin at whole 16 bytes of a row, even outside the tensor, is illegal, and
    # so is one that does not lie at whole 128 bytes in shared memory.
    for type, at in (("f32", [1, 1]), ("f32", [2, 1]), ("f32", [-1, 1]), ("f32", [41, 12]), ("u8", [8, 0]),
                     ("bf16", [4, 0]), ("u64", [1, 0])):
        load(f"illegal.begin{at[0]}_{at[1]}", type, (40, 12), (16, 8), at)
    for rank in (1, 3, 4, 5):
        load("illegal.begin1", "f32", *shapes[rank], [1] + [0] * (rank - 1))
    load("illegal.sw128.begin3", "bf16", (128, 40), (64, 16), [3, 5], swizzle=3)
    load("illegal.steps.begin2", "f32", (40, 12), (16, 8), [2, 0], element_strides=[2, 1])
    for offset in (16, 64):
        load(f"illegal.to{offset}", "f32", (40, 12), (16, 8), [0, 0], offset=offset)


REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f32", "f16", "bf16", "f32_ftz"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",), "dec": ("u32",),
    "and": ("u32", "u64"), "or": ("u32", "u64"), "xor": ("u32", "u64"),
}
VALUES = dict(f32="f32@0", f16="f16@0", bf16="bf16@0", f32_ftz="f32@0", f64="f64@0")
OTHER_VALUES = {k: v.replace("@0", "@1") for k, v in VALUES.items()}


def store_kernel(suite, rank, reduction=None):
    # Words: bytes to copy in, offset of the tile, coordinates.
    operation = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{reduction}.tile.bulk_group" \
        if reduction else f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    body = IN_CTA + f"""mul.lo.u32 %r4, %r29, 4;
  add.u32 %r8, %smem, %x1;
  add.u32 %r8, %r8, {DATA};
FILL:
  cvt.u64.u32 %rd4, %r4;
  add.u64 %rd4, %in, %rd4;
  ld.global.b32 %r7, [%rd4];
  add.u32 %r6, %r4, %r8;
  st.shared.b32 [%r6], %r7;
  add.u32 %r4, %r4, {THREADS * 4};
  setp.lt.u32 %p1, %r4, %x0;
  @%p1 bra FILL;
  fence.proxy.async;
  bar.sync 0;
  setp.ne.u32 %p4, %r29, 0;
  @%p4 bra DONE;
  {operation} [%m0, {coordinates(rank, 2)}], [%r8];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
DONE:
"""
    name = f"tma.{reduction or 'store'}.{rank}d"
    return suite.kernel("tma", name, body, words=2 + rank, maps=1, smem=True)


def stores(suite):
    def store(label, type, dims, box, at, reduction=None, offset=0, element_strides=None, strides=None,
              **keys):
        rank, size = len(dims), SIZES[type]
        entry = store_kernel(suite, rank, reduction)
        strides = packed_strides(dims, size) if strides is None else strides
        span = tensor_bytes(dims, strides, size)
        used = box_bytes(box, element_strides, size)
        held = tile_bytes(used, size * box[0], keys.get("swizzle", 0))
        copied = (held + 511) // 512 * 512
        m = tensor_map("out+0", type, dims, strides, box, element_strides, **keys)
        suite.case(f"tma/{reduction or 'store'}.{rank}d.{type}.{label}", "tma", entry, block=THREADS,
                   smem=DATA + offset + copied, map=m, w=word([copied, offset, *at]), out=span,
                   **{"in": f"{VALUES.get(type, 'u32')}:{copied}",
                      "fill": f"{OTHER_VALUES.get(type, 'u32')}:{span}"})

    shapes = {1: ((100,), (32,)), 2: ((40, 12), (16, 8)), 3: ((20, 7, 5), (8, 4, 2)),
              4: ((12, 5, 4, 3), (8, 2, 2, 2)), 5: ((12, 4, 3, 3, 2), (4, 2, 2, 2, 2))}
    for rank, (dims, box) in shapes.items():
        for label, at in edges(dims, box, 4).items():
            store(label, "f32", dims, box, at)
            store(label, "s32", dims, box, at, reduction="add")
        ragged = [down(dims[0] - 4, 4)] + [0] * (rank - 1)
        store("ragged", "f32", (dims[0] - 3, *dims[1:]), box, ragged)
        store("ragged", "s32", (dims[0] - 3, *dims[1:]), box, ragged, reduction="add")
    for span in (32, 64, 128):
        for at in ([8, 1], [64, 9]):
            store(f"sw{span}.at{at[0]}", "bf16", (72, 20), (span // 2, 16), at, swizzle=SWIZZLES[span])
        store(f"sw{span}.from128", "bf16", (72, 20), (span // 2, 16), [8, 2], offset=128,
              swizzle=SWIZZLES[span])
        store(f"sw{span}", "f32", (72, 20), (span // 4, 16), [4, 9], reduction="add",
              swizzle=SWIZZLES[span])
        store(f"sw{span}.half_row", "bf16", (72, 20), (span // 4, 16), [8, 2], swizzle=SWIZZLES[span])
    for type in ("u8", "u16", "u64", "f64", "f32_ftz", "tf32"):
        size = SIZES[type]
        box = (max(16, 32 // size), 8)
        store("corner", type, (40, 12), box, [-16 // size, 7])
        store("end", type, (37, 12), box, [down(36, size), 7])
    store("steps", "f32", (40, 12), (16, 8), [4, 1], element_strides=[1, 2])
    for at in ([1, 1], [2, 1], [-1, 1], [41, 12]):
        store(f"illegal.begin{at[0]}_{at[1]}", "f32", (40, 12), (16, 8), at)
    store("illegal.begin1_1", "s32", (40, 12), (16, 8), [1, 1], reduction="add")
    store("illegal.from16", "f32", (40, 12), (16, 8), [0, 0], offset=16)
    for reduction, types in REDUCTIONS.items():
        for type in types:
            store("all", type, (64, 16), (64, 16), [0, 0], reduction=reduction)


def multicast_kernel(suite, size):
    # Words: bytes to expect, bytes to dump, CTA mask, issuing CTA, coordinates.
    body = f"mov.u32 %r28, %cluster_ctarank;\n" + fill("%x1") + f"""barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  shr.u32 %r10, %x2, %r28;
  and.b32 %r10, %r10, 1;
  setp.eq.u32 %p5, %r10, 0;
  mov.u32 %r30, 7;
  @%p4 bra ISSUED;
  @!%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], %x0;
  setp.ne.u32 %p6, %r28, %x3;
  @%p6 bra ISSUED;
  add.u32 %r8, %smem, {DATA};
  cvt.u16.u32 %h4, %x2;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r8], [%m0, {coordinates(2, 4)}], [%smem], %h4;
ISSUED:
  @%p5 bra WAITED;
""" + WAIT + f"""WAITED:
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  add.u32 %r9, %x1, 4;
  mul.wide.u32 %rd5, %r28, %r9;
  add.u64 %rd5, %out, %rd5;
""" + copy_out("%x1", at="%rd5")
    return suite.kernel("tma", f"tma.multicast.{size}", body, words=6, maps=1, smem=True)


def multicasts(suite):
    for size in (2, 4):
        entry = multicast_kernel(suite, size)
        for mask, issuer in itertools.product(range(1, 1 << size), range(size)):
            if size == 4 and (mask + issuer) % 3:
                continue
            dump = 1024
            m = tensor_map("in+0", "bf16", (64, 16), [128], (32, 16), swizzle=2)
            suite.case(f"tma/multicast.{size}.mask{mask:x}.from{issuer}", "tma", entry, grid=size,
                       cluster=size, block=THREADS, smem=DATA + dump, map=m,
                       w=word([1024, dump, mask, issuer, 16, 4]), out=size * (dump + 4),
                       **{"in": "u32:2048"})


def bulk(suite):
    # Words: bytes, offset in the source, offset in shared memory.
    body = fill("1024") + f"""bar.sync 0;
  @%p4 bra ISSUED;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], %x0;
  add.u64 %rd4, %in, %w1;
  add.u32 %r8, %smem, %x2;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8+{DATA}], [%rd4], %x0, [%smem];
ISSUED:
""" + WAIT + copy_out("1024")
    entry = suite.kernel("bulk", "bulk.g2s", body, words=3, smem=True)
    for count, source, target in ((16, 0, 0), (16, 16, 32), (1008, 0, 16), (528, 208, 272), (0, 0, 0)):
        suite.case(f"bulk/g2s.{count}.from{source}.to{target}", "bulk", entry, block=THREADS,
                   smem=DATA + 1024, w=word([count, source, target]), out=1028, **{"in": "u32:1024"})

    def from_shared(name, operation, kind, count=1024, source=0, target=0):
        lines = IN_CTA + f"""mul.lo.u32 %r4, %r29, 4;
FILL:
  cvt.u64.u32 %rd4, %r4;
  add.u64 %rd4, %in, %rd4;
  ld.global.b32 %r7, [%rd4];
  add.u32 %r6, %r4, %smem;
  st.shared.b32 [%r6], %r7;
  add.u32 %r4, %r4, {THREADS * 4};
  setp.lt.u32 %p1, %r4, 1024;
  @%p1 bra FILL;
  fence.proxy.async;
  bar.sync 0;
  setp.ne.u32 %p4, %r29, 0;
  @%p4 bra DONE;
  add.u64 %rd4, %out, %w2;
  add.u32 %r8, %smem, %x1;
  {operation} [%rd4], [%r8], %x0;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
DONE:
"""
        entry = suite.kernel("bulk", f"bulk.{name}", lines, words=3, smem=True)
        suite.case(f"bulk/{name}.{count}.from{source}.to{target}", "bulk", entry, block=THREADS,
                   smem=1024, w=word([count, source, target]), out=1024,
                   **{"in": f"{VALUES.get(kind, 'u32')}:1024",
                      "fill": f"{OTHER_VALUES.get(kind, 'u32')}:1024"})

    for count, source, target in ((16, 16, 32), (1008, 0, 16), (528, 208, 272)):
        from_shared("s2g", "cp.async.bulk.global.shared::cta.bulk_group", "u32", count, source, target)
    for op, kinds in {"add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"), "inc": ("u32",),
                      "min": ("u32", "s32", "u64", "s64", "f16", "bf16"), "dec": ("u32",),
                      "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
                      "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64")}.items():
        for kind in kinds:
            name = f"{op}.noftz" if op == "add" and kind in ("f16", "bf16") else op
            from_shared(f"reduce.{op}.{kind}",
                        f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{name}.{kind}", kind)
    # From one CTA's shared memory into the next one's, whose barrier counts the bytes.
    for name, kind in (("copy", "u32"), *(("add", k) for k in ("u32", "s32", "u64")), ("min", "s32"),
                       ("max", "u32"), ("inc", "u32"), ("dec", "u32"), ("and", "b32"), ("or", "b32"),
                       ("xor", "b32")):
        operation = ("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                     if name == "copy" else "cp.reduce.async.bulk.shared::cluster.shared::cta."
                     f"mbarrier::complete_tx::bytes.{name}.{kind}")
        lines = "mov.u32 %r28, %cluster_ctarank;\n" + IN_CTA + f"""mul.lo.u32 %r4, %r29, 4;
FILL:
  mad.lo.u32 %r5, %r28, 2048, %r4;
  cvt.u64.u32 %rd4, %r5;
  add.u64 %rd4, %in, %rd4;
  ld.global.b32 %r7, [%rd4];
  ld.global.b32 %r8, [%rd4+1024];
  add.u32 %r6, %r4, %smem;
  st.shared.b32 [%r6+{DATA}], %r7;
  st.shared.b32 [%r6+{DATA + 1024}], %r8;
  add.u32 %r4, %r4, {THREADS * 4};
  setp.lt.u32 %p1, %r4, 1024;
  @%p1 bra FILL;
  setp.ne.u32 %p4, %r29, 0;
  @%p4 bra READY;
  mbarrier.init.shared::cta.b64 [%smem], 1;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], 512;
  fence.mbarrier_init.release.cluster;
READY:
  fence.proxy.async;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  @%p4 bra ISSUED;
  xor.b32 %r9, %r28, 1;
  mapa.shared::cluster.u32 %r10, %smem, %r9;
  add.u32 %r11, %r10, {DATA + 256};
  add.u32 %r12, %smem, {DATA + 1024 + 128};
  {operation} [%r11], [%r12], 512, [%r10];
ISSUED:
""" + WAIT + """barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  mul.wide.u32 %rd5, %r28, 1028;
  add.u64 %rd5, %out, %rd5;
""" + copy_out("1024", at="%rd5")
        entry = suite.kernel("bulk", f"bulk.s2cluster.{name}.{kind}", lines, smem=True)
        suite.case(f"bulk/s2cluster.{name}.{kind}", "bulk", entry, grid=2, cluster=2, block=THREADS,
                   smem=DATA + 2048, out=2056, **{"in": "u32:4096"})


def cp_async(suite):
    def copy(name, instruction, size):
        body = fill("2048") + f"""bar.sync 0;
  mad.wide.u32 %at, %thread, 16, %in;
  mad.lo.u32 %r8, %r29, 16, %smem;
  and.b32 %r9, %lane, {size};
  setp.ne.u32 %p5, %r9, 0;
  rem.u32 %r9, %lane, {size + 1};
  {instruction}
  cp.async.commit_group;
  cp.async.wait_group 0;
  mov.u32 %r30, 1;
""" + copy_out("2048")
        entry = suite.kernel("bulk", f"cp_async.{name}", body, smem=True)
        suite.case(f"bulk/cp_async.{name}", "bulk", entry, block=THREADS, smem=DATA + 2048, out=2052,
                   **{"in": "u32:2048"})

    for size in (4, 8, 16):
        cache = "cg" if size == 16 else "ca"
        base = f"cp.async.{cache}.shared.global [%r8+{DATA}], [%at], {size}"
        copy(f"{size}", base + ";", size)
        copy(f"{size}.ca", f"cp.async.ca.shared::cta.global.L2::128B [%r8+{DATA}], [%at], {size};", size)
        copy(f"{size}.source_size", base + ", %r9;", size)
        copy(f"{size}.ignore", base + ", %p5;", size)
        copy(f"{size}.none", base + ", 0;", size)
    body = fill("2048") + f"""bar.sync 0;
  mad.wide.u32 %at, %thread, 16, %in;
  mad.lo.u32 %r8, %r29, 16, %smem;
  cp.async.cg.shared.global [%r8+{DATA}], [%at], 16;
  cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%smem+8];
  bar.sync 0;
  add.u32 %smem, %smem, 8;
""" + WAIT + "sub.u32 %smem, %smem, 8;\n" + copy_out("2048")
    body = body.replace("[%smem], 1;", f"[%smem+8], {THREADS};", 1)
    entry = suite.kernel("bulk", "cp_async.arrive", body, smem=True)
    suite.case("bulk/cp_async.arrive", "bulk", entry, block=THREADS, smem=DATA + 2048, out=2052,
               **{"in": "u32:2048"})


def add(suite):
    loads(suite)
    stores(suite)
    multicasts(suite)
    bulk(suite)
    cp_async(suite)
