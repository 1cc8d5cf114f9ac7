// HGRN2: the forget gate f has a lower bound for each channel, and the key is what it forgets,
// 1 − f. The log decay is log f.
func.func @hgrn2(%q: tensor<?x?x?x64xbf16>, %x: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                 %bound: tensor<?x64xf32>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qn = %q : tensor<?x?x?x64xbf16>, %xn = %x : tensor<?x?x?x64xbf16>,
                %vn = %v : tensor<?x?x?x64xbf16>)
      parameters(%b = %bound : tensor<?x64xf32> as vector<64xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %qt = arith.extf %qn : vector<64xbf16> to vector<64xf32>
    %xt = arith.extf %xn : vector<64xbf16> to vector<64xf32>
    %vt = arith.extf %vn : vector<64xbf16> to vector<64xf32>
    %ones = arith.constant dense<1.0> : vector<64xf32>
    %minus_b = arith.negf %b : vector<64xf32>
    %eb = math.exp %minus_b : vector<64xf32>
    %db = arith.addf %ones, %eb : vector<64xf32>
    %lower = arith.divf %ones, %db : vector<64xf32>
    %minus_x = arith.negf %xt : vector<64xf32>
    %ex = math.exp %minus_x : vector<64xf32>
    %dx = arith.addf %ones, %ex : vector<64xf32>
    %sigmoid = arith.divf %ones, %dx : vector<64xf32>
    %room = arith.subf %ones, %lower : vector<64xf32>
    %above = arith.mulf %room, %sigmoid : vector<64xf32>
    %f = arith.addf %lower, %above : vector<64xf32>
    %kt = arith.subf %ones, %f : vector<64xf32>
    %gk = math.log %f : vector<64xf32>
    %S1 = ejk.decay %S by %gk along key : vector<64x64xf32>, vector<64xf32>
    %S2 = ejk.outer_add %S1, %kt, %vt : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %ot = ejk.read %S2, %qt along key : vector<64x64xf32>, vector<64xf32>
    %on = arith.truncf %ot : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%on : vector<64xbf16>)
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
