"""What every JoeyNMT checkpoint has: `config.yaml`, tensors, two vocabularies, and tokenizers.

A folder holds `config.yaml`, a checkpoint such as `best.ckpt`, `src_vocab.txt` and `trg_vocab.txt`,
and the codes or the SentencePiece model that the configuration names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zoo.data.tokenizer import Tokenizer
from zoo.errors import ConversionError
from zoo.interop.generation import MOST_BEAM, MOST_TOKENS
from zoo.interop.pickle_scan import strings
from zoo.interop.pickles import read_pickle
from zoo.interop.project import ProjectImporter, checkpoint_file, chosen_file
from zoo.interop.reasons import Reasons
from zoo.interop.settings import brief, is_large, named_in_yaml, read_yaml
from zoo.interop.source import Source
from zoo.interop.state_dict import StateDict
from zoo.interop.vocabulary import (
    Entries,
    both_sides,
    codes_of,
    entries,
    sentencepiece_tokenizer,
    word_tokenizer,
)

CONFIG = "config.yaml"

FILES = (CONFIG, "*.ckpt", "*vocab*.txt", "*.model", "*.codes", "*codes*", "*.bpe")
"""The files of a folder that matter."""

OPTIONS = {
    "checkpoint": "the file; by default best.ckpt, latest.ckpt, or the only one",
    "pretokenized": "yes, if text is tokenized by Moses before, as the configuration demands",
    "codes": "byte-pair codes for version 1, whose configuration names none: a file, or two as "
    "SOURCE,TARGET; without, text is split before",
}
"""The options of the importers."""

ENDING = ".ckpt"
PREFERRED = ("best.ckpt", "latest.ckpt")

MOST_YAML = 200_000
"""The most bytes of config.yaml."""

LENGTHS = {"max_output_length": ("max_length", 1, 0), "min_output_length": ("min_length", 2, 1)}
"""The zoo's name of each limit, the least value that counts, and what the end token adds."""

SPECIALS = {"unk": (0, "<unk>"), "pad": (1, "<pad>"), "bos": (2, "<s>"), "eos": (3, "</s>")}
"""JoeyNMT's default ids and texts of the special tokens."""


@dataclass(frozen=True)
class JoeyNMT:
    """A checkpoint as it was read.

    Attributes:
        model: the section `model` of the configuration.
        state: the tensors.
        reasons: every fault so far.
        source, target: the vocabularies; the same object if they are equal.
        tokenizers: of both sides.
        languages: the codes of source and target, if they are known.
        testing: the section `testing`, which says how to search.
    """

    model: Mapping[str, Any]
    state: StateDict
    reasons: Reasons
    source: Entries
    target: Entries
    tokenizers: tuple[Tokenizer, Tokenizer]
    languages: tuple[str, str]
    testing: Mapping[str, Any]

    def get(self, side: str, name: str, default: Any) -> Any:
        """Return a setting of `encoder`, `decoder` or, with an empty side, of both."""
        section = self.model.get(side) if side else self.model
        value = section.get(name) if isinstance(section, dict) else None
        if value is None:
            return default
        wrong = type(value) is not type(default) and not (
            isinstance(default, float) and type(value) is int
        )
        if wrong or is_large(value):
            self.reasons.add(f"its setting {name} is {brief(value)}")
            return default
        return value

    def equal(self, name: str, default: Any, of_decoder: Any = None) -> Any:
        """Return a setting that encoder and decoder must share; their defaults may differ."""
        one = self.get("encoder", name, default)
        two = self.get("decoder", name, default if of_decoder is None else of_decoder)
        differ = f"{name} of encoder and decoder differ: {brief(one)}, {brief(two)}"
        self.reasons.check(one == two, differ)
        return one

    def embedding(self, side: str, name: str, default: Any) -> Any:
        """Return a setting of a side's embeddings; the target's are the source's if tied."""
        if self.tied:
            side = "encoder"
        section = self.get(side, "embeddings", {})
        return section.get(name, default) if isinstance(section, dict) else default

    @property
    def tied(self) -> bool:
        """Whether both embeddings are one matrix."""
        return bool(self.get("", "tied_embeddings", False))


class JoeyNMTImporter(ProjectImporter[JoeyNMT]):
    """Reads one network of JoeyNMT."""

    project = "joeynmt"
    own_penalty = True
    version = 2
    files = FILES
    options = OPTIONS

    def recognizes(self, source: Source) -> bool:
        """Return whether this is a JoeyNMT checkpoint with a tensor of this network."""
        name = checkpoint_file(source, {}, ENDING, PREFERRED)
        if name is None or not source.has(name) or not source.has(CONFIG):
            return False
        names = strings(source.path(name))
        return "model_state" in names and not names.isdisjoint(self.tensors)

    def named(self, source: Source) -> list[str]:
        """Return the names of files in the configuration, such as that of a vocabulary."""
        return named_in_yaml(source.text(CONFIG, MOST_YAML))

    def parse(self, source: Source, options: Mapping[str, str]) -> JoeyNMT:
        """Read a checkpoint, its vocabularies and its tokenizers."""
        return _read(source, options)

    def languages(self, checkpoint: JoeyNMT) -> tuple[str, str]:
        """Return the codes of the languages."""
        return checkpoint.languages

    def decoding(self, checkpoint: JoeyNMT) -> dict[str, Any]:
        """Return the beam, its length penalty, which has the same formula, and the lengths."""
        testing, made = checkpoint.testing, dict[str, Any]()
        beam, alpha = testing.get("beam_size"), testing.get("alpha", testing.get("beam_alpha", -1))
        if type(beam) is int and 1 < beam <= MOST_BEAM and type(alpha) in (int, float):
            made = {"beam": beam, "length_penalty": float(alpha) if 0 < alpha <= 10 else 0.0}
        for name, (own, least, more) in LENGTHS.items():
            value = testing.get(name)
            if type(value) is int and least <= value < MOST_TOKENS[own]:
                made[own] = value + more
        if made.get("min_length", 0) > made.get("max_length", MOST_TOKENS["max_length"]):
            del made["min_length"]
        return made


def _read(source: Source, options: Mapping[str, str]) -> JoeyNMT:
    what = f"{source} cannot be imported"
    name = chosen_file(source, options, ENDING, PREFERRED)
    try:
        config = read_yaml(source.text(CONFIG, MOST_YAML))
    except ValueError as error:
        raise ConversionError(what, f"config.yaml {error}") from None
    content = read_pickle(source.path(name))
    if not isinstance(content, dict) or not isinstance(content.get("model_state"), dict):
        raise ConversionError(what, f"{name} has no tensors under 'model_state'")
    sections = [config.get(key) if isinstance(config, dict) else None for key in ("model", "data")]
    if not all(isinstance(section, dict) for section in sections):
        raise ConversionError(what, "config.yaml has no sections 'model' and 'data'")
    reasons = Reasons(what)
    model, data = (dict(section or {}) for section in sections)
    testing = config.get("testing")
    codes = both_sides(options.get("codes", ""))
    sides = [
        {**_side(data, side), "codes": file}
        for side, file in zip(("src", "trg"), codes, strict=True)
    ]
    reasons.check(
        not any(codes) or all(each.get("old") and each.get("level") == "bpe" for each in sides),
        "the option codes is for version 1 with level: bpe; version 2 names them in config.yaml",
    )
    vocabularies = [
        _vocabulary(source, data, side, name, reasons)
        for side, name in zip(sides, ("src_vocab.txt", "trg_vocab.txt"), strict=True)
    ]
    if vocabularies[0] == vocabularies[1]:
        vocabularies[1] = vocabularies[0]
    reasons.raise_if_any()
    tokenizers = [
        _tokenizer(source, options, side, each, reasons)
        for side, each in zip(sides, vocabularies, strict=True)
    ]
    if vocabularies[0] is vocabularies[1] and tokenizers[0].to_json() == tokenizers[1].to_json():
        tokenizers[1] = tokenizers[0]
    state = StateDict({str(k): v for k, v in content["model_state"].items()}, reasons)
    sources = vocabularies[0], vocabularies[1]
    return JoeyNMT(
        model, state, reasons, *sources, (tokenizers[0], tokenizers[1]),
        (_language(data, "src"), _language(data, "trg")),
        testing if isinstance(testing, dict) else {},
    )  # fmt: skip


def _language(data: Mapping[str, Any], side: str) -> str:
    """Return the language of a side: before version 2, the setting of the side was its code."""
    section = data.get(side)
    code = section.get("lang") if isinstance(section, dict) else section
    return code if isinstance(code, str) else ""


def _side(data: Mapping[str, Any], side: str) -> dict[str, Any]:
    """Return the settings of a side; before version 2 both sides shared them."""
    section = data.get(side)
    if isinstance(section, dict):
        return section
    shared = {key: data.get(key) for key in ("level", "lowercase") if key in data}
    return {**shared, "old": True, "voc_file": data.get(f"{side}_vocab")}


def _vocabulary(
    source: Source, data: Mapping[str, Any], side: Mapping[str, Any], name: str, reasons: Reasons
) -> Entries:
    given = data.get("special_symbols")
    symbols = given if isinstance(given, dict) else {}
    ids, texts = {}, {}
    for key, (number, text) in SPECIALS.items():
        ids[key] = symbols.get(f"{key}_id", number)
        texts[key] = symbols.get(f"{key}_token", text)
    more = [symbols.get("sep_token"), symbols.get("lang_tags")]
    if any(type(number) is not int for number in ids.values()) or any(more):
        reasons.add("its special_symbols have no counterpart: ids of other kinds, or further tags")
        return entries(["<unk>", "<pad>", "<s>", "</s>"], (1, 2, 3, 0), name, reasons)
    file = _file_name(side.get("voc_file") or name)
    path = file if source.has(file) else name
    if not source.has(path):
        reasons.add(f"it has no {path}")
        return entries(["<unk>", "<pad>", "<s>", "</s>"], (1, 2, 3, 0), name, reasons)
    tokens = [_text(texts[key]) for key in ("unk", "pad", "bos", "eos")]
    words = source.text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")
    if side.get("old") and side.get("level") == "char":  # of version 2, they have ▁ for a space
        words = ["▁" if word == " " else word for word in words]
    tokens = list(dict.fromkeys([*tokens, *words]))
    for key, number in ids.items():
        if not 0 <= number < len(tokens) or tokens[number] != texts[key]:
            reasons.add(f"{path} has not {brief(texts[key])} as entry {number}")
    return entries(tokens, (ids["pad"], ids["bos"], ids["eos"], ids["unk"]), path, reasons)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else brief(value)


def _file_name(value: Any) -> str:
    return _text(value).rpartition("/")[2]


def _tokenizer(
    source: Source,
    options: Mapping[str, str],
    side: Mapping[str, Any],
    vocabulary: Entries,
    reasons: Reasons,
) -> Tokenizer:
    settings = side.get("tokenizer_cfg")
    given = settings if isinstance(settings, dict) else {}
    done = _text(given.get("pretokenizer", "none")).lower() != "none"
    normalize = bool(side.get("normalize")) and not done  # before Moses, whose spaces it removes
    if done:
        reasons.check(
            options.get("pretokenized") == "yes",
            "its text is tokenized by Moses first: do so, and say --option pretokenized=yes",
        )
    steps = ["joeynmt"] * normalize + ["lowercase"] * bool(side.get("lowercase"))
    level = side.get("level", "word")
    if side.get("old"):  # before version 2, byte-pair parts were words of the files
        codes = codes_of(source, side["codes"], reasons) if side["codes"] else {}
        splits = {"char": "character", "bpe": "whitespace" if codes else "parts"}
        split = splits.get(_text(level), "whitespace")
        return word_tokenizer(vocabulary, split=split, steps=steps, **codes)
    kind = side.get("tokenizer_type", side.get("bpe_type", "sentencepiece"))
    if level in ("word", "char"):
        split = "space" if level == "word" else "character"
        return word_tokenizer(vocabulary, split=split, steps=steps)
    name = _file_name(given.get("codes" if kind == "subword-nmt" else "model_file"))
    if level != "bpe" or kind not in ("subword-nmt", "sentencepiece"):
        reasons.add(f"its tokenizer has no counterpart: level {brief(level)}, type {brief(kind)}")
    elif not source.has(name):
        reasons.add(f"it has no {name}, which config.yaml names")
    elif kind == "subword-nmt":
        separator = _text(given.get("separator", "@@"))
        codes = codes_of(source, name, reasons)
        return word_tokenizer(vocabulary, separator=separator, undo=True, steps=steps, **codes)
    else:
        return sentencepiece_tokenizer(source, name, vocabulary, steps, known=True)
    return word_tokenizer(vocabulary)
