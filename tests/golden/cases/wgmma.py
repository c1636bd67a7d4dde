"""wgmma on shared memory full of small integers: a wrong address, layout or sign shows as a wrong
sum, and no summation order changes a right one.

Shared memory: A's bytes from 0, B's from B_BASE. The input holds that image, then 4 words a thread
(A from registers), then D's words before the instruction, one thread after the other.
"""

import itertools

A_BASE, B_BASE, SMEM = 0, 32768, 98304
THREADS = 128
A_REGISTERS_AT = SMEM
D_AT = SMEM + THREADS * 16
MODES = {0: 0, 128: 1, 64: 2, 32: 3}  # swizzle span in bytes -> the descriptor's layout field


def descriptor(at, swizzle, leading, stride, base_offset=0):
    """A matrix descriptor, its start relative to shared memory's first byte (the kernel adds it)."""
    return (at >> 4 | (leading >> 4 & 0x3FFF) << 16 | (stride >> 4 & 0x3FFF) << 32 |
            base_offset << 49 | MODES[swizzle] << 62)


COPY_IN = f"""mad.wide.u32 %at, %thread, 16, %in;
  mad.lo.u32 %r4, %thread, 16, %smem;
  add.u32 %r5, %r4, {SMEM};
COPY:
  ld.global.v4.b32 {{%r6, %r7, %r8, %r9}}, [%at];
  st.shared.v4.b32 [%r4], {{%r6, %r7, %r8, %r9}};
  add.u64 %at, %at, {THREADS * 16};
  add.u32 %r4, %r4, {THREADS * 16};
  setp.lt.u32 %p1, %r4, %r5;
  @%p1 bra COPY;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  and.b32 %r4, %smem, 0x3ffff;
  shr.u32 %r4, %r4, 4;
  cvt.u64.u32 %rd4, %r4;
  add.u64 %rd5, %w0, %rd4;
  add.u64 %rd6, %w1, %rd4;
  setp.ne.u32 %p2, %x2, 0;
"""


def kernel(suite, shape_k, n, types, sat="", scale_a=1, scale_b=1, trans=None, registers_a=False):
    d_type = types.split(".")[0]
    count = n // 4 if d_type == "f16" else n // 2
    d = [f"%r{20 + i}" for i in range(count)]
    lines = [COPY_IN]
    if registers_a:
        lines.append(f"mad.wide.u32 %at, %thread, 16, %in;\n"
                     f"ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%at+{A_REGISTERS_AT}];")
    lines.append(f"mad.wide.u32 %at, %thread, {4 * count}, %in;")
    lines += [f"ld.global.b32 {r}, [%at+{D_AT + 4 * i}];" for i, r in enumerate(d)]
    a = "{%r10, %r11, %r12, %r13}" if registers_a else "%rd5"
    tail = ["%p2"]
    if d_type != "s32":
        tail += [str(scale_a), str(scale_b)]
    if trans is not None:
        tail += [str(t) for t in (trans[1:] if registers_a else trans)]
    name = f"wgmma.m64n{n}k{shape_k}.{types}{sat}"
    instruction = name.replace("wgmma.", "wgmma.mma_async.sync.aligned.", 1)
    lines += ["wgmma.fence.sync.aligned;",
              f"{instruction} {{{', '.join(d)}}}, {a}, %rd6, {', '.join(tail)};",
              "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;",
              f"mad.wide.u32 %at, %thread, {4 * count}, %out;"]
    lines += [f"st.global.b32 [%at+{4 * i}], {r};" for i, r in enumerate(d)]
    if registers_a:
        name += ".rs"
    if trans is not None:
        name += f".t{trans[0]}{trans[1]}"
    if (scale_a, scale_b) != (1, 1):
        name += f".scale{scale_a}_{scale_b}".replace("-", "m")
    entry = suite.kernel("wgmma", name, "\n".join(lines), words=3, smem=True)
    return name, entry, count


KINDS = dict(bf16="bf16s", f16="f16s", tf32="tf32s", e4m3="e4m3s", e5m2="e5m2s", s8="bytes", u8="bytes")
SUMS = dict(f32="f32s", f16="f16s", s32="sums")


class Wgmma:
    """One kernel and its cases, which differ in descriptors, scale-d and seed."""

    def __init__(self, suite, shape_k, n, types, **options):
        self.suite, self.seed = suite, 0
        self.name, self.entry, self.count = kernel(suite, shape_k, n, types, **options)
        d, a, b = types.split(".")
        self.image = ",".join([f"{KINDS[a]}:{B_BASE}", f"{KINDS[b]}:{SMEM - B_BASE}",
                               f"{KINDS[a]}:{THREADS * 16}", f"{SUMS[d]}:{THREADS * self.count * 4}"])

    def case(self, label, a, b, scale_d=1):
        self.suite.case(f"wgmma/{self.name}/{label}", "wgmma", self.entry, block=THREADS, smem=SMEM,
                        w=f"{a:#x},{b:#x},{scale_d}", out=THREADS * self.count * 4,
                        **{"in": self.image})


def k_major(base, swizzle, rows, at=0, base_offset=0, leading=None, stride=None):
    """K-major: rows of one swizzle span (or 16-byte columns of 8 rows without swizzle)."""
    if swizzle:
        return descriptor(base + at, swizzle, 16 if leading is None else leading,
                          8 * swizzle if stride is None else stride, base_offset)
    return descriptor(base + at, 0, 128 if leading is None else leading,
                      256 if stride is None else stride, base_offset)


def mn_major(base, swizzle, extent, size=2, at=0, base_offset=0, leading=None, stride=None):
    """MN-major: atoms of one swizzle span along MN and 8 steps along K; K groups next to each other."""
    if swizzle:
        return descriptor(base + at, swizzle, 16 * swizzle if leading is None else leading,
                          8 * swizzle if stride is None else stride, base_offset)
    return descriptor(base + at, 0, 128 if leading is None else leading,
                      256 if stride is None else stride, base_offset)


def majors(suite, types, ns, full=None):
    """Both majors of both operands, every swizzle: 16-bit types alone have them. N = full also
    with other strides, start addresses and base offsets."""
    for n in ns:
        for trans in itertools.product((0, 1), repeat=2):
            w = Wgmma(suite, 16, n, types, trans=trans)
            a_of = mn_major if trans[0] else k_major
            b_of = mn_major if trans[1] else k_major

            def a(swizzle, **keys):
                return a_of(A_BASE, swizzle, 64, **keys)

            def b(swizzle, **keys):
                return b_of(B_BASE, swizzle, n, **keys)

            for s in MODES:
                w.case(f"sw{s}", a(s), b(s))
            w.case("sw128.sw64", a(128), b(64))
            w.case("sw32.sw0", a(32), b(0))
            if n != full:
                continue
            for s in MODES:
                # Other strides; the leading one too, which K-major swizzled layouts do not use.
                step = 8 * s if s else 128
                w.case(f"sw{s}.strides", a(s, leading=step, stride=4 * step), b(s, leading=3 * step,
                                                                                stride=step))
                w.case(f"sw{s}.leading", a(s, leading=5 * 128), b(s, leading=48))
                w.case(f"sw{s}.gaps", a(s, stride=step + 64), b(s, stride=step + 16))
            for at in (32, 64, 96):
                for s in (64, 128):
                    if at < s:
                        w.case(f"sw{s}.at{at}", a(s, at=at), b(s, at=at))
                        w.case(f"sw{s}.at{s - at}.{at}", a(s, at=s - at), b(s, at=at))
            for s in MODES:
                w.case(f"sw{s}.at16", a(s, at=16), b(s, at=48))
                for at in (128, 256, 384, 512, 896):
                    w.case(f"sw{s}.from{at}", a(s, at=at), b(s, at=at))
                for at, offset in ((128, 1), (384, 3), (0, 5), (512, 4)):
                    w.case(f"sw{s}.from{at}.base_offset{offset}", a(s, at=at, base_offset=offset),
                           b(s, at=at, base_offset=offset))


def types(suite, k, name, ns, sat=("",), trans=None):
    """Both sources of A, three or more N, swizzles none and 128, scale-d 0."""
    for n, s in itertools.product(ns, sat):
        for registers_a in (False, True):
            w = Wgmma(suite, k, n, name, sat=s, trans=trans, registers_a=registers_a)
            for swizzle in ((128,) if n > 128 else MODES):
                w.case(f"sw{swizzle}", k_major(A_BASE, swizzle, 64), k_major(B_BASE, swizzle, n))
            if n > 128:
                continue
            w.case("sw128.at32", k_major(A_BASE, 128, 64, at=32), k_major(B_BASE, 128, n, at=64))
            w.case("sw128.zero_d", k_major(A_BASE, 128, 64), k_major(B_BASE, 128, n), scale_d=0)


def add(suite):
    majors(suite, "f32.bf16.bf16", (8, 104, 256), full=104)
    majors(suite, "f32.f16.f16", (64,))
    types(suite, 16, "f32.bf16.bf16", (24, 96, 248), trans=(0, 0))
    types(suite, 16, "f32.f16.f16", (8, 40, 256), trans=(0, 0))
    types(suite, 16, "f16.f16.f16", (8, 104, 256), trans=(0, 0))
    types(suite, 8, "f32.tf32.tf32", (8, 104, 256))
    for a, b in itertools.product(("e4m3", "e5m2"), repeat=2):
        types(suite, 32, f"f32.{a}.{b}", (8, 104, 256))
        types(suite, 32, f"f16.{a}.{b}", (8, 56, 200))
    for a, b in itertools.product(("s8", "u8"), repeat=2):
        types(suite, 32, f"s32.{a}.{b}", (8, 24, 112, 256), sat=("", ".satfinite"))
    for scale in ((1, -1), (-1, 1), (-1, -1)):
        for name, k, trans in (("f32.bf16.bf16", 16, (0, 0)), ("f16.f16.f16", 16, (0, 0)),
                               ("f32.tf32.tf32", 8, None), ("f32.e4m3.e5m2", 32, None)):
            for registers_a in (False, True):
                w = Wgmma(suite, k, 16, name, trans=trans, scale_a=scale[0], scale_b=scale[1],
                          registers_a=registers_a)
                w.case("sw64", k_major(A_BASE, 64, 64), k_major(B_BASE, 64, 16))
    for trans_b in (0, 1):
        w = Wgmma(suite, 16, 64, "f32.bf16.bf16", trans=(0, trans_b), registers_a=True)
        for s in MODES:
            w.case(f"sw{s}", 0, (mn_major if trans_b else k_major)(B_BASE, s, 64))
    # Every N of bf16, one layout.
    for n in range(16, 256, 8):  # those without a kernel of their own above
        if n not in (24, 96, 104, 248):
            w = Wgmma(suite, 16, n, "f32.bf16.bf16", trans=(0, 0))
            w.case("sw128", k_major(A_BASE, 128, 64), k_major(B_BASE, 128, n))
