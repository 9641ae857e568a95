"""A figure in words, read back from what was really drawn.

nbval never compares pictures. So every figure travels with this description, which nbval compares and which is the
picture's alternative text: a figure of other data, another mask, transposed or with swapped labels reads differently.
"""
import numpy as np
from matplotlib.collections import PathCollection, PolyCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.quiver import Quiver

from helpers.guards import check_sizes, what


def describe(figure, digits=2, rows=None):
    """Describe the heatmaps, lines, points, bars and words of a matplotlib Figure.

    digits: round values to so many places. None leaves out every value, for trained models, whose digits differ
        between machines, and says facts only.
    rows: labels of the heatmap rows whose strongest key is to be named, and of the lines of which is said, without
        digits, whether they end higher or lower; None means all, [] none.
    """
    check_description(digits, rows)
    if not isinstance(figure, Figure):
        raise ValueError(f"figure must be a matplotlib Figure, such as draw_heatmaps and pyplot.figure return; got {what(figure)}")
    if rows is not None:
        rows = [str(row) for row in rows]
        known = {label: None for ax in figure.axes if ax.get_label() != "<colorbar>" for label in _row_labels(ax)}
        unknown = [row for row in rows if row not in known]
        if unknown:
            raise ValueError(f"rows names {unknown}, but this figure's rows and lines are {list(known)}")
    return "\n".join(text for ax in figure.axes if ax.get_label() != "<colorbar>"
                     for text in _axes(ax, digits, rows)) or "an empty figure"


def check_description(digits, rows):
    """Refuse digits and rows that say nothing."""
    if digits is not None:
        check_sizes(least=0, digits=digits)
    if rows is not None and not isinstance(rows, (list, tuple, set)):
        raise ValueError(f"rows must be a list of labels, [] for none or None for all; got {rows!r}")


def rounded(values, digits):
    """Round so that exact ties (1/8, 1/16) fall on one side on every machine."""
    return np.floor(np.asarray(values, dtype=float) * 10**digits + 0.501) / 10**digits + 0.0


def _meshes(ax):
    return [c for c in ax.collections if isinstance(c, QuadMesh)] + list(ax.images)


def _row_labels(ax):
    return [*(label for mesh in _meshes(ax) for label in _labels(ax.get_yticklabels(), len(mesh.get_array()))),
            *(line.get_label() for line in ax.lines)]


def _axes(ax, digits, rows):
    meshes = _meshes(ax)
    title = _quoted(ax.get_title())
    for mesh in meshes:
        yield f"heatmap{title}: " + _heatmap(ax, mesh, digits, rows)
    lines = [line for line in ax.lines if len(line.get_xdata())]
    points = [c for c in ax.collections if isinstance(c, PathCollection)]
    if meshes or not (lines or points or ax.patches or ax.texts):
        return
    scales = "".join(f", {name} logarithmic" for name, axis in (("x", ax.xaxis), ("y", ax.yaxis))
                     if axis.get_scale() == "log")
    yield f'plot{title}: across "{ax.get_xlabel()}", up "{ax.get_ylabel()}"{scales}'
    for line in lines:
        trend = rows is None or line.get_label() in rows
        yield f"  {_style(line)}line {_name(line)}: {_curve(*line.get_data(), digits, trend)}"
    for cloud in points:
        x, y = np.asarray(cloud.get_offsets(), dtype=float).T
        yield f"  points {_name(cloud)}: {_curve(x, y, digits)}"
    for arrows in (c for c in ax.collections if isinstance(c, Quiver)):
        yield f"  {arrows.N} arrows"
    for band in (c for c in ax.collections if isinstance(c, PolyCollection) and not isinstance(c, Quiver)):
        y = band.get_paths()[0].vertices[:, 1]
        yield "  a band" + (f" from {_numbers([y.min()], digits)} to {_numbers([y.max()], digits)}" if digits is not None else "")
    if ax.patches:
        bars = [patch.get_height() for patch in ax.patches if hasattr(patch, "get_height")]
        names = [text.get_text() for text in ax.get_xticklabels()]
        yield f"  {len(bars)} bars over {' | '.join(names)}" + (f": {_numbers(bars, digits)}" if digits is not None else "")
    if ax.texts:
        yield "  words: " + " | ".join(text.get_text() for text in ax.texts)


def _quoted(text):
    return f' "{text}"' if text else ""


def _name(artist):
    """The name by which a reader knows it: one that stands in a legend."""
    name = str(artist.get_label())
    if name.startswith("_"):
        return "without a name"
    legends = [ax.get_legend() for ax in artist.figure.axes] + artist.figure.legends
    written = {text.get_text() for legend in legends if legend is not None for text in legend.get_texts()}
    return f'"{name}"' if name in written else f'"{name}" (not in a legend)'


def _style(line):
    """How a line is told apart without colour."""
    return {"--": "dashed ", "-.": "dash-dotted ", ":": "dotted "}.get(line.get_linestyle(), "")


def _numbers(values, digits):
    return " ".join(f"{value:.{digits}f}" for value in rounded(values, digits))


def _curve(x, y, digits, trend=True):
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if digits is None and not trend:
        return f"{len(y)} values"
    if digits is None:
        return f"{len(y)} values, " + ("ends higher" if y[-1] > y[0] else "ends lower" if y[-1] < y[0] else "ends level")
    if len(y) <= 12:
        return f"x {_numbers(x, digits)}, y {_numbers(y, digits)}"
    some = np.linspace(0, len(y) - 1, 9).astype(int)
    return (f"{len(y)} values, lowest {_numbers([y.min()], digits)}, highest {_numbers([y.max()], digits)}; "
            f"at x {_numbers(x[some], digits)}: {_numbers(y[some], digits)}")


def _heatmap(ax, mesh, digits, rows):
    values = np.ma.masked_invalid(mesh.get_array())
    values = values.reshape(values.shape[0], -1)
    down, across = _labels(ax.get_yticklabels(), values.shape[0]), _labels(ax.get_xticklabels(), values.shape[1])
    parts = [f"{values.shape[0]} x {values.shape[1]}, down{_quoted(ax.get_ylabel())} {' | '.join(down)}, "
             f"across{_quoted(ax.get_xlabel())} {' | '.join(across)}",
             f"colours {mesh.get_cmap().name}" + _scale(ax, mesh, digits)]
    if not ax.yaxis_inverted():
        parts.append("first row at the bottom")
    masked = np.ma.getmaskarray(values)
    filled = values.filled(0)
    if not masked.all() and np.abs(filled.sum(1)[~masked.all(1)] - 1).max() < 2e-3 and filled.min() >= 0:
        parts.append("each row sums to 1" if not masked.all(1).any() else "each row that is not masked sums to 1")
    if masked.any():
        same = (masked == masked[0]).all()
        gone = ([f"{_join(across, masked[0])} in every row"] if same else
                [f"{_join(across, cells)} in row {label}" for label, cells in zip(down, masked) if cells.any()])
        parts.append(("masked " if ax.patch.get_hatch() else "masked, but not hatched, ") + ", ".join(gone))
    parts.append(_strongest(values, down, across, digits, rows))
    if digits is not None and values.size <= 100:
        parts.append("values " + " / ".join(_numbers(row, digits) for row in filled))
    elif digits is not None:
        parts.append(f"column sums {_numbers(filled.sum(0), digits)}")
    parts.append(_written(ax, mesh, values))
    return "; ".join(part for part in parts if part)


def _scale(ax, mesh, digits):
    """The ends of the colour scale, as the colour bar beside the heatmaps shows them."""
    low, high = mesh.get_clim()
    bars = [bar.get_ylim() for bar in ax.figure.axes if bar.get_label() == "<colorbar>"]
    if not bars:
        return ", no colour bar"
    wrong = "" if any(np.allclose(bar, (low, high)) for bar in bars) else ", unlike the colour bar"
    return wrong if digits is None else f" from {low:.{digits}f} to {high:.{digits}f}{wrong}"


def _written(ax, mesh, values):
    """What stands in the cells: their values, or else which words."""
    if not ax.texts:
        return ""
    edge = 0.0 if isinstance(mesh, QuadMesh) else 0.5                     # an image's first cell begins at -0.5
    words = {(int(y + edge), int(x + edge)): text.get_text() for text in ax.texts for x, y in [text.get_position()]}
    try:
        right = all(abs(float(word) - values[cell]) <= 0.51 * 10.0**-len(word.partition(".")[2]) for cell, word in words.items())
    except (ValueError, IndexError):
        right = False
    return "each value written in its cell" if right else "written in the cells " + " | ".join(words.values())


def _strongest(values, down, across, digits, rows):
    """Name each row's largest entries, taken after rounding so that near ties do not flip between machines."""
    compared = np.ma.array(rounded(values.filled(0), digits if digits is not None else 6), mask=values.mask)
    named = [f"{label} → {_join(across, (row == row.max()).filled(False))}" for label, row in zip(down, compared)
             if (rows is None or label in rows) and row.count()]
    return "strongest " + ", ".join(named) if named else ""


def _join(labels, chosen):
    return " ".join(label for label, yes in zip(labels, chosen) if yes)


def _labels(ticks, n):
    names = [tick.get_text() for tick in ticks]
    return names if len(names) == n else [str(i) for i in range(n)]
