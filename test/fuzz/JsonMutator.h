//===- JsonMutator.h - changes to JSON that stays JSON ----------*- C++ -*-===//

#ifndef EJK_TEST_FUZZ_JSONMUTATOR_H
#define EJK_TEST_FUZZ_JSONMUTATOR_H

#include <random>
#include <string>
#include <string_view>

namespace ejk::fuzz {

/// The text with one value changed: replaced by another of its document or by
/// one that has caused trouble elsewhere, removed, repeated, or counted up or
/// down. Text that is no JSON is returned as it is.
std::string mutateJson(std::string_view text, std::mt19937 &random);

} // namespace ejk::fuzz

#endif // EJK_TEST_FUZZ_JSONMUTATOR_H
