// Gated linear attention with a gate per key channel, as a model's layer calls
// it: activations in bf16, gates in f32, a sequence read from its beginning. The
// last state comes out with the outputs.
func.func @gla(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
               %g: tensor<?x?x?x64xf32>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
