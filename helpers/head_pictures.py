"""Where transpose_qkv and transpose_output put the numbers, drawn from real tensors."""
import matplotlib
import numpy as np
import seaborn

from helpers.figures import new_figure, show, to_array
from helpers.guards import check_sizes


def show_by_head(matrices, titles, num_hiddens, num_heads, row="token"):
    """Show matrices of whole numbers side by side, each number on the colour of the head to which it belongs.

    matrices: (n, width) each, with numbers from torch.arange(...).reshape(1, n, num_hiddens), in whatever order they
    have got into. There, number v stands in column v % num_hiddens, so that is how its head is known.
    """
    check_sizes(num_hiddens=num_hiddens, num_heads=num_heads)
    if num_hiddens % num_heads:
        raise ValueError(f"num_hiddens {num_hiddens} must be a multiple of num_heads {num_heads}")
    matrices = [to_array(matrix, "matrices") for matrix in matrices]
    for matrix in matrices:
        if matrix.ndim != 2 or not matrix.size or matrix.min() < 0 or (matrix % 1).any():
            raise ValueError("matrices must be a list of matrices (n, width) of whole numbers from 0, such as [X[0]] for X of "
                             f"torch.arange(...).reshape(1, n, num_hiddens); got one of shape {matrix.shape}")
    if isinstance(titles, str) or len(titles) != len(matrices) or not matrices:
        raise ValueError(f"titles must be a list of {len(matrices)}, one for each of the matrices; got {titles!r}")
    highest = int(max(matrix.max() for matrix in matrices))
    palette = seaborn.color_palette("colorblind", num_heads)
    head_of = (np.arange(highest + 1) % num_hiddens) // (num_hiddens // num_heads)
    by_head = f"by head {' '.join(map(str, head_of[:num_hiddens]))} and so on"
    colours = matplotlib.colors.ListedColormap([palette[head] for head in head_of], name=by_head)
    widths = [matrix.shape[1] for matrix in matrices]
    figure = new_figure((0.55 * sum(widths) + 1.1 * len(widths), 0.5 * len(matrices[0]) + 0.7))
    axes = figure.subplots(1, len(matrices), squeeze=False, width_ratios=widths)[0]
    for ax, matrix, title in zip(axes, matrices, titles):
        ax.imshow(matrix, cmap=colours, vmin=0, vmax=highest, alpha=0.6)
        for (i, j), number in np.ndenumerate(matrix):
            ax.text(j, i, f"{number:.0f}", ha="center", va="center", fontsize=11)
        ax.set_xticks(range(matrix.shape[1]))
        ax.set_yticks(range(len(matrix)), [f"{row} {i}" for i in range(len(matrix))])
        ax.tick_params(length=0, labelsize=8)
        ax.set_title(title, fontsize=10)
        ax.spines[:].set_visible(False)
    show(figure, digits=0, rows=[])
