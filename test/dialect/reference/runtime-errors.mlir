// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-interpret

// What only a run can see: sizes that are dynamic, and offsets.

func.func private @recurrence(%q: tensor<?x?x?x2xf32>, %k: tensor<?x?x?x2xf32>, %cu: tensor<?xi32>)
    -> tensor<?x?x?x2xf32> {
  // expected-error @below {{'key' must be [B,T,Hkv,K] with T = 3 as 'query' has it, but its shape is [1, 4, 1, 2]}}
  %o, %ht = ejk.recurrent %q, %k, %k cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x?x2xf32>, tensor<?x?x?x2xf32>, tensor<?x?x?x2xf32>
      -> tensor<?x?x?x2xf32>, tensor<?x?x2x2xf32>
  return %o : tensor<?x?x?x2xf32>
}
func.func @steps_differ() {
  %q = check.random zero seed 0 : tensor<1x3x1x2xf32>
  %k = check.random zero seed 0 : tensor<1x4x1x2xf32>
  %cu = arith.constant dense<[0, 3]> : tensor<2xi32>
  %qd = tensor.cast %q : tensor<1x3x1x2xf32> to tensor<?x?x?x2xf32>
  %kd = tensor.cast %k : tensor<1x4x1x2xf32> to tensor<?x?x?x2xf32>
  %cud = tensor.cast %cu : tensor<2xi32> to tensor<?xi32>
  %o = call @recurrence(%qd, %kd, %cud)
      : (tensor<?x?x?x2xf32>, tensor<?x?x?x2xf32>, tensor<?xi32>) -> tensor<?x?x?x2xf32>
  check.expect_equal %o, %o : tensor<?x?x?x2xf32>
  return
}

// -----

func.func @heads_do_not_divide() {
  %q = check.random zero seed 0 : tensor<1x3x3x2xf32>
  %k = check.random zero seed 0 : tensor<1x3x2x2xf32>
  %kd = tensor.cast %k : tensor<1x3x2x2xf32> to tensor<1x3x?x2xf32>
  // expected-error @below {{'key' must have a number of heads that divides H = 3, but has 2}}
  %o, %ht = ejk.recurrent %q, %kd, %kd
      : tensor<1x3x3x2xf32>, tensor<1x3x?x2xf32>, tensor<1x3x?x2xf32>
      -> tensor<1x3x3x2xf32>, tensor<1x3x2x2xf32>
  check.expect_equal %o, %o : tensor<1x3x3x2xf32>
  return
}

// -----

func.func @offsets_start_late() {
  %q = check.random zero seed 0 : tensor<1x3x1x2xf32>
  %cu = arith.constant dense<[1, 3]> : tensor<2xi32>
  // expected-error @below {{'cu_seqlens' must start at 0, but starts at 1}}
  %o, %ht = ejk.recurrent %q, %q, %q cu_seqlens(%cu : tensor<2xi32>)
      : tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>
      -> tensor<1x3x1x2xf32>, tensor<1x1x2x2xf32>
  check.expect_equal %o, %o : tensor<1x3x1x2xf32>
  return
}

// -----

func.func @offsets_decrease() {
  %q = check.random zero seed 0 : tensor<1x3x1x2xf32>
  %cu = arith.constant dense<[0, 2, 1, 3]> : tensor<4xi32>
  // expected-error @below {{'cu_seqlens' must not decrease, but entry 2 is 1 after 2}}
  %o, %ht = ejk.recurrent %q, %q, %q cu_seqlens(%cu : tensor<4xi32>)
      : tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>
      -> tensor<1x3x1x2xf32>, tensor<3x1x2x2xf32>
  check.expect_equal %o, %o : tensor<1x3x1x2xf32>
  return
}

// -----

func.func @offsets_end_late() {
  %q = check.random zero seed 0 : tensor<1x3x1x2xf32>
  %cu = arith.constant dense<[0, 4]> : tensor<2xi64>
  // expected-error @below {{'cu_seqlens' must end at T = 3 or before, but ends at 4}}
  %o, %ht = ejk.recurrent %q, %q, %q cu_seqlens(%cu : tensor<2xi64>)
      : tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>
      -> tensor<1x3x1x2xf32>, tensor<1x1x2x2xf32>
  check.expect_equal %o, %o : tensor<1x3x1x2xf32>
  return
}

// -----

func.func @batch_with_offsets() {
  %q = check.random zero seed 0 : tensor<2x3x1x2xf32>
  %qd = tensor.cast %q : tensor<2x3x1x2xf32> to tensor<?x3x1x2xf32>
  %cu = arith.constant dense<[0, 3]> : tensor<2xi32>
  // expected-error @below {{B must be 1 with 'cu_seqlens', but is 2}}
  %o, %ht = ejk.recurrent %qd, %qd, %qd cu_seqlens(%cu : tensor<2xi32>)
      : tensor<?x3x1x2xf32>, tensor<?x3x1x2xf32>, tensor<?x3x1x2xf32>
      -> tensor<?x3x1x2xf32>, tensor<1x1x2x2xf32>
  check.expect_equal %o, %o : tensor<?x3x1x2xf32>
  return
}

// -----

func.func @state_of_another_batch() {
  %q = check.random zero seed 0 : tensor<2x3x1x2xf32>
  %h = check.random zero seed 0 : tensor<3x1x2x2xf32>
  %hd = tensor.cast %h : tensor<3x1x2x2xf32> to tensor<?x1x2x2xf32>
  // expected-error @below {{'initial_state' must be [N,H,K,V] with N = 2 as the batch has it, but its shape is [3, 1, 2, 2]}}
  %o, %ht = ejk.recurrent %q, %q, %q initial_state(%hd : tensor<?x1x2x2xf32>)
      : tensor<2x3x1x2xf32>, tensor<2x3x1x2xf32>, tensor<2x3x1x2xf32>
      -> tensor<2x3x1x2xf32>, tensor<2x1x2x2xf32>
  check.expect_equal %o, %o : tensor<2x3x1x2xf32>
  return
}

// -----

func.func @unknown_op() {
  %a = check.random normal seed 0 : tensor<4xf32>
  // expected-error @below {{the interpreter does not know 'tensor.concat' here}}
  // expected-note @below {{it runs ejk's recurrences and scans}}
  %b = tensor.concat dim(0) %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  check.expect_equal %b, %b : tensor<8xf32>
  return
}

// -----

func.func @reshape_of_other_size() {
  %shape = arith.constant dense<[2, 3]> : tensor<2xi32>
  %a = check.random normal seed 0 : tensor<4xf32>
  // expected-error @below {{a tensor of shape [4] has not the elements of one of shape [2, 3]}}
  %b = tensor.reshape %a(%shape) : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  check.expect_equal %b, %b : tensor<?x?xf32>
  return
}

// -----

func.func @shapes_differ() {
  %a = check.random normal seed 0 : tensor<4xf32>
  %b = check.random normal seed 0 : tensor<5xf32>
  %ad = tensor.cast %a : tensor<4xf32> to tensor<?xf32>
  %bd = tensor.cast %b : tensor<5xf32> to tensor<?xf32>
  // expected-error @below {{operand 1 must have the shape [4] of the others, but has [5]}}
  %c = arith.addf %ad, %bd : tensor<?xf32>
  check.expect_equal %c, %c : tensor<?xf32>
  return
}

// -----

// The first index past a pool's end.
func.func @past_the_pool() {
  %pool = check.random zero seed 0 : tensor<4x1x2x2xf32>
  %index = arith.constant dense<[3, -1, 4]> : tensor<3xi32>
  // expected-error @below {{index 4 is outside a pool of 4 states}}
  %states = ejk.read_states %pool at %index : tensor<4x1x2x2xf32>, tensor<3xi32> -> tensor<3x1x2x2xf32>
  check.expect_equal %states, %states : tensor<3x1x2x2xf32>
  return
}

// -----

func.func @written_past_the_pool() {
  %pool = check.random zero seed 0 : tensor<4x1x2x2xf32>
  %states = check.random zero seed 0 : tensor<2x1x2x2xf32>
  %index = arith.constant dense<[4, 0]> : tensor<2xi32>
  // expected-error @below {{index 4 is outside a pool of 4 states}}
  %updated = ejk.write_states %states to %pool at %index
      : tensor<2x1x2x2xf32>, tensor<4x1x2x2xf32>, tensor<2xi32>
  check.expect_equal %updated, %updated : tensor<4x1x2x2xf32>
  return
}
