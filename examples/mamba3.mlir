// Mamba-3 with one input and output a head, by the trapezoidal rule: a step adds λ·dt of its own outer product and
// (1 − λ)·dt of the one before, which has decayed. So each row is added once, by its own share and by that of
// the next step, `ahead` = (1 − λ)·dt there. B and C come with their biases and rotations.
func.func @mamba3(
    %x: tensor<?x?x?x64xbf16>,
    %B: tensor<?x?x?x64xbf16> {ejk.operand = "k"},
    %C: tensor<?x?x?x64xbf16>,
    %dt: tensor<?x?x?xf32> {ejk.operand = "beta"},
    %trap: tensor<?x?x?xf32> {ejk.operand = "beta"},
    %ahead: tensor<?x?x?xf32> {ejk.operand = "beta"},
    %A: tensor<?xf32>,
    %D: tensor<?xf32>,
    %h0: tensor<?x?x64x64xf32>)
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.scan
      sequences(%xn = %x : tensor<?x?x?x64xbf16>, %Bn = %B : tensor<?x?x?x64xbf16>,
                %Cn = %C : tensor<?x?x?x64xbf16>, %dtt = %dt : tensor<?x?x?xf32>,
                %trapt = %trap : tensor<?x?x?xf32>, %aheadt = %ahead : tensor<?x?x?xf32>)
      parameters(%At = %A : tensor<?xf32> as f32, %Dt = %D : tensor<?xf32> as f32)
      states(%S = %h0 : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xbf16>) {
    %xt = arith.extf %xn : vector<64xbf16> to vector<64xf32>
    %Bt = arith.extf %Bn : vector<64xbf16> to vector<64xf32>
    %Ct = arith.extf %Cn : vector<64xbf16> to vector<64xf32>
    %gate = arith.mulf %At, %dtt : f32
    %S0 = ejk.decay %S by %gate along head : vector<64x64xf32>, f32
    %before = ejk.read %S0, %Ct along key : vector<64x64xf32>, vector<64xf32>
    // This step's own share, λ·dt·(B·C), and the skip.
    %own = arith.mulf %trapt, %dtt : f32
    %products = arith.mulf %Bt, %Ct : vector<64xf32>
    %dot = ejk.sum %products : vector<64xf32>
    %seen = arith.mulf %own, %dot : f32
    %direct = arith.addf %seen, %Dt : f32
    %directs = vector.broadcast %direct : f32 to vector<64xf32>
    %now = arith.mulf %directs, %xt : vector<64xf32>
    %ot = arith.addf %before, %now : vector<64xf32>
    // What the next step adds of this row decays with the state.
    %both = arith.addf %own, %aheadt : f32
    %shares = vector.broadcast %both : f32 to vector<64xf32>
    %share = arith.mulf %shares, %xt : vector<64xf32>
    %S1 = ejk.outer_add %S0, %Bt, %share : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %on = arith.truncf %ot : vector<64xf32> to vector<64xbf16>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%on : vector<64xbf16>)
  }
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
