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

// -----

// Several blocks, of which none ends in a return, and an argument of a block as a result.
// expected-error @below {{must have a body of one block, which ends in func.return}}
func.func @endless(%a: tensor<?xf32>) -> tensor<?xf32> {
  cf.br ^bb
^bb:
  cf.br ^bb
}

// -----

// expected-error @below {{must have a body of one block, which ends in func.return}}
func.func @blocks(%a: tensor<?xf32>) -> tensor<?xf32> {
  %e = math.exp %a : tensor<?xf32>
  cf.br ^bb(%a : tensor<?xf32>)
^bb(%b: tensor<?xf32>):
  return %b : tensor<?xf32>
}

// -----

// expected-error @below {{must have a body of one block, which ends in func.return}}
func.func @unreachable(%a: tensor<?xf32>) -> tensor<?xf32> {
  llvm.unreachable
}

// -----

// What a function says of itself, and its body contradicts.
// expected-error @below {{'ejk.shape' says that dimension 0 of 'b' is m, but the function's body makes it n}}
func.func @argument(%a: tensor<?xf32> {ejk.name = "a", ejk.shape = ["n"]},
                    %b: tensor<?xf32> {ejk.name = "b", ejk.shape = ["m"]})
    -> (tensor<?xf32> {ejk.name = "o", ejk.shape = ["n"]}) attributes {ejk.constraints = []} {
  %0 = arith.addf %a, %b : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// expected-error @below {{'ejk.shape' says that dimension 0 of 'o' is m, but the function's body makes it n}}
func.func @result(%a: tensor<?xf32> {ejk.shape = ["n"]})
    -> (tensor<?xf32> {ejk.name = "o", ejk.shape = ["m"]}) {
  return %a : tensor<?xf32>
}

// -----

// expected-error @below {{'ejk.shape' says that dimension 0 of 'a' is 5, but the function's body makes it 4}}
func.func @number(%a: tensor<?xf32> {ejk.name = "a", ejk.shape = ["5"]}, %b: tensor<4xf32>)
    -> tensor<?xf32> attributes {ejk.constraints = []} {
  %c = tensor.cast %b : tensor<4xf32> to tensor<?xf32>
  %0 = arith.addf %a, %c : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// expected-error @below {{'ejk.total' of 'cu' is "B", but the function's body makes it T}}
func.func @total(%q: tensor<1x?x2x4xf32>, %cu: tensor<?xi32> {ejk.name = "cu", ejk.total = "B"})
    -> tensor<1x?x2x4xf32> {
  %o, %ht = ejk.recurrent %q, %q, %q cu_seqlens(%cu : tensor<?xi32>)
      : tensor<1x?x2x4xf32>, tensor<1x?x2x4xf32>, tensor<1x?x2x4xf32>
      -> tensor<1x?x2x4xf32>, tensor<?x2x4x4xf32>
  return %o : tensor<1x?x2x4xf32>
}
