//===- Check.td - the check dialect: numeric tests as IR --------*- tablegen -*-===//
#ifndef EJK_DIALECT_CHECK_CHECK_TD
#define EJK_DIALECT_CHECK_CHECK_TD

include "dialect/ejk/KnownAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Check_Dialect : Dialect {
  let name = "check";
  let cppNamespace = "::ejk::check";
  let summary = "Numeric tests written as IR";
  let description = [{
    Makes inputs and compares results, so that a test of the numbers is a
    function without arguments. `--ejk-interpret` runs it, before or after any
    passes, and a check that fails is an error at its line.

    ```mlir
    func.func @sum_commutes() {
      %a = check.random normal seed 1 : tensor<8x4xf32>
      %b = check.random normal seed 2 : tensor<8x4xf32>
      %ab = arith.addf %a, %b : tensor<8x4xf32>
      %ba = arith.addf %b, %a : tensor<8x4xf32>
      check.expect_equal %ab, %ba : tensor<8x4xf32>
      return
    }
    ```
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Check_DistributionEnum : I32EnumAttr<"Distribution", "how random elements are drawn", [
    I32EnumAttrCase<"normal", 0>, I32EnumAttrCase<"uniform", 1>,
    I32EnumAttrCase<"log_gate", 2>, I32EnumAttrCase<"zero", 3>]> {
  let cppNamespace = "::ejk::check";
  let genSpecializedAttr = 0;
}
def Check_DistributionAttr : EnumAttr<Check_Dialect, Check_DistributionEnum, "distribution"> {
  let assemblyFormat = "`<` $value `>`";
}

def Check_FloatTensor : StaticShapeTensorOf<[F16, BF16, F32, F64]>;
def Check_AnyTensor : RankedTensorOf<[F16, BF16, F32, F64, AnySignlessInteger, Index]>;
def Check_AnyFloatTensor : RankedTensorOf<[F16, BF16, F32, F64]>;

class Check_Op<string mnemonic, list<Trait> traits = []>
    : Op<Check_Dialect, mnemonic, [Ejk_KnownAttributes] # traits>;

def Check_RandomOp : Check_Op<"random", [Pure]> {
  let summary = "a tensor of random numbers, the same on every machine";
  let description = [{
    Draws each element from `distribution`, in row-major order, and rounds it to
    the element type:

    - `normal`: mean 0, variance 1;
    - `uniform`: from 0 up to 1;
    - `log_gate`: log(sigmoid(x)) of a normal x, as a model's gates are: negative;
    - `zero`: 0.

    The same seed gives the same numbers everywhere, for the generator
    (splitmix64, and Box and Muller's method for normal numbers) is part of
    the op's meaning. With narrow types the numbers are those of f64, rounded.

    Example:

    ```mlir
    %g = check.random log_gate seed 7 : tensor<2x33x4xbf16>
    ```

    Constraints:
    - C1: the tensor's shape is static.
  }];
  let arguments = (ins Check_DistributionAttr:$distribution, I64Attr:$seed);
  let results = (outs Check_FloatTensor:$result);
  let assemblyFormat = [{
    custom<DistributionName>($distribution) `seed` $seed attr-dict `:` type($result)
  }];
}

def Check_LoadOp : Check_Op<"load"> {
  let summary = "a tensor from an .npy file";
  let description = [{
    Reads the tensor from a file whose path is relative to the source file. The
    file's shape and type must be the result's, except that a float file gives
    any float type, rounded: .npy has no bf16.

    Example:

    ```mlir
    %expected = check.load "expected/gla.npy" : tensor<2x33x4x16xf32>
    ```

    Constraints:
    - C1: the path is not empty.
  }];
  let arguments = (ins StrAttr:$path);
  let results = (outs Check_AnyTensor:$result);
  let assemblyFormat = "$path attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Check_ExpectCloseOp : Check_Op<"expect_close", [SameTypeOperands]> {
  let summary = "check that two tensors are close";
  let description = [{
    Fails when ‖actual − expected‖ / ‖expected‖, over all elements, is above
    `max_relative`; where expected is all zeros, when actual is not. A NaN or an
    infinity on one side alone fails; both NaN, or infinities of one sign, agree, and
    the norms are of the other elements. The error names the first differing element.

    Example:

    ```mlir
    check.expect_close %o, %expected max_relative 1.0e-12 : tensor<2x33x4x16xf32>
    ```

    Constraints:
    - C1: `max_relative` is finite and not negative.
  }];
  let arguments = (ins Check_AnyFloatTensor:$actual, Check_AnyFloatTensor:$expected,
                       F64Attr:$max_relative);
  let assemblyFormat = [{
    $actual `,` $expected `max_relative` $max_relative attr-dict `:` type($actual)
  }];
  let hasVerifier = 1;
}

def Check_ExpectEqualOp : Check_Op<"expect_equal", [SameTypeOperands]> {
  let summary = "check that two tensors are equal";
  let description = [{
    Fails when an element differs. NaN equals NaN, and 0 equals -0.

    Example:

    ```mlir
    check.expect_equal %a, %b : tensor<4xi32>
    ```
  }];
  let arguments = (ins Check_AnyTensor:$actual, Check_AnyTensor:$expected);
  let assemblyFormat = "$actual `,` $expected attr-dict `:` type($actual)";
}

#endif // EJK_DIALECT_CHECK_CHECK_TD
