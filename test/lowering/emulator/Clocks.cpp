//===- Clocks.cpp - what happened before what, in one cluster -------------===//
#include "Clocks.h"
#include <algorithm>
#include <functional>
#include <map>

using namespace emulator;

//===----------------------------------------------------------------------===//
// Knowledge
//===----------------------------------------------------------------------===//

static void raise(std::vector<unsigned> &to, const std::vector<unsigned> &from) {
  if (to.size() < from.size())
    to.resize(from.size(), 0);
  for (size_t i = 0; i < from.size(); ++i)
    to[i] = std::max(to[i], from[i]);
}

static void lower(std::vector<unsigned> &to, const std::vector<unsigned> &from) {
  to.resize(std::min(to.size(), from.size()));
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = std::min(to[i], from[i]);
}

static bool coversAll(const std::vector<unsigned> &a, const std::vector<unsigned> &b) {
  return a.size() >= b.size() &&
         std::equal(b.begin(), b.end(), a.begin(), std::less_equal<unsigned>());
}

void Knowledge::add(unsigned actor, unsigned time) {
  if (seen.size() <= actor)
    seen.resize(actor + 1, 0);
  seen[actor] = std::max(seen[actor], time);
}

void Knowledge::join(const Knowledge &other) {
  raise(seen, other.seen);
  raise(fenced, other.fenced);
}

void Knowledge::meet(const Knowledge &other) {
  lower(seen, other.seen);
  lower(fenced, other.fenced);
}

bool Knowledge::covers(const Knowledge &other) const {
  return coversAll(seen, other.seen) && coversAll(fenced, other.fenced);
}

//===----------------------------------------------------------------------===//
// Clocks
//===----------------------------------------------------------------------===//

void Clocks::reset(unsigned blocks, unsigned threadsOfEach, unsigned first) {
  unsigned threads = blocks * threadsOfEach;
  threadsPerBlock = threadsOfEach;
  firstBlock = first;
  auto nothing = std::make_shared<Knowledge>();
  nothing->seen.assign(threads, 0);
  nothing->fenced.assign(threads, 0);
  known.assign(threads, nothing);
  fencedAt.assign(threads, 0);
  times.assign(threads / lanes, 1);
  names.clear();
  before = learned = after = nullptr;
}

unsigned Clocks::addActors(const std::string &name, unsigned count) {
  // All in one row of 32.
  while (names.size() % lanes + count > lanes)
    names.emplace_back();
  names.resize(names.size() + count, name);
  return unsigned(known.size() + names.size() - count);
}

std::string Clocks::nameOf(unsigned actor) const {
  return isThread(actor) ? "thread " + std::to_string(actor % threadsPerBlock) + blockOf(actor)
                         : names[actor - known.size()];
}

std::string Clocks::blockOf(unsigned thread) const {
  return known.size() == threadsPerBlock
             ? ""
             : " of block " + std::to_string(firstBlock + thread / threadsPerBlock);
}

Knowledge Clocks::knowledgeOf(unsigned thread) const {
  Knowledge knowledge = *known[thread];
  knowledge.seen[thread] = timeOf(thread);
  knowledge.fenced[thread] = fencedAt[thread];
  return knowledge;
}

void Clocks::fence(unsigned thread) { fencedAt[thread] = times[thread / lanes]++; }

void Clocks::publish(unsigned first, unsigned count, Knowledge &to) {
  const Knowledge *last = nullptr;
  for (unsigned thread = first; thread < first + count; ++thread) {
    if (known[thread].get() != last)
      to.join(*known[thread]);
    last = known[thread].get();
  }
  for (unsigned thread = first; thread < first + count; ++thread) {
    to.seen[thread] = timeOf(thread);
    to.fenced[thread] = fencedAt[thread];
  }
  for (unsigned warp = first / lanes; warp <= (first + count - 1) / lanes; ++warp)
    ++times[warp];
}

void Clocks::learn(unsigned first, unsigned count, const SharedKnowledge &what) {
  for (unsigned thread = first; thread < first + count; ++thread) {
    if (known[thread] != before || what != learned) {
      before = known[thread];
      learned = after = what;
      if (!what->covers(*before)) {
        auto both = std::make_shared<Knowledge>(*before);
        both->join(*what);
        after = both;
      }
    }
    known[thread] = after;
  }
}

Knowledge Clocks::commonTo(unsigned first, unsigned count) const {
  std::map<const Knowledge *, unsigned> holders;
  for (unsigned thread = first; thread < first + count; ++thread)
    ++holders[known[thread].get()];
  Knowledge common = *known[first];
  for (auto &[knowledge, number] : holders)
    common.meet(*knowledge);
  // What a thread did itself it need not be told.
  for (unsigned thread = first; thread < first + count; ++thread) {
    const Knowledge *own = known[thread].get();
    if (holders[own] > 1 || holders.size() == 1)
      continue;
    common.seen[thread] = common.fenced[thread] = ~0u;
    for (auto &[knowledge, number] : holders)
      if (knowledge != own) {
        common.seen[thread] = std::min(common.seen[thread], knowledge->seen[thread]);
        common.fenced[thread] = std::min(common.fenced[thread], knowledge->fenced[thread]);
      }
  }
  return common;
}

void Clocks::passWarpBarrier(unsigned warp) {
  auto all = std::make_shared<Knowledge>();
  publish(warp * lanes, lanes, *all);
  learn(warp * lanes, lanes, all);
}
