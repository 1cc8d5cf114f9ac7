// RUN: not ejk-run %t.absent.mlir 2>&1 | FileCheck %s --check-prefix=NOFILE
// RUN: not ejk-run %s 2>&1 | FileCheck %s --check-prefix=ENTRIES
// RUN: not ejk-run %s --entry=third 2>&1 | FileCheck %s --check-prefix=NOENTRY
// RUN: not ejk-run %s --entry=gla 2>&1 | FileCheck %s --check-prefix=NOINPUT
// RUN: not ejk-run %s --entry=gla --random B=2,T 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: not ejk-run %s --entry=gla --random B=2,X=3 2>&1 | FileCheck %s --check-prefix=SYMBOL
// RUN: not ejk-run %s --entry=gla --random B=2 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not ejk-run %s --entry=gla --random B=2,T=4,H=4,Hkv=3 2>&1 | FileCheck %s --check-prefix=HEADS
// RUN: ejk-run %s --entry=identity --random d0=3,d1=4 --device=interpreter --outputs=%t.safetensors
// RUN: not ejk-run %s --entry=sum --inputs=%t.safetensors 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: ejk-run %s --entry=sum --inputs=%t.safetensors --random "" --device=interpreter --outputs=%t.sum.safetensors | FileCheck %s --check-prefix=DRAWN
// RUN: not ejk-run %s --entry=sum --inputs=%t.safetensors --random d0=5 2>&1 | FileCheck %s --check-prefix=CHOSEN
// RUN: not ejk-run %s --entry=narrow --inputs=%t.safetensors --random X=3 2>&1 | FileCheck %s --check-prefix=UNBOUND
// RUN: not ejk-run %s --entry=gla --inputs=%t.safetensors --random B=2,T=4,H=4 2>&1 | FileCheck %s --check-prefix=NAMES
// RUN: not ejk-run %s --entry=narrow --inputs=%t.safetensors 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not ejk-run %s --entry=static --inputs=%t.safetensors 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not ejk-run %s --entry=square --inputs=%t.safetensors 2>&1 | FileCheck %s --check-prefix=AGREE
// RUN: not ejk-run %s --entry=complex 2>&1 | FileCheck %s --check-prefix=COMPLEX
// RUN: not ejk-run %s --entry=unknown --random "" --device=interpreter 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: ejk-run %s --entry=identity --random d0=3,d1=4 --device=interpreter --outputs=%t.npy
// RUN: not ejk-run %s --entry=identity --inputs=x=%t.npy --device=interpreter --outputs=%t.npy 2>&1 | FileCheck %s --check-prefix=REPLACED
// RUN: not ejk-run %s --entry=identity --random d0=3,d1=4 --device=interpreter --outputs=%s 2>&1 | FileCheck %s --check-prefix=REPLACED
// RUN: not ejk-run %s --entry=identity --random d0=3,d1=4 --device=interpreter --outputs=/dev/full 2>&1 | FileCheck %s --check-prefix=FULL
// RUN: not ejk-run %s --entry=identity --random d0=3,d1=4 --device=cpu --arch=sm_90a 2>&1 | FileCheck %s --check-prefix=OFGPU
// RUN: not ejk-run %s --entry=identity --random d0=3,d1=4 --device=interpreter --cubin=never 2>&1 | FileCheck %s --check-prefix=OFGPU
// RUN: not ejk-run %s --entry=identity --random d0=3,d1=4 --device=interpreter --schedule=chunk 2>&1 | FileCheck %s --check-prefix=OFKERNELS
// RUN: not ejk-run %s --entry=identity --random d0=3,d1=4 --device=interpreter --fuse=false 2>&1 | FileCheck %s --check-prefix=OFKERNELS
// RUN: not ejk-run %s --entry=identity --random d0=3,d1=4 --device=cpu --precision=f64 2>&1 | FileCheck %s --check-prefix=OFINTERPRETER

// OFGPU: ejk-run: --arch and --cubin are of a GPU's kernels: give --device cuda
// OFKERNELS: ejk-run: --schedule and what else says how kernels compute are of kernels: give --device cuda or cpu
// OFINTERPRETER: ejk-run: --precision is of the interpreter: give --device interpreter
// NOFILE: ejk-run: cannot open input file
// ENTRIES: ejk-run: the file has several functions; choose with --entry: gla, identity,
// NOENTRY: ejk-run: the file has no function 'third'
// NOINPUT: ejk-run: input 'q' must be bf16 [B, T, H, 64], but is not given; use --inputs or --random
// SYNTAX: 'T' is not of the form SYMBOL=SIZE
// SYMBOL: the function has no size 'X'; it has: B, T, H, Hkv
// MISSING: --random also needs sizes for: T, H, Hkv
// HEADS: the key/value heads, Hkv, must divide the query heads, H, but they are 3 and 4
func.func @gla(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>)
    -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.gla %q, %k, %v
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
func.func @identity(%x: tensor<?x?xf32>) -> (tensor<?x?xf32> {ejk.name = "x"}) {
  return %x : tensor<?x?xf32>
}
// REPLACED: is also an input
// FULL: ejk-run: cannot write '/dev/full': No space left on device
// DRAWN: : f32 [3, 4]
// UNBOUND: the function has no size 'X'; it has: d0, d1
// NAMES: --inputs: the function has no input 'x'; it has: q, k, v
// CHOSEN: input 'x' must be f32 [d0, d1] with d0 = 5 as '--random' has it, but is f32 [3, 4]
// GIVEN: input 'y' must be f32 [d0, d1], but is not given; given are: x; the function takes: x, y
func.func @sum(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %s = arith.addf %x, %y : tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}
// TYPE: input 'x' must be f16 [d0, d1], but is f32 [3, 4]
func.func @narrow(%x: tensor<?x?xf16>) -> tensor<?x?xf16> {
  return %x : tensor<?x?xf16>
}
// SIZE: input 'x' must be f32 [d0, 5], but is f32 [3, 4]
func.func @static(%x: tensor<?x5xf32>) -> tensor<?x5xf32> {
  return %x : tensor<?x5xf32>
}
// AGREE: input 'x' must be f32 [d0, d0] with d0 = 3 as 'x' has it, but is f32 [3, 4]
func.func @square(%x: tensor<?x?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(i) -> (i, i)>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}
      ins(%x : tensor<?x?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<?xf32>
  return %d : tensor<?xf32>
}
// COMPLEX: argument 'x' is tensor<2xcomplex<f32>>, which no input file can hold
func.func @complex(%x: tensor<2xcomplex<f32>>) {
  return
}
// UNKNOWN: :[[#@LINE+2]]:8: error: the interpreter does not know 'tensor.bitcast' here
func.func @unknown(%x: tensor<2x3xf32>) -> tensor<2x3xi32> {
  %y = tensor.bitcast %x : tensor<2x3xf32> to tensor<2x3xi32>
  return %y : tensor<2x3xi32>
}
