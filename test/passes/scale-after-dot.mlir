// A saved state that a key gate decays to where a chunk's products are taken.
// RUN: ejk-opt %s --ejk-backward --ejk-to-tile --ejk-fuse-programs --ejk-merge-ifs --ejk-scale-after-dot 2>/dev/null | FileCheck %s

// The numbers are those of the recurrences of chunk-saves.mlir, before and after.
// RUN: ejk-opt %S/chunk-saves.mlir --ejk-backward=checkpoint-every=64 --ejk-to-tile --ejk-fuse-programs --ejk-scale-after-dot --ejk-interpret -o /dev/null 2>/dev/null
// RUN: sed 's/max_relative 1.0e-10/max_relative 4.0e-3/' %S/chunk-saves.mlir > %t.native.mlir
// RUN: ejk-opt %t.native.mlir --ejk-backward=checkpoint-every=64 --ejk-to-tile --ejk-fuse-programs --ejk-scale-after-dot --ejk-interpret=precision=native -o /dev/null 2>/dev/null

// Its rows, which the result has along columns, are scaled there.
// CHECK-LABEL: func.func @keys_vjp(
// CHECK:         tile.program
// CHECK:         tile.program
// CHECK:           %[[S:.*]] = tile.load_slot {{.*}} -> vector<64x64xbf16>
// CHECK:           tile.guarded
// CHECK:             %[[R:.*]] = tile.dot %{{.*}}, %[[S]] transposed, %
// CHECK:             %[[F:.*]] = tile.broadcast %{{.*}} along 1 : vector<64xf32> -> vector<64x64xf32>
// CHECK:             %[[T:.*]] = arith.mulf %[[R]], %[[F]]
// CHECK:             tile.dot %{{.*}}, %{{.*}}, %[[T]]
func.func @keys(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>,
                %gk: tensor<?x?x4x64xbf16>) -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x4x64xbf16>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x?x4x64xbf16>
}

// Its columns are summed over: they are scaled in it.
// CHECK-LABEL: func.func @values_vjp(
// CHECK:         tile.program
// CHECK:         tile.program
// CHECK:           %[[S:.*]] = tile.load_slot {{.*}} -> vector<64x64xbf16>
// CHECK:           %[[W:.*]] = arith.extf %[[S]]
// CHECK:           tile.guarded
// CHECK:             %[[F:.*]] = tile.broadcast %{{.*}} along 1
// CHECK:             %[[T:.*]] = arith.mulf %[[W]], %[[F]]
// CHECK:             %[[R:.*]] = arith.truncf %[[T]]
// CHECK:             tile.dot %{{.*}}, %[[R]] transposed, %
func.func @values(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>,
                  %gv: tensor<?x?x4x64xbf16>) -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gv(%gv : tensor<?x?x4x64xbf16>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x?x4x64xbf16>
}
