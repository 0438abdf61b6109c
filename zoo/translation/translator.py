"""Loaded checkpoints that translate: text in, text out."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple, get_args, overload

import torch
from torch import Tensor

from zoo.checkpoint import checkpoint as folder_format
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.readers import chunks
from zoo.decoding.ensemble import Ensemble
from zoo.decoding.forced import align, forced_log_probs
from zoo.decoding.options import Hypothesis, Search, combine
from zoo.decoding.search import search
from zoo.decoding.task import Task
from zoo.errors import DecodingError
from zoo.hub import pull as hub
from zoo.interop.engines import LoadedEngine, load_engine
from zoo.interop.runner import Sources
from zoo.nn.cached_weights import PackedWeights
from zoo.nn.contract import UNKNOWN, Seq2Seq
from zoo.nn.device import pick_device
from zoo.nn.int8 import Int8
from zoo.nn.tree import Tree
from zoo.registry.registry import Registry, default_registry
from zoo.translation.languages import choose
from zoo.translation.parallel import parallel_map
from zoo.translation.parts import MAX_SOURCE_LENGTH, LongTexts, Part, SourceReader, batches
from zoo.translation.translation import Translation, from_hypothesis, join_parts
from zoo.translation.vocabulary import blank_tokens, shared_vocabulary

WINDOW = 2048
"""Texts that are read ahead by default, so that a batch has texts of similar lengths."""

Precision = Literal["float32", "int8"]


class Request(NamedTuple):
    """The settings of all texts of a stream; prefix: token ids of the target."""

    search: Search
    prefix: tuple[int, ...]
    alignment: bool
    long_texts: LongTexts
    max_source_length: int


class Translator:
    """Translates with a checkpoint, or with an ensemble of several.

    Args:
        checkpoint: the checkpoint.
        *more: further members of an ensemble, whose probabilities are averaged. The recommended
            search options are those of the first.
        precision: of matrix products with weights: `float32`, or `int8`, which is faster on a CPU
            and slightly less exact.
        engine: the engine that searches; by default the zoo's own decoder.
        registry: where the engine is looked up; by default that of the installed plugins.

    Raises:
        DecodingError: there is no such precision, the checkpoints have different target
            vocabularies, they are not on the CPU with int8 or an engine, or an engine is given for
            an ensemble.
        ConversionError: the engine cannot run this checkpoint; lists all reasons.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *more: Checkpoint,
        precision: Precision = "float32",
        engine: str | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.checkpoint, self.checkpoints = checkpoint, (checkpoint, *more)
        self._reader = SourceReader(self.checkpoints)
        self._on_cpu = self._reader.device.type == "cpu"
        if precision not in get_args(Precision):
            raise DecodingError(
                f"no precision {precision!r}", f"it is {' or '.join(get_args(Precision))}"
            )
        if precision == "int8" and not self._on_cpu:
            raise DecodingError(
                "int8 runs on the CPU only", f"the model is on {self._reader.device}",
                "Use `--device cpu`",
            )  # fmt: skip
        self._recommended = {
            name: value
            for name, value in checkpoint.about.decoding.items()
            if not (more and name == "coverage_penalty")  # an ensemble has no attention
        }
        self._vocabulary = shared_vocabulary(self.checkpoints)
        blank = blank_tokens(self._vocabulary, checkpoint.target_tokenizer.control)
        self._blank = blank.to(self._reader.device)
        self._cached_weights = Int8() if precision == "int8" else PackedWeights()
        self.model: Seq2Seq | Ensemble = (
            Ensemble([member.model for member in self.checkpoints]) if more else checkpoint.model
        )
        if engine is not None and more:
            raise DecodingError(f"{engine} cannot run an ensemble", "", "Name one checkpoint")
        self._engine: LoadedEngine | None = None
        if engine is not None:
            self._engine = load_engine(
                engine, checkpoint, precision, torch.get_num_threads(),
                registry or default_registry(),
            )  # fmt: skip

    @overload
    def translate(self, texts: str, *, details: Literal[False] = False, **options: Any) -> str: ...
    @overload
    def translate(self, texts: str, *, details: Literal[True], **options: Any) -> Translation: ...
    @overload
    def translate(
        self, texts: Sequence[str], *, details: Literal[False] = False, **options: Any
    ) -> list[str]: ...
    @overload
    def translate(
        self, texts: Sequence[str], *, details: Literal[True], **options: Any
    ) -> list[Translation]: ...
    def translate(
        self, texts: str | Sequence[str], *, details: bool = False, **options: Any
    ) -> str | Translation | list[str] | list[Translation]:
        """Translate one text, or each text of a sequence.

        Args:
            texts: one text or several.
            details: return each `Translation`, with its score, tokens, alignment and
                alternatives, instead of its text.
            options: as for `stream`: `beam=5`, `n_best=3`, `alignment=True`, …

        Raises:
            DecodingError: as `stream` does.
        """
        translations = list(self.stream([texts] if isinstance(texts, str) else texts, **options))
        if isinstance(texts, str):
            return translations[0] if details else translations[0].text
        return translations if details else [translation.text for translation in translations]

    def for_languages(self, source_lang: str = "", target_lang: str = "") -> Translator:
        """Return a translator between other languages, given by name or code.

        Raises:
            DecodingError: a language is not one of the checkpoint's, or is ambiguous.
        """
        if not (source_lang or target_lang):
            return self
        chosen = copy.copy(self)
        chosen.checkpoints = tuple(choose(c, source_lang, target_lang) for c in self.checkpoints)
        chosen.checkpoint = chosen.checkpoints[0]
        chosen._reader = SourceReader(chosen.checkpoints)
        return chosen

    def stream(
        self,
        texts: Iterable[str],
        *,
        source_lang: str = "",
        target_lang: str = "",
        window: int | None = None,
        prefix: str = "",
        alignment: bool = False,
        long_texts: LongTexts = "refuse",
        max_source_length: int = MAX_SOURCE_LENGTH,
        recommended: bool = True,
        **options: Any,
    ) -> Iterator[Translation]:
        """Translate any number of texts, in order, with at most `window` of them in memory.

        An empty text, or one of white space alone, has an empty translation.

        Args:
            texts: read as they are needed.
            source_lang, target_lang: names or codes of languages, if the checkpoint knows several;
                its own defaults otherwise.
            window: texts that are read ahead, so that a batch has texts of similar lengths.
            prefix: a text with which every translation begins.
            alignment: whether to align words, by the source token with the highest attention
                weight for each target token.
            long_texts: whether a text of more than `max_source_length` tokens, or of more than
                the model reads, raises an error or is translated in parts.
            max_source_length: most tokens of a text, with the end token.
            recommended: whether the checkpoint's recommended search options apply where `options`
                neither gives nor contradicts them.
            options: of the search, the fields of `zoo.Search`.

        Raises:
            DecodingError: a text is too long, the prefix has tokens that the target vocabulary
                lacks, the options contradict each other, the model has no attention to align by, or
                a language is not one of the checkpoint's.
        """
        chosen = self.for_languages(source_lang, target_lang)
        effective = self.search_options(options, recommended=recommended)
        search = Search(**effective).with_banned_ids(self._vocabulary)
        request = Request(search, chosen._prefix(prefix), alignment, long_texts, max_source_length)
        return chosen._stream(texts, window or WINDOW, request)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """Return the log probability of each token of each target, the end token's last.

        Raises:
            DecodingError: a text is too long, or there is more than one checkpoint.
        """
        if len(self.checkpoints) > 1:
            raise DecodingError("an ensemble cannot score given targets", "name one checkpoint")
        parts = self._reader.parts(enumerate(sources), "refuse", MAX_SOURCE_LENGTH)
        encoded = self.checkpoint.target_tokenizer.encode(list(targets))
        limit = self.checkpoint.config.length_limits.target
        for i, target in enumerate(encoded):
            if limit is not None and len(target) + 2 > limit:
                raise DecodingError(f"target {i + 1} is too long", f"over {limit:,} tokens")
        scores: list[list[float]] = []
        for batch in batches(parts, 1):
            source, mask = self._reader.tensors(batch)[0]
            given = [encoded[part.text_index] for part in batch]
            scores += forced_log_probs(self.checkpoint.model, source, mask, given)
        return scores

    def search_options(
        self, given: Mapping[str, Any], *, recommended: bool = True
    ) -> dict[str, Any]:
        """Return the given search options with the recommended ones that apply besides."""
        return combine(given, self._recommended if recommended else {})

    def _prefix(self, text: str) -> tuple[int, ...]:
        (tokens,) = self.checkpoint.target_tokenizer.encode([text])
        if UNKNOWN in tokens:
            raise DecodingError(
                f"no translation can begin with {text!r}",
                "a part of it is not in the target vocabulary",
                "Leave out the characters that the vocabulary lacks",
            )
        return tuple(tokens)

    def _stream(self, texts: Iterable[str], window: int, request: Request) -> Iterator[Translation]:
        start = 0
        for chunk in chunks(texts, window, len):
            yield from self._translate_window(chunk, start, request)
            start += len(chunk)

    def _translate_window(
        self, texts: list[str], start: int, request: Request
    ) -> Iterator[Translation]:
        """Translate texts, the first of which has the index `start` among all."""
        nonempty = ((i, text) for i, text in enumerate(texts, start) if text.strip())
        parts = self._reader.parts(nonempty, request.long_texts, request.max_source_length)
        by_length = sorted(parts, key=lambda part: len(part.tokens[0]))
        work = list(batches(by_length, max(request.search.beam, request.search.n_best)))
        run = parallel_map if self._on_cpu else map
        results = run(lambda batch: self._search(batch, request), work)
        by_part: dict[tuple[int, int], list[Translation]] = {}
        for batch, translations in zip(work, results, strict=True):
            for part, ranked in zip(batch, translations, strict=True):
                by_part[part.text_index, part.part_index] = ranked
        by_text = defaultdict(list)
        for part in parts:
            by_text[part.text_index].append(by_part[part.text_index, part.part_index])
        for i, text in enumerate(texts, start):
            if i in by_text:
                yield join_parts(text, by_text[i])
            else:
                yield Translation(text, "", alignment=() if request.alignment else None)

    def _search(self, batch: list[Part], request: Request) -> list[list[Translation]]:
        """Return each part's translations, the best first."""
        sources = self._reader.tensors(batch)
        source, mask = sources[0]
        limits = [member.config.length_limits.target for member in self.checkpoints]
        limit = min((limit for limit in limits if limit is not None), default=None)
        # Only a text's first part begins with the prefix; each begins with its language's tag.
        tag = self._prefix("")
        prefixes = [tag if part.part_index else request.prefix for part in batch]
        given = prefixes if any(prefixes) else None
        with torch.inference_mode(), self._cached_weights.activate():
            indices = [part.random_index for part in batch]
            if self._engine is not None:
                to_search = Sources(source, mask, limit, given, indices, self._blank)
                hypotheses = self._engine.search(to_search, request.search)
            else:  # the memory of an ensemble is of another type than a network's
                task: Task[Any, Any] = Task(
                    self.model, self._encode(sources), mask, limit, given, indices, self._blank
                )
                hypotheses = search(task, request.search)
        tokenizers = self.checkpoint.source_tokenizer, self.checkpoint.target_tokenizer
        aligned = self._align(source, mask, hypotheses) if request.alignment else None
        return [
            [
                from_hypothesis(
                    part.text, part.tokens[0], hypothesis, tokenizers,
                    aligned[i][rank] if aligned else None,
                )
                for rank, hypothesis in enumerate(ranked)
            ]
            for i, (part, ranked) in enumerate(zip(batch, hypotheses, strict=True))
        ]  # fmt: skip

    def _encode(self, sources: list[tuple[Tensor, Tensor]]) -> Tree:
        if isinstance(self.model, Ensemble):
            return self.model.encode(sources)
        return self.model.encode(*sources[0]).memory

    def _align(
        self, source: Tensor, mask: Tensor, hypotheses: list[list[Hypothesis]]
    ) -> list[list[tuple[int, ...]]]:
        """Return, for each token of each hypothesis, the source token with the highest weight.

        The attention is that of the first checkpoint.
        """
        aligned: list[list[tuple[int, ...]]] = [[] for _ in hypotheses]
        for rank in range(max(map(len, hypotheses))):
            rows = [i for i, ranked in enumerate(hypotheses) if len(ranked) > rank]
            targets = [hypotheses[i][rank].tokens for i in rows]
            of_rank = align(self.checkpoint.model, source[rows], mask[rows], targets)
            for i, indices in zip(rows, of_rank, strict=True):
                aligned[i].append(indices)
        return aligned


def load(
    name_or_path: str | PathLike[str],
    *more: str | PathLike[str],
    device: str = "auto",
    precision: Precision = "float32",
    engine: str | None = None,
    registry: Registry | None = None,
) -> Translator:
    """Load a checkpoint from its released name, its address or its folder.

    A checkpoint that is not on this machine is pulled first; every file is verified.

    Args:
        name_or_path: the checkpoint.
        *more: further members of an ensemble.
        device: `cpu`, `cuda`, or `auto`.
        precision: as for `Translator`.
        engine: the engine that searches, such as `ctranslate2`; by default the zoo's decoder.
        registry: where names are looked up; by default the installed plugins' and the user's.

    Raises:
        CheckpointError, PluginError: as `zoo.checkpoint.checkpoint.read` does.
        DecodingError: as `Translator` does.
        HubError: as `zoo.hub.pull.locate` does.
    """
    registry = registry or default_registry()
    picked = pick_device("cpu" if engine is not None and device == "auto" else device)
    members = [_read(given, registry, picked) for given in (name_or_path, *more)]
    return Translator(*members, precision=precision, engine=engine, registry=registry)


def _read(given: str | PathLike[str], registry: Registry, device: torch.device) -> Checkpoint:
    folder = hub.locate(given, registry)
    checkpoint = folder_format.read(folder, registry, device)
    if str(folder) != str(given):  # a path in a cache means nothing to a reader
        checkpoint.name = str(given)
    return checkpoint
