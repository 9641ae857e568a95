"""The exercises of lesson 06."""
import math
import re

import torch
from torch.nn import functional as F

from helpers.checks import Exercise, Mistake, numbers
from helpers.patterns import diagonal_score


# ------------------------------------------------------------------ our_name(theirs)
NAMES = {"attention.self.query": "attention.W_q", "attention.self.key": "attention.W_k", "attention.self.value": "attention.W_v",
         "attention.output.dense": "attention.W_o", "attention.output.LayerNorm": "norm1", "intermediate.dense": "ffn.0",
         "output.dense": "ffn.2", "output.LayerNorm": "norm2"}


def _mapped(names=NAMES, layer=lambda number: number, part=lambda part: part, front="blocks."):
    def our_name(theirs):
        number, name, last = re.fullmatch(r"encoder\.layer\.(\d+)\.(.+)\.(weight|bias)", theirs).groups()
        return f"{front}{layer(number)}.{names[name]}.{part(last)}"
    return our_name


def _swapped(one, other):
    return {**NAMES, one: NAMES[other], other: NAMES[one]}


def _replaced(*pairs):
    """One replace after the other, in this order."""
    def our_name(theirs):
        for old, new in pairs:
            theirs = theirs.replace(old, new)
        return theirs
    return our_name


FRONT = ("encoder.layer.", "blocks.")
PROJECTIONS = tuple((old, new) for old, new in NAMES.items() if "self" in old)

name_exercise = Exercise(
    right=_mapped(),
    cases={("a query, layer 0", "查询，第 0 层"): ("encoder.layer.0.attention.self.query.weight",),
           ("a key's bias, layer 3", "键的偏置，第 3 层"): ("encoder.layer.3.attention.self.key.bias",),
           ("a value, layer 5", "值，第 5 层"): ("encoder.layer.5.attention.self.value.weight",),
           ("W_o, layer 1", "W_o，第 1 层"): ("encoder.layer.1.attention.output.dense.weight",),
           ("the norm behind attention", "注意力之后的归一化"): ("encoder.layer.2.attention.output.LayerNorm.weight",),
           ("the first linear layer", "第一个线性层"): ("encoder.layer.2.intermediate.dense.bias",),
           ("the second linear layer", "第二个线性层"): ("encoder.layer.4.output.dense.weight",),
           ("the last norm", "最后的归一化"): ("encoder.layer.4.output.LayerNorm.bias",),
           ("a layer with two digits", "两位数的层号"): ("encoder.layer.11.output.dense.bias",)},
    mistakes={
        "norms swapped": Mistake(
            _mapped(_swapped("attention.output.LayerNorm", "output.LayerNorm")),
            "The two norms are swapped. Hint: attention.output.LayerNorm follows attention, so it is norm1.",
            "两个归一化对调了。提示：attention.output.LayerNorm 跟在注意力后面，所以是 norm1。"),
        "one norm for both": Mistake(
            _mapped({**NAMES, "attention.output.LayerNorm": "norm2"}),
            "Both norms become norm2. Hint: only attention.output.LayerNorm is norm1; ask for the longer name first.",
            "两个归一化都成了 norm2。提示：attention.output.LayerNorm 是 norm1；先判断较长的那个名字。"),
        "linear layers swapped": Mistake(
            _mapped(_swapped("intermediate.dense", "output.dense")),
            "The two linear layers are swapped. Hint: intermediate.dense comes first, it is the one that makes 1536 numbers.",
            "两个线性层对调了。提示：intermediate.dense 在前，把宽度变成 1536 的是它。"),
        "the GELU not counted": Mistake(
            _mapped({**NAMES, "output.dense": "ffn.1"}),
            "ffn.1 is the GELU, which has no parameters. Hint: the second linear layer is ffn.2.",
            "ffn.1 是 GELU，没有参数。提示：第二个线性层是 ffn.2。"),
        "W_o taken for the second linear layer": Mistake(
            _mapped({**NAMES, "attention.output.dense": "ffn.2"}),
            "attention.output.dense becomes a layer of the feed-forward network. Hint: it belongs to attention: it is W_o.",
            "attention.output.dense 成了前馈网络里的层。提示：它属于注意力，就是 W_o。"),
        "output.dense replaced first": Mistake(
            _replaced(FRONT, *PROJECTIONS, ("intermediate.dense", "ffn.0"), ("output.dense", "ffn.2"),
                      ("attention.output.LayerNorm", "norm1"), ("output.LayerNorm", "norm2")),
            "output.dense is part of attention.output.dense, and was replaced there too. Hint: replace the longer name first.",
            "attention.output.dense 里也含有 output.dense，结果被一起替换了。提示：先替换较长的名字。"),
        "output.LayerNorm replaced first": Mistake(
            _replaced(FRONT, *PROJECTIONS, ("intermediate.dense", "ffn.0"), ("attention.output.dense", "attention.W_o"),
                      ("output.dense", "ffn.2"), ("output.LayerNorm", "norm2")),
            "output.LayerNorm is part of attention.output.LayerNorm, and was replaced there too. Hint: replace the longer name "
            "first.",
            "attention.output.LayerNorm 里也含有 output.LayerNorm，结果被一起替换了。提示：先替换较长的名字。"),
        "always layer 0": Mistake(
            _mapped(layer=lambda number: 0),
            "The number of the layer is lost. Hint: it is the third part of theirs.split('.').",
            "层号丢了。提示：它是 theirs.split('.') 的第三项。"),
        "one digit only": Mistake(
            _mapped(layer=lambda number: number[0]),
            "Only the first digit of the layer's number is kept; layer 11 becomes layer 1. Hint: split at the dots.",
            "层号只留下了第一位数字，第 11 层变成了第 1 层。提示：按点号拆开。"),
        "always a weight": Mistake(
            _mapped(part=lambda part: "weight"),
            "A bias becomes a weight. Hint: keep the last part of the name.",
            "偏置变成了权重。提示：名字的最后一段要保留。"),
        "query and key swapped": Mistake(
            _mapped(_swapped("attention.self.query", "attention.self.key")),
            "Queries and keys are swapped. No shape shows it, only the scores would be transposed. Hint: query is W_q.",
            "查询和键对调了。形状上看不出来，只是得分会转置。提示：query 是 W_q。"),
        "encoder.layer kept": Mistake(
            _mapped(front="encoder.layer."),
            "The front of the name is still theirs. Hint: encoder.layer.3 is our blocks.3.",
            "名字的开头还是文件里的。提示：encoder.layer.3 就是我们的 blocks.3。"),
        "weight and bias dropped": Mistake(
            lambda theirs: _mapped()(theirs).rpartition(".")[0],
            "The end of the name, weight or bias, is missing. Hint: add it again.",
            "名字末尾的 weight 或 bias 丢了。提示：再加回去。"),
    })


# ------------------------------------------------------------------ attention_of_layer(X, parameters, layer, num_heads)
def _layer(number=lambda layer: layer, names=("query", "key", "value"), turned=False, bias=True, last=True, last_bias=True,
           heads=lambda h: h, width=lambda whole, one: one, softmax=-1):
    def attention_of_layer(X, parameters, layer, num_heads):
        front = f"encoder.layer.{number(layer)}.attention."
        h = heads(num_heads)

        def linear(X, name, with_bias):
            W = parameters[f"{front}{name}.weight"]
            return X @ (W if turned else W.T) + (parameters[f"{front}{name}.bias"] if with_bias else 0)

        q, k, v = (linear(X, f"self.{name}", bias).unflatten(-1, (h, -1)).transpose(1, 2) for name in names)
        scores = q @ k.transpose(2, 3) / math.sqrt(width(X.shape[-1], q.shape[-1]))
        Y = (torch.softmax(scores, dim=softmax) @ v).transpose(1, 2).flatten(2)
        return linear(Y, "output.dense", last_bias) if last else Y
    return attention_of_layer


def _file(layers, width, seed):
    return {f"encoder.layer.{i}.attention.{name}.{part}": numbers(*shape, seed=seed + 100 * i + 10 * j + k)
            for i in range(layers) for j, name in enumerate(("self.query", "self.key", "self.value", "output.dense"))
            for k, (part, shape) in enumerate((("weight", (width, width)), ("bias", (width,))))}


layer_exercise = Exercise(
    right=_layer(),
    cases={("layer 1 of 2, width 6, 2 heads", "共 2 层中的第 1 层，宽 6，2 个头"): (numbers(2, 4, 6), _file(2, 6, 1), 1, 2),
           ("layer 2 of 3, width 6, 3 heads", "共 3 层中的第 2 层，宽 6，3 个头"): (numbers(1, 5, 6, seed=9), _file(3, 6, 2), 2, 3)},
    mistakes={
        "transposed": Mistake(
            _layer(turned=True),
            "The matrices are used the wrong way round. Hint: the file stores them as nn.Linear does, (out, in): X @ W.T + b, or "
            "load them into a layer.",
            "矩阵用反了。提示：文件里的存法和 nn.Linear 一样，是 (输出, 输入)：X @ W.T + b，或者直接装进层里。"),
        "no biases": Mistake(
            _layer(bias=False, last_bias=False),
            "The biases are missing. Hint: MultiHeadAttention(..., bias=True), and load the names that end in bias.",
            "少了偏置。提示：MultiHeadAttention(..., bias=True)，并装入以 bias 结尾的那些。"),
        "no bias behind W_o": Mistake(
            _layer(last_bias=False),
            "The bias of output.dense is missing. Hint: W_o has one as well.",
            "少了 output.dense 的偏置。提示：W_o 也有偏置。"),
        "no biases before W_o": Mistake(
            _layer(bias=False),
            "The biases of queries, keys and values are missing. Hint: they have one each.",
            "查询、键、值的偏置没有加。提示：三者各有一个。"),
        "W_o left out": Mistake(
            _layer(last=False),
            "W_o is missing. Hint: in the file it is called attention.output.dense.",
            "少了 W_o。提示：它在文件里叫 attention.output.dense。"),
        "always layer 0": Mistake(
            _layer(number=lambda layer: 0),
            "It is always layer 0 that is loaded. Hint: put the number into the name, f\"encoder.layer.{layer}.attention...\".",
            "装入的总是第 0 层。提示：把层号写进名字，f\"encoder.layer.{layer}.attention...\"。"),
        "layers counted from 1": Mistake(
            _layer(number=lambda layer: layer - 1),
            "It is the layer before that is loaded. Hint: the file counts layers from 0, as we do.",
            "装入的是前一层。提示：文件里的层号从 0 数起，和我们一样。"),
        "query and key swapped": Mistake(
            _layer(names=("key", "query", "value")),
            "Queries and keys are swapped: every score stands at the mirrored place. Hint: W_q is self.query.",
            "查询和键对调了，每个得分都落到了转置的位置。提示：W_q 是 self.query。"),
        "key and value swapped": Mistake(
            _layer(names=("query", "value", "key")),
            "Keys and values are swapped. Hint: W_k is self.key, W_v is self.value.",
            "键和值对调了。提示：W_k 是 self.key，W_v 是 self.value。"),
        "one head": Mistake(
            _layer(heads=lambda h: 1),
            "All columns go to one head. Hint: pass num_heads on.",
            "所有列都归了一个头。提示：把 num_heads 传下去。"),
        "scale by the full width": Mistake(
            _layer(width=lambda whole, one: whole),
            "The scores are divided by the root of the full width. Hint: by that of one head's width.",
            "得分除以的是整个宽度的平方根。提示：应当是一个头的宽度的平方根。"),
        "no scale": Mistake(
            _layer(width=lambda whole, one: 1),
            "The scores are not scaled. Hint: divide by the root of one head's width.",
            "得分没有缩放。提示：除以一个头的宽度的平方根。"),
        "softmax over the queries": Mistake(
            _layer(softmax=-2),
            "The softmax runs over the queries. Hint: the keys are the last axis.",
            "softmax 沿着查询那一维做了。提示：键在最后一维。"),
    })


# ------------------------------------------------------------------ find_head(maps, offset)
def _found(score=diagonal_score, join=lambda scores: torch.stack(scores).mean(dim=0), best=torch.argmax,
           place=lambda flat, heads: (flat // heads, flat % heads), maps=lambda maps: maps, offset=lambda offset: offset):
    def find_head(given, by):
        scores = [score(weights, offset(by)) for weights in maps(given)]
        return place(best(join(scores)).item(), given[0].shape[1])
    return find_head


def _around(weights, offset):
    return weights.roll(-offset, dims=-1).diagonal(dim1=-2, dim2=-1).mean(dim=-1)


def _maps(layers, heads, lengths, seed, lifted=()):
    """Softmax rows; lifted: (sentence, layer, head, offset, by how much)."""
    scores = [2 * numbers(layers, heads, n, n, seed=seed + i) for i, n in enumerate(lengths)]
    for sentence, layer, head, offset, much in lifted:
        scores[sentence][layer, head].diagonal(offset).add_(much)
    return [torch.softmax(one, dim=-1) for one in scores]


head_exercise = Exercise(
    right=_found(),
    cases={
        ("2 layers, 3 heads, previous token", "2 层，3 个头，前一个词元"): (
            _maps(2, 3, (5, 4, 6), 0, [*((sentence, 1, 0, -1, 4) for sentence in range(3)), (0, 0, 1, -1, 9), (1, 0, 2, -1, 14),
                                       (2, 1, 2, -1, 9), *((sentence, 0, 0, 1, 9) for sentence in range(3))]), -1),
        ("4 layers, 2 heads, next token", "4 层，2 个头，后一个词元"): (
            _maps(4, 2, (6, 5), 10, [(0, 3, 1, 1, 6), (1, 3, 1, 1, 3), (0, 2, 0, -1, 9), (1, 2, 0, -1, 9)]), 1),
        ("1 layer, 4 heads, itself", "1 层，4 个头，自己"): (_maps(1, 4, (4, 4), 20, [(0, 0, 2, 0, 5), (1, 0, 2, 0, 5)]), 0),
    },
    mistakes={
        "one number": Mistake(
            _found(place=lambda flat, heads: flat),
            "You return one number, the place in the flattened table. Hint: divmod(number, heads) makes (layer, head) of it.",
            "你返回的是一个数，即摊平之后的下标。提示：divmod(这个数, 头数) 就得到 (层, 头)。"),
        "head before layer": Mistake(
            _found(place=lambda flat, heads: (flat % heads, flat // heads)),
            "Layer and head are swapped. Hint: (layer, head).",
            "层和头的顺序反了。提示：应当是 (层, 头)。"),
        "divided by the layers": Mistake(
            lambda maps, offset: divmod(_found(place=lambda flat, heads: flat)(maps, offset), maps[0].shape[0]),
            "The flat place is divided by the number of layers. Hint: a row of the table has as many entries as there are heads.",
            "摊平的下标除以的是层数。提示：表的一行有多少项，取决于头数。"),
        "first sentence only": Mistake(
            _found(maps=lambda maps: maps[:1]),
            "Only the first sentence counts. Hint: score each sentence, then take the mean of the scores.",
            "只看了第一句。提示：每句都打分，再取平均。"),
        "last sentence only": Mistake(
            _found(maps=lambda maps: maps[-1:]),
            "Only the last sentence counts. Hint: score each sentence, then take the mean of the scores.",
            "只看了最后一句。提示：每句都打分，再取平均。"),
        "best single sentence": Mistake(
            _found(join=lambda scores: torch.stack(scores).amax(dim=0)),
            "The best single sentence decides. Hint: the mean over the sentences.",
            "起决定作用的是分数最高的那一句。提示：对各句取平均。"),
        "the lowest": Mistake(
            _found(best=torch.argmin),
            "You return the head with the lowest score. Hint: argmax.",
            "你返回的是分数最低的头。提示：argmax。"),
        "offset the other way": Mistake(
            _found(offset=lambda offset: -offset),
            "The offset has the wrong sign. Hint: -1 is the key before the query, below the main diagonal.",
            "偏移的正负号反了。提示：-1 是查询前面的那个键，在主对角线下方。"),
        "always the main diagonal": Mistake(
            _found(offset=lambda offset: 0),
            "The offset has no effect. Hint: diagonal_score(weights, offset).",
            "offset 没有起作用。提示：diagonal_score(weights, offset)。"),
        "a list": Mistake(
            lambda maps, offset: list(_found()(maps, offset)),
            "The right head, but as a list. Hint: return a tuple, (layer, head), of two whole numbers.",
            "头找对了，但返回的是列表。提示：返回由两个整数组成的元组 (层, 头)。"),
        "tensors": Mistake(
            lambda maps, offset: tuple(torch.tensor(number) for number in _found()(maps, offset)),
            "The right head, but its numbers are tensors. Hint: .item() makes whole numbers of them.",
            "头找对了，但两个数还是张量。提示：用 .item() 变成整数。"),
    })


# ------------------------------------------------------------------ mean_embedding(H, valid_lens)
def _pooled(padding=False, first=False, divide=lambda lens, n: lens, before=False, norm=lambda E: F.normalize(E, dim=-1)):
    def mean_embedding(H, valid_lens):
        H = F.normalize(H, dim=-1) if before else H
        if first:
            return norm(H[:, 0])
        real = torch.arange(H.shape[1], device=H.device) < valid_lens[:, None]    # (batch, n)
        total = H.sum(dim=1) if padding else (H * real[:, :, None]).sum(dim=1)
        return norm(total / divide(valid_lens[:, None], H.shape[1]))
    return mean_embedding


embedding_exercise = Exercise(
    right=_pooled(),
    cases={("lengths 4 and 2 of 4", "长度 4 和 2，共 4 个词元"): (numbers(2, 4, 3), torch.tensor([4, 2])),
           ("lengths 1, 5 and 3 of 5", "长度 1、5、3，共 5 个词元"): (numbers(3, 5, 4, seed=1), torch.tensor([1, 5, 3]))},
    mistakes={
        "padding counted": Mistake(
            _pooled(padding=True),
            "The states of the padding are in the mean. Hint: torch.arange(n) < valid_lens[:, None] says which tokens are real.",
            "填充位置的状态也被算进了平均。提示：torch.arange(n) < valid_lens[:, None] 说明哪些词元是真实的。"),
        "only [CLS]": Mistake(
            _pooled(first=True),
            "You take the state of the first token, [CLS]. Other models do that; this one was trained with the mean of all "
            "tokens. Hint: sum(dim=1).",
            "你取的是第一个词元 [CLS] 的状态。有的模型是这样做的，但这个模型训练时用的是所有词元的平均。提示：sum(dim=1)。"),
        "not normalised": Mistake(
            _pooled(norm=lambda E: E),
            "The mean is right, but its length is not 1. Hint: F.normalize(..., dim=-1).",
            "平均是对的，但长度不是 1。提示：F.normalize(..., dim=-1)。"),
        "padding counted, not normalised": Mistake(
            _pooled(padding=True, divide=lambda lens, n: n, norm=lambda E: E),
            "H.mean(dim=1) counts the padding, and the length is not 1. Hint: first make the states of the padding 0.",
            "H.mean(dim=1) 把填充也算了进去，而且长度不是 1。提示：先把填充位置的状态变成 0。"),
        "only [CLS], not normalised": Mistake(
            _pooled(first=True, norm=lambda E: E),
            "You take the state of [CLS], as it is. Hint: the mean of all real tokens, then F.normalize.",
            "你取的是 [CLS] 的状态，也没有归一化。提示：先求所有真实词元的平均，再 F.normalize。"),
        "divided by the longest, not normalised": Mistake(
            _pooled(divide=lambda lens, n: n, norm=lambda E: E),
            "Each sum is divided by the longest length, and the result has not length 1. Hint: divide by valid_lens[:, None], "
            "then F.normalize.",
            "每个和除以的都是最长的长度，结果的长度也不是 1。提示：除以 valid_lens[:, None]，再 F.normalize。"),
        "normalised before the mean": Mistake(
            _pooled(before=True),
            "Each token's state is normalised before the mean, so all of them count the same. Hint: mean first.",
            "每个词元的状态在求平均之前就归一化了。提示：先求平均。"),
        "normalised over the batch": Mistake(
            _pooled(norm=lambda E: F.normalize(E, dim=0)),
            "The columns have length 1, not the rows. Hint: dim=-1.",
            "长度为 1 的是各列，而不是各行。提示：dim=-1。"),
        "sum to 1": Mistake(
            _pooled(norm=lambda E: torch.softmax(E, dim=-1)),
            "The numbers of each row sum to 1; the squares should. Hint: F.normalize, not softmax.",
            "每行各数之和为 1；应当是平方和为 1。提示：用 F.normalize，不是 softmax。"),
    })
