//===- SharedKernels.cpp - one kernel for ops that do the same ------------===//
#include "lowering/host/SharedKernels.h"
#include "dialect/ejk/Ejk.h"
#include "lowering/kernels/GroupedStates.h"
#include "lowering/kernels/SameOps.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace ejk;

/// Whether the kernel of `op` reads or writes a state in a pool, which it finds by other ops.
static bool usesPool(Operation *op) {
  auto reads = [](Value v) { return bool(v.getDefiningOp<ReadStatesOp>()); };
  auto writes = [](Operation *user) { return isa<WriteStatesOp>(user); };
  return llvm::any_of(op->getOperands(), reads) || llvm::any_of(op->getUsers(), writes);
}

/// The sizes of an op's tensors: which are numbers, and which of the others are equal and therefore
/// one argument of a kernel.
static std::string describe(Operation *op, SizeName sizeName) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::StringMap<unsigned> numbers;
  auto print = [&](const std::string &size) {
    if (llvm::all_of(size, llvm::isDigit))
      out << size << " ";
    else
      out << "#" << numbers.try_emplace(size, numbers.size()).first->second << " ";
  };
  SmallVector<Value> tensors(op->getOperands());
  llvm::append_range(tensors, op->getResults());
  for (Value tensor : tensors) {
    auto type = dyn_cast<RankedTensorType>(tensor.getType());
    for (int64_t dim = 0, rank = type ? type.getRank() : 0; dim < rank; ++dim)
      print(sizeName(tensor, dim));
    out << "\n";
  }
  return text;
}

/// `kernel`, made of `from`, for the tensors of `to`; nothing where it reads others as well.
static std::optional<Kernel> retarget(const Kernel &kernel, Operation *from, Operation *to) {
  llvm::DenseMap<Value, Value> tensors;
  for (auto [a, b] : llvm::zip(from->getOperands(), to->getOperands()))
    tensors[a] = b;
  for (auto [a, b] : llvm::zip(from->getResults(), to->getResults()))
    tensors[a] = b;
  Kernel result = kernel;
  bool isKnown = true;
  auto replace = [&](Value &tensor) {
    if (!tensor)
      return;
    tensor = tensors.lookup(tensor);
    isKnown &= bool(tensor);
  };
  for (KernelOperand &operand : result.operands)
    replace(operand.tensor);
  for (KernelOperand &operand : result.gridSizes)
    replace(operand.tensor);
  replace(result.sequencesFrom);
  return isKnown ? std::optional(result) : std::nullopt;
}

FailureOr<Kernel> SharedKernels::get(Operation *op, bool singleStep, SizeName sizeName,
                                     llvm::function_ref<FailureOr<Kernel>()> make) {
  if (usesPool(op) || hasGroupedStates(op))
    return make();
  std::string sizes = describe(op, sizeName);
  for (const Made &made : all) {
    if (made.singleStep != singleStep || made.sizes != sizes || !computeTheSame(made.op, op))
      continue;
    if (std::optional<Kernel> kernel = retarget(made.kernel, made.op, op)) {
      ++numShared;
      return *kernel;
    }
  }
  FailureOr<Kernel> kernel = make();
  if (succeeded(kernel))
    all.push_back({op, singleStep, std::move(sizes), *kernel});
  return kernel;
}
