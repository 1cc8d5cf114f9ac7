//===- OutputFileTest.cpp - files written whole or not at all -------------===//

#include "io/OutputFile.h"
#include "io/TensorFile.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace ejk;
namespace fs = std::filesystem;

namespace {
class Output : public ::testing::Test {
protected:
  void SetUp() override {
    folder = fs::path(::testing::TempDir()) / ("ejk_output_" + std::to_string(::getpid()));
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
  size_t entries() {
    return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  fs::path folder;
};
} // namespace

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

TEST_F(Output, ReplacesAFileAndKeepsItsMode) {
  EXPECT_EQ(writeFile(at("x"), "first"), "");
  EXPECT_EQ(::chmod(at("x").c_str(), 0640), 0);
  EXPECT_EQ(writeFile(at("x"), "second"), "");
  EXPECT_EQ(contents(at("x")), "second");
  struct stat status;
  ASSERT_EQ(::stat(at("x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Output, ALinkStaysALink) {
  fs::create_directory(at("elsewhere"));
  for (const char *target : {"elsewhere/file", "elsewhere/missing"}) {
    if (std::string(target) == "elsewhere/file")
      EXPECT_EQ(writeFile(at(target), "old"), "");
    fs::create_symlink(target, at("link"));
    EXPECT_EQ(writeFile(at("link"), "new"), "");
    EXPECT_TRUE(fs::is_symlink(at("link")));
    EXPECT_EQ(contents(at(target)), "new");
    fs::remove(at("link"));
  }
}

// Whoever made the link chose where the file would be written, and the user did not.
TEST_F(Output, ALinkInAFolderOfOutputsIsReplaced) {
  fs::create_directory(at("elsewhere"));
  ASSERT_EQ(writeFile(at("elsewhere/precious"), "old"), "");
  ASSERT_EQ(::chmod(at("elsewhere/precious").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(at("elsewhere/pipe").c_str(), 0600), 0);
  for (const char *target : {"elsewhere/precious", "elsewhere/missing", "elsewhere/pipe", "link"}) {
    fs::create_symlink(target, at("link"));
    EXPECT_EQ(writeFiles({{at("link"), "new", /*isInFolder=*/true}}), "") << target;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(at("link")))) << target;
    EXPECT_EQ(contents(at("link")), "new") << target;
    fs::remove(at("link"));
  }
  // As it is with a folder of tensors.
  fs::create_directory(at("out"));
  fs::create_symlink("../elsewhere/precious", at("out/o.npy"));
  EXPECT_EQ(writeTensors(at("out"), {fromDoubles("o", DataType::F32, {1}, {1})}), "");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(at("out/o.npy"))));
  EXPECT_EQ(contents(at("elsewhere/precious")), "old");
  EXPECT_FALSE(fs::exists(at("elsewhere/missing")));
}

TEST_F(Output, ErrorsNameThePathAndTheReason) {
  EXPECT_EQ(writeFile("/nonexistent/x", "text"),
            "cannot write '/nonexistent/x': No such file or directory");
  EXPECT_CONTAINS(writeFile(folder.string(), "text"), "': Is a directory");
  EXPECT_EQ(writeFile("/dev/full", "text"), "cannot write '/dev/full': No space left on device");
  EXPECT_EQ(writeFile("/dev/null", "text"), "");
  EXPECT_CONTAINS(writeFile("/nonexistent/\x1b[1m", ""), "'/nonexistent/\\x1b[1m'");
  EXPECT_CONTAINS(writeFile(at("x") + "/y", ""), "cannot write '");
}

// What a child process says through a pipe.
template <typename Body> static std::string fromChild(Body body) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    std::string text = body();
    (void)!::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char block[256];
  for (ssize_t got; (got = ::read(ends[0], block, sizeof(block))) > 0;)
    text.append(block, size_t(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? text : "ended by signal " + std::to_string(WTERMSIG(status));
}

// A file in a folder where others may be made, which would replace it.
TEST_F(Output, AFileThatMayNotBeWrittenStays) {
  ASSERT_EQ(writeFile(at("x"), "old"), "");
  ASSERT_EQ(::chmod(at("x").c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  std::string said = fromChild([&]() -> std::string {
    // Root may write all files, so it becomes another user.
    if (::geteuid() == 0 && ::seteuid(65534) != 0)
      return "no other user";
    return writeFile(at("x"), "new");
  });
  if (said == "no other user")
    GTEST_SKIP() << "root may become no other user here";
  EXPECT_CONTAINS(said, "': Permission denied");
  EXPECT_EQ(contents(at("x")), "old");
}

// As with a full disk: the first part can be written, the rest not.
TEST_F(Output, NoRoomLeavesTheOldFile) {
  ASSERT_EQ(writeFile(at("x"), "the old package"), "");
  std::string message = fromChild([&] {
    rlimit limit = {100000, 100000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return writeFile(at("x"), std::string(1 << 20, 'n'));
  });
  EXPECT_EQ(message, "cannot write '" + at("x") + "': File too large");
  EXPECT_EQ(contents(at("x")), "the old package");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Output, AllFilesOrNone) {
  ASSERT_EQ(writeFile(at("a"), "old a"), "");
  EXPECT_NE(writeFiles({{at("a"), "new a"}, {"/nonexistent/b", "new b"}}), "");
  EXPECT_EQ(contents(at("a")), "old a");
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(writeFiles({{at("a"), "new a"}, {at("b"), "new b"}}), "");
  EXPECT_EQ(contents(at("a")), "new a");
  EXPECT_EQ(contents(at("b")), "new b");
}

// Whoever reads sees the whole of what one of the writers wrote.
TEST_F(Output, TwoWritersAndAReader) {
  const std::string texts[] = {std::string(200000, 'a'), std::string(300000, 'b')};
  ASSERT_EQ(writeFile(at("x"), texts[0]), "");
  std::vector<std::thread> writers;
  std::atomic<int> failures{0}, writing{2};
  for (const std::string &text : texts)
    writers.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        failures += !writeFile(at("x"), text).empty();
      --writing;
    });
  int reads = 0;
  while (writing > 0 || reads == 0) {
    std::string seen = contents(at("x"));
    EXPECT_TRUE(seen == texts[0] || seen == texts[1]) << seen.size();
    ++reads;
  }
  for (std::thread &writer : writers)
    writer.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(entries(), 1u);
}

// However a process ends, the old file or the new one is there, and no part.
TEST_F(Output, AnInterruptLeavesNothingBehind) {
  const std::string old(100000, 'o'), fresh(4 << 20, 'n');
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(writeFile(at("x"), old), "");
    pid_t child = ::fork();
    if (child == 0) {
      for (;;)
        (void)writeFile(at("x"), fresh);
    }
    ::usleep(useconds_t(500 * round));
    ::kill(child, round % 2 ? SIGINT : SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::string seen = contents(at("x"));
    EXPECT_TRUE(seen == old || seen == fresh) << seen.size();
  }
  // A file has a name of its own for an instant only, between linkat and rename.
  EXPECT_LE(entries(), 3u);
}

TEST_F(Output, StandardOutputIsWrittenAsItIs) {
  // Open for appending, as with >> in a shell: it must not be replaced.
  std::string said = fromChild([&] {
    int file = ::open(at("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)!::write(file, "before\n", 7);
    ::dup2(file, STDOUT_FILENO);
    return writeFile("/dev/stdout", "package\n") + writeStandardOutput("more\n");
  });
  EXPECT_EQ(said, "");
  EXPECT_EQ(contents(at("log")), "before\npackage\nmore\n");
  said = fromChild([&] {
    ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
    return writeStandardOutput("x");
  });
  EXPECT_EQ(said, "cannot write to standard output: No space left on device");
}

TEST_F(Output, PipesAreWrittenAsTheyAre) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = contents(at("pipe")); });
  EXPECT_EQ(writeFile(at("pipe"), "through"), "");
  reader.join();
  EXPECT_EQ(read, "through");
  EXPECT_TRUE(fs::is_fifo(at("pipe")));
}

TEST_F(Output, InputsAreNotReplaced) {
  ASSERT_EQ(writeFile(at("x.safetensors"), "input"), "");
  fs::create_symlink("x.safetensors", at("link"));
  fs::create_hard_link(at("x.safetensors"), at("hard"));
  for (const char *name : {"x.safetensors", "link", "hard", "./x.safetensors"})
    EXPECT_CONTAINS(checkNoInput(at(name), {at("other"), at("x.safetensors")}),
                    "is also an input, '" + at("x.safetensors") + "'");
  EXPECT_EQ(checkNoInput(at("new"), {at("x.safetensors")}), "");
  EXPECT_EQ(checkNoInput("/dev/null", {"/dev/null"}), "");
}

TEST_F(Output, NamesOfTensorsStayInTheFolder) {
  HostTensor tensor = fromDoubles("x", DataType::F32, {1}, {1});
  fs::create_directory(at("in"));
  for (const char *name : {"../../x", "..", "/tmp/ejk_escaped", "a/b", "\x1b[2J", ""}) {
    tensor.name = name;
    std::string message = writeTensors(at("in") + "/", {tensor});
    EXPECT_CONTAINS(message, "to a file of its name: a name ");
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
  }
  EXPECT_TRUE(fs::is_empty(at("in")));
  EXPECT_EQ(entries(), 1u);
  EXPECT_FALSE(fs::exists("/tmp/ejk_escaped.npy"));
}

TEST_F(Output, TensorOutputsAreCheckedBeforehand) {
  std::vector<HostTensor> two = {fromDoubles("a", DataType::F32, {1}, {1}),
                                 fromDoubles("a", DataType::F32, {1}, {2})};
  EXPECT_CONTAINS(writeTensors(at("o.safetensors"), two), "two tensors named 'a'");
  ASSERT_EQ(writeTensors(at("npys") + "/", {two[0]}), "");
  EXPECT_CONTAINS(checkTensorOutputs(at("npys") + "/", {"b", "a"}, {at("npys/a.npy")}),
                  "is also an input");
  EXPECT_CONTAINS(checkTensorOutputs(at("npys/a.npy"), {"b"}, {at("npys/a.npy")}),
                  "is also an input");
  EXPECT_EQ(checkTensorOutputs(at("npys") + "/", {"b"}, {at("npys/a.npy")}), "");
  two[1] = fromDoubles("b", DataType::BF16, {1}, {2});
  EXPECT_CONTAINS(writeTensors(at("more") + "/", two), "bf16");
  EXPECT_FALSE(fs::exists(at("more")));
  EXPECT_CONTAINS(writeTensors("/dev/null/x/", {two[0]}),
                  "cannot create the folder '/dev/null/x/'");
}
