//===- ToolsFailureTest.cpp - what tools read and write, failing ----------===//
//
// As FailureTest.cpp does for the C API: each call on a file, each allocation
// and each call of the driver fails in turn while tensors are read, written or
// run. What was there stays or is replaced by a whole file; nothing leaks, and
// no file under a temporary name stays.
//
//===----------------------------------------------------------------------===//

#include "FakeDriver.h"
#include "Injection.h"
#include "TestPackage.h"

#include "harness/Harness.h"
#include "io/TensorFile.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <sstream>

#include <unistd.h>

using namespace ejk;
using namespace ejk::test;
namespace fs = std::filesystem;

static constexpr const char *noMemory = "out of memory";

namespace {
class ToolsFailure : public FakeDriverTest {
protected:
  void SetUp() override {
    FakeDriverTest::SetUp();
    folder = fs::path(::testing::TempDir()) / ("ejk_tools_failure_" + std::to_string(::getpid()));
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string at(const std::string &name) { return (folder / name).string(); }
  static std::string contents(const std::string &path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  void put(const std::string &name, const std::string &text) {
    std::ofstream(at(name), std::ios::binary) << text;
  }
  // Files of the folder and of those in it.
  size_t entries() {
    return size_t(std::distance(fs::recursive_directory_iterator(folder),
                                fs::recursive_directory_iterator()));
  }

  // Runs `body` with its n-th call of a kind failing; the error's message.
  std::string runFailing(Failing what, long n, const std::function<std::string()> &body,
                         bool &reached) {
    std::string message;
    message.reserve(64); // what says so must not need memory
    startFailing(what, n);
    try {
      message = body();
    } catch (const std::bad_alloc &) {
      message = noMemory;
    }
    reached = stopFailing() >= n;
    return message;
  }

  // `body` for each n until nothing fails any more. Before each, `before` makes
  // the files; after each, `after` looks at them, given the error's message.
  // The number of times that there was an error.
  long tryAll(Failing what, const std::function<void()> &before,
              const std::function<std::string()> &body,
              const std::function<void(const std::string &)> &after);

  fs::path folder;
};
} // namespace

long ToolsFailure::tryAll(Failing what, const std::function<void()> &before,
                          const std::function<std::string()> &body,
                          const std::function<void(const std::string &)> &after) {
  before();
  EXPECT_EQ(body(), ""); // also fills caches
  after("");
  long failures = 0;
  bool reached = true;
  for (long n = 1; reached && n < 100000; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    before();
    long blocks = liveBlocks(), files = openFiles();
    {
      std::string message = runFailing(what, n, body, reached);
      failures += !message.empty();
      EXPECT_TRUE(reached || message.empty()) << message;
      if (!message.empty() && what == Failing::oneFileCall)
        EXPECT_NE(message.find("Input/output error"), std::string::npos) << message;
      after(message);
    }
    EXPECT_EQ(liveBlocks(), blocks) << "memory leaks";
    EXPECT_EQ(openFiles(), files) << "a descriptor leaks";
  }
  EXPECT_FALSE(reached);
  return failures;
}

static constexpr Failing kinds[] = {Failing::oneFileCall, Failing::oneAllocation,
                                    Failing::allAllocations};

TEST_F(ToolsFailure, OneFileIsReplacedWholeOrNotAtAll) {
  for (Failing what : kinds) {
    long failures = tryAll(
        what, [&] { put("x", "old"); }, [&] { return writeFile(at("x"), "new text"); },
        [&](const std::string &message) {
          EXPECT_EQ(contents(at("x")), message.empty() ? "new text" : "old");
          EXPECT_EQ(entries(), 1u);
        });
    // Room, the bytes, their way to the disk, a name and the rename: each is needed.
    EXPECT_GE(failures, 4);
  }
}

TEST_F(ToolsFailure, SeveralFilesAreReplacedInOrder) {
  const std::vector<OutputFile> files = {
      {at("a"), "new a"}, {at("b"), "new b"}, {at("c"), "new c"}};
  for (Failing what : kinds) {
    long inPart = 0;
    tryAll(
        what,
        [&] {
          put("a", "old a");
          put("b", "old b");
          fs::remove(at("c"));
        },
        [&] { return writeFiles(files); },
        [&](const std::string &message) {
          bool a = contents(at("a")) == "new a", b = contents(at("b")) == "new b";
          bool c = fs::exists(at("c"));
          EXPECT_TRUE(a || contents(at("a")) == "old a");
          EXPECT_TRUE(b || contents(at("b")) == "old b");
          EXPECT_TRUE(!c || contents(at("c")) == "new c");
          // Those in place come first.
          EXPECT_TRUE(a || !b);
          EXPECT_TRUE(b || !c);
          EXPECT_EQ(message.empty(), a && b && c) << message;
          inPart += a && !c;
          EXPECT_EQ(entries(), c ? 3u : 2u);
        });
    // Where the second or the third rename fails, and nowhere else.
    if (what == Failing::oneFileCall)
      EXPECT_EQ(inPart, 2);
  }
}

TEST_F(ToolsFailure, AFolderOfTensors) {
  const std::vector<HostTensor> tensors = {fromDoubles("q", DataType::F32, {2}, {1, 2}),
                                           fromDoubles("k", DataType::I32, {1}, {3})};
  for (Failing what : kinds) {
    long failures = tryAll(
        what, [&] { fs::remove_all(at("out")); },
        [&] { return writeTensors(at("out") + "/", tensors); },
        [&](const std::string &message) {
          for (const HostTensor &tensor : tensors) {
            std::string path = at("out/" + tensor.name + ".npy");
            EXPECT_TRUE(!message.empty() || fs::exists(path));
            if (fs::exists(path)) {
              Result<HostTensor> read = parseNpy(contents(path));
              ASSERT_TRUE(read) << read.error().message;
              EXPECT_EQ(read->data, tensor.data);
            }
          }
        });
    EXPECT_GE(failures, 6);
  }
}

TEST_F(ToolsFailure, InterruptedAndShortWritesAreNone) {
  const std::string text(1000, 't');
  for (Failing what : {Failing::interruptedCall, Failing::shortTransfers})
    for (long n = 1; n <= 3; ++n) {
      bool reached;
      EXPECT_EQ(runFailing(what, n, [&] { return writeFile(at("x"), text); }, reached), "");
      EXPECT_EQ(contents(at("x")), text);
    }
}

TEST_F(ToolsFailure, TensorsAreReadWhole) {
  const HostTensor x = fromDoubles("x", DataType::F32, {3}, {1, 2, 3});
  const HostTensor y = fromDoubles("y", DataType::F64, {1}, {4});
  ASSERT_EQ(writeTensors(at("both.safetensors"), {x, y}), "");
  ASSERT_EQ(writeTensors(at("z.npy"), {x}), "");
  // The data of y is skipped.
  auto wanted = [](std::string_view name) { return name != "y"; };
  auto read = [&]() -> std::string {
    Result<std::vector<HostTensor>> tensors =
        readTensors({at("both.safetensors"), "z=" + at("z.npy")}, wanted);
    if (!tensors)
      return tensors.error().message;
    bool isWhole = tensors->size() == 3 && (*tensors)[0].data == x.data &&
                   (*tensors)[1].data.empty() && (*tensors)[2].data == x.data;
    return isWhole ? "" : "other tensors";
  };
  for (Failing what : kinds) {
    long failures = tryAll(
        what, [] {}, read,
        [](const std::string &message) { EXPECT_NE(message, "other tensors"); });
    EXPECT_GE(failures, 10);
  }
  for (Failing what : {Failing::interruptedCall, Failing::shortTransfers})
    for (long n = 1; n <= 8; ++n) {
      bool reached;
      EXPECT_EQ(runFailing(what, n, read, reached), "");
    }
}

namespace {
/// A session on the fake driver that runs an entry and gives its results.
struct DeviceRun {
  fake_state *fake;
  std::string bytes = pack(copyManifest("copy_bytes_a3"));
  HostTensor x = fromDoubles("x", DataType::F32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});

  std::string operator()() const {
    Result<std::unique_ptr<DeviceSession>> session = DeviceSession::open();
    if (!session)
      return session.error().message;
    Result<std::unique_ptr<Program>> program = (*session)->load(bytes);
    if (!program)
      return program.error().message;
    Result<std::vector<HostTensor>> outputs = (*session)->run(**program, "", {x});
    if (!outputs)
      return outputs.error().message;
    return outputs->size() == 1 && (*outputs)[0].data == x.data ? "" : "other results";
  }
};
} // namespace

TEST_F(ToolsFailure, ARunOnTheDevice) {
  DeviceRun run{fake};
  auto nothingLeaks = [&](const std::string &message) {
    EXPECT_NE(message, "other results");
    EXPECT_EQ(fake->live_allocations, 0) << message;
    EXPECT_EQ(fake->retained, 0) << message;
    EXPECT_EQ(fake->module_loads, 0) << message;
    EXPECT_EQ(fake->pushes, fake->pops) << message;
  };
  for (Failing what : {Failing::oneAllocation, Failing::allAllocations})
    EXPECT_GE(tryAll(what, [] {}, run, nothingLeaks), 50);

  int failures = 0;
  for (int number = 1;; ++number) {
    SCOPED_TRACE("driver call " + std::to_string(number));
    int allocations = fake->live_allocations;
    fake->calls = 0;
    fake->fail_call = number;
    fake->fail_result = 700;
    std::string message = run();
    bool reached = fake->calls >= number;
    fake->fail_call = 0;
    EXPECT_NE(message, "other results");
    EXPECT_EQ(fake->pushes, fake->pops);
    // What cannot be given back stays the driver's; all else is given back.
    EXPECT_LE(fake->live_allocations - allocations, 1);
    failures += !message.empty();
    EXPECT_EQ(run(), "") << "the run after it";
    if (!reached)
      break;
  }
  EXPECT_GE(failures, 20);
}
