//===- RunFunction.cpp - ejk-run as a function of the wheel's library -----===//
#include "RunFunction.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int ejk_run(int argc, char **argv) {
  // The library's objects are not destroyed at exit, where others flush this one.
  ::on_exit([](int, void *) { llvm::outs().flush(); }, nullptr);
  return ejkRun(argc, argv);
}
