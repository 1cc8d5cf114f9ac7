//===- Opcodes.cpp - what instructions do ---------------------------------===//
#include "Ptx.h"
#include <algorithm>
#include <sstream>

using namespace emulator;

namespace {
using Parts = std::vector<std::string>;

bool startsWith(const std::string &text, const std::string &prefix) {
  return text.rfind(prefix, 0) == 0;
}

Parts partsOf(const std::string &opcode) {
  Parts parts;
  std::stringstream stream(opcode);
  for (std::string part; std::getline(stream, part, '.');)
    parts.push_back(part);
  return parts;
}

bool contains(const Parts &parts, const char *part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

unsigned bytesOf(const std::string &type) {
  return type.size() < 2 ? 0 : unsigned(atoi(type.c_str() + 1)) / 8;
}

/// Loads, stores and copies; false where it is none.
bool classifyMemory(Instruction &instruction, const Parts &parts) {
  const std::string &opcode = instruction.opcode;
  bool isShared = contains(parts, "shared") || contains(parts, "shared::cta") ||
                  contains(parts, "shared::cluster");
  instruction.space = isShared ? Space::shared : Space::global;
  bool isMemory = isShared || contains(parts, "global");
  if (startsWith(opcode, "ld.param")) {
    instruction.action = Action::loadParameter;
  } else if (parts[0] == "ld" && isMemory) {
    instruction.action = Action::load;
  } else if (parts[0] == "st" && isMemory) {
    instruction.action = Action::store;
  } else if (opcode == "red.relaxed.gpu.global.add.f32" ||
             opcode == "red.relaxed.gpu.global.add.v2.f32") {
    instruction.action = Action::addInMemory;
  } else if (startsWith(opcode, "cp.async.c") && isMemory) {
    instruction.action = Action::copyAsync;
  } else if (opcode == "cp.async.commit_group") {
    instruction.action = Action::commitCopies;
  } else if (opcode == "cp.async.wait_group") {
    instruction.action = Action::waitForCopies;
  } else if (opcode == "cp.async.wait_all") {
    instruction.action = Action::waitForCopies;
    instruction.operands = {{Operand()}};
  } else if (opcode == "prefetch.global.L2" || opcode == "prefetch.L2") {
    instruction.action = Action::prefetch;
  } else if (opcode == "fence.proxy.async" || opcode == "fence.proxy.async.shared::cta") {
    instruction.action = Action::fenceProxy;
  } else {
    return false;
  }
  instruction.hasResult =
      instruction.action == Action::load || instruction.action == Action::loadParameter;
  return true;
}

/// Copies of a thread whose parts are `cp.async.bulk.…`; false where it is none.
bool classifyBulkCopy(Instruction &instruction, const Parts &parts) {
  if (!startsWith(instruction.opcode, "cp.async.bulk."))
    return false;
  for (const char *other : {"im2col", "reduce"})
    if (contains(parts, other))
      return false;
  auto isMemory = [](const std::string &part) {
    return part == "global" || part == "shared::cta" || part == "shared::cluster";
  };
  auto to = std::find_if(parts.begin(), parts.end(), isMemory);
  if (parts[3] == "commit_group")
    instruction.action = Action::commitBulkStores;
  else if (parts[3] == "wait_group")
    instruction.action = Action::waitForBulkStores;
  else if (parts[3] == "prefetch")
    instruction.action = Action::nothing;
  else if (to != parts.end() && *to == "global" && contains(parts, "bulk_group"))
    instruction.action = Action::bulkStore;
  else if (to != parts.end() && *to != "global" && contains(parts, "mbarrier::complete_tx::bytes"))
    instruction.action = Action::bulkLoad;
  else
    return false;
  return true;
}

bool classifyMbarrier(Instruction &instruction, const Parts &parts) {
  const std::string &opcode = instruction.opcode;
  if (startsWith(opcode, "cp.async.mbarrier.arrive.")) {
    instruction.action = Action::arriveAfterCopies;
  } else if (startsWith(opcode, "fence.mbarrier_init.")) {
    instruction.action = Action::fenceMbarriers;
  } else if (parts[0] == "mbarrier" && parts.size() > 2) {
    instruction.hasResult = true;
    if (parts[1] == "arrive") {
      instruction.action = Action::arriveAtMbarrier;
    } else if (parts[1] == "try_wait" || parts[1] == "test_wait") {
      instruction.action = Action::waitAtMbarrier;
    } else if (parts[1] == "init" || parts[1] == "inval" || parts[1] == "expect_tx") {
      instruction.action = Action::prepareMbarrier;
      instruction.hasResult = false;
    } else {
      return false;
    }
  } else {
    return false;
  }
  return true;
}

/// What the blocks of a cluster do together; false where it is none of that.
bool classifyCluster(Instruction &instruction, const Parts &parts) {
  const std::string &opcode = instruction.opcode;
  if (opcode == "mapa.shared::cluster.u32" || opcode == "mapa.shared::cluster.u64") {
    instruction.action = Action::mapAddress;
    instruction.hasResult = true;
  } else if (startsWith(opcode, "barrier.cluster.arrive") && !contains(parts, "relaxed")) {
    instruction.action = Action::arriveAtClusterBarrier;
  } else if (startsWith(opcode, "barrier.cluster.wait")) {
    instruction.action = Action::waitAtClusterBarrier;
  } else {
    return false;
  }
  return true;
}

/// `bar`, `bar.cta` and `barrier`, `barrier.cta` say the same.
bool classifyBarrier(Instruction &instruction, const Parts &parts) {
  if (instruction.opcode == "bar.warp.sync") {
    instruction.action = Action::warpBarrier;
    return true;
  }
  // At a reduction a warp waits, and learns whether a condition is true of all threads.
  bool reduces = contains(parts, "red");
  bool waits = contains(parts, "sync") || reduces;
  if ((parts[0] != "bar" && parts[0] != "barrier") || contains(parts, "cluster") ||
      waits == contains(parts, "arrive") || (reduces && !contains(parts, "and")))
    return false;
  instruction.hasResult = reduces;
  instruction.action = waits ? Action::barrier : Action::arriveAtBarrier;
  return true;
}

/// What a warp's lanes do together.
bool classifyCollective(Instruction &instruction, const Parts &parts) {
  const std::string &opcode = instruction.opcode;
  instruction.isTransposed = contains(parts, "trans");
  instruction.hasResult = true;
  if (opcode == "elect.sync") {
    instruction.action = Action::elect;
  } else if (startsWith(opcode, "shfl.sync.")) {
    instruction.action = Action::shuffle;
    instruction.mode = parts[2] == "up"     ? ShuffleMode::up
                       : parts[2] == "down" ? ShuffleMode::down
                       : parts[2] == "bfly" ? ShuffleMode::butterfly
                                            : ShuffleMode::index;
  } else if (startsWith(opcode, "ldmatrix.sync.aligned.m8n8.x") && parts.back() == "b16") {
    instruction.action = Action::loadMatrices;
  } else if (startsWith(opcode, "stmatrix.sync.aligned.m8n8.x") && parts.back() == "b16") {
    instruction.action = Action::storeMatrices;
    instruction.hasResult = false;
  } else if (opcode == "movmatrix.sync.aligned.m8n8.trans.b16") {
    instruction.action = Action::transposeMatrix;
  } else if (opcode == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" ||
             opcode == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" ||
             opcode == "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") {
    instruction.action = Action::multiplyMatrices;
    instruction.isHalf = contains(parts, "f16");
    instruction.isTf32 = contains(parts, "tf32");
  } else {
    return false;
  }
  return true;
}

/// `wgmma.mma_async d, a, b, scale-d, scale-a, scale-b, trans-a, trans-b`, where A in
/// registers has no trans-a, and tf32 neither.
void checkProduct(const Instruction &instruction) {
  const auto &operands = instruction.operands;
  bool fromRegisters = operands.size() > 1 && operands[1].size() == 4;
  unsigned transpositions = instruction.isTf32 ? 0 : fromRegisters ? 1 : 2;
  if (operands.size() != 6 + transpositions || (!fromRegisters && operands[1].size() != 1) ||
      operands[0].size() * 2 != instruction.columns)
    throw Fault("the operands of a wgmma are not as many as its shape says");
  for (unsigned i = 4; i < operands.size(); ++i) {
    auto number = int64_t(operands[i][0].number);
    bool isSign = i < 6 && (number == 1 || number == -1);
    bool isFlag = i >= 6 && (number == 0 || number == 1);
    if (operands[i][0].kind != Operand::Kind::number || (!isSign && !isFlag))
      throw Fault("a wgmma's signs are 1 or -1 and its transpositions 0 or 1, as numbers");
  }
}

/// What a warpgroup's warps do together.
bool classifyGroup(Instruction &instruction, const Parts &parts) {
  const std::string &opcode = instruction.opcode;
  if (opcode == "wgmma.fence.sync.aligned") {
    instruction.action = Action::groupFence;
  } else if (opcode == "wgmma.commit_group.sync.aligned") {
    instruction.action = Action::groupCommit;
  } else if (opcode == "wgmma.wait_group.sync.aligned") {
    instruction.action = Action::groupWait;
  } else if (startsWith(opcode, "wgmma.mma_async.sync.aligned.m64n") && parts.size() == 8 &&
             parts[5] == "f32" && parts[6] == parts[7] &&
             (parts[6] == "bf16" || parts[6] == "f16" || parts[6] == "tf32")) {
    instruction.action = Action::groupMultiply;
    instruction.isHalf = parts[6] == "f16";
    instruction.isTf32 = parts[6] == "tf32";
    instruction.columns = unsigned(std::stoul(parts[4].substr(4)));
    std::string depth = instruction.isTf32 ? "k8" : "k16";
    if (parts[4] != "m64n" + std::to_string(instruction.columns) + depth ||
        instruction.columns % 8 || !instruction.columns || instruction.columns > 256)
      throw Fault("a wgmma has no shape " + parts[4]);
    checkProduct(instruction);
  } else if (startsWith(opcode, "setmaxnreg.") && parts[2] == "sync") {
    instruction.action = Action::setRegisters;
    uint64_t count = instruction.operands[0][0].number;
    if (count % 8 || count < 24 || count > 256)
      throw Fault("setmaxnreg takes multiples of 8 from 24 to 256");
  } else {
    return false;
  }
  return true;
}
} // namespace

void emulator::classify(Instruction &instruction) {
  const std::string &opcode = instruction.opcode;
  Parts parts = instruction.parts = partsOf(opcode);
  instruction.bytes = bytesOf(parts.back());
  instruction.isSigned = parts.back()[0] == 's';
  if (opcode == "ret" || opcode == "exit") {
    instruction.action = Action::leave;
  } else if (parts[0] == "prefetch" || parts[0] == "nanosleep") {
    instruction.action = Action::nothing;
  } else if (parts[0] == "mov" || parts[0] == "cvta") {
    instruction.action = Action::move;
    instruction.hasResult = true;
  } else if (classifyBulkCopy(instruction, parts) || classifyMbarrier(instruction, parts) ||
             classifyCluster(instruction, parts) || classifyMemory(instruction, parts) ||
             classifyBarrier(instruction, parts) || classifyGroup(instruction, parts) ||
             classifyCollective(instruction, parts)) {
    return;
  } else if ((instruction.function = findFunction(opcode))) {
    instruction.hasResult = true;
  } else {
    throw Fault("'" + opcode + "' is not emulated");
  }
}
