// On a GPU where there is one, else in the interpreter. On a GPU ejk-run also looks
// behind every buffer and the workspace for what does not belong there.
// RUN: ejk-compile %s -o %t.ejk --vjp --schedule=step --arch=sm_90
// RUN: ejk-launch %t.ejk --info > %t.info

// Trap 1: the rank of g decides. With channels it is gk, to the last bit.
// RUN: ejk-run %s --entry=g_per_head --random B=2,T=40,H=2 --check
// RUN: ejk-run %s --entry=g_per_channel --random B=2,T=40,H=2 --check --outputs=%t.g.safetensors
// RUN: ejk-run %s --entry=gk --random B=2,T=40,H=2 --check --outputs=%t.gk.safetensors
// RUN: cmp %t.g.safetensors %t.gk.safetensors
// RUN: ejk-run %s --entry=g_per_head --random B=2,T=3,H=2 --vjp --check
// RUN: ejk-run %s --entry=g_per_channel --random B=2,T=3,H=2 --vjp --check
// RUN: FileCheck %s --check-prefix=RANK < %t.info
// RANK-LABEL: entry g_per_head
// RANK:       input g: f32 [B, T, H],
// RANK-LABEL: entry g_per_channel
// RANK:       input g: f32 [B, T, H, 48],

// Trap 3: without a gate, or with γ alone, a final state that nobody asks for has no
// buffer; one that γ's gradient needs has its whole size.
// RUN: ejk-run %s --entry=no_gate --random B=2,T=3,H=2 --vjp --check
// RUN: ejk-run %s --entry=gamma --random B=2,T=3,H=2 --vjp --check
// RUN: FileCheck %s --check-prefix=STATE < %t.info
// STATE-LABEL: entry no_gate_vjp
// STATE-NOT:   48, 60]
// STATE-NOT:   48) * 60
// STATE-LABEL: entry gamma{{$}}
// STATE-LABEL: entry gamma_vjp
// STATE:       input dht: f32 [B, H, 48, 60]
// STATE:       workspace {{.*}} * H) * 48) * 60 bytes

// Trap 8: channels that no block size divides, and one package for every T: its
// kernels take T as an argument, and one of them is there for T = 1.
// RUN: ejk-run %s --entry=no_gate --random B=2,T=1,H=2 --check
// RUN: ejk-run %s --entry=no_gate --random B=2,T=2,H=2 --check
// RUN: ejk-run %s --entry=no_gate --random B=2,T=67,H=2 --check --vjp
// RUN: FileCheck %s --check-prefix=ANY < %t.info
// ANY-LABEL: entry no_gate{{$}}
// ANY:       input q: bf16 [B, T, H, 48],
// ANY:       kernel no_gate_scan0_one: {{.*}}, T, H, Hkv{{[a-z_., ]*}})
// ANY-NEXT:  kernel no_gate_scan0: {{.*}}, T, H, Hkv{{[a-z_., ]*}})
// ANY-NEXT:  entry

// Trap 11: what is compiled follows from the function and the target alone, and
// nothing is chosen by its time: the same bytes each time, and the same bits.
// RUN: ejk-compile %s -o %t.again.ejk --vjp --schedule=step --arch=sm_90
// RUN: cmp %t.ejk %t.again.ejk
// RUN: ejk-run %s --entry=gamma --random B=2,T=67,H=2 --vjp --outputs=%t.first.safetensors
// RUN: ejk-run %s --entry=gamma --random B=2,T=67,H=2 --vjp --outputs=%t.second.safetensors
// RUN: cmp %t.first.safetensors %t.second.safetensors

func.func @g_per_head(%q: tensor<?x?x?x48xf32>, %k: tensor<?x?x?x48xf32>, %v: tensor<?x?x?x60xf32>,
                      %g: tensor<?x?x?xf32>) -> tensor<?x?x?x60xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      : tensor<?x?x?x48xf32>, tensor<?x?x?x48xf32>, tensor<?x?x?x60xf32>
      -> tensor<?x?x?x60xf32>, tensor<?x?x48x60xf32>
  return %o : tensor<?x?x?x60xf32>
}

func.func @g_per_channel(%q: tensor<?x?x?x48xf32>, %k: tensor<?x?x?x48xf32>,
                         %v: tensor<?x?x?x60xf32>, %g: tensor<?x?x?x48xf32>) -> tensor<?x?x?x60xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?x48xf32>)
      : tensor<?x?x?x48xf32>, tensor<?x?x?x48xf32>, tensor<?x?x?x60xf32>
      -> tensor<?x?x?x60xf32>, tensor<?x?x48x60xf32>
  return %o : tensor<?x?x?x60xf32>
}

func.func @gk(%q: tensor<?x?x?x48xf32>, %k: tensor<?x?x?x48xf32>, %v: tensor<?x?x?x60xf32>,
              %gk: tensor<?x?x?x48xf32>) -> tensor<?x?x?x60xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v gk(%gk : tensor<?x?x?x48xf32>)
      : tensor<?x?x?x48xf32>, tensor<?x?x?x48xf32>, tensor<?x?x?x60xf32>
      -> tensor<?x?x?x60xf32>, tensor<?x?x48x60xf32>
  return %o : tensor<?x?x?x60xf32>
}

func.func @no_gate(%q: tensor<?x?x?x48xbf16>, %k: tensor<?x?x?x48xbf16>, %v: tensor<?x?x?x60xbf16>)
    -> tensor<?x?x?x60xbf16> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x?x?x48xbf16>, tensor<?x?x?x48xbf16>, tensor<?x?x?x60xbf16>
      -> tensor<?x?x?x60xbf16>, tensor<?x?x48x60xf32>
  return %o : tensor<?x?x?x60xbf16>
}

func.func @gamma(%q: tensor<?x?x?x48xf32>, %k: tensor<?x?x?x48xf32>, %v: tensor<?x?x?x60xf32>,
                 %gamma: tensor<?xf32>) -> (tensor<?x?x?x60xf32>, tensor<?x?x48x60xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v g_gamma(%gamma : tensor<?xf32>)
      : tensor<?x?x?x48xf32>, tensor<?x?x?x48xf32>, tensor<?x?x?x60xf32>
      -> tensor<?x?x?x60xf32>, tensor<?x?x48x60xf32>
  return %o, %ht : tensor<?x?x?x60xf32>, tensor<?x?x48x60xf32>
}
