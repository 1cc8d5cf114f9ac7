// Scores of four slices are computed once where that loses nothing.
// RUN: ejk-opt %s '--pass-pipeline=builtin.module(func.func(ejk-cut-fronts{arch=sm_90a}))' | FileCheck %s

// CHECK-LABEL: func.func @masked(
// CHECK:         %[[P:.*]] = tile.program chunk 64 segments <64 to 256, at_least 16> slices 1
// CHECK-SAME:      outputs(tensor<1x200x1x64xbf16>)
// CHECK:           tile.mask lower
// CHECK:           tile.store {{.*}} : vector<64x64xbf16>
// CHECK:         tile.program chunk 64 slices 8 {{.*}}%[[P]] :
// CHECK-NOT:       tile.mask
// CHECK:           tile.load {{.*}} -> vector<64x64xbf16>
func.func @masked(%q: tensor<1x200x1x512xbf16>, %k: tensor<1x200x1x512xbf16>, %v: tensor<1x200x1x512xbf16>)
    -> tensor<1x200x1x512xbf16> {
  %o = tile.program chunk 64 slices 8
      sequences(%q, %k, %v : tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>)
      outputs(tensor<1x200x1x512xbf16>) {
  ^bb0(%qr: !tile.rows<vector<512xbf16>>, %kr: !tile.rows<vector<512xbf16>>, %vr: !tile.rows<vector<512xbf16>>,
       %or: !tile.rows<vector<512xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %width = arith.constant 64 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %start = arith.constant dense<0.0> : vector<512x64xf32>
    %column = arith.muli %slice, %width : index
    %chunks = arith.ceildivui %length, %c64 : index
    %end = scf.for %i = %c0 to %chunks step %c1 iter_args(%S = %start) -> (vector<512x64xf32>) {
      %first = arith.muli %i, %c64 : index
      %q1 = tile.load %qr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %k1 = tile.load %kr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %v1 = tile.load %vr[%first, %column] : !tile.rows<vector<512xbf16>> -> vector<64x64xbf16>
      %scores = tile.dot %q1, %k1 transposed, %none : vector<64x512xbf16>, vector<64x512xbf16>, vector<64x64xf32>
      %taken = tile.mask lower %scores else 0.0 : vector<64x64xf32>
      %p = arith.truncf %taken : vector<64x64xf32> to vector<64x64xbf16>
      %s = arith.truncf %S : vector<512x64xf32> to vector<512x64xbf16>
      %inter = tile.dot %q1, %s, %zero : vector<64x512xbf16>, vector<512x64xbf16>, vector<64x64xf32>
      %all = tile.dot %p, %v1, %inter : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %rounded = arith.truncf %all : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %rounded, %or[%first, %column] : vector<64x64xbf16>, !tile.rows<vector<512xbf16>>
      %next = tile.dot %k1 transposed, %v1, %S : vector<64x512xbf16>, vector<64x64xbf16>, vector<512x64xf32>
      scf.yield %next : vector<512x64xf32>
    }
    tile.end
  }
  return %o : tensor<1x200x1x512xbf16>
}

// What is loaded past the end of a sequence would be zeros, and not e^0.
// CHECK-LABEL: func.func @exponentials(
// CHECK-NOT:     segments
// CHECK:         tile.program chunk 64 slices 8
func.func @exponentials(%q: tensor<1x200x1x512xbf16>, %k: tensor<1x200x1x512xbf16>, %v: tensor<1x200x1x512xbf16>)
    -> tensor<1x200x1x512xbf16> {
  %o = tile.program chunk 64 slices 8
      sequences(%q, %k, %v : tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>)
      outputs(tensor<1x200x1x512xbf16>) {
  ^bb0(%qr: !tile.rows<vector<512xbf16>>, %kr: !tile.rows<vector<512xbf16>>, %vr: !tile.rows<vector<512xbf16>>,
       %or: !tile.rows<vector<512xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %width = arith.constant 64 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %start = arith.constant dense<0.0> : vector<512x64xf32>
    %column = arith.muli %slice, %width : index
    %chunks = arith.ceildivui %length, %c64 : index
    %end = scf.for %i = %c0 to %chunks step %c1 iter_args(%S = %start) -> (vector<512x64xf32>) {
      %first = arith.muli %i, %c64 : index
      %q1 = tile.load %qr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %k1 = tile.load %kr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %v1 = tile.load %vr[%first, %column] : !tile.rows<vector<512xbf16>> -> vector<64x64xbf16>
      %scores = tile.dot %q1, %k1 transposed, %none : vector<64x512xbf16>, vector<64x512xbf16>, vector<64x64xf32>
      %taken = math.exp %scores : vector<64x64xf32>
      %p = arith.truncf %taken : vector<64x64xf32> to vector<64x64xbf16>
      %s = arith.truncf %S : vector<512x64xf32> to vector<512x64xbf16>
      %inter = tile.dot %q1, %s, %zero : vector<64x512xbf16>, vector<512x64xbf16>, vector<64x64xf32>
      %all = tile.dot %p, %v1, %inter : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %rounded = arith.truncf %all : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %rounded, %or[%first, %column] : vector<64x64xbf16>, !tile.rows<vector<512xbf16>>
      %next = tile.dot %k1 transposed, %v1, %S : vector<64x512xbf16>, vector<64x64xbf16>, vector<512x64xf32>
      scf.yield %next : vector<512x64xf32>
    }
    tile.end
  }
  return %o : tensor<1x200x1x512xbf16>
}

// Those of a slice are its own.
// CHECK-LABEL: func.func @of_slice(
// CHECK-NOT:     segments
// CHECK:         tile.program chunk 64 slices 8
func.func @of_slice(%q: tensor<1x200x1x512xbf16>, %k: tensor<1x200x1x512xbf16>, %v: tensor<1x200x1x512xbf16>)
    -> tensor<1x200x1x512xbf16> {
  %o = tile.program chunk 64 slices 8
      sequences(%q, %k, %v : tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>)
      outputs(tensor<1x200x1x512xbf16>) {
  ^bb0(%qr: !tile.rows<vector<512xbf16>>, %kr: !tile.rows<vector<512xbf16>>, %vr: !tile.rows<vector<512xbf16>>,
       %or: !tile.rows<vector<512xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %width = arith.constant 64 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %start = arith.constant dense<0.0> : vector<512x64xf32>
    %column = arith.muli %slice, %width : index
    %chunks = arith.ceildivui %length, %c64 : index
    %end = scf.for %i = %c0 to %chunks step %c1 iter_args(%S = %start) -> (vector<512x64xf32>) {
      %first = arith.muli %i, %c64 : index
      %q1 = tile.load %qr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %k1 = tile.load %kr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %v1 = tile.load %vr[%first, %column] : !tile.rows<vector<512xbf16>> -> vector<64x64xbf16>
      %scores = tile.dot %q1, %k1 transposed, %none : vector<64x512xbf16>, vector<64x512xbf16>, vector<64x64xf32>
      %number = arith.index_cast %slice : index to i32
      %factor = arith.sitofp %number : i32 to f32
      %factors = vector.broadcast %factor : f32 to vector<64x64xf32>
      %scaled = arith.mulf %scores, %factors : vector<64x64xf32>
      %taken = tile.mask lower %scaled else 0.0 : vector<64x64xf32>
      %p = arith.truncf %taken : vector<64x64xf32> to vector<64x64xbf16>
      %s = arith.truncf %S : vector<512x64xf32> to vector<512x64xbf16>
      %inter = tile.dot %q1, %s, %zero : vector<64x512xbf16>, vector<512x64xbf16>, vector<64x64xf32>
      %all = tile.dot %p, %v1, %inter : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %rounded = arith.truncf %all : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %rounded, %or[%first, %column] : vector<64x64xbf16>, !tile.rows<vector<512xbf16>>
      %next = tile.dot %k1 transposed, %v1, %S : vector<64x512xbf16>, vector<64x64xbf16>, vector<512x64xf32>
      scf.yield %next : vector<512x64xf32>
    }
    tile.end
  }
  return %o : tensor<1x200x1x512xbf16>
}

// Nor is a sum zero where one of its terms is not, nor a mask that has another number.
// CHECK-LABEL: func.func @sums(
// CHECK-NOT:     segments
// CHECK:         tile.program chunk 64 slices 8
func.func @sums(%q: tensor<1x200x1x512xbf16>, %k: tensor<1x200x1x512xbf16>, %v: tensor<1x200x1x512xbf16>)
    -> tensor<1x200x1x512xbf16> {
  %o = tile.program chunk 64 slices 8
      sequences(%q, %k, %v : tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>)
      outputs(tensor<1x200x1x512xbf16>) {
  ^bb0(%qr: !tile.rows<vector<512xbf16>>, %kr: !tile.rows<vector<512xbf16>>, %vr: !tile.rows<vector<512xbf16>>,
       %or: !tile.rows<vector<512xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %width = arith.constant 64 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %start = arith.constant dense<0.0> : vector<512x64xf32>
    %column = arith.muli %slice, %width : index
    %chunks = arith.ceildivui %length, %c64 : index
    %end = scf.for %i = %c0 to %chunks step %c1 iter_args(%S = %start) -> (vector<512x64xf32>) {
      %first = arith.muli %i, %c64 : index
      %q1 = tile.load %qr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %k1 = tile.load %kr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %v1 = tile.load %vr[%first, %column] : !tile.rows<vector<512xbf16>> -> vector<64x64xbf16>
      %scores = tile.dot %q1, %k1 transposed, %none : vector<64x512xbf16>, vector<64x512xbf16>, vector<64x64xf32>
      %exponentials = math.exp %scores : vector<64x64xf32>
      %masked = tile.mask lower %scores else 0.0 : vector<64x64xf32>
      %taken = arith.addf %masked, %exponentials : vector<64x64xf32>
      %p = arith.truncf %taken : vector<64x64xf32> to vector<64x64xbf16>
      %s = arith.truncf %S : vector<512x64xf32> to vector<512x64xbf16>
      %inter = tile.dot %q1, %s, %zero : vector<64x512xbf16>, vector<512x64xbf16>, vector<64x64xf32>
      %all = tile.dot %p, %v1, %inter : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %rounded = arith.truncf %all : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %rounded, %or[%first, %column] : vector<64x64xbf16>, !tile.rows<vector<512xbf16>>
      %next = tile.dot %k1 transposed, %v1, %S : vector<64x512xbf16>, vector<64x64xbf16>, vector<512x64xf32>
      scf.yield %next : vector<512x64xf32>
    }
    tile.end
  }
  return %o : tensor<1x200x1x512xbf16>
}

// CHECK-LABEL: func.func @masked_by_one(
// CHECK-NOT:     segments
// CHECK:         tile.program chunk 64 slices 8
func.func @masked_by_one(%q: tensor<1x200x1x512xbf16>, %k: tensor<1x200x1x512xbf16>, %v: tensor<1x200x1x512xbf16>)
    -> tensor<1x200x1x512xbf16> {
  %o = tile.program chunk 64 slices 8
      sequences(%q, %k, %v : tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>)
      outputs(tensor<1x200x1x512xbf16>) {
  ^bb0(%qr: !tile.rows<vector<512xbf16>>, %kr: !tile.rows<vector<512xbf16>>, %vr: !tile.rows<vector<512xbf16>>,
       %or: !tile.rows<vector<512xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %width = arith.constant 64 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %start = arith.constant dense<0.0> : vector<512x64xf32>
    %column = arith.muli %slice, %width : index
    %chunks = arith.ceildivui %length, %c64 : index
    %end = scf.for %i = %c0 to %chunks step %c1 iter_args(%S = %start) -> (vector<512x64xf32>) {
      %first = arith.muli %i, %c64 : index
      %q1 = tile.load %qr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %k1 = tile.load %kr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %v1 = tile.load %vr[%first, %column] : !tile.rows<vector<512xbf16>> -> vector<64x64xbf16>
      %scores = tile.dot %q1, %k1 transposed, %none : vector<64x512xbf16>, vector<64x512xbf16>, vector<64x64xf32>
      %taken = tile.mask lower %scores else 1.0 : vector<64x64xf32>
      %p = arith.truncf %taken : vector<64x64xf32> to vector<64x64xbf16>
      %s = arith.truncf %S : vector<512x64xf32> to vector<512x64xbf16>
      %inter = tile.dot %q1, %s, %zero : vector<64x512xbf16>, vector<512x64xbf16>, vector<64x64xf32>
      %all = tile.dot %p, %v1, %inter : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %rounded = arith.truncf %all : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %rounded, %or[%first, %column] : vector<64x64xbf16>, !tile.rows<vector<512xbf16>>
      %next = tile.dot %k1 transposed, %v1, %S : vector<64x512xbf16>, vector<64x64xbf16>, vector<512x64xf32>
      scf.yield %next : vector<512x64xf32>
    }
    tile.end
  }
  return %o : tensor<1x200x1x512xbf16>
}

// A front takes chunks as they come in time, in whichever order the state does.
// CHECK-LABEL: func.func @backwards(
// CHECK:         segments <64 to 256, at_least 16>
// CHECK:         scf.for %[[I:.*]] =
// CHECK-NEXT:      arith.muli %[[I]],
// CHECK:         tile.program chunk 64 slices 8
func.func @backwards(%q: tensor<1x200x1x512xbf16>, %k: tensor<1x200x1x512xbf16>, %v: tensor<1x200x1x512xbf16>)
    -> tensor<1x200x1x512xbf16> {
  %o = tile.program chunk 64 slices 8
      sequences(%q, %k, %v : tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>)
      outputs(tensor<1x200x1x512xbf16>) {
  ^bb0(%qr: !tile.rows<vector<512xbf16>>, %kr: !tile.rows<vector<512xbf16>>, %vr: !tile.rows<vector<512xbf16>>,
       %or: !tile.rows<vector<512xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %width = arith.constant 64 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %start = arith.constant dense<0.0> : vector<512x64xf32>
    %column = arith.muli %slice, %width : index
    %chunks = arith.ceildivui %length, %c64 : index
    %end = scf.for %i = %c0 to %chunks step %c1 iter_args(%S = %start) -> (vector<512x64xf32>) {
      %last = arith.subi %chunks, %c1 : index
      %number = arith.subi %last, %i : index
      %first = arith.muli %number, %c64 : index
      %q1 = tile.load %qr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %k1 = tile.load %kr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %v1 = tile.load %vr[%first, %column] : !tile.rows<vector<512xbf16>> -> vector<64x64xbf16>
      %scores = tile.dot %q1, %k1 transposed, %none : vector<64x512xbf16>, vector<64x512xbf16>, vector<64x64xf32>
      %taken = tile.mask lower %scores else 0.0 : vector<64x64xf32>
      %p = arith.truncf %taken : vector<64x64xf32> to vector<64x64xbf16>
      %s = arith.truncf %S : vector<512x64xf32> to vector<512x64xbf16>
      %inter = tile.dot %q1, %s, %zero : vector<64x512xbf16>, vector<512x64xbf16>, vector<64x64xf32>
      %all = tile.dot %p, %v1, %inter : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %rounded = arith.truncf %all : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %rounded, %or[%first, %column] : vector<64x64xbf16>, !tile.rows<vector<512xbf16>>
      %next = tile.dot %k1 transposed, %v1, %S : vector<64x512xbf16>, vector<64x64xbf16>, vector<512x64xf32>
      scf.yield %next : vector<512x64xf32>
    }
    tile.end
  }
  return %o : tensor<1x200x1x512xbf16>
}

// Chunks of a front are counted from its own first one on: a number made of that belongs to the state.
// CHECK-LABEL: func.func @counted(
// CHECK-NOT:     segments
// CHECK:         tile.program chunk 64 slices 8
func.func @counted(%q: tensor<1x200x1x512xbf16>, %k: tensor<1x200x1x512xbf16>, %v: tensor<1x200x1x512xbf16>)
    -> tensor<1x200x1x512xbf16> {
  %o = tile.program chunk 64 slices 8
      sequences(%q, %k, %v : tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>, tensor<1x200x1x512xbf16>)
      outputs(tensor<1x200x1x512xbf16>) {
  ^bb0(%qr: !tile.rows<vector<512xbf16>>, %kr: !tile.rows<vector<512xbf16>>, %vr: !tile.rows<vector<512xbf16>>,
       %or: !tile.rows<vector<512xbf16>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %width = arith.constant 64 : index
    %none = arith.constant dense<0.0> : vector<64x64xf32>
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %start = arith.constant dense<0.0> : vector<512x64xf32>
    %column = arith.muli %slice, %width : index
    %chunks = arith.ceildivui %length, %c64 : index
    %end = scf.for %i = %c0 to %chunks step %c1 iter_args(%S = %start) -> (vector<512x64xf32>) {
      %last = arith.subi %chunks, %c1 : index
      %number = arith.subi %last, %i : index
      %first = arith.muli %number, %c64 : index
      %q1 = tile.load %qr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %k1 = tile.load %kr[%first, %c0] : !tile.rows<vector<512xbf16>> -> vector<64x512xbf16>
      %v1 = tile.load %vr[%first, %column] : !tile.rows<vector<512xbf16>> -> vector<64x64xbf16>
      %scores = tile.dot %q1, %k1 transposed, %none : vector<64x512xbf16>, vector<64x512xbf16>, vector<64x64xf32>
      %count = arith.index_cast %i : index to i32
      %factor = arith.sitofp %count : i32 to f32
      %factors = vector.broadcast %factor : f32 to vector<64x64xf32>
      %scaled = arith.mulf %scores, %factors : vector<64x64xf32>
      %taken = tile.mask lower %scaled else 0.0 : vector<64x64xf32>
      %p = arith.truncf %taken : vector<64x64xf32> to vector<64x64xbf16>
      %s = arith.truncf %S : vector<512x64xf32> to vector<512x64xbf16>
      %inter = tile.dot %q1, %s, %zero : vector<64x512xbf16>, vector<512x64xbf16>, vector<64x64xf32>
      %all = tile.dot %p, %v1, %inter : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
      %rounded = arith.truncf %all : vector<64x64xf32> to vector<64x64xbf16>
      tile.store %rounded, %or[%first, %column] : vector<64x64xbf16>, !tile.rows<vector<512xbf16>>
      %next = tile.dot %k1 transposed, %v1, %S : vector<64x512xbf16>, vector<64x64xbf16>, vector<512x64xf32>
      scf.yield %next : vector<512x64xf32>
    }
    tile.end
  }
  return %o : tensor<1x200x1x512xbf16>
}
