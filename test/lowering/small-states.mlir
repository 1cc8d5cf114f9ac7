// States that are numbers or vectors and do more than add up, beside K×V states, in the kernels of each schedule
// and on the CPU: chunks have them as columns, or as sequences of an earlier scan; steps have all in one kernel.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=mlstm --schedule=step --device cuda --random B=2,T=19,H=2 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=mlstm --schedule=chunk --arch=sm_90a --device cuda --random B=2,T=133,H=2 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=mlstm --schedule=chunk --arch=sm_80 --device cuda --random B=1,T=133,H=2 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=mlstm --schedule=split --arch=sm_90a --device cuda --random B=1,T=300,H=1 --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=normaliser --schedule=chunk --arch=sm_90a --device cuda --random B=1,T=133,H=2 --check | FileCheck %s --check-prefixes=CHECK,NT
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=normaliser --schedule=chunk --arch=sm_90a --device cuda --random B=1,T=133,H=2 --vjp --check | FileCheck %s --check-prefix=VJP
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=preconditioned --schedule=chunk --arch=sm_90a --device cuda --random N=3,T=150,H=2 --check | FileCheck %s
// RUN: ejk-run %s --entry=mlstm --device cpu --random B=2,T=37,H=2 --check | FileCheck %s
// RUN: ejk-run %s --entry=mlstm --device cpu --random B=2,T=37,H=2 --vjp --check | FileCheck %s --check-prefix=DF
// RUN: ejk-run %s --entry=normaliser --device cpu --random B=2,T=37,H=2 --vjp --check | FileCheck %s --check-prefix=VJP
// CHECK: check o: pass
// NT: check nt: pass
// VJP: check dk: pass
// VJP: check dn0: pass
// DF: check df: pass

// Which schedules a package has: all for functions, and for the derivative of what is a column.
// RUN: ejk-compile %s --arch=sm_90a --vjp -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s --check-prefix=INFO
// INFO:       entry mlstm
// INFO:       schedule chunk
// INFO:       entry normaliser_vjp
// INFO:       schedule chunk

// xLSTM: a maximum keeps gates in range, and a normaliser divides what is read.
func.func @mlstm(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x32xbf16>,
                 %f: tensor<?x?x?xf32>, %i: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x32xbf16> {ejk.name = "o"}, tensor<?x?x64x32xf32> {ejk.name = "ht"}) {
  %o, %ht, %nt, %mt = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x64xbf16>, %kt = %k : tensor<?x?x?x64xbf16>,
                %vt = %v : tensor<?x?x?x32xbf16>, %ft = %f : tensor<?x?x?xf32>,
                %it = %i : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x64x32xf32>, %n = zero : tensor<?x?x64xf32>, %m = zero : tensor<?x?xf32>)
      -> (tensor<?x?x?x32xbf16>) {
    %kept = arith.addf %ft, %m : f32
    %m1 = arith.maximumf %kept, %it : f32
    %forget = arith.subf %kept, %m1 : f32
    %enter = arith.subf %it, %m1 : f32
    %gain = math.exp %enter : f32
    %gains = vector.broadcast %gain : f32 to vector<64xf32>
    %kw = arith.extf %kt : vector<64xbf16> to vector<64xf32>
    %vw = arith.extf %vt : vector<32xbf16> to vector<32xf32>
    %qw = arith.extf %qt : vector<64xbf16> to vector<64xf32>
    %ki = arith.mulf %kw, %gains : vector<64xf32>
    %S1 = ejk.decay %S by %forget along head : vector<64x32xf32>, f32
    %S2 = ejk.outer_add %S1, %ki, %vw : vector<64x32xf32>, vector<64xf32>, vector<32xf32>
    %keep = math.exp %forget : f32
    %keeps = vector.broadcast %keep : f32 to vector<64xf32>
    %n0 = arith.mulf %n, %keeps : vector<64xf32>
    %n1 = arith.addf %n0, %ki : vector<64xf32>
    %products = arith.mulf %n1, %qw : vector<64xf32>
    %dot = ejk.sum %products : vector<64xf32>
    %size = math.absf %dot : f32
    %minus = arith.negf %m1 : f32
    %floor = math.exp %minus : f32
    %denominator = arith.maximumf %size, %floor : f32
    %denominators = vector.broadcast %denominator : f32 to vector<32xf32>
    %r = ejk.read %S2, %qw along key : vector<64x32xf32>, vector<64xf32>
    %ot = arith.divf %r, %denominators : vector<32xf32>
    %on = arith.truncf %ot : vector<32xf32> to vector<32xbf16>
    ejk.yield states(%S2, %n1, %m1 : vector<64x32xf32>, vector<64xf32>, f32) outputs(%on : vector<32xbf16>)
  }
  return %o, %ht : tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
}

// A normaliser that starts from given values; it is also summed up by itself.
func.func @normaliser(%q: tensor<?x?x?x32xbf16>, %k: tensor<?x?x?x32xbf16>, %g: tensor<?x?x?xf32> {ejk.log_decay},
                      %n0: tensor<?x?x32xf32>)
    -> (tensor<?x?x?x32xbf16> {ejk.name = "o"}, tensor<?x?x32xf32> {ejk.name = "nt"}) {
  %o, %ht, %nt = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x32xbf16>, %kt = %k : tensor<?x?x?x32xbf16>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x32x32xf32>, %n = %n0 : tensor<?x?x32xf32>) -> (tensor<?x?x?x32xbf16>) {
    %kw = arith.extf %kt : vector<32xbf16> to vector<32xf32>
    %qw = arith.extf %qt : vector<32xbf16> to vector<32xf32>
    %S1 = ejk.decay %S by %gt along head : vector<32x32xf32>, f32
    %S2 = ejk.outer_add %S1, %kw, %kw : vector<32x32xf32>, vector<32xf32>, vector<32xf32>
    %keep = math.exp %gt : f32
    %keeps = vector.broadcast %keep : f32 to vector<32xf32>
    %n1 = arith.mulf %keeps, %n : vector<32xf32>
    %n2 = arith.addf %kw, %n1 : vector<32xf32>
    %products = arith.mulf %qw, %n2 : vector<32xf32>
    %dot = ejk.sum %products : vector<32xf32>
    %all = ejk.sum %n1 : vector<32xf32>
    %both = arith.addf %dot, %all : f32
    %wide = vector.broadcast %both : f32 to vector<32xf32>
    %r = ejk.read %S2, %qw along key : vector<32x32xf32>, vector<32xf32>
    %ot = arith.addf %r, %wide : vector<32xf32>
    %on = arith.truncf %ot : vector<32xf32> to vector<32xbf16>
    ejk.yield states(%S2, %n2 : vector<32x32xf32>, vector<32xf32>) outputs(%on : vector<32xbf16>)
  }
  return %o, %nt : tensor<?x?x?x32xbf16>, tensor<?x?x32xf32>
}

// A vector that divides keys channel by channel: no column, but a scan before.
func.func @preconditioned(%q: tensor<1x?x?x32xbf16>, %k: tensor<1x?x?x32xbf16>, %v: tensor<1x?x?x32xbf16>,
                          %g: tensor<1x?x?xf32> {ejk.log_decay}, %offsets: tensor<?xi32>)
    -> (tensor<1x?x?x32xbf16> {ejk.name = "o"}) {
  %o, %ht, %at = ejk.scan cu_seqlens(%offsets : tensor<?xi32>)
      sequences(%qt = %q : tensor<1x?x?x32xbf16>, %kt = %k : tensor<1x?x?x32xbf16>,
                %vt = %v : tensor<1x?x?x32xbf16>, %gt = %g : tensor<1x?x?xf32>)
      states(%S = zero : tensor<?x?x32x32xf32>, %A = zero : tensor<?x?x32xf32>) -> (tensor<1x?x?x32xbf16>) {
    %kw = arith.extf %kt : vector<32xbf16> to vector<32xf32>
    %vw = arith.extf %vt : vector<32xbf16> to vector<32xf32>
    %qw = arith.extf %qt : vector<32xbf16> to vector<32xf32>
    %keep = math.exp %gt : f32
    %keeps = vector.broadcast %keep : f32 to vector<32xf32>
    %A0 = arith.mulf %A, %keeps : vector<32xf32>
    %squares = arith.mulf %kw, %kw : vector<32xf32>
    %A1 = arith.addf %A0, %squares : vector<32xf32>
    %one = arith.constant dense<1.0> : vector<32xf32>
    %below = arith.addf %A1, %one : vector<32xf32>
    %scaled = arith.divf %kw, %below : vector<32xf32>
    %S1 = ejk.decay %S by %gt along head : vector<32x32xf32>, f32
    %S2 = ejk.outer_add %S1, %scaled, %vw : vector<32x32xf32>, vector<32xf32>, vector<32xf32>
    %r = ejk.read %S2, %qw along key : vector<32x32xf32>, vector<32xf32>
    %on = arith.truncf %r : vector<32xf32> to vector<32xbf16>
    ejk.yield states(%S2, %A1 : vector<32x32xf32>, vector<32xf32>) outputs(%on : vector<32xbf16>)
  }
  return %o : tensor<1x?x?x32xbf16>
}
