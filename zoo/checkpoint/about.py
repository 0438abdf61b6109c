"""What a checkpoint says about itself: languages, data, terms, recommended decoding, origin.

It is the object `about` in `config.json`. Nothing here imports torch.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self, TypeGuard, get_args

from zoo.decoding.options import faults as option_faults
from zoo.decoding.options import search_options
from zoo.errors import CheckpointError, UnknownNameError, did_you_mean
from zoo.registry.declarations import Dataset, are_tasks
from zoo.registry.open_shelf import parse_named

Origin = Literal["trained", "fine-tuned", "imported"]

LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@-]{0,31}")
"""A language code, such as `de`, `pt-BR` or `eng_Latn`."""

CODE = re.compile(r"(?!(src|trg|tgt|ref|in|out)$)[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8})*")
"""A code that the end of a file's name may be; `question` and `src` are none."""

LIST_LIMIT = 1_000
"""The most languages, examples or banned tokens."""

TEXT_LIMITS = {
    "data": 1_000, "terms": 10_000, "parent": 1_000, "examples": 2_000, "intended_use": 2_000,
    "tasks": 100,
}  # fmt: skip
"""The most characters of each text."""

LENGTH_LIMIT = 10**9
"""The largest `trained_length`."""

NOT_RECOMMENDED = ("n_best", "seed", "exhaustive")
"""Search options that a user chooses: they do not change which translation is the best."""

DECODING_LIMITS = {
    "beam": 64, "coverage_penalty": 10, "min_length": 10_000, "max_length": 100_000,
    "no_repeat_ngram_size": 10_000, "repetition_penalty": 100, "temperature": 100,
    "top_k": 10_000_000,
}  # fmt: skip
"""The largest recommended values: a file must not make a search unbounded."""

OPTION_LIMIT = 10_000
"""The largest number among the options of a recommended search or logits processor."""

OBJECTS = ("decoding", "tasks")
"""The values of a description that have values by name."""


@dataclass(frozen=True)
class About:
    """What a checkpoint says about itself.

    Attributes:
        source_languages: codes of the languages that it reads, the default first; empty if its
            texts are of no language, or if none is known.
        target_languages: codes of the languages that it writes, the default first.
        data: the name of what it was trained on.
        terms: licenses or terms of use of its data and weights.
        decoding: recommended search options, fields of `zoo.Search`.
        origin: `trained`, `fine-tuned` or `imported`.
        parent: the name or address of what it was fine-tuned from, or imported from.
        examples: source texts of the kind that it translates.
        intended_use: sentences about what it is for, and what it cannot do.
        trained_length: tokens, with the end token, that all but one in a thousand of its training
            sources have at most; 0 if it is not known. Longer sentences are translated in parts.
        single_words: whether its training sources are single words: a text of several is read word
            by word, if its language writes spaces between them.
        reads_whole: whether texts are read whole and as they are, because most training sources
            have several sentences, or many no letter, capitals as codes have, or white space as
            programs have.
        tasks: for each task of several, the tag with which its sources begin, and the codes of its
            two languages, empty where there is none.
        single_word_tasks: the tags of those whose training sources are single words, which are read
            as with `single_words`.
        lower_case: whether its training sources have no capital letters: a text is read in small
            letters.
        lower_case_tasks: the tags of those whose training sources have none.
        own_penalty: whether the recommended length penalty of an import has the formula of the zoo,
            and not that of transformers.

    Raises:
        CheckpointError: a value is of a wrong type or out of bounds; all faults at once.
    """

    source_languages: tuple[str, ...] = ()
    target_languages: tuple[str, ...] = ()
    data: str = ""
    terms: str = ""
    decoding: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = "trained"
    parent: str = ""
    examples: tuple[str, ...] = ()
    intended_use: str = ""
    trained_length: int = 0
    single_words: bool = False
    reads_whole: bool = False
    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    single_word_tasks: tuple[str, ...] = ()
    lower_case: bool = False
    lower_case_tasks: tuple[str, ...] = ()
    own_penalty: bool = False

    def __post_init__(self) -> None:
        """Check every value."""
        wrong = list(faults({f.name: getattr(self, f.name) for f in fields(self)}))
        if wrong:
            raise CheckpointError("invalid description of a checkpoint", "; ".join(wrong))

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return the description that `about` in a `config.json` contains; other keys are ignored.

        Raises:
            CheckpointError: it is not an object, or a value is invalid.
        """
        if not isinstance(value, dict):
            raise CheckpointError("'about' must be an object")
        known = {f.name for f in fields(cls)}
        values: dict[str, Any] = {key: _frozen(item) for key, item in value.items() if key in known}
        return cls(**values)

    @classmethod
    def of_dataset(cls, dataset: Dataset) -> Self:
        """Return the description of a checkpoint that is trained on a dataset."""
        source, target = ((code,) if CODE.fullmatch(code) else () for code in dataset.languages)
        return cls(
            source,
            target,
            data=one_line(dataset.name, TEXT_LIMITS["data"]),
            terms=one_line(dataset.terms, TEXT_LIMITS["terms"]),
            tasks={
                tag: tuple(code if CODE.fullmatch(code) else "" for code in languages)
                for tag, languages in dataset.tasks.items()
            },
        )

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with some values replaced; `decoding.beam` is one of `decoding`, and
        `tasks.en-fr:` one of `tasks`.

        A text in place of a list is a list of it alone; None removes a value.

        Raises:
            UnknownNameError: there is no such value.
            CheckpointError: one is invalid.
        """
        known = {f.name: f.default for f in fields(self)}
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        values |= {name: dict(values[name]) for name in OBJECTS}
        for key, value in changes.items():
            name, _, option = key.partition(".")
            if name not in known or (option and name not in OBJECTS):
                raise UnknownNameError("value of a checkpoint's description", key, known)
            if option:
                values[name][option] = _frozen(value)
            elif isinstance(known[name], tuple) and isinstance(value, str):
                values[name] = (value,)
            else:
                values[name] = _frozen(value)
        for name in OBJECTS:
            if isinstance(values[name], dict):
                values[name] = {k: v for k, v in values[name].items() if v is not None}
        return type(self)(**{key: value for key, value in values.items() if value is not None})

    def as_json(self) -> dict[str, Any]:
        """Return the values that are not empty, for JSON."""
        return {key: value for key, value in asdict(self).items() if value}


def _frozen(value: object) -> object:
    """Return a list as a tuple, an object with such values, and any other value unchanged."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return tuple(value) if isinstance(value, list) else value


def faults(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield everything that is wrong with the fields of an `About`."""
    for name in ("source_languages", "target_languages"):
        if not _is_list(values[name]) or not all(map(_is_language, values[name])):
            yield f"{name} must be at most {LIST_LIMIT:,} language codes"
    for name in ("data", "terms", "parent", "intended_use"):
        if not _is_text(values[name], TEXT_LIMITS[name]):
            yield f"{name} must be a line of at most {TEXT_LIMITS[name]:,} characters"
    examples, most = values["examples"], TEXT_LIMITS["examples"]
    if not _is_list(examples) or not all(_is_text(example, most) for example in examples):
        yield f"examples must be lines of at most {most:,} characters"
    if type(values["origin"]) is not str or values["origin"] not in get_args(Origin):
        yield f"origin must be {' or '.join(get_args(Origin))}"
    length = values["trained_length"]
    if type(length) is not int or not 0 <= length <= LENGTH_LIMIT:
        yield f"trained_length must be a whole number of at most {LENGTH_LIMIT:,}"
    for name in ("single_words", "reads_whole", "lower_case", "own_penalty"):
        if type(values[name]) is not bool:
            yield f"{name} must be true or false"
    if not _is_tasks(values["tasks"]):
        yield (
            f"tasks must be at most {LIST_LIMIT:,} tags of 1 to {TEXT_LIMITS['tasks']} characters, "
            "each with two language codes, which may be empty"
        )
    for name in ("single_word_tasks", "lower_case_tasks"):
        tags = values[name]
        if not (_is_list(tags) and all(_is_text(tag, TEXT_LIMITS["tasks"]) for tag in tags)):
            yield f"{name} must be a list of tags"
    yield from decoding_faults(values["decoding"])


def decoding_faults(decoding: object) -> Iterator[str]:
    """Yield everything that is wrong with recommended search options."""
    if not isinstance(decoding, Mapping) or len(decoding) > len(search_options()):
        yield "decoding must be an object of search options"
        return
    wrong = [fault for name, value in decoding.items() if (fault := _option_fault(name, value))]
    yield from wrong
    if not wrong:
        yield from (f"decoding: {fault}" for fault in option_faults(decoding))


def _option_fault(name: object, value: object) -> str | None:
    """Return what is wrong with one recommended option, or None."""
    options = {option.name: option for option in search_options()}
    option = options.get(name) if isinstance(name, str) else None
    if option is None:
        nearest = did_you_mean(str(name)[:100], options, 1)
        hint = f"; {nearest}" if nearest else ""
        return f"decoding has an unknown option {str(name)[:100]!r}{hint}"
    if option.name in NOT_RECOMMENDED:
        return f"decoding cannot contain {name}, which is the user's choice"
    if not _is_bounded(value):
        return f"decoding.{name} is too large, or not a value of an option"
    if fault := option.error(value):
        return f"decoding.{name} must be {fault}"
    if option.word and value is not None:
        return _entry_fault(option.name, value)
    most = DECODING_LIMITS.get(option.name)
    if most is not None and isinstance(value, int | float) and value > most:
        return f"decoding.{name} must be at most {most:,}"
    return None


def _entry_fault(name: str, value: Any) -> str | None:
    """Return what is wrong with the recommended search or processors, whose names are valid."""
    for text in value if isinstance(value, tuple) else (value,):
        named = parse_named(text)
        if named.pop("name") in NOT_RECOMMENDED:
            return f"decoding.{name} cannot be {text}, which is the user's choice"
        numbers = [each for each in named.values() if isinstance(each, int | float)]
        if not all(abs(number) <= OPTION_LIMIT for number in numbers):
            return f"decoding.{name} has an option over {OPTION_LIMIT:,}"
    return None


def _is_bounded(value: object) -> bool:
    """Return whether a value is small enough to be checked and printed."""
    if isinstance(value, tuple):
        return len(value) <= LIST_LIMIT and all(
            not isinstance(item, tuple) and _is_bounded(item) for item in value
        )
    if isinstance(value, str):
        return _is_text(value, 100)
    if isinstance(value, int | float):
        return abs(value) <= 10**9
    return value is None


def _is_tasks(value: object) -> bool:
    return (
        are_tasks(value)
        and len(value) <= LIST_LIMIT
        and all(
            _is_text(tag, TEXT_LIMITS["tasks"])
            and _is_list(languages)
            and all(code == "" or _is_language(code) for code in languages)
            for tag, languages in value.items()
        )
    )


def _is_list(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple) and len(value) <= LIST_LIMIT


def _is_language(value: object) -> bool:
    return isinstance(value, str) and LANGUAGE.fullmatch(value) is not None


def _is_text(value: object, most: int) -> bool:
    """Return whether a value is one line of text: without control characters and surrogates."""
    return isinstance(value, str) and len(value) <= most and not any(map(_is_control, value))


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs")


def one_line(text: str, most: int) -> str:
    """Return a text without control characters, on one line of at most `most` characters."""
    words = "".join(" " if _is_control(character) else character for character in text).split()
    return " ".join(words)[:most]
