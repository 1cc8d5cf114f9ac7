//===- MakeAlternatives.cpp - several ways to compute a function -----------===//
#include "dialect/ejk/Ejk.h"
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "dialect/tile/Tile.h"
#include "lowering/Passes.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/Conditions.h"
#include "lowering/select/StrongGates.h"
#include "lowering/target/CostModel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include "passes/scan/ExpandQueries.h"
#include "passes/scan/OwnHeads.h"
#include "passes/scan/ScanProperties.h"
#include <set>

namespace ejk {
#define GEN_PASS_DEF_MAKEALTERNATIVES
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

StringRef ejk::scheduleOf(func::FuncOp function) {
  auto schedule = function ? function->getAttrOfType<StringAttr>(kScheduleAttr) : StringAttr();
  return schedule ? schedule.getValue() : StringRef();
}

StringRef ejk::entryOf(func::FuncOp function) {
  auto entry = function->getAttrOfType<StringAttr>(kAlternativeOfAttr);
  return entry ? entry.getValue() : function.getName();
}

StringRef ejk::originOf(func::FuncOp function) {
  if (!function)
    return {};
  for (StringRef name : {StringRef(kDerivativeOfAttr), StringRef(kForwardOfAttr)})
    if (auto origin = function->getAttrOfType<StringAttr>(name))
      return origin.getValue();
  return entryOf(function);
}

bool ejk::hasStepAlternative(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  return llvm::any_of(module.getOps<func::FuncOp>(), [&](func::FuncOp other) {
    return entryOf(other) == entryOf(function) && scheduleOf(other) == kStepSchedule;
  });
}

func::FuncOp ejk::cloneAlternative(func::FuncOp function, StringRef suffix, StringRef schedule,
                                   bool before) {
  auto module = function->getParentOfType<ModuleOp>();
  OpBuilder b(function);
  if (!before)
    b.setInsertionPointAfter(function);
  auto clone = cast<func::FuncOp>(b.clone(*function));
  std::string wanted = (function.getName() + "_" + suffix).str(), name = wanted;
  for (unsigned n = 2; module.lookupSymbol(name); ++n)
    name = wanted + std::to_string(n);
  clone.setName(name);
  clone->setAttr(kScheduleAttr, b.getStringAttr(schedule));
  clone->setAttr(kAlternativeOfAttr, b.getStringAttr(entryOf(function)));
  return clone;
}

namespace {
/// Sizes that an alternative takes to be equal: `few` is the size of a head dimension that
/// several of `many` may share.
struct SharedHeads {
  SumHeadsOp sum;
  std::string few, many;
};

struct MakeAlternativesPass : ejk::impl::MakeAlternativesBase<MakeAlternativesPass> {
  using MakeAlternativesBase::MakeAlternativesBase;

  void runOnOperation() override {
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      if (function.isPrivate() || function.isDeclaration() || function->hasAttr(kScheduleAttr) ||
          function.getBody().getOps<ScanOp>().empty())
        continue;
      Builder b(&getContext());
      if (headsOnly) {
        if (failed(makeForCpu(function)))
          return signalPassFailure();
        continue;
      }
      if (schedule != Schedule::automatic) {
        StringRef name = schedule == Schedule::split ? kSplitSchedule : kChunkSchedule;
        bool inTwo = bool(makeInTwoTerms(function, name));
        func::FuncOp direct = makeDirect(function, name);
        bool byGates = false;
        for (func::FuncOp each : {direct, function})
          if (each && schedule == Schedule::chunk)
            byGates |= makeByGates(each);
        if (inTwo || direct || byGates)
          function->setAttr(kScheduleAttr, b.getStringAttr(name));
        continue;
      }
      cloneAlternative(function, kStepSchedule, kStepSchedule, /*before=*/false);
      for (ScanOp scan : scansWithQueries(function))
        expandQueries(scan);
      if (failed(separateStates(function)))
        return signalPassFailure();
      function->setAttr(kScheduleAttr, b.getStringAttr(kChunkSchedule));
      if (ArrayAttr when = enoughRows(function))
        function->setAttr(kWhenAttr, when);
      func::FuncOp inTwoTerms = makeInTwoTerms(function, kChunkSchedule);
      SplitOverTimeOptions coarse, fine;
      bool corrects = llvm::any_of(function.getBody().getOps<ScanOp>(), correctsState);
      if (corrects)
        coarse.most = cost::kMostRowsOfCorrectedSegment;
      coarse.forget = fine.forget = cost::kForgettingGate;
      fine.most = cost::kMostRowsOfFineSegment;
      fine.count = cost::kFineSegments;
      fine.packed = cost::kRowsOfFinePackedSegment;
      SplitOverTimeOptions middle = coarse;
      middle.count = cost::kMiddleSegments;
      SplitOverTimeOptions halves, whole;
      halves.halves = whole.whole = true;
      if (failed(makeSplit(function, kFineSplitSchedule, fine)) ||
          (corrects && failed(makeSplit(function, kFineSplitSchedule, middle))) ||
          failed(makeSplit(function, kSplitSchedule, coarse)) ||
          failed(makeSplit(function, kSplitSchedule, halves, /*restarts=*/true)) ||
          (corrects && failed(makeSplit(function, kSplitSchedule, whole, /*restarts=*/true))))
        return signalPassFailure();
      // A copy for few heads has any number of rows where the recurrence corrects its state. Few
      // heads need short segments to fill a device, and one copy more is code enough.
      if (inTwoTerms && corrects && failed(makeSplit(inTwoTerms, kSplitSchedule, fine)))
        return signalPassFailure();
      for (func::FuncOp inChunks : {function, inTwoTerms})
        if (failed(shareKernels(inChunks)))
          return signalPassFailure();
      func::FuncOp direct = makeDirect(function, kChunkSchedule);
      for (func::FuncOp inChunks : {direct, function})
        if (inChunks)
          makeByGates(inChunks);
      ++numFunctions;
    }
    markForWeakGates();
  }

  /// Functions beside one that chooses by gates get the programs that it has, so that kernels serve
  /// both.
  void markForWeakGates() {
    Builder b(&getContext());
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp function : functions) {
      auto choosesByGates = [&](func::FuncOp other) {
        return other->hasAttr(kByGatesAttr) && entryOf(other) == entryOf(function) &&
               (scheduleOf(other) == scheduleOf(function) ||
                (scheduleOf(other) == kByGatesSchedule && scheduleOf(function) == kChunkSchedule));
      };
      bool mayShare = !function->hasAttr(kTwoTermsAttr) && !function->hasAttr(kByGatesAttr);
      if (mayShare && llvm::any_of(functions, choosesByGates))
        function->setAttr(kForWeakGatesAttr, b.getUnitAttr());
    }
  }

  /// For chunks. Step by step all states of a scan are computed in one kernel.
  LogicalResult separateStates(func::FuncOp function) {
    OpPassManager pm(func::FuncOp::getOperationName());
    pm.addPass(createSeparateStates());
    return runPipeline(pm, function);
  }

  /// Operands in two terms where gradients are of few heads (`countHeads`): in the function itself
  /// where sizes that are known say so, else in a copy that needs such sizes, which is returned.
  func::FuncOp makeInTwoTerms(func::FuncOp function, StringRef schedule) {
    HeadNumbers heads = countHeads(function);
    if (twoTerms == TwoTerms::fewChannels || !heads.exist ||
        (twoTerms == TwoTerms::fewHeads && !heads.mayBeFew))
      return {};
    Builder b(&getContext());
    ++numInTwoTerms;
    if (twoTerms == TwoTerms::always || !heads.areFew) {
      function->setAttr(kTwoTermsAttr, b.getUnitAttr());
      return {};
    }
    func::FuncOp copy = cloneAlternative(function, "two_terms", schedule, /*before=*/true);
    copy->setAttr(kTwoTermsAttr, b.getUnitAttr());
    copy->setAttr(kNeedsAttr, heads.areFew);
    return copy;
  }

  /// By chunks, with `chunks`, what has matmuls of bf16; and without sums of one term.
  LogicalResult makeForCpu(func::FuncOp function) {
    Builder b(&getContext());
    bool inChunks = chunks && hasNarrowRows(function) && !isShort(function) &&
                    (schedule == Schedule::chunk || roundsLittle(function));
    // Kernels give f32 sums, so that only those have nothing left to do.
    bool sums = llvm::any_of(findShared(function), [](SharedHeads heads) {
      return getElementTypeOrSelf(heads.sum.getType()).isF32();
    });
    if (!inChunks && !sums)
      return success();
    function->setAttr(kScheduleAttr, b.getStringAttr(kStepSchedule));
    if (inChunks) {
      cloneAlternative(function, kStepSchedule, kStepSchedule, /*before=*/false);
      if (failed(separateStates(function)))
        return failure();
      function->setAttr(kScheduleAttr, b.getStringAttr(kChunkSchedule));
      if (ArrayAttr when = enoughRows(function))
        function->setAttr(kWhenAttr, when);
    }
    if (sums)
      makeDirect(function, scheduleOf(function));
    ++numFunctions;
    return success();
  }

  /// Whether a scan that is no derivative's has rows of bf16.
  static bool hasNarrowRows(func::FuncOp function) {
    return !function->hasAttr(kDerivativeOfAttr) &&
           llvm::any_of(function.getBody().getOps<ScanOp>(), [](ScanOp scan) {
             return getElementTypeOrSelf(scan.getSequences().front().getType()).isBF16();
           });
  }

  /// Whether a length that is known is too short for chunks on a CPU.
  static bool isShort(func::FuncOp function) {
    return llvm::any_of(function.getBody().getOps<ScanOp>(), [](ScanOp scan) {
      int64_t rows = cast<RankedTensorType>(scan.getSequences().front().getType()).getDimSize(1);
      return !ShapedType::isDynamic(rows) && rows < cost::kFewestRowsForChunksOnCpu;
    });
  }

  /// Whether chunks keep outputs within 3e-3 of their norm: their matmuls round the state and the
  /// weights. Gates per channel scale rows of 16 bits, which are then rounded, too: up to 3.8e-3.
  static bool roundsLittle(func::FuncOp function) {
    return llvm::all_of(function.getBody().getOps<ScanOp>(), [](ScanOp scan) {
      DecayClass decays = getDecayClass(scan);
      return decays == DecayClass::none || decays == DecayClass::constant ||
             decays == DecayClass::scalar;
    });
  }

  /// The function over segments of its sequences, of which scans may restart; none where no scan
  /// can be divided, or a length that is known is never worth it.
  LogicalResult makeSplit(func::FuncOp function, StringRef schedule, SplitOverTimeOptions options,
                          bool restarts = false) {
    auto isPacked = [](ScanOp scan) { return bool(scan.getCuSeqlens()); };
    bool cannotHalve =
        options.halves && llvm::any_of(function.getBody().getOps<ScanOp>(), isPacked);
    if (usesPools(function) || cannotHalve)
      return success();
    Builder b(&getContext());
    StringRef suffix = schedule == kFineSplitSchedule ? "fine_split" : "split";
    func::FuncOp split = cloneAlternative(function, suffix, schedule, /*before=*/true);
    OpPassManager pm(func::FuncOp::getOperationName());
    options.remarks = false;
    if (restarts)
      pm.addPass(createRestartScans(RestartScansOptions{cost::kRowsToRestart}));
    pm.addPass(createSplitOverTime(options));
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    if (failed(runPipeline(pm, split)))
      return failure();
    ArrayAttr when = splitPays(split, /*inOneRound=*/schedule == kFineSplitSchedule);
    if (!when) {
      split.erase();
      return success();
    }
    split->setAttr(kWhenAttr, when);
    // A copy for few heads sums over those that share a key: one kernel less for more code.
    func::FuncOp direct = split->hasAttr(kNeedsAttr) ? func::FuncOp() : makeDirect(split, schedule);
    // One kernel for all gradients takes states that the forward pass saves (SelectSchedule.cpp).
    bool mayTakeSaves = split->hasAttr(kDerivativeOfAttr) &&
                        llvm::none_of(split.getBody().getOps<ScanOp>(), correctsState);
    for (func::FuncOp each : {direct, split})
      if (each && !mayTakeSaves && mayBeByGates(each))
        each->setAttr(kByGatesAttr, b.getUnitAttr());
    ++numSplit;
    return success();
  }

  /// Makes segments of `function`'s whole sequences where it was made split: then the kernels of segments
  /// scan sequences, too.
  LogicalResult shareKernels(func::FuncOp function) {
    auto isSplit = [&](func::FuncOp other) {
      StringRef schedule = scheduleOf(other);
      return entryOf(other) == entryOf(function) &&
             other->getAttr(kNeedsAttr) == function->getAttr(kNeedsAttr) &&
             (schedule == kSplitSchedule || schedule == kFineSplitSchedule);
    };
    if (!function || llvm::none_of(getOperation().getOps<func::FuncOp>(), isSplit))
      return success();
    OpPassManager pm(func::FuncOp::getOperationName());
    SplitOverTimeOptions whole;
    whole.whole = true;
    whole.remarks = false;
    pm.addPass(createSplitOverTime(whole));
    return runPipeline(pm, function);
  }

  /// Only one kernel may read a pool's states.
  static bool usesPools(func::FuncOp function) {
    return function
        .walk([](Operation *op) {
          return isa<ReadStatesOp, WriteStatesOp>(op) ? WalkResult::interrupt()
                                                      : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// A function and its derivative, each of which may be the other: what one saves the other reads,
  /// so that both must choose alike.
  SmallVector<func::FuncOp> choosingAlike(func::FuncOp function) {
    SmallVector<func::FuncOp> functions = {function};
    auto of = function->getAttrOfType<StringAttr>(kDerivativeOfAttr);
    auto other = of ? getOperation().lookupSymbol<func::FuncOp>(of.getValue())
                    : findDerivative(getOperation(), function.getName());
    if (other && !other.isDeclaration())
      functions.push_back(other);
    // In one order for both.
    llvm::sort(functions, [](func::FuncOp a, func::FuncOp b) { return a.getName() < b.getName(); });
    return functions;
  }

  /// That each sequence has the rows that chunks are worth. Of packed sequences that cannot be
  /// told, and what one of them gives must not depend on the others'.
  ArrayAttr enoughRows(func::FuncOp function) {
    Builder b(&getContext());
    std::set<std::string> symbols;
    for (func::FuncOp each : choosingAlike(function)) {
      ShapeAnalysis shapes(each);
      for (ScanOp scan : each.getBody().getOps<ScanOp>()) {
        DimExpr rows = shapes.dim(scan.getSequences().front(), 1);
        if (!scan.getCuSeqlens() && rows.kind == DimExpr::Kind::symbol)
          symbols.insert(rows.symbol);
      }
    }
    ArrayAttr all;
    for (const std::string &rows : symbols)
      all = both(b, all,
                 condition(b, ">=", b.getStringAttr(rows),
                           b.getI64IntegerAttr(headsOnly ? cost::kFewestRowsForChunksOnCpu
                                                         : cost::kFewestRowsForChunks)));
    return all;
  }

  /// Those sums over the heads that share one whose terms a scan gives for them alone.
  static SmallVector<SharedHeads> findShared(func::FuncOp function) {
    SmallVector<SharedHeads> shared;
    ShapeAnalysis shapes(function);
    for (SumHeadsOp sum : function.getBody().getOps<SumHeadsOp>()) {
      DimExpr many = shapes.dim(sum.getTensor(), sum.getDim());
      DimExpr few = shapes.dim(sum.getLike(), sum.getDim());
      auto scan = sum.getTensor().getDefiningOp<ScanOp>();
      bool isOutput = scan && llvm::is_contained(scan.getOutputs(), sum.getTensor());
      if (isOutput && sum.getTensor().hasOneUse() && many.kind == DimExpr::Kind::symbol &&
          few.kind == DimExpr::Kind::symbol && few.symbol != many.symbol)
        shared.push_back({sum, few.symbol, many.symbol});
    }
    return shared;
  }

  /// Where no heads share one, each gives its result itself, in the result's type: nothing is
  /// left to sum. Null where there are no such sums.
  func::FuncOp makeDirect(func::FuncOp function, StringRef schedule) {
    if (findShared(function).empty())
      return {};
    func::FuncOp direct = cloneAlternative(function, "direct", schedule, /*before=*/true);
    Builder b(&getContext());
    ArrayAttr needs;
    llvm::StringMap<std::string> renamed;
    for (const SharedHeads &heads : findShared(direct)) {
      if (!renamed.try_emplace(heads.few, heads.many).second && renamed[heads.few] != heads.many)
        continue;
      if (!headsOnly)
        replaceByTerm(heads.sum);
    }
    for (const auto &[few, many] : renamed)
      needs = both(b, needs, condition(b, "=", b.getStringAttr(many), b.getStringAttr(few)));
    direct->setAttr(kNeedsAttr, needs);
    if (!headsOnly)
      renameSizes(direct, renamed);
    ++numDirect;
    return direct;
  }

  /// Whether programs of `function` may be chosen by gates. Terms of heads that share a row are
  /// summed by one kernel, which has all heads, as states that heads share are read by one; and few
  /// heads take little time.
  bool mayBeByGates(func::FuncOp function) {
    auto isOfSharedState = [](Operation &op) { return isa<RepeatHeadsOp, FirstHeadsOp>(op); };
    if (llvm::any_of(function.getBody().front(), isOfSharedState))
      return false;
    return byGates != ByGates::never && mayChooseByGates(function) && !usesPools(function) &&
           !function->hasAttr(kTwoTermsAttr) && findShared(function).empty();
  }

  /// A copy that chooses programs by the gates of each head, for launches of rows enough to pay for
  /// its kernels; the function itself where sizes that are known say so. Returns whether there is a
  /// copy.
  bool makeByGates(func::FuncOp function) {
    if (!mayBeByGates(function))
      return false;
    Builder b(&getContext());
    ShapeAnalysis shapes(function);
    auto scans = function.getBody().getOps<ScanOp>();
    int64_t fewest = llvm::any_of(scans, correctsState) ? cost::kFewestRowsByGatesOfCorrected
                                                        : cost::kFewestRowsByGates;
    // Of each recurrence, as a derivative has them in another order.
    ArrayAttr when = function->getAttrOfType<ArrayAttr>(kWhenAttr);
    SmallVector<Attribute> sizes;
    for (ScanOp scan : scans) {
      Value first = scan.getSequences().front();
      DimExpr rows = shapes.dim(first, 0);
      for (unsigned dim : {1, 2})
        rows = DimExpr::make(DimExpr::Operator::multiply, rows, shapes.dim(first, dim));
      bool isKnown = rows.kind == DimExpr::Kind::constant;
      Attribute size = isKnown ? Attribute() : sizeAttribute(b, rows);
      if (byGates != ByGates::always && (isKnown ? rows.value < fewest : !size))
        return false;
      if (!size || llvm::is_contained(sizes, size))
        continue;
      sizes.push_back(size);
      when = both(b, when, condition(b, ">=", size, b.getI64IntegerAttr(fewest)));
    }
    ++numByGates;
    if (byGates == ByGates::always || sizes.empty()) {
      function->setAttr(kByGatesAttr, b.getUnitAttr());
      return false;
    }
    func::FuncOp copy = cloneAlternative(function, "by_gates", kByGatesSchedule, /*before=*/true);
    copy->setAttr(kByGatesAttr, b.getUnitAttr());
    copy->setAttr(kWhenAttr, when);
    return true;
  }

  /// In the descriptions of all arguments and results. What they must satisfy is said where they
  /// have names of their own.
  void renameSizes(func::FuncOp function, const llvm::StringMap<std::string> &renamed) {
    Builder b(&getContext());
    auto rename = [&](ArrayAttr shape) {
      return b.getArrayAttr(llvm::map_to_vector(shape, [&](Attribute size) -> Attribute {
        auto found = renamed.find(cast<StringAttr>(size).getValue());
        return found == renamed.end() ? size : b.getStringAttr(found->second);
      }));
    };
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto shape = function.getArgAttrOfType<ArrayAttr>(i, kShapeAttr))
        function.setArgAttr(i, kShapeAttr, rename(shape));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto shape = function.getResultAttrOfType<ArrayAttr>(i, kShapeAttr))
        function.setResultAttr(i, kShapeAttr, rename(shape));
    function->setAttr(kConstraintsAttr, b.getArrayAttr({}));
  }
};
} // namespace
