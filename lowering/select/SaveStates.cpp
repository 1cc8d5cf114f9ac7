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
// Which state of f a scan of f_vjp walks through
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

//===----------------------------------------------------------------------===//
// What the steps of f read
//===----------------------------------------------------------------------===//

/// `scan` once more, in its place, with these more outputs, whose values the caller yields, and
/// saves.
static ScanOp rebuilt(ScanOp scan, TypeRange moreOutputs, int64_t every, TypeRange saves) {
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

/// What steps of f_vjp make of output `number` of `walks`, which is `read` of the step of `own`: a
/// sum that the step of `own` has, too, and none of them takes the read otherwise. Null if there is
/// none.
static Operation *sumOfRead(ScanOp own, Value read, ArrayRef<ScanOp> walks, unsigned number) {
  if (!llvm::hasSingleElement(read.getUsers()) ||
      !isa<arith::AddFOp, arith::SubFOp>(*read.user_begin()))
    return nullptr;
  Operation *sum = *read.user_begin();
  for (ScanOp walk : walks) {
    Value tensor = walk.getOutputs()[number];
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
  Builder b(fwd.getContext());
  ShapeAnalysis shapes(fwd);
  auto type = cast<RankedTensorType>(given.getType());
  SmallVector<Attribute> shape;
  for (int64_t d = 0; d < type.getRank(); ++d)
    shape.push_back(b.getStringAttr(shapes.symbolOf(given, d)));
  unsigned number = 0;
  NamedAttrList attributes;
  attributes.set(kNameAttr, b.getStringAttr(freshName(number)));
  attributes.set(kShapeAttr, b.getArrayAttr(shape));
  DictionaryAttr named = attributes.getDictionary(fwd.getContext());
  Operation *end = fwd.getBody().front().getTerminator();
  end->insertOperands(end->getNumOperands(), given);
  (void)fwd.insertResult(fwd.getNumResults(), type, named);
  attributes.set(kSavedReadAttr, b.getUnitAttr());
  named = attributes.getDictionary(fwd.getContext());
  if (numReads++ == 0)
    firstRead = vjp.getNumArguments();
  (void)vjp.insertArgument(vjp.getNumArguments(), type, named, vjp.getLoc());
  for (func::FuncOp other : alternatives)
    (void)other.insertArgument(other.getNumArguments(), type, named, other.getLoc());
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
    SmallVector<ScanOp> walks;
    for (func::FuncOp derivative : derivatives)
      for (ScanOp walk : derivative.getBody().getOps<ScanOp>()) {
        std::optional<SmallVector<Value>> found = findReads(walk, own);
        if (!found || (reads && found != reads))
          continue;
        reads = found;
        walks.push_back(walk);
        break;
      }
    if (!reads)
      continue;
    func::FuncOp fwd = forward();
    SmallVector<bool> areSums;
    for (auto [i, read] : llvm::enumerate(*reads)) {
      Operation *sum = sumOfRead(own, read, walks, i);
      areSums.push_back(sum);
      if (sum)
        read = sum->getResult(0);
    }
    SmallVector<Value> copies;
    for (Value read : *reads)
      copies.push_back(mapping.lookup(read));
    auto copy = cast<ScanOp>(mapping.lookup(own.getOperation()));
    ScanOp made = rebuilt(copy, walks.front().getOutputs().getTypes(), /*every=*/0, {});
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
      for (ScanOp walk : walks) {
        Value argument = walk->getParentOfType<func::FuncOp>().getArgument(place);
        givenReads[argument] = read;
        replaceGiven(walk.getOutputs()[i], argument, areSums[i]);
      }
    }
    for (ScanOp walk : walks)
      walk.erase();
  }
  return numGiven == numReads;
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
    saves.match(function, name, derivatives);
    if (saves.fwds.empty()) {
      saves.sayWhy("it saves none that '" + function.getName() + "' goes through");
      continue;
    }
    saves.fwds.front()->setAttr(kForwardOfAttr, function.getNameAttr());
    for (auto other : functions) {
      if (other == function || entryOf(other) != function.getName() ||
          scheduleOf(other) == kStepSchedule)
        continue;
      size_t known = saves.fwds.size();
      saves.match(other, name + other.getName().drop_front(function.getName().size()).str(), derivatives);
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

/// Lets each scan of `fwd` save that a program of f_vjp walks through; by the scan that was. Gives
/// the reason where none does.
std::optional<std::string> SaveStates::whyNoSavers(func::FuncOp fwd, Savers &made) {
  llvm::MapVector<Operation *, tile::ProgramOp> savers;
  SmallVector<Saving *> first;
  for (auto &[scan, saving] : savings) {
    if (!saving.by || saving.function != fwd)
      continue;
    auto [known, isNew] = savers.insert({saving.scan, saving.by});
    // Several scans of f_vjp may walk through one.
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

/// What is saved becomes a result, named and described alike in f_fwd and its alternatives.
void SaveStates::addResults(func::FuncOp fwd, const Savers &made) {
  Operation *end = fwd.getBody().front().getTerminator();
  Builder b(fwd.getContext());
  ShapeAnalysis shapes(fwd);
  unsigned number = 0;
  for (auto &[own, saver] : made) {
    Value tensor = ScanOp(saver).getSaves().front();
    auto type = cast<RankedTensorType>(tensor.getType());
    unsigned place = fwd.getNumResults();
    DictionaryAttr described;
    if (fwd == fwds.front()) {
      SmallVector<Attribute> shape;
      for (int64_t d = 0; d < type.getRank(); ++d)
        shape.push_back(b.getStringAttr(shapes.symbolOf(tensor, d)));
      NamedAttrList attributes;
      attributes.set(kNameAttr, b.getStringAttr(freshName(number)));
      attributes.set(kShapeAttr, b.getArrayAttr(shape));
      described = attributes.getDictionary(fwd.getContext());
    } else {
      described = fwds.front().getResultAttrDict(place);
    }
    end->insertOperands(end->getNumOperands(), tensor);
    (void)fwd.insertResult(place, type, described);
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
