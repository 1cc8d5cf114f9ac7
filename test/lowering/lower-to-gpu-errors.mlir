// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-to-gpu --verify-diagnostics

// What a step may hold.

func.func @constant_per_channel(%k: tensor<?x?x?x2xf32>, %v: tensor<?x?x?x6xf32>) -> tensor<?x?x2x6xf32> {
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x2xf32>, %vt = %v : tensor<?x?x?x6xf32>)
      states(%S = zero : tensor<?x?x2x6xf32>) {
    // expected-error @+1 {{a constant in a step must be one number in every channel; pass others as a parameter}}
    %gk = arith.constant dense<[0.0, -1.0]> : vector<2xf32>
    %S1 = ejk.decay %S by %gk along key : vector<2x6xf32>, vector<2xf32>
    %S2 = ejk.outer_add %S1, %kt, %vt : vector<2x6xf32>, vector<2xf32>, vector<6xf32>
    ejk.yield states(%S2 : vector<2x6xf32>)
  }
  return %ht : tensor<?x?x2x6xf32>
}

// -----

// A state that needs itself read along both axes: one block has it whole, where it fits.
func.func @both_axes(%k: tensor<?x?x?x512xf32>, %v: tensor<?x?x?x512xf32>) -> tensor<?x?x512x512xf32> {
  // expected-remark @+2 {{not split:}}
  // expected-error @+1 {{one thread block has the whole state; one of 512 by 512 does not fit its registers}}
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x512xf32>, %vt = %v : tensor<?x?x?x512xf32>)
      states(%S = zero : tensor<?x?x512x512xf32>) {
    %a = ejk.read %S, %kt along key : vector<512x512xf32>, vector<512xf32>
    %b = ejk.read %S, %vt along value : vector<512x512xf32>, vector<512xf32>
    %S1 = ejk.outer_add %S, %b, %a : vector<512x512xf32>, vector<512xf32>, vector<512xf32>
    ejk.yield states(%S1 : vector<512x512xf32>)
  }
  return %ht : tensor<?x?x512x512xf32>
}

// -----

// States of two sizes that need each other's reads from one step to the next.
func.func @two_sizes(%k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x8xf32>)
    -> (tensor<?x?x4x8xf32>, tensor<?x?x8x4xf32>) {
  // expected-remark @+2 {{not split: K×V states of different sizes depend on each other's reads}}
  // expected-error @+1 {{needs K×V states of one size, but this scan has 'vector<4x8xf32>' and 'vector<8x4xf32>'}}
  %a, %b = ejk.scan sequences(%kt = %k : tensor<?x?x?x4xf32>, %vt = %v : tensor<?x?x?x8xf32>)
      states(%S = zero : tensor<?x?x4x8xf32>, %R = zero : tensor<?x?x8x4xf32>) {
    %r = ejk.read %S, %kt along key : vector<4x8xf32>, vector<4xf32>
    %s = ejk.read %R, %vt along key : vector<8x4xf32>, vector<8xf32>
    %S1 = ejk.outer_add %S, %s, %vt : vector<4x8xf32>, vector<4xf32>, vector<8xf32>
    %R1 = ejk.outer_add %R, %r, %kt : vector<8x4xf32>, vector<8xf32>, vector<4xf32>
    ejk.yield states(%S1, %R1 : vector<4x8xf32>, vector<8x4xf32>)
  }
  return %a, %b : tensor<?x?x4x8xf32>, tensor<?x?x8x4xf32>
}

// -----

// A vector that fits neither axis of the state.
func.func @third_size(%k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x8xf32>, %x: tensor<?x?x?x7xf32>)
    -> (tensor<?x?x4x8xf32>, tensor<?x?x7xf32>) {
  %a, %b = ejk.scan sequences(%kt = %k : tensor<?x?x?x4xf32>, %vt = %v : tensor<?x?x?x8xf32>,
                              %xt = %x : tensor<?x?x?x7xf32>)
      states(%S = zero : tensor<?x?x4x8xf32>, %X = zero : tensor<?x?x7xf32>) {
    %S1 = ejk.outer_add %S, %kt, %vt : vector<4x8xf32>, vector<4xf32>, vector<8xf32>
    // expected-error @+1 {{has a vector of 7 where the state has 4; the step-by-step schedule cannot place it}}
    %X1 = arith.addf %X, %xt : vector<7xf32>
    ejk.yield states(%S1, %X1 : vector<4x8xf32>, vector<7xf32>)
  }
  return %a, %b : tensor<?x?x4x8xf32>, tensor<?x?x7xf32>
}

// -----

// K×V numbers that no state has a part in have no place among the threads.
func.func @matrix_without_state(%k: tensor<?x?x?x4xf32>, %p: tensor<4x8xf32>)
    -> tensor<?x?x4x8xf32> {
  %s = ejk.scan sequences(%kt = %k : tensor<?x?x?x4xf32>) parameters(%pt = %p : tensor<4x8xf32> as vector<4x8xf32>)
      states(%S = zero : tensor<?x?x4x8xf32>) {
    // expected-error @+1 {{takes a K×V value that does not depend on the state}}
    %S1 = arith.addf %S, %pt : vector<4x8xf32>
    ejk.yield states(%S1 : vector<4x8xf32>)
  }
  return %s : tensor<?x?x4x8xf32>
}

// -----

func.func @wide_gate(%k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x8xf32>) -> (tensor<?x?x4x8xf32>, tensor<?x?x8xf32>) {
  %s, %r = ejk.scan sequences(%kt = %k : tensor<?x?x?x4xf32>, %vt = %v : tensor<?x?x?x8xf32>)
      states(%S = zero : tensor<?x?x4x8xf32>, %X = zero : tensor<?x?x8xf32>) {
    %w = arith.extf %vt : vector<8xf32> to vector<8xf64>
    %x = arith.extf %X : vector<8xf32> to vector<8xf64>
    // expected-error @+1 {{takes a 'vector<8xf64>' that does not depend on the state; only floats of up to 32 bits}}
    %y = arith.addf %x, %w : vector<8xf64>
    %X1 = arith.truncf %y : vector<8xf64> to vector<8xf32>
    %S1 = ejk.outer_add %S, %kt, %vt : vector<4x8xf32>, vector<4xf32>, vector<8xf32>
    ejk.yield states(%S1, %X1 : vector<4x8xf32>, vector<8xf32>)
  }
  return %s, %r : tensor<?x?x4x8xf32>, tensor<?x?x8xf32>
}

// -----

// What a function may hold.

// expected-error @+1 {{must have a body of one block, which ends in func.return}}
func.func @blocks(%x: tensor<?xf32>, %y: tensor<?xf32>, %which: i1) -> tensor<?xf32> {
  cf.cond_br %which, ^first, ^second
^first:
  %s = arith.addf %x, %y : tensor<?xf32>
  return %s : tensor<?xf32>
^second:
  return %y : tensor<?xf32>
}

// -----

// expected-error @+1 {{argument 'arg1' is 'f32'; a compiled function takes ranked tensors of f16, bf16, f32, f64, i32 or i64}}
func.func @scalar_argument(%x: tensor<?xf32>, %y: f32) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

func.func @narrow_result(%x: tensor<?xf32>) -> tensor<?xi1> {
  %c = arith.cmpf olt, %x, %x : tensor<?xf32>
  // expected-error @+1 {{result 0 is 'tensor<?xi1>'; a compiled function returns ranked tensors of f16}}
  return %c : tensor<?xi1>
}

// -----

func.func @concat(%x: tensor<2x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{'tensor.concat' cannot be compiled; a compiled function holds ejk's recurrences, linalg.generic, and elementwise arith and math on tensors}}
  %y = tensor.concat dim(0) %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

func.func @table(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{'arith.constant' cannot be compiled to a kernel here}}
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = arith.addf %x, %c : tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @unknown_size(%x: tensor<?xf32>, %s: tensor<2xi64>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{'tensor.extract' cannot be compiled}}
  %n = tensor.extract %s[%c0] : tensor<2xi64>
  %size = arith.index_cast %n : i64 to index
  %e = tensor.empty(%size) : tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%e : tensor<?xf32>) {
  ^bb0(%out: f32):
    %one = arith.constant 1.0 : f32
    linalg.yield %one : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

func.func @shifted(%r: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{operand 0 is indexed by affine_map<(d0) -> (d0 + 1)>; only permutations and broadcasts of the loops can be compiled}}
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i + 1)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}
      ins(%r : tensor<?xf32>) outs(%r : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// 1 slot for the 7 that 100 rows in chunks of 16 need.
func.func @f(%k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x4xf32>) -> (tensor<1x?x4x4xf32>) {
  // expected-error @below {{its chunks need saved states with B*T/16+B slots, but one has 1}}
  %ht, %s = ejk.scan save_every 16
      sequences(%kt = %k : tensor<?x?x?x4xf32>, %vt = %v : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) saves(tensor<1x?x4x4xf32>) {
    %S2 = ejk.outer_add %S, %kt, %vt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) saves(%S2 : vector<4x4xf32>)
  }
  return %s : tensor<1x?x4x4xf32>
}

// -----

// Written every 16 rows, read every row.
func.func @f(%k: tensor<?x?x?x4xf32>) -> (tensor<?x?x?x4xf32>) {
  // expected-error @below {{its chunks need saved states with B*T/16+B slots, but one has B*T/1+B}}
  %ht, %s = ejk.scan save_every 16 sequences(%kt = %k : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) saves(tensor<?x?x4x4xf32>) {
    %S2 = ejk.outer_add %S, %kt, %kt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) saves(%S2 : vector<4x4xf32>)
  }
  %o, %a = ejk.scan reverse save_every 1 sequences(%vt = %k : tensor<?x?x?x4xf32>)
      saved(%c = %s : tensor<?x?x4x4xf32>)
      states(%A = zero : tensor<?x?x4x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %y = ejk.checkpoint %vt, %A with %c along value : vector<4xf32>, vector<4x4xf32>, vector<4x4xf32>
    %A1 = ejk.outer_add %A, %vt, %vt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%A1 : vector<4x4xf32>) outputs(%y : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// -----

func.func @f(%k: tensor<?x?x?x4xf32>, %p: tensor<?x4x4xf32>) -> (tensor<?x?x4x4xf32>) {
  %s = ejk.scan save_every 16
      sequences(%kt = %k : tensor<?x?x?x4xf32>) parameters(%pt = %p : tensor<?x4x4xf32> as vector<4x4xf32>) saves(tensor<?x?x4x4xf32>) {
    // expected-error @below {{saves a K×V value that does not depend on a state; the step-by-step schedule has no such values but constants}}
    ejk.yield saves(%pt : vector<4x4xf32>)
  }
  return %s : tensor<?x?x4x4xf32>
}

// -----

// expected-error @below {{has the name 'kernels', which the module of all kernels takes}}
func.func @kernels(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.negf %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
