// RUN: ejk-opt %s --ejk-backward --ejk-interpret
// Central differences of step 2⁻¹⁰ in f64 along one direction: the step's square,
// 1e-6, times third derivatives of a few.

// Two recurrences one after the other, tensors that several ops use, and
// elementwise ops between them: cotangents meet and are summed.
func.func @composed(%x: tensor<2x6x2x4xf32> {ejk.name = "x"}, %g: tensor<2x6x2xf32> {ejk.name = "g"})
    -> (tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>) {
  %t = math.tanh %x : tensor<2x6x2x4xf32>
  %a, %h = ejk.recurrent %x, %t, %x g(%g : tensor<2x6x2xf32>)
      : tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>
      -> tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>
  %m = arith.mulf %a, %t : tensor<2x6x2x4xf32>
  %twice = arith.addf %g, %g : tensor<2x6x2xf32>
  %b, %i = ejk.recurrent reverse %m, %a, %x g(%twice : tensor<2x6x2xf32>)
      initial_state(%h : tensor<2x2x4x4xf32>)
      : tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>
      -> tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>
  %o = arith.addf %a, %b : tensor<2x6x2x4xf32>
  return %o, %i : tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>
}

// A state that is a vector, used by the matrix's update; a read that a second
// vector state takes up; an output that scales the read with a gate of its own.
func.func @vectors(%x: tensor<2x6x2x4xf32> {ejk.name = "x"}, %g: tensor<2x6x2xf32> {ejk.name = "g"})
    -> (tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>) {
  %o, %ht:3 = ejk.scan
      sequences(%xt = %x : tensor<2x6x2x4xf32>, %gt = %g : tensor<2x6x2xf32>)
      states(%S = zero : tensor<2x2x4x4xf32>, %w = zero : tensor<2x2x4xf32>,
             %u = zero : tensor<2x2x4xf32>) -> (tensor<2x6x2x4xf32>) {
    %decay = math.exp %gt : f32
    %d = vector.broadcast %decay : f32 to vector<4xf32>
    %wd = arith.mulf %w, %d : vector<4xf32>
    %w1 = arith.addf %wd, %xt : vector<4xf32>
    %k = math.tanh %w1 : vector<4xf32>
    %S1 = ejk.decay %S by %gt along head : vector<4x4xf32>, f32
    %S2 = ejk.outer_add %S1, %k, %xt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S2, %xt along key : vector<4x4xf32>, vector<4xf32>
    %p = ejk.read %S1, %k along value : vector<4x4xf32>, vector<4xf32>
    %ud = arith.mulf %u, %d : vector<4xf32>
    %s = arith.mulf %r, %k : vector<4xf32>
    %u1 = arith.addf %ud, %s : vector<4xf32>
    %z = math.tanh %u1 : vector<4xf32>
    %rp = arith.mulf %r, %p : vector<4xf32>
    %ot = arith.addf %z, %rp : vector<4xf32>
    ejk.yield states(%S2, %w1, %u1 : vector<4x4xf32>, vector<4xf32>, vector<4xf32>)
        outputs(%ot : vector<4xf32>)
  }
  return %o, %ht#0 : tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>
}

func.func private @composed_vjp(tensor<2x6x2x4xf32>, tensor<2x6x2xf32>, tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>)
    -> (tensor<2x6x2x4xf32>, tensor<2x6x2xf32>)
func.func private @vectors_vjp(tensor<2x6x2x4xf32>, tensor<2x6x2xf32>, tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>)
    -> (tensor<2x6x2x4xf32>, tensor<2x6x2xf32>)

func.func @dot4(%a: tensor<?x?x?x4xf32>, %b: tensor<?x?x?x4xf32>) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>,
                       affine_map<(a, b, c, d) -> ()>],
      iterator_types = ["reduction", "reduction", "reduction", "reduction"]}
      ins(%a, %b : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %sum : tensor<f32>
}
func.func @dot3(%a: tensor<2x6x2xf32>, %b: tensor<2x6x2xf32>) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>,
                       affine_map<(a, b, c) -> ()>],
      iterator_types = ["reduction", "reduction", "reduction"]}
      ins(%a, %b : tensor<2x6x2xf32>, tensor<2x6x2xf32>) outs(%zero : tensor<f32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  return %sum : tensor<f32>
}

func.func @check_composed() {
  %x = check.random normal seed 1 : tensor<2x6x2x4xf32>
  %g = check.random log_gate seed 2 : tensor<2x6x2xf32>
  %do = check.random normal seed 3 : tensor<2x6x2x4xf32>
  %dht = check.random normal seed 4 : tensor<2x2x4x4xf32>
  %vx = check.random normal seed 5 : tensor<2x6x2x4xf32>
  %vg = check.random normal seed 6 : tensor<2x6x2xf32>
  %dx, %dg = func.call @composed_vjp(%x, %g, %do, %dht) : (tensor<2x6x2x4xf32>, tensor<2x6x2xf32>, tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x6x2xf32>)
  %hx = arith.constant dense<0.0009765625> : tensor<2x6x2x4xf32>
  %hg = arith.constant dense<0.0009765625> : tensor<2x6x2xf32>
  %sx = arith.mulf %hx, %vx : tensor<2x6x2x4xf32>
  %sg = arith.mulf %hg, %vg : tensor<2x6x2xf32>
  %rx = arith.addf %x, %sx : tensor<2x6x2x4xf32>
  %rg = arith.addf %g, %sg : tensor<2x6x2xf32>
  %ro, %rh = func.call @composed(%rx, %rg) : (tensor<2x6x2x4xf32>, tensor<2x6x2xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>)
  %lx = arith.subf %x, %sx : tensor<2x6x2x4xf32>
  %lg = arith.subf %g, %sg : tensor<2x6x2xf32>
  %lo, %lh = func.call @composed(%lx, %lg) : (tensor<2x6x2x4xf32>, tensor<2x6x2xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>)
  %co = arith.subf %ro, %lo : tensor<2x6x2x4xf32>
  %ch = arith.subf %rh, %lh : tensor<2x2x4x4xf32>
  %a1 = tensor.cast %co : tensor<2x6x2x4xf32> to tensor<?x?x?x4xf32>
  %b1 = tensor.cast %do : tensor<2x6x2x4xf32> to tensor<?x?x?x4xf32>
  %d1 = func.call @dot4(%a1, %b1) : (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>) -> tensor<f32>
  %a2 = tensor.cast %ch : tensor<2x2x4x4xf32> to tensor<?x?x?x4xf32>
  %b2 = tensor.cast %dht : tensor<2x2x4x4xf32> to tensor<?x?x?x4xf32>
  %d2 = func.call @dot4(%a2, %b2) : (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>) -> tensor<f32>
  %a3 = tensor.cast %dx : tensor<2x6x2x4xf32> to tensor<?x?x?x4xf32>
  %b3 = tensor.cast %vx : tensor<2x6x2x4xf32> to tensor<?x?x?x4xf32>
  %d3 = func.call @dot4(%a3, %b3) : (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>) -> tensor<f32>
  %d4 = func.call @dot3(%dg, %vg) : (tensor<2x6x2xf32>, tensor<2x6x2xf32>) -> tensor<f32>
  %c = arith.addf %d1, %d2 : tensor<f32>
  %half = arith.constant dense<512.0> : tensor<f32>
  %expected = arith.mulf %c, %half : tensor<f32>
  %found = arith.addf %d3, %d4 : tensor<f32>
  check.expect_close %found, %expected max_relative 1.0e-5 : tensor<f32>
  return
}

func.func @check_vectors() {
  %x = check.random normal seed 1 : tensor<2x6x2x4xf32>
  %g = check.random log_gate seed 2 : tensor<2x6x2xf32>
  %do = check.random normal seed 3 : tensor<2x6x2x4xf32>
  %dht = check.random normal seed 4 : tensor<2x2x4x4xf32>
  %vx = check.random normal seed 5 : tensor<2x6x2x4xf32>
  %vg = check.random normal seed 6 : tensor<2x6x2xf32>
  %dx, %dg = func.call @vectors_vjp(%x, %g, %do, %dht) : (tensor<2x6x2x4xf32>, tensor<2x6x2xf32>, tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x6x2xf32>)
  %hx = arith.constant dense<0.0009765625> : tensor<2x6x2x4xf32>
  %hg = arith.constant dense<0.0009765625> : tensor<2x6x2xf32>
  %sx = arith.mulf %hx, %vx : tensor<2x6x2x4xf32>
  %sg = arith.mulf %hg, %vg : tensor<2x6x2xf32>
  %rx = arith.addf %x, %sx : tensor<2x6x2x4xf32>
  %rg = arith.addf %g, %sg : tensor<2x6x2xf32>
  %ro, %rh = func.call @vectors(%rx, %rg) : (tensor<2x6x2x4xf32>, tensor<2x6x2xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>)
  %lx = arith.subf %x, %sx : tensor<2x6x2x4xf32>
  %lg = arith.subf %g, %sg : tensor<2x6x2xf32>
  %lo, %lh = func.call @vectors(%lx, %lg) : (tensor<2x6x2x4xf32>, tensor<2x6x2xf32>) -> (tensor<2x6x2x4xf32>, tensor<2x2x4x4xf32>)
  %co = arith.subf %ro, %lo : tensor<2x6x2x4xf32>
  %ch = arith.subf %rh, %lh : tensor<2x2x4x4xf32>
  %a1 = tensor.cast %co : tensor<2x6x2x4xf32> to tensor<?x?x?x4xf32>
  %b1 = tensor.cast %do : tensor<2x6x2x4xf32> to tensor<?x?x?x4xf32>
  %d1 = func.call @dot4(%a1, %b1) : (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>) -> tensor<f32>
  %a2 = tensor.cast %ch : tensor<2x2x4x4xf32> to tensor<?x?x?x4xf32>
  %b2 = tensor.cast %dht : tensor<2x2x4x4xf32> to tensor<?x?x?x4xf32>
  %d2 = func.call @dot4(%a2, %b2) : (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>) -> tensor<f32>
  %a3 = tensor.cast %dx : tensor<2x6x2x4xf32> to tensor<?x?x?x4xf32>
  %b3 = tensor.cast %vx : tensor<2x6x2x4xf32> to tensor<?x?x?x4xf32>
  %d3 = func.call @dot4(%a3, %b3) : (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>) -> tensor<f32>
  %d4 = func.call @dot3(%dg, %vg) : (tensor<2x6x2xf32>, tensor<2x6x2xf32>) -> tensor<f32>
  %c = arith.addf %d1, %d2 : tensor<f32>
  %half = arith.constant dense<512.0> : tensor<f32>
  %expected = arith.mulf %c, %half : tensor<f32>
  %found = arith.addf %d3, %d4 : tensor<f32>
  check.expect_close %found, %expected max_relative 1.0e-5 : tensor<f32>
  return
}
