"""Multi-head attention against four independent witnesses, its edges, and the toy tasks of lesson 04."""
import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import (AdditiveAttention, DotProductAttention, MultiHeadAttention, attend_mask, block_score, diagonal_score, pattern_scores,
                     peak_bytes, train, transpose_output, transpose_qkv, vertical_score)
from helpers.queues import (NOT_ASKED, QUEUE, SENTENCES, Answerer, answer_loss, answers, grade_answers, look_shares, task_batches,
                            without_head)

PATHS = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])


def case(seed, width=24, heads=4, batch=3, queries=5, keys=7, bias=False):
    """A module, random queries, keys and values, and random lengths of at least 1."""
    torch.manual_seed(seed)
    module = MultiHeadAttention(width, width, width, width, heads, 0.0, bias=bias).eval()
    q, k, v = torch.randn(batch, queries, width), torch.randn(batch, keys, width), torch.randn(batch, keys, width)
    return module, q, k, v, torch.randint(1, keys + 1, (batch,))


def by_loop(module, q, k, v, allowed):
    """Head by head in float64 numpy. allowed: (batch, heads, queries, keys), True = may attend."""
    W = {name: value.double().numpy() for name, value in module.state_dict().items()}

    def project(name, x):
        return x.double().numpy() @ W[name + ".weight"].T + W.get(name + ".bias", 0)
    q, k, v = project("W_q", q), project("W_k", k), project("W_v", v)
    width = q.shape[-1] // module.num_heads
    heads = []
    for h in range(module.num_heads):
        own = slice(h * width, (h + 1) * width)
        scores = q[..., own] @ k[..., own].swapaxes(1, 2) / np.sqrt(width)
        weights = np.exp(scores - scores.max()) * allowed[:, h].numpy()
        total = weights.sum(-1, keepdims=True)
        heads.append(weights / np.where(total == 0, 1, total) @ v[..., own])
    return np.concatenate(heads, axis=-1) @ W["W_o.weight"].T + W.get("W_o.bias", 0)


def same(got, want, atol=1e-6):
    want = torch.as_tensor(want)
    torch.testing.assert_close(got.detach().double(), want.detach().double(), atol=atol, rtol=0)


# ------------------------------------------------------------------ shapes
def test_transpose_qkv_gives_each_head_its_columns():
    X = torch.arange(12.0).reshape(1, 3, 4)
    assert transpose_qkv(X, 2).tolist() == [[[0, 1], [4, 5], [8, 9]], [[2, 3], [6, 7], [10, 11]]]
    X = torch.randn(2, 3, 8)
    for i, head in enumerate(transpose_qkv(X, 4)):
        assert torch.equal(head, X[i // 4, :, 2 * (i % 4):2 * (i % 4) + 2])
    assert torch.equal(transpose_output(transpose_qkv(X, 4), 4), X)


def test_transpose_output_refuses_what_is_no_multiple_of_the_heads():
    with pytest.raises(ValueError, match="3.*num_heads 2"):
        transpose_output(torch.zeros(3, 4, 5), 2)


def test_the_shape_of_the_book():
    module = MultiHeadAttention(100, 100, 100, 100, 5, 0.5)
    output = module.eval()(torch.ones(2, 4, 100), torch.ones(2, 6, 100), torch.ones(2, 6, 100), torch.tensor([3, 2]))
    assert output.shape == (2, 4, 100) and module.attention_weights.shape == (2, 5, 4, 6)


# ------------------------------------------------------------------ four witnesses
@PATHS
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bias", [False, True])
def test_equals_the_loop_over_heads(seed, need_weights, bias):
    module, q, k, v, lens = case(seed, bias=bias)
    allowed = (torch.arange(7) < lens[:, None])[:, None, None].expand(3, 4, 5, 7)
    same(module(q, k, v, lens, need_weights=need_weights), by_loop(module, q, k, v, allowed))


@PATHS
def test_equals_the_book_and_state_dicts_interchange(need_weights):
    from helpers import d2l
    module, q, k, v, lens = case(3)
    book = d2l.MultiHeadAttention(24, 24, 24, 24, 4, 0.0).eval()
    book.load_state_dict(module.state_dict())
    same(module(q, k, v, lens, need_weights=need_weights), book(q, k, v, lens))
    lens = torch.randint(1, 8, (3, 5))
    same(module(q, k, v, lens, need_weights=need_weights), book(q, k, v, lens))
    other = MultiHeadAttention(24, 24, 24, 24, 4, 0.0)
    other.load_state_dict(book.state_dict())
    same(other(q, k, v), module(q, k, v))


@PATHS
def test_equals_torch_multihead_attention(need_weights):
    module, q, k, v, lens = case(4, bias=True)
    state = module.state_dict()
    theirs = nn.MultiheadAttention(24, 4, batch_first=True).eval()
    theirs.load_state_dict({"in_proj_weight": torch.cat([state[f"W_{x}.weight"] for x in "qkv"]),
                            "in_proj_bias": torch.cat([state[f"W_{x}.bias"] for x in "qkv"]),
                            "out_proj.weight": state["W_o.weight"], "out_proj.bias": state["W_o.bias"]})
    leave_out = torch.arange(7) >= lens[:, None]                         # True = leave out
    output, weights = theirs(q, k, v, key_padding_mask=leave_out, average_attn_weights=False)
    same(module(q, k, v, lens, need_weights=need_weights), output)
    if need_weights:
        same(module.attention_weights, weights)


@PATHS
def test_equals_the_fused_kernel(need_weights):
    module, q, k, v, lens = case(5)
    split = [W(x).unflatten(-1, (4, 6)).transpose(1, 2) for W, x in ((module.W_q, q), (module.W_k, k), (module.W_v, v))]
    attend = (torch.arange(7) < lens[:, None])[:, None, None]            # True = may attend
    want = module.W_o(F.scaled_dot_product_attention(*split, attn_mask=attend).transpose(1, 2).flatten(2))
    same(module(q, k, v, lens, need_weights=need_weights), want)


# ------------------------------------------------------------------ masks
@PATHS
@pytest.mark.parametrize("shape", [(3, 7), (3, 5, 7), (3, 4, 5, 7), (1, 7), (3, 1, 7), (1, 5, 7), (1, 4, 1, 7), (3, 1, 5, 7)])
def test_masks_of_each_rank(shape, need_weights):
    module, q, k, v, lens = case(6)
    mask = torch.rand(shape) < 0.6
    mask[..., 0] = True                                                  # no empty rows here
    full = {2: lambda m: m[:, None, None], 3: lambda m: m[:, None], 4: lambda m: m}[len(shape)](mask).expand(3, 4, 5, 7)
    for given in (mask, mask.int()):
        same(module(q, k, v, mask=given, need_weights=need_weights), by_loop(module, q, k, v, full))
    both = full & (torch.arange(7) < lens[:, None])[:, None, None]
    same(module(q, k, v, lens, mask, need_weights=need_weights), by_loop(module, q, k, v, both))


@PATHS
def test_empty_rows_are_zero_with_finite_gradients(need_weights):
    module, q, k, v, _ = case(7)
    lens = torch.tensor([0, 3, 7])
    mask = torch.ones(3, 5, 7, dtype=torch.bool)
    mask[1, 2] = False                                                   # one empty row in an example with others
    q.requires_grad_()
    output = module(q, k, v, lens, mask, need_weights=need_weights)
    assert not output[0].any() and not output[1, 2].any() and output[1, 1].any()
    output.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters()) and q.grad.isfinite().all()
    assert not q.grad[0].any()
    lens[0] = 1                                                          # the others do not depend on the empty one
    same(module(q, k, v, lens, mask, need_weights=need_weights)[1:], output[1:])


@PATHS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype, need_weights):
    module, q, k, v, _ = case(8)
    lens = torch.tensor([0, 2, 7])
    want = module(q, k, v, lens)
    got = copy.deepcopy(module).to(dtype)(q.to(dtype), k.to(dtype), v.to(dtype), lens, need_weights=need_weights)
    assert got.dtype == dtype and not got[0].any()
    same(got, want, atol=0.02)


def test_tiled_lengths_pass_on_ones_and_fail_on_random_input():
    module, q, k, v, _ = case(9)
    lens = torch.tensor([1, 4, 7])

    def tiled(q, k, v):
        parts = (transpose_qkv(W(x), 4) for W, x in ((module.W_q, q), (module.W_k, k), (module.W_v, v)))
        return module.W_o(transpose_output(DotProductAttention(0.0)(*parts, lens.repeat(4)), 4))
    ones = torch.ones_like
    same(module(ones(q), ones(k), ones(v), lens), tiled(ones(q), ones(k), ones(v)))
    assert (module(q, k, v, lens) - tiled(q, k, v)).abs().max() > 0.05


# ------------------------------------------------------------------ what a call leaves behind
def test_weights_are_kept_for_each_head_and_not_with_the_fused_path():
    module, q, k, v, lens = case(10)
    module(q, k, v, lens)
    weights = module.attention_weights
    assert weights.shape == (3, 4, 5, 7) and not weights.requires_grad
    same(weights.sum(-1), torch.ones(3, 4, 5))
    assert not weights[0, :, :, lens[0]:].any()
    module(q, k, v, lens, need_weights=False)
    assert module.attention_weights is None and module.attention.attention_weights is None


@PATHS
def test_dropout_acts_in_training_only_and_not_on_the_stored_weights(need_weights):
    module, q, k, v, lens = case(11)
    module.attention.dropout.p = 0.5
    want = module(q, k, v, lens)
    module.train()
    one, two = (module(q, k, v, lens, need_weights=need_weights) for _ in range(2))
    assert not torch.allclose(one, two)
    if need_weights:
        same(module.attention_weights.sum(-1), torch.ones(3, 4, 5))
    same(module.eval()(q, k, v, lens, need_weights=need_weights), want)


@PATHS
def test_dropout_takes_keys_from_a_head_not_numbers_from_the_output(need_weights):
    torch.manual_seed(0)
    module = MultiHeadAttention(8, 8, 8, 8, 2, dropout=0.5)
    with torch.no_grad():
        for layer in (module.W_v, module.W_o):
            layer.weight.copy_(torch.eye(8))
    values = torch.rand(50, 1, 8) + 1                                    # one key: its weight is 1, or lost, or doubled
    times = (module(values, values, values, need_weights=need_weights) / values).unflatten(-1, (2, 4))
    assert set(times.detach().round(decimals=4).unique().tolist()) == {0.0, 2.0}
    assert torch.allclose(times, times[..., :1].expand_as(times))        # the same for all numbers of a head


# ------------------------------------------------------------------ errors
@pytest.mark.parametrize("heads, near", [(3, "99 or 102"), (7, "98 or 105"), (200, "200")])
def test_a_width_that_heads_cannot_share_is_refused(heads, near):
    with pytest.raises(ValueError, match=f"num_hiddens.*100.*{heads}, {near}"):
        MultiHeadAttention(100, 100, 100, 100, heads, 0.0)
    with pytest.raises(ValueError, match="num_heads must be a whole number, at least 1; got 0"):
        MultiHeadAttention(100, 100, 100, 100, 0, 0.0)


def test_wrong_arguments_are_named():
    module, q, k, v, lens = case(12)
    for arguments, words in (((q[..., :5], k, v), "queries have width 5.*24, query_size"),
                             ((q, k[..., :5], v), "keys have width 5.*24, key_size"),
                             ((q, k, v[..., :5]), "values have width 5.*24, value_size"),
                             ((q, k, v[:, :5]), "7 keys.*5 values"),
                             ((q[:2], k, v), "keys.*same batch"),
                             ((q[:, None], k[:, None], v[:, None]), "queries must be .*without an axis for heads"),
                             ((q, k, v, torch.ones(2)), "valid_lens must be"),
                             ((q, k, v, None, torch.ones(3, 2, 5, 7).bool()), "mask must be")):
        with pytest.raises(ValueError, match=words):
            module(*arguments)


# ------------------------------------------------------------------ patterns
def test_pattern_scores_on_patterns_made_by_hand():
    n, blocks = 6, [0, 0, 0, 1, 1, 1]
    previous = torch.eye(n).roll(-1, dims=1)                             # token 0 looks at the last one
    column = F.one_hot(torch.full((n,), 2), n).float()
    halves = torch.block_diag(torch.ones(3, 3), torch.ones(3, 3)) / 3
    weights = torch.stack([torch.eye(n), previous, column, halves, torch.full((n, n), 1 / n)])
    same(diagonal_score(weights, 0), [1, 0, 1 / 6, 1 / 3, 1 / 6])
    same(diagonal_score(weights, -1), [0, 1, 1 / 5, 4 / 3 / 5, 1 / 6])
    same(vertical_score(weights, 2), [1 / 6, 1 / 6, 1, 1 / 6, 1 / 6])
    same(block_score(weights, blocks), [1 / 3, 4 / 3 / 6, 3 / 3 / 6, 1, 1 / 2])
    assert pattern_scores(weights, blocks).argmax(dim=-1)[:4].tolist() == [0, 0, 1, 2]


# ------------------------------------------------------------------ toy tasks
def test_the_queue_asks_what_it_says():
    tokens, where = QUEUE.draw(200, torch.Generator().manual_seed(0))
    truth = answers(tokens, where)
    names, colours = tokens.unbind(dim=-1)
    assert all(len(set(row)) == 10 for row in names.tolist())
    assert all(sorted(row) == sorted(list(range(5)) * 2) for row in colours.tolist())
    for i in range(10):
        assert torch.equal(truth[:, i, 0], names[:, i - 1] if i else torch.full((200,), NOT_ASKED))
        assert torch.equal(truth[:, i, 1], names[:, i + 1] if i < 9 else torch.full((200,), NOT_ASKED))
    assert torch.equal(truth[:, :, 3], names[:, :1].expand(-1, 10))
    twin = where[..., 2]
    assert torch.equal(colours.gather(1, twin), colours) and not (twin == torch.arange(10)).any()


def test_the_sentences_ask_what_they_say():
    tokens, where = SENTENCES.draw(300, torch.Generator().manual_seed(0))
    words = SENTENCES.fields[0]
    assert ((where != NOT_ASKED).sum(dim=-1) <= 1).all()                 # no token asks two questions
    for sentence, asked, truth in zip(tokens[..., 0].tolist(), where.tolist(), answers(tokens, where).tolist()):
        said = [words[word] for word in sentence]
        men = {"小明 Ming", "小刚 Gang", "小强 Qiang", "小军 Jun"}
        subject, object_ = next(word for word in said[:2] if word[0] == "小"), said[3]
        person = next(word for word in (subject, object_) if (word in men) == (said[5] == "他 he"))
        told = {(i, q): words[a] for i, row in enumerate(truth) for q, a in enumerate(row) if a != NOT_ASKED}
        assert told[5, 0] == person and told[2, 1] == subject and told[said.index(subject), 2] == object_
        assert all(told[i, 3] == said[i - 1] for i in (3, 4, 6))
        assert len(told) == (7 if said[0] == subject else 6)


def test_look_shares_and_grade_answers():
    tokens, where = QUEUE.draw(4, torch.Generator().manual_seed(0))
    weights = torch.zeros(4, 2, 10, 10)
    weights[:, 0].scatter_(2, where[..., 2:3], 1.0)                      # head 0 looks at the twin,
    weights[:, 1, :, 0] = 1.0                                            # head 1 at the first
    shares = look_shares(weights, where)
    assert shares[0, 2] == 1 and shares[1, 3] == 1 and shares[1, 1] == 0
    same(shares[1, 0], 1 / 9)                                            # the first is the previous one of the second only

    class Knows(nn.Module):
        def forward(self, tokens):
            logits = F.one_hot(answers(tokens, where).clamp(min=0), 12).float()
            logits[:, :5, 1] *= -1                                       # wrong about half of `next`
            return logits
    same(grade_answers(Knows(), (tokens, where)), [1, 4 / 9, 1, 1])


def test_without_head_takes_away_one_head_of_a_copy():
    torch.manual_seed(0)
    model = Answerer(QUEUE, MultiHeadAttention(64, 64, 64, 64, 4, 0.0))
    before = copy.deepcopy(model.state_dict())
    tokens, _ = QUEUE.draw(2, torch.Generator().manual_seed(0))
    model.output = nn.Identity()                                         # then all that is left is the sum over the heads
    model.questions = 1
    parts = []
    for head in range(4):
        rest = model
        for other in set(range(4)) - {head}:
            rest = without_head(rest, other)
        parts.append(rest(tokens))
    same(sum(parts), model(tokens), atol=1e-5)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items() if name in before)
    with pytest.raises(ValueError, match="from 0 to 3, got 4"):
        without_head(model, 4)


def test_heads_that_start_equal_stay_equal():
    torch.manual_seed(1)
    module = MultiHeadAttention(8, 8, 8, 8, 2, 0.0)
    with torch.no_grad():
        for W in (module.W_q, module.W_k, module.W_v):
            W.weight[4:] = W.weight[:4]
        module.W_o.weight[:, 4:] = module.W_o.weight[:, :4]
    start = module.W_q.weight.detach().clone()
    X, target = torch.randn(8, 5, 8), torch.randn(8, 5, 8)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(50):
        optimizer.zero_grad()
        F.mse_loss(module(X, X, X), target).backward()
        optimizer.step()
    same(module.W_q.weight[4:], module.W_q.weight[:4], atol=1e-5)
    assert (module.W_q.weight - start).abs().max() > 1e-3                # it has moved


def train_answerer(task, heads, steps):
    torch.manual_seed(7)
    model = Answerer(task, MultiHeadAttention(64, 64, 64, 64, heads, 0.0))
    train(model, answer_loss, task_batches(task, 32, seed=8), steps, lr=5e-3, weight_decay=0.5)
    return model, next(task_batches(task, 300, seed=9))


@pytest.mark.slow
def test_four_heads_answer_the_queue_and_one_head_does_not():
    model, test = train_answerer(QUEUE, 4, 1000)
    assert grade_answers(model, test).min() >= 0.99
    left = torch.stack([grade_answers(without_head(model, head), test) for head in range(4)])
    assert left.min() <= 0.35
    model, test = train_answerer(QUEUE, 1, 600)
    assert grade_answers(model, test).mean() <= 0.6


def test_four_heads_do_not_share_out_the_sentences():
    model, test = train_answerer(SENTENCES, 4, 600)
    assert grade_answers(model, test).min() >= 0.99
    assert len(set(look_shares(model.attention.attention_weights, test[1]).argmax(dim=0).tolist())) < 4
    assert min(grade_answers(without_head(model, head), test).min() for head in range(4)) > 0.3


def test_the_picture_by_head_says_where_the_numbers_went(capsys):
    from helpers import show_by_head
    X = torch.arange(12.0).reshape(1, 3, 4)
    show_by_head(transpose_qkv(X, 2), ["a", "b"], num_hiddens=4, num_heads=2)
    assert "values 0 1 / 4 5 / 8 9" in capsys.readouterr().out
    show_by_head(X.reshape(2, 3, 2), ["a", "b"], num_hiddens=4, num_heads=2)
    assert "values 0 1 / 2 3 / 4 5" in capsys.readouterr().out


# ------------------------------------------------------------------ two ways, one result
def test_the_fused_kernel_does_not_stand_in_for_another_score():
    m = MultiHeadAttention(8, 8, 8, 8, 2, 0.0)
    m.attention = AdditiveAttention(4, 4, 4, 0.0)
    X = torch.randn(1, 3, 8)
    output = m(X, X, X)
    assert m.attention_weights.shape == (1, 2, 3, 3)
    same(m(X, X, X, need_weights=False), output)
    assert m.attention_weights is None


MASKS = {"none": {}, "lengths": dict(valid_lens=torch.tensor([2, 5, 0])), "lengths of queries": dict(valid_lens=torch.arange(15).reshape(3, 5) % 6),
         "keys": dict(mask=torch.tensor([[1, 0, 1, 1, 0]] * 3)), "causal": dict(mask=torch.ones(1, 5, 5).tril().bool()),
         "heads": dict(mask=(torch.arange(300).reshape(3, 4, 5, 5) % 3 > 0)),
         "both": dict(valid_lens=torch.tensor([2, 5, 1]), mask=torch.ones(1, 5, 5).tril().bool())}


@pytest.mark.parametrize("self_attention", [True, False])
@pytest.mark.parametrize("kind", MASKS)
def test_both_ways_have_the_same_gradients(kind, self_attention):
    """For the input and every parameter, and those of one head after the other, in float64 by autograd alone."""
    module, X, other, *_ = case(7, keys=5, bias=True)

    def gradients(call):
        module.zero_grad()
        inputs = [x.clone().requires_grad_() for x in (X, other)]
        Q, K = inputs[0], inputs[0] if self_attention else inputs[1]
        (call(Q, K) * torch.linspace(-1, 1, 24)).sum().backward()
        return [x.grad for x in inputs[:1 if self_attention else 2]] + [weight.grad.clone() for weight in module.parameters()]

    def head_by_head(Q, K):
        allowed = attend_mask(torch.zeros(3, 4, 5, 5), **MASKS[kind])
        allowed = torch.ones(3, 4, 5, 5, dtype=torch.bool) if allowed is None else allowed.expand(3, 4, 5, 5)
        outputs = []
        for h in range(4):
            q, k, v = (W(x)[..., 6 * h:6 * h + 6] for W, x in ((module.W_q, Q), (module.W_k, K), (module.W_v, K)))
            powers = torch.exp(q @ k.mT / 6**0.5) * allowed[:, h]
            outputs.append(powers @ v / powers.sum(-1, keepdim=True).clamp(min=1e-30))
        return module.W_o(torch.cat(outputs, dim=-1))

    want = gradients(head_by_head)
    for need_weights in (True, False):
        for got, expected in zip(gradients(lambda Q, K: module(Q, K, K, **MASKS[kind], need_weights=need_weights)), want, strict=True):
            same(got, expected, atol=2e-6)


def products(call):
    """How many matrix products call() makes outside the fused kernel."""
    class Count(TorchDispatchMode):
        made = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            Count.made += function._opname in ("mm", "addmm")
            return function(*args, **(kwargs or {}))
    with Count(), torch.no_grad():
        call()
    return Count.made


@PATHS
@pytest.mark.parametrize("bias", [False, True])
def test_self_attention_projects_with_one_product(need_weights, bias):
    module, X, other, *_ = case(8, keys=5, bias=bias)
    assert products(lambda: module(X, X, X, need_weights=need_weights)) == 2          # and W_o
    assert products(lambda: module(X, other, other, need_weights=need_weights)) == 4


@PATHS
def test_a_layer_that_does_more_than_its_product_is_called(need_weights):
    """A hook, a parametrization, another class in its place: as adapters, pruning and tensor parallelism do it."""
    module, X, *_ = case(9)
    plain = module(X, X, X, need_weights=need_weights)
    hook = module.W_k.register_forward_hook(lambda layer, args, output: 2 * output)
    hooked = module(X, X, X, need_weights=need_weights)
    hook.remove()
    with torch.no_grad():
        module.W_k.weight.mul_(2)
    same(hooked, module(X, X, X, need_weights=need_weights))
    assert (hooked - plain).abs().max() > 1e-3
    with torch.no_grad():
        module.W_k.weight.div_(2)
    module.W_v.__class__ = type("Doubled", (nn.Linear,), {"forward": lambda self, X: 2 * nn.Linear.forward(self, X)})
    same(module(X, X, X, need_weights=need_weights), 2 * plain)
    module.W_v.__class__ = nn.Linear
    nn.utils.parametrizations.weight_norm(module.W_q)
    module.W_q.parametrizations.weight.original0.data.mul_(3)
    assert (module(X, X, X, need_weights=need_weights) - plain).abs().max() > 1e-3


def test_scores_that_somebody_keeps_are_not_overwritten():
    class Fixed(DotProductAttention):
        def score(self, queries, keys):
            return self.table
    module, X, *_ = case(10)
    module.attention = Fixed(0.0)
    module.attention.table = table = torch.randn(3, 4, 5, 5)
    kept = table.clone()
    module(X, X, X, torch.tensor([2, 3, 1]))
    assert torch.equal(table, kept)


@pytest.mark.parametrize("kind", ["none", "lengths", "keys"])
def test_without_weights_memory_grows_with_n_and_with_them_with_its_square(kind):
    module = MultiHeadAttention(16, 16, 16, 16, 4, 0.0)

    def peak(n, need_weights):
        X = torch.zeros(2, n, 16)
        masks = {"none": {}, "lengths": dict(valid_lens=torch.tensor([n, n // 2])), "keys": dict(mask=torch.ones(2, n) > 0)}[kind]
        return peak_bytes(lambda: module(X, X, X, **masks, need_weights=need_weights))
    assert peak(2048, False) < 2.05 * peak(1024, False)
    assert peak(2048, True) > 3.5 * peak(1024, True)
