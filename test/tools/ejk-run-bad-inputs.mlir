// Each kind of bad input, by what it is called, what was expected and what was
// given; before anything runs.
// RUN: %python %S/Inputs/write-packed.py %t.rank.safetensors q=6x4x4
// RUN: not ejk-run %s --device=interpreter --inputs=%t.rank.safetensors 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: %python %S/Inputs/write-packed.py %t.size.safetensors v=1x5x2x4
// RUN: not ejk-run %s --device=interpreter --inputs=%t.size.safetensors 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: %python %S/Inputs/write-packed.py %t.channels.safetensors k=1x6x2x5
// RUN: not ejk-run %s --device=interpreter --inputs=%t.channels.safetensors 2>&1 | FileCheck %s --check-prefix=CHANNELS
// RUN: %python %S/Inputs/write-packed.py %t.heads.safetensors k=1x6x3x4 v=1x6x3x4
// RUN: not ejk-run %s --device=interpreter --inputs=%t.heads.safetensors 2>&1 | FileCheck %s --check-prefix=HEADS
// RUN: %python %S/Inputs/write-packed.py %t.type.safetensors q=1x6x4x4:F16
// RUN: not ejk-run %s --device=interpreter --inputs=%t.type.safetensors 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: %python %S/Inputs/write-packed.py %t.missing.safetensors v=
// RUN: not ejk-run %s --device=interpreter --inputs=%t.missing.safetensors 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: %python %S/Inputs/write-packed.py %t.batch.safetensors q=2x6x4x4 k=2x6x2x4 v=2x6x2x4
// RUN: not ejk-run %s --device=interpreter --inputs=%t.batch.safetensors 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: %python %S/Inputs/write-packed.py %t.states.safetensors h0=3x4x4x4
// RUN: not ejk-run %s --device=interpreter --inputs=%t.states.safetensors 2>&1 | FileCheck %s --check-prefix=STATES
// RUN: %python %S/Inputs/write-packed.py %t.first.safetensors cu_seqlens=1,2,6
// RUN: not ejk-run %s --device=interpreter --inputs=%t.first.safetensors 2>&1 | FileCheck %s --check-prefix=FIRST
// RUN: %python %S/Inputs/write-packed.py %t.decrease.safetensors cu_seqlens=0,4,2,6 h0=3x4x4x4
// RUN: not ejk-run %s --device=interpreter --inputs=%t.decrease.safetensors 2>&1 | FileCheck %s --check-prefix=DECREASE
// RUN: %python %S/Inputs/write-packed.py %t.last.safetensors cu_seqlens=0,2,7
// RUN: not ejk-run %s --device=interpreter --inputs=%t.last.safetensors 2>&1 | FileCheck %s --check-prefix=LAST
// RUN: %python %S/Inputs/write-packed.py %t.none.safetensors cu_seqlens=
// RUN: not ejk-run %s --device=interpreter --inputs=%t.none.safetensors 2>&1 | FileCheck %s --check-prefix=NONE

// RANK: ejk-run: input 'q' must be f32 [B, T, H, 4], but is f32 [6, 4, 4]
// SIZE: ejk-run: input 'v' must be f32 [B, T, Hkv, 4] with T = 6 as 'q' has it, but is f32 [1, 5, 2, 4]
// CHANNELS: ejk-run: input 'k' must be f32 [B, T, Hkv, 4], but is f32 [1, 6, 2, 5]
// HEADS: ejk-run: the key/value heads, Hkv, must divide the query heads, H, but they are 3 and 4
// TYPE: ejk-run: input 'q' must be f32 [B, T, H, 4], but is f16 [1, 6, 4, 4]
// MISSING: ejk-run: input 'v' must be f32 [B, T, Hkv, 4], but is not given; given are: q, k, h0, cu_seqlens
// BATCH: ejk-run: B must be 1 with 'cu_seqlens', but is 2
// STATES: ejk-run: input 'cu' must be i32 [N+1] with N = 3 as 'h0' has it, but is i32 [3]
// FIRST: error: 'cu_seqlens' must start at 0, but starts at 1
// DECREASE: error: 'cu_seqlens' must not decrease, but entry 2 is 2 after 4
// LAST: error: 'cu_seqlens' must end at T = 6 or before, but ends at 7
// NONE: ejk-run: input 'cu' must be i32 [N+1], but is not given; given are: q, k, v, h0; the function takes: q, k, v, h0, cu
func.func @packed(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x4xf32>,
                  %h0: tensor<?x?x4x4xf32>, %cu: tensor<?xi32>) -> tensor<?x?x?x4xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v initial_state(%h0 : tensor<?x?x4x4xf32>)
      cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>
      -> tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>
  return %o : tensor<?x?x?x4xf32>
}
