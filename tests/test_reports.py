"""What users of such courses run into, one test for each kind that no other file holds, named for the kind.

Held elsewhere: masks, heads and number types in test_attention.py, test_multihead.py and test_properties.py; lengths past the table
and checkpoints in test_positions.py; unknown keywords in test_bad_input.py; figures in test_figures.py; what nbval passes over
in test_notebooks.py; set-up cells in test_build.py; encodings in test_encodings.py.
"""
import logging
import math
import os
import re
import subprocess
import sys
import warnings

import nbformat
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers import (AdditiveAttention, DotProductAttention, MultiHeadAttention, PositionalEncoding, SelfAttention, count_flops,
                     d2l, draw_heatmaps, figures, fonts, masked_softmax, transpose_qkv)
from lessons import build

ROOT = build.ROOT
FLOATS = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def notebooks(lang):
    """Each notebook of an edition, and its cells."""
    paths = [build.notebook_path(path, lang) for path in build.lessons()]
    return [(path, nbformat.read(path, 4).cells) for path in paths]


def requirement(name):
    return re.search(rf"(?m)^{name}\b([^#;\n]*)", text("requirements.txt")).group(1).strip()


# ------------------------------------------------------------------ installing
def test_pins_that_make_an_install_impossible_are_not_there():
    for name in ("torch", "numpy", "matplotlib", "seaborn", "jupyterlab", "pytest"):
        assert "==" not in requirement(name) and "<" not in requirement(name), name   # a range, open to the newest
    assert requirement("d2l") == "==0.17.0"                              # it pins nothing itself; 1.0 pins everything
    assert "dependencies = []" in text("pyproject.toml")                 # in Colab nothing of its own may move


def test_old_nbval_that_breaks_with_a_new_pytest_is_not_allowed():
    assert requirement("nbval") == ">=0.11" and requirement("pytest") == ">=8.1"


def test_helpers_import_without_the_book_without_torchvision_and_from_any_folder(tmp_path):
    """A learner may start Jupyter anywhere, and may have neither d2l nor torchvision."""
    code = ("import sys; sys.modules['d2l'] = sys.modules['torchvision'] = None\n"
            "import helpers, helpers.course, helpers.translation, helpers.senses, helpers.checks\n"
            "assert helpers.masked_softmax and 'pyplot' not in ' '.join(sys.modules['helpers.figures'].__dict__)\n"
            "try: helpers.d2l\n"
            "except ImportError as error: print(error)\n")
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
                         capture_output=True, text=True, encoding="utf-8")
    assert run.returncode == 0 and run.stderr == "" and "python -m pip install --no-deps d2l==0.17.0" in run.stdout, run.stderr


def test_the_book_brings_torchvision_only_for_what_needs_it():
    """It takes seconds and tens of MB in every kernel, and a torchvision made for another build of PyTorch cannot be imported at all."""
    code = ("import sys; from helpers import d2l\n"
            "assert d2l.masked_softmax and 'torchvision' not in sys.modules\n"
            "assert d2l.transforms.Compose([]).transforms == [] and d2l.torchvision.io.read_image\n"
            "import torchvision; assert torchvision.transforms.Compose\n")
    run = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
                         encoding="utf-8")
    assert run.returncode == 0, run.stderr


def test_the_books_broken_display_call_is_repaired_and_gives_no_svg():
    """SVG's bytes differ at every run, and nbval compares them."""
    d2l.use_svg_display()                                                # d2l's own raises AttributeError here
    for path in (ROOT / "notebooks").rglob("*.ipynb"):
        assert "image/svg+xml" not in path.read_text(encoding="utf-8"), path.name


def test_another_python_is_not_asked_and_the_small_build_is_named():
    for name in ("README.md", "README.zh-CN.md"):
        readme = text(name)
        assert "https://download.pytorch.org/whl/cpu" in readme and "GB" in readme
        for program in ("pip install", "jupyterlab", "pytest"):
            lines = [line for line in readme.splitlines() if re.match(rf"(python -m )?{program}\b", line.strip())]
            assert lines and all(line.strip().startswith("python -m ") for line in lines), (name, program)


# ------------------------------------------------------------------ masks and heads
@FLOATS
@pytest.mark.parametrize("kind", ["dot product", "additive", "self", "multi-head", "multi-head, fused"])
def test_empty_row_gives_zeros_and_finite_gradients_in_every_type(dtype, kind):
    """Reported: NaN where -inf is filled in, a share of 1/n on padding where a finite number is."""
    torch.manual_seed(0)
    module = {"dot product": lambda: DotProductAttention(0.0), "additive": lambda: AdditiveAttention(4, 4, 4, 0.0),
              "self": lambda: SelfAttention(4, 4, 4, 0.0)}.get(kind, lambda: MultiHeadAttention(4, 4, 4, 4, 2, 0.0))().to(dtype)
    X = torch.randn(2, 3, 4).to(dtype).requires_grad_()
    inputs = (X,) if kind == "self" else (X, X, X)
    output = module(*inputs, torch.tensor([[0, 2, 3], [0, 0, 0]]), **({"need_weights": False} if "fused" in kind else {}))
    assert output.dtype == dtype and not output[0, 0].any() and not output[1].any() and output[0, 1:].abs().amax(-1).min() > 0
    output.square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (X, *module.parameters()))
    assert not X.grad[1].any() and X.grad[0].any()


@FLOATS
def test_padding_gets_nothing_however_low_the_real_scores_are(dtype):
    """Reported: a fill of -1e6 beats real scores that are lower, and -1e9 is more than half precision holds."""
    low = 0.9 * torch.finfo(dtype).min
    X = torch.tensor([[[low, low, 0.0, 5.0]]], dtype=dtype)
    assert masked_softmax(X, torch.tensor([2])).tolist() == [[[0.5, 0.5, 0.0, 0.0]]]


def test_scale_is_the_root_of_one_heads_width_not_of_the_whole():
    """Two heads of width 4, all maps the identity: head 0 scores 4 / sqrt(4) = 2, and 4 / sqrt(8) would be 1.41."""
    module = MultiHeadAttention(8, 8, 8, 8, 2, 0.0)
    with torch.no_grad():
        for layer in (module.W_q, module.W_k, module.W_v, module.W_o):
            layer.weight.copy_(torch.eye(8))
    X = torch.zeros(1, 2, 8)
    X[0, 0, 0] = 2.0
    module(X, X, X)
    assert module.attention_weights[0, 0, 0, 0].item() == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-6)
    assert module.attention_weights[0, 1, 0, 0].item() == pytest.approx(0.5, abs=1e-6)


def test_heads_are_no_view_of_the_memory():
    X = torch.arange(24.0).reshape(2, 3, 4)
    bare = X.reshape(4, 3, 2)                                            # the mistake: rows of different tokens are cut up
    assert transpose_qkv(X, 2)[0].tolist() == X[0, :, :2].tolist() != bare[0].tolist()


def test_true_means_attend_here_and_in_sdpa_but_leave_out_in_torchs_module():
    torch.manual_seed(0)
    X, attend = torch.randn(1, 3, 4), torch.tensor([[True, True, False]])
    theirs = nn.MultiheadAttention(4, 1, bias=False, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.eye(4).repeat(3, 1))
        theirs.out_proj.weight.copy_(torch.eye(4))
    ours = DotProductAttention(0.0)(X, X, X, mask=attend)
    torch.testing.assert_close(F.scaled_dot_product_attention(X, X, X, attn_mask=attend[:, None]), ours)
    torch.testing.assert_close(theirs(X, X, X, key_padding_mask=~attend)[0], ours)           # turned round
    assert not torch.allclose(theirs(X, X, X, key_padding_mask=attend)[0], ours, atol=1e-3)


# ------------------------------------------------------------------ positions
@pytest.mark.parametrize("width", [1, 3, 5, 7])
def test_odd_width_does_not_crash_and_ends_with_a_sine(width):
    P = PositionalEncoding(width, 0.0)(torch.zeros(1, 3, width))[0]
    assert P[1, -1].item() == pytest.approx(math.sin(10000 ** (-(width - 1) / width)), abs=1e-6)


@pytest.mark.parametrize("move", [lambda m: m.half(), lambda m: m.to(torch.bfloat16), lambda m: m.to("meta")])
def test_the_table_goes_where_the_module_goes_and_stays_out_of_checkpoints(move):
    module = move(nn.Sequential(nn.Linear(4, 4), PositionalEncoding(4, 0.0)))
    assert module[1].P.dtype == module[0].weight.dtype and module[1].P.device == module[0].weight.device
    assert set(module.state_dict()) == {"0.weight", "0.bias"}            # so max_len may change afterwards


# ------------------------------------------------------------------ figures
def test_chinese_floods_no_log_with_missing_fonts(caplog, capfd):
    """Reported: naming one font that is not installed writes 'findfont: ...' for each label, with a path of the machine."""
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, logger="matplotlib"):
        warnings.simplefilter("error")
        figures.bundle(draw_heatmaps([[0.5, 0.5]], "键", "查询", key_labels=["苹果", "好吃"], query_labels=["很"], titles="权重"))
    assert not [record for record in caplog.records if "font" in record.getMessage() and record.levelno >= logging.WARNING]
    assert capfd.readouterr() == ("", "") and fonts.chinese_font() is not None


def test_the_colour_bar_does_not_lie_on_the_panels():
    """Reported: tight_layout pushes it over them."""
    figure = draw_heatmaps(torch.rand(2, 3, 4, 4), "Keys", "Queries", titles=["a", "b", "c"], key_labels=["apfelbaum"] * 4)
    figure.draw_without_rendering()
    boxes = [ax.get_tightbbox() for ax in figure.axes]
    assert len(boxes) == 7 and not any(boxes[-1].overlaps(box) for box in boxes[:-1])
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1


def test_weights_straight_from_a_model_in_training_can_be_drawn():
    """Reported: "Can't call numpy() on Tensor that requires grad", and bfloat16 that numpy does not know."""
    weights = torch.softmax(torch.randn(2, 3, 3, requires_grad=True), dim=-1).bfloat16()
    assert weights.requires_grad
    draw_heatmaps(weights, "Keys", "Queries")
    assert weights.requires_grad and weights.dtype == torch.bfloat16


# ------------------------------------------------------------------ nbval and the repository
def test_no_cell_counts_on_a_semicolon_to_be_silent():
    """nbval runs cells without history, where a trailing ; hides nothing."""
    for path, cells in notebooks("en"):
        for cell in cells:
            if cell.cell_type == "code":
                assert not cell.source.rstrip().endswith(";"), (path.name, cell.source)


# ------------------------------------------------------------------ content
def test_work_grows_with_the_square_of_the_length_and_with_the_width():
    """Reported: O(n^2) without d."""
    def flops(n, d):
        return count_flops(DotProductAttention(0.0), *[torch.ones(1, n, d)] * 3)
    assert flops(20, 8) == 4 * 20**2 * 8 and flops(40, 8) == 4 * flops(20, 8) and flops(20, 16) == 2 * flops(20, 8)


def test_values_stay_outside_the_softmax():
    torch.manual_seed(0)
    Q, K, V = torch.randn(1, 3, 4), torch.randn(1, 5, 4), torch.randn(1, 5, 4)
    attention = DotProductAttention(0.0)
    output = attention(Q, K, V)
    weights = attention.attention_weights
    torch.testing.assert_close(attention(Q, K, 100 * V), 100 * output)   # linear in V, which a softmax is not
    assert torch.equal(attention.attention_weights, weights)


def test_a_score_is_what_comes_before_the_softmax():
    torch.manual_seed(0)
    Q, K = torch.randn(1, 3, 4), torch.randn(1, 5, 4)
    for attention in (DotProductAttention(0.0), AdditiveAttention(4, 4, 8, 0.0)):
        scores = attention.score(Q, K)
        attention(Q, K, K)
        assert (scores.sum(-1) - 1).abs().min() > 1e-3
        torch.testing.assert_close(scores.softmax(-1).detach(), attention.attention_weights)
    for lang, wrong in (("en", r"scores? (that )?sums? to 1|softmax scores?\b"), ("zh", r"softmax 得分|得分之和为 1")):
        for path, cells in notebooks(lang):                              # in prose, too
            prose = " ".join(cell.source for cell in cells if cell.cell_type == "markdown")
            assert not re.search(wrong, prose), (path.name, re.search(wrong, prose).group())


def test_one_heads_width_and_the_whole_are_two_numbers():
    for heads in (1, 2, 4, 8):
        module = MultiHeadAttention(24, 24, 24, 24, heads, 0.0)
        assert sum(parameter.numel() for parameter in module.parameters()) == 4 * 24 * 24     # whatever the number of heads
        assert transpose_qkv(module.W_q(torch.ones(2, 3, 24)), heads).shape == (2 * heads, 3, 24 // heads)


def test_numbers_that_differ_between_machines_are_rounded_to_one_side():
    """Exact ties (1/8, 1/16) fall as they fall everywhere: a description is compared as text."""
    near = np.array([0.125, np.nextafter(0.125, 0), np.nextafter(0.125, 1)])
    assert set(figures.rounded(near, 2)) == {0.13}
