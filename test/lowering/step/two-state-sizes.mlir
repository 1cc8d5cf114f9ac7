// States of two sizes: each size has a scan and a kernel of its own. Kernels on the
// emulator against the interpreter, which walks the one scan; gradients against finite
// differences of it.
// RUN: ejk-opt %s --ejk-specialize | FileCheck %s --check-prefix=IR
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=mlstm --device=cuda --random B=2,T=70,H=2 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=mlstm --vjp --device=cuda --random B=2,T=70,H=2 --check --finite-differences | FileCheck %s --check-prefix=VJP
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=sizes --device=cuda --random B=1,T=9,H=2 --check | FileCheck %s --check-prefix=SIZES
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=sizes --vjp --device=cuda --random B=1,T=9,H=2 --check --finite-differences | FileCheck %s --check-prefix=SIZES-VJP

// mLSTM: a state C of K×V, a normaliser n of K×1 and the stabiliser m, a number that keeps
// both exponentials at 1 or below.
//
//   m_t = max(f_t + m_{t−1}, i_t)        f, i: logarithms of the forget and input gates
//   C_t = exp(f_t + m_{t−1} − m_t) C_{t−1} + exp(i_t − m_t) k_t v_tᵀ         n_t likewise, with 1 for v
//   h_t = C_tᵀ q_t / max(|n_tᵀ q_t|, exp(−m_t))

// IR-LABEL: func.func @mlstm(
// IR: ejk.scan
// IR-NOT: vector<16x12xf32>
// IR: ejk.read {{.*}} : vector<16x1xf32>
// IR: ejk.scan
// IR-NOT: vector<16x1xf32>
// IR: ejk.read {{.*}} : vector<16x12xf32>
// CHECK: check h: pass
// CHECK: check ct: pass
// CHECK: check nt: pass
// CHECK: check mt: pass
// VJP-DAG: check dq: pass
// VJP-DAG: check dk: pass
// VJP-DAG: check dv: pass
// VJP-DAG: check di: pass
// VJP-DAG: check df: pass
// VJP-DAG: check dn0: pass
// VJP-DAG: check dm0: pass
func.func @mlstm(%q: tensor<?x?x?x16xf32> {ejk.name = "q"}, %k: tensor<?x?x?x16xf32> {ejk.name = "k"},
                 %v: tensor<?x?x?x12xf32> {ejk.name = "v"}, %i: tensor<?x?x?xf32> {ejk.name = "i"},
                 %f: tensor<?x?x?xf32> {ejk.name = "f"}, %c0: tensor<?x?x16x12xf32> {ejk.name = "c0"},
                 %n0: tensor<?x?x16x1xf32> {ejk.name = "n0"}, %m0: tensor<?x?xf32> {ejk.name = "m0"})
    -> (tensor<?x?x?x12xf32> {ejk.name = "h"}, tensor<?x?x16x12xf32> {ejk.name = "ct"},
        tensor<?x?x16x1xf32> {ejk.name = "nt"}, tensor<?x?xf32> {ejk.name = "mt"}) {
  %h, %ct, %nt, %mt = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x16xf32>, %kt = %k : tensor<?x?x?x16xf32>,
                %vt = %v : tensor<?x?x?x12xf32>, %it = %i : tensor<?x?x?xf32>,
                %ft = %f : tensor<?x?x?xf32>)
      states(%C = %c0 : tensor<?x?x16x12xf32>, %n = %n0 : tensor<?x?x16x1xf32>,
             %m = %m0 : tensor<?x?xf32>)
      -> (tensor<?x?x?x12xf32>) {
    %zero = arith.constant 0.0 : f32
    %one = arith.constant dense<1.0> : vector<1xf32>
    // log σ(f), which overflows nowhere.
    %abs = math.absf %ft : f32
    %low = arith.negf %abs : f32
    %e = math.exp %low : f32
    %l = math.log1p %e : f32
    %bottom = arith.minimumf %ft, %zero : f32
    %lf = arith.subf %bottom, %l : f32
    %held = arith.addf %lf, %m : f32
    %m1 = arith.maximumf %held, %it : f32
    %g = arith.subf %held, %m1 : f32
    %gi = arith.subf %it, %m1 : f32
    %a = math.exp %gi : f32
    %av = vector.broadcast %a : f32 to vector<16xf32>
    %ka = arith.mulf %kt, %av : vector<16xf32>
    %C1 = ejk.decay %C by %g along head : vector<16x12xf32>, f32
    %C2 = ejk.outer_add %C1, %ka, %vt : vector<16x12xf32>, vector<16xf32>, vector<12xf32>
    %n1 = ejk.decay %n by %g along head : vector<16x1xf32>, f32
    %n2 = ejk.outer_add %n1, %ka, %one : vector<16x1xf32>, vector<16xf32>, vector<1xf32>
    %r = ejk.read %C2, %qt along key : vector<16x12xf32>, vector<16xf32>
    %d = ejk.read %n2, %qt along key : vector<16x1xf32>, vector<16xf32>
    %dn = ejk.sum %d : vector<1xf32>
    %size = math.absf %dn : f32
    %mm = arith.negf %m1 : f32
    %em = math.exp %mm : f32
    %div = arith.maximumf %size, %em : f32
    %divs = vector.broadcast %div : f32 to vector<12xf32>
    %ht = arith.divf %r, %divs : vector<12xf32>
    ejk.yield states(%C2, %n2, %m1 : vector<16x12xf32>, vector<16x1xf32>, f32)
        outputs(%ht : vector<12xf32>)
  }
  return %h, %ct, %nt, %mt : tensor<?x?x?x12xf32>, tensor<?x?x16x12xf32>, tensor<?x?x16x1xf32>, tensor<?x?xf32>
}

// Four sizes: K×1, 1×V, K×V, and another K beside the same V, whose update takes what is
// read of two others.
// SIZES: check o: pass
// SIZES: check p: pass
// SIZES: check at: pass
// SIZES-VJP-DAG: check dk: pass
// SIZES-VJP-DAG: check dv: pass
// SIZES-VJP-DAG: check dw: pass
// SIZES-VJP-DAG: check dg: pass
func.func @sizes(%k: tensor<?x?x?x8xf32> {ejk.name = "k"}, %v: tensor<?x?x?x5xf32> {ejk.name = "v"},
                 %w: tensor<?x?x?x24xf32> {ejk.name = "w"}, %g: tensor<?x?x?x5xf32> {ejk.name = "g"})
    -> (tensor<?x?x?x5xf32> {ejk.name = "o"}, tensor<?x?x?x8xf32> {ejk.name = "p"},
        tensor<?x?x8x1xf32> {ejk.name = "at"}) {
  %o, %p, %at, %bt, %ct, %dt = ejk.scan
      sequences(%kt = %k : tensor<?x?x?x8xf32>, %vt = %v : tensor<?x?x?x5xf32>,
                %wt = %w : tensor<?x?x?x24xf32>, %gt = %g : tensor<?x?x?x5xf32>)
      states(%A = zero : tensor<?x?x8x1xf32>, %B = zero : tensor<?x?x1x5xf32>,
             %C = zero : tensor<?x?x8x5xf32>, %D = zero : tensor<?x?x24x5xf32>)
      -> (tensor<?x?x?x5xf32>, tensor<?x?x?x8xf32>) {
    %one = arith.constant dense<1.0> : vector<1xf32>
    %A1 = ejk.outer_add %A, %kt, %one : vector<8x1xf32>, vector<8xf32>, vector<1xf32>
    %B1 = ejk.decay %B by %gt along value : vector<1x5xf32>, vector<5xf32>
    %B2 = ejk.outer_add %B1, %one, %vt : vector<1x5xf32>, vector<1xf32>, vector<5xf32>
    %C1 = ejk.decay %C by %gt along value : vector<8x5xf32>, vector<5xf32>
    %C2 = ejk.outer_add %C1, %kt, %vt : vector<8x5xf32>, vector<8xf32>, vector<5xf32>
    %r = ejk.read %C2, %kt along key : vector<8x5xf32>, vector<8xf32>
    %b = ejk.read %B2, %one along key : vector<1x5xf32>, vector<1xf32>
    %x = arith.addf %r, %b : vector<5xf32>
    %D1 = ejk.outer_add %D, %wt, %x : vector<24x5xf32>, vector<24xf32>, vector<5xf32>
    %s = ejk.read %D1, %wt along key : vector<24x5xf32>, vector<24xf32>
    %y = arith.mulf %x, %s : vector<5xf32>
    %a = ejk.read %A1, %one along value : vector<8x1xf32>, vector<1xf32>
    ejk.yield states(%A1, %B2, %C2, %D1 : vector<8x1xf32>, vector<1x5xf32>, vector<8x5xf32>, vector<24x5xf32>)
        outputs(%y, %a : vector<5xf32>, vector<8xf32>)
  }
  return %o, %p, %at : tensor<?x?x?x5xf32>, tensor<?x?x?x8xf32>, tensor<?x?x8x1xf32>
}
