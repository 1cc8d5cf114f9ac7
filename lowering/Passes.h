//===- Passes.h - from a scan down to PTX -------------------------*- C++ -*-===//
//
// Declares the passes and the attributes that they leave for others. Every room of lowering/
// includes it, so it includes none of them.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_PASSES_H
#define EJK_LOWERING_PASSES_H

#include "dialect/ejk/Attributes.h"
#include "dialect/tile/Tile.h"
#include "lowering/Schedule.h"
#include "passes/F32Matmuls.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace ejk {
#define GEN_PASS_DECL
#include "lowering/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lowering/Passes.h.inc"

} // namespace ejk

#endif // EJK_LOWERING_PASSES_H
