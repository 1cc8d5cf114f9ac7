// States of more than one thread block.
func.func @key_gate(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>, %v: tensor<?x?x?x512xbf16>,
                    %gk: tensor<?x?x?x256xf32>) -> tensor<?x?x?x512xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x256xf32>)
      : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x512xbf16>
      -> tensor<?x?x?x512xbf16>, tensor<?x?x256x512xf32>
  return %o : tensor<?x?x?x512xbf16>
}

func.func @backwards(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>, %v: tensor<?x?x?x256xbf16>,
                     %gk: tensor<?x?x?x256xbf16>, %h0: tensor<?x?x256x256xf32>)
    -> (tensor<?x?x?x256xbf16>, tensor<?x?x256x256xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x256xbf16>) initial_state(%h0 : tensor<?x?x256x256xf32>) {reverse}
      : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>
      -> tensor<?x?x?x256xbf16>, tensor<?x?x256x256xf32>
  return %o, %ht : tensor<?x?x?x256xbf16>, tensor<?x?x256x256xf32>
}

func.func @packed(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>, %v: tensor<?x?x?x256xbf16>,
                  %gk: tensor<?x?x?x256xbf16>, %cu: tensor<?xi32>) -> tensor<?x?x?x256xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x256xbf16>) cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>
      -> tensor<?x?x?x256xbf16>, tensor<?x?x256x256xf32>
  return %o : tensor<?x?x?x256xbf16>
}

func.func @both_gates(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>, %v: tensor<?x?x?x512xbf16>,
                      %gk: tensor<?x?x?x256xbf16>, %gv: tensor<?x?x?x512xbf16>) -> tensor<?x?x?x512xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x256xbf16>) gv(%gv : tensor<?x?x?x512xbf16>)
      : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x512xbf16>
      -> tensor<?x?x?x512xbf16>, tensor<?x?x256x512xf32>
  return %o : tensor<?x?x?x512xbf16>
}

func.func @head_gate(%q: tensor<?x?x?x512xbf16>, %k: tensor<?x?x?x512xbf16>, %v: tensor<?x?x?x512xbf16>,
                     %g: tensor<?x?x?xf32>) -> tensor<?x?x?x512xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x512xbf16>, tensor<?x?x?x512xbf16>, tensor<?x?x?x512xbf16>
      -> tensor<?x?x?x512xbf16>, tensor<?x?x512x512xf32>
  return %o : tensor<?x?x?x512xbf16>
}

func.func @corrected(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>, %v: tensor<?x?x?x256xbf16>,
                     %beta: tensor<?x?x?xf32>, %gk: tensor<?x?x?x256xbf16>) -> tensor<?x?x?x256xbf16> {
  %o, %ht = ejk.delta_rule %q, %k, %v beta(%beta : tensor<?x?x?xf32>) gk(%gk : tensor<?x?x?x256xbf16>)
      : tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>, tensor<?x?x?x256xbf16>
      -> tensor<?x?x?x256xbf16>, tensor<?x?x256x256xf32>
  return %o : tensor<?x?x?x256xbf16>
}
