// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// An attribute that an op does not have is an error and never dropped; the error names
// the right one where it is near, or the op that has it.

func.func @another_name(%q: tensor<1x5x4x8xf32>) {
  // expected-error@+1 {{'ejk.gla' op has no attribute 'scale'; did you mean 'softmax_scale'?}}
  %o, %ht = ejk.gla %q, %q, %q {scale = 2.0 : f64}
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

func.func @misspelt(%q: tensor<1x5x4x8xf32>) {
  // expected-error@+1 {{'ejk.recurrent' op has no attribute 'softmaxscale'; did you mean 'softmax_scale'?}}
  %o, %ht = ejk.recurrent %q, %q, %q {softmaxscale = 2.0 : f64}
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

func.func @of_another_op(%q: tensor<1x5x4x8xf32>) {
  // expected-error@+1 {{'ejk.gla' op has no attribute 'layer_idx', which 'ejk.lightning_attn' has}}
  %o, %ht = ejk.gla %q, %q, %q {layer_idx = 1 : i64}
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

func.func @always_there(%q: tensor<1x5x4x8xf32>) {
  // expected-error@+1 {{'ejk.gla' op has no attribute 'output_final_state': the final state is always a result, and unused costs nothing}}
  %o, %ht = ejk.gla %q, %q, %q {output_final_state = true}
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

func.func @near_nothing(%q: tensor<1x5x4x8xf32>) {
  // expected-error@+1 {{'ejk.lightning_attn' op has no attribute 'causal'; it has: }}
  %o, %ht = ejk.lightning_attn %q, %q, %q {causal, layer_idx = 1, num_layers = 4}
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

// The scan and the ops of a step have the same check.
func.func @step(%q: tensor<1x5x4x8xf32>, %g: tensor<1x5x4xf32>) {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<1x5x4x8xf32>, %gt = %g : tensor<1x5x4xf32>)
      states(%S = zero : tensor<1x4x8x8xf32>) -> (tensor<1x5x4x8xf32>) {
    // expected-error@+1 {{'ejk.decay' op has no attribute 'axes'; did you mean 'axis'?}}
    %S1 = ejk.decay %S by %gt along head {axes = 1} : vector<8x8xf32>, f32
    %ot = ejk.read %S1, %qt along key : vector<8x8xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x8xf32>) outputs(%ot : vector<8xf32>)
  }
  return
}

// -----

func.func @none(%q: tensor<1x5x4x8xf32>) {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<1x5x4x8xf32>)
      states(%S = zero : tensor<1x4x8x8xf32>) -> (tensor<1x5x4x8xf32>) {
    // expected-error@+1 {{'ejk.outer_add' op has no attribute 'beta'; it has: corrects}}
    %S1 = ejk.outer_add %S, %qt, %qt {beta = 1.0} : vector<8x8xf32>, vector<8xf32>, vector<8xf32>
    %ot = ejk.read %S1, %qt along key : vector<8x8xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x8xf32>) outputs(%ot : vector<8xf32>)
  }
  return
}

// -----

func.func @check_dialect(%a: tensor<2xf32>) {
  // expected-error@+1 {{'check.expect_close' op has no attribute 'max_relativ'; did you mean 'max_relative'?}}
  check.expect_close %a, %a max_relative 0.5 {max_relativ = 1.0} : tensor<2xf32>
  return
}

// -----

func.func @tile_dialect(%a: vector<16x16xf32>) {
  // expected-error@+1 {{'tile.sum' op has no attribute 'dimension'; it has: dim}}
  %b = tile.sum %a over 0 {dimension = 1} : vector<16x16xf32> -> vector<16xf32>
  return
}

// -----

// Other dialects' attributes stay allowed, ejk's own are verified.
func.func @foreign(%q: tensor<1x5x4x8xf32> {foo.bar}) {
  %o, %ht = ejk.gla %q, %q, %q {foo.bar = 1}
      : tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32>, tensor<1x5x4x8xf32> -> tensor<1x5x4x8xf32>, tensor<1x4x8x8xf32>
  return
}

// -----

// expected-error@+1 {{'ejk.nane' is no attribute of a function's argument; did you mean 'ejk.name'?}}
func.func @argument(%q: tensor<1xf32> {ejk.nane = "q"}) {
  return
}

// -----

// expected-error@+1 {{'ejk.nam' is no attribute of a function's result; did you mean 'ejk.name'?}}
func.func @result(%q: tensor<1xf32>) -> (tensor<1xf32> {ejk.nam = "o"}) {
  return %q : tensor<1xf32>
}

// -----

// expected-error@+1 {{'ejk.name' must be a string, but is 3 : i64}}
func.func @kind(%q: tensor<1xf32> {ejk.name = 3}) {
  return
}

// -----

// expected-error@+1 {{'ejk.name' is no attribute of an op; }}
func.func @place(%q: tensor<1xf32>) attributes {ejk.name = "f"} {
  return
}

// -----

func.func @tile_place(%a: vector<16x16xf32>) {
  // expected-error@+1 {{'tile.layout' is no attribute of an op; did you mean 'tile.layouts'?}}
  %b = arith.addf %a, %a {tile.layout = []} : vector<16x16xf32>
  return
}

// -----

// A described shape is that of the type, as far as both are known.
// expected-error@+1 {{'ejk.shape' must describe the type 'tensor<1x9x2x3xf32>', but is ["1", "9", "4", "4"]}}
func.func @of_another_type(%v: tensor<1x9x2x3xf32> {ejk.shape = ["1", "9", "4", "4"]}) { return }

// -----

// expected-error@+1 {{'ejk.shape' must describe the type 'tensor<?xf32>', but is ["B", "T"]}}
func.func private @of_another_rank() -> (tensor<?xf32> {ejk.shape = ["B", "T"]})

// -----

// expected-error@+1 {{'ejk.shape' must describe the type 'tensor<?xf32>', but is ["-1"]}}
func.func private @of_a_negative_size() -> (tensor<?xf32> {ejk.shape = ["-1"]})

// -----

// expected-error@+1 {{'ejk.shape' must be an array of strings, but is [4]}}
func.func private @of_numbers() -> (tensor<4xf32> {ejk.shape = [4]})

// -----

// expected-error@+1 {{'ejk.constraints' must be an array of dictionaries with the strings size, message and perhaps divisor, but is [{size = "B"}]}}
func.func @constraint(%q: tensor<1xf32>) attributes {ejk.constraints = [{size = "B"}]} { return }

// -----

// expected-error@+1 {{'ejk.when' must be an array of an operator and two operands, but is []}}
func.func @condition(%q: tensor<1xf32>) attributes {ejk.when = []} { return }

// -----

// expected-error@+1 {{'ejk.may_alias' must be an integer, but is 1 : ui32}}
func.func @unsigned(%q: memref<1xf32> {ejk.may_alias = 1 : ui32}) { return }

// -----

// What memory may be shared follows from the body.
// expected-error@+1 {{'ejk.may_alias' describes the buffers of a lowered function, but stands at a 'tensor<1xf32>'}}
func.func @alias(%q: tensor<1xf32>) -> (tensor<1xf32> {ejk.may_alias = 0 : i64}) {
  return %q : tensor<1xf32>
}
