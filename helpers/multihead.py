"""Multi-head attention: several attentions side by side, computed as one."""
import numbers

import torch
from torch import nn
from torch.nn import functional as F

from helpers.attention import DotProductAttention, attend_mask, check_qkv, check_width
from helpers.guards import check_number, check_sizes, guard, guard_sizes, what


def transpose_qkv(X, num_heads):
    """Give each head its columns.

    X: (batch, n, num_hiddens). Returns (batch * heads, n, width of a head), a head being
    num_hiddens / num_heads wide. Head 0 gets the first columns, head 1 the next, and so on;
    the heads of one example come one after the other. Raises ValueError where num_hiddens
    is no multiple of num_heads.
    """
    check_heads(X, num_heads)
    X = X.unflatten(-1, (num_heads, -1))                # (batch, n, heads, width of a head)
    X = X.permute(0, 2, 1, 3)                           # (batch, heads, n, width of a head)
    return X.flatten(0, 1)                              # (batch * heads, n, width of a head)


def transpose_output(X, num_heads):
    """Undo transpose_qkv: (batch * heads, n, width of a head) -> (batch, n, num_hiddens)."""
    check_heads(X, num_heads, axis=0)
    X = X.unflatten(0, (-1, num_heads))                 # (batch, heads, n, width of a head)
    X = X.permute(0, 2, 1, 3)                           # (batch, n, heads, width of a head)
    return X.flatten(2)                                 # (batch, n, num_hiddens): side by side


class MultiHeadAttention(nn.Module):
    """num_heads scaled dot-product attentions, each num_hiddens / num_heads wide.

    forward: queries (batch, queries, query_size), keys (batch, keys, key_size), values
    (batch, keys, value_size); valid_lens and mask as in attend_mask. Returns (batch, queries,
    num_hiddens). Afterwards attention_weights holds (batch, heads, queries, keys), before
    dropout, detached. With need_weights=False a fused kernel computes the same without storing
    them, and attention_weights is None. Raises ValueError for shapes that do not fit.
    Vaswani et al. 2017, section 3.2.2.
    """
    def __init__(self, key_size, query_size, value_size, num_hiddens, num_heads, dropout,
                 bias=False):
        super().__init__()
        check_heads(num_hiddens, num_heads)
        self.num_heads = num_heads
        self.attention = DotProductAttention(dropout)
        self.W_q = nn.Linear(query_size, num_hiddens, bias=bias)
        self.W_k = nn.Linear(key_size, num_hiddens, bias=bias)
        self.W_v = nn.Linear(value_size, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.attention_weights = None

    def forward(self, queries, keys, values, valid_lens=None, mask=None, need_weights=True):
        check_inputs(self, queries, keys, values, need_weights)
        h = self.num_heads
        mask = mask_for_heads(queries, keys, h, valid_lens, mask)
        queries = transpose_qkv(self.W_q(queries), h)   # (batch * heads, queries, width)
        keys = transpose_qkv(self.W_k(keys), h)         # (batch * heads, keys, width)
        values = transpose_qkv(self.W_v(values), h)     # (batch * heads, keys, width)
        if need_weights:
            output = self.attention(queries, keys, values, mask=mask)
            self.attention_weights = self.attention.attention_weights.unflatten(0, (-1, h))
        else:
            dropout = self.attention.dropout.p if self.training else 0.0
            output = fused_attention(queries, keys, values, mask, dropout)
            self.attention_weights = self.attention.attention_weights = None
        return self.W_o(transpose_output(output, h))    # (batch, queries, num_hiddens)


def mask_for_heads(queries, keys, num_heads, valid_lens, mask):
    """One mask for each head of each example; valid_lens and mask as in attend_mask.

    Returns (batch * heads, 1 or queries, keys), or None where all may be attended to. The
    heads of an example come one after the other, as transpose_qkv puts them.
    """
    shape = (len(queries), num_heads, queries.shape[1], keys.shape[1])
    scores = queries.new_empty(1).expand(shape)         # only their shape counts: no memory
    allowed = attend_mask(scores, valid_lens, mask)     # each axis but the keys may be 1
    if allowed is None:
        return None
    return allowed.expand(*shape[:2], -1, -1).flatten(0, 1)


def fused_attention(queries, keys, values, mask=None, dropout=0.0):
    """Scaled dot-product attention by PyTorch's fused kernel. mask: True = may attend."""
    if mask is None:
        return F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout)
    empty = ~mask.any(dim=-1, keepdim=True)             # rows that may attend to nothing
    output = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask | empty,
                                            dropout_p=dropout)
    return output.masked_fill(empty, 0)


def _check_for_heads(queries, keys, num_heads, **masks):                 # attend_mask checks these
    check_qkv(queries, keys, keys)
    check_sizes(num_heads=num_heads)


def _check_fused(queries, keys, values, mask, dropout):
    check_qkv(queries, keys, values, mask)
    check_width("keys", keys, queries.shape[-1], "the queries' width")
    check_number(0, 1, dropout=dropout)


guard_sizes(MultiHeadAttention)
mask_for_heads = guard(mask_for_heads, _check_for_heads)
fused_attention = guard(fused_attention, _check_fused)


def check_inputs(module, queries, keys, values, need_weights):
    """Refuse, by name, what does not fit together or does not fit this module."""
    check_qkv(queries, keys, values)
    if not need_weights and type(module.attention) is not DotProductAttention:
        raise ValueError("need_weights must be True with an attention of another kind: the fused kernel computes the plain "
                         f"dot product only, not {type(module.attention).__name__}")
    if queries.ndim != 3:
        raise ValueError(f"queries must be (batch, queries, query_size), without an axis for heads; got shape "
                         f"{tuple(queries.shape)}")
    check_width("queries", queries, module.W_q, "query_size")
    check_width("keys", keys, module.W_k, "key_size")
    check_width("values", values, module.W_v, "value_size")


def check_heads(width, num_heads, axis=-1):
    """Refuse a width that the heads cannot share evenly. width: a number, or a tensor (batch, n, width) and which axis of it."""
    check_sizes(num_heads=num_heads)
    shape = ""
    if not isinstance(width, numbers.Integral):
        if not isinstance(width, torch.Tensor) or width.ndim != 3:
            raise ValueError(f"X must be a tensor with three axes, (batch, n, num_hiddens) or (batch * num_heads, n, width of a "
                             f"head); got {what(width)}")
        shape, width = f"X {tuple(width.shape)}: ", width.shape[axis]
    if width % num_heads == 0:
        return
    if axis == 0:
        raise ValueError(f"{shape}the first axis must be batch * num_heads, but {width} is no multiple of num_heads {num_heads}")
    below = width // num_heads * num_heads
    near = f"{below} or {below + num_heads}" if below else f"{num_heads}"
    raise ValueError(f"{shape}num_hiddens must be a multiple of num_heads, so that all heads are equally wide: {width} "
                     f"is no multiple of {num_heads}, {near} would do")
