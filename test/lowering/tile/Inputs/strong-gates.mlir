func.func @f(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>, %v: tensor<?x?x2x64xbf16>, %g: tensor<?x?x2xf32> {ejk.log_decay, ejk.name = "g"}) -> tensor<?x?x2x64xbf16> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<?x?x2x64xbf16>, %kt = %k : tensor<?x?x2x64xbf16>, %vt = %v : tensor<?x?x2x64xbf16>, %gt = %g : tensor<?x?x2xf32>)
      states(%S = zero : tensor<?x2x64x64xf32>) -> (tensor<?x?x2x64xbf16>) {
    %c = arith.constant -9.0 : f32
    %sc = arith.constant dense<0.125> : vector<64xf32>
    %g2 = arith.addf %gt, %c : f32
    %qf = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %q1 = arith.mulf %qf, %sc : vector<64xf32>
    %kf = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %vf = arith.extf %vt : vector<64xbf16> to vector<64xf32>
    %D = ejk.decay %S by %g2 along head : vector<64x64xf32>, f32
    %S1 = ejk.outer_add %D, %kf, %vf : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %r = ejk.read %S1, %q1 along key : vector<64x64xf32>, vector<64xf32>
    %ot = arith.truncf %r : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%ot : vector<64xbf16>)
  }
  return %o : tensor<?x?x2x64xbf16>
}
