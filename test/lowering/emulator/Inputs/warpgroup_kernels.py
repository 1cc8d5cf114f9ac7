"""Kernels of one warpgroup that multiply A [64, K] by B [N, K] transposed, as PTX, and
the images in shared memory of their operands."""
import numpy as np

K = 64
STEPS = {"bf16": 16, "f16": 16, "tf32": 8}  # the numbers along K that one instruction takes, in 32 bytes
SWIZZLES = {16: 0, 128: 1, 64: 2, 32: 3}  # bytes of a box's row: the descriptor's mode


def image(matrix, pitch):
    """Boxes of all rows and `pitch` bytes of columns, one after the other; of a row's
    pieces of 16 bytes each lies where the swizzle of that many bytes puts it."""
    rows, columns = matrix.shape
    width, boxes = pitch // 16, columns * 2 // pitch
    pieces = matrix.reshape(rows, boxes, width, 8).transpose(1, 0, 2, 3)
    result = np.empty_like(pieces)
    for row in range(rows):
        for piece in range(width):
            result[:, row, piece ^ (row // (8 // width) % width)] = pieces[:, row, piece]
    return result.reshape(-1)


class Operand:
    """An operand [extent, K] in shared memory, K-major or MN-major, and its descriptors."""

    def __init__(self, matrix, is_k_major, pitch, start):
        self.start, self.is_k_major, self.pitch = start, is_k_major, pitch
        self.image = image(matrix if is_k_major else np.ascontiguousarray(matrix.T), pitch)
        rows = len(matrix) if is_k_major else K
        self.box = rows * pitch
        self.bytes = self.image.size * 2

    def descriptor(self, step):
        """Without the start address, and what is to be added to that for one step."""
        lines, width = 8 * self.pitch, self.pitch // 16
        if self.is_k_major:
            leading, stride = self.box, lines
            offset = 2 * step // width * self.box + 2 * step % width * 16
        else:
            leading, stride = (self.box, lines) if width > 1 else (lines, self.box)
            offset = step * 16 * self.pitch
        bits = leading // 16 << 16 | stride // 16 << 32 | SWIZZLES[self.pitch] << 62
        return bits, self.start + offset


def fragment(kind, step):
    """Loads a lane's part of A, whose rows are in global memory, into %a0 to %a3."""
    along = STEPS[kind]
    return "".join(f"""
  ld.global.b32 %a{i}, [%arow+{(i % 2 * 8 * K + along * step + i // 2 * along // 2) * 32 // along}];"""
                   for i in range(4))


def copy_in(parameter, operand):
    """128 threads copy an image to where it belongs, 16 bytes at a time."""
    assert operand.bytes % 16 == 0
    return f"""
  ld.param.u64 %from, [gemm_param_{parameter}];
  mov.b32 %i, %tid.x;
$copy{parameter}:
  mul.wide.u32 %at, %i, 16;
  add.s64 %at, %from, %at;
  ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%at];
  shl.b32 %to, %i, 4;
  add.s32 %to, %to, %tile;
  st.shared.v4.b32 [%to+{operand.start}], {{%v0, %v1, %v2, %v3}};
  add.s32 %i, %i, 128;
  setp.lt.u32 %more, %i, {operand.bytes // 16};
  @%more bra $copy{parameter};"""


def descriptor(name, operand, step):
    bits, offset = operand.descriptor(step)
    return f"""
  add.s32 %to, %tile, {offset};
  shr.u32 %to, %to, 4;
  cvt.u64.u32 %{name}, %to;
  or.b64 %{name}, %{name}, {bits};"""


def product(kind, columns, a, b, step, signs):
    """One wgmma as LLVM prints it, in braces with a predicate of their own."""
    accumulators = ", ".join(f"%d{i}" for i in range(columns // 2))
    flags = ([] if a is None else [0 if a.is_k_major else 1]) + [0 if b.is_k_major else 1]
    given = [*signs, *([] if kind == "tf32" else flags)]
    left = "{%a0, %a1, %a2, %a3}" if a is None else "%desca"
    return f"""
  // begin inline asm
  {{
.reg .pred p;
setp.ne.b32 p, {1 if step else 0}, 0;
wgmma.mma_async.sync.aligned.m64n{columns}k{STEPS[kind]}.f32.{kind}.{kind} {{{accumulators}}}, {left}, %descb, p, {",  ".join(map(str, given))};
}}

  // end inline asm"""


# What can be left out or put in, each a mistake.
MISTAKES = ("fence.proxy.async", "barrier", "wgmma.fence", "fence after A", "wait",
            "overwrites in flight", "overwrites without barrier", "reads early",
            "writes A in flight", "accumulates into A", "one warp stays away",
            "fence.proxy.async after barrier")


def gemm(kind, columns, a, b, signs=(1, 1), mistake=None):
    """`a` is None where A comes from registers."""
    def unless(name, text):
        return "" if mistake == name else text

    def where(name, text):
        return text if mistake == name else ""

    steps = K // STEPS[kind]
    fence = "\n  fence.proxy.async.shared::cta;"
    body = ("" if a is None else copy_in(0, a)) + copy_in(1, b)
    late = mistake == "fence.proxy.async after barrier"
    body += unless("fence.proxy.async", "" if late else fence) + \
        unless("barrier", "\n  bar.sync 0;") + (fence if late else "")
    overwrite = "\n  st.shared.b32 [%tile], 0;"
    for step in range(steps):
        body += where("one warp stays away", "\n  @%first bra $out;" if step == 1 else "")
        if a is None:
            body += fragment(kind, step)
        else:
            body += descriptor("desca", a, step)
        body += descriptor("descb", b, step)
        if step == 0:
            body += unless("wgmma.fence", "\n  wgmma.fence.sync.aligned;")
        elif a is None:
            body += unless("fence after A", "\n  wgmma.fence.sync.aligned;")
        body += product(kind, columns, a, b, step, signs)
        if step == steps - 1 or a is None:
            body += "\n  wgmma.commit_group.sync.aligned;"
        if step == steps - 1:
            body += where("overwrites in flight", overwrite)
            body += where("reads early", "\n  add.f32 %early, %d0, %d1;")
            body += where("writes A in flight", "\n  mov.b32 %a2, 0;")
            body += where("accumulates into A",
                          product(kind, columns, a, b, step, signs).replace("%d0,", "%a2,", 1))
        if step == steps - 1 or a is None:
            body += unless("wait", "\n  wgmma.wait_group.sync.aligned 0;")
    body += where("overwrites without barrier", "\n  @%first " + overwrite.strip())
    for i in range(columns // 2):
        place = ((i // 2 % 2 * 8) * columns + i // 4 * 8 + i % 2) * 4
        body += f"\n  st.global.b32 [%out+{place}], %d{i};"
    shared = (0 if a is None else a.bytes) + b.bytes
    return f"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry gemm(
  .param .u64 gemm_param_0, .param .u64 gemm_param_1,
  .param .u64 gemm_param_2
)
.reqntid 128
{{
  .reg .pred %more, %first;
  .reg .b32 %i, %to, %tile, %row, %pair, %v<4>, %a<4>, %early;
  .reg .b32 %d<{columns // 2}>;
  .reg .b64 %from, %at, %arow, %out, %desca, %descb;
  .shared .align 1024 .b8 tiles[{shared}];
  mov.b32 %tile, tiles;
  mov.b32 %i, %tid.x;
  setp.lt.u32 %first, %i, 32;
  // Warp w has rows 16w to 16w+15, lane 4g+t of them g and g+8, there columns 2t and 2t+1.
  shr.u32 %row, %i, 5;
  shl.b32 %row, %row, 4;
  bfe.u32 %to, %i, 2, 3;
  add.s32 %row, %row, %to;
  and.b32 %pair, %i, 3;
  mad.lo.s32 %to, %row, {columns}, %pair;
  add.s32 %to, %to, %pair;
  ld.param.u64 %out, [gemm_param_2];
  mul.wide.u32 %at, %to, 4;
  add.s64 %out, %out, %at;
  mad.lo.s32 %to, %row, {K * 8 // STEPS[kind]}, %pair;
  ld.param.u64 %arow, [gemm_param_0];
  mul.wide.u32 %at, %to, 4;
  add.s64 %arow, %arow, %at;{body}
$out:
  ret;
}}
"""
