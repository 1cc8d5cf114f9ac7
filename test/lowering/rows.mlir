// Scans whose steps read no state: their rows are computed side by side, some lanes of a warp a row. On
// the emulator, against the f64 interpreter, with gradients.
// RUN: ejk-compile %s --arch=sm_90a --print-cost-model -o %t.ejk 2>&1 | FileCheck %s --check-prefix=PLAN
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=convolution --random T=150,H=3,N=5 --seed=2 --device=cuda --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=convolution --random T=150,H=3,N=5 --device=cuda --vjp --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=norm --random B=2,T=37,H=2 --device=cuda --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=norm --random B=1,T=2000,H=1 --device=cuda --vjp --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=wide --random B=1,T=19,H=2 --device=cuda --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=wide --random B=1,T=19,H=2 --device=cuda --vjp --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=rotate --random B=2,T=21,H=2 --device=cuda --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=sums --random B=2,T=70,H=2 --device=cuda --check | FileCheck %s
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=sums --random B=2,T=0,H=2 --device=cuda --check | FileCheck %s
// CHECK-NOT: FAIL
// CHECK: check {{.*}}: pass
// CHECK-NOT: FAIL

// Shifts either way, of a sequence that begins after given rows; packed. 40 channels are ten lanes of 16.
// PLAN: Function=convolution | {{.*}}channels=40, chosen="1x4 of 16 lanes, 4 rows at a time"
func.func @convolution(%x: tensor<1x?x?x40xbf16>, %halo: tensor<?x2x?x40xbf16>, %w: tensor<40xf32>, %cu: tensor<?xi32> {ejk.name = "cu_seqlens"})
    -> tensor<1x?x?x40xbf16> {
  %before = ejk.shift %x by 2 halo(%halo : tensor<?x2x?x40xbf16>) cu_seqlens(%cu : tensor<?xi32>) : tensor<1x?x?x40xbf16>
  %after = ejk.shift %x by -3 cu_seqlens(%cu : tensor<?xi32>) : tensor<1x?x?x40xbf16>
  %o = ejk.scan cu_seqlens(%cu : tensor<?xi32>)
      sequences(%a = %x : tensor<1x?x?x40xbf16>, %b = %before : tensor<1x?x?x40xbf16>, %c = %after : tensor<1x?x?x40xbf16>)
      parameters(%p = %w : tensor<40xf32> as vector<40xf32>) -> (tensor<1x?x?x40xbf16>) {
    %af = arith.extf %a : vector<40xbf16> to vector<40xf32>
    %bf = arith.extf %b : vector<40xbf16> to vector<40xf32>
    %cf = arith.extf %c : vector<40xbf16> to vector<40xf32>
    %ab = arith.mulf %af, %bf : vector<40xf32>
    %abp = arith.mulf %ab, %p : vector<40xf32>
    %sum = arith.subf %abp, %cf : vector<40xf32>
    %o = arith.truncf %sum : vector<40xf32> to vector<40xbf16>
    ejk.yield outputs(%o : vector<40xbf16>)
  }
  return %o : tensor<1x?x?x40xbf16>
}

// A sum and a maximum over 96 channels, which 24 of 32 lanes have: what the others compute must not count.
// PLAN: Function=norm | {{.*}}channels=96, chosen="1x4 of 32 lanes, 4 rows at a time"
func.func @norm(%x: tensor<?x?x?x96xf32>, %s: tensor<?x?x?xf32>) -> tensor<?x?x?x96xf32> {
  %o = ejk.scan sequences(%xt = %x : tensor<?x?x?x96xf32>, %st = %s : tensor<?x?x?xf32>) -> (tensor<?x?x?x96xf32>) {
    %low = arith.constant dense<-9.0> : vector<96xf32>
    %shifted = arith.subf %xt, %low : vector<96xf32>
    %square = arith.mulf %shifted, %shifted : vector<96xf32>
    %sum = ejk.sum %square : vector<96xf32>
    %negative = arith.addf %xt, %low : vector<96xf32>
    %most = ejk.max %negative : vector<96xf32>
    %r = math.rsqrt %sum : f32
    %rs = arith.mulf %r, %st : f32
    %rm = arith.addf %rs, %most : f32
    %all = vector.broadcast %rm : f32 to vector<96xf32>
    %o = arith.mulf %xt, %all : vector<96xf32>
    ejk.yield outputs(%o : vector<96xf32>)
  }
  return %o : tensor<?x?x?x96xf32>
}

// Two units of eight channels a lane. The divisor's bounds are known; x is 0, too.
// PLAN: Function=wide | {{.*}}channels=512, chosen="2x8 of 32 lanes
func.func @wide(%x: tensor<?x?x?x512xf16>) -> tensor<?x?x?x512xf16> {
  %o = ejk.scan sequences(%xt = %x : tensor<?x?x?x512xf16>) -> (tensor<?x?x?x512xf16>) {
    %one = arith.constant dense<1.0> : vector<512xf32>
    %zero = arith.constant dense<0.0> : vector<512xf32>
    %x32 = arith.extf %xt : vector<512xf16> to vector<512xf32>
    %below = arith.cmpf olt, %x32, %zero : vector<512xf32>
    %minus = arith.negf %x32 : vector<512xf32>
    %size = arith.select %below, %x32, %minus : vector<512xi1>, vector<512xf32>
    %e = math.exp %size : vector<512xf32>
    %divisor = arith.addf %e, %one : vector<512xf32>
    %q = arith.divf %x32, %divisor : vector<512xf32>
    %sum = ejk.sum %q : vector<512xf32>
    %sums = vector.broadcast %sum : f32 to vector<512xf32>
    %y = arith.mulf %sums, %q : vector<512xf32>
    %o = arith.truncf %y : vector<512xf32> to vector<512xf16>
    ejk.yield outputs(%o : vector<512xf16>)
  }
  return %o : tensor<?x?x?x512xf16>
}

// The other half's channels come from other lanes; the row's number and head are part of the result.
// PLAN: Function=rotate | {{.*}}channels=64, chosen="1x4 of 16 lanes
func.func @rotate(%x: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xf32> {
  %o = ejk.scan reverse sequences(%xt = %x : tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>) {
    %t = ejk.step_index : index
    %h = ejk.head_index : index
    %n = arith.addi %t, %h : index
    %i = arith.index_cast %n : index to i32
    %f = arith.sitofp %i : i32 to f32
    %phases = vector.broadcast %f : f32 to vector<64xf32>
    %r = ejk.rotate_half %xt : vector<64xf32>
    %a = arith.mulf %r, %phases : vector<64xf32>
    %o = arith.addf %a, %xt : vector<64xf32>
    ejk.yield outputs(%o : vector<64xf32>)
  }
  return %o : tensor<?x?x?x64xf32>
}

// What rows add up to, a vector and a number, with an output or without; the last rows are no whole round.
// PLAN: Function=sums | {{.*}}channels=32, chosen="1x4 of 8 lanes
func.func @sums(%x: tensor<?x?x?x32xbf16>, %y: tensor<?x?x?x32xf32>)
    -> (tensor<?x?x32xf32>, tensor<?x?xf32>) {
  %s, %n = ejk.scan
      sequences(%xt = %x : tensor<?x?x?x32xbf16>, %yt = %y : tensor<?x?x?x32xf32>)
      states(%S = zero : tensor<?x?x32xf32>, %N = zero : tensor<?x?xf32>) {
    %one = arith.constant 1.0 : f32
    %xf = arith.extf %xt : vector<32xbf16> to vector<32xf32>
    %product = arith.mulf %xf, %yt : vector<32xf32>
    %sum = ejk.sum %product : vector<32xf32>
    %some = arith.addf %sum, %one : f32
    %S1 = arith.addf %S, %product : vector<32xf32>
    %N1 = arith.addf %some, %N : f32
    ejk.yield states(%S1, %N1 : vector<32xf32>, f32)
  }
  return %s, %n : tensor<?x?x32xf32>, tensor<?x?xf32>
}
