//===- Meaning.h - what a module's functions compute ---------------*- C++ -*-===//
#ifndef EJK_TOOLS_EJKFUZZMLIR_MEANING_H
#define EJK_TOOLS_EJKFUZZMLIR_MEANING_H

#include "dialect/reference/Interpreter.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>

namespace ejk::fuzz {

/// What each public function of a module gives on small random inputs. A function that only
/// checks gives what it checks.
class Meaning {
public:
  /// Draws inputs for the functions of `module`, and interprets them.
  Meaning(mlir::ModuleOp module, uint64_t seed);

  /// Interprets the functions of `module`, a rewritten one, on the same inputs. Says in which
  /// function and how its results differ; empty where they do not. Says nothing of a function that
  /// could not be interpreted before or that has another type now. Neither where it met numbers
  /// near overflow, or where a range guard decides what it computes: passes may make 0 · inf of
  /// numbers that cancelled, and choose the other path.
  std::string differenceFrom(mlir::ModuleOp module, unsigned &compared) const;

private:
  struct Function {
    std::vector<reference::Tensor> inputs, results;
    mlir::FunctionType type;
  };
  /// The results of `function` on `inputs`, then what it checks. Sets `allTame` to false where a
  /// tensor on the way has a number near overflow.
  static std::optional<std::vector<reference::Tensor>>
  run(mlir::func::FuncOp function, llvm::ArrayRef<reference::Tensor> inputs,
      bool *allTame = nullptr);
  static bool pathsAgree(mlir::func::FuncOp function, const Function &known);
  std::map<std::string, Function> functions;
};

} // namespace ejk::fuzz

#endif // EJK_TOOLS_EJKFUZZMLIR_MEANING_H
