func.func @packed(%q: tensor<?x?x?x16xbf16>, %k: tensor<?x?x?x16xbf16>, %v: tensor<?x?x?x16xbf16>,
                  %g: tensor<?x?x?xf32>, %h0: tensor<?x?x16x16xf32>, %cu_seqlens: tensor<?xi32>)
    -> (tensor<?x?x?x16xbf16>, tensor<?x?x16x16xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      initial_state(%h0 : tensor<?x?x16x16xf32>) cu_seqlens(%cu_seqlens : tensor<?xi32>)
      : tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>, tensor<?x?x?x16xbf16>
      -> tensor<?x?x?x16xbf16>, tensor<?x?x16x16xf32>
  return %o, %ht : tensor<?x?x?x16xbf16>, tensor<?x?x16x16xf32>
}
