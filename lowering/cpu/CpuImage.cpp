//===- CpuImage.cpp - machine code as one flat block ----------------------===//
//
// A linker for objects of one compilation: sections of code and constants are put one behind
// the other, code first. All references are relative to the place they stand at, so they are
// known before the image has an address.
//
//===----------------------------------------------------------------------===//
#include "lowering/cpu/CpuImage.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ejk;
using llvm::object::ELF64LEObjectFile;
using llvm::object::ELFSectionRef;
using llvm::object::RelocationRef;
using llvm::object::SectionRef;
using llvm::object::SymbolRef;
namespace ELF = llvm::ELF;
using llvm::support::endian::read32le;
using llvm::support::endian::write32le;

namespace {
class ImageBuilder {
public:
  ImageBuilder(Location loc, const ELF64LEObjectFile &object)
      : loc(loc), object(object), machine(object.getELFFile().getHeader().e_machine) {}

  FailureOr<CpuImage> run() {
    for (bool code : {true, false})
      for (SectionRef section : object.sections())
        if (failed(place(section, code)))
          return failure();
    for (SectionRef section : object.sections())
      if (failed(relocate(section)))
        return failure();
    for (SymbolRef symbol : object.symbols())
      if (failed(note(symbol)))
        return failure();
    // Functions that compute nothing have no code, and an image in a package is not empty.
    if (image.bytes.empty())
      image.bytes.push_back(0);
    return std::move(image);
  }

private:
  InFlightDiagnostic fail() { return emitError(loc) << "a CPU image cannot be made: "; }

  template <typename T> FailureOr<T> take(llvm::Expected<T> value) {
    if (value)
      return std::move(*value);
    fail() << llvm::toString(value.takeError());
    return failure();
  }

  static bool isLoaded(SectionRef section) {
    return ELFSectionRef(section).getFlags() & ELF::SHF_ALLOC;
  }

  LogicalResult place(SectionRef section, bool code) {
    if (!isLoaded(section) || section.isText() != code || section.getSize() == 0)
      return success();
    FailureOr<StringRef> name = take(section.getName());
    if (failed(name))
      return failure();
    // What only unwinding reads.
    if (*name == ".eh_frame" || name->starts_with(".note"))
      return success();
    if (ELFSectionRef(section).getFlags() & ELF::SHF_WRITE || section.isBSS())
      return fail() << "section '" << *name << "' can be written", failure();
    FailureOr<StringRef> contents = take(section.getContents());
    if (failed(contents))
      return failure();
    image.bytes.resize(llvm::alignTo(image.bytes.size(), section.getAlignment()), '\0');
    offsets[section.getIndex()] = image.bytes.size();
    image.bytes += *contents;
    return success();
  }

  /// Where a symbol lies in the image.
  FailureOr<uint64_t> offsetOf(SymbolRef symbol) {
    FailureOr<StringRef> name = take(symbol.getName());
    FailureOr<llvm::object::section_iterator> section = take(symbol.getSection());
    FailureOr<uint64_t> value = take(symbol.getValue());
    if (failed(name) || failed(section) || failed(value))
      return failure();
    auto found = *section == object.section_end() ? offsets.end()
                                                  : offsets.find((*section)->getIndex());
    if (found == offsets.end())
      return fail() << "it needs '" << *name << "' from elsewhere", failure();
    return found->second + *value;
  }

  LogicalResult note(SymbolRef symbol) {
    FailureOr<uint32_t> flags = take(symbol.getFlags());
    FailureOr<SymbolRef::Type> type = take(symbol.getType());
    if (failed(flags) || failed(type))
      return failure();
    if (*type != SymbolRef::ST_Function || !(*flags & SymbolRef::SF_Global))
      return success();
    FailureOr<StringRef> name = take(symbol.getName());
    FailureOr<uint64_t> offset = offsetOf(symbol);
    if (failed(name) || failed(offset))
      return failure();
    image.kernels.push_back({name->str(), *offset});
    return success();
  }

  LogicalResult relocate(SectionRef section) {
    FailureOr<llvm::object::section_iterator> target = take(section.getRelocatedSection());
    if (failed(target))
      return failure();
    if (*target == object.section_end() || !offsets.count((*target)->getIndex()))
      return success();
    for (RelocationRef relocation : section.relocations()) {
      FailureOr<uint64_t> symbol = offsetOf(*relocation.getSymbol());
      FailureOr<int64_t> addend =
          take(llvm::object::ELFRelocationRef(relocation).getAddend());
      if (failed(symbol) || failed(addend))
        return failure();
      uint64_t place = offsets[(*target)->getIndex()] + relocation.getOffset();
      if (failed(apply(relocation.getType(), place, *symbol + *addend)))
        return failure();
    }
    return success();
  }

  /// Writes what a reference at `place` to `to`, both in bytes from the image's start, needs.
  LogicalResult apply(uint64_t type, uint64_t place, uint64_t to) {
    char *bytes = image.bytes.data() + place;
    int64_t distance = int64_t(to) - int64_t(place);
    auto inRange = [&](unsigned bits) {
      return llvm::isIntN(bits, distance) ? success()
                                          : (fail() << "a reference reaches too far", failure());
    };
    if (machine == ELF::EM_X86_64) {
      if (type != ELF::R_X86_64_PC32 && type != ELF::R_X86_64_PLT32)
        return unknown(type);
      write32le(bytes, uint32_t(distance));
      return inRange(32);
    }
    uint32_t word = read32le(bytes);
    // The low bits of an address within its page, scaled by the size of what is loaded.
    auto low = [&](unsigned scale) {
      write32le(bytes, (word & ~(0xfffu << 10)) | uint32_t((to & 0xfff) >> scale) << 10);
      return success();
    };
    switch (type) {
    case ELF::R_AARCH64_PREL32:
      write32le(bytes, uint32_t(distance));
      return inRange(32);
    case ELF::R_AARCH64_CALL26:
    case ELF::R_AARCH64_JUMP26:
      write32le(bytes, (word & ~0x3ffffffu) | (uint32_t(distance >> 2) & 0x3ffffffu));
      return inRange(28);
    case ELF::R_AARCH64_ADR_PREL_LO21:
      write32le(bytes, withImmediate(word, uint64_t(distance)));
      return inRange(21);
    case ELF::R_AARCH64_ADR_PREL_PG_HI21:
      distance = int64_t(to / kCpuImageAlignment) - int64_t(place / kCpuImageAlignment);
      write32le(bytes, withImmediate(word, uint64_t(distance)));
      return inRange(21);
    case ELF::R_AARCH64_ADD_ABS_LO12_NC:
    case ELF::R_AARCH64_LDST8_ABS_LO12_NC:
      return low(0);
    case ELF::R_AARCH64_LDST16_ABS_LO12_NC:
      return low(1);
    case ELF::R_AARCH64_LDST32_ABS_LO12_NC:
      return low(2);
    case ELF::R_AARCH64_LDST64_ABS_LO12_NC:
      return low(3);
    case ELF::R_AARCH64_LDST128_ABS_LO12_NC:
      return low(4);
    default:
      return unknown(type);
    }
  }

  /// ADR's and ADRP's immediate: two low bits, then nineteen.
  static uint32_t withImmediate(uint32_t word, uint64_t value) {
    return (word & 0x9f00001fu) | uint32_t(value & 3) << 29 | uint32_t((value >> 2) & 0x7ffff) << 5;
  }

  LogicalResult unknown(uint64_t type) {
    return fail() << "it has a relocation of type "
                  << llvm::object::getELFRelocationTypeName(machine, uint32_t(type)),
           failure();
  }

  Location loc;
  const ELF64LEObjectFile &object;
  const uint16_t machine;
  CpuImage image;
  llvm::DenseMap<uint64_t, uint64_t> offsets; // of sections
};
} // namespace

FailureOr<CpuImage> ejk::layOutCpuImage(Location loc, StringRef object) {
  auto file = ELF64LEObjectFile::create(llvm::MemoryBufferRef(object, "object"));
  if (!file)
    return emitError(loc) << "a CPU image cannot be made: "
                          << llvm::toString(file.takeError()),
           failure();
  return ImageBuilder(loc, *file).run();
}
