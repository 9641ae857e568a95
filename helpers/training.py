"""One training loop for all lessons, with a progress bar that is live and leaves nothing behind."""
import contextlib
import itertools
import math
import sys
import time

import torch
from torch import nn

from helpers import course
from helpers.guards import check_callable, check_number, check_sizes, what


def train(model, loss, batches, steps, lr, weight_decay=0.0, one_cycle=True):
    """Train model in place for so many steps and return the loss of each, as a list of floats.

    loss: a function of (model, batch) that returns a scalar tensor. batches: an iterable of at least `steps` batches.
    lr: the learning rate of AdamW; with one_cycle the highest one, reached after 30 % of the steps (Smith and Topin
    2018), else constant. Gradients are clipped at norm 1. Afterwards, and after an interruption, the model is in eval mode.
    """
    _check(model, loss, batches, steps, lr, weight_decay)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps) if one_cycle else None
    model.train()
    losses = []
    try:
        with one_thread(), progress(steps) as bar:
            for batch in itertools.islice(batches, steps):
                value = loss(model, batch)
                _check_loss(value)
                optimizer.zero_grad()
                value.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                if schedule is not None:
                    schedule.step()
                losses.append(value.detach())
                bar.advance(value)
    finally:
        model.eval()                                                     # after an interruption, too
    if len(losses) < steps:
        raise ValueError(f"batches ended after {len(losses)} of {steps} steps")
    return torch.stack(losses).tolist()


def _check(model, loss, batches, steps, lr, weight_decay):
    check_sizes(steps=steps)
    check_number(0, math.inf, lr=lr, weight_decay=weight_decay)
    check_callable(loss=loss)
    if not isinstance(model, nn.Module) or not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(f"model must be a module with parameters to train, got {what(model)}")
    if isinstance(batches, torch.Tensor) or not hasattr(batches, "__iter__"):
        raise ValueError(f"batches must be an iterable of batches, such as a list or a generator; got {what(batches)}")


def _check_loss(value):
    if not isinstance(value, torch.Tensor) or value.ndim != 0 or not value.requires_grad:
        lost = ", without a gradient" if isinstance(value, torch.Tensor) and not value.requires_grad else ""
        raise ValueError("loss(model, batch) must return one number with a gradient, a scalar tensor such as F.cross_entropy "
                         f"gives; got {what(value)}{lost}")


@contextlib.contextmanager
def one_thread():
    """Compute on one CPU thread: models as small as this course's get slower with more, above all on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class progress:
    """A progress bar for `steps` steps: a widget in a notebook, text in a terminal, nothing where output is a file."""
    def __init__(self, steps):
        self.bar = _notebook_bar(steps) or _terminal_bar(steps)
        self.drawn = time.monotonic()
        self.waiting = 0

    def __enter__(self):
        return self

    def advance(self, loss):
        self.waiting += 1
        if time.monotonic() - self.drawn > 0.2:                          # seldom: reading a loss makes a GPU wait
            self.bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
            self.bar.update(self.waiting)
            self.drawn, self.waiting = time.monotonic(), 0

    def __exit__(self, error, *details):
        if error is None:
            self.bar.update(self.waiting)                                # tqdm leaves a red bar where steps are missing
        self.bar.close()


def _notebook_bar(steps):
    """tqdm's widget, or None outside a notebook or without ipywidgets."""
    if not course.has_kernel():
        return None
    try:
        import ipywidgets  # noqa: F401  (tqdm needs it, and says so only when it draws)
        from tqdm.notebook import tqdm
    except ImportError:
        return None
    bar = tqdm(total=steps, leave=False, display=False)
    course.show_widget(bar.container)
    return bar


def _terminal_bar(steps):
    from tqdm import tqdm
    return tqdm(total=steps, leave=False, disable=not sys.stderr.isatty())
