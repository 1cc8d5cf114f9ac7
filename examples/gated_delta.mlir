// Gated DeltaNet: each step takes out of the state what it holds for the key, and puts in
// the value, by beta; the state decays by a gate per head. Value heads share query and key
// heads. Keys come normalised.
func.func @gated_delta(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                       %v: tensor<?x?x?x128xbf16>, %beta: tensor<?x?x?xf32>,
                       %g: tensor<?x?x?xf32>, %h0: tensor<?x?x128x128xf32>)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>)
      g(%g : tensor<?x?x?xf32>) initial_state(%h0 : tensor<?x?x128x128xf32>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
