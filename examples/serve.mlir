// What a server calls for a gated delta rule whose states lie in a pool of P slots: examples/c/serve.c.
// Sequence n starts from its slot of the pool, or from zero where it has none (a negative index), and the
// pool is updated in its place: a call passes one buffer as `pool` and as `updated`.

// Any rows of several sequences, end to end: a prompt or a piece of it, or a token of each. The state after
// a sequence's last row goes to its slot in `write`, which may be another; without rows it is copied.
func.func @extend(%q: tensor<1x?x?x64xf32>, %k: tensor<1x?x?x64xf32>, %v: tensor<1x?x?x64xf32>,
                  %g: tensor<1x?x?xf32>, %beta: tensor<1x?x?xf32>, %pool: tensor<?x?x64x64xf32>,
                  %read: tensor<?xi32>, %write: tensor<?xi32>, %cu_seqlens: tensor<?xi32>)
    -> (tensor<1x?x?x64xf32> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "updated"}) {
  %h0 = ejk.read_states %pool at %read : tensor<?x?x64x64xf32>, tensor<?xi32> -> tensor<?x?x64x64xf32>
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<1x?x?xf32>) g(%g : tensor<1x?x?xf32>)
      initial_state(%h0 : tensor<?x?x64x64xf32>) cu_seqlens(%cu_seqlens : tensor<?xi32>) {softmax_scale = 1.0 : f64}
      : tensor<1x?x?x64xf32>, tensor<1x?x?x64xf32>, tensor<1x?x?x64xf32>
      -> tensor<1x?x?x64xf32>, tensor<?x?x64x64xf32>
  %updated = ejk.write_states %ht to %pool at %write
      : tensor<?x?x64x64xf32>, tensor<?x?x64x64xf32>, tensor<?xi32>
  return %o, %updated : tensor<1x?x?x64xf32>, tensor<?x?x64x64xf32>
}

// Four drafted tokens of each sequence. The state after row t goes to slot `slots[n, t]`; the next call starts
// from the state after the last row that was accepted, `slots[n, accepted[n] - 1]`.
func.func @verify(%q: tensor<?x4x?x64xf32>, %k: tensor<?x4x?x64xf32>, %v: tensor<?x4x?x64xf32>,
                  %g: tensor<?x4x?xf32>, %beta: tensor<?x4x?xf32>, %pool: tensor<?x?x64x64xf32>,
                  %slots: tensor<?x4xi32>, %accepted: tensor<?xi32>)
    -> (tensor<?x4x?x64xf32> {ejk.name = "o"}, tensor<?x?x64x64xf32> {ejk.name = "updated"}) {
  %h0 = ejk.read_states %pool at %slots accepted(%accepted : tensor<?xi32>)
      : tensor<?x?x64x64xf32>, tensor<?x4xi32> -> tensor<?x?x64x64xf32>
  %o, %ht, %after = ejk.scan save_every 1
      sequences(%qt = %q : tensor<?x4x?x64xf32>, %kt = %k : tensor<?x4x?x64xf32>, %vt = %v : tensor<?x4x?x64xf32>,
                %gt = %g : tensor<?x4x?xf32>, %bt = %beta : tensor<?x4x?xf32>)
      states(%S = %h0 : tensor<?x?x64x64xf32>)
      -> (tensor<?x4x?x64xf32>) saves(tensor<?x?x64x64xf32>) {
    %D = ejk.decay %S by %gt along head : vector<64x64xf32>, f32
    %r = ejk.read %D, %kt along key : vector<64x64xf32>, vector<64xf32>
    %e = arith.subf %vt, %r : vector<64xf32>
    %b = vector.broadcast %bt : f32 to vector<64xf32>
    %u = arith.mulf %b, %e : vector<64xf32>
    %S1 = ejk.outer_add %D, %kt, %u : vector<64x64xf32>, vector<64xf32>, vector<64xf32>
    %ot = ejk.read %S1, %qt along key : vector<64x64xf32>, vector<64xf32>
    ejk.yield states(%S1 : vector<64x64xf32>) outputs(%ot : vector<64xf32>) saves(%S1 : vector<64x64xf32>)
  }
  %updated = ejk.write_states %after to %pool at %slots
      : tensor<?x?x64x64xf32>, tensor<?x?x64x64xf32>, tensor<?x4xi32>
  return %o, %updated : tensor<?x4x?x64xf32>, tensor<?x?x64x64xf32>
}
