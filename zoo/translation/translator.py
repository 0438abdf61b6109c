"""A loaded checkpoint: text in, text out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple

import torch

from zoo.checkpoint import checkpoint as folder_format
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.cli.process import keep_freed_memory
from zoo.data.batches import batch_sources
from zoo.data.readers import chunks
from zoo.data.tokenizer import Tokenizer
from zoo.decoding.ensemble import Ensemble
from zoo.decoding.forced import align, forced_log_probs
from zoo.decoding.options import Hypothesis, Search
from zoo.decoding.search import search
from zoo.decoding.task import Decoder, Task
from zoo.errors import DecodingError
from zoo.hub import pull as hub
from zoo.nn.cached_weights import PackedWeights
from zoo.nn.contract import UNKNOWN
from zoo.nn.device import pick_device
from zoo.nn.int8 import Int8
from zoo.registry.registry import Registry, default_registry
from zoo.translation.parallel import parallel_map
from zoo.translation.sentences import split
from zoo.translation.translation import Translation, joined, told

WINDOW = 2048
"""Texts read ahead, to put those of like lengths into one batch."""

BATCH_TOKENS = 4096
"""Most source tokens in a batch, padding included and each counted for every slot of the beam."""

LONGEST = 1024
"""Tokens of a source, the end token counted, that are read at once unless more is asked for."""

Long = Literal["refuse", "split"]
Precision = Literal["float32", "int8"]
Tokens = tuple[list[int], ...]


class Ask(NamedTuple):
    """What is wanted of every text: the search, a beginning, alignments, and of long texts."""

    search: Search
    prefix: tuple[int, ...]
    alignment: bool
    long: Long
    longest: int


class Part(NamedTuple):
    """Text that is read at once: which text it is of, its number there, its tokens by member."""

    of: int
    number: int
    text: str
    tokens: Tokens


class Translator:
    """Translates with a checkpoint, or with several that write together.

    precision: `float32`, or `int8` for products with weights, which is faster on a processor and
    nearly as good.

    Raises:
        DecodingError: the checkpoints have different target vocabularies, or are not where int8 is.
    """

    def __init__(
        self, checkpoint: Checkpoint, *more: Checkpoint, precision: Precision = "float32"
    ) -> None:
        if precision == "int8" and next(checkpoint.model.parameters()).device.type != "cpu":
            raise DecodingError(
                "int8 is for processors", "the model is on another device", "Say --device cpu"
            )
        self._products = Int8() if precision == "int8" else PackedWeights()
        self.checkpoint, self.checkpoints = checkpoint, (checkpoint, *more)
        self.model: Decoder[Any, Any] = (
            Ensemble([m.model for m in self.checkpoints]) if more else checkpoint.model
        )
        pieces = _pieces(checkpoint.target_tokenizer)
        # The target tokens that are only white space.
        blank = [i for i, piece in enumerate(pieces) if not piece.replace("▁", " ").strip()]
        self._target_tokens, self._blank = pieces, torch.tensor(blank, dtype=torch.long)
        for other in more:
            if _pieces(other.target_tokenizer) != pieces:
                raise DecodingError(
                    "these checkpoints cannot form an ensemble",
                    f"{checkpoint.model_name} and {other.model_name} have different target "
                    "vocabularies",
                    "Train them on the same data, or one after the other with the same seed",
                )

    def translate(
        self, texts: str | Sequence[str], *, details: bool = False, **options: Any
    ) -> Any:
        """Translate a text, or each of a list.

        Args:
            texts: one text or several.
            details: return each `Translation`, with its score, tokens, alignment and
                alternatives, in place of its text.
            options: as `stream` takes them: `beam=5`, `n_best=3`, `alignment=True`, …

        Raises:
            DecodingError: as `stream` does.
        """
        given = [texts] if isinstance(texts, str) else texts
        found = [t if details else t.text for t in self.stream(given, **options)]
        return found[0] if isinstance(texts, str) else found

    def stream(
        self,
        texts: Iterable[str],
        *,
        window: int | None = None,
        prefix: str = "",
        alignment: bool = False,
        long: Long = "refuse",
        longest: int = LONGEST,
        **options: Any,
    ) -> Iterator[Translation]:
        """Translate any number of texts, in order, holding at most `window` of them at a time.

        An empty text, or one of white space alone, gives an empty text.

        Args:
            texts: read as they are needed.
            window: texts read ahead, to put those of like lengths into one batch.
            prefix: what every translation must begin with, in tokens of the target vocabulary.
            alignment: whether to tell which words look at which.
            long: what becomes of a text of more than `longest` tokens, the end token counted, or
                more than the model reads: an error, or parts that are translated one by one.
            longest: see `long`.
            options: of the search, as `zoo.Search` takes them.

        Raises:
            DecodingError: a text is too long, the prefix cannot be written, the options do not
                fit, or the model has no attention to align by.
        """
        chosen = Search(**options).with_banned_ids(self._target_tokens)
        ask = Ask(chosen, self._prefix(prefix), alignment, long, longest)
        return self._stream(texts, window or WINDOW, ask)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """Return the log probability of each token of each target, the end token's the last.

        Raises:
            DecodingError: a text is too long, or there is more than one checkpoint.
        """
        if len(self.checkpoints) > 1:
            raise DecodingError(
                "an ensemble gives no scores of given targets", "name one checkpoint"
            )
        ask = Ask(Search(), (), False, "refuse", LONGEST)
        read = enumerate(zip(sources, self._tokens(list(sources)), strict=True))
        parts = [self._parts(i, text, own, i, ask)[0] for i, (text, own) in read]
        wanted = self.checkpoint.target_tokenizer.encode(list(targets))
        limit = self.checkpoint.config.length_limits.target
        for i, target in enumerate(wanted):
            if limit is not None and len(target) + 2 > limit:
                raise DecodingError(f"target {i + 1} is too long", f"over {limit:,} tokens")
        found: list[list[float]] = [[] for _ in sources]
        for batch in _batches(parts, 1):
            source, mask = self._read(batch)[0]
            scores = forced_log_probs(
                self.checkpoint.model, source, mask, [wanted[part.of] for part in batch]
            )
            for part, row in zip(batch, scores, strict=True):
                found[part.of] = row
        return found

    def _prefix(self, text: str) -> tuple[int, ...]:
        (tokens,) = self.checkpoint.target_tokenizer.encode([text])
        if UNKNOWN in tokens:
            raise DecodingError(
                f"no translation begins with {text!r}",
                "not all of it is in the target vocabulary",
                "Leave out the signs that it does not know",
            )
        return tuple(tokens)

    def _stream(self, texts: Iterable[str], window: int, ask: Ask) -> Iterator[Translation]:
        before = 0
        for chunk in chunks(texts, window):
            yield from self._window(chunk, before, ask)
            before += len(chunk)

    def _window(self, texts: list[str], before: int, ask: Ask) -> Iterator[Translation]:
        filled = [i for i, text in enumerate(texts) if text.strip()]
        tokens = self._tokens([texts[i] for i in filled])
        parts = [
            part
            for i, own in zip(filled, tokens, strict=True)
            for part in self._parts(i, texts[i], own, before + i, ask)
        ]
        found: dict[tuple[int, int], list[Translation]] = {}
        ordered = sorted(parts, key=lambda part: len(part.tokens[0]))
        batches = list(_batches(ordered, max(ask.search.beam, ask.search.n_best)))
        on_processor = next(self.checkpoint.model.parameters()).device.type == "cpu"
        run = parallel_map if on_processor else map
        searched = run(lambda batch: self._search(batch, before, ask), batches)
        for batch, of_batch in zip(batches, searched, strict=True):
            for part, translations in zip(batch, of_batch, strict=True):
                found[part.of, part.number] = translations
        by_text = itertools.groupby(sorted(found), key=lambda key: key[0])
        whole = {i: joined(texts[i], [found[key] for key in keys]) for i, keys in by_text}
        for i, text in enumerate(texts):
            yield whole.get(i) or Translation(text, "", alignment=() if ask.alignment else None)

    def _tokens(self, texts: list[str]) -> list[Tokens]:
        """Return each text's tokens, without the end token, as each member reads it."""
        return list(zip(*(m.source_tokenizer.encode(texts) for m in self.checkpoints), strict=True))

    def _parts(self, i: int, text: str, tokens: Tokens, place: int, ask: Ask) -> list[Part]:
        """Cut a text into what is read at once; `place` is its number among all."""
        limits = [member.config.length_limits.source for member in self.checkpoints]
        most = min([ask.longest, *(limit for limit in limits if limit is not None)]) - 1
        length = max(map(len, tokens))
        if length <= most:
            return [Part(i, 0, text, tokens)]
        if ask.long == "refuse":
            raise DecodingError(
                f"text {place + 1} is too long",
                f"{length + 1:,} tokens with the end token, and {self.checkpoint.model_name} "
                f"reads {most + 1:,} at most",
                "Split it into sentences, or ask for long texts to be split",
            )
        cut = split(text, most, lambda part: max(map(len, self._tokens([part])[0])))
        return [Part(i, n, part, self._tokens([part])[0]) for n, part in enumerate(cut)]

    def _read(self, batch: list[Part]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return each member's source and mask."""
        device = next(self.checkpoint.model.parameters()).device
        sources = [batch_sources([part.tokens[m] for part in batch])
                   for m in range(len(self.checkpoints))]  # fmt: skip
        return [(source.to(device), mask.to(device)) for source, mask in sources]

    def _search(self, batch: list[Part], before: int, ask: Ask) -> list[list[Translation]]:
        sources = self._read(batch)
        source, mask = sources[0]
        limits = [member.config.length_limits.target for member in self.checkpoints]
        limit = min((limit for limit in limits if limit is not None), default=None)
        prefixes = [() if part.number else ask.prefix for part in batch] if ask.prefix else None
        places = [before + part.of + (part.number << 40) for part in batch]
        with torch.inference_mode(), self._products.activate():
            if isinstance(self.model, Ensemble):
                memory: Any = self.model.encode(sources)
            else:
                memory = self.checkpoint.model.encode(source, mask).memory
            blank = self._blank.to(mask.device)
            task = Task(self.model, memory, mask, limit, prefixes, places, blank)
            found = search(task, ask.search)
        tokenizers = self.checkpoint.source_tokenizer, self.checkpoint.target_tokenizer
        aligned = self._align(source, mask, found) if ask.alignment else None
        return [
            [
                told(
                    part.text,
                    part.tokens[0],
                    one,
                    tokenizers,
                    aligned[i][rank] if aligned else None,
                )
                for rank, one in enumerate(hypotheses)
            ]
            for i, (part, hypotheses) in enumerate(zip(batch, found, strict=True))
        ]

    def _align(
        self, source: torch.Tensor, mask: torch.Tensor, found: list[list[Hypothesis]]
    ) -> list[list[tuple[int, ...]]]:
        """Return where each token of each hypothesis looks; of several members the first tells."""
        looked: list[list[tuple[int, ...]]] = [[] for _ in found]
        for rank in range(max(map(len, found))):
            rows = [i for i, hypotheses in enumerate(found) if len(hypotheses) > rank]
            targets = [found[i][rank].tokens for i in rows]
            aligned = align(self.checkpoint.model, source[rows], mask[rows], targets)
            for i, places in zip(rows, aligned, strict=True):
                looked[i].append(places)
        return looked


def _pieces(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token(i) for i in range(tokenizer.size)]


def _batches(parts: list[Part], width: int) -> Iterator[list[Part]]:
    """Yield parts in batches of bounded tokens, for searches of `width` hypotheses each."""
    batch: list[Part] = []
    for part in parts:
        if batch and (len(batch) + 1) * (len(part.tokens[0]) + 1) * width > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


def load(
    name_or_path: str | PathLike[str],
    *more: str | PathLike[str],
    device: str = "auto",
    precision: Precision = "float32",
    registry: Registry | None = None,
) -> Translator:
    """Load a checkpoint by its released name, its address, or from a folder; more: an ensemble.

    precision: see `Translator`.

    What is named or addressed is pulled if it is not here, and checked.

    Raises:
        CheckpointError, PluginError: as `zoo.checkpoint.read` does.
        DecodingError: the checkpoints have different target vocabularies.
        HubError: as `zoo.hub.locate` does.
    """
    registry = registry or default_registry()
    on = pick_device(device)
    if on.type == "cpu":
        keep_freed_memory()
    members = [_read(given, registry, on) for given in (name_or_path, *more)]
    return Translator(*members, precision=precision)


def _read(given: str | PathLike[str], registry: Registry, device: torch.device) -> Checkpoint:
    folder = hub.locate(given, registry)
    made = folder_format.read(folder, registry, device)
    if str(folder) != str(given):  # a place in a cache tells nobody anything
        made.name = str(given)
    return made
