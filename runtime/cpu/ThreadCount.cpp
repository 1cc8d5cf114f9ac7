//===- ThreadCount.cpp - how many threads a process may use ---------------===//

#include "ThreadCount.h"

#include "package/Names.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <sched.h>

using namespace ejk;

static constexpr long mostThreads = 1024;

/// The number that an environment variable says; nothing where it is not set. OpenMP's variable may
/// list one for each level of nested regions, of which the first counts.
static Result<std::optional<unsigned>> threadsFrom(const char *variable, bool mayBeList) {
  const char *text = std::getenv(variable);
  if (!text || !*text)
    return std::optional<unsigned>();
  char *end = nullptr;
  long number = std::strtol(text, &end, 10);
  bool isNumber = end != text && (!*end || (mayBeList && *end == ','));
  if (!isNumber || number < 1 || number > mostThreads)
    return Error{ErrorCode::InvalidArgument, std::string(variable) + " must be a number from 1 to " +
                                                 std::to_string(mostThreads) + ", but is " +
                                                 inQuotes(text)};
  return std::optional<unsigned>(unsigned(number));
}

static void lower(std::optional<unsigned> &least, double quota, double period) {
  if (!(quota > 0 && period > 0))
    return; // "max", or -1
  double processors = quota / period;
  unsigned whole = unsigned(std::min(processors, double(mostThreads)));
  whole = std::max(1u, whole + (processors > whole));
  least = std::min(least.value_or(whole), whole);
}

static double numberIn(const std::string &path) {
  double number = 0;
  std::ifstream(path) >> number;
  return number;
}

static void readQuota(const std::string &group, bool isUnified, std::optional<unsigned> &least) {
  if (isUnified) {
    double quota = 0, period = 0;
    std::ifstream(group + "/cpu.max") >> quota >> period; // no number, where it is "max"
    lower(least, quota, period);
  } else {
    lower(least, numberIn(group + "/cpu.cfs_quota_us"), numberIn(group + "/cpu.cfs_period_us"));
  }
}

std::optional<unsigned> ejk::processorQuota(const std::string &root) {
  std::optional<unsigned> least;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "4:cpu,cpuacct:/path", or "0::/path" for version 2
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    bool isUnified = controllers == ",,";
    if (!isUnified && controllers.find(",cpu,") == std::string::npos)
      continue;
    // In a container the path may be the host's. The mount then has the container's group at its top.
    std::string mount = root + "/sys/fs/cgroup" + (isUnified ? "" : "/cpu");
    for (std::string path = line.substr(second + 1);;) {
      readQuota(mount + path, isUnified, least);
      size_t slash = path.rfind('/');
      if (path.size() <= 1 || slash == std::string::npos)
        break;
      path.resize(std::max<size_t>(slash, 1));
    }
  }
  return least;
}

Result<unsigned> ejk::wantedThreads() {
  for (bool isOpenMP : {false, true}) {
    auto given = threadsFrom(isOpenMP ? "OMP_NUM_THREADS" : "EJK_NUM_THREADS", isOpenMP);
    if (!given)
      return given.error();
    if (*given)
      return **given;
  }
  unsigned processors = std::thread::hardware_concurrency();
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0)
    processors = unsigned(CPU_COUNT(&set));
  return std::clamp(processors, 1u, processorQuota().value_or(unsigned(mostThreads)));
}
