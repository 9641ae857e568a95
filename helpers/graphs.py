"""The figure of three layers as graphs: which token is read where, and how far it is from the first to the last."""
import seaborn
from matplotlib.ticker import NullLocator

from helpers.figures import new_figure, show


def layer_graphs(n, k):
    """Three graphs over n tokens: {name: (edges of one layer, number of layers drawn)}.

    An edge (j, i, level) leads from token j below to token i above; in the RNN, level 1 marks an edge within the upper row.
    The convolution is stacked until the last output can be reached from the first token.
    """
    reach = k // 2
    window = [(j, i, 0) for i in range(n) for j in range(n) if abs(i - j) <= reach]
    layers = -(-(n - 1) // reach)                                        # rounded up
    steps = [(t, t, 0) for t in range(n)] + [(t, t + 1, 1) for t in range(n - 1)]
    pairs = [(j, i, 0) for i in range(n) for j in range(n)]
    return {f"Convolution (k = {k})": (window, layers), "RNN": (steps, 1), "Self-attention": (pairs, 1)}


def shortest_path(edges, layers, n):
    """The nodes (token, height) on a shortest way from the first token at the bottom to the last at the top."""
    nexts = {}
    for layer in range(layers):
        for j, i, level in edges:
            nexts.setdefault((j, layer + level), []).append((i, layer + 1))
    ways, seen = [[(0, 0)]], {(0, 0)}
    for way in ways:                                                     # breadth first: grows while it is read
        if way[-1] == (n - 1, layers):
            return way
        for node in nexts.get(way[-1], []):
            if node not in seen:
                seen.add(node)
                ways.append([*way, node])
    return None


def draw_graphs(n=5, k=3):
    """The three graphs side by side, a shortest way from the first token to the last output in colour."""
    if n < 2 or k < 3 or k % 2 == 0:
        raise ValueError(f"n must be at least 2 and k an odd number from 3 on, got n = {n}, k = {k}")
    figure = new_figure((8.5, 3.6))
    for ax, (name, (edges, layers)) in zip(figure.subplots(1, 3), layer_graphs(n, k).items()):
        stretch = 4 / layers                                             # all panels are equally high
        way = [(token, height * stretch) for token, height in shortest_path(edges, layers, n)]
        for layer in range(layers):
            _arrows(ax, [((j, (layer + level) * stretch), (i, (layer + 1) * stretch)) for j, i, level in edges], "0.72", 0.004)
        _arrows(ax, list(zip(way, way[1:])), seaborn.color_palette("colorblind")[3], 0.010)
        ax.plot(*zip(*way), label=f"from x1 to y{n}", alpha=0)         # for the description: the arrows' corners
        nodes = [(token, height * stretch) for height in range(layers + 1) for token in range(n)]
        ax.scatter(*zip(*nodes), s=260, color="white", edgecolors="0.3", zorder=3)
        for token in range(n):
            ax.text(token, 0, f"x{token + 1}", ha="center", va="center", fontsize=8, zorder=4)
            ax.text(token, layers * stretch, f"y{token + 1}", ha="center", va="center", fontsize=8, zorder=4)
        ax.set_title(f"{name}\n{len(edges)} arrows a layer, {layers} layer{'s' * (layers > 1)}", fontsize=10)
        ax.set(xlim=(-0.5, n - 0.5), ylim=(-0.5, 4.5))
        ax.xaxis.set_major_locator(NullLocator())
        ax.yaxis.set_major_locator(NullLocator())
        for side in ax.spines.values():
            side.set_visible(False)
    return figure


def show_graphs(n=5, k=3):
    """Show the graphs of a convolution, an RNN and self-attention on n tokens."""
    show(draw_graphs(n, k), digits=0)


def _arrows(ax, edges, colour, width):
    """Arrows from node to node that stop short of the circles."""
    starts, moves = [], []
    for (x, y), (to_x, to_y) in edges:
        dx, dy = to_x - x, to_y - y
        gap = 0.24 / max((dx**2 + dy**2) ** 0.5, 1e-9)
        starts.append((x + gap * dx, y + gap * dy))
        moves.append(((1 - 2 * gap) * dx, (1 - 2 * gap) * dy))
    ax.quiver(*zip(*starts), *zip(*moves), angles="xy", scale_units="xy", scale=1, color=colour, width=width,
              headwidth=4, headlength=5, headaxislength=4.5, zorder=2)
