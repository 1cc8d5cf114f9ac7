// RUN: ejk-opt %s --ejk-hoist-from-branches | FileCheck %s

// What a branch makes of the chunk alone moves out; what it makes of a state that a loop
// carries, or of products, does not.
// CHECK-LABEL: func.func @branch
func.func @branch(%k: tensor<?x?x?x16xf32>) -> tensor<?x?x16x16xf32> {
  %h = tile.program chunk 16 slices 1 sequences(%k : tensor<?x?x?x16xf32>)
      finals(tensor<?x?x16x16xf32>) {
  ^bb0(%kr: !tile.rows<vector<16xf32>>, %hr: !tile.slots<vector<16x16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant dense<0.0> : vector<16x16xf32>
    // CHECK: scf.for
    %S = scf.for %i = %c0 to %length step %c1 iter_args(%s = %zero) -> vector<16x16xf32> {
      %kt = tile.load %kr[%i, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
      // CHECK: tile.range_guard
      %weak = tile.range_guard 64.0 of %kt : vector<16x16xf32>
      // CHECK-NEXT: %[[E:.*]] = math.exp
      // CHECK-NEXT: %[[EB:.*]] = arith.truncf %[[E]]
      // CHECK-NEXT: tile.guarded
      // CHECK-NEXT: arith.truncf %{{.*}} : vector<16x16xf32> to vector<16x16xbf16>
      // CHECK-NEXT: tile.dot
      // CHECK-NEXT: math.exp
      %next = tile.guarded %weak -> (vector<16x16xf32>) fast {
        %e = math.exp %kt : vector<16x16xf32>
        %eb = arith.truncf %e : vector<16x16xf32> to vector<16x16xbf16>
        %sb = arith.truncf %s : vector<16x16xf32> to vector<16x16xbf16>
        %p = tile.dot %eb, %sb, %zero : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %pe = math.exp %p : vector<16x16xf32>
        tile.yield %pe : vector<16x16xf32>
      } exact {
        tile.yield %s : vector<16x16xf32>
      }
      scf.yield %next : vector<16x16xf32>
    }
    tile.store_slot %S, %hr[%c0] at (%c0, %c0) : vector<16x16xf32>, !tile.slots<vector<16x16xf32>>
    tile.end
  }
  return %h : tensor<?x?x16x16xf32>
}
