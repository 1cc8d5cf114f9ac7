//===- RaceState.h - accesses that are not ordered before later ones -*- C++ -*-===//
#ifndef EJK_LOWERING_MEMORY_RACESTATE_H
#define EJK_LOWERING_MEMORY_RACESTATE_H

#include "lowering/memory/Accesses.h"
#include <map>
#include <tuple>

namespace ejk {

/// Bytes of shared memory. In a ring, those of the stage of item `base + item`, where a null base
/// is 0; the item is counted modulo the number of stages.
struct RaceRegion {
  int64_t begin = 0, end = 0;
  mlir::Value ring = {}, base = {};
  int64_t item = 0;

  auto key() const {
    return std::make_tuple(begin, end, ring.getAsOpaquePointer(), base.getAsOpaquePointer(), item);
  }
  bool overlaps(const RaceRegion &other) const {
    if (begin >= other.end || other.begin >= end)
      return false;
    // Of two items of one ring, only those with the same stage overlap.
    return !ring || ring != other.ring || base != other.base || item == other.item;
  }
};

/// An earlier access, and what has happened since.
struct EarlierAccess {
  mlir::Operation *op;
  RaceRegion region;
  bool writes;
  Agent agent;
  /// Whether its thread may not have ended it. Then at least `later` more groups of its kind have
  /// been issued.
  bool isOutstanding = false;
  unsigned later = 0;
  /// Whether a fence, and whether a barrier, has passed since it ended.
  bool isFenced = false, isOrdered = false;

  auto key() const { return std::make_tuple(op, region.key(), writes, unsigned(agent)); }
  auto status() const { return std::make_tuple(isOutstanding, later, isFenced, isOrdered); }
  /// Whether threads wrote, whose writes wgmma and TMA see after a fence only.
  bool needsFence() const {
    return writes && (agent == Agent::threads || agent == Agent::copies);
  }
};

class RaceState {
public:
  void add(const EarlierAccess &access) {
    auto [it, isNew] = accesses.try_emplace(access.key(), access);
    EarlierAccess &known = it->second;
    if (isNew)
      return;
    if (known.isOutstanding && access.isOutstanding)
      known.later = std::min(known.later, access.later);
    else if (access.isOutstanding)
      known.later = access.later;
    known.isOutstanding |= access.isOutstanding;
    known.isFenced &= access.isFenced;
    known.isOrdered &= access.isOrdered;
  }
  void join(const RaceState &other) {
    for (const auto &[key, access] : other.accesses)
      add(access);
  }
  /// Replaces each access by what `change` makes of it; null drops it.
  template <typename Fn> void update(Fn change) {
    RaceState next;
    for (auto &[key, access] : accesses)
      if (std::optional<EarlierAccess> changed = change(access))
        next.add(*changed);
    *this = std::move(next);
  }
  bool operator==(const RaceState &other) const {
    return std::equal(accesses.begin(), accesses.end(), other.accesses.begin(),
                      other.accesses.end(), [](auto &x, auto &y) {
                        return x.first == y.first && x.second.status() == y.second.status();
                      });
  }
  auto begin() const { return accesses.begin(); }
  auto end() const { return accesses.end(); }

private:
  using Key = decltype(std::declval<EarlierAccess>().key());
  std::map<Key, EarlierAccess> accesses;
};

} // namespace ejk

#endif // EJK_LOWERING_MEMORY_RACESTATE_H
