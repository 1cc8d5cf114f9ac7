//===- PartitionPasses.td - warp specialisation ------------------*- tablegen -*-===//
#ifndef EJK_LOWERING_PARTITIONPASSES_TD
#define EJK_LOWERING_PARTITIONPASSES_TD

include "mlir/Pass/PassBase.td"

def SpecializeWarps : Pass<"ejk-specialize-warps"> {
  let summary = "divide a program into producer and consumer warps";
  let description = [{
    What: warp specialisation of a program with rings. A producer of `producer-warps` warps fills
    the rings; a consumer does everything else. The producer gets copies of the loops around the
    fills and of the scalars that they need. Results do not change.

    The program stays as it is, with a remark, where the producer would need values computed from
    tiles, or where a fill is on one side of a branch and not on the other. On an `arch` as
    sm_90a, where a block of so many warps leaves each thread too few registers, registers move from
    the producer's threads to the consumer's (`setmaxnreg`).

    Before: what `ejk-multistage-loads` makes.

    After:
    ```mlir
    %ring = tile.make_ring : !tile.ring<2 of vector<64x64xbf16>>
    tile.warp_specialize {
      tile.partition "consumer" warps 4 {
        scf.for %c = %c0 to %n step %c1 {
          %q = tile.take %ring[%c] : !tile.ring<2 of vector<64x64xbf16>> -> vector<64x64xbf16>
          ...
          tile.release %ring[%c] : …
        }
      }
      tile.partition "producer" warps 4 {
        tile.acquire %ring[%c0] : …
        tile.fill %ring[%c0] from (%qr) at (%c0) channels (%c0) : …
        scf.for %c = %c0 to %n step %c1 {
          %next = arith.addi %c, %c1 : index
          %first = arith.muli %next, %c64 : index
          tile.acquire %ring[%next] : …
          tile.fill %ring[%next] from (%qr) at (%first) channels (%c0) : …
        }
      }
    }
    ```
  }];
  let options = [Option<"producerWarps", "producer-warps", "int64_t", "4",
                        "the warps that copy">,
                 Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture">];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"numSeparated", "separated", "programs divided">,
                    Statistic<"numDeclined", "declined", "programs with rings left as they are">];
}

def PartitionWarps : Pass<"ejk-partition-warps"> {
  let summary = "compute what does not depend on the state in warps of its own";
  let description = [{
    What: divides a program whose chunks solve a triangular system into two partitions. `front` computes
    what a chunk has of its rows alone: scores, decays, the system and its inverse. It runs ahead, and
    passes its matrices through a ring of two stages (`tile.put`). `state` does the rest: what reads the
    carried state, or changes it. Each is laid out, ordered and software-pipelined as a program of its own.
    Both take the rows from one ring. Vectors that scale a matrix one after the other are multiplied with
    each other first, so that results change by an f32 rounding; otherwise they do not.

    Why: the chunks of a sequence follow one another, so their latency is a kernel's time. Half of a
    delta rule's chunk does not depend on the state, and leaves the chain; meanwhile tensor cores work
    for both partitions.

    Requires: a program before its layouts; an `arch` with `wgmma` and `setmaxnreg`. The program stays
    as it is where its loop has branches that do more than store, where its rows do not arrive by TMA, or
    where the two do not fit a block's registers and shared memory; `--ejk-print-cost-model` says which.

    Before: a program without layouts.

    After:
    ```mlir
    %x = tile.make_ring : !tile.ring<2 of vector<64x64xbf16>>
    tile.warp_specialize {
      tile.partition "state" warps 8 registers 208 {
        scf.for %c = %c0 to %n step %c1 iter_args(%s = %start) -> (vector<128x128xf32>) {
          %t = tile.take %x[%c] : !tile.ring<2 of vector<64x64xbf16>> -> vector<64x64xbf16>
          …
          tile.release %x[%c] : !tile.ring<2 of vector<64x64xbf16>>
          …
        }
      }
      tile.partition "front" warps 4 registers 96 {
        scf.for %c = %c0 to %n step %c1 {
          …
          tile.acquire %x[%c] : !tile.ring<2 of vector<64x64xbf16>>
          tile.put %x[%c] of (%t) : !tile.ring<2 of vector<64x64xbf16>>, vector<64x64xbf16>
        }
      }
    }
    ```
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90\"", "the architecture">];
  let dependentDialects = ["::ejk::tile::TileDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect", "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numPartitioned", "partitioned", "programs of two partitions">,
                    Statistic<"numDeclined", "declined", "programs that stay as they are">];
}

#endif // EJK_LOWERING_PARTITIONPASSES_TD
