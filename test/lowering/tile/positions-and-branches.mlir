// By chunks: a gate and a key that depend on the step's index and on `scf.if`, also on one
// number that decides over a whole vector, forward and derived, on the emulator against the
// interpreter in f64. Packed sequences, so that positions start anew.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --device=cuda --random T=150,H=2,N=3 --check 2>&1 | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --vjp --save-states=false --device=cuda --random T=150,H=2,N=3 --check --finite-differences 2>&1 | FileCheck %s --check-prefix=VJP
// RUN: ejk-compile --arch=sm_90 %s --schedule=chunk --emit=gpu | FileCheck %s --check-prefix=GPU

// CHECK-NOT: remark
// CHECK: check o: pass
// VJP-NOT: remark
// VJP-DAG: check dq: pass
// VJP-DAG: check dk: pass
// VJP-DAG: check dv: pass
// VJP-DAG: check dx: pass
// GPU: gpu.launch_func @kernels::@f_block
func.func @f(%q: tensor<1x?x?x32xbf16> {ejk.name = "q"}, %k: tensor<1x?x?x32xbf16> {ejk.name = "k"},
             %v: tensor<1x?x?x32xbf16> {ejk.name = "v"}, %x: tensor<1x?x?xf32> {ejk.name = "x"},
             %cu: tensor<?xi32> {ejk.name = "cu_seqlens"})
    -> (tensor<1x?x?x32xbf16> {ejk.name = "o"}) {
  %o, %ht = ejk.scan cu_seqlens(%cu : tensor<?xi32>)
      sequences(%qt = %q : tensor<1x?x?x32xbf16>, %kt = %k : tensor<1x?x?x32xbf16>,
                %vt = %v : tensor<1x?x?x32xbf16>, %xt = %x : tensor<1x?x?xf32>)
      states(%S = zero : tensor<?x?x32x32xf32>)
      -> (tensor<1x?x?x32xbf16>) {
    %qw = arith.extf %qt : vector<32xbf16> to vector<32xf32>
    %kw = arith.extf %kt : vector<32xbf16> to vector<32xf32>
    %vw = arith.extf %vt : vector<32xbf16> to vector<32xf32>
    %zero = arith.constant 0.0 : f32
    %rate = arith.constant -0.01 : f32
    %half = arith.constant dense<0.5> : vector<32xf32>
    %t = ejk.step_index : index
    %ti = arith.index_cast %t : index to i32
    %tf = arith.sitofp %ti : i32 to f32
    %positive = arith.cmpf ogt, %xt, %zero : f32
    %g, %ks = scf.if %positive -> (f32, vector<32xf32>) {
      %s = math.sqrt %xt : f32
      %n = arith.negf %s : f32
      scf.yield %n, %kw : f32, vector<32xf32>
    } else {
      %n = arith.mulf %rate, %tf : f32
      %kh = arith.mulf %kw, %half : vector<32xf32>
      scf.yield %n, %kh : f32, vector<32xf32>
    }
    %S1 = ejk.decay %S by %g along head : vector<32x32xf32>, f32
    %S2 = ejk.outer_add %S1, %ks, %vw : vector<32x32xf32>, vector<32xf32>, vector<32xf32>
    %r = ejk.read %S2, %qw along key : vector<32x32xf32>, vector<32xf32>
    %ot = arith.truncf %r : vector<32xf32> to vector<32xbf16>
    ejk.yield states(%S2 : vector<32x32xf32>) outputs(%ot : vector<32xbf16>)
  }
  return %o : tensor<1x?x?x32xbf16>
}
