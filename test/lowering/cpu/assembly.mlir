// What a pass over the rows is for each instruction set: full vectors, nothing spilled, and no calls,
// which an image could not make.
// RUN: ejk-compile %S/Inputs/gla128.mlir --target=cpu --cpu-arch=x86-64-v4 --emit=asm | FileCheck %s --check-prefix=V4
// RUN: ejk-compile %S/Inputs/gla128.mlir --target=cpu --cpu-arch=x86-64-v3 --emit=asm | FileCheck %s --check-prefix=V3
// RUN: ejk-compile %S/Inputs/gla128.mlir --target=cpu --cpu-arch=aarch64 --emit=asm | FileCheck %s --check-prefix=ARM
// RUN: ejk-compile %S/Inputs/gla128.mlir --target=cpu --cpu-arch=x86-64-v4 --emit=asm | FileCheck %s --check-prefix=CALLS
// RUN: ejk-compile %S/Inputs/gla128.mlir --target=cpu --cpu-arch=aarch64 --emit=asm | FileCheck %s --check-prefix=CALLS
// RUN: ejk-compile %examples/mamba2.mlir --target=cpu --cpu-arch=x86-64-v3 --vjp --emit=asm | FileCheck %s --check-prefix=CALLS
// RUN: ejk-compile %examples/gla.mlir --target=cpu --cpu-arch=x86-64-v3 --vjp --emit=asm | FileCheck %s --check-prefix=CALLS

// The pass over the rows, from its rows' load to its branch: 18 operations on two registers of
// columns, 9 operands, and the row.
// V4: vmovaps {{\(%r[a-z0-9]+\)}}, [[LOW:%zmm[0-9]+]]
// V4-NEXT: vmovaps 64(%r{{[a-z0-9]+}}), [[HIGH:%zmm[0-9]+]]
// V4-NOT: (%rsp)
// V4: vmulps %zmm{{[0-9]+}}, %zmm{{[0-9]+}}
// V4-NOT: (%rsp)
// V4: vmovaps %zmm{{[0-9]+}}, {{\(%r[a-z0-9]+\)}}
// V4-NOT: (%rsp)
// V4: vmovaps %zmm{{[0-9]+}}, 64(%r{{[a-z0-9]+}})
// V4: j{{n?e|b}} .LBB

// V3: vfmadd{{[0-9]+}}ps {{.*}}%ymm
// ARM: fmla v{{[0-9]+}}.4s

// CALLS-NOT: {{[[:space:]](callq?|bl)[[:space:]]}}
