"""Multi-head attention: several attentions side by side, computed as one."""
import numbers

import torch
from torch import nn
from torch.nn import functional as F

from helpers.attention import DotProductAttention, attend_mask, check_qkv, check_width, masked_softmax
from helpers.guards import all_true, check_number, check_sizes, guard_sizes, what


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
    dropout, detached. With need_weights=False it is None, and a fused kernel computes the same
    output without storing them. Raises ValueError for shapes that do not fit.
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
        check_inputs(self, queries, keys, values)
        # The fused kernel knows the plain dot product only, and hands out no weights.
        plain = type(self.attention) is DotProductAttention
        attend = self.fused if plain and not need_weights else self.explicit
        output = attend(queries, keys, values, valid_lens, mask)
        if not need_weights:
            self.attention_weights = None
        return self.W_o(output)                         # (batch, queries, num_hiddens)

    def project(self, queries, keys, values):
        layers = self.W_q, self.W_k, self.W_v
        if not (queries is keys is values and all(map(is_plain, layers))):
            return self.W_q(queries), self.W_k(keys), self.W_v(values)
        # Self-attention: one product for all three.
        weight = torch.cat([W.weight for W in layers])  # (3 * num_hiddens, query_size)
        bias = None if self.W_q.bias is None else torch.cat([W.bias for W in layers])
        return F.linear(queries, weight, bias).chunk(3, dim=-1)   # each (batch, n, num_hiddens)

    def explicit(self, queries, keys, values, valid_lens, mask):
        h = self.num_heads
        queries, keys, values = (transpose_qkv(X, h).unflatten(0, (-1, h))
                                 for X in self.project(queries, keys, values))
        scores = self.attention.score(queries, keys)    # (batch, heads, queries, keys)
        # Nobody else has the scores of the plain dot product, so they may be overwritten.
        plain = type(self.attention) is DotProductAttention
        softmax = softmax_in_place if plain else masked_softmax
        weights = softmax(scores, valid_lens, mask)     # (batch, heads, queries, keys)
        self.attention_weights = weights.detach()
        output = self.attention.dropout(weights) @ values     # (batch, heads, queries, width)
        return transpose_output(output.flatten(0, 1), h)      # (batch, queries, num_hiddens)

    def fused(self, queries, keys, values, valid_lens, mask):
        queries, keys, values = (X.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
                                 for X in self.project(queries, keys, values))
        dropout = self.attention.dropout.p if self.training else 0.0
        output = fused_attention(queries, keys, values, valid_lens, mask, dropout)
        return output.transpose(1, 2).flatten(2)        # (batch, queries, num_hiddens)


def softmax_in_place(scores, valid_lens=None, mask=None):
    """masked_softmax, but the scores are overwritten: two passes over memory less."""
    allowed = attend_mask(scores, valid_lens, mask)
    if allowed is None:
        return F.softmax(scores, dim=-1)
    with torch.no_grad():         # where the weight is 0 the softmax gives gradient 0 by itself
        scores.masked_fill_(~allowed, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1)
    some = allowed.any(dim=-1, keepdim=True)            # rows that may attend to some key
    return weights if all_true(some) else weights.masked_fill(~some, 0)


def fused_attention(queries, keys, values, valid_lens=None, mask=None, dropout=0.0):
    """Scaled dot-product attention by PyTorch's fused kernel, which keeps no weights.

    queries, keys, values: (batch, n, width), with an axis for heads behind batch or without;
    valid_lens and mask as in attend_mask. Returns queries' shape with the width of values.
    """
    check_fused(queries, keys, values, dropout)
    if valid_lens is None and mask is None:
        return F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout)
    shape = (*queries.shape[:-1], keys.shape[-2])
    scores = queries.new_empty(1).expand(shape)         # only their shape counts: no memory
    allowed = attend_mask(scores, valid_lens, mask)     # each axis but the keys may be 1
    some = allowed.any(dim=-1, keepdim=True)            # rows that may attend to some key
    if all_true(some):
        return F.scaled_dot_product_attention(queries, keys, values, allowed, dropout)
    output = F.scaled_dot_product_attention(queries, keys, values, allowed | ~some, dropout)
    return output.masked_fill(~some, 0)


guard_sizes(MultiHeadAttention)


def check_fused(queries, keys, values, dropout):
    """Refuse, by name, what the kernel would refuse in words of its own, or not at all."""
    check_qkv(queries, keys, values)
    check_width("keys", keys, queries.shape[-1], "the queries' width")
    check_number(0, 1, dropout=dropout)


def is_plain(layer):
    """Whether calling this layer does what nn.Linear does and no more: no hooks, no parts of it elsewhere."""
    hooks = (layer._forward_pre_hooks, layer._forward_hooks, layer._backward_pre_hooks, layer._backward_hooks)
    return type(layer) is nn.Linear and type(layer.weight) is nn.Parameter and not any(hooks)


def check_inputs(module, queries, keys, values):
    """Refuse, by name, what does not fit together or does not fit this module."""
    check_qkv(queries, keys, values)
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
