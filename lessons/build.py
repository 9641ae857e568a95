"""Build the notebooks from the lessons: python lessons/build.py [01 02 ...]

A lesson is a jupytext MyST notebook in both languages; notebooks/ gets its English edition, notebooks/zh/ the Chinese.
See "How a lesson is written" in README.md for what a lesson may contain.
"""
import base64
import copy
import hashlib
import inspect
import os
import re
import sys
from pathlib import Path

import jupytext
import nbclient
import nbformat

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = {"en": ROOT / "notebooks", "zh": ROOT / "notebooks" / "zh"}
BRANCH = "main"
METADATA = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"}}
WIDGET = "application/vnd.jupyter.widget-view+json"


def lessons():
    """The paths of all lessons, in order."""
    return sorted((ROOT / "lessons").glob("[0-9][0-9]_*.md"))


def notebook_path(lesson, lang):
    return LANGUAGES[lang] / f"{lesson.stem}.ipynb"


# ------------------------------------------------------------------ reading
def read_lesson(path):
    """The lesson's front matter under `course`, and its cells, checked, each with an id of its own."""
    notebook = jupytext.read(path)
    course = notebook.metadata.get("course") or {}
    missing = {"title", "minutes", "needs"} - set(course)
    if missing:
        raise ValueError(f"{path.name}: front matter lacks course: {', '.join(sorted(missing))}")
    check_cells(path.name, notebook.cells)
    give_ids(notebook.cells)
    return course, notebook.cells


def check_cells(name, cells):
    """Refuse what would be lost or shown wrongly without a word: jupytext accepts all of it."""
    count = {"en": 0, "zh": 0}
    for cell in [*cells, nbformat.v4.new_code_cell("pass")]:
        start = cell.source[:60]
        lang = cell.metadata.get("lang")
        if not cell.source.strip():
            raise ValueError(f"{name}: an empty cell, {cell.metadata}")
        if cell.cell_type == "code":
            if count["en"] != count["zh"]:
                raise ValueError(f"{name}: {count['en']} English and {count['zh']} Chinese cells before {start!r}")
            count = {"en": 0, "zh": 0}
            if lang or re.match(r":\w+:", cell.source):
                raise ValueError(f"{name}: code has no language, and no first line like an option: {start!r}")
        elif "{code-cell" in cell.source:
            raise ValueError(f"{name}: code inside prose would not run: {start!r}")
        elif lang in count:
            count[lang] += 1
        elif lang is not None:
            raise ValueError(f"{name}: lang is en, zh or absent, not {lang!r}")


def give_ids(cells):
    """Ids that stay the same while the code does: a hash of the code, and for prose that of the code before it."""
    used, last = set(), "top"
    for cell in cells:
        if cell.cell_type == "code":
            last = wanted = hashlib.sha1(cell.source.encode()).hexdigest()[:10]
        else:
            wanted = f"{last}-{cell.metadata.get('lang', 'both')}"
        cell.id, n = wanted, 1
        while cell.id in used:
            n += 1
            cell.id = f"{wanted}-{n}"
        used.add(cell.id)


def line_of_cell(path, n):
    """The line of a lesson in which the code of its notebook's n-th code cell begins, from 0; solutions are not counted."""
    lines = path.read_text(encoding="utf-8").splitlines()
    fences = [i for i, line in enumerate(lines, 1) if line.startswith("```{code-cell}") and lines[i] != ":tags: [solution]"]
    code = fences[n] + 1
    while re.match(r":\w+:|$", lines[code - 1]):                          # options, and the blank line after them
        code += 1
    return code


# ------------------------------------------------------------------ one edition
def edition(path, lang):
    """The notebook of a lesson in one language, not yet executed."""
    course, cells = read_lesson(path)
    notebook = nbformat.v4.new_notebook(metadata=copy.deepcopy(METADATA))
    notebook.metadata["title"] = course["title"][lang]
    links = course_map(path, lang)
    for cell in cells:
        if cell.metadata.pop("lang", lang) != lang:
            continue
        if cell.cell_type == "markdown":
            cell.source = joined(cell.source).replace("[[course map]]", links)
        elif "solution" in cell.metadata.get("tags", []):
            cell = folded(cell, lang)
        elif cell.source == "#@setup":
            cell.source = setup_code(course["needs"], lang)
        elif cell.source.startswith("#@save "):
            cell.source = saved_source(cell.source.split()[1])
        notebook.cells.append(cell)
    badge = colab_badge(notebook_path(path, lang))
    if badge:
        notebook.cells[0].source = badge + "\n\n" + notebook.cells[0].source
    return notebook


def joined(text):
    """Without line breaks between Chinese characters: a page would show each of them as a space."""
    chinese = "[\u2014\u2018-\u201d\u2026\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
    return re.sub(f"(?<={chinese})\n(?=[*]*{chinese})|(?<={chinese}[*])\n(?={chinese})", "", text)


def saved_source(name):
    """The source of helpers' definition of that name: the learner reads and reruns exactly what lessons import."""
    import helpers
    return f"#@save\n{inspect.getsource(getattr(helpers, name)).rstrip()}"


def folded(cell, lang):
    """A solution, as prose that opens with a click."""
    summary = {"en": "Solution", "zh": "参考答案"}[lang]
    return nbformat.v4.new_markdown_cell(
        f"<details>\n<summary>{summary}</summary>\n\n```python\n{cell.source}\n```\n\n</details>", id=cell.id)


def course_map(path, lang):
    """All lessons as a list of links, this one in bold."""
    lines = []
    for other in lessons():
        title = jupytext.read(other).metadata["course"]["title"][lang]
        lines.append(f"- **{title}**" if other == path else f"- [{title}]({other.stem}.ipynb)")
    return "\n".join(lines)


# ------------------------------------------------------------------ set-up cell and badge
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def repository():
    """The repository's address, from pyproject.toml's [project.urls]; None while it is not set."""
    return project().get("urls", {}).get("Repository", "").rstrip("/") or None


def colab_badge(path):
    """A badge that opens the notebook in Colab; None without an address, or with one of another host: Colab opens GitHub's."""
    address = repository() or ""
    if not address.startswith("https://github.com/"):
        return None
    place = f"{address.removeprefix('https://github.com/').removesuffix('.git')}/blob/{BRANCH}/{path.relative_to(ROOT).as_posix()}"
    return ("[![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
            f"(https://colab.research.google.com/github/{place})")


NOT_INSTALLED = '''\
try:
    from helpers import course
except ImportError:
    raise ImportError("the course is not installed: in its folder, run "
                      "python -m pip install -r requirements.txt") from None'''


def setup_code(needs, lang):
    """A cell that does nothing where the course is installed and elsewhere installs what is missing, no more."""
    return f'''\
# Set-up. Where the course is installed, this only chooses the language of the hints. In Colab,
# or where a notebook stands alone, it installs what is missing and leaves alone what is there.
{installing(needs) if repository() else NOT_INSTALLED}

course.start("{lang}")'''


def installing(needs):
    """Code that imports `course`, after it has installed what a lone notebook lacks."""
    wanted = "\n".join(f'    "{name.replace("-", "_")}": "{requirement(name)}",' for name in needs)
    return f'''\
import importlib.util, subprocess, sys

package = "{project()['name']} @ git+{repository()}@{BRANCH}"
needs = {{
{wanted}
}}
missing = [needs[name] for name in needs if importlib.util.find_spec(name) is None]
try:
    from helpers import course
except ImportError:
    sys.modules.pop("helpers", None)
    missing.append(package)
if missing:
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", *missing]
    done = subprocess.run(pip, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise RuntimeError(done.stderr)
    importlib.invalidate_caches()
    from helpers import course'''


def requirement(name):
    """A package as requirements.txt asks for it."""
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        asked = line.split("#")[0].strip()
        if re.split(r"[<>=~!; ]", asked)[0] == name:
            return asked
    raise ValueError(f"{name} is not in requirements.txt")


# ------------------------------------------------------------------ executing and writing
def execute(notebook, folder):
    """Run all cells in a new kernel; leave in the notebook what stays true: no timings, no live widgets."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False, coalesce_streams=True,
                            resources={"metadata": {"path": str(folder)}}).execute(env=environment)
    notebook.metadata = {**copy.deepcopy(METADATA), "title": notebook.metadata["title"]}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs
                            if WIDGET not in output.get("data", {}) or "image/png" in output["data"]]
            if any(output.get("name") == "stderr" for output in cell.outputs):
                raise ValueError(f"a cell writes to stderr, which differs between machines:\n{cell.source}\n{cell.outputs}")


def build(path):
    for lang, folder in LANGUAGES.items():
        notebook = edition(path, lang)
        folder.mkdir(exist_ok=True)
        execute(notebook, folder)
        nbformat.validate(notebook)
        with notebook_path(path, lang).open("w", encoding="utf-8", newline="\n") as file:
            nbformat.write(notebook, file)
        print(notebook_path(path, lang).relative_to(ROOT), flush=True)
        save_readme_picture(notebook)


def save_readme_picture(notebook):
    """The figure of the cell tagged `readme` is the picture in README."""
    for cell in notebook.cells:
        if "readme" in cell.metadata.get("tags", []):
            picture = next(output.data["image/png"] for output in cell.outputs if "image/png" in output.get("data", {}))
            (ROOT / "README.png").write_bytes(base64.b64decode(picture))


def main(wanted):
    numbers = {lesson.stem.split("_")[0]: lesson for lesson in lessons()}
    unknown = [number for number in wanted if number not in numbers]
    if unknown:
        sys.exit(f"there is no lesson {', '.join(unknown)}; there are {', '.join(numbers)}")
    for number in wanted or numbers:
        build(numbers[number])


if __name__ == "__main__":
    main(sys.argv[1:])
