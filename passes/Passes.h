//===- Passes.h - passes on the recurrence itself -----------------*- C++ -*-===//
//
// Declares the passes and the attributes that they leave for others. Every room of passes/ includes
// it, so it includes none of them.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_PASSES_H
#define EJK_PASSES_PASSES_H

#include "dialect/ejk/Attributes.h"
#include "dialect/ejk/Ejk.h"
#include "mlir/Pass/Pass.h"
#include "passes/F32Matmuls.h"
#include "passes/SavePolicy.h"

namespace ejk {
#define GEN_PASS_DECL
#include "passes/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace ejk

#endif // EJK_PASSES_PASSES_H
