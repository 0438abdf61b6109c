"""Formulas become MathML when the pages are built, so that no browser has to fetch a script."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Put MathML in place of every formula; MkDocs calls this for each page."""

    def made(found: re.Match[str]) -> str:
        display = "block" if found[1] == "div" else "inline"
        return str(convert(html.unescape(found[2]).strip(), display=display))

    return FORMULA.sub(made, content)
