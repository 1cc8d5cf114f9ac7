// A delta rule whose gates a step keeps within -5 and 0, as models bound them.
func.func @f(%q: tensor<?x?x?x32xbf16>, %k: tensor<?x?x?x32xbf16>, %v: tensor<?x?x?x32xbf16>,
             %beta: tensor<?x?x?xf32>, %gk: tensor<?x?x?x32xf32>) -> (tensor<?x?x?x32xbf16> {ejk.name = "o"}) {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x32xbf16>, %kt = %k : tensor<?x?x?x32xbf16>, %vt = %v : tensor<?x?x?x32xbf16>,
                %betat = %beta : tensor<?x?x?xf32>, %gkt = %gk : tensor<?x?x?x32xf32>)
      states(%S = zero : tensor<?x?x32x32xf32>) -> (tensor<?x?x?x32xbf16>) {
    %qw = arith.extf %qt : vector<32xbf16> to vector<32xf32>
    %kw = arith.extf %kt : vector<32xbf16> to vector<32xf32>
    %vw = arith.extf %vt : vector<32xbf16> to vector<32xf32>
    %low = arith.constant dense<-5.0> : vector<32xf32>
    %zero = arith.constant dense<0.0> : vector<32xf32>
    %g = math.clampf %gkt to [%low, %zero] : vector<32xf32>
    %S1 = ejk.decay %S by %g along key : vector<32x32xf32>, vector<32xf32>
    %r = ejk.read %S1, %kw along key : vector<32x32xf32>, vector<32xf32>
    %change = arith.subf %vw, %r : vector<32xf32>
    %rate = vector.broadcast %betat : f32 to vector<32xf32>
    %u = arith.mulf %change, %rate : vector<32xf32>
    %S2 = ejk.outer_add %S1, %kw, %u : vector<32x32xf32>, vector<32xf32>, vector<32xf32>
    %read = ejk.read %S2, %qw along key : vector<32x32xf32>, vector<32xf32>
    %ot = arith.truncf %read : vector<32xf32> to vector<32xbf16>
    ejk.yield states(%S2 : vector<32x32xf32>) outputs(%ot : vector<32xbf16>)
  }
  return %o : tensor<?x?x?x32xbf16>
}
