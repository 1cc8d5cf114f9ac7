"""Rows of other steps in a recurrence: short convolutions, shifted tokens, a trapezoidal rule, against
torch's own ops in f64."""

import unittest

import torch
from torch.nn import functional as F

import ejk
from reference import error


def taps(x, w, rows=None):
    """A causal convolution of width 4 over the steps; w[3] weighs the step's own row."""
    return ejk.silu(sum(w[i] * x.shifted(3 - i, rows) for i in range(4)))


@ejk.recurrence
def conv_gdn(S, q, k, v, g, beta, wq0, wq1, wq2, wq3, wk0, wk1, wk2, wk3, wv0, wv1, wv2, wv3,
             q_rows=None, k_rows=None, v_rows=None):
    cq = taps(q, (wq0, wq1, wq2, wq3), q_rows)
    ck = taps(k, (wk0, wk1, wk2, wk3), k_rows)
    cv = taps(v, (wv0, wv1, wv2, wv3), v_rows)
    cq = cq * ejk.rsqrt(ejk.sum(cq * cq) + 1e-6)
    ck = ck * ejk.rsqrt(ejk.sum(ck * ck) + 1e-6)
    S = S.decay(g)
    S = S.add(ck, beta * (cv - S.read(ck)))
    return (S, S.read(cq), q.last_rows(3, q_rows), k.last_rows(3, k_rows), v.last_rows(3, v_rows))


def eager(q, k, v, g, beta, W, rows=(None,) * 3, state=None, cu=None):
    """`conv_gdn` in f64; W is [3, 4, H, C]. Gives o, the three last rows, and the state."""
    q, k, v, g, beta, W = (x.double() for x in (q, k, v, g, beta, W))
    B, T, H, K = q.shape
    spans = [(b, 0, T) for b in range(B)] if cu is None else [
        (0, cu[n], cu[n + 1]) for n in range(len(cu) - 1)]
    outputs, lasts, states = torch.zeros_like(v), [], []
    for n, (b, first, end) in enumerate(spans):
        inputs = []
        for i, x in enumerate((q, k, v)):
            before = x.new_zeros(3, H, x.shape[3]) if rows[i] is None else rows[i][n].double()
            x = torch.cat([before, x[b, first:end]])
            length = end - first
            y = F.silu(sum(W[i, j] * x[j:j + length] for j in range(4)))
            lasts.append(x[length:])
            inputs.append(y)
        cq, ck, cv = inputs
        cq, ck = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (cq, ck))
        S = q.new_zeros(H, K, v.shape[3]) if state is None else state[n].double()
        o = []
        for t in range(end - first):
            S = S * g[b, first + t, :, None, None].exp()
            u = beta[b, first + t, :, None] * (cv[t] - torch.einsum("hkv,hk->hv", S, ck[t]))
            S = S + ck[t][:, :, None] * u[:, None]
            o.append(torch.einsum("hkv,hk->hv", S, cq[t]))
        if o:
            outputs = outputs.index_put((torch.tensor(b), torch.arange(first, end)), torch.stack(o))
        states.append(S)
    return (outputs, *(torch.stack(lasts[i::3]) for i in range(3)), torch.stack(states))


def case(B=2, T=9, H=2, K=8, V=4, seed=0, rows=False, N=None, dtype=torch.float32):
    torch.manual_seed(seed)
    N = N or B
    q, k, v = (torch.randn(B, T, H, C) for C in (K, K, V))
    given = dict(q=q, k=k, v=v, g=-torch.rand(B, T, H), beta=torch.rand(B, T, H),
                 Wk=torch.randn(2, 4, H, K) / 2, Wv=torch.randn(4, H, V) / 2)
    if rows:
        given.update({f"{n}_rows": torch.randn(N, 3, H, C) for n, C in zip("qkv", (K, K, V))},
                     state=torch.randn(N, H, K, V))
    rounded = {n: x.to(dtype) if n in ("q", "k", "v", "q_rows", "k_rows", "v_rows") else x
               for n, x in given.items()}
    return {n: x.requires_grad_() for n, x in rounded.items()}


def split(given):
    """The call's tensors, its keywords and what `eager` takes."""
    taps = [w for i in range(2) for w in given["Wk"][i]] + list(given["Wv"])
    named = {n: given[n] for n in ("q_rows", "k_rows", "v_rows") if n in given}
    return [given[n] for n in ("q", "k", "v", "g", "beta")] + taps, named


def run(given, cu=None):
    tensors, named = split(given)
    return conv_gdn(*tensors, **named, initial_state=given.get("state"), cu_seqlens=cu)


def wanted(given, cu=None):
    H, K, V = given["Wk"].shape[2], given["Wk"].shape[3], given["Wv"].shape[2]
    rows = [given.get(f"{n}_rows") for n in "qkv"]
    W = [given["Wk"][0], given["Wk"][1], given["Wv"]]

    class Taps:
        """Weights whose last size differs."""
        def double(self):
            return self

        def __getitem__(self, at):
            return W[at[0]][at[1]].double()
    return eager(*(given[n] for n in ("q", "k", "v", "g", "beta")), Taps(), rows,
                 given.get("state"), cu)


class Shifts(unittest.TestCase):
    def compare(self, given, cu=None, tolerance=2e-6, gradients=4e-6):
        found, expected = run(given, None if cu is None else torch.tensor(cu)), wanted(given, cu)
        for a, b in zip(found, expected):
            self.assertLess(error(a.detach().double(), b.detach()), tolerance)
        torch.manual_seed(1)
        weights = [torch.randn(x.shape, dtype=torch.float64) for x in expected]
        leaves = list(given.values())
        grads = [torch.autograd.grad(sum((x.double() * w).sum() for x, w in zip(results, weights)),
                                     leaves, allow_unused=True) for results in (found, expected)]
        for name, a, b in zip(given, *grads):
            with self.subTest(name):
                self.assertLess(error(a.double(), b.double()), gradients)

    def test_dense(self):
        self.compare(case())

    def test_rows_before_the_first_and_a_state(self):
        self.compare(case(rows=True))

    def test_fewer_steps_than_rows(self):
        for T in (1, 2, 3):
            self.compare(case(T=T, rows=True))

    def test_packed(self):
        # An empty sequence, one of a row, and rows in none.
        self.compare(case(B=1, T=12, N=4), cu=[0, 1, 1, 7, 11])
        self.compare(case(B=1, T=12, N=4, rows=True), cu=[0, 1, 1, 7, 11])

    def test_exact(self):
        given = {n: x.detach().double().requires_grad_() for n, x in case(rows=True).items()}
        self.compare(given, tolerance=1e-12, gradients=1e-11)

    def test_bf16(self):
        # Rows of 16 bits, whose outputs and gradients are rounded to 16 bits.
        self.compare(case(T=70, K=32, V=32, rows=True, dtype=torch.bfloat16), tolerance=6e-3,
                     gradients=2e-2)

    def test_token_by_token(self):
        given = {n: x.detach() for n, x in case(rows=True).items()}
        o, *rows, state = run(given)
        parts, now = [], dict(given)
        for t in range(given["q"].shape[1]):
            for n in ("q", "k", "v", "g", "beta"):
                now[n] = given[n][:, t:t + 1]
            part, now["q_rows"], now["k_rows"], now["v_rows"], now["state"] = run(now)
            parts.append(part)
        self.assertLess(error(torch.cat(parts, 1), o), 2e-6)
        for a, b in zip([now["q_rows"], now["k_rows"], now["v_rows"]], rows):
            self.assertTrue(torch.equal(a, b))
        self.assertLess(error(now["state"], state), 2e-6)

    def test_reverse(self):
        @ejk.recurrence(reverse=True)
        def back(S, k, v, rows):
            S = S.decay(-0.3).add(k + 0.5 * k.shifted(2, rows), v)
            return S, S.read(k.shifted(1, rows)), k.last_rows(2, rows)

        @ejk.recurrence
        def forth(S, k, v, rows):
            S = S.decay(-0.3).add(k + 0.5 * k.shifted(2, rows), v)
            return S, S.read(k.shifted(1, rows)), k.last_rows(2, rows)
        k, v, rows = torch.randn(2, 7, 2, 4), torch.randn(2, 7, 2, 3), torch.randn(2, 2, 2, 4)
        leaves = [x.requires_grad_() for x in (k, v, rows)]
        found = back(*leaves)
        turned = [x.flip(1) if i < 2 else x for i, x in enumerate(forth(*(x.flip(1) for x in leaves)))]
        for a, b in zip(found, turned):
            self.assertLess(error(a.detach(), b.detach()), 1e-6)
        sums = [sum((x * x).sum() for x in results) for results in (found, turned)]
        for a, b in zip(*(torch.autograd.grad(s, leaves) for s in sums)):
            self.assertLess(error(a, b), 2e-6)

    def test_numbers_and_queries(self):
        @ejk.recurrence(queries="q")
        def mixed(S, q, k, v, g):
            S = S.decay(g.shifted(1)).add(k, v)
            return S, S.read(q + q.shifted(1)) * g.shifted(2)
        torch.manual_seed(0)
        q, k, v, g = (torch.randn(2, 6, 4, 4), torch.randn(2, 6, 2, 4), torch.randn(2, 6, 2, 3),
                      -torch.rand(2, 6, 2))
        leaves = [x.double().requires_grad_() for x in (q, k, v, g)]

        def later(x, n):
            return torch.cat([torch.zeros_like(x[:, :n]), x[:, :-n]], 1)
        plain = ejk.recurrence(queries="q")(lambda S, q, k, v, g, f: (
            S.decay(g).add(k, v), S.decay(g).add(k, v).read(q) * f))
        o, state = mixed(*leaves)
        p, other = plain(leaves[0] + later(leaves[0], 1), *leaves[1:3], later(leaves[3], 1),
                         later(leaves[3], 2))
        self.assertLess(error(o.detach(), p.detach()), 1e-12)
        for a, b in zip(*(torch.autograd.grad((x * x).sum() + s.sum(), leaves)
                          for x, s in ((o, state), (p, other)))):
            self.assertLess(error(a, b), 1e-12)
        single = [x.detach().float() for x in leaves]
        self.assertLess(error(mixed(*single)[0], o.detach()), 1e-6)

    def test_trapezoidal_rule(self):
        """Mamba-3's: the input of the step before counts, too, in its own decay."""
        @ejk.recurrence
        def trapezoid(S, c, b, x, g, share):
            S = S.decay(g).add(b.shifted(1), share * ejk.exp(g) * x.shifted(1))
            S = S.add(b, (1 - share) * x)
            return S, S.read(c)
        torch.manual_seed(0)
        B, T, H, N, P = 2, 8, 2, 4, 3
        c, b, x = torch.randn(B, T, H, N), torch.randn(B, T, H, N), torch.randn(B, T, H, P)
        g, share = -torch.rand(B, T, H), torch.rand(B, T, H)
        leaves = [y.requires_grad_() for y in (c, b, x, g, share)]
        o, state = trapezoid(*leaves)
        c, b, x, g, share = (y.double() for y in leaves)
        S, rows = torch.zeros(B, H, N, P, dtype=torch.float64), []
        for t in range(T):
            S = S * g[:, t, :, None, None].exp()
            if t:
                S = S + (b[:, t - 1, :, :, None] * x[:, t - 1, :, None]
                         * (share * g.exp())[:, t, :, None, None])
            S = S + b[:, t, :, :, None] * x[:, t, :, None] * (1 - share)[:, t, :, None, None]
            rows.append(torch.einsum("bhnp,bhn->bhp", S, c[:, t]))
        p = torch.stack(rows, 1)
        self.assertLess(error(o.detach(), p.detach()), 1e-6)
        for a, e in zip(*(torch.autograd.grad((y.double() ** 2).sum(), leaves) for y in (o, p))):
            self.assertLess(error(a, e), 4e-6)

    def test_functions_of_rows(self):
        torch.manual_seed(0)
        x, rows = torch.randn(1, 2, 1, 4), torch.randn(1, 3, 1, 4)

        def functions(x, rows):
            return ejk.shifted(x, 2, rows), ejk.last_rows(x, 3, rows)

        def methods(x, rows):
            return x.shifted(2, rows), x.last_rows(3, rows)
        found, wanted = (ejk.recurrence(f, states=0)(x, rows) for f in (functions, methods))
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a, b)

    def test_taps_in_any_order(self):
        torch.manual_seed(0)
        x, rows = torch.randn(1, 5, 1, 4), torch.randn(1, 3, 1, 4)

        def step(x, rows):
            return x.shifted(3, rows) + 2.0 * x.shifted(1, rows)
        o = ejk.recurrence(step, states=0)(x, rows)
        whole = torch.cat([rows, x], 1)
        torch.testing.assert_close(o, whole[:, :5] + 2 * whole[:, 2:7])


class Refusals(unittest.TestCase):
    def refuse(self, function, message, *tensors):
        x = torch.randn(1, 3, 1, 4)
        with self.assertRaisesRegex(ejk.TraceError, message):
            ejk.recurrence(function)(*(tensors or (x, x)))

    def test_what_is_computed(self):
        self.refuse(lambda S, k, v: (S.add(k, v), S.read(ejk.silu(k).shifted(1))),
                    r"write f\(x.shifted\(n\)\) in the place of f\(x\).shifted\(n\)")

    def test_what_depends_on_the_state(self):
        self.refuse(lambda S, k, v: (S.add(k, v), S.read(k).shifted(1)), "kept as a state of its own")

    def test_later_rows(self):
        self.refuse(lambda S, k, v: (S.add(k, v), S.read(k.shifted(-1))), "reverse=True")

    def test_number_of_steps(self):
        self.refuse(lambda S, k, v: (S.add(k, v), S.read(k.shifted(1.5))), "a number of steps")

    def test_last_rows_inside(self):
        self.refuse(lambda S, k, v: (S.add(k, v), S.read(k.last_rows(1))), "only be returned")

    def test_last_rows_alone(self):
        @ejk.recurrence(states=0)
        def tail(x, z):
            return x.last_rows(3), z.last_rows(1)
        x = torch.randn(1, 3, 1, 4)
        line = tail.__wrapped__.__code__.co_firstlineno
        with self.assertRaisesRegex(ejk.TraceError, f"py:{line}: 'tail' returns .* last rows alone: return a value"):
            tail(x, x)

        @ejk.recurrence
        def kept(S, k, v):  # a state is a result of the steps
            return S.add(k, v), k.last_rows(2)
        rows, state = kept(x, x)
        self.assertTrue(torch.equal(rows, x[:, -2:]))
        self.assertLess(error(state, torch.einsum("bthk,bthv->bhkv", x, x)), 1e-6)

    def test_two_kinds_of_rows(self):
        def step(S, k, v, rows):
            return S.add(k.shifted(1, rows), v), S.read(k.shifted(2))
        x = torch.randn(1, 3, 1, 4)
        self.refuse(step, "one kind of rows", x, x, x)

    def test_rows_used_by_the_step(self):
        def step(S, k, v, rows):
            return S.add(k.shifted(1, rows), v), S.read(rows)
        x = torch.randn(1, 3, 1, 4)
        self.refuse(step, "a step cannot use it itself", x, x, x)

    def test_too_few_last_rows(self):
        def step(S, k, v, rows):
            return S.add(k.shifted(2, rows), v), S.read(k), k.last_rows(1, rows)
        x = torch.randn(1, 3, 1, 4)
        self.refuse(step, "needs 2 rows before its first", x, x, x)

    def test_wrong_number_of_rows(self):
        def step(S, k, v, rows):
            return S.add(k.shifted(2, rows), v), S.read(k)
        x = torch.randn(1, 3, 1, 4)
        with self.assertRaisesRegex(ejk.TensorError, "rows"):
            ejk.recurrence(step)(x, x, x)  # of 3 rows in the place of 2


if __name__ == "__main__":
    unittest.main()
