// Three matmuls of two operands in two terms are one in tf32, where tensor cores can take the operands as they
// are oriented: here the product transposed, with what is 128 columns wide in registers.
// RUN: ejk-opt %s --ejk-interpret=precision=native -o /dev/null
// RUN: ejk-opt %s --ejk-multiply-in-tf32 -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// Its errors are those of 11 bits: more than with terms, far less than with 8.
// RUN: sed 's/max_relative 1.000000e-05/max_relative 4.0e-4/' %t.mlir | ejk-opt --ejk-interpret=precision=native -o /dev/null
// RUN: not ejk-opt %t.mlir --ejk-interpret=precision=native -o /dev/null
// In f64 nothing is rounded.
// RUN: ejk-opt %t.mlir --ejk-interpret=precision=f64 -o /dev/null

// CHECK-LABEL: func.func @products
// CHECK: %[[P:.*]] = tile.dot %{{.*}}, %{{.*}} transposed,
// CHECK-DAG: %[[PR:.*]] = tile.round_to_tf32 %[[P]] : vector<64x64xf32>
// CHECK-DAG: %[[X:.*]] = arith.mulf
// CHECK-DAG: %[[XR:.*]] = tile.round_to_tf32 %[[X]] : vector<64x128xf32>
// CHECK-NOT: arith.truncf
// CHECK: %[[WHOLE:.*]] = tile.dot %[[PR]], %[[XR]], %{{cst.*}} in tf32 : vector<64x64xf32>, vector<64x128xf32>
// CHECK-NEXT: tile.dot %[[PR]], %[[XR]], %[[WHOLE]] over [0, 32] rows [32, 64] in tf32
// CHECK-NEXT: tile.store

// The kernel, too, and its layouts.
// RUN: sed '/^  %exact = tile.program/,/^  }/d; /expect_close/d' %s > %t.alone.mlir
// RUN: ejk-opt %t.alone.mlir --ejk-describe-interface --ejk-multiply-in-tf32 --ejk-select-warps=arch=sm_90a | FileCheck %s --check-prefix=LAID-OUT
// LAID-OUT: tile.round_to_tf32 %{{.*}} {tile.layouts = [#tile.layout<fragments over 4 by 1>]} : vector<64x64xf32>
// LAID-OUT: %[[B:.*]] = tile.convert %{{.*}} to <swizzled> : vector<64x64xf32>
// LAID-OUT: tile.dot %[[B]], %{{.*}} in tf32 {tile.layouts = [#tile.layout<transposed_fragments over

// TERMS-NOT: tf32
// Nothing is in tf32 of transposed operands, whose rows would lie across the sum, nor where all tiles
// are small.
// RUN: sed 's/%m1, %x/%m1 transposed, %x/; s/%m2, %x/%m2 transposed, %x/' %s | ejk-opt --ejk-multiply-in-tf32 | FileCheck %s --check-prefix=TERMS
// RUN: sed '/ over .0, 32/d; s/store %f/store %c/; s/64x128/64x64/g; s/128xbf16/64xbf16/g; s/128xf32/64xf32/g' %s | ejk-opt --ejk-multiply-in-tf32 | FileCheck %s --check-prefix=TERMS
// One term less, other rows, or another sum between: no product.
// RUN: sed '/%b = tile.dot/d; s/%x2, %b :/%x2, %a :/; s/, %c over .0, 32. rows .32, 64./, %c/; /%e = tile.dot/d; s/%x1, %e over/%x1, %d over/' %s | ejk-opt --ejk-multiply-in-tf32 | FileCheck %s --check-prefix=TERMS
// RUN: sed 's/%b = tile.dot %m2, %x1, %a/& over [0, 32]/; s/%e = tile.dot %m2, %x1, %d over .0, 32./%e = tile.dot %m2, %x1, %d over [0, 16]/' %s | ejk-opt --ejk-multiply-in-tf32 | FileCheck %s --check-prefix=TERMS
// Nor where few channels need the smaller error of terms.
// RUN: sed 's/sequences(%k, %v : /sequences(%n, %k, %v : tensor<1x64x1x16xbf16>, /; s/bb0(/bb0(%nr: !tile.rows<vector<16xbf16>>, /; s/%k = check.random.*/%n = check.random normal seed 3 : tensor<1x64x1x16xbf16> &/' %s > %t.few.mlir
// RUN: ejk-opt %t.few.mlir --ejk-multiply-in-tf32 | FileCheck %s
// RUN: sed 's/slices 1$/slices 1 corrects/' %t.few.mlir | ejk-opt --ejk-multiply-in-tf32 | FileCheck %s --check-prefix=TERMS
func.func @products() {
  %k = check.random normal seed 1 : tensor<1x64x1x64xbf16>
  %v = check.random normal seed 2 : tensor<1x64x1x128xbf16>
  %o = tile.program chunk 64 slices 1
      sequences(%k, %v : tensor<1x64x1x64xbf16>, tensor<1x64x1x128xbf16>) outputs(tensor<1x64x1x128xf32>) {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %vr: !tile.rows<vector<128xbf16>>, %or: !tile.rows<vector<128xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %zero = arith.constant dense<0.0> : vector<64x128xf32>
    %kt = tile.load %kr[%c0, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %vt = tile.load %vr[%c0, %c0] : !tile.rows<vector<128xbf16>> -> vector<64x128xbf16>
    %w = arith.extf %vt : vector<64x128xbf16> to vector<64x128xf32>
    %m = tile.dot %kt, %kt transposed, %none : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    %x = arith.mulf %w, %w : vector<64x128xf32>
    %m1 = arith.truncf %m : vector<64x64xf32> to vector<64x64xbf16>
    %mw = arith.extf %m1 : vector<64x64xbf16> to vector<64x64xf32>
    %mr = arith.subf %m, %mw : vector<64x64xf32>
    %m2 = arith.truncf %mr : vector<64x64xf32> to vector<64x64xbf16>
    %x1 = arith.truncf %x : vector<64x128xf32> to vector<64x128xbf16>
    %xw = arith.extf %x1 : vector<64x128xbf16> to vector<64x128xf32>
    %xr = arith.subf %x, %xw : vector<64x128xf32>
    %x2 = arith.truncf %xr : vector<64x128xf32> to vector<64x128xbf16>
    %a = tile.dot %m1, %x1, %zero : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
    %b = tile.dot %m2, %x1, %a : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
    %c = tile.dot %m1, %x2, %b : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
    %d = tile.dot %m1, %x2, %c over [0, 32] rows [32, 64] : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
    %e = tile.dot %m2, %x1, %d over [0, 32] rows [32, 64] : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
    %f = tile.dot %m1, %x1, %e over [0, 32] rows [32, 64] : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
    tile.store %f, %or[%c0, %c0] : vector<64x128xf32>, !tile.rows<vector<128xf32>>
    tile.end
  }
  %exact = tile.program chunk 64 slices 1
      sequences(%k, %v : tensor<1x64x1x64xbf16>, tensor<1x64x1x128xbf16>) outputs(tensor<1x64x1x128xf32>) {
  ^bb0(%kr: !tile.rows<vector<64xbf16>>, %vr: !tile.rows<vector<128xbf16>>, %or: !tile.rows<vector<128xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %zero = arith.constant dense<0.0> : vector<64x128xf32>
    %kt = tile.load %kr[%c0, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %vt = tile.load %vr[%c0, %c0] : !tile.rows<vector<128xbf16>> -> vector<64x128xbf16>
    %w = arith.extf %vt : vector<64x128xbf16> to vector<64x128xf32>
    %m = tile.dot %kt, %kt transposed, %none : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    %x = arith.mulf %w, %w : vector<64x128xf32>
    %c = tile.dot %m, %x, %zero : vector<64x64xf32>, vector<64x128xf32>, vector<64x128xf32>
    %f = tile.dot %m, %x, %c over [0, 32] rows [32, 64] : vector<64x64xf32>, vector<64x128xf32>, vector<64x128xf32>
    tile.store %f, %or[%c0, %c0] : vector<64x128xf32>, !tile.rows<vector<128xf32>>
    tile.end
  }
  check.expect_close %o, %exact max_relative 1.0e-5 : tensor<1x64x1x128xf32>
  return
}
