"""Times the calls of docs/serving.md on a GPU, in CUDA graphs, and checks them against f64:

    PYTHONPATH=python python3 test/engines/time_serving.py"""

import time

import torch

import engine_reference as reference
from ejk import serving
from ejk.compat.fla import chunk_gated_delta_rule

HK, HV, C, DEVICE = 16, 32, 128, "cuda"
RATE = 4.0e6  # bytes a microsecond that an H200 copies


def rows(*shape):
    return torch.randn(*shape, device=DEVICE).bfloat16()


def timed(call, count=100):
    for _ in range(10):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count * 1e6


def graphed(call):
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def require(what, found, most):
    assert found <= most, f"{what}: {found} is above {most}"


def drafted(kind, N, T):
    """N sequences of T rows each; with T = 1 a decoded token."""
    A_log, bias = torch.randn(HV, device=DEVICE), rows(HV)
    pool = (torch.randn(N * T + 1, HV, C, C, device=DEVICE) * 0.1).to(kind)
    before = pool.clone()
    slots = (1 + torch.arange(N * T, device=DEVICE, dtype=torch.int32)).view(N, T)
    accepted = torch.randint(1, T + 1, (N,), device=DEVICE, dtype=torch.int32)
    q, k, v = rows(N, T, HK, C), rows(N, T, HK, C), rows(N, T, HV, C)
    a, b = rows(N, T, HV), rows(N, T, HV)
    at = dict(read_slots=slots, write_slots=slots, accepted=accepted) if T > 1 else \
        dict(read_slots=slots[:, 0].contiguous(), write_slots=slots[:, 0].contiguous())

    def call():
        return serving.gated_delta_rule(q, k, v, a, b, A_log, bias, pool=pool, first_slot=1, **at)
    o = call()
    after = pool.clone()
    for n in range(min(N, 3)):
        gates = reference.gdn_gates(a[n], b[n], A_log, bias)
        expected, states = reference.delta_rule(q[n], k[n], v[n], *gates,
                                                before[slots[n, accepted[n] - 1]], C ** -0.5)
        require("o", reference.error(o[n], expected), 4e-3)
        for t, state in enumerate(states):
            require("state", reference.error(after[slots[n, t]], state),
                    1e-5 if kind == torch.float32 else 4e-3)
    assert torch.equal(after[0], before[0])
    replay = graphed(call)
    pool.copy_(before)
    replay()
    assert torch.equal(pool, after)
    floor = N * HV * C * C * pool.element_size() * (1 + T) / RATE
    print(f"{T} rows, B = {N}, {str(kind)[6:]} pool: {timed(replay):.1f} us in a graph, "
          f"{timed(call):.1f} eager, states' bytes {floor:.1f} us")


def prefill(rows_in_all=8192):
    offsets = torch.tensor([0, 3000, 3001, rows_in_all], device=DEVICE, dtype=torch.int32)
    q, k, v = rows(1, rows_in_all, HK, C), rows(1, rows_in_all, HK, C), rows(1, rows_in_all, HV, C)
    gate = -0.1 * torch.rand(1, rows_in_all, HV, device=DEVICE)
    beta = torch.rand(1, rows_in_all, HV, device=DEVICE)
    pool = torch.randn(9, HV, C, C, device=DEVICE) * 0.1
    before, slots = pool.clone(), torch.tensor([4, -1, 7], device=DEVICE, dtype=torch.int32)
    start = torch.stack([before[4], torch.zeros_like(before[0]), before[7]])
    common = dict(use_qk_l2norm_in_kernel=True, state_v_first=True, cu_seqlens=offsets)

    def dense():
        return chunk_gated_delta_rule(q, k, v, gate, beta, initial_state=start,
                                      output_final_state=True, **common)

    def pooled():
        return chunk_gated_delta_rule(q, k, v, gate, beta, initial_state=pool,
                                      inplace_final_state=True, ssm_state_indices=slots, **common)
    (o, last), (from_pool, _) = dense(), pooled()
    assert torch.equal(o[0, :3000], from_pool[0, :3000]) and torch.equal(o[0, 3001:], from_pool[0, 3001:])
    assert torch.equal(pool[4], last[0]) and torch.equal(pool[7], last[2]) and torch.equal(pool[:4], before[:4])
    print(f"prefill of {rows_in_all} rows: {timed(graphed(pooled)):.1f} us in a graph, "
          f"{timed(graphed(dense)):.1f} from a dense state")


def main():
    torch.manual_seed(0)
    print(torch.cuda.get_device_name())
    with torch.no_grad():
        for kind in (torch.float32, torch.bfloat16):
            for N, T in ((1, 1), (64, 1), (256, 1), (1, 4), (64, 4)):
                drafted(kind, N, T)
        prefill()


if __name__ == "__main__":
    main()
