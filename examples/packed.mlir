// Sequences of different lengths, packed end to end into one batch entry:
// sequence n is rows cu_seqlens[n] to cu_seqlens[n+1]-1, and has a state of its
// own. Queries may have more heads than keys and values, which they then share.
func.func @packed(%q: tensor<1x?x?x64xbf16>, %k: tensor<1x?x?x64xbf16>,
                  %v: tensor<1x?x?x128xbf16>, %g: tensor<1x?x?xf32>,
                  %h0: tensor<?x?x64x128xf32>, %cu_seqlens: tensor<?xi32>)
    -> (tensor<1x?x?x128xbf16>, tensor<?x?x64x128xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<1x?x?xf32>)
      initial_state(%h0 : tensor<?x?x64x128xf32>) cu_seqlens(%cu_seqlens : tensor<?xi32>)
      : tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>, tensor<1x?x?x128xbf16>
      -> tensor<1x?x?x128xbf16>, tensor<?x?x64x128xf32>
  return %o, %ht : tensor<1x?x?x128xbf16>, tensor<?x?x64x128xf32>
}
