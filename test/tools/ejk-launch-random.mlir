// Random indices into a pool are of different states, and negative where no state is left; the emulator faults at
// any other state's address. A function of fixed sizes takes no sizes.

// RUN: rm -rf %t && mkdir -p %t
// RUN: ejk-compile %examples/decode_pool.mlir --arch=sm_80 -o %t/pool.ejk
// RUN: grep -a -o '"role":"state_index",[^}]*"states":"P"' %t/pool.ejk
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-launch %t/pool.ejk --random=B=5,P=5,H=1,Hkv=1 --in-place --outputs=%t/all.safetensors
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-launch %t/pool.ejk --random=B=4,P=2,H=1,Hkv=1 --in-place
// RUN: env EJK_CUDA_DRIVER=%emulated-cuda ejk-launch %t/pool.ejk --random=B=2,P=0,H=1,Hkv=1 --in-place

// RUN: ejk-compile %s --target=cpu -o %t/fixed.ejk
// RUN: ejk-launch %t/fixed.ejk --device cpu --random= --bench | FileCheck %s
// CHECK: bytes

// An entry that a package has not is an error, also where nothing is run.
// RUN: not ejk-launch %t/fixed.ejk --entry=g --info 2>&1 | FileCheck %s --check-prefix=ENTRY
// ENTRY: the package has no entry 'g'

// No sequences begin where the one offset is.
// RUN: ejk-run %examples/packed.mlir --random T=0,H=4,Hkv=2,N=0 --check | FileCheck %s --check-prefix=NONE
// RUN: ejk-run %examples/packed.mlir --random T=10,H=4,Hkv=2,N=0 --check | FileCheck %s --check-prefix=NONE
// NONE: check {{.*}}: pass

// RUN: not ejk-run %examples/packed.mlir --random T=4,H=4,Hkv=2,N=1 --device=cuda --two-term-states=-3 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CHANNELS
// CHANNELS: --two-term-states is a number of channels, 0 or more
func.func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %y = arith.negf %x : tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}
