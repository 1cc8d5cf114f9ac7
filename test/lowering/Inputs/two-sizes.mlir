// Two recurrences, each of sizes of its own.
func.func @hh(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>, %gk: tensor<?x?x?x64xf32>,
  %q2: tensor<?x?x?x64xbf16>, %k2: tensor<?x?x?x64xbf16>, %v2: tensor<?x?x?x64xbf16>, %gk2: tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  %o2, %ht2 = ejk.recurrent %q2, %k2, %v2 gk(%gk2 : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o, %o2 : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}
