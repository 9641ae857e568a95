"""Multi-head attention: several attentions side by side, computed as one."""
import numbers

import torch
from torch import nn
from torch.nn import functional as F

from helpers.attention import DotProductAttention, attend_mask, check_qkv, check_width
from helpers.guards import check_number, check_sizes, guard, guard_sizes, what


def transpose_qkv(X, num_heads):
    """Give each head its columns.

    (batch, n, num_hiddens) -> (batch * num_heads, n, num_hiddens / num_heads). Head 0 gets the
    first columns, head 1 the next, and so on; the heads of one example follow one another.
    Raises ValueError where num_hiddens is no multiple of num_heads.
    """
    check_heads(X, num_heads)
    X = X.unflatten(-1, (num_heads, -1))        # (batch, n, heads, width of a head)
    X = X.permute(0, 2, 1, 3)                   # (batch, heads, n, width of a head)
    return X.flatten(0, 1)                      # (batch * heads, n, width of a head)


def transpose_output(X, num_heads):
    """Undo transpose_qkv.

    (batch * num_heads, n, width of a head) -> (batch, n, num_hiddens).
    """
    check_heads(X, num_heads, axis=0)
    X = X.unflatten(0, (-1, num_heads))         # (batch, heads, n, width of a head)
    X = X.permute(0, 2, 1, 3)                   # (batch, n, heads, width of a head)
    return X.flatten(2)                         # (batch, n, num_hiddens): heads side by side


class MultiHeadAttention(nn.Module):
    """num_heads scaled dot-product attentions, each num_hiddens / num_heads wide.

    Vaswani et al. 2017, section 3.2.2.
    forward: queries (batch, queries, query_size), keys (batch, keys, key_size), values (batch,
    keys, value_size); valid_lens and mask as in attend_mask. Returns (batch, queries,
    num_hiddens). Afterwards attention_weights holds (batch, heads, queries, keys), before
    dropout, detached. With need_weights=False a fused kernel computes the same without storing
    them, and attention_weights is None.
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
        check_qkv(queries, keys, values)
        check_width("queries", queries, self.W_q, "query_size")
        check_width("keys", keys, self.W_k, "key_size")
        check_width("values", values, self.W_v, "value_size")
        mask = mask_for_heads(queries, keys, self.num_heads, valid_lens, mask)
        # All three: (batch * heads, queries or keys, width of a head).
        queries = transpose_qkv(self.W_q(queries), self.num_heads)
        keys = transpose_qkv(self.W_k(keys), self.num_heads)
        values = transpose_qkv(self.W_v(values), self.num_heads)
        if need_weights:
            output = self.attention(queries, keys, values, mask=mask)  # like queries
            weights = self.attention.attention_weights          # (batch * heads, queries, keys)
            self.attention_weights = weights.unflatten(0, (-1, self.num_heads))
        else:
            dropout = self.attention.dropout.p if self.training else 0.0
            output = fused_attention(queries, keys, values, mask, dropout)
            self.attention_weights = self.attention.attention_weights = None
        output = transpose_output(output, self.num_heads)       # (batch, queries, num_hiddens)
        return self.W_o(output)


def mask_for_heads(queries, keys, num_heads, valid_lens, mask):
    """Lengths and mask of each example as one mask for each of its heads, (batch * heads, 1 or queries, keys), or None.

    All heads of an example come one after the other, as transpose_qkv puts them: repeated, not tiled.
    """
    batch, heads = queries.shape[0], num_heads
    scores = queries.new_empty(1).expand(batch, heads, queries.shape[1], keys.shape[1])  # only their shape: no memory
    allowed = attend_mask(scores, valid_lens, mask)                      # (batch or 1, heads or 1, queries or 1, keys)
    return None if allowed is None else allowed.expand(batch, heads, -1, -1).flatten(0, 1)


def fused_attention(queries, keys, values, mask=None, dropout=0.0):
    """Scaled dot-product attention by PyTorch's fused kernel, which never stores the weights. mask: True = may attend."""
    if mask is None:
        return F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout)
    empty = ~mask.any(dim=-1, keepdim=True)                              # rows that may attend to nothing
    output = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask | empty, dropout_p=dropout)
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
