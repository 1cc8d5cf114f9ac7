func.func @both(%q: tensor<?x?x?x32xf32>, %k: tensor<?x?x?x32xf32>, %v: tensor<?x?x?x48xf32>,
                %gk: tensor<?x?x?x32xf32>, %gv: tensor<?x?x?x48xf32>) -> tensor<?x?x?x48xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x32xf32>) gv(%gv : tensor<?x?x?x48xf32>)
      : tensor<?x?x?x32xf32>, tensor<?x?x?x32xf32>, tensor<?x?x?x48xf32>
      -> tensor<?x?x?x48xf32>, tensor<?x?x32x48xf32>
  return %o : tensor<?x?x?x48xf32>
}
