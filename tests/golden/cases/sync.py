"""mbarrier sequences, remote arrivals, asynchronous stores to a cluster's shared memory, and the
special registers and addresses of CTAs and clusters."""

import itertools

# One thread runs a script on the barrier at %smem. Steps, and what each appends to the output:
#   init N | inval | arrive [N] | drop [N] | expect B | complete B | arrive_expect B | drop_expect B
#   noComplete N | drop_noComplete N        arrivals may end in "=T", which keeps the token as T
#   test P | try P | test T | try T         0 or 1: of parity P, or of a token's phase
#   pending T                               the count that a noComplete token carries
SCRIPTS = {
    "one": "init 1; test 0; test 1; arrive; test 0; test 1; arrive; test 0; test 1; arrive; test 0",
    "three": "init 3; arrive; test 0; arrive; test 0; arrive; test 0; test 1; arrive; arrive; test 1;"
             "arrive; test 1; test 0",
    "count": "init 5; arrive 2; test 0; arrive 3; test 0; arrive 5; test 1; arrive 4; test 0; arrive 1;"
             "test 0",
    "try": "init 1; try 1; arrive; try 0; arrive; try 1",
    "try_fails": "init 2; arrive; try 0; try 1; arrive; try 0; try 1",
    "tokens": "init 2; arrive =a; test a; try a; arrive =b; test a; test b; arrive =c; test c; arrive =d;"
              "test c; test d; try d",
    "token_phases": "init 1; arrive =a; test a; arrive =b; test b; arrive =c; test c",
    "expect": "init 1; expect 16; arrive; test 0; complete 16; test 0; test 1",
    "expect_parts": "init 1; expect 32; arrive; complete 8; test 0; complete 24; test 0",
    "arrive_expect": "init 1; arrive_expect 64; test 0; complete 64; test 0; arrive_expect 8; test 1;"
                     "complete 8; test 1",
    "complete_first": "init 1; complete 64; test 0; arrive_expect 64; test 0; test 1; arrive; test 1",
    "complete_first_more": "init 1; complete 64; expect 32; test 0; arrive_expect 32; test 0; arrive;"
                           "test 1",
    "complete_first_arrive": "init 2; complete 16; arrive; test 0; expect 16; test 0; arrive; test 0",
    "complete_negative_pending_zero": "init 1; complete 16; arrive; test 0; test 1; expect 16; test 0;"
                                      "test 1; arrive; test 0; test 1",
    "expect_twice": "init 2; arrive_expect 16; arrive_expect 32; test 0; complete 16; test 0; complete 32;"
                    "test 0; arrive 2; test 1",
    "expect_zero": "init 1; expect 0; test 0; arrive_expect 0; test 0; arrive; test 1",
    "complete_zero": "init 1; complete 0; test 0; arrive; test 0; complete 0; test 0; test 1",
    "expect_after_arrivals": "init 2; arrive; expect 16; arrive; test 0; complete 16; test 0",
    "large_expect": "init 1; arrive_expect 1048575; complete 1048574; test 0; complete 1; test 0",
    "large_complete": "init 1; complete 1048574; test 0; arrive_expect 1048574; test 0; test 1",
    "large_count": "init 1048575; arrive 1048574; test 0; arrive; test 0; arrive 1048575; test 1; test 0",
    "drop": "init 3; drop; test 0; arrive 2; test 0; arrive; test 1; arrive; test 1; arrive; test 0;"
            "arrive; test 0",
    "drop_count": "init 5; drop 3; test 0; arrive 2; test 0; arrive; arrive; test 1; drop; arrive; test 0;"
                  "arrive; test 1",
    "drop_completes": "init 2; arrive; drop; test 0; arrive; test 1; arrive; test 0",
    "drop_all": "init 1; drop; test 0; test 1",
    "drop_expect": "init 2; drop_expect 16; arrive; test 0; complete 16; test 0; arrive; test 1",
    "noComplete": "init 4; noComplete 1 =a; pending a; noComplete 2 =b; pending b; test 0; arrive =c;"
                  "test 0; test a; test c; noComplete 3 =d; pending d; arrive; test 1; test d",
    "drop_noComplete": "init 4; drop_noComplete 1 =a; pending a; drop_noComplete 1 =b; pending b; arrive 2;"
                       "test 0; arrive 1; test 1; arrive 1; test 1",
    "again": "init 1; arrive; inval; init 2; test 0; test 1; arrive; test 0; arrive; test 0",
    "init_twice": "init 1; arrive; init 1; test 0; test 1; arrive; test 0",
    "stale_parity": "init 1; arrive; arrive; test 0; test 1; arrive; test 0; test 1; arrive; test 0; test 1",
    "expect_in_next_phase": "init 1; arrive; expect 16; test 0; test 1; arrive; test 1; complete 16; test 1",
}

ARRIVALS = {"arrive": "arrive", "drop": "arrive_drop", "noComplete": "arrive.noComplete",
            "drop_noComplete": "arrive_drop.noComplete", "arrive_expect": "arrive.expect_tx",
            "drop_expect": "arrive_drop.expect_tx"}


def step(text, tokens, keep):
    """PTX of one step on the barrier at %smem; keep(register) appends a result to the output."""
    words = text.split()
    name, operands = words[0], words[1:]
    if name == "init":
        return f"mbarrier.init.shared::cta.b64 [%smem], {operands[0]};\n"
    if name == "inval":
        return "mbarrier.inval.shared::cta.b64 [%smem];\n"
    if name == "expect":
        return f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%smem], {operands[0]};\n"
    if name == "complete":
        return f"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%smem], {operands[0]};\n"
    if name in ARRIVALS:
        target = "%rd20"
        if operands and operands[-1].startswith("="):
            token = operands.pop()[1:]
            target = tokens.setdefault(token, f"%rd{21 + len(tokens)}")
        count = f", {operands[0]}" if operands else ""
        return f"mbarrier.{ARRIVALS[name]}.shared::cta.b64 {target}, [%smem]{count};\n"
    if name == "pending":
        return f"mbarrier.pending_count.b64 %r20, {tokens[operands[0]]};\n" + keep("%r20")
    kind = {"test": "test_wait", "try": "try_wait"}[name]
    if operands[0] in "01":
        wait = f"mbarrier.{kind}.parity.shared::cta.b64 %p1, [%smem], {operands[0]};\n"
    else:
        wait = f"mbarrier.{kind}.shared::cta.b64 %p1, [%smem], {tokens[operands[0]]};\n"
    return wait + "selp.b32 %r20, 1, 0, %p1;\n" + keep("%r20")


def scripts(suite):
    for name, script in SCRIPTS.items():
        results = []

        def keep(register):
            results.append(register)
            return f"st.global.b32 [%out+{4 * len(results) - 4}], {register};\n"

        tokens = {}
        body = "".join(step(s, tokens, keep) for s in script.split(";"))
        entry = suite.kernel("mbarrier", name, body, smem=True)
        suite.case(f"mbarrier/{name}", "mbarrier", entry, block=1, smem=64, out=4 * len(results))


CLUSTER_BARRIER = "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n"

# Steps "R: …" are done by CTA R, one after the other, all on CTA 0's barrier: here, or by its
# address in shared::cluster (%r10).
REMOTE = {
    "arrive": "0: init 2; 1: r_arrive; 0: test 0; 1: r_arrive; 0: test 0; 0: test 1",
    "count": "0: init 5; 1: r_arrive 4; 0: test 0; 0: arrive; 0: test 0; 1: r_arrive 5; 0: test 1",
    "expect": "0: init 1; 1: r_expect 16; 0: arrive; 0: test 0; 1: r_complete 16; 0: test 0",
    "arrive_expect": "0: init 1; 1: r_arrive_expect 32; 0: test 0; 0: complete 32; 0: test 0; 0: test 1",
    "drop": "0: init 2; 1: r_drop; 0: arrive; 0: test 0; 0: arrive; 0: test 1",
    "drop_expect": "0: init 2; 1: r_drop_expect 8; 0: arrive; 0: test 0; 1: r_complete 8; 0: test 0;"
                   "0: arrive; 0: test 1",
    "self": "0: init 1; 0: r_arrive; 0: test 0; 0: r_arrive_expect 8; 0: test 1; 0: r_complete 8;"
            "0: test 1",
    "complete_first": "0: init 1; 1: r_complete 16; 0: test 0; 1: r_arrive_expect 16; 0: test 0",
}
REMOTE_STEPS = {
    "r_arrive": "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10]",
    "r_drop": "mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r10]",
    "r_arrive_expect": "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r10]",
    "r_drop_expect": "mbarrier.arrive_drop.expect_tx.release.cluster.shared::cluster.b64 _, [%r10]",
    "r_expect": "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r10]",
    "r_complete": "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r10]",
}


def remote(suite):
    for name, script in REMOTE.items():
        results = []

        def keep(register):
            results.append(register)
            return f"st.global.b32 [%out+{4 * len(results) - 4}], {register};\n"

        body = "mov.u32 %r28, %cluster_ctarank;\nmapa.shared::cluster.u32 %r10, %smem, 0;\n"
        tokens = {}
        for i, text in enumerate(script.split(";")):
            rank, action = text.strip().split(": ")
            first, *operands = action.split()
            if first in REMOTE_STEPS:
                instruction = f"{REMOTE_STEPS[first]}{''.join(', ' + o for o in operands)};\n"
            else:
                instruction = step(action, tokens, keep)
            body += (f"setp.ne.u32 %p2, %r28, {rank};\n@%p2 bra SKIP{i};\n{instruction}SKIP{i}:\n" +
                     CLUSTER_BARRIER)
        entry = suite.kernel("mbarrier", f"remote.{name}", body, smem=True)
        suite.case(f"mbarrier/remote.{name}", "mbarrier", entry, grid=2, cluster=2, block=1, smem=64,
                   out=4 * len(results))
    # st.async and red.async from CTA 1 into CTA 0, whose barrier counts their bytes.
    table = {"st.b32": ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32", "%r4", 4),
             "st.v2.b32": ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32",
                           "{%r4, %r5}", 8),
             "st.v4.b32": ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32",
                           "{%r4, %r5, %r6, %r7}", 16),
             "st.b64": ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64", "%rd4", 8),
             "red.add.u32": ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
                             ".add.u32", "%r4", 4),
             "red.max.s32": ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
                             ".max.s32", "%r4", 4),
             "red.inc.u32": ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
                             ".inc.u32", "%r4", 4),
             "red.xor.b32": ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
                             ".xor.b32", "%r4", 4),
             "red.add.u64": ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
                             ".add.u64", "%rd4", 8)}
    for name, (instruction, value, size) in table.items():
        body = f"""mov.u32 %r28, %cluster_ctarank;
  mapa.shared::cluster.u32 %r10, %smem, 0;
  ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%in];
  mov.b64 %rd4, {{%r4, %r5}};
  ld.global.b64 %rd5, [%in+16];
  mov.u32 %r21, 0;
  setp.ne.u32 %p2, %r28, 0;
  @%p2 bra READY;
  mbarrier.init.shared::cta.b64 [%smem], 1;
  st.shared.b64 [%smem+16], %rd5;
  st.shared.b64 [%smem+24], %rd5;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem], {size};
  mbarrier.test_wait.parity.shared::cta.b64 %p1, [%smem], 0;
  selp.b32 %r20, 1, 0, %p1;
  st.global.b32 [%out], %r20;
READY:
{CLUSTER_BARRIER}
  @!%p2 bra WAIT;
  {instruction} [%r10+16], {value}, [%r10];
  bra WAITED;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%smem], 0;
  add.u32 %r21, %r21, 1;
  setp.lt.u32 %p3, %r21, 200;
  not.pred %p4, %p1;
  and.pred %p3, %p3, %p4;
  @%p3 bra WAIT;
  selp.b32 %r20, 1, 0, %p1;
  st.global.b32 [%out+4], %r20;
  ld.shared.b64 %rd6, [%smem+16];
  ld.shared.b64 %rd7, [%smem+24];
  st.global.b64 [%out+8], %rd6;
  st.global.b64 [%out+16], %rd7;
WAITED:
{CLUSTER_BARRIER}
"""
        entry = suite.kernel("mbarrier", f"async.{name}", body, smem=True)
        suite.case(f"mbarrier/async.{name}", "mbarrier", entry, grid=2, cluster=2, block=1, smem=64,
                   out=24, **{"in": "u32:32"})


LINEAR_CTA = """mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %ctaid.y;
  mov.u32 %r6, %ctaid.z;
  mov.u32 %r7, %nctaid.x;
  mov.u32 %r8, %nctaid.y;
  mad.lo.u32 %r9, %r6, %r8, %r5;
  mad.lo.u32 %r9, %r9, %r7, %r4;
"""


def values(suite, module, name, lines, count, launches, declare="", **keys):
    """Every CTA's first thread stores registers %r20 and up, `count` of them."""
    body = LINEAR_CTA + lines + f"mad.wide.u32 %at, %r9, {4 * count}, %out;\n"
    body += """mov.u32 %r10, %tid.x;
  mov.u32 %r11, %tid.y;
  mov.u32 %r12, %tid.z;
  or.b32 %r10, %r10, %r11;
  or.b32 %r10, %r10, %r12;
  setp.ne.u32 %p1, %r10, 0;
  @%p1 bra DONE;
"""
    body += "".join(f"st.global.b32 [%at+{4 * i}], %r{20 + i};\n" for i in range(count)) + "DONE:\n"
    entry = suite.kernel(module, name, body, **keys)
    for grid, cluster, block, smem in launches:
        ctas = 1
        for d in grid.split("x"):
            ctas *= int(d)
        suite.case(f"special/{name}.{grid}.{cluster}.{block}.{smem}", module, entry, grid=grid,
                   cluster=cluster, block=block, smem=smem, out=4 * count * ctas)


def special(suite):
    launches = [("1", "0", "32", 0), ("3x2x2", "0", "33x2", 0), ("4x2", "2x2", "64", 100),
                ("4x4x2", "1x2x2", "5x3x2", 1000), ("8", "8", "128", 2048), ("6x2", "3", "32", 50000),
                ("4", "1", "32", 16)]
    names = [f"{r}.{d}" for r in ("%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid",
                                  "%cluster_ctaid", "%cluster_nctaid") for d in "xyz"]
    names += ["%cluster_ctarank", "%cluster_nctarank", "%dynamic_smem_size", "%total_smem_size"]
    lines = "".join(f"mov.u32 %r{20 + i}, {r};\n" for i, r in enumerate(names))
    lines += f"mov.pred %p2, %is_explicit_cluster;\nselp.b32 %r{20 + len(names)}, 1, 0, %p2;\n"
    values(suite, "special", "registers", lines, len(names) + 1, launches)
    lines = "mov.u32 %r20, %total_smem_size;\nmov.u32 %r21, %aggr_smem_size;\n"
    lines += "mov.u32 %r22, %dynamic_smem_size;\nmov.u32 %r23, %reserved_smem_offset_begin;\n"
    lines += "mov.u32 %r24, %reserved_smem_offset_end;\nmov.u32 %r25, %reserved_smem_offset_cap;\n"
    for size in (0, 4, 100, 2000):
        use = f"mov.u32 %r26, fixed{size};\nst.shared.b32 [%r26], %r20;\n" if size else "mov.u32 %r26, 0;\n"
        values(suite, "special", f"smem_sizes.static{size}", lines + use, 7,
               [("1", "0", "32", s) for s in (0, 16, 100, 4096)])
    declarations = "".join(f".shared .align 4 .b8 fixed{size}[{size}];\n" for size in (4, 100, 2000))
    for align, size in itertools.product((16, 128, 1024), (0, 4, 100, 2000)):
        use = f"mov.u32 %r21, fixed{size};\nst.shared.b32 [%r21], %r4;\n" if size else "mov.u32 %r21, 0;\n"
        values(suite, f"special_{align}", f"dynamic_base.align{align}.static{size}",
               use + f"mov.u32 %r20, dynamic{align};\nst.shared.b32 [%r20], %r5;\n", 2,
               [("1", "0", "32", 64)])
        suite.declarations[f"special_{align}"] = (
            f".extern .shared .align {align} .b8 dynamic{align}[];\n" + declarations)
    suite.declarations["special"] = declarations
    # Each thread's own registers.
    names = ["%tid.x", "%tid.y", "%tid.z", "%laneid", "%lanemask_eq", "%lanemask_le",
             "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"]
    body = "mov.u32 %r4, %tid.x;\nmov.u32 %r5, %tid.y;\nmov.u32 %r6, %tid.z;\nmov.u32 %r7, %ntid.x;\n"
    body += "mov.u32 %r8, %ntid.y;\nmad.lo.u32 %r9, %r6, %r8, %r5;\nmad.lo.u32 %r9, %r9, %r7, %r4;\n"
    body += f"mad.wide.u32 %at, %r9, {4 * len(names)}, %out;\n"
    body += "".join(f"mov.u32 %r20, {r};\nst.global.b32 [%at+{4 * i}], %r20;\n"
                    for i, r in enumerate(names))
    entry = suite.kernel("special", "thread", body)
    for block, threads in (("70", 70), ("10x5x2", 100), ("1x1x40", 40), ("33x3", 99)):
        suite.case(f"special/thread.{block}", "special", entry, block=block, out=4 * len(names) * threads)
    # Addresses of peers' shared memory, and what is read there.
    lines = """mov.u32 %r15, %cluster_ctarank;
  mov.u32 %r16, %cluster_nctarank;
  add.u32 %r17, %r15, 100;
  st.shared.b32 [%smem+8], %r17;
  barrier.cluster.arrive.release;
  barrier.cluster.wait.acquire;
  cvta.shared.u64 %rd4, 0;
  mov.u32 %r18, %smem;
  cvt.u64.u32 %rd5, %r18;
  cvta.shared.u64 %rd5, %rd5;
"""
    for i, shift in enumerate((0, 1, 3)):
        r = 20 + 10 * i
        lines += f"""add.u32 %r18, %r15, {shift};
  rem.u32 %r18, %r18, %r16;
  mapa.shared::cluster.u32 %r{r}, %smem, %r18;
  ld.shared::cluster.b32 %r{r + 1}, [%r{r}+8];
  getctarank.shared::cluster.u32 %r{r + 2}, %r{r};
  mapa.u64 %rd6, %rd5, %r18;
  ld.b32 %r{r + 3}, [%rd6+8];
  getctarank.u64 %r{r + 4}, %rd6;
  cvta.to.shared::cluster.u64 %rd7, %rd6;
  cvt.u32.u64 %r{r + 5}, %rd7;
  isspacep.shared %p2, %rd6;
  selp.b32 %r{r + 6}, 1, 0, %p2;
  isspacep.shared::cluster %p2, %rd6;
  selp.b32 %r{r + 7}, 1, 0, %p2;
  isspacep.shared::cta %p2, %rd6;
  selp.b32 %r{r + 8}, 1, 0, %p2;
  sub.u64 %rd7, %rd6, %rd5;
  cvt.u32.u64 %r{r + 9}, %rd7;
"""
    lines += "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n"
    values(suite, "special", "mapa", lines.replace("cvta.shared.u64 %rd4, 0;\n", ""), 30,
           [("4", "4", "1", 64), ("4", "2", "1", 64), ("8x2", "4x2", "1", 64), ("2", "0", "1", 64)],
           smem=True)
    lines = ""
    for i, (space, address) in enumerate(itertools.product(
            ("global", "shared", "local", "const", "param"), ("%at", "%rd5", "%rd6"))):
        lines += f"isspacep.{space} %p2, {address};\nselp.b32 %r{20 + i}, 1, 0, %p2;\n"
    lines = (""".local .align 4 .b8 depot[16];
  mov.u64 %rd6, depot;
  cvta.local.u64 %rd6, %rd6;
  cvt.u64.u32 %rd5, %smem;
  cvta.shared.u64 %rd5, %rd5;
  ld.param.u64 %at, [out];
  st.b32 [%rd6], %r4;
""" + lines)
    values(suite, "special", "isspacep", lines, 15, [("1", "0", "1", 64)], smem=True)


def add(suite):
    scripts(suite)
    remote(suite)
    special(suite)
