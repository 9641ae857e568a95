"""The checks of the checks: tests/mutants.toml can be put in as it stands, and a sample of it is noticed."""
import ast

import nbformat
import pytest

import mutants
from lessons import build

CATALOGUE = mutants.catalogue()
SAMPLE = [mutant for mutant in CATALOGUE if mutant.sample]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return mutants.copy_of_the_course(tmp_path_factory.mktemp("mutants"))


def test_every_mutant_is_one_small_change_of_what_stands_there():
    assert len({mutant.name for mutant in CATALOGUE}) == len(CATALOGUE) >= 60
    for mutant in CATALOGUE:
        text = (mutants.ROOT / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, mutant.name
        assert mutant.tests or mutant.file.startswith("lessons/"), mutant.name
        assert bool(mutant.lessons) != bool(mutant.unseen), f"{mutant.name}: where is it seen, or why is it not?"
        if mutant.file.endswith(".py"):
            ast.parse(text.replace(mutant.old, mutant.new))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", SAMPLE, ids=lambda mutant: mutant.name)
def test_the_unit_tests_and_nbval_each_notice_it_alone(mutant, course):
    assert mutants.unit_tests_notice(mutant, course) and mutants.nbval_notices(mutant, course)


@pytest.mark.slow
def test_nobody_complains_where_nothing_is_wrong(course):
    """Without this, a copy that never passes would notice every fault."""
    harmless = mutants.Mutant("nothing", "helpers/device.py", "import torch\n", "import torch\n", tests=("training",), lessons=("01",))
    assert mutants.unit_tests_notice(harmless, course) is None and mutants.nbval_notices(harmless, course) is None


def test_a_failing_cell_says_what_was_expected_what_came_and_where_to_look(course):
    lesson, path = build.lessons()[0], course / "notebooks" / "01_cross-attention.ipynb"
    notebook = nbformat.read(path, 4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:4]
    found = notebook.cells[3].outputs[0].text
    notebook.cells[3].outputs[0].text = expected = found.replace("cats      2.8284", "cats      2.1111")
    assert expected != found
    with mutants.restored(path):
        nbformat.write(notebook, path)
        said = mutants.run_pytest(course, *mutants.NBVAL, "notebooks/01_cross-attention.ipynb").stdout
    line = lesson.read_text(encoding="utf-8").splitlines().index("book_scores = []") + 1
    for words in ("cats      2.1111", "cats      2.8284", f"lessons/{lesson.name}:{line}"):
        assert words in said, said
