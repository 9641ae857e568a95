"""The exercises of lesson 05."""
import math

import torch

from helpers.checks import Exercise, Mistake, numbers
from helpers.positions import PositionalEncoding, position_angles, rotate


# ------------------------------------------------------------------ position_table(num_steps, num_hiddens)
def _table(even=torch.sin, odd=torch.cos, exponent=lambda c, d: (c - c % 2) / d, first=0):
    """A table built column by column: exponent says which power of 10000 divides the position in column c of d."""
    def build(num_steps, num_hiddens):
        positions = torch.arange(first, first + num_steps, dtype=torch.float64)
        columns = [(odd if c % 2 else even)(positions / 10000 ** exponent(c, num_hiddens)) for c in range(num_hiddens)]
        return torch.stack(columns, dim=1).float()
    return build


def _halves(num_steps, num_hiddens):
    table = _table()(num_steps, num_hiddens)
    return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


def _even_width_only(num_steps, num_hiddens):
    angles = torch.arange(num_steps)[:, None] / 10000 ** (torch.arange(0, num_hiddens, 2) / num_hiddens)
    P = torch.zeros(num_steps, num_hiddens)
    P[:, 0::2] = angles.sin()
    P[:, 1::2] = angles.cos()
    return P


position_table_exercise = Exercise(
    right=lambda num_steps, num_hiddens: PositionalEncoding(num_hiddens, 0.0, max_len=num_steps).P[0],
    cases={("6 positions, width 4", "6 个位置，宽度 4"): (6, 4), ("12 positions, width 8", "12 个位置，宽度 8"): (12, 8),
           ("4 positions, width 5", "4 个位置，宽度 5"): (4, 5)},
    mistakes={
        "sin and cos swapped": Mistake(
            _table(even=torch.cos, odd=torch.sin),
            "Sine and cosine are swapped: position 0 should read 0, 1, 0, 1, ... Hint: even columns hold the sine.",
            "正弦和余弦放反了：位置 0 应当是 0, 1, 0, 1, ……。提示：偶数列放正弦。"),
        "one exponent a column": Mistake(
            _table(exponent=lambda c, d: c / d),
            "Every column has an exponent of its own. Hint: columns 2j and 2j + 1 are a pair and share the exponent 2j/d, so "
            "that the pair is a point on a circle.",
            "每一列各用了一个指数。提示：第 2j 列和第 2j + 1 列是一对，共用指数 2j/d，这一对才是圆上的一个点。"),
        "exponent j/d": Mistake(
            _table(exponent=lambda c, d: (c // 2) / d),
            "The exponent is j/d. Hint: for columns 2j and 2j + 1 it is 2j/d; torch.arange(0, d, 2) counts 0, 2, 4, ...",
            "指数成了 j/d。提示：第 2j 列和第 2j + 1 列的指数是 2j/d；torch.arange(0, d, 2) 数的是 0, 2, 4, ……"),
        "sign of the exponent": Mistake(
            _table(exponent=lambda c, d: -(c - c % 2) / d),
            "The frequencies grow instead of falling. Hint: the position is divided by 10000^(2j/d), that is, multiplied by "
            "10000^(-2j/d).",
            "频率越往后越高了，应当越来越低。提示：位置要除以 10000^(2j/d)，也就是乘 10000^(-2j/d)。"),
        "whole-number division": Mistake(
            _table(exponent=lambda c, d: c // d),
            "All columns have the same frequency: the exponent is 0 everywhere. Hint: / divides, // rounds down.",
            "所有列的频率都一样：指数处处为 0。提示：/ 是除法，// 会向下取整。"),
        "halves": Mistake(
            _halves,
            "All sines stand on the left, all cosines on the right. Hint: they alternate: P[:, 0::2] and P[:, 1::2]. (Some "
            "libraries do it your way. A trained model works with either, but not with a mixture of both.)",
            "正弦全在左半边，余弦全在右半边。提示：两者要交错：P[:, 0::2] 和 P[:, 1::2]。（有的库就是按你的排法做的，两种都能用，但不能混用。）"),
        "sines only": Mistake(
            _table(odd=torch.sin),
            "Odd columns hold the sine, too. Hint: the cosine, of the same angle.",
            "奇数列也放了正弦。提示：应当放同一个角的余弦。"),
        "odd columns empty": Mistake(
            _table(odd=torch.zeros_like),
            "The odd columns are still 0. Hint: P[:, 1::2] takes the cosine of the same angles.",
            "奇数列还是 0。提示：P[:, 1::2] 放同一个角的余弦。"),
        "positions from 1": Mistake(
            _table(first=1),
            "The first position is 1. Hint: positions count from 0, so the first row is 0, 1, 0, 1, ...",
            "位置从 1 开始数了。提示：位置从 0 开始，所以第一行是 0, 1, 0, 1, ……"),
        "transposed": Mistake(
            lambda num_steps, num_hiddens: _table()(num_steps, num_hiddens).T.contiguous(),
            "Rows and columns are swapped. Hint: one row for each position, one column for each dimension.",
            "行和列颠倒了。提示：每个位置一行，每个维度一列。"),
        "even width only": Mistake(
            _even_width_only,
            "Right for an even width, but an odd one stops with an error: there is one cosine column less than there are "
            "sine columns. Hint: assign angles.cos()[:, :num_hiddens // 2].",
            "宽度为偶数时是对的，为奇数时报错：余弦列比正弦列少一列。提示：赋值时用 angles.cos()[:, :num_hiddens // 2]。"),
    })


# ------------------------------------------------------------------ add_positions(X, P)
_REFUSED = ValueError("an error that is raised")


class _WithRefusals(Exercise):
    """An exercise in which raising a ValueError, whatever it says, may be the right answer: _REFUSED stands for it."""
    def verdict(self, function):
        def answer(X, P):
            try:
                return function(X, P)
            except ValueError:
                return _REFUSED
        return super().verdict(answer)


def _checked(add):
    """The same sum, but what is too long is refused."""
    return lambda X, P: _REFUSED if X.shape[1] > len(P) else add(X, P)


_SUMS = {                                                                # each made with and without a check of the length
    "along the batch": Mistake(
        lambda X, P: X + P[:X.shape[0], None],
        "The positions run along the batch: example 0 gets row 0, example 1 row 1. Hint: the steps are axis 1; "
        "P[:X.shape[1]] broadcasts over the batch by itself.",
        "位置加到批量那一维上去了：样本 0 得到第 0 行，样本 1 得到第 1 行。提示：步数在第 1 维；P[:X.shape[1]] 会自动对批量广播。"),
    "first row only": Mistake(
        lambda X, P: X + P[0],
        "Every step gets row 0. Hint: step i gets row i: P[:X.shape[1]].",
        "每一步加的都是第 0 行。提示：第 i 步加第 i 行：P[:X.shape[1]]。"),
    "last rows": Mistake(
        lambda X, P: X + P[-X.shape[1]:],
        "These are the last rows of the table. Hint: the first step gets row 0: P[:X.shape[1]].",
        "取的是表的最后几行。提示：第一步加第 0 行：P[:X.shape[1]]。"),
    "positions from 1": Mistake(
        lambda X, P: X + P[1:X.shape[1] + 1],
        "The first step gets row 1. Hint: positions count from 0: P[:X.shape[1]].",
        "第一步加的是第 1 行。提示：位置从 0 开始数：P[:X.shape[1]]。"),
    "scaled": Mistake(
        lambda X, P: X * math.sqrt(X.shape[2]) + P[:X.shape[1]],
        "X is multiplied by sqrt(d). Hint: the encoding only adds. A model that scales its embeddings does so before.",
        "X 乘上了 sqrt(d)。提示：位置编码只做加法；要缩放词嵌入的模型，在这之前自己缩放。"),
    "side by side": Mistake(
        lambda X, P: torch.cat([X, P[:X.shape[1]].expand(len(X), -1, -1)], dim=-1),
        "The positions are put beside X, so the width grows. Hint: they are added: X + P[:X.shape[1]].",
        "位置拼到了 X 旁边，宽度变大了。提示：是相加：X + P[:X.shape[1]]。"),
    "whole table": Mistake(
        lambda X, P: X + P,
        "The whole table is added, which fits only where X has as many steps as the table has rows. Hint: cut it: "
        "P[:X.shape[1]].",
        "整张表都加上去了，只有步数恰好等于行数时才行得通。提示：先截取：P[:X.shape[1]]。"),
}

add_positions_exercise = _WithRefusals(
    right=_checked(lambda X, P: X + P[:X.shape[1]]),
    cases={
        ("2 examples of 3 steps, a table of 5 rows", "2 个样本、3 步，表有 5 行"): (numbers(2, 3, 4), numbers(5, 4, seed=1)),
        ("as many steps as rows", "步数等于行数"): (numbers(3, 4, 2, seed=2), numbers(4, 2, seed=3)),
        ("3 steps, a table of 1 row", "3 步，表只有 1 行"): (numbers(2, 3, 4, seed=4), numbers(1, 4, seed=5)),
    },
    mistakes={
        "broadcast without a word": Mistake(
            lambda X, P: X + P[:X.shape[1]],
            "A table of one row is too short for three steps, but broadcasting adds it to all of them without a word. Hint: if "
            "X.shape[1] > len(P), raise ValueError(...) first.",
            "只有一行的表不够三步用，广播却一声不响地把它加到了每一步上。提示：如果 X.shape[1] > len(P)，先 raise ValueError(...)。"),
        "one step too strict": Mistake(
            lambda X, P: _checked(lambda X, P: X + P[:X.shape[1]])(X, P[:-1]),
            "As many steps as rows is still fine, but your function refuses it. Hint: > and not >=.",
            "步数恰好等于行数是可以的，你的函数却拒绝了。提示：用 >，不用 >=。"),
        **_SUMS,
        **{f"{name}, checked": mistake._replace(function=_checked(mistake.function)) for name, mistake in _SUMS.items()},
    })


# ------------------------------------------------------------------ shift_matrix(delta, num_hiddens)
def _blocks(angle=lambda delta, j, d: delta / 10000 ** (2 * j / d), signs=(1, -1), diagonal=torch.cos):
    """2 x 2 blocks down the diagonal; signs: those of the sine above and below the diagonal."""
    def build(delta, num_hiddens):
        R = torch.zeros(num_hiddens, num_hiddens)
        for j in range(num_hiddens // 2):
            a, e, o = torch.tensor(float(angle(delta, j, num_hiddens))), 2 * j, 2 * j + 1
            R[e, e] = R[o, o] = diagonal(a)
            R[e, o], R[o, e] = signs[0] * a.sin(), signs[1] * a.sin()
        return R
    return build


def _by_halves(delta, num_hiddens):
    order = torch.cat([torch.arange(0, num_hiddens, 2), torch.arange(1, num_hiddens, 2)])
    return _blocks()(delta, num_hiddens)[order][:, order]


shift_matrix_exercise = Exercise(
    right=_blocks(),
    cases={(f"delta {delta}, width {width}", f"delta 为 {delta}，宽度 {width}"): (delta, width)
           for delta, width in ((1, 4), (3, 8), (-2, 4), (0, 6))},
    mistakes={
        "transposed": Mistake(
            _blocks(signs=(-1, 1)),
            "This matrix turns the other way: it leads from p_(i+delta) back to p_i. Hint: sin(a + w) = sin a cos w + cos a sin w, "
            "and the sine comes first in the pair, so the plus stands in the first row.",
            "这个矩阵转反了：它把 p_(i+delta) 变回 p_i。提示：sin(a + w) = sin a cos w + cos a sin w，一对里正弦在前，所以正号在第一行。"),
        "both signs plus": Mistake(
            _blocks(signs=(1, 1)),
            "Both sines have a plus, so this is no rotation. Hint: cos(a + w) = cos a cos w - sin a sin w.",
            "两个正弦都取了正号，这就不是旋转了。提示：cos(a + w) = cos a cos w - sin a sin w。"),
        "sines missing": Mistake(
            _blocks(signs=(0, 0)),
            "Only the diagonal is filled. Hint: the sine of the new angle needs both the old sine and the old cosine.",
            "只填了对角线。提示：新角的正弦要用到旧角的正弦和余弦两个数。"),
        "sin and cos swapped": Mistake(
            _blocks(angle=lambda delta, j, d: math.pi / 2 - delta / 10000 ** (2 * j / d)),
            "Sine and cosine are swapped: a shift by 0 should be the identity. Hint: cosines on the diagonal.",
            "正弦和余弦放反了：移动 0 步应当得到单位矩阵。提示：余弦放在对角线上。"),
        "one frequency for all": Mistake(
            _blocks(angle=lambda delta, j, d: delta),
            "All pairs turn by the angle delta. Hint: pair j turns by delta / 10000^(2j/d).",
            "所有的列对都转了 delta 这个角。提示：第 j 对转的角是 delta / 10000^(2j/d)。"),
        "exponent j/d": Mistake(
            _blocks(angle=lambda delta, j, d: delta / 10000 ** (j / d)),
            "The exponent is j/d. Hint: pair j, columns 2j and 2j + 1, turns by delta / 10000^(2j/d).",
            "指数成了 j/d。提示：第 j 对是第 2j 列和第 2j + 1 列，转的角是 delta / 10000^(2j/d)。"),
        "sign of the exponent": Mistake(
            _blocks(angle=lambda delta, j, d: delta * 10000 ** (2 * j / d)),
            "The frequencies grow instead of falling. Hint: delta is divided by 10000^(2j/d).",
            "频率越往后越高了，应当越来越低。提示：delta 要除以 10000^(2j/d)。"),
        "delta forgotten": Mistake(
            _blocks(angle=lambda delta, j, d: 1 / 10000 ** (2 * j / d)),
            "The angle does not depend on delta. Hint: pair j turns by delta times its frequency.",
            "角度里没有 delta。提示：第 j 对转的角是 delta 乘以它的频率。"),
        "halves": Mistake(
            _by_halves,
            "The pairs are columns j and j + d/2. Hint: here a pair is two neighbours, columns 2j and 2j + 1.",
            "你的列对是第 j 列和第 j + d/2 列。提示：这里一对是相邻的两列：第 2j 列和第 2j + 1 列。"),
    })


# ------------------------------------------------------------------ rotate(X)
def _turned(power=1, first=0, axis=1, signs=(-1, 1)):
    def wrong(X):
        width = X.shape[-1]
        positions = torch.arange(first, first + X.shape[axis], dtype=torch.float64)
        positions = positions[:, None] if axis == 1 else positions[:, None, None]
        angles = positions * 10000 ** (-power * torch.arange(0, width, 2, dtype=torch.float64) / width)
        cos, sin = angles.cos().float(), angles.sin().float()
        even, odd = X[..., 0::2], X[..., 1::2]
        return torch.stack([even * cos + signs[0] * odd * sin, signs[1] * even * sin + odd * cos], dim=-1).flatten(-2)
    return wrong


def _overwriting(X):
    turned = rotate(X)
    angles = position_angles(*X.shape[1:])
    turned[..., 1::2] = (turned[..., 0::2] * angles.sin() + X[..., 1::2] * angles.cos()).float()
    return turned


def _rotate_halves(X):
    half = X.shape[-1] // 2
    paired = torch.stack([X[..., :half], X[..., half:]], dim=-1).flatten(-2)
    turned = rotate(paired)
    return torch.cat([turned[..., 0::2], turned[..., 1::2]], dim=-1)


rotate_exercise = Exercise(
    right=rotate,
    cases={("2 examples, 5 steps, width 6", "2 个样本、5 步，宽度 6"): (numbers(2, 5, 6, seed=1),),
           ("1 example, 3 steps, width 2", "1 个样本、3 步，宽度 2"): (numbers(1, 3, 2),)},
    mistakes={
        "wrong way round": Mistake(
            _turned(signs=(1, -1)),
            "The pairs turn the other way. (Scores would not notice, as long as queries and keys do the same.) Hint: the point "
            "(x, y) turned by a is (x cos a - y sin a, x sin a + y cos a).",
            "转的方向反了。（只要查询和键都反，得分看不出来。）提示：点 (x, y) 转过角 a，得到 (x cos a - y sin a, x sin a + y cos a)。"),
        "not a rotation": Mistake(
            _turned(signs=(1, 1)),
            "Both sines have a plus, so lengths change and this is no rotation. Hint: x cos a - y sin a.",
            "两个正弦都取了正号，长度变了，这就不是旋转了。提示：x cos a - y sin a。"),
        "both minus": Mistake(
            _turned(signs=(-1, -1)),
            "Both sines have a minus, so lengths change and this is no rotation. Hint: x sin a + y cos a.",
            "两个正弦都取了负号，长度变了，这就不是旋转了。提示：x sin a + y cos a。"),
        "one frequency for all": Mistake(
            _turned(power=0),
            "All pairs turn by the angle i. Hint: pair j turns by i / 10000^(2j / width).",
            "所有的列对都转了 i 这个角。提示：第 j 对转的角是 i / 10000^(2j / 宽度)。"),
        "exponent j/d": Mistake(
            _turned(power=0.5),
            "The exponent is j / width. Hint: pair j, columns 2j and 2j + 1, turns by i / 10000^(2j / width).",
            "指数成了 j / 宽度。提示：第 j 对是第 2j 列和第 2j + 1 列，转的角是 i / 10000^(2j / 宽度)。"),
        "sign of the exponent": Mistake(
            _turned(power=-1),
            "The frequencies grow instead of falling. Hint: i is divided by 10000^(2j / width).",
            "频率越往后越高了，应当越来越低。提示：i 要除以 10000^(2j / 宽度)。"),
        "not turned": Mistake(
            torch.clone,
            "The result is X as it was. Hint: assign both halves, turned[..., 0::2] and turned[..., 1::2], and return turned.",
            "结果还是原来的 X。提示：turned[..., 0::2] 和 turned[..., 1::2] 两半都要赋值，最后返回 turned。"),
        "x overwritten": Mistake(
            _overwriting,
            "The first halves are right. For the second ones you use an x that is turned already. Hint: keep x and y as they "
            "were until both are computed.",
            "前一半对了；算后一半时，用的却是已经转过的 x。提示：两半都算完之前，x 和 y 要保持原样。"),
        "positions from 1": Mistake(
            _turned(first=1),
            "Position 0 is turned, too. Hint: positions count from 0, and an angle of 0 leaves the first row as it is.",
            "位置 0 也转了。提示：位置从 0 数起，角为 0，第一行保持不变。"),
        "along the batch": Mistake(
            _turned(axis=0),
            "The angle grows along the batch. Hint: X is (batch, steps, width); the steps are axis 1.",
            "角度沿着批量那一维增大了。提示：X 的形状是 (批量, 步数, 宽度)，步数在第 1 维。"),
        "added, not turned": Mistake(
            lambda X: PositionalEncoding(X.shape[-1], 0.0)(X),
            "A table of sines is added. Hint: rotary positions add nothing: they turn what is there.",
            "加上了正弦余弦表。提示：旋转位置编码什么也不加，只是把原有的向量转一个角。"),
        "halves": Mistake(
            _rotate_halves,
            "The pairs are columns j and j + width/2. (Some libraries do it that way; weights trained with one do not fit the "
            "other.) Hint: here a pair is two neighbours, X[..., 0::2] and X[..., 1::2].",
            "你的列对是第 j 列和第 j + 宽度/2 列。（有的库就是这样配的；两种配法训练出的权重不能互换。）提示：这里一对是相邻的两列："
            "X[..., 0::2] 和 X[..., 1::2]。"),
    })
