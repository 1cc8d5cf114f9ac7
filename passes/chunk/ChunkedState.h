//===- ChunkedState.h - a chunk of one state, as matmuls ----------*- C++ -*-===//
//
// Computes what a chunk reads from one K×V state, and the state after the chunk.
//
// Let a read of state S sum over axis a; b is the other axis. Reads use vectors x_i. A step
// adds the outer product of u_j along a and w_j along b. R, W and L are the cumsums of
// ChunkDecays.h. Superscripts name the axis; h is per head; T is the sum over the chunk:
//
//   y_i = e^{R^h_i + R^b_i} ∘ Sᵀ(x_i ∘ e^{R^a_i})
//       + Σ_j e^{R^h_i − W^h_j} e^{R^b_i − W^b_j} ∘ w_j (Σ_c x_ic u_jc e^{R^a_ic − W^a_jc})
//   S  ← e^{T^h + T^a + T^b} ∘ S + Σ_j e^{L^h_j} (u_j ∘ e^{L^a_j}) (w_j ∘ e^{L^b_j})ᵀ
//
// Here j runs to before i, or up to i if the read comes after its own step's addition.
//
// **Fast path.** Gates per channel do not factor out of the sum over c. So vectors are scaled
// to the basis of the chunk's middle row. With M = W of that row, x̃ = x ∘ e^{R^a − M^a},
// ũ = u ∘ e^{M^a − W^a}, w̃ = w ∘ e^{M^b − W^b} and S̃ = e^{M} ∘ S, everything is a matmul:
//
//   y_i = e^{R^b_i − M^b} ∘ (e^{R^h_i} S̃ᵀx̃_i + Σ_j e^{R^h_i − W^h_j} w̃_j (x̃_i · ũ_j))
//   S  ← e^{T − M} ∘ (e^{T^h} S̃ + Σ_j e^{L^h_j} ũ_j w̃_jᵀ)
//
// **Range guard.** The exponents of two operands that are multiplied add up to at most 0 (products
// of a row and a later one are masked), but that of one operand may be positive and large. If
// |R − M| or |W − M|, or |M| where it matters (see isInRange), exceeds 64 nats, the chunk takes the
// exact path.
//
// **Block path.** Models train with gates that such a chunk cannot take, as −5σ(x). Where the step
// bounds its gates (FloatBounds.h), blocks of rows have a basis each instead: A_I, the value of W
// before block I. They have as many rows as may sum up to −124 nats, or to −160 for a delta rule's
// keys (NumericRange.h); the chunk may be one block. With a constant h, and G_i = R_i − A_I in the
// block I of row i,
//
//   row i of block I and row j of block J < I:   (x_i ∘ e^{G_i + h}) · (u_j ∘ e^{A_I − W_j − h})
//   rows i and j of block I:                     (x_i ∘ e^{G_i + h}) · (u_j ∘ e^{A_I − W_j − h})
//
// Only in the second, and only for the vector of the earlier row, does the exponent grow with the
// gates: to what they sum up to in a block, less h. So no guard looks at the gates, and only
// gradients of gates keep one, for chunks of few rows. In the first an underflow is one of the
// product, too. In a backward pass the roles of x and u change, and the anchor is still that of the
// later row's block, so that both scans round the same operands. The state has no basis: what reads
// it is decayed from the chunk's start, what is added to it to its end. So the largest exponents do
// not depend on the chunk's length.
//
// **Exact path.** Step by step, from the same tiles: slow, in f32, exact for gates of any size.
// Shorter chunks may take its place (passes/program/FallBackToShortChunks.h).
//
// **Both axes gated.** With both bases in S̃, each axis would have half of the 64 nats. But no
// matmul sums over b, so the basis along b need not be in S̃. With S̃ = e^{M^a} ∘ S:
//
//   y_i = e^{R^b_i − M^b} ∘ (e^{M^b} ∘ e^{R^h_i} S̃ᵀx̃_i + Σ_j e^{R^h_i − W^h_j} w̃_j (x̃_i · ũ_j))
//   S  ← e^{T^a − M^a} ∘ (e^{T^h + T^b} S̃ + Σ_j e^{L^h_j} ũ_j (w_j ∘ e^{L^b_j})ᵀ)
//
// This form is used if all reads are along one axis and no gate's gradient is computed from
// them. Otherwise each axis has 32 nats.
//
// **Corrections.** If the vector u that a step adds along b depends on its reads,
// u_i = w_i + Σ c_i y_i with numbers c_i of the head, then u of all steps of the chunk solves a
// unit triangular system. With y⁰_i the read without these additions, and k the key of the outer
// product:
//
//   u_i − c_i Σ_{j<i} e^{R^h_i − W^h_j} (Σ_c x_ic k_jc e^{R^a_ic − W^a_jc}) u_j = w_i + c_i y⁰_i
//
// The matrix is the same for all channels of u. This holds in the basis along b, too, because
// the read is where u is added, so that R^b = W^b.
//
// **Several corrections.** Of n vectors that each step adds, u^a may depend on what the step has
// added before it. With M^ab the products of what u^a reads with the keys of u^b, which u^a
// multiplies,
//
//   u^a − Σ_b M^ab u^b = w^a + c^a y⁰
//
// M^ab is strictly lower triangular for b ≥ a, and has a diagonal where u^a reads what u^b adds in
// the same step. With all vectors of a step side by side the matrix is unit lower triangular. A
// chunk eliminates one vector after the other instead, each with a system of its C rows:
//
//   A^ab = (I − M^aa)⁻¹ M^ab        M^cb ← M^cb + M^ca A^ab        for b, c > a
//
// Each M^cc stays strictly lower triangular. A^ab has what the steps add to u^a for each number
// that u^b adds, where nothing but u^a corrects. So where the correction of each vector makes no
// state larger, A^ab is no larger than the keys.
//
// Keys that point nearly one way make u cancel in all sums over the steps of a chunk, which are
// then far smaller than the sums of |u|. So the matmuls that sum over u take their operands in two
// terms: u, what it is multiplied by, and the outer product's key if it is computed and not a row.
// A scan that takes such a u as a sequence has `corrects` on its `ejk.outer_add` and on its pairs.
// Where y is used, it is this sum; where u is used, it is the system's solution. A later scan
// computes u as w + c y from the stored y, and nothing corrects there what differs from the
// solution. So the system's matrix has the same products of keys as y.
//
// **Cancelling pairs.** The gradient of a gate sums y_i ∘ z_i, with z_i along b, and subtracts
// the same kind of term of the adjoint's scan. The two nearly cancel. So z̃ = z ∘ e^{R^b − M^b}
// is rounded exactly as the other scan rounds ũ or w̃: then the rounding errors cancel, too.
// For the same reason:
//
//  - The value from which such a sum restarts, Σ A ⊙ S with a saved S, rounds A as reads do.
//    A saved S excludes its last step's ũ w̃ᵀ as it was added. If S is the state at the start
//    of the chunk, the contribution of the chunk's own steps comes from the reads.
//  - A constant multiplier of all u or w, such as that of a derivative's q, is taken out of
//    them and of S, and multiplies the reads instead. Rows then enter matmuls as loaded. Where the
//    outer products have different ones, as in a delta rule's derivative, they keep them, and so
//    does what the other scan pairs.
//  - If such terms are only summed over channels, as for gates per head, the chunk's own
//    steps contribute Σ_j e^{…} (x_i · u_j)(z_i · w_j). These are the same terms as in the
//    other scan, so they cancel up to the rounding of f32 sums, and a step's diagonal term is
//    in neither.
//  - Otherwise a matmul over a corrected u takes u and its products with x in two terms, and so
//    does the other scan, which reads with u (`corrects` of the pair). The key beside u has two
//    terms where it is an operand, and is not rounded where it multiplies the read.
//  - On the exact path, too, the gates for these sums are raised to a floor whose exponential is
//    zero.
//
// **Types.** 64 nats leave f32 and bf16 (range 87 nats either way) 10 orders of magnitude for
// the vectors. f16 has no such range, so matmuls of f16 sequences use bf16, except those whose
// operands are both plain rows, of which gates per head may decay one, relative to the last step.
// (Operands below 6e-5 lose digits in f16.) Cancellation then is between unrounded rows.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_CHUNK_CHUNKEDSTATE_H
#define EJK_PASSES_CHUNK_CHUNKEDSTATE_H

#include "passes/NumericRange.h"
#include "passes/chunk/ChunkDecays.h"
#include "passes/chunk/ChunkTiles.h"

namespace ejk {

/// How a chunk loads and stores saved states.
struct ChunkedSaves {
  /// Whether the chunk is the first, or the last, in scan order of those that share a saved state;
  /// null if every chunk has its own.
  mlir::Value enters, leaves;
  /// For each checkpoint of the chain: its result where the chunk is not the first of a saved
  /// state. It is the sum that the loop carries.
  llvm::SmallVector<mlir::Value> carried;
  std::function<mlir::Value(TileBuilder &, CheckpointOp)> load;
  std::function<void(TileBuilder &, const StateChain::Save &, mlir::Value)> store;
};

class ChunkedState {
public:
  ChunkedState(const ChunkPlan &plan, const StateChain &chain, ChunkTiles &tiles, TileBuilder &body,
               mlir::Value rows, mlir::Value hasFewRows);

  /// Computes the reads, which it passes to the tiles, and returns the state after the chunk.
  mlir::Value compute(mlir::Value state, const ChunkedSaves &saved);
  /// Emits the saves of `state`, what `compute` returned, in the step's last value.
  void saveEnd(TileBuilder &e, mlir::Value state, const ChunkedSaves &saves);
  /// The result of each checkpoint; valid after `compute`.
  llvm::ArrayRef<mlir::Value> entries() const { return checkpointResults; }

  /// The rows of a block, what a channel's gates may sum up to in it, and h; and whether a guard
  /// has to see to that, since the gates have no such bounds.
  struct BlockForm {
    int64_t rows;
    range::BlockRange range;
    bool isGuarded;
  };
  /// The form of the block path, if the bounds of all gates per channel of `chain`, or
  /// `strongGate`, let blocks take the place of one basis.
  static std::optional<BlockForm> blockForm(const ChunkPlan &plan, const StateChain &chain);

private:
  /// The cumsums of one channel axis, relative to the middle row or to the chunk's start.
  struct Basis {
    std::optional<RunningGates> gates;
    mlir::Value around; // W − M
    mlir::Value middle; // M, a row; null where it is zero, at the start
  };
  /// The state after the chunk, a tile for each read, one for what each correction adds if that is
  /// used, a tile for each cancelling pair of each read, and the result of each checkpoint.
  using Computed = llvm::SmallVector<mlir::Value>;

  static Axis axisOf(unsigned dim) { return dim ? Axis::value : Axis::key; }
  bool isReverse() const { return plan.scan.getReverse(); }
  ScanDirection direction(Axis axis) const {
    return {isReverse(), chain.decayFirst[unsigned(axis)], plan.chunk};
  }
  bool isGated(unsigned dim) const { return chain.isGated(axisOf(dim)); }
  bool isSliced(int dim) const { return dim >= 0 && dim == chain.freeDim; }
  void collectTiles();
  RunningGates raisedGates(TileBuilder &e, unsigned dim);
  void findBases();
  /// R − M for a read, and M − W for an outer product.
  mlir::Value readExponent(TileBuilder &e, unsigned dim, const StateChain::Read &read);
  mlir::Value addExponent(TileBuilder &e, unsigned dim, const StateChain::Add &add);
  /// Whether a gate's gradient, with cancelling terms of two scans, is computed from the results.
  bool isPaired() const;
  /// Whether the state is saved or meets saved ones, for gradients of gates.
  bool isOfGradients() const { return isPaired() || !chain.saves.empty(); }
  /// Whether the state has the basis along `dim` on the fast path.
  bool isInState(unsigned dim) const;
  /// The range guard, an i1: whether all exponents of the bases are small.
  mlir::Value isInRange(TileBuilder &e);

  /// Infinite if the chunk has few rows.
  mlir::Value fewRowsExponent(TileBuilder &e);

  Computed onFastPath(TileBuilder &e, mlir::Value state);
  Computed byMatmuls(TileBuilder &e, mlir::Value state) {
    return form ? onBlockPath(e, state) : onFastPath(e, state);
  }
  /// The vector of read `r`, decayed from the start of the chunk.
  mlir::Value readVector(TileBuilder &e, unsigned r, bool inBasis);
  /// The contribution of the state at the start of the chunk to read `r`; in f32's precision if not
  /// `inBasis`.
  mlir::Value readEntry(TileBuilder &e, unsigned r, mlir::Value state, bool inBasis);
  /// Read `r` on the fast path, still in the basis along its result; with `uncorrected`, without what
  /// corrections add.
  mlir::Value readOnFastPath(TileBuilder &e, unsigned r, mlir::Value basisState,
                             bool uncorrected = false);
  /// The products of read `r`, whose vector is `x`, with the vectors of outer product `add` along
  /// the read: decayed, and zero where a step's read does not see the addition.
  mlir::Value seenProducts(TileBuilder &e, unsigned r, mlir::Value x, unsigned add,
                           bool addedInTerms = false, bool readingInTerms = false);
  /// The vector of read `r` for `seenProducts`, which scales it itself on the block path.
  mlir::Value vectorFor(TileBuilder &e, unsigned r);
  /// Solves for the vectors that the chain's corrections add, in the basis: `corrected` and
  /// `solvedReads`.
  void solveCorrections(TileBuilder &e, mlir::Value basisState);
  /// The vectors that correction `c` adds, on the fast path; null before they are solved for.
  mlir::Value correctedOf(unsigned add, unsigned dim) const {
    const StateChain::Correction *correction = chain.correctionOf(add);
    bool isKnown = correction && correction->dim == dim && !corrected.empty();
    return isKnown ? corrected[correction - chain.corrections.begin()] : mlir::Value();
  }
  /// A solution times a number for each step, where that is what a correction adds; both null
  /// otherwise.
  struct Scaled {
    mlir::Value solution, factor;
  };
  Scaled scaledOf(unsigned add, unsigned dim) const {
    const StateChain::Correction *correction = chain.correctionOf(add);
    bool isKnown = correction && correction->dim == dim && !scaledSolutions.empty();
    return isKnown ? scaledSolutions[correction - chain.corrections.begin()] : Scaled();
  }
  using Systems = llvm::SmallVector<llvm::SmallVector<mlir::Value>>;
  /// The solutions x of the corrections' systems, x_a = rhs_a + Σ_b matrices_ab x_b. Matrices are stored
  /// with a row for the later step.
  llvm::SmallVector<mlir::Value> eliminate(TileBuilder &e, Systems matrices,
                                           llvm::SmallVector<mlir::Value> rhs) const;
  /// Read `r`, where the solution of a correction gives it; else null.
  mlir::Value readOfSolution(unsigned r) const;
  /// The vector of correction `c` for one step on the exact path: `reads` are the step's reads so far.
  mlir::Value correctedRow(TileBuilder &e, unsigned c, mlir::Value row,
                           llvm::ArrayRef<mlir::Value> reads);
  /// Whether what the correction adds is a tile of its own: it is used, and is no read.
  static bool isGiven(const StateChain::Correction &correction) {
    return correction.isUsed && !correction.vector.getDefiningOp<ReadOp>();
  }
  /// The matrix of dot products of each step's `reading` with each step's `added`. Rows are the
  /// later step and columns the earlier one, as in a forward scan.
  mlir::Value dotProducts(TileBuilder &e, mlir::Value reading, mlir::Value added,
                          bool addedInTerms = false, bool readingInTerms = false);
  /// Whether sums over outer product `add` take operands in two terms: what the steps add nearly
  /// cancels.
  bool cancels(unsigned add) const {
    OuterAddOp op = chain.adds[add].op;
    return op.getCorrects() ||
           (chain.correctionOf(add) && !chain.correctionOf(add)->isMultiple);
  }
  /// Whether the other scan of a read's cancelling pairs, which are not only summed, adds the read's
  /// vector and its partner in two terms.
  static bool pairsCorrect(const StateChain::Read &read) {
    return !read.sumsPairs && llvm::any_of(read.pairings, [](const StateChain::Read::Pairing &pair) {
      return CancellingPairOp(pair.op).getCorrects();
    });
  }
  /// `tile` rounded to `type`, and with `inTerms` what rounding dropped, rounded again.
  llvm::SmallVector<mlir::Value, 2> termsOf(TileBuilder &e, mlir::Value tile, mlir::Type type,
                                            bool inTerms) const;
  /// The operand type of a matmul of `x` and `y`.
  mlir::Type typeOfRows(mlir::Value x, mlir::Value y) const;
  /// `rows` rounded as the multiplier of a read: f16 rows are not rounded.
  mlir::Value asRead(TileBuilder &e, mlir::Value rows) const;
  /// The sums over channels of read `r` times `partner`.
  mlir::Value pairedSums(TileBuilder &e, unsigned r, mlir::Value partner, mlir::Value state);
  /// The cancelling pair of read `r` with `partner`, in the basis or not.
  mlir::Value paired(TileBuilder &e, unsigned r, mlir::Value partner, mlir::Value read,
                     bool inBasis);
  mlir::Value updateOnFastPath(TileBuilder &e, mlir::Value basisState);
  /// Computes the state at `save` in the last step from `state` after that step.
  mlir::Value beforeAdds(TileBuilder &e, const StateChain::Save &save, mlir::Value state,
                         bool inBasis);
  /// The value from which the sum of checkpoint `number` restarts. `state` is the state at the
  /// chunk's end; with `inBasis`, it is in the fast path's basis and is rounded as reads round it.
  /// With `maySaveEntries`, it is the state at the chunk's start instead.
  mlir::Value atCheckpoint(TileBuilder &e, unsigned number, mlir::Value state, bool inBasis);
  mlir::Value sumOfProducts(TileBuilder &e, unsigned number, mlir::Value state, bool inBasis);
  /// The same from the state at the start of the chunk: see `maySaveEntries`.
  mlir::Value sumFromEntry(TileBuilder &e, unsigned number, mlir::Value state, bool inBasis);
  /// Its part Σ A ⊙ (D ⊙ S), without the decay by gates per head.
  mlir::Value productWithEntry(TileBuilder &e, unsigned number, mlir::Value state, bool inBasis);
  /// The result of `make` if the chunk is the first of a saved state, otherwise `carried`.
  mlir::Value ifEntering(TileBuilder &e, mlir::Value carried,
                         llvm::function_ref<mlir::Value(TileBuilder &)> make);
  /// Emits `saveAll` under the condition that the chunk is the last of a saved state.
  void whereLeaving(TileBuilder &e, llvm::function_ref<void(TileBuilder &)> saveAll);
  /// The same; nothing if the chain saves none.
  void saveAt(TileBuilder &e, llvm::function_ref<void(TileBuilder &)> saveAll);
  llvm::SmallVector<double> scalesOf(const StateChain::Read &read,
                                     const StateChain::Read::Pairing &pairing);
  /// The part of the scales that the head's decays, which multiply every read, take over; 1 if they
  /// cannot take all.
  double scaleInDecays(const StateChain::Read &read) const;
  /// The saved state of checkpoint `number`.
  mlir::Value savedTile(TileBuilder &e, unsigned number);
  /// Emits the saves of `state`, the state after the chunk.
  void save(TileBuilder &e, mlir::Value state, bool inBasis);
  mlir::Value toEnd(TileBuilder &e, mlir::Value basisState);
  /// The dimension whose vectors gates per head decay in outer products: the one that a read's
  /// result runs along, preferably of a read without cancelling pairs. Warpgroups can then keep the
  /// state in a layout in which both it and those vectors are A operands in registers.
  unsigned decayedDim() const;
  /// The place of the last outer product, if gates per head decay f16 rows after it. f16 ends at
  /// e^-9.7, so that the last step's decay from there on is left out of the rows, and multiplies the
  /// sum instead.
  std::optional<LastPlace> lastPlaceOfHalf(TileBuilder &e);
  /// A vector of an outer product along `dim`, rounded, in terms (`cancels`); without the last
  /// step's decay from place `lessLast` on.
  llvm::SmallVector<mlir::Value, 2> addend(TileBuilder &e, unsigned add, unsigned dim,
                                           std::optional<LastPlace> lessLast = {});
  /// The same without its decays.
  mlir::Value plainAdd(unsigned add, unsigned dim) const {
    mlir::Value solution = correctedOf(add, dim);
    return solution ? solution : addTiles[dim][add];
  }
  /// acc + lhs · rhs, without the product of both second terms. The product of the first terms comes
  /// first, so that others who need it alone share it.
  static mlir::Value dotTerms(TileBuilder &e, llvm::ArrayRef<mlir::Value> lhs, bool lhsTransposed,
                              llvm::ArrayRef<mlir::Value> rhs, bool rhsTransposed, mlir::Value acc,
                              llvm::ArrayRef<int64_t> over = {},
                              llvm::ArrayRef<int64_t> rows = {});
  /// `tile`, which is along `dim` at the place of outer product `add`, in the basis.
  mlir::Value inBasis(TileBuilder &e, mlir::Value tile, unsigned add, unsigned dim);
  /// A vector of an outer product in the basis, not rounded.
  mlir::Value addTile(TileBuilder &e, unsigned add, unsigned dim);
  /// `tile` times `vector`, broadcast along `dim`.
  mlir::Value times(TileBuilder &e, mlir::Value tile, mlir::Value vector, unsigned dim);

  // AnchoredBlocks.cpp: the block path.
  /// A tile, and what it is multiplied by, if anything. A read is the sum of such products, and the
  /// scales also scale what it is paired with.
  struct Part {
    mlir::Value tile, scale;
  };
  /// The range guard of the block path: whether each block's sums are in its range. All scans over
  /// the same rows look at the same bits.
  mlir::Value areBlocksInRange(TileBuilder &e);
  /// The rows of block `number` of a tile; all others are zero.
  mlir::Value rowsOfBlock(TileBuilder &e, mlir::Value tile, unsigned number) const;
  void findBlocks(TileBuilder &e);
  /// The exponent of the later, or of the earlier, of two steps in a block, with the offset.
  mlir::Value exponentInBlock(TileBuilder &e, unsigned dim, unsigned place, bool ofLater);
  /// What later rows are scaled by, at the row before their block, and earlier ones, at the same row.
  mlir::Value laterScale(TileBuilder &e, unsigned dim, unsigned place);
  mlir::Value earlierScale(TileBuilder &e, unsigned dim, unsigned place);
  /// Earlier rows that are scaled at the anchor of `block`, at the next one.
  mlir::Value toNextAnchor(TileBuilder &e, mlir::Value tile, unsigned dim, unsigned block);
  /// What rows are scaled by that multiply the state that the chunk is entered with, or are added to
  /// the state that it leaves.
  mlir::Value stateScale(TileBuilder &e, unsigned dim, unsigned place, bool ofRead);
  mlir::Value productsByBlocks(TileBuilder &e, unsigned r, unsigned add, bool addedInTerms,
                               bool readingInTerms);
  /// Products of each pair of a read and an outer product, which `productsByBlocks` then knows. A
  /// block's earlier rows are scaled once for all, and need memory only there.
  void multiplyByBlocks(TileBuilder &e);
  Part entryPart(TileBuilder &e, unsigned r, mlir::Value state);
  llvm::SmallVector<Part> readParts(TileBuilder &e, unsigned r, mlir::Value state,
                                    bool uncorrected = false);
  static mlir::Value sumOfParts(TileBuilder &e, llvm::ArrayRef<Part> parts);
  mlir::Value pairedParts(TileBuilder &e, unsigned r, mlir::Value partner,
                          llvm::ArrayRef<Part> parts);
  mlir::Value updateByBlocks(TileBuilder &e, mlir::Value state);
  Computed onBlockPath(TileBuilder &e, mlir::Value state);

  Computed withGuard(mlir::Value state);
  Computed onExactPath(TileBuilder &e, mlir::Value state);
  Computed oneStep(TileBuilder &e, mlir::Value row, mlir::ValueRange carried);

  const ChunkPlan &plan;
  const StateChain &chain;
  ChunkTiles &tiles;
  TileBuilder &body;
  mlir::Value rows; // rows left in the sequence
  /// Whether the chunk has so few rows that it takes the exact path.
  mlir::Value hasFewRows;
  mlir::Value lastRow; // of the scan in the chunk, where it is asked for
  /// For each decay by axis, each outer product by dimension, and each read.
  llvm::SmallVector<mlir::Value> gateTiles[3], addTiles[2], readTiles, shiftTiles;
  /// For each correction, and each of its terms: its number at each step.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> factorTiles;
  llvm::SmallVector<Scaled> scaledSolutions;
  /// On the fast path, for each correction: the vectors that it adds, and the read of which these are
  /// a multiple, if they are. Empty before they are known.
  llvm::SmallVector<mlir::Value> corrected, solvedReads;
  /// For each read and cancelling pair: the tile that the read is multiplied by.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> pairingTiles;
  llvm::SmallVector<mlir::Value> checkpointResults;
  /// For each checkpoint, if every chunk has a saved state of its own.
  llvm::SmallVector<mlir::Value> savedTiles;
  /// On the exact path, for each checkpoint: the sum with the state at the chunk's start.
  llvm::SmallVector<mlir::Value> entrySums;
  const ChunkedSaves *saved = nullptr;
  Basis bases[2];
  /// The blocks of each axis, and whether the block path is being computed.
  RunningGates::Blocks blocks[2];
  bool byBlocks = false;
  std::optional<BlockForm> form = {};
  llvm::DenseMap<std::pair<unsigned, unsigned>, mlir::Value> blockProducts;
  std::optional<HeadDecays> head;
};

} // namespace ejk

#endif // EJK_PASSES_CHUNK_CHUNKEDSTATE_H
