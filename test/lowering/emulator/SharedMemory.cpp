//===- SharedMemory.cpp - a block's shared memory, watched ----------------===//
#include "SharedMemory.h"
#include <cstring>

using namespace emulator;

void SharedMemory::reset(unsigned bytes, unsigned warps) {
  data.assign(bytes, 0xff);
  cells.assign((bytes + 1) / 2, Cell());
  warpTimes.assign(warps, 0);
  now = {};
}

void SharedMemory::fault(uint64_t address, int thread, const std::string &what, int other,
                         unsigned line) const {
  std::string text = "thread " + std::to_string(thread) + " " + what + " byte " +
                     std::to_string(address - kSharedBase) + " of shared memory";
  if (other >= 0)
    text += ", after thread " + std::to_string(other);
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
    throw Fault(std::string(what) + " " + std::to_string(bytes) + " bytes at byte " +
                std::to_string(address - kSharedBase) + " of shared memory, which is misaligned");
  return &cells[(address - kSharedBase) / 2];
}

bool SharedMemory::isOver(int earlier, Time then, int thread) const {
  if (earlier == nobody || earlier == thread || then.block < now.block)
    return true;
  int warp = warpOf(thread);
  bool sameWarp = earlier >= 0 ? warpOf(earlier) == warp : earlier == severalLanes - warp;
  return sameWarp && then.warp < warpTimes[warp];
}

void SharedMemory::noteRead(Cell &cell, int thread) {
  int warp = warpOf(thread);
  bool isFirst = cell.reader == nobody || cell.read.block < now.block;
  if (!isFirst && cell.reader != thread) {
    bool sameWarp =
        cell.reader >= 0 ? warpOf(cell.reader) == warp : cell.reader == severalLanes - warp;
    cell.reader = sameWarp ? severalLanes - warp : severalWarps;
  } else {
    cell.reader = thread;
  }
  cell.read = timeOf(thread);
}

void SharedMemory::read(uint64_t address, void *to, unsigned bytes, int thread) {
  Cell *cell = cellsAt(address, bytes, "reads");
  for (unsigned i = 0; i < (bytes + 1) / 2; ++i) {
    if (cell[i].copier != nobody)
      fault(address + 2 * i, thread, "reads, while a copy brings it,", cell[i].copier);
    if (!cell[i].isSet)
      fault(address + 2 * i, thread, "reads, though nothing was written there,", nobody);
    if (!isOver(cell[i].writer, cell[i].written, thread))
      fault(address + 2 * i, thread, "reads, with no barrier since it was written,", cell[i].writer,
            cell[i].written.line);
    noteRead(cell[i], thread);
  }
  memcpy(to, &data[address - kSharedBase], bytes);
}

void SharedMemory::write(uint64_t address, const void *from, unsigned bytes, int thread) {
  Cell *cell = cellsAt(address, bytes, "writes");
  unsigned char *place = &data[address - kSharedBase];
  for (unsigned i = 0; i < (bytes + 1) / 2; ++i) {
    if (cell[i].copier != nobody)
      fault(address + 2 * i, thread, "writes, while a copy brings it,", cell[i].copier);
    bool inOrder = isOver(cell[i].writer, cell[i].written, thread);
    if (!inOrder && memcmp(place + 2 * i, static_cast<const char *>(from) + 2 * i, 2) != 0)
      fault(address + 2 * i, thread, "writes, with no barrier since it was written,",
            cell[i].writer, cell[i].written.line);
    if (!isOver(cell[i].reader, cell[i].read, thread))
      fault(address + 2 * i, thread, "writes, with no barrier since it was read,", cell[i].reader,
            cell[i].read.line);
    // Of several that write the same, the first is whom readers must await.
    if (inOrder) {
      cell[i].writer = thread;
      cell[i].written = timeOf(thread);
    }
    cell[i].isSet = true;
  }
  memcpy(place, from, bytes);
}

void SharedMemory::startCopy(uint64_t address, unsigned bytes, int thread) {
  Cell *cell = cellsAt(address, bytes, "copies");
  for (unsigned i = 0; i < bytes / 2; ++i) {
    if (cell[i].copier != nobody)
      fault(address + 2 * i, thread, "copies, while another copy brings it,", cell[i].copier);
    if (!isOver(cell[i].writer, cell[i].written, thread) ||
        !isOver(cell[i].reader, cell[i].read, thread))
      fault(address + 2 * i, thread, "copies, with no barrier since it was used,", nobody);
    cell[i].copier = thread;
  }
}

void SharedMemory::endCopy(uint64_t address, const void *from, unsigned bytes, int thread) {
  Cell *cell = cellsAt(address, bytes, "copies");
  for (unsigned i = 0; i < bytes / 2; ++i) {
    cell[i].copier = nobody;
    cell[i].writer = thread;
    cell[i].written = timeOf(thread);
    cell[i].isSet = true;
  }
  memcpy(&data[address - kSharedBase], from, bytes);
}
