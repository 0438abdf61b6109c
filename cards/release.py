"""Train, score, describe and list the released checkpoints with the project's own commands.

    python cards/release.py                                    those that are released
    python cards/release.py transformer-tiny.multi30k-en-de    some, also new ones
    python cards/release.py --train NAME                       train only, or resume; also a
                                                               teacher that is not released
    python cards/release.py --seeds NAME                       train and score two more seeds
    python cards/release.py --choose NAME                      choose the length penalty anew
    python cards/release.py --describe                         write metadata, cards and entries
    python cards/release.py --speed                            time the shipped files on one core
    python cards/release.py --rescore                          score the shipped files again and
                                                               write their cards and entries
    python cards/release.py --verify                           score the shipped files again and
                                                               compare with their cards

A checkpoint is called MODEL.DATA and trained in `runs/release` with the catalogue's recipe for that
pair; an interrupted run is resumed. `cards/checkpoints/NAME` holds the shipped files: weights in
float16, the card with scores, examples and failures, and the curve. `registry.toml` lists their
sizes and hashes. Every command is printed before it runs, and every first score of a test set is
recorded in `cards/test-scores.md`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import speed
from released import (
    CATALOGUE,
    NAMES,
    SHIPPED,
    TOP,
    as_options,
    data_of,
    log_test_score,
    run,
    search_of,
    task_of,
)
from selection import choose, forget_seeds, score_seeds, selection_sections

if TYPE_CHECKING:
    from zoo.data.datasets import Item

PERCENTILES = (0, 5, 25, 50, 75, 95)
READ_WHOLE = {
    "transformer-tiny.tatoeba-en-fr-76k": 26, "transformer-tiny.tatoeba-fr-en-76k": 20,
}  # fmt: skip
"""The `trained_length` of networks of whose sources some are joined to longer ones: chosen by the
BLEU of joined validation sentences. Other checkpoints know that of their run."""

TOLERANCE = 0.1
"""Largest difference between a verified score and the card's, in points: rounding differs between
machines, and may decide between two hypotheses of nearly equal score."""


def release(name: str) -> None:
    """Train a checkpoint, convert it to float16, score and describe it, and list it."""
    from training import train

    trained, shipped = train(name), SHIPPED / name
    forget_seeds(name)
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

    about: dict[str, Any] = dict.fromkeys(("source_languages", "target_languages"))  # remove them
    dataset = find_dataset(default_registry(), data_of(name))
    about |= About.of_dataset(dataset).as_json()
    about.pop("origin")  # whether it was trained or tuned is in the checkpoint
    if name in READ_WHOLE:
        about["trained_length"] = READ_WHOLE[name]
    task = task_of(name)
    about |= {"decoding": search_of(name), "examples": [task.example], "intended_use": task.limits}
    changes = [f"--about={key}={json.dumps(value)}" for key, value in about.items()]
    run("zoo", "card", SHIPPED / name, "--write", *changes)
    write_entry(name)


def rescore(name: str) -> None:
    """Score the shipped files, and write the card and the catalogue's entry."""
    shipped, data = SHIPPED / name, data_of(name)
    (TOP / shipped / "scores.json").unlink(missing_ok=True)
    search = as_options(search_of(name))
    for options in task_of(name).scored:
        of = [] if "--data" in options else ["--data", data]
        record = run("zoo", "eval", shipped, *of, *options, *search, "--json")
        run("zoo", "card", shipped, "--write", "--scores", "-", stdin=record)
        if "test" in options:
            log_test_score(name, TOP / shipped, [*options, *search])
    if "tokenized_bleu" in task_of(name).headlines:
        record = run("python", "benchmarks/tokenized_bleu.py", shipped, "--data", data, *search)
        record = record.replace(str(shipped), name)
        run("zoo", "card", shipped, "--write", "--scores", "-", stdin=record)
    write_sections(name)
    write_entry(name)


def add_license(name: str) -> None:
    """Write the license into the metadata of a new card, where later writes keep it."""
    file = TOP / SHIPPED / name / "README.md"
    license_lines = task_of(name).license.items()
    front = "".join(f"{key}: {value}\n" for key, value in license_lines)
    file.write_text(file.read_text(encoding="utf-8").replace("---\n", f"---\n{front}", 1), "utf-8")


def write_sections(name: str) -> None:
    """Write the sections of a card below its generated part."""
    from training import EVERYDAY, INVENTED_WORDS, TEACHERS_OF, TUNED_ONCE

    from zoo.checkpoint.card_text import END
    from zoo.checkpoint.format import ATTENTION

    task = task_of(name)
    folder = TOP / SHIPPED / name
    sections = []
    if name in TEACHERS_OF:
        groups = "; ".join(" with ".join(group) for group in TEACHERS_OF[name])
        sections.append(
            f"## Distillation\n\nBesides the references of {data_of(name)}, it is trained on "
            "translations of the same sources by other models (sequence-level distillation): "
            f"{groups}. Models joined by “with” form an ensemble. The training file contains the "
            "references and all of these translations."
        )
        if invented := INVENTED_WORDS.get(data_of(name)):
            sections[-1] += (
                f" Among its sources are {invented:,} invented words, which have no reference: the "
                "beginning of one training word joined to the end of another."
            )
        if data_of(name) in EVERYDAY:
            sections[-1] += (
                " It also contains every reference with its source as people may type it: some in "
                "lowercase, without a final mark, or without apostrophes. Sentences with “Tom” or "
                "another name that both sides share are also in it with the names of other people."
            )
        if name in TUNED_ONCE:
            sections[-1] += (
                " Of what people type and the corpus hardly has, it contains greetings, single "
                "words, phrases of travellers, names of two words, numbers in digits and in words, "
                "times and days, statements joined to longer sentences, quotes and brackets; the "
                "text of most of these was written for it."
            )
    sections += selection_sections(name)
    sections += [f"## Terms\n\n{task.terms}", *speed.section(name), *examples(name)]
    if not name.startswith("seq2seq"):
        text = task.example
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


def examples(name: str) -> list[str]:
    """Return the sections of test translations: at fixed percentiles, and failures by kind."""
    import zoo
    from zoo.data.datasets import find_dataset, read_items
    from zoo.registry.registry import default_registry

    _, items = read_items(find_dataset(default_registry(), data_of(name)), "test", None)
    translator = zoo.load(TOP / SHIPPED / name)
    # Whole, as `zoo eval` translates them.
    sources = [item.source for item in items]
    texts = translator.translate(sources, split=False, **search_of(name))
    return [
        f"## Examples\n\n{at_percentiles(items, texts)}",
        f"## Failures\n\n{by_kind(task_of(name).kind, items, texts)}",
    ]


def at_percentiles(items: Sequence[Item], texts: Sequence[str]) -> str:
    """Return translations at fixed percentiles of sentence chrF, as Markdown."""
    from sacrebleu.metrics.chrf import CHRF

    from zoo.checkpoint.markdown import markdown_table

    chrf = CHRF()
    ranked = sorted(
        (chrf.sentence_score(text, list(item.references)).score, index)
        for index, (text, item) in enumerate(zip(texts, items, strict=True))
    )
    rows = []
    for percentile in PERCENTILES:
        score, index = ranked[percentile * len(ranked) // 100]
        item = items[index]
        reference = " / ".join(item.references[:3])
        rows.append([f"{percentile}", f"{score:.1f}", item.source, texts[index], reference])
    head = ["percentile", "chrF", "source", "translation", "reference"]
    return (
        "Test sentences at fixed percentiles of sentence chrF, not selected by hand; among equal "
        "scores, the first in the test set. At most three references are shown.\n\n"
        f"{markdown_table(head, rows)}"
    )


def by_kind(kind: str, items: Sequence[Item], texts: Sequence[str]) -> str:
    """Return how often translations fail in which way, as Markdown."""
    from failures import failures

    from zoo.checkpoint.markdown import markdown_table

    kinds = failures(kind, texts, [item.references for item in items])
    wrong = sum(count for _, count, _ in kinds)
    text = f"{wrong:,} of {len(items):,} test translations equal no reference."
    rows = []
    for what, count, first in kinds:
        if what:
            item, share = items[first], f"{100 * count / len(items):.1f}"
            rows.append([what, f"{count:,}", share, item.source, texts[first], item.references[0]])
    if kind == "text" and wrong:
        text += " Most of those may be right in other words; the table has those that look wrong."
    if not rows:
        return text
    head = ["kind", "number", "% of all", "first source", "translation", "reference"]
    return f"{text}\n\n{markdown_table(head, rows)}"


def write_entry(name: str) -> None:
    """Write the catalogue's entry of a checkpoint."""
    import tomlkit

    from zoo.checkpoint.scores import read_scores
    from zoo.data.datasets import find_dataset
    from zoo.files import replace_file
    from zoo.hub.user_catalogue import entry_of
    from zoo.registry.registry import default_registry

    task = task_of(name)
    folder, file = TOP / SHIPPED / name, TOP / "registry.toml"
    document = tomlkit.parse(file.read_text(encoding="utf-8"))
    dataset = find_dataset(default_registry(), data_of(name))
    summary = dataset.summary.partition(";")[0]
    entry = entry_of(folder, summary=summary, terms=dataset.terms)
    scores = tomlkit.inline_table()
    for record in read_scores(folder):
        is_own = record["data"] == dataset.name and record["split"] == "test"
        if is_own and not record.get("lowercase"):
            scores.update({n: round(record[n], 2) for n in task.headlines if n in record})
    entry["dataset"] = dataset.name  # a distilled checkpoint records its training file instead
    files = entry.pop("files")
    entry["scores"] = scores
    entry["files"] = files
    entries = {**document.get("checkpoints", {}), name: entry}
    document["checkpoints"] = tomlkit.table(is_super_table=True)
    for each in sorted(entries, key=CATALOGUE.index):
        document["checkpoints"][each] = entries[each]
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
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: those that are released")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--train", action="store_true", help="train or resume, and nothing else")
    what.add_argument("--seeds", action="store_true", help="train and score with other seeds")
    what.add_argument("--choose", action="store_true", help="choose the length penalty anew")
    what.add_argument("--describe", action="store_true", help="write metadata, cards and entries")
    what.add_argument("--speed", action="store_true", help="time shipped files on one core")
    what.add_argument("--rescore", action="store_true", help="score and describe shipped files")
    what.add_argument("--verify", action="store_true", help="compare shipped files with cards")
    options = parser.parse_args()
    known = set(NAMES)
    if options.train:
        from training import TEACHERS

        known |= set(TEACHERS)
    if unknown := sorted(set(options.names) - known):
        raise SystemExit(f"unknown checkpoint {', '.join(unknown)}; choose from {', '.join(NAMES)}")
    names = options.names or [name for name in NAMES if (TOP / SHIPPED / name).is_dir()]
    if options.verify:
        verify(names)
        return
    chosen = [action for action in ACTIONS if getattr(options, action, False)]
    for name in names:
        ACTIONS[chosen[0] if chosen else "release"](name)


def describe_again(name: str) -> None:
    """Write metadata, the whole card and the entry of a shipped checkpoint."""
    describe(name)
    write_sections(name)
    write_entry(name)


def measure_speed(name: str) -> None:
    """Time a shipped checkpoint, and write the card's section about its speed."""
    speed.measure(name, TOP / SHIPPED / name)
    file = TOP / SHIPPED / name / "README.md"
    text = file.read_text(encoding="utf-8")
    (section,) = speed.section(name)
    before, mark, after = text.partition("\n## Speed\n")
    if not mark:
        before, mark, after = text.partition("\n## Examples\n")
        rest = mark + after
    else:
        rest = after[after.index("\n## ") :]
    file.write_text(f"{before}\n{section}\n{rest}", encoding="utf-8")
    write_entry(name)


def train_only(name: str) -> None:
    """Train a checkpoint, or resume its interrupted run."""
    from training import train

    train(name)


ACTIONS = {
    "train": train_only,
    "seeds": score_seeds,
    "choose": choose,
    "describe": describe_again,
    "speed": measure_speed,
    "rescore": rescore,
    "release": release,
}
"""What each option of the command line does with a checkpoint."""


if __name__ == "__main__":
    main()
