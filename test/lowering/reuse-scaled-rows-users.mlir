// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-reuse-scaled-rows -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: ejk-opt %t.mlir --ejk-interpret -o /dev/null

// The rows have other users besides the multiplication that makes their copy: ops of another kind, and a
// multiplication with several uses. The copy is found all the same. The second sum, whose scale is
// another, stays as it is.
// CHECK-LABEL: func.func @several_users
// CHECK: %[[COPY:.*]] = arith.truncf %{{.*}} : vector<16x16xf32> to vector<16x16xbf16>
// CHECK: tile.guarded
// CHECK: %[[WIDE:.*]] = arith.extf %[[COPY]]
// CHECK-NEXT: %[[OWN:.*]] = arith.mulf %[[WIDE]], %{{.*}} : vector<16x16xf32>
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %{{.*}}, %[[OWN]]
// CHECK-NEXT: arith.mulf %[[SUM]], %{{.*}} : vector<16x16xf32>
// CHECK-NOT: arith.extf
// CHECK: } exact {
func.func @several_users() {
  %k = check.random normal seed 1 : tensor<2x40x1x16xbf16>
  %x = check.random log_gate seed 2 : tensor<2x40x1x16xf32>
  %y, %z = tile.program chunk 16 slices 1
      sequences(%k, %x : tensor<2x40x1x16xbf16>, tensor<2x40x1x16xf32>)
      outputs(tensor<2x40x1x16xf32>, tensor<2x40x1x16xf32>) {
  ^bb0(%kr: !tile.rows<vector<16xbf16>>, %xr: !tile.rows<vector<16xf32>>, %yr: !tile.rows<vector<16xf32>>,
       %zr: !tile.rows<vector<16xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %two = arith.constant dense<2.0> : vector<16x16xf32>
    %forty = arith.constant 40.0 : f32
    %n = arith.ceildivui %length, %c16 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c16 : index
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %xt = tile.load %xr[%first, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
      %kf = arith.extf %kt : vector<16x16xbf16> to vector<16x16xf32>
      %r = math.absf %xt : vector<16x16xf32>
      %nx = arith.negf %xt : vector<16x16xf32>
      %e = math.exp %xt : vector<16x16xf32>
      %ne = math.exp %nx : vector<16x16xf32>
      %ks = arith.mulf %kf, %ne : vector<16x16xf32>
      %kb = arith.truncf %ks : vector<16x16xf32> to vector<16x16xbf16>
      %ci = arith.index_cast %c : index to i32
      %cf = arith.sitofp %ci : i32 to f32
      %odd = arith.mulf %cf, %forty : f32
      %drift = vector.broadcast %odd : f32 to vector<16xf32>
      %weak = tile.range_guard 64.0 of %xt, %drift : vector<16x16xf32>, vector<16xf32>
      %results:2 = tile.guarded %weak -> (vector<16x16xf32>, vector<16x16xf32>) fast {
        %sums = tile.sum %r over 1 : vector<16x16xf32> -> vector<16xf32>
        %s = tile.broadcast %sums along 0 : vector<16xf32> -> vector<16x16xf32>
        %a = arith.mulf %r, %e : vector<16x16xf32>
        %a2 = arith.mulf %a, %two : vector<16x16xf32>
        %b = arith.mulf %kf, %s : vector<16x16xf32>
        %sum = arith.addf %a2, %b : vector<16x16xf32>
        %ra = arith.mulf %r, %r : vector<16x16xf32>
        %rb = arith.mulf %r, %s : vector<16x16xf32>
        %twice = arith.mulf %kf, %two : vector<16x16xf32>
        %squares = arith.mulf %twice, %twice : vector<16x16xf32>
        %sizes = math.absf %kf : vector<16x16xf32>
        %more = arith.addf %squares, %sizes : vector<16x16xf32>
        %both = arith.addf %ra, %rb : vector<16x16xf32>
        %other = arith.addf %both, %more : vector<16x16xf32>
        tile.yield %sum, %other : vector<16x16xf32>, vector<16x16xf32>
      } exact {
        %sums = tile.sum %r over 1 : vector<16x16xf32> -> vector<16xf32>
        %s = tile.broadcast %sums along 0 : vector<16xf32> -> vector<16x16xf32>
        %a = arith.mulf %r, %e : vector<16x16xf32>
        %a2 = arith.addf %a, %a : vector<16x16xf32>
        %kw = arith.extf %kt : vector<16x16xbf16> to vector<16x16xf32>
        %b = arith.mulf %kw, %s : vector<16x16xf32>
        %sum = arith.addf %a2, %b : vector<16x16xf32>
        %rs = arith.addf %r, %s : vector<16x16xf32>
        %twice = arith.addf %kw, %kw : vector<16x16xf32>
        %squares = arith.mulf %twice, %twice : vector<16x16xf32>
        %sizes = math.absf %kw : vector<16x16xf32>
        %more = arith.addf %squares, %sizes : vector<16x16xf32>
        %products = arith.mulf %r, %rs : vector<16x16xf32>
        %other = arith.addf %products, %more : vector<16x16xf32>
        tile.yield %sum, %other : vector<16x16xf32>, vector<16x16xf32>
      }
      tile.store %results#0, %yr[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
      tile.store %results#1, %zr[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    }
    tile.end
  }
  // The same, of all chunks by the other side's formula.
  %y1, %z1 = tile.program chunk 16 slices 1
      sequences(%k, %x : tensor<2x40x1x16xbf16>, tensor<2x40x1x16xf32>)
      outputs(tensor<2x40x1x16xf32>, tensor<2x40x1x16xf32>) {
  ^bb0(%kr: !tile.rows<vector<16xbf16>>, %xr: !tile.rows<vector<16xf32>>, %yr: !tile.rows<vector<16xf32>>,
       %zr: !tile.rows<vector<16xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %n = arith.ceildivui %length, %c16 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c16 : index
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %xt = tile.load %xr[%first, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
      %kf = arith.extf %kt : vector<16x16xbf16> to vector<16x16xf32>
      %r = math.absf %xt : vector<16x16xf32>
      %e = math.exp %xt : vector<16x16xf32>
      %sums = tile.sum %r over 1 : vector<16x16xf32> -> vector<16xf32>
      %s = tile.broadcast %sums along 0 : vector<16xf32> -> vector<16x16xf32>
      %a = arith.mulf %r, %e : vector<16x16xf32>
      %a2 = arith.addf %a, %a : vector<16x16xf32>
      %b = arith.mulf %kf, %s : vector<16x16xf32>
      %sum = arith.addf %a2, %b : vector<16x16xf32>
      %rs = arith.addf %r, %s : vector<16x16xf32>
      %twice = arith.addf %kf, %kf : vector<16x16xf32>
      %squares = arith.mulf %twice, %twice : vector<16x16xf32>
      %sizes = math.absf %kf : vector<16x16xf32>
      %more = arith.addf %squares, %sizes : vector<16x16xf32>
      %products = arith.mulf %r, %rs : vector<16x16xf32>
      %other = arith.addf %products, %more : vector<16x16xf32>
      tile.store %sum, %yr[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
      tile.store %other, %zr[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    }
    tile.end
  }
  check.expect_close %y, %y1 max_relative 1.0e-12 : tensor<2x40x1x16xf32>
  check.expect_close %z, %z1 max_relative 1.0e-12 : tensor<2x40x1x16xf32>
  return
}
