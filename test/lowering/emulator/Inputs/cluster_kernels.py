"""Kernels whose blocks run in clusters, as PTX."""

HEADER = """
.version 8.0
.target sm_90a
.address_size 64
"""

# Shared memory of `ring`: two stages of a tile, mbarriers. A block brings a slice of each tile.
STAGES, SLICE = 2, 4 * 64 * 2
ROWS = 4  # of a slice

# What can be left out or changed, each a mistake.
RING_MISTAKES = (
    "barrier at the end", "release of peers", "scope of release", "scope of wait", "wait for empty",
    "barrier at the start", "fence.mbarrier_init", "mbarriers of block 1", "arrivals of block 1",
    "mask lacks block 1", "mask of too many", "rank of too many", "arrival at the barrier",
    "arrives twice", "wait at the barrier", "arrives as at its own", "last read")
SIGNAL_MISTAKES = ("barrier at the start", "mbarrier of block 1", "release", "arrival of block 1",
                   "count of block 1", "scope of wait", "barrier at the end")
EXCHANGE_MISTAKES = ("barrier at the start", "barrier between", "barrier at the end")


def wait(address, parity, scope=".acquire.cluster", operation="try_wait"):
    """As inline assembly: braces with names of their own."""
    return f"""
  {{
  .reg .pred P1;
  LAB_WAIT:
  mbarrier.{operation}.parity{scope}.shared::cta.b64 P1, [{address}], {parity};
  @P1 bra.uni DONE;
  bra.uni LAB_WAIT;
  DONE:
  }}"""


def ring(blocks, mistake=None):
    """out[b, t] = Σ over rows r of 3^(rows after r) · A[r, cluster, t] · (rank + 1), modulo 2^32. Each
    block of a cluster loads a slice of each tile for all of them. Warps 0 and 1 read, warp 2 loads,
    and warp 3 ends at once."""
    def unless(name, text, otherwise=""):
        return otherwise if mistake == name else text

    full, empty = STAGES * blocks * SLICE, STAGES * blocks * SLICE + 8 * STAGES
    readers = unless("release of peers", 2 * blocks, 2)
    init = "".join(f"""
  mbarrier.init.shared::cta.b64 [%tile+{full + 8 * s}], 1;
  mbarrier.init.shared::cta.b64 [%tile+{empty + 8 * s}], {readers};""" for s in range(STAGES))
    next_tile = f"""
  and.b32 %stage, %step, 1;
  shl.b32 %at, %stage, 3;
  add.s32 %full, %tile, %at;
  add.s32 %empty, %full, {empty};
  add.s32 %full, %full, {full};
  mul.lo.s32 %stage, %stage, {blocks * SLICE};
  add.s32 %stage, %stage, %tile;
  bfe.u32 %parity, %step, 1, 1;
  xor.b32 %other, %parity, 1;"""
    scope = unless("scope of wait", ".acquire.cluster")
    # A lane for each block of the cluster tells it that the warp has read.
    to = unless("release of peers", "%lane", "%rank")
    release = unless("scope of release", ".release.cluster")
    read = "".join(f"""
  ld.shared.u16 %word, [%at+{128 * row}];
  mul.lo.s32 %sum, %sum, 3;
  mul.lo.s32 %word, %word, %factor;
  add.s32 %sum, %sum, %word;""" for row in range(ROWS * blocks))
    skip = "\n  setp.eq.u32 %p, %rank, 1;\n  @%p bra {};"
    mask = unless("mask lacks block 1", unless("mask of too many", (1 << blocks) - 1, 1 << blocks),
                  (1 << blocks) - 3)
    return HEADER + f"""
.visible .entry ring(.param .align 64 .b8 ring_param_0[128], .param .u32 ring_param_1,
  .param .u64 ring_param_2)
.reqntid 128
.explicitcluster
.reqnctapercluster {blocks}{", 1, 1" if blocks == 4 else ""}
{{
  .reg .pred %p, %reads, %leads;
  .reg .b16 %mask;
  .reg .b32 %thread, %lane, %tile, %stage, %full, %empty, %parity, %other, %step, %steps, %at;
  .reg .b32 %rank, %cluster, %row, %zero, %sum, %word, %factor, %remote, %elected;
  .reg .b64 %map, %out, %offset;
  .shared .align 1024 .b8 memory[{empty + 8 * STAGES}];
  mov.u32 %thread, %tid.x;
  setp.ge.u32 %p, %thread, 96;
  @%p bra $exit;
  mov.u32 %rank, %cluster_ctarank;
  mov.u32 %lane, %laneid;
  mov.u32 %cluster, %ctaid.x;
  mov.u32 %at, %cluster_nctarank;
  div.u32 %cluster, %cluster, %at;
  mov.u32 %tile, memory;
  mov.u32 %zero, 0;
  mov.u32 %step, 0;
  mov.u32 %sum, 0;
  ld.param.u32 %steps, [ring_param_1];
  setp.ne.b32 %p, %thread, 0;
  @%p bra $initialized;{unless("mbarriers of block 1", "", skip.format("$initialized"))}{init}
{unless("fence.mbarrier_init", "  fence.mbarrier_init.release.cluster;")}
$initialized:
{unless("barrier at the start", '''  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;''', "  bar.sync 0, 96;")}
  setp.ge.u32 %p, %thread, 64;
  @%p bra $loader;
  setp.lt.u32 %reads, %lane, {unless("release of peers", blocks, 1)};
  add.s32 %factor, %rank, 1;
{unless("last read", "", "  sub.s32 %steps, %steps, 1;")}
$read:{next_tile}{wait("%full", "%parity", scope)}
  shl.b32 %at, %thread, 1;
  add.s32 %at, %at, %stage;{read}
  bar.warp.sync -1;{unless("arrivals of block 1", "", skip.format("$released"))}
  @!%reads bra $released;
  mapa.shared::cluster.u32 %remote, %empty, {unless("rank of too many", to, blocks)};
  mbarrier.arrive{release}.shared::c{unless("arrives as at its own", "luster", "ta")}.b64 _, [%remote];
$released:
  add.s32 %step, %step, 1;
  setp.lt.u32 %p, %step, %steps;
  @%p bra $read;
  mov.u32 %at, %ctaid.x;
  mad.lo.u32 %at, %at, 64, %thread;
  ld.param.u64 %out, [ring_param_2];
  mul.wide.u32 %offset, %at, 4;
  add.s64 %out, %out, %offset;
  st.global.b32 [%out], %sum;
  bra $end;
$loader:
  elect.sync %elected|%leads, -1;
  @!%leads bra $end;
  mov.b64 %map, ring_param_0;
  cvta.param.u64 %map, %map;
  mov.b16 %mask, {mask};
$load:{next_tile}{unless("wait for empty", wait("%empty", "%other", scope, "test_wait"))}
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {blocks * SLICE};
  mad.lo.u32 %row, %step, {blocks}, %rank;
  mul.lo.u32 %row, %row, {ROWS};
  mad.lo.u32 %at, %rank, {SLICE}, %stage;
  cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%at], [%map, {{%zero, %cluster, %row, %zero}}], [%full], %mask;
  add.s32 %step, %step, 1;
  setp.lt.u32 %p, %step, %steps;
  @%p bra $load;
$end:
{unless("barrier at the end",
        unless("arrival at the barrier", "  barrier.cluster.arrive.release;") +
        unless("arrives twice", "", "  barrier.cluster.arrive.release;") +
        unless("wait at the barrier", "  barrier.cluster.wait.acquire;"))}
$exit:
  ret;
}}
"""


def stores(kernel):
    """The end of a kernel of 64 threads that gives out[b, t] = a."""
    return f"""  mad.lo.u32 %at, %block, 64, %thread;
  ld.param.u64 %out, [{kernel}_param_0];
  mul.wide.u32 %offset, %at, 4;
  add.s64 %out, %out, %offset;
  st.global.b32 [%out], %a;
  ret;"""


def signal(blocks, mistake=None):
    """out[b, t] = thread t of b's neighbour in the cluster. Blocks tell each other by mbarriers what
    they have written; to itself each tells it by an address of its own window."""
    def unless(name, text, otherwise=""):
        return otherwise if mistake == name else text

    skip = "  setp.eq.u32 %p, %rank, 1;\n  @%p bra {};"
    barrier = "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;"
    return HEADER + f"""
.visible .entry signal(.param .u64 signal_param_0)
.reqntid 64
.reqnctapercluster {blocks}
{{
  .reg .pred %p;
  .reg .b32 %thread, %rank, %next, %at, %to, %a, %block;
  .reg .b64 %out, %offset;
  .shared .align 16 .b8 memory[264];
  mov.u32 %thread, %tid.x;
  mov.u32 %rank, %cluster_ctarank;
  mov.u32 %block, %ctaid.x;
  mov.u32 %at, memory;
  setp.ne.b32 %p, %thread, 0;
  @%p bra $initialized;
{unless("mbarrier of block 1", "", skip.format("$initialized"))}
  {unless("count of block 1", f"mov.u32 %a, {64 * blocks}", f"add.u32 %a, %rank, {64 * blocks}")};
  mbarrier.init.shared::cta.b64 [%at+256], %a;
$initialized:
{unless("barrier at the start", barrier, "  bar.sync 0;")}
  mad.lo.u32 %a, %block, 64, %thread;
  mad.lo.u32 %to, %thread, 4, %at;
  st.shared.b32 [%to], %a;
  mov.u32 %next, 0;
{unless("arrival of block 1", "", skip.format("$arrived"))}
$arrive:
  mapa.shared::cluster.u32 %to, %at, %next;
  setp.eq.u32 %p, %next, %rank;
  @%p mov.u32 %to, %at;
  mbarrier.arrive{unless("release", ".release", ".relaxed")}.cluster.shared::cluster.b64 _, [%to+256];
  add.s32 %next, %next, 1;
  setp.lt.u32 %p, %next, {blocks};
  @%p bra $arrive;
$arrived:
  add.s32 %to, %at, 256;{wait("%to", 0, unless("scope of wait", ".acquire.cluster"))}
  add.s32 %next, %rank, 1;
  and.b32 %next, %next, {blocks - 1};
  mapa.shared::cluster.u32 %to, %at, %next;
  mad.lo.u32 %to, %thread, 4, %to;
  ld.shared::cluster.b32 %a, [%to];
{unless("barrier at the end", barrier)}
{stores("signal")}
}}
"""


def exchange(blocks, mistake=None):
    """out[b, t] = thread t of b's neighbour in the cluster, plus what block 0 of the cluster has."""
    def unless(name):
        return "" if mistake == name else "  barrier.cluster.arrive;\n  barrier.cluster.wait;"

    return HEADER + f"""
.visible .entry exchange(.param .u64 exchange_param_0)
.reqntid 64
.reqnctapercluster {blocks}
{{
  .reg .b32 %thread, %rank, %next, %at, %to, %a, %b, %block;
  .reg .b64 %out, %offset;
  .shared .align 16 .b8 memory[256];
  mov.u32 %thread, %tid.x;
  mov.u32 %rank, %cluster_ctarank;
  mov.u32 %block, %ctaid.x;
{unless("barrier at the start")}
  add.s32 %next, %rank, 1;
  and.b32 %next, %next, {blocks - 1};
  mov.u32 %at, memory;
  shl.b32 %to, %thread, 2;
  add.s32 %at, %at, %to;
  mapa.shared::cluster.u32 %to, %at, %next;
  mad.lo.u32 %a, %block, 64, %thread;
  st.shared::cluster.b32 [%to], %a;
{unless("barrier between")}
  mapa.shared::cluster.u32 %to, %at, 0;
  ld.shared::cluster.b32 %a, [%at];
  ld.shared::cluster.b32 %b, [%to];
  add.s32 %a, %a, %b;
{unless("barrier at the end")}
{stores("exchange")}
}}
"""


def turns(blocks, mistake=None):
    """Each block adds its number to out[0], after the one before it. out[1] says whose turn it is."""
    del mistake
    return HEADER + f"""
.visible .entry turns(.param .u64 turns_param_0)
.reqntid 32
.reqnctapercluster {blocks}
{{
  .reg .pred %p;
  .reg .b32 %thread, %block, %turn;
  .reg .f32 %term;
  .reg .b64 %out;
  barrier.cluster.arrive.aligned;
  mov.u32 %thread, %tid.x;
  mov.u32 %block, %ctaid.x;
  cvt.rn.f32.u32 %term, %block;
  ld.param.u64 %out, [turns_param_0];
  setp.ne.b32 %p, %thread, 0;
  @%p bra $end;
$wait:
  ld.acquire.gpu.global.b32 %turn, [%out+4];
  setp.ne.b32 %p, %turn, %block;
  @%p bra $wait;
  setp.ne.b32 %p, %block, 0;
  @%p bra $add;
  st.global.b32 [%out], %term;
  bra $next;
$add:
  red.relaxed.gpu.global.add.f32 [%out], %term;
$next:
  add.s32 %turn, %turn, 1;
  st.release.gpu.global.b32 [%out+4], %turn;
$end:
  barrier.cluster.wait.aligned;
  ret;
}}
"""
