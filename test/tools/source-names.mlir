// An argument is called as in the source.
// RUN: ejk-run %s --entry=make --random "" --device=interpreter --outputs=%t.names.safetensors
// RUN: ejk-run %s --entry=attention --inputs=%t.names.safetensors --device=interpreter --check \
// RUN:   | FileCheck %s --check-prefix=NAMES
// RUN: ejk-run %s --entry=own_step --inputs=%t.names.safetensors --device=interpreter --check \
// RUN:   | FileCheck %s --check-prefix=STEP
// NAMES: input query: f32 [1, 5, 2, 4]
// NAMES-NEXT: input key: f32
// NAMES-NEXT: input value: f32
// NAMES-NEXT: input forget: f32 [1, 5, 2]
// NAMES: check o: pass
// STEP: input query: f32
// STEP-NEXT: input forget: f32
// STEP: check out0: pass

// The letter of the operand that it feeds finds it, too, where that is one argument's.
// RUN: ejk-run %s --entry=make_letters --random "" --device=interpreter --outputs=%t.letters.safetensors
// RUN: ejk-run %s --entry=attention --inputs=%t.letters.safetensors --device=interpreter --check \
// RUN:   | FileCheck %s --check-prefix=NAMES
// RUN: not ejk-run %s --entry=swapped --inputs=%t.letters.safetensors 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SWAPPED
// SWAPPED: input 'g' must be f32 [1, 5, 2, 4], but is f32 [1, 5, 2]

// So do gradients and the arguments to differentiate by.
// RUN: ejk-run %s --entry=attention --inputs=%t.letters.safetensors --device=interpreter --vjp \
// RUN:   --wrt=query,g --check | FileCheck %s --check-prefix=WRT
// RUN: not ejk-run %s --entry=attention --inputs=%t.letters.safetensors --vjp --wrt=gk 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN
// WRT: input forget: f32 [1, 5, 2]
// WRT-NEXT: input do: f32
// WRT: {{^}}dquery: f32
// WRT-NEXT: {{^}}dforget: f32 [1, 5, 2]
// WRT: check dquery: pass
// WRT-NEXT: check dforget: pass
// UNKNOWN: error: 'wrt' names 'gk', but no argument is called that; there are: query, key, value, forget

// A package has the names, and which inputs are gates whatever their names.
// RUN: ejk-compile %s --cubin=never -o %t.ejk
// RUN: ejk-launch %t.ejk --info | FileCheck %s --check-prefix=INFO
// INFO-LABEL: entry attention
// INFO-NEXT: input query: f32
// INFO-NEXT: input key: f32
// INFO-NEXT: input value: f32
// INFO-NEXT: input forget: {{.*}}, log_decay
// INFO-LABEL: entry odd
// INFO-NEXT: input q: f32
// INFO-NEXT: input k: f32
// INFO-NEXT: input v: f32
// INFO-NEXT: input named: f32
// INFO-LABEL: entry own_step
// INFO-NEXT: input query: f32
// INFO-NEXT: input forget: {{.*}}, log_decay

// Bytecode has no names: what feeds a recurrence has its letter.
// RUN: ejk-opt %s --emit-bytecode -o %t.bc
// RUN: ejk-run %t.bc --entry=attention --inputs=%t.letters.safetensors --device=interpreter \
// RUN:   | FileCheck %s --check-prefix=BYTECODE
// BYTECODE: input q: f32 [1, 5, 2, 4]

!rows = tensor<1x5x2x4xf32>
func.func @attention(%query: !rows, %key: !rows, %value: !rows, %forget: tensor<1x5x2xf32>) -> !rows {
  %o, %ht = ejk.gla %query, %key, %value g(%forget : tensor<1x5x2xf32>)
      : !rows, !rows, !rows -> !rows, tensor<1x2x4x4xf32>
  return %o : !rows
}

// No identifiers, and what a printer makes up, are no names; 'ejk.name' comes first.
func.func @odd(%q.1: !rows, %arg1: !rows, %2: !rows, %name: tensor<1x5x2xf32> {ejk.name = "named"}) -> !rows {
  %o, %ht = ejk.gla %q.1, %arg1, %2 g(%name : tensor<1x5x2xf32>)
      : !rows, !rows, !rows -> !rows, tensor<1x2x4x4xf32>
  return %o : !rows
}

func.func @own_step(%query: !rows, %forget: tensor<1x5x2xf32>) -> !rows {
  %o, %ht = ejk.scan sequences(%qt = %query : !rows, %gt = %forget : tensor<1x5x2xf32>)
      states(%S = zero : tensor<1x2x4x4xf32>) -> (!rows) {
    %S1 = ejk.decay %S by %gt along head : vector<4x4xf32>, f32
    %S2 = ejk.outer_add %S1, %qt, %qt : vector<4x4xf32>, vector<4xf32>, vector<4xf32>
    %ot = ejk.read %S2, %qt along key : vector<4x4xf32>, vector<4xf32>
    ejk.yield states(%S2 : vector<4x4xf32>) outputs(%ot : vector<4xf32>)
  }
  return %o : !rows
}

// A name is stronger than another argument's letter.
func.func private @swapped(%query: !rows, %g: !rows, %value: !rows, %k: tensor<1x5x2xf32>) -> !rows {
  %o, %ht = ejk.gla %query, %g, %value g(%k : tensor<1x5x2xf32>)
      : !rows, !rows, !rows -> !rows, tensor<1x2x4x4xf32>
  return %o : !rows
}

func.func private @make(%a: !rows, %b: !rows, %c: !rows, %d: tensor<1x5x2xf32>)
    -> (!rows {ejk.name = "query"}, !rows {ejk.name = "key"}, !rows {ejk.name = "value"},
        tensor<1x5x2xf32> {ejk.name = "forget"}) {
  return %a, %b, %c, %d : !rows, !rows, !rows, tensor<1x5x2xf32>
}
func.func private @make_letters(%a: !rows, %b: !rows, %c: !rows, %d: tensor<1x5x2xf32>)
    -> (!rows {ejk.name = "q"}, !rows {ejk.name = "k"}, !rows {ejk.name = "v"},
        tensor<1x5x2xf32> {ejk.name = "g"}) {
  return %a, %b, %c, %d : !rows, !rows, !rows, tensor<1x5x2xf32>
}
