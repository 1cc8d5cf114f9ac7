//===- Isolation.cpp - cases in a process of their own --------------------===//
#include "Isolation.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace ejk::fuzz;

void Shared::set(char *place, size_t size, llvm::StringRef text) {
  size_t count = std::min(size - 1, text.size());
  std::memcpy(place, text.data(), count);
  place[count] = 0;
}

Shared &ejk::fuzz::makeShared() {
  void *place = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                     -1, 0);
  if (place == MAP_FAILED)
    llvm::report_fatal_error("no shared memory");
  return *new (place) Shared();
}

/// The line of `text` that says why a process died.
static std::string reasonIn(const std::string &text) {
  for (const char *word :
       {"Assertion", "ERROR: ", "runtime error", "terminate called", "LLVM ERROR", "UNREACHABLE"})
    if (size_t at = text.find(word); at != std::string::npos) {
      size_t begin = text.rfind('\n', at) + 1, end = text.find('\n', at);
      return text.substr(begin, end - begin);
    }
  return "";
}

std::string ejk::fuzz::runApart(llvm::function_ref<void()> body, uint64_t bytes) {
  FILE *errors = tmpfile();
  if (!errors)
    llvm::report_fatal_error("no temporary file");
  pid_t child = fork();
  if (child < 0)
    llvm::report_fatal_error("no process");
  if (child == 0) {
    dup2(fileno(errors), STDERR_FILENO);
    rlimit limit = {bytes, bytes}, none = {0, 0};
    if (bytes)
      setrlimit(RLIMIT_AS, &limit);
    setrlimit(RLIMIT_CORE, &none);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::string text;
  rewind(errors);
  char block[1 << 12];
  while (size_t count = fread(block, 1, sizeof(block), errors))
    text.append(block, count);
  fclose(errors);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return "";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
    return kDoesNotEnd.str();
  std::string end = WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
                                        : "exit status " + std::to_string(WEXITSTATUS(status));
  std::string reason = reasonIn(text);
  return reason.empty() ? end : end + ": " + reason;
}

unsigned ejk::fuzz::runJobs(unsigned jobs, llvm::function_ref<void(unsigned)> body) {
  std::vector<pid_t> running;
  for (unsigned job = 0; job < jobs; ++job) {
    pid_t child = fork();
    if (child < 0)
      llvm::report_fatal_error("no process");
    if (child == 0) {
      body(job);
      _exit(0);
    }
    running.push_back(child);
  }
  unsigned failed = 0;
  for (pid_t child : running) {
    int status = 0;
    waitpid(child, &status, 0);
    failed += status != 0;
  }
  return failed;
}

Duration ejk::fuzz::setTimeLimit(Duration limit) {
  constexpr int64_t second = 1000000;
  itimerval timer = {{0, 0}, {limit.count() / second, limit.count() % second}}, before;
  setitimer(ITIMER_PROF, &timer, &before);
  return Duration(before.it_value.tv_sec * second + before.it_value.tv_usec);
}
