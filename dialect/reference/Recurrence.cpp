//===- Recurrence.cpp - recurrences, from their formula --------------------===//
#include "dialect/reference/Handlers.h"
#include <cmath>

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

namespace {
/// Operands, null if absent, and sizes.
struct Inputs {
  const Tensor *q, *k, *v, *g = nullptr, *gamma = nullptr, *gk = nullptr, *gv = nullptr,
                           *h0 = nullptr, *cu = nullptr;
  int64_t B, T, H, Hkv, K, V, N;
  /// The heads of gates and states: H, or Hkv with `shared_state`.
  int64_t stateHeads;
};
} // namespace

static FailureOr<Inputs> readInputs(Operation *op, const Recurrence &r, Operands operands) {
  Inputs in;
  unsigned next = 0;
  for (auto [value, slot] : {std::pair(r.query, &in.q),
                             {r.key, &in.k},
                             {r.value, &in.v},
                             {r.g, &in.g},
                             {r.gGamma, &in.gamma},
                             {r.gk, &in.gk},
                             {r.gv, &in.gv},
                             {r.initialState, &in.h0},
                             {r.cuSeqlens, &in.cu}})
    if (value)
      *slot = operands[next++];
  SizeCheck sizes(op);
  if (failed(sizes.check(*in.q, "query", {"B", "T", "H", "K"})) ||
      failed(sizes.check(*in.k, "key", {"B", "T", "Hkv", "K"})) ||
      failed(sizes.check(*in.v, "value", {"B", "T", "Hkv", "V"})))
    return failure();
  in.B = sizes.size("B"), in.T = sizes.size("T"), in.H = sizes.size("H");
  in.Hkv = sizes.size("Hkv"), in.K = sizes.size("K"), in.V = sizes.size("V");
  if (failed(sizes.checkHeads("key", in.Hkv, in.H)))
    return failure();
  if (in.cu)
    sizes.bind("N", int64_t(in.cu->size()) - 1, "'cu_seqlens'");
  else
    sizes.bind("N", in.B, "the batch");
  in.N = sizes.size("N");
  StringRef h = r.sharedState ? "Hkv" : "H";
  in.stateHeads = sizes.size(h);
  if (in.g && failed(in.g->rank() == 3 ? sizes.check(*in.g, "g", {"B", "T", h})
                                       : sizes.check(*in.g, "g", {"B", "T", h, "K"})))
    return failure();
  if (in.gamma && failed(in.gamma->rank() == 1 ? sizes.check(*in.gamma, "g_gamma", {h})
                                               : sizes.check(*in.gamma, "g_gamma", {"N", h})))
    return failure();
  if ((in.gk && failed(sizes.check(*in.gk, "gk", {"B", "T", h, "K"}))) ||
      (in.gv && failed(sizes.check(*in.gv, "gv", {"B", "T", h, "V"}))) ||
      (in.h0 && failed(sizes.check(*in.h0, "initial_state", {"N", h, "K", "V"}))))
    return failure();
  return in;
}

/// A multiplication in which a decay of zero wins over any state.
static double decayed(double decay, double state) { return decay == 0 ? 0 : decay * state; }

/// One sequence of one head, step by step:
///   D = exp(g + γ) · exp(gk)[:,None] · exp(gv)[None,:]
///   S = D ⊙ S + k vᵀ,   o = scale · Sᵀq
/// `round` rounds to f32, or is the identity.
template <typename Round>
static void walk(const Inputs &in, double scale, bool reverse, double gammaOfHead, Span span,
                 int64_t n, int64_t h, double *S, double *o, Round round, Progress &progress) {
  int64_t kvHead = in.H ? h / (in.H / in.Hkv) : 0;
  int64_t stateHead = in.H ? h / (in.H / in.stateHeads) : 0;
  std::vector<double> ek(in.K), ev(in.V), sums(in.V);
  for (int64_t i = 0, length = span.end - span.begin; i < length; ++i) {
    int64_t t = reverse ? span.end - 1 - i : span.begin + i;
    int64_t row = (span.batch * in.T + t) * in.H + h;
    int64_t kvRow = (span.batch * in.T + t) * in.Hkv + kvHead;
    int64_t gateRow = (span.batch * in.T + t) * in.stateHeads + stateHead;
    const double *q = &in.q->floats[row * in.K], *k = &in.k->floats[kvRow * in.K];
    const double *v = &in.v->floats[kvRow * in.V];

    double head = gammaOfHead;
    if (in.g && in.g->rank() == 3)
      head = round(head + in.g->floats[gateRow]);
    for (int64_t c = 0; c < in.K; ++c) {
      double gate = 0;
      if (in.g && in.g->rank() == 4)
        gate = in.g->floats[gateRow * in.K + c];
      if (in.gk)
        gate = round(gate + in.gk->floats[gateRow * in.K + c]);
      ek[c] = gate == 0 ? 1 : round(std::exp(gate));
    }
    double eh = round(std::exp(head));
    for (int64_t c = 0; c < in.K; ++c)
      ek[c] = round(eh * ek[c]);
    for (int64_t c = 0; in.gv && c < in.V; ++c)
      ev[c] = round(std::exp(in.gv->floats[gateRow * in.V + c]));

    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t a = 0; a < in.K; ++a) {
      double *s = S + a * in.V, d = ek[a], ka = k[a], qa = q[a];
      if (in.gv)
        for (int64_t b = 0; b < in.V; ++b)
          s[b] = round(decayed(round(d * ev[b]), s[b]));
      else if (d == 0)
        std::fill(s, s + in.V, 0.0);
      else if (d != 1)
        for (int64_t b = 0; b < in.V; ++b)
          s[b] = round(d * s[b]);
      for (int64_t b = 0; b < in.V; ++b) {
        s[b] = round(s[b] + ka * v[b]);
        sums[b] = round(sums[b] + s[b] * qa);
      }
    }
    for (int64_t b = 0; b < in.V; ++b)
      o[row * in.V + b] = scale * sums[b];
    if (i % 256 == 255)
      progress.add(256);
  }
  progress.add((span.end - span.begin) % 256);
}

LogicalResult ejk::reference::interpretRecurrence(Operation *op, Operands operands,
                                                  Results &results, const Options &options) {
  Recurrence r = *Recurrence::of(op);
  FailureOr<Inputs> inputs = readInputs(op, r, operands);
  if (failed(inputs))
    return failure();
  Inputs &in = *inputs;
  FailureOr<std::vector<Span>> spans = sequenceSpans(op, in.cu, in.B, in.T);
  if (failed(spans) ||
      failed(addResult(op, r.output.getType(), {in.B, in.T, in.H, in.V}, results)) ||
      failed(addResult(op, r.finalState.getType(), {in.N, in.stateHeads, in.K, in.V}, results)))
    return failure();
  Tensor &o = results[0], &ht = results[1];
  if (in.h0)
    ht.floats = in.h0->floats;

  bool native = options.precision == Precision::native;
  Progress progress(options, size_t(in.T) * in.B * in.H);
  parallelFor(spans->size() * in.H, options, [&](size_t job) {
    int64_t n = job / in.H, h = job % in.H;
    double gamma = 0;
    // Each query head of a group computes their state; the first one's is kept.
    int64_t group = in.H / in.stateHeads, own = n * in.stateHeads + h / group;
    if (in.gamma)
      gamma = in.gamma->floats[in.gamma->rank() == 1 ? h / group : own];
    if (r.lightningFactor)
      gamma += -(8.0 / double(in.H)) * *r.lightningFactor * double(h);
    double *S = ht.floats.data() + own * in.K * in.V;
    std::vector<double> copy;
    if (h % group) {
      copy.resize(in.K * in.V);
      if (in.h0)
        std::copy_n(in.h0->floats.begin() + own * in.K * in.V, in.K * in.V, copy.begin());
      S = copy.data();
    }
    auto run = [&](auto round) {
      walk(in, r.scale(), r.reverse, round(gamma), (*spans)[n], n, h, S, o.floats.data(), round,
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
