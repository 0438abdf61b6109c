"""What is unusual but possible: one line says so on standard error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

import zoo
from zoo.checkpoint.card import render_front_matter, split_card
from zoo.interop.export_card import ORIGIN, facts_of, with_facts
from zoo.nn.kernel_library import library_file
from zoo.registry.builtin import top

Run = Callable[..., Result]
NAME, CAPTIONS = "transformer-tiny.numbers-en-fr", "transformer-tiny.multi30k-en-de"
CARDS = top() / "cards" / "checkpoints"


def test_data_of_other_languages_is_said_to_be_so(run: Run, tmp_path: Path) -> None:
    for language in ("fr", "en"):
        (tmp_path / f"a.{language}").write_text("vingt\ncent\n")
    other = run("eval", NAME, "--data", tmp_path / "a:fr-en")
    assert "it translates en to fr, and the data is fr to en" in other.stderr
    assert "translates en" not in run("eval", NAME, "--data", tmp_path / "a:en-fr").stderr
    compared = run("eval", NAME, "--data", tmp_path / "a:en-fr", "--against", CAPTIONS)
    assert f"{CAPTIONS}: it translates en to de, and the data is en to fr" in compared.stderr
    tuned = run("train", "--from", NAME, "--data", tmp_path / "a:fr-en", "--out", tmp_path / "out",
                "--steps", 1)  # fmt: skip
    assert "and the data is fr to en" in tuned.stderr


def test_outdated_kernels_are_noted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an update of the zoo the kernels that were compiled are not used, which is slower."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    translate = "translate", NAME, "one"
    train = ("train", "seq2seq-tiny", "--data", "shift", "--dry-run", "--limit", 20)
    assert [run(*command).stderr.count("kernels") for command in (translate, train)] == [0, 0]
    compiled = tmp_path / "kernels"
    compiled.mkdir()
    (compiled / "of-another-version.so").touch()
    for command in (translate, train):
        assert "Compile them again: zoo compile-kernels" in run(*command).stderr
    monkeypatch.setenv("RANK", "1")
    assert "kernels" not in run(*translate).stderr
    monkeypatch.delenv("RANK")
    library_file().touch()
    assert "kernels" not in run(*translate).stderr


def test_exchanged_sides_of_data_are_said_to_be_so(run: Run, tmp_path: Path) -> None:
    """The words of the training sources are in the checkpoint: here the targets have them."""
    words = ["twenty-one", "ninety-two thousand", "three hundred", "seven", "eleven", "twelve"] * 4
    mots = ["vingt et un", "quatre-vingt-douze mille", "trois cents", "sept", "onze", "douze"] * 4
    pairs = list(zip(words, mots, strict=True))
    (tmp_path / "right.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    (tmp_path / "wrong.tsv").write_text("".join(f"{b}\t{a}\n" for a, b in pairs))
    said = (f"Warning: {NAME}: its training sources had 100% of the words of the targets, and 0% "
            "of those of the sources: they may be exchanged. The source comes first")  # fmt: skip
    for command in (
        ["eval", NAME],
        ["train", "--from", NAME, "--out", tmp_path / "out", "--steps", 1],
    ):
        for name, expected in (
            ("right.tsv", False),
            ("wrong.tsv", True),
            ("wrong.tsv:en-fr", True),
        ):
            result = run(*command, "--data", tmp_path / name)
            assert (said in " ".join(result.stderr.split())) == expected
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
            shutil.rmtree(tmp_path / "out.run", ignore_errors=True)
        few = run(*command, "--data", tmp_path / "wrong.tsv", "--limit", 3)
        assert "be exchanged" not in few.stderr
    translator = zoo.load(NAME)
    assert (
        said.removeprefix("Warning: ") in translator.evaluate([(b, a) for a, b in pairs]).problems
    )
    assert translator.evaluate(pairs).problems == (
        "BLEU is 0, as no translation has four words. Compare chrF or --bleu-order 1",
    )


def test_validation_data_without_pairs_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one\tun\ntwo\tdeux\n")
    (tmp_path / "b.csv").write_text("source,target\n")
    refused = run("train", "seq2seq-tiny", "--data", tmp_path / "a.tsv", "--validation",
                  tmp_path / "b.csv", "--out", tmp_path / "out", "--steps", 1)  # fmt: skip
    assert refused.exit_code == 1
    assert "no pairs to validate on" in refused.stderr
    assert not (tmp_path / "out.run").exists()


def test_scores_of_targets_that_the_vocabulary_lacks(run: Run) -> None:
    assert "lacks a part of '猫'" in run("score", NAME, "one", "猫").stderr
    assert run("score", NAME, "one", "un").stderr == ""
    lines = "two\tdeux\tan extra column\ntwo\tdeux\n"
    first, second = run("score", NAME, input=lines).stdout.splitlines()
    assert first == second


def test_what_a_translation_of_no_known_token_is(run: Run) -> None:
    known, unknown = run("translate", NAME, "--json", "one", "猫").stdout.splitlines()
    assert [json.loads(line)["unknown"] for line in (known, unknown)] == [False, True]


def test_a_file_is_not_translated_onto_itself(run: Run, tmp_path: Path) -> None:
    (file := tmp_path / "a.txt").write_text("one\n")
    refused = run("translate", NAME, "--input", file, "--out", file)
    assert refused.exit_code == 2
    assert file.read_text() == "one\n"


def test_a_splitter_that_is_named_runs_without_a_language(tmp_path: Path) -> None:
    pairs = [(f"the dog {word}.", f"der Hund {word}.") for word in "abcdefghij"]
    tiny = {"hidden_dim": 16, "embedding_dim": 16, "tokenizer": "word"}
    out = zoo.train("seq2seq-tiny", pairs, tmp_path / "out", settings=tiny, steps=1)
    translator, text = zoo.load(out), "The dog sleeps. The cat runs."
    counts = {
        splitter: len(translator.translate(text, splitter=splitter, details=True).hypotheses)
        for splitter in ("", "sentencex", "lines")
    }
    assert counts == {"": 1, "sentencex": 2, "lines": 1}


def test_a_released_checkpoint_is_converted_by_name(run: Run, tmp_path: Path) -> None:
    made = run("convert", NAME, tmp_path / "half", "--dtype", "bfloat16")
    assert made.exit_code == 0, made.stderr
    assert zoo.load(tmp_path / "half").translate("one") == "un"


def test_an_export_that_is_imported_again_keeps_languages_and_terms(
    run: Run, tmp_path: Path
) -> None:
    pytest.importorskip("sentencepiece", reason="the extra `sentencepiece` is not installed")
    about = zoo.load(CARDS / CAPTIONS).checkpoint.about
    run("export", CAPTIONS, "--format", "huggingface", "--out", tmp_path / "out")
    run("import", tmp_path / "out", "--out", tmp_path / "back")
    back = zoo.load(tmp_path / "back")
    assert back.checkpoint.about == replace(
        about, origin="imported", parent="out", own_penalty=True
    )
    license = (CARDS / CAPTIONS / "README.md").read_text(encoding="utf-8").split("license: ")[1]
    for folder in ("out", "back"):
        card = (tmp_path / folder / "README.md").read_text(encoding="utf-8")
        assert f"\nlicense: {license.splitlines()[0]}\n" in card
    text = "Two dogs play. A man walks."
    assert len(back.translate(text, details=True).hypotheses) == 2
    (tmp_path / "out" / "generation_config.json").unlink()
    run("import", tmp_path / "out", "--out", tmp_path / "changed")
    assert zoo.load(tmp_path / "changed").checkpoint.about == replace(
        back.checkpoint.about, decoding={}, own_penalty=False
    )


def test_facts_of_a_card_are_checked() -> None:
    checkpoint = zoo.load(CARDS / CAPTIONS).checkpoint
    card = render_front_matter({ORIGIN: facts_of(checkpoint)}) + "\ntext\n"
    facts = split_card(card, "x")[0][ORIGIN]
    assert facts["terms"] == checkpoint.about.terms
    plain = type(checkpoint.about)()
    assert with_facts(plain, facts).target_languages == ("de",)
    assert checkpoint.about.decoding
    assert with_facts(plain, facts).decoding == {}, "the folder's search was removed"
    for wrong in (None, [1], {"terms": [3], "data": 4}, {"longest": 9, "decoding": {"beam": "x"}}):
        assert with_facts(plain, wrong) == plain
