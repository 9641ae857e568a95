"""The notebooks themselves: what nbval takes for granted."""
import base64
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from lessons import build

NOTEBOOKS = {f"{lang}/{path.stem}": (path, lang) for path in build.lessons() for lang in build.LANGUAGES}
# Cells whose output nbval does not compare, with the reason that the cell gives. Every one has to be added here.
NOT_COMPARED = {}
# A user's folders, a temporary folder, a package's file, an object's address.
OF_A_MACHINE = re.compile(r"/home/|/Users/|/root/|/tmp/|/var/folders/|site-packages|\b[A-Z]:\\|0x[0-9a-f]{6,}|cuda|device=")


@pytest.fixture(params=NOTEBOOKS)
def built(request):
    path, lang = NOTEBOOKS[request.param]
    return nbformat.read(build.notebook_path(path, lang), 4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(cell):
    """What a cell printed and showed, pictures aside."""
    return [output.get("text") or output.data.get("text/plain", "") for output in cell.outputs]


@pytest.mark.parametrize("text", [r"C:\Users\me", "/home/me/x.py", "/Users/me", "/var/folders/ab", "<object at 0x7f3a2b1c>"])
def test_what_belongs_to_a_machine_is_recognised(text):
    assert OF_A_MACHINE.search(text) and not OF_A_MACHINE.search("tensor([0.5, 1.0]) 3 x 4")


def test_there_is_a_notebook_for_each_lesson_and_language_and_no_other():
    there = {path.relative_to(build.ROOT) for path in (build.ROOT / "notebooks").rglob("*.ipynb")
             if ".ipynb_checkpoints" not in path.parts}
    assert there == {build.notebook_path(path, lang).relative_to(build.ROOT) for path, lang in NOTEBOOKS.values()}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_matches_its_lesson(name):
    """Run `make build` when this fails: somebody edited a lesson, a helper that it shows, or a notebook."""
    path, lang = NOTEBOOKS[name]
    wanted, found = build.edition(path, lang), nbformat.read(build.notebook_path(path, lang), 4)
    assert [(cell.id, cell.cell_type, cell.source, cell.metadata) for cell in found.cells] == \
        [(cell.id, cell.cell_type, cell.source, cell.metadata) for cell in wanted.cells]
    assert found.metadata == wanted.metadata


def test_every_cell_ran_once_in_order(built):
    cells = code_cells(built)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)) and len(cells) > 10


def test_outputs_are_there_and_would_be_the_same_elsewhere(built):
    for cell in code_cells(built):
        for output in cell.outputs:
            assert output.output_type != "error" and output.get("name") != "stderr", cell.source
            data = output.get("data", {})
            assert "application/vnd.jupyter.widget-view+json" not in data or "image/png" in data, cell.source
            if "image/png" in data:
                assert re.match("heatmap|plot|picture", data["text/plain"]), cell.source   # what nbval compares
                assert output.metadata["image/png"]["alt"] == data["text/plain"]
        assert not any(OF_A_MACHINE.search(text) for text in texts(cell)), cell.source
        if re.search(r"^\s*(print|show_heatmaps|plot|show|check\.\w+)\(", cell.source, re.M) and not cell.source.startswith("#@save"):
            assert cell.outputs, cell.source


def test_metadata_is_what_every_front_end_takes(built):
    assert built.metadata.kernelspec.name == "python3" and "widgets" not in built.metadata
    nbformat.validate(built)


def test_code_fits_a_page_beside_an_open_file_browser(built):
    for cell in code_cells(built):
        assert max(map(len, cell.source.splitlines())) <= 96, cell.source


def test_a_notebook_is_small_enough_for_a_preview():
    for path, lang in NOTEBOOKS.values():
        assert build.notebook_path(path, lang).stat().st_size < 1_000_000


def test_cells_that_are_not_compared_are_counted_and_say_why(built):
    for cell in code_cells(built):
        assert "raises-exception" not in cell.metadata.get("tags", []) and "NBVAL_" not in cell.source
        if any(tag.startswith("nbval") for tag in cell.metadata.get("tags", [])):
            assert cell.id in NOT_COMPARED and NOT_COMPARED[cell.id] in cell.source


@pytest.mark.parametrize("path", build.lessons(), ids=lambda path: path.stem)
def test_both_editions_run_the_same_code_and_come_to_the_same_results(path):
    english, chinese = (nbformat.read(build.notebook_path(path, lang), 4) for lang in ("en", "zh"))
    assert [cell.cell_type for cell in english.cells] == [cell.cell_type for cell in chinese.cells]
    for en, zh in zip(code_cells(english), code_cells(chinese)):
        assert en.source.replace('course.start("en")', 'course.start("zh")') == zh.source
        if en.source.startswith("check."):
            assert texts(en)[0].startswith("Waiting") and texts(zh)[0].startswith("等你作答")
        else:
            assert texts(en) == texts(zh), en.source


def test_headings_tables_and_formulas_agree_between_editions():
    for path in build.lessons():
        shape = {}
        for lang in build.LANGUAGES:
            cells = [cell.source for cell in build.edition(path, lang).cells if cell.cell_type == "markdown"]
            shape[lang] = [(re.findall(r"(?m)^#+ ", text), re.findall(r"(?m)^\|[-|]+\|$", text), re.findall(r"\$\$.+?\$\$", text, re.S))
                           for text in cells]
        assert shape["en"] == shape["zh"]


@pytest.mark.slow
def test_pytest_collects_every_code_cell():
    """nbval passes over folders and files without a word; an empty collection would be green."""
    run = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", "-o",
                          "addopts=--nbval --nbval-current-env", "notebooks"],
                         cwd=build.ROOT, capture_output=True, text=True, encoding="utf-8")
    for path, lang in NOTEBOOKS.values():
        where = build.notebook_path(path, lang)
        name = where.relative_to(build.ROOT).as_posix()
        assert run.stdout.count(f"{name}::") == len(code_cells(nbformat.read(where, 4)))


def test_prose_has_no_formula_that_github_breaks():
    """GitHub eats `\\_` and takes two subscripts in one line of inline maths for emphasis."""
    for path, lang in NOTEBOOKS.values():
        for cell in build.edition(path, lang).cells:
            prose = re.sub(r"```.*?```|\$\$.*?\$\$", "", cell.source, flags=re.S) if cell.cell_type == "markdown" else ""
            for formula in re.findall(r"\$[^$\n]+\$", re.sub(r"`[^`]*`", "", prose)):
                assert r"\_" not in formula, formula


def test_readmes_list_every_lesson():
    for name, lang in (("README.md", "en"), ("README.zh-CN.md", "zh")):
        text = (build.ROOT / name).read_text(encoding="utf-8")
        for path in build.lessons():
            course, _ = build.read_lesson(path)
            link = build.notebook_path(path, lang).relative_to(build.ROOT).as_posix()
            row = next((line for line in text.splitlines() if f"({link})" in line), "")
            assert course["title"][lang] in row and f"{course['minutes']} min" in row.replace("分钟", "min"), (name, path.name)
        for target in re.findall(r"\]\(([^)#:]+)\)|src=\"([^\":]+)\"", text):
            assert Path(build.ROOT, target[0] or target[1]).exists(), (name, target)


def test_the_picture_in_the_readmes_is_one_of_the_course():
    pictures = {base64.b64decode(output.data["image/png"]) for path, lang in NOTEBOOKS.values()
                for cell in code_cells(nbformat.read(build.notebook_path(path, lang), 4)) if "readme" in cell.metadata.get("tags", [])
                for output in cell.outputs if "image/png" in output.get("data", {})}
    assert pictures == {(build.ROOT / "README.png").read_bytes()}


def test_every_requirement_says_why_and_conda_takes_the_same_file():
    lines = (build.ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert all("#" in line for line in lines if line and line != "-e ." and "python_version" not in line)
    assert "-r requirements.txt" in (build.ROOT / "environment.yml").read_text(encoding="utf-8")
