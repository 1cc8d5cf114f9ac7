//===- MergeManifests.h - one manifest of several architectures' --*- C++ -*-===//
#ifndef EJK_LOWERING_DRIVER_MERGEMANIFESTS_H
#define EJK_LOWERING_DRIVER_MERGEMANIFESTS_H

#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace ejk {

/// The manifest of a module's functions, compiled for one architecture.
struct ArchitectureManifest {
  std::string arch;
  /// That of entries which have no alternatives.
  std::string schedule;
  llvm::json::Object manifest;
};

/// One manifest whose entries have the variants of all, each with its architecture. Arguments and
/// results at the end, for saved states, may be those of some architectures alone: the others leave
/// them as they are. Sets `problem` where the same function is called in different ways.
llvm::json::Object mergeManifests(std::vector<ArchitectureManifest> manifests,
                                  std::string &problem);

} // namespace ejk

#endif // EJK_LOWERING_DRIVER_MERGEMANIFESTS_H
