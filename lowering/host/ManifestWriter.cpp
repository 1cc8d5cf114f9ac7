//===- ManifestWriter.cpp - the manifest of a package ----------------------===//
//
// Writes a function of launches (LowerToGPU.cpp) as JSON. Sizes, grids and workspaces become
// formulas over the symbols that the shapes of arguments bind. Buffers of the same size share a
// workspace where the launches that use one come after those that use the other.
//
//===----------------------------------------------------------------------===//
#include "lowering/host/ManifestWriter.h"
#include "dialect/ejk/AlternativeAttributes.h"
#include "dialect/ejk/Names.h"
#include "dialect/shapes/Shapes.h"
#include "ejk/package_format.h"
#include "lowering/Passes.h"
#include "lowering/host/JoinVariants.h"
#include "lowering/host/ManifestSpelling.h"
#include "lowering/host/StridedInputs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "passes/Passes.h"
#include "runtime/package/Manifest.h"

using namespace mlir;
using namespace ejk;
namespace json = llvm::json;

/// The view that a tensor map describes.
static memref::ReinterpretCastOp viewOf(nvgpu::TmaCreateDescriptorOp map) {
  Value viewed = map.getTensor();
  while (auto cast = viewed.getDefiningOp<memref::CastOp>())
    viewed = cast.getSource();
  return viewed.getDefiningOp<memref::ReinterpretCastOp>();
}

/// The tensor map that `operand` of a launch points to; null for a buffer's address.
static nvgpu::TmaCreateDescriptorOp tensorMapOf(Value operand) {
  auto cast = operand.getDefiningOp<UnrealizedConversionCastOp>();
  return cast ? cast.getInputs().front().getDefiningOp<nvgpu::TmaCreateDescriptorOp>() : nullptr;
}

/// Whether `operand` of a launch is the null pointer, which stands for zeros.
static bool isNull(Value operand) { return bool(operand.getDefiningOp<LLVM::ZeroOp>()); }

/// The argument or allocation that `operand` of a launch reaches; null for a number or null pointer.
static Value bufferOf(Value operand) {
  if (!isa<LLVM::LLVMPointerType>(operand.getType()) || isNull(operand))
    return {};
  Value buffer;
  if (auto map = tensorMapOf(operand)) {
    buffer = viewOf(map).getSource();
  } else {
    Value address = operand.getDefiningOp<LLVM::IntToPtrOp>().getArg();
    if (auto cast = address.getDefiningOp<arith::IndexCastOp>())
      address = cast.getIn();
    buffer = address.getDefiningOp<memref::ExtractAlignedPointerAsIndexOp>().getSource();
  }
  // Workspace whose sizes have partly become constants.
  while (auto cast = buffer.getDefiningOp<memref::CastOp>())
    buffer = cast.getSource();
  return buffer;
}

namespace {
class EntryWriter {
public:
  explicit EntryWriter(func::FuncOp program) : program(program) {}

  FailureOr<json::Object> run() {
    auto numInputs = program->getAttrOfType<IntegerAttr>(kNumInputsAttr);
    if (!numInputs)
      return program.emitError("is not a program of launches; run --ejk-to-gpu"), failure();
    json::Array inputs, outputs;
    for (BlockArgument arg : program.getArguments()) {
      FailureOr<json::Object> tensor = describe(arg);
      if (failed(tensor))
        return failure();
      bool isInput = arg.getArgNumber() < unsigned(numInputs.getInt());
      places[arg] = isInput ? json::Object{{"input", arg.getArgNumber()}}
                            : json::Object{{"output", arg.getArgNumber() - numInputs.getInt()}};
      (isInput ? inputs : outputs).push_back(std::move(*tensor));
    }
    findUses();
    for (Operation &op : program.getBody().front())
      if (failed(visit(op)))
        return failure();
    return json::Object{{"name", entryName(program)},
                        {"inputs", std::move(inputs)},
                        {"outputs", std::move(outputs)},
                        {"constraints", constraints()},
                        {"variants", json::Array{variant()}}};
  }

  /// The function that callers name.
  static StringRef entryName(func::FuncOp program) {
    auto entry = program->getAttrOfType<StringAttr>(kAlternativeOfAttr);
    return entry ? entry.getValue() : program.getName();
  }

private:
  /// The first and the last launch that reach a buffer, counted from 0.
  struct Uses {
    unsigned first, last;
  };

  /// Memory for buffers of `bytes`, used one after another, until launch `last`.
  struct Workspace {
    json::Value bytes;
    unsigned last;
  };

  /// Whether a launch runs does not matter: it counts as one that does.
  void findUses() {
    unsigned index = 0;
    program.walk([&](gpu::LaunchFuncOp launch) {
      for (Value operand : launch.getKernelOperands())
        if (Value buffer = bufferOf(operand))
          uses.try_emplace(buffer, Uses{index, index}).first->second.last = index;
      ++index;
    });
  }

  /// The number of the workspace for a buffer of `bytes`: one that no launch uses any more, or a
  /// new one.
  int64_t workspaceFor(json::Value bytes, Uses uses) {
    for (auto [i, workspace] : llvm::enumerate(workspaces))
      if (workspace.last < uses.first && workspace.bytes == bytes) {
        workspace.last = uses.last;
        return i;
      }
    workspaces.push_back({std::move(bytes), uses.last});
    return workspaces.size() - 1;
  }

  json::Object variant() {
    json::Array workspace;
    for (auto [i, one] : llvm::enumerate(workspaces))
      workspace.push_back(
          json::Object{{"name", "tmp" + std::to_string(i)}, {"bytes", std::move(one.bytes)}});
    json::Object result{{"workspace", std::move(workspace)}, {"launches", std::move(launches)}};
    if (auto schedule = program->getAttrOfType<StringAttr>(kScheduleAttr))
      result["schedule"] = schedule.getValue();
    for (auto [attribute, key] : {std::pair(kNeedsAttr, "needs"), std::pair(kWhenAttr, "when")})
      if (auto condition = program->getAttrOfType<ArrayAttr>(attribute))
        result[key] = conditionExpr(condition);
    return result;
  }

  /// [op, a, b] of an attribute: a and b are sizes, numbers or conditions.
  static json::Value conditionExpr(Attribute condition) {
    if (auto number = dyn_cast<IntegerAttr>(condition))
      return number.getInt();
    if (auto size = dyn_cast<StringAttr>(condition))
      return sizeExpr(size.getValue());
    auto operation = cast<ArrayAttr>(condition);
    json::Array result{cast<StringAttr>(operation[0]).getValue()};
    for (Attribute operand : operation.getValue().drop_front())
      result.push_back(conditionExpr(operand));
    return result;
  }

  /// Whether the caller decides how far the rows of `arg` are apart.
  bool hasRowStride(BlockArgument arg) {
    return bool(program.getArgAttr(arg.getArgNumber(), kRowStrideAttr));
  }

  /// Whether `arg` is a pool, whose slots lie at a distance that the caller decides over.
  bool hasSlots(BlockArgument arg) {
    return !cast<MemRefType>(arg.getType()).getLayout().isIdentity() && !hasRowStride(arg);
  }

  /// The argument that `number` is a stride of; null where that is another number.
  static BlockArgument argumentOfStride(Value number) {
    if (auto cast = number.getDefiningOp<arith::IndexCastOp>())
      number = cast.getIn();
    auto metadata = number.getDefiningOp<memref::ExtractStridedMetadataOp>();
    return metadata ? dyn_cast<BlockArgument>(metadata.getSource()) : BlockArgument();
  }

  std::string rowStrideOf(BlockArgument arg) {
    auto name = program.getArgAttrOfType<StringAttr>(arg.getArgNumber(), kNameAttr);
    return rowStrideSymbol(name.getValue());
  }

  FailureOr<json::Object> describe(BlockArgument arg) {
    auto type = cast<MemRefType>(arg.getType());
    unsigned i = arg.getArgNumber();
    StringRef dtype = dtypeOf(type.getElementType());
    if (dtype.empty())
      return program.emitError() << "argument " << i << " is of " << type.getElementType()
                                 << ", which a package cannot hold",
             failure();
    StringRef name = program.getArgAttrOfType<StringAttr>(i, kNameAttr).getValue();
    json::Array shape;
    for (Attribute size : program.getArgAttrOfType<ArrayAttr>(i, kShapeAttr))
      shape.push_back(sizeExpr(cast<StringAttr>(size).getValue()));
    bool isFloat = isa<FloatType>(type.getElementType());
    json::Object tensor{{"name", name},
                        {"dtype", dtype},
                        {"shape", std::move(shape)},
                        // Kernels read rows 16 bytes at a time, and offsets one by one.
                        {"align", isFloat ? 16 : type.getElementTypeBitWidth() / 8}};
    if (auto total = program.getArgAttrOfType<StringAttr>(i, kTotalAttr)) {
      tensor["role"] = "cu_seqlens";
      tensor["total"] = sizeExpr(total.getValue());
    }
    if (auto states = program.getArgAttrOfType<StringAttr>(i, kIndexedStatesAttr)) {
      tensor["role"] = "state_index";
      tensor["states"] = sizeExpr(states.getValue());
    }
    // Tools that generate random inputs keep gates at 0 or below, rates between 0 and 1, and keys
    // about as long as 1.
    for (StringLiteral role : {kLogDecayAttr, kKeyAttr, kRateAttr})
      if (program.getArgAttr(i, role))
        tensor["role"] = StringRef(role).drop_front(StringRef("ejk.").size());
    if (auto alias = program.getArgAttrOfType<IntegerAttr>(i, kMayAliasAttr))
      tensor["may_alias"] = alias.getInt();
    if (program.getArgAttr(i, kInPlaceAttr))
      tensor["in_place"] = true;
    if (hasSlots(arg))
      tensor["slots"] = true;
    if (hasRowStride(arg))
      tensor["row_stride"] = rowStrideOf(arg);
    return tensor;
  }

  /// The divisor of the constraint on `size`: `divisor`, or, if that is 0, size + 1, which divides
  /// only 0. A call without heads has nothing to do and is no error.
  static json::Value nonZero(const json::Value &divisor, const json::Value &size) {
    if (divisor.getAsInteger())
      return divisor;
    json::Value isZero = json::Array{"max", json::Array{"-", 1, divisor}, 0};
    return json::Array{"+", divisor, json::Array{"*", json::Array{"+", size, 1}, isZero}};
  }

  json::Array constraints() {
    json::Array result;
    for (Attribute attr : program->getAttrOfType<ArrayAttr>(kConstraintsAttr)) {
      auto constraint = cast<DictionaryAttr>(attr);
      auto divisor = constraint.getAs<StringAttr>("divisor");
      json::Value size = sizeExpr(constraint.getAs<StringAttr>("size").getValue());
      if (divisor)
        size = json::Array{"mod", size, nonZero(sizeExpr(divisor.getValue()), size)};
      result.push_back(
          json::Object{{"expr", size},
                       {"equals", divisor ? 0 : 1},
                       {"message", constraint.getAs<StringAttr>("message").getValue()}});
    }
    return result;
  }

  /// The formula of `value`, an index or i64.
  FailureOr<json::Value> expr(Value value) {
    APInt constant;
    if (matchPattern(value, m_ConstantInt(&constant)))
      return json::Value(constant.getSExtValue());
    if (BlockArgument arg = argumentOfStride(value))
      return json::Value(rowStrideOf(arg));
    Operation *op = value.getDefiningOp();
    if (auto cast = dyn_cast_or_null<arith::IndexCastOp>(op))
      return expr(cast.getIn());
    if (auto dim = dyn_cast_or_null<memref::DimOp>(op)) {
      auto arg = dyn_cast<BlockArgument>(dim.getSource());
      std::optional<int64_t> index = dim.getConstantIndex();
      if (arg && index)
        return sizeExpr(cast<StringAttr>(program.getArgAttrOfType<ArrayAttr>(arg.getArgNumber(),
                                                                             kShapeAttr)[*index])
                            .getValue());
    }
    if (auto compare = dyn_cast_or_null<arith::CmpIOp>(op)) {
      FailureOr<json::Value> a = expr(compare.getLhs()), b = expr(compare.getRhs());
      if (failed(a) || failed(b))
        return failure();
      return json::Value(json::Array{comparison(compare.getPredicate()), *a, *b});
    }
    StringRef symbol = !op                                                            ? ""
                       : isa<arith::AddIOp>(op)                                       ? "+"
                       : isa<arith::SubIOp>(op)                                       ? "-"
                       : isa<arith::MulIOp>(op)                                       ? "*"
                       : isa<arith::MaxSIOp>(op)                                      ? "max"
                       : isa<arith::MinSIOp>(op)                                      ? "min"
                       : isa<arith::CeilDivUIOp, arith::CeilDivSIOp>(op)              ? "ceildiv"
                       : isa<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp>(op) ? "floordiv"
                                                                                      : "";
    if (symbol.empty())
      return emitError(value.getLoc())
                 << "a launch's size is not a formula of the arguments' sizes",
             failure();
    FailureOr<json::Value> a = expr(op->getOperand(0)), b = expr(op->getOperand(1));
    if (failed(a) || failed(b))
      return failure();
    return json::Value(json::Array{symbol, *a, *b});
  }

  LogicalResult visit(Operation &op) {
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      FailureOr<json::Value> condition = expr(branch.getCondition());
      if (failed(condition))
        return failure();
      size_t first = launches.size();
      for (Operation &inner : branch.thenBlock()->without_terminator())
        if (failed(visit(inner)))
          return failure();
      for (json::Value &launch : llvm::drop_begin(launches, first))
        (*launch.getAsObject())["when"] = *condition;
      return success();
    }
    if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
      auto used = uses.find(alloc.getResult());
      if (used == uses.end())
        return success();
      json::Value bytes = int64_t(alloc.getType().getElementTypeBitWidth() / 8);
      auto next = alloc.getDynamicSizes().begin();
      for (int64_t size : alloc.getType().getShape()) {
        FailureOr<json::Value> factor =
            ShapedType::isDynamic(size) ? expr(*next++) : FailureOr<json::Value>(json::Value(size));
        if (failed(factor))
          return failure();
        bytes = json::Array{"*", bytes, *factor};
      }
      places[alloc.getResult()] =
          json::Object{{"workspace", workspaceFor(std::move(bytes), used->second)}};
      return success();
    }
    if (auto launch = dyn_cast<gpu::LaunchFuncOp>(op))
      return visitLaunch(launch);
    return success(); // sizes and addresses are read at their uses
  }

  /// A tensor map: a strided view of the buffer at `place`, and the TMA tile.
  FailureOr<json::Object> tensorMap(nvgpu::TmaCreateDescriptorOp map, json::Object place) {
    memref::ReinterpretCastOp view = viewOf(map);
    FailureOr<json::Array> sizes = exprs(view.getMixedSizes());
    // The innermost is 1.
    FailureOr<json::Array> strides = exprs(ArrayRef(view.getMixedStrides()).drop_back());
    if (failed(sizes) || failed(strides))
      return failure();
    MemRefType box = map.getTensorMap().getType().getTensor();
    return json::Object{{"tensor_map", std::move(place)},
                        {"dtype", dtypeOf(box.getElementType())},
                        {"sizes", std::move(*sizes)},
                        {"strides", std::move(*strides)},
                        {"box", json::Array(box.getShape())}};
  }

  FailureOr<json::Array> exprs(ArrayRef<OpFoldResult> numbers) {
    json::Array result;
    for (OpFoldResult number : numbers) {
      FailureOr<json::Value> value = json::Value(nullptr);
      if (auto known = getConstantIntValue(number))
        value = json::Value(*known);
      else
        value = expr(cast<Value>(number));
      if (failed(value))
        return failure();
      result.push_back(std::move(*value));
    }
    return result;
  }

  LogicalResult visitLaunch(gpu::LaunchFuncOp launch) {
    FailureOr<json::Value> grid = expr(launch.getGridSizeX()), block = expr(launch.getBlockSizeX());
    if (failed(grid) || failed(block))
      return failure();
    APInt shared(32, 0);
    if (Value bytes = launch.getDynamicSharedMemorySize())
      matchPattern(bytes, m_ConstantInt(&shared));
    json::Array args;
    for (Value operand : launch.getKernelOperands()) {
      if (isNull(operand)) {
        args.push_back(json::Object{{"i64", 0}});
        continue;
      }
      Value buffer = bufferOf(operand);
      BlockArgument strided = buffer ? BlockArgument() : argumentOfStride(operand);
      if (strided && hasSlots(strided)) {
        args.push_back(json::Object{{"slot_stride", strided.getArgNumber()}});
        continue;
      }
      if (!buffer) {
        FailureOr<json::Value> number = expr(operand);
        if (failed(number))
          return failure();
        args.push_back(json::Object{{"i64", *number}});
        continue;
      }
      json::Object place = places.find(buffer)->second;
      if (auto map = tensorMapOf(operand)) {
        FailureOr<json::Object> described = tensorMap(map, std::move(place));
        if (failed(described))
          return failure();
        place = std::move(*described);
      }
      args.push_back(std::move(place));
    }
    launches.push_back(json::Object{{"kernel", launch.getKernelName().getValue()},
                                    {"block", json::Array{*block, 1, 1}},
                                    {"shared_bytes", shared.getSExtValue()},
                                    {"grid", *grid},
                                    {"args", std::move(args)}});
    return success();
  }

  func::FuncOp program;
  llvm::DenseMap<Value, json::Object> places;
  llvm::DenseMap<Value, Uses> uses;
  SmallVector<Workspace> workspaces;
  json::Array launches;
};
} // namespace

static json::Object makeManifest(json::Array entries) {
  return json::Object{{"format", EJK_PACKAGE_FORMAT_NAME},
                      {"version", EJK_PACKAGE_VERSION},
                      {"producer", "ejk " EJK_VERSION},
                      {"entries", std::move(entries)}};
}

/// Verifies that the runtime accepts a package with only `entry`: it has limits and rules for
/// names.
static LogicalResult checkLoads(func::FuncOp program, StringRef arch, StringRef imageKind,
                                const json::Object &entry) {
  json::Object manifest = makeManifest(json::Array{json::Object(entry)});
  manifest["images"] = json::Array{json::Object{{"kind", imageKind},
                                                {"arch", arch},
                                                {"offset", 0},
                                                {"size", 1},
                                                {"kernels", json::Object()}}};
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(manifest));
  Result<Manifest> parsed = parseManifest(text, /*payloadSize=*/1);
  if (parsed)
    return success();
  return program.emitError() << "makes a package that the runtime refuses: "
                             << parsed.error().message;
}

FailureOr<json::Object> ejk::writeManifest(ModuleOp module, StringRef arch, StringRef imageKind) {
  json::Array entries;
  for (auto program : module.getOps<func::FuncOp>()) {
    if (program.isPrivate())
      continue;
    FailureOr<json::Object> entry = EntryWriter(program).run();
    if (failed(entry))
      return failure();
    // A derivative takes its function's inputs, a cotangent for each result, and the values that
    // the forward saved.
    auto alternativeOf = program->getAttrOfType<StringAttr>(kAlternativeOfAttr);
    auto whole = alternativeOf ? module.lookupSymbol<func::FuncOp>(alternativeOf) : program;
    if (!whole || whole.isPrivate())
      return program.emitError() << "is one of the ways to compute '" << alternativeOf.getValue()
                                 << "', which is not compiled; ask for that",
             failure();
    bool isAlternative = bool(alternativeOf);
    auto derivativeOf = program->getAttrOfType<StringAttr>(kDerivativeOfAttr);
    if (derivativeOf && !isAlternative &&
        module.lookupSymbol<func::FuncOp>(derivativeOf.getValue()))
      (*entry)["vjp_of"] = derivativeOf.getValue();
    if (auto forwardOf = program->getAttrOfType<StringAttr>(kForwardOfAttr))
      (*entry)["fwd_of"] = forwardOf.getValue();
    addEntry(entries, std::move(*entry), isAlternative);
  }
  completeForwards(entries, /*isPortable=*/llvm::isDigit(arch.back()));
  for (json::Value &value : entries) {
    json::Object &entry = *value.getAsObject();
    replaceRowStrides(entry);
    unwrapSingle(entry);
    auto program = module.lookupSymbol<func::FuncOp>(*entry.getString("name"));
    if (failed(checkLoads(program, arch, imageKind, entry)))
      return failure();
  }
  if (entries.empty())
    return module.emitError("holds no public function to compile"), failure();
  return makeManifest(std::move(entries));
}
