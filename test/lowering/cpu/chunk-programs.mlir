// The block program of a CPU has chunks of 32 rows, and sums its gates from a chunk's first row on: a matmul reads the
// carried state as it is, so what computes a state can also pack it.
// RUN: ejk-opt %s --ejk-specialize --ejk-make-alternatives='heads-only chunks schedule=chunk' \
// RUN:   --ejk-select-schedule='cpu schedule=auto' | FileCheck %s
// CHECK: tile.program chunk 32
// CHECK: scf.for {{.*}} iter_args(%[[STATE:[^ ]+]] =
// CHECK: %[[SUMS:.+]] = tile.cumsum %{{[^ ]+}} : vector<32x64xf32>
// CHECK: tile.range_guard 6.4{{.*}} of %[[SUMS]]
// CHECK: %[[READ:.+]] = arith.truncf %[[STATE]] : vector<64x64xf32> to vector<64x64xbf16>
// CHECK: tile.dot %{{[^ ]+}}, %[[READ]]

// The exponentials of queries, and next to them those of keys as reciprocals; both rows are rounded two registers at a time.
// RUN: ejk-compile %s --schedule=chunk --target=cpu --cpu-arch=x86-64-v4-bf16 --emit=gpu | FileCheck %s --check-prefix=KERNEL
// KERNEL-LABEL: llvm.func @keys_blocks0
// KERNEL: llvm.x86.avx512.mask.reduce.ps.512
// KERNEL: llvm.x86.avx512bf16.cvtne2ps2bf16.512
// KERNEL-NOT: scf.for
// KERNEL: llvm.x86.avx512.rcp14.ps.512
// A block of the new state: 16 pairs of rows, 4 at a time, then its rows in memory and as pairs.
// KERNEL-COUNT-64: llvm.x86.avx512bf16.dpbf16ps.512
// KERNEL: llvm.x86.avx512bf16.cvtne2ps2bf16.512
// KERNEL: vector.shuffle

func.func @keys(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>,
                %gk: tensor<?x?x?x64xf32>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x64xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
