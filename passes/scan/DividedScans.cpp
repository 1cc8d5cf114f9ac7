//===- DividedScans.cpp - states of scans over segments -------------------===//
#include "passes/scan/DividedScans.h"
#include "passes/scan/ScanGroups.h"
#include "passes/scan/ScanProperties.h"

using namespace mlir;
using namespace ejk;

std::optional<KnownState> ejk::findDivided(ScanOp scan, unsigned number, SegmentsAttr segments,
                                           ArrayRef<DividedScan> before) {
  Value arg = scan.getStateArgs()[number], next = scan.getYield().getStates()[number];
  if (!isMatrix(arg))
    return std::nullopt;
  auto isEqual = [](Value a, Value b) { return a == b; };
  for (auto [place, divided] : llvm::enumerate(before)) {
    ScanOp other = divided.scan;
    if (other.getReverse() != scan.getReverse() || other.getSegmentsAttr() != segments ||
        other.getCuSeqlens() != scan.getCuSeqlens() ||
        other.getSequences().front() != scan.getSequences().front())
      continue;
    YieldOp yield = other.getYield();
    auto isGiven = [&](Value rows, Value here) {
      auto place = llvm::find(other.getOutputs(), rows);
      return place != other.getOutputs().end() &&
             yield.getOutputs()[place - other.getOutputs().begin()] == here;
    };
    for (auto [i, state] : llvm::enumerate(divided.states))
      if ((state.starts || !segments) && state.initial == scan.getInitialState(number) &&
          areSame(scan, next, other, yield.getStates()[i], isEqual, {arg, other.getStateArgs()[i]},
                  isGiven))
        return KnownState{state, unsigned(place), unsigned(i)};
  }
  return std::nullopt;
}
