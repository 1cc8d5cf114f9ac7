// A recurrence from the last row to the first starts from zero, so the last row's gate has no gradient. Of all segments,
// only the one with the sequence's last row sets that to zero. Chunks of bf16 rows, against the steps of the same rows
// in f32.
// RUN: ejk-opt %s --ejk-backward=function=f --ejk-backward=function=wide --ejk-split-reads --canonicalize \
// RUN:   --ejk-split-sums --canonicalize --ejk-split-over-time='least=64 most=64 count=2' \
// RUN:   | FileCheck %s
// RUN: ejk-opt %s --ejk-backward=function=f --ejk-backward=function=wide --ejk-split-reads --canonicalize \
// RUN:   --ejk-split-sums --canonicalize --ejk-split-over-time='least=64 most=64 count=2' \
// RUN:   --ejk-chunk --ejk-interpret -o /dev/null

// CHECK-LABEL: func.func @f_vjp(
// CHECK:         ejk.scan save_every 64 segments<64 to 64, at_least 2>
// CHECK:           ejk.gate_gradient {{.*}} zero_last
func.func @f(%q: tensor<1x150x2x16xbf16>, %k: tensor<1x150x2x16xbf16>, %v: tensor<1x150x2x16xbf16>,
    %g: tensor<1x150x2xf32>) -> tensor<1x150x2x16xbf16> {
  %o, %ht = ejk.recurrent reverse %q, %k, %v g(%g : tensor<1x150x2xf32>)
      : tensor<1x150x2x16xbf16>, tensor<1x150x2x16xbf16>, tensor<1x150x2x16xbf16>
      -> tensor<1x150x2x16xbf16>, tensor<1x2x16x16xf32>
  return %o : tensor<1x150x2x16xbf16>
}

func.func private @f_vjp(tensor<1x150x2x16xbf16>, tensor<1x150x2x16xbf16>, tensor<1x150x2x16xbf16>,
    tensor<1x150x2xf32>, tensor<1x150x2x16xbf16>)
    -> (tensor<1x150x2x16xbf16>, tensor<1x150x2x16xbf16>, tensor<1x150x2x16xbf16>, tensor<1x150x2xf32>)

func.func @wide(%q: tensor<1x150x2x16xf32>, %k: tensor<1x150x2x16xf32>, %v: tensor<1x150x2x16xf32>,
    %g: tensor<1x150x2xf32>) -> tensor<1x150x2x16xf32> {
  %o, %ht = ejk.recurrent reverse %q, %k, %v g(%g : tensor<1x150x2xf32>)
      : tensor<1x150x2x16xf32>, tensor<1x150x2x16xf32>, tensor<1x150x2x16xf32>
      -> tensor<1x150x2x16xf32>, tensor<1x2x16x16xf32>
  return %o : tensor<1x150x2x16xf32>
}

func.func private @wide_vjp(tensor<1x150x2x16xf32>, tensor<1x150x2x16xf32>, tensor<1x150x2x16xf32>,
    tensor<1x150x2xf32>, tensor<1x150x2x16xf32>)
    -> (tensor<1x150x2x16xf32>, tensor<1x150x2x16xf32>, tensor<1x150x2x16xf32>, tensor<1x150x2xf32>)

func.func @check() {
  %q = check.random normal seed 1 : tensor<1x150x2x16xbf16>
  %qw = arith.extf %q : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  %k = check.random normal seed 2 : tensor<1x150x2x16xbf16>
  %kw = arith.extf %k : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  %v = check.random normal seed 3 : tensor<1x150x2x16xbf16>
  %vw = arith.extf %v : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  %d = check.random normal seed 4 : tensor<1x150x2x16xbf16>
  %dw = arith.extf %d : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  %g = check.random log_gate seed 5 : tensor<1x150x2xf32>
  %dq, %dk, %dv, %dg = call @f_vjp(%q, %k, %v, %g, %d)
      : (tensor<1x150x2x16xbf16>, tensor<1x150x2x16xbf16>, tensor<1x150x2x16xbf16>, tensor<1x150x2xf32>, tensor<1x150x2x16xbf16>)
      -> (tensor<1x150x2x16xbf16>, tensor<1x150x2x16xbf16>, tensor<1x150x2x16xbf16>, tensor<1x150x2xf32>)
  %eq, %ek, %ev, %eg = call @wide_vjp(%qw, %kw, %vw, %g, %dw)
      : (tensor<1x150x2x16xf32>, tensor<1x150x2x16xf32>, tensor<1x150x2x16xf32>, tensor<1x150x2xf32>, tensor<1x150x2x16xf32>)
      -> (tensor<1x150x2x16xf32>, tensor<1x150x2x16xf32>, tensor<1x150x2x16xf32>, tensor<1x150x2xf32>)
  %dkw = arith.extf %dk : tensor<1x150x2x16xbf16> to tensor<1x150x2x16xf32>
  check.expect_close %dkw, %ek max_relative 1.0e-11 : tensor<1x150x2x16xf32>
  check.expect_close %dg, %eg max_relative 1.0e-11 : tensor<1x150x2xf32>
  return
}
