// The code of a package, which is stored compressed, as other tools read it; of several architectures, each.
// RUN: rm -rf %t && mkdir %t
// RUN: ejk-compile %s --arch=sm_80,sm_90a --cubin=never -o %t/gpu.ejk
// RUN: ejk-compile %s --target=cpu --cpu-arch=x86-64-v3 -o %t/cpu.ejk
// RUN: ejk-launch %t/gpu.ejk --code=%t/made/code
// RUN: ejk-launch %t/cpu.ejk --code=%t/made/code --info | FileCheck %s --check-prefix=INFO
// RUN: ls %t/made/code | FileCheck %s --check-prefix=FILES
// RUN: FileCheck %s --check-prefix=PTX < %t/made/code/sm_80.ptx
// RUN: ejk-compile %s --arch=sm_80 --emit=ptx -o %t/expected.ptx
// RUN: cmp %t/expected.ptx %t/made/code/sm_80.ptx

// FILES:      sm_80.ptx
// FILES-NEXT: sm_90a.ptx
// FILES-NEXT: x86-64-v3.bin
// FILES-NOT:  {{.}}
// PTX: .target sm_80
// INFO: entry f

// The file is shorter than the PTX in it.
// RUN: %python -c 'import os, sys; p, c = sys.argv[1:]; assert 2 * os.path.getsize(p) < sum(map(os.path.getsize, (c + "/sm_80.ptx", c + "/sm_90a.ptx")))' %t/gpu.ejk %t/made/code

// A folder that is none, and no folder.
// RUN: touch %t/file
// RUN: not ejk-launch %t/gpu.ejk --code=%t/file 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: ejk-launch: cannot make '{{.*}}file'
// RUN: not ejk-launch %t/gpu.ejk --code= 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: --code needs a value
// RUN: not ejk-launch %t/gpu.ejk --code=%t/more --random=B=1,T=1,H=1,Hkv=1 2>&1 | FileCheck %s --check-prefix=RUNS
// RUN: not ejk-launch %t/gpu.ejk --code=%t/more --bench 2>&1 | FileCheck %s --check-prefix=RUNS
// RUNS: --code runs nothing
// RUN: not ejk-launch %t/cpu.ejk --device=cpu --arch=sm_80 --random=B=1,T=1,H=1,Hkv=1 2>&1 | FileCheck %s --check-prefix=CHOICE
// RUN: not ejk-launch %t/cpu.ejk --device=cpu --multiprocessors=8 --random=B=1,T=1,H=1,Hkv=1 2>&1 | FileCheck %s --check-prefix=CHOICE
// CHOICE: --arch and --multiprocessors are for --info
func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
      -> tensor<?x?x?x64xbf16>, tensor<?x?x64x64xf32>
  return %o : tensor<?x?x?x64xbf16>
}
