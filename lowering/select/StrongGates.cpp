//===- StrongGates.cpp - programs for strong gates beside those for weak ---===//
#include "lowering/select/StrongGates.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Names.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "passes/program/FallBackToShortChunks.h"
#include "passes/scan/ScanProperties.h"
#include "passes/scan/SegmentViews.h"

using namespace mlir;
using namespace ejk;

bool ejk::mayChooseByGates(func::FuncOp function) {
  return llvm::any_of(function.getBody().getOps<ScanOp>(),
                      [](ScanOp scan) { return mayLeaveRange(scan, cost::kChunkLengths[0]); });
}

/// The results of a program in the order of the scan's that it computes. Those of the scan that are
/// unused have none.
static SmallVector<Value> usedResults(ScanOp scan) {
  SmallVector<Value> used;
  for (ValueRange results : {ValueRange(scan.getOutputs()), ValueRange(scan.getFinalStates())})
    llvm::copy_if(results, std::back_inserter(used),
                  [](Value result) { return !result.use_empty(); });
  llvm::append_range(used, scan.getSaves());
  return used;
}

/// The flags that `made` computes, of an earlier program that computes them, too: then `made` is
/// erased. In a derivative, whose passes go over the same rows in both directions, those of either
/// direction do.
static GateFlags shared(GateFlags made) {
  auto own = made.weak.getDefiningOp<tile::ProgramOp>();
  bool isDerivative = own->getParentOp()->hasAttr(kDerivativeOfAttr);
  for (auto other : own->getBlock()->getOps<tile::ProgramOp>()) {
    if (other == own)
      break;
    if (other->getOperands() == own->getOperands() &&
        other->getResultTypes() == own->getResultTypes() &&
        other->getAttrDictionary() == own->getAttrDictionary() &&
        other.getFinalStates().size() == 2 &&
        (isDerivative ||
         OperationEquivalence::isRegionEquivalentTo(&other.getBody(), &own.getBody(),
                                                    OperationEquivalence::IgnoreLocations))) {
      own.erase();
      return {other.getFinalStates()[0], other.getFinalStates()[1]};
    }
  }
  return made;
}

FailureOr<StrongGates> StrongGates::make(GroupPrograms &makers, ArrayRef<ScanOp> scans,
                                         ArrayRef<tile::ProgramOp> programs, bool maySaveEntries,
                                         bool savesEveryEntry) {
  StrongGates none, made;
  auto function = ScanOp(scans.front())->getParentOfType<func::FuncOp>();
  auto sumsHeads = [](ScanOp scan) {
    return llvm::any_of(scan->getUsers(), [](Operation *user) { return isa<SumHeadsOp>(user); });
  };
  auto isPlain = [](tile::ProgramOp program) {
    return program.getSlices() == 1 && !program.getTrailing();
  };
  bool byGates = function->hasAttr(kByGatesAttr);
  if ((!byGates && !function->hasAttr(kForWeakGatesAttr)) || makers.f32MatmulsOf(scans) ||
      llvm::any_of(scans, sumsHeads) || !llvm::all_of(programs, isPlain))
    return none;
  auto guarded = llvm::find_if(programs, guardsGates);
  if (guarded == programs.end())
    return none;
  int64_t chunk = tile::ProgramOp(programs.front()).getChunk();
  FailureOr<bool> fit = made.makePrograms(makers, scans, chunk, maySaveEntries, savesEveryEntry);
  if (failed(fit))
    return failure();
  // Also where all gates are taken to be weak, so that programs are the same.
  std::optional<GateFlags> flags =
      *fit ? makeGateFlags(*guarded, cost::kShareOfWeakGates) : std::nullopt;
  bool isConnected = flags && made.connect(scans, programs);
  if (savesEveryEntry)
    setSaveEvery(scans, chunk);
  if (flags && !(isConnected && byGates))
    flags->weak.getDefiningOp()->erase();
  if (!isConnected) {
    made.erase();
    return none;
  }
  if (byGates)
    made.flags = shared(*flags);
  for (auto program : function.getBody().getOps<tile::ProgramOp>())
    if (!llvm::is_contained(programs, program))
      made.others.insert(program);
  return made;
}

/// Tries chunks of each length. Returns whether there are programs now.
FailureOr<bool> StrongGates::makePrograms(GroupPrograms &makers, ArrayRef<ScanOp> scans,
                                          int64_t weakChunk, bool maySaveEntries,
                                          bool savesEveryEntry) {
  // What scans cannot be is said of the programs that there are in any case.
  MLIRContext *context = ScanOp(scans.front()).getContext();
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() == DiagnosticSeverity::Remark);
  });
  // What others take is the state that the last of the chunks of the programs for weak gates is
  // entered with.
  auto isTaken = [&](ScanOp scan) {
    return llvm::any_of(scan.getSaves(), [&](Value saved) {
      return llvm::any_of(saved.getUsers(), [&](Operation *user) {
        return !isa<tile::ProgramOp>(user) && !llvm::is_contained(scans, dyn_cast<ScanOp>(user));
      });
    });
  };
  auto isForward = [](ScanOp scan) { return !scan.getReverse(); };
  bool savesForOthers = llvm::any_of(scans, isTaken), mayDiffer = llvm::all_of(scans, isForward);
  ChunkForm form;
  form.strongGate = cost::kStrongNatsPerRow;
  form.savedChunk = savesForOthers ? weakChunk : 0;
  form.maySaveEntries = maySaveEntries;
  for (bool mayLackRegisters : {false, true})
    for (int64_t chunk : makers.lengths()) {
      if (chunk <= cost::kChunkRowsOfStrongGates ||
          (savesForOthers && (mayDiffer ? chunk > weakChunk : chunk != weakChunk)))
        continue;
      if (savesEveryEntry)
        setSaveEvery(scans, chunk);
      FailureOr<bool> mayGoOn = makers.make(scans, chunk, mayLackRegisters, form, strong);
      if (failed(mayGoOn))
        return failure();
      if (!strong.empty()) {
        fallBacks = FallBacks(makers, scans, strong, form);
        if (failed(markApart(makers)))
          return failure();
        return true;
      }
      if (!*mayGoOn)
        return false;
    }
  return false;
}

/// Marks programs that share no launch. Fails after an error.
LogicalResult StrongGates::markApart(GroupPrograms &makers) {
  for (tile::ProgramOp program : strong) {
    if (failed(makers.fits(program, /*stages=*/1, /*mayLoadLate=*/true)))
      return failure();
    if (makers.need.registers > cost::kMostRegistersOfSharedLaunch)
      program->setAttr(kLaunchedApartAttr, UnitAttr::get(program.getContext()));
  }
  return success();
}

/// Lets all that is not of the group use what the programs for strong gates give, which goes into
/// what the others give. False, with nothing changed, where what is saved has other places in the
/// two.
bool StrongGates::connect(ArrayRef<ScanOp> scans, ArrayRef<tile::ProgramOp> programs) {
  auto isOfGroup = [&](Operation *user) {
    return llvm::is_contained(scans, dyn_cast<ScanOp>(user)) ||
           llvm::is_contained(programs, dyn_cast<tile::ProgramOp>(user)) ||
           llvm::is_contained(strong, dyn_cast<tile::ProgramOp>(user));
  };
  SmallVector<SmallVector<Value>> results = llvm::map_to_vector(scans, usedResults);
  SmallVector<SmallVector<int64_t>> given;
  for (auto [used, weak, made] : llvm::zip(results, programs, strong)) {
    SmallVector<int64_t> &numbers = given.emplace_back();
    int64_t firstSave = used.size() - tile::ProgramOp(made).getSaves().size();
    for (auto [i, result] : llvm::enumerate(used))
      if (!llvm::all_of(result.getUsers(), isOfGroup))
        numbers.push_back(i);
    if (!numbers.empty() && numbers.back() >= firstSave &&
        tile::ProgramOp(made).getSaveEvery() != tile::ProgramOp(weak).getSaveEvery())
      return false;
  }
  for (auto [used, made] : llvm::zip(results, strong))
    for (auto [i, result] : llvm::enumerate(used)) {
      Value own = made->getResult(i);
      result.replaceUsesWithIf(own, [&](OpOperand &use) {
        return !isOfGroup(use.getOwner()) ||
               llvm::is_contained(strong, dyn_cast<tile::ProgramOp>(use.getOwner()));
      });
    }
  for (auto [used, made, numbers] : llvm::zip(results, strong, given)) {
    SmallVector<Value> starts;
    for (int64_t number : numbers)
      starts.push_back(used[number]);
    tile::ProgramOp(made).getIntoMutable().assign(starts);
    if (!numbers.empty())
      tile::ProgramOp(made).setIntoResults(numbers);
  }
  return true;
}

void StrongGates::erase() {
  fallBacks.drop();
  for (tile::ProgramOp program : llvm::reverse(strong))
    program.erase();
  strong.clear();
}

/// Has `program` skip what the flags say; where there are none, each head if `otherwise` is 1.
static void skip(tile::ProgramOp program, Value flags, float otherwise) {
  if (flags)
    return program.getSkippedMutable().assign(flags);
  OpBuilder b(program);
  Value empty = emptyOfSegments(b, program.getLoc(), program.getSequences().front(),
                                program.getCuSeqlens(), SegmentsAttr(), {});
  Value flag = arith::ConstantOp::create(b, program.getLoc(), b.getF32FloatAttr(otherwise));
  program.getSkippedMutable().assign(
      linalg::FillOp::create(b, program.getLoc(), flag, empty).getResult(0));
}

/// Has a program for strong gates hand on what another one reads in the memory of its counterpart.
static void shareMemory(tile::ProgramOp strong, tile::ProgramOp weak) {
  SmallVector<Value> starts;
  SmallVector<int64_t> numbers;
  for (auto [i, own, other] : llvm::enumerate(strong->getResults(), weak->getResults())) {
    bool isSave = llvm::is_contained(strong.getSaves(), own);
    if (own.getType() != other.getType() ||
        (isSave && strong.getSaveEvery() != weak.getSaveEvery()))
      continue;
    starts.push_back(other);
    numbers.push_back(i);
  }
  strong.getIntoMutable().assign(starts);
  strong.setIntoResults(numbers);
}

/// Moves what only reads programs' results behind all programs, so that two of them may share a
/// launch.
static void moveReadersDown(Block &block) {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Operation *> readers;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    auto isNeeded = [&](Operation *user) {
      return needed.contains(block.findAncestorOpInBlock(*user));
    };
    if (isa<tile::ProgramOp, ScanOp>(op) || llvm::any_of(op.getUsers(), isNeeded))
      needed.insert(&op);
    else
      readers.push_back(&op);
  }
  for (Operation *op : llvm::reverse(readers))
    op->moveBefore(block.getTerminator());
}

void StrongGates::join(ArrayRef<tile::ProgramOp> weak) {
  if (!exist())
    return;
  for (auto [own, other] : llvm::zip(strong, weak))
    shareMemory(own, other);
  // The others: those whose results are started from, and what these take of each other.
  SmallVector<Value> left;
  for (tile::ProgramOp program : strong)
    llvm::append_range(left, program.getInto());
  llvm::SetVector<Operation *> ofWeak;
  while (!left.empty()) {
    auto program = left.pop_back_val().getDefiningOp<tile::ProgramOp>();
    if (program && !others.contains(program) && ofWeak.insert(program))
      llvm::append_range(left, program->getOperands());
  }
  for (Operation *op : ofWeak)
    skip(cast<tile::ProgramOp>(op), flags.strong, 0);
  for (tile::ProgramOp program : strong)
    skip(program, flags.weak, 1);
  sortTopologically(strong.front()->getBlock());
  moveReadersDown(*strong.front()->getBlock());
}
