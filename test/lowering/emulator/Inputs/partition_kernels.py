"""Kernels whose warps have partitions, and order themselves by mbarriers, as PTX."""

HEADER = """
.version 8.0
.target sm_90a
.address_size 64
"""

# Shared memory: two stages of A and B, the result, mbarriers.
STAGES, TILE = 2, 64 * 64 * 2
OUT = STAGES * 2 * TILE
FULL, EMPTY = OUT + TILE, OUT + TILE + 8 * STAGES
SHARED = EMPTY + 8 * STAGES

# What can be left out or changed, each a mistake.
MISTAKES = ("wait for full", "wait for empty", "arrival at empty", "arrival of one warp",
            "expects too little", "wrong parity", "fence.mbarrier_init", "barrier after init",
            "wgmma wait before arrival", "fence.proxy.async", "barrier before store",
            "wait for store", "short box", "setmaxnreg.dec")


def wait(address, parity):
    """As inline assembly: braces with names of their own."""
    return f"""
  // begin inline asm
  {{
  .reg .pred P1;
  LAB_WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 P1, [{address}], {parity};
  @P1 bra.uni DONE;
  bra.uni LAB_WAIT;
  DONE:
  }}
  // end inline asm"""


def products(unless):
    """The stage's product, added to the accumulators."""
    accumulators = ", ".join(f"%d{i}" for i in range(32))
    text = "\n  wgmma.fence.sync.aligned;"
    for step in range(4):
        for name, base in (("desca", 0), ("descb", TILE)):
            text += f"""
  add.s32 %to, %stage, {base + 32 * step};
  shr.u32 %to, %to, 4;
  cvt.u64.u32 %{name}, %to;
  or.b64 %{name}, %{name}, {1024 // 16 << 32 | 1 << 62};"""
        text += f"""
  {{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
  {{{accumulators}}}, %desca, %descb, p, 1, 1, 0, 0; }}"""
    return text + "\n  wgmma.commit_group.sync.aligned;" + \
        unless("wgmma wait before arrival", "\n  wgmma.wait_group.sync.aligned 0;")


def store_result(unless):
    """From accumulators by stmatrix to a box with its swizzle, and from there as a whole."""
    text = f"""
  // The row and the first piece of 16 bytes that this lane gives the address of.
  shr.u32 %row, %thread, 5;
  shl.b32 %row, %row, 4;
  and.b32 %at, %thread, 15;
  add.s32 %row, %row, %at;
  and.b32 %swizzle, %row, 7;
  shl.b32 %row, %row, 7;
  add.s32 %row, %row, %tile;
  bfe.u32 %half, %thread, 4, 1;"""
    for piece in range(0, 8, 2):
        packed = "".join(f"""
  cvt.rn.bf16x2.f32 %v{i}, %d{4 * piece + 2 * i + 1}, %d{4 * piece + 2 * i};"""
                         for i in range(4))
        text += packed + f"""
  add.s32 %at, %half, {piece};
  xor.b32 %at, %at, %swizzle;
  shl.b32 %at, %at, 4;
  add.s32 %at, %at, %row;
  stmatrix.sync.aligned.m8n8.x4.shared.b16 [%at+{OUT}], {{%v0, %v1, %v2, %v3}};"""
    return text + unless("fence.proxy.async", "\n  fence.proxy.async.shared::cta;") + \
        unless("barrier before store", "\n  bar.sync 1, 128;") + f"""
  setp.ne.b32 %p, %thread, 0;
  @%p bra $end;
  mov.b64 %map, partitions_param_2;
  cvta.param.u64 %map, %map;
  add.s32 %at, %tile, {OUT};
  cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%map, {{%zero, %zero, %head}}], [%at];
  cp.async.bulk.commit_group;""" + unless("wait for store", "\n  cp.async.bulk.wait_group.read 0;")


def partitions(mistake=None):
    """out[h] = Σ over chunks c of A[c, h] · B[c, h] transposed: a warpgroup that multiplies,
    and one that leaves its registers to that, and of which a warp loads. A block for each h."""
    def unless(name, text, otherwise=""):
        return otherwise if mistake == name else text

    parity = unless("wrong parity", "%parity", "%other")
    loads = "".join(f"""
  mov.b64 %map, partitions_param_{i};
  cvta.param.u64 %map, %map;
  add.s32 %to, %stage, {i * TILE};
  cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%to], [%map, {{%zero, %head, %row, %zero}}], [%full];"""
                    for i in range(2))
    expected = unless("expects too little", 2 * TILE, 2 * TILE - 16)
    init = "".join(f"""
  mbarrier.init.shared::cta.b64 [%tile+{FULL + 8 * s}], 1;
  mbarrier.init.shared::cta.b64 [%tile+{EMPTY + 8 * s}], {unless("arrival of one warp", 4, 1)};"""
                   for s in range(STAGES))
    next_chunk = f"""
  and.b32 %stage, %chunk, 1;
  shl.b32 %to, %stage, 3;
  add.s32 %full, %tile, %to;
  add.s32 %empty, %full, {EMPTY};
  add.s32 %full, %full, {FULL};
  shl.b32 %stage, %stage, 14;
  add.s32 %stage, %stage, %tile;
  bfe.u32 %parity, %chunk, 1, 1;
  xor.b32 %other, %parity, 1;"""
    first = unless("arrival of one warp", "and.b32 %at, %thread, 31;", "mov.b32 %at, %thread;")
    zeros = "".join(f"\n  mov.f32 %d{i}, 0f00000000;" for i in range(32))
    return HEADER + f"""
.visible .entry partitions(
  .param .align 64 .b8 partitions_param_0[128],
  .param .align 64 .b8 partitions_param_1[128],
  .param .align 64 .b8 partitions_param_2[128],
  .param .u32 partitions_param_3
)
.reqntid 256
.maxnreg 168
{{
  .reg .pred %p, %first, %leads;
  .reg .b32 %thread, %tile, %stage, %full, %empty, %parity, %other, %chunk, %chunks, %row, %head;
  .reg .b32 %to, %at, %zero, %half, %swizzle, %lead, %v<4>;
  .reg .f32 %d<32>;
  .reg .b64 %map, %desca, %descb;
  .shared .align 1024 .b8 memory[{SHARED}];
  mov.u32 %thread, %tid.x;
  mov.u32 %head, %ctaid.x;
  mov.u32 %tile, memory;
  mov.u32 %zero, 0;
  mov.u32 %chunk, 0;
  ld.param.u32 %chunks, [partitions_param_3];
  setp.ne.b32 %p, %thread, 0;
  @%p bra $initialized;{init}
{unless("fence.mbarrier_init", "  fence.mbarrier_init.release.cluster;")}
$initialized:
{unless("barrier after init", "  barrier.sync 0;")}
  setp.ge.u32 %p, %thread, 128;
  @%p bra $loader;
  setmaxnreg.inc.sync.aligned.u32 232;
  {first}
  setp.eq.b32 %first, %at, 0;{zeros}
$multiply:{next_chunk}{unless("wait for full", wait("%full", parity))}{products(unless)}
{unless("arrival at empty", "  @%first mbarrier.arrive.shared::cta.b64 _, [%empty];")}
  add.s32 %chunk, %chunk, 1;
  setp.lt.u32 %p, %chunk, %chunks;
  @%p bra $multiply;{store_result(unless)}
  bra $end;
$loader:
{unless("setmaxnreg.dec", "  setmaxnreg.dec.sync.aligned.u32 40;")}
  setp.ge.u32 %p, %thread, 160;
  @%p bra $end;
  elect.sync %lead|%leads, -1;
  @!%leads bra $end;
$load:{next_chunk}{unless("wait for empty", wait("%empty", "%other"))}
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {expected};
  shl.b32 %row, %chunk, 6;{loads}
  add.s32 %chunk, %chunk, 1;
  setp.lt.u32 %p, %chunk, %chunks;
  @%p bra $load;
$end:
  ret;
}}
"""


def reports(mistake=None):
    """Turns 128 × 16 bytes around. Each thread's copy reports to an mbarrier, and copies of
    whole rows bring the numbers to be added and take the sums away."""
    def unless(name, text):
        return "" if mistake == name else text

    return HEADER + f"""
.visible .entry reports(.param .u64 reports_param_0, .param .u64 reports_param_1,
  .param .u64 reports_param_2)
.reqntid 128
{{
  .reg .pred %p;
  .reg .b32 %thread, %tile, %to, %at, %a<4>, %b<4>;
  .reg .b64 %from, %offset, %state;
  .shared .align 128 .b8 memory[6160];
  mov.u32 %thread, %tid.x;
  mov.u32 %tile, memory;
  setp.ne.b32 %p, %thread, 0;
  @%p bra $initialized;
  mbarrier.init.shared.b64 [%tile+6144], 129;
  fence.mbarrier_init.release.cluster;
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%tile+6144], 2048;
  ld.param.u64 %from, [reports_param_1];
  add.s32 %to, %tile, 2048;
  add.s32 %at, %tile, 6144;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%to], [%from], 2048, [%at];
$initialized:
  bar.sync 0;
  ld.param.u64 %from, [reports_param_0];
  mul.wide.u32 %offset, %thread, 16;
  add.s64 %from, %from, %offset;
  shl.b32 %to, %thread, 4;
  add.s32 %to, %to, %tile;
  cp.async.cg.shared.global [%to], [%from], 16;
  add.s32 %at, %tile, 6144;
  cp.async.mbarrier.arrive.noinc.shared.b64 [%at];
  @!%p mbarrier.arrive.shared.b64 %state, [%at];
{unless("wait", wait("%at", 0))}
  sub.s32 %at, 127, %thread;
  shl.b32 %at, %at, 4;
  add.s32 %at, %at, %tile;
  ld.shared.v4.b32 {{%a0, %a1, %a2, %a3}}, [%at];
  ld.shared.v4.b32 {{%b0, %b1, %b2, %b3}}, [%to+2048];
  add.s32 %a0, %a0, %b0;
  add.s32 %a1, %a1, %b1;
  add.s32 %a2, %a2, %b2;
  add.s32 %a3, %a3, %b3;
  st.shared.v4.b32 [%to+4096], {{%a0, %a1, %a2, %a3}};
  fence.proxy.async.shared::cta;
  // Warp 0 stores when the others have arrived; they need not wait.
  setp.ge.u32 %p, %thread, 32;
  @%p bra $arrive;
{unless("named barrier", "  bar.sync 2, 128;")}
  setp.ne.b32 %p, %thread, 0;
  @%p bra $end;
  ld.param.u64 %from, [reports_param_2];
  add.s32 %at, %tile, 4096;
  cp.async.bulk.global.shared::cta.bulk_group [%from], [%at], 2048;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  bra $end;
$arrive:
{unless("named barrier", "  bar.arrive 2, 128;")}
$end:
  ret;
}}
"""
