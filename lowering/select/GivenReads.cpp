//===- GivenReads.cpp - what the forward reads, given to f_vjp ------------===//
//
// The part of SaveStates for scans of f_vjp that go over f's steps for what these read.
//
//===----------------------------------------------------------------------===//
#include "dialect/ejk/AlternativeAttributes.h"
#include "lowering/select/SameTensor.h"
#include "lowering/select/SaveStates.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/scan/ScanGroups.h"

using namespace mlir;
using namespace ejk;

/// The values of the step of `own` that `derived` computes the same states for, by its outputs.
std::optional<SmallVector<Value>> SaveStates::findReads(ScanOp derived, ScanOp own) const {
  bool onlyOutputs =
      derived.getSaves().empty() && derived.getSavedStates().empty() &&
      !derived.getOutputs().empty() && derived.getNumStates() == 1 &&
      llvm::all_of(derived.getFinalStates(), [](Value state) { return state.use_empty(); });
  std::optional<unsigned> state = onlyOutputs ? findState(derived, 0, own) : std::nullopt;
  if (!state)
    return std::nullopt;
  SmallVector<Value> reads;
  for (Value there : derived.getYield().getOutputs()) {
    for (ReadOp read : own.getStep().getOps<ReadOp>())
      if (areSame(derived, there, own, read.getResult(), isSameTensor,
                  {derived.getStateArgs()[0], own.getStateArgs()[*state]})) {
        reads.push_back(read.getResult());
        break;
      }
  }
  if (reads.size() != derived.getOutputs().size())
    return std::nullopt;
  return reads;
}

/// What steps of f_vjp make of output `number` of `scans`, which is `read` of the step of `own`: a
/// sum that the step of `own` has, too, and none of them takes the read otherwise. Null if there is
/// none.
static Operation *sumOfRead(ScanOp own, Value read, ArrayRef<ScanOp> scans, unsigned number) {
  if (!llvm::hasSingleElement(read.getUsers()) ||
      !isa<arith::AddFOp, arith::SubFOp>(*read.user_begin()))
    return nullptr;
  Operation *sum = *read.user_begin();
  for (ScanOp derived : scans) {
    Value tensor = derived.getOutputs()[number];
    auto isGiven = [&](Value there, Value here) { return there == tensor && here == read; };
    for (OpOperand &use : tensor.getUses()) {
      auto scan = dyn_cast<ScanOp>(use.getOwner());
      if (!scan || use.getOperandNumber() >= scan.getSequences().size())
        return nullptr;
      for (Operation *user : scan.getStep().getArgument(use.getOperandNumber()).getUsers())
        if (user->getNumResults() != 1 ||
            !areSame(scan, user->getResult(0), own, sum->getResult(0), isSameTensor, {}, isGiven))
          return nullptr;
    }
  }
  return sum;
}

/// `argument` takes the place of `tensor`, or of the sums that steps make of it.
static void replaceGiven(Value tensor, Value argument, bool isSum) {
  for (OpOperand &use : llvm::make_early_inc_range(tensor.getUses())) {
    if (isSum) {
      BlockArgument arg =
          cast<ScanOp>(use.getOwner()).getStep().getArgument(use.getOperandNumber());
      for (Operation *user : llvm::make_early_inc_range(arg.getUsers())) {
        user->getResult(0).replaceAllUsesWith(arg);
        user->erase();
      }
    }
    use.set(argument);
  }
}

/// `given`, a tensor of f_fwd, becomes its result and an argument of each f_vjp.
void SaveStates::addRead(Value given) {
  func::FuncOp fwd = fwds.front();
  MLIRContext *context = fwd.getContext();
  unsigned number = 0;
  NamedAttrList attributes = describe(given, number);
  Operation *end = fwd.getBody().front().getTerminator();
  end->insertOperands(end->getNumOperands(), given);
  (void)fwd.insertResult(fwd.getNumResults(), given.getType(), attributes.getDictionary(context));
  attributes.set(kSavedReadAttr, UnitAttr::get(context));
  DictionaryAttr named = attributes.getDictionary(context);
  if (numReads++ == 0)
    firstRead = vjp.getNumArguments();
  (void)vjp.insertArgument(vjp.getNumArguments(), given.getType(), named, vjp.getLoc());
  for (func::FuncOp other : alternatives)
    (void)other.insertArgument(other.getNumArguments(), given.getType(), named, other.getLoc());
}

/// `given`, a tensor of an alternative of f_fwd, becomes its next result; false where that of f_fwd has
/// another type.
bool SaveStates::addSameRead(func::FuncOp fwd, Value given) {
  unsigned number = fwd.getNumResults();
  func::FuncOp first = fwds.front();
  if (number >= first.getNumResults() || first.getResultTypes()[number] != given.getType())
    return false;
  Operation *end = fwd.getBody().front().getTerminator();
  end->insertOperands(end->getNumOperands(), given);
  (void)fwd.insertResult(number, given.getType(), first.getResultAttrDict(number));
  return true;
}

/// Lets f_fwd give what scans of `derivatives` go over the steps of `function` for. An alternative of
/// it has the same scans, over segments, and gives the same in the same order; false if it does not.
bool SaveStates::giveReads(func::FuncOp function, ArrayRef<func::FuncOp> derivatives,
                           IRMapping &mapping, GetForward forward) {
  bool isFirst = fwds.empty();
  unsigned numGiven = 0;
  for (ScanOp own : function.getBody().getOps<ScanOp>()) {
    // The same scan in each way to compute f_vjp.
    std::optional<SmallVector<Value>> reads;
    SmallVector<ScanOp> scans;
    for (func::FuncOp derivative : derivatives)
      for (ScanOp derived : derivative.getBody().getOps<ScanOp>()) {
        std::optional<SmallVector<Value>> found = findReads(derived, own);
        if (!found || (reads && found != reads))
          continue;
        reads = found;
        scans.push_back(derived);
        break;
      }
    if (!reads)
      continue;
    func::FuncOp fwd = forward();
    SmallVector<bool> areSums;
    for (auto [i, read] : llvm::enumerate(*reads)) {
      Operation *sum = sumOfRead(own, read, scans, i);
      areSums.push_back(sum);
      if (sum)
        read = sum->getResult(0);
    }
    SmallVector<Value> copies;
    for (Value read : *reads)
      copies.push_back(mapping.lookup(read));
    auto copy = cast<ScanOp>(mapping.lookup(own.getOperation()));
    ScanOp made = rebuilt(copy, scans.front().getOutputs().getTypes(), /*every=*/0, {});
    mapping.map(own.getOperation(), made.getOperation());
    made.getYield().getOutputsMutable().append(copies);
    made->setAttr(kGivenReadsAttr, OpBuilder(made).getI64IntegerAttr(copies.size()));
    for (auto [i, read] : llvm::enumerate(*reads)) {
      Value given = made.getOutputs()[own.getOutputs().size() + i];
      if (isFirst)
        addRead(given);
      else if (!addSameRead(fwd, given))
        return false;
      unsigned place = firstRead + numGiven++;
      for (ScanOp derived : scans) {
        Value argument = derived->getParentOfType<func::FuncOp>().getArgument(place);
        givenReads[argument] = read;
        replaceGiven(derived.getOutputs()[i], argument, areSums[i]);
      }
    }
    for (ScanOp derived : scans)
      derived.erase();
  }
  return numGiven == numReads;
}
