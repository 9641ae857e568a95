"""Figures, and the descriptions that stand for them: a wrong figure must read differently, and nbval must notice."""
import base64
import io
import re
import subprocess
import sys
import warnings

import matplotlib
import nbclient
import nbformat
import numpy as np
import pytest
import torch
from PIL import Image

from helpers import describe, draw_heatmaps, figures, fonts, plot, show_by_head, show_heatmaps
from helpers.descriptions import rounded

matplotlib.use("Agg")                                                    # before pyplot looks for a screen
from matplotlib import pyplot  # noqa: E402

WEIGHTS = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
LABELS = dict(query_labels=["chat", "noir"], key_labels=["the", "black", "cat"])


def drawn(matrices=WEIGHTS, **options):
    return draw_heatmaps(matrices, "Keys", "Queries", **{**LABELS, **options})


def test_the_description_says_what_was_drawn():
    text = describe(drawn(titles="Weights", mask=torch.tensor([[1, 1, 0], [1, 1, 0]])))
    for words in ('"Weights"', "2 x 3", 'down "Queries" chat | noir', 'across "Keys" the | black | cat', "Reds from 0.00 to 0.70",
                  "masked cat in every row", "strongest chat → the, noir → black", "values 0.70 0.20 0.00 / 0.10 0.30 0.00"):
        assert words in text, text
    assert "each row sums to 1" in describe(drawn()) and "each row sums to 1" not in describe(drawn(2 * WEIGHTS))
    assert "first row at the bottom" not in text
    one, two = describe(drawn(torch.stack([WEIGHTS, WEIGHTS.flip(0)]), titles=["One", "Two"])).split("\n")
    assert one.startswith('heatmap "One"') and "chat → the" in one and two.startswith('heatmap "Two"') and "chat → cat" in two


def test_a_tie_rounds_alike_where_it_is_computed_a_little_lower():
    assert rounded([0.125, 0.125 - 1e-6, 0.375 - 1e-6, 0.0625], 2).tolist() == [0.13, 0.13, 0.38, 0.06]


@pytest.mark.parametrize("other", [
    dict(matrices=WEIGHTS.flip(0)), dict(matrices=WEIGHTS + 0.01), dict(mask=WEIGHTS > 0.15),
    dict(matrices=WEIGHTS.T, query_labels=LABELS["key_labels"], key_labels=LABELS["query_labels"]),
    dict(query_labels=["noir", "chat"]), dict(key_labels=["the", "cat", "black"]), dict(vmax=1.0), dict(cmap="Blues"),
    dict(titles="another")])
def test_any_other_figure_reads_differently(other):
    assert describe(drawn(**other)) != describe(drawn())


def test_facts_only_hide_digits_and_name_the_rows_that_mean_something():
    text = describe(drawn(), digits=None, rows=["noir"])
    assert text == describe(drawn(WEIGHTS + 0.003 * torch.tensor([1, -2, 1])), digits=None, rows=["noir"])
    assert "strongest noir → cat" in text and "chat →" not in text and "0.7" not in text
    assert text != describe(drawn(WEIGHTS.flip(0)), digits=None, rows=["noir"])
    assert "strongest" not in describe(drawn(), digits=None, rows=[])
    with pytest.raises(ValueError, match="souris"):
        describe(drawn(), rows=["souris"])


def test_a_map_that_is_masked_everywhere_draws_without_a_warning_and_sums_to_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = drawn(torch.full((2, 3), torch.nan), mask=torch.zeros(2, 3))
        figures.bundle(figure)
    assert "masked the black cat in every row" in describe(figure) and "sums to 1" not in describe(figure)


def test_labels_may_be_numbers():
    assert "3 | 4" in describe(drawn(query_labels=[3, 4]))


def test_ties_are_all_named():
    assert "chat → the black" in describe(drawn(torch.tensor([[0.4, 0.4, 0.2], [0.1, 0.3, 0.6]])))


def test_one_colour_scale_for_all_panels():
    figure = draw_heatmaps(torch.stack([WEIGHTS, WEIGHTS / 10]), "Keys", "Queries")
    assert {ax.collections[0].get_clim() for ax in figure.axes[:2]} == {(0.0, WEIGHTS.max().item())}


def test_a_map_of_one_value_has_the_colour_of_its_value():
    """An attention that looks nowhere is white, not the middle of the scale."""
    assert "from 0.00 to 1.00" in describe(drawn(torch.zeros(2, 3)))
    assert "from -1.00 to 0.00" in describe(drawn(-torch.ones(2, 3)))


def test_tokens_are_no_formulas_and_may_be_tensors():
    figure = drawn(query_labels=["$\\nothing$", "$5"], key_labels=torch.tensor([7, 8, 9]))
    assert "$\\nothing$ | $5" in figures.bundle(figure)[0]["text/plain"] and "7 | 8 | 9" in describe(figure)


def test_rows_may_be_of_one_panel_only():
    both = torch.stack([WEIGHTS, WEIGHTS])
    text = describe(drawn(both, query_labels=[["chat", "noir"], ["le", "chien"]]), digits=None, rows=["chien"])
    assert text.count("strongest") == 1 and "strongest chien → cat" in text


def test_every_token_has_its_label_on_large_maps():
    names = [f"w{i}" for i in range(60)]
    ax = draw_heatmaps(torch.rand(60, 60), "Keys", "Queries", key_labels=names, query_labels=names).axes[0]
    assert [t.get_text() for t in ax.get_xticklabels()] == [t.get_text() for t in ax.get_yticklabels()] == names


def test_masked_cells_show_the_hatching_and_nothing_else():
    def brightness(figure):
        png = base64.b64decode(figures.bundle(figure)[0]["image/png"])
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=float)
    plain = drawn(torch.ones(2, 3), annot=False)
    hidden = drawn(torch.ones(2, 3), annot=False, mask=torch.tensor([[1, 1, 0], [1, 1, 0]]))
    a, b = brightness(plain), brightness(hidden)
    changed = np.abs(a - b).max(-1) > 40
    box = hidden.axes[0].get_window_extent().transformed(matplotlib.transforms.Affine2D().scale(2))
    columns = np.flatnonzero(changed.any(0))
    third = box.x0 + 2 * box.width / 3
    assert columns.min() > third - 5 and columns.max() < box.x1 + 5      # the third column, and only that
    assert (b[changed].std(-1) < 10).all()                               # grey, not a shade of the colour map


@pytest.mark.parametrize("make", [
    lambda: WEIGHTS.clone().requires_grad_(), lambda: WEIGHTS.bfloat16(), lambda: WEIGHTS.half(), lambda: WEIGHTS.double(),
    lambda: WEIGHTS.numpy(), lambda: WEIGHTS.tolist(), lambda: [WEIGHTS[0], WEIGHTS[1]], lambda: WEIGHTS[None, None]])
def test_tensors_of_any_kind_and_lists_are_drawn_and_left_alone(make):
    given = make()
    before = given.detach().clone() if isinstance(given, torch.Tensor) else None
    assert describe(drawn(given)) == describe(drawn(torch.as_tensor(figures.to_array(given)).squeeze()))
    if before is not None:
        assert torch.equal(before, given.detach()) and given.requires_grad == (given.dtype == torch.float32 and given.requires_grad)


@pytest.mark.parametrize("options, words", [
    (dict(matrices=torch.ones(3)), ["matrices", "(3,)"]),
    (dict(matrices=torch.ones(2, 0)), ["matrices", "(2, 0)"]),
    (dict(key_labels=["a", "b"]), ["key_labels", "3"]),
    (dict(query_labels=[["a", "b"], ["c", "d"]]), ["query_labels", "1"]),
    (dict(titles=["a", "b"]), ["titles", "2"]),
    (dict(mask=torch.ones(3, 2)), ["mask", "(3, 2)", "(2, 3)"]),
    (dict(matrices=torch.tensor([[0.5, 0.5, torch.nan], [1, 0, 0]])), ["matrices", "1 values", "nan"]),
    (dict(matrices=torch.tensor([[0.5, 0.5, -torch.inf], [1, 0, 0]])), ["matrices", "infinite"]),
])
def test_bad_input_is_refused_by_name(options, words):
    with pytest.raises(ValueError) as error:
        drawn(**options)
    assert all(word in str(error.value) for word in words), error.value


def test_a_picture_comes_at_twice_the_size_with_its_alternative_text():
    data, metadata = figures.bundle(drawn())
    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    shown = metadata["image/png"]["width"], metadata["image/png"]["height"]
    assert all(abs(pixels - 2 * length) <= 1 for pixels, length in zip(image.size, shown))   # a length is a whole number
    assert metadata["image/png"]["alt"] == data["text/plain"] == describe(drawn())


def test_figures_leave_pyplot_and_the_backend_alone():
    backend = matplotlib.get_backend()
    show_heatmaps(WEIGHTS, "Keys", "Queries")
    assert matplotlib.get_backend() == backend and pyplot.get_fignums() == []


def test_outside_a_notebook_the_description_is_printed(capsys):
    plot([1, 2, 3], [[1, 4, 9], [9, 4, 1]], "n", "cost", legend=["up", "down"], xscale="log", yscale="log")
    assert capsys.readouterr().out == ('plot: across "n", up "cost", x logarithmic, y logarithmic\n'
                                       '  line "up": x 1.00 2.00 3.00, y 1.00 4.00 9.00\n'
                                       '  dashed line "down": x 1.00 2.00 3.00, y 9.00 4.00 1.00\n')


def test_numbers_stand_on_the_colour_of_their_head(capsys):
    show_by_head([torch.arange(12).reshape(2, 6)], ["X"], num_hiddens=6, num_heads=2)
    assert "colours by head 0 0 0 1 1 1 and so on" in capsys.readouterr().out


def test_plain_matplotlib_and_seaborn_are_described_too():
    import seaborn
    figure, (left, right) = pyplot.subplots(1, 2)
    seaborn.heatmap(WEIGHTS.numpy(), ax=left, xticklabels=LABELS["key_labels"], yticklabels=LABELS["query_labels"])
    right.bar(["a", "b"], [1, 2])
    text = describe(figure)
    pyplot.close(figure)
    assert "noir → cat" in text and "2 bars over a | b: 1.00 2.00" in text


def test_what_a_reader_would_miss_or_misread_is_said():
    """Names without a legend, curves told apart by colour alone, a wrong or absent colour bar, wrong numbers in the cells."""
    figure = figures.new_figure((4, 3))
    ax = figure.subplots()
    ax.plot([1, 2], label="loss")
    ax.plot([2, 3], "--", label="accuracy")
    ax.fill_between([0, 1], [1, 1], [2, 4], alpha=0.2)
    assert '  line "loss" (not in a legend)' in describe(figure) and "a band from 1.00 to 4.00" in describe(figure)
    ax.legend()
    assert '  line "loss"' in describe(figure) and '  dashed line "accuracy"' in describe(figure)

    text = describe(drawn())
    assert "each value written in its cell" in text and "colour bar" not in text
    figure = drawn()
    figure.axes[0].texts[0].set_text("0.10")
    assert "written in the cells 0.10 | 0.20" in describe(figure)
    figure = drawn(WEIGHTS[None].repeat(2, 1, 1))
    figure.axes[1].collections[0].set_clim(0, 0.5)
    assert "unlike the colour bar" in describe(figure).split("\n")[1] and "unlike" not in describe(figure).split("\n")[0]
    figure.axes[-1].remove()
    assert "no colour bar" in describe(figure)
    figure = drawn(mask=WEIGHTS > 0.15)
    figure.axes[0].patch.set_hatch(None)
    assert "masked, but not hatched" in describe(figure) and "not hatched" not in describe(drawn(mask=WEIGHTS > 0.15))


# ------------------------------------------------------------------ Chinese
def chinese_figure_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.bundle(drawn(query_labels=["苹果", "发布"], titles="查询与键"))


@pytest.fixture
def other_fonts(monkeypatch):
    """A machine with fonts of one's choice: forget what was found before, and afterwards."""
    def machine(package, system):
        known = [font for font in matplotlib.font_manager.fontManager.ttflist if "CJK" not in font.name and font.name not in fonts.SYSTEM_FONTS]
        monkeypatch.setattr(matplotlib.font_manager.fontManager, "ttflist", known)
        monkeypatch.setitem(matplotlib.rcParams, "font.family", ["sans-serif"])
        if not package:
            monkeypatch.setattr(fonts.importlib.util, "find_spec", lambda name: None)
        if system:
            from noto_cjk_sans_otc import FONT_PATH
            matplotlib.font_manager.fontManager.addfont(str(FONT_PATH))
        fonts.chinese_font.cache_clear()
    yield machine
    fonts.chinese_font.cache_clear()


@pytest.mark.parametrize("package, system", [(True, False), (False, True), (True, True)])
def test_chinese_draws_without_a_warning_from_the_package_or_from_the_system(other_fonts, package, system):
    other_fonts(package, system)
    chinese_figure_warns()


def test_without_any_chinese_font_the_figure_itself_says_what_to_install(other_fonts):
    """Not a warning: a notebook's outputs are the same without the font."""
    text = figures.bundle(drawn(query_labels=["苹果", "发布"]))[0]["text/plain"]
    other_fonts(False, False)
    chinese, plain = drawn(query_labels=["苹果", "发布"]), drawn()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Glyph .* missing")    # as fonts.use_chinese has it in a notebook
        assert figures.bundle(chinese)[0]["text/plain"] == text
        figures.bundle(plain)
    assert "pip install noto-cjk-sans-otc" in chinese.get_suptitle() and not plain.get_suptitle()


# ------------------------------------------------------------------ nbval
@pytest.mark.slow
def test_nbval_fails_for_other_data_another_mask_a_transposed_map_and_swapped_labels(tmp_path):
    right = ('show_heatmaps([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], "Keys", "Queries", mask=[[1, 1, 0], [1, 1, 1]], '
             'query_labels=["chat", "noir"], key_labels=["the", "black", "cat"])')
    faults = {
        "nothing wrong": ("", ""),
        "other data": ("0.7, 0.2", "0.6, 0.3"),
        "another mask": ("[1, 1, 0]", "[1, 0, 1]"),
        "swapped labels": ('"chat", "noir"', '"noir", "chat"'),
        "transposed": ('[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], "Keys", "Queries", mask=[[1, 1, 0], [1, 1, 1]]',
                       '[[0.7, 0.1, 0.2], [0.3, 0.1, 0.6]], "Keys", "Queries", mask=[[1, 1, 1], [1, 0, 1]]'),
        "axes swapped": ('"Keys", "Queries"', '"Queries", "Keys"'),
        "a curve of plain pyplot": ("[1, 4, 9]", "[1, 4, 8]"),
    }
    cells = [nbformat.v4.new_code_cell("from helpers import course, show_heatmaps\nfrom matplotlib import pyplot\n"
                                       "course.start('en')")]
    cells += [nbformat.v4.new_code_cell("curve = pyplot.plot([1, 4, 9])" if "pyplot" in name else right) for name in faults]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, kernel_name="python3").execute()
    for cell, (old, new) in zip(notebook.cells[1:], faults.values()):
        cell.source = cell.source.replace(old, new)
    nbformat.write(notebook, tmp_path / "figures.ipynb")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    run = subprocess.run([sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-p", "no:xdist", "-c", str(tmp_path / "pytest.ini"),
                          "--rootdir", str(tmp_path), "-rA", "--color=no", str(tmp_path / "figures.ipynb")],
                         capture_output=True, text=True, encoding="utf-8", errors="replace")     # it prints in the system's encoding
    passed = [bool(re.search(rf"PASSED .*figures.ipynb::Cell {i}$", run.stdout, re.M)) for i in range(len(cells))]
    assert passed == [True, True] + [False] * (len(faults) - 1), run.stdout
