"""The exercises of lesson 01."""
import math

import torch

from helpers.attention import DotProductAttention, masked_softmax
from helpers.checks import Exercise, Mistake, numbers


# ------------------------------------------------------------------ masked_softmax(scores, valid_lens)
def _beyond(scores, valid_lens, shift=0):
    return (torch.arange(scores.shape[-1]) >= valid_lens[:, None, None] + shift).expand_as(scores)


def _filled(value, dim=-1, shift=0, invert=False):
    def wrong(scores, valid_lens):
        hidden = _beyond(scores, valid_lens, shift)
        return torch.softmax(scores.masked_fill(~hidden if invert else hidden, value), dim=dim)
    return wrong


def _zeroed(weights, scores, valid_lens):
    return weights.masked_fill(_beyond(scores, valid_lens), 0)


def _fixed(value):
    return lambda scores, valid_lens: _zeroed(_filled(value)(scores, valid_lens), scores, valid_lens)


def _renormalised(floor):
    def wrong(scores, valid_lens):
        weights = _zeroed(torch.softmax(scores, dim=-1), scores, valid_lens)
        return weights / weights.sum(dim=-1, keepdim=True).clamp_min(floor)
    return wrong


def _tiled(scores, valid_lens):
    batch, queries, keys = scores.shape
    hidden = torch.arange(keys) >= valid_lens.repeat(queries)[:, None]
    rows = scores.reshape(-1, keys).masked_fill(hidden, torch.finfo(scores.dtype).min)
    return torch.softmax(rows, dim=-1).masked_fill(hidden, 0).reshape(scores.shape)


masked_softmax_exercise = Exercise(
    right=masked_softmax,
    cases={
        ("2 x 3 x 4, lengths 2 and 3", "2 x 3 x 4，长度 2 和 3"): (numbers(2, 3, 4), torch.tensor([2, 3])),
        ("full length", "长度全满"): (numbers(2, 2, 3, seed=1), torch.tensor([3, 3])),
        ("very low scores", "极低的得分"): (torch.tensor([[[-2e12, -2e12, 5.0]]]), torch.tensor([2])),
        ("a very high score on padding", "填充位得分极高"): (torch.tensor([[[1.0, 2.0, 1000.0]]]), torch.tensor([2])),
        ("half precision", "半精度"): (torch.zeros(1, 1, 4, dtype=torch.float16), torch.tensor([3])),
        ("a length of 0", "长度为 0"): (numbers(2, 1, 3, seed=2), torch.tensor([0, 2])),
    },
    mistakes={
        "no mask": Mistake(
            lambda scores, valid_lens: torch.softmax(scores, dim=-1),
            "valid_lens has no effect: keys beyond the length still get weight. Hint: torch.arange(keys) < length says "
            "which keys count.",
            "valid_lens 没有起作用：超出有效长度的键仍然分到了权重。提示：torch.arange(keys) < length 能说明哪些键算数。"),
        "softmax over queries": Mistake(
            lambda scores, valid_lens: _zeroed(torch.softmax(scores, dim=1), scores, valid_lens),
            "The softmax runs over the queries, so columns sum to 1 instead of rows. Hint: the keys are the last axis.",
            "softmax 沿着查询那一维做了，结果是每列之和为 1，而不是每行。提示：键在最后一维。"),
        **{f"softmax over queries, filled with {value} before": Mistake(
            _filled(value, dim=1),
            "The softmax runs over the queries, so columns sum to 1 instead of rows. Hint: the keys are the last axis.",
            "softmax 沿着查询那一维做了，结果是每列之和为 1，而不是每行。提示：键在最后一维。")
            for value in (torch.finfo(torch.float16).min, float("-inf"))},
        "mask after softmax": Mistake(
            lambda scores, valid_lens: _zeroed(torch.softmax(scores, dim=-1), scores, valid_lens),
            "The mask comes after the softmax: padding has taken its share already, and rows no longer sum to 1. "
            "Hint: mask the scores, then take the softmax.",
            "掩码放到了 softmax 之后：填充位已经分走了一部分，每行之和不再是 1。提示：先遮住得分，再做 softmax。"),
        "filled with 0": Mistake(
            _filled(0.0),
            "Masked scores are set to 0, but exp(0) = 1 is a weight like any other. Hint: a masked score must be so low "
            "that exp of it is 0.",
            "被遮住的得分设成了 0，可 exp(0) = 1，照样有权重。提示：被遮住的得分要低到 exp 之后等于 0。"),
        "off by one": Mistake(
            lambda scores, valid_lens: masked_softmax(scores, valid_lens + 1),
            "One key too many counts in each row. Hint: a length of 2 means positions 0 and 1, so compare with <, not <=.",
            "每行多算了一个键。提示：长度为 2 指位置 0 和 1，比较时用 <，不是 <=。"),
        "inverted": Mistake(
            lambda scores, valid_lens: masked_softmax(scores, mask=_beyond(scores, valid_lens)),
            "The mask is the wrong way round: only the padding gets weight. Hint: masked_fill fills where its mask is True.",
            "掩码反了：只有填充位得到了权重。提示：masked_fill 填的是掩码为 True 的位置。"),
        "lengths tiled": Mistake(
            _tiled,
            "The lengths are paired with the wrong rows: all queries of an example share its length. Hint: repeat tiles "
            "(2, 3, 2, 3, ...), repeat_interleave gives (2, 2, 2, 3, 3, 3); or broadcast valid_lens[:, None, None].",
            "长度和行对错了：同一个样本的所有查询共用一个长度。提示：repeat 得到 (2, 3, 2, 3, …)，repeat_interleave 才得到 "
            "(2, 2, 2, 3, 3, 3)；也可以直接广播 valid_lens[:, None, None]。"),
        **{f"fixed fill of {value}{zeroed}": Mistake(
            make(value),
            "A fixed fill such as -1e6 is higher than very low scores and does not fit into half precision. Hint: "
            "torch.finfo(scores.dtype).min is the lowest number of any type.",
            "-1e6 这样的固定填充值会高过极低的得分，半精度里也放不下。提示：torch.finfo(scores.dtype).min "
            "是这种类型里最小的数。")
            for value in (-1e4, -1e6, -1e9, -65504.0) for make, zeroed in ((_filled, ""), (_fixed, ", zeroed after"))},
        **{f"renormalised, at least {floor}": Mistake(
            _renormalised(floor),
            "The weights are masked after the softmax and divided by their sum: where padding scored far higher, that is 0 "
            "divided by 0. Hint: mask the scores first.",
            "先做 softmax，遮住之后再除以剩下的和：填充位得分很高时，就成了 0 除以 0。提示：先遮住得分。")
            for floor in (0.0, 1e-9)},
        "NaN for an empty row": Mistake(
            _filled(float("-inf")),
            "With a length of 0 the row becomes NaN: a softmax of -inf only divides 0 by 0. Hint: fill with "
            "torch.finfo(scores.dtype).min and set the masked weights to 0 afterwards.",
            "长度为 0 时，这一行成了 NaN：全是 -inf 的 softmax 等于 0 除以 0。提示：用 torch.finfo(scores.dtype).min "
            "填充，之后再把被遮住的权重设为 0。"),
        "1/n for an empty row": Mistake(
            lambda scores, valid_lens: torch.softmax(
                scores.masked_fill(_beyond(scores, valid_lens), torch.finfo(scores.dtype).min), dim=-1),
            "With a length of 0 each padding key gets 1/n, but there is nothing to attend to. Hint: set the masked "
            "weights to 0 after the softmax, too.",
            "长度为 0 时，每个填充键分到了 1/n，可这里根本没有可看的东西。提示：softmax 之后，把被遮住的权重也设为 0。"),
    })


# ------------------------------------------------------------------ attention(queries, keys, values)
def _attention(scale=None, dim=-1, of_keys=False, reshaped=False, after=False):
    def wrong(queries, keys, values):
        d = queries.shape[-1]
        flipped = keys.reshape(keys.shape[0], d, -1) if reshaped else keys.transpose(1, 2)
        factor = math.sqrt(d) if scale is None else scale(queries, keys)
        scores = queries @ flipped
        weights = torch.softmax(scores, dim=dim) / factor if after else torch.softmax(scores / factor, dim=dim)
        return weights @ (keys if of_keys else values)
    return wrong


attention_exercise = Exercise(
    right=lambda queries, keys, values: DotProductAttention(0.0)(queries, keys, values),
    cases={
        ("2 queries, 3 keys, width 4", "2 个查询、3 个键、宽度 4"): (numbers(1, 2, 4), numbers(1, 3, 4, seed=1), numbers(1, 3, 4, seed=2)),
        ("batch of 2, width 9, values of width 2", "两个样本，宽度 9，值宽 2"): (
            numbers(2, 4, 9, seed=3), numbers(2, 5, 9, seed=4), numbers(2, 5, 2, seed=5)),
    },
    mistakes={
        "no scale": Mistake(
            _attention(scale=lambda queries, keys: 1.0),
            "The scores are not scaled. Hint: divide them by sqrt(d), where d = queries.shape[-1].",
            "得分没有缩放。提示：除以 sqrt(d)，d = queries.shape[-1]。"),
        "scale by d": Mistake(
            _attention(scale=lambda queries, keys: queries.shape[-1]),
            "The scores are divided by d, not by its square root. Hint: math.sqrt(queries.shape[-1]).",
            "得分除以了 d，而不是 d 的平方根。提示：math.sqrt(queries.shape[-1])。"),
        "scale by the number of keys": Mistake(
            _attention(scale=lambda queries, keys: math.sqrt(keys.shape[1])),
            "The scale uses the number of keys. Hint: d is the width of a query and of a key, the last axis.",
            "缩放用成了键的个数。提示：d 是单个查询（也是单个键）的宽度，即最后一维。"),
        "multiplied by sqrt(d)": Mistake(
            _attention(scale=lambda queries, keys: 1 / math.sqrt(queries.shape[-1])),
            "The scores are multiplied by sqrt(d). Hint: divide.",
            "得分乘上了 sqrt(d)。提示：应当除以它。"),
        "no softmax": Mistake(
            lambda queries, keys, values: queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[-1]) @ values,
            "There is no softmax: the scores themselves are used as weights. Hint: torch.softmax(scores, dim=-1).",
            "少了 softmax：直接把得分当权重用了。提示：torch.softmax(scores, dim=-1)。"),
        "weights returned": Mistake(
            lambda queries, keys, values: torch.softmax(
                queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[-1]), dim=-1),
            "These are the weights. Hint: one step is left, the weighted sum of the values.",
            "这是权重。提示：还差一步，对值做加权求和。"),
        "scale after softmax": Mistake(
            _attention(after=True),
            "The weights are divided by sqrt(d), so they no longer sum to 1. Hint: scale the scores, before the softmax.",
            "除以 sqrt(d) 的是权重，于是权重之和不再是 1。提示：要缩放的是 softmax 之前的得分。"),
        "softmax over queries": Mistake(
            _attention(dim=1),
            "The softmax runs over the queries. Hint: each query spreads a weight of 1 over its keys, the last axis.",
            "softmax 沿着查询那一维做了。提示：每个查询把总和为 1 的权重分给各个键，键在最后一维。"),
        "softmax over the batch": Mistake(
            _attention(dim=0),
            "The softmax runs over the batch. Hint: each query spreads a weight of 1 over its keys, the last axis.",
            "softmax 沿着批量那一维做了。提示：每个查询把总和为 1 的权重分给各个键，键在最后一维。"),
        "keys instead of values": Mistake(
            _attention(of_keys=True),
            "The output sums the keys. Hint: keys are compared, values are what is brought back.",
            "输出加的是键。提示：键只用来比较，取回来的是值。"),
        "reshape instead of transpose": Mistake(
            _attention(reshaped=True),
            "reshape keeps the numbers in memory order and so mixes different keys. Hint: keys.transpose(1, 2) swaps the "
            "two axes.",
            "reshape 保持内存里的顺序，会把不同的键搅在一起。提示：keys.transpose(1, 2) 才是交换这两维。"),
    })


# ------------------------------------------------------------------ additive_score(queries, keys, W_q, W_k, w_v)
def _additive(before=torch.tanh, after=lambda scores: scores, join=torch.add):
    def wrong(queries, keys, W_q, W_k, w_v):
        features = join((queries @ W_q).unsqueeze(2), (keys @ W_k).unsqueeze(1))
        return after(before(features) @ w_v)
    return wrong


additive_score_exercise = Exercise(
    right=_additive(),
    cases={
        ("2 queries of width 3, 4 keys of width 2", "2 个查询宽 3，4 个键宽 2"): (
            numbers(1, 2, 3), numbers(1, 4, 2, seed=1), numbers(3, 5, seed=2), numbers(2, 5, seed=3), numbers(5, seed=4)),
        ("batch of 2", "两个样本"): (
            numbers(2, 3, 4, seed=5), numbers(2, 3, 4, seed=6), numbers(4, 6, seed=7), numbers(4, 6, seed=8),
            numbers(6, seed=9)),
    },
    mistakes={
        "no tanh": Mistake(
            _additive(before=lambda features: features),
            "There is no tanh: without it the score is a number for the query plus a number for the key, and the query's "
            "part drops out of the softmax. Hint: torch.tanh(...) before w_v.",
            "少了 tanh：没有它，得分就只是“查询的一个数”加“键的一个数”，查询那部分在 softmax 里会被约掉。"
            "提示：乘 w_v 之前先做 torch.tanh(...)。"),
        "tanh after w_v": Mistake(
            _additive(before=lambda features: features, after=torch.tanh),
            "tanh comes after w_v. Hint: w_v . tanh(W_q q + W_k k): tanh acts on the hidden features.",
            "tanh 放到了 w_v 之后。提示：w_v · tanh(W_q q + W_k k)，tanh 作用在隐藏特征上。"),
        "tanh of each": Mistake(
            lambda queries, keys, W_q, W_k, w_v: (torch.tanh(queries @ W_q).unsqueeze(2)
                                                  + torch.tanh(keys @ W_k).unsqueeze(1)) @ w_v,
            "tanh acts on query and key apart, so the score falls into a part for each. Hint: add first, then tanh.",
            "tanh 分别作用在查询和键上，得分就拆成了互不相干的两部分。提示：先相加，再做 tanh。"),
        "no w_v": Mistake(
            lambda queries, keys, W_q, W_k, w_v: torch.tanh((queries @ W_q).unsqueeze(2)
                                                            + (keys @ W_k).unsqueeze(1)).sum(dim=-1),
            "The hidden features are summed with equal weight. Hint: w_v weighs them: ... @ w_v.",
            "隐藏特征被等权相加了。提示：要用 w_v 加权：... @ w_v。"),
        "no new axes": Mistake(
            lambda queries, keys, W_q, W_k, w_v: torch.tanh(queries @ W_q + keys @ W_k) @ w_v,
            "Queries and keys are added position by position. Hint: every query must meet every key: unsqueeze(2) for "
            "queries, unsqueeze(1) for keys.",
            "查询和键是按位置一一相加的。提示：每个查询要和每个键都组合一次：查询用 unsqueeze(2)，键用 unsqueeze(1)。"),
        "product": Mistake(
            _additive(join=torch.mul),
            "Query and key are multiplied. Hint: this score is called additive: add the two projections.",
            "查询和键相乘了。提示：它叫加性得分，两个投影是相加的。"),
        "axes swapped": Mistake(
            lambda *arguments: _additive()(*arguments).transpose(1, 2),
            "Rows and columns are swapped. Hint: queries go down: unsqueeze(2) for queries, unsqueeze(1) for keys.",
            "行和列颠倒了。提示：查询在行上：查询用 unsqueeze(2)，键用 unsqueeze(1)。"),
        "keys before queries": Mistake(
            lambda queries, keys, W_q, W_k, w_v: _additive()(queries, keys, W_k, W_q, w_v),
            "W_q and W_k are swapped. Hint: queries @ W_q, keys @ W_k.",
            "W_q 和 W_k 用反了。提示：queries @ W_q，keys @ W_k。"),
    })


# ------------------------------------------------------------------ read_alignment(weights, english)
alignment_exercise = Exercise(
    right=lambda weights, english: [english[j] for j in weights.argmax(dim=-1).tolist()],
    cases={
        ("the colour crosses", "颜色交叉"): (torch.tensor([[0.9, 0.0, 0.1], [0.1, 0.2, 0.7], [0.1, 0.8, 0.1]]), ["the", "black", "cat"]),
        ("more rows than columns", "行比列多"): (torch.tensor([[0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]), ["cat", "sees"]),
        ("no weight above one half", "没有超过一半的权重"): (
            torch.tensor([[0.3, 0.4, 0.3], [0.2, 0.35, 0.45]]), ["the", "black", "cat"]),
    },
    mistakes={
        "positions, not words": Mistake(
            lambda weights, english: weights.argmax(dim=-1).tolist(),
            "These are positions. Hint: look them up: english[j].",
            "这些是位置。提示：还要查成词：english[j]。"),
        "over queries": Mistake(
            lambda weights, english: [english[min(j, len(english) - 1)] for j in weights.argmax(dim=0).tolist()],
            "The maximum is taken down the columns. Hint: each French word, a row, has its strongest English word.",
            "最大值是沿着列取的。提示：每个法语词是一行，要在这一行里找权重最大的英语词。"),
        "weakest": Mistake(
            lambda weights, english: [english[j] for j in weights.argmin(dim=-1).tolist()],
            "These are the weakest keys. Hint: argmax.",
            "取成了权重最小的键。提示：用 argmax。"),
    })
