// A gated DeltaNet with its norms and gates in the step, whose value heads share keys and queries.
func.func @gdn(%v: tensor<?x?x?x64xbf16> {ejk.shape = ["B", "T", "Hv", "64"]}, %q: tensor<?x?x?x64xbf16> {ejk.shape = ["B", "T", "Hk", "64"]}, %k: tensor<?x?x?x64xbf16> {ejk.shape = ["B", "T", "Hk", "64"]}, %ga: tensor<?x?x?xf32> {ejk.shape = ["B", "T", "Hv"]}, %b: tensor<?x?x?xf32> {ejk.shape = ["B", "T", "Hv"]}, %A: tensor<?xf32> {ejk.shape = ["Hv"]}, %bias: tensor<?xf32> {ejk.shape = ["Hv"]})
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}) {
  %o, %ht = ejk.scan
      sequences(%vt = %v : tensor<?x?x?x64xbf16>, %qt = %q : tensor<?x?x?x64xbf16>, %kt = %k : tensor<?x?x?x64xbf16>, %at = %ga : tensor<?x?x?xf32>, %bt = %b : tensor<?x?x?xf32>)
      parameters(%a = %A : tensor<?xf32> as f32, %bi = %bias : tensor<?xf32> as f32)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %epsilon = arith.constant 1.0e-6 : f32
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %vw = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %q1_squares = arith.mulf %qw, %qw : vector<64xf32>
    %q1_sum = ejk.sum %q1_squares : vector<64xf32>
    %q1_more = arith.addf %q1_sum, %epsilon : f32
    %q1_over = math.rsqrt %q1_more : f32
    %q1_each = vector.broadcast %q1_over : f32 to vector<64xf32>
    %q1 = arith.mulf %qw, %q1_each : vector<64xf32>
    %k1_squares = arith.mulf %kw, %kw : vector<64xf32>
    %k1_sum = ejk.sum %k1_squares : vector<64xf32>
    %k1_more = arith.addf %k1_sum, %epsilon : f32
    %k1_over = math.rsqrt %k1_more : f32
    %k1_each = vector.broadcast %k1_over : f32 to vector<64xf32>
    %k1 = arith.mulf %kw, %k1_each : vector<64xf32>
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
