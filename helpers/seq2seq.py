"""An encoder-decoder that reads a source sentence through attention, or does without."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from helpers.guards import check_ids, check_sizes, guard, guard_sizes, holds, what
from helpers.translation import BOS_ID, PAD_ID, to_batch


class Encoder(nn.Module):
    """Reads the source in both directions: one state for each token.

    The state adds a view of the token itself to what the GRU remembers of its neighbours;
    dropout on the GRU's part keeps the model from hiding a meaning in a neighbour's state.
    forward: source ids (batch, n), lengths (batch,). Returns the states, (batch, n,
    num_hiddens), and the last one of both directions, (batch, num_hiddens).
    """
    def __init__(self, vocab_size, embed_size, num_hiddens, dropout=0.5):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embed_size)
        self.rnn = nn.GRU(embed_size, num_hiddens // 2, bidirectional=True, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.direct = nn.Linear(embed_size, num_hiddens)

    def forward(self, source, valid_lens):
        X = self.embedding(source)                          # (batch, n, embed_size)
        packed = pack_padded_sequence(X, valid_lens.cpu(), batch_first=True,
                                      enforce_sorted=False)
        states, last = self.rnn(packed)                     # last: (2, batch, num_hiddens / 2)
        states, _ = pad_packed_sequence(states, batch_first=True,
                                        total_length=source.shape[1])
        states = self.dropout(states) + self.direct(X)      # (batch, n, num_hiddens)
        return states, torch.cat([last[0], last[1]], dim=-1)  # and (batch, num_hiddens)


class Translator(nn.Module):
    """Encoder, GRU decoder, and between them the attention that is passed in, or None.

    The query for target token t is the decoder's state before it writes t; keys and values
    are the encoder's states. After Luong et al. 2015, section 3.
    """
    def __init__(self, source_size, target_size, attention, embed_size=48, num_hiddens=64):
        super().__init__()
        self.encoder = Encoder(source_size, embed_size, num_hiddens)
        self.embedding = nn.Embedding(target_size, embed_size)
        self.rnn = nn.GRU(embed_size, num_hiddens, batch_first=True)
        self.attention = attention
        self.output = nn.Linear(num_hiddens * (1 if attention is None else 2), target_size)

    def decode(self, target, state, sources, valid_lens):
        """Logits of the token after each of target (batch, m), and the decoder's last state."""
        queries, state = self.rnn(self.embedding(target), state)  # (batch, m, num_hiddens)
        if self.attention is None:
            return self.output(queries), state
        context = self.attention(queries, sources, sources, valid_lens)  # like queries
        return self.output(torch.cat([queries, context], dim=-1)), state

    def forward(self, source, valid_lens, target):
        """target: the tokens before the ones to be written, (batch, m), <bos> first."""
        sources, last = self.encoder(source, valid_lens)
        return self.decode(target, last[None], sources, valid_lens)[0]


def translation_loss(model, batch):
    """Mean cross-entropy for each target token, given the true ones before it (teacher forcing)."""
    if not isinstance(batch, (list, tuple)) or len(batch) != 3:
        raise ValueError(f"batch must be source ids, their lengths and target ids, as to_batch returns them; got {what(batch)}")
    source, valid_lens, target = batch
    before = torch.cat([torch.full_like(target[:, :1], BOS_ID), target[:, :-1]], dim=1)
    logits = model(source, valid_lens, before)              # (batch, m, target_size)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD_ID)


@torch.no_grad()
def translate(model, source, valid_lens, max_len=12):
    """Write the likeliest token, then the next, max_len times; ignore what follows <eos>.

    model: a Translator in eval mode. Returns target ids (batch, max_len) and the attention
    weights (batch, max_len, n), what it read for each token; None without attention.
    """
    sources, last = model.encoder(source, valid_lens)
    state, token = last[None], torch.full_like(source[:, :1], BOS_ID)
    written, weights = [], []
    for _ in range(max_len):
        logits, state = model.decode(token, state, sources, valid_lens)
        token = logits.argmax(dim=-1)                       # (batch, 1)
        written.append(token)
        if model.attention is not None:
            weights.append(model.attention.attention_weights)  # (batch, 1, n)
    return torch.cat(written, dim=1), torch.cat(weights, dim=1) if weights else None


def grade_translations(model, pairs, device=None):
    """Greedy translation of the pairs against the truth: (exact match, alignment accuracy), both from 0 to 1.

    Alignment accuracy is the share of French words, <eos> aside, whose strongest key is the English word that says the
    same; None for a model without attention.
    """
    _check_translator(model)
    source, valid_lens, target = to_batch(pairs, device)
    written, weights = translate(model, source, valid_lens, max_len=target.shape[1])
    exact = ((written == target) | (target == PAD_ID)).all(dim=1).float().mean().item()
    if weights is None:
        return exact, None
    strongest = weights.argmax(dim=-1).tolist()             # (batch, m)
    hits = [row[t] == english for row, pair in zip(strongest, pairs) for t, english in enumerate(pair.alignment[:-1])]
    return exact, sum(hits) / len(hits)


# ------------------------------------------------------------------ wrong input, refused by name
def check_lens(valid_lens, ids):
    """Refuse lengths that do not say how many of the ids of each example are real."""
    batch, n = ids.shape
    if not isinstance(valid_lens, torch.Tensor) or valid_lens.shape != (batch,) or valid_lens.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"valid_lens must be a tensor of whole numbers (batch,) = ({batch},), one length for each example; got "
                         f"{what(valid_lens)}")
    if valid_lens.is_meta and not ids.is_meta:
        raise ValueError(f"valid_lens is on meta, where tensors hold no numbers; the ids are on {ids.device}")
    if holds(valid_lens, lambda lens: (lens < 1) | (lens > n)):
        raise ValueError(f"valid_lens must be from 1 to {n}, the number of tokens; got {valid_lens.tolist()}")


def _check_source(self, source, valid_lens):
    check_ids("source", source, self.embedding)
    check_lens(valid_lens, source)


def _check_target(self, target, **others):
    check_ids("target", target, self.embedding)


def _check_attention(attention, num_hiddens, **others):
    check_even(num_hiddens)
    if attention is not None and not isinstance(attention, nn.Module):
        raise ValueError(f"attention must be a module, such as DotProductAttention(0.0), or None; got {what(attention)}")


def check_even(num_hiddens, **others):
    """Refuse a width that two directions cannot share."""
    check_sizes(num_hiddens=num_hiddens)
    if num_hiddens % 2:
        raise ValueError(f"num_hiddens must be even, since each direction gives half of a state; got {num_hiddens}")


def _check_batches_agree(self, source, valid_lens, target):
    check_ids("target", target, self.embedding)
    if isinstance(source, torch.Tensor) and len(source) != len(target):
        raise ValueError(f"source {tuple(source.shape)} and target {tuple(target.shape)} must hold the same examples")


def _check_translator(model):
    if not hasattr(model, "encoder") or not hasattr(model, "decode"):
        raise ValueError(f"model must be a Translator, got {what(model)}")


def _check_translate(model, source, valid_lens, max_len):
    _check_translator(model)
    check_sizes(max_len=max_len)


guard_sizes(Encoder, Translator)
Encoder.__init__ = guard(Encoder.__init__, check_even)
Translator.__init__ = guard(Translator.__init__, _check_attention)
Encoder.forward = guard(Encoder.forward, _check_source)
Translator.decode = guard(Translator.decode, _check_target)
Translator.forward = guard(Translator.forward, _check_batches_agree)
translate = guard(translate, _check_translate)
