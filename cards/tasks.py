"""The tasks of the released checkpoints: search options, scores, terms, limits, examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

FAMILIES = ("seq2seq-tiny", "rnnsearch-tiny", "convs2s-tiny", "transformer-tiny")

VALIDATION, TEST = ["--split", "validation"], ["--split", "test", "--confidence"]


@dataclass(frozen=True)
class Task:
    """What all checkpoints for a dataset share.

    Attributes:
        example: the source of the attention plot.
        license: the card's metadata about the license.
        terms: what may be done with data and weights.
        limits: what the checkpoints are for, and what they cannot do.
        limits_of: the same for a model that differs.
        headlines: test scores that the catalogue lists.
        families: the models that have a recipe for it.
        scored: options of the runs of `zoo eval`; a test split is scored last. Without `--data`,
            the checkpoints' own dataset is scored.
        search: recommended search options, chosen on validation data.
        parameters: the most parameters of a checkpoint.
        kind: how failures are counted: see `failures.py`.
    """

    example: str
    license: Mapping[str, str]
    terms: str
    limits: str
    headlines: tuple[str, ...]
    parameters: int
    kind: str
    families: tuple[str, ...] = FAMILIES
    scored: tuple[list[str], ...] = (VALIDATION, TEST)
    search: Mapping[str, Any] = field(default_factory=dict)
    limits_of: Mapping[str, str] = field(default_factory=dict)


FREE = {"license": "apache-2.0"}
GENERATED = "The data is generated. The weights are under the license of the project."

CAPTIONS = Task(
    example="Two dogs are playing in the snow.",
    license={"license": "other", "license_name": "multi30k-non-commercial"},
    terms=(
        "The data is for research and education, not for commercial use (Elliott et al. 2016), and "
        "so are weights trained on it. The example sentences are quoted from it."
    ),
    limits=(
        "For one-sentence descriptions of everyday photographs. It has seen no questions, no first "
        "or second person, and hardly any past tense; it translates such text badly. Sentences of "
        "over 20 words are rare in its data."
    ),
    headlines=("bleu", "chrf", "tokenized_bleu"),
    parameters=4_000_000,
    kind="text",
    scored=(VALIDATION, TEST, [*TEST, "--lowercase"]),
    search={"beam": 5, "length_penalty": 1.5},
)

EVERYDAY = Task(
    example="Where did you buy these shoes?",
    license={"license": "cc-by-2.0"},
    terms=(
        "The data is CC-BY 2.0 FR: sentences of Tatoeba (tatoeba.org) by way of manythings.org, in "
        "a list without the names of their authors. The weights may be used for anything, with "
        "that attribution. The example sentences are quoted from it."
    ),
    limits=(
        "For short everyday sentences: no English sentence of its data has over 30 characters or "
        "nine words. It has seen no long sentence and no formal or technical text, and garbles "
        "many names that it has not seen, nearly always those of two words. Few of its sentences "
        "have numbers: it writes another one for most numbers, in digits or in words. Where "
        "English does not decide between “tu” and “vous”, or between masculine and feminine, it "
        "chooses one."
    ),
    headlines=("bleu", "chrf"),
    parameters=12_000_000,
    kind="text",
    search={"beam": 5, "length_penalty": 1.0},
    limits_of={
        "transformer-tiny": (
            "For everyday sentences. No English sentence of its data has over 30 characters or "
            "nine words, but it has also learned statements that were joined to longer ones. It "
            "has seen no formal or technical text, and knows no words but those of its data. By "
            "itself it garbles about one in nine of the names that it has not seen, a fifth of "
            "those of two words, one in ten numbers of two to four digits, the point of decimal "
            "numbers, so that 4.75 becomes 475, and addresses of mail and the web: `zoo translate` "
            "notices most of that, and copies what is garbled. "
            "Where English does not decide between “tu” and “vous”, or between masculine and "
            "feminine, it chooses one."
        )
    },
)

FROM_ENGLISH = {
    "transformer-tiny": (
        "For everyday sentences. No English sentence of its data has over 30 characters or nine "
        "words, but it has also learned statements that were joined to longer ones. It has seen no "
        "formal or technical text, and knows no words but those of its data. By itself it garbles "
        "about one in ten of the names that it has not seen, of one word and of two, one in ten "
        "addresses of mail and the web, and the sign or a digit of one in four amounts of money: "
        "`zoo translate` notices most of that, and copies what is garbled. Where English does not "
        "decide between “tu” and “vous”, or between masculine and feminine, it chooses one."
    )
}
"""What differs for this direction."""

DATES = Task(
    example="Monday, the 3rd of May 2021",
    license=FREE,
    terms=GENERATED,
    limits=(
        "For one date at a time, with a day, a month in letters and a year from 1600 to 2199, in "
        "the twenty formats of its data. A weekday is read over, not checked. Dates of digits "
        "alone, such as 3/5/2021, are not in its data, since they are ambiguous. Nothing is "
        "checked: a date that does not exist, or is incomplete, gives another one or no date."
    ),
    headlines=("exact_match",),
    parameters=600_000,
    kind="date",
)

PARTS = (
    ("numbers-en-fr", "numbers"), ("dates-iso", "date"), ("g2p-en", "phones"),
    ("tatoeba-en-fr-76k", "en-fr"), ("tatoeba-fr-en-76k", "fr-en"), ("multi30k-en-fr", "en-fr"),
    ("multi30k-en-de", "en-de"), ("multi30k-de-en", "de-en"),
)  # fmt: skip
"""The datasets that `tasks` joins, and the tags of their sources."""


def _of_part(data: str, tag: str) -> list[str]:
    return [*TEST, "--data", data, "--source-prefix", f"{tag}: "]


TASKS = {
    "tatoeba-en-fr-76k": replace(EVERYDAY, limits_of=FROM_ENGLISH),
    "tatoeba-fr-en-76k": replace(EVERYDAY, example="Où as-tu acheté ces chaussures ?"),
    "multi30k-en-de": CAPTIONS,
    "multi30k-de-en": replace(CAPTIONS, example="Zwei Hunde spielen im Schnee."),
    "multi30k-en-fr": CAPTIONS,
    "g2p-en": Task(
        example="mispronunciation",
        license=FREE,
        terms=(
            "The CMU Pronouncing Dictionary is free for any use; its license asks to acknowledge "
            "its origin, Carnegie Mellon University. The weights are under the license of the "
            "project. The example words are quoted from it."
        ),
        limits=(
            "For single English words in lowercase letters, in the American pronunciation of the "
            "dictionary. It does not see a word's context, so it cannot choose between the verb "
            "and the noun “record”. Names of other languages and abbreviations that are spelled "
            "out are what it gets wrong most."
        ),
        headlines=(
            "word_error_rate",
            "phone_error_rate",
            "word_error_rate_without_stress",
            "phone_error_rate_without_stress",
        ),
        parameters=2_000_000,
        kind="phones",
    ),
    "numbers-en-fr": Task(
        example="four hundred and ninety-two thousand, six hundred and five",
        license=FREE,
        terms=GENERATED,
        limits=(
            "For whole numbers below a million in lowercase words, as num2words writes them, "
            "without commas, or without commas and “and”."
        ),
        headlines=("exact_match",),
        parameters=500_000,
        kind="number",
        scored=(TEST,),
    ),
    "dates-en-iso": DATES,
    "dates-iso": replace(
        DATES,
        example="lundi 3 mai 2021",
        terms=(
            "The data is generated from the Unicode locale data, which is under the Unicode "
            "License v3. The weights are under the license of the project."
        ),
        limits=(
            "For one date at a time, with a year from 1600 to 2199, as the Unicode locale data "
            "writes dates of medium, long and full width in 62 languages, with digits 0 to 9. A "
            "weekday is read over, not checked. It has not seen dates of digits alone, which are "
            "short ones, and those of medium width in Arabic, Bulgarian, Czech, Finnish, German, "
            "Macedonian, Serbian and Slovak, unless they begin with the year, nor forms that "
            "people write besides, such as “1er mai”. Nothing is checked: a date that "
            "does not exist gives another one or no date."
        ),
    ),
    "tasks": Task(
        example="en-fr: Where did you buy these shoes?",
        license=CAPTIONS.license,
        terms=(
            "A part of the data, the captions of Multi30k, is for research and education, not for "
            "commercial use (Elliott et al. 2016), and so are weights trained on it. The example "
            "sentences are quoted from it and from Tatoeba (CC-BY 2.0 FR)."
        ),
        limits=(
            "It shows what one network learns of seven tasks; those of one task are better. "
            "Each source begins with the tag of its task and a space: `numbers:`, `date:`, "
            "`phones:`, `en-fr:`, `fr-en:`, `en-de:` or `de-en:`. Without a tag it guesses. It has "
            "the limits of each task's own checkpoints, and does not know their greetings, nor "
            "numbers without commas or hyphens."
        ),
        headlines=("chrf", "exact_match"),
        parameters=12_000_000,
        kind="text",
        families=("transformer-tiny",),
        scored=(VALIDATION, *(_of_part(*part) for part in PARTS), TEST),
        search={"beam": 5, "length_penalty": 1.0},
    ),
}
"""By the name of the dataset, in the order of the catalogue."""
