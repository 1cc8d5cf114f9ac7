//===- OwnHeads.h - sums over heads of which each is alone ---------*- C++ -*-===//
#ifndef EJK_PASSES_SCAN_OWNHEADS_H
#define EJK_PASSES_SCAN_OWNHEADS_H

#include "dialect/ejk/Ejk.h"

namespace ejk {
/// Puts an output of a scan, which nothing else uses, in the place of a sum of it over heads of
/// which each is alone: the step rounds it to the sum's type.
void replaceByTerm(SumHeadsOp sum);
} // namespace ejk

#endif // EJK_PASSES_SCAN_OWNHEADS_H
