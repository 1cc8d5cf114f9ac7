// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-interpret=precision=native
// Small programs with numbers that every precision has.

// Rows and channels beyond the end load as zeros and are not stored; a sequence
// with fewer heads is shared; the length, the head and the slice are numbers.
func.func @memory() {
  %q = arith.constant dense<[[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]]> : tensor<1x1x2x3xf32>
  %k = arith.constant dense<[[[7.0]]]> : tensor<1x1x1xf32>
  %o, %s, %ht = tile.program chunk 16 slices 2
      sequences(%q, %k : tensor<1x1x2x3xf32>, tensor<1x1x1xf32>)
      outputs(tensor<1x1x2x3xf32>, tensor<1x1x2xf32>) finals(tensor<1x2x2xf32>) {
  ^bb0(%qr: !tile.rows<vector<3xf32>>, %kr: !tile.rows<f32>, %or: !tile.rows<vector<3xf32>>,
       %sr: !tile.rows<f32>, %hr: !tile.slots<vector<2xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %first = arith.constant -1 : index
    %channel = arith.muli %slice, %c2 : index
    %qt = tile.load %qr[%first, %channel] : !tile.rows<vector<3xf32>> -> vector<3x2xf32>
    tile.store %qt, %or[%first, %channel] : vector<3x2xf32>, !tile.rows<vector<3xf32>>
    %kt = tile.load %kr[%first, %c0] : !tile.rows<f32> -> vector<3xf32>
    tile.store %kt, %sr[%first, %c0] : vector<3xf32>, !tile.rows<f32>
    %sum = tile.sum %qt over 0 : vector<3x2xf32> -> vector<2xf32>
    tile.store_slot %sum, %hr[%c0] at (%slice) : vector<2xf32>, !tile.slots<vector<2xf32>>
    tile.end
  }
  %es = arith.constant dense<7.0> : tensor<1x1x2xf32>
  // The second slice has channel 2 alone, and stores it at 1.
  %eh = arith.constant dense<[[[1.0, 3.0], [4.0, 6.0]]]> : tensor<1x2x2xf32>
  check.expect_equal %o, %q : tensor<1x1x2x3xf32>
  check.expect_equal %s, %es : tensor<1x1x2xf32>
  check.expect_equal %ht, %eh : tensor<1x2x2xf32>
  return
}

// Packed sequences, one of them empty; parameters as numbers and as slots; saved
// states on the grid of chunks from each sequence's first row.
func.func @packed() {
  %q = arith.constant dense<[[[1.0], [2.0], [3.0], [4.0], [5.0]]]> : tensor<1x5x1xf32>
  %cu = arith.constant dense<[0, 3, 3, 5]> : tensor<4xi32>
  %a = arith.constant dense<[[10.0], [20.0], [30.0]]> : tensor<3x1xf32>
  %b = arith.constant dense<[100.0, 200.0]> : tensor<2xf32>
  %saves = arith.constant dense<[[1.0], [2.0], [3.0], [4.0], [5.0]]> : tensor<5x1xf32>
  %o, %ht, %written = tile.program chunk 2 save_every 2 slices 1
      sequences(%q : tensor<1x5x1xf32>)
      parameters(%a, %b : tensor<3x1xf32>, tensor<2xf32>)
      saved(%saves : tensor<5x1xf32>)
      cu_seqlens(%cu : tensor<4xi32>)
      outputs(tensor<1x5x1xf32>) finals(tensor<3x1xf32>) saves(tensor<5x1xf32>) {
  ^bb0(%qr: !tile.rows<f32>, %ar: f32, %br: !tile.slots<vector<2xf32>>, %savedr: !tile.slots<f32>,
       %or: !tile.rows<f32>, %hr: !tile.slots<f32>, %savesr: !tile.slots<f32>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %bt = tile.load_slot %br[%c0] at (%c1) : !tile.slots<vector<2xf32>> -> vector<2xf32>
    %n = arith.ceildivui %length, %c2 : index
    %sum = scf.for %c = %c0 to %n step %c1 iter_args(%s = %ar) -> f32 {
      %first = arith.muli %c, %c2 : index
      %x = tile.load %qr[%first, %c0] : !tile.rows<f32> -> vector<2xf32>
      %saved = tile.load_slot %savedr[%c] at () : !tile.slots<f32> -> f32
      %wide = vector.broadcast %saved : f32 to vector<2xf32>
      %y = arith.addf %x, %wide : vector<2xf32>
      tile.store %y, %or[%first, %c0] : vector<2xf32>, !tile.rows<f32>
      // The larger of the two, by how far the first is from the second.
      %x0 = vector.extract %x[0] : f32 from vector<2xf32>
      %x1 = vector.extract %x[1] : f32 from vector<2xf32>
      %only0 = vector.broadcast %x0 : f32 to vector<2xf32>
      %bound = vector.broadcast %x1 : f32 to vector<2xf32>
      %less = arith.subf %only0, %bound : vector<2xf32>
      // 1-2 and 4-5 are, 3-0 is not, and with x beside it nothing is.
      %in = tile.range_guard 2.5 of %less : vector<2xf32>
      %both = tile.range_guard 0.5 of %less, %x : vector<2xf32>, vector<2xf32>
      %large = arith.select %in, %x1, %x0 : f32
      %top = arith.select %both, %s, %large : f32
      %s1 = arith.addf %s, %top : f32
      tile.store_slot %s1, %savesr[%c] at () : f32, !tile.slots<f32>
      scf.yield %s1 : f32
    }
    %last = vector.extract %bt[0] : f32 from vector<2xf32>
    %all = arith.addf %sum, %last : f32
    tile.store_slot %all, %hr[%c0] at () : f32, !tile.slots<f32>
    tile.end
  }
  // Sequence 0 has slots 0 and 1, sequence 1 (from row 3, empty) none, sequence 2
  // (from row 3) slot 1 + 2.
  %eo = arith.constant dense<[[[2.0], [3.0], [5.0], [8.0], [9.0]]]> : tensor<1x5x1xf32>
  %eh = arith.constant dense<[[215.0], [220.0], [235.0]]> : tensor<3x1xf32>
  check.expect_equal %o, %eo : tensor<1x5x1xf32>
  check.expect_equal %ht, %eh : tensor<3x1xf32>
  %e0 = arith.constant dense<[[12.0], [15.0]]> : tensor<2x1xf32>
  %s0 = tensor.extract_slice %written[0, 0] [2, 1] [1, 1] : tensor<5x1xf32> to tensor<2x1xf32>
  %e3 = arith.constant dense<[[35.0]]> : tensor<1x1xf32>
  %s3 = tensor.extract_slice %written[3, 0] [1, 1] [1, 1] : tensor<5x1xf32> to tensor<1x1xf32>
  check.expect_equal %s0, %e0 : tensor<2x1xf32>
  check.expect_equal %s3, %e3 : tensor<1x1xf32>
  return
}

// Products of a tile as it lies and transposed, sums along each dimension and along
// time, masks, and a branch.
func.func @arithmetic() {
  %q = arith.constant dense<[[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]]> : tensor<1x3x1x2xf32>
  %o:6 = tile.program chunk 16 slices 1 sequences(%q : tensor<1x3x1x2xf32>)
      finals(tensor<1x1x3x3xf32>, tensor<1x1x2x2xf32>, tensor<1x1x3x2xf32>, tensor<1x1x3x3xf32>,
             tensor<1x1x3x2xf32>, tensor<1x1x3x2xf32>) {
  ^bb0(%qr: !tile.rows<vector<2xf32>>, %r0: !tile.slots<vector<3x3xf32>>,
       %r1: !tile.slots<vector<2x2xf32>>, %r2: !tile.slots<vector<3x2xf32>>,
       %r3: !tile.slots<vector<3x3xf32>>, %r4: !tile.slots<vector<3x2xf32>>,
       %r5: !tile.slots<vector<3x2xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %one = arith.constant dense<1.0> : vector<3x3xf32>
    %zero = arith.constant dense<0.0> : vector<2x2xf32>
    %x = tile.load %qr[%c0, %c0] : !tile.rows<vector<2xf32>> -> vector<3x2xf32>
    %p = tile.dot %x, %x transposed, %one : vector<3x2xf32>, vector<3x2xf32>, vector<3x3xf32>
    tile.store_slot %p, %r0[%c0] at (%c0, %c0) : vector<3x3xf32>, !tile.slots<vector<3x3xf32>>
    %s = tile.dot %x transposed, %x, %zero : vector<3x2xf32>, vector<3x2xf32>, vector<2x2xf32>
    tile.store_slot %s, %r1[%c0] at (%c0, %c0) : vector<2x2xf32>, !tile.slots<vector<2x2xf32>>
    %g = tile.cumsum reverse exclusive %x : vector<3x2xf32>
    tile.store_slot %g, %r2[%c0] at (%c0, %c0) : vector<3x2xf32>, !tile.slots<vector<3x2xf32>>
    %m = tile.mask upper strict %p else 0.0 : vector<3x3xf32>
    tile.store_slot %m, %r3[%c0] at (%c0, %c0) : vector<3x3xf32>, !tile.slots<vector<3x3xf32>>
    %w = tile.window %x from (%c1, %c0) to (%c3, %c1) else -1.0 : vector<3x2xf32>
    tile.store_slot %w, %r4[%c0] at (%c0, %c0) : vector<3x2xf32>, !tile.slots<vector<3x2xf32>>
    // The branch taken hands its values on crosswise: rows 1 and 2 by turns.
    %yes = arith.cmpi eq, %length, %c3 : index
    %a0 = vector.extract %x[1] : vector<2xf32> from vector<3x2xf32>
    %b0 = vector.extract %x[%c2] : vector<2xf32> from vector<3x2xf32>
    %a, %b = scf.if %yes -> (vector<2xf32>, vector<2xf32>) {
      %y, %z = scf.for %i = %c0 to %c3 step %c1 iter_args(%u = %a0, %v = %b0)
          -> (vector<2xf32>, vector<2xf32>) {
        scf.yield %v, %u : vector<2xf32>, vector<2xf32>
      }
      scf.yield %y, %z : vector<2xf32>, vector<2xf32>
    } else {
      scf.yield %a0, %a0 : vector<2xf32>, vector<2xf32>
    }
    %sa = tile.broadcast %a along 1 : vector<2xf32> -> vector<3x2xf32>
    %n = tile.sum %x over 1 : vector<3x2xf32> -> vector<3xf32>
    %sn = tile.broadcast %n along 0 : vector<3xf32> -> vector<3x2xf32>
    %t = arith.addf %sa, %sn : vector<3x2xf32>
    tile.store_slot %t, %r5[%c0] at (%c0, %c0) : vector<3x2xf32>, !tile.slots<vector<3x2xf32>>
    tile.end
  }
  %e0 = arith.constant dense<[[[[6.0, 12.0, 18.0], [12.0, 26.0, 40.0], [18.0, 40.0, 62.0]]]]> : tensor<1x1x3x3xf32>
  %e1 = arith.constant dense<[[[[35.0, 44.0], [44.0, 56.0]]]]> : tensor<1x1x2x2xf32>
  %e2 = arith.constant dense<[[[[8.0, 10.0], [5.0, 6.0], [0.0, 0.0]]]]> : tensor<1x1x3x2xf32>
  %e3 = arith.constant dense<[[[[0.0, 12.0, 18.0], [0.0, 0.0, 40.0], [0.0, 0.0, 0.0]]]]> : tensor<1x1x3x3xf32>
  %e4 = arith.constant dense<[[[[-1.0, -1.0], [3.0, -1.0], [5.0, -1.0]]]]> : tensor<1x1x3x2xf32>
  %e5 = arith.constant dense<[[[[8.0, 9.0], [12.0, 13.0], [16.0, 17.0]]]]> : tensor<1x1x3x2xf32>
  check.expect_equal %o#0, %e0 : tensor<1x1x3x3xf32>
  check.expect_equal %o#1, %e1 : tensor<1x1x2x2xf32>
  check.expect_equal %o#2, %e2 : tensor<1x1x3x2xf32>
  check.expect_equal %o#3, %e3 : tensor<1x1x3x3xf32>
  check.expect_equal %o#4, %e4 : tensor<1x1x3x2xf32>
  check.expect_equal %o#5, %e5 : tensor<1x1x3x2xf32>
  return
}

// Sums from a row on, forwards and backwards from it: those of the rows 1 2, 3 4, 5 6.
func.func @sums_from_a_row() {
  %x = arith.constant dense<[[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]]> : tensor<1x3x1x2xf32>
  %o:4 = tile.program chunk 16 slices 1 sequences(%x : tensor<1x3x1x2xf32>)
      finals(tensor<1x1x3x2xf32>, tensor<1x1x3x2xf32>, tensor<1x1x3x2xf32>, tensor<1x1x3x2xf32>) {
  ^bb0(%xr: !tile.rows<vector<2xf32>>, %r0: !tile.slots<vector<3x2xf32>>,
       %r1: !tile.slots<vector<3x2xf32>>, %r2: !tile.slots<vector<3x2xf32>>,
       %r3: !tile.slots<vector<3x2xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %xr[%c0, %c0] : !tile.rows<vector<2xf32>> -> vector<3x2xf32>
    %a = tile.cumsum %t from 1 : vector<3x2xf32>
    tile.store_slot %a, %r0[%c0] at (%c0, %c0) : vector<3x2xf32>, !tile.slots<vector<3x2xf32>>
    %b = tile.cumsum exclusive %t from 1 : vector<3x2xf32>
    tile.store_slot %b, %r1[%c0] at (%c0, %c0) : vector<3x2xf32>, !tile.slots<vector<3x2xf32>>
    %c = tile.cumsum reverse %t from 0 : vector<3x2xf32>
    tile.store_slot %c, %r2[%c0] at (%c0, %c0) : vector<3x2xf32>, !tile.slots<vector<3x2xf32>>
    %d = tile.cumsum reverse exclusive %t from 1 : vector<3x2xf32>
    tile.store_slot %d, %r3[%c0] at (%c0, %c0) : vector<3x2xf32>, !tile.slots<vector<3x2xf32>>
    tile.end
  }
  %e0 = arith.constant dense<[[[[-3.0, -4.0], [0.0, 0.0], [5.0, 6.0]]]]> : tensor<1x1x3x2xf32>
  %e1 = arith.constant dense<[[[[-1.0, -2.0], [0.0, 0.0], [3.0, 4.0]]]]> : tensor<1x1x3x2xf32>
  %e2 = arith.constant dense<[[[[0.0, 0.0], [-1.0, -2.0], [-4.0, -6.0]]]]> : tensor<1x1x3x2xf32>
  %e3 = arith.constant dense<[[[[3.0, 4.0], [0.0, 0.0], [-5.0, -6.0]]]]> : tensor<1x1x3x2xf32>
  check.expect_equal %o#0, %e0 : tensor<1x1x3x2xf32>
  check.expect_equal %o#1, %e1 : tensor<1x1x3x2xf32>
  check.expect_equal %o#2, %e2 : tensor<1x1x3x2xf32>
  check.expect_equal %o#3, %e3 : tensor<1x1x3x2xf32>
  return
}

// What was computed for one row, and for two.
func.func @choose() {
  %one = arith.constant dense<0.0> : tensor<3x1x1xf32>
  %two = arith.constant dense<0.0> : tensor<1x2x1xf32>
  %a = arith.constant dense<1.0> : tensor<4xf32>
  %b = arith.constant dense<2.0> : tensor<4xf32>
  %ca = tile.choose single %a, several %b of %one : tensor<4xf32>, tensor<3x1x1xf32>
  %cb = tile.choose single %a, several %b of %two : tensor<4xf32>, tensor<1x2x1xf32>
  check.expect_equal %ca, %a : tensor<4xf32>
  check.expect_equal %cb, %b : tensor<4xf32>
  return
}
