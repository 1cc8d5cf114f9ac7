//===- Rounding.h - where passes agree on what is rounded ---------*- C++ -*-===//
#ifndef EJK_PASSES_ROUNDING_H
#define EJK_PASSES_ROUNDING_H

#include <cstdint>

namespace ejk {

/// The most channels of rows and states whose block programs multiply factors in two terms, and
/// save states in f32: with more, errors of as many roundings average out, and the products and
/// bytes that this takes would be more than a few.
constexpr int64_t kFewChannels = 32;

} // namespace ejk

#endif // EJK_PASSES_ROUNDING_H
