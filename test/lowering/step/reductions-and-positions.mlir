// ejk.max, ejk.rotate_half and ejk.step_index on every path of the step-by-step kernel, on
// the emulator against the interpreter, and their derivatives against finite differences.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=along_reads --device=cuda --random B=2,T=21,H=2 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=along_reads --vjp --device=cuda --random B=2,T=21,H=2 --check --finite-differences | FileCheck %s --check-prefix=VJP
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=of_reads --device=cuda --random B=2,T=21,H=2 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=of_reads --vjp --device=cuda --random B=2,T=21,H=2 --check --finite-differences | FileCheck %s --check-prefix=VJP
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=normalised --device=cuda --random B=2,T=21,H=2 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=normalised --vjp --device=cuda --random B=2,T=21,H=2 --check --finite-differences | FileCheck %s --check-prefix=VJP
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=one_step --device=cuda --random B=2,H=2 --check | FileCheck %s

// CHECK: check o: pass
// VJP-DAG: check dq: pass
// VJP-DAG: check dk: pass
// VJP-DAG: check dv: pass

// A maximum of negative numbers over channels that are padded; an index that decides over
// what is read; a rotation of 16-bit rows and of a parameter.
func.func @along_reads(%q: tensor<?x?x?x10xf32> {ejk.name = "q"}, %k: tensor<?x?x?x10xf32> {ejk.name = "k"},
                       %v: tensor<?x?x?x6xbf16> {ejk.name = "v"}, %p: tensor<?x10xf32> {ejk.name = "p"})
    -> (tensor<?x?x?x6xf32> {ejk.name = "o"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x10xf32>, %kt = %k : tensor<?x?x?x10xf32>,
                %vt = %v : tensor<?x?x?x6xbf16>)
      parameters(%pt = %p : tensor<?x10xf32> as vector<10xf32>)
      states(%S = zero : tensor<?x?x10x6xf32>) -> (tensor<?x?x?x6xf32>) {
    %low = math.absf %kt : vector<10xf32>
    %below = arith.negf %low : vector<10xf32>
    %g = ejk.max %below : vector<10xf32>
    %pr = ejk.rotate_half %pt : vector<10xf32>
    %kp = arith.addf %kt, %pr : vector<10xf32>
    %kr = ejk.rotate_half %kp : vector<10xf32>
    %back = ejk.rotate_half %kr : vector<10xf32>
    %ks = arith.addf %kr, %qt : vector<10xf32>
    %kb = arith.addf %ks, %back : vector<10xf32>
    %vr = ejk.rotate_half %vt : vector<6xbf16>
    %vw = arith.extf %vr : vector<6xbf16> to vector<6xf32>
    %S1 = ejk.decay %S by %g along head : vector<10x6xf32>, f32
    %S2 = ejk.outer_add %S1, %kb, %vw : vector<10x6xf32>, vector<10xf32>, vector<6xf32>
    %r = ejk.read %S2, %qt along key : vector<10x6xf32>, vector<10xf32>
    %t = ejk.step_index : index
    %four = arith.constant 4 : index
    %zero = arith.constant 0 : index
    %m = arith.remui %t, %four : index
    %fourth = arith.cmpi eq, %m, %zero : index
    %h = math.tanh %r : vector<6xf32>
    %ot = arith.select %fourth, %h, %r : vector<6xf32>
    ejk.yield states(%S2 : vector<10x6xf32>) outputs(%ot : vector<6xf32>)
  }
  return %o : tensor<?x?x?x6xf32>
}

// A maximum and a rotation of what is read: between two scans.
func.func @of_reads(%q: tensor<?x?x?x6xf32> {ejk.name = "q"}, %k: tensor<?x?x?x6xf32> {ejk.name = "k"},
                    %v: tensor<?x?x?x8xf32> {ejk.name = "v"})
    -> (tensor<?x?x?x8xf32> {ejk.name = "o"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x6xf32>, %kt = %k : tensor<?x?x?x6xf32>,
                %vt = %v : tensor<?x?x?x8xf32>)
      states(%S = zero : tensor<?x?x6x8xf32>) -> (tensor<?x?x?x8xf32>) {
    %S1 = ejk.outer_add %S, %kt, %vt : vector<6x8xf32>, vector<6xf32>, vector<8xf32>
    %r = ejk.read %S1, %qt along key : vector<6x8xf32>, vector<6xf32>
    %m = ejk.max %r : vector<8xf32>
    %mv = vector.broadcast %m : f32 to vector<8xf32>
    %d = arith.subf %r, %mv : vector<8xf32>
    %e = math.exp %d : vector<8xf32>
    %x = ejk.rotate_half %r : vector<8xf32>
    %ot = arith.mulf %e, %x : vector<8xf32>
    ejk.yield states(%S1 : vector<6x8xf32>) outputs(%ot : vector<8xf32>)
  }
  return %o : tensor<?x?x?x8xf32>
}

// A key that is normalised, which takes a sum over its channels, and then rotated.
func.func @normalised(%q: tensor<?x?x?x8xf32> {ejk.name = "q"}, %k: tensor<?x?x?x8xf32> {ejk.name = "k"},
                      %v: tensor<?x?x?x5xf32> {ejk.name = "v"})
    -> (tensor<?x?x?x5xf32> {ejk.name = "o"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x8xf32>, %kt = %k : tensor<?x?x?x8xf32>,
                %vt = %v : tensor<?x?x?x5xf32>)
      states(%S = zero : tensor<?x?x8x5xf32>) -> (tensor<?x?x?x5xf32>) {
    %sq = arith.mulf %kt, %kt : vector<8xf32>
    %n = ejk.sum %sq : vector<8xf32>
    %i = math.rsqrt %n : f32
    %iv = vector.broadcast %i : f32 to vector<8xf32>
    %kn = arith.mulf %kt, %iv : vector<8xf32>
    %kr = ejk.rotate_half %kn : vector<8xf32>
    %S1 = ejk.outer_add %S, %kr, %vt : vector<8x5xf32>, vector<8xf32>, vector<5xf32>
    %ot = ejk.read %S1, %qt along key : vector<8x5xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x5xf32>) outputs(%ot : vector<5xf32>)
  }
  return %o : tensor<?x?x?x5xf32>
}

// One step: a warp for a part of the rows, and index 0.
func.func @one_step(%q: tensor<?x1x?x128xf32> {ejk.name = "q"}, %v: tensor<?x1x?x64xf32> {ejk.name = "v"},
                    %h0: tensor<?x?x128x64xf32> {ejk.name = "h0"})
    -> (tensor<?x1x?x64xf32> {ejk.name = "o"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x1x?x128xf32>, %vt = %v : tensor<?x1x?x64xf32>)
      states(%S = %h0 : tensor<?x?x128x64xf32>) -> (tensor<?x1x?x64xf32>) {
    %m = ejk.max %qt : vector<128xf32>
    %t = ejk.step_index : index
    %ti = arith.index_cast %t : index to i32
    %tf = arith.sitofp %ti : i32 to f32
    %less = arith.negf %m : f32
    %g = arith.addf %less, %tf : f32
    %qr = ejk.rotate_half %qt : vector<128xf32>
    %S1 = ejk.decay %S by %g along head : vector<128x64xf32>, f32
    %S2 = ejk.outer_add %S1, %qr, %vt : vector<128x64xf32>, vector<128xf32>, vector<64xf32>
    %ot = ejk.read %S2, %qt along key : vector<128x64xf32>, vector<128xf32>
    ejk.yield states(%S2 : vector<128x64xf32>) outputs(%ot : vector<64xf32>)
  }
  return %o : tensor<?x1x?x64xf32>
}
