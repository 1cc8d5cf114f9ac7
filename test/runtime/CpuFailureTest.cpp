//===- CpuFailureTest.cpp - a CPU's code cannot be mapped -----------------===//
//
// Each call that maps a CPU image fails in turn. Where the system forbids to execute memory that
// was written, the image comes from a file of a folder that the user names.
//
//===----------------------------------------------------------------------===//

#include "CpuFixture.h"
#include "Injection.h"

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

using namespace ejk;
using namespace ejk::test;

namespace {
class CpuFailure : public Cpu {
protected:
  void SetUp() override {
    Cpu::SetUp();
    if (IsSkipped())
      return;
    folder = ::testing::TempDir() + "ejk_images_" + std::to_string(::getpid());
    std::filesystem::create_directory(folder);
    std::string message;
    package = load(packFor({"x86-64-v3"}), message);
    ASSERT_EQ(message, "");
    ASSERT_EQ(create(kDLCPU), ""); // also starts the threads
    discard();
  }
  void TearDown() override {
    forbidExecution(false);
    unsetenv("EJK_IMAGE_DIR");
    Cpu::TearDown();
    std::filesystem::remove_all(folder);
  }
  void discard() {
    ejk_executable_destroy(executable);
    executable = nullptr;
  }

  /// Creates the executable while the n-th call of that kind fails.
  std::string createFailing(Failing what, long n, bool &reached) {
    startFailing(what, n);
    std::string message = create(kDLCPU);
    reached = stopFailing() >= n;
    return message;
  }
  void expectWorks() {
    Call call(100);
    EXPECT_EQ(take(ejk_launch(executable, 0, &call.params)), "");
    EXPECT_TRUE(call.isNumbered());
  }

  std::string folder;
};
} // namespace

TEST_F(CpuFailure, EveryMapping) {
  bool reached;
  long n = 1;
  for (;; ++n) {
    ASSERT_LT(n, 100);
    std::string message = createFailing(Failing::oneFileCall, n, reached);
    if (!reached)
      break;
    EXPECT_NE(message.find("loading the package's CPU image: "), std::string::npos) << n << message;
    EXPECT_NE(message.find("Input/output error"), std::string::npos) << n << message;
    EXPECT_EQ(executable, nullptr);
  }
  EXPECT_EQ(n, 3); // memory, and its protection
  expectWorks();
}

TEST_F(CpuFailure, WithoutAFolderTheRemedyIsNamed) {
  forbidExecution(true);
  for (const char *none : {static_cast<const char *>(nullptr), ""}) {
    none ? setenv("EJK_IMAGE_DIR", none, 1) : unsetenv("EJK_IMAGE_DIR");
    std::string message = create(kDLCPU);
    EXPECT_NE(message.find("this system forbids to execute memory that was written; name a folder, "
                           "whose files may be executed, in EJK_IMAGE_DIR: Permission denied"),
              std::string::npos)
        << message;
  }
}

TEST_F(CpuFailure, AFolderServesWhereMemoryCannotBeExecuted) {
  setenv("EJK_IMAGE_DIR", folder.c_str(), 1);
  forbidExecution(true);
  ASSERT_EQ(create(kDLCPU), "");
  expectWorks();
  EXPECT_TRUE(std::filesystem::is_empty(folder)); // the file has no name
}

TEST_F(CpuFailure, AFolderThatIsNone) {
  setenv("EJK_IMAGE_DIR", (folder + "/absent").c_str(), 1);
  forbidExecution(true);
  std::string message = create(kDLCPU);
  EXPECT_NE(message.find("cannot make a file in '" + folder + "/absent': No such file"),
            std::string::npos)
      << message;
}

TEST_F(CpuFailure, EveryCallOnTheFolder) {
  setenv("EJK_IMAGE_DIR", folder.c_str(), 1);
  forbidExecution(true);
  int failures = 0;
  for (long n = 1;; ++n) {
    ASSERT_LT(n, 100);
    long files = openFiles();
    bool reached;
    std::string message = createFailing(Failing::oneFileCall, n, reached);
    EXPECT_EQ(openFiles(), files) << n << ": a descriptor leaks";
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << n;
    if (!reached) {
      EXPECT_EQ(message, "");
      break;
    }
    if (message.empty()) // the protection itself
      discard();
    else
      EXPECT_NE(message.find("Input/output error"), std::string::npos) << n << message;
    failures += !message.empty();
  }
  EXPECT_EQ(failures, 5); // memory; a file's name, its reading, its writing, its mapping
  expectWorks();
}

TEST_F(CpuFailure, InterruptedAndShortWritesAreNone) {
  setenv("EJK_IMAGE_DIR", folder.c_str(), 1);
  forbidExecution(true);
  for (Failing what : {Failing::interruptedCall, Failing::shortTransfers}) {
    bool reached;
    EXPECT_EQ(createFailing(what, 1, reached), "");
    EXPECT_TRUE(reached);
    expectWorks();
    discard();
  }
}

TEST_F(CpuFailure, EveryAllocation) {
  for (Failing what : {Failing::oneAllocation, Failing::allAllocations})
    for (long n = 1;; ++n) {
      ASSERT_LT(n, 10000);
      long before = liveBlocks();
      startFailing(what, n);
      ejk_executable_options options = {};
      options.struct_size = sizeof(options);
      options.device_type = kDLCPU;
      ejk_error *error = ejk_executable_create(package.get(), &options, &executable);
      bool reached = stopFailing() >= n;
      if (error) {
        EXPECT_TRUE(reached) << n;
        EXPECT_EQ(ejk_error_get_code(error), EJK_ERROR_OUT_OF_MEMORY) << n;
        ejk_error_destroy(error);
      } else {
        expectWorks();
        discard();
      }
      EXPECT_EQ(liveBlocks(), before) << n << ": something leaks";
      if (!reached)
        break;
    }
}
