//===- SaveStates.cpp - states that the forward saves for f_vjp -----------===//
#include "lowering/select/SaveStates.h"
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "lowering/select/Alternatives.h"
#include "lowering/select/SameTensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Passes.h"
#include "passes/chunk/Chunk.h"
#include "passes/scan/ScanGroups.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Which state of f a scan of f_vjp goes through
//===----------------------------------------------------------------------===//

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
std::optional<unsigned> SaveStates::findState(ScanOp derived, unsigned number, ScanOp own) const {
  if (derived.getReverse() != own.getReverse() || derived.getSegments() != own.getSegments() ||
      !own.getSaves().empty() || !own.getSavedStates().empty() || own.getTrailing() ||
      !isSameTensor(derived.getCuSeqlens(), own.getCuSeqlens()) ||
      !isSameTensor(derived.getSequences().front(), own.getSequences().front()))
    return std::nullopt;
  for (unsigned i = 0; i < own.getNumStates(); ++i)
    if (isSameTensor(derived.getInitialState(number), own.getInitialState(i)) &&
        areSame(derived, derived.getYield().getStates()[number], own, own.getYield().getStates()[i],
                isSameTensor, {derived.getStateArgs()[number], own.getStateArgs()[i]},
                [&](Value tensor, Value here) { return givenReads.lookup(tensor) == here; }))
      return i;
  return std::nullopt;
}

void SaveStates::sayWhy(const Twine &why) {
  if (!quiet)
    emitRemark(vjp.getLoc()) << "'" << vjp.getName() << "' takes no saved states: " << why;
}

/// Finds the scans of `derivatives` that save what scans of `function` go through, and makes the
/// copy `name` of it for them.
void SaveStates::match(func::FuncOp function, StringRef name,
                       ArrayRef<func::FuncOp> derivatives) {
  IRMapping mapping;
  OpBuilder b(function->getContext());
  b.setInsertionPointAfter(function);
  func::FuncOp fwd;
  auto forward = [&] {
    if (fwd)
      return fwd;
    fwd = cast<func::FuncOp>(b.clone(*function, mapping));
    fwd.setName(name);
    fwd->removeAttr(kDerivativeOfAttr);
    fwds.push_back(fwd);
    return fwd;
  };
  if (!giveReads(function, derivatives, mapping, forward)) {
    if (fwd)
      drop(fwd);
    return;
  }
  llvm::DenseMap<Operation *, unsigned> states; // that a scan of f saves: one at most
  for (func::FuncOp derivative : derivatives)
    for (ScanOp scan : derivative.getBody().getOps<ScanOp>())
      for (ScanOp own : function.getBody().getOps<ScanOp>()) {
        std::optional<unsigned> from = savedState(scan);
        std::optional<unsigned> state = from ? findState(scan, *from, own) : std::nullopt;
        if (!state || states.try_emplace(own, *state).first->second != *state)
          continue;
        forward();
        savings[scan] = {fwd, cast<ScanOp>(mapping.lookup(own.getOperation())), *state, {}};
        break;
      }
}

/// Of `derivatives` those that choose programs by gates as `function` does, where one of the `ways`
/// to compute it has the same scans and chooses otherwise; else all.
static SmallVector<func::FuncOp> choosingAlike(func::FuncOp function, ArrayRef<func::FuncOp> ways,
                                               ArrayRef<func::FuncOp> derivatives) {
  auto isAlike = [&](func::FuncOp other) {
    return other->hasAttr(kByGatesAttr) == function->hasAttr(kByGatesAttr);
  };
  auto segmentsOf = [](func::FuncOp way) {
    return llvm::map_to_vector(way.getBody().getOps<ScanOp>(),
                               [](ScanOp scan) { return scan.getSegmentsAttr(); });
  };
  auto isOther = [&](func::FuncOp way) {
    return !isAlike(way) && segmentsOf(way) == segmentsOf(function);
  };
  if (llvm::none_of(ways, isOther))
    return SmallVector<func::FuncOp>(derivatives);
  return llvm::filter_to_vector(derivatives, isAlike);
}

std::vector<SaveStates> SaveStates::prepare(ModuleOp module, bool quiet) {
  std::vector<SaveStates> all;
  auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
  for (auto function : functions) {
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
    if (isInTwoTerms(saves.vjp)) {
      saves.sayWhy("gradients of few heads are computed in two terms, from states in f32; "
                   "'--two-terms=few-channels' forbids that");
      continue;
    }
    SmallVector<func::FuncOp> derivatives = {saves.vjp};
    for (auto other : functions)
      if (other != saves.vjp && entryOf(other) == saves.vjp.getName())
        saves.alternatives.push_back(other);
    llvm::copy_if(saves.alternatives, std::back_inserter(derivatives),
                  [](func::FuncOp other) {
                    return scheduleOf(other) != kStepSchedule && !isInTwoTerms(other);
                  });
    SmallVector<func::FuncOp> ways = {function};
    llvm::copy_if(functions, std::back_inserter(ways), [&](func::FuncOp other) {
      return other != function && entryOf(other) == function.getName() &&
             scheduleOf(other) != kStepSchedule;
    });
    saves.match(function, name, choosingAlike(function, ways, derivatives));
    if (saves.fwds.empty()) {
      saves.sayWhy("it saves none that '" + function.getName() + "' goes through");
      continue;
    }
    saves.fwds.front()->setAttr(kForwardOfAttr, function.getNameAttr());
    for (func::FuncOp other : ArrayRef(ways).drop_front()) {
      size_t known = saves.fwds.size();
      saves.match(other, name + other.getName().drop_front(function.getName().size()).str(),
                  choosingAlike(other, ways, derivatives));
      if (saves.fwds.size() > known)
        saves.fwds.back()->setAttr(kAlternativeOfAttr,
                                   StringAttr::get(module.getContext(), name));
    }
    all.push_back(std::move(saves));
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

ScanOp SaveStates::rebuilt(ScanOp scan, TypeRange moreOutputs, int64_t every, TypeRange saves) {
  SmallVector<Value> initials;
  for (unsigned i = 0; i < scan.getNumStates(); ++i)
    initials.push_back(scan.getInitialState(i));
  OpBuilder b(scan->getContext());
  b.setInsertionPointAfter(scan);
  SmallVector<Type> outputs(scan.getOutputs().getTypes());
  llvm::append_range(outputs, moreOutputs);
  auto made = ScanOp::create(
      b, scan.getLoc(), outputs, scan.getFinalStates().getTypes(), scan.getSequences(),
      scan.getParameters(), SmallVector<Type>(scan.getParameterArgs().getTypes()), initials,
      scan.getCuSeqlens(), scan.getReverse(), every, {}, saves, scan.getSegmentsAttr());
  made->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  made.getBody().takeBody(scan.getBody());
  for (auto [from, to] : llvm::zip_first(scan.getOutputs(), made.getOutputs()))
    from.replaceAllUsesWith(to);
  for (auto [from, to] : llvm::zip(scan.getFinalStates(), made.getFinalStates()))
    from.replaceAllUsesWith(to);
  scan.erase();
  return made;
}

/// The scan once more, saving the state between its decays and outer products.
ScanOp SaveStates::withSaves(Saving &saving) {
  ScanOp made = rebuilt(saving.scan, {}, saving.by.getChunk(), saving.by.getSaves().getTypes());
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
  return made;
}

/// Undoes addResults, and lets scans that still are any save nothing.
void SaveStates::takeBack(func::FuncOp fwd, const Savers &made) {
  Operation *end = fwd.getBody().front().getTerminator();
  for (size_t i = 0; i < made.size(); ++i) {
    unsigned last = fwd.getNumResults() - 1;
    end->eraseOperand(last);
    (void)fwd.eraseResult(last);
  }
  for (ScanOp scan : llvm::to_vector(fwd.getOps<ScanOp>()))
    if (!scan.getSaves().empty()) {
      scan.getYield().getSavesMutable().clear();
      rebuilt(scan, {}, /*every=*/0, {});
    }
}

/// A name that no argument or result has.
std::string SaveStates::freshName(unsigned &number) {
  auto isTaken = [&](StringRef name) {
    for (func::FuncOp function : {fwds.front(), vjp}) {
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

/// Lets each scan of `fwd` save that a program of f_vjp goes through; by the scan that was. Gives
/// the reason where none does.
std::optional<std::string> SaveStates::whyNoSavers(func::FuncOp fwd, Savers &made) {
  llvm::MapVector<Operation *, tile::ProgramOp> savers;
  SmallVector<Saving *> first;
  for (auto &[scan, saving] : savings) {
    if (!saving.by || saving.function != fwd)
      continue;
    auto [known, isNew] = savers.insert({saving.scan, saving.by});
    // Several scans of f_vjp may go through one.
    if (!isNew && (known->second.getChunk() != saving.by.getChunk() ||
                   known->second.getSaves().getTypes() != saving.by.getSaves().getTypes()))
      return "its scans take one state in chunks of different lengths";
    if (isNew)
      first.push_back(&saving);
  }
  for (Saving *saving : first) {
    Operation *own = saving->scan;
    made[own] = withSaves(*saving);
  }
  if (!made.empty())
    return std::nullopt;
  return whyDeclined.empty() ? std::string("two programs compute its gradients, and only one that "
                                           "computes all takes saved states; that takes chunks "
                                           "of 64 steps, and '--fuse'")
                             : whyDeclined;
}

/// The name of a new result of f_fwd that is `tensor`, and its sizes.
NamedAttrList SaveStates::describe(Value tensor, unsigned &number) {
  func::FuncOp fwd = fwds.front();
  Builder b(fwd.getContext());
  ShapeAnalysis shapes(fwd);
  SmallVector<Attribute> shape;
  for (int64_t d = 0, rank = cast<RankedTensorType>(tensor.getType()).getRank(); d < rank; ++d)
    shape.push_back(b.getStringAttr(shapes.symbolOf(tensor, d)));
  NamedAttrList attributes;
  attributes.set(kNameAttr, b.getStringAttr(freshName(number)));
  attributes.set(kShapeAttr, b.getArrayAttr(shape));
  return attributes;
}

/// What is saved becomes a result, named and described alike in f_fwd and its alternatives.
void SaveStates::addResults(func::FuncOp fwd, const Savers &made) {
  Operation *end = fwd.getBody().front().getTerminator();
  unsigned number = 0;
  for (auto &[own, saver] : made) {
    Value tensor = ScanOp(saver).getSaves().front();
    unsigned place = fwd.getNumResults();
    DictionaryAttr described = fwd == fwds.front()
                                   ? describe(tensor, number).getDictionary(fwd.getContext())
                                   : fwds.front().getResultAttrDict(place);
    end->insertOperands(end->getNumOperands(), tensor);
    (void)fwd.insertResult(place, tensor.getType(), described);
  }
}

/// What `made` save, and how often.
SmallVector<std::pair<Type, int64_t>> SaveStates::describe(const Savers &made) {
  return llvm::map_to_vector(made, [](const auto &saver) {
    ScanOp scan = saver.second;
    return std::pair<Type, int64_t>(scan.getSaves().front().getType(), *scan.getSaveEvery());
  });
}

/// Programs in the place of the scans that save; false where one does not fit.
bool SaveStates::makePrograms(const Savers &made, MakeProgram makeProgram) {
  for (auto &[own, saver] : made) {
    ScanOp scan = saver;
    tile::ProgramOp program = makeProgram(scan, *scan.getSaveEvery());
    if (!program)
      return false;
    replaceScan(scan, program);
  }
  return true;
}

void SaveStates::drop(func::FuncOp fwd) {
  savings.remove_if([&](auto &saving) { return saving.second.function == fwd; });
  llvm::erase(fwds, fwd);
  fwd.erase();
}

LogicalResult SaveStates::apply(MakeProgram makeProgram) {
  // By result, the scans that save it were made of these, in each f_fwd.
  SmallVector<SmallVector<Operation *>> sources;
  SmallVector<std::pair<Type, int64_t>> saved;
  for (func::FuncOp fwd : llvm::to_vector(fwds)) {
    Savers made;
    bool isFirst = fwd == fwds.front();
    std::optional<std::string> why = whyNoSavers(fwd, made);
    if (isFirst)
      saved = describe(made);
    // An alternative saves just what f_fwd saves, or is none.
    if (!why && describe(made) == saved) {
      addResults(fwd, made);
      sources.push_back(
          llvm::map_to_vector(made, [](const auto &saver) -> Operation * { return saver.first; }));
      if (makePrograms(made, makeProgram))
        continue;
      sources.pop_back();
      why = "a forward that saves them does not fit" +
            (whyDeclined.empty() ? std::string() : ": " + whyDeclined);
    }
    if (!isFirst) {
      drop(fwd);
      continue;
    }
    sayWhy(*why);
    // What the steps read is given nevertheless, by alternatives, too.
    if (!givenReads.empty()) {
      if (!made.empty())
        takeBack(fwd, made);
      return success();
    }
    while (!fwds.empty())
      drop(fwds.back());
    return failure();
  }
  addArguments(sources);
  return success();
}

/// What is saved becomes the last arguments of each f_vjp. `sources` has, for each f_fwd, the scans
/// whose states these are.
void SaveStates::addArguments(ArrayRef<SmallVector<Operation *>> sources) {
  func::FuncOp fwd = fwds.front();
  size_t numSaved = sources.front().size();
  unsigned firstResult = fwd.getNumResults() - numSaved, firstArgument = vjp.getNumArguments();
  for (size_t i = 0; i < numSaved; ++i) {
    Type type = fwd.getResultTypes()[firstResult + i];
    DictionaryAttr named = fwd.getResultAttrDict(firstResult + i);
    (void)vjp.insertArgument(firstArgument + i, type, named, vjp.getLoc());
    for (func::FuncOp other : alternatives)
      (void)other.insertArgument(firstArgument + i, type, named, other.getLoc());
  }
  for (auto &[scan, saving] : savings)
    for (ArrayRef<Operation *> own : sources)
      for (size_t i = 0; saving.by && i < numSaved; ++i) {
        if (saving.scan.getOperation() != own[i])
          continue;
        auto derivative = saving.by->getParentOfType<func::FuncOp>();
        saving.by.getSaves().front().replaceAllUsesWith(derivative.getArgument(firstArgument + i));
        saving.by.erase();
        saving.by = {};
      }
}
