//===- MergeManifests.cpp - one manifest of several architectures' ---------===//
#include "lowering/driver/MergeManifests.h"
#include "lowering/host/StridedInputs.h"

using namespace ejk;
namespace json = llvm::json;

/// Gives each of the entry's variants `arch`; what the entry has itself becomes one.
/// JSON would refer to a StringRef, and the manifest lives longer than what these refer to.
static void tagVariants(json::Object &entry, llvm::StringRef arch, llvm::StringRef schedule) {
  if (!entry.get("variants")) {
    json::Object only{{"schedule", schedule.str()}};
    for (const char *key : {"workspace", "launches"}) {
      only[key] = std::move(*entry.get(key));
      entry.erase(key);
    }
    entry["variants"] = json::Array{std::move(only)};
  }
  for (json::Value &variant : *entry.getArray("variants"))
    (*variant.getAsObject())["arch"] = arch.str();
}

static json::Object *findEntry(json::Array &entries, llvm::StringRef name) {
  for (json::Value &entry : entries)
    if (entry.getAsObject()->getString("name") == name)
      return entry.getAsObject();
  return nullptr;
}

/// Of two lists of tensors, one of which may end earlier, the longer one; false where they differ
/// in more than what may be done in place.
static bool mergeTensors(json::Object &known, json::Object &other, llvm::StringRef key) {
  json::Array &left = *known.getArray(key), &right = *other.getArray(key);
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    json::Object &mine = *left[i].getAsObject(), &theirs = *right[i].getAsObject();
    // What may not be done in place on one architecture is not.
    if (mine.getInteger("may_alias") != theirs.getInteger("may_alias"))
      for (json::Object *tensor : {&mine, &theirs})
        tensor->erase("may_alias");
    if (left[i] != right[i])
      return false;
  }
  if (right.size() > left.size())
    left = right;
  return true;
}

static void appendVariants(json::Object &entry, const json::Array &variants) {
  for (const json::Value &variant : variants)
    entry.getArray("variants")->push_back(variant);
}

/// Adds what `arch` has of each function to `entries`, those of the architectures before it.
static void mergeEntries(json::Array &entries, json::Array &others, std::string &problem) {
  for (json::Value &value : others) {
    json::Object &other = *value.getAsObject();
    json::Object *known = findEntry(entries, *other.getString("name"));
    if (!known) {
      entries.push_back(value);
      continue;
    }
    json::Array &inputs = *known->getArray("inputs"), &theirs = *other.getArray("inputs");
    keepRowStridesOf(inputs, theirs);
    keepRowStridesOf(theirs, inputs);
    if (!mergeTensors(*known, other, "inputs") || !mergeTensors(*known, other, "outputs"))
      problem = ("'" + *other.getString("name") +
                 "' is called in another way on one architecture than on another")
                    .str();
    appendVariants(*known, *other.getArray("variants"));
  }
}

/// The variants of an entry for `arch`.
static json::Array variantsFor(json::Object &entry, llvm::StringRef arch) {
  json::Array found;
  for (json::Value &variant : *entry.getArray("variants"))
    if (variant.getAsObject()->getString("arch") == arch)
      found.push_back(variant);
  return found;
}

json::Object ejk::mergeManifests(std::vector<ArchitectureManifest> manifests,
                                 std::string &problem) {
  json::Object result = std::move(manifests.front().manifest);
  json::Array &entries = *result.getArray("entries");
  for (json::Value &entry : entries)
    tagVariants(*entry.getAsObject(), manifests.front().arch, manifests.front().schedule);
  for (size_t i = 1; i < manifests.size(); ++i) {
    json::Array &others = *manifests[i].manifest.getArray("entries");
    for (json::Value &entry : others)
      tagVariants(*entry.getAsObject(), manifests[i].arch, manifests[i].schedule);
    mergeEntries(entries, others, problem);
  }
  // Where no f_vjp takes saved states there is no f_fwd; f gives all the rest of its results.
  for (json::Value &value : entries) {
    json::Object &entry = *value.getAsObject();
    auto function = entry.getString("fwd_of");
    json::Object *own = function ? findEntry(entries, *function) : nullptr;
    for (const ArchitectureManifest &each : manifests)
      if (own && variantsFor(entry, each.arch).empty()) {
        keepRowStridesOf(*entry.getArray("inputs"), *own->getArray("inputs"));
        appendVariants(entry, variantsFor(*own, each.arch));
      }
  }
  for (json::Value &entry : entries)
    replaceRowStrides(*entry.getAsObject());
  return result;
}
