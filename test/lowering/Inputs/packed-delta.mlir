// A gated delta rule of packed sequences.
func.func @packed_delta(%q: tensor<1x?x?x128xbf16>, %k: tensor<1x?x?x128xbf16>,
                        %v: tensor<1x?x?x128xbf16>, %beta: tensor<1x?x?xf32>,
                        %g: tensor<1x?x?xf32>, %h0: tensor<?x?x128x128xf32>, %cu_seqlens: tensor<?xi32>)
    -> (tensor<1x?x?x128xbf16>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<1x?x?xf32>)
      g(%g : tensor<1x?x?xf32>) initial_state(%h0 : tensor<?x?x128x128xf32>)
      cu_seqlens(%cu_seqlens : tensor<?xi32>)
      : tensor<1x?x?x128xbf16>, tensor<1x?x?x128xbf16>, tensor<1x?x?x128xbf16>
      -> tensor<1x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<1x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
