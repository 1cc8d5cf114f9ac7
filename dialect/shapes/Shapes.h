//===- Shapes.h - symbolic sizes of a function's tensors ----------*- C++ -*-===//
//
// Finds which dimensions of a function's tensors are one size, and names the
// sizes in the letters of the specification, so that a tool can make inputs
// from "B=2,T=128" and a package can state each size of a call as a formula.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_DIALECT_SHAPES_SHAPES_H
#define EJK_DIALECT_SHAPES_SHAPES_H

#include "dialect/ejk/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <string>
#include <vector>

namespace ejk {
namespace tile {
class ProgramOp;
}

/// A size: a number, a symbol, a symbol and one (`cu_seqlens` is N+1), or the slots
/// of a scan's saved states.
struct DimExpr {
  enum class Kind { constant, symbol, symbolPlusOne, slots } kind = Kind::constant;
  int64_t value = 0; // of slots: the rows of a chunk
  std::string symbol;
  /// Of slots: the batch, the rows of each entry, and the sequences.
  std::vector<DimExpr> factors = {};

  /// "64", "T", "N+1" or "B*T/64+N".
  std::string str() const;
  bool operator==(const DimExpr &other) const {
    return kind == other.kind && value == other.value && symbol == other.symbol &&
           factors == other.factors;
  }
};

/// Sizes of the tensors in one function, as its ops relate them and as its
/// arguments and results describe themselves. A snapshot: it does not follow
/// later changes to the function.
///
/// Symbols: B, T, H as a recurrence's query or a scan's or block program's first sequence has
/// them; Hkv for a key's and value's heads; N for the number of packed
/// sequences; Hp for a parameter's heads; d0, d1, … for sizes no
/// recurrence says anything about. A second unrelated size of the same role
/// gets a number: T2, Hkv2, ….
class ShapeAnalysis {
public:
  explicit ShapeAnalysis(mlir::func::FuncOp function);

  /// The size of dimension `dim` of `value`, a ranked tensor.
  DimExpr dim(mlir::Value value, unsigned dim) const;
  std::string symbolOf(mlir::Value value, unsigned dim) const {
    return this->dim(value, dim).str();
  }

  /// What a call must satisfy beyond equal symbols being equal sizes. `message`
  /// says it in words.
  struct Divides {
    DimExpr divisor, dividend;
    std::string message;
  };
  struct IsOne {
    DimExpr dim;
    std::string message;
  };
  llvm::ArrayRef<Divides> divisibilities() const { return divides; }
  llvm::ArrayRef<IsOne> ones() const { return isOne; }
  /// An op that needs two sizes to be one which the types of tensors say are not; it fails on any
  /// input.
  struct Contradiction {
    mlir::Operation *op;
    int64_t one, other;
  };
  const std::optional<Contradiction> &contradiction() const { return contradicts; }
  /// Every symbol in use, in the order it was named.
  llvm::ArrayRef<std::string> symbols() const { return used; }

private:
  struct Node {
    unsigned parent;
    std::optional<int64_t> constant;
    /// A node whose size is one less; none when negative.
    int minusOne = -1;
    std::string name;
    /// Of slots of saved states: the rows of a chunk, and the nodes of the batch, of
    /// its entries' rows and of the sequences.
    int64_t saveEvery = 0;
    unsigned slotsOf[3] = {};
  };
  unsigned makeNode();
  unsigned find(unsigned node) const;
  void unify(unsigned a, unsigned b);
  /// The node of a tensor's dimension, made on first sight.
  unsigned node(mlir::Value value, unsigned dim);
  void name(unsigned node, llvm::StringRef role);
  DimExpr expr(unsigned node) const;

  void constrainByDescription(mlir::func::FuncOp function);
  void constrain(mlir::Operation *op);
  void constrainRecurrence(mlir::Operation *op);
  /// Of an `ejk.scan` or a `tile.program`, whose operands mean the same.
  template <typename Scan> void constrainScan(Scan scan);
  template <typename Scan> void nameScan(Scan scan);
  void nameRecurrence(mlir::Operation *op);
  void requireDivides(unsigned divisor, unsigned dividend, llvm::StringRef what);
  void requireOne(unsigned node, llvm::StringRef what);
  /// N's node for a scan or recurrence, given B's and its cu_seqlens.
  unsigned sequencesNode(unsigned batch, mlir::Value cuSeqlens);

  std::vector<Node> nodes;
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, unsigned> nodeOf;
  /// The symbols of the function's own description, each with its node.
  std::vector<std::pair<std::string, unsigned>> described;
  std::vector<std::string> used;
  std::vector<Divides> divides;
  std::vector<IsOne> isOne;
  /// Whose constraints are being taken.
  mlir::Operation *current = nullptr;
  std::optional<Contradiction> contradicts;
};
} // namespace ejk

#endif // EJK_DIALECT_SHAPES_SHAPES_H
