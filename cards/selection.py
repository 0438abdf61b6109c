"""The choice of a length penalty by several parts of the validation data, and runs of other seeds.

A validation set of a thousand sentences is small: its best penalty may be the best by chance. So
every candidate is scored on `FOLDS` parts of it, with every seed that was trained, and the present
penalty is kept unless another one is better by more than the standard error of the difference. No
test set is read for a choice.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from released import (
    CHOICES,
    RUNS,
    SHIPPED,
    TOP,
    as_options,
    data_of,
    log_test_score,
    read_json,
    run,
    search_of,
    task_of,
)

from zoo.evaluation.labels import metric_label

if TYPE_CHECKING:
    from zoo import Translator

FOLDS = 5
CANDIDATES = (0.6, 1.0, 1.5, 2.0)
SEEDS = (1, 2, 3)
"""The first is that of the released checkpoint."""
SEED_SCORES = TOP / "cards" / "seeds.json"


def choose(name: str) -> None:
    """Choose the length penalty of a checkpoint by its headline score, and record the scores."""
    import zoo

    present = search_of(name).get("length_penalty")
    if present is None:
        raise SystemExit(f"{name} is decoded greedily: there is no length penalty to choose")
    folders = [folder for seed in SEEDS if (folder := folder_of(name, seed)).is_dir()]
    candidates = sorted({*CANDIDATES, present})
    models = [zoo.load(folder) for folder in folders]
    scores = {penalty: fold_scores(name, models, penalty) for penalty in candidates}
    best = max(candidates, key=lambda penalty: statistics.mean(scores[penalty]))
    gain, error = gain_of(scores[best], scores[present])
    chosen = best if gain > error else present
    choices = read_json(CHOICES)
    choices[name] = {
        "length_penalty": chosen,
        "before": present,
        "seeds": len(folders),
        "scores": {str(p): [round(s, 3) for s in each] for p, each in scores.items()},
    }
    write_json(CHOICES, choices)
    other = "none is better" if best == present else f"{best} is better by {gain:.2f} ± {error:.2f}"
    print(f"{name}: {chosen} (before {present}; {other})")


def fold_scores(name: str, models: list[Translator], penalty: float) -> list[float]:
    """Return the headline score on each part of the validation data, for each model in turn."""
    from zoo.data.datasets import find_dataset, read_items
    from zoo.evaluation.metrics import score
    from zoo.registry.registry import default_registry

    _, items = read_items(find_dataset(default_registry(), data_of(name)), "validation", None)
    search = search_of(name) | {"length_penalty": penalty}
    scores = []
    for model in models:
        texts = model.translate([item.source for item in items], split=False, **search)
        for fold in range(FOLDS):
            references = [item.references for item in items[fold::FOLDS]]
            scored = score(texts[fold::FOLDS], references).by_name
            scores.append(scored[task_of(name).headlines[0]].value)
    return scores


def gain_of(scores: list[float], others: list[float]) -> tuple[float, float]:
    """Return the mean difference of paired scores, and its standard error."""
    differences = [one - other for one, other in zip(scores, others, strict=True)]
    return statistics.mean(differences), statistics.stdev(differences) / len(differences) ** 0.5


def folder_of(name: str, seed: int) -> Path:
    """Return where the run of a seed is, or would be: the first one as trained, or as shipped."""
    trained = TOP / RUNS / (name if seed == 1 else f"{name}.seed-{seed}")
    return TOP / SHIPPED / name if seed == 1 and not trained.is_dir() else trained


def score_seeds(name: str) -> None:
    """Train with the other seeds, and record the scores of all: validation data, and the test.

    Nothing is chosen by these scores.
    """
    from training import train

    results = read_json(SEED_SCORES)
    for seed in SEEDS:
        folder = SHIPPED / name if seed == 1 else train(f"{name}.seed-{seed}")
        scores: dict[str, dict[str, float]] = {}
        search = as_options(search_of(name))
        for split in ("validation", "test"):
            options = ["--split", split, *search]
            of = (folder, "--data", data_of(name))
            record: dict[str, Any] = json.loads(run("zoo", "eval", *of, *options, "--json"))
            if split == "test" and "tokenized_bleu" in task_of(name).headlines:
                record |= json.loads(run("python", "benchmarks/tokenized_bleu.py", *of, *search))
            if split == "test" and seed > 1:
                log_test_score(f"{name}.seed-{seed}", TOP / folder, options)
            headlines = task_of(name).headlines
            scores[split] = {each: round(record[each], 3) for each in headlines if each in record}
        results.setdefault(name, {})[str(seed)] = scores
        write_json(SEED_SCORES, results)


def forget_seeds(name: str) -> None:
    """Remove the scores of seeds: those of other weights say nothing about new ones."""
    results = read_json(SEED_SCORES)
    if results.pop(name, None) is not None:
        write_json(SEED_SCORES, results)


def selection_sections(name: str) -> list[str]:
    """Return the sections of a card about several seeds and the choice, as far as they exist."""
    return [*_seeds_section(name), *_choice_section(name)]


def _seeds_section(name: str) -> list[str]:
    from training import TUNED

    from zoo.checkpoint.markdown import markdown_table

    results = read_json(SEED_SCORES).get(name, {})
    if len(results) < 2:
        return []
    seeds = sorted(results)
    rows = []
    for split, scores in results[seeds[0]].items():
        for metric in scores:
            values = [results[seed][split][metric] for seed in seeds]
            spread = f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
            cells = (f"{value:.2f}" for value in values)
            rows.append([f"{split}, {metric_label(metric)}", *cells, spread])
    head = ["score", *(f"seed {seed}" for seed in seeds), "mean ± standard deviation"]
    runs = "Last runs, from the same weights," if name in TUNED else "Runs"
    return [
        f"## Seeds\n\n{runs} that differ in their seed alone; seed 1 is released, whatever its "
        f"scores are.\n\n{markdown_table(head, rows)}"
    ]


def _choice_section(name: str) -> list[str]:
    from zoo.checkpoint.markdown import markdown_table

    choice = read_json(CHOICES).get(name)
    if choice is None:
        return []
    before = choice["scores"][str(choice["before"])]
    rows = []
    for penalty, scores in choice["scores"].items():
        gain, error = gain_of(scores, before)
        mark = " (chosen)" if float(penalty) == choice["length_penalty"] else ""
        difference = f"{gain:+.2f} ± {error:.2f}" if scores != before else ""
        rows.append([f"{penalty}{mark}", f"{statistics.mean(scores):.2f}", difference])
    seeds = f" and {choice['seeds']} seeds" if choice["seeds"] > 1 else ""
    metric = metric_label(task_of(name).headlines[0])
    head = ["length penalty", f"mean {metric}", f"difference from {choice['before']}"]
    return [
        f"## Length penalty\n\nMean {metric} over {FOLDS} parts of the validation data{seeds}; ± "
        "is the standard error of the difference. The penalty is changed only if another one is "
        f"better by more than that.\n\n{markdown_table(head, rows)}"
    ]


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write a JSON file, sorted."""
    file.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
