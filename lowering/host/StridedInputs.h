//===- StridedInputs.h - inputs of entries whose rows lie apart ---*- C++ -*-===//
//
// A manifest names the stride between an input's rows by a symbol, which launches pass to kernels and
// tensor maps. Where one variant of an entry needs the rows one behind the other, all have them so, and
// the symbol becomes the size of a row.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_HOST_STRIDEDINPUTS_H
#define EJK_LOWERING_HOST_STRIDEDINPUTS_H

#include "llvm/Support/JSON.h"

namespace ejk {

/// The symbol of the stride between the rows of input `name`.
std::string rowStrideSymbol(llvm::StringRef name);

/// Removes the row stride of each input that has none in `others`, the inputs of another variant. One of
/// the lists may be longer.
void keepRowStridesOf(llvm::json::Array &inputs, const llvm::json::Array &others);

/// Replaces the symbols of row strides that were removed by the sizes of the inputs' rows, in all that the
/// entry launches.
void replaceRowStrides(llvm::json::Object &entry);

} // namespace ejk

#endif // EJK_LOWERING_HOST_STRIDEDINPUTS_H
