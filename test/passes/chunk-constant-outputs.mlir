// RUN: ejk-opt %s --ejk-chunk=drift | FileCheck %s
// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-chunk=drift --ejk-interpret

// Outputs that are the same in every step, in other types than f32. A chunk's rows are broadcast in
// f32, and rounded to what they were.
// CHECK-LABEL: func.func @check(
// CHECK:         tile.program
// CHECK:           %[[WIDE:.*]] = arith.extf %{{.*}} : vector<16xbf16> to vector<16xf32>
// CHECK:           %[[ROWS:.*]] = tile.broadcast %[[WIDE]] along 1 : vector<16xf32> -> vector<64x16xf32>
// CHECK:           %[[NARROW:.*]] = arith.truncf %[[ROWS]] : vector<64x16xf32> to vector<64x16xbf16>
// CHECK:           tile.store %[[NARROW]]
func.func @check() {
  %q = check.random normal seed 1 : tensor<1x70x2x16xbf16>
  %p = check.random normal seed 2 : tensor<16xbf16>
  %w = check.random normal seed 3 : tensor<2x16xf32>
  %o, %m, %n, %ht = ejk.scan sequences(%qt = %q : tensor<1x70x2x16xbf16>)
      parameters(%pt = %p : tensor<16xbf16> as vector<16xbf16>, %wt = %w : tensor<2x16xf32> as vector<16xf32>)
      states(%S = zero : tensor<1x2x16x16xf32>)
      -> (tensor<1x70x2x16xf32>, tensor<1x70x2x16xbf16>, tensor<1x70x2x16xf16>) {
    %x = arith.extf %qt : vector<16xbf16> to vector<16xf32>
    %S1 = ejk.outer_add %S, %x, %x : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %r = ejk.read %S1, %x along key : vector<16x16xf32>, vector<16xf32>
    %half = arith.truncf %wt : vector<16xf32> to vector<16xf16>
    ejk.yield states(%S1 : vector<16x16xf32>) outputs(%r, %pt, %half : vector<16xf32>, vector<16xbf16>, vector<16xf16>)
  }
  // Each row is the parameter.
  %first = tensor.extract_slice %m[0, 0, 0, 0] [1, 1, 1, 16] [1, 1, 1, 1] : tensor<1x70x2x16xbf16> to tensor<16xbf16>
  %last = tensor.extract_slice %m[0, 69, 1, 0] [1, 1, 1, 16] [1, 1, 1, 1] : tensor<1x70x2x16xbf16> to tensor<16xbf16>
  %pw = arith.extf %p : tensor<16xbf16> to tensor<16xf32>
  %firstw = arith.extf %first : tensor<16xbf16> to tensor<16xf32>
  %lastw = arith.extf %last : tensor<16xbf16> to tensor<16xf32>
  check.expect_close %firstw, %pw max_relative 0.0 : tensor<16xf32>
  check.expect_close %lastw, %pw max_relative 0.0 : tensor<16xf32>
  %ends = tensor.extract_slice %n[0, 69, 0, 0] [1, 1, 2, 16] [1, 1, 1, 1] : tensor<1x70x2x16xf16> to tensor<2x16xf16>
  %wide = arith.extf %ends : tensor<2x16xf16> to tensor<2x16xf32>
  check.expect_close %wide, %w max_relative 1.0e-3 : tensor<2x16xf32>
  return
}
