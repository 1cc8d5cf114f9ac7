// RUN: ejk-opt %s --ejk-split-over-time='least=4 most=8' --split-input-file --verify-diagnostics
// A launch that asks for the split takes a kernel that does not divide the sequence.
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-run %s --entry=read_by_another --device=cuda --schedule=split --random=B=1,T=301 --check | FileCheck %s
// CHECK: check out0: pass

// What is added is linear in no state.
func.func @not_linear(%x: tensor<1x64x1x4xf32>) -> tensor<1x1x4x4xf32> {
  %ht = ejk.scan sequences(%xt = %x : tensor<1x64x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) {
    %r = ejk.read %S, %xt along key : vector<4x4xf32>, vector<4xf32>
    %u = arith.mulf %r, %r : vector<4xf32>
    // expected-remark@+1 {{not split over time: what is added is not linear in what is read}}
    %S1 = ejk.outer_add %S, %xt, %u : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  return %ht : tensor<1x1x4x4xf32>
}

// -----

// Each value channel would have a transition of its own.
func.func @value_gate(%x: tensor<1x64x1x4xf32>) -> tensor<1x1x4x4xf32> {
  %ht = ejk.scan sequences(%xt = %x : tensor<1x64x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) {
    %r = ejk.read %S, %xt along key : vector<4x4xf32>, vector<4xf32>
    // expected-remark@+1 {{not split over time: a state that is corrected has a gate for each value channel}}
    %S1 = ejk.decay %S by %xt along value : vector<4x4xf32>, vector<4xf32>
    %S2 = ejk.outer_add %S1, %xt, %r : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>)
  }
  return %ht : tensor<1x1x4x4xf32>
}

// -----

// A state that another one corrects.
func.func @of_another(%x: tensor<1x64x1x4xf32>) -> tensor<1x1x4x4xf32> {
  %other, %ht = ejk.scan sequences(%xt = %x : tensor<1x64x1x4xf32>)
      states(%A = zero : tensor<1x1x4x4xf32>, %S = zero : tensor<1x1x4x4xf32>) {
    %r = ejk.read %A, %xt along key : vector<4x4xf32>, vector<4xf32>
    %A1 = ejk.outer_add %A, %xt, %xt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    // expected-remark@+1 {{not split over time: what it adds depends on a state}}
    %S1 = ejk.outer_add %S, %xt, %r : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%A1, %S1 : vector<4x4xf32>, vector<4x4xf32>)
  }
  return %ht : tensor<1x1x4x4xf32>
}

// -----

// A state that is corrected by a read, whose vector another state gives.
func.func @read_by_another(%x: tensor<?x?x1x4xf32>) -> tensor<?x1x4x4xf32> {
  %sum, %ht = ejk.scan sequences(%xt = %x : tensor<?x?x1x4xf32>)
      states(%s = zero : tensor<?x1x4xf32>, %S = zero : tensor<?x1x4x4xf32>) {
    %s1 = arith.addf %s, %xt : vector<4xf32>
    %few = arith.constant dense<0.02> : vector<4xf32>
    %y = arith.mulf %s1, %few : vector<4xf32>
    %r = ejk.read %S, %y along key : vector<4x4xf32>, vector<4xf32>
    %u = arith.subf %xt, %r : vector<4xf32>
    // expected-remark@+1 {{not split over time: how it corrects a state depends on another one}}
    %S1 = ejk.outer_add %S, %xt, %u : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%s1, %S1 : vector<4xf32>, vector<4x4xf32>)
  }
  return %ht : tensor<?x1x4x4xf32>
}

// -----

// So does a rate that another state gives.
func.func @rate_of_another(%x: tensor<1x64x1x4xf32>) -> tensor<1x1x4x4xf32> {
  %sum, %ht = ejk.scan sequences(%xt = %x : tensor<1x64x1x4xf32>)
      states(%s = zero : tensor<1x1x4xf32>, %S = zero : tensor<1x1x4x4xf32>) {
    %s1 = arith.addf %s, %xt : vector<4xf32>
    %r = ejk.read %S, %xt along key : vector<4x4xf32>, vector<4xf32>
    %n = ejk.sum %s1 : vector<4xf32>
    %rate = vector.broadcast %n : f32 to vector<4xf32>
    %u = arith.mulf %r, %rate : vector<4xf32>
    // expected-remark@+1 {{not split over time: how it corrects a state depends on another one}}
    %S1 = ejk.outer_add %S, %xt, %u : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%s1, %S1 : vector<4xf32>, vector<4x4xf32>)
  }
  return %ht : tensor<1x1x4x4xf32>
}

// -----

// And so does a value, from which the state's own read is subtracted.
func.func @value_of_another(%x: tensor<1x64x1x4xf32>) -> tensor<1x1x4x4xf32> {
  %sum, %ht = ejk.scan sequences(%xt = %x : tensor<1x64x1x4xf32>)
      states(%s = zero : tensor<1x1x4xf32>, %S = zero : tensor<1x1x4x4xf32>) {
    %s1 = arith.addf %s, %xt : vector<4xf32>
    %r = ejk.read %S, %xt along key : vector<4x4xf32>, vector<4xf32>
    %u = arith.subf %s1, %r : vector<4xf32>
    // expected-remark@+1 {{not split over time: what it adds depends on another state}}
    %S1 = ejk.outer_add %S, %xt, %u : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%s1, %S1 : vector<4xf32>, vector<4x4xf32>)
  }
  return %ht : tensor<1x1x4x4xf32>
}

// -----

func.func @gate_from_state(%x: tensor<1x64x1x4xf32>) -> tensor<1x1x4x4xf32> {
  %ht = ejk.scan sequences(%xt = %x : tensor<1x64x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) {
    %r = ejk.read %S, %xt along value : vector<4x4xf32>, vector<4xf32>
    // expected-remark@+1 {{not split over time: its gate depends on a state}}
    %S1 = ejk.decay %S by %r along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  return %ht : tensor<1x1x4x4xf32>
}

// -----

func.func @not_a_sum(%x: tensor<1x64x1xf32>) -> tensor<1x1xf32> {
  // expected-remark@+1 {{not split over time: state 0, a number or vector, must be a sum of itself and terms that do not depend on it}}
  %ht = ejk.scan sequences(%xt = %x : tensor<1x64x1xf32>) states(%s = zero : tensor<1x1xf32>) {
    %s1 = arith.mulf %s, %xt : f32
    ejk.yield states(%s1 : f32)
  }
  return %ht : tensor<1x1xf32>
}

// -----

// The sign of x - s alternates: where a segment starts, the state before it counts as added or as subtracted.
func.func @alternating_sum(%x: tensor<1x64x1xf32>) -> tensor<1x1xf32> {
  // expected-remark@+1 {{not split over time: state 0, a number or vector, must be a sum of itself and terms that do not depend on it}}
  %ht = ejk.scan sequences(%xt = %x : tensor<1x64x1xf32>) states(%s = zero : tensor<1x1xf32>) {
    %s1 = arith.subf %xt, %s : f32
    ejk.yield states(%s1 : f32)
  }
  return %ht : tensor<1x1xf32>
}

// -----

// The same where a term is added first, and a matrix is carried beside the sum.
func.func @alternating_later(%x: tensor<1x64x1x4xf32>) -> tensor<1x64x1x4xf32> {
  // expected-remark@+1 {{not split over time: state 1, a number or vector, must be a sum of itself and terms that do not depend on it}}
  %o, %ht, %st = ejk.scan sequences(%xt = %x : tensor<1x64x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>, %s = zero : tensor<1x1x4xf32>) -> (tensor<1x64x1x4xf32>) {
    %S1 = ejk.outer_add %S, %xt, %xt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %s1 = arith.addf %s, %xt : vector<4xf32>
    %s2 = arith.subf %xt, %s1 : vector<4xf32>
    ejk.yield states(%S1, %s2 : vector<4x4xf32>, vector<4xf32>) outputs(%s2 : vector<4xf32>)
  }
  return %o : tensor<1x64x1x4xf32>
}

// -----

// Where the sum starts in a segment is known only when all before it have been read.
func.func @sum_of_reads(%x: tensor<1x64x1x4xf32>) -> tensor<1x64x1xf32> {
  // expected-remark@+1 {{not split over time: state 1 sums up what is read of another, and is read}}
  %o, %ht, %s = ejk.scan sequences(%xt = %x : tensor<1x64x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>, %sum = zero : tensor<1x1xf32>)
      -> (tensor<1x64x1xf32>) {
    %S1 = ejk.outer_add %S, %xt, %xt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S1, %xt along key : vector<4x4xf32>, vector<4xf32>
    %n = ejk.sum %r : vector<4xf32>
    %more = arith.addf %sum, %n : f32
    ejk.yield states(%S1, %more : vector<4x4xf32>, f32) outputs(%more : f32)
  }
  return %o : tensor<1x64x1xf32>
}

// -----

// As many rows as a segment has: nothing to do, and no remark.
func.func @short(%x: tensor<1x4x1x4xf32>) -> tensor<1x1x4x4xf32> {
  %ht = ejk.scan sequences(%xt = %x : tensor<1x4x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) {
    %r = ejk.read %S, %xt along key : vector<4x4xf32>, vector<4xf32>
    %S1 = ejk.outer_add %S, %xt, %r : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  return %ht : tensor<1x1x4x4xf32>
}

// -----

// Segments of whole chunks would be longer than any sequence.
func.func @long_chunks(%x: tensor<1x64x1x4xf32>) -> tensor<?x1x4x4xf32> {
  // expected-remark@+1 {{not split over time: a segment that 'save_every' divides would have more than 1073741824 rows}}
  %ht, %c = ejk.scan save_every 1073741823 sequences(%xt = %x : tensor<1x64x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) saves(tensor<?x1x4x4xf32>) {
    %S1 = ejk.outer_add %S, %xt, %xt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) saves(%S : vector<4x4xf32>)
  }
  return %c : tensor<?x1x4x4xf32>
}
