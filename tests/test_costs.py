"""The measuring instruments of lesson 03: what they read must be what is there."""
import math
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import growth
from helpers import (costs, count_flops, dependence, describe, fit_exponents, four_layers, longest_chain, measure_growth, path_length,
                     peak_bytes, seconds, show_growth, show_times)
from helpers.checks import costs as check
from helpers.costs import draw_growth, draw_times, spread
from helpers.graphs import draw_graphs, layer_graphs, shortest_path


def convolution(X, W, dilation=1):
    reach = dilation * (len(W) // 2)
    padded = F.pad(X, (0, 0, reach, reach))
    return sum(padded[j * dilation:j * dilation + len(X)] @ W[j] for j in range(len(W)))


def rnn(X, W_x, W_h):
    states = [torch.zeros_like(X[0])]
    for x in X:
        states.append(torch.tanh(x @ W_x + states[-1] @ W_h))
    return torch.stack(states[1:])


def attend(Q, K, V):
    return torch.softmax(Q @ K.T / math.sqrt(K.shape[-1]), dim=-1) @ V


def self_attention(X, W_q, W_k, W_v):
    return attend(X @ W_q, X @ W_k, X @ W_v)


def positive(*shape):
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.1


def conv_layer(k, dilation=1):
    return lambda X: convolution(X, positive(k, 1, 1), dilation)


# ------------------------------------------------------------------ computation
@pytest.mark.parametrize("n, d, k", [(1, 1, 1), (5, 2, 3), (33, 16, 9), (100, 512, 3)])
def test_flops_are_the_formulas_of_the_table(n, d, k):
    X, square = torch.zeros(n, d), torch.zeros(d, d)
    assert count_flops(convolution, X, torch.zeros(k, d, d)) == 2 * k * n * d**2
    assert count_flops(nn.Conv1d(d, d, k, padding=k // 2), X.T[None]) == 2 * k * n * d**2
    assert count_flops(rnn, X, square, square) == 4 * n * d**2
    assert count_flops(nn.RNN(d, d, batch_first=True), X[None]) == 4 * n * d**2
    assert count_flops(attend, X, X, X) == 4 * n**2 * d
    assert count_flops(self_attention, X, square, square, square) == 4 * n**2 * d + 6 * n * d**2


@pytest.mark.parametrize("n, m, d", [(5, 7, 2), (100, 100, 512), (1, 9, 3)])
def test_right_answers_of_the_exercises_are_what_the_counter_says(n, m, d):
    def cross_attention(X, Y, W_q, W_k, W_v, W_o):
        return attend(X @ W_q, Y @ W_k, Y @ W_v) @ W_o

    X, Y, squares = torch.zeros(n, d), torch.zeros(m, d), torch.zeros(4, d, d)
    assert check.attention_flops_exercise.right(n, m, d, False) == count_flops(attend, X, Y, Y)
    assert check.attention_flops_exercise.right(n, m, d, True) == count_flops(cross_attention, X, Y, *squares)
    assert check.recurrent_flops_exercise.right(n, d) == count_flops(rnn, X, *squares[:2])
    for k in (3, 5):
        n = check.costs_more_from_exercise.right(d, k)
        X, W = torch.zeros(n, d), torch.zeros(k, d, d)
        assert count_flops(attend, X, X, X) > count_flops(convolution, X, W)
        X = X[1:]
        assert count_flops(attend, X, X, X) <= count_flops(convolution, X, W)


def test_core_needs_more_than_rnn_exactly_beyond_n_equal_d():
    d = 12
    square = torch.zeros(d, d)
    for n in (d - 1, d, d + 1):
        X = torch.zeros(n, d)
        assert (count_flops(attend, X, X, X) > count_flops(rnn, X, square, square)) == (n > d)


# ------------------------------------------------------------------ sequential operations
@pytest.mark.parametrize("n", [1, 2, 7, 1500])                           # 1500: deeper than Python's recursion
def test_chain_of_an_rnn_grows_and_of_the_others_does_not(n):
    X, square = torch.rand(n, 3), torch.rand(3, 3)
    assert longest_chain(lambda X: rnn(X, square, square), X) == n
    assert longest_chain(lambda X: convolution(X, square.repeat(3, 1, 1)), X) == 1
    assert longest_chain(lambda X: self_attention(X, square, square, square), X) == 3
    assert not X.requires_grad                                           # the caller's tensor stays as it is


def test_chain_is_the_longest_not_the_shortest_and_sees_library_layers():
    X, square = torch.rand(4, 3), torch.rand(3, 3)
    assert longest_chain(lambda X: X @ square + X @ square @ square @ square, X) == 3
    assert longest_chain(lambda X: nn.Linear(3, 3)(torch.relu(nn.Linear(3, 3)(X))), X) == 2
    assert longest_chain(lambda X: nn.Conv1d(3, 3, 3, padding=1)(X.T[None]), X) == 1
    assert longest_chain(lambda X: X[None] @ square[None] @ square[None], X) == 2


# ------------------------------------------------------------------ path length
def by_changing(function, X):
    """What dependence says, found another way: change one token and look which outputs move."""
    columns = []
    for j in range(len(X)):
        changed = X.clone()
        changed[j] += 0.5
        columns.append((function(changed) != function(X)).any(dim=-1))
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("name", ["convolution", "dilated", "RNN", "self-attention"])
def test_dependence_is_what_changing_a_token_shows(name):
    W = positive(3, 2, 2)
    function = {"convolution": lambda X: convolution(X, W), "dilated": lambda X: convolution(X, W, 2),
                "RNN": lambda X: rnn(X, W[0], W[1]), "self-attention": lambda X: self_attention(X, *W)}[name]
    X = positive(6, 2)
    depends = dependence(function, X)
    assert torch.equal(depends, by_changing(function, X))
    i, j = torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")
    assert torch.equal(depends, {"convolution": (i - j).abs() <= 1, "dilated": ((i - j).abs() == 2) | (i == j),
                                 "RNN": i >= j, "self-attention": i >= 0}[name])


@pytest.mark.parametrize("n, k", [(2, 3), (5, 3), (10, 5), (12, 7), (33, 9), (33, 3)])
def test_path_length_of_stacked_convolutions_is_the_formula(n, k):
    layers = [conv_layer(k)] * 32
    assert path_length(layers, n) == math.ceil(2 * (n - 1) / (k - 1))
    meet = path_length(layers, n, lambda depends: (depends[:, 0] & depends[:, -1]).any())
    assert meet == math.ceil((n - 1) / (k - 1))
    assert check.layers_needed_exercise.right(n, k) == path_length(layers, n)


def test_path_length_elsewhere():
    assert path_length([conv_layer(1)] * 30, 2) is None
    assert path_length([conv_layer(3)] * 3, 5) is None                   # one layer too few
    for power in (2, 3, 5):
        assert path_length([conv_layer(3, 2**depth) for depth in range(8)], 2**power) == power
    W = positive(3, 1, 1)
    assert path_length([lambda X: self_attention(X, *W)], 20) == 1
    one_way = [lambda X: rnn(X, W[0], W[1])] * 5
    assert path_length(one_way, 20) == 1
    assert path_length(one_way, 20, lambda depends: depends[0, -1]) is None


def test_gradient_vanishes_along_an_rnn_and_not_in_attention():
    for seed in (100, 101, 102):                                         # other seeds than the lesson's
        torch.manual_seed(seed)
        X = torch.randn(100, 32, dtype=torch.float64, requires_grad=True)
        recurrent = nn.RNN(32, 32).double()
        W = [nn.Linear(32, 32, bias=False).double().weight.T for _ in range(3)]
        of_rnn, = torch.autograd.grad(recurrent(X)[0][-1].sum(), X)
        of_attention, = torch.autograd.grad(self_attention(X, *W)[-1].sum(), X)
        assert 0 < of_rnn[0].norm() < 1e-24 and of_rnn[-1].norm() > 0.1
        assert of_attention.norm(dim=-1).min() > 1e-3


# ------------------------------------------------------------------ time and memory
def test_seconds_warms_up_once_and_takes_the_shortest(monkeypatch):
    calls, clock = [], iter([0, 1, 100, 107, 200, 203, 300, 305])        # warm-up 1, then 7, 3, 5
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    assert seconds(lambda x: calls.append(torch.is_grad_enabled()), torch.zeros(1), repeats=3) == 3
    assert calls == [False] * 4


@pytest.mark.parametrize("n, d", [(1, 2), (9, 4), (200, 8)])
def test_the_four_layers_are_what_they_are_called(n, d):
    layers_at = four_layers(d, torch.device("cpu"))
    layers = layers_at(n)
    assert list(layers) == ["convolution", "RNN", "explicit attention", "fused attention"]
    with torch.no_grad():
        explicit, X = layers["explicit attention"]
        fused, _ = layers["fused attention"]
        assert X.shape == explicit(X).shape == (n, d)
        assert torch.allclose(explicit(X), fused(X), atol=1e-5)          # the same weights, so the same output
        for name in ("convolution", "RNN"):
            layer, given = layers[name]
            assert isinstance(layer, {"convolution": nn.Conv1d, "RNN": nn.RNN}[name]) and layer is layers_at(n + 1)[name][0]
            assert torch.equal(given, X.T[None] if name == "convolution" else X[None])
    assert count_flops(explicit, X) == 4 * n**2 * d + 8 * n * d**2
    assert count_flops(*layers["convolution"]) == 6 * n * d**2 and count_flops(*layers["RNN"]) == 4 * n * d**2


def test_explicit_attention_keeps_squares_and_fused_does_not():
    layers_at = four_layers(8, torch.device("cpu"))
    for name, power in (("explicit attention", 2), ("fused attention", 1)):
        peaks = torch.tensor([peak_bytes(*layers_at(n)[name]) for n in (512, 1024, 2048, 4096)])
        assert fit_exponents([512, 1024, 2048, 4096], peaks).item() == pytest.approx(power, abs=0.01)


def test_growth_is_measured_in_rounds_of_all_layers_at_all_lengths(monkeypatch):
    calls = []

    def clock(function, *inputs, repeats):
        calls.append((function, *inputs, repeats))
        return len(calls)

    monkeypatch.setattr(costs, "seconds", clock)
    times = measure_growth(lambda n: {"one": (abs, n), "two": (pow, n, n)}, [3, 5], rounds=2, repeats=4)
    assert calls == [(abs, 3, 4), (pow, 3, 3, 4), (abs, 5, 4), (pow, 5, 5, 4)] * 2       # inputs go along: a GPU is waited for
    assert {name: rounds.tolist() for name, rounds in times.items()} == {"one": [[1, 3], [5, 7]], "two": [[2, 4], [6, 8]]}


@pytest.mark.parametrize("power", [0, 0.5, 1, 2])
@pytest.mark.parametrize("lengths", [[64, 128, 256, 512, 1024, 2048], [1, 2, 3], [10, 11, 40, 1000, 1001]])
def test_fit_of_a_power_is_that_power(power, lengths):
    n = torch.tensor(lengths, dtype=torch.float64)
    fitted = fit_exponents(lengths, torch.stack([3e-6 * n**power, 7 * n**power]))
    assert fitted.tolist() == pytest.approx([power, power], abs=1e-12)
    assert fit_exponents(lengths, n**power).shape == ()                  # one curve, one exponent


def test_fit_is_least_squares_and_noise_stays_within_the_spread():
    lengths, random = [64, 128, 256, 512, 1024, 2048], torch.Generator().manual_seed(3)
    n = torch.tensor(lengths, dtype=torch.float64)
    times = 1e-8 * n**2 * (1 + 0.05 * torch.randn(20, 6, generator=random, dtype=torch.float64))
    fitted = fit_exponents(lengths, times)
    assert fitted.tolist() == pytest.approx([np.polyfit(np.log(lengths[3:]), np.log(row[3:]), 1)[0] for row in times.numpy()])
    assert fitted.min() < 2 < fitted.max() and fitted.max() - fitted.min() < 0.3
    assert spread(torch.tensor([3.0, 1.0, 1.25])) == "1.25 (1.00 to 3.00)" and spread(torch.tensor([3.0, 1.0]), 0) == "2 (1 to 3)"


def test_fit_takes_the_longer_half_because_the_rest_is_overhead():
    lengths = [64, 128, 256, 512, 1024, 2048, 4096]
    n = torch.tensor(lengths, dtype=torch.float64)
    for count in (6, 7):                                                 # of seven, the middle one counts
        times = n[:count]**2
        times[:3] = torch.tensor([5e6, 1.0, 7e9])
        assert fit_exponents(lengths[:count], times).item() == pytest.approx(2)
        times[3] *= 2
        assert fit_exponents(lengths[:count], times).item() < 1.9
    overhead = 1e-4 + 1e-8 * n**2
    assert 1.85 < fit_exponents(lengths, overhead) < 2 and np.polyfit(n.log().numpy(), overhead.log().numpy(), 1)[0] < 1.8


@pytest.mark.parametrize("n, d", [(64, 16), (200, 32)])
def test_peak_of_explicit_attention_is_two_squares_and_of_fused_none(n, d):
    Q = torch.zeros(n, d)
    assert peak_bytes(attend, Q, Q, Q) == 2 * 4 * n**2
    assert peak_bytes(F.scaled_dot_product_attention, *[Q[None, None]] * 3) == 4 * n * (d + 1)


def test_peak_counts_what_lives_at_the_same_time():
    X = torch.zeros(1000)                                                # 4000 bytes; inputs are not counted
    assert peak_bytes(lambda X: X + 1, X) == 4000
    assert peak_bytes(lambda X: X + 1 + 1 + 1 + 1, X) == 8000            # each sum frees the one before it
    assert peak_bytes(lambda X: [X + 1, X + 2, X + 3], X) == 12000
    assert peak_bytes(lambda X: X.view(10, 100).T[:3], X) == 0           # views
    assert peak_bytes(lambda X: (X + 1).add_(1).mul_(2), X) == 4000      # in place
    assert peak_bytes(lambda X: X.double() * 2, X) == 16000


# ------------------------------------------------------------------ figures
def test_description_of_a_measurement_does_not_depend_on_what_came_out(capsys):
    texts = []
    for lengths, times in (([64, 128, 256], [1.0, 2.0, 9.0]), ([512, 1024, 2048], [5.0, 5.0, 0.1])):
        show_growth(lengths, {"RNN": times}, ylabel="milliseconds")
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    for said in ("sequence length n", "milliseconds", "x logarithmic, y logarithmic", '"RNN": 3 values', "x2", "x4"):
        assert said in texts[0]
    assert "ends" not in texts[0]
    show_growth([1, 2], {"RNN": [6, 7]}, ylabel="FLOPs", digits=0)
    assert '"RNN": x 1 2, y 6 7' in capsys.readouterr().out              # counts are the same everywhere: compared
    with pytest.raises(ValueError, match="'RNN' has 2 values for 3"):
        draw_growth([1, 2, 3], {"RNN": [1, 2]}, ylabel="")


def test_exponents_stand_in_the_legend_and_not_in_the_description(capsys):
    texts = []
    for lengths, power in (([64, 128, 256], 1), ([512, 1024, 2048, 4096], 2)):
        n = torch.tensor(lengths, dtype=torch.float64)
        times = {"RNN": torch.stack([n**power, 9 * n**power, 4 * n**power * (n / n[-1])**0.25]), "convolution": n[None]}
        show_times(lengths, times, {"convolution": 1, "RNN": 1.5})
        texts.append(capsys.readouterr().out)
        figure = draw_times(lengths, times, {"convolution": 1, "RNN": 1.5})
        legend, = figure.legends
        words = [text.get_text() for text in legend.get_texts()]
        assert words[:4] == ["RNN", "convolution", "guide: x2 a doubling", "guide: x4 a doubling"]
        assert words[4:] == [f"theory 1.5, measured {power}.00 ({power}.00 to {power}.25)", "theory 1, measured 1.00 (1.00 to 1.00)",
                             "exponent 1", "exponent 2"]
        assert f"from n = {lengths[len(lengths) // 2]} on: median of 3 rounds" in legend.get_title().get_text()
        drawn = figure.axes[0].lines[0].get_ydata()
        assert drawn.tolist() == pytest.approx(times["RNN"].quantile(0.5, dim=0).tolist()) and figure.axes[0].get_legend() is None
    assert texts[0].replace("3 values", "4 values") == texts[1]
    assert '"RNN": 3 values' in texts[0] and "seconds" in texts[0] and "measured" not in texts[0] and "not in a legend" not in texts[0]


def test_attention_of_the_benchmark_that_keeps_its_memory_is_attention_and_makes_no_squares(monkeypatch):
    monkeypatch.setattr(growth, "WIDTH", 8)
    device, weights = torch.device("cpu"), torch.eye(8).repeat(4, 1, 1) * math.sqrt(8)
    monkeypatch.setattr(torch, "randn", lambda *shape, device: weights.clone() if shape[0] == 4 else torch.rand(shape))
    layers = growth.with_memory_kept(four_layers(8, device), device)(100)
    kept, X = layers[growth.KEPT]
    assert list(layers) == [*growth.THEORY, growth.KEPT]
    with torch.no_grad():
        for X in (X, 2 * X):                                             # nothing is left over from the call before
            assert torch.allclose(kept(X), attend(X, X, X), atol=1e-5)
    assert peak_bytes(kept, X) < 4 * 100**2


def test_the_benchmarks_table_holds_what_was_measured():
    lengths = [1024, 2048, 4096]
    n = torch.tensor(lengths, dtype=torch.float64)
    times = {name: torch.stack([0.5 * n**power, n**power, 3 * n**power]) * 1e-6 for name, power in growth.THEORY.items()}
    head, rule, *rows = growth.time_table(lengths, times).splitlines()
    assert [row.count("|") for row in (head, rule, *rows)] == [7] * 6
    assert rows[1] == "| RNN | 1.02 (0.51 to 3.07) | 2.05 (1.02 to 6.14) | 4.10 (2.05 to 12.29) | 1 | 1.00 (1.00 to 1.00) |"
    assert rows[2].startswith("| explicit attention |") and rows[2].endswith("| 2 | 2.00 (2.00 to 2.00) |")


def test_guides_grow_twofold_and_fourfold():
    lines = draw_growth([1, 2, 4], {"RNN": [6.0, 7.0, 8.0]}, ylabel="").axes[0].lines
    guides = [line.get_ydata() for line in lines if "guide" in line.get_label()]
    assert [list(y / y[0]) for y in map(torch.tensor, guides)] == [[1, 2, 4], [1, 4, 16]]


@pytest.mark.parametrize("n, k", [(5, 3), (9, 5), (6, 5)])
def test_drawn_graphs_have_the_arrows_and_ways_of_the_layers(n, k):
    W, w = positive(k, 1, 1), positive(3, 1, 1)
    measured = {f"Convolution (k = {k})": dependence(lambda X: convolution(X, W), positive(n, 1)),
                "Self-attention": dependence(lambda X: self_attention(X, *w), positive(n, 1))}
    hops = {}
    for name, (edges, layers) in layer_graphs(n, k).items():
        hops[name] = len(shortest_path(edges, layers, n)) - 1
        if name in measured:                                             # an arrow for each dependence, no other
            assert {(i, j) for j, i, _ in edges} == {tuple(pair) for pair in measured[name].nonzero().tolist()}
    assert hops == {f"Convolution (k = {k})": math.ceil(2 * (n - 1) / (k - 1)), "RNN": n, "Self-attention": 1}


def test_the_drawn_way_is_described():
    text = describe(draw_graphs(5, 3), digits=0)
    assert 'from x1 to y5" (not in a legend): x 0 1 2 3 4, y 0 1 2 3 4' in text            # up through four layers
    assert 'from x1 to y5" (not in a legend): x 0 0 1 2 3 4, y 0 4 4 4 4 4' in text        # along the row
    assert 'from x1 to y5" (not in a legend): x 0 4, y 0 4' in text                        # at once
    assert 4 * "  13 arrows\n" + "  4 arrows" in text and "  9 arrows" in text and "  25 arrows" in text
    with pytest.raises(ValueError, match="odd number"):
        draw_graphs(5, 4)
