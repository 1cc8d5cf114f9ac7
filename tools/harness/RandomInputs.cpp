//===- RandomInputs.cpp - inputs for an entry, from sizes and a seed ------===//

#include "RandomInputs.h"
#include "GateProfiles.h"
#include "Normal.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace ejk;

// A larger tensor repeats its first elements, because drawing 10^8 of them takes seconds. The
// period is odd, so that the rows and heads of a tensor still differ.
static constexpr int64_t mostDrawn = (int64_t(1) << 20) - 3;

Result<Sizes> ejk::parseSizes(std::string_view text) {
  Sizes sizes;
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    // "B=2, T=128"
    item.remove_prefix(std::min(item.size(), item.find_first_not_of(' ')));
    size_t equals = item.find('=');
    std::string_view digits =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    if (equals == 0 || digits.empty() || digits.size() > 18 ||
        digits.find_first_not_of("0123456789") != std::string_view::npos)
      return Error{ErrorCode::InvalidArgument,
                   "'" + std::string(item) + "' is not of the form SYMBOL=SIZE"};
    std::string symbol(item.substr(0, equals));
    if (!sizes.emplace(symbol, std::stoll(std::string(digits))).second)
      return Error{ErrorCode::InvalidArgument, "'" + symbol + "' is given twice"};
  }
  return sizes;
}

static bool isGate(const TensorSpec &spec) {
  return spec.role == logDecayRole;
}

static void fillOffsets(HostTensor &tensor, int64_t total, Normal &random) {
  int64_t count = tensor.numElements();
  std::vector<double> cuts(size_t(count), 0.0);
  for (double &cut : cuts)
    cut = std::floor(random.uniform() * double(total + 1));
  std::sort(cuts.begin(), cuts.end());
  if (count > 0) {
    cuts.back() = double(total);
    cuts.front() = 0;
  }
  for (int64_t i = 0; i < count; ++i)
    setElement(tensor, i, cuts[size_t(i)]);
}

/// Each index is of another state, and neighbours are far apart in the pool, as after some time of
/// serving. Indices are negative where no state is left.
static void fillIndices(HostTensor &tensor, int64_t states, Normal &random) {
  int64_t stride = std::max<int64_t>(1, int64_t(0.618 * double(states)));
  while (std::gcd(stride, states) > 1)
    ++stride;
  int64_t index = int64_t(random.uniform() * double(states));
  for (int64_t i = 0, count = tensor.numElements(); i < count; ++i) {
    setElement(tensor, i, i < states ? double(index) : -1.0);
    index = index >= states - stride ? index - (states - stride) : index + stride;
  }
}

Result<std::vector<int64_t>> ejk::symbolValues(const Entry &entry, const Sizes &sizes) {
  std::vector<int64_t> symbols;
  std::string missing;
  for (const std::string &symbol : entry.symbols) {
    auto it = sizes.find(symbol);
    bool isStride = entry.symbolSources[symbols.size()].second < 0;
    if (it == sizes.end() && !isStride)
      missing += (missing.empty() ? "" : ", ") + symbol;
    symbols.push_back(it == sizes.end() ? 0 : it->second);
  }
  if (!missing.empty())
    return Error{ErrorCode::InvalidArgument,
                 "the entry '" + entry.name + "' also needs sizes for: " + missing};
  for (const auto &[name, size] : sizes)
    if (std::find(entry.symbols.begin(), entry.symbols.end(), name) == entry.symbols.end())
      return Error{ErrorCode::InvalidArgument,
                   "the entry '" + entry.name + "' has no symbol '" + name + "'"};
  // Rows lie one behind the other where nothing else is given.
  for (const TensorSpec &spec : entry.inputs) {
    if (spec.rowStride < 0 || sizes.count(entry.symbols[size_t(spec.rowStride)]))
      continue;
    int64_t stride = 1, size = 0;
    for (size_t d = numRowDims; d < spec.dims.size(); ++d) {
      if (const char *why = spec.dims[d].expr.evaluate(symbols.data(), size))
        return Error{ErrorCode::InvalidArgument, "input '" + spec.name + "': " + why};
      if (__builtin_mul_overflow(stride, size, &stride))
        return Error{ErrorCode::InvalidArgument, "input '" + spec.name + "': its size overflows"};
    }
    symbols[size_t(spec.rowStride)] = stride;
  }
  return symbols;
}

Result<std::vector<HostTensor>> ejk::randomInputs(const Entry &entry, const Sizes &sizes,
                                                  uint64_t seed, std::string_view gates) {
  Result<std::vector<int64_t>> values = symbolValues(entry, sizes);
  if (!values)
    return values.error();
  const std::vector<int64_t> &symbols = *values;

  Normal random(seed);
  std::vector<HostTensor> tensors;
  for (const TensorSpec &spec : entry.inputs) {
    std::vector<int64_t> shape;
    for (const Dim &dim : spec.dims) {
      shape.emplace_back();
      if (const char *why = dim.expr.evaluate(symbols.data(), shape.back()))
        return Error{ErrorCode::InvalidArgument,
                     "input '" + spec.name + "': " + dim.expr.text() + " has no value: " + why};
    }
    Result<int64_t> bytes = tensorBytes(spec.dtype, shape);
    if (!bytes)
      return Error{ErrorCode::InvalidArgument,
                   "input '" + spec.name + "': " + bytes.error().message};
    HostTensor tensor = makeTensor(spec.name, spec.dtype, shape);
    if (spec.role == cuSeqlensRole) {
      int64_t total;
      if (const char *why = spec.total.evaluate(symbols.data(), total))
        return Error{ErrorCode::InvalidArgument,
                     "input '" + spec.name + "': its total has no value: " + why};
      fillOffsets(tensor, total, random);
    } else if (spec.role == stateIndexRole) {
      int64_t states;
      if (const char *why = spec.states.evaluate(symbols.data(), states))
        return Error{ErrorCode::InvalidArgument,
                     "input '" + spec.name + "': its number of states has no value: " + why};
      fillIndices(tensor, states, random);
    } else {
      // At the scale that a trained model has: keys about as long as 1, beta between 0 and 1.
      bool gate = isGate(spec), uniform = spec.role == rateRole;
      int64_t count = tensor.numElements();
      double factor = spec.role == keyRole && count > 0 && !tensor.shape.empty()
                          ? 1 / std::sqrt(double(tensor.shape.back()))
                          : 1;
      // Gates of a channel are alike: what is repeated of them is an odd number of rows.
      int64_t drawnElements = mostDrawn;
      Result<GateProfile> profile =
          GateProfile::make(gates, gate ? shape : std::vector<int64_t>(), seed);
      if (!profile)
        return profile.error();
      if (gate && profile->rowSize() <= mostDrawn)
        drawnElements = (mostDrawn / profile->rowSize() - 1 | 1) * profile->rowSize();
      for (int64_t i = 0; i < std::min(count, drawnElements); ++i) {
        double x = uniform ? random.uniform() : random.next();
        setElement(tensor, i, gate ? profile->at(i, x) : factor * x);
      }
      size_t drawn = size_t(drawnElements * dataTypeSize(spec.dtype));
      for (size_t i = drawn; i < tensor.data.size(); i += drawn)
        std::memcpy(&tensor.data[i], &tensor.data[i - drawn],
                    std::min(drawn, tensor.data.size() - i));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}
