"""The explorer in a page of its own, as an exported notebook has it: what its script computes, shows, and says."""
import math
import re
import sys

import pytest
import torch

from helpers import course, draw_heatmaps, figures, masked_softmax

ENGLISH, FRENCH = "the black cat often sees a mouse".split(), "le chat noir voit souvent une souris".split()
WORDS = ["苹果", "发布", "了", "产品"]
SCORES = torch.tensor([[[4.0, 1.0, 0.0, -2.0], [0.5, 3.0, 1.0, 2.0], [1.0, 1.0, 1.0, 1.0], [-1.0, 2.0, 0.0, 0.5]],
                       [[0.0, 0.0, 0.0, 5.0], [2.0, 0.0, 1.0, 0.0], [3.0, 0.0, 0.0, 1.0], [0.0, 1.0, 2.0, 3.0]]])
CAUSAL = torch.ones(4, 4).tril().bool()


@pytest.fixture
def outputs(explored):
    """The HTML of explore's two outputs, as a page shows them: the picture, and what comes after it."""
    def of(*given, **named):
        picture, _, page = explored(*given, **named)
        return f'<div><img src="data:image/png;base64,{picture["image/png"]}"></div>', f'<div>{page}</div>'
    return of


@pytest.fixture
def opened(new_page):
    def of(*parts, style="", **options):
        page = new_page(**{"viewport": {"width": 1000, "height": 900}, **options})
        page.set_content(f"<!doctype html><html><body style='margin: 8px; {style}'>{''.join(parts)}</body></html>")
        page.wait_for_timeout(200)
        return page
    return of


def with_scores(outputs, **named):
    weights = masked_softmax(SCORES, mask=CAUSAL[None].expand(2, 4, 4))
    return outputs(weights, WORDS, scores=SCORES, mask=CAUSAL, d=16, **named)


def numbers(page):
    """The weights in the table; masked cells are 0."""
    rows = page.locator("tbody tr").evaluate_all("rows => rows.map(row => [...row.cells].slice(1).map(cell => +cell.textContent))")
    return torch.tensor(rows)


def status(page, i=0):
    return page.locator("[role=status]").nth(i).inner_text()


def set_temperature(page, value):
    page.locator("input[type=range]").evaluate("(input, at) => { input.value = at; input.dispatchEvent(new Event('input')); }", math.log2(value))


# ------------------------------------------------------------------ the numbers
def test_it_takes_the_place_of_the_picture_and_shows_the_same_weights(outputs, opened):
    weights = torch.softmax(3 * torch.randn(7, 7), dim=-1)
    page = opened(*outputs(weights, FRENCH, ENGLISH))
    assert torch.allclose(numbers(page), weights, atol=0.006)
    assert not page.locator("img").is_visible()
    assert page.locator("thead th").all_inner_texts()[1:] == ENGLISH and page.locator("tbody th").all_inner_texts() == FRENCH


def test_the_softmax_in_the_browser_is_ours_with_every_setting(outputs, opened):
    page = opened(*with_scores(outputs, start=(0, 1)))
    mask = CAUSAL[None]
    assert torch.allclose(numbers(page), masked_softmax(SCORES[1:], mask=mask)[0], atol=0.006)
    set_temperature(page, 0.5)
    assert torch.allclose(numbers(page), masked_softmax(2 * SCORES[1:], mask=mask)[0], atol=0.01)
    page.get_by_role("checkbox", name="mask").uncheck()
    assert torch.allclose(numbers(page), torch.softmax(2 * SCORES[1], dim=-1), atol=0.01)
    set_temperature(page, 1)
    page.get_by_label("divide by √16").uncheck()
    assert torch.allclose(numbers(page), torch.softmax(4 * SCORES[1], dim=-1), atol=0.006)
    page.get_by_role("radio", name="head 0").click()
    assert torch.allclose(numbers(page), torch.softmax(4 * SCORES[0], dim=-1), atol=0.006)


def test_a_row_in_which_all_keys_are_masked_shows_no_weights(outputs, opened):
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1]])
    page = opened(*outputs(masked_softmax(SCORES[:1], mask=mask[None]), WORDS, scores=SCORES[:1], mask=mask))
    assert numbers(page)[1].tolist() == [0, 0, 0, 0]
    page.locator(".queries li").nth(1).click()
    assert status(page) == "发布 looks at nothing"


# ------------------------------------------------------------------ pointer, touch, keyboard, screen reader
def test_pointing_shows_where_a_query_looks_and_who_looks_at_a_key(outputs, opened):
    weights = torch.eye(7)[[0, 2, 1, 4, 3, 5, 6]]
    page = opened(*outputs(weights, FRENCH, ENGLISH))
    assert page.locator("path").count() == 7                             # all at once, before anything is chosen
    page.locator(".queries li").nth(2).hover()
    assert status(page) == "noir looks at black 1.00" and page.locator("path").count() == 1
    page.locator(".keys li").nth(2).hover()
    assert status(page) == "cat is looked at by chat 1.00"
    page.locator("td").nth(8).hover()
    assert status(page) == "chat looks at black: 0.00"
    page.mouse.move(5, 5)
    assert status(page).startswith("Point at a token")


def test_what_is_clicked_stays_until_escape(outputs, opened):
    page = opened(*outputs(torch.eye(7), FRENCH, ENGLISH))
    page.locator(".queries li").nth(1).click()
    page.mouse.move(5, 5)
    assert status(page) == "chat looks at black 1.00"
    page.locator(".queries li").nth(1).press("Escape")
    assert status(page).startswith("Point at a token")


def test_cells_are_squares_of_one_size(outputs, opened):
    for n, words in ((4, WORDS), (7, ENGLISH)):
        page = opened(*outputs(torch.eye(n), words))
        sizes = page.locator("td").evaluate_all("cells => cells.map(cell => [cell.offsetWidth, cell.offsetHeight])")
        assert {tuple(size) for size in sizes} == {(31, 31)}


def test_touch(outputs, opened):
    page = opened(*outputs(torch.eye(7), FRENCH, ENGLISH), has_touch=True, viewport={"width": 390, "height": 800})
    page.locator(".queries li").nth(1).tap()
    assert status(page) == "chat looks at black 1.00"
    page.locator("thead th").nth(1).tap()
    assert status(page) == "the is looked at by le 1.00"


def test_nothing_moves_when_a_token_is_chosen(outputs, opened):
    """Or a token moves away from under the pointer, is left, moves back, and so on."""
    page = opened(*outputs(torch.softmax(torch.randn(7, 7), dim=-1), FRENCH, ENGLISH))
    where = "spots => spots.map(spot => { const box = spot.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; })"
    before = page.locator("li, td, th").evaluate_all(where)
    for spot in (page.locator(".queries li").nth(3), page.locator(".keys li").nth(3), page.locator("td").nth(3)):
        spot.hover()
        assert page.locator("li, td, th").evaluate_all(where) == before


def test_the_keyboard_reaches_everything(outputs, opened):
    page = opened(*with_scores(outputs))
    heard = []
    for key in ("Tab", "ArrowRight", "Tab", "Space", "Tab", "Tab", "ArrowLeft", "Tab", "ArrowDown", "End", "Tab", "ArrowDown",
                "Tab", "ArrowRight", "ArrowDown", "Escape"):
        page.keyboard.press(key)
        heard.append(page.evaluate("() => { const at = document.querySelector('.attention-explorer').shadowRoot.activeElement; "
                                   "return [at.ariaLabel || at.type || at.textContent, at.ariaChecked ?? at.checked ?? null].join(' '); }"))
        focus = page.evaluate("() => getComputedStyle(document.querySelector('.attention-explorer').shadowRoot.activeElement).outlineStyle")
        assert focus == "solid", key
    assert heard[:4] == ["head 0 true", "head 1 true", "checkbox true", "checkbox false"]
    assert page.locator("input[type=range]").get_attribute("aria-valuetext") != "1.00"
    assert heard[9].startswith("产品") and status(page).startswith("Point at a token")
    page.keyboard.press("Shift+Tab")                                     # back to the key where one was, not to the first
    assert status(page).startswith("发布 is looked at by")


def test_what_a_screen_reader_finds(outputs, opened):
    page = opened(*with_scores(outputs, head_names=["near", "far"], xlabel="Words", ylabel="Words that ask"))
    tree = page.locator(".attention-explorer").aria_snapshot()
    for part in ('radiogroup "Layer and head"', 'radio "near" [checked]', 'radio "far"', 'checkbox "mask" [checked]', 'slider "temperature"',
                 'listbox "Words that ask"', 'listbox "Words"', 'option "苹果"', 'grid "Attention weights"', 'columnheader "发布"',
                 'rowheader "产品"', 'gridcell "masked"', 'status: "Point at a token'):
        assert part in tree, (part, tree)


# ------------------------------------------------------------------ where it stands
def test_two_explorers_on_a_page_keep_to_their_own_pictures(outputs, opened):
    page = opened(*outputs(torch.eye(2), ["a", "b"]), *outputs(torch.eye(2), ["c", "d"]))
    assert page.locator("tbody th").all_inner_texts() == ["a", "b", "c", "d"]


def test_without_a_picture_that_has_numbers_nothing_is_shown(outputs, opened):
    png = figures.bundle(draw_heatmaps(torch.eye(2), "Keys", "Queries"))[0]["image/png"]
    others = [f'<img src="data:image/png;base64,{png}">', '<img src="data:image/svg+xml,%3Csvg/%3E">', '<img src="data:image/png;base64,AAAA">']
    page = opened(*others, outputs(torch.eye(2), ["a", "b"])[1])
    page.wait_for_timeout(1000)
    assert page.locator("img").first.is_visible() and page.locator(".attention-explorer").inner_text() == ""


def test_a_picture_that_comes_late_and_one_behind_another_address_will_do(outputs, opened):
    """VS Code draws the outputs of a cell one by one, and its pictures have addresses of their own."""
    picture, live = outputs(torch.eye(2), ["a", "b"])
    page = opened(f"<div id=here></div>{live}")
    page.evaluate("""async picture => {
        here.innerHTML = picture;
        const image = here.querySelector("img");
        image.src = URL.createObjectURL(await (await fetch(image.src)).blob()); }""", picture)
    assert page.locator("tbody th").first.inner_text() == "a" and not page.locator("img").is_visible()


def test_numbers_in_the_page_do_where_the_picture_is_in_another_frame(outputs, opened, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", object())
    page = opened(outputs(torch.eye(2), ['"chat" & <noir>', "b"])[1])
    assert page.locator("tbody th").all_inner_texts() == ['"chat" & <noir>', "b"]


def test_in_a_chinese_notebook_it_speaks_chinese(outputs, opened, monkeypatch):
    monkeypatch.setattr(course, "language", "zh")
    page = opened(*with_scores(outputs))
    page.locator(".queries li").nth(0).click()
    assert status(page).startswith("苹果 看的是：苹果 1.00") and page.get_by_label("温度").is_visible()
    assert not re.search("[A-Za-z]{3}", page.locator(".attention-explorer").inner_text().replace("Queries", "").replace("Keys", ""))


@pytest.mark.parametrize("width", [390, 1000])
@pytest.mark.parametrize("n, heads", [(4, 3), (10, 8), (30, 1), (64, 1)])
def test_it_fits_the_page(outputs, opened, n, heads, width):
    """Long ones scroll inside their own box; the page itself never scrolls sideways."""
    page = opened(*outputs(torch.softmax(torch.randn(heads, n, n), dim=-1), [f"token{i}" for i in range(n)]),
                  viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    strips = page.locator(".strips").bounding_box()
    assert strips["x"] + strips["width"] <= width


@pytest.mark.parametrize("style", ["background: white; color: black", "background: #111; color: #eee"])
def test_text_stands_out_on_light_and_on_dark_pages(outputs, opened, style):
    page = opened(*outputs(torch.tensor([[0.1, 0.3, 0.6], [0.75, 0.25, 0.0], [0.77, 0.23, 0.0], [0.0, 0.0, 1.0]]), ["a", "b", "c", "d"], ["a", "b", "c"]), style=style)
    back = 255 if "white" in style else 17
    for cell in page.locator("td").all():
        weight = float(cell.inner_text())
        colour = [int(part) for part in re.findall(r"\d+", cell.evaluate("cell => getComputedStyle(cell).color"))[:3]]
        behind = [weight * heat + (1 - weight) * back for heat in (178, 24, 43)]
        assert contrast(colour, behind) >= 4.5, (weight, colour)


def contrast(one, other):
    """The ratio of WCAG 2; 4.5 is what it wants of text."""
    def luminance(colour):
        parts = [part / 255 for part in colour]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
