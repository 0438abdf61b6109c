"""A vocabulary gets further tokens: each keeps its id and its rows, and texts lose nothing."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from sentencepiece import SentencePieceTrainer

import zoo
from tests.core.test_pieces import train as train_pieces
from tests.core.test_training import weights
from tests.interop import huggingface
from tests.training.test_fine_tuning import MODELS, SHARED, home, parents, vocabulary
from zoo.data.extension import (
    FEWEST,
    MOST,
    added_tokens,
    can_extend,
    extend,
    extend_both,
    frequent,
    missing_tokens,
)
from zoo.data.foreign_engines import Engine, SentencePiece, TokenizersPipeline, Vocabulary
from zoo.data.foreign_tokenizer import ForeignTokenizer, load_tokenizer
from zoo.data.moses import Moses
from zoo.data.pieces import PreparedPieces
from zoo.data.source_tokenizer import SourceTokenizer
from zoo.data.sources import join_sources
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import Tokenizer
from zoo.data.words import Words
from zoo.errors import ConfigError
from zoo.nn.contract import BEGIN, UNKNOWN
from zoo.training.request import TrainingRequest
from zoo.training.session import begin

__all__ = ["home", "parents"]  # fixtures

OLD = ["a dog runs over the green grass", "two dogs run", "the grass is green and wet"] * 20
NEW = ["a dog (two dogs) runs", "the «grass» is green", "(a dog) «runs»"] * 2
ONCE = "the 🙂 runs"
MERGES = [("d", "o"), ("do", "g</w>"), ("t", "h"), ("th", "e</w>")]


def of_library(kind: str) -> Tokenizer:
    return Tokenizer.train(OLD, kind, 40 if kind == "unigram" else 60)


def of_pieces(kind: str, prepared: bool = False) -> ForeignTokenizer:
    """Return a tokenizer of a SentencePiece model of which the vocabulary lacks a piece."""
    model = train_pieces(kind)
    made = SentencePiece(model, Vocabulary(tuple(SPECIALS)))
    pieces = [made.processor.id_to_piece(i) for i in range(3, made.processor.get_piece_size())]
    vocabulary = Vocabulary((*SPECIALS, *(piece for piece in pieces if piece != "▁run")))
    engine: Engine = SentencePiece(model, vocabulary)
    if prepared:
        engine = PreparedPieces(model, vocabulary, ("lowercase",))
    return ForeignTokenizer(engine, vocabulary)


def of_words(**options: Any) -> ForeignTokenizer:
    words = Words(Vocabulary(tuple(SPECIALS)), **options)
    known = dict.fromkeys(part for text in OLD for part in words.cut(text))
    vocabulary = Vocabulary((*SPECIALS, "<tag>", *known), frozenset([4]), tags={"en": 4})
    return ForeignTokenizer(Words(vocabulary, **options), vocabulary)


def of_moses() -> ForeignTokenizer:
    letters = [c + end for c in "abcdefghijklmnopqrstuvwxyz" for end in ("", "</w>")]
    vocabulary = Vocabulary((*SPECIALS, *letters))
    return ForeignTokenizer(Moses(vocabulary, "en", []), vocabulary)


KINDS: dict[str, Callable[[], Tokenizer]] = {
    **{kind: partial(of_library, kind) for kind in ("word", "char", "bpe", "unigram")},
    "sentencepiece unigram": lambda: of_pieces("unigram"),
    "sentencepiece bpe": lambda: of_pieces("bpe"),
    "sentencepiece char": lambda: of_pieces("char"),
    "prepared sentencepiece": lambda: of_pieces("unigram", prepared=True),
    "words": of_words,
    "characters": lambda: of_words(split="character"),
    "byte-pair codes": lambda: of_words(merges=MERGES),
    "byte-pair codes, undone": lambda: of_words(merges=MERGES, undo=True),
    "moses": of_moses,
}


@pytest.mark.parametrize("kind", KINDS)
def test_texts_lose_nothing_and_tokens_keep_their_ids(kind: str, tmp_path: Path) -> None:
    old = KINDS[kind]()
    new = extend(old, lambda: [*NEW, ONCE])
    assert vocabulary(new)[: old.size] == vocabulary(old)
    assert new.size > old.size
    known = [text for text in OLD if UNKNOWN not in old.encode([text])[0]]
    assert known
    assert new.encode(known) == old.encode(known)
    assert any(UNKNOWN in ids for ids in old.encode(NEW))
    assert not any(UNKNOWN in ids for ids in new.encode(NEW))
    assert new.decode(new.encode(["(a dog) «runs»"])[0]) == _written(kind)
    assert UNKNOWN in new.encode([ONCE])[0]  # it occurs once
    (tmp_path / "a.json").write_text(new.to_json(), encoding="utf-8")
    assert load_tokenizer(tmp_path / "a.json").encode([*OLD, *NEW]) == new.encode([*OLD, *NEW])
    assert extend(new, lambda: [*NEW, ONCE]) is new


def _written(kind: str) -> str:
    """Return how a tokenizer writes the text; Moses writes quotes of its own."""
    return '(a dog) "runs"' if kind == "moses" else "(a dog) «runs»"


def test_normalized_characters_are_added() -> None:
    """The texts have a combining diaeresis, the vocabulary one character."""
    for kind in ("bpe", "char", "unigram", "word"):
        new = extend(of_library(kind), lambda: ["u\u0308 a dog"] * FEWEST)
        assert any("ü" in token for token in vocabulary(new)[4:])
        assert new.decode(new.encode(["u\u0308"])[0]) == "ü"


def test_the_most_frequent_tokens_are_added_first() -> None:
    texts = [chr(0x4E00 + n) * (2 + n // 500) for n in range(MOST + 200)]
    missing = missing_tokens(of_library("char"), texts)
    assert missing[chr(0x4E00)] == 2
    tokens = frequent(missing)
    assert len(tokens) == MOST
    assert tokens[:200] == sorted(chr(0x4E00 + n) for n in range(1000, 1200))
    assert frequent(missing_tokens(of_library("char"), ["é", "è"])) == []


def test_two_models_of_one_vocabulary_get_the_same_tokens() -> None:
    """As OPUS-MT's: one side has brackets, the other quotes."""
    one, other = of_pieces("unigram"), of_pieces("unigram")
    source, target = extend_both((one, other), (lambda: ["a (dog)"] * 2, lambda: ["the «dog»"] * 2))
    assert vocabulary(source) == vocabulary(target)
    assert {*"()«»"} <= {*vocabulary(source)}
    for side in (source, target):
        assert side.decode(side.encode(["the «dog» (two)"])[0]) == "the «dog» (two)"
    same = extend_both((one, one), (lambda: ["a (dog)"] * 2, lambda: ["the «dog»"] * 2))
    assert same[0] is same[1]


def test_each_source_is_extended_by_its_own_texts() -> None:
    pairs = [("a (dog)", "two dogs"), ("(a) dog", f"«dogs» {'x' * 400}"), ("a dog", "«two»")]
    texts = [join_sources({"text": one, "other": other}) for one, other in pairs]
    old = SourceTokenizer({"text": of_library("bpe"), "other": of_library("char")})
    new = extend(old, lambda: texts)
    assert isinstance(new, SourceTokenizer)
    added = {name: one.vocabulary()[old.members[name].size :] for name, one in new.members.items()}
    assert {name: sorted(tokens) for name, tokens in added.items()} == {
        "text": ["(", ")"], "other": ["«", "»"]
    }  # fmt: skip
    assert not any(UNKNOWN in ids for ids in new.encode([texts[0], texts[2]]))
    assert added_tokens(old, new) == [*added["text"], *added["other"]]
    assert can_extend(old)


def test_a_tag_that_begins_a_text_is_no_text_of_the_vocabulary() -> None:
    """As those of OPUS-MT's models for several languages, also of one that the model lacks."""
    known = of_pieces("unigram").entries.tokens
    vocabulary = Vocabulary((*known, ">>de<<"), frozenset([len(known)]), leading_tag=True)
    old = ForeignTokenizer(SentencePiece(train_pieces("unigram"), vocabulary), vocabulary)
    new = extend(old, lambda: [">>de<< a (dog)", ">>fr<< a (dog)"])
    assert sorted(added_tokens(old, new)) == ["(", ")"]


def test_an_empty_word_is_no_token() -> None:
    """Two spaces in a row enclose one, where each space separates words."""
    old = of_words(split="space")
    assert added_tokens(old, extend(old, lambda: ["a  dog", "a  (dog)"] * FEWEST)) == ["(dog)"]


def test_what_cannot_be_extended_is_refused_where_a_token_is_missing() -> None:
    pipeline = {"model": {"type": "WordLevel", "vocab": {"<unk>": 0, "dog": 1},
                          "unk_token": "<unk>"},
                "pre_tokenizer": {"type": "Whitespace"}}  # fmt: skip
    vocabulary = Vocabulary((*SPECIALS, "dog"))
    foreign = ForeignTokenizer(TokenizersPipeline(pipeline, [UNKNOWN, 4], vocabulary), vocabulary)
    assert extend(foreign, lambda: ["dog dog"]) is foreign
    assert not can_extend(foreign)
    assert not can_extend(SourceTokenizer({"text": of_library("bpe"), "other": foreign}))
    with pytest.raises(ConfigError, match=r"lacks a token of 'a dog'.*--new-vocabulary"):
        extend(foreign, lambda: ["a dog"])
    content = io.BytesIO()
    SentencePieceTrainer.train(sentence_iterator=iter(OLD), model_writer=content, vocab_size=12,
                               model_type="word", minloglevel=2)  # fmt: skip
    words = Vocabulary((*SPECIALS, "▁dog"))
    tokenizer = ForeignTokenizer(SentencePiece(content.getvalue(), words), words)
    with pytest.raises(ConfigError, match="cannot be extended"):
        extend(tokenizer, lambda: ["(dog)"] * 2)


@pytest.mark.parametrize("model", MODELS)
def test_a_run_begins_with_the_rows_of_all_old_tokens(
    model: str, home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    parent = parents(model)
    checkpoint = zoo.load(parent).checkpoint
    old = (checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    request = TrainingRequest("", f"{home / 'new'}:en-de", tmp_path / "a", from_=parent, steps=1,
                              extend_vocabulary="both")  # fmt: skip
    with begin(request) as session:
        first = {n: w.detach().clone() for n, w in session.trainer.model.named_parameters()}
        data = session.trainer.data
        assert "new source tokens: ▁" in " ".join(session.notes)
        session.run()
    new = (data.source_tokenizer, data.target_tokenizer)
    for side, before in zip(new, old, strict=True):
        assert vocabulary(side)[: before.size] == vocabulary(before)
        assert {"▁train", "▁ship"} <= {token.removesuffix("x") for token in vocabulary(side)}
    grown = 0
    for name, weight in weights(parent).items():
        assert torch.equal(first[name][tuple(slice(size) for size in weight.shape)], weight), name
        grown += first[name].shape != weight.shape
    assert grown >= 2
    assert zoo.load(tmp_path / "a").checkpoint.target_tokenizer.to_json() == new[1].to_json()
    zoo.resume(tmp_path / "a", steps=2)


def test_one_matrix_needs_both_sides(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    parent, data = parents("transformer-tiny", **SHARED), f"{home / 'new'}:en-de"
    with pytest.raises(ConfigError, match=r"cannot be changed alone.*--extend-vocabulary both"):
        zoo.train(None, data, tmp_path / "a", from_=parent, extend_vocabulary="target")
    zoo.train(None, data, tmp_path / "a", from_=parent, extend_vocabulary="both", steps=1)
    checkpoint = zoo.load(tmp_path / "a").checkpoint
    assert checkpoint.source_tokenizer is checkpoint.target_tokenizer
    assert {"▁train", "▁trainx"} <= {*vocabulary(checkpoint.source_tokenizer)}


def test_one_side_alone_is_extended(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    parent = zoo.load(parents("rnnsearch-tiny")).checkpoint
    zoo.train(None, f"{home / 'new'}:en-de", tmp_path / "a", from_=parents("rnnsearch-tiny"),
              extend_vocabulary="target", steps=1)  # fmt: skip
    tuned = zoo.load(tmp_path / "a").checkpoint
    assert tuned.source_tokenizer.to_json() == parent.source_tokenizer.to_json()
    assert "▁trainx" in vocabulary(tuned.target_tokenizer)


def test_a_run_warns_of_what_its_vocabularies_lack(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    runs = itertools.count()

    def notes(data: str, **options: Any) -> str:
        request = TrainingRequest("", data, tmp_path / str(next(runs)), steps=1, **options)
        with begin(request) as session:
            return " ".join(session.notes)

    (tmp_path / "few.tsv").write_text(
        "".join(
            f"the dog runs {'fast' if n == 3 else '.'}\tthex dogx runsx .\n" for n in range(30)
        ),
        encoding="utf-8",
    )
    rnnsearch, data = parents("rnnsearch-tiny"), str(tmp_path / "few.tsv")
    shared = parents("transformer-tiny", **SHARED)
    assert "3.3% of the sources have characters or words" in notes(data, from_=rnnsearch)
    assert "To add them, give --extend-vocabulary source" in notes(data, from_=rnnsearch)
    assert "--extend-vocabulary both" in notes(data, from_=shared)
    assert "of the targets" not in notes(data, from_=rnnsearch)
    said = notes(data, from_=rnnsearch, extend_vocabulary="source")
    assert "0 new source tokens" in said
    assert "Warning" not in said
    assert "To add them" not in notes(f"{home / 'old'}:en-de", from_=rnnsearch)


def test_new_tokens_are_as_likely_as_the_others(tmp_path: Path) -> None:
    """The begin token of an imported model has a bias that forbids it, and is no example."""
    huggingface.marian(tmp_path / "opus")
    data = [(f"A dog [{n}]", f"Ein Hund «{n}»") for n in range(30)]
    (tmp_path / "a.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in data), encoding="utf-8")
    size = zoo.load(tmp_path / "opus").checkpoint.target_tokenizer.size
    request = TrainingRequest("", str(tmp_path / "a.tsv"), tmp_path / "a", steps=1,
                              from_=tmp_path / "opus", extend_vocabulary="both")  # fmt: skip
    with begin(request) as session:
        bias = session.trainer.model.get_parameter("output.bias").detach()
    old, new = bias[UNKNOWN + 1 : size], bias[size:]
    assert bias[BEGIN] < -1000
    assert len(new) > 10
    assert float((new - old.mean()).abs().max()) < 6 * float(old.std())


def test_what_became_of_the_vocabularies_is_on_one_line_each(
    home: Path, parents: Callable[..., Path], tmp_path: Path
) -> None:
    """The texts have characters that would break a line, or control a terminal."""
    parent = parents("rnnsearch-tiny", tokenizer="char")
    file = tmp_path / "a.jsonl"
    pairs = [{"source": "a dog\n\x1b[2J", "target": "ax\u2028\u202e dogx"}] * 30
    file.write_text("\n".join(map(json.dumps, pairs)), encoding="utf-8")
    request = TrainingRequest("", str(file), tmp_path / "a", steps=1, from_=parent,
                              extend_vocabulary="both")  # fmt: skip
    with begin(request) as session:
        notes = session.notes
    assert "5 new source tokens: U+000A U+001B 2 J [" in notes
    assert "2 new target tokens: U+2028 U+202E" in notes
    assert all(note.isprintable() for note in notes)


def test_what_cannot_be_extended_is_not_advised(
    home: Path, parents: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.training.fine_tuning.can_extend", lambda tokenizer: False)
    (tmp_path / "a.tsv").write_text("the dog runs fast .\tthex dogx runsx .\n" * 30)
    request = TrainingRequest("", str(tmp_path / "a.tsv"), tmp_path / "a", steps=1,
                              from_=parents("rnnsearch-tiny"))  # fmt: skip
    with begin(request) as session:
        notes = " ".join(session.notes)
    assert "100.0% of the sources have characters or words that the vocabulary lacks" in notes
    assert "cannot be extended. To learn another one, give --new-vocabulary source" in notes


def test_new_and_extended_vocabularies_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="are both given"):
        zoo.train(None, "x.tsv", tmp_path / "a", from_="y", new_vocabulary="source",
                  extend_vocabulary="target")  # fmt: skip
    with pytest.raises(ConfigError, match="extend_vocabulary needs from_"):
        zoo.train("rnnsearch-tiny", "x.tsv", tmp_path / "a", extend_vocabulary="target")
