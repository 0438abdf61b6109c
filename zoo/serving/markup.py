"""HTML whose text is translated while its tags stay, for LibreTranslate's `format: html`."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

UNTRANSLATED = ("script", "style", "code", "pre")
"""Elements whose text is kept."""

RAW = ("script", "style")
"""Elements whose text has no tags but their own end."""

MARKUP = re.compile(
    r"""
      <!--(?:-?>|.*?--!?>|.*)                       # a comment
    | <!\[CDATA\[(?:.*?\]\]>|.*)
    | <(?:[!?]|/(?![a-z]))[^>]*>?                   # a declaration, and what browsers ignore
    | <(?P<end>/?)(?P<name>[a-z][^\s/<>]*)          # a tag; `closed` is empty where it never ends
      (?:[^<>=]++|=(?:\s*"[^"]*"|\s*'[^']*')?)*+(?P<closed>>?)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""Each character is read once or twice, so that the time is linear in the length of any text."""


class Markup:
    """A piece of HTML as its texts, each translated by itself, and what is between them.

    Tags, comments and the text of `UNTRANSLATED` elements are kept character by character, also
    where they are malformed. A comment or declaration that never ends is kept to the end of the
    text, as browsers read it; a tag that never ends is text, as in "a <b and c".

    Args:
        source: the HTML.
    """

    def __init__(self, source: str) -> None:
        self.texts: list[str] = []
        self._parts: list[str | int] = []
        start = position = depth = 0
        while match := MARKUP.search(source, position):
            position = match.end()
            name, end = (match["name"] or "").lower(), match["end"]
            if name and not match["closed"]:
                continue
            self._add(source[start : match.start()], depth > 0)
            opens = not end and not match[0].endswith("/>")
            if name in RAW and opens:
                ending = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(source, position)
                position = ending.start() if ending else len(source)
            if name in UNTRANSLATED and (opens or end):
                depth = depth + 1 if opens else max(0, depth - 1)
            self._parts.append(source[match.start() : position])
            start = position
        self._add(source[start:], depth > 0)

    def filled(self, texts: Sequence[str]) -> str:
        """Return the HTML with other texts, which are escaped."""
        return "".join(
            part if isinstance(part, str) else html.escape(texts[part], quote=False)
            for part in self._parts
        )

    def _add(self, raw: str, kept: bool) -> None:
        """Take a text, without the white space around it; keep one without a letter."""
        data = html.unescape(raw)
        text = " ".join(data.split())  # a browser shows line breaks as spaces
        if kept or not any(map(str.isalpha, text)):
            self._parts.append(raw if kept else html.escape(data, quote=False))
            return
        start, end = len(data) - len(data.lstrip()), len(data.rstrip())
        self._parts += [data[:start], len(self.texts), data[end:]]
        self.texts.append(text)
