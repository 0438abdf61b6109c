"""`zoo eval`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo.checkpoint.format import describe
from zoo.cli.completion import complete_checkpoint, complete_data, complete_named
from zoo.cli.evaluation_notes import of_data, warn
from zoo.cli.fetching import located
from zoo.cli.options import (
    NewFile,
    device_option,
    engine_option,
    ensemble_option,
    json_option,
    precision_option,
    source_lang_option,
    source_prefix_option,
    target_lang_option,
)
from zoo.cli.output import (
    check_writable,
    loaded_registry,
    messages,
    open_output,
    print_json,
    say,
    shows_progress,
)
from zoo.cli.search import best_search_options, given_options
from zoo.cli.translating import load_translator
from zoo.data.datasets import Item, find_dataset, metrics_of_data, read_items
from zoo.data.readers import read_lines
from zoo.decoding.options import as_flags
from zoo.errors import DataError, counted
from zoo.evaluation.labels import metric_label
from zoo.registry.declarations import Dataset
from zoo.registry.registry import Registry
from zoo.registry.shelf import Shelf

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

    from zoo.evaluation.metrics import Comparison, Scores
    from zoo.translation.text_search import Precision
    from zoo.translation.translator import Translator


WIDTH = len("token error rate")
"""The least characters of a column of metrics."""


@click.command("eval")
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.option("--data", shell_complete=complete_data,
              help="A dataset's name, or files of parallel text; by default the dataset and split "
              "of the checkpoint's first score, or else its training dataset.")  # fmt: skip
@click.option("--split", help="The split to score; by default `test`, or `all` for files.")
@click.option("--limit", type=click.IntRange(1), help="Score only the first N pairs.")
@click.option("--bleu-order", "orders", type=click.IntRange(1, 3), multiple=True, metavar="N",
              help="Add BLEU of maximum order N; may be repeated.")  # fmt: skip
@click.option("--metric", "names", multiple=True, metavar="NAME",
              shell_complete=complete_named("metrics"),
              help="Report only this metric; repeatable. Default: those of the data.")  # fmt: skip
@click.option("--several-references", is_flag=True,
              help="The targets of one source are references of one translation.")  # fmt: skip
@click.option("--lowercase", is_flag=True, help="Ignore case; TER always does.")
@click.option("--confidence", is_flag=True, help="Add 95% bootstrap confidence intervals.")
@click.option("--against", metavar="OTHER", shell_complete=complete_checkpoint,
              help="Paired bootstrap test against a checkpoint or a text file.")  # fmt: skip
@click.option("--sentences", is_flag=True,
              help="Read sources by sentences, as `zoo translate` does.")  # fmt: skip
@click.option("--out", "output", type=NewFile(), metavar="FILE",
              help="Write the translations to a file, one per line.")  # fmt: skip
@source_lang_option
@target_lang_option
@source_prefix_option
@ensemble_option
@best_search_options
@precision_option
@engine_option
@device_option
@json_option
def eval_(
    checkpoint: str,
    data: str | None,
    split: str | None,
    limit: int | None,
    orders: tuple[int, ...],
    names: tuple[str, ...],
    several_references: bool,
    lowercase: bool,
    confidence: bool,
    against: str | None,
    sentences: bool,
    output: Path | None,
    more: tuple[str, ...],
    search: dict[str, Any],
    recommended: bool,
    precision: Precision,
    engine: str | None,
    device: str,
    as_json: bool,
    **reading: str,
) -> None:
    """Score the translations of CHECKPOINT: BLEU, chrF and TER by sacreBLEU, and more.

    Exact match is the percentage of translations equal to their reference. Token error rate is the
    Levenshtein distance in target tokens per reference token. Lower is better for it and for TER.
    """
    registry = loaded_registry()
    data, split = (data, split) if data else _own_data(checkpoint, split, registry)
    dataset = find_dataset(registry, data)
    split, items = read_items(dataset, split, limit, several_references)
    others = _before_translating(output, against, registry, dataset, items)
    wanted = (registry, device, precision, engine, dataset.languages)
    prefix = search["source_prefix"] = reading.pop("source_prefix")
    translators = [load_translator((checkpoint, *more), *wanted, reading, prefix)]
    using = _metrics(registry, translators[0], orders, lowercase, names, dataset)
    effective = translators[0].search_options(search, recommended=recommended)
    how = {"split": sentences, "recommended": recommended, **search}
    texts = _translate(translators[0], items, split, how, output)
    if against is not None and others is None:
        translators.append(load_translator((against,), *wanted, reading))
        others = _translate(translators[1], items, against, how)
    scores, comparison = _score(texts, others, items, using, confidence)
    warn([*of_data(translators, dataset, split, items), *using.problems], texts, items, scores)
    if as_json:
        options = {"limit": limit, "metric": names, "several_references": several_references,
                   "lowercase": lowercase, "with": more, "no_recommended": not recommended,
                   "by_sentences": sentences, "engine": engine,
                   "precision": precision.replace("float32", "")}  # fmt: skip
        print_json({"checkpoint": checkpoint, "data": data, "split": split, **scores.as_json(),
                    **given_options({**options, **reading, **effective}),
                    **_comparison_record(against, comparison)})  # fmt: skip
        return
    _print_scores(f"{checkpoint} on {data}, {split}", scores, search, effective)
    _print_comparison(scores, against, comparison)


def _own_data(checkpoint: str, split: str | None, registry: Registry) -> tuple[str, str | None]:
    """Return the dataset and the split that a checkpoint was scored on, or its training data.

    A given `split` stays.

    Raises:
        DataError: no installed plugin provides that dataset.
    """
    from zoo.checkpoint.facts import checkpoint_facts

    folder = located(checkpoint, registry)
    facts = checkpoint_facts(folder, describe(folder), registry)
    for record in facts["scores"]:
        if record["data"] in registry.datasets:
            return record["data"], split or record["split"]
    data = facts["data"]
    if data in registry.datasets:
        return data, split
    why = f"{checkpoint} names no data"
    if data:
        why = f"{checkpoint} was trained on {data}, which is not an installed dataset"
    raise DataError("nothing to score", why, "Give --data, such as --data pairs.tsv")


def _before_translating(
    output: Path | None,
    against: str | None,
    registry: Registry,
    dataset: Dataset,
    items: Sequence[Item],
) -> list[str] | None:
    """Make sure that a file can be written; return another system's translations, if any.

    Raises:
        DataError: `output` is a file that is read; or `against` is a file that does not have a
            translation of each source in a line.
    """
    if output is not None:
        check_writable(output)
        for file in (*dataset.files, *((Path(against),) if against else ())):
            if output.is_file() and file.exists() and output.samefile(file):
                why, advice = "it is read too, and would be lost", "Name another file"
                raise DataError(f"cannot write the translations to {output}", why, advice)
    if against is None or against in registry.checkpoints or not Path(against).is_file():
        return None
    lines = list(read_lines(Path(against)))
    if sum("\t" in line for line in lines) == len(lines) > 0:
        raise DataError(
            f"{against} is a table",
            "each of its lines has a tab: they are no translations",
            f"Take the column of the translations: cut -f 2 {against} > translations.txt",
        )
    if len(lines) != len(items):
        raise DataError(
            f"{against} does not translate these sentences",
            f"it has {len(lines):,} lines for {len(items):,} sources",
            "Write one with zoo eval --out and the same --data, --split and --limit",
        )
    return lines


def _translate(
    translator: Translator,
    items: Sequence[Item],
    what: str,
    how: Mapping[str, Any],
    output: Path | None = None,
) -> list[str]:
    """Return a translation of each source, written to a file too, with a progress bar."""
    from rich.progress import Progress

    from zoo.cli.translation_notes import say_of_split, untagged
    from zoo.translation.long_texts import in_parts

    with Progress(console=messages(), transient=True, disable=not shows_progress()) as bar:
        task = bar.add_task(f"Translating {what}", total=len(items))
        stream = translator.stream(
            (item.source for item in items),
            long_texts="split",
            on_batch=lambda count: bar.update(task, completed=count),
            **how,
        )
        translations = list(stream)
    if not how["split"]:
        whole = translator.read_whole([item.source for item in items])
        for warning in (*in_parts(translations), *whole):
            say(f"Warning: {what}: {warning}")
    say_of_split(translations, what, untagged(translator, how))
    texts = [translation.text for translation in translations]
    if output is not None:
        with open_output(output) as file:
            file.write("".join(f"{' '.join(text.splitlines())}\n" for text in texts).encode())
    return texts


def _metrics(
    registry: Registry,
    translator: Translator,
    orders: Sequence[int],
    lowercase: bool,
    names: Sequence[str],
    dataset: Dataset,
) -> Shelf[Metric]:
    """Return the metrics by name, those of plugins included; only some if there are names.

    By default they are those of the dataset, or of what the checkpoint was trained on.
    """
    from zoo.evaluation import metrics

    trained_on = translator.checkpoint.about.data
    names = names or metrics_of_data(registry, dataset.metrics, trained_on)
    return metrics.make_metrics(
        registry.metrics,
        lowercase=lowercase,
        orders=orders,
        tokenizer=translator.checkpoint.target_tokenizer,
        names=names,
    )


def _score(
    texts: Sequence[str],
    others: Sequence[str] | None,
    items: Sequence[Item],
    using: Shelf[Metric],
    confidence: bool,
) -> tuple[Scores, dict[str, Comparison]]:
    """Return the scores, and the comparison with another system's translations, if any."""
    from zoo.evaluation import metrics

    sources, references = [item.source for item in items], [item.references for item in items]
    resamples = metrics.RESAMPLES if confidence or others is not None else 0
    scores = metrics.score(texts, references, using, sources=sources, resamples=resamples)
    if others is None:
        return scores, {}
    compared = metrics.compare(texts, others, references, using, sources=sources)
    return scores, {name: each for name, each in compared.items() if name in scores.by_name}


def _comparison_record(other: str | None, comparison: Mapping[str, Comparison]) -> dict[str, Any]:
    """Return a comparison as a flat record, which a card can hold."""
    record: dict[str, Any] = {"against": other} if comparison else {}
    for name, compared in comparison.items():
        record |= {f"against_{name}": compared.other.value, f"{name}_p_value": compared.p_value}
    return record


def _print_scores(
    what: str, scores: Scores, given: Mapping[str, Any], effective: Mapping[str, Any]
) -> None:
    """Print what was scored, the search options that were used, and the scores."""
    click.echo(f"{what}: {counted(scores.sentences, 'sentence')}")
    if options := as_flags(given_options(given)):
        click.echo(f"search options: {options}")
    added = {name: value for name, value in effective.items() if name not in given}
    if added:
        click.echo(f"recommended search options: {as_flags(added)}")
    labels = _labels(scores)
    for name, score in scores.by_name.items():
        line = f"{labels[name]}  {score.value:6.2f}"
        line += "%" if name == "exact_match" or "error_rate" in name else " "
        if score.confidence is not None:
            line += f" (μ = {score.mean:.2f} ± {score.confidence:.2f})"
        click.echo(f"{line} {score.signature}")


def _labels(scores: Scores) -> dict[str, str]:
    """Return the labels of metrics, all as wide as the longest."""
    labels = {name: metric_label(name) for name in scores.by_name}
    width = max(WIDTH, *map(len, labels.values()))
    return {name: label.ljust(width) for name, label in labels.items()}


def _print_comparison(
    scores: Scores, other: str | None, comparison: Mapping[str, Comparison]
) -> None:
    """Print the comparison with another system; `comparison` is empty without one."""
    if comparison:
        click.echo(f"\nagainst {other}, by paired bootstrap:")
    labels = _labels(scores)
    for name, compared in comparison.items():
        difference = scores.by_name[name].value - compared.other.value
        click.echo(
            f"{labels[name]}  {compared.other.value:6.2f}"
            f"  difference {difference:+.2f}, p = {compared.p_value:.4f}"
        )
