// A fast path behind a range guard: round trips, and the canonical form.
// RUN: ejk-opt %s | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --mlir-print-op-generic | ejk-opt | FileCheck %s
// RUN: ejk-opt %s --emit-bytecode -o %t.bc
// RUN: ejk-opt %t.bc | FileCheck %s
// RUN: ejk-opt %s --canonicalize | FileCheck %s --check-prefix=CANON

// CHECK-LABEL: func.func @round_trip
// CHECK:         %[[OK:.*]] = tile.range_guard
// CHECK:         tile.guarded %[[OK]] -> (vector<16x16xf32>, i1) fast {
// CHECK:           tile.yield %{{.*}}, %[[OK]] : vector<16x16xf32>, i1
// CHECK-NEXT:    } exact {
// CHECK:           tile.yield
// CHECK-NEXT:    } {tile.layouts = [#tile.layout<lanes>, unit]}
// CHECK:         tile.guarded %[[OK]] fast {
// CHECK-NEXT:      tile.store
// CHECK-NEXT:    } exact {
// CHECK-NEXT:    }
func.func @round_trip(%x: vector<16x16xf32>, %rows: !tile.rows<vector<16xf32>>, %c: index)
    -> (vector<16x16xf32>, i1) {
  %ok = tile.range_guard 64.0 of %x : vector<16x16xf32>
  %y:2 = tile.guarded %ok -> (vector<16x16xf32>, i1) fast {
    %e = math.exp %x : vector<16x16xf32>
    tile.yield %e, %ok : vector<16x16xf32>, i1
  } exact {
    tile.yield %x, %ok : vector<16x16xf32>, i1
  } {tile.layouts = [#tile.layout<lanes>, unit]}
  tile.guarded %ok fast {
    tile.store %x, %rows[%c, %c] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
  } exact {
  }
  return %y#0, %y#1 : vector<16x16xf32>, i1
}

// Two adjacent ones with one guard become one. An unused result goes, and what both paths yield from
// before the op is selected before it.
// CANON-LABEL: func.func @canonical
// CANON:         %[[OK:.*]] = tile.range_guard
// CANON:         %[[OUTER:.*]] = arith.select %[[OK]], %{{.*}}, %{{.*}} : vector<16x16xf32>
// CANON-NEXT:    %[[R:.*]] = tile.guarded %[[OK]] -> (vector<16x16xf32>) fast {
// CANON-NEXT:      %[[E:.*]] = math.exp
// CANON-NEXT:      %[[T:.*]] = arith.addf %[[E]], %[[E]]
// CANON-NEXT:      tile.yield %[[T]] : vector<16x16xf32>
// CANON-NEXT:    } exact {
// CANON-NEXT:      %[[A:.*]] = math.absf
// CANON-NEXT:      tile.yield %[[A]] : vector<16x16xf32>
// CANON-NEXT:    }
// CANON-NEXT:    return %[[R]], %[[OUTER]]
func.func @canonical(%x: vector<16x16xf32>, %z: vector<16x16xf32>) -> (vector<16x16xf32>, vector<16x16xf32>) {
  %ok = tile.range_guard 64.0 of %x : vector<16x16xf32>
  %y:3 = tile.guarded %ok -> (vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>) fast {
    %e = math.exp %x : vector<16x16xf32>
    %none = math.sin %x : vector<16x16xf32>
    tile.yield %e, %none, %x : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
  } exact {
    tile.yield %x, %x, %z : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
  }
  %r = tile.guarded %ok -> (vector<16x16xf32>) fast {
    %t = arith.addf %y#0, %y#0 : vector<16x16xf32>
    tile.yield %t : vector<16x16xf32>
  } exact {
    %a = math.absf %y#0 : vector<16x16xf32>
    tile.yield %a : vector<16x16xf32>
  }
  return %r, %y#2 : vector<16x16xf32>, vector<16x16xf32>
}
