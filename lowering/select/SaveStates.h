//===- SaveStates.h - states that the forward saves for f_vjp -----*- C++ -*-===//
#ifndef EJK_LOWERING_SELECT_SAVESTATES_H
#define EJK_LOWERING_SELECT_SAVESTATES_H

#include "dialect/ejk/Ejk.h"
#include "dialect/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace ejk {

/// A function f, its derivative f_vjp, and f_fwd: f, which also gives the states that f_vjp
/// else goes over all of f's steps for. Where a program of f_vjp does nothing but save states
/// that a scan of f goes through, f_fwd's copy of that scan saves them, and f_vjp takes them.
///
/// A scan of f_vjp may also go over f's steps for what they read, as that of a delta rule does.
/// f_fwd gives that, too, and f_vjp has no such scan. Where f_vjp takes what is read only into a
/// sum that f makes of it, as v - r, f_fwd gives the sum.
///
/// Alternatives of f over segments have their own alternative of f_fwd. It gives the same reads,
/// and saves the same states in the same slots, since these are numbered by sequence: each f_vjp
/// may read what any f_fwd saves.
class SaveStates {
public:
  /// One for each f and f_vjp of `module` with such a scan, each with a new f_fwd in it. A
  /// remark says of an f_vjp why there is none, unless `quiet`.
  static std::vector<SaveStates> prepare(mlir::ModuleOp module, bool quiet = false);

  /// The function f_fwd and its alternatives; their scans are copies of f's, none of which saves
  /// yet.
  llvm::ArrayRef<mlir::func::FuncOp> forwards() const { return fwds; }
  /// `program` is what now saves the state that `scan`, of f_vjp, went through.
  void note(ScanOp scan, tile::ProgramOp program);
  /// Why no program saves just the state that `scan`, of f_vjp, goes through.
  void noteDeclined(ScanOp scan, const std::string &why) {
    if (savings.contains(scan))
      whyDeclined = why;
  }
  /// Why a program of f_fwd does not fit.
  void noteTooLarge(const std::string &why) { whyDeclined = why; }
  /// Lets the scans of f_fwd save that go through such states. What `makeProgram` makes of one
  /// takes its place. Fails, after a remark, with f_fwd gone and f_vjp as it was, where it
  /// makes none, or none is needed.
  mlir::LogicalResult
  apply(llvm::function_ref<tile::ProgramOp(ScanOp scan, int64_t chunk)> makeProgram);

private:
  struct Saving {
    mlir::func::FuncOp function; // f_fwd, or one of its alternatives
    ScanOp scan;        // of that
    unsigned state;     // of the scan
    tile::ProgramOp by; // of f_vjp, once noted
  };
  using Savers = llvm::MapVector<mlir::Operation *, ScanOp>;
  using MakeProgram = llvm::function_ref<tile::ProgramOp(ScanOp scan, int64_t chunk)>;

  using GetForward = llvm::function_ref<mlir::func::FuncOp()>;

  void match(mlir::func::FuncOp function, mlir::StringRef name,
             llvm::ArrayRef<mlir::func::FuncOp> derivatives);
  std::optional<unsigned> findState(ScanOp derived, unsigned number, ScanOp own) const;
  std::optional<llvm::SmallVector<mlir::Value>> findReads(ScanOp derived, ScanOp own) const;
  bool giveReads(mlir::func::FuncOp function, llvm::ArrayRef<mlir::func::FuncOp> derivatives,
                 mlir::IRMapping &mapping, GetForward forward);
  void addRead(mlir::Value given);
  bool addSameRead(mlir::func::FuncOp fwd, mlir::Value given);
  /// `scan` once more, in its place, with these more outputs, whose values the caller yields, and
  /// saves.
  static ScanOp rebuilt(ScanOp scan, mlir::TypeRange moreOutputs, int64_t every,
                        mlir::TypeRange saves);
  static ScanOp withSaves(Saving &saving);
  void takeBack(mlir::func::FuncOp fwd, const Savers &made);
  void sayWhy(const llvm::Twine &why);
  std::string freshName(unsigned &number);
  mlir::NamedAttrList describe(mlir::Value tensor, unsigned &number);
  std::optional<std::string> whyNoSavers(mlir::func::FuncOp fwd, Savers &made);
  static llvm::SmallVector<std::pair<mlir::Type, int64_t>> describe(const Savers &made);
  static bool makePrograms(const Savers &made, MakeProgram makeProgram);
  void addResults(mlir::func::FuncOp fwd, const Savers &made);
  void drop(mlir::func::FuncOp fwd);
  void addArguments(llvm::ArrayRef<llvm::SmallVector<mlir::Operation *>> sources);

  /// f_fwd, the first, and its alternatives.
  llvm::SmallVector<mlir::func::FuncOp> fwds;
  mlir::func::FuncOp vjp;
  /// Other ways to compute `vjp`, which take what it takes.
  llvm::SmallVector<mlir::func::FuncOp> alternatives;
  bool quiet = false;
  std::string whyDeclined;
  /// The arguments of f_vjp for reads: the first, and how many.
  unsigned firstRead = 0, numReads = 0;
  /// By the argument of an f_vjp, the value of f's step that it holds.
  llvm::DenseMap<mlir::Value, mlir::Value> givenReads;
  /// By the scan of f_vjp.
  llvm::MapVector<mlir::Operation *, Saving> savings;
};

} // namespace ejk

#endif // EJK_LOWERING_SELECT_SAVESTATES_H
