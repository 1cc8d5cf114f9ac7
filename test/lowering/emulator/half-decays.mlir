// The adjoint state at the start of f16 sequences is not zero because a first gate is beyond f16's range, e^-9.7: the
// gate multiplies the sum of outer products, not their rows.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_90a --device cuda --random B=1,T=70,H=2 --vjp --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --schedule=chunk --arch=sm_80 --device cuda --random B=1,T=5,H=2 --vjp --check | FileCheck %s
// The last rows of a reverse scan's adjoint are those of a chunk that the sequence's end cuts short.
// RUN: sed 's/ejk.recurrent/ejk.recurrent reverse/' %s > %t.mlir
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %t.mlir --schedule=chunk --arch=sm_90a --device cuda --random B=1,T=70,H=2 --vjp --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %t.mlir --schedule=chunk --arch=sm_80 --device cuda --random B=1,T=5,H=2 --vjp --check | FileCheck %s

// CHECK: check dq: pass
// CHECK: check dg: pass
// CHECK: check dh0: pass
func.func @strong(%q: tensor<?x?x?x16xf16>, %k: tensor<?x?x?x16xf16>, %v: tensor<?x?x?x16xf16>, %g: tensor<?x?x?xf32>,
                  %h0: tensor<?x?x16x16xf32>) -> (tensor<?x?x?x16xf16>, tensor<?x?x16x16xf32>) {
  %twenty = arith.constant 20.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %B = tensor.dim %g, %c0 : tensor<?x?x?xf32>
  %T = tensor.dim %g, %c1 : tensor<?x?x?xf32>
  %H = tensor.dim %g, %c2 : tensor<?x?x?xf32>
  %e = tensor.empty(%B, %T, %H) : tensor<?x?x?xf32>
  %all = linalg.fill ins(%twenty : f32) outs(%e : tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
  %strong = arith.subf %g, %all : tensor<?x?x?xf32>
  %o, %ht = ejk.recurrent %q, %k, %v g(%strong : tensor<?x?x?xf32>) initial_state(%h0 : tensor<?x?x16x16xf32>)
      : tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16>, tensor<?x?x?x16xf16> -> tensor<?x?x?x16xf16>, tensor<?x?x16x16xf32>
  return %o, %ht : tensor<?x?x?x16xf16>, tensor<?x?x16x16xf32>
}
