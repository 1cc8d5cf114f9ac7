//===- MultiplyInTf32.cpp - one matmul in tf32 for three of terms ---------===//
//
// `wgmma` takes operand A in tf32 from registers, and operand B from rows of shared memory that lie
// along the sum. Which products have such operands follows from the orientation of the program's
// tiles.
//
//===----------------------------------------------------------------------===//
#include "lowering/Passes.h"
#include "lowering/layout/TileOrientation.h"
#include "lowering/target/CostModel.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"
#include "passes/program/OperandTerms.h"
#include "passes/scan/ScanProperties.h"

namespace ejk {
#define GEN_PASS_DEF_MULTIPLYINTF32
#include "lowering/Passes.h.inc"
} // namespace ejk

using namespace mlir;
using namespace ejk;
using namespace ejk::tile;

namespace {
/// Of x = x1 + x2 and y = y1 + y2 the matmuls x1 y1, x2 y1 and x1 y2, in any order, of which each
/// adds to the one before.
struct Product {
  std::array<DotOp, 3> dots;
  DotOp ofFirstTerms;

  static std::optional<Product> endingAt(DotOp last);

  /// Replaces the matmuls by one. `rounded` has operands that are rounded already, by their first
  /// terms.
  void multiplyInTf32(llvm::DenseMap<Value, Value> &rounded);
};
} // namespace

static bool isAlike(DotOp a, DotOp b) {
  return a.getOver() == b.getOver() && a.getRows() == b.getRows() && a->getBlock() == b->getBlock();
}

std::optional<Product> Product::endingAt(DotOp last) {
  Product product;
  DotOp ofLeftRest, ofRightRest;
  for (auto [i, dot] : llvm::enumerate(llvm::reverse(product.dots))) {
    dot = i == 0 ? last : product.dots[3 - i].getAcc().getDefiningOp<DotOp>();
    if (!dot || !isAlike(dot, last) || (dot != last && !dot->hasOneUse()) || dot.getAlgorithm() ||
        dot.getLhsTransposed() || dot.getRhsTransposed())
      return std::nullopt;
    (firstTermOf(dot.getLhs())   ? ofLeftRest
     : firstTermOf(dot.getRhs()) ? ofRightRest
                                 : product.ofFirstTerms) = dot;
  }
  DotOp first = product.ofFirstTerms;
  bool isProduct =
      first && ofLeftRest && ofRightRest && firstTermOf(ofLeftRest.getLhs()) == first.getLhs() &&
      ofLeftRest.getRhs() == first.getRhs() &&
      firstTermOf(ofRightRest.getRhs()) == first.getRhs() && ofRightRest.getLhs() == first.getLhs();
  return isProduct ? std::optional(product) : std::nullopt;
}

void Product::multiplyInTf32(llvm::DenseMap<Value, Value> &rounded) {
  OpBuilder b(dots.back());
  auto round = [&](Value term) {
    Value &known = rounded[term];
    if (!known) {
      auto truncate = term.getDefiningOp<arith::TruncFOp>();
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(truncate);
      known = RoundToTf32Op::create(b, truncate.getLoc(), truncate.getIn());
    }
    return known;
  };
  auto product = cast<DotOp>(b.clone(*dots.back()));
  product.getLhsMutable().assign(round(ofFirstTerms.getLhs()));
  product.getRhsMutable().assign(round(ofFirstTerms.getRhs()));
  product.getAccMutable().assign(dots.front().getAcc());
  product.setAlgorithm(DotAlgorithm::tf32);
  dots.back().replaceAllUsesWith(product.getResult());
  for (DotOp dot : llvm::reverse(dots))
    dot.erase();
}

static void eraseDead(ProgramOp program) {
  IRRewriter rewriter(program.getContext());
  (void)runRegionDCE(rewriter, program->getRegions());
}

static SmallVector<Product> productsOf(ProgramOp program) {
  SmallVector<Product> products;
  program.walk([&](DotOp dot) {
    if (std::optional<Product> product = Product::endingAt(dot))
      products.push_back(*product);
  });
  return products;
}

/// Has `program` multiply the products with these numbers in tf32.
static void multiplyInTf32(ProgramOp program, ArrayRef<unsigned> numbers) {
  SmallVector<Product> products = productsOf(program);
  llvm::DenseMap<Value, Value> rounded;
  for (unsigned number : numbers)
    products[number].multiplyInTf32(rounded);
  eraseDead(program);
}

/// How many warps `program` may be laid out for: as its tiles ask for, or more (ejk-select-warps).
static SmallVector<unsigned> warpsOf(ProgramOp program) {
  unsigned chosen = cost::warpsFor(largestMatrix(program), /*hasWgmma=*/true, /*isBusy=*/false);
  return chosen == cost::kManyWarps ? SmallVector<unsigned>{chosen}
                                    : SmallVector<unsigned>{chosen, cost::kManyWarps};
}

/// The numbers of the products that the orientation of tiles lets be in tf32, whatever the warps
/// are.
static SmallVector<unsigned> chooseProducts(ProgramOp program) {
  SmallVector<Product> products = productsOf(program);
  auto numbers = llvm::to_vector(llvm::seq<unsigned>(products.size()));
  for (unsigned warps : warpsOf(program)) {
    if (numbers.empty())
      return numbers;
    TileOrientation orientation(program, warps, /*warpgroups=*/true);
    llvm::erase_if(numbers, [&](unsigned number) {
      return !orientation.fitsTf32(products[number].ofFirstTerms);
    });
  }
  // Operands in f32 may be oriented otherwise, and with them what they are joined with.
  OwningOpRef<ProgramOp> tried = program.clone();
  multiplyInTf32(*tried, numbers);
  bool isPossible = llvm::all_of(warpsOf(program), [&](unsigned warps) {
    return TileOrientation(*tried, warps, /*warpgroups=*/true).isPossible();
  });
  return isPossible ? numbers : SmallVector<unsigned>();
}

/// Whether `program` stays in terms: where few channels or heads need their smaller errors, or
/// tiles are small.
static bool staysInTerms(ProgramOp program) {
  Matmuls split = matmulsToSplit(program, /*twoTermStates=*/0);
  return split == Matmuls::all || split == Matmuls::ofSums || hasF32Matmuls(program) ||
         !cost::tf32Pays(largestMatrix(program));
}

namespace {
struct MultiplyInTf32Pass : ejk::impl::MultiplyInTf32Base<MultiplyInTf32Pass> {
  void runOnOperation() override {
    SmallVector<ProgramOp> programs;
    getOperation()->walk([&](ProgramOp program) { programs.push_back(program); });
    for (ProgramOp program : programs) {
      if (program->hasAttr(kWarpsAttr) || staysInTerms(program))
        continue;
      eraseDead(program);
      SmallVector<unsigned> numbers = chooseProducts(program);
      multiplyInTf32(program, numbers);
      numProducts += numbers.size();
    }
  }
};
} // namespace
