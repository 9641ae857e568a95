"""What must hold for every input, against witnesses that share no code with helpers: numpy in float64, PyTorch's own modules.

Hypothesis draws shapes, types, strides, lengths and masks of each rank, with no examples, no queries or no keys among them; the
same ones at every run.
"""
import copy
import io
import math
import pickle
import re

import numpy as np
import pytest
import torch
from fake_gpu import fake_cuda
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import nn

from helpers import (AdditiveAttention, ALiBiAttention, DotProductAttention, LearnedPositionalEncoding, MultiHeadAttention,
                     PositionalEncoding, RotaryAttention, SelfAttention, attend_mask, describe, draw_heatmaps, fused_attention,
                     masked_softmax, rotate, transpose_output, transpose_qkv)

PATHS = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])


def some(examples):
    """So many examples, the same at every run, without a clock or files."""
    return settings(max_examples=examples, derandomize=True, database=None, deadline=None,
                    suppress_health_check=list(HealthCheck))


# ------------------------------------------------------------------ what is drawn
DTYPES = st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16])
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}
SIZES = st.integers(0, 4)
KINDS = ["plain", "transposed", "every second", "expanded", "flipped copy"]


def numbers(seed, *shape, dtype=torch.float64, kind="plain", scale=1.0):
    """Random numbers, as a tensor that does not lie in memory in one piece, unless kind is plain."""
    rng = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return (scale * torch.randn(*shape, generator=rng, dtype=torch.float64)).to(dtype)
    if kind == "transposed":
        return draw(*shape[:-2], shape[-1], shape[-2]).mT
    if kind == "every second":
        return draw(*shape[:-1], 2 * shape[-1])[..., ::2]
    if kind == "expanded":
        return draw(1, *shape[1:]).expand(*shape)
    return draw(*shape).flip(-1) if kind == "flipped copy" else draw(*shape)


@st.composite
def masks(draw, batch, heads, queries, keys):
    """valid_lens and mask as a caller may give them, and what they allow: a numpy array (batch, heads or 1, queries, keys)."""
    allowed = np.ones((batch, heads or 1, queries, keys), dtype=bool)
    lens = mask = None
    seed = draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    how = draw(st.sampled_from(["none", "each example", "each query"]))
    if how != "none":
        lens = rng.integers(0, keys + 2, (batch,) if how == "each example" else (batch, queries))
        allowed &= np.arange(keys) < lens.reshape(batch, 1, 1 if lens.ndim == 1 else queries, 1)
        lens = torch.from_numpy(lens).to(draw(st.sampled_from([torch.int64, torch.int32, torch.uint8, torch.uint16, torch.float32])))
        lens = lens.tolist() if lens.numel() and draw(st.booleans()) else lens
    shapes = [None, (batch, keys), (batch, queries, keys), (1, queries, keys), (batch, 1, keys), (1, keys)]
    shapes += [(batch, heads, queries, keys), (1, heads, 1, keys), (batch, 1, queries, keys)] if heads else []
    shape = draw(st.sampled_from(shapes))
    if shape is not None:
        mask = rng.random(shape) < draw(st.sampled_from([0.1, 0.5, 0.9]))
        allowed &= {2: lambda m: m[:, None, None], 3: lambda m: m[:, None], 4: lambda m: m}[len(shape)](mask)
        mask = torch.from_numpy(mask).to(draw(st.sampled_from([torch.bool, torch.int64, torch.uint8])))
    return lens, mask, allowed


# ------------------------------------------------------------------ the witnesses
def array(tensor):
    return tensor.detach().double().numpy()


def weights_of(scores, allowed):
    """Row by row, as the definition has it."""
    weights = np.zeros(scores.shape)
    for row in np.ndindex(scores.shape[:-1]):
        kept = np.flatnonzero(np.broadcast_to(allowed, scores.shape)[row])
        if kept.size:
            e = np.exp(scores[row][kept] - scores[row][kept].max())
            weights[row][kept] = e / e.sum()
    return weights


def close(tensor, want, dtype=torch.float64, factor=1.0):
    assert tensor.shape == want.shape
    np.testing.assert_allclose(array(tensor), want, atol=factor * TOLERANCE[dtype], rtol=factor * TOLERANCE[dtype])


# ------------------------------------------------------------------ masks and the softmax
@some(400)
@given(st.data(), SIZES, st.integers(0, 3), SIZES, SIZES, DTYPES, st.sampled_from(KINDS), st.sampled_from([1.0, 30.0]))
def test_masked_softmax_is_the_softmax_of_the_allowed_scores(data, batch, heads, queries, keys, dtype, kind, scale):
    shape = (batch, heads, queries, keys) if heads else (batch, queries, keys)
    X = numbers(1, *shape, dtype=dtype, kind=kind, scale=scale)
    lens, mask, allowed = data.draw(masks(batch, heads, queries, keys))
    allowed = allowed if heads else allowed[:, 0]
    before = copy.deepcopy((X.clone(), lens, mask))
    weights = masked_softmax(X, lens, mask)
    assert weights.dtype == dtype
    close(weights, weights_of(array(X), allowed), dtype)
    assert not array(weights)[~np.broadcast_to(allowed, shape)].any()    # exactly 0
    for one, other in zip(before, (X, lens, mask)):                      # nothing of the caller's has changed
        assert one is other is None or torch.equal(torch.as_tensor(one), torch.as_tensor(other))
    found = attend_mask(X, lens, mask)
    assert found is None and lens is mask is None or np.array_equal(np.broadcast_to(found.numpy(), shape), np.broadcast_to(allowed, shape))


@some(100)
@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_a_shift_of_a_row_and_the_numbers_behind_the_mask_change_no_weight(data, batch, queries, keys):
    X, shift = numbers(1, batch, queries, keys), numbers(2, batch, queries, 1, scale=10.0)
    lens, mask, allowed = data.draw(masks(batch, 0, queries, keys))
    weights = masked_softmax(X, lens, mask)
    close(masked_softmax(X + shift, lens, mask), array(weights))
    hidden = torch.from_numpy(~np.broadcast_to(allowed[:, 0], X.shape).copy())
    for other in (math.inf, -math.inf, math.nan, 1e308):                 # padding may hold anything
        close(masked_softmax(X.masked_fill(hidden, other), lens, mask), array(weights))


@some(50)
@given(st.data(), st.integers(1, 2), st.integers(0, 2), st.integers(1, 3), st.integers(1, 3))
def test_gradients_of_the_masked_softmax(data, batch, heads, queries, keys):
    X = numbers(1, *((batch, heads) if heads else (batch,)), queries, keys).requires_grad_()
    lens, mask, allowed = data.draw(masks(batch, heads, queries, keys))
    assert torch.autograd.gradcheck(lambda X: masked_softmax(X, lens, mask), X)
    X.grad = None
    masked_softmax(X, lens, mask).square().sum().backward()
    empty = ~np.broadcast_to(allowed if heads else allowed[:, 0], X.shape).any(-1)
    assert X.grad.isfinite().all() and not X.grad.numpy()[empty].any()


# ------------------------------------------------------------------ one head
@some(250)
@given(st.data(), SIZES, st.integers(0, 2), SIZES, SIZES, st.integers(1, 5), st.integers(0, 3), DTYPES, st.sampled_from(KINDS))
def test_dot_product_attention_is_the_formula(data, batch, heads, queries, keys, width, value_width, dtype, kind):
    front = (batch, heads) if heads else (batch,)
    Q, K, V = (numbers(i, *front, n, d, dtype=dtype, kind=kind)
               for i, (n, d) in enumerate(((queries, width), (keys, width), (keys, value_width))))
    lens, mask, allowed = data.draw(masks(batch, heads, queries, keys))
    attention = DotProductAttention(0.0)
    output = attention(Q, K, V, lens, mask)
    weights = weights_of(array(Q) @ array(K).swapaxes(-1, -2) / math.sqrt(width), allowed if heads else allowed[:, 0])
    assert output.dtype == dtype
    close(attention.attention_weights, weights, dtype, 4)
    close(output, weights @ array(V), dtype, 6)
    if not heads and lens is None and mask is None:                      # PyTorch's own kernel, explicit mask aside
        close(fused_attention(Q, K, V), weights @ array(V), dtype, 6)


@some(150)
@given(st.data(), SIZES, SIZES, SIZES, st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.sampled_from(KINDS))
def test_additive_attention_is_the_formula(data, batch, queries, keys, key_size, query_size, num_hiddens, kind):
    torch.manual_seed(0)
    attention = AdditiveAttention(key_size, query_size, num_hiddens, 0.0).double()
    Q, K, V = numbers(1, batch, queries, query_size, kind=kind), numbers(2, batch, keys, key_size, kind=kind), numbers(3, batch, keys, 2)
    lens, mask, allowed = data.draw(masks(batch, 0, queries, keys))
    W_q, W_k, w_v = (array(layer.weight) for layer in (attention.W_q, attention.W_k, attention.w_v))
    scores = np.array([[[w_v[0] @ np.tanh(W_q @ q + W_k @ k) for k in array(K)[b]] for q in array(Q)[b]] for b in range(batch)])
    weights = weights_of(scores.reshape(batch, queries, keys), allowed[:, 0])
    close(attention(Q, K, V, lens, mask), weights @ array(V))
    close(attention.attention_weights, weights)


def small(kind, dropout=0.0, dtype=torch.float64):
    """A module and a call that it takes."""
    torch.manual_seed(0)
    n, m, d = 3, 4, 4
    Q, K, V = numbers(1, 2, n, d, dtype=dtype), numbers(2, 2, m, d, dtype=dtype), numbers(3, 2, m, d, dtype=dtype)
    lens = torch.tensor([0, 3])
    make, inputs = {
        "dot product": (lambda: DotProductAttention(dropout), (Q, K, V, lens)),
        "additive": (lambda: AdditiveAttention(d, d, 5, dropout), (Q, K, V, lens)),
        "rotary": (lambda: RotaryAttention(dropout), (Q, K, V, lens)),
        "ALiBi": (lambda: ALiBiAttention([0.5], dropout), (Q, K, V, lens)),
        "self-attention": (lambda: SelfAttention(d, 3, 5, dropout), (Q, lens)),
        "multi-head": (lambda: MultiHeadAttention(d, d, d, 6, 2, dropout, bias=True), (Q, K, V, lens)),
        "multi-head, fused": (lambda: MultiHeadAttention(d, d, d, 6, 2, dropout), (Q, K, V, lens, None, False)),
        "sinusoidal": (lambda: PositionalEncoding(d, dropout, max_len=9), (Q,)),
        "learned": (lambda: LearnedPositionalEncoding(d, dropout, max_len=9), (Q,)),
    }[kind]
    module = make().eval()
    return module if dtype == torch.float32 else module.to(dtype), inputs


ALL = pytest.mark.parametrize("kind", ["dot product", "additive", "rotary", "ALiBi", "self-attention", "multi-head",
                                       "multi-head, fused", "sinusoidal", "learned"])


@ALL
def test_gradients_of_inputs_and_parameters(kind):
    module, inputs = small(kind)
    floats = [x.clone().requires_grad_() for x in inputs if isinstance(x, torch.Tensor) and x.is_floating_point()]
    rest, names = inputs[len(floats):], [name for name, _ in module.named_parameters()]

    def call(*tensors):
        parameters = dict(zip(names, tensors[len(floats):]))
        return torch.func.functional_call(module, parameters, (*tensors[:len(floats)], *rest))
    assert torch.autograd.gradcheck(call, (*floats, *(p.detach().clone().requires_grad_() for p in module.parameters())))


# ------------------------------------------------------------------ what PyTorch does with modules
@ALL
def test_compiled_without_a_break_it_gives_the_same(kind):
    module, inputs = small(kind)
    want = module(*inputs)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(module, backend="eager", fullgraph=True)(*inputs), want)


@ALL
@pytest.mark.filterwarnings("ignore:The tensor attribute")               # the stored weights; no part of the graph
def test_exported_it_gives_the_same(kind):
    module, inputs = small(kind)
    want = module(*inputs)
    try:
        exported = torch.export.export(module, inputs, strict=False).module()
    except ValueError as error:
        if "assigned during export" not in str(error):
            raise
        pytest.skip("this torch exports no module that keeps its attention_weights")
    torch.testing.assert_close(exported(*inputs), want)


@ALL
def test_copies_pickles_and_checkpoints_give_the_same(kind):
    module, inputs = small(kind)
    want = module(*inputs)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(twin(*inputs), want)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    twin, _ = small(kind)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    twin.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(twin(*inputs), want)


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_number_type_moves_with_the_module(kind, dtype):
    module, inputs = small(kind)
    want = module(*inputs)
    moved = [x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
    got = module.to(dtype)(*moved)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), want, atol=10 * TOLERANCE[dtype], rtol=10 * TOLERANCE[dtype])


@ALL
def test_autocast_stays_near_and_finite(kind):
    module, inputs = small(kind)
    want = module(*inputs)
    module.float()
    inputs = [x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = module(*inputs)
    torch.testing.assert_close(got.double(), want, atol=0.05, rtol=0.05)


@ALL
def test_on_meta_it_has_the_same_shape_and_no_numbers(kind):
    module, inputs = small(kind)
    want = module(*inputs)
    got = module.to("meta")(*[x.to("meta") if isinstance(x, torch.Tensor) else x for x in inputs])
    assert got.device.type == "meta" and got.shape == want.shape and got.dtype == want.dtype


@ALL
def test_dropout_acts_in_training_and_leaves_the_expected_value_in_eval(kind):
    module, inputs = small(kind, dropout=0.5)
    plain, _ = small(kind)
    torch.testing.assert_close(module(*inputs), plain(*inputs))
    module.train()
    assert any(not torch.equal(module(*inputs), module(*inputs)) for _ in range(5))


@ALL
def test_with_a_gpu_nothing_is_left_on_the_cpu(kind):
    with fake_cuda():
        with torch.device("cuda"):
            module, inputs = small(kind, dtype=torch.float32)
        floats = [x.to("cuda") for x in inputs if isinstance(x, torch.Tensor) and x.is_floating_point()]
        rest = [x.to("cpu") if isinstance(x, torch.Tensor) else x for x in inputs[len(floats):]]   # lengths, as they often are
        output = module(*floats, *rest)
        assert output.device.type == "cuda"
        if kind in ("additive", "self-attention", "multi-head", "multi-head, fused"):
            with pytest.raises(ValueError, match=r"on cpu, the module on cuda.*\.to\("):
                module(*(x.to("cpu") for x in floats), *rest)


# ------------------------------------------------------------------ heads
@some(100)
@given(SIZES, SIZES, st.integers(1, 4), st.integers(1, 3), DTYPES, st.sampled_from(KINDS))
def test_split_heads_are_column_blocks_and_go_back(batch, n, heads, width, dtype, kind):
    X = numbers(1, batch, n, heads * width, dtype=dtype, kind=kind)
    split = transpose_qkv(X, heads)
    assert split.shape == (batch * heads, n, width)
    for b in range(batch):
        for h in range(heads):
            assert torch.equal(split[b * heads + h], X[b, :, h * width:(h + 1) * width])
    assert torch.equal(transpose_output(split, heads), X)


@PATHS
@some(150)
@given(data=st.data(), batch=SIZES, heads=st.integers(1, 3), queries=SIZES, keys=SIZES, width=st.integers(1, 3),
       sizes=st.tuples(*[st.integers(1, 5)] * 3), bias=st.booleans(), kind=st.sampled_from(KINDS))
def test_multi_head_attention_is_one_head_after_the_other(need_weights, data, batch, heads, queries, keys, width, sizes, bias, kind):
    torch.manual_seed(0)
    key_size, query_size, value_size = sizes
    module = MultiHeadAttention(key_size, query_size, value_size, heads * width, heads, 0.0, bias=bias).double()
    Q, K, V = numbers(1, batch, queries, query_size, kind=kind), numbers(2, batch, keys, key_size, kind=kind), numbers(3, batch, keys, value_size)
    lens, mask, allowed = data.draw(masks(batch, heads, queries, keys))
    output = module(Q, K, V, lens, mask, need_weights=need_weights)
    state = {name: array(value) for name, value in module.state_dict().items()}

    def project(name, x):
        return x @ state[f"{name}.weight"].T + state.get(f"{name}.bias", 0)
    q, k, v = project("W_q", array(Q)), project("W_k", array(K)), project("W_v", array(V))
    columns = [slice(h * width, (h + 1) * width) for h in range(heads)]
    weights = np.stack([weights_of(q[..., c] @ k[..., c].swapaxes(1, 2) / math.sqrt(width), allowed[:, min(h, allowed.shape[1] - 1)])
                        for h, c in enumerate(columns)], axis=1)
    close(output, project("W_o", np.concatenate([weights[:, h] @ v[..., c] for h, c in enumerate(columns)], axis=-1)))
    if need_weights:
        close(module.attention_weights, weights)
    else:
        assert module.attention_weights is None


@PATHS
@some(50)
@given(batch=st.integers(1, 3), heads=st.integers(1, 3), queries=st.integers(1, 4), keys=st.integers(1, 4), width=st.integers(1, 3),
       seed=st.integers(0, 99), causal=st.booleans())
def test_multi_head_attention_equals_torchs_with_the_mask_turned_round(need_weights, batch, heads, queries, keys, width, seed, causal):
    d = heads * width
    torch.manual_seed(seed)
    ours, theirs = MultiHeadAttention(d, d, d, d, heads, 0.0, bias=True).double(), nn.MultiheadAttention(d, heads, batch_first=True).double()
    state = ours.state_dict()
    theirs.load_state_dict({"in_proj_weight": torch.cat([state[f"W_{x}.weight"] for x in "qkv"]),
                            "in_proj_bias": torch.cat([state[f"W_{x}.bias"] for x in "qkv"]),
                            "out_proj.weight": state["W_o.weight"], "out_proj.bias": state["W_o.bias"]})
    Q, K, V = (numbers(i, batch, n, d) for i, n in ((1, queries), (2, keys), (3, keys)))
    lens = torch.randint(1, keys + 1, (batch,))
    mask = torch.ones(queries, keys).tril().bool() if causal else torch.ones(queries, keys).bool()
    want, weights = theirs(Q, K, V, key_padding_mask=torch.arange(keys) >= lens[:, None], attn_mask=~mask, average_attn_weights=False)
    close(ours(Q, K, V, lens, mask[None], need_weights=need_weights), array(want))
    if need_weights:
        close(ours.attention_weights, array(weights))


@some(100)
@given(st.data(), SIZES, SIZES, st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.sampled_from(KINDS))
def test_self_attention_is_cross_attention_of_three_projections(data, batch, n, num_hiddens, d_k, d_v, kind):
    torch.manual_seed(0)
    attention = SelfAttention(num_hiddens, d_k, d_v, 0.0).double()
    X = numbers(1, batch, n, num_hiddens, kind=kind)
    lens, mask, allowed = data.draw(masks(batch, 0, n, n))
    q, k, v = (array(X) @ array(layer.weight).T for layer in (attention.W_q, attention.W_k, attention.W_v))
    weights = weights_of(q @ k.swapaxes(1, 2) / math.sqrt(d_k), allowed[:, 0])
    close(attention(X, lens, mask), weights @ v)
    close(attention.attention_weights, weights)


# ------------------------------------------------------------------ positions
@some(150)
@given(SIZES, st.integers(0, 12), st.integers(1, 9), st.integers(1, 12), DTYPES, st.sampled_from(KINDS))
def test_positional_encoding_adds_sines_and_cosines(batch, steps, width, max_len, dtype, kind):
    X = numbers(1, batch, steps, width, dtype=dtype, kind=kind)
    encoding = PositionalEncoding(width, 0.0, max_len=max_len)
    if steps > max_len:
        with pytest.raises(ValueError, match=f"{steps}.*{max_len}"):
            encoding(X)
        return
    P = np.zeros((steps, width))
    for i, c in np.ndindex(P.shape):
        P[i, c] = (math.cos if c % 2 else math.sin)(i / 10000 ** ((c - c % 2) / width))
    output = encoding(X)
    assert output.dtype == dtype
    close(output, array(X) + P, dtype if dtype != torch.float64 else torch.float32, 2)       # the table is in float32
    learned = LearnedPositionalEncoding(width, 0.0, max_len=max_len)
    close(learned(X), array(X) + array(learned.P)[0, :steps], dtype, 2)


@some(100)
@given(SIZES, SIZES, st.integers(0, 9), st.integers(1, 4), st.sampled_from(KINDS))
def test_rotate_is_complex_multiplication_and_keeps_lengths(batch, heads, steps, pairs, kind):
    X = numbers(1, batch, heads, steps, 2 * pairs, kind=kind)
    turned = array(rotate(X))
    z = array(X)[..., 0::2] + 1j * array(X)[..., 1::2]
    want = z * np.exp(1j * np.arange(steps)[:, None] / 10000 ** (np.arange(pairs) / pairs))
    np.testing.assert_allclose(turned[..., 0::2] + 1j * turned[..., 1::2], want, atol=1e-12)


@some(100)
@given(st.data(), st.integers(0, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.booleans())
def test_rotary_and_alibi_change_the_score_and_nothing_else(data, batch, heads, queries, keys, folded, rotary):
    Q, K, V = numbers(1, batch, heads, queries, 4), numbers(2, batch, heads, keys, 4), numbers(3, batch, heads, keys, 3)
    slopes = [2.0 ** -h for h in range(1, heads + 1)]
    i, j = np.arange(queries)[:, None], np.arange(keys)

    def turned(x):
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * np.arange(x.shape[-2])[:, None] / np.array([1.0, 100.0]))
        return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)
    if rotary:
        attention, scores = RotaryAttention(0.0), turned(array(Q)) @ turned(array(K)).swapaxes(-1, -2) / 2
    else:
        attention = ALiBiAttention(slopes, 0.0)
        scores = array(Q) @ array(K).swapaxes(-1, -2) / 2 - np.array(slopes)[:, None, None] * np.abs(i - j)
    if folded:
        output = attention(*(x.flatten(0, 1) for x in (Q, K, V))).unflatten(0, (batch, heads))
        want = weights_of(scores, True) @ array(V)
    else:
        lens, mask, allowed = data.draw(masks(batch, heads, queries, keys))
        output, want = attention(Q, K, V, lens, mask), weights_of(scores, allowed) @ array(V)
    close(output, want)


@some(20)
@given(st.integers(1, 3), st.integers(1, 6), st.integers(0, 99))
def test_attention_without_positions_does_not_see_the_order(batch, n, seed):
    torch.manual_seed(seed)
    X, order = numbers(seed, batch, n, 4), torch.randperm(n)
    attention, positions = SelfAttention(4, 4, 4, 0.0).double(), PositionalEncoding(4, 0.0)
    close(attention(X[:, order]), array(attention(X)[:, order]))
    assume(not torch.equal(order, torch.arange(n)))
    assert not torch.allclose(attention(positions(X[:, order])), attention(positions(X))[:, order])


# ------------------------------------------------------------------ figures
LABELS = st.text(st.sampled_from("abc苹果 -é"), min_size=1, max_size=4)


@some(60)
@given(st.data(), st.integers(1, 2), st.integers(1, 2), st.integers(1, 4), st.integers(1, 4), DTYPES, st.booleans())
def test_a_heatmap_says_what_was_given(data, down, across, queries, keys, dtype, grad):
    shape = data.draw(st.sampled_from([s for s in ((down, across, queries, keys), (across, queries, keys), (queries, keys))]))
    panels = math.prod(shape[:-2])
    M = torch.softmax(numbers(data.draw(st.integers(0, 99)), *shape), dim=-1).to(dtype).requires_grad_(grad)
    mask = torch.from_numpy(np.random.default_rng(data.draw(st.integers(0, 99))).random(shape) < 0.7) if data.draw(st.booleans()) else None
    rows, columns = [data.draw(st.lists(LABELS, min_size=n, max_size=n, unique=True)) for n in (queries, keys)]
    before = M.detach().clone()
    figure = draw_heatmaps(M, "Keys", "Queries", key_labels=columns, query_labels=rows, mask=mask)
    text = describe(figure)
    assert torch.equal(M.detach(), before) and M.requires_grad == grad
    shown = array(M).reshape(panels, queries, keys)
    kept = np.ones_like(shown, dtype=bool) if mask is None else mask.numpy().reshape(shown.shape)
    said = text.split("\n")
    assert len(said) == panels and text.count("heatmap") >= panels
    top = shown[kept].max() if kept.any() else 1.0
    for panel, line in enumerate(said):
        assert line.startswith(f'heatmap: {queries} x {keys}, down') and f'"Queries" {" | ".join(rows)}' in line or panel, line
        values = [[float(v) for v in row.split()] for row in re.search("; values ([^;]+)", line)[1].split(" / ")]
        np.testing.assert_allclose(values, np.where(kept[panel], shown[panel], 0), atol=0.0051)
        assert f"from 0.00 to {np.floor(100 * top + 0.501) / 100:.2f}" in line or abs(100 * top % 1 - 0.5) < 0.01, line
        assert ("masked" in line.replace("that is not masked", "")) == (not kept[panel].all())
        sums = np.where(kept[panel], shown[panel], 0).sum(-1)[kept[panel].any(-1)]
        if sums.size and abs(sums - 1).max() < 1e-3:
            assert "sums to 1" in line
        elif sums.size and abs(sums - 1).max() > 3e-3:
            assert "sums to 1" not in line
        for i, label in enumerate(rows):
            if kept[panel, i].any() and len(set(np.round(shown[panel, i][kept[panel, i]], 1))) == kept[panel, i].sum() > 1:
                best = columns[np.where(kept[panel, i], shown[panel, i], -1).argmax()]
                assert f"{label} → {best}" in line


@some(15)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_another_matrix_of_the_same_shape_reads_differently(queries, keys, seed):
    M = torch.from_numpy(np.random.default_rng(seed).random((queries, keys)))
    text = describe(draw_heatmaps(M, "Keys", "Queries"))
    i, j = seed % queries, seed % keys
    other = M.clone()
    other[i, j] += 0.02
    assert describe(draw_heatmaps(other, "Keys", "Queries")) != text
    if queries > 1:
        assert describe(draw_heatmaps(M.roll(1, 0), "Keys", "Queries")) != text
