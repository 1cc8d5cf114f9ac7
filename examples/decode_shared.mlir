// Decoding on a server with grouped query heads: T tokens for each of N sequences. The query heads
// that share a key/value head share its state, too, so that the pool has one for each key/value head
// and a kernel moves it once. As in decode_pool.mlir, sequence n's states are those of index[n], and
// the pool is updated in its place.
func.func @decode(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>,
                  %v: tensor<?x?x?x128xbf16>, %g: tensor<?x?x?xf32>,
                  %pool: tensor<?x?x128x128xf32>, %index: tensor<?xi32>)
    -> (tensor<?x?x?x128xbf16> {ejk.name = "o"}, tensor<?x?x128x128xf32> {ejk.name = "updated"}) {
  %h0 = ejk.read_states %pool at %index
      : tensor<?x?x128x128xf32>, tensor<?xi32> -> tensor<?x?x128x128xf32>
  %o, %ht = ejk.gla shared_state %q, %k, %v g(%g : tensor<?x?x?xf32>)
      initial_state(%h0 : tensor<?x?x128x128xf32>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  %updated = ejk.write_states %ht to %pool at %index
      : tensor<?x?x128x128xf32>, tensor<?x?x128x128xf32>, tensor<?xi32>
  return %o, %updated : tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
}
