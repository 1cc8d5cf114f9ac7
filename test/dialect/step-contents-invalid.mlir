// RUN: ejk-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect
// What may not stand in a step (C10): each is an error at the op, used or not.

func.func private @outside(f32) -> f32

func.func @call(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>) {
    // expected-error@+1 {{'func.call' op cannot be part of a step (C10); a step holds ejk's step ops, elementwise arith and math, vector.broadcast, and scf.if of elementwise ops}}
    %b = func.call @outside(%a) : (f32) -> f32
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

func.func @loop(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>) {
    %h = ejk.head_index : index
    // expected-error@+1 {{'scf.for' op cannot be part of a step (C10)}}
    %b = scf.for %i = %h to %h step %h iter_args(%s = %a) -> f32 {
      scf.yield %s : f32
    }
    ejk.yield outputs(%b : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

func.func @memory(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>) {
    // expected-error@+1 {{'memref.alloc' op cannot be part of a step (C10)}}
    %m = memref.alloc() : memref<4xf32>
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

func.func @tensor(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>) {
    // expected-error@+1 {{'arith.constant' op has a value of type 'tensor<4xf32>'; a step computes with numbers and vectors (C10)}}
    %t = arith.constant dense<1.0> : tensor<4xf32>
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

func.func @rank_three(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>) {
    // expected-error@+1 {{has a value of type 'vector<2x2x2xf32>'}}
    %t = vector.broadcast %a : f32 to vector<2x2x2xf32>
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

func.func @reduction(%x: tensor<2x5x4x8xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4x8xf32>) -> (tensor<2x5x4xf32>) {
    // expected-error@+1 {{'vector.reduction' op cannot be part of a step (C10)}}
    %s = vector.reduction <add>, %a : vector<8xf32> into f32
    ejk.yield outputs(%s : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

func.func @two_results(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>) {
    // expected-error@+1 {{'math.sincos' op cannot be part of a step (C10)}}
    %s, %c = math.sincos %a : f32
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

func.func @unknown(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>) {
    // expected-error@+1 {{'their.op' op cannot be part of a step (C10)}}
    %b = "their.op"(%a) : (f32) -> f32
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

func.func @if_without_result(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>) {
    %c = arith.cmpf ogt, %a, %a : f32
    // expected-error@+1 {{'scf.if' op has no result, so it can do nothing in a step (C10)}}
    scf.if %c {
    }
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

func.func @call_in_branch(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>) {
    %c = arith.cmpf ogt, %a, %a : f32
    %b = scf.if %c -> f32 {
      // expected-error@+1 {{'their.op' op cannot be part of a step (C10)}}
      %d = "their.op"(%a) : (f32) -> f32
      scf.yield %d : f32
    } else {
      scf.yield %a : f32
    }
    ejk.yield outputs(%b : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

func.func @step_op_in_branch(%x: tensor<2x5x4x8xf32>, %p: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4x8xf32>, %b = %p : tensor<2x5x4xf32>)
      -> (tensor<2x5x4xf32>) {
    %c = arith.cmpf ogt, %b, %b : f32
    %r = scf.if %c -> f32 {
      // expected-error@+1 {{'ejk.sum' op expects parent op 'ejk.scan'}}
      %s = ejk.sum %a : vector<8xf32>
      scf.yield %s : f32
    } else {
      scf.yield %b : f32
    }
    ejk.yield outputs(%r : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

// Both branches are computed: a divisor that may be zero would be divided by.
func.func @quotient_in_branch(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>) {
    %h = ejk.head_index : index
    %zero = arith.constant 0 : index
    %c = arith.cmpi ugt, %h, %zero : index
    %q = scf.if %c -> index {
      // expected-error@+1 {{'arith.divui' op may have undefined behaviour, and a step computes both branches of 'scf.if' (C10); use a divisor that is a constant other than zero, or take it out of the branch}}
      %d = arith.divui %h, %h : index
      scf.yield %d : index
    } else {
      scf.yield %h : index
    }
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5x4xf32>
}

// -----

// rotate_half C1.
func.func @odd(%x: tensor<2x5x4x7xf32>) -> tensor<2x5x4x7xf32> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4x7xf32>) -> (tensor<2x5x4x7xf32>) {
    // expected-error@+1 {{the vector must have an even number of channels (C1), but has 7}}
    %b = ejk.rotate_half %a : vector<7xf32>
    ejk.yield outputs(%b : vector<7xf32>)
  }
  return %o : tensor<2x5x4x7xf32>
}
