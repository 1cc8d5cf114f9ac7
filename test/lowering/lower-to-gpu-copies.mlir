// What a function returns of its arguments is copied by a kernel, whatever dialects the file uses: the
// pass loads those that it makes ops of.
// RUN: ejk-opt %s --ejk-describe-interface --ejk-lower-to-gpu | FileCheck %s
// RUN: ejk-opt %s --ejk-describe-interface --ejk-lower-to-cpu | FileCheck %s --check-prefix=CPU
// CPU-LABEL: func.func @same
// CPU: gpu.launch_func
// CHECK-LABEL: gpu.func @same
// CHECK: %[[X:.*]] = llvm.load
// CHECK: llvm.store %[[X]]
// CHECK-LABEL: func.func @same
// CHECK: gpu.launch_func
func.func @same(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}
