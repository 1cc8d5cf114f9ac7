//===- ChunkedState.h - one state's chunk, in products of tiles ---*- C++ -*-===//
//
// For a read of state S along axis a (b the other) with vectors x_i, of what a
// step adds, u_j along a and w_j along b, and with the sums R, W, L of ChunkDecays.h
// (superscripts say which axis; h: per head; T: the sum over the chunk):
//
//   y_i = e^{R^h_i + R^b_i} ∘ Sᵀ(x_i ∘ e^{R^a_i})
//       + Σ_j e^{R^h_i − W^h_j} e^{R^b_i − W^b_j} ∘ w_j (Σ_c x_ic u_jc e^{R^a_ic − W^a_jc})
//   S  ← e^{T^h + T^a + T^b} ∘ S + Σ_j e^{L^h_j} (u_j ∘ e^{L^a_j}) (w_j ∘ e^{L^b_j})ᵀ
//
// where j runs to before i, or up to i for what the read's own step has added.
//
// Gates per channel do not come out of the sum over c. In the basis of the chunk's
// middle row, with M = W of that row, x̃ = x ∘ e^{R^a − M^a},
// ũ = u ∘ e^{M^a − W^a}, S̃ = e^{M} ∘ S, all products are plain:
//
//   y_i = e^{R^b_i − M^b} ∘ (e^{R^h_i} S̃ᵀx̃_i + Σ_j e^{R^h_i − W^h_j} w̃_j (x̃_i · ũ_j))
//   S  ← e^{T − M} ∘ (e^{T^h} S̃ + Σ_j e^{L^h_j} ũ_j w̃_jᵀ)
//
// as long as no exponent is large: a product's exponent is at most 0 where it
// counts, but a factor's may be positive. Where |R − M| or |W − M|, or |M| where it matters
// (see isInRange), passes 64 nats the chunk is instead taken step by step, from the same
// tiles: slow, in f32, and exact for gates of any size.
//
// Where both axes are gated, both bases in S̃ would leave each half of those nats. The
// basis along b, which no product sums over, need not be in it. With S̃ = e^{M^a} ∘ S:
//
//   y_i = e^{R^b_i − M^b} ∘ (e^{M^b} ∘ e^{R^h_i} S̃ᵀx̃_i + Σ_j e^{R^h_i − W^h_j} w̃_j (x̃_i · ũ_j))
//   S  ← e^{T^a − M^a} ∘ (e^{T^h + T^b} S̃ + Σ_j e^{L^h_j} ũ_j (w_j ∘ e^{L^b_j})ᵀ)
//
// So it is where all reads are along the same axis, and no gate's gradient is made of them;
// else each axis has 32.
//
// A product of y_i with a vector z_i along b that a sum cancels against the same
// product read of the adjoint is taken as z̃_i ∘ (…) with z̃ = z ∘ e^{R^b − M^b} rounded as
// the other side's ũ or w̃ is, for the two sides' rounding errors then cancel, too.
// For the same reason what a sum starts from, Σ A ⊙ S of a saved S, has A rounded as
// reads have it, and a saved S lacks its last step's ũ w̃ᵀ as it was added; where S is that
// which the chunk was entered with, what its own steps add comes of the reads. A constant that
// all u or w are multiplied by, as a derivative's q are, is taken out of them and of S, and
// multiplies what is read instead: rows then enter products as they were loaded. Where such
// products are only summed over channels, as a head's gates need them, what a read sees of the
// chunk's own steps comes as Σ_j e^{…} (x_i · u_j)(z_i · w_j): the same terms as the other
// side's, which cancel to what f32 sums leave, and none of a step's own. Gates that
// anchors' sums by steps are made of are raised to a floor, whose exponential is zero as well.
//
// 64 nats leave f32 and bf16 (whose range is 87 nats either way) 10 orders of
// magnitude for the vectors themselves. f16 has no such range, so products of f16
// sequences are taken in bf16, but for those that have nothing larger than rows: of two rows
// as they come, one of which a head's gates may decay. (What these take below 6e-5, as f16 has
// it, has fewer digits.) What cancels then is what such rows, not rounded ones, have added.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_PASSES_CHUNK_CHUNKEDSTATE_H
#define EJK_PASSES_CHUNK_CHUNKEDSTATE_H

#include "passes/chunk/ChunkDecays.h"
#include "passes/chunk/ChunkTiles.h"

namespace ejk {

/// How a chunk deals with saved states.
struct ChunkedSaves {
  /// Whether the walk enters, or leaves, rows that have a saved state of their own;
  /// null where every chunk does.
  mlir::Value enters, leaves;
  /// Per anchor of the chain: what it gives where the walk does not enter such rows.
  llvm::SmallVector<mlir::Value> carried;
  std::function<mlir::Value(TileBuilder &, AnchorOp)> load;
  std::function<void(TileBuilder &, const StateChain::Save &, mlir::Value)> store;
};

class ChunkedState {
public:
  ChunkedState(const ChunkPlan &plan, const StateChain &chain, ChunkTiles &tiles, TileBuilder &body,
               mlir::Value rows, mlir::Value hasFewRows);

  /// Computes what is read, which it hands to the tiles, and the state after the
  /// chunk from the one before it.
  mlir::Value compute(mlir::Value state, const ChunkedSaves &saved);
  /// After that: what each anchor gives.
  llvm::ArrayRef<mlir::Value> entries() const { return anchorEntries; }

private:
  /// Sums of one channel axis in the basis of the middle row.
  struct Basis {
    std::optional<RunningGates> gates;
    mlir::Value around; // W − M
    mlir::Value middle; // M, a row
  };
  /// A state after the chunk, then a tile per read, per pairing of each read, and
  /// what each anchor gives.
  using Computed = llvm::SmallVector<mlir::Value>;

  bool isGated(unsigned dim) const { return chain.isGated(dim ? Axis::value : Axis::key); }
  bool isSliced(int dim) const { return dim >= 0 && dim == chain.freeDim; }
  void collectTiles();
  RunningGates raisedGates(TileBuilder &e, unsigned dim);
  void findBases();
  /// R − M as read `r` sees it, and M − W.
  mlir::Value readExponent(TileBuilder &e, unsigned dim, const StateChain::Read &read);
  mlir::Value addExponent(TileBuilder &e, unsigned dim);
  /// Whether a gradient of gates is made of what this gives, in which terms of two walks cancel.
  bool isPaired() const;
  /// Whether the state has the basis along `dim` while the chunk is taken by products.
  bool isInState(unsigned dim) const;
  /// Whether all exponents of the basis are small: an i1.
  mlir::Value isInRange(TileBuilder &e);

  Computed byProducts(TileBuilder &e, mlir::Value state);
  /// The vector of read `r`, decayed from where the chunk is entered.
  mlir::Value readVector(TileBuilder &e, unsigned r, bool inBasis);
  /// What read `r` sees of the state that the chunk is entered with; in f32's precision
  /// where not in the basis.
  mlir::Value readEntry(TileBuilder &e, unsigned r, mlir::Value state, bool inBasis);
  /// Read `r`, still in the basis along its result.
  mlir::Value readByProducts(TileBuilder &e, unsigned r, mlir::Value basisState);
  /// The products of `reading` and `added`, vectors of what reads and what is added, each step's
  /// with each: the later step's row, the earlier's column, as in the walk forward.
  mlir::Value products(TileBuilder &e, mlir::Value reading, mlir::Value added);
  /// What a product of rows takes, where `x` is one side of it and `y` the other.
  mlir::Type typeOfRows(mlir::Value x, mlir::Value y) const;
  /// `rows` as what a read gives is multiplied by them: rounded, but for what comes in f16.
  mlir::Value asRead(TileBuilder &e, mlir::Value rows) const;
  /// The sums over channels of what read `r` gives times `partner`.
  mlir::Value pairedSums(TileBuilder &e, unsigned r, mlir::Value partner, mlir::Value state);
  /// Of what read `r` gives, in the basis or not, each pairing's product.
  mlir::Value paired(TileBuilder &e, unsigned r, mlir::Value partner, mlir::Value read,
                     bool inBasis);
  mlir::Value updateByProducts(TileBuilder &e, mlir::Value basisState);
  /// The state that `save` sees in the last step, of `state` after it.
  mlir::Value beforeAdds(TileBuilder &e, const StateChain::Save &save, mlir::Value state,
                         bool inBasis);
  /// What anchor `number` gives of `state`; where only it is saved at the chunk's end, rounded
  /// as reads have it where `inBasis`.
  mlir::Value anchored(TileBuilder &e, unsigned number, mlir::Value state, bool inBasis);
  mlir::Value sumOfProducts(TileBuilder &e, unsigned number, mlir::Value state, bool inBasis);
  /// The same of the state that the chunk was entered with: see `maySaveEntries`.
  mlir::Value sumFromEntry(TileBuilder &e, unsigned number, mlir::Value state, bool inBasis);
  /// Of that, Σ A ⊙ (D ⊙ S), without what a head's gates decay.
  mlir::Value productWithEntry(TileBuilder &e, unsigned number, mlir::Value state, bool inBasis);
  /// What `make` gives where the walk enters rows with a saved state, else `carried`.
  mlir::Value ifEntering(TileBuilder &e, mlir::Value carried,
                         llvm::function_ref<mlir::Value(TileBuilder &)> make);
  /// Calls `saveAll` where the walk leaves rows with a saved state; not where the chain saves
  /// none.
  void saveAt(TileBuilder &e, llvm::function_ref<void(TileBuilder &)> saveAll);
  llvm::SmallVector<double> scalesOf(const StateChain::Read &read,
                                     const StateChain::Read::Pairing &pairing);
  /// What of these the head's decays, which multiply all that is read, take on: 1 where that is
  /// not all.
  double scaleInDecays(const StateChain::Read &read) const;
  /// What was saved for anchor `number`.
  mlir::Value savedTile(TileBuilder &e, unsigned number);
  /// Saves what is to be saved of `state`, that after the chunk.
  void save(TileBuilder &e, mlir::Value state, bool inBasis);
  mlir::Value toEnd(TileBuilder &e, mlir::Value basisState);
  /// The dimension whose vectors a head's gates decay in outer products: that of which
  /// a read gives rows, best one that is not paired. Groups of warps then hold the state so
  /// that both it and those vectors are factors straight from their registers.
  unsigned decayedDim() const;
  /// What an outer product takes along `dim`, rounded.
  mlir::Value addend(TileBuilder &e, unsigned add, unsigned dim);
  /// What an outer product takes along `dim` in the basis, not yet rounded.
  mlir::Value addTile(TileBuilder &e, unsigned add, unsigned dim);
  /// `tile` times `vector`, which runs along `dim`.
  mlir::Value times(TileBuilder &e, mlir::Value tile, mlir::Value vector, unsigned dim);

  Computed byChoice(mlir::Value state);
  Computed bySteps(TileBuilder &e, mlir::Value state);
  Computed oneStep(TileBuilder &e, mlir::Value row, mlir::ValueRange carried);

  const ChunkPlan &plan;
  const StateChain &chain;
  ChunkTiles &tiles;
  TileBuilder &body;
  mlir::Value rows; // left in the sequence
  /// Whether the chunk has so few that it is taken by steps where a gate asks for that side.
  mlir::Value hasFewRows;
  mlir::Value lastRow; // of the walk in the chunk
  Walk walk;
  /// Per decay by axis, per outer product by dimension, per read.
  llvm::SmallVector<mlir::Value> gateTiles[3], addTiles[2], readTiles;
  /// Per read, per pairing: the tile it is multiplied with.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> pairingTiles;
  llvm::SmallVector<mlir::Value> anchorEntries;
  /// Per anchor, where every chunk enters rows with a saved state of their own.
  llvm::SmallVector<mlir::Value> savedTiles;
  /// By steps, per anchor, its product with the entry.
  llvm::SmallVector<mlir::Value> entrySums;
  const ChunkedSaves *saved = nullptr;
  Basis bases[2];
  std::optional<HeadDecays> head;
};

} // namespace ejk

#endif // EJK_PASSES_CHUNK_CHUNKEDSTATE_H
