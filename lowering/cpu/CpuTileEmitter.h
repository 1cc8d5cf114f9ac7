//===- CpuTileEmitter.h - the parts of a block program's CPU kernel -*- C++ -*-===//
//
// A tile is either in memory, row by row, in a buffer on the stack; or it is *pending*: an
// elementwise op, a matmul with one user, a mask, whose elements are computed where they are asked
// for. What asks is a loop over blocks of a tile that goes to memory: an output, a state that is
// carried, an operand of a matmul. So a matmul's accumulators start from what the ops before it
// give, and the ops after it take them, in registers.
//
// A matmul of bf16 has instructions that multiply and add pairs along the sum (vdpbf16ps). One
// operand of it is read a pair at a time, the other a register of pairs, so operands are *packed*:
//
//   row pairs     [k/2][n][2]: rows k and k+1 of a K×N tile, interleaved
//   column pairs  [k/2][n][2] of an N×K tile: its pairs of columns, turned
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_CPU_CPUTILEEMITTER_H
#define EJK_LOWERING_CPU_CPUTILEEMITTER_H

#include "dialect/tile/Tile.h"
#include "lowering/cpu/CpuBuilder.h"
#include "lowering/kernels/KernelSignature.h"
#include "mlir/IR/IRMapping.h"

namespace ejk {

class CpuTileEmitter {
public:
  CpuTileEmitter(tile::ProgramOp program, llvm::StringRef name, mlir::OpBuilder builder)
      : program(program), name(name), b(builder, program.getLoc()) {}
  llvm::FailureOr<Kernel> run(mlir::gpu::GPUModuleOp module, SizeName sizeName);

private:
  using Value = mlir::Value;
  using Type = mlir::Type;

  /// f32 lanes of a register; all tiles are blocks of them.
  static constexpr int64_t kLanes = 16;

  /// Rows in memory: where the sequence's first is, and how far they are apart, in elements.
  struct Rows {
    Value base, stride, heads;
    Type element;
    /// Of rows of another step: how many steps earlier a row is than it is asked for, the halo, and
    /// where its row would be in the place of the sequence's row 0.
    int64_t shift = 0, haloRows = 0;
    Value haloPointer = {}, haloBase = {}, haloStride = {};
    Value givenStride = {}; // the caller's, where it decides
  };
  /// A block of a tile: `rows` rows from `row` on, of `vectors` registers of f32 from column `column`
  /// on.
  struct Area {
    Value row, column;
    int64_t rows, vectors;
  };
  using Block = llvm::SmallVector<Value>; // row by row

  // CpuTileKernel.cpp: the signature, who works on what, the program's ops.
  void buildSignature(SizeName sizeName);
  void locate(Value item);
  Value takePointer(Value tensor);
  mlir::LogicalResult emitOps(mlir::Block &block);
  mlir::LogicalResult emitOp(mlir::Operation *op);
  mlir::LogicalResult emitBranch(mlir::Operation *op, Value condition);
  mlir::LogicalResult emitFor(mlir::scf::ForOp op);
  Value asI64(Value index);

  // CpuTileValues.cpp: elements of tiles.
  static bool isTile(Value value) { return mlir::isa<mlir::VectorType>(value.getType()); }
  static int64_t dim(Value tile, unsigned i) {
    return mlir::cast<mlir::VectorType>(tile.getType()).getDimSize(i);
  }
  static unsigned rank(Value tile) {
    return mlir::cast<mlir::VectorType>(tile.getType()).getRank();
  }
  static Type elementOf(Value tile) { return mlir::getElementTypeOrSelf(tile.getType()); }
  Value allocate(int64_t bytes);
  Value allocateFor(Value tile);
  Value place(Value tile, Value row, Value column);
  bool isPending(Value tile) const { return !buffers.lookup(tile); }
  bool isCostly(Value tile) const;
  bool readsBuffer(Value tile, Value buffer) const;
  Block evaluate(Value tile, const Area &at);
  Value evaluateOp(mlir::Operation *op, unsigned lanes, mlir::ArrayRef<Value> operands);
  Value evaluateLine(Value vector, Value position, unsigned lanes);
  Value evaluateWindow(tile::WindowOp op, Value position, unsigned lanes);
  Block evaluateMask(tile::MaskOp op, const Area &at);
  Block applyMask(tile::MaskOp op, const Area &at);
  Block onOneSide(tile::MaskOp mask, const Area &at, double otherwise,
                  llvm::function_ref<Block()> compute);

  // CpuTileExponential.cpp
  Value exponential(Value x, bool ofTwo);
  Value reciprocal(Value x);
  static mlir::Operation *inverseOf(mlir::Operation *op);
  Value inverseAtHand(mlir::Operation *op) const;
  bool isReady(Value tile) const;
  bool scaleRows(mlir::Operation *exp);
  void prepare(Value tile, bool inSquares = false);
  using Visit = llvm::function_ref<void(const Area &, const Block &)>;
  void forEachBlock(Value tile, Visit visit, bool asksForNext = false);
  void forEachLine(Value vector, llvm::function_ref<void(Value position, Value lanes)> visit);
  Block evaluateToStore(Value tile, const Area &at);
  void storeRow(const Area &at, const Block &block, int64_t row,
                llvm::function_ref<Value(Value column)> placeOf);
  void write(Value tile, Value buffer);
  Value inMemory(Value tile);
  void inRows(Value tile);
  void assign(llvm::ArrayRef<std::pair<Value, Value>> buffersAndTiles);

  // CpuTileMemory.cpp: rows and slots, sums along time.
  void load(tile::LoadOp op);
  void store(tile::StoreOp op);
  void cumulate(tile::CumsumOp op);
  void sum(tile::SumOp op);
  Value guardRange(tile::RangeGuardOp op);
  Value validRows(Value first, int64_t rows);
  bool mayPrefetch(Value tile) const;
  void prefetchNext(Value done, int64_t blocks);
  void prefetchRows(Value tile, Value memory, Value first, bool isWritten, Value block,
                    int64_t blocks);

  // CpuTileDot.cpp
  Block evaluateDot(tile::DotOp op, const Area &at);
  Value rowPairs(Value tile);
  Value columnPairs(Value tile);
  Value asPairs(Value words);
  Value roundBoth(Value low, Value high);
  void storeRowPairs(const Area &at, const Block &block, int64_t columns, Value pack);
  void packWhole(Value tile, Value pack);
  static Value matmulOperandOf(Value state);
  tile::MaskOp maskOf(Value tile) const;

  tile::ProgramOp program;
  llvm::StringRef name;
  CpuBuilder b;
  Kernel kernel;
  mlir::Block *entry = nullptr;
  int64_t stackBytes = 0;

  llvm::DenseMap<Value, llvm::SmallVector<Value>> pointers;
  llvm::DenseMap<Value, Rows> rows;
  llvm::DenseMap<Value, Value> slots;
  llvm::SmallVector<std::pair<Value, Value>> parameters; // pointer, heads
  Value begin, end, totalSteps, heads;
  Value offsets; // of packed sequences
  Value sequence, head, stateIndex, length;
  /// Values of the program that are no tiles.
  mlir::IRMapping scalars;
  llvm::DenseMap<Value, Value> buffers, rowPacks, columnPacks;
  /// By the buffer of a carried state: where its rows are kept in pairs, too, rounded to bf16.
  llvm::DenseMap<Value, Value> packsOfBuffers;
  /// Tiles in such buffers whose pairs are up to date.
  llvm::DenseSet<Value> packed;
  /// How far rows of a tile in memory are apart, in elements, if not as many as it has columns.
  llvm::DenseMap<Value, Value> strides;
  /// An exponential, and the block of it that is being used.
  std::pair<mlir::Operation *, Block> atHand;
  /// The loads and stores of the chunk that is being computed, if nothing has asked for the next
  /// one's rows.
  llvm::SmallVector<mlir::Operation *> accesses;
};

} // namespace ejk

#endif // EJK_LOWERING_CPU_CPUTILEEMITTER_H
