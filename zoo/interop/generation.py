"""The search that a Hugging Face folder recommends: of an exported one, and of one that is read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from zoo.checkpoint.about import LIST_LIMIT
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.decoding.options import Search
from zoo.errors import ConversionWarning
from zoo.interop.reasons import Reasons
from zoo.nn.contract import BEGIN, END, PADDING, UNKNOWN

LONGEST = 512
"""The most tokens of an output of an export, unless the checkpoint recommends another number."""

MOST_BEAM, MOST_NGRAM = 64, 10_000
MOST_TOKENS = {"min_length": 10_000, "max_length": 100_000}
DEFAULT_LENGTH = 20
"""The `max_length` of the library if a file states none, which version 4 writes too."""

LACKING: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1,), "encoder_repetition_penalty": (1,),
    "encoder_no_repeat_ngram_size": (0,), "sequence_bias": ([], {}), "force_words_ids": ([],),
    "exponential_decay_length_penalty": (), "penalty_alpha": (0,), "stop_strings": ([], ""),
    "guidance_scale": (1,),
}  # fmt: skip
"""Settings that no search option has, with their values that have no effect besides None."""

LACKING_OF_BEAMS: dict[str, tuple[Any, ...]] = {
    "num_beam_groups": (1,), "early_stopping": (False, "never")
}  # fmt: skip
LACKING_OF_DRAWS: dict[str, tuple[Any, ...]] = {
    "typical_p": (1,), "epsilon_cutoff": (0,), "eta_cutoff": (0,), "min_p": (0,), "top_h": ()
}  # fmt: skip


class Generation:
    """What the settings of an imported folder say about a search.

    Args:
        values: those of `generation_config.json`, else of `config.json`.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    @classmethod
    def of(cls, config: Mapping[str, Any], generation: Mapping[str, Any] | None) -> Generation:
        """Return what both files say; the library reads the first one only without the second."""
        return cls(config if generation is None else {"num_beams": 1, **generation})

    def search(self) -> dict[str, Any]:
        """Return the recommended search options, as far as the zoo has the same ones.

        It has no beam search that draws, in groups, or that prefers shorter outputs the more tokens
        they have.
        """
        matched: dict[str, Any] = {}
        beam, penalty = self.values.get("num_beams"), self._number("length_penalty", 1.0, 10.0)
        plain = self.values.get("num_beam_groups") in (None, 1) and not self._samples()
        if plain and type(beam) is int and 1 < beam <= MOST_BEAM and penalty is not None:
            matched |= {"beam": beam, "length_penalty": penalty}
        ngram = self.values.get("no_repeat_ngram_size")
        if type(ngram) is int and 0 < ngram <= MOST_NGRAM:
            matched["no_repeat_ngram_size"] = ngram
        matched |= self._lengths()
        if self._samples():
            matched |= self._sampling()
        return matched

    def decoding(self, banned: Sequence[str], reasons: Reasons) -> dict[str, Any]:
        """Return `search` with the texts that are never written.

        Warns of settings that no search option has (`left_out`).

        Raises:
            ConversionError: these are too many, or there were reasons before.
        """
        most = f"its search never writes {len(banned):,} tokens: {LIST_LIMIT:,} at most"
        reasons.check(len(banned) <= LIST_LIMIT, most)
        reasons.raise_if_any()
        if lacking := self.left_out():
            what = f"the checkpoint's search settings {', '.join(lacking)} are left out, because "
            what += "no search here has them: its outputs may differ from those of transformers"
            warnings.warn(ConversionWarning(what), stacklevel=2)
        return {**self.search(), **({"banned": tuple(banned)} if banned else {})}

    def left_out(self) -> list[str]:
        """Return the settings that change what is written and that no search option has.

        Not among them are those that `docs/formats/transformers.md` describes for all checkpoints:
        the formula of the length penalty, and the end token that is forced at the longest length.
        """
        values, lacking = self.values, dict(LACKING)
        beam = values.get("num_beams")
        if type(beam) is int and beam > 1:
            lacking |= LACKING_OF_BEAMS
            if self._number("length_penalty", 1.0, 10.0) is None:
                lacking["length_penalty"] = ()
            if beam > MOST_BEAM or self._samples():
                lacking["num_beams"] = ()
        if self._samples():
            lacking |= LACKING_OF_DRAWS
        return [*_changed(values, lacking), *self._left_out_tokens()]

    def _left_out_tokens(self) -> Iterator[str]:
        """Yield the lists of tokens that have no counterpart."""
        ends = self.values.get("eos_token_id")
        end = _ids(ends if isinstance(ends, list) else [ends])
        words = self.values.get("bad_words_ids")
        if isinstance(words, list) and any(isinstance(w, list) and len(w) > 1 for w in words):
            yield "bad_words_ids of several tokens"
        if _ids(self.values.get("begin_suppress_tokens")) - end:
            yield "begin_suppress_tokens"
        if self.never() & end:
            yield "suppress_tokens with the end token"

    def never(self) -> frozenset[int]:
        """Return the ids that are never written."""
        return _ids(self.values.get("suppress_tokens"))

    def banned(self) -> frozenset[int]:
        """Return the ids that outputs never contain: those of `never`, and `bad_words_ids`.

        Words of several tokens are not among them.
        """
        words = self.values.get("bad_words_ids")
        single = (word for word in (words if isinstance(words, list) else ())
                  if isinstance(word, list) and len(word) == 1)  # fmt: skip
        return self.never().union(*map(_ids, single))

    def _lengths(self) -> dict[str, int]:
        """Return the shortest and the longest length.

        `min_length` and `max_length` count the token before the first one, but the shortest length
        no end token; neither is counted by `min_new_tokens` and `max_new_tokens`, which precede.
        """
        matched: dict[str, int] = {}
        lengths = [("min_length", "min_length", 2, 0), ("max_length", "max_length", 2, -1)]
        if "num_beams" not in self.values:  # they may be the defaults of an old version
            lengths = []
        lengths += [("min_new_tokens", "min_length", 1, 1), ("max_new_tokens", "max_length", 1, 0)]
        for name, own, least, more in lengths:
            value = self.values.get(name)
            if type(value) is int:
                matched.pop(own, None)  # 0 new tokens precede a shortest length too
                chosen = (name, value) != ("max_length", DEFAULT_LENGTH)
                if chosen and least <= value <= MOST_TOKENS[own]:
                    matched[own] = min(value + more, MOST_TOKENS[own])
        if matched.get("min_length", 0) > matched.get("max_length", MOST_TOKENS["max_length"]):
            del matched["min_length"]
        return matched

    def _samples(self) -> bool:
        return self.values.get("do_sample") is True

    def _sampling(self) -> dict[str, Any]:
        """Return the options of sampling; without a `top_k`, the library draws from 50 tokens."""
        matched: dict[str, Any] = {"sample": True}
        top_k = self.values.get("top_k", 50)
        if type(top_k) is int and top_k > 0:
            matched["top_k"] = top_k
        for name, most in (("temperature", 100.0), ("top_p", 1.0)):
            value = self._number(name, 1.0, most)
            if value is not None and 0 < value != 1:
                matched[name] = value
        return matched

    def _number(self, name: str, default: float, most: float) -> float | None:
        """Return a number from 0 on, the default if there is none, or None for another value."""
        value = self.values.get(name)
        if value is None:
            return default
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number and 0 <= value <= most else None


def _changed(values: Mapping[str, Any], lacking: Mapping[str, tuple[Any, ...]]) -> Iterator[str]:
    """Yield each setting that has another value than those without effect."""
    for name, neutral in lacking.items():
        value = values.get(name)
        if value is not None and value not in neutral:
            short = isinstance(value, bool | int | float)
            yield f"{name} {value}" if short else name


def _ids(value: object) -> frozenset[int]:
    given = value if isinstance(value, list) else ()
    return frozenset(i for i in given if type(i) is int)


def longest_output(checkpoint: Checkpoint) -> int:
    """Return the most tokens that an export's outputs have if no length is recommended."""
    return min(LONGEST, checkpoint.config.length_limits.target or LONGEST)


def recommended_search(
    checkpoint: Checkpoint, of: Callable[[int], int], has_begin: bool
) -> dict[str, Any]:
    """Return values of `generation_config.json`: those of the recommended search that it has.

    transformers divides by n^length_penalty, the zoo by ((5 + n) / 6)^length_penalty: a beam with a
    penalty is recommended only if it was imported from there, and greedy search otherwise. A length
    counts the first token there, but the shortest one does not count the end token.

    Args:
        checkpoint: what is exported.
        of: from an id of the zoo to that of the exported vocabulary.
        has_begin: whether the exported vocabulary has the begin token.
    """
    target = checkpoint.target_tokenizer
    vocabulary = [target.token(i) for i in range(target.size)]
    search = Search(**checkpoint.about.decoding).with_banned_ids(vocabulary)
    of_theirs = checkpoint.about.origin == "imported" and not checkpoint.about.own_penalty
    same = of_theirs or not search.length_penalty
    values = _values(search, longest_output(checkpoint), beam=same)
    never = {PADDING, UNKNOWN, *search.banned} | ({BEGIN} if has_begin else set())
    values["suppress_tokens"] = sorted(of(int(i)) for i in never)
    values["begin_suppress_tokens"] = None if search.allow_empty else [of(END)]
    return values


def was_written(
    recommended: Mapping[str, Any], options: Mapping[str, Any], longest: object
) -> bool:
    """Return whether an import reads these options from an export of the recommended ones.

    Args:
        recommended: the exported search options.
        options: those that were read; banned tokens are not compared.
        longest: the most tokens of an output, as the export states it.
    """
    if type(longest) is not int:
        return False
    options = {name: value for name, value in options.items() if name != "banned"}
    search = Search(**{name: value for name, value in recommended.items() if name != "banned"})
    both = (_values(search, longest, beam=beam) for beam in (True, False))
    return any(Generation(values).search() == options for values in both)


def _values(search: Search, longest: int, *, beam: bool) -> dict[str, Any]:
    """Return a search as `generation_config.json` has it, without ids, and perhaps greedy."""
    values: dict[str, Any] = {"num_beams": search.beam if beam else 1}
    if values["num_beams"] > 1:
        values["length_penalty"] = search.length_penalty
    values["max_length"] = (search.max_length or longest - 1) + 1
    if search.min_length > 1:
        values["min_length"] = search.min_length
    if search.no_repeat_ngram_size:
        values["no_repeat_ngram_size"] = search.no_repeat_ngram_size
    if search.sample:
        drawn = {"temperature": search.temperature, "top_k": search.top_k or 0}
        values |= {"do_sample": True, **drawn, "top_p": search.top_p or 1.0}
    return values
