//===- ForEachLane.h - the lanes of a mask ------------------------*- C++ -*-===//
#ifndef EJK_TEST_EMULATOR_FOREACHLANE_H
#define EJK_TEST_EMULATOR_FOREACHLANE_H

#include <cstdint>

namespace emulator {

template <typename Visit> void forEachLane(uint32_t active, Visit visit) {
  for (unsigned l = 0; l < 32; ++l)
    if (active >> l & 1)
      visit(l);
}

} // namespace emulator

#endif // EJK_TEST_EMULATOR_FOREACHLANE_H
