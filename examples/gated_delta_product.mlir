// Gated DeltaProduct with two corrections a step: after one decay, the state is corrected by one key and
// value, and then by another, which sees what the first has changed. Keys come normalised. The two
// are tensors of their own, with a row a step, as q and o are.
func.func @gated_delta_product(
    %q: tensor<?x?x?x64xbf16>,
    %k1: tensor<?x?x?x64xbf16> {ejk.operand = "k"}, %v1: tensor<?x?x?x64xbf16>,
    %beta1: tensor<?x?x?xf32> {ejk.operand = "beta"},
    %k2: tensor<?x?x?x64xbf16> {ejk.operand = "k"}, %v2: tensor<?x?x?x64xbf16>,
    %beta2: tensor<?x?x?xf32> {ejk.operand = "beta"},
    %g: tensor<?x?x?xf32>, %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qn = %q : tensor<?x?x?x64xbf16>, %k1n = %k1 : tensor<?x?x?x64xbf16>,
                %v1n = %v1 : tensor<?x?x?x64xbf16>, %b1 = %beta1 : tensor<?x?x?xf32>,
                %k2n = %k2 : tensor<?x?x?x64xbf16>, %v2n = %v2 : tensor<?x?x?x64xbf16>,
                %b2 = %beta2 : tensor<?x?x?xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = %h0 : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %qt = arith.extf %qn : vector<64xbf16> to vector<64xf32>
    %k1t = arith.extf %k1n : vector<64xbf16> to vector<64xf32>
    %v1t = arith.extf %v1n : vector<64xbf16> to vector<64xf32>
    %k2t = arith.extf %k2n : vector<64xbf16> to vector<64xf32>
    %v2t = arith.extf %v2n : vector<64xbf16> to vector<64xf32>
    %S0 = ejk.decay %S by %gt along head : vector<64x64xf32>, f32
    %held1 = ejk.read %S0, %k1t along key : vector<64x64xf32>, vector<64xf32>
    %wrong1 = arith.subf %v1t, %held1 : vector<64xf32>
    %rate1 = vector.broadcast %b1 : f32 to vector<64xf32>
    %u1 = arith.mulf %rate1, %wrong1 : vector<64xf32>
    %S1 = ejk.outer_add %S0, %k1t, %u1 : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %held2 = ejk.read %S1, %k2t along key : vector<64x64xf32>, vector<64xf32>
    %wrong2 = arith.subf %v2t, %held2 : vector<64xf32>
    %rate2 = vector.broadcast %b2 : f32 to vector<64xf32>
    %u2 = arith.mulf %rate2, %wrong2 : vector<64xf32>
    %S2 = ejk.outer_add %S1, %k2t, %u2 : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %scale = arith.constant dense<0.125> : vector<64xf32>
    %scaled = arith.mulf %qt, %scale : vector<64xf32>
    %ot = ejk.read %S2, %scaled along key : vector<64x64xf32>, vector<64xf32>
    %on = arith.truncf %ot : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%on : vector<64xbf16>)
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
