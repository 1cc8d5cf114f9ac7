func.func @f(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>, %v: tensor<?x?x2x64xbf16>,
    %g: tensor<?x?x2xf32>) -> tensor<?x?x2x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x2xf32>)
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %o : tensor<?x?x2x64xbf16>
}
func.func @f_fwd(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>, %v: tensor<?x?x2x64xbf16>,
    %g: tensor<?x?x2xf32>) -> tensor<?x?x2x64xbf16> {
  %o, %ht = ejk.recurrent reverse %q, %k, %v g(%g : tensor<?x?x2xf32>)
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %o : tensor<?x?x2x64xbf16>
}
