//===- Calls.cpp - a run's calls, known before their kernels --------------===//
#include "Calls.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace ejk;

ExpectedCall Calls::expect(const Manifest &manifest, const Entry &entry) {
  bool hasForward =
      llvm::any_of(manifest.entries, [&](const Entry &other) { return isForward(other); });
  if (entry.name != name && !isForward(entry) && !(hasForward && areTimed))
    return {};
  Result<VariantChoice> choice =
      session.choose(manifest, entry, manifest.architectures.front().name, inputs);
  if (entry.name == name)
    explained = choice ? Result<std::string>(choice->explanation) : choice.error();
  if (choice)
    return {{size_t(choice->variant - entry.variants.data())}, choice->symbols};
  // A launch says why it takes none of them.
  auto all = llvm::seq<size_t>(0, entry.variants.size());
  return {{all.begin(), all.end()}, {}};
}
