// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step %s --vjp --device cuda --random d0=300 --check | FileCheck %s
// Derivatives with several operands compile between recurrences: what was taken is decided
// where it is used, since no condition passes from one kernel to another.

// CHECK-DAG: check dx: pass
// CHECK-DAG: check dy: pass
// CHECK-DAG: check dz: pass
func.func @f(%x: tensor<?xf32> {ejk.name = "x"}, %y: tensor<?xf32> {ejk.name = "y"},
             %z: tensor<?xf32> {ejk.name = "z"}) -> tensor<?xf32> {
  %larger = arith.maximumf %x, %y : tensor<?xf32>
  %smaller = arith.minnumf %y, %z : tensor<?xf32>
  %clamped = math.clampf %x to [%y, %z] : tensor<?xf32>
  %angle = math.atan2 %larger, %smaller : tensor<?xf32>
  %size = math.absf %x : tensor<?xf32>
  %power = math.powf %size, %y : tensor<?xf32>
  %sum = arith.addf %angle, %clamped : tensor<?xf32>
  %all = arith.addf %sum, %power : tensor<?xf32>
  return %all : tensor<?xf32>
}
