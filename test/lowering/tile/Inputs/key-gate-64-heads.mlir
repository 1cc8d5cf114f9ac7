// A gate for each channel of the keys, 64 heads.
func.func @f(%q: tensor<?x?x64x128xbf16>, %k: tensor<?x?x64x128xbf16>, %v: tensor<?x?x64x128xbf16>,
             %g: tensor<?x?x64x128xbf16>)
    -> (tensor<?x?x64x128xbf16>, tensor<?x64x128x128xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%g : tensor<?x?x64x128xbf16>)
      : tensor<?x?x64x128xbf16>, tensor<?x?x64x128xbf16>, tensor<?x?x64x128xbf16>
      -> tensor<?x?x64x128xbf16>, tensor<?x64x128x128xf32>
  return %o, %ht : tensor<?x?x64x128xbf16>, tensor<?x64x128x128xf32>
}
