"""Tokenizers of other projects: they encode as the libraries do, survive the disk, choose tags."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Tokenizer as Pipeline
from tokenizers import decoders, models, pre_tokenizers, trainers

from zoo.data.foreign_engines import SentencePiece, TokenizersPipeline, Vocabulary
from zoo.data.foreign_tokenizer import ForeignTokenizer, load_tokenizer
from zoo.data.protobuf import read_fields, write_field
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import Tokenizer
from zoo.data.words import Words
from zoo.errors import CheckpointError, DataError, DecodingError

LINES = [
    "A dog runs over the green grass.",
    "Two men are cooking in a small kitchen, and a child watches them.",
    "Ein Hund läuft über das grüne Gras.",
    "Zwei Männer kochen in einer kleinen Küche.",
]
ODD = [
    "",
    " ",
    "  two  spaces ",
    "u\u0308ber",
    "🙂 grass",
    "ﬁne Ⅳ",
    "сорок",
    "a\tb\nc",
    "</s> <unk>",
    "▁",
]


@pytest.fixture(scope="module")
def model() -> bytes:
    content = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20), model_writer=content, vocab_size=56, num_threads=1,
        minloglevel=2,
    )  # fmt: skip
    return content.getvalue()


def marian(model: bytes, **values: Any) -> ForeignTokenizer:
    """Return a tokenizer whose ids are in another order than the model's, two pieces missing."""
    processor = SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    tokens = (*SPECIALS, ">>de<<", ">>fr<<", *reversed(pieces[2:]))
    vocabulary = Vocabulary(
        tokens, frozenset([4, 5]), tags={"de": 4, "fr": 5}, tags_of="target", leading_tag=True
    )
    return ForeignTokenizer(SentencePiece(model, vocabulary), vocabulary)


def pipeline() -> Pipeline:
    made = Pipeline(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator(LINES, trainer)
    return made


def bart() -> ForeignTokenizer:
    """Return a tokenizer with ids in the zoo's order and a tag before each text."""
    made = pipeline()
    words = [str(made.id_to_token(i)) for i in range(4, made.get_vocab_size())]
    vocabulary = Vocabulary((*SPECIALS, "<bos>", *words), frozenset([4]), prefix=(4,))
    ids = [4, 0, 2, 3, *range(5, 5 + len(words))]
    engine = TokenizersPipeline(json.loads(made.to_str()), ids, vocabulary)
    return ForeignTokenizer(engine, vocabulary)


def test_ids_are_those_of_the_pieces_texts(model: bytes) -> None:
    processor, tokenizer = SentencePieceProcessor(model_proto=model), marian(model)
    known, missing = set(tokenizer.vocabulary()), 0
    for text in [*LINES, *ODD]:
        (ids,) = tokenizer.encode([text])
        pieces = processor.encode(text, out_type=str)
        expected = [piece if piece in known else "<unk>" for piece in pieces]
        assert [tokenizer.token(i) for i in ids] == expected
        missing += expected.count("<unk>")
        if "<unk>" not in expected:
            assert tokenizer.decode(ids) == processor.decode(pieces).strip()
    assert missing > 5, "the two pieces that the vocabulary lacks"
    assert tokenizer.decode([3]).strip() == "⁇"
    for wrong in (tokenizer.size, -1):
        with pytest.raises(ValueError, match=f"no token has id {wrong}"):
            tokenizer.decode([wrong])


def test_a_text_may_begin_with_its_tag(model: bytes) -> None:
    tokenizer = marian(model)
    plain, tagged, unknown = tokenizer.encode(["A dog", ">>fr<<A dog", ">>xx<<A dog"])
    assert tagged == [5, *plain]
    assert unknown == [3, *plain]
    german = tokenizer.for_language("de")
    assert german.encode(["A dog", ">>fr<<A dog"]) == [[4, *plain], [5, *plain]]
    assert german.for_language("fr").encode(["A dog"]) == [[5, *plain]]
    assert (tokenizer.language, german.language) == (None, "de")
    assert german.decode([4, *plain]) == tokenizer.decode(plain) != ""
    with pytest.raises(DecodingError, match="no target language 'fra': there are de, fr"):
        tokenizer.for_language("fra")


def test_a_pipeline_encodes_as_the_library_does() -> None:
    theirs, tokenizer = pipeline(), bart()
    for text in [*LINES, *ODD]:
        (ids,) = tokenizer.encode([text])
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert ids[0] == 4
        if "<" not in text:
            assert [tokenizer.token(i) for i in ids[1:]] == [
                theirs.id_to_token(i) for i in expected
            ]
        assert tokenizer.decode(ids) == text.strip()


def test_clean_texts_have_no_spaces_before_punctuation() -> None:
    text = "a ' dog ' s , is n't it ? 's !"
    plain, clean = bart(), bart().with_clean_texts()
    (ids,) = clean.encode([text])
    assert ids == plain.encode([text])[0]
    assert plain.decode(ids) == text
    assert clean.decode(ids) == "a'dog's, isn't it?'s!"


@pytest.mark.parametrize("kind", ["marian", "bart"])
def test_a_tokenizer_survives_the_disk(kind: str, model: bytes, tmp_path: Path) -> None:
    tokenizer = marian(model).for_language("fr") if kind == "marian" else bart().with_clean_texts()
    file = tmp_path / "tokenizer.json"
    file.write_text(tokenizer.to_json(), encoding="utf-8")
    again = load_tokenizer(file)
    assert again.encode(LINES + ODD) == tokenizer.encode(LINES + ODD)
    assert (again.size, again.language) == (tokenizer.size, tokenizer.language)
    assert isinstance(again, ForeignTokenizer)
    assert again.entries.clean == (kind == "bart")
    assert again.to_json() == tokenizer.to_json()


@pytest.mark.parametrize("kind", ["marian", "bart"])
def test_a_tokenizer_survives_a_change_of_process(kind: str, model: bytes) -> None:
    tokenizer = marian(model).for_language("fr") if kind == "marian" else bart()
    again = pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 — our own bytes
    assert again.encode(LINES + ODD) == tokenizer.encode(LINES + ODD)
    assert again.to_json() == tokenizer.to_json()


def test_a_tokenizer_of_the_zoo_is_read_as_before(tmp_path: Path) -> None:
    own = Tokenizer.train(LINES, "bpe", 60)
    (tmp_path / "tokenizer.json").write_text(own.to_json(), encoding="utf-8")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert type(again) is Tokenizer
    assert again.vocabulary() == own.vocabulary()
    assert (again.tags, again.language, again.control) == ({}, None, ())
    with pytest.raises(DecodingError, match="no language 'de' can be chosen"):
        again.for_language("de")


FAULTS: dict[str, dict[str, Any]] = {
    "ids 0 to 3 must be": {"tokens": ["a", "b", "c", "d", "e", "f"]},
    "a token occurs twice": {"tokens": [*SPECIALS, "a", "a"]},
    "must have ids from 4 to 5": {"prefix": [9]},
    "a tag must be a control token": {"tags": {"de": 4}, "control": []},
    "tags must be an object": {"tags": []},
    "ids must be integers": {"prefix": [4.5]},
    "tokens and codes must be strings": {"tokens": [*SPECIALS, 4, 5]},
    "tags_of, leading_tag, tags_last or clean is invalid": {"tags_of": "both"},
    "KeyError": {"engine": "pickle"},
    "a SentencePiece model cannot be read": {"model": "AAAA"},
    "is not a tokenizer": {"model": "not base64!"},
}


def test_a_tokenizer_without_tags_has_no_other_language() -> None:
    vocabulary = Vocabulary((*SPECIALS, "a"))
    tokenizer = ForeignTokenizer(Words(vocabulary), vocabulary)
    with pytest.raises(DecodingError, match="'de': there are no tags of languages"):
        tokenizer.for_language("de")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_tokenizer_is_refused_in_one_line(fault: str, tmp_path: Path) -> None:
    values = {
        "engine": "sentencepiece", "prefix": [], "tags": {}, "tags_of": "source",
        "leading_tag": False, "control": [], "tokens": [*SPECIALS, "a", "b"], "model": "",
    }  # fmt: skip
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(values | FAULTS[fault]), encoding="utf-8")
    with pytest.raises(CheckpointError, match=fault) as caught:
        load_tokenizer(file)
    assert "\n" not in str(caught.value)


def test_a_damaged_part_of_a_sentencepiece_model_is_refused(model: bytes) -> None:
    vocabulary = Vocabulary((*SPECIALS, "a"))
    parts = list(read_fields(model))
    spec = next(part.value for part in parts if part.number == 3)
    assert isinstance(spec, bytes)
    name, charsmap, *_ = read_fields(spec)
    assert isinstance(charsmap.value, bytes)
    torn = charsmap.value[:-2] + b"\xff\0"  # in the last replacement
    for field, match in (
        (write_field(3, name.encoded + write_field(2, torn)), "its character map is refused"),
        (write_field(1, write_field(1, b"\x89")), "a piece is not UTF-8"),
        (b"\x0b", "no message of protocol buffers"),
    ):
        rest = b"".join(part.encoded for part in parts if part.number != field[0] >> 3)
        with pytest.raises(CheckpointError, match=match):
            SentencePiece(rest + field, vocabulary)


def test_a_pipeline_that_does_not_fit_is_refused() -> None:
    made, vocabulary = pipeline(), Vocabulary((*SPECIALS, "a"))
    with pytest.raises(CheckpointError, match="does not fit its vocabulary"):
        TokenizersPipeline(json.loads(made.to_str()), [0, 1, 2], vocabulary)
    with pytest.raises(CheckpointError, match="cannot be read"):
        TokenizersPipeline({"model": {"type": "Nothing"}}, [0, 1, 2], vocabulary)


def test_a_panic_of_the_library_while_it_writes_is_an_error() -> None:
    made = pipeline()
    made.decoder = decoders.Strip("a", 0, 5)
    words = [str(made.id_to_token(i)) for i in range(4, made.get_vocab_size())]
    vocabulary = Vocabulary((*SPECIALS, *words))
    engine = TokenizersPipeline(
        json.loads(made.to_str()), range(len(vocabulary.tokens)), vocabulary
    )
    id = vocabulary.tokens.index("a")
    with pytest.raises(DataError, match="cannot write this text: the library has failed"):
        engine.decode([id, id])
