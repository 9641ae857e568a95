"""The lessons as a learner has them: opened in JupyterLab, run from top to bottom, touched, and their exercises solved."""
import time

import nbclient
import nbformat
import pytest

from lessons import build

LESSONS = [build.notebook_path(path, "en") for path in build.lessons()] + [build.notebook_path(build.lessons()[0], "zh")]
OWN_WORDS = {"sentence": "the black cat sees a small dog", "text": "小米 很 好吃", "noun": "很"}     # for a knob's line of text


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.relative_to(build.ROOT / "notebooks").with_suffix("").as_posix())
def test_a_lesson_runs_and_answers(open_notebook, path, capsys):
    notebook = open_notebook(path.relative_to(build.ROOT / "notebooks").as_posix())
    first, all_of_it = notebook.run_all()
    with capsys.disabled():
        print(f"\n{path.stem}: first figure after {first:.1f} s, all cells after {all_of_it:.1f} s")
    cells = notebook.cells()
    for cell in cells:
        assert cell["execution_count"] and not any(output["output_type"] == "error" for output in cell["outputs"]), cell
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}):
                assert output["metadata"]["image/png"]["alt"] == "".join(output["data"]["text/plain"])
    for cell in cells:
        if shows(cell, "text/html", "attention-explorer"):
            touch_explorer(notebook.show(cell))
        if "knob(" in "".join(cell["source"]):
            touch_knob(notebook.show(cell))


def shows(cell, kind, words):
    return any(words in "".join(output["data"][kind]) for output in cell["outputs"] if kind in output.get("data", {}))


def touch_explorer(place):
    """Each control that this explorer has changes what it shows."""
    explorer = place.locator(".attention-explorer")
    table, status = explorer.locator("table"), explorer.locator("[role=status]")
    before = status.inner_text()
    explorer.locator(".queries li").last.hover()
    assert status.inner_text() != before and explorer.locator("path").count()

    def changes(control, key):
        before = table.inner_html()
        control.press(key)
        assert table.inner_html() != before

    for tick in explorer.locator("input[type=checkbox]").all():
        changes(tick, "Space")
    for slider in explorer.locator("input[type=range]").all():
        changes(slider, "ArrowLeft")
    others = explorer.get_by_role("radio", checked=False)
    if others.count():
        changes(others.first, "Space")


def touch_knob(place):
    """Each control under a figure draws a picture that was not there before."""
    for control in place.locator(".widget-dropdown select, .widget-checkbox input, .widget-text input").all():
        if control.evaluate("control => control.localName") == "select":
            options = control.locator("option").all_inner_texts()
            choose = lambda: control.select_option(next(option for option in options if option != control.input_value()))  # noqa: E731
        elif control.get_attribute("type") == "checkbox":
            choose = control.click
        else:
            name = control.evaluate("control => control.labels[0].textContent")
            choose = lambda: (control.fill(OWN_WORDS[name]), control.press("Enter"))  # noqa: E731
        before = picture(place)
        choose()
        until(lambda: picture(place) != before)
    assert place.locator(".widget-html img").get_attribute("alt").startswith(("heatmap", "plot"))


def picture(place):
    return place.locator(".widget-html").evaluate_all("parts => parts.map(part => part.innerHTML).join()").replace("drawing …", "")


def until(true, seconds=30):
    start = time.monotonic()
    while not true():
        assert time.monotonic() - start < seconds, "nothing changed"
        time.sleep(0.1)


@pytest.mark.parametrize("lang, right, wrong", [("en", "Right", "Not yet"), ("zh", "正确", "还不对")])
def test_an_exercise_says_right_or_gives_a_hint(open_notebook, lang, right, wrong):
    lesson = build.lessons()[0]
    solution = next(cell.source for cell in build.read_lesson(lesson)[1] if "solution" in cell.metadata.get("tags", []))
    notebook = open_notebook(build.notebook_path(lesson, lang).relative_to(build.ROOT / "notebooks").as_posix())
    cells = notebook.cells()
    at = next(i for i, cell in enumerate(cells) if "".join(cell["source"]).startswith("check."))
    for cell in cells[:2]:                                               # set-up and imports
        notebook.run(cell)
    answers = (("def my_masked_softmax(scores, valid_lens):\n    ...", "Waiting" if lang == "en" else "等你作答"), (solution, right),
               ("def my_masked_softmax(scores, valid_lens):\n    return torch.softmax(scores, dim=-1)", wrong))
    for answer, said in answers:
        notebook.run(cells[at - 1], answer)
        assert notebook.run(cells[at]).startswith(said)


# ------------------------------------------------------------------ an explorer and a knob, trusted and not, with a kernel and without
@pytest.fixture(scope="module")
def touched(jupyter):
    """A small notebook, run elsewhere, so that this JupyterLab does not trust it."""
    cells = ['from helpers import course, draw_heatmaps, explore, knob\ncourse.start("en")',
             'explore([[0.75, 0.25], [0.0, 1.0]], ["chat", "noir"], ["cat", "black"])',
             'def picture(sharp=1, tidy=True, words="a b"):\n'
             '    if len(words.split()) != 2:\n        raise ValueError(f"two words, please; got {words!r}")\n'
             '    weights = [[1 / (1 + sharp), sharp / (1 + sharp)], [1, 0]][::1 if tidy else -1]\n'
             '    return draw_heatmaps(weights, "Keys", "Queries", key_labels=words.split())\n'
             'knob(picture, sharp=[1, 2, 4], tidy=[False, True], words=str)']
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=build.METADATA)
    nbclient.NotebookClient(notebook, kernel_name="python3").execute()
    nbformat.write(notebook, jupyter[1] / "touched.ipynb")
    return "touched.ipynb"


def live(notebook):
    return notebook.page.evaluate("[...document.querySelectorAll('.attention-explorer')].filter(host => host.shadowRoot).length")


def test_untrusted_it_is_the_picture_and_nothing_else(open_notebook, touched):
    notebook = open_notebook(touched)
    explorer, knob = notebook.cells()[1:]
    assert live(notebook) == 0
    for cell in (explorer, knob):
        place = notebook.show(cell)
        assert place.locator(".jp-OutputArea img").is_visible() and place.locator(".jp-OutputArea").inner_text().strip("[]: 0123456789\n") == ""


def test_run_it_answers_and_keeps_its_keys_from_jupyterlab(open_notebook, touched):
    notebook = open_notebook(touched)
    notebook.run_all()
    explorer, knob = notebook.cells()[1:]
    place = notebook.show(explorer)
    place.locator(".queries li").first.click()
    for key in ("ArrowDown", "d", "d", "x", "a"):                        # in JupyterLab's command mode these move, delete, cut, add
        notebook.page.keyboard.press(key)
    assert place.locator("[role=status]").inner_text() == "noir looks at black 1.00" and len(notebook.cells()) == 3
    place = notebook.show(knob)
    for label, act, said in (("sharp", lambda control: control.select_option("4"), "0.20 0.80"),
                             ("tidy", lambda control: control.click(), "1.00 0.00 / 0.20"),
                             ("words", lambda control: (control.fill("p q"), control.press("Enter")), "p | q")):
        act(place.get_by_label(label))
        until(lambda: said in (place.locator(".widget-html img").get_attribute("alt") or ""))
    place.locator(".noUi-handle").press("ArrowLeft")
    until(lambda: "0.33 0.67" in place.locator(".widget-html img").get_attribute("alt"))
    place.get_by_label("words").fill("p q r")
    place.get_by_label("words").press("Enter")
    until(lambda: "two words, please" in place.inner_text() and place.locator(".widget-html img").count() == 0)


def test_saved_and_opened_again_it_answers_before_anything_is_run(open_notebook, touched, jupyter):
    notebook = open_notebook(touched)
    notebook.run_all()
    notebook.command("docmanager:save")
    notebook.page.wait_for_function("window.done")
    notebook.close()
    for address in (f"{jupyter[0]}/lab/tree/{touched}?reset", f"{jupyter[0]}/notebooks/{touched}"):      # JupyterLab, Notebook 7
        notebook.page.goto(address)
        host = notebook.page.locator(".attention-explorer")
        host.locator(".queries li").first.click()
        assert host.locator("[role=status]").inner_text() == "chat looks at cat 0.75, black 0.25"
