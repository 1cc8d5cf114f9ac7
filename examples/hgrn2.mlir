// HGRN2: the forget gate f has a lower bound for each channel, and the key is what it forgets,
// 1 − f. The log decay is log f.
func.func @hgrn2(%q: tensor<?x?x?x64xf32>, %x: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>,
                 %bound: tensor<?x64xf32>)
    -> (tensor<?x?x?x64xf32> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x64xf32>, %xt = %x : tensor<?x?x?x64xf32>,
                %vt = %v : tensor<?x?x?x64xf32>)
      parameters(%b = %bound : tensor<?x64xf32> as vector<64xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xf32>) {
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
    ejk.yield states(%S2 : vector<64x64xf32>) outputs(%ot : vector<64xf32>)
  }
  return %o, %ht : tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
}
