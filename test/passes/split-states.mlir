// RUN: ejk-opt %s --ejk-split-states --split-input-file --verify-diagnostics

// States that need each other's reads from one step to the next stay together.
func.func @each_other(%k: tensor<?x?x?x4xf32>, %v: tensor<?x?x?x8xf32>)
    -> (tensor<?x?x4x8xf32>, tensor<?x?x8x4xf32>) {
  // expected-remark @below {{not split: K×V states of different sizes depend on each other's reads}}
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
