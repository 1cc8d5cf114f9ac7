//===- LowerToGPU.cpp - scans to kernels, functions to launches ------------===//
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "lowering/Passes.h"
#include "lowering/emit/TileKernel.h"
#include "lowering/host/LowerFunctions.h"
#include "lowering/host/PrepareTensors.h"
#include "lowering/host/SharedKernels.h"
#include "lowering/kernels/GroupedStates.h"
#include "lowering/kernels/HeadsKernel.h"
#include "lowering/kernels/LinalgKernel.h"
#include "lowering/kernels/PooledStates.h"
#include "lowering/kernels/SumHeadsKernel.h"
#include "lowering/layout/TileLayout.h"
#include "lowering/select/Conditions.h"
#include "lowering/step/StepKernel.h"
#include "lowering/target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/Passes.h"

namespace ejk {
#define GEN_PASS_DEF_LOWERTOGPU
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;

static MemRefType bufferType(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return MemRefType::get(type.getShape(), type.getElementType());
}

namespace {
/// Lowers one function on tensors to launches on buffers.
class ProgramBuilder {
public:
  ProgramBuilder(func::FuncOp function, gpu::GPUModuleOp kernels, KernelMaker &maker,
                 SharedKernels &shared)
      : function(function), kernels(kernels), maker(maker), shared(shared), shapes(function),
        b(function) {}

  LogicalResult run() {
    if (!function->hasAttr(kConstraintsAttr))
      return function.emitError("is not described; run --ejk-describe-interface first");
    if (failed(prepareTensors(function, copied)) || failed(createProgram()))
      return failure();
    findAlternatives();
    for (Operation &op : function.getBody().front().without_terminator())
      if (failed(lower(op)))
        return failure();
    func::ReturnOp::create(b, function.getLoc());
    return success();
  }

  func::FuncOp program;
  unsigned numScans = 0, numBlocks = 0, numPlain = 0;

private:
  /// Creates the function of launches. Its arguments are memrefs, inputs first.
  LogicalResult createProgram() {
    Operation *ret = function.getBody().front().getTerminator();
    SmallVector<Type> types;
    for (BlockArgument arg : function.getArguments()) {
      if (!isStorable(arg.getType()))
        return function.emitError()
               << "argument '" << argumentName(function, arg.getArgNumber()) << "' is "
               << arg.getType() << "; a compiled function takes " << kStorable;
      types.push_back(bufferType(arg));
    }
    for (Value result : ret->getOperands())
      types.push_back(bufferType(result));
    unsigned numInputs = function.getNumArguments();
    program = func::FuncOp::create(b, function.getLoc(), function.getName(),
                                   b.getFunctionType(types, {}));
    program->setAttr(kNumInputsAttr, b.getI64IntegerAttr(numInputs));
    program->setAttr(kConstraintsAttr, function->getAttr(kConstraintsAttr));
    for (StringRef name : {kForwardOfAttr, kDerivativeOfAttr, kScheduleAttr, kAlternativeOfAttr,
                           kNeedsAttr, kWhenAttr})
      if (Attribute attribute = function->getAttr(name))
        program->setAttr(name, attribute);
    b.setInsertionPointToStart(program.addEntryBlock());
    for (BlockArgument arg : function.getArguments()) {
      program.setArgAttrs(arg.getArgNumber(), function.getArgAttrDict(arg.getArgNumber()));
      buffers[arg] = program.getArgument(arg.getArgNumber());
      noteSizes(arg, buffers[arg]);
    }
    for (auto [i, result] : llvm::enumerate(ret->getOperands())) {
      program.setArgAttrs(numInputs + i, function.getResultAttrDict(i));
      buffers[result] = buffers[memoryOf(result)] = program.getArgument(numInputs + i);
      describeAlias(numInputs + i, result);
    }
    return success();
  }

  DimExpr sizeOf(Value tensor, unsigned dim) {
    if (auto it = copied.find(tensor); it != copied.end())
      tensor = it->second;
    return shapes.dim(tensor, dim);
  }

  /// Lets a final state alias its initial state if nothing else reads that. This is safe for a K×V
  /// state, because the same thread reads and writes each element.
  void describeAlias(unsigned index, Value result) {
    unsigned readers = 1;
    bool isState = cast<RankedTensorType>(result.getType()).getRank() == 4;
    result = sameMemory(result);
    if (auto write = result.getDefiningOp<WriteStatesOp>()) {
      if (auto pool = dyn_cast<BlockArgument>(write.getPool())) {
        program.setArgAttr(index, kMayAliasAttr, b.getI64IntegerAttr(pool.getArgNumber()));
        program.setArgAttr(index, kInPlaceAttr, b.getUnitAttr());
      }
      return;
    }
    if (auto choose = result.getDefiningOp<tile::ChooseOp>()) {
      // The block program for several steps reads the same state, and each block only its part.
      result = choose.getSingle();
      readers = 2;
    }
    auto scan = result.getDefiningOp<ScanOp>();
    if (!scan)
      return;
    unsigned number = cast<OpResult>(result).getResultNumber(), outputs = scan.getOutputs().size();
    if (number < outputs || number >= outputs + scan.getFinalStates().size() || !isState)
      return;
    Value given = scan.getInitialState(number - outputs);
    auto initial = given ? dyn_cast<BlockArgument>(sameMemory(given)) : BlockArgument();
    if (initial && given.hasNUses(readers) && initial.hasNUses(given == initial ? readers : 1))
      program.setArgAttr(index, kMayAliasAttr, b.getI64IntegerAttr(initial.getArgNumber()));
  }

  /// Records the first argument that determines each size symbol.
  void noteSizes(Value tensor, Value buffer) {
    auto type = cast<MemRefType>(buffer.getType());
    for (int64_t d = 0; d < type.getRank(); ++d) {
      DimExpr size = sizeOf(tensor, d);
      if (size.kind == DimExpr::Kind::constant || size.kind == DimExpr::Kind::slots ||
          size.kind == DimExpr::Kind::operation || symbols.contains(size.symbol))
        continue;
      Value value = memref::DimOp::create(b, function.getLoc(), buffer, d);
      if (size.kind == DimExpr::Kind::symbolPlusOne)
        value = arith::SubIOp::create(b, function.getLoc(), value, index(1));
      symbols[size.symbol] = value;
    }
  }

  Value index(int64_t v) { return arith::ConstantIndexOp::create(b, function.getLoc(), v); }

  FailureOr<Value> hostSize(Operation *op, Value tensor, unsigned dim) {
    FailureOr<Value> size = hostSize(sizeOf(tensor, dim));
    if (failed(size))
      op->emitError() << "the size " << sizeOf(tensor, dim).str() << " (dimension " << dim << " of "
                      << tensor.getType() << ") is not the size of any of the function's arguments";
    return size;
  }

  FailureOr<Value> hostSize(const DimExpr &size) {
    Location loc = function.getLoc();
    if (size.kind == DimExpr::Kind::slots) {
      SmallVector<Value> factors;
      for (const DimExpr &factor : size.factors) {
        FailureOr<Value> value = hostSize(factor);
        if (failed(value))
          return failure();
        factors.push_back(*value);
      }
      Value rows = arith::MulIOp::create(b, loc, factors[0], factors[1]);
      Value chunks = arith::DivUIOp::create(b, loc, rows, index(size.value));
      return Value(arith::AddIOp::create(b, loc, chunks, factors[2]));
    }
    if (size.kind == DimExpr::Kind::constant)
      return index(size.value);
    if (size.kind == DimExpr::Kind::operation) {
      FailureOr<Value> lhs = hostSize(size.factors[0]), rhs = hostSize(size.factors[1]);
      if (failed(lhs) || failed(rhs))
        return failure();
      switch (DimExpr::Operator(size.value)) {
      case DimExpr::Operator::add:
        return Value(arith::AddIOp::create(b, loc, *lhs, *rhs));
      case DimExpr::Operator::multiply:
        return Value(arith::MulIOp::create(b, loc, *lhs, *rhs));
      case DimExpr::Operator::floorDivide:
        return Value(arith::DivUIOp::create(b, loc, *lhs, *rhs));
      case DimExpr::Operator::ceilDivide:
        return Value(arith::CeilDivUIOp::create(b, loc, *lhs, *rhs));
      case DimExpr::Operator::minimum:
        return Value(arith::MinSIOp::create(b, loc, *lhs, *rhs));
      case DimExpr::Operator::maximum:
        return Value(arith::MaxSIOp::create(b, loc, *lhs, *rhs));
      }
    }
    auto it = symbols.find(size.symbol);
    if (it == symbols.end())
      return failure();
    if (size.kind == DimExpr::Kind::symbolPlusOne)
      return Value(arith::AddIOp::create(b, function.getLoc(), it->second, index(1)));
    return it->second;
  }

  /// Whether each sum has one term, which is then the result itself: the function needs as many
  /// heads that share as there are to share.
  bool sumsSingleTerms(SumHeadsOp sum) {
    auto needs = function->getAttrOfType<ArrayAttr>(kNeedsAttr);
    Value terms = sum.getTensor();
    if (!needs || !terms.getDefiningOp<ScanOp>() || !terms.hasOneUse() ||
        getElementTypeOrSelf(terms.getType()) != getElementTypeOrSelf(sum.getType()))
      return false;
    Attribute many = b.getStringAttr(sizeOf(terms, sum.getDim()).str());
    Attribute few = b.getStringAttr(sizeOf(sum.getLike(), sum.getDim()).str());
    return holds(needs, condition(b, "=", many, few));
  }

  /// Whether `wanted` is one of the conditions that `needs` joins by "and".
  static bool holds(Attribute needs, ArrayAttr wanted) {
    auto all = dyn_cast<ArrayAttr>(needs);
    if (!all || all == wanted)
      return bool(all);
    return all.size() == 3 && all[0] == StringAttr::get(all.getContext(), "and") &&
           (holds(all[1], wanted) || holds(all[2], wanted));
  }

  Value memoryOf(Value tensor) {
    tensor = sameMemory(tensor);
    if (auto sum = tensor.getDefiningOp<SumHeadsOp>(); sum && sumsSingleTerms(sum))
      tensor = sameMemory(sum.getTensor());
    return tensor;
  }

  FailureOr<Value> bufferOf(Operation *op, Value tensor) {
    tensor = memoryOf(tensor);
    if (Value buffer = buffers.lookup(tensor))
      return buffer;
    // Both alternatives of a choice write to the buffer of its result.
    for (Operation *user : tensor.getUsers())
      if (auto choose = dyn_cast<tile::ChooseOp>(user); choose && tensor != choose.getRows()) {
        FailureOr<Value> chosen = bufferOf(op, choose.getResult());
        if (succeeded(chosen))
          buffers[tensor] = *chosen;
        return chosen;
      }
    Operation *def = tensor.getDefiningOp();
    if (auto write = dyn_cast_or_null<WriteStatesOp>(def)) {
      write.emitError(
          "a pool that is written must be returned, for its caller's memory is written");
      return failure();
    }
    if (!isKernel(def)) {
      def->emitError() << "'" << def->getName() << "' cannot be compiled to a kernel here";
      return failure();
    }
    if (!isStorable(tensor.getType()))
      return def->emitError() << "makes a " << tensor.getType()
                              << " for several ops; what passes between kernels is " << kStorable,
             failure();
    MemRefType type = bufferType(tensor);
    SmallVector<Value> sizes;
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (type.isDynamicDim(d)) {
        FailureOr<Value> size = hostSize(op, tensor, d);
        if (failed(size))
          return failure();
        sizes.push_back(*size);
      }
    return buffers[tensor] = memref::AllocOp::create(b, op->getLoc(), type, sizes);
  }

  /// The rows of a segment of `op`, a scan or a block program.
  FailureOr<Value> hostRowsOfSegments(Operation *op) {
    auto rows = [&](auto scan) {
      return hostSize(DimExpr::rowsOfSegments(*scan.getSegments(),
                                              sizeOf(scan.getSequences().front(), 1)));
    };
    if (auto scan = dyn_cast<ScanOp>(op))
      return rows(scan);
    return rows(cast<tile::ProgramOp>(op));
  }

  /// The number of segments that `op`, a scan or a block program, divides its sequences into.
  FailureOr<Value> hostSegments(Operation *op) {
    auto count = [&](auto scan) {
      Value first = scan.getSequences().front(), cu = scan.getCuSeqlens();
      return hostSize(DimExpr::countSegments(*scan.getSegments(), sizeOf(first, 0),
                                             sizeOf(first, 1), sequencesOf(scan), bool(cu)));
    };
    if (auto scan = dyn_cast<ScanOp>(op))
      return count(scan);
    return count(cast<tile::ProgramOp>(op));
  }

  /// N, of a scan or a block program.
  template <typename Scan> DimExpr sequencesOf(Scan scan) {
    Value cu = scan.getCuSeqlens();
    if (!cu)
      return shapes.dim(scan.getSequences().front(), 0);
    DimExpr sequences = shapes.dim(cu, 0);
    if (sequences.kind == DimExpr::Kind::symbolPlusOne)
      sequences.kind = DimExpr::Kind::symbol;
    else
      --sequences.value;
    return sequences;
  }

  //===--------------------------------------------------------------------===//
  // Ops for sequences of one row only, or of several
  //===--------------------------------------------------------------------===//

  /// The condition under which an op's results are used.
  struct Alternative {
    Value rows; // the sequence whose rows are counted; null: always used
    bool single = false;
    bool operator==(const Alternative &o) const { return rows == o.rows && single == o.single; }
  };

  /// Finds the ops whose results are all used under the same condition.
  void findAlternatives() {
    for (Operation &op : llvm::reverse(function.getBody().front())) {
      std::optional<Alternative> all;
      for (OpOperand &use : op.getUses()) {
        Operation *user = use.getOwner();
        if (isa<tensor::DimOp>(user))
          continue;
        Alternative one = alternatives.lookup(user);
        auto choose = dyn_cast<tile::ChooseOp>(user);
        if (choose && use.get() != choose.getRows())
          one = {choose.getRows(), use.get() == choose.getSingle()};
        if (all && !(*all == one))
          one = {};
        all = one;
      }
      if (all && all->rows)
        alternatives[&op] = *all;
    }
  }

  /// Whether `alternative` holds.
  FailureOr<Value> isAskedFor(Operation *op, const Alternative &alternative) {
    FailureOr<Value> size = hostSize(op, alternative.rows, 1);
    if (failed(size))
      return failure();
    auto predicate = alternative.single ? arith::CmpIPredicate::eq : arith::CmpIPredicate::ne;
    return Value(arith::CmpIOp::create(b, op->getLoc(), predicate, *size, index(1)));
  }

  /// A tensor map of `buffer`: [matrices, 64-column blocks, rows, columns of a block], or by head
  /// [matrices, heads, rows, columns of a head].
  FailureOr<Value> tensorMap(Operation *op, const KernelOperand &operand, Value buffer) {
    Location loc = op->getLoc();
    auto type = cast<MemRefType>(buffer.getType());
    const KernelOperand::TmaTile &tmaTile = *operand.tmaTile;
    auto times = [&](Value x, Value y) -> Value { return arith::MulIOp::create(b, loc, x, y); };
    int64_t perBlock = tmaTile.byHead ? type.getShape().back() : kSwizzledColumns;
    Value matrices = index(1), rows, blocks = index(1);
    for (int64_t d = 0, rank = type.getRank(); d < rank; ++d) {
      FailureOr<Value> size = d + 1 == rank ? index(type.getDimSize(d) / perBlock)
                                            : hostSize(op, operand.tensor, d);
      if (failed(size))
        return failure();
      if (d == tmaTile.rowDim)
        rows = *size;
      else
        (d < tmaTile.rowDim ? matrices : blocks) =
            times(d < tmaTile.rowDim ? matrices : blocks, *size);
    }
    Value width = times(blocks, index(perBlock));
    int64_t dynamic = ShapedType::kDynamic;
    Attribute columns = b.getIndexAttr(perBlock), one = b.getIndexAttr(1);
    auto inBlocks = MemRefType::get(
        {dynamic, dynamic, dynamic, perBlock}, type.getElementType(),
        StridedLayoutAttr::get(b.getContext(), 0, {dynamic, perBlock, dynamic, 1}));
    Value whole = memref::ReinterpretCastOp::create(
        b, loc, inBlocks, buffer, OpFoldResult(b.getIndexAttr(0)),
        ArrayRef<OpFoldResult>{matrices, blocks, rows, columns},
        ArrayRef<OpFoldResult>{times(rows, width), columns, width, one});
    Value unranked = memref::CastOp::create(
        b, loc, UnrankedMemRefType::get(type.getElementType(), Attribute()), whole);
    int64_t shape[] = {1, tmaTile.blocks, tmaTile.rows, kSwizzledColumns};
    auto tile = MemRefType::get(shape, type.getElementType(), AffineMap(),
                                b.getI64IntegerAttr(kSharedSpace));
    auto mapType = nvgpu::TensorMapDescriptorType::get(
        b.getContext(), tile, nvgpu::TensorMapSwizzleKind::SWIZZLE_128B,
        nvgpu::TensorMapL2PromoKind::L2PROMO_256B, nvgpu::TensorMapOOBKind::OOB_ZERO,
        nvgpu::TensorMapInterleaveKind::INTERLEAVE_NONE);
    Value map = nvgpu::TmaCreateDescriptorOp::create(
        b, loc, mapType, unranked,
        llvm::map_to_vector(shape, [&](int64_t size) { return index(size); }));
    return UnrealizedConversionCastOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()),
                                              map)
        .getResult(0);
  }

  /// Launches `kernel`, where `condition`, null for always, holds.
  LogicalResult launch(Operation *op, const Kernel &kernel, Value condition = Value()) {
    Location loc = op->getLoc();
    if (auto it = alternatives.find(op); !condition && it != alternatives.end()) {
      FailureOr<Value> asked = isAskedFor(op, it->second);
      if (failed(asked))
        return failure();
      condition = *asked;
    }
    SmallVector<Value> args;
    for (const KernelOperand &operand : kernel.operands) {
      FailureOr<Value> value =
          operand.isRowsOfSegments ? hostRowsOfSegments(op)
          : operand.dim ? hostSize(op, operand.tensor, *operand.dim) : bufferOf(op, operand.tensor);
      if (failed(value))
        return failure();
      if (operand.tmaTile) {
        FailureOr<Value> map = tensorMap(op, operand, *value);
        if (failed(map))
          return failure();
        args.push_back(*map);
        continue;
      }
      if (operand.dim || operand.isRowsOfSegments) {
        args.push_back(arith::IndexCastOp::create(b, loc, b.getI64Type(), *value));
        continue;
      }
      Value address = memref::ExtractAlignedPointerAsIndexOp::create(b, loc, *value);
      address = arith::IndexCastOp::create(b, loc, b.getI64Type(), address);
      args.push_back(LLVM::IntToPtrOp::create(
          b, loc, LLVM::LLVMPointerType::get(b.getContext(), kGlobalSpace), address));
    }
    Value grid = index(1);
    auto times = [&](Value factor) { grid = arith::MulIOp::create(b, loc, grid, factor); };
    for (const KernelOperand &operand : kernel.gridSizes) {
      FailureOr<Value> size = hostSize(op, operand.tensor, *operand.dim);
      if (failed(size))
        return failure();
      times(*size);
    }
    if (kernel.segmented) {
      FailureOr<Value> count = hostSegments(op);
      if (failed(count))
        return failure();
      times(*count);
    }
    if (kernel.sequencesFrom) {
      FailureOr<Value> entries = hostSize(op, kernel.sequencesFrom, 0);
      if (failed(entries))
        return failure();
      times(arith::SubIOp::create(b, loc, *entries, index(1)));
    }
    if (kernel.gridDivisor != 1)
      grid = arith::CeilDivUIOp::create(b, loc, grid, index(kernel.gridDivisor));
    if (kernel.gridFactor != 1)
      times(index(kernel.gridFactor));
    Value one = index(1), threads = index(kernel.threads);
    Value shared;
    if (kernel.sharedBytes)
      shared = arith::ConstantIntOp::create(b, loc, kernel.sharedBytes, 32);
    FunctionOpInterface function = kernel.function;
    auto symbol =
        SymbolRefAttr::get(kernels.getNameAttr(), {FlatSymbolRefAttr::get(function.getNameAttr())});
    OpBuilder::InsertionGuard guard(b);
    if (condition)
      b.setInsertionPointToStart(scf::IfOp::create(b, loc, condition).thenBlock());
    gpu::LaunchFuncOp::create(b, loc, symbol, gpu::KernelDim3{grid, one, one},
                              gpu::KernelDim3{threads, one, one}, shared, args);
    return success();
  }

  FailureOr<Kernel> makeScan(ScanOp scan, const std::string &name, bool singleStep) {
    auto sizeName = [&](Value v, unsigned d) { return sizeOf(v, d).str(); };
    return shared.get(scan, singleStep, sizeName,
                      [&] { return maker.makeScan(scan, kernels, name, sizeName, singleStep); });
  }

  LogicalResult lowerBlocks(tile::ProgramOp program, const std::string &name) {
    if (program.getSaveEvery() && failed(checkSlots(program, *program.getSaveEvery())))
      return failure();
    auto sizeName = [&](Value v, unsigned d) { return sizeOf(v, d).str(); };
    FailureOr<Kernel> kernel =
        shared.get(program, /*singleStep=*/false, sizeName,
                   [&] { return maker.makeProgram(program, kernels, name, sizeName); });
    return failed(kernel) ? failure() : launch(program, *kernel);
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

  /// Emits one kernel for any number of steps, or one for a single step, or both with a choice by
  /// T, as far as T is known.
  LogicalResult lowerScan(ScanOp scan, const std::string &name) {
    if (scan.getSaveEvery() && failed(checkSlots(scan, *scan.getSaveEvery())))
      return failure();
    Value first = scan.getSequences().front();
    int64_t steps = cast<RankedTensorType>(first.getType()).getDimSize(1);
    bool mayBeOne = !scan.getCuSeqlens() && !scan.getSegments() &&
                    (steps == 1 || (ShapedType::isDynamic(steps) && isForDecoding(scan)));
    bool mayBeMore = scan.getCuSeqlens() || scan.getSegments() || steps != 1;
    // A scan beside a block program is there for the steps that the program does not take.
    if (auto it = alternatives.find(scan); it != alternatives.end()) {
      mayBeOne = it->second.single;
      mayBeMore &= !it->second.single;
    }
    if (!maker.separatesSingleSteps()) {
      FailureOr<Kernel> kernel = makeScan(scan, name, /*singleStep=*/false);
      return failed(kernel) ? failure() : launch(scan, *kernel);
    }
    // Where both may be, each is launched on a condition.
    auto makeAndLaunch = [&](const std::string &name, bool isSingle) -> LogicalResult {
      Value condition;
      if (mayBeOne && mayBeMore) {
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

  /// Whether a scan's kernel does what `op`, on a pool, does.
  bool isDoneByScan(Operation *op) {
    Operation *other = op;
    Value states;
    if (auto read = dyn_cast<ReadStatesOp>(op)) {
      states = read.getStates();
      other = states.hasOneUse() ? *states.user_begin() : nullptr;
    } else {
      states = cast<WriteStatesOp>(op).getStates();
      other = states.getDefiningOp();
    }
    auto scan = dyn_cast_or_null<ScanOp>(other);
    for (unsigned i = 0; scan && i < scan.getNumStates(); ++i)
      if (PooledState state = pooledState(scan, i); state.start == op || state.end == op)
        return maker.keepsPools();
    return false;
  }

  LogicalResult lowerPool(Operation &op, const std::string &name) {
    Value pool = isa<ReadStatesOp>(op) ? op.getOperand(0) : op.getOperand(1);
    auto write = dyn_cast<WriteStatesOp>(op);
    if (write && !isa<BlockArgument>(pool))
      return op.emitError("the pool must be an argument of the function, whose memory is written");
    for (Operation *user : pool.getUsers())
      if (write && user != &op && !user->isBeforeInBlock(&op))
        return user->emitError("reads a pool that has been written in its place")
                   .attachNote(op.getLoc())
               << "it is written here";
    if (isDoneByScan(&op))
      return success();
    FailureOr<Kernel> kernel = maker.makePoolCopy(&op, kernels, name);
    return failed(kernel) ? failure() : launch(&op, *kernel);
  }

  LogicalResult lower(Operation &op) {
    std::string prefix = function.getName().str();
    if (isa<ReadStatesOp, WriteStatesOp>(op))
      return lowerPool(op, prefix + "_pool" + std::to_string(numPlain++));
    if (auto scan = dyn_cast<ScanOp>(op))
      return lowerScan(scan, prefix + "_scan" + std::to_string(numScans++));
    if (auto program = dyn_cast<tile::ProgramOp>(op))
      return lowerBlocks(program, prefix + "_blocks" + std::to_string(numBlocks++));
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      FailureOr<Kernel> kernel =
          maker.makeElementwise(generic, kernels, prefix + "_map" + std::to_string(numPlain++));
      return failed(kernel) ? failure() : launch(&op, *kernel);
    }
    if (auto sum = dyn_cast<SumHeadsOp>(op)) {
      if (sumsSingleTerms(sum))
        return success();
      std::string name = prefix + "_heads" + std::to_string(numPlain++);
      // All sizes are arguments of their own.
      auto anySize = [](Value, unsigned) { return std::string(); };
      FailureOr<Kernel> kernel = shared.get(sum, /*singleStep=*/false, anySize, [&] {
        return FailureOr<Kernel>(maker.makeSumHeads(sum, kernels, name));
      });
      return failed(kernel) ? failure() : launch(&op, *kernel);
    }
    if (isa<RepeatHeadsOp, FirstHeadsOp>(op) && maker.groupsStates() && isDoneByProgram(&op))
      return success();
    if (isa<RepeatHeadsOp, FirstHeadsOp>(op))
      return launch(&op,
                    maker.makeHeads(&op, kernels, prefix + "_heads" + std::to_string(numPlain++)));
    // Constants and fills are read where they are used. Sizes are computed from the arguments.
    if (isa<linalg::FillOp, tensor::CastOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp,
            tensor::EmptyOp, tensor::DimOp, tile::ChooseOp>(op) ||
        op.hasTrait<OpTrait::ConstantLike>() ||
        llvm::all_of(op.getResultTypes(), llvm::IsaPred<IndexType>))
      return success();
    return op.emitError() << "'" << op.getName()
                          << "' cannot be compiled; a compiled function holds ejk's recurrences, "
                             "linalg.generic, and elementwise arith and math on tensors";
  }

  func::FuncOp function;
  gpu::GPUModuleOp kernels;
  KernelMaker &maker;
  SharedKernels &shared;
  ShapeAnalysis shapes;
  OpBuilder b;
  llvm::DenseMap<Value, Value> buffers; // of tensors
  llvm::DenseMap<Value, Value> copied;  // a copy's result to its source
  llvm::DenseMap<Operation *, Alternative> alternatives;
  llvm::StringMap<Value> symbols;
};

/// The back end for NVIDIA GPUs, in gpu and nvvm.
class GPUKernelMaker : public KernelMaker {
public:
  explicit GPUKernelMaker(const Target &target) : target(target) {}

  /// A kernel for one step has no loop over steps, and more lanes to load with.
  bool separatesSingleSteps() const override { return true; }

  FailureOr<Kernel> makeScan(ScanOp scan, gpu::GPUModuleOp module, StringRef name,
                             SizeName sizeName, bool singleStep) override {
    FailureOr<StepPlan> plan = StepPlan::make(scan, singleStep);
    if (failed(plan))
      return failure();
    if (plan->sharedBytes() > target.sharedBytesPerBlock)
      return scan.emitError() << "its steps need " << plan->sharedBytes()
                              << " bytes of shared memory for what they compute without the "
                                 "state, more than the "
                              << target.sharedBytesPerBlock << " that a thread block of "
                              << target.name << " has; split the scan";
    return emitStepKernel(*plan, module, name, sizeName);
  }
  FailureOr<Kernel> makeProgram(tile::ProgramOp program, gpu::GPUModuleOp module, StringRef name,
                                SizeName sizeName) override {
    if (failed(checkTarget(program)))
      return failure();
    return emitTileKernel(program, module, name, sizeName, target.sharedBytesPerBlock);
  }
  FailureOr<Kernel> makeElementwise(linalg::GenericOp op, gpu::GPUModuleOp module,
                                    StringRef name) override {
    return emitLinalgKernel(op, module, name);
  }
  FailureOr<Kernel> makePoolCopy(Operation *op, gpu::GPUModuleOp module,
                                 StringRef name) override {
    return emitPoolCopyKernel(op, module, name);
  }
  bool keepsPools() const override { return true; }
  bool groupsStates() const override { return true; }
  Kernel makeHeads(Operation *op, gpu::GPUModuleOp module, StringRef name) override {
    return emitHeadsKernel(op, module, name);
  }
  Kernel makeSumHeads(SumHeadsOp op, gpu::GPUModuleOp module, StringRef name) override {
    return emitSumHeadsKernel(op, module, name);
  }

private:
  /// Verifies that the target supports the layouts and the partitions of `program`.
  LogicalResult checkTarget(tile::ProgramOp program) {
    if (program->hasAttr(kWarpgroupsAttr) && !target.hasWgmma)
      return program.emitError() << "is laid out for matmuls of four warps (wgmma), which "
                                 << target.name << " lacks; sm_90a has them";
    WalkResult walked = program.walk([&](Operation *op) -> WalkResult {
      if (isa<tile::WarpSpecializeOp>(op) && !target.hasBulkCopies)
        return op->emitError() << "partitions need sm_90 or newer, not " << target.name;
      if (auto partition = dyn_cast<tile::PartitionOp>(op))
        if (partition.getRegisters() && !target.hasSetMaxRegisters)
          return op->emitError() << "a partition's own registers need sm_90a or the like, not "
                                 << target.name;
      return WalkResult::advance();
    });
    return failure(walked.wasInterrupted());
  }

  const Target &target;
};

struct LowerToGPUPass : ejk::impl::LowerToGPUBase<LowerToGPUPass> {
  using LowerToGPUBase::LowerToGPUBase;

  void runOnOperation() override {
    const Target *target = findTarget(arch, getOperation().getLoc());
    if (!target)
      return signalPassFailure();
    GPUKernelMaker maker(*target);
    FailureOr<LoweredCounts> counts = lowerFunctions(getOperation(), maker);
    if (failed(counts))
      return signalPassFailure();
    // What converts the kernels to nvvm finds its patterns by this attribute.
    MLIRContext *context = &getContext();
    for (auto kernels : getOperation().getOps<gpu::GPUModuleOp>())
      kernels.setTargetsAttr(ArrayAttr::get(
          context, NVVM::NVVMTargetAttr::get(context, /*optLevel=*/2, "nvptx64-nvidia-cuda",
                                             target->name)));
    numScans += counts->scans;
    numBlocks += counts->programs;
    numPlain += counts->plain;
    numShared += counts->shared;
  }
};
} // namespace

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
  for (func::FuncOp function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
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
