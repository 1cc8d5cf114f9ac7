//===- GateProfiles.cpp - log gates as models have them -------------------===//

#include "GateProfiles.h"
#include "Normal.h"

#include <algorithm>
#include <limits>

using namespace ejk;

const GateProfile::Name GateProfile::all[] = {
    {"mid", Kind::mid},           {"weak", Kind::weak},         {"mixed", Kind::mixed},
    {"logsigmoid", Kind::logsigmoid}, {"lb5", Kind::lb5},       {"softplus", Kind::softplus},
    {"saturated", Kind::saturated},   {"resets", Kind::resets},
};

/// With `resets`, every so many rows a row forgets all.
static constexpr int64_t kResetRows = 61;

std::string GateProfile::names() {
  std::string text;
  for (const Name &name : all)
    text += (text.empty() ? "" : ", ") + std::string(name.name);
  return text;
}

Result<GateProfile> GateProfile::make(std::string_view name, const std::vector<int64_t> &shape,
                                      uint64_t seed) {
  auto found = std::find_if(std::begin(all), std::end(all),
                            [&](const Name &known) { return name == known.name; });
  if (found == std::end(all))
    return Error{ErrorCode::InvalidArgument, "there are no gates '" + std::string(name) +
                                                 "'; there are " + names()};
  GateProfile profile;
  profile.kind = found->kind;
  size_t first = shape.size() > 2 ? 2 : 0;
  for (size_t dim = first; dim < shape.size(); ++dim)
    (dim == first ? profile.heads : profile.channels) *= std::max<int64_t>(1, shape[dim]);
  Normal random(seed);
  profile.ofHead.resize(size_t(profile.heads));
  profile.ofChannel.resize(size_t(profile.rowSize()));
  auto between = [&](double low, double high) { return low + (high - low) * random.uniform(); };
  for (double &x : profile.ofHead)
    x = profile.kind == Kind::lb5        ? std::exp(0.5 * random.next())
        : profile.kind == Kind::softplus ? between(1, 16)
                                         : 1;
  for (double &x : profile.ofChannel)
    switch (profile.kind) {
    case Kind::lb5:
      x = 0.5 + random.next();
      break;
    case Kind::softplus: // The bias whose softplus is a step from 1e-3 to 0.1.
      x = std::log(std::expm1(std::exp(between(std::log(1e-3), std::log(0.1)))));
      break;
    case Kind::saturated:
      x = random.uniform() < 0.5 ? -5 : -1e-3;
      break;
    default:
      x = 0;
    }
  return profile;
}

static double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double GateProfile::at(int64_t index, double normal) const {
  int64_t place = index % rowSize(), head = place / channels;
  double logsigmoid = -std::log1p(std::exp(-normal)), weak = logsigmoid / 16;
  switch (kind) {
  case Kind::mid:
    return weak;
  case Kind::weak: // uniform in [-1/16, 0]
    return -0.5 * std::erfc(normal / std::sqrt(2.0)) / 16;
  case Kind::mixed:
    return head < heads / 4 ? 0 : weak;
  case Kind::logsigmoid:
    return logsigmoid;
  case Kind::lb5:
    return -5 / (1 + std::exp(-ofHead[size_t(head)] * (normal + ofChannel[size_t(place)])));
  case Kind::softplus:
    return -ofHead[size_t(head)] * softplus(normal + ofChannel[size_t(place)]);
  case Kind::saturated:
    return ofChannel[size_t(place)];
  case Kind::resets:
    return index / rowSize() % kResetRows == kResetRows - 1
               ? -std::numeric_limits<double>::infinity()
               : weak;
  }
  return weak;
}
