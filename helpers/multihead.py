"""Multi-head attention: several attentions side by side, computed as one."""
import torch
from torch import nn
from torch.nn import functional as F

from helpers.attention import DotProductAttention, attend_mask, check_qkv, check_width


def transpose_qkv(X, num_heads):
    """Give each head its columns: (batch, n, num_hiddens) -> (batch * num_heads, n, num_hiddens / num_heads)."""
    check_heads(X.shape[-1], num_heads)
    X = X.reshape(*X.shape[:2], num_heads, X.shape[2] // num_heads)      # (batch, n, heads, width of a head)
    return X.permute(0, 2, 1, 3).flatten(0, 1)                           # an example for each head


def transpose_output(X, num_heads):
    """Undo transpose_qkv: (batch * num_heads, n, width of a head) -> (batch, n, num_hiddens)."""
    X = X.unflatten(0, (X.shape[0] // num_heads, num_heads))             # (batch, heads, n, width of a head)
    return X.permute(0, 2, 1, 3).flatten(2)                              # heads side by side again


class MultiHeadAttention(nn.Module):
    """num_heads scaled dot-product attentions, each num_hiddens / num_heads wide. Vaswani et al. 2017, section 3.2.2.

    forward: queries (batch, queries, query_size), keys (batch, keys, key_size), values (batch, keys, value_size);
    valid_lens and mask as in attend_mask. Returns (batch, queries, num_hiddens). Afterwards attention_weights holds
    (batch, heads, queries, keys), before dropout, detached. With need_weights=False a fused kernel computes the same
    without storing them, and attention_weights is None.
    """
    def __init__(self, key_size, query_size, value_size, num_hiddens, num_heads, dropout, bias=False):
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
        check_width("queries", queries, self.W_q.in_features, "query_size")
        check_width("keys", keys, self.W_k.in_features, "key_size")
        check_width("values", values, self.W_v.in_features, "value_size")
        mask = mask_for_heads(queries, keys, self.num_heads, valid_lens, mask)
        queries = transpose_qkv(self.W_q(queries), self.num_heads)       # (batch * heads, queries, width of a head)
        keys = transpose_qkv(self.W_k(keys), self.num_heads)             # (batch * heads, keys, width of a head)
        values = transpose_qkv(self.W_v(values), self.num_heads)         # (batch * heads, keys, width of a head)
        if need_weights:
            output = self.attention(queries, keys, values, mask=mask)    # (batch * heads, queries, width of a head)
            self.attention_weights = self.attention.attention_weights.unflatten(0, (-1, self.num_heads))
        else:
            output = fused_attention(queries, keys, values, mask, self.attention.dropout.p if self.training else 0.0)
            self.attention_weights = self.attention.attention_weights = None
        return self.W_o(transpose_output(output, self.num_heads))        # (batch, queries, num_hiddens)


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


def check_heads(num_hiddens, num_heads):
    """Refuse a width that cannot be shared out evenly."""
    if num_heads < 1 or num_hiddens % num_heads:
        raise ValueError(f"num_hiddens {num_hiddens} cannot be shared evenly by num_heads {num_heads}; "
                         f"choose a multiple of the number of heads")
