// RUN: ejk-opt %s --split-input-file --verify-diagnostics
// One or more bad scans for each numbered constraint of ejk.scan. What the
// pretty form cannot even spell is given in the generic one.

// C1: no sequence.
func.func @c1_none() {
  // expected-error@+1 {{must have at least one sequence (C1)}}
  %ht = ejk.scan states(%S = zero : tensor<2x4x8x6xf32>) {
    ejk.yield states(%S : vector<8x6xf32>)
  }
  return
}

// -----

// C1: a sequence of rank 2.
func.func @c1_rank2(%x: tensor<2x5xf32>) {
  // expected-error@+1 {{expected a tensor of rank 3 or more in 'sequences', but found 'tensor<2x5xf32>'}}
  ejk.scan sequences(%a = %x : tensor<2x5xf32>) {
    ejk.yield
  }
  return
}

// -----

// C1: a sequence of rank 2, in the generic form.
func.func @c1_rank2_generic(%x: tensor<2x5xf32>) {
  // expected-error@+1 {{'sequence 0' must be [B,T,H] (C1), rank 3, but has rank 2: 'tensor<2x5xf32>'}}
  "ejk.scan"(%x) <{has_initial = array<i1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0>,
                   resultSegmentSizes = array<i32: 0, 0, 0>}> ({
  ^bb0(%a: f32):
    "ejk.yield"() <{operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()
  }) : (tensor<2x5xf32>) -> ()
  return
}

// -----

// C1: a sequence of rank 5.
func.func @c1_rank5(%x: tensor<2x5x4x8x6xf32>) {
  // expected-error@+1 {{'sequence 0' must be [B,T,H] (C1), rank 3, but has rank 5: 'tensor<2x5x4x8x6xf32>'}}
  ejk.scan sequences(%a = %x : tensor<2x5x4x8x6xf32>) {
    ejk.yield
  }
  return
}

// -----

// C1: two lengths.
func.func @c1_steps(%x: tensor<2x5x4xf32>, %y: tensor<2x6x4xf32>) {
  // expected-error@+1 {{'sequence 1' must be [B,T,sequence 1's heads] (C1) with T = 5 as 'sequence 0' has it, but dimension 1 is 6}}
  ejk.scan sequences(%a = %x : tensor<2x5x4xf32>, %b = %y : tensor<2x6x4xf32>) {
    ejk.yield
  }
  return
}

// -----

// C2: 3 heads of 4.
func.func @c2(%x: tensor<2x5x4xf32>, %y: tensor<2x5x3xf32>) {
  // expected-error@+1 {{sequence 1's head count must divide sequence 0's (C2), but they are 3 and 4}}
  ejk.scan sequences(%a = %x : tensor<2x5x4xf32>, %b = %y : tensor<2x5x3xf32>) {
    ejk.yield
  }
  return
}

// -----

// C3: dynamic channels.
func.func @c3_dynamic(%x: tensor<2x5x4x?xf32>) {
  // expected-error@+1 {{expected static channels from 1 to 512 after the first 3 dimensions, but found 'tensor<2x5x4x?xf32>'}}
  ejk.scan sequences(%a = %x : tensor<2x5x4x?xf32>) {
    ejk.yield
  }
  return
}

// -----

// C3: dynamic channels, in the generic form.
func.func @c3_dynamic_generic(%x: tensor<2x5x4x?xf32>) {
  // expected-error@+1 {{sequence 0 must have static channels from 1 to 512 (C3), but is 'tensor<2x5x4x?xf32>'}}
  "ejk.scan"(%x) <{has_initial = array<i1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0>,
                   resultSegmentSizes = array<i32: 0, 0, 0>}> ({
  ^bb0(%a: vector<8xf32>):
    "ejk.yield"() <{operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()
  }) : (tensor<2x5x4x?xf32>) -> ()
  return
}

// -----

// C3: an output with too many channels.
func.func @c3_output(%x: tensor<2x5x4xf32>) -> tensor<2x5x4x513xf32> {
  // expected-error@+1 {{output 0 must have static channels from 1 to 512 (C3), but is 'tensor<2x5x4x513xf32>'}}
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4x513xf32>) {
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5x4x513xf32>
}

// -----

// C3: a state with too many channels.
func.func @c3_state(%x: tensor<2x5x4xf32>) {
  // expected-error@+1 {{expected static channels from 1 to 512 after the first 2 dimensions, but found 'tensor<2x4x8x1024xf32>'}}
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) states(%S = zero : tensor<2x4x8x1024xf32>) {
    ejk.yield states(%S : vector<8x1024xf32>)
  }
  return
}

// -----

// C4: a parameter with three dimensions more than its step value.
func.func @c4_rank(%x: tensor<2x5x4xf32>, %p: tensor<2x4x8xf32>) {
  // expected-error@+1 {{parameter 0 must be its step value's type 'f32' preceded by nothing, [H'] or [N,H'] (C4), but is 'tensor<2x4x8xf32>'}}
  ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) parameters(%b = %p : tensor<2x4x8xf32> as f32) {
    ejk.yield
  }
  return
}

// -----

// C4: a parameter whose channels are not its step value's.
func.func @c4_channels(%x: tensor<2x5x4xf32>, %p: tensor<4x8xf32>) {
  // expected-error@+1 {{parameter 0 must be its step value's type 'vector<6xf32>' preceded by nothing, [H'] or [N,H'] (C4), but is 'tensor<4x8xf32>'}}
  ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) parameters(%b = %p : tensor<4x8xf32> as vector<6xf32>) {
    ejk.yield
  }
  return
}

// -----

// C4: a parameter that is not widened where it can be seen.
func.func @c4_type(%x: tensor<2x5x4xf32>, %p: tensor<4xbf16>) {
  // expected-error@+1 {{parameter 0 must be its step value's type 'f32' preceded by nothing, [H'] or [N,H'] (C4), but is 'tensor<4xbf16>'}}
  ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) parameters(%b = %p : tensor<4xbf16> as f32) {
    ejk.yield
  }
  return
}

// -----

// C4: a parameter of no head.
func.func @c4_no_heads(%x: tensor<2x5x4xf32>, %p: tensor<0xf32>) {
  // expected-error@+1 {{parameter 0's head count must divide sequence 0's (C4), but they are 0 and 4}}
  ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) parameters(%b = %p : tensor<0xf32> as f32) {
    ejk.yield
  }
  return
}

// -----

// C4: a parameter whose heads divide none of the query's.
func.func @c4_heads(%x: tensor<2x5x4xf32>, %p: tensor<3xf32>) {
  // expected-error@+1 {{parameter 0's head count must divide sequence 0's (C4), but they are 3 and 4}}
  ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) parameters(%b = %p : tensor<3xf32> as f32) {
    ejk.yield
  }
  return
}

// -----

// C4: a parameter for another number of sequences.
func.func @c4_sequences(%x: tensor<2x5x4xf32>, %p: tensor<3x4xf32>) {
  // expected-error@+1 {{'parameter 0' must be [N,H'] (C4) with N = 2 as the batch has it, but dimension 0 is 3}}
  ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) parameters(%b = %p : tensor<3x4xf32> as f32) {
    ejk.yield
  }
  return
}

// -----

// C5: a state of rank 5.
func.func @c5_rank(%x: tensor<2x5x4xf32>) {
  // expected-error@+1 {{state 0 must be [N,H], [N,H,C] or [N,H,K,V] (C5), but is 'tensor<2x4x8x6x3xf32>'}}
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) states(%S = zero : tensor<2x4x8x6x3xf32>) {
    ejk.yield states(%S : vector<8x6x3xf32>)
  }
  return
}

// -----

// C5: a state for another number of heads.
func.func @c5_heads(%x: tensor<2x5x4xf32>) {
  // expected-error@+1 {{'state 0' must be [N,H,state 0's first channels] (C5) with H = 4 as 'sequence 0' has it, but dimension 1 is 3}}
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) states(%S = zero : tensor<2x3x8xf32>) {
    ejk.yield states(%S : vector<8xf32>)
  }
  return
}

// -----

// C5: an initial state of another type.
func.func @c5_initial(%x: tensor<2x5x4xf32>, %h: tensor<2x4x6xf32>) {
  // expected-error@+1 {{state 0 must have its initial state's type 'tensor<2x4x6xf32>' (C5), but is 'tensor<2x4x8xf32>'}}
  %ht = "ejk.scan"(%x, %h) <{has_initial = array<i1: true>,
      operandSegmentSizes = array<i32: 1, 0, 0, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 0, 1, 0>}> ({
  ^bb0(%a: f32, %S: vector<8xf32>):
    "ejk.yield"(%S) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (vector<8xf32>) -> ()
  }) : (tensor<2x5x4xf32>, tensor<2x4x6xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

// C5: has_initial counts other states.
func.func @c5_has_initial(%x: tensor<2x5x4xf32>) {
  // expected-error@+1 {{'has_initial' must have one entry per state, true where an initial state is given (C5), but there are 1 states and 0 initial states for 2 entries}}
  %ht = "ejk.scan"(%x) <{has_initial = array<i1: false, false>,
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0>, resultSegmentSizes = array<i32: 0, 1, 0>}> ({
  ^bb0(%a: f32, %S: vector<8xf32>):
    "ejk.yield"(%S) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (vector<8xf32>) -> ()
  }) : (tensor<2x5x4xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

// C5: a state that is not f32.
func.func @c5_type(%x: tensor<2x5x4xf32>) {
  // expected-error@+1 {{result #0 must be variadic of ranked tensor of 32-bit float values, but got 'tensor<2x4xbf16>'}}
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) states(%S = zero : tensor<2x4xbf16>) {
    ejk.yield states(%S : bf16)
  }
  return
}

// -----

// C6: packed sequences in a batch of two.
func.func @c6_batch(%x: tensor<2x5x4xf32>, %cu: tensor<4xi32>) {
  // expected-error@+1 {{with 'cu_seqlens', B must be 1 (C6), but is 2}}
  ejk.scan cu_seqlens(%cu : tensor<4xi32>) sequences(%a = %x : tensor<2x5x4xf32>) {
    ejk.yield
  }
  return
}

// -----

// C6: not even a first entry.
func.func @c6_empty(%x: tensor<1x5x4xf32>, %cu: tensor<0xi32>) {
  // expected-error@+1 {{'cu_seqlens' must have N+1 entries (C6), but has none}}
  ejk.scan cu_seqlens(%cu : tensor<0xi32>) sequences(%a = %x : tensor<1x5x4xf32>) {
    ejk.yield
  }
  return
}

// -----

// C7: an output for the heads of a key.
func.func @c7(%x: tensor<2x5x4xf32>, %y: tensor<2x5x2xf32>) -> tensor<2x5x2xf32> {
  // expected-error@+1 {{'output 0' must be [B,T,H] (C7) with H = 4 as 'sequence 0' has it, but dimension 2 is 2}}
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>, %b = %y : tensor<2x5x2xf32>)
      -> (tensor<2x5x2xf32>) {
    ejk.yield outputs(%b : f32)
  }
  return %o : tensor<2x5x2xf32>
}

// -----

// C7: an output of rank 2.
func.func @c7_rank(%x: tensor<2x5x4xf32>) -> tensor<2x5xf32> {
  // expected-error@+1 {{'output 0' must be [B,T,H] (C7), rank 3, but has rank 2: 'tensor<2x5xf32>'}}
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5xf32>) {
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5xf32>
}

// -----

// C8: too few arguments.
func.func @c8_arguments(%x: tensor<2x5x4xf32>) {
  // expected-error@+1 {{the step must have 1 arguments, one per sequence, query, parameter, saved state and state (C8), but has 0}}
  "ejk.scan"(%x) <{has_initial = array<i1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0>,
                   resultSegmentSizes = array<i32: 0, 0, 0>}> ({
    "ejk.yield"() <{operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()
  }) : (tensor<2x5x4xf32>) -> ()
  return
}

// -----

// C8: a row of another type.
func.func @c8_row(%x: tensor<2x5x4xbf16>) {
  // expected-error@+1 {{the step's sequence 0 must be 'bf16' (C8), but is 'f32'}}
  "ejk.scan"(%x) <{has_initial = array<i1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0>,
                   resultSegmentSizes = array<i32: 0, 0, 0>}> ({
  ^bb0(%a: f32):
    "ejk.yield"() <{operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()
  }) : (tensor<2x5x4xbf16>) -> ()
  return
}

// -----

// C8: a state forgotten.
func.func @c8_count(%x: tensor<2x5x4xf32>) {
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) states(%S = zero : tensor<2x4xf32>) {
    // expected-error@+1 {{must yield 1 states, 0 outputs and 0 saves (C8), but yields 0, 0 and 0}}
    ejk.yield
  }
  return
}

// -----

// C8: a state of another shape.
func.func @c8_state(%x: tensor<2x5x4x8xf32>) {
  %ht = ejk.scan sequences(%a = %x : tensor<2x5x4x8xf32>) states(%S = zero : tensor<2x4xf32>) {
    // expected-error@+1 {{state 0 must be 'f32' (C8), but is 'vector<8xf32>'}}
    ejk.yield states(%a : vector<8xf32>)
  }
  return
}

// -----

// C8: an output that is not rounded where it can be seen.
func.func @c8_output(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xbf16> {
  %o = ejk.scan sequences(%a = %x : tensor<2x5x4xf32>) -> (tensor<2x5x4xbf16>) {
    // expected-error@+1 {{output 0 must be 'bf16' (C8), but is 'f32'}}
    ejk.yield outputs(%a : f32)
  }
  return %o : tensor<2x5x4xbf16>
}

// -----

// C8: no yield.
func.func @c8_yield(%x: tensor<2x5x4xf32>) {
  // expected-error@+1 {{the step must end with 'ejk.yield' (C8)}}
  "ejk.scan"(%x) <{has_initial = array<i1>, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0>,
                   resultSegmentSizes = array<i32: 0, 0, 0>}> ({
  ^bb0(%a: f32):
    "llvm.unreachable"() : () -> ()
  }) : (tensor<2x5x4xf32>) -> ()
  return
}

// -----

// C8: a save of another shape.
func.func @c8_save(%x: tensor<1x5x1x4xf32>) {
  %s, %c = ejk.scan save_every 2 sequences(%xt = %x : tensor<1x5x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) saves(tensor<?x1x4x3xf32>) {
    // expected-error@+1 {{save 0 must be 'vector<4x3xf32>' (C8), but is 'vector<4x4xf32>'}}
    ejk.yield states(%S : vector<4x4xf32>) saves(%S : vector<4x4xf32>)
  }
  return
}

// -----

// C9: saves without a grid.
func.func @c9_none(%x: tensor<1x5x1x4xf32>) {
  // expected-error@+1 {{must have a 'save_every' from 1 to 1073741824 where states are saved or saved ones read, and none elsewhere (C9)}}
  %s, %c = ejk.scan sequences(%xt = %x : tensor<1x5x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) saves(tensor<?x1x4x4xf32>) {
    ejk.yield states(%S : vector<4x4xf32>) saves(%S : vector<4x4xf32>)
  }
  return
}

// -----

// C9: a grid of nothing.
func.func @c9_zero(%x: tensor<1x5x1x4xf32>) {
  // expected-error@+1 {{must have a 'save_every' from 1 to 1073741824 where}}
  %s, %c = ejk.scan save_every 0 sequences(%xt = %x : tensor<1x5x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) saves(tensor<?x1x4x4xf32>) {
    ejk.yield states(%S : vector<4x4xf32>) saves(%S : vector<4x4xf32>)
  }
  return
}

// -----

// C9: chunks so long that sizes computed from them would overflow.
func.func @c9_long(%x: tensor<1x5x1x4xf32>) {
  // expected-error@+1 {{must have a 'save_every' from 1 to 1073741824 where}}
  %s, %c = ejk.scan save_every 9223372036854775807 sequences(%xt = %x : tensor<1x5x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) saves(tensor<?x1x4x4xf32>) {
    ejk.yield states(%S : vector<4x4xf32>) saves(%S : vector<4x4xf32>)
  }
  return
}

// -----

// C9: a saved state of a vector.
func.func @c9_rank(%x: tensor<1x5x1x4xf32>, %c: tensor<?x1x4xf32>) {
  // expected-error@+1 {{saved state 0 must be [slots,H,K,V] with K and V static, from 1 to 512 (C9), but is 'tensor<?x1x4xf32>'}}
  ejk.scan save_every 2 sequences(%xt = %x : tensor<1x5x1x4xf32>)
      saved(%ct = %c : tensor<?x1x4xf32>) {
    ejk.yield
  }
  return
}

// -----

// C9: a saved state used for itself.
func.func @c9_use(%x: tensor<1x5x1x4xf32>, %c: tensor<?x1x4x4xf32>) {
  %s, %n = ejk.scan save_every 2 sequences(%xt = %x : tensor<1x5x1x4xf32>)
      saved(%ct = %c : tensor<?x1x4x4xf32>) states(%S = zero : tensor<1x1x4x4xf32>)
      saves(tensor<?x1x4x4xf32>) {
    // expected-error@+1 {{uses saved state 0, which only 'ejk.checkpoint' may, after 'with' (C9)}}
    ejk.yield states(%S : vector<4x4xf32>) saves(%ct : vector<4x4xf32>)
  }
  return
}

// -----

// C9: a saved state in the place of a state.
func.func @c9_state(%x: tensor<1x40x1x4xf32>, %c: tensor<3x1x4x4xf32>) {
  %o, %n = ejk.scan reverse save_every 16 sequences(%xt = %x : tensor<1x40x1x4xf32>)
      saved(%ct = %c : tensor<3x1x4x4xf32>) states(%S = zero : tensor<1x1x4x4xf32>)
      -> (tensor<1x40x1x4xf32>) {
    // expected-error@+1 {{uses saved state 0, which only 'ejk.checkpoint' may, after 'with' (C9)}}
    %y = ejk.checkpoint %xt, %ct with %ct along value : vector<4xf32>, vector<4x4xf32>, vector<4x4xf32>
    %S1 = ejk.outer_add %S, %xt, %xt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    ejk.yield states(%S1 : vector<4x4xf32>) outputs(%y : vector<4xf32>)
  }
  return
}

// -----

// C11: chunks of saved states that segments cut.
func.func @c11_saves(%x: tensor<1x50x1x4xf32>) {
  // expected-error@+1 {{'save_every' must divide the least rows of 'segments' (C11), but they are 3 and 4}}
  %s, %n = ejk.scan save_every 3 segments<4 to 8, at_least 2>
      sequences(%xt = %x : tensor<1x50x1x4xf32>)
      states(%S = zero : tensor<7x1x4x4xf32>) saves(tensor<?x1x4x4xf32>) {
    ejk.yield states(%S : vector<4x4xf32>) saves(%S : vector<4x4xf32>)
  }
  return
}

// -----

// C11: packed sequences whose segments depend on the rows of all.
func.func @c11_packed(%x: tensor<1x50x1x4xf32>, %cu: tensor<3xi32>) {
  // expected-error@+1 {{the segments of packed sequences must have one length (C11), but may have from 4 to 8 rows}}
  %s = ejk.scan segments<4 to 8, at_least 2> cu_seqlens(%cu : tensor<3xi32>)
      sequences(%xt = %x : tensor<1x50x1x4xf32>)
      states(%S = zero : tensor<?x1x4x4xf32>) {
    ejk.yield states(%S : vector<4x4xf32>)
  }
  return
}

// -----

// C5: states of sequences, where there is one for each segment: 50 rows are 7 of 8.
func.func @c5_segments(%x: tensor<1x50x1x4xf32>) {
  // expected-error@+1 {{'state 0' must be [segments,H,state 0's first channels,state 0's second channels] (C5) with segments = 7 as 'segments' has it, but dimension 0 is 1}}
  %s = ejk.scan segments<4 to 8, at_least 2> sequences(%xt = %x : tensor<1x50x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) {
    ejk.yield states(%S : vector<4x4xf32>)
  }
  return
}

// -----

// C1 of the attribute.
// expected-error@+1 {{segments must have a least number of rows that divides the most, and a count, all from 1 to 1073741824 (C1), but have 4, 6 and 2}}
func.func private @least() attributes {test.segments = #ejk.segments<4 to 6, at_least 2>}

// -----

// C1 of the attribute: zeros stand for whole sequences, and only together.
// expected-error@+1 {{all from 1 to 1073741824 (C1), but have 0, 0 and 2}}
func.func private @zeros() attributes {test.segments = #ejk.segments<0 to 0, at_least 2>}

// -----

// C1 of the attribute, also of exactly so many.
// expected-error@+1 {{all from 1 to 1073741824 (C1), but have 0, 0 and 2}}
func.func private @exactly() attributes {test.segments = #ejk.segments<0, exactly 2>}

// -----

// C2 of the attribute: they have the numbers 0 and 1.
// expected-error@+1 {{'only' must be one of 'exactly' so many segments (C2), but is 2 of 2}}
func.func private @only() attributes {test.segments = #ejk.segments<4, exactly 2, only 2>}

// -----

// C2 of the attribute.
// expected-error@+1 {{expected '>'}}
func.func private @only_of_some() attributes {test.segments = #ejk.segments<4 to 8, at_least 2, only 0>}

// -----

// C11: outputs of rows that are not scanned.
func.func @c11_only(%x: tensor<1x50x1x4xf32>) {
  // expected-error@+1 {{only one of its segments must have no outputs, queries, saved states or saves (C11)}}
  %o, %s = ejk.scan segments<4, exactly 2, only 0> sequences(%xt = %x : tensor<1x50x1x4xf32>)
      states(%S = zero : tensor<1x1x4x4xf32>) -> (tensor<1x50x1x4xf32>) {
    %y = ejk.read %S, %xt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S : vector<4x4xf32>) outputs(%y : vector<4xf32>)
  }
  return
}

// -----

// C11: of packed sequences, each of which has its own rows.
func.func @c11_exactly(%x: tensor<1x50x1x4xf32>, %cu: tensor<3xi32>) {
  // expected-error@+1 {{packed sequences must not have 'exactly' so many segments (C11)}}
  %s = ejk.scan segments<4, exactly 2> cu_seqlens(%cu : tensor<3xi32>)
      sequences(%xt = %x : tensor<1x50x1x4xf32>)
      states(%S = zero : tensor<4x1x4x4xf32>) {
    ejk.yield states(%S : vector<4x4xf32>)
  }
  return
}

// -----

// C5: one of two segments is scanned, which is a state.
func.func @c5_only(%x: tensor<1x50x1x4xf32>) {
  // expected-error@+1 {{(C5) with segments = 1 as 'segments' has it, but dimension 0 is 2}}
  %s = ejk.scan segments<4, exactly 2, only 1> sequences(%xt = %x : tensor<1x50x1x4xf32>)
      states(%S = zero : tensor<2x1x4x4xf32>) {
    ejk.yield states(%S : vector<4x4xf32>)
  }
  return
}

// -----

// A whole sequence has no count.
// expected-error@+1 {{expected '>'}}
func.func private @whole() attributes {test.segments = #ejk.segments<whole, at_least 2>}

// -----

// C1 of the attribute: least · count would overflow.
// expected-error@+1 {{all from 1 to 1073741824 (C1), but have 4, 4 and 9223372036854775807}}
func.func private @count() attributes {test.segments = #ejk.segments<4 to 4, at_least 9223372036854775807>}

// -----

// C12: 4 query heads for 3 heads of states.
func.func @c12_heads(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x3x8xf32>) {
  // expected-error@+1 {{sequence 0's head count must divide the queries' (C12), but they are 3 and 4}}
  %o = ejk.scan sequences(%kt = %k : tensor<2x5x3x8xf32>) queries(%qt = %q : tensor<2x5x4x8xf32>)
      -> (tensor<2x5x4x8xf32>) {
    ejk.yield outputs(%qt : vector<8xf32>)
  }
  return
}

// -----

// C12: two queries of different head counts.
func.func @c12_two(%q: tensor<2x5x4x8xf32>, %r: tensor<2x5x2x8xf32>, %k: tensor<2x5x2x8xf32>) {
  // expected-error@+1 {{'query 1' must be [B,T,Hq,query 1's channels] (C12) with Hq = 4 as 'query 0' has it, but dimension 2 is 2}}
  ejk.scan sequences(%kt = %k : tensor<2x5x2x8xf32>)
      queries(%qt = %q : tensor<2x5x4x8xf32>, %rt = %r : tensor<2x5x2x8xf32>) {
    ejk.yield
  }
  return
}

// -----

// C12: a saved state.
func.func @c12_saved(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %s: tensor<?x2x8x8xf32>) {
  // expected-error@+1 {{reads saved states beside 'queries' (C12)}}
  %ht = ejk.scan save_every 16 sequences(%kt = %k : tensor<2x5x2x8xf32>)
      queries(%qt = %q : tensor<2x5x4x8xf32>) saved(%H = %s : tensor<?x2x8x8xf32>)
      states(%S = zero : tensor<2x2x8x8xf32>) {
    ejk.yield states(%S : vector<8x8xf32>)
  }
  return
}

// -----

// C7: an output of a query has the queries' heads.
func.func @c7_query(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>) {
  // expected-error@+1 {{output 0 must have 4 heads, as the queries have (C7), but has 2}}
  %o = ejk.scan sequences(%kt = %k : tensor<2x5x2x8xf32>) queries(%qt = %q : tensor<2x5x4x8xf32>)
      -> (tensor<2x5x2x8xf32>) {
    ejk.yield outputs(%qt : vector<8xf32>)
  }
  return
}

// -----

// C7: another output has not.
func.func @c7_key(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>) {
  // expected-error@+1 {{output 0 must have 2 heads, as sequence 0 has (C7), but has 4}}
  %o = ejk.scan sequences(%kt = %k : tensor<2x5x2x8xf32>) queries(%qt = %q : tensor<2x5x4x8xf32>)
      -> (tensor<2x5x4x8xf32>) {
    ejk.yield outputs(%kt : vector<8xf32>)
  }
  return
}

// -----

// C13: a gate of each query head. Sizes are not known; which tensors are queries is.
func.func @c13_gate(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %g: tensor<?x?x?xf32>) {
  // expected-note@+1 {{the query heads of a group share the scan's states; without 'queries', each has states of its own}}
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x8xf32>)
      queries(%qt = %q : tensor<?x?x?x8xf32>, %gt = %g : tensor<?x?x?xf32>)
      states(%S = zero : tensor<?x?x8x8xf32>) {
    // expected-error@+1 {{gives a K×V value that depends on a query or on its head (C13)}}
    %S1 = ejk.decay %S by %gt along head : vector<8x8xf32>, f32
    ejk.yield states(%S1 : vector<8x8xf32>)
  }
  return
}

// -----

// C13: a decay of each query head's number.
func.func @c13_head(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>) {
  // expected-note@+1 {{the query heads of a group share the scan's states}}
  %ht = ejk.scan sequences(%kt = %k : tensor<?x?x?x8xf32>) queries(%qt = %q : tensor<?x?x?x8xf32>)
      states(%S = zero : tensor<?x?x8x8xf32>) {
    %h = ejk.head_index : index
    %i = arith.index_cast %h : index to i32
    %g = arith.sitofp %i : i32 to f32
    // expected-error@+1 {{gives a K×V value that depends on a query or on its head (C13)}}
    %S1 = ejk.decay %S by %g along head : vector<8x8xf32>, f32
    ejk.yield states(%S1 : vector<8x8xf32>)
  }
  return
}

// -----

// C13: a state of one number.
func.func @c13_number(%q: tensor<?x?x?xf32>, %k: tensor<?x?x?x8xf32>) {
  // expected-note@+1 {{the query heads of a group share the scan's states}}
  %nt = ejk.scan sequences(%kt = %k : tensor<?x?x?x8xf32>) queries(%qt = %q : tensor<?x?x?xf32>)
      states(%n = zero : tensor<?x?xf32>) {
    // expected-error@+1 {{state 0 depends on a query or on its head (C13)}}
    ejk.yield states(%qt : f32)
  }
  return
}

// -----

// C14: rows are left out of segments.
func.func @c14_whole(%k: tensor<?x?x?xf32>) {
  // expected-error@+1 {{'trailing' needs 'segments', and no outputs, queries, saved states or saves (C14)}}
  %nt = ejk.scan trailing 16 sequences(%kt = %k : tensor<?x?x?xf32>) states(%n = zero : tensor<?x?xf32>) {
    %n1 = arith.addf %n, %kt : f32
    ejk.yield states(%n1 : f32)
  }
  return
}

// -----

// C14: an output has all rows.
func.func @c14_output(%k: tensor<?x?x?xf32>) {
  // expected-error@+1 {{'trailing' needs 'segments', and no outputs, queries, saved states or saves (C14)}}
  %o, %nt = ejk.scan segments<16 to 16, at_least 1> trailing 16 sequences(%kt = %k : tensor<?x?x?xf32>)
      states(%n = zero : tensor<?x?xf32>) -> (tensor<?x?x?xf32>) {
    %n1 = arith.addf %n, %kt : f32
    ejk.yield states(%n1 : f32) outputs(%n1 : f32)
  }
  return
}

// -----

// C14: how many.
func.func @c14_rows(%k: tensor<?x?x?xf32>) {
  // expected-error@+1 {{'trailing' must be from 1 to 1073741824 (C14), but is 0}}
  %nt = ejk.scan segments<16 to 16, at_least 1> trailing 0 sequences(%kt = %k : tensor<?x?x?xf32>)
      states(%n = zero : tensor<?x?xf32>) {
    %n1 = arith.addf %n, %kt : f32
    ejk.yield states(%n1 : f32)
  }
  return
}

// -----

// C14: a number for each segment, here three.
func.func @c14_where(%k: tensor<1x40x2xf32>, %r: tensor<2x2xf32>) {
  // expected-error@+1 {{'remembered' must be [segments,H] (C14) with segments = 3 as 'segments' has it, but dimension 0 is 2}}
  %nt = ejk.scan segments<16 to 16, at_least 1> trailing 16 where(%r : tensor<2x2xf32>)
      sequences(%kt = %k : tensor<1x40x2xf32>) states(%n = zero : tensor<3x2xf32>) {
    %n1 = arith.addf %n, %kt : f32
    ejk.yield states(%n1 : f32)
  }
  return
}
