//===- ChunkPlan.h - analysis of a scan's step for chunking -------*- C++ -*-===//
//
// Finds the parts of a step's region that have a chunkwise form:
//
//  - *chains*: K×V states that pass only through `ejk.decay` and `ejk.outer_add`, in any
//    order, with reads at any point;
//  - *accumulators*: scalar or vector states to which terms are added, so that their value
//    is the initial one plus a cumsum;
//  - *corrections*: outer products of a chain with vectors that depend linearly on the
//    chain's own reads (Corrections.h), one or several in a step.
//
// All other ops are elementwise and become arithmetic on tiles.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_CHUNK_CHUNKPLAN_H
#define EJK_PASSES_CHUNK_CHUNKPLAN_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/chunk/Chunk.h"
#include "passes/scan/Corrections.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <vector>

namespace ejk {

struct StateChain {
  /// A place in the step: the number of decays along each axis before it.
  using Place = std::array<unsigned, 3>;
  struct Add {
    OuterAddOp op;
    /// The key and the value, without the chain's `scale`.
    std::array<mlir::Value, 2> vectors;
    Place decays;
  };
  struct Read {
    ReadOp op;
    /// The op whose tile is computed: the read, or its only user if that multiplies the read by a
    /// constant, which is then in `scale`, or adds the shift of the correction that `shiftedBy`
    /// numbers.
    mlir::Operation *whole;
    std::optional<unsigned> shiftedBy = {};
    /// Whether `whole` is the sum with the shift times -1.
    bool isNegated = false;
    unsigned along; // the dimension of the state that it sums over
    /// The vector that the state is read with, without constant and scalar multipliers. Those
    /// multiply the result of the read instead.
    mlir::Value vector;
    double scale = 1;
    llvm::SmallVector<mlir::Value> multipliers;
    /// The number of the step's decays along each axis, and of its outer products, before the read.
    Place decays = {0, 0, 0};
    unsigned adds = 0;
    /// A cancelling pair with the read; its vector without the constant multiplier, and that.
    struct Pairing {
      CancellingPairOp op;
      mlir::Value vector;
      double scale;
    };
    llvm::SmallVector<Pairing> pairings;
    /// Whether no gate per channel decays the state, and cancelling pairs with the read are only
    /// summed over channels.
    bool sumsPairs = false;
    /// Whether the read has no other use than such pairs.
    bool isOnlySummed = false;
  };
  unsigned number; // of the state
  mlir::BlockArgument arg;
  /// Decays and outer products, in order.
  llvm::SmallVector<mlir::Operation *> links;
  llvm::SmallVector<DecayOp> decays[3]; // by axis
  llvm::SmallVector<Add> adds;
  /// A constant multiplier common to all outer products, which is taken out, so that the chain
  /// computes the state divided by it.
  double scale = 1;
  llvm::SmallVector<Read> reads;
  /// The outer product whose vector along `dim` depends on reads. Its `vectors` have the part
  /// that does not, and `terms` has the number that multiplies each read.
  struct Correction {
    struct Term {
      unsigned read;
      mlir::Value factor;
    };
    unsigned add, dim;
    llvm::SmallVector<Term> terms;
    /// The whole vector, and whether anything but the outer product uses it.
    mlir::Value vector;
    bool isUsed;
    /// Whether the vector is nothing but a number times another op's read, or a number times that
    /// and what it is shifted by (CorrectionParts), which is not null then. Chunks solve for the
    /// read, or for the sum.
    bool isMultiple;
    mlir::Value shift = {};
    bool isScaled() const { return isMultiple || shift; }
  };
  /// In the order of their outer products. All vectors are along one dimension.
  llvm::SmallVector<Correction> corrections;
  /// A save of the scan, and the number of the step's outer products before it.
  struct Save {
    unsigned number, adds;
  };
  llvm::SmallVector<Save> saves;
  /// Those of the state that a step ends with, where steps correct it: known when the chunk is.
  llvm::SmallVector<Save> savesOfEnd;
  /// The checkpoints, from which sums restart, that use the state at the start of a step.
  llvm::SmallVector<CheckpointOp> checkpoints;
  /// For each axis, whether its decays come before outer products, as in forward scans. Derived
  /// backward scans have some after them.
  bool decayFirst[3] = {true, true, true};
  /// The dimension, 0 or 1, that no read sums over, so that the state can be cut into slices along
  /// it; -1 if there is none.
  int freeDim = -1;

  int64_t size(unsigned dim) const {
    return llvm::cast<mlir::VectorType>(arg.getType()).getDimSize(dim);
  }
  bool isGated(Axis axis) const { return !decays[unsigned(axis)].empty(); }
  /// The correction that outer product `add` adds; null if it adds none.
  const Correction *correctionOf(unsigned add) const {
    auto it = llvm::find_if(corrections, [&](const Correction &c) { return c.add == add; });
    return it == corrections.end() ? nullptr : it;
  }
};

struct Accumulator {
  struct Term {
    mlir::Value value;
    bool isNegative;
  };
  unsigned number; // of the state
  mlir::BlockArgument arg;
  llvm::SmallVector<Term> terms;
  /// `arg`, and the sum after each term. The last sum is yielded.
  llvm::SmallVector<mlir::Value> sums;
  /// The checkpoint (ejk.checkpoint) from which the sum restarts, if any, and the number of terms
  /// before it. The step that enters a chunk skips those terms and takes the checkpoint's result as
  /// the sum so far.
  mutable CheckpointOp checkpoint; // a handle, whose getters are not const
  unsigned termsBeforeCheckpoint = 0;
  bool isSliced = false;
};

class ChunkPlan {
public:
  ChunkPlan(ScanOp scan, const ChunkSettings &options)
      : scan(scan), chunk(options.chunk), options(options) {}

  /// Fails with a remark that says why if the scan is not supported.
  mlir::LogicalResult analyze();

  /// The chain that `read` reads or that starts from `state`, or the accumulator of which `value`
  /// is a sum; null if there is none.
  const StateChain *chainOf(ReadOp read) const;
  /// The chain that computes the tile of `whole`: of a read, or of a corrected vector that is used.
  const StateChain *chainOfWhole(mlir::Operation *whole) const;
  const StateChain *chainFrom(mlir::Value state) const;
  std::pair<const Accumulator *, unsigned> sumOf(mlir::Value value) const;

  /// Whether `vector` is a cancelling pair of which a chain computes the sums.
  bool isSummedPair(mlir::Value vector) const;

  /// The cancelling pairs that a sum adds in a step before `checkpoint` restarts it.
  llvm::SmallVector<mlir::Operation *> takenBefore(CheckpointOp checkpoint) const;

  /// Whether `value` is constant in time: computed only from parameters, constants and the head.
  bool isConstant(mlir::Value value) const;
  /// Whether `value` is the step's index as f32.
  static bool isPosition(mlir::Value value);
  /// Whether `value` is zero for rows and channels past the end, because its inputs load as zeros.
  bool isZeroPastEnd(mlir::Value value) const;
  /// Whether a program computes only its slice of the vector.
  bool isSliced(mlir::Value value) const;

  /// The padded width of a tile for `channels` channels, whole or sliced: a multiple of 16, which
  /// tensor cores require, 32 above 16 channels, `columnBlock` (64 with wgmma, else 32) above 64, and
  /// 64 above 128, so that warps can divide them.
  int64_t width(int64_t channels, bool sliced) const;

  /// A handle. Nothing here changes it.
  mutable ScanOp scan;
  int64_t chunk;
  ChunkSettings options;
  std::vector<StateChain> chains;
  std::vector<Accumulator> accumulators;
  int64_t slices = 1;
  /// The element type of matmul operands: bf16, or f32.
  mlir::Type operandType;

private:
  bool findZeroPastEnd(mlir::Value value) const;
  mlir::LogicalResult findCorrections();
  /// The sum that a step makes of what is read, where it gives a derivative one of the two, and
  /// takes the read into nothing else; else null.
  mlir::Operation *sumOfGiven(ReadOp read);
  /// Lets chunks solve for the sum, read + `shift`, where a derivative takes that or the read. The
  /// one that is not solved for costs no product. It is as exact as these two, which is what a
  /// derivative makes of it, but not what a caller may ask for. Else a matrix that is scaled by
  /// rows takes fewer registers than rows of the sum.
  void solveForGivenSum(StateChain &chain, StateChain::Correction &correction, mlir::Value shift,
                        ReadOp op);
  /// Of a chain whose links are known.
  mlir::LogicalResult addCorrections(StateChain &chain);
  mlir::LogicalResult findStates();
  mlir::LogicalResult followChain(unsigned number, mlir::BlockArgument arg);
  mlir::LogicalResult followSum(unsigned number, mlir::BlockArgument arg);
  /// The place after the decays that `chain` has so far.
  static StateChain::Place placeAfter(const StateChain &chain);
  void addRead(StateChain &chain, ReadOp op);
  void findAddVectors(StateChain &chain);
  /// The vectors of cancelling pairs, with the multipliers that the other scan has in what it adds:
  /// those are the same outer products.
  void findPairedVectors(StateChain &chain);
  mlir::LogicalResult checkSaves();
  mlir::LogicalResult checkElementwise();
  mlir::LogicalResult checkOrder();
  mlir::LogicalResult checkTypes();
  mlir::LogicalResult checkDrift();
  mlir::LogicalResult chooseSlices();
  mlir::LogicalResult checkForms();
  mlir::LogicalResult checkForm(mlir::Value value, bool sliced);
  /// The vectors and gates of a chain, each with its dimension of the state, or -1 for a gate per
  /// head.
  llvm::SmallVector<std::pair<mlir::Value, int>> inputs(const StateChain &chain) const;
  /// Depth-first search for cycles. Nodes are chains, then accumulators.
  mlir::LogicalResult visit(unsigned node);
  mlir::LogicalResult visitValue(mlir::Value value, unsigned from);
  mlir::LogicalResult decline(mlir::Operation *op, const llvm::Twine &why);

  Corrections corrections;
  enum class Mark { none, under, done };
  llvm::SmallVector<Mark> marks;
  llvm::SmallVector<unsigned> path; // of what is visited, each for the one before it
  llvm::DenseSet<std::pair<mlir::Value, unsigned>> seen, checkedForms;
  llvm::DenseMap<mlir::Operation *, unsigned> chainOfRead;
  llvm::DenseMap<mlir::Value, std::pair<unsigned, unsigned>> sums;
  // The answers so far.
  mutable llvm::DenseMap<mlir::Value, bool> constants, zeroPastEnd;
};

} // namespace ejk

#endif // EJK_PASSES_CHUNK_CHUNKPLAN_H
