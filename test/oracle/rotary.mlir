// Rotary position embedding inside the step, and xpos, whose rotated vectors also grow and
// decay with the position, against NumPy's rotation of complex numbers: interpreter, kernels
// on the emulator, gradients. Sequences are packed, and walked either way.
// RUN: %python %S/Inputs/rotary.py ejk-run %s rotary --device=interpreter --precision=f64
// RUN: %python %S/Inputs/rotary.py ejk-run %s xpos --device=interpreter --precision=f64
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda %python %S/Inputs/rotary.py ejk-run %s rotary --device=cuda
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda %python %S/Inputs/rotary.py ejk-run %s xpos --device=cuda
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=rotary --vjp --device=cuda --random T=40,H=4,Hkv=2,Hkv2=2,N=3 --check --finite-differences | FileCheck %s
// The rates of xpos are small: with those of --random, results are 1e24, and dzeta what their difference leaves.
// RUN: %python -c "import numpy as np; np.save('%t.npy', np.linspace(-.05, .05, 16, dtype='f4'))"
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=xpos --vjp --device=cuda --random B=2,T=40,H=2 --inputs zeta=%t.npy --check --finite-differences | FileCheck %s

// CHECK-DAG: check dq: pass
// CHECK-DAG: check dk: pass
// CHECK-DAG: check dv: pass
// CHECK-DAG: check dtheta: pass

// theta: a frequency for each pair of channels, c and c + 6, written twice.
func.func @rotary(%q: tensor<1x?x?x12xf32> {ejk.name = "q"}, %k: tensor<1x?x?x12xf32> {ejk.name = "k"},
                  %v: tensor<1x?x?x7xf32> {ejk.name = "v"}, %theta: tensor<12xf32> {ejk.name = "theta"},
                  %cu: tensor<?xi32> {ejk.name = "cu_seqlens"})
    -> (tensor<1x?x?x7xf32> {ejk.name = "o"}, tensor<?x?x12x7xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan cu_seqlens(%cu : tensor<?xi32>)
      sequences(%qt = %q : tensor<1x?x?x12xf32>, %kt = %k : tensor<1x?x?x12xf32>,
                %vt = %v : tensor<1x?x?x7xf32>)
      parameters(%th = %theta : tensor<12xf32> as vector<12xf32>)
      states(%S = zero : tensor<?x?x12x7xf32>)
      -> (tensor<1x?x?x7xf32>) {
    %t = ejk.step_index : index
    %ti = arith.index_cast %t : index to i32
    %tf = arith.sitofp %ti : i32 to f32
    %tv = vector.broadcast %tf : f32 to vector<12xf32>
    %phase = arith.mulf %tv, %th : vector<12xf32>
    %cos = math.cos %phase : vector<12xf32>
    %sin = math.sin %phase : vector<12xf32>
    %qh = ejk.rotate_half %qt : vector<12xf32>
    %qc = arith.mulf %qt, %cos : vector<12xf32>
    %qs = arith.mulf %qh, %sin : vector<12xf32>
    %qr = arith.addf %qc, %qs : vector<12xf32>
    %kh = ejk.rotate_half %kt : vector<12xf32>
    %kc = arith.mulf %kt, %cos : vector<12xf32>
    %ks = arith.mulf %kh, %sin : vector<12xf32>
    %kr = arith.addf %kc, %ks : vector<12xf32>
    %S1 = ejk.outer_add %S, %kr, %vt : vector<12x7xf32>, vector<12xf32>, vector<7xf32>
    %ot = ejk.read %S1, %qr along key : vector<12x7xf32>, vector<12xf32>
    ejk.yield states(%S1 : vector<12x7xf32>) outputs(%ot : vector<7xf32>)
  }
  return %o, %ht : tensor<1x?x?x7xf32>, tensor<?x?x12x7xf32>
}

// Walked from the last step to the first; positions are those of forward time. The vectors
// that are rotated lie along the columns here: the state is read along value.
func.func @xpos(%q: tensor<?x?x?x16xf32> {ejk.name = "q"}, %k: tensor<?x?x?x16xf32> {ejk.name = "k"},
                %v: tensor<?x?x?x8xf32> {ejk.name = "v"}, %theta: tensor<16xf32> {ejk.name = "theta"},
                %zeta: tensor<16xf32> {ejk.name = "zeta"})
    -> (tensor<?x?x?x8xf32> {ejk.name = "o"}, tensor<?x?x8x16xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan reverse
      sequences(%qt = %q : tensor<?x?x?x16xf32>, %kt = %k : tensor<?x?x?x16xf32>,
                %vt = %v : tensor<?x?x?x8xf32>)
      parameters(%th = %theta : tensor<16xf32> as vector<16xf32>,
                 %ze = %zeta : tensor<16xf32> as vector<16xf32>)
      states(%S = zero : tensor<?x?x8x16xf32>)
      -> (tensor<?x?x?x8xf32>) {
    %t = ejk.step_index : index
    %ti = arith.index_cast %t : index to i32
    %tf = arith.sitofp %ti : i32 to f32
    %tv = vector.broadcast %tf : f32 to vector<16xf32>
    %phase = arith.mulf %tv, %th : vector<16xf32>
    %cos = math.cos %phase : vector<16xf32>
    %sin = math.sin %phase : vector<16xf32>
    %power = arith.mulf %tv, %ze : vector<16xf32>
    %up = math.exp %power : vector<16xf32>
    %less = arith.negf %power : vector<16xf32>
    %down = math.exp %less : vector<16xf32>
    %qh = ejk.rotate_half %qt : vector<16xf32>
    %qc = arith.mulf %qt, %cos : vector<16xf32>
    %qs = arith.mulf %qh, %sin : vector<16xf32>
    %qr = arith.addf %qc, %qs : vector<16xf32>
    %qz = arith.mulf %qr, %up : vector<16xf32>
    %kh = ejk.rotate_half %kt : vector<16xf32>
    %kc = arith.mulf %kt, %cos : vector<16xf32>
    %ks = arith.mulf %kh, %sin : vector<16xf32>
    %kr = arith.addf %kc, %ks : vector<16xf32>
    %kz = arith.mulf %kr, %down : vector<16xf32>
    %S1 = ejk.outer_add %S, %vt, %kz : vector<8x16xf32>, vector<8xf32>, vector<16xf32>
    %ot = ejk.read %S1, %qz along value : vector<8x16xf32>, vector<16xf32>
    ejk.yield states(%S1 : vector<8x16xf32>) outputs(%ot : vector<8xf32>)
  }
  return %o, %ht : tensor<?x?x?x8xf32>, tensor<?x?x8x16xf32>
}
