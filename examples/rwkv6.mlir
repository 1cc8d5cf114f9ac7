// RWKV-6: the output sees earlier steps through the state, and its own step through a bonus u
// for each channel: o = Sᵀ r + (r · (u ⊙ k)) v, then S = exp(-exp(w)) ⊙ S + k vᵀ.
func.func @rwkv6(%r: tensor<?x?x?x64xbf16>, %w: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>, %u: tensor<?x64xf32>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%rn = %r : tensor<?x?x?x64xbf16>, %wn = %w : tensor<?x?x?x64xbf16>,
                %kn = %k : tensor<?x?x?x64xbf16>, %vn = %v : tensor<?x?x?x64xbf16>)
      parameters(%bonus = %u : tensor<?x64xf32> as vector<64xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %rt = arith.extf %rn : vector<64xbf16> to vector<64xf32>
    %wt = arith.extf %wn : vector<64xbf16> to vector<64xf32>
    %kt = arith.extf %kn : vector<64xbf16> to vector<64xf32>
    %vt = arith.extf %vn : vector<64xbf16> to vector<64xf32>
    %before = ejk.read %S, %rt along key : vector<64x64xf32>, vector<64xf32>
    %weighted = arith.mulf %bonus, %kt : vector<64xf32>
    %products = arith.mulf %rt, %weighted : vector<64xf32>
    %dot = ejk.sum %products : vector<64xf32>
    %dots = vector.broadcast %dot : f32 to vector<64xf32>
    %own = arith.mulf %dots, %vt : vector<64xf32>
    %ot = arith.addf %before, %own : vector<64xf32>
    %ew = math.exp %wt : vector<64xf32>
    %gk = arith.negf %ew : vector<64xf32>
    %S1 = ejk.decay %S by %gk along key : vector<64x64xf32>, vector<64xf32>
    %S2 = ejk.outer_add %S1, %kt, %vt : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %on = arith.truncf %ot : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%on : vector<64xbf16>)
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
