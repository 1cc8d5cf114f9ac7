//===- InterpretPass.td - run a module's numeric tests ----------*- tablegen -*-===//
#ifndef EJK_TOOLS_INTERPRET_INTERPRETPASS_TD
#define EJK_TOOLS_INTERPRET_INTERPRETPASS_TD

include "mlir/Pass/PassBase.td"

def Interpret : Pass<"ejk-interpret", "::mlir::ModuleOp"> {
  let summary = "run the module's checks in the interpreter";
  let description = [{
    Interprets every function without arguments that holds ops of the check
    dialect, and fails when a check does, or when there was none to run. Each
    pass is tested by this one before and after it. The IR is left as it is.

    `precision=f64` (the default) computes in double throughout: what the
    program means. `precision=native` rounds each op's result to its type, as a
    kernel would.

    `check.load` reads relative paths from `folder`, or from the folder of the op's own
    file where there is none.

    The warp partitions of a tile program run in turn, each until it must wait. With a `partition-seed`
    that is not negative, they switch at random, wherever one might wait.

    With `path-tolerance`, a `tile.guarded` whose guard holds runs both paths. It is an error if a
    float result of the fast path differs from the exact path's by more than the tolerance,
    relative to its norm. Paths that move items of rings are not compared. After
    `ejk-defer-state-scaling` the paths divide the state differently over their results, so they are
    compared before it.
  }];
  let options = [
    Option<"precision", "precision", "::ejk::reference::Precision",
           "::ejk::reference::Precision::f64", "how exact to be",
           [{::llvm::cl::values(
             clEnumValN(::ejk::reference::Precision::f64, "f64", "every float is a double"),
             clEnumValN(::ejk::reference::Precision::native, "native",
                        "each result is rounded to its own type"))}]>,
    Option<"folder", "folder", "std::string", [{""}], "where check.load finds relative paths">,
    Option<"partitionSeed", "partition-seed", "int64_t", "-1", "how partitions take turns at random">,
    Option<"pathTolerance", "path-tolerance", "double", "-1",
           "how far a fast path may be from its exact path (not compared if negative)">];
  let statistics = [Statistic<"numChecks", "checks", "checks that passed">];
}

#endif // EJK_TOOLS_INTERPRET_INTERPRETPASS_TD
