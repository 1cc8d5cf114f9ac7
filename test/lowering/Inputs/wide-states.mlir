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

// A gate that grows with the row's number in its sequence.
func.func @numbered(%q: tensor<?x?x?x256xbf16>, %k: tensor<?x?x?x256xbf16>, %v: tensor<?x?x?x256xbf16>,
                    %x: tensor<?x?x?x256xf32>) -> tensor<?x?x?x256xbf16> {
  %o, %ht = ejk.scan
      sequences(%qt = %q : tensor<?x?x?x256xbf16>, %kt = %k : tensor<?x?x?x256xbf16>,
                %vt = %v : tensor<?x?x?x256xbf16>, %xt = %x : tensor<?x?x?x256xf32>)
      states(%S = zero : tensor<?x?x256x256xf32>) -> (tensor<?x?x?x256xbf16>) {
    %query = arith.extf %qt : vector<256xbf16> to vector<256xf32>
    %key = arith.extf %kt : vector<256xbf16> to vector<256xf32>
    %value = arith.extf %vt : vector<256xbf16> to vector<256xf32>
    %place = ejk.step_index : index
    %integer = arith.index_cast %place : index to i32
    %number = arith.sitofp %integer : i32 to f32
    %rate = arith.constant -0.001 : f32
    %scale = arith.mulf %number, %rate : f32
    %scales = vector.broadcast %scale : f32 to vector<256xf32>
    %size = math.absf %xt : vector<256xf32>
    %gate = arith.mulf %size, %scales : vector<256xf32>
    %decayed = ejk.decay %S by %gate along key : vector<256x256xf32>, vector<256xf32>
    %next = ejk.outer_add %decayed, %key, %value : vector<256x256xf32>, vector<256xf32>, vector<256xf32>
    %read = ejk.read %next, %query along key : vector<256x256xf32>, vector<256xf32>
    %row = arith.truncf %read : vector<256xf32> to vector<256xbf16>
    ejk.yield states(%next : vector<256x256xf32>) outputs(%row : vector<256xbf16>)
  }
  return %o : tensor<?x?x?x256xbf16>
}
