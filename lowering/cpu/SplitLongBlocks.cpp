//===- SplitLongBlocks.cpp - LLVM's basic blocks in parts -----------------===//
#include "lowering/cpu/SplitLongBlocks.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/IR/Instructions.h"
#include <memory>
#include <vector>

using namespace ejk;

/// A block of fewer instructions than this is left as it is: 600 `math.tanh` in a step, which make
/// 12,000 instructions for AVX2, took 92 s in one block and 1 s in parts of 500; a step of 100, 1,900
/// instructions, takes as long either way.
static constexpr size_t kLongBlock = 2000;
static constexpr unsigned kPart = 500;

bool ejk::splitLongBlocks(llvm::Module &module) {
  bool hasAny = false;
  for (llvm::Function &function : module) {
    std::vector<llvm::BasicBlock *> blocks;
    for (llvm::BasicBlock &block : function)
      if (block.size() > kLongBlock)
        blocks.push_back(&block);
    for (llvm::BasicBlock *block : blocks) {
      hasAny = true;
      // Stack slots belong to the entry block: in another they would be made at run time.
      llvm::Instruction *place = &*block->getFirstNonPHIIt();
      for (llvm::Instruction &instruction : *block)
        if (llvm::isa<llvm::AllocaInst>(instruction))
          place = instruction.getNextNode();
      for (unsigned count = 0; !place->isTerminator(); place = place->getNextNode())
        if (++count == kPart) {
          place->getParent()->splitBasicBlock(place);
          count = 0;
        }
    }
  }
  return hasAny;
}

PartsPassManager::PartsPassManager(bool hasParts) {
  if (hasParts)
    leftOut = std::unique_ptr<llvm::Pass>(llvm::createCodeGenPrepareLegacyPass())->getPassID();
}

void PartsPassManager::add(llvm::Pass *pass) {
  if (leftOut && pass->getPassID() == leftOut)
    delete pass;
  else
    llvm::legacy::PassManager::add(pass);
}
