// Chunks of bf16 rows on a CPU: matmuls by the instruction that multiplies pairs of bf16, with their sums in
// registers from what is before a matmul to what is after it.
// RUN: ejk-compile %s --schedule=chunk --target=cpu --cpu-arch=x86-64-v4-bf16 --emit=asm | FileCheck %s
// Sixteen sums, eight pairs a round; the loop takes nothing from the stack.
// CHECK-LABEL: gla_blocks0:
// CHECK-COUNT-64: vdpbf16ps
// CHECK: vcvtneps2bf16

// Which schedule is for which sizes and instructions.
// RUN: rm -rf %t && mkdir %t
// RUN: ejk-compile %s --schedule=chunk --target=cpu -o %t/chunk.ejk
// RUN: ejk-launch %t/chunk.ejk --info | FileCheck %s --check-prefix=INFO
// INFO-LABEL: entry gla
// INFO: schedule chunk for x86-64-v4-bf16, if T >= 64
// INFO: schedule step for x86-64-v4-bf16
// INFO: schedule step for x86-64-v4
// Packed sequences, whose lengths no launch knows, always go by chunks.
// INFO-LABEL: entry packed
// INFO: schedule chunk for x86-64-v4-bf16{{$}}
// INFO-LABEL: entry head
// Without the flag those do whose gates scale no rows of channels, so that outputs are within 3e-3. Derivatives do not.
// RUN: ejk-compile %s --target=cpu --vjp -o %t/auto.ejk
// RUN: ejk-launch %t/auto.ejk --info | FileCheck %s --check-prefix=AUTO
// AUTO-LABEL: entry gla{{$}}
// AUTO-NOT: schedule chunk
// AUTO-LABEL: entry packed{{$}}
// AUTO: schedule chunk for x86-64-v4-bf16
// AUTO-LABEL: entry packed_vjp
// AUTO-NOT: schedule chunk
// AUTO-LABEL: entry head{{$}}
// AUTO: schedule chunk for x86-64-v4-bf16, if T >= 64
// AUTO-LABEL: entry head_vjp
// AUTO-NOT: schedule chunk
// AUTO-LABEL: entry constant{{$}}
// A package that has none has no image for the instruction.
// RUN: ejk-compile %examples/gla.mlir --target=cpu -o %t/step.ejk
// RUN: ejk-launch %t/step.ejk --info | FileCheck %s --check-prefix=STEP
// STEP-NOT: x86-64-v4-bf16
// Other instruction sets have no such matmuls.
// RUN: ejk-compile %s --schedule=chunk --target=cpu --cpu-arch=x86-64-v4 --emit=gpu | FileCheck %s --check-prefix=OTHER
// OTHER-NOT: _blocks0

// By numbers, where this machine has the instruction: a last chunk of few rows, shared heads, a state that is
// given, gates of both axes; gates beyond what matmuls can take, which go row by row in their chunk.
// RUN: ejk-run %s --schedule=chunk --entry=gla --random B=2,T=137,H=4,Hkv=2 --device=cpu --check
// RUN: ejk-run %s --schedule=chunk --entry=head --random B=2,T=200,H=4,Hkv=4 --device=cpu --check
// RUN: ejk-run %s --schedule=chunk --entry=constant --random B=2,T=200,H=4,Hkv=4 --device=cpu --check
// RUN: ejk-run %s --schedule=chunk --entry=both --random B=1,T=129,H=2,Hkv=1 --device=cpu --check
// RUN: ejk-run %s --schedule=chunk --entry=backwards --random B=2,T=137,H=2,Hkv=2 --device=cpu --check
// RUN: ejk-run %s --schedule=chunk --entry=strong --random B=1,T=137,H=2,Hkv=2 --device=cpu --check
// Packed sequences: of no row, of few, of several chunks.
// RUN: ejk-run %s --schedule=chunk --entry=packed --random N=5,T=300,H=2,Hkv=1 --device=cpu --check --tolerance=3e-3
// RUN: ejk-run %s --entry=head --random B=2,T=200,H=4,Hkv=4 --device=cpu --check --tolerance=3e-3
// Bits do not depend on the number of threads.
// RUN: env EJK_NUM_THREADS=1 ejk-launch %t/chunk.ejk --entry=gla --random B=2,T=137,H=4,Hkv=2 --device=cpu --outputs=%t/one.safetensors
// RUN: env EJK_NUM_THREADS=2 ejk-launch %t/chunk.ejk --entry=gla --random B=2,T=137,H=4,Hkv=2 --device=cpu --expect=%t/one.safetensors --rtol=0

func.func @gla(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x128xbf16>,
               %gk: tensor<?x?x?x64xf32>, %h0: tensor<?x?x64x128xf32>)
    -> (tensor<?x?x?x128xbf16>, tensor<?x?x64x128xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x64xf32>)
      initial_state(%h0 : tensor<?x?x64x128xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x128xbf16>
      -> tensor<?x?x?x128xbf16>, tensor<?x?x64x128xf32>
  return %o, %ht : tensor<?x?x?x128xbf16>, tensor<?x?x64x128xf32>
}
func.func @packed(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                  %cu: tensor<?xi32>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
func.func @head(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x96xbf16>,
                %g: tensor<?x?x?xf32>) -> tensor<?x?x?x96xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x96xbf16>
      -> tensor<?x?x?x96xbf16>, tensor<?x?x64x96xf32>
  return %o : tensor<?x?x?x96xbf16>
}
func.func @constant(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                    %g: tensor<?xf32>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v g_gamma(%g : tensor<?xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
func.func @both(%q: tensor<?x?x?x32xbf16>, %k: tensor<?x?x?x32xbf16>, %v: tensor<?x?x?x64xbf16>,
                %gk: tensor<?x?x?x32xbf16>, %gv: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x32xbf16>) gv(%gv : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x32xbf16>, tensor<?x?x?x32xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x32x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
func.func @backwards(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                     %gk: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.recurrent reverse %q, %k, %v gk(%gk : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
func.func @strong(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                  %g: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xbf16> {
  %g2 = arith.addf %g, %g : tensor<?x?x?x64xf32>
  %g4 = arith.addf %g2, %g2 : tensor<?x?x?x64xf32>
  %g8 = arith.addf %g4, %g4 : tensor<?x?x?x64xf32>
  %g16 = arith.addf %g8, %g8 : tensor<?x?x?x64xf32>
  %squares = arith.mulf %g16, %g4 : tensor<?x?x?x64xf32>
  %strong = arith.negf %squares : tensor<?x?x?x64xf32>
  %o, %ht = ejk.recurrent %q, %k, %v gk(%strong : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
