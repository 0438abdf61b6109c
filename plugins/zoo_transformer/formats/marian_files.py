"""The files of Marian: settings inside a `.npz`, `decoder.yml`, and vocabularies."""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from torch import Tensor

from zoo import ZooError
from zoo.interop import Reasons, Source, piece_names, read_npz, read_yaml

SETTINGS, DECODER = "special:model.yml", "decoder.yml"
LIMIT = 50_000_000
"""The most bytes of a vocabulary or a SentencePiece model."""

SETTINGS_LIMIT = 100_000
"""The most bytes of settings."""

TRIED = 50
"""The most archives of a folder that are looked at."""

VOCABULARIES = (".yml", ".yaml", ".json", ".spm", ".txt", ".vocab")
ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
    "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0",
    "L": "\u2028", "P": "\u2029",
}  # fmt: skip
ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
ENTRY = re.compile(r"(.*):\s+(\d{1,9})\s*", re.DOTALL)
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'', re.DOTALL)


def archives(source: Source) -> list[str]:
    """Return the names of the archives that Marian wrote."""
    if source.file is not None:
        tried = [source.file.name]
    else:
        tried = [name for name in source.names if name.endswith(".npz")][:TRIED]
    return [name for name in tried if name.endswith(".npz") and _has_settings(source, name)]


def _has_settings(source: Source, name: str) -> bool:
    try:
        with zipfile.ZipFile(source.path(name)) as archive:
            return f"{SETTINGS}.npy" in archive.namelist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        return False


def named_by_decoder(source: Source, key: str) -> list[str]:
    """Return the names of files that each `decoder.yml` lists, which may not be downloaded yet."""
    listed = []
    for name in source.names:
        if name == DECODER or name.endswith(f".{DECODER}"):
            with contextlib.suppress(ZooError):  # its reader reports this
                values = _yaml(source.text(name, SETTINGS_LIMIT), name, Reasons(""))
                listed += _base_names(values.get(key))
    return listed


@dataclass(frozen=True)
class Marian:
    """What a folder of Marian's holds.

    Attributes:
        settings: the options with which the model was trained.
        decoder: those with which it translates.
        tensors: the parameters, by Marian's names.
    """

    settings: Mapping[str, Any]
    decoder: Mapping[str, Any]
    tensors: dict[str, Tensor]


def read_model(source: Source, options: Mapping[str, str], reasons: Reasons) -> Marian:
    """Return the settings and the tensors.

    Raises:
        ConversionError: it is not clear which archive is meant, or it is not Marian's.
    """
    decoder = (
        _yaml(source.text(DECODER, SETTINGS_LIMIT), DECODER, reasons) if source.has(DECODER) else {}
    )
    listed = _base_names(decoder.get("models"))
    known = archives(source)
    name = options.get("checkpoint")
    if name is None and len(known) > 1:
        marked = [each for each in known if each in listed]
        known = marked if len(marked) == 1 else known
    if name is None and not known:
        fault, reasons.next = source.fault()
        named = ", ".join(listed[:3]) or "*.npz"
        reasons.add(fault or f"it has no archive with Marian's settings, such as {named}")
    elif name is None and len(known) != 1:
        reasons.add(f"it has {len(known)} models: {', '.join(known[:5])}; choose one with "
                    "--option checkpoint=NAME")  # fmt: skip
    reasons.raise_if_any()
    file = name or known[0]
    trained = f"{file}.{DECODER}"  # as training leaves it beside each model
    if not source.has(DECODER) and source.has(trained):
        decoder = _yaml(source.text(trained, SETTINGS_LIMIT), trained, reasons)
    tensors = read_npz(source.path(file))
    stored = tensors.pop(SETTINGS, None)
    if stored is None or stored.element_size() != 1:
        reasons.add(f"{file} has no {SETTINGS}: Marian did not write it")
        reasons.raise_if_any()
        raise AssertionError
    if stored.numel() > SETTINGS_LIMIT:
        reasons.add(f"{SETTINGS} has {stored.numel():,} bytes: {SETTINGS_LIMIT:,} at most")
        reasons.raise_if_any()
    content = bytes(stored.flatten().to("cpu").numpy().tobytes()).rstrip(b"\0")
    text = content.decode("utf-8", errors="replace")
    return Marian(_yaml(text, SETTINGS, reasons), decoder, tensors)


def _yaml(text: str, what: str, reasons: Reasons) -> Mapping[str, Any]:
    try:
        values = read_yaml(text)
    except ValueError as error:
        reasons.add(f"{what} {error}")
        values = {}
    if not isinstance(values, dict):
        reasons.add(f"{what} has no settings")
        values = {}
    reasons.raise_if_any()
    return {str(name): value for name, value in values.items()}


def _base_names(paths: object) -> list[str]:
    """Return the names of files without their folders, which are those of another machine."""
    listed = paths if isinstance(paths, list) else []
    names = [PurePosixPath(PureWindowsPath(p).as_posix()).name for p in listed if type(p) is str]
    return [name for name in names if name]


def vocabulary_files(
    source: Source, marian: Marian, options: Mapping[str, str], reasons: Reasons
) -> tuple[str, str]:
    """Return the names of the files of both vocabularies: the options', the settings', or one."""
    given = [options.get(f"{side}-vocab") for side in ("source", "target")]
    if given[0] and given[1]:
        return given[0], given[1]
    listed = _base_names(marian.decoder.get("vocabs"))
    missing = [name for name in listed if not source.has(name)]
    if not listed:
        names = _base_names(marian.settings.get("vocabs"))  # paths of the time of training
        listed = [name for name in names if source.has(name)]
    known = [n for n in source.names if "vocab" in n and n.endswith(VOCABULARIES)]
    if len(listed) != 2:
        listed = known * 2
    reasons.check(not missing, f"it has no {' and '.join(missing)}, which {DECODER} names")
    if len(listed) != 2:
        reasons.add(
            f"it has {len(known)} vocabularies: {', '.join(known[:5])}; name two with "
            "--option source-vocab=NAME and target-vocab=NAME"
        )
    reasons.raise_if_any()
    return given[0] or listed[0], given[1] or listed[1]


def read_vocabulary(source: Source, name: str, reasons: Reasons) -> dict[int, str]:
    """Return the entries by their ids; what is wrong goes to `reasons`."""
    if name.endswith(".spm"):
        return dict(enumerate(piece_names(source.bytes(name, LIMIT), name)))
    if name.endswith(".fsv"):
        reasons.add(f"{name} is a factored vocabulary, which the network lacks")
        return {}
    pairs: list[tuple[str, object]]
    if name.endswith(".json"):
        pairs = [*source.json(name, LIMIT).items()]
    elif name.endswith((".yml", ".yaml")):
        pairs = _entries(source.text(name, LIMIT), name, reasons)
    else:
        lines = source.text(name, LIMIT).removesuffix("\n").split("\n")
        pairs = [(line.removesuffix("\r"), number) for number, line in enumerate(lines)]
    entries: dict[int, str] = {}
    for token, number in pairs:
        if type(number) is not int or number in entries:
            reasons.add(f"{name} gives {token[:40]!r} the id {str(number)[:40]}")
            break
        entries[number] = token
    return entries


def _entries(text: str, name: str, reasons: Reasons) -> list[tuple[str, object]]:
    """Return the lines `token: id` of a vocabulary in YAML.

    Only that is read: a parser of all YAML ends a line at U+2028 and reads `yes` as a boolean,
    which Marian does not.
    """
    pairs: list[tuple[str, object]] = []
    long: str | None = None
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or line.startswith("#") or line.strip() in ("---", "..."):
            continue
        if long is None and line.startswith("? "):
            long = line[2:]
            continue
        match = ENTRY.fullmatch(line if long is None else f"{long}{line}")
        token = None if match is None else _scalar(match[1] if long is None else long)
        if match is None or token is None:
            reasons.add(f"{name} has no entry in line {number}: {line[:40]!r}")
            break
        pairs.append((token, int(match[2])))
        long = None
    return pairs


def _scalar(text: str) -> str | None:
    """Return the token that a scalar of YAML spells; None if it spells none."""
    text = text.strip(" \t")
    if text[:1] in ('"', "'"):
        if not QUOTED.fullmatch(text):
            return None
        if text[0] == "'":
            return text[1:-1].replace("''", "'")
        try:
            plain = ESCAPE.sub(_unescaped, text[1:-1])
        except (KeyError, ValueError, OverflowError):
            return None
        return None if any("\ud800" <= c <= "\udfff" for c in plain) else plain
    return None if not text or text[0] in "&*!|>%@`[]{}" else text


def _unescaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3]
    return chr(int(digits, 16)) if digits else ESCAPES[match[4]]
