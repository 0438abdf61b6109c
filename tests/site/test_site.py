"""The site builds without a warning, fetches nothing from elsewhere, and finds what users seek."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import zoo
import zoo.interop
import zoo.nn
import zoo.testing
import zoo.training
from tests.forked import python
from tests.serving.browser import CHROMIUM, DRIVER, MISSING, Browser, browser
from tests.site.pages import THEMES, WIDTHS, faults, found_pages, measure, served
from zoo.cli import cli

TOP = Path(__file__).parents[2]
DOCS = TOP / "docs"
PARTS = sorted(
    str(file.relative_to(DOCS).with_suffix(""))
    for pattern in ("*.md", "*/*.md", "*/*.ipynb")
    for file in DOCS.glob(pattern)
    if "examples" not in file.parts
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [*python(), "-m", "sphinx", "-q", "-W", "--keep-going", str(DOCS), str(folder)]
    repository = {"ZOO_REPOSITORY": "https://code.invalid/zoo"}
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True,
                          env={**environment(), **repository})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("ZOO_")}


def text_of(site: Path, page: str) -> str:
    return (site / f"{page}.html").read_text(encoding="utf-8")


def test_every_page_is_built_and_in_the_navigation(site: Path) -> None:
    built = {str(file.relative_to(site).with_suffix("")) for file in site.rglob("*.html")}
    assert built == {*PARTS, "genindex", "search", "py-modindex"} & built
    assert set(PARTS) <= built
    links = set(
        re.findall(r'class="reference internal" href="([^"#]+)\.html"', text_of(site, "index"))
    )
    assert set(PARTS) - {"index"} <= links


def test_nothing_is_fetched_from_another_host(site: Path) -> None:
    for page in (*PARTS, "search"):
        fetched = re.findall(
            r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"?([^\" >]+)", text_of(site, page)
        )
        assert fetched
        assert not [address for address in fetched if re.match(r"(https?:)?//", address)], page


def test_the_repository_is_linked(site: Path) -> None:
    assert 'href="https://code.invalid/zoo"' in text_of(site, "own-data")


def test_formulas_are_mathml(site: Path) -> None:
    page = text_of(site, "derivations/attention")
    assert page.count("<math") > 40
    assert page.count("<mtable") >= 2, "aligned formulas are tables"
    assert "begin{" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_every_public_name_and_command_is_in_the_reference(site: Path) -> None:
    pages = {
        zoo: "api/index api/plugins", zoo.nn: "api/nn", zoo.testing: "api/testing",
        zoo.interop: "api/interop", zoo.training: "api/training",
    }  # fmt: skip
    for module, names in pages.items():
        text = "".join(text_of(site, name) for name in names.split())
        for name in module.__all__:
            assert f'id="{module.__name__}.{name}"' in text, name
    commands = text_of(site, "commands")
    assert "Usage: zoo [OPTIONS]" in commands
    for name, command in cli.commands.items():
        assert command.hidden or f"Usage: zoo {name} " in commands


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    pytest.importorskip("selenium", reason="selenium is not installed")
    if not (CHROMIUM and DRIVER):
        pytest.skip(MISSING)
    with browser() as page:
        yield page


def test_pages_are_legible_in_a_browser(site: Path, chromium: Browser) -> None:
    """Each kind of page once; `make screens` measures all of them at all widths."""
    views = [
        ("index", WIDTHS[0], THEMES[0]), ("own-data", WIDTHS[0], THEMES[1]),
        ("derivations/attention", WIDTHS[1], THEMES[1]), ("api/index", WIDTHS[1], THEMES[0]),
        ("notebooks/attention", WIDTHS[2], THEMES[1]),
    ]  # fmt: skip
    with served(site) as host:
        chromium.hosts()
        chromium.console()
        for page, width, theme in views:
            measured = measure(chromium, f"{host}/{page}.html", width, theme)
            assert not faults(measured, host), (page, width, theme)


def test_a_search_finds_own_data_first(site: Path, chromium: Browser) -> None:
    with served(site) as host:
        for query in ("own data", "train on my data", "csv", "my own dataset"):
            assert found_pages(chromium, host, query)[0] == "Your own data", query
        assert found_pages(chromium, host, "beam")[0] == "Decoding"


def test_a_low_contrast_and_a_wide_page_are_found(tmp_path: Path, chromium: Browser) -> None:
    page = "<title>x</title><p style='color:#999'>pale<div style='width:2000px'>wide</div>"
    (tmp_path / "bad.html").write_text(page, encoding="utf-8")
    with served(tmp_path) as host:
        text = " ".join(faults(measure(chromium, f"{host}/bad.html", 390, "light"), host))
    assert "contrast p." in text
    assert "pixels" in text
