//===- DeltaRule.cpp - the delta rule, from its formula -------------------===//
#include "dialect/reference/Handlers.h"
#include <cmath>

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

namespace {
/// Operands, null if absent, and sizes.
struct Inputs {
  const Tensor *q, *k, *v, *beta, *g = nullptr, *gk = nullptr, *h0 = nullptr, *cu = nullptr;
  int64_t B, T, Hk, Hv, K, V, N;
};
} // namespace

static FailureOr<Inputs> readInputs(DeltaRuleOp op, Operands operands) {
  Inputs in;
  unsigned next = 0;
  for (auto [value, slot] : {std::pair(Value(op.getQuery()), &in.q),
                             {Value(op.getKey()), &in.k},
                             {Value(op.getValue()), &in.v},
                             {Value(op.getBeta()), &in.beta},
                             {Value(op.getG()), &in.g},
                             {Value(op.getGk()), &in.gk},
                             {Value(op.getInitialState()), &in.h0},
                             {Value(op.getCuSeqlens()), &in.cu}})
    if (value)
      *slot = operands[next++];
  SizeCheck sizes(op);
  if (failed(sizes.check(*in.q, "query", {"B", "T", "Hk", "K"})) ||
      failed(sizes.check(*in.k, "key", {"B", "T", "Hk", "K"})) ||
      failed(sizes.check(*in.v, "value", {"B", "T", "Hv", "V"})) ||
      failed(sizes.check(*in.beta, "beta", {"B", "T", "Hv"})))
    return failure();
  in.B = sizes.size("B"), in.T = sizes.size("T"), in.Hk = sizes.size("Hk");
  in.Hv = sizes.size("Hv"), in.K = sizes.size("K"), in.V = sizes.size("V");
  if (failed(sizes.checkHeads("query and key", in.Hk, in.Hv)))
    return failure();
  sizes.bind("N", in.cu ? int64_t(in.cu->size()) - 1 : in.B,
             in.cu ? "'cu_seqlens'" : "the batch");
  in.N = sizes.size("N");
  if ((in.g && failed(sizes.check(*in.g, "g", {"B", "T", "Hv"}))) ||
      (in.gk && failed(sizes.check(*in.gk, "gk", {"B", "T", "Hv", "K"}))) ||
      (in.h0 && failed(sizes.check(*in.h0, "initial_state", {"N", "Hv", "K", "V"}))))
    return failure();
  return in;
}

/// One sequence of one value head, step by step:
///   S' = exp(g) · exp(gk)[:,None] ⊙ S,   u = beta (v − S'ᵀk)
///   S = S' + k uᵀ,   o = scale · Sᵀq
/// `round` rounds to f32, or is the identity.
template <typename Round>
static void walk(const Inputs &in, double scale, bool reverse, Span span, int64_t head, double *S,
                 double *o, Round round, Progress &progress) {
  int64_t keyHead = head / (in.Hv / in.Hk);
  std::vector<double> u(in.V), sums(in.V);
  for (int64_t i = 0, length = span.end - span.begin; i < length; ++i) {
    int64_t t = reverse ? span.end - 1 - i : span.begin + i;
    int64_t row = (span.batch * in.T + t) * in.Hv + head;
    int64_t keyRow = (span.batch * in.T + t) * in.Hk + keyHead;
    const double *q = &in.q->floats[keyRow * in.K], *k = &in.k->floats[keyRow * in.K];
    const double *v = &in.v->floats[row * in.V];
    double ofHead = in.g ? round(std::exp(in.g->floats[row])) : 1;

    std::fill(u.begin(), u.end(), 0.0);
    for (int64_t a = 0; a < in.K; ++a) {
      double *s = S + a * in.V;
      double d = in.gk ? round(ofHead * round(std::exp(in.gk->floats[row * in.K + a]))) : ofHead;
      for (int64_t b = 0; b < in.V; ++b) {
        // A decay of zero wins over any state.
        s[b] = d == 0 ? 0 : round(d * s[b]);
        u[b] = round(u[b] + s[b] * k[a]);
      }
    }
    for (int64_t b = 0; b < in.V; ++b)
      u[b] = round(in.beta->floats[row] * round(v[b] - u[b]));
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t a = 0; a < in.K; ++a)
      for (int64_t b = 0; b < in.V; ++b) {
        double &s = S[a * in.V + b];
        s = round(s + k[a] * u[b]);
        sums[b] = round(sums[b] + s * q[a]);
      }
    for (int64_t b = 0; b < in.V; ++b)
      o[row * in.V + b] = scale * sums[b];
    if (i % 256 == 255)
      progress.add(256);
  }
  progress.add((span.end - span.begin) % 256);
}

LogicalResult ejk::reference::interpretDeltaRule(DeltaRuleOp op, Operands operands,
                                                 Results &results, const Options &options) {
  FailureOr<Inputs> inputs = readInputs(op, operands);
  if (failed(inputs))
    return failure();
  Inputs &in = *inputs;
  FailureOr<std::vector<Span>> spans = sequenceSpans(op, in.cu, in.B, in.T);
  if (failed(spans) ||
      failed(addResult(op, op.getOutput().getType(), {in.B, in.T, in.Hv, in.V}, results)) ||
      failed(addResult(op, op.getFinalState().getType(), {in.N, in.Hv, in.K, in.V}, results)))
    return failure();
  Tensor &o = results[0], &ht = results[1];
  if (in.h0)
    ht.floats = in.h0->floats;
  double scale = Recurrence::of(op)->scale();
  bool native = options.precision == Precision::native;
  Progress progress(options, size_t(in.T) * in.B * in.Hv);
  parallelFor(spans->size() * in.Hv, options, [&](size_t job) {
    double *S = ht.floats.data() + int64_t(job) * in.K * in.V;
    auto run = [&](auto round) {
      walk(in, scale, op.getReverse(), (*spans)[job / in.Hv], job % in.Hv, S, o.floats.data(),
           round, progress);
    };
    if (native)
      run([](double x) { return double(float(x)); });
    else
      run([](double x) { return x; });
  });
  if (native)
    roundRow(o.element, o.floats.data(), o.floats.size());
  return success();
}
