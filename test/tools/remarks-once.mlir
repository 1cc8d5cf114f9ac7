// Who asks for no schedule is told once why there are no chunks; who asks for chunks, of each scan.
// RUN: ejk-compile %s --vjp --cubin=never -o %t.ejk 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: ejk-compile %s --vjp --cubin=never --schedule=chunk -o %t.ejk 2>&1 | FileCheck %s --check-prefix=ALL

// CHECK: remark: not chunked: its keys, values or read vectors come from 'k', which is f32
// CHECK: remark: not chunked: its keys, values or read vectors come from 'k', which is f32
// ALL-COUNT-3: remark: not chunked:
func.func @first(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x16xf32>)
    -> tensor<?x?x?x16xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>
      -> tensor<?x?x?x16xf32>, tensor<?x?x16x16xf32>
  return %o : tensor<?x?x?x16xf32>
}

func.func @second(%q: tensor<?x?x?x16xf32>, %k: tensor<?x?x?x16xf32>, %v: tensor<?x?x?x16xf32>)
    -> tensor<?x?x?x16xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v {reverse}
      : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>
      -> tensor<?x?x?x16xf32>, tensor<?x?x16x16xf32>
  return %o : tensor<?x?x?x16xf32>
}
