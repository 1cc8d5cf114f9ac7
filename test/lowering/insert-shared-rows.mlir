// On the exact path a row that lies in shared memory is put into a matrix of registers: other warps wrote the row, so
// that a barrier stands between. The emulator notices a read of what is not yet written.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --vjp --save-states --schedule=chunk --arch=sm_90a --device=cuda --random B=1,T=14,H=1 --check 2>/dev/null | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device=cuda --random B=1,T=14,H=1 --check 2>/dev/null | FileCheck %s --check-prefix=FORWARD
// FORWARD: check o: pass
// CHECK: check dk: pass
// CHECK: check dv: pass

// RUN: ejk-compile %s --vjp --save-states --schedule=chunk --arch=sm_90a --emit=plan -o - 2>/dev/null | FileCheck %s --check-prefix=PLAN
// PLAN-LABEL: func.func @wide(
// PLAN:         exact
// PLAN:         %[[ROW:.*]] = tile.convert %{{.*}} to <shared at {{[0-9]+}}> : vector<512xf32>
// PLAN-NEXT:    tile.barrier
// PLAN-NEXT:    vector.insert %[[ROW]],
func.func @wide(%q: tensor<?x?x?x7xf16>, %k: tensor<?x?x?x7xf16>, %v: tensor<?x?x?x512xf16>, %b: tensor<?x?x?xf32>,
                %x: tensor<?x?x?x7xf16>) -> (tensor<?x?x?x512xf16> {ejk.name = "o"}) {
  %o, %ht = ejk.scan
      sequences(%vt = %v : tensor<?x?x?x512xf16>, %qt = %q : tensor<?x?x?x7xf16>, %kt = %k : tensor<?x?x?x7xf16>,
                %bt = %b : tensor<?x?x?xf32>, %xt = %x : tensor<?x?x?x7xf16>)
      states(%S = zero : tensor<?x?x7x512xf32>) -> (tensor<?x?x?x512xf16>) {
    %vw = arith.extf %vt : vector<512xf16> to vector<512xf32>
    %qw = arith.extf %qt : vector<7xf16> to vector<7xf32>
    %ke = arith.extf %kt : vector<7xf16> to vector<7xf32>
    %xw = arith.extf %xt : vector<7xf16> to vector<7xf32>
    %third = arith.constant dense<0.3> : vector<7xf32>
    %kw = arith.mulf %ke, %third : vector<7xf32>
    // Too strong for the matmuls.
    %far = arith.constant dense<-40.0> : vector<7xf32>
    %abs = math.absf %xw : vector<7xf32>
    %gate = arith.mulf %abs, %far : vector<7xf32>
    %S1 = ejk.decay %S by %gate along key : vector<7x512xf32>, vector<7xf32>
    %r = ejk.read %S1, %kw along key : vector<7x512xf32>, vector<7xf32>
    %left = arith.subf %vw, %r : vector<512xf32>
    %bs = vector.broadcast %bt : f32 to vector<512xf32>
    %u = arith.mulf %bs, %left : vector<512xf32>
    %S2 = ejk.outer_add %S1, %kw, %u : vector<7x512xf32>, vector<7xf32>, vector<512xf32>
    %ow = ejk.read %S2, %qw along key : vector<7x512xf32>, vector<7xf32>
    %on = arith.truncf %ow : vector<512xf32> to vector<512xf16>
    ejk.yield states(%S2 : vector<7x512xf32>) outputs(%on : vector<512xf16>)
  }
  return %o : tensor<?x?x?x512xf16>
}
