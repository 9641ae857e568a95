"""The toy corpus, and a translator trained on it."""
import pytest
import torch

from helpers import AdditiveAttention, DotProductAttention, Translator, grade_translations, train, translate, translation_loss
from helpers.translation import (ADVERBS, COLOURS, ENGLISH, EOS, FRENCH, HELD_OUT, NOUNS, PAD_ID, VERBS, make_pairs,
                                 shuffled_batches, to_batch, translate_by_rule)


def phrases(pair):
    return set(zip(pair.english, pair.english[1:])) & {(colour, noun) for colour in COLOURS for noun in NOUNS}


def test_the_grammar_by_hand():
    pair = translate_by_rule("the black cow often sees a small white dog".split())
    assert " ".join(pair.french) == "la vache noire voit souvent un petit chien blanc <eos>"
    assert [pair.english[i] for i in pair.alignment] == "the cow black sees often a small dog white <eos>".split()


def test_every_alignment_is_a_permutation_that_joins_words_of_one_meaning():
    from helpers import translation as t
    words = {**t.DETERMINERS, **t.SIZES, **COLOURS, **NOUNS, **VERBS, **ADVERBS, EOS: EOS}
    for pair in make_pairs(300, seed=5):
        assert sorted(pair.alignment) == list(range(len(pair.english)))
        for french, i in zip(pair.french, pair.alignment):
            assert french in words[pair.english[i]] if isinstance(words[pair.english[i]], tuple) else french == words[pair.english[i]]


def test_determiners_and_adjectives_agree_with_their_noun():
    from helpers import translation as t
    feminine = {forms[1] for words in (t.DETERMINERS, t.SIZES, COLOURS) for forms in words.values()}
    masculine = {forms[0] for words in (t.DETERMINERS, t.SIZES, COLOURS) for forms in words.values()}
    for pair in make_pairs(300, seed=6):
        verb = next(i for i, word in enumerate(pair.french) if word in VERBS.values())
        for phrase in (pair.french[:verb], pair.french[verb:]):
            noun = next(word for word in phrase if word in NOUNS.values())
            wrong = masculine if noun in t.FEMININE.values() else feminine
            assert not wrong & set(phrase), pair.french


def test_held_out_pairs_never_occur_in_training_and_always_where_asked():
    assert len(HELD_OUT) == len(NOUNS) == 12 and len(NOUNS) * len(COLOURS) == 72
    assert not any(phrases(pair) & HELD_OUT for pair in make_pairs(2000, seed=1))
    assert all(phrases(pair) & HELD_OUT for pair in make_pairs(200, seed=1, held_out=True))
    seen = set().union(*(phrases(pair) for pair in make_pairs(2000, seed=1)))
    assert len(seen) == 60                                               # all others do occur


def test_sentences_are_the_same_on_every_machine_and_never_repeat():
    first = make_pairs(50, seed=1)
    assert first == make_pairs(50, seed=1) != make_pairs(50, seed=2)
    assert " ".join(first[0].english) == "a dog sometimes finds my dog <eos>"
    later = make_pairs(1000, seed=3, exclude=first)
    assert len({tuple(pair.english) for pair in first + later}) == 1050
    again = make_pairs(50, seed=1, exclude=first)                        # would otherwise be the same ones
    assert not {tuple(pair.english) for pair in first} & {tuple(pair.english) for pair in again}


def test_batches_are_filled_up_and_lengths_count_the_end_mark():
    pairs = make_pairs(40, seed=1)
    source, lens, target = to_batch(pairs)
    for pair, row, length, french in zip(pairs, source, lens, target):
        assert ENGLISH.to_tokens(row[:length].tolist()) == pair.english and (row[length:] == PAD_ID).all()
        assert FRENCH.to_tokens(french[french != PAD_ID].tolist()) == pair.french


def test_an_epoch_of_batches_has_every_pair_once():
    pairs = make_pairs(10, seed=1)
    batches = shuffled_batches(pairs, 4)
    epoch = [tuple(row[row != PAD_ID].tolist()) for _ in range(3) for row in next(batches)[0]]
    assert sorted(epoch) == sorted(tuple(ENGLISH.to_ids(pair.english)) for pair in pairs)


def test_an_unknown_word_is_named():
    with pytest.raises(ValueError, match="zebra"):
        ENGLISH.to_ids("the zebra sees a cat".split())


def trained(attention, seed):
    torch.manual_seed(seed)
    model = Translator(len(ENGLISH), len(FRENCH), attention)
    train(model, translation_loss, shuffled_batches(make_pairs(2000, seed=1), 64), steps=192, lr=1e-2)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("attention, least", [(DotProductAttention(0.0), 0.99), (AdditiveAttention(64, 64, 32, 0.0), 0.8)])
def test_with_attention_it_translates_and_aligns(attention, least):
    """On another seed than the lesson's."""
    model = trained(attention, seed=100)
    for pairs in (make_pairs(300, seed=2), make_pairs(300, seed=3, held_out=True)):
        exact, alignment = grade_translations(model, pairs)
        assert exact >= 0.99 and alignment >= least


def test_every_french_word_weighs_the_same_in_the_loss_and_padding_nothing():
    torch.manual_seed(0)
    model = Translator(len(ENGLISH), len(FRENCH), DotProductAttention(0.0)).eval()
    pairs = sorted(make_pairs(20, seed=4), key=lambda pair: len(pair.french))
    short, long = pairs[0], pairs[-1]
    one, other = (translation_loss(model, to_batch([pair])) * len(pair.french) for pair in (short, long))
    together = translation_loss(model, to_batch([short, long])) * (len(short.french) + len(long.french))
    assert len(short.french) < len(long.french) and torch.allclose(together, one + other)


@pytest.mark.slow
def test_without_attention_the_same_training_fails():
    exact, alignment = grade_translations(trained(None, seed=100), make_pairs(300, seed=2))
    assert exact <= 0.05 and alignment is None


def test_translation_does_not_depend_on_the_padding_beside_it():
    torch.manual_seed(0)
    model = Translator(len(ENGLISH), len(FRENCH), DotProductAttention(0.0)).eval()
    short, long = sorted(make_pairs(50, seed=1), key=lambda pair: len(pair.english))[::49]
    alone, together = (translate(model, *to_batch(pairs)[:2])[1][0] for pairs in ([short], [short, long]))
    n = len(short.english)
    assert torch.allclose(alone, together[:, :n], atol=1e-6) and together[:, n:].abs().max() == 0


def test_scores_of_a_perfect_and_of_a_shifted_alignment():
    """The measure itself, on a stand-in whose translations and weights are known."""
    pairs = make_pairs(20, seed=1)
    source, lens, target = to_batch(pairs)

    class Known:
        shift = 0
        attention = torch.nn.Module()
        step = 0

        def encoder(self, source, lens):
            return None, torch.zeros(20, 1)

        def decode(self, token, state, sources, lens):
            t, self.step = self.step, self.step + 1
            weights = torch.zeros(20, 1, source.shape[1])
            for b, pair in enumerate(pairs):
                weights[b, 0, (pair.alignment[min(t, len(pair.alignment) - 1)] + self.shift) % len(pair.english)] = 1
            self.attention.attention_weights = weights
            return torch.nn.functional.one_hot(target[:, t:t + 1], len(FRENCH)).float(), state

    assert grade_translations(Known(), pairs) == (1.0, 1.0)
    shifted = Known()
    shifted.shift = 1
    assert grade_translations(shifted, pairs) == (1.0, 0.0)
