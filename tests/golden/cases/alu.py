"""Arithmetic, logic, comparison and conversion: one instruction a kernel, 1024 lanes each.

The first lanes of each kernel see all pairs of the edge values of its operands' types, the rest see
random bits (golden.cpp, `fill`). Operands that PTX leaves undefined (division by zero) are not used.
"""

import itertools

LANES = 1024
APPROXIMATE_LANES = 256  # recorded whole, not as hashes
BLOCK = 256

WIDTHS = dict(i16=16, i32=32, i64=64, nz16=16, nz32=32, nz64=64, shift=32, f16=16, bf16=16, f32=32,
              f64=64, f16x2=32, bf16x2=32, f8x2=16, bytes=32)
REGISTER = {16: "%h", 32: "%r", 64: "%rd"}
FIRST = 4  # registers below are taken by the frame


def alu(suite, group, name, result, sources, text=None, ulp=0, smem=0):
    """One kernel and its case. `text` has D for the result and A, B, C for the sources; result is
    a width in bits, or "p" for a predicate. With `ulp` the result is an approximation. smem: bytes
    of dynamic shared memory."""
    lanes = APPROXIMATE_LANES if ulp else LANES
    text = text or f"{name} D, {', '.join('ABC'[: len(sources)])};"
    lines, spans = [], []
    at = 0
    names = {}
    for i, kind in enumerate(sources):
        width = WIDTHS[kind]
        register = names["ABC"[i]] = f"{REGISTER[width]}{FIRST + i}"
        size = width // 8
        lines += [f"mad.wide.u32 %at, %thread, {size}, %in;",
                  f"ld.global.b{width} {register}, [%at+{at}];"]
        place = i if len(sources) > 1 else "only"
        spans.append(f"{kind}@{place}:{lanes * size}")
        at += lanes * size
    bits = 32 if result == "p" else result
    target = f"{REGISTER[bits]}{FIRST + 4}"
    names["D"] = "%p1" if result == "p" else target
    words = []
    for word in text.split("\n"):
        for letter, register in names.items():
            word = replace_word(word, letter, register)
        words.append(word)
    lines += words
    if result == "p":
        lines.append(f"selp.b32 {target}, 1, 0, %p1;")
    lines += [f"mad.wide.u32 %at, %thread, {bits // 8}, %out;", f"st.global.b{bits} [%at], {target};"]
    entry = suite.kernel(group, f"{group}.{name}", "\n".join(lines))
    keys = {"in": ",".join(spans), "out": lanes * bits // 8, "grid": lanes // BLOCK, "block": BLOCK}
    if ulp:
        keys["ulp"] = ulp
    if smem:
        keys["smem"] = smem
    suite.case(f"{group}/{name}", group, entry, **keys)


def replace_word(text, word, by):
    out, i = "", 0
    while i < len(text):
        alone = text.startswith(word, i) and not (
            (i and (text[i - 1].isalnum() or text[i - 1] in "%._")) or
            (i + 1 < len(text) and (text[i + 1].isalnum() or text[i + 1] in "._")))
        out += by if alone else text[i]
        i += 1
    return out


def integers(suite):
    def op(name, result, sources, text=None):
        alu(suite, "int", name, result, sources, text)

    for bits in (16, 32, 64):
        i, nz = f"i{bits}", f"nz{bits}"
        for sign in "su":
            t = f"{sign}{bits}"
            for base in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
                op(f"{base}.{t}", bits, [i, i])
            for base in ("div", "rem"):
                op(f"{base}.{t}", bits, [i, nz])
            for base in ("mad.lo", "mad.hi", "sad"):
                if base != "mad.hi" or bits != 16:
                    op(f"{base}.{t}", bits, [i, i, i])
            if bits < 64:
                op(f"mul.wide.{t}", 2 * bits, [i, i])
                op(f"mad.wide.{t}", 2 * bits, [i, i, f"i{2 * bits}"])
            op(f"shr.{t}", bits, [i, "shift"])
            for compare in ("eq", "ne", "lt", "le", "gt", "ge"):
                op(f"setp.{compare}.{t}", "p", [i, i])
        for compare in ("lo", "ls", "hi", "hs"):
            op(f"setp.{compare}.u{bits}", "p", [i, i])
        for base in ("abs", "neg"):
            op(f"{base}.s{bits}", bits, [i])
        for base in ("and", "or", "xor"):
            op(f"{base}.b{bits}", bits, [i, i])
        for base in ("not", "cnot"):
            op(f"{base}.b{bits}", bits, [i])
        for compare in ("eq", "ne"):
            op(f"setp.{compare}.b{bits}", "p", [i, i])
        op(f"shl.b{bits}", bits, [i, "shift"])
        op(f"shr.b{bits}", bits, [i, "shift"])
        op(f"selp.b{bits}", bits, [i, i, "i32"],
           f"setp.lt.s32 %p2, C, 0;\nselp.b{bits} D, A, B, %p2;")
        op(f"slct.b{bits}.s32", bits, [i, i, "i32"])
        op(f"slct.b{bits}.f32", bits, [i, i, "f32"])
    for bits in (32, 64):
        i = f"i{bits}"
        for base in ("popc", "clz"):
            op(f"{base}.b{bits}", 32, [i])
        op(f"brev.b{bits}", bits, [i])
        for sign in "su":
            op(f"bfind.{sign}{bits}", 32, [i])
            op(f"bfind.shiftamt.{sign}{bits}", 32, [i])
            op(f"bfe.{sign}{bits}", bits, [i, "shift", "shift"])
        op(f"bfi.b{bits}", bits, [i, i, "shift"], f"shr.u32 %r20, C, 3;\nbfi.b{bits} D, A, B, C, %r20;")
        op(f"bfi.b{bits}.length", bits, [i, i, "shift"],
           f"and.b32 %r20, C, 7;\nbfi.b{bits} D, A, B, %r20, C;")
        for sign in "su":
            t = f"{sign}{bits}"
            op(f"add.cc.{t}", bits, [i, i, i], f"add.cc.{t} D, A, B;\naddc.{t} D, C, D;")
            op(f"sub.cc.{t}", bits, [i, i, i], f"sub.cc.{t} D, A, B;\nsubc.{t} D, C, D;")
        op(f"addc.cc.u{bits}", bits, [i, i, i],
           f"add.cc.u{bits} D, A, B;\naddc.cc.u{bits} D, C, A;\naddc.u{bits} D, D, 0;")
        op(f"mad.lo.cc.u{bits}", bits, [i, i, i],
           f"mad.lo.cc.u{bits} D, A, B, C;\nmadc.hi.u{bits} D, A, B, D;")
    for base in ("add.sat.s32", "sub.sat.s32"):
        op(base, 32, ["i32", "i32"])
    op("mad.hi.sat.s32", 32, ["i32", "i32", "i32"])
    for sign in "su":
        for half in ("lo", "hi"):
            op(f"mul24.{half}.{sign}32", 32, ["i32", "i32"])
            op(f"mad24.{half}.{sign}32", 32, ["i32", "i32", "i32"])
    for way in ("l", "r"):
        for mode in ("wrap", "clamp"):
            op(f"shf.{way}.{mode}.b32", 32, ["i32", "i32", "shift"])
    op("prmt.b32", 32, ["i32", "i32", "i32"])
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        op(f"prmt.b32.{mode}", 32, ["i32", "i32", "i32"])
    for lut in (0x00, 0x1B, 0x80, 0x96, 0xCA, 0xE8, 0xFE, 0x6A):
        op(f"lop3.b32.{lut:02x}", 32, ["i32", "i32", "i32"], f"lop3.b32 D, A, B, C, {lut};")
    for a, b in itertools.product(("s32", "u32"), repeat=2):
        op(f"dp4a.{a}.{b}", 32, ["i32", "i32", "i32"])
        for half in ("lo", "hi"):
            op(f"dp2a.{half}.{a}.{b}", 32, ["i32", "i32", "i32"])
    for mode in ("clamp", "wrap"):
        op(f"bmsk.{mode}.b32", 32, ["shift", "shift"])
        for sign in "su":
            op(f"szext.{mode}.{sign}32", 32, ["i32", "shift"])
    op("fns.b32", 32, ["i32", "shift", "i32"],
       "and.b32 %r20, B, 31;\nand.b32 %r21, C, 7;\nsub.s32 %r21, %r21, 3;\nfns.b32 D, A, %r20, %r21;")
    for combine in ("and", "or", "xor"):
        op(f"setp.lt.{combine}.s32", "p", ["i32", "i32", "i32"],
           f"setp.ne.s32 %p2, C, 0;\nsetp.lt.{combine}.s32 D, A, B, %p2;")
        op(f"setp.lt.{combine}.s32.both", 32, ["i32", "i32", "i32"],
           f"setp.gt.s32 %p2, C, 0;\nsetp.lt.{combine}.s32 %p3|%p4, A, B, !%p2;\n"
           "selp.b32 %r20, 1, 0, %p3;\nselp.b32 %r21, 2, 0, %p4;\nor.b32 D, %r20, %r21;")
        op(f"{combine}.pred", "p", ["i32", "i32"],
           f"setp.gt.s32 %p2, A, 0;\nsetp.gt.s32 %p3, B, 0;\n{combine}.pred D, %p2, %p3;")
    op("not.pred", "p", ["i32"], "setp.gt.s32 %p2, A, 0;\nnot.pred D, %p2;")
    for result in ("u32", "s32", "f32"):
        op(f"set.lt.{result}.s32", 32, ["i32", "i32"])
        op(f"set.le.{result}.f32", 32, ["f32", "f32"])
    op("mov.b32.unpack", 32, ["i32"], "mov.b32 {%h10, %h11}, A;\nmov.b32 D, {%h11, %h10};")
    op("mov.b64.unpack", 64, ["i64"], "mov.b64 {%r20, %r21}, A;\nmov.b64 D, {%r21, %r20};")
    op("mov.b64.unpack4", 64, ["i64"],
       "mov.b64 {%h10, %h11, %h12, %h13}, A;\nmov.b64 D, {%h13, %h12, %h11, %h10};")
    op("isspacep", "p", ["i32"], "isspacep.global D, %at;")
    for size, sign in itertools.product((8, 16), "su"):
        op(f"ld.{sign}{size}", 32, ["i32"], f"ld.global.{sign}{size} D, [%at+{size // 8}];")


def atomics(suite):
    """Every lane on a word of its own, so that the order does not matter."""
    def op(name, bits, sources, text, smem=0):
        alu(suite, "atom", name, bits, sources, text, smem=smem)

    table = [("u32", 32, "add min max inc dec".split()), ("s32", 32, "add min max".split()),
             ("b32", 32, "and or xor exch".split()), ("u64", 64, "add min max".split()),
             ("s64", 64, "min max".split()), ("b64", 64, "and or xor exch".split()),
             ("f32", 32, ["add"]), ("f64", 64, ["add"]),
             ("f16x2", 32, ["add.noftz"]), ("bf16x2", 32, ["add.noftz"])]
    for kind, bits, names in table:
        source = f"i{bits}" if kind[0] in "usb" and not kind.startswith("bf") else kind
        size = bits // 8
        for name in names:
            for space in ("global", "shared"):
                if space == "shared" and "noftz" in name:
                    continue
                where = (f"mad.wide.u32 %at, %thread, {size}, %out;\nst.global.b{bits} [%at], A;\n"
                         if space == "global" else
                         f"and.b32 %r20, %thread, {BLOCK - 1};\nmul.lo.u32 %r20, %r20, {size};\n"
                         f"mov.u32 %r21, smem;\nadd.u32 %r20, %r20, %r21;\nst.shared.b{bits} [%r20], A;\n")
                smem = 0 if space == "global" else BLOCK * size
                address = "%at" if space == "global" else "%r20"
                register = "%r30" if bits == 32 else "%rd12"
                both = (f"atom.{space}.{name}.{kind} {register}, [{address}], B;\n"
                        f"ld.{space}.b{bits} D, [{address}];\n")
                # Old and new value in one word, so that either being wrong shows.
                mix = "mad.lo.s32" if bits == 32 else "mad.lo.s64"
                op(f"atom.{space}.{name}.{kind}", bits, [source, source],
                   where + both + f"{mix} D, {register}, 3, D;", smem)
                if name != "exch":
                    op(f"red.{space}.{name}.{kind}", bits, [source, source],
                       where + f"red.{space}.{name}.{kind} [{address}], B;\n"
                       f"ld.{space}.b{bits} D, [{address}];", smem)
    for bits in (32, 64):
        register = "%r30" if bits == 32 else "%rd12"
        mix = f"mad.lo.s{bits} D, {register}, 3, D;"
        op(f"atom.global.cas.b{bits}", bits, [f"i{bits}"] * 3,
           f"mad.wide.u32 %at, %thread, {bits // 8}, %out;\nst.global.b{bits} [%at], A;\n"
           f"atom.global.cas.b{bits} {register}, [%at], B, C;\nld.global.b{bits} D, [%at];\n" + mix)


def floats(suite):
    def op(name, result, sources, text=None, ulp=0):
        alu(suite, "float", name, result, sources, text, ulp)

    roundings = ("rn", "rz", "rm", "rp")
    for ftz in ("", ".ftz"):
        for r in roundings:
            for base, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
                for sat in ("", ".sat"):
                    if sat and r != "rn":
                        continue
                    op(f"{base}.{r}{ftz}{sat}.f32", 32, ["f32"] * count)
            op(f"div.{r}{ftz}.f32", 32, ["f32"] * 2)
            for base in ("rcp", "sqrt"):
                op(f"{base}.{r}{ftz}.f32", 32, ["f32"])
        for base in ("add", "sub", "mul"):
            op(f"{base}{ftz}.f32", 32, ["f32"] * 2)
        for base in ("min", "max"):
            for nan in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
                op(f"{base}{ftz}{nan}.f32", 32, ["f32"] * 2)
        for base in ("abs", "neg"):
            op(f"{base}{ftz}.f32", 32, ["f32"])
        for compare in "eq ne lt le gt ge equ neu ltu leu gtu geu num nan".split():
            op(f"setp.{compare}{ftz}.f32", "p", ["f32"] * 2)
        for base in ("ex2", "lg2", "rcp", "rsqrt", "sqrt"):
            op(f"{base}.approx{ftz}.f32", 32, ["f32"], ulp=8)
        op(f"div.approx{ftz}.f32", 32, ["f32"] * 2, ulp=8)
        op(f"div.full{ftz}.f32", 32, ["f32"] * 2, ulp=8)
    op("tanh.approx.f32", 32, ["f32"], ulp=16384)
    for bits in (32, 64):
        op(f"copysign.f{bits}", bits, [f"f{bits}"] * 2)
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            op(f"testp.{test}.f{bits}", "p", [f"f{bits}"])
    for r in roundings:
        for base, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2)):
            op(f"{base}.{r}.f64", 64, ["f64"] * count)
        for base in ("rcp", "sqrt"):
            op(f"{base}.{r}.f64", 64, ["f64"])
    for base in ("min", "max"):
        op(f"{base}.f64", 64, ["f64"] * 2)
    for base in ("abs", "neg"):
        op(f"{base}.f64", 64, ["f64"])
    for compare in "eq ne lt le gt ge equ neu ltu leu gtu geu num nan".split():
        op(f"setp.{compare}.f64", "p", ["f64"] * 2)
    for kind in ("f16", "f16x2", "bf16", "bf16x2"):
        bits = WIDTHS[kind]
        half = kind.startswith("f16")
        for ftz in ("", ".ftz") if half else ("",):
            for base in ("add", "sub", "mul"):
                op(f"{base}.rn{ftz}.{kind}", bits, [kind] * 2)
                if half:
                    op(f"{base}.rn{ftz}.sat.{kind}", bits, [kind] * 2)
            op(f"fma.rn{ftz}.{kind}", bits, [kind] * 3)
            op(f"fma.rn{ftz}.relu.{kind}", bits, [kind] * 3)
            if half:
                op(f"fma.rn{ftz}.sat.{kind}", bits, [kind] * 3)
            for base in ("min", "max"):
                for nan in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
                    op(f"{base}{ftz}{nan}.{kind}", bits, [kind] * 2)
            for base in ("abs", "neg"):
                op(f"{base}{ftz}.{kind}", bits, [kind])
            for compare in "eq ne lt le gt ge equ neu ltu leu gtu geu num nan".split():
                if bits == 16:
                    op(f"setp.{compare}{ftz}.{kind}", "p", [kind] * 2)
                elif compare in ("eq", "lt", "geu", "nan"):
                    op(f"setp.{compare}{ftz}.{kind}", 32, [kind] * 2,
                       f"setp.{compare}{ftz}.{kind} %p2|%p3, A, B;\n"
                       "selp.b32 %r20, 1, 0, %p2;\nselp.b32 %r21, 2, 0, %p3;\nor.b32 D, %r20, %r21;")
    for kind in ("f16", "bf16"):
        op(f"add.{kind}", 16, [kind] * 2)
        op(f"mul.{kind}", 16, [kind] * 2)
        for name in (f"set.lt.{kind}.{kind}", f"set.ge.u16.{kind}"):
            op(name, 16, [kind] * 2)


def conversions(suite):
    def op(name, result, sources, text=None):
        alu(suite, "cvt", name, result, sources, text)

    bits_of = dict(f16=16, bf16=16, f32=32, f64=64)
    integers = [f"{s}{b}" for b in (8, 16, 32, 64) for s in "su"]

    def bits(kind):
        return bits_of.get(kind) or max(32 if kind[1:] == "8" else 0, int(kind[1:]))

    def source(kind):
        return kind if kind in bits_of else f"i{bits(kind)}"

    for to, by in itertools.product(integers, repeat=2):
        if to == by:
            continue
        op(f"cvt.{to}.{by}", bits(to), [source(by)])
        widens = int(to[1:]) > int(by[1:]) and (to[0] == "s" or by[0] == "u")
        if not widens:  # .sat is for conversions that can leave the range
            op(f"cvt.sat.{to}.{by}", bits(to), [source(by)])
    for kind in bits_of:
        for i in integers:
            if kind == "bf16" and i[1:] == "8":
                continue
            for r in ("rn", "rz", "rm", "rp"):
                op(f"cvt.{r}.{kind}.{i}", bits(kind), [source(i)])
            for r in ("rni", "rzi", "rmi", "rpi"):
                op(f"cvt.{r}.{i}.{kind}", bits(i), [source(kind)])
                if r in ("rni", "rzi") and kind == "f32":
                    op(f"cvt.{r}.ftz.{i}.{kind}", bits(i), [source(kind)])
                if r == "rzi" and kind != "bf16":
                    op(f"cvt.{r}.sat.{i}.{kind}", bits(i), [source(kind)])
    for r in ("rn", "rz", "rm", "rp"):
        op(f"cvt.{r}.f32.f64", 32, ["f64"])
        op(f"cvt.{r}.f16.f64", 16, ["f64"])
        op(f"cvt.{r}.ftz.f32.f64", 32, ["f64"])
        op(f"cvt.{r}.f16.f32", 16, ["f32"])
    for r in ("rn", "rz"):
        op(f"cvt.{r}.bf16.f32", 16, ["f32"])
        op(f"cvt.{r}.relu.bf16.f32", 16, ["f32"])
        op(f"cvt.{r}.relu.f16.f32", 16, ["f32"])
        for to in ("f16x2", "bf16x2"):
            op(f"cvt.{r}.{to}.f32", 32, ["f32", "f32"])
            op(f"cvt.{r}.relu.{to}.f32", 32, ["f32", "f32"])
        op(f"cvt.{r}.tf32.f32", 32, ["f32"])
        op(f"cvt.{r}.relu.tf32.f32", 32, ["f32"])
    op("cvt.rn.ftz.f16.f32", 16, ["f32"])
    op("cvt.rn.sat.f16.f32", 16, ["f32"])
    op("cvt.rna.tf32.f32", 32, ["f32"])
    op("cvt.rna.satfinite.tf32.f32", 32, ["f32"])
    op("cvt.f32.f16", 32, ["f16"])
    op("cvt.ftz.f32.f16", 32, ["f16"])
    op("cvt.f32.bf16", 32, ["bf16"])
    op("cvt.f64.f32", 64, ["f32"])
    op("cvt.ftz.f64.f32", 64, ["f32"])
    op("cvt.f64.f16", 64, ["f16"])
    op("cvt.f64.bf16", 64, ["bf16"])
    op("cvt.rn.bf16.f64", 16, ["f64"])
    op("cvt.rn.bf16.f16", 16, ["f16"])
    op("cvt.rn.f16.bf16", 16, ["bf16"])
    for r in ("rni", "rzi", "rmi", "rpi"):
        for kind in ("f16", "f32", "f64", "bf16"):
            op(f"cvt.{r}.{kind}.{kind}", bits(kind), [kind])
    op("cvt.sat.f32.f32", 32, ["f32"])
    op("cvt.ftz.f32.f32", 32, ["f32"])
    op("cvt.rni.ftz.f32.f32", 32, ["f32"])
    for f8 in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            op(f"cvt.rn.satfinite{relu}.{f8}.f32", 16, ["f32", "f32"])
            op(f"cvt.rn.satfinite{relu}.{f8}.f16x2", 16, ["f16x2"])
            op(f"cvt.rn{relu}.f16x2.{f8}", 32, ["f8x2"])
    for sign in "su":
        op(f"cvt.pack.sat.{sign}16.s32", 32, ["i32", "i32"])
        op(f"cvt.pack.sat.{sign}8.s32.b32", 32, ["i32", "i32", "i32"])


def add(suite):
    integers(suite)
    atomics(suite)
    floats(suite)
    conversions(suite)
