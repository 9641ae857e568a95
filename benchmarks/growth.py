"""How the time of a convolution, an RNN, explicit and fused attention grows with the sequence length.

    python benchmarks/growth.py

Takes about 80 seconds on one core and 2.5 GB. Prints a table in Markdown and draws the figure of lesson 03 at longer lengths
into benchmarks/growth.png. The layers, the measurement, the fit and the figure are those of the lesson (helpers/costs.py).
On a GPU where there is one: COURSE_DEVICE=cpu keeps it on the CPU.
"""
import math
from pathlib import Path

import torch

from helpers import fit_exponents, four_layers, measure_growth, try_gpu
from helpers.costs import draw_times, spread

WIDTH = 64
THEORY = {"convolution": 1, "RNN": 1, "explicit attention": 2, "fused attention": 2}
KEPT = "explicit attention, memory kept"
ROUNDS, REPEATS = 9, 3
FIGURE = Path(__file__).with_name("growth.png")


def with_memory_kept(layers_at, device):
    """layers_at with one layer more: explicit attention whose scores and weights stand in the same memory in every call."""
    W_q, W_k, W_v, W_o = torch.randn(4, WIDTH, WIDTH, device=device) / math.sqrt(WIDTH)

    def five_layers_at(n):
        layers = layers_at(n)
        scores, weights = torch.empty(2, n, n, device=device)

        def kept(X):
            torch.matmul(X @ W_q, (X @ W_k).T, out=scores).div_(math.sqrt(WIDTH))
            torch.softmax(scores, dim=-1, out=weights)
            return weights @ (X @ W_v) @ W_o

        return {**layers, KEPT: (kept, layers["explicit attention"][1])}

    return five_layers_at


def time_table(lengths, times):
    """Milliseconds of each layer at each length and fitted exponents, each as median (lowest to highest round)."""
    rows = []
    for name, rounds in times.items():
        cells = [spread(column, digits=2 if column.quantile(0.5) < 10 else 1) for column in 1e3 * rounds.T]
        rows.append([name, *cells, f"{THEORY.get(name, 2)}", spread(fit_exponents(lengths, rounds))])
    return _markdown(["milliseconds", *(f"n = {n}" for n in lengths), "exponent in theory",
                      f"measured from n = {lengths[len(lengths) // 2]} on"], rows)


def main():
    """Measure, draw the figure, and print the table with what has to be known of it, as Markdown."""
    device = try_gpu()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lengths = [2**power for power in (range(8, 14) if device.type == "cpu" else range(9, 15))]
    times = measure_growth(with_memory_kept(four_layers(WIDTH, device), device), lengths, ROUNDS, REPEATS)
    draw_times(lengths, {name: times[name] for name in THEORY}, THEORY).savefig(FIGURE, dpi=150)
    counted = fit_exponents(lengths, torch.tensor([4 * n**2 * WIDTH + 8 * n * WIDTH**2 for n in lengths]))
    print("\n".join([
        f"Width {WIDTH}, one sequence, 32-bit floats, no gradients, {device.type}. Medians of {ROUNDS} rounds "
        f"(lowest to highest), each round with the shortest of {REPEATS} calls after a warm-up.",
        "", time_table(lengths, times), "",
        "The exponent is the slope of log(time) over log(n) on the longer half of the lengths, fitted in each round. Both attentions "
        f"include four projections; the operations of such a layer, fitted on the same lengths, have the exponent {counted:.2f}. "
        "What the last row saves against explicit attention is the time in which the system finds memory for n x n numbers, twice in "
        "each call.", "", "![Times of the four layers against n, with fitted exponents](growth.png)"]))


def _markdown(head, rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---", *["--:"] * (len(head) - 1)], *rows])


if __name__ == "__main__":
    main()
