"""The training loop."""
import itertools
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers import train, training


def line_loss(model, batch):
    x, y = batch
    return F.mse_loss(model(x), y)


def line_batches():
    while True:
        x = torch.randn(16, 1)
        yield x, 3 * x + 1


def test_it_fits_a_line_and_returns_one_loss_a_step():
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    losses = train(model, line_loss, line_batches(), steps=300, lr=0.1)
    assert len(losses) == 300 and losses[-1] < 1e-3 < losses[0]
    assert model.weight.item() == pytest.approx(3, abs=0.05) and model.bias.item() == pytest.approx(1, abs=0.05)
    assert not model.training


def test_it_says_when_batches_run_out():
    with pytest.raises(ValueError, match="3 of 5"):
        train(nn.Linear(1, 1), line_loss, itertools.islice(line_batches(), 3), steps=5, lr=0.1)
    with pytest.raises(ValueError, match="steps"):
        train(nn.Linear(1, 1), line_loss, line_batches(), steps=0, lr=0.1)


def test_an_interruption_comes_through_closes_the_bar_and_leaves_the_model_ready(monkeypatch):
    closed = []
    monkeypatch.setattr(training, "_terminal_bar", lambda steps: SimpleNamespace(close=lambda: closed.append(True)))
    model, threads = nn.Linear(1, 1), torch.get_num_threads()

    def interrupted(model, batch):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        train(model, interrupted, line_batches(), steps=5, lr=0.1)
    assert closed == [True] and not model.training and torch.get_num_threads() == threads


def test_the_bar_is_told_of_every_step(monkeypatch):
    told = []
    bar = SimpleNamespace(update=told.append, close=lambda: told.append("closed"), set_postfix=lambda **options: None)
    monkeypatch.setattr(training, "_terminal_bar", lambda steps: bar)
    train(nn.Linear(1, 1), line_loss, line_batches(), steps=7, lr=0.1)
    assert sum(told[:-1]) == 7 and told[-1] == "closed"


def test_nothing_is_written_where_output_is_a_file(capfd):
    train(nn.Linear(1, 1), line_loss, line_batches(), steps=3, lr=0.1)
    assert capfd.readouterr() == ("", "")
