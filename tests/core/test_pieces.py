"""SentencePiece models that are restricted, or read text that is prepared first."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from zoo.data.foreign_engines import Vocabulary
from zoo.data.foreign_tokenizer import ForeignTokenizer, load_tokenizer
from zoo.data.pieces import PreparedPieces, restrict
from zoo.data.text_tokenizer import SPECIALS
from zoo.errors import CheckpointError

LINES = ["a dog runs over the green grass", "two dogs run", "the grass is green and wet",
         "zwei hunde laufen über das grüne gras", "das gras ist grün und nass"] * 20  # fmt: skip


def train(kind: str) -> bytes:
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=70, model_type=kind,
        minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    return model.getvalue()


def best(text: str, scores: dict[str, float]) -> list[str]:
    """Return the most probable pieces, by dynamic programming."""
    ends: list[tuple[float, list[str]]] = [(0.0, [])]
    for end in range(1, len(text) + 1):
        ways = [
            (ends[start][0] + scores[text[start:end]], [*ends[start][1], text[start:end]])
            for start in range(end)
            if text[start:end] in scores
        ]
        ends.append(max(ways))
    return ends[-1][1]


def test_a_restricted_model_cuts_into_known_pieces_and_characters() -> None:
    model = train("unigram")
    processor = SentencePieceProcessor(model_proto=model)
    scores = {
        processor.id_to_piece(i): processor.get_score(i)
        for i in range(3, processor.get_piece_size())
    }
    known = [piece for i, piece in enumerate(scores) if i % 3 == 0]
    changed = SentencePieceProcessor(model_proto=restrict(model, known))
    left = {piece: score for piece, score in scores.items() if piece in known or len(piece) == 1}
    assert len(left) < len(scores)
    for line in dict.fromkeys(LINES):
        text = "▁" + line.replace(" ", "▁")
        assert processor.encode(line, out_type=str) == best(text, scores)
        assert changed.encode(line, out_type=str) == best(text, left)
    assert processor.encode(LINES) != changed.encode(LINES)


def test_a_torn_model_is_refused() -> None:
    model = train("bpe")
    for torn in (model[:-1], model[:1], b"\x0b", b"\xff" * 99):
        with pytest.raises(CheckpointError, match="cannot be read"):
            restrict(torn, [])


def test_text_is_prepared_first(tmp_path: Path) -> None:
    model = train("unigram")
    pieces = SentencePieceProcessor(model_proto=model)
    tokens = [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
    vocabulary = Vocabulary((*SPECIALS, *tokens))
    made = ForeignTokenizer(PreparedPieces(model, vocabulary, ("joeynmt", "lowercase")), vocabulary)
    assert made.encode(["  Two\u3000DOGS run"]) == made.encode(["two dogs run"])
    (tmp_path / "a.json").write_text(made.to_json(), encoding="utf-8")
    again = load_tokenizer(tmp_path / "a.json")
    assert again.encode(["Two Dogs"]) == made.encode(["two dogs"])
    text = made.to_json().replace('"lowercase"', '"eval"')
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match="a step that is not known"):
        load_tokenizer(tmp_path / "a.json")


def test_normalized_text_has_no_extra_spaces() -> None:
    """JoeyNMT's `normalize` removes them from translations too, as before punctuation."""
    model = train("unigram")
    vocabulary = Vocabulary((*SPECIALS, "▁a", "▁", "▁.", "▁b"))
    for steps, text in ((("joeynmt",), "a b."), (("lowercase",), "a  b .")):
        made = ForeignTokenizer(PreparedPieces(model, vocabulary, steps), vocabulary)
        assert made.decode([4, 5, 7, 6]) == text
