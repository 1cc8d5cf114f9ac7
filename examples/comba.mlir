// Comba: the state is corrected by what it holds for p, a part of the key. Keys come normalised; q comes less
// its own part of the key, which corrects the output.
func.func @comba(
    %q: tensor<?x?x?x64xbf16>,
    %k: tensor<?x?x?x64xbf16> {ejk.operand = "k"},
    %v: tensor<?x?x?x64xbf16>,
    %p: tensor<?x?x?x64xbf16> {ejk.operand = "k"},
    %g: tensor<?x?x?xf32>,
    %beta: tensor<?x?x?xf32> {ejk.operand = "beta"},
    %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qn = %q : tensor<?x?x?x64xbf16>, %kn = %k : tensor<?x?x?x64xbf16>,
                %vn = %v : tensor<?x?x?x64xbf16>, %pn = %p : tensor<?x?x?x64xbf16>,
                %gt = %g : tensor<?x?x?xf32>, %betat = %beta : tensor<?x?x?xf32>)
      states(%S = %h0 : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %qt = arith.extf %qn : vector<64xbf16> to vector<64xf32>
    %kt = arith.extf %kn : vector<64xbf16> to vector<64xf32>
    %vt = arith.extf %vn : vector<64xbf16> to vector<64xf32>
    %pt = arith.extf %pn : vector<64xbf16> to vector<64xf32>
    %S0 = ejk.decay %S by %gt along head : vector<64x64xf32>, f32
    %held = ejk.read %S0, %pt along key : vector<64x64xf32>, vector<64xf32>
    %wrong = arith.subf %vt, %held : vector<64xf32>
    %rate = vector.broadcast %betat : f32 to vector<64xf32>
    %u = arith.mulf %rate, %wrong : vector<64xf32>
    %S1 = ejk.outer_add %S0, %kt, %u : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %scale = arith.constant dense<0.125> : vector<64xf32>
    %scaled = arith.mulf %qt, %scale : vector<64xf32>
    %ot = ejk.read %S1, %scaled along key : vector<64x64xf32>, vector<64xf32>
    %on = arith.truncf %ot : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%on : vector<64xbf16>)
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
