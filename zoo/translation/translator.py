"""Loaded checkpoints that translate: text in, text out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

import torch

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.datasets import given_items, metrics_of_data
from zoo.data.pairs import PairLike
from zoo.decoding.ensemble import Ensemble
from zoo.decoding.option import plain_number
from zoo.decoding.options import as_flags, combine
from zoo.errors import DecodingError, shown
from zoo.nn.contract import Seq2Seq
from zoo.registry.arguments import checked
from zoo.registry.registry import Registry
from zoo.translation.attention import Attention, compute_attention
from zoo.translation.languages import choose, of_data
from zoo.translation.long_texts import in_parts
from zoo.translation.options import (
    WINDOW,
    Options,
    SearchOptions,
    Source,
    Texts,
    as_one,
    check_text,
    check_texts,
    checked_options,
    keywords,
    make_search,
    separated,
)
from zoo.translation.pair_scores import score_ids, score_texts
from zoo.translation.text_search import Precision, Request, TextSearch
from zoo.translation.translation import Translation

if TYPE_CHECKING:
    from zoo.evaluation.metrics import Scores


class Translator:
    """Translates with a checkpoint, or with an ensemble of several.

    Args:
        checkpoint: the checkpoint.
        *more: further members of an ensemble, whose probabilities are averaged. The recommended
            search options are those of the first.
        precision: of products with weights when it translates: `float32`; `bf16` or `int8`, faster
            and less exact. On a GPU, `bf16` is the precision of the whole network, and there is no
            `int8`. `score` and `attention` compute in float32.
        engine: the engine that searches; by default the zoo's own decoder.
        registry: where names are looked up; by default that of the installed plugins, as it is
            in another process that the translator is sent to.

    Raises:
        DecodingError: there is no such precision, the checkpoints have different target
            vocabularies, they are not on the CPU with int8 or an engine, or an engine is given
            for an ensemble.
        UnknownNameError: there is no such engine.
        ConversionError: the engine cannot run this checkpoint; lists all reasons.
    """

    @checked
    def __init__(
        self,
        checkpoint: Checkpoint,
        *more: Checkpoint,
        precision: Precision = "float32",
        engine: str | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.checkpoint, self.checkpoints = checkpoint, (checkpoint, *more)
        self.precision, self.engine = precision, engine
        self._search = TextSearch(self.checkpoints, precision, engine, registry)
        self._recommended = {
            name: value
            for name, value in checkpoint.about.decoding.items()
            if not (more and name == "coverage_penalty")  # an ensemble has no attention
        }

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process rebuilds the translator from: its checkpoints' tensors."""
        return {k: v for k, v in vars(self).items() if k not in ("_search", "_recommended")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)  # those of a subclass too
        Translator.__init__(self, *self.checkpoints, precision=self.precision, engine=self.engine)

    def __repr__(self) -> str:
        about = self.checkpoint.about
        languages = "→".join(
            side[0] if len(side) == 1 else f"{len(side)} languages"
            for side in (about.source_languages, about.target_languages)
            if side
        )
        size = sum(p.numel() for c in self.checkpoints for p in c.model.parameters())
        parts = [" + ".join(c.name for c in self.checkpoints), languages, f"{size:,} parameters"]
        parts += [str(self.device), self.precision, self.engine or "", as_flags(self._recommended)]
        return f"<Translator {', '.join(part for part in parts if part)}>"

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._search.reader.device

    @property
    def model(self) -> Seq2Seq | Ensemble:
        """The network, or those of an ensemble as one; in training mode it translates at random."""
        return self._search.model

    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is also a sequence of texts
        self, texts: Source, *, details: Literal[False] = False, **options: Unpack[Options]
    ) -> str: ...
    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is also a sequence of texts
        self, texts: Source, *, details: Literal[True], **options: Unpack[Options]
    ) -> Translation: ...
    @overload
    def translate(
        self, texts: Texts, *, details: Literal[False] = False, **options: Unpack[Options]
    ) -> list[str]: ...
    @overload
    def translate(
        self, texts: Texts, *, details: Literal[True], **options: Unpack[Options]
    ) -> list[Translation]: ...
    @keywords(Options)
    def translate(
        self, texts: Source | Texts, *, details: bool = False, **options: Unpack[Options]
    ) -> str | Translation | list[str] | list[Translation]:
        """Translate one text, or each text of a sequence.

        Args:
            texts: one or several: texts, mappings of several sources, or matrices of features.
            details: return each `Translation`, with its score, tokens, alignment and
                alternatives, instead of its text.
            options: as for `stream`: `beam=5`, `n_best=3`, `alignment=True`, …

        Raises:
            DecodingError: as `stream` does, or alternatives are requested without `details`.
        """
        details = checked_options({"details": details})["details"]
        n_best = plain_number(options.get("n_best", 1))
        if not details and isinstance(n_best, int) and n_best > 1:
            several = f"n_best is {shown(n_best)}, and one text is returned for each"
            hint = "Add details=True; each translation then has its `alternatives`"
            raise DecodingError("these options are not possible", several, hint)
        if (one := as_one(texts)) is None:
            translations = list(self.stream(cast(Texts, texts), **options))
            return translations if details else [translation.text for translation in translations]
        (translation,) = self.stream([one], **options)
        return translation if details else translation.text

    def for_languages(self, source_lang: str = "", target_lang: str = "") -> Translator:
        """Return a translator between other languages, given by name or code.

        Raises:
            DecodingError: a language is not one of the checkpoint's, is ambiguous, or not a text.
        """
        checked_options({"source_lang": source_lang, "target_lang": target_lang})
        if not (source_lang or target_lang):
            return self
        chosen = object.__new__(type(self))  # `copy` would build a new one, as `pickle` does
        chosen.__dict__.update(self.__dict__)
        chosen.checkpoints = tuple(choose(c, source_lang, target_lang) for c in self.checkpoints)
        chosen.checkpoint = chosen.checkpoints[0]
        chosen._search = self._search.reading(chosen.checkpoints)
        return chosen

    @keywords(Options)
    def stream(self, texts: Iterable[Source], **options: Unpack[Options]) -> Iterator[Translation]:
        """Translate any number of texts, in order, with at most `window` of them in memory.

        An empty text, or one of white space alone, has an empty translation.

        Args:
            texts: read when needed.
            options: the fields of `zoo.Search`, and
                recommended: whether the checkpoint's recommended search options fill the gaps;
                source_lang, target_lang: names or codes of languages, if the checkpoint knows
                several; its own defaults otherwise;
                split: whether sentences are translated one by one and joined, with line breaks
                kept, where the checkpoint's source language is known; those longer than the
                sources of training (`trained_length`) in parts, capitals and marks that the model
                hardly knows in its spelling; numbers, dates, addresses, names are copied if lost;
                splitter: what splits sentences (`zoo list splitters`), also where the language is
                not known; by default `sentencex`, where it is, or `words` for single words;
                window: texts that are read ahead, so that a batch has texts of similar lengths;
                prefix: a text with which every translation begins;
                source_prefix: a text to read before every text or sentence, such as a task's tag;
                alignment: whether to align words, by the source token with the highest attention
                weight for each target token;
                long_texts: whether a text or sentence of more than `max_source_length` tokens, or
                of more than the model reads, raises an error (`refuse`) or is translated in parts
                (`split`);
                max_source_length: most tokens of a text or sentence, with the end token;
                on_batch: called after each batch with the number of texts so far;
                on_step: called before one or more of the zoo's own steps; what it raises ends it;
                first: how many texts of the same job precede these; sampling depends on it.

        Raises:
            DecodingError: a text is too long or not a string, the vocabulary lacks the prefix,
                the options contradict each other, the model has no attention to align by, or a
                language is not one of the checkpoint's.
            UnknownNameError, ConfigError: an option, or what one names, does not exist or fit.
            PluginError: what an option names is broken.
        """
        own, given = separated(options)
        effective = self.search_options(given, recommended=own.pop("recommended"))
        chosen = self.for_languages(own.pop("source_lang"), own.pop("target_lang"))._search
        window, prefix = own.pop("window") or WINDOW, chosen.prefix(own.pop("prefix"))
        search = make_search(effective, given, chosen.registry).with_banned_ids(chosen.vocabulary)
        return chosen.stream(check_texts(texts), window, Request(search, prefix, **own))

    @overload
    def score(  # type: ignore[overload-overlap]  # a text is also a sequence of texts
        self, sources: Source, targets: str
    ) -> list[float]: ...
    @overload
    def score(self, sources: Texts, targets: Sequence[str]) -> list[list[float]]: ...
    def score(
        self, sources: Source | Texts, targets: str | Sequence[str]
    ) -> list[float] | list[list[float]]:
        """Return the log probability of each token of a target, the end token's last.

        For lists of sources and targets, return one list for each pair.

        Raises:
            DecodingError: a text is too long or not a string, there are not as many targets as
                sources, or there is more than one checkpoint.
        """
        if isinstance(targets, str) or as_one(cast(Source, sources)) is not None:
            source, target = check_text(sources, "source"), check_text(targets, "target")
            return score_texts(self._search, [source], [target])[0]
        lists = list(check_texts(sources, "source")), list(check_texts(targets, "target"))
        return score_texts(self._search, *lists)

    def score_ids(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Return the log probability of each token of each target, the end token's last.

        Args:
            sources: token ids, without the end token: `source_ids` of translations.
            targets: token ids, without begin and end: `tokens` of their hypotheses.

        Raises:
            DecodingError: there is more than one checkpoint, the lists differ in length, an id is
                of no token, or a source or target is too long.
        """
        return score_ids(self._search, sources, targets)

    @keywords(SearchOptions)
    def attention(
        self,
        text: Source,
        target: str | None = None,
        *,
        required: bool = True,
        on_step: Callable[[], None] | None = None,
        **options: Unpack[SearchOptions],
    ) -> Attention:
        """Return the attention weights with which the model predicts a target from a text.

        Args:
            text: the source, read whole, as it is; see `parts` and `respelled` of the result.
            target: a target; by default the model's own translation.
            required: whether a model without attention is an error; else its weights are empty.
            on_step: called before each step of the search, or several; what it raises ends it.
            options: of the search for the translation, the fields of `zoo.Search`.

        Raises:
            DecodingError: the text is empty, the model has no attention and it is required, a side
                is too long, there is more than one checkpoint, or a target and options of a search
                are given.
        """
        if len(self.checkpoints) > 1:
            raise DecodingError("an ensemble has no attention", "", "Name one checkpoint")
        text = check_text(text, "the text")
        if target is not None:
            if names := ", ".join(sorted(options)):
                raise DecodingError(f"{names} cannot apply", "a target is given: none is searched")
            (tokens,) = self.checkpoint.target_tokenizer.encode([check_text(target, "the target")])
        else:
            (translation,) = self.stream([text], split=False, on_step=on_step, **options)
            tokens = [token for h in translation.hypotheses for token in h.tokens]
        computed = compute_attention(self.checkpoint, text, tokens, required=required)
        parts, respelled = self.read_as(text)
        return replace(computed, parts=len(parts), respelled=respelled)

    def parts(self, text: Source) -> list[str]:
        """Return the parts in which `translate` reads a text.

        Sentences, where the source language is known; parts of those longer than in training.

        Raises:
            DecodingError: the text is not a string, or it is of several sources and too long.
        """
        return self.read_as(text)[0]

    def read_as(self, text: Source) -> tuple[list[str], bool]:
        """Return `parts`, and whether they are read in the spelling of training; raise as it."""
        return self._search.read_as(check_text(text, "the text"))

    @keywords(SearchOptions)
    def evaluate(
        self,
        data: str | PathLike[str] | Iterable[PairLike],
        split: str | None = None,
        *,
        limit: int | None = None,
        sentences: bool = False,
        **options: Unpack[SearchOptions],
    ) -> Scores:
        """Translate sources; return the scores of `zoo eval`, and its warnings in `problems`.

        Args:
            data: a dataset's name, files of parallel text, or pairs, as `zoo.train` takes them.
            split, limit: the split, by default the one that `zoo eval` scores; the most pairs.
            sentences: reads sources as `translate` does, and not whole.
            options: of the search, the fields of `zoo.Search`.

        Raises:
            UnknownNameError, DataError: there is no such data, no pair, or an item is none.
            DecodingError: an item of several sources is longer than the model reads.
        """
        from zoo.evaluation.metrics import make_metrics, score
        from zoo.evaluation.notes import of_texts

        checkpoint, registry = self.checkpoint, self._search.registry
        dataset, split, items = given_items(registry, data, split, plain_number(limit))
        sources, references = [item.source for item in items], [item.references for item in items]
        made = [*self.stream(sources, split=sentences, long_texts="split", **options)]
        names = metrics_of_data(registry, dataset.metrics, checkpoint.about.data)
        using = make_metrics(registry.metrics, tokenizer=checkpoint.target_tokenizer, names=names)
        texts = [one.text for one in made]
        scores = score(texts, references, using, sources=sources, resamples=0)
        notes = [] if sentences else [*in_parts(made), *self.read_whole(sources)]
        notes += [*of_data([checkpoint], dataset, split, items), *of_texts(texts, items, scores)]
        return replace(scores, problems=(*using.problems, *scores.problems, *notes))

    def read_whole(self, sources: Sequence[Source]) -> list[str]:
        """Return a warning if sources were read whole that `translate` reads otherwise."""
        if not (number := self._search.read_otherwise([s for s in sources if isinstance(s, str)])):
            return []
        are = "source was" if number == 1 else "sources were"
        which = "which zoo translate reads by sentences, in parts, or otherwise spelled or spaced"
        return [f"{number:,} {are} read whole, {which}; --sentences scores that"]

    def search_options(
        self, given: Mapping[str, Any], *, recommended: bool = True
    ) -> dict[str, Any]:
        """Return the given search options with the recommended ones that apply besides."""
        return combine(given, self._recommended if recommended else {})
