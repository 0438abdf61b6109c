"""Warnings about what makes runs fail, the summary of a run, and how Python shows progress."""

import itertools
import json
import math
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

import zoo
from tests.training.test_auto import TINY, tsv
from zoo.data.batches import Sequences
from zoo.nn.contract import BEGIN, END
from zoo.registry.recipe import Recipe
from zoo.training import progress
from zoo.training.advice import (
    early_warnings,
    late_warnings,
    loss_of_guessing,
    of_rising_loss,
    planned_updates,
    rare_tokens,
    rising,
)
from zoo.training.held_out import HeldOutScores
from zoo.training.request import TrainingRequest
from zoo.training.session import begin
from zoo.training.summary import from_here, of_held_out, summarize


def warnings_of(tmp_path: Path, data: str, **settings: object) -> list[str]:
    """The warnings before a run."""
    out = tmp_path / f"w{len(list(tmp_path.iterdir()))}"
    request = TrainingRequest("rnnsearch-tiny", data, out,
                              settings={**TINY, **settings}, steps=600)  # fmt: skip
    with begin(request) as session:
        trainer = session.trainer
        return early_warnings(trainer.plan, trainer.data, len(trainer.batches))


@pytest.mark.parametrize("slow", [True, False])
def test_bf16_without_fast_instructions_for_it(
    slow: bool, tmp_path: Path, parallel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.training.advice.is_slow_in_bf16", lambda: slow)
    for precision in ("bf16", "float32"):
        texts = warnings_of(tmp_path, f"{parallel}:en-de", **{"recipe.precision": precision})
        has_warned = any("no fast instructions for bf16" in text for text in texts)
        assert has_warned is (slow and precision == "bf16")


def test_an_update_of_more_batches_than_an_epoch_has(tmp_path: Path, parallel: Path) -> None:
    def warned(batches: int) -> list[str]:
        settings = {"recipe.batch_sentences": 8, "recipe.accumulate": batches}
        texts = warnings_of(tmp_path, f"{parallel}:en-de", **settings)
        return [text for text in texts if "(accumulate)" in text]

    assert warned(2) == []
    (warning,) = warned(1000)
    assert warning.startswith("an update has 1,000 batches (accumulate), and an epoch only ")


def test_the_loss_of_guessing_matches_its_definition() -> None:
    targets = [[BEGIN, 5, 5, 6, END], [BEGIN, 7, END]]
    counts = Counter(token for target in targets for token in target[1:])
    total = counts.total()
    expected = -sum(n / total * math.log(n / total) for n in counts.values())
    assert loss_of_guessing(Sequences.of(targets), 9) == pytest.approx(expected)
    smoothed = [0.2 / 9 + 0.8 * counts[token] / total for token in range(9)]
    expected = -sum(p * math.log(p) for p in smoothed)
    assert loss_of_guessing(Sequences.of(targets), 9, 0.2) == pytest.approx(expected)


def test_rare_tokens_are_counted() -> None:
    sequences = Sequences.of([[4] * 5, [5] * 4, [BEGIN, END]])
    assert rare_tokens(sequences, 7) == 2  # 5, which occurs four times, and 6, which never does


def test_planned_updates_count_accumulated_batches() -> None:
    assert planned_updates(Recipe(epochs=3, accumulate=4), 9) == 9
    assert planned_updates(Recipe(epochs=3, steps=5), 9) == 5
    assert planned_updates(Recipe(minutes=1.0), 9) is None


@pytest.mark.parametrize(
    ("losses", "expected"),
    [([3.0, 3.1, 3.2, 3.3], True), ([2.0, 3.0, 3.1, 3.2, 3.3], False),
     ([3.0, 3.1, 3.0, 3.2], False), ([3.0, 3.1, 3.2], False),
     ([3.0, 3.001, 3.002, 3.003], False), ([3.0, 3.02, 3.04, 3.05, 3.06], True),
     ([3.0, 3.02, 3.04, 3.05], False), ([3.0, 3.05, 3.04, 3.06], True)],
)  # fmt: skip
def test_a_rising_loss_is_noticed_once(losses: list[float], expected: bool) -> None:
    assert rising(losses) == expected
    assert not rising([*losses, losses[-1] + 0.1]) or not expected


def test_a_run_that_ends_in_its_warm_up_is_warned_about(parallel: Path, tmp_path: Path) -> None:
    data = f"{parallel}:en-de"
    (warning,) = [
        w for w in warnings_of(tmp_path, data, schedule="cosine", warmup=4000) if "warm-up" in w
    ]
    assert "600 updates" in warning
    assert "4,000" in warning
    assert not [w for w in warnings_of(tmp_path, data) if "warm-up" in w]


def test_a_vocabulary_that_the_text_does_not_support_is_warned_about(tmp_path: Path) -> None:
    pairs = [(f"dog{n} runs", f"Hund{n} rennt") for n in range(200)]
    data = tsv(tmp_path / "c.tsv", pairs)
    words = {"tokenizer": "word", "shared_vocab": False, "share": "none", "vocab_size": 8000}
    texts = [w for w in warnings_of(tmp_path, data, **words) if "larger than the text" in w]
    assert len(texts) == 2
    assert not [w for w in warnings_of(tmp_path, data) if "larger than the text" in w]


def test_text_that_the_vocabulary_lacks_is_warned_about(tmp_path: Path) -> None:
    paragraph = "".join(map(chr, range(0x4E00, 0x4E00 + 400)))
    data = tsv(tmp_path / "c.tsv", [(paragraph, f"Hund {n}") for n in range(50)])
    texts = [w for w in warnings_of(tmp_path, data, max_length=500) if "unknown" in w]
    assert len(texts) == 1
    assert texts[0].startswith("50% of the source's tokens are unknown")
    spaced = tsv(tmp_path / "d.tsv", [("a dog", "ein Hund")] * 50)
    assert not [w for w in warnings_of(tmp_path, spaced) if "unknown" in w]


def test_few_or_equal_pairs_are_warned_about(tmp_path: Path) -> None:
    data = tsv(tmp_path / "c.tsv", [("a dog runs.", "ein Hund rennt.")] * 50)
    texts = " ".join(warnings_of(tmp_path, data))
    assert "50 pairs are few" in texts
    assert "all the same text" in texts


def test_targets_that_are_their_sources_are_warned_about(parallel: Path, tmp_path: Path) -> None:
    texts = " ".join(warnings_of(tmp_path, f"{parallel}:en-en"))
    assert "targets are copies of their sources: the model will learn to copy" in texts
    other = tsv(tmp_path / "c.tsv", [("a dog", "a dog"), ("a cat", "eine Katze")] * 20)
    assert "copies" not in " ".join(warnings_of(tmp_path, other))


def test_damaged_characters_are_warned_about(tmp_path: Path) -> None:
    good = [(f"a bear {n}", f"ein Bär {n}, «größer»") for n in range(30)]
    assert "encoding" not in " ".join(warnings_of(tmp_path, tsv(tmp_path / "a.tsv", good)))
    twice = [(a, b.encode().decode("cp1252", "replace")) for a, b in good]
    texts = " ".join(warnings_of(tmp_path, tsv(tmp_path / "b.tsv", twice)))
    assert "30 of the first 30 pairs have UTF-8 that was read as another encoding" in texts
    assert "such as 'BÃ¤r' for 'Bär'" in texts
    lost = [(a, b.encode("cp1252").decode("utf-8", "replace")) for a, b in good]
    texts = " ".join(warnings_of(tmp_path, tsv(tmp_path / "c.tsv", lost)))
    assert "30 of the first 30 pairs have the character \ufffd" in texts
    some = tsv(tmp_path / "d.tsv", [*good, *lost[:3], *twice[:3]])
    assert " of the first 36 pairs have" not in " ".join(warnings_of(tmp_path, some))


def test_lines_that_are_no_pairs_are_warned_about(tmp_path: Path) -> None:
    lengths = [n * 7 % 13 + 2 for n in range(1500)]
    pairs = [(" ".join(["dog"] * n), " ".join(["Hund"] * (n + n % 3))) for n in lengths]

    def warned(some: list[tuple[str, str]], languages: str = ":en-de") -> str:
        file = tmp_path / "c.tsv"
        texts = warnings_of(tmp_path, f"{tsv(file, some)}{languages}")
        return " ".join(text for text in texts if "no pair" in text)

    def shifted(some: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(a, b) for (a, _), (_, b) in itertools.pairwise(some)]

    assert not warned(pairs)
    assert "in the pairs 1 to 1,000, and in 1 further thousand: a source" in warned(shifted(pairs))
    late = pairs[:1000] + shifted(pairs[1000:])
    assert "in the pairs 1,001 to 1,499: a source" in warned(late)
    assert not warned(shifted(pairs), languages=""), "perhaps no translations"
    assert not warned(shifted(pairs[:200])), "too few"
    alike = [(f"a dog runs {a[:3]}", f"ein Hund rennt {b[:4]}") for a, b in shifted(pairs)]
    assert not warned(alike), "all of one length"


def test_quotes_of_a_spreadsheet_are_warned_about(tmp_path: Path) -> None:
    """Excel puts cells of a tab-separated file in quotes if they have a comma or a quote."""
    cells = [("a dog", "ein Hund"), ('"a cat, a dog"', '"eine Katze, ein Hund"')] * 20
    texts = " ".join(warnings_of(tmp_path, tsv(tmp_path / "c.tsv", cells)))
    assert "40 texts are in quotes, all that have a comma or a quote, as spreadsheets" in texts
    for row in (("a cat, a dog", "eine Katze"), ('"A dog", he said', "„Ein Hund“, sagte er")):
        data = tsv(tmp_path / "d.tsv", [*cells, row])
        assert "in quotes" not in " ".join(warnings_of(tmp_path, data))


def test_validation_on_what_was_trained_on_is_told(parallel: Path, tmp_path: Path) -> None:
    def texts(validation: str, out: str) -> str:
        request = TrainingRequest("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / out,
                                  validation=validation, settings=TINY, steps=600)  # fmt: skip
        with begin(request) as session:
            trainer = session.trainer
            return " ".join(early_warnings(trainer.plan, trainer.data, len(trainer.batches)))

    assert "60 of 60 validation sources are also in the training data" in texts(
        f"{parallel}:en-de", "a"
    )
    other = tsv(tmp_path / "other.tsv", [(f"a cat runs {n}", "x") for n in range(20)])
    assert "validation sources" not in texts(other, "b")


def test_advice_on_a_tuned_run_is_what_tuning_allows(parallel: Path, tmp_path: Path) -> None:
    parent = zoo.train(
        "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=TINY, steps=2
    )
    pairs = [(chr(0x4E00 + n) * 3, chr(0x621 + n % 20) * (1 + n // 20)) for n in range(120)]
    data = tsv(tmp_path / "c.tsv", pairs)
    with begin(TrainingRequest("", data, tmp_path / "b", from_=parent, steps=600)) as session:
        trainer = session.trainer
        texts = " ".join(early_warnings(trainer.plan, trainer.data, len(trainer.batches)))
    assert texts.count("Learn another vocabulary with --new-vocabulary both") == 2
    for wrong in ("vocab_size", "tokenizer =", "same text", "fine-tune", "larger than"):
        assert wrong not in texts


def test_a_run_that_learned_nothing_is_told(parallel: Path, tmp_path: Path) -> None:
    request = TrainingRequest("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a",
                              settings={**TINY, "learning_rate": 1e-9}, steps=5)  # fmt: skip
    with begin(request) as session:
        session.run()
        texts = " ".join(summarize(session).warnings)
    assert "not below that of guessing" in texts


def test_a_smoothed_loss_is_not_compared_with_that_of_guessing_without(
    parallel: Path, tmp_path: Path
) -> None:
    """Without validation pairs, a run that knew all targets was said to have learned nothing."""
    request = TrainingRequest("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a",
                              settings={**TINY, "label_smoothing": 0.3}, steps=600)  # fmt: skip
    with begin(request) as session:
        plan, data = session.trainer.plan, session.trainer.data
    size, targets = data.target_tokenizer.size, data.corpus.target
    plain, smoothed = (loss_of_guessing(targets, size, part) for part in (0.0, 0.3))
    assert plain < 0.9 * smoothed

    def texts(record: str, loss: float, **changes: object) -> str:
        changed = replace(plan, recipe=plan.recipe.model_copy(update=changes))
        return " ".join(late_warnings(changed, data, 1000, [{"step": 1, record: loss}]))

    assert "below that of guessing" not in texts("loss", plain)
    assert "hardly below that of guessing" in texts("loss", 0.99 * smoothed)
    assert "not below that of guessing" in texts("validation_loss", plain)
    for parts in ({"r_drop": 5.0}, {"objective": ["cross_entropy", "minimum_risk"]}):
        assert not texts("loss", smoothed, **parts)  # of which that is no measure


def test_a_run_of_little_time_is_told(parallel: Path, tmp_path: Path) -> None:
    request = TrainingRequest("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a",
                              settings=TINY, minutes=0.01)  # fmt: skip
    with begin(request) as session:
        session.run()
        assert any("give the run more time" in text for text in summarize(session).warnings)


def test_a_run_whose_rate_is_far_too_high_does_not_overfit(parallel: Path, tmp_path: Path) -> None:
    """Of a loss of 571 it was said that the model overfits, and more dropout was advised."""
    request = TrainingRequest("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a",
                              settings={**TINY, "learning_rate": 50.0}, steps=5)  # fmt: skip
    with begin(request) as session:
        plan, data = session.trainer.plan, session.trainer.data
    losses = [571.0, 800.0, 900.0, 1331.0]
    metrics = [{"step": n, "validation_loss": loss} for n, loss in enumerate(losses)]
    (warning,) = late_warnings(plan, data, 1000, metrics)
    assert "learned nothing from the sources. Try a lower --set learning_rate than 50" in warning
    assert of_rising_loss(losses, data).endswith("571.000: the learning rate may be too high")
    assert of_rising_loss([0.5, 0.9], data).endswith("from 0.500: the model overfits")


def test_an_overfitted_run_is_told(parallel: Path, tmp_path: Path) -> None:
    settings = {**TINY, "select": "last"}
    request = TrainingRequest(
        "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a", settings=settings, steps=5
    )
    with begin(request) as session:
        plan, data = session.trainer.plan, session.trainer.data
        metrics = [{"step": n, "validation_loss": loss} for n, loss in enumerate((2.0, 0.5, 0.9))]
        texts = late_warnings(plan, data, 1000, metrics)
        assert any("rose from 0.50 to 0.90" in warning for warning in texts)
        assert not late_warnings(plan, data, 1000, metrics[:2])
        assert early_warnings(plan, data, 10)


def test_zoo_train_prints_choices_scores_and_commands_that_work(
    parallel: Path, tmp_path: Path, run: Callable[..., Result]
) -> None:
    settings = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
    out = tmp_path / "a"
    done = run("train", "rnnsearch-tiny", "--data", f"{parallel}:en-de", "--out", out,
               "--minutes", "0.05", *settings)  # fmt: skip
    assert done.exit_code == 0, done.output
    chosen = re.findall(r"^auto: .*", done.output, re.MULTILINE)
    assert 3 <= len(chosen) <= 5
    assert re.search(
        r"^Held-out text, 3 pairs: BLEU [\d.]+, chrF [\d.]+, exact match [\d.]+% \(greedy\), loss ",
        done.output,
        re.MULTILINE,
    )
    commands = re.findall(r"^  zoo (.*)", done.output.partition("Next:")[2], re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["translate", "eval", "serve"]
    for command in commands[:2]:
        again = run(*shlex.split(command))
        assert again.exit_code == 0, again.output


def test_a_turn_of_a_dialogue_is_a_text_to_translate_and_no_option(
    parallel: Path, tmp_path: Path, run: Callable[..., Result]
) -> None:
    source = parallel.with_suffix(".en")
    source.write_text("".join(f"-{line}\n" for line in source.read_text().splitlines()))
    settings = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
    out = tmp_path / "a"
    done = run("train", "rnnsearch-tiny", "--data", f"{parallel}:en-de", "--out", out,
               "--steps", "1", *settings)  # fmt: skip
    (command,) = re.findall(r"^  zoo (translate .*)", done.output, re.MULTILINE)
    assert " -- " in command
    again = run(*shlex.split(command))
    assert again.exit_code == 0, again.output


def test_python_shows_progress_where_somebody_watches(
    parallel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    arguments = ("rnnsearch-tiny", f"{parallel}:en-de")
    zoo.train(*arguments, tmp_path / "a", settings=TINY, steps=3)
    assert capsys.readouterr().err == ""
    zoo.train(*arguments, tmp_path / "b", settings=TINY, steps=3, progress=True)
    shown = capsys.readouterr().err
    assert "auto: " in shown
    assert "100%  update 3" in shown
    assert "Next:" in shown
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    zoo.train(*arguments, tmp_path / "c", settings=TINY, steps=3)
    assert "100%" in capsys.readouterr().err
    zoo.resume(tmp_path / "c", steps=4, progress=False)
    assert capsys.readouterr().err == ""


def test_a_notebook_counts_as_somebody_who_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    class ZMQInteractiveShell:
        pass

    class Module:
        @staticmethod
        def get_ipython() -> ZMQInteractiveShell:
            return ZMQInteractiveShell()

    assert not progress.is_interactive()
    monkeypatch.setitem(sys.modules, "IPython", Module)
    assert progress.is_interactive()


def test_the_checkpoint_records_the_held_out_scores(parallel: Path, tmp_path: Path) -> None:
    request = TrainingRequest("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a",
                              settings=TINY, steps=5)  # fmt: skip
    with begin(request) as session:
        out = session.run()
        (last,) = [
            r for r in session.trainer.folder.metrics() if r.get("step") == 5 and "best" in r
        ]
    recorded = json.loads((out / "training.json").read_text())["held_out"]
    assert recorded["loss"] == pytest.approx(last["validation_loss"], rel=1e-5)
    assert recorded["pairs"] == 3
    assert 0 <= recorded["bleu"] <= 100
    assert 0 <= recorded["chrf"] <= 100


def test_paths_below_the_current_folder_are_shown_as_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert from_here(folder / "runs" / "mine") == str(Path("runs", "mine"))
    assert from_here(f"{folder / 'pairs'}:en-fr") == "pairs:en-fr"
    for path in (tmp_path / "other", folder / "-out", Path("numbers-en-fr")):
        assert from_here(path) == str(path)
    folder.rmdir()
    assert from_here(folder / "runs") == str(folder / "runs")


@pytest.mark.parametrize(
    ("average_last", "what"),
    [(1, "the weights after"), (2, "the mean of the weights that were kept until")],
)
def test_the_summary_says_which_weights_a_score_has_selected(
    average_last: int, what: str, parallel: Path, tmp_path: Path
) -> None:
    settings = {**TINY, "select": "chrf", "validate_every": 2, "bleu_sentences": 3,
                "average_last": average_last}  # fmt: skip
    request = TrainingRequest(
        "rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "out", settings=settings, steps=6
    )
    with begin(request) as session:
        list(session.trainer.events())
        session.finish()
        summary = summarize(session)
    training = json.loads((tmp_path / "out" / "training.json").read_text())
    (best,) = (
        record["chrf"]
        for record in training["curve"]
        if record["step"] == training["released"] and "validation_loss" in record
    )
    line = f"Released: {what} update {training['released']}, with chrf {best:.1f}"
    assert line in summary.lines()


def test_the_pairs_to_score_next_are_not_those_that_were_trained_on(
    parallel: Path, tmp_path: Path, run: Callable[..., Result]
) -> None:
    """With --validation, the command scored the training pairs."""
    held_out = tsv(tmp_path / "held out.tsv", [("the cat runs .", "das Katze rennt .")] * 3)
    request = TrainingRequest("rnnsearch-tiny", f"{parallel}:en-de", tmp_path / "a",
                              validation=held_out, settings=TINY, steps=1)  # fmt: skip
    with begin(request) as session:
        session.run()
        _, evaluate, _ = summarize(session).commands
    done = run(*shlex.split(evaluate)[1:])
    assert done.exit_code == 0, done.output
    assert "held out.tsv, all: 3 sentences" in done.output
    assert "what it was trained on" not in done.output


def test_a_run_on_one_pair_suggests_commands_that_work(
    tmp_path: Path, run: Callable[..., Result]
) -> None:
    (tmp_path / "one.tsv").write_text("a dog\tein Hund\n")
    request = TrainingRequest("rnnsearch-tiny", str(tmp_path / "one.tsv"), tmp_path / "out",
                              settings=TINY, steps=1)  # fmt: skip
    with begin(request) as session:
        trainer = session.trainer
        warnings = early_warnings(trainer.plan, trainer.data, len(trainer.batches))
        assert any(w.startswith("1 pair is few: the model will learn it") for w in warnings)
        assert any(w.startswith("1 update is few") or "1 update," in w for w in warnings)
        list(trainer.events())
        session.finish()
        summary = summarize(session)
    assert ": 1 update, " in summary.lines()[0]
    translate, evaluate, _ = map(shlex.split, summary.commands)
    assert translate[-1] == "a dog"
    for _, *words in (translate, evaluate):
        done = run(*words)
        assert done.exit_code == 0, done.output


def test_bleu_is_not_shown_where_right_translations_have_none() -> None:
    """BLEU counts four words in a row: of targets of one word it is 0, though all are right."""
    short = HeldOutScores(loss=0.1, bleu=0.0, chrf=100.0, exact=100.0, pairs=20)
    assert of_held_out(short) == [
        "Held-out text, 20 pairs: chrF 100.0, exact match 100.0% (greedy), loss 0.100"
    ]
    wrong = HeldOutScores(loss=0.1, bleu=0.0, chrf=3.0, exact=0.0, pairs=20)
    assert "BLEU 0.0, chrF 3.0, exact match 0.0%" in of_held_out(wrong)[0]
    assert of_held_out(None) == of_held_out(HeldOutScores(0.1, None, None, None, 20)) == []


def test_many_pairs_that_are_skipped(tmp_path: Path) -> None:
    rows = [(f"ein Satz {n}", f"a sentence {n}") for n in range(60)]
    short = tsv(tmp_path / "short.tsv", [*rows, ("wort " * 400, "word")])
    assert not any("skipped" in text for text in warnings_of(tmp_path, short))
    long = tsv(
        tmp_path / "long.tsv", [*rows, *((f"{n} " + "wort " * 400, "word") for n in range(40))]
    )
    (text,) = [text for text in warnings_of(tmp_path, long, max_length=256) if "skipped" in text]
    assert re.match(r"\d+ too long of \d+ pairs are skipped. A side may have 256 tokens", text)
    assert text.endswith("Divide the texts, or raise max_length")
    empty = tsv(tmp_path / "empty.tsv", [*rows, *[(f"x{n}", "") for n in range(40)]])
    (text,) = [text for text in warnings_of(tmp_path, empty) if "skipped" in text]
    assert text.endswith("pairs are skipped. Check both sides")


def test_targets_that_a_tokenizer_does_not_keep(tmp_path: Path) -> None:
    """A leading space is lost, and letters are composed; the byte tokenizer keeps both."""
    spaces = tsv(tmp_path / "s.tsv", [(f"code {n}", f" return {n}") for n in range(40)])
    (text,) = [text for text in warnings_of(tmp_path, spaces) if "otherwise" in text]
    assert "' return " in text
    keep = "et tokenizer = byte, which keeps every character"
    assert text.endswith(f"Leave out the spaces around texts, or s{keep}")
    kept = warnings_of(tmp_path, spaces, tokenizer="byte", vocab_size=260)
    assert not any("otherwise" in text for text in kept)
    letters = tsv(tmp_path / "l.tsv", [(f"\u00e9 {n}", f"e\u0301 {n}") for n in range(40)])
    texts = warnings_of(tmp_path, letters)
    (text,) = [text for text in texts if "'e\\u0301 " in text]
    assert text.endswith(f"Letters in parts are composed; if that matters, s{keep}")
    both = tsv(tmp_path / "b.tsv", [(f"a {n}", f" e\u0301 {n}") for n in range(40)])
    (text,) = [text for text in warnings_of(tmp_path, both) if "otherwise" in text]
    assert text.endswith(f". S{keep}")
    assert any("copies of their sources" in text for text in texts)


def test_few_updates_are_warned_of_where_more_are_needed(tmp_path: Path) -> None:
    """`auto` gives few pairs 300 updates, and tuning needs fewer than training."""
    few = tsv(tmp_path / "few.tsv", [(f"a dog {n}", f"ein Hund {n}") for n in range(40)])
    request = TrainingRequest("rnnsearch-tiny", few, tmp_path / "a", settings=TINY)
    with begin(request) as session:
        plan, data = session.trainer.plan, session.trainer.data
        chosen = early_warnings(plan, data, 1)
        fewer = early_warnings(replace(plan, recipe=plan.recipe.model_copy(update={"steps": 299})),
                               data, 1)  # fmt: skip
        assert plan.recipe.steps == 300
        assert not any("updates are few" in text for text in chosen)
        assert any("299 updates are few" in text for text in fewer)
        tuned = replace(plan, parent="another")
        assert not any("updates are few" in text for text in early_warnings(tuned, data, 1))
        short = plan.recipe.model_copy(update={"steps": None, "minutes": 1.0})
        timed = replace(plan, recipe=short)
        record = {"step": 200, "loss": 3.0, "validation_loss": 0.1}
        for chrf, warns in ((60.0, True), (99.0, False)):
            texts = late_warnings(timed, data, 200, [{**record, "chrf": chrf}])
            assert any("give the run more time" in text for text in texts) is warns
