//===- SharedKernels.cpp - one kernel for ops that do the same ------------===//
#include "lowering/host/SharedKernels.h"
#include "dialect/ejk/Ejk.h"
#include "lowering/kernels/GroupSums.h"
#include "lowering/kernels/GroupedStates.h"
#include "lowering/kernels/RowStrides.h"
#include "lowering/kernels/SameOps.h"
#include "lowering/kernels/ShiftedRows.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace ejk;

/// Whether the kernel of `op` reads or writes a state in a pool, which it finds by other ops.
static bool usesPool(Operation *op) {
  auto reads = [](Value v) { return bool(v.getDefiningOp<ReadStatesOp>()); };
  auto writes = [](Operation *user) { return isa<WriteStatesOp, ZeroSkippedOp>(user); };
  return llvm::any_of(op->getOperands(), reads) || llvm::any_of(op->getUsers(), writes);
}

/// The sums over heads that the kernel of `op` computes itself, by its outputs; null for other
/// outputs.
static SmallVector<SumHeadsOp> sumsOf(Operation *op) {
  auto program = dyn_cast<tile::ProgramOp>(op);
  return program ? llvm::map_to_vector(program.getOutputs(),
                                       [&](Value output) { return sumOfOutput(program, output); })
                 : SmallVector<SumHeadsOp>();
}

/// Whether the kernel of `from` sums the outputs that the kernel of `to` is to sum.
static bool sumTheSame(Operation *from, Operation *to) {
  SmallVector<SumHeadsOp> made = sumsOf(from), wanted = sumsOf(to);
  return made.size() == wanted.size() &&
         llvm::all_of_zip(made, wanted,
                          [](SumHeadsOp a, SumHeadsOp b) { return bool(a) == bool(b); });
}

/// The sizes of an op's tensors, one after another.
static SmallVector<std::string> sizesOf(Operation *op, SizeName sizeName) {
  SmallVector<std::string> sizes;
  SmallVector<Value> tensors(op->getOperands());
  llvm::append_range(tensors, op->getResults());
  for (SumHeadsOp sum : sumsOf(op))
    if (sum)
      tensors.push_back(sum.getResult());
  for (Value tensor : tensors) {
    auto type = dyn_cast<RankedTensorType>(tensor.getType());
    for (int64_t dim = 0, rank = type ? type.getRank() : 0; dim < rank; ++dim)
      sizes.push_back(sizeName(tensor, dim));
  }
  return sizes;
}

/// Whether a kernel made for `from` reads each tensor by the row stride that it has in `to`.
static bool takesRowStrides(Operation *from, Operation *to) {
  return llvm::all_of_zip(from->getOperands(), to->getOperands(), [](Value made, Value wanted) {
    return hasRowStride(made) || !hasRowStride(wanted);
  });
}

/// Whether a kernel made for sizes `made` takes `wanted`: what is a number is the same number, and
/// what is one argument is one size.
static bool takesSizes(ArrayRef<std::string> made, ArrayRef<std::string> wanted) {
  llvm::StringMap<StringRef> arguments;
  return llvm::all_of_zip(made, wanted, [&](const std::string &own, const std::string &given) {
    if (llvm::all_of(own, llvm::isDigit) || llvm::all_of(given, llvm::isDigit))
      return own == given;
    return arguments.try_emplace(own, given).first->second == given;
  });
}

/// Whether tensors that `made` has in common are common to `wanted`, too.
static bool shareTheSame(ArrayRef<Operation *> made, ArrayRef<Operation *> wanted) {
  llvm::DenseMap<Value, Value> partner, back;
  auto pairUp = [&](Value a, Value b) {
    return partner.try_emplace(a, b).first->second == b &&
           back.try_emplace(b, a).first->second == a;
  };
  return llvm::all_of_zip(made, wanted, [&](Operation *a, Operation *b) {
    return llvm::all_of_zip(a->getOperands(), b->getOperands(), pairUp);
  });
}

/// `kernel`, made of `from`, for the tensors of `to`; nothing where it reads others as well.
static std::optional<Kernel> retarget(const Kernel &kernel, ArrayRef<Operation *> from,
                                      ArrayRef<Operation *> to) {
  llvm::DenseMap<Value, Value> tensors;
  for (auto [made, wanted] : llvm::zip(from, to)) {
    for (auto [a, b] : llvm::zip(made->getOperands(), wanted->getOperands()))
      tensors[a] = b;
    for (auto [a, b] : llvm::zip(made->getResults(), wanted->getResults()))
      tensors[a] = b;
    for (auto [a, b] : llvm::zip(sumsOf(made), sumsOf(wanted)))
      if (a && b)
        tensors[a.getResult()] = b.getResult();
  }
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

FailureOr<Kernel> SharedKernels::get(ArrayRef<Operation *> ops, bool singleStep, SizeName sizeName,
                                     llvm::function_ref<FailureOr<Kernel>()> make) {
  if (llvm::any_of(ops, [](Operation *op) {
        return usesPool(op) || hasGroupedStates(op) || hasShiftedRows(op);
      }))
    return make();
  SmallVector<std::string> sizes;
  for (Operation *op : ops)
    llvm::append_range(sizes, sizesOf(op, sizeName));
  auto isServedBy = [](Operation *made, Operation *op) {
    return sumTheSame(made, op) && takesRowStrides(made, op) && computeTheSame(made, op);
  };
  for (const Made &made : all) {
    if (made.singleStep != singleStep || made.ops.size() != ops.size() ||
        made.sizes.size() != sizes.size() || !takesSizes(made.sizes, sizes) ||
        !llvm::all_of_zip(made.ops, ops, isServedBy) ||
        (ops.size() > 1 && !shareTheSame(made.ops, ops)))
      continue;
    if (std::optional<Kernel> kernel = retarget(made.kernel, made.ops, ops)) {
      ++numShared;
      return *kernel;
    }
  }
  FailureOr<Kernel> kernel = make();
  if (succeeded(kernel))
    all.push_back({SmallVector<Operation *>(ops), singleStep, std::move(sizes), *kernel});
  return kernel;
}
