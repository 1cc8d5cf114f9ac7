// Mamba-2's recurrence as its layer has it: with a skip, which adds D x to the output. The decay is
// exp(-exp(A)·softplus(dt + bias)), and the update is scaled by softplus(dt + bias).
func.func @mamba2_skip(%c: tensor<?x?x?x64xbf16>, %b: tensor<?x?x?x64xbf16>,
                       %x: tensor<?x?x?x32xbf16>, %dt: tensor<?x?x?xf32>, %A: tensor<?xf32>,
                       %bias: tensor<?xf32>, %D: tensor<?xf32>)
    -> (tensor<?x?x?x32xbf16> {ejk.name = "o"}, tensor<?x?x64x32xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%cn = %c : tensor<?x?x?x64xbf16>, %bn = %b : tensor<?x?x?x64xbf16>,
                %xn = %x : tensor<?x?x?x32xbf16>, %dtt = %dt : tensor<?x?x?xf32>)
      parameters(%a = %A : tensor<?xf32> as f32, %bi = %bias : tensor<?xf32> as f32,
                 %d = %D : tensor<?xf32> as f32)
      states(%S = zero : tensor<?x?x64x32xf32>)
      -> (tensor<?x?x?x32xbf16>) {
    %ct = arith.extf %cn : vector<64xbf16> to vector<64xf32>
    %bt = arith.extf %bn : vector<64xbf16> to vector<64xf32>
    %xt = arith.extf %xn : vector<32xbf16> to vector<32xf32>
    // softplus(y) = max(y, 0) + log1p(exp(-|y|)), which overflows nowhere.
    %zero = arith.constant 0.0 : f32
    %y = arith.addf %dtt, %bi : f32
    %top = arith.maximumf %y, %zero : f32
    %abs = math.absf %y : f32
    %low = arith.negf %abs : f32
    %e = math.exp %low : f32
    %l = math.log1p %e : f32
    %step = arith.addf %top, %l : f32
    %ea = math.exp %a : f32
    %rate = arith.mulf %ea, %step : f32
    %g = arith.negf %rate : f32
    %S1 = ejk.decay %S by %g along head : vector<64x32xf32>, f32
    %sv = vector.broadcast %step : f32 to vector<32xf32>
    %xs = arith.mulf %xt, %sv : vector<32xf32>
    %S2 = ejk.outer_add %S1, %bt, %xs : vector<64x32xf32>, vector<64xf32>, vector<32xf32>
    %r = ejk.read %S2, %ct along key : vector<64x32xf32>, vector<64xf32>
    %dv = vector.broadcast %d : f32 to vector<32xf32>
    %skip = arith.mulf %dv, %xt : vector<32xf32>
    %ot = arith.addf %r, %skip : vector<32xf32>
    %on = arith.truncf %ot : vector<32xf32> to vector<32xbf16>
    ejk.yield states(%S2 : vector<64x32xf32>) outputs(%on : vector<32xbf16>)
  }
  return %o, %ht : tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
}
