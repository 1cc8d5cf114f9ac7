// RUN: ejk-opt %s --ejk-backward --ejk-hoist-reductions --ejk-include-diagonal --ejk-chunk=in-exponents | FileCheck %s
// RUN: sed s/4.0e-3/1.0e-12/ %s | ejk-opt --ejk-backward --ejk-hoist-reductions --ejk-include-diagonal --ejk-chunk --ejk-interpret
// RUN: sed s/4.0e-3/1.0e-6/ %s | ejk-opt --ejk-backward --ejk-hoist-reductions --ejk-include-diagonal --ejk-chunk=in-exponents --ejk-interpret
// RUN: ejk-opt %s --ejk-backward --ejk-hoist-reductions --ejk-include-diagonal --ejk-chunk=in-exponents --ejk-interpret=precision=native

// A head's decays as powers of two, with the scale of q in their exponents: no product of a
// chunk is multiplied by it. In f64, log₂ e and log₂ of the scale are as f32 has them.

// CHECK-LABEL: func.func @narrow(
// CHECK:         tile.program
// CHECK:           %[[LOG:.*]] = arith.constant dense<1.44269{{.*}}> : vector<64xf32>
// CHECK:           %[[G:.*]] = arith.mulf %{{.*}}, %[[LOG]] : vector<64xf32>
// CHECK:           %[[B:.*]] = tile.cumsum %[[G]] : vector<64xf32>
// CHECK:           %[[SCALE:.*]] = arith.constant dense<-2.5{{0*}}e+00> : vector<64xf32>
// CHECK:           %[[BS:.*]] = arith.addf %[[B]], %[[SCALE]] : vector<64xf32>
// CHECK:           math.exp2 %[[BS]]
// CHECK-NOT:       math.exp %
// CHECK:           %[[I:.*]] = tile.broadcast %[[BS]] along 0
// CHECK:           %[[J:.*]] = tile.broadcast %[[B]] along 1
// CHECK:           arith.subf %[[I]], %[[J]]
// CHECK-NOT:       math.exp %
// CHECK:           %[[O:.*]] = tile.dot {{.*}} vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
// CHECK:           %[[R:.*]] = arith.truncf %[[O]]
// CHECK:           tile.store %[[R]]
// CHECK:         return
func.func @narrow(%q: tensor<1x130x2x32xbf16>, %k: tensor<1x130x2x32xbf16>,
                  %v: tensor<1x130x2x48xbf16>, %g: tensor<1x130x2xf32>)
    -> tensor<1x130x2x48xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x130x2xf32>)
      : tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>
      -> tensor<1x130x2x48xbf16>, tensor<1x2x32x48xf32>
  return %o : tensor<1x130x2x48xbf16>
}
func.func @wide(%q: tensor<1x130x2x32xf32>, %k: tensor<1x130x2x32xf32>,
                %v: tensor<1x130x2x48xf32>, %g: tensor<1x130x2xf32>)
    -> tensor<1x130x2x48xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x130x2xf32>)
      : tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>
      -> tensor<1x130x2x48xf32>, tensor<1x2x32x48xf32>
  return %o : tensor<1x130x2x48xf32>
}

func.func private @narrow_vjp(
    tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>,
    tensor<1x130x2xf32>, tensor<1x130x2x48xbf16>)
    -> (tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>,
        tensor<1x130x2xf32>)
func.func private @wide_vjp(
    tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>,
    tensor<1x130x2xf32>, tensor<1x130x2x48xf32>)
    -> (tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>,
        tensor<1x130x2xf32>)

func.func @check() {
  %q = check.random normal seed 1 : tensor<1x130x2x32xbf16>
  %k = check.random normal seed 2 : tensor<1x130x2x32xbf16>
  %v = check.random normal seed 3 : tensor<1x130x2x48xbf16>
  %g = check.random log_gate seed 4 : tensor<1x130x2xf32>
  %don = check.random normal seed 5 : tensor<1x130x2x48xbf16>
  %do = arith.extf %don : tensor<1x130x2x48xbf16> to tensor<1x130x2x48xf32>
  %o = call @narrow(%q, %k, %v, %g)
      : (tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>,
         tensor<1x130x2xf32>) -> tensor<1x130x2x48xbf16>
  %dq, %dk, %dv, %dg = call @narrow_vjp(%q, %k, %v, %g, %don)
      : (tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>,
         tensor<1x130x2xf32>, tensor<1x130x2x48xbf16>)
      -> (tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>,
          tensor<1x130x2xf32>)
  %qw = arith.extf %q : tensor<1x130x2x32xbf16> to tensor<1x130x2x32xf32>
  %kw = arith.extf %k : tensor<1x130x2x32xbf16> to tensor<1x130x2x32xf32>
  %vw = arith.extf %v : tensor<1x130x2x48xbf16> to tensor<1x130x2x48xf32>
  %eo = call @wide(%qw, %kw, %vw, %g)
      : (tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>,
         tensor<1x130x2xf32>) -> tensor<1x130x2x48xf32>
  %eq, %ek, %ev, %eg = call @wide_vjp(%qw, %kw, %vw, %g, %do)
      : (tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>,
         tensor<1x130x2xf32>, tensor<1x130x2x48xf32>)
      -> (tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>,
          tensor<1x130x2xf32>)
  %ow = arith.extf %o : tensor<1x130x2x48xbf16> to tensor<1x130x2x48xf32>
  %dqw = arith.extf %dq : tensor<1x130x2x32xbf16> to tensor<1x130x2x32xf32>
  %dkw = arith.extf %dk : tensor<1x130x2x32xbf16> to tensor<1x130x2x32xf32>
  %dvw = arith.extf %dv : tensor<1x130x2x48xbf16> to tensor<1x130x2x48xf32>
  check.expect_close %ow, %eo max_relative 4.0e-3 : tensor<1x130x2x48xf32>
  check.expect_close %dqw, %eq max_relative 4.0e-3 : tensor<1x130x2x32xf32>
  check.expect_close %dkw, %ek max_relative 4.0e-3 : tensor<1x130x2x32xf32>
  check.expect_close %dvw, %ev max_relative 4.0e-3 : tensor<1x130x2x48xf32>
  check.expect_close %dg, %eg max_relative 4.0e-3 : tensor<1x130x2xf32>
  return
}
