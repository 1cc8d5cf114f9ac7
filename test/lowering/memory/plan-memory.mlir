// RUN: ejk-opt %s --ejk-assign-tile-layouts --ejk-plan-memory --ejk-check-races | FileCheck %s
// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-assign-tile-layouts --ejk-plan-memory --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-assign-tile-layouts --ejk-plan-memory --ejk-interpret=precision=native -o /dev/null
// A plan has a place for each tile in shared memory, and every barrier. It computes the same numbers.

// What one op would store and load again is two, with a barrier between them.
// CHECK-LABEL: func.func @parts
func.func @parts() {
  %q = arith.constant dense<1.0> : tensor<1x64x1x64xbf16>
  // CHECK: tile.program {{.*}} attributes {tile.shared_bytes = [[#%u,BYTES:]] : i64, tile.warps = 4 : i64}
  %o = tile.program chunk 64 slices 1 sequences(%q : tensor<1x64x1x64xbf16>) outputs(tensor<1x64x1x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index,
       %heads: index):
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %one = arith.constant dense<1.0> : vector<64x64xf32>
    // Rows are copied, and the copies waited for.
    // CHECK: %[[Q:.*]] = tile.load {{.*}} {tile.layouts = [#tile.layout<shared at 0>]}
    // CHECK-NEXT: tile.wait_copies 0
    // CHECK-NEXT: tile.barrier
    // CHECK-NEXT: %[[P:.*]] = tile.dot %[[Q]], %[[Q]] transposed
    %x = tile.load %qr[%c0, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %p = tile.dot %x, %x transposed, %zero : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    // CHECK: %[[PARTS:.*]] = tile.partial_sum %[[P]] over 1 {tile.layouts = [#tile.layout<shared at {{[0-9]+}}>]} : vector<64x64xf32> -> vector<128xf32>
    // The sum is added at its first use: the cumsum's barrier serves it as well.
    // CHECK-NOT: tile.add_parts
    %s = tile.sum %p over 1 : vector<64x64xf32> -> vector<64xf32>
    // CHECK: %[[T0:.*]], %[[R0:.*]] = tile.split_term %[[P]]
    // CHECK: %[[S0:.*]] = tile.convert %[[T0]] to <shared at
    // CHECK: %[[T1:.*]], %[[R1:.*]] = tile.split_term %[[R0]]
    // CHECK: %[[S1:.*]] = tile.convert %[[T1]] to <shared at
    // CHECK: %[[T2:.*]], %{{.*}} = tile.split_term %[[R1]]
    // CHECK: %[[S2:.*]] = tile.convert %[[T2]] to <shared at
    // CHECK-NEXT: tile.barrier
    // CHECK-NEXT: %[[A0:.*]] = tile.add_cumsum %[[S0]] to
    // CHECK-NEXT: %[[A1:.*]] = tile.add_cumsum %[[S1]] to %[[A0]]
    // CHECK-NEXT: tile.add_cumsum %[[S2]] to %[[A1]]
    %g = tile.cumsum %p : vector<64x64xf32>
    // CHECK: tile.add_parts %[[PARTS]] {tile.layouts = [#tile.layout<lanes>]} : vector<128xf32> -> vector<64xf32>
    %b = tile.broadcast %s along 0 : vector<64xf32> -> vector<64x64xf32>
    %sums = arith.addf %g, %b : vector<64x64xf32>
    // Row i is 64 (i + 1) + 4096. The first part is another matmul's, too.
    %lower = tile.mask lower %one else 0.0 : vector<64x64xf32>
    %l = arith.truncf %lower : vector<64x64xf32> to vector<64x64xbf16>
    %p16 = arith.truncf %p : vector<64x64xf32> to vector<64x64xbf16>
    %again = tile.dot %l, %p16, %zero : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    %y = arith.subf %sums, %again : vector<64x64xf32>
    tile.store %y, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  %e = arith.constant dense<4096.0> : tensor<1x64x1x64xf32>
  check.expect_equal %o, %e : tensor<1x64x1x64xf32>
  return
}
