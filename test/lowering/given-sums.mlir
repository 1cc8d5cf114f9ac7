// RUN: ejk-compile %s --vjp --arch=sm_90a --schedule=chunk --emit=tile -o - | FileCheck %s

// The gradients of u = b (v - r) take r into v - r alone. So f_fwd gives that, in the place of r, and no kernel of f_vjp loads v. One for
// few heads takes two terms of r that it computes itself.

// CHECK-LABEL: func.func @f_fwd(
// CHECK: %[[Z:.*]] = tile.solve
// CHECK: %[[SUM:.*]] = arith.negf %[[Z]]
// CHECK: tile.store %[[SUM]], %{{.*}} : vector<64x128xf32>

// CHECK-LABEL: func.func @f_vjp(
// CHECK: tile.program
// CHECK: ^bb0(%[[V:[^:]*]]: !tile.rows<vector<128xbf16>>,
// CHECK-NOT: tile.load %[[V]][
// CHECK: tile.end
// CHECK: tile.program
// CHECK: ^bb0(%[[V2:[^:]*]]: !tile.rows<vector<128xbf16>>,
// CHECK-NOT: tile.load %[[V2]][
// CHECK: tile.end
func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %beta: tensor<?x?x?xf32>, %g: tensor<?x?x?xf32>)
    -> tensor<?x?x?x128xbf16> {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o : tensor<?x?x?x128xbf16>
}
