"""`make screens`: what a browser measures on all pages of the site, and pictures of some.

Each page is opened once and measured at three widths in both themes. The command fails if a page is
wider than the window, logs an error, asks another host for anything, or has text with a contrast
below AA.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.serving.browser import CHROMIUM, DRIVER, MISSING, Browser, browser

SITE = Path(__file__).parents[2] / "site"
WIDTHS = (390, 1280, 1920)
THEMES = ("light", "dark")
PICTURES = ("index", "install", "commands", "zoo", "contract", "derivations/attention")
"""The pages of which pictures are made, of all kinds."""

MEASURE = r"""
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const colors = new Map();
const rgba = (color) => {
  if (!colors.has(color)) colors.set(color, read(color));
  return colors.get(color);
};
const read = (color) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = (top, below) =>
  [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const background = (element) => {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const color = rgba(getComputedStyle(e).backgroundColor);
    if (color[3] > 0) layers.push(color);
    if (color[3] === 1) break;
  }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
};
const luminance = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const low = new Map();
let texts = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const shown = walker.currentNode.textContent.trim();
  if (!shown || element.closest("script, style, noscript, svg")) continue;
  if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
  const style = getComputedStyle(element);
  const behind = background(element);
  const color = over(rgba(style.color), behind);
  const [a, b] = [luminance(color), luminance(behind)];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
  const needed = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
  texts += 1;
  const name = element.tagName.toLowerCase() + "." + element.className;
  if (contrast < needed) low.set(name, `${name}: ${contrast.toFixed(2)} "${shown.slice(0, 30)}"`);
}
const root = document.scrollingElement;
const wide = [...document.querySelectorAll("body *")].filter((e) => {
  const box = e.getBoundingClientRect();
  if (box.right <= innerWidth + 1 || !box.width || !e.checkVisibility()) return false;
  for (let p = e; p; p = p.parentElement) {
    const { overflowX, position } = getComputedStyle(p);
    if (/auto|scroll|hidden/.test(overflowX) || position === "fixed") return false;
  }
  return true;
}).map((e) => e.tagName.toLowerCase() + "." + e.className);
return { width: innerWidth, scroll: root.scrollWidth, texts, low: [...low.values()],
         wide: [...new Set(wide)].slice(0, 5) };
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine and yield its address."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def wait(page: Browser, condition: str) -> None:
    """Wait until a JavaScript expression is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(page.driver, 30).until(
        lambda driver: driver.execute_script(
            f"return document.readyState === 'complete' && {condition}"
        )
    )


def measure(page: Browser, address: str, width: int, theme: str) -> dict[str, Any]:
    """Return what the browser measures on a page, which is opened unless it is there already."""
    page.size(width, 900, theme)
    if page.driver.current_url != address:
        page.driver.get(address)
    # Colors change slowly where the theme does.
    wait(page, "document.getAnimations().every((each) => each.playState !== 'running')")
    result: dict[str, Any] = page.script(MEASURE)
    return result | {"console": page.console(), "hosts": sorted(page.hosts())}


def faults(measured: dict[str, Any], host: str) -> list[str]:
    """Return what is wrong with a page."""
    wrong = [f"contrast {text}" for text in measured["low"]]
    if measured["scroll"] > measured["width"] or measured["wide"]:
        wrong.append(f"{measured['scroll']} of {measured['width']} pixels: {measured['wide']}")
    if not measured["texts"]:
        wrong.append("no text")
    wrong += [f"console: {line}" for line in measured["console"]]
    wrong += [f"request to {other}" for other in measured["hosts"]
              if other not in (host, "data:", "about", "blob:", "chrom")]  # fmt: skip
    return wrong


def found_pages(page: Browser, host: str, query: str) -> list[str]:
    """Return the titles that a search of the site finds, in order."""
    page.driver.get(f"{host}/search.html?q={query.replace(' ', '+')}")
    summary = "document.querySelector('.search-summary')"
    wait(page, f"{summary} && /found/.test({summary}.textContent)")
    return [row.text for row in page.all("ul.search li > a")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure pages and write pictures of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="pages without .html; all by default")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder of pictures of some pages, or of those named; none by default",
    )
    parser.add_argument("--site", type=Path, default=SITE, help="the built site")
    given = parser.parse_args(arguments)
    if not (CHROMIUM and DRIVER):
        parser.exit(1, f"{MISSING}\n")
    names = given.pages or sorted(
        str(f.relative_to(given.site).with_suffix("")) for f in given.site.rglob("*.html")
    )
    wrong, views, start = [], 0, time.monotonic()
    with served(given.site) as host, browser() as page:
        for number, name in enumerate(names, 1):
            print(f"{number} of {len(names)}: {name}", file=sys.stderr, flush=True)
            for width in WIDTHS:
                for theme in THEMES:
                    measured = measure(page, f"{host}/{name}.html", width, theme)
                    views += 1
                    wrong += [f"{name} {width} {theme}: {f}" for f in faults(measured, host)]
                    if given.out and (given.pages or name in PICTURES):
                        given.out.mkdir(parents=True, exist_ok=True)
                        file = given.out / f"{name.replace('/', '-')}-{width}-{theme}.png"
                        page.picture(str(file))
    seconds = round(time.monotonic() - start)
    result = {"pages": len(names), "views": views, "seconds": seconds, "faults": wrong}
    print(json.dumps(result, indent=2))
    if wrong:
        parser.exit(1)


if __name__ == "__main__":
    main()
