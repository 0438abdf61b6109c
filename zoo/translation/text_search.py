"""The search for the translations of texts, in batches of their parts."""

from __future__ import annotations

import contextlib
import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.data.readers import chunks
from zoo.decoding.ensemble import Ensemble
from zoo.decoding.forced import align_ranked, aligning
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.search import search
from zoo.decoding.step_graphs import encode_recorded
from zoo.decoding.task import Task
from zoo.errors import DecodingError, shown
from zoo.interop.engines import LoadedEngine, load_engine
from zoo.interop.exporter import precision_named
from zoo.interop.runner import Sources
from zoo.nn.bf16 import bf16_weights
from zoo.nn.cached_weights import CachedWeights, float32_weights
from zoo.nn.contract import UNKNOWN, Seq2Seq
from zoo.nn.int8 import Int8
from zoo.nn.padded import flatten_recurrent
from zoo.nn.tree import Tree
from zoo.registry.registry import Registry, default_registry
from zoo.translation.copying import Key, copied, shortened, unread
from zoo.translation.parallel import (
    BATCH_TOKENS,
    GPU_BATCH_TOKENS,
    batches,
    in_turn,
    parallel_map,
    shared_out,
    source_length,
)
from zoo.translation.parts import MAX_SOURCE_LENGTH, LongTexts, Part
from zoo.translation.sentences import Split, language_code, separator
from zoo.translation.source_reader import SourceReader
from zoo.translation.tasks import for_task, leading_task
from zoo.translation.translation import (
    Translation,
    as_typed,
    from_hypothesis,
    join_parts,
    left_open,
    with_lost_numbers,
    with_unseen_words,
    within_sentence,
)
from zoo.translation.typed_words import aligned_as_typed
from zoo.translation.vocabulary import blank_tokens, shared_vocabulary, vocabularies

Result = TypeVar("Result")

Precision = Literal["float32", "bf16", "int8"]
WEIGHTS: dict[str, Callable[[], CachedWeights[Any]]] = {
    "float32": float32_weights, "bf16": bf16_weights, "int8": Int8,
}  # fmt: skip
"""The weights that are multiplied by, for each precision."""


class Request(NamedTuple):
    """The settings of all texts of a stream; prefix: token ids of the target."""

    search: Search
    prefix: tuple[int, ...]
    source_prefix: str
    alignment: bool
    split: bool
    splitter: str
    long_texts: LongTexts
    max_source_length: int
    on_batch: Callable[[int], None] | None = None
    on_step: Callable[[], None] | None = None
    first: int = 0


class TextSearch:
    """Searches the translations of texts with the members of an ensemble, or with one checkpoint.

    Raises:
        DecodingError, ConversionError: as `Translator` does.
    """

    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        precision: Precision,
        engine: str | None,
        registry: Registry | None,
    ) -> None:
        self.checkpoint, self.checkpoints = checkpoints[0], checkpoints
        self.registry = registry or default_registry()
        self.reader = SourceReader(checkpoints)
        self._of_tasks: dict[str, TextSearch] = {}
        self._on_cpu = self.reader.device.type == "cpu"
        if not isinstance(precision, str) or precision not in WEIGHTS:
            raise DecodingError(f"no precision {shown(precision)}", f"it is {', '.join(WEIGHTS)}")
        if precision == "int8" and not self._on_cpu:
            raise DecodingError(
                "int8 runs on the CPU only", f"the model is on {self.reader.device}",
                "Use bf16 there, or `--device cpu`",
            )  # fmt: skip
        self.vocabulary = shared_vocabulary(checkpoints)
        words = [member.words for member in checkpoints]
        self._words = frozenset[str]().union(*words) if all(words) else frozenset()
        self._blank = blank_tokens(self.vocabulary, self.checkpoint.target_tokenizer.control).to(
            self.reader.device
        )
        # What an engine leaves to the zoo's decoder is searched with the unchanged weights.
        is_own = engine is None and self._on_cpu
        self._cached_weights = WEIGHTS[precision if is_own else "float32"]()
        networks = [member.model for member in checkpoints]
        for network in networks:
            flatten_recurrent(network)
        self._in_bf16 = precision == "bf16" and not self._on_cpu
        if self._in_bf16:  # copies: `score` and `attention` compute in float32
            networks = [copy.deepcopy(network).to(torch.bfloat16) for network in networks]
        self.model: Seq2Seq | Ensemble = networks[0] if len(networks) == 1 else Ensemble(networks)
        if engine is not None and len(checkpoints) > 1:
            raise DecodingError(f"{engine} cannot run an ensemble", "", "Name one checkpoint")
        self._engine: LoadedEngine | None = None
        if engine is not None:
            self._engine = load_engine(
                engine, self.checkpoint, precision_named(precision),
                torch.get_num_threads(), self.registry,
            )  # fmt: skip

    def reading(self, checkpoints: Sequence[Checkpoint], task: str = "") -> TextSearch:
        """Return a search that reads as other checkpoints of the same networks do.

        Args:
            checkpoints: they differ in tokenizers or languages.
            task: the tag of the task, if they are of one of several.
        """
        chosen = copy.copy(self)
        chosen.checkpoint, chosen.checkpoints = checkpoints[0], checkpoints
        chosen.reader, chosen._of_tasks = SourceReader(checkpoints, task), {}
        return chosen

    def _by_task(
        self, texts: Iterable[tuple[int, str]], source_prefix: str = ""
    ) -> dict[TextSearch, list[tuple[int, str]]]:
        """Return numbered texts by the searches that know the languages of their tasks."""
        tasks = self.checkpoint.about.tasks
        if not tasks or self.reader.several:
            return {self: list(texts)}
        groups: dict[TextSearch, list[tuple[int, str]]] = defaultdict(list)
        for number, text in texts:
            tag = leading_task(source_prefix or text, tasks)[1]
            if tag and tag not in self._of_tasks:
                of_task = [for_task(member, tag, tasks[tag]) for member in self.checkpoints]
                self._of_tasks[tag] = self.reading(of_task, tag)
            groups[self._of_tasks[tag] if tag else self].append((number, text))
        return groups

    def prefix(self, text: str) -> tuple[int, ...]:
        """Return the target tokens with which every translation begins.

        Raises:
            DecodingError: the target vocabulary lacks one.
        """
        (tokens,) = self.checkpoint.target_tokenizer.encode([text.rstrip()])
        if UNKNOWN in tokens:
            raise DecodingError(
                f"no translation can begin with {text!r}",
                "a part of it is not in the target vocabulary",
                "Leave out the characters that the vocabulary lacks",
            )
        return tuple(tokens)

    def stream(self, texts: Iterable[str], window: int, request: Request) -> Iterator[Translation]:
        """Translate texts in order, with at most `window` of them in memory."""
        start, splits = request.first, {self: self._splitter(request)}
        for chunk in chunks(texts, window, len):
            groups = {self: list(enumerate(chunk, start))}
            if request.split:
                groups = self._by_task(groups[self], request.source_prefix)
            made: dict[int, Translation] = {}
            for search_, of_task in groups.items():
                if search_ not in splits:
                    splits[search_] = search_._splitter(request)
                done = start + len(made)
                made |= search_._translate_window(of_task, done, request, splits[search_])
            yield from (made[i] for i in sorted(made))
            start += len(chunk)

    def _splitter(self, request: Request) -> Split | None:
        return self.reader.splitter(request.splitter, self.registry) if request.split else None

    def _translate_window(
        self, texts: list[tuple[int, str]], done: int, request: Request, split: Split | None
    ) -> Iterator[tuple[int, Translation]]:
        """Translate texts, given with their indices, after so many others."""
        nonempty = ((i, text) for i, text in texts if text.strip())
        how = request.long_texts, request.max_source_length, split, request.source_prefix
        parts = self.reader.parts(nonempty, *how, respell=request.split)
        about, languages = self.checkpoint.about, self.checkpoint.about.target_languages
        between = bool(about.source_languages and languages) and not self.reader.read_whole

        def progress(share: float) -> None:
            if request.on_batch is not None:
                request.on_batch(done + int(len(texts) * share))

        stays = self._copies(request) and (between or about.single_words)
        read_parts = shortened(parts, between) if stays else parts
        by_part = self._translate_parts(read_parts, request, progress)
        if stays and between:
            by_part |= copied(
                parts,
                by_part,
                (language_code(about.source_languages), language_code(languages)),
                vocabularies(self.checkpoint),
                lambda again, read: self.reader.read_again(again, read, request.max_source_length),
                lambda again: self._translate_parts(again, request),
            )
        elif stays:
            by_part |= unread(parts, by_part)
        by_text: dict[int, list[Part]] = defaultdict(list)
        for part in parts:
            by_text[part.text_index].append(part)
        for i, text in texts:
            if own := by_text.get(i):
                of_parts = [by_part[part.key] for part in own]
                spaces = [part.space for part in own]
                joints = [separator(space, languages, about.single_words) for space in spaces]
                has_tag = own[0].lead and not request.source_prefix
                tag = self.reader.leading_tag(text)[0] if has_tag else ""
                one = aligned_as_typed(join_parts(text, of_parts, spaces, joints, tag), tag, own)
                one = with_lost_numbers(one, language_code(languages)) if between else one
                read = (part.text for part in own)
                yield i, one if about.single_words else with_unseen_words(one, read, self._words)
            else:
                yield i, Translation(text, "", alignment=() if request.alignment else None)

    def _copies(self, request: Request) -> bool:
        """Return whether what translations lack is copied; a prefix may look like a stand-in."""
        is_plain = not (self.reader.several or request.prefix)
        return request.split and self.reader.know_training and is_plain

    def _translate_parts(
        self,
        parts: Sequence[Part],
        request: Request,
        progress: Callable[[float], None] = lambda share: None,
    ) -> dict[Key, list[Translation]]:
        """Return the translations of parts by their keys; `progress` gets the share so far."""
        width = max(request.search.beam, request.search.n_best)
        size = BATCH_TOKENS if self._on_cpu else GPU_BATCH_TOKENS
        work = self.shared(list(batches(parts, width, size)), width, source_length)
        results = self.each(lambda batch: self._search(batch, request), work)
        by_part: dict[Key, list[Translation]] = {}
        for batch, translations in zip(work, results, strict=True):
            by_part |= zip((part.key for part in batch), translations, strict=True)
            progress(len(by_part) / len(parts))
        return by_part

    def read_as(self, text: str) -> tuple[list[str], bool]:
        """Return the parts in which a text is read, and whether in another spelling.

        That is, if it is not asked to stay whole and as it is.
        """
        if self.reader.several:
            return [text], False
        parts = self._parts([text])
        return [part.text for part in parts], any(part.respelled for part in parts)

    def read_otherwise(self, texts: Sequence[str]) -> int:
        """Return how many texts are not read whole and as they are, unless that is requested."""
        if self.reader.checkpoints[0].config.features:  # files, which are read whole
            return 0
        parts, whole = self._parts(texts), self.reader.tokenize(texts)
        return len({p.text_index for p in parts if p.part_index or p.tokens != whole[p.text_index]})

    def _parts(self, texts: Sequence[str]) -> list[Part]:
        """Return the parts in which texts are read by default."""
        parts: list[Part] = []
        for chosen, numbered in self._by_task(enumerate(texts)).items():
            split = chosen.reader.splitter("", self.registry)
            parts += chosen.reader.parts(numbered, "split", MAX_SOURCE_LENGTH, split, respell=True)
        return parts

    def shared(
        self, work: list[list[Part]], width: int, length: Callable[[Part], int]
    ) -> list[list[Part]]:
        """Return batches that keep all threads busy on the CPU; each part has `width` rows."""
        return shared_out(work, width, length) if self._on_cpu else work

    def each(
        self, function: Callable[[list[Part]], Result], work: Sequence[list[Part]]
    ) -> Iterator[Result]:
        """Yield `function` of each batch, in order; on the CPU, several at the same time."""
        yield from parallel_map(function, work) if self._on_cpu else in_turn(function, work)

    def _search(self, batch: list[Part], request: Request) -> list[list[Translation]]:
        """Return each part's translations, the best first."""
        sources = self.reader.tensors(batch)
        source, mask = sources[0]
        limits = [member.config.length_limits.target for member in self.checkpoints]
        limit = min((limit for limit in limits if limit is not None), default=None)
        # Only a text's first part begins with the prefix; each begins with its language's tag.
        tag = self.prefix("")
        prefixes = [tag if part.part_index else request.prefix for part in batch]
        given = prefixes if any(prefixes) else None
        within: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if request.alignment:
            within = aligning(source.shape[1], request.search.min_length)
        with within, torch.inference_mode(), self._cached_weights.activate(fixed=True):
            indices = [part.random_index for part in batch]
            if self._engine is not None:
                to_search = Sources(
                    source, mask, limit, given, indices, self._blank, request.on_step,
                    self.registry,
                )  # fmt: skip
                hypotheses = self._engine.search(to_search, request.search)
            else:  # the memory of an ensemble is of another type than a network's
                task: Task[Any, Any] = Task(
                    self.model, self._encode(sources), mask, limit, given, indices, self._blank,
                    self.registry, request.on_step,
                )  # fmt: skip
                hypotheses = search(task, request.search)
        tokenizers = self.checkpoint.source_tokenizer, self.checkpoint.target_tokenizer
        languages, model = self.checkpoint.about.target_languages, self.checkpoint.model
        language, written = language_code(languages), tokenizers[1].decode(request.prefix)
        aligned = align_ranked(model, source, mask, hypotheses) if request.alignment else None
        lead = self.reader.prefix(request.source_prefix or self.reader.task)

        def translation(part: Part, hypothesis: Hypothesis, of: Any) -> Translation:
            """Return the translation of a part, written as the part is in its text."""
            one = from_hypothesis(part.text, part.tokens[0], hypothesis, tokenizers, of, lead)
            begins = "" if part.part_index else written
            if languages:
                one = within_sentence(one, part.begins, part.ends, tokenizers[1], begins, language)
            if languages and part.ends and request.split and self.reader.closes_lines:
                one = left_open(one, language, begins)
            capitals = part.capitals and bool(languages)
            return as_typed(one, part.respelled, capitals, begins, language)

        return [
            [
                translation(part, hypothesis, aligned[i][rank] if aligned else None)
                for rank, hypothesis in enumerate(ranked)
            ]
            for i, (part, ranked) in enumerate(zip(batch, hypotheses, strict=True))
        ]

    def _encode(self, sources: list[tuple[Tensor, Tensor]]) -> Tree:
        if self._in_bf16:
            sources = [(x.bfloat16() if x.is_floating_point() else x, m) for x, m in sources]
        if isinstance(self.model, Ensemble):
            return self.model.encode(sources)
        return encode_recorded(self.model, *sources[0])
