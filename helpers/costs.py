"""What a layer costs: operations, waiting, path length, time and memory, each measured."""
import math
import numbers
import time
import weakref

import seaborn
import torch
from matplotlib.lines import Line2D
from torch import nn
from torch.func import jacrev
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from helpers.figures import check_finite, new_figure, show, to_array
from helpers.guards import check_callable, check_number, check_sizes, guard, what


# ------------------------------------------------------------------ computation
def count_flops(function, *inputs):
    """Floating-point operations of all matrix products and convolutions in function(*inputs).

    One multiplication and one addition count as 2. Other additions, tanh and softmax do not
    count, nor does F.scaled_dot_product_attention on a CPU, which the counter does not know.
    """
    from torch.utils.flop_counter import FlopCounterMode  # slow to import, seldom needed
    with FlopCounterMode(display=False) as counter:
        function(*inputs)
    return counter.get_total_flops()


# ------------------------------------------------------------------ sequential operations
def longest_chain(function, X):
    """The longest chain of matrix products in function(X) that have to wait for one another.

    Read from the graph that autograd records: each operation knows the operations whose
    results it used. Only what depends on X counts.
    """
    products = {"MmBackward0", "BmmBackward0", "AddmmBackward0", "ConvolutionBackward0"}
    last = function(X.detach().requires_grad_()).grad_fn
    if last is None:
        raise ValueError("function(X) must depend on X by operations that autograd records")
    length, waiting = {}, [last]
    while waiting:
        operation = waiting[-1]
        used = [before for before, _ in operation.next_functions if before is not None]
        unknown = [before for before in used if before not in length]
        if unknown:
            waiting.extend(unknown)
        else:
            longest = max((length[before] for before in used), default=0)
            length[waiting.pop()] = longest + (operation.name() in products)
    return length[last]


# ------------------------------------------------------------------ path length
def dependence(function, X):
    """Which output tokens depend on which input tokens: (n, n), True where d y_i / d x_j != 0.

    function: takes X, (n, d), and returns (n, d). Use random positive weights and tokens: then
    two ways from x_j to y_i do not happen to cancel out.
    """
    jacobian = jacrev(function)(X)                          # (n out, d out, n in, d in)
    if jacobian.ndim != 4:
        raise ValueError("function must take one tensor (n, d) and return one (n, d)")
    return (jacobian != 0).any(dim=3).any(dim=1)            # (n out, n in)


def path_length(layers, n, reached=lambda depends: depends[-1, 0]):
    """How many of the layers, one on top of the other, it takes until `reached`; None if all
    are too few.

    layers: functions from (n, 1) to (n, 1) with positive weights.
    reached: a function of the matrix of dependence, True or False; unless given, "the last
        output depends on the first token".
    """
    X = torch.rand(n, 1, dtype=torch.float64)
    for depth in range(1, len(layers) + 1):
        def stack(Y):
            for layer in layers[:depth]:
                Y = layer(Y)
            return Y
        if reached(dependence(stack, X)):
            return depth
    return None


# ------------------------------------------------------------------ time and memory
def seconds(function, *inputs, repeats=20):
    """The shortest time of function(*inputs) after a warm-up, without gradients.

    Waits for a GPU to finish its work, before and after. The shortest of several calls, because
    whatever else runs on the machine can make a call slower, but not faster.
    """
    def wait():
        if any(isinstance(x, torch.Tensor) and x.device.type != "cpu" for x in inputs):
            torch.accelerator.synchronize()

    def once():
        wait()
        start = time.perf_counter()
        function(*inputs)
        wait()
        return time.perf_counter() - start

    with torch.no_grad():
        once()                                 # the first call also loads and plans
        return min(once() for _ in range(repeats))


def four_layers(d, device):
    """A function of n that gives four layers of width d: {name: (function, n tokens for it)}.

    The weights, which all lengths share, and the tokens are random. Both attentions have
    projections at both ends; only one writes down its weights.
    """
    conv = nn.Conv1d(d, d, 3, padding=1, bias=False, device=device)
    recurrent = nn.RNN(d, d, batch_first=True, bias=False, device=device)
    W_q, W_k, W_v, W_o = torch.randn(4, d, d, device=device) / math.sqrt(d)

    def explicit(X):
        Q, K, V = X @ W_q, X @ W_k, X @ W_v                     # (n, d) each
        weights = torch.softmax(Q @ K.T / math.sqrt(d), dim=-1)             # (n, n)
        return weights @ V @ W_o                                # (n, d)

    def fused(X):
        Q, K, V = [(X @ W)[None, None] for W in (W_q, W_k, W_v)]            # (1, 1, n, d) each
        return F.scaled_dot_product_attention(Q, K, V)[0, 0] @ W_o          # (n, d)

    def layers_at(n):
        X = torch.randn(n, d, device=device)
        return {"convolution": (conv, X.T[None].contiguous()), "RNN": (recurrent, X[None]),
                "explicit attention": (explicit, X), "fused attention": (fused, X)}

    return layers_at


def measure_growth(layers_at, lengths, rounds=7, repeats=4):
    """Seconds of several layers at several lengths: {name: (rounds, lengths)}.

    layers_at: takes n and returns {name: (function, *inputs)}. A round measures each of them at
    each length, the shortest of `repeats` calls. So a busy moment of the machine spoils one
    round of all layers, not all rounds of one layer.
    """
    layers = [layers_at(n) for n in lengths]
    times = {name: torch.zeros(rounds, len(lengths)) for name in layers[0]}
    for i in range(rounds):
        for j in range(len(lengths)):
            for name, (function, *inputs) in layers[j].items():
                times[name][i, j] = seconds(function, *inputs, repeats=repeats)
    return times


def fit_exponents(lengths, times):
    """The exponent p of a time that grows like n^p: the slope of log(time) over log(n).

    times: (lengths,) or (rounds, lengths), in any unit. Returns one exponent, or one for each
    round. Least squares over the longer half of the lengths (of an odd number, with the one in
    the middle): the time at short ones is overhead, which does not grow.
    """
    half = len(lengths) // 2
    x = torch.as_tensor(lengths[half:], dtype=torch.float64).log()
    y = times[..., half:].double().log()
    x = x - x.mean()
    return y @ x / (x @ x)


def peak_bytes(function, *inputs):
    """The most bytes that tensors made in function(*inputs) take at one time, without gradients.

    Inputs are not included. Counts what operations return. What a kernel needs for itself while it runs is not seen.
    """
    check_callable(function=function)
    with torch.no_grad(), _LiveBytes() as live:
        function(*inputs)
    return live.peak


class _LiveBytes(TorchDispatchMode):
    """Adds up the storage of every new tensor and subtracts it when the storage is freed."""
    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self.known = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.known | given:             # else a view, or changed in place
                    self.known.add(storage._cdata)
                    self.now += storage.nbytes()
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes())
        return result

    def _freed(self, key, size):
        self.known.discard(key)
        self.now -= size


# ------------------------------------------------------------------ wrong input, refused by name
def _check_function(function, **others):
    check_callable(function=function)


def _check_chain(function, X):
    check_callable(function=function)
    if not isinstance(X, torch.Tensor) or not X.is_floating_point():
        raise ValueError(f"X must be a tensor of floating-point numbers, which can have a gradient; got {what(X)}")


def _check_tokens(function, X):
    _check_chain(function, X)
    if X.ndim != 2:
        raise ValueError(f"X must be (n, d), a row for each token; got {what(X)}")


def _check_layers(layers, n, reached):
    check_callable(reached=reached)
    if not isinstance(layers, (list, tuple, torch.nn.ModuleList, torch.nn.Sequential)) or not all(map(callable, layers)):
        raise ValueError(f"layers must be a list of functions from (n, 1) to (n, 1); got {what(layers)}")
    check_sizes(n=n)


def _check_repeats(function, inputs, repeats):
    check_callable(function=function)
    check_sizes(repeats=repeats)


def _check_width(d, device):
    check_sizes(d=d)
    if not isinstance(device, torch.device):
        raise ValueError(f"device must be a torch.device, as try_gpu() returns it; got {device!r}")


def _check_lengths(lengths, least):
    whole = isinstance(lengths, (list, tuple, range)) and all(
        isinstance(n, numbers.Integral) and not isinstance(n, bool) and n >= 1 for n in lengths)
    if not whole or len(lengths) < least or any(two <= one for one, two in zip(lengths, lengths[1:])):
        raise ValueError(f"lengths must be a list of whole numbers, at least {least}, each longer than the one before; got {lengths!r:.200}")


def _check_rounds(layers_at, lengths, rounds, repeats):
    check_callable(layers_at=layers_at)
    _check_lengths(lengths, 1)
    check_sizes(rounds=rounds, repeats=repeats)
    names = None
    for n in lengths:
        layers = layers_at(n)
        if not isinstance(layers, dict) or not layers:
            raise ValueError(f"layers_at({n}) must return {{name: (function, *inputs)}}, at least one; got {what(layers)}")
        for name, call in layers.items():
            if not isinstance(call, (tuple, list)) or not call or not callable(call[0]):
                raise ValueError(f"layers_at({n}) must return (function, *inputs) for {name!r}; got {what(call)}")
        names = names or list(layers)
        if list(layers) != names:
            raise ValueError(f"layers_at must return the same names at each length; got {names}, and at n = {n} {list(layers)}")


def _check_fit(lengths, times):
    _check_lengths(lengths, 3)
    if not isinstance(times, torch.Tensor) or times.ndim not in (1, 2) or times.shape[-1] != len(lengths) or not len(times):
        raise ValueError(f"times must be a tensor (lengths,) or (rounds, lengths), here of {len(lengths)} lengths; got {what(times)}")
    _check_positive("times", to_array(times, "times"))


def _check_positive(name, values):
    check_finite(name, values)
    if values.min() <= 0:
        raise ValueError(f"{name} holds {values.min():g}, which has no place on a logarithmic axis; all must be above 0")


def _check_times(lengths, times, theory):
    if not isinstance(times, dict) or not times:
        raise ValueError(f"times must be {{name: (rounds, lengths)}}, at least one; got {times!r:.200}")
    for name, rounds in times.items():
        if not isinstance(rounds, torch.Tensor) or rounds.ndim != 2:
            raise ValueError(f"times of {name!r} must be a tensor (rounds, lengths), as measure_growth returns it; got {what(rounds)}")
    if not isinstance(theory, dict) or set(theory) != set(times):
        raise ValueError(f"theory must be {{name: exponent}} with the names {list(times)}; got {theory!r:.200}")
    for name, exponent in theory.items():
        check_number(-math.inf, math.inf, **{f"theory of {name!r}": exponent})


count_flops = guard(count_flops, _check_function)
longest_chain = guard(longest_chain, _check_chain)
dependence = guard(dependence, _check_tokens)
path_length = guard(path_length, _check_layers)
seconds = guard(seconds, _check_repeats)
four_layers = guard(four_layers, _check_width)
measure_growth = guard(measure_growth, _check_rounds)
fit_exponents = guard(fit_exponents, _check_fit)


# ------------------------------------------------------------------ figures
def show_growth(lengths, curves, ylabel, digits=None):
    """Show curves over the sequence length, on logarithmic axes, beside guides that grow x2 and x4 a doubling.

    curves: {name: a value for each length}.
    digits: of the values in the description. None leaves out values and trends: for times, which belong to one machine.
    """
    show(draw_growth(lengths, curves, ylabel), digits, rows=[] if digits is None else None)


def draw_growth(lengths, curves, ylabel):
    """Like show_growth, but return the matplotlib Figure without showing it."""
    if not isinstance(curves, dict) or not curves:
        raise ValueError(f"curves must be {{name: a value for each length}}, at least one; got {curves!r:.200}")
    curves = {name: to_array(values, f"curve {name!r}") for name, values in curves.items()}
    lengths = to_array(lengths, "lengths")
    for name, values in {"lengths": lengths, **curves}.items():
        name = name if name == "lengths" else f"curve {name!r}"
        if lengths.ndim != 1 or values.shape != lengths.shape or not lengths.size:
            raise ValueError(f"{name} has {values.size} values for {lengths.size} lengths; give one for each, in a row")
        _check_positive(name, values)
    figure = new_figure((5, 3.3))
    ax = figure.subplots()
    colours = seaborn.color_palette("colorblind")
    for i, (name, values) in enumerate(curves.items()):
        ax.plot(lengths, values, label=name, color=colours[i % 10], linestyle=("-", "--", "-.", ":")[i % 4], marker="osD^"[i % 4],
                markersize=4)
    ax.set(xscale="log", yscale="log", xlabel="sequence length n", ylabel=ylabel)
    # Guides start below all curves: only their slopes matter.
    low = min(min(values) for values in curves.values()) / 2
    for power, style in ((1, (0, (1, 1))), (2, (0, (4, 1, 1, 1)))):
        ax.plot(lengths, [low * (n / lengths[0])**power for n in lengths], label=f"guide: x{2**power} a doubling",
                color="0.6", linewidth=1, linestyle=style)
    ax.set_xticks(lengths, [f"{n:.0f}" for n in lengths], minor=False)
    ax.minorticks_off()
    ax.tick_params(labelsize=9)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
    return figure


def show_times(lengths, times, theory):
    """Show measured times, the median of their rounds, beside guides; the legend gives their exponents.

    times: {name: (rounds, lengths)}, as measure_growth returns them. theory: {name: the exponent to expect}. Exponents are
    fitted by fit_exponents in each round: the median, the lowest and the highest are given. The description holds
    nothing of all this, since times belong to one machine.
    """
    show(draw_times(lengths, times, theory), digits=None, rows=[])


def draw_times(lengths, times, theory):
    """Like show_times, but return the matplotlib Figure without showing it."""
    _check_times(lengths, times, theory)
    facts = [f"theory {theory[name]:g}, measured {spread(fit_exponents(lengths, rounds))}" for name, rounds in times.items()]
    rounds = len(next(iter(times.values())))
    figure = draw_growth(lengths, {name: rounds.quantile(0.5, dim=0) for name, rounds in times.items()}, "seconds")
    figure.set_size_inches(6, 4.8)
    ax, = figure.axes
    ax.get_legend().remove()
    # A second column, without lines of its own. The title stands in no description: the lengths depend on the device.
    handles = [*ax.lines, *[Line2D([], [], linestyle="none")] * len(ax.lines)]
    labels = [*(line.get_label() for line in ax.lines), *facts, "exponent 1", "exponent 2"]
    figure.legend(handles, labels, ncols=2, loc="outside lower center", fontsize=8, title_fontsize=8,
                  title=f"exponents from n = {lengths[len(lengths) // 2]} on: median of {rounds} rounds (lowest to highest)")
    return figure


def spread(values, digits=2):
    """Numbers in one phrase: "median (lowest to highest)"."""
    median, low, high = (f"{value:.{digits}f}" for value in (values.quantile(0.5), values.min(), values.max()))
    return f"{median} ({low} to {high})"
