"""What every fairseq checkpoint has: settings, tensors, two dictionaries, and how text is split.

A folder holds the checkpoint, such as `checkpoint_best.pt`, and `dict.SOURCE.txt` and
`dict.TARGET.txt`; it may hold byte-pair codes or a SentencePiece model.
"""

from __future__ import annotations

import fnmatch
import functools
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zoo.data.tokenizer import Tokenizer
from zoo.errors import ConversionError, ConversionWarning
from zoo.interop.pickle_scan import strings
from zoo.interop.pickles import plain, read_pickle
from zoo.interop.project import ProjectImporter, checkpoint_file, chosen_file, named_in_pickle
from zoo.interop.reasons import Reasons
from zoo.interop.settings import Settings, brief
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

CODES = ("*codes*", "code", "*.bpe", "bpe.[0-9]*")
"""The usual names of byte-pair codes, such as `bpe.32000`."""

FILES = ("*.pt", "dict.*.txt", *CODES, "*.model")
"""The files of a folder that matter."""

OPTIONS = {
    "checkpoint": "the file; by default checkpoint_best.pt, model.pt, checkpoint_last.pt, or the "
    "only one",
    "source": "the source language, as in dict.LANGUAGE.txt; by default that of the checkpoint",
    "target": "the target language, likewise",
    "codes": "byte-pair codes of subword-nmt or fastBPE: a file, two as SOURCE,TARGET, or none",
    "sentencepiece": "SentencePiece models: a file, two as SOURCE,TARGET, or none",
}
"""The options of the importers."""

PADDING, BEGIN, END, UNKNOWN = 1, 0, 2, 3
"""fairseq's ids of the special tokens. A target begins with the end token."""

REFUSED: dict[str, Any] = {"quant_noise_scalar": 0, "simul_type": None}
"""Settings that must have these values, or none: 8 bits, simultaneous translation."""

DICTIONARIES, HISTORY = "dict.*.txt", "optimizer_history"
"""The names of dictionaries, and what a checkpoint holds besides settings and tensors."""

ENDING = ".pt"
PREFERRED = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")


@dataclass(frozen=True)
class Fairseq(Settings):
    """A checkpoint as it was read.

    Attributes:
        state: the tensors.
        source, target: the dictionaries; the same object if they are equal.
        tokenizers: of both sides.
        languages: the codes of source and target.
    """

    state: StateDict
    source: Entries
    target: Entries
    tokenizers: tuple[Tokenizer, Tokenizer]
    languages: tuple[str, str]

    @property
    def share(self) -> str:
        """Which embeddings are one matrix; faults go to `reasons`."""
        shared = self.get("share_all_embeddings", False)
        self.reasons.check(
            not shared or self.source is self.target,
            "its embeddings are shared, but the dictionaries differ",
        )
        return "embeddings" if shared else "none"


class FairseqImporter(ProjectImporter[Fairseq]):
    """Reads one network of fairseq."""

    project = "fairseq"
    files = FILES
    options = OPTIONS

    def recognizes(self, source: Source) -> bool:
        """Return whether this is a fairseq checkpoint with a tensor of this network."""
        name = checkpoint_file(source, {}, ENDING, PREFERRED)
        if name is None or not source.has(name):
            return False
        names = strings(source.path(name))
        # without dictionaries, which are reported then, what only fairseq saves decides
        known = {"args", "cfg"} if fnmatch.filter(source.names, DICTIONARIES) else {HISTORY}
        return not names.isdisjoint(self.tensors) and not names.isdisjoint(known)

    def named(self, source: Source) -> frozenset[str]:
        """Return the names of files in the settings, such as that of codes."""
        return named_in_pickle(source, checkpoint_file(source, {}, ENDING, PREFERRED))

    def parse(self, source: Source, options: Mapping[str, str]) -> Fairseq:
        """Read a checkpoint, its dictionaries and its tokenizers."""
        return _read(source, options)

    def languages(self, checkpoint: Fairseq) -> tuple[str, str]:
        """Return the codes of the languages, as in the names of the dictionaries."""
        return checkpoint.languages


def _read(source: Source, options: Mapping[str, str]) -> Fairseq:
    what = f"{source} cannot be imported"
    name = chosen_file(source, options, ENDING, PREFERRED)
    content = read_pickle(source.path(name))
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise ConversionError(what, f"{name} has no tensors under 'model'")
    reasons = Reasons(what)
    settings, task = _settings(content, reasons)
    # the `_name` of settings under `args` is the network's
    kind = task.get("task") or task.get("_name") or "translation"
    what = f"its task is {brief(kind)}, which may read text otherwise"
    reasons.check(kind == "translation", what)
    sides = [
        str(options.get(side) or task.get(f"{side}_lang") or settings.get(f"{side}_lang") or "")
        for side in ("source", "target")
    ]
    for side, language in zip(("source", "target"), sides, strict=True):
        reasons.check(bool(language), f"it names no {side} language: --option {side}=")
    reasons.raise_if_any()
    vocabularies = [_dictionary(source, side, reasons) for side in sides]
    if vocabularies[0] == vocabularies[1]:
        vocabularies[1] = vocabularies[0]
    reasons.raise_if_any()
    tokenizers = _tokenizers(source, options, settings, sides, vocabularies, reasons)
    state = StateDict({str(k): v for k, v in content["model"].items()}, reasons)
    languages = sides[0], sides[1]
    made = Fairseq(
        settings, reasons, state, vocabularies[0], vocabularies[1], tokenizers, languages
    )
    made.refuse(**REFUSED)
    return made


def _settings(
    content: Mapping[str, Any], reasons: Reasons
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the network with those of the text, and those of the task."""
    args, cfg = plain(content.get("args")), plain(content.get("cfg"))
    if isinstance(cfg, dict) and isinstance(cfg.get("model"), dict):
        task = cfg.get("task") if isinstance(cfg.get("task"), dict) else {}
        settings = {**_flat(cfg["model"])}
        for part in ("bpe", "tokenizer"):
            if isinstance(cfg.get(part), dict):
                values = {k: v for k, v in cfg[part].items() if k != "_name"}
                settings = {**values, **settings, part: cfg[part].get("_name")}
        return settings, dict(task or {})
    if isinstance(args, dict):
        return args, args
    reasons.add("it has no settings under 'args' or 'cfg'")
    reasons.raise_if_any()
    return {}, {}


def _flat(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with those of `encoder` and `decoder` under their full names."""
    flat = dict(model)
    for side in ("encoder", "decoder"):
        nested = flat.get(side)
        if isinstance(nested, dict):
            flat.update({f"{side}_{key}": value for key, value in nested.items()})
    return flat


def _dictionary(source: Source, language: str, reasons: Reasons) -> Entries:
    """Return the dictionary of a language: special tokens, then a token and a count a line."""
    name = f"dict.{language}.txt"
    tokens = ["<s>", "<pad>", "</s>", "<unk>"]
    if not source.has(name):
        others = ", ".join(fnmatch.filter(source.names, DICTIONARIES)) or f"no {DICTIONARIES}"
        reasons.add(f"it has no {name}: it has {others}")
        reasons.next = "Copy the dictionaries from the folder of its data"
    else:
        for number, line in enumerate(source.text(name).rstrip("\n").split("\n"), 1):
            token, _, count = line.rstrip().rpartition(" ")
            if count == "#fairseq:overwrite":
                token, _, count = token.rpartition(" ")
            if not token or not count.lstrip("-").isdigit():
                reasons.add(f"{name}, line {number}: {line[:40]!r} is not a token and a count")
                break
            tokens.append(token)
    return entries(tokens, (PADDING, BEGIN, END, UNKNOWN), name, reasons)


def _tokenizers(
    source: Source,
    options: Mapping[str, str],
    settings: Mapping[str, Any],
    languages: list[str],
    vocabularies: list[Entries],
    reasons: Reasons,
) -> tuple[Tokenizer, Tokenizer]:
    kind = settings.get("bpe")
    find = functools.partial(_files, source, options, languages)
    models = find("sentencepiece", settings.get("sentencepiece_model"), "*.model")
    codes = find("codes", settings.get("bpe_codes"), *CODES)
    if kind not in (None, "subword_nmt", "fastbpe", "sentencepiece", "characters"):
        reasons.add(f"its setting bpe = {brief(kind)} has no counterpart")
    with_codes = kind in ("subword_nmt", "fastbpe")
    if not {"codes", "sentencepiece"} & options.keys():
        lacking = (with_codes and codes is None) or (kind == "sentencepiece" and models is None)
        option = "codes" if with_codes else "sentencepiece"
        why = f"its setting bpe is {kind}, and there is not one such file: --option {option}="
        reasons.check(not lacking, why)
    if "sentencepiece" not in options and (with_codes or "codes" in options):
        models = None
    made: dict[tuple[Entries, str | None], Tokenizer] = {}
    for each, file in zip(vocabularies, models or codes or (None, None), strict=True):
        if (each, file) in made:
            continue
        if kind == "characters":
            tokenizer = word_tokenizer(each, split="character", steps=["one-space"])
        elif file is None:
            tokenizer = word_tokenizer(each)
        elif models is not None:
            tokenizer = sentencepiece_tokenizer(source, file, each)
        else:
            separator = settings.get("bpe_separator") or "@@"
            values = {"separator": str(separator), **codes_of(source, file, reasons)}
            tokenizer = word_tokenizer(each, **values)
        made[each, file] = tokenizer
    if (cut := settings.get("tokenizer")) not in (None, "space"):
        what = f"the checkpoint's text is cut by the tokenizer {brief(cut)} first, which is not "
        what += "run here: give it text that is cut so"
        warnings.warn(ConversionWarning(what), stacklevel=2)
    first, *others = made.values()
    return first, others[0] if others else first


def _files(
    source: Source,
    options: Mapping[str, str],
    languages: list[str],
    option: str,
    setting: Any,
    *patterns: str,
) -> tuple[str, str] | None:
    """Return the names of the files of both sides.

    They are the option's, the setting's, the only one that matches, or for each side the only one
    with the language in its name, as in `codes.de`.
    """
    if option in options:
        return None if options[option] == "none" else both_sides(options[option])
    if isinstance(setting, str) and source.has(setting.rpartition("/")[2] or "/"):
        return both_sides(setting.rpartition("/")[2])
    matches = {name for pattern in patterns for name in fnmatch.filter(source.names, pattern)}
    if len(matches) == 1:
        return both_sides(*matches)
    named = [[n for n in matches if side in re.split(r"[._-]", n)] for side in languages]
    return (named[0][0], named[1][0]) if [len(names) for names in named] == [1, 1] else None
