"""The builder: what a lesson may contain, and what becomes of it."""
import inspect
import re
import subprocess
import sys
import textwrap

import nbformat
import pytest

import helpers
from lessons import build

FRONT = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  name: python3
  display_name: Python 3
course:
  title:
    en: 09 A lesson
    zh: 09 一课
  minutes: 5
  needs: [d2l, seaborn]
---

"""
PROSE = '+++ {"lang": "en"}\n\nEnglish\n\n+++ {"lang": "zh"}\n\n中文\n\n'


def code(text, options=""):
    return f"````{{code-cell}} ipython3\n{options}{text}\n````\n\n"


@pytest.fixture
def lesson(tmp_path):
    def write(body):
        path = tmp_path / "09_a-lesson.md"
        path.write_text(FRONT + body, encoding="utf-8")
        return path
    return write


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Build into a folder of the test's own."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "LANGUAGES", {"en": tmp_path / "notebooks", "zh": tmp_path / "notebooks" / "zh"})
    for name in ("pyproject.toml", "requirements.txt"):
        (tmp_path / name).write_text((build.Path(build.__file__).parent.parent / name).read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


@pytest.fixture
def with_address(elsewhere):
    pyproject = elsewhere / "pyproject.toml"
    text = re.sub(r"\[project.urls\]\n", '[project.urls]\nRepository = "https://github.com/someone/attention"\n',
                  pyproject.read_text(encoding="utf-8"))
    pyproject.write_text(re.sub(r"(?m)^# Repository.*\n", "", text), encoding="utf-8")


def sources(path, lang):
    return [cell.source for cell in build.edition(path, lang).cells]


def test_each_edition_gets_its_language_and_all_code(lesson):
    path = lesson(PROSE + code("x = 1"))
    assert sources(path, "en") == ["English", "x = 1"] and sources(path, "zh") == ["中文", "x = 1"]
    assert build.edition(path, "zh").metadata.title == "09 一课"


def test_save_puts_in_the_source_of_helpers_definition(lesson):
    path = lesson(PROSE + code("#@save masked_softmax"))
    assert sources(path, "en")[1] == "#@save\n" + inspect.getsource(helpers.masked_softmax).rstrip()


def test_a_solution_is_folded_in_the_language_of_the_edition(lesson):
    path = lesson(PROSE + code("answer = 42", ":tags: [solution]\n\n"))
    for lang, summary in (("en", "Solution"), ("zh", "参考答案")):
        cell = build.edition(path, lang).cells[1]
        assert cell.cell_type == "markdown" and "answer = 42" in cell.source
        assert cell.source.startswith(f"<details>\n<summary>{summary}</summary>") and cell.source.endswith("</details>")


@pytest.mark.parametrize("body, words", [
    (PROSE + '+++ {"lang": "en"}\n\nalone\n\n' + code("x = 1"), "2 English and 1 Chinese"),
    ('+++ {"lang": "en"}\n\nalone at the end', "1 English and 0 Chinese"),
    (PROSE + '+++ {"lang": "fr"}\n\nfrançais\n\n' + code("x = 1"), "fr"),
    (PROSE + "- a list\n\n  ```{code-cell} ipython3\n  x = 1\n  ```\n", "would not run"),
    (PROSE + code(""), "empty"),
])
def test_what_would_be_lost_without_a_word_is_refused(lesson, body, words):
    with pytest.raises(ValueError, match=words):
        build.read_lesson(lesson(body))


def test_front_matter_must_be_whole(lesson):
    path = lesson(PROSE)
    path.write_text(path.read_text(encoding="utf-8").replace("  minutes: 5\n", ""), encoding="utf-8")
    with pytest.raises(ValueError, match="minutes"):
        build.read_lesson(path)


def test_ids_are_unique_and_stay_when_other_cells_change(lesson):
    before = [cell.id for cell in build.edition(lesson(PROSE + code("x = 1") + PROSE + code("x = 1")), "en").cells]
    after = [cell.id for cell in build.edition(lesson(PROSE + code("y = 2") + PROSE + code("x = 1")), "en").cells]
    assert len(set(before)) == len(before) == 4
    assert before[0] == after[0] and before[1] in after


@pytest.mark.slow
def test_building_twice_changes_no_byte_and_leaves_nothing_of_the_machine(lesson, elsewhere):
    path = lesson(PROSE + code("#@setup") + code(textwrap.dedent("""\
        import torch
        from helpers import show_heatmaps, train
        show_heatmaps(torch.eye(3), "Keys", "Queries")
        losses = train(torch.nn.Linear(1, 1), lambda model, batch: model(batch).square().mean(), [torch.ones(2, 1)] * 3, 3, 0.1)
        print("done")""")))
    built = []
    for _ in range(2):
        build.build(path)
        built.append([build.notebook_path(path, lang).read_bytes() for lang in build.LANGUAGES])
    assert built[0] == built[1]
    notebook = nbformat.reads(built[0][0].decode("utf-8"), 4)
    outputs = notebook.cells[2].outputs
    assert [output.output_type for output in outputs] == ["display_data", "stream"]      # no progress bar
    assert "widgets" not in notebook.metadata and str(elsewhere).encode() not in built[0][0]
    assert outputs[0].metadata["image/png"].alt.startswith("heatmap: 3 x 3")


def test_a_cell_that_writes_to_stderr_stops_the_build(lesson, elsewhere):
    with pytest.raises(ValueError, match="stderr"):
        build.build(lesson(PROSE + code("import warnings; warnings.warn('watch out')")))


# ------------------------------------------------------------------ badge and set-up cell
def test_without_an_address_there_is_no_badge_and_set_up_says_what_to_do(lesson, elsewhere, monkeypatch):
    monkeypatch.setattr(build, "repository", lambda: None)
    path = lesson(PROSE + code("#@setup"))
    first, setup = sources(path, "en")
    assert first == "English" and "colab" not in setup.lower().replace("in colab", "")
    with pytest.raises(ImportError, match="pip install -r requirements.txt"):
        exec(setup.replace("from helpers import course", "raise ImportError", 1), {})


def test_the_badge_leads_to_the_notebook_itself(lesson, with_address):
    path = lesson(PROSE)
    assert ("https://colab.research.google.com/github/someone/attention/blob/main/notebooks/09_a-lesson.ipynb)"
            in sources(path, "en")[0])
    assert "/someone/attention/blob/main/notebooks/zh/09_a-lesson.ipynb)" in sources(path, "zh")[0]


@pytest.mark.parametrize("address, place", [
    ("https://github.com/someone/attention", "someone/attention"), ("https://github.com/someone/attention.git/", "someone/attention"),
    ("https://gitlab.com/someone/attention", None), (None, None)])
def test_badges_of_all_lessons_lead_to_notebooks_that_exist(address, place, monkeypatch):
    monkeypatch.setattr(build, "project", lambda: {"urls": {"Repository": address} if address else {}})
    for lesson, lang in ((lesson, lang) for lesson in build.lessons() for lang in build.LANGUAGES):
        badge = build.colab_badge(build.notebook_path(lesson, lang))
        found = badge and re.search(rf"\(https://colab\.research\.google\.com/github/{place}/blob/main/(.*)\)$", badge)[1]
        assert found == (build.notebook_path(lesson, lang).relative_to(build.ROOT).as_posix() if place else None)
        assert found is None or (build.ROOT / found).is_file()


def test_set_up_fits_a_page_in_every_lesson(monkeypatch):
    monkeypatch.setattr(build, "repository", lambda: "https://github.com/someone/a-course-on-attention")
    for lesson in build.lessons():
        lines = build.setup_code(build.read_lesson(lesson)[0]["needs"], "en").splitlines()
        assert max(map(len, lines)) <= 96, lines


def test_set_up_installs_what_is_missing_beside_helpers_too(lesson, with_address, monkeypatch):
    """In Colab, after another lesson that needed less, or in a clone of the repository."""
    import importlib.util
    setup, commands, find_spec = sources(lesson(PROSE + code("#@setup")), "en")[1], [], importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "d2l" else find_spec(name))
    monkeypatch.setattr(subprocess, "run", lambda command, **options: commands.append(command[3:]) or subprocess.CompletedProcess(command, 0))
    exec(setup, {})
    assert commands == [["install", "--no-deps", "d2l==0.17.0"]]


def test_set_up_shows_why_an_installation_failed(lesson, with_address, monkeypatch):
    import importlib.util
    setup = sources(lesson(PROSE + code("#@setup")), "en")[1]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", lambda command, **options: subprocess.CompletedProcess(command, 1, stderr="no network"))
    with pytest.raises(RuntimeError, match="no network"):
        exec(setup, {})


def test_set_up_does_nothing_where_helpers_import(lesson, with_address, monkeypatch):
    setup = sources(lesson(PROSE + code("#@setup")), "zh")[1]

    def no_process(*arguments, **options):
        raise AssertionError("set-up started a process")
    monkeypatch.setattr(subprocess, "run", no_process)
    try:
        exec(setup, {})
        assert helpers.course.language == "zh"
    finally:
        helpers.course.start("en")


def test_elsewhere_set_up_installs_what_is_missing_and_only_that(lesson, with_address, tmp_path, monkeypatch):
    """In a folder with an empty `helpers/`, without the course, with seaborn, without d2l."""
    setup = sources(lesson(PROSE + code("#@setup")), "en")[1]
    (tmp_path / "work" / "helpers").mkdir(parents=True)
    script = textwrap.dedent("""\
        import importlib.util, subprocess, sys
        sys.path[:] = [path for path in sys.path if "site-packages" not in path and path != ROOT] + [""]
        sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
        find_spec = importlib.util.find_spec
        importlib.util.find_spec = lambda name: "there" if name == "seaborn" else find_spec(name)
        class Done: returncode = 0
        def run(command, **options):
            print(command[1:])
            open("helpers/course.py", "w", encoding="utf-8").write("def start(lang): print('started', lang)")
            return Done
        subprocess.run = run
        """) + setup
    script = f"ROOT = {str(build.Path(build.__file__).parent.parent)!r}\n" + script
    done = subprocess.run([sys.executable, "-I", "-c", script], cwd=tmp_path / "work", capture_output=True, text=True,
                          encoding="utf-8")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "['-m', 'pip', 'install', '--no-deps', 'd2l==0.17.0', "
        "'attention-course-helpers @ git+https://github.com/someone/attention@main']", "started en"]


def test_an_unknown_lesson_is_named_and_nothing_is_built():
    with pytest.raises(SystemExit, match="there is no lesson 99"):
        build.main(["99"])


def test_requirements_come_from_requirements_txt():
    assert build.requirement("d2l") == "d2l==0.17.0"
    with pytest.raises(ValueError, match="numba"):
        build.requirement("numba")
