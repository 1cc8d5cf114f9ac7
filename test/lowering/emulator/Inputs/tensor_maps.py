"""Tensor maps: which the driver takes, and where boxes of them come to lie.

EJK_CUDA_DRIVER names the driver: the emulator, or one of a GPU, which agree.
"""
import ctypes
import itertools
import os
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.realpath(__file__)))

import driver as cuda  # noqa: E402
from partition_kernels import HEADER, wait  # noqa: E402

BYTES = 16384  # of shared memory that is watched

GOOD = dict(sizes=(64, 4, 300), strides=(128, 512), box=(64, 1, 64))
# What is changed, and whether the driver still takes it.
MAPS = [
    ({}, True),
    (dict(address=8), False),
    (dict(address=16), True),
    (dict(sizes=(0, 4, 300)), False),
    (dict(sizes=(1 << 32, 4, 300)), True),
    (dict(sizes=((1 << 32) + 1, 4, 300)), False),
    (dict(strides=(136, 512)), False),
    (dict(strides=(512, 128)), True),
    (dict(strides=(128, 1 << 40)), False),
    (dict(strides=(0, 512)), True),
    (dict(box=(64, 1, 256)), True),
    (dict(box=(64, 1, 257)), False),
    (dict(box=(64, 0, 64)), False),
    (dict(box=(72, 1, 64)), False),
    (dict(box=(72, 1, 64), swizzle=0), True),
    (dict(box=(32, 1, 64)), True),
    (dict(box=(4, 1, 64)), False),
    (dict(box=(32, 1, 64), swizzle=2), True),
    (dict(box=(64, 1, 64), swizzle=2), False),
    (dict(box=(16, 1, 64), swizzle=1), True),
    (dict(box=(32, 1, 64), swizzle=1), False),
    (dict(box=(128, 1, 64), swizzle=0), True),
    (dict(box=(256, 227, 2), swizzle=0), True),
    (dict(box=(256, 232, 2), swizzle=0), False),
    (dict(box=(32, 1, 64), kind=7), True),
    (dict(box=(64, 1, 64), kind=7), False),
    (dict(kind=20), False),
    (dict(swizzle=9), False),
    (dict(sizes=(64,), strides=(), box=(64,)), True),
    (dict(sizes=(8,) * 6, strides=(16,) * 5, box=(8,) * 6), False),
]

# Columns of a box of 16-bit numbers, its swizzle, where it starts in shared memory, and
# the coordinates it starts at, of a tensor [5, 40, 70] with room for 72.
BOXES = [
    *itertools.product([64], [3], [0, 1024, 128, 512], [(0, 0, 0)]),
    *itertools.product([32], [2], [0, 128, 256], [(8, 1, 2)]),
    *itertools.product([16], [1], [0, 128], [(8, 3, 2)]),
    *itertools.product([64, 8, 72], [0], [0, 128], [(0, 3, 1)]),
    *itertools.product([64], [3], [0], [(16, 30, 3), (-8, -3, -1), (64, 38, 4), (72, 0, 0),
                                         (-64, 0, 0)]),
    # Rows are as far apart as the swizzle is wide.
    *itertools.product([32, 8], [3], [0, 512], [(0, 0, 0)]),
    *itertools.product([16], [2], [0, 256], [(0, 0, 0)]),
]
# Where no box can start, in shared memory or in the tensor.
MISALIGNED = [(64, 3, 64, (0, 0, 0)), (64, 3, 0, (3, 0, 0))]
COLUMNS = 70
ROWS = (16, 2)  # of a box, in the outer dimensions


def takes(driver, sizes, strides, box, address=0, **options):
    pointer = ctypes.c_uint64(driver.base + address)
    try:
        cuda.tensor_map(driver, pointer, sizes, strides, box, **options)
        return True
    except cuda.DriverError:
        return False


def kernel():
    """Shared memory is all ones; a box is loaded there; and all of it is written out."""
    return HEADER + f"""
.visible .entry box(.param .align 64 .b8 box_param_0[128], .param .u32 box_param_1,
  .param .u32 box_param_2, .param .u32 box_param_3, .param .u32 box_param_4,
  .param .u32 box_param_5, .param .u64 box_param_6)
.reqntid 128
{{
  .reg .pred %p;
  .reg .b32 %thread, %tile, %to, %bar, %i, %bytes, %c<3>, %v<4>;
  .reg .b64 %map, %out, %at;
  .shared .align 1024 .b8 memory[{BYTES + 8}];
  mov.u32 %thread, %tid.x;
  mov.u32 %tile, memory;
  add.s32 %bar, %tile, {BYTES};
  ld.param.u64 %out, [box_param_6];
  shl.b32 %i, %thread, 4;
  mov.u32 %v0, -1;
$fill:
  add.s32 %to, %tile, %i;
  st.shared.v4.b32 [%to], {{%v0, %v0, %v0, %v0}};
  add.s32 %i, %i, 2048;
  setp.lt.u32 %p, %i, {BYTES};
  @%p bra $fill;
  fence.proxy.async;
  setp.ne.b32 %p, %thread, 0;
  @%p bra $filled;
  mbarrier.init.shared.b64 [%bar], 1;
  fence.mbarrier_init.release.cluster;
$filled:
  bar.sync 0;
  @%p bra $loaded;
  ld.param.u32 %bytes, [box_param_1];
  ld.param.u32 %to, [box_param_2];
  ld.param.u32 %c0, [box_param_3];
  ld.param.u32 %c1, [box_param_4];
  ld.param.u32 %c2, [box_param_5];
  add.s32 %to, %to, %tile;
  mov.b64 %map, box_param_0;
  cvta.param.u64 %map, %map;
  prefetch.tensormap [%map];
  mbarrier.arrive.expect_tx.shared.b64 _, [%bar], %bytes;
  cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%to], [%map, {{%c0, %c1, %c2}}], [%bar];
$loaded:{wait("%bar", 0)}
  shl.b32 %i, %thread, 4;
$out:
  add.s32 %to, %tile, %i;
  ld.shared.v4.b32 {{%v0, %v1, %v2, %v3}}, [%to];
  cvt.u64.u32 %at, %i;
  add.s64 %at, %at, %out;
  st.global.v4.b32 [%at], {{%v0, %v1, %v2, %v3}};
  add.s32 %i, %i, 2048;
  setp.lt.u32 %p, %i, {BYTES};
  @%p bra $out;
  ret;
}}
"""


def expected(tensor, columns, swizzle, start, at):
    """Shared memory as pieces of 16 bytes."""
    pieces = np.full((BYTES // 16, 8), 0xffff, np.uint16)
    width = 1 << swizzle
    pitch = 8 * width if swizzle else columns
    shape = (*tensor.shape[:2], COLUMNS)
    for row in range(ROWS[0] * ROWS[1]):
        for column in range(columns):
            place = (at[2] + row // ROWS[0], at[1] + row % ROWS[0], at[0] + column)
            inside = all(0 <= p < size for p, size in zip(place, shape))
            piece = start // 16 + (row * pitch + column) // 8
            piece ^= piece // 8 % 8 & width - 1
            pieces[piece, column % 8] = tensor[place] if inside else 0
    return pieces


def box_is_right(driver, tensor, columns, swizzle, start, at):
    pointer = driver.upload(tensor)
    layers, rows, pitch = tensor.shape
    tensor_map = cuda.tensor_map(driver, pointer, (COLUMNS, rows, layers),
                                 (2 * pitch, 2 * pitch * rows), (columns, *ROWS), swizzle)
    values = [columns * ROWS[0] * ROWS[1] * 2, start, *at]
    result = cuda.run(driver, kernel(), "box", 128,
                      [tensor_map, *(ctypes.c_int32(v) for v in values)],
                      np.zeros((BYTES // 16, 8), np.uint16))
    return np.array_equal(result, expected(tensor, columns, swizzle, start, at))


def main():
    driver = cuda.Driver()
    driver.base = driver.upload(np.zeros(1 << 20, np.uint8)).value
    failed = 0
    for change, good in MAPS:
        if takes(driver, **{**GOOD, **change}) != good:
            failed += 1
            print("FAIL", change, "is refused" if good else "is taken")
    tensor = np.arange(1, 5 * 40 * 72 + 1).astype(np.uint16).reshape(5, 40, 72)
    for case in BOXES:
        try:
            right = box_is_right(driver, tensor, *case)
        except cuda.DriverError as error:
            right = print(error)
        if not right:
            failed += 1
            print("FAIL", *case)
    for case in MISALIGNED:
        try:
            box_is_right(driver, tensor, *case)
            failed += 1
            print("FAIL", *case, "is taken")
        except cuda.DriverError as error:
            print(error)
    print(f"{len(MAPS)} tensor maps and {len(BOXES)} boxes, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
