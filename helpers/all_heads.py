"""All heads of a model in one picture, and the picture in words."""
import numpy as np

from helpers.descriptions import rounded
from helpers.figures import bundle, new_figure, present, to_array
from helpers.guards import check_words


def show_all_heads(weights, tokens):
    """Show the weights of all heads as small heatmaps: a row for each layer, a column for each head.

    weights: (layers, heads, n, n), of one sentence. tokens: its n tokens.
    The description names for each head its strongest pattern: the key at a fixed distance, or the one token, with the
    highest mean weight, read back from the picture.
    """
    figure = draw_all_heads(weights, tokens)
    present(*bundle(figure, describe_all_heads(figure)))


def draw_all_heads(weights, tokens):
    """Like show_all_heads, but return the matplotlib Figure without showing it."""
    weights = to_array(weights, "weights")
    if weights.ndim != 4 or weights.shape[2] != weights.shape[3] or 0 in weights.shape:
        raise ValueError(f"weights must be (layers, heads, n, n), those of one sentence; got shape {weights.shape}")
    check_words("tokens", tokens)
    if len(tokens) != weights.shape[3]:
        raise ValueError(f"tokens must be {weights.shape[3]}, one for each key; got {len(tokens)}")
    if not np.isfinite(weights).all():
        raise ValueError("weights hold values that are nan or infinite")
    layers, heads, n, _ = weights.shape
    step = n + 1                                                         # one empty line between two heads
    picture = np.full((layers * step - 1, heads * step - 1), np.nan)
    for layer in range(layers):
        for head in range(heads):
            picture[layer * step:layer * step + n, head * step:head * step + n] = weights[layer, head]
    figure = new_figure((min(11, 0.85 * heads + 1.2), min(7, 0.85 * layers + 0.8)))
    ax = figure.subplots()
    image = ax.imshow(picture, cmap="Reds", vmin=0, vmax=1, interpolation="nearest")
    ax.set_facecolor("0.75")
    ax.set_xticks([head * step + (n - 1) / 2 for head in range(heads)], [str(head) for head in range(heads)])
    ax.set_yticks([layer * step + (n - 1) / 2 for layer in range(layers)], [str(layer) for layer in range(layers)])
    ax.tick_params(length=0, labelsize=9)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="Head", ylabel="Layer")
    ax.set_title(" ".join(tokens), fontsize=10, parse_math=False)        # a token may hold dollar signs
    figure.colorbar(image, ax=ax, shrink=0.8, aspect=25)
    return figure


def describe_all_heads(figure):
    """The picture of draw_all_heads in words, read back from what was drawn."""
    ax = figure.axes[0]
    picture = np.ma.masked_invalid(ax.images[0].get_array()).filled(np.nan)
    tokens = ax.get_title().split(" ")
    n = len(tokens)
    layers, heads = ((size + 1) // (n + 1) for size in picture.shape)
    lines = [f"picture of {layers} x {heads} heatmaps, {n} x {n} each, down {ax.get_ylabel()}, across {ax.get_xlabel()}; "
             f"colours {ax.images[0].get_cmap().name} from 0 to 1; tokens {' | '.join(tokens)}; each head's strongest pattern:"]
    for layer in range(layers):
        found = []
        for head in range(heads):
            matrix = picture[layer * (n + 1):, head * (n + 1):][:n, :n]
            found.append(f"{head} {_strongest(matrix, tokens)}")
        lines.append(f"  layer {layer}: " + ", ".join(found))
    return "\n".join(lines)


def _strongest(matrix, tokens):
    named = {"previous": np.diagonal(matrix, -1).mean(), "itself": np.diagonal(matrix).mean(),
             "next": np.diagonal(matrix, 1).mean()} if len(tokens) > 1 else {}
    for token, column in zip(tokens, matrix.T):
        named[token] = max(column.mean(), named.get(token, 0))
    values = rounded(list(named.values()), 2)                            # the first of equals, on every machine
    return f"{list(named)[values.argmax()]} {values.max():.2f}"
