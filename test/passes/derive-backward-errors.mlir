// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-backward
// RUN: not ejk-opt %s --split-input-file --ejk-backward=wrt=a,b 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not ejk-opt %s --split-input-file --ejk-backward=function=nowhere 2>&1 | FileCheck %s --check-prefix=FUNCTION
// NAME: 'wrt' names '{{[ab]}}', but no argument is called that
// FUNCTION: has no function 'nowhere' to differentiate

func.func @no_rule(%q: tensor<2x4x1x4xf32>, %k: tensor<2x4x1x4xf32>, %v: tensor<2x4x1x4xf32>)
    -> tensor<2x4x1x4xf32> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<2x4x1x4xf32>, %kt = %k : tensor<2x4x1x4xf32>,
                               %vt = %v : tensor<2x4x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>) -> (tensor<2x4x1x4xf32>) {
    // expected-error @below {{'math.powf' has no derivative rule; write it with ops of arith and math that have one}}
    %p = math.powf %kt, %kt : vector<4xf32>
    %S1 = ejk.outer_add %S, %p, %vt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %ot = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x4x1x4xf32>
}

// -----

func.func @integer_path(%q: tensor<2x4x1x4xf32>, %k: tensor<2x4x1x4xf32>, %g: tensor<2x4x1xf32>)
    -> tensor<2x4x1x4xf32> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<2x4x1x4xf32>, %kt = %k : tensor<2x4x1x4xf32>,
                               %gt = %g : tensor<2x4x1xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>) -> (tensor<2x4x1x4xf32>) {
    // expected-error @below {{'arith.fptosi' makes 'i32' of a value that a gradient is asked for; integers have no derivative}}
    %i = arith.fptosi %gt : f32 to i32
    %f = arith.sitofp %i : i32 to f32
    %S1 = ejk.decay %S by %f along head : vector<4x4xf32>, f32
    %S2 = ejk.outer_add %S1, %kt, %kt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %ot = ejk.read %S2, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x4x1x4xf32>
}

// -----

// The delta rule: what is added depends on what is read.
func.func @delta_rule(%q: tensor<2x4x1x4xf32>, %k: tensor<2x4x1x4xf32>, %v: tensor<2x4x1x4xf32>)
    -> tensor<2x4x1x4xf32> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<2x4x1x4xf32>, %kt = %k : tensor<2x4x1x4xf32>,
                               %vt = %v : tensor<2x4x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>) -> (tensor<2x4x1x4xf32>) {
    %old = ejk.read %S, %kt along key : vector<4x4xf32>, vector<4xf32>
    %delta = arith.subf %vt, %old : vector<4xf32>
    // expected-error @below {{'ejk.outer_add' takes a vector that depends on what was read of a state}}
    %S1 = ejk.outer_add %S, %kt, %delta : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %ot = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x4x1x4xf32>
}

// -----

func.func @forked_state(%q: tensor<2x4x1x4xf32>, %k: tensor<2x4x1x4xf32>, %g: tensor<2x4x1xf32>)
    -> tensor<2x4x1x4xf32> {
  %o, %ht:2 = ejk.scan sequences(%qt = %q : tensor<2x4x1x4xf32>, %kt = %k : tensor<2x4x1x4xf32>,
                               %gt = %g : tensor<2x4x1xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>, %R = zero : tensor<2x1x4x4xf32>)
      -> (tensor<2x4x1x4xf32>) {
    // expected-error @below {{makes a state that several ops change or carry on}}
    %S1 = ejk.outer_add %S, %kt, %kt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %R1 = ejk.decay %S1 by %gt along head : vector<4x4xf32>, f32
    %ot = ejk.read %R, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S1, %R1 : vector<4x4xf32>, vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : tensor<2x4x1x4xf32>
}

// -----

func.func @no_rule_between(%q: tensor<2x4x1x4xf32>, %w: tensor<2x5x1x4xf32>) -> tensor<2x4x1x4xf32> {
  // expected-error @below {{'tensor.extract_slice' has no derivative rule; between recurrences, elementwise arith and math and sums by linalg.generic have}}
  %s = tensor.extract_slice %w[0, 0, 0, 0] [2, 4, 1, 4] [1, 1, 1, 1]
      : tensor<2x5x1x4xf32> to tensor<2x4x1x4xf32>
  %o, %ht = ejk.recurrent %s, %q, %q : tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>
      -> tensor<2x4x1x4xf32>, tensor<2x1x4x4xf32>
  return %o : tensor<2x4x1x4xf32>
}

// -----

// expected-error @below {{the derivative has type}}
func.func private @f_vjp(tensor<2x4x1x4xf32>) -> tensor<2x4x1x4xf32>
func.func @f(%q: tensor<2x4x1x4xf32>) -> tensor<2x4x1x4xf32> {
  %o, %ht = ejk.recurrent %q, %q, %q : tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>
      -> tensor<2x4x1x4xf32>, tensor<2x1x4x4xf32>
  return %o : tensor<2x4x1x4xf32>
}

// -----

// expected-error @below {{holds no public function with a recurrence and a float argument}}
module {
  func.func @nothing(%q: tensor<2xf32>) -> tensor<2xf32> {
    return %q : tensor<2xf32>
  }
}
