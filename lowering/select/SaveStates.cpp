//===- SaveStates.cpp - states that the forward saves for f_vjp -----------===//
#include "lowering/select/SaveStates.h"
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/chunk/Chunk.h"
#include "passes/Passes.h"
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
  if (derived.getReverse() != own.getReverse() || !own.getSaves().empty() ||
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

static void sayWhy(func::FuncOp vjp, const Twine &why) {
  emitRemark(vjp.getLoc()) << "'" << vjp.getName() << "' takes no saved states: " << why;
}

std::vector<SaveStates> SaveStates::prepare(ModuleOp module) {
  std::vector<SaveStates> all;
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
    std::string name = (function.getName() + "_fwd").str();
    auto vjp = module.lookupSymbol<func::FuncOp>((function.getName() + "_vjp").str());
    if (!vjp || vjp.isDeclaration() || function.isDeclaration() ||
        vjp.getNumArguments() < function.getNumArguments())
      continue;
    if (module.lookupSymbol(name)) {
      sayWhy(vjp, "there is a function '" + Twine(name) + "' already");
      continue;
    }
    SaveStates saves;
    IRMapping mapping;
    OpBuilder b(function->getContext());
    b.setInsertionPointAfter(function);
    llvm::DenseMap<Operation *, unsigned> states; // that a scan of f saves: one at most
    for (ScanOp scan : vjp.getBody().getOps<ScanOp>())
      for (ScanOp own : function.getBody().getOps<ScanOp>()) {
        std::optional<unsigned> from = savedState(scan);
        std::optional<unsigned> state = from ? findState(scan, *from, own) : std::nullopt;
        if (!state || states.try_emplace(own, *state).first->second != *state)
          continue;
        if (!saves.fwd) {
          saves.fwd = cast<func::FuncOp>(b.clone(*function, mapping));
          saves.fwd.setName(name);
          saves.fwd->setAttr(kForwardOfAttr, b.getStringAttr(function.getName()));
          saves.vjp = vjp;
        }
        saves.savings[scan] = {cast<ScanOp>(mapping.lookup(own.getOperation())), *state, {}};
        break;
      }
    if (saves.fwd)
      all.push_back(std::move(saves));
    else
      sayWhy(vjp, "it saves none that '" + function.getName() + "' goes through");
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
      scan.getReverse(), saving.by.getChunk(), {}, saving.by.getSaves().getTypes());
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
  sayWhy(vjp, why);
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

LogicalResult
SaveStates::apply(llvm::function_ref<tile::ProgramOp(ScanOp scan, int64_t chunk)> makeProgram) {
  // By f_fwd's scan, which several of f_vjp may walk through.
  llvm::MapVector<Operation *, tile::ProgramOp> made;
  for (auto &[scan, saving] : savings) {
    if (!saving.by)
      continue;
    Operation *own = saving.scan;
    if (auto known = made.find(own); known != made.end()) {
      if (known->second.getChunk() != saving.by.getChunk() ||
          known->second.getSaves().getTypes() != saving.by.getSaves().getTypes())
        return giveUp("its scans take one state in chunks of different lengths");
      continue;
    }
    int64_t chunk = saving.by.getChunk();
    ScanOp saves = withSaves(saving);
    tile::ProgramOp program = makeProgram(saves, chunk);
    if (!program)
      return giveUp("a forward that saves them does not fit" +
                    (whyDeclined.empty() ? std::string() : ": " + whyDeclined));
    replaceScan(saves, program);
    made[own] = program;
  }
  if (made.empty())
    return giveUp(whyDeclined.empty()
                      ? std::string("two programs compute its gradients, and only one that computes "
                                    "all takes saved states; that takes chunks of 64 steps, and "
                                    "'--fuse'")
                      : whyDeclined);
  Operation *end = fwd.getBody().front().getTerminator();
  Builder b(fwd.getContext());
  ShapeAnalysis shapes(fwd);
  unsigned number = 0;
  for (auto &[own, saver] : made) {
    Value tensor = saver.getSaves().front();
    auto type = cast<RankedTensorType>(tensor.getType());
    SmallVector<Attribute> shape;
    for (int64_t d = 0; d < type.getRank(); ++d)
      shape.push_back(b.getStringAttr(shapes.symbolOf(tensor, d)));
    NamedAttrList attributes;
    attributes.set(kNameAttr, b.getStringAttr(freshName(number)));
    attributes.set(kShapeAttr, b.getArrayAttr(shape));
    DictionaryAttr named = attributes.getDictionary(fwd.getContext());
    end->insertOperands(end->getNumOperands(), tensor);
    (void)fwd.insertResult(fwd.getNumResults(), type, named);
    unsigned place = vjp.getNumArguments();
    (void)vjp.insertArgument(place, type, named, vjp.getLoc());
    for (auto &[scan, saving] : savings)
      if (saving.by && saving.scan.getOperation() == own) {
        saving.by.getSaves().front().replaceAllUsesWith(vjp.getArgument(place));
        saving.by.erase();
      }
  }
  return success();
}
