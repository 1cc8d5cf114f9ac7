// RUN: ejk-run %s --entry=packed --random T=40,H=4,Hkv=2,N=5 --device=interpreter --check \
// RUN:   --outputs=%t.safetensors | FileCheck %s --check-prefix=PACKED
// RUN: ejk-run %s --entry=again --inputs=%t.safetensors --device=interpreter --check \
// RUN:   | FileCheck %s --check-prefix=AGAIN
// RUN: ejk-run %s --entry=packed --random "T=40, H=4, N=5" --device=interpreter --precision=f64 \
// RUN:   --check --tolerance=6e-8 | FileCheck %s --check-prefix=EXACT
// RUN: not ejk-run %s --entry=packed --random T=40,H=4,N=5 --device=interpreter \
// RUN:   --check --tolerance=0 | FileCheck %s --check-prefix=TIGHT

// Sizes follow from the symbols: B is 1 for packed sequences, there are N+1
// offsets, and only key and value have Hkv heads.
// PACKED: input q: f32 [1, 40, 4, 6]
// PACKED-NEXT: input k: f32 [1, 40, 2, 6]
// PACKED-NEXT: input v: f32 [1, 40, 2, 5]
// PACKED-NEXT: input g: f32 [1, 40, 4]
// PACKED-NEXT: input h0: f32 [5, 4, 6, 5]
// PACKED-NEXT: input cu: i32 [6]
// PACKED: o: f32 [1, 40, 4, 5]
// PACKED: final: f32 [5, 4, 6, 5]
// PACKED: check o: pass{{.*}}(tolerance 1e-05)
// PACKED: check final: pass

// Key/value heads are as many as query heads unless said otherwise. In f64 the
// run is the reference itself, but for results that are rounded to f32 once: by
// 2^-24 at most. A tolerance that no f32 can meet fails, and so does the run.
// EXACT: input k: f32 [1, 40, 4, 6]
// EXACT: check o: pass
// TIGHT: check o: FAIL
func.func @packed(%q: tensor<?x?x?x6xf32>, %k: tensor<?x?x?x6xf32>, %v: tensor<?x?x?x5xf32>,
                  %g: tensor<?x?x?xf32>, %h0: tensor<?x?x6x5xf32>, %cu: tensor<?xi32>)
    -> (tensor<?x?x?x5xf32>, tensor<?x?x6x5xf32> {ejk.name = "final"}) {
  %o, %ht = ejk.recurrent %q, %k, %v g(%g : tensor<?x?x?xf32>)
      initial_state(%h0 : tensor<?x?x6x5xf32>) cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x?x6xf32>, tensor<?x?x?x6xf32>, tensor<?x?x?x5xf32>
      -> tensor<?x?x?x5xf32>, tensor<?x?x6x5xf32>
  return %o, %ht : tensor<?x?x?x5xf32>, tensor<?x?x6x5xf32>
}

// What one run wrote the next reads, by name; what it does not name is left.
// AGAIN: input o: f32 [1, 40, 4, 5]
// AGAIN-NOT: input
// AGAIN: out0: f32 [1, 40, 4, 5]
// AGAIN: check out0: pass
func.func @again(%x: tensor<?x?x?x5xf32> {ejk.name = "o"}) -> tensor<?x?x?x5xf32> {
  %e = math.tanh %x : tensor<?x?x?x5xf32>
  return %e : tensor<?x?x?x5xf32>
}
