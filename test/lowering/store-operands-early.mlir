// Products of rows that become a matmul's operand in shared memory are stored there before the matmuls
// that run in between: of a delta rule q kᵀ, which is computed one iteration early, before what is solved.
// RUN: ejk-compile %s --schedule=chunk --arch=sm_90a --partition-warps=false --emit=plan -o - 2>/dev/null | FileCheck %s
// CHECK: scf.for {{.*}} iter_args(%{{[a-z0-9]+}} = %{{[a-z0-9]+}}, %{{[a-z0-9]+}} = %{{[a-z0-9]+}}, %[[QK:[a-z0-9]+]] = %{{[0-9]+}}, {{.*}}) ->
// CHECK: %[[P:[0-9]+]] = arith.mulf %[[QK]],
// CHECK: %[[P1:[0-9]+]] = arith.truncf %[[P]]
// CHECK: tile.convert %[[P1]] to <swizzled at {{[0-9]+}}{{.*}}>
// CHECK: tile.invert_diagonal
// CHECK: tile.dot

// Where shared memory is short they are stored before the first matmul: a function that gives r as well.
// RUN: ejk-compile %s --vjp --schedule=chunk --arch=sm_90a --emit=plan -o - 2>/dev/null | FileCheck %s --check-prefix=LATE
// LATE-LABEL: func.func @delta_fwd(
// LATE: scf.for {{.*}} iter_args(%{{[a-z0-9]+}} = %{{[a-z0-9]+}}, %{{[a-z0-9]+}} = %{{[a-z0-9]+}}, %[[QK:[a-z0-9]+]] = %{{[0-9]+}}, {{.*}}) ->
// LATE: tile.invert_diagonal
// LATE: %[[P:[0-9]+]] = arith.mulf %[[QK]],
// LATE: %[[P1:[0-9]+]] = arith.truncf %[[P]]
// LATE: tile.convert %[[P1]] to <swizzled at {{[0-9]+}}{{.*}}>
// LATE: tile.dot

// What is solved backwards is stored before the state that the chunk is entered with is read.
// LATE-LABEL: func.func @delta_vjp(
// LATE: scf.for {{.*}} iter_args(%{{[a-z0-9]+}} = %{{[a-z0-9]+}}, %[[KK:[a-z0-9]+]] = %{{[0-9]+}}, {{.*}}) ->
// LATE: arith.mulf %[[KK]],
// LATE: tile.invert_diagonal
// LATE: tile.dot
func.func @delta(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>, %beta: tensor<?x?x?xf32>,
                 %g: tensor<?x?x?xf32>) -> (tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
