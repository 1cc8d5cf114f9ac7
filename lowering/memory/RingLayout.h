//===- RingLayout.h - the stages of a ring in shared memory -------*- C++ -*-===//
#ifndef EJK_LOWERING_MEMORY_RINGLAYOUT_H
#define EJK_LOWERING_MEMORY_RINGLAYOUT_H

#include "lowering/layout/TileLayout.h"
#include "lowering/pipeline/TmaTiles.h"

namespace ejk {

/// All stages of a tile, then all stages of the next: first those of the largest alignment, so that no
/// bytes are lost between them.
struct RingLayout {
  unsigned stages = 0, bytes = 0, alignment = 128;
  struct Tile {
    mlir::Type type;
    tile::LayoutAttr layout;
    unsigned offset, stageBytes; // of its first stage in the ring; from a stage to the next
  };
  llvm::SmallVector<Tile> tiles;

  static RingLayout of(tile::MakeRingOp op) {
    tile::RingType type = op.getRing().getType();
    tile::TakeOp take = takeOf(op);
    RingLayout ring;
    ring.stages = type.getStages();
    for (auto [i, tileType] : llvm::enumerate(type.getTiles())) {
      tile::LayoutAttr layout =
          take ? layoutOf(take.getTiles()[i])
               : tile::LayoutAttr::get(op.getContext(), tile::LayoutKind::shared, 0, 0);
      unsigned alignment = sharedAlignment(layout);
      unsigned stageBytes = llvm::alignTo(sharedBytes(tileType, layout), alignment);
      ring.alignment = std::max(ring.alignment, alignment);
      ring.tiles.push_back({tileType, layout, 0, stageBytes});
    }
    auto byAlignment = llvm::to_vector(llvm::make_pointer_range(ring.tiles));
    llvm::stable_sort(byAlignment, [](const Tile *one, const Tile *other) {
      return sharedAlignment(one->layout) > sharedAlignment(other->layout);
    });
    for (Tile *tile : byAlignment) {
      tile->offset = llvm::alignTo(ring.bytes, sharedAlignment(tile->layout));
      ring.bytes = tile->offset + ring.stages * tile->stageBytes;
    }
    return ring;
  }
  /// Of the mbarriers `full` and `empty` of all stages.
  static constexpr unsigned kMbarrierBytes = 8;
  unsigned mbarrierBytes() const { return 2 * stages * kMbarrierBytes; }
};

} // namespace ejk

#endif // EJK_LOWERING_MEMORY_RINGLAYOUT_H
