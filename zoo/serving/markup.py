"""HTML whose text is translated while its tags stay, for LibreTranslate's `format: html`."""

from __future__ import annotations

import html
from collections.abc import Sequence
from html.parser import HTMLParser

UNTRANSLATED = ("script", "style", "code", "pre")
"""Elements whose text is kept."""


class Markup(HTMLParser):
    """A piece of HTML as its texts, each translated by itself, and what is between them.

    Args:
        source: the HTML; tags that are not well-formed are kept as they are.
    """

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self._parts: list[str | int] = []
        self._kept = 0
        self.feed(source)
        self.close()
        if self.rawdata:  # the text of an element such as <script> that has no end
            self._parts.append(self.rawdata)

    def filled(self, texts: Sequence[str]) -> str:
        """Return the HTML with other texts, which are escaped."""
        return "".join(
            part if isinstance(part, str) else html.escape(texts[part], quote=False)
            for part in self._parts
        )

    # --- what the parser finds ------------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Keep a tag."""
        self._parts.append(self.get_starttag_text() or "")
        self._kept += tag in UNTRANSLATED

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """Keep a tag that is closed at once."""
        self._parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        """Keep the end of an element."""
        self._parts.append(f"</{tag}>")
        self._kept = max(0, self._kept - (tag in UNTRANSLATED))

    def handle_data(self, data: str) -> None:
        """Take a text, without the white space around it; keep one without a letter."""
        text = " ".join(data.split())  # a browser shows line breaks as spaces
        if self._kept or not any(map(str.isalpha, text)):
            raw = self.cdata_elem is not None
            self._parts.append(data if raw else html.escape(data, quote=False))
            return
        start, end = len(data) - len(data.lstrip()), len(data.rstrip())
        self._parts += [data[:start], len(self.texts), data[end:]]
        self.texts.append(text)

    def handle_comment(self, data: str) -> None:
        """Keep a comment."""
        self._parts.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        """Keep a declaration."""
        self._parts.append(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        """Keep a processing instruction."""
        self._parts.append(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        """Keep a section such as CDATA."""
        name, bracket, _ = data.partition("[")
        end = "]]" if bracket and name.strip().isalpha() else "]"  # <![CDATA[…]]>, <![if …]>
        self._parts.append(f"<![{data}{end}>")
