// Lightning attention: each head forgets at a fixed rate of its own, which
// follows from the layer's place in the model. Here layer 3 of 24.
func.func @lightning(%q: tensor<?x?x?x96xf16>, %k: tensor<?x?x?x96xf16>, %v: tensor<?x?x?x96xf16>)
    -> tensor<?x?x?x96xf16> {
  %o, %ht = ejk.lightning_attn %q, %k, %v {layer_idx = 3 : i64, num_layers = 24 : i64}
      : tensor<?x?x?x96xf16>, tensor<?x?x?x96xf16>, tensor<?x?x?x96xf16>
      -> tensor<?x?x?x96xf16>, tensor<?x?x96x96xf32>
  return %o : tensor<?x?x?x96xf16>
}
