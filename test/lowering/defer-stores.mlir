// RUN: ejk-opt %s --ejk-interpret -o /dev/null
// RUN: ejk-opt %s --ejk-defer-stores -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: ejk-opt %t.mlir --ejk-interpret -o /dev/null

// An iteration's rows are stored by the next one, behind the first product of what that has
// stored itself; the last one's behind the loop. At first there are none.
// CHECK-LABEL: func.func @late
// CHECK: ^bb0({{.*}}, %[[OUT:[a-z0-9]*]]: !tile.rows<vector<64xbf16>>, %{{.*}}: !tile.slots<{{.*}}>, %[[LENGTH:.*]]: index, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index):
// CHECK: %[[NOTHING:.*]] = tile.convert %{{.*}} to <swizzled> : vector<64x64xbf16>
// CHECK-NEXT: %[[END:.*]]:3 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[TILE:.*]] = %[[NOTHING]], %[[AT:.*]] = %[[LENGTH]])
// CHECK: %[[FIRST:.*]] = arith.muli
// CHECK: %[[P:.*]] = tile.convert %{{.*}} to <swizzled> : vector<64x64xbf16>
// CHECK-NEXT: tile.dot %[[P]]
// CHECK-NEXT: tile.store %[[TILE]], %[[OUT]][%[[AT]], %{{.*}}]
// CHECK: %[[NEXT:.*]] = tile.dot
// CHECK: %[[ROWS:.*]] = tile.convert
// CHECK-NOT: tile.store
// CHECK: scf.yield %[[NEXT]], %[[ROWS]], %[[FIRST]]
// CHECK: } {tile.layouts = [#tile.layout<transposed_fragments over 4 by 1>, #tile.layout<swizzled>, unit]}
// CHECK-NEXT: tile.store %[[END]]#1, %[[OUT]][%[[END]]#2, %{{.*}}]
#fragments = #tile.layout<fragments over 4 by 1>
#transposed = #tile.layout<transposed_fragments over 4 by 1>
#panels = #tile.layout<swizzled>
#uniform = #tile.layout<uniform>
func.func @late() {
  %q32 = check.random normal seed 1 : tensor<2x70x2x64xf32>
  %q = arith.truncf %q32 : tensor<2x70x2x64xf32> to tensor<2x70x2x64xbf16>
  %o, %ht = tile.program chunk 64 slices 1
      sequences(%q : tensor<2x70x2x64xbf16>)
      outputs(tensor<2x70x2x64xbf16>) finals(tensor<2x2x64x64xf32>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>,
       %hr: !tile.slots<vector<64x64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 64 : index
    %square = arith.constant {tile.layouts = [#uniform]} dense<0.0> : vector<64x64xf32>
    %rect = arith.constant {tile.layouts = [#uniform]} dense<0.0> : vector<64x64xf32>
    %start = arith.constant {tile.layouts = [#uniform]} dense<0.0> : vector<64x64xf32>
    %s0 = tile.convert %start to <transposed_fragments over 4 by 1> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c16 : index
    %end = scf.for %c = %c0 to %n step %c1 iter_args(%s = %s0) -> vector<64x64xf32> {
      %first = arith.muli %c, %c16 : index
      %qt = tile.load %qr[%first, %c0] {tile.layouts = [#panels]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %sb = arith.truncf %s {tile.layouts = [#transposed]} : vector<64x64xf32> to vector<64x64xbf16>
      %qs = tile.dot %qt, %sb, %rect {tile.layouts = [#transposed]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %p = tile.dot %qt, %qt transposed, %square {tile.layouts = [#fragments]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %m = tile.mask lower %p else 0.0 {tile.layouts = [#fragments]} : vector<64x64xf32>
      %mb = arith.truncf %m {tile.layouts = [#fragments]} : vector<64x64xf32> to vector<64x64xbf16>
      %mp = tile.convert %mb to <swizzled> : vector<64x64xbf16>
      %r = tile.dot %mp, %qt, %qs {tile.layouts = [#transposed]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %next = tile.dot %qt transposed, %qt, %s {tile.layouts = [#transposed]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %rb = arith.truncf %r {tile.layouts = [#transposed]} : vector<64x64xf32> to vector<64x64xbf16>
      %rp = tile.convert %rb to <swizzled> : vector<64x64xbf16>
      tile.store %rp, %or[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
      scf.yield %next : vector<64x64xf32>
    } {tile.layouts = [#transposed]}
    tile.store_slot %end, %hr[%c0] at (%c0, %c0) : vector<64x64xf32>, !tile.slots<vector<64x64xf32>>
    tile.end
  }
  %o1, %h1 = ejk.recurrent %q, %q, %q {softmax_scale = 1.0} : tensor<2x70x2x64xbf16>, tensor<2x70x2x64xbf16>, tensor<2x70x2x64xbf16> -> tensor<2x70x2x64xbf16>, tensor<2x2x64x64xf32>
  check.expect_close %o, %o1 max_relative 4.0e-3 : tensor<2x70x2x64xbf16>
  check.expect_close %ht, %h1 max_relative 4.0e-3 : tensor<2x2x64x64xf32>
  return
}

// Nothing is put off where no product reads what its own iteration has stored, and not what is
// stored in front of the last product.
// CHECK-LABEL: func.func @now
// CHECK: scf.for
// CHECK: tile.dot
// CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : vector<64x64xbf16>
// CHECK-NEXT: }
// CHECK: scf.for
// CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : vector<64x64xbf16>
// CHECK-NEXT: tile.dot
// CHECK: tile.end
func.func @now() {
  %q32 = check.random normal seed 1 : tensor<2x70x2x64xf32>
  %q = arith.truncf %q32 : tensor<2x70x2x64xf32> to tensor<2x70x2x64xbf16>
  %o, %o2 = tile.program chunk 64 slices 1
      sequences(%q : tensor<2x70x2x64xbf16>)
      outputs(tensor<2x70x2x64xbf16>, tensor<2x70x2x64xbf16>) attributes {tile.warps = 4 : i64} {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %or: !tile.rows<vector<64xbf16>>, %or2: !tile.rows<vector<64xbf16>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 64 : index
    %square = arith.constant {tile.layouts = [#uniform]} dense<0.0> : vector<64x64xf32>
    %n = arith.ceildivui %length, %c16 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c16 : index
      %qt = tile.load %qr[%first, %c0] {tile.layouts = [#panels]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %p = tile.dot %qt, %qt transposed, %square {tile.layouts = [#fragments]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %qf = tile.convert %qt to <transposed_fragments over 4 by 1> : vector<64x64xbf16>
      %qp = tile.convert %qf to <swizzled> : vector<64x64xbf16>
      tile.store %qp, %or[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
    }
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c16 : index
      %qt = tile.load %qr[%first, %c0] {tile.layouts = [#panels]} : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
      %qf = tile.convert %qt to <transposed_fragments over 4 by 1> : vector<64x64xbf16>
      %qp = tile.convert %qf to <swizzled> : vector<64x64xbf16>
      %p = tile.dot %qp, %qt transposed, %square {tile.layouts = [#fragments]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      tile.store %qp, %or2[%first, %c0] : vector<64x64xbf16>, !tile.rows<vector<64xbf16>>
      %p2 = tile.dot %qp, %qp transposed, %square {tile.layouts = [#fragments]} : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    }
    tile.end
  }
  check.expect_close %o, %q max_relative 0.0 : tensor<2x70x2x64xbf16>
  check.expect_close %o2, %q max_relative 0.0 : tensor<2x70x2x64xbf16>
  return
}
