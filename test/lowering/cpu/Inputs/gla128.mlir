func.func @gla(%q: tensor<?x?x?x128xf32>, %k: tensor<?x?x?x128xf32>, %v: tensor<?x?x?x128xf32>,
               %g: tensor<?x?x?x128xf32>)
    -> (tensor<?x?x?x128xf32>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x128xf32>)
      : tensor<?x?x?x128xf32>, tensor<?x?x?x128xf32>, tensor<?x?x?x128xf32>
      -> tensor<?x?x?x128xf32>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<?x?x?x128xf32>, tensor<?x?x128x128xf32>
}
