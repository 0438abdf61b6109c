"""`zoo attention`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from zoo.cli.completion import complete_checkpoint
from zoo.cli.options import (
    NewFile,
    TextCommand,
    device_option,
    json_option,
    source_lang_option,
    target_lang_option,
)
from zoo.cli.output import (
    check_writable,
    console,
    loaded_registry,
    open_output,
    print_json,
    say,
)
from zoo.cli.search import best_search_options
from zoo.cli.translating import load_translator
from zoo.errors import DataError, counted

if TYPE_CHECKING:
    from zoo.translation.attention import Attention, Panel, Selection

SUFFIXES = (".png", ".svg", ".html")


def _selection(
    context: click.Context, option: click.Parameter, value: str | None
) -> Selection | None:
    """Return the number of a layer or a head, `mean` or `all`."""
    words: dict[str | None, Selection | None] = {None: None, "mean": "mean", "all": "all"}
    if value in words:
        return words[value]
    try:
        return int(value or "")
    except ValueError:
        raise DataError(
            f"no {option.name} {value!r}", "it is a number from 1, mean or all"
        ) from None


@click.command(cls=TextCommand)
@click.argument("checkpoint", shell_complete=complete_checkpoint)
@click.argument("text")
@click.option("--target", help="Use this target instead of the model's translation.")
@click.option("--out", type=NewFile(), metavar="FILE",
              help="Write an image (.png, .svg) or an interactive page (.html).")  # fmt: skip
@click.option("--kind", help="cross, encoder, decoder or joint, as far as the model has them.")
@click.option("--layer", callback=_selection, metavar="N", help="A layer from 1, mean or all.")
@click.option("--head", callback=_selection, metavar="N", help="A head from 1, mean or all.")
@source_lang_option
@target_lang_option
@best_search_options
@device_option
@json_option
def attention(
    checkpoint: str,
    text: str,
    target: str | None,
    out: Path | None,
    kind: str | None,
    layer: Selection | None,
    head: Selection | None,
    search: dict[str, Any],
    recommended: bool,
    device: str,
    as_json: bool,
    **languages: str,
) -> None:
    """Show the attention weights of CHECKPOINT while it translates TEXT, read as one sentence.

    The terminal shows cross-attention (target to source), averaged over layers and heads. An image
    has every kind (cross, and encoder and decoder self-attention) and layer, averaged over heads;
    --head all shows each head. A page has menus for them. --kind, --layer and --head select what is
    shown, on a page what is shown first. Layers and heads are counted from 1; layer 1 is next to
    the embeddings.
    """
    suffix = "" if out is None else out.suffix.lower()
    if out is not None and suffix not in SUFFIXES:
        raise DataError(f"cannot draw {out}", "its name must end in .png, .svg or .html")
    if out is not None:
        check_writable(out, stream=False)
    registry = loaded_registry()
    translator = load_translator((checkpoint,), registry, device, languages=languages)
    how = search if recommended else {**search, "recommended": False}
    computed = translator.attention(text, target, **how)
    _note(computed)
    default: Literal["all", "mean"] = "all" if suffix in (".png", ".svg") or as_json else "mean"
    if kind is None and default == "mean":
        kind = next(iter(computed.weights))
    heads: Literal["all", "mean"] = "all" if as_json else "mean"
    panels = computed.panels(
        kind, default if layer is None else layer, heads if head is None else head
    )
    if out is not None:
        from zoo.translation.attention import sentence

        drawn = _drawn(computed, panels, suffix)
        with open_output(out) as file:
            file.write(drawn)
        say(f"{out}: {sentence(computed.target)}")
    if as_json:
        print_json(_record(checkpoint, computed, panels))
    elif out is None:
        from zoo.cli.heatmap import print_heatmap

        for panel in panels:
            print_heatmap(console(), computed, panel)


def _note(computed: Attention) -> None:
    """Say how translation reads the text, where that is not as it is read here."""
    if computed.parts > 1:
        say(
            "Note: the text is read whole here. `zoo translate` reads it in "
            f"{computed.parts} parts (sentences or words, or parts of one that is longer than "
            "those of training), and may translate it differently"
        )
    if computed.respelled:
        say(
            "Note: the text is read as it is here. `zoo translate` reads capitals or marks that "
            "the model hardly knows in the spelling of training"
        )


def _drawn(attention: Attention, panels: list[Panel], suffix: str) -> bytes:
    if suffix == ".html":
        from zoo.translation.attention_page import page

        return page(attention, panels[0]).encode()
    from zoo.translation.attention_picture import draw, undrawn

    if suffix == ".png" and (boxes := undrawn(attention)):
        one = next(filter(str.isalpha, boxes), boxes[0])
        say(
            f"Note: no installed font has {one!r}: {counted(len(boxes), 'character')} of the "
            "sentences can only be drawn as boxes. Install Noto Sans, or write .html or .svg"
        )
    return draw(attention, panels, suffix[1:])


def _record(checkpoint: str, attention: Attention, panels: list[Panel]) -> dict[str, Any]:
    """Return the panels as values for JSON; rows are queries, columns keys."""
    kinds = dict.fromkeys(panel.kind for panel in panels)
    return {
        "checkpoint": checkpoint,
        "source": attention.source,
        "target": attention.target,
        "parts": attention.parts,
        "respelled": attention.respelled,
        "kinds": {kind: attention.describe(kind) for kind in kinds},
        "panels": [
            {
                "kind": panel.kind,
                "layer": panel.layer,
                "head": panel.head,
                "weights": panel.weights.tolist(),
            }
            for panel in panels
        ],
    }
