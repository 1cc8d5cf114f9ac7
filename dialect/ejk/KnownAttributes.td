//===- KnownAttributes.td - no attribute goes unseen ------------*- tablegen -*-===//
#ifndef EJK_DIALECT_EJK_KNOWNATTRIBUTES_TD
#define EJK_DIALECT_EJK_KNOWNATTRIBUTES_TD

include "mlir/IR/OpBase.td"

// Every op of ejk's dialects has it: an attribute without a dialect's prefix is
// one of the op's own, or an error.
def Ejk_KnownAttributes : NativeOpTrait<"KnownAttributes">, StructuralOpTrait {
  let cppNamespace = "::ejk";
}

#endif // EJK_DIALECT_EJK_KNOWNATTRIBUTES_TD
