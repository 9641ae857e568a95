"""How much a head's weights look like a diagonal, a vertical line or blocks: numbers from 0 to 1.

Each pattern score says how much of a row's weight lies where the ideal row has it, on average over the rows.
"""
import torch


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
    diagonal = torch.stack([diagonal_score(weights, offset) for offset in offsets]).amax(dim=0)
    vertical = torch.stack([vertical_score(weights, key) for key in range(weights.shape[-1])]).amax(dim=0)
    return torch.stack([diagonal, vertical, block_score(weights, blocks)], dim=-1)
