"""Wrong input, and what is said about it: no message from inside PyTorch, numpy or matplotlib reaches a learner.

Each line of BAD: what is given, the call, and words that the message must hold: the argument, what it was, what would do.
"""
import itertools
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from torch import nn

import helpers
from helpers import (AdditiveAttention, ALiBiAttention, Answerer, Attention, DotProductAttention, Encoder, LearnedPositionalEncoding,
                     MiniLM, MultiHeadAttention, OrderModel, PositionalEncoding, RotaryAttention, SelfAttention, SenseModel,
                     TransformerBlock, Translator, alibi_slopes, attend_mask, block_score, count_flops, course, dependence, describe,
                     diagonal_score, draw_all_heads, draw_heatmaps, fit_exponents, four_layers, fused_attention, grade_answers,
                     grade_translations, longest_chain, look_shares, masked_softmax, measure_growth, parameter_names,
                     path_length, pattern_scores, peak_bytes, plot, position_angles, read_sentences, rotate, seconds, show,
                     show_all_heads, show_by_head, show_graphs, show_growth, show_heatmaps, show_times, softmax_in_place,
                     train, transpose_output, transpose_qkv, translate, translation_loss, try_gpu, vertical_score,
                     without_head)
from helpers.explorer import explore
from helpers.knobs import knob
from helpers.parallel import DeviceMesh, Traffic, on_devices, split_block, split_heads
from helpers.queues import QUEUE
from helpers.senses import gloss, make_sentences, read_nouns, sense_batches, to_ids
from helpers.translation import ENGLISH, make_pairs, shuffled_batches, to_batch, translate_by_rule

NAN = float("nan")


def ones(*shape, dtype=torch.float32, device="cpu"):
    return torch.ones(shape, dtype=dtype, device=device)


SCORES, LENS = ones(2, 3, 5), torch.tensor([1, 2])
Q, K, V = ones(2, 3, 4), ones(2, 5, 4), ones(2, 5, 6)
META, WHOLE, DOUBLE = dict(device="meta"), dict(dtype=torch.int64), dict(dtype=torch.float64)
X = ones(2, 3, 4)
IDS = torch.tensor([[3, 4, 5], [3, 4, 0]])
WEIGHTS = torch.softmax(ones(2, 4, 4), dim=-1)
MATRIX = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
tokens, where = QUEUE.draw(3, torch.Generator().manual_seed(0))
SENTENCE = "the cat sees a dog".split()


def on(device):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_DEVICE", device)
        return try_gpu()


def dot(*given, **named):
    return DotProductAttention(0.0)(*given, **named)


def additive(queries=Q, keys=K, values=V):
    return AdditiveAttention(key_size=4, query_size=4, num_hiddens=8, dropout=0.0)(queries, keys, values)


def heads(queries=Q, keys=K, values=K, *given, **named):
    return MultiHeadAttention(4, 4, 4, 8, 2, 0.0)(queries, keys, values, *given, **named)


def self_attention(X, *given):
    return SelfAttention(4, 2, 2, 0.0)(X, *given)


def sizes(cls, **good):
    """Each size of a class, too small, no number, a fraction, a truth value and missing; and dropouts that are no share."""
    for name, value in itertools.product(good, (0, -1, 2.5, "8", True, None)):
        yield f"{cls.__name__}: {name}={value!r}", (lambda name=name, value=value: cls(**{**good, name: value, "dropout": 0.0})
                                                    ), [name, repr(value), "at least 1"]
    for dropout in (-0.1, 1.5, NAN, "half", None):
        yield f"{cls.__name__}: dropout={dropout!r}", (lambda dropout=dropout: cls(**{**good, "dropout": dropout})
                                                       ), ["dropout", repr(dropout), "from 0 to 1"]


def heatmaps(matrices=MATRIX, **options):
    return draw_heatmaps(matrices, "Keys", "Queries", **options)


def training(model=None, loss=None, batches=None, steps=1, lr=0.1, **named):
    return train(nn.Linear(4, 1) if model is None else model, loss or (lambda model, batch: model(batch).mean()),
                 [X] if batches is None else batches, steps, lr, **named)


def answerer():
    return Answerer(QUEUE, MultiHeadAttention(8, 8, 8, 8, 2, 0.0), num_hiddens=8)


class NoTokenizer:
    """Has what read_sentences asks for, and fills nothing up."""
    encode_batch, padding = None, None


def relu_at(n):
    return {"relu": (torch.relu, ones(n))}


def small_encoder():
    return MiniLM(vocab_size=10, num_hiddens=4, num_heads=2, num_layers=1, ffn_num_hiddens=8, max_len=6)


class Mesh(DeviceMesh):
    """As many devices, without a process for each."""
    ndim = 1

    def __init__(self, devices):
        self.devices = devices

    def size(self):
        return self.devices


def uses_a_variable(mesh):
    return mesh.size() * NAN


def uses_a_class(mesh):
    return Mesh


def translator(attention=None):
    return Translator(10, 10, attention, embed_size=4, num_hiddens=8).eval()


BAD = [
    # ------------------------------------------------------------------ masks and the softmax
    ("masked_softmax: a list", lambda: masked_softmax([[1.0, 2.0]]), ["scores", "tensor", "list"]),
    ("masked_softmax: None", lambda: masked_softmax(None), ["scores", "NoneType"]),
    ("masked_softmax: whole numbers", lambda: masked_softmax(ones(2, 3, 5, **WHOLE)), ["scores", "int64", "scores.float()"]),
    ("masked_softmax: truth values", lambda: masked_softmax(SCORES > 0), ["scores", "bool"]),
    ("masked_softmax: eight bits", lambda: masked_softmax(SCORES.to(torch.float8_e4m3fn), LENS), ["scores", "float8", "scores.float()"]),
    ("masked_softmax: complex", lambda: masked_softmax(ones(2, 3, 5, dtype=torch.complex64)), ["scores", "complex64"]),
    ("masked_softmax: a matrix with lengths", lambda: masked_softmax(ones(3, 5), LENS), ["(batch, queries, keys)", "(3, 5)"]),
    ("masked_softmax: five axes", lambda: masked_softmax(ones(1, 1, 2, 3, 5), LENS), ["(batch, queries, keys)", "(1, 1, 2, 3, 5)"]),
    ("valid_lens: too few", lambda: masked_softmax(SCORES, torch.tensor([1])), ["valid_lens", "(2,)", "(2, 3)", "(1,)"]),
    ("valid_lens: one number", lambda: masked_softmax(SCORES, 3), ["valid_lens", "()", "(2,)"]),
    ("valid_lens: for each key", lambda: masked_softmax(SCORES, ones(2, 5, **WHOLE)), ["valid_lens", "(2, 5)", "(2, 3)"]),
    ("valid_lens: for each score", lambda: masked_softmax(SCORES, ones(2, 3, 5, **WHOLE)), ["valid_lens", "(2, 3, 5)"]),
    ("valid_lens: truth values", lambda: masked_softmax(SCORES, torch.tensor([True, False])), ["valid_lens", "mask="]),
    ("valid_lens: a word", lambda: masked_softmax(SCORES, "all"), ["valid_lens", "'all'"]),
    ("valid_lens: words", lambda: masked_softmax(SCORES, ["a", "b"]), ["valid_lens", "'a'"]),
    ("valid_lens: a missing one", lambda: masked_softmax(SCORES, [1, None]), ["valid_lens", "None"]),
    ("valid_lens: ragged", lambda: masked_softmax(SCORES, [[1], [1, 2]]), ["valid_lens", "[1, 2]"]),
    ("valid_lens: below 0", lambda: masked_softmax(SCORES, [-1, 2]), ["valid_lens", "from 0", "[-1, 2]"]),
    ("valid_lens: a fraction", lambda: masked_softmax(SCORES, [1.5, 2]), ["valid_lens", "whole", "1.5"]),
    ("valid_lens: not a number", lambda: masked_softmax(SCORES, [NAN, 2]), ["valid_lens", "nan"]),
    ("valid_lens: complex", lambda: masked_softmax(SCORES, ones(2, dtype=torch.complex64)), ["valid_lens", "whole"]),
    ("valid_lens: on meta", lambda: masked_softmax(SCORES, ones(2, **META)), ["valid_lens", "meta", "cpu"]),
    ("mask: for each query only", lambda: masked_softmax(SCORES, mask=ones(2, 3, **WHOLE)), ["mask", "(2, 5)", "(2, 3)"]),
    ("mask: without a batch", lambda: masked_softmax(SCORES, mask=ones(3, 5) > 0), ["mask", "(2, 5)", "(3, 5)"]),
    ("mask: transposed", lambda: masked_softmax(SCORES, mask=ones(2, 5, 3) > 0), ["mask", "(2, 3, 5)", "(2, 5, 3)"]),
    ("mask: with heads where there are none", lambda: masked_softmax(SCORES, mask=ones(2, 1, 3, 5) > 0), ["mask", "(2, 1, 3, 5)"]),
    ("mask: one value for all keys", lambda: masked_softmax(SCORES, mask=ones(2, 1) > 0), ["mask", "(2, 5)", "(2, 1)"]),
    ("mask: one number", lambda: masked_softmax(SCORES, mask=True), ["mask", "()"]),
    ("mask: ones and zeros as floats", lambda: masked_softmax(SCORES, mask=ones(2, 3, 5)), ["mask", "float32", "mask.bool()"]),
    ("mask: lengths", lambda: masked_softmax(SCORES, mask=[[1, 2, 3, 4, 5], [1, 1, 1, 1, 1]]), ["mask", "1 to 5", "valid_lens="]),
    ("mask: -1 for no", lambda: masked_softmax(SCORES, mask=-ones(2, 5, **WHOLE)), ["mask", "-1"]),
    ("mask: ragged", lambda: masked_softmax(SCORES, mask=[[True], [True, False]]), ["mask", "[True, False]"]),
    ("mask: a word", lambda: masked_softmax(SCORES, mask="causal"), ["mask", "'causal'"]),
    ("mask: on meta", lambda: masked_softmax(SCORES, mask=ones(2, 5, **WHOLE, **META)), ["mask", "meta", "cpu"]),
    ("attend_mask: a list", lambda: attend_mask([1.0], LENS), ["scores", "list"]),
    ("attend_mask: lengths that do not fit", lambda: attend_mask(SCORES, [1, 2, 3]), ["valid_lens", "(3,)"]),
    # ------------------------------------------------------------------ attention
    ("DotProductAttention: lists", lambda: dot([[1.0]], K, V), ["queries", "list"]),
    ("DotProductAttention: None for values", lambda: dot(Q, K, None), ["values", "NoneType"]),
    ("DotProductAttention: no batch", lambda: dot(ones(3, 4), K, V), ["queries", "(batch, queries, width)", "(3, 4)"]),
    ("DotProductAttention: another width", lambda: dot(Q, ones(2, 5, 3), V), ["keys", "width 3", "must be 4"]),
    ("DotProductAttention: a value too many", lambda: dot(Q, K, ones(2, 6, 6)), ["5 keys", "6 values"]),
    ("DotProductAttention: another batch", lambda: dot(Q, ones(1, 5, 4), V), ["keys", "(1, 5, 4)", "batch"]),
    ("DotProductAttention: heads for some", lambda: dot(Q[:, None], K, V), ["keys", "(2, 5, 4)", "heads"]),
    ("DotProductAttention: whole numbers", lambda: dot(Q.long(), K.long(), V.long()), ["int64", "floating-point"]),
    ("DotProductAttention: two types", lambda: dot(Q, K.double(), V), ["keys", "float64", "float32"]),
    ("DotProductAttention: keys elsewhere", lambda: dot(Q, ones(2, 5, 4, **META), V), ["keys", "meta", "cpu"]),
    ("DotProductAttention: lengths of another batch", lambda: dot(Q, K, V, [1, 2, 3]), ["valid_lens", "(3,)"]),
    ("DotProductAttention: a mask transposed", lambda: dot(Q, K, V, mask=ones(2, 5, 3) > 0), ["mask", "(2, 5, 3)"]),
    ("DotProductAttention: an unknown keyword", lambda: dot(Q, K, V, lens=LENS), ["lens"]),
    ("DotProductAttention: no keys", lambda: dot(Q), ["keys"]),
    ("Attention: without a score", lambda: Attention(0.0)(Q, K, V), ["subclass", "scored"]),
    ("AdditiveAttention: a query too wide", lambda: additive(queries=ones(2, 3, 5)), ["queries", "width 5", "4, query_size"]),
    ("AdditiveAttention: a key too wide", lambda: additive(keys=ones(2, 5, 5)), ["keys", "width 5", "4, key_size"]),
    ("AdditiveAttention: input elsewhere", lambda: additive(Q.to("meta"), K.to("meta"), V.to("meta")), ["queries", "meta", "cpu", ".to("]),
    ("AdditiveAttention: input in float64", lambda: additive(Q.double(), K.double(), V.double()), ["queries", "float64", "float32", ".to("]),
    ("AdditiveAttention: no sizes", lambda: AdditiveAttention(), ["key_size", "missing"]),
    *sizes(DotProductAttention),
    *sizes(AdditiveAttention, key_size=4, query_size=4, num_hiddens=8),
    # ------------------------------------------------------------------ heads
    *sizes(MultiHeadAttention, key_size=4, query_size=4, value_size=4, num_hiddens=8, num_heads=2),
    ("MultiHeadAttention: 3 heads for a width of 8", lambda: MultiHeadAttention(4, 4, 4, 8, 3, 0.0), ["num_hiddens", "8", "3", "6 or 9"]),
    ("MultiHeadAttention: more heads than columns", lambda: MultiHeadAttention(4, 4, 4, 8, 16, 0.0), ["num_hiddens", "8", "16"]),
    ("MultiHeadAttention: an unknown keyword", lambda: MultiHeadAttention(4, 4, 4, 8, 2, 0.0, d_model=8), ["d_model"]),
    ("MultiHeadAttention: queries too wide", lambda: heads(ones(2, 3, 5)), ["queries", "width 5", "4, query_size"]),
    ("MultiHeadAttention: keys too wide", lambda: heads(Q, ones(2, 5, 5)), ["keys", "width 5", "4, key_size"]),
    ("MultiHeadAttention: values too wide", lambda: heads(Q, K, V), ["values", "width 6", "4, value_size"]),
    ("MultiHeadAttention: no batch", lambda: heads(Q[0], K[0], K[0]), ["queries", "(3, 4)"]),
    ("MultiHeadAttention: input elsewhere", lambda: heads(Q.to("meta"), K.to("meta"), K.to("meta")), ["queries", "meta", "cpu", ".to("]),
    ("MultiHeadAttention: input in half precision", lambda: heads(Q.half(), K.half(), K.half()), ["queries", "float16", "float32", ".to("]),
    ("MultiHeadAttention: token ids", lambda: heads(Q.long(), K.long(), K.long()), ["int64", "floating-point"]),
    ("MultiHeadAttention: lengths for each head", lambda: heads(Q, K, K, ones(4, **WHOLE)), ["valid_lens", "(4,)", "(2,)"]),
    ("MultiHeadAttention: a mask for three heads", lambda: heads(Q, K, K, mask=ones(2, 3, 3, 5) > 0), ["mask", "(2, 3, 3, 5)", "(2, 2, 3, 5)"]),
    ("MultiHeadAttention: the mask of another batch, fused", lambda: heads(Q, K, K, mask=ones(3, 5) > 0, need_weights=False), ["mask", "(3, 5)"]),
    ("transpose_qkv: a list", lambda: transpose_qkv([[1.0]], 2), ["X", "list"]),
    ("transpose_qkv: no batch", lambda: transpose_qkv(ones(3, 4), 2), ["X", "(3, 4)", "(batch, n, num_hiddens)"]),
    ("transpose_qkv: 3 heads for a width of 4", lambda: transpose_qkv(X, 3), ["(2, 3, 4)", "num_hiddens", "4", "3 or 6"]),
    ("transpose_qkv: no heads", lambda: transpose_qkv(X, 0), ["num_heads", "0", "at least 1"]),
    ("transpose_qkv: half a head", lambda: transpose_qkv(X, 0.5), ["num_heads", "0.5"]),
    ("transpose_output: a batch that is no multiple", lambda: transpose_output(ones(3, 4, 5), 2), ["(3, 4, 5)", "3", "num_heads 2"]),
    ("transpose_output: with an axis for heads", lambda: transpose_output(ones(2, 2, 4, 5), 2), ["X", "(2, 2, 4, 5)"]),
    ("transpose_output: heads missing", lambda: transpose_output(X, None), ["num_heads", "None"]),
    ("softmax_in_place: whole numbers", lambda: softmax_in_place(ones(2, 3, 5, **WHOLE)), ["scores", "int64", "scores.float()"]),
    ("softmax_in_place: lengths of another batch", lambda: softmax_in_place(ones(2, 3, 5), [1, 2, 3]), ["valid_lens", "(3,)"]),
    ("fused_attention: a mask of ones and zeros", lambda: fused_attention(Q, K, V, mask=ones(2, 3, 5)), ["mask", "Boolean", "float32"]),
    ("fused_attention: a mask for other keys", lambda: fused_attention(Q, K, V, mask=ones(2, 3, 4) > 0), ["mask", "(2, 3, 5)", "(2, 3, 4)"]),
    ("fused_attention: lengths of another batch", lambda: fused_attention(Q, K, V, [1, 2, 3]), ["valid_lens", "(3,)"]),
    ("fused_attention: a mask elsewhere", lambda: fused_attention(Q, K, V, mask=ones(2, 3, 5, **META) > 0), ["mask", "meta"]),
    ("fused_attention: another width", lambda: fused_attention(Q, V, V), ["keys", "width 6", "must be 4"]),
    ("fused_attention: no batch", lambda: fused_attention(Q[0], K[0], V[0]), ["queries", "(3, 4)"]),
    ("fused_attention: dropout above 1", lambda: fused_attention(Q, K, V, dropout=2.0), ["dropout", "2.0", "from 0 to 1"]),
    # ------------------------------------------------------------------ self-attention
    *sizes(SelfAttention, num_hiddens=4, d_k=2, d_v=2),
    ("SelfAttention: one sentence without a batch", lambda: self_attention(X[0]), ["X", "(3, 4)", "X[None]"]),
    ("SelfAttention: token ids", lambda: self_attention(IDS), ["X", "(2, 3)", "embedding"]),
    ("SelfAttention: whole numbers", lambda: self_attention(X.long()), ["X", "int64", "X.float()"]),
    ("SelfAttention: another width", lambda: self_attention(ones(2, 3, 5)), ["X", "width 5", "4, num_hiddens"]),
    ("SelfAttention: input elsewhere", lambda: self_attention(X.to("meta")), ["X", "meta", "cpu", ".to("]),
    ("SelfAttention: input in float64", lambda: self_attention(X.double()), ["X", "float64", "float32", ".to("]),
    ("SelfAttention: a causal mask without a batch", lambda: self_attention(X, None, ones(3, 3).tril().bool()), ["mask", "(3, 3)"]),
    ("SelfAttention: called like cross-attention", lambda: self_attention(X, X, X), ["valid_lens", "(2, 3, 4)"]),
    # ------------------------------------------------------------------ positions
    *sizes(PositionalEncoding, num_hiddens=4, max_len=10),
    *sizes(LearnedPositionalEncoding, num_hiddens=4, max_len=10),
    *[(f"{cls.__name__}: {name}", lambda cls=cls, X=X: cls(4, 0.0, max_len=5)(X), words)
      for cls in (PositionalEncoding, LearnedPositionalEncoding)
      for name, X, words in (
          ("six steps for five positions", ones(1, 6, 4), ["X", "6", "5", "max_len=6"]),
          ("another width", ones(1, 3, 1), ["X", "width 1", "4"]),
          ("no batch", ones(3, 4), ["X", "(3, 4)", "(batch, steps, 4)"]),
          ("token ids", torch.tensor([[1, 2]]), ["X", "int64", "token ids"]),
          ("a list", [[[1.0]]], ["X", "list"]))],
    ("PositionalEncoding: positions on meta", lambda: PositionalEncoding(4, 0.0).to("meta")(X), ["X", "cpu", "meta"]),
    ("position_angles: steps below 0", lambda: position_angles(-1, 4), ["steps", "-1", "at least 0"]),
    ("position_angles: no width", lambda: position_angles(3, 0), ["width", "0", "at least 1"]),
    ("position_angles: positions instead of their number", lambda: position_angles(torch.arange(3), 4), ["steps", "tensor"]),
    ("rotate: an odd width", lambda: rotate(ones(1, 3, 5)), ["X", "even", "(1, 3, 5)"]),
    ("rotate: one row", lambda: rotate(ones(4)), ["X", "(..., steps, width)", "(4,)"]),
    ("rotate: whole numbers", lambda: rotate(ones(1, 3, 4, **WHOLE)), ["X", "floating-point", "int64"]),
    ("rotate: a list", lambda: rotate([[1.0, 2.0]]), ["X", "tensor", "list"]),
    ("RotaryAttention: an odd width", lambda: RotaryAttention(0.0)(ones(1, 2, 3), ones(1, 2, 3), ones(1, 2, 3)), ["X", "even", "(1, 2, 3)"]),
    ("ALiBiAttention: one slope without a list", lambda: ALiBiAttention(0.5, 0.0), ["slopes", "0.5", "one for each head"]),
    ("ALiBiAttention: no slopes", lambda: ALiBiAttention([], 0.0), ["slopes", "[]"]),
    ("ALiBiAttention: words", lambda: ALiBiAttention("steep", 0.0), ["slopes", "'steep'"]),
    ("ALiBiAttention: a missing slope", lambda: ALiBiAttention([0.5, NAN], 0.0), ["slopes", "nan"]),
    ("ALiBiAttention: None", lambda: ALiBiAttention(None, 0.0), ["slopes", "None"]),
    ("ALiBiAttention: dropout above 1", lambda: ALiBiAttention([1.0], 2), ["dropout", "2"]),
    ("ALiBiAttention: two slopes for three heads", lambda: ALiBiAttention([1, 0.5], 0.0)(*[ones(1, 3, 2, 4)] * 3), ["slopes", "(2,)", "(1, 3, 2, 2)"]),
    ("alibi_slopes: no heads", lambda: alibi_slopes(0), ["num_heads", "0"]),
    ("alibi_slopes: a fraction", lambda: alibi_slopes(2.5), ["num_heads", "2.5"]),
    # ------------------------------------------------------------------ patterns of heads
    *[(f"{function.__name__}: {name}", lambda function=function, weights=weights, second=second: function(weights, second), words)
      for function, second in ((diagonal_score, 0), (vertical_score, 0), (block_score, [0, 0, 1, 1]), (pattern_scores, [0, 0, 1, 1]))
      for name, weights, words in (
          ("a list", [[1.0]], ["weights", "list"]),
          ("one row", ones(4), ["weights", "(..., n, n)", "(4,)"]),
          ("more keys than queries", ones(4, 5), ["weights", "(4, 5)"]),
          ("whole numbers", ones(4, 4, **WHOLE), ["weights", "int64", "weights.float()"]))],
    ("diagonal_score: no such diagonal", lambda: diagonal_score(WEIGHTS, 4), ["offset", "4", "-3 to 3"]),
    ("diagonal_score: half a step", lambda: diagonal_score(WEIGHTS, 0.5), ["offset", "0.5"]),
    ("vertical_score: no such key", lambda: vertical_score(WEIGHTS, 4), ["key", "4", "0 to 3"]),
    ("vertical_score: a label", lambda: vertical_score(WEIGHTS, "the"), ["key", "'the'"]),
    ("block_score: too few blocks", lambda: block_score(WEIGHTS, [0, 1]), ["blocks", "4", "[0, 1]"]),
    ("block_score: names that are no numbers", lambda: block_score(WEIGHTS, list("aabb")), ["blocks", "'a'"]),
    ("pattern_scores: an offset too far", lambda: pattern_scores(ones(2, 2), [0, 1]), ["offset", "-2", "at least -1"]),
    ("pattern_scores: no offsets", lambda: pattern_scores(WEIGHTS, [0, 0, 1, 1], []), ["offsets", "at least one"]),
    ("OrderModel: an unknown encoding", lambda: OrderModel("cosine"), ["encoding", "'cosine'", "sinusoidal"]),
    ("OrderModel: one number in place of ids", lambda: OrderModel("none")(3), ["ids", "(batch, n)", "int"]),
    ("OrderModel: ids beyond the vocabulary", lambda: OrderModel("none")(torch.tensor([[1, 12]])), ["ids", "1 to 12", "0 to 11"]),
    ("OrderModel: a sentence without a batch", lambda: OrderModel("none")(torch.tensor([1, 2])), ["ids", "(batch, n)", "(2,)"]),
    ("OrderModel: vectors", lambda: OrderModel("none")(ones(1, 3)), ["ids", "whole numbers", "float32"]),
    ("OrderModel: heads that do not divide the width", lambda: OrderModel("none", num_heads=5), ["num_hiddens", "32", "5"]),
    *[(f"OrderModel: {name}={value!r}", lambda name=name, value=value: OrderModel("none", **{name: value}), [name, repr(value), "at least 1"])
      for name, value in itertools.product(("num_outputs", "num_hiddens", "num_heads"), (0, -1, 2.5, "8", True))],
    ("Answerer: words in place of a task", lambda: Answerer(["Ada"], answerer().attention), ["task", "QUEUE", "list"]),
    ("Answerer: no attention", lambda: Answerer(QUEUE, None), ["attention", "NoneType"]),
    ("Answerer: no width", lambda: Answerer(QUEUE, answerer().attention, 0), ["num_hiddens", "at least 1", "0"]),
    ("Answerer: tokens without fields", lambda: answerer()(tokens[..., 0]), ["tokens", "(batch, 10, 2)", "(3, 10)"]),
    ("Answerer: tokens of a shorter queue", lambda: answerer()(tokens[:, :4]), ["tokens", "(batch, 10, 2)", "(3, 4, 2)"]),
    ("Answerer: vectors", lambda: answerer()(tokens.float()), ["tokens", "whole numbers", "float32"]),
    ("Answerer: a colour that is none", lambda: answerer()(tokens + 7), ["tokens of field", "vocabulary"]),
    ("grade_answers: tokens only", lambda: grade_answers(answerer(), tokens), ["batch", "(tokens, where)", "(3, 10, 2)"]),
    ("grade_answers: where of other examples", lambda: grade_answers(answerer(), (tokens, where[:2])), ["where", "(3, 10, questions)", "(2, 10, 4)"]),
    ("grade_answers: a position beyond", lambda: grade_answers(answerer(), (tokens, where + 5)), ["where", "0 to 9", "14"]),
    ("look_shares: weights of one head", lambda: look_shares(ones(3, 10, 10), where), ["weights", "(batch, heads, n, n)", "(3, 10, 10)"]),
    ("look_shares: where of other examples", lambda: look_shares(ones(2, 2, 10, 10), where), ["where", "(2, 10, questions)", "(3, 10, 4)"]),
    ("look_shares: where as fractions", lambda: look_shares(ones(3, 2, 10, 10), where.float()), ["where", "whole numbers", "float32"]),
    ("look_shares: below NOT_ASKED", lambda: look_shares(ones(3, 2, 10, 10), where - 1), ["where", "-1", "-2"]),
    ("look_shares: on another device", lambda: look_shares(ones(3, 2, 10, 10, **META), where), ["where", "cpu", "meta"]),
    ("without_head: a fraction", lambda: without_head(answerer(), 0.5), ["head", "whole number", "0.5"]),
    ("without_head: a negative number", lambda: without_head(answerer(), -1), ["head", "at least 0", "-1"]),
    ("without_head: a model without heads", lambda: without_head(nn.Linear(2, 2), 0), ["model", "model.attention", "Linear"]),
    ("without_head: no such head", lambda: without_head(answerer(), 2), ["head", "0 to 1", "2"]),
    # ------------------------------------------------------------------ costs
    ("count_flops: no function", lambda: count_flops(X), ["function", "(2, 3, 4)"]),
    ("longest_chain: no function", lambda: longest_chain(None, X), ["function", "NoneType"]),
    ("longest_chain: whole numbers", lambda: longest_chain(torch.relu, X.long()), ["X", "floating-point", "int64"]),
    ("longest_chain: a result without a graph", lambda: longest_chain(lambda X: X.detach() @ X.mT.detach(), X), ["function(X)", "autograd"]),
    ("longest_chain: a list", lambda: longest_chain(torch.relu, [1.0]), ["X", "list"]),
    ("dependence: a batch", lambda: dependence(torch.relu, X), ["X", "(n, d)", "(2, 3, 4)"]),
    ("dependence: token ids", lambda: dependence(torch.relu, IDS), ["X", "floating-point", "int64"]),
    ("dependence: a sum over all tokens", lambda: dependence(torch.sum, ones(3, 2)), ["function", "(n, d)"]),
    ("path_length: one layer without a list", lambda: path_length(torch.relu, 3), ["layers", "list"]),
    ("path_length: no tokens", lambda: path_length([torch.relu], 0), ["n", "0"]),
    ("path_length: a goal that is no function", lambda: path_length([torch.relu], 3, reached=True), ["reached", "bool"]),
    ("seconds: the result instead of the function", lambda: seconds(X @ X.mT), ["function", "(2, 3, 3)"]),
    ("seconds: no repeats", lambda: seconds(torch.relu, X, repeats=0), ["repeats", "0"]),
    ("peak_bytes: the result instead of the function", lambda: peak_bytes(X), ["function", "(2, 3, 4)"]),
    ("four_layers: no width", lambda: four_layers(0, torch.device("cpu")), ["d", "at least 1", "0"]),
    ("four_layers: a device that there is not", lambda: four_layers(4, "gpu"), ["device", "try_gpu()", "'gpu'"]),
    ("measure_growth: layers instead of a function", lambda: measure_growth({"a": (torch.relu, X)}, [1]), ["layers_at", "dict"]),
    ("measure_growth: no lengths", lambda: measure_growth(relu_at, []), ["lengths", "at least 1", "[]"]),
    ("measure_growth: one length", lambda: measure_growth(relu_at, 8), ["lengths", "list", "8"]),
    ("measure_growth: a fraction", lambda: measure_growth(relu_at, [1, 2.5]), ["lengths", "whole", "2.5"]),
    ("measure_growth: lengths from 0", lambda: measure_growth(relu_at, [0, 1]), ["lengths", "[0, 1]"]),
    ("measure_growth: lengths that fall", lambda: measure_growth(relu_at, [2, 1]), ["lengths", "longer", "[2, 1]"]),
    ("measure_growth: no rounds", lambda: measure_growth(relu_at, [1], rounds=0), ["rounds", "0"]),
    ("measure_growth: no repeats", lambda: measure_growth(relu_at, [1], repeats=0), ["repeats", "0"]),
    ("measure_growth: a list of layers", lambda: measure_growth(lambda n: [torch.relu], [4]), ["layers_at(4)", "{name:", "list"]),
    ("measure_growth: no layers", lambda: measure_growth(lambda n: {}, [4]), ["layers_at(4)", "at least one"]),
    ("measure_growth: a layer without a tuple", lambda: measure_growth(lambda n: {"a": torch.relu}, [4]), ["layers_at(4)", "'a'", "inputs"]),
    ("measure_growth: the result", lambda: measure_growth(lambda n: {"a": (ones(n),)}, [4]), ["layers_at(4)", "'a'", "function"]),
    ("measure_growth: other layers at another length", lambda: measure_growth(lambda n: {f"a{n}": (ones, n)}, [4, 5]),
     ["layers_at", "['a4']", "n = 5", "['a5']"]),
    ("fit_exponents: two lengths", lambda: fit_exponents([1, 2], ones(2)), ["lengths", "at least 3", "[1, 2]"]),
    ("fit_exponents: the same length twice", lambda: fit_exponents([1, 2, 2], ones(3)), ["lengths", "longer", "[1, 2, 2]"]),
    ("fit_exponents: a list of times", lambda: fit_exponents([1, 2, 4], [1.0, 2.0, 4.0]), ["times", "tensor", "list"]),
    ("fit_exponents: a time too few", lambda: fit_exponents([1, 2, 4], ones(5, 2)), ["times", "3 lengths", "(5, 2)"]),
    ("fit_exponents: transposed", lambda: fit_exponents([1, 2, 4], ones(3, 5)), ["times", "(rounds, lengths)", "(3, 5)"]),
    ("fit_exponents: no round", lambda: fit_exponents([1, 2, 4], ones(0, 3)), ["times", "(0, 3)"]),
    ("fit_exponents: a time of 0", lambda: fit_exponents([1, 2, 4], torch.arange(3)), ["times", "0", "above 0"]),
    ("fit_exponents: a missing time", lambda: fit_exponents([1, 2, 4], ones(3) * NAN), ["times", "3 values", "nan"]),
    ("show_times: no times", lambda: show_times([1, 2, 4], {}, {}), ["times", "{}"]),
    ("show_times: without rounds", lambda: show_times([1, 2, 4], {"a": ones(3)}, {"a": 1}), ["'a'", "(rounds, lengths)", "(3,)"]),
    ("show_times: no theory", lambda: show_times([1, 2, 4], {"a": ones(1, 3)}, {}), ["theory", "['a']", "{}"]),
    ("show_times: theory in words", lambda: show_times([1, 2, 4], {"a": ones(1, 3)}, {"a": "n"}), ["theory", "'a'", "'n'"]),
    ("show_growth: no curves", lambda: show_growth([1, 2], {}, "FLOPs"), ["curves", "{}"]),
    ("show_growth: a list of curves", lambda: show_growth([1, 2], [[1, 2]], "FLOPs"), ["curves", "[[1, 2]]"]),
    ("show_growth: a value too few", lambda: show_growth([1, 2], {"RNN": [1]}, "FLOPs"), ["'RNN'", "1", "2"]),
    ("show_growth: zero on a logarithmic axis", lambda: show_growth([1, 2], {"RNN": [0, 1]}, "FLOPs"), ["'RNN'", "0", "above 0"]),
    ("show_growth: lengths from 0", lambda: show_growth([0, 1], {"RNN": [1, 2]}, "FLOPs"), ["lengths", "0", "above 0"]),
    ("show_growth: a missing value", lambda: show_growth([1, 2], {"RNN": [1, NAN]}, "FLOPs"), ["'RNN'", "1 values", "nan"]),
    ("show_growth: words", lambda: show_growth(["a", "b"], {"RNN": [1, 2]}, "FLOPs"), ["lengths", "'a'"]),
    # ------------------------------------------------------------------ figures
    ("draw_heatmaps: one row", lambda: heatmaps(ones(3)), ["matrices", "(queries, keys)", "(3,)"]),
    ("draw_heatmaps: nothing", lambda: heatmaps([]), ["matrices", "(0,)"]),
    ("draw_heatmaps: None", lambda: heatmaps(None), ["matrices", "()"]),
    ("draw_heatmaps: no keys", lambda: heatmaps(ones(2, 0)), ["matrices", "(2, 0)"]),
    ("draw_heatmaps: five axes", lambda: heatmaps(ones(1, 1, 1, 2, 2)), ["matrices", "(1, 1, 1, 2, 2)"]),
    ("draw_heatmaps: ragged rows", lambda: heatmaps([[0.5, 0.5], [1.0]]), ["matrices", "(2,)", "(1,)"]),
    ("draw_heatmaps: panels of two sizes", lambda: heatmaps([ones(2, 2), ones(3, 3)]), ["matrices", "(2, 2)", "(3, 3)"]),
    ("draw_heatmaps: words", lambda: heatmaps([["a", "b"]]), ["matrices", "'a'"]),
    ("draw_heatmaps: complex", lambda: heatmaps(ones(2, 2, dtype=torch.complex64)), ["matrices", "complex64"]),
    ("draw_heatmaps: on meta", lambda: heatmaps(ones(2, 2, **META)), ["matrices", "meta"]),
    ("draw_heatmaps: a missing value", lambda: heatmaps([[0.5, NAN]]), ["matrices", "1 values", "nan"]),
    ("draw_heatmaps: -inf before the softmax", lambda: heatmaps([[0.5, float("-inf")]]), ["matrices", "infinite"]),
    ("draw_heatmaps: a label too few", lambda: heatmaps(key_labels=["a"]), ["key_labels", "2 labels", "['a']"]),
    ("draw_heatmaps: labels for two panels of one", lambda: heatmaps(query_labels=[["a", "b"], ["c", "d"]]), ["query_labels", "1 such"]),
    ("draw_heatmaps: labels and lists of labels", lambda: heatmaps(key_labels=["a", ["b", "c"]]), ["key_labels", "not both"]),
    ("draw_heatmaps: a number for labels", lambda: heatmaps(key_labels=2), ["key_labels", "list", "int"]),
    ("draw_heatmaps: titles too many", lambda: heatmaps(titles=["a", "b"]), ["titles", "1", "2"]),
    ("draw_heatmaps: a number for titles", lambda: heatmaps(titles=3), ["titles", "list", "int"]),
    ("draw_heatmaps: a mask of another shape", lambda: heatmaps(mask=ones(3, 2)), ["mask", "(3, 2)", "(2, 2)"]),
    ("draw_heatmaps: lengths as mask", lambda: heatmaps(mask=[[1, 2], [2, 2]]), ["mask", "1 to 2"]),
    ("draw_heatmaps: a mask of words", lambda: heatmaps(mask=[["yes", "no"]]), ["mask", "'yes'"]),
    ("draw_heatmaps: an unknown colour map", lambda: heatmaps(cmap="Redz"), ["cmap", "'Redz'", "Reds"]),
    ("draw_heatmaps: no colour map", lambda: heatmaps(cmap=7), ["cmap", "7"]),
    ("draw_heatmaps: a scale that ends before it starts", lambda: heatmaps(vmin=1, vmax=0), ["vmin 1", "vmax 0"]),
    ("draw_heatmaps: a scale above all values", lambda: heatmaps(vmin=2), ["vmin 2", "vmax 1"]),
    ("draw_heatmaps: a word for an end of the scale", lambda: heatmaps(vmax="high"), ["vmax", "'high'"]),
    ("draw_heatmaps: an end of the scale is nan", lambda: heatmaps(vmin=NAN), ["vmin", "nan"]),
    ("draw_heatmaps: one number for the size", lambda: heatmaps(figsize=3), ["figsize", "3", "width and height"]),
    ("draw_heatmaps: a size of nothing", lambda: heatmaps(figsize=(0, 3)), ["figsize", "0"]),
    ("draw_heatmaps: without axis labels", lambda: show_heatmaps(MATRIX), ["xlabel", "missing"]),
    ("show_heatmaps: digits below 0", lambda: show_heatmaps(MATRIX, "Keys", "Queries", digits=-1), ["digits", "-1"]),
    ("show_heatmaps: a row that is none", lambda: show_heatmaps(MATRIX, "Keys", "Queries", rows=["cat"]), ["rows", "cat"]),
    ("show_heatmaps: one label instead of a list", lambda: show_heatmaps(MATRIX, "Keys", "Queries", rows="0"), ["rows", "'0'", "list"]),
    ("describe: an axis instead of its figure", lambda: describe(heatmaps().axes[0]), ["figure", "Axes"]),
    ("describe: two and a half digits", lambda: describe(Figure(), digits=2.5), ["digits", "2.5"]),
    ("describe: rows of a curve that is not there", lambda: plot([1, 2], legend=["a"], digits=None, rows=["b"]), ["rows", "'b'", "'a'"]),
    ("show: no figure", lambda: show(MATRIX), ["figure", "(2, 2)"]),
    ("plot: nothing", lambda: plot([]), ["X", "(0,)"]),
    ("plot: one number", lambda: plot(3), ["X", "()"]),
    ("plot: three axes", lambda: plot(ones(2, 2, 2)), ["X", "[(2, 2), (2, 2)]"]),
    ("plot: words", lambda: plot(["a", "b"]), ["X", "'a'"]),
    ("plot: a missing value", lambda: plot([1, 2], [1, NAN]), ["Y", "1 values", "nan"]),
    ("plot: None among numbers", lambda: plot([1, None]), ["X", "nan"]),
    ("plot: on meta", lambda: plot(ones(3, **META)), ["X", "meta"]),
    ("plot: x values too few", lambda: plot([1, 2], [1, 2, 3]), ["X", "2", "3"]),
    ("plot: two sets of x values for three curves", lambda: plot([[1, 2]] * 2, [[1, 2]] * 3), ["X", "2", "3"]),
    ("plot: names too few", lambda: plot([[1, 2], [3, 4]], legend=["a"]), ["legend", "1 names", "2 curves"]),
    ("plot: a number for a legend", lambda: plot([1, 2], legend=3), ["legend", "int"]),
    ("plot: an unknown scale", lambda: plot([1, 2], yscale="logarithmic"), ["yscale", "'logarithmic'", '"log"']),
    ("plot: zero on a logarithmic axis", lambda: plot([1, 2], [0, 1], yscale="log"), ["yscale", "0", "above 0"]),
    ("plot: counted from 0 on a logarithmic axis", lambda: plot([1, 2], xscale="log"), ["xscale", "0", "above 0"]),
    ("plot: an unknown marker", lambda: plot([1, 2], markers="round"), ["markers", "'round'", '"o"']),
    ("plot: one number for the size", lambda: plot([1, 2], figsize=3), ["figsize", "3"]),
    ("show_graphs: one token", lambda: show_graphs(n=1), ["n", "1"]),
    ("show_graphs: an even kernel", lambda: show_graphs(k=4), ["k", "4", "odd"]),
    ("show_graphs: half a token", lambda: show_graphs(n=2.5), ["n", "2.5"]),
    ("show_by_head: three heads for four columns", lambda: show_by_head([MATRIX], ["X"], 4, 3), ["num_hiddens 4", "num_heads 3"]),
    ("show_by_head: no heads", lambda: show_by_head([MATRIX], ["X"], 4, 0), ["num_heads", "0"]),
    ("show_by_head: one title for two", lambda: show_by_head([ones(2, 2)] * 2, ["X"], 4, 2), ["titles", "2", "['X']"]),
    ("show_by_head: a batch", lambda: show_by_head([ones(1, 2, 2)], ["X"], 4, 2), ["matrices", "(1, 2, 2)"]),
    ("show_by_head: weights", lambda: show_by_head([MATRIX], ["X"], 4, 2), ["matrices", "whole numbers"]),
    ("show_by_head: nothing", lambda: show_by_head([], [], 4, 2), ["titles", "[]"]),
    # ------------------------------------------------------------------ training
    ("train: no module", lambda: training(model=[1]), ["model", "list"]),
    ("train: nothing to train", lambda: training(model=nn.ReLU()), ["model", "parameters", "ReLU"]),
    ("train: the loss instead of its function", lambda: training(loss=ones(1)), ["loss", "(1,)"]),
    ("train: no batches", lambda: training(batches=[]), ["batches", "0 of 1"]),
    ("train: one tensor for batches", lambda: training(batches=X), ["batches", "(2, 3, 4)"]),
    ("train: a number for batches", lambda: training(batches=3), ["batches", "int"]),
    ("train: no steps", lambda: training(steps=0), ["steps", "0"]),
    ("train: half a step", lambda: training(steps=1.5), ["steps", "1.5"]),
    ("train: a rate below 0", lambda: training(lr=-0.1), ["lr", "-0.1"]),
    ("train: a rate without end", lambda: training(lr=float("inf")), ["lr", "inf"]),
    ("train: a word for the rate", lambda: training(lr="fast"), ["lr", "'fast'"]),
    ("train: a decay below 0", lambda: training(weight_decay=-1), ["weight_decay", "-1"]),
    ("train: a loss for each example", lambda: training(loss=lambda model, batch: model(batch)), ["loss", "(2, 3, 1)", "scalar"]),
    ("train: a loss without a gradient", lambda: training(loss=lambda model, batch: model(batch).mean().detach()), ["loss", "without a gradient"]),
    ("train: a loss that returns nothing", lambda: training(loss=lambda model, batch: None), ["loss", "NoneType"]),
    ("try_gpu: a GPU below 0", lambda: try_gpu(-1), ["i", "-1", "at least 0"]),
    ("try_gpu: a device that nobody knows", lambda: on("gpu"), ["COURSE_DEVICE", "cpu", "'gpu'"]),
    ("try_gpu: a GPU that is not there", lambda: on("cuda:99"), ["COURSE_DEVICE", "cpu", "'cuda:99'"]),
    ("try_gpu: a device's name", lambda: try_gpu("cuda:0"), ["i", "'cuda:0'"]),
    ("course.start: another language", lambda: course.start("fr"), ["lang", "'fr'", '"zh"']),
    # ------------------------------------------------------------------ translation
    *sizes(Encoder, vocab_size=10, embed_size=4, num_hiddens=8),
    ("Encoder: an odd width", lambda: Encoder(10, 4, 7), ["num_hiddens", "even", "7"]),
    ("Translator: an odd width", lambda: Translator(10, 10, None, num_hiddens=7), ["num_hiddens", "even", "7"]),
    ("Translator: no words", lambda: Translator(0, 10, None), ["source_size", "0"]),
    ("Translator: the class instead of a module", lambda: Translator(10, 10, DotProductAttention), ["attention", "module"]),
    ("Translator: a vocabulary instead of its size", lambda: Translator(ENGLISH, 10, None), ["source_size", "Vocabulary"]),
    ("Encoder: words", lambda: translator().encoder([SENTENCE], LENS), ["source", "list"]),
    ("Encoder: embeddings", lambda: translator().encoder(X, LENS), ["source", "(2, 3, 4)", "token ids"]),
    ("Encoder: an id beyond the vocabulary", lambda: translator().encoder(IDS + 7, LENS), ["source", "7 to 12", "0 to 9"]),
    ("Encoder: ids elsewhere", lambda: translator().encoder(IDS.to("meta"), LENS), ["source", "meta", "cpu", ".to("]),
    ("Encoder: lengths below 1", lambda: translator().encoder(IDS, torch.tensor([0, 2])), ["valid_lens", "1 to 3", "[0, 2]"]),
    ("Encoder: lengths beyond the end", lambda: translator().encoder(IDS, torch.tensor([4, 2])), ["valid_lens", "1 to 3", "[4, 2]"]),
    ("Encoder: lengths of another batch", lambda: translator().encoder(IDS, torch.tensor([1])), ["valid_lens", "(2,)", "(1,)"]),
    ("Encoder: no lengths", lambda: translator().encoder(IDS, None), ["valid_lens", "NoneType"]),
    ("Translator: target ids beyond the vocabulary", lambda: translator()(IDS, LENS, IDS + 7), ["target", "7 to 12", "0 to 9"]),
    ("Translator: another number of targets", lambda: translator()(IDS, LENS, IDS[:1]), ["(2, 3)", "(1, 3)", "same examples"]),
    ("translate: no translator", lambda: translate(nn.ReLU(), IDS, LENS), ["model", "Translator", "ReLU"]),
    ("translate: no tokens to write", lambda: translate(translator(), IDS, LENS, max_len=0), ["max_len", "0"]),
    ("translate: words", lambda: translate(translator(), SENTENCE, LENS), ["source", "list"]),
    ("translation_loss: ids only", lambda: translation_loss(translator(), IDS), ["batch", "to_batch", "(2, 3)"]),
    ("grade_translations: no pairs", lambda: grade_translations(translator(), []), ["pairs", "at least one"]),
    ("grade_translations: no translator", lambda: grade_translations(None, make_pairs(1, 0)), ["model", "NoneType"]),
    ("to_batch: no pairs", lambda: to_batch([]), ["pairs", "at least one", "[]"]),
    ("to_batch: one pair without a list", lambda: to_batch(make_pairs(1, 0)[0]), ["pairs", "list"]),
    ("to_batch: sentences", lambda: to_batch([SENTENCE]), ["pairs", "make_pairs"]),
    ("to_batch: an unknown word", lambda: ENGLISH.to_ids(["the", "unicorn"]), ["unicorn", "it knows"]),
    ("to_ids: one string", lambda: ENGLISH.to_ids("the cat"), ["sentence", "'the cat'", "split"]),
    ("to_tokens: an id beyond the vocabulary", lambda: ENGLISH.to_tokens([0, 999]), ["ids", "999"]),
    ("to_tokens: an id below 0", lambda: ENGLISH.to_tokens([-1]), ["ids", "-1"]),
    ("make_pairs: how many is no number", lambda: make_pairs("ten", 0), ["n", "'ten'"]),
    ("make_pairs: sentences to leave out", lambda: make_pairs(1, 0, exclude=[SENTENCE]), ["pairs", "'cat'"]),
    ("make_pairs: no seed", lambda: make_pairs(1, None), ["seed", "None"]),
    ("translate_by_rule: one string", lambda: translate_by_rule("the cat sees a dog"), ["english", "split"]),
    ("translate_by_rule: an unknown word", lambda: translate_by_rule("the unicorn sees a dog".split()), ["english", "unicorn"]),
    ("translate_by_rule: no noun at the end", lambda: translate_by_rule("the cat sees".split()), ["english", "noun", "'the cat sees'"]),
    ("translate_by_rule: nothing", lambda: translate_by_rule([]), ["english", "''"]),
    ("shuffled_batches: no pairs", lambda: shuffled_batches([], 4), ["pairs", "[]"]),
    ("shuffled_batches: batches of nothing", lambda: shuffled_batches(make_pairs(1, 0), 0), ["batch_size", "0"]),
    # ------------------------------------------------------------------ the explorer and the knobs
    ("explore: one number", lambda: explore(0.5, ["a"]), ["weights", "(queries, keys)", "()"]),
    ("explore: a batch of heads and layers", lambda: explore(ones(1, 1, 1, 2, 2), ["a", "b"]), ["weights", "one example", "(1, 1, 1, 2, 2)"]),
    ("explore: scores for weights", lambda: explore([[2.0, 3.0], [1.0, 0.0]], ["a", "b"]), ["weights", "sum to 1", "'a'", "5.000", "scores="]),
    ("explore: nan", lambda: explore([[NAN, 1.0], [1.0, 0.0]], ["a", "b"]), ["weights", "1 values", "nan"]),
    ("explore: below zero", lambda: explore([[2.0, -1.0], [1.0, 0.0]], ["a", "b"]), ["weights", "from 0 on", "'a'"]),
    ("explore: more than can be pointed at", lambda: explore(torch.eye(65), range(65)), ["weights", "at most 64", "(65, 65)", "[..., :64"]),
    ("explore: one string", lambda: explore(MATRIX, "a b"), ["tokens", "list of 2", "'a b'"]),
    ("explore: a token too few", lambda: explore(MATRIX, ["a"]), ["tokens", "2", "queries", "['a']"]),
    ("explore: other keys without names", lambda: explore([[0.5, 0.5, 0.0]], ["a"]), ["key_tokens", "3 tokens", "None"]),
    ("explore: a key too many", lambda: explore(MATRIX, ["a", "b"], ["c", "d", "e"]), ["key_tokens", "2", "keys", "3"]),
    ("explore: names for other heads", lambda: explore(MATRIX, ["a", "b"], head_names=["x", "y"]), ["head_names", "1", "heads"]),
    ("explore: a start beyond", lambda: explore(MATRIX, ["a", "b"], start=(0, 1)), ["start", "(layer, head)", "(0, 0)", "(0, 1)"]),
    ("explore: a width of nothing", lambda: explore(MATRIX, ["a", "b"], d=0), ["d", "at least 1", "0"]),
    ("explore: a mask of lengths", lambda: explore(MATRIX, ["a", "b"], mask=[[3, 4]]), ["mask", "1 = may attend", "3 to 4"]),
    ("explore: a mask of another shape", lambda: explore(MATRIX, ["a", "b"], mask=ones(3, 2)), ["mask", "(3, 2)", "(1, 1, 2, 2)"]),
    ("explore: scores of another shape", lambda: explore(MATRIX, ["a", "b"], scores=ones(3, 2, 2)), ["scores", "(1, 1, 2, 2)", "(1, 3, 2, 2)"]),
    ("explore: scores of other weights", lambda: explore(MATRIX, ["a", "b"], scores=ones(2, 2)), ["weights", "softmax of scores", "0.500", "mask="]),
    ("explore: scores of infinity", lambda: explore(MATRIX, ["a", "b"], scores=[[1, 1], [0, -torch.inf]]), ["scores", "infinite"]),
    ("knob: a figure", lambda: knob(Figure(), n=[1, 2]), ["draw", "function", "Figure"]),
    ("knob: nothing to choose", lambda: knob(lambda n=1: Figure()), ["knob", "at least one"]),
    ("knob: an argument that is not there", lambda: knob(lambda n=1: Figure(), k=[1, 2]), ["k", "argument of draw", "n=1"]),
    ("knob: an argument without a start", lambda: knob(lambda n: Figure(), n=[1, 2]), ["n", "default"]),
    ("knob: a number", lambda: knob(lambda n=1: Figure(), n=3), ["n", "list or a range", "3"]),
    ("knob: a start that is no choice", lambda: knob(lambda n=5: Figure(), n=[1, 2]), ["n", "5", "[1, 2]"]),
    ("knob: text that starts as a number", lambda: knob(lambda n=5: Figure(), n=str), ["n", "5", "text"]),
    ("knob: no figure is drawn", lambda: knob(lambda n=1: None, n=[1, 2]), ["draw", "Figure", "NoneType"]),
    # ------------------------------------------------------------------ senses
    *sizes(SenseModel, vocab_size=10, num_hiddens=4),
    ("SenseModel: embeddings", lambda: SenseModel(10)(X), ["ids", "(2, 3, 4)", "token ids"]),
    ("SenseModel: an id beyond the vocabulary", lambda: SenseModel(4)(IDS), ["ids", "0 to 5", "0 to 3"]),
    ("SenseModel: ids elsewhere", lambda: SenseModel(10)(IDS.to("meta")), ["ids", "meta", "cpu"]),
    ("SenseModel: lengths of another batch", lambda: SenseModel(10)(IDS, [1]), ["valid_lens", "(1,)"]),
    ("make_sentences: how many is no number", lambda: make_sentences(2.5, 0), ["n", "2.5"]),
    ("to_ids: one sentence of words", lambda: to_ids(["苹果", "很", "好吃"]), ["tokens", "'苹果'", "list of words"]),
    ("to_ids: no sentences", lambda: to_ids([]), ["sentences", "at least one"]),
    ("to_ids: an unknown word", lambda: to_ids([["苹果", "unicorn"]]), ["unicorn", "it knows"]),
    ("gloss: an unknown word", lambda: gloss(["unicorn"]), ["tokens", "unicorn"]),
    ("gloss: one string", lambda: gloss("苹果很好吃"), ["tokens", "'苹果很好吃'"]),
    ("sense_batches: no sentences", lambda: sense_batches([], 4), ["sentences", "[]"]),
    ("sense_batches: batches of nothing", lambda: sense_batches(make_sentences(2, 0), 0), ["batch_size", "0"]),
    ("read_nouns: words", lambda: read_nouns(SenseModel(99), [["苹果"]]), ["sentences", "make_sentences"]),
    # ------------------------------------------------------------------ a real Transformer
    *sizes(TransformerBlock, num_hiddens=4, num_heads=2, ffn_num_hiddens=8),
    *sizes(MiniLM, vocab_size=10, num_hiddens=4, num_heads=2, num_layers=1, ffn_num_hiddens=8, max_len=6),
    ("TransformerBlock: 3 heads for a width of 8", lambda: TransformerBlock(8, 3, 8, 0.0), ["num_hiddens", "8", "3", "6 or 9"]),
    ("TransformerBlock: another width", lambda: TransformerBlock(8, 2, 8, 0.0)(X), ["queries", "width 4", "must be 8"]),
    ("TransformerBlock: lengths of another batch", lambda: TransformerBlock(4, 2, 8, 0.0)(X, [1, 2, 3]), ["valid_lens", "(3,)"]),
    ("MiniLM: 3 heads for a width of 8", lambda: MiniLM(num_hiddens=8, num_heads=3), ["num_hiddens", "8", "3", "6 or 9"]),
    ("MiniLM: embeddings", lambda: small_encoder()(X), ["ids", "(2, 3, 4)", "token ids"]),
    ("MiniLM: an id beyond the vocabulary", lambda: small_encoder()(IDS + 7), ["ids", "7 to 12", "0 to 9"]),
    ("MiniLM: words", lambda: small_encoder()([SENTENCE]), ["ids", "list"]),
    ("MiniLM: too many tokens", lambda: small_encoder()(torch.zeros(1, 7, dtype=torch.int64)), ["7 steps", "6 positions"]),
    ("MiniLM: lengths of another batch", lambda: small_encoder()(IDS, [1, 2, 3]), ["valid_lens", "(3,)"]),
    ("MiniLM: ids elsewhere", lambda: small_encoder()(IDS.to("meta")), ["ids", "meta", "cpu"]),
    ("parameter_names: layers that are no number", lambda: parameter_names("six"), ["num_layers", "'six'"]),
    ("read_sentences: one string", lambda: read_sentences(NoTokenizer(), "a dog"), ["sentences", "list of strings", "'a dog'"]),
    ("read_sentences: no sentences", lambda: read_sentences(NoTokenizer(), []), ["sentences", "at least one"]),
    ("read_sentences: words", lambda: read_sentences(NoTokenizer(), [SENTENCE]), ["sentences", "list of strings"]),
    ("read_sentences: no tokenizer", lambda: read_sentences(str.split, ["a dog"]), ["tokenizer", "tokenizers"]),
    ("read_sentences: no padding", lambda: read_sentences(NoTokenizer(), ["a dog", "a"]), ["tokenizer", "enable_padding"]),
    ("show_all_heads: one layer only", lambda: show_all_heads(WEIGHTS, ["a"] * 4), ["weights", "(layers, heads, n, n)", "(2, 4, 4)"]),
    ("show_all_heads: a batch", lambda: show_all_heads(WEIGHTS[None, None], ["a"] * 4), ["weights", "one sentence", "(1, 1, 2, 4, 4)"]),
    ("draw_all_heads: words", lambda: draw_all_heads("all", ["a"]), ["weights", "'all'"]),
    ("draw_all_heads: too few tokens", lambda: draw_all_heads(WEIGHTS[None], ["a"]), ["tokens", "4", "got 1"]),
    ("draw_all_heads: one string", lambda: draw_all_heads(WEIGHTS[None], "abcd"), ["tokens", "'abcd'"]),
    ("split_heads: three devices for two heads", lambda: split_heads(MultiHeadAttention(4, 4, 4, 8, 2, 0.0), Mesh(3)),
     ["num_heads", "2 heads", "3 devices", "multiple"]),
    ("split_heads: more devices than heads", lambda: split_heads(MultiHeadAttention(4, 4, 4, 8, 2, 0.0), Mesh(4)), ["2 heads", "4 devices"]),
    ("split_heads: no heads", lambda: split_heads(SelfAttention(4, 2, 2, 0.0), Mesh(2)), ["attention", "W_o", "SelfAttention"]),
    ("split_heads: a block", lambda: split_heads(TransformerBlock(4, 2, 8, 0.0), Mesh(2)), ["attention", "TransformerBlock"]),
    ("split_heads: a number of devices", lambda: split_heads(MultiHeadAttention(4, 4, 4, 8, 2, 0.0), 2), ["mesh", "init_device_mesh", "int"]),
    ("split_block: only the attention", lambda: split_block(MultiHeadAttention(4, 4, 4, 8, 2, 0.0), Mesh(2)), ["block", "MultiHeadAttention"]),
    ("split_block: an uneven inner width", lambda: split_block(TransformerBlock(4, 2, 7, 0.0), Mesh(2)), ["ffn_num_hiddens", "7", "2 devices"]),
    ("split_block: an uneven number of heads", lambda: split_block(TransformerBlock(6, 3, 8, 0.0), Mesh(2)), ["num_heads", "3 heads"]),
    ("on_devices: what a function returns", lambda: on_devices(X, 2), ["function", "(2, 3, 4)"]),
    ("on_devices: a lambda", lambda: on_devices(lambda mesh: 1, 2), ["function", "def"]),
    ("on_devices: no devices", lambda: on_devices(uses_a_class, 0), ["devices", "0", "at least 1"]),
    ("on_devices: no time", lambda: on_devices(uses_a_class, 2, timeout=0), ["timeout", "0"]),
    ("on_devices: a variable of the notebook", lambda: on_devices(uses_a_variable, 2), ["function", "NAN", "float", "input"]),
    ("on_devices: a class of the notebook", lambda: on_devices(uses_a_class, 2), ["function", "Mesh", "uses_a_class"]),
    ("Traffic: an unknown keyword", lambda: Traffic(all=True), ["all"]),
    ("draw_all_heads: a gap", lambda: draw_all_heads(WEIGHTS[None] * NAN, ["a"] * 4), ["weights", "nan"]),
]
# What Python itself says: an argument that is missing or unknown.
OF_PYTHON = ("missing", "unexpected keyword")


@pytest.mark.parametrize("call, words", [pytest.param(call, words, id=given) for given, call, words in BAD])
def test_wrong_input_is_refused_by_name(call, words):
    with pytest.raises((ValueError, TypeError, NotImplementedError)) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert len(message) < 700, message
    if caught.type is ValueError:                                        # said by the course, not by a package beneath it
        assert Path(caught.traceback[-1].path).parent == Path(helpers.__file__).parent, message
    elif caught.type is TypeError:
        assert any(said in message for said in OF_PYTHON), message


def test_every_public_name_has_its_lines():
    given = [given for given, _, _ in BAD]
    assert len(set(given)) == len(given)
    public = {name for name, value in vars(helpers).items() if not name.startswith("_") and callable(value)}
    assert public <= {line.split(":")[0] for line in given}
