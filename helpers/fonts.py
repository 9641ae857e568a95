"""Chinese in figures, on every machine."""
import functools
import importlib.util
import warnings
from pathlib import Path

import matplotlib
from matplotlib import font_manager

# Fonts that systems have of their own: Linux, macOS, Windows.
SYSTEM_FONTS = ("Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "PingFang SC",
                "Hiragino Sans GB", "Heiti SC", "Microsoft YaHei", "SimHei", "Noto Sans CJK JP")


@functools.cache
def chinese_font():
    """The name of a font with Chinese: of the package noto-cjk-sans-otc, else one of the system's; None without one.

    The package comes first, so that figures look the same everywhere.
    """
    packaged = importlib.util.find_spec("noto_cjk_sans_otc")
    if packaged is not None:
        font_manager.fontManager.addfont(Path(packaged.origin).with_name("NotoSansCJK-Regular.ttc"))
        wanted = ("Noto Sans CJK SC", "Noto Sans CJK JP")  # matplotlib before 3.11 reads only a file's first face
    else:
        wanted = SYSTEM_FONTS
    known = {font.name for font in font_manager.fontManager.ttflist}
    return next((name for name in wanted if name in known), None)


def use_chinese():
    """Let matplotlib take from that font, glyph by glyph, what its usual one lacks. Other settings stay."""
    families = matplotlib.rcParams["font.family"]
    name = chinese_font()
    if name is None:                                                     # the figure itself says what to do, see below
        warnings.filterwarnings("ignore", message="Glyph .* missing")
    elif name not in families:
        matplotlib.rcParams["font.family"] = [*families, name]


def notice(text):
    """What a figure has to say of itself, if text has Chinese and no font has; else None."""
    if chinese_font() is None and any("\u4e00" <= character <= "\u9fff" for character in text):
        return "Chinese is drawn as boxes here: python -m pip install noto-cjk-sans-otc"
    return None
