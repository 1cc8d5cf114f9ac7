//===- KeepOffsets.cpp - offsets from an address stay where they are used --===//
#include "lowering/ptx/KeepOffsets.h"
#include "lowering/target/CostModel.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/Utils/Local.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;
using namespace ejk;

/// Whether `value` lies a constant from one other value, or is that in another type.
static bool isOffset(Instruction *value) {
  if (auto *address = dyn_cast<GetElementPtrInst>(value))
    return address->hasAllConstantIndices();
  switch (value->getOpcode()) {
  case Instruction::Add:
  case Instruction::Or:
    return isa<Constant>(value->getOperand(1));
  case Instruction::PtrToInt:
  case Instruction::ZExt:
    return true;
  default:
    return false;
  }
}

/// The pointer that `pointer` lies a constant behind, which is added to `offset`.
static Value *withoutConstant(Value *pointer, const DataLayout &layout, APInt &offset) {
  auto *place = dyn_cast<GEPOperator>(pointer);
  return place && place->hasAllConstantIndices() && place->accumulateConstantOffset(layout, offset)
             ? place->getPointerOperand()
             : nullptr;
}

/// Of addresses that lie a constant and one variable behind another, or a global's start:
/// adds the variable first, so that addresses with the same one differ by a constant.
static bool putConstantsLast(Function &function) {
  const DataLayout &layout = function.getParent()->getDataLayout();
  bool changed = false;
  ReversePostOrderTraversal<Function *> order(&function);
  for (BasicBlock *block : order)
    for (Instruction &op : make_early_inc_range(*block)) {
      auto *place = dyn_cast<GetElementPtrInst>(&op);
      if (!place || place->getNumIndices() != 1 || place->hasAllConstantIndices())
        continue;
      Value *start = place->getPointerOperand();
      APInt offset(layout.getIndexTypeSizeInBits(start->getType()), 0);
      Value *base = withoutConstant(start, layout, offset);
      if (!base || offset.isZero())
        continue;
      IRBuilder<> b(place);
      Value *variable =
          b.CreateGEP(place->getSourceElementType(), base, {place->idx_begin()->get()});
      Value *here = b.CreateGEP(b.getInt8Ty(), variable, b.getInt(offset));
      place->replaceAllUsesWith(here);
      place->eraseFromParent();
      changed = true;
    }
  return changed;
}

PreservedAnalyses PutConstantsLastPass::run(Function &function, FunctionAnalysisManager &) {
  if (!putConstantsLast(function))
    return PreservedAnalyses::all();
  PreservedAnalyses preserved;
  preserved.preserveSet<CFGAnalyses>();
  return preserved;
}

PreservedAnalyses AddArgumentsLastPass::run(Function &function, FunctionAnalysisManager &analyses) {
  const DataLayout &layout = function.getParent()->getDataLayout();
  LoopInfo &loops = analyses.getResult<LoopAnalysis>(function);
  // What is added to arguments before loops, and places in loops behind that.
  MapVector<GetElementPtrInst *, SmallVector<GetElementPtrInst *>> starts;
  for (BasicBlock &block : function)
    for (Instruction &op : block) {
      auto *place = dyn_cast<GetElementPtrInst>(&op);
      if (!place || !loops.getLoopFor(&block) || place->hasAllConstantIndices())
        continue;
      auto *start = dyn_cast<GetElementPtrInst>(place->getPointerOperand());
      if (start && !loops.getLoopFor(start->getParent()) && !start->hasAllConstantIndices() &&
          isa<Argument>(start->getPointerOperand()))
        starts[start].push_back(place);
    }
  if (starts.size() <= cost::kFewPlaces)
    return PreservedAnalyses::all();
  for (auto &[start, places] : starts) {
    IRBuilder<> before(start);
    Value *bytes = emitGEPOffset(&before, layout, start);
    for (GetElementPtrInst *place : places) {
      IRBuilder<> b(place);
      Value *all = b.CreateAdd(bytes, emitGEPOffset(&b, layout, place));
      place->replaceAllUsesWith(b.CreateGEP(b.getInt8Ty(), start->getPointerOperand(), {all}));
      place->eraseFromParent();
    }
  }
  PreservedAnalyses preserved;
  preserved.preserveSet<CFGAnalyses>();
  return preserved;
}

PreservedAnalyses KeepOffsetsPass::run(Function &function, FunctionAnalysisManager &analyses) {
  bool changed = false;
  LoopInfo &loops = analyses.getResult<LoopAnalysis>(function);
  SmallVector<Instruction *> users;
  SmallVector<WeakTrackingVH> originals;
  for (BasicBlock &block : function)
    if (loops.getLoopFor(&block))
      for (Instruction &user : block)
        if (!isa<PHINode>(user))
          users.push_back(&user);
  while (!users.empty()) {
    Instruction *user = users.pop_back_val();
    Loop *loop = loops.getLoopFor(user->getParent());
    for (Use &use : user->operands()) {
      auto *offset = dyn_cast<Instruction>(use);
      if (!offset || loop->contains(offset) || !isOffset(offset))
        continue;
      Instruction *here = offset->clone();
      here->insertBefore(user->getIterator());
      use.set(here);
      originals.push_back(offset);
      users.push_back(here);
      changed = true;
    }
  }
  // Or the target's pipeline would find that the two are the same.
  RecursivelyDeleteTriviallyDeadInstructionsPermissive(originals);
  if (!changed)
    return PreservedAnalyses::all();
  PreservedAnalyses preserved;
  preserved.preserveSet<CFGAnalyses>();
  return preserved;
}
