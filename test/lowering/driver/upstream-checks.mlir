// What upstream's verifiers and canonicalizations would crash on is refused before they run.
// RUN: split-file %s %t
// RUN: not ejk-compile %t/collapse.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=COLLAPSE
// RUN: not ejk-compile %t/none.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not ejk-compile %t/dim.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=DIM
// RUN: not ejk-compile %t/function.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=FUNCTION
// RUN: not ejk-compile %t/position.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=POSITION
// RUN: not ejk-compile %t/insert.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=INSERT
// RUN: not ejk-compile %t/dim-type.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=DIM-TYPE
// RUN: not ejk-compile %t/dim-constant.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=DIM-CONSTANT
// RUN: not ejk-compile %t/insert-type.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=INSERT-TYPE
// RUN: not ejk-compile %t/attributions.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=ATTRIBUTIONS
// RUN: not ejk-compile %t/launch.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=LAUNCH
// RUN: not ejk-compile %t/mma.mlir -o %t.ejk 2>&1 | FileCheck %s --check-prefix=MMA

//--- collapse.mlir
// COLLAPSE: error: 'tensor.collapse_shape' op must have a 'reassociation' that names each dimension in order, but names -7 in the place of 0
func.func @collapse(%x: tensor<?x?x1xf32>) -> tensor<?x?xf32> {
  %y = tensor.collapse_shape %x [[-7], [1, 2]] : tensor<?x?x1xf32> into tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

//--- none.mlir
// NONE: error: 'tensor.collapse_shape' op requires attribute 'reassociation'
func.func @none(%x: tensor<?x?x1xf32>) -> tensor<?x?xf32> {
  %y = "tensor.collapse_shape"(%x) : (tensor<?x?x1xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

//--- dim.mlir
// DIM: error: 'memref.dim' op asks for dimension -1 of 'memref<?xf32>'
func.func @dim(%x: memref<?xf32>) -> index {
  %c = arith.constant -1 : index
  %d = memref.dim %x, %c : memref<?xf32>
  return %d : index
}

//--- function.mlir
// FUNCTION: error: 'gpu.func' op requires attribute 'function_type'
module attributes {gpu.container_module} {
  gpu.module @kernels {
    "gpu.func"() <{workgroup_attrib_attrs = []}> ({
      gpu.return
    }) {sym_name = "k", gpu.kernel} : () -> ()
  }
  func.func @f() {
    %c1 = arith.constant 1 : index
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
    return
  }
}

//--- position.mlir
// POSITION: error: 'llvm.extractvalue' op position out of bounds: 4294967296
llvm.func @position(%x: !llvm.struct<(f32, f32)>) {
  %y = "llvm.extractvalue"(%x) <{position = array<i64: 4294967296>}> : (!llvm.struct<(f32, f32)>) -> f32
  llvm.return
}

//--- insert.mlir
// INSERT: error: 'vector.insert' op inserts 'vector<4xf32>' into 'vector<2x1xf32>', whose last dimensions must be the same
func.func @insert(%x: vector<4xf32>, %y: vector<2x1xf32>) -> vector<2x1xf32> {
  %z = vector.insert %x, %y [0] : vector<4xf32> into vector<2x1xf32>
  return %z : vector<2x1xf32>
}

//--- dim-type.mlir
// DIM-TYPE: error: 'memref.dim' op operand #1 must be index
func.func @dim(%x: memref<?xf32>, %i: i32) -> index {
  %d = "memref.dim"(%x, %i) : (memref<?xf32>, i32) -> index
  return %d : index
}

//--- dim-constant.mlir
// DIM-CONSTANT: error: 'arith.constant' op requires attribute 'value'
func.func @dim(%x: memref<?xf32>) -> index {
  %c = "arith.constant"() : () -> index
  %d = "memref.dim"(%x, %c) : (memref<?xf32>, index) -> index
  return %d : index
}

//--- insert-type.mlir
// INSERT-TYPE: error: 'vector.insert' op operand #1 must be vector
func.func @insert(%x: f32, %y: f32) -> f32 {
  %z = "vector.insert"(%x, %y) <{static_position = array<i64: 0>}> : (f32, f32) -> f32
  return %z : f32
}

//--- mma.mlir
// MMA: error: 'nvvm.mma.sync' op requires attribute 'multiplicandAPtxType'
llvm.func @mma(%a: f32, %c: f32) -> !llvm.struct<(f32, f32, f32, f32)> {
  %d = "nvvm.mma.sync"(%a, %a, %a, %a, %a, %a, %c, %c, %c, %c) <{layoutA = #nvvm.mma_layout<row>,
    layoutB = #nvvm.mma_layout<col>, operandSegmentSizes = array<i32: 4, 2, 4>, shape = #nvvm.shape<m = 16, n = 8, k = 16>}>
    : (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
  llvm.return %d : !llvm.struct<(f32, f32, f32, f32)>
}

//--- attributions.mlir
// ATTRIBUTIONS: error: 'gpu.func' op has 1 arguments in its body, but -1 workgroup attributions
gpu.module @kernels {
  "gpu.func"() <{function_type = (f32) -> ()}> ({
  ^bb0(%x: f32):
    gpu.return
  }) {sym_name = "k", gpu.kernel, workgroup_attributions = -1 : i64} : () -> ()
}

//--- launch.mlir
// LAUNCH: error: 'gpu.launch_func' op has 6 operands, but 'operandSegmentSizes' that add up to 37
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
  func.func @f(%n: index) {
    "gpu.launch_func"(%n, %n, %n, %n, %n, %n) <{kernel = @kernels::@k,
      operandSegmentSizes = array<i32: 32, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0>}>
      : (index, index, index, index, index, index) -> ()
    func.return
  }
}
