// A sum that starts anew from a saved state is a read of the state of one size that the scan of the other takes as a
// sequence. To compute it again would need that state again, and the scan would never come apart.
// RUN: ejk-opt %s --ejk-derive-backward --ejk-specialize --ejk-split-states | FileCheck %s
// RUN: ejk-opt %s --ejk-derive-backward -o %t.mlir
// RUN: ejk-run %t.mlir --entry=f_vjp --device=cpu --check --random=B=2,T=40 | FileCheck %s --check-prefix=NUMBERS
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %t.mlir --entry=f_vjp --device=cuda --schedule=step --check --random=B=2,T=40 | FileCheck %s --check-prefix=NUMBERS
// NUMBERS: check darg0: pass
// NUMBERS: check darg1: pass
// NUMBERS: check darg2: pass

// CHECK-LABEL: func.func @f_vjp(
// CHECK: ejk.scan
// CHECK: ejk.scan reverse
// CHECK: states(%{{.*}} = zero : tensor<?x2x8x4xf32>
// CHECK: ejk.checkpoint
// CHECK: ejk.scan reverse
// CHECK-NOT: tensor<?x2x8x4xf32>
// CHECK: ejk.yield
func.func @f(%a: tensor<?x?x2x4xf32>, %b: tensor<?x?x2x8xf32>, %p: tensor<8xf32>) -> (tensor<?x?x2x8xf32>, tensor<?x2x8x8xf32>) {
  %o, %f0, %f1 = ejk.scan sequences(%x = %a : tensor<?x?x2x4xf32>, %y = %b : tensor<?x?x2x8xf32>)
      parameters(%w = %p : tensor<8xf32> as vector<8xf32>)
      states(%S = zero : tensor<?x2x8x8xf32>, %R = zero : tensor<?x2x8x4xf32>) -> (tensor<?x?x2x8xf32>) {
    %S1 = ejk.outer_add %S, %y, %w : vector<8x8xf32>, vector<8xf32>, vector<8xf32>
    %R1 = ejk.outer_add %R, %w, %x : vector<8x4xf32>, vector<8xf32>, vector<4xf32>
    %R2 = ejk.decay %R1 by %y along key : vector<8x4xf32>, vector<8xf32>
    %z = ejk.read %R2, %x along value : vector<8x4xf32>, vector<4xf32>
    ejk.yield states(%S1, %R2 : vector<8x8xf32>, vector<8x4xf32>) outputs(%z : vector<8xf32>)
  }
  return %o, %f0 : tensor<?x?x2x8xf32>, tensor<?x2x8x8xf32>
}
