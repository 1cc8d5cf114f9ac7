// RUN: ejk-opt %s --ejk-describe-interface --split-input-file --verify-diagnostics
// Sizes that can never be one are an error at the op that needs them to be.

func.func @added(%x: tensor<4xf32>, %y: tensor<5xf32>) -> tensor<?xf32> {
  %a = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  %b = tensor.cast %y : tensor<5xf32> to tensor<?xf32>
  // expected-error @below {{needs one size where its tensors have 4 and 5}}
  %0 = arith.addf %a, %b : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// Both through the key, whose own size is not known.
func.func @rows(%q: tensor<1x8x2x4xf32>, %k: tensor<?x?x?x4xf32>, %v: tensor<1x9x2x4xf32>)
    -> (tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>) {
  %qd = tensor.cast %q : tensor<1x8x2x4xf32> to tensor<?x?x?x4xf32>
  %vd = tensor.cast %v : tensor<1x9x2x4xf32> to tensor<?x?x?x4xf32>
  // expected-error @below {{needs one size where its tensors have 8 and 9}}
  %o, %ht = ejk.recurrent %qd, %k, %vd
      : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>
      -> tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>
  return %o, %ht : tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>
}

// -----

func.func @equal(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<?xf32> {
  %a = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  %b = tensor.cast %y : tensor<4xf32> to tensor<?xf32>
  %0 = arith.addf %a, %b : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// The slots of saved states are computed from the batch entries, and cannot be as many.
func.func @circular(%x: tensor<?x?x1x4xf32>, %y: tensor<?x1x4x4xf32>) -> tensor<?x1x4x4xf32> {
  %ht, %c = ejk.scan save_every 2 sequences(%xt = %x : tensor<?x?x1x4xf32>)
      states(%S = %y : tensor<?x1x4x4xf32>) saves(tensor<?x1x4x4xf32>) {
    %S1 = ejk.outer_add %S, %xt, %xt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) saves(%S : vector<4x4xf32>)
  }
  // expected-error @-5 {{a size of its tensors is computed from itself}}
  %0 = arith.addf %c, %y : tensor<?x1x4x4xf32>
  return %0 : tensor<?x1x4x4xf32>
}
