// Decoding: the state from the last token in, one token's output and the new
// state out. T is static here, so the kernel has no loop over time; with a
// dynamic T the same package serves prefill, and picks such a kernel at T = 1.
// A launch may give h0 and ht the same memory.
func.func @decode(%q: tensor<?x1x?x128xbf16>, %k: tensor<?x1x?x128xbf16>,
                  %v: tensor<?x1x?x128xbf16>, %gk: tensor<?x1x?x128xf32>,
                  %h0: tensor<?x?x128x128xf32>)
    -> (tensor<?x1x?x128xbf16>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x1x?x128xf32>)
      initial_state(%h0 : tensor<?x?x128x128xf32>)
      : tensor<?x1x?x128xbf16>, tensor<?x1x?x128xbf16>, tensor<?x1x?x128xbf16>
      -> tensor<?x1x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<?x1x?x128xbf16>, tensor<?x?x128x128xf32>
}
