"""Are the checks sharp? Put one small fault at a time into a copy of the course and see which checks notice it.

    make mutants                  every fault of tests/mutants.toml
    make mutants ONLY="mask"      those whose name or file contains the word

Two checks are asked, each alone. The unit tests get the faulty file. nbval gets notebooks that have the fault in their
cells, too (where a cell shows a definition, a notebook runs its own copy), with the outputs as they are stored: would
someone who upgrades a package, or changes a line and does not rebuild, be told?
"""
import contextlib
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nbformat

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = Path(__file__).with_suffix(".toml")
NOT_OF_THE_COURSE = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".pytest_cache", ".ipynb_checkpoints", ".hypothesis", "*.egg-info")


@dataclass(frozen=True)
class Mutant:
    """old becomes new in one file. tests: the test files that should notice, without test_ and .py.

    lessons: where a learner would see the fault, such as "01" or "zh/01"; else unseen says why no learner would.
    """
    name: str
    file: str
    old: str
    new: str
    tests: tuple
    lessons: tuple = ()
    unseen: str = ""
    sample: bool = False


def catalogue():
    """All mutants. A mutant without tests of its own takes those of its file."""
    tables = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    mutants = []
    for entry in tables["mutant"]:
        tests = entry.pop("tests", tables["tests"].get(entry["file"], []))
        mutants.append(Mutant(tests=tuple(tests), lessons=tuple(entry.pop("lessons", ())), **entry))
    return mutants


# ------------------------------------------------------------------ one fault in one copy
def copy_of_the_course(folder):
    course = Path(folder, "course")
    shutil.copytree(ROOT, course, ignore=NOT_OF_THE_COURSE)
    return course


def put(mutant, course):
    """The fault in its file."""
    path = course / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: stands {text.count(mutant.old)} times in {mutant.file}, not once:\n{mutant.old}")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def put_into_notebook(mutant, notebook):
    """The fault in the cells of a notebook that show the faulty code; the outputs stay."""
    cells = nbformat.read(notebook, 4)
    for cell in cells.cells:
        shows = mutant.file.startswith("lessons/") or cell.source.startswith("#@save")
        if cell.cell_type == "code" and shows:
            cell.source = (cell.source + "\n").replace(mutant.old, mutant.new).rstrip()
    nbformat.write(cells, notebook)


@contextlib.contextmanager
def restored(*paths):
    """Afterwards these files are what they were."""
    before = {path: path.read_bytes() for path in paths}
    try:
        yield
    finally:
        for path, content in before.items():
            path.write_bytes(content)


def notebook_of(lesson):
    """01 or zh/01, as a path from the root."""
    folder, _, number = lesson.rpartition("/")
    return next(path.relative_to(ROOT) for path in (ROOT / "notebooks" / folder).glob(f"{number}_*.ipynb"))


# ------------------------------------------------------------------ asking the checks
NBVAL = ("--nbval", "--nbval-current-env", "--nbval-cell-timeout=200")


def run_pytest(course, *arguments):
    """pytest in a copy of the course, up to the first failure, with the copy's helpers."""
    environment = {**os.environ, "PYTHONPATH": str(course), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--color=no", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    return subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, encoding="utf-8")


def noticed(course, *arguments):
    """The first test that fails in that copy, or None where all pass."""
    run = run_pytest(course, *arguments)
    if run.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(?:notebooks/)?(.+?::.+?)(?: - .*)?$", run.stdout, re.M)    # ERROR: in a fixture
    if run.returncode != 1 or not failed:                                # an error of pytest, not a test that fails
        raise RuntimeError(f"pytest stopped with {run.returncode}:\n{run.stdout[-3000:]}\n{run.stderr[-2000:]}")
    return failed[1]


def unit_tests_notice(mutant, course):
    with restored(course / mutant.file):
        put(mutant, course)
        if mutant.file.startswith("lessons/"):                           # changed and not rebuilt
            return noticed(course, "tests/test_notebooks.py", "-k", f"a_notebook_matches_its_lesson and {Path(mutant.file).stem}")
        return noticed(course, *[f"tests/test_{name}.py" for name in mutant.tests])


def nbval_notices(mutant, course):
    for lesson in mutant.lessons:
        notebook = course / notebook_of(lesson)
        with restored(course / mutant.file, notebook):
            put(mutant, course)
            put_into_notebook(mutant, notebook)
            cell = noticed(course, *NBVAL, str(notebook.relative_to(course)))
        if cell is not None:
            return cell
    return None


def check_unharmed(course, mutants):
    """The checks pass where nothing is wrong; otherwise it would mean nothing that they fail."""
    tests = sorted({f"tests/test_{name}.py" for mutant in mutants for name in mutant.tests})
    notebooks = sorted({str(notebook_of(lesson)) for mutant in mutants for lesson in mutant.lessons})
    failed = (tests and noticed(course, *tests)) or (notebooks and noticed(course, *NBVAL, *notebooks))
    if failed:
        raise RuntimeError(f"without any fault, {failed} fails already")


# ------------------------------------------------------------------ all of them
def tried(mutants, workers=2):
    """Yield (mutant, what the unit tests noticed, what nbval noticed), as they come in."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        copies = queue.Queue()
        for i in range(workers):
            copies.put(copy_of_the_course(Path(folder, str(i))))

        def one(mutant):
            course = copies.get()
            try:
                return mutant, unit_tests_notice(mutant, course), nbval_notices(mutant, course)
            finally:
                copies.put(course)
        control = copies.get()
        check_unharmed(control, mutants)
        copies.put(control)
        yield from pool.map(one, mutants)


def faults_of_the_checks(mutant, unit, nbval):
    """What a mutant shows to be wrong with the checks, in words; nothing where they are sharp."""
    if not unit and not nbval:
        return "NOBODY noticed"
    if not unit:
        return "the unit tests did not notice"
    return "nbval did not notice" if mutant.lessons and not nbval else ""


def main():
    word = os.environ.get("ONLY", "")
    mutants = [mutant for mutant in catalogue() if word in mutant.name or word in mutant.file]
    start, faults, counts = time.monotonic(), [], {"both": 0, "unit tests only": 0, "nbval only": 0, "nobody": 0}
    for mutant, unit, nbval in tried(mutants):
        fault = faults_of_the_checks(mutant, unit, nbval)
        faults += [fault] if fault else []
        counts["both" if unit and nbval else "unit tests only" if unit else "nbval only" if nbval else "nobody"] += 1
        print(f"{mutant.file}: {mutant.name}\n    unit tests: {unit or '-'}\n    nbval: {nbval or mutant.unseen or '-'}" +
              (f"\n    >>> {fault}" if fault else ""), flush=True)
    print(f"\n{len(mutants)} mutants in {(time.monotonic() - start) / 60:.0f} min: " +
          ", ".join(f"{what} {count}" for what, count in counts.items()))
    sys.exit(f"{len(faults)} faults of the checks" if faults else 0)


if __name__ == "__main__":
    main()
