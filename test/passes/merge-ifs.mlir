// A key gate's derivative, both of whose walks ask whether a chunk's gates are too strong.
// RUN: ejk-opt %s --ejk-backward --ejk-to-tile --ejk-fuse-programs 2>/dev/null | FileCheck %s --check-prefix=BEFORE
// RUN: ejk-opt %s --ejk-backward --ejk-to-tile --ejk-fuse-programs --ejk-merge-ifs 2>/dev/null | FileCheck %s

// The numbers are those of the recurrences of chunk-saves.mlir: gates of every kind, packed
// sequences, both directions, before and after.
// RUN: ejk-opt %S/chunk-saves.mlir --ejk-backward=checkpoint-every=64 --ejk-to-tile --ejk-fuse-programs --ejk-merge-ifs --ejk-interpret -o /dev/null 2>/dev/null
// RUN: sed 's/max_relative 1.0e-10/max_relative 4.0e-3/' %S/chunk-saves.mlir > %t.native.mlir
// RUN: ejk-opt %t.native.mlir --ejk-backward=checkpoint-every=64 --ejk-to-tile --ejk-fuse-programs --ejk-merge-ifs --ejk-interpret=precision=native -o /dev/null 2>/dev/null

// BEFORE-LABEL: func.func @f_vjp(
// BEFORE:         tile.program
// BEFORE:         tile.program
// BEFORE-COUNT-2:   tile.guarded

// One branch, in which each tile is made once: e^x and e^-x, and the products of the cotangent
// and the values, which the one walk takes as they are and the other transposed.
// CHECK-LABEL: func.func @f_vjp(
// CHECK:         tile.program
// CHECK:         tile.program
// CHECK:           %[[X:.*]] = tile.cumsum %{{.*}} from 32
// CHECK:           %[[SMALL:.*]] = tile.range_guard 6.400000e+01 of %[[X]],
// CHECK-NOT:       tile.range_guard
// CHECK:           tile.guarded %[[SMALL]]
// CHECK-COUNT-2:     math.exp %{{.*}} : vector<64x64xf32>
// CHECK-NOT:         math.exp %{{.*}} : vector<64x64xf32>
// CHECK:           } exact {
// CHECK-NOT:       tile.guarded
// CHECK-COUNT-4:   tile.store
// CHECK:         return
func.func @f(%q: tensor<?x?x4x64xbf16>, %k: tensor<?x?x4x64xbf16>, %v: tensor<?x?x4x64xbf16>,
             %gk: tensor<?x?x4x64xbf16>) -> tensor<?x?x4x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x4x64xbf16>)
      : tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>, tensor<?x?x4x64xbf16>
      -> tensor<?x?x4x64xbf16>, tensor<?x4x64x64xf32>
  return %o : tensor<?x?x4x64xbf16>
}

// What the second branch needs of the first keeps both, as does what is stored in one.
// CHECK-LABEL: func.func @apart(
// CHECK-COUNT-2: tile.guarded
// CHECK:         return
func.func @apart(%x: tensor<1x64x1x64xf32>) -> tensor<1x64x1x64xf32> {
  %y = tile.program chunk 64 slices 1 sequences(%x : tensor<1x64x1x64xf32>) outputs(tensor<1x64x1x64xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xf32>>, %out: !tile.rows<vector<64xf32>>, %n: index,
       %b: index, %h: index, %s: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %rows[%c0, %c0] : <vector<64xf32>> -> vector<64x64xf32>
    %small = tile.range_guard 1.0 of %t : vector<64x64xf32>
    %a = tile.guarded %small -> (vector<64x64xf32>) fast {
      %e = math.exp %t : vector<64x64xf32>
      tile.yield %e : vector<64x64xf32>
    } exact {
      tile.yield %t : vector<64x64xf32>
    }
    %twice = arith.addf %a, %a : vector<64x64xf32>
    tile.guarded %small fast {
      tile.store %twice, %out[%c0, %c0] : vector<64x64xf32>, <vector<64xf32>>
    } exact {
      tile.store %t, %out[%c0, %c0] : vector<64x64xf32>, <vector<64xf32>>
    }
    tile.end
  }
  return %y : tensor<1x64x1x64xf32>
}

// Three of one condition are one.
// CHECK-LABEL: func.func @three(
// CHECK:         tile.guarded
// CHECK-NOT:     tile.guarded
// CHECK:         return
func.func @three(%x: tensor<1x64x1x64xf32>) -> (tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>) {
  %y:3 = tile.program chunk 64 slices 1 sequences(%x : tensor<1x64x1x64xf32>) outputs(tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xf32>>, %out: !tile.rows<vector<64xf32>>, %out2: !tile.rows<vector<64xf32>>, %out3: !tile.rows<vector<64xf32>>, %n: index,
       %b: index, %h: index, %s: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %rows[%c0, %c0] : <vector<64xf32>> -> vector<64x64xf32>
    %small = tile.range_guard 1.0 of %t : vector<64x64xf32>
    %a = tile.guarded %small -> (vector<64x64xf32>) fast {
      %e = math.exp %t : vector<64x64xf32>
      tile.yield %e : vector<64x64xf32>
    } exact {
      tile.yield %t : vector<64x64xf32>
    }
    tile.store %a, %out[%c0, %c0] : vector<64x64xf32>, <vector<64xf32>>
    %a2 = tile.guarded %small -> (vector<64x64xf32>) fast {
      %e = math.exp2 %t : vector<64x64xf32>
      tile.yield %e : vector<64x64xf32>
    } exact {
      tile.yield %t : vector<64x64xf32>
    }
    tile.store %a2, %out2[%c0, %c0] : vector<64x64xf32>, <vector<64xf32>>
    %a3 = tile.guarded %small -> (vector<64x64xf32>) fast {
      %e = math.absf %t : vector<64x64xf32>
      tile.yield %e : vector<64x64xf32>
    } exact {
      tile.yield %t : vector<64x64xf32>
    }
    tile.store %a3, %out3[%c0, %c0] : vector<64x64xf32>, <vector<64xf32>>
    tile.end
  }
  return %y#0, %y#1, %y#2 : tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>
}

// What is stored meanwhile is not loaded before.
// CHECK-LABEL: func.func @loaded(
// CHECK:         tile.guarded
// CHECK:         tile.store
// CHECK:         tile.load
// CHECK:         tile.guarded
// CHECK:         return
func.func @loaded(%x: tensor<1x64x1x64xf32>) -> (tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>) {
  %y:3 = tile.program chunk 64 slices 1 sequences(%x : tensor<1x64x1x64xf32>) outputs(tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>) {
  ^bb0(%rows: !tile.rows<vector<64xf32>>, %out: !tile.rows<vector<64xf32>>, %out2: !tile.rows<vector<64xf32>>, %out3: !tile.rows<vector<64xf32>>, %n: index,
       %b: index, %h: index, %s: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %rows[%c0, %c0] : <vector<64xf32>> -> vector<64x64xf32>
    %small = tile.range_guard 1.0 of %t : vector<64x64xf32>
    %a = tile.guarded %small -> (vector<64x64xf32>) fast {
      %e = math.exp %t : vector<64x64xf32>
      tile.yield %e : vector<64x64xf32>
    } exact {
      tile.yield %t : vector<64x64xf32>
    }
    tile.store %a, %out[%c0, %c0] : vector<64x64xf32>, <vector<64xf32>>
    %t2 = tile.load %out[%c0, %c0] : <vector<64xf32>> -> vector<64x64xf32>
    %a2 = tile.guarded %small -> (vector<64x64xf32>) fast {
      %e = math.exp2 %t2 : vector<64x64xf32>
      tile.yield %e : vector<64x64xf32>
    } exact {
      tile.yield %t : vector<64x64xf32>
    }
    tile.store %a2, %out2[%c0, %c0] : vector<64x64xf32>, <vector<64xf32>>
    %a3 = tile.guarded %small -> (vector<64x64xf32>) fast {
      %e = math.absf %t : vector<64x64xf32>
      tile.yield %e : vector<64x64xf32>
    } exact {
      tile.yield %t : vector<64x64xf32>
    }
    tile.store %a3, %out3[%c0, %c0] : vector<64x64xf32>, <vector<64xf32>>
    tile.end
  }
  return %y#0, %y#1, %y#2 : tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>, tensor<1x64x1x64xf32>
}
