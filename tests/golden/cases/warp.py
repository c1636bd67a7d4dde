"""Instructions that move values between the lanes of a warp: ldmatrix, stmatrix, movmatrix, shfl,
vote, match, redux, elect."""

import itertools

WARPS = 4
THREADS = 32 * WARPS

# Lane l of warp w reads or writes row (37 l + 11 + 64 w) mod 256: distinct rows for all lanes, those
# whose address the instruction ignores too.
ROW_ADDRESS = """mul.lo.u32 %r4, %lane, 37;
  shr.u32 %r5, %thread, 5;
  shl.b32 %r5, %r5, 6;
  add.u32 %r4, %r4, %r5;
  add.u32 %r4, %r4, 11;
  and.b32 %r4, %r4, 255;
  shl.b32 %r4, %r4, 4;
  add.u32 %r4, %r4, %smem;
"""

# Copies the first 4096 bytes of the input to shared memory and back to the output.
COPY_IN = "".join(f"""mad.wide.u32 %at, %thread, 16, %in;
  mad.lo.u32 %r5, %thread, 16, %smem;
  ld.global.v4.b32 {{%r6, %r7, %r8, %r9}}, [%at+{at}];
  st.shared.v4.b32 [%r5+{at}], {{%r6, %r7, %r8, %r9}};
""" for at in (0, 2048)) + "bar.sync 0;\n"
COPY_OUT = "bar.sync 0;\n" + "".join(f"""mad.wide.u32 %at, %thread, 16, %out;
  mad.lo.u32 %r5, %thread, 16, %smem;
  ld.shared.v4.b32 {{%r6, %r7, %r8, %r9}}, [%r5+{at}];
  st.global.v4.b32 [%at+{at}], {{%r6, %r7, %r8, %r9}};
""" for at in (0, 2048))


def store(registers):
    lines = [f"mad.wide.u32 %at, %thread, {4 * len(registers)}, %out;"]
    lines += [f"st.global.b32 [%at+{4 * i}], {r};" for i, r in enumerate(registers)]
    return "\n".join(lines)


def matrices(suite):
    for count, trans in itertools.product((1, 2, 4), ("", ".trans")):
        registers = [f"%r{20 + i}" for i in range(count)]
        listed = "{" + ", ".join(registers) + "}"
        name = f"ldmatrix.x{count}{trans}"
        body = (COPY_IN + ROW_ADDRESS +
                f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {listed}, [%r4];\n" +
                store(registers))
        entry = suite.kernel("warp", name, body, smem=True)
        suite.case(f"warp/{name}", "warp", entry, block=THREADS, smem=4096, **{"in": "u32:4096"},
                   out=THREADS * 4 * count)
        name = f"stmatrix.x{count}{trans}"
        # One warp: rows of several warps would collide.
        body = (COPY_IN + ROW_ADDRESS + "mad.wide.u32 %at, %thread, 16, %in;\n" +
                "".join(f"ld.global.b32 {r}, [%at+{4096 + 4 * i}];\n"
                        for i, r in enumerate(registers)) +
                "setp.ge.u32 %p1, %thread, 32;\n@%p1 bra LATER;\n"
                f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r4], {listed};\nLATER:\n" +
                COPY_OUT)
        entry = suite.kernel("warp", name, body, smem=True)
        suite.case(f"warp/{name}", "warp", entry, block=THREADS, smem=4096,
                   **{"in": "u32:8192"}, out=4096)
    body = ("mad.wide.u32 %at, %thread, 4, %in;\nld.global.b32 %r4, [%at];\n"
            "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r4;\n" + store(["%r5"]))
    lanes(suite, "movmatrix", body, 4)


def lanes(suite, name, body, bytes_a_lane):
    entry = suite.kernel("warp", name, body)
    suite.case(f"warp/{name}", "warp", entry, block=THREADS, **{"in": "u32:4096"},
               out=THREADS * bytes_a_lane)


LOAD = """mad.wide.u32 %at, %thread, 4, %in;
  ld.global.b32 %r4, [%at];
  ld.global.b32 %r5, [%at+1024];
  mov.u32 %r20, -1;
  mov.u32 %r21, -1;
"""


def shuffles(suite):
    # c: the clamp in bits 0-4, the segment mask in bits 8-12.
    clamps = [("full", 0x1F), ("up", 0), ("w16", 0x101F), ("w8", 0x181F), ("w4", 0x1C1F),
              ("w2", 0x1E1F), ("w8up", 0x1800), ("odd", 0x0A13), ("clamp7", 0x07)]
    for mode, (label, c) in itertools.product(("up", "down", "bfly", "idx"), clamps):
        for b in ("1", "3", "17", "40", "%r5"):
            name = f"shfl.{mode}.{label}.{b.replace('%r5', 'lane')}"
            body = (LOAD + f"shfl.sync.{mode}.b32 %r20|%p1, %r4, {b}, {c}, -1;\n"
                    "selp.b32 %r21, 1, 0, %p1;\n" + store(["%r20", "%r21"]))
            lanes(suite, name, body, 8)
    for mode in ("up", "down", "bfly", "idx"):
        # c differs from lane to lane; and half a warp alone.
        body = (LOAD + f"shfl.sync.{mode}.b32 %r20|%p1, %r4, 3, %r5, -1;\n"
                "selp.b32 %r21, 1, 0, %p1;\n" + store(["%r20", "%r21"]))
        lanes(suite, f"shfl.{mode}.lane_c", body, 8)
        c = 0 if mode == "up" else 0x1F
        # Source lanes stay inside the half that takes part.
        body = (LOAD + "setp.ge.u32 %p2, %lane, 16;\n@%p2 bra LATER;\n"
                f"shfl.sync.{mode}.b32 %r20|%p1, %r4, 1, {0x1000 | c}, 0xffff;\n"
                "selp.b32 %r21, 1, 0, %p1;\nLATER:\n" + store(["%r20", "%r21"]))
        lanes(suite, f"shfl.{mode}.half", body, 8)


MASKS = {"all": (-1, ""), "low": (0xFFFF, "setp.lt.u32 %p2, %lane, 16;"),
         "odd": (0xAAAAAAAA, "and.b32 %r6, %lane, 1;\nsetp.eq.u32 %p2, %r6, 1;"),
         "one": (0x00800000, "setp.eq.u32 %p2, %lane, 23;")}


def under(mask, instruction):
    """The instruction by the lanes of a mask alone; the others keep -1."""
    value, select = MASKS[mask]
    text = instruction.replace("MASK", hex(value & 0xFFFFFFFF))
    if not select:
        return text + "\n"
    return f"{select}\n@!%p2 bra LATER;\n{text}\nLATER:\n"


def votes(suite):
    for mask in MASKS:
        for kind in ("all", "any", "uni"):
            for want in ("mixed", "all"):
                compare = ("setp.ne.u32 %p3, %r4, 0;" if want == "all" else
                           "and.b32 %r7, %r4, 1;\nsetp.ne.u32 %p3, %r7, 0;")
                body = (LOAD + compare + "\n" +
                        under(mask, f"vote.sync.{kind}.pred %p1, %p3, MASK;\n"
                                    f"vote.sync.{kind}.pred %p4, !%p3, MASK;\n"
                                    "selp.b32 %r20, 1, 0, %p1;\nselp.b32 %r21, 1, 0, %p4;") +
                        store(["%r20", "%r21"]))
                lanes(suite, f"vote.{kind}.{want}.{mask}", body, 8)
        body = (LOAD + "and.b32 %r7, %r4, 1;\nsetp.ne.u32 %p3, %r7, 0;\n" +
                under(mask, "vote.sync.ballot.b32 %r20, %p3, MASK;\n"
                            "vote.sync.ballot.b32 %r21, !%p3, MASK;") + store(["%r20", "%r21"]))
        lanes(suite, f"vote.ballot.{mask}", body, 8)
        for kind in ("any", "all"):
            for values in (1, 4, 16):
                target = "%r20" if kind == "any" else "%r20|%p1"
                tail = "" if kind == "any" else "\nselp.b32 %r21, 1, 0, %p1;"
                body = (LOAD + f"and.b32 %r7, %r4, {values - 1};\n" +
                        under(mask, f"match.{kind}.sync.b32 {target}, %r7, MASK;{tail}") +
                        store(["%r20", "%r21"]))
                lanes(suite, f"match.{kind}.b32.{values}.{mask}", body, 8)
            body = (LOAD + "and.b32 %r7, %r4, 3;\ncvt.u64.u32 %rd4, %r7;\nshl.b64 %rd4, %rd4, 40;\n" +
                    under(mask, f"match.{kind}.sync.b64 {target}, %rd4, MASK;{tail}") +
                    store(["%r20", "%r21"]))
            lanes(suite, f"match.{kind}.b64.{mask}", body, 8)
        for op in ("add.s32 add.u32 min.s32 min.u32 max.s32 max.u32 and.b32 or.b32 xor.b32").split():
            body = LOAD + under(mask, f"redux.sync.{op} %r20, %r4, MASK;") + store(["%r20"])
            lanes(suite, f"redux.{op}.{mask}", body, 4)
        body = (LOAD + under(mask, "elect.sync %r20|%p1, MASK;\nselp.b32 %r21, 1, 0, %p1;") +
                store(["%r20", "%r21"]))
        lanes(suite, f"elect.{mask}", body, 8)
    body = (LOAD + "setp.lt.u32 %p2, %lane, 16;\n@%p2 bra LOW;\n"
            "redux.sync.add.s32 %r20, %r4, 0xffff0000;\nbra LATER;\nLOW:\n"
            "redux.sync.add.s32 %r20, %r5, 0x0000ffff;\nLATER:\nbar.warp.sync -1;\n" +
            store(["%r20"]))
    lanes(suite, "redux.two_halves", body, 4)


def add(suite):
    matrices(suite)
    shuffles(suite)
    votes(suite)
