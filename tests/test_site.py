"""The site that `make html` writes: nothing is lost, nothing is asked for from elsewhere, every picture and formula can be read."""
import re
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup

from lessons import build, export

PAGES = {f"{place}{path.stem}.html": (path, lang) for path in build.lessons() for lang, place in (("en", ""), ("zh", "zh/"))}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages by name, parsed."""
    folder = tmp_path_factory.mktemp("site")
    export.export(folder)
    return {path.relative_to(folder).as_posix(): BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
            for path in folder.rglob("*.html")}


@pytest.fixture
def page():
    """A page of the test's own cells."""
    def make(*cells):
        notebook = nbformat.v4.new_notebook(cells=list(cells), metadata={"title": "A title"})
        return BeautifulSoup(export.html(notebook, "en", export.Page(), {}), "html.parser")
    return make


def notebook_of(name):
    return nbformat.read(build.notebook_path(*PAGES[name]), 4)


def prose(soup):
    """The text of a page that is neither code nor output nor formula."""
    other = {"pre", "code", "math", "script"}
    return "".join(text for text in soup.main.find_all(string=True) if other.isdisjoint(parent.name for parent in text.parents))


# ------------------------------------------------------------------ the whole site
def test_every_lesson_has_a_page_in_each_language_and_the_start_page_leads_to_all(site):
    assert set(site) == {"index.html", *PAGES}
    assert {link["href"] for link in site["index.html"].select("td a")} == set(PAGES)
    for name, (path, lang) in PAGES.items():
        assert site[name].html["lang"] == export.TAGS[lang]
        assert site[name].title.string == build.read_lesson(path)[0]["title"][lang]


def test_every_link_leads_somewhere(site):
    anchors = {name: [element["id"] for element in soup.select("[id]")] for name, soup in site.items()}
    for name, soup in site.items():
        assert len(anchors[name]) == len(set(anchors[name])), name
        for link in soup.select("a[href]"):
            parts = urlsplit(link["href"])
            if parts.scheme:
                continue
            target = (build.Path(name).parent / parts.path).as_posix() if parts.path else name
            target = re.sub(r"^zh/\.\./", "", target)
            assert target in site and (not parts.fragment or unquote(parts.fragment) in anchors[target]), (name, link)


def test_lessons_lead_on_and_to_their_other_language(site):
    for (en, zh) in zip(list(PAGES)[::2], list(PAGES)[1::2]):
        assert site[en].select_one("header a[hreflang=zh-CN]")["href"] == zh
        assert "zh/" + site[zh].select_one("header a[hreflang=en]")["href"] == f"zh/../{en}"
    for lang in build.LANGUAGES:
        names = [name for name, (_, other) in PAGES.items() if other == lang]
        for name, following in zip(names, [*names[1:], None]):
            link = site[name].select_one("a[rel=next]")
            assert (link and link["href"]) == (following and build.Path(following).name)


def test_contents_list_the_headings(site):
    for name in PAGES:
        headings = [heading["id"] for heading in site[name].select("main h2, main h3")]
        assert [link["href"] for link in site[name].select(".contents a")] == [f"#{anchor}" for anchor in headings] != []


def test_no_page_asks_for_anything_from_elsewhere(site):
    for name, soup in site.items():
        for element in soup.find_all(lambda element: element.name != "a"):
            for attribute in ("src", "href", "srcset", "data", "action", "poster"):
                assert not re.match(r"\w+:(?!image/png;base64,|,$)|//", element.get(attribute, "")), (name, element.name)
        style = " ".join(element.get_text() for element in soup.find_all("style"))
        assert "url(" not in style and "@import" not in style
        assert soup.find("meta", {"http-equiv": "Content-Security-Policy"})["content"].startswith("default-src 'self' ")


def test_pages_are_small_enough_for_a_phone(site):
    assert max(len(str(soup)) for soup in site.values()) < 1_200_000


# ------------------------------------------------------------------ what a lesson says is on its page
@pytest.mark.parametrize("name", PAGES)
def test_all_code_text_and_pictures_are_there(site, name):
    texts = [pre.get_text().strip() for pre in site[name].select("pre")]
    alts = [image["alt"] for image in site[name].select("img")]
    described = []
    for cell in notebook_of(name).cells:
        if cell.cell_type == "code":
            assert cell.source.strip() in texts
            for output in cell.outputs:
                if "image/png" in output.get("data", {}):
                    described.append(output.metadata["image/png"]["alt"])
                elif output.output_type == "stream":
                    assert output.text.strip() in texts
    assert alts == described and all(alts)


@pytest.mark.parametrize("name", PAGES)
def test_every_formula_is_mathml_and_no_markdown_is_left(site, name):
    source = "\n\n".join(cell.source for cell in notebook_of(name).cells if cell.cell_type == "markdown")
    source = re.sub(r"```.*?```|`[^`\n]*`", "", source, flags=re.S)
    assert len(site[name].find_all("math")) == len(re.findall(r"\$\$.+?\$\$|\$.+?\$", source, re.S))
    assert not re.findall(r".*(?:\$|\\|\*\*|`|\]\().*", prose(site[name]))
    assert len(site[name].find_all("details")) == source.count("<details>") + 1           # and the contents


# ------------------------------------------------------------------ cells of other kinds
def test_html_in_an_output_stays_alive(page):
    live = '<div class="x"></div><script>if (1 < 2) document.querySelector(".x").textContent = "&";</script>'
    output = nbformat.v4.new_output("display_data", {"text/html": live, "text/plain": "a map"})
    assert live in str(page(nbformat.v4.new_code_cell("explore()", outputs=[output])))


def test_a_picture_stands_for_a_widget_and_a_widget_alone_is_left_out(page):
    view = {build.WIDGET: {"model_id": "1", "version_major": 2, "version_minor": 0}}
    picture = {"image/png": "iVBORw0KGgo=\n", "text/plain": 'heatmap "a" <b>'}
    outputs = [nbformat.v4.new_output("display_data", data) for data in ({**view, **picture}, view)]
    with pytest.warns(UserWarning, match="not able to be represented"):
        soup = page(nbformat.v4.new_code_cell("knob()", outputs=outputs))
    assert [image["alt"] for image in soup.select(".output img")] == ['heatmap "a" <b>']
    assert not soup.find_all("script") and build.WIDGET not in str(soup)


def test_a_picture_from_elsewhere_becomes_its_words(page):
    link = page(nbformat.v4.new_markdown_cell("[![Open In Colab](https://x.org/badge.svg)](https://x.org/a.ipynb)")).main.a
    assert link.get_text() == "Open In Colab" and link["href"] == "https://x.org/a.ipynb" and not link.img


def test_headings_of_the_same_words_have_anchors_of_their_own(page):
    soup = page(nbformat.v4.new_markdown_cell("## Try it\n\n## 试一试：$d$\n\n## Try it"))
    assert [heading["id"] for heading in soup.select("h2")] == ["try-it", "试一试-d", "try-it-"]


def test_a_formula_that_would_not_show_is_refused_by_name(page):
    with pytest.raises(ValueError, match=r"\\\\unheardof"):
        page(nbformat.v4.new_markdown_cell(r"$\unheardof{x}$"))
