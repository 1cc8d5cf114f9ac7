//===- KeepCalledTest.cpp - a package for known calls alone ---------------===//
#include "lowering/driver/Dialects.h"
#include "lowering/driver/KeepCalled.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace ejk;
using namespace mlir;
namespace json = llvm::json;

namespace {
constexpr const char *kKernels = R"(
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @one() kernel { gpu.return }
    gpu.func @many() kernel { gpu.return }
    gpu.func @chunk() kernel { gpu.return }
    gpu.func @other() kernel { gpu.return }
  }
  func.func @host() {
    %c1 = arith.constant 1 : index
    gpu.launch_func @kernels::@other blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
    return
  }
})";

std::string launch(const std::string &kernel, const std::string &more = "") {
  return R"({"kernel": ")" + kernel +
         R"(", "grid": 1, "block": [1, 1, 1], "shared_bytes": 0, "args": [{"input": 0}])" + more + "}";
}

std::string entry(const std::string &name, const std::string &ways) {
  return R"({"name": ")" + name +
         R"(", "inputs": [{"name": "x", "dtype": "f32", "shape": ["T"], "align": 4}],
            "outputs": [], "constraints": [], )" + ways + "}";
}

/// `f` is computed by chunks or step by step, `g` in one way.
json::Object manifest() {
  std::string chunk = R"({"schedule": "chunk", "when": [">=", "T", 16], "needs": [">", "T", 1],
                          "workspace": [], "launches": [)" + launch("chunk") + "]}";
  std::string step = R"({"schedule": "step", "workspace": [], "launches": [)" +
                     launch("one", R"(, "when": ["=", "T", 1])") + ", " +
                     launch("many", R"(, "when": ["!=", "T", 1])") + "]}";
  std::string text = R"({"producer": "a test", "entries": [)" + entry("f", R"("variants": [)" + chunk + ", " + step + "]") +
                     ", " + entry("g", R"("workspace": [], "launches": [)" + launch("other") + "]") + "]}";
  return std::move(*llvm::cantFail(json::parse(text)).getAsObject());
}

struct Kept {
  std::string kernels;  ///< "one chunk"
  std::string manifest; ///< as text
};

Kept keep(const ExpectCalls &expected) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  auto module = parseSourceString<ModuleOp>(kKernels, &context);
  json::Object text = manifest();
  EXPECT_TRUE(succeeded(
      keepCalled(*module, text, {Image::Kind::Ptx, "none", "sm_90a", true}, expected)));
  Kept kept;
  module->walk([&](gpu::GPUFuncOp kernel) { kept.kernels += (kernel.getName() + " ").str(); });
  module->walk([&](gpu::LaunchFuncOp launch) { ADD_FAILURE() << "a launch is left"; });
  llvm::raw_string_ostream(kept.manifest) << json::Value(std::move(text));
  return kept;
}

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}
} // namespace

TEST(KeepCalled, KeepsOneVariantsLaunchesOfItsSizes) {
  Kept kept = keep([](const Manifest &, const Entry &entry) -> ExpectedCall {
    if (entry.name == "g")
      return {};
    return {{1}, {/*T=*/1, /*the device's facts=*/90, 132, 0}};
  });
  EXPECT_EQ(kept.kernels, "one ");
  EXPECT_EQ(count(kept.manifest, "\"schedule\""), 1u);
  EXPECT_EQ(count(kept.manifest, "\"kernel\""), 1u);
  EXPECT_EQ(count(kept.manifest, "\"name\":\"g\""), 0u);
}

TEST(KeepCalled, DropsTheConditionsOfAVariantThatIsTaken) {
  Kept kept = keep([](const Manifest &, const Entry &entry) -> ExpectedCall {
    return {{0}, {/*T=*/64, 90, 132, 0}};
  });
  EXPECT_EQ(kept.kernels, "chunk other ");
  EXPECT_EQ(count(kept.manifest, "\"when\"") + count(kept.manifest, "\"needs\""), 0u);
}

TEST(KeepCalled, KeepsAllOfAnEntryWhoseSizesAreNotKnown) {
  Kept kept = keep([](const Manifest &, const Entry &entry) -> ExpectedCall {
    return entry.name == "f" ? ExpectedCall{{0, 1}, {}} : ExpectedCall{{0}, {}};
  });
  EXPECT_EQ(kept.kernels, "one many chunk other ");
  EXPECT_EQ(count(kept.manifest, "\"when\""), 3u);
  EXPECT_EQ(count(kept.manifest, "\"needs\""), 1u);
}
