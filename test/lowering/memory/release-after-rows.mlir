// TMA could overtake loads that are still outstanding when a stage is released. The exact path of a recurrence that gives
// its final state alone loads rows last, and no barrier follows: a fence does.
// RUN: ejk-compile %s --schedule=chunk --arch=sm_90a --emit=plan -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: sed '/^ *tile.fence$/{N;/tile.release/s/.*\n//;}' %t.mlir > %t.without.mlir
// RUN: not ejk-opt %t.without.mlir --ejk-check-races 2>&1 | FileCheck %s --check-prefix=WITHOUT
// CHECK: tile.guarded
// CHECK: exact {
// CHECK: vector.extract
// CHECK-NOT: tile.barrier
// CHECK: tile.fence
// CHECK-NEXT: tile.release
// WITHOUT: error: races in shared memory: a fence is missing between '{{.*}}' and an earlier access
// WITHOUT: note: 'vector.extract' reads there
func.func @f(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>,
             %g: tensor<?x?x?x128xbf16>) -> tensor<?x?x128x128xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?x128xbf16>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %ht : tensor<?x?x128x128xf32>
}
