"""How much a head's weights look like a diagonal, a vertical line or blocks: numbers from 0 to 1.

Each pattern score says how much of a row's weight lies where the ideal row has it, on average over the rows.
"""
import torch

from helpers.guards import check_sizes, guard, what


def diagonal_score(weights, offset):
    """The mean weight of key i + offset, over all queries i that have such a key.

    weights: (..., n, n). Returns (...).
    """
    return weights.diagonal(offset, dim1=-2, dim2=-1).mean(dim=-1)


def vertical_score(weights, key):
    """The mean weight of this one key, over all queries: (..., n, n) -> (...)."""
    return weights[..., key].mean(dim=-1)


def block_score(weights, blocks):
    """How evenly each query spreads its weight over its own block, and nowhere else.

    weights: (..., n, n). blocks: for each token, the number of its block, such as
    [0, 0, 0, 1, 1]. Returns (...).
    """
    blocks = torch.as_tensor(blocks, device=weights.device)
    same = (blocks[:, None] == blocks).to(weights.dtype)  # (n, n)
    ideal = same / same.sum(dim=-1, keepdim=True)       # each row spread evenly over its block
    return torch.minimum(weights, ideal).sum(dim=-1).mean(dim=-1)


def pattern_scores(weights, blocks, offsets=(-2, -1, 0, 1, 2)):
    """The best diagonal of these offsets, the best vertical, and the block score: (..., n, n) -> (..., 3)."""
    check_square(weights)
    if not len(offsets):
        raise ValueError("offsets must be at least one number")
    diagonal = torch.stack([diagonal_score(weights, offset) for offset in offsets]).amax(dim=0)
    vertical = torch.stack([vertical_score(weights, key) for key in range(weights.shape[-1])]).amax(dim=0)
    return torch.stack([diagonal, vertical, block_score(weights, blocks)], dim=-1)


# ------------------------------------------------------------------ wrong input, refused by name
def check_square(weights):
    """Refuse what is no tensor of n x n weights; return n."""
    if not isinstance(weights, torch.Tensor) or weights.ndim < 2 or weights.shape[-1] != weights.shape[-2] or not weights.shape[-1]:
        raise ValueError(f"weights must be a tensor (..., n, n), as many keys as queries; got {what(weights)}")
    if not weights.is_floating_point():
        raise ValueError(f"weights must be floating-point numbers, got {weights.dtype}; pass weights.float()")
    return weights.shape[-1]


def _check_offset(weights, offset):
    n = check_square(weights)
    check_sizes(least=1 - n, offset=offset)
    if offset >= n:
        raise ValueError(f"offset must be from {1 - n} to {n - 1} for {n} keys, or no query has such a key; got {offset}")


def _check_key(weights, key):
    n = check_square(weights)
    check_sizes(least=-n, key=key)
    if key >= n:
        raise ValueError(f"key must be from 0 to {n - 1} for {n} keys; got {key}")


def _check_blocks(weights, blocks):
    n = check_square(weights)
    try:
        shape = tuple(torch.as_tensor(blocks).shape)
    except (TypeError, ValueError, RuntimeError):
        shape = None
    if shape != (n,):
        raise ValueError(f"blocks must be {n} numbers, for each token that of its block; got {blocks!r}")


diagonal_score = guard(diagonal_score, _check_offset)
vertical_score = guard(vertical_score, _check_key)
block_score = guard(block_score, _check_blocks)
