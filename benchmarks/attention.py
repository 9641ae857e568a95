"""Multi-head attention side by side: this course's, the book's, PyTorch's, the least that does the job, and flex_attention.

    python benchmarks/attention.py            # about 8 minutes on one thread; on a GPU where try_gpu finds one

Self-attention of random numbers, all with the same sizes. In each round every contestant is called once, in an order of its own,
so that a busy moment of the machine hits all of them. A number is the median of the rounds; behind it, in brackets, the middle
half of the rounds. Forward without gradients in eval mode; forward and backward with gradients for X and all parameters in
training mode, without dropout.
"""
import random
import statistics
import sys
import time
import warnings

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from helpers import MultiHeadAttention, d2l, peak_bytes, try_gpu

SIZES = [(32, 10, 100, 5), (64, 64, 256, 8), (8, 512, 512, 8), (1, 2048, 512, 8)]     # batch, n, width, heads
LONG = [1024, 2048, 4096, 8192, 16384]                                   # n of the table of memory
SECONDS = 20                                                             # for each size, with and without lengths, and pass
ROUNDS = 5                                                               # at least so many, however long they take
DEVICE = try_gpu()


# ------------------------------------------------------------------ contestants: (X, valid_lens or None) -> output
def ours(width, heads, need_weights):
    attention = MultiHeadAttention(*[width] * 4, heads, dropout=0.0)
    return attention, lambda X, lens: attention(X, X, X, lens, need_weights=need_weights)


def book(width, heads):
    attention = d2l.MultiHeadAttention(*[width] * 4, heads, dropout=0.0)
    return attention, lambda X, lens: attention(X, X, X, lens)


def pytorch(width, heads, need_weights):
    attention = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)

    def call(X, lens):
        padding = None if lens is None else ~real_tokens(X, lens)
        return attention(X, X, X, key_padding_mask=padding, need_weights=need_weights, average_attn_weights=False)[0]
    return attention, call


class Least(nn.Module):
    """One product for queries, keys and values, the fused kernel, one product: nothing checked, nothing kept."""
    def __init__(self, width, heads, kernel):
        super().__init__()
        self.heads, self.kernel = heads, kernel
        self.W_qkv, self.W_o = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, X, mask):
        q, k, v = self.W_qkv(X).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)    # (batch, heads, n, width)
        return self.W_o(self.kernel(q, k, v, mask).transpose(1, 2).flatten(2))


def by_hand(width, heads):
    def fused(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    attention = Least(width, heads, fused)
    return attention, lambda X, lens: attention(X, None if lens is None else real_tokens(X, lens)[:, None, None])


def flex(width, heads):
    compiled = torch.compile(flex_attention)

    def kernel(q, k, v, mask):
        return compiled(q, k, v, block_mask=mask)
    attention, masks = Least(width, heads, kernel), {}

    def call(X, lens):
        if lens is not None and id(lens) not in masks:                   # made once for all layers of a model
            masks[id(lens)] = create_block_mask(lambda b, h, q, k: k < lens[b], len(X), None, X.shape[1], X.shape[1], X.device)
        return attention(X, None if lens is None else masks[id(lens)])
    return attention, call


def real_tokens(X, lens):
    return torch.arange(X.shape[1], device=X.device) < lens[:, None]     # (batch, n)


CONTESTANTS = {
    "least by hand": by_hand,
    "ours, without weights": lambda width, heads: ours(width, heads, False),
    "nn.MultiheadAttention, without": lambda width, heads: pytorch(width, heads, False),
    "flex_attention, compiled": flex,
    "ours, with weights": lambda width, heads: ours(width, heads, True),
    "nn.MultiheadAttention, with": lambda width, heads: pytorch(width, heads, True),
    "d2l (always with)": book,
}
RATIOS = [("ours, without weights", "least by hand"), ("ours, without weights", "nn.MultiheadAttention, without"),
          ("ours, with weights", "nn.MultiheadAttention, with"), ("ours, with weights", "d2l (always with)")]


# ------------------------------------------------------------------ measuring
def run(module, call, X, lens, backward):
    """One pass; returns nothing, so that all of it is freed again."""
    module.train(backward)
    if backward:
        call(X, lens).sum().backward()
        module.zero_grad()
        X.grad = None
    else:
        with torch.no_grad():
            call(X, lens)
    if X.device.type != "cpu":
        torch.accelerator.synchronize()


def works(name, *arguments):
    """Whether a first call goes through; it also compiles and loads."""
    try:
        run(*arguments)
        return True
    except Exception as error:
        print(f"{name}: {str(error).splitlines()[0]:.150}", file=sys.stderr)
        return False


def times(contestants, X, lens, backward):
    """{name: seconds of each round}, of those that work."""
    taken = {name: [] for name, made in contestants.items() if works(name, *made, X, lens, backward)}
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(next(iter(taken.values()))) < ROUNDS:
        for name in random.sample(list(taken), len(taken)):
            start = time.perf_counter()
            run(*contestants[name], X, lens, backward)
            taken[name].append(time.perf_counter() - start)
    return taken


def memory(contestants, X, lens):
    """{name: bytes of all tensors at the peak of a forward pass}; on a GPU what its allocator counted."""
    peaks = {}
    for name, (module, call) in contestants.items():
        module.eval()
        if X.is_cuda:
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            run(module, call, X, lens, backward=False)
            peaks[name] = torch.cuda.max_memory_allocated() - before
        elif "compiled" not in name:                                     # its tensors are out of sight
            peaks[name] = peak_bytes(call, X, lens)
    return peaks


def made(width, heads):
    torch.manual_seed(0)
    both = {name: make(width, heads) for name, make in CONTESTANTS.items()}
    return {name: (module.to(DEVICE), call) for name, (module, call) in both.items()}


# ------------------------------------------------------------------ tables
def digits(milliseconds):
    return f"{milliseconds:.2f}" if milliseconds < 10 else f"{milliseconds:.1f}" if milliseconds < 100 else f"{milliseconds:.0f}"


def time_cell(seconds, least):
    low, middle, high = (1000 * quartile for quartile in statistics.quantiles(seconds, n=4))
    return f"{digits(middle)} [{digits(low)}, {digits(high)}] ×{statistics.median(seconds) / statistics.median(least):.2f}"


def size_tables(batch, n, width, heads):
    """Two tables, without and with lengths, each with times of both passes and memory. Returns {column: {name: median}}."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(batch, n, width, generator=generator).to(DEVICE).requires_grad_()
    some = torch.randint(1, n + 1, (batch,), generator=generator).to(DEVICE)
    medians = {}
    for lens in (None, some):
        contestants = made(width, heads)
        forward, both = (times(contestants, X, lens, backward) for backward in (False, True))
        peaks = memory(contestants, X.detach(), lens)
        print(f"\n**({batch}, {n}, {width}, {heads})**{'' if lens is None else ', with lengths'}; "
              f"{len(forward['least by hand'])} and {len(both['least by hand'])} rounds\n")
        print("| | forward, ms | forward and backward, ms | peak memory, MB |\n|---|---|---|---|")
        for name in CONTESTANTS:
            cells = [time_cell(taken[name], taken["least by hand"]) if name in taken else "–" for taken in (forward, both)]
            print(f"| {name} | {cells[0]} | {cells[1]} | {f'{peaks[name] / 1e6:.1f}' if name in peaks else '–'} |", flush=True)
        for title, taken in (("forward", forward), ("both", both)):
            column = title + (", lengths" if lens is not None else "")
            medians[column] = {name: statistics.median(seconds) for name, seconds in taken.items()}
    return medians


def ratio_table(medians):
    """The ratios that matter, of all sizes. medians: {size: {column: {name: median}}}."""
    columns = list(next(iter(medians.values())))
    print("\nOurs, as a ratio of\n\n| | size | " + " | ".join(columns) + " |\n|---|---|" + "---|" * len(columns))
    for ours, other in RATIOS:
        for size, taken in medians.items():
            ratios = [f"{taken[column][ours] / taken[column][other]:.2f}" for column in columns]
            print(f"| {other} | {size} | " + " | ".join(ratios) + " |")


def memory_table(width=512, heads=8):
    """Peak memory of one sequence against its length, with lengths given."""
    print(f"\nPeak memory of a forward pass against n: batch 1, width {width}, {heads} heads, with a length; MB\n")
    print("| | " + " | ".join(f"n = {n}" for n in LONG) + " |\n|---|" + "---|" * len(LONG))
    attention = MultiHeadAttention(*[width] * 4, heads, dropout=0.0).to(DEVICE).eval()
    for name, need in (("ours, without weights", False), ("ours, with weights", True)):
        cells = []
        for n in LONG:
            scores = 3 * heads * n * n * 4                               # and two tensors like them
            if need and scores > 12e9:
                cells.append("–")
                continue
            X = torch.zeros(1, n, width, device=DEVICE)
            call = {name: (attention, lambda X, lens: attention(X, X, X, lens, need_weights=need))}
            cells.append(f"{memory(call, X, torch.tensor([n - 1], device=DEVICE))[name] / 1e6:.0f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    warnings.filterwarnings("ignore")                                    # of the compiler, on what it could do with more cores
    torch.set_num_threads(1)                                             # of the CPU: repeatable, and what a small model uses
    print(f"Device: {torch.cuda.get_device_name(DEVICE) if DEVICE.type == 'cuda' else 'CPU, one thread'}. "
          "Sizes are (batch, n, width, heads); × is the ratio to the least by hand in the same table.")
    ratio_table({size: size_tables(*size) for size in SIZES})
    memory_table()


if __name__ == "__main__":
    main()
