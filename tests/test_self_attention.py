"""Self-attention, the two senses of 苹果, and what lesson 02 concludes from them."""
import collections
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from helpers import MultiHeadAttention, SelfAttention, SenseModel, course, train
from helpers.checks import self_attention as check
from helpers.senses import (AMBIGUOUS, COMPANY, CUES, FOOD, HELD_OUT, INDEX, NOUNS, PEOPLE, TOKENS, UNCLEAR, Sentence, gloss,
                            make_sentences, read_nouns, sense_batches, sense_loss, to_ids)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(7)


def by_numpy(attention, X, allowed):
    """One head of self-attention, row by row, in float64; allowed: (batch, n, n)."""
    W_q, W_k, W_v = (layer.weight.detach().double().numpy().T for layer in (attention.W_q, attention.W_k, attention.W_v))
    X, out = X.double().numpy(), []
    for x, may in zip(X, np.broadcast_to(allowed, (len(X), X.shape[1], X.shape[1]))):
        for i in range(len(x)):
            scores = np.array([(x[i] @ W_q) @ (x[j] @ W_k) for j in range(len(x))]) / math.sqrt(W_q.shape[1])
            weights = np.where(may[i], np.exp(scores), 0)
            out.append(weights / max(weights.sum(), 1e-300) @ (x @ W_v))
    return torch.from_numpy(np.reshape(out, (*X.shape[:2], -1)))


# ------------------------------------------------------------------ the module
def test_the_worked_example():
    attention = SelfAttention(4, 2, 2, 0.0)
    with torch.no_grad():
        attention.W_q.weight.copy_(torch.tensor([[1., 0.], [0., 1.], [1., 1.], [0., 0.]]).T)
        attention.W_k.weight.copy_(torch.tensor([[0., 1.], [1., 0.], [0., 1.], [1., 0.]]).T)
        attention.W_v.weight.copy_(torch.tensor([[1., 0.], [0., 1.], [0., 0.], [1., 1.]]).T)
    output = attention(torch.tensor([[[1., 0., 1., 0.], [0., 1., 0., 1.], [1., 1., 0., 0.]]]))
    weights = torch.tensor([[[.1400, .5760, .2840], [.5760, .1400, .2840], [1 / 3, 1 / 3, 1 / 3]]])
    torch.testing.assert_close(attention.attention_weights, weights, atol=5e-5, rtol=0)
    torch.testing.assert_close(output, torch.tensor([[[1, 1.4359], [1, .5641], [1, 1]]]), atol=5e-5, rtol=0)


def test_equals_numpy_row_by_row_with_lengths_and_mask():
    attention, X = SelfAttention(6, 3, 5, 0.0), torch.randn(3, 4, 6)
    lens, mask = torch.tensor([4, 2, 1]), torch.rand(3, 4, 4) > 0.3
    every = np.ones((1, 4, 4), dtype=bool)
    short = np.arange(4) < lens.numpy()[:, None, None]
    for arguments, allowed in (((), every), ((lens,), short & every), ((None, mask), mask.numpy()),
                               ((lens, mask), short & mask.numpy())):
        torch.testing.assert_close(attention(X, *arguments).double(), by_numpy(attention, X, allowed), atol=1e-5, rtol=1e-5)


def test_is_one_head_of_multi_head_attention():
    one, many = SelfAttention(8, 8, 8, 0.0), MultiHeadAttention(8, 8, 8, 8, num_heads=1, dropout=0.0)
    many.load_state_dict({**one.state_dict(), "W_o.weight": torch.eye(8)})
    X, lens = torch.randn(2, 5, 8), torch.tensor([5, 2])
    torch.testing.assert_close(one(X, lens), many(X, X, X, lens))


def test_shapes_and_the_weights_that_are_kept():
    attention = SelfAttention(8, 3, 5, dropout=0.9)
    assert attention.attention_weights is None
    output = attention(torch.randn(2, 4, 8), torch.tensor([1, 3]))
    weights = attention.attention_weights
    assert output.shape == (2, 4, 5) and weights.shape == (2, 4, 4) and not weights.requires_grad
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4))        # before dropout
    assert weights[0, :, 1:].eq(0).all() and weights[1, :, 3:].eq(0).all()
    assert sum(p.numel() for p in attention.parameters()) == 8 * (3 + 3 + 5)   # no bias


def test_all_three_projections_learn():
    attention = SelfAttention(8, 3, 5, 0.0)
    attention(torch.randn(2, 4, 8)).square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in attention.parameters())


def test_padding_changes_nothing_with_lengths_and_everything_without():
    attention, X, lens = SelfAttention(8, 8, 8, 0.0), torch.randn(2, 5, 8), torch.tensor([5, 3])
    changed = X.clone()
    changed[1, 3:] = 1e4
    assert torch.equal(attention(X, lens)[1, :3], attention(changed, lens)[1, :3])
    assert (attention(X) - attention(changed))[1, :3].abs().amax(-1).min() > 0.01


def test_shuffled_tokens_give_shuffled_outputs():
    attention, X, order = SelfAttention(8, 4, 6, 0.0), torch.randn(2, 5, 8), torch.randperm(5)
    torch.testing.assert_close(attention(X[:, order]), attention(X)[:, order])


def test_edges():
    attention = SelfAttention(4, 2, 3, 0.0)
    X = torch.randn(2, 3, 4)
    torch.testing.assert_close(attention(X[:, :1]), attention.W_v(X[:, :1]))                  # one token reads itself
    assert attention(X, torch.tensor([0, 3]))[0].eq(0).all()                                  # nothing to read
    assert attention.bfloat16()(X.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("X, words", [
    (torch.randn(3, 4), r"X must be a tensor \(batch, n, num_hiddens\).*\(3, 4\).*X\[None\]"),
    (torch.randn(1, 2, 3, 4), r"\(1, 2, 3, 4\)"),
    ([[[1.0, 2.0, 3.0, 4.0]]], "got list"),
    (torch.ones(1, 3, 4, dtype=torch.long), "torch.int64.*X.float"),
    (torch.randn(1, 3, 5), r"X have width 5.*must be 4, num_hiddens"),
])
def test_an_x_that_does_not_fit_is_refused_by_name(X, words):
    with pytest.raises(ValueError, match=words):
        SelfAttention(4, 2, 2, 0.0)(X)


@pytest.mark.parametrize("name", ["num_hiddens", "d_k", "d_v"])
@pytest.mark.parametrize("size", [0, -1, 2.0, True, "8"])
def test_widths_that_are_none_are_refused_by_name(name, size):
    with pytest.raises(ValueError, match=f"{name} must be a whole number.*{size!r}"):
        SelfAttention(**{"num_hiddens": 4, "d_k": 2, "d_v": 2, "dropout": 0.0, name: size})


def test_lengths_and_masks_that_do_not_fit_are_refused():
    attention, X = SelfAttention(4, 2, 2, 0.0), torch.randn(2, 3, 4)
    with pytest.raises(ValueError, match="valid_lens"):
        attention(X, torch.tensor([1, 2, 3]))
    with pytest.raises(ValueError, match="mask"):
        attention(X, mask=torch.ones(3, 3).tril().bool())                # would be read as (batch, keys)


# ------------------------------------------------------------------ the corpus
def pairs(sentence):
    return {(sentence.tokens[sentence.noun], sentence.tokens[i]) for i in sentence.cues}


def test_sentences_are_the_same_on_every_machine():
    assert make_sentences(50, seed=1) == make_sentences(50, seed=1) != make_sentences(50, seed=2)
    assert make_sentences(1, seed=1)[0] == Sentence(["土豆", "很", "好吃"], 0, [2], FOOD)


@pytest.mark.parametrize("held_out", [False, True])
def test_labels_follow_from_noun_and_cues(held_out):
    kinds = {noun: kind for kind, nouns in NOUNS.items() for noun in nouns}
    meaning = {cue: sense for sense, slots in CUES.items() for slot in slots.values() for cue in slot}
    for sentence in make_sentences(2000, seed=3, held_out=held_out):
        kind = kinds[sentence.tokens[sentence.noun]]
        found = {meaning[token] for token in sentence.tokens if token in meaning}
        assert [i for i, token in enumerate(sentence.tokens) if token in meaning] == sentence.cues and len(found) == 1
        assert sentence.sense == (found.pop() if kind == UNCLEAR else kind)
        assert sum(token in kinds for token in sentence.tokens) == 1


def test_held_out_pairs_never_occur_in_training_and_always_where_asked():
    assert {("苹果", "发布"), ("苹果", "产品"), ("苹果", "好吃")} < HELD_OUT
    assert len(HELD_OUT) == 15 * 36 / 3
    trained = set().union(*map(pairs, make_sentences(3000, seed=1)))
    tested = set().union(*map(pairs, make_sentences(3000, seed=2, held_out=True)))
    assert not trained & HELD_OUT and tested <= HELD_OUT
    for noun in AMBIGUOUS:                                               # all other pairs do occur
        assert len({cue for n, cue in trained if n == noun}) == 24 and len({cue for n, cue in tested if n == noun}) == 12


def test_only_cues_give_the_sense_away():
    """Without its cue words, a sentence with an ambiguous noun looks the same in all three senses, equally often."""
    seen = collections.defaultdict(collections.Counter)
    for sentence in make_sentences(9000, seed=4):
        if sentence.tokens[sentence.noun] in AMBIGUOUS:
            rest = tuple("_" if i in sentence.cues else token for i, token in enumerate(sentence.tokens)
                         if i != sentence.noun and token not in PEOPLE)
            seen[rest][sentence.sense] += 1
    assert set(seen) == {("_", "了", "新", "的", "_"), ("很", "_"), ("_", "了")}
    for counts in seen.values():
        assert len(counts) == 3 and max(counts.values()) < 1.25 * min(counts.values())


def test_the_loss_is_that_of_the_noun_wherever_it_stands():
    model, sentences = SenseModel(len(TOKENS)).eval(), make_sentences(60, seed=3)
    assert len({sentence.noun for sentence in sentences}) > 1
    ids, lens = to_ids([sentence.tokens for sentence in sentences])
    log_p = F.log_softmax(model(ids, lens), dim=-1)                      # (batch, n, senses)
    want = -sum(log_p[i, sentence.noun, sentence.sense] for i, sentence in enumerate(sentences)) / 60
    batch = ids, lens, torch.tensor([s.noun for s in sentences]), torch.tensor([s.sense for s in sentences])
    assert torch.allclose(sense_loss(model, batch), want)


def test_ids_are_filled_up_and_an_unknown_word_is_named():
    ids, lens = to_ids([["苹果", "很", "好吃"], ["苹果"]])
    assert ids.tolist() == [[INDEX["苹果"], INDEX["很"], INDEX["好吃"]], [INDEX["苹果"], 0, 0]] and lens.tolist() == [3, 1]
    with pytest.raises(ValueError, match="香肠.*苹果"):
        to_ids([["香肠", "很", "好吃"]])
    assert gloss(["苹果", "很", "好吃"]) == "苹果 apple | 很 very | 好吃 tasty"
    assert gloss(TOKENS[1:]).count("|") == len(TOKENS) - 2               # every word has a meaning in English


# ------------------------------------------------------------------ what the lesson concludes
@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(101)                                               # not a seed of the lesson
    model = SenseModel(len(TOKENS))
    train(model, sense_loss, sense_batches(make_sentences(3000, seed=11), 64), steps=500, lr=1e-2, weight_decay=0.1)
    return model


def sentences(*texts, noun="苹果"):
    return [Sentence(text.split(), text.split().index(noun), [], UNCLEAR) for text in texts]


def test_the_model_finds_the_cue_words_by_itself(trained):
    test = make_sentences(500, seed=12, held_out=True)
    senses, _, weights = read_nouns(trained, test)
    assert (senses == torch.tensor([s.sense for s in test])).float().mean() >= 0.99
    telling = [i for i, s in enumerate(test) if s.tokens[s.noun] in AMBIGUOUS and s.sense != UNCLEAR]
    assert sum(weights[i].argmax().item() in test[i].cues for i in telling) >= 0.99 * len(telling)
    assert torch.stack([weights[i, test[i].cues].sum() for i in telling]).mean() >= 0.85


def test_a_state_is_the_word_itself_and_what_attention_brings(trained):
    ids, lens = to_ids([["苹果", "很", "好吃"], ["苹果"]])
    X = trained.embedding(ids)
    torch.testing.assert_close(trained.states(ids, lens), X + trained.attention(X, lens))


def test_one_embedding_two_outputs(trained):
    senses, states, _ = read_nouns(trained, sentences("苹果 发布 了 新 的 产品", "苹果 很 好吃", "苹果 很 好", "苹果 好吃"))
    assert senses.tolist() == [COMPANY, FOOD, UNCLEAR, FOOD]
    assert F.cosine_similarity(states[0], states[1], dim=0) < -0.3


def test_the_first_word_behind_a_causal_mask_cannot_tell(trained):
    texts = sentences("苹果 发布 了 新 的 产品", "苹果 很 好吃")
    _, states, weights = read_nouns(trained, texts, mask=torch.ones(1, 6, 6).tril().bool())
    torch.testing.assert_close(states[0], states[1])
    assert weights[:, 0].eq(1).all()
    ends = sentences("他 吃 了 苹果", "他 投资 了 苹果", "他 看到 了 苹果")
    assert read_nouns(trained, ends, mask=torch.ones(1, 4, 4).tril().bool())[0].tolist() == [FOOD, COMPANY, UNCLEAR]


def test_the_root_of_d_keeps_the_softmax_alive():
    rng, raw = np.random.RandomState(5), []
    for d in (4, 16, 64, 256, 1024):
        dots = torch.from_numpy(rng.standard_normal((20, 40, d))) @ torch.from_numpy(rng.standard_normal((20, d, 64)))
        assert abs(dots.std().item() / math.sqrt(d) - 1) < 0.05
        weights = torch.softmax(dots / math.sqrt(d), dim=-1)
        assert 3.6 < torch.special.entr(weights).sum(-1).mean() < 3.8
        assert 0.94 < 1 - weights.square().sum(-1).mean() < 0.98
        weights = torch.softmax(dots, dim=-1)
        raw.append((torch.special.entr(weights).sum(-1).mean(), 1 - weights.square().sum(-1).mean()))
    assert raw == sorted(raw, reverse=True) and raw[-1][0] < 0.2 and raw[-1][1] < 0.1


# ------------------------------------------------------------------ the exercises
@pytest.mark.parametrize("name, function, en, zh", [
    ("scores", lambda X, W_q, W_k: X @ W_q @ (X @ W_k).T / 2, "In the case 3 tokens, all widths 3", "“3 个词元，宽度全是 3”"),
    ("scores", lambda X, W_q, W_k: X[None] @ W_q @ (X @ W_k).T / math.sqrt(W_q.shape[1]), "the shape is (1, 3, 3)", "(1, 3, 3)"),
    ("self_attention", lambda X, W_q, W_k, W_v, lens: F.scaled_dot_product_attention(X @ W_q, X @ W_k, X @ W_v) * 2,
     "In the case 3 tokens", "“3 个词元"),
    ("entropy", lambda weights: 1 - weights.square().sum(-1), "In the case three rows", "“三行”"),
    ("another_row", lambda weights, values: weights[None], "In the case 5 keys, values of width 2", "“5 个键，值的宽度为 2”"),
])
def test_an_answer_that_no_mistake_explains_is_told_the_case_in_the_notebooks_language(name, function, en, zh):
    exercise = getattr(check, f"{name}_exercise")
    try:
        for lang, words in (("en", en), ("zh", zh)):
            course.start(lang)
            assert words in exercise.verdict(function)
    finally:
        course.start("en")


@pytest.mark.parametrize("name, function", [
    ("scores", lambda X, W_q, W_k: torch.einsum("if,fd,jg,gd->ij", X, W_q, X, W_k) / W_q.shape[1] ** 0.5),
    ("self_attention", lambda X, W_q, W_k, W_v, lens: F.scaled_dot_product_attention(
        X @ W_q, X @ W_k, X @ W_v, attn_mask=(torch.arange(X.shape[1]) < lens[:, None])[:, None])),
    ("entropy", lambda weights: torch.distributions.Categorical(probs=weights).entropy()),
])
def test_another_right_way_passes(name, function):
    assert getattr(check, f"{name}_exercise").verdict(function).startswith("Right")


def hand_made(weights, values):
    """Another right answer than the solution's: a mixture of rows found by least squares from a random start."""
    A = torch.cat([values.T, torch.ones(1, len(weights))]).double()
    start = weights.double() + torch.randn(len(weights), dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 0.05
    moved = start - torch.linalg.pinv(A) @ (A @ start - A @ weights.double())
    step = moved - weights
    limit = (weights[step < 0] / -step[step < 0]).min()
    return (weights + 0.5 * limit * step).float()


def in_place(weights, values):
    weights += check.another_row_exercise.right(weights, values) - weights
    return weights


@pytest.mark.parametrize("function, words", [
    (hand_made, "Right"),
    (in_place, "changes the tensors"),
    (lambda weights, values: weights.tolist(), "returns list"),
    (lambda weights, values: weights[None], "returns (1, 5)"),
    (lambda weights, values: weights.nope, "stops with AttributeError"),
    (lambda weights, values: check.another_row_exercise.right(weights, values) if len(weights) == 5 else weights, "given"),
])
def test_any_other_row_is_right_and_nothing_else(function, words):
    assert words in check.another_row_exercise.verdict(function)
