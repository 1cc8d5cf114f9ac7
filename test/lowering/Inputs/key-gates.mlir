// Gates of key channels that nothing bounds: a scan each way, and a delta rule.
func.func @gla(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>,
               %gk: tensor<?x?x?x128xbf16>) -> (tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x128xbf16>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
func.func @reversed(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>,
                    %gk: tensor<?x?x?x128xf32>) -> (tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.recurrent reverse %q, %k, %v gk(%gk : tensor<?x?x?x128xf32>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16> -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
func.func @kda(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
               %beta: tensor<?x?x?xf32>, %gk: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) gk(%gk : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
func.func @packed(%q: tensor<1x?x?x64xbf16>, %k: tensor<1x?x?x64xbf16>, %v: tensor<1x?x?x64xbf16>, %gk: tensor<1x?x?x64xbf16>,
                  %h0: tensor<?x?x64x64xf32>, %cu: tensor<?xi32>) -> (tensor<1x?x?x64xbf16>, tensor<?x?x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<1x?x?x64xbf16>) initial_state(%h0 : tensor<?x?x64x64xf32>) cu_seqlens(%cu : tensor<?xi32>)
      : tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16>, tensor<1x?x?x64xbf16> -> tensor<1x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %ht : tensor<1x?x?x64xbf16>, tensor<?x?x64x64xf32>
}
