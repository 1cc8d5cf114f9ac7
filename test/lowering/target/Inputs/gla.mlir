func.func @gla(%q: tensor<?x?x?x32xbf16>, %k: tensor<?x?x?x32xbf16>, %v: tensor<?x?x?x32xbf16>,
               %g: tensor<?x?x?x32xf32>) -> tensor<?x?x?x32xbf16> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x32xf32>)
      : tensor<?x?x?x32xbf16>, tensor<?x?x?x32xbf16>, tensor<?x?x?x32xbf16>
      -> tensor<?x?x?x32xbf16>, tensor<?x?x32x32xf32>
  return %o : tensor<?x?x?x32xbf16>
}
