"""Adds to the search index what people look for and a page does not say in these words.

The words are in `scorer.js`, which also puts such a page first.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

SCRIPT = (Path(__file__).parent / "scorer.js").read_text(encoding="utf-8")
WORDS: dict[str, str] = json.loads(SCRIPT.partition("const WORDS = ")[2].partition(";\n")[0])


def add_words(app: Sphinx, document: nodes.document) -> None:
    """Give a page its search words as keywords, which Sphinx puts into the index."""
    if words := WORDS.get(app.env.docname):
        document += nodes.meta(name="keywords", content=words.replace(" ", ", "))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the words."""
    app.connect("doctree-read", add_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
