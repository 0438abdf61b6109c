"""Notebooks as pages: their cells and stored outputs, with a link to the file itself."""

import json
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx


def markdown(notebook: dict[str, Any], name: str) -> str:
    """Return a notebook as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        parts += map(shown, cell["outputs"])
    parts.insert(1, f"This page is a notebook: {{download}}`{name} <{name}>`.")
    return "\n\n".join(parts)


def shown(output: dict[str, Any]) -> str:
    """Return an output: its HTML if it has any, else its text."""
    data = output.get("data", {"text/plain": output.get("text", [])})
    if "text/html" in data:
        return f"````{{raw}} html\n<div class='output'>{''.join(data['text/html'])}</div>\n````"
    text = "".join(data["text/plain"]).rstrip()
    return f"````{{code-block}} text\n:class: output\n\n{text}\n````"


class NotebookParser(MystParser):
    """Parses a notebook as the Markdown that it amounts to."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Fill the document."""
        name = document.settings.env.docname.rpartition("/")[2] + ".ipynb"
        super().parse(markdown(json.loads(inputstring), name), document)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the parser."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
