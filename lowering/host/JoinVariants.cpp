//===- JoinVariants.cpp - the entries of a manifest and their variants ----===//
#include "lowering/host/JoinVariants.h"
#include "lowering/host/StridedInputs.h"
#include "ejk/package_format.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace ejk;
namespace json = llvm::json;

/// Whether the output may take the input's place: each kernel of `variant` that reads the input
/// writes the output, too, each of its blocks its part of a state, which no other kernel takes; or
/// all that read run before those that write.
static bool replacesInPlace(const json::Object &variant, int64_t input, int64_t output) {
  unsigned readers = 0, both = 0;
  bool written = false, readLater = false;
  for (const json::Value &launch : *variant.getArray("launches")) {
    bool reads = false, writes = false;
    for (const json::Value &value : *launch.getAsObject()->getArray("args")) {
      const json::Object *argument = value.getAsObject();
      if (const json::Object *map = argument->getObject("tensor_map"))
        argument = map;
      reads |= argument->getInteger("input") == input;
      writes |= argument->getInteger("output") == output;
    }
    readers += reads;
    both += reads && writes;
    readLater |= reads && written;
    written |= writes;
  }
  return (readers > 0 && both == readers) || (both == 0 && !readLater);
}

/// What may take an input's place must be so in each variant. One of steps says so itself; for a
/// block program its kernels do.
static void mergeAliases(json::Object &known, json::Object &other) {
  json::Array &outputs = *known.getArray("outputs"), &others = *other.getArray("outputs");
  for (size_t o = 0; o < outputs.size(); ++o) {
    json::Object &mine = *outputs[o].getAsObject(), &theirs = *others[o].getAsObject();
    auto alias = mine.getInteger("may_alias"), otherAlias = theirs.getInteger("may_alias");
    if (alias == otherAlias)
      continue;
    const json::Object &silent = alias ? other : known;
    int64_t input = alias ? *alias : *otherAlias;
    bool everywhere = llvm::all_of(*silent.getArray("variants"), [&](const json::Value &variant) {
      return replacesInPlace(*variant.getAsObject(), input, int64_t(o));
    });
    for (json::Object *output : {&mine, &theirs}) {
      output->erase("may_alias");
      if (everywhere)
        (*output)["may_alias"] = input;
    }
  }
}

void ejk::addEntry(json::Array &entries, json::Object entry, bool isAlternative) {
  for (json::Value &value : entries) {
    json::Object &known = *value.getAsObject();
    if (known["name"] != entry["name"])
      continue;
    mergeAliases(known, entry);
    keepRowStridesOf(*known.getArray("inputs"), *entry.getArray("inputs"));
    keepRowStridesOf(*entry.getArray("inputs"), *known.getArray("inputs"));
    json::Array variants = std::move(*known.getArray("variants"));
    variants.push_back(std::move((*entry.getArray("variants"))[0]));
    // What callers see of an entry is the function's own description.
    if (!isAlternative)
      known = std::move(entry);
    known["variants"] = std::move(variants);
    return;
  }
  entries.push_back(std::move(entry));
}

void ejk::unwrapSingle(json::Object &entry) {
  json::Array &variants = *entry.getArray("variants");
  json::Object &only = *variants[0].getAsObject();
  if (variants.size() > 1 || only.get("schedule"))
    return;
  json::Object variant = std::move(only);
  entry.erase("variants");
  for (auto &[key, value] : variant)
    entry[key] = std::move(value);
}

static json::Object *findEntry(json::Array &entries, StringRef key, StringRef value) {
  for (json::Value &entry : entries)
    if (entry.getAsObject()->getString(key) == value)
      return entry.getAsObject();
  return nullptr;
}

/// The most shared memory that a block of the variant's kernels has, where one of these has more
/// than every device; else 0.
static int64_t sharedBytesOf(const json::Object &variant) {
  int64_t most = 0;
  for (const json::Value &launch : *variant.getArray("launches"))
    most = std::max(most, *launch.getAsObject()->getInteger("shared_bytes"));
  return most > EJK_LEAST_SHARED_BYTES ? most : 0;
}

/// Whether a kernel of the variant reads input `first` or a later one.
static bool readsInputsFrom(const json::Object &variant, int64_t first) {
  for (const json::Value &launch : *variant.getArray("launches"))
    for (const json::Value &value : *launch.getAsObject()->getArray("args")) {
      const json::Object *argument = value.getAsObject();
      if (const json::Object *map = argument->getObject("tensor_map"))
        argument = map;
      if (auto input = argument->getInteger("input"); input && *input >= first)
        return true;
    }
  return false;
}

/// f_fwd saves states for f_vjp in chunks alone. By steps it is f, and f_vjp reads none; in chunks
/// f_vjp needs a device on which f_fwd runs in chunks, too. Where chunks are the only schedule there
/// is no other variant to take, so such a device has no room for f_fwd either, which says so.
static void completeForward(json::Array &entries, json::Object &forward, bool isPortable) {
  StringRef name = *forward.getString("fwd_of");
  json::Object *own = findEntry(entries, "name", name);
  json::Object *derivative = findEntry(entries, "vjp_of", name);
  auto isBySteps = [](const json::Value &variant) {
    return variant.getAsObject()->getString("schedule") == "step";
  };
  // By steps f_fwd gives what f does not, where f_vjp takes what the steps read.
  auto isNotInChunks = [&](const json::Value &variant) {
    return isBySteps(variant) || !variant.getAsObject()->get("schedule");
  };
  // Where a file holds f_fwd alone, no f_vjp reads what it saves.
  if (!own || !derivative || llvm::none_of(*own->getArray("variants"), isBySteps) ||
      llvm::any_of(*forward.getArray("variants"), isNotInChunks))
    return;
  int64_t sharedBytes = 0;
  for (const json::Value &variant : *forward.getArray("variants"))
    if (isPortable)
      sharedBytes = std::max(sharedBytes, sharedBytesOf(*variant.getAsObject()));
  size_t numSaved = forward.getArray("outputs")->size() - own->getArray("outputs")->size();
  int64_t firstSaved = int64_t(derivative->getArray("inputs")->size() - numSaved);
  json::Array &variants = *derivative->getArray("variants");
  for (json::Value &value : variants) {
    json::Object &variant = *value.getAsObject();
    // With chunks alone, the last one is what a launch takes where no other can be had.
    bool isLast = &value == &variants.back();
    if (!sharedBytes || isLast || !variant.get("schedule") || !readsInputsFrom(variant, firstSaved))
      continue;
    json::Value room = json::Array{">=", "device.shared_bytes", sharedBytes};
    json::Value *needs = variant.get("needs");
    variant["needs"] = needs ? json::Value(json::Array{"and", *needs, room}) : room;
  }
  keepRowStridesOf(*forward.getArray("inputs"), *own->getArray("inputs"));
  for (const json::Value &variant : *own->getArray("variants"))
    if (isBySteps(variant))
      forward.getArray("variants")->push_back(variant);
}

void ejk::completeForwards(json::Array &entries, bool isPortable) {
  for (json::Value &entry : entries)
    if (entry.getAsObject()->get("fwd_of"))
      completeForward(entries, *entry.getAsObject(), isPortable);
}
