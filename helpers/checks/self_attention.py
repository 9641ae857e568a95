"""The exercises of lesson 02."""
import math

import torch

from helpers.attention import masked_softmax
from helpers.checks import Exercise, Mistake, _try, numbers
from helpers.course import say


def _rows(X, W):
    return X @ W


def _columns(X, W):
    return W @ X


def _turned(X, W):
    return X @ W.T


# ------------------------------------------------------------------ scores(X, W_q, W_k)
def _scores(project=_rows, query="q", key="k", scale=lambda X, W_q: math.sqrt(W_q.shape[-1]), turn=False, softmax=False):
    def wrong(X, W_q, W_k):
        role = {"q": lambda: project(X, W_q), "k": lambda: project(X, W_k), "x": lambda: X}
        scores = role[query]() @ role[key]().transpose(-2, -1) / scale(X, W_q)
        scores = scores.transpose(-2, -1) if turn else scores
        return torch.softmax(scores, dim=-1) if softmax else scores
    return wrong


_WORKED = (torch.tensor([[1., 0., 1., 0.], [0., 1., 0., 1.], [1., 1., 0., 0.]]),
           torch.tensor([[1., 0.], [0., 1.], [1., 1.], [0., 0.]]), torch.tensor([[0., 1.], [1., 0.], [0., 1.], [1., 0.]]))

scores_exercise = Exercise(
    right=_scores(),
    cases={
        ("3 tokens, all widths 3", "3 个词元，宽度全是 3"):
            (numbers(3, 3), numbers(3, 3, seed=1), numbers(3, 3, seed=2)),
        ("the worked example", "正文里的例子"): _WORKED,
        ("5 tokens, width 7, d_k = 3", "5 个词元，宽度 7，d_k = 3"):
            (numbers(5, 7, seed=3), numbers(7, 3, seed=4), numbers(7, 3, seed=5)),
    },
    mistakes={
        "raw X": Mistake(
            _scores(query="x", key="x", scale=lambda X, W_q: math.sqrt(X.shape[-1])),
            "The scores compare X with X itself, so they are symmetric. Hint: first project, Q = X @ W_q, K = X @ W_k.",
            "你直接拿 X 和 X 比，得分成了对称的。提示：先投影，Q = X @ W_q，K = X @ W_k。"),
        "W_q for both": Mistake(
            _scores(key="q"),
            "Queries and keys are both projected with W_q. Hint: keys have a projection of their own, X @ W_k.",
            "查询和键都用了 W_q。提示：键有自己的投影，X @ W_k。"),
        "W_k for both": Mistake(
            _scores(query="k"),
            "Queries and keys are both projected with W_k. Hint: queries have a projection of their own, X @ W_q.",
            "查询和键都用了 W_k。提示：查询有自己的投影，X @ W_q。"),
        "roles swapped": Mistake(
            _scores(turn=True),
            "Rows and columns are swapped: row i should hold the scores of query i. Hint: Q @ K.T, not K @ Q.T.",
            "行和列颠倒了：第 i 行应当是查询 i 的得分。提示：Q @ K.T，不是 K @ Q.T。"),
        "no scale": Mistake(
            _scores(scale=lambda X, W_q: 1.0),
            "The scores are not scaled. Hint: divide by sqrt(d_k), and d_k is W_q.shape[1].",
            "得分没有缩放。提示：除以 sqrt(d_k)，d_k 就是 W_q.shape[1]。"),
        "scale by the width of X": Mistake(
            _scores(scale=lambda X, W_q: math.sqrt(X.shape[-1])),
            "The scale is the root of X's width. Hint: the dot product runs over d_k numbers, the width of a query: "
            "W_q.shape[1].",
            "缩放用成了 X 的宽度。提示：点积是在 d_k 个数上求和的，d_k 是查询的宽度，即 W_q.shape[1]。"),
        "scale by d_k": Mistake(
            _scores(scale=lambda X, W_q: W_q.shape[-1]),
            "The scores are divided by d_k, not by its square root.",
            "得分除以了 d_k，而不是 d_k 的平方根。"),
        "W X": Mistake(
            _scores(project=_columns),
            "The projection is W @ X, which mixes tokens with each other. Hint: rows are tokens, so X @ W_q.",
            "投影写成了 W @ X，这会把不同的词元搅在一起。提示：每行是一个词元，应当写 X @ W_q。"),
        "W transposed": Mistake(
            _scores(project=_turned),
            "The projection is X @ W.T. Hint: only nn.Linear keeps its matrix transposed; here it is X @ W_q.",
            "投影写成了 X @ W.T。提示：只有 nn.Linear 存的是转置后的矩阵；这里就是 X @ W_q。"),
        "weights, not scores": Mistake(
            _scores(softmax=True),
            "These are weights already. Hint: scores are what goes into the softmax.",
            "这已经是权重了。提示：得分是送进 softmax 之前的数。"),
    })


# ------------------------------------------------------------------ self_attention(X, W_q, W_k, W_v, valid_lens)
def _attention(project=_rows, query="q", key="k", value="v", scale=lambda X, W_q: math.sqrt(W_q.shape[-1]), mask=True,
               dim=-1, zero_queries=False, after=False):
    def wrong(X, W_q, W_k, W_v, valid_lens):
        role = {"q": lambda: project(X, W_q), "k": lambda: project(X, W_k), "v": lambda: project(X, W_v), "x": lambda: X}
        scores = role[query]() @ role[key]().transpose(1, 2) / scale(X, W_q)
        real = torch.arange(X.shape[1]) < valid_lens[:, None]            # (batch, n)
        if dim == -1 and mask and not after:
            weights = masked_softmax(scores, valid_lens)
        else:
            weights = torch.softmax(scores, dim=dim) * (real[:, None] if mask else 1)
        output = weights @ role[value]()
        return output * real[..., None] if zero_queries else output
    return wrong


self_attention_exercise = Exercise(
    right=_attention(),
    cases={
        ("3 tokens, all widths 3", "3 个词元，宽度全是 3"):
            (numbers(2, 3, 3), numbers(3, 3, seed=1), numbers(3, 3, seed=2), numbers(3, 3, seed=3),
             torch.tensor([2, 3])),
        ("4 tokens, width 6, d_k = 2, d_v = 5", "4 个词元，宽度 6，d_k = 2，d_v = 5"):
            (numbers(2, 4, 6, seed=4), numbers(6, 2, seed=5), numbers(6, 2, seed=6), numbers(6, 5, seed=7),
             torch.tensor([4, 1])),
    },
    mistakes={
        "W_k for the queries": Mistake(
            _attention(query="k"),
            "The queries are X @ W_k, so they equal the keys. Hint: queries have a projection of their own, X @ W_q.",
            "查询用了 X @ W_k，于是和键一模一样。提示：查询有自己的投影，X @ W_q。"),
        "W_q for the keys": Mistake(
            _attention(key="q"),
            "The keys are X @ W_q, so they equal the queries. Hint: keys have a projection of their own, X @ W_k.",
            "键用了 X @ W_q，于是和查询一模一样。提示：键有自己的投影，X @ W_k。"),
        "roles swapped": Mistake(
            _attention(query="k", key="q"),
            "Queries and keys have changed places. Hint: queries are X @ W_q, keys are X @ W_k, scores Q @ K.transpose(1, 2).",
            "查询和键对调了。提示：查询是 X @ W_q，键是 X @ W_k，得分是 Q @ K.transpose(1, 2)。"),
        "keys as values": Mistake(
            _attention(value="k"),
            "The output sums the keys. Hint: keys are compared; what is brought back are the values, X @ W_v.",
            "输出加的是键。提示：键只用来比较；取回来的是值，X @ W_v。"),
        "X as values": Mistake(
            _attention(value="x"),
            "The output sums the raw X. Hint: the values have a projection too, X @ W_v.",
            "输出加的是原始的 X。提示：值也要投影，X @ W_v。"),
        "scale by num_hiddens": Mistake(
            _attention(scale=lambda X, W_q: math.sqrt(X.shape[-1])),
            "The scale is sqrt(num_hiddens), the width of X. Hint: the dot product runs over d_k numbers: W_q.shape[1].",
            "缩放用成了 sqrt(num_hiddens)，也就是 X 的宽度。提示：点积是在 d_k 个数上求和的：W_q.shape[1]。"),
        "no scale": Mistake(
            _attention(scale=lambda X, W_q: 1.0),
            "The scores are not scaled. Hint: divide by sqrt(d_k), and d_k is W_q.shape[1].",
            "得分没有缩放。提示：除以 sqrt(d_k)，d_k 就是 W_q.shape[1]。"),
        "mask forgotten": Mistake(
            _attention(mask=False),
            "valid_lens has no effect: padding still gets weight. Hint: masked_softmax(scores, valid_lens).",
            "valid_lens 没有起作用：填充位仍然分到了权重。提示：masked_softmax(scores, valid_lens)。"),
        "mask after softmax": Mistake(
            _attention(after=True),
            "The mask comes after the softmax, so rows sum to less than 1. Hint: masked_softmax(scores, valid_lens).",
            "掩码放到了 softmax 之后，每行之和不足 1。提示：masked_softmax(scores, valid_lens)。"),
        "padded queries set to 0": Mistake(
            _attention(zero_queries=True),
            "The outputs of padded positions are set to 0. Hint: only keys are masked; a padded query still has an output.",
            "填充位置的输出被设成了 0。提示：遮的只是键；填充出来的查询仍然有输出。"),
        "softmax over queries": Mistake(
            _attention(dim=1),
            "The softmax runs over the queries. Hint: the keys are the last axis.",
            "softmax 沿着查询那一维做了。提示：键在最后一维。"),
        "W X": Mistake(
            _attention(project=_columns),
            "The projection is W @ X, which mixes tokens with each other. Hint: rows are tokens, so X @ W_q.",
            "投影写成了 W @ X，这会把不同的词元搅在一起。提示：每行是一个词元，应当写 X @ W_q。"),
        "W transposed": Mistake(
            _attention(project=_turned),
            "The projection is X @ W.T. Hint: only nn.Linear keeps its matrix transposed; here it is X @ W_q.",
            "投影写成了 X @ W.T。提示：只有 nn.Linear 存的是转置后的矩阵；这里就是 X @ W_q。"),
    })


# ------------------------------------------------------------------ entropy(weights)
def _entropy(sign=-1, log=torch.log, dim=-1, mean=False, safe=True):
    def wrong(weights):
        terms = sign * weights * log(weights)
        terms = torch.where(weights > 0, terms, 0.0) if safe else terms
        if dim is None:
            return terms.sum()
        return terms.mean(dim=dim) if mean else terms.sum(dim=dim)
    return wrong


entropy_exercise = Exercise(
    right=_entropy(),
    cases={
        ("three rows", "三行"): (torch.softmax(numbers(3, 5), dim=-1),),
        ("a batch, 2 x 3 x 4", "一个批量，2 x 3 x 4"): (torch.softmax(2 * numbers(2, 3, 4, seed=1), dim=-1),),
        ("a weight of exactly 0", "有权重恰好为 0"): (torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]),),
    },
    mistakes={
        "no minus": Mistake(
            _entropy(sign=1),
            "The sign is missing: the logarithm of a weight below 1 is negative. Hint: minus the sum.",
            "少了负号：小于 1 的权重，对数是负的。提示：求和之后取负。"),
        "NaN for a weight of 0": Mistake(
            _entropy(safe=False),
            "A weight of exactly 0 (a masked key) gives NaN, because 0 times -inf is no number; it should count 0. "
            "Hint: torch.special.entr, or torch.where.",
            "权重恰好为 0（被遮住的键）时得到 NaN，因为 0 乘 -inf 不是数；这一项应当算 0。提示：torch.special.entr，或者 torch.where。"),
        "log2": Mistake(
            _entropy(log=torch.log2),
            "These are bits. Hint: the natural logarithm, torch.log, so that n equal weights have entropy log(n).",
            "这是以比特为单位的。提示：用自然对数 torch.log，这样 n 个相等的权重的熵是 log(n)。"),
        "mean": Mistake(
            _entropy(mean=True),
            "This is the mean over the keys. Hint: sum over the last axis.",
            "你沿着键取了平均。提示：应当沿最后一维求和。"),
        "over queries": Mistake(
            _entropy(dim=-2),
            "The sum runs over the queries. Hint: each row has its own entropy; sum over the last axis, the keys.",
            "你沿着查询求了和。提示：每一行有自己的熵；应当沿最后一维（键）求和。"),
        "one number": Mistake(
            _entropy(dim=None),
            "This is one number for everything. Hint: one for each row: .sum(dim=-1).",
            "你只得到一个总数。提示：每一行要有一个：.sum(dim=-1)。"),
    })


# ------------------------------------------------------------------ another_row(weights, values): many right answers
def _null(rows):
    """A direction, its largest part 1, along which the products with all rows stay as they are."""
    direction = torch.linalg.svd(rows.double()).Vh[-1]
    return (direction / direction[direction.abs().argmax()]).float()


def _moved(weights, values, ones=True, share=0.9):
    rows = torch.cat([values.T, torch.ones(1, len(weights))]) if ones else values.T
    direction = _null(rows)
    falling = direction < 0
    if not falling.any():
        direction, falling = -direction, direction > 0
    farthest = (weights[falling] / -direction[falling]).min()            # there a weight reaches 0
    return weights + share * farthest * direction


class AnotherRow(Exercise):
    """An exercise with many right answers: what is returned is tried for what it must be, in this order."""
    def verdict(self, function):
        tried = [_try(function, arguments) for arguments in self.cases.values()]
        if all(outcome.result is None and outcome.error is None for outcome in tried):
            return super().verdict(function)
        for (names, (weights, values)), outcome in zip(self.cases.items(), tried):
            case, row = say(*names), outcome.result
            if outcome.error is not None:
                return say(f"Not yet. In the case {case} your function stops with {outcome.error}",
                           f"还不对。在“{case}”这种情形下，你的函数报错：{outcome.error}")
            if not isinstance(row, torch.Tensor) or row.shape != weights.shape:
                got = tuple(row.shape) if isinstance(row, torch.Tensor) else type(row).__name__
                return say(f"Not yet. In the case {case} your function returns {got}; it should be a tensor of shape "
                           f"{tuple(weights.shape)}.",
                           f"还不对。在“{case}”这种情形下，你的函数返回 {got}，应当是形状为 {tuple(weights.shape)} 的张量。")
            row, output = row.detach().double(), weights.double() @ values.double()
            broken = ("not a number" if not row.isfinite().all() else
                      "negative weight" if row.min() < -1e-6 else
                      "sum is not 1" if abs(row.sum() - 1) > 1e-4 else
                      "another output" if (row @ values.double() - output).abs().max() > 1e-3 else
                      "the same row" if (row - weights.double()).abs().max() < 0.01 else None)
            if broken:
                return say("Not yet. " + self.mistakes[broken].en, "还不对。" + self.mistakes[broken].zh)
        if any(outcome.changed for outcome in tried):
            return say("The rows are right, but your function changes the tensors that it was given. Hint: weights + step "
                       "is a new tensor, weights += step is not.",
                       "这些行是对的，但你的函数改动了传进来的张量。提示：weights + step 是新张量，weights += step 不是。")
        return say(f"Right: in all {len(tried)} cases your row is another one, and its output is the same.",
                   f"正确：{len(tried)} 种情形里，你的行都与原来不同，而输出相同。")


another_row_exercise = AnotherRow(
    right=_moved,
    cases={
        ("5 keys, values of width 2", "5 个键，值的宽度为 2"):
            (torch.tensor([0.24, 0.24, 0.24, 0.24, 0.04]),
             torch.tensor([[2., 0.], [0., 2.], [2., 2.], [0., 0.], [1., 1.]])),
        ("5 keys, other values", "5 个键，换一组值"): (torch.softmax(numbers(5), dim=0), numbers(5, 2, seed=1)),
        ("6 keys, values of width 3", "6 个键，值的宽度为 3"): (torch.softmax(numbers(6, seed=2), dim=0), numbers(6, 3, seed=3)),
    },
    mistakes={
        "not a number": Mistake(
            lambda weights, values: weights * float("nan"),
            "Some weights are NaN or infinite. Hint: do you divide by 0 somewhere?",
            "有的权重是 NaN 或无穷大。提示：是不是在哪里除以了 0？"),
        "negative weight": Mistake(
            lambda weights, values: _moved(weights, values, share=1.5),
            "A weight is negative, which no softmax gives. Hint: take a smaller step along the direction; the first weight "
            "that reaches 0 says how far you may go.",
            "有的权重是负的，softmax 不会给出负数。提示：沿那个方向少走一点；哪个权重最先减到 0，就只能走到哪里。"),
        "sum is not 1": Mistake(
            lambda weights, values: _moved(weights, values, ones=False),
            "The weights do not sum to 1. Hint: the direction must leave the sum alone too: add a row of ones to values.T.",
            "权重之和不是 1。提示：这个方向也不能改变总和：给 values.T 添一行 1。"),
        "another output": Mistake(
            lambda weights, values: torch.full_like(weights, 1 / len(weights)).lerp(weights.flip(0), 0.5),
            "The output has changed. Hint: a direction n with n @ values = 0 leaves weights @ values as it is.",
            "输出变了。提示：满足 n @ values = 0 的方向 n 不会改变 weights @ values。"),
        "the same row": Mistake(
            lambda weights, values: weights.clone(),
            "This is the row that you were given (or within 0.01 of it). Hint: move along a direction that the output does "
            "not see.",
            "这就是原来那一行（或者相差不到 0.01）。提示：沿着输出看不见的方向移动。"),
    })
