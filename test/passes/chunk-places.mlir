// Decays may stand before, after and between the outer products and reads of a step. Numbers:
// chunk-numbers.test, chunk-corrections.test.
// RUN: ejk-opt %s --split-input-file --ejk-chunk | FileCheck %s

// The adjoint of RWKV-7: it adds before the decay and after it. Both vectors are scaled to the same
// row of the chunk: the later one by its own gate less.
// CHECK-LABEL: func.func @adjoint_of_rwkv7
// CHECK: %[[G:.*]] = tile.load {{.*}} vector<64x64xf32>
// CHECK: %[[SUMS:.*]] = tile.cumsum %[[G]] from 32
// CHECK: %[[LATER:.*]] = arith.subf %[[SUMS]], %[[G]]
// CHECK: tile.range_guard {{.*}} %[[SUMS]], %[[LATER]],
// CHECK: %[[FIRST_EXP:.*]] = math.exp %[[SUMS]]
// CHECK: arith.mulf %{{.*}}, %[[FIRST_EXP]]
// CHECK: %[[LATER_EXP:.*]] = math.exp %[[LATER]]
// CHECK: arith.mulf %{{.*}}, %[[LATER_EXP]]
// CHECK: tile.solve transposed
func.func @adjoint_of_rwkv7(%r: tensor<?x?x?x64xbf16>, %g: tensor<?x?x?x64xf32>, %a: tensor<?x?x?x64xbf16>,
                            %b: tensor<?x?x?x64xbf16>, %do: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %du, %a0 = ejk.scan reverse
      sequences(%rn = %r : tensor<?x?x?x64xbf16>, %gt = %g : tensor<?x?x?x64xf32>, %an = %a : tensor<?x?x?x64xbf16>,
                %bn = %b : tensor<?x?x?x64xbf16>, %dn = %do : tensor<?x?x?x64xbf16>)
      states(%A = zero : tensor<?x?x64x64xf32>) -> (tensor<?x?x?x64xf32>) {
    %rt = arith.extf %rn : vector<64xbf16> to vector<64xf32>
    %at = arith.extf %an : vector<64xbf16> to vector<64xf32>
    %bt = arith.extf %bn : vector<64xbf16> to vector<64xf32>
    %dt = arith.extf %dn : vector<64xbf16> to vector<64xf32>
    %A1 = ejk.outer_add %A, %rt, %dt : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %ut = ejk.read %A1, %bt along key : vector<64x64xf32>, vector<64xf32>
    %A2 = ejk.decay %A1 by %gt along key : vector<64x64xf32>, vector<64xf32>
    %A3 = ejk.outer_add %A2, %at, %ut : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    ejk.yield states(%A3 : vector<64x64xf32>) outputs(%ut : vector<64xf32>)
  }
  return %du : tensor<?x?x?x64xf32>
}

// -----

// Two decays per head around an outer product: what is added decays by the second of its step.
// CHECK-LABEL: func.func @around
// CHECK: tile.program
// CHECK-NOT: ejk.scan
func.func @around(%k: tensor<?x?x?x16xbf16>, %g: tensor<?x?x?xf32>, %h: tensor<?x?x?xf32>) -> tensor<?x?x16x16xf32> {
  %ht = ejk.scan sequences(%kn = %k : tensor<?x?x?x16xbf16>, %gt = %g : tensor<?x?x?xf32>, %h_t = %h : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x16x16xf32>) {
    %kt = arith.extf %kn : vector<16xbf16> to vector<16xf32>
    %S1 = ejk.decay %S by %gt along head : vector<16x16xf32>, f32
    %S2 = ejk.outer_add %S1, %kt, %kt : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    %S3 = ejk.decay %S2 by %h_t along head : vector<16x16xf32>, f32
    ejk.yield states(%S3 : vector<16x16xf32>)
  }
  return %ht : tensor<?x?x16x16xf32>
}
