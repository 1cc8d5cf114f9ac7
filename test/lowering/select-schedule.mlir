// Which scans become block programs, and how long their chunks are.
// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-select-schedule='schedule=auto fuse=false' --verify-diagnostics | FileCheck %s
// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-select-schedule='schedule=step' | FileCheck %s --check-prefix=STEP
// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-select-schedule 2>/dev/null | FileCheck %s --check-prefix=FUSE
// STEP-NOT: tile.program

// Where there may be one row, the scan stays for that.
// CHECK-LABEL: func.func @dynamic
// CHECK: %[[O:.*]], %[[HT:.*]] = ejk.scan
// CHECK: %[[P:.*]], %[[PT:.*]] = tile.program chunk 64
// CHECK-DAG: tile.choose single %[[O]], several %[[P]] of %{{.*}} : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
// CHECK-DAG: tile.choose single %[[HT]], several %[[PT]] of
func.func @dynamic(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}

// CHECK-LABEL: func.func @packed
// CHECK-NOT: ejk.scan
// CHECK: tile.program chunk 64
// CHECK-NOT: tile.choose
func.func @packed(%q: tensor<1x?x?x64xbf16>, %k: tensor<1x?x?x64xbf16>, %v: tensor<1x?x?x64xbf16>,
                  %cu: tensor<?xi32>) -> tensor<1x?x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v cu_seqlens(%cu : tensor<?xi32>)
      : tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>
      -> tensor<1x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<1x?x?x64xbf16>
}

// CHECK-LABEL: func.func @few
// CHECK: ejk.scan
// CHECK-NOT: tile.program
func.func @few(%q: tensor<?x15x?x64xbf16>, %k: tensor<?x15x?x64xbf16>, %v: tensor<?x15x?x64xbf16>)
    -> tensor<?x15x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x15x?x64xbf16>, tensor<?x15x?x64xbf16>, tensor<?x15x?x64xbf16>
      -> tensor<?x15x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x15x?x64xbf16>
}

// Gates per key channel of 256 take room.
// CHECK-LABEL: func.func @wide
// CHECK: tile.program chunk 32
func.func @wide(%q: tensor<?x100x?x256xbf16>, %k: tensor<?x100x?x256xbf16>,
                %v: tensor<?x100x?x64xbf16>, %gk: tensor<?x100x?x256xf32>,
                %gv: tensor<?x100x?x64xf32>) -> tensor<?x100x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x100x?x256xf32>) gv(%gv : tensor<?x100x?x64xf32>)
      : tensor<?x100x?x256xbf16>, tensor<?x100x?x256xbf16>, tensor<?x100x?x64xbf16>
      -> tensor<?x100x?x64xbf16>, tensor<?x?x256x64xf32>
  return %o : tensor<?x100x?x64xbf16>
}

// -----

// CHECK-LABEL: func.func @f32
// CHECK: ejk.scan
func.func @f32(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>)
    -> tensor<?x?x?x64xf32> {
  // expected-remark @below {{not chunked: its keys, values or read vectors come from 'k', which is f32, and matmuls on tensor cores would round them to 16 bits; give 'k' in bf16 or f16, or allow f32 matmuls ('f32-matmuls=bf16x6')}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
      -> tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xf32>
}

// -----

// The scans of a derivative share saved states: each chunk's own, in 16 bits. There is none
// to decode.
// CHECK-LABEL: func.func @gated_vjp
// CHECK-NOT: ejk.scan
// CHECK: tile.program chunk 64 save_every 64
// CHECK-SAME: outputs(tensor<?x?x4xf32>, tensor<?x?x4x64xbf16>) saves(tensor<?x4x64x64xbf16>)
// CHECK: tile.program chunk 64 save_every 64
// CHECK-NOT: tile.choose
// CHECK: return

// One of them may compute all but the states.
// FUSE-LABEL: func.func @gated_vjp
// FUSE: %[[S:.*]] = tile.program chunk 64 save_every 64
// FUSE-SAME: saves(tensor<?x4x64x64xbf16>)
// FUSE: tile.program chunk 64 save_every 64
// FUSE-SAME: saved(%[[S]] : tensor<?x4x64x64xbf16>) outputs(tensor<?x?x4xf32>, tensor<?x?x4x64xbf16>)
// FUSE-NOT: tile.program
// FUSE: return
func.func @gated_vjp(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>,
                     %do: tensor<?x?x4x64xbf16>, %g: tensor<?x?x4xf32>)
    -> (tensor<?x?x4x64xbf16>, tensor<?x?x4xf32>) {
  %p, %dq, %ht, %saves = ejk.scan save_every 64
      sequences(%qt = %q : tensor<?x?x4x64xbf16>, %kt = %k : tensor<?x?x4x64xbf16>,
                %ot = %do : tensor<?x?x4x64xbf16>, %gt = %g : tensor<?x?x4xf32>)
      states(%S = zero : tensor<?x4x64x64xf32>)
      -> (tensor<?x?x4x64xf32>, tensor<?x?x4x64xbf16>) saves(tensor<?x4x64x64xf32>) {
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %ow = arith.extf %ot : vector<64xbf16> to vector<64xf32>
    %S1 = ejk.decay %S by %gt along head : vector<64x64xf32>, f32
    %S2 = ejk.outer_add %S1, %kw, %kw : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %r = ejk.read %S1, %ow along value : vector<64x64xf32>, vector<64xf32>
    %x = ejk.cancelling_pair %qw, %r : vector<64xf32>
    %rn = arith.truncf %r : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%x, %rn : vector<64xf32>, vector<64xbf16>)
        saves(%S1 : vector<64x64xf32>)
  }
  %dg, %A, %M = ejk.scan reverse save_every 64
      sequences(%qt = %q : tensor<?x?x4x64xbf16>, %kt = %k : tensor<?x?x4x64xbf16>,
                %ot = %do : tensor<?x?x4x64xbf16>, %gt = %g : tensor<?x?x4xf32>,
                %pt = %p : tensor<?x?x4x64xf32>)
      saved(%c = %saves : tensor<?x4x64x64xf32>)
      states(%A0 = zero : tensor<?x4x64x64xf32>, %M0 = zero : tensor<?x4x64xf32>)
      -> (tensor<?x?x4xf32>) {
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %ow = arith.extf %ot : vector<64xbf16> to vector<64xf32>
    %dk = ejk.read %A0, %kw along value : vector<64x64xf32>, vector<64xf32>
    %x = ejk.cancelling_pair %kw, %dk : vector<64xf32>
    %M1 = arith.subf %M0, %x : vector<64xf32>
    %M2 = ejk.checkpoint %M1, %A0 with %c along value : vector<64xf32>, vector<64x64xf32>, vector<64x64xf32>
    %M3 = arith.addf %M2, %pt : vector<64xf32>
    %sum = ejk.sum %M3 : vector<64xf32>
    %A1 = ejk.outer_add %A0, %qw, %ow : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %A2 = ejk.decay %A1 by %gt along head : vector<64x64xf32>, f32
    ejk.yield states(%A2, %M3 : vector<64x64xf32>, vector<64xf32>) outputs(%sum : f32)
  }
  return %dq, %dg : tensor<?x?x4x64xbf16>, tensor<?x?x4xf32>
}

// -----

// More rows between saved states than a chunk has: the state at their end, in f32, and
// what the walks pass each other goes through memory.
// CHECK-LABEL: func.func @seldom
// CHECK: tile.program chunk 64 save_every 256
// CHECK-SAME: outputs(tensor<?x?x4x64xf32>) saves(tensor<?x4x64x64xf32>)
// CHECK: return
func.func @seldom(%k: tensor<?x?x4x64xbf16>, %g: tensor<?x?x4xf32>)
    -> (tensor<?x?x4x64xf32>, tensor<?x4x64x64xf32>) {
  %o, %ht, %saves = ejk.scan save_every 256
      sequences(%kt = %k : tensor<?x?x4x64xbf16>, %gt = %g : tensor<?x?x4xf32>)
      states(%S = zero : tensor<?x4x64x64xf32>)
      -> (tensor<?x?x4x64xf32>) saves(tensor<?x4x64x64xf32>) {
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %S1 = ejk.decay %S by %gt along head : vector<64x64xf32>, f32
    %S2 = ejk.outer_add %S1, %kw, %kw : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %r = ejk.read %S1, %kw along value : vector<64x64xf32>, vector<64xf32>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%r : vector<64xf32>)
        saves(%S1 : vector<64x64xf32>)
  }
  return %o, %saves : tensor<?x?x4x64xf32>, tensor<?x4x64x64xf32>
}

// -----

// Gates of keys and of values: with reads along one axis each has the range of 64 steps, with
// reads along both (select-schedule-saves.mlir) that of 32.
// CHECK-LABEL: func.func @both_gates
// CHECK: tile.program chunk 64
func.func @both_gates(%q: tensor<1x?x?x64xbf16>, %k: tensor<1x?x?x64xbf16>, %v: tensor<1x?x?x64xbf16>,
                      %gk: tensor<1x?x?x64xf32>, %gv: tensor<1x?x?x64xf32>, %cu: tensor<?xi32>)
    -> tensor<1x?x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x?x?x64xf32>) gv(%gv : tensor<1x?x?x64xf32>)
      cu_seqlens(%cu : tensor<?xi32>)
      : tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>
      -> tensor<1x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<1x?x?x64xbf16>
}
