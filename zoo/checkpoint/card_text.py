"""The text of a card around and in its generated section, which is between two marks."""

from __future__ import annotations

import json
import re

BEGIN, END = "<!-- generated: zoo card -->\n", "<!-- end -->\n"
_MARK = re.compile(r"(<!-- (?:generated: zoo card|end) -->)[ \t]*(?:\r?\n|\Z)")
_SIZE = re.compile(r"^(Size: [\d,]+ parameters in )[\d.,]+ (?:[kMG]B|bytes)(\.)$", re.MULTILINE)
_LOAD = re.compile(r"zoo\.load\(\"(?:[^\"\\]|\\.)*\"\)")


def size_in_words(size: int) -> str:
    """Return a number of bytes with a unit and one decimal, such as 17.6 MB."""
    if size < 1000:
        return f"{size} bytes"
    if size < 100_000:
        return f"{size / 1e3:.1f} kB"
    return f"{size / 1e6:,.1f} MB" if size < 999.95e6 else f"{size / 1e9:,.1f} GB"


def plain_marks(text: str) -> str:
    """Return a card's text with the two marks on lines of their own, however its lines end."""
    return _MARK.sub(lambda match: f"{match[1]}\n", text)


def title_of(card: str) -> str:
    """Return the title of a card's generated section; empty if it has none."""
    section = plain_marks(card).partition(BEGIN)[2].partition(END)[0]
    match = re.search(r"^# (.+)$", section, re.MULTILINE)
    return match[1].strip() if match else ""


def published(card: str, address: str, packages: str) -> str:
    """Return a card whose generated section installs packages and loads from an address.

    Args:
        card: the whole card.
        address: where the checkpoint is pushed to.
        packages: the distributions that it needs, separated by spaces.
    """
    before, begin, rest = plain_marks(card).partition(BEGIN)
    section, end, after = rest.partition(END)
    name = _LOAD.search(section)
    if name is None:
        return card
    section = _LOAD.sub(lambda match: f"zoo.load({json.dumps(address)})", section)
    install = f"```sh\npip install {packages}\n```\n\n"
    if "```sh\npip install " not in section:
        section = section.replace("```python\nimport zoo\n", f"{install}```python\nimport zoo\n", 1)
    return f"{before}{begin}{section}{end}{after}"


def resized(card: str, size: int) -> str:
    """Return a card whose generated section states another size of the weights, in bytes."""
    before, begin, rest = plain_marks(card).partition(BEGIN)
    section, end, after = rest.partition(END)
    section = _SIZE.sub(rf"\g<1>{size_in_words(size)}\g<2>", section)
    return f"{before}{begin}{section}{end}{after}"
