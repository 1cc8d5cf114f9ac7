//===- DeriveBackward.cpp - a function's vector-Jacobian product ----------===//
//
// Derives the backward function: clones the function's ops, then differentiates each in reverse
// order. Scans are differentiated by DeriveScan.cpp, elementwise ops by the rules of
// AdjointRules.cpp. Canonicalisation removes ops that the gradients do not need.
//
//===----------------------------------------------------------------------===//
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "passes/autodiff/AdjointRules.h"
#include "passes/autodiff/DeriveScan.h"
#include "passes/autodiff/DeriveTensorOps.h"
#include "passes/scan/ExpandQueries.h"
#include "passes/scan/SharedRows.h"
#include "passes/scan/SmallStates.h"
#include "passes/scan/TensorSums.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

namespace ejk {
#define GEN_PASS_DEF_DERIVEBACKWARD
#include "passes/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

namespace {
/// Derives the backward function of one function.
class FunctionAdjoint {
public:
  FunctionAdjoint(func::FuncOp function, ArrayRef<std::string> wrt,
                  ArrayRef<std::string> cotangents, const SavePolicy &policy)
      : function(function), wrt(wrt), cotangents(cotangents), policy(policy), b(function) {}

  LogicalResult run() {
    if (failed(choose()))
      return failure();
    createSignature();
    if (failed(adoptDeclaration()))
      return failure();
    cloneBody();
    findActive();
    Operation *ret = vjp.getBody().front().getTerminator();
    b.setInsertionPoint(ret);
    for (auto [value, given] : llvm::zip(ret->getOperands(), givenByResult))
      if (given)
        accumulate(values, value, given);
    SmallVector<Operation *> ops;
    for (Operation &op : vjp.getBody().front().without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops))
      if (failed(reverse(op)))
        return failure();
    SmallVector<Value> results;
    for (unsigned i : wanted) {
      Value arg = vjp.getArgument(i), gradient = (sizesWanted() ? sizes : values).lookup(arg);
      if (!gradient)
        gradient = splatLike(b, arg.getLoc(), arg, 0);
      gradient = convertTo(b, arg.getLoc(), gradient, getElementTypeOrSelf(arg.getType()));
      results.push_back(castLike(b, arg.getLoc(), gradient, arg));
    }
    ret->setOperands(results);
    return success();
  }

private:
  /// Whether the function returns the absolute values of gate terms instead of gradients.
  bool sizesWanted() const { return policy.gateGradients == GateGradients::terms; }
  bool isFloatTensor(Value value) {
    return isa<RankedTensorType>(value.getType()) && isFloating(value);
  }

  /// Selects the arguments and results to differentiate. An error for an unknown name.
  LogicalResult choose() {
    llvm::StringSet<> unknown; // names not met yet
    auto chosen = [&](ArrayRef<std::string> names, const std::string &name) {
      unknown.erase(name);
      return names.empty() || llvm::is_contained(names, name);
    };
    llvm::SmallDenseSet<unsigned> named;
    for (const std::string &name : wrt) {
      std::optional<unsigned> index = findArgument(function, name);
      if (!index)
        return function.emitError() << "'wrt' names '" << name << "', but no argument is called "
                                    << "that; there are: " << listArguments(function);
      if (BlockArgument arg = function.getArgument(*index); !isFloatTensor(arg))
        return function.emitError() << "'" << name << "' is " << arg.getType()
                                    << " and has no gradient; take it out of 'wrt'";
      named.insert(*index);
    }
    for (BlockArgument arg : function.getArguments())
      if (isFloatTensor(arg) && (wrt.empty() || named.contains(arg.getArgNumber())))
        wanted.push_back(arg.getArgNumber());
    unknown.insert_range(cotangents);
    Operation *ret = function.getBody().front().getTerminator();
    if (!isa<func::ReturnOp>(ret))
      return function.emitError("must have a body of one block, which ends in func.return");
    for (OpOperand &result : ret->getOpOperands())
      hasCotangent.push_back(chosen(cotangents, resultName(function, result.getOperandNumber())) &&
                             isFloatTensor(result.get()));
    if (!unknown.empty())
      return function.emitError() << "'cotangents' names '" << unknown.begin()->getKey()
                                  << "', but no result is called that";
    if (wanted.empty())
      return function.emitError("has no float tensor argument to differentiate by");
    return success();
  }

  void createSignature() {
    SmallVector<Type> inputs(function.getArgumentTypes()), results;
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      if (hasCotangent[i])
        inputs.push_back(type);
    for (unsigned i : wanted)
      results.push_back(function.getArgumentTypes()[i]);
    b.setInsertionPointAfter(function);
    vjp = func::FuncOp::create(b, function.getLoc(),
                               (function.getName() + (sizesWanted() ? "_terms" : "_vjp")).str(),
                               b.getFunctionType(inputs, results));
    if (!sizesWanted())
      vjp->setAttr(kDerivativeOfAttr, b.getStringAttr(function.getName()));
    if (Attribute constraints = function->getAttr(kConstraintsAttr))
      vjp->setAttr(kConstraintsAttr, constraints);
    unsigned numInputs = function.getNumArguments(), next = numInputs;
    // Of what `attrs` describe, `given` holds a cotangent or a gradient, or the value itself.
    auto named = [&](DictionaryAttr attrs, StringRef name, StringRef given = {}) {
      NamedAttrList list(attrs);
      list.erase(kCotangentOfAttr);
      list.erase(kGradientOfAttr);
      list.set(kNameAttr, b.getStringAttr((given.empty() ? "" : "d") + name));
      if (!given.empty())
        list.set(given, b.getStringAttr(name));
      return list.getDictionary(b.getContext());
    };
    vjp.addEntryBlock();
    for (unsigned i = 0; i < numInputs; ++i)
      vjp.setArgAttrs(i, named(function.getArgAttrDict(i), argumentName(function, i)));
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      givenByResult.push_back(hasCotangent[i] ? Value(vjp.getArgument(next)) : Value());
      if (hasCotangent[i])
        vjp.setArgAttrs(next++,
                        named(function.getResultAttrDict(i), resultName(function, i),
                              kCotangentOfAttr));
    }
    for (auto [result, i] : llvm::enumerate(wanted)) {
      NamedAttrList attrs;
      if (Attribute shape = function.getArgAttr(i, kShapeAttr))
        attrs.set(kShapeAttr, shape);
      vjp.setResultAttrs(
          result, named(attrs.getDictionary(b.getContext()), argumentName(function, i),
                        kGradientOfAttr));
    }
    // An argument of the function may have a cotangent's name.
    for (unsigned i = 0; i < vjp.getNumArguments(); ++i)
      vjp.setArgAttr(i, kNameAttr, b.getStringAttr(argumentName(vjp, i)));
  }

  /// A module that calls the derivative declares it. The definition replaces the declaration.
  LogicalResult adoptDeclaration() {
    auto module = function->getParentOfType<ModuleOp>();
    for (auto other : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      if (other == vjp || other.getName() != vjp.getName())
        continue;
      if (!other.isDeclaration())
        return other.emitError() << "'" << other.getName()
                                 << "' is the name of the derivative of '" << function.getName()
                                 << "', and has a body already; rename it, or do not derive '"
                                 << function.getName() << "'";
      if (other.getFunctionType() != vjp.getFunctionType())
        return other.emitError() << "the derivative has type " << vjp.getFunctionType()
                                 << ", but is declared as " << other.getFunctionType();
      other.erase();
    }
    return success();
  }

  void cloneBody() {
    IRMapping mapping;
    for (auto [from, to] : llvm::zip(function.getArguments(), vjp.getArguments()))
      mapping.map(from, to);
    OpBuilder body = OpBuilder::atBlockEnd(&vjp.getBody().front());
    for (Operation &op : function.getBody().front())
      body.clone(op, mapping);
  }

  void findActive() {
    for (unsigned i : wanted)
      active.insert(vjp.getArgument(i));
    for (Operation &op : vjp.getBody().front().without_terminator())
      if (!isPiecewiseConstant(&op) && !isa<tensor::DimOp, linalg::FillOp>(op) &&
          llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); }))
        for (Value result : op.getResults())
          active.insert(result);
  }

  /// Adds to a tensor's cotangent. Sums are f32.
  void accumulate(llvm::DenseMap<Value, Value> &sums, Value value, Value cotangent) {
    Value &sum = sums[value];
    if (!sum) {
      sum = cotangent;
      return;
    }
    Location loc = value.getLoc();
    Value a = widenToF32(b, loc, sum), c = widenToF32(b, loc, cotangent);
    sum = arith::AddFOp::create(b, loc, a, castLike(b, loc, c, a));
  }

  LogicalResult reverse(Operation *op) {
    bool concerns = llvm::any_of(op->getOperands(), [&](Value v) { return active.contains(v); });
    bool given = llvm::any_of(op->getResults(), [&](Value v) {
      return values.lookup(v) || sizes.lookup(v);
    });
    if (!concerns || !given || isPiecewiseConstant(op) || isa<tensor::DimOp>(op))
      return success();
    if (auto scan = dyn_cast<ScanOp>(op))
      return reverseScan(scan);
    if (Recurrence::of(op))
      return op->emitError("must be a scan to be differentiated: run --ejk-specialize first");
    if (op->getNumResults() != 1)
      return op->emitError() << "'" << op->getName() << "' has no derivative rule";
    auto pass = [&](llvm::DenseMap<Value, Value> &sums, bool absolute) -> LogicalResult {
      Value g = sums.lookup(op->getResult(0));
      if (!g)
        return success();
      return reverseTensorOp(
          b, op, widenToF32(b, op->getLoc(), g), [&](Value v) { return active.contains(v); },
          [&](Value v, Value cotangent) {
            if (absolute)
              cotangent = math::AbsFOp::create(b, op->getLoc(), cotangent);
            accumulate(sums, v, cotangent);
          });
    };
    return success(succeeded(pass(values, false)) && succeeded(pass(sizes, true)));
  }

  LogicalResult reverseScan(ScanOp scan) {
    ScanRequest request;
    request.policy = policy;
    for (Value output : scan.getOutputs())
      request.outputCotangents.push_back(values.lookup(output));
    for (Value state : scan.getFinalStates())
      request.stateCotangents.push_back(values.lookup(state));
    for (Value save : scan.getSaves())
      if (values.lookup(save))
        return scan.emitError("a saved state has a cotangent, and a scan that saves has no "
                              "derivative; leave it out of 'cotangents'");
    // A gradient that is summed with others stays f32; a single one is rounded at once.
    auto elementFor = [&](Value operand) -> Type {
      if (!active.contains(operand))
        return {};
      auto mayCount = [&](OpOperand &use) {
        return !isa<tensor::DimOp>(use.getOwner()) && use.getOwner()->getNumResults();
      };
      unsigned uses = llvm::count_if(original(operand).getUses(), mayCount);
      bool alone = isa<BlockArgument>(operand) && uses == 1;
      return alone ? getElementTypeOrSelf(operand.getType()) : b.getF32Type();
    };
    for (Value operand : scan.getSequences())
      request.sequences.push_back(elementFor(operand));
    for (Value operand : scan.getParameters())
      request.parameters.push_back(elementFor(operand));
    for (unsigned i = 0; i < scan.getNumStates(); ++i) {
      Value initial = scan.getInitialState(i);
      request.initialStates.push_back(initial && active.contains(initial));
    }
    if (!sizesWanted())
      return addGradients(scan, request, values);
    if (failed(addGradients(scan, request, sizes)))
      return failure();
    request.policy.gateGradients = GateGradients::suffix;
    return addGradients(scan, request, values);
  }

  /// Differentiates the scan and adds the gradients of its operands to `sums`.
  LogicalResult addGradients(ScanOp scan, const ScanRequest &request,
                             llvm::DenseMap<Value, Value> &sums) {
    FailureOr<ScanGradients> gradients = deriveScan(b, scan, request);
    if (failed(gradients))
      return failure();
    auto addAll = [&](ValueRange operands, ArrayRef<Value> found) {
      for (auto [operand, gradient] : llvm::zip(operands, found))
        if (gradient)
          accumulate(sums, operand, gradient);
    };
    addAll(scan.getSequences(), gradients->sequences);
    addAll(scan.getParameters(), gradients->parameters);
    for (auto [i, gradient] : llvm::enumerate(gradients->initialStates))
      if (gradient)
        accumulate(sums, scan.getInitialState(i), gradient);
    return success();
  }

  /// The clone of a value of the function. Its uses are separate from those of the gradients.
  Value original(Value value) {
    auto arg = dyn_cast<BlockArgument>(value);
    return arg ? Value(function.getArgument(arg.getArgNumber())) : value;
  }

  func::FuncOp function, vjp;
  ArrayRef<std::string> wrt, cotangents;
  SavePolicy policy;
  OpBuilder b;
  SmallVector<unsigned> wanted;
  SmallVector<bool> hasCotangent;
  SmallVector<Value> givenByResult;
  llvm::DenseSet<Value> active;
  llvm::DenseMap<Value, Value> values; // cotangents
  llvm::DenseMap<Value, Value> sizes;  // of gates' terms
};

struct DeriveBackwardPass : ejk::impl::DeriveBackwardBase<DeriveBackwardPass> {
  using DeriveBackwardBase::DeriveBackwardBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (checkpointEvery < 0 || checkpointEvery > kMaxRows) {
      module.emitError() << "'checkpoint-every' must be from 0 to " << kMaxRows << ", but is "
                         << int64_t(checkpointEvery);
      return signalPassFailure();
    }
    SmallVector<func::FuncOp> functions;
    for (auto f : module.getOps<func::FuncOp>())
      if (function.empty() ? isCandidate(f) : f.getName() == function && !f.isDeclaration())
        functions.push_back(f);
    if (functions.empty()) {
      if (function.empty())
        module.emitError("holds no public function with a recurrence and a float argument to "
                         "differentiate by");
      else
        module.emitError() << "has no function '" << function << "' to differentiate";
      return signalPassFailure();
    }
    for (func::FuncOp f : functions) {
      if (!f.getBody().hasOneBlock()) {
        f.emitError("a function to differentiate has a body of one block");
        return signalPassFailure();
      }
      if (failed(derive(f)))
        return signalPassFailure();
      ++numFunctions;
    }
  }

  /// A scan with queries has a state for each query head in the derivative, whose sums over a group
  /// then are those of other operands that heads share. A vector that decays is differentiated as a
  /// column, which chunks have a form for, and a rotated key as the row of a scan before, as are
  /// rows that heads share.
  LogicalResult derive(func::FuncOp f) {
    auto deriveFrom = [&](func::FuncOp from) {
      return FunctionAdjoint(from, wrt, cotangents, {gateGradients, checkpointEvery}).run();
    };
    if (scansWithQueries(f).empty() && !hasSeparableStates(f) && !hasSharedRows(f))
      return deriveFrom(f);
    OpBuilder b(f->getContext());
    b.setInsertionPointAfter(f);
    auto expanded = cast<func::FuncOp>(b.clone(*f));
    for (ScanOp scan : scansWithQueries(expanded))
      expandQueries(scan);
    if (hasSharedRows(expanded) && failed(cutSharedRows(expanded)))
      return failure();
    FailureOr<func::FuncOp> separate = withColumns(expanded);
    LogicalResult result = failed(separate) ? failure() : deriveFrom(*separate ? *separate : expanded);
    if (succeeded(separate) && *separate)
      separate->erase();
    expanded.erase();
    return result;
  }

  LogicalResult cutSharedRows(func::FuncOp f) {
    OpPassManager pm(func::FuncOp::getOperationName());
    CutRowsOptions options;
    options.shared = true;
    pm.addPass(createCutRows(options));
    return runPipeline(pm, f);
  }

  /// A copy of `f` whose states all have a chunkwise form; null where columns alone do not give it
  /// that. A scan of numbers or vectors before that of the K×V states would add up, in the derivative,
  /// what is read of these, and with it the rounding of matmuls.
  FailureOr<func::FuncOp> withColumns(func::FuncOp f) {
    if (!hasSeparableStates(f))
      return func::FuncOp();
    OpBuilder b(f->getContext());
    b.setInsertionPointAfter(f);
    auto copy = cast<func::FuncOp>(b.clone(*f));
    OpPassManager pm(func::FuncOp::getOperationName());
    pm.addPass(createCutRows());
    pm.addPass(createColumnStates());
    pm.addPass(createSplitStates());
    pm.addPass(createMergeDecays());
    if (failed(runPipeline(pm, copy)))
      return failure();
    if (!hasSeparableStates(copy))
      return copy;
    copy.erase();
    return func::FuncOp();
  }

  static bool isCandidate(func::FuncOp f) {
    if (f.isDeclaration() || !f.isPublic() ||
        llvm::none_of(f.getArguments(), [](Value v) { return isFloating(v); }))
      return false;
    // A definition has the name that the pass would give, or is a derivative that a user wrote.
    auto existing = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        f, StringAttr::get(f.getContext(), f.getName() + "_vjp"));
    if ((existing && !existing.isDeclaration()) ||
        findDerivative(f->getParentOfType<ModuleOp>(), f.getName()))
      return false;
    return f
        .walk([](Operation *op) {
          return isa<ScanOp>(op) || Recurrence::of(op) ? WalkResult::interrupt()
                                                       : WalkResult::advance();
        })
        .wasInterrupted();
  }
};
} // namespace
