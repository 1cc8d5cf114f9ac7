// What is not a whole package is refused, with what is wrong with it.
// RUN: ejk-compile %s --cubin=never -o %t.ejk
// RUN: %python %S/Inputs/damage.py %t.ejk cut %t.cut.ejk
// RUN: not ejk-launch %t.cut.ejk --info 2>&1 | FileCheck %s --check-prefix=CUT
// RUN: %python %S/Inputs/damage.py %t.ejk flip %t.flip.ejk
// RUN: not ejk-launch %t.flip.ejk --info 2>&1 | FileCheck %s --check-prefix=FLIP
// RUN: %python %S/Inputs/damage.py %t.ejk magic %t.magic.ejk
// RUN: not ejk-launch %t.magic.ejk --info 2>&1 | FileCheck %s --check-prefix=MAGIC
// RUN: not ejk-launch %s --info 2>&1 | FileCheck %s --check-prefix=MAGIC
// RUN: not ejk-launch %t.absent.ejk --info 2>&1 | FileCheck %s --check-prefix=ABSENT

// CUT: ejk-launch: '{{.*}}cut.ejk': {{.*}}
// FLIP: ejk-launch: '{{.*}}flip.ejk': {{.*}}checksum
// MAGIC: not a usable ejk package
// ABSENT: absent.ejk'
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = math.exp %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
