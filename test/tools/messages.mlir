// What a user sees of a mistake: the message, the user's own line and a caret. The op as
// the compiler has it comes with -v alone.
// RUN: not ejk-compile %s -o %t.ejk 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: not ejk-compile %s -o %t.ejk -v 2>&1 | FileCheck %s --check-prefix=VERBOSE
// RUN: not ejk-run %s --random d0=2 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: not ejk-run %s --random d0=2 --verbose 2>&1 | FileCheck %s --check-prefix=VERBOSE
// RUN: not ejk-opt %s 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: not ejk-opt %s --mlir-print-op-on-diagnostic 2>&1 | FileCheck %s --check-prefix=VERBOSE
// PLAIN: messages.mlir:[[#@LINE+8]]:{{[0-9]+}}: error: 'ejk.gla' op 'g' must be
// PLAIN-NEXT: %o, %ht = ejk.gla
// PLAIN-NEXT: ^
// PLAIN-NOT: see current operation
// PLAIN-NOT: "ejk.gla"(
// VERBOSE: error: 'ejk.gla' op 'g' must be
// VERBOSE: see current operation: {{.*}}"ejk.gla"(
func.func @f(%q: tensor<1x5x2x4xf32>, %g: tensor<1x5xf32>) -> tensor<1x5x2x4xf32> {
  %o, %ht = ejk.gla %q, %q, %q g(%g : tensor<1x5xf32>)
      : tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32> -> tensor<1x5x2x4xf32>, tensor<1x2x4x4xf32>
  return %o : tensor<1x5x2x4xf32>
}
