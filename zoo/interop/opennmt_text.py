"""The vocabularies of OpenNMT-py's checkpoints, and how its transforms split text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from zoo.data.readers import has_lone_surrogate
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import Tokenizer
from zoo.interop.pickles import Harmless, literal
from zoo.interop.reasons import Reasons
from zoo.interop.settings import Settings, brief
from zoo.interop.source import Source
from zoo.interop.vocabulary import (
    Entries,
    codes_of,
    entries,
    sentencepiece_tokenizer,
    word_tokenizer,
)

OPTIONS = {
    "source_subwords": "the SentencePiece model or byte-pair codes of the source, or none; by "
    "default the file that the settings name",
    "target_subwords": "those of the target, likewise",
    "pretokenized": "yes, if text is prepared before by the transforms that have no counterpart",
}
"""The options about text."""

PADDING, BEGIN, END, UNKNOWN = "<blank>", "<s>", "</s>", "<unk>"
"""The texts of the special tokens."""

TRAINING = ("filtertoolong", "clean", "switchout", "tokendrop", "tokenmask", "bart")
"""Transforms that change nothing when a trained network reads text."""

Kind = Literal["sentencepiece", "bpe", "none"]

SUBWORDS: tuple[Kind, Kind] = ("sentencepiece", "bpe")
"""Transforms that split words."""


@dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of both sides.

    Attributes:
        source, target: the entries; the same object if they are equal.
        start: the foreign id of the token with which the decoder begins.
        old: whether they are those of a version before 3, which reads text otherwise.
    """

    source: Entries
    target: Entries
    start: int
    old: bool


def read_vocabularies(content: Any, reasons: Reasons) -> Vocabularies:
    """Return what a checkpoint has under `vocab`; faults go to `reasons`.

    Version 3 stores lists of tokens, older versions the fields of torchtext. A source of those has
    no begin and no end token.
    """
    if isinstance(content, list | tuple):  # before version 0.6: pairs of a name and a vocabulary
        content = dict(each for each in content if _is_pair(each))
    if not isinstance(content, dict):
        reasons.add("it has no vocabularies under 'vocab'")
        content = {}
    if content.get("src_feats"):
        reasons.add("its source has features besides words")
    if content.get("data_task", "seq2seq") != "seq2seq":
        reasons.add(f"its task is {brief(content['data_task'])}: it is no encoder and decoder")
    tokens = {side: _tokens(content.get(side), side, reasons) for side in ("src", "tgt")}
    begin = content.get("decoder_start_token", BEGIN)
    sides = [
        _entries(tokens[side], f"the vocabulary {side}", side == "src", reasons) for side in tokens
    ]
    if sides[0] == sides[1]:
        sides[1] = sides[0]
    known = isinstance(begin, str) and begin in tokens["tgt"]
    reasons.check(known, f"its decoder_start_token {brief(begin)} is not in the vocabulary tgt")
    start = tokens["tgt"].index(begin) if known else 0
    old = not isinstance(content.get("tgt"), list) or _is_pair(next(iter(content["tgt"]), None))
    return Vocabularies(sides[0], sides[1], start, old)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def _tokens(value: Any, side: str, reasons: Reasons) -> list[str]:
    """Return the tokens of a side, whichever version stored them."""
    if isinstance(value, Harmless):
        value = value.attributes.get("fields", [(side, value)])
    if isinstance(value, list) and value and all(_is_pair(each) for each in value):
        reasons.check(len(value) == 1, f"its {side} has features besides words")
        field = value[0][1]
        vocabulary = field.attributes.get("vocab", field) if isinstance(field, Harmless) else None
        value = vocabulary.attributes.get("itos") if isinstance(vocabulary, Harmless) else None
    if not isinstance(value, list) or not all(type(each) is str for each in value):
        reasons.add(f"its vocabulary {side} is not a list of tokens")
        return []
    halves = [token for token in value if not token.isascii() and has_lone_surrogate(token)]
    reasons.check(not halves, f"its vocabulary {side} has half of a surrogate pair")
    return value


def _entries(tokens: list[str], what: str, is_source: bool, reasons: Reasons) -> Entries:
    ids = {token: i for i, token in reversed(list(enumerate(tokens)))}
    needed = (PADDING, UNKNOWN) if is_source else (PADDING, BEGIN, END, UNKNOWN)
    missing = [token for token in needed if token not in ids]
    if missing:
        reasons.add(f"{what} has no {', '.join(missing)}")
        return Entries(tuple(SPECIALS), (0, 0, 0, 0))
    specials = (ids[PADDING], ids.get(BEGIN), ids.get(END), ids[UNKNOWN])
    return entries(tokens, specials, what, reasons)


def tokenizers_of(
    source: Source, options: Mapping[str, str], settings: Settings, vocabularies: Vocabularies
) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of both sides, one object if they are equal.

    Version 3 removes the spaces around a text and splits it at each space; older versions split it
    at any whitespace. Faults go to the reasons of the settings.
    """
    done = options.get("pretokenized") == "yes"
    transforms = list(_transforms(settings.settings))
    others = [name for name in transforms if name not in (*TRAINING, *SUBWORDS, "onmt_tokenize")]
    settings.reasons.check(done or not others, _advice(f"transforms {', '.join(others)}"))
    made = []
    for side, own in (("source", vocabularies.source), ("target", vocabularies.target)):
        reader = _Reader(source, settings, vocabularies.old, own)
        made.append(reader.tokenizer(side, transforms, options.get(f"{side}_subwords"), done))
    if vocabularies.source is vocabularies.target and made[0].to_json() == made[1].to_json():
        made[1] = made[0]
    return made[0], made[1]


def _transforms(settings: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names of the transforms, of all corpora as well."""
    data = settings.get("data")
    corpora = data.values() if isinstance(data, dict) else ()
    lists = [settings.get("transforms")]
    lists += [corpus.get("transforms") for corpus in corpora if isinstance(corpus, dict)]
    names = [name for each in lists if isinstance(each, list) for name in each]
    return dict.fromkeys(name for name in names if isinstance(name, str))


def _advice(what: str) -> str:
    return (
        f"its {what} have no counterpart: prepare text by them, and say --option pretokenized=yes"
    )


@dataclass(frozen=True)
class _Reader:
    """Makes the tokenizer of one side."""

    source: Source
    settings: Settings
    old: bool
    entries: Entries

    def tokenizer(
        self, side: str, transforms: Sequence[str], option: str | None, done: bool
    ) -> Tokenizer:
        """Return the tokenizer: of subwords if there are any, else of words between spaces."""
        one = self.settings.get("share_vocab", False)  # one tokenizer then, that of the source
        prefix = "src" if one or side == "source" else "tgt"
        kind = "none" if option == "none" else self._kind(prefix, transforms, option, done)
        values: dict[str, Any] = {
            "split": "whitespace" if self.old else "space",
            "steps": ["spaces" if self.old else "strip"],
        }
        if kind == "none":
            return word_tokenizer(self.entries, **values)
        name = option or self.settings.get(f"{prefix}_subword_model", "").rpartition("/")[2]
        restricted = self.settings.get(f"{prefix}_subword_vocab", "")
        if restricted and self.settings.get(f"{prefix}_vocab_threshold", 0) > 0:
            self.settings.reasons.add(f"its {prefix}_subword_vocab has no counterpart")
        if not name or not self.source.has(name):
            self.settings.reasons.add(
                f"it has no {name or 'subwords'}, which its settings name: put the file there, or "
                f"split text before, and say --option {side}_subwords=none"
            )
        elif kind == "sentencepiece":
            return sentencepiece_tokenizer(self.source, name, self.entries, values["steps"])
        else:
            values |= codes_of(self.source, name, self.settings.reasons)
        return word_tokenizer(self.entries, **values)

    def _kind(self, prefix: str, transforms: Sequence[str], option: str | None, done: bool) -> Kind:
        for name in SUBWORDS:
            if name in transforms:
                return name
        if "onmt_tokenize" in transforms and not done:
            return self._kind_of_tokenizer(prefix)
        if option is None:
            return "none"
        return "sentencepiece" if option.endswith(".model") else "bpe"

    def _kind_of_tokenizer(self, prefix: str) -> Kind:
        """Return the kind of a tokenizer of pyonmttok: with SentencePiece alone it has one."""
        given = self.settings.settings.get(f"{prefix}_onmttok_kwargs") or {"mode": "none"}
        try:
            values = literal(given) if isinstance(given, str) else given
        except ValueError:
            values = None
        kind = self.settings.get(f"{prefix}_subword_type", "none")
        if values == {"mode": "none"} and kind == "sentencepiece":
            return "sentencepiece"
        self.settings.reasons.add(_advice(f"{prefix}_onmttok_kwargs {brief(values)}"))
        return "none"
