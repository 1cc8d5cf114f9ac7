// Arguments that are results, too, are no views: all rows have the stride of their size.
func.func @dense(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>, %v: tensor<?x?x2x64xbf16>,
    %gk: tensor<?x?x2x64xbf16>, %cu: tensor<?xi32>)
    -> (tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>,
        tensor<?x?x2x64xbf16>) {
  %o, %ht = ejk.recurrent reverse %q, %k, %v gk(%gk : tensor<?x?x2x64xbf16>) cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %o, %q, %k, %v, %gk : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>,
      tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
}
