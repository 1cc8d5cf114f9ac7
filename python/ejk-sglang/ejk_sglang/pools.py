"""Keywords and calls for what SGLang asks of a pool: slots in place, drafts that leave it, tracked states."""

import torch


def slots(pool, indices):
    return dict(pool=pool, read_slots=indices, write_slots=indices)


def drafted(run, ssm_states, cache_indices, buffer, buffer_indices, steps):
    """Runs `steps` drafts a sequence from states of the pool, which stays as it is: `buffer` [rows, at least
    `steps`, ...] takes the state after each row. A start lies in the buffer's last row until its sequence has
    been read."""
    flat, width = buffer.flatten(0, 1), buffer.shape[1]
    base = buffer_indices * width
    given = (cache_indices >= 0) & (buffer_indices >= 0)
    # Sequences without a slot, of which a padded batch has some, do as the first one with a slot does:
    # what is written twice is the same.
    own = torch.arange(given.shape[0], device=given.device)
    own = torch.where(given, own, given.int().argmax())
    last = (base[own].clamp(min=0) + width - 1).long()
    start = ssm_states[cache_indices[own].clamp(min=0).long()].to(flat.dtype)
    flat[last] = torch.where(given[own].view(-1, *[1] * (flat.ndim - 1)), start, flat[last])
    starts = torch.where(given, base + (width - 1), -1)
    writes = base[:, None] + torch.arange(steps, device=base.device, dtype=base.dtype)
    writes = torch.where(given[:, None], writes, -1)
    return run(pool=flat, read_slots=starts, write_slots=writes)


def cut(offsets, rows):
    """The offsets of twice as many sequences: each one's first `rows` and the others."""
    halves = torch.stack([offsets[:-1], offsets[:-1] + rows.to(offsets.dtype)], 1).flatten()
    return torch.cat([halves, offsets[-1:]])


def firsts(indices):
    """Slots for sequences that `cut` has made: the second of each two is skipped."""
    return torch.stack([indices, torch.full_like(indices, -1)], 1).flatten()
