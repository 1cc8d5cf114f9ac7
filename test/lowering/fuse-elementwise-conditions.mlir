// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --device cuda --random d0=100 --check | FileCheck %s
// RUN: ejk-opt %s --ejk-specialize --ejk-to-gpu | FileCheck %s --check-prefix=KERNELS
// A condition of several kernels is computed in each of them, since no kernel stores it.

// CHECK: check a: pass
// CHECK: check b: pass
// CHECK: check c: pass

// KERNELS-NOT: memref<{{.*}}xi1
func.func @f(%x: tensor<?xf32> {ejk.name = "x"}, %y: tensor<?xf32> {ejk.name = "y"})
    -> (tensor<?xf32> {ejk.name = "a"}, tensor<?xf32> {ejk.name = "b"}, tensor<?xf32> {ejk.name = "c"}) {
  %above = arith.cmpf ogt, %x, %y : tensor<?xf32>
  %equal = arith.cmpf oeq, %x, %y : tensor<?xf32>
  %either = arith.ori %above, %equal : tensor<?xi1>
  %a = arith.select %above, %x, %y : tensor<?xi1>, tensor<?xf32>
  %e = math.exp %y : tensor<?xf32>
  %b = arith.select %either, %e, %x : tensor<?xi1>, tensor<?xf32>
  %s = arith.mulf %a, %b : tensor<?xf32>
  %c = arith.select %either, %s, %e : tensor<?xi1>, tensor<?xf32>
  return %a, %b, %c : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
