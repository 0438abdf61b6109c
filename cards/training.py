"""Training of the released checkpoints, including sequence-level distillation.

A distilled checkpoint is trained on every source several times: once with its reference, and once
with the translation of each teacher group (Kim and Rush 2016, section 3.2; Nguyen et al. 2020). The
models of a group form an ensemble. Teachers of pronunciation also pronounce invented words, and
everyday sentences are also written as people type them, and with other names; their Transformers
learn greetings, then phrases, and the one from English symbols and then details. The network for
many tasks is taught each language pair by the network of that pair.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from courtesies import courtesies
from deepen import deepen
from details import details
from invented_words import invent
from more_sentences import more_sentences
from phrases import phrases
from released import RUNS, SHIPPED, TOP, as_options, run
from rewritten_sentences import half_typed, rewritten, turned
from symbols import symbols
from tasks import PARTS, TASKS

from zoo import Dataset, Pair
from zoo.data.datasets import find_dataset
from zoo.registry.registry import default_registry
from zoo_corpora.near_copies import keys

CAPTIONS = "transformer-tiny.multi30k-en-de"
UNDISTILLED, DISTILLED_ONCE = f"{CAPTIONS}.undistilled", f"{CAPTIONS}.distilled-once"
SEED = "seed-"
"""`MODEL.DATA.seed-2` is trained as `MODEL.DATA`, with another seed."""
RNNSEARCH, CONVS2S = "rnnsearch-tiny.multi30k-en-de", "convs2s-tiny.multi30k-en-de"
RNNSEARCH_UNDISTILLED, CONVS2S_UNDISTILLED = f"{RNNSEARCH}.undistilled", f"{CONVS2S}.undistilled"
FROM_GERMAN = "multi30k-de-en"
FRENCH = "transformer-tiny.multi30k-en-fr"
FRENCH_UNDISTILLED = f"{FRENCH}.undistilled"
RNNSEARCH_FRENCH, CONVS2S_FRENCH = "rnnsearch-tiny.multi30k-en-fr", "convs2s-tiny.multi30k-en-fr"
FRENCH_TEACHERS = (f"{RNNSEARCH_FRENCH}.undistilled", f"{CONVS2S_FRENCH}.undistilled")
"""Besides the Transformer, for the other families."""
PHONES = "transformer-tiny.g2p-en"
PHONES_UNDISTILLED = f"{PHONES}.undistilled"
EVERYDAY = ("tatoeba-en-fr-76k", "tatoeba-fr-en-76k")
"""The tasks whose sentences are rewritten."""
TRANSLATING = ("transformer-tiny", "rnnsearch-tiny", "convs2s-tiny")
"""The models whose translations the Transformer is tuned on for them; the others on its own."""
FAMILIES = (*TRANSLATING, "seq2seq-tiny")
GERMAN_TEACHERS = tuple(f"{model}.{FROM_GERMAN}.undistilled" for model in TRANSLATING)
"""The teachers of all families for captions from German."""
TUNED_ONCE = {
    f"transformer-tiny.{task}": f"transformer-tiny.{task}.tuned-once" for task in EVERYDAY
}
"""What the Transformers were before they learned courtesies."""
TUNED_TWICE = {name: f"{name}.tuned-twice" for name in TUNED_ONCE}
"""What they were before they learned phrases, and brackets."""
ENGLISH_FIRST = f"transformer-tiny.{EVERYDAY[0]}"
TUNED_THRICE = {ENGLISH_FIRST: f"{ENGLISH_FIRST}.tuned-thrice"}
"""What the one from English was before it learned symbols."""
TUNED_FOUR_TIMES = {ENGLISH_FIRST: f"{ENGLISH_FIRST}.tuned-four-times"}
"""What it was before it learned ordinals, periods and other details."""
LARGER_ONES = {TUNED_TWICE[name]: TUNED_THRICE.get(name, name) for name in TUNED_ONCE}
"""What becomes of them when they learn phrases and brackets."""
AVERAGED = "bleu_sentences=200", "average_decay=0.999"
"""Settings of the runs in which the one from English learns symbols, and details."""
PHRASES = 24_000
LARGER = {"encoder_layers": 6, "decoder_layers": 4, "feedforward_dim": 1536, "dropout": 0.25}
"""Their sizes; before they learn these, they are smaller."""
JOINT = "transformer-tiny.tasks"
JOINT_UNDISTILLED = f"{JOINT}.undistilled"
LANGUAGE_PAIRS = tuple((part, tag) for part, tag in PARTS if TASKS[part].kind == "text")
INVENTED_WORDS = {"g2p-en": 300_000}
"""How many words are invented for the teachers of a task."""
BEAM = 4
"""Of teachers, where the released checkpoints of a task are decoded greedily."""


def _settings(*settings: str, steps: int) -> tuple[str, ...]:
    """Return the options for some settings of a recipe or configuration, and for the updates."""
    return (*(word for setting in settings for word in ("--set", setting)), "--steps", str(steps))


TEACHERS = {
    UNDISTILLED: _settings("feedforward_dim=512", "average_last=5", steps=12_000),
    DISTILLED_ONCE: _settings("feedforward_dim=512", steps=8_000),
    GERMAN_TEACHERS[0]: (),
    **dict.fromkeys(
        (RNNSEARCH_UNDISTILLED, GERMAN_TEACHERS[1], FRENCH_TEACHERS[0]),
        _settings("average_last=5", "encoder_dim=192", "hidden_dim=256", steps=17_000),
    ),
    **dict.fromkeys(
        (CONVS2S_UNDISTILLED, GERMAN_TEACHERS[2], FRENCH_TEACHERS[1]),
        _settings("average_last=5", "vocab_size=4000", steps=20_000),
    ),
    FRENCH_UNDISTILLED: ("--steps", "8000"),
    PHONES_UNDISTILLED: ("--precision", "float32"),
    JOINT_UNDISTILLED: (),
    **{f"{model}.{task}.undistilled": () for task in EVERYDAY for model in FAMILIES},
    **{
        earlier: ()
        for stage in (TUNED_ONCE, TUNED_TWICE, TUNED_THRICE, TUNED_FOUR_TIMES)
        for earlier in stage.values()
    },
}
"""Teachers and others that are not released, with options that differ from the model's recipe."""
FIRST = ((UNDISTILLED, RNNSEARCH_UNDISTILLED), (CONVS2S_UNDISTILLED,))
SECOND = ((CAPTIONS,), (CONVS2S_UNDISTILLED,), (RNNSEARCH_UNDISTILLED,))
TEACHERS_OF = {
    DISTILLED_ONCE: FIRST,
    CAPTIONS: (*FIRST, (DISTILLED_ONCE,)),
    RNNSEARCH: SECOND,
    CONVS2S: SECOND,
    "seq2seq-tiny.multi30k-en-de": SECOND,
    **{f"{model}.{FROM_GERMAN}": tuple((name,) for name in GERMAN_TEACHERS) for model in FAMILIES},
    **dict.fromkeys(
        (RNNSEARCH_FRENCH, CONVS2S_FRENCH, "seq2seq-tiny.multi30k-en-fr"),
        ((FRENCH,), *((name,) for name in FRENCH_TEACHERS)),
    ),
    FRENCH: (
        (FRENCH_UNDISTILLED, FRENCH_TEACHERS[0]),
        (FRENCH_TEACHERS[1],),
        (FRENCH_UNDISTILLED,),
    ),
    PHONES: (
        (
            PHONES_UNDISTILLED,
            *(f"{family}-tiny.g2p-en" for family in ("rnnsearch", "convs2s", "seq2seq")),
        ),
    ),
    **{
        earlier: (tuple(f"{model}.{task}.undistilled" for model in TRANSLATING),)
        for task, earlier in zip(EVERYDAY, TUNED_ONCE.values(), strict=True)
    },
    **{
        f"{model}.{task}": ((earlier,),)
        for task, earlier in zip(EVERYDAY, TUNED_ONCE.values(), strict=True)
        for model in FAMILIES
    },
    **{TUNED_TWICE[name]: ((earlier,),) for name, earlier in TUNED_ONCE.items()},
    **{name: ((earlier,),) for earlier, name in LARGER_ONES.items()},
    **{TUNED_FOUR_TIMES[name]: ((earlier,),) for name, earlier in TUNED_THRICE.items()},
    **{name: ((earlier,),) for name, earlier in TUNED_FOUR_TIMES.items()},
    JOINT: tuple((f"transformer-tiny.{part}",) for part, _ in LANGUAGE_PAIRS),
}
"""The teacher groups of each distilled checkpoint; of JOINT, one for each of LANGUAGE_PAIRS."""


def _tuning(
    teacher: str,
    steps: int,
    batch_tokens: int,
    warmup: int,
    *more: str,
    average: int = 5,
    rate: float = 1e-3,
) -> tuple[str, ...]:
    """Return a teacher, and the options of a run that begins with its weights."""
    settings = (
        f"batch_tokens={batch_tokens}", f"learning_rate={rate:g}", f"warmup={warmup}",
        "schedule=cosine", f"average_last={average}", "select=last", *more,
    )  # fmt: skip
    return teacher, "--precision", "auto", *_settings(*settings, steps=steps)


TUNED = {
    PHONES: _tuning(PHONES_UNDISTILLED, 14_000, 2_048, 500),
    **{
        TUNED_ONCE.get(f"{model}.{task}", f"{model}.{task}"): _tuning(
            f"{model}.{task}.undistilled", *size, 300, "bleu_sentences=200"
        )
        for task in EVERYDAY
        for model, size in zip(FAMILIES, ((7_000, 2_048), *[(4_000, 1_024)] * 3), strict=True)
    },
    **{
        TUNED_TWICE[name]: _tuning(
            earlier, 4_500, 2_048, 200, "bleu_sentences=200", "parent_share=0.2", average=2
        )
        for name, earlier in TUNED_ONCE.items()
    },
    **{
        name: (
            *_tuning(earlier, 11_000, 2_048, 300, "bleu_sentences=200", average=3),
            *("--extend-vocabulary", "both"),
        )
        for earlier, name in LARGER_ONES.items()
    },
    **{
        name: (
            *_tuning(earlier, 6_000, 2_048, 300, *AVERAGED, average=1, rate=5e-4),
            *("--extend-vocabulary", "both"),
        )
        for name, earlier in (
            *((TUNED_FOUR_TIMES[name], earlier) for name, earlier in TUNED_THRICE.items()),
            *TUNED_FOUR_TIMES.items(),
        )
    },
    f"transformer-tiny.{FROM_GERMAN}": _tuning(
        GERMAN_TEACHERS[0], 4_000, 3_072, 300, "bleu_sentences=200", average=3
    ),
    JOINT: _tuning(JOINT_UNDISTILLED, 8_000, 3_072, 300, "bleu_sentences=200"),
}
"""Distilled checkpoints that begin with the weights of a teacher, with the options of this run."""


def train(name: str) -> Path:
    """Return the folder of a trained checkpoint; train it first, or resume an interrupted run."""
    out = RUNS / name
    if not (TOP / out).is_dir():
        interrupted = (TOP / f"{out}.run" / "run.json").is_file()
        run("zoo", "train", *(["--resume"] if interrupted else options_of(name)), "--out", out)
    return out


def options_of(name: str) -> list[str]:
    """Return the training options of a checkpoint or a teacher; write its distillation text."""
    model, task, *variant = name.split(".")
    changes = TEACHERS.get(name, ())
    if variant and variant[0].startswith(SEED):
        name = f"{model}.{task}"
        changes = ("--seed", variant[0].removeprefix(SEED))
    if name not in TEACHERS_OF:
        return [model, "--data", task, *changes]
    registry = default_registry()
    dataset = find_dataset(registry, task)
    source, target = suffixes(task)
    pairs = list(dataset.load("train"))
    folder = TOP / RUNS / "distillation"
    folder.mkdir(parents=True, exist_ok=True)
    texts = [(as_lines(p.source for p in pairs), as_lines(p.target for p in pairs))]
    if task in EVERYDAY:
        more = rewritten(pairs)
        more += without_near_copies(written_for(name, pairs, source == "en"), dataset)
        texts.append((as_lines(p.source for p in more), as_lines(p.target for p in more)))
    if name == JOINT:
        taught = zip(TEACHERS_OF[name], LANGUAGE_PAIRS, strict=True)
        texts += [translated(group, part, f"{tag}: ") for group, (part, tag) in taught]
    else:
        texts += [translated(group, task) for group in TEACHERS_OF[name]]
    corpus = folder / f"for-{name}"
    for language, side in zip((source, target), zip(*texts, strict=True), strict=True):
        Path(f"{corpus}.{language}").write_text("".join(side), encoding="utf-8")
    data = ("--data", f"{corpus}:{source}-{target}", "--validation", task)
    if name in TUNED:
        teacher, *settings = TUNED[name]
        parent = train(teacher) if teacher in TEACHERS else SHIPPED / teacher
        if name in LARGER_ONES.values():
            parent = deepen(TOP / parent, TOP / f"{parent}.larger", LARGER)
        return ["--from", str(parent), *data, *settings, *changes]
    recipe = f"{model}.{task}"
    if recipe not in registry.recipes:
        recipe = f"{model}.{registry.datasets[task].recipe}"
    return [model, *data, "--recipe", recipe, *changes]


def written_for(name: str, pairs: Sequence[Pair], english_first: bool) -> list[Pair]:
    """Return the new pairs that a Transformer for everyday sentences learns in its last stages."""
    makers: list[Callable[[Sequence[Pair], bool], list[Pair]]]
    makers = [lambda _, first: courtesies(first), more_sentences, phrase_book, symbols, details]
    model, _, stage = name.partition(".tuned-")
    last = len(makers) if model in TUNED_FOUR_TIMES else 3
    counts = {"once": 0, "twice": 2, "thrice": 3, "four-times": 4, "": last}
    count = counts[stage] if model in TUNED_ONCE else 0
    return [pair for make in makers[:count] for pair in make(pairs, english_first)]


def phrase_book(pairs: Sequence[Pair], english_first: bool) -> list[Pair]:
    """Return phrases, half of them as somebody may type them; `pairs` are those of training."""
    draw = random.Random(4)
    made = phrases(turned(pairs, english_first), PHRASES, draw)
    return half_typed(turned(made, english_first), draw)


def without_near_copies(pairs: Sequence[Pair], dataset: Dataset) -> list[Pair]:
    """Return the pairs of which neither side is a near copy of a dataset's held-out text."""
    held_out = {
        key
        for split in ("validation", "test")
        for pair in dataset.load(split)
        for key in keys(pair)
    }
    return [pair for pair in pairs if held_out.isdisjoint(keys(pair))]


def suffixes(task: str) -> tuple[str, str]:
    """Return the endings of a task's files: from en-de or tatoeba-en-fr-76k, the languages."""
    words = [word for word in task.split("-") if word != "76k"]
    return (words[-2], words[-1]) if len(words) > 1 else ("source", "target")


def as_lines(texts: Iterable[str]) -> str:
    """Return texts as the lines of a file."""
    return "".join(f"{text}\n" for text in texts)


def extra_sources(dataset: Dataset) -> list[str]:
    """Return sources that only the teachers translate: invented words, for pronunciation."""
    if dataset.name not in INVENTED_WORDS:
        return []
    from zoo_corpora.pronunciation import stem

    words = {split: [pair.source for pair in dataset.load(split)] for split in dataset.splits}
    known = {stem(word) for each in words.values() for word in each}
    return invent(words["train"], INVENTED_WORDS[dataset.name], known, stem)


@functools.cache
def sources_to_translate(task: str) -> tuple[str, ...]:
    """Return what the teachers of a task translate, the same for each group of them."""
    dataset = find_dataset(default_registry(), task)
    return (*(pair.source for pair in dataset.load("train")), *extra_sources(dataset))


def translated(group: Sequence[str], task: str, prefix: str = "") -> tuple[str, str]:
    """Return a task's training sources, with the prefix, and a group's translations of them."""
    sources = sources_to_translate(task)
    train_file = TOP / RUNS / "distillation" / f"train-{task}.{suffixes(task)[0]}"
    train_file.write_text(as_lines(sources), encoding="utf-8")
    translations = translate(group, train_file, task).read_text(encoding="utf-8")
    return as_lines(prefix + source for source in sources), translations


def translate(group: Sequence[str], sources: Path, task: str) -> Path:
    """Return the translations of a file by a teacher group, made unless they exist.

    Teachers that are not released are trained first. The file's name has a hash of their weights.
    """
    folders = [TOP / (train(name) if name in TEACHERS else SHIPPED / name) for name in group]
    weights = [(folder / "model.safetensors").read_bytes() for folder in folders]
    version = hashlib.sha256(b"".join(weights)).hexdigest()[:12]
    out = sources.with_name(f"by-{'+'.join(group)}-{version}.{suffixes(task)[1]}")
    if not out.is_file():
        first, *others = map(str, folders)
        ensemble = [word for name in others for word in ("--with", name)]
        search = as_options({"beam": BEAM} | dict(TASKS[task].search))
        files = ["--input", str(sources), "--out", str(out)]
        run("zoo", "translate", first, *ensemble, *search, *files)
    return out
