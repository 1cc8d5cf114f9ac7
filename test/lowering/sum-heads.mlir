// The sum of gradients over the query heads that share a key head: a thread has four channels, in loads
// of 16 bytes, where they are a multiple of four, and else one.
// RUN: ejk-compile %s --emit=gpu --vjp --schedule=step --arch=sm_80 | FileCheck %s

// CHECK-LABEL: gpu.func @shared_vjp_heads0(
// CHECK:         scf.for
// CHECK:           llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK:         arith.truncf {{.*}} : vector<4xf32> to vector<4xbf16>
// CHECK:         llvm.store {{.*}} {alignment = 8 : i64} : vector<4xbf16>, !llvm.ptr<1>
// CHECK-LABEL: gpu.func @shared_vjp_heads1(
// CHECK:           llvm.load {{.*}} : !llvm.ptr<1> -> f32
func.func @shared(%q: tensor<?x?x?x16xbf16>, %k: tensor<?x?x?x16xbf16>, %v: tensor<?x?x?x6xbf16>) -> tensor<?x?x?x6xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v : tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>, tensor<?x?x?x6xbf16>
      -> tensor<?x?x?x6xbf16>, tensor<?x?x16x6xf32>
  return %o : tensor<?x?x?x6xbf16>
}
