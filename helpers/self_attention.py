"""Self-attention: a sequence that asks questions of itself."""
import torch
from torch import nn

from helpers.attention import DotProductAttention, check_width


class SelfAttention(nn.Module):
    """One head of self-attention: queries, keys and values are three projections of the same X.

    Vaswani et al. 2017, sections 3.2.1 and 3.2.3.
    d_k: width of a query and of a key. d_v: width of a value.
    forward: X (batch, n, num_hiddens), rows are tokens; valid_lens and mask as in attend_mask.
    Returns (batch, n, d_v). Afterwards attention_weights holds the weights (batch, n, n),
    before dropout, detached. Raises ValueError for an X, lengths or a mask that do not fit.
    """
    def __init__(self, num_hiddens, d_k, d_v, dropout):
        super().__init__()
        check_sizes(num_hiddens=num_hiddens, d_k=d_k, d_v=d_v)
        self.W_q = nn.Linear(num_hiddens, d_k, bias=False)
        self.W_k = nn.Linear(num_hiddens, d_k, bias=False)
        self.W_v = nn.Linear(num_hiddens, d_v, bias=False)
        self.attention = DotProductAttention(dropout)

    @property
    def attention_weights(self):
        return self.attention.attention_weights

    def forward(self, X, valid_lens=None, mask=None):
        check_sequence(X, self.W_q.in_features)
        queries = self.W_q(X)                                            # (batch, n, d_k)
        keys = self.W_k(X)                                               # (batch, n, d_k)
        values = self.W_v(X)                                             # (batch, n, d_v)
        return self.attention(queries, keys, values, valid_lens, mask)   # (batch, n, d_v)


def check_sizes(**sizes):
    """Refuse widths that are no whole numbers from 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a whole number, at least 1; got {size!r}")


def check_sequence(X, num_hiddens):
    """Refuse what is not a batch of sequences of vectors."""
    if not isinstance(X, torch.Tensor) or X.ndim != 3:
        got = f"shape {tuple(X.shape)}" if isinstance(X, torch.Tensor) else type(X).__name__
        raise ValueError(f"X must be a tensor (batch, n, num_hiddens), a vector for each token; got {got}. A single "
                         "sentence needs a batch axis, X[None]; token numbers need an embedding first")
    if not X.is_floating_point():
        raise ValueError(f"X must hold floating-point numbers, got {X.dtype}; pass X.float()")
    check_width("X", X, num_hiddens, "num_hiddens")
