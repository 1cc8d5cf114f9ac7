// RUN: ejk-opt %s --split-input-file --ejk-specialize --ejk-to-gpu | FileCheck %s

// A function becomes its launches: inputs, then results, as buffers that carry
// the interface's names and sizes. T decides at the launch which kernel is
// launched, the one for a single step or the one for any number.
// CHECK-LABEL: gpu.module @kernels
// CHECK: gpu.func @decode_scan0_one(
// CHECK-SAME: !llvm.ptr<1> {llvm.noalias, llvm.readonly}
// CHECK-SAME: kernel attributes {known_block_size = array<i32: 64, 1, 1>, nvvm.maxnreg = 168 : i32}
// CHECK: gpu.func @decode_scan0(
// CHECK-SAME: kernel attributes {known_block_size = array<i32: 64, 1, 1>, nvvm.maxnreg = 168 : i32}
// CHECK-LABEL: func.func @decode(
// CHECK-SAME: ejk.name = "q", ejk.operand = "q", ejk.row_stride, ejk.shape = ["B", "T", "H", "64"]
// CHECK-SAME: ejk.name = "k", ejk.operand = "k", ejk.row_stride, ejk.shape = ["B", "T", "Hkv", "64"]
// CHECK-SAME: ejk.name = "v", ejk.operand = "v", ejk.row_stride, ejk.shape = ["B", "T", "Hkv", "32"]
// CHECK-SAME: ejk.name = "h0", ejk.operand = "h0", ejk.shape = ["B", "H", "64", "32"]
// CHECK-SAME: memref<?x?x?x32xbf16>
// CHECK-SAME: memref<?x?x64x32xf32> {ejk.may_alias = 3 : i64
// CHECK-SAME: ejk.constraints = [{divisor = "Hkv"
// CHECK-SAME: ejk.num_inputs = 4 : i64
// CHECK-DAG: %[[B:.*]] = memref.dim %[[Q:.*]], %c0
// CHECK-DAG: %[[T:.*]] = memref.dim %[[Q]], %c1
// CHECK-DAG: %[[H:.*]] = memref.dim %[[Q]], %c2
// CHECK: %[[ONE:.*]] = arith.cmpi eq, %[[T]], %c1
// CHECK: %[[HEADS:.*]] = arith.muli %[[H]], %[[B]]
// CHECK: scf.if %[[ONE]] {
// CHECK-NEXT: gpu.launch_func @kernels::@decode_scan0_one blocks in (%[[HEADS]], %c1, %c1) threads in (%c64
// CHECK: %[[MORE:.*]] = arith.cmpi ne, %[[T]], %c1
// CHECK: scf.if %[[MORE]] {
// CHECK-NEXT: gpu.launch_func @kernels::@decode_scan0 blocks in (%[[HEADS]], %c1, %c1) threads in (%c64
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @decode(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %v: tensor<?x?x?x32xbf16>,
                  %h0: tensor<?x?x64x32xf32>) -> (tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v initial_state(%h0 : tensor<?x?x64x32xf32>)
      : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x32xbf16>
      -> tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
  return %o, %ht : tensor<?x?x?x32xbf16>, tensor<?x?x64x32xf32>
}

// -----

// A T that is known takes one kernel, and no condition.
// CHECK-LABEL: gpu.func @one_step_scan0_one(
// CHECK-NOT: gpu.func
// CHECK-LABEL: func.func @one_step(
// CHECK-NOT: scf.if
// CHECK: gpu.launch_func @kernels::@one_step_scan0_one
// CHECK-NOT: gpu.launch_func
func.func @one_step(%q: tensor<?x1x?x8xf32>, %k: tensor<?x1x?x8xf32>, %v: tensor<?x1x?x8xf32>)
    -> tensor<?x1x?x8xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>
      -> tensor<?x1x?x8xf32>, tensor<?x?x8x8xf32>
  return %o : tensor<?x1x?x8xf32>
}

// -----

// Packed sequences may have any length. There are N of them, so many as there
// are offsets less one, and the final state that nobody asks for is not written.
// CHECK-LABEL: gpu.func @packed_scan0(
// CHECK-SAME: %{{[^ ]*}}: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %{{[^ ]*}}: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %{{[^ ]*}}: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %{{[^ ]*}}: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %{{[^ ]*}}: !llvm.ptr<1>, %{{[^ ]*}}: i64
// CHECK-NOT: gpu.func
// CHECK-LABEL: func.func @packed(
// CHECK-SAME: ejk.name = "cu_seqlens", ejk.operand = "cu_seqlens", ejk.shape = ["N+1"], ejk.total = "T"
// CHECK-SAME: size = "B"
// CHECK-DAG: %[[ENTRIES:.*]] = memref.dim %arg3, %c0
// CHECK-DAG: %[[N:.*]] = arith.subi %{{.*}}, %c1
// CHECK: gpu.launch_func @kernels::@packed_scan0
// CHECK-NOT: gpu.launch_func
func.func @packed(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x8xf32>,
                  %cu: tensor<?xi32>) -> tensor<?x?x?x8xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v cu_seqlens(%cu : tensor<?xi32>)
      : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
      -> tensor<?x?x?x8xf32>, tensor<?x?x8x8xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Two recurrences in a row, and arithmetic between: what one kernel makes for
// the next lies in workspace of the sizes that the arguments give.
// CHECK-LABEL: func.func @layers(
// CHECK-DAG: %[[B:.*]] = memref.dim %arg0, %c0
// CHECK-DAG: %[[T:.*]] = memref.dim %arg0, %c1
// CHECK-DAG: %[[H:.*]] = memref.dim %arg0, %c2
// CHECK: memref.alloc(%[[B]], %[[T]], %[[H]]) : memref<?x?x?x8xf32>
// CHECK: gpu.launch_func @kernels::@layers_scan0
// CHECK: memref.alloc(%[[B]], %[[T]], %[[H]]) : memref<?x?x?x8xf32>
// CHECK: gpu.launch_func @kernels::@layers_map0
// CHECK: gpu.launch_func @kernels::@layers_scan1
// CHECK-NEXT: return
func.func @layers(%q: tensor<?x?x?x8xf32>, %k: tensor<?x?x?x8xf32>, %v: tensor<?x?x?x8xf32>,
                  %cu: tensor<?xi64>) -> tensor<?x?x?x8xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v cu_seqlens(%cu : tensor<?xi64>)
      : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
      -> tensor<?x?x?x8xf32>, tensor<?x?x8x8xf32>
  %r = arith.addf %o, %q : tensor<?x?x?x8xf32>
  %o2, %ht2 = ejk.recurrent reverse %q, %k, %r cu_seqlens(%cu : tensor<?xi64>)
      : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>
      -> tensor<?x?x?x8xf32>, tensor<?x?x8x8xf32>
  return %o2 : tensor<?x?x?x8xf32>
}

// -----

// A vector state is read by every thread that needs it and written by one, so
// its final value may not take its initial value's place.
// CHECK-LABEL: func.func @normalizer(
// CHECK-NOT: may_alias
// CHECK: gpu.launch_func
func.func @normalizer(%k: tensor<?x?x?x60xf32>, %z0: tensor<?x?x60xf32>) -> tensor<?x?x60xf32> {
  %z = ejk.scan sequences(%kt = %k : tensor<?x?x?x60xf32>) states(%Z = %z0 : tensor<?x?x60xf32>) {
    %Z1 = arith.addf %Z, %kt : vector<60xf32>
    ejk.yield states(%Z1 : vector<60xf32>)
  }
  return %z : tensor<?x?x60xf32>
}

// -----

// Rows are 60 of 64: what an op of the user's makes beyond them (here 0 / 0)
// is cleared before a sum over rows meets it.
// CHECK-LABEL: gpu.func @normalized_scan0(
// CHECK: %[[RATIO:.*]] = arith.divf
// CHECK: %[[VALID:.*]] = arith.cmpi slt, %{{.*}}, %c60_i32
// CHECK: arith.select %[[VALID]], %{{.*}}, %cst
func.func @normalized(%q: tensor<?x2x?x60xf32>, %k: tensor<?x2x?x60xf32>, %v: tensor<?x2x?x8xf32>)
    -> tensor<?x2x?x8xf32> {
  %o, %S, %Z = ejk.scan
      sequences(%qt = %q : tensor<?x2x?x60xf32>, %kt = %k : tensor<?x2x?x60xf32>,
                %vt = %v : tensor<?x2x?x8xf32>)
      states(%S = zero : tensor<?x?x60x8xf32>, %Z = zero : tensor<?x?x60xf32>)
      -> (tensor<?x2x?x8xf32>) {
    %S1 = ejk.outer_add %S, %kt, %vt : vector<60x8xf32>, vector<60xf32>, vector<8xf32>
    %Z1 = arith.addf %Z, %kt : vector<60xf32>
    %r = arith.divf %qt, %Z1 : vector<60xf32>
    %ot = ejk.read %S1, %r along key : vector<60x8xf32>, vector<60xf32>
    ejk.yield states(%S1, %Z1 : vector<60x8xf32>, vector<60xf32>) outputs(%ot : vector<8xf32>)
  }
  return %o : tensor<?x2x?x8xf32>
}

// -----

// A private function is nobody's to launch: it gets no kernel.
// CHECK-LABEL: gpu.module @kernels
// CHECK-NOT: @helper_map0
// CHECK: gpu.func @shown_map0
// CHECK: func.func private @helper(%{{.*}}: tensor<?xf32>
func.func private @helper(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.negf %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func @shown(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = arith.negf %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
