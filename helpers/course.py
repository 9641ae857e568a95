"""The running notebook. That this module can be imported tells a set-up cell that the course is installed."""

language = "en"


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
