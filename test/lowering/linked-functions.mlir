// Attributes say which function is which other's derivative; a name's end says nothing.
//
// RUN: ejk-compile %s --schedule=chunk --arch=sm_90a --cubin=never -o %t.ejk
// RUN: FileCheck %s --input-file=%t.ejk
// RUN: ejk-compile %s --schedule=chunk --arch=sm_90a --emit=tile 2>&1 | FileCheck %s --check-prefix=SAVED

// CHECK: "name":"f"
// CHECK-NOT: "vjp_of"
// CHECK: "name":"f_vjp"
// CHECK-NOT: "vjp_of"
// CHECK: "name":"gradient"
// CHECK: "vjp_of":"f"

// SAVED-NOT: _fwd
func.func @f(%q: tensor<?x?x2x16xbf16>, %k: tensor<?x?x2x16xbf16>, %v: tensor<?x?x2x16xbf16>)
    -> tensor<?x?x2x16xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v : tensor<?x?x2x16xbf16>, tensor<?x?x2x16xbf16>, tensor<?x?x2x16xbf16>
      -> tensor<?x?x2x16xbf16>, tensor<?x2x16x16xf32>
  return %o : tensor<?x?x2x16xbf16>
}

func.func @f_vjp(%q: tensor<?x?x2x16xbf16>, %k: tensor<?x?x2x16xbf16>, %v: tensor<?x?x2x16xbf16>)
    -> tensor<?x?x2x16xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v : tensor<?x?x2x16xbf16>, tensor<?x?x2x16xbf16>, tensor<?x?x2x16xbf16>
      -> tensor<?x?x2x16xbf16>, tensor<?x2x16x16xf32>
  return %o : tensor<?x?x2x16xbf16>
}

func.func @gradient(%q: tensor<?x?x2x16xbf16>, %k: tensor<?x?x2x16xbf16>, %v: tensor<?x?x2x16xbf16>)
    -> tensor<?x?x2x16xbf16> attributes {ejk.derivative_of = "f"} {
  %o, %ht = ejk.recurrent %v, %k, %q : tensor<?x?x2x16xbf16>, tensor<?x?x2x16xbf16>, tensor<?x?x2x16xbf16>
      -> tensor<?x?x2x16xbf16>, tensor<?x2x16x16xf32>
  return %o : tensor<?x?x2x16xbf16>
}
