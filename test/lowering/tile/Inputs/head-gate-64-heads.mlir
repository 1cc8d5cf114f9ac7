func.func @head_gate(%q: tensor<?x?x64x128xbf16>, %k: tensor<?x?x64x128xbf16>, %v: tensor<?x?x64x128xbf16>, %g: tensor<?x?x64xf32>) -> (tensor<?x?x64x128xbf16>, tensor<?x64x128x128xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x64xf32>) : tensor<?x?x64x128xbf16>, tensor<?x?x64x128xbf16>, tensor<?x?x64x128xbf16> -> tensor<?x?x64x128xbf16>, tensor<?x64x128x128xf32>
  return %o, %ht : tensor<?x?x64x128xbf16>, tensor<?x64x128x128xf32>
}
