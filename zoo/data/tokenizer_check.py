"""What a `tokenizer.json` may contain, checked before the `tokenizers` library reads it.

The library trusts its input: a wrong value may end in a Rust panic, an endless loop or gigabytes
of memory. `COMPONENTS` lists the kinds of components that are accepted, with the fields of each and
their bounds. To accept another kind, add a line; the library checks fields that are not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from zoo.data.charsmap import fault_of_charsmap, growth_of_charsmap
from zoo.data.text_tokenizer import SPECIALS, TOKEN_LIMIT
from zoo.data.tokenizer_models import MODELS
from zoo.data.tokenizer_regex import fault_of_regex
from zoo.errors import CheckpointError
from zoo.files import TEXT_LIMIT, parse_json, read_text

Field = Callable[[Any], str]
"""Returns why a value is refused; empty if it is accepted."""

TEXT = 64
"""Most characters of a replacement, a prefix or a pattern that is not an expression."""

GROWTH = 256
"""How many times longer a part of a tokenizer may make a text, by all its components together."""

GROWTHS = {
    "ByteLevel": 5, "Metaspace": 2, "BertNormalizer": 4, "Lowercase": 2,
    "BPEDecoder": 2, "WordPiece": 2, "CTC": 2,
}  # fmt: skip
"""How many times longer a component makes a text at most, if it may."""

FORMS = {"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18}
"""The same for Unicode's forms; one of them alone is accepted in every pipeline."""

DECODED = 1000
"""How many tokens a decoder is tried on."""

PARTS = 64
"""Most components of a tokenizer, and most items of a template."""

DEPTH = 8
"""The deepest nesting of sequences."""

FAULTS = 20
"""Most faults that are listed."""


def _boolean(value: Any) -> str:
    return "" if type(value) is bool or value is None else "must be true or false"


def _whole(least: int, most: int, value: Any) -> str:
    good = type(value) is int and least <= value <= most
    return "" if good else f"must be a whole number from {least:,} to {most:,}"


def _text(least: int, most: int, value: Any) -> str:
    good = type(value) is str and least <= len(value) <= most
    return "" if good else f"must be text of {least} to {most} characters"


def _one_of(values: tuple[str, ...], value: Any) -> str:
    return "" if value in values else f"must be {', '.join(values)}"


def _pattern(value: Any) -> str:
    """Check {"String": text} or {"Regex": expression}."""
    if isinstance(value, dict) and len(value) == 1:
        ((kind, text),) = value.items()
        if kind == "String":
            return _text(1, TEXT, text)
        if kind == "Regex" and type(text) is str:
            fault = fault_of_regex(text)
            return f"{text[:40]!r} is refused: {fault}" if fault else ""
    return "must be a String or a Regex"


def _special(value: Any) -> str:
    """Check a token and its id, as processors have them."""
    good = isinstance(value, list) and len(value) == 2
    good = good and not _text(0, TOKEN_LIMIT, value[0]) and _is_id(value[1])
    return "" if good else "must be [token, id]"


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


_character = partial(_text, 1, 1)
_short = partial(_text, 0, TEXT)
_behavior = partial(
    _one_of, ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
)
_metaspace: dict[str, Field] = {
    "replacement": _character,
    "prepend_scheme": partial(_one_of, ("first", "never", "always")),
    "add_prefix_space": _boolean,
    "split": _boolean,
}
_byte_level: dict[str, Field] = {
    "add_prefix_space": _boolean, "trim_offsets": _boolean, "use_regex": _boolean,
}  # fmt: skip
_bert_ends: dict[str, Field] = {"sep": _special, "cls": _special, **_byte_level}

COMPONENTS: dict[str, dict[str, dict[str, Field]]] = {
    "normalizer": {
        "NFC": {}, "NFD": {}, "NFKC": {}, "NFKD": {}, "Nmt": {}, "Lowercase": {},
        "StripAccents": {}, "ByteLevel": {},
        "Strip": {"strip_left": _boolean, "strip_right": _boolean},
        "BertNormalizer": {
            "clean_text": _boolean, "handle_chinese_chars": _boolean, "strip_accents": _boolean,
            "lowercase": _boolean,
        },
        "Replace": {"pattern": _pattern, "content": _short},
        "Prepend": {"prepend": _short},
        "Precompiled": {"precompiled_charsmap": fault_of_charsmap},
    },
    "pre_tokenizer": {
        "BertPreTokenizer": {}, "Whitespace": {}, "WhitespaceSplit": {}, "UnicodeScripts": {},
        "ByteLevel": _byte_level,
        "Metaspace": _metaspace,
        "CharDelimiterSplit": {"delimiter": _character},
        "Digits": {"individual_digits": _boolean},
        "Punctuation": {"behavior": _behavior},
        "Split": {"pattern": _pattern, "behavior": _behavior, "invert": _boolean},
        "FixedLength": {"length": partial(_whole, 1, 10_000)},
    },
    "post_processor": {
        "ByteLevel": _byte_level, "BertProcessing": _bert_ends, "RobertaProcessing": _bert_ends,
        "TemplateProcessing": {},
    },
    "decoder": {
        "ByteLevel": _byte_level, "Metaspace": _metaspace, "ByteFallback": {}, "Fuse": {},
        "BPEDecoder": {"suffix": _short},
        "WordPiece": {"prefix": _short, "cleanup": _boolean},
        "Replace": {"pattern": _pattern, "content": _short},
        "Strip": {
            "content": _character, "start": partial(_whole, 0, 1000),
            "stop": partial(_whole, 0, 1000),
        },
        "CTC": {"pad_token": _short, "word_delimiter_token": _short, "cleanup": _boolean},
    },
}  # fmt: skip
"""Accepted components of each part, with the checks of their fields."""

SEQUENCES = {
    "normalizer": "normalizers", "pre_tokenizer": "pretokenizers",
    "post_processor": "processors", "decoder": "decoders",
}  # fmt: skip
"""The field of a `Sequence` that holds its components."""


def read_tokenizer(file: Path) -> str:
    """Return the text of a `tokenizer.json` that is safe to give to the library.

    Raises:
        CheckpointError: it is not one, or something in it is refused; lists all of that.
    """
    text = read_text(file, TEXT_LIMIT)
    check_tokenizer(text, str(file))
    return text


def check_tokenizer(text: str, file: str) -> None:
    """Check the text of a `tokenizer.json`, which is from a file.

    Raises:
        CheckpointError: as `read_tokenizer`.
    """
    try:
        content = parse_json(text)
        text.encode("utf-8")
    except ValueError as error:
        reason = str(error)
        raise CheckpointError(f"{file} is not a tokenizer", reason) from None
    faults = faults_of_tokenizer(content)
    if faults:
        more = [f"and {len(faults) - FAULTS} more"] if len(faults) > FAULTS else []
        raise CheckpointError(f"{file} is not a tokenizer", "; ".join(faults[:FAULTS] + more))


def faults_of_tokenizer(content: object) -> list[str]:
    """Return what is refused in the content of a `tokenizer.json`; empty if it is accepted."""
    if not isinstance(content, dict):
        return ["it is not a JSON object"]
    faults = [
        f"{key} must be null: the zoo pads and cuts by itself"
        for key in ("padding", "truncation")
        if content.get(key) is not None
    ]
    for part in COMPONENTS:
        component = content.get(part)
        if component is not None:
            faults += _faults_of_component(part, component)
    if not faults:
        faults = [
            f"its {part} may make a text over {GROWTH} times longer"
            for part in ("normalizer", "pre_tokenizer", "decoder")
            if _growth(part, content.get(part)) > GROWTH
        ]
    size, more = _faults_of_vocabulary(content)
    if not faults and not more:
        for processor in _components("post_processor", content.get("post_processor")):
            more += _faults_of_template(processor, size)
    return faults + more


def faults_of_library(tokenizer: Tokenizer, vocab_size: int) -> list[str]:
    """Return why a file with a tokenizer of the library, just trained, would be refused."""
    size = tokenizer.get_vocab_size()
    try:
        faults = faults_of_tokenizer(parse_json(tokenizer.to_str()))
    except ValueError as error:
        faults = [str(error)]
    if [tokenizer.id_to_token(i) for i in range(len(SPECIALS))] != SPECIALS:
        faults.append(f"its first tokens must be {', '.join(SPECIALS)}")
    if size > vocab_size:
        faults.append(f"it has {size:,} entries, and vocab_size is {vocab_size:,}")
    return (faults or _faults_of_decoder(tokenizer))[:FAULTS]


def _faults_of_decoder(tokenizer: Tokenizer) -> list[str]:
    """Return a fault if a decoder writes another text than the tokens, which the zoo joins."""
    if tokenizer.decoder is None:
        return []
    ids = range(len(SPECIALS), min(tokenizer.get_vocab_size(), len(SPECIALS) + DECODED))
    tokens = "".join(str(tokenizer.id_to_token(id)) for id in ids)
    if tokenizer.decode(list(ids)).strip() == tokens.replace("▁", " ").strip():
        return []
    return [
        "its decoder is not used: a text is its tokens joined, in which ▁ is a space. Mark spaces "
        "so (Metaspace), or make a zoo.TextTokenizer"
    ]


def _faults_of_component(part: str, component: Any) -> list[str]:
    try:
        components = list(_components(part, component))
    except ValueError as error:
        return [f"{part}: {error}"]
    faults = []
    for each in components:
        kind = each.get("type")
        fields = COMPONENTS[part].get(kind) if type(kind) is str else None
        if fields is None:
            faults.append(f"{part}: unknown type {str(kind)[:40]!r}")
            continue
        checked = ((name, check(each[name])) for name, check in fields.items() if name in each)
        faults += [f"{part}, {kind}: {name} {fault}" for name, fault in checked if fault]
    return faults


def _components(part: str, component: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the components of a part, those of sequences too.

    Raises:
        ValueError: one is not an object, or there are too many.
    """
    if component is None and depth == 0:
        return
    if not isinstance(component, dict):
        raise ValueError("it must be an object")
    if component.get("type") != "Sequence":
        yield component
        return
    inner = component.get(SEQUENCES[part])
    if not isinstance(inner, list) or len(inner) > PARTS or depth == DEPTH:
        raise ValueError(f"a Sequence must have up to {PARTS} components, {DEPTH} deep")
    count = 0
    for each in inner:
        for nested in _components(part, each, depth + 1):
            count += 1
            if count > PARTS:
                raise ValueError(f"it has over {PARTS} components")
            yield nested


def _growth(part: str, component: Any) -> float:
    """Return how many times longer a part may make a text."""
    growth, forms = 1.0, 0
    for each in _components(part, component):
        kind = each["type"]
        if kind == "Replace":
            content, pattern = each.get("content", ""), each.get("pattern", {})
            # An expression may match between any two characters.
            exact = len(pattern["String"]) if "String" in pattern else 0
            growth *= max(1, len(content) / exact) if exact else 1 + len(content)
        elif kind == "Precompiled":
            growth *= growth_of_charsmap(each.get("precompiled_charsmap", ""))
        elif kind in FORMS:
            growth *= FORMS[kind] if forms else 1
            forms += 1
        else:
            growth *= GROWTHS.get(kind, 1)
    return growth


def _faults_of_vocabulary(content: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return the number of entries, and what is refused in the model and the added tokens."""
    model = content.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    if not isinstance(model, dict) or type(kind) is not str or kind not in MODELS:
        return 0, [f"model: unknown type {str(kind)[:40]!r}"]
    vocabulary, faults = MODELS[kind](model)
    if faults:
        return 0, [f"model, {kind}: {fault}" for fault in faults]
    added = content.get("added_tokens")
    added = [] if added is None else added
    if not isinstance(added, list):
        return 0, ["added_tokens must be a list"]
    ids = dict(vocabulary)
    for token in added:
        text = token.get("content") if isinstance(token, dict) else None
        if type(text) is not str or _text(1, TOKEN_LIMIT, text) or not _is_id(token.get("id")):
            most = f"{TOKEN_LIMIT:,} characters"
            return 0, [f"added_tokens: each needs an id, and a content of up to {most}"]
        if ids.setdefault(text, token["id"]) != token["id"]:
            return 0, [f"added_tokens: {text[:40]!r} has two ids"]
    if sorted(ids.values()) != list(range(len(ids))):
        return 0, [f"the ids of its {len(ids):,} entries are not those from 0 to {len(ids) - 1:,}"]
    return len(ids), []


def _faults_of_template(processor: Mapping[str, Any], size: int) -> list[str]:
    """Return what is refused in the ids and templates of a post-processor."""
    ends = [processor[key][1] for key in ("sep", "cls") if key in processor]
    if any(id >= size for id in ends):
        return ["post_processor: a special token has an id outside of the vocabulary"]
    if processor.get("type") != "TemplateProcessing":
        return []
    special = processor.get("special_tokens")
    if not isinstance(special, dict) or len(special) > PARTS:
        return [f"post_processor: special_tokens must be an object of up to {PARTS}"]
    for token in special.values():
        ids = token.get("ids") if isinstance(token, dict) else None
        tokens = token.get("tokens") if isinstance(token, dict) else None
        if not isinstance(ids, list) or not isinstance(tokens, list) or len(ids) != len(tokens):
            return ["post_processor: each special token needs as many ids as tokens"]
        if len(ids) > PARTS or not all(_is_id(id) and id < size for id in ids):
            return ["post_processor: a special token has an id outside of the vocabulary"]
    for name in ("single", "pair"):
        template = processor.get(name, [])
        good = isinstance(template, list) and all(isinstance(item, dict) for item in template)
        if not good or len(template) > PARTS:
            return [f"post_processor: {name} must be a list of up to {PARTS}"]
        for item in template:
            named = item.get("SpecialToken") if isinstance(item, dict) else None
            if named is not None and (
                not isinstance(named, dict) or named.get("id") not in special
            ):
                return [f"post_processor: {name} has an unknown special token"]
    return []
