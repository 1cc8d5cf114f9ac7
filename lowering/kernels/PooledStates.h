//===- PooledStates.h - states that kernels keep in pools ---------*- C++ -*-===//
//
// A kernel that reads a state from a pool and writes it there spares a copy in each direction.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_KERNELS_POOLEDSTATES_H
#define EJK_LOWERING_KERNELS_POOLEDSTATES_H

#include "dialect/ejk/Ejk.h"
#include "lowering/kernels/KernelBuilder.h"
#include "lowering/kernels/KernelSignature.h"

namespace ejk {
/// Which slots of which pools a kernel uses: those at an index that it reads, and at one that it
/// writes. Either may be missing.
struct PoolUse {
  mlir::Value readIndex, accepted, writeIndex;
  int64_t firstSlot = 0;
  /// Each once.
  llvm::SmallVector<mlir::Value> pools;

  /// That of an `ejk.read_states`, `ejk.write_states` or `ejk.zero_skipped`.
  static PoolUse of(mlir::Operation *op);
  bool writesPerRow() const;
  void addPool(mlir::Value pool);
};

/// The states that a scan's kernel takes from pools and puts there itself: all at one index to read
/// and one to write. Empty where the scan's pool ops are not like that: other kernels then copy
/// states.
struct PooledScan {
  PooledScan() = default;
  explicit PooledScan(ScanOp scan);

  /// Of each state: where it starts, and where it ends. Of each save: where it goes. Of each
  /// output: what clears the rows of skipped sequences. Null where there is none.
  llvm::SmallVector<ReadStatesOp> starts;
  llvm::SmallVector<WriteStatesOp> ends, saves;
  llvm::SmallVector<ZeroSkippedOp> cleared;
  PoolUse use;

  explicit operator bool() const { return !use.pools.empty(); }
  /// Whether the scan's kernel does what `op` does.
  bool holds(mlir::Operation *op) const;
  /// Whether a matrix lies in a pool as [V,K].
  bool valueMajor();

private:
  bool addAll(ScanOp scan);
};

/// The arguments of a kernel that uses pools, and the slots of the sequence that it works on. The
/// pools' own pointers are the kernel's.
class PoolArguments {
public:
  using Value = mlir::Value;

  PoolArguments() = default;
  explicit PoolArguments(PoolUse given) : use(std::move(given)) {}

  /// Adds the indices to `signature`, and the sizes after all of the kernel's tensors.
  void addTensors(KernelSignature &signature);
  void addSizes(KernelSignature &signature);
  /// Takes them in the same order.
  void takeTensors(llvm::function_ref<Value()> take);
  void takeSizes(llvm::function_ref<Value(unsigned)> size);

  /// Loads the slots of `sequence`, an i64.
  void locate(KernelBuilder &b, Value sequence);
  /// Whether the sequence has any slot; a kernel does nothing for one that has none.
  Value isActive;
  /// The slot that the sequence starts from. `hasStart` is null where each active sequence has one.
  Value start, hasStart;
  /// The slot that it ends in; likewise.
  Value end, hasEnd;
  /// The slot of the state after row `row` of the sequence, an i64, and whether there is one.
  struct Slot {
    Value number, exists;
  };
  Slot slotAfter(KernelBuilder &b, Value row);
  /// The first element, in `pool`, of `head`'s state of `elements` in a slot.
  Value placeOf(KernelBuilder &b, Value pool, Value slot, Value head, int64_t elements);

private:
  struct Index {
    Value tensor, pointer, rows;
    std::optional<unsigned> rowsNumber;
  };
  void add(KernelSignature &signature, Index &index, Value tensor);
  Value load(KernelBuilder &b, const Index &index, Value entry, Value exists = {});
  Value isSlot(KernelBuilder &b, Value slot);
  Value anySlot(KernelBuilder &b, const Index &index);

  PoolUse use;
  Index read, accepted, write;
  llvm::SmallVector<unsigned> sizeNumbers, strideNumbers;
  llvm::SmallVector<Value> sizes, strides;
  Value numSlots, sequence;
};

/// An `ejk.read_states`, `ejk.write_states` or `ejk.zero_skipped` that has a kernel of its own. It
/// copies states to or from the memory of a pool, or clears rows.
struct PoolKernelOp {
  explicit PoolKernelOp(mlir::Operation *op);
  /// Fails, after an error, where no kernel does this alone.
  llvm::LogicalResult check() const;

  mlir::Operation *op;
  mlir::Value memory, states, rows, cuSeqlens;
  bool isRead = false, valueMajor = false;

  mlir::RankedTensorType copiedType() const {
    return mlir::cast<mlir::RankedTensorType>((states ? states : rows).getType());
  }
  /// Adds what the kernel copies, and the pools' indices; returns how many tensors there are then.
  unsigned addTensors(KernelSignature &signature, PoolArguments &pools) const;
  /// Elements of a head's state, or of a row.
  int64_t elements() const;
  /// Where element `element` of a head's state lies in a slot.
  mlir::Value placeInSlot(KernelBuilder &b, mlir::Value element) const;
};

/// The GPU kernel of such an op; fails, after an error, for states after each row.
llvm::FailureOr<Kernel> emitPoolKernel(mlir::Operation *op, mlir::gpu::GPUModuleOp module,
                                       llvm::StringRef name);
} // namespace ejk

#endif // EJK_LOWERING_KERNELS_POOLEDSTATES_H
