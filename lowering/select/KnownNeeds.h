//===- KnownNeeds.h - shared memory that like programs need -----*- C++ -*-===//
//
// To find how much shared memory a program needs takes a copy of it through layouts and emission.
// Alternatives of a function have programs in common, so what one needs is remembered for the
// others.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_SELECT_KNOWNNEEDS_H
#define EJK_LOWERING_SELECT_KNOWNNEEDS_H

#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "lowering/target/Target.h"
#include "mlir/IR/OwningOpRef.h"
#include <deque>
#include <memory>

namespace ejk {
class KnownNeeds {
public:
  /// The question: which program, and how its rows are staged.
  struct Question {
    tile::ProgramOp program;
    unsigned stages;
    bool mayLoadLate;
    /// What becomes of the operands of its matmuls (passes/Rounding.h).
    bool inTwoTerms;
  };
  struct Need {
    unsigned bytes = 0;
    /// Whether it needs those even if f32 matrices have no stage.
    bool isWithoutStage = false;
    /// The most registers of a thread that its tiles take at one time, and whether a thread has
    /// those.
    int64_t registers = 0;
    bool hasRegisters = false;
  };

  /// What the program needs on `target`. `layOut` gives a copy of it layouts; where that fails, so
  /// does this, after an error.
  llvm::FailureOr<Need> of(const Question &question, const Target &target,
                           llvm::function_ref<llvm::LogicalResult(mlir::Operation *)> layOut);

private:
  /// Null where no like program was asked about.
  const Need *find(const Question &question) const;
  void add(const Question &question, Need need);

  struct Known {
    /// Stand for the tensors that the program takes, which may be gone by now.
    std::unique_ptr<mlir::Block> tensors;
    mlir::OwningOpRef<tile::ProgramOp> program;
    unsigned stages;
    bool mayLoadLate, inTwoTerms;
    Need need;
  };
  std::deque<Known> all;
};

/// What a program of `scan` that does not fit needs on `target`, and what helps.
std::string describeNeed(ScanOp scan, const KnownNeeds::Need &need, const Target &target);
} // namespace ejk

#endif // EJK_LOWERING_SELECT_KNOWNNEEDS_H
