"""Toy tasks in which order is everything, and one small model to compare positional encodings on them."""
import json
from importlib import resources

import numpy as np
import seaborn
import torch
from torch import nn
from torch.nn import functional as F

from helpers.figures import new_figure, show
from helpers.guards import check_ids, guard, guard_sizes
from helpers.multihead import MultiHeadAttention
from helpers.positions import ALiBiAttention, LearnedPositionalEncoding, PositionalEncoding, RotaryAttention

ENCODINGS = ("none", "sinusoidal", "learned", "rotary", "ALiBi")
VOCAB_SIZE = 12
SKIP = -100                                                              # F.cross_entropy leaves such targets out


# ------------------------------------------------------------------ tasks: (batch, n, generator) -> ids, target
def a_before_b(batch, n, generator=None):
    """Ten fillers 0..9, one A = 10 and one B = 11. target (batch,): 1 where A stands before B, else 0."""
    ids = torch.randint(0, 10, (batch, n), generator=generator)
    places = torch.rand(batch, n, generator=generator).argsort(dim=1)[:, :2]          # two different ones
    ids.scatter_(1, places, torch.tensor([[10, 11]]).expand(batch, 2))
    return ids, (places[:, 0] < places[:, 1]).long()


def most_recent_write(batch, n, generator=None):
    """Values 0..7, about one token in four, and fillers 8..11. target (batch, n): the last value up to here."""
    writes = torch.rand(batch, n, generator=generator) < 0.25
    writes[:, 0] = True
    values = torch.randint(0, 8, (batch, n), generator=generator)
    fillers = torch.randint(8, 12, (batch, n), generator=generator)
    last = torch.where(writes, torch.arange(n), 0).cummax(dim=1).values               # where the last value stands
    return torch.where(writes, values, fillers), values.gather(1, last)


def copy_three_back(batch, n, generator=None):
    """Tokens 0..7. target (batch, n): the token three places before; SKIP for the first three."""
    ids = torch.randint(0, 8, (batch, n), generator=generator)
    target = torch.full_like(ids, SKIP)
    target[:, 3:] = ids[:, :-3]
    return ids, target


def recall_third(batch, n, generator=None):
    """Tokens 0..7. target (batch, n): the third token of the sequence; SKIP for the first three."""
    ids = torch.randint(0, 8, (batch, n), generator=generator)
    target = torch.full_like(ids, SKIP)
    target[:, 3:] = ids[:, 2:3]
    return ids, target


TASKS = {"most recent write": most_recent_write, "copy three back": copy_three_back, "recall the third": recall_third}


# ------------------------------------------------------------------ the model
class OrderModel(nn.Module):
    """Embedding, one layer of attention, feed-forward network, read-out.

    encoding: one of ENCODINGS, all that the model is told about order. causal: position i
    attends to 0..i only. pooled: one answer for the mean of all positions, (batch,
    num_outputs); else one for each, (batch, n, num_outputs). slopes: for ALiBi.
    """
    def __init__(self, encoding, num_outputs=8, causal=True, pooled=False, num_hiddens=32,
                 num_heads=2, slopes=(1, 1 / 16)):
        super().__init__()
        self.causal, self.pooled = causal, pooled
        self.embedding = nn.Embedding(VOCAB_SIZE, num_hiddens)
        self.positions = nn.Identity()
        self.attention = MultiHeadAttention(num_hiddens, num_hiddens, num_hiddens, num_hiddens,
                                            num_heads, dropout=0.0)
        if encoding == "sinusoidal":
            self.positions = PositionalEncoding(num_hiddens, dropout=0.0)
        elif encoding == "learned":
            self.positions = LearnedPositionalEncoding(num_hiddens, dropout=0.0)
        elif encoding == "rotary":
            self.attention.attention = RotaryAttention(dropout=0.0)
        elif encoding == "ALiBi":
            self.attention.attention = ALiBiAttention(slopes, dropout=0.0)
        elif encoding != "none":
            known = ", ".join(ENCODINGS)
            raise ValueError(f"encoding must be one of {known}; got {encoding!r}")
        self.feed_forward = nn.Sequential(nn.Linear(num_hiddens, 2 * num_hiddens), nn.ReLU(),
                                          nn.Linear(2 * num_hiddens, num_hiddens))
        self.output = nn.Linear(num_hiddens, num_outputs)

    def forward(self, ids):
        X = self.positions(self.embedding(ids))             # (batch, n, num_hiddens)
        n = X.shape[1]
        mask = torch.ones(1, n, n, device=X.device).tril().bool() if self.causal else None
        X = X + self.attention(X, X, X, mask=mask, need_weights=not self.training)
        X = X + self.feed_forward(X)
        return self.output(X.mean(dim=1) if self.pooled else X)


def _check_order_ids(self, ids):
    check_ids("ids", ids, self.embedding)


guard_sizes(OrderModel)
OrderModel.forward = guard(OrderModel.forward, _check_order_ids)


def order_loss(model, batch):
    """Mean cross-entropy of all targets but SKIP."""
    ids, target = batch
    return F.cross_entropy(model(ids).flatten(0, -2), target.flatten(), ignore_index=SKIP)


def batches(task, batch, n, device=None):
    """Fresh batches of a task without end."""
    while True:
        ids, target = task(batch, n)
        yield ids.to(device), target.to(device)


@torch.no_grad()
def accuracy(model, ids, target):
    """Share of right answers among the last eight positions; for a pooled model, among all answers."""
    device = next(model.parameters()).device
    right = model(ids.to(device)).argmax(dim=-1) == target.to(device)
    return right[..., -8:].float().mean().item() if right.ndim == 2 else right.float().mean().item()


def accuracy_at(model, task, lengths, batch=200, seed=99):
    """Accuracy on the last eight positions of sequences of each length, the same sequences for every model."""
    return [accuracy(model, *task(batch, n, torch.Generator().manual_seed(seed))) for n in lengths]


def stored_results():
    """What benchmarks/length_generalisation.py measured: trained_at, lengths, and accuracy[task][encoding][seed][length]."""
    return json.loads(resources.files("helpers").joinpath("length_generalisation.json").read_text(encoding="utf-8"))


def show_results(results, digits=2, rows=None):
    """Accuracy against length, a panel for each task: the median of all seeds, and a band from lowest to highest.

    results: as stored_results returns them. digits, rows: see helpers.describe; None and [] for what was trained just now.
    """
    lengths, tasks = results["lengths"], results["accuracy"]
    figure = new_figure((2.5 * len(tasks) + 1.4, 2.8))
    axes = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    for ax, (task, by_encoding) in zip(axes, tasks.items()):
        ax.axvline(results["trained_at"], color="0.8", linewidth=5, zorder=0, label="trained at")
        for i, (encoding, runs) in enumerate(by_encoding.items()):
            colour = seaborn.color_palette("colorblind")[i]
            ax.plot(lengths, np.median(runs, axis=0), color=colour, label=encoding, linestyle=("-", "--", "-.", ":")[i % 4],
                    marker="osD^v"[i % 5], markersize=4)
            ax.fill_between(lengths, np.min(runs, axis=0), np.max(runs, axis=0), color=colour, alpha=0.15, linewidth=0)
        ax.set(xlabel="Length", ylabel="Accuracy", xscale="log", ylim=(0, 1.05))
        ax.yaxis.label.set_visible(ax is axes[0])
        ax.set_title(task, fontsize=10)
        ax.set_xticks(lengths, [str(n) if n not in (24, 48, 96) else "" for n in lengths], fontsize=8)
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    show(figure, digits, rows)
