"""Several sources of one target, such as a text and its context, as one text.

Everywhere a text may be, several sources are a JSON object with a text for each name: in files, on
the command line, over HTTP. Nothing here imports torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from zoo.errors import ArgumentError, DataError, did_you_mean
from zoo.files import parse_json
from zoo.registry.arguments import checked
from zoo.registry.parameters import MAIN


class Sources(str):
    """Several sources as one text; `join_sources` makes it."""

    __slots__ = ()


@checked
def join_sources(sources: Mapping[str, str]) -> Sources:
    """Return several sources as one text: a JSON object; an empty text if there is no main text.

    Args:
        sources: a text for each name; that of the main source is `text`.

    Raises:
        DataError: there is no `text`, or a value is not a text.
    """
    wrong = [name for name, text in sources.items() if not isinstance(text, str)]
    if wrong or MAIN not in sources:
        what = f"source {wrong[0]!r} is not a text" if wrong else f"no source {MAIN!r}"
        raise DataError(what, f"the sources are {', '.join(map(repr, sources)) or 'none'}",
                        f"Give a text for {MAIN!r} and for each other source")  # fmt: skip
    if not sources[MAIN].strip():
        return Sources("")
    return Sources(json.dumps(dict(sources), ensure_ascii=False))


def split_text(text: str, names: Sequence[str]) -> list[str]:
    """Return the sources in a text, in the order of their names; those that it lacks are empty.

    A text that is no JSON object is the main source.

    Raises:
        DataError: the object has another name, or a value that is not a text.
    """
    values: object = None
    if text.lstrip().startswith("{"):
        try:
            values = parse_json(text)
        except ValueError:
            values = None
    if not isinstance(values, dict):
        return [text, *[""] * (len(names) - 1)]
    unknown = [name for name in values if name not in names]
    if unknown:
        raise DataError(
            f"no source {unknown[0]!r}",
            f"this model reads {', '.join(names)}",
            did_you_mean(unknown[0], names, 1, begin="Did"),
        )
    wrong = [name for name, value in values.items() if not isinstance(value, str)]
    if wrong:
        raise DataError(f"source {wrong[0]!r} is not a text", f"it is {str(values[wrong[0]])[:50]}")
    return [values.get(name, "") for name in names]


def check_several(texts: object) -> None:
    """Make sure that texts are not one text, each of whose characters would be read as one.

    Raises:
        ArgumentError: they are.
    """
    if isinstance(texts, str):
        raise ArgumentError("texts must be a list", "this is one text", "Put it into a list")
