// Decoding on a server: one token for each of N sequences, whose states lie in a pool of P, in bf16.
// Sequence n's is state index[n]; one with a negative index is skipped, and nothing of it written.
// The pool is updated in its place: a call passes one buffer as `pool` and as `updated`.
func.func @decode(%q: tensor<?x1x?x128xbf16>, %k: tensor<?x1x?x128xbf16>,
                  %v: tensor<?x1x?x128xbf16>, %g: tensor<?x1x?x128xf32>,
                  %pool: tensor<?x?x128x128xbf16>, %index: tensor<?xi32>)
    -> (tensor<?x1x?x128xbf16> {ejk.name = "o"}, tensor<?x?x128x128xbf16> {ejk.name = "updated"}) {
  %h0 = ejk.read_states %pool at %index
      : tensor<?x?x128x128xbf16>, tensor<?xi32> -> tensor<?x?x128x128xf32>
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x1x?x128xf32>)
      initial_state(%h0 : tensor<?x?x128x128xf32>)
      : tensor<?x1x?x128xbf16>, tensor<?x1x?x128xbf16>, tensor<?x1x?x128xbf16>
      -> tensor<?x1x?x128xbf16>, tensor<?x?x128x128xf32>
  %updated = ejk.write_states %ht to %pool at %index
      : tensor<?x?x128x128xf32>, tensor<?x?x128x128xbf16>, tensor<?xi32>
  return %o, %updated : tensor<?x1x?x128xbf16>, tensor<?x?x128x128xbf16>
}
