"""Knobs: a figure, and under it controls that draw it anew.

The figure stands first, by itself, and makes the point alone: it is what is stored, compared and shown where no kernel runs.
The controls follow as a widget, with a picture of its own that appears when a control is moved, so that the two can be
compared. No Output widget (nbval cannot compare a cell that has one) and only what ipywidgets 7.7 has, for Colab.
"""
import html
import inspect

from matplotlib.figure import Figure

from helpers import course
from helpers.figures import bundle, show
from helpers.guards import check_callable, what


def knob(draw, *, digits=2, rows=None, **choices):
    """Show the figure draw(), and controls for its arguments; moving one shows draw(...) below.

    draw: a function that returns a matplotlib Figure. Each of its arguments has a default: where its control starts.
    choices: for each argument that gets a control, the values to choose from, as a list or a range; str for a line of text.
        [False, True] gives a box to tick.
    A ValueError that draw raises is shown in place of the picture. digits, rows: see helpers.describe, for the first figure.
    """
    starts = _starts(draw, choices)
    show(_drawn(draw, starts), digits, rows)
    controls = panel(draw, starts, choices)
    if controls is not None:
        course.show_widget(controls)


def panel(draw, starts, choices):
    """The controls with their picture, one ipywidgets box; None outside a notebook or without ipywidgets."""
    if not course.has_kernel():
        return None
    try:
        import ipywidgets
    except ImportError:
        return None
    controls = {name: _control(ipywidgets, name, values, starts[name]) for name, values in choices.items()}
    note, picture = ipywidgets.HTML(layout={"min_height": "2em"}), ipywidgets.HTML()

    def redraw(change):
        note.value = _note(course.say("drawing …", "正在绘制……"))
        try:
            picture.value = _image(_drawn(draw, {name: control.value for name, (control, _) in controls.items()}))
            note.value = ""
        except ValueError as error:
            picture.value, note.value = "", _note(error)

    for control, _ in controls.values():
        control.observe(redraw, names="value")
    return ipywidgets.VBox([*(box for _, box in controls.values()), note, picture])


def _control(ipywidgets, name, values, start):
    """The widget whose value counts, and the box in which it is shown."""
    look = {"description": name.replace("_", " "), "style": {"description_width": "initial"}}
    if values is str:
        text = ipywidgets.Text(value=start, continuous_update=False, layout={"width": "98%"}, **look)
        return text, text
    if set(values) == {False, True} and all(isinstance(value, bool) for value in values):
        tick = ipywidgets.Checkbox(value=start, indent=False, **look)
        return tick, tick
    # To drag, and to choose from: ipywidgets gives its sliders no name, and a screen reader needs one.
    menu = ipywidgets.Dropdown(options=list(values), value=start, layout={"width": "max-content"}, **look)
    slider = ipywidgets.SelectionSlider(options=list(values), value=start, readout=False, continuous_update=False)
    ipywidgets.link((menu, "value"), (slider, "value"))
    return menu, ipywidgets.HBox([menu, slider], layout={"flex_flow": "row wrap"})


def _note(text):
    return f'<span role="status">{html.escape(str(text))}</span>'


def _image(figure):
    """The figure as HTML, with its description as alternative text."""
    data, metadata = bundle(figure)
    size = metadata["image/png"]
    return (f'<img alt="{html.escape(size["alt"])}" style="width: {size["width"]}px; max-width: 100%; height: auto" '
            f'src="data:image/png;base64,{data["image/png"]}">')


def _drawn(draw, values):
    figure = draw(**values)
    if not isinstance(figure, Figure):
        raise ValueError(f"draw must return a matplotlib Figure, such as draw_heatmaps makes; it returned {what(figure)}")
    return figure


def _starts(draw, choices):
    """Where each control starts: the default of draw's argument of that name."""
    check_callable(draw=draw)
    if not choices:
        raise ValueError("knob needs at least one argument of draw with its choices, such as kernel=[3, 5, 7]")
    arguments, starts = inspect.signature(draw).parameters, {}
    for name, values in choices.items():
        if name not in arguments or arguments[name].default is inspect.Parameter.empty:
            raise ValueError(f"{name} must be an argument of draw that has a default, where its control starts; draw has "
                             f"{[str(argument) for argument in arguments.values()]}")
        start = starts[name] = arguments[name].default
        if values is not str and not isinstance(values, (list, tuple, range)):
            raise ValueError(f"{name} must be a list or a range of values to choose from, or str for a line of text; got {values!r}")
        if values is str and not isinstance(start, str) or values is not str and start not in values:
            raise ValueError(f"{name} starts at draw's default {start!r}, which must be one of its choices: "
                             f"{'some text' if values is str else list(values)}")
    return starts
