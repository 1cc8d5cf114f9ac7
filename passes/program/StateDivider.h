//===- StateDivider.h - a chunk's front, and what has the state -*- C++ -*-===//
#ifndef EJK_PASSES_PROGRAM_STATEDIVIDER_H
#define EJK_PASSES_PROGRAM_STATEDIVIDER_H

#include "passes/program/SplitByState.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace ejk {

/// Divides a program with one loop over chunks into its front and what has the state. An op of the
/// loop depends on the state if it uses a tile that the loop carries, or the result of an op that
/// does. The costly ones of the others are the front's, and so are the ops that use their results.
/// The state's side takes those results through tensors. Both sides compute the rest that they
/// need.
class StateDivider {
public:
  virtual ~StateDivider() = default;
  /// Creates both programs before `program`, which stays. Nothing where that is not possible or of
  /// no use.
  std::optional<ProgramsByState> run();

protected:
  StateDivider(tile::ProgramOp program, mlir::scf::ForOp loop)
      : program(program), loop(loop), b(program) {}

  /// Whether `op` is on the state's side although it may not depend on a state.
  virtual bool isOfState(mlir::Operation *op) = 0;
  /// Whether it is worth handing over what `op` gives, which depends on no state.
  virtual bool isCostly(mlir::Operation *op) = 0;
  /// Whether the state's side takes `value`, which depends on no state, instead of computing it.
  virtual bool isHandedOver(mlir::Value value) = 0;
  /// Whether `value` goes through rows, one for each row of the chunk, and not through a slot of
  /// the chunk's own.
  virtual bool goesByRows(mlir::Value value) = 0;
  /// Whether all can be handed over that has to be, of what `ops` compute.
  virtual bool suits() = 0;
  /// What goes through a slot for `value`: its type, the front's tile, and what the state's side
  /// makes of it.
  virtual mlir::VectorType typeOfPart(mlir::Value value);
  virtual mlir::Value partOf(mlir::Value value, mlir::Value made) { return made; }
  virtual mlir::Value fromPart(mlir::Value value, mlir::Value part) { return part; }
  /// The segments of the front, and its slices.
  virtual SegmentsAttr segmentsOfFront() { return program.getSegmentsAttr(); }
  virtual int64_t slicesOfFront() { return 1; }
  /// Whether the state's side takes `value` at the chunk's start, and not where it was made.
  virtual bool takesEarly(mlir::Value value) = 0;
  /// Clones the front's ops of the loop's body.
  virtual void cloneBody(mlir::IRMapping &map) = 0;
  /// What is left to do with the two programs.
  virtual void finish(ProgramsByState &parts) {}

  bool isWorth(mlir::Operation *op) const { return worth.contains(op); }
  /// Whether row i of `tile` can be row i of the chunk.
  bool isOfChunk(mlir::Value tile);
  static bool isMatrix(mlir::Type type);

  tile::ProgramOp program;
  mlir::scf::ForOp loop;
  mlir::OpBuilder b;
  /// What depends on rows alone and the state's side takes, and how it goes there.
  llvm::SetVector<mlir::Value> handedOver;
  llvm::SmallVector<mlir::Value> byRows, bySlot;
  /// The ops of the front, before and in the loop.
  llvm::DenseSet<mlir::Operation *> ops;
  /// The chunk's first row.
  mlir::Value first;

private:
  bool carriesMatrix();
  mlir::Value firstRowOfChunk();
  void forEachOperand(mlir::Operation *op, llvm::function_ref<void(mlir::Value)> visit);
  void classify();
  bool findOps();
  tile::ProgramOp create(mlir::TypeRange outputs, mlir::TypeRange finals, mlir::TypeRange saves,
                         mlir::ValueRange sequences, mlir::ValueRange initials,
                         mlir::ValueRange saved, mlir::IntegerAttr saveEvery, int64_t slices,
                         SegmentsAttr segments);
  void makeFront(ProgramsByState &result);
  void makeState(ProgramsByState &result);

  llvm::SetVector<mlir::Operation *> onState;
  llvm::DenseSet<mlir::Operation *> worth;
};

} // namespace ejk

#endif // EJK_PASSES_PROGRAM_STATEDIVIDER_H
