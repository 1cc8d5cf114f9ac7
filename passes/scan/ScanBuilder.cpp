//===- ScanBuilder.cpp - build a scan from its step ------------------------===//
#include "passes/scan/ScanBuilder.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace ejk;

ScanBuilder::ScanBuilder(OpBuilder &outer, ScanOp model, bool turned, Value first)
    : b(outer.getContext()), outer(outer), model(model), turned(turned),
      segments(model.getSegmentsAttr()), trailing(model.getTrailingRows()) {
  block = &region.emplaceBlock();
  b.setInsertionPointToStart(block);
  addSequence(first ? first : model.getSequences().front());
}

Value ScanBuilder::addSequence(Value tensor) {
  for (auto [known, arg] : llvm::zip(sequences, sequenceArgs))
    if (known == tensor)
      return arg;
  Type type = ScanOp::getStepType(cast<RankedTensorType>(tensor.getType()), 3);
  BlockArgument arg = block->insertArgument(sequences.size(), type, model.getLoc());
  sequences.push_back(tensor);
  sequenceArgs.push_back(arg);
  return arg;
}

Value ScanBuilder::sequenceOf(Value arg) {
  for (auto [tensor, known] : llvm::zip(sequences, sequenceArgs))
    if (known == arg)
      return tensor;
  return {};
}

Value ScanBuilder::addParameter(Value tensor, Type stepType) {
  BlockArgument arg =
      block->insertArgument(sequences.size() + parameters.size(), stepType, model.getLoc());
  parameters.push_back(tensor);
  return arg;
}

Value ScanBuilder::addSavedState(Value tensor, int64_t every) {
  assert((!saveEvery || saveEvery == every) && "one grid of saved states per scan");
  saveEvery = every;
  Type type = ScanOp::getStepType(cast<RankedTensorType>(tensor.getType()), 2);
  unsigned place = sequences.size() + parameters.size() + savedStates.size();
  savedStates.push_back(tensor);
  return block->insertArgument(place, type, model.getLoc());
}

Value ScanBuilder::addState(RankedTensorType type, Value initial) {
  if (initial && initial.getType() != type)
    initial = tensor::CastOp::create(outer, model.getLoc(), type, initial);
  BlockArgument arg = block->addArgument(ScanOp::getStepType(type, 2), model.getLoc());
  stateArgs.push_back(arg);
  stateTypes.push_back(type);
  initials.push_back(initial);
  nexts.push_back(arg);
  return arg;
}

void ScanBuilder::setNext(Value arg, Value next) {
  nexts[llvm::find(stateArgs, arg) - stateArgs.begin()] = next;
}

unsigned ScanBuilder::addOutput(Value stepValue) {
  outputs.push_back(stepValue);
  return outputs.size() - 1;
}

RankedTensorType ScanBuilder::saveType(Type stepType, Type element) {
  ArrayRef<int64_t> channels = cast<VectorType>(stepType).getShape();
  int64_t heads = cast<RankedTensorType>(model.getSequences().front().getType()).getDimSize(2);
  return RankedTensorType::get({ShapedType::kDynamic, heads, channels[0], channels[1]}, element);
}

unsigned ScanBuilder::addSave(Value stepValue, int64_t every, RankedTensorType type) {
  assert((!saveEvery || saveEvery == every) && "one grid of saved states per scan");
  saveEvery = every;
  saves.push_back(stepValue);
  saveTypes.push_back(type);
  return saves.size() - 1;
}

static RankedTensorType withChannels(ArrayRef<int64_t> walked, Type stepType) {
  SmallVector<int64_t> shape(walked);
  auto vector = dyn_cast<VectorType>(stepType);
  if (vector)
    llvm::append_range(shape, vector.getShape());
  return RankedTensorType::get(shape, vector ? vector.getElementType() : stepType);
}

RankedTensorType ScanBuilder::outputType(Type stepType) {
  auto first = cast<RankedTensorType>(model.getSequences().front().getType());
  SmallVector<int64_t> shape(first.getShape().take_front(3));
  shape[2] = cast<RankedTensorType>(sequences.front().getType()).getDimSize(2);
  return withChannels(shape, stepType);
}

RankedTensorType ScanBuilder::stateType(Type stepType) {
  auto first = cast<RankedTensorType>(model.getSequences().front().getType());
  int64_t count =
      ScanOp::countStates(model.getSequences().front(), model.getCuSeqlens(), segments);
  return withChannels({count, first.getDimSize(2)}, stepType);
}

ScanOp ScanBuilder::finish() {
  YieldOp::create(b, model.getLoc(), nexts, outputs, saves);
  SmallVector<Type> outputTypes, parameterTypes;
  for (Value output : outputs)
    outputTypes.push_back(outputType(output.getType()));
  for (unsigned i = 0; i < parameters.size(); ++i)
    parameterTypes.push_back(block->getArgument(sequences.size() + i).getType());
  scan = ScanOp::create(outer, model.getLoc(), outputTypes, stateTypes, sequences, parameters,
                        parameterTypes, initials, model.getCuSeqlens(),
                        bool(model.getReverse()) != turned, saveEvery, savedStates, saveTypes,
                        segments, /*queries=*/{}, trailing);
  scan.getBody().takeBody(region);
  return scan;
}

Value ScanBuilder::finalState(Value arg) {
  return scan.getFinalStates()[llvm::find(stateArgs, arg) - stateArgs.begin()];
}
