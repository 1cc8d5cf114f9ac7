func.func @gla(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
               %g: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
