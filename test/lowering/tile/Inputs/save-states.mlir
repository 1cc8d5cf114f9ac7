func.func @packed(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>, %v: tensor<?x?x2x48xbf16>,
    %g: tensor<?x?x2xf32>, %cu: tensor<?xi32>, %h0: tensor<?x2x64x48xf32>)
    -> tensor<?x?x2x48xbf16> {
  %o, %ht = ejk.recurrent reverse %q, %k, %v g(%g : tensor<?x?x2xf32>)
      initial_state(%h0 : tensor<?x2x64x48xf32>) cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x48xbf16>
      -> tensor<?x?x2x48xbf16>, tensor<?x2x64x48xf32>
  return %o : tensor<?x?x2x48xbf16>
}
func.func @constant(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>,
    %v: tensor<?x?x2x64xbf16>, %g_gamma: tensor<2xf32>)
    -> (tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g_gamma(%g_gamma : tensor<2xf32>)
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %o, %ht : tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
}
func.func @two(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>, %v: tensor<?x?x2x64xbf16>,
    %g: tensor<?x?x2xf32>) -> (tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x2xf32>)
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  %b, %hb = ejk.recurrent reverse %q, %k, %v g(%g : tensor<?x?x2xf32>)
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %o, %b : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
}
func.func @same(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>, %v: tensor<?x?x2x64xbf16>,
    %g: tensor<?x?x2xf32> {ejk.name = "saved0"})
    -> (tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16> {ejk.name = "saved2"}) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x2xf32>) {softmax_scale = 0.5 : f64}
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  %b, %hb = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x2xf32>) {softmax_scale = -0.25 : f64}
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
      -> tensor<?x?x2x64xbf16>, tensor<?x2x64x64xf32>
  return %o, %b : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>
}
func.func @keys(%q: tensor<?x?x2x64xbf16>, %k: tensor<?x?x2x64xbf16>, %v: tensor<?x?x2x48xbf16>,
    %gk: tensor<?x?x2x64xbf16>, %cu: tensor<?xi32>, %h0: tensor<?x2x64x48xf32>)
    -> (tensor<?x?x2x48xbf16>, tensor<?x2x64x48xf32>) {
  %o, %ht = ejk.recurrent reverse %q, %k, %v gk(%gk : tensor<?x?x2x64xbf16>)
      initial_state(%h0 : tensor<?x2x64x48xf32>) cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x2x64xbf16>, tensor<?x?x2x64xbf16>, tensor<?x?x2x48xbf16>
      -> tensor<?x?x2x48xbf16>, tensor<?x2x64x48xf32>
  return %o, %ht : tensor<?x?x2x48xbf16>, tensor<?x2x64x48xf32>
}
func.func @values(%q: tensor<?x?x1x64xf16>, %k: tensor<?x?x1x64xf16>, %v: tensor<?x?x1x64xf16>,
    %g: tensor<?x?x1xf32>, %gv: tensor<?x?x1x64xf32>) -> tensor<?x?x1x64xf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x1xf32>) gv(%gv : tensor<?x?x1x64xf32>)
      : tensor<?x?x1x64xf16>, tensor<?x?x1x64xf16>, tensor<?x?x1x64xf16>
      -> tensor<?x?x1x64xf16>, tensor<?x1x64x64xf32>
  return %o : tensor<?x?x1x64xf16>
}
