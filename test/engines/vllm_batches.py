"""A process of one rank and the batches that vLLM's scheduler hands to a layer, for tests on a CPU."""

import tempfile

import torch
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.v1.attention.backend import CommonAttentionMetadata


def start():
    """Inside of `set_current_vllm_config`."""
    init_distributed_environment(1, 0, "file://" + tempfile.mktemp(), 0, "gloo")
    initialize_model_parallel(1, 1)


def ints(values):
    return torch.tensor(values, dtype=torch.int32)


def load(layer, but=()):
    """Draws the parameters of a layer, and does what vLLM does after it has loaded them."""
    for module in layer.modules():
        method = getattr(module, "quant_method", None)
        if method is not None and module not in but:
            method.process_weights_after_loading(module)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)


def common(lengths, computed, table, drafts=None):
    """What builders of metadata start from: `lengths` rows of each sequence, which had `computed` before."""
    ends = ints([0] + torch.tensor(lengths).cumsum(0).tolist())
    lasts = [c + n for c, n in zip(computed, lengths)]
    drafts = drafts or [-1] * len(lengths)
    return CommonAttentionMetadata(
        query_start_loc=ends, query_start_loc_cpu=ends.clone(), seq_lens=ints(lasts), num_reqs=len(lengths),
        num_actual_tokens=sum(lengths), max_query_len=max(lengths), max_seq_len=max(lasts),
        block_table_tensor=ints(table), slot_mapping=torch.zeros(sum(lengths), dtype=torch.int64),
        seq_lens_cpu_upper_bound=ints(lasts),
        is_prefilling=torch.tensor([n > 1 and d < 0 for n, d in zip(lengths, drafts)]))
