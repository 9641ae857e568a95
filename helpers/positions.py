"""Four ways to tell attention where a token stands: two tables added to the input, two changes of the score."""
import torch
from torch import nn

from helpers.attention import DotProductAttention
from helpers.guards import check_sizes, guard, guard_sizes, holds, what


def position_angles(steps, width, device=None):
    """The angle i / 10000^(2j / width) for every position i and every pair of columns j.

    Returns (steps, width / 2 rounded up), in float64: near position 1000 an angle in float32
    would be off by about 3e-5, and so would its sine and cosine.
    """
    positions = torch.arange(steps, dtype=torch.float64, device=device)
    pairs = torch.arange(0, width, 2, dtype=torch.float64, device=device)  # 2j
    return torch.outer(positions, 10000 ** (-pairs / width))


class PositionalEncoding(nn.Module):
    """Adds a fixed row of sines and cosines at each position. Vaswani et al. 2017, section 3.5.

    P[0, i, 2j] = sin(i / 10000^(2j / d)), P[0, i, 2j + 1] = cos of the same angle, where
    d = num_hiddens; an odd d ends with a sine.
    forward: X (batch, steps, num_hiddens), at most max_len steps, else ValueError; returns
    dropout(X + P), of X's shape and type. P is a buffer: it moves with the module, and no
    checkpoint holds it.
    """
    def __init__(self, num_hiddens, dropout, max_len=1000):
        super().__init__()
        check_table(num_hiddens, max_len)
        self.dropout = nn.Dropout(dropout)
        angles = position_angles(max_len, num_hiddens)      # (max_len, pairs of columns)
        P = torch.empty(1, max_len, num_hiddens)
        P[0, :, 0::2] = angles.sin()
        P[0, :, 1::2] = angles.cos()[:, :num_hiddens // 2]  # an odd width has one cosine less
        self.register_buffer("P", P, persistent=False)

    def forward(self, X):
        check_steps(X, self.P)
        return self.dropout(X + self.P[:, :X.shape[1]].to(X))  # (batch, steps, num_hiddens)


class LearnedPositionalEncoding(nn.Module):
    """Adds a row at every position, too, but learns it. Gehring et al. 2017, section 3.1.

    Interface and errors as in PositionalEncoding. P is a parameter: a checkpoint holds its
    max_len rows, and rows that no training example reaches keep their random start.
    """
    def __init__(self, num_hiddens, dropout, max_len=1000):
        super().__init__()
        check_table(num_hiddens, max_len)
        self.dropout = nn.Dropout(dropout)
        self.P = nn.Parameter(torch.randn(1, max_len, num_hiddens))

    def forward(self, X):
        check_steps(X, self.P)
        return self.dropout(X + self.P[:, :X.shape[1]].to(X))  # (batch, steps, num_hiddens)


def rotate(X):
    """Turn each pair of columns (2j, 2j + 1) of row i by the angle i / 10000^(2j / width).

    X: (..., steps, width) with an even width, else ValueError. Returns X's shape and type; no
    row changes its length. Su et al. 2021, section 3.2.
    """
    check_pairs(X)
    angles = position_angles(X.shape[-2], X.shape[-1])      # (steps, width / 2)
    cos, sin = angles.cos().to(X), angles.sin().to(X)       # an Apple GPU has no float64
    x, y = X[..., 0::2], X[..., 1::2]                       # (..., steps, width / 2)
    return torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2)


class RotaryAttention(DotProductAttention):
    """Rotary positions: queries and keys are turned before they meet, values are not.

    Su et al. 2021, section 3.2.
    """
    def score(self, queries, keys):
        return super().score(rotate(queries), rotate(keys))  # (batch, queries, keys)


class ALiBiAttention(DotProductAttention):
    """A linear distance bias: a(q_i, k_j) = q_i . k_j / sqrt(d) - m |i - j|.

    slopes: one m for each head, fixed. queries, keys: (batch, heads, n, width), or (batch *
    heads, n, width), heads of an example one after the other, as transpose_qkv puts them.
    Press, Smith, Lewis 2022, section 3.
    """
    def __init__(self, slopes, dropout):
        super().__init__(dropout)
        slopes = torch.as_tensor(slopes, dtype=torch.float32)
        self.register_buffer("slopes", slopes, persistent=False)

    def score(self, queries, keys):
        scores = super().score(queries, keys)               # (batch * heads, queries, keys)
        check_slopes(scores, self.slopes)
        i, j = (torch.arange(n, device=scores.device) for n in scores.shape[-2:])
        distance = (i[:, None] - j).abs()                   # (queries, keys)
        bias = (-self.slopes[:, None, None] * distance).to(scores)  # (heads, queries, keys)
        if scores.ndim == 4:
            return scores + bias
        return (scores.unflatten(0, (-1, len(bias))) + bias).flatten(0, 1)


def alibi_slopes(num_heads):
    """The slopes of the paper: 2^(-8h / num_heads) for h = 1, 2, ...; 1/2 to 1/256 for 8 heads."""
    check_sizes(num_heads=num_heads)
    return [2 ** (-8 * h / num_heads) for h in range(1, num_heads + 1)]


def check_table(num_hiddens, max_len):
    """Refuse an empty table."""
    check_sizes(num_hiddens=num_hiddens, max_len=max_len)


def _check_angles(steps, width, device):
    check_sizes(least=0, steps=steps)
    check_sizes(width=width)


def _check_slope_list(slopes, **others):
    try:
        numbers = torch.as_tensor(slopes, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError):
        numbers = None
    if numbers is None or numbers.ndim != 1 or not len(numbers) or holds(numbers, lambda numbers: ~numbers.isfinite()):
        raise ValueError(f"slopes must be a list of finite numbers, one for each head, such as alibi_slopes(num_heads) gives; "
                         f"got {slopes!r}")


position_angles = guard(position_angles, _check_angles)
ALiBiAttention.__init__ = guard(ALiBiAttention.__init__, _check_slope_list)
guard_sizes(PositionalEncoding, LearnedPositionalEncoding, ALiBiAttention)


def check_steps(X, P):
    """Refuse an X without a row of P for each of its steps; broadcasting would hide some of these mistakes."""
    max_len, num_hiddens = P.shape[1:]
    if not isinstance(X, torch.Tensor) or X.ndim != 3 or not X.is_floating_point():
        raise ValueError(f"X must be floating-point numbers (batch, steps, {num_hiddens}), embeddings and not token ids; "
                         f"got {what(X)}")
    if P.is_meta and not X.is_meta:
        raise ValueError(f"X is on {X.device}, but the positions are on meta, where tensors hold no numbers")
    if X.shape[2] != num_hiddens:
        raise ValueError(f"X has width {X.shape[2]}, shape {tuple(X.shape)}; it must be {num_hiddens}, num_hiddens")
    if X.shape[1] > max_len:
        raise ValueError(f"X has {X.shape[1]} steps, but there are only {max_len} positions; "
                         f"make the encoding with max_len={X.shape[1]} or more")


def check_pairs(X):
    """Refuse rows whose columns do not come in pairs."""
    if not isinstance(X, torch.Tensor) or not X.is_floating_point():     # whole numbers would be turned by 0 or 1 only
        raise ValueError(f"X must be a tensor of floating-point numbers (..., steps, width); got {what(X)}")
    if X.ndim < 2 or X.shape[-1] % 2:
        raise ValueError("X must be (..., steps, width) with an even width, since its columns are turned in pairs; "
                         f"got shape {tuple(X.shape)}")


def check_slopes(scores, slopes):
    """Refuse slopes that are not one for each head of the scores, as far as the shape tells."""
    fits = slopes.ndim == 1 and len(slopes) > 0 and (
        scores.shape[0] % len(slopes) == 0 if scores.ndim == 3 else scores.shape[1] == len(slopes))
    if not fits:
        raise ValueError(f"slopes must be one number for each head, got shape {tuple(slopes.shape)}; the scores are "
                         f"{tuple(scores.shape)}, (batch, heads, queries, keys) or (batch * heads, queries, keys)")
