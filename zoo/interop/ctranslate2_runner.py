"""The engine CTranslate2: its own greedy and beam search over an exported Transformer.

Its options are set so that it searches as the zoo does (`docs/export.md` has the table):

- no source is cut (`max_input_length=0`), and no length penalty divides scores;
- padding, begin and unknown are suppressed, as in every search of the zoo;
- a hypothesis is scored by the network's log probabilities of its tokens. CTranslate2 divides the
  probability of suppressed tokens among the others, so that hypotheses are scored again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from zoo.checkpoint.checkpoint import Checkpoint
from zoo.decoding.options import Hypothesis, Search, search_options
from zoo.decoding.processors import NEVER, MaximumLength
from zoo.decoding.ranking import best, ended
from zoo.decoding.task import Task
from zoo.files import read_json
from zoo.interop.runner import Runner, Sources
from zoo.nn.contract import END
from zoo.registry.imports import require

if TYPE_CHECKING:
    import ctranslate2

OTHERS = {
    "length_penalty": "its length penalty has another formula",
    "coverage_penalty": "its coverage penalty has another formula",
    "repetition_penalty": "its repetition penalty has another formula",
    "stop": "its beam search ends when its beam is full",
    "sample": "its random numbers are others",
    "exhaustive": "it has no exhaustive search",
    "method": "it has its own greedy and beam search",
    "processors": "it has no logits processors of plugins",
}
"""Options that CTranslate2 defines differently; their defaults change nothing."""


RANKING = ("length_penalty", "coverage_penalty", "stop")
"""Options of a beam: they change nothing where there is only one hypothesis."""


class CTranslate2(Runner):
    """Runs a folder of the format `ctranslate2`."""

    def __init__(
        self, model: ctranslate2.Translator, checkpoint: Checkpoint, settings: Mapping[str, Any]
    ) -> None:
        self.model, self.most = model, int(settings["max_positions"])
        self.adds_end = bool(settings["add_source_eos"])
        source, target = checkpoint.source_tokenizer, checkpoint.target_tokenizer
        self.source_tokens = [source.token(i) for i in range(source.size)]
        self.target_tokens = [target.token(i) for i in range(target.size)]
        self.target_ids = {token: i for i, token in enumerate(self.target_tokens)}

    @classmethod
    def load(cls, folder: Path, checkpoint: Checkpoint, threads: int) -> Self:
        """Load the model; each batch is computed by one thread."""
        require("ctranslate2", extra="ctranslate2")
        import ctranslate2

        model = ctranslate2.Translator(
            str(folder), device="cpu", inter_threads=threads, intra_threads=1
        )
        return cls(model, checkpoint, read_json(folder / "config.json"))

    def reasons(self, options: Search) -> list[str]:
        """Return the options that CTranslate2 defines differently."""
        flags = {option.name: option for option in search_options()}
        return [
            f"`{flags[name].flag}`: {reason}"
            for name, reason in OTHERS.items()
            if getattr(options, name) != flags[name].default
            and not (name in RANKING and options.beam == 1)
        ]

    def search(self, sources: Sources, options: Search) -> list[list[Hypothesis] | None]:
        """Search; a sentence whose result breaks a rule of the zoo's search is left to the zoo."""
        task: Task[Any, Any] = Task(None, (), sources.mask, sources.limit, sources.prefixes)  # type: ignore[arg-type]  # only lengths are computed from it
        limits = MaximumLength.create(task, options).lengths.tolist()
        lengths = sources.mask.sum(1).tolist()
        least = 1 if self.adds_end else 2  # the end token alone is not a source of CTranslate2
        rows = [i for i, n in enumerate(lengths) if n >= least and max(limits[i], n) <= self.most]
        results: list[list[Hypothesis] | None] = [None] * len(sources)
        if not rows:
            return results
        texts = [
            [self.source_tokens[token] for token in sources.source[i, : lengths[i] - 1].tolist()]
            for i in rows
        ]
        prefixes = self._prefixes(sources, rows)
        translated = self.model.translate_batch(
            texts,
            target_prefix=prefixes,
            beam_size=options.beam,
            num_hypotheses=options.n_best,
            max_decoding_length=max(limits[i] for i in rows),
            min_decoding_length=max(options.min_length - 1, 0 if options.allow_empty else 1),
            no_repeat_ngram_size=options.no_repeat_ngram_size or 0,
            suppress_sequences=[[self.target_tokens[int(i)]] for i in {*NEVER, *options.banned}],
            length_penalty=0.0,
            max_input_length=0,
            return_end_token=True,
        )
        written = [
            [[self.target_ids[token] for token in tokens] for tokens in result.hypotheses]
            for result in translated
        ]
        keep = [
            j
            for j, i in enumerate(rows)
            if all(_keeps_rules(tokens, limits[i], sources, options) for tokens in written[j])
        ]
        scored = self._scores([texts[j] for j in keep], [written[j] for j in keep])
        for j, scores in zip(keep, scored, strict=True):
            hypotheses = [
                ended(options, tokens, score, score, 0.0)
                for tokens, score in zip(written[j], scores, strict=True)
            ]
            results[rows[j]] = best(hypotheses, options)
        return results

    def _prefixes(self, sources: Sources, rows: Sequence[int]) -> list[list[str]] | None:
        if sources.prefixes is None:
            return None
        return [[self.target_tokens[token] for token in sources.prefixes[i]] for i in rows]

    def _scores(
        self, texts: Sequence[list[str]], written: Sequence[list[list[int]]]
    ) -> list[list[float]]:
        """Return the log probability of each hypothesis, its end token included."""
        sources = [
            text for text, all_of_one in zip(texts, written, strict=True) for _ in all_of_one
        ]
        targets = [
            [self.target_tokens[token] for token in tokens[:-1]]
            for all_of_one in written
            for tokens in all_of_one
        ]
        if not sources:
            return []
        scored = iter(self.model.score_batch(sources, targets, max_input_length=0))
        return [[sum(next(scored).log_probs) for _ in all_of_one] for all_of_one in written]


def _keeps_rules(tokens: list[int], limit: int, sources: Sources, options: Search) -> bool:
    """Return whether a hypothesis has ended within its limit, and is not blank unless allowed."""
    if not tokens or tokens[-1] != END or len(tokens) > limit:
        return False
    blank = set(sources.blank.tolist())
    return options.allow_empty or any(token not in blank for token in tokens[:-1])
