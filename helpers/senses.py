"""A toy corpus in which a word has two senses: 苹果 is a fruit in one sentence and a company in the next.

All senses share the same frames and function words, so only the cue words (好吃 tasty, 发布 released) give a sense away.
"""
import random
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from helpers.self_attention import SelfAttention

SENSES = ("食物 food", "公司 company", "不明 unclear")
FOOD, COMPANY, UNCLEAR = range(3)

# As food, and as a company: Apple, Xiaomi, BlackBerry. Among neutral words they are unclear.
AMBIGUOUS = {"苹果": "apple", "小米": "millet", "黑莓": "blackberry"}
NOUNS = {FOOD: {"香蕉": "banana", "葡萄": "grape", "西瓜": "melon", "草莓": "strawberry", "土豆": "potato", "玉米": "maize"},
         COMPANY: {"华为": "Huawei", "腾讯": "Tencent", "百度": "Baidu", "联想": "Lenovo", "京东": "JD", "索尼": "Sony"},
         UNCLEAR: AMBIGUOUS}
# The frames that all senses share. N is the noun, P a person, the other capitals are cues.
FRAMES = (("N", "V", "了", "新", "的", "O"), ("N", "很", "A"), ("P", "T", "了", "N"))
PEOPLE = {"我": "I", "他": "he", "她": "she", "小明": "Xiao Ming"}
FUNCTION_WORDS = {"了": "(done)", "新": "new", "的": "(of)", "很": "very"}
CUES = {FOOD: {"V": {"长出": "grew", "结出": "bore", "冒出": "sprouted"},
               "O": {"果实": "fruit", "叶子": "leaves", "嫩芽": "buds"},
               "A": {"好吃": "tasty", "新鲜": "fresh", "香甜": "sweet"}, "T": {"吃": "ate", "洗": "washed", "切": "cut"}},
        COMPANY: {"V": {"发布": "released", "推出": "launched", "研发": "developed"},
                  "O": {"产品": "product", "手机": "phone", "软件": "software"},
                  "A": {"赚钱": "profitable", "创新": "inventive", "强大": "powerful"},
                  "T": {"投资": "funded", "收购": "bought", "起诉": "sued"}},
        UNCLEAR: {"V": {"有": "has", "得到": "got", "换": "changed"},
                  "O": {"名字": "name", "照片": "photo", "颜色": "colour"},
                  "A": {"好": "good", "有名": "famous", "特别": "special"},
                  "T": {"看到": "saw", "提到": "mentioned", "想到": "recalled"}}}
_SLOTS = [slot for slots in CUES.values() for slot in slots.values()]
WORDS = {word: gloss for group in (*NOUNS.values(), PEOPLE, FUNCTION_WORDS, *_SLOTS) for word, gloss in group.items()}
TOKENS = ["<pad>", *WORDS]
INDEX = {token: i for i, token in enumerate(TOKENS)}
OTHER_GLOSSES = {"在": "at", "北京": "Beijing", "大学": "university", "北京大学": "Peking University", "学习": "studies",
                 "人工智能": "AI"}

# Pairs that occur in the test only, a third for each noun; 苹果 with 发布, 产品 and 好吃 among them.
HELD_OUT = {(noun, cue) for nouns in NOUNS.values() for i, noun in enumerate(nouns)
            for slot in _SLOTS for j, cue in enumerate(slot) if (i + j) % 3 == 0}


class Sentence(NamedTuple):
    """tokens: a list of words. noun, cues: where the noun and its cue words stand. sense: an index into SENSES."""
    tokens: list
    noun: int
    cues: list
    sense: int


def make_sentences(n, seed, held_out=False):
    """Draw n sentences, which may repeat. held_out: False avoids the pairs in HELD_OUT, True uses no others.

    Frame and sense are drawn independently of each other, so a frame says nothing about the sense.
    """
    rng = random.Random(seed)
    sentences = []
    for _ in range(n):
        kind = rng.choice((FOOD, COMPANY, UNCLEAR))                      # of the noun; UNCLEAR are the ambiguous ones
        noun = rng.choice(list(NOUNS[kind]))
        context = rng.choice((FOOD, COMPANY, UNCLEAR) if kind == UNCLEAR else (kind, UNCLEAR))
        frame = rng.choice(FRAMES)
        cues = [i for i, slot in enumerate(frame) if slot in CUES[context]]
        tokens = [noun if slot == "N" else rng.choice(list(PEOPLE)) if slot == "P" else slot for slot in frame]
        for i in cues:
            tokens[i] = rng.choice([cue for cue in CUES[context][frame[i]] if ((noun, cue) in HELD_OUT) == held_out])
        sentences.append(Sentence(tokens, frame.index("N"), cues, context if kind == UNCLEAR else kind))
    return sentences


def to_ids(sentences, device=None):
    """Lists of tokens as ids (batch, n), filled up with <pad>, and their lengths (batch,)."""
    unknown = sorted({token for tokens in sentences for token in tokens} - set(INDEX))
    if unknown:
        raise ValueError(f"the model has never seen {unknown}; it knows {' '.join(TOKENS[1:])}")
    width = max(map(len, sentences))
    ids = [[INDEX[token] for token in tokens] + [0] * (width - len(tokens)) for tokens in sentences]
    return torch.tensor(ids, device=device), torch.tensor([len(tokens) for tokens in sentences], device=device)


def gloss(tokens):
    """The tokens of a sentence, each with its English meaning."""
    glosses = {**WORDS, **OTHER_GLOSSES}
    return " | ".join(f"{token} {glosses[token]}" for token in tokens)


class SenseModel(nn.Module):
    """Scores the senses of each word: embedding, one head of self-attention, sum, read-out.

    It knows nothing of the order of words.
    ids: (batch, n); valid_lens and mask as in attend_mask.
    states: what each word has become, (batch, n, num_hiddens).
    forward: a score for each of the senses, (batch, n, senses).
    """
    def __init__(self, vocab_size, num_hiddens=32, dropout=0.5):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, num_hiddens)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.dropout = nn.Dropout(dropout)
        self.attention = SelfAttention(num_hiddens, num_hiddens, num_hiddens, dropout=0.0)
        self.read_out = nn.Linear(num_hiddens, len(SENSES))

    def states(self, ids, valid_lens=None, mask=None):
        X = self.dropout(self.embedding(ids))                        # (batch, n, num_hiddens)
        return X + self.attention(X, valid_lens, mask)               # (batch, n, num_hiddens)

    def forward(self, ids, valid_lens=None, mask=None):
        return self.read_out(self.states(ids, valid_lens, mask))     # (batch, n, senses)


def sense_batches(sentences, batch_size, device=None):
    """Batches without end, in random order: ids (batch, n), lengths, the noun's position and its sense (batch,)."""
    ids, lens = to_ids([sentence.tokens for sentence in sentences], device)
    nouns = torch.tensor([sentence.noun for sentence in sentences], device=device)
    senses = torch.tensor([sentence.sense for sentence in sentences], device=device)
    while True:
        for chosen in torch.randperm(len(sentences)).split(batch_size):
            chosen = chosen.to(ids.device)
            yield ids[chosen], lens[chosen], nouns[chosen], senses[chosen]


def sense_loss(model, batch, mask=None):
    """Mean cross-entropy of the sense, read at the noun."""
    ids, lens, nouns, senses = batch
    scores = model(ids, lens, mask)                                      # (batch, n, senses)
    return F.cross_entropy(scores[torch.arange(len(ids), device=ids.device), nouns], senses)


@torch.no_grad()
def read_nouns(model, sentences, device=None, mask=None):
    """What the model makes of the noun of each sentence, on the CPU.

    Returns the sense (batch,), the state (batch, num_hiddens) and the row of attention weights (batch, n) of the noun.
    """
    ids, lens = to_ids([sentence.tokens for sentence in sentences], device)
    states = model.states(ids, lens, mask)
    batch = torch.arange(len(sentences))
    nouns = torch.tensor([sentence.noun for sentence in sentences])
    return (model.read_out(states).cpu()[batch, nouns].argmax(dim=-1), states.cpu()[batch, nouns],
            model.attention.attention_weights.cpu()[batch, nouns])
