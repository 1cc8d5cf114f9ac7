//===- ReadModule.cpp - a user's file, with the names it gives ------------===//
#include "lowering/driver/ReadModule.h"
#include "dialect/ejk/Names.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/package/Names.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

/// "query" where `range` covers `%query`.
static StringRef nameAt(SMRange range) {
  if (!range.isValid())
    return {};
  StringRef name(range.Start.getPointer(), range.End.getPointer() - range.Start.getPointer());
  return name.consume_front("%") ? name : StringRef();
}

/// That `name` can name `what` in a package and in files.
static LogicalResult checkName(Location loc, StringRef what, StringRef name) {
  const char *problem = ejk::nameProblem(name);
  if (!problem)
    return success();
  return emitError(loc) << what << " cannot be called " << ejk::inQuotes(name) << ": " << problem;
}

/// That every name which a public function gives its package is one.
static LogicalResult checkNames(ModuleOp module) {
  WalkResult walked = module.walk([](func::FuncOp function) -> WalkResult {
    if (!function.isPublic() || function.isExternal())
      return success();
    if (failed(checkName(function.getLoc(), "a function", function.getName())))
      return failure();
    for (BlockArgument argument : function.getArguments())
      if (auto name =
              function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ejk::kNameAttr))
        if (failed(checkName(argument.getLoc(), "an argument", name)))
          return failure();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto name = function.getResultAttrOfType<StringAttr>(i, ejk::kNameAttr))
        if (failed(checkName(function.getLoc(), "a result", name)))
          return failure();
    return success();
  });
  return failure(walked.wasInterrupted());
}

/// What upstream's verifiers and canonicalizations take for granted and crash without. Nothing is
/// verified yet: an operand may be of any type, and any attribute absent.
static LogicalResult checkUpstreamOp(Operation *op) {
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    // Where there is none, the verifier says so.
    if (concat.getDimAttr() && int64_t(concat.getDim()) < 0)
      return concat.emitOpError() << "must have a 'dim' that is not negative, but has "
                                  << int64_t(concat.getDim());
  } else if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    // Where it is absent or of another form, the verifier says so.
    auto groups = op->getAttrOfType<ArrayAttr>("reassociation");
    int64_t next = 0;
    for (Attribute group : groups ? groups.getValue() : ArrayRef<Attribute>()) {
      auto dims = dyn_cast<ArrayAttr>(group);
      for (Attribute dim : dims ? dims.getValue() : ArrayRef<Attribute>()) {
        auto number = dyn_cast<IntegerAttr>(dim);
        if (!number || !number.getType().isInteger(64))
          return success();
        if (number.getInt() != next)
          return collapse.emitOpError() << "must have a 'reassociation' that names each dimension "
                                           "in order, but names "
                                        << number.getInt() << " in the place of " << next;
        ++next;
      }
    }
  } else if (isa<memref::DimOp>(op) && op->getNumOperands() == 2) {
    auto type = dyn_cast<MemRefType>(op->getOperand(0).getType());
    auto constant = op->getOperand(1).getDefiningOp<arith::ConstantOp>();
    auto index = constant ? constant->getAttrOfType<IntegerAttr>("value") : nullptr;
    if (type && index && index.getType().isIndex() &&
        (index.getInt() < 0 || index.getInt() >= type.getRank()))
      return op->emitOpError() << "asks for dimension " << index.getInt() << " of " << type;
  } else if (isa<vector::InsertOp>(op) && op->getNumOperands() >= 2) {
    // The verifier compares only how many dimensions there are.
    auto part = dyn_cast<VectorType>(op->getOperand(0).getType());
    auto whole = dyn_cast<VectorType>(op->getOperand(1).getType());
    if (part && whole && part.getRank() <= whole.getRank() &&
        part.getShape() != whole.getShape().take_back(part.getRank()))
      return op->emitOpError() << "inserts " << part << " into " << whole
                               << ", whose last dimensions must be the same";
  } else if (isa<NVVM::MmaOp>(op)) {
    // Parsers and builders find them from the operands, where these have types of a matmul.
    for (StringRef name : {"multiplicandAPtxType", "multiplicandBPtxType"})
      if (!op->getAttr(name))
        return op->emitOpError() << "requires attribute '" << name << "'";
  } else if (isa<LLVM::ExtractValueOp, LLVM::InsertValueOp>(op)) {
    auto position = op->getAttrOfType<DenseI64ArrayAttr>("position");
    for (int64_t index : position ? position.asArrayRef() : ArrayRef<int64_t>())
      if (index != int32_t(index))
        return op->emitOpError() << "position out of bounds: " << index;
  } else if (auto launch = dyn_cast<gpu::LaunchFuncOp>(op)) {
    // The verifier of the module around it counts its arguments first.
    ArrayRef<int32_t> sizes = launch.getProperties().operandSegmentSizes;
    int64_t sum = 0;
    for (int32_t size : sizes)
      sum += size;
    if (sum != op->getNumOperands() || llvm::any_of(sizes, [](int32_t size) { return size < 0; }))
      return launch.emitOpError() << "has " << op->getNumOperands()
                                  << " operands, but 'operandSegmentSizes' that add up to " << sum;
  } else if (auto function = dyn_cast<gpu::GPUFuncOp>(op)) {
    if (!function.getFunctionTypeAttr())
      return function.emitOpError("requires attribute 'function_type'");
    // The verifier takes the last of the body's arguments for them.
    auto count = op->getAttrOfType<IntegerAttr>("workgroup_attributions");
    if (count && !function.getBody().empty() &&
        (count.getInt() < 0 || count.getInt() > function.getBody().getNumArguments()))
      return function.emitOpError() << "has " << function.getBody().getNumArguments()
                                    << " arguments in its body, but " << count.getInt()
                                    << " workgroup attributions";
  }
  return success();
}

LogicalResult ejk::verifyParsed(ModuleOp module) {
  WalkResult walked =
      module.walk([](Operation *op) -> WalkResult { return checkUpstreamOp(op); });
  return failure(walked.wasInterrupted() || failed(verify(module)));
}

OwningOpRef<ModuleOp> ejk::readModule(const std::shared_ptr<llvm::SourceMgr> &sources,
                                      MLIRContext *context) {
  ParserConfig config(context, /*verifyAfterParse=*/false);
  const llvm::MemoryBuffer *buffer = sources->getMemoryBuffer(sources->getMainFileID());
  if (isBytecode(*buffer)) {
    OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, config);
    return module && succeeded(verifyParsed(*module)) && succeeded(checkNames(*module))
               ? std::move(module)
               : nullptr;
  }
  // What an editor's server is told: where in the file each value is defined.
  AsmParserState definitions;
  Block block;
  if (failed(parseAsmSourceFile(*sources, &block, config, &definitions)))
    return {};
  auto start = FileLineColLoc::get(context, buffer->getBufferIdentifier(), 0, 0);
  OwningOpRef<ModuleOp> module =
      mlir::detail::constructContainerOpForParserIfNecessary<ModuleOp>(&block, context, start);
  if (!module || failed(verifyParsed(*module)))
    return {};
  module->walk([&](func::FuncOp function) {
    if (function.isExternal())
      return;
    const auto *entry = definitions.getBlockDef(&function.getBody().front());
    if (!entry)
      return;
    SmallVector<StringRef> names;
    for (const AsmParserState::SMDefinition &argument : entry->arguments)
      names.push_back(nameAt(argument.loc));
    nameArguments(function, names);
  });
  return succeeded(checkNames(*module)) ? std::move(module) : nullptr;
}
