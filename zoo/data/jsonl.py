"""Pairs from files of JSON objects, one per line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from zoo.data.readers import fault_of_text, naming, read_lines
from zoo.data.sources import join_sources
from zoo.errors import DataError
from zoo.registry.declarations import Pair
from zoo.registry.parameters import MAIN


def read_jsonl(file: Path, keys: tuple[str, ...], more: Sequence[str] = ()) -> Iterator[Pair]:
    """Yield pairs from a file of JSON objects, one per line, with text under both keys.

    Blank lines are skipped.

    Args:
        file: the file.
        keys: of the source and the target. The source may be an object of several sources.
        more: keys of further sources, which an object may lack.

    Raises:
        DataError: a line is not such an object, or as `read_lines`.
    """
    for number, line in enumerate(read_lines(file), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = str(error).replace("line 1 ", "")
            advice = _one_line_each(file, line) if line.strip() in ("[", "{") else ""
            raise DataError(f"{file}, line {number}, is not JSON", why, advice) from None
        texts = [record.get(key) for key in keys] if isinstance(record, dict) else []
        if texts and more and isinstance(texts[0], str):
            texts[0] = {MAIN: texts[0], **{key: record.get(key, "") for key in more}}
        if texts and isinstance(texts[0], dict):
            try:
                texts[0] = join_sources(texts[0])
            except DataError as error:
                raise DataError(f"{file}, line {number}: {error.what}", error.why) from None
        strings = [text for text in texts if isinstance(text, str)]
        if len(strings) != 2:
            raise DataError(
                f"{file}, line {number}, has no text under {' and '.join(keys)}",
                "each line is an object with both keys",
                _other_keys(file, record, keys),
            )
        if fault := next(filter(None, map(fault_of_text, strings)), ""):
            raise DataError(f"{file}, line {number}, is not text", fault)
        yield Pair(*strings)


def _other_keys(file: Path, record: object, keys: Sequence[str]) -> str:
    """Return how to read objects that have other keys, or other values, or an object of them."""
    if isinstance(record, list):
        return _one_line_each(file, "[")
    nested = record if isinstance(record, dict) else {}
    if set(keys) <= nested.keys() and not any(isinstance(nested[k], list | dict) for k in keys):
        wrong = [key for key in keys if not isinstance(nested[key], str)]
        return f"Write {' and '.join(wrong)} as strings, in quotes"
    if any(isinstance(value, list) for value in nested.values()):
        return "Write an object for each target; --several-references scores them together"
    name = next((key for key, value in nested.items() if isinstance(value, dict)), None)
    if name is None:
        texts = (key for key, value in nested.items() if isinstance(value, str))
        return f"To use other keys, name them after the file, such as {naming(file, texts)}"
    wanted, path = shlex.quote(f".[{json.dumps(name)}]"), shlex.quote(str(file))
    return f"The objects under {name!r} may have them: jq -c {wanted} {path} > new.jsonl"


def _one_line_each(file: Path, first: str) -> str:
    """Return how the objects in a file, whose text begins with `first`, get a line each."""
    wanted = "'.[]'" if first.startswith("[") else "."
    return f"It needs one object a line: jq -c {wanted} {shlex.quote(str(file))} > new.jsonl"
