"""Export the stored notebooks as a small site to read: python lessons/export.py [folder]

site/ gets index.html, the English lessons, and in zh/ the Chinese ones. Nothing is executed. A page is one file, whose
pictures and style travel inside it, and it asks for nothing from elsewhere. page.html.j2 and page.css are how it looks.
"""
import re
import shutil
import sys
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))         # run as a script, it sees only lessons/

import nbformat
from math_core import LatexError, LatexToMathML
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.formatters import HtmlFormatter

from lessons import build

HERE = Path(__file__).resolve().parent
TAGS = {"en": "en", "zh": "zh-CN"}
WORDS = {
    "en": {"home": "All lessons", "other": "中文", "contents": "On this page", "previous": "Previous", "next": "Next",
           "output": "Output"},
    "zh": {"home": "课程目录", "other": "English", "contents": "本页目录", "previous": "上一课", "next": "下一课", "output": "输出"},
}
FORMULAS = LatexToMathML()


# ------------------------------------------------------------------ from Markdown to HTML
class Prose(IPythonRenderer):
    """What nbconvert makes of Markdown, but with formulas as MathML, links between pages, and headings that are noted."""

    def __init__(self, headings):
        super().__init__(escape=False)
        self.headings = headings

    def inline_math(self, body):
        return mathml(body, display=False)

    def block_math(self, body):
        return f'<span class="formula">{mathml(body, display=True)}</span>'

    def latex_environment(self, name, body):
        return self.block_math(rf"\begin{{{name}}}{body}\end{{{name}}}")

    def heading(self, text, level, **attributes):
        anchor = re.sub(r"\W+", "-", re.sub("<.*?>", "", text).lower()).strip("-")
        while anchor in [other for _, other, _ in self.headings]:
            anchor += "-"
        self.headings.append((level, anchor, text))
        return f'<h{level} id="{anchor}">{text} <a class="anchor" href="#{anchor}" aria-hidden="true" tabindex="-1">#</a></h{level}>\n'

    def link(self, text, url, title=None):
        """A notebook's page has the notebook's place: lessons link to each other, READMEs to notebooks/ and to each other."""
        url = {"README.md": "#en", "README.zh-CN.md": "#zh"}.get(url, url)
        return super().link(text, re.sub(r"^(?:notebooks/)?([^:]+)\.ipynb$", r"\1.html", url), title)

    def image(self, text, url, title=None):
        """A picture from elsewhere, such as Colab's badge, would be asked for: its words stand for it."""
        return text if "://" in url else super().image(text, url, title)

    def table(self, text):
        return f'<div class="scroll"><table>\n{text}</table></div>\n'


def mathml(formula, display):
    try:
        return FORMULAS.convert_with_local_state(formula.strip(), displaystyle=display)
    except LatexError as error:
        raise ValueError(f"{formula!r} has no MathML: {error}") from None


class Page(HTMLExporter):
    """nbconvert's exporter with our template. Where a notebook has no widgets' state, it takes the picture beside a widget."""

    def __init__(self):
        super().__init__(template_file=str(HERE / "page.html.j2"), exclude_input_prompt=True, exclude_output_prompt=True)

    def default_filters(self):
        yield from super().default_filters()
        yield "markdown2html", self.prose

    @staticmethod
    def prose(source, headings):
        return MarkdownWithMath(renderer=Prose(headings)).render(source)


def style():
    """page.css, and the colours of code: light, and dark where the reader's system is."""
    light, dark = (HtmlFormatter(style=name).get_style_defs(".highlight") for name in ("default", "github-dark"))
    return f"{(HERE / 'page.css').read_text(encoding='utf-8')}\n{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}"


# ------------------------------------------------------------------ pages
def lesson_pages(lang, exporter):
    """The pages of all lessons in one language: name and HTML of each."""
    notebooks = [nbformat.read(build.notebook_path(path, lang), 4) for path in build.lessons()]
    links = [(f"{path.stem}.html", notebook.metadata["title"]) for path, notebook in zip(build.lessons(), notebooks)]
    up, other = {"en": ("", "zh/"), "zh": ("../", "../")}[lang]
    for i, (name, _) in enumerate(links):
        around = {"home": (f"{up}index.html#{lang}", WORDS[lang]["home"]), "other": (other + name, WORDS[lang]["other"]),
                  **dict(zip(["previous"], links[:i][-1:])), **dict(zip(["next"], links[i + 1:]))}
        yield name, html(notebooks[i], lang, exporter, around)


def index_page(exporter):
    """The start page: from each README its beginning and the part that lists the lessons."""
    cells = []
    for lang, name in (("en", "README.md"), ("zh", "README.zh-CN.md")):
        beginning, *parts = (build.ROOT / name).read_text(encoding="utf-8").split("\n## ")
        lessons = next(part for part in parts if "](notebooks/" in part)
        cells.append(nbformat.v4.new_markdown_cell(f"{beginning}\n## {lessons}", id=lang, metadata={"lang": TAGS[lang]}))
    title = " · ".join(re.match("# (.*)", cell.source)[1] for cell in cells)
    return html(nbformat.v4.new_notebook(cells=cells, metadata={"title": title}), "en", exporter,
                {"other": ("#zh", WORDS["en"]["other"])})


def html(notebook, lang, exporter, around):
    resources = {"lang": TAGS[lang], "words": WORDS[lang], "other_tag": TAGS["zh" if lang == "en" else "en"],
                 "around": around, "headings": [], "style": style(), "escape": escape}
    return exporter.from_notebook_node(notebook, resources)[0]


def export(folder):
    """Write all pages."""
    exporter = Page()
    pages = {folder / "index.html": index_page(exporter)}
    for lang, place in (("en", folder), ("zh", folder / "zh")):
        pages.update({place / name: text for name, text in lesson_pages(lang, exporter)})
    (folder / "zh").mkdir(parents=True, exist_ok=True)
    for path, text in pages.items():
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    shutil.copy(build.ROOT / "README.png", folder)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else build.ROOT / "site")
    export(target)
    print(f"open {target / 'index.html'} in a browser")
