// RUN: ejk-opt %s --split-input-file --verify-diagnostics --ejk-backward
// RUN: not ejk-opt %s --split-input-file --ejk-backward=wrt=a,b 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not ejk-opt %s --split-input-file --ejk-backward=function=nowhere 2>&1 | FileCheck %s --check-prefix=FUNCTION
// NAME: 'wrt' names '{{[ab]}}', but no argument is called that; there are: 
// FUNCTION: has no function 'nowhere' to differentiate

func.func @no_rule(%q: tensor<2x4x1x4xf32>, %k: tensor<2x4x1x4xf32>, %v: tensor<2x4x1x4xf32>)
    -> tensor<2x4x1x4xf32> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<2x4x1x4xf32>, %kt = %k : tensor<2x4x1x4xf32>,
                               %vt = %v : tensor<2x4x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>) -> (tensor<2x4x1x4xf32>) {
    // expected-error @below {{'arith.remf' has no derivative rule; write it with ops of arith and math that have one}}
    %p = arith.remf %kt, %kt : vector<4xf32>
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

// -----

// The state's argument has two successors: a bonus term only read, and the carried one (RWKV).
func.func @f(%q: tensor<?x?x?x4xf32>, %k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x4xf32>,
             %u: tensor<?x?x?x4xf32>, %g: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  // expected-error @below {{state 0 is changed or carried on by several ops; a derivative needs each state to have one successor}}
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x4xf32>, %kt = %k : tensor<?x?x?x4xf32>, %vt = %v : tensor<?x?x?x4xf32>, %ut = %u : tensor<?x?x?x4xf32>, %gt = %g : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %B = ejk.outer_add %S, %ut, %vt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %o = ejk.read %B, %qt along key : vector<4x4xf32>, vector<4xf32>
    %S1 = ejk.decay %S by %gt along key : vector<4x4xf32>, vector<4xf32>
    %S2 = ejk.outer_add %S1, %kt, %vt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%o : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// -----

// As before, and another output that q, which the anchor does not see, is in.
func.func @f(%k: tensor<1x20x1x4xf32>, %q: tensor<1x20x1x4xf32>, %c: tensor<2x1x4x4xf32>) -> (tensor<1x20x1x4xf32>) {
  // expected-error @below {{saves states or reads saved ones, and such a scan has no derivative; derive the first derivative with gate-gradients=suffix}}
  %o, %a = ejk.scan reverse save_every 16 sequences(%vt = %k : tensor<1x20x1x4xf32>, %qt = %q : tensor<1x20x1x4xf32>)
      saved(%ct = %c : tensor<2x1x4x4xf32>)
      states(%A = zero : tensor<1x1x4x4xf32>) -> (tensor<1x20x1x4xf32>) {
    %y = ejk.checkpoint %vt, %A with %ct along value : vector<4xf32>, vector<4x4xf32>, vector<4x4xf32>
    %z = arith.mulf %y, %qt : vector<4xf32>
    %A1 = ejk.outer_add %A, %vt, %vt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%A1 : vector<4x4xf32>) outputs(%z : vector<4xf32>)
  }
  return %o : tensor<1x20x1x4xf32>
}

// -----

// o2 comes of the state that the first scan saves: it has no derivative.
func.func @f(%k: tensor<1x20x1x4xf32>, %x: tensor<1x20x1x4xf32>) -> (tensor<1x20x1x4xf32>, tensor<2x1x4x4xf32>) {
  // expected-error @below {{a saved state has a cotangent, and a scan that saves has no derivative; leave it out of 'cotangents'}}
  %ht, %s = ejk.scan save_every 16 sequences(%kt = %k : tensor<1x20x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) saves(tensor<2x1x4x4xf32>) {
    %S2 = ejk.outer_add %S, %kt, %kt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) saves(%S : vector<4x4xf32>)
  }
  %o = arith.addf %k, %x : tensor<1x20x1x4xf32>
  return %o, %s : tensor<1x20x1x4xf32>, tensor<2x1x4x4xf32>
}
