// Gates at the edge of what chunks take by products: each half of 64 steps decays by up to
// e^-56, a chunk's end and the next one's start by e^-110 together. What the first steps of
// a chunk read of the one before is not lost. The same of both axes at once.
// RUN: ejk-opt %s --ejk-specialize --ejk-to-tile --ejk-assign-tile-layouts=arch=sm_90a --ejk-interpret=precision=native
// RUN: ejk-opt %s --ejk-specialize --ejk-to-tile --ejk-defer-state-scaling --ejk-interpret=precision=native
// RUN: ejk-opt %s --ejk-specialize --ejk-to-tile --ejk-defer-state-scaling | FileCheck %s
// CHECK-LABEL: func.func @check
// CHECK: tile.range_guard 6.400000e+01 of %{{.*}}, %{{.*}}, %{{.*}} : vector<64x16xf32>, vector<4xf32>, vector<16xf32>
// CHECK-LABEL: func.func @both
// CHECK: tile.range_guard 6.400000e+01 of %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : vector<64x16xf32>, vector<64x16xf32>, vector<4xf32>, vector<16xf32>

func.func @check() {
  %q = check.random normal seed 1 : tensor<1x192x1x16xbf16>
  %k = check.random normal seed 2 : tensor<1x192x1x16xbf16>
  %v = check.random normal seed 3 : tensor<1x192x1x16xbf16>
  %g = arith.constant dense<-1.75> : tensor<1x192x1x16xf32>
  %o, %ht = ejk.recurrent %q, %k, %v gk(%g : tensor<1x192x1x16xf32>)
      : tensor<1x192x1x16xbf16>, tensor<1x192x1x16xbf16>, tensor<1x192x1x16xbf16>
      -> tensor<1x192x1x16xbf16>, tensor<1x1x16x16xf32>
  %qw = arith.extf %q : tensor<1x192x1x16xbf16> to tensor<1x192x1x16xf32>
  %kw = arith.extf %k : tensor<1x192x1x16xbf16> to tensor<1x192x1x16xf32>
  %vw = arith.extf %v : tensor<1x192x1x16xbf16> to tensor<1x192x1x16xf32>
  %e, %et = ejk.recurrent %qw, %kw, %vw gk(%g : tensor<1x192x1x16xf32>)
      : tensor<1x192x1x16xf32>, tensor<1x192x1x16xf32>, tensor<1x192x1x16xf32>
      -> tensor<1x192x1x16xf32>, tensor<1x1x16x16xf32>
  %ow = arith.extf %o : tensor<1x192x1x16xbf16> to tensor<1x192x1x16xf32>
  check.expect_close %ow, %e max_relative 4.0e-3 : tensor<1x192x1x16xf32>
  check.expect_close %ht, %et max_relative 4.0e-3 : tensor<1x1x16x16xf32>
  return
}

func.func @both() {
  %q = check.random normal seed 1 : tensor<1x192x1x16xbf16>
  %k = check.random normal seed 2 : tensor<1x192x1x16xbf16>
  %v = check.random normal seed 3 : tensor<1x192x1x16xbf16>
  %g = arith.constant dense<-1.75> : tensor<1x192x1x16xf32>
  %o, %ht = ejk.recurrent %q, %k, %v gk(%g : tensor<1x192x1x16xf32>)
      gv(%g : tensor<1x192x1x16xf32>)
      : tensor<1x192x1x16xbf16>, tensor<1x192x1x16xbf16>, tensor<1x192x1x16xbf16>
      -> tensor<1x192x1x16xbf16>, tensor<1x1x16x16xf32>
  %qw = arith.extf %q : tensor<1x192x1x16xbf16> to tensor<1x192x1x16xf32>
  %kw = arith.extf %k : tensor<1x192x1x16xbf16> to tensor<1x192x1x16xf32>
  %vw = arith.extf %v : tensor<1x192x1x16xbf16> to tensor<1x192x1x16xf32>
  %e, %et = ejk.recurrent %qw, %kw, %vw gk(%g : tensor<1x192x1x16xf32>)
      gv(%g : tensor<1x192x1x16xf32>)
      : tensor<1x192x1x16xf32>, tensor<1x192x1x16xf32>, tensor<1x192x1x16xf32>
      -> tensor<1x192x1x16xf32>, tensor<1x1x16x16xf32>
  %ow = arith.extf %o : tensor<1x192x1x16xbf16> to tensor<1x192x1x16xf32>
  check.expect_close %ow, %e max_relative 4.0e-3 : tensor<1x192x1x16xf32>
  check.expect_close %ht, %et max_relative 4.0e-3 : tensor<1x1x16x16xf32>
  return
}
