// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-to-gpu --verify-diagnostics
// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-lower-to-cpu --verify-diagnostics

// Ops of linalg that verify, and that no kernel computes. A mistake in the kinds of the loops is
// one: upstream's verifier does not compare them with the maps of the results.

#in = affine_map<(d0, d1) -> (d1, d0)>
#out = affine_map<(d0, d1) -> (d0)>
func.func @swapped(%x: tensor<?x12xf32> {ejk.shape = ["T", "12"]}) -> tensor<12xf32> {
  %init = arith.constant dense<0.0> : tensor<12xf32>
  // expected-error @+1 {{result 0 is indexed by loop 0, which is a reduction loop}}
  %o = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<?x12xf32>) outs(%init : tensor<12xf32>) {
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  } -> tensor<12xf32>
  return %o : tensor<12xf32>
}

// -----

#in = affine_map<(d0, d1) -> (d1, d0)>
#out = affine_map<(d0, d1) -> (d0)>
func.func @all_parallel(%x: tensor<?x12xf32> {ejk.shape = ["T", "12"]}) -> tensor<12xf32> {
  %init = arith.constant dense<0.0> : tensor<12xf32>
  // expected-error @+1 {{result 0 lacks loop 1, which is a parallel loop}}
  %o = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x12xf32>) outs(%init : tensor<12xf32>) {
  ^bb0(%a: f32, %b: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  } -> tensor<12xf32>
  return %o : tensor<12xf32>
}
