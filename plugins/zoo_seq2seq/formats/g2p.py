"""Read the model for English pronunciation of the packages g2p-en and espnet-g2p-en.

It is a GRU encoder and a GRU decoder, as torch computes them (a bias on each side, and the reset
gate after the matrix of the state), so that no option is needed. The package computes it in NumPy.
"""

from __future__ import annotations

import io
import string
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from zoo.interop import (
    About,
    ForeignTokenizer,
    Imported,
    Importer,
    Reasons,
    Source,
    TokenizersPipeline,
    Vocabulary,
    read_npz,
)

ARCHIVE = "checkpoint20.npz"
MEMBER = f"g2p_en/{ARCHIVE}"
"""The weights inside the package's wheel."""

WHEEL_LIMIT = 100_000_000
"""The largest size of the weights inside a wheel, in bytes."""

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")

GRAPHEMES = ("<pad>", "<unk>", "</s>", *string.ascii_lowercase)
"""The entries of the package's source vocabulary, by its ids."""

_PHONEMES = """<pad> <unk> <s> </s> AA0 AA1 AA2 AE0 AE1 AE2 AH0 AH1 AH2 AO0 AO1 AO2 AW0 AW1 AW2
AY0 AY1 AY2 B CH D DH EH0 EH1 EH2 ER0 ER1 ER2 EY0 EY1 EY2 F G HH IH0 IH1 IH2 IY0 IY1 IY2 JH K L M N
NG OW0 OW1 OW2 OY0 OY1 OY2 P R S SH T TH UH0 UH1 UH2 UW UW0 UW1 UW2 V W Y Z ZH"""

PHONEMES = tuple(_PHONEMES.split())
"""The entries of the package's target vocabulary, by its ids: the phones of ARPAbet with stress."""

LONGEST = 20
"""The most phones of a pronunciation in the package."""


class G2P(Importer):
    """Reads the weights from the package's wheel, from its `checkpoint20.npz`, or from a folder."""

    files = (ARCHIVE,)

    def recognizes(self, source: Source) -> bool:
        """Return whether there is an archive with the package's name of it."""
        file = _file(source)
        if file is None or not zipfile.is_zipfile(file):
            return False
        if file.name == ARCHIVE:
            return True
        try:
            with zipfile.ZipFile(file) as wheel:
                return MEMBER in wheel.namelist()
        except Exception:  # damaged archives raise many types
            return False

    def read(self, source: Source, options: Mapping[str, str]) -> Imported:
        """Read the weights; the vocabularies are those of the package's code."""
        arrays = _arrays(source)
        sizes = _check(source, arrays)
        source_rows, target_rows = _rows(GRAPHEMES), _rows(PHONEMES)
        weights = {
            "source_embedding.weight": arrays["enc_emb"][source_rows],
            "target_embedding.weight": arrays["dec_emb"][target_rows],
            "output.weight": arrays["fc_w"][target_rows],
            "output.bias": arrays["fc_b"][target_rows],
        }
        for name, short in (("encoder", "enc"), ("decoder", "dec")):
            for kind in ("ih", "hh"):
                weights[f"{name}.weight_{kind}_l0"] = arrays[f"{short}_w_{kind}"]
                weights[f"{name}.bias_{kind}_l0"] = arrays[f"{short}_b_{kind}"]
        embedding_dim, hidden_dim = sizes
        config = {
            "cell": "gru",
            "layers": 1,
            "embedding_dim": embedding_dim,
            "hidden_dim": hidden_dim,
        }
        about = About(
            source_languages=("en",),
            data="CMUdict",
            terms="Apache-2.0",
            decoding={"beam": 1, "max_length": LONGEST},
            examples=("activationist", "transformer"),
            single_words=True,
        )
        return Imported(
            "seq2seq", "g2p", config, weights, _source_tokenizer(), _target_tokenizer(), about
        )


def _file(source: Source) -> Path | None:
    """Return the archive or wheel, if there is one."""
    if source.file is not None:
        return source.file if source.file.suffix in (".npz", ".whl") else None
    return source.path(ARCHIVE) if source.has(ARCHIVE) else None


def _arrays(source: Source) -> dict[str, Tensor]:
    """Return the arrays of the archive, which may be inside a wheel."""
    file = _file(source)
    reasons = Reasons(f"{source} cannot be imported")
    if file is None or not zipfile.is_zipfile(file):
        reasons.add(f"it is neither {ARCHIVE} nor a wheel with {MEMBER}")
        reasons.raise_if_any()
    assert file is not None
    if file.suffix == ".npz":
        return read_npz(file)
    with zipfile.ZipFile(file) as wheel:
        sizes = [info.file_size for info in wheel.infolist() if info.filename == MEMBER]
        reasons.check(len(sizes) == 1, f"it has {len(sizes)} files {MEMBER}, not one")
        reasons.check(max(sizes, default=0) <= WHEEL_LIMIT, f"{MEMBER} is too large")
        reasons.raise_if_any()
        try:
            content = wheel.read(MEMBER)
        except Exception as error:  # damaged archives raise many types
            reasons.add(f"{MEMBER}: {error}")
    reasons.raise_if_any()
    return read_npz(io.BytesIO(content), f"{file}, {MEMBER}")


def _check(source: Source, arrays: Mapping[str, Tensor]) -> tuple[int, int]:
    """Return the widths of embeddings and state, if all arrays are there with their shapes."""
    reasons = Reasons(f"{source} cannot be imported")
    widths = {name: tuple(arrays[name].shape) for name in arrays}
    e, h = (widths.get(name, (0, 0))[-1:] or (0,) for name in ("enc_emb", "enc_w_hh"))
    (embedding_dim,), (hidden_dim,) = e, h
    expected: dict[str, tuple[int, ...]] = {
        "fc_w": (len(PHONEMES), hidden_dim),
        "fc_b": (len(PHONEMES),),
    }
    for short, vocabulary in (("enc", GRAPHEMES), ("dec", PHONEMES)):
        expected |= {
            f"{short}_emb": (len(vocabulary), embedding_dim),
            f"{short}_w_ih": (3 * hidden_dim, embedding_dim),
            f"{short}_w_hh": (3 * hidden_dim, hidden_dim),
            f"{short}_b_ih": (3 * hidden_dim,),
            f"{short}_b_hh": (3 * hidden_dim,),
        }
    for name, shape in expected.items():
        if name not in arrays:
            reasons.add(f"{name} is missing")
        elif widths[name] != shape:
            reasons.add(f"{name} is {widths[name]}, not {shape}")
        elif not arrays[name].is_floating_point():
            reasons.add(f"{name} is of type {arrays[name].dtype}")
    for name in sorted(arrays.keys() - expected.keys()):
        reasons.add(f"{name} is not an array of this model")
    reasons.raise_if_any()
    return embedding_dim, hidden_dim


def _rows(entries: tuple[str, ...]) -> list[int]:
    """Return the package's row of each entry here.

    The source has no begin token; its row, which is never read, is that of the unknown token.
    """
    names = [name if name in entries else "<unk>" for name in SPECIALS]
    names += [name for name in entries if name not in SPECIALS]
    return [entries.index(name) for name in names]


def _tokenizer(tokens: Sequence[str], **parts: Any) -> ForeignTokenizer:
    """Return a tokenizer whose tokens are words of a pipeline of the `tokenizers` library."""
    ids = range(len(tokens))
    model = {
        "type": "WordLevel",
        "vocab": dict(zip(tokens, ids, strict=True)),
        "unk_token": "<unk>",
    }
    vocabulary = Vocabulary(tuple(tokens))
    pipeline = {"version": "1.0", "added_tokens": [], "normalizer": None, **parts, "model": model}
    return ForeignTokenizer(TokenizersPipeline(pipeline, ids, vocabulary), vocabulary)


def _source_tokenizer() -> ForeignTokenizer:
    """Return a tokenizer of letters; case and accents are removed, as the package does."""
    steps = [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    letters = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated",
               "invert": False}  # fmt: skip
    return _tokenizer(
        [*SPECIALS, *string.ascii_lowercase],
        normalizer={"type": "Sequence", "normalizers": steps},
        pre_tokenizer=letters,
        decoder={"type": "Fuse"},
    )


def _target_tokenizer() -> ForeignTokenizer:
    """Return a tokenizer of phones that are separated by spaces."""
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    phones = [f"▁{phone}" for phone in PHONEMES if phone not in SPECIALS]
    return _tokenizer([*SPECIALS, *phones], pre_tokenizer=spaces, decoder=spaces)
