// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-truncate-live-exponentials -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: ejk-opt %t.mlir --ejk-interpret -o /dev/null

// Both exponentials of rows stay live in bf16 across the branch. Their uses before it take them in f32.
// CHECK-LABEL: func.func @held
// CHECK: %[[E:.*]] = math.exp
// CHECK-NEXT: %[[H:.*]] = arith.truncf %[[E]] : vector<16x16xf32> to vector<16x16xbf16>
// CHECK: %[[N:.*]] = math.exp
// CHECK-NEXT: %[[HN:.*]] = arith.truncf %[[N]] : vector<16x16xf32> to vector<16x16xbf16>
// CHECK: arith.mulf %{{.*}}, %[[E]]
// CHECK: arith.mulf %{{.*}}, %[[N]]
// CHECK: tile.guarded
// CHECK: %[[W:.*]] = arith.extf %[[H]]
// CHECK-NEXT: arith.mulf %{{.*}}, %[[W]]
// CHECK: %[[WN:.*]] = arith.extf %[[HN]]
// CHECK-NEXT: arith.mulf %{{.*}}, %[[WN]]
// CHECK: } exact {

// An exponential stays in f32 where a result is added to, or where the other branch uses it; the other exponential does not.
// Both stay where results are truncated to another type.
// RUN: sed 's/%%dq = arith.mulf/%%dq = arith.addf/' %s | ejk-opt --ejk-truncate-live-exponentials | FileCheck %s --check-prefix=ONE
// RUN: sed 's/bf16/f16/g' %s | ejk-opt --ejk-truncate-live-exponentials | FileCheck %s --check-prefix=STAYS
// RUN: sed 's/%%none = arith.mulf %%kf, %%kf/%%none = arith.mulf %%kf, %%ne/' %s | ejk-opt --ejk-truncate-live-exponentials | FileCheck %s --check-prefix=ONE
// ONE: tile.guarded
// ONE: arith.extf
// ONE-NOT: arith.extf
// ONE: } exact {
// STAYS: tile.guarded
// STAYS-NOT: arith.extf
// STAYS: } exact {
func.func @held() {
  %q = check.random normal seed 1 : tensor<2x40x1x16xbf16>
  %k = check.random normal seed 2 : tensor<2x40x1x16xbf16>
  %x = check.random log_gate seed 3 : tensor<2x40x1x16xf32>
  %a, %b = tile.program chunk 16 slices 1
      sequences(%q, %k, %x : tensor<2x40x1x16xbf16>, tensor<2x40x1x16xbf16>, tensor<2x40x1x16xf32>)
      outputs(tensor<2x40x1x16xbf16>, tensor<2x40x1x16xbf16>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %kr: !tile.rows<vector<16xbf16>>, %xr: !tile.rows<vector<16xf32>>,
       %ar: !tile.rows<vector<16xbf16>>, %br: !tile.rows<vector<16xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %square = arith.constant dense<0.0> : vector<16x16xf32>
    %n = arith.ceildivui %length, %c16 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c16 : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %xt = tile.load %xr[%first, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
      %qf = arith.extf %qt : vector<16x16xbf16> to vector<16x16xf32>
      %kf = arith.extf %kt : vector<16x16xbf16> to vector<16x16xf32>
      %nx = arith.negf %xt : vector<16x16xf32>
      %e = math.exp %xt : vector<16x16xf32>
      %ne = math.exp %nx : vector<16x16xf32>
      %qs = arith.mulf %qf, %e : vector<16x16xf32>
      %qb = arith.truncf %qs : vector<16x16xf32> to vector<16x16xbf16>
      %ks = arith.mulf %kf, %ne : vector<16x16xf32>
      %kb = arith.truncf %ks : vector<16x16xf32> to vector<16x16xbf16>
      %weak = tile.range_guard 64.0 of %xt : vector<16x16xf32>
      %both:2 = tile.guarded %weak -> (vector<16x16xbf16>, vector<16x16xbf16>) fast {
        %p1 = tile.dot %qb, %kb transposed, %square : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p2 = tile.dot %kb, %qb transposed, %p1 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p3 = tile.dot %qb, %qb transposed, %p2 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p4 = tile.dot %kb, %kb transposed, %p3 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p5 = tile.dot %qb, %kb, %p4 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p6 = tile.dot %qb, %qb, %p5 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p7 = tile.dot %kb, %qb transposed, %p6 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %dq = arith.mulf %p7, %e : vector<16x16xf32>
        %dqb = arith.truncf %dq : vector<16x16xf32> to vector<16x16xbf16>
        %dk = arith.mulf %p7, %ne : vector<16x16xf32>
        %dk2 = arith.mulf %dk, %kf : vector<16x16xf32>
        %dkb = arith.truncf %dk2 : vector<16x16xf32> to vector<16x16xbf16>
        tile.yield %dqb, %dkb : vector<16x16xbf16>, vector<16x16xbf16>
      } exact {
        %none = arith.mulf %kf, %kf : vector<16x16xf32>
        %noneb = arith.truncf %none : vector<16x16xf32> to vector<16x16xbf16>
        tile.yield %noneb, %kb : vector<16x16xbf16>, vector<16x16xbf16>
      }
      tile.store %both#0, %ar[%first, %c0] : vector<16x16xbf16>, !tile.rows<vector<16xbf16>>
      tile.store %both#1, %br[%first, %c0] : vector<16x16xbf16>, !tile.rows<vector<16xbf16>>
    }
    tile.end
  }
  // The same, with exponentials that stay, for the other side uses them as well.
  %a1, %b1 = tile.program chunk 16 slices 1
      sequences(%q, %k, %x : tensor<2x40x1x16xbf16>, tensor<2x40x1x16xbf16>, tensor<2x40x1x16xf32>)
      outputs(tensor<2x40x1x16xbf16>, tensor<2x40x1x16xbf16>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %kr: !tile.rows<vector<16xbf16>>, %xr: !tile.rows<vector<16xf32>>,
       %ar: !tile.rows<vector<16xbf16>>, %br: !tile.rows<vector<16xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %square = arith.constant dense<0.0> : vector<16x16xf32>
    %n = arith.ceildivui %length, %c16 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c16 : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %xt = tile.load %xr[%first, %c0] : !tile.rows<vector<16xf32>> -> vector<16x16xf32>
      %qf = arith.extf %qt : vector<16x16xbf16> to vector<16x16xf32>
      %kf = arith.extf %kt : vector<16x16xbf16> to vector<16x16xf32>
      %nx = arith.negf %xt : vector<16x16xf32>
      %e = math.exp %xt : vector<16x16xf32>
      %ne = math.exp %nx : vector<16x16xf32>
      %qs = arith.mulf %qf, %e : vector<16x16xf32>
      %qb = arith.truncf %qs : vector<16x16xf32> to vector<16x16xbf16>
      %ks = arith.mulf %kf, %ne : vector<16x16xf32>
      %kb = arith.truncf %ks : vector<16x16xf32> to vector<16x16xbf16>
      %weak = tile.range_guard 64.0 of %xt : vector<16x16xf32>
      %both:2 = tile.guarded %weak -> (vector<16x16xbf16>, vector<16x16xbf16>) fast {
        %p1 = tile.dot %qb, %kb transposed, %square : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p2 = tile.dot %kb, %qb transposed, %p1 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p3 = tile.dot %qb, %qb transposed, %p2 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p4 = tile.dot %kb, %kb transposed, %p3 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p5 = tile.dot %qb, %kb, %p4 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p6 = tile.dot %qb, %qb, %p5 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %p7 = tile.dot %kb, %qb transposed, %p6 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
        %dq = arith.mulf %p7, %e : vector<16x16xf32>
        %dqb = arith.truncf %dq : vector<16x16xf32> to vector<16x16xbf16>
        %dk = arith.mulf %p7, %ne : vector<16x16xf32>
        %dk2 = arith.mulf %dk, %kf : vector<16x16xf32>
        %dkb = arith.truncf %dk2 : vector<16x16xf32> to vector<16x16xbf16>
        tile.yield %dqb, %dkb : vector<16x16xbf16>, vector<16x16xbf16>
      } exact {
        %none = arith.mulf %e, %ne : vector<16x16xf32>
        %noneb = arith.truncf %none : vector<16x16xf32> to vector<16x16xbf16>
        tile.yield %noneb, %kb : vector<16x16xbf16>, vector<16x16xbf16>
      }
      tile.store %both#0, %ar[%first, %c0] : vector<16x16xbf16>, !tile.rows<vector<16xbf16>>
      tile.store %both#1, %br[%first, %c0] : vector<16x16xbf16>, !tile.rows<vector<16xbf16>>
    }
    tile.end
  }
  check.expect_close %a, %a1 max_relative 1.0e-2 : tensor<2x40x1x16xbf16>
  check.expect_close %b, %b1 max_relative 1.0e-2 : tensor<2x40x1x16xbf16>
  return
}
