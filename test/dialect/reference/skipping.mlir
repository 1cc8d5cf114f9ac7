// RUN: ejk-opt %s --ejk-interpret
// RUN: ejk-opt %s --ejk-interpret=precision=native
// Programs that share a result, each of which computes the heads that the other skips.

// Head 0 is doubled and head 1 negated. A final state that is not written is what it starts as.
func.func @heads() {
  %x = arith.constant dense<[[[1.0, 10.0], [2.0, 20.0]]]> : tensor<1x2x2xf32>
  %first = arith.constant dense<[[1.0, 0.0]]> : tensor<1x2xf32>
  %second = arith.constant dense<[[0.0, 1.0]]> : tensor<1x2xf32>
  %a, %ah = tile.program chunk 16 slices 1 sequences(%x : tensor<1x2x2xf32>) skipping(%second : tensor<1x2xf32>)
      outputs(tensor<1x2x2xf32>) finals(tensor<1x2xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %hr: !tile.slots<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %seven = arith.constant 7.0 : f32
    %t = tile.load %xr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    %d = arith.addf %t, %t : vector<16xf32>
    tile.store %d, %or[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    tile.store_slot %seven, %hr[%c0] at () : f32, !tile.slots<f32>
    tile.end
  }
  %o, %ht = tile.program chunk 16 slices 1 sequences(%x : tensor<1x2x2xf32>) skipping(%first : tensor<1x2xf32>)
      into(%a, %ah : tensor<1x2x2xf32>, tensor<1x2xf32>) at [0, 1] outputs(tensor<1x2x2xf32>) finals(tensor<1x2xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %hr: !tile.slots<f32>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %nine = arith.constant 9.0 : f32
    %t = tile.load %xr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    %n = arith.negf %t : vector<16xf32>
    tile.store %n, %or[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    tile.store_slot %nine, %hr[%c0] at () : f32, !tile.slots<f32>
    tile.end
  }
  %eo = arith.constant dense<[[[2.0, -10.0], [4.0, -20.0]]]> : tensor<1x2x2xf32>
  %eh = arith.constant dense<[[7.0, 9.0]]> : tensor<1x2xf32>
  check.expect_equal %o, %eo : tensor<1x2x2xf32>
  check.expect_equal %ht, %eh : tensor<1x2xf32>
  return
}

// Of packed sequences each has flags of its own; of segments, those of their sequence.
func.func @sequences() {
  %x = arith.constant dense<2.0> : tensor<1x20x1xf32>
  %cu = arith.constant dense<[0, 18, 20]> : tensor<3xi32>
  %start = arith.constant dense<0.5> : tensor<1x20x1xf32>
  %flags = arith.constant dense<[[0.0], [1.0]]> : tensor<2x1xf32>
  %o = tile.program chunk 16 segments<16 to 16, at_least 1> slices 1 sequences(%x : tensor<1x20x1xf32>)
      cu_seqlens(%cu : tensor<3xi32>) skipping(%flags : tensor<2x1xf32>) into(%start : tensor<1x20x1xf32>) at [0]
      outputs(tensor<1x20x1xf32>) {
  ^bb0(%xr: !tile.rows<f32>, %or: !tile.rows<f32>, %length: index, %slice: index, %head: index, %heads: index,
       %place: index, %whole: index):
    %c0 = arith.constant 0 : index
    %t = tile.load %xr[%c0, %c0] : !tile.rows<f32> -> vector<16xf32>
    tile.store %t, %or[%c0, %c0] : vector<16xf32>, !tile.rows<f32>
    tile.end
  }
  %e = arith.constant dense<[[[2.0], [2.0], [2.0], [2.0], [2.0], [2.0], [2.0], [2.0], [2.0], [2.0], [2.0], [2.0], [2.0],
                              [2.0], [2.0], [2.0], [2.0], [2.0], [0.5], [0.5]]]> : tensor<1x20x1xf32>
  check.expect_equal %o, %e : tensor<1x20x1xf32>
  return
}
