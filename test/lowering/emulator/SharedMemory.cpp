//===- SharedMemory.cpp - a block's shared memory, watched ----------------===//
#include "SharedMemory.h"
#include <algorithm>
#include <cstring>

using namespace emulator;

void SharedMemory::reset(unsigned bytes, const std::string &ofWhich) {
  ofBlock = ofWhich;
  data.assign(bytes, 0xff);
  cells.assign((bytes + 1) / 2, Cell());
}

std::string SharedMemory::nameOf(uint64_t address) const {
  return "byte " + std::to_string(int64_t(address - kSharedBase)) + " of shared memory" + ofBlock;
}

void SharedMemory::fault(uint64_t address, const Access &access, const std::string &what,
                         unsigned other, unsigned line) const {
  std::string text = clocks.nameOf(access.actor) + " " + what + " " + nameOf(address);
  if (other != nobody)
    text += ", after " + clocks.nameOf(other);
  if (line)
    text += ", on line " + std::to_string(line);
  throw Fault(text);
}

SharedMemory::Cell *SharedMemory::cellsAt(uint64_t address, unsigned bytes, const char *what) {
  if (address < kSharedBase || address - kSharedBase + bytes > data.size())
    throw Fault(std::string(what) + " " + std::to_string(bytes) + " bytes outside the block's " +
                std::to_string(data.size()) + " of shared memory, at byte " +
                std::to_string(int64_t(address - kSharedBase)));
  if (address % bytes)
    throw Fault(std::string(what) + " " + std::to_string(bytes) + " bytes at " + nameOf(address) +
                ", which is misaligned");
  return &cells[(address - kSharedBase) / 2];
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

bool SharedMemory::knows(const Access &access, unsigned actor, unsigned time) const {
  bool isItself = actor == access.actor && clocks.isThread(actor);
  return actor == nobody || isItself || access.known->has(actor, time);
}

bool SharedMemory::knows(const Access &access, const Readers &readers) const {
  for (unsigned l = 0; l < Clocks::lanes; ++l)
    if ((readers.lanes >> l & 1) && !knows(access, readers.row * Clocks::lanes + l, readers.time))
      return false;
  return true;
}

/// What is there to be read must be known to whoever reads it, and to its proxy.
void SharedMemory::checkRead(const Cell &cell, uint64_t address, const Access &access) const {
  if (cell.copier != nobody)
    fault(address, access, "reads, while a copy brings it,", cell.copier);
  if (!cell.isSet)
    fault(address, access, "reads, though nothing was written there,");
  if (!knows(access, cell.writer, cell.written))
    fault(address, access, "reads, with no barrier since it was written,", cell.writer, cell.line);
  if (access.isAsync && !cell.isAsync && !access.known->hasFenced(cell.writer, cell.written))
    fault(address, access, "reads what lacks fence.proxy.async since it was written,", cell.writer,
          cell.line);
}

void SharedMemory::checkNotReserved(const Cell &cell, uint64_t address,
                                    const Access &access) const {
  if (cell.isReserved)
    fault(address, access, "touches an mbarrier,");
}

void SharedMemory::checkUnread(const Cell &cell, uint64_t address, const Access &access,
                               const char *what) const {
  for (const Readers &readers : cell.readers) {
    if (knows(access, readers))
      continue;
    unsigned reader = readers.row * Clocks::lanes;
    while (!(readers.lanes >> (reader % Clocks::lanes) & 1) || knows(access, reader, readers.time))
      ++reader;
    fault(address, access,
          std::string(what) + (clocks.isThread(reader)
                                   ? ", with no barrier since it was read,"
                                   : ", with no wait and barrier since it was read,"),
          reader, readers.line);
  }
}

void SharedMemory::noteRead(Cell &cell, const Access &access) {
  unsigned row = access.actor / Clocks::lanes;
  uint32_t lanes = ((1u << access.actors) - 1) << access.actor % Clocks::lanes;
  auto &readers = cell.readers;
  for (Readers &those : readers)
    if (those.row == row && those.time == access.time) {
      those.lanes |= lanes;
      return;
    }
  // Who comes after this read comes after what it knows of.
  readers.erase(std::remove_if(readers.begin(), readers.end(),
                               [&](const Readers &those) { return knows(access, those); }),
                readers.end());
  readers.push_back({row, access.time, lanes, line});
}

//===----------------------------------------------------------------------===//
// Reads and writes
//===----------------------------------------------------------------------===//

void SharedMemory::read(uint64_t address, void *to, unsigned bytes, unsigned thread) {
  Cell *cell = cellsAt(address, bytes, "reads");
  Access access = by(thread);
  for (unsigned i = 0; i < (bytes + 1) / 2; ++i) {
    checkNotReserved(cell[i], address + 2 * i, access);
    checkRead(cell[i], address + 2 * i, access);
    noteRead(cell[i], access);
  }
  memcpy(to, &data[address - kSharedBase], bytes);
}

void SharedMemory::write(uint64_t address, const void *from, unsigned bytes, unsigned thread) {
  Cell *cell = cellsAt(address, bytes, "writes");
  Access access = by(thread);
  unsigned char *place = &data[address - kSharedBase];
  for (unsigned i = 0; i < (bytes + 1) / 2; ++i) {
    checkNotReserved(cell[i], address + 2 * i, access);
    if (cell[i].copier != nobody)
      fault(address + 2 * i, access, "writes, while a copy brings it,", cell[i].copier);
    bool inOrder = knows(access, cell[i].writer, cell[i].written);
    if (!inOrder &&
        (cell[i].isAsync || memcmp(place + 2 * i, static_cast<const char *>(from) + 2 * i, 2) != 0))
      fault(address + 2 * i, access, "writes, with no barrier since it was written,",
            cell[i].writer, cell[i].line);
    checkUnread(cell[i], address + 2 * i, access, "writes");
    // Of several that write the same, the first is whom readers must await.
    if (inOrder) {
      cell[i].writer = thread;
      cell[i].written = access.time;
      cell[i].line = line;
      cell[i].isAsync = false;
    }
    cell[i].readers.clear();
    cell[i].isSet = true;
  }
  memcpy(place, from, bytes);
}

void SharedMemory::startCopy(uint64_t address, unsigned bytes, const Access &access) {
  Cell *cell = cellsAt(address, bytes, "copies");
  for (unsigned i = 0; i < bytes / 2; ++i) {
    checkNotReserved(cell[i], address + 2 * i, access);
    if (cell[i].copier != nobody)
      fault(address + 2 * i, access, "copies, while another copy brings it,", cell[i].copier);
    if (!knows(access, cell[i].writer, cell[i].written))
      fault(address + 2 * i, access, "copies, with no barrier since it was written,",
            cell[i].writer, cell[i].line);
    if (access.isAsync && !cell[i].isAsync && cell[i].writer != nobody &&
        !access.known->hasFenced(cell[i].writer, cell[i].written))
      fault(address + 2 * i, access, "copies over what lacks fence.proxy.async since written,",
            cell[i].writer, cell[i].line);
    checkUnread(cell[i], address + 2 * i, access, "copies");
    cell[i].copier = access.actor;
  }
}

void SharedMemory::endCopy(uint64_t address, const void *from, unsigned bytes,
                           const Access &access) {
  Cell *cell = cellsAt(address, bytes, "copies");
  for (unsigned i = 0; i < bytes / 2; ++i) {
    cell[i].copier = nobody;
    cell[i].writer = access.actor;
    cell[i].written = access.time;
    cell[i].line = line;
    cell[i].isAsync = access.isAsync;
    cell[i].readers.clear();
    cell[i].isSet = true;
  }
  memcpy(&data[address - kSharedBase], from, bytes);
}

void SharedMemory::startRead(uint64_t address, unsigned bytes, const Access &access) {
  Cell *cell = cellsAt(address, bytes, "reads");
  for (unsigned i = 0; i < bytes / 2; ++i) {
    checkNotReserved(cell[i], address + 2 * i, access);
    checkRead(cell[i], address + 2 * i, access);
    noteRead(cell[i], access);
  }
}

void SharedMemory::reserve(uint64_t address, unsigned thread) {
  uint64_t zero = 0;
  write(address, &zero, 8, thread);
  for (Cell *cell = cellsAt(address, 8, "writes"), *end = cell + 4; cell != end; ++cell)
    cell->isReserved = true;
}

void SharedMemory::unreserve(uint64_t address, unsigned thread) {
  for (Cell *cell = cellsAt(address, 8, "writes"), *end = cell + 4; cell != end; ++cell)
    cell->isReserved = false;
  uint64_t zero = 0;
  write(address, &zero, 8, thread);
}

void SharedMemory::checkReserved(uint64_t address, unsigned thread) {
  Cell *cell = cellsAt(address, 8, "reads");
  Access access = by(thread);
  for (unsigned i = 0; i < 4; ++i) {
    checkRead(cell[i], address + 2 * i, access);
    noteRead(cell[i], access);
  }
}

void SharedMemory::peek(uint64_t address, void *to, unsigned bytes) const {
  memcpy(to, &data[address - kSharedBase], bytes);
}
