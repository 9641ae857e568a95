"""Guards against a slow path coming back: ratios within one run, in turns, far from what is measured. Not part of `make test`.

    python -m pytest benchmarks

Never seconds, and of each only the shortest call: a busy machine makes calls slower, but rarely all of one and none of another.
"""
import time

import attention
import pytest
import torch

LEAST, WITHOUT, WITH, BOOK = "least by hand", "ours, without weights", "ours, with weights", "d2l (always with)"


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def shortest(names, size, with_lengths, backward, rounds=7):
    """{name: the shortest of its calls}."""
    batch, n, width, heads = size
    X = torch.randn(batch, n, width).requires_grad_()
    lens = torch.randint(1, n + 1, (batch,)) if with_lengths else None
    contestants = {name: attention.CONTESTANTS[name](width, heads) for name in names}
    best = dict.fromkeys(names, float("inf"))
    for _ in range(rounds):
        for name in names:
            start = time.perf_counter()
            attention.run(*contestants[name], X, lens, backward)
            best[name] = min(best[name], time.perf_counter() - start)
    return best


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("with_lengths", [False, True], ids=["full", "lengths"])
def test_no_path_has_become_slow(with_lengths, backward):
    best = shortest([LEAST, WITHOUT, WITH, BOOK], (4, 512, 256, 8), with_lengths, backward)
    assert best[WITHOUT] < 1.4 * best[LEAST]
    assert best[WITH] < 1.2 * best[BOOK]
    assert best[WITHOUT] < best[WITH]


def test_checks_and_masks_cost_little_where_there_is_little_to_compute():
    best = shortest([LEAST, WITHOUT, WITH, BOOK], (32, 10, 100, 5), False, False, rounds=100)
    assert best[WITHOUT] < 1.5 * best[LEAST] and best[WITH] < 1.4 * best[BOOK]
