//===- EjkShifts.h - rows of other steps --------------------------*- C++ -*-===//
#ifndef EJK_DIALECT_EJK_EJKSHIFTS_H
#define EJK_DIALECT_EJK_EJKSHIFTS_H

#include "dialect/ejk/Ejk.h"

#define GET_OP_CLASSES
#include "dialect/ejk/EjkShifts.h.inc"

#endif // EJK_DIALECT_EJK_EJKSHIFTS_H
