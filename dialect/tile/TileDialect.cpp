//===- TileDialect.cpp - registration and verifiers -----------------------===//
#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "dialect/tile/TileVerify.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

#include "dialect/tile/TileDialect.cpp.inc"
#include "dialect/tile/TileEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/tile/TileAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/tile/TileTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/tile/TileOps.cpp.inc"

void TileDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/tile/TileAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/tile/TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/tile/TileOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

ValueRange ProgramOp::args(unsigned group, unsigned count) {
  size_t sizes[] = {getSequences().size(),   getParameters().size(), getInitialStates().size(),
                    getSavedStates().size(), getOutputs().size(),    getFinalStates().size(),
                    getSaves().size()};
  size_t first = 0;
  for (unsigned i = 0; i < group; ++i)
    first += sizes[i];
  return ValueRange(getBlock().getArguments()).slice(first, count);
}

SmallVector<Type> ProgramOp::argumentTypes(TypeRange parameterTypes) {
  SmallVector<Type> types;
  // The type for one step, or for one sequence and head: without the leading dimensions.
  auto part = [](Type type, unsigned leading) {
    return ScanOp::getStepType(cast<RankedTensorType>(type), leading);
  };
  auto rows = [&](TypeRange tensors) {
    for (Type type : tensors)
      types.push_back(RowsType::get(getContext(), part(type, 3)));
  };
  auto slots = [&](TypeRange tensors) {
    for (Type type : tensors)
      types.push_back(SlotsType::get(getContext(), part(type, 2)));
  };
  rows(getSequences().getTypes());
  llvm::append_range(types, parameterTypes);
  slots(getInitialStates().getTypes());
  slots(getSavedStates().getTypes());
  rows(getOutputs().getTypes());
  slots(getFinalStates().getTypes());
  slots(getSaves().getTypes());
  types.append(getNumScalars(), IndexType::get(getContext()));
  return types;
}

/// Whether `type` can be the region argument for the parameter `tensor`.
static bool isParameterOf(RankedTensorType tensor, Type type) {
  auto slots = dyn_cast<SlotsType>(type);
  auto vector = slots ? dyn_cast<VectorType>(slots.getSlot()) : VectorType();
  if (slots && !vector)
    return false;
  ArrayRef<int64_t> shape = vector ? vector.getShape() : ArrayRef<int64_t>();
  int64_t leading = tensor.getRank() - int64_t(shape.size());
  return leading >= 0 && leading <= 2 && tensor.getShape().drop_front(leading) == shape &&
         tensor.getElementType() == (vector ? vector.getElementType() : type);
}

SmallVector<Value> ProgramOp::getResultsFromInto() {
  SmallVector<Value> results;
  for (int64_t number : getIntoResults().value_or(ArrayRef<int64_t>()))
    results.push_back((*this)->getResult(number));
  return results;
}

static LogicalResult verifyInto(ProgramOp op) {
  ArrayRef<int64_t> numbers = op.getIntoResults().value_or(ArrayRef<int64_t>());
  int64_t last = -1, count = op->getNumResults();
  bool areResults =
      numbers.size() == op.getInto().size() && llvm::all_of(numbers, [&](int64_t number) {
        return std::exchange(last, number) < number && number < count;
      });
  if (!areResults || ValueRange(op.getResultsFromInto()).getTypes() != op.getInto().getTypes())
    return op.emitOpError(
        "'into' must have a tensor of its type for each result in 'at', whose numbers must rise "
        "(C7)");
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  if (getSequences().empty())
    return emitOpError("must have at least one sequence (C1)");
  if (int64_t(getChunk()) < 1 || int64_t(getSlices()) < 1 || int64_t(getSlices()) > kMaxChannels)
    return emitOpError() << "'chunk' and 'slices' must be positive, and 'slices' at most "
                         << kMaxChannels << " (C2), but they are " << getChunk() << " and "
                         << getSlices();
  bool saves = !getSaves().empty() || !getSavedStates().empty();
  if (saves != getSaveEvery().has_value() ||
      (saves && (int64_t(*getSaveEvery()) < 1 || int64_t(*getSaveEvery()) > kMaxRows ||
                 *getSaveEvery() % getChunk())))
    return emitOpError() << "must have a 'save_every' of at most " << kMaxRows
                         << " that is a multiple of 'chunk' where states are saved or saved ones "
                            "read, and none elsewhere (C3)";
  if (getSegments() && getSaveEvery() && getSegments()->getLeast() % *getSaveEvery())
    return emitOpError() << "'save_every' must divide the least rows of 'segments' (C4), but they "
                            "are "
                         << *getSaveEvery() << " and " << getSegments()->getLeast();
  if (getTrailing() ? !getSegments() || saves || int64_t(*getTrailing()) < 1 || int64_t(*getTrailing()) > kMaxRows
                    : getTrailingReverse() || getRemembered())
    return emitOpError() << "'trailing' must be from 1 to " << kMaxRows
                         << ", beside 'segments' and no saved states or saves; 'where' and 'reverse' need it (C6)";
  if (Value skipped = getSkipped();
      skipped && cast<RankedTensorType>(skipped.getType()).getRank() != 2)
    return emitOpError() << "'skipping' must have a number for each sequence and head (C7), but is "
                         << skipped.getType();
  if (failed(verifyInto(*this)))
    return failure();
  size_t firstParameter = getSequences().size(), numParameters = getParameters().size();
  Block &block = getBlock();
  if (block.getNumArguments() < firstParameter + numParameters)
    return emitOpError("has too few region arguments (C1)");
  SmallVector<Type> parameterTypes;
  for (auto [i, parameter] : llvm::enumerate(getParameters())) {
    Type type = block.getArgument(firstParameter + i).getType();
    if (!isParameterOf(cast<RankedTensorType>(parameter.getType()), type))
      return emitOpError() << "region argument " << firstParameter + i << ", for a parameter of "
                           << parameter.getType()
                           << ", must be a number or slots of its vector (C1), but is " << type;
    parameterTypes.push_back(type);
  }
  for (TypeRange tensors : {TypeRange(getSequences()), TypeRange(getOutputs())})
    for (Type type : tensors)
      if (cast<RankedTensorType>(type).getRank() < 3 ||
          !ScanOp::getStepType(cast<RankedTensorType>(type), 3))
        return emitOpError() << "sequences and outputs must be [B,T,H] or [B,T,H,C] with C static "
                                "(C1), but one is "
                             << type;
  for (TypeRange tensors : {TypeRange(getInitialStates()), TypeRange(getSavedStates()),
                            TypeRange(getFinalStates()), TypeRange(getSaves())})
    for (Type type : tensors)
      if (cast<RankedTensorType>(type).getRank() < 2)
        return emitOpError() << "states must begin with [B,H] (C1), but one is " << type;
  SmallVector<Type> wanted = argumentTypes(parameterTypes);
  if (block.getNumArguments() != wanted.size())
    return emitOpError() << "the region must have " << wanted.size() << " arguments (C1), but has "
                         << block.getNumArguments();
  for (auto [i, arg, type] : llvm::enumerate(block.getArguments(), wanted))
    if (arg.getType() != type)
      return emitOpError() << "region argument " << i << " must be " << type << " (C1), but is "
                           << arg.getType();
  // Functions alone have tensors.
  WalkResult walked = block.walk([](Operation *op) -> WalkResult {
    for (Type type : op->getResultTypes())
      if (isa<TensorType, BaseMemRefType>(type))
        return op->emitOpError() << "has a result of type " << type
                                 << "; a block program computes with numbers and vectors (C5)";
    return success();
  });
  return failure(walked.wasInterrupted() || failed(verifyGuards(*this)));
}

//===----------------------------------------------------------------------===//
// Memory
//
// Rows and slots are types of their own, and not memrefs or pointers: a program is written for any
// sequence and head, so it knows neither an address nor a stride. The emitter, which knows the
// tensor, adds both, and the same program can then be interpreted on the host, copied by TMA (which
// takes a tensor map and coordinates, not an address) or by threads.
//===----------------------------------------------------------------------===//

LogicalResult tile::verifyRows(Operation *op, RowsType rows, Type tile, StringRef constraint) {
  auto vector = cast<VectorType>(tile);
  bool areVectors = isa<VectorType>(rows.getRow());
  if (vector.getRank() > (areVectors ? 2 : 1) ||
      vector.getElementType() != getElementTypeOrSelf(rows.getRow()))
    return op->emitOpError() << "the tile of rows of " << rows.getRow() << " must be of rank 1"
                             << (areVectors ? " or 2" : "") << " with their element type ("
                             << constraint << "), but is " << tile;
  return success();
}

LogicalResult LoadOp::verify() { return verifyRows(*this, getRows().getType(), getType(), "C1"); }
LogicalResult PrefetchOp::verify() {
  auto tile = dyn_cast<VectorType>(getTile());
  if (!tile || tile.getRank() != 2)
    return emitOpError() << "must be for a matrix (C1), but is for " << getTile();
  return verifyRows(*this, getRows().getType(), tile, "C1");
}
LogicalResult StoreOp::verify() {
  return verifyRows(*this, getRows().getType(), getTile().getType(), "C1");
}

static LogicalResult verifySlot(Operation *op, SlotsType slots, Type part, size_t numOffsets) {
  auto rankOf = [](Type type) {
    auto vector = dyn_cast<VectorType>(type);
    return vector ? vector.getRank() : 0;
  };
  int64_t rank = rankOf(slots.getSlot());
  if (int64_t(numOffsets) != rank || (rankOf(part) != rank && rankOf(part) != 0) ||
      getElementTypeOrSelf(part) != getElementTypeOrSelf(slots.getSlot()))
    return op->emitOpError() << "a part of a slot of " << slots.getSlot() << " must have " << rank
                             << " offsets and be of that rank, or one element, and of that element "
                                "type (C1), but there are "
                             << numOffsets << " and it is " << part;
  return success();
}

LogicalResult SlotRowsOp::verify() {
  auto slot = dyn_cast<VectorType>(getSlots().getType().getSlot());
  Type row = getRows().getType().getRow();
  auto channels = dyn_cast<VectorType>(row);
  if (slot && getElementTypeOrSelf(row) == slot.getElementType() &&
      slot.getShape().drop_front() == (channels ? channels.getShape() : ArrayRef<int64_t>()))
    return success();
  return emitOpError() << "the rows must be those of a matrix or vector (C1), but are of "
                       << getRows().getType().getRow() << " and the slot is "
                       << getSlots().getType().getSlot();
}
LogicalResult LoadSlotOp::verify() {
  return verifySlot(*this, getSlots().getType(), getResult().getType(), getOffsets().size());
}
LogicalResult StoreSlotOp::verify() {
  return verifySlot(*this, getSlots().getType(), getTile().getType(), getOffsets().size());
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

LogicalResult ChooseOp::verify() {
  int64_t rank = cast<RankedTensorType>(getRows().getType()).getRank();
  if (rank != 3 && rank != 4)
    return emitOpError() << "'rows' must be a sequence, [B,T,H] or [B,T,H,C] (C1), but is "
                         << getRows().getType();
  return success();
}

LogicalResult DotOp::verify() {
  auto sizes = [](Value v, bool transposed) {
    ArrayRef<int64_t> shape = cast<VectorType>(v.getType()).getShape();
    return std::make_pair(shape[transposed], shape[!transposed]);
  };
  auto [m, l] = sizes(getLhs(), getLhsTransposed());
  auto [l2, n] = sizes(getRhs(), getRhsTransposed());
  auto [accM, accN] = sizes(getAcc(), false);
  if (getElementTypeOrSelf(getLhs().getType()) != getElementTypeOrSelf(getRhs().getType()))
    return emitOpError("lhs and rhs must have one element type (C1)");
  if (l != l2 || m != accM || n != accN)
    return emitOpError() << "a product of [" << m << "," << l << "] and [" << l2 << "," << n
                         << "] cannot be added to [" << accM << "," << accN << "] (C1)";
  Type element = getElementTypeOrSelf(getLhs().getType());
  if (getAlgorithm() && !element.isF32())
    return emitOpError() << "multiplies f32 matrices in " << stringifyDotAlgorithm(*getAlgorithm())
                         << " (C3), but these are of " << element;
  if (isInTf32() && (getLhsTransposed() || getRhsTransposed()))
    return emitOpError("multiplies transposed operands in tf32 (C5)");
  auto verifyRange = [&, this](DenseI64ArrayAttr range, int64_t size, const char *name,
                               const char *constraint) -> LogicalResult {
    auto isStep = [](int64_t at) { return at % kStep == 0; };
    if (!range || (range.size() == 2 && llvm::all_of(range.asArrayRef(), isStep) && range[0] >= 0 &&
                   range[0] < range[1] && range[1] <= size))
      return success();
    return emitOpError() << "`" << name << "` must have two multiples of " << kStep
                         << ", with 0 <= from < to <= " << size << " (" << constraint
                         << "), but is " << range;
  };
  if (failed(verifyRange(getOverAttr(), l, "over", "C2")))
    return failure();
  return verifyRange(getRowsAttr(), m, "rows", "C4");
}

LogicalResult SolveOp::verify() {
  auto matrix = cast<VectorType>(getMatrix().getType());
  int64_t rows = cast<VectorType>(getType()).getDimSize(0);
  if (matrix.getDimSize(0) != rows || matrix.getDimSize(1) != rows)
    return emitOpError() << "the matrix must be square with as many rows as the right-hand side, "
                         << rows << " (C1), but is " << matrix;
  return success();
}

/// Checks that `matrix` is square with a size that `divisor` divides, and that `block` is one of `sizes`.
static LogicalResult verifyBlocks(Operation *op, VectorType matrix, int64_t divisor, int64_t block,
                                  ArrayRef<int64_t> sizes) {
  if (!llvm::is_contained(sizes, block)) {
    auto error = op->emitOpError() << "blocks must have ";
    llvm::interleave(sizes, error, " or ");
    return error << " rows (C2), but have " << block;
  }
  if (matrix.getDimSize(0) != matrix.getDimSize(1) || matrix.getDimSize(0) % divisor)
    return op->emitOpError() << "the matrix must be square, with a size that " << divisor
                             << " divides (C1), but is " << matrix;
  return success();
}

LogicalResult InvertDiagonalOp::verify() {
  int64_t block = getBlock();
  return verifyBlocks(*this, cast<VectorType>(getType()), block, block, {8, 16, 32});
}

LogicalResult MergeInversesOp::verify() {
  int64_t block = getBlock();
  return verifyBlocks(*this, cast<VectorType>(getType()), 2 * block, block, {8, 16});
}

LogicalResult CumsumOp::verify() {
  int64_t rows = cast<VectorType>(getType()).getDimSize(0);
  if (failed(verifyFrom(*this, getFrom(), rows, "C1")))
    return failure();
  return verifyTriangle(*this, getTriangle(), getReverse(), getExclusive(), getFrom(), rows, "C2");
}

LogicalResult RangeGuardOp::verify() {
  if (getTiles().empty())
    return emitOpError("has no tile (C1)");
  return success();
}

LogicalResult WindowOp::verify() {
  if (int64_t(getFrom().size()) != cast<VectorType>(getType()).getRank())
    return emitOpError() << "a bound of each kind is needed for each dimension of " << getType()
                         << " (C1), but there are " << getFrom().size();
  return success();
}

LogicalResult BroadcastOp::verify() {
  if (getVector().getType().getDimSize(0) != getType().getDimSize(getDim()))
    return emitOpError() << "the vector must be as long as dimension " << getDim()
                         << " of the result (C1)";
  return success();
}

LogicalResult tile::SumOp::verify() {
  if (getType().getDimSize(0) != getTile().getType().getDimSize(1 - getDim()))
    return emitOpError() << "the result must be as long as dimension " << 1 - getDim()
                         << " of the tile (C1)";
  return success();
}

//===----------------------------------------------------------------------===//
// The dialect's attributes
//===----------------------------------------------------------------------===//

using Kind = DialectAttribute::Kind;

static constexpr DialectAttribute tileAttributes[] = {
    // name, kind, on ops, on arguments, on results
    {kLayoutsAttr, Kind::array, true, false, false},
    {kWarpsAttr, Kind::integer, true, false, false},
    {kWarpgroupsAttr, Kind::unit, true, false, false},
    {kSharedBytesAttr, Kind::integer, true, false, false},
    {kPolynomialAttr, Kind::integer, true, false, false},
};

LogicalResult TileDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  return verifyDialectAttribute(op, attribute, AttributePlace::op, tileAttributes);
}
LogicalResult TileDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned,
                                                    NamedAttribute attribute) {
  return verifyDialectAttribute(op, attribute, AttributePlace::argument, tileAttributes);
}
LogicalResult TileDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                                       NamedAttribute attribute) {
  return verifyDialectAttribute(op, attribute, AttributePlace::result, tileAttributes);
}
