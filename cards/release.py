"""The released checkpoints: trained, scored, described and listed by the project's own commands.

    python cards/release.py                                    every one of them
    python cards/release.py transformer-tiny.multi30k-en-de    those that are named
    python cards/release.py --verify                           score the shipped files again

A checkpoint is called MODEL.DATA and trained by the catalogue's recipe of that name, in
`runs/release`; a run that was stopped goes on where it was. What is shipped stands in
`cards/checkpoints/NAME`: the weights as float16, the card with its scores and examples, the curve.
`registry.toml` promises its bytes. Every command is printed as one would type it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
RUNS = Path("runs/release")
SHIPPED = Path("cards/checkpoints")
MODELS = ("seq2seq-tiny", "rnnsearch-tiny", "convs2s-tiny", "transformer-tiny")
SEARCH: dict[str, dict[str, Any]] = {
    "numbers-en-fr": {},
    "multi30k-en-de": {"beam": 5, "length_penalty": 1.5},
}
"""How each task's checkpoints translate."""
PENALTIES = {"rnnsearch-tiny.multi30k-en-de": 1.0}
"""Where validation data chose another length penalty for one of them."""
ALONE, ONCE = (f"transformer-tiny.multi30k-en-de.{which}" for which in ("alone", "once"))
NARROW = ("--set", "feedforward_dim=512")
TEACHERS = {
    ALONE: (*NARROW, "--set", "average_last=5", "--steps", "12000"),
    ONCE: (*NARROW, "--steps", "8000"),
}
"""Runs that teach and are not released, and how they differ from their model's recipe."""
FIRST = ((ALONE, "rnnsearch-tiny.multi30k-en-de"), ("convs2s-tiny.multi30k-en-de",))
TAUGHT = {ONCE: FIRST, "transformer-tiny.multi30k-en-de": (*FIRST, (ONCE,))}
"""Who learns, besides the corpus, what these groups each write together for its sources."""
SCORED = {
    "numbers-en-fr": [["--split", "test", "--confidence"]],
    "multi30k-en-de": [
        ["--split", "validation"],
        ["--split", "test", "--confidence"],
        ["--split", "test", "--lowercase", "--confidence"],
    ],
}
"""What they are scored on: options of `zoo eval`."""
HEADLINES = {
    "numbers-en-fr": ("exact_match",),
    "multi30k-en-de": ("bleu", "chrf", "bleu_as_papers_count"),
}
"""The scores on the test set that the catalogue tells."""
LICENSES = {
    "numbers-en-fr": {"license": "apache-2.0"},
    "multi30k-en-de": {"license": "other", "license_name": "multi30k-non-commercial"},
}
TERMS = {
    "numbers-en-fr": "The data is generated. The weights are under the project's own licence.",
    "multi30k-en-de": (
        "The data is for research and education, not for commerce (Elliott et al. 2016); so are "
        "weights that were learned from it. The example sentences are quoted from it."
    ),
}
LOOKED_AT = {
    "numbers-en-fr": "four hundred and ninety-two thousand, six hundred and five",
    "multi30k-en-de": "Two dogs are playing in the snow.",
}
PERCENTILES = (0, 5, 25, 50, 75, 95)
NAMES = tuple(f"{model}.{task}" for task in SCORED for model in MODELS)


def call(*words: str | Path, given: str | None = None) -> str:
    """Run a `zoo` command or a Python program from the repository's top; return what it prints."""
    arguments = [str(word) for word in words]
    print(f"$ {shlex.join(arguments)}", file=sys.stderr, flush=True)
    program = ["-m", "zoo", *arguments[1:]] if arguments[0] == "zoo" else arguments[1:]
    done = subprocess.run(
        [sys.executable, *program], cwd=TOP, input=given, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"{arguments[0]} {arguments[1]} ended with {done.returncode}; see above")
    return done.stdout


def search_of(name: str) -> dict[str, Any]:
    """Return how a checkpoint translates."""
    search = dict(SEARCH[name.partition(".")[2]])
    if name in PENALTIES:
        search["length_penalty"] = PENALTIES[name]
    return search


def as_options(search: dict[str, Any]) -> list[str]:
    """Return a search as one types it."""
    return [word for k, v in search.items() for word in (f"--{k.replace('_', '-')}", str(v))]


def train(name: str) -> Path:
    """Return the folder of a run, trained unless it is there; one that was begun goes on."""
    out = RUNS / name
    if not (TOP / out).is_dir():
        begun = (TOP / f"{out}.run" / "run.json").is_file()
        call("zoo", "train", *(["--resume"] if begun else how(name)), "--out", out)
    return out


def release(name: str) -> None:
    """Make a checkpoint, from its training to its place in the catalogue."""
    task = name.partition(".")[2]
    trained, shipped = train(name), SHIPPED / name
    shutil.rmtree(TOP / shipped, ignore_errors=True)
    call("zoo", "convert", trained, shipped, "--dtype", "float16")
    begin(name, task)
    search = as_options(search_of(name))
    for options in SCORED[task]:
        told = call("zoo", "eval", shipped, "--data", task, *options, *search, "--json")
        call("zoo", "card", shipped, "--write", "--scores", "-", given=told)
    if task == "multi30k-en-de":
        told = call("python", "benchmarks/papers_count.py", shipped, *search)
        told = told.replace(str(shipped), name)
        call("zoo", "card", shipped, "--write", "--scores", "-", given=told)
    end(name, task)
    record(name, task)


def how(name: str) -> list[str]:
    """Return the options that train a checkpoint or a teacher.

    Who is taught reads each source once with its target, and once more with what each group of
    teachers translates it to (Kim and Rush 2016, section 3.2; Nguyen et al. 2020).
    """
    from zoo.data.datasets import find_dataset
    from zoo.registry.registry import default_registry

    model, task = name.split(".")[:2]
    own = TEACHERS.get(name, ())
    if name not in TAUGHT:
        return [model, "--data", task, *own]
    one, other = task.split("-")[-2:]
    read = TOP / RUNS / "lessons" / f"train.{one}"
    read.parent.mkdir(parents=True, exist_ok=True)
    pairs = find_dataset(default_registry(), task).load("train")
    sources = "".join(f"{pair.source}\n" for pair in pairs)
    read.write_text(sources, encoding="utf-8")
    targets = ["".join(f"{pair.target}\n" for pair in pairs)]
    targets += [write(group, read, task).read_text(encoding="utf-8") for group in TAUGHT[name]]
    given = read.with_name(f"for-{name}")
    Path(f"{given}.{one}").write_text(sources * len(targets), encoding="utf-8")
    Path(f"{given}.{other}").write_text("".join(targets), encoding="utf-8")
    recipe = f"{model}.{default_registry().datasets[task].recipe}"
    return [
        *(model, "--data", f"{given}:{one}-{other}"),
        *("--validation", task, "--recipe", recipe, *own),
    ]


def write(group: Sequence[str], read: Path, task: str) -> Path:
    """Have a group of teachers translate a file together, unless they have; return what they wrote.

    A teacher that is not released is trained first.
    """
    out = read.with_name(f"by-{'+'.join(group)}.{task.rpartition('-')[2]}")
    if not out.is_file():
        first, *more = (str(train(name)) if name in TEACHERS else name for name in group)
        beside = [word for name in more for word in ("--with", name)]
        given = ["--input", str(read), "--out", str(out)]
        call("zoo", "translate", first, *beside, *as_options(SEARCH[task]), *given)
    return out


def begin(name: str, task: str) -> None:
    """Give a new card its licence, so that everything written later keeps it."""
    file = TOP / SHIPPED / name / "README.md"
    front = "".join(f"{key}: {value}\n" for key, value in LICENSES[task].items())
    file.write_text(file.read_text(encoding="utf-8").replace("---\n", f"---\n{front}", 1), "utf-8")


def end(name: str, task: str) -> None:
    """Write the parts of a card that come after what every card has."""
    from zoo.checkpoint.card import END
    from zoo.checkpoint.format import ATTENTION

    folder = TOP / SHIPPED / name
    sections: list[str] = []
    if name in TAUGHT:
        groups = "; ".join(" and ".join(group) for group in TAUGHT[name])
        sections.append(
            f"## Taught by\n\nBesides {task} it learned, of the same sources, what these wrote: "
            f"{groups}. Those joined by «and» wrote together. The file it was trained on holds all "
            "of these texts."
        )
    sections += [f"## Terms\n\n{TERMS[task]}", f"## Examples\n\n{examples(name, task)}"]
    if not name.startswith("seq2seq"):
        text = LOOKED_AT[task]
        picture = folder / ATTENTION
        how = ("--kind", "cross", "--head", "mean", "--out", picture.relative_to(TOP))
        call("zoo", "attention", SHIPPED / name, text, *how)
        sections.append(
            f"## Attention\n\nWhere each layer looks while it translates «{text}», the mean over "
            f"its heads:\n\n![Attention from target to source]({ATTENTION})"
        )
    sections.append(
        "## Made by\n\n```sh\n"
        f"make release-checkpoints NAMES={name}    # trains it again, on two cores\n"
        f"make verify-release NAMES={name}    # scores these files again\n```"
    )
    file = folder / "README.md"
    before = file.read_text(encoding="utf-8").partition(END)[0]
    file.write_text(f"{before}{END}\n" + "\n\n".join(sections) + "\n", encoding="utf-8")


def examples(name: str, task: str) -> str:
    """Return translations of test sentences, good and bad, chosen by their rank alone."""
    from sacrebleu.metrics.chrf import CHRF

    import zoo
    from zoo.checkpoint.markdown import markdown_table
    from zoo.data.datasets import find_dataset
    from zoo.registry.registry import default_registry

    pairs = find_dataset(default_registry(), task).load("test")
    translator = zoo.load(TOP / SHIPPED / name)
    texts = translator.translate([pair.source for pair in pairs], **search_of(name))
    chrf = CHRF()
    scored = [
        (chrf.sentence_score(text, [pair.target]).score, place)
        for place, (text, pair) in enumerate(zip(texts, pairs, strict=True))
    ]
    ranked = sorted(scored)
    rows = []
    for percentile in PERCENTILES:
        score, place = ranked[percentile * len(ranked) // 100]
        pair = pairs[place]
        rows.append([f"{percentile}", f"{score:.1f}", pair.source, texts[place], pair.target])
    head = ["percentile", "chrF", "source", "translation", "reference"]
    rule = ", ".join(str(percentile) for percentile in PERCENTILES)
    return (
        f"The test sentences at these percentiles of sentence chrF ({rule}; of equal scores, the "
        f"earlier first), whatever they are.\n\n{markdown_table(head, rows)}"
    )


def record(name: str, task: str) -> None:
    """Write a checkpoint's entry in the catalogue."""
    import tomlkit

    from zoo.checkpoint.scores import read_scores
    from zoo.data.datasets import find_dataset
    from zoo.files import replace_file
    from zoo.hub.user_catalogue import entry_of
    from zoo.registry.registry import default_registry

    folder, file = TOP / SHIPPED / name, TOP / "registry.toml"
    document = tomlkit.parse(file.read_text(encoding="utf-8"))
    dataset = find_dataset(default_registry(), task)
    summary = dataset.summary.partition(";")[0]
    entry = entry_of(folder, summary=summary, terms=dataset.terms)
    scores = tomlkit.inline_table()
    for told in read_scores(folder):
        if told["split"] == "test" and not told.get("lowercase"):
            scores.update({n: round(told[n], 2) for n in HEADLINES[task] if n in told})
    entry["dataset"] = task  # what else it was taught by is not data of its own
    files = entry.pop("files")
    entry["scores"] = scores
    entry["files"] = files
    entries = document.setdefault("checkpoints", tomlkit.table(is_super_table=True))
    entries[name] = entry
    replace_file(file, tomlkit.dumps(document))
    print(f"{name}: {scores.as_string()}", file=sys.stderr)


# --- verifying ----------------------------------------------------------------------------------

NEAR = 0.1
"""How far a score may be from the one told, in points: another machine's sums are rounded
otherwise, and where two translations are as good as equal it may take the other one."""


def again(name: str) -> Iterator[tuple[str, float, float]]:
    """Score a shipped checkpoint again; yield each score's name, what is told and what is found."""
    from zoo.checkpoint.scores import command, metrics, read_scores

    for told in read_scores(TOP / SHIPPED / name):
        words = shlex.split(told.get("command") or command(told, name))
        found: dict[str, Any] = json.loads(call(*words, *(["--json"] if words[0] == "zoo" else [])))
        for metric in metrics(told):
            yield f"{told['split']}, {metric}", told[metric], found[metric]


def verify(names: list[str]) -> None:
    """Compare every score of every card with what the shipped files give here."""
    wrong = 0
    for name in names:
        for what, told, found in again(name):
            good = abs(told - found) <= NEAR
            wrong += not good
            same = "equal" if told == found else "near" if good else "WRONG"
            print(f"{name:<34} {what:<34} {told:8.3f} {found:8.3f}  {same}", flush=True)
    if wrong:
        raise SystemExit(f"{wrong} scores are not what the cards tell")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all, if none is given")
    parser.add_argument("--verify", action="store_true", help="score the shipped files again")
    given = parser.parse_args()
    unknown = set(given.names) - set(NAMES)
    if unknown:
        raise SystemExit(f"no checkpoint {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if given.verify:
        verify(given.names or [name for name in NAMES if (TOP / SHIPPED / name).is_dir()])
        return
    for name in given.names or NAMES:
        release(name)


if __name__ == "__main__":
    main()
