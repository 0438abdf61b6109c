"""Kinds of tokenizer: the one of bytes, those of plugins, their files, and broken ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, pre_tokenizers

import zoo
from docs.build import hook_parts
from tests.core.test_training import SMALL
from tests.external_plugins.packages import put
from tests.external_plugins.test_plugins import zoo as zoo_command
from tests.shelves import registry_with
from zoo.data.foreign_tokenizer import load_tokenizer
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import EntryTokenizer, Tokenizer
from zoo.data.tokenizer_kinds import WORD, WORD_BEFORE
from zoo.errors import CheckpointError, ConfigError, PluginError, UnknownNameError
from zoo.registry.recipe import Recipe
from zoo.registry.registry import Registry, default_registry
from zoo.training.plan import unknown_names
from zoo.translation.vocabulary import blank_tokens

TEXTS = [
    "", " ", "two words", "  spaces,\ttabs \n and\r\nlines  ", "▁ and _ and ⁇",
    "</s> <0xFF> <unk>", "Grüße, naïve café", "e\u0301 is not é", "漢字かな交じり文", "שלום עולם",
    "\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308", "\0\x01\x7f\x80\x9f",
    "\ufeffa mark", "\u202eright to left", "\U0010ffff and \ue000", "ÿþ", "\ufffd", "a\u0300" * 20,
]  # fmt: skip
EXAMPLE = hook_parts("zoo_tokenizers")[2].replace("zoo_syllables:", "zoo_visitor:")
SYLLABLES = {"name": "syllables", "vowels": "aeiouäöü"}
CORPUS = ["the banana is a sonata", "one banana, two bananas", "ja, die Banane ist gut"]


@pytest.fixture
def bytes_() -> Tokenizer:
    return Tokenizer.train([], "byte", 260)


def saved(tokenizer: Tokenizer, folder: Path) -> Path:
    file = folder / "tokenizer.json"
    file.write_text(tokenizer.to_json(), encoding="utf-8")
    return file


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_bytes_lose_nothing(bytes_: Tokenizer, text: str) -> None:
    (ids,) = bytes_.encode([text])
    assert len(ids) == len(text.encode())
    assert all(4 <= id < 260 for id in ids)
    assert bytes_.decode(ids) == text


def test_every_character_and_every_byte(bytes_: Tokenizer) -> None:
    """Every character of Unicode comes back, whatever bytes a network writes are text."""
    for first in range(0, 0x110000, 0x800):
        if not 0xD800 <= first < 0xE000:
            text = "".join(map(chr, range(first, first + 0x800)))
            assert bytes_.decode(bytes_.encode([text])[0]) == text
    for first in range(256):
        written = bytes_.decode([4 + first, 4 + 255, 4 + ord("a"), 1, 2])
        assert written.endswith("a")
        written.encode()  # no lone surrogate
    assert bytes_.decode([4 + byte for byte in b"\xed\xa0\x80"]) == "\ufffd" * 3
    assert bytes_.decode(bytes_.encode(["a\ud800b"])[0]) == "a\ufffd\ufffd\ufffdb"
    assert bytes_.decode([4 + 97, 3, 4 + 98]) == "a⁇b"


def test_tokens_of_bytes_are_distinct_and_some_are_blank(bytes_: Tokenizer) -> None:
    vocabulary = bytes_.vocabulary()
    assert vocabulary[:4] == SPECIALS
    assert len(set(vocabulary)) == bytes_.size == 260
    assert vocabulary[4 + 32] == "▁"
    assert vocabulary[4 + 0xC3] == "<0xC3>"
    blank = [vocabulary[id] for id in blank_tokens(vocabulary, bytes_.control)]
    assert sorted(blank) == sorted(["▁", *"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"])
    with pytest.raises(ConfigError, match="no byte vocabulary of 259 entries: it has 260"):
        Tokenizer.train([], "byte", 259)
    for wrong in (260, -1):
        for read in (bytes_.token, lambda id: bytes_.decode([id])):
            with pytest.raises(ValueError, match=f"no token has id {wrong}: there are 260"):
                read(wrong)
    with pytest.raises(ValueError, match="a byte tokenizer has no merges"):
        bytes_.merges()


def test_bytes_are_saved_read_and_sent_to_other_processes(
    bytes_: Tokenizer, tmp_path: Path
) -> None:
    file = saved(bytes_, tmp_path)
    again = load_tokenizer(file)
    assert again.to_json() == bytes_.to_json()
    assert isinstance(bytes_, EntryTokenizer)
    make, arguments = bytes_.__reduce__()  # what pickle calls
    assert make(*arguments).encode(["é"]) == again.encode(["é"])


def test_a_model_of_bytes_trains_and_translates(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{n}é\t{n}è\n" for n in range(40)), encoding="utf-8")
    settings = {"tokenizer": "byte", "target_tokenizer": "char", "hidden_dim": 16,
                "embedding_dim": 8, "layers": 1}  # fmt: skip
    folder = zoo.train("seq2seq-tiny", str(file), tmp_path / "run", settings=settings, steps=3)
    translator = zoo.load(folder)
    assert translator.checkpoint.source_tokenizer.size == 260
    assert isinstance(translator.translate("7é"), str)


@pytest.fixture
def visitor(monkeypatch: pytest.MonkeyPatch) -> Registry:
    return registry_with(monkeypatch, EXAMPLE)


def test_a_kind_of_a_plugin_is_trained_saved_and_read(visitor: Registry, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(CORPUS, SYLLABLES, 60, visitor)
    (ids,) = tokenizer.encode([CORPUS[0]])
    assert tokenizer.decode(ids) == CORPUS[0]
    file = saved(tokenizer, tmp_path)
    content = json.loads(file.read_text())
    assert (content["kind"], content["package"], content["version"]) == (
        "syllables", "zoo-visitor", "1.0"
    )  # fmt: skip
    assert content["content"] == {"vowels": "aeiouäöü"}
    again = load_tokenizer(file, visitor)
    assert again.encode([CORPUS[0]]) == [ids]
    assert again.vocabulary() == tokenizer.vocabulary()
    assert Recipe(tokenizer=SYLLABLES, shared_vocab=True).tokenizers == (SYLLABLES, SYLLABLES)
    (fault,) = unknown_names(visitor, {"tokenizer": {"name": "syllables", "vowel": "a"}})
    assert "unknown key 'vowel' (did you mean vowels?)" in fault
    with pytest.raises(UnknownNameError, match="unknown tokenizer 'bqe': did you mean bpe"):
        Tokenizer.train(["a"], "bqe", 10)
    (fault,) = unknown_names(visitor, {"target_tokenizer": "sylables"})
    assert fault == "target_tokenizer = 'sylables' (did you mean syllables?)"


def test_a_checkpoint_that_needs_a_missing_package_names_it(
    visitor: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = saved(Tokenizer.train(CORPUS, SYLLABLES, 60, visitor), tmp_path)
    message = (
        f"{file} needs the tokenizer 'syllables': it was written with zoo-visitor 1.0, which is "
        "not installed or did not load. Install zoo-visitor if you trust it"
    )
    with pytest.raises(PluginError, match=re.escape(message)):
        load_tokenizer(file)
    # Another package's entry of the same name does not read it.
    other = registry_with(monkeypatch, EXAMPLE.replace("zoo_visitor:", "zoo_other:"), "other")
    with pytest.raises(PluginError, match=re.escape(message)):
        load_tokenizer(file, other)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tokens": None}, "a value is missing or of a wrong type"),
        ({"content": []}, "a value is missing or of a wrong type"),
        ({"kind": ["syllables"]}, "a value is missing or of a wrong type"),
        ({"package": "x" * 201}, "a value is missing or of a wrong type"),
        ({"tokens": [*SPECIALS, 3]}, "each must be text of 1 to 1,000 characters"),
        ({"tokens": [*SPECIALS, "x" * 1001]}, "each must be text of 1 to 1,000 characters"),
        ({"tokens": [*SPECIALS, "a", "a"]}, "two are equal"),
        ({"tokens": ["a", *SPECIALS]}, "the first must be <pad>, <s>, </s>, <unk>"),
        ({"content": {}}, "KeyError: 'vowels'"),
        ({"content": {"vowels": "]" * 10**6}}, "vowels must be up to 20 letters"),
    ],
)
def test_a_hostile_file_is_refused(
    visitor: Registry, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    content = json.loads(Tokenizer.train(CORPUS, SYLLABLES, 60, visitor).to_json()) | changes
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(content))
    with pytest.raises(CheckpointError) as caught:
        load_tokenizer(file, visitor)
    assert f"{file} is not a tokenizer: " in str(caught.value)
    assert reason in str(caught.value)
    for text in ('{"kind"', '{"kind": "byte", "kind": NaN}', '["kind"]'):
        file.write_text(text)
        with pytest.raises(CheckpointError, match="is not a tokenizer"):
            load_tokenizer(file, visitor)


BROKEN = """
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from zoo import TextTokenizer, TokenizerKind

@hookimpl
def zoo_tokenizers():
    for name in ("raises", "nothing", "large", "twice", "specials", "Text", "Encode", "Decode",
                 "Content", "number", "narrow", "component", "decoder", "good", "Unread", "Lossy"):
        yield TokenizerKind(name, "a test", f"zoo_visitor:{name}")
    yield TokenizerKind("elsewhere", "a test", "no_such_module:Name")
    yield TokenizerKind("bpe", "another", "zoo_visitor:good")

number = 3
def narrow(): return None
def raises(texts, vocab_size): raise LookupError("no\\nluck")
def nothing(texts, vocab_size): return None

def library(tokens):
    model = models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="<unk>")
    made = Tokenizer(model)
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made

SPECIALS = list(TextTokenizer.SPECIALS)
def good(texts, vocab_size, extra: int = 0): return library([*SPECIALS, "one", "two"])
def large(texts, vocab_size): return library([*SPECIALS, *map(str, range(vocab_size))])
def specials(texts, vocab_size): return library(["one", *SPECIALS])
def component(texts, vocab_size):
    made = good(texts, vocab_size)
    made.enable_truncation(3)
    return made
def decoder(texts, vocab_size):
    made = good(texts, vocab_size)
    made.decoder = decoders.WordPiece()
    return made

class Base(TextTokenizer):
    def __init__(self):
        self.tokens = (*SPECIALS, "a")
    @classmethod
    def train(cls, texts, vocab_size):
        return cls()
    @classmethod
    def parse(cls, tokens, content):
        return cls()
    def encode(self, text):
        return [4 for _ in text]
    def decode(self, ids):
        return "a" * len(ids)

class twice(Base):
    def __init__(self):
        self.tokens = (*SPECIALS, "a", "a")
class Text(Base):
    def __init__(self):
        self.tokens = (*SPECIALS, 3)
class Encode(Base):
    def encode(self, text):
        return [5]
class Decode(Base):
    def decode(self, ids):
        return None
class Content(Base):
    def content(self):
        return {"x": {1, 2}}
class Unread(Base):
    @classmethod
    def parse(cls, tokens, content):
        return content["vowels"]
class Lossy(Base):
    @classmethod
    def parse(cls, tokens, content):
        made = cls()
        made.tokens = (*tokens, "b")
        return made
"""


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("elsewhere", "no_such_module:Name gave ModuleNotFoundError"),
        ("number", "it is 3, which cannot be called"),
        ("narrow", "it is called with (texts, vocab_size, option=…), and takes ()"),
        ("raises", "training raised LookupError: no luck"),
        ("nothing", "it made None, which is no tokenizer"),
        ("large", "it has 24 entries, and vocab_size is 20"),
        ("specials", "its first tokens must be <pad>, <s>, </s>, <unk>"),
        ("component", "truncation must be null"),
        ("decoder", "its decoder is not used: a text is its tokens joined, in which ▁ is a space"),
        ("twice", "its tokens are not valid: two are equal"),
        ("Text", "its tokens are not valid: each must be text of 1 to 1,000 characters"),
        ("Encode", "encode returned [5], not a list of ids"),
        ("Decode", "decode returned [None], not text"),
        ("Content", "TypeError: Object of type set is not JSON serializable"),
    ],
)
def test_a_broken_kind_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, kind: str, reason: str
) -> None:
    registry = registry_with(monkeypatch, BROKEN)

    def use() -> None:
        tokenizer = Tokenizer.train(["one two"], kind, 20, registry)
        tokenizer.encode(["a"])
        tokenizer.decode([4])
        tokenizer.to_json()

    with pytest.raises(PluginError) as caught:
        use()
    owner = "visitor (zoo-visitor 1.0)"
    assert str(caught.value).startswith(f"tokenizer {kind!r} of {owner} is broken: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not isinstance(Tokenizer.train(["one two"], "bpe", 20, registry), EntryTokenizer)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("Unread", "its file cannot be read again: Unread of visitor (zoo-visitor 1.0): KeyError"),
        ("Lossy", "its file is read as another tokenizer"),
    ],
)
def test_a_tokenizer_that_cannot_be_read_again_is_refused_before_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, reason: str
) -> None:
    registry = registry_with(monkeypatch, BROKEN)
    settings = {**SMALL, "tokenizer": kind, "vocab_size": 20, "batch_sentences": "none"}
    with pytest.raises(PluginError, match=re.escape(reason)):
        zoo.train("rnnsearch-tiny", "shift", tmp_path / "out", settings=settings, steps=2,
                  limit=50, registry=registry)  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_what_could_not_be_loaded_is_refused_before_training() -> None:
    with pytest.raises(ConfigError, match=r"no word vocabulary of 20 entries: .* over 1,000 char"):
        Tokenizer.train(["a" * 1000], "word", 20)


def test_a_unigram_vocabulary_has_room_for_every_character() -> None:
    with pytest.raises(ConfigError, match="the texts have 5 characters, and 4 tokens are special"):
        Tokenizer.train(["hello"], "unigram", 5)  # the library would search without end
    with pytest.raises(ConfigError, match="no unigram vocabulary of 8 entries"):
        Tokenizer.train(iter(["hello"]), "unigram", 8)
    assert Tokenizer.train(iter(["hello"]), "unigram", 9).size == 9


def test_a_tokenizer_of_the_library_needs_no_plugin_to_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry = registry_with(monkeypatch, BROKEN)
    tokenizer = Tokenizer.train([], {"name": "good", "extra": 3}, 20, registry)
    assert load_tokenizer(saved(tokenizer, tmp_path)).encode(["two one"]) == [[5, 4]]


def test_the_command_line_trains_with_a_package_s_kind(tmp_path: Path) -> None:
    """The run is translated with, and cannot be read once the package is not loaded."""
    put(tmp_path, "syllables", hook_parts("zoo_tokenizers")[2])
    (tmp_path / "pairs.tsv").write_text("".join(f"ba{n}\tbe{n}\n" for n in range(40)))
    out = tmp_path / "out"
    tokenizer = '{"name": "syllables", "vowels": "aeiou"}'
    zoo_command(
        tmp_path, "train", "seq2seq-tiny", "--data", str(tmp_path / "pairs.tsv"), "--out", str(out),
        "--steps", "2", "--set", f"tokenizer={tokenizer}", "--set", "hidden_dim=16",
    )  # fmt: skip
    assert zoo_command(tmp_path, "translate", str(out), "ba7").stdout
    lacking = zoo_command(tmp_path, "--no-plugins", "translate", str(out), "ba7", code=1)
    assert "source.tokenizer.json needs the tokenizer 'syllables': it was written with " in (
        lacking.stderr
    )
    assert "Install zoo-syllables if you trust it" in lacking.stderr
    assert list(default_registry().tokenizers) == ["bpe", "unigram", "word", "char", "byte"]


@pytest.mark.parametrize(("text", "words"), [
    ("我在1992年10月30日用iOS", ["▁我在", "1992", "年", "10", "月", "30", "日用", "iOS"]),
    ("私はTシャツを2枚、", ["▁私は", "T", "シャツを", "2", "枚", "、"]),
    ("๑๒๓บาท 5บาท", ["▁๑๒๓", "บาท", "▁5", "บาท"]),
    ("ខ្ញុំ១២ឆ្នាំ", ["▁ខ្ញុំ", "១២", "ឆ្នាំ"]),
])  # fmt: skip
def test_letters_without_spaces_are_words_apart_from_digits(text: str, words: list[str]) -> None:
    """Otherwise 10月 and 11月 are learned as other words, and no date is right."""
    assert [word for word, _ in cut(WORD).pre_tokenize_str(text)] == words
    tokenizer = Tokenizer.train([text], "bpe", 60)
    assert not any(
        any(map(str.isdigit, token)) and any(map(str.isalpha, token))
        for token in tokenizer.vocabulary()[4:]
    )


@pytest.mark.parametrize("text", [
    "Don't stop, it's x-ray 3rd A4_b.", "안녕3번 10월 30일", "मैं 20का हूँ। २०", "ọlọ́run Ẹ̀kọ́ ʻoʻ",
    "١٢٣ كِتَاب می‌روم", "😀👨‍👩‍👧 a▁b  c\t\u3000d", "Ёлка-12 l·l ﬁ ²½ Ⅷ",
])  # fmt: skip
def test_words_of_other_scripts_are_those_of_earlier_tokenizers(text: str) -> None:
    assert cut(WORD).pre_tokenize_str(text) == cut(WORD_BEFORE).pre_tokenize_str(text)


def cut(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Split(Regex(pattern), "isolated")]
    )
