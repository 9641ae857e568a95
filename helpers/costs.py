"""What a layer costs: operations, waiting, path length, time and memory, each measured."""
import time
import weakref

import seaborn
import torch
from torch.func import jacrev
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from helpers.figures import check_finite, new_figure, show, to_array
from helpers.guards import check_callable, check_sizes, guard, what


# ------------------------------------------------------------------ computation
def count_flops(function, *inputs):
    """Floating-point operations of all matrix products and convolutions in function(*inputs).

    One multiplication and one addition count as 2. Other additions, tanh and softmax do not
    count, nor does F.scaled_dot_product_attention on a CPU, which the counter does not know.
    """
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
        if any(isinstance(x, torch.Tensor) and x.is_cuda for x in inputs):
            torch.cuda.synchronize()

    def once():
        wait()
        start = time.perf_counter()
        function(*inputs)
        wait()
        return time.perf_counter() - start

    with torch.no_grad():
        once()                                 # the first call also loads and plans
        return min(once() for _ in range(repeats))


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


count_flops = guard(count_flops, _check_function)
longest_chain = guard(longest_chain, _check_chain)
dependence = guard(dependence, _check_tokens)
path_length = guard(path_length, _check_layers)
seconds = guard(seconds, _check_repeats)


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
        check_finite(name, values)
        if values.min() <= 0:
            raise ValueError(f"{name} holds {values.min():g}, which has no place on a logarithmic axis; all must be above 0")
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
