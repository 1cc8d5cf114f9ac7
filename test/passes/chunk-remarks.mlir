// RUN: ejk-opt %s --ejk-chunk --split-input-file --verify-diagnostics | FileCheck %s
// What has no chunkwise form stays a scan, and a remark says why.
// CHECK-NOT: tile.program

func.func @f32(%q: tensor<?x?x?x4xf32> {ejk.name = "q"}) -> tensor<?x?x?x4xf32> {
  // expected-remark @below {{not chunked: its keys, values or read vectors come from 'q', which is f32, and matmuls on tensor cores would round them to 16 bits; give 'q' in bf16 or f16, or allow f32 matmuls ('f32-matmuls=bf16x6')}}
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %S1 = ejk.outer_add %S, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %r = ejk.read %S1, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%r : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// -----

func.func @no_matrix(%q: tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32> {
  // expected-remark @below {{not chunked: it has no K×V state that is read or given}}
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xf32>)
      states(%S = zero : tensor<?x?x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %S1 = arith.addf %S, %qt : vector<4xf32>
    ejk.yield states(%S1 : vector<4xf32>) outputs(%S1 : vector<4xf32>)
  }
  return %o : tensor<?x?x?x4xf32>
}

// -----

// What is read may feed what is added (chunk-corrections.mlir), but no gate.
func.func @gate_from_read(%q: tensor<?x?x?x4xbf16>) -> tensor<?x?x4x4xf32> {
  %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>) {
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    // expected-remark @below {{not chunked: what is read of the state decides over the state's own gates or vectors, now or in a later step}}
    %r = ejk.read %S, %qw along key : vector<4x4xf32>, vector<4xf32>
    %d = ejk.decay %S by %r along value : vector<4x4xf32>, vector<4xf32>
    %S1 = ejk.outer_add %d, %qw, %qw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  return %ht : tensor<?x?x4x4xf32>
}

// -----

// Through a state that adds up what was read, a later step's gate depends on it.
func.func @gate_from_sum(%q: tensor<?x?x?x4xbf16>) -> tensor<?x?x4x4xf32> {
  %ht, %c = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>, %C = zero : tensor<?x?xf32>) {
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    // expected-remark @below {{not chunked: what is read of the state decides over}}
    %r = ejk.read %S, %qw along key : vector<4x4xf32>, vector<4xf32>
    %S1 = ejk.decay %S by %C along head : vector<4x4xf32>, f32
    %S2 = ejk.outer_add %S1, %qw, %qw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %s = ejk.sum %r : vector<4xf32>
    %C1 = arith.subf %C, %s : f32
    ejk.yield states(%S2, %C1 : vector<4x4xf32>, f32)
  }
  return %ht : tensor<?x?x4x4xf32>
}

// -----

func.func @moving_average(%q: tensor<?x?x?x4xbf16>) -> tensor<?x?x4x4xf32> {
  %ht, %c = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>, %X = zero : tensor<?x?x4xf32>) {
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    %half = arith.constant dense<0.5> : vector<4xf32>
    %X0 = arith.mulf %X, %half : vector<4xf32>
    // expected-remark @below {{not chunked: a state that is a number or a vector may only add up}}
    %X1 = arith.mulf %X0, %qw : vector<4xf32>
    %S1 = ejk.outer_add %S, %X1, %qw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1, %X1 : vector<4x4xf32>, vector<4xf32>)
  }
  return %ht : tensor<?x?x4x4xf32>
}

// -----

func.func @grows_with_itself(%q: tensor<?x?x?x4xbf16>) -> tensor<?x?x4x4xf32> {
  %ht, %c, %d = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>, %X = zero : tensor<?x?x4xf32>,
             %Y = zero : tensor<?x?x4xf32>) {
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    // expected-remark @below {{not chunked: what the state adds up depends on the state itself}}
    %X1 = arith.addf %X, %Y : vector<4xf32>
    %Y1 = arith.addf %Y, %X : vector<4xf32>
    %S1 = ejk.outer_add %S, %qw, %qw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1, %X1, %Y1 : vector<4x4xf32>, vector<4xf32>, vector<4xf32>)
  }
  return %ht : tensor<?x?x4x4xf32>
}

// -----

func.func @swapped(%q: tensor<?x?x?x4xbf16>) -> tensor<?x?x4x4xf32> {
  %ht:2 = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>, %R = zero : tensor<?x?x4x4xf32>) {
    // expected-remark @below {{not chunked: a K×V state goes elsewhere than through}}
    ejk.yield states(%R, %S : vector<4x4xf32>, vector<4x4xf32>)
  }
  return %ht#0 : tensor<?x?x4x4xf32>
}

// -----

func.func @two_successors(%q: tensor<?x?x?x4xbf16>) -> tensor<?x?x4x4xf32> {
  %ht, %hr = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>, %R = zero : tensor<?x?x4x4xf32>) {
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    %S1 = ejk.outer_add %S, %qw, %qw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    // expected-remark @below {{not chunked: a K×V state must have one successor in a step, but has 2}}
    ejk.yield states(%S1, %S1 : vector<4x4xf32>, vector<4x4xf32>)
  }
  return %ht : tensor<?x?x4x4xf32>
}

// -----

func.func @too_large(%q: tensor<?x?x?x256xbf16>) -> (tensor<?x?x?x256xf32>, tensor<?x?x?x256xf32>) {
  // expected-remark @below {{not chunked: its states are too large for one thread block, 65536 elements of at most 16384, and reads along both axes keep them whole (ejk-opt's --ejk-split-reads parts them)}}
  %o, %p, %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x256xbf16>)
      states(%S = zero : tensor<?x?x256x256xf32>) -> (tensor<?x?x?x256xf32>, tensor<?x?x?x256xf32>) {
    %qw = arith.extf %qt : vector<256xbf16> to vector<256xf32>
    %S1 = ejk.outer_add %S, %qw, %qw : vector<256x256xf32>, vector<256xf32>, vector<256xf32>
    %r = ejk.read %S1, %qw along key : vector<256x256xf32>, vector<256xf32>
    %s = ejk.read %S1, %qw along value : vector<256x256xf32>, vector<256xf32>
    ejk.yield states(%S1 : vector<256x256xf32>) outputs(%r, %s : vector<256xf32>, vector<256xf32>)
  }
  return %o, %p : tensor<?x?x?x256xf32>, tensor<?x?x?x256xf32>
}

// -----

func.func @sum_of_slices(%q: tensor<?x?x?x256xbf16>) -> tensor<?x?x?xf32> {
  %o, %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x256xbf16>)
      states(%S = zero : tensor<?x?x256x256xf32>) -> (tensor<?x?x?xf32>) {
    %qw = arith.extf %qt : vector<256xbf16> to vector<256xf32>
    %S1 = ejk.outer_add %S, %qw, %qw : vector<256x256xf32>, vector<256xf32>, vector<256xf32>
    // expected-remark @below {{not chunked: what is read is needed in full, where a K×V state this large is cut into slices}}
    %r = ejk.read %S1, %qw along key : vector<256x256xf32>, vector<256xf32>
    %s = ejk.sum %r : vector<256xf32>
    ejk.yield states(%S1 : vector<256x256xf32>) outputs(%s : f32)
  }
  return %o : tensor<?x?x?xf32>
}

// -----

func.func @f(%k: tensor<1x40x1x16xf32>) -> (tensor<1x1x16x16xf32>, tensor<3x1x16x16xf32>) {
  // expected-remark @below {{not chunked: it saves what is no state of its own}}
  %a, %s = ejk.scan save_every 16 sequences(%vt = %k : tensor<1x40x1x16xf32>)
      states(%A = zero : tensor<1x1x16x16xf32>) saves(tensor<3x1x16x16xf32>) {
    %one = arith.constant dense<1.0> : vector<16x16xf32>
    %A1 = ejk.outer_add %A, %vt, %vt : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    ejk.yield states(%A1 : vector<16x16xf32>) saves(%one : vector<16x16xf32>)
  }
  return %a, %s : tensor<1x1x16x16xf32>, tensor<3x1x16x16xf32>
}

// -----

func.func @f(%k: tensor<1x40x1x16xf32>, %c: tensor<3x1x16x16xf32>) -> (tensor<1x40x1x16xf32>) {
  %o, %a = ejk.scan reverse save_every 16 sequences(%vt = %k : tensor<1x40x1x16xf32>)
      saved(%ct = %c : tensor<3x1x16x16xf32>)
      states(%A = zero : tensor<1x1x16x16xf32>) -> (tensor<1x40x1x16xf32>) {
    // expected-remark @below {{not chunked: a saved state may only start a sum anew}}
    %y = ejk.checkpoint %vt, %A with %ct along value : vector<16xf32>, vector<16x16xf32>, vector<16x16xf32>
    %A1 = ejk.outer_add %A, %vt, %vt : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    ejk.yield states(%A1 : vector<16x16xf32>) outputs(%y : vector<16xf32>)
  }
  return %o : tensor<1x40x1x16xf32>
}

// -----

// What the anchor gives is what the state is read with.
func.func @f(%k: tensor<1x40x1x16xf32>, %c: tensor<3x1x16x16xf32>) -> (tensor<1x40x1x16xf32>) {
  %o, %a, %x = ejk.scan reverse save_every 16 sequences(%vt = %k : tensor<1x40x1x16xf32>)
      saved(%ct = %c : tensor<3x1x16x16xf32>)
      states(%A = zero : tensor<1x1x16x16xf32>, %X = zero : tensor<1x1x16xf32>) -> (tensor<1x40x1x16xf32>) {
    %y = ejk.checkpoint %X, %A with %ct along value : vector<16xf32>, vector<16x16xf32>, vector<16x16xf32>
    %X1 = arith.addf %y, %vt : vector<16xf32>
    // expected-remark @below {{not chunked: what is read of the state decides over the state's own gates or vectors, now or in a later step; those must come from sequences and parameters}}
    %r = ejk.read %A, %X1 along key : vector<16x16xf32>, vector<16xf32>
    %A1 = ejk.outer_add %A, %vt, %vt : vector<16x16xf32>, vector<16xf32>, vector<16xf32>
    ejk.yield states(%A1, %X1 : vector<16x16xf32>, vector<16xf32>) outputs(%r : vector<16xf32>)
  }
  return %o : tensor<1x40x1x16xf32>
}

// -----

func.func @maximum(%q: tensor<?x?x?x4xbf16>) -> tensor<?x?x4x4xf32> {
  %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>) {
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    // expected-remark @below {{not chunked: 'ejk.max' has no form on a chunk's tiles}}
    %g = ejk.max %qw : vector<4xf32>
    %S1 = ejk.decay %S by %g along head : vector<4x4xf32>, f32
    %S2 = ejk.outer_add %S1, %qw, %qw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>)
  }
  return %ht : tensor<?x?x4x4xf32>
}

// -----

func.func @rotation(%q: tensor<?x?x?x4xbf16>) -> tensor<?x?x4x4xf32> {
  %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>) {
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    // expected-remark @below {{not chunked: 'ejk.rotate_half' has no form on a chunk's tiles}}
    %k = ejk.rotate_half %qw : vector<4xf32>
    %S1 = ejk.outer_add %S, %k, %qw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  return %ht : tensor<?x?x4x4xf32>
}

// -----

func.func @parity(%q: tensor<?x?x?x4xbf16>) -> tensor<?x?x4x4xf32> {
  %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>) {
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    %two = arith.constant 2 : index
    %t = ejk.step_index : index
    // expected-remark @below {{not chunked: on a chunk's tiles the step's index is an f32 number only, made by 'arith.index_cast' and 'arith.sitofp'}}
    %m = arith.remui %t, %two : index
    %i = arith.index_cast %m : index to i32
    %g = arith.sitofp %i : i32 to f32
    %S1 = ejk.decay %S by %g along head : vector<4x4xf32>, f32
    %S2 = ejk.outer_add %S1, %qw, %qw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>)
  }
  return %ht : tensor<?x?x4x4xf32>
}

// -----

// Each state takes what is read of both.
func.func @momentum(%k: tensor<?x?x?x4xbf16>, %g: tensor<?x?x?xf32>) -> (tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>) {
  %o, %n, %m = ejk.scan sequences(%kt = %k : tensor<?x?x?x4xbf16>, %gt = %g : tensor<?x?x?xf32>)
      states(%N = zero : tensor<?x?x4x4xf32>, %M = zero : tensor<?x?x4x4xf32>) -> (tensor<?x?x?x4xf32>) {
    %kw = arith.extf %kt : vector<4xbf16> to vector<4xf32>
    // expected-remark @below {{not chunked: what is read of the state decides over another state's gates or vectors, and what is read of that one over this one's; those of one of them must come from sequences and parameters}}
    %rn = ejk.read %N, %kw along key : vector<4x4xf32>, vector<4xf32>
    %rm = ejk.read %M, %kw along key : vector<4x4xf32>, vector<4xf32>
    %w = arith.subf %kw, %rn : vector<4xf32>
    %u = arith.addf %w, %rm : vector<4xf32>
    %N1 = ejk.outer_add %N, %kw, %u : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %M1 = ejk.decay %M by %gt along head : vector<4x4xf32>, f32
    %M2 = ejk.outer_add %M1, %kw, %u : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%N1, %M2 : vector<4x4xf32>, vector<4x4xf32>) outputs(%rn : vector<4xf32>)
  }
  return %o, %n : tensor<?x?x?x4xf32>, tensor<?x?x4x4xf32>
}

// -----

// In 16 bits the index of a step is that of another one 65,536 steps before.
func.func @narrow_index(%q: tensor<?x?x?x4xbf16>) -> tensor<?x?x4x4xf32> {
  %ht = ejk.scan sequences(%qt = %q : tensor<?x?x?x4xbf16>)
      states(%S = zero : tensor<?x?x4x4xf32>) {
    %t = ejk.step_index : index
    // expected-remark @below {{not chunked: on a chunk's tiles the step's index is an f32 number only, made by 'arith.index_cast' and 'arith.sitofp'}}
    %narrow = arith.index_cast %t : index to i16
    %number = arith.sitofp %narrow : i16 to f32
    %many = vector.broadcast %number : f32 to vector<4xf32>
    %qw = arith.extf %qt : vector<4xbf16> to vector<4xf32>
    %k = arith.mulf %qw, %many : vector<4xf32>
    %S1 = ejk.outer_add %S, %k, %qw : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>)
  }
  return %ht : tensor<?x?x4x4xf32>
}
