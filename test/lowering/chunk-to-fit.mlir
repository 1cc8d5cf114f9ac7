// Which scans become block programs, and how long their chunks are.
// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-chunk-to-fit='schedule=auto' --verify-diagnostics | FileCheck %s
// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-chunk-to-fit='schedule=step' | FileCheck %s --check-prefix=STEP
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
func.func @few(%q: tensor<?x63x?x64xbf16>, %k: tensor<?x63x?x64xbf16>, %v: tensor<?x63x?x64xbf16>)
    -> tensor<?x63x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x63x?x64xbf16>, tensor<?x63x?x64xbf16>, tensor<?x63x?x64xbf16>
      -> tensor<?x63x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x63x?x64xbf16>
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
  // expected-remark @below {{not chunked: its keys, values or read vectors come from f32 sequences}}
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>
      -> tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xf32>
}
