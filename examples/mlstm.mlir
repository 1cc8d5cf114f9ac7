// mLSTM: gates are exponentials, which a running maximum m keeps in range, and what is read is
// divided by the read of a normaliser n. States are a matrix, a vector and a number:
//   m' = max(f + m, i)   S' = e^(f + m − m') S + e^(i − m') k vᵀ   n' = e^(f + m − m') n + e^(i − m') k
//   o = S'ᵀ q / max(|n' · q|, e^(−m'))
func.func @mlstm(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %v: tensor<?x?x?x64xf32>,
                 %f: tensor<?x?x?xf32>, %i: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x64xf32> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht, %nt, %mt = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x64xf32>, %kt = %k : tensor<?x?x?x64xf32>,
                %vt = %v : tensor<?x?x?x64xf32>, %ft = %f : tensor<?x?x?xf32>,
                %it = %i : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x64x64xf32>, %n = zero : tensor<?x?x64xf32>, %m = zero : tensor<?x?xf32>)
      -> (tensor<?x?x?x64xf32>) {
    // The forget gate: log sigmoid(f) = min(f, 0) − log1p(exp(−|f|)).
    %zero = arith.constant 0.0 : f32
    %least = arith.minimumf %ft, %zero : f32
    %abs = math.absf %ft : f32
    %low = arith.negf %abs : f32
    %e = math.exp %low : f32
    %l = math.log1p %e : f32
    %log_f = arith.subf %least, %l : f32
    %kept = arith.addf %log_f, %m : f32
    %m1 = arith.maximumf %kept, %it : f32
    %forget = arith.subf %kept, %m1 : f32
    %enter = arith.subf %it, %m1 : f32
    %gain = math.exp %enter : f32
    %gains = vector.broadcast %gain : f32 to vector<64xf32>
    %scale = arith.constant dense<0.125> : vector<64xf32>
    %ks = arith.mulf %kt, %scale : vector<64xf32>
    %ki = arith.mulf %ks, %gains : vector<64xf32>
    %S1 = ejk.decay %S by %forget along head : vector<64x64xf32>, f32
    %S2 = ejk.outer_add %S1, %ki, %vt : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %keep = math.exp %forget : f32
    %keeps = vector.broadcast %keep : f32 to vector<64xf32>
    %n0 = arith.mulf %n, %keeps : vector<64xf32>
    %n1 = arith.addf %n0, %ki : vector<64xf32>
    %products = arith.mulf %n1, %qt : vector<64xf32>
    %dot = ejk.sum %products : vector<64xf32>
    %size = math.absf %dot : f32
    %minus = arith.negf %m1 : f32
    %floor = math.exp %minus : f32
    %denominator = arith.maximumf %size, %floor : f32
    %denominators = vector.broadcast %denominator : f32 to vector<64xf32>
    %r = ejk.read %S2, %qt along key : vector<64x64xf32>, vector<64xf32>
    %ot = arith.divf %r, %denominators : vector<64xf32>
    ejk.yield states(%S2, %n1, %m1 : vector<64x64xf32>, vector<64xf32>, f32) outputs(%ot : vector<64xf32>)
  }
  return %o, %ht : tensor<?x?x?x64xf32>, tensor<?x?x64x64xf32>
}
