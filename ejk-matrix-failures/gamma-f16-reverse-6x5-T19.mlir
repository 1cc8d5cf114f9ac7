func.func @recurrence(%q: tensor<?x?x?x6xf16>, %k: tensor<?x?x?x6xf16>, %v: tensor<?x?x?x5xf16>, %g_gamma: tensor<?xf32>)
    -> (tensor<?x?x?x5xf16> {ejk.name = "o"}, tensor<?x?x6x5xf32> {ejk.name = "ht"}) {
  %o, %ht = ejk.recurrent reverse %q, %k, %v
      g_gamma(%g_gamma : tensor<?xf32>)
      : tensor<?x?x?x6xf16>, tensor<?x?x?x6xf16>, tensor<?x?x?x5xf16> -> tensor<?x?x?x5xf16>, tensor<?x?x6x5xf32>
  return %o, %ht : tensor<?x?x?x5xf16>, tensor<?x?x6x5xf32>
}
