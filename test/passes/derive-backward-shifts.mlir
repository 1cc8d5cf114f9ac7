// The cotangents of rows of other steps: rows go back the other way, and what came from a halo to it.
// RUN: ejk-opt %s --ejk-derive-backward --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @earlier_vjp(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x?x4xf32>{{.*}}, %[[H:.*]]: tensor<?x3x?x4xf32>{{.*}}, %[[D:.*]]: tensor<?x?x?x4xf32>
// CHECK: %[[DY:.*]] = ejk.scan
// CHECK-DAG: %[[DX:.*]] = ejk.shift %[[DY]] by -2 : tensor<?x?x?x4xf32>
// CHECK-DAG: %[[DH:.*]] = ejk.last_rows reverse %[[DY]] beyond 1 : tensor<?x?x?x4xf32> -> tensor<?x3x?x4xf32>
// CHECK: return %[[DX]], %[[DH]]
func.func @earlier(%x: tensor<?x?x?x4xf32>, %h: tensor<?x3x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %y = ejk.shift %x by 2 halo(%h : tensor<?x3x?x4xf32>) : tensor<?x?x?x4xf32>
  %o, %ht = ejk.scan sequences(%yt = %y : tensor<?x?x?x4xf32>)
      states(%s = zero : tensor<?x?xf32>) -> (tensor<?x?x?x4xf32>) {
    ejk.yield states(%s : f32) outputs(%yt : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// CHECK-LABEL: func.func @last_vjp(
// CHECK-SAME: %[[X:.*]]: tensor<1x?x?x4xbf16>{{.*}}, %[[H:.*]]: tensor<?x3x?x4xbf16>{{.*}}, %[[CU:.*]]: tensor<?xi32>{{.*}}, %{{.*}}: tensor<1x?x?x4xbf16>{{.*}}, %[[D:.*]]: tensor<?x3x?x4xbf16>
// CHECK: %[[E:.*]] = tensor.empty
// CHECK: ejk.last_rows reverse zeros %{{.*}} halo(%[[DF:.*]] : tensor<?x3x?x4xf32>) cu_seqlens(%[[CU]] : tensor<?xi32>) : tensor<1x?x?x4xf32> -> tensor<?x3x?x4xf32>
func.func @last(%x: tensor<1x?x?x4xbf16>, %h: tensor<?x3x?x4xbf16>, %cu: tensor<?xi32>) -> (tensor<1x?x?x4xbf16>, tensor<?x3x?x4xbf16>) {
  %l = ejk.last_rows %x halo(%h : tensor<?x3x?x4xbf16>) cu_seqlens(%cu : tensor<?xi32>) : tensor<1x?x?x4xbf16> -> tensor<?x3x?x4xbf16>
  %o, %ht = ejk.scan cu_seqlens(%cu : tensor<?xi32>) sequences(%xt = %x : tensor<1x?x?x4xbf16>)
      states(%s = zero : tensor<?x?xf32>) -> (tensor<1x?x?x4xbf16>) {
    ejk.yield states(%s : f32) outputs(%xt : vector<4xbf16>)
  }
  return %o, %l : tensor<1x?x?x4xbf16>, tensor<?x3x?x4xbf16>
}
