"""The search that a Hugging Face folder recommends: of an exported one, and of one that is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zoo.checkpoint.about import LIST_LIMIT
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.decoding.options import Search
from zoo.interop.reasons import Reasons
from zoo.nn.contract import BEGIN, END, PADDING, UNKNOWN

LONGEST = 512
"""The most tokens of an output of an export, unless the checkpoint recommends another number."""

MOST_BEAM, MOST_NGRAM = 64, 10_000
MOST_TOKENS = {"min_length": 10_000, "max_length": 100_000}


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

        Raises:
            ConversionError: these are too many, or there were reasons before.
        """
        most = f"its search never writes {len(banned):,} tokens: {LIST_LIMIT:,} at most"
        reasons.check(len(banned) <= LIST_LIMIT, most)
        reasons.raise_if_any()
        return {**self.search(), **({"banned": tuple(banned)} if banned else {})}

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
        lengths = [("min_length", "min_length", 2, 0), ("max_length", "max_length", 21, -1)]
        if "num_beams" not in self.values:  # they may be the defaults of an old version
            lengths = []
        lengths += [("min_new_tokens", "min_length", 1, 1), ("max_new_tokens", "max_length", 1, 0)]
        for name, own, least, more in lengths:
            value = self.values.get(name)
            if type(value) is int:
                matched.pop(own, None)  # 0 new tokens precede a shortest length too
                if least <= value <= MOST_TOKENS[own]:
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
