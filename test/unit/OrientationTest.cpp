//===- OrientationTest.cpp - which matrices are computed transposed -------===//
//
// Each program multiplies two loaded tiles, P = Q Kᵀ, rounds P, and multiplies it again. What the
// second matmul does with P decides its orientation.
//
//===----------------------------------------------------------------------===//
#include "lowering/driver/Dialects.h"
#include "lowering/layout/TileOrientation.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
struct Orientation : ::testing::Test {
  Orientation() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
  }

  /// Parses a program of 64×64 tiles whose second matmul is `second`, of %p, %v and %zero.
  void parse(const std::string &second) {
    std::string text = R"(
func.func @f(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>, %w: tensor<?x?x?x64xbf16>) -> tensor<?x?x?x64xf32> {
  %o = tile.program chunk 64 slices 1
      sequences(%q, %k, %w : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>)
      outputs(tensor<?x?x?x64xf32>) {
  ^bb0(%qr: !tile.rows<vector<64xbf16>>, %kr: !tile.rows<vector<64xbf16>>, %vr: !tile.rows<vector<64xbf16>>,
       %or: !tile.rows<vector<64xf32>>, %length: index, %slice: index, %head: index, %heads: index):
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %qt = tile.load %qr[%c0, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %kt = tile.load %kr[%c0, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %v = tile.load %vr[%c0, %c0] : !tile.rows<vector<64xbf16>> -> vector<64x64xbf16>
    %f = tile.dot %qt, %kt transposed, %zero : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    %p = arith.truncf %f : vector<64x64xf32> to vector<64x64xbf16>
    %r = )" + second + R"( : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
    tile.store %r, %or[%c0, %c0] : vector<64x64xf32>, !tile.rows<vector<64xf32>>
    tile.end
  }
  return %o : tensor<?x?x?x64xf32>
})";
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    module->walk([&](ProgramOp op) { program = op; });
    module->walk([&](arith::TruncFOp op) { p = op; });
    module->walk([&](DotOp op) { (matmuls[0] ? matmuls[1] : matmuls[0]) = op; });
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  ProgramOp program;
  Value p;
  DotOp matmuls[2];
};
} // namespace

// P V: the accumulators of P are operand A of the second matmul as they are.
TEST_F(Orientation, OperandAStaysInRegisters) {
  parse("tile.dot %p, %v, %zero");
  TileOrientation orientation(program, 4, /*warpgroups=*/true);
  EXPECT_FALSE(orientation.isStored(p));
  EXPECT_EQ(orientation.layoutOf(p).getKind(), LayoutKind::fragments);
}

// Pᵀ V: with P computed transposed, it is operand A in registers again.
TEST_F(Orientation, ATransposedOperandAIsComputedTransposed) {
  parse("tile.dot %p transposed, %v, %zero");
  TileOrientation orientation(program, 4, /*warpgroups=*/true);
  EXPECT_FALSE(orientation.isStored(p));
  EXPECT_EQ(orientation.layoutOf(p).getKind(), LayoutKind::transposed_fragments);
  EXPECT_EQ(orientation.layoutOf(matmuls[0]), orientation.layoutOf(p));
}

// V P: operand B is read from shared memory, unless the matmul is computed transposed, which makes
// P operand A.
TEST_F(Orientation, OperandBBecomesOperandA) {
  parse("tile.dot %v, %p, %zero");
  TileOrientation orientation(program, 4, /*warpgroups=*/true);
  EXPECT_FALSE(orientation.isStored(p));
  EXPECT_EQ(orientation.layoutOf(matmuls[1]).getKind(), LayoutKind::transposed_fragments);
}

// P P: one value is both operands. It may be A in registers, but as B it lies in shared memory.
TEST_F(Orientation, AnOperandThatIsAAndBIsStored) {
  parse("tile.dot %p, %p, %zero");
  TileOrientation orientation(program, 4, /*warpgroups=*/true);
  EXPECT_TRUE(orientation.isStored(p));
}

// Rows from memory are loaded in each layout in which they are used.
TEST_F(Orientation, LoadsAreRematerialised) {
  parse("tile.dot %p, %v, %zero");
  EXPECT_TRUE(TileOrientation::isRematerialised(matmuls[1].getRhs()));
  EXPECT_FALSE(TileOrientation::isRematerialised(p));
  TileOrientation orientation(program, 4, /*warpgroups=*/true);
  EXPECT_FALSE(orientation.isStored(matmuls[1].getRhs()));
}

// mma.sync takes operands of single warps, so nothing is transposed.
TEST_F(Orientation, WithoutWarpgroupsNothingIsTransposed) {
  parse("tile.dot %p transposed, %v, %zero");
  TileOrientation orientation(program, 4, /*warpgroups=*/false);
  EXPECT_EQ(orientation.layoutOf(p).getKind(), LayoutKind::fragments);
  EXPECT_FALSE(orientation.isStored(p));
}
