"""The book's package, d2l 0.17.0, to compare with."""


def load_d2l():
    """d2l's torch module, with its one broken call repaired: IPython no longer has display.set_matplotlib_formats."""
    try:
        from d2l import torch as d2l
    except ImportError as error:
        raise ImportError("d2l is missing: python -m pip install --no-deps d2l==0.17.0 torchvision") from error
    from matplotlib_inline import backend_inline
    # The book asks for SVG, whose bytes differ at every run; a PNG for dense screens reads as well.
    d2l.use_svg_display = lambda: backend_inline.set_matplotlib_formats("retina")
    return d2l
