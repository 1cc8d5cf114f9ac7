//===- ReadModule.cpp - a user's file, with the names it gives ------------===//
#include "lowering/driver/ReadModule.h"
#include "dialect/ejk/Names.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

/// "query" where `range` covers `%query`.
static StringRef nameAt(SMRange range) {
  if (!range.isValid())
    return {};
  StringRef name(range.Start.getPointer(), range.End.getPointer() - range.Start.getPointer());
  return name.consume_front("%") ? name : StringRef();
}

OwningOpRef<ModuleOp> ejk::readModule(const std::shared_ptr<llvm::SourceMgr> &sources,
                                      MLIRContext *context) {
  ParserConfig config(context);
  const llvm::MemoryBuffer *buffer = sources->getMemoryBuffer(sources->getMainFileID());
  if (isBytecode(*buffer))
    return parseSourceFile<ModuleOp>(sources, config);
  // What an editor's server is told: where in the file each value is defined.
  AsmParserState definitions;
  Block block;
  if (failed(parseAsmSourceFile(*sources, &block, config, &definitions)))
    return {};
  auto start = FileLineColLoc::get(context, buffer->getBufferIdentifier(), 0, 0);
  OwningOpRef<ModuleOp> module =
      mlir::detail::constructContainerOpForParserIfNecessary<ModuleOp>(&block, context, start);
  if (!module)
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
  return module;
}
