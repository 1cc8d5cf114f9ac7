// What rounding a factor leaves out goes into its products, too, where rows have few channels.
// RUN: ejk-opt %s --ejk-interpret=precision=native -o /dev/null
// RUN: ejk-opt %s --ejk-split-operands -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// Far closer then.
// RUN: sed 's/max_relative 4.0e-3/max_relative 4.0e-5/' %t.mlir | ejk-opt --ejk-interpret=precision=native -o /dev/null
// RUN: sed 's/max_relative 4.0e-3/max_relative 4.0e-5/' %s | not ejk-opt --ejk-interpret=precision=native -o /dev/null

// CHECK-LABEL: func.func @split
// CHECK: %[[SCALED:.*]] = arith.mulf
// CHECK: %[[A:.*]] = arith.truncf %[[SCALED]]
// CHECK-NEXT: %[[BACK:.*]] = arith.extf %[[A]]
// CHECK-NEXT: %[[LEFT:.*]] = arith.subf %[[SCALED]], %[[BACK]]
// CHECK: %[[SIZE:.*]] = math.absf %[[LEFT]]
// CHECK: %[[FINITE:.*]] = arith.cmpf olt, %[[SIZE]]
// CHECK: %[[ALL:.*]] = arith.select %[[FINITE]], %[[LEFT]]
// CHECK-NEXT: %[[REST:.*]] = arith.truncf %[[ALL]]
// CHECK: %[[B:.*]] = arith.truncf
// CHECK: %[[RESTB:.*]] = arith.truncf

// Of both factors, of one, and once for several products.
// CHECK: %[[P0:.*]] = tile.dot %[[REST]], %[[B]] transposed, %{{cst.*}} :
// CHECK-NEXT: %[[P1:.*]] = tile.dot %[[A]], %[[RESTB]] transposed, %[[P0]]
// CHECK-NEXT: %[[P:.*]] = tile.dot %[[A]], %[[B]] transposed, %[[P1]]
// CHECK: %[[Q0:.*]] = tile.dot %[[REST]], %[[K:.*]] transposed, %[[P]]
// CHECK-NEXT: %[[Q:.*]] = tile.dot %[[A]], %[[K]] transposed, %[[Q0]]

// Rows as they were loaded are not rounded.
// CHECK-NEXT: %[[EXACT:.*]] = tile.dot %[[K]], %[[K]] transposed, %[[Q]]

// A factor's product with itself.
// CHECK-NEXT: %[[S0:.*]] = tile.dot %[[RESTB]], %[[B]] transposed, %[[EXACT]]
// CHECK-NEXT: %[[S1:.*]] = tile.dot %[[B]], %[[RESTB]] transposed, %[[S0]]
// CHECK-NEXT: %[[SQUARE:.*]] = tile.dot %[[B]], %[[B]] transposed, %[[S1]]

// What was rounded and widened again is what it was before.
// CHECK: arith.addf %[[SQUARE]], %[[SCALED]]

// With more channels all stays.
// RUN: sed '/^func.func @few_keys/,$d; s/tensor<2x40x1x16xbf16>/tensor<2x40x1x48xbf16>/g; s/tensor<1x16x1x16xbf16>/tensor<1x16x1x48xbf16>/g; s/rows<vector<16xbf16>>/rows<vector<48xbf16>>/g' %s | ejk-opt --ejk-split-operands | FileCheck %s --check-prefix=STAYS
// STAYS-LABEL: func.func @split
// STAYS-COUNT-4: tile.dot
// STAYS-NOT: tile.dot
// STAYS: tile.end
func.func @split() {
  %q = check.random normal seed 1 : tensor<2x40x1x16xbf16>
  %k = check.random normal seed 2 : tensor<2x40x1x16xbf16>
  %o = tile.program chunk 16 slices 1
      sequences(%q, %k : tensor<2x40x1x16xbf16>, tensor<2x40x1x16xbf16>)
      outputs(tensor<2x40x1x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %kr: !tile.rows<vector<16xbf16>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %none = arith.constant dense<0.0> : vector<16x16xf32>
    %third = arith.constant dense<0.333333> : vector<16x16xf32>
    %n = arith.ceildivui %length, %c16 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c16 : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %qf = arith.extf %qt : vector<16x16xbf16> to vector<16x16xf32>
      %kf = arith.extf %kt : vector<16x16xbf16> to vector<16x16xf32>
      %qs = arith.mulf %qf, %third : vector<16x16xf32>
      %qb = arith.truncf %qs : vector<16x16xf32> to vector<16x16xbf16>
      %ks = arith.mulf %kf, %third : vector<16x16xf32>
      %kb = arith.truncf %ks : vector<16x16xf32> to vector<16x16xbf16>
      %p = tile.dot %qb, %kb transposed, %none : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
      %p2 = tile.dot %qb, %kt transposed, %p : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
      %p3 = tile.dot %kt, %kt transposed, %p2 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
      %p4 = tile.dot %kb, %kb transposed, %p3 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
      %back = arith.extf %qb : vector<16x16xbf16> to vector<16x16xf32>
      %sum = arith.addf %p4, %back : vector<16x16xf32>
      tile.store %sum, %or[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    }
    tile.end
  }
  %exact = tile.program chunk 16 slices 1
      sequences(%q, %k : tensor<2x40x1x16xbf16>, tensor<2x40x1x16xbf16>)
      outputs(tensor<2x40x1x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %kr: !tile.rows<vector<16xbf16>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %none = arith.constant dense<0.0> : vector<16x16xf32>
    %third = arith.constant dense<0.333333> : vector<16x16xf32>
    %n = arith.ceildivui %length, %c16 : index
    scf.for %c = %c0 to %n step %c1 {
      %first = arith.muli %c, %c16 : index
      %qt = tile.load %qr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %qf = arith.extf %qt : vector<16x16xbf16> to vector<16x16xf32>
      %kf = arith.extf %kt : vector<16x16xbf16> to vector<16x16xf32>
      %qs = arith.mulf %qf, %third : vector<16x16xf32>
      %ks = arith.mulf %kf, %third : vector<16x16xf32>
      %p = tile.dot %qs, %ks transposed, %none : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
      %p2 = tile.dot %qs, %kf transposed, %p : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
      %p3 = tile.dot %kf, %kf transposed, %p2 : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
      %p4 = tile.dot %ks, %ks transposed, %p3 : vector<16x16xf32>, vector<16x16xf32>, vector<16x16xf32>
      %sum = arith.addf %p4, %qs : vector<16x16xf32>
      tile.store %sum, %or[%first, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    }
    tile.end
  }
  check.expect_close %o, %exact max_relative 4.0e-3 : tensor<2x40x1x16xf32>
  return
}

// Terms that a program has already are neither split again nor lost: x less its rounding is no zero.
// CHECK-LABEL: func.func @terms
// CHECK: %[[X:.*]] = arith.mulf
// CHECK: %[[X1:.*]] = arith.truncf %[[X]]
// CHECK: %[[WIDE:.*]] = arith.extf %[[X1]]
// CHECK: %[[LOST:.*]] = arith.subf %[[X]], %[[WIDE]]
// CHECK: %[[X2:.*]] = arith.truncf %[[LOST]]
// CHECK: %[[FIRST:.*]] = tile.dot %[[X2]], %[[Y:.*]], %{{.*}}
// CHECK: tile.dot %[[X1]], %[[Y]], %[[FIRST]]
// CHECK-NOT: tile.dot
// CHECK: tile.end
func.func @terms() {
  %q = check.random normal seed 1 : tensor<1x16x1x16xbf16>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x16x1x16xbf16>)
      outputs(tensor<1x16x1x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %none = arith.constant dense<0.0> : vector<16x16xf32>
    %third = arith.constant dense<0.333333> : vector<16x16xf32>
    %qt = tile.load %qr[%c0, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
    %qf = arith.extf %qt : vector<16x16xbf16> to vector<16x16xf32>
    %x = arith.mulf %qf, %third : vector<16x16xf32>
    %x1 = arith.truncf %x : vector<16x16xf32> to vector<16x16xbf16>
    %wide = arith.extf %x1 : vector<16x16xbf16> to vector<16x16xf32>
    %lost = arith.subf %x, %wide : vector<16x16xf32>
    %x2 = arith.truncf %lost : vector<16x16xf32> to vector<16x16xbf16>
    %p2 = tile.dot %x2, %qt, %none : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
    %p = tile.dot %x1, %qt, %p2 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
    tile.store %p, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return
}

// The same in the other order.
// CHECK-LABEL: func.func @first_term_first
// CHECK: %[[X1:.*]] = arith.truncf
// CHECK: %[[X2:.*]] = arith.truncf
// CHECK: %[[FIRST:.*]] = tile.dot %[[X1]], %[[Y:.*]], %{{.*}}
// CHECK: tile.dot %[[X2]], %[[Y]], %[[FIRST]]
// CHECK-NOT: tile.dot
// CHECK: tile.end
func.func @first_term_first() {
  %q = check.random normal seed 1 : tensor<1x16x1x16xbf16>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x16x1x16xbf16>)
      outputs(tensor<1x16x1x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %none = arith.constant dense<0.0> : vector<16x16xf32>
    %third = arith.constant dense<0.333333> : vector<16x16xf32>
    %qt = tile.load %qr[%c0, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
    %qf = arith.extf %qt : vector<16x16xbf16> to vector<16x16xf32>
    %x = arith.mulf %qf, %third : vector<16x16xf32>
    %x1 = arith.truncf %x : vector<16x16xf32> to vector<16x16xbf16>
    %wide = arith.extf %x1 : vector<16x16xbf16> to vector<16x16xf32>
    %lost = arith.subf %x, %wide : vector<16x16xf32>
    %x2 = arith.truncf %lost : vector<16x16xf32> to vector<16x16xbf16>
    %p1 = tile.dot %x1, %qt, %none : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
    %p = tile.dot %x2, %qt, %p1 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
    tile.store %p, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return
}

// Where one operand has terms and the other has none, the other is split.
// CHECK-LABEL: func.func @one_operand_has_terms
// CHECK: %[[Y1:.*]] = arith.truncf
// CHECK: %[[Y2:.*]] = arith.truncf
// CHECK: %[[X1:.*]] = arith.truncf
// CHECK: %[[X2:.*]] = arith.truncf
// CHECK: %[[P0:.*]] = tile.dot %[[X1]], %[[Y2]], %{{.*}}
// CHECK: %[[P1:.*]] = tile.dot %[[X1]], %[[Y1]], %[[P0]]
// CHECK: tile.dot %[[X2]], %[[Y1]], %[[P1]]
// CHECK-NOT: tile.dot
// CHECK: tile.end
func.func @one_operand_has_terms() {
  %q = check.random normal seed 1 : tensor<1x16x1x16xbf16>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x16x1x16xbf16>)
      outputs(tensor<1x16x1x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %none = arith.constant dense<0.0> : vector<16x16xf32>
    %third = arith.constant dense<0.333333> : vector<16x16xf32>
    %seventh = arith.constant dense<0.142857> : vector<16x16xf32>
    %qt = tile.load %qr[%c0, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
    %qf = arith.extf %qt : vector<16x16xbf16> to vector<16x16xf32>
    %y = arith.mulf %qf, %seventh : vector<16x16xf32>
    %y1 = arith.truncf %y : vector<16x16xf32> to vector<16x16xbf16>
    %x = arith.mulf %qf, %third : vector<16x16xf32>
    %x1 = arith.truncf %x : vector<16x16xf32> to vector<16x16xbf16>
    %wide = arith.extf %x1 : vector<16x16xbf16> to vector<16x16xf32>
    %lost = arith.subf %x, %wide : vector<16x16xf32>
    %x2 = arith.truncf %lost : vector<16x16xf32> to vector<16x16xbf16>
    %p1 = tile.dot %x1, %y1, %none : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
    %p = tile.dot %x2, %y1, %p1 : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
    tile.store %p, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  return
}

// What is infinite stays so: 1/o is 0, and not NaN.
// CHECK-LABEL: func.func @infinite
// CHECK-COUNT-2: tile.dot
func.func @infinite() {
  %q = arith.constant dense<1.0> : tensor<1x16x1x16xbf16>
  %o = tile.program chunk 16 slices 1 sequences(%q : tensor<1x16x1x16xbf16>) outputs(tensor<1x16x1x16xf32>) {
  ^bb0(%qr: !tile.rows<vector<16xbf16>>, %or: !tile.rows<vector<16xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %none = arith.constant dense<0.0> : vector<16x16xf32>
    %one = arith.constant dense<1.0> : vector<16x16xf32>
    %infinity = arith.constant dense<0x7F800000> : vector<16x16xf32>
    %qt = tile.load %qr[%c0, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
    %qf = arith.extf %qt : vector<16x16xbf16> to vector<16x16xf32>
    %qs = arith.mulf %qf, %infinity : vector<16x16xf32>
    %qb = arith.truncf %qs : vector<16x16xf32> to vector<16x16xbf16>
    %p = tile.dot %qb, %qt transposed, %none : vector<16x16xbf16>, vector<16x16xbf16>, vector<16x16xf32>
    %inverse = arith.divf %one, %p : vector<16x16xf32>
    tile.store %inverse, %or[%c0, %c0] : vector<16x16xf32>, !tile.rows<vector<16xf32>>
    tile.end
  }
  %zero = arith.constant dense<0.0> : tensor<1x16x1x16xf32>
  check.expect_close %o, %zero max_relative 0.0 : tensor<1x16x1x16xf32>
  return
}

// With more channels along one axis, and a gate that is a number per head, only matmuls that states
// or sums are made of.
// CHECK-LABEL: func.func @few_keys
// CHECK: tile.load
// CHECK: %[[KS:.*]] = arith.truncf
// CHECK: %[[KREST:.*]] = arith.truncf
// CHECK: %[[ROWS:.*]] = tile.dot %[[KS]], %{{.*}}
// CHECK-NEXT: tile.store %[[ROWS]]
// CHECK: %[[S0:.*]] = tile.dot %[[KREST]] transposed
// CHECK-NEXT: tile.dot %[[KS]] transposed, %{{.*}}, %[[S0]]
// CHECK-NOT: tile.dot
// CHECK: tile.end
func.func @few_keys(%k: tensor<?x?x?x16xbf16>, %v: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x64xf32>, tensor<?x?x16x64xf32>) {
  %o, %ht = tile.program chunk 16 slices 1
      sequences(%k, %v, %g : tensor<?x?x?x16xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?xf32>)
      outputs(tensor<?x?x?x64xf32>) finals(tensor<?x?x16x64xf32>) {
  ^bb0(%kr: !tile.rows<vector<16xbf16>>, %vr: !tile.rows<vector<64xbf16>>, %gr: !tile.rows<f32>,
       %or: !tile.rows<vector<64xf32>>, %hr: !tile.slots<vector<16x64xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %none = arith.constant dense<0.0> : vector<16x64xf32>
    %n = arith.ceildivui %length, %c16 : index
    %end = scf.for %c = %c0 to %n step %c1 iter_args(%s = %none) -> vector<16x64xf32> {
      %first = arith.muli %c, %c16 : index
      %kt = tile.load %kr[%first, %c0] : !tile.rows<vector<16xbf16>> -> vector<16x16xbf16>
      %vt = tile.load %vr[%first, %c0] : !tile.rows<vector<64xbf16>> -> vector<16x64xbf16>
      %gt = tile.load %gr[%first, %c0] : !tile.rows<f32> -> vector<16xf32>
      %kf = arith.extf %kt : vector<16x16xbf16> to vector<16x16xf32>
      %gs = tile.broadcast %gt along 0 : vector<16xf32> -> vector<16x16xf32>
      %ks = arith.mulf %kf, %gs : vector<16x16xf32>
      %kb = arith.truncf %ks : vector<16x16xf32> to vector<16x16xbf16>
      %rows = tile.dot %kb, %vt, %none : vector<16x16xbf16>, vector<16x64xbf16>, vector<16x64xf32>
      tile.store %rows, %or[%first, %c0] : vector<16x64xf32>, !tile.rows<vector<64xf32>>
      %next = tile.dot %kb transposed, %vt, %s : vector<16x16xbf16>, vector<16x64xbf16>, vector<16x64xf32>
      scf.yield %next : vector<16x64xf32>
    }
    tile.store_slot %end, %hr[%c0] at(%c0, %c0) : vector<16x64xf32>, !tile.slots<vector<16x64xf32>>
    tile.end
  }
  return %o, %ht : tensor<?x?x?x64xf32>, tensor<?x?x16x64xf32>
}
