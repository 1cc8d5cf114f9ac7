func.func @key_gate(%q: tensor<?x?x?x128xbf16>, %k: tensor<?x?x?x128xbf16>, %v: tensor<?x?x?x128xbf16>,
             %g: tensor<?x?x?x128xbf16>) -> tensor<?x?x?x128xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%g : tensor<?x?x?x128xbf16>)
      : tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x128x128xf32>
  return %o : tensor<?x?x?x128xbf16>
}
