//===- Ptx.h - a module of PTX, ready to be executed --------------*- C++ -*-===//
//
// As much of PTX as LLVM writes for kernels without calls, local memory or
// textures, with inline assembly. Every register is a number of 64 bits, of which an
// instruction reads as many as its type has.
//
//===----------------------------------------------------------------------===//
#ifndef EJK_TEST_EMULATOR_PTX_H
#define EJK_TEST_EMULATOR_PTX_H

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace emulator {

/// What is wrong with the program: in its text, or in what it does.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Special { threadX, blockX, threadsX, blocksX, lane, rankInCluster, blocksInCluster };

struct Operand {
  enum class Kind { reg, number, special, parameter } kind = Kind::number;
  unsigned index = 0;  // of the register or the parameter; Special
  uint64_t number = 0; // the number itself, or what is added in an address
};

/// The operations that are more than arithmetic on one thread's registers.
enum class Action {
  // Each lane by itself.
  compute, // by `function`
  move,    // between registers, and to and from parts of one
  mapAddress,
  load,
  store,
  loadParameter,
  addInMemory,
  copyAsync,
  prefetch,
  commitCopies,
  waitForCopies,
  fenceProxy,
  prepareMbarrier, // init, inval, expect_tx
  arriveAtMbarrier,
  arriveAfterCopies,
  fenceMbarriers,
  bulkLoad,
  bulkStore,
  commitBulkStores,
  waitForBulkStores,
  nothing,
  waitAtMbarrier,
  arriveAtClusterBarrier, // or all lanes together, as the instruction says
  waitAtClusterBarrier,
  branch,
  leave,
  // The lanes of a warp together.
  shuffle,
  elect,
  loadMatrices,
  storeMatrices,
  transposeMatrix,
  multiplyMatrices,
  warpBarrier,
  barrier,
  arriveAtBarrier,
  // The four warps of a warpgroup together.
  setRegisters,
  groupMultiply,
  groupFence,
  groupCommit,
  groupWait
};

enum class Space { global, shared };
enum class ShuffleMode { up, down, butterfly, index };

/// Arithmetic on the bits of up to three operands.
using Function = uint64_t (*)(uint64_t, uint64_t, uint64_t);

struct Instruction {
  Action action = Action::compute;
  Function function = nullptr;
  /// What it says in braces is one operand of several.
  std::vector<std::vector<Operand>> operands;
  bool hasResult = false; // the first operand
  int predicate = -1;     // the register that decides
  bool negated = false;
  unsigned bytes = 0; // of one element that a load, store or move moves
  Space space = Space::global;
  ShuffleMode mode = ShuffleMode::index;
  bool isTransposed = false, isHalf = false, isTf32 = false;
  bool isSigned = false; // what a load fills the rest of a wider register with
  unsigned columns = 0;  // of a warpgroup's product
  unsigned target = 0;   // of a branch
  std::string opcode, text;
  std::vector<std::string> parts; // of the opcode, between its dots
  unsigned line = 0;

  bool says(const char *part) const {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  }
};

struct Kernel {
  std::string name;
  std::vector<std::string> parameterNames;
  std::vector<unsigned> parameterBytes;
  unsigned numRegisters = 0;
  unsigned threadRegisters = 0; // of the machine, at the start; 0 where nothing says so
  unsigned staticShared = 0;    // bytes; dynamic shared memory follows them
  unsigned clusterBlocks = 1;   // that run together and reach each other's shared memory
  std::vector<Instruction> code;
  std::vector<std::string> registerNames;
};

/// What a launch gives as one parameter.
struct alignas(64) Argument {
  unsigned char bytes[128];
};

/// Where shared memory's window starts: not at 0, so that a null address faults.
constexpr uint64_t kSharedBase = 1024;
/// In the cluster's window each block has this many bytes, in the order of their ranks, from this
/// address on. An address below it lies in the window of the block that uses it.
constexpr uint64_t kClusterStride = 1 << 24;

/// Parses a module; throws Fault.
std::map<std::string, Kernel> parseModule(const std::string &text);

/// Says what an instruction does, from its opcode and its operands; throws Fault where
/// that is not emulated.
void classify(Instruction &instruction);

/// The arithmetic of an opcode; null where it is none that is known.
Function findFunction(const std::string &opcode);

} // namespace emulator

#endif // EJK_TEST_EMULATOR_PTX_H
