"""The zoo itself as a plugin: the catalogue `registry.toml`, the hubs, engines and ONNX."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from zoo.registry.declarations import Engine, Format, Scheme
from zoo.registry.entries import Augmentation, Initialization, Objective, Optimizer, Schedule
from zoo.registry.hookspecs import hookimpl
from zoo.registry.text_entries import Processor, SearchMethod, Splitter, TokenizerKind

ZOO_API = 2

PACKAGE = Path(__file__).parents[1]


def top() -> Path:
    """Return the folder of `registry.toml`, `cards` and `docs/api-2.md`.

    In a wheel they are inside the package; in an editable install, at the top of the repository.
    """
    return PACKAGE if (PACKAGE / "registry.toml").is_file() else PACKAGE.parent


@hookimpl
def zoo_catalogues() -> Iterable[Path]:
    """Return the catalogue of the built-in models."""
    return [top() / "registry.toml"]


@hookimpl
def zoo_hubs() -> Iterable[Scheme]:
    """Return the built-in hubs."""
    yield Scheme("hf", "the Hugging Face Hub", "zoo.hub.huggingface:HuggingFace")
    yield Scheme("file", "a folder on a local or shared disk", "zoo.hub.folder:Folder")


@hookimpl
def zoo_engines() -> Iterable[Engine]:
    """Return the built-in engines."""
    yield Engine(
        "ctranslate2",
        "CTranslate2: a fast engine for Transformers on a CPU, with a search of its own",
        format="ctranslate2",
        runner="zoo.interop.ctranslate2_runner:CTranslate2",
    )
    yield Engine(
        "onnxruntime",
        "onnxruntime: the zoo's own search over the exported network, for every architecture",
        format="onnx",
        runner="zoo.interop.onnx_runner:OnnxRuntime",
    )


@hookimpl
def zoo_formats() -> Iterable[Format]:
    """Return the formats that need no architecture."""
    yield Format(
        "onnx",
        "ONNX: an encoder and one step of the decoder, for any runtime",
        exporter="zoo.interop.onnx_export:Onnx",
    )


@hookimpl
def zoo_schedules() -> Iterable[Schedule]:
    """Return the built-in schedules."""
    here = "zoo.training.schedule"
    yield Schedule("constant", "a linear warm-up, then constant", f"{here}:Constant")
    yield Schedule("noam", "width^-1/2 times a warm-up and step^-1/2", f"{here}:Noam")
    yield Schedule("inverse_sqrt", "a linear warm-up, then step^-1/2", f"{here}:InverseSqrt")
    yield Schedule("cosine", "a linear warm-up, and a half cosine to zero", f"{here}:Cosine")
    yield Schedule(
        "one_cycle", "a warm-up over a tenth of the run, and a half cosine", f"{here}:OneCycle"
    )


@hookimpl
def zoo_objectives() -> Iterable[Objective]:
    """Return the built-in objectives."""
    here = "zoo.training"
    yield Objective(
        "cross_entropy", "cross-entropy with label smoothing", f"{here}.objective:CrossEntropy"
    )
    yield Objective(
        "r_drop", "cross-entropy, and the divergence of two passes", f"{here}.objective:RDrop"
    )
    yield Objective(
        "distillation",
        "the divergence from the distributions of another checkpoint",
        f"{here}.distillation:Distillation",
    )
    yield Objective(
        "minimum_risk",
        "the expected error of what the network samples",
        f"{here}.minimum_risk:MinimumRisk",
    )


@hookimpl
def zoo_optimizers() -> Iterable[Optimizer]:
    """Return the built-in optimizers."""
    here = "zoo.training.optimizer"
    yield Optimizer("adam", "Adam; weight decay is added to the gradient", f"{here}:adam")
    yield Optimizer("adamw", "Adam with decoupled weight decay", f"{here}:adamw")


@hookimpl
def zoo_initializations() -> Iterable[Initialization]:
    """Return the built-in initializations."""
    here = "zoo.training.initialization"
    yield Initialization("own", "weights as the network draws them", f"{here}:own")
    yield Initialization("xavier", "Xavier (Glorot) uniform matrices", f"{here}:xavier_uniform")


@hookimpl
def zoo_augmentations() -> Iterable[Augmentation]:
    """Return the built-in augmentations."""
    here = "zoo.training.augmentation"
    yield Augmentation(
        "bpe_dropout", "words are segmented differently in each epoch", f"{here}:BPEDropout"
    )
    yield Augmentation(
        "word_dropout", "words that the network reads are unknown", f"{here}:WordDropout"
    )


@hookimpl
def zoo_logits_processors() -> Iterable[Processor]:
    """Return the built-in logits processors that a search can name."""
    here = "zoo.decoding.processors"
    yield Processor("banned-tokens", "never writes these token ids", f"{here}:BannedTokens")
    yield Processor("min-length", "bans the end token before a length", f"{here}:MinimumLength")
    yield Processor("repetition-penalty", "penalizes tokens already written (Keskar et al. 2019)",
                    f"{here}:RepetitionPenalty")  # fmt: skip
    yield Processor("no-repeat-ngrams", "no n tokens in a row twice (Paulus et al. 2018)",
                    f"{here}:NoRepeatNgrams")  # fmt: skip
    yield Processor("coverage-penalty", "ranks by attention to the source (Wu et al. 2016)",
                    f"{here}:CoveragePenalty")  # fmt: skip


@hookimpl
def zoo_searches() -> Iterable[SearchMethod]:
    """Return the built-in searches."""
    yield SearchMethod("greedy", "the best token at each step", "zoo.decoding.greedy:greedy_search")
    yield SearchMethod("beam", "the best continuations of `beam` hypotheses",
                       "zoo.decoding.beam:beam_search")  # fmt: skip
    yield SearchMethod("sampling", "each token drawn at random", "zoo.decoding.sampling:sample")
    yield SearchMethod("exhaustive", "every possible target",
                       "zoo.decoding.exhaustive:exhaustive_search")  # fmt: skip


@hookimpl
def zoo_splitters() -> Iterable[Splitter]:
    """Return the built-in splitters."""
    yield Splitter("sentencex", "the library sentencex, for some 190 languages",
                   "zoo.translation.sentences:Sentencex")  # fmt: skip
    yield Splitter("lines", "at line breaks only", "zoo.translation.sentences:Lines")
    yield Splitter("words", "at white space, for networks trained on single words",
                   "zoo.translation.sentences:Words")  # fmt: skip


@hookimpl
def zoo_tokenizers() -> Iterable[TokenizerKind]:
    """Return the built-in kinds of tokenizer."""
    here = "zoo.data.tokenizer_kinds"
    yield TokenizerKind("bpe", "byte-pair merges (Sennrich et al. 2016)", f"{here}:bpe")
    yield TokenizerKind("unigram", "pieces of a language model (Kudo 2018)", f"{here}:unigram")
    yield TokenizerKind("word", "the most frequent words", f"{here}:word")
    yield TokenizerKind("char", "the most frequent characters", f"{here}:char")
    yield TokenizerKind("byte", "the 256 bytes of UTF-8", "zoo.data.text_tokenizer:ByteLevel")
