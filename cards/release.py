"""Train, score, describe and list the released checkpoints with the project's own commands.

    python cards/release.py                                    all of them
    python cards/release.py transformer-tiny.multi30k-en-de    some of them
    python cards/release.py --describe                         write metadata, cards and entries
    python cards/release.py --rescore                          score the shipped files again and
                                                               write their cards and entries
    python cards/release.py --verify                           score the shipped files again and
                                                               compare with their cards

A checkpoint is called MODEL.DATA and trained in `runs/release` with the catalogue's recipe for that
pair; an interrupted run is resumed. `cards/checkpoints/NAME` holds the shipped files: weights in
float16, the card with scores and examples, and the curve. `registry.toml` lists their sizes and
hashes. Every command is printed before it runs.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from released import (
    HEADLINES,
    LICENSES,
    NAMES,
    PLOTTED,
    SCORED,
    SHIPPED,
    TERMS,
    TOP,
    as_options,
    run,
    search_of,
)

PERCENTILES = (0, 5, 25, 50, 75, 95)
TOLERANCE = 0.1
"""Largest difference between a verified score and the card's, in points: rounding differs between
machines, and may decide between two hypotheses of nearly equal score."""


def release(name: str) -> None:
    """Train a checkpoint, convert it to float16, score and describe it, and list it."""
    from training import train

    trained, shipped = train(name), SHIPPED / name
    shutil.rmtree(TOP / shipped, ignore_errors=True)
    run("zoo", "convert", trained, shipped, "--dtype", "float16")
    add_license(name)
    describe(name)
    rescore(name)


def describe(name: str) -> None:
    """Write what a shipped checkpoint says about itself, its card, and the catalogue's entry."""
    from zoo.checkpoint.about import About
    from zoo.data.datasets import find_dataset
    from zoo.registry.registry import default_registry

    task = name.partition(".")[2]
    about = About.of_dataset(find_dataset(default_registry(), task)).as_json()
    about |= {"decoding": search_of(name), "examples": [PLOTTED[task]]}
    changes = [f"--about={key}={json.dumps(value)}" for key, value in about.items()]
    run("zoo", "card", SHIPPED / name, "--write", *changes)
    write_entry(name)


def rescore(name: str) -> None:
    """Score the shipped files, and write the card and the catalogue's entry."""
    shipped, task = SHIPPED / name, name.partition(".")[2]
    (TOP / shipped / "scores.json").unlink(missing_ok=True)
    search = as_options(search_of(name))
    for options in SCORED[task]:
        record = run("zoo", "eval", shipped, "--data", task, *options, *search, "--json")
        run("zoo", "card", shipped, "--write", "--scores", "-", stdin=record)
    if task == "multi30k-en-de":
        record = run("python", "benchmarks/tokenized_bleu.py", shipped, *search)
        record = record.replace(str(shipped), name)
        run("zoo", "card", shipped, "--write", "--scores", "-", stdin=record)
    write_sections(name)
    write_entry(name)


def add_license(name: str) -> None:
    """Write the license into the metadata of a new card, where later writes keep it."""
    file = TOP / SHIPPED / name / "README.md"
    license_lines = LICENSES[name.partition(".")[2]].items()
    front = "".join(f"{key}: {value}\n" for key, value in license_lines)
    file.write_text(file.read_text(encoding="utf-8").replace("---\n", f"---\n{front}", 1), "utf-8")


def write_sections(name: str) -> None:
    """Write the sections of a card below its generated part."""
    from training import TEACHERS_OF

    from zoo.checkpoint.card import END
    from zoo.checkpoint.format import ATTENTION

    task = name.partition(".")[2]
    folder = TOP / SHIPPED / name
    sections: list[str] = []
    if name in TEACHERS_OF:
        groups = "; ".join(" with ".join(group) for group in TEACHERS_OF[name])
        sections.append(
            f"## Distillation\n\nBesides the references of {task}, it is trained on translations "
            f"of the same sources by other models (sequence-level distillation): {groups}. Models "
            "joined by “with” form an ensemble. The training file contains the references and all "
            "of these translations."
        )
    sections += [f"## Terms\n\n{TERMS[task]}", f"## Examples\n\n{examples(name)}"]
    if not name.startswith("seq2seq"):
        text = PLOTTED[task]
        picture = (folder / ATTENTION).relative_to(TOP)
        options = ("--kind", "cross", "--head", "mean", "--out", picture)
        run("zoo", "attention", SHIPPED / name, text, *options)
        sections.append(
            f"## Attention\n\nAttention weights of each layer for the translation of “{text}”, "
            f"averaged over heads:\n\n![Attention from target to source]({ATTENTION})"
        )
    sections.append(
        "## Reproduce\n\n```sh\n"
        f"make release-checkpoints NAMES={name}    # train it again, on two cores\n"
        f"make verify-release NAMES={name}    # score these files again\n```"
    )
    file = folder / "README.md"
    before = file.read_text(encoding="utf-8").partition(END)[0]
    file.write_text(f"{before}{END}\n" + "\n\n".join(sections) + "\n", encoding="utf-8")


def examples(name: str) -> str:
    """Return test translations at fixed percentiles of sentence chrF, as Markdown."""
    from sacrebleu.metrics.chrf import CHRF

    import zoo
    from zoo.checkpoint.markdown import markdown_table
    from zoo.data.datasets import find_dataset
    from zoo.registry.registry import default_registry

    pairs = find_dataset(default_registry(), name.partition(".")[2]).load("test")
    translator = zoo.load(TOP / SHIPPED / name)
    texts = translator.translate([pair.source for pair in pairs], **search_of(name))
    chrf = CHRF()
    ranked = sorted(
        (chrf.sentence_score(text, [pair.target]).score, index)
        for index, (text, pair) in enumerate(zip(texts, pairs, strict=True))
    )
    rows = []
    for percentile in PERCENTILES:
        score, index = ranked[percentile * len(ranked) // 100]
        pair = pairs[index]
        rows.append([f"{percentile}", f"{score:.1f}", pair.source, texts[index], pair.target])
    head = ["percentile", "chrF", "source", "translation", "reference"]
    return (
        "Test sentences at fixed percentiles of sentence chrF, not selected by hand; among equal "
        f"scores, the first in the test set.\n\n{markdown_table(head, rows)}"
    )


def write_entry(name: str) -> None:
    """Write the catalogue's entry of a checkpoint."""
    import tomlkit

    from zoo.checkpoint.scores import read_scores
    from zoo.data.datasets import find_dataset
    from zoo.files import replace_file
    from zoo.hub.user_catalogue import entry_of
    from zoo.registry.registry import default_registry

    task = name.partition(".")[2]
    folder, file = TOP / SHIPPED / name, TOP / "registry.toml"
    for lock in folder.glob(".*.lock"):  # of `zoo card --write`
        lock.unlink()
    document = tomlkit.parse(file.read_text(encoding="utf-8"))
    dataset = find_dataset(default_registry(), task)
    summary = dataset.summary.partition(";")[0]
    entry = entry_of(folder, summary=summary, terms=dataset.terms)
    scores = tomlkit.inline_table()
    for record in read_scores(folder):
        if record["split"] == "test" and not record.get("lowercase"):
            scores.update({n: round(record[n], 2) for n in HEADLINES[task] if n in record})
    entry["dataset"] = task  # a distilled checkpoint records its training file instead
    files = entry.pop("files")
    entry["scores"] = scores
    entry["files"] = files
    entries = document.setdefault("checkpoints", tomlkit.table(is_super_table=True))
    entries[name] = entry
    replace_file(file, tomlkit.dumps(document))
    print(f"{name}: {scores.as_string()}", file=sys.stderr)


def scores_again(name: str) -> Iterator[tuple[str, float, float]]:
    """Score a shipped checkpoint; yield each score's name, the card's value and the new one."""
    from zoo.checkpoint.scores import command, metrics, read_scores

    for record in read_scores(TOP / SHIPPED / name):
        words = shlex.split(record.get("command") or command(record, name))
        as_json = ["--json"] if words[0] == "zoo" else []
        new: dict[str, Any] = json.loads(run(*words, *as_json))
        for metric in metrics(record):
            yield f"{record['split']}, {metric}", record[metric], new[metric]


def verify(names: list[str]) -> None:
    """Compare every score of every card with the score of the shipped files on this machine."""
    wrong = 0
    for name in names:
        for what, recorded, measured in scores_again(name):
            near = abs(recorded - measured) <= TOLERANCE
            wrong += not near
            verdict = "equal" if recorded == measured else "near" if near else "WRONG"
            print(f"{name:<34} {what:<34} {recorded:8.3f} {measured:8.3f}  {verdict}", flush=True)
    if wrong:
        raise SystemExit(f"{wrong} scores differ from the cards by more than {TOLERANCE} points")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--describe", action="store_true", help="write metadata, cards and entries")
    parser.add_argument("--rescore", action="store_true", help="score and describe shipped files")
    parser.add_argument("--verify", action="store_true", help="compare shipped files with cards")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        raise SystemExit(f"unknown checkpoint {', '.join(unknown)}; choose from {', '.join(NAMES)}")
    shipped = [name for name in NAMES if (TOP / SHIPPED / name).is_dir()]
    if options.verify:
        verify(options.names or shipped)
    elif options.describe:
        for name in options.names or shipped:
            describe(name)
    elif options.rescore:
        for name in options.names or shipped:
            rescore(name)
    else:
        for name in options.names or NAMES:
            release(name)


if __name__ == "__main__":
    main()
