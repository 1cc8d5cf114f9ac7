//===- Rounding.h - where passes agree on what is rounded ---------*- C++ -*-===//
#ifndef EJK_PASSES_ROUNDING_H
#define EJK_PASSES_ROUNDING_H

#include <cstdint>

namespace ejk {

/// With at most this many channels, block programs split matmul operands into two terms and save
/// states in f32. With more channels the rounding errors average out, and the additional matmuls
/// and bytes would cost more.
constexpr int64_t kFewChannels = 32;

} // namespace ejk

#endif // EJK_PASSES_ROUNDING_H
