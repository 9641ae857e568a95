"""Toy tasks whose tokens ask questions about other tokens, and a model that answers with one layer of attention.

A task knows, for each token and each question, which position holds the answer. So it can be measured not only whether
an answer is right, but also whether a head looked at the right place.
"""
import copy
from typing import Callable, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from helpers.guards import check_callable, check_ids, check_sizes, guard, guard_sizes, holds, what

NOT_ASKED = -1                                                           # in `where`: this token has no such question


class Task(NamedTuple):
    """fields: for each thing that a token says (name, colour), the words for it. n: tokens in an example.
    questions: their names. draw(size, generator): random examples as (tokens, where), see draw_queues."""
    fields: list
    n: int
    questions: list
    draw: Callable


# ------------------------------------------------------------------ the queue
CHILDREN = ["Ada", "Bo", "Cai", "Dan", "Eva", "Fei", "Gao", "Han", "Ida", "Jun", "Kai", "Lin"]
COLOURS = ["red", "yellow", "green", "blue", "white"]


def draw_queues(size, generator):
    """Ten of the children in a random order, each colour of shirt twice.

    tokens: (size, 10, 2), name and colour of each child. where: (size, 10, 4), the position of the previous child, the
    next, the one with the same colour, and the first; NOT_ASKED where there is no such child.
    """
    names = torch.rand(size, len(CHILDREN), generator=generator).argsort(dim=1)[:, :10]
    colours = torch.rand(size, 10, generator=generator).argsort(dim=1) // 2
    place = torch.arange(10).expand(size, 10)
    same = colours[:, :, None] == colours[:, None, :]                    # (size, 10, 10)
    twin = (same & ~torch.eye(10, dtype=torch.bool)).int().argmax(dim=-1)
    after = (place + 1).masked_fill(place == 9, NOT_ASKED)
    where = torch.stack([place - 1, after, twin, torch.zeros_like(place)], dim=-1)   # before the first: -1, NOT_ASKED
    return torch.stack([names, colours], dim=-1), where


QUEUE = Task(fields=[CHILDREN, COLOURS], n=10, questions=["previous", "next", "twin", "first"], draw=draw_queues)

# ------------------------------------------------------------------ sentences with a pronoun
MEN = ["小明 Ming", "小刚 Gang", "小强 Qiang", "小军 Jun"]
WOMEN = ["小红 Hong", "小芳 Fang", "小丽 Li", "小兰 Lan"]
TIMES = ["昨天 yesterday", "今天 today", "早上 this morning", "晚上 tonight"]
VERBS = ["看见 saw", "等 awaited", "帮助 helped", "叫 called", "送 saw off", "找 looked for"]
PRONOUNS = ["他 he", "她 she"]
STATES = ["累 tired", "饿 hungry", "高兴 happy", "着急 worried"]
WORDS = [*MEN, *WOMEN, *TIMES, *VERBS, "因为 because", *PRONOUNS, *STATES]


def draw_sentences(size, generator):
    """Sentences like 小明 昨天 看见 小红 因为 他 累 (Ming yesterday saw Hong because he was tired).

    tokens: (size, 7, 1). The time stands before or after the subject; one of the two people is a man, the other a woman.
    where: (size, 7, 4), but every token asks one question only: the pronoun for the person, the verb for its subject, the
    subject for the object, and every other word but the first for the word before it.
    """
    def some(words):
        return torch.randint(WORDS.index(words[0]), WORDS.index(words[-1]) + 1, (size,), generator=generator)

    def coin():
        return torch.rand(size, generator=generator) < 0.5

    man, woman, he, man_first, time_first = some(MEN), some(WOMEN), coin(), coin(), coin()
    subject, object_ = torch.where(man_first, man, woman), torch.where(man_first, woman, man)
    time, pronoun = some(TIMES), torch.where(he, WORDS.index(PRONOUNS[0]), WORDS.index(PRONOUNS[1]))
    because = torch.full((size,), WORDS.index("因为 because"))
    tokens = torch.stack([torch.where(time_first, time, subject), torch.where(time_first, subject, time), some(VERBS),
                          object_, because, pronoun, some(STATES)], dim=-1)
    at_subject, row = time_first.int(), torch.arange(size)
    where = torch.full((size, 7, 4), NOT_ASKED)
    where[:, 5, 0] = torch.where(he == man_first, at_subject, 3)          # pronoun: the person
    where[:, 2, 1] = at_subject                                          # verb: its subject
    where[row, at_subject, 2] = 3                                        # subject: the object
    for i in (3, 4, 6):
        where[:, i, 3] = i - 1                                           # the others: the word before
    where[~time_first, 1, 3] = 0
    return tokens[..., None], where


SENTENCES = Task(fields=[WORDS], n=7, questions=["pronoun", "subject", "object", "previous"], draw=draw_sentences)


# ------------------------------------------------------------------ the model
class Answerer(nn.Module):
    """Embeddings, learned positions, one layer of attention, one linear map for all answers.

    No residual connection and no feed-forward network: what an answer needs must come through
    the attention. attention: a MultiHeadAttention, or a module that is called like one;
    its weights are kept in eval mode only. An answer is a word of the task's first field.

    forward: tokens (batch, n, fields). Returns logits (batch, n, questions, words).
    """
    def __init__(self, task, attention, num_hiddens=64):
        super().__init__()
        self.fields = nn.ModuleList(nn.Embedding(len(words), num_hiddens)
                                    for words in task.fields)
        self.positions = nn.Parameter(torch.randn(task.n, num_hiddens))
        self.attention = attention
        self.questions = len(task.questions)
        self.output = nn.Linear(num_hiddens, self.questions * len(task.fields[0]))

    def forward(self, tokens):
        X = sum(embed(tokens[..., i]) for i, embed in enumerate(self.fields))
        X = X + self.positions                              # (batch, n, num_hiddens)
        Y = self.attention(X, X, X, need_weights=not self.training)   # (batch, n, num_hiddens)
        return self.output(Y).unflatten(-1, (self.questions, -1))


def answers(tokens, where):
    """The right answers, (batch, n, questions): the first field of the token at each position; NOT_ASKED stays."""
    found = tokens[..., 0].gather(1, where.clamp(min=0).flatten(1)).view_as(where)
    return found.masked_fill(where == NOT_ASKED, NOT_ASKED)


def answer_loss(model, batch):
    """Mean cross-entropy of all questions that are asked."""
    logits = model(batch[0])                                             # (batch, n, questions, words)
    return F.cross_entropy(logits.flatten(0, -2), answers(*batch).flatten(), ignore_index=NOT_ASKED)


def task_batches(task, size, seed, device=None):
    """Fresh batches without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield tuple(part.to(device) for part in task.draw(size, generator))


# ------------------------------------------------------------------ measuring
@torch.no_grad()
def grade_answers(model, batch):
    """For each question, the share of right answers, (questions,), on the CPU."""
    truth = answers(*batch)
    asked = truth != NOT_ASKED
    right = (model(batch[0]).argmax(dim=-1) == truth) & asked
    return (right.sum(dim=(0, 1)) / asked.sum(dim=(0, 1))).cpu()


def look_shares(weights, where):
    """How much weight each head gives, on average, to the key that holds the answer: (heads, questions), on the CPU.

    weights: (batch, heads, n, n). where: (batch, n, questions).
    """
    asked = where != NOT_ASKED                                           # (batch, n, questions)
    keys = where.clamp(min=0)[:, None].expand(-1, weights.shape[1], -1, -1)
    found = weights.gather(3, keys) * asked[:, None]                     # (batch, heads, n, questions)
    return (found.sum(dim=(0, 2)) / asked.sum(dim=(0, 1))).cpu()


def without_head(model, head):
    """A copy of the model whose W_o takes nothing from that head of model.attention."""
    num_heads = model.attention.num_heads
    if not 0 <= head < num_heads:
        raise ValueError(f"head counts from 0 to {num_heads - 1}, got {head}")
    model = copy.deepcopy(model)
    with torch.no_grad():                               # columns: what W_o reads
        model.attention.W_o.weight.unflatten(1, (num_heads, -1))[:, head] = 0
    return model


# ------------------------------------------------------------------ wrong input, refused by name
def _check_task(task, attention, **others):
    if not isinstance(task, Task):
        raise ValueError(f"task must be a Task, such as QUEUE or SENTENCES; got {what(task)}")
    check_callable(attention=attention)


def _check_tokens(self, tokens):
    wanted = (len(self.positions), len(self.fields))
    if not isinstance(tokens, torch.Tensor) or tokens.ndim != 3 or tuple(tokens.shape[1:]) != wanted:
        raise ValueError(f"tokens must be (batch, n, fields) = (batch, {wanted[0]}, {wanted[1]}), as the task draws them; got "
                         f"{what(tokens)}")
    for i, embed in enumerate(self.fields):
        check_ids(f"tokens of field {i}", tokens[..., i], embed)


def _check_batch(model, batch):
    if not isinstance(batch, (list, tuple)) or len(batch) != 2 or not all(isinstance(part, torch.Tensor) for part in batch):
        raise ValueError(f"batch must be (tokens, where), as the task draws them; got {what(batch)}")
    _check_where(batch[0].new_empty(len(batch[0]), 1, *2 * batch[0].shape[1:2]), batch[1])


def _check_where(weights, where):
    if not isinstance(weights, torch.Tensor) or weights.ndim != 4:
        raise ValueError(f"weights must be a tensor (batch, heads, n, n); got {what(weights)}")
    batch, _, n, keys = weights.shape
    if not isinstance(where, torch.Tensor) or where.dtype != torch.int64 or where.ndim != 3 or where.shape[:2] != (batch, n):
        raise ValueError(f"where must be whole numbers (batch, n, questions) = ({batch}, {n}, questions), the position of each "
                         f"answer; got {what(where)}")
    if where.device != weights.device:
        raise ValueError(f"where is on {where.device}, the weights on {weights.device}: move one of them")
    if holds(where, lambda where: (where < NOT_ASKED) | (where >= keys)):
        raise ValueError(f"where must hold positions from 0 to {keys - 1}, or {NOT_ASKED} where nothing is asked; got numbers from "
                         f"{where.min()} to {where.max()}")


def _check_head(model, head):
    if not hasattr(getattr(model, "attention", None), "num_heads"):
        raise ValueError(f"model must have heads in model.attention, as an Answerer with a MultiHeadAttention has; got {what(model)}")
    check_sizes(least=0, head=head)


guard_sizes(Answerer)
Answerer.__init__ = guard(Answerer.__init__, _check_task)
Answerer.forward = guard(Answerer.forward, _check_tokens)
answer_loss, grade_answers = guard(answer_loss, _check_batch), guard(grade_answers, _check_batch)
look_shares, without_head = guard(look_shares, _check_where), guard(without_head, _check_head)
