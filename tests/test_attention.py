"""Masks, the masked softmax and the two scores, against numpy in float64 and PyTorch's own functions."""
import copy
import math
import pickle

import numpy as np
import pytest
import torch
from fake_gpu import fake_cuda
from torch.nn import functional as F

from helpers import AdditiveAttention, DotProductAttention, attend_mask, d2l, masked_softmax


def numpy_weights(scores, allowed):
    """Row by row: the softmax of the allowed scores, zeros elsewhere."""
    scores, allowed = np.asarray(scores, dtype=np.float64), np.broadcast_to(np.asarray(allowed), scores.shape)
    weights = np.zeros_like(scores)
    for row in np.ndindex(scores.shape[:-1]):
        kept = scores[row][allowed[row]]
        weights[row][allowed[row]] = np.exp(kept - kept.max()) / np.exp(kept - kept.max()).sum() if kept.size else kept
    return weights


def close(tensor, array, atol=1e-6):
    np.testing.assert_allclose(tensor.detach().double().numpy(), array, atol=atol, rtol=0)


@pytest.fixture
def scores():
    return torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))


LENS = torch.tensor([2, 4])
LENS_PER_QUERY = torch.tensor([[1, 0, 5], [3, 2, 9]])


# ------------------------------------------------------------------ masked_softmax
def test_without_masks_it_is_the_softmax(scores):
    close(masked_softmax(scores), numpy_weights(scores, True))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8, torch.float32])
@pytest.mark.parametrize("lens", [LENS, LENS_PER_QUERY])
def test_lengths_of_any_number_type(scores, lens, dtype):
    counted = lens.reshape(2, -1, 1).numpy()
    close(masked_softmax(scores, lens.to(dtype)), numpy_weights(scores, np.arange(5) < counted))


def test_masks_of_each_rank_and_both_combined(scores):
    rng = torch.Generator().manual_seed(1)
    heads = torch.randn(2, 4, 3, 5, generator=rng)
    for shape in ((2, 5), (2, 3, 5), (2, 4, 3, 5), (1, 3, 5), (2, 1, 3, 5)):
        mask = torch.rand(*shape, generator=rng) < 0.6
        allowed = mask.numpy()[:, None, None] if len(shape) == 2 else mask.numpy()[:, None] if len(shape) == 3 else mask.numpy()
        within = np.arange(5) < LENS.numpy().reshape(2, 1, 1, 1)
        close(masked_softmax(heads, mask=mask), numpy_weights(heads, allowed))
        close(masked_softmax(heads, LENS, mask.int()), numpy_weights(heads, allowed & within))
        if len(shape) < 4:
            allowed = mask.numpy()[:, None] if len(shape) == 2 else mask.numpy()
            close(masked_softmax(scores, LENS_PER_QUERY, mask),
                  numpy_weights(scores, allowed & (np.arange(5) < LENS_PER_QUERY.numpy()[..., None])))


def test_an_empty_row_is_zero_and_so_is_its_gradient(scores):
    scores.requires_grad_()
    weights = masked_softmax(scores, torch.tensor([0, 3]))
    assert weights[0].abs().max() == 0
    (weights * torch.arange(5.0)).sum().backward()
    assert scores.grad[0].abs().max() == 0 and scores.grad.isfinite().all() and scores.grad[1].abs().max() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_floating_type_keeps_its_type_and_sums_to_one(scores, dtype):
    weights = masked_softmax(scores.to(dtype), torch.tensor([0, 3]))
    assert weights.dtype == dtype
    close(weights, numpy_weights(scores.to(dtype).double(), np.arange(5) < np.array([0, 3]).reshape(2, 1, 1)), atol=5e-3)


def test_very_low_scores_still_win_over_masked_keys():
    weights = masked_softmax(torch.tensor([[[-3e38, -3e38, 5.0]]]), torch.tensor([2]))
    close(weights, [[[0.5, 0.5, 0.0]]])


def test_nothing_of_the_callers_is_changed(scores):
    lens, mask = LENS.clone(), torch.ones(2, 3, 5, dtype=torch.bool)
    given = [scores, lens, mask]
    before = copy.deepcopy(given)
    masked_softmax(scores, lens, mask)
    assert all(torch.equal(a, b) for a, b in zip(before, given))


def test_gradients_are_those_of_the_formula():
    X = torch.randn(2, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda X: masked_softmax(X, torch.tensor([0, 3])), X)


def test_equal_to_the_book_where_a_key_is_real(scores):
    for lens in (LENS, torch.tensor([[1, 2, 3], [4, 5, 1]])):
        assert torch.allclose(masked_softmax(scores, lens), d2l.masked_softmax(scores.clone(), lens))


@pytest.mark.parametrize("lens, mask, words", [
    (torch.tensor([1, 2, 3]), None, ["valid_lens", "(2,)", "(2, 3)", "(3,)"]),
    (torch.tensor([True, False]), None, ["valid_lens", "mask="]),
    (None, torch.ones(3, 5, dtype=torch.bool), ["mask", "(2, 5)", "(3, 5)"]),
    (None, torch.ones(2, 5, 3, dtype=torch.bool), ["mask", "(2, 3, 5)", "(2, 5, 3)"]),
    (None, torch.ones(2, 3, 1, dtype=torch.bool), ["mask", "(2, 3, 1)"]),
    (None, torch.ones(5, dtype=torch.bool), ["mask", "(5,)"]),
    (None, torch.ones(2, 4, 3, 5, dtype=torch.bool), ["mask", "(2, 4, 3, 5)"]),
    (None, torch.zeros(2, 3, 5), ["mask", "float32", "mask.bool()"]),
    ("all", None, ["valid_lens", "'all'"]),
    (None, [[True], [True, False]], ["mask", "[[True], [True, False]]"]),
])
def test_lengths_and_masks_that_do_not_fit_are_refused_by_name(scores, lens, mask, words):
    with pytest.raises(ValueError) as error:
        masked_softmax(scores, lens, mask)
    assert all(word in str(error.value) for word in words), error.value


def test_scores_without_a_softmax_are_refused():
    with pytest.raises(ValueError, match="int64"):
        masked_softmax(torch.ones(1, 2, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="batch, queries, keys"):
        masked_softmax(torch.ones(2, 3), torch.tensor([1, 2]))


def test_attend_mask_is_none_where_everything_is_allowed(scores):
    assert attend_mask(scores) is None


# ------------------------------------------------------------------ the two attentions
def test_dot_product_equals_pytorch(scores):
    rng = torch.Generator().manual_seed(2)
    queries, keys, values = (torch.randn(2, n, d, generator=rng) for n, d in ((3, 8), (5, 8), (5, 4)))
    allowed = (torch.arange(5) < LENS[:, None])[:, None]
    want = F.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed)
    attention = DotProductAttention(0.0)
    close(attention(queries, keys, values, LENS), want.double().numpy())
    with_heads = attention(queries[:, None], keys[:, None], values[:, None], LENS)
    close(with_heads[:, 0], want.double().numpy())


def test_additive_equals_the_formula_pair_by_pair_and_the_book():
    torch.manual_seed(0)
    ours = AdditiveAttention(key_size=3, query_size=4, num_hiddens=6, dropout=0.0)
    queries, keys, values = torch.randn(2, 2, 4), torch.randn(2, 5, 3), torch.randn(2, 5, 7)
    scores = torch.stack([torch.stack([torch.stack([
        ours.w_v.weight[0] @ torch.tanh(ours.W_q.weight @ q + ours.W_k.weight @ k) for k in keys[b]]) for q in queries[b]])
        for b in range(2)])
    allowed = np.arange(5) < LENS.numpy().reshape(2, 1, 1)
    want = numpy_weights(scores.detach(), allowed) @ values.double().numpy()
    close(ours(queries, keys, values, LENS), want)
    book = d2l.AdditiveAttention(3, 4, 6, 0.0)
    book.load_state_dict(ours.state_dict())
    close(book(queries, keys, values, LENS), want)


@pytest.mark.parametrize("attention", [DotProductAttention(0.5), AdditiveAttention(4, 4, 8, 0.5)])
def test_dropout_acts_on_the_weights_and_the_stored_ones_are_before_it(attention):
    torch.manual_seed(0)
    queries, keys, values = torch.randn(1, 3, 4), torch.randn(1, 200, 4), torch.eye(200).repeat(1, 2)[None]
    dropped, again = attention.train()(queries, keys, values).split(200, dim=-1)     # unit vectors, twice: weights come out, twice
    assert torch.equal(dropped, again)                                   # a key is lost whole
    kept = attention.attention_weights
    assert torch.allclose(kept.sum(-1), torch.ones(1, 3)) and not kept.requires_grad
    lost = dropped == 0
    assert 0.3 < lost.float().mean() < 0.7
    assert torch.allclose(dropped[~lost], 2 * kept[~lost])
    close(attention.eval()(queries, keys, values[..., :200]), kept.double().numpy())


def test_a_padded_query_still_has_an_output():
    queries, keys = torch.randn(1, 4, 2), torch.randn(1, 4, 2)
    attention = DotProductAttention(0.0)
    attention(queries, keys, keys, torch.tensor([2]))
    assert torch.allclose(attention.attention_weights.sum(-1), torch.ones(1, 4))


def test_half_precision_scores_do_not_overflow():
    queries = torch.full((1, 1, 1024), 16.0, dtype=torch.float16)        # q.k is 262144, beyond what half precision holds
    output = DotProductAttention(0.0)(queries, queries, torch.ones(1, 1, 2, dtype=torch.float16))
    close(output, [[[1.0, 1.0]]])


@pytest.mark.parametrize("shapes, words", [
    (((3, 4), (2, 5, 4), (2, 5, 4)), ["queries", "(3, 4)"]),
    (((2, 3, 4), (2, 5, 6), (2, 5, 4)), ["keys", "width 6", "4"]),
    (((2, 3, 4), (2, 5, 4), (2, 6, 4)), ["value", "5", "6"]),
    (((2, 3, 4), (1, 5, 4), (1, 5, 4)), ["batch", "(1, 5, 4)", "(2, 3, 4)"]),
])
def test_tensors_that_do_not_belong_together_are_refused_by_name(shapes, words):
    with pytest.raises(ValueError) as error:
        DotProductAttention(0.0)(*(torch.zeros(shape) for shape in shapes))
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize("types", [(torch.float16, torch.float32), (torch.int64, torch.int64)])
def test_number_types_that_do_not_go_together_are_named(types):
    with pytest.raises(ValueError, match=f"{types[1]}.*one floating-point type"):
        DotProductAttention(0.0)(torch.ones(1, 2, 2, dtype=types[0]), *[torch.ones(1, 2, 2, dtype=types[1])] * 2)


def test_autocast_may_mix_number_types():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        queries = torch.ones(1, 2, 2)
        assert DotProductAttention(0.0)(queries.bfloat16(), queries, queries).isfinite().all()


def test_additive_says_which_size_is_wrong():
    attention = AdditiveAttention(key_size=2, query_size=3, num_hiddens=4, dropout=0.0)
    with pytest.raises(ValueError, match="query_size"):
        attention(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))
    with pytest.raises(ValueError, match="key_size"):
        attention(torch.zeros(1, 1, 3), torch.zeros(1, 1, 3), torch.zeros(1, 1, 2))


def test_another_device_is_named():
    on_meta = torch.zeros(1, 1, 2, device="meta")
    with pytest.raises(ValueError, match="meta"):
        DotProductAttention(0.0)(torch.zeros(1, 1, 2), on_meta, on_meta)


@pytest.mark.parametrize("attention", [DotProductAttention(0.1), AdditiveAttention(2, 2, 4, 0.1)])
def test_copies_pickles_and_devices(attention):
    queries = torch.ones(1, 2, 2)
    attention.eval()
    want = attention(queries, queries, queries)
    for twin in (copy.deepcopy(attention), pickle.loads(pickle.dumps(attention)), torch.compile(attention, backend="eager")):
        assert torch.equal(twin(queries, queries, queries), want)
    assert attention.to("meta")(*[queries.to("meta")] * 3, torch.tensor([2])).device.type == "meta"


def test_fake_cuda_tensors_find_nothing_left_on_the_cpu():
    """Every tensor that is made on the way must be on the GPU; lengths given on the CPU are taken along."""
    with fake_cuda():
        lens = torch.empty(2, dtype=torch.int64)                         # on the CPU, as lengths often are
        queries = torch.empty(2, 3, 4, device="cuda")
        with torch.device("cuda"):
            additive = AdditiveAttention(4, 4, 8, 0.1)
        for attention in (DotProductAttention(0.1), additive):
            assert attention(queries, queries, queries, lens).device.type == "cuda"


def test_scale_is_the_root_of_the_width():
    queries = torch.tensor([[[2.0, 0.0, 0.0, 0.0]]])
    keys = torch.tensor([[[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]])
    attention = DotProductAttention(0.0)
    attention(queries, keys, keys)
    assert attention.attention_weights[0, 0, 0].item() == pytest.approx(math.exp(2) / (math.exp(2) + 1), abs=1e-6)


