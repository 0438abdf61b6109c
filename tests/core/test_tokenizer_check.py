"""A tokenizer's file is checked before the library reads it: kinds, bounds, ids, expressions."""

import base64
import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, normalizers, pre_tokenizers, processors

from zoo.data.charsmap import fault_of_charsmap
from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer import Tokenizer
from zoo.data.tokenizer_check import COMPONENTS, faults_of_tokenizer
from zoo.data.tokenizer_kinds import CHARACTER, WORD, WORD_BEFORE
from zoo.data.tokenizer_models import MODELS
from zoo.data.tokenizer_regex import fault_of_regex
from zoo.errors import CheckpointError, DataError

TEXTS = [f"the dog {n}'s snow-white house, der Hund {n} läuft." for n in "abcdefghijk"]
REGEX = tokenizers.Regex
KINDS = ("bpe", "char", "unigram", "word")


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """The JSON of a tokenizer of each kind."""
    return {kind: Tokenizer.train(TEXTS, kind, 60).to_json() for kind in KINDS}


@pytest.fixture
def content(written: dict[str, str]) -> Any:
    return json.loads(written["bpe"])


@pytest.fixture
def load(tmp_path: Path) -> Callable[[Any], Tokenizer]:
    """A function that loads a tokenizer from its JSON."""

    def call(content: Any) -> Tokenizer:
        file = tmp_path / "tokenizer.json"
        text = content if isinstance(content, str) else json.dumps(content)
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        return Tokenizer.load(file)

    return call


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_project_writes_is_accepted(
    written: dict[str, str], load: Callable[[Any], Tokenizer], kind: str
) -> None:
    assert load(written[kind]).to_json() == written[kind]


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""The expression of GPT-2 (Radford et al. 2019)."""
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FOREIGN: dict[str, list[Any]] = {
    "normalizer": [
        normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(),
        normalizers.Nmt(), normalizers.Lowercase(), normalizers.StripAccents(),
        normalizers.Strip(), normalizers.BertNormalizer(), normalizers.ByteLevel(),
        normalizers.Replace(" ", "▁"), normalizers.Replace(REGEX(" {2,}"), "▁"),
        normalizers.Prepend("▁"),
        normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(REGEX(r"\s+"), " ")]),
    ],
    "pre_tokenizer": [
        pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Whitespace(),
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.UnicodeScripts(),
        pre_tokenizers.ByteLevel(), pre_tokenizers.Metaspace(),
        pre_tokenizers.CharDelimiterSplit("|"), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation(), pre_tokenizers.Split(REGEX(GPT2), "isolated"),
        pre_tokenizers.Split(REGEX(CL100K), "removed", invert=True),
        pre_tokenizers.FixedLength(5),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
    ],
    "post_processor": [
        processors.ByteLevel(), processors.BertProcessing(("</s>", 2), ("<s>", 1)),
        processors.RobertaProcessing(("</s>", 2), ("<s>", 1)),
        processors.TemplateProcessing(single="$A </s>", pair="$A $B </s>",
                                      special_tokens=[("</s>", 2)]),
        processors.Sequence([processors.ByteLevel()]),
    ],
    "decoder": [
        decoders.ByteLevel(), decoders.Metaspace(), decoders.BPEDecoder(), decoders.WordPiece(),
        decoders.CTC(),
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                           decoders.Strip(" ", 1, 0)]),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("part", "component"),
    [(part, each) for part, components in FOREIGN.items() for each in components],
    ids=str,
)
def test_foreign_components_are_accepted(
    written: dict[str, str], load: Callable[[Any], Tokenizer], part: str, component: Any
) -> None:
    tokenizer = tokenizers.Tokenizer.from_str(written["bpe"])
    setattr(tokenizer, part, component)
    loaded = load(tokenizer.to_str())
    # Neither begin and end tokens nor padding are the library's business.
    assert loaded.encode(["the dog"])


def growing(replacement: bytes) -> dict[str, str]:
    """Return a character map that replaces the letter a."""
    units = [0] * 1024
    parent, node = 256 ^ ord("a"), 512
    units[0] = 256 << 10
    units[parent] = (parent ^ node) << 10 | 1 << 8 | ord("a")
    units[node] = 1 << 31
    trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    content = len(trie).to_bytes(4, "little") + trie + replacement + b"\0"
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}


REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 64}
ANYWHERE = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}
GROWING: dict[str, tuple[str, str, list[Any]]] = {
    "a map": ("normalizer", "normalizers", [growing(b"a" * 32)]),
    "a form": ("normalizer", "normalizers", [REPLACE, {"type": "NFKC"}]),
    "bytes": ("normalizer", "normalizers", [{"type": "ByteLevel"}] * 2),
    "marks": ("pre_tokenizer", "pretokenizers",
              [ANYWHERE, json.loads(pre_tokenizers.Metaspace().__getstate__())] * 5),
    "a decoder": ("decoder", "decoders", [REPLACE]),
    "an empty suffix": ("decoder", "decoders", [{"type": "BPEDecoder", "suffix": ""}] * 5),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_components_together_may_not_make_a_text_much_longer(
    content: Any, load: Callable[[Any], Tokenizer], name: str
) -> None:
    part, key, components = GROWING[name]
    assert load(put(content, part, {"type": "Sequence", key: components})).encode(["a b"])
    with pytest.raises(CheckpointError, match=f"its {part} may make a text over 256 times longer"):
        load(put(content, part, {"type": "Sequence", key: components * 2}))


def test_every_component_of_the_table_has_an_example() -> None:
    for part, components in FOREIGN.items():
        shown = {json.loads(each.__getstate__())["type"] for each in components}
        inner = {"Precompiled"} | {"Replace", "ByteFallback", "Fuse", "Strip"} & set(
            COMPONENTS[part]
        )
        assert set(COMPONENTS[part]) <= shown | inner


def put(content: Any, path: str, value: Any) -> Any:
    *keys, last = (int(key) if key.isdigit() else key for key in path.split("."))
    inner = content
    for key in keys:
        inner = inner[key]
    inner[last] = value
    return content


def nested(depth: int) -> Any:
    normalizer: Any = {"type": "NFC"}
    for _ in range(depth):
        normalizer = {"type": "Sequence", "normalizers": [normalizer]}
    return normalizer


def replaced(times: int, content: str) -> Any:
    each = {"type": "Replace", "pattern": {"String": "a"}, "content": content}
    return {"type": "Sequence", "normalizers": [each] * times}


def template(**values: Any) -> Any:
    token = {"id": "</s>", "ids": [2], "tokens": ["</s>"]}
    whole = {"single": [], "pair": [], "special_tokens": {"</s>": token}}
    return {"type": "TemplateProcessing", **whole, **values}


HOSTILE: dict[str, tuple[str, Any, str]] = {
    "eight nested replacements": ("normalizer", replaced(8, "a" * 16), "256 times longer"),
    "one replacement of 100 MB": ("normalizer", replaced(1, "a" * 10**6), "0 to 64 characters"),
    "an expression between all": (
        "normalizer",
        {"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "x" * 60}] * 2},
        "times longer",
    ),
    "an endless prefix": ("normalizer", {"type": "Prepend", "prepend": "a" * 10**6}, "prepend"),
    "a charsmap that is no map": (
        "normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "truncated"),
    "a sequence in a sequence": ("normalizer", nested(20), "8 deep"),
    "an unknown type": ("normalizer", {"type": "Run"}, "unknown type 'Run'"),
    "a type that is a list": ("normalizer", {"type": [1]}, "unknown type '[1]'"),
    "a chunk of size zero": ("pre_tokenizer", {"type": "FixedLength", "length": 0}, "from 1 to"),
    "a slow expression": (
        "pre_tokenizer",
        {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False},
        "a quantifier or an alternative is inside a repeated group at character 6",
    ),
    "a template of ten million ids": (
        "post_processor",
        template(special_tokens={"x": {"id": "x", "ids": [1] * 10_000, "tokens": ["x"] * 10_000}}),
        "outside of the vocabulary",
    ),
    "a template of many items": (
        "post_processor", template(single=[{"Sequence": {"id": "A", "type_id": 0}}] * 10_000),
        "single must be a list of up to 64"),
    "an unknown special token": (
        "post_processor", template(single=[{"SpecialToken": {"id": "x", "type_id": 0}}]),
        "unknown special token"),
    "an id beyond the vocabulary": (
        "post_processor",
        {"type": "BertProcessing", "sep": ["</s>", 10**6], "cls": ["<s>", 1]}, "outside"),
    "an id that is no id": (
        "post_processor", {"type": "BertProcessing", "sep": ["</s>", -1], "cls": ["<s>", 1]},
        "sep must be [token, id]"),
    "padding by zero": ("padding", {"pad_to_multiple_of": 0}, "padding must be null"),
    "random merges": ("model.dropout", 0.5, "dropout must be null"),
    "a missing unknown token": ("model.unk_token", "[UNK]", "unk_token is not in the vocabulary"),
    "a merge of no tokens": ("model.merges", [["q", "qq"]], "is not of tokens"),
    "a merge shorter than its prefix": (
        "model", {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]],
                  "continuing_subword_prefix": "##"}, "lacks the prefix"),
    "an id that is missing": (
        "model", {"type": "BPE", "vocab": {**dict(zip(SPECIALS, range(4), strict=True)), "a": 9}},
        "not those from 0 to 4"),
    "an id twice": (
        "model", {"type": "BPE", "vocab": {**dict(zip(SPECIALS, range(4), strict=True)), "a": 3}},
        "not those from 0 to 4"),
    "an id of another type": ("model.vocab", {"a": "0"}, "an object of ids"),
    "an added token with another id": (
        "added_tokens", [{"id": 9, "content": "<s>"}], "'<s>' has two ids"),
    "an added token beyond all": (
        "added_tokens", [{"id": 10**6, "content": "new"}], "are not those from 0"),
    "a model without unknown token": (
        "model", {"type": "WordLevel", "vocab": {"a": 0}}, "unk_token"),
    "a piece twice": ("model", {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0], ["a", 0]]},
                      "'a' is there twice"),
    "a piece without text": ("model", {"type": "Unigram", "unk_id": 0, "vocab": [["", 0]]},
                             "1 to 1,000 characters"),
    "an unknown id": ("model", {"type": "Unigram", "unk_id": 5, "vocab": [["a", 0]]}, "unk_id"),
    "no unknown id": ("model", {"type": "Unigram", "vocab": [["a", 0]], "byte_fallback": True},
                      "bytes are missing"),
    "a score that is no number": (
        "model", {"type": "Unigram", "unk_id": 0, "vocab": [["a", "x"]]}, "must be finite"),
    "a model without type": ("model", {}, "unknown type"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(
    content: Any, load: Callable[[Any], Tokenizer], name: str
) -> None:
    path, value, message = HOSTILE[name]
    with pytest.raises(CheckpointError, match="is not a tokenizer") as caught:
        load(put(content, path, value))
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_all_faults_are_listed_at_once(content: Any) -> None:
    content["padding"] = {}
    content["decoder"] = {"type": "Run"}
    content["model"]["dropout"] = 0.5
    assert len(faults_of_tokenizer(content)) == 3


@pytest.mark.parametrize(
    "pattern",
    [WORD, WORD_BEFORE, CHARACTER, GPT2, CL100K, r"\s+", " {2,}", r"\S+", r"[^\s]+|\s+",
     r"\p{N}{1,3}", "a|b|c", r"(?:ab+)?c", r"[[a-z]&&[^b]]+", r"\w+|[^\w\s]+",
     "(?i:'s|'t)?x"],
)  # fmt: skip
def test_expressions_that_end_in_time_are_accepted(pattern: str) -> None:
    assert fault_of_regex(pattern) == ""


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+", "(a*)*b", "(?:a|b+){9,}", "(a?){30}", ".*.*.*x", "(.*)(.*)(.*)x", r"(a)\1", "a**",
     "(?R)", r"\g<0>", "(?<n>a)", "(a", "a)", "[a", "[]a]", "a{2000}", "\\", "+",
     "(" * 30 + ")" * 30, "(?:(?:a+b)*c)", r"(?:\w|\w)*\.", "(?:a|a){30}", "((a|b)c)+",
     "(?:a{50}){50}", "x" * 2000],
)  # fmt: skip
def test_expressions_that_may_not_end_are_refused(pattern: str) -> None:
    assert fault_of_regex(pattern)


@pytest.fixture(scope="module")
def charsmap() -> bytes:
    """SentencePiece's own map for NFKC."""
    spm = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 9), model_writer=model, vocab_size=40, minloglevel=2,
        normalization_rule_name="nmt_nfkc", hard_vocab_limit=False,
    )  # fmt: skip
    content = model.getvalue()
    # The map is the longest field of the normalizer's settings: it begins with its trie's size.
    proto = pytest.importorskip("sentencepiece.sentencepiece_model_pb2").ModelProto()
    proto.ParseFromString(content)
    return bytes(proto.normalizer_spec.precompiled_charsmap)


def test_the_charsmap_of_sentencepiece_is_accepted(
    charsmap: bytes, content: Any, load: Callable[[Any], Tokenizer]
) -> None:
    encoded = base64.b64encode(charsmap).decode()
    assert fault_of_charsmap(encoded) == ""
    precompiled = {"type": "Precompiled", "precompiled_charsmap": encoded}
    assert load(put(content, "normalizer", precompiled)).encode(["ﬁne ½"])


def test_no_changed_charsmap_that_is_accepted_makes_the_library_fail(
    charsmap: bytes, content: Any, load: Callable[[Any], Tokenizer]
) -> None:
    draw = random.Random(1)
    accepted = 0
    size = int.from_bytes(charsmap[:4], "little")
    for _ in range(60):
        changed = bytearray(charsmap)
        for _ in range(draw.randint(1, 4)):
            changed[draw.randrange(4, 4 + size)] = draw.randrange(256)
        encoded = base64.b64encode(bytes(changed)).decode()
        if fault_of_charsmap(encoded):
            continue
        accepted += 1
        tokenizer = load(put(content, "normalizer", {"type": "Precompiled",
                                                     "precompiled_charsmap": encoded}))  # fmt: skip
        tokenizer.encode(["".join(map(chr, range(32, 0x2000))), "ﬁne ½ ㌀ ﷺ"])
    assert accepted > 5


def test_a_panic_of_the_library_is_an_error(written: dict[str, str]) -> None:
    class PanicException(BaseException):  # the name that the library gives it
        pass

    class Broken:
        def encode_batch_fast(self, texts: list[str]) -> None:
            raise PanicException("index out of range")

    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(written["bpe"]))
    tokenizer._tokenizer = Broken()  # type: ignore[assignment]  # a double
    with pytest.raises(DataError, match="the library has failed: index out of range"):
        tokenizer.encode(["a"])


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of processes is of threads on Linux")
def test_a_limit_of_threads_is_named(written: dict[str, str]) -> None:
    """As of `ulimit -u` or a container's processes: the library panics in training and reading."""
    program = f"""
import os, resource
import tokenizers
from zoo.data.tokenizer import Tokenizer
from zoo.errors import DataError

if not os.geteuid():
    os.setuid(54321)  # the system limits no root
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
read = Tokenizer(tokenizers.Tokenizer.from_str({written["bpe"]!r}))
for use in (lambda: Tokenizer.train(iter(["a b"] * 9), "word", 20), lambda: read.encode(["a"] * 9)):
    try:
        use()
    except DataError as error:
        print(error)
"""
    unset = {k: v for k, v in os.environ.items() if k != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=unset
    )
    line = (
        "the tokenizer cannot start its threads: this process may start no more. Allow more "
        "(`ulimit -u`), or set TOKENIZERS_PARALLELISM=false\n"
    )
    assert done.stdout == 2 * line, done.stderr


def test_all_models_are_written_or_refused_here(written: dict[str, str]) -> None:
    assert set(MODELS) == {json.loads(text)["model"]["type"] for text in written.values()} | {
        "WordPiece"
    }
