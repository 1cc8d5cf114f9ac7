//===- EjkScanSyntax.cpp - how a scan is parsed and printed ---------------===//
#include "dialect/ejk/Ejk.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace ejk;

//===----------------------------------------------------------------------===//
// Syntax
//===----------------------------------------------------------------------===//

namespace {
/// One `%arg = %operand : type [as step-type]` of a scan's lists.
struct ScanEntry {
  OpAsmParser::Argument arg;
  OpAsmParser::UnresolvedOperand operand;
  bool isZero = false;
  RankedTensorType type;
};
} // namespace

/// Parses `keyword(entry, …)` when the keyword is there. `prefix` is the number
/// of a tensor's dimensions before those of its step type; -1 where the step type is spelled out.
static ParseResult parseEntries(OpAsmParser &p, StringRef keyword, int prefix,
                                SmallVectorImpl<ScanEntry> &entries) {
  if (failed(p.parseOptionalKeyword(keyword)))
    return success();
  return p.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
    ScanEntry &entry = entries.emplace_back();
    if (p.parseArgument(entry.arg) || p.parseEqual())
      return failure();
    if (keyword == "states" && succeeded(p.parseOptionalKeyword("zero")))
      entry.isZero = true;
    else if (p.parseOperand(entry.operand))
      return failure();
    SMLoc loc = p.getCurrentLocation();
    Type type;
    if (p.parseColonType(type))
      return failure();
    entry.type = dyn_cast<RankedTensorType>(type);
    if (!entry.type)
      return p.emitError(loc, "expected a ranked tensor type, but found ") << type;
    if (prefix < 0)
      return failure(p.parseKeyword("as") || p.parseType(entry.arg.type));
    if (entry.type.getRank() < prefix)
      return p.emitError(loc, "expected a tensor of rank ")
             << prefix << " or more in '" << keyword << "', but found " << type;
    entry.arg.type = ScanOp::getStepType(entry.type, prefix);
    if (!entry.arg.type)
      return p.emitError(loc, "expected static channels from 1 to ")
             << kMaxChannels << " after the first " << prefix << " dimensions, but found " << type;
    return success();
  });
}

ParseResult ScanOp::parse(OpAsmParser &p, OperationState &state) {
  Builder &b = p.getBuilder();
  auto &properties = state.getOrAddProperties<Properties>();
  if (succeeded(p.parseOptionalKeyword("reverse")))
    properties.reverse = b.getUnitAttr();

  int64_t saveEvery;
  if (succeeded(p.parseOptionalKeyword("save_every"))) {
    if (p.parseInteger(saveEvery))
      return failure();
    properties.save_every = b.getI64IntegerAttr(saveEvery);
  }

  if (succeeded(p.parseOptionalKeyword("segments")) &&
      p.parseCustomAttributeWithFallback(properties.segments))
    return failure();

  OpAsmParser::UnresolvedOperand cuSeqlens;
  Type cuType;
  if (succeeded(p.parseOptionalKeyword("cu_seqlens")) &&
      (p.parseLParen() || p.parseOperand(cuSeqlens) || p.parseColonType(cuType) || p.parseRParen()))
    return failure();

  OpAsmParser::UnresolvedOperand remembered;
  Type rememberedType;
  if (int64_t rows; succeeded(p.parseOptionalKeyword("trailing"))) {
    if (p.parseInteger(rows))
      return failure();
    properties.trailing = b.getI64IntegerAttr(rows);
    if (succeeded(p.parseOptionalKeyword("where")) &&
        (p.parseLParen() || p.parseOperand(remembered) || p.parseColonType(rememberedType) ||
         p.parseRParen()))
      return failure();
  }

  SmallVector<ScanEntry> sequences, queries, parameters, saved, states;
  SmallVector<Type> outputTypes, saveTypes;
  if (parseEntries(p, "sequences", 3, sequences) || parseEntries(p, "queries", 3, queries) ||
      parseEntries(p, "parameters", -1, parameters) || parseEntries(p, "saved", 2, saved) ||
      parseEntries(p, "states", 2, states))
    return failure();
  auto parseTypes = [&](SmallVectorImpl<Type> &types) {
    return p.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                     [&] { return p.parseType(types.emplace_back()); });
  };
  if ((succeeded(p.parseOptionalArrow()) && parseTypes(outputTypes)) ||
      (succeeded(p.parseOptionalKeyword("saves")) && parseTypes(saveTypes)))
    return failure();
  if (p.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();

  SmallVector<OpAsmParser::Argument> args;
  SmallVector<bool> hasInitial;
  int32_t numInitials = 0;
  state.addTypes(outputTypes);
  for (auto *list : {&sequences, &queries, &parameters, &saved, &states})
    for (ScanEntry &entry : *list)
      args.push_back(entry.arg);
  for (auto *list : {&sequences, &queries, &parameters, &states, &saved})
    for (ScanEntry &entry : *list)
      if (!entry.isZero && p.resolveOperand(entry.operand, entry.type, state.operands))
        return failure();
  for (ScanEntry &entry : states) {
    hasInitial.push_back(!entry.isZero);
    numInitials += !entry.isZero;
    state.addTypes(entry.type);
  }
  state.addTypes(saveTypes);
  if ((cuType && p.resolveOperand(cuSeqlens, cuType, state.operands)) ||
      (rememberedType && p.resolveOperand(remembered, rememberedType, state.operands)))
    return failure();
  properties.has_initial = b.getDenseBoolArrayAttr(hasInitial);
  llvm::copy(ArrayRef<int32_t>{int32_t(sequences.size()), int32_t(queries.size()),
                               int32_t(parameters.size()), numInitials, int32_t(saved.size()),
                               cuType ? 1 : 0, rememberedType ? 1 : 0},
             properties.operandSegmentSizes.begin());
  llvm::copy(ArrayRef<int32_t>{int32_t(outputTypes.size()), int32_t(states.size()),
                               int32_t(saveTypes.size())},
             properties.resultSegmentSizes.begin());
  return p.parseRegion(*state.addRegion(), args);
}

void ScanOp::print(OpAsmPrinter &p) {
  if (getReverse())
    p << " reverse";
  if (auto every = getSaveEvery())
    p << " save_every " << *every;
  if (SegmentsAttr segments = getSegmentsAttr()) {
    p << " segments";
    p.printStrippedAttrOrType(segments);
  }
  if (Value cu = getCuSeqlens())
    p << " cu_seqlens(" << cu << " : " << cu.getType() << ")";
  if (auto rows = getTrailing())
    p << " trailing " << *rows;
  if (Value remembered = getRemembered())
    p << " where(" << remembered << " : " << remembered.getType() << ")";
  auto printList = [&](StringRef keyword, ValueRange args, auto printSource) {
    if (args.empty())
      return;
    p.printNewline();
    p << "    " << keyword << "(";
    llvm::interleaveComma(llvm::seq<unsigned>(0, args.size()), p, [&](unsigned i) {
      p << args[i] << " = ";
      printSource(i);
    });
    p << ")";
  };
  printList("sequences", getSequenceArgs(),
            [&](unsigned i) { p << getSequences()[i] << " : " << getSequences()[i].getType(); });
  printList("queries", getQueryArgs(),
            [&](unsigned i) { p << getQueries()[i] << " : " << getQueries()[i].getType(); });
  printList("parameters", getParameterArgs(), [&](unsigned i) {
    p << getParameters()[i] << " : " << getParameters()[i].getType() << " as "
      << getParameterArgs()[i].getType();
  });
  printList("saved", getSavedArgs(), [&](unsigned i) {
    p << getSavedStates()[i] << " : " << getSavedStates()[i].getType();
  });
  printList("states", getStateArgs(), [&](unsigned i) {
    if (Value initial = getInitialState(i))
      p << initial;
    else
      p << "zero";
    p << " : " << getFinalStates()[i].getType();
  });
  if (!getOutputs().empty())
    p << " -> (" << getOutputs().getTypes() << ")";
  if (!getSaves().empty())
    p << " saves(" << getSaves().getTypes() << ")";
  p.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {getHasInitialAttrName(), getReverseAttrName(), getSaveEveryAttrName(),
                            getSegmentsAttrName(), getTrailingAttrName(), "operandSegmentSizes",
                            "resultSegmentSizes"});
  p << " ";
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}
