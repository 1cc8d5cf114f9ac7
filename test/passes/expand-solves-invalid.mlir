// A system whose rows do not make whole blocks is refused, not made into IR that does not verify.
// RUN: ejk-opt %s --ejk-expand-solves --verify-diagnostics
func.func @eight_rows(%m: tensor<1x8x1x8xf32>, %b: tensor<1x8x1x32xf32>) -> tensor<1x8x1x32xf32> {
  %x = tile.program chunk 64 slices 1
      sequences(%m, %b : tensor<1x8x1x8xf32>, tensor<1x8x1x32xf32>) outputs(tensor<1x8x1x32xf32>) {
  ^bb0(%mr: !tile.rows<vector<8xf32>>, %br: !tile.rows<vector<32xf32>>, %xr: !tile.rows<vector<32xf32>>,
       %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %mt = tile.load %mr[%c0, %c0] : !tile.rows<vector<8xf32>> -> vector<8x8xf32>
    %bt = tile.load %br[%c0, %c0] : !tile.rows<vector<32xf32>> -> vector<8x32xf32>
    // expected-error@+1 {{can be computed by matmuls where 16 divides the matrix's rows, but there are 8; add rows and columns of zeros}}
    %xt = tile.solve %mt, %bt : vector<8x8xf32>, vector<8x32xf32>
    tile.store %xt, %xr[%c0, %c0] : vector<8x32xf32>, !tile.rows<vector<32xf32>>
    tile.end
  }
  return %x : tensor<1x8x1x32xf32>
}
