// `scf.if` on a step's numbers and vectors, nested, with two results, unused, and on the
// step's own state: the kernel and its derivative, on the emulator, against the
// interpreter, which runs the branch taken alone, and against finite differences of it.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=branches --device=cuda --random B=2,T=37,H=3 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --entry=branches --vjp --device=cuda --random B=2,T=37,H=3 --check --finite-differences | FileCheck %s --check-prefix=VJP
// RUN: ejk-opt %s --canonicalize | FileCheck %s --check-prefix=IR

// CHECK-DAG: check o: pass
// CHECK-DAG: check ht: pass
// VJP-DAG: check dq: pass
// VJP-DAG: check dk: pass
// VJP-DAG: check dv: pass
// VJP-DAG: check dx: pass
// VJP-DAG: differences dx: pass

// IR-LABEL: func.func @branches(
// IR-NOT: scf.if
func.func @branches(%q: tensor<?x?x?x8xf32> {ejk.name = "q"}, %k: tensor<?x?x?x8xf32> {ejk.name = "k"},
                    %v: tensor<?x?x?x4xf32> {ejk.name = "v"}, %x: tensor<?x?x?xf32> {ejk.name = "x"})
    -> (tensor<?x?x?x4xf32> {ejk.name = "o"}, tensor<?x?x8x4xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x8xf32>, %kt = %k : tensor<?x?x?x8xf32>,
                %vt = %v : tensor<?x?x?x4xf32>, %xt = %x : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x8x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %zero = arith.constant 0.0 : f32
    %half = arith.constant 0.5 : f32
    %minus = arith.constant -1.0 : f32
    %positive = arith.cmpf ogt, %xt, %zero : f32
    %far = arith.cmpf ogt, %xt, %half : f32
    // Two results, one of a nested branch; the third is not used.
    %g, %k1, %unused = scf.if %positive -> (f32, vector<8xf32>, f32) {
      %l = math.log %xt : f32
      %low = arith.minimumf %l, %zero : f32
      %g0 = scf.if %far -> f32 {
        %m = arith.mulf %low, %half : f32
        scf.yield %m : f32
      } else {
        scf.yield %low : f32
      }
      scf.yield %g0, %kt, %low : f32, vector<8xf32>, f32
    } else {
      %s = vector.broadcast %half : f32 to vector<8xf32>
      %kh = arith.mulf %kt, %s : vector<8xf32>
      %e = math.exp %xt : f32
      %n = arith.mulf %minus, %e : f32
      scf.yield %n, %kh, %e : f32, vector<8xf32>, f32
    }
    %S1 = ejk.decay %S by %g along head : vector<8x4xf32>, f32
    %S2 = ejk.outer_add %S1, %k1, %vt : vector<8x4xf32>, vector<8xf32>, vector<4xf32>
    %r = ejk.read %S2, %qt along key : vector<8x4xf32>, vector<8xf32>
    // A branch on what was read.
    %out = scf.if %far -> vector<4xf32> {
      %t = math.tanh %r : vector<4xf32>
      scf.yield %t : vector<4xf32>
    } else {
      scf.yield %r : vector<4xf32>
    }
    ejk.yield states(%S2 : vector<8x4xf32>) outputs(%out : vector<4xf32>)
  }
  return %o, %ht : tensor<?x?x?x4xf32>, tensor<?x?x8x4xf32>
}
