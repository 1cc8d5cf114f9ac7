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
#include "dialect/ejk/Ejk.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <string>
#include <vector>

namespace ejk {
namespace tile {
class ProgramOp;
}

/// A size: a number, a symbol, a symbol and one (`cu_seqlens` is N+1), the slots
/// of a scan's saved states, or what an operator makes of two sizes.
struct DimExpr {
  enum class Kind { constant, symbol, symbolPlusOne, slots, operation } kind = Kind::constant;
  enum class Operator { add, multiply, floorDivide, ceilDivide, minimum, maximum };
  int64_t value = 0; // of slots: the rows of a chunk; of an operation its operator
  std::string symbol;
  /// Of slots: the batch, the rows of each entry, and the sequences. Of an operation its operands.
  std::vector<DimExpr> factors = {};

  static DimExpr number(int64_t value) { return {Kind::constant, value, {}, {}}; }
  /// `op` of `a` and `b`; a number where both are.
  static DimExpr make(Operator op, DimExpr a, DimExpr b);
  /// L, the rows of a segment where a batch entry has `rows` rows.
  static DimExpr rowsOfSegments(SegmentsAttr segments, DimExpr rows);
  /// How many segments of a batch entry of `rows` rows are scanned, at least one.
  static DimExpr segmentsOfEach(SegmentsAttr segments, DimExpr rows);
  /// The states of a scan over `batch` entries of `rows` rows, or over `sequences` packed ones,
  /// that `segments` divides.
  static DimExpr countSegments(SegmentsAttr segments, DimExpr batch, DimExpr rows,
                               DimExpr sequences, bool packed);

  /// "64", "T", "N+1", "B*T/64+N" or "max(1,B*2)".
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
  /// Emits an error, and fails, where no input fits: an op needs two sizes to be one which the
  /// types of tensors say are not, or a size is computed from itself.
  mlir::LogicalResult verify() const;
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
    /// Of states of segments: the same nodes, and how sequences are divided.
    SegmentsAttr segments = {};
    bool packed = false;
    /// Of what an operator makes of two sizes: it, and their nodes.
    std::optional<DimExpr::Operator> operation = {};
    unsigned operands[2] = {};
    /// Whether it follows from others.
    bool isDerived() const { return saveEvery || segments || operation; }
  };
  unsigned makeNode();
  unsigned find(unsigned node) const;
  void unify(unsigned a, unsigned b);
  /// The node of a tensor's dimension, made on first sight.
  unsigned node(mlir::Value value, unsigned dim);
  unsigned makeOperation(DimExpr::Operator op, unsigned a, unsigned b);
  /// The node of a size that a function computes.
  unsigned node(mlir::Value index);
  void constrainReshape(mlir::Operation *op);
  void constrainPool(mlir::Operation *op);
  void namePool(mlir::Value pool, mlir::Value index);
  void name(unsigned node, llvm::StringRef role);
  DimExpr expr(unsigned node) const;

  void constrainByDescription(mlir::func::FuncOp function);
  void constrain(mlir::Operation *op);
  void constrainRecurrence(mlir::Operation *op);
  /// Of an `ejk.scan` or a `tile.program`, whose operands mean the same.
  template <typename Scan> void constrainScan(Scan scan);
  template <typename Scan> void nameScan(Scan scan);
  /// The heads of outputs, and of a scan's queries.
  void unifyHeads(tile::ProgramOp program);
  void unifyHeads(ScanOp scan);
  void nameRecurrence(mlir::Operation *op);
  void requireDivides(unsigned divisor, unsigned dividend, llvm::StringRef what,
                      llvm::StringRef ofWhat = "the query heads");
  void requireOne(unsigned node, llvm::StringRef what);
  /// Makes sizes that are computed from themselves symbols of their own. Otherwise their
  /// expressions would not end.
  void breakCycles(mlir::func::FuncOp function);
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
  /// Ops that need two sizes to be one; a size's first op where it is computed from itself.
  struct Contradiction {
    mlir::Operation *op;
    int64_t one, other;
  };
  std::optional<Contradiction> contradicts;
  mlir::Operation *circular = nullptr;
};
} // namespace ejk

#endif // EJK_DIALECT_SHAPES_SHAPES_H
