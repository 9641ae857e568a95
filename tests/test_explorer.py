"""The attention explorer and the knobs, as far as they are Python; what a browser makes of them is tested in tests/browser."""
import base64
import html
import io
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import IPython
import nbclient
import nbformat
import pytest
import torch
from PIL import Image

from helpers import course, describe, draw_heatmaps, explore, knob, knobs, masked_softmax

ENGLISH, FRENCH = ["the", "black", "cat"], ["chat", "noir"]
WEIGHTS = torch.tensor([[0.1, 0.2, 0.7], [0.05, 0.9, 0.05]])
WORDS = ["苹果", "很", "好吃"]
SCORES = torch.tensor([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [-1.0, 3.0, 0.5]])
CAUSAL = torch.ones(3, 3).tril().bool()


@pytest.fixture
def outputs(explored):
    """What explore would display: picture, its metadata, the live page, and the numbers in the picture."""
    def of(*given, **named):
        picture, metadata, page = explored(*given, **named)
        written = Image.open(io.BytesIO(base64.b64decode(picture["image/png"]))).text["attention"]
        return SimpleNamespace(picture=picture, metadata=metadata, page=page, numbers=json.loads(written))
    return of


# ------------------------------------------------------------------ what is shown and stored
def test_the_picture_is_the_heatmap_with_its_description_and_holds_the_numbers(outputs):
    shown = outputs(WEIGHTS, FRENCH, ENGLISH, xlabel="English", ylabel="French")
    figure = draw_heatmaps(WEIGHTS, "English", "French", key_labels=ENGLISH, query_labels=FRENCH)
    assert shown.picture["text/plain"] == describe(figure) == shown.metadata["image/png"]["alt"]
    assert shown.numbers["weights"] == [100, 200, 700, 50, 900, 50]
    assert (shown.numbers["queries"], shown.numbers["keys"]) == (FRENCH, ENGLISH)


def test_what_nbval_compares_does_not_depend_on_trained_weights(outputs):
    one, two = (outputs(torch.softmax(torch.randn(2, 3), dim=-1), FRENCH, ENGLISH, digits=None, rows=[]) for _ in range(2))
    assert one.page == two.page and one.picture["text/plain"] == two.picture["text/plain"]
    assert one.picture["image/png"] != two.picture["image/png"]


@pytest.mark.parametrize("shape, layers, heads", [((3, 3), 1, 1), ((4, 3, 3), 1, 4), ((1, 3, 3), 1, 1), ((2, 6, 3, 3), 2, 6)])
def test_weights_of_one_map_of_heads_and_of_layers(outputs, shape, layers, heads):
    weights = torch.softmax(torch.randn(shape), dim=-1)
    numbers = outputs(weights, WORDS, start=(layers - 1, heads - 1)).numbers
    assert numbers["layers"] == layers and len(numbers["heads"]) == heads and numbers["start"] == layers * heads - 1
    assert torch.allclose(torch.tensor(numbers["weights"]).view(shape) / 1000, weights, atol=6e-4)


def test_the_static_picture_has_all_maps_or_the_first_one_where_they_are_too_many(outputs):
    four = outputs(torch.eye(3).expand(4, 3, 3), WORDS, head_names=["a", "b", "c", "d"]).picture["text/plain"]
    assert re.findall(r'heatmap "(.*?)"', four) == ["a", "b", "c", "d"]
    many = outputs(torch.eye(3).expand(2, 6, 3, 3), WORDS, start=(1, 2)).picture["text/plain"]
    assert re.findall(r'heatmap "(.*?)"', many) == ["layer 1, head 2"]


@pytest.mark.parametrize("heads", [1, 3])
def test_scores_travel_in_place_of_weights_with_mask_and_width(outputs, heads):
    scores = SCORES.expand(heads, 3, 3)
    shown = outputs(masked_softmax(scores, mask=CAUSAL[None].expand(heads, 3, 3)), WORDS, scores=scores, mask=CAUSAL, d=4)
    assert "weights" not in shown.numbers and shown.numbers["d"] == 4
    assert shown.numbers["scores"] == scores.flatten().tolist() and shown.numbers["mask"] == "100110111" * heads
    assert "masked 很 好吃 in row 苹果" in shown.picture["text/plain"]


def test_a_row_in_which_all_keys_are_masked_is_zero(outputs):
    mask = torch.tensor([[1, 1, 1], [0, 0, 0], [1, 1, 1]])
    weights = masked_softmax(SCORES[None], mask=mask[None])
    assert outputs(weights, WORDS, scores=SCORES, mask=mask).numbers["mask"] == "111000111"


@pytest.mark.parametrize("make", [lambda w: w.clone().requires_grad_(), torch.Tensor.bfloat16, torch.Tensor.half,
                                  torch.Tensor.double, torch.Tensor.numpy, torch.Tensor.tolist])
def test_weights_of_any_type_are_taken(outputs, make):
    assert outputs(make(WEIGHTS), FRENCH, ENGLISH).numbers["weights"] == pytest.approx([100, 200, 700, 50, 900, 50], abs=3)


def test_weights_of_every_class_are_taken(outputs):
    from helpers import AdditiveAttention, DotProductAttention, MultiHeadAttention, SelfAttention
    X = torch.randn(1, 3, 8)
    for module in (DotProductAttention(0.0), AdditiveAttention(8, 8, 4, 0.0), MultiHeadAttention(8, 8, 8, 8, 2, 0.0)):
        module(X, X, X, torch.tensor([2]))
        assert outputs(module.attention_weights, WORDS).numbers["queries"] == WORDS
    module = SelfAttention(8, 8, 8, 0.0)
    module(X)
    assert outputs(module.attention_weights, WORDS).numbers["queries"] == WORDS


def test_the_page_asks_for_nothing_and_is_small(outputs):
    page = outputs(WEIGHTS, FRENCH, ENGLISH).page
    assert len(page.encode()) < 25_000                                   # it is stored once for each explorer
    assert not re.search(r"https?:|import\(|import |src=|url\(|@import", page.replace("http://www.w3.org/2000/svg", ""))


def test_without_scripts_the_page_shows_nothing(outputs):
    """A front end that does not trust a notebook drops script, style and template, and shows the text that is left."""
    page = re.sub(r"<(script|style)>.*?</\1>", "", outputs(WEIGHTS, FRENCH, ENGLISH).page, flags=re.S)
    assert not re.sub(r"<[^>]*>", "", page).strip()


def test_the_page_speaks_the_language_of_the_notebook(outputs, monkeypatch):
    english = outputs(WEIGHTS, FRENCH, ENGLISH).page
    monkeypatch.setattr(course, "language", "zh")
    assert outputs(WEIGHTS, FRENCH, ENGLISH).page == english.replace('lang="en"', 'lang="zh"') != english


def test_in_colab_the_page_has_the_numbers_too(outputs, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())
    shown = outputs(WEIGHTS, ['"chat" & <noir>', "noir"], ENGLISH)
    embedded = re.search(r'data-numbers="(.*?)"', shown.page).group(1)
    assert json.loads(html.unescape(embedded)) == shown.numbers and "<noir>" not in shown.page


def test_outside_a_notebook_the_description_is_printed(capsys):
    explore(WEIGHTS, FRENCH, ENGLISH)
    assert capsys.readouterr().out.startswith("heatmap: 2 x 3")


# ------------------------------------------------------------------ knobs
def mixed(width=2, scaled=True, words="a b"):
    words = words.split()
    if "x" in words:
        raise ValueError("words hold <x>, which the model has never seen")
    scores = torch.arange(float(len(words) ** 2)).view(len(words), -1) * width
    return draw_heatmaps(torch.softmax(scores / (10 if scaled else 1), dim=-1), "Keys", "Queries", key_labels=words)


@pytest.fixture
def in_notebook(monkeypatch):
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=object()))


@pytest.fixture
def panel(in_notebook):
    choices = dict(width=[1, 2, 4], scaled=[False, True], words=str)
    box = knobs.panel(mixed, dict(width=2, scaled=True, words="a b"), choices)
    width, scaled, words, note, picture = box.children
    return SimpleNamespace(width=width.children[0], slider=width.children[1], scaled=scaled, words=words, note=note, picture=picture)


def alt(panel):
    return html.unescape(re.search(r'alt="(.*?)"', panel.picture.value, re.S).group(1))


def test_a_moved_control_draws_anew_with_the_values_of_all(panel):
    assert panel.picture.value == ""                                     # the static figure stands above
    panel.width.value = 4
    assert alt(panel) == describe(mixed(width=4))
    panel.scaled.value = False
    assert alt(panel) == describe(mixed(width=4, scaled=False))
    panel.words.value = "p q r"
    assert alt(panel) == describe(mixed(width=4, scaled=False, words="p q r"))


def test_menu_and_slider_are_one_control(panel):
    panel.slider.value = 1
    assert panel.width.value == 1 and alt(panel) == describe(mixed(width=1))
    panel.width.value = 4
    assert panel.slider.value == 4


def test_what_draw_refuses_is_said_in_place_of_the_picture_until_it_is_right_again(panel):
    panel.words.value = "a x"
    assert panel.picture.value == "" and "words hold &lt;x&gt;" in panel.note.value and 'role="status"' in panel.note.value
    panel.words.value = "a b c"
    assert panel.note.value == "" and "3 x 3" in alt(panel)


def test_only_what_ipywidgets_7_7_has_is_used(panel):
    """Colab has 7.7.1. An Output widget would keep nbval from comparing the cell."""
    import ipywidgets
    kinds = {type(widget).__name__ for widget in vars(panel).values()}
    assert kinds == {"Dropdown", "SelectionSlider", "Checkbox", "Text", "HTML"} and issubclass(ipywidgets.Dropdown, ipywidgets.DOMWidget)


def test_without_a_notebook_a_knob_is_its_figure(capsys):
    knob(mixed, width=[1, 2, 4])
    assert capsys.readouterr().out == describe(mixed()) + "\n"


# ------------------------------------------------------------------ nbval
def test_nbval_passes_although_weights_differ_and_fails_for_other_words(tmp_path):
    right = ['explore(torch.rand(2, 2).softmax(-1), ["chat", "noir"], digits=None, rows=[])',
             'knob(picture, words=str)']
    cells = ['import torch\nfrom helpers import course, draw_heatmaps, explore, knob\ncourse.start("en")\n'
             'def picture(words="a b"):\n'
             '    return draw_heatmaps([[0.5, 0.5], [1, 0]], "Keys", "Queries", key_labels=words.split())', *right, *right]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, kernel_name="python3").execute()
    for cell in notebook.cells[3:]:
        cell.source = cell.source.replace("noir", "le").replace("picture,", 'lambda words="a c": picture(words),')
    nbformat.write(notebook, tmp_path / "explorer.ipynb")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    run = subprocess.run([sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-p", "no:xdist", "-c", str(tmp_path / "pytest.ini"),
                          "--rootdir", str(tmp_path), "-rA", "--color=no", str(tmp_path / "explorer.ipynb")],
                         capture_output=True, text=True, encoding="utf-8")
    passed = [bool(re.search(rf"PASSED .*explorer.ipynb::Cell {i}$", run.stdout, re.M)) for i in range(len(cells))]
    assert passed == [True, True, True, False, False], run.stdout
