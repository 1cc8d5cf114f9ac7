// The gated Oja rule: the state is corrected along its values, as a delta rule corrects it along its keys.
// It decays by a gate for each value channel. Values come normalised.
func.func @oja(
    %q: tensor<?x?x?x64xbf16>,
    %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16> {ejk.operand = "k"},
    %beta: tensor<?x?x?xf32> {ejk.operand = "beta"},
    %g: tensor<?x?x?x64xf32>,
    %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qn = %q : tensor<?x?x?x64xbf16>, %kn = %k : tensor<?x?x?x64xbf16>,
                %vn = %v : tensor<?x?x?x64xbf16>, %betat = %beta : tensor<?x?x?xf32>,
                %gt = %g : tensor<?x?x?x64xf32>)
      states(%S = %h0 : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %qt = arith.extf %qn : vector<64xbf16> to vector<64xf32>
    %kt = arith.extf %kn : vector<64xbf16> to vector<64xf32>
    %vt = arith.extf %vn : vector<64xbf16> to vector<64xf32>
    %S0 = ejk.decay %S by %gt along value : vector<64x64xf32>, vector<64xf32>
    %held = ejk.read %S0, %vt along value : vector<64x64xf32>, vector<64xf32>
    %wrong = arith.subf %kt, %held : vector<64xf32>
    %rate = vector.broadcast %betat : f32 to vector<64xf32>
    %u = arith.mulf %rate, %wrong : vector<64xf32>
    %S1 = ejk.outer_add %S0, %u, %vt : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %scale = arith.constant dense<0.125> : vector<64xf32>
    %scaled = arith.mulf %qt, %scale : vector<64xf32>
    %ot = ejk.read %S1, %scaled along key : vector<64x64xf32>, vector<64xf32>
    %on = arith.truncf %ot : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%on : vector<64xbf16>)
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
