"""Where the course computes: what decides, and that everything goes there and comes back.

What only a GPU shows is walked with fake CUDA tensors: whatever is made on the way must be made on the GPU, and whatever is
drawn, printed or counted must have come back from it.
"""
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_gpu import fake_cuda
from matplotlib.figure import Figure
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import helpers
from helpers import (Answerer, DotProductAttention, MiniLM, MultiHeadAttention, OrderModel, SenseModel, TransformerBlock, Translator,
                     block_score, checks, costs, draw_all_heads, draw_heatmaps, fused_attention, grade_answers,
                     grade_translations, look_shares, pattern_scores, peak_bytes, position_angles, read_sentences,
                     rotate, seconds, softmax_in_place, train, training, translate, translation_loss, try_gpu)
from helpers.order import ENCODINGS, TASKS, accuracy, batches, order_loss
from helpers.queues import QUEUE, SENTENCES, answer_loss, task_batches
from helpers.senses import TOKENS, make_sentences, read_nouns, sense_batches, sense_loss
from helpers.translation import ENGLISH, FRENCH, make_pairs, shuffled_batches, to_batch


# ------------------------------------------------------------------ what decides
@pytest.fixture
def machine(monkeypatch):
    """A machine with so many GPUs, Apple's or not, and this value of COURSE_DEVICE."""
    def machine(gpus=0, mps=False, value=None):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
        monkeypatch.delenv("COURSE_DEVICE", raising=False)
        if value is not None:
            monkeypatch.setenv("COURSE_DEVICE", value)
    return machine


@pytest.mark.parametrize("gpus, wanted, device", [(0, 0, "cpu"), (1, 0, "cuda:0"), (1, 1, "cpu"), (2, 1, "cuda:1")])
def test_a_gpu_is_taken_only_where_there_is_one(machine, gpus, wanted, device):
    for value in (None, "", " "):
        machine(gpus, mps=True, value=value)
        assert try_gpu(wanted) == torch.device(device)


@pytest.mark.parametrize("value, device", [("cpu", "cpu"), ("cuda", "cuda:0"), ("cuda:0", "cuda:0"), ("cuda:1", "cuda:1"),
                                           ("mps", "mps"), (" CPU ", "cpu")])
def test_the_variable_decides(machine, value, device):
    machine(gpus=2, mps=True, value=value)
    assert try_gpu() == try_gpu(1) == torch.device(device)


@pytest.mark.parametrize("value", ["gpu", "cuda:2", "cuda:01", "cuda:-1", "cuda:", "meta", "cpu:0", "cpu,cuda"])
def test_what_is_no_device_here_is_refused(machine, value):
    machine(gpus=2, value=value)
    with pytest.raises(ValueError, match=rf"COURSE_DEVICE must be empty or .*: cpu, cuda:0, cuda:1; got '{value}'"):
        try_gpu()


@pytest.mark.parametrize("value", ["cuda", "cuda:0", "mps"])
def test_a_device_that_is_not_there_is_not_replaced_by_another(machine, value):
    machine(value=value)
    with pytest.raises(ValueError, match=f"COURSE_DEVICE .*: cpu; got '{value}'"):
        try_gpu()


# ------------------------------------------------------------------ everything goes to the GPU
def on_gpu(make):
    with torch.device("cuda"):
        return make().eval()


def empty(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device="cuda")


@pytest.fixture
def come_back(monkeypatch):
    """What is read from a fake tensor is 0, or 1 if numpy reads it; then it must have come back from the GPU."""
    def as_array(tensor, dtype=None, copy=None):
        assert tensor.device.type == "cpu", "numpy reads no tensor on a GPU"
        return np.ones(tuple(tensor.shape), dtype)
    monkeypatch.setattr(torch.Tensor, "__array__", as_array)
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: np.zeros(tuple(tensor.shape), int).tolist())
    monkeypatch.setattr(torch.Tensor, "item", lambda tensor: 0.0)


def is_on(device, *tensors):
    return all(tensor.device.type == device for tensor in tensors)


class NoDoubles(TorchDispatchMode):
    """No float64 on the GPU: Apple's have none."""
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
                assert tensor.dtype != torch.float64, f"{function} made float64 on the GPU"
        return result


def test_positions():
    with fake_cuda():
        assert is_on("cuda", position_angles(3, 4, "cuda"))
        with NoDoubles():
            assert is_on("cuda", rotate(empty(2, 3, 4)))


def test_both_ways_of_multi_head_attention_with_masks_from_elsewhere():
    with fake_cuda():
        X = empty(2, 3, 4)
        for lens, mask in (([1, 2], None), (torch.tensor([1, 2]), torch.ones(2, 3, dtype=torch.bool))):   # on the CPU, as often
            assert is_on("cuda", fused_attention(X, X, X, lens, mask), softmax_in_place(empty(2, 3, 3), lens, mask))


@pytest.mark.parametrize("attention", [None, DotProductAttention])
def test_the_translator(attention, come_back):
    pairs = make_pairs(4, seed=0)
    with fake_cuda():
        model = on_gpu(lambda: Translator(len(ENGLISH), len(FRENCH), attention and attention(0.0)))
        # A GRU asks the driver, and packing by length needs numbers, which fake tensors do not have: stand-ins for both.
        model.encoder.forward = lambda source, valid_lens: (empty(*source.shape, 64), empty(len(source), 64))
        model.rnn.forward = lambda X, state: (X @ empty(48, 64) + state[0][:, None], state)
        batch = to_batch(pairs, "cuda")
        assert is_on("cuda", *batch, translation_loss(model, batch))
        written, weights = translate(model, *batch[:2])
        assert is_on("cuda", written) and (weights is None or is_on("cuda", weights))
        assert all(isinstance(grade, (float, type(None))) for grade in grade_translations(model, pairs, "cuda"))


def test_the_senses(come_back):
    sentences = make_sentences(4, seed=0)
    with fake_cuda():
        model = on_gpu(lambda: SenseModel(len(TOKENS)))
        batch = next(sense_batches(sentences, 2, "cuda"))
        assert is_on("cuda", *batch, sense_loss(model, batch), model.states(*batch[:2]))
        longest = max(len(sentence.tokens) for sentence in sentences)
        for mask in (None, torch.ones(1, longest, longest, dtype=torch.bool)):   # on the CPU, as in lesson 02
            assert is_on("cpu", *read_nouns(model, sentences, "cuda", mask))


@pytest.mark.parametrize("task", [QUEUE, SENTENCES], ids=["queue", "sentences"])
def test_questions_and_answers(task):
    drawn = task.draw(4, torch.Generator().manual_seed(0))
    with fake_cuda():
        model = on_gpu(lambda: Answerer(task, MultiHeadAttention(8, 8, 8, 8, 2, 0.0), num_hiddens=8))
        batch = tuple(empty(*part.shape, dtype=part.dtype) for part in drawn)
        assert is_on("cuda", model(batch[0]), answer_loss(model, batch))
        assert is_on("cpu", grade_answers(model, batch), look_shares(model.attention.attention_weights, batch[1]))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_order(encoding, come_back):
    with fake_cuda():
        for pooled in (True, False):
            model = on_gpu(lambda: OrderModel(encoding, pooled=pooled))
            ids = empty(2, 12, dtype=torch.int64)
            target = empty(2, dtype=torch.int64) if pooled else ids
            with NoDoubles():
                assert is_on("cuda", order_loss(model, (ids, target)))
            assert accuracy(model, ids.cpu(), target.cpu()) == 0


def test_batches_are_made_where_they_are_wanted():
    for task in (QUEUE, SENTENCES):
        assert is_on("meta", *next(task_batches(task, 2, seed=0, device="meta")))
    for task in TASKS.values():
        assert is_on("meta", *next(batches(task, 2, 12, "meta")))
    assert is_on("meta", *next(shuffled_batches(make_pairs(4, seed=0), 2, "meta")))


def test_patterns_of_heads():
    with fake_cuda():
        weights = empty(2, 3, 5, 5)
        assert is_on("cuda", block_score(weights, [0, 0, 1, 1, 1]), pattern_scores(weights, [0, 0, 1, 1, 1]))


def test_a_real_transformer():
    encoded = [SimpleNamespace(ids=[1, 2, 0], attention_mask=[1, 1, 0], tokens=["a", "b", "[PAD]"])] * 2
    tokenizer = SimpleNamespace(encode_batch=lambda sentences: encoded, padding={})
    with fake_cuda():
        ids, lens, tokens = read_sentences(tokenizer, ["a b", "a b"], "cuda")
        model = on_gpu(lambda: MiniLM(vocab_size=10, num_hiddens=4, num_heads=2, num_layers=2, ffn_num_hiddens=8, max_len=6))
        assert is_on("cuda", ids, lens, *model(ids, lens), model.attention_weights)
        assert is_on("cuda", on_gpu(lambda: TransformerBlock(4, 2, 8, 0.0))(empty(2, 3, 4), lens.cpu()))


def test_training(come_back, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "backward", lambda loss: None)     # that would ask for a driver
    with fake_cuda():
        model = on_gpu(lambda: nn.Linear(1, 1))
        batch = empty(2, 1), empty(2, 1)
        losses = train(model, lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1]), itertools.repeat(batch), 2, 0.1)
        assert losses == [0, 0]
        with training.progress(1) as bar:
            bar.drawn = 0
            bar.advance(empty())


def test_costs(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append(True))
    with fake_cuda():
        X = empty(3, 3)
        assert seconds(torch.mm, X, X, repeats=2) >= 0 and len(waits) == 6
        assert peak_bytes(torch.mm, X, X) == 36
        assert costs.count_flops(torch.mm, X, X) == 54
        waits.clear()
        layers_at = costs.four_layers(4, torch.device("cuda"))
        costs.measure_growth(layers_at, [8, 9], rounds=3, repeats=1)
        assert len(waits) == 3 * 2 * 4 * 4                               # before and after a warm-up and a call of each layer


# ------------------------------------------------------------------ what is drawn comes back
DRAWN = {
    "heatmaps": lambda: draw_heatmaps(empty(2, 3, 3), "Keys", "Queries", mask=empty(3, 3, dtype=torch.bool), vmax=empty()),
    "curves": lambda: helpers.plot(empty(3), [empty(3), empty(3)], legend=["a", "b"]),
    "growth": lambda: costs.draw_growth(empty(3), {"a": empty(3)}, "bytes"),
    "by head": lambda: helpers.show_by_head([empty(2, 4)], ["X"], 4, 2),
    "all heads": lambda: draw_all_heads(empty(2, 3, 4, 4), list("abcd")),
}


@pytest.mark.parametrize("name", DRAWN)
def test_figures(name, come_back, monkeypatch):
    shown = []
    for module in (helpers.figures, helpers.head_pictures):
        monkeypatch.setattr(module, "show", lambda figure, *rest, **named: shown.append(figure))
    with fake_cuda():
        figure = DRAWN[name]()
    assert isinstance(figure or shown[0], Figure)


def test_an_answer_that_is_left_on_the_gpu_is_judged(monkeypatch):
    monkeypatch.setattr(torch, "allclose", lambda a, b, **options: a.device == b.device)
    with fake_cuda():
        assert checks._equal(empty(2, 3), torch.empty(2, 3))
