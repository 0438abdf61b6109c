"""The page in a browser: every control, no error, no other host, no HTML from any text."""

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.serving.browser import CHROMIUM, DRIVER, MISSING, Browser, browser
from tests.serving.client import Running, start, wait_until
from tests.serving.conftest import CAPTIONS, CARDS, LONG, NUMBERS, SEQ2SEQ

pytest.importorskip("selenium", reason="selenium is not installed")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=MISSING)

TEXT = "A man rides a horse."
VIEWS = ("translate", "attention", "search", "compare", "model")
TAB, ENTER, SHIFT = "\ue004", "\ue007", "\ue008"
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as page:
        yield page


@pytest.fixture
def page(chromium: Browser, server: Running) -> Iterator[Browser]:
    chromium.size(1280, 900)
    chromium.console()
    chromium.hosts()
    yield chromium
    assert chromium.console() == []
    assert chromium.hosts() <= {server.url, "about", "data:", "blob:"}


def address(server: Running, **state: object) -> str:
    given = {"view": "translate", "checkpoint": CAPTIONS, "text": TEXT, "beam": 3, **state}
    return f"{server.url}/#{urlencode(given)}"


def press(page: Browser, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(page.driver, duration=0).send_keys(*keys).perform()


def text(page: Browser, selector: str) -> str:
    return str(page.script("return document.querySelector(arguments[0]).textContent", selector))


def test_the_page_the_api_and_a_libretranslate_client_agree(page: Browser, server: Running) -> None:
    page.open(address(server, beam=1))
    shown = text(page, "#translation")
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(server.url)
    assert shown == server.translate(CAPTIONS, TEXT)[0] == client.translate(TEXT, "en", "de")


def test_typing_translates_once_and_stale_answers_are_dropped(
    page: Browser, server: Running
) -> None:
    page.open(address(server, text=""))
    before = server.metric("zoo_request_seconds_count")
    page.one("#text").send_keys("Two dogs play.")
    wait_until(lambda: "Zwei Hunde" in text(page, "#view"))
    page.settle()
    assert server.metric("zoo_request_seconds_count") - before < 8
    assert text(page, "#translation") == server.translate(CAPTIONS, "Two dogs play.", beam=3)[0]
    assert "text=Two+dogs+play." in page.driver.current_url


def test_a_typed_text_goes_along_to_another_view(page: Browser, server: Running) -> None:
    page.open(address(server, text="Two dogs"))
    page.one("#text").send_keys(" play.")
    wait_until(lambda: "Zwei Hunde spielen" in text(page, "#view"))
    (link,) = (one for one in page.all("#views a") if one.text == "Attention")
    link.click()
    wait_until(lambda: page.all(".explorer-kinds button"))
    assert page.one("#text").get_attribute("value") == "Two dogs play."


def test_a_key_may_be_held_down(page: Browser, server: Running) -> None:
    """Browsers ignore or refuse changes of the URL beyond some hundred in ten seconds."""
    page.open(address(server, text=""))
    page.script(
        "const text = document.getElementById('text');"
        "for (let i = 400; i >= 0; i--) {"
        " text.value = 'Two dogs play.' + '.'.repeat(i);"
        " text.dispatchEvent(new Event('input')) }"
    )
    wait_until(lambda: "Zwei Hunde" in text(page, "#view"))
    assert "text=Two+dogs+play.&" in f"{page.driver.current_url}&"


def test_probabilities_and_n_best(page: Browser, server: Running) -> None:
    page.open(address(server))
    asked = {"checkpoint": CAPTIONS, "texts": [TEXT], "beam": 3, "n_best": 3}
    (best,) = server.send("/api/translate", asked).json["translations"]
    rows = [row.text for row in page.all(".best .text")]
    assert rows == [one["text"] for one in (best, *best["alternatives"])]
    for token in page.all(".probability"):
        assert "%" in token.get_attribute("title")
    page.script("const b = document.getElementById('beam'); b.value = 1;"
                "b.dispatchEvent(new Event('input'))")  # fmt: skip
    wait_until(lambda: len(page.all(".best li")) == 1)


def test_words_that_the_model_has_not_learned_are_named(page: Browser, server: Running) -> None:
    page.open(address(server, text="A dog chases two quokkas."))
    assert "The model has not learned quokkas: the translation is a guess there." in text(
        page, "#view"
    )
    page.open(address(server))
    assert "has not learned" not in text(page, "#view")


def test_the_checkpoint_and_the_examples_can_be_chosen(page: Browser, server: Running) -> None:
    page.open(f"{server.url}/")
    page.script("const s = document.getElementById('checkpoint'); s.value = arguments[0];"
                "s.dispatchEvent(new Event('change'))", NUMBERS)  # fmt: skip
    wait_until(lambda: text(page, "#status").endswith("ms.") and page.all("#translation"))
    page.settle()
    (about,) = (m for m in server.send("/api/models").json["models"] if m["name"] == NUMBERS)
    examples = page.all("#examples button")
    assert [examples[0].text] == about["examples"]
    assert text(page, "#translation") == server.translate(NUMBERS, examples[0].text)[0]
    examples[2].click()
    wait_until(lambda: "soixante-douze mille" in text(page, "#view"))


def test_attention_explorer(page: Browser, server: Running) -> None:
    page.open(address(server, view="attention"))
    kinds = page.all(".explorer-kinds button")
    assert [kind.text.split(":")[0] for kind in kinds] == ["Cross", "Encoder", "Decoder"]
    assert len(page.all(".explorer-grid button")) == 5 * 5
    queries = page.all(".explorer-words .tokens")[1].find_elements("css selector", "button")
    page.script("arguments[0].focus()", queries[0])
    assert "“Ein” attends most to “A”" in text(page, ".explorer-status")
    cell = page.one('.explorer-grid button[title="layer 2, head 3"]')
    cell.click()
    assert "layer=2" in page.driver.current_url
    assert "head=3" in page.driver.current_url
    chosen = page.one('.explorer-grid button[aria-pressed="true"]')
    chosen.send_keys("\ue014")  # the right arrow
    assert "head=4" in page.driver.current_url
    page.all(".explorer-kinds button")[1].click()
    page.open(page.driver.current_url)  # the URL holds the state
    pressed = [
        one.get_attribute("title") for one in page.all('.explorer-grid [aria-pressed="true"]')
    ]
    assert pressed == ["layer 2, head 4"]
    assert page.one('.explorer-kinds [aria-pressed="true"]').text.startswith("Encoder")
    for kind, layer in (("other", "9"), ("constructor", "1.5")):  # of a link
        page.open(address(server, view="attention", kind=kind, layer=layer, head="x"))
        assert text(page, ".explorer-status").startswith("mean of layers, mean of heads")
        assert page.one('.explorer-kinds [aria-pressed="true"]').text.startswith("Cross")
        assert page.all("#view canvas")
    page.open(address(server, view="attention", checkpoint=SEQ2SEQ, text="four"))
    assert "has no attention" in text(page, "#view")


def test_attention_can_be_touched(page: Browser, server: Running) -> None:
    page.size(375, 800)
    page.open(address(server, view="attention"))
    widths = "return [...document.querySelectorAll('.token')].map(one => one.offsetWidth)"
    assert min(page.script(widths)) >= 24  # WCAG 2.2, target size
    x, y = page.script(
        "const cells = document.querySelector('.explorer-large image');"
        "cells.scrollIntoView({block: 'center'});"
        "const box = cells.getBoundingClientRect(); return [box.x + 9, box.y + 9]"
    )
    for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
        page.driver.execute_cdp_cmd(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
        )
    wait_until(lambda: "“Ein” attends to “A”" in text(page, ".explorer-status"))


def test_attention_downloads(page: Browser, server: Running, tmp_path: Path) -> None:
    page.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.open(address(server, view="attention"))
    for button in page.all(".explorer-tools button"):
        button.click()
    wait_until(lambda: {f.name for f in tmp_path.iterdir()} == {"attention.svg", "attention.png"})
    from xml.etree import ElementTree

    drawing = ElementTree.parse(tmp_path / "attention.svg").getroot()
    assert "Ein" in "".join(drawing.itertext())
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")


def test_beam_search_can_be_stepped_through(page: Browser, server: Running) -> None:
    page.open(address(server, view="search"))
    tree = server.send("/api/tree", {"checkpoint": CAPTIONS, "text": TEXT, "beam": 3}).json
    assert len(page.all(".node")) == sum(map(len, tree["steps"]))
    first, back, forward, last = page.all(".steps button")
    first.click()
    assert text(page, "#view .note").startswith("Step 1 of")
    visible = page.all(".node:not(.later)")
    assert len(visible) == len(tree["steps"][0])
    forward.click()
    back.click()
    last.click()
    assert text(page, "#view .note").startswith(f"Step {len(tree['steps'])} of")
    assert f"step={len(tree['steps'])}" in page.driver.current_url
    best = [node.text.split("\n")[0] for node in page.all(".node.best")]
    assert len(best) == len(tree["steps"])
    page.all(".best button")[1].click()
    assert page.all(".best button")[1].get_attribute("aria-pressed") == "true"
    page.open(address(server, view="search", step=2.5))  # of a link
    assert text(page, "#view .note").startswith("Step 2 of")


def test_another_text_begins_with_its_whole_tree(page: Browser, server: Running) -> None:
    page.open(address(server, view="search", text="Two dogs."))
    page.all(".steps button")[-1].click()
    longer = "Two dogs are playing with a ball in the snow."
    page.script("const t = document.getElementById('text'); t.value = arguments[0];"
                "t.dispatchEvent(new Event('input'))", longer)  # fmt: skip
    tree = server.send("/api/tree", {"checkpoint": CAPTIONS, "text": longer, "beam": 3}).json
    count = len(tree["steps"])
    wait_until(lambda: f"of {count}:" in text(page, "#view .note"))
    assert text(page, "#view .note").startswith(f"Step {count} of {count}:")


def test_an_explorer_follows_the_theme_and_is_not_kept_when_it_is_replaced(
    page: Browser, server: Running
) -> None:
    page.open(address(server, view="attention"))
    paper = "return document.querySelector('.explorer-large rect').getAttribute('fill')"
    light = page.script(paper)
    page.size(1280, 900, "dark")
    wait_until(lambda: page.script(paper) != light)
    page.script("window.before = new WeakRef(document.querySelector('.explorer'))")
    page.script("document.querySelector('#views a').click()")
    wait_until(lambda: page.script("return document.getElementById('translation') !== null"))

    def is_gone() -> bool:
        page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        return page.script("return window.before.deref() === undefined") is True

    wait_until(is_gone, 10)


def test_checkpoints_side_by_side(page: Browser, server: Running) -> None:
    page.open(address(server, view="compare", checkpoint=NUMBERS, text="four"))
    assert len(page.all("article")) == 2
    assert "no cross-attention" in text(page, f'[aria-label="{SEQ2SEQ}"]')
    assert len(page.all("canvas.mini")) == 1
    page.all(".choices button")[1].click()
    wait_until(lambda: len(page.all("article")) == 1)


def test_long_texts_side_by_side(page: Browser, server: Running) -> None:
    page.open(address(server, view="compare", checkpoint=NUMBERS, text=""))
    page.script(
        "const sent = window.fetch, tokens = Array(500).fill('a');"
        "const cross = {layers: 1, heads: 1, queries: tokens, keys: tokens,"
        " weights: btoa('\\0'.repeat(4 * 500 * 500))};"
        "window.fetch = (path, options) => !path.endsWith('/attention') ? sent(path, options)"
        " : Promise.resolve(new Response(JSON.stringify({parts: 1, kinds: {cross}})));"
        "const text = document.getElementById('text'); text.value = 'four';"
        "text.dispatchEvent(new Event('input'))"
    )
    wait_until(lambda: len(page.all("article")) == 2)
    assert [one.get_attribute("width") for one in page.all("canvas.mini")] == ["500", "500"]


def test_what_a_link_names_and_the_server_lacks_is_said(page: Browser, server: Running) -> None:
    notice = "return document.getElementById('notice').checkVisibility()"
    page.open(address(server))
    assert not page.script(notice)
    page.open(address(server, checkpoint="none.such"))
    assert text(page, "#notice") == (
        f"This server has no checkpoint “none.such”. “{CAPTIONS}” is used instead."
    )
    page.script("const s = document.getElementById('checkpoint'); s.value = arguments[0];"
                "s.dispatchEvent(new Event('change'))", NUMBERS)  # fmt: skip
    page.settle()
    assert not page.script(notice)
    page.open(address(server, target="xx"))
    assert "does not know the language “xx”. “de” is used" in text(page, "#notice")
    page.open(address(server, view="compare", checkpoint=NUMBERS, text="four",
                      **{"with": f"{SEQ2SEQ}\nnone.such"}))  # fmt: skip
    assert "Not compared: none.such." in text(page, "#view")
    assert len(page.all("article")) == 1


def test_a_text_of_parts_has_its_probabilities_and_is_read_whole_elsewhere(
    page: Browser, server: Running
) -> None:
    for several in ("A man walks.\nTwo dogs play.", f"{LONG}."):
        (made,) = server.send("/api/translate", {
            "checkpoint": CAPTIONS, "texts": [several], "beam": 3, "token_scores": True,
        }).json["translations"]  # fmt: skip
        page.open(address(server, text=several))
        assert page.one("#translation").text == made["text"]
        tokens = [one for one in made["tokens"] if one["token"] != "</s>"]
        assert len(page.all(".written .probability")) == len(tokens)
        assert f"read the text in {made['parts']} parts, each by itself" in text(page, "#view")
        for view in ("attention", "search", "compare"):
            page.open(address(server, view=view, text=several))
            assert f"Translate reads it in {made['parts']} parts" in text(page, "#view"), view
    page.open(address(server))
    assert page.all("#translation .probability")
    assert "part" not in text(page, "#view")
    page.open(address(server, view="attention"))
    assert "read whole" not in text(page, "#view")


def test_the_model_view(page: Browser, server: Running) -> None:
    page.open(address(server, view="model", checkpoint=NUMBERS))
    about = server.send(f"/api/models/{NUMBERS}").json
    assert len(page.all(".bars dt")) == len(about["blocks"])
    assert page.all("polyline.train")
    assert page.all("polyline.valid")
    assert "Configuration" in text(page, ".markdown")
    page.open(address(server, view="model"))
    assert "nrefs:1|case:mixed" in text(page, ".markdown tbody")  # a pipe inside a cell


@pytest.mark.parametrize("width", [256, 390, 1280, 1920])
def test_nothing_is_wider_than_the_screen(page: Browser, server: Running, width: int) -> None:
    page.size(width, 900)
    for view in VIEWS:
        page.open(address(server, view=view))
        for theme in ("dark", "light"):
            page.size(width, 900, theme)
            wide = page.script("return document.documentElement.scrollWidth")
            assert wide <= width, (view, theme)


def test_a_long_word_is_not_cut(page: Browser, server: Running) -> None:
    page.size(390, 900)
    for view in VIEWS[:4]:
        page.open(address(server, view=view, text=f"A man {'ab' * 30}.", beam=2))
        page.script("document.getElementById('status').textContent = 'x'.repeat(300)")
        cut = page.script(
            "return [...document.querySelectorAll('#status, #view *')].filter(e =>"
            " e.scrollWidth > e.clientWidth + 1 && e.clientWidth &&"
            " getComputedStyle(e).overflowX !== 'auto').map(e => e.className)"
        )
        assert cut == [], view


def test_a_text_from_right_to_left_begins_at_the_right(page: Browser, server: Running) -> None:
    page.open(address(server))
    gaps = page.script(
        "const made = document.getElementById('translation'), range = document.createRange();"
        "made.textContent = 'كلب يركض.'; range.setStart(made.firstChild, 0);"
        "range.setEnd(made.firstChild, 1);"
        "const [all, first] = [made, range].map(one => one.getBoundingClientRect());"
        "return [first.left - all.left, all.right - first.right]"
    )
    assert gaps[1] < 2 < gaps[0]
    style = "return getComputedStyle(document.getElementById('text')).unicodeBidi"
    assert page.script(style) == "plaintext"


def test_a_text_that_is_too_long_is_refused_and_not_cut(page: Browser, server: Running) -> None:
    page.open(address(server))
    page.one("#text").clear()
    page.script("document.execCommand('insertText', false, 'A man. '.repeat(1500))")
    wait_until(lambda: "10,500 characters, and 10,000 are the most" in text(page, "#status"))
    assert text(page, "#status").endswith("Split it")  # a reader cannot send it elsewhere
    assert text(page, "#heard") == text(page, "#view") == ""
    page.console()  # the answer's status


def test_half_a_surrogate_pair_is_replaced(page: Browser, server: Running) -> None:
    page.open(address(server, text=""))
    page.script("const t = document.getElementById('text'); t.value = 'Two dogs \\ud83d play. 🙂';"
                "t.dispatchEvent(new Event('input'))")  # fmt: skip
    wait_until(lambda: page.all("#translation"))
    (wanted,) = server.translate(CAPTIONS, "Two dogs \ufffd play. 🙂", beam=3)
    assert text(page, "#translation") == wanted


def test_without_javascript_only_a_message_is_shown(page: Browser, server: Running) -> None:
    command = "Emulation.setScriptExecutionDisabled"
    page.driver.execute_cdp_cmd(command, {"value": True})
    try:
        page.driver.get(server.url)
        assert "needs JavaScript" in page.one("main noscript").text
        assert not page.one("#input").is_displayed()
    finally:
        page.driver.execute_cdp_cmd(command, {"value": False})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_node_of_a_search_can_be_read(page: Browser, server: Running, theme: str) -> None:
    page.size(1280, 900, theme)
    page.open(address(server, view="search"))
    contrasts = page.script(
        "const light = color => color.match(/[\\d.]+/g).slice(0, 3).map(c => c / 255)"
        ".map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)"
        ".reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], .05);"
        "return [...document.querySelectorAll('.node text')].map(e => {"
        " const node = e.parentElement, fill = one => light(getComputedStyle(one).fill);"
        " const both = [fill(e), fill(node.querySelector('rect'))];"
        " return Math.max(...both) / Math.min(...both) * getComputedStyle(node).opacity})"
    )
    assert min(contrasts) >= 4.5


def test_a_screen_reader_reads_the_nodes_of_a_step(page: Browser, server: Running) -> None:
    page.open(address(server, view="search"))
    tree = server.send("/api/tree", {"checkpoint": CAPTIONS, "text": TEXT, "beam": 3}).json
    for button, step in ((0, 0), (2, 1)):
        page.all(".steps button")[button].click()
        heard = page.script(
            "return [...document.querySelectorAll('.heard li')].map(e => e.textContent)"
        )
        titles = page.script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)",
            f".node[data-step='{step}'] title",
        )
        assert heard == titles
        assert len(heard) == len(tree["steps"][step])


def test_keyboard_and_screen_reader(page: Browser, server: Running) -> None:
    for view in VIEWS:
        page.open(address(server, view=view))
        unnamed = page.script(
            "return [...document.querySelectorAll('button, a, input, select, textarea')]"
            ".filter(e => e.offsetParent && !(e.textContent.trim() || e.labels?.length"
            " || e.getAttribute('aria-label'))).map(e => e.outerHTML)"
        )
        assert unnamed == []
        pictures = page.script(
            "return [...document.querySelectorAll('main svg')]"
            ".filter(e => e.getAttribute('role') !== 'img' || !e.getAttribute('aria-label')).length"
        )
        assert pictures == 0
        assert page.all('#views [aria-current="page"]')
        assert len(page.all("h1")) == 1
    assert page.one("html").get_attribute("lang") == "en"


@pytest.mark.parametrize("width", [320, 1280])
def test_what_scrolls_sideways_is_scrolled_with_the_keyboard(
    page: Browser, server: Running, width: int
) -> None:
    page.size(width, 900)
    scrolled = (
        "return [...document.querySelectorAll('main *')].filter(e => e.checkVisibility() &&"
        " e.clientWidth > 1 && e.scrollWidth > e.clientWidth &&"
        " getComputedStyle(e).overflowX === 'auto').map(e => [e.getAttribute('role'),"
        " e.getAttribute('aria-label') ?? '', e.tabIndex, !!e.querySelector('button')])"
    )
    named = set()
    for view in ("attention", "search", "model"):
        page.open(address(server, view=view, text="a man in a blue shirt is standing " * 8))
        page.script("document.querySelectorAll('details').forEach(e => e.open = true)")
        page.script("return new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        for role, name, stop, buttons in page.script(scrolled):
            assert (role, stop) == ("region", 0) or buttons, (view, name)
            named.add(name)
        fitting = "[data-scrolls][tabindex]"
        assert page.script(
            f"return [...document.querySelectorAll('{fitting}')]"
            ".filter(e => e.scrollWidth <= e.clientWidth).length"
        ) == 0  # fmt: skip
    assert ("Settings" in named) == (width == 320)
    if width == 320:
        assert {"Heat map", "Search tree"} < named
        assert any(name.startswith("Table: ") for name in named)
        page.script("document.querySelector('[aria-label=Settings]').focus()")
        page.driver.switch_to.active_element.send_keys("\ue014")  # the right arrow
        wait_until(lambda: page.script("return document.activeElement.scrollLeft > 0"))


def test_a_screen_reader_reads_each_translation(page: Browser, server: Running) -> None:
    page.open(address(server, text="Two dogs."))
    heard = page.one("#heard")
    assert heard.get_attribute("role") == "status"
    assert heard.get_attribute("textContent") == text(page, "#translation")
    assert page.script("return document.getElementById('heard').offsetWidth") <= 1
    page.one("#views a:nth-child(2)").click()
    page.settle()
    assert heard.get_attribute("textContent") == ""


def test_no_control_is_focused_below_the_header(page: Browser, server: Running) -> None:
    where = (
        "const e = document.activeElement, header = document.querySelector('header');"
        "return [e.id, e.closest('header') || header.getBoundingClientRect().bottom <="
        " e.getBoundingClientRect().top]"
    )
    for height in (256, 600):  # the first is a screen zoomed in to 400%
        page.size(320, height)
        page.open(address(server, text="Two dogs."))
        page.script("document.querySelector('.probability:last-of-type').focus()")
        seen = {}
        while "checkpoint" not in seen:
            page.driver.switch_to.active_element.send_keys(SHIFT, TAB)
            name, clear = page.script(where)
            seen[name] = bool(clear)
        assert {"text", "beam"} < set(seen)
        assert all(seen.values())


def test_forced_colors_show_what_is_chosen(page: Browser, server: Running) -> None:
    style = (
        "return [...document.querySelectorAll(arguments[0])].map(e => "
        "getComputedStyle(e).backgroundColor)"
    )
    page.size(1280, 900, forced=True)
    page.open(address(server, text="Two dogs.", beam=3))
    of_views = page.script(style, "#views a")
    assert of_views[0] not in of_views[1:]
    assert page.script(style, ".meter span")[0] not in page.script(style, ".meter, .card")
    page.open(address(server, view="search", text="Two dogs.", beam=3))
    of_hypotheses = page.script(style, ".best button")
    assert of_hypotheses[0] not in of_hypotheses[1:]
    page.open(address(server, view="attention", text="Two dogs."))
    pressed, other = (page.script(style, f".explorer-kinds button[aria-pressed={value}]")
                      for value in ("true", "false"))  # fmt: skip
    assert not set(pressed) & set(other)


def focused(page: Browser) -> str:
    """Return a description of what has the keyboard's focus; empty for the page itself."""
    return str(page.script(
        "const e = document.activeElement; if (e === document.body) return '';"
        "const all = [...document.querySelectorAll('*')].indexOf(e);"
        "const o = getComputedStyle(e);"
        "const seen = o.outlineStyle !== 'none' && o.outlineWidth !== '0px';"
        "return `${seen ? 'seen' : 'unseen'} ${all}`"
    ))  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_tab_reaches_every_control_once_in_order(page: Browser, server: Running, view: str) -> None:
    page.open(address(server, view=view, text="Two dogs."))
    controls = page.script(
        "const all = [...document.querySelectorAll('*')];"
        "return [...document.querySelectorAll('a, button, input, select, textarea, summary,"
        '[tabindex="0"]\')].filter(e => e.checkVisibility()).map(e => `seen ${all.indexOf(e)}`)'
    )
    reached = []
    for _ in controls:
        press(page, TAB)
        reached.append(focused(page))
    # Boxes that scroll get the focus too.
    assert [one for one in reached if one in set(controls)] == controls[: len(reached)]


def test_the_page_is_used_with_the_keyboard_alone(page: Browser, server: Running) -> None:
    def focus_on(text: str) -> None:
        for _ in range(80):
            press(page, TAB)
            if page.script("return document.activeElement.textContent") == text:
                return
        raise AssertionError(text)

    page.open(address(server, text="Two dogs."))
    press(page, TAB, ENTER)  # skip to content
    assert page.script("return document.activeElement.id") == "main"
    assert page.script("return document.getElementById('text').value") == "Two dogs."
    assert "Two+dogs" in page.script("return location.hash")
    page.open(address(server, text="Two dogs."))
    focus_on("Attention")
    press(page, ENTER)
    page.settle()
    wait_until(lambda: page.all(".explorer-kinds button"))
    assert page.driver.switch_to.active_element.text == "Attention"  # the focus stays
    focus_on("Encoder: source from source")
    press(page, ENTER)
    assert page.driver.switch_to.active_element.get_attribute("aria-pressed") == "true"
    page.open(address(server, view="compare", checkpoint=NUMBERS, text="four"))
    focus_on(SEQ2SEQ)
    press(page, " ")
    wait_until(lambda: len(page.all("article")) == 1)
    assert page.driver.switch_to.active_element.text == SEQ2SEQ
    page.open(address(server, view="search", text="Two dogs."))
    tree = server.send("/api/tree", {"checkpoint": CAPTIONS, "text": "Two dogs.", "beam": 3}).json
    focus_on(tree["hypotheses"][1]["text"])
    press(page, ENTER)
    assert page.driver.switch_to.active_element.get_attribute("aria-pressed") == "true"


def test_the_page_begins_with_the_checkpoints_search_and_example(
    page: Browser, server: Running
) -> None:
    page.open(f"{server.url}/")
    example = "Two dogs are playing in the snow."
    assert page.one("#text").get_attribute("value") == example
    assert text(page, "#beam-value") == "5"
    # What curl gets without any option.
    assert text(page, "#translation") == server.translate(CAPTIONS, example)[0]
    page.script("const s = document.getElementById('checkpoint'); s.value = arguments[0];"
                "s.dispatchEvent(new Event('change'))", NUMBERS)  # fmt: skip
    wait_until(lambda: "quatre cent" in text(page, "#view"))
    assert text(page, "#beam-value") == "1"
    (link,) = (one for one in page.all("#views a") if one.text == "Beam search")
    link.click()
    wait_until(lambda: page.all(".node"))
    assert text(page, "#beam-value") == "4"


def test_no_html_from_text_names_cards_or_tokens(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / EVIL
    shutil.copytree(CARDS / CAPTIONS, folder)
    card = folder / "README.md"
    more = f"\n## {EVIL}\n\n{EVIL} **{EVIL}** [{EVIL}](javascript:alert(1)) `{EVIL}`\n\n"
    card.write_text(card.read_text() + more + f"| {EVIL} | b |\n|---|---|\n| {EVIL} | c |\n")
    tokenizer = folder / "tokenizer.json"
    value = json.loads(tokenizer.read_text())
    old = server_token = "▁Mann"
    vocabulary = value["model"]["vocab"]
    vocabulary["▁<img/src=x/onerror=alert(2)>"] = vocabulary.pop(old)
    value["model"]["merges"] = [m for m in value["model"]["merges"] if "".join(m) != server_token]
    merges = [m for m in value["model"]["merges"] if old not in m]
    value["model"]["merges"] = merges
    tokenizer.write_text(json.dumps(value))
    chromium.console()
    with start(str(folder), "--workers", "1", forked=True) as server:
        for view in VIEWS:
            for given in (f"A man. {EVIL}", "A man rides a horse."):
                chromium.open(address(server, view=view, checkpoint=EVIL, text=given))
                assert chromium.script("return document.querySelectorAll('main img').length") == 0
                links = chromium.script("return [...document.links].map(link => link.protocol)")
                assert set(links) <= {"http:", "https:"}
        assert EVIL in str(chromium.script("return document.body.textContent"))
    assert chromium.console() == []


@contextlib.contextmanager
def below(prefix: str, server: Running) -> Iterator[str]:
    """Start a reverse proxy that has a server below a path; give the address of its page."""

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            assert self.path.startswith(prefix), self.path
            path = self.path.removeprefix(prefix)
            headers = dict(self.headers.items())
            answer = server.send(f"/{path}", body=body, headers=headers, method=self.command)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}{prefix}"
        finally:
            proxy.shutdown()
            thread.join()


def test_the_page_works_below_a_path_of_a_reverse_proxy(chromium: Browser, server: Running) -> None:
    chromium.size(1280, 900)
    chromium.console()
    chromium.hosts()
    with below("/models/zoo/", server) as url:
        for view in VIEWS:
            chromium.open(f"{url}#view={view}&checkpoint={NUMBERS}&text=four")
            assert text(chromium, "#status").startswith("Answered"), view
        assert chromium.hosts() <= {"/".join(url.split("/")[:3]), "about", "data:", "blob:"}
        chromium.driver.get("about:blank")
    assert chromium.console() == []


def test_errors_are_shown_and_a_key_can_be_given(chromium: Browser) -> None:
    key = "clé-ключ"
    with start(str(CARDS / NUMBERS), "--workers", "1", forked=True, ZOO_API_KEY=key) as server:
        chromium.open(f"{server.url}/")
        assert "API key" in text(chromium, "#status")
        chromium.one("#key-value").send_keys(f"{key}\n")
        wait_until(lambda: chromium.all("#translation"))
        server.stop()
        chromium.all("#examples button")[1].click()
        wait_until(lambda: "does not answer" in text(chromium, "#status"))
    chromium.console()


def test_the_explorer_as_one_file(chromium: Browser, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from zoo.cli import cli

    file = tmp_path / "a.html"
    arguments = ["attention", str(CARDS / CAPTIONS), f"A man {EVIL}", "--out", str(file)]
    made = CliRunner().invoke(cli, [*arguments, "--kind", "encoder", "--layer", "2"])
    assert made.exit_code == 0, made.output
    chromium.console()
    chromium.hosts()
    for width, theme in ((390, "dark"), (1280, "light")):
        chromium.size(width, 900, theme)
        chromium.driver.get("about:blank")
        chromium.driver.get(file.as_uri())
        wait_until(lambda: chromium.all(".explorer-grid canvas"))
        assert chromium.script("return document.documentElement.scrollWidth") <= width
    pressed = chromium.one('.explorer-grid [aria-pressed="true"]')
    assert pressed.get_attribute("title") == "layer 2, mean of heads"
    chromium.one('.explorer-grid button[title="layer 3, head 1"]').click()
    assert "layer=3" in chromium.driver.current_url
    chromium.driver.refresh()
    wait_until(lambda: chromium.all(".explorer-grid canvas"))
    pressed = chromium.one('.explorer-grid [aria-pressed="true"]')
    assert pressed.get_attribute("title") == "layer 3, head 1"
    assert "onerror" in chromium.script("return document.querySelector('.explorer').textContent")
    assert not chromium.all("img")
    assert chromium.console() == []
    assert chromium.hosts() <= {"file:", "about", "data:"}
