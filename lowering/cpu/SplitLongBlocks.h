//===- SplitLongBlocks.h - LLVM's basic blocks in parts ----------*- C++ -*-===//
#ifndef EJK_LOWERING_CPU_SPLITLONGBLOCKS_H
#define EJK_LOWERING_CPU_SPLITLONGBLOCKS_H

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Pass.h"

namespace ejk {

/// Cuts basic blocks of thousands of instructions into parts that branch to the next one. Returns
/// whether there was any.
///
/// LLVM's register allocator takes a time that grows with the square of a block: it keeps each
/// constant in one register for the whole block, splits that live range where it spills, and looks
/// at all of the block's uses each time. A part makes its constants anew.
bool splitLongBlocks(llvm::Module &module);

/// Code generation without the pass that would join the parts again, where there are any.
class PartsPassManager : public llvm::legacy::PassManager {
public:
  explicit PartsPassManager(bool hasParts);
  void add(llvm::Pass *pass) override;

private:
  llvm::AnalysisID leftOut = nullptr;
};

} // namespace ejk

#endif // EJK_LOWERING_CPU_SPLITLONGBLOCKS_H
