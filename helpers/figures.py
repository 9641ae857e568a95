"""The course's figures: heatmaps and curves, shown together with a description of what was drawn."""
import base64
import io
import math

import matplotlib
import numpy as np
import seaborn
import torch
from matplotlib.figure import Figure
from PIL import Image

from helpers import fonts
from helpers.descriptions import describe, rounded
from helpers.guards import check_number, what

PIXELS_PER_INCH = 100   # on the page; the picture itself has twice as many, for dense screens


def show_heatmaps(matrices, xlabel, ylabel, titles=None, figsize=None, cmap="Reds", *, key_labels=None,
                  query_labels=None, mask=None, annot=None, vmin=None, vmax=None, digits=2, rows=None):
    """Show matrices as a grid of heatmaps: queries down, keys across, one colour scale for all of them.

    matrices: (rows of the grid, columns of the grid, queries, keys), as Dive into Deep Learning has it; (n, queries,
        keys) for one row of n heatmaps, (queries, keys) for one. Tensors of any device and type, or arrays.
    xlabel, ylabel: what the keys and the queries are. titles: one for each column, or one for each heatmap.
    key_labels, query_labels: a token for each column and row; a list of such lists where the heatmaps differ.
    mask: True or 1 = may attend; broadcasts to matrices. What is masked is hatched, not coloured.
    annot: write the values into the cells; None does so where there is room.
    vmin, vmax: ends of the colour scale; None takes 0 (or the lowest value, if negative) and the highest value.
    digits, rows: what the description says, see helpers.describe; digits=None for weights of a trained model.
    Source: the function of the same name in Dive into Deep Learning, section 10.1.
    """
    show(draw_heatmaps(matrices, xlabel, ylabel, titles, figsize, cmap, key_labels=key_labels, mask=mask, vmin=vmin,
                       query_labels=query_labels, annot=annot, vmax=vmax), digits, rows)


def draw_heatmaps(matrices, xlabel, ylabel, titles=None, figsize=None, cmap="Reds", *, key_labels=None,
                  query_labels=None, mask=None, annot=None, vmin=None, vmax=None):
    """Like show_heatmaps, but return the matplotlib Figure without showing it."""
    grid = _grid(matrices, "matrices")
    n_down, n_across, n_queries, n_keys = grid.shape
    if mask is not None:
        hidden = ~allowed_cells(_grid(mask, "mask"), grid.shape,
                                f"mask {_shape(mask)} does not broadcast to matrices {_shape(matrices)}")
        grid = np.ma.array(grid, mask=hidden)
    shown = np.ma.compressed(grid)
    if not np.isfinite(shown).all():
        raise ValueError(f"matrices hold {int((~np.isfinite(shown)).sum())} values that are nan or infinite where nothing is "
                         "masked; was a row filled with -inf only?")
    queries = _panel_labels(query_labels, n_queries, n_down * n_across, "query_labels", "rows")
    keys = _panel_labels(key_labels, n_keys, n_down * n_across, "key_labels", "columns")
    titles = _panel_titles(titles, n_down, n_across)
    vmin, vmax = (end.item() if isinstance(end, torch.Tensor) and end.numel() == 1 else end for end in (vmin, vmax))
    _check_colours(cmap, vmin, vmax)
    # One scale for all panels: with a scale each, the colour bar would be wrong for all but the last.
    vmin = min(0.0, float(shown.min(initial=0.0))) if vmin is None else vmin
    vmax = float(shown.max()) if vmax is None and shown.size else 1.0 if vmax is None else vmax
    if vmin == vmax:                                                     # one value only: matplotlib would take the middle colour
        vmax = vmin + 1.0
    if vmin > vmax:
        raise ValueError(f"the colour scale must not end below its start: vmin {vmin:g}, vmax {vmax:g}; give both, or neither")
    if annot is None:
        annot = n_queries * n_keys <= 36 and n_down * n_across <= 2
    figure = new_figure(figsize or _figsize(grid.shape, queries[0], keys[0], annot))
    literally = {"text.parse_math": False}                               # a token may hold dollar signs; a title, formulas
    with matplotlib.rc_context(literally):
        axes = figure.subplots(n_down, n_across, squeeze=False)
    for panel, ax in enumerate(axes.flat):
        matrix = grid[panel // n_across, panel % n_across]
        written = rounded(np.ma.filled(matrix, 0), 2)                    # the digits that the description has
        ax.set_facecolor("0.93")
        ax.patch.set(hatch="////", edgecolor="0.7")                     # shows wherever a cell is masked
        with matplotlib.rc_context(literally):
            seaborn.heatmap(np.ma.filled(matrix, np.nan), mask=np.ma.getmaskarray(matrix), ax=ax, cmap=cmap, vmin=vmin,
                            vmax=vmax, cbar=False, annot=written if annot else False, fmt=".2f", annot_kws={"size": 8},
                            linewidths=0.5, linecolor="white", xticklabels=keys[panel], yticklabels=queries[panel])
        ax.set_title(titles[panel], fontsize=10)
        ax.tick_params(labelsize=9, length=0)
        if max(map(len, keys[panel])) > 2:                               # slanted, each label ending at its own column
            for label in ax.get_xticklabels():
                label.set(rotation=45, ha="right", rotation_mode="anchor")
        else:
            ax.tick_params(axis="x", rotation=0)
        ax.tick_params(axis="y", rotation=0)
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
            text.set_parse_math(True)
        if ax.get_subplotspec().is_last_row():
            ax.set_xlabel(xlabel)
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(ylabel)
    figure.colorbar(axes[0, 0].collections[0], ax=axes, shrink=0.8, aspect=15)
    return figure


def plot(X, Y=None, xlabel="", ylabel="", legend=None, xscale="linear", yscale="linear", figsize=(4.5, 3), *,
         markers="", digits=2, rows=None):
    """Show curves. X: x values, or a list of them, one for each curve. Y: likewise; without Y, X are the y values.

    legend: a name for each curve. digits, rows: see helpers.describe; None and [] where curves differ between machines.
    """
    curves = _curves(X if Y is None else Y, "X" if Y is None else "Y")
    xs = [range(len(curve)) for curve in curves] if Y is None else _curves(X, "X")
    if len(xs) not in (1, len(curves)):
        raise ValueError(f"X holds {len(xs)} sets of x values for {len(curves)} curves; give one, or one for each")
    for i, curve in enumerate(curves):
        if len(xs[i % len(xs)]) != len(curve):
            raise ValueError(f"X has {len(xs[i % len(xs)])} x values for a curve of {len(curve)}; both need the same number")
    legend = [legend] if isinstance(legend, str) else legend
    names = [None] * len(curves) if legend is None else _listed("legend", legend)
    if len(names) != len(curves):
        raise ValueError(f"legend has {len(names)} names for {len(curves)} curves")
    for name, scale in (("xscale", xscale), ("yscale", yscale)):
        if scale not in ("linear", "log"):
            raise ValueError(f'{name} must be "linear" or "log"; got {scale!r}')
        lowest = min(min(values) for values in (xs if name == "xscale" else curves))
        if scale == "log" and lowest <= 0:
            raise ValueError(f"{name} is logarithmic, where {lowest:g} has no place; all values must be above 0")
    if not isinstance(markers, str) or markers not in matplotlib.markers.MarkerStyle.markers:
        raise ValueError(f'markers must be a marker of matplotlib, such as "o", "s" or "" for none; got {markers!r}')
    figure = new_figure(figsize)
    ax = figure.subplots()
    for i, (curve, name) in enumerate(zip(curves, names)):
        # Line style and colour both change, so that curves are told apart without colour too.
        ax.plot(xs[i % len(xs)], curve, label=name, linestyle=("-", "--", "-.", ":")[i % 4], marker=markers,
                color=seaborn.color_palette("colorblind")[i % 10])
    ax.set(xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale)
    ax.grid(alpha=0.3)
    if legend is not None:
        ax.legend(fontsize=9)
    show(figure, digits, rows)


def new_figure(figsize):
    """A Figure that does not belong to pyplot (so nothing is drawn twice) and whose parts never overlap."""
    if not isinstance(figsize, (list, tuple)) or len(figsize) != 2:
        raise ValueError(f"figsize must be two numbers, width and height in inches; got {figsize!r}")
    for inches in figsize:                                               # 2^16 pixels are more than the picture's format takes
        check_number(0.1, 300, figsize=inches)
    fonts.use_chinese()
    return Figure(figsize=figsize, dpi=PIXELS_PER_INCH, layout="constrained")


def show(figure, digits=2, rows=None):
    """Show a matplotlib Figure with its description; outside a notebook, print the description."""
    present(*bundle(figure, describe(figure, digits, rows)))


def present(data, metadata=None):
    """Show what a front end takes; outside a notebook, print the text in it, if any."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        def get_ipython():
            return None
    if get_ipython() is not None:
        display(data, metadata=metadata, raw=True)
    elif "text/plain" in data:
        print(data["text/plain"])


def bundle(figure, text=None):
    """What a front end gets of a Figure: the PNG and its description, and the description as alternative text."""
    text = describe(figure) if text is None else text
    notice = fonts.notice(text)
    if notice:                                                           # in the picture: a warning would be compared by nbval
        figure.suptitle(notice, fontsize=8, color="0.4")
    drawn, png = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=2 * PIXELS_PER_INCH)
    # 256 colours do for a figure, in a third of the bytes: a notebook must stay small enough for a preview.
    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(png, format="png", optimize=True)
    width, height = (round(inches * PIXELS_PER_INCH) for inches in figure.get_size_inches())
    return ({"image/png": base64.b64encode(png.getvalue()).decode(), "text/plain": text},
            {"image/png": {"width": width, "height": height, "alt": text}})


def describe_plain_figures():
    """Have IPython describe figures that a learner draws with plain matplotlib or seaborn, too.

    A method of the class, not a formatter: the inline backend throws out all formatters for figures when it starts.
    """
    Figure._repr_pretty_ = lambda figure, printer, cycle: printer.text(describe(figure))


def to_array(values, name="values"):
    """A float64 array of a tensor of any device and type, or of anything numpy takes; the caller's stays as it is."""
    if isinstance(values, torch.Tensor):
        if values.is_meta or values.is_complex():
            raise ValueError(f"{name} must hold real numbers, but is a tensor of {values.dtype} on {values.device}")
        values = values.detach().cpu()
        values = values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
    if isinstance(values, (list, tuple)):
        values = [to_array(value, name) for value in values]
    try:
        if np.iscomplexobj(values):
            raise TypeError
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        shapes = [value.shape for value in values] if isinstance(values, list) else []
        got = f"rows of different shapes: {shapes}" if len(set(shapes)) > 1 else f"{values!r:.100}"
        raise ValueError(f"{name} must hold real numbers in rows of one length; got {got}") from None


def check_finite(name, array):
    """Refuse nan and infinite values: they leave a hole in a curve."""
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds {int((~np.isfinite(array)).sum())} values that are nan or infinite")


def allowed_cells(mask, shape, refusal):
    """A mask, True or 1 = may attend, as Booleans of this shape; refusal is what to say where it does not broadcast."""
    if not np.isin(mask, (0, 1)).all():
        raise ValueError("mask must hold True and False or 1 and 0, 1 = may attend; got numbers from "
                         f"{mask.min():g} to {mask.max():g}")
    try:
        return np.broadcast_to(mask.astype(bool), shape)
    except ValueError:
        raise ValueError(refusal) from None


def _shape(values):
    return to_array(values).shape


def _listed(name, values):
    if not hasattr(values, "__iter__"):
        raise ValueError(f"{name} must be a list, got {what(values)}")
    return values.tolist() if isinstance(values, (torch.Tensor, np.ndarray)) else list(values)


def _check_colours(cmap, vmin, vmax):
    if isinstance(cmap, str) and cmap not in matplotlib.colormaps or not isinstance(cmap, (str, matplotlib.colors.Colormap)):
        raise ValueError(f'cmap must be a colour map of matplotlib, such as "Reds", "Blues" or "RdBu_r"; got {cmap!r}')
    for name, end in (("vmin", vmin), ("vmax", vmax)):
        if end is not None:
            check_number(-math.inf, math.inf, **{name: end})


def _grid(values, name):
    array = to_array(values, name)
    if array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise ValueError(f"{name} must be (queries, keys), (n, queries, keys) or (rows, columns, queries, keys), none of "
                         f"them 0; got shape {array.shape}")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _panel_labels(labels, n, panels, name, axis):
    """A list of n labels for each panel."""
    if labels is None:
        labels = [str(i) for i in range(n)]
    labels = _listed(name, labels)
    shared = not any(isinstance(label, (list, tuple)) for label in labels)
    if not shared and not all(isinstance(label, (list, tuple)) for label in labels):
        raise ValueError(f"{name} must be labels, or a list of labels for each heatmap, not both; got {labels!r}")
    per_panel = [[str(label) for label in some] for some in ([labels] * panels if shared else labels)]
    if len(per_panel) != panels or any(len(some) != n for some in per_panel):
        raise ValueError(f"{name} must be {n} labels, one for each of the {axis}, or {panels} such lists, one for each "
                         f"heatmap; got {labels!r}")
    return per_panel


def _panel_titles(titles, n_down, n_across):
    if titles is None:
        return [""] * (n_down * n_across)
    titles = [titles] if isinstance(titles, str) else _listed("titles", titles)
    if len(titles) == n_across:
        return titles + [""] * (n_across * (n_down - 1))
    if len(titles) != n_down * n_across:
        raise ValueError(f"titles must be {n_across}, one for each column, or {n_down * n_across}, one for each heatmap; "
                         f"got {len(titles)}: {titles!r}")
    return titles


def _figsize(shape, queries, keys, annot):
    """Inches, so that every token is legible: a cell has room for its label, and for its value if written in."""
    n_down, n_across, n_queries, n_keys = shape
    cell = 0.45 if annot else max(0.16, min(0.34, 9 / (n_across * n_keys)))
    beside = 0.09 * max(map(len, queries)) + 0.3
    below = 0.07 * max(map(len, keys)) + 0.3
    return (min(11, max(2.6, n_across * (n_keys * cell + beside) + 0.9)),
            max(1.9, n_down * (n_queries * cell + below) + 0.5))


def _curves(values, name):
    """A list of curves from one curve or several, which may differ in length."""
    if isinstance(values, (list, tuple)) and any(to_array(value, name).ndim for value in values):
        curves = [to_array(curve, name) for curve in values]
    else:
        array = to_array(values, name)
        curves = [array] if array.ndim < 2 else list(array)
    if not curves or any(curve.ndim != 1 or not curve.size for curve in curves):
        raise ValueError(f"{name} must be one curve or a list of curves, each a row of numbers, at least one; got shapes "
                         f"{[curve.shape for curve in curves]}")
    for curve in curves:
        check_finite(name, curve)
    return curves
