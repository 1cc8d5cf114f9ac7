// RUN: ejk-opt %s --ejk-slice-rows-early | FileCheck %s

// A row of elementwise work, of windows and of what is repeated is made alone, of rows
// that are read; of anything else the row is taken as before.
// CHECK-LABEL: func.func @rows
func.func @rows(%k: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>) -> tensor<?x?x64xf32> {
  // CHECK: ^bb0(
  %h = tile.program chunk 16 slices 1
      sequences(%k, %g : tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>) finals(tensor<?x?x64xf32>) {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %gr: !tile.rows<f32>, %hr: !tile.slots<vector<64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c60 = arith.constant 60 : index
    %two = arith.constant dense<2.0> : vector<16x64xf32>
    // CHECK: %[[K:.*]] = tile.load
    // CHECK: %[[G:.*]] = tile.load
    %kt = tile.load %kr[%c0, %c0] : !tile.rows<vector<64xbf16>> -> vector<16x64xbf16>
    %gt = tile.load %gr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    %kf = arith.extf %kt : vector<16x64xbf16> to vector<16x64xf32>
    %gs = tile.broadcast %gt along 0 : vector<16xf32> -> vector<16x64xf32>
    %kg = arith.mulf %kf, %gs : vector<16x64xf32>
    %k2 = arith.mulf %kg, %two : vector<16x64xf32>
    %kw = tile.window %k2 from (%c0, %c0) to (%length, %c60) else 0.0 : vector<16x64xf32>
    // CHECK: %[[KI:.*]] = vector.extract %[[K]][%[[AT:.*]]] : vector<64xbf16> from vector<16x64xbf16>
    // CHECK: arith.extf %[[KI]] : vector<64xbf16> to vector<64xf32>
    // CHECK: vector.extract %[[G]][%[[AT]]] : f32 from vector<16xf32>
    // CHECK: %[[W:.*]] = tile.window {{.*}} from(%{{[^,]*}}) to(%c60) else 0.000000e+00 : vector<64xf32>
    // CHECK: %[[NOT:.*]] = arith.constant dense<0.000000e+00> : vector<64xf32>
    // CHECK: %[[ROW:.*]] = arith.select %{{.*}}, %[[W]], %[[NOT]] : vector<64xf32>
    %row = vector.extract %kw[%head] : vector<64xf32> from vector<16x64xf32>
    // CHECK: %[[SUM:.*]] = tile.cumsum
    // CHECK: %[[LAST:.*]] = vector.extract %[[SUM]][15]
    %sum = tile.cumsum %kf : vector<16x64xf32>
    %last = vector.extract %sum[15] : vector<64xf32> from vector<16x64xf32>
    // CHECK: arith.addf %[[ROW]], %[[LAST]]
    %both = arith.addf %row, %last : vector<64xf32>
    tile.store_slot %both, %hr[%c0] at (%c0) : vector<64xf32>, !tile.slots<vector<64xf32>>
    tile.end
  }
  return %h : tensor<?x?x64xf32>
}
