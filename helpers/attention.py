"""Attention for a batch: masks, the masked softmax, and the two classic scores behind one interface."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from helpers.guards import guard_sizes, holds, what


def attend_mask(scores, valid_lens=None, mask=None):
    """Which keys each query may attend to: a Boolean tensor, True = may attend; None for all.

    scores: (batch, queries, keys) or (batch, heads, queries, keys).
    valid_lens: (batch,) or (batch, queries). Only so many keys count, from the first on; a
        length beyond the number of keys masks nothing.
    mask: Boolean or integer, True or 1 = may attend. Its rank decides what it means:
        (batch, keys), (batch, queries, keys) or (batch, heads, queries, keys); each axis but
        the keys may be 1.
    Returns a tensor that broadcasts to scores; a key must be allowed by both. Raises
    ValueError for other shapes.
    """
    check_masks(scores, valid_lens, mask)

    def over_heads(allowed):                              # the same for all heads, if any
        return allowed[:, None] if allowed.ndim < scores.ndim else allowed

    from_lens = from_mask = None
    if valid_lens is not None:
        lens = torch.as_tensor(valid_lens).to(scores.device, torch.int64)
        lens = lens[:, None] if lens.ndim == 1 else lens    # (batch, 1 or queries)
        positions = torch.arange(scores.shape[-1], device=scores.device)
        from_lens = over_heads(positions < lens[..., None])  # (batch, 1 or queries, keys)
    if mask is not None:
        mask = torch.as_tensor(mask).to(scores.device).bool()
        mask = mask[:, None] if mask.ndim == 2 else mask    # (batch, 1 or queries, keys)
        from_mask = over_heads(mask)
    if from_lens is None or from_mask is None:
        return from_mask if from_lens is None else from_lens
    return from_lens & from_mask


def masked_softmax(X, valid_lens=None, mask=None):
    """Softmax over the last axis (the keys) in which masked keys get weight exactly 0.

    X: scores, (batch, queries, keys) or (batch, heads, queries, keys), of any floating-point
        type; not changed.
    valid_lens, mask: see attend_mask.
    Returns weights of X's shape and type. Every row sums to 1; a row in which no key may be
    attended to is all zeros, with zero gradients.
    """
    allowed = attend_mask(X, valid_lens, mask)
    if allowed is None:
        return F.softmax(X, dim=-1)
    # The lowest number of this type, not -inf: a row of -inf only would become NaN.
    X = X.masked_fill(~allowed, torch.finfo(X.dtype).min)
    return F.softmax(X, dim=-1).masked_fill(~allowed, 0)


class Attention(nn.Module):
    """Attention whatever the score: score the keys, masked softmax, weighted sum of values.

    forward: queries (batch, queries, query_size), keys (batch, keys, key_size), values
    (batch, keys, value_size), each with an axis for heads behind batch or without;
    valid_lens and mask as in attend_mask. Returns (batch, queries, value_size). Afterwards
    attention_weights holds the weights (batch, queries, keys), before dropout, detached.
    """
    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.attention_weights = None

    def score(self, queries, keys):
        raise NotImplementedError("a subclass says how a query is scored against a key")

    def forward(self, queries, keys, values, valid_lens=None, mask=None):
        check_qkv(queries, keys, values)
        scores = self.score(queries, keys)                  # (batch, queries, keys)
        weights = masked_softmax(scores, valid_lens, mask)
        self.attention_weights = weights.detach()
        return self.dropout(weights) @ values               # (batch, queries, value_size)


class DotProductAttention(Attention):
    """Scaled dot product: a(q, k) = q . k / sqrt(d). It has no parameters.

    Queries and keys must have the same width d. Vaswani et al. 2017, section 3.2.1.
    """
    def score(self, queries, keys):
        check_width("keys", keys, queries.shape[-1], "the queries' width")
        d = queries.shape[-1]
        # Queries are scaled, not scores: fewer divisions, and half precision does not overflow.
        return (queries / math.sqrt(d)) @ keys.transpose(-2, -1)  # (batch, queries, keys)


class AdditiveAttention(Attention):
    """Additive score: a(q, k) = tanh(q W_q + k W_k) w_v.

    key_size and query_size may differ; num_hiddens is the width in which they meet.
    Bahdanau et al. 2015, appendix A.1.2.
    """
    def __init__(self, key_size, query_size, num_hiddens, dropout):
        super().__init__(dropout)
        self.W_k = nn.Linear(key_size, num_hiddens, bias=False)
        self.W_q = nn.Linear(query_size, num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)

    def score(self, queries, keys):
        check_width("queries", queries, self.W_q, "query_size")
        check_width("keys", keys, self.W_k, "key_size")
        queries = self.W_q(queries).unsqueeze(-2)           # (batch, queries, 1, num_hiddens)
        keys = self.W_k(keys).unsqueeze(-3)                 # (batch, 1, keys, num_hiddens)
        return self.w_v(torch.tanh(queries + keys)).squeeze(-1)  # (batch, queries, keys)


guard_sizes(Attention, AdditiveAttention)


def check_qkv(queries, keys, values):
    """Refuse queries, keys and values that do not belong together, by name."""
    for name, tensor in (("queries", queries), ("keys", keys), ("values", values)):
        if tensor is queries and name != "queries":                      # self-attention
            continue
        if not isinstance(tensor, torch.Tensor) or tensor.ndim not in (3, 4):
            raise ValueError(f"{name} must be a tensor (batch, {name}, width), with an axis for heads behind batch or "
                             f"without; got {what(tensor)}")
        mixed = tensor.dtype != queries.dtype and not torch.is_autocast_enabled(tensor.device.type)
        if mixed or not tensor.is_floating_point():
            raise ValueError(f"{name} hold {tensor.dtype}, queries {queries.dtype}: all three need one floating-point type")
        if tensor.device != queries.device:
            raise ValueError(f"{name} are on {tensor.device}, queries on {queries.device}: move both to one device")
        if tensor.ndim != queries.ndim or tensor.shape[:-2] != queries.shape[:-2]:
            raise ValueError(f"{name} {tuple(tensor.shape)} and queries {tuple(queries.shape)} must have the same batch "
                             "(and heads) in front")
    if values.shape[-2] != keys.shape[-2]:
        raise ValueError(f"every key needs a value: {keys.shape[-2]} keys {tuple(keys.shape)}, "
                         f"{values.shape[-2]} values {tuple(values.shape)}")


def check_width(name, tensor, width, source):
    """Refuse a tensor whose last axis is not width, and say where that width comes from.

    width: a number, or the linear layer that takes the tensor: then type and device have to be the layer's, too.
    """
    layer, width = (width, width.in_features) if isinstance(width, nn.Module) else (None, width)
    if tensor.shape[-1] != width:
        raise ValueError(f"{name} have width {tensor.shape[-1]}, shape {tuple(tensor.shape)}; "
                         f"it must be {width}, {source}")
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, torch.Tensor):
        return
    if tensor.device != weight.device:
        raise ValueError(f"{name} are on {tensor.device}, the module on {weight.device}: move one of them, as in "
                         f"{name}.to(device) or module.to(device)")
    if tensor.dtype != weight.dtype and not torch.is_autocast_enabled(tensor.device.type):
        raise ValueError(f"{name} hold {tensor.dtype}, the module {weight.dtype}: convert one of them, as in "
                         f"{name}.to({weight.dtype}) or module.to({tensor.dtype})")


def check_masks(scores, valid_lens, mask):
    """Refuse scores that have no softmax, and lengths and masks whose shape or type could be meant in two ways."""
    if not isinstance(scores, torch.Tensor):
        raise ValueError(f"scores must be a tensor (batch, queries, keys), got {what(scores)}")
    if not scores.is_floating_point() or scores.dtype.itemsize < 2:      # a float8 has no softmax either
        raise ValueError(f"scores must be floating-point numbers of 16 bits or more, got {scores.dtype}; pass scores.float()")
    if valid_lens is None and mask is None:
        return
    if scores.ndim not in (3, 4):
        raise ValueError("scores must be (batch, queries, keys) or (batch, heads, queries, keys) where valid_lens or "
                         f"mask is given; got {what(scores)}")
    batch, queries, keys = scores.shape[0], *scores.shape[-2:]
    if valid_lens is not None:
        lens = _as_tensor("valid_lens", valid_lens, scores)
        if lens.dtype == torch.bool:
            raise ValueError("valid_lens counts keys, but is Boolean; pass it as mask=, where True = may attend")
        if tuple(lens.shape) not in ((batch,), (batch, queries)):
            raise ValueError(f"valid_lens must be (batch,) = ({batch},) or (batch, queries) = ({batch}, {queries}); "
                             f"got {what(lens)}")
        if lens.is_complex() or holds(lens, lambda lens: (lens < 0) | (lens != lens.floor()) if lens.is_floating_point() else lens < 0):
            raise ValueError(f"valid_lens counts keys: whole numbers from 0; got {lens.tolist()}")
    if mask is not None:
        mask = _as_tensor("mask", mask, scores)
        if mask.is_floating_point() or mask.is_complex():
            raise ValueError(f"mask must be Boolean or integer, True or 1 = may attend; got {mask.dtype}. "
                             "For a mask of ones and zeros pass mask.bool()")
        full = {2: (batch, keys), 3: (batch, queries, keys), 4: tuple(scores.shape)}.get(mask.ndim)
        if full is None or len(full) != mask.ndim or mask.shape[-1] != keys or any(
                got not in (1, want) for got, want in zip(mask.shape, full)):
            raise ValueError(f"mask must be (batch, keys) = ({batch}, {keys}), (batch, queries, keys) = "
                             f"({batch}, {queries}, {keys}) or the scores' shape {tuple(scores.shape)}; got {what(mask)}")
        if mask.dtype != torch.bool and holds(mask, lambda mask: (mask != 0) & (mask != 1)):
            raise ValueError(f"mask must hold True and False or 1 and 0, 1 = may attend; got whole numbers from {mask.min()} "
                             f"to {mask.max()}. Lengths are passed as valid_lens=")


def _as_tensor(name, value, scores):
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be a tensor or a list of numbers, got {value!r}") from error
    if tensor.device.type == "meta" and scores.device.type != "meta":
        raise ValueError(f"{name} is on meta, where tensors hold no numbers; the scores are on {scores.device}")
    return tensor
