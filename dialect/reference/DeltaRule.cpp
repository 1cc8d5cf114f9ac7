//===- DeltaRule.cpp - the delta rule, from its formula -------------------===//
#include "dialect/reference/Handlers.h"
#include <cmath>

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

namespace {
/// Operands, null if absent, and sizes.
struct DeltaInputs {
  const Tensor *q, *k, *v, *beta, *g = nullptr, *gk = nullptr, *h0 = nullptr, *cu = nullptr;
  int64_t B, T, Hk, Hv, K, V, N;
  /// The heads of queries and outputs, and of queries alone.
  int64_t H, Hq;
};
} // namespace

static FailureOr<DeltaInputs> readInputs(DeltaRuleOp op, Operands operands) {
  DeltaInputs in;
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
  bool shared = op.getSharedState();
  if (failed(sizes.check(*in.q, "query", {"B", "T", shared ? "H" : "Hk", "K"})) ||
      failed(sizes.check(*in.k, "key", {"B", "T", "Hk", "K"})) ||
      failed(sizes.check(*in.v, "value", {"B", "T", "Hv", "V"})) ||
      failed(sizes.check(*in.beta, "beta", {"B", "T", "Hv"})))
    return failure();
  in.B = sizes.size("B"), in.T = sizes.size("T"), in.Hk = sizes.size("Hk");
  in.Hv = sizes.size("Hv"), in.K = sizes.size("K"), in.V = sizes.size("V");
  if (failed(sizes.checkHeads(shared ? "key" : "query and key", in.Hk, in.Hv)))
    return failure();
  in.H = shared ? sizes.size("H") : in.Hv;
  in.Hq = shared ? in.H : in.Hk;
  if (shared && failed(sizes.checkHeads("value", in.Hv, in.H)))
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

/// One sequence of one output head, step by step:
///   S' = exp(g) · exp(gk)[:,None] ⊙ S,   u = beta (v − S'ᵀk)
///   S = S' + k uᵀ,   o = scale · Sᵀq
/// `round` rounds to f32, or is the identity.
template <typename Round>
static void scan(const DeltaInputs &in, double scale, bool reverse, Span span, int64_t output,
                 double *S, double *o, Round round, Progress &progress) {
  int64_t head = output / (in.H / in.Hv), keyHead = head / (in.Hv / in.Hk);
  std::vector<double> u(in.V), sums(in.V);
  for (int64_t i = 0, length = span.end - span.begin; i < length; ++i) {
    int64_t t = reverse ? span.end - 1 - i : span.begin + i;
    int64_t row = (span.batch * in.T + t) * in.Hv + head;
    int64_t keyRow = (span.batch * in.T + t) * in.Hk + keyHead;
    int64_t queryRow = (span.batch * in.T + t) * in.Hq + output / (in.H / in.Hq);
    const double *q = &in.q->floats[queryRow * in.K], *k = &in.k->floats[keyRow * in.K];
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
      o[((span.batch * in.T + t) * in.H + output) * in.V + b] = scale * sums[b];
    if (i % 256 == 255)
      progress.add(256);
  }
  progress.add((span.end - span.begin) % 256);
}

LogicalResult ejk::reference::interpretDeltaRule(DeltaRuleOp op, Operands operands,
                                                 Results &results, const Options &options) {
  FailureOr<DeltaInputs> inputs = readInputs(op, operands);
  if (failed(inputs))
    return failure();
  DeltaInputs &in = *inputs;
  FailureOr<std::vector<Span>> spans = sequenceSpans(op, in.cu, in.B, in.T);
  if (failed(spans) ||
      failed(addResult(op, op.getOutput().getType(), {in.B, in.T, in.H, in.V}, results)) ||
      failed(addResult(op, op.getFinalState().getType(), {in.N, in.Hv, in.K, in.V}, results)))
    return failure();
  Tensor &o = results[0], &ht = results[1];
  if (in.h0)
    ht.floats = in.h0->floats;
  double scale = Recurrence::of(op)->scale();
  bool native = options.precision == Precision::native;
  Progress progress(options, size_t(in.T) * in.B * in.H);
  parallelFor(spans->size() * in.H, options, [&](size_t job) {
    // Each query head of a group computes their state; the first one's is kept.
    int64_t group = in.H / in.Hv, own = int64_t(job) / group;
    double *S = ht.floats.data() + own * in.K * in.V;
    std::vector<double> copy;
    if (int64_t(job) % group) {
      copy.resize(in.K * in.V);
      if (in.h0)
        std::copy_n(in.h0->floats.begin() + own * in.K * in.V, in.K * in.V, copy.begin());
      S = copy.data();
    }
    auto run = [&](auto round) {
      scan(in, scale, op.getReverse(), (*spans)[job / in.H], job % in.H, S, o.floats.data(), round,
           progress);
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
