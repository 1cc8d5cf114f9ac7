// Products of rows that become a matmul's operand in shared memory are stored there before the matmuls
// that run in between: of a delta rule q kᵀ, which is computed one iteration early, before what is solved.
// RUN: ejk-compile %s --schedule=chunk --arch=sm_90a --partition-warps=false --emit=plan -o - 2>/dev/null | FileCheck %s
// CHECK: scf.for {{.*}} iter_args(%{{[a-z0-9]+}} = %{{[a-z0-9]+}}, %{{[a-z0-9]+}} = %{{[a-z0-9]+}}, %[[QK:[a-z0-9]+]] = %{{[0-9]+}}, {{.*}}) ->
// CHECK: %[[P:[0-9]+]] = arith.mulf %[[QK]],
// CHECK: %[[S:[0-9]+]] = arith.mulf %[[P]],
// CHECK: %[[P1:[0-9]+]] = tile.round_to_tf32 %[[S]]
// CHECK: tile.convert %[[P1]] to <swizzled at {{[0-9]+}}{{.*}}>
// CHECK: tile.invert_diagonal
// CHECK: tile.dot

// So they are in a function that gives r as well: inverses take the place of their matrices, so that
// there is room.
// RUN: ejk-compile %s --vjp --schedule=chunk --arch=sm_90a --partition-warps=false --emit=plan -o - 2>/dev/null | FileCheck %s --check-prefix=VJP
// VJP-LABEL: func.func @delta_fwd(
// VJP: scf.for {{.*}} iter_args(%{{[a-z0-9]+}} = %{{[a-z0-9]+}}, %{{[a-z0-9]+}} = %{{[a-z0-9]+}}, %[[QK:[a-z0-9]+]] = %{{[0-9]+}}, {{.*}}) ->
// VJP: %[[P:[0-9]+]] = arith.mulf %[[QK]],
// VJP: %[[D:[0-9]+]] = arith.mulf %[[P]],
// VJP: %[[S:[0-9]+]] = arith.mulf %[[D]],
// VJP: %[[P1:[0-9]+]] = tile.round_to_tf32 %[[S]]
// VJP: tile.convert %[[P1]] to <swizzled at {{[0-9]+}}{{.*}}>
// VJP: tile.invert_diagonal
// VJP: tile.dot

// What is solved backwards is stored before the state that the chunk is entered with is read.
// VJP-LABEL: func.func @delta_vjp(
// VJP: scf.for {{.*}} iter_args(%{{[a-z0-9]+}} = %{{[a-z0-9]+}}, %[[KK:[a-z0-9]+]] = %{{[0-9]+}}, {{.*}}) ->
// VJP: arith.mulf %[[KK]],
// VJP: tile.invert_diagonal
// VJP: tile.dot
func.func @delta(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %beta: tensor<?x?x?xf32>,
                 %g: tensor<?x?x?xf32>) -> (tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
