// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad ops for each numbered constraint of ejk.decay, ejk.outer_add
// and ejk.read, and their place in a scan. The state is 8×6.

// decay C1: a vector along head.
func.func @decay_head(%x: tensor<2x5x4x8xf32>, %y: tensor<2x5x4x6xf32>) {
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4x8xf32>, %b = %y : tensor<2x5x4x6xf32>)
      states(%S = zero : tensor<2x4x8x6xf32>) {
    // expected-error@+1 {{a gate along head must be f32 (C1), but is 'vector<8xf32>'}}
    %S1 = ejk.decay %S by %a along head : vector<8x6xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x6xf32>)
  }
  return
}

// -----

// decay C1: a vector of V along key.
func.func @decay_key(%x: tensor<2x5x4x8xf32>, %y: tensor<2x5x4x6xf32>) {
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4x8xf32>, %b = %y : tensor<2x5x4x6xf32>)
      states(%S = zero : tensor<2x4x8x6xf32>) {
    // expected-error@+1 {{a gate along key must be 'vector<8xf32>' (C1), but is 'vector<6xf32>'}}
    %S1 = ejk.decay %S by %b along key : vector<8x6xf32>, vector<6xf32>
    ejk.yield states(%S1 : vector<8x6xf32>)
  }
  return
}

// -----

// decay C1: a scalar along value.
func.func @decay_value(%x: tensor<2x5x4xf32>) {
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) states(%S = zero : tensor<2x4x8x6xf32>) {
    // expected-error@+1 {{a gate along value must be 'vector<6xf32>' (C1), but is 'f32'}}
    %S1 = ejk.decay %S by %a along value : vector<8x6xf32>, f32
    ejk.yield states(%S1 : vector<8x6xf32>)
  }
  return
}

// -----

// decay C1: a gate narrower than the state.
func.func @decay_narrow(%x: tensor<2x5x4x8xbf16>) {
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4x8xbf16>) states(%S = zero : tensor<2x4x8x6xf32>) {
    // expected-error@+1 {{operand #1 must be 32-bit float or vector of 32-bit float values of ranks 1, but got 'vector<8xbf16>'}}
    %S1 = ejk.decay %S by %a along key : vector<8x6xf32>, vector<8xbf16>
    ejk.yield states(%S1 : vector<8x6xf32>)
  }
  return
}

// -----

// An axis that is none.
func.func @decay_axis(%x: tensor<2x5x4xf32>) {
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) states(%S = zero : tensor<2x4x8x6xf32>) {
    // expected-error@+1 {{expected one of [head, key, value] for what of the state a step op acts along, got: time}}
    %S1 = ejk.decay %S by %a along time : vector<8x6xf32>, f32
    ejk.yield states(%S1 : vector<8x6xf32>)
  }
  return
}

// -----

// outer_add C1: key and value the wrong way round.
func.func @outer_add(%x: tensor<2x5x4x8xf32>, %y: tensor<2x5x4x6xf32>) {
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4x8xf32>, %b = %y : tensor<2x5x4x6xf32>)
      states(%S = zero : tensor<2x4x8x6xf32>) {
    // expected-error@+1 {{key and value must have the state's sizes 8 and 6 (C1), but have 6 and 8}}
    %S1 = ejk.outer_add %S, %b, %a : vector<8x6xf32>, vector<6xf32>, vector<8xf32>
    ejk.yield states(%S1 : vector<8x6xf32>)
  }
  return
}

// -----

// read C1: along head.
func.func @read_head(%x: tensor<2x5x4x8xf32>) -> tensor<2x5x4x6xf32> {
  %o, %ht = ejk.scan sequences(%a = %x : tensor<2x5x4x8xf32>)
      states(%S = zero : tensor<2x4x8x6xf32>) -> (tensor<2x5x4x6xf32>) {
    // expected-error@+1 {{must read along key or value (C1), not head}}
    %o1 = "ejk.read"(%S, %a) {axis = #ejk.axis<head>} : (vector<8x6xf32>, vector<8xf32>) -> vector<8xf32>
    ejk.yield states(%S : vector<8x6xf32>) outputs(%o1 : vector<8xf32>)
  }
  return %o : tensor<2x5x4x6xf32>
}

// -----

// read C1: the vector is of the other axis.
func.func @read_size(%x: tensor<2x5x4x8xf32>) -> tensor<2x5x4x8xf32> {
  %o, %ht = ejk.scan sequences(%a = %x : tensor<2x5x4x8xf32>)
      states(%S = zero : tensor<2x4x8x6xf32>) -> (tensor<2x5x4x8xf32>) {
    // expected-error@+1 {{the vector must have the state's size along value, 6 (C1), but has 8}}
    %o1 = ejk.read %S, %a along value : vector<8x6xf32>, vector<8xf32>
    ejk.yield states(%S : vector<8x6xf32>) outputs(%o1 : vector<8xf32>)
  }
  return %o : tensor<2x5x4x8xf32>
}

// -----

// A step op outside a step.
func.func @outside() -> index {
  // expected-error@+1 {{'ejk.head_index' op expects parent op 'ejk.scan'}}
  %h = ejk.head_index : index
  return %h : index
}

// -----

// gate_gradient C1: a gate of another size.
func.func @gate_gradient(%x: tensor<1x5x1x4xf32>, %y: tensor<1x5x1x3xf32>) {
  %o, %s = ejk.scan sequences(%xt = %x : tensor<1x5x1x4xf32>, %yt = %y : tensor<1x5x1x3xf32>)
      states(%S = zero : tensor<1x1x4x3xf32>) -> (tensor<1x5x1x4xf32>) {
    // expected-error@+1 {{the gate must be a number or of the gradient's type, 'vector<4xf32>' (C1), but is 'vector<3xf32>'}}
    %g = ejk.gate_gradient %xt of %yt : vector<4xf32>, vector<3xf32>
    ejk.yield states(%S : vector<4x3xf32>) outputs(%g : vector<4xf32>)
  }
  return
}

// -----

// anchor C1: a vector where a number is made.
func.func @anchor_head(%x: tensor<1x5x1x4xf32>, %c: tensor<?x1x4x3xf32>) {
  %s = ejk.scan save_every 2 sequences(%xt = %x : tensor<1x5x1x4xf32>)
      saved(%ct = %c : tensor<?x1x4x3xf32>) states(%S = zero : tensor<1x1x4x3xf32>) {
    // expected-error@+1 {{along head, what it replaces must be f32 (C1), but is 'vector<4xf32>'}}
    %y = ejk.checkpoint %xt, %S with %ct along head : vector<4xf32>, vector<4x3xf32>, vector<4x3xf32>
    ejk.yield states(%S : vector<4x3xf32>)
  }
  return
}

// -----

// anchor C1: a vector along the axis that is summed.
func.func @anchor_size(%x: tensor<1x5x1x4xf32>, %c: tensor<?x1x4x3xf32>) {
  %s = ejk.scan save_every 2 sequences(%xt = %x : tensor<1x5x1x4xf32>)
      saved(%ct = %c : tensor<?x1x4x3xf32>) states(%S = zero : tensor<1x1x4x3xf32>) {
    // expected-error@+1 {{the vector must have the state's other size, 3 (C1), but is 'vector<4xf32>'}}
    %y = ejk.checkpoint %xt, %S with %ct along key : vector<4xf32>, vector<4x3xf32>, vector<4x3xf32>
    ejk.yield states(%S : vector<4x3xf32>)
  }
  return
}

// -----

// anchor C2: with a state that was not saved.
func.func @anchor_saved(%x: tensor<1x5x1x4xf32>) {
  %s = ejk.scan sequences(%xt = %x : tensor<1x5x1x4xf32>) states(%S = zero : tensor<1x1x4x3xf32>) {
    // expected-error@+1 {{'with' must be one of the scan's saved states, of the state's shape (C2)}}
    %y = ejk.checkpoint %xt, %S with %S along value : vector<4xf32>, vector<4x3xf32>, vector<4x3xf32>
    ejk.yield states(%S : vector<4x3xf32>)
  }
  return
}

// -----

// cancelling_pair C1: what a state gives.
func.func @pair_read(%x: tensor<1x5x1x4xf32>) {
  %o, %s = ejk.scan sequences(%xt = %x : tensor<1x5x1x4xf32>) states(%S = zero : tensor<1x1x4x4xf32>)
      -> (tensor<1x5x1x4xf32>) {
    %twice = arith.addf %xt, %xt : vector<4xf32>
    // expected-error@+1 {{'ejk.cancelling_pair' op multiplies what no 'ejk.read' of this step and no sequence gives (C1); use 'arith.mulf' for a product that cancels no other}}
    %p = ejk.cancelling_pair %xt, %twice : vector<4xf32>
    ejk.yield states(%S : vector<4x4xf32>) outputs(%p : vector<4xf32>)
  }
  return
}

// -----

// cancelling_pair C2: a term of a sum.
func.func @pair_use(%x: tensor<1x5x1x4xf32>) {
  %o, %s = ejk.scan sequences(%xt = %x : tensor<1x5x1x4xf32>) states(%S = zero : tensor<1x1x4x4xf32>)
      -> (tensor<1x5x1x4xf32>) {
    %r = ejk.read %S, %xt along key : vector<4x4xf32>, vector<4xf32>
    // expected-error@+1 {{must be a term of a sum: of 'ejk.sum', 'arith.addf' or 'arith.subf', or an output that a later scan sums (C2)}}
    %p = ejk.cancelling_pair %xt, %r : vector<4xf32>
    // expected-note@+1 {{'math.exp' uses it}}
    %e = math.exp %p : vector<4xf32>
    ejk.yield states(%S : vector<4x4xf32>) outputs(%e : vector<4xf32>)
  }
  return
}

// -----

// cancelling_pair C2: a state carries the sum, not one term.
func.func @pair_state(%x: tensor<1x5x1x4xf32>) {
  %s:2 = ejk.scan sequences(%xt = %x : tensor<1x5x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>, %m = zero : tensor<1x1x4xf32>) {
    %r = ejk.read %S, %xt along key : vector<4x4xf32>, vector<4xf32>
    // expected-error@+1 {{must be a term of a sum}}
    %p = ejk.cancelling_pair %xt, %r : vector<4xf32>
    // expected-note@+1 {{'ejk.yield' uses it}}
    ejk.yield states(%S, %p : vector<4x4xf32>, vector<4xf32>)
  }
  return
}
