// GLA with a gate of each key channel that its step bounds: -5 sigmoid(x).
func.func @bounded(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %x: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%row0 = %q : tensor<?x?x?x64xbf16>, %row1 = %k : tensor<?x?x?x64xbf16>, %row2 = %v : tensor<?x?x?x64xbf16>, %row3 = %x : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>)
      -> (tensor<?x?x?x64xbf16>) {
    %w0 = arith.extf %row0 : vector<64xbf16> to vector<64xf32>
    %w1 = arith.extf %row1 : vector<64xbf16> to vector<64xf32>
    %w2 = arith.extf %row2 : vector<64xbf16> to vector<64xf32>
    %w3 = arith.extf %row3 : vector<64xbf16> to vector<64xf32>
    %c0 = arith.constant 0.0 : f32
    %c1 = vector.broadcast %c0 : f32 to vector<64xf32>
    %c2 = arith.cmpf olt, %w3, %c1 : vector<64xf32>
    %c3 = arith.negf %w3 : vector<64xf32>
    %c4 = arith.select %c2, %w3, %c3 : vector<64xi1>, vector<64xf32>
    %c5 = math.exp %c4 : vector<64xf32>
    %c6 = arith.constant 1.0 : f32
    %c7 = vector.broadcast %c6 : f32 to vector<64xf32>
    %c8 = arith.select %c2, %c5, %c7 : vector<64xi1>, vector<64xf32>
    %c9 = arith.constant 1.0 : f32
    %c10 = vector.broadcast %c9 : f32 to vector<64xf32>
    %c11 = arith.addf %c10, %c5 : vector<64xf32>
    %c12 = arith.divf %c8, %c11 : vector<64xf32>
    %c13 = arith.constant -5.0 : f32
    %c14 = vector.broadcast %c13 : f32 to vector<64xf32>
    %c15 = arith.mulf %c14, %c12 : vector<64xf32>
    %c16 = ejk.decay %S by %c15 along key : vector<64x64xf32>, vector<64xf32>
    %c17 = ejk.outer_add %c16, %w1, %w2 : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %c18 = ejk.read %c17, %w0 along key : vector<64x64xf32>, vector<64xf32>
    %read = arith.truncf %c18 : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%c17 : vector<64x64xf32>) outputs(%read : vector<64xbf16>)
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}

