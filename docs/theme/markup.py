"""What the pages write and Markdown does not have: the name of a file above its text."""

import re

from sphinx.application import Sphinx

TITLED = re.compile(r'^```(\w+) title="([^"]+)"\n', re.MULTILINE)


def captions(app: Sphinx, page: str, source: list[str]) -> None:
    """Turn the title of a code block into a caption."""
    source[0] = TITLED.sub(r"```{code-block} \1\n:caption: \2\n\n", source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the change."""
    app.connect("source-read", captions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
