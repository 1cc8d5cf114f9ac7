// A scan becomes a kernel that takes the launch's arguments and a range of items, and the
// function a launch of it. An item is 32 columns with AVX-512; 128 columns are four items of a head.
// RUN: ejk-opt %s --ejk-specialize --ejk-to-cpu=target=x86-64-v4 | FileCheck %s
// RUN: ejk-opt %s --ejk-specialize --ejk-to-cpu=target=x86-64-v3 | FileCheck %s --check-prefix=AVX2
// RUN: not ejk-opt %s --ejk-specialize --ejk-to-cpu=target=pentium 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not ejk-compile %s --target=cpu --cpu-arch=x86-64-v3 --emit=ptx 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not ejk-compile %s --target=cpu --cpu-arch=z80 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: no CPU {{target|architecture}} is called
// UNKNOWN: `x86-64-v3`
// STAGE: a CPU's kernels have no such stage; they have --emit=gpu, for kernels and launches, --emit=llvm and --emit=asm

func.func @gla(%q: tensor<?x?x?x128xf32>, %k: tensor<?x?x?x128xf32>, %v: tensor<?x?x?x128xf32>,
               %g: tensor<?x?x?x128xf32>)
    -> (tensor<?x?x?x128xf32>, tensor<?x?x128x128xf32>) {
  %o, %ht = ejk.gla %q, %k, %v g(%g : tensor<?x?x?x128xf32>)
      : tensor<?x?x?x128xf32>, tensor<?x?x?x128xf32>, tensor<?x?x?x128xf32>
      -> tensor<?x?x?x128xf32>, tensor<?x?x128x128xf32>
  return %o, %ht : tensor<?x?x?x128xf32>, tensor<?x?x128x128xf32>
}

// CHECK: gpu.module @kernels
// CHECK: llvm.func @gla_scan0(%{{.*}}: !llvm.ptr, %[[FIRST:.*]]: i64, %[[END:.*]]: i64) attributes {gpu.kernel}
// CHECK: scf.while (%[[ITEM:.*]] = %[[FIRST]])
// CHECK: arith.cmpi slt, %[[ITEM]], %[[END]]
// Gates' exponentials are staged once for all columns; decays of four steps are one product.
// CHECK: math.exp %{{.*}} : vector<16xf32>
// A pass over the rows asks for the next chunk's rows, some lines for every 8 rows of the state.
// CHECK: scf.for {{.*}} = %c0_i64 to %c16_i64 {{.*}} -> (vector<32xf32>, vector<32xf32>, vector<32xf32>, vector<32xf32>)
// CHECK: llvm.intr.prefetch
// Four reads, one product by all decays and four outer products of a row, in one pass.
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<32xf32>, vector<32xf32>, vector<32xf32>, vector<32xf32>)
// CHECK: %[[ROW:.*]] = llvm.load %[[PLACE:.*]] {{.*}} -> vector<32xf32>
// CHECK-COUNT-4: math.fma %{{.*}}, %[[ROW]], %{{.*}} : vector<32xf32>
// CHECK: arith.mulf %[[ROW]], %{{.*}} : vector<32xf32>
// CHECK-COUNT-4: math.fma %{{.*}}, %{{.*}}, %{{.*}} : vector<32xf32>
// CHECK: llvm.store %{{.*}}, %[[PLACE]]
// CHECK: func.func @gla(
// CHECK: %[[FOUR:.*]] = arith.constant 4 : index
// CHECK: %[[GRID:.*]] = arith.muli %{{.*}}, %[[FOUR]] : index
// CHECK: gpu.launch_func @kernels::@gla_scan0 blocks in (%[[GRID]], %{{.*}}, %{{.*}}) threads in (%[[FOUR]],

// AVX2: scf.for {{.*}} iter_args({{.*}}) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
