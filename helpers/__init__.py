"""What the lessons import: the #@save classes, figures, toy data, the training loop and exercise checks."""
from helpers.all_heads import draw_all_heads, show_all_heads
from helpers.attention import AdditiveAttention, Attention, DotProductAttention, attend_mask, masked_softmax
from helpers.costs import (count_flops, dependence, fit_exponents, four_layers, longest_chain, measure_growth, path_length,
                           peak_bytes, seconds, show_growth, show_times)
from helpers.descriptions import describe
from helpers.device import try_gpu
from helpers.explorer import explore
from helpers.figures import draw_heatmaps, plot, show, show_heatmaps
from helpers.graphs import show_graphs
from helpers.head_pictures import show_by_head
from helpers.knobs import knob
from helpers.multihead import MultiHeadAttention, fused_attention, softmax_in_place, transpose_output, transpose_qkv
from helpers.order import OrderModel
from helpers.patterns import block_score, diagonal_score, pattern_scores, vertical_score
from helpers.positions import (ALiBiAttention, LearnedPositionalEncoding, PositionalEncoding, RotaryAttention,
                               alibi_slopes, position_angles, rotate)
from helpers.queues import Answerer, grade_answers, look_shares, without_head
from helpers.self_attention import SelfAttention
from helpers.senses import SenseModel
from helpers.seq2seq import Encoder, Translator, grade_translations, translate, translation_loss
from helpers.training import train
from helpers.transformer import MiniLM, TransformerBlock, read_sentences, parameter_names


OF_PARALLEL = ("Traffic", "on_devices", "split_block", "split_heads")


def __getattr__(name):                                                   # each a second to import: only when asked for
    if name == "d2l":
        from helpers.book import load_d2l
        return load_d2l()
    if name in OF_PARALLEL:
        from helpers import parallel
        return getattr(parallel, name)
    raise AttributeError(f"module 'helpers' has no attribute {name!r}")
