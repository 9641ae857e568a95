"""The attention explorer: a heatmap that answers to pointer, touch and keyboard, with no server behind it.

It is two outputs. The first is a heatmap like every figure of the course, a PNG with its description. The second is the
text of explorer.html, the same for every call, so that nbval can compare it although trained weights differ between machines:
the numbers travel inside the PNG, in a text chunk, where the script of explorer.html finds them. Where scripts run, the
explorer takes the picture's place, without a kernel and without a request. Where they do not (an untrusted notebook, GitHub, PDF),
the second output shows nothing, and the picture stands.
"""
import base64
import html
import io
import json
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from helpers import course
from helpers.attention import masked_softmax
from helpers.descriptions import describe, rounded
from helpers.figures import allowed_cells, bundle, draw_heatmaps, present, to_array
from helpers.guards import check_sizes

MOST_TOKENS = 64                                                         # more would be too small to point at
MOST_MAPS = 8                                                            # in the static picture


def explore(weights, tokens, key_tokens=None, *, scores=None, mask=None, d=None, head_names=None, start=(0, 0),
            xlabel="Keys", ylabel="Queries", figsize=None, digits=2, rows=None):
    """Show attention weights as a heatmap to explore: point at a token and see where it looks.

    weights: (queries, keys), (heads, queries, keys) or (layers, heads, queries, keys), of one example, such as
        attention.attention_weights[0]. Tensors of any device and type, or arrays.
    tokens: a token for each query, and for each key as well unless key_tokens are given (cross-attention).
    scores: what the softmax was taken of, in weights' shape: scaled, not masked. With them come a slider for the
        temperature, with mask a switch for the mask, and with d, the width of queries and keys, a switch for the root of d.
    mask: True or 1 = may attend; broadcasts to weights. head_names: a name for each head.
    start: the layer and the head shown first. The static picture has all maps, or this one where there are more than 8.
    xlabel, ylabel, figsize, digits, rows: see show_heatmaps; digits=None for weights of a trained model.
    """
    maps, allowed, numbers = _numbers(weights, tokens, key_tokens, scores, mask, d, head_names, start, xlabel, ylabel)
    figure = _static(maps, allowed, numbers, figsize)
    picture, metadata = bundle(figure, describe(figure, digits, rows))
    picture["image/png"] = _with_numbers(picture["image/png"], numbers)
    present(picture, metadata)
    present({"text/html": page(numbers if "google.colab" in sys.modules else None)})


def page(numbers=None):
    """explorer.html in the notebook's language.

    numbers: written into the page as well. Only Colab needs that: there each output may have a frame of its own, from
    which the picture cannot be seen.
    """
    embedded = "" if numbers is None else f' data-numbers="{html.escape(json.dumps(numbers))}"'
    return _page().replace(' lang="en"', f' lang="{course.language}"{embedded}')


@cache
def _page():
    text = (Path(__file__).parent / "explorer.html").read_text(encoding="utf-8")
    return re.sub(r"\n\s*", "\n", text)                                  # a tenth less to store in each notebook


def _with_numbers(png, numbers):
    """The picture, in base64, with the numbers in a text chunk."""
    chunk, written = PngInfo(), io.BytesIO()
    chunk.add_text("attention", json.dumps(numbers, separators=(",", ":")))
    Image.open(io.BytesIO(base64.b64decode(png))).save(written, format="png", optimize=True, pnginfo=chunk)
    return base64.b64encode(written.getvalue()).decode()


# ------------------------------------------------------------------ the static picture, and the numbers for the script
def _numbers(weights, tokens, key_tokens, scores, mask, d, head_names, start, xlabel, ylabel):
    """Weights and mask as (layers, heads, queries, keys), and all that the script needs, checked."""
    maps = _maps("weights", weights)
    layers, heads, n_queries, n_keys = maps.shape
    queries = _tokens("tokens", tokens, n_queries, "queries")
    if key_tokens is None and n_keys != n_queries:
        raise ValueError(f"key_tokens must be {n_keys} tokens, one for each key, as there are {n_queries} queries; got None")
    keys = queries if key_tokens is None else _tokens("key_tokens", key_tokens, n_keys, "keys")
    names = [None] * heads if head_names is None else _tokens("head_names", head_names, heads, "heads")
    layer, head = _check_start(start, layers, heads)
    if d is not None:
        check_sizes(d=d)
    allowed = None if mask is None else _mask(mask, maps.shape)
    _check_rows(maps, queries)
    numbers = {"queries": queries, "keys": keys, "xlabel": str(xlabel), "ylabel": str(ylabel), "layers": layers,
               "heads": names, "start": layer * heads + head, "d": d}
    if allowed is not None:
        numbers["mask"] = "".join("1" if yes else "0" for yes in allowed.flat)
    if scores is None:
        numbers["weights"] = (rounded(maps, 3) * 1000).round().astype(int).ravel().tolist()     # short in JSON
    else:
        numbers["scores"] = rounded(_scores(scores, maps, allowed), 3).ravel().tolist()
    return maps, allowed, numbers


def _static(maps, allowed, numbers, figsize):
    """The heatmaps for where no script runs: all maps, or the first one shown where they are too many."""
    layers, heads = maps.shape[:2]
    titles = [f"layer {layer}, " * (layers > 1) + (name or f"head {head}")
              for layer in range(layers) for head, name in enumerate(numbers["heads"])]
    shown = range(layers * heads)
    if len(shown) > MOST_MAPS:
        shown = [numbers["start"]]
    across = heads // 2 if layers == 1 and heads > 3 and heads % 2 == 0 else min(heads, len(shown))
    grid = maps.shape[2:]
    maps, allowed = (part if part is None else part.reshape(-1, *grid)[shown].reshape(-1, across, *grid)
                     for part in (maps, allowed))
    return draw_heatmaps(maps, numbers["xlabel"], numbers["ylabel"], figsize=figsize, mask=allowed,
                         titles=None if layers * heads == 1 else [titles[i] for i in shown],
                         query_labels=numbers["queries"], key_labels=numbers["keys"])


# ------------------------------------------------------------------ wrong input, refused by name
def _maps(name, values):
    array = to_array(values, name)
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ValueError(f"{name} must be (queries, keys), (heads, queries, keys) or (layers, heads, queries, keys), none of "
                         f"them 0, of one example, such as attention_weights[0]; got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} hold {int((~np.isfinite(array)).sum())} values that are nan or infinite")
    if max(array.shape[-2:]) > MOST_TOKENS:
        raise ValueError(f"{name} must have at most {MOST_TOKENS} queries and keys, or nothing can be pointed at; got shape "
                         f"{array.shape}: cut out a part, such as {name}[..., :{MOST_TOKENS}, :{MOST_TOKENS}]")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _check_rows(maps, queries):
    sums = maps.sum(-1)
    wrong = (np.abs(sums - 1) > 0.02) & (sums != 0) | (maps < 0).any(-1)  # 0.02: bfloat16 has three digits
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        raise ValueError("each row of weights must be numbers from 0 on that sum to 1 (or to 0, where all keys are masked); that of "
                         f"query {queries[at[-1]]!r} sums to {sums[at]:.3f}. Scores are passed as scores=, their softmax as weights")


def _tokens(name, tokens, n, axis):
    if isinstance(tokens, (str, bytes)) or not hasattr(tokens, "__iter__"):
        raise ValueError(f"{name} must be a list of {n}, one for each of the {axis}; got {tokens!r:.200}")
    tokens = [str(token) for token in tokens]
    if len(tokens) != n:
        raise ValueError(f"{name} must be {n}, one for each of the {axis}; got {len(tokens)}: {tokens!r:.200}")
    return tokens


def _check_start(start, layers, heads):
    if not isinstance(start, (list, tuple)) or len(start) != 2 or not all(
            isinstance(i, int) and 0 <= i < n for i, n in zip(start, (layers, heads))):
        raise ValueError(f"start must be (layer, head), from (0, 0) to ({layers - 1}, {heads - 1}); got {start!r}")
    return start


def _mask(mask, shape):
    allowed = to_array(mask, "mask")
    return allowed_cells(allowed, shape, f"mask {allowed.shape} does not broadcast to weights (layers, heads, queries, keys) = {shape}")


def _scores(scores, maps, allowed):
    """The scores, if weights are their softmax: else the first picture and the first move of the slider would disagree."""
    scores = _maps("scores", scores)
    if scores.shape != maps.shape:
        raise ValueError(f"scores must have weights' shape, {maps.shape} with an axis for layers and heads; got {scores.shape}")
    again = masked_softmax(torch.from_numpy(scores), mask=None if allowed is None else torch.from_numpy(allowed.copy()))
    furthest = np.abs(again.numpy() - maps).max()
    if furthest > 0.02:
        raise ValueError(f"weights must be the softmax of scores where mask allows; they differ by up to {furthest:.3f}. Pass scores "
                         "as the softmax gets them, divided by the root of d, and the mask that was used as mask=")
    return scores
