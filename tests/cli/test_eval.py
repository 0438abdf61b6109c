"""`zoo eval`: scores, confidence intervals, significance tests, and the files it writes."""

import json
import math
import shlex
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from sacrebleu.metrics.ter import TER

import zoo
from tests.cli.test_cli import failed
from tests.core.test_checkpoint import TINY
from zoo.checkpoint.scores import command, metrics
from zoo.data.datasets import file_dataset

Run = Callable[..., Result]


def test_all_scores_are_those_of_the_written_translations(
    run: Run, checkpoint: Path, data: str, tmp_path: Path
) -> None:
    from zoo.evaluation.segment_metrics import levenshtein

    out = tmp_path / "out.de"
    options = ("--bleu-order", 2, "--confidence", "--out", out, "--json")
    printed = json.loads(run("eval", checkpoint, "--data", data, *options).stdout)
    lines = Path(data).read_text(encoding="utf-8").splitlines()
    references = [line.split("\t")[1] for line in lines]
    texts = out.read_text(encoding="utf-8").splitlines()
    assert texts == zoo.load(checkpoint).translate([line.split("\t")[0] for line in lines])
    assert printed["ter"] == pytest.approx(TER().corpus_score(texts, [references]).score)
    tokenizer = zoo.load(checkpoint).checkpoint.target_tokenizer
    expected = tokenizer.encode(references)
    # An unknown token never equals an unknown token of the reference.
    written = [[-1 if i == 3 else i for i in ids] for ids in tokenizer.encode(texts)]
    errors = sum(map(levenshtein, written, expected))
    assert printed["token_error_rate"] == pytest.approx(100 * errors / sum(map(len, expected)))
    assert 0 < printed["token_error_rate"] < 100, "the test would prove nothing otherwise"
    names = ("bleu", "bleu_2", "chrf", "ter", "exact_match", "token_error_rate")
    for name in names:
        assert printed[f"{name}_signature"].startswith("nrefs:1|bs:1000|seed:12345|"), name
        assert printed[f"{name}_confidence"] >= 0
        assert abs(printed[f"{name}_mean"] - printed[name]) < 5
    assert "order:2" in printed["bleu_2_signature"]
    # A card holds flat values, and numbers that JSON can represent.
    for value in printed.values():
        assert type(value) in (str, int, float)
        assert not isinstance(value, float) or math.isfinite(value)
    shown = run("eval", checkpoint, "--data", data, "--bleu-order", 2, "--confidence").stdout
    for label in ("BLEU ", "BLEU-2", "chrF", "TER", "exact match", "token error rate"):
        assert f"\n{label}" in shown
    assert f"(μ = {printed['ter_mean']:.2f} ± {printed['ter_confidence']:.2f})" in shown


def test_pairs_with_an_empty_side_are_reported(
    run: Run, checkpoint: Path, data: str, tmp_path: Path
) -> None:
    lines = Path(data).read_text(encoding="utf-8").splitlines()[:3]
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join(lines), encoding="utf-8")
    assert "empty source or reference" not in run("eval", checkpoint, "--data", file).stderr
    for more, text, end in (
        ("\ta\n", "1 pair of 4 has", "counts in the scores. Leave it out"),
        ("\ta\nb\t \n", "2 pairs of 5 have", "count in the scores. Leave them out"),
    ):
        file.write_text("\n".join([*lines, more]), encoding="utf-8")
        done = run("eval", checkpoint, "--data", file)
        warning = f"Warning: {text} an empty source or reference, and {end}\n"
        assert warning in done.stderr, done.stderr


def test_references_of_another_unicode_form_are_reported(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.tsv"
    composed = "ein schöner Hund"
    decomposed = unicodedata.normalize("NFD", composed)
    for target, expected in ((composed, False), (decomposed, True)):
        file.write_text(f"a dog runs\t{target}\na cat\tdie Katze\n", encoding="utf-8")
        done = run("eval", checkpoint, "--data", file)
        warning = "1 of 2 reference has letters in parts (é as e and ´), and no translation has"
        assert (warning in done.stderr) == expected, done.stderr
        if expected:
            assert "BLEU, chrF, TER count them as different. Compose them" in done.stderr
    assert (
        "in parts" not in run("eval", checkpoint, "--data", file, "--metric", "exact_match").stderr
    )


def test_translations_that_white_space_alone_keeps_from_being_exact_are_counted(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.tsv"
    exact = zoo.load(checkpoint).translate("the dog b runs")
    assert exact == "der Hund b rennt"
    note = "would be exact but for white space"
    for target, expected in (
        (exact, False), (f" {exact} ", False), (exact[:-1], False),
        ("der Hund\u00a0b rennt", True), ("der  Hund b\u202frennt", True),
    ):  # fmt: skip
        file.write_text(f"the dog b runs\t{target}\nthe dog c runs\tKatze\n", encoding="utf-8")
        done = run("eval", checkpoint, "--data", file, "--metric", "exact_match")
        assert (f"Warning: 1 of 2 translations {note}" in done.stderr) == expected, target
    assert note not in run("eval", checkpoint, "--data", file, "--metric", "chrf").stderr


def test_given_search_options_are_printed_and_scores_are_one_column(
    run: Run, checkpoint: Path, data: str
) -> None:
    names = ("word_error_rate_without_stress", "bleu")
    chosen = [word for name in names for word in ("--metric", name)]
    command = ("eval", checkpoint, "--data", data, "--limit", 3, *chosen)
    assert "search options" not in run(*command).stdout
    shown = run(*command, "--sample", "--seed", 3, "--against", checkpoint).stdout.splitlines()
    assert shown[1] == "search options: --sample --seed 3"
    scores = [line for line in shown if line.startswith(("word error", "BLEU"))]
    assert len(scores) == 4
    assert len({line.index(".") for line in scores}) == 1


def test_sources_with_several_targets_are_counted(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    file = tmp_path / "pairs.tsv"
    lines = [f"the dog {n} runs\tder Hund {n} rennt\n" for n in "abcdefghi"]
    other = "the dog a runs\tder Hund a läuft\n"
    note = "pairs have the source of another and a different target"
    for added, expected in ((other, "1 of 9"), (lines[0], ""), ("\tx\n\ty\n\tz\n", "")):
        file.write_text("".join(lines[:8]) + added, encoding="utf-8")
        done = run("eval", checkpoint, "--data", file)
        assert (f"Warning: {expected} {note}" in done.stderr) == bool(expected), added
        assert (note in done.stderr) == bool(expected), added
    file.write_text("".join(lines) + other, encoding="utf-8")  # only a tenth
    assert note not in run("eval", checkpoint, "--data", file).stderr
    file.write_text("".join(lines[:4]) + other, encoding="utf-8")
    assert note not in run("eval", checkpoint, "--data", file, "--several-references").stderr


def test_files_that_are_read_are_not_overwritten(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    for side in ("en", "de"):
        (tmp_path / f"pairs.{side}").write_text("a dog runs\n", encoding="utf-8")
    other = tmp_path / "other.de"
    other.write_text("ein Hund\n", encoding="utf-8")
    given = ("eval", checkpoint, "--data", f"{tmp_path}/pairs:en-de", "--against", other)
    for file in (tmp_path / "pairs.de", tmp_path / "pairs.en", other):
        before = file.read_bytes()
        failed(run(*given, "--out", file), f"cannot write the translations to {file}",
               "it is read too, and would be lost", "Name another file")  # fmt: skip
        assert file.read_bytes() == before


def test_sources_with_white_space_that_is_read_are_counted(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("seven \tsept\n three\ttrois\nnine\tneuf\n", encoding="utf-8")
    given = ("eval", "rnnsearch-tiny.numbers-en-fr", "--data", file, "--metric", "exact_match")
    whole = run(*given)
    assert "1 source was read whole, which zoo translate reads by sentences, in parts, or " \
        "otherwise spelled or spaced; --sentences scores that" in whole.stderr  # fmt: skip
    by_sentences = run(*given, "--sentences")
    assert "read whole" not in by_sentences.stderr
    assert "100.00%" in by_sentences.stdout


def test_a_source_prefix_is_part_of_what_is_scored(
    run: Run, checkpoint: Path, data: str, tmp_path: Path
) -> None:
    pairs = [line.split("\t") for line in Path(data).read_text(encoding="utf-8").splitlines()]
    word = pairs[0][0].split()[0]
    prefixed = tmp_path / "prefixed.tsv"
    lines = [f"{word} {source}\t{target}\n" for source, target in pairs]
    prefixed.write_text("".join(lines), encoding="utf-8")
    for_file = json.loads(run("eval", checkpoint, "--data", prefixed, "--json").stdout)
    prefix = ("--source-prefix", f"{word} ")
    by_option = json.loads(run("eval", checkpoint, "--data", data, *prefix, "--json").stdout)
    for name in metrics(for_file):
        assert by_option[name] == for_file[name], name
    assert shlex.join(prefix) in command(by_option, "x")
    shown = [run("translate", checkpoint, *prefix, pairs[0][0]).stdout,
             run("translate", checkpoint, f"{word} {pairs[0][0]}").stdout]  # fmt: skip
    assert shown[0] == shown[1]


def test_a_limit_takes_the_first_of_a_split(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"a {n}\tb {n}\n" for n in range(200)), encoding="utf-8")
    held_out = [pair.source for pair in file_dataset(str(file)).stream("validation")]
    asked = ("eval", checkpoint, "--data", file, "--split", "validation", "--json")
    assert json.loads(run(*asked, "--limit", 3).stdout)["sentences"] == 3
    by_sentences = json.loads(run(*asked, "--limit", 3, "--sentences").stdout)
    assert (by_sentences["sentences"], by_sentences["by_sentences"]) == (3, True)
    assert "--sentences" in command(by_sentences, "x")
    assert json.loads(run(*asked).stdout)["sentences"] == len(held_out) > 3


def test_without_data_a_checkpoint_is_scored_on_that_of_its_scores(
    run: Run, checkpoint: Path
) -> None:
    shown = run("eval", "rnnsearch-tiny.numbers-en-fr", "--limit", 2).stdout
    assert shown.startswith("rnnsearch-tiny.numbers-en-fr on numbers-en-fr, test: 2 sentences\n")
    failed(run("eval", checkpoint), "nothing to score", "repeated.tsv, which is not an installed",
           "Give --data")  # fmt: skip


def test_against_a_file_and_a_checkpoint(
    run: Run, checkpoint: Path, data: str, tmp_path: Path
) -> None:
    settings = TINY["rnnsearch-tiny"]
    worse = zoo.train("rnnsearch-tiny", data, tmp_path / "worse", settings=settings, steps=2)
    arguments = ("eval", checkpoint, "--data", data, "--json", "--against")
    printed = json.loads(run(*arguments, worse).stdout)
    assert printed["against"] == str(worse)
    assert printed["against_token_error_rate"] > printed["token_error_rate"]
    assert printed["token_error_rate_p_value"] < 0.05
    assert printed["chrf_p_value"] < 0.05
    file = tmp_path / "worse.de"
    single = json.loads(run("eval", worse, "--data", data, "--out", file, "--json").stdout)
    again = json.loads(run(*arguments, file).stdout)
    assert {**again, "against": str(worse)} == printed
    assert single["chrf"] == pytest.approx(printed["against_chrf"])
    identical = json.loads(run(*arguments, checkpoint).stdout)
    assert {v for k, v in identical.items() if k.endswith("_p_value")} == {1.0}
    shown = run("eval", checkpoint, "--data", data, "--against", file).stdout
    assert f"against {file}, by paired bootstrap:" in shown
    assert f"p = {printed['chrf_p_value']:.4f}" in shown


def test_metrics_by_name_and_several_references(
    run: Run, checkpoint: Path, data: str, tmp_path: Path
) -> None:
    """The record's command gives the same record."""
    translator = zoo.load(checkpoint)
    sources = [line.split("\t")[0] for line in Path(data).read_text("utf-8").splitlines()[:8]]
    texts = translator.translate(sources)
    file = tmp_path / "several.tsv"
    rows = [f"{source}\tother words" for source in sources]
    rows += [f"{s}\t{t}" for s, t in zip(sources[::2], texts[::2], strict=True)]
    file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    options = ("--several-references", "--metric", "exact_match", "--metric", "word_error_rate")
    printed = json.loads(run("eval", checkpoint, "--data", file, *options, "--json").stdout)
    distinct = list(dict.fromkeys(sources))
    assert printed["sentences"] == len(distinct)
    right = {s for s, t in zip(sources[::2], texts[::2], strict=True)}
    assert printed["exact_match"] == pytest.approx(100 * len(right) / len(distinct))
    assert printed["word_error_rate"] == pytest.approx(100 - printed["exact_match"])
    assert metrics(printed) == ["exact_match", "word_error_rate"]
    words = shlex.split(command(printed, str(checkpoint)))[1:]
    assert json.loads(run(*words, "--json").stdout) == printed
    single = json.loads(run("eval", checkpoint, "--data", file, "--json").stdout)
    assert single["sentences"] == len(rows)
    assert "word_error_rate" not in single
    wrong = run("eval", checkpoint, "--data", file, "--metric", "exact_mach")
    failed(wrong, "unknown metric 'exact_mach'", "did you mean exact_match")


def test_errors_are_one_line(run: Run, checkpoint: Path, data: str, tmp_path: Path) -> None:
    def attempt(*more: object) -> Result:
        return run("eval", checkpoint, "--data", data, *more)

    (tmp_path / "short.de").write_text("a\nb\n")
    failed(attempt("--against", tmp_path / "short.de"), "2 lines for 26 sources", "--out")
    failed(attempt("--against", tmp_path / "none"), "no checkpoint")
    failed(attempt("--out", tmp_path), "it is a folder")
    failed(attempt("--out", tmp_path / "short.de" / "no" / "x"), "short.de is not a folder")
    assert run("eval", checkpoint, "--data", data, "--bleu-order", 5).exit_code == 2
    assert [f.name for f in tmp_path.iterdir()] == ["short.de"]


def test_a_source_that_is_too_long_is_translated_in_parts(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    file = tmp_path / "long.tsv"
    file.write_text("the dog a runs\tder Hund a rennt\n" + "the dog b " * 600 + "\tder Hund b\n")
    result = run("eval", checkpoint, "--data", file, "--json", "--max-length", 9)
    assert result.exit_code == 0, result.output
    warning = "1 source is longer than the model reads, and translated in parts"
    assert warning in result.stderr
    assert json.loads(result.stdout)["sentences"] == 2
    scores = zoo.load(checkpoint).evaluate(str(file), max_length=9)
    assert warning in scores.problems


def test_the_languages_are_those_of_the_data(run: Run, tmp_path: Path) -> None:
    """Where a checkpoint has several: it wrote its default one, whatever the references were."""
    pytest.importorskip("sentencepiece", reason="the extra `sentencepiece` is not installed")
    from tests.interop.test_families import folder_of

    folder_of(tmp_path / "nllb", "nllb")
    texts = ["A dog runs.", "Two men are cooking."]
    (tmp_path / "d.tsv").write_text("".join(f"{text}\tUn chien.\n" for text in texts))
    translator = zoo.load(tmp_path / "nllb")

    def written(languages: str, *options: str) -> list[str]:
        data, out = f"{tmp_path / 'd.tsv'}{languages}", tmp_path / "out.txt"
        given = ("--metric", "chrf", "--max-length", "6", "--no-recommended", *options)
        result = run("eval", str(tmp_path / "nllb"), "--data", data, "--out", str(out), *given)
        assert result.exit_code == 0, result.output
        return out.read_text(encoding="utf-8").splitlines()

    def expected(target: str) -> list[str]:
        chosen = translator.for_languages("en", target)
        return chosen.translate(texts, max_length=6, recommended=False, split=False)

    assert written(":en-fr") == written(":eng_Latn-fr_FR") == expected("fr")
    assert written("") == written(":src-tgt") == expected("de") != expected("fr")
    assert written(":en-fr", "--target-lang", "de") == expected("de")
    french = f"{tmp_path / 'd.tsv'}:en-fr"
    warning = "nllb: it translates eng_Latn to deu_Latn, and the data is en to fr"
    assert warning in " ".join(translator.evaluate(french, max_length=3).problems)
    chosen = translator.for_languages("en", "fr")
    assert warning not in " ".join(chosen.evaluate(french, max_length=3).problems)
    data = f"{tmp_path / 'd.tsv'}:en-is"
    result = run("eval", str(tmp_path / "nllb"), "--data", data)
    failed(result, "no target language 'is'")


def test_lowercase(run: Run, checkpoint: Path, tmp_path: Path, data: str) -> None:
    lines = Path(data).read_text(encoding="utf-8").splitlines()
    upper = tmp_path / "upper.tsv"
    pairs = (line.split("\t") for line in lines)
    upper.write_text("".join(f"{s}\t{t.upper()}\n" for s, t in pairs), encoding="utf-8")
    cased = json.loads(run("eval", checkpoint, "--data", upper, "--json").stdout)
    either = json.loads(run("eval", checkpoint, "--data", upper, "--json", "--lowercase").stdout)
    plain = json.loads(run("eval", checkpoint, "--data", data, "--json", "--lowercase").stdout)
    assert cased["exact_match"] == 0
    for name in ("bleu", "chrf", "ter", "exact_match"):
        assert either[name] == pytest.approx(plain[name])
    assert cased["bleu"] < either["bleu"]


def test_bleu_of_text_without_spaces_is_warned_about(
    run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    file = tmp_path / "zh.tsv"
    for target, warned in (("一只狗在跑。", True), ("ein Hund rennt.", False)):
        file.write_text(f"a dog runs\t{target}\n" * 2, encoding="utf-8")
        output = run("eval", str(checkpoint), "--data", str(file)).stderr
        assert ("Warning: BLEU and TER count words between spaces" in output) == warned
    file.write_text("a dog runs\t一只狗在跑。\n", encoding="utf-8")
    output = run("eval", str(checkpoint), "--data", str(file), "--metric", "chrf").stderr
    assert "between spaces" not in output


def test_bleu_of_translations_of_a_few_words_is_warned_about(
    run: Run, checkpoint: Path, data: str
) -> None:
    for longest in ("4", "30"):
        done = run("eval", checkpoint, "--data", data, "--json", "--max-length", longest)
        assert ("BLEU is 0, as no translation has four words" in done.stderr) == (
            json.loads(done.stdout)["bleu"] == 0
        ), longest


def test_a_table_is_no_file_of_translations(
    run: Run, checkpoint: Path, data: str, tmp_path: Path
) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_bytes(Path(data).read_bytes())
    failed(run("eval", checkpoint, "--data", data, "--against", table), f"{table} is a table",
           "has a tab", f"cut -f 2 {table}")  # fmt: skip


def test_files_have_the_metrics_of_what_a_checkpoint_was_trained_on(
    run: Run, tmp_path: Path
) -> None:
    words = tmp_path / "words.tsv"
    words.write_text("hello\tHH AH0 L OW1\nhello\tHH EH0 L OW1\nroad\tR OW1 D\n", encoding="utf-8")
    given = ("eval", "transformer-tiny.g2p-en", "--data", words, "--several-references")
    shown = run(*given).stdout
    assert "word error rate" in shown
    assert "BLEU" not in shown
    assert "chrF" in run(*given, "--metric", "chrf").stdout
    scores = zoo.load("transformer-tiny.g2p-en").evaluate([("road", "R OW1 D")])
    assert scores.by_name["word_error_rate"].value == 0


@pytest.mark.parametrize(("lines", "parts"), [
    ("src_text\ttgt_text\na dog runs\tein Hund rennt\nthe cat sings\tdie Katze singt\n",
     ["names of columns in its first line, src_text and tgt_text"]),
    ('{"source": "a dog", "target": ["ein Hund", "der Hund"]}\n',
     ["no text under source and target", "an object for each target", "--several-references"]),
])  # fmt: skip
def test_other_shapes_of_data_are_explained(
    lines: str, parts: list[str], run: Run, checkpoint: Path, tmp_path: Path
) -> None:
    file = tmp_path / ("pairs.jsonl" if lines.startswith("{") else "pairs.tsv")
    file.write_text(lines, encoding="utf-8")
    failed(run("eval", checkpoint, "--data", file), *parts)


def test_sources_with_words_that_the_model_has_not_learned_are_counted(
    run: Run, tmp_path: Path
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("two zebras\tdeux zèbres\ntwo\tdeux\n", encoding="utf-8")
    done = run("eval", "transformer-tiny.numbers-en-fr", "--data", f"{pairs}:en-fr")
    assert "1 of 2 sources with words that the model has not learned" in done.stderr
    pairs.write_text("two\tdeux\n", encoding="utf-8")
    done = run("eval", "transformer-tiny.numbers-en-fr", "--data", f"{pairs}:en-fr")
    assert "not learned" not in done.stderr


def test_sources_without_a_tag_of_a_task_are_warned_of(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("A dog.\tEin Hund.\nen-de: A cat.\tEine Katze.\n", encoding="utf-8")
    done = run("eval", "transformer-tiny.tasks", "--data", f"{file}:en-de")
    assert "Warning: all: 1 of 2 sources without a tag of a task" in done.stderr
    assert "Give one by --source-prefix (numbers:, date:, " in done.stderr
    options = ("--limit", 1, "--source-prefix", "en-de: ")
    done = run("eval", "transformer-tiny.tasks", "--data", f"{file}:en-de", *options)
    assert "without a tag" not in done.stderr
