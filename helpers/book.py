"""The book's package, d2l 0.17.0, to compare with."""
import contextlib
import importlib
import sys
from types import ModuleType


def load_d2l():
    """d2l's torch module, with its one broken call repaired: IPython no longer has display.set_matplotlib_formats."""
    try:
        with later("torchvision", "transforms"):
            from d2l import torch as d2l
    except ImportError as error:
        raise ImportError("d2l is missing: python -m pip install --no-deps d2l==0.17.0 torchvision") from error
    from matplotlib_inline import backend_inline
    # The book asks for SVG, whose bytes differ at every run; a PNG for dense screens reads as well.
    d2l.use_svg_display = lambda: backend_inline.set_matplotlib_formats("retina")
    return d2l


@contextlib.contextmanager
def later(package, part):
    """Inside, importing package and its part gives stand-ins. d2l imports torchvision for pictures, which no lesson asks for."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = StandIn(package)
    setattr(sys.modules[package], part, StandIn(f"{package}.{part}"))
    try:
        yield
    finally:
        del sys.modules[package]


class StandIn(ModuleType):
    """Imports the module of its name when something in it is asked for."""
    def __getattr__(self, name):
        if name.startswith("__"):                                        # what the import statement itself looks for
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)
