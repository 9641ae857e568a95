"""Checks that several modules share, and a way to put them beside a definition: what a lesson shows stays short."""
import functools
import inspect
import math
import numbers

import torch

SIZES = {"num_hiddens", "num_heads", "num_outputs", "d_k", "d_v", "max_len"}


def guard(function, check):
    """function, but check(**its arguments, by name) comes first. Defaults are filled in; *inputs arrive as one tuple."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def guarded(*positional, **named):
        if torch.compiler.is_compiling():                                # it follows the definition only
            return function(*positional, **named)
        try:
            given = signature.bind(*positional, **named)
        except TypeError:
            return function(*positional, **named)                        # Python itself says what is missing or unknown
        given.apply_defaults()
        check(**given.arguments)
        return function(*positional, **named)
    return guarded


def guard_sizes(*classes):
    """Have the classes refuse, before anything is made, sizes that are no whole numbers from 1 and a dropout outside 0 to 1."""
    for cls in classes:
        cls.__init__ = guard(cls.__init__, _check_sizes_and_dropout)


def _check_sizes_and_dropout(**arguments):
    for name, value in arguments.items():
        if name in SIZES or name.endswith("_size"):
            check_sizes(**{name: value})
        elif name == "dropout":
            check_number(0, 1, dropout=value)


def check_sizes(least=1, **sizes):
    """Refuse sizes that are no whole numbers from `least` on."""
    for name, size in sizes.items():
        if not isinstance(size, (numbers.Integral, torch.SymInt)) or isinstance(size, bool) or size < least:
            raise ValueError(f"{name} must be a whole number, at least {least}; got {size!r}")


def check_number(low, high, **given):
    """Refuse what is no number from low to high."""
    for name, number in given.items():
        if not isinstance(number, numbers.Real) or isinstance(number, bool) or not low <= number <= high or math.isinf(number):
            wanted = f"from {low} to {high}" if math.isfinite(high) else f"from {low} on" if math.isfinite(low) else "that is finite"
            raise ValueError(f"{name} must be a number {wanted}; got {number!r}")


def check_callable(**given):
    """Refuse what cannot be called."""
    for name, value in given.items():
        if not callable(value):
            raise ValueError(f"{name} must be a function or a module, something to call; got {what(value)}")


def check_ids(name, ids, embedding):
    """Refuse token ids (batch, n) that are no rows of the embedding."""
    if not isinstance(ids, torch.Tensor) or ids.ndim != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{name} must be token ids, a tensor of whole numbers (batch, n); got {what(ids)}")
    if ids.device != embedding.weight.device:
        raise ValueError(f"{name} are on {ids.device}, the model on {embedding.weight.device}: move one, as in "
                         f"{name}.to(device) or model.to(device)")
    if holds(ids, lambda ids: (ids < 0) | (ids >= embedding.num_embeddings)):
        raise ValueError(f"{name} hold numbers from {ids.min()} to {ids.max()}, but the vocabulary counts from 0 to "
                         f"{embedding.num_embeddings - 1}")


def check_words(name, sentence):
    """Refuse one string in place of a list of words: its letters would be taken for words."""
    if isinstance(sentence, (str, bytes)) or not all(isinstance(word, str) for word in _items(name, sentence)):
        raise ValueError(f"{name} must be a list of words, such as {name}.split() makes from one string; got {sentence!r}")


def _items(name, values):
    try:
        return list(values)
    except TypeError:
        raise ValueError(f"{name} must be a list, got {what(values)}") from None


def holds(tensor, wrong):
    """Whether some number of the tensor is wrong, as far as it can be read without waiting for a GPU or stopping a compiler."""
    return _read(lambda: wrong(tensor).any(), tensor)


def all_true(tensor):
    """Whether all of a Boolean tensor is True and can be read without waiting for a GPU or stopping a compiler."""
    return _read(tensor.all, tensor)


def _read(condition, tensor):
    if tensor.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    try:
        return bool(condition())
    except RuntimeError:                                                 # a tensor without numbers: fake, or inside vmap
        return False


def what(value):
    """A value in an error message: shape and type of a tensor, else the Python type."""
    return f"shape {tuple(value.shape)}, {value.dtype}" if isinstance(value, torch.Tensor) else type(value).__name__
