"""Positional encodings: their numbers against numpy, what must not fail without a word, and lesson 05's conclusions."""
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import helpers
from helpers import (ALiBiAttention, LearnedPositionalEncoding, MultiHeadAttention, OrderModel,
                     PositionalEncoding, RotaryAttention, alibi_slopes, rotate, train)
from helpers.checks import positions as check
from helpers.order import (ENCODINGS, SKIP, TASKS, a_before_b, accuracy, accuracy_at, batches, copy_three_back,
                           most_recent_write, order_loss, recall_third, show_results, stored_results)

BOTH = pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])


def by_numpy(steps, width):
    """The table, number by number, in float64."""
    return np.array([[(math.cos if c % 2 else math.sin)(i / 10000 ** ((c - c % 2) / width)) for c in range(width)]
                     for i in range(steps)])


def random(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# ------------------------------------------------------------------ the two tables
@pytest.mark.parametrize("width", [1, 2, 5, 8, 33])
def test_table_is_the_formula_at_all_of_1000_positions(width):
    P = PositionalEncoding(width, 0.0).P
    assert P.shape == (1, 1000, width)
    np.testing.assert_allclose(P[0].double().numpy(), by_numpy(1000, width), atol=1e-7)


@BOTH
def test_row_i_is_added_at_step_i_of_every_example_and_nothing_is_scaled_or_changed(kind):
    encoding, X = kind(6, 0.0, max_len=9), random(3, 4, 6)
    before = X.clone()
    torch.testing.assert_close(encoding(X), X + encoding.P[0, :4])
    assert torch.equal(X, before)


@BOTH
@pytest.mark.parametrize("max_len", [1, 10])
def test_too_long_an_input_is_refused_with_both_numbers(kind, max_len):
    encoding = kind(4, 0.0, max_len=max_len)
    assert encoding(torch.zeros(2, max_len, 4)).shape == (2, max_len, 4)
    with pytest.raises(ValueError, match=f"{max_len + 1} steps.*only {max_len} positions.*max_len={max_len + 1}"):
        encoding(torch.zeros(2, max_len + 1, 4))


@BOTH
@pytest.mark.parametrize("X, said", [
    (torch.zeros(2, 3, 1), "width 1.*must be 4"),                        # would broadcast
    (torch.zeros(3, 4), r"\(batch, steps, 4\)"),                         # the batch is missing
    (torch.zeros(2, 3, 4, dtype=torch.long), "token ids.*int64"),        # the table would be cut to whole numbers
    ([[1.0]], "list"),
])
def test_what_would_broadcast_or_be_cut_is_refused_by_name(kind, X, said):
    with pytest.raises(ValueError, match="X.*" + said):
        kind(4, 0.0)(X)


@BOTH
@pytest.mark.parametrize("wrong", [{"num_hiddens": 0}, {"num_hiddens": 4, "max_len": 0}])
def test_empty_tables_are_refused_by_name(kind, wrong):
    with pytest.raises(ValueError, match=f"{list(wrong)[-1]} must be a whole number, at least 1; got 0"):
        kind(dropout=0.0, **wrong)


def test_fixed_table_moves_with_the_module_and_is_in_no_checkpoint():
    encoding = PositionalEncoding(4, 0.0, max_len=10)
    assert [name for name, _ in encoding.named_buffers()] == ["P"] and not list(encoding.parameters())
    assert encoding.state_dict() == {}
    PositionalEncoding(4, 0.0, max_len=500).load_state_dict(encoding.state_dict())          # strict
    assert encoding.to(torch.float64).P.dtype == torch.float64


def test_learned_table_is_a_parameter_and_only_rows_in_use_get_a_gradient():
    encoding = LearnedPositionalEncoding(4, 0.0, max_len=5)
    assert {name: tuple(P.shape) for name, P in encoding.state_dict().items()} == {"P": (1, 5, 4)}
    encoding(torch.zeros(2, 3, 4)).sum().backward()
    assert encoding.P.grad[0, :, 0].tolist() == [2, 2, 2, 0, 0]


@BOTH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_output_has_the_input_s_type_even_if_the_module_was_not_moved(kind, dtype):
    assert kind(4, 0.0)(torch.zeros(1, 3, 4, dtype=dtype)).dtype == dtype


@BOTH
def test_dropout_acts_in_training_only(kind):
    encoding, X = kind(8, 0.5), random(1, 50, 8)
    share = (encoding(X) == 0).float().mean().item()
    assert 0.35 < share < 0.65
    assert not (encoding.eval()(X) == 0).any()


def test_equal_to_the_book_s_class():
    book = pytest.importorskip("d2l", reason="d2l is not installed") and helpers.d2l
    X = random(2, 60, 32)
    torch.testing.assert_close(PositionalEncoding(32, 0.0)(X), book.PositionalEncoding(32, 0.0)(X.clone()), atol=1e-5, rtol=0)


# ------------------------------------------------------------------ the two changes of the score
def test_rotate_is_complex_multiplication():
    X = random(2, 3, 50, 8, dtype=torch.float64)
    z = X.numpy()[..., 0::2] + 1j * X.numpy()[..., 1::2]
    angles = np.arange(50)[:, None] / 10000 ** (np.arange(0, 8, 2) / 8)
    want = z * np.exp(1j * angles)
    got = rotate(X).numpy()
    np.testing.assert_allclose(got[..., 0::2] + 1j * got[..., 1::2], want, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rotate_keeps_type_and_lengths_and_leaves_the_caller_s_tensor_alone(dtype):
    X = random(1, 1000, 6).to(dtype)
    before = X.clone()
    Y = rotate(X)
    assert Y.dtype == dtype and Y.shape == X.shape and torch.equal(X, before)
    torch.testing.assert_close(Y.float().norm(dim=-1), X.float().norm(dim=-1), atol=0, rtol=2e-2)


@pytest.mark.parametrize("shape", [(1, 3, 5), (4,)])
def test_rotate_refuses_what_has_no_pairs(shape):
    with pytest.raises(ValueError, match=rf"X must be .*even.*\({shape[0]}"):
        rotate(torch.zeros(shape))


def test_rotary_score_depends_on_the_difference_only_and_is_not_symmetric():
    q, k = random(8, dtype=torch.float64), random(8, seed=1, dtype=torch.float64)
    scores = RotaryAttention(0.0).score(q.expand(1, 30, 8), k.expand(1, 30, 8))[0]
    for offset in range(-29, 30):
        diagonal = scores.diagonal(offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert (scores - scores.T).abs().max() > 0.1


def test_rotary_leaves_values_unturned():
    V = random(1, 4, 6)
    out = RotaryAttention(0.0)(torch.zeros(1, 4, 6), torch.zeros(1, 4, 6), V)                # equal weights
    torch.testing.assert_close(out, V.mean(dim=1, keepdim=True).expand(1, 4, 6))


@pytest.mark.parametrize("folded", [False, True])
def test_alibi_gives_each_head_its_own_slope(folded):
    """Batch 3, 2 heads, 4 queries, 5 keys; folded as transpose_qkv does. Slopes swapped or tiled wrongly would show."""
    Q, K = random(3, 2, 4, 6), random(3, 2, 5, 6, seed=1)
    slopes = [0.5, 0.125]
    want = np.stack([[Q[b, h].numpy() @ K[b, h].numpy().T / math.sqrt(6)
                      - slopes[h] * np.abs(np.arange(4)[:, None] - np.arange(5)) for h in range(2)] for b in range(3)])
    attention = ALiBiAttention(slopes, 0.0)
    got = attention.score(Q.flatten(0, 1), K.flatten(0, 1)).unflatten(0, (3, 2)) if folded else attention.score(Q, K)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-5)


def test_alibi_slopes_are_the_paper_s():
    assert alibi_slopes(8) == [2.0 ** -h for h in range(1, 9)]
    assert alibi_slopes(2) == [1 / 16, 1 / 256]


@pytest.mark.parametrize("shape", [(1, 3, 4, 4), (3, 4, 4)])
def test_alibi_refuses_slopes_that_do_not_fit_the_heads(shape):
    with pytest.raises(ValueError, match=r"slopes .*one number for each head.*\(2,\)"):
        ALiBiAttention([1, 0.5], 0.0)(*[torch.zeros(shape)] * 3)


@pytest.mark.parametrize("attention", [RotaryAttention(0.0), ALiBiAttention([1.0], 0.0)])
def test_both_scores_keep_the_interface_of_attention(attention):
    X, lens = random(2, 4, 6), torch.tensor([2, 0])
    out = attention(X, X, X, lens)
    W = attention.attention_weights
    assert (W[0, :, 2:] == 0).all() and (W[1] == 0).all() and out.isfinite().all()
    torch.testing.assert_close(W[0].sum(-1), torch.ones(4))
    assert attention.half()(X.half(), X.half(), X.half()).dtype == torch.float16


def test_inside_multi_head_attention_every_head_is_turned_by_its_own_width():
    torch.manual_seed(0)
    m, X = MultiHeadAttention(8, 8, 8, 8, 2, 0.0), random(2, 5, 8)
    m.attention = RotaryAttention(0.0)
    Q, K, V = m.W_q(X), m.W_k(X), m.W_v(X)
    heads = [F.scaled_dot_product_attention(rotate(Q[..., c]), rotate(K[..., c]), V[..., c]) for c in (slice(0, 4), slice(4, 8))]
    torch.testing.assert_close(m(X, X, X), m.W_o(torch.cat(heads, dim=-1)))


# ------------------------------------------------------------------ exercises: near-misses
def add_refusing_with(error):
    def add(X, P):
        if X.shape[1] > len(P):
            raise error
        return X + P[:X.shape[1]]
    return add


@pytest.mark.parametrize("name, answer, words", [
    ("add_positions", add_refusing_with(ValueError("in words of the learner's own")), "Right"),
    ("add_positions", add_refusing_with(TypeError("no")), "stops with TypeError: no"),
    ("add_positions", lambda X, P: X[:, :len(P)] + P[:X.shape[1]], "returns a Tensor; it should be a ValueError"),
    ("position_table", lambda steps, width: PositionalEncoding(width, 0.0, steps).P, "the shape is (1, 6, 4)"),
    ("shift_matrix", lambda delta, width: check.shift_matrix_exercise.right(abs(delta), width), "In the case delta -2, width 4"),
    ("rotate", lambda X: X, "The result is X as it was"),                # at batch index 0 that is also "along the batch"
])
def test_answers_of_an_exercise_that_are_nearly_right_are_judged_rightly(name, answer, words):
    assert words in getattr(check, f"{name}_exercise").verdict(answer)


# ------------------------------------------------------------------ what lesson 05 concludes
def test_targets_of_the_tasks_by_plain_loops():
    generator = torch.Generator().manual_seed(5)
    ids, target = a_before_b(50, 12, generator)
    assert [row.index(10) < row.index(11) for row in ids.tolist()] == target.bool().tolist()
    assert all(sorted(row)[-2:] == [10, 11] for row in ids.tolist())
    ids, target = most_recent_write(50, 20, generator)
    for row, answers in zip(ids.tolist(), target.tolist()):
        assert answers == [[t for t in row[:i + 1] if t < 8][-1] for i in range(20)]
    ids, target = copy_three_back(5, 9, generator)
    assert target.tolist() == [[SKIP] * 3 + row[:6] for row in ids.tolist()]
    ids, target = recall_third(5, 9, generator)
    assert target.tolist() == [[SKIP] * 3 + [row[2]] * 6 for row in ids.tolist()]


def test_accuracy_counts_the_last_eight_positions():
    class Right(torch.nn.Linear):                                        # answers right from position 8 on
        def forward(self, ids):
            answers = torch.where(torch.arange(ids.shape[1]) < 8, (ids + 1) % 8, ids)
            return F.one_hot(answers, 8).float()
    ids = torch.arange(40).reshape(2, 20) % 8
    assert accuracy(Right(1, 1), ids, ids) == 1
    assert accuracy(Right(1, 1), ids[:, :12], ids[:, :12]) == 0.5


@pytest.mark.parametrize("name, same", [("none", True), ("ALiBi", True), ("sinusoidal", False), ("rotary", False)])
def test_a_sentence_and_its_mirror_image_look_alike_to_a_symmetric_model(name, same):
    """Whatever the weights are, so no training helps: half of the mirrored sentences must be wrong."""
    torch.manual_seed(101)
    model = OrderModel(name, num_outputs=2, causal=False, pooled=True)
    ids, _ = a_before_b(20, 12)
    assert torch.allclose(model(ids), model(ids.flip(1)), atol=1e-5) == same


@pytest.mark.parametrize("name, causal", [("sinusoidal", False), ("rotary", False), ("none", True)])
def test_who_can_learn_whether_a_is_before_b(name, causal):
    torch.manual_seed(101)
    model = OrderModel(name, num_outputs=2, causal=causal, pooled=True)
    train(model, order_loss, batches(a_before_b, 64, 12), steps=400, lr=1e-2)
    assert accuracy(model, *a_before_b(500, 12)) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("task, name, at_32, longer, at_longer", [
    ("most recent write", "ALiBi", (0.99, 1), 256, (0.97, 1)),
    ("most recent write", "rotary", (0.95, 1), 256, (0.2, 0.85)),
    ("most recent write", "sinusoidal", (0.99, 1), 48, (0.1, 0.6)),
    ("copy three back", "ALiBi", (0.2, 0.75), 48, (0.2, 0.75)),
    ("copy three back", "rotary", (0.99, 1), 48, (0.4, 1)),
    ("copy three back", "learned", (0.99, 1), 48, (0.05, 0.3)),
    ("recall the third", "sinusoidal", (0.99, 1), 48, (0.6, 1)),
    ("recall the third", "rotary", (0.15, 0.55), 48, (0.05, 0.35)),
])
def test_no_encoding_is_best_at_everything(task, name, at_32, longer, at_longer):
    """On a seed that neither the lesson nor the stored results used; and the stored seeds say the same."""
    torch.manual_seed(102)
    model = OrderModel(name)
    train(model, order_loss, batches(TASKS[task], 32, 32), steps=400, lr=1e-2)
    stored = stored_results()
    runs = stored["accuracy"][task][name]
    places = [stored["lengths"].index(n) for n in (32, longer)]
    for shares in [accuracy_at(model, TASKS[task], [32, longer]), *[[run[place] for place in places] for run in runs]]:
        assert at_32[0] <= shares[0] <= at_32[1] and at_longer[0] <= shares[1] <= at_longer[1], shares


def test_stored_results_are_what_the_benchmark_would_write():
    path = Path(__file__).resolve().parent.parent / "benchmarks" / "length_generalisation.py"
    spec = importlib.util.spec_from_file_location("length_generalisation", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    stored = stored_results()
    assert stored["trained_at"] == benchmark.TRAINED_AT and stored["lengths"] == benchmark.LENGTHS
    assert list(stored["accuracy"]) == list(TASKS)
    for by_encoding in stored["accuracy"].values():
        assert tuple(by_encoding) == ENCODINGS
        assert all(len(runs) == len(benchmark.SEEDS) >= 8 and {len(run) for run in runs} == {len(benchmark.LENGTHS)}
                   for runs in by_encoding.values())


def test_the_picture_shows_all_seeds_not_the_median_alone(capsys):
    runs = [[1.0, 0.5], [0.9, 0.4], [0.8, 0.1]]                          # 3 seeds, 2 lengths
    show_results({"lengths": [16, 32], "trained_at": 16, "accuracy": {"a task": {"none": runs}}})
    said = capsys.readouterr().out
    assert 'line "none": x 16.00 32.00, y 0.90 0.40' in said and "a band from 0.10 to 1.00" in said


def test_unknown_encoding_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="none, sinusoidal, learned, rotary, ALiBi; got 'rope'"):
        OrderModel("rope")
