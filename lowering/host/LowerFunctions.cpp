//===- LowerFunctions.cpp - functions on tensors to launches --------------===//
#include "lowering/host/LowerFunctions.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Names.h"
#include "lowering/host/PrepareTensors.h"
#include "lowering/host/ProgramLaunches.h"
#include "lowering/host/SharedKernels.h"
#include "lowering/kernels/GroupSums.h"
#include "lowering/kernels/GroupedStates.h"
#include "lowering/kernels/PooledStates.h"
#include "lowering/kernels/ShiftedRows.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace ejk;

/// Whether `op` is a view whose sizes are known or the function computes, or makes their list.
static bool isReshapeBySizes(Operation *op) {
  if (auto reshape = dyn_cast<tensor::ReshapeOp>(op))
    return isa_and_nonnull<tensor::FromElementsOp, arith::ConstantOp>(
        reshape.getShape().getDefiningOp());
  auto list = dyn_cast<tensor::FromElementsOp>(op);
  return list && llvm::all_of(list->getUsers(), [&](Operation *user) {
           auto reshape = dyn_cast<tensor::ReshapeOp>(user);
           return reshape && reshape.getShape() == list.getResult();
         });
}

namespace {
/// Lowers one function on tensors to launches on buffers.
class ProgramBuilder : public ProgramLaunches {
public:
  ProgramBuilder(func::FuncOp function, gpu::GPUModuleOp kernels, KernelMaker &maker,
                 SharedKernels &shared)
      : ProgramLaunches(function, kernels), maker(maker), shared(shared) {}

  LogicalResult run() {
    if (!function->hasAttr(kConstraintsAttr))
      return function.emitError("is not described; run --ejk-describe-interface first");
    if (failed(prepareTensors(function, copied)) || failed(createProgram()))
      return failure();
    findAlternatives();
    findStarters();
    for (Operation &op : function.getBody().front().without_terminator())
      if (failed(lower(op)))
        return failure();
    func::ReturnOp::create(b, function.getLoc());
    return success();
  }

  unsigned numScans = 0, numBlocks = 0, numPlain = 0;

private:
  FailureOr<Kernel> makeScan(ScanOp scan, const std::string &name, bool singleStep) {
    auto sizeName = [&](Value v, unsigned d) { return sizeOf(v, d).str(); };
    return shared.get({scan}, singleStep, sizeName,
                      [&] { return maker.makeScan(scan, kernels, name, sizeName, singleStep); });
  }

  LogicalResult lowerBlocks(tile::ProgramOp program) {
    if (program.getSaveEvery() && failed(checkSlots(program, *program.getSaveEvery())))
      return failure();
    auto sizeName = [&](Value v, unsigned d) { return sizeOf(v, d).str(); };
    auto make = [&](tile::ProgramOp one) {
      return maker.makeProgram(one, kernels, names[one], sizeName);
    };
    auto launchAlone = [&](tile::ProgramOp one) -> LogicalResult {
      FailureOr<Kernel> kernel =
          shared.get({one}, /*singleStep=*/false, sizeName, [&] { return make(one); });
      return failed(kernel) ? failure() : launch(one, *kernel);
    };
    auto it = starters.find(program);
    if (it == starters.end())
      return launchAlone(program);
    // The blocks of both stand side by side in one launch.
    tile::ProgramOp starter = it->second;
    FailureOr<Kernel> merged =
        shared.get({starter, program}, /*singleStep=*/false, sizeName, [&]() -> FailureOr<Kernel> {
          FailureOr<Kernel> first = make(starter), second = failed(first) ? first : make(program);
          if (failed(second))
            return failure();
          if (std::optional<Kernel> both = maker.merge(*first, *second))
            return *both;
          first->function.erase();
          second->function.erase();
          return Kernel();
        });
    if (failed(merged))
      return failure();
    if (merged->function)
      return launch(program, *merged, Value(), starter);
    return failed(launchAlone(starter)) ? failure()
           : skipsAll(program)          ? success()
                                        : launchAlone(program);
  }

  /// Finds the programs that start from another's results and can be launched with it: all that
  /// reads the other's results is launched later.
  void findStarters() {
    for (auto program : function.getBody().front().getOps<tile::ProgramOp>())
      for (Value start : program.getInto())
        if (auto starter = start.getDefiningOp<tile::ProgramOp>();
            starter && starter.getSkipped() && !program->hasAttr(kLaunchedApartAttr))
          launchedBy[starter] = program;
    // A launch has two programs at most. One that has to be launched earlier may read another's
    // results.
    auto cannotWait = [&](const auto &pair) {
      auto sharesLast = [&](const auto &other) { return other.second == pair.second; };
      return llvm::find_if(launchedBy, sharesLast)->first != pair.first ||
             !llvm::all_of(pair.first->getResults(),
                           [&](Value result) { return isReadAfter(result, pair.second); });
    };
    for (auto it = launchedBy.begin(); it != launchedBy.end();) {
      bool isAlone = cannotWait(*it);
      it = isAlone ? (launchedBy.erase(it), launchedBy.begin()) : std::next(it);
    }
    for (auto [starter, last] : launchedBy) {
      starters[last] = cast<tile::ProgramOp>(starter);
      launchedLater.insert(starter);
    }
  }

  /// Whether `result`, or what starts as it, is read by what is launched after `last` alone.
  bool isReadAfter(Value result, Operation *last) {
    return llvm::all_of(result.getUses(), [&](OpOperand &use) {
      Operation *reader = use.getOwner();
      if (auto program = dyn_cast<tile::ProgramOp>(reader))
        for (auto [start, whole] :
             llvm::zip(program.getIntoMutable(), program.getResultsFromInto()))
          if (&start == &use)
            return program == last || isReadAfter(whole, last);
      Operation *launch = launchedBy.lookup(reader);
      return isa<tensor::DimOp>(reader) || last->isBeforeInBlock(launch ? launch : reader);
    });
  }

  /// Verifies that the saved states have the slots that the scan's chunks need. Another scan, or
  /// the caller, may have saved them for other sizes.
  template <typename Scan> LogicalResult checkSlots(Scan scan, int64_t every) {
    Value first = scan.getSequences().front();
    DimExpr sequences = sequencesOf(scan);
    DimExpr wanted{
        DimExpr::Kind::slots, every, {}, {shapes.dim(first, 0), shapes.dim(first, 1), sequences}};
    auto isNumber = [](const DimExpr &e) { return e.kind == DimExpr::Kind::constant; };
    if (llvm::all_of(wanted.factors, isNumber))
      wanted = {DimExpr::Kind::constant,
                wanted.factors[0].value * wanted.factors[1].value / every + wanted.factors[2].value,
                {},
                {}};
    for (ValueRange states : {ValueRange(scan.getSavedStates()), ValueRange(scan.getSaves())})
      for (Value state : states)
        if (DimExpr found = sizeOf(state, 0); !(found == wanted))
          return scan.emitError() << "its chunks need saved states with " << wanted.str()
                                  << " slots, but one has " << found.str();
    return success();
  }

  /// Whether a scan of so many steps as a launch has is one step in a server's inner loop. One of a
  /// derivative is not, nor one over segments, whose number is computed.
  bool isForDecoding(ScanOp scan) {
    return !function->hasAttr(kDerivativeOfAttr) &&
           sizeOf(scan.getSequences().front(), 1).kind == DimExpr::Kind::symbol;
  }

  /// Whether a scan gets a kernel for a single step, and one for more.
  struct StepCounts {
    bool one, more;
  };
  StepCounts countsOf(ScanOp scan) {
    int64_t steps = cast<RankedTensorType>(scan.getSequences().front().getType()).getDimSize(1);
    bool mayBeOne = !scan.getCuSeqlens() && !scan.getSegments() &&
                    (steps == 1 || (ShapedType::isDynamic(steps) && isForDecoding(scan)));
    bool mayBeMore = scan.getCuSeqlens() || scan.getSegments() || steps != 1;
    // Launches of one step take no large tiles.
    mayBeOne &= !scan->hasAttr(kLargeTilesAttr);
    // A scan beside a block program is there for the steps that the program does not take.
    if (auto it = alternatives.find(scan); it != alternatives.end()) {
      mayBeOne = it->second.single;
      mayBeMore &= !it->second.single;
    }
    return {mayBeOne, mayBeMore};
  }

  /// Emits one kernel for any number of steps, or one for a single step, or both with a choice by
  /// T, as far as T is known.
  LogicalResult lowerScan(ScanOp scan, const std::string &name) {
    if (scan.getSaveEvery() && failed(checkSlots(scan, *scan.getSaveEvery())))
      return failure();
    Value first = scan.getSequences().front();
    auto [mayBeOne, mayBeMore] = countsOf(scan);
    if (!maker.separatesSingleSteps()) {
      FailureOr<Kernel> kernel = makeScan(scan, name, /*singleStep=*/false);
      return failed(kernel) ? failure() : launch(scan, *kernel);
    }
    // Where both may be, each is launched on a condition.
    bool both = mayBeOne && mayBeMore;
    auto makeAndLaunch = [&](const std::string &name, bool isSingle) -> LogicalResult {
      Value condition;
      if (both) {
        FailureOr<Value> asked = isAskedFor(scan, {first, isSingle});
        if (failed(asked))
          return failure();
        condition = *asked;
      }
      FailureOr<Kernel> kernel = makeScan(scan, name, isSingle);
      return failed(kernel) ? failure() : launch(scan, *kernel, condition);
    };
    if (mayBeOne && failed(makeAndLaunch(name + "_one", /*isSingle=*/true)))
      return failure();
    return mayBeMore ? makeAndLaunch(name, /*isSingle=*/false) : success();
  }

  /// A kernel of a single step stores the last rows of what it reads.
  LogicalResult lowerLastRows(LastRowsOp last, const std::string &name) {
    ScanOp scan = scanOfLastRows(last);
    Value condition;
    if (scan && maker.separatesSingleSteps() && countsOf(scan).one) {
      Value rows = scan.getSequences().front();
      if (cast<RankedTensorType>(rows.getType()).getDimSize(1) == 1)
        return success();
      FailureOr<Value> asked = isAskedFor(last, {rows, /*single=*/false});
      if (failed(asked))
        return failure();
      condition = *asked;
    }
    return launch(last, maker.makeShift(last, kernels, name), condition);
  }

  /// Whether a scan's kernel does what `op`, on a pool, does.
  bool isDoneByScan(Operation *op) {
    auto read = dyn_cast<ReadStatesOp>(op);
    Operation *other = !read                       ? op->getOperand(0).getDefiningOp()
                       : read.getStates().hasOneUse() ? *read.getStates().user_begin()
                                                      : nullptr;
    auto scan = dyn_cast_or_null<ScanOp>(other);
    return scan && PooledScan(scan).holds(op);
  }

  LogicalResult lowerPool(Operation &op, const std::string &name) {
    Value pool = isa<ReadStatesOp>(op) ? op.getOperand(0) : op.getOperand(1);
    if (isa<ZeroSkippedOp>(op) && isa<BlockArgument>(op.getOperand(0)))
      return op.emitError("must have rows that the function computes");
    auto write = dyn_cast<WriteStatesOp>(op);
    if (write && !isa<BlockArgument>(pool))
      return op.emitError("the pool must be an argument of the function, whose memory is written");
    if (auto zero = dyn_cast<ZeroSkippedOp>(op); zero && !zero.getRows().hasOneUse())
      return op.emitError("has the memory of its rows, which another op uses too");
    for (Operation *user : pool.getUsers())
      if (write && user != &op && !user->isBeforeInBlock(&op) &&
          !isa<ZeroSkippedOp, tensor::DimOp>(user))
        return user->emitError("reads a pool that has been written in its place")
                   .attachNote(op.getLoc())
               << "it is written here";
    if (isDoneByScan(&op))
      return success();
    FailureOr<Kernel> kernel = maker.makePoolKernel(&op, kernels, name);
    return failed(kernel) ? failure() : launch(&op, *kernel);
  }

  /// Launches a kernel in which all sizes are arguments of their own.
  LogicalResult launchSmall(Operation &op, llvm::function_ref<FailureOr<Kernel>()> make,
                            Value condition = Value()) {
    auto anySize = [](Value, unsigned) { return std::string(); };
    FailureOr<Kernel> kernel = shared.get({&op}, /*singleStep=*/false, anySize, make);
    return failed(kernel) ? failure() : launch(&op, *kernel, condition);
  }

  /// Whether a launch has no heads whose terms `sum` sums; null where types say that there are.
  FailureOr<Value> hasNoHeads(SumHeadsOp sum) {
    auto terms = cast<RankedTensorType>(sum.getTensor().getType());
    if (terms.getDimSize(sum.getDim()) > 0)
      return Value();
    FailureOr<Value> heads = hostSize(sum, sum.getTensor(), sum.getDim());
    if (failed(heads))
      return failure();
    return arith::CmpIOp::create(b, sum.getLoc(), arith::CmpIPredicate::eq, *heads, index(0))
        .getResult();
  }

  LogicalResult lower(Operation &op) {
    std::string prefix = function.getName().str();
    if (isa<ReadStatesOp, WriteStatesOp, ZeroSkippedOp>(op))
      return lowerPool(op, prefix + "_pool" + std::to_string(numPlain++));
    if (auto scan = dyn_cast<ScanOp>(op))
      return lowerScan(scan, prefix + "_scan" + std::to_string(numScans++));
    if (auto program = dyn_cast<tile::ProgramOp>(op)) {
      names[program] = prefix + "_blocks" + std::to_string(numBlocks++);
      bool isAlone = !starters.contains(program);
      return launchedLater.contains(program) || (isAlone && skipsAll(program))
                 ? success()
                 : lowerBlocks(program);
    }
    std::string number = std::to_string(numPlain);
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      ++numPlain;
      return launchSmall(
          op, [&] { return maker.makeElementwise(generic, kernels, prefix + "_map" + number); });
    }
    if (auto sum = dyn_cast<SumHeadsOp>(op)) {
      if (sumsSingleTerms(sum))
        return success();
      // A program's blocks sum in turn, and of no heads there are no blocks.
      FailureOr<Value> noHeads =
          isSummedByProgram(sum) ? hasNoHeads(sum) : FailureOr<Value>(Value());
      if (failed(noHeads) || (isSummedByProgram(sum) && !*noHeads))
        return LogicalResult(noHeads);
      ++numPlain;
      auto make = [&] {
        return FailureOr<Kernel>(maker.makeSumHeads(sum, kernels, prefix + "_heads" + number));
      };
      return launchSmall(op, make, *noHeads);
    }
    if (auto shift = dyn_cast<ShiftOp>(op); shift && isDoneByLoads(shift))
      return success();
    if (auto last = dyn_cast<LastRowsOp>(op))
      return lowerLastRows(last, prefix + "_rows" + std::to_string(numPlain++));
    if (isa<ShiftOp>(op))
      return launch(&op,
                    maker.makeShift(&op, kernels, prefix + "_rows" + std::to_string(numPlain++)));
    if (isa<CombineSegmentsOp, SegmentStartsOp>(op)) {
      ++numPlain;
      std::string name = prefix + (isa<CombineSegmentsOp>(op) ? "_combine" : "_starts") + number;
      return launchSmall(op, [&] { return maker.makeSegments(&op, kernels, name); });
    }
    if (isa<RepeatHeadsOp, FirstHeadsOp>(op) && maker.groupsStates() && isDoneByProgram(&op))
      return success();
    if (isa<RepeatHeadsOp, FirstHeadsOp>(op)) {
      ++numPlain;
      return launchSmall(op, [&] {
        return FailureOr<Kernel>(maker.makeHeads(&op, kernels, prefix + "_heads" + number));
      });
    }
    // Constants and fills are read where they are used. Sizes are computed from the arguments.
    if (isa<linalg::FillOp, tensor::CastOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp,
            tensor::EmptyOp, tensor::DimOp, tile::ChooseOp>(op) ||
        isReshapeBySizes(&op) || op.hasTrait<OpTrait::ConstantLike>() ||
        llvm::all_of(op.getResultTypes(), llvm::IsaPred<IndexType>))
      return success();
    return op.emitError() << "'" << op.getName()
                          << "' cannot be compiled; a compiled function holds ejk's recurrences, "
                             "linalg.generic, and elementwise arith and math on tensors";
  }

  KernelMaker &maker;
  SharedKernels &shared;
  /// The last program that starts from another's results, by the latter.
  llvm::MapVector<Operation *, Operation *> launchedBy;
  /// By a program that starts from another's results: the other, if they share a launch; and all
  /// these.
  llvm::DenseMap<Operation *, tile::ProgramOp> starters;
  llvm::DenseSet<Operation *> launchedLater;
  /// Of the programs' kernels.
  llvm::DenseMap<Operation *, std::string> names;
};
} // namespace

/// The functions of `module`; last those that need sizes to be equal, say: the kernels of the others
/// serve them, too.
static SmallVector<func::FuncOp> inOrderOfSharing(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (bool needs : {false, true})
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr(kNeedsAttr) == needs)
        functions.push_back(function);
  return functions;
}

FailureOr<LoweredCounts> ejk::lowerFunctions(ModuleOp module, KernelMaker &maker) {
  constexpr llvm::StringLiteral name = "kernels";
  if (Operation *known = module.lookupSymbol(name)) {
    known->emitError() << "has the name '" << name << "', which the module of all kernels takes";
    return failure();
  }
  OpBuilder b(module.getBodyRegion());
  auto kernels = gpu::GPUModuleOp::create(b, module.getLoc(), name);
  LoweredCounts counts;
  SharedKernels shared;
  // Kernels that later functions share are known by the ops that they were made of.
  SmallVector<OwningOpRef<func::FuncOp>> lowered;
  for (func::FuncOp function : inOrderOfSharing(module)) {
    // Callers cannot reach a private function. A call of it in another function is an error at that
    // op.
    if (function.isPrivate())
      continue;
    if (!function.getBody().hasOneBlock())
      return function.emitError("a compiled function has a body of one block"), failure();
    ProgramBuilder builder(function, kernels, maker, shared);
    if (failed(builder.run()))
      return failure();
    counts.scans += builder.numScans;
    counts.programs += builder.numBlocks;
    counts.plain += builder.numPlain;
    function->remove();
    lowered.push_back(function);
  }
  counts.shared = shared.numShared;
  module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(), b.getUnitAttr());
  return counts;
}
