// Kernels load rows of other steps where they lie: a shift that scans read has no kernel. One step's
// kernel stores the last rows, too, so that a token of a convolution and its recurrence is one launch.
// RUN: ejk-compile %s --emit=gpu --schedule=step --arch=sm_90a | FileCheck %s
// RUN: ejk-compile %s --emit=gpu --schedule=chunk --arch=sm_90a | FileCheck %s --check-prefix=CHUNK
// RUN: ejk-compile %s --emit=gpu --target=cpu | FileCheck %s --check-prefix=CPU

// One kernel, for one step or for more.
// CHECK-LABEL: func.func @conv(
// CHECK-NOT: launch_func
// CHECK: launch_func @kernels::@conv_scan0_one
// CHECK-NOT: launch_func
// CHECK: launch_func @kernels::@conv_scan0 blocks
// CHECK-NOT: launch_func
// CHECK-LABEL: func.func @token(
// CHECK-NOT: launch_func
// CHECK: launch_func @kernels::@token_scan0_one
// CHECK-NOT: launch_func
// CHECK-LABEL: func.func @alone(
// CHECK: launch_func @kernels::@alone_rows0
// CHECK: launch_func @kernels::@alone_rows1
// CHECK-LABEL: func.func @both(
// CHECK: launch_func @kernels::@both_rows0
// CHECK: launch_func @kernels::@both_map1
// CHECK: launch_func @kernels::@both_scan0

// CHUNK-LABEL: func.func @conv(
// CHUNK-NOT: launch_func
// CHUNK: launch_func @kernels::@conv_scan0_one
// CHUNK-NOT: launch_func
// CHUNK: launch_func @kernels::@conv_blocks0
// CHUNK-NOT: launch_func
// CHUNK-LABEL: func.func @token(

// CPU-LABEL: func.func @conv(
// CPU-NOT: launch_func
// CPU: launch_func @kernels::@conv_scan0
// CPU-NOT: launch_func
// CPU-LABEL: func.func @token(

func.func @conv(%k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %w: tensor<?x64xf32>) -> tensor<?x?x?x64xbf16> {
  %k1 = ejk.shift %k by 1 : tensor<?x?x?x64xbf16>
  %v2 = ejk.shift %v by 2 : tensor<?x?x?x64xbf16>
  %o, %ht = ejk.scan
      sequences(%kt = %k : tensor<?x?x?x64xbf16>, %vt = %v : tensor<?x?x?x64xbf16>,
                %k1t = %k1 : tensor<?x?x?x64xbf16>, %v2t = %v2 : tensor<?x?x?x64xbf16>)
      parameters(%wt = %w : tensor<?x64xf32> as vector<64xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %kf = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %k1f = arith.extf %k1t : vector<64xbf16> to vector<64xf32>
    %vf = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %v2f = arith.extf %v2t : vector<64xbf16> to vector<64xf32>
    %kw = arith.mulf %k1f, %wt : vector<64xf32>
    %key = arith.addf %kf, %kw : vector<64xf32>
    %value = arith.addf %vf, %v2f : vector<64xf32>
    %S1 = ejk.outer_add %S, %key, %value : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %of = ejk.read %S1, %kf along key : vector<64x64xf32>, vector<64xf32>
    %ot = arith.truncf %of : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%ot : vector<64xbf16>)
  }
  return %o : tensor<?x?x?x64xbf16>
}

func.func @token(%k: tensor<?x1x?x64xf32>, %v: tensor<?x1x?x64xf32>, %rows: tensor<?x2x?x64xf32>, %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x1x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x?x64x64xf32>) {
  %k1 = ejk.shift %k by 2 halo(%rows : tensor<?x2x?x64xf32>) : tensor<?x1x?x64xf32>
  %last = ejk.last_rows %k halo(%rows : tensor<?x2x?x64xf32>) : tensor<?x1x?x64xf32> -> tensor<?x2x?x64xf32>
  %o, %ht = ejk.scan
      sequences(%kt = %k : tensor<?x1x?x64xf32>, %vt = %v : tensor<?x1x?x64xf32>, %k1t = %k1 : tensor<?x1x?x64xf32>)
      states(%S = %h0 : tensor<?x?x64x64xf32>) -> (tensor<?x1x?x64xf32>) {
    %key = arith.addf %kt, %k1t : vector<64xf32>
    %S1 = ejk.outer_add %S, %key, %vt : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %ot = ejk.read %S1, %kt along key : vector<64x64xf32>, vector<64xf32>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%ot : vector<64xf32>)
  }
  return %o, %last, %ht : tensor<?x1x?x64xf32>, tensor<?x2x?x64xf32>, tensor<?x?x64x64xf32>
}

// Results of a function, which a kernel writes.
func.func @alone(%k: tensor<?x?x?x64xbf16>) -> (tensor<?x?x?x64xbf16>, tensor<?x3x?x64xbf16>) {
  %k1 = ejk.shift %k by -1 : tensor<?x?x?x64xbf16>
  %last = ejk.last_rows %k : tensor<?x?x?x64xbf16> -> tensor<?x3x?x64xbf16>
  return %k1, %last : tensor<?x?x?x64xbf16>, tensor<?x3x?x64xbf16>
}

// Another op needs the rows in memory.
func.func @both(%k: tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>) {
  %k1 = ejk.shift %k by 1 : tensor<?x?x?x8xf32>
  %e = math.exp %k1 : tensor<?x?x?x8xf32>
  %o, %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x8xf32>, %k1t = %k1 : tensor<?x?x?x8xf32>)
      states(%S = zero : tensor<?x?x8x8xf32>) -> (tensor<?x?x?x8xf32>) {
    %S1 = ejk.outer_add %S, %kt, %k1t : vector<8x8xf32>, vector<8xf32>, vector<8xf32>
    %ot = ejk.read %S1, %kt along key : vector<8x8xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x8xf32>) outputs(%ot : vector<8xf32>)
  }
  return %o, %e : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
}
