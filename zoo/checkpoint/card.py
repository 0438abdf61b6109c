"""Checkpoint cards: the README.md of a checkpoint, for people and for the Hub.

A card has front matter in YAML, a generated section between two marks, and the author's text around
it. When a card is generated again, the author's text and metadata are kept.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.checkpoint.about import TEXT_LIMITS, About, one_line
from zoo.checkpoint.card_text import BEGIN, END, plain_marks, title_of
from zoo.checkpoint.format import (
    CARD,
    CONFIG,
    CURVE,
    TRAINING,
    about_of,
    architecture_of,
    describe,
    trained_on,
)
from zoo.checkpoint.markdown import markdown_table
from zoo.checkpoint.model_card import parameter_table, settings_table, size_of
from zoo.checkpoint.scores import scores_table
from zoo.decoding.options import as_flags
from zoo.errors import CheckpointError, counted
from zoo.files import TEXT_LIMIT, read_json, read_text
from zoo.registry.config import Config, parameters_of
from zoo.registry.declarations import Architecture
from zoo.registry.registry import Registry

if TYPE_CHECKING:
    from zoo.checkpoint.checkpoint import Checkpoint

CARD_LIMIT = 1_000_000
"""The largest size of a card in bytes."""

ROW_LIMIT = 1_000
"""The most rows of the tables of a recipe and of scores after tuning."""

METADATA_LIMIT = 50_000
"""The most characters of a card's metadata: YAML is read slowly."""

LIBRARY = "seq2seq-zoo"
BOOLEAN = "tag:yaml.org,2002:bool"
_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?\r?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


@dataclass(frozen=True)
class CardData:
    """The data from which a checkpoint's card is generated; `training`, `scores` may be empty.

    `weights` are the bytes of the weights, 0 if there are none.
    """

    name: str
    model: str
    architecture: Architecture
    config: Config
    vocab_sizes: tuple[int, int]
    about: About
    training: Mapping[str, Any] = field(default_factory=dict)
    scores: Sequence[Mapping[str, Any]] = ()
    weights: int = 0


def checkpoint_card(
    checkpoint: Checkpoint, architecture: Architecture, training: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> str:  # fmt: skip
    """Return the card of a new checkpoint; `metadata` is what nothing else says, as a license."""
    model = checkpoint.model
    data = CardData(
        checkpoint.name,
        checkpoint.model_name,
        architecture,
        checkpoint.config,
        (model.source_vocab, model.target_vocab),
        checkpoint.about,
        training=training,
        weights=sum(weight.nbytes for weight in model.parameters()),
    )
    return render_card(data, render_front_matter(metadata))


def card_of(folder: Path, registry: Registry, scores: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the card of a checkpoint folder, generated again; the author's parts are kept.

    Raises:
        CheckpointError, PluginError: the folder is not a complete checkpoint, its card or training
            record is invalid, or its architecture is not installed.
    """
    description = describe(folder)
    architecture = architecture_of(folder, description, registry)
    config = architecture.config_type().parse(description["config"], f"{folder / CONFIG}, config")
    training: Mapping[str, Any] = {}
    if (folder / TRAINING).is_file():
        training = read_json(folder / TRAINING, TEXT_LIMIT)
    before = read_text(folder / CARD, CARD_LIMIT) if (folder / CARD).is_file() else ""
    card_data = CardData(
        title_of(before) or folder.resolve().name,
        description["model"],
        architecture,
        config,
        (description["source_vocab"], description["target_vocab"]),
        completed(about_of(description), training, registry),
        training=training,
        scores=scores,
        weights=sum(file.stat().st_size for file in folder.glob("*.safetensors")),
    )
    try:
        for key in ("recipe", "tuning"):
            if len(training.get(key) or ()) > ROW_LIMIT:
                raise ValueError(f"{key!r} has over {ROW_LIMIT:,} values")
        return render_card(card_data, before)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError) as error:  # fmt: skip
        reason = f"{type(error).__name__}: {error}"
        raise CheckpointError(f"{folder / TRAINING} is invalid", reason) from None


def completed(about: About, training: Mapping[str, Any], registry: Registry) -> About:
    """Return a description whose data, languages and terms come from the training record if empty.

    Checkpoints of earlier versions have no description.
    """
    if about.data:
        return about
    data = trained_on(training)
    if data in registry.datasets:
        of_data = About.of_dataset(registry.datasets[data])
    else:
        of_data = About(data=one_line(Path(data).name, TEXT_LIMITS["data"]))
    return replace(
        about,
        source_languages=about.source_languages or of_data.source_languages,
        target_languages=about.target_languages or of_data.target_languages,
        data=of_data.data,
        terms=about.terms or of_data.terms,
    )


def render_card(data: CardData, before: str) -> str:
    """Return a card with a new generated section and the author's parts of the card before.

    Raises:
        CheckpointError: the card before is invalid.
    """
    metadata, text = split_card(before, CARD)
    text = plain_marks(text)
    generated = generated_metadata(data.about, data.architecture.name, metadata)
    start, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and not end:
        raise CheckpointError(f"{CARD} lacks the mark {END.strip()!r}", "", "Put it back")
    if not begin:
        start, after = "", f"\n{text.strip()}\n" if text.strip() else ""
    preface = f"{start.strip()}\n\n" if start.strip() else ""
    front_matter = render_front_matter({**metadata, "library_name": LIBRARY, **generated})
    section = generated_section(data).replace("<!--", "&lt;!--")  # no mark of ours
    return f"{front_matter}\n{preface}{BEGIN}{section}{END}{after}"


def generated_metadata(
    about: About, architecture: str, metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the task, the languages and the tags of a card; the author's `metadata` has some."""
    tags = metadata.get("tags")
    tags = tags if isinstance(tags, list) else [tags] if tags else []
    languages = [*dict.fromkeys([*about.source_languages, *about.target_languages])]
    return {
        "pipeline_tag": "translation",
        "language": languages or metadata.get("language"),
        "tags": [*dict.fromkeys([*tags, "seq2seq", architecture])],
    }


def render_front_matter(metadata: Mapping[str, Any]) -> str:
    """Return metadata as YAML between two lines `---`; the order of keys is kept, None dropped."""
    import yaml

    present = {key: value for key, value in metadata.items() if value is not None}
    text = yaml.safe_dump(present, sort_keys=False, allow_unicode=True).strip()
    return f"---\n{text}\n---\n"


def generated_section(data: CardData) -> str:
    """Return the generated section of a card."""
    training, config, about = data.training, data.config, data.about
    parent = about.parent or training.get("parent")
    verb = "fine-tuned" if parent and about.origin != "imported" else about.origin
    how = f"{verb} from `{parent}`" if parent else verb
    summary = f"The model `{data.model}` ({data.architecture.summary}), {how}"
    if about.data or about.origin == "trained":
        summary += f" on `{about.data or 'unknown data'}`"
    picture = f"![Loss per update]({CURVE})\n\n" if "released" in training else ""
    details = []
    if "pairs" in training:
        details = [counted(training["pairs"], "pair"), counted(training["steps"], "update")]
        details.append(f"{training['minutes']} minutes")
    last = training.get("released", math.inf)  # later updates are not in the weights
    curve = [
        row for row in training.get("curve", []) if "validation_loss" in row and row["step"] <= last
    ]
    if curve:
        details.append(f"validation loss {curve[-1]['validation_loss']:.3f} nats per token")
    table = parameters_of(config, *data.vocab_sizes)
    sections = [
        f"# {data.name}",
        summary + (f": {', '.join(details)}." if details else "."),
        f"Terms of the data: {about.terms}." if about.terms else "",
        f"```python\nimport zoo\n\n{_example(data.name, about)}\n```",
        _recommended(about),
        f"Intended use: {intended_use(about)}",
        f"Length: {length}." if (length := trained_length(about)) else "",
        f"Size: {size_of(table, data.weights)}.",
        f"Paper: {data.architecture.paper}.",
        f"## Scores\n\n{scores_table(data.scores, data.name)}" if data.scores else "",
        f"## Fine-tuning\n\n{_tuning_table(training['tuning'])}" if training.get("tuning") else "",
        f"## Configuration\n\n{settings_table(config)}",
        f"## Recipe\n\n{_recipe_table(training['recipe'])}" if training.get("recipe") else "",
        f"## Training curve\n\n{picture}{_curve_table(curve)}" if curve else "",
        f"## Parameters\n\n{parameter_table(table)}",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def intended_use(about: About) -> str:
    """Return what a checkpoint says about its use and limits, or sentences that hold for any."""
    if about.intended_use:
        return about.intended_use
    sides = (about.source_languages, about.target_languages)
    languages = " to ".join(
        side[0] if len(side) == 1 else f"{len(side)} languages" for side in sides if side
    )
    kind = f"texts like its data, {about.data}" if about.data else "texts like its training data"
    return (
        f"For {kind}{f' ({languages})' if languages else ''}, one sentence at a time. Translations "
        "of other kinds of text are worse, and any may be wrong: check what matters."
    )


def trained_length(about: About) -> str:
    """Return how long the sources of training were; empty if that is not known."""
    length = f"training sources of up to {counted(about.trained_length, 'token')}"
    if about.source_languages and about.target_languages and not about.reads_whole:
        length += "; longer sentences are translated in parts"
    words = "a text of several words is read word by word" if about.single_words else ""
    return "; ".join(filter(None, (length if about.trained_length else "", words)))


def _example(name: str, about: About) -> str:
    """Return code that translates an example."""
    text = json.dumps(about.examples[0] if about.examples else "…", ensure_ascii=False)
    return f"translator = zoo.load({json.dumps(name)})\ntranslator.translate({text})"


def _recommended(about: About) -> str:
    """Return a sentence about the recommended search options."""
    if not about.decoding:
        return ""
    return (
        f"Recommended decoding: `{as_flags(about.decoding)}`. It applies unless these options, or "
        "others that contradict them, are given."
    )


def _recipe_table(recipe: Mapping[str, Any]) -> str:
    return markdown_table(["key", "value"], [[f"`{k}`", f"`{v}`"] for k, v in recipe.items()])


def _tuning_table(compared: Sequence[Mapping[str, Any]]) -> str:
    """Return the scores of greedy translations before and after tuning."""
    rows = [
        [f"`{each['data']}`, {each['split']}", f"{each['sentences']:,}"]
        + [f"{each['before'][name]:.1f} → {each['after'][name]:.1f}" for name in ("chrf", "bleu")]
        for each in compared
    ]
    return markdown_table(["pairs", "sentences", "chrF, greedy", "BLEU, greedy"], rows)


def _curve_table(curve: Sequence[Mapping[str, Any]]) -> str:
    """Return at most ten points of the validation curve, including the last one."""
    step = max(1, -(-len(curve) // 10))
    rows = [[f"{row['step']:,}", f"{row['validation_loss']:.4f}"] for row in curve[::-step][::-1]]
    return markdown_table(["update", "validation loss (nats per token)"], rows)


def split_card(card: str, source: str, *, lenient: bool = False) -> tuple[dict[str, Any], str]:
    """Return the metadata and the text of a card; `source` names it in errors.

    A `lenient` reader takes only true and false for booleans, as the Hub does: `no` is Norwegian.

    Raises:
        CheckpointError: the front matter is not a YAML mapping of the expected types.
    """
    match = _FRONT_MATTER.match(card)
    if match is None:
        return {}, card
    try:
        metadata = _load_yaml(match[1], lenient=lenient)
        if metadata is None:
            metadata = {}
        if not isinstance(metadata, dict) or not all(type(key) is str for key in metadata):
            raise ValueError("it is not a mapping with strings as keys")
        for key in ("library_name", "pipeline_tag"):
            if not isinstance(metadata.get(key), str | None):
                raise ValueError(f"{key!r} must be a string")
        for key in ("license", "language", "tags", "datasets", "metrics"):
            value = [] if metadata.get(key) is None else metadata[key]
            values = value if isinstance(value, list) else [value]
            if not all(isinstance(value, str) for value in values):
                raise ValueError(f"{key!r} must be one or more strings (quote no and on)")
        render_front_matter(metadata)
    except Exception as error:  # constructors of YAML raise arbitrary built-in exceptions
        reason = str(error)[:300] or type(error).__name__
        raise CheckpointError(f"the metadata of {source} is invalid", reason) from None
    return metadata, card[match.end() :]


def license_of(metadata: Mapping[str, Any]) -> str:
    """Return the license that a card's metadata names; empty if it names none."""
    stated = metadata.get("license_name") or metadata.get("license") or ""
    names = stated if isinstance(stated, list) else [stated]
    return one_line(", ".join(map(str, names)), 100)


def _load_yaml(text: str, *, lenient: bool) -> Any:
    """Return the value of a YAML text of bounded size, without anchors.

    A name for a value (`&a`, `*a`, `<<`) can multiply it: a kilobyte becomes gigabytes.

    Raises:
        ValueError: the text is too long, or has an anchor.
        YAMLError: it is not YAML.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()  # type: ignore[no-untyped-call]  # it has no types
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise ValueError("it has an anchor or an alias: write the value out")
            return super().compose_node(parent, index)

    if lenient:
        Loader.yaml_implicit_resolvers = {
            letter: [(tag, form) for tag, form in forms if letter in "tTfF" or tag != BOOLEAN]
            for letter, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }
    if len(text) > METADATA_LIMIT:
        raise ValueError(f"it has over {METADATA_LIMIT:,} characters")
    return yaml.load(text, Loader)  # a subclass of the safe loader
