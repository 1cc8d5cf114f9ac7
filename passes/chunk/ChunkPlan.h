//===- ChunkPlan.h - what of a scan's step a chunk is made of -----*- C++ -*-===//
//
// Recognises, in a step's region, what has a chunkwise form:
//
//  - *chains*: K×V states that go through `ejk.decay` and `ejk.outer_add` alone,
//    with reads hanging off any point;
//  - *accumulators*: states that are numbers or vectors and only add up, whose
//    value at a step is their first one and a running sum.
//
// Everything else is elementwise and becomes arithmetic on tiles.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_CHUNK_CHUNKPLAN_H
#define EJK_PASSES_CHUNK_CHUNKPLAN_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/chunk/Chunk.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <vector>

namespace ejk {

struct StateChain {
  struct Read {
    ReadOp op;
    /// What the read's tile is of: the read, or what nothing but a constant, then in `scale`,
    /// makes of it.
    mlir::Operation *whole;
    unsigned along; // the dimension of the state that it sums over
    /// The vector read with, without the constant and the numbers it is multiplied by:
    /// those may as well multiply what is read.
    mlir::Value vector;
    double scale = 1;
    llvm::SmallVector<mlir::Value> factors;
    /// How many of the step's decays along each axis, and of its outer products,
    /// the read sees.
    unsigned decays[3] = {0, 0, 0}, adds = 0;
    /// A product of what is read that cancels another (kPairingAttr): of what it is
    /// multiplied with, the vector and its constant.
    struct Pairing {
      mlir::arith::MulFOp product;
      mlir::Value vector;
      double scale;
    };
    llvm::SmallVector<Pairing> pairings;
    /// Whether no gate of channels decays the state, and all that is asked for of the read are
    /// the sums over channels of pairings' products.
    bool isOnlySummed = false;
  };
  unsigned number; // of the state
  mlir::BlockArgument arg;
  /// Decays and outer products in order.
  llvm::SmallVector<mlir::Operation *> links;
  llvm::SmallVector<DecayOp> decays[3]; // by axis
  llvm::SmallVector<OuterAddOp> adds;
  /// Per outer product, its vectors by dimension. All products leave out the constant
  /// `scale`, so that what the chain computes is the state over `scale`.
  llvm::SmallVector<std::array<mlir::Value, 2>> addVectors;
  double scale = 1;
  llvm::SmallVector<Read> reads;
  /// A save of the scan, and how many of the step's outer products it sees.
  struct Save {
    unsigned number, adds;
  };
  llvm::SmallVector<Save> saves;
  /// What a saved state gives for the state that the step starts from.
  llvm::SmallVector<AnchorOp> anchors;
  /// Whether the decays come before the outer products, as in a forward, or
  /// after them, as in what is derived backwards.
  bool decayFirst = true;
  /// The dimension, 0 or 1, that no read sums over, and which may so be cut into
  /// slices; -1 when there is none.
  int freeDim = -1;

  int64_t size(unsigned dim) const {
    return llvm::cast<mlir::VectorType>(arg.getType()).getDimSize(dim);
  }
  bool isGated(Axis axis) const { return !decays[unsigned(axis)].empty(); }
};

struct Accumulator {
  struct Term {
    mlir::Value value;
    bool isNegative;
  };
  unsigned number; // of the state
  mlir::BlockArgument arg;
  llvm::SmallVector<Term> terms;
  /// `arg`, then the sum after each term; the last one is yielded.
  llvm::SmallVector<mlir::Value> sums;
  /// Where the sum starts anew from a saved state, and the number of terms before
  /// that, which a step that enters a chunk does without. The sum so far is then
  /// the anchor's result.
  mutable AnchorOp anchor; // a handle, whose getters are not const
  unsigned anchorAt = 0;
  bool isSliced = false;
};

class ChunkPlan {
public:
  ChunkPlan(ScanOp scan, const ChunkSettings &options)
      : scan(scan), chunk(options.chunk), options(options) {}

  /// Fails, with a remark that says why, when the scan is to be left alone.
  mlir::LogicalResult analyze();

  /// The chain that `read` hangs off or that starts from `state`, or the accumulator
  /// that `value` is a sum of; null where there is none.
  const StateChain *chainOf(ReadOp read) const;
  /// The chain of the read whose tile is `whole`'s.
  const StateChain *chainOfWhole(mlir::Operation *whole) const;
  const StateChain *chainFrom(mlir::Value state) const;
  std::pair<const Accumulator *, unsigned> sumOf(mlir::Value value) const;

  /// Whether `vector` is a paired product of a read that is only summed.
  bool isOnlySummed(mlir::Value vector) const;

  /// The paired products that a sum takes away, in a step, before `anchor` starts it
  /// anew.
  llvm::SmallVector<mlir::Operation *> takenBefore(AnchorOp anchor) const;

  /// Whether the value is computed once for a sequence: from parameters,
  /// constants and the head, by what numbers and vectors know.
  bool isConstant(mlir::Value value) const;
  /// Whether `value` is the step's index as an f32 number.
  static bool isPosition(mlir::Value value);
  /// Whether the value is zero in rows and channels beyond the sequences' end,
  /// which load as zeros.
  bool isZeroBeyond(mlir::Value value) const;
  /// Whether, of a vector, a program only has its slice's part.
  bool isSliced(mlir::Value value) const;

  /// The channels a tile holds of `channels`, in full or in a slice: so many times
  /// 16, which is what tensor cores take, that warps can divide them among them.
  int64_t width(int64_t channels, bool sliced) const;

  /// A handle, which nothing here changes.
  mutable ScanOp scan;
  int64_t chunk;
  ChunkSettings options;
  std::vector<StateChain> chains;
  std::vector<Accumulator> accumulators;
  int64_t slices = 1;
  /// What products take: bf16, or f32.
  mlir::Type productType;

private:
  mlir::LogicalResult findStates();
  mlir::LogicalResult followChain(unsigned number, mlir::BlockArgument arg);
  mlir::LogicalResult followSum(unsigned number, mlir::BlockArgument arg);
  void addRead(StateChain &chain, ReadOp op);
  static void findAddVectors(StateChain &chain);
  mlir::LogicalResult checkSaves();
  mlir::LogicalResult checkElementwise();
  mlir::LogicalResult checkOrder();
  mlir::LogicalResult checkTypes();
  mlir::LogicalResult checkDrift();
  mlir::LogicalResult chooseSlices();
  mlir::LogicalResult checkForms();
  mlir::LogicalResult checkForm(mlir::Value value, bool sliced);
  /// The vectors and gates of a chain, each with the dimension of the state that
  /// it lies along; -1 for a gate per head.
  llvm::SmallVector<std::pair<mlir::Value, int>> inputs(const StateChain &chain) const;
  /// Chains come first, then accumulators, in the numbers of this search.
  mlir::LogicalResult visit(unsigned node);
  mlir::LogicalResult visitValue(mlir::Value value, unsigned from);
  mlir::LogicalResult decline(mlir::Operation *op, const llvm::Twine &why);

  enum class Mark { none, under, done };
  llvm::SmallVector<Mark> marks;
  llvm::DenseSet<std::pair<mlir::Value, unsigned>> seen, checkedForms;
  llvm::DenseMap<mlir::Operation *, unsigned> chainOfRead;
  llvm::DenseMap<mlir::Value, std::pair<unsigned, unsigned>> sums;
};

} // namespace ejk

#endif // EJK_PASSES_CHUNK_CHUNKPLAN_H
