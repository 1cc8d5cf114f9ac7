//===- RotateProducts.h - the next iteration's first products ----*- C++ -*-===//
#ifndef EJK_LOWERING_ROTATEPRODUCTS_H
#define EJK_LOWERING_ROTATEPRODUCTS_H

#include "dialect/tile/Tile.h"

namespace ejk {

/// Takes the products of `program`'s loops whose factors come through a ring of three stages
/// or more, and are of one item alone, an iteration early. Returns how many.
unsigned rotateProducts(tile::ProgramOp program);

} // namespace ejk

#endif // EJK_LOWERING_ROTATEPRODUCTS_H
