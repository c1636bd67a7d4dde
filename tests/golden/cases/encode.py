"""Calls of cuTensorMapEncodeTiled, on both sides of each of its rules; the CUresult is the outcome."""

from suite import DATA_TYPES, SIZES, packed_strides, tensor_map


def add(suite):
    def call(label, base="in+0", type="bf16", dims=(64, 32), strides=None, box=(32, 16), **keys):
        if strides is None:
            strides = packed_strides(dims, SIZES.get(type, 2))
        suite.encode(f"encode/{label}", tensor_map(base, type, dims, strides, box, **keys))

    shapes = {1: ((64,), (32,)), 2: ((64, 32), (32, 16)), 3: ((64, 8, 6), (32, 4, 2)),
              4: ((64, 8, 6, 5), (32, 4, 2, 2)), 5: ((64, 8, 6, 5, 4), (32, 4, 2, 2, 2))}
    for rank, (dims, box) in shapes.items():
        call(f"rank{rank}", dims=dims, box=box)
    for rank in (0, 6, 7):
        call(f"rank{rank}", dims=(64,) * 6, strides=(128,) * 5, box=(8, 2, 2, 2, 2, 2), rank=rank)
    for i, type in enumerate([*DATA_TYPES, "13", "14", "15", "16", "100"]):
        call(f"type{i}", type=type, box=(16, 16))
        call(f"type{i}.nan", type=type, box=(16, 16), oob=1)
        for swizzle in (1, 2, 3):
            call(f"type{i}.swizzle{swizzle}", type=type, box=(16, 16), swizzle=swizzle)
    for offset in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        for interleave in (0, 1, 2):
            call(f"base{offset}.interleave{interleave}", base=f"in+{offset}", dims=(64, 32, 8),
                 box=(16, 4, 2), interleave=interleave, swizzle=1 if interleave == 2 else 0)
    call("base_null", base="null+0")
    call("base_null16", base="null+16")
    for high in (46, 47, 48, 50, 56, 57, 60, 63):
        call(f"base_2e{high}", base=f"null+{1 << high}")
    for dim in (0, 1, 7, 8, (1 << 31), (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 40):
        call(f"dim0.{dim}", dims=(dim, 32), strides=(1 << 35,))
        call(f"dim1.{dim}", dims=(64, dim), strides=(128,))
    call("dim0.below_box", dims=(8, 4), strides=(128,))
    for stride in (0, 1, 8, 15, 16, 17, 24, 32, 48, 64, 112, 120, 127, 128, 136, 144, 1 << 32,
                   (1 << 40) - 16, (1 << 40) - 8, 1 << 40, (1 << 40) + 16, 1 << 50):
        call(f"stride{stride}", strides=(stride,))
        for interleave in (1, 2):
            call(f"stride{stride}.interleave{interleave}", dims=(64, 32, 8), strides=(stride, 1 << 20),
                 box=(16, 4, 2), interleave=interleave, swizzle=1 if interleave == 2 else 0)
    # Does a stride have to reach over the dimension below it?
    call("stride.descending", dims=(64, 8, 6), strides=(1024, 128), box=(32, 4, 2))
    call("stride.overlap", dims=(64, 8, 6), strides=(16, 32), box=(32, 4, 2))
    call("stride.outer_zero", dims=(64, 8, 6), strides=(128, 0), box=(32, 4, 2))
    call("stride.outer_odd", dims=(64, 8, 6), strides=(128, 1032), box=(32, 4, 2))
    for box0 in (0, 1, 2, 4, 7, 8, 9, 12, 16, 24, 32, 33, 40, 64, 65, 72, 128, 248, 255, 256, 257, 264, 512):
        for swizzle in range(4):
            call(f"box0.{box0}.swizzle{swizzle}", dims=(1024, 32), box=(box0, 16), swizzle=swizzle)
    for box1 in (0, 1, 3, 8, 255, 256, 257, 1024):
        call(f"box1.{box1}", dims=(64, 1024), box=(8, box1))
    call("box.above_dims", dims=(16, 8), box=(64, 64))
    for box in ((256, 256), (128, 256), (256, 128), (64, 256), (256, 255), (248, 256), (8, 256, 256)):
        dims = (1024,) * len(box)
        call(f"box_bytes.{'x'.join(map(str, box))}", dims=dims, box=box)
    for type in ("u8", "u16", "f32", "f64"):
        for box0 in (1, 2, 3, 4, 8, 15, 16, 17, 32, 64, 128, 256):
            call(f"inner.{type}.{box0}", type=type, dims=(1024, 32), box=(box0, 8))
            for swizzle in (1, 2, 3):
                call(f"inner.{type}.{box0}.swizzle{swizzle}", type=type, dims=(1024, 32), box=(box0, 8),
                     swizzle=swizzle)
    for step in (0, 1, 2, 3, 4, 7, 8, 9, 16, 100):
        call(f"step0.{step}", element_strides=(step, 1))
        call(f"step1.{step}", element_strides=(1, step))
    for interleave in range(4):
        for swizzle in range(6):
            for rank in (1, 2, 3, 4, 5):
                dims, box = shapes[rank]
                call(f"interleave{interleave}.swizzle{swizzle}.rank{rank}", dims=dims,
                     box=(16, *box[1:]), interleave=interleave, swizzle=swizzle)
    for interleave in (1, 2):
        for box0 in (4, 8, 16, 32, 64):
            call(f"interleave{interleave}.box{box0}", dims=(64, 8, 6), box=(box0, 4, 2),
                 interleave=interleave, swizzle=interleave - 1)
        for step in (1, 2, 8):
            call(f"interleave{interleave}.step{step}", dims=(64, 8, 6), box=(16, 4, 2),
                 element_strides=(step, 1, 1), interleave=interleave, swizzle=interleave - 1)
    for l2 in range(6):
        call(f"l2.{l2}", l2=l2)
    for oob in range(4):
        call(f"oob.{oob}", oob=oob)
