"""What a run folder holds of the parent: the first weights, and what is compared with it.

`initial.safetensors`: the weights with which the run begins, also after it was killed early.
`parent.json`: what the new checkpoint and its card say, and the pairs that are translated before
and after tuning, with the parent's scores. Those are held-out pairs of the new data, and pairs of
what the parent was trained on, if an installed plugin can read that.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor

from zoo.checkpoint.about import About, one_line
from zoo.checkpoint.checkpoint import Checkpoint
from zoo.checkpoint.tensors import read_tensors
from zoo.data.datasets import find_dataset, items_to_score
from zoo.data.features import Features
from zoo.errors import CheckpointError, ZooError
from zoo.evaluation.labels import metric_label
from zoo.evaluation.metrics import score
from zoo.files import TEXT_LIMIT, damaged, read_json
from zoo.interop.export_card import stated_card
from zoo.nn.build import build, network_type
from zoo.nn.contract import Seq2Seq
from zoo.registry.declarations import Dataset, Pair
from zoo.registry.registry import Registry
from zoo.training import carry_over
from zoo.training.data import TrainingData
from zoo.training.fine_tuning import describe_choice, describe_vocabularies
from zoo.training.freezing import check_not_frozen
from zoo.training.initialization import build_network
from zoo.training.parent import Parent, peak_of
from zoo.training.plan import Plan
from zoo.training.reading import longer_targets, with_reading
from zoo.training.request import TrainingRequest
from zoo.translation.languages import COMPARED, other_languages
from zoo.translation.translator import Translator

WEIGHTS, PARENT = "initial.safetensors", "parent.json"
MOST = 200
"""The most pairs of a set that are translated."""

METRICS = ("chrf", "bleu")

LICENSE = ("license", "license_name", "license_link")
"""Keys of a card's metadata."""


@dataclass(frozen=True)
class ScoredSet:
    """Pairs of a split to translate, and the parent's scores on them."""

    data: str
    split: str
    pairs: Sequence[Pair]
    before: Mapping[str, float]


@dataclass(frozen=True)
class TuningRecord:
    """What a run knows of the checkpoint that it tunes."""

    about: About
    sets: Sequence[ScoredSet] = ()
    license: Mapping[str, Any] = field(default_factory=dict)
    """The license in the metadata of the card; empty if it is not known."""
    peak_rate: float = 0.0
    """The highest learning rate of the first training, or of tuning where that is higher."""
    words: frozenset[str] = frozenset()
    """Those of its training sources; none if they are not known."""

    def to_json(self) -> str:
        """Return the record as JSON, which `read` reads."""
        sets = [
            {"data": s.data, "split": s.split, "pairs": list(s.pairs), "before": dict(s.before)}
            for s in self.sets
        ]
        values = {"about": self.about.as_json(), "sets": sets, "license": dict(self.license)}
        more = {"peak_rate": self.peak_rate, "words": sorted(self.words)}
        return json.dumps({**values, **more}, ensure_ascii=False)

    @classmethod
    def read(cls, run: Path) -> Self | None:
        """Return the record of a run folder, or None if the run tunes no checkpoint.

        Raises:
            CheckpointError: the file is damaged.
        """
        file = run / PARENT
        if not file.is_file():
            return None
        values = read_json(file, TEXT_LIMIT)
        try:
            sets = [
                ScoredSet(s["data"], s["split"], [Pair(*pair) for pair in s["pairs"]], s["before"])
                for s in values["sets"]
            ]
            license, rate = dict(values.get("license", {})), float(values.get("peak_rate", 0.0))
            words = frozenset(map(str, values.get("words", ())))
            return cls(About.parse(values["about"]), sets, license, rate, words)
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(file, error) from None

    def compare(self, translator: Translator) -> list[dict[str, Any]]:
        """Return the scores of each set before and after tuning, as plain values."""
        return [
            {
                "data": held_out.data,
                "split": held_out.split,
                "sentences": len(held_out.pairs),
                "before": dict(held_out.before),
                "after": scores(translator, held_out.pairs),
            }
            for held_out in self.sets
        ]


def files(record: TuningRecord, weights: Mapping[str, Tensor]) -> dict[str, bytes | Path]:
    """Return the files for the run folder, by name."""
    return {WEIGHTS: safetensors.torch.save(dict(weights)), PARENT: record.to_json().encode()}


def first_weights(run: Path, network: Seq2Seq) -> dict[str, Tensor]:
    """Return the first weights of a run that tunes a checkpoint, by name, on the CPU.

    Raises:
        CheckpointError: the file is missing, damaged, or of another network.
    """
    file = run / WEIGHTS
    weights = read_tensors(file)
    shapes = {name: weight.shape for name, weight in network.named_parameters()}
    if {name: weight.shape for name, weight in weights.items()} != shapes:
        raise CheckpointError(f"{file} cannot be read", "it belongs to another network")
    return weights


@torch.no_grad()
def load_first_weights(run: Path, network: Seq2Seq) -> None:
    """Put the first weights of a run that tunes a checkpoint into its network, if it is one.

    Raises:
        CheckpointError: the file is damaged, or of another network.
    """
    if not (run / WEIGHTS).is_file():
        return
    weights = first_weights(run, network)
    for name, weight in network.named_parameters():
        weight.copy_(weights[name])


def with_weights(
    checkpoint: Checkpoint, weights: Mapping[str, Tensor], registry: Registry, device: torch.device
) -> Translator:
    """Return a translator of a checkpoint with other, whole weights."""
    network = network_type(registry.architecture(checkpoint.architecture))
    old = checkpoint.model
    model = build(network, checkpoint.config, old.source_vocab, old.target_vocab)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(weights[name])
    return Translator(replace(checkpoint, model=model.to(device).eval()))


def make_record(
    registry: Registry, plan: Plan, data: TrainingData, parent: Parent, more: Iterable[str]
) -> tuple[TuningRecord, list[str]]:
    """Score the parent, and return what the run keeps of it, with notes for the user.

    `more` are further datasets or files, whose test split is scored. Of a dataset that validates
    the run, only that split is: whoever chooses by it must not have seen its test data.

    Raises:
        ZooError: one of `more` cannot be read.
    """
    chosen = [find_dataset(registry, spec) for spec in more]
    validating = data.dataset
    if plan.validation is not None:
        validating = find_dataset(registry, plan.validation)
    sets: list[tuple[str, str, Sequence[Pair]]] = []
    first = islice(data.dataset.stream("train", plan.limit), COMPARED)
    items = items_to_score(first, several_references=False)
    others = other_languages(parent.checkpoint, data.dataset.languages, items)
    notes = [f"Warning: {warning}" for warning in others]
    if "test" in data.dataset.splits and plan.validation is None:
        sets.append((data.dataset.name, "test", data.dataset.load("test", plan.limit)))
    elif len(data.validation):
        sets.append((validating.name, "validation", data.validation.pairs))
    before = parent.dataset(registry)
    scored = {dataset.name for dataset in (data.dataset, validating, *chosen)}
    if before is not None and before.name not in scored:
        try:
            sets.append((before.name, before.scored_split, before.load(before.scored_split)))
        except ZooError as error:
            notes.append(f"what tuning loses on {before.name} is not scored: {error.what}")
    sets += [(d.name, d.scored_split, d.load(d.scored_split)) for d in chosen]
    held_out = []
    for name, split, pairs in sets:
        if any(isinstance(pair.source, Features) for pair in pairs):
            notes.append(f"{name} is not compared: its features are in no files")
        elif some := _some(pairs):
            held_out.append(ScoredSet(name, split, some, scores(parent.translator, some)))
    made = about(registry, data, parent), held_out, _license(registry, data.dataset, parent)
    own_rate = peak_of(plan.recipe.model_dump(), plan.config.width)
    rate = max(parent.peak_rate, own_rate)
    return TuningRecord(*made, rate, parent.checkpoint.words), notes


def about(registry: Registry, data: TrainingData, parent: Parent) -> About:
    """Return what a tuned checkpoint says about itself: the terms of both data apply to it.

    With tags for its languages, it keeps all of them. Tokens that its search may not use are those
    of the parent's vocabulary: with another one they are left out.
    """
    old, new = parent.checkpoint.about, About.of_dataset(data.dataset)
    if data.source_tokenizer.tags or data.target_tokenizer.tags:
        new = replace(new, source_languages=(), target_languages=())
    length = old.trained_length and max(old.trained_length, data.trained_length)
    if data.source_tokenizer is not parent.checkpoint.source_tokenizer:  # counts other tokens
        length = data.trained_length
    decoding = dict(old.decoding)
    for name, value in longer_targets(data).items():
        decoding[name] = max(value, decoding.get(name) or 0)
    if data.target_tokenizer is not parent.checkpoint.target_tokenizer:
        decoding.pop("banned", None)
    terms = "; ".join(dict.fromkeys(filter(None, (_terms(registry, parent), new.terms))))
    new = replace(
        old,
        source_languages=new.source_languages or old.source_languages,
        target_languages=new.target_languages or old.target_languages,
        decoding=decoding,
        data=new.data,
        terms=one_line(terms, 10_000),
        origin="fine-tuned",
        parent=one_line(parent.checkpoint.name, 1_000),
        trained_length=length,
        tasks={**old.tasks, **new.tasks},
    )
    return _with_reading_of_both(old, with_reading(new, data, registry), data.dataset.tasks)


def _with_reading_of_both(old: About, new: About, tasks: Collection[str]) -> About:
    """Return a description with what holds for the training of the parent and for the new data.

    A tag of the parent keeps what it has if it is none of the tasks of the new data.
    """

    def of_both(before: Sequence[str], now: Sequence[str]) -> tuple[str, ...]:
        kept = [tag for tag in before if tag in now or tag not in tasks]
        return (*(tag for tag in now if tag not in old.tasks), *kept)

    return replace(
        new,
        single_words=old.single_words and new.single_words,
        single_word_tasks=of_both(old.single_word_tasks, new.single_word_tasks),
        lower_case=old.lower_case and new.lower_case,
        lower_case_tasks=of_both(old.lower_case_tasks, new.lower_case_tasks),
    )


def _terms(registry: Registry, parent: Parent) -> str:
    """Return the terms of a parent; empty if they are not known."""
    before = parent.dataset(registry)
    return parent.checkpoint.about.terms or (About.of_dataset(before).terms if before else "")


def _license(registry: Registry, dataset: Dataset, parent: Parent) -> dict[str, Any]:
    """Return the license that the parent's card names, if the data is under the same terms.

    Otherwise the license of the new weights is not known.
    """
    folder, terms = parent.checkpoint.folder, About.of_dataset(dataset).terms
    if folder is None or not terms or terms != _terms(registry, parent):
        return {}
    author = stated_card(folder, parent.checkpoint.name)[0]
    return {key: author[key] for key in LICENSE if key in author}


def scores(translator: Translator, pairs: Sequence[Pair]) -> dict[str, float]:
    """Return chrF and BLEU of greedy translations."""
    sources = [pair.source for pair in pairs]
    stream = translator.stream(sources, beam=1, long_texts="split", recommended=False)
    texts = [translation.text for translation in stream]
    of_all = score(texts, [pair.target for pair in pairs]).by_name
    return {name: round(of_all[name].value, 2) for name in METRICS}


def describe(compared: Mapping[str, Any]) -> str:
    """Return one set's scores before and after tuning in a line."""
    before, after = compared["before"], compared["after"]
    changes = [
        f"{metric_label(name)} {before[name]:.1f} → {after[name]:.1f} "
        f"({after[name] - before[name]:+.1f})"
        for name in METRICS
    ]
    what = f"{compared['data']}, {compared['split']} ({compared['sentences']} sentences)"
    return f"{what}: {', '.join(changes)}"


def _some(pairs: Sequence[Pair]) -> list[Pair]:
    """Return at most `MOST` pairs, evenly spaced, without those that have an empty side."""
    usable = [pair for pair in pairs if pair.source.strip() and pair.target.strip()]
    most = min(len(usable), MOST)
    return [usable[i * len(usable) // most] for i in range(most)]


def first_files(
    registry: Registry, request: TrainingRequest, plan: Plan, data: TrainingData, parent: Parent
) -> tuple[dict[str, bytes | Path], list[str]]:
    """Return what the run folder holds of the parent, and notes for the user.

    Raises:
        ConfigError: weights that are not the parent's are not trained.
    """
    fresh = build_network(registry, plan, data)
    architecture = registry.architecture(plan.architecture)
    tokenizers = (data.source_tokenizer, data.target_tokenizer)
    first = carry_over.first_weights(parent, fresh, architecture, *tokenizers)
    check_not_frozen(first.new, fresh, plan.recipe.freeze)
    record, unscored = make_record(registry, plan, data, parent, request.also_score)
    notes = [describe_choice(plan, parent), *describe_vocabularies(request, parent, data, first)]
    return files(record, first.weights), notes + unscored
