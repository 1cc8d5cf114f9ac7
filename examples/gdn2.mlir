// Gated DeltaNet-2: a gate of each key channel erases, and a gate of each value channel writes; the state
// decays by a gate for each key channel. The state is read with b ⊙ k, which is another key, so that a
// chunk has one system for all value channels. Keys come normalised, b and w from 0 to 1.
func.func @gdn2(
    %q: tensor<?x?x?x64xbf16>,
    %k: tensor<?x?x?x64xbf16> {ejk.operand = "k"},
    %v: tensor<?x?x?x64xbf16>,
    %b: tensor<?x?x?x64xbf16> {ejk.operand = "beta"},
    %w: tensor<?x?x?x64xbf16> {ejk.operand = "beta"},
    %g: tensor<?x?x?x64xf32>,
    %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qn = %q : tensor<?x?x?x64xbf16>, %kn = %k : tensor<?x?x?x64xbf16>,
                %vn = %v : tensor<?x?x?x64xbf16>, %bn = %b : tensor<?x?x?x64xbf16>,
                %wn = %w : tensor<?x?x?x64xbf16>, %gt = %g : tensor<?x?x?x64xf32>)
      states(%S = %h0 : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %qt = arith.extf %qn : vector<64xbf16> to vector<64xf32>
    %kt = arith.extf %kn : vector<64xbf16> to vector<64xf32>
    %vt = arith.extf %vn : vector<64xbf16> to vector<64xf32>
    %bt = arith.extf %bn : vector<64xbf16> to vector<64xf32>
    %wt = arith.extf %wn : vector<64xbf16> to vector<64xf32>
    %S0 = ejk.decay %S by %gt along key : vector<64x64xf32>, vector<64xf32>
    %erased = arith.mulf %bt, %kt : vector<64xf32>
    %held = ejk.read %S0, %erased along key : vector<64x64xf32>, vector<64xf32>
    %written = arith.mulf %wt, %vt : vector<64xf32>
    %u = arith.subf %written, %held : vector<64xf32>
    %S1 = ejk.outer_add %S0, %kt, %u : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %scale = arith.constant dense<0.125> : vector<64xf32>
    %scaled = arith.mulf %qt, %scale : vector<64xf32>
    %ot = ejk.read %S1, %scaled along key : vector<64x64xf32>, vector<64xf32>
    %on = arith.truncf %ot : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%on : vector<64xbf16>)
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
