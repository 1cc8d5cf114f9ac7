//===- SaveStates.cpp - states that the forward saves for f_vjp -----------===//
#include "lowering/select/SaveStates.h"
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "lowering/select/Alternatives.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Passes.h"
#include "passes/chunk/Chunk.h"
#include "passes/scan/ScanGroups.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Which state of f a scan of f_vjp walks through
//===----------------------------------------------------------------------===//

/// Whether a tensor of f_vjp is that of f: the derivative takes f's arguments first.
static bool isSameTensor(Value derived, Value own) {
  if (!derived || !own)
    return !derived && !own;
  if (derived.getType() != own.getType())
    return false;
  auto arg = dyn_cast<BlockArgument>(derived);
  if (auto other = dyn_cast<BlockArgument>(own))
    return arg && arg.getArgNumber() == other.getArgNumber();
  if (arg)
    return false;
  Operation *a = derived.getDefiningOp(), *b = own.getDefiningOp();
  return a->getName() == b->getName() && a->getNumRegions() == 0 &&
         a->getAttrDictionary() == b->getAttrDictionary() &&
         cast<OpResult>(derived).getResultNumber() == cast<OpResult>(own).getResultNumber() &&
         a->getNumOperands() == b->getNumOperands() &&
         llvm::all_of_zip(a->getOperands(), b->getOperands(), isSameTensor);
}

/// The state that the one save of `scan` is made of, with what the step does to it.
static std::optional<unsigned> savedState(ScanOp scan) {
  if (scan.getSaves().size() != 1)
    return std::nullopt;
  Value value = scan.getYield().getSaves().front();
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<DecayOp, OuterAddOp>(op))
      return std::nullopt;
    value = op->getOperand(0);
  }
  ValueRange states = scan.getStateArgs();
  auto place = llvm::find(states, value);
  if (place == states.end())
    return std::nullopt;
  return place - states.begin();
}

/// The state of `own` that is, step by step, state `number` of `derived`.
static std::optional<unsigned> findState(ScanOp derived, unsigned number, ScanOp own) {
  if (derived.getReverse() != own.getReverse() || derived.getSegments() != own.getSegments() || !own.getSaves().empty() ||
      !own.getSavedStates().empty() || !isSameTensor(derived.getCuSeqlens(), own.getCuSeqlens()) ||
      !isSameTensor(derived.getSequences().front(), own.getSequences().front()))
    return std::nullopt;
  for (unsigned i = 0; i < own.getNumStates(); ++i)
    if (isSameTensor(derived.getInitialState(number), own.getInitialState(i)) &&
        areSame(derived, derived.getYield().getStates()[number], own, own.getYield().getStates()[i],
                isSameTensor, {derived.getStateArgs()[number], own.getStateArgs()[i]}))
      return i;
  return std::nullopt;
}

void SaveStates::sayWhy(const Twine &why) {
  if (!quiet)
    emitRemark(vjp.getLoc()) << "'" << vjp.getName() << "' takes no saved states: " << why;
}

std::vector<SaveStates> SaveStates::prepare(ModuleOp module, bool quiet) {
  std::vector<SaveStates> all;
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
    std::string name = (function.getName() + "_fwd").str();
    SaveStates saves;
    saves.quiet = quiet;
    saves.vjp = findDerivative(module, function.getName());
    if (!saves.vjp || saves.vjp.isDeclaration() || function.isDeclaration() ||
        saves.vjp.getNumArguments() < function.getNumArguments())
      continue;
    if (module.lookupSymbol(name)) {
      saves.sayWhy("there is a function '" + Twine(name) + "' already");
      continue;
    }
    SmallVector<func::FuncOp> derivatives = {saves.vjp};
    for (auto other : module.getOps<func::FuncOp>())
      if (other != saves.vjp && entryOf(other) == saves.vjp.getName())
        saves.alternatives.push_back(other);
    llvm::copy_if(saves.alternatives, std::back_inserter(derivatives),
                  [](func::FuncOp other) { return scheduleOf(other) != kStepSchedule; });
    IRMapping mapping;
    OpBuilder b(function->getContext());
    b.setInsertionPointAfter(function);
    llvm::DenseMap<Operation *, unsigned> states; // that a scan of f saves: one at most
    for (func::FuncOp derivative : derivatives)
      for (ScanOp scan : derivative.getBody().getOps<ScanOp>())
        for (ScanOp own : function.getBody().getOps<ScanOp>()) {
          std::optional<unsigned> from = savedState(scan);
          std::optional<unsigned> state = from ? findState(scan, *from, own) : std::nullopt;
          if (!state || states.try_emplace(own, *state).first->second != *state)
            continue;
          if (!saves.fwd) {
            saves.fwd = cast<func::FuncOp>(b.clone(*function, mapping));
            saves.fwd.setName(name);
            saves.fwd->removeAttr(kDerivativeOfAttr);
            saves.fwd->setAttr(kForwardOfAttr, b.getStringAttr(function.getName()));
          }
          saves.savings[scan] = {cast<ScanOp>(mapping.lookup(own.getOperation())), *state, {}};
          break;
        }
    if (saves.fwd)
      all.push_back(std::move(saves));
    else
      saves.sayWhy("it saves none that '" + function.getName() + "' goes through");
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Saving it
//===----------------------------------------------------------------------===//

void SaveStates::note(ScanOp scan, tile::ProgramOp program) {
  auto place = savings.find(scan);
  if (place != savings.end() && program.getOutputs().empty() && program.getSaves().size() == 1 &&
      llvm::all_of(program.getFinalStates(), [](Value state) { return state.use_empty(); }))
    place->second.by = program;
}

/// The scan once more, behind itself, saving the state between its decays and outer products.
ScanOp SaveStates::withSaves(Saving &saving) {
  ScanOp scan = saving.scan;
  SmallVector<Value> initials;
  for (unsigned i = 0; i < scan.getNumStates(); ++i)
    initials.push_back(scan.getInitialState(i));
  OpBuilder b(scan->getContext());
  b.setInsertionPointAfter(scan);
  auto made = ScanOp::create(
      b, scan.getLoc(), scan.getOutputs().getTypes(), scan.getFinalStates().getTypes(),
      scan.getSequences(), scan.getParameters(),
      SmallVector<Type>(scan.getParameterArgs().getTypes()), initials, scan.getCuSeqlens(),
      scan.getReverse(), saving.by.getChunk(), {}, saving.by.getSaves().getTypes(),
      scan.getSegmentsAttr());
  made->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  made.getBody().takeBody(scan.getBody());
  Value state = made.getStateArgs()[saving.state];
  auto decayOf = [](Value value) {
    for (Operation *user : value.getUsers())
      if (isa<DecayOp>(user))
        return user;
    return static_cast<Operation *>(nullptr);
  };
  while (Operation *decay = decayOf(state))
    state = decay->getResult(0);
  made.getYield().getSavesMutable().append(state);
  for (auto [from, to] : llvm::zip(scan->getResults(), made->getResults()))
    from.replaceAllUsesWith(to);
  scan.erase();
  return made;
}

LogicalResult SaveStates::giveUp(const Twine &why) {
  sayWhy(why);
  fwd.erase();
  fwd = {};
  return failure();
}

/// A name that no argument or result has.
std::string SaveStates::freshName(unsigned &number) {
  auto isTaken = [&](StringRef name) {
    for (func::FuncOp function : {fwd, vjp}) {
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (argumentName(function, i) == name)
          return true;
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (resultName(function, i) == name)
          return true;
    }
    return false;
  };
  std::string name;
  do
    name = "saved" + std::to_string(number++);
  while (isTaken(name));
  return name;
}

/// Lets each scan of f_fwd save that a program of f_vjp walks through; by the scan that was.
LogicalResult SaveStates::makeSavingScans(llvm::MapVector<Operation *, ScanOp> &made) {
  llvm::MapVector<Operation *, tile::ProgramOp> savers;
  for (auto &[scan, saving] : savings) {
    if (!saving.by)
      continue;
    auto [known, isNew] = savers.insert({saving.scan, saving.by});
    // Several scans of f_vjp may walk through one.
    if (!isNew && (known->second.getChunk() != saving.by.getChunk() ||
                   known->second.getSaves().getTypes() != saving.by.getSaves().getTypes()))
      return giveUp("its scans take one state in chunks of different lengths");
    if (isNew) {
      Operation *own = saving.scan;
      made[own] = withSaves(saving);
    }
  }
  if (!made.empty())
    return success();
  return giveUp(whyDeclined.empty()
                    ? std::string("two programs compute its gradients, and only one that computes "
                                  "all takes saved states; that takes chunks of 64 steps, and "
                                  "'--fuse'")
                    : whyDeclined);
}

/// What is saved becomes a result of f_fwd.
void SaveStates::addResults(const llvm::MapVector<Operation *, ScanOp> &made) {
  Operation *end = fwd.getBody().front().getTerminator();
  Builder b(fwd.getContext());
  ShapeAnalysis shapes(fwd);
  unsigned number = 0;
  for (auto &[own, saver] : made) {
    Value tensor = ScanOp(saver).getSaves().front();
    auto type = cast<RankedTensorType>(tensor.getType());
    SmallVector<Attribute> shape;
    for (int64_t d = 0; d < type.getRank(); ++d)
      shape.push_back(b.getStringAttr(shapes.symbolOf(tensor, d)));
    NamedAttrList attributes;
    attributes.set(kNameAttr, b.getStringAttr(freshName(number)));
    attributes.set(kShapeAttr, b.getArrayAttr(shape));
    end->insertOperands(end->getNumOperands(), tensor);
    (void)fwd.insertResult(fwd.getNumResults(), type, attributes.getDictionary(fwd.getContext()));
  }
}

/// Argument `place` of each f_vjp is the state that the scan `own` went through.
void SaveStates::addArguments(Operation *own, unsigned place, Type type, DictionaryAttr named) {
  (void)vjp.insertArgument(place, type, named, vjp.getLoc());
  for (func::FuncOp other : alternatives)
    (void)other.insertArgument(place, type, named, other.getLoc());
  for (auto &[scan, saving] : savings)
    if (saving.by && saving.scan.getOperation() == own) {
      auto derivative = saving.by->getParentOfType<func::FuncOp>();
      saving.by.getSaves().front().replaceAllUsesWith(derivative.getArgument(place));
      saving.by.erase();
    }
}

LogicalResult
SaveStates::apply(llvm::function_ref<tile::ProgramOp(ScanOp scan, int64_t chunk)> makeProgram) {
  llvm::MapVector<Operation *, ScanOp> made;
  if (failed(makeSavingScans(made)))
    return failure();
  addResults(made);
  for (auto &[own, saver] : made) {
    ScanOp scan = saver;
    tile::ProgramOp program = makeProgram(scan, *scan.getSaveEvery());
    if (!program)
      return giveUp("a forward that saves them does not fit" +
                    (whyDeclined.empty() ? std::string() : ": " + whyDeclined));
    replaceScan(scan, program);
  }
  unsigned result = fwd.getNumResults() - made.size(), place = vjp.getNumArguments();
  for (auto &[own, saver] : made) {
    addArguments(own, place++, fwd.getResultTypes()[result], fwd.getResultAttrDict(result));
    ++result;
  }
  return success();
}
