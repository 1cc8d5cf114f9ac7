// RWKV-7: the state forgets by a gate for each key channel, loses what it held for the
// normalised key kappa, by a rate for each channel, and gains k vᵀ. It is read before it decays.
func.func @rwkv7(%r: tensor<?x?x?x64xbf16>, %w: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
                 %v: tensor<?x?x?x64xbf16>, %kappa: tensor<?x?x?x64xbf16>,
                 %a: tensor<?x?x?x64xbf16>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%rn = %r : tensor<?x?x?x64xbf16>, %wn = %w : tensor<?x?x?x64xbf16>,
                %kn = %k : tensor<?x?x?x64xbf16>, %vn = %v : tensor<?x?x?x64xbf16>,
                %kappan = %kappa : tensor<?x?x?x64xbf16>, %an = %a : tensor<?x?x?x64xbf16>)
      states(%S = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %rt = arith.extf %rn : vector<64xbf16> to vector<64xf32>
    %wt = arith.extf %wn : vector<64xbf16> to vector<64xf32>
    %kt = arith.extf %kn : vector<64xbf16> to vector<64xf32>
    %vt = arith.extf %vn : vector<64xbf16> to vector<64xf32>
    %kappat = arith.extf %kappan : vector<64xbf16> to vector<64xf32>
    %at = arith.extf %an : vector<64xbf16> to vector<64xf32>
    %epsilon = arith.constant 1.0e-6 : f32
    %ones = arith.constant dense<1.0> : vector<64xf32>
    %unit_squares = arith.mulf %kappat, %kappat : vector<64xf32>
    %unit_sum = ejk.sum %unit_squares : vector<64xf32>
    %unit_more = arith.addf %unit_sum, %epsilon : f32
    %unit_over = math.rsqrt %unit_more : f32
    %unit_each = vector.broadcast %unit_over : f32 to vector<64xf32>
    %unit = arith.mulf %kappat, %unit_each : vector<64xf32>
    // The log decay: -exp(-1/2) * sigmoid(w), never below -0.61.
    %most = arith.constant dense<-0.60653067> : vector<64xf32>
    %minus_w = arith.negf %wt : vector<64xf32>
    %ew = math.exp %minus_w : vector<64xf32>
    %dw = arith.addf %ones, %ew : vector<64xf32>
    %gk = arith.divf %most, %dw : vector<64xf32>
    %minus_a = arith.negf %at : vector<64xf32>
    %ea = math.exp %minus_a : vector<64xf32>
    %da = arith.addf %ones, %ea : vector<64xf32>
    %rate = arith.divf %ones, %da : vector<64xf32>
    %held = ejk.read %S, %unit along key : vector<64x64xf32>, vector<64xf32>
    %S1 = ejk.decay %S by %gk along key : vector<64x64xf32>, vector<64xf32>
    %scaled = arith.mulf %unit, %rate : vector<64xf32>
    %taken = arith.negf %scaled : vector<64xf32>
    %S2 = ejk.outer_add %S1, %taken, %held : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %S3 = ejk.outer_add %S2, %kt, %vt : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %ot = ejk.read %S3, %rt along key : vector<64x64xf32>, vector<64xf32>
    %on = arith.truncf %ot : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S3 : vector<64x64xf32>) outputs(%on : vector<64xbf16>)
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
