//===- SharedMemory.h - allocation and barriers of shared memory -*- C++ -*-===//
//
// Allocates a block's dynamic shared memory while a program is planned in program order,
// and decides where barriers are needed (MemoryPlanner.h). A range is free again after its tile's last
// use. The class records the reads and writes since the last barrier. The rule for
// barriers, which makes any reuse of memory safe:
//
//   before reading a range that any thread wrote since the last barrier: a barrier;
//   before writing one that any thread read or wrote since then: a barrier.
//
// A range without accesses since the last barrier needs none, so tiles are kept apart if
// memory suffices. A bulk store may read its source after any number of barriers: the
// issuing lane must wait for it, and then it counts as a read.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_LOWERING_MEMORY_SHAREDMEMORY_H
#define EJK_LOWERING_MEMORY_SHAREDMEMORY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <tuple>

namespace ejk {

class SharedMemory {
  /// Tiles up to this size may reuse recently used ranges: that costs only a barrier.
  static constexpr unsigned kVectorBytes = 2048;

public:
  struct Range {
    unsigned begin = 0, end = 0;
    /// Whether `wgmma` or TMA reads what threads write here, which requires a proxy fence.
    bool needsFence = false;
    /// Whether it was accessed in the previous iteration and is small. Such ranges are not avoided.
    bool isOld = false;
    bool overlaps(const Range &other) const { return begin < other.end && other.begin < end; }
    bool contains(const Range &other) const { return begin <= other.begin && other.end <= end; }
    bool operator==(const Range &other) const {
      return begin == other.begin && end == other.end &&
             needsFence == other.needsFence && isOld == other.isOld;
    }
  };
  /// A bulk store that may not have read its source yet. A barrier alone does not complete it.
  struct BulkStore {
    Range range;
    /// Since its issue: the least number of elements that a thread computed, and of bulk groups
    /// that were committed.
    unsigned work = 0, later = 0;
    bool covers(const BulkStore &other) const {
      return range.contains(other.range) && later <= other.later;
    }
  };
  /// Accesses since the last barrier, and outstanding bulk stores.
  struct Pending {
    llvm::SmallVector<Range> reads, writes;
    llvm::SmallVector<BulkStore> bulkStores;
    /// Whether a matmul operand was written and not fenced yet.
    bool unfenced = false;

    void add(const Pending &other, bool isOld = false) {
      auto append = [&](llvm::SmallVector<Range> &ranges, llvm::ArrayRef<Range> more) {
        for (Range range : more) {
          range.isOld |= isOld && range.end - range.begin <= kVectorBytes;
          // Loops with many double buffers add the same ranges again and again.
          if (!llvm::is_contained(ranges, range))
            ranges.push_back(range);
        }
      };
      append(reads, other.reads);
      append(writes, other.writes);
      for (const BulkStore &one : other.bulkStores) {
        auto *same = llvm::find_if(bulkStores, [&](const BulkStore &known) {
          return known.range.contains(one.range) && one.range.contains(known.range);
        });
        if (same == bulkStores.end()) {
          bulkStores.push_back(one);
          continue;
        }
        same->work = std::min(same->work, one.work);
        same->later = std::min(same->later, one.later);
      }
      unfenced |= other.unfenced;
    }
    llvm::SmallVector<Range> bulkStoreRanges() const {
      return llvm::map_to_vector(bulkStores, [](const BulkStore &one) { return one.range; });
    }
    /// Whether every access in `other` is in this one.
    bool covers(const Pending &other) const {
      auto within = [](llvm::ArrayRef<Range> ranges, llvm::ArrayRef<Range> these) {
        return llvm::all_of(these, [&](const Range &range) {
          return llvm::any_of(ranges, [&](const Range &r) { return r.contains(range); });
        });
      };
      return within(reads, other.reads) && within(writes, other.writes) &&
             coversBulkStores(other) && (unfenced || !other.unfenced);
    }
    bool coversBulkStores(const Pending &other) const {
      return llvm::all_of(other.bulkStores, [&](const BulkStore &one) {
        return llvm::any_of(bulkStores, [&](const BulkStore &known) { return known.covers(one); });
      });
    }
    /// Swaps the two buffers in all accesses.
    void exchange(const Range &one, const Range &other) {
      auto move = [&](Range &range) {
        if (range.begin == one.begin && range.end == one.end)
          std::tie(range.begin, range.end) = std::make_pair(other.begin, other.end);
        else if (range.begin == other.begin && range.end == other.end)
          std::tie(range.begin, range.end) = std::make_pair(one.begin, one.end);
      };
      llvm::for_each(reads, move);
      llvm::for_each(writes, move);
      for (BulkStore &each : bulkStores)
        move(each.range);
    }
    Pending onlyBulkStores() const {
      Pending result;
      result.bulkStores = bulkStores;
      return result;
    }
    void noteBulkStore(const Range &range) {
      for (BulkStore &one : bulkStores)
        ++one.later;
      bulkStores.push_back({range});
    }
  };

  /// Allocates the first free range that overlaps none of `avoided`. By default it is aligned for
  /// 16-byte accesses that start at the first bank.
  Range allocate(unsigned bytes, unsigned alignment = 128, llvm::ArrayRef<Range> avoided = {}) {
    Range range = find(bytes, alignment, avoided);
    live.push_back(range);
    most = std::max(most, range.end);
    return range;
  }
  /// The range that `allocate` would return.
  Range find(unsigned bytes, unsigned alignment, llvm::ArrayRef<Range> avoided = {}) const {
    Range range{0, bytes};
    for (bool moved = true; moved;) {
      moved = false;
      for (llvm::ArrayRef<Range> others : {llvm::ArrayRef<Range>(live), avoided})
        for (const Range &other : others)
          if (range.overlaps(other)) {
            range.begin = unsigned(llvm::alignTo(other.end, alignment));
            range.end = range.begin + bytes;
            moved = true;
          }
    }
    return range;
  }
  void release(const Range &range) {
    llvm::erase_if(live, [&](const Range &r) { return r.begin == range.begin; });
  }
  /// Allocates `range` again, which was released and is free.
  void occupy(const Range &range) { live.push_back(range); }
  /// Never reuses memory that was allocated so far.
  void occupyAll() { live.push_back({0, most}); }
  /// The size in bytes of all allocations so far.
  unsigned size() const { return most; }

  bool readNeedsBarrier(const Range &range) const { return touches(pending.writes, range); }
  bool writeNeedsBarrier(const Range &range) const {
    return touches(pending.writes, range) || touches(pending.reads, range) || hasBulkStore(range);
  }
  bool hasBulkStore(const Range &range) const { return touches(pending.bulkStoreRanges(), range); }
  void noteRead(const Range &range) { pending.reads.push_back(range); }
  void noteWrite(const Range &range) {
    pending.writes.push_back(range);
    pending.unfenced |= range.needsFence;
  }
  void noteWork(unsigned numbers) {
    for (BulkStore &one : pending.bulkStores)
      one.work += numbers;
  }
  void noteBarrier() { pending = pending.onlyBulkStores(); }

  Pending pending;

private:
  static bool touches(llvm::ArrayRef<Range> ranges, const Range &range) {
    return llvm::any_of(ranges, [&](const Range &r) { return r.overlaps(range); });
  }

  llvm::SmallVector<Range> live;
  unsigned most = 0;
};

} // namespace ejk

#endif // EJK_LOWERING_MEMORY_SHAREDMEMORY_H
