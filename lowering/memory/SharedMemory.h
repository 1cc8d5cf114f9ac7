//===- SharedMemory.h - a block's shared memory, while a kernel is made ----===//
//
// Hands out ranges of a block's dynamic shared memory as a kernel is emitted in
// program order, takes them back when their tile is dead, and knows what was
// read and written in which range since the last barrier. The rule for barriers,
// which makes any order of tiles in one place safe:
//
//   before reading a range that any thread wrote since the last barrier: a barrier;
//   before writing one that any thread read or wrote since then: a barrier.
//
// A place that nobody touched since the last barrier needs none: where memory suffices,
// tiles are laid apart. What the device stores from here it may read behind any number of
// barriers: it is waited for, and then counts as read.
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
  /// What has no more lies where it may: a barrier is all that it costs.
  static constexpr unsigned kVectorBytes = 2048;

public:
  struct Range {
    unsigned begin = 0, end = 0;
    /// Whether products read there what threads wrote, by `wgmma`: that must be fenced.
    bool isFactor = false;
    /// Whether it was touched in an iteration before, and is small: such places are not avoided.
    bool isOld = false;
    bool overlaps(const Range &other) const { return begin < other.end && other.begin < end; }
    bool contains(const Range &other) const { return begin <= other.begin && other.end <= end; }
  };
  /// What the device stores from here, and may not have read yet; a barrier alone does not end
  /// that.
  struct Sent {
    Range range;
    /// Since it was sent, if it was: how many numbers a thread made, and the groups that were
    /// surely sent behind it.
    unsigned work = 0, behind = 0;
    bool covers(const Sent &other) const {
      return range.contains(other.range) && behind <= other.behind;
    }
  };
  /// Ranges touched since the last barrier, but for what was sent.
  struct Pending {
    llvm::SmallVector<Range> reads, writes;
    llvm::SmallVector<Sent> sent;
    /// Whether a factor was written, and not yet fenced.
    bool unfenced = false;

    void add(const Pending &other, bool isOld = false) {
      auto append = [&](llvm::SmallVector<Range> &ranges, llvm::ArrayRef<Range> more) {
        for (Range range : more) {
          range.isOld |= isOld && range.end - range.begin <= kVectorBytes;
          ranges.push_back(range);
        }
      };
      append(reads, other.reads);
      append(writes, other.writes);
      for (const Sent &one : other.sent) {
        auto *same = llvm::find_if(sent, [&](const Sent &known) {
          return known.range.contains(one.range) && one.range.contains(known.range);
        });
        if (same == sent.end()) {
          sent.push_back(one);
          continue;
        }
        same->work = std::min(same->work, one.work);
        same->behind = std::min(same->behind, one.behind);
      }
      unfenced |= other.unfenced;
    }
    llvm::SmallVector<Range> sentRanges() const {
      return llvm::map_to_vector(sent, [](const Sent &one) { return one.range; });
    }
    /// Whether all that `other` has touched counts as touched here.
    bool covers(const Pending &other) const {
      auto within = [](llvm::ArrayRef<Range> ranges, llvm::ArrayRef<Range> these) {
        return llvm::all_of(these, [&](const Range &range) {
          return llvm::any_of(ranges, [&](const Range &r) { return r.contains(range); });
        });
      };
      return within(reads, other.reads) && within(writes, other.writes) && coversSent(other) &&
             (unfenced || !other.unfenced);
    }
    bool coversSent(const Pending &other) const {
      return llvm::all_of(other.sent, [&](const Sent &one) {
        return llvm::any_of(sent, [&](const Sent &known) { return known.covers(one); });
      });
    }
    /// What was said of either of two places is said of the other.
    void exchange(const Range &one, const Range &other) {
      auto move = [&](Range &range) {
        if (range.begin == one.begin && range.end == one.end)
          std::tie(range.begin, range.end) = std::make_pair(other.begin, other.end);
        else if (range.begin == other.begin && range.end == other.end)
          std::tie(range.begin, range.end) = std::make_pair(one.begin, one.end);
      };
      llvm::for_each(reads, move);
      llvm::for_each(writes, move);
      for (Sent &each : sent)
        move(each.range);
    }
    Pending onlySent() const {
      Pending result;
      result.sent = sent;
      return result;
    }
    void noteSent(const Range &range) {
      for (Sent &one : sent)
        ++one.behind;
      sent.push_back({range});
    }
  };

  /// The first free place that is large enough and overlaps none of `avoided`, by default
  /// aligned for 16-byte accesses that start on the first bank.
  Range allocate(unsigned bytes, unsigned alignment = 128, llvm::ArrayRef<Range> avoided = {}) {
    Range range = find(bytes, alignment, avoided);
    live.push_back(range);
    most = std::max(most, range.end);
    return range;
  }
  /// Which that would be.
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
  /// Takes a place that was released, and that nothing has now.
  void occupy(const Range &range) { live.push_back(range); }
  /// Hands out nothing again of what was handed out so far.
  void keepAll() { live.push_back({0, most}); }
  /// Bytes that everything handed out so far needs.
  unsigned size() const { return most; }

  bool readNeedsBarrier(const Range &range) const { return touches(pending.writes, range); }
  bool writeNeedsBarrier(const Range &range) const {
    return touches(pending.writes, range) || touches(pending.reads, range) || isSent(range);
  }
  bool isSent(const Range &range) const { return touches(pending.sentRanges(), range); }
  void noteRead(const Range &range) { pending.reads.push_back(range); }
  void noteWrite(const Range &range) {
    pending.writes.push_back(range);
    pending.unfenced |= range.isFactor;
  }
  void noteWork(unsigned numbers) {
    for (Sent &one : pending.sent)
      one.work += numbers;
  }
  void noteBarrier() { pending = pending.onlySent(); }

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
