"""The exercises of lesson 04."""
import math

import torch

from helpers.checks import Exercise, Mistake, numbers
from helpers.multihead import transpose_qkv
from helpers.patterns import diagonal_score


# ------------------------------------------------------------------ transpose_qkv(X, num_heads)
def _cut(X, num_heads):
    return X.reshape(*X.shape[:2], num_heads, X.shape[2] // num_heads)    # (batch, n, heads, width of a head)


transpose_exercise = Exercise(
    right=transpose_qkv,
    cases={
        ("1 x 3 x 4, 2 heads", "1 x 3 x 4，2 个头"): (torch.arange(12.0).reshape(1, 3, 4), 2),
        ("2 x 3 x 8, 4 heads", "2 x 3 x 8，4 个头"): (torch.arange(48.0).reshape(2, 3, 8), 4),
        ("2 x 2 x 4, 2 heads", "2 x 2 x 4，2 个头"): (torch.arange(16.0).reshape(2, 2, 4), 2),
    },
    mistakes={
        "bare reshape": Mistake(
            lambda X, num_heads: X.reshape(X.shape[0] * num_heads, X.shape[1], -1),
            "A bare reshape (or view) only cuts the row of numbers elsewhere: a head gets columns of the wrong tokens. Hint: "
            "first (batch, n, heads, width), then bring heads before n with permute.",
            "只做 reshape（或 view），不过是把同一串数换个地方断开：头拿到的是别的词元的列。提示：先变成 (批量, n, 头, 宽度)，再用 permute 把头换到 n 前面。"),
        "no permute": Mistake(
            lambda X, num_heads: _cut(X, num_heads).flatten(0, 1),
            "The heads are cut out, but they still stand behind the tokens: there is no permute. Hint: permute(0, 2, 1, 3) "
            "makes (batch, heads, n, width).",
            "头已经切出来了，可它还排在词元后面：少了 permute。提示：permute(0, 2, 1, 3) 得到 (批量, 头, n, 宽度)。"),
        "heads before the batch": Mistake(
            lambda X, num_heads: _cut(X, num_heads).permute(2, 0, 1, 3).flatten(0, 1),
            "Heads come first and examples second; then lengths that are repeated for the heads belong to other examples. Hint: "
            "permute(0, 2, 1, 3) keeps the batch in front.",
            "头排到了样本前面，这样按头重复的有效长度就对不上样本了。提示：permute(0, 2, 1, 3)，批量留在最前面。"),
        "width before the tokens": Mistake(
            lambda X, num_heads: _cut(X, num_heads).permute(0, 2, 3, 1).flatten(0, 1),
            "Tokens and width are swapped: each head is (width, n). Hint: permute(0, 2, 1, 3).",
            "词元和宽度颠倒了：每个头成了 (宽度, n)。提示：permute(0, 2, 1, 3)。"),
        "heads take every h-th column": Mistake(
            lambda X, num_heads: X.unflatten(2, (-1, num_heads)).permute(0, 3, 1, 2).flatten(0, 1),
            "A head takes every num_heads-th column instead of neighbouring ones. Hint: the last axis becomes (heads, width), in "
            "this order.",
            "一个头隔 num_heads 列才取一列，取的不是相邻的列。提示：最后一维拆成 (头, 宽度)，顺序不能反。"),
        "not flattened": Mistake(
            lambda X, num_heads: _cut(X, num_heads).permute(0, 2, 1, 3),
            "Right so far, but batch and heads are still two axes. Hint: flatten(0, 1).",
            "到这一步都对，只是批量和头还是两维。提示：flatten(0, 1)。"),
    })


# ------------------------------------------------------------------ head_by_head(queries, keys, values, W_q, W_k, W_v, W_o, num_heads)
def _heads(width=lambda whole, one: one, join=lambda heads: torch.cat(heads, dim=-1), last=lambda Y, W_o: Y @ W_o,
           cut_input=False, same=False, dim=-1):
    def function(queries, keys, values, W_q, W_k, W_v, W_o, num_heads):
        one = W_q.shape[1] // num_heads
        heads = []
        for h in range(num_heads):
            columns = slice(0, one) if same else slice(h * one, (h + 1) * one)
            if cut_input:
                q, k, v = queries[..., columns], keys[..., columns], values[..., columns]
            else:
                q, k, v = queries @ W_q[:, columns], keys @ W_k[:, columns], values @ W_v[:, columns]
            scores = q @ k.transpose(1, 2) / math.sqrt(width(W_q.shape[1], one))
            heads.append(torch.softmax(scores, dim=dim) @ v)
        return last(join(heads), W_o)
    return function


def _weights(d, seed):
    return [numbers(d, d, seed=seed + i) for i in range(4)]


heads_exercise = Exercise(
    right=_heads(),
    cases={
        ("width 6, 2 heads", "宽 6，2 个头"): (
            numbers(1, 3, 6), numbers(1, 5, 6, seed=1), numbers(1, 5, 6, seed=2), *_weights(6, 3), 2),
        ("batch of 2, width 6, 3 heads", "批量为 2，宽 6，3 个头"): (
            numbers(2, 2, 6, seed=7), numbers(2, 4, 6, seed=8), numbers(2, 4, 6, seed=9), *_weights(6, 10), 3),
    },
    mistakes={
        "scale by the full width": Mistake(
            _heads(width=lambda whole, one: whole),
            "The scores are divided by the root of the full width. Hint: one head's query and key are num_hiddens / num_heads "
            "wide; that is d.",
            "得分除以的是整个宽度的平方根。提示：一个头的查询和键宽 num_hiddens / num_heads，这才是 d。"),
        "no scale": Mistake(
            _heads(width=lambda whole, one: 1),
            "The scores are not scaled. Hint: divide by the root of one head's width.",
            "得分没有缩放。提示：除以一个头的宽度的平方根。"),
        "scale without the root": Mistake(
            _heads(width=lambda whole, one: one**2),
            "The scores are divided by one head's width, not by its root. Hint: math.sqrt.",
            "得分除以的是一个头的宽度，而不是它的平方根。提示：math.sqrt。"),
        "softmax over the queries": Mistake(
            _heads(dim=1),
            "The softmax runs over the queries. Hint: the keys are the last axis.",
            "softmax 沿着查询那一维做了。提示：键在最后一维。"),
        "heads summed": Mistake(
            _heads(join=sum, last=lambda Y, W_o: Y @ W_o[:Y.shape[-1]]),
            "The heads are added, so what they found is mixed again. Hint: torch.cat(heads, dim=-1).",
            "各头的输出相加了，分头找到的东西又混到一起。提示：torch.cat(heads, dim=-1)。"),
        "heads averaged": Mistake(
            _heads(join=lambda heads: sum(heads) / len(heads), last=lambda Y, W_o: Y @ W_o[:Y.shape[-1]]),
            "The heads are averaged, so what they found is mixed again. Hint: torch.cat(heads, dim=-1).",
            "各头的输出取了平均，分头找到的东西又混到一起。提示：torch.cat(heads, dim=-1)。"),
        "heads summed, W_o left out": Mistake(
            _heads(join=sum, last=lambda Y, W_o: Y),
            "The heads are added and W_o is left out. Hint: torch.cat(heads, dim=-1) @ W_o.",
            "各头的输出相加了，又漏了 W_o。提示：torch.cat(heads, dim=-1) @ W_o。"),
        "heads averaged, W_o left out": Mistake(
            _heads(join=lambda heads: sum(heads) / len(heads), last=lambda Y, W_o: Y),
            "The heads are averaged and W_o is left out. Hint: torch.cat(heads, dim=-1) @ W_o.",
            "各头的输出取了平均，又漏了 W_o。提示：torch.cat(heads, dim=-1) @ W_o。"),
        "W_o left out": Mistake(
            _heads(last=lambda Y, W_o: Y),
            "W_o is missing: the heads stand side by side, but nothing combines them. Hint: multiply what you have by W_o.",
            "少了 W_o：各头并排放着，却没有合到一起。提示：最后再乘 W_o。"),
        "W_o transposed": Mistake(
            _heads(last=lambda Y, W_o: Y @ W_o.T),
            "W_o is transposed. Hint: rows are tokens, so it is Y @ W_o.",
            "W_o 转置了。提示：每行是一个词元，应当是 Y @ W_o。"),
        "the input cut": Mistake(
            _heads(cut_input=True),
            "Slices of the input are used. A head projects all numbers of a token. Hint: queries @ W_q[:, columns].",
            "切的是输入。一个头要用词元的全部数字做投影。提示：queries @ W_q[:, columns]。"),
        "always the first head": Mistake(
            _heads(same=True),
            "All heads use the same columns. Hint: head h has columns h * width to (h + 1) * width.",
            "所有头用的是同样的列。提示：第 h 个头用第 h * width 到 (h + 1) * width 列。"),
    })


# ------------------------------------------------------------------ lengths_for_heads(valid_lens, num_heads)
lengths_exercise = Exercise(
    right=lambda valid_lens, num_heads: valid_lens.repeat_interleave(num_heads, dim=0),
    cases={
        ("lengths 3 and 2, 3 heads", "长度 3 和 2，3 个头"): (torch.tensor([3, 2]), 3),
        ("three lengths, 2 heads", "三个长度，2 个头"): (torch.tensor([1, 4, 2]), 2),
        ("a length for each query, 2 heads", "每个查询各有长度，2 个头"): (torch.tensor([[1, 2, 3], [3, 3, 1]]), 2),
    },
    mistakes={
        "tiled": Mistake(
            lambda valid_lens, num_heads: valid_lens.repeat(num_heads, *[1] * (valid_lens.ndim - 1)),
            "The lengths are tiled: 3, 2, 3, 2, ... But transpose_qkv puts all heads of an example one after the other. Hint: "
            "repeat_interleave.",
            "长度是平铺的：3, 2, 3, 2, …。可 transpose_qkv 把同一个样本的头排在一起。提示：repeat_interleave。"),
        "tiled, always with repeat(h)": Mistake(
            lambda valid_lens, num_heads: valid_lens.repeat(num_heads),
            "The lengths are tiled: 3, 2, 3, 2, ... But transpose_qkv puts all heads of an example one after the other. Hint: "
            "repeat_interleave.",
            "长度是平铺的：3, 2, 3, 2, …。可 transpose_qkv 把同一个样本的头排在一起。提示：repeat_interleave。"),
        "2-D lengths flattened": Mistake(
            lambda valid_lens, num_heads: valid_lens.repeat_interleave(num_heads),
            "Without dim=0, repeat_interleave flattens lengths that are given for each query. Hint: dim=0.",
            "不写 dim=0，每个查询各有长度时，repeat_interleave 会把它们摊平。提示：dim=0。"),
        "repeated over the queries": Mistake(
            lambda valid_lens, num_heads: valid_lens.repeat_interleave(num_heads, dim=-1),
            "The last axis is repeated, but for lengths of each query that axis is the queries. Hint: dim=0.",
            "重复的是最后一维；每个查询各有长度时，那一维是查询。提示：dim=0。"),
        "not repeated": Mistake(
            lambda valid_lens, num_heads: valid_lens,
            "Nothing is repeated, but each example stands there once for each head. Hint: repeat_interleave(num_heads, dim=0).",
            "什么都没有重复，可每个样本现在按头各有一份。提示：repeat_interleave(num_heads, dim=0)。"),
    })


# ------------------------------------------------------------------ diagonal_score(weights, offset)
def _table(n, heads, seed):
    return torch.softmax(2 * numbers(heads, n, n, seed=seed), dim=-1)


pattern_exercise = Exercise(
    right=diagonal_score,
    cases={
        ("2 heads, 5 tokens, offset -1", "2 个头，5 个词元，偏移 -1"): (_table(5, 2, 20), -1),
        ("3 heads, 4 tokens, offset 0", "3 个头，4 个词元，偏移 0"): (_table(4, 3, 21), 0),
        ("1 head, 6 tokens, offset 2", "1 个头，6 个词元，偏移 2"): (_table(6, 1, 22), 2),
    },
    mistakes={
        "divided by all rows": Mistake(
            lambda weights, offset: weights.diagonal(offset, dim1=1, dim2=2).sum(dim=-1) / weights.shape[-1],
            "The sum is divided by the number of all rows, but the rows at the edge have no such key. Hint: mean over the "
            "diagonal's own entries.",
            "和除以了总行数，可靠边的行并没有那个键。提示：只对对角线上真有的项取平均。"),
        "offset the other way": Mistake(
            lambda weights, offset: diagonal_score(weights, -offset),
            "The offset has the wrong sign. Hint: -1 is the key before the query, below the main diagonal.",
            "偏移的正负号反了。提示：-1 是查询前面的那个键，在主对角线下方。"),
        "sum, not mean": Mistake(
            lambda weights, offset: weights.diagonal(offset, dim1=1, dim2=2).sum(dim=-1),
            "The weights are added, not averaged, so the score grows with the number of tokens. Hint: mean.",
            "权重是相加的，没有取平均，词元越多分数就越大。提示：用 mean。"),
        "around the edge": Mistake(
            lambda weights, offset: weights.roll(-offset, dims=2).diagonal(dim1=1, dim2=2).mean(dim=-1),
            "Queries at the edge count too, with a key from the other end (a negative index counts from there). Hint: they "
            "have no such key; leave them out.",
            "靠边的查询也算了进去，用的是另一头的键（负的下标是从末尾数的）。提示：它们没有这个键，不要算。"),
        "one number for all heads": Mistake(
            lambda weights, offset: diagonal_score(weights, offset).mean(),
            "All heads are averaged into one number. Hint: one score for each head, shape (heads,).",
            "所有头平均成了一个数。提示：每个头一个分数，形状是 (heads,)。"),
        "always the main diagonal": Mistake(
            lambda weights, offset: diagonal_score(weights, 0),
            "The offset has no effect. Hint: weights.diagonal(offset, dim1=..., dim2=...).",
            "offset 没有起作用。提示：weights.diagonal(offset, dim1=..., dim2=...)。"),
        "across queries and heads": Mistake(
            lambda weights, offset: weights.diagonal(offset).mean(dim=-1),
            "The diagonal runs through heads and queries. Hint: dim1=1, dim2=2 are queries and keys.",
            "对角线取在了头和查询这两维上。提示：dim1=1, dim2=2 才是查询和键。"),
    })
