//===- ExecutableTest.cpp - loading code onto a device --------------------===//

#include "FakeDriver.h"
#include "TestPackage.h"

#include <algorithm>

using namespace ejk::test;
using nlohmann::json;

namespace {
class Executable : public FakeDriverTest {
protected:
  // Creates and destroys; the message.
  std::string create(const json &manifest, int ordinal = 0, bool preferPtx = false, bool ptx = true,
                     bool cubin = true) {
    std::vector<ejk::ImageData> images;
    if (ptx)
      images.push_back({ejk::Image::Kind::Ptx, ptxText});
    if (cubin)
      images.push_back({ejk::Image::Kind::Cubin, cubinText});
    std::string message;
    PackagePtr package = load(ejk::serializePackage(manifest, images), message);
    EXPECT_EQ(message, "");
    ejk_executable_options options = {};
    options.struct_size = sizeof(options);
    options.device_ordinal = ordinal;
    options.prefer_ptx = preferPtx;
    ejk_executable *executable = nullptr;
    ejk_error *error = ejk_executable_create(package.get(), &options, &executable);
    code = ejk_error_get_code(error);
    usedBinary = ejk_executable_uses_binary(executable);
    ejk_executable_destroy(executable);
    EXPECT_EQ(fake->retained, 0) << "a context leaks";
    EXPECT_EQ(fake->pushes, fake->pops);
    return take(error);
  }

  std::string ptxText = "fake ptx", cubinText = "fake cubin";
  ejk_error_code code = EJK_OK;
  bool usedBinary = false;
};
} // namespace

TEST_F(Executable, PrefersTheBinary) {
  EXPECT_EQ(create(glaManifest()), "");
  EXPECT_TRUE(usedBinary);
  EXPECT_STREQ(fake->image, "fake cubin");
  EXPECT_EQ(fake->module_loads, 0);
}

TEST_F(Executable, CompilesPtxOnRequest) {
  EXPECT_EQ(create(glaManifest(), 0, /*preferPtx=*/true), "");
  EXPECT_FALSE(usedBinary);
  EXPECT_STREQ(fake->image, "fake ptx");
}

TEST_F(Executable, NewerDevicesCompilePtx) {
  fake->major = 10;
  EXPECT_EQ(create(glaManifest()), "");
  EXPECT_FALSE(usedBinary);
  fake->major = 9, fake->minor = 1; // the same generation runs the binary
  EXPECT_EQ(create(glaManifest()), "");
  EXPECT_TRUE(usedBinary);
}

TEST_F(Executable, OlderDevicesAreRefused) {
  fake->major = 8;
  EXPECT_EQ(create(glaManifest()),
            "the package is compiled for sm_90 and runs on that architecture "
            "or later ones, but device 0 is sm_80; compile it with "
            "--arch=sm_80");
  EXPECT_EQ(code, EJK_ERROR_ARCH_MISMATCH);
}

TEST_F(Executable, SpecificCodeRunsOnItsArchitectureOnly) {
  json manifest = glaManifest();
  manifest["arch_specific"] = true;
  EXPECT_EQ(create(manifest), "");
  fake->major = 10;
  std::string message = create(manifest);
  EXPECT_NE(message.find("sm_90 and runs on no other"), std::string::npos);
  EXPECT_NE(message.find("device 0 is sm_100"), std::string::npos);
}

TEST_F(Executable, BinaryAloneOnAnotherGeneration) {
  fake->major = 10;
  std::string message = create(glaManifest(), 0, false, /*ptx=*/false, /*cubin=*/true);
  EXPECT_NE(message.find("with no PTX"), std::string::npos) << message;
}

TEST_F(Executable, ErrorsCarryTheCompilersLog) {
  ptxText = "BAD";
  std::string message = create(glaManifest(), 0, true);
  EXPECT_EQ(code, EJK_ERROR_DRIVER);
  EXPECT_NE(message.find("CUDA_ERROR_INVALID_PTX"), std::string::npos);
  EXPECT_NE(message.find("ptxas fatal : unexpected token"), std::string::npos);
}

// The driver fills what it is given, and may leave no room for the end of the text.
TEST_F(Executable, LongLogsAreCutOff) {
  ptxText = "BAD LONG";
  std::string message = create(glaManifest(), 0, true);
  EXPECT_EQ(std::count(message.begin(), message.end(), '!'), 8191);
  EXPECT_EQ(std::count(message.begin(), message.end(), '?'), 8191);
  EXPECT_NE(message.find("!\ndriver's log:\n?"), std::string::npos) << message;
}

TEST_F(Executable, RefusedBinaryFallsBackToPtx) {
  cubinText = "BAD";
  EXPECT_EQ(create(glaManifest()), "");
  EXPECT_FALSE(usedBinary);
  ptxText = "BAD too";
  std::string message = create(glaManifest());
  EXPECT_NE(message.find("binary image"), std::string::npos) << message;
  EXPECT_NE(message.find("PTX image"), std::string::npos) << message;
}

TEST_F(Executable, LargeSharedMemoryIsAskedFor) {
  EXPECT_EQ(create(glaManifest()), "");
  EXPECT_EQ(fake->max_dynamic_shared, 65536);
  fake->shared_optin = 50000;
  EXPECT_EQ(create(glaManifest()),
            "kernel 'scan_a6': needs 65536 bytes of shared memory a block, but "
            "device 0 (sm_90) has 50000");
}

TEST_F(Executable, MissingKernel) {
  std::string message = create(copyManifest("missing"));
  EXPECT_NE(message.find("kernel 'missing': cuModuleGetFunction failed"), std::string::npos);
  EXPECT_EQ(fake->module_loads, 0);
}

TEST_F(Executable, MissingDevice) {
  EXPECT_EQ(create(glaManifest(), 2), "there is no CUDA device 2; the driver has 2");
  EXPECT_EQ(code, EJK_ERROR_NO_DEVICE);
}

TEST_F(Executable, StructSize) {
  ejk_executable_options options = {};
  ejk_executable *executable = nullptr;
  PackagePtr package = load(glaManifest());
  EXPECT_NE(take(ejk_executable_create(package.get(), &options, &executable)).find("struct_size"),
            std::string::npos);
}
