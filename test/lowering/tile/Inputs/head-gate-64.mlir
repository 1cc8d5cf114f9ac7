// A gate per head, states of 64x64.
func.func @head_gate(%q: tensor<?x?x?x64xbf16> {ejk.name = "q"}, %k: tensor<?x?x?x64xbf16> {ejk.name = "k"},
                     %v: tensor<?x?x?x64xbf16> {ejk.name = "v"}, %g: tensor<?x?x?xf32> {ejk.name = "g"})
    -> (tensor<?x?x?x64xbf16> {ejk.name = "o"}) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
