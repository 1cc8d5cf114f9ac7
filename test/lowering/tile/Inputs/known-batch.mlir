// A batch whose size only the type of a result says that nothing uses.
func.func @f(%q: tensor<?x?x2x16xbf16>, %k: tensor<?x?x2x16xbf16>, %v: tensor<?x?x2x16xbf16>, %gk: tensor<?x?x2x16xbf16>)
    -> (tensor<?x?x2x16xbf16> {ejk.name = "o"}) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x2x16xbf16>)
      : tensor<?x?x2x16xbf16>, tensor<?x?x2x16xbf16>, tensor<?x?x2x16xbf16> -> tensor<?x?x2x16xbf16>, tensor<3x2x16x16xf32>
  return %o : tensor<?x?x2x16xbf16>
}
