"""A toy English-French corpus whose true word alignment is known.

A sentence is: noun phrase, perhaps an adverb, verb, noun phrase. A noun phrase is: determiner, perhaps a size, perhaps
a colour, noun. In French the colour follows the noun and the adverb follows the verb, so the alignment crosses there;
determiners, sizes and colours agree with the noun's gender.
"""
import random
from typing import NamedTuple

import torch

from helpers.guards import check_sizes, check_words

# English -> French; where French agrees with the noun, (masculine, feminine).
DETERMINERS = {"the": ("le", "la"), "a": ("un", "une"), "this": ("ce", "cette"), "my": ("mon", "ma")}
SIZES = {"big": ("grand", "grande"), "small": ("petit", "petite"), "pretty": ("joli", "jolie")}
COLOURS = {"black": ("noir", "noire"), "white": ("blanc", "blanche"), "green": ("vert", "verte"),
           "grey": ("gris", "grise"), "blue": ("bleu", "bleue"), "brown": ("brun", "brune")}
MASCULINE = {"cat": "chat", "dog": "chien", "horse": "cheval", "rabbit": "lapin", "wolf": "loup", "sheep": "mouton"}
FEMININE = {"cow": "vache", "mouse": "souris", "goat": "chèvre", "hen": "poule", "frog": "grenouille", "turtle": "tortue"}
VERBS = {"sees": "voit", "hears": "entend", "follows": "suit", "finds": "trouve", "likes": "aime", "draws": "dessine"}
ADVERBS = {"often": "souvent", "always": "toujours", "rarely": "rarement", "sometimes": "parfois"}
NOUNS = {**MASCULINE, **FEMININE}
# Each noun has one colour with which it never appears in training: whoever translates these has aligned, not remembered.
HELD_OUT = {(list(COLOURS)[i % len(COLOURS)], noun) for i, noun in enumerate(NOUNS)}

PAD, BOS, EOS = "<pad>", "<bos>", "<eos>"
PAD_ID, BOS_ID, EOS_ID = range(3)


class Pair(NamedTuple):
    """A sentence in both languages, as lists of tokens; alignment[t] is the index of the English token that says
    what French token t says. Both sentences end with <eos>, and these two belong together."""
    english: list
    french: list
    alignment: list


class Vocabulary:
    """Tokens to numbers and back. 0, 1, 2 are <pad>, <bos>, <eos>."""
    def __init__(self, tokens):
        self.tokens = [PAD, BOS, EOS, *tokens]
        self.index = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self):
        return len(self.tokens)

    def to_ids(self, sentence):
        check_words("sentence", sentence)
        unknown = [token for token in sentence if token not in self.index]
        if unknown:
            raise ValueError(f"the model has never seen {unknown}; it knows {' '.join(self.tokens[3:])}")
        return [self.index[token] for token in sentence]

    def to_tokens(self, ids):
        numbers = torch.as_tensor(ids)
        if numbers.is_floating_point() or numbers.ndim != 1 or ((numbers < 0) | (numbers >= len(self))).any():
            raise ValueError(f"ids must be a row of whole numbers from 0 to {len(self) - 1}, the size of this vocabulary; got {ids}")
        return [self.tokens[i] for i in numbers.tolist()]


def _forms(words):
    return [form for forms in words.values() for form in ([forms] if isinstance(forms, str) else forms)]


_KINDS = (DETERMINERS, SIZES, COLOURS, NOUNS, ADVERBS, VERBS)
ENGLISH = Vocabulary([word for kind in _KINDS for word in kind])
FRENCH = Vocabulary([form for kind in _KINDS for form in _forms(kind)])


def make_pairs(n, seed, held_out=False, exclude=()):
    """Draw n different sentence pairs.

    held_out: False avoids the colour-noun pairs in HELD_OUT, True has one in every sentence.
    exclude: pairs of which none is drawn again, such as those trained on.
    """
    check_sizes(least=0, n=n, seed=seed)
    if exclude:
        check_pairs_given(exclude)
    rng = random.Random(seed)
    seen = {tuple(pair.english) for pair in exclude}
    pairs = []
    while len(pairs) < n:
        english = [*_noun_phrase(rng), *_maybe(rng, ADVERBS), rng.choice(list(VERBS)), *_noun_phrase(rng)]
        new = any(phrase in HELD_OUT for phrase in zip(english, english[1:]))
        if new == held_out and (*english, EOS) not in seen:
            pairs.append(translate_by_rule(english))
            seen.add(tuple(pairs[-1].english))
    return pairs


def _maybe(rng, words):
    return [rng.choice(list(words))] if rng.random() < 0.5 else []


def _noun_phrase(rng):
    return [rng.choice(list(DETERMINERS)), *_maybe(rng, SIZES), *_maybe(rng, COLOURS), rng.choice(list(NOUNS))]


def translate_by_rule(english):
    """The Pair of an English sentence of this grammar: French order, French gender, and who stands for whom."""
    check_words("english", english)
    words = {**DETERMINERS, **SIZES, **COLOURS, **NOUNS, **VERBS, **ADVERBS}
    unknown = [word for word in english if word not in words]
    if unknown or not english or english[-1] not in NOUNS:
        raise ValueError(f"english must be a sentence of this grammar, which ends with a noun; got {' '.join(english)!r}" +
                         (f", where {unknown} are no words of it" if unknown else ""))
    order, phrase = [], []                                               # order: English positions in French order
    for i, word in enumerate(english):
        if word in NOUNS:
            colours = [j for j in phrase if english[j] in COLOURS]
            order += [j for j in phrase if j not in colours] + [i] + colours
            phrase = []
        elif word in VERBS:
            order += [i] + phrase                                        # what has gathered is the adverb
            phrase = []
        else:
            phrase.append(i)
    gender = {}                                                          # of the noun that ends each word's phrase
    for i in reversed(range(len(english))):
        noun = english[i] if english[i] in NOUNS else noun
        gender[i] = int(noun in FEMININE)
    forms = [words[english[i]] for i in order]
    french = [form if isinstance(form, str) else form[gender[i]] for i, form in zip(order, forms)]
    return Pair([*english, EOS], [*french, EOS], [*order, len(english)])


def to_batch(pairs, device=None):
    """Pairs as tensors: English ids (batch, n), their lengths (batch,), French ids (batch, m); filled up with <pad>."""
    check_pairs_given(pairs)
    english = [ENGLISH.to_ids(pair.english) for pair in pairs]
    french = [FRENCH.to_ids(pair.french) for pair in pairs]
    lens = torch.tensor([len(ids) for ids in english], device=device)
    return _filled(english, device), lens, _filled(french, device)


def shuffled_batches(pairs, batch_size, device=None):
    """Batches without end: all pairs in random order, then all of them again in another."""
    check_pairs_given(pairs)
    check_sizes(batch_size=batch_size)

    def endless():
        while True:
            for chosen in torch.randperm(len(pairs)).split(batch_size):
                yield to_batch([pairs[i] for i in chosen], device)
    return endless()


def check_pairs_given(pairs):
    """Refuse what is not a list of at least one Pair."""
    if not isinstance(pairs, (list, tuple)) or not pairs or not all(isinstance(pair, Pair) for pair in pairs):
        raise ValueError("pairs must be a list of at least one Pair, as make_pairs and translate_by_rule give them; got "
                         f"{pairs!r:.200}")


def _filled(rows, device):
    width = max(map(len, rows))
    return torch.tensor([row + [PAD_ID] * (width - len(row)) for row in rows], device=device)
