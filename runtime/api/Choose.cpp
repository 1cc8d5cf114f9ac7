//===- Choose.cpp - which of an entry's variants a call takes -------------===//

#include "Choose.h"

#include "../package/Names.h"

#include <algorithm>

using namespace ejk;

[[gnu::cold, gnu::noinline]] static ejk_error *conditionError(const Entry &entry,
                                                              const std::string &name,
                                                              const Expr &expr, const char *why,
                                                              const Symbols &symbols) {
  return makeError(ErrorCode::InvalidTensor, name + ": its condition, " + expr.text() +
                                                 ", is unusable: " + why + " (" +
                                                 explainSymbols(entry, expr, symbols) + ")");
}

ejk_error *ejk::evaluateCondition(const Entry &entry, const char *kind, const std::string &name,
                                  const std::optional<Expr> &condition, const Symbols &symbols,
                                  bool &holds) {
  int64_t value = 1;
  if (condition)
    if (const char *why = condition->evaluate(symbols.values, value))
      return conditionError(entry, std::string(kind) + " '" + name + "'", *condition, why, symbols);
  holds = value != 0;
  return nullptr;
}

static ejk_error *evaluate(const Entry &entry, const Variant &variant,
                           const std::optional<Expr> &condition, const Symbols &symbols,
                           bool &holds) {
  return evaluateCondition(entry, "schedule", variant.schedule, condition, symbols, holds);
}

[[gnu::cold, gnu::noinline]] static ejk_error *
scheduleError(const ejk_executable &executable, const Entry &entry, const char *schedule,
              const Variant *refused, const Symbols &symbols) {
  std::string text = "entry '" + entry.name + "': ";
  if (refused)
    return makeError(ErrorCode::InvalidTensor, text + "schedule '" + refused->schedule +
                                                   "' cannot compute these sizes: it needs " +
                                                   refused->needs->text() + ", but " +
                                                   explainSymbols(entry, *refused->needs, symbols));
  std::string known;
  for (size_t v = 0; v < entry.variants.size(); ++v) {
    const std::string &name = entry.variants[v].schedule;
    bool isNew = std::none_of(entry.variants.begin(), entry.variants.begin() + long(v),
                              [&](const Variant &other) { return other.schedule == name; });
    if (executable.isUsable(entry, v) && isNew)
      known += (known.empty() ? "'" : ", '") + name + "'";
  }
  return makeError(ErrorCode::InvalidArgument, text + "it has no schedule " + inQuotes(schedule) +
                                                   " on this device; it has " + known);
}

ejk_error *ejk::chooseVariant(const ejk_executable &executable, const Entry &entry,
                              const char *schedule, Symbols &symbols, size_t &chosen) {
  std::copy(std::begin(executable.facts), std::end(executable.facts),
            symbols.values + entry.symbols.size());
  const Variant *refused = nullptr;
  for (size_t v = 0; v < entry.variants.size(); ++v) {
    const Variant &variant = entry.variants[v];
    if (!executable.isUsable(entry, v) || (schedule && variant.schedule != schedule))
      continue;
    bool holds;
    if (ejk_error *error = evaluate(entry, variant, variant.needs, symbols, holds))
      return error;
    if (!holds) {
      refused = &variant;
      continue;
    }
    if (!schedule)
      if (ejk_error *error = evaluate(entry, variant, variant.when, symbols, holds))
        return error;
    if (!holds)
      continue;
    chosen = v;
    return nullptr;
  }
  return scheduleError(executable, entry, schedule ? schedule : "", refused, symbols);
}

/// Whether `condition` holds, as far as can be known without a device.
enum class Known { No, Yes, DependsOnDevice };

static ejk_error *evaluateWithoutDevice(const Entry &entry, const Variant &variant,
                                        const std::optional<Expr> &condition,
                                        const Symbols &symbols, Known &known) {
  if (condition && condition->usesSymbolFrom(int(entry.symbols.size()))) {
    known = Known::DependsOnDevice;
    return nullptr;
  }
  bool holds;
  if (ejk_error *error = evaluate(entry, variant, condition, symbols, holds))
    return error;
  known = holds ? Known::Yes : Known::No;
  return nullptr;
}

/// Whether each device that runs code for `architecture` has the shared memory that it needs.
static bool fitsEverywhere(const Variant &variant, const Architecture &architecture) {
  return architecture.isSpecific ||
         std::all_of(variant.launches.begin(), variant.launches.end(), [](const Launch &launch) {
           return launch.sharedBytes <= EJK_LEAST_SHARED_BYTES;
         });
}

ejk_error *ejk::findPossibleVariants(const Manifest &manifest, const Entry &entry,
                                     const Symbols &symbols, PossibleVariants &possible) {
  std::fill(std::begin(possible.may), std::end(possible.may), false);
  for (size_t a = 0; a < manifest.architectures.size(); ++a)
    for (size_t v = 0; v < entry.variants.size(); ++v) {
      const Variant &variant = entry.variants[v];
      if (!variant.isFor(int(a)))
        continue;
      Known needs, when;
      if (ejk_error *error = evaluateWithoutDevice(entry, variant, variant.needs, symbols, needs))
        return error;
      if (ejk_error *error = evaluateWithoutDevice(entry, variant, variant.when, symbols, when))
        return error;
      if (needs == Known::No || when == Known::No)
        continue;
      possible.may[v] = true;
      // No later one is taken.
      if (needs == Known::Yes && when == Known::Yes &&
          fitsEverywhere(variant, manifest.architectures[a]))
        break;
    }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// The C API
//===----------------------------------------------------------------------===//

/// How many of the variant's launches are made with these sizes.
static ejk_error *countLaunches(const Entry &entry, const Variant &variant, const Symbols &symbols,
                                size_t &count) {
  count = 0;
  for (const Launch &launch : variant.launches) {
    bool isMade;
    if (ejk_error *error =
            evaluateCondition(entry, "kernel", launch.kernel, launch.when, symbols, isMade))
      return error;
    int64_t grid = 0;
    count += isMade && !launch.grid.evaluate(symbols.values, grid) && grid > 0;
  }
  return nullptr;
}

ejk_error *ejk_executable_choose(const ejk_executable *executable, size_t index,
                                 const DLTensor *const *inputs, size_t num_inputs,
                                 const char *schedule, ejk_choice *choice) {
  return guarded([&]() -> ejk_error * {
    if (!executable || !choice)
      return makeError(ErrorCode::InvalidArgument,
                       executable ? "choice is NULL" : "executable is NULL");
    if (ejk_error *error = checkStructSize("ejk_choice", choice->struct_size, sizeof(*choice)))
      return error;
    ejk_error *error = nullptr;
    const Entry *entry = findEntry(executable->package->manifest, index, error);
    if (!entry)
      return error;
    Symbols symbols;
    WorkspaceLayout layout;
    size_t chosen, numKernels;
    if (ejk_error *error = bindInputs(*entry, {inputs, num_inputs}, symbols))
      return error;
    if (ejk_error *error = chooseVariant(*executable, *entry, schedule, symbols, chosen))
      return error;
    const Variant &variant = entry->variants[chosen];
    if (ejk_error *error = layOutWorkspace(*entry, variant, symbols, layout))
      return error;
    if (ejk_error *error = countLaunches(*entry, variant, symbols, numKernels))
      return error;
    choice->variant = chosen;
    choice->schedule = variant.schedule.c_str();
    choice->workspace_bytes = size_t(layout.bytes);
    choice->num_kernels = numKernels;
    return nullptr;
  });
}
