// RUN: ejk-opt %s --ejk-backward --ejk-chunk --ejk-interpret=precision=native
// RUN: ejk-opt %s --ejk-backward --ejk-chunk | FileCheck %s
// RUN: ejk-opt %s --ejk-backward --ejk-chunk --ejk-interpret
// RUN: ejk-opt %s --ejk-backward=gate-gradients=suffix --ejk-to-tile 2>&1 | FileCheck %s --check-prefix=DECLINED

// Gradients of bf16 sequences, derived and then taken by chunks, as a kernel would
// round, against those of the same numbers in f32, step by step. Each is rounded to
// bf16 (2e-3 at most) after products of bf16. The scan derived backwards decays last
// and reads one state along both axes; it stays one program.

// CHECK-LABEL: func.func @narrow_vjp(
// CHECK:         tile.program
// CHECK:         tile.program
// CHECK:           tile.mask lower strict
// CHECK-NOT:     tile.program
// CHECK:         return

// A gate's gradient adds up what both scans read: without 'drift' they stay.
// DECLINED: remark: not chunked: a later scan adds up what is read here
// DECLINED: remark: not chunked: a state adds up what is read
// DECLINED-LABEL: func.func @narrow_vjp(
// DECLINED-NOT:     tile.program
// DECLINED:         return
func.func @narrow(%q: tensor<1x130x2x32xbf16>, %k: tensor<1x130x2x32xbf16>,
                  %v: tensor<1x130x2x48xbf16>, %gk: tensor<1x130x2x32xf32>)
    -> tensor<1x130x2x48xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x130x2x32xf32>)
      : tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>
      -> tensor<1x130x2x48xbf16>, tensor<1x2x32x48xf32>
  return %o : tensor<1x130x2x48xbf16>
}
// CHECK-LABEL: func.func @wide_vjp(
// CHECK-NOT:     tile.program
// CHECK:         return
func.func @wide(%q: tensor<1x130x2x32xf32>, %k: tensor<1x130x2x32xf32>,
                %v: tensor<1x130x2x48xf32>, %gk: tensor<1x130x2x32xf32>)
    -> tensor<1x130x2x48xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x130x2x32xf32>)
      : tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>
      -> tensor<1x130x2x48xf32>, tensor<1x2x32x48xf32>
  return %o : tensor<1x130x2x48xf32>
}

func.func private @narrow_vjp(
    tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>,
    tensor<1x130x2x32xf32>, tensor<1x130x2x48xbf16>)
    -> (tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>,
        tensor<1x130x2x32xf32>)
func.func private @wide_vjp(
    tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>,
    tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>)
    -> (tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>,
        tensor<1x130x2x32xf32>)

func.func @check() {
  %q = check.random normal seed 1 : tensor<1x130x2x32xbf16>
  %k = check.random normal seed 2 : tensor<1x130x2x32xbf16>
  %v = check.random normal seed 3 : tensor<1x130x2x48xbf16>
  %gk = check.random log_gate seed 4 : tensor<1x130x2x32xf32>
  %don = check.random normal seed 5 : tensor<1x130x2x48xbf16>
  %do = arith.extf %don : tensor<1x130x2x48xbf16> to tensor<1x130x2x48xf32>
  %dq, %dk, %dv, %dgk = call @narrow_vjp(%q, %k, %v, %gk, %don)
      : (tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>,
         tensor<1x130x2x32xf32>, tensor<1x130x2x48xbf16>)
      -> (tensor<1x130x2x32xbf16>, tensor<1x130x2x32xbf16>, tensor<1x130x2x48xbf16>,
          tensor<1x130x2x32xf32>)
  %qw = arith.extf %q : tensor<1x130x2x32xbf16> to tensor<1x130x2x32xf32>
  %kw = arith.extf %k : tensor<1x130x2x32xbf16> to tensor<1x130x2x32xf32>
  %vw = arith.extf %v : tensor<1x130x2x48xbf16> to tensor<1x130x2x48xf32>
  %eq, %ek, %ev, %egk = call @wide_vjp(%qw, %kw, %vw, %gk, %do)
      : (tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>,
         tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>)
      -> (tensor<1x130x2x32xf32>, tensor<1x130x2x32xf32>, tensor<1x130x2x48xf32>,
          tensor<1x130x2x32xf32>)
  %dqw = arith.extf %dq : tensor<1x130x2x32xbf16> to tensor<1x130x2x32xf32>
  %dkw = arith.extf %dk : tensor<1x130x2x32xbf16> to tensor<1x130x2x32xf32>
  %dvw = arith.extf %dv : tensor<1x130x2x48xbf16> to tensor<1x130x2x48xf32>
  check.expect_close %dqw, %eq max_relative 4.0e-3 : tensor<1x130x2x32xf32>
  check.expect_close %dkw, %ek max_relative 4.0e-3 : tensor<1x130x2x32xf32>
  check.expect_close %dvw, %ev max_relative 4.0e-3 : tensor<1x130x2x48xf32>
  // The sum, over the rest of the chunk, of products that nearly cancel, of the same
  // rounded tiles on both sides.
  check.expect_close %dgk, %egk max_relative 4.0e-3 : tensor<1x130x2x32xf32>
  return
}
