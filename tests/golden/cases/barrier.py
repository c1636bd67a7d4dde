"""CTA and cluster barriers of which some threads have exited.

Each thread that stays adds 1 to a counter, passes the barrier, and stores the counter: what it
stores is how many arrived before it could go on. Threads that exit late spin first and add 1 to a
second counter, stored beside the first. A case may hang on a device; a short limit then ends it,
and "hang" is what is recorded.
"""

LIMIT = 3  # seconds
BLOCK = 128

# Which threads exit: code that sets %p2. %r5 is the warp, %r4 the CTA's rank.
EXITS = {
    "none": "setp.eq.u32 %p2, %thread, 0xffff;",
    "warp0": "setp.eq.u32 %p2, %r5, 0;",
    "warp3": "setp.eq.u32 %p2, %r5, 3;",
    "odd_warps": "and.b32 %r6, %r5, 1;\nsetp.eq.u32 %p2, %r6, 1;",
    "all_but_warp2": "setp.ne.u32 %p2, %r5, 2;",
    "odd_lanes": "and.b32 %r6, %lane, 1;\nsetp.eq.u32 %p2, %r6, 1;",
    "high_lanes": "setp.ge.u32 %p2, %lane, 16;",
    "lane0": "setp.eq.u32 %p2, %lane, 0;",
    "all_but_lane7": "setp.ne.u32 %p2, %lane, 7;",
    "part_of_warp1": "sub.u32 %r6, %thread, 40;\nsetp.lt.u32 %p2, %r6, 24;",
    "from_thread80": "setp.ge.u32 %p2, %thread, 80;",
    "all_but_thread77": "setp.ne.u32 %p2, %thread, 77;",
}
WHOLE_WARPS = ("none", "warp0", "warp3", "odd_warps", "all_but_warp2")

ADD = "red.relaxed.cta.shared.add.u32 [%smem], 1;\n"
READ = "ld.relaxed.cta.shared.u32 %r21, [%smem];\nld.relaxed.cta.shared.u32 %r22, [%smem+4];\n"
STORE = "st.global.v2.b32 [%at], {%r21, %r22};\n"
SETUP = """shr.u32 %r5, %thread, 5;
  mad.wide.u32 %at, %thread, 8, %out;
  mov.u32 %r7, 0;
  setp.eq.u32 %p1, %thread, 0;
  @%p1 st.shared.b32 [%smem], %r7;
  @%p1 st.shared.b32 [%smem+4], %r7;
  bar.sync 15;
"""
SPIN = """mov.u32 %r7, 0;
SPIN:
  mov.u32 %r8, %clock;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p3, %r7, 500;
  @%p3 bra SPIN;
"""


def cta(suite, name, body):
    entry = suite.kernel("barrier", name, SETUP + body, smem=True)
    suite.case(f"barrier/{name}", "barrier", entry, block=BLOCK, smem=64, out=8 * BLOCK, limit=LIMIT)


def exited(suite):
    for exits, select in EXITS.items():
        for kind in ("bar", "barrier"):
            cta(suite, f"{kind}.sync.{exits}",
                f"{select}\n@%p2 exit;\n{ADD}{kind}.sync 0;\n{READ}{STORE}")
            # Threads that stay bring true, true and false.
            cta(suite, f"{kind}.red.{exits}", f"""{select}
  @%p2 exit;
  {kind}.red.popc.u32 %r21, 0, !%p2;
  {kind}.red.and.pred %p4, 0, !%p2;
  {kind}.red.or.pred %p5, 0, %p2;
  selp.b32 %r22, 1, 0, %p4;
  selp.b32 %r23, 2, 0, %p5;
  or.b32 %r22, %r22, %r23;
  {STORE}""")
        # Only barrier.sync may be reached by some lanes while others of the warp are elsewhere.
        for kind in ("bar", "barrier") if exits in WHOLE_WARPS else ("barrier",):
            cta(suite, f"{kind}.sync.late.{exits}",
                f"{select}\n@!%p2 bra STAY;\n{SPIN}red.relaxed.cta.shared.add.u32 [%smem+4], 1;\nexit;\n"
                f"STAY:\n{ADD}{kind}.sync 0;\n{READ}{STORE}")
    for unit, limits in (("%r5", (3, 2, 1)), ("%lane", (24, 16, 8))):
        body = ""
        for phase, limit in enumerate((*limits, 0)):
            body += (f"{ADD}barrier.sync 0;\n{READ}mov.u32 %r22, {phase};\nbarrier.sync 0;\n{STORE}"
                     f"setp.ge.u32 %p2, {unit}, {limit};\n@%p2 exit;\n")
        cta(suite, f"barrier.sync.phases.{'warps' if unit == '%r5' else 'lanes'}", body)


def named(suite):
    """Barriers with a thread count: it says how many are waited for, whoever has exited."""
    everyone = [("none", 128), ("warp3", 96), ("odd_warps", 64), ("all_but_warp2", 32),
                ("high_lanes", 128), ("lane0", 128), ("all_but_lane7", 128), ("from_thread80", 96)]
    for kind in ("bar", "barrier"):
        for exits, count in everyone:
            cta(suite, f"{kind}.sync.{count}.{exits}",
                f"{EXITS[exits]}\n@%p2 exit;\n{ADD}{kind}.sync 1, {count};\n{READ}{STORE}")
            cta(suite, f"{kind}.red.{count}.{exits}",
                f"{EXITS[exits]}\n@%p2 exit;\n{kind}.red.popc.u32 %r21, 2, {count}, !%p2;\n"
                f"mov.u32 %r22, 0;\n{STORE}")
    # Fewer threads come than are waited for.
    for exits in ("warp3", "all_but_warp2"):
        cta(suite, f"bar.sync.128.{exits}",
            f"{EXITS[exits]}\n@%p2 exit;\n{ADD}bar.sync 1, 128;\n{READ}{STORE}")
    cta(suite, "bar.sync.128.late.warp3",
        f"{EXITS['warp3']}\n@!%p2 bra STAY;\n{SPIN}exit;\nSTAY:\n{ADD}bar.sync 1, 128;\n{READ}{STORE}")
    # Warps 0 and 1 arrive and go, warps 2 and 3 wait for them.
    for kind in ("bar", "barrier"):
        for exits in ("none", "high_lanes", "lane0", "all_but_lane7", "part_of_warp1"):
            cta(suite, f"{kind}.arrive.{exits}", f"""{EXITS[exits]}
  @%p2 exit;
  {ADD}setp.ge.u32 %p3, %r5, 2;
  @%p3 bra CONSUMER;
  {kind}.arrive 3, 128;
  exit;
CONSUMER:
  {kind}.sync 3, 128;
  {READ}{STORE}""")
    # Two places, one barrier.
    for exits in ("none", "odd_lanes", "warp3"):
        cta(suite, f"barrier.sync.two_places.{exits}", f"""{EXITS[exits]}
  @%p2 exit;
  {ADD}setp.ge.u32 %p3, %lane, 16;
  @%p3 bra HIGH;
  barrier.sync 0;
  bra JOIN;
HIGH:
  barrier.sync 0;
JOIN:
  {READ}{STORE}""")


CLUSTER_BLOCK = 64
CLUSTER_EXITS = {
    "none": "setp.eq.u32 %p2, %thread, 0xffff;",
    "cta0": "setp.eq.u32 %p2, %r4, 0;",
    "cta1": "setp.eq.u32 %p2, %r4, 1;",
    "all_but_cta1": "setp.ne.u32 %p2, %r4, 1;",
    "warp1_of_cta1": "setp.eq.u32 %p2, %r4, 1;\nsetp.ge.and.u32 %p2, %r9, 32, %p2;",
    "warp0_of_each": "setp.lt.u32 %p2, %r9, 32;",
    "odd_lanes_of_cta1": "and.b32 %r6, %lane, 1;\nsetp.eq.u32 %p2, %r4, 1;\n"
                         "setp.eq.and.u32 %p2, %r6, 1, %p2;",
    "odd_lanes": "and.b32 %r6, %lane, 1;\nsetp.eq.u32 %p2, %r6, 1;",
    "all_but_one_of_each": "setp.ne.u32 %p2, %r9, 37;",
    "all_but_one": "setp.ne.u32 %p2, %thread, 5;",
}
# The counters are the output's first words; they begin at 0xcdcdcdcd.
CLUSTER_SETUP = """mov.u32 %r4, %cluster_ctarank;
  mov.u32 %r9, %tid.x;
  mad.wide.u32 %at, %thread, 8, %out;
  add.u64 %at, %at, 64;
  mov.u32 %r7, 0;
"""
CLUSTER_ADD = "red.relaxed.gpu.global.add.u32 [%out], 1;\n"
CLUSTER_READ = ("ld.relaxed.gpu.global.u32 %r21, [%out];\n"
                "ld.relaxed.gpu.global.u32 %r22, [%out+4];\n")


def cluster(suite):
    def add_case(name, body, ctas=2):
        entry = suite.kernel("barrier", name, CLUSTER_SETUP + body)
        suite.case(f"barrier/{name}.{ctas}", "barrier", entry, grid=ctas, cluster=ctas,
                   block=CLUSTER_BLOCK, out=64 + 8 * CLUSTER_BLOCK * ctas, limit=LIMIT)

    for exits, select in CLUSTER_EXITS.items():
        for label, arrive, wait in (("", "arrive", "wait"), (".aligned", "arrive.aligned", "wait.aligned")):
            barrier = f"barrier.cluster.{arrive};\nbarrier.cluster.{wait};\n"
            body = f"{select}\n@%p2 exit;\n{CLUSTER_ADD}{barrier}{CLUSTER_READ}{STORE}"
            for ctas in (2, 4):
                add_case(f"cluster{label}.{exits}", body, ctas)
        barrier = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
        add_case(f"cluster.late.{exits}",
                 f"{select}\n@!%p2 bra STAY;\n{SPIN}red.relaxed.gpu.global.add.u32 [%out+4], 1;\nexit;\n"
                 f"STAY:\n{CLUSTER_ADD}{barrier}{CLUSTER_READ}{STORE}")
        # Arrived, and exited without waiting: then the others pass this barrier and one more.
        add_case(f"cluster.arrive_and_exit.{exits}",
                 f"{select}\n{CLUSTER_ADD}barrier.cluster.arrive;\n@%p2 exit;\nbarrier.cluster.wait;\n"
                 f"{CLUSTER_READ}{barrier}{STORE}{barrier}")
    body = ""
    for phase in range(4):
        barrier = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
        body += (f"{CLUSTER_ADD}{barrier}{CLUSTER_READ}mov.u32 %r22, {phase};\n{barrier}{STORE}"
                 f"setp.eq.u32 %p2, %r4, {phase};\n@%p2 exit;\n")
    add_case("cluster.phases", body, 4)


def add(suite):
    exited(suite)
    named(suite)
    cluster(suite)
