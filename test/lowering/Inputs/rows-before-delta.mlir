// A gated delta rule whose keys and queries are rows in f32 that scans before it compute of 16-bit rows.
func.func @gdn(%v: tensor<?x?x?x64xbf16> {ejk.shape = ["B", "T", "Hv", "64"]}, %q: tensor<?x?x?x64xbf16> {ejk.shape = ["B", "T", "Hk", "64"]}, %k: tensor<?x?x?x64xbf16> {ejk.shape = ["B", "T", "Hk", "64"]}, %ga: tensor<?x?x?xf32> {ejk.shape = ["B", "T", "Hv"]}, %b: tensor<?x?x?xf32> {ejk.shape = ["B", "T", "Hv"]}, %A: tensor<?xf32> {ejk.shape = ["Hv"]}, %bias: tensor<?xf32> {ejk.shape = ["Hv"]})
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}) {
  %qn = ejk.scan
      sequences(%xt = %q : tensor<?x?x?x64xbf16>)
      states() -> (tensor<?x?x?x64xf32>) {
    %epsilon = arith.constant 1.0e-6 : f32
    %xw = arith.extf %xt : vector<64xbf16> to vector<64xf32>
    %sq = arith.mulf %xw, %xw : vector<64xf32>
    %sum = ejk.sum %sq : vector<64xf32>
    %more = arith.addf %sum, %epsilon : f32
    %over = math.rsqrt %more : f32
    %each = vector.broadcast %over : f32 to vector<64xf32>
    %n = arith.mulf %xw, %each : vector<64xf32>
    ejk.yield outputs(%n : vector<64xf32>)
  }
  %kn = ejk.scan
      sequences(%xt = %k : tensor<?x?x?x64xbf16>)
      states() -> (tensor<?x?x?x64xf32>) {
    %epsilon = arith.constant 1.0e-6 : f32
    %xw = arith.extf %xt : vector<64xbf16> to vector<64xf32>
    %sq = arith.mulf %xw, %xw : vector<64xf32>
    %sum = ejk.sum %sq : vector<64xf32>
    %more = arith.addf %sum, %epsilon : f32
    %over = math.rsqrt %more : f32
    %each = vector.broadcast %over : f32 to vector<64xf32>
    %n = arith.mulf %xw, %each : vector<64xf32>
    ejk.yield outputs(%n : vector<64xf32>)
  }
  %o, %ht = ejk.scan
      sequences(%vt = %v : tensor<?x?x?x64xbf16>, %q1 = %qn : tensor<?x?x?x64xf32>, %k1 = %kn : tensor<?x?x?x64xf32>, %at = %ga : tensor<?x?x?xf32>, %bt = %b : tensor<?x?x?xf32>)
      parameters(%a = %A : tensor<?xf32> as f32, %bi = %bias : tensor<?xf32> as f32)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %vw = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %zero = arith.constant 0.0 : f32
    %y = arith.addf %at, %bi : f32
    %top = arith.maximumf %y, %zero : f32
    %abs = math.absf %y : f32
    %low = arith.negf %abs : f32
    %e = math.exp %low : f32
    %l = math.log1p %e : f32
    %softplus = arith.addf %top, %l : f32
    %ea = math.exp %a : f32
    %rate = arith.negf %ea : f32
    %g = arith.mulf %rate, %softplus : f32
    // beta = sigmoid(b)
    %one = arith.constant 1.0 : f32
    %minus = arith.negf %bt : f32
    %eb = math.exp %minus : f32
    %denominator = arith.addf %one, %eb : f32
    %beta = arith.divf %one, %denominator : f32
    %S1 = ejk.decay %S by %g along head : vector<64x64xf32>, f32
    %r = ejk.read %S1, %k1 along key : vector<64x64xf32>, vector<64xf32>
    %error = arith.subf %vw, %r : vector<64xf32>
    %betas = vector.broadcast %beta : f32 to vector<64xf32>
    %u = arith.mulf %betas, %error : vector<64xf32>
    %S2 = ejk.outer_add %S1, %k1, %u : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %of = ejk.read %S2, %q1 along key : vector<64x64xf32>, vector<64xf32>
    %ot = arith.truncf %of : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%ot : vector<64xbf16>)
  }
  return %o : tensor<?x?x?x64xbf16>
}
