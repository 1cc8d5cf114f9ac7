// States of two sizes by chunks: each scan of one size becomes a block program. mLSTM's stabiliser, a number
// that is a running maximum, has a scan of its own, step by step. The gradient through the normaliser is a
// difference of two terms that nearly cancel, so a column's matmuls have operands in two terms.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=normalised --schedule=chunk --device=cuda --random B=1,T=150,H=2 --check 2>&1 | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=normalised --vjp --save-states=false --schedule=chunk --device=cuda --random B=1,T=150,H=2 --check --finite-differences 2>/dev/null | FileCheck %s --check-prefix=VJP
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=stabilised --schedule=chunk --device=cuda --random B=1,T=150,H=2 --check 2>&1 | FileCheck %s --check-prefix=STABLE
// RUN: ejk-compile --arch=sm_90 %s --schedule=chunk --emit=gpu 2>/dev/null | FileCheck %s --check-prefix=GPU

// GPU-LABEL: func.func @normalised(
// GPU-COUNT-2: @kernels::@normalised_block
// GPU-LABEL: func.func @stabilised(
// GPU-DAG: @kernels::@stabilised_scan
// GPU-DAG: @kernels::@stabilised_block
// CHECK-NOT: not chunked
// CHECK: check o: pass
// VJP-DAG: check dq: pass
// VJP-DAG: check dk: pass
// VJP-DAG: check dv: pass
func.func @normalised(%q: tensor<?x?x?x64xbf16> {ejk.name = "q"}, %k: tensor<?x?x?x64xbf16> {ejk.name = "k"},
                      %v: tensor<?x?x?x64xbf16> {ejk.name = "v"}, %g: tensor<?x?x?xf32> {ejk.name = "g"})
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}) {
  %o, %st, %nt = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x64xbf16>, %kt = %k : tensor<?x?x?x64xbf16>,
                %vt = %v : tensor<?x?x?x64xbf16>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>, %n = zero : tensor<?x?x64x1xf32>)
      -> (tensor<?x?x?x64xbf16>) {
    %one = arith.constant 1.0 : f32
    %ones = arith.constant dense<1.0> : vector<1xf32>
    // Positive queries and keys: their sum, which divides, has no terms that cancel.
    %qx = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %kx = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %qw = arith.mulf %qx, %qx : vector<64xf32>
    %kw = arith.mulf %kx, %kx : vector<64xf32>
    %vw = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %S1 = ejk.decay %S by %gt along head : vector<64x64xf32>, f32
    %S2 = ejk.outer_add %S1, %kw, %vw : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %n1 = ejk.decay %n by %gt along head : vector<64x1xf32>, f32
    %n2 = ejk.outer_add %n1, %kw, %ones : vector<64x1xf32>, vector<64xf32>, vector<1xf32>
    %r = ejk.read %S2, %qw along key : vector<64x64xf32>, vector<64xf32>
    %d = ejk.read %n2, %qw along key : vector<64x1xf32>, vector<64xf32>
    %dn = ejk.sum %d : vector<1xf32>
    %div = arith.addf %dn, %one : f32
    %divs = vector.broadcast %div : f32 to vector<64xf32>
    %h = arith.divf %r, %divs : vector<64xf32>
    %ot = arith.truncf %h : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2, %n2 : vector<64x64xf32>, vector<64x1xf32>) outputs(%ot : vector<64xbf16>)
  }
  return %o : tensor<?x?x?x64xbf16>
}

// STABLE-NOT: not chunked
// STABLE: check o: pass
func.func @stabilised(%q: tensor<?x?x?x64xbf16> {ejk.name = "q"}, %k: tensor<?x?x?x64xbf16> {ejk.name = "k"},
                      %v: tensor<?x?x?x64xbf16> {ejk.name = "v"}, %i: tensor<?x?x?xf32> {ejk.name = "i"},
                      %g: tensor<?x?x?xf32> {ejk.name = "g"})
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}) {
  %o, %st, %nt, %mt = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x64xbf16>, %kt = %k : tensor<?x?x?x64xbf16>,
                %vt = %v : tensor<?x?x?x64xbf16>, %it = %i : tensor<?x?x?xf32>,
                %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>, %n = zero : tensor<?x?x64x1xf32>,
             %m = zero : tensor<?x?xf32>)
      -> (tensor<?x?x?x64xbf16>) {
    %ones = arith.constant dense<1.0> : vector<1xf32>
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %vw = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %held = arith.addf %gt, %m : f32
    %m1 = arith.maximumf %held, %it : f32
    %gs = arith.subf %held, %m1 : f32
    %gi = arith.subf %it, %m1 : f32
    %a = math.exp %gi : f32
    %av = vector.broadcast %a : f32 to vector<64xf32>
    %ka = arith.mulf %kw, %av : vector<64xf32>
    %S1 = ejk.decay %S by %gs along head : vector<64x64xf32>, f32
    %S2 = ejk.outer_add %S1, %ka, %vw : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %n1 = ejk.decay %n by %gs along head : vector<64x1xf32>, f32
    %n2 = ejk.outer_add %n1, %ka, %ones : vector<64x1xf32>, vector<64xf32>, vector<1xf32>
    %r = ejk.read %S2, %qw along key : vector<64x64xf32>, vector<64xf32>
    %d = ejk.read %n2, %qw along key : vector<64x1xf32>, vector<64xf32>
    %dn = ejk.sum %d : vector<1xf32>
    %size = math.absf %dn : f32
    %mm = arith.negf %m1 : f32
    %em = math.exp %mm : f32
    %div = arith.maximumf %size, %em : f32
    %divs = vector.broadcast %div : f32 to vector<64xf32>
    %h = arith.divf %r, %divs : vector<64xf32>
    %ot = arith.truncf %h : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2, %n2, %m1 : vector<64x64xf32>, vector<64x1xf32>, f32)
        outputs(%ot : vector<64xbf16>)
  }
  return %o : tensor<?x?x?x64xbf16>
}
