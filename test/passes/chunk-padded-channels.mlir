// A number that is spread over 20 channels is zero after the sequence's end, but not in the 12 channels that a tile has
// beside. Vectors with that number are masked there, or the padding would count in each read.
// RUN: ejk-opt %s --ejk-chunk --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-chunk | FileCheck %s

// CHECK-LABEL: func.func @spread_number
// CHECK-COUNT-2: tile.window {{.*}} : vector<64x32xf32>
func.func @spread_number() {
  %qs = check.random normal seed 1 : tensor<1x70x2x20xbf16>
  %qws = arith.extf %qs : tensor<1x70x2x20xbf16> to tensor<1x70x2x20xf32>
  %ks = check.random normal seed 2 : tensor<1x70x2x20xbf16>
  %kws = arith.extf %ks : tensor<1x70x2x20xbf16> to tensor<1x70x2x20xf32>
  %vs = check.random normal seed 3 : tensor<1x70x2x16xbf16>
  %vws = arith.extf %vs : tensor<1x70x2x16xbf16> to tensor<1x70x2x16xf32>
  %ns = check.random normal seed 4 : tensor<1x70x2xf32>
  %a:2 = ejk.scan sequences(%qt = %qs : tensor<1x70x2x20xbf16>, %kt = %ks : tensor<1x70x2x20xbf16>, %vt = %vs : tensor<1x70x2x16xbf16>, %n = %ns : tensor<1x70x2xf32>)
      states(%S = zero : tensor<1x2x20x16xf32>) -> (tensor<1x70x2x16xf32>) {
    %q = arith.extf %qt : vector<20xbf16> to vector<20xf32>
    %k = arith.extf %kt : vector<20xbf16> to vector<20xf32>
    %v = arith.extf %vt : vector<16xbf16> to vector<16xf32>
    %b = vector.broadcast %n : f32 to vector<20xf32>
    %key = arith.addf %k, %b : vector<20xf32>
    %query = arith.subf %q, %b : vector<20xf32>
    %S1 = ejk.outer_add %S, %key, %v : vector<20x16xf32>, vector<20xf32>, vector<16xf32>
    %o = ejk.read %S1, %query along key : vector<20x16xf32>, vector<20xf32>
    ejk.yield states(%S1 : vector<20x16xf32>) outputs(%o : vector<16xf32>)
  }
  %e:2 = ejk.scan sequences(%q = %qws : tensor<1x70x2x20xf32>, %k = %kws : tensor<1x70x2x20xf32>, %v = %vws : tensor<1x70x2x16xf32>, %n = %ns : tensor<1x70x2xf32>)
      states(%S = zero : tensor<1x2x20x16xf32>) -> (tensor<1x70x2x16xf32>) {
    %b = vector.broadcast %n : f32 to vector<20xf32>
    %key = arith.addf %k, %b : vector<20xf32>
    %query = arith.subf %q, %b : vector<20xf32>
    %S1 = ejk.outer_add %S, %key, %v : vector<20x16xf32>, vector<20xf32>, vector<16xf32>
    %o = ejk.read %S1, %query along key : vector<20x16xf32>, vector<20xf32>
    ejk.yield states(%S1 : vector<20x16xf32>) outputs(%o : vector<16xf32>)
  }
  check.expect_close %a#0, %e#0 max_relative 1.0e-12 : tensor<1x70x2x16xf32>
  return
}
