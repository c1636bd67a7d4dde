"""mma.sync on small integers, which every summation order adds exactly. Random integers in every
element show a wrong layout as surely as one-hot matrices do."""

import itertools

# shape: registers a thread of A, B, C (32 bits each; pairs of 64-bit for f64)
FLOAT = [
    ("m16n8k16", "f32.bf16.bf16.f32", "bf16s", 4, 2, "f32s", 4),
    ("m16n8k8", "f32.bf16.bf16.f32", "bf16s", 2, 1, "f32s", 4),
    ("m16n8k16", "f32.f16.f16.f32", "f16s", 4, 2, "f32s", 4),
    ("m16n8k8", "f32.f16.f16.f32", "f16s", 2, 1, "f32s", 4),
    ("m16n8k16", "f16.f16.f16.f16", "f16s", 4, 2, "f16s", 2),
    ("m16n8k8", "f16.f16.f16.f16", "f16s", 2, 1, "f16s", 2),
    ("m16n8k8", "f32.tf32.tf32.f32", "tf32s", 4, 2, "f32s", 4),
    ("m16n8k4", "f32.tf32.tf32.f32", "tf32s", 2, 1, "f32s", 4),
]
FP8 = [("m16n8k32", f"f32.{a}.{b}.f32", a + "s", 4, 2, "f32s", 4, b + "s")
       for a, b in itertools.product(("e4m3", "e5m2"), repeat=2)]
DOUBLE = [("m8n8k4", 1, 1, 2), ("m16n8k4", 2, 1, 4), ("m16n8k8", 4, 2, 4), ("m16n8k16", 8, 4, 4)]


def mma(suite, name, instruction, kinds, counts, prefix="%r", bits=32, seeds=3):
    size = bits // 8
    registers, lines, at, spans = [], [], 0, []
    first = 4
    for kind, count in zip(kinds, counts):
        group = [f"{prefix}{first + i}" for i in range(count)]
        lines.append(f"mad.wide.u32 %at, %thread, {size * count}, %in;")
        lines += [f"ld.global.b{bits} {r}, [%at+{at + size * i}];" for i, r in enumerate(group)]
        spans.append(f"{kind}:{32 * size * count}")
        at += 32 * size * count
        first += count
        registers.append("{" + ", ".join(group) + "}")
    a, b, c = registers
    count = counts[2]
    d = [f"{prefix}{first + i}" for i in range(count)]
    lines.append(f"{instruction} {{{', '.join(d)}}}, {a}, {b}, {c};")
    lines.append(f"mad.wide.u32 %at, %thread, {size * count}, %out;")
    lines += [f"st.global.b{bits} [%at+{size * i}], {r};" for i, r in enumerate(d)]
    entry = suite.kernel("mma", name, "\n".join(lines))
    for seed in range(seeds):
        suite.case(f"mma/{name}.{seed}", "mma", entry, block=32, out=32 * size * count, seed=seed,
                   **{"in": ",".join(spans)})


def add(suite):
    for shape, types, kind, a, b, acc, c, *other in FLOAT + FP8:
        mma(suite, f"mma.{shape}.{types}", f"mma.sync.aligned.{shape}.row.col.{types}",
            [kind, other[0] if other else kind, acc], [a, b, c])
    for a, b in itertools.product(("s8", "u8"), repeat=2):
        for shape, counts in (("m8n8k16", (1, 1, 2)), ("m16n8k16", (2, 1, 4)), ("m16n8k32", (4, 2, 4))):
            for sat in ("", ".satfinite"):
                mma(suite, f"mma.{shape}{sat}.{a}.{b}",
                    f"mma.sync.aligned.{shape}.row.col{sat}.s32.{a}.{b}.s32",
                    ["bytes", "bytes", "sums"], counts)
    for shape, *counts in DOUBLE:
        mma(suite, f"mma.{shape}.f64", f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64",
            ["f64s"] * 3, counts, prefix="%rd", bits=64)
