// Programs that skip heads, and results that start as other tensors: round trips.
// RUN: ejk-opt %s | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --mlir-print-op-generic | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --emit-bytecode -o %t.bc
// RUN: ejk-opt %t.bc | FileCheck %s

// CHECK-LABEL: func.func @shared
// CHECK:         tile.program chunk 16 slices 1 sequences(%{{.*}}) skipping(%{{.*}} : tensor<?x?xf32>) outputs(tensor<?x?x?xf32>) finals(tensor<?x?xf32>) {
// CHECK:         tile.program chunk 16 slices 1 sequences(%{{.*}}) skipping(%{{.*}} : tensor<?x?xf32>) into(%{{.*}}, %{{.*}} : tensor<?x?x?xf32>, tensor<?x?xf32>) at [0, 1] outputs(
func.func @shared(%x: tensor<?x?x?xf32>, %weak: tensor<?x?xf32>, %strong: tensor<?x?xf32>) -> (tensor<?x?x?xf32>, tensor<?x?xf32>) {
  %a:2 = tile.program chunk 16 slices 1 sequences(%x : tensor<?x?x?xf32>) skipping(%strong : tensor<?x?xf32>)
      outputs(tensor<?x?x?xf32>) finals(tensor<?x?xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %hr: !tile.slots<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  %b:2 = tile.program chunk 16 slices 1 sequences(%x : tensor<?x?x?xf32>) skipping(%weak : tensor<?x?xf32>)
      into(%a#0, %a#1 : tensor<?x?x?xf32>, tensor<?x?xf32>) at [0, 1] outputs(tensor<?x?x?xf32>) finals(tensor<?x?xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %hr: !tile.slots<f32>, %length: index, %slice: index, %head: index, %heads: index):
    tile.end
  }
  return %b#0, %b#1 : tensor<?x?x?xf32>, tensor<?x?xf32>
}
