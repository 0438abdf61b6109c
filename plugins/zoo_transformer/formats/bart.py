"""BART and Pegasus: folders of transformers."""

from __future__ import annotations

from typing import Any, ClassVar

from zoo.interop import WEIGHT_FILES, ForeignTokenizer
from zoo_transformer.formats.family import Kind, Layout
from zoo_transformer.formats.slow_tokenizers import (
    MERGES,
    VOCABULARY,
    byte_level_pipeline,
    pegasus_names,
)
from zoo_transformer.formats.tokenizer_files import (
    PIPELINE,
    Framing,
    from_pipeline,
    from_sentencepiece,
    pipeline_names,
    read_pipeline,
    special_ids,
)
from zoo_transformer.formats.transformers_folder import (
    JSON_FILES,
    Folder,
    HuggingFaceImporter,
    forced_token,
)
from zoo_transformer.formats.vocabulary import Rows

Pair = tuple[ForeignTokenizer, ForeignTokenizer]

MODEL = "spiece.model"


class Bart(HuggingFaceImporter):
    """Reads BART, whose sources begin and end with special tokens."""

    model_type: ClassVar[str] = "bart"
    tokenizer_classes: ClassVar[tuple[str, ...]] = ("BartTokenizer", "RobertaTokenizer")
    forces: ClassVar[bool] = True
    kind: ClassVar[Kind] = Kind("post", "learned", embedding_norm=True)
    files: ClassVar[tuple[str, ...]] = (*JSON_FILES, PIPELINE, VOCABULARY, MERGES, *WEIGHT_FILES)

    def pipeline(self, folder: Folder) -> dict[str, Any]:
        """Return `tokenizer.json`, or what `vocab.json` and `merges.txt` state."""
        if folder.source.has(PIPELINE) or not folder.source.has(MERGES):
            return read_pipeline(folder)
        if folder.pipeline is None:
            folder.check_added(())
            folder.pipeline = byte_level_pipeline(folder)
        return folder.pipeline

    def names(self, folder: Folder) -> dict[int, str]:
        """Return the text of each entry by its id."""
        return pipeline_names(self.pipeline(folder))

    def unknown(self, folder: Folder) -> int:
        """Return the id of `<unk>`."""
        matched = [i for i, name in self.names(folder).items() if name == "<unk>"]
        folder.reasons.check(len(matched) == 1, "its tokenizer has no <unk>")
        return matched[0] if matched else 3

    def tokenizers(self, folder: Folder, made: Layout, rows: tuple[Rows, Rows]) -> Pair:
        """Return the pipeline with `<s>` before a source, and the forced token before a target."""
        names, cls = self.names(folder), folder.role("cls_token", "<s>")
        begin = next((i for i, name in names.items() if name == cls), -1)
        forced = forced_token(folder)
        content = self.pipeline(folder)
        control = special_ids(content)
        if forced is not None and forced < made.target_vocab and forced not in {begin, *control}:
            folder.reasons.add(
                f"forced_bos_token_id {forced} is a token of text, not a special one"
            )
        folder.reasons.check(
            forced is None or forced not in {made.padding, made.end, self.unknown(folder)},
            f"forced_bos_token_id {forced} is padding, the end or the unknown token",
        )
        frame = folder.frame(content, made.end)
        before = (begin,) if frame is None else frame.before
        if frame is None:
            folder.reasons.check(begin >= 0, f"its vocabulary has no cls_token {cls[:40]!r}")
            folder.check_roles(names, made, "sep_token")
            folder.reasons.raise_if_any()
        source = Framing(prefix=before, control=control)
        # a target of foreign begins with <s> after </s>, from which the decoder starts
        target = Framing(prefix=before if forced is None else (forced,), control=control)
        return (
            from_pipeline(folder, content, rows[0], source, "source"),
            from_pipeline(folder, content, rows[1], target, "target"),
        )


class Pegasus(Bart):
    """Reads Pegasus: no token precedes its sources and targets."""

    model_type: ClassVar[str] = "pegasus"
    tokenizer_classes: ClassVar[tuple[str, ...]] = ("PegasusTokenizer",)
    forces: ClassVar[bool] = False
    kind: ClassVar[Kind] = Kind("pre", "halves", padding=0, start=0, end=1)
    files: ClassVar[tuple[str, ...]] = (*JSON_FILES, PIPELINE, MODEL, *WEIGHT_FILES)

    def names(self, folder: Folder) -> dict[int, str]:
        """Return the text of each entry by its id."""
        if folder.source.has(PIPELINE) or not folder.source.has(MODEL):
            return super().names(folder)
        if folder.names is None:
            folder.names = pegasus_names(folder, MODEL)
        return folder.names

    def tokenizers(self, folder: Folder, made: Layout, rows: tuple[Rows, Rows]) -> Pair:
        """Return one tokenizer for both sides."""
        if folder.source.has(PIPELINE):
            content = self.pipeline(folder)
            frame = folder.frame(content, made.end)
            before = () if frame is None else frame.before
            if frame is None:
                folder.check_roles(self.names(folder), made)
            framing = Framing(prefix=before, control=special_ids(content))
            tokenizer = from_pipeline(folder, content, rows[0], framing, "source")
        else:
            names = self.names(folder)
            control = {i for i, name in names.items() if name.startswith(("<mask_", "<unk_"))}
            framing = Framing(control=control)
            folder.check_added(())
            folder.check_roles(names, made)
            tokenizer = from_sentencepiece(folder, MODEL, rows[0], names, framing, "source")
        return tokenizer, tokenizer
