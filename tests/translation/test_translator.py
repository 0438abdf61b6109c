"""`Translator`, `zoo translate` and `zoo score`: batches, ensembles, long texts, files."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import zoo
from tests.cli.conftest import LEARNING, train
from tests.conftest import Once
from tests.core.test_training import PLAIN, SMALL
from zoo.cli import cli
from zoo.errors import DecodingError
from zoo.translation.long_texts import split_long
from zoo.translation.translation import word_indices

Run = Callable[..., Result]
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
def folders(once: Once, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two checkpoints of different families with one target vocabulary."""
    folder = once("cli", train)
    other = {**PLAIN, "dim": 32, "feedforward_dim": 64, "encoder_layers": 1, "decoder_layers": 1,
             "tokenizer": SMALL["tokenizer"], "batch_tokens": SMALL["batch_tokens"]}  # fmt: skip
    two = zoo.train("transformer-tiny", str(folder / "repeated.tsv"),
                    tmp_path_factory.mktemp("translator") / "two",
                    settings={**other, **LEARNING}, steps=150)  # fmt: skip
    return folder / "out", two


@pytest.fixture(scope="session")
def loaded(folders: tuple[Path, Path]) -> zoo.Translator:
    return zoo.load(folders[0])


def assert_failed(result: Result, *expected: str) -> None:
    """The command failed with a one-line error that contains these parts, without a traceback."""
    assert result.exit_code == 1, result.output
    lines = [line for line in result.stderr.splitlines() if not line.startswith("Warning: ")]
    assert len(lines) == 1, result.stderr
    for part in expected:
        assert part in lines[0]


def test_a_translation_with_scores_alternatives_and_alignment(loaded: zoo.Translator) -> None:
    text = "the dog b runs"
    assert loaded.translate([text, "", text]) == [
        loaded.translate(text),
        "",
        loaded.translate(text),
    ]
    assert re.fullmatch("der Hund [a-z] rennt", loaded.translate(text, beam=3))
    best = loaded.translate(text, beam=4, n_best=3, alignment=True, details=True)
    assert best.text == "".join(best.tokens).replace("▁", " ").strip()
    assert len(best.alternatives) == 2
    scores = [best.score, *(other.score for other in best.alternatives)]
    assert scores == sorted(scores, reverse=True)
    assert len({best.text, *(other.text for other in best.alternatives)}) == 3
    assert best.finished
    assert best.alignment is not None
    for source, target in best.alignment:
        assert 0 <= source < 4
        assert 0 <= target < 4
    assert loaded.translate(text, details=True).alignment is None


def test_scores_of_targets_equal_those_of_the_search(loaded: zoo.Translator) -> None:
    texts = ["the dog b runs", "the dog a runs"]
    translations = loaded.translate(texts, details=True)
    scores = loaded.score(texts, [translation.text for translation in translations])
    for translation, tokens in zip(translations, scores, strict=True):
        assert sum(tokens) == pytest.approx(translation.score, abs=1e-4)
        assert len(tokens) == len(translation.tokens) + 1


def test_every_translation_begins_with_its_prefix(loaded: zoo.Translator) -> None:
    best = loaded.translate("the dog b runs", prefix="der Hund z", beam=3, n_best=3, details=True)
    for translation in (best, *best.alternatives):
        assert translation.text.startswith("der Hund z")
    with pytest.raises(DecodingError, match="a part of it is not in the target vocabulary"):
        loaded.translate("the dog b runs", prefix="狗")


def test_a_source_prefix_is_read_before_every_text_and_sentence(loaded: zoo.Translator) -> None:
    texts = ["dog b runs", "dog c runs"]
    whole = loaded.translate([f"the {text}" for text in texts], details=True)
    prefixed = loaded.translate(texts, source_prefix="the ", details=True)
    assert [each.text for each in prefixed] == [each.text for each in whole]
    assert [each.score for each in prefixed] == [each.score for each in whole]
    without = loaded.translate(texts, details=True)
    assert [each.score for each in without] != [each.score for each in whole]
    lines = loaded.translate("\n".join(texts), source_prefix="the ", splitter="lines")
    assert lines == "\n".join(each.text for each in whole)


def test_an_ensemble_of_two_families(folders: tuple[Path, Path]) -> None:
    together = zoo.load(*folders)
    texts = ["the dog b runs", "the dog c runs"]
    assert together.translate(texts, beam=3) == [together.translate(text, beam=3) for text in texts]
    with pytest.raises(DecodingError, match="an ensemble has no attention"):
        together.translate(texts, beam=2, coverage_penalty=0.2)
    with pytest.raises(DecodingError, match="name one checkpoint"):
        together.score(texts, texts)


def test_members_of_an_ensemble_need_equal_target_vocabularies(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "b.tsv").write_text("one\teins\ntwo\tzwei\n")
    other = zoo.train("rnnsearch-tiny", str(tmp_path / "b.tsv"), tmp_path / "o", settings=SMALL,
                      steps=1)  # fmt: skip
    with pytest.raises(DecodingError, match="cannot form an ensemble") as error:
        zoo.load(folders[0], other)
    assert f"{folders[0].name} and {other.name} have different" in str(error.value)


def test_an_unknown_precision_is_refused(loaded: zoo.Translator) -> None:
    with pytest.raises(DecodingError, match=r"no precision 'int4': it is float32, bf16, int8"):
        zoo.Translator(loaded.checkpoint, precision="int4")  # type: ignore[arg-type]  # the error


def test_long_texts_are_split_or_refused(loaded: zoo.Translator) -> None:
    long = " ".join(f"the dog {n} runs" for n in "abcdefgh")
    with pytest.raises(DecodingError, match=r"text 2 is too long: .* max_source_length is 12"):
        loaded.translate(["the dog b runs", long], max_source_length=12)
    translation = loaded.translate(
        long, max_source_length=12, long_texts="split", alignment=True, details=True
    )
    assert len(translation.hypotheses) > 1
    assert translation.source == long
    assert translation.alignment is not None
    assert translation.alignment == tuple(sorted(translation.alignment))
    with pytest.raises(DecodingError, match="too long"):
        loaded.translate("the dog " * 50_000)
    with pytest.raises(DecodingError, match="max_source_length is 1, not a whole number from 2 on"):
        loaded.translate(long, max_source_length=1, long_texts="split")
    with pytest.raises(DecodingError, match="the source prefix leaves no room for text: it has"):
        loaded.translate(long, source_prefix="a b c d e ", max_source_length=6, long_texts="split")


def test_splitting_keeps_all_text() -> None:
    text = "One two three. Four, five six; seven eight nine ten! Eleventwelvethirteen x"

    def count(parts: Sequence[str]) -> list[int]:
        return [len(part.split()) + part.count("e") for part in parts]

    def words(parts: Sequence[str]) -> list[int]:
        return [len(part.split()) for part in parts]

    for max_tokens in (2, 3, 5, 8, 100):
        parts = split_long(text, max_tokens, count)
        assert "".join(part.space + part.text for part in parts) == text
        assert all(tokens <= max_tokens for tokens in count([part.text for part in parts]))
    assert split_long(text, 100, count) == [("", text)]
    assert split_long("A b. C d.", 2, words) == [("", "A b."), (" ", "C d.")]


def test_chinese_is_split_at_its_punctuation_not_inside_a_word() -> None:
    text = "一只狗在走，它很大。一只猫在睡觉！"
    characters = [part.text for part in split_long(text, 11, lambda parts: list(map(len, parts)))]
    assert characters == ["一只狗在走，它很大。", "一只猫在睡觉！"]
    characters = [part.text for part in split_long(text, 7, lambda parts: list(map(len, parts)))]
    assert characters == ["一只狗在走，", "它很大。", "一只猫在睡觉！"]


@pytest.mark.parametrize("text", ["." * 200_000, "ab " * 70_000, "a, b. " * 30_000, "。" * 99_999])
def test_the_work_of_splitting_grows_with_the_text_not_with_its_square(text: str) -> None:
    counted = 0

    def count(parts: Sequence[str]) -> list[int]:
        nonlocal counted
        counted += sum(map(len, parts))
        return [len(part) - part.count(" ") for part in parts]

    parts = split_long(text, 100, count)
    assert "".join(part.space + part.text for part in parts) == text.strip()
    assert counted <= 4 * len(text)


def test_words_are_separated_by_white_space() -> None:
    assert word_indices(["▁a", "bc", "▁", "d", "▁▁e", "▁"]) == [0, 0, None, 1, 2, None]


def test_translations_do_not_depend_on_the_window(loaded: zoo.Translator) -> None:
    texts = [f"the dog {n} runs" for n in "abcdefghij"]
    options: dict[str, Any] = {"sample": True, "n_best": 2, "seed": 5}
    whole = [t.text for t in loaded.stream(iter(texts), **options)]
    assert [t.text for t in loaded.stream(iter(texts), window=3, **options)] == whole


def test_translate_reads_and_writes_files(
    run: Run, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("the dog b runs\n\nthe dog c runs\n")
    out = tmp_path / "out"
    done = run("translate", folders[0], "--input", tmp_path / "in", "--out", out, "--beam", 2)
    assert done.exit_code == 0, done.output
    texts = zoo.load(folders[0]).translate(["the dog b runs", "", "the dog c runs"], beam=2)
    assert out.read_text() == "".join(f"{text}\n" for text in texts)
    several = run("translate", folders[0], "the dog b runs", "--beam", 3, "--n-best", 2,
                  "--alignment").stdout.splitlines()  # fmt: skip
    assert len(several) == 2
    assert re.fullmatch(r"-?\d+\.\d{4}\tder Hund [a-z] rennt\t\d-\d( \d-\d)*", several[0])
    (record,) = run("translate", folders[0], "the dog b runs", "--json", "--alignment", "--beam", 2,
                    "--n-best", 2).stdout.splitlines()  # fmt: skip
    printed = json.loads(record)
    assert {"text", "score", "finished", "tokens", "alignment", "alternatives"} <= set(printed)
    (score,) = run("score", folders[0], "the dog b runs", printed["text"]).stdout.splitlines()
    assert float(score) == pytest.approx(printed["score"], abs=1e-3)
    piped = run("score", folders[0], input=f"the dog b runs\t{printed['text']}\n").stdout
    assert piped.strip() == score


def test_white_space_that_is_scored_is_warned_of(run: Run) -> None:
    given = ("score", "rnnsearch-tiny.numbers-en-fr")
    for source, target, spaced in (
        ("seven", "sept ", "'sept '"), ("seven ", "sept", "'seven '"), (" seven", " sept", ""),
    ):  # fmt: skip
        done = run(*given, source, target)
        warning = f"Warning: {spaced} is scored with the white space around it; leave it out\n"
        assert done.stderr == (warning if spaced else "")
        assert run(*given, input=f"{source}\t{target}\n").stderr == done.stderr


def test_no_file_is_written_if_a_line_is_invalid(
    run: Run, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(b"the dog b runs\nthe \0 dog\n")
    result = run("translate", folders[0], "--input", tmp_path / "in", "--out", tmp_path / "out")
    assert_failed(result, "line 2, has a NUL byte", "Convert it to UTF-8")
    assert [file.name for file in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--beam", 2, "--n-best", 3), "`--n-best 3` needs a beam of at least 3"),
        (("--beam", 0), "`--beam` must be an integer of at least 1 and at most 10,000, not 0"),
        (("--sample", "--temperature", -1), "above 0 and at most 1,000,000, not -1.0"),
        (("--exhaustive",), "targets to rank"),
        (("--max-source-length", 3), "max_source_length is 3"),
    ],
)
def test_invalid_options_give_one_clear_line(
    run: Run, folders: tuple[Path, Path], options: tuple[object, ...], expected: str
) -> None:
    assert_failed(run("translate", folders[0], "the dog b runs", *options), expected)


def test_coverage_and_alignment_need_attention(run: Run, tmp_path: Path) -> None:
    (tmp_path / "b.tsv").write_text("one\teins\ntwo\tzwei\n")
    settings = {"embedding_dim": 8, "hidden_dim": 8, "tokenizer": "word", "batch_tokens": 50}
    made = zoo.train("seq2seq-tiny", str(tmp_path / "b.tsv"), tmp_path / "o", settings=settings,
                     steps=1)  # fmt: skip
    for option in (("--coverage-penalty", 0.2, "--beam", 2), ("--alignment",)):
        assert_failed(run("translate", made, "one", *option), "no attention from target to source")


def test_a_text_in_another_script_gives_a_warning(run: Run, folders: tuple[Path, Path]) -> None:
    done = run("translate", folders[0], "the dog b runs", "狗", "跑")
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        "Warning: text 2 has no token of the model's vocabulary (is it in another script?); its "
        "translation is meaningless",
        "Warning: 2 texts in all have no token of the model's vocabulary",
    ]


@pytest.mark.parametrize("page", ["decoding", "evaluating"])
def test_the_commands_of_a_page_have_valid_options(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    shown = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines = [line for line in shown if line.startswith("zoo ")]
    assert lines
    for line in lines:
        name, *arguments = shlex.split(line, comments=True)[1:]
        command = cli.commands[name]
        command.make_context(name, [a for a in arguments if a != "|"], resilient_parsing=False)


def test_the_python_code_of_the_decoding_page_runs(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "decoding.md").read_text(), re.DOTALL)
    exec(compile(code.replace('"runs/captions"', repr(str(folders[0]))), "decoding.md", "exec"), {})
