//===- KeepOffsets.h - offsets from an address stay where they are used ----===//
#ifndef EJK_LOWERING_PTX_KEEPOFFSETS_H
#define EJK_LOWERING_PTX_KEEPOFFSETS_H

#include "llvm/IR/PassManager.h"

namespace ejk {

/// Of addresses with a constant and a variable part, adds the variable first.
struct PutConstantsLastPass : llvm::PassInfoMixin<PutConstantsLastPass> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

/// Of addresses in loops, adds to an argument last what is added to it before the loop and in it:
/// tensors of one shape have the same sums, which take one register for all, and the arguments
/// themselves none. Where there are many.
struct AddArgumentsLastPass : llvm::PassInfoMixin<AddArgumentsLastPass> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

/// Makes addresses that lie a constant from another, and are made before a loop, anew
/// where the loop uses them: an access takes the constant along for nothing, while a
/// register for each over all of the loop may be one too many.
struct KeepOffsetsPass : llvm::PassInfoMixin<KeepOffsetsPass> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

} // namespace ejk

#endif // EJK_LOWERING_PTX_KEEPOFFSETS_H
