"""A Transformer encoder from the course's own parts, into which the parameters of a public model fit."""
import torch
from torch import nn

from helpers.guards import check_ids, check_sizes, guard, guard_sizes, what
from helpers.multihead import MultiHeadAttention, check_heads
from helpers.positions import LearnedPositionalEncoding


class TransformerBlock(nn.Module):
    """Self-attention, then a small network for each token, each followed by add and norm.

    forward: X (batch, n, num_hiddens), valid_lens as in attend_mask. Returns X's shape.
    Raises ValueError for shapes that do not fit. Vaswani et al. 2017, sections 3.1 and 3.3.
    """
    def __init__(self, num_hiddens, num_heads, ffn_num_hiddens, dropout):
        super().__init__()
        self.attention = MultiHeadAttention(*[num_hiddens] * 4, num_heads, dropout, bias=True)
        self.norm1 = nn.LayerNorm(num_hiddens, eps=1e-12)
        self.ffn = nn.Sequential(nn.Linear(num_hiddens, ffn_num_hiddens), nn.GELU(),
                                 nn.Linear(ffn_num_hiddens, num_hiddens))
        self.norm2 = nn.LayerNorm(num_hiddens, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, X, valid_lens=None):
        Y = self.attention(X, X, X, valid_lens, need_weights=not self.training)
        X = self.norm1(X + self.dropout(Y))                 # add, then norm
        Y = self.ffn(X)                                     # (batch, n, num_hiddens)
        return self.norm2(X + self.dropout(Y))


class MiniLM(nn.Module):
    """An encoder of the BERT kind; the default sizes are those of all-MiniLM-L6-v2.

    forward: ids (batch, n), at most max_len tokens; valid_lens as in attend_mask. Returns the
    states, a list of (batch, n, num_hiddens): that of the input, then one after each block.
    In eval mode attention_weights then holds (batch, layers, heads, n, n). Raises ValueError
    for ids or lengths that do not fit. Devlin et al. 2019, section 3.
    """
    def __init__(self, vocab_size=30522, num_hiddens=384, num_heads=12, num_layers=6,
                 ffn_num_hiddens=1536, max_len=512, dropout=0.1):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, num_hiddens)
        self.segments = nn.Embedding(2, num_hiddens)        # for pairs of texts; we use row 0
        self.positions = LearnedPositionalEncoding(num_hiddens, 0.0, max_len)
        self.norm = nn.LayerNorm(num_hiddens, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            TransformerBlock(num_hiddens, num_heads, ffn_num_hiddens, dropout)
            for _ in range(num_layers))

    @property
    def attention_weights(self):
        return torch.stack([block.attention.attention_weights for block in self.blocks], dim=1)

    def forward(self, ids, valid_lens=None):
        check_ids("ids", ids, self.tokens)
        X = self.tokens(ids) + self.segments.weight[0]      # (batch, n, num_hiddens)
        X = self.positions(X)                               # + row i of the table for token i
        states = [self.dropout(self.norm(X))]
        for block in self.blocks:
            states.append(block(states[-1], valid_lens))    # (batch, n, num_hiddens)
        return states


def parameter_names(num_layers):
    """{name in the file of all-MiniLM-L6-v2: name in MiniLM}, for every parameter of MiniLM."""
    names = {"embeddings.word_embeddings.weight": "tokens.weight",
             "embeddings.token_type_embeddings.weight": "segments.weight",
             "embeddings.position_embeddings.weight": "positions.P"}
    layers = {"embeddings.LayerNorm": "norm"}
    for i in range(num_layers):
        theirs, ours = f"encoder.layer.{i}", f"blocks.{i}"
        layers[f"{theirs}.attention.self.query"] = f"{ours}.attention.W_q"
        layers[f"{theirs}.attention.self.key"] = f"{ours}.attention.W_k"
        layers[f"{theirs}.attention.self.value"] = f"{ours}.attention.W_v"
        layers[f"{theirs}.attention.output.dense"] = f"{ours}.attention.W_o"
        layers[f"{theirs}.attention.output.LayerNorm"] = f"{ours}.norm1"
        layers[f"{theirs}.intermediate.dense"] = f"{ours}.ffn.0"
        layers[f"{theirs}.output.dense"] = f"{ours}.ffn.2"
        layers[f"{theirs}.output.LayerNorm"] = f"{ours}.norm2"
    for theirs, ours in layers.items():
        for part in ("weight", "bias"):
            names[f"{theirs}.{part}"] = f"{ours}.{part}"
    return names


def read_sentences(tokenizer, sentences, device=None):
    """Sentences as a batch.

    Returns ids (batch, n), filled up with [PAD]; valid_lens (batch,); and each sentence's
    tokens, a list of strings without the padding.
    """
    encoded = tokenizer.encode_batch(sentences)
    ids = torch.tensor([one.ids for one in encoded], device=device)
    valid_lens = torch.tensor([sum(one.attention_mask) for one in encoded], device=device)
    return ids, valid_lens, [one.tokens[:sum(one.attention_mask)] for one in encoded]


# ------------------------------------------------------------------ wrong input, refused by name
def _check_block(num_hiddens, num_heads, ffn_num_hiddens, **others):
    check_heads(num_hiddens, num_heads)
    check_sizes(ffn_num_hiddens=ffn_num_hiddens)


def _check_model(num_hiddens, num_heads, num_layers, ffn_num_hiddens, **others):
    check_heads(num_hiddens, num_heads)
    check_sizes(num_layers=num_layers, ffn_num_hiddens=ffn_num_hiddens)


def _check_layers(num_layers):
    check_sizes(least=0, num_layers=num_layers)


def _check_sentences(tokenizer, sentences, device):
    if not hasattr(tokenizer, "encode_batch"):
        raise ValueError(f"tokenizer must be a Tokenizer of the package tokenizers; got {what(tokenizer)}")
    if isinstance(sentences, str) or not isinstance(sentences, (list, tuple)) or not sentences or not all(
            isinstance(sentence, str) for sentence in sentences):
        raise ValueError(f"sentences must be a list of strings, at least one, such as [sentence]; got {sentences!r:.100}")
    if len(sentences) > 1 and tokenizer.padding is None:
        raise ValueError("tokenizer must fill up sentences of different lengths; call tokenizer.enable_padding() first")


TransformerBlock.__init__ = guard(TransformerBlock.__init__, _check_block)
MiniLM.__init__ = guard(MiniLM.__init__, _check_model)
guard_sizes(TransformerBlock, MiniLM)
parameter_names = guard(parameter_names, _check_layers)
read_sentences = guard(read_sentences, _check_sentences)
