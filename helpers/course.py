"""The running notebook. That this module can be imported tells a set-up cell that the course is installed."""

language = "en"
WIDGET = "application/vnd.jupyter.widget-view+json"


def start(lang):
    """Begin a notebook: hints in its language ("en" or "zh"), Chinese and a description in every figure."""
    global language
    if lang not in ("en", "zh"):
        raise ValueError(f'lang must be "en" or "zh", got {lang!r}')
    language = lang
    from helpers.figures import describe_plain_figures
    from helpers.fonts import use_chinese
    describe_plain_figures()
    use_chinese()


def say(en, zh):
    """The text in the language of the notebook."""
    return zh if language == "zh" else en


def has_kernel():
    """Whether this runs in a kernel, behind a front end that may show widgets."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None


def show_widget(widget):
    """Show an ipywidget alone, without the text that libraries add: it holds an address or a state, and nbval would compare it."""
    from IPython.display import display
    display({WIDGET: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}, raw=True)
