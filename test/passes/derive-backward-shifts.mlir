// The cotangents of rows of other steps: rows go back the other way, and what came from a halo to it.
// RUN: ejk-opt %s --ejk-derive-backward --canonicalize | FileCheck %s

// The derivative's own derivative, by finite differences, of sequences longer and shorter than their halos:
// RUN: ejk-opt %s --ejk-derive-backward=function=squared -o %t.mlir
// RUN: ejk-run %t.mlir --entry=squared_vjp --vjp --device=interpreter --random=B=2,T=7,H=1 --check --finite-differences | FileCheck %s --check-prefix=TWICE --implicit-check-not=FAIL
// RUN: ejk-run %t.mlir --entry=squared_vjp --vjp --device=interpreter --random=B=2,T=1,H=1 --check --finite-differences | FileCheck %s --check-prefix=TWICE --implicit-check-not=FAIL
// TWICE: differences darg0: pass
// TWICE: differences darg1: pass
// TWICE: differences darg2: pass
// TWICE: differences ddout0: pass
// TWICE: check darg0: pass

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

// A window that lies one row further on has one row that the sequence does not have. The two others go back to their place.
// CHECK-LABEL: func.func @window_vjp(
// CHECK-SAME: %[[DA:[a-z0-9]+]]: tensor<?x3x?x4xf32> {ejk.cotangent_of = "out1"{{.*}}, %[[DB:[a-z0-9]+]]: tensor<?x3x?x4xf32>
// CHECK-DAG: ejk.shift zeros %{{.*}} by -2 halo(%[[DA]] : tensor<?x3x?x4xf32>) : tensor<?x?x?x4xf32>
// CHECK-DAG: ejk.shift zeros %{{.*}} by 1 halo(%[[DB]] : tensor<?x3x?x4xf32>) : tensor<?x?x?x4xf32>
func.func @window(%x: tensor<?x?x?x4xf32>) -> (tensor<?x?x?x4xf32>, tensor<?x3x?x4xf32>, tensor<?x3x?x4xf32>) {
  %a = ejk.last_rows %x beyond 1 : tensor<?x?x?x4xf32> -> tensor<?x3x?x4xf32>
  %b = ejk.last_rows reverse %x beyond 2 : tensor<?x?x?x4xf32> -> tensor<?x3x?x4xf32>
  %o = ejk.scan sequences(%xt = %x : tensor<?x?x?x4xf32>) -> (tensor<?x?x?x4xf32>) {
    ejk.yield outputs(%xt : vector<4xf32>)
  }
  return %o, %a, %b : tensor<?x?x?x4xf32>, tensor<?x3x?x4xf32>, tensor<?x3x?x4xf32>
}

// Halos of more rows than the shift needs, forth and back.
// CHECK-LABEL: func.func @squared_vjp(
// CHECK-DAG: ejk.last_rows reverse %{{.*}} beyond 1 :
// CHECK-DAG: ejk.last_rows %{{.*}} beyond 2 :
func.func @squared(%x: tensor<?x?x?x4xf32>, %h: tensor<?x3x?x4xf32>, %g: tensor<?x3x?x4xf32>) -> tensor<?x?x?x4xf32> {
  %y = ejk.shift %x by 2 halo(%h : tensor<?x3x?x4xf32>) : tensor<?x?x?x4xf32>
  %z = ejk.shift %x by -1 halo(%g : tensor<?x3x?x4xf32>) : tensor<?x?x?x4xf32>
  %o = ejk.scan sequences(%yt = %y : tensor<?x?x?x4xf32>, %zt = %z : tensor<?x?x?x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %p = arith.mulf %yt, %yt : vector<4xf32>
    %q = arith.mulf %p, %zt : vector<4xf32>
    ejk.yield outputs(%q : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}
