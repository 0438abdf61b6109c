"""The kinds of tokenizer of the library `tokenizers`: how each cuts text and learns its vocabulary.

Each is a function of texts and a size, with an entry on the shelf of tokenizers (`zoo_tokenizers`).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from zoo.data.text_tokenizer import SPECIALS
from zoo.data.tokenizer_failures import panics_as_errors
from zoo.errors import ConfigError

UNKNOWN_TOKEN = SPECIALS[3]

# A word is a run of letters and digits, with hyphens and apostrophes inside; any other character is
# a word by itself. ▁ marks the space before either. No token crosses a word boundary; otherwise
# `snow`, `snow.` and `snow,` would be learned as three words. So would 10月, 11月 and 12月: letters
# of scripts without spaces are words apart from digits and other letters, as for SentencePiece.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_LETTER = rf"(?:(?=[{_UNSPACED}&&\D])\w)"
_OTHER = rf"(?:(?![{_UNSPACED}&&\D])\w)"
WORD = rf"▁?{_LETTER}+|▁?{_OTHER}+(?:[-'’]{_OTHER}+)*|▁?[^\w▁]|▁"
WORD_BEFORE = r"▁?\w+(?:[-'’]\w+)*|▁?[^\w▁]|▁"
"""What a word was before: tokenizers of checkpoints have it."""
CHARACTER = r"[\s\S]"


def word(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn the most frequent words."""
    return _word_level(texts, vocab_size, WORD)


def char(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn the most frequent characters."""
    return _word_level(texts, vocab_size, CHARACTER)


def bpe(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn byte-pair merges of characters inside words (Sennrich et al. 2016)."""
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN_TOKEN, fuse_unk=True))
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIALS,
        show_progress=False,
        limit_alphabet=vocab_size - len(SPECIALS),
    )
    return _train(tokenizer, trainer, texts, WORD)


def unigram(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn the pieces of a unigram language model (Kudo 2018).

    The library prunes equally likely pieces in any order, so two trainings may differ.
    """
    trainer = trainers.UnigramTrainer(
        vocab_size=vocab_size,
        special_tokens=SPECIALS,
        show_progress=False,
        unk_token=UNKNOWN_TOKEN,
    )
    bounded = _with_alphabet_below(vocab_size - len(SPECIALS), texts)
    tokenizer = _train(Tokenizer(models.Unigram()), trainer, bounded, WORD)
    # The special tokens become too unlikely for any text to be cut into them.
    description = json.loads(tokenizer.to_str())
    for entry in description["model"]["vocab"][: len(SPECIALS)]:
        entry[1] = -1e9
    return Tokenizer.from_str(json.dumps(description))


def _with_alphabet_below(limit: int, texts: Iterable[str]) -> Iterator[str]:
    """Yield texts; the library keeps every character of them, or searches without end.

    Raises:
        ConfigError: they have more characters than `limit`.
    """
    alphabet = {"▁"}
    for text in texts:
        alphabet.update(unicodedata.normalize("NFC", text).replace(" ", "▁"))
        yield text
    if len(alphabet) > limit:
        raise ConfigError(
            f"no unigram vocabulary of {limit + len(SPECIALS):,} entries",
            f"the texts have {len(alphabet):,} characters, and {len(SPECIALS)} tokens are special",
            "Raise vocab_size",
        )


def _word_level(texts: Iterable[str], vocab_size: int, pattern: str) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN_TOKEN))
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, special_tokens=SPECIALS, show_progress=False
    )
    return _train(tokenizer, trainer, texts, pattern)


def _train(
    tokenizer: Tokenizer, trainer: trainers.Trainer, texts: Iterable[str], pattern: str
) -> Tokenizer:
    """Train a model on texts that are cut at every match of `pattern`."""
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(), pre_tokenizers.Split(Regex(pattern), "isolated")]
    )
    tokenizer.decoder = decoders.Metaspace()
    with panics_as_errors():
        tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
